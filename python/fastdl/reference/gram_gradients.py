"""Gradients of Σ W ∘ K(X, Y), a block of rows of K at a time.

W is given, or W = G vᵀ for the gradient G of K v. The gradient for x_i is Σ_j W_ij ∂k(x_i, y_j)/∂x_i. For a kernel of
the dot product and of norms this is A Y + b x_i with A = W ∂k/∂(x·y): two matrix products a block. Others are summed
over the differences of the samples themselves. Everything is in float64.

Where a kernel has no gradient the one taken here is 0: at equal features for laplacian, at equal samples for matern
with ν = ½, at two zeros for the chi2 kernels, at samples of norm 0 for cosine and arc_cosine of order 0, and at
parallel samples for arc_cosine of order 0 and ntk. For the other arc_cosine, nngp and ntk a sample of norm 0 is at
right angles with all others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from array_api_compat import array_namespace, device

from fastdl.reference.gram_networks import angle, norms
from fastdl.reference.gram_operators import by_reference
from fastdl.reference.pairs import divide, row_blocks, wide

if TYPE_CHECKING:
    from collections.abc import Callable

    Rule = Callable[..., tuple[Any, Any, Any]]

# Elements of a temporary: a dozen of them should lie in the cache of a processor.
_BLOCK = 1 << 19
# Below this share of the product of norms, s² is rounding of its terms: the samples count as parallel.
_PARALLEL = 16 * 2.0**-52


class Gradients(NamedTuple):
    """Gradients with respect to each argument; None where there is no such argument."""

    X: Any
    Y: Any
    v: Any
    gamma: float | None


def gram_vjp(X: Any, grad: Any, Y: Any | None, kernel: str, parameters: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Gradients of Σ grad ∘ K with respect to X, Y and gamma; without Y the X gradient has both its parts."""
    weights = wide(grad)
    return _weighted_vjp(X, Y, kernel, parameters, lambda part, K: weights[part, :])


def matvec_vjp(X: Any, v: Any, grad: Any, Y: Any | None, kernel: str, parameters: dict[str, Any]) -> Gradients:
    """Gradients of Σ grad ∘ (K v) with respect to X, Y, v and gamma; without Y the X gradient has both its parts."""
    xp = array_namespace(X)
    vectors, grads = wide(v), wide(grad)
    dv = xp.zeros(vectors.shape, dtype=xp.float64, device=device(X))

    def weights(part: slice, K: Any) -> Any:
        nonlocal dv
        dv = dv + K.T @ grads[part, :]
        return grads[part, :] @ vectors.T

    dX, dY, by_gamma = _weighted_vjp(X, Y, kernel, parameters, weights)
    return Gradients(dX, dY, xp.astype(dv, X.dtype, copy=False), by_gamma)


def _weighted_vjp(
    X: Any, Y: Any | None, kernel: str, parameters: dict[str, Any], weights: Callable[[slice, Any], Any]
) -> tuple[Any, Any, Any]:
    """Gradients of Σ W ∘ K, whose rows `weights` gives for a block of rows and K on them."""
    xp = array_namespace(X)
    other = X if Y is None else Y
    (n, d), m = X.shape, other.shape[0]
    x, y = wide(X), wide(other)
    elements = kernel in _BY_ELEMENTS
    rule: Rule = _RULES[kernel]
    dY = xp.zeros((m, d), dtype=xp.float64, device=device(X))
    parts, total = [], 0.0
    for part in row_blocks(n, m * d) if elements else row_blocks(n, m, max(_BLOCK, 16 * m)):
        # Of float64 samples: the slopes are products with K, which a K in float32 is too coarse for.
        K = by_reference(kernel, x[part, :], y, parameters)
        dx, dy, change = rule(x[part, :], y, weights(part, K), K, **parameters)
        dY = dY + dy
        total += float(change)
        parts.append(dx)
    dX = xp.concat(parts, axis=0) if parts else xp.zeros((0, d), dtype=xp.float64, device=device(X))
    if Y is None:
        dX = dX + dY
    dX, dY = (xp.astype(value, X.dtype, copy=False) for value in (dX, dY))
    return dX, None if Y is None else dY, total if "gamma" in parameters else None


def _sum(a: Any) -> Any:
    return array_namespace(a).sum(a)


def _products(x: Any, y: Any, A: Any) -> tuple[Any, Any]:
    """Give the gradients through the dot products, whose derivative is A."""
    return A @ y, A.T @ x


def _linear(x: Any, y: Any, W: Any, K: Any) -> tuple[Any, Any, Any]:
    return *_products(x, y, W), 0.0


def _polynomial(x: Any, y: Any, W: Any, K: Any, degree: float, gamma: float, coef0: float) -> tuple[Any, Any, Any]:
    dot = x @ y.T
    A = W * degree * (gamma * dot + coef0) ** (degree - 1)
    return *_products(x, y, gamma * A), _sum(A * dot)


