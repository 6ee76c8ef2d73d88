"""The functions of the benchmarks by their formulas, and how far results may be off: for every name, `<name>_bound`."""

from __future__ import annotations

import numpy as np

from cases.hebbian import masked


def _learnt(rule, W, X, lr, mode="sequential"):
    lr = W.dtype.type(lr)
    if mode == "batch":
        Y = X @ W.T
        return W + lr * (Y.T @ X - masked(rule, Y.T @ Y) @ W)
    for x in X:
        y = W @ x
        W = W + lr * (np.outer(y, x) - masked(rule, np.outer(y, y)) @ W)
    return W


def _learnt_bound(eps, W, X, lr, mode="sequential"):
    """Some roundings of the weights for each sample, which are about 1 long; of sums of d products, √d of them."""
    size = max(1.0, float(np.abs(W).max()))
    return np.full(W.shape, (8 + 4 * len(X) + 2 * np.sqrt(W.shape[1])) * eps * size)


def oja(**inputs):
    return _learnt("oja", **inputs)


def sanger(**inputs):
    return _learnt("sanger", **inputs)


def subspace(**inputs):
    return _learnt("subspace", **inputs)


oja_bound = sanger_bound = subspace_bound = _learnt_bound


def hopfield_recall(W, s, mode="async"):
    """All states go through the units together."""
    s = s.copy()
    for _ in range(100):
        before = s.copy()
        if mode == "sync":
            s = np.where(s @ W.T >= 0, 1, -1).astype(W.dtype)
        else:
            for i in range(len(W)):
                s[:, i] = np.where(s @ W[i] >= 0, 1, -1)
        if np.array_equal(s, before):
            break
    return s


def hopfield_recall_bound(eps, W, s, mode="async"):
    """States are +1 and -1: nothing may differ."""
    return np.zeros(s.shape)
