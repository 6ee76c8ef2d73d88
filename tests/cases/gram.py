"""Gram matrices."""

from __future__ import annotations

import numpy as np

from cases import Case, wide

# Around the widths of vectors and the heights of tiles.
SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)

# Large enough to cross cache blocks, and prime or odd so that every edge is ragged: n, m, d.
LARGE = ((97, 131, 523), (513, 67, 33), (3, 1030, 257), (65, 33, 1030), (211, 197, 2053))


def linear_expected(X, Y=None):
    """Compute X Yᵀ with room to spare."""
    return wide(X) @ wide(X if Y is None else Y).T


def linear_tolerance(X, Y=None):
    """A sum of d products, taken in any order, is off by at most d eps times the sum of their sizes."""
    eps = float(np.finfo(X.dtype).eps)
    return X.shape[1] * eps * (np.abs(wide(X)) @ np.abs(wide(X if Y is None else Y)).T)


def _pair(n, m, d):
    def make(rng, dtype):
        return {"X": rng.standard_normal((n, d)).astype(dtype), "Y": rng.standard_normal((m, d)).astype(dtype)}

    return make


def _alone(n, d):
    def make(rng, dtype):
        return {"X": rng.standard_normal((n, d)).astype(dtype)}

    return make


def linear_case(n: int, m: int | None, d: int) -> Case:
    """Take X of shape (n, d), and Y of shape (m, d) unless m is None."""
    name = f"linear {n}x{d}" if m is None else f"linear {n}x{d}, {m}x{d}"
    # One triangle with its diagonal is all that has to be computed of a symmetric result.
    flops = float(n * (n + 1) * d) if m is None else 2.0 * n * m * d
    make = _alone(n, d) if m is None else _pair(n, m, d)
    return Case(name, "gram.linear", make, linear_expected, linear_tolerance, flops)


CASES = (
    linear_case(8, None, 8),
    *(linear_case(n, m, d) for n, m, d in LARGE),
    *(linear_case(n, None, d) for n, _, d in LARGE),
)

# ---- every kernel: parameters to try, samples it is defined for, an independent result, and the error allowed ----

PARAMETERS = {
    "linear": ({},),
    "polynomial": ({}, {"degree": 2, "gamma": 0.5, "coef0": -0.25}, {"degree": 1, "gamma": -1.5, "coef0": 0}),
    "sigmoid": ({}, {"gamma": 0.3, "coef0": -0.5}),
    "rbf": ({}, {"gamma": 0}, {"gamma": 2.5}),
    "laplacian": ({}, {"gamma": 0.7}),
    "cosine": ({},),
    "additive_chi2": ({},),
    "chi2": ({}, {"gamma": 0.25}),
    "matern": ({}, {"nu": 0.5, "length_scale": 2.0}, {"nu": 2.5, "length_scale": 0.5}, {"nu": float("inf")}),
    "geometric": ({}, {"alpha": 0.9}),
    "sinc": ({}, {"omega": 3.0}),
    "arc_cosine": ({"order": 0}, {}, {"order": 2}),
    "nngp": ({}, {"depth": 0, "b_std": 0.5}, {"depth": 3, "w_std": 1.4, "b_std": 0.3, "normalize": False}),
    "ntk": ({}, {"depth": 0, "b_std": 0.5}, {"depth": 3, "w_std": 1.4, "b_std": 0.3, "normalize": False}),
}
KERNEL_CASES = tuple((name, params) for name, tried in PARAMETERS.items() for params in tried)


def samples(name, rng, n, d, dtype):
    """Samples that a kernel is defined for."""
    if name in ("chi2", "additive_chi2"):
        return np.where(rng.random((n, d)) < 0.2, 0, rng.random((n, d))).astype(dtype)
    X = rng.standard_normal((n, d))
    if name == "geometric":
        X *= 0.95 / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return X.astype(dtype)


def _number(X, value):
    """A parameter in the precision of the samples, so that a root or a quotient of it is not rounded to float64."""
    return X.dtype.type(value)


