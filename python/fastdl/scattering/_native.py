"""What the compiled kernels are told of a transform: made once for a tree and a precision, and kept with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from fastdl._dispatch import core

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl.scattering._tree import Level, Tree

    Axis = tuple[HostArray, int, int, int]

_plans: WeakKeyDictionary[Tree, dict[Any, Any]] = WeakKeyDictionary()
_ALONE: Axis = (np.ones(1), 0, 1, 1)  # along an axis that signals do not have


def _low_pass(level: Level) -> list[Axis]:
    """Give kernel, first place, step and count along each axis of the low-pass, which is a product of such kernels."""
    centre = level.phi.reshape(-1)[0]
    axes = []
    for axis, (first, end) in enumerate(level.crop):
        line = np.moveaxis(level.phi, axis, 0).reshape(level.shape[axis], -1)[:, 0]
        if axis:
            line = line / centre
        axes.append((np.fft.ifft(line).real, first * level.step, level.step, end - first))
    return axes


def _mean(level: Level) -> list[Axis]:
    """Give the same for the mean over the signal."""
    axes = []
    for size, (first, end) in zip(level.shape, level.inside, strict=True):
        kernel = np.zeros(size)
        kernel[: end - first] = 1 / (end - first)
        axes.append((kernel, end - 1, 1, 1))
    return axes


def _make(tree: Tree, dtype: Any, means: bool) -> Any:
    kind = core.scattering.PlanF32 if dtype == np.float32 else core.scattering.PlanF64
    flat = len(tree.shape) == 1
    levels = [(_mean if means else _low_pass)(level) for level in tree.levels]
    places = [
        np.arange(size) if index is None else index
        for index, size in zip(tree.padding, tree.levels[0].shape, strict=True)
    ]
    groups = [
        (
            group.members[0].level,
            [wavelet.psi for wavelet in group.members],
            [tree.channels[wavelet.number,] for wavelet in group.members],
            [wavelet.psi for wavelet in group.followers],
            [wavelet.level for wavelet in group.followers],
            [
                tree.channels[wavelet.number, group.followers[0].number] if group.followers else 0
                for wavelet in group.members
            ],
        )
        for group in tree.groups
        if group.members
    ]
    return kind(
        tree.shape[0],
        1 if flat else tree.shape[1],
        places[0],
        np.zeros(1, np.int64) if flat else places[1],
        len(tree.channels),
        [(axes[0], _ALONE if flat else axes[1]) for axes in levels],
        groups,
    )


class Plan:
    """A plan of the extension, in the places of an array's argument and of its result."""

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    def forward(self, x: HostArray, out: HostArray) -> None:
        self._native.forward(np.ascontiguousarray(x), out)

    def backward(self, x: HostArray, grad: HostArray, out: HostArray) -> None:
        self._native.vjp(np.ascontiguousarray(x), np.ascontiguousarray(grad), out)


def plan_of(tree: Tree, dtype: Any, means: bool) -> Plan | None:
    """Give the plan of a tree, or None where only the reference computes it."""
    if core is None or not hasattr(core, "scattering"):
        return None
    known = _plans.setdefault(tree, {})
    key = (np.dtype(dtype).name, means)
    if key not in known:
        known[key] = Plan(_make(tree, dtype, means))
    return known[key]  # type: ignore[no-any-return]
