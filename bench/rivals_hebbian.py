"""Hebbian rules and memories as one would write them in NumPy and in torch, and what SciPy and scikit-learn have.

Rules are loops over the samples that change the weights in place; torch has the weights and samples as tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rivals_torch import Call, _tensors

_MASKS: dict[str, Callable[[Any], Any]] = {"sanger": np.tril, "subspace": lambda S: S}


def numpy_formula(name: str, **inputs: Any) -> Call:
    """The formula as it stands in the cases: where NumPy has no faster way of writing it."""
    from cases import hebbian_formulas

    return partial(getattr(hebbian_formulas, name), **inputs)


# ---- rules in NumPy ----
def numpy_learn(rule: str, W: np.ndarray, X: np.ndarray, lr: float, mode: str = "sequential") -> Call:
    """Loop over the samples by the formula as it stands, in place; a single unit of Oja's as the vector it is."""
    step = W.dtype.type(lr)

    def batch() -> np.ndarray:
        Y = X @ W.T
        if rule == "oja":
            return W + step * (Y.T @ X - np.einsum("ti,ti->i", Y, Y)[:, None] * W)
        return W + step * (Y.T @ X - _MASKS[rule](Y.T @ Y) @ W)

    def vector() -> np.ndarray:
        w = W[0].copy()
        for x in X:
            y = w @ x
            w += step * y * (x - y * w)
        return w[None]

    def loop() -> np.ndarray:
        w = W.copy()
        for x in X:
            y = w @ x
            if rule == "oja":
                w += step * (np.outer(y, x) - (y * y)[:, None] * w)
            else:
                w += step * (np.outer(y, x) - _MASKS[rule](np.outer(y, y)) @ w)
        return w

    return batch if mode == "batch" else vector if rule == "oja" and len(W) == 1 else loop


def numpy_projected(W: np.ndarray, X: np.ndarray, lr: float, mode: str = "sequential") -> Call:
    """Write the subspace rule with a product of a vector less than its formula has: W += lr y (x - yᵀ W)ᵀ."""
    if mode == "batch":
        return numpy_learn("subspace", W, X, lr, mode)
    step = W.dtype.type(lr)

    def loop() -> np.ndarray:
        w = W.copy()
        for x in X:
            y = w @ x
            w += step * np.outer(y, x - y @ w)
        return w

    return loop


def numpy_hebb(W: np.ndarray, X: np.ndarray, lr: float, normalize: bool = False, mode: str = "sequential") -> Call:
    step = W.dtype.type(lr)

    def rescaled(w: np.ndarray) -> np.ndarray:
        if normalize:
            w /= np.sqrt(np.einsum("ij,ij->i", w, w))[:, None]
        return w

    def loop() -> np.ndarray:
        w = W.copy()
        for x in X:
            w += np.outer(step * (w @ x), x)
            rescaled(w)
        return w

    return loop if mode == "sequential" else lambda: rescaled(W + step * ((X @ W.T).T @ X))


def numpy_bcm(W: np.ndarray, X: np.ndarray, lr: float, tau: float = 100.0) -> Call:
    step = W.dtype.type(lr)

    def loop() -> tuple[np.ndarray, np.ndarray]:
        w, theta = W.copy(), np.zeros(len(W), W.dtype)
        for x in X:
            y = w @ x
            w += np.outer(step * y * (y - theta), x)
            theta += (y * y - theta) / tau
        return w, theta

    return loop


def numpy_krotov(W: np.ndarray, X: np.ndarray, lr: float, p: float = 2.0, delta: float = 0.4, rank: int = 2) -> Call:
    """Change the two rows that learn, and no others."""
    step, unlearned = W.dtype.type(lr), W.dtype.type(-lr * delta)

    def loop() -> np.ndarray:
        w = W.copy()
        for x in X:
            currents = w @ x if p == 2 else (np.sign(w) * np.abs(w) ** (p - 1)) @ x
            order = np.argsort(-currents)
            first, other = order[0], order[rank - 1]
            w[first] += step * (x - currents[first] * w[first])
            w[other] += unlearned * (x - currents[other] * w[other])
        return w

    return loop


