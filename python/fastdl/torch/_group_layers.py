"""Layers that commute with groups, as modules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fastdl._conv_checks import activation_name, choice, whole
from fastdl._group_checks import ALGORITHMS
from fastdl._group_rotations import INTERPOLATIONS
from fastdl._group_table import planar
from fastdl.torch import _group, _orbits

if TYPE_CHECKING:
    from torch import Tensor

    from fastdl._conv_checks import Count, Padding


class _Filters(nn.Module):
    """Filters and a bias, which begin as those of convolutions in torch.nn do."""

    bias: Tensor | None

    def __init__(
        self,
        where: str,
        shape: tuple[int, ...],
        bias: bool,
        stride: Count,
        padding: Padding,
        activation: str | None,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        self.out_channels, self.in_channels, self.kernel_size = shape[0], shape[1], shape[-1]
        self.stride, self.padding = stride, padding
        self.activation = activation_name(where, activation)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.register_parameter(
            "bias", nn.Parameter(torch.empty(shape[0], device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw filters and bias evenly from -1 to 1 over the root of the number of terms of a sum."""
        bound = 1 / math.sqrt(max(1, math.prod(self.weight.shape[1:])))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def _options(self) -> dict[str, Any]:
        """Give the arguments of the function beside the tensors."""
        return {"stride": self.stride, "padding": self.padding, "activation": self.activation}

    def extra_repr(self) -> str:
        """Give the arguments."""
        options = {name: value for name, value in self._options().items() if value is not None}
        text = ", ".join(f"{name}={value}" for name, value in {"kernel_size": self.kernel_size, **options}.items())
        return f"{self.in_channels}, {self.out_channels}, {text}" + ("" if self.bias is not None else ", bias=False")


class _Planar(_Filters):
    _lift: bool

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: Count = 1,
        padding: Padding = 0,
        bias: bool = True,
        group: str = "p4",
        activation: str | None = None,
        algorithm: str = "auto",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        where = "group.lift_conv2d" if self._lift else "group.conv2d"
        order = planar(where, group).order
        side = whole(where, "kernel_size", kernel_size, 1)
        shape = (out_channels, in_channels, *(() if self._lift else (order,)), side, side)
        super().__init__(where, shape, bias, stride, padding, activation, device, dtype)
        self.group, self.algorithm = group, choice(where, "algorithm", algorithm, ALGORITHMS)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "group": self.group, "algorithm": self.algorithm}


class LiftConv2d(_Planar):
    r"""The first layer of a network on a group of the plane: `fastdl.torch.lift_conv2d` with learnt filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the images and of the functions on the group.
    kernel_size : int
        Side of the filters.
    stride, padding, group, activation, algorithm
        As in `fastdl.group.lift_conv2d`.
    bias : bool, default True
        Whether to add a bias.
    device, dtype
        Of the parameters, as in torch.nn.

    Notes
    -----
    From (N, in_channels, H, W) to (N, out_channels, \|G\|, H', W'). Parameters: ``weight`` of shape (out_channels,
    in_channels, k, k) and ``bias`` of shape (out_channels,).

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import LiftConv2d
    >>> LiftConv2d(3, 8, 3, padding=1, group="p4m")(torch.ones(2, 3, 9, 9)).shape
    torch.Size([2, 8, 8, 9, 9])
    """

    _lift = True

    def forward(self, x: Tensor) -> Tensor:
        """Correlate images with the filters in all their poses."""
        return _group.lift_conv2d(x, self.weight, self.bias, **self._options())


class GroupConv2d(_Planar):
    r"""A layer between functions on a group of the plane: `fastdl.torch.group_conv2d` with learnt filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the functions on the group.
    kernel_size : int
        Side of the filters.
    stride, padding, group, activation, algorithm
        As in `fastdl.group.conv2d`.
    bias : bool, default True
        Whether to add a bias.
    device, dtype
        Of the parameters, as in torch.nn.

    Notes
    -----
    From (N, in_channels, \|G\|, H, W) to (N, out_channels, \|G\|, H', W'). Parameters: ``weight`` of shape
    (out_channels, in_channels, \|G\|, k, k) and ``bias`` of shape (out_channels,). Between such layers
    ``torch.nn.BatchNorm3d`` and `MaxPool3d` with a window of (1, k, k) keep what commutes with the group.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import GroupConv2d
    >>> GroupConv2d(8, 16, 3, padding=1)
    GroupConv2d(8, 16, kernel_size=3, stride=1, padding=1, group=p4, algorithm=auto)
    >>> GroupConv2d(8, 16, 3, padding=1)(torch.ones(2, 8, 4, 9, 9)).shape
    torch.Size([2, 16, 4, 9, 9])
    """

    _lift = False

    def forward(self, x: Tensor) -> Tensor:
        """Convolve functions on the group."""
        return _group.group_conv2d(x, self.weight, self.bias, **self._options())


