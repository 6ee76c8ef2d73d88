"""The functions of fastdl.hebbian as loops over lists of floats: what the formulas cost without any library.

A maker turns the inputs into lists beforehand; its call uses nothing but those and the math module.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cases.hebbian_formulas import HALVINGS, POINTS
from loops_gram import Call, Maker, Row, attention, dot


def _added(row: Row, scale: float, other: Row) -> Row:
    return [a + scale * b for a, b in zip(row, other, strict=True)]


def _unit(row: Row) -> Row:
    length = math.sqrt(dot(row, row))
    return [value / length for value in row] if length else row


# ---- rules of learning ----
def _changes(rule: str, weights: list[Row], x: Row) -> list[Row]:
    """Give y (x - what the rule takes away of it) for every unit."""
    y = [dot(w, x) for w in weights]
    taken = [0.0] * len(x)
    if rule == "subspace":
        for w, a in zip(weights, y, strict=True):
            taken = _added(taken, a, w)
    rows = []
    for w, a in zip(weights, y, strict=True):
        if rule == "oja":
            taken = [a * value for value in w]
        elif rule == "sanger":
            taken = _added(taken, a, w)
        rows.append([a * (value - less) for value, less in zip(x, taken, strict=True)])
    return rows


def _learn(rule: str, weights: list[Row], samples: list[Row], lr: float, normalize: bool = False) -> list[Row]:
    for x in samples:
        changes = _changes(rule, weights, x)
        weights = [_added(w, lr, change) for w, change in zip(weights, changes, strict=True)]
        if normalize:
            weights = [_unit(w) for w in weights]
    return weights


def _learn_together(rule: str, weights: list[Row], samples: list[Row], lr: float) -> list[Row]:
    result = weights
    for x in samples:
        result = [_added(w, lr, change) for w, change in zip(result, _changes(rule, weights, x), strict=True)]
    return result


def python_learn(rule: str) -> Maker:
    def make(W: np.ndarray, X: np.ndarray, lr: float, mode: str = "sequential", normalize: bool = False) -> Call:
        weights, samples = W.tolist(), X.tolist()
        if mode == "sequential":
            return lambda: _learn(rule, weights, samples, lr, normalize)
        if not normalize:
            return lambda: _learn_together(rule, weights, samples, lr)
        return lambda: [_unit(w) for w in _learn_together(rule, weights, samples, lr)]

    return make


def python_bcm(W: np.ndarray, X: np.ndarray, lr: float, tau: float = 100.0) -> Call:
    given, samples = W.tolist(), X.tolist()

    def bcm() -> tuple[list[Row], Row]:
        weights, theta = list(given), [0.0] * len(given)
        for x in samples:
            for i, w in enumerate(weights):
                y = dot(w, x)
                weights[i] = _added(w, lr * y * (y - theta[i]), x)
                theta[i] += (y * y - theta[i]) / tau
        return weights, theta

    return bcm


def python_krotov(W: np.ndarray, X: np.ndarray, lr: float, p: float = 2.0, delta: float = 0.4, rank: int = 2) -> Call:
    given, samples = W.tolist(), X.tolist()

    def krotov() -> list[Row]:
        weights = list(given)
        for x in samples:
            currents = [dot([math.copysign(abs(v) ** (p - 1), v) for v in w], x) for w in weights]
            order = sorted(range(len(weights)), key=lambda i: -currents[i])
            for i, share in ((order[0], 1.0), (order[rank - 1], -delta)):
                w, current = weights[i], currents[i]
                weights[i] = [v + lr * share * (a - current * v) for v, a in zip(w, x, strict=True)]
        return weights

    return krotov


def python_soft_hebb(W: np.ndarray, X: np.ndarray, lr: float, temperature: float = 1.0) -> Call:
    given, samples = W.tolist(), X.tolist()

    def soft_hebb() -> list[Row]:
        weights = list(given)
        for x in samples:
            u = [dot(w, x) for w in weights]
            largest = max(u)
            shares = [math.exp((value - largest) / temperature) for value in u]
            total = sum(shares)
            for i, w in enumerate(weights):
                step = lr * shares[i] / total
                weights[i] = [v + step * (a - u[i] * v) for v, a in zip(w, x, strict=True)]
        return weights

    return soft_hebb


def python_foldiak(
    W: np.ndarray,
    X: np.ndarray,
    lateral: np.ndarray,
    threshold: np.ndarray,
    lr: float,
    lateral_lr: float,
    threshold_lr: float,
    activity: float,
    steepness: float,
    steps: int,
) -> Call:
    given, samples = (W.tolist(), lateral.tolist(), threshold.tolist()), X.tolist()

    def foldiak() -> tuple[list[Row], list[Row], Row]:
        weights, inhibition, theta = given
        for x in samples:
            drive = [dot(w, x) - bar for w, bar in zip(weights, theta, strict=True)]
            u = [0.0] * len(drive)
            for _ in range(steps):
                fields = [a + dot(row, u) for a, row in zip(drive, inhibition, strict=True)]
                u = [a + (1 / (1 + math.exp(-steepness * b)) - a) / 10 for a, b in zip(u, fields, strict=True)]
            y = [1.0 if a > 0.5 else 0.0 for a in u]
            weights = [
                [v + lr * a * (b - v) for v, b in zip(w, x, strict=True)] for w, a in zip(weights, y, strict=True)
            ]
            inhibition = [
                [0.0 if i == j else min(0.0, v - lateral_lr * (y[i] * y[j] - activity**2)) for j, v in enumerate(row)]
                for i, row in enumerate(inhibition)
            ]
            theta = [bar + threshold_lr * (a - activity) for bar, a in zip(theta, y, strict=True)]
        return weights, inhibition, theta

    return foldiak


def _candid(rows: list[Row], samples: list[Row], count: int, amnesic: float) -> list[Row]:
    rows = list(rows)
    for n, u in enumerate(samples, start=count + 1):
        share = (1 + (amnesic if n > 1 + amnesic else 0)) / n
        for i in range(min(len(rows), n)):
            if i == n - 1 or not any(rows[i]):
                rows[i], u = u, [0.0] * len(u)
                continue
            along = dot(u, _unit(rows[i]))
            rows[i] = [(1 - share) * v + share * along * a for v, a in zip(rows[i], u, strict=True)]
            axis = _unit(rows[i])
            u = _added(u, -dot(u, axis), axis)
    return rows


def python_ccipca(V: np.ndarray, X: np.ndarray, amnesic: float = 2.0) -> Call:
    rows, samples = V.tolist(), X.tolist()
    return lambda: _candid(rows, samples, 0, amnesic)


# ---- principal components from a stream ----
def _fitted(samples: list[Row], start: list[Row], mean: Row, rule: str, lr: float | None, seen: int) -> tuple:
    middle = []
    for number, x in enumerate(samples, start=seen + 1):
        mean = [m + (a - m) / number for m, a in zip(mean, x, strict=True)]
        middle.append([a - m for a, m in zip(x, mean, strict=True)])
    weights = _candid(start, middle, seen, 2.0) if rule == "ccipca" else _learn(rule, start, middle, lr)
    return weights, mean


def _coordinates(samples: list[Row], components: list[Row], mean: Row) -> list[Row]:
    return [[dot([a - m for a, m in zip(x, mean, strict=True)], w) for w in components] for x in samples]


def python_partial_fit(X, start, mean, n_components, rule, learning_rate, seen) -> Call:
    samples, weights, before = X.tolist(), start.tolist(), mean.tolist()
    return lambda: _fitted(samples, weights, before, rule, learning_rate, seen)


def python_fit(X, start, n_components, rule, learning_rate) -> Call:
    return python_partial_fit(X, start, np.zeros(X.shape[1]), n_components, rule, learning_rate, 0)


def python_transform(X: np.ndarray, components: np.ndarray, mean: np.ndarray) -> Call:
    samples, rows, middle = X.tolist(), components.tolist(), mean.tolist()
    return lambda: _coordinates(samples, rows, middle)


def python_inverse_transform(Y: np.ndarray, components: np.ndarray, mean: np.ndarray) -> Call:
    places, columns, middle = Y.tolist(), components.T.tolist(), mean.tolist()
    return lambda: [[dot(y, column) + m for column, m in zip(columns, middle, strict=True)] for y in places]


def python_fit_transform(X, start, n_components, rule, learning_rate) -> Call:
    samples, fit = X.tolist(), python_fit(X, start, n_components, rule, learning_rate)
    return lambda: _coordinates(samples, *fit())


# ---- Hopfield networks ----
def python_hopfield_weights(P: np.ndarray) -> Call:
    columns = P.T.tolist()
    d = len(columns)
    return lambda: [[dot(p, q) / d if i != j else 0.0 for j, q in enumerate(columns)] for i, p in enumerate(columns)]


def python_hopfield_energy(W: np.ndarray, s: np.ndarray) -> Call:
    weights, states = W.tolist(), s.tolist()
    return lambda: [-dot([dot(w, state) for w in weights], state) / 2 for state in states]


def _recall(states: list[Row], mode: str, field: Any) -> list[Row]:
    result = []
    for state in states:
        state = list(state)
        for _ in range(100):
            before = list(state)
            seen = before if mode == "sync" else state
            for i in range(len(state)):
                state[i] = 1.0 if field(seen, i) >= 0 else -1.0
            if state == before:
                break
        result.append(state)
    return result


def python_hopfield_recall(W: np.ndarray, s: np.ndarray, mode: str = "async") -> Call:
    weights, states = W.tolist(), s.tolist()
    return lambda: _recall(states, mode, lambda state, i: dot(weights[i], state))


def python_crosstalk(P: np.ndarray) -> Call:
    patterns, columns = P.tolist(), P.T.tolist()
    d = len(columns)

    def crosstalk() -> list[Row]:
        result = []
        for i, p in enumerate(patterns):
            overlaps = [dot(p, q) / d if i != j else 0.0 for j, q in enumerate(patterns)]
            result.append([dot(overlaps, column) for column in columns])
        return result

    return crosstalk


def python_dense_hopfield_energy(P: np.ndarray, s: np.ndarray, degree: int) -> Call:
    patterns, states = P.tolist(), s.tolist()
    return lambda: [-sum(dot(p, state) ** degree for p in patterns) for state in states]


def python_dense_hopfield(P: np.ndarray, s: np.ndarray, degree: int, mode: str = "async") -> Call:
    patterns, states = P.tolist(), s.tolist()

    def field(state: Row, i: int) -> float:
        total = 0.0
        for p in patterns:
            rest = dot(p, state) - p[i] * state[i]
            total += (rest + p[i]) ** degree - (rest - p[i]) ** degree
        return total

    return lambda: _recall(states, mode, field)


def python_modern_hopfield(P: np.ndarray, q: np.ndarray, beta: float) -> Call:
    patterns, columns, states = P.tolist(), P.T.tolist(), q.tolist()
    return lambda: attention(states, patterns, columns, beta)


# ---- probabilities ----
def _tail(ratio: float) -> float:
    """Give the probability of a normal number above √ratio, by the midpoint rule in Craig's integral."""
    total = 0.0
    for k in range(POINTS):
        total += math.exp(-ratio / (2 * math.sin(math.pi * (k + 0.5) / (2 * POINTS)) ** 2))
    return total / (2 * POINTS)


