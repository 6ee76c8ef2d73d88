"""Gradients of convolutions for their inputs and their filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdl._conv_checks import RANKS, check_kernel, check_maps, finish_sized, forward, full_size
from fastdl._dispatch import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import Array
    from fastdl._conv_checks import Count, Padding, Sizes

_INPUT = {rank: Operation(f"conv.conv{rank}d_input", "w", "grad") for rank in RANKS}
_WEIGHT = {rank: Operation(f"conv.conv{rank}d_weight", "x", "grad") for rank in RANKS}


def _input_gradient(rank: int, input_size: Any, w: Array, grad: Array, options: tuple[Any, Any, Any, Any]) -> Array:
    """Check and compute; `options` are stride, padding, dilation and groups."""
    operation = _INPUT[rank]
    where = operation.name
    call = operation.begin(w, grad)
    weights, slopes = call.arrays
    size = full_size(where, "input_size", input_size, rank)
    check_kernel(where, "w", weights.shape, rank, "Cout, Cin / groups")
    shape, place = forward(where, ("input_size", size), ("w", weights.shape), *options)
    _check_grad(where, slopes, shape)
    return finish_sized(call, size, place.stride, place.lower, place.dilation, place.groups)


def _weight_gradient(rank: int, x: Array, weight_size: Any, grad: Array, options: tuple[Any, Any, Any, Any]) -> Array:
    operation = _WEIGHT[rank]
    where = operation.name
    call = operation.begin(x, grad)
    maps, slopes = call.arrays
    x_shape = check_maps(where, "x", maps.shape, rank)
    size = full_size(where, "weight_size", weight_size, rank)
    check_kernel(where, "weight_size", size, rank, "Cout, Cin / groups")
    shape, place = forward(where, ("x", x_shape), ("weight_size", size), *options)
    _check_grad(where, slopes, shape)
    return finish_sized(call, size, place.stride, place.lower, place.dilation, place.groups)


def _check_grad(where: str, grad: Array, shape: Sizes) -> None:
    if tuple(grad.shape) != shape:
        raise ValueError(f"[{where}] expected grad of shape {shape}, got {tuple(grad.shape)}")


def conv2d_input(
    input_size: Sequence[int],
    w: Array,
    grad: Array,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Gradient of `conv2d` for the images.

    Parameters
    ----------
    input_size : tuple of 4 ints
        Shape (N, Cin, H, W) of the images.
    w : array of shape (Cout, Cin / groups, kH, kW)
        Filters.
    grad : array of shape (N, Cout, H', W')
        Gradient for the result.
    stride, padding, dilation, groups
        As they were given to `conv2d`, whose padding was with zeros.

    Returns
    -------
    array of shape (N, Cin, H, W)
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
    >>> from fastdl import conv
    >>> conv.conv2d_input((1, 1, 1, 3), np.array([[[[1.0, 10.0]]]]), np.array([[[[1.0, 2.0]]]]))
    array([[[[ 1., 12., 20.]]]])
    """
    return _input_gradient(2, input_size, w, grad, (stride, padding, dilation, groups))


def conv1d_input(
    input_size: Sequence[int],
    w: Array,
    grad: Array,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Gradient of `conv1d` for `x`, as `conv2d_input`.

    Parameters
    ----------
    input_size : tuple of 3 ints
        Shape (N, Cin, L) of `x`.
    w : array of shape (Cout, Cin / groups, k)
    grad : array of shape (N, Cout, L')
    stride, padding, dilation, groups
        As they were given to `conv1d`.

    Returns
    -------
    array of shape (N, Cin, L)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv1d_input((1, 1, 3), np.array([[[1.0, 10.0]]]), np.array([[[1.0, 2.0]]]))
    array([[[ 1., 12., 20.]]])
    """
    return _input_gradient(1, input_size, w, grad, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Sequence[int],
    w: Array,
    grad: Array,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Gradient of `conv3d` for `x`, as `conv2d_input`.

    Parameters
    ----------
    input_size : tuple of 5 ints
        Shape (N, Cin, D, H, W) of `x`.
    w : array of shape (Cout, Cin / groups, kD, kH, kW)
    grad : array of shape (N, Cout, D', H', W')
    stride, padding, dilation, groups
        As they were given to `conv3d`.

    Returns
    -------
    array of shape (N, Cin, D, H, W)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv3d_input((1, 1, 1, 1, 2), np.arange(2.0).reshape(1, 1, 1, 1, 2), np.full((1, 1, 1, 1, 1), 3.0))
    array([[[[[0., 3.]]]]])
    """
    return _input_gradient(3, input_size, w, grad, (stride, padding, dilation, groups))


def conv2d_weight(
    x: Array,
    weight_size: Sequence[int],
    grad: Array,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Gradient of `conv2d` for the filters.

    Parameters
    ----------
    x : array of shape (N, Cin, H, W)
        Images.
    weight_size : tuple of 4 ints
        Shape (Cout, Cin / groups, kH, kW) of the filters.
    grad : array of shape (N, Cout, H', W')
        Gradient for the result. Summed over all axes but the second, it is the gradient for the bias.
    stride, padding, dilation, groups
        As they were given to `conv2d`, whose padding was with zeros.

    Returns
    -------
    array of shape (Cout, Cin / groups, kH, kW)
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
    >>> from fastdl import conv
    >>> conv.conv2d_weight(np.array([[[[1.0, 2.0, 3.0]]]]), (1, 1, 1, 2), np.array([[[[1.0, 10.0]]]]))
    array([[[[21., 32.]]]])
    """
    return _weight_gradient(2, x, weight_size, grad, (stride, padding, dilation, groups))


def conv1d_weight(
    x: Array,
    weight_size: Sequence[int],
    grad: Array,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Gradient of `conv1d` for the filters, as `conv2d_weight`.

    Parameters
    ----------
    x : array of shape (N, Cin, L)
    weight_size : tuple of 3 ints
        Shape (Cout, Cin / groups, k) of the filters.
    grad : array of shape (N, Cout, L')
    stride, padding, dilation, groups
        As they were given to `conv1d`.

    Returns
    -------
    array of shape (Cout, Cin / groups, k)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv1d_weight(np.array([[[1.0, 2.0, 3.0]]]), (1, 1, 2), np.array([[[1.0, 10.0]]]))
    array([[[21., 32.]]])
    """
    return _weight_gradient(1, x, weight_size, grad, (stride, padding, dilation, groups))


def conv3d_weight(
    x: Array,
    weight_size: Sequence[int],
    grad: Array,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Gradient of `conv3d` for the filters, as `conv2d_weight`.

    Parameters
    ----------
    x : array of shape (N, Cin, D, H, W)
    weight_size : tuple of 5 ints
        Shape (Cout, Cin / groups, kD, kH, kW) of the filters.
    grad : array of shape (N, Cout, D', H', W')
    stride, padding, dilation, groups
        As they were given to `conv3d`.

    Returns
    -------
    array of shape (Cout, Cin / groups, kD, kH, kW)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv3d_weight(np.arange(2.0).reshape(1, 1, 1, 1, 2), (1, 1, 1, 1, 2), np.full((1, 1, 1, 1, 1), 3.0))
    array([[[[[0., 3.]]]]])
    """
    return _weight_gradient(3, x, weight_size, grad, (stride, padding, dilation, groups))