def _sigmoid(x: Any, y: Any, W: Any, K: Any, gamma: float, coef0: float) -> tuple[Any, Any, Any]:
    dot = x @ y.T
    A = W * (1 - array_namespace(x).tanh(gamma * dot + coef0) ** 2)
    return *_products(x, y, gamma * A), _sum(A * dot)


def _geometric(x: Any, y: Any, W: Any, K: Any, alpha: float) -> tuple[Any, Any, Any]:
    return *_products(x, y, W * alpha**2 * K * K), 0.0


def _cosine(x: Any, y: Any, W: Any, K: Any) -> tuple[Any, Any, Any]:
    xp = array_namespace(x)

    def one_side(x: Any, y: Any, W: Any, K: Any) -> Any:
        size, other = norms(x)[:, None], norms(y)[:, None]
        u, v = (divide(z, xp.broadcast_to(r, z.shape)) for z, r in ((x, size), (y, other)))
        return divide(W @ v - xp.sum(W * K, axis=1)[:, None] * u, xp.broadcast_to(size, x.shape))

    return one_side(x, y, W, K), one_side(y, x, W.T, K.T), 0.0


def _weighted(W: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
    """Sum elementwise derivatives (b, m, d) with weights over either set of samples."""
    xp = array_namespace(W)
    return xp.sum(W[:, :, None] * rows, axis=1), xp.sum(W[:, :, None] * columns, axis=0)


def _times(K: Any, distance: Any) -> Any:
    """Give K times a distance, and 0 where K is 0: the distance may be infinite there."""
    return array_namespace(K).where(K == 0, K, K * distance)


def _rbf(x: Any, y: Any, W: Any, K: Any, gamma: float) -> tuple[Any, Any, Any]:
    difference = x[:, None, :] - y[None, :, :]
    dx, dy = _weighted(-2 * gamma * W * K, difference, -difference)
    return dx, dy, -_sum(W * _times(K, array_namespace(x).sum(difference**2, axis=-1)))


def _matern(x: Any, y: Any, W: Any, K: Any, length_scale: Any, nu: float) -> tuple[Any, Any, Any]:
    xp = array_namespace(x)
    scale = length_scale
    if not isinstance(scale, float):
        scale = xp.asarray([float(value) for value in scale], dtype=xp.float64, device=device(x))
    difference = (x[:, None, :] - y[None, :, :]) / scale
    r = xp.sqrt(xp.sum(difference**2, axis=-1))
    if nu == math.inf:
        slope = K
    elif nu == 0.5:
        slope = divide(K, r)
    else:
        t = math.sqrt(2 * nu) * r
        decay = xp.exp(-t)
        slope = 3 * decay if nu == 1.5 else 5 / 3 * (decay + _times(decay, t))
    dx, dy = _weighted(-W * slope, difference / scale, -difference / scale)
    return dx, dy, 0.0


def _laplacian(x: Any, y: Any, W: Any, K: Any, gamma: float) -> tuple[Any, Any, Any]:
    xp = array_namespace(x)
    difference = x[:, None, :] - y[None, :, :]
    sign = xp.sign(difference)
    dx, dy = _weighted(-gamma * W * K, sign, -sign)
    return dx, dy, -_sum(W * _times(K, xp.sum(xp.abs(difference), axis=-1)))


def _chi2_parts(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Give the derivatives of −(x−y)²/(x+y) with respect to x and y, and its sum."""
    difference = x[:, None, :] - y[None, :, :]
    t = divide(difference / 2, x[:, None, :] / 2 + y[None, :, :] / 2)
    return t * t - 2 * t, t * t + 2 * t, -array_namespace(x).sum(difference * t, axis=-1)


def _additive_chi2(x: Any, y: Any, W: Any, K: Any) -> tuple[Any, Any, Any]:
    rows, columns, _ = _chi2_parts(x, y)
    return *_weighted(W, rows, columns), 0.0


def _chi2(x: Any, y: Any, W: Any, K: Any, gamma: float) -> tuple[Any, Any, Any]:
    rows, columns, value = _chi2_parts(x, y)
    return *_weighted(gamma * W * K, rows, columns), _sum(W * _times(K, value))


def _sinc(x: Any, y: Any, W: Any, K: Any, omega: float) -> tuple[Any, Any, Any]:
    """Multiply the derivative of each factor with all other factors: dividing K by a factor would fail at its zeros."""
    xp = array_namespace(x)
    z = omega * (x[:, None, :] - y[None, :, :])
    factors = omega / math.pi * xp.where(z == 0, xp.ones_like(z), divide(xp.sin(z), z))
    square = z * z
    series = -z * (1 / 3 - square * (1 / 30 - square * (1 / 840 - square / 45360)))
    slopes = omega * omega / math.pi * xp.where(square < 0.01, series, divide(z * xp.cos(z) - xp.sin(z), square))
    d = x.shape[1]
    before, after = [xp.ones_like(K)], [xp.ones_like(K)]
    for f in range(d - 1):
        before.append(before[f] * factors[:, :, f])
        after.append(after[f] * factors[:, :, d - 1 - f])
    if not d:
        return xp.zeros_like(x), xp.zeros_like(y), 0.0
    slopes = xp.stack([before[f] * slopes[:, :, f] * after[d - 1 - f] for f in range(d)], axis=-1)
    dx, dy = _weighted(W, slopes, -slopes)
    return dx, dy, 0.0


def _sine(xx: Any, yy: Any, xy: Any) -> Any:
    """Give s = √(S(x,x) S(y,y) − S(x,y)²), 0 for parallel samples."""
    xp = array_namespace(xy)
    product = xx * yy
    square = product - xy * xy
    return xp.where(square <= _PARALLEL * product, xp.zeros_like(square), xp.sqrt(xp.abs(square)))


def _norms_and_dots(x: Any, y: Any, A: Any, B: Any, C: Any) -> tuple[Any, Any, Any]:
    """Give the gradients through x·y, x·x and y·y, whose derivatives are A, B and C."""
    xp = array_namespace(A)
    dx, dy = _products(x, y, A)
    return dx + 2 * xp.sum(B, axis=1)[:, None] * x, dy + 2 * xp.sum(C, axis=0)[:, None] * y, 0.0


def _arc_cosine(x: Any, y: Any, W: Any, K: Any, order: int) -> tuple[Any, Any, Any]:
    xp = array_namespace(x)
    xx, yy, xy = xp.sum(x * x, axis=1)[:, None], xp.sum(y * y, axis=1)[None, :], x @ y.T
    s = _sine(xx, yy, xy)
    rest = math.pi - angle(s, xy)
    product = xx * yy
    if order == 0:
        by_dot, by_product = divide(xp.ones_like(s), s), -divide(xy, 2 * s * product)
    elif order == 1:
        by_dot, by_product = rest, divide(s, 2 * product)
    else:
        by_dot, by_product = 4 * (s + rest * xy), divide(xy * s, product) + rest
    W = W / math.pi
    return _norms_and_dots(x, y, W * by_dot, W * by_product * yy, W * by_product * xx)


def _network(
    x: Any, y: Any, W: Any, tangent: bool, depth: int, w_std: float, b_std: float, normalize: bool
) -> tuple[Any, Any, Any]:
    """Carry the derivatives by S(x,y), S(x,x) and S(y,y) of the input through the recursion of nngp and ntk."""
    xp = array_namespace(x)
    scale = 1 / x.shape[1] if normalize and x.shape[1] else 1.0
    w, b = w_std * w_std, b_std * b_std
    xx, yy = (scale * xp.sum(z * z, axis=1) for z in (x, y))
    xx, yy, xy = w * xx[:, None] + b, w * yy[None, :] + b, w * scale * (x @ y.T) + b
    own = w  # the derivative of S(x,x) by that of the input, the same for all samples
    zeros = xp.zeros_like(xy)
    S = [xp.full_like(xy, w), zeros, zeros]
    T, value = list(S), xy
    for _ in range(depth):
        s = _sine(xx, yy, xy)
        theta = angle(s, xy)
        share = 0.5 - theta / (2 * math.pi)
        steep = divide(xp.full_like(s, 1 / (2 * math.pi)), s)
        direct = [zeros, *(-own * steep * divide(xy, 2 * side + zeros) for side in (xx, yy))]
        T = [t * share + value * (steep * S_z + D_z) for t, S_z, D_z in zip(T, S, direct, strict=True)]
        direct = [zeros, *(own / (4 * math.pi) * divide(s, side + zeros) for side in (xx, yy))]
        S = [w * (share * S_z + F_z) for S_z, F_z in zip(S, direct, strict=True)]
        T = [S_z + w * t for S_z, t in zip(S, T, strict=True)]
        value = w * share * value
        xy = w * (s / (2 * math.pi) + share * xy) + b
        value = xy + value
        xx, yy, own = w * xx / 2 + b, w * yy / 2 + b, w * own / 2
    found = [scale * W * z for z in (T if tangent else S)]
    return _norms_and_dots(x, y, *found)


def _nngp(x: Any, y: Any, W: Any, K: Any, **parameters: Any) -> tuple[Any, Any, Any]:
    return _network(x, y, W, False, **parameters)


def _ntk(x: Any, y: Any, W: Any, K: Any, **parameters: Any) -> tuple[Any, Any, Any]:
    return _network(x, y, W, True, **parameters)


_BY_ELEMENTS = frozenset(["rbf", "matern", "laplacian", "additive_chi2", "chi2", "sinc"])
_RULES: dict[str, Rule] = {
    "linear": _linear,
    "polynomial": _polynomial,
    "sigmoid": _sigmoid,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "cosine": _cosine,
    "additive_chi2": _additive_chi2,
    "chi2": _chi2,
    "matern": _matern,
    "geometric": _geometric,
    "sinc": _sinc,
    "arc_cosine": _arc_cosine,
    "nngp": _nngp,
    "ntk": _ntk,
}