def python_flip_probability(n: np.ndarray, d: np.ndarray) -> Call:
    pairs = list(zip(n.tolist(), d.tolist(), strict=True))
    return lambda: [_tail(units / patterns) for patterns, units in pairs]


def _capacity(units: float, probability: float) -> float:
    low, high = 0.0, 200.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle) > probability else (low, middle)
    return units / middle


def python_capacity(d: np.ndarray, probability: np.ndarray) -> Call:
    pairs = list(zip(d.tolist(), probability.tolist(), strict=True))
    return lambda: [_capacity(*pair) for pair in pairs]


LOOPS: dict[str, Maker] = {
    **{f"hebbian.{rule}": python_learn(rule) for rule in ("hebb", "oja", "sanger", "subspace")},
    "hebbian.bcm": python_bcm,
    "hebbian.krotov": python_krotov,
    "hebbian.soft_hebb": python_soft_hebb,
    "hebbian.foldiak": python_foldiak,
    "hebbian.ccipca": python_ccipca,
    "hebbian.HebbianPCA": python_fit,
    "hebbian.HebbianPCA_partial_fit": python_partial_fit,
    "hebbian.HebbianPCA_transform": python_transform,
    "hebbian.HebbianPCA_inverse_transform": python_inverse_transform,
    "hebbian.HebbianPCA_fit_transform": python_fit_transform,
    "hebbian.hopfield_weights": python_hopfield_weights,
    "hebbian.hopfield_energy": python_hopfield_energy,
    "hebbian.hopfield_recall": python_hopfield_recall,
    "hebbian.crosstalk": python_crosstalk,
    "hebbian.dense_hopfield_energy": python_dense_hopfield_energy,
    "hebbian.dense_hopfield": python_dense_hopfield,
    "hebbian.modern_hopfield": python_modern_hopfield,
    "hebbian.flip_probability": python_flip_probability,
    "hebbian.capacity": python_capacity,
}
