"""Fourier transforms of batches that may be empty, which torch's library refuses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastdl._arrays import Array


def fftn(xp: Any, z: Array, axes: tuple[int, ...]) -> Array:
    """Transform a complex array."""
    return xp.fft.fftn(z, axes=axes) if math.prod(z.shape) else z


def ifftn(xp: Any, z: Array, axes: tuple[int, ...]) -> Array:
    """Transform a complex array back."""
    return xp.fft.ifftn(z, axes=axes) if math.prod(z.shape) else z
