"""The layers of fastdl.group that are benchmarked, as plain convolutions with filters written out, and error bounds."""

from __future__ import annotations

import numpy as np

from cases import conv_formulas
from cases.group import QUOTIENTS, order, pose


def expanded(w, group):
    """Give filters (Cout |G|, Cin |G|, k, k): A_s w[o, i, s⁻¹t]."""
    parts = [pose(w[:, :, QUOTIENTS[group][s]], group, s) for s in range(order(group))]
    count = len(parts)
    return np.stack(parts, axis=1).reshape(w.shape[0] * count, w.shape[1] * count, *w.shape[3:])


def gathered(plain, weight_size, group):
    """Give dw[o, i, u] = Σ_s A_{s⁻¹} G[o, s, i, su] of the gradient G for the expanded filters."""
    outputs, inputs, count, k, _ = weight_size
    plain = plain.reshape(outputs, count, inputs, count, k, k)
    total = np.zeros(weight_size, plain.dtype)
    for s, quotient in enumerate(QUOTIENTS[group]):
        inverse = QUOTIENTS[group][s][0]
        products = np.argsort(quotient)  # s⁻¹t = u where t = su
        total += pose(plain[:, s][:, :, products], group, inverse)
    return total


def _flat(maps):
    return maps.reshape(maps.shape[0], -1, *maps.shape[3:])


def _split(maps, group):
    return maps.reshape(maps.shape[0], -1, order(group), *maps.shape[2:])


def conv2d(x, w, group="p4", stride=1, padding=0):
    return _split(conv_formulas.conv2d(_flat(x), expanded(w, group), stride, padding), group)


def conv2d_input(input_size, w, grad, group="p4", stride=1, padding=0):
    n, channels, count, *size = input_size
    shape = (n, channels * count, *size)
    return _split(conv_formulas.conv2d_input(shape, expanded(w, group), _flat(grad), stride, padding), group)


def conv2d_weight(x, weight_size, grad, group="p4", stride=1, padding=0):
    outputs, inputs, count, k, _ = weight_size
    shape = (outputs * count, inputs * count, k, k)
    plain = conv_formulas.conv2d_weight(_flat(x), shape, _flat(grad), stride, padding)
    return gathered(plain, weight_size, group)


# Orbits mix the elements of the group, whose filters have one norm and meet the same windows.
def conv2d_bound(eps, x, w, group="p4", stride=1, padding=0):
    return _split(conv_formulas.conv2d_bound(eps, _flat(x), expanded(w, group), stride, padding), group)


def conv2d_input_bound(eps, input_size, w, grad, group="p4", stride=1, padding=0):
    n, channels, count, *size = input_size
    shape = (n, channels * count, *size)
    return _split(conv_formulas.conv2d_input_bound(eps, shape, expanded(w, group), _flat(grad), stride, padding), group)


def conv2d_weight_bound(eps, x, weight_size, grad, group="p4", stride=1, padding=0):
    outputs, inputs, count, k, _ = weight_size
    shape = (outputs * count, inputs * count, k, k)
    plain = conv_formulas.conv2d_weight_bound(eps, _flat(x), shape, _flat(grad), stride, padding)
    return gathered(plain, weight_size, group)
