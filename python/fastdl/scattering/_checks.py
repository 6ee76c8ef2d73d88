"""What the transforms check before they compute, and how results leave them."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind

if TYPE_CHECKING:
    from fastdl._dispatch import Call


def whole(where: str, name: str, value: Any, least: int, most: int = 1 << 40) -> int:
    """Check a whole number."""
    wanted = f"a whole number of at least {least}" if most == 1 << 40 else f"a whole number from {least} to {most}"
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = index(value)
    except TypeError:
        raise TypeError(f"[{where}] expected {name} to be {wanted}, got {kind(value)}") from None
    if not least <= number <= most:
        raise ValueError(f"[{where}] expected {name} to be {wanted}, got {number}")
    return number


def flag(where: str, name: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"[{where}] expected {name} to be True or False, got {kind(value)}")
    return bool(value)


def choice(where: str, name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check a word of a list."""
    wanted = " or ".join(map(repr, choices))
    if not isinstance(value, str):
        raise TypeError(f"[{where}] expected {name} to be {wanted}, got {kind(value)}")
    if value not in choices:
        raise ValueError(f"[{where}] expected {name} to be {wanted}, got {value!r}")
    return value


def sizes(where: str, shape: Any, axes: int) -> tuple[int, ...]:
    """Check the shape of a signal."""
    wanted = f"shape to be {axes} whole numbers above 0"
    if axes == 1 and not isinstance(shape, (tuple, list)):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"[{where}] expected {wanted}, got {kind(shape)}")
    if len(shape) != axes:
        raise ValueError(f"[{where}] expected {wanted}, got {tuple(shape)}")
    return tuple(whole(where, "shape", size, 1) for size in shape)


def scales_fit(where: str, J: int, shape: tuple[int, ...]) -> None:
    """Check that the largest scale is no larger than the signal."""
    if J > 60 or min(shape) < 2**J:
        raise ValueError(f"[{where}] expected 2**J of at most {min(shape)}, the smallest size, got J = {J}")


def batch_of(call: Call, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Check the trailing shape of the input; give the axes before it."""
    x = call.arrays[0]
    found = tuple(x.shape)
    if len(found) < len(shape) or found[len(found) - len(shape) :] != shape:
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"[{call.operation.name}] expected x of shape (..., {wanted}), got {found}")
    return found[: len(found) - len(shape)]


def grad_of(call: Call, shape: tuple[int, ...]) -> None:
    """Check the shape of a gradient."""
    found = tuple(call.arrays[1].shape)
    if found != shape:
        raise ValueError(f"[{call.operation.name}] expected grad of shape {shape}, got {found}")
