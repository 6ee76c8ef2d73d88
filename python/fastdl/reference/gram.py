"""Gram matrices, by their formulas."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device


def symmetric(K: Any) -> Any:
    """Repeat the lower triangle in the upper one: a matrix product alone need not be symmetric to the last bit."""
    xp = array_namespace(K)
    i = xp.arange(K.shape[0], device=device(K))
    return xp.where(i[:, None] >= i[None, :], K, K.T)


def linear(X: Any, Y: Any | None = None) -> Any:
    """Inner products of all pairs of rows: K = X Yᵀ."""
    return symmetric(X @ X.T) if Y is None else X @ Y.T
