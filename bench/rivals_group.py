"""Who fastdl.group is measured against besides layers on the groups of the plane: the formulas in NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import rivals_torch
from cases import group_formulas as formulas
from cases.group import QUOTIENTS
from rivals_torch import _flat, _posed, _tensors

Call = Callable[[], Any]
Maker = Callable[..., Call]


def _formula(name: str) -> Maker:
    """The formula as it stands in the cases: where NumPy has no faster way of writing it."""
    return lambda **inputs: partial(getattr(formulas, name), **inputs)


def _constants(*arrays: np.ndarray) -> list[Any]:
    """Tensors of whole numbers, where the others are."""
    return _tensors(*(np.ascontiguousarray(array) for array in arrays))


# ---- layers for turns by any angle: plain convolutions with filters that were turned beforehand ----
def torch_se2_conv2d(layout: str, x, w, rotations, padding) -> Call:
    filters = formulas.turned(w, rotations, "bilinear", x.ndim == 4).astype(w.dtype)
    call = rivals_torch.conv2d(layout, _flat(x), filters, 1, padding, 1)
    return lambda: call().unflatten(1, (-1, rotations))


def _turn_maps(k: int, rotations: int, dtype: np.dtype) -> np.ndarray:
    """Give what turns filters: (rotations, k², k²), from what becomes of filters that are 1 in one pixel."""
    pixels = np.eye(k * k).reshape(k * k, 1, k, k)
    turned = formulas.turned(pixels, rotations, "bilinear", True).reshape(k * k, rotations, k * k)
    return np.ascontiguousarray(turned.transpose(1, 0, 2), dtype)


def _turned(w: Any, maps: Any, rotations: int, lift: bool, stack: Callable) -> Any:
    """Multiply with the maps, which were made beforehand; of any library."""
    flat = w.reshape(*w.shape[:-2], -1)
    moved = [flat if lift else flat[:, :, [(t - s) % rotations for t in range(rotations)]] for s in range(rotations)]
    parts = stack([part @ turn for part, turn in zip(moved, maps, strict=True)], 1)
    return parts.reshape(w.shape[0] * rotations, -1, *w.shape[-2:])


def numpy_se2_filters(w, rotations, lift) -> Call:
    maps = _turn_maps(w.shape[-1], rotations, w.dtype)
    return lambda: _turned(w, maps, rotations, lift, np.stack)


def torch_se2_filters(w, rotations, lift) -> Call:
    import torch

    filters, maps = _tensors(w, _turn_maps(w.shape[-1], rotations, w.dtype))
    return lambda: _turned(filters, maps, rotations, lift, torch.stack)


# ---- what is moved, and what is joined ----
def torch_act(x, g, group) -> Call:
    (maps,) = _tensors(x)
    quotient = QUOTIENTS[group][g]
    return lambda: _posed(maps[:, :, quotient], group, g).contiguous()


def torch_expand_filters(w, group, lift) -> Call:
    import torch

    (filters,) = _tensors(w)
    shape = (w.shape[0] * len(QUOTIENTS[group]), -1, *w.shape[-2:])

    def call() -> Any:
        parts = [filters if lift else filters[:, :, quotient] for quotient in QUOTIENTS[group]]
        return torch.stack([_posed(part, group, s) for s, part in enumerate(parts)], 1).reshape(shape)

    return call


def _torch_joined(mode: str, axis: int, x: np.ndarray) -> Call:
    import torch

    (values,) = _tensors(x)
    if mode == "l2":
        return lambda: torch.linalg.vector_norm(values, dim=axis)
    function = getattr(torch, "amax" if mode == "max" else mode)
    return lambda: function(values, axis)


def torch_pool(x, mode) -> Call:
    return _torch_joined(mode, 2, x)


def torch_set_pool(x, mode) -> Call:
    return _torch_joined(mode, -2, x)


def torch_permutation_layer(x, lam, gam) -> Call:
    sets, own, shared = _tensors(x, lam, gam)
    return lambda: (sets @ own).add_(sets.sum(-2, keepdim=True) @ shared)


# ---- orbits ----
def _averaging(permutations: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Give the mean of the matrices of all permutations."""
    d = permutations.shape[1]
    counts = np.zeros((d, d))
    for permutation in permutations:
        counts[permutation, np.arange(d)] += 1
    return (counts / len(permutations)).astype(dtype)


def numpy_average_matrix(x, permutations) -> Call:
    """Multiply with one matrix, made beforehand, in place of going through the group."""
    matrix = _averaging(permutations, x.dtype)
    return lambda: x @ matrix


def torch_average(x, permutations) -> Call:
    """Multiply with the same matrix."""
    samples, matrix = _tensors(x, _averaging(permutations, x.dtype))
    return lambda: samples @ matrix


def torch_orbit_gramian(t, permutations) -> Call:
    (template,) = _tensors(t)
    (orders,) = _constants(permutations)

    def call() -> Any:
        orbit = template[orders]
        return orbit @ orbit.T

    return call


def _regularizer(W: Any, sigma: float, exp: Callable[[Any], Any]) -> Call:
    """Take all pairs of a column and an entry at once for each column of the Gramian; of any library.

    The sum is symmetric in its two places, so the slope of an entry is twice that of its first.
    """
    n = W.shape[1]

    def call() -> Any:
        gramian = W.T @ W
        value, slopes = 0.0, gramian * 0
        for i in range(n):
            difference = gramian[:, i][:, None, None] - gramian  # k, l, j
            terms = exp(-((difference / sigma) ** 2))
            over_all, same = terms.sum(), terms[:, :, i].sum()
            value = value + n * same - over_all
            terms *= difference
            slopes[:, i] = n * terms[:, :, i].sum(1) - terms.sum((1, 2))
        slopes *= -4 / sigma**2
        return value, W @ (slopes + slopes.T)

    return call


def numpy_orbit_regularizer(W, sigma) -> Call:
    return _regularizer(W, sigma, np.exp)


def torch_orbit_regularizer(W, sigma) -> Call:
    (weights,) = _tensors(W)
    return _regularizer(weights, sigma, lambda t: t.exp_())


_LAYERS = {
    "torch": partial(torch_se2_conv2d, "contiguous_format"),
    "torch nhwc": partial(torch_se2_conv2d, "channels_last"),
}

# By function: name in the tables, and maker.
MAKERS: dict[str, dict[str, Maker]] = {
    "se2_conv2d": _LAYERS,
    "se2_lift_conv2d": _LAYERS,
    "se2_filters": {"numpy": numpy_se2_filters, "torch": torch_se2_filters},
    "act": {"numpy": _formula("act"), "torch": torch_act},
    "expand_filters": {"numpy": _formula("expand_filters"), "torch": torch_expand_filters},
    "pool": {"numpy": _formula("pool"), "torch": torch_pool},
    "set_pool": {"numpy": _formula("set_pool"), "torch": torch_set_pool},
    "permutation_layer": {"numpy": _formula("permutation_layer"), "torch": torch_permutation_layer},
    "average": {"numpy": _formula("average"), "numpy matrix": numpy_average_matrix, "torch": torch_average},
    "orbit_gramian": {"numpy": _formula("orbit_gramian"), "torch": torch_orbit_gramian},
    "orbit_regularizer": {"numpy": numpy_orbit_regularizer, "torch": torch_orbit_regularizer},
}
