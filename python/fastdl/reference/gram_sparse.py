"""Gram matrices of sparse samples, by SciPy's product."""

from __future__ import annotations

from typing import Any

import numpy as np


def sparse(rows: Any, columns: Any | None, kernel: str, parameters: dict[str, Any]) -> Any:
    """Compute K from X in CSR and Y in CSC; None for Y means X, and then K is symmetric to the bit."""
    dtype = rows.dtype
    X = rows.astype(np.float64)
    Y = X if columns is None else columns.astype(np.float64).tocsr()
    if kernel == "cosine":
        X, Y = near_one(X), near_one(Y)
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
        lengths = x[:, None] + y[None, :]
        distances = lengths - 2 * products
        # Where that cancels, or leaves float64, the difference of the two rows does not.
        i, j = np.nonzero(~(distances >= 1e-3 * lengths))
        for part in np.array_split(np.arange(i.size), 1 + i.size // 1000):
            differences = X[i[part]] - Y[j[part]]
            distances[i[part], j[part]] = np.asarray(differences.multiply(differences).sum(axis=1)).reshape(-1)
        K = np.exp(-parameters["gamma"] * distances)
        if columns is None:
            # A sample is at no distance from itself; NaN and Inf make it unknown.
            np.fill_diagonal(K, np.where(np.isfinite(x), 1, np.diagonal(K)))
    if columns is None:
        K = np.where(np.tri(K.shape[0], dtype=bool), K, K.T)
    return K.astype(dtype)


def near_one(X: Any) -> Any:
    """Scale every row by a power of two, so that its largest number is near 1."""
    largest = np.zeros(X.shape[0])
    np.maximum.at(largest, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), np.abs(X.data))
    _, exponents = np.frexp(np.where(np.isfinite(largest), largest, 1))
    return X.multiply(np.ldexp(1.0, np.minimum(-exponents, 1000))[:, None]).tocsr()
