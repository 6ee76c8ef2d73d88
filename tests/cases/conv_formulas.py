"""The formulas of fastdl.conv that are benchmarked, in plain NumPy and a tap at a time, and their error bounds.

A formula computes in the precision of its arguments: the benchmarks give it wider ones than the library had. A bound is
of the error of each element of a result computed in `eps`, by anyone's algorithm, from norms of the inputs alone.
"""

from __future__ import annotations

import math

import numpy as np


# ---- convolutions, over any number of axes ----
def _taps(padded, kernel, stride, size):
    """Give every tap of a kernel with its part of the padded images: what it meets at all positions, as a view."""
    for tap in np.ndindex(*kernel):
        met = [slice(first, first + stride * (count - 1) + 1, stride) for first, count in zip(tap, size, strict=True)]
        yield tap, padded[(..., *met)]


def _grouped(maps, groups):
    """Give images as (N, groups, channels of a group, positions)."""
    return maps.reshape(maps.shape[0], groups, maps.shape[1] // groups, -1)


def _pad(x, padding, value=0):
    return np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * (x.ndim - 2), constant_values=value)


def _positions(size, kernel, stride, padding):
    return [(n + 2 * padding - k) // stride + 1 for n, k in zip(size, kernel, strict=True)]


def conv2d(x, w, stride=1, padding=0, groups=1):
    filters = w.reshape(groups, -1, *w.shape[1:])
    size = _positions(x.shape[2:], w.shape[2:], stride, padding)
    result = np.zeros((x.shape[0], groups, w.shape[0] // groups, math.prod(size)), x.dtype)
    for tap, met in _taps(_pad(x, padding), w.shape[2:], stride, size):
        result += filters[(..., *tap)] @ _grouped(met, groups)
    return result.reshape(x.shape[0], w.shape[0], *size)


def conv2d_input(input_size, w, grad, stride=1, padding=0, groups=1):
    filters = w.reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
    result = _pad(np.zeros(input_size, grad.dtype), padding)
    for tap, met in _taps(result, w.shape[2:], stride, grad.shape[2:]):
        met += (filters[(..., *tap)] @ _grouped(grad, groups)).reshape(met.shape)
    return result[(..., *(slice(padding, padding + n) for n in input_size[2:]))]


def conv2d_weight(x, weight_size, grad, stride=1, padding=0, groups=1):
    result = np.empty(weight_size, x.dtype)
    for tap, met in _taps(_pad(x, padding), weight_size[2:], stride, grad.shape[2:]):
        products = _grouped(grad, groups) @ _grouped(met, groups).swapaxes(2, 3)
        result[(..., *tap)] = products.sum(axis=0).reshape(weight_size[:2])
    return result


def _transposed_size(x, w, stride, padding, output_padding, groups):
    sizes = zip(x.shape[2:], w.shape[2:], strict=True)
    return (
        x.shape[0],
        groups * w.shape[1],
        *((n - 1) * stride + k + output_padding - 2 * padding for n, k in sizes),
    )


def conv_transpose2d(x, w, stride=1, padding=0, output_padding=0, groups=1):
    """Take the adjoint of the convolution with the same filters."""
    size = _transposed_size(x, w, stride, padding, output_padding, groups)
    return conv2d_input(size, w, x, stride, padding, groups)


conv1d = conv3d = prepare = conv2d
conv1d_input = conv3d_input = conv2d_input
conv1d_weight = conv3d_weight = conv2d_weight
conv_transpose1d = conv_transpose3d = conv_transpose2d


# ---- signals ----
def convolve(f, h, mode="full"):
    """Add up shifted copies of f; mode is "full" or "valid"."""
    if mode == "full":
        f = np.pad(f, [(m - 1, m - 1) for m in h.shape])
    size = [n - m + 1 for n, m in zip(f.shape, h.shape, strict=True)]
    result = np.zeros(size, f.dtype)
    for tap in np.ndindex(*h.shape):
        first = [m - 1 - t for m, t in zip(h.shape, tap, strict=True)]
        result += h[tap] * f[tuple(slice(at, at + n) for at, n in zip(first, size, strict=True))]
    return result


def correlate(f, h, mode="full"):
    return convolve(f, np.flip(h), mode)


# ---- bounds ----
def _roundings(terms):
    """How many roundings of the sum of the sizes of its terms a sum may be off by.

    Added one by one in any order, terms of one sign, the least favourable ones, have an error of sqrt(terms) / 6 in
    standard deviation, so sqrt(terms) is six of them. Algorithms that transform are allowed four times as much.
    """
    return 4 * (math.sqrt(terms) + 2)


def _squares(maps, groups):
    """Sum the squares over the channels of each group."""
    squared = np.square(maps, dtype=np.float32)
    return squared.reshape(maps.shape[0], groups, -1, *maps.shape[2:]).sum(axis=2)


def _norms(array, *axes):
    return np.sqrt(np.sum(np.square(array, dtype=np.float32), axis=axes))


def _along_channels(scale, rank):
    return scale.reshape(-1, *(1,) * rank).astype(np.float32)


# Sums of sizes are bounded by Cauchy and Schwarz: a norm of the filter times one of what it meets.
def conv2d_bound(eps, x, w, stride=1, padding=0, groups=1):
    ones = np.ones((groups, 1, *w.shape[2:]), np.float32)
    met = np.sqrt(conv2d(_squares(x, groups), ones, stride, padding, groups))
    scale = eps * _roundings(math.prod(w.shape[1:])) * _norms(w, *range(1, w.ndim))
    return np.repeat(met, w.shape[0] // groups, axis=1) * _along_channels(scale, w.ndim - 2)


def conv2d_input_bound(eps, input_size, w, grad, stride=1, padding=0, groups=1):
    ones = np.ones((groups, 1, *w.shape[2:]), np.float32)
    shape = (input_size[0], groups, *input_size[2:])
    met = np.sqrt(conv2d_input(shape, ones, _squares(grad, groups), stride, padding, groups))
    filters = w.reshape(groups, -1, *w.shape[1:])
    scale = eps * _roundings(w.size / input_size[1]) * _norms(filters, 1, *range(3, filters.ndim)).ravel()
    return np.repeat(met, w.shape[1], axis=1) * _along_channels(scale, w.ndim - 2)


def conv2d_weight_bound(eps, x, weight_size, grad, stride=1, padding=0, groups=1):
    left = _norms(_grouped(grad, groups), 0, 3)[:, :, None]
    right = _norms(_grouped(x, groups), 0, 3)[:, None, :]
    scale = eps * _roundings(grad.size / grad.shape[1])
    ones = (1,) * (len(weight_size) - 2)
    return np.broadcast_to((scale * left * right).reshape(*weight_size[:2], *ones), weight_size)


def conv_transpose2d_bound(eps, x, w, stride=1, padding=0, output_padding=0, groups=1):
    size = _transposed_size(x, w, stride, padding, output_padding, groups)
    return conv2d_input_bound(eps, size, w, x, stride, padding, groups)


conv1d_bound = conv3d_bound = prepare_bound = conv2d_bound
conv1d_input_bound = conv3d_input_bound = conv2d_input_bound
conv1d_weight_bound = conv3d_weight_bound = conv2d_weight_bound
conv_transpose1d_bound = conv_transpose3d_bound = conv_transpose2d_bound


def convolve_bound(eps, f, h):
    """Allow a direct sum its roundings; transforms, whose errors go by the norms of the whole, 8 of these a stage."""
    filters, whole = (float(np.linalg.norm(signal)) for signal in (h, f))
    met = min(whole, math.sqrt(h.size) * float(np.abs(f).max()))
    shape = [n + m - 1 for n, m in zip(f.shape, h.shape, strict=True)]
    stages = math.log2(2 * math.prod(shape))
    return np.full(shape, eps * filters * (_roundings(min(f.size, h.size)) * met + 8 * stages * whole))


correlate_bound = convolve_bound
