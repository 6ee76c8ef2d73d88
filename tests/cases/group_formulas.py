"""What of fastdl.group is benchmarked, in plain NumPy, with error bounds: layers go by expanded filters."""

from __future__ import annotations

import math

import numpy as np

from cases import conv_formulas
from cases.group import QUOTIENTS, order, pose


# ---- layers: filters (Cout, Cin, |G|, k, k), or (Cout, Cin, k, k) where they lift ----
def expanded(w, group):
    """Give filters (Cout |G|, Cin |G|, k, k): A_s w[o, i, s⁻¹t]; where they lift (Cout |G|, Cin, k, k): A_s w[o, i]."""
    parts = [pose(w if w.ndim == 4 else w[:, :, QUOTIENTS[group][s]], group, s) for s in range(order(group))]
    k = w.shape[-1]
    return np.stack(parts, axis=1).reshape(w.shape[0] * len(parts), math.prod(w.shape[1:-2]), k, k)


def gathered(plain, weight_size, group):
    """Give dw[o, i, u] = Σ_s A_{s⁻¹} G[o, s, i, su] of the gradient G for the expanded filters."""
    total = np.zeros(weight_size, plain.dtype)
    plain = plain.reshape(weight_size[0], order(group), *weight_size[1:])
    for s, quotient in enumerate(QUOTIENTS[group]):
        products = slice(None) if len(weight_size) == 4 else np.argsort(quotient)  # s⁻¹t = u where t = su
        total += pose(plain[:, s][:, :, products], group, quotient[0])
    return total


def _flat(maps):
    return maps.reshape(maps.shape[0], -1, *maps.shape[-2:])


def _split(maps, group):
    return maps.reshape(maps.shape[0], -1, order(group), *maps.shape[2:])


def _flat_size(size):
    return (size[0], math.prod(size[1:-2]), *size[-2:])


def _expanded_size(size, group):
    return (size[0] * order(group), *_flat_size(size)[1:])


def conv2d(x, w, group="p4", stride=1, padding=0):
    return _split(conv_formulas.conv2d(_flat(x), expanded(w, group), stride, padding), group)


def conv2d_input(input_size, w, grad, group="p4", stride=1, padding=0):
    shape = _flat_size(input_size)
    found = conv_formulas.conv2d_input(shape, expanded(w, group), _flat(grad), stride, padding)
    return found.reshape(input_size)


def conv2d_weight(x, weight_size, grad, group="p4", stride=1, padding=0):
    shape = _expanded_size(weight_size, group)
    return gathered(conv_formulas.conv2d_weight(_flat(x), shape, _flat(grad), stride, padding), weight_size, group)


# Orbits mix the elements of the group, whose filters have one norm and meet the same windows.
def conv2d_bound(eps, x, w, group="p4", stride=1, padding=0):
    return _split(conv_formulas.conv2d_bound(eps, _flat(x), expanded(w, group), stride, padding), group)


def conv2d_input_bound(eps, input_size, w, grad, group="p4", stride=1, padding=0):
    shape = _flat_size(input_size)
    found = conv_formulas.conv2d_input_bound(eps, shape, expanded(w, group), _flat(grad), stride, padding)
    return found.reshape(input_size)


def conv2d_weight_bound(eps, x, weight_size, grad, group="p4", stride=1, padding=0):
    shape = _expanded_size(weight_size, group)
    plain = conv_formulas.conv2d_weight_bound(eps, _flat(x), shape, _flat(grad), stride, padding)
    return gathered(plain, weight_size, group)


lift_conv2d, lift_conv2d_input, lift_conv2d_weight = conv2d, conv2d_input, conv2d_weight
lift_conv2d_bound, lift_conv2d_input_bound, lift_conv2d_weight_bound = (
    conv2d_bound,
    conv2d_input_bound,
    conv2d_weight_bound,
)