class _Turned(_Filters):
    _lift: bool

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: Count = 1,
        padding: Padding = 0,
        bias: bool = True,
        rotations: int = 8,
        activation: str | None = None,
        interpolation: str = "bilinear",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        where = "group.se2_lift_conv2d" if self._lift else "group.se2_conv2d"
        number = whole(where, "rotations", rotations, 1)
        side = whole(where, "kernel_size", kernel_size, 1)
        shape = (out_channels, in_channels, *(() if self._lift else (number,)), side, side)
        super().__init__(where, shape, bias, stride, padding, activation, device, dtype)
        self.rotations, self.interpolation = number, choice(where, "interpolation", interpolation, INTERPOLATIONS)

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "rotations": self.rotations, "interpolation": self.interpolation}


class SE2LiftConv2d(_Turned):
    """The first layer of a network on shifts and turns: `fastdl.torch.se2_lift_conv2d` with learnt filters.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, bias, device, dtype
        As in `LiftConv2d`.
    stride, padding, rotations, activation, interpolation
        As in `fastdl.group.se2_lift_conv2d`.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import SE2LiftConv2d
    >>> SE2LiftConv2d(3, 4, 5, padding=2)(torch.ones(2, 3, 9, 9)).shape
    torch.Size([2, 4, 8, 9, 9])
    """

    _lift = True

    def forward(self, x: Tensor) -> Tensor:
        """Correlate images with the filters in all their poses."""
        return _group.se2_lift_conv2d(x, self.weight, self.bias, **self._options())


class SE2Conv2d(_Turned):
    """A layer between functions on shifts and turns: `fastdl.torch.se2_conv2d` with learnt filters.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, bias, device, dtype
        As in `GroupConv2d`.
    stride, padding, rotations, activation, interpolation
        As in `fastdl.group.se2_conv2d`.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import SE2Conv2d
    >>> SE2Conv2d(4, 6, 3, rotations=6)(torch.ones(2, 4, 6, 9, 9)).shape
    torch.Size([2, 6, 6, 7, 7])
    """

    _lift = False

    def forward(self, x: Tensor) -> Tensor:
        """Convolve functions on the group."""
        return _group.se2_conv2d(x, self.weight, self.bias, **self._options())


class GroupPool(nn.Module):
    r"""Join the elements of a group at every position: `fastdl.torch.pool` as a module.

    Parameters
    ----------
    mode : {"max", "mean", "sum", "l2"}, default "max"
        As in `fastdl.group.pool`.

    Notes
    -----
    From (N, C, \|G\|, H, W) to (N, C, H, W), for the layers of all groups here.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import GroupPool
    >>> GroupPool("mean")(torch.ones(2, 3, 4, 5, 5)).shape
    torch.Size([2, 3, 5, 5])
    """

    def __init__(self, mode: str = "max") -> None:
        super().__init__()
        self.mode = choice("group.pool", "mode", mode, ("max", "mean", "sum", "l2"))

    def forward(self, x: Tensor) -> Tensor:
        """Join the elements."""
        return _group.pool(x, self.mode)

    def extra_repr(self) -> str:
        """Give the arguments."""
        return self.mode


class PermutationLayer(nn.Module):
    r"""A linear layer on sets of vectors: `fastdl.torch.permutation_layer` with learnt matrices and a bias.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the vectors.
    bias : bool, default True
        Whether to add a bias.
    device, dtype
        Of the parameters, as in torch.nn.

    Notes
    -----
    From (..., n, in_features) to (..., n, out_features), :math:`x \Lambda + \sum_i x_i \Gamma + b`, for sets of any
    size n. Parameters: ``lam`` and ``gam`` of shape (in_features, out_features), and ``bias``. Lambda and the bias
    begin as in ``torch.nn.Linear``, Gamma as zeros, as its terms grow with the sets.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import PermutationLayer
    >>> PermutationLayer(3, 5)(torch.ones(2, 10, 3)).shape
    torch.Size([2, 10, 5])
    """

    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.lam, self.gam = (
            nn.Parameter(torch.empty(in_features, out_features, device=device, dtype=dtype)) for _ in range(2)
        )
        self.register_parameter(
            "bias", nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Lambda and the bias anew, and set Gamma to 0."""
        bound = 1 / math.sqrt(max(1, self.in_features))
        nn.init.uniform_(self.lam, -bound, bound)
        nn.init.zeros_(self.gam)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to sets."""
        y = _orbits.permutation_layer(x, self.lam, self.gam)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """Give the arguments."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class SetPool(nn.Module):
    """Join the elements of sets: `fastdl.torch.set_pool` as a module.

    Parameters
    ----------
    mode : {"sum", "mean", "max"}, default "sum"

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import SetPool
    >>> SetPool("max")(torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    tensor([3., 2.])
    """

    def __init__(self, mode: str = "sum") -> None:
        super().__init__()
        self.mode = choice("group.set_pool", "mode", mode, ("sum", "mean", "max"))

    def forward(self, x: Tensor) -> Tensor:
        """Join the elements."""
        return _orbits.set_pool(x, self.mode)

    def extra_repr(self) -> str:
        """Give the arguments."""
        return self.mode
