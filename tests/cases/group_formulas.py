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
