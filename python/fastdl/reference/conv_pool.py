"""Pooling over windows, and its gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.pairs import wide
from fastdl.reference.windows import offsets, pad, window

if TYPE_CHECKING:
    from fastdl.reference.windows import Size


def _size(x_size: Size, kernel: Size, stride: Size, lower: Size) -> tuple[int, ...]:
    """Count the windows along each axis; there is as much padding after the elements as before."""
    return tuple((n + 2 * p - k) // s + 1 for n, k, s, p in zip(x_size, kernel, stride, lower, strict=True))


def _places(offset: Size, x: Any, size: Size, stride: Size, lower: Size) -> tuple[Any, Any]:
    """Give the flat positions in a plane of x that `offset` means in every window, and whether they are no padding."""
    xp = array_namespace(x)
    flat, inside = xp.zeros((), dtype=xp.int64, device=device(x)), xp.ones((), dtype=xp.bool, device=device(x))
    for axis, (q, p, s, before, n) in enumerate(zip(offset, size, stride, lower, x.shape[2:], strict=True)):
        place = xp.arange(p, dtype=xp.int64, device=device(x)) * s + (q - before)
        place = xp.reshape(place, tuple(p if other == axis else 1 for other in range(len(size))))
        flat = flat * n + place
        inside = inside & (place >= 0) & (place < n)
    return flat, inside


def max_pool(x: Any, kernel: Size, stride: Size, lower: Size) -> tuple[Any, Any]:
    """Give the largest element of every window and its flat position: the first of equals, or the first NaN."""
    xp = array_namespace(x)
    size = _size(x.shape[2:], kernel, stride, lower)
    padded = pad(x, lower, lower)
    best = xp.zeros((*x.shape[:2], *size), dtype=x.dtype, device=device(x))
    index = xp.full(best.shape, -1, dtype=xp.int64, device=device(x))
    for q in offsets(kernel):
        value = padded[window(q, size, stride, [1] * len(size))]
        flat, inside = _places(q, x, size, stride, lower)
        better = inside & ((index < 0) | (value > best) | (xp.isnan(value) & ~xp.isnan(best)))
        best = xp.where(better, value, best)
        index = xp.where(better, flat, index)
    return best, index


def _count(x: Any, kernel: Size, stride: Size, lower: Size, count_include_pad: bool) -> Any:
    """Count the elements of every window, with the padding or without."""
    xp = array_namespace(x)
    if count_include_pad:
        return float(math.prod(kernel))
    size = _size(x.shape[2:], kernel, stride, lower)
    inside = [xp.astype(_places(q, x, size, stride, lower)[1], xp.float64) for q in offsets(kernel)]
    return xp.sum(xp.stack(inside), axis=0)


def avg_pool(x: Any, kernel: Size, stride: Size, lower: Size, count_include_pad: bool) -> Any:
    """Sum of every window over the number of its elements."""
    xp = array_namespace(x)
    size = _size(x.shape[2:], kernel, stride, lower)
    padded = pad(wide(x), lower, lower)
    total = xp.zeros((*x.shape[:2], *size), dtype=xp.float64, device=device(x))
    for q in offsets(kernel):
        total = total + padded[window(q, size, stride, [1] * len(size))]
    return xp.astype(total / _count(x, kernel, stride, lower, count_include_pad), x.dtype, copy=False)


def max_pool_grad(grad: Any, indices: Any, shape: Size) -> Any:
    """Sum of the gradients of all windows in which an element was the largest.

    The standard has no addition at indices. So the gradients are sorted by where they go, and each place takes its
    first, then its second, and so on.
    """
    xp = array_namespace(grad)
    plane = math.prod(shape[2:])
    if not math.prod(shape) or not math.prod(grad.shape):
        return xp.zeros(tuple(shape), dtype=grad.dtype, device=device(grad))
    planes = xp.arange(math.prod(shape[:2]), dtype=xp.int64, device=device(grad))
    target = xp.reshape(xp.reshape(indices, (planes.shape[0], -1)) + plane * planes[:, None], (-1,))
    order = xp.argsort(target, stable=True)
    target, slopes = xp.take(target, order), xp.take(xp.reshape(wide(grad), (-1,)), order)
    places = xp.arange(planes.shape[0] * plane, dtype=xp.int64, device=device(grad))
    first, end = (xp.searchsorted(target, places, side=side) for side in ("left", "right"))
    total = xp.zeros(places.shape, dtype=xp.float64, device=device(grad))
    for turn in range(int(xp.max(end - first))):
        left = first + turn < end
        slope = xp.take(slopes, xp.where(left, first + turn, xp.zeros_like(first)))
        total = total + xp.where(left, slope, xp.zeros_like(slope))
    return xp.astype(xp.reshape(total, tuple(shape)), grad.dtype, copy=False)


def avg_pool_grad(grad: Any, kernel: Size, stride: Size, lower: Size, count_include_pad: bool, shape: Size) -> Any:
    """Sum of the shares in all windows that an element is in."""
    xp = array_namespace(grad)
    room = [n + 2 * before for n, before in zip(shape[2:], lower, strict=True)]
    total = xp.zeros((*shape[:2], *room), dtype=xp.float64, device=device(grad))
    inner = tuple(slice(before, before + n) for before, n in zip(lower, shape[2:], strict=True))
    x = total[(slice(None), slice(None), *inner)]
    share = wide(grad) / _count(x, kernel, stride, lower, count_include_pad)
    for q in offsets(kernel):
        here = window(q, grad.shape[2:], stride, [1] * len(kernel))
        total[here] = total[here] + share
    return xp.astype(total[(slice(None), slice(None), *inner)], grad.dtype, copy=True)
