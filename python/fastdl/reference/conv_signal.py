"""Convolution and correlation of signals with any number of axes, and the matrices they are products with."""

from __future__ import annotations

import math
from typing import Any

from array_api_compat import array_namespace, device

from fastdl.reference.pairs import wide
from fastdl.reference.windows import offsets

# Elements of the smaller signal up to which the sum itself is done: beyond, it takes minutes.
_DIRECT = 4096


def convolve(f: Any, h: Any, mode: str, method: str) -> Any:
    """(f * h)[u] = Σ_t f[t] h[u − t], all of it or the part that `mode` names."""
    xp = array_namespace(f)
    first, second = wide(f), wide(h)
    direct = method == "direct" or (method == "auto" and min(math.prod(f.shape), math.prod(h.shape)) <= _DIRECT)
    full = _sum(first, second) if direct else _by_transforms(first, second)
    if mode == "full":
        result = full
    elif mode == "circular":
        result = _folded(full, f.shape)
    else:
        size = f.shape if mode == "same" else [abs(n - m) + 1 for n, m in zip(f.shape, h.shape, strict=True)]
        starts = ((n - wanted) // 2 for n, wanted in zip(full.shape, size, strict=True))
        result = full[tuple(slice(start, start + wanted) for start, wanted in zip(starts, size, strict=True))]
    return xp.astype(result, f.dtype, copy=False)


def correlate(f: Any, h: Any, mode: str, method: str) -> Any:
    """(f ⋆ h)[u] = Σ_t f[t] h[t − u]: the convolution with h reversed, in full from u = 1 − m."""
    xp = array_namespace(f)
    result = convolve(f, xp.flip(h), mode, method)
    if mode == "circular":
        result = xp.roll(result, tuple(1 - m for m in h.shape), axis=tuple(range(f.ndim)))
    return result


def _folded(full: Any, shape: tuple[int, ...]) -> Any:
    """Sum the elements whose positions are equal modulo `shape`."""
    xp = array_namespace(full)
    for axis, n in enumerate(shape):
        missing = (*full.shape[:axis], -full.shape[axis] % n, *full.shape[axis + 1 :])
        full = xp.concat([full, xp.zeros(missing, dtype=full.dtype, device=device(full))], axis=axis)
        full = xp.sum(xp.reshape(full, (*full.shape[:axis], -1, n, *full.shape[axis + 1 :])), axis=axis)
    return full


def _full_shape(f: Any, h: Any) -> tuple[int, ...]:
    return tuple(n + m - 1 for n, m in zip(f.shape, h.shape, strict=True))


def _sum(f: Any, h: Any) -> Any:
    """Add up copies of the larger signal, shifted to the places of the elements of the smaller, times these."""
    xp = array_namespace(f)
    if math.prod(f.shape) < math.prod(h.shape):
        f, h = h, f
    total = xp.zeros(_full_shape(f, h), dtype=xp.float64, device=device(f))
    for offset in offsets(h.shape):
        here = tuple(slice(start, start + n) for start, n in zip(offset, f.shape, strict=True))
        total[here] = total[here] + h[offset] * f
    return total


def _by_transforms(f: Any, h: Any) -> Any:
    """Use the convolution theorem: the transform of f * h is the product of theirs."""
    xp = array_namespace(f)
    shape, axes = _full_shape(f, h), tuple(range(f.ndim))
    spectrum = xp.fft.rfftn(f, s=shape, axes=axes) * xp.fft.rfftn(h, s=shape, axes=axes)
    return xp.fft.irfftn(spectrum, s=shape, axes=axes)


def circulant(h: Any) -> Any:
    """C[i,j] = h[(i − j) mod n]."""
    xp = array_namespace(h)
    n = h.shape[0]
    i = xp.arange(n, dtype=xp.int64, device=device(h))
    return xp.reshape(xp.take(h, xp.reshape((i[:, None] - i[None, :]) % max(1, n), (-1,))), (n, n))


def toeplitz(h: Any, n: int) -> Any:
    """T[i,j] = h[i − j], and 0 where h has no such element; (n + m − 1, n) for h of m elements."""
    xp = array_namespace(h)
    m = h.shape[0]
    i, j = (xp.arange(extent, dtype=xp.int64, device=device(h)) for extent in (n + m - 1, n))
    place = i[:, None] - j[None, :]
    inside = (place >= 0) & (place < m)
    place = xp.where(inside, place, xp.zeros_like(place))
    entries = xp.reshape(xp.take(h, xp.reshape(place, (-1,))), place.shape)
    return xp.where(inside, entries, xp.zeros_like(entries))
