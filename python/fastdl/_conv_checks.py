"""What the functions of fastdl.conv check of shapes and options before they compute."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastdl._arrays import kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import Array
    from fastdl._dispatch import Call

    Count = int | Sequence[int]
    Padding = int | Sequence[int] | str
    Sizes = tuple[int, ...]

RANKS = (1, 2, 3)
POSITIONS = {1: "L", 2: "H, W", 3: "D, H, W"}
ACTIVATIONS = ("relu", "leaky_relu", "sigmoid", "tanh")
PADDING_MODES = ("zeros", "circular", "reflect", "replicate")
ALGORITHMS = ("auto", "direct", "winograd", "fft")

LARGEST = 2**31 - 1  # of a stride, dilation or padding: sums and products of two stay within 64 bits


def whole(where: str, name: str, value: Any, least: int, wanted: str = "") -> int:
    """Give a whole number of at least `least`, or say what was wanted."""
    if type(value) is int and least <= value <= LARGEST:
        return value
    wanted = wanted or f"a whole number from {least} to {LARGEST}"
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"[{where}] expected {name} to be {wanted}, got bool")
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"[{where}] expected {name} to be {wanted}, got {kind(value)}") from None
    if not least <= number <= LARGEST:
        raise ValueError(f"[{where}] expected {name} to be {wanted}, got {number}")
    return number


def counts(where: str, name: str, value: Any, rank: int, least: int) -> Sizes:
    """Give a whole number for every axis, from one for all or a sequence."""
    if type(value) is int and least <= value <= LARGEST:
        return (value,) * rank
    wanted = f"a whole number from {least} to {LARGEST}, or {rank} of them"
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    if len(values) != rank:
        raise ValueError(f"[{where}] expected {name} to be {wanted}, got {values}")
    return tuple(whole(where, name, number, least, wanted) for number in values)


def choice(where: str, name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Refuse a word that is none of those allowed."""
    if value in allowed and isinstance(value, str):
        return value
    wanted = f"{', '.join(map(repr, allowed[:-1]))} or {allowed[-1]!r}"
    if not isinstance(value, str):
        raise TypeError(f"[{where}] expected {name} to be {wanted}, got {kind(value)}")
    raise ValueError(f"[{where}] expected {name} to be {wanted}, got {value!r}")


def activation_name(where: str, value: Any) -> str | None:
    """Refuse an unknown activation; None is none."""
    return None if value is None else choice(where, "activation", value, ACTIVATIONS)


