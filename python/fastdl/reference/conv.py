"""Convolutions, by their formulas: a sum over the elements of the kernel, each a product over the channels.

Positions p, elements of the kernel q, strides, dilations and paddings are vectors over the spatial axes, one to three;
the functions for each number of axes are the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.conv_graph import gcn, graph_filter, graph_laplacian
from fastdl.reference.conv_pool import avg_pool, avg_pool_grad, max_pool, max_pool_grad
from fastdl.reference.conv_signal import circulant, convolve, correlate, toeplitz
from fastdl.reference.elementwise import activate
from fastdl.reference.pairs import wide
from fastdl.reference.windows import offsets, pad, reach, window

if TYPE_CHECKING:
    from fastdl.reference.windows import Size

__all__ = [
    "avg_pool1d",
    "avg_pool1d_grad",
    "avg_pool2d",
    "avg_pool2d_grad",
    "avg_pool3d",
    "avg_pool3d_grad",
    "circulant",
    "conv1d",
    "conv1d_input",
    "conv1d_weight",
    "conv2d",
    "conv2d_input",
    "conv2d_weight",
    "conv3d",
    "conv3d_input",
    "conv3d_weight",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolve",
    "correlate",
    "gcn",
    "graph_filter",
    "graph_laplacian",
    "max_pool1d",
    "max_pool1d_grad",
    "max_pool2d",
    "max_pool2d_grad",
    "max_pool3d",
    "max_pool3d_grad",
    "toeplitz",
]


def _channels_first(x: Any) -> Any:
    """Exchange the first two axes, samples and channels."""
    return array_namespace(x).permute_dims(x, (1, 0, *range(2, x.ndim)))


def _columns(maps: Any, groups: int) -> Any:
    """Make matrices (groups, channels, samples · positions) of maps with the channels first."""
    rows = maps.shape[0] // groups
    return array_namespace(maps).reshape(maps, (groups, rows, math.prod(maps.shape[1:])))


def _weights(w: Any, groups: int) -> Any:
    return array_namespace(w).reshape(wide(w), (groups, w.shape[0] // groups, *w.shape[1:]))


def _finish(maps: Any, bias: Any | None, like: Any, activation: str | None = None) -> Any:
    """Add the bias to maps with the channels first, put the samples first and round to the dtype of `like`."""
    xp = array_namespace(maps)
    maps = _channels_first(maps)
    if bias is not None:
        maps = maps + xp.reshape(wide(bias), (1, -1, *(1 for _ in maps.shape[2:])))
    return xp.astype(activate(maps, activation), like.dtype, copy=False)


def conv(
    x: Any,
    w: Any,
    bias: Any | None,
    stride: Size,
    lower: Size,
    upper: Size,
    dilation: Size,
    groups: int,
    padding_mode: str,
    activation: str | None,
    algorithm: str,
) -> Any:
    """y[n,o,p] = activation(b[o] + Σ_{c,q} w[o,c,q] x[n, c, stride p + dilation q − lower]), by any algorithm."""
    xp = array_namespace(x)
    samples, channels, kernel = x.shape[0], w.shape[0], w.shape[2:]
    maps = _channels_first(pad(wide(x), lower, upper, padding_mode))
    spatial = zip(maps.shape[2:], kernel, stride, dilation, strict=True)
    size = tuple((n - d * (k - 1) - 1) // s + 1 for n, k, s, d in spatial)
    weights = _weights(w, groups)
    shape = (groups, channels // groups, samples * math.prod(size))
    total = xp.zeros(shape, dtype=xp.float64, device=device(x))
    for q in offsets(kernel):
        total = total + weights[(..., *q)] @ _columns(maps[window(q, size, stride, dilation)], groups)
    return _finish(xp.reshape(total, (channels, samples, *size)), bias, x, activation)


def conv_transpose(
    x: Any, w: Any, bias: Any | None, stride: Size, lower: Size, dilation: Size, groups: int, shape: Size
) -> Any:
    """y[n, o, stride p + dilation q − lower] = b[o] + the sum of all w[c,o,q] x[n,c,p] that go there."""
    xp = array_namespace(x)
    size, kernel, target = x.shape[2:], w.shape[2:], shape[2:]
    columns = _columns(_channels_first(wide(x)), groups)
    weights = _weights(w, groups)
    covered = reach(size, kernel, stride, dilation)
    room = [max(extent, before + n) for extent, before, n in zip(covered, lower, target, strict=True)]
    total = xp.zeros((shape[1], shape[0], *room), dtype=xp.float64, device=device(x))
    for q in offsets(kernel):
        part = xp.matrix_transpose(weights[(..., *q)]) @ columns
        here = window(q, size, stride, dilation)
        total[here] = total[here] + xp.reshape(part, (shape[1], shape[0], *size))
    inner = (slice(before, before + n) for before, n in zip(lower, target, strict=True))
    return _finish(total[(slice(None), slice(None), *inner)], bias, x)


def conv_input(w: Any, grad: Any, stride: Size, lower: Size, dilation: Size, groups: int, shape: Size) -> Any:
    """Gradient for x: the transposed convolution of the gradient."""
    return conv_transpose(grad, w, None, stride, lower, dilation, groups, shape)


def conv_weight(x: Any, grad: Any, stride: Size, lower: Size, dilation: Size, groups: int, shape: Size) -> Any:
    """Gradient for w: Σ_{n,p} grad[n,o,p] x[n, c, stride p + dilation q − lower]."""
    xp = array_namespace(x)
    size, kernel = grad.shape[2:], shape[2:]
    covered = reach(size, kernel, stride, dilation)
    upper = [max(0, n - before - own) for n, before, own in zip(covered, lower, x.shape[2:], strict=True)]
    maps = _channels_first(pad(wide(x), lower, upper))
    slopes = _columns(_channels_first(wide(grad)), groups)
    parts = [
        slopes @ xp.matrix_transpose(_columns(maps[window(q, size, stride, dilation)], groups)) for q in offsets(kernel)
    ]
    return xp.astype(xp.reshape(xp.stack(parts, axis=-1), shape), x.dtype, copy=False)


conv1d = conv2d = conv3d = conv
conv_transpose1d = conv_transpose2d = conv_transpose3d = conv_transpose
conv1d_input = conv2d_input = conv3d_input = conv_input
conv1d_weight = conv2d_weight = conv3d_weight = conv_weight
max_pool1d = max_pool2d = max_pool3d = max_pool
avg_pool1d = avg_pool2d = avg_pool3d = avg_pool
max_pool1d_grad = max_pool2d_grad = max_pool3d_grad = max_pool_grad
avg_pool1d_grad = avg_pool2d_grad = avg_pool3d_grad = avg_pool_grad
