"""What the compiled kernels are told of a transform: made once for a tree and a precision, and kept with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from fastdl._dispatch import core, load_cuda
from fastdl.scattering._filters import forget_2d

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray
    from fastdl._dispatch import Call
    from fastdl.scattering._roto import Bank
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


def _make(family: Any, tree: Tree, dtype: Any, means: bool) -> Any:
    """Make a plan of an extension, whose functions for scattering are `family`.

    The one for the host asks for filters one at a time, that for devices takes them all.
    """
    one_by_one = family is getattr(core, "scattering", None)
    used = [group for group in tree.groups if group.members]
    kind = family.PlanF32 if dtype == np.float32 else family.PlanF64
    flat = len(tree.shape) == 1
    levels = [(_mean if means else _low_pass)(level) for level in tree.levels]
    places = [
        np.arange(size) if index is None else index
        for index, size in zip(tree.padding, tree.levels[0].shape, strict=True)
    ]
    groups = [
        (
            group.members[0].level,
            [] if one_by_one else [wavelet.psi for wavelet in group.members],
            [tree.channels[wavelet.number,] for wavelet in group.members],
            [] if one_by_one else [wavelet.psi for wavelet in group.followers],
            [wavelet.level for wavelet in group.followers],
            [
                tree.channels[wavelet.number, group.followers[0].number] if group.followers else 0
                for wavelet in group.members
            ],
        )
        for group in used
    ]

    def give(group: int, follower: bool, number: int) -> HostArray:
        return (used[group].followers if follower else used[group].members)[number].psi

    try:
        return kind(
            tree.shape[0],
            1 if flat else tree.shape[1],
            places[0],
            np.zeros(1, np.int64) if flat else places[1],
            len(tree.channels),
            [(axes[0], _ALONE if flat else axes[1]) for axes in levels],
            groups,
            *([give] if one_by_one else []),
        )
    finally:
        forget_2d()


class Plan:
    """A plan of the extension, in the places of an array's argument and of its result."""

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    def forward(self, x: HostArray, out: HostArray) -> None:
        self._native.forward(np.ascontiguousarray(x), out)

    def backward(self, x: HostArray, grad: HostArray, out: HostArray) -> None:
        self._native.vjp(np.ascontiguousarray(x), np.ascontiguousarray(grad), out)


class Unaveraged:
    """A plan of the extension that gives moduli without averages, on the part of each level that is in the signal."""

    __slots__ = ("_levels", "_native", "_parts", "_shapes")

    def __init__(self, native: Any, tree: Tree) -> None:
        self._native = native
        inside = [level.inside for level in tree.levels]
        self._shapes = [tuple(end - first for first, end in part) for part in inside]
        self._parts = [(*part[0], *(part[1] if len(part) > 1 else (0, 1))) for part in inside]
        self._levels = levels_of(tree)

    def rooms(self, call: Call, batch: tuple[int, ...]) -> list[HostArray]:
        """Make room for all paths."""
        return [call.room((*batch, *self._shapes[level])) for level in self._levels]

    def forward(self, x: HostArray, out: list[HostArray]) -> None:
        self._native.moduli(np.ascontiguousarray(x), self._parts, self._levels, out)

    def backward(self, x: HostArray, grads: list[HostArray], out: HostArray) -> None:
        given = [np.ascontiguousarray(grad) for grad in grads]
        self._native.moduli_vjp(np.ascontiguousarray(x), given, self._parts, self._levels, out)


def levels_of(tree: Tree) -> list[int]:
    """Give the level of every channel."""
    levels = [0] * len(tree.channels)
    for group in tree.groups:
        for first in group.members:
            levels[tree.channels[first.number,]] = first.level
            for second in group.followers:
                levels[tree.channels[first.number, second.number]] = second.level
    return levels


