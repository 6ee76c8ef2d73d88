"""Rules of learning, a sample at a time: W (k, d) has a unit in every row, and y = W x.

All computes in float64 and is rounded once, at the end. `lr` is a step for every sample. There is one
algorithm, whichever is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.pairs import divide, wide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def check_finite(where: str, weights: Any, like: Any, sample: int) -> None:
    """Refuse weights that are not finite in the dtype of `like`, with the sample that made them so."""
    xp = array_namespace(weights)
    if not bool(xp.all(xp.isfinite(xp.astype(weights, like.dtype)))):
        raise FloatingPointError(
            f"[{where}] expected weights that stay finite, got one that is not after sample {sample}"
        )


def learn(where: str, W: Any, X: Any, step: Callable[[int, Any, Any], Any]) -> Any:
    """Let the weights go through all samples: W ← step(t, W, x)."""
    xp = array_namespace(W)
    weights, samples = xp.asarray(wide(W), copy=True), wide(X)
    if X.shape[0] and not bool(xp.all(xp.isfinite(weights))):
        raise ValueError(f"[{where}] expected finite weights to begin with, got some that are not")
    for t in range(X.shape[0]):
        weights = step(t, weights, samples[t, :])
        check_finite(where, weights, W, t)
    return xp.astype(weights, W.dtype, copy=False)


def outer(a: Any, b: Any) -> Any:
    """Give the matrix of all products a_i b_j."""
    return a[:, None] * b[None, :]


def diagonal(S: Any) -> Any:
    """Keep the diagonal of a square matrix, and zeros elsewhere."""
    xp = array_namespace(S)
    i = xp.arange(S.shape[0], device=device(S))
    return xp.where(i[:, None] == i[None, :], S, xp.zeros_like(S))


def _plain(where: str, W: Any, X: Any, lr: Iterable[float], mode: str, part: Callable[[Any], Any]) -> Any:
    """W ← W + η (y xᵀ − M(y yᵀ) W), with M `part` of a matrix; a sample after the other, or all with the same W."""
    xp = array_namespace(W)
    steps = [float(value) for value in lr]
    if mode == "sequential":

        def step(t: int, weights: Any, x: Any) -> Any:
            y = weights @ x
            return weights + steps[t] * (outer(y, x) - part(outer(y, y)) @ weights)

        return learn(where, W, X, step)
    weights, samples = wide(W), wide(X)
    if X.shape[0] and not bool(xp.all(xp.isfinite(weights))):
        raise ValueError(f"[{where}] expected finite weights to begin with, got some that are not")
    eta = xp.asarray(steps, dtype=xp.float64, device=device(W))
    Y = samples @ weights.T
    result = weights + (eta[:, None] * Y).T @ samples - part((eta[:, None] * Y).T @ Y) @ weights
    if X.shape[0] and not bool(xp.all(xp.isfinite(xp.astype(result, W.dtype)))):
        total = weights
        for t in range(X.shape[0]):
            y, x = Y[t, :], samples[t, :]
            total = total + steps[t] * (outer(y, x) - part(outer(y, y)) @ weights)
            check_finite(where, total, W, t)
        check_finite(where, result, W, X.shape[0] - 1)
    return xp.astype(result, W.dtype, copy=False)


def unit_rows(weights: Any) -> Any:
    """Rescale every row to length 1; rows of zeros stay."""
    xp = array_namespace(weights)
    if not weights.shape[1]:
        return weights
    # Rows are divided by their largest first: the square of another may be beyond the type.
    rows = divide(weights, xp.max(xp.abs(weights), axis=1, keepdims=True) + xp.zeros_like(weights))
    norms = xp.sqrt(xp.sum(rows * rows, axis=1, keepdims=True))
    return divide(rows, norms + xp.zeros_like(rows))


def hebb(W: Any, X: Any, lr: Any, mode: str, algorithm: str, normalize: bool) -> Any:
    """W ← W + η y xᵀ, its rows then rescaled to length 1 if `normalize`."""
    if not normalize:
        return _plain("hebbian.hebb", W, X, lr, mode, lambda S: array_namespace(S).zeros_like(S))
    if mode == "sequential":
        return learn(
            "hebbian.hebb", W, X, lambda t, weights, x: unit_rows(weights + float(lr[t]) * outer(weights @ x, x))
        )
    xp = array_namespace(W)
    result = _plain("hebbian.hebb", wide(W), X, lr, mode, lambda S: array_namespace(S).zeros_like(S))
    if X.shape[0]:
        result = unit_rows(result)
        check_finite("hebbian.hebb", result, W, X.shape[0] - 1)
    return xp.astype(result, W.dtype, copy=False)


def oja(W: Any, X: Any, lr: Any, mode: str, algorithm: str) -> Any:
    """Let w ← w + η y (x − y w) for every unit by itself."""
    return _plain("hebbian.oja", W, X, lr, mode, diagonal)


def sanger(W: Any, X: Any, lr: Any, mode: str, algorithm: str) -> Any:
    """Let w_i ← w_i + η y_i (x − Σ_{j ≤ i} y_j w_j)."""
    return _plain("hebbian.sanger", W, X, lr, mode, lambda S: array_namespace(S).tril(S))


def subspace(W: Any, X: Any, lr: Any, mode: str, algorithm: str) -> Any:
    """Let w_i ← w_i + η y_i (x − Σ_j y_j w_j)."""
    return _plain("hebbian.subspace", W, X, lr, mode, lambda S: S)


def bcm(W: Any, X: Any, theta: Any, lr: Any, tau: float) -> tuple[Any, Any, None]:
    """Let w ← w + η y (y − θ) x, then θ ← θ + (y² − θ)/τ, for every unit by itself."""
    xp = array_namespace(W)
    thresholds = wide(theta)

    def step(t: int, weights: Any, x: Any) -> Any:
        nonlocal thresholds
        y = weights @ x
        weights = weights + float(lr[t]) * outer(y * (y - thresholds), x)
        thresholds = thresholds + (y * y - thresholds) / tau
        check_finite("hebbian.bcm", thresholds, W, t)
        return weights

    return learn("hebbian.bcm", W, X, step), xp.astype(thresholds, W.dtype, copy=False), None


def krotov(W: Any, X: Any, lr: Any, p: float, delta: float, rank: int) -> Any:
    r"""Let w_i ← w_i + η g_i (x − I_i w_i), I = (sign(W) \|W\|^(p−1)) x; g is 1 for the largest I, −Δ for the next."""
    xp = array_namespace(W)

    def step(t: int, weights: Any, x: Any) -> Any:
        if not weights.shape[0]:
            return weights
        currents = (xp.sign(weights) * xp.abs(weights) ** (p - 1)) @ x
        # The largest first, of equal ones the one that comes first.
        order = xp.argsort(-currents, stable=True)
        places = xp.arange(weights.shape[0], device=device(W))
        g = xp.where(places == order[0], xp.ones_like(currents), xp.zeros_like(currents))
        if rank <= weights.shape[0]:
            g = xp.where(places == order[rank - 1], xp.full_like(currents, -delta), g)
        return weights + float(lr[t]) * g[:, None] * (x[None, :] - currents[:, None] * weights)

    return learn("hebbian.krotov", W, X, step)


def soft_hebb(W: Any, X: Any, lr: Any, temperature: float) -> Any:
    """Let w_i ← w_i + η y_i (x − u_i w_i), u = W x, y = softmax(u / temperature)."""
    xp = array_namespace(W)

    def step(t: int, weights: Any, x: Any) -> Any:
        if not weights.shape[0]:
            return weights
        u = weights @ x
        y = xp.exp((u - xp.max(u)) / temperature)
        y = y / xp.sum(y)
        return weights + float(lr[t]) * y[:, None] * (x[None, :] - u[:, None] * weights)

    return learn("hebbian.soft_hebb", W, X, step)


def foldiak(
    W: Any,
    X: Any,
    lateral: Any,
    threshold: Any,
    lr: Any,
    lateral_lr: float,
    threshold_lr: float,
    activity: float,
    steepness: float,
    steps: int,
) -> tuple[Any, Any, Any, None]:
    """Földiák's rule: units excite by Hebb's rule, inhibit each other by the opposite one, and keep an activity p.

    u settles by u ← u + (f(W x + V u − θ) − u)/10, f(a) = 1/(1 + e^(−λa)), from 0; y = [u > ½]. Then
    W ← W + η y (x − W), V ← V − α (y yᵀ − p²) with 0 on the diagonal and above 0, θ ← θ + γ (y − p).
    """
    xp = array_namespace(W)
    inhibition, bar = wide(lateral), wide(threshold)

    def step(t: int, weights: Any, x: Any) -> Any:
        nonlocal inhibition, bar
        drive = weights @ x - bar
        u = xp.zeros_like(drive)
        for _ in range(steps):
            u = u + 0.1 * (1 / (1 + xp.exp(-steepness * (drive + inhibition @ u))) - u)
        y = xp.astype(u > 0.5, xp.float64)
        inhibition = inhibition - lateral_lr * (outer(y, y) - activity**2)
        inhibition = xp.where(inhibition > 0, xp.zeros_like(inhibition), inhibition)
        inhibition = inhibition - diagonal(inhibition)
        bar = bar + threshold_lr * (y - activity)
        for state in (inhibition, bar):
            check_finite("hebbian.foldiak", state, W, t)
        return weights + float(lr[t]) * y[:, None] * (x[None, :] - weights)

    weights = learn("hebbian.foldiak", W, X, step)
    return (
        weights,
        xp.astype(inhibition, W.dtype, copy=False),
        xp.astype(bar, W.dtype, copy=False),
        None,
    )


def ccipca(V: Any, X: Any, count: int, amnesic: float) -> Any:
    """Let v ← (1 − (1+l)/n) v + ((1+l)/n) u (u·v)/‖v‖, then u ← u − (u·v) v/‖v‖², a unit after the other, from u = x.

    n counts the samples from 1 on. Sample n sets v_n = u, as does any sample for a row of zeros, and nothing is then
    left of u: not even a rounding, which the next row of zeros would take for a direction. l is `amnesic` when
    n > 1 + amnesic, and 0 before.
    """
    xp = array_namespace(V)

    def direction(v: Any) -> Any:
        return unit_rows(v[None, :])[0, :]

    def step(t: int, weights: Any, x: Any) -> Any:
        n = count + t + 1
        share = (1 + (amnesic if n > 1 + amnesic else 0)) / n
        rows, u = [], x
        for i in range(weights.shape[0]):
            v = weights[i, :]
            if i == n - 1 or (i < n and not bool(xp.any(v != 0))):
                v, u = u, xp.zeros_like(u)
            elif i < n:
                v = (1 - share) * v + share * u * xp.sum(u * direction(v))
                u = u - xp.sum(u * direction(v)) * direction(v)
            rows.append(v)
        return xp.stack(rows) if rows else weights

    return learn("hebbian.ccipca", V, X, step)


def center(X: Any, mean: Any, count: int, after: Any) -> Any:
    """Give x_t − m_t, m_t the mean of all samples up to x_t, and leave the last mean in `after`.

    `mean` is that of `count` samples that came before. Both are NumPy arrays of float64.
    """
    xp = array_namespace(X)
    middle, rows = xp.asarray(mean, copy=True), []
    samples = wide(X)
    for t in range(X.shape[0]):
        middle = middle + (samples[t, :] - middle) / (count + t + 1)
        rows.append(samples[t, :] - middle)
    after[...] = middle
    return xp.astype(xp.stack(rows) if rows else samples, X.dtype, copy=False)
