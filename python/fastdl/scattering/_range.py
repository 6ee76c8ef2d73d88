"""Signals beyond the squares of their type, which the kernels take of moduli."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fastdl._dispatch import Call


def scaled(call: Call, count: int) -> Any:
    """Bring signals of `count` axes to sizes whose squares are within the type.

    Each by its own power of two, which changes no digit. Give what results are to be multiplied with, of the shape
    of the batch, or None. Kernels on a device do it themselves: looking at the signals here would wait for them.
    """
    x = call.arrays[0]
    if call.backend != "native" or not x.size:
        return None
    axes = tuple(range(-count, 0))
    with np.errstate(invalid="ignore"):
        most = np.maximum(x.max(axes), -x.min(axes))
    least, largest = (1e-9, 1e15) if call.dtype == np.float32 else (1e-100, 1e100)
    unusual = ((most < least) | (most > largest)) & (most > 0) & np.isfinite(most)
    if not unusual.any():
        return None
    exponent = np.where(unusual, np.frexp(np.where(unusual, most, 1))[1], 0)
    spread = exponent.reshape(exponent.shape + (1,) * count)
    call.arrays = (np.ldexp(x, -spread), *call.arrays[1:])
    return exponent


def unscaled(call: Call, result: Any, exponent: Any) -> Any:
    """Multiply the results with what the signals were divided by."""
    if exponent is None:
        return result
    spread = exponent.reshape(exponent.shape + (1,) * (len(result.shape) - exponent.ndim))
    # In two steps: the factor itself may be beyond the type.
    for half in (spread // 2, spread - spread // 2):
        factor = np.ldexp(np.ones(half.shape, call.dtype), half)
        result = result * (factor if isinstance(result, np.ndarray) else call.library.wrap(factor, call.like))
    return result
