"""The fast wavelet transform of images by a cascade of orthogonal filters, and its inverse: plain array-API code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray


def _analysis(xp: Any, x: Array, taps: HostArray, axis: int) -> Array:
    """Give sum over t of taps[t] x[2 n + t], periodically, along an axis."""
    even = (slice(None),) * axis
    return sum(float(tap) * xp.roll(x, -t, axis=axis)[(*even, slice(None, None, 2), ...)] for t, tap in enumerate(taps))


def _synthesis(xp: Any, y: Array, taps: HostArray, axis: int) -> Array:
    """Give the adjoint: y with zeros between, convolved with the taps."""
    pairs = xp.stack([y, xp.zeros_like(y)], axis=axis + 1)
    spread = xp.reshape(pairs, (*y.shape[:axis], 2 * y.shape[axis], *y.shape[axis + 1 :]))
    return sum(float(tap) * xp.roll(spread, t, axis=axis) for t, tap in enumerate(taps))


def wavelet_transform2d(x: Array, J: int, low: HostArray, high: HostArray) -> tuple[Array, list[Array]]:
    """Give the average of scale 2^J, and for each scale from the finest on the three details."""
    xp, details = array_namespace(x), []
    for _ in range(J):
        smooth, rough = (_analysis(xp, x, taps, x.ndim - 2) for taps in (low, high))
        parts = [(smooth, high), (rough, low), (rough, high)]
        details.append(xp.stack([_analysis(xp, part, taps, x.ndim - 1) for part, taps in parts], axis=-3))
        x = _analysis(xp, smooth, low, x.ndim - 1)
    return x, details


def inverse_wavelet_transform2d(x: Array, details: list[Array], low: HostArray, high: HostArray) -> Array:
    """Give the image back, from the coarsest scale to the finest."""
    xp = array_namespace(x)
    axis = x.ndim - 1
    for detail in reversed(details):
        across, down, both = (detail[..., i, :, :] for i in range(3))
        smooth = _synthesis(xp, x, low, axis) + _synthesis(xp, across, high, axis)
        rough = _synthesis(xp, down, low, axis) + _synthesis(xp, both, high, axis)
        x = _synthesis(xp, smooth, low, axis - 1) + _synthesis(xp, rough, high, axis - 1)
    return x if details else xp.asarray(x, copy=True)  # never the memory of the argument