def _angle(xx, yy, xy):
    s = np.sqrt(np.maximum(0, xx * yy - xy * xy))
    theta = np.arctan2(s, xy)
    return s, np.where((s == 0) & (xy == 0), np.pi / 2, theta)


def _layers(X, Y, depth=1, w_std=1.0, b_std=0.0, normalize=True):
    """S, Θ, the angles, and the largest √(S(x,x) S(y,y)) on the way."""
    d = max(1, X.shape[1]) if normalize else 1
    w, b = _number(X, w_std) ** 2, _number(X, b_std) ** 2
    pi = 4 * np.arctan(_number(X, 1))
    xx, yy, xy = (X * X).sum(1)[:, None] / d, (Y * Y).sum(1)[None, :] / d, X @ Y.T / d
    xx, yy, xy = w * xx + b, w * yy + b, w * xy + b
    tangent, angles, size = xy, [], np.sqrt(xx * yy)
    for _ in range(depth):
        s, theta = _angle(xx, yy, xy)
        share = (pi - theta) / (2 * pi)
        tangent = tangent * share
        xx, yy, xy = w * xx / 2 + b, w * yy / 2 + b, w * (s / (2 * pi) + share * xy) + b
        tangent = xy + w * tangent
        angles.append(theta)
        size = np.maximum(size, np.sqrt(xx * yy))
    return xy, tangent, angles, size


def kernel_expected(name, X, Y=None, **params):
    """The formula in more precision, from the differences of the samples where they count."""
    X, Y = wide(X), wide(X if Y is None else Y)
    d = X.shape[1]
    pi = 4 * np.arctan(_number(X, 1))
    gamma = params.get("gamma")
    gamma = _number(X, 1) / max(1, d) if gamma is None else _number(X, gamma)
    dot = X @ Y.T
    if name == "linear":
        return dot
    if name == "polynomial":
        return (gamma * dot + _number(X, params.get("coef0", 1))) ** params.get("degree", 3)
    if name == "sigmoid":
        return np.tanh(gamma * dot + _number(X, params.get("coef0", 1)))
    if name == "geometric":
        return 1 / (1 - _number(X, params.get("alpha", 0.5)) ** 2 * dot)
    if name in ("nngp", "ntk"):
        return _layers(X, Y, **params)[0 if name == "nngp" else 1]
    xx, yy = (X * X).sum(1)[:, None], (Y * Y).sum(1)[None, :]
    if name == "cosine":
        norms = np.sqrt(xx * yy)
        return np.where(norms == 0, 0, dot / np.where(norms == 0, 1, norms))
    if name == "arc_cosine":
        s, theta = _angle(xx, yy, dot)
        order = params.get("order", 1)
        if order == 0:
            return (pi - theta) / pi
        if order == 1:
            return (s + (pi - theta) * dot) / pi
        return (3 * s * dot + (pi - theta) * (xx * yy + 2 * dot * dot)) / pi
    difference, total = X[:, None] - Y[None], X[:, None] + Y[None]
    if name == "rbf":
        return np.exp(-gamma * (difference**2).sum(-1))
    if name == "laplacian":
        return np.exp(-gamma * np.abs(difference).sum(-1))
    if name in ("chi2", "additive_chi2"):
        distance = np.where(total == 0, 0, difference**2 / np.where(total == 0, 1, total)).sum(-1)
        return -distance if name == "additive_chi2" else np.exp(-_number(X, params.get("gamma", 1)) * distance)
    if name == "sinc":
        omega = _number(X, params.get("omega", 1))
        safe = np.where(difference == 0, 1, difference)
        return np.where(difference == 0, omega / pi, np.sin(omega * safe) / (pi * safe)).prod(-1)
    assert name == "matern"
    r = np.sqrt(((difference / np.asarray(params.get("length_scale", 1), X.dtype)) ** 2).sum(-1))
    nu = params.get("nu", 1.5)
    if nu == 0.5:
        return np.exp(-r)
    if nu == 1.5:
        t = np.sqrt(_number(X, 3)) * r
        return (1 + t) * np.exp(-t)
    if nu == 2.5:
        t = np.sqrt(_number(X, 5)) * r
        return (1 + t + 5 * r * r / 3) * np.exp(-t)
    return np.exp(-r * r / 2)


