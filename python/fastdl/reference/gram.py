"""Gram matrices, by their formulas."""

from __future__ import annotations

import math
from typing import Any

from array_api_compat import array_namespace, device

from fastdl.reference.gram_gradients import gram_vjp, matvec_vjp
from fastdl.reference.gram_networks import arc_cosine, cntk, nngp, ntk
from fastdl.reference.gram_operators import diag, distance, invariant, matvec, softmax_matvec
from fastdl.reference.gram_statistics import center, cka, empirical_ntk, feature_gram, hsic
from fastdl.reference.pairs import by_rows, divide, finish, symmetric, wide

__all__ = [
    "additive_chi2",
    "arc_cosine",
    "center",
    "chi2",
    "cka",
    "cntk",
    "cosine",
    "diag",
    "distance",
    "empirical_ntk",
    "feature_gram",
    "geometric",
    "gram_vjp",
    "hsic",
    "invariant",
    "laplacian",
    "linear",
    "matern",
    "matvec",
    "matvec_vjp",
    "nngp",
    "ntk",
    "polynomial",
    "rbf",
    "sigmoid",
    "sinc",
    "softmax_matvec",
]


def linear(X: Any, Y: Any | None = None) -> Any:
    """Inner products of all pairs of rows: K = X Yᵀ."""
    return symmetric(X @ X.T) if Y is None else X @ Y.T


def _products(X: Any, Y: Any | None) -> Any:
    return wide(X) @ wide(X if Y is None else Y).T


def polynomial(X: Any, Y: Any | None, degree: float, gamma: float, coef0: float) -> Any:
    """(γ x·y + coef0)^degree."""
    return finish((gamma * _products(X, Y) + coef0) ** degree, X, Y)


def sigmoid(X: Any, Y: Any | None, gamma: float, coef0: float) -> Any:
    """tanh(γ x·y + coef0)."""
    return finish(array_namespace(X).tanh(gamma * _products(X, Y) + coef0), X, Y)


def geometric(X: Any, Y: Any | None, alpha: float) -> Any:
    """1/(1 − α² x·y)."""
    return finish(1 / (1 - alpha**2 * _products(X, Y)), X, Y)


def cosine(X: Any, Y: Any | None) -> Any:
    """x·y/(‖x‖‖y‖), and 0 for a row of zeros."""
    return finish(unit(X) @ unit(X if Y is None else Y).T, X, Y)


def unit(X: Any) -> Any:
    """Divide the rows by their norms, in float64; rows of zeros stay."""
    xp = array_namespace(X)
    X = wide(X)
    if X.shape[1]:
        # Twice, because the squares of the largest and smallest numbers do not fit.
        X = divide(X, xp.broadcast_to(xp.max(xp.abs(X), axis=1, keepdims=True), X.shape))
        X = divide(X, xp.broadcast_to(xp.sqrt(xp.sum(X * X, axis=1, keepdims=True)), X.shape))
    return X


def rbf(X: Any, Y: Any | None, gamma: float) -> Any:
    """exp(−γ‖x−y‖²), from the differences themselves; 1 for γ = 0, also where their squares are infinite."""
    xp = array_namespace(X)

    def formula(x: Any, y: Any) -> Any:
        square = xp.sum((x - y) ** 2, axis=-1)
        return xp.exp(-gamma * square) if gamma else xp.where(xp.isnan(square), square, xp.ones_like(square))

    return by_rows(X, Y, formula)


def laplacian(X: Any, Y: Any | None, gamma: float) -> Any:
    """exp(−γ‖x−y‖₁)."""
    xp = array_namespace(X)
    return by_rows(X, Y, lambda x, y: xp.exp(-gamma * xp.sum(xp.abs(x - y), axis=-1)))


def _chi2_distance(x: Any, y: Any) -> Any:
    """Σ (x−y)²/(x+y) with 0/0 = 0; the quotient first, because the square of a small difference is 0.

    Of halves, because the sum of large numbers is infinite.
    """
    return array_namespace(x).sum((x - y) * divide(x / 2 - y / 2, x / 2 + y / 2), axis=-1)


def additive_chi2(X: Any, Y: Any | None) -> Any:
    """−Σ (x−y)²/(x+y)."""
    return by_rows(X, Y, lambda x, y: 0 - _chi2_distance(x, y))


def chi2(X: Any, Y: Any | None, gamma: float) -> Any:
    """exp(−γ Σ (x−y)²/(x+y))."""
    return by_rows(X, Y, lambda x, y: array_namespace(x).exp(-gamma * _chi2_distance(x, y)))


def matern(X: Any, Y: Any | None, length_scale: Any, nu: float) -> Any:
    """Matérn kernel of smoothness ν at r = ‖(x−y)/ℓ‖."""
    xp = array_namespace(X)
    scale = length_scale
    if not isinstance(scale, float):
        scale = xp.asarray([float(value) for value in scale], dtype=xp.float64, device=device(X))

    def formula(x: Any, y: Any) -> Any:
        return matern_of_distance(xp.sqrt(xp.sum(((x - y) / scale) ** 2, axis=-1)), nu)

    return by_rows(X, Y, formula)


def matern_of_distance(r: Any, nu: float) -> Any:
    """Matérn kernel as a function of the scaled distance."""
    xp = array_namespace(r)
    if nu == math.inf:
        return xp.exp(-0.5 * r * r)
    if nu == 0.5:
        return xp.exp(-r)
    if nu in (1.5, 2.5):
        t = math.sqrt(2 * nu) * r
        decay = xp.exp(-t)
        # Where the exponential is 0 the polynomial may be infinite, and the product is 0.
        return xp.where(decay == 0, decay, (1 + t if nu == 1.5 else 1 + t + t * t / 3) * decay)
    return _bessel_matern(r, nu)


def _bessel_matern(r: Any, nu: float) -> Any:
    """2^(1−ν)/Γ(ν) t^ν K_ν(t), t = √(2ν) r, through NumPy: only SciPy has the Bessel function."""
    import numpy as np

    try:
        from scipy.special import gammaln, kve
    except ImportError as error:
        raise ImportError(f"[gram.matern] expected nu of 0.5, 1.5, 2.5 or inf without SciPy, got {nu}") from error

    xp = array_namespace(r)
    t: Any = np.from_dlpack(r)
    t = math.sqrt(2 * nu) * t
    with np.errstate(all="ignore"):
        # Logarithms, because t^ν and Γ(ν) leave the range of float64 long before their quotient does.
        log = (1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(t) + np.log(kve(nu, t)) - t
        value = np.exp(log)
        # K_ν itself overflows near 0, where the first terms of its series are all there is.
        series, term = np.ones_like(t), np.ones_like(t)
        for k in range(1, 30):
            term = term * (t * t / 4) / (k * (k - nu)) if k != nu else np.zeros_like(t)
            series += term
        value = np.where(np.isinf(kve(nu, t)) & (t > 0), series, value)
    value = np.where(t == 0, 1.0, np.where(np.isinf(t), 0.0, value))
    return xp.asarray(value, device=device(r))


def sinc(X: Any, Y: Any | None, omega: float) -> Any:
    """Π sin(Ω(x−y))/(π(x−y)), Ω/π where x = y."""
    xp = array_namespace(X)

    def formula(x: Any, y: Any) -> Any:
        difference = x - y
        same = difference == 0
        difference = xp.where(same, xp.ones_like(difference), difference)
        factor = xp.sin(omega * difference) / (math.pi * difference)
        return xp.prod(xp.where(same, xp.full_like(factor, omega / math.pi), factor), axis=-1)

    return by_rows(X, Y, formula)
