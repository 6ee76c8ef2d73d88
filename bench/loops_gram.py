"""The functions of fastdl.gram as loops over lists of floats: what the formulas cost without any library.

A maker turns the inputs into lists beforehand; its call uses nothing but those and the math module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], Any]
Maker = Callable[..., Call]
Row = list[float]
Pair = Callable[..., float]


# ---- kernels of two rows ----
def dot(x: Row, y: Row) -> float:
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += a * b
    return total


def _squared_distance(x: Row, y: Row) -> float:
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += (a - b) ** 2
    return total


def _gamma(x: Row, gamma: float | None) -> float:
    return 1 / len(x) if gamma is None else gamma


def polynomial(x: Row, y: Row, degree: float = 3, gamma: float | None = None, coef0: float = 1.0) -> float:
    return (_gamma(x, gamma) * dot(x, y) + coef0) ** degree


def sigmoid(x: Row, y: Row, gamma: float | None = None, coef0: float = 1.0) -> float:
    return math.tanh(_gamma(x, gamma) * dot(x, y) + coef0)


def rbf(x: Row, y: Row, gamma: float | None = None) -> float:
    return math.exp(-_gamma(x, gamma) * _squared_distance(x, y))


def laplacian(x: Row, y: Row, gamma: float | None = None) -> float:
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += abs(a - b)
    return math.exp(-_gamma(x, gamma) * total)


def cosine(x: Row, y: Row) -> float:
    lengths = math.sqrt(dot(x, x) * dot(y, y))
    return dot(x, y) / lengths if lengths else 0.0


def additive_chi2(x: Row, y: Row) -> float:
    total = 0.0
    for a, b in zip(x, y, strict=True):
        if a + b:
            total -= (a - b) ** 2 / (a + b)
    return total


def chi2(x: Row, y: Row, gamma: float = 1.0) -> float:
    return math.exp(gamma * additive_chi2(x, y))


def matern(x: Row, y: Row, length_scale: float = 1.0, nu: float = 1.5) -> float:
    squared = _squared_distance(x, y) / length_scale**2
    if nu == math.inf:
        return math.exp(-squared / 2)
    s = math.sqrt(2 * nu * squared)
    return {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s * s / 3}[nu] * math.exp(-s)


def geometric(x: Row, y: Row, alpha: float = 0.5) -> float:
    return 1 / (1 - alpha**2 * dot(x, y))


def sinc(x: Row, y: Row, omega: float = 1.0) -> float:
    product = 1.0
    for a, b in zip(x, y, strict=True):
        product *= math.sin(omega * (a - b)) / (math.pi * (a - b)) if a != b else omega / math.pi
    return product


def _angle(product: float, left: float, right: float) -> tuple[float, float]:
    """Give the angle of two vectors from their product and squared lengths, and its sine times their lengths."""
    s = math.sqrt(max(0.0, left * right - product**2))
    return (math.atan2(s, product) if s or product else math.pi / 2), s


def arc_cosine(x: Row, y: Row, order: int = 1) -> float:
    left, right = dot(x, x), dot(y, y)
    theta, _ = _angle(dot(x, y), left, right)
    sine, cos = math.sin(theta), math.cos(theta)
    values = (
        math.pi - theta,
        sine + (math.pi - theta) * cos,
        3 * sine * cos + (math.pi - theta) * (1 + 2 * cos**2),
    )
    return math.sqrt(left * right) ** order * values[order] / math.pi


def _relu_layers(x: Row, y: Row, depth: int, w_std: float, b_std: float) -> tuple[float, float]:
    w, b, d = w_std**2, b_std**2, len(x)
    left, right, S = (w * value / d + b for value in (dot(x, x), dot(y, y), dot(x, y)))
    T = S
    for _ in range(depth):
        theta, s = _angle(S, left, right)
        slope = (1 - theta / math.pi) / 2
        S = w * (s / (2 * math.pi) + slope * S) + b
        T = S + w * slope * T
        left, right = w * left / 2 + b, w * right / 2 + b
    return S, T


def nngp(x: Row, y: Row, depth: int = 1, w_std: float = 1.0, b_std: float = 0.0) -> float:
    return _relu_layers(x, y, depth, w_std, b_std)[0]


def ntk(x: Row, y: Row, depth: int = 1, w_std: float = 1.0, b_std: float = 0.0) -> float:
    return _relu_layers(x, y, depth, w_std, b_std)[1]


PAIRS: dict[str, Pair] = {
    "linear": dot,
    "polynomial": polynomial,
    "sigmoid": sigmoid,
    "rbf": rbf,
    "laplacian": laplacian,
    "cosine": cosine,
    "additive_chi2": additive_chi2,
    "chi2": chi2,
    "matern": matern,
    "geometric": geometric,
    "sinc": sinc,
    "arc_cosine": arc_cosine,
    "nngp": nngp,
    "ntk": ntk,
}


# ---- functions on kernels ----
def python_gram(X: np.ndarray, Y: np.ndarray | None = None, kernel: str = "rbf", **parameters: Any) -> Call:
    rows, pair = X.tolist(), PAIRS[kernel]
    others = rows if Y is None else Y.tolist()

    def gram() -> list[Row]:
        result = []
        for x in rows:
            values = []
            for y in others:
                values.append(pair(x, y, **parameters))
            result.append(values)
        return result

    return gram


def _kernel(name: str) -> Maker:
    def make(X: np.ndarray, Y: np.ndarray | None = None, **parameters: Any) -> Call:
        return python_gram(X, Y, name, **parameters)

    return make


python_linear = _kernel("linear")


def python_diag(X: np.ndarray, kernel: str, **parameters: Any) -> Call:
    rows, pair = X.tolist(), PAIRS[kernel]
    return lambda: [pair(x, x, **parameters) for x in rows]


def python_distance(X: np.ndarray, Y: np.ndarray) -> Call:
    rows, others = X.tolist(), Y.tolist()
    return lambda: [[max(0.0, rbf(x, x) + rbf(y, y) - 2 * rbf(x, y)) for y in others] for x in rows]


def python_invariant(X: np.ndarray, Y: np.ndarray, permutations: np.ndarray) -> Call:
    """Sum over the group once, which is enough for a kernel that it leaves alone."""
    rows, others, orders = X.tolist(), Y.tolist(), permutations.tolist()

    def invariant() -> list[Row]:
        result = []
        for x in rows:
            values = []
            for y in others:
                total = 0.0
                for order in orders:
                    total += rbf(x, [y[place] for place in order])
                values.append(len(orders) * total)
            result.append(values)
        return result

    return invariant


def python_matvec(X: np.ndarray, v: np.ndarray) -> Call:
    rows, vectors = X.tolist(), v.T.tolist()

    def matvec() -> list[Row]:
        result = []
        for x in rows:
            row = [rbf(x, y) for y in rows]
            result.append([dot(row, vector) for vector in vectors])
        return result

    return matvec


def _rbf_vjp(rows: list[Row], others: list[Row], grad: list[Row]) -> tuple[list[Row], list[Row], float]:
    """Give the gradients of Σ grad ∘ K for X, Y and gamma."""
    d = len(rows[0])
    gamma = 1 / d
    for_X, for_Y, for_gamma = [[0.0] * d for _ in rows], [[0.0] * d for _ in others], 0.0
    for x, weights, change_x in zip(rows, grad, for_X, strict=True):
        for y, weight, change_y in zip(others, weights, for_Y, strict=True):
            squared = _squared_distance(x, y)
            weighted = weight * math.exp(-gamma * squared)
            for_gamma -= weighted * squared
            for f in range(d):
                slope = 2 * gamma * weighted * (x[f] - y[f])
                change_x[f] -= slope
                change_y[f] += slope
    return for_X, for_Y, for_gamma


def python_gram_vjp(X: np.ndarray, grad: np.ndarray, Y: np.ndarray) -> Call:
    rows, others, weights = X.tolist(), Y.tolist(), grad.tolist()
    return lambda: _rbf_vjp(rows, others, weights)


def python_matvec_vjp(X: np.ndarray, v: np.ndarray, grad: np.ndarray, Y: np.ndarray) -> Call:
    rows, others, vector, weights = X.tolist(), Y.tolist(), v.tolist(), grad.tolist()

    def matvec_vjp() -> tuple:
        for_X, for_Y, for_gamma = _rbf_vjp(rows, others, [[g * value for value in vector] for g in weights])
        for_v = [dot([rbf(x, y) for x in rows], weights) for y in others]
        return for_X, for_Y, for_v, for_gamma

    return matvec_vjp


def attention(queries: list[Row], keys: list[Row], columns: list[Row], scale: float) -> list[Row]:
    """Give averages of the values, whose columns are given, by weights that are exponentials of products."""
    result = []
    for q in queries:
        logits = [scale * dot(q, k) for k in keys]
        largest = max(logits)
        weights = [math.exp(logit - largest) for logit in logits]
        total = sum(weights)
        result.append([dot(weights, column) / total for column in columns])
    return result


def python_softmax_matvec(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> Call:
    queries, keys, columns, scale = Q.tolist(), K.tolist(), V.T.tolist(), 1 / math.sqrt(Q.shape[1])
    return lambda: attention(queries, keys, columns, scale)


# ---- convolutional networks: an entry for every pair of places in two images ----
def _boxes(A: dict, side: int) -> dict:
    """Average over the nine places of a filter, the same for all of the indices, zero outside."""
    result = {}
    for places in A:
        total = 0.0
        for a in (-1, 0, 1):
            for b in (-1, 0, 1):
                shifted = tuple(place + (b if index % 2 else a) for index, place in enumerate(places))
                total += A.get(shifted, 0.0)
        result[places] = total / 9
    return result


def python_cntk(X: np.ndarray, depth: int) -> Call:
    images, side = X.tolist(), X.shape[-1]
    places = [(i, j) for i in range(side) for j in range(side)]

    def lengths(x: list) -> list[dict]:
        layers = [{(i, j): sum(plane[i][j] ** 2 for plane in x) for i, j in places}]
        for _ in range(depth):
            layers.append(_boxes(layers[-1], side))
        return layers

    def entry(x: list, y: list) -> float:
        left, right = lengths(x), lengths(y)
        S = {
            (*p, *q): sum(one[p[0]][p[1]] * two[q[0]][q[1]] for one, two in zip(x, y, strict=True))
            for p in places
            for q in places
        }
        T = S
        for layer in range(1, depth + 1):
            S, T = _boxes(S, side), _boxes(T, side)
            for at, product in S.items():
                theta, s = _angle(product, left[layer][at[:2]], right[layer][at[2:]])
                S[at] = s / math.pi + (1 - theta / math.pi) * product
                T[at] = (1 - theta / math.pi) * T[at] + S[at]
        return sum(T.values()) / len(T)

    return lambda: [[entry(x, y) for y in images] for x in images]


# ---- functions on Gram matrices ----
def _centred(K: list[Row]) -> list[Row]:
    n = len(K)
    rows = [sum(row) / n for row in K]
    columns = [sum(column) / n for column in zip(*K, strict=True)]
    mean = sum(rows) / n
    return [[value - rows[i] - columns[j] + mean for j, value in enumerate(row)] for i, row in enumerate(K)]


def _hsic(K: list[Row], L: list[Row], unbiased: bool) -> float:
    n = len(K)
    if not unbiased:
        return sum(dot(k, other) for k, other in zip(_centred(K), L, strict=True)) / (n - 1) ** 2
    K, L = ([[0.0 if i == j else value for j, value in enumerate(row)] for i, row in enumerate(G)] for G in (K, L))
    rows, others = ([sum(row) for row in G] for G in (K, L))
    total = sum(dot(k, other) for k, other in zip(K, L, strict=True))
    total += sum(rows) * sum(others) / ((n - 1) * (n - 2)) - 2 * dot(rows, others) / (n - 2)
    return total / (n * (n - 3))


def python_center(K: np.ndarray) -> Call:
    rows = K.tolist()
    return lambda: _centred(rows)


def python_hsic(K: np.ndarray, L: np.ndarray, unbiased: bool = True) -> Call:
    first, second = K.tolist(), L.tolist()
    return lambda: _hsic(first, second, unbiased)


def python_cka(K: np.ndarray, L: np.ndarray) -> Call:
    first, second = K.tolist(), L.tolist()

    def cka() -> float:
        lengths = _hsic(first, first, False) * _hsic(second, second, False)
        return _hsic(first, second, False) / math.sqrt(lengths)

    return cka


def python_feature_gram(x: np.ndarray, center: bool = False) -> Call:
    samples = x.reshape(*x.shape[:2], -1).tolist()

    def feature_gram() -> list[list[Row]]:
        result = []
        for maps in samples:
            if center:
                maps = [[value - sum(row) / len(row) for value in row] for row in maps]
            result.append([[dot(one, two) / len(one) for two in maps] for one in maps])
        return result

    return feature_gram


def python_empirical_ntk(J1: np.ndarray) -> Call:
    return python_linear(J1)


LOOPS: dict[str, Maker] = {
    **{f"gram.{name}": _kernel(name) for name in PAIRS},
    "gram.gram": python_gram,
    "gram.diag": python_diag,
    "gram.distance": python_distance,
    "gram.invariant": python_invariant,
    "gram.matvec": python_matvec,
    "gram.gram_vjp": python_gram_vjp,
    "gram.matvec_vjp": python_matvec_vjp,
    "gram.softmax_matvec": python_softmax_matvec,
    "gram.cntk": python_cntk,
    "gram.center": python_center,
    "gram.hsic": python_hsic,
    "gram.cka": python_cka,
    "gram.feature_gram": python_feature_gram,
    "gram.empirical_ntk": python_empirical_ntk,
}