def unaveraged_of(tree: Tree, call: Call) -> Unaveraged | None:
    """Give the plan of a tree without averages, or None where only the reference computes it."""
    if call.backend != "native" or core is None or not hasattr(core, "scattering"):
        return None
    known = _plans.setdefault(tree, {})
    key = (np.dtype(call.dtype).name, "moduli")
    if key not in known:
        # Of averages it knows those of the moments, which it shares.
        means: Any = plan_of(tree, call, True)
        known[key] = Unaveraged(means._native, tree)
    return known[key]  # type: ignore[no-any-return]


class DevicePlan:
    """The same for arrays on a CUDA device, whatever their layout."""

    __slots__ = ("_native",)

    def __init__(self, native: Any) -> None:
        self._native = native

    def forward(self, x: Array, out: Array) -> None:
        self._native.forward(x, out)

    def backward(self, x: Array, grad: Array, out: Array) -> None:
        self._native.vjp(x, grad, out)


def plan_of(tree: Tree, call: Call, means: bool) -> Plan | DevicePlan | None:
    """Give the plan of a tree for the backend of a call, or None where only the reference computes it."""
    if call.backend == "native":
        if core is None or not hasattr(core, "scattering"):
            return None
        known = _plans.setdefault(tree, {})
        key: Any = (np.dtype(call.dtype).name, means)
        if key not in known:
            known[key] = Plan(_make(core.scattering, tree, call.dtype, means))
        return known[key]  # type: ignore[no-any-return]
    known = _plans.setdefault(tree, {})
    key = (call.precision.name, means, load_cuda(), call.library.place(call.like)[0])
    if key not in known:
        known[key] = _on_device(lambda family: DevicePlan(_make(family, tree, call.precision, means)), call)
    return known[key]  # type: ignore[no-any-return]


def _on_device(make: Any, call: Call) -> Any:
    """Make something of the CUDA extension on the device of a call; None where it has no kernels for the sizes."""
    try:
        return call.run(load_cuda().scattering, kernel=make)
    except NotImplementedError:
        return None


def _rows_as_kernel(rows: HostArray, step: int) -> Axis:
    """Give kernel, first place, step and count of rows that are each the one before, moved on by `step`."""
    first = rows.shape[1] // 2
    return rows[0, (first - np.arange(rows.shape[1])) % rows.shape[1]], first, step, rows.shape[0]


def roto_plan_of(bank: Bank, call: Call, means: bool) -> Plan:
    """Give the plan of scattering on rotations and translations for the precision of a call."""
    key = (np.dtype(call.dtype).name, means)
    if key not in bank.plans:
        family: Any = core.scattering
        kind = family.RotoPlanF32 if call.dtype == np.float32 else family.RotoPlanF64
        levels = [
            tuple(_rows_as_kernel(axis, 2 ** (bank.J - j)) for axis in rows)
            for j, rows in enumerate(bank.mean if means else bank.low)
        ]
        angular = np.ascontiguousarray(bank.angular[:, :, 0])
        second = list(bank.second) if bank.max_order == 2 else []
        native = kind(*bank.shape, *bank.padding, bank.max_order, levels, *bank.phases, bank.first, second, angular)
        bank.plans[key] = Plan(native)
    return bank.plans[key]  # type: ignore[no-any-return]


_filters: dict[Any, Any] = {}  # of volumes, on devices: those of the last transforms
_MOST_FILTERS = 4


def filters_of(bank: tuple[HostArray, ...], spectra: list[HostArray], size: tuple[int, ...], call: Call) -> Any:
    """Give the filters of volumes, uploaded to the device of a call; None where there are no kernels for the sizes.

    `spectra` are those of `bank`, whose arrays are kept by their maker, so that they are known by their identity.
    """
    key = (load_cuda(), call.library.place(call.like)[0], *map(id, bank))
    if key not in _filters:
        kind = "FiltersF32" if call.precision == np.float32 else "FiltersF64"
        made = _on_device(lambda family: getattr(family, kind)(spectra, list(size)), call)
        while len(_filters) >= _MOST_FILTERS:
            _filters.pop(next(iter(_filters)), None)
        _filters[key] = (made, bank)  # which keeps their identities
    return _filters[key][0]
