"""The formulas of fastdl.gram once more, in plain NumPy and by other ways than the library's, and their error bounds.

A formula computes in the precision of its arguments: the benchmarks and the accuracy tables give it wider ones than the
library had. A bound is of the error of each element of a result computed in `eps`, by anyone's reasonable algorithm
(the rivals' |x|² + |y|² - 2xy included), from norms of the inputs alone: in the conditioning, not in what was computed.
"""

from __future__ import annotations

import math

import numpy as np

# Differences of all pairs are taken in blocks of this many numbers.
BLOCK = 1 << 22


# ---- pieces ----
def _by_rows(X, Y, reduce):
    """Apply `reduce` to blocks x (b, 1, d) and Y (1, m, d), so that all differences need not fit in memory."""
    result = np.empty((X.shape[0], Y.shape[0]), X.dtype)
    step = max(1, BLOCK // max(1, Y.size))
    for begin in range(0, X.shape[0], step):
        rows = slice(begin, begin + step)
        result[rows] = reduce(X[rows, None, :], Y[None, :, :])
    return result


def squared_distances(X, Y):
    """‖x - y‖² by the differences themselves."""
    return _by_rows(X, Y, lambda x, y: np.sum(np.square(x - y), axis=-1))


def _lengths(X):
    return np.sqrt(np.sum(np.square(X), axis=-1))


def _default(gamma, X):
    return 1.0 / max(1, X.shape[-1]) if gamma is None else gamma


def _other(X, Y):
    return X if Y is None else Y


# ---- kernels: K of shape (n, m) ----
def linear(X, Y=None):
    return X @ _other(X, Y).T


def polynomial(X, Y=None, degree=3, gamma=None, coef0=1.0):
    return (_default(gamma, X) * linear(X, Y) + coef0) ** degree


def sigmoid(X, Y=None, gamma=None, coef0=1.0):
    return np.tanh(_default(gamma, X) * linear(X, Y) + coef0)


def rbf(X, Y=None, gamma=None):
    return np.exp(-_default(gamma, X) * squared_distances(X, _other(X, Y)))


def laplacian(X, Y=None, gamma=None):
    total = _by_rows(X, _other(X, Y), lambda x, y: np.sum(np.abs(x - y), axis=-1))
    return np.exp(-_default(gamma, X) * total)


def cosine(X, Y=None):
    Y = _other(X, Y)
    lengths = np.multiply.outer(_lengths(X), _lengths(Y))
    return linear(X, Y) / np.where(lengths == 0, 1, lengths)


def additive_chi2(X, Y=None):
    def reduce(x, y):
        total = x + y
        return -np.sum(np.square(x - y) / np.where(total == 0, 1, total), axis=-1)

    return _by_rows(X, _other(X, Y), reduce)


def chi2(X, Y=None, gamma=1.0):
    return np.exp(gamma * additive_chi2(X, Y))


def matern(X, Y=None, length_scale=1.0, nu=1.5):
    # In the wide type: a length scale of float32 inputs must not be rounded to float32.
    scale = np.asarray(length_scale, dtype=X.dtype)
    squared = squared_distances(X / scale, _other(X, Y) / scale)
    if nu == math.inf:
        return np.exp(-squared / 2)
    r = np.sqrt(squared)
    if nu == 0.5:
        return np.exp(-r)
    if nu == 1.5:
        s = np.sqrt(X.dtype.type(3)) * r
        return (1 + s) * np.exp(-s)
    if nu == 2.5:
        s = np.sqrt(X.dtype.type(5)) * r
        return (1 + s + s * s / 3) * np.exp(-s)
    raise ValueError(f"expected nu of 0.5, 1.5, 2.5 or inf, got {nu}")


def geometric(X, Y=None, alpha=0.5):
    return 1 / (1 - X.dtype.type(alpha) ** 2 * linear(X, Y))


def sinc(X, Y=None, omega=1.0):
    pi = np.arccos(X.dtype.type(-1))

    def reduce(x, y):
        difference = x - y
        safe = np.where(difference == 0, 1, difference)
        return np.prod(np.where(difference == 0, omega / pi, np.sin(omega * safe) / (pi * safe)), axis=-1)

    return _by_rows(X, _other(X, Y), reduce)


def angles(X, Y):
    """Angles of all pairs as 2 atan(|x̂ - ŷ| / |x̂ + ŷ|), which keeps its accuracy for parallel vectors; 0 rows: π/2."""
    unit = [rows / np.where(_lengths(rows) == 0, 1, _lengths(rows))[:, None] for rows in (X, Y)]
    apart = np.sqrt(squared_distances(*unit))
    together = np.sqrt(squared_distances(unit[0], -unit[1]))
    return np.where(apart + together == 0, np.arccos(X.dtype.type(0)), 2 * np.arctan2(apart, together))


def arc_cosine(X, Y=None, order=1):
    Y = _other(X, Y)
    theta = angles(X, Y)
    pi = np.arccos(X.dtype.type(-1))
    sine, cosine_ = np.sin(theta), np.cos(theta)
    if order == 0:
        value = pi - theta
    elif order == 1:
        value = sine + (pi - theta) * cosine_
    else:
        value = 3 * sine * cosine_ + (pi - theta) * (1 + 2 * cosine_ * cosine_)
    return np.multiply.outer(_lengths(X), _lengths(Y)) ** order * value / pi


def _relu_layers(X, Y, depth, w_std, b_std, normalize):
    """NNGP and NTK after `depth` hidden layers: (S, Θ)."""
    w, b = X.dtype.type(w_std) ** 2, X.dtype.type(b_std) ** 2
    pi = np.arccos(X.dtype.type(-1))
    features = X.shape[1] if normalize else 1
    diagonal = [w * np.sum(np.square(rows), axis=1) / features + b for rows in (X, Y)]
    S = w * linear(X, Y) / features + b
    ntk_ = S
    for _ in range(depth):
        product = np.multiply.outer(*diagonal)
        s = np.sqrt(np.maximum(0, product - S * S))
        theta = np.where((s == 0) & (S == 0), pi / 2, np.arctan2(s, S))
        slope = (1 - theta / pi) / 2
        S = w * (s / (2 * pi) + slope * S) + b
        ntk_ = S + w * slope * ntk_
        diagonal = [w * values / 2 + b for values in diagonal]
    return S, ntk_


def nngp(X, Y=None, depth=1, w_std=1.0, b_std=0.0, normalize=True):
    return _relu_layers(X, _other(X, Y), depth, w_std, b_std, normalize)[0]


def ntk(X, Y=None, depth=1, w_std=1.0, b_std=0.0, normalize=True):
    return _relu_layers(X, _other(X, Y), depth, w_std, b_std, normalize)[1]


def _box(A, size):
    """Average A[..., i + a, j + b, k + a, l + b] over the offsets a, b of a filter, zero outside."""
    height, width = A.shape[-2:]
    padded = np.pad(A, [(0, 0)] * (A.ndim - 4) + [((size - 1) // 2, size // 2)] * 4)
    total = np.zeros_like(A)
    for a in range(size):
        for b in range(size):
            rows, columns = slice(a, a + height), slice(b, b + width)
            total += padded[..., rows, columns, rows, columns]
    return total / size**2


def _box_diagonal(A, size):
    height, width = A.shape[-2:]
    padded = np.pad(A, [(0, 0)] * (A.ndim - 2) + [((size - 1) // 2, size // 2)] * 2)
    offsets = [(a, b) for a in range(size) for b in range(size)]
    return sum(padded[..., a : a + height, b : b + width] for a, b in offsets) / size**2


def cntk(X, Y=None, depth=3, kernel_size=3, pooling="mean"):
    """Arora et al. 2019, one image of X at a time."""
    Y = _other(X, Y)
    pi = np.arccos(X.dtype.type(-1))
    left, right = ([np.sum(np.square(images), axis=1)] for images in (X, Y))
    for _ in range(depth):
        left.append(_box_diagonal(left[-1], kernel_size))
        right.append(_box_diagonal(right[-1], kernel_size))
    result = np.empty((X.shape[0], Y.shape[0]), X.dtype)
    for row, image in enumerate(X):
        S = T = np.einsum("cij,nckl->nijkl", image, Y)
        for layer in range(1, depth + 1):
            S, T = _box(S, kernel_size), _box(T, kernel_size)
            product = left[layer][row][None, :, :, None, None] * right[layer][:, None, None, :, :]
            s = np.sqrt(np.maximum(0, product - S * S))
            theta = np.where((s == 0) & (S == 0), pi / 2, np.arctan2(s, S))
            T = (1 - theta / pi) * T
            S = s / pi + (1 - theta / pi) * S
            T = T + S
        result[row] = T.mean(axis=(1, 2, 3, 4)) if pooling == "mean" else np.einsum("nijij->nij", T).mean(axis=(1, 2))
    return result


# ---- functions on kernels ----
KERNELS = {
    function.__name__: function
    for function in (
        linear, polynomial, sigmoid, rbf, laplacian, cosine, additive_chi2, chi2, matern, geometric, sinc, arc_cosine,
        nngp, ntk,
    )
}  # fmt: skip


def gram(X, Y=None, kernel="rbf", **parameters):
    return KERNELS[kernel](X, Y, **parameters)


def matvec(X, v, Y=None, kernel="rbf", **parameters):
    Y = _other(X, Y)
    result = np.empty((X.shape[0], *v.shape[1:]), np.result_type(X, v))
    step = max(1, BLOCK // Y.shape[0])
    for begin in range(0, X.shape[0], step):
        rows = slice(begin, begin + step)
        result[rows] = KERNELS[kernel](X[rows], Y, **parameters) @ v
    return result


def gram_vjp(X, grad, Y=None, kernel="rbf", gamma=None):
    """Gradients of Σ grad ∘ K for X, Y and gamma, for rbf with Y given."""
    assert kernel == "rbf" and Y is not None
    gamma = _default(gamma, X)
    squared = squared_distances(X, Y)
    weight = np.exp(-gamma * squared) * grad
    for_X = -2 * gamma * (weight.sum(axis=1)[:, None] * X - weight @ Y)
    for_Y = -2 * gamma * (weight.sum(axis=0)[:, None] * Y - weight.T @ X)
    return for_X, for_Y, -np.sum(weight * squared)


def matvec_vjp(X, v, grad, Y=None, kernel="rbf", gamma=None):
    """Gradients of Σ grad · K v for X, Y, v and gamma, for rbf with Y given and vectors v and grad."""
    for_X, for_Y, for_gamma = gram_vjp(X, np.multiply.outer(grad, v), Y, kernel, gamma)
    return for_X, for_Y, rbf(X, Y, gamma).T @ grad, for_gamma


def diag(X, kernel="rbf", **parameters):
    return np.array([KERNELS[kernel](row[None], **parameters)[0, 0] for row in X])


def distance(X, Y=None, kernel="rbf", **parameters):
    Y = _other(X, Y)
    own = [diag(rows, kernel, **parameters) for rows in (X, Y)]
    return np.maximum(0, np.add.outer(*own) - 2 * KERNELS[kernel](X, Y, **parameters))


def invariant(X, Y=None, *, permutations, kernel="rbf", **parameters):
    """By its definition: both sums over the group."""
    Y = _other(X, Y)
    return sum(
        KERNELS[kernel](X[:, g], Y[:, h], **parameters) for g in permutations for h in permutations
    )  # fmt: skip


def softmax_matvec(Q, K, V, scale=None):
    logits = (1 / math.sqrt(Q.shape[1]) if scale is None else scale) * (Q @ K.T)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (weights @ V) / weights.sum(axis=1, keepdims=True)


def center(K):
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


def hsic(K, L, unbiased=True):
    n = K.shape[0]
    if not unbiased:
        return np.sum(center(K) * L) / (n - 1) ** 2
    off = ~np.eye(n, dtype=bool)
    K, L = K * off, L * off
    total = np.sum(K * L.T) + K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2 * (K.sum(axis=0) @ L.sum(axis=1)) / (n - 2)
    return total / (n * (n - 3))


def cka(K, L, unbiased=False):
    return hsic(K, L, unbiased) / np.sqrt(hsic(K, K, unbiased) * hsic(L, L, unbiased))


def feature_gram(x, center=False):
    maps = x.reshape(*x.shape[:2], -1)
    if center:
        maps = maps - maps.mean(axis=2, keepdims=True)
    return maps @ maps.transpose(0, 2, 1) / maps.shape[2]


def empirical_ntk(J1, J2=None):
    return linear(J1, J2)


# ---- bounds: the error of each element, by the unit of rounding, from the inputs ----
def growth(terms):
    """Rounding errors of a sum, in units of eps times the sum of the sizes of its terms, in whatever order it is taken.

    Never more than one for each term; and, errors being as good as random, beyond a few hundred terms not more than
    8 √terms but with a probability below 1e-13 (Higham and Mary, 2019).
    """
    return min(terms, 8 * math.sqrt(terms)) + 4


def _norms(X, Y, order=2):
    return [np.linalg.norm(rows.astype(np.float64), order, axis=1) for rows in (X, _other(X, Y))]


def _dot_error(X, Y, eps):
    lengths = np.multiply.outer(*_norms(X, Y))
    return lengths, growth(X.shape[1]) * eps * lengths


def _squared_error(X, Y, eps):
    """‖x‖² + ‖y‖² - 2 xy is a sum of terms that together are (‖x‖ + ‖y‖)²."""
    return growth(X.shape[1]) * eps * np.add.outer(*_norms(X, Y)) ** 2


# exp, tanh, a power and the like: a few units in the last place each, here all together.
ELEMENTARY = 8


def linear_bound(eps, X, Y=None):
    return _dot_error(X, Y, eps)[1]


def polynomial_bound(eps, X, Y=None, degree=3, gamma=None, coef0=1.0):
    lengths, error = _dot_error(X, Y, eps)
    gamma = _default(gamma, X)
    largest = gamma * lengths + abs(coef0)
    return degree * largest ** (degree - 1) * (gamma * error + 2 * eps * largest) + ELEMENTARY * eps * largest**degree


def sigmoid_bound(eps, X, Y=None, gamma=None, coef0=1.0):
    lengths, error = _dot_error(X, Y, eps)
    gamma = _default(gamma, X)
    return gamma * error + 2 * eps * (gamma * lengths + abs(coef0)) + ELEMENTARY * eps


def rbf_bound(eps, X, Y=None, gamma=None):
    # exp(-t) has no slope above 1.
    return _default(gamma, X) * _squared_error(X, Y, eps) + ELEMENTARY * eps


def _sum_bound(eps, X, Y):
    """Bound a sum over the features of terms that are not above |x| + |y|."""
    return growth(X.shape[1]) * eps * np.add.outer(*_norms(X, Y, 1))


def laplacian_bound(eps, X, Y=None, gamma=None):
    return _default(gamma, X) * _sum_bound(eps, X, Y) + ELEMENTARY * eps


def cosine_bound(eps, X, Y=None):
    return np.full((X.shape[0], _other(X, Y).shape[0]), 2 * growth(X.shape[1]) * eps)


def additive_chi2_bound(eps, X, Y=None):
    return _sum_bound(eps, X, Y)


def chi2_bound(eps, X, Y=None, gamma=1.0):
    return gamma * _sum_bound(eps, X, Y) + ELEMENTARY * eps


def matern_bound(eps, X, Y=None, length_scale=1.0, nu=1.5):
    # As functions of r²: for nu = ½ the root is taken of an error, the others have a slope of at most 3/2.
    error = _squared_error(X / np.asarray(length_scale), None if Y is None else Y / np.asarray(length_scale), eps)
    return (np.sqrt(error) if nu == 0.5 else 1.5 * error) + ELEMENTARY * eps


def geometric_bound(eps, X, Y=None, alpha=0.5):
    lengths, error = _dot_error(X, Y, eps)
    left = 1 - alpha**2 * lengths
    return alpha**2 * error / left**2 + ELEMENTARY * eps / left


def sinc_bound(eps, X, Y=None, omega=1.0):
    # Each factor is at most Ω/π, and off by a few eps of that: of its argument, of the sine, of the quotient.
    d = X.shape[1]
    shape = (X.shape[0], _other(X, Y).shape[0])
    return np.full(shape, 2 * ELEMENTARY * d * eps * (omega / math.pi) ** d)


def arc_cosine_bound(eps, X, Y=None, order=1):
    # With order 1 the slope by the cosine is π - θ; order 0 is an angle itself.
    lengths, _ = _dot_error(X, Y, eps)
    error = 2 * growth(X.shape[1]) * eps
    if order == 0:
        return _angle_error(eps, X, Y) / math.pi + ELEMENTARY * eps
    return lengths**order * (4**order * error + ELEMENTARY * eps)


def _angle_error(eps, X, Y):
    """An error e of the cosine is one of e / sin θ of the angle, or of √2e next to parallel."""
    Y = _other(X, Y)
    lengths = np.multiply.outer(*_norms(X, Y))
    ratio = (X.astype(np.float64) @ Y.astype(np.float64).T) / np.where(lengths == 0, 1, lengths)
    sine = np.sqrt(np.clip(1 - ratio**2, 0, 1))
    error = 4 * growth(X.shape[1]) * eps
    return np.minimum(math.sqrt(2 * error), error / np.maximum(sine, 1e-30))


def _relu_scale(X, Y, depth, w_std, b_std, normalize):
    lengths = np.multiply.outer(*_norms(X, Y)) / (X.shape[1] if normalize else 1)
    scale = w_std**2 * lengths + b_std**2
    for _ in range(depth):
        scale = w_std**2 * scale / 2 + b_std**2
    return scale


def nngp_bound(eps, X, Y=None, depth=1, w_std=1.0, b_std=0.0, normalize=True):
    # Well conditioned, as arc_cosine of order 1 is.
    return _relu_scale(X, Y, depth, w_std, b_std, normalize) * (depth + 1) * 4 * growth(X.shape[1]) * eps


def ntk_bound(eps, X, Y=None, depth=1, w_std=1.0, b_std=0.0, normalize=True):
    # A sum of depth + 1 terms with an angle in each; a layer takes less than half of a sine away.
    scale = (depth + 1) * _relu_scale(X, Y, depth, w_std, b_std, normalize)
    return scale * (2 * (depth + 1) * _angle_error(eps, X, Y) + 4 * growth(X.shape[1]) * eps)


def cntk_bound(eps, X, Y=None, depth=3, kernel_size=3, pooling="mean"):
    """Of images that are random: positions are not next to parallel (sin θ > 1/16), but for one with itself."""
    Y = _other(X, Y)
    error = 4 * growth(X.shape[1] * kernel_size**2 * max(1, depth)) * eps
    # A filter raises no mean, so that at every layer the lengths at all positions have at most this mean.
    squares = (np.sum(np.square(images.astype(np.float64)), axis=1) for images in (X, Y))
    left, right = (np.sqrt(np.mean(square, axis=(1, 2))) for square in squares)
    same = np.array([[np.array_equal(x, y) for y in Y] for x in X])
    share = 1 / math.prod(X.shape[2:]) if pooling == "mean" else 1.0
    angle = 16 * error + same * share * math.sqrt(2 * error)
    return (depth + 1) * np.multiply.outer(left, right) * (error + angle)


BOUNDS = {name: globals()[f"{name}_bound"] for name in KERNELS}


def _kernel_bound(kernel, eps, X, Y, parameters):
    return BOUNDS[kernel](eps, X, _other(X, Y), **parameters)


def gram_bound(eps, X, Y=None, kernel="rbf", **parameters):
    return _kernel_bound(kernel, eps, X, Y, parameters)


def matvec_bound(eps, X, v, Y=None, kernel="rbf", **parameters):
    # Of kernels that are at most 1. The sample farthest out stands for all, or the bound would be a matrix itself.
    Y = _other(X, Y)
    farthest = Y[np.argmax(np.linalg.norm(Y, axis=1))][None]
    each = _kernel_bound(kernel, eps, X, farthest, parameters)[:, 0] + growth(Y.shape[0]) * eps
    total = np.sum(np.abs(v.astype(np.float64)), axis=0)
    return np.multiply.outer(each, total) if v.ndim == 2 else each * total


def gram_vjp_bound(eps, X, grad, Y=None, kernel="rbf", gamma=None):
    gamma = _default(gamma, X)
    n, m = X.shape[0], Y.shape[0]
    weight = np.abs(grad).astype(np.float64)
    reach = np.add.outer(*_norms(X, Y))
    error = rbf_bound(eps, X, Y, gamma) + growth(max(n, m)) * eps
    for_X = np.repeat(2 * gamma * np.sum(weight * reach * error, axis=1)[:, None], X.shape[1], axis=1)
    for_Y = np.repeat(2 * gamma * np.sum(weight * reach * error, axis=0)[:, None], Y.shape[1], axis=1)
    for_gamma = np.sum(weight * reach**2 * (error + growth(n * m) * eps))
    return for_X, for_Y, for_gamma


def matvec_vjp_bound(eps, X, v, grad, Y=None, kernel="rbf", gamma=None):
    error = rbf_bound(eps, X, Y, _default(gamma, X)) + growth(max(X.shape[0], Y.shape[0])) * eps
    for_X, for_Y, for_gamma = gram_vjp_bound(eps, X, np.multiply.outer(grad, v), Y, kernel, gamma)
    return for_X, for_Y, np.sum(np.abs(grad)[:, None] * error, axis=0), for_gamma


def diag_bound(eps, X, kernel="rbf", **parameters):
    rows = [_kernel_bound(kernel, eps, row[None], None, parameters)[0, 0] for row in X]
    return np.array(rows)


def distance_bound(eps, X, Y=None, kernel="rbf", **parameters):
    # Of kernels that are at most 1.
    return 4 * (_kernel_bound(kernel, eps, X, Y, parameters) + eps)


def invariant_bound(eps, X, Y=None, *, permutations, kernel="rbf", **parameters):
    order = len(permutations)
    return order**2 * (_kernel_bound(kernel, eps, X, Y, parameters) + growth(order**2) * eps)


def softmax_matvec_bound(eps, Q, K, V, scale=None):
    # Logits that are off by e change a weight by a factor e^(2e) after the normalisation.
    error = (1 / math.sqrt(Q.shape[1]) if scale is None else scale) * _dot_error(Q, K, eps)[1].max(axis=1)
    return np.multiply.outer(2 * error + 2 * (growth(K.shape[0]) + ELEMENTARY) * eps, np.abs(V).max(axis=0))


def center_bound(eps, K):
    return np.full(K.shape, 4 * growth(K.shape[0]) * eps * np.abs(K).max())


def hsic_bound(eps, K, L, unbiased=True):
    # Every one of its terms is below this, and few errors of rows and columns come together in each.
    n = K.shape[0]
    sizes = [np.abs(G.astype(np.float64)) for G in (K, L)]
    largest = np.sum(sizes[0] * sizes[1]) + sizes[0].sum() * sizes[1].sum() / (n - 2) ** 2
    largest += 2 * np.sum(sizes[0].sum(axis=0) * sizes[1].sum(axis=0)) / (n - 2)
    return np.asarray(4 * growth(n) * eps * largest / (n - 3) ** 2)


def cka_bound(eps, K, L, unbiased=False):
    lost = [np.linalg.norm(G.astype(np.float64)) / np.linalg.norm(center(G.astype(np.float64))) for G in (K, L)]
    return np.asarray(16 * growth(K.shape[0]) * eps * max(lost) ** 2)


def feature_gram_bound(eps, x, center=False):
    maps = x.reshape(*x.shape[:2], -1).astype(np.float64)
    lengths = np.linalg.norm(maps, axis=2)
    return (4 if center else 1) * growth(maps.shape[2]) * eps * lengths[:, :, None] * lengths[:, None] / maps.shape[2]


def empirical_ntk_bound(eps, J1, J2=None):
    return linear_bound(eps, J1, J2)
