"""Convolutions on graphs: polynomials of a Laplacian, which need products with it and no eigenvectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.elementwise import activate
from fastdl.reference.pairs import divide, wide

if TYPE_CHECKING:
    from collections.abc import Sequence


def _diagonal(values: Any) -> Any:
    xp = array_namespace(values)
    i = xp.arange(values.shape[0], device=device(values))
    square = xp.broadcast_to(values[:, None], (values.shape[0], values.shape[0]))
    return xp.where(i[:, None] == i[None, :], square, xp.zeros_like(square))


def inverse_root(degree: Any) -> Any:
    """d^(−½), and 0 for nodes without edges."""
    xp = array_namespace(degree)
    return divide(xp.ones_like(degree), xp.sqrt(degree))


def _scaled(A: Any, s: Any) -> Any:
    """A[i,j] s[i] s[j]: the factors are multiplied first, so that a symmetric A stays so to the bit."""
    return A * (s[:, None] * s[None, :])


def graph_laplacian(A: Any, normalized: bool) -> Any:
    """L = D − A, or I − D^(−½) A D^(−½) with rows and columns of 0 for nodes without edges."""
    xp = array_namespace(A)
    edges = wide(A)
    degree = xp.sum(edges, axis=1)
    if normalized:
        L = _diagonal(xp.astype(degree != 0, xp.float64)) - _scaled(edges, inverse_root(degree))
    else:
        L = _diagonal(degree) - edges
    return xp.astype(L, A.dtype, copy=False)


def graph_filter(L: Any, X: Any, coefficients: Sequence[float], basis: str, largest: float) -> Any:
    """Σ_k α_k L^k X, or Σ_k α_k T_k(2 L/λ − I) X with the Chebyshev polynomials T_k."""
    xp = array_namespace(X)
    return xp.astype(polynomial(wide(L), wide(X), coefficients, basis, largest), X.dtype, copy=False)


def polynomial(L: Any, X: Any, coefficients: Sequence[float], basis: str, largest: float) -> Any:
    """Filter X by any L that has products, sparse ones too, in float64."""
    if basis == "monomial":
        total = coefficients[-1] * X  # by Horner's rule
        for coefficient in coefficients[-2::-1]:
            total = L @ total + coefficient * X
        return total
    before, term, total = X, X, coefficients[0] * X
    for k, coefficient in enumerate(coefficients[1:], start=1):
        rescaled = 2 / largest * (L @ term) - term
        before, term = term, rescaled if k == 1 else 2 * rescaled - before
        total = total + coefficient * term
    return total


def largest_eigenvalue(L: Any) -> float:
    """λmax of the symmetric part of L, which for a Laplacian is L itself; NaN if L is not finite."""
    xp = array_namespace(L)
    if not bool(xp.all(xp.isfinite(L))):
        return float("nan")
    L = wide(L)
    return float(xp.max(xp.linalg.eigvalsh((L + L.T) / 2))) if L.shape[0] else 0.0


def gcn(A: Any, X: Any, W: Any | None, activation: str | None) -> Any:
    """activation(Â X W) with Â = D̃^(−½) (A + I) D̃^(−½) and d̃ = 1 + the sum of a row of A."""
    xp = array_namespace(A)
    edges = wide(A)
    degree = 1 + xp.sum(edges, axis=1)
    coupling = _scaled(edges + _diagonal(xp.ones_like(degree)), inverse_root(degree))
    features = wide(X) if W is None else wide(X) @ wide(W)
    return xp.astype(activate(coupling @ features, activation), X.dtype, copy=False)
