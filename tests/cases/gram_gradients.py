"""How far the gradients of kernels may be off."""

from __future__ import annotations

import numpy as np

from cases.gram import _layers, distance_error


def slope_sizes(name, X, Y, **params):
    """Bound the length of dk/dx and the size of dk/dγ for every pair, each with what the formula makes of an error.

    An error of size e in the sums that a kernel is made of, relative to their terms, is at most e times this in the
    derivatives. The second is None for a kernel without γ.
    """
    x, y = np.linalg.norm(X, axis=1)[:, None], np.linalg.norm(Y, axis=1)[None, :]
    d = X.shape[1]
    gamma = params.get("gamma")
    gamma = (1.0 if name == "chi2" else 1 / max(1, d)) if gamma is None else gamma
    if name == "linear":
        return 0 * x + y, None
    if name in ("polynomial", "sigmoid"):
        size, degree = abs(gamma) * x * y + abs(params.get("coef0", 1)), params.get("degree", 3)
        # The slope of a tanh is at most 1, and so is the slope of that.
        steep = degree**2 * size ** (degree - 1) if name == "polynomial" else 1 + size
        return abs(gamma) * steep * y, steep * x * y
    if name == "geometric":
        square = params.get("alpha", 0.5) ** 2
        K = 1 / (1 - square * (X @ Y.T))
        return square * y * K**2 * (1 + 2 * K * square * x * y), None
    difference = X[:, None] - Y[None]
    least = float(np.finfo(np.float32).smallest_normal)  # below which the error of a float32 is absolute
    if name in ("rbf", "laplacian", "chi2", "additive_chi2"):
        if name == "rbf":
            exponent = (difference**2).sum(-1)
            slope = 2 * np.sqrt(exponent)
        elif name == "laplacian":
            exponent, slope = np.abs(difference).sum(-1), np.sqrt(d)
        else:
            total = X[:, None] + Y[None]
            exponent = (difference**2 / np.where(total == 0, 1, total)).sum(-1)
            slope = 3 * np.sqrt(d)  # t (t - 2) for t from -1 to 1
        if name == "additive_chi2":
            return slope + 0 * exponent, None
        K = np.exp(-gamma * exponent) * (2 + gamma * exponent) + least
        return gamma * K * slope, K * exponent
    if name == "matern":
        scale, nu = params.get("length_scale", 1.0), params.get("nu", 1.5)
        r = np.linalg.norm(difference, axis=-1) / scale
        if nu == np.inf:
            return r / scale * np.exp(-(r**2) / 2) * (2 + r**2), None
        t = np.sqrt(2 * nu) * r
        steep = {0.5: 1, 1.5: 3 * r, 2.5: 5 / 3 * r * (1 + t)}[nu]
        return steep / scale * np.exp(-t) * (2 + t), None
    if name == "sinc":
        omega = params.get("omega", 1)
        return np.full((len(X), len(Y)), 8 * np.sqrt(d) * omega**2 / np.pi * (omega / np.pi) ** (d - 1)), None
    # A derivative by the angle is one by the cosine over the sine, so that terms cancel by as much.
    layers = params if name in ("nngp", "ntk") else {}
    angles = _layers(X, Y, **layers)[2]
    sine = np.min([np.sin(angle) for angle in angles], axis=0) if angles else np.ones((len(X), len(Y)))
    if X is Y:
        np.fill_diagonal(sine, 1)  # where the derivative is taken as 0
    if name == "cosine":
        return 2 / x + 0 * sine, None
    if name == "arc_cosine":
        return (1 / (x * sine), 2 * (y + 0 * x), 8 * x * y**2)[params.get("order", 1)], None
    depth, w = params.get("depth", 1), params.get("w_std", 1.0) ** 2
    factor = w * (w / 2) ** depth / (d if params.get("normalize", True) else 1)
    if name == "nngp":
        return factor * (depth + 1) * (x + y), None
    return factor * (depth + 1) ** 2 * (x + y) / sine, None


def gradient_tolerance(name, X, v, grad, Y=None, **params):
    """How far the gradients for X, Y and γ may be off: one bound a row, and a number."""
    other = X if Y is None else Y
    error = (sum(X.shape) + other.shape[0] + v.shape[1] + 16) * float(np.finfo(X.dtype).eps)
    if name in ("rbf", "matern", "arc_cosine", "nngp", "ntk"):  # of distances, or of angles, which are known as well
        error += distance_error(X.dtype, X.shape[1])
    X = X.astype(np.float64)
    other = X if Y is None else Y.astype(np.float64)
    weight = error * np.abs(grad.astype(np.float64)) @ np.abs(v.astype(np.float64)).T
    rows, by_gamma = slope_sizes(name, X, other, **params)
    columns = slope_sizes(name, other, X, **params)[0].T
    for_X, for_Y = np.sum(weight * rows, axis=1), np.sum(weight * columns, axis=0)
    for_gamma = None if by_gamma is None else np.sum(weight * by_gamma)
    return (for_X + for_Y if Y is None else for_X), for_Y, for_gamma