def distance_error(dtype, d):
    """The relative error allowed in squared distances; float64 has digits to spare for the compiled shortcut too."""
    return 1e-5 if dtype == np.float32 else max((d + 8) * 2.3e-16, 1e-12)


def kernel_tolerance(name, X, Y=None, **params):
    """How far a kernel may be off: the error of its sums, times what the rest of the formula makes of it."""
    dtype = X.dtype
    eps = float(np.finfo(dtype).eps)
    K = np.abs(kernel_expected(name, X, Y, **params)).astype(np.float64)
    x, y = X.astype(np.float64), (X if Y is None else Y).astype(np.float64)
    d = x.shape[1]
    gamma = params.get("gamma")
    gamma = 1 / max(1, d) if gamma is None else float(gamma)
    dot, dot_error = x @ y.T, (d + 2) * eps * (np.abs(x) @ np.abs(y).T)
    size = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)[None, :]
    if name == "linear":
        return dot_error
    if name in ("polynomial", "sigmoid"):
        coef0 = params.get("coef0", 1)
        base_error = abs(gamma) * dot_error + 2 * eps * (np.abs(gamma * dot) + abs(coef0))
        if name == "sigmoid":
            return base_error + 8 * eps
        degree = params.get("degree", 3)
        steep = degree * (np.abs(gamma * dot + coef0) + base_error) ** (degree - 1)
        return 2 * steep * base_error + (degree + 4) * eps * K
    if name == "geometric":
        return 2 * K * K * (params.get("alpha", 0.5) ** 2 * dot_error + 4 * eps) + 4 * eps * K
    if name == "cosine":
        return np.full(K.shape, (2 * d + 10) * eps)
    if name in ("rbf", "laplacian", "chi2", "additive_chi2"):
        relative = distance_error(dtype, d) if name == "rbf" else (d + 6) * eps
        if name == "additive_chi2":
            return relative * K
        exponent = -np.log(np.maximum(K, 1e-300))
        # A float32 below its normal numbers has an absolute error only.
        return 2 * K * (exponent * relative + 6 * eps) + float(np.finfo(dtype).smallest_normal) * eps
    if name == "matern":
        # |r dK/dr| is below 3/4 in all closed forms.
        return np.full(K.shape, 0.75 * distance_error(dtype, d) + 8 * eps)
    if name == "sinc":
        return np.full(K.shape, (8 * d + 4) * eps * max(1, params.get("omega", 1) / np.pi) ** d)

    def angle_error(theta, rounds):
        """s is a difference of products: its error is large where the angle is small, but its square's is not."""
        steps = rounds * eps
        return 2 * np.minimum(steps / np.maximum(np.sin(theta.astype(np.float64)), 1e-30), np.sqrt(steps)) + 4 * eps

    if name == "arc_cosine":
        order = params.get("order", 1)
        if order == 0:
            theta = (np.pi * (1 - kernel_expected(name, X, Y, **params))).astype(np.float64)
            return angle_error(theta, 2 * d + 8) / np.pi + 4 * eps
        return (2 * d + 16) * eps * size if order == 1 else (4 * d + 32) * eps * size**2
    _, _, angles, largest = _layers(wide(X), wide(X if Y is None else Y), **params)
    rounds = (len(angles) + 1) * (2 * d + 24)
    # The weights tried multiply an error by at most 1.4² / 2 < 1 in a layer.
    allowed = rounds * eps * largest.astype(np.float64)
    if name == "ntk":
        weight = params.get("w_std", 1.0) ** 2 / (2 * np.pi)
        # Θ never exceeds the number of layers times the largest S, on the way.
        reach = (len(angles) + 1) * largest.astype(np.float64)
        allowed = (len(angles) + 1) * allowed + sum(weight * reach * angle_error(theta, rounds) for theta in angles)
    return allowed