# ---- turns by any angle: filters (Cout, Cin, rotations, k, k), or (Cout, Cin, k, k) where they lift ----
def turned(w, rotations, interpolation, lift):
    """Give filters in all their poses, by cosines and weights that are computed in the type of the filters."""
    k, kind = w.shape[-1], w.dtype.type
    middle = kind(k - 1) / 2
    offsets = np.arange(k).astype(w.dtype) - middle
    up, right = -offsets[:, None], offsets[None, :]
    inside = np.hypot(up, right) <= kind(k) / 2
    pi = np.arccos(kind(-1))
    parts = []
    for s in range(rotations):
        c, d = np.cos(2 * pi * s / rotations), np.sin(2 * pi * s / rotations)
        if 4 * s % rotations == 0:
            c, d = np.round(c), np.round(d)
        row, column = middle - (c * up - d * right), c * right + d * up + middle
        weights = [_weight(place[..., None] - np.arange(k), interpolation) for place in (row, column)]
        values = w if lift else w[:, :, (np.arange(rotations) - s) % rotations]
        moved = np.einsum("ija,ijb,...ab->...ij", *weights, values * inside, optimize=True)
        parts.append(moved * inside)
    return np.stack(parts, axis=1).reshape(w.shape[0] * rotations, -1, k, k)


def _weight(distance, interpolation):
    """Interpolate linearly, or by Keys' cubic."""
    t = np.abs(distance)
    if interpolation == "bilinear":
        return np.maximum(0, 1 - t)
    near = (1.5 * t - 2.5) * t * t + 1
    far = ((-0.5 * t + 2.5) * t - 4) * t + 2
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def se2_filters(w, rotations, lift=False):
    return turned(w, rotations, "bilinear", lift)


def _weights_off(w):
    """Bound what rounded weights make of a turned filter, in units of eps: twelve times its side and largest element.

    A pixel comes from a place that is off by 2 k, as both weights along an axis are, or three at a border of pixels.
    """
    return 12 * w.shape[-1] * float(np.abs(w).max())


def se2_filters_bound(eps, w, rotations, lift=False):
    sizes = turned(np.abs(w), rotations, "bilinear", lift)
    return eps * (conv_formulas._roundings(4) * sizes + _weights_off(w))


def se2_conv2d(x, w, rotations, stride=1, padding=0):
    found = conv_formulas.conv2d(_flat(x), turned(w, rotations, "bilinear", x.ndim == 4), stride, padding)
    return found.reshape(x.shape[0], w.shape[0], rotations, *found.shape[2:])


def se2_conv2d_bound(eps, x, w, rotations, stride=1, padding=0):
    """Allow the sum its roundings, and the filters theirs and those of their weights."""
    sizes = turned(np.abs(w), rotations, "bilinear", x.ndim == 4)
    off = _weights_off(w) / conv_formulas._roundings(math.prod(sizes.shape[1:]))
    found = conv_formulas.conv2d_bound(eps, _flat(x), 2 * sizes + off, stride, padding)
    return found.reshape(x.shape[0], w.shape[0], rotations, *found.shape[2:])


se2_lift_conv2d, se2_lift_conv2d_bound = se2_conv2d, se2_conv2d_bound


# ---- what is moved, and what is joined ----
def act(x, g, group):
    """Give f(g⁻¹t, g⁻¹p)."""
    return np.ascontiguousarray(pose(x[:, :, QUOTIENTS[group][g]], group, g))


def act_bound(eps, x, g, group):
    return np.zeros(act(x[:1, :1], g, group).shape[2:]) + np.zeros((*x.shape[:2], 1, 1, 1))


def expand_filters(w, group, lift=False):
    return expanded(w, group)


def expand_filters_bound(eps, w, group, lift=False):
    return np.zeros(expanded(w, group).shape)


def pool(x, mode):
    if mode == "l2":
        return np.sqrt(np.square(x).sum(axis=2))
    return getattr(x, mode)(axis=2)


def _pool_bound(eps, x, mode, joined, axis):
    """No maximum is rounded."""
    sizes = joined(np.abs(x), mode)
    return np.zeros(sizes.shape) if mode == "max" else eps * conv_formulas._roundings(x.shape[axis]) * sizes


def pool_bound(eps, x, mode):
    return _pool_bound(eps, x, mode, pool, 2)


def set_pool(x, mode):
    return getattr(x, mode)(axis=-2)


def set_pool_bound(eps, x, mode):
    return _pool_bound(eps, x, mode, set_pool, -2)


def permutation_layer(x, lam, gam):
    return x @ lam + x.sum(axis=-2, keepdims=True) @ gam


