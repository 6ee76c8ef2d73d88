"""Layers for turns by any angle: filters that are turned by interpolation."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl import _dispatch
from fastdl._conv_checks import activation_name, choice, flag, whole
from fastdl._dispatch import Operation
from fastdl._group_checks import check_layer, warn_if_broken
from fastdl._group_table import planar

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray
    from fastdl._conv_checks import Count, Padding

INTERPOLATIONS = ("bilinear", "bicubic")

_filters = Operation("group.se2_filters", "w")


def _bilinear(distance: float) -> float:
    return max(0.0, 1.0 - abs(distance))


def _bicubic(distance: float, a: float = -0.5) -> float:
    """Keys' kernel, which reproduces polynomials of the second degree."""
    d = abs(distance)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


@cache
def rotation_matrices(k: int, rotations: int, interpolation: str) -> HostArray:
    """Give (rotations, k², k²): filters turned counter-clockwise by 2π s / rotations, as linear maps.

    What lies more than k / 2 from the middle is 0, before and after: a disk, which turns into itself.
    """
    weight = _bilinear if interpolation == "bilinear" else _bicubic
    middle = (k - 1) / 2
    inside = [[math.hypot(i - middle, j - middle) <= k / 2 for j in range(k)] for i in range(k)]
    maps = np.zeros((rotations, k * k, k * k))
    for s in range(rotations):
        # Quarter turns are exact.
        quarters = 4 * s / rotations
        angle = 2 * math.pi * s / rotations
        c, d = math.cos(angle), math.sin(angle)
        if quarters == int(quarters):
            c, d = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(quarters)]
        for i in range(k):
            for j in range(k):
                if not inside[i][j]:
                    continue
                # Rows go down: (right, up) = (j, -i), from which the turn is taken back.
                right, up = j - middle, middle - i
                column, row = c * right + d * up + middle, middle - (-d * right + c * up)
                for a in range(k):
                    for b in range(k):
                        if inside[a][b]:
                            maps[s, i * k + j, a * k + b] = weight(row - a) * weight(column - b)
    maps.flags.writeable = False
    return maps


def _check(where: str, rotations: Any, interpolation: Any) -> tuple[int, str]:
    number = whole(where, "rotations", rotations, 1)
    return number, choice(where, "interpolation", interpolation, INTERPOLATIONS)


def se2_filters(w: Array, rotations: int = 8, lift: bool = False, interpolation: str = "bilinear") -> Array:
    r"""Give filters in all their poses, for a plain convolution that does what the layers here do.

    Parameters
    ----------
    w : array of shape (Cout, Cin, rotations, k, k), or (Cout, Cin, k, k) with `lift`
        Filters.
    rotations : int, default 8
        The number N of turns, by multiples of 2π / N.
    lift : bool, default False
        Whether they are those of `se2_lift_conv2d`.
    interpolation : {"bilinear", "bicubic"}, default "bilinear"
        How values between pixels are found.

    Returns
    -------
    array of shape (Cout N, Cin N, k, k), or (Cout N, Cin, k, k) with `lift`

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.se2_filters(np.arange(9.0).reshape(1, 1, 3, 3), 4, lift=True)[1, 0]
    array([[2., 5., 8.],
           [1., 4., 7.],
           [0., 3., 6.]])
    """
    where = "group.se2_filters"
    number, name = _check(where, rotations, interpolation)
    call = _filters.begin(w)
    lifts = flag(where, "lift", lift)
    shape = tuple(call.arrays[0].shape)
    _check_filters(where, shape, number, lifts)
    k = shape[-1]
    inputs = shape[1] * (1 if lifts else number)
    return call.finish((shape[0] * number, inputs, k, k), None, rotation_matrices(k, number, name), lifts)


def _check_filters(where: str, shape: tuple[int, ...], number: int, lift: bool) -> None:
    wanted = "(Cout, Cin, k, k)" if lift else f"(Cout, Cin, {number}, k, k)"
    if len(shape) != (4 if lift else 5) or (not lift and shape[2] != number) or 0 in shape[-2:]:
        raise ValueError(f"[{where}] expected w of shape {wanted}, got {shape}")
    if shape[-1] != shape[-2]:
        raise ValueError(f"[{where}] expected square filters, got {shape[-2]} x {shape[-1]} in w")


