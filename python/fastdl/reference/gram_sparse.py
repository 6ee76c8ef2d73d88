"""Gram matrices of sparse samples, by SciPy's product."""

from __future__ import annotations

from typing import Any

import numpy as np


def sparse(rows: Any, columns: Any | None, kernel: str, parameters: dict[str, Any]) -> Any:
    """Compute K from X in CSR and Y in CSC; None for Y means X, and then K is symmetric to the bit."""
    dtype = rows.dtype
    X = rows.astype(np.float64)
    Y = X if columns is None else columns.astype(np.float64).tocsr()
    products = (X @ Y.T).toarray()
    x, y = (np.asarray(Z.multiply(Z).sum(axis=1)).reshape(-1) for Z in (X, Y))
    if kernel == "linear":
        K = products
    elif kernel == "polynomial":
        K = (parameters["gamma"] * products + parameters["coef0"]) ** parameters["degree"]
    elif kernel == "cosine":
        K = products
        for norms, axis in ((np.sqrt(x), 1), (np.sqrt(y), 0)):
            K = np.divide(K, np.expand_dims(np.where(norms == 0, 1, norms), axis))
    else:
        distances = x[:, None] + y[None, :] - 2 * products
        K = np.exp(-parameters["gamma"] * np.where(distances < 0, 0, distances))
        if columns is None:
            # A sample is at no distance from itself; NaN and Inf make it unknown.
            np.fill_diagonal(K, np.where(np.isfinite(x), 1, np.diagonal(K)))
    if columns is None:
        K = np.where(np.tri(K.shape[0], dtype=bool), K, K.T)
    return K.astype(dtype)
