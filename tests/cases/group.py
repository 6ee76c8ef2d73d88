"""Layers on groups of the plane: inputs, their formulas in more precision, and how far a result may be off."""

from __future__ import annotations

import numpy as np

from cases import wide

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
EMPTY = ((0, 2, 3, 4, 4, 3, 1, 1), (2, 0, 3, 4, 4, 3, 1, 1), (2, 2, 0, 4, 4, 3, 1, 1))


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


def layer(x, w, bias, group, stride, padding, lift):
    """The formula of the layer, from views of windows."""
    x, w = wide(x), wide(w)
    k = w.shape[-1]
    margin = [(0, 0)] * (x.ndim - 2) + [(padding, padding)] * 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, margin), (k, k), axis=(-2, -1))
    windows = windows[..., ::stride, ::stride, :, :]
    parts = []
    for s in range(order(group)):
        if lift:
            parts.append(np.einsum("nchwij,ocij->nohw", windows, pose(w, group, s)))
        else:
            parts.append(np.einsum("ncthwij,octij->nohw", windows, pose(w[:, :, QUOTIENTS[group][s]], group, s)))
    y = np.stack(parts, axis=2)
    return y if bias is None else y + wide(bias)[:, None, None, None]


def tolerance(x, w, bias, group, stride, padding, lift):
    """How far a layer may be off: roundings of sums of all its terms, of the largest sum of their sizes.

    The algorithms mix the elements of an orbit and the pixels of a tile before they sum, but no others.
    """
    terms = int(np.prod(w.shape[1:]))
    sizes = layer(abs(x), abs(w), None if bias is None else abs(bias), group, stride, padding, lift)
    return 4 * (terms + 8) * np.finfo(x.dtype).eps * float(sizes.max(initial=0))


# The permutations of three things, S3, over e, a, b, c, d, f.
S3_NAMES = "eabcdf"
S3 = [[S3_NAMES.index(c) for c in row] for row in ["eabcdf", "aedfbc", "bfedca", "cdfeab", "dcabfe", "fbcaed"]]


def rotations_and_flips(n):
    """The dihedral group of 2n elements as permutations of n points on a circle."""
    i = np.arange(n)
    return np.array([np.roll(i, r) for r in range(n)] + [np.roll(i[::-1], r) for r in range(n)])
