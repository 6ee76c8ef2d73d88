"""What is made of a kernel, by its name and its parameters by name, without forming its whole Gram matrix."""

from __future__ import annotations

import math
from typing import Any

from array_api_compat import array_namespace, device

from fastdl.reference.gram_networks import angle, norms
from fastdl.reference.pairs import by_rows, finish, nonnegative, row_blocks, wide


def by_reference(kernel: str, X: Any, Y: Any | None, parameters: dict[str, Any]) -> Any:
    """Evaluate a kernel by the reference of its name."""
    from fastdl.reference import gram

    return getattr(gram, kernel)(X, Y, **parameters)


def diag(X: Any, kernel: str, parameters: dict[str, Any]) -> Any:
    """k(x, x) for every row."""
    xp = array_namespace(X)
    return xp.astype(_diag(wide(X), kernel, **parameters), X.dtype, copy=False)


def _diag(X: Any, kernel: str, **parameters: Any) -> Any:
    xp = array_namespace(X)
    square = xp.sum(X * X, axis=1)
    if kernel == "linear":
        return square
    if kernel == "polynomial":
        return (parameters["gamma"] * square + parameters["coef0"]) ** parameters["degree"]
    if kernel == "sigmoid":
        return xp.tanh(parameters["gamma"] * square + parameters["coef0"])
    if kernel == "geometric":
        return 1 / (1 - parameters["alpha"] ** 2 * square)
    # 0, and NaN for the samples that are not finite.
    difference = xp.sum(X - X, axis=1)
    if kernel == "additive_chi2":
        return difference
    if kernel in ("rbf", "laplacian", "chi2", "matern"):
        return 1 + difference
    if kernel == "sinc":
        return xp.full_like(square, parameters["omega"] / math.pi) ** X.shape[1] + difference
    zero = norms(X) == 0
    if kernel == "cosine":
        return xp.where(zero, xp.zeros_like(square), 1 + difference)
    if kernel == "arc_cosine":
        if parameters["order"] == 0:
            return xp.where(zero, xp.full_like(square, 0.5), 1 + difference)
        return difference + (square if parameters["order"] == 1 else 3 * square * square)
    w, b = (parameters[name] * parameters[name] for name in ("w_std", "b_std"))
    S = square / X.shape[1] if parameters["normalize"] and X.shape[1] else square
    S = w * S + b
    tangent = S
    for _ in range(parameters["depth"]):
        theta = angle(xp.zeros_like(S), S)
        S = w * S / 2 + b + difference
        tangent = S + w * (0.5 - theta / (2 * math.pi)) * tangent
    return S if kernel == "nngp" else tangent


def matvec(X: Any, v: Any, Y: Any | None, kernel: str, parameters: dict[str, Any]) -> Any:
    """K(X, Y) v, a block of rows at a time."""
    xp = array_namespace(X)
    other = X if Y is None else Y
    parts = [by_reference(kernel, X[part, :], other, parameters) @ v for part in row_blocks(X.shape[0], other.shape[0])]
    return xp.concat(parts, axis=0) if parts else xp.zeros((0, *v.shape[1:]), dtype=X.dtype, device=device(X))


def softmax_matvec(Q: Any, K: Any, V: Any, scale: float) -> Any:
    """Row-softmax(scale Q Kᵀ) V, a block of rows at a time. Without keys the sum is empty, and 0."""
    xp = array_namespace(Q)
    n, m = Q.shape[0], K.shape[0]
    if not n or not m:
        return xp.zeros((n, *V.shape[1:]), dtype=Q.dtype, device=device(Q))
    queries, keys, values = wide(Q), wide(K), wide(V)
    parts = []
    for part in row_blocks(n, m):
        score = scale * (queries[part, :] @ keys.T)
        weight = xp.exp(score - xp.max(score, axis=1, keepdims=True))
        parts.append((weight / xp.sum(weight, axis=1, keepdims=True)) @ values)
    return xp.astype(xp.concat(parts, axis=0), Q.dtype, copy=False)


def distance(X: Any, Y: Any | None, kernel: str, parameters: dict[str, Any]) -> Any:
    """K(x,x) + K(y,y) − 2 K(x,y), clipped at 0, in the place of K; ‖x−y‖² itself for the linear kernel."""
    xp = array_namespace(X)
    if kernel == "linear":
        return by_rows(X, Y, lambda x, y: xp.sum((x - y) ** 2, axis=-1))
    K = by_reference(kernel, X, Y, parameters)
    rows = diag(X, kernel, parameters)
    columns = rows if Y is None else diag(Y, kernel, parameters)
    i = xp.arange(K.shape[1], device=device(K))
    for part in row_blocks(*K.shape):
        block = nonnegative((rows[part, None] + columns[None, :]) - 2 * K[part, :])
        if Y is None:
            # 0 for a sample and itself, but not where the kernel is not finite.
            block = xp.where(i[part, None] == i[None, :], 0 * K[part, :], block)
        K[part, :] = block
    return K


def invariant(X: Any, Y: Any | None, permutations: Any, kernel: str, parameters: dict[str, Any]) -> Any:
    """Σ_g Σ_g' k(gx, g'y)."""
    xp = array_namespace(X)
    other = X if Y is None else Y
    orders = [xp.asarray([int(i) for i in order], dtype=xp.int64, device=device(X)) for order in permutations]
    total = xp.zeros((X.shape[0], other.shape[0]), dtype=xp.float64, device=device(X))
    for first in orders:
        for second in orders:
            x, y = xp.take(X, first, axis=1), xp.take(other, second, axis=1)
            total = total + wide(by_reference(kernel, x, y, parameters))
    return finish(total, X, Y)
