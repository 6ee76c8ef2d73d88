"""What is made of Gram matrices, and Gram matrices of features and Jacobians, with gradients."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fastdl import gram as plain
from fastdl._gram_invariant import is_group
from fastdl._group_table import permutations_of
from fastdl.torch._functions import Function, call, check, full_precision, linear, once, recorded
from fastdl.torch._gram import Kernel, prepare

if TYPE_CHECKING:
    from torch import Tensor


def _add(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return first if second is None else second if first is None else first + second


def _distance_gradients(
    grad: Tensor, result: Tensor, X: Tensor, Y: Tensor | None, parameter: Tensor | None, kernel: Kernel
) -> tuple[Tensor | None, ...]:
    """Give the gradients of ⟨grad, k(x, x) + k(y, y) − 2 k(x, y)⟩, of which what was below 0 became 0."""
    grad = grad.masked_fill(result == 0, 0)
    dX, dY, slope = kernel.gradients(-2 * grad, X, Y, parameter)
    if Y is None:
        parts = [kernel.diag_gradients(grad.sum(0) + grad.sum(1), X, parameter)]
    else:
        parts = [kernel.diag_gradients(grad.sum(1), X, parameter), kernel.diag_gradients(grad.sum(0), Y, parameter)]
        dY = _add(dY, parts[1][0])
    for _, share in parts:
        slope = _add(slope, share)
    return _add(dX, parts[0][0]), dY, slope


class _Distance(Function):
    @staticmethod
    def forward(X: Tensor, Y: Tensor | None, parameter: Tensor | None, kernel: Kernel) -> Tensor:
        return plain.distance(X, Y, kernel.name, **kernel.given(parameter))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.kernel = inputs
        ctx.save_for_backward(output, *tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        compute = partial(_distance_gradients, kernel=ctx.kernel)
        return *once("gram.distance", compute, grad, *ctx.saved_tensors), None


def distance(X: Tensor, Y: Tensor | None = None, kernel: Any = "rbf", **params: Any) -> Tensor:
    """Squared distances in the feature space of a kernel, `fastdl.gram.distance` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel, **params
        As in `gram`.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> fastdl.torch.distance(X, kernel="linear").sum().backward()
    >>> X.grad
    tensor([[-8., -8.],
            [ 8.,  8.]])
    """
    entry, X, Y, parameter = prepare("gram.distance", kernel, X, Y, params)
    if not recorded(X, Y, parameter):
        return plain.distance(X, Y, entry.name, **entry.parameters)
    return call(_Distance, X, Y, parameter, entry)


def _invariant_gradients(
    grad: Tensor, X: Tensor, Y: Tensor | None, parameter: Tensor | None, kernel: Kernel, orders: Any
) -> tuple[Tensor | None, ...]:
    """Give the gradients of ⟨grad, Σ_g Σ_g' k(gx, g'y)⟩, of a group and a kernel alike on both by |G| Σ_g k(x, gy)."""
    other = X if Y is None else Y
    scales = np.asarray(kernel.parameters.get("length_scale", 1.0))
    alike = scales.ndim == 0 or bool(np.all(scales[orders] == scales))
    short = alike and is_group(orders)
    columns = torch.from_numpy(orders).to(X.device)
    dX, dY, slope = torch.zeros_like(X), torch.zeros_like(other), None
    for left in [torch.arange(X.shape[1], device=X.device)] if short else columns:
        for right in columns:
            found = kernel.gradients(grad, X[:, left], other[:, right], parameter)
            dX[:, left] += found[0]
            dY[:, right] += found[1]
            slope = _add(slope, found[2])
    if short:
        dX, dY, slope = dX * len(orders), dY * len(orders), None if slope is None else slope * len(orders)
    return (dX + dY, None, slope) if Y is None else (dX, dY, slope)


class _Invariant(Function):
    @staticmethod
    def forward(X: Tensor, Y: Tensor | None, parameter: Tensor | None, kernel: Kernel, orders: Any) -> Tensor:
        return plain.invariant(X, Y, permutations=orders, kernel=kernel.name, **kernel.given(parameter))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.kernel, ctx.orders = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        compute = partial(_invariant_gradients, kernel=ctx.kernel, orders=ctx.orders)
        return *once("gram.invariant", compute, grad, *ctx.saved_tensors), None, None


def invariant(X: Tensor, Y: Tensor | None = None, *, permutations: Any, kernel: Any = "rbf", **params: Any) -> Tensor:
    """Gram matrix of a kernel summed over a group, `fastdl.gram.invariant` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    permutations : integers of shape (order, d)
        How the elements of the group permute the features: ``(g x)[i] = x[permutations[g, i]]``.
    kernel, **params
        As in `gram`; length_scale has a gradient if it is one number.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    >>> shifts = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    >>> fastdl.torch.invariant(X, permutations=shifts, kernel="linear").backward()
    >>> X.grad
    tensor([[36., 36., 36.]])
    """
    where = "gram.invariant"
    entry, X, Y, parameter = prepare(where, kernel, X, Y, params)
    if not recorded(X, Y, parameter):
        return plain.invariant(X, Y, permutations=permutations, kernel=entry.name, **entry.parameters)
    return call(_Invariant, X, Y, parameter, entry, permutations_of(where, "permutations", permutations))


def center(K: Tensor) -> Tensor:
    """Centre a Gram matrix, `fastdl.gram.center` with a gradient, which is itself centred.

    Parameters
    ----------
    K : tensor of shape (n, n)

    Returns
    -------
    tensor of shape (n, n)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.center(torch.tensor([[5.0, 11.0], [11.0, 25.0]]))
    tensor([[ 2., -2.],
            [-2.,  2.]])
    """
    check("gram.center", K=K)
    return linear(K, plain.center, plain.center)


def _without_diagonal(K: Tensor) -> Tensor:
    return K - torch.diag(K.diagonal())


class _Hsic(Function):
    @staticmethod
    def forward(K: Tensor, L: Tensor, unbiased: bool) -> Tensor:
        return plain.hsic(K, L, unbiased)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        K, L, ctx.unbiased = inputs
        for_K, for_L = ctx.needs_input_grad[:2]
        ctx.save_for_backward(K if for_L else None, L if for_K else None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        K, L = ctx.saved_tensors

        def slope(other: Tensor, axis: int) -> Tensor:
            n = other.shape[0]
            if not ctx.unbiased:
                return center(other).T * (grad / (n - 1) ** 2)
            other = _without_diagonal(other)
            sums = other.sum(axis, keepdim=True).T
            found = other.T + other.sum() / ((n - 1) * (n - 2)) - sums * (2 / (n - 2))
            return _without_diagonal(found) * (grad / (n * (n - 3)))

        return None if L is None else slope(L, 1), None if K is None else slope(K, 0), None


def hsic(K: Tensor, L: Tensor, unbiased: bool = True) -> Tensor:
    """Hilbert–Schmidt independence criterion, `fastdl.gram.hsic` with gradients.

    Parameters
    ----------
    K, L : tensors of shape (n, n)
        Gram matrices of two sets of features of the same samples.
    unbiased : bool, default True
        As in `fastdl.gram.hsic`.

    Returns
    -------
    tensor of shape ()
        Gradients can be differentiated again.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> round(fastdl.torch.hsic(torch.eye(4), torch.eye(4), unbiased=False).item(), 4)
    0.3333
    """
    check("gram.hsic", K=K, L=L)
    return call(_Hsic, K, L, unbiased) if recorded(K, L) else plain.hsic(K, L, unbiased)


def cka(K: Tensor, L: Tensor, unbiased: bool = False) -> Tensor:
    """Centred kernel alignment, `fastdl.gram.cka` with gradients.

    Parameters
    ----------
    K, L : tensors of shape (n, n)
        Gram matrices of two sets of features of the same samples.
    unbiased : bool, default False
        As in `fastdl.gram.cka`.

    Returns
    -------
    tensor of shape ()
        Gradients can be differentiated again.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> K = fastdl.torch.linear(torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]))
    >>> round(fastdl.torch.cka(K, 9 * K).item(), 4)
    1.0
    """
    check("gram.cka", K=K, L=L)
    if not recorded(K, L):
        return plain.cka(K, L, unbiased)
    return hsic(K, L, unbiased) / hsic(K, K, unbiased).sqrt() / hsic(L, L, unbiased).sqrt()


class _FeatureGram(Function):
    @staticmethod
    def forward(x: Tensor, center: bool) -> Tensor:
        return plain.feature_gram(x, center)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.center = inputs
        ctx.save_for_backward(x)

    @staticmethod
    @full_precision
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        maps = x.flatten(2)
        if ctx.center:
            maps = maps - maps.mean(2, keepdim=True)
        return ((grad + grad.mT) @ maps / math.prod(x.shape[2:])).reshape(x.shape), None


def feature_gram(x: Tensor, center: bool = False) -> Tensor:
    """Gram matrices of the channels of feature maps, `fastdl.gram.feature_gram` with a gradient.

    Parameters
    ----------
    x : tensor of shape (N, C, H, W)
        Feature maps, with any number of axes of positions.
    center : bool, default False
        As in `fastdl.gram.feature_gram`.

    Returns
    -------
    tensor of shape (N, C, C)
        Gradients can be differentiated again.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.feature_gram(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[ 3.5000,  9.5000],
             [ 9.5000, 31.5000]]])
    """
    check("gram.feature_gram", x=x)
    return call(_FeatureGram, x, center) if recorded(x) else plain.feature_gram(x, center)


class _EmpiricalNtk(Function):
    @staticmethod
    def forward(J1: Tensor, J2: Tensor | None) -> Tensor:
        return plain.empirical_ntk(J1, J2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @full_precision
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        J1, J2 = ctx.saved_tensors
        first = J1.flatten(1).to(grad.dtype)
        if J2 is None:
            return ((grad + grad.T) @ first).reshape(J1.shape), None
        for_J1, for_J2 = ctx.needs_input_grad
        return (
            (grad @ J2.flatten(1).to(grad.dtype)).reshape(J1.shape) if for_J1 else None,
            (grad.T @ first).reshape(J2.shape) if for_J2 else None,
        )


def empirical_ntk(J1: Tensor, J2: Tensor | None = None) -> Tensor:
    """Neural tangent kernel from the Jacobians of a network, `fastdl.gram.empirical_ntk` with gradients.

    Parameters
    ----------
    J1 : tensor of shape (n, p)
        Jacobian, as ``torch.func.jacrev`` gives it. Axes after the first are flattened.
    J2 : tensor of shape (m, p), optional
        Jacobian for other samples. None means ``J2 = J1``.

    Returns
    -------
    tensor of shape (n, m)
        Gradients can be differentiated again.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.empirical_ntk(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[ 5., 11.],
            [11., 25.]])
    """
    check("gram.empirical_ntk", {"J2": J2}, J1=J1)
    J2 = None if J2 is J1 else J2
    return call(_EmpiricalNtk, J1, J2) if recorded(J1, J2) else plain.empirical_ntk(J1, J2)