def numpy_soft_hebb(W: np.ndarray, X: np.ndarray, lr: float, temperature: float = 1.0) -> Call:
    step = W.dtype.type(lr)

    def loop() -> np.ndarray:
        w = W.copy()
        for x in X:
            u = w @ x
            y = np.exp((u - u.max()) / temperature)
            y *= step / y.sum()
            w *= (1 - y * u)[:, None]
            w += np.outer(y, x)
        return w

    return loop


def numpy_ccipca(V: np.ndarray, X: np.ndarray, amnesic: float = 2.0, count: int = 0) -> Call:
    def loop() -> np.ndarray:
        v = V.copy()
        for n, sample in enumerate(X, start=count + 1):
            share = V.dtype.type((1 + (amnesic if n > 1 + amnesic else 0)) / n)
            u = sample.copy()
            for i in range(min(len(v), n)):
                row = v[i]
                if i == n - 1 or not row.any():
                    row[:], u[:] = u, 0
                    continue
                along = (u @ row) / np.sqrt(row @ row)
                row *= 1 - share
                row += share * along * u
                u -= (u @ row) / (row @ row) * row
        return v

    return loop


def numpy_partial_fit(X, start, mean, n_components, rule, learning_rate, seen) -> Call:
    """Take all running means at once, then let the rule see what is left."""
    numbers = np.arange(seen + 1, seen + len(X) + 1)[:, None]

    def fit() -> tuple[np.ndarray, np.ndarray]:
        means = (seen * mean + np.cumsum(X, axis=0, dtype=np.float64)) / numbers
        middle = (X - means).astype(X.dtype)
        if rule == "ccipca":
            return numpy_ccipca(start, middle, count=seen)(), means[-1]
        make = numpy_projected if rule == "subspace" else partial(numpy_learn, rule)
        return make(start, middle, learning_rate)(), means[-1]

    return fit


def numpy_fit(X, start, n_components, rule, learning_rate) -> Call:
    return numpy_partial_fit(X, start, np.zeros(X.shape[1]), n_components, rule, learning_rate, 0)


def numpy_fit_transform(X, start, n_components, rule, learning_rate) -> Call:
    fit = numpy_fit(X, start, n_components, rule, learning_rate)

    def fit_transform() -> np.ndarray:
        components, mean = fit()
        return (X - mean).astype(X.dtype) @ components.T

    return fit_transform


# ---- rules in torch ----
def _decay(rule: str, S: Any) -> Any:
    return S if rule == "subspace" else S.tril()


def torch_learn(rule: str, W, X, lr, mode="sequential") -> Call:
    import torch

    weights, samples = _tensors(W, X)

    def batch() -> Any:
        Y = samples @ weights.T
        change = Y.T @ samples
        if rule == "oja":
            change.sub_((Y * Y).sum(0)[:, None] * weights)
        else:
            change.sub_(_decay(rule, Y.T @ Y) @ weights)
        return change.mul_(lr).add_(weights)

    def loop() -> Any:
        w = weights.clone()
        for x in samples:
            y = w @ x
            if rule == "oja":
                w.mul_(1 - lr * (y * y)[:, None]).addr_(y, x, alpha=lr)
            elif rule == "subspace":
                w.addr_(y, x - y @ w, alpha=lr)
            else:
                w.add_(torch.outer(y, x).sub_(torch.outer(y, y).tril_() @ w), alpha=lr)
        return w

    return batch if mode == "batch" else loop


