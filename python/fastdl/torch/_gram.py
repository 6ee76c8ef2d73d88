"""Gram matrices of any kernel, their diagonals and their products with vectors, with gradients."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch

from fastdl import gram as plain
from fastdl._kernels import find
from fastdl.torch._functions import Function, call, check, check_out, differentiated, mapped, once, recorded

if TYPE_CHECKING:
    from torch import Tensor

    from fastdl._progress import Progress

    Gradients = tuple[Tensor | None, ...]

# Rows of X whose Gram matrix is made for the gradients of its diagonal.
_ROWS = 64


class Kernel:
    """A kernel with those of its parameters that are numbers, and the gradients of what is made of it.

    The one parameter that has a gradient, `learnt`, is given apart, as a tensor.
    """

    def __init__(self, name: str, parameters: dict[str, Any], learnt: str | None = None) -> None:
        self.name, self.parameters, self.learnt = name, parameters, learnt

    def given(self, parameter: Tensor | None) -> dict[str, Any]:
        """Give all parameters as numbers."""
        return self.parameters if parameter is None else {**self.parameters, str(self.learnt): numbers(parameter)}

    def gradients(self, grad: Tensor, X: Tensor, Y: Tensor | None, parameter: Tensor | None) -> Gradients:
        """Give the gradients of ⟨grad, K(X, Y)⟩ for X, Y and the parameter."""
        found = plain.gram_vjp(X, grad, Y, self.name, **self.given(parameter))
        return found.X, found.Y, self._slope(found, X, Y, parameter)

    def diag_gradients(self, grad: Tensor, X: Tensor, parameter: Tensor | None, rows: int = _ROWS) -> Gradients:
        """Give the gradients of Σ grad_i k(x_i, x_i) for X and the parameter: of Gram matrices along the diagonal.

        Other pairs of their rows have a weight of 0. If that meets infinity or NaN, each row goes alone.
        """
        parts, total = [X[:0]], None if parameter is None else torch.zeros_like(parameter)
        for samples, slopes in zip(X.split(rows), grad.split(rows), strict=True):
            part, _, slope = self.gradients(torch.diag(slopes), samples, None, parameter)
            if rows > 1 and not all(bool(found.isfinite().all()) for found in (part, slope) if found is not None):
                part, slope = self.diag_gradients(slopes, samples, parameter, 1)
            parts.append(part)
            total = None if total is None else total + slope
        return torch.cat(parts), total

    def matvec_gradients(
        self, grad: Tensor, X: Tensor, v: Tensor, Y: Tensor | None, parameter: Tensor | None
    ) -> Gradients:
        """Give the gradients of ⟨grad, K(X, Y) v⟩ for X, v, Y and the parameter."""
        found = plain.matvec_vjp(X, v, grad, Y, self.name, **self.given(parameter))
        return found.X, found.v, found.Y, self._slope(found, X, Y, parameter)

    def _slope(self, found: Any, X: Tensor, Y: Tensor | None, parameter: Tensor | None) -> Tensor | None:
        """Give the gradient for the parameter; for length scales ℓ by those for the samples.

        As K is a function of (x − c)/ℓ and (y − c)/ℓ for any c, it is −Σ (x − c) ∂/∂x / ℓ − Σ (y − c) ∂/∂y / ℓ. With c
        amid the samples, the terms are no larger than the distances.
        """
        if parameter is None or self.learnt == "gamma":
            return number_like(found.gamma, parameter)
        wide = X.to(torch.float64)
        middle = wide.sum(0) / max(1, len(X))
        total = ((wide - middle) * found.X).sum(0)
        if Y is not None:
            total = total + ((Y.to(torch.float64) - middle) * found.Y).sum(0)
        if parameter.numel() == 1:
            total = total.sum()
        return (-total.reshape(parameter.shape) / parameter).to(parameter.dtype)


def numbers(value: Tensor) -> Any:
    """Give a tensor as a number, or as a list if it has several."""
    return value.item() if value.numel() == 1 else value.tolist()


def number_like(value: float | None, like: Tensor | None) -> Tensor | None:
    """Give a gradient that is one number as a tensor like its parameter; None if either is."""
    return None if like is None or value is None else like.new_full(like.shape, value)


def kernel_name(where: str, kernel: Any) -> str:
    """Find a kernel by its name, or its function here or in fastdl.gram."""
    if getattr(kernel, "__module__", None) == "fastdl.torch._kernels":
        kernel = kernel.__name__
    return find(where, kernel).name


def prepare(
    where: str, kernel: Any, X: Tensor, Y: Tensor | None, params: dict[str, Any]
) -> tuple[Kernel, Tensor, Tensor | None, Tensor | None]:
    """Check samples and parameters: give the kernel, X, Y and the parameter that is followed as a tensor."""
    check(where, {"Y": Y}, X=X)
    name = kernel_name(where, kernel)
    find(where, name).names(where, params)
    if Y is X:
        Y = None
    learnt, given = None, {}
    for parameter, value in params.items():
        if not isinstance(value, torch.Tensor):
            given[parameter] = value
        elif not (differentiated(value) or mapped(value)):
            given[parameter] = numbers(value)
        elif parameter in ("gamma", "length_scale"):  # which no kernel has both of
            check(where, **{parameter: value})
            if value.numel() != 1 and (parameter == "gamma" or where == "gram.invariant"):
                raise ValueError(
                    f"[{where}] expected {parameter} to be one number where gradients are recorded, "
                    f"got a tensor of shape {tuple(value.shape)}"
                )
            learnt = parameter
        else:
            raise ValueError(
                f"[{where}] expected {parameter} to be constant, as all but gamma and length_scale are, "
                f"got a tensor that {'records gradients' if differentiated(value) else 'vmap maps over'}"
            )
    if name == "matern" and any(differentiated(value) for value in (X, Y, params.get("length_scale"))):
        _check_nu(where, given.get("nu"))
    return Kernel(name, given, learnt), X, Y, None if learnt is None else params[learnt]


def _check_nu(where: str, nu: Any) -> None:
    """Refuse what has no gradients here. What is no nu at all is left to the plain function."""
    if isinstance(nu, Real) and not isinstance(nu, bool) and float(nu) > 0 and nu not in (0.5, 1.5, 2.5, math.inf):
        raise ValueError(f"[{where}] expected nu to be 0.5, 1.5, 2.5 or inf where gradients are recorded, got {nu}")


class _Gram(Function):
    @staticmethod
    def forward(X: Tensor, Y: Tensor | None, parameter: Tensor | None, kernel: Kernel, progress: Any) -> Tensor:
        return plain.gram(X, Y, kernel.name, progress=progress, **kernel.given(parameter))

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
    entry, X, Y, parameter = prepare(where, kernel, X, Y, params)
    if not recorded(X, Y, parameter):
        return plain.gram(X, Y, entry.name, out=out, progress=progress, **entry.parameters)
    check_out(where, out)
    return call(_Gram, X, Y, parameter, entry, progress)


class _Diagonal(Function):
    @staticmethod
    def forward(X: Tensor, parameter: Tensor | None, kernel: Kernel) -> Tensor:
        return plain.diag(X, kernel.name, **kernel.given(parameter))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        X, parameter, ctx.kernel = inputs
        ctx.save_for_backward(X, parameter)

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
    entry, X, _, parameter = prepare("gram.diag", kernel, X, None, params)
    if not recorded(X, parameter):
        return plain.diag(X, entry.name, **entry.parameters)
    return call(_Diagonal, X, parameter, entry)


class _Product(Function):
    @staticmethod
    def forward(X: Tensor, v: Tensor, Y: Tensor | None, parameter: Tensor | None, kernel: Kernel) -> Tensor:
        return plain.matvec(X, v, Y, kernel.name, **kernel.given(parameter))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        X, v, Y, parameter, ctx.kernel = inputs
        for_X, _, for_Y, for_gamma = ctx.needs_input_grad[:4]
        ctx.for_v_alone = not (for_X or for_Y or for_gamma)
        ctx.save_for_backward(X, None if ctx.for_v_alone else v, Y, parameter)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        X, v, Y, parameter = ctx.saved_tensors
        if ctx.for_v_alone:  # kernels are symmetric
            swapped = (X, grad, None) if Y is None else (Y, grad, X)
            return None, call(_Product, *swapped, parameter, ctx.kernel), None, None, None
        return *once("gram.matvec", ctx.kernel.matvec_gradients, grad, X, v, Y, parameter), None


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
    entry, X, Y, parameter = prepare(where, kernel, X, Y, params)
    if not recorded(X, v, Y, parameter):
        return plain.matvec(X, v, Y, entry.name, **entry.parameters)
    return call(_Product, X, v, Y, parameter, entry)
