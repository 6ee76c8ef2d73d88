"""Groups: layers that commute with them, functions on them, and what does not change along their orbits.

The layers on the groups of the plane are here; tables, gradients, other groups and orbits are in the modules
``_group_*`` beside, and public from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._conv_checks import activation_name, check_bias, choice, flag, whole
from fastdl._dispatch import Operation
from fastdl._group_checks import (
    EquivarianceWarning,
    check_algorithm,
    check_filters,
    check_layer,
    check_maps,
    one_channel_axis,
    warn_if_broken,
)
from fastdl._group_finite import convolve
from fastdl._group_gradients import conv2d_input, conv2d_weight, lift_conv2d_input, lift_conv2d_weight
from fastdl._group_orbits import (
    average,
    orbit_gramian,
    orbit_regularizer,
    permutation_layer,
    set_pool,
    signature,
)
from fastdl._group_rotations import se2_conv2d, se2_filters, se2_lift_conv2d
from fastdl._group_table import Group, escnn_order, planar

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._conv_checks import Count, Padding

__all__ = [
    "EquivarianceWarning",
    "Group",
    "act",
    "average",
    "conv2d",
    "conv2d_input",
    "conv2d_weight",
    "convolve",
    "escnn_order",
    "expand_filters",
    "lift_conv2d",
    "lift_conv2d_input",
    "lift_conv2d_weight",
    "orbit_gramian",
    "orbit_regularizer",
    "permutation_layer",
    "pool",
    "se2_conv2d",
    "se2_filters",
    "se2_lift_conv2d",
    "set_pool",
    "signature",
]

_lift = Operation("group.lift_conv2d", "x", "w", "bias?")
_conv = Operation("group.conv2d", "x", "w", "bias?")
_expand = Operation("group.expand_filters", "w")
_act = Operation("group.act", "x")
_pool = Operation("group.pool", "x")

_POOLS = ("max", "mean", "sum", "l2")


def _layer(
    operation: Operation,
    arrays: tuple[Array, Array, Array | None],
    group: Any,
    options: tuple[Any, Any],
    activation: Any,
    algorithm: Any,
) -> Array:
    """Check and compute; `options` are stride and padding."""
    where, lift = operation.name, operation is _lift
    call = operation.begin(*arrays)
    plane = planar(where, group)
    maps, weights, constants = call.arrays
    x = check_maps(where, "x", maps.shape, plane, lift)
    k = check_filters(where, "w", weights.shape, plane, lift)
    shape, place = check_layer(where, ("x", x), ("w", tuple(weights.shape)), plane, *options)
    check_bias(where, constants, shape[1])
    name = activation_name(where, activation)
    how = check_algorithm(where, algorithm)
    warn_if_broken(where, x, k, plane, place)
    if not lift and call.backend == "native":
        call.arrays = (one_channel_axis(maps), *call.arrays[1:])
    return call.finish(shape, None, plane.name, *place, name, how)


def lift_conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    algorithm: str = "auto",
) -> Array:
    r"""Correlate images with filters in all their poses: from images to functions on the group.

    Parameters
    ----------
    x : array of shape (N, Cin, H, W)
        Images.
    w : array of shape (Cout, Cin, k, k)
        Filters.
    bias : array of shape (Cout,), optional
        Added to every position and element of a channel.
    group : {"p4", "p4m", "p2", "pm"}, default "p4"
        Quarter turns, those with flips, half turns, or flips.
    stride, padding
        As in `fastdl.conv.conv2d`; what is added are zeros.
    activation : {"relu", "leaky_relu", "sigmoid", "tanh"}, optional
        What is applied to the result.
    algorithm : {"auto", "expand", "orbit"}, default "auto"
        A convolution with the filters of all poses written out; by the orbits of pixels, see `conv2d`; or what is
        quicker.

    Returns
    -------
    array of shape (N, Cout, \|G\|, H', W')
        In the library and on the device of `x`. float32 if all inputs are, else float64.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or there is no such group.
    TypeError
        If a dtype or kind does not fit.

    Warns
    -----
    EquivarianceWarning
        If stride, padding or shape do not let the layer commute with the group, with what would.

    Notes
    -----
    .. math:: y[n, o, s, p] = b_o + \sum_{c, q} (A_s w[o, c])[q]\, x[n, c, \mathrm{stride}\, p + q - \mathrm{padding}]

    Element r of p4 turns by r quarters counter-clockwise, ``numpy.rot90(w, r)``; element 4 m + r of p4m turns so and
    then flips the rows if m is 1. These are the conventions of GrouPy; `escnn_order` goes over to those of escnn.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> w = np.array([[[[1.0, 0.0], [0.0, 0.0]]]])
    >>> group.lift_conv2d(np.array([[[[1.0, 2.0], [3.0, 4.0]]]]), w)[0, 0, :, 0, 0]
    array([1., 3., 4., 2.])
    """
    return _layer(_lift, (x, w, bias), group, (stride, padding), activation, algorithm)


def conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    algorithm: str = "auto",
) -> Array:
    r"""Group convolution: from functions on the positions and elements of a group to such functions.

    Parameters
    ----------
    x : array of shape (N, Cin, \|G\|, H, W)
        Functions on the group.
    w : array of shape (Cout, Cin, \|G\|, k, k)
        Filters.
    bias : array of shape (Cout,), optional
        Added to every position and element of a channel.
    group : {"p4", "p4m", "p2", "pm"}, default "p4"
        As in `lift_conv2d`.
    stride, padding
        As in `fastdl.conv.conv2d`; what is added are zeros.
    activation : {"relu", "leaky_relu", "sigmoid", "tanh"}, optional
        What is applied to the result.
    algorithm : {"auto", "expand", "orbit"}, default "auto"
        A convolution with the filters of all elements written out; by the orbits of pairs of an element and a pixel,
        which the representations of the group take apart, with 5 multiplications in place of 16 for p4 and 12 in place
        of 64 for p4m; or what is quicker.

    Returns
    -------
    array of shape (N, Cout, \|G\|, H', W')
        In the library and on the device of `x`. float32 if all inputs are, else float64.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or there is no such group.
    TypeError
        If a dtype or kind does not fit.

    Warns
    -----
    EquivarianceWarning
        If stride, padding or shape do not let the layer commute with the group, with what would.

    Notes
    -----
    .. math:: y[n, o, s, p] = b_o +
        \sum_{c, t, q} (A_s w[o, c, s^{-1} t])[q]\, x[n, c, t, \mathrm{stride}\, p + q - \mathrm{padding}]

    It commutes with the action of the group, ``conv2d(act(x, g), w) == act(conv2d(x, w), g)``, to rounding. Compiled
    results do not depend on the number of threads, to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> x, w = np.arange(4.0).reshape(1, 1, 4, 1, 1), np.array([1.0, 0, 0, 10]).reshape(1, 1, 4, 1, 1)
    >>> group.conv2d(x, w)[0, 0, :, 0, 0]
    array([30.,  1., 12., 23.])
    """
    return _layer(_conv, (x, w, bias), group, (stride, padding), activation, algorithm)


def expand_filters(w: Array, group: str = "p4", lift: bool = False) -> Array:
    r"""Give the filters of all elements, for a plain convolution that does what `conv2d` or `lift_conv2d` does.

    Parameters
    ----------
    w : array of shape (Cout, Cin, \|G\|, k, k), or (Cout, Cin, k, k) with `lift`
        Filters.
    group : {"p4", "p4m", "p2", "pm"}, default "p4"
        As in `lift_conv2d`.
    lift : bool, default False
        Whether they are those of `lift_conv2d`.

    Returns
    -------
    array of shape (Cout \|G\|, Cin \|G\|, k, k), or (Cout \|G\|, Cin, k, k) with `lift`
        Channels of the convolution are pairs of a channel and an element, the element counting faster.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.expand_filters(np.array([[[[1.0, 2.0], [3.0, 4.0]]]]), "p2", lift=True)
    array([[[[1., 2.],
             [3., 4.]]],
    <BLANKLINE>
    <BLANKLINE>
           [[[4., 3.],
             [2., 1.]]]])
    """
    where = "group.expand_filters"
    call = _expand.begin(w)
    plane = planar(where, group)
    lifts = flag(where, "lift", lift)
    shape = tuple(call.arrays[0].shape)
    k = check_filters(where, "w", shape, plane, lifts)
    order = plane.order
    return call.finish((shape[0] * order, shape[1] * (1 if lifts else order), k, k), None, plane.name, lifts)


def act(x: Array, g: int, group: str = "p4") -> Array:
    r"""Let an element of a group of the plane act on images, or on functions on the group.

    Parameters
    ----------
    x : array of shape (N, C, H, W) or (N, C, \|G\|, H, W)
        Images, or functions on the group.
    g : int
        The element.
    group : {"p4", "p4m", "p2", "pm"}, default "p4"
        As in `lift_conv2d`.

    Returns
    -------
    array
        Of the shape of `x`, but that a quarter turn exchanges height and width.

    Notes
    -----
    .. math:: (L_g f)(t, p) = f(g^{-1} t, g^{-1} p)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.act(np.array([[[[1.0, 2.0], [3.0, 4.0]]]]), 1)
    array([[[[2., 4.],
             [1., 3.]]]])
    """
    where = "group.act"
    call = _act.begin(x)
    plane = planar(where, group)
    element = whole(where, "g", g, 0, f"an element of {plane.name}, from 0 to {plane.order - 1}")
    if element >= plane.order:
        raise ValueError(
            f"[{where}] expected g to be an element of {plane.name}, from 0 to {plane.order - 1}, got {element}"
        )
    shape = tuple(call.arrays[0].shape)
    if len(shape) not in (4, 5) or (len(shape) == 5 and shape[2] != plane.order):
        raise ValueError(f"[{where}] expected x of shape (N, C, H, W) or (N, C, {plane.order}, H, W), got {shape}")
    if plane.elements[element][1] % 2:
        shape = (*shape[:-2], shape[-1], shape[-2])
    return call.finish(shape, None, element, plane.name)


def pool(x: Array, mode: str = "max") -> Array:
    r"""Join the elements of the group at every position: what is left turns with the image alone.

    Parameters
    ----------
    x : array of shape (N, C, \|G\|, H, W)
        Functions on a group.
    mode : {"max", "mean", "sum", "l2"}, default "max"
        The largest value, the mean, the sum, or the root of the sum of squares.

    Returns
    -------
    array of shape (N, C, H, W)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.pool(np.arange(4.0).reshape(1, 1, 4, 1, 1), "sum")
    array([[[[6.]]]])
    """
    where = "group.pool"
    call = _pool.begin(x)
    name = choice(where, "mode", mode, _POOLS)
    shape = tuple(call.arrays[0].shape)
    if len(shape) != 5 or shape[2] == 0:
        raise ValueError(f"[{where}] expected x of shape (N, C, |G|, H, W) with an element at least, got {shape}")
    if call.backend == "native":
        call.arrays = (np.ascontiguousarray(call.arrays[0]),)
    return call.finish((*shape[:2], *shape[3:]), None, name)