def torch_hebb(W, X, lr, normalize=False, mode="sequential") -> Call:
    weights, samples = _tensors(W, X)

    def rescaled(w: Any) -> Any:
        return w.div_(w.norm(dim=1, keepdim=True)) if normalize else w

    def loop() -> Any:
        w = weights.clone()
        for x in samples:
            rescaled(w.addr_(w @ x, x, alpha=lr))
        return w

    return loop if mode == "sequential" else lambda: rescaled(weights.addmm((samples @ weights.T).T, samples, alpha=lr))


def torch_bcm(W, X, lr, tau=100.0) -> Call:
    weights, samples = _tensors(W, X)

    def loop() -> Any:
        w, theta = weights.clone(), weights.new_zeros(len(weights))
        for x in samples:
            y = w @ x
            w.addr_(y * (y - theta), x, alpha=lr)
            theta.add_(y * y - theta, alpha=1 / tau)
        return w, theta

    return loop


def torch_krotov(W, X, lr, p=2.0, delta=0.4, rank=2) -> Call:
    weights, samples = _tensors(W, X)
    shares = weights.new_tensor([lr, -lr * delta])[:, None]

    def loop() -> Any:
        w = weights.clone()
        for x in samples:
            currents = w @ x if p == 2 else (w.sign() * w.abs().pow_(p - 1)) @ x
            values, order = currents.topk(rank)
            both = order[[0, rank - 1]]
            w.index_add_(0, both, shares * (x - values[[0, rank - 1], None] * w[both]))
        return w

    return loop


def torch_soft_hebb(W, X, lr, temperature=1.0) -> Call:
    weights, samples = _tensors(W, X)

    def loop() -> Any:
        w = weights.clone()
        for x in samples:
            u = w @ x
            y = (u / temperature).softmax(0).mul_(lr)
            w.mul_((1 - y * u)[:, None]).addr_(y, x)
        return w

    return loop


# ---- memories in torch ----
def torch_hopfield_weights(P) -> Call:
    (patterns,) = _tensors(P)
    return lambda: (patterns.T @ patterns).div_(P.shape[1]).fill_diagonal_(0)


def torch_hopfield_energy(W, s) -> Call:
    weights, states = _tensors(W, s)
    return lambda: (states @ weights.T).mul_(states).sum(1).mul_(-0.5)


def torch_crosstalk(P) -> Call:
    (patterns,) = _tensors(P)
    return lambda: (patterns @ patterns.T).div_(P.shape[1]).fill_diagonal_(0) @ patterns


def torch_dense_hopfield_energy(P, s, degree) -> Call:
    patterns, states = _tensors(P, s)
    return lambda: (states @ patterns.T).pow_(degree).sum(1).neg_()


def torch_modern_hopfield(P, q, beta) -> Call:
    from torch.nn.functional import scaled_dot_product_attention

    patterns, states = (tensor[None, None] for tensor in _tensors(P, q))
    return lambda: scaled_dot_product_attention(states, patterns, patterns, scale=beta)[0, 0]


# ---- scikit-learn and SciPy ----
def sklearn_pca(method: str, components: np.ndarray, mean: np.ndarray, **samples: np.ndarray) -> Call:
    """Call a method of its PCA that was told the components; its IncrementalPCA has the same one."""
    from sklearn.decomposition import PCA

    known = PCA(len(components))
    known.components_, known.mean_, known.n_components_ = components, mean, len(components)
    known.explained_variance_ = np.ones(len(components), components.dtype)
    (given,) = samples.values()
    return lambda: getattr(known, method)(given)


def scipy_flip_probability(n: np.ndarray, d: np.ndarray) -> Call:
    """Take all numbers at once, in double as ours are."""
    from scipy.special import ndtr

    patterns, units = n.astype(np.float64), d.astype(np.float64)
    return lambda: ndtr(-np.sqrt(units / patterns))


def scipy_capacity(d: np.ndarray, probability: np.ndarray) -> Call:
    from scipy.special import ndtri

    units, chances = d.astype(np.float64), probability.astype(np.float64)
    return lambda: units / ndtri(chances) ** 2
