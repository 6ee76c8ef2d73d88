"""Gradients of the layers on the groups of the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdl._conv_checks import finish_sized
from fastdl._dispatch import Operation
from fastdl._group_checks import (
    check_algorithm,
    check_filters,
    check_grad,
    check_layer,
    check_maps,
    full_size,
    one_channel_axis,
)
from fastdl._group_table import planar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import Array
    from fastdl._conv_checks import Count, Padding

_lift_input = Operation("group.lift_conv2d_input", "w", "grad")
_lift_weight = Operation("group.lift_conv2d_weight", "x", "grad")
_input = Operation("group.conv2d_input", "w", "grad")
_weight = Operation("group.conv2d_weight", "x", "grad")


def _input_gradient(
    operation: Operation, input_size: Any, w: Array, grad: Array, group: Any, options: tuple[Any, Any], algorithm: Any
) -> Array:
    """Check and compute; `options` are stride and padding."""
    where, lift = operation.name, operation is _lift_input
    call = operation.begin(w, grad)
    plane = planar(where, group)
    weights = tuple(call.arrays[0].shape)
    size = check_maps(where, "input_size", full_size(where, "input_size", input_size, 4 if lift else 5), plane, lift)
    check_filters(where, "w", weights, plane, lift)
    shape, place = check_layer(where, ("input_size", size), ("w", weights), plane, *options)
    check_grad(call, 1, shape)
    how = check_algorithm(where, algorithm)
    return finish_sized(call, size, plane.name, place.stride, place.lower, how)


def _weight_gradient(
    operation: Operation, x: Array, weight_size: Any, grad: Array, group: Any, options: tuple[Any, Any], algorithm: Any
) -> Array:
    where, lift = operation.name, operation is _lift_weight
    call = operation.begin(x, grad)
    plane = planar(where, group)
    maps = check_maps(where, "x", call.arrays[0].shape, plane, lift)
    size = full_size(where, "weight_size", weight_size, 4 if lift else 5)
    check_filters(where, "weight_size", size, plane, lift)
    shape, place = check_layer(where, ("x", maps), ("weight_size", size), plane, *options)
    check_grad(call, 1, shape)
    how = check_algorithm(where, algorithm)
    if not lift and call.backend == "native":
        call.arrays = (one_channel_axis(call.arrays[0]), call.arrays[1])
    return finish_sized(call, size, plane.name, place.stride, place.lower, how)


def conv2d_input(
    input_size: Sequence[int],
    w: Array,
    grad: Array,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    algorithm: str = "auto",
) -> Array:
    r"""Gradient of `conv2d` for its input.

    Parameters
    ----------
    input_size : tuple of 5 ints
        Shape (N, Cin, \|G\|, H, W) of the input.
    w : array of shape (Cout, Cin, \|G\|, k, k)
        Filters.
    grad : array of shape (N, Cout, \|G\|, H', W')
        Gradient for the result.
    group, stride, padding, algorithm
        As they were given to `conv2d`.

    Returns
    -------
    array of shape (N, Cin, \|G\|, H, W)
        In the library of `w`.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or `grad` is not of the shape of the result.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> w, grad = np.array([1.0, 0, 0, 10]).reshape(1, 1, 4, 1, 1), np.eye(4)[0].reshape(1, 1, 4, 1, 1)
    >>> group.conv2d_input((1, 1, 4, 1, 1), w, grad)[0, 0, :, 0, 0]
    array([ 1.,  0.,  0., 10.])
    """
    return _input_gradient(_input, input_size, w, grad, group, (stride, padding), algorithm)


def lift_conv2d_input(
    input_size: Sequence[int],
    w: Array,
    grad: Array,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    algorithm: str = "auto",
) -> Array:
    r"""Gradient of `lift_conv2d` for the images, as `conv2d_input`.

    Parameters
    ----------
    input_size : tuple of 4 ints
        Shape (N, Cin, H, W) of the images.
    w : array of shape (Cout, Cin, k, k)
    grad : array of shape (N, Cout, \|G\|, H', W')
    group, stride, padding, algorithm
        As they were given to `lift_conv2d`.

    Returns
    -------
    array of shape (N, Cin, H, W)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> w = np.array([[[[1.0, 0.0], [0.0, 0.0]]]])
    >>> group.lift_conv2d_input((1, 1, 2, 2), w, np.arange(4.0).reshape(1, 1, 4, 1, 1))
    array([[[[0., 3.],
             [1., 2.]]]])
    """
    return _input_gradient(_lift_input, input_size, w, grad, group, (stride, padding), algorithm)


def conv2d_weight(
    x: Array,
    weight_size: Sequence[int],
    grad: Array,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    algorithm: str = "auto",
) -> Array:
    r"""Gradient of `conv2d` for its filters.

    Parameters
    ----------
    x : array of shape (N, Cin, \|G\|, H, W)
        Functions on the group.
    weight_size : tuple of 5 ints
        Shape (Cout, Cin, \|G\|, k, k) of the filters.
    grad : array of shape (N, Cout, \|G\|, H', W')
        Gradient for the result. Summed over all axes but the second, it is the gradient for the bias.
    group, stride, padding, algorithm
        As they were given to `conv2d`.

    Returns
    -------
    array of shape (Cout, Cin, \|G\|, k, k)
        In the library of `x`.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or `grad` is not of the shape of the result.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> x, grad = np.arange(4.0).reshape(1, 1, 4, 1, 1), np.array([1.0, 10, 0, 0]).reshape(1, 1, 4, 1, 1)
    >>> group.conv2d_weight(x, (1, 1, 4, 1, 1), grad)[0, 0, :, 0, 0]
    array([10., 21., 32.,  3.])
    """
    return _weight_gradient(_weight, x, weight_size, grad, group, (stride, padding), algorithm)


def lift_conv2d_weight(
    x: Array,
    weight_size: Sequence[int],
    grad: Array,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    algorithm: str = "auto",
) -> Array:
    r"""Gradient of `lift_conv2d` for its filters, as `conv2d_weight`.

    Parameters
    ----------
    x : array of shape (N, Cin, H, W)
        Images.
    weight_size : tuple of 4 ints
        Shape (Cout, Cin, k, k) of the filters.
    grad : array of shape (N, Cout, \|G\|, H', W')
    group, stride, padding, algorithm
        As they were given to `lift_conv2d`.

    Returns
    -------
    array of shape (Cout, Cin, k, k)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> x = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> group.lift_conv2d_weight(x, (1, 1, 2, 2), np.array([1.0, 0, 10, 0]).reshape(1, 1, 4, 1, 1))
    array([[[[41., 32.],
             [23., 14.]]]])
    """
    return _weight_gradient(_lift_weight, x, weight_size, grad, group, (stride, padding), algorithm)