def _layer(
    where: str,
    arrays: tuple[Array, Array, Array | None],
    rotations: Any,
    options: tuple[Any, Any],
    activation: Any,
    interpolation: Any,
    lift: bool,
) -> Array:
    """Expand the filters and convolve: the checks are those of the two, under this name."""
    from fastdl import conv

    number, name = _check(where, rotations, interpolation)
    operation = _LIFT if lift else _CONV
    call = operation.begin(*arrays)
    x, w = (_home(call, array) for array in call.arrays[:2])
    bias = None if call.arrays[2] is None else _home(call, call.arrays[2])
    shape = tuple(x.shape)
    wanted = "(N, Cin, H, W)" if lift else f"(N, Cin, {number}, H, W)"
    if len(shape) != (4 if lift else 5) or (not lift and shape[2] != number):
        raise ValueError(f"[{where}] expected x of shape {wanted}, got {shape}")
    _check_filters(where, tuple(w.shape), number, lift)
    if bias is not None and tuple(bias.shape) != (w.shape[0],):
        raise ValueError(f"[{where}] expected bias of shape ({w.shape[0]},), got {tuple(bias.shape)}")
    # Turns of the grid are among them if N is even; for others no size commutes with the layer.
    plane = planar(where, "p4" if number % 4 == 0 else "p2")
    _, place = check_layer(where, ("x", shape), ("w", tuple(w.shape)), plane, *options)
    activation_name(where, activation)
    if number % 2 == 0:
        warn_if_broken(where, shape, w.shape[-1], plane, place)
    xp = call.library.namespace(x)
    filters = se2_filters(w, number, lift, name)
    if bias is not None:
        bias = xp.reshape(xp.stack([bias] * number, axis=1), (-1,))
    maps = xp.reshape(x, (shape[0], filters.shape[1], *shape[-2:]))
    y = conv.conv2d(maps, filters, bias, stride=options[0], padding=options[1], activation=activation)
    return xp.reshape(y, (shape[0], w.shape[0], number, *y.shape[-2:]))


def _home(call: _dispatch.Call, array: Any) -> Any:
    return call.library.wrap(array, call.like) if isinstance(array, np.ndarray) else array


_LIFT = Operation("group.se2_lift_conv2d", "x", "w", "bias?")
_CONV = Operation("group.se2_conv2d", "x", "w", "bias?")


def se2_lift_conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    rotations: int = 8,
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    interpolation: str = "bilinear",
) -> Array:
    r"""Correlate images with filters turned by multiples of 2π / N: from images to functions on SE(2, N).

    Parameters
    ----------
    x : array of shape (N, Cin, H, W)
        Images.
    w : array of shape (Cout, Cin, k, k)
        Filters; what lies more than k / 2 from their middle counts as 0.
    bias : array of shape (Cout,), optional
    rotations : int, default 8
        The number of turns. With 4 they are exact, and those of p4 for filters that are 0 beyond the disk, as all are
        for k up to 3.
    stride, padding, activation
        As in `lift_conv2d`.
    interpolation : {"bilinear", "bicubic"}, default "bilinear"
        How turned filters are found between pixels.

    Returns
    -------
    array of shape (N, Cout, rotations, H', W')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.se2_lift_conv2d(np.ones((1, 1, 5, 5)), np.ones((2, 1, 3, 3))).shape
    (1, 2, 8, 3, 3)
    """
    return _layer("group.se2_lift_conv2d", (x, w, bias), rotations, (stride, padding), activation, interpolation, True)


def se2_conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    rotations: int = 8,
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    interpolation: str = "bilinear",
) -> Array:
    r"""Convolve functions on SE(2, N), the group of shifts and turns by multiples of 2π / N.

    Parameters
    ----------
    x : array of shape (N, Cin, rotations, H, W)
    w : array of shape (Cout, Cin, rotations, k, k)
    bias, rotations, stride, padding, activation, interpolation
        As in `se2_lift_conv2d`.

    Returns
    -------
    array of shape (N, Cout, rotations, H', W')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.se2_conv2d(np.ones((1, 2, 6, 5, 5)), np.ones((3, 2, 6, 3, 3)), rotations=6).shape
    (1, 3, 6, 3, 3)
    """
    return _layer("group.se2_conv2d", (x, w, bias), rotations, (stride, padding), activation, interpolation, False)
