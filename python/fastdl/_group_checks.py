"""What the layers of fastdl.group check before they compute, and where they warn."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdl._arrays import kind
from fastdl._conv_checks import choice, geometry, whole

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._conv_checks import Sizes
    from fastdl._dispatch import Call
    from fastdl._group_table import Planar

ALGORITHMS = ("auto", "expand", "orbit")


class EquivarianceWarning(UserWarning):
    """A layer was asked for at a size at which it cannot commute with its group."""


class Place(NamedTuple):
    """Where filters are put, along both axes."""

    stride: Sizes
    lower: Sizes
    upper: Sizes


def check_algorithm(where: str, value: Any) -> str:
    """Refuse an unknown algorithm."""
    return choice(where, "algorithm", value, ALGORITHMS)


def check_filters(where: str, name: str, shape: Sizes, plane: Planar, lift: bool) -> int:
    """Refuse filters that do not fit the group; give their side."""
    axes = "Cout, Cin, k, k" if lift else f"Cout, Cin, {plane.order}, k, k"
    rank = 4 if lift else 5
    if len(shape) != rank or 0 in shape[-2:]:
        raise ValueError(f"[{where}] expected {name} of shape ({axes}) with k of at least 1, got {tuple(shape)}")
    if not lift and shape[2] != plane.order:
        raise ValueError(
            f"[{where}] expected {name} with the {plane.order} elements of {plane.name} along axis 2, got {shape[2]}"
        )
    if shape[-1] != shape[-2]:
        raise ValueError(f"[{where}] expected square filters, got {shape[-2]} x {shape[-1]} in {name}")
    return int(shape[-1])


def check_maps(where: str, name: str, shape: Sizes, plane: Planar, lift: bool) -> Sizes:
    """Refuse images, or functions on the group, of another shape."""
    axes = "N, Cin, H, W" if lift else f"N, Cin, {plane.order}, H, W"
    if len(shape) != (4 if lift else 5):
        raise ValueError(f"[{where}] expected {name} of shape ({axes}), got {tuple(shape)}")
    if not lift and shape[2] != plane.order:
        raise ValueError(
            f"[{where}] expected {name} with the {plane.order} elements of {plane.name} along axis 2, got {shape[2]}"
        )
    return tuple(shape)


def check_layer(
    where: str, maps: tuple[str, Sizes], weights: tuple[str, Sizes], plane: Planar, stride: Any, padding: Any
) -> tuple[Sizes, Place]:
    """Check a layer whose input and filters have been; give the shape of its output and where filters are put."""
    (x_name, x), (w_name, w) = maps, weights
    k = w[-1]
    place = geometry(where, (k, k), stride, padding, 1, 1)
    if w[1] != x[1]:
        raise ValueError(f"[{where}] expected {w_name} with {x[1]} input channels like {x_name}, got {w[1]}")
    size = []
    for n, s, before, after in zip(x[-2:], place.stride, place.lower, place.upper, strict=True):
        if k > n + before + after:
            raise ValueError(
                f"[{where}] expected filters no larger than the padded input, {n + before + after}, got {k}"
            )
        size.append((n + before + after - k) // s + 1)
    return (x[0], w[0], plane.order, *size), Place(place.stride, place.lower, place.upper)


def warn_if_broken(where: str, x: Sizes, k: int, plane: Planar, place: Place) -> None:
    """Warn where the output cannot turn as the input does."""
    broken = ""
    for axis, (n, s, before, after) in enumerate(zip(x[-2:], *place, strict=True)):
        if axis == 1 and plane.name == "pm":
            continue  # flips change the rows alone
        rest = (n + before + after - k) % s
        if rest:
            broken = (
                f"stride {s} leaves {rest} of {n} positions out at the end of axis {axis}: "
                f"choose a size or padding with (size + 2 padding - {k}) divisible by the stride"
            )
        elif before != after:
            broken = f"padding is {before} before and {after} after: filters of odd side have equal padding"
    if plane.turns and not broken:
        if x[-2] != x[-1]:
            broken = f"quarter turns exchange height and width, {x[-2]} and {x[-1]}: pad or crop to a square"
        elif len(set(place.stride)) > 1 or len(set(place.lower)) > 1:
            broken = "quarter turns exchange the axes: choose the same stride and padding for both"
    if broken:
        message = f"[{where}] the layer does not commute with {plane.name} at this size: {broken}"
        warnings.warn(message, EquivarianceWarning, stacklevel=4)


def one_channel_axis(array: Array) -> Array:
    """Give an array (N, C, |G|, H, W) whose channels and elements are one axis of equal steps, by a copy if need be."""
    _, c, order, _, _ = array.shape
    if hasattr(array, "strides") and c > 1 and order > 1 and array.strides[1] != order * array.strides[2]:
        return array.copy()
    return array


def full_size(where: str, name: str, value: Any, rank: int) -> Sizes:
    """Check a shape that is given as an argument."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"[{where}] expected {name} to be {rank} whole numbers, got {kind(value)}")
    wanted = f"whole numbers of at least 0, {rank} of them"
    if len(value) != rank:
        raise ValueError(f"[{where}] expected {name} to be {wanted}, got {tuple(value)}")
    return tuple(whole(where, name, number, 0, wanted) for number in value)


def check_grad(call: Call, at: int, shape: Sizes) -> None:
    """Refuse a gradient that is not of the shape of the output."""
    found = tuple(call.arrays[at].shape)
    if found != shape:
        raise ValueError(f"[{call.operation.name}] expected grad of shape {shape}, got {found}")
