"""Layers on the groups of the plane, by expanded filters: the filter of every output element written out.

`elements` are pairs of flips and quarter turns; `quotient[s][t]` is s⁻¹t and `inverse[s]` s⁻¹, nested tuples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl._group_table import _by_name
from fastdl.reference import conv
from fastdl.reference.pairs import wide

if TYPE_CHECKING:
    from fastdl.reference.windows import Size


def transformed(x: Any, flip: int, turns: int) -> Any:
    """Turn the last two axes counter-clockwise by quarters, and then flip the rows."""
    xp = array_namespace(x)
    for _ in range(turns):
        x = xp.flip(xp.matrix_transpose(x), axis=-2)
    return xp.flip(x, axis=-2) if flip else x


def _taken(x: Any, indices: Any, axis: int) -> Any:
    xp = array_namespace(x)
    return xp.take(x, xp.asarray([int(i) for i in indices], dtype=xp.int64, device=device(x)), axis=axis)


def expand_filters(w: Any, group: str, lift: bool) -> Any:
    """Give the filters of all elements: (A_s w[o,i])[q], or (A_s w[o,i,s⁻¹t])[q], as filters of a plain convolution."""
    xp = array_namespace(w)
    plane = _by_name(group)
    if lift:
        parts = [transformed(w, *element) for element in plane.elements]
    else:
        parts = [transformed(_taken(w, plane.quotient[s], 2), *element) for s, element in enumerate(plane.elements)]
    all_of_them = xp.stack(parts, axis=1)
    inputs = w.shape[1] * (1 if lift else plane.order)
    return xp.reshape(all_of_them, (w.shape[0] * plane.order, inputs, *w.shape[-2:]))


def _forward(
    x: Any,
    w: Any,
    bias: Any | None,
    group: str,
    stride: Size,
    lower: Size,
    upper: Size,
    activation: str | None,
    lift: bool,
) -> Any:
    xp = array_namespace(x)
    order = _by_name(group).order
    filters = expand_filters(w, group, lift)
    if bias is not None:
        bias = xp.reshape(xp.stack([bias] * order, axis=1), (-1,))
    maps = x if lift else _flat(x)
    y = conv.conv(maps, filters, bias, stride, lower, upper, (1, 1), 1, "zeros", activation, "auto")
    return xp.reshape(y, (x.shape[0], w.shape[0], order, *y.shape[-2:]))


def lift_conv2d(
    x: Any,
    w: Any,
    bias: Any | None,
    group: str,
    stride: Size,
    lower: Size,
    upper: Size,
    activation: str | None,
    algorithm: str,
) -> Any:
    """y[n,o,s,p] = activation(b[o] + Σ_{c,q} (A_s w[o,c])[q] x[n, c, stride p + q − lower])."""
    return _forward(x, w, bias, group, stride, lower, upper, activation, True)


def conv2d(
    x: Any,
    w: Any,
    bias: Any | None,
    group: str,
    stride: Size,
    lower: Size,
    upper: Size,
    activation: str | None,
    algorithm: str,
) -> Any:
    """y[n,o,s,p] = activation(b[o] + Σ_{c,t,q} (A_s w[o,c,s⁻¹t])[q] x[n, c, t, stride p + q − lower])."""
    return _forward(x, w, bias, group, stride, lower, upper, activation, False)


def _flat(maps: Any) -> Any:
    """Join channels and elements."""
    n, c, order, height, width = maps.shape
    return array_namespace(maps).reshape(maps, (n, c * order, height, width))


def lift_conv2d_input(w: Any, grad: Any, group: str, stride: Size, lower: Size, algorithm: str, shape: Size) -> Any:
    """Gradient for the images: that of the convolution with expanded filters."""
    filters = expand_filters(w, group, True)
    return conv.conv_input(filters, _flat(grad), stride, lower, (1, 1), 1, shape)


def conv2d_input(w: Any, grad: Any, group: str, stride: Size, lower: Size, algorithm: str, shape: Size) -> Any:
    """Gradient for x: that of the convolution with expanded filters."""
    n, c, order, height, width = shape
    filters = expand_filters(w, group, False)
    flat = conv.conv_input(filters, _flat(grad), stride, lower, (1, 1), 1, (n, c * order, height, width))
    return array_namespace(flat).reshape(flat, shape)


def lift_conv2d_weight(x: Any, grad: Any, group: str, stride: Size, lower: Size, algorithm: str, shape: Size) -> Any:
    """Gradient for w: Σ_s A_{s⁻¹} of that for the expanded filters."""
    xp = array_namespace(x)
    plane = _by_name(group)
    outputs, inputs, *kernel = shape
    wanted = (outputs * plane.order, inputs, *kernel)
    plain = conv.conv_weight(wide(x), wide(_flat(grad)), stride, lower, (1, 1), 1, wanted)
    plain = xp.reshape(plain, (outputs, plane.order, inputs, *kernel))
    total = xp.zeros(shape, dtype=xp.float64, device=device(x))
    for s in range(plane.order):
        total = total + transformed(plain[:, s, ...], *plane.elements[int(plane.group.inverse[s])])
    return xp.astype(total, x.dtype, copy=False)


def conv2d_weight(x: Any, grad: Any, group: str, stride: Size, lower: Size, algorithm: str, shape: Size) -> Any:
    """Gradient for w: dw[o,i,u] = Σ_s A_{s⁻¹} G[o,s,i,su], G that for the expanded filters."""
    xp = array_namespace(x)
    plane = _by_name(group)
    outputs, inputs, order, *kernel = shape
    wanted = (outputs * order, inputs * order, *kernel)
    plain = conv.conv_weight(wide(_flat(x)), wide(_flat(grad)), stride, lower, (1, 1), 1, wanted)
    plain = xp.reshape(plain, (outputs, order, inputs, order, *kernel))
    total = xp.zeros(shape, dtype=xp.float64, device=device(x))
    for s in range(order):
        turned = transformed(plain[:, s, ...], *plane.elements[int(plane.group.inverse[s])])
        total = total + _taken(turned, plane.group.table[s], 2)
    return xp.astype(total, x.dtype, copy=False)


def act(x: Any, element: int, group: str) -> Any:
    """(L_g f)(t, p) = f(g⁻¹t, g⁻¹p); of images, f(g⁻¹p)."""
    plane = _by_name(group)
    if x.ndim == 5:
        x = _taken(x, plane.quotient[element], 2)
    y = transformed(x, *plane.elements[element])
    return array_namespace(y).asarray(y, copy=True)


def pool(x: Any, mode: str) -> Any:
    """Join the elements of the group, the third axis."""
    xp = array_namespace(x)
    if mode == "max":
        return xp.max(x, axis=2)
    values = wide(x)
    if mode == "l2":
        # Relative to the largest, for squares may be beyond the type, or below it.
        largest = xp.max(xp.abs(values), axis=2, keepdims=True)
        unit = xp.where((largest > 0) & (largest < float("inf")), largest, xp.ones_like(largest))
        ratios = values / unit
        total = unit[:, :, 0, ...] * xp.sqrt(xp.sum(ratios * ratios, axis=2))
    elif mode == "mean":
        total = xp.sum(values / x.shape[2], axis=2)
    else:
        total = xp.sum(values, axis=2)
    return xp.astype(total, x.dtype, copy=False)


def se2_filters(w: Any, maps: Any, lift: bool) -> Any:
    """Give the filters of all turns: maps[s] w[o,i], or maps[s] w[o,i,t−s]."""
    xp = array_namespace(w)
    n, k = maps.shape[0], w.shape[-1]
    turns = xp.asarray(maps.copy(), dtype=xp.float64, device=device(w))
    flat = xp.reshape(wide(w), (*w.shape[:-2], k * k))
    parts = []
    for s in range(n):
        moved = flat if lift else _taken(flat, [(t - s) % n for t in range(n)], 2)
        parts.append(xp.matmul(moved, xp.matrix_transpose(turns[s, ...])))
    all_of_them = xp.astype(xp.stack(parts, axis=1), w.dtype, copy=False)
    return xp.reshape(all_of_them, (w.shape[0] * n, w.shape[1] * (1 if lift else n), k, k))
