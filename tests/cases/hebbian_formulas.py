"""The functions of the benchmarks by their formulas, and how far results may be off: for every name, `<name>_bound`.

Formulas compute in the precision of their arguments; bounds are of anyone's reasonable algorithm in `eps`.
"""

from __future__ import annotations

import math

import numpy as np

from cases import gram_formulas
from cases.gram_formulas import ELEMENTARY, growth
from cases.hebbian import masked, unit_rows


# ---- rules of learning ----
def _seen(X, lr):
    """Samples with their steps, of which there is one for all or one for each."""
    return zip(X, np.broadcast_to(np.asarray(lr, X.dtype), len(X)), strict=True)


def _learnt(rule, W, X, lr, mode="sequential"):
    lr = W.dtype.type(lr)
    if mode == "batch":
        Y = X @ W.T
        return W + lr * (Y.T @ X - masked(rule, Y.T @ Y) @ W)
    taken = {
        "oja": lambda parts: parts,
        "sanger": lambda parts: np.cumsum(parts, axis=0),
        "subspace": lambda parts: parts.sum(axis=0),
    }
    for x in X:
        y = (W @ x)[:, None]
        W = W + lr * y * (x - taken[rule](y * W))
    return W


def _learnt_bound(eps, W, X, lr, mode="sequential", size=1.0):
    """Some roundings of the weights for each sample, which are about 1 long; of sums of d products, √d of them."""
    size = max(size, float(np.abs(W).max()))
    return np.full(W.shape, (8 + 4 * len(X) + 2 * np.sqrt(W.shape[1])) * eps * size)


def oja(**inputs):
    return _learnt("oja", **inputs)


def sanger(**inputs):
    return _learnt("sanger", **inputs)


def subspace(**inputs):
    return _learnt("subspace", **inputs)


oja_bound = sanger_bound = subspace_bound = _learnt_bound


def hebb(W, X, lr, normalize=False, mode="sequential"):
    lr = W.dtype.type(lr)
    if mode == "batch":
        W = W + lr * ((X @ W.T).T @ X)
        return unit_rows(W) if normalize else W
    for x in X:
        W = W + lr * np.outer(W @ x, x)
        W = unit_rows(W) if normalize else W
    return W


def hebb_bound(eps, W, X, lr, normalize=False, mode="sequential"):
    """Without a decay the weights grow, and errors with them."""
    size = 1.0 if normalize else float(np.abs(hebb(*(a.astype(np.float64) for a in (W, X)), lr, mode=mode)).max())
    return _learnt_bound(eps, W, X, lr, mode, size)


def bcm(W, X, lr, tau=100.0, theta=None):
    theta = np.zeros(len(W), W.dtype) if theta is None else theta
    for x, step in _seen(X, lr):
        y = W @ x
        W, theta = W + step * np.outer(y * (y - theta), x), theta + (y * y - theta) / tau
    return W, theta


def bcm_bound(eps, W, X, lr, tau=100.0):
    """An error of the weights reaches y as those of √d of them, and y² by at most 8 of these, since |y| is below 4."""
    weights = _learnt_bound(eps, W, X, lr)
    return weights, 8 * math.sqrt(W.shape[1]) * weights[:, 0]


def krotov(W, X, lr, p=2.0, delta=0.4, rank=2):
    delta = W.dtype.type(delta)
    for x, step in _seen(X, lr):
        currents = (np.sign(W) * np.abs(W) ** (p - 1)) @ x
        order = np.argsort(-currents, kind="stable")
        shares = np.zeros_like(currents)
        shares[order[0]], shares[order[rank - 1]] = 1, -delta
        W = W + step * shares[:, None] * (x - currents[:, None] * W)
    return W


def krotov_bound(eps, W, X, lr, p=2.0, delta=0.4, rank=2):
    """As of the other rules: of the samples here none has two currents so close that a rounding would swap them."""
    return _learnt_bound(eps, W, X, lr)


def soft_hebb(W, X, lr, temperature=1.0):
    for x, step in _seen(X, lr):
        u = W @ x
        y = np.exp((u - u.max()) / temperature)
        W = W + step * (y / y.sum())[:, None] * (x - u[:, None] * W)
    return W


def soft_hebb_bound(eps, W, X, lr, temperature=1.0):
    return _learnt_bound(eps, W, X, lr)


def foldiak(W, X, lateral, threshold, lr, lateral_lr, threshold_lr, activity, steepness, steps):
    V, theta = lateral, threshold
    for x, step in _seen(X, lr):
        u, drive = np.zeros_like(theta), W @ x - theta
        for _ in range(steps):
            u = u + (1 / (1 + np.exp(-steepness * (drive + V @ u))) - u) / 10
        y = (u > 0.5).astype(u.dtype)
        W = W + step * y[:, None] * (x - W)
        V = np.minimum(0, V - lateral_lr * (np.outer(y, y) - activity**2))
        np.fill_diagonal(V, 0)
        theta = theta + threshold_lr * (y - activity)
    return W, V, theta


