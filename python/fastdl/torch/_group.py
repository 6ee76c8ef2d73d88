"""Layers on the groups of the plane with gradients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from fastdl import conv, group
from fastdl._group_rotations import rotation_matrices
from fastdl._group_table import planar
from fastdl.torch._functions import check, layer, linear
from fastdl.torch._orbits import joined

if TYPE_CHECKING:
    from torch import Tensor

    from fastdl._conv_checks import Count, Padding


class _Planar:
    """A layer on a group of the plane and its adjoints, for an input and filters of fixed shapes."""

    def __init__(self, name: str, x: Tensor, w: Tensor, **options: Any) -> None:
        self.name, self.x_shape, self.w_shape, self.options = name, tuple(x.shape), tuple(w.shape), options

    def forward(self, x: Tensor, w: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
        return getattr(group, self.name)(x, w, bias, activation=activation, **self.options)

    def input(self, w: Tensor, grad: Tensor) -> Tensor:
        return getattr(group, f"{self.name}_input")(self.x_shape, w, grad, **self.options)

    def weight(self, x: Tensor, grad: Tensor) -> Tensor:
        return getattr(group, f"{self.name}_weight")(x, self.w_shape, grad, **self.options)


class _Turned:
    """The same for turns by any angle: a convolution with filters in all their poses, which are linear in them."""

    def __init__(
        self, x: Tensor, w: Tensor, rotations: int, interpolation: str, *, lift: bool, stride: Count, padding: Padding
    ) -> None:
        self.x_shape, self.w_shape = tuple(x.shape), tuple(w.shape)
        self.rotations, self.interpolation, self.lift = rotations, interpolation, lift
        self.place: dict[str, Any] = {"stride": stride, "padding": padding}

    def forward(self, x: Tensor, w: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
        function = group.se2_lift_conv2d if self.lift else group.se2_conv2d
        options: dict[str, Any] = {
            "rotations": self.rotations,
            "activation": activation,
            "interpolation": self.interpolation,
        }
        return function(x, w, bias, **options, **self.place)

    def _flat(self, maps: Tensor) -> Tensor:
        """Join channels and elements, if there are any."""
        return maps.flatten(1, 2) if maps.ndim == 5 else maps

    def input(self, w: Tensor, grad: Tensor) -> Tensor:
        filters = group.se2_filters(w, self.rotations, self.lift, self.interpolation)
        size = (self.x_shape[0], filters.shape[1], *self.x_shape[-2:])
        return conv.conv2d_input(size, filters, self._flat(grad), **self.place).reshape(self.x_shape)

    def weight(self, x: Tensor, grad: Tensor) -> Tensor:
        """Turn the gradients for the filters of all poses back, and add them up."""
        n, (outputs, inputs), k = self.rotations, self.w_shape[:2], self.w_shape[-1]
        size = (outputs * n, inputs * (1 if self.lift else n), k, k)
        found = conv.conv2d_weight(self._flat(x), size, self._flat(grad), **self.place)
        poses = found.to(torch.float64).reshape(outputs, n, inputs, -1, k * k)
        turns = torch.tensor(rotation_matrices(k, n, self.interpolation), device=found.device)
        total = torch.zeros(outputs, inputs, poses.shape[3], k * k, dtype=torch.float64, device=found.device)
        for s in range(n):
            total += (poses[:, s] if self.lift else poses[:, s].roll(-s, 2)) @ turns[s]
        return total.to(found.dtype).reshape(self.w_shape)


def lift_conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    algorithm: str = "auto",
) -> Tensor:
    r"""Correlate images with filters in all their poses, `fastdl.group.lift_conv2d` with gradients.

    Parameters
    ----------
    x : tensor of shape (N, Cin, H, W)
    w : tensor of shape (Cout, Cin, k, k)
    bias : tensor of shape (Cout,), optional
    group, stride, padding, activation, algorithm
        As in `fastdl.group.lift_conv2d`.

    Returns
    -------
    tensor of shape (N, Cout, \|G\|, H', W')

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or there is no such group.
    TypeError
        If an argument is not a tensor of float32 or float64.

    Notes
    -----
    Gradients can be differentiated again, any number of times.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> w = torch.tensor([[[[1.0, 0.0], [0.0, 0.0]]]], requires_grad=True)
    >>> y = fastdl.torch.lift_conv2d(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), w)
    >>> y[0, 0, :, 0, 0].tolist()
    [1.0, 3.0, 4.0, 2.0]
    >>> y.sum().backward()
    >>> w.grad[0, 0]
    tensor([[10., 10.],
            [10., 10.]])
    """
    check("group.lift_conv2d", {"bias": bias}, x=x, w=w)
    maps = _Planar("lift_conv2d", x, w, group=group, stride=stride, padding=padding, algorithm=algorithm)
    return layer(x, w, bias, maps, activation)


def group_conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    group: str = "p4",
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    algorithm: str = "auto",
) -> Tensor:
    r"""Group convolution, `fastdl.group.conv2d` with gradients.

    Parameters
    ----------
    x : tensor of shape (N, Cin, \|G\|, H, W)
    w : tensor of shape (Cout, Cin, \|G\|, k, k)
    bias : tensor of shape (Cout,), optional
    group, stride, padding, activation, algorithm
        As in `fastdl.group.conv2d`.

    Returns
    -------
    tensor of shape (N, Cout, \|G\|, H', W')

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or there is no such group.
    TypeError
        If an argument is not a tensor of float32 or float64.

    Notes
    -----
    Gradients can be differentiated again, any number of times.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> x, w = torch.arange(4.0).reshape(1, 1, 4, 1, 1), torch.tensor([1.0, 0, 0, 10]).reshape(1, 1, 4, 1, 1)
    >>> fastdl.torch.group_conv2d(x, w)[0, 0, :, 0, 0]
    tensor([30.,  1., 12., 23.])
    """
    check("group.conv2d", {"bias": bias}, x=x, w=w)
    maps = _Planar("conv2d", x, w, group=group, stride=stride, padding=padding, algorithm=algorithm)
    return layer(x, w, bias, maps, activation)


def se2_lift_conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    rotations: int = 8,
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    interpolation: str = "bilinear",
) -> Tensor:
    r"""Correlate images with filters turned by multiples of 2π / N, `fastdl.group.se2_lift_conv2d` with gradients.

    Parameters
    ----------
    x : tensor of shape (N, Cin, H, W)
    w : tensor of shape (Cout, Cin, k, k)
    bias : tensor of shape (Cout,), optional
    rotations, stride, padding, activation, interpolation
        As in `fastdl.group.se2_lift_conv2d`.

    Returns
    -------
    tensor of shape (N, Cout, rotations, H', W')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.se2_lift_conv2d(torch.ones(1, 1, 5, 5), torch.ones(2, 1, 3, 3)).shape
    torch.Size([1, 2, 8, 3, 3])
    """
    check("group.se2_lift_conv2d", {"bias": bias}, x=x, w=w)
    maps = _Turned(x, w, rotations, interpolation, lift=True, stride=stride, padding=padding)
    return layer(x, w, bias, maps, activation)


def se2_conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    rotations: int = 8,
    stride: Count = 1,
    padding: Padding = 0,
    activation: str | None = None,
    interpolation: str = "bilinear",
) -> Tensor:
    r"""Convolve functions on shifts and turns by multiples of 2π / N, `fastdl.group.se2_conv2d` with gradients.

    Parameters
    ----------
    x : tensor of shape (N, Cin, rotations, H, W)
    w : tensor of shape (Cout, Cin, rotations, k, k)
    bias, rotations, stride, padding, activation, interpolation
        As in `se2_lift_conv2d`.

    Returns
    -------
    tensor of shape (N, Cout, rotations, H', W')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.se2_conv2d(torch.ones(1, 2, 6, 5, 5), torch.ones(3, 2, 6, 3, 3), rotations=6).shape
    torch.Size([1, 3, 6, 3, 3])
    """
    check("group.se2_conv2d", {"bias": bias}, x=x, w=w)
    maps = _Turned(x, w, rotations, interpolation, lift=False, stride=stride, padding=padding)
    return layer(x, w, bias, maps, activation)


def pool(x: Tensor, mode: str = "max") -> Tensor:
    r"""Join the elements of the group at every position, `fastdl.group.pool` with a gradient.

    Parameters
    ----------
    x : tensor of shape (N, C, \|G\|, H, W)
    mode : {"max", "mean", "sum", "l2"}, default "max"
        As in `fastdl.group.pool`. The gradient of a maximum goes to the first element that has it, and that of a length
        of 0 is 0.

    Returns
    -------
    tensor of shape (N, C, H, W)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> x = torch.tensor([0.0, 3.0, 4.0, 0.0]).reshape(1, 1, 4, 1, 1).requires_grad_()
    >>> fastdl.torch.pool(x, "l2").backward()
    >>> x.grad.flatten()
    tensor([0.0000, 0.6000, 0.8000, 0.0000])
    """
    check("group.pool", x=x)
    return joined(x, group.pool, mode, 2)


def act(x: Tensor, g: int, group: str = "p4") -> Tensor:
    r"""Let an element of a group of the plane act on images or functions, `fastdl.group.act` with a gradient.

    Parameters
    ----------
    x : tensor of shape (N, C, H, W) or (N, C, \|G\|, H, W)
    g, group
        As in `fastdl.group.act`.

    Returns
    -------
    tensor
        Of the shape of `x`, but that a quarter turn exchanges height and width.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.act(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 1)
    tensor([[[[2., 4.],
              [1., 3.]]]])
    """
    check("group.act", x=x)
    return linear(x, partial(_act, g=g, plane=group), partial(_act_back, g=g, plane=group))


def _act(x: Tensor, g: int, plane: str) -> Tensor:
    return group.act(x, g, plane)


def _act_back(x: Tensor, g: int, plane: str) -> Tensor:
    return group.act(x, int(planar("group.act", plane).group.inverse[g]), plane)
