"""Graphs with adjacency matrices in scipy.sparse, which are never made dense."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastdl.reference.conv_graph import inverse_root
from fastdl.reference.conv_graph import largest_eigenvalue as dense_largest
from fastdl.reference.elementwise import activate

# Products spent on the largest eigenvalue at most, and how many between two looks at it.
_STEPS, _LOOK = 1000, 25


def _diagonal(values: Any) -> Any:
    from scipy.sparse import dia_array

    return dia_array((values[None, :], [0]), shape=(values.size, values.size)).tocsr()


def _degree(A: Any) -> Any:
    return np.asarray(A.sum(axis=1)).reshape(-1)


def _scaled(A: Any, s: Any) -> Any:
    """A[i,j] s[i] s[j], as for dense matrices."""
    entries = A.tocoo()
    entries.data = entries.data * (s[entries.row] * s[entries.col])
    return entries.tocsr()


def graph_laplacian(A: Any, normalized: bool) -> Any:
    """L = D − A, or I − D^(−½) A D^(−½), in CSR."""
    degree = _degree(A)
    if not normalized:
        return _diagonal(degree) - A
    return _diagonal((degree != 0).astype(np.float64)) - _scaled(A, inverse_root(degree))


def largest_eigenvalue(L: Any) -> float:
    """λmax of the symmetric part of L, by Lanczos iteration until it stands still.

    Vectors are not orthogonalised again: that would only keep eigenvalues from being found twice.
    """
    from scipy.linalg import eigvalsh_tridiagonal

    if not np.all(np.isfinite(L.data)):
        return math.nan
    n = L.shape[0]
    if n <= _LOOK:
        return dense_largest(L.toarray())
    symmetric = (L + L.T) / 2
    # A start that is the same every time, and orthogonal to no eigenvector one meets.
    vector = np.cos(np.arange(n, dtype=np.float64) ** 2)
    vector /= np.linalg.norm(vector)
    before, found = np.zeros_like(vector), -math.inf
    diagonal: list[float] = []
    beside = [0.0]
    for step in range(1, _STEPS + 1):
        image = symmetric @ vector - beside[-1] * before
        diagonal.append(float(image @ vector))
        image -= diagonal[-1] * vector
        beside.append(float(np.linalg.norm(image)))
        exhausted = beside[-1] <= 1e-14 * abs(diagonal[0])
        if step % _LOOK == 0 or exhausted:
            top = (step - 1, step - 1)
            last, found = found, float(eigvalsh_tridiagonal(diagonal, beside[1:-1], select="i", select_range=top)[0])
            if exhausted or abs(found - last) <= 1e-13 * abs(found):
                break
        before, vector = vector, image / beside[-1]
    return found


def gcn(A: Any, X: Any, W: Any | None, activation: str | None) -> Any:
    """activation(Â X W)."""
    degree = _degree(A)
    coupling = _scaled(A + _diagonal(np.ones_like(degree)), inverse_root(1 + degree))
    return activate(coupling @ (X if W is None else X @ W), activation)