def flag(where: str, name: str, value: Any) -> bool:
    """Refuse what is not True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"[{where}] expected {name} to be True or False, got {kind(value)}")
    return bool(value)


def check_maps(where: str, name: str, shape: Sizes, rank: int) -> Sizes:
    """Refuse what is not samples of channels of `rank` axes; give the shape as a tuple."""
    if len(shape) != rank + 2:
        raise ValueError(f"[{where}] expected {name} of shape (N, C, {POSITIONS[rank]}), got {tuple(shape)}")
    return tuple(shape)


def full_size(where: str, name: str, value: Any, rank: int) -> Sizes:
    """Check a shape that is given as an argument."""
    wanted = f"{rank + 2} whole numbers from 0 to {LARGEST}"
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"[{where}] expected {name} to be {wanted}, got {kind(value)}")
    if len(value) != rank + 2:
        raise ValueError(f"[{where}] expected {name} to be {wanted}, got {tuple(value)}")
    return tuple(whole(where, name, number, 0, wanted) for number in value)


class Geometry(NamedTuple):
    """Where a kernel is put: for every axis, and the groups of channels."""

    stride: Sizes
    lower: Sizes
    upper: Sizes
    dilation: Sizes
    groups: int


def geometry(where: str, kernel: Sizes, stride: Any, padding: Any, dilation: Any, groups: Any) -> Geometry:
    """Check the options that say where a kernel is put."""
    rank = len(kernel)
    steps = counts(where, "stride", stride, rank, 1)
    spread = counts(where, "dilation", dilation, rank, 1)
    number = whole(where, "groups", groups, 1)
    if not isinstance(padding, str):
        lower = upper = counts(where, "padding", padding, rank, 0)
    else:
        reach = tuple(d * (k - 1) for k, d in zip(kernel, spread, strict=True))
        word = choice(where, "padding", padding, ("valid", "same", "full"))
        if word == "valid":
            lower = upper = (0,) * rank
        elif word == "full":
            lower = upper = reach
        else:
            if steps != (1,) * rank:
                raise ValueError(f"[{where}] expected stride 1 with padding 'same', got {steps}")
            lower = tuple(n // 2 for n in reach)
            upper = tuple(n - before for n, before in zip(reach, lower, strict=True))
    return Geometry(steps, lower, upper, spread, number)


def check_kernel(where: str, name: str, shape: Sizes, rank: int, axes: str) -> Sizes:
    """Refuse weights of another rank, or without an element in the kernel; give the size of the kernel."""
    if len(shape) != rank + 2 or 0 in shape[2:]:
        sizes = ", ".join(["k"] * rank)
        raise ValueError(
            f"[{where}] expected {name} of shape ({axes}, {sizes}) with k of at least 1, got {tuple(shape)}"
        )
    return tuple(shape[2:])


def check_groups(where: str, groups: int, **channels: int) -> None:
    """Refuse groups that do not divide every number of channels."""
    for name, number in channels.items():
        if number % groups:
            raise ValueError(f"[{where}] expected groups to divide the {number} channels of {name}, got {groups}")


def forward(
    where: str,
    maps: tuple[str, Sizes],
    weights: tuple[str, Sizes],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> tuple[Sizes, Geometry]:
    """Check the shapes of a convolution, each given with its name; give the shape of the result.

    The names are those of arrays, or of the arguments of a gradient that hold their shapes.
    """
    (x_name, x_shape), (w_name, w_shape) = maps, weights
    kernel = tuple(w_shape[2:])
    place = geometry(where, kernel, stride, padding, dilation, groups)
    channels = x_shape[1]
    check_groups(where, place.groups, **{x_name: channels, w_name: w_shape[0]})
    if w_shape[1] * place.groups != channels:
        raise ValueError(
            f"[{where}] expected {w_name} with {channels // place.groups} channels a group like {x_name}, "
            f"got {w_shape[1]}"
        )
    size = []
    for n, k, s, before, after, d in zip(x_shape[2:], kernel, *place[:4], strict=True):
        room, extent = n + before + after, d * (k - 1) + 1
        if extent > room:
            raise ValueError(
                f"[{where}] expected a kernel no larger than the padded input, {room} along an axis, got {extent}"
            )
        size.append((room - extent) // s + 1)
    return (x_shape[0], w_shape[0], *size), place


def check_padding_mode(where: str, value: Any, size: Sizes, place: Geometry) -> str:
    """Refuse a mode that is unknown, or that has no elements to pad with."""
    mode = choice(where, "padding_mode", value, PADDING_MODES)
    if mode != "zeros":
        for n, before, after in zip(size, place.lower, place.upper, strict=True):
            widest = max(before, after)
            if mode == "reflect" and widest and widest >= n:
                raise ValueError(f"[{where}] expected padding below the size of x with 'reflect', {n}, got {widest}")
            if widest and not n:
                raise ValueError(f"[{where}] expected x with elements to pad with, got size 0 along an axis")
    return mode


def check_algorithm(where: str, value: Any, kernel: Sizes, place: Geometry) -> str:
    """Refuse an algorithm that is unknown, or cannot compute this."""
    algorithm = choice(where, "algorithm", value, ALGORITHMS)
    if algorithm == "winograd" and (kernel != (3, 3) or place.stride != (1, 1) or place.dilation != (1, 1)):
        raise ValueError(
            f"[{where}] expected a kernel of (3, 3), stride 1 and dilation 1 with 'winograd', "
            f"got {kernel}, {place.stride} and {place.dilation}"
        )
    return algorithm


def check_bias(where: str, bias: Array | None, channels: int) -> None:
    """Refuse a bias that is not one number for every channel of the result."""
    if bias is not None and np.shape(bias) != (channels,):
        raise ValueError(f"[{where}] expected bias of shape ({channels},), got {tuple(np.shape(bias))}")


def finish_sized(call: Call, shape: Sizes, *parameters: object) -> Array:
    """Finish a call whose shape does not follow from its arrays: kernels see it in their result, references do not."""
    return call.finish(shape, None, *parameters, *((shape,) if call.backend == "reference" else ()))