def foldiak_bound(eps, W, X, lateral, threshold, lr, lateral_lr, threshold_lr, activity, steepness, steps):
    """Activity is 0 or 1, and everything else a sum of a few roundings for each sample.

    Weights are averages of samples. A lateral weight goes down where two units are active, for a share `activity` of
    the samples at most, and a threshold where one is; their roundings are of what they come to.
    """
    n = len(X)
    furthest = float(np.abs(lateral).max()) + n * lateral_lr * activity, 1 + n * threshold_lr * activity
    sizes = zip((W, lateral, threshold), (float(np.abs(X).max()), *furthest), strict=True)
    return tuple(np.full(array.shape, (8 + 4 * n) * eps * max(1.0, size)) for array, size in sizes)


def ccipca(V, X, amnesic=2.0, count=0):
    V = V.copy()
    for n, u in enumerate(X, start=count + 1):
        share = (1 + (amnesic if n > 1 + amnesic else 0)) / V.dtype.type(n)
        for i in range(min(len(V), n)):
            if i == n - 1 or not V[i].any():
                # Nothing is left of a sample that is taken whole, not even roundings.
                V[i], u = u, np.zeros_like(u)
                continue
            V[i] = (1 - share) * V[i] + share * u * (u @ unit_rows(V[i : i + 1])[0])
            axis = unit_rows(V[i : i + 1])[0]
            u = u - (u @ axis) * axis
    return V


def ccipca_bound(eps, V, X, amnesic=2.0, count=0):
    """As of the other rules, but weights are as large as an element of a sample times its length."""
    samples = X.astype(np.float64)
    largest = np.abs(samples).max() * np.linalg.norm(samples, axis=1).max()
    return _learnt_bound(eps, V, X, 0.0, size=float(largest))


# ---- principal components from a stream ----
def _centred(X, mean, seen):
    """Give samples less the mean of all up to them, and the mean of all."""
    numbers = np.arange(seen + 1, seen + len(X) + 1).astype(X.dtype)[:, None]
    means = (mean * X.dtype.type(seen) + np.cumsum(X, axis=0)) / numbers
    return X - means, means[-1]


def HebbianPCA_partial_fit(X, start, mean, n_components, rule, learning_rate, seen):
    middle, mean = _centred(X, mean, seen)
    if rule == "ccipca":
        return ccipca(start, middle, count=seen), mean
    return _learnt(rule, start, middle, learning_rate), mean


def HebbianPCA_partial_fit_bound(eps, X, start, mean, n_components, rule, learning_rate, seen):
    """The rule's, of samples about their mean; that of the mean, in double in any case, as of a sum of n numbers."""
    middle = X - X.mean(axis=0)
    weights = ccipca_bound(eps, start, middle) if rule == "ccipca" else _learnt_bound(eps, start, X, learning_rate)
    return weights, np.full(X.shape[1], growth(len(X)) * eps * float(np.abs(X).max()))


def HebbianPCA(X, start, n_components, rule, learning_rate):
    return HebbianPCA_partial_fit(X, start, np.zeros(X.shape[1], X.dtype), n_components, rule, learning_rate, 0)


def HebbianPCA_bound(eps, X, start, n_components, rule, learning_rate):
    return HebbianPCA_partial_fit_bound(eps, X, start, 0, n_components, rule, learning_rate, 0)


def HebbianPCA_transform(X, components, mean):
    return (X - mean) @ components.T


def HebbianPCA_transform_bound(eps, X, components, mean):
    """Also of those who take the mean from the products."""
    sizes = np.abs(X.astype(np.float64)) + np.abs(mean)
    return growth(X.shape[1]) * eps * (sizes @ np.abs(components.astype(np.float64)).T)


def HebbianPCA_inverse_transform(Y, components, mean):
    return Y @ components + mean


def HebbianPCA_inverse_transform_bound(eps, Y, components, mean):
    sizes = np.abs(Y.astype(np.float64)) @ np.abs(components.astype(np.float64)) + np.abs(mean)
    return growth(Y.shape[1]) * eps * sizes


def HebbianPCA_fit_transform(X, start, n_components, rule, learning_rate):
    components, mean = HebbianPCA(X, start, n_components, rule, learning_rate)
    return HebbianPCA_transform(X, components, mean)


