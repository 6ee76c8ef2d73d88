"""Attention with gradients."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from fastdl import gram as plain
from fastdl.torch._functions import Function, call, check, differentiated, full_precision, mapped, once, recorded
from fastdl.torch._gram import number_like

if TYPE_CHECKING:
    from torch import Tensor

# Weights that are in memory at a time, unless a row has more.
_WEIGHTS = 1 << 20


def _attention_gradients(
    grad: Tensor,
    result: Tensor,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    scale: Tensor | None,
    number: float | None,
    needs: Any,
) -> tuple[Tensor | None, ...]:
    """Give the gradients of ⟨grad, softmax_matvec(Q, K, V)⟩ for those of Q, K, V and scale that are wanted.

    A block of rows of the weights P is made anew at a time. With G the gradient for the product P V, that for the
    exponents is P ∘ (G Vᵀ − Σ G ∘ P V), the sum being over a row.
    """
    for_Q, for_K, _, for_scale = needs
    if scale is not None:
        factor = scale.item()
    else:
        factor = 1 / math.sqrt(max(1, Q.shape[1])) if number is None else float(number)
    flat = V.ndim == 1
    if flat:
        grad, result, V = grad[:, None], result[:, None], V[:, None]
    Q, K, V = (array.to(result.dtype) for array in (Q, K, V))
    dQ, dK, dV = (torch.zeros_like(array) if wanted else None for array, wanted in zip((Q, K, V), needs, strict=False))
    total = 0.0
    rows = max(1, _WEIGHTS // max(1, K.shape[0]))
    shift = (grad * result).sum(1, keepdim=True)
    for start in range(0, Q.shape[0] if K.shape[0] else 0, rows):
        part = slice(start, start + rows)
        products = Q[part] @ K.T
        weights = torch.softmax(products * factor, 1)
        if dV is not None:
            dV.addmm_(weights.T, grad[part])
        if not (for_Q or for_K or for_scale):
            continue
        slopes = (grad[part] @ V.T).sub_(shift[part]).mul_(weights)
        if for_scale:
            total += float((slopes * products).sum())
        if dQ is not None:
            dQ[part].addmm_(slopes, K, beta=0, alpha=factor)
        if dK is not None:
            dK.addmm_(slopes.T, Q[part], alpha=factor)
    return dQ, dK, dV[:, 0] if flat and dV is not None else dV, number_like(total if for_scale else None, scale)


class _Attention(Function):
    @staticmethod
    def forward(Q: Tensor, K: Tensor, V: Tensor, scale: Tensor | None, number: float | None) -> Tensor:
        return plain.softmax_matvec(Q, K, V, number if scale is None else scale.item())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.number = inputs
        ctx.save_for_backward(output, *tensors)

    @staticmethod
    @full_precision
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        compute = partial(_attention_gradients, number=ctx.number, needs=ctx.needs_input_grad[:4])
        return *once("gram.softmax_matvec", compute, grad, *ctx.saved_tensors), None


def softmax_matvec(Q: Tensor, K: Tensor, V: Tensor, scale: float | Tensor | None = None) -> Tensor:
    """Attention, `fastdl.gram.softmax_matvec` with gradients for queries, keys, values and scale.

    Parameters
    ----------
    Q : tensor of shape (n, d)
        Queries, one a row.
    K : tensor of shape (m, d)
        Keys.
    V : tensor of shape (m, p) or (m,)
        Values.
    scale : float or tensor of one number, optional
        Factor of the inner products. None means one over the root of d.

    Returns
    -------
    tensor of shape (n, p) or (n,)

    Notes
    -----
    Going back makes the weights anew, a block of rows at a time: about a million numbers, or one row if that has more.
    Gradients cannot be differentiated again.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> V = torch.tensor([[1.0], [3.0]], requires_grad=True)
    >>> y = fastdl.torch.softmax_matvec(torch.zeros(1, 2), torch.eye(2), V)
    >>> y.backward()
    >>> y.item(), V.grad.flatten().tolist()
    (2.0, [0.5, 0.5])
    """
    where = "gram.softmax_matvec"
    check(where, Q=Q, K=K, V=V)
    tensor, number = None, scale
    if isinstance(scale, torch.Tensor):
        check(where, scale=scale)
        if scale.numel() != 1:
            raise ValueError(f"[{where}] expected scale to be one number, got a tensor of shape {tuple(scale.shape)}")
        if differentiated(scale) or mapped(scale):
            tensor, number = scale, None
        else:
            number = scale.item()
    if not recorded(Q, K, V, tensor):
        return plain.softmax_matvec(Q, K, V, number)
    return call(_Attention, Q, K, V, tensor, number)
