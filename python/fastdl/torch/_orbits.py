"""Functions on finite groups and on sets, with gradients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fastdl import group as plain
from fastdl._arrays import library_of
from fastdl._group_table import any_group, permutations_of
from fastdl.torch._functions import Function, call, check, full_precision, linear, once, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class _Joined(Function):
    @staticmethod
    def forward(x: Tensor, function: Callable[..., Tensor], mode: str, axis: int) -> Tensor:
        return function(x, mode)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, _, ctx.mode, ctx.axis = inputs
        ctx.shape = tuple(x.shape)
        ctx.save_for_backward(x if ctx.mode in ("max", "l2") else None, output if ctx.mode == "l2" else None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (x, y), axis = ctx.saved_tensors, ctx.axis
        grad = grad.unsqueeze(axis)
        if ctx.mode == "max":
            found = grad.new_zeros(ctx.shape).scatter(axis, x.max(axis, keepdim=True).indices, grad)
        elif ctx.mode == "l2":
            y = y.unsqueeze(axis)
            found = torch.where(y == 0, 0, x / torch.where(y == 0, 1, y)) * grad  # not x / 1: its slope would be 1
        else:
            found = grad.expand(ctx.shape)
            if ctx.mode == "mean":
                found = found / ctx.shape[axis]
        return found, None, None, None


def joined(x: Tensor, function: Callable[..., Tensor], mode: str, axis: int) -> Tensor:
    """Join the elements along an axis by the maximum, mean, sum or length, as `function` does."""
    return call(_Joined, x, function, mode, axis) if recorded(x) else function(x, mode)


def set_pool(x: Tensor, mode: str = "sum") -> Tensor:
    """Join the elements of sets, `fastdl.group.set_pool` with a gradient.

    Parameters
    ----------
    x : tensor of shape (..., n, C)
        Sets of n vectors.
    mode : {"sum", "mean", "max"}, default "sum"
        The gradient of a maximum goes to the first element that has it.

    Returns
    -------
    tensor of shape (..., C)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.set_pool(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), "max")
    tensor([3., 2.])
    """
    check("group.set_pool", x=x)
    return joined(x, plain.set_pool, mode, -2)


class _PermutationLayer(Function):
    @staticmethod
    def forward(x: Tensor, lam: Tensor, gam: Tensor) -> Tensor:
        return plain.permutation_layer(x, lam, gam)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, lam, gam = inputs
        for_x, for_lam, for_gam = ctx.needs_input_grad
        ctx.save_for_backward(x if for_lam or for_gam else None, *((lam, gam) if for_x else (None, None)))

    @staticmethod
    @full_precision
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, lam, gam = ctx.saved_tensors
        for_x, for_lam, for_gam = ctx.needs_input_grad

        def product(sums: bool) -> Tensor:
            """Give xᵀ grad over all elements of all sets, or of their sums."""
            first, second = (z.sum(-2, keepdim=True) if sums else z for z in (x.to(grad.dtype), grad))
            return first.flatten(0, -2).T @ second.flatten(0, -2)

        return (
            permutation_layer(grad, lam.T, gam.T) if for_x else None,
            product(sums=False) if for_lam else None,
            product(sums=True) if for_gam else None,
        )


def permutation_layer(x: Tensor, lam: Any, gam: Any) -> Tensor:
    r"""Linear layer that commutes with all permutations of a set, `fastdl.group.permutation_layer` with gradients.

    Parameters
    ----------
    x : tensor of shape (..., n), or (..., n, C) with matrices
        Sets of n numbers, or of n vectors.
    lam, gam : floats, tensors of one number, or tensors of shape (C, C')
        Coefficients of the elements themselves and of their sum.

    Returns
    -------
    tensor of shape (..., n), or (..., n, C')
        :math:`\lambda x + \gamma \sum_i x_i`.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> gam = torch.tensor(1.0, requires_grad=True)
    >>> y = fastdl.torch.permutation_layer(torch.tensor([1.0, 2.0, 3.0]), torch.tensor(10.0), gam)
    >>> y.tolist()
    [16.0, 26.0, 36.0]
    >>> y.sum().backward()
    >>> gam.grad
    tensor(18.)
    """
    where = "group.permutation_layer"
    check(where, x=x)
    given = [value for value in (lam, gam) if isinstance(value, torch.Tensor)]
    if len(given) < 2:
        layer = partial(plain.permutation_layer, lam=lam, gam=gam)  # which refuses a number beside a tensor
        return linear(x, layer, layer)
    check(where, lam=lam, gam=gam)
    if lam.ndim == gam.ndim == 0:
        if x.ndim < 1:
            raise ValueError(f"[{where}] expected x of shape (..., n), got {tuple(x.shape)}")
        return lam * x + gam * x.sum(-1, keepdim=True)
    return call(_PermutationLayer, x, lam, gam) if recorded(x, lam, gam) else plain.permutation_layer(x, lam, gam)


def average(x: Tensor, permutations: Any, function: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    r"""Mean over an orbit, `fastdl.group.average` with a gradient.

    Parameters
    ----------
    x : tensor of shape (..., d)
        Samples, features along the last axis.
    permutations : integers of shape (order, d)
        How the elements of a group permute the features: ``(g x)[i] = x[permutations[g, i]]``.
    function : callable, optional
        A function of tensors of the shape of `x`, such as a module; None means x itself.

    Returns
    -------
    tensor
        :math:`(1/|G|) \sum_g f(g x)`.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> shifts = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    >>> fastdl.torch.average(torch.tensor([1.0, 2.0, 6.0]), shifts)
    tensor([3., 3., 3.])
    """
    where = "group.average"
    check(where, x=x)
    if function is None or not callable(function):
        if recorded(x):  # going back reads them again
            permutations = np.array(library_of(permutations).view(where, "permutations", permutations))
        there = partial(plain.average, permutations=permutations, function=function)
        return linear(x, there, partial(_average_back, permutations=permutations))
    if x.ndim < 1:
        raise ValueError(f"[{where}] expected x of shape (..., d), got {tuple(x.shape)}")
    orders = torch.from_numpy(permutations_of(where, "permutations", permutations, x.shape[-1]).copy()).to(x.device)
    if not len(orders):
        raise ValueError(f"[{where}] expected an element at least, got permutations of shape {tuple(orders.shape)}")
    total: Any = 0
    for order in orders:
        total = total + function(x.index_select(-1, order))
    return total / len(orders)


def _average_back(grad: Tensor, permutations: Any) -> Tensor:
    orders = permutations_of("group.average", "permutations", permutations, grad.shape[-1])
    return plain.average(grad, np.argsort(orders, axis=1))


class _Convolve(Function):
    @staticmethod
    def forward(f: Tensor, h: Tensor, group: Any) -> Tensor:
        return plain.convolve(f, h, group)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        f, h, ctx.group = inputs
        ctx.shapes = f.shape, h.shape
        for_f, for_h = ctx.needs_input_grad[:2]
        ctx.save_for_backward(f if for_h else None, h if for_f else None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """With h'(v) = h(v⁻¹), the gradients of ⟨grad, f * h⟩ are grad * h' and f' * grad."""
        f, h = ctx.saved_tensors
        inverse = torch.tensor(any_group("group.convolve", ctx.group).inverse, device=grad.device)
        df = dh = None
        if h is not None:
            df = group_convolve(grad, h.index_select(-1, inverse), ctx.group).sum_to_size(ctx.shapes[0])
        if f is not None:
            dh = group_convolve(f.index_select(-1, inverse), grad, ctx.group).sum_to_size(ctx.shapes[1])
        return df, dh, None


def group_convolve(f: Tensor, h: Tensor, group: Any) -> Tensor:
    r"""Convolve functions on a finite group, `fastdl.group.convolve` with gradients.

    Parameters
    ----------
    f, h : tensors of shape (..., order)
        Values at the elements of the group, along the last axis; the other axes broadcast.
    group : Group, table or {"p4", "p4m", "p2", "pm"}
        As in `fastdl.group.convolve`.

    Returns
    -------
    tensor of shape (..., order)
        :math:`\sum_v f(u v^{-1})\, h(v)`. Gradients can be differentiated again.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> from fastdl.group import Group
    >>> fastdl.torch.group_convolve(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 0.0]), Group.cyclic(3))
    tensor([3., 1., 2.])
    """
    check("group.convolve", f=f, h=h)
    return call(_Convolve, f, h, group) if recorded(f, h) else plain.convolve(f, h, group)


class _Regularizer(Function):
    @staticmethod
    def forward(W: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        value, gradient = plain.orbit_regularizer(W, sigma)
        return W.new_tensor(value), gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Any, ...]:
        if grad is None:
            return None, None
        # W takes part so that a second derivative is refused: the gradient depends on it.
        return once(
            "group.orbit_regularizer", lambda slope, W, gradient: slope * gradient, grad, *ctx.saved_tensors
        ), None


def orbit_regularizer(W: Tensor, sigma: float) -> Tensor:
    """How far the columns of W are from an orbit of some group, `fastdl.group.orbit_regularizer` with its gradient.

    Parameters
    ----------
    W : tensor of shape (d, n)
        Columns that shall become an orbit.
    sigma : float
        Width at which entries count as equal, above 0.

    Returns
    -------
    tensor of shape ()
        The value. The plain function gives the gradient beside it; here it is what goes back.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> W = torch.tensor([[1.0, 2.0], [3.0, 1.0]], requires_grad=True)
    >>> value = fastdl.torch.orbit_regularizer(W, 10.0)
    >>> value.backward()
    >>> bool(value > 0), W.grad.shape
    (True, torch.Size([2, 2]))
    """
    check("group.orbit_regularizer", W=W)
    if not recorded(W):
        return W.new_tensor(plain.orbit_regularizer(W, sigma)[0])
    return call(_Regularizer, W, sigma)[0]
