"""Layers on groups of the plane: inputs, their formulas in more precision, and how far a result may be off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

# The tables s⁻¹t as the literature has them.
QUOTIENTS = {
    "p4": "0123/3012/2301/1230",
    "p4m": "01234567/30125674/23016745/12307456/45670123/56743012/67452301/74561230",
    "p2": "01/10",
    "pm": "01/10",
}
QUOTIENTS = {name: [[int(c) for c in row] for row in text.split("/")] for name, text in QUOTIENTS.items()}
GROUPS = tuple(QUOTIENTS)

# Batch, input and output channels, height and width, side of the filters, stride, padding.
SHAPES = (
    (1, 1, 1, 1, 1, 1, 1, 0),
    (2, 1, 2, 5, 5, 3, 1, 1),
    (1, 3, 5, 8, 8, 3, 1, 0),
    (2, 2, 7, 9, 9, 2, 1, 1),
    (1, 5, 6, 7, 7, 5, 1, 2),
    (2, 3, 4, 16, 16, 3, 1, 1),
    (1, 4, 13, 33, 33, 3, 2, 1),
    (2, 2, 3, 10, 10, 4, 2, 1),
    (1, 2, 3, 11, 6, 3, 1, 1),
    (1, 17, 3, 6, 6, 3, 1, 2),
    (1, 2, 3, 13, 13, 3, 3, 4),
    (3, 1, 1, 4, 4, 4, 1, 0),
    (1, 33, 8, 4, 4, 5, 1, 2),
)
EMPTY = (
    (0, 2, 3, 4, 4, 3, 1, 1),
    (2, 0, 3, 4, 4, 3, 1, 1),
    (2, 2, 0, 4, 4, 3, 1, 1),
)


def order(group):
    return len(QUOTIENTS[group])


def pose(w, group, s):
    """A_s of the last two axes: turned, then flipped."""
    turns = 2 * s if group == "p2" else 0 if group == "pm" else s % 4
    flips = s if group == "pm" else s // 4 if group == "p4m" else 0
    w = np.rot90(w, turns, (-2, -1))
    return w[..., ::-1, :] if flips else w


def draw(rng, shape, group, lift, dtype):
    """Input, filters, bias."""
    n, cin, cout, height, width, k, _, _ = shape
    elements = () if lift else (order(group),)
    x = rng.standard_normal((n, cin, *elements, height, width)).astype(dtype)
    w = rng.standard_normal((cout, cin, *elements, k, k)).astype(dtype)
    return x, w, rng.standard_normal(cout).astype(dtype)


def _windows(x, k, stride, padding):
    margin = [(0, 0)] * (x.ndim - 2) + [(padding, padding)] * 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, margin), (k, k), axis=(-2, -1))
    return windows[..., ::stride, ::stride, :, :]


def _filters(w, group, lift):
    """The filters of every element s, with an axis of elements t: (o, c, t, i, j)."""
    return [pose(w[:, :, None] if lift else w[:, :, QUOTIENTS[group][s]], group, s) for s in range(order(group))]


def layer(x, w, bias, group, stride, padding, lift):
    """The formula of the layer, from views of windows, in float64."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    windows = _windows(x[:, :, None] if lift else x, w.shape[-1], stride, padding)
    parts = [np.einsum("ncthwij,octij->nohw", windows, f, optimize=True) for f in _filters(w, group, lift)]
    y = np.stack(parts, axis=2)
    return y if bias is None else y + bias.astype(np.float64)[:, None, None, None]


def gradients(x, w, grad, group, stride, padding, lift):
    """The transposed formula: what of the sum of grad and the layer falls on every element of x and of w."""
    x, w, grad = (array.astype(np.float64) for array in (x, w, grad))
    maps, k = x[:, :, None] if lift else x, w.shape[-1]
    windows = _windows(maps, k, stride, padding)
    padded = np.zeros((*maps.shape[:3], *(n + 2 * padding for n in maps.shape[3:])))
    height, width = grad.shape[3:]
    dw = np.zeros_like(w[:, :, None] if lift else w)
    for s, f in enumerate(_filters(w, group, lift)):
        inverse = QUOTIENTS[group][s][0]
        plain = pose(np.einsum("ncthwij,nohw->octij", windows, grad[:, :, s], optimize=True), group, inverse)
        dw[:, :, slice(None) if lift else QUOTIENTS[group][s]] += plain
        for i, j in np.ndindex(k, k):
            part = np.einsum("nohw,oct->ncthw", grad[:, :, s], f[..., i, j], optimize=True)
            padded[..., i : i + stride * height : stride, j : j + stride * width : stride][..., :height, :width] += part
    inner = tuple(slice(padding, padding + n) for n in maps.shape[3:])
    dx = padded[(..., *inner)]
    return (dx[:, :, 0], dw[:, :, 0]) if lift else (dx, dw)


def tolerance(x, w, bias, group, stride, padding, lift):
    """How far a layer may be off: roundings of sums of all its terms, of the largest sum of their sizes.

    The algorithms mix the elements of an orbit and the pixels of a tile before they sum, but no others.
    """
    sizes = layer(abs(x), abs(w), None if bias is None else abs(bias), group, stride, padding, lift)
    return _roundings(np.prod(w.shape[1:]), x.dtype) * float(sizes.max(initial=0))


def _roundings(terms, dtype):
    return 4 * (float(terms) + 8) * np.finfo(dtype).eps


@dataclass(frozen=True)
class Expected:
    """A layer and its gradients with all that they give, and how far each may be off."""

    shape: tuple[int, ...]
    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray
    grad: np.ndarray
    y: np.ndarray
    dx: np.ndarray
    dw: np.ndarray
    tolerances: tuple[float, float, float]


@cache
def expected(group, lift, dtype):
    """All shapes, computed once for every level and algorithm."""
    rng = np.random.default_rng(5)
    made = []
    for shape in SHAPES:
        x, w, bias = draw(rng, shape, group, lift, dtype)
        options = (group, *shape[-2:], lift)
        y = layer(x, w, bias, *options)
        grad = rng.standard_normal(y.shape).astype(dtype)
        dx, dw = gradients(x, w, grad, *options)
        of_x, of_w = gradients(abs(x), abs(w), abs(grad), *options)
        terms = (w.size / w.shape[1] * order(group), grad.size / grad.shape[1])
        allowed = [_roundings(n, dtype) * float(a.max()) for n, a in zip(terms, (of_x, of_w), strict=True)]
        made.append(Expected(shape, x, w, bias, grad, y, dx, dw, (tolerance(x, w, bias, *options), *allowed)))
    return made


# The permutations of three things, S3, over e, a, b, c, d, f.
S3_NAMES = "eabcdf"
S3 = [[S3_NAMES.index(c) for c in row] for row in ["eabcdf", "aedfbc", "bfedca", "cdfeab", "dcabfe", "fbcaed"]]


def rotations_and_flips(n):
    """The dihedral group of 2n elements as permutations of n points on a circle."""
    i = np.arange(n)
    return np.array([np.roll(i, r) for r in range(n)] + [np.roll(i[::-1], r) for r in range(n)])
