"""Gram matrices of any kernel, their diagonals and their products with vectors, with gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from fastdl import gram as plain
from fastdl._kernels import find
from fastdl.torch._functions import Function, call, check, check_out, once, recorded

if TYPE_CHECKING:
    from torch import Tensor

    from fastdl._progress import Progress

    Gradients = tuple[Tensor | None, ...]

# Rows of X whose Gram matrix is made for the gradients of its diagonal.
_DIAGONAL_ROWS = 64


class Kernel:
    """A kernel with those of its parameters that are numbers, and the gradients of what is made of it.

    `gamma` is given apart where it has a gradient, as a tensor of one number.
    """

    def __init__(self, name: str, parameters: dict[str, Any]) -> None:
        self.name, self.parameters = name, parameters

    def given(self, gamma: Tensor | None) -> dict[str, Any]:
        """Give all parameters as numbers."""
        return self.parameters if gamma is None else {**self.parameters, "gamma": gamma.item()}

    def gradients(self, grad: Tensor, X: Tensor, Y: Tensor | None, gamma: Tensor | None) -> Gradients:
        """Give the gradients of ⟨grad, K(X, Y)⟩ for X, Y and gamma."""
        found = plain.gram_vjp(X, grad, Y, self.name, **self.given(gamma))
        return found.X, found.Y, number_like(found.gamma, gamma)

    def diag_gradients(self, grad: Tensor, X: Tensor, gamma: Tensor | None) -> Gradients:
        """Give the gradients of Σ grad_i k(x_i, x_i) for X and gamma: of small Gram matrices along the diagonal."""
        parts, total = [X[:0]], 0.0
        for rows, slopes in zip(X.split(_DIAGONAL_ROWS), grad.split(_DIAGONAL_ROWS), strict=True):
            found = plain.gram_vjp(rows, torch.diag(slopes), None, self.name, **self.given(gamma))
            parts.append(found.X)
            total += found.gamma or 0.0
        return torch.cat(parts), number_like(total, gamma)

    def matvec_gradients(self, grad: Tensor, X: Tensor, v: Tensor, Y: Tensor | None, gamma: Tensor | None) -> Gradients:
        """Give the gradients of ⟨grad, K(X, Y) v⟩ for X, v, Y and gamma."""
        found = plain.matvec_vjp(X, v, grad, Y, self.name, **self.given(gamma))
        return found.X, found.v, found.Y, number_like(found.gamma, gamma)


def number_like(value: float | None, like: Tensor | None) -> Tensor | None:
    """Give a gradient that is one number as a tensor like its parameter; None if either is."""
    return None if like is None or value is None else like.new_full(like.shape, value)


def kernel_name(where: str, kernel: Any) -> str:
    """Find a kernel by its name, or its function here or in fastdl.gram."""
    if getattr(kernel, "__module__", None) == "fastdl.torch._kernels":
        kernel = kernel.__name__
    return find(where, kernel).name


def prepare(
    where: str, kernel: Any, X: Tensor, Y: Tensor | None, params: dict[str, Any], *, rescale: bool = True
) -> tuple[Kernel, Tensor, Tensor | None, Tensor | None]:
    """Check samples and tell the parameters that are tensors from numbers: give the kernel, X, Y and gamma.

    Length scales with a gradient become part of the samples, unless `rescale` is False and there are several.
    """
    check(where, {"Y": Y}, X=X)
    name = kernel_name(where, kernel)
    find(where, name).names(where, params)
    if Y is X:
        Y = None
    gamma, numbers = None, {}
    for parameter, value in params.items():
        if not isinstance(value, torch.Tensor):
            numbers[parameter] = value
        elif not recorded(value):
            numbers[parameter] = value.item() if value.numel() == 1 else value.tolist()
        elif parameter == "gamma":
            check(where, gamma=value)
            if value.numel() != 1:
                raise ValueError(
                    f"[{where}] expected gamma to be one number, got a tensor of shape {tuple(value.shape)}"
                )
            gamma = value
        elif parameter == "length_scale":
            check(where, length_scale=value)
            scale = _scale(where, value, X, rescale)
            X, Y = (None if samples is None else samples / scale.to(samples.dtype) for samples in (X, Y))
            numbers[parameter] = 1.0
        else:
            raise ValueError(
                f"[{where}] expected {parameter} without a gradient, which only gamma and length_scale have, "
                "got a tensor that records gradients"
            )
    return Kernel(name, numbers), X, Y, gamma


def _scale(where: str, scale: Tensor, X: Tensor, rescale: bool) -> Tensor:
    if scale.numel() == 1:
        scale = scale.reshape(())
    elif not rescale:
        raise ValueError(
            f"[{where}] expected length_scale to be one number where gradients are recorded, "
            f"got a tensor of shape {tuple(scale.shape)}"
        )
    elif X.ndim == 2 and scale.shape != X.shape[1:]:
        raise ValueError(
            f"[{where}] expected length_scale of shape ({X.shape[1]},) or a number, got {tuple(scale.shape)}"
        )
    if not bool(((scale > 0) & (scale < math.inf)).all()):
        raise ValueError(f"[{where}] expected length_scale to be above 0 in every feature, got {scale.tolist()}")
    return scale


class _Gram(Function):
    @staticmethod
    def forward(X: Tensor, Y: Tensor | None, gamma: Tensor | None, kernel: Kernel, progress: Any) -> Tensor:
        return plain.gram(X, Y, kernel.name, progress=progress, **kernel.given(gamma))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kernel = inputs[3]
        ctx.save_for_backward(*inputs[:3])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return *once(f"gram.{ctx.kernel.name}", ctx.kernel.gradients, grad, *ctx.saved_tensors), None, None


def gram(
    X: Tensor,
    Y: Tensor | None = None,
    kernel: Any = "rbf",
    *,
    out: Tensor | None = None,
    progress: bool | Progress = False,
    **params: Any,
) -> Tensor:
    """Gram matrix of any kernel, `fastdl.gram.gram` with gradients for the samples.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``; the gradient for X then has both parts.
    kernel : str or callable, default "rbf"
        The name of a kernel, or its function here or in `fastdl.gram`.
    out : tensor of shape (n, m), optional
        As in `fastdl.gram.gram`; only where no gradient is recorded.
    progress : bool or callable, default False
        As in `fastdl.gram.gram`.
    **params
        Parameters of the kernel, by name. gamma and length_scale may be tensors with a gradient.

    Returns
    -------
    tensor of shape (n, m)

    Raises
    ------
    ValueError
        If there is no such kernel, or the shapes or values do not fit.
    TypeError
        If an argument is not a tensor of float32 or float64, or the kernel has no parameter of a name.

    Notes
    -----
    Going back takes the samples alone: K is not kept. Gradients cannot be differentiated again. Where a kernel has no
    gradient, 0 is taken, as in `fastdl.gram.matvec_vjp`.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> fastdl.torch.gram(X, kernel="linear").sum().backward()
    >>> X.grad
    tensor([[ 8., 12.],
            [ 8., 12.]])
    """
    return matrix("gram.gram", X, Y, kernel, params, out, progress)


def matrix(
    where: str,
    X: Tensor,
    Y: Tensor | None,
    kernel: Any,
    params: dict[str, Any],
    out: Tensor | None,
    progress: bool | Progress = False,
) -> Tensor:
    """Compute a Gram matrix under the name of a function."""
    entry, X, Y, gamma = prepare(where, kernel, X, Y, params)
    if not recorded(X, Y, gamma):
        return plain.gram(X, Y, entry.name, out=out, progress=progress, **entry.parameters)
    check_out(where, out)
    return call(_Gram, X, Y, gamma, entry, progress)


class _Diagonal(Function):
    @staticmethod
    def forward(X: Tensor, gamma: Tensor | None, kernel: Kernel) -> Tensor:
        return plain.diag(X, kernel.name, **kernel.given(gamma))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        X, gamma, ctx.kernel = inputs
        ctx.save_for_backward(X, gamma)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return *once("gram.diag", ctx.kernel.diag_gradients, grad, *ctx.saved_tensors), None


def diag(X: Tensor, kernel: Any = "rbf", **params: Any) -> Tensor:
    """Diagonal of a Gram matrix, `fastdl.gram.diag` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    kernel, **params
        As in `gram`.

    Returns
    -------
    tensor of shape (n,)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> fastdl.torch.diag(X, "linear").sum().backward()
    >>> X.grad
    tensor([[2., 4.],
            [6., 8.]])
    """
    entry, X, _, gamma = prepare("gram.diag", kernel, X, None, params)
    if not recorded(X, gamma):
        return plain.diag(X, entry.name, **entry.parameters)
    return call(_Diagonal, X, gamma, entry)


class _Product(Function):
    @staticmethod
    def forward(X: Tensor, v: Tensor, Y: Tensor | None, gamma: Tensor | None, kernel: Kernel) -> Tensor:
        return plain.matvec(X, v, Y, kernel.name, **kernel.given(gamma))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        X, v, Y, gamma, ctx.kernel = inputs
        for_X, _, for_Y, for_gamma = ctx.needs_input_grad[:4]
        ctx.for_v_alone = not (for_X or for_Y or for_gamma)
        ctx.save_for_backward(X, None if ctx.for_v_alone else v, Y, gamma)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        X, v, Y, gamma = ctx.saved_tensors
        if ctx.for_v_alone:  # kernels are symmetric
            swapped = (X, grad, None) if Y is None else (Y, grad, X)
            return None, call(_Product, *swapped, gamma, ctx.kernel), None, None, None
        return *once("gram.matvec", ctx.kernel.matvec_gradients, grad, X, v, Y, gamma), None


def matvec(X: Tensor, v: Tensor, Y: Tensor | None = None, kernel: Any = "rbf", **params: Any) -> Tensor:
    """Product of a Gram matrix and a vector or matrix, `fastdl.gram.matvec` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    v : tensor of shape (m,) or (m, p)
        What K is multiplied by.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel, **params
        As in `gram`.

    Returns
    -------
    tensor of shape (n,) or (n, p)

    Notes
    -----
    Neither forward nor backward forms the Gram matrix. Where `v` alone has a gradient, it is a `matvec` itself, and can
    be differentiated again.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> v = torch.tensor([1.0, -1.0], requires_grad=True)
    >>> fastdl.torch.matvec(X, v, kernel="linear").sum().backward()
    >>> v.grad
    tensor([16., 36.])
    """
    where = "gram.matvec"
    check(where, v=v)
    entry, X, Y, gamma = prepare(where, kernel, X, Y, params)
    if not recorded(X, v, Y, gamma):
        return plain.matvec(X, v, Y, entry.name, **entry.parameters)
    return call(_Product, X, v, Y, gamma, entry)
