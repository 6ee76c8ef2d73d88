"""Hebbian learning: inputs, the rules sample by sample in more precision, and how far an update may be off."""

from __future__ import annotations

import numpy as np

from cases import wide

# Around the widths of vectors, blocks and strips: units, features, samples.
SHAPES = (
    (1, 1, 1),
    (1, 7, 8),
    (2, 8, 9),
    (3, 9, 15),
    (5, 3, 17),
    (7, 15, 16),
    (8, 16, 31),
    (9, 17, 33),
    (16, 31, 32),
    (15, 33, 63),
    (17, 63, 64),
    (33, 64, 65),
    (31, 65, 70),
    (65, 32, 40),
    (6, 257, 97),
    (40, 530, 75),
    (11, 1601, 50),
    (30, 1040, 43),
)
EMPTY = ((0, 3, 4), (2, 0, 4), (3, 5, 0), (0, 0, 0), (0, 0, 3))

RULES = ("hebb", "normalized", "oja", "sanger", "subspace")


def draw(rng, k, d, n, dtype):
    """Weights of length about 1, samples of length about √d, and steps so small that nothing diverges."""
    W = (rng.standard_normal((k, d)) / np.sqrt(max(1, d))).astype(dtype)
    X = rng.standard_normal((n, d)).astype(dtype)
    lr = (rng.uniform(0.2, 1, n) * 0.2 / max(1, d)).astype(dtype)
    return W, X, lr


def masked(rule, S):
    """M(y yᵀ) of each rule."""
    if rule == "oja":
        return np.diag(np.diag(S))
    return np.tril(S) if rule == "sanger" else S if rule == "subspace" else np.zeros_like(S)


def unit_rows(W):
    norms = np.sqrt((W * W).sum(1, keepdims=True))
    return np.where(norms == 0, W, W / np.where(norms == 0, 1, norms))


def learnt(rule, W, X, lr, mode="sequential"):
    """The formula, a sample after the other, in more precision."""
    W, X, lr = wide(W), wide(X), wide(np.broadcast_to(np.asarray(lr, W.dtype), len(X)))
    if mode == "batch":
        Y = X @ W.T
        result = W + (lr[:, None] * Y).T @ X - masked(rule, (lr[:, None] * Y).T @ Y) @ W
        return unit_rows(result) if rule == "normalized" and len(X) else result
    for x, eta in zip(X, lr, strict=True):
        y = W @ x
        W = W + eta * (np.outer(y, x) - masked(rule, np.outer(y, y)) @ W)
        if rule == "normalized":
            W = unit_rows(W)
    return W


def tolerance(W, X, lr):
    """How far weights may be off after all samples, for steps as `draw` gives them.

    Rounding a product of d terms costs d roundings of the size of its terms; y enters with lr |x| ≤ 0.4/√d, so that a
    sample adds at most a few √d roundings of the weights, and what is off already grows by no more than 1 + lr |x|²
    < 1.5 along x alone, and shrinks with the decay. 4 roundings a sample and √d cover it with room.
    """
    eps = float(np.finfo(W.dtype).eps)
    return (
        (8 + 4 * len(X) + 2 * np.sqrt(W.shape[1]))
        * eps
        * max(1.0, float(np.abs(learnt("hebb", W, X, lr)).max(initial=0)))
    )


def spins(rng, shape, dtype):
    return np.where(rng.random(shape) < 0.5, -1, 1).astype(dtype)