def HebbianPCA_fit_transform_bound(eps, X, start, n_components, rule, learning_rate):
    """Errors of the components meet samples about their mean as independent ones do, in their length."""
    weights, _ = HebbianPCA_bound(eps, X, start, n_components, rule, learning_rate)
    samples = X.astype(np.float64)
    lengths, middle = (np.linalg.norm(rows, axis=1)[:, None] for rows in (samples, samples - samples.mean(axis=0)))
    return 4 * middle * weights[:, 0] + growth(X.shape[1]) * eps * lengths


# ---- Hopfield networks ----
def hopfield_weights(P, zero_diagonal=True):
    W = P.T @ P / P.dtype.type(P.shape[1])
    return W * ~np.eye(len(W), dtype=bool) if zero_diagonal else W


def hopfield_weights_bound(eps, P):
    n, d = P.shape
    return np.full((d, d), growth(n) * eps * n / d)


def hopfield_energy(W, s, b=None):
    energy = -np.sum((s @ W.T) * s, axis=1) / 2
    return energy if b is None else energy + s @ b


def hopfield_energy_bound(eps, W, s):
    """Of states of +1 and -1: sums of d terms, each of d."""
    return np.full(len(s), 2 * growth(len(W)) * eps * float(np.abs(W.astype(np.float64)).sum()) / 2)


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


def crosstalk(P):
    G = P @ P.T / P.dtype.type(P.shape[1])
    np.fill_diagonal(G, 0)
    return G @ P


def crosstalk_bound(eps, P):
    """Sums of signs are exact; a quotient of each is rounded, then sums of n, also by those who take the diagonal off
    only in the end."""
    patterns = P.astype(np.float64)
    sizes = np.abs(patterns @ patterns.T / P.shape[1]).sum(axis=1)
    return np.repeat((growth(len(P)) + 2) * eps * sizes[:, None], P.shape[1], axis=1)


def dense_hopfield_energy(P, s, degree):
    return -np.sum((s @ P.T) ** degree, axis=1)


def dense_hopfield_energy_bound(eps, P, s, degree):
    """Overlaps are whole numbers; their powers are rounded, and the sum of n of them."""
    sizes = np.sum(np.abs(s.astype(np.float64) @ P.astype(np.float64).T) ** degree, axis=1)
    return (growth(len(P)) + ELEMENTARY * degree) * eps * sizes


def dense_hopfield(P, s, degree, mode="async"):
    """All states go through the units together; overlaps are kept."""
    s, overlaps = s.copy(), s @ P.T
    for _ in range(100):
        before, seen = s.copy(), overlaps
        for i, pattern in enumerate(P.T):
            kept = seen if mode == "sync" else overlaps
            rest = kept - before[:, i, None] * pattern
            found = np.where(np.sum((rest + pattern) ** degree - (rest - pattern) ** degree, axis=1) >= 0, 1, -1)
            overlaps = overlaps + (found - s[:, i])[:, None] * pattern
            s[:, i] = found
        if np.array_equal(s, before):
            break
    return s


def dense_hopfield_bound(eps, P, s, degree, mode="async"):
    """States are +1 and -1: nothing may differ."""
    return np.zeros(s.shape)


def modern_hopfield(P, q, beta):
    return gram_formulas.softmax_matvec(q, P, P, beta)


def modern_hopfield_bound(eps, P, q, beta):
    return gram_formulas.softmax_matvec_bound(eps, q, P, P, beta)


# ---- probabilities, of several numbers ----
POINTS = 512  # of the midpoint rule
HALVINGS = 64


def flip_probability(n, d):
    """Craig's integral of exp(-d / (2 n sin²θ)) / π from 0 to a right angle, by the midpoint rule.

    The integrand is smooth and periodic: the error of the rule is below every power of the step.
    """
    kind = n.dtype.type
    theta = np.arcsin(kind(1)) * (np.arange(POINTS) + kind(0.5)) / POINTS
    return np.mean(np.exp(-d[:, None] / (2 * n[:, None] * np.sin(theta) ** 2)), axis=1) / 2


def flip_probability_bound(eps, n, d):
    """An exponent of d / 2n is known to its rounding."""
    n, d = n.astype(np.float64), d.astype(np.float64)
    return (ELEMENTARY + d / n) * eps * flip_probability(n, d)


def capacity(d, probability):
    """By halving an interval of d / n, in which the probability falls."""
    low, high = np.zeros_like(d), np.full_like(d, 200)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = flip_probability(np.ones_like(d), middle) > probability
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return d / middle


def capacity_bound(eps, d, probability):
    """The inverse of a function that falls faster than it has roundings."""
    return 2 * ELEMENTARY * eps * capacity(d.astype(np.float64), probability.astype(np.float64))