def permutation_layer_bound(eps, x, lam, gam):
    """Allow both products their roundings, and the second one those of the sums that it is of."""
    n, channels = x.shape[-2:]
    products = np.abs(x) @ np.abs(lam) + np.abs(x.sum(axis=-2, keepdims=True)) @ np.abs(gam)
    sums = np.abs(x).sum(axis=-2, keepdims=True) @ np.abs(gam)
    return eps * (conv_formulas._roundings(2 * channels) * products + conv_formulas._roundings(n) * sums)


# ---- functions on finite groups: f of shape (count, order), h of (order,) or (count, order) ----
def _norms(array, axis=-1):
    return np.linalg.norm(array.astype(np.float64), axis=axis, keepdims=True)


def convolve(f, h, group):
    """Sum f(w) h(w⁻¹u) over w."""
    quotient = group.table[group.inverse]
    if h.ndim == 1:
        return f @ h[quotient]
    return np.stack([one @ other[quotient] for one, other in zip(f, h, strict=True)])


def convolve_bound(eps, f, h, group):
    bound = eps * conv_formulas._roundings(group.order) * _norms(f) * _norms(h)
    return np.broadcast_to(bound, f.shape)


# ---- signatures with sigmoids ----
def signature(x, templates, permutations, thresholds, nonlinearity):
    assert nonlinearity == "sigmoid"
    products = np.stack([x @ templates[:, order].T for order in permutations])
    return np.stack([(1 / (1 + np.exp(b - products))).sum(axis=0) for b in thresholds], axis=-1)


def signature_bound(eps, x, templates, permutations, thresholds, nonlinearity):
    """A sigmoid has a slope of 1/4 at most; then there are its own roundings, and those of the sum."""
    d, count = x.shape[1], len(permutations)
    products = conv_formulas._roundings(d) * _norms(x) * _norms(templates).T
    each = products / 4 + 4 + conv_formulas._roundings(count)
    return np.repeat((eps * count * each)[..., None], len(thresholds), axis=-1)


# ---- orbits ----
def average(x, permutations):
    total = np.zeros_like(x)
    for permutation in permutations:
        total += x[..., permutation]
    return total / x.dtype.type(len(permutations))


def average_bound(eps, x, permutations):
    return eps * conv_formulas._roundings(len(permutations)) * average(np.abs(x), permutations)


def orbit_gramian(t, permutations):
    orbit = t[permutations]
    return orbit @ orbit.T


def orbit_gramian_bound(eps, t, permutations):
    """The elements of an orbit have one norm."""
    square = float(np.sum(np.square(t, dtype=np.float64)))
    return np.full((len(permutations), len(permutations)), eps * conv_formulas._roundings(len(t)) * square)


def orbit_regularizer(W, sigma):
    """Give the sum over all i, j, k, l, a pair of i and j at a time, and its gradient."""
    n = W.shape[1]
    gramian = W.T @ W
    value, slopes = W.dtype.type(0), np.zeros_like(gramian)
    for i, j in np.ndindex(n, n):
        difference = gramian[:, i, None] - gramian[None, :, j]
        terms = np.exp(-np.square(difference / sigma)) * (n * (i == j) - 1)
        value += terms.sum()
        change = -2 / sigma**2 * difference * terms
        slopes[:, i] += change.sum(axis=1)
        slopes[:, j] -= change.sum(axis=0)
    return value, W @ (slopes + slopes.T)


def orbit_regularizer_bound(eps, W, sigma):
    """Of exp(-u²/σ²) no slope is above 0.86 / σ and no curvature above 2 / σ²; u is off by the products in it.

    The factors n δ_ij - 1 sum up to 2 (n - 1) n in size over i and j.
    """
    d, n = W.shape
    rounded = eps * conv_formulas._roundings(n * n)
    lengths = _norms(W.T)[:, 0]
    off = 2 * eps * conv_formulas._roundings(d) * float(lengths.max()) ** 2
    value = 2.0 * (n - 1) * n**3 * (rounded + 0.86 / sigma * off)
    # Of an element of the Gramian, which is in both places.
    slope = 2 * 2.0 * (n - 1) * n * (0.86 / sigma * rounded + 2 / sigma**2 * off)
    # Twice for the transpose, and as much again for the product with W.
    gradient = 4 * slope * np.abs(W).sum(axis=1, keepdims=True)
    return value, np.broadcast_to(gradient, W.shape)
