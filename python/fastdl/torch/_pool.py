"""Pooling over windows with gradients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fastdl import conv
from fastdl.torch._functions import Function, call, check, linear, recorded

if TYPE_CHECKING:
    from torch import Tensor

    from fastdl._conv_checks import Count, Sizes


class _Maximum(Function):
    @staticmethod
    def forward(x: Tensor, rank: int, windows: tuple[Any, Any, Any]) -> tuple[Tensor, Tensor]:
        return getattr(conv, f"max_pool{rank}d")(x, *windows, return_indices=True)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, ctx.rank, _ = inputs
        ctx.shape = tuple(x.shape)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Any, ...]:
        (indices,) = ctx.saved_tensors
        return None if grad is None else call(_Scatter, grad, indices, ctx.rank, ctx.shape), None, None


class _Scatter(Function):
    """Put gradients where the largest elements were."""

    @staticmethod
    def forward(grad: Tensor, indices: Tensor, rank: int, shape: Sizes) -> Tensor:
        return getattr(conv, f"max_pool{rank}d_grad")(grad, indices, shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> tuple[Any, ...]:
        (indices,) = ctx.saved_tensors
        return x.flatten(2).gather(2, indices.flatten(2)).reshape(indices.shape), None, None, None


def _max_pool(rank: int, x: Tensor, windows: tuple[Any, Any, Any], return_indices: bool) -> Any:
    check(f"conv.max_pool{rank}d", x=x)
    if not recorded(x):
        return getattr(conv, f"max_pool{rank}d")(x, *windows, return_indices)
    found = call(_Maximum, x, rank, windows)
    return found if return_indices else found[0]


def _avg_pool(rank: int, x: Tensor, windows: tuple[Any, ...]) -> Tensor:
    check(f"conv.avg_pool{rank}d", x=x)
    names = ("kernel_size", "stride", "padding", "count_include_pad")
    options: dict[str, Any] = dict(zip(names, windows, strict=True))
    there = partial(getattr(conv, f"avg_pool{rank}d"), **options)
    back = partial(getattr(conv, f"avg_pool{rank}d_grad"), input_size=tuple(x.shape), **options)
    return linear(x, there, back)


def max_pool2d(
    x: Tensor, kernel_size: Count, stride: Count | None = None, padding: Count = 0, return_indices: bool = False
) -> Any:
    """Largest elements of windows, `fastdl.conv.max_pool2d` with a gradient.

    Parameters
    ----------
    x : tensor of shape (N, C, H, W)
    kernel_size, stride, padding, return_indices
        As in `fastdl.conv.max_pool2d`.

    Returns
    -------
    tensor of shape (N, C, H', W'), or a tuple of it and the indices
        The gradient of a window goes to its largest element, to the first if several are equal.

    Raises
    ------
    ValueError
        If the shapes or values do not fit.
    TypeError
        If `x` is not a tensor of float32 or float64.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> x = torch.tensor([[[[1.0, 2.0, 5.0], [4.0, 3.0, 0.0]]]], requires_grad=True)
    >>> fastdl.torch.max_pool2d(x, 2, stride=1).sum().backward()
    >>> x.grad[0, 0]
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    return _max_pool(2, x, (kernel_size, stride, padding), return_indices)


def max_pool1d(
    x: Tensor, kernel_size: Count, stride: Count | None = None, padding: Count = 0, return_indices: bool = False
) -> Any:
    """Largest elements of windows: `max_pool2d` with one axis of positions.

    Parameters
    ----------
    x : tensor of shape (N, C, L)
    kernel_size, stride, padding, return_indices
        As in `max_pool2d`.

    Returns
    -------
    tensor of shape (N, C, L'), or a tuple of it and the indices

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.max_pool1d(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    return _max_pool(1, x, (kernel_size, stride, padding), return_indices)


def max_pool3d(
    x: Tensor, kernel_size: Count, stride: Count | None = None, padding: Count = 0, return_indices: bool = False
) -> Any:
    """Largest elements of windows: `max_pool2d` with three axes of positions.

    Parameters
    ----------
    x : tensor of shape (N, C, D, H, W)
    kernel_size, stride, padding, return_indices
        As in `max_pool2d`.

    Returns
    -------
    tensor of shape (N, C, D', H', W'), or a tuple of it and the indices

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.max_pool3d(torch.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    tensor([[[[[7.]]]]])
    """
    return _max_pool(3, x, (kernel_size, stride, padding), return_indices)


def avg_pool2d(
    x: Tensor, kernel_size: Count, stride: Count | None = None, padding: Count = 0, count_include_pad: bool = True
) -> Tensor:
    """Averages over windows, `fastdl.conv.avg_pool2d` with a gradient.

    Parameters
    ----------
    x : tensor of shape (N, C, H, W)
    kernel_size, stride, padding, count_include_pad
        As in `fastdl.conv.avg_pool2d`.

    Returns
    -------
    tensor of shape (N, C, H', W')

    Raises
    ------
    ValueError
        If the shapes or values do not fit.
    TypeError
        If `x` is not a tensor of float32 or float64.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> x = torch.tensor([[[[1.0, 2.0, 5.0], [4.0, 3.0, 0.0]]]], requires_grad=True)
    >>> fastdl.torch.avg_pool2d(x, 2, stride=1).sum().backward()
    >>> x.grad[0, 0]
    tensor([[0.2500, 0.5000, 0.2500],
            [0.2500, 0.5000, 0.2500]])
    """
    return _avg_pool(2, x, (kernel_size, stride, padding, count_include_pad))


def avg_pool1d(
    x: Tensor, kernel_size: Count, stride: Count | None = None, padding: Count = 0, count_include_pad: bool = True
) -> Tensor:
    """Averages over windows: `avg_pool2d` with one axis of positions.

    Parameters
    ----------
    x : tensor of shape (N, C, L)
    kernel_size, stride, padding, count_include_pad
        As in `avg_pool2d`.

    Returns
    -------
    tensor of shape (N, C, L')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.avg_pool1d(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return _avg_pool(1, x, (kernel_size, stride, padding, count_include_pad))


def avg_pool3d(
    x: Tensor, kernel_size: Count, stride: Count | None = None, padding: Count = 0, count_include_pad: bool = True
) -> Tensor:
    """Averages over windows: `avg_pool2d` with three axes of positions.

    Parameters
    ----------
    x : tensor of shape (N, C, D, H, W)
    kernel_size, stride, padding, count_include_pad
        As in `avg_pool2d`.

    Returns
    -------
    tensor of shape (N, C, D', H', W')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.avg_pool3d(torch.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    tensor([[[[[3.5000]]]]])
    """
    return _avg_pool(3, x, (kernel_size, stride, padding, count_include_pad))
