"""Kernels of infinitely wide ReLU networks: all of them are functions of norms and of the angle between two samples.

The angle is always atan2(s, S) with s² = S(x,x) S(y,y) − S(x,y)². That difference cancels where two samples are nearly
parallel, so s is never computed from it: it is carried from layer to layer along with q = S(x,x) + S(y,y) − 2 S(x,y),
from start values that come from the differences of the samples.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from fastdl.reference.pairs import divide, finish, nonnegative, row_blocks, wide


class State(NamedTuple):
    """The covariances at one layer: S(x,x) as a column, S(y,y) as a row, and S(x,y), s and q for all pairs."""

    xx: Any
    yy: Any
    xy: Any
    s: Any
    q: Any


def norms(X: Any) -> Any:
    """Give the norms of the rows, without overflow."""
    xp = array_namespace(X)
    if not X.shape[1]:
        return xp.zeros((X.shape[0],), dtype=X.dtype, device=device(X))
    largest = xp.max(xp.abs(X), axis=1)
    scaled = divide(X, xp.broadcast_to(largest[:, None], X.shape))
    return largest * xp.sqrt(xp.sum(scaled * scaled, axis=1))


class Directions(NamedTuple):
    """The norms of two sets of samples, and the cosines and sines of the angles between them."""

    x: Any
    y: Any
    cosine: Any
    sine: Any


def directions(X: Any, Y: Any) -> Directions:
    """Compare samples of float64 by their unit vectors u and v.

    ‖u−v‖ = 2 sin(θ/2) and ‖u+v‖ = 2 cos(θ/2), so sin θ is half their product.
    """
    xp = array_namespace(X)
    x, y = norms(X), norms(Y)
    u, v = (divide(Z, xp.broadcast_to(z[:, None], Z.shape)) for Z, z in ((X, x), (Y, y)))
    sine = [xp.zeros((0, Y.shape[0]), dtype=xp.float64, device=device(X))]
    for part in row_blocks(X.shape[0], Y.shape[0] * X.shape[1]):
        chord = xp.sum((u[part, None, :] - v[None, :, :]) ** 2, axis=-1)
        other = xp.sum((u[part, None, :] + v[None, :, :]) ** 2, axis=-1)
        sine.append(0.5 * xp.sqrt(chord * other))
    return Directions(x[:, None], y[None, :], u @ v.T, xp.concat(sine, axis=0))


def start(X: Any, Y: Any) -> State:
    """Take the covariances of the samples themselves, in float64."""
    xp = array_namespace(X)
    X, Y = wide(X), wide(Y)
    pair = directions(X, Y)
    square = [xp.zeros((0, Y.shape[0]), dtype=xp.float64, device=device(X))]
    for part in row_blocks(X.shape[0], Y.shape[0] * X.shape[1]):
        square.append(xp.sum((X[part, None, :] - Y[None, :, :]) ** 2, axis=-1))
    s = pair.x * pair.y * pair.sine
    # A sample that is not finite has no angles, and then no distances either: NaN and Inf together would make Inf.
    q = xp.where(xp.isnan(s), s, xp.concat(square, axis=0))
    return State(pair.x * pair.x, pair.y * pair.y, X @ Y.T, s, q)


def angle(s: Any, xy: Any) -> Any:
    """atan2(s, S), and π/2 where both are 0."""
    xp = array_namespace(s)
    theta = xp.atan2(s, xy)
    return xp.where((s == 0) & (xy == 0), xp.full_like(theta, math.pi / 2), theta)


def sine_defect(theta: Any) -> Any:
    """Sin θ − θ cos θ for θ ≥ 0, by its series where the terms cancel."""
    xp = array_namespace(theta)
    square = theta * theta
    # The next term is 1e-17 of the first at the limit.
    series = theta * square * (1 / 3 - square * (1 / 30 - square * (1 / 840 - square * (1 / 45360 - square / 3991680))))
    return xp.where(theta < 0.25, series, xp.sin(theta) - theta * xp.cos(theta))


def dense(state: State, w_std: float, b_std: float) -> State:
    """Go through a dense layer: S ← w² S + b², and what follows from it for s and q."""
    xp = array_namespace(state.xy)
    w, b = w_std * w_std, b_std * b_std
    return State(
        w * state.xx + b,
        w * state.yy + b,
        w * state.xy + b,
        xp.hypot(w * state.s, w_std * b_std * xp.sqrt(state.q)),
        w * state.q,
    )


def relu(state: State, theta: Any) -> State:
    """Go through a ReLU: S ← E[relu(f) relu(g)] for (f, g) with covariance S."""
    xp = array_namespace(theta)
    defect = sine_defect(theta) / math.pi
    radius = xp.sqrt(state.xx) * xp.sqrt(state.yy)
    # The new correlation is κ = cos θ + (sin θ − θ cos θ)/π; 1 − κ and 1 + κ give the new s without cancelling.
    below, above = 2 * xp.sin(theta / 2) ** 2 - defect, 2 * xp.cos(theta / 2) ** 2 + defect
    return State(
        state.xx / 2,
        state.yy / 2,
        state.s / (2 * math.pi) + (0.5 - theta / (2 * math.pi)) * state.xy,
        radius / 2 * xp.sqrt(nonnegative(below) * above),
        nonnegative(state.q / 2 - radius * defect),
    )


def arc_cosine(X: Any, Y: Any | None, order: int) -> Any:
    """(1/π)(‖x‖‖y‖)^n J_n(θ)."""
    other = X if Y is None else Y
    if order == 0:  # an angle has no size, whatever the samples have
        pair = directions(wide(X), wide(other))
        return finish(1 - angle(pair.sine, pair.cosine) / math.pi, X, Y)
    state = start(X, other)
    rest = math.pi - angle(state.s, state.xy)
    if order == 1:
        K = state.s + rest * state.xy
    else:
        K = 3 * state.s * state.xy + rest * (state.xx * state.yy + 2 * state.xy * state.xy)
    return finish(K / math.pi, X, Y)


def _network(X: Any, Y: Any | None, depth: int, w_std: float, b_std: float, normalize: bool) -> tuple[Any, Any]:
    """Give S and Θ after Dense, (ReLU, Dense) × depth."""
    state = start(X, X if Y is None else Y)
    if normalize and X.shape[1]:
        state = State(*(value / X.shape[1] for value in state))
    state = dense(state, w_std, b_std)
    tangent = state.xy
    for _ in range(depth):
        theta = angle(state.s, state.xy)
        state = dense(relu(state, theta), w_std, b_std)
        tangent = state.xy + w_std * w_std * (0.5 - theta / (2 * math.pi)) * tangent
    return finish(state.xy, X, Y), finish(tangent, X, Y)


def nngp(X: Any, Y: Any | None, depth: int, w_std: float, b_std: float, normalize: bool) -> Any:
    """S of the output: the covariance of a random network."""
    return _network(X, Y, depth, w_std, b_std, normalize)[0]


def ntk(X: Any, Y: Any | None, depth: int, w_std: float, b_std: float, normalize: bool) -> Any:
    """Θ of the output: the tangent kernel of a network at its start."""
    return _network(X, Y, depth, w_std, b_std, normalize)[1]


def _shifted(A: Any, offset: int, axes: tuple[int, ...]) -> Any:
    """Give A[… + offset …] along several axes at once, 0 outside."""
    xp = array_namespace(A)
    for axis in axes:
        size = A.shape[axis]
        cut = [slice(None)] * len(A.shape)
        cut[axis] = slice(max(0, offset), max(0, size + min(0, offset)))
        kept = A[tuple(cut)]
        shape = list(A.shape)
        shape[axis] = size - kept.shape[axis]
        zeros = xp.zeros(tuple(shape), dtype=A.dtype, device=device(A))
        A = xp.concat([kept, zeros] if offset > 0 else [zeros, kept], axis=axis)
    return A


def box(A: Any, kernel_size: int, rows: tuple[int, ...], columns: tuple[int, ...]) -> Any:
    """Average over kernel_size² offsets, each taken along all axes of rows and of columns together; 0 outside.

    Of an even size one more offset is positive than negative, as in a convolution with padding "same".
    """
    for axes in (rows, columns):
        total, size = A, A.shape[axes[0]]
        for offset in range(1, min(kernel_size // 2, size - 1) + 1):
            total = total + _shifted(A, offset, axes)
            if 2 * offset < kernel_size:
                total = total + _shifted(A, -offset, axes)
        A = total / kernel_size
    return A


def cntk(X: Any, Y: Any | None, depth: int, kernel_size: int, pooling: str) -> Any:
    """Tangent kernel of (convolution, ReLU) × depth, pooling over the positions, and a dense layer."""
    xp = array_namespace(X)
    first, second = wide(X), wide(X if Y is None else Y)
    if depth == 0 and pooling == "mean":  # nothing but linear layers, so pooling may come first
        first, second = (xp.mean(images, axis=(2, 3), keepdims=True) for images in (first, second))
    m, channels, height, width = second.shape
    positions = height * width
    columns = xp.reshape(second, (m, channels, positions))

    def variances(images: Any) -> list[Any]:
        """S(x,x)[p,p] at every layer: a ReLU with this normalisation keeps it, so it is filtered again and again."""
        S, found = xp.sum(images * images, axis=1), []
        for _ in range(depth):
            S = box(S, kernel_size, (1,), (2,))
            found.append(xp.reshape(S, (images.shape[0], positions)))
        return found

    rows_variances, columns_variances = variances(first), variances(second)
    results = []
    for i in range(X.shape[0]):
        x = xp.reshape(first[i, ...], (channels, positions))
        S = xp.reshape(xp.matmul(x.T, columns), (m, height, width, height, width))
        T = S
        for layer in range(depth):
            S, T = (box(value, kernel_size, (1, 3), (2, 4)) for value in (S, T))
            xx = xp.reshape(rows_variances[layer][i, :], (1, height, width, 1, 1))
            yy = xp.reshape(columns_variances[layer], (m, 1, 1, height, width))
            s = xp.sqrt(nonnegative(xx * yy - S * S))
            theta = angle(s, S)
            S = (s + (math.pi - theta) * S) / math.pi
            T = (1 - theta / math.pi) * T + S
        T = xp.reshape(T, (m, positions * positions))
        if pooling == "flatten":
            T = T[:, :: positions + 1]
        results.append(xp.mean(T, axis=1))
    K = xp.stack(results) if results else xp.zeros((0, m), dtype=xp.float64, device=device(X))
    return finish(K, X, Y)
