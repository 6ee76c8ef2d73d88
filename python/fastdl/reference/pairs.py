"""What the references of all pairs of rows share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Elements of a temporary: 32 MB in float64, whatever the sizes of the arguments.
BLOCK = 1 << 22


def symmetric(K: Any) -> Any:
    """Repeat the lower triangle in the upper one: a matrix product alone need not be symmetric to the last bit."""
    xp = array_namespace(K)
    i = xp.arange(K.shape[0], device=device(K))
    return xp.where(i[:, None] >= i[None, :], K, K.T)


def wide(X: Any) -> Any:
    """Give the same numbers in float64: the references compute in it and round once, at the end."""
    xp = array_namespace(X)
    return xp.astype(X, xp.float64, copy=False)


def nonnegative(a: Any) -> Any:
    """Clip at 0; NaN stays."""
    xp = array_namespace(a)
    return xp.where(a < 0, xp.zeros_like(a), a)


def divide(a: Any, b: Any) -> Any:
    """Give a / b, and 0 where b is 0."""
    xp = array_namespace(b)
    nothing = b == 0
    return xp.where(nothing, xp.zeros_like(b), a / xp.where(nothing, xp.ones_like(b), b))


def row_blocks(n: int, width: int, size: int = BLOCK) -> Iterator[slice]:
    """Cut n rows of `width` elements into blocks of at most `size` elements, but of one row at least."""
    step = max(1, size // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def by_rows(X: Any, Y: Any | None, formula: Callable[[Any, Any], Any]) -> Any:
    """Make K of the result of `formula(x, y)` for x (b, 1, d), a block of rows of X, and y (1, m, d), all those of Y.

    The formula reduces the last axis, in float64. K is in the dtype of X, and symmetric to the bit without Y.
    """
    xp = array_namespace(X)
    rows, columns = wide(X), wide(X if Y is None else Y)
    m, d = columns.shape
    parts = [formula(rows[part, None, :], columns[None, :, :]) for part in row_blocks(X.shape[0], m * d)]
    K = xp.concat(parts, axis=0) if parts else xp.zeros((0, m), dtype=xp.float64, device=device(X))
    return finish(K, X, Y)


def finish(K: Any, X: Any, Y: Any | None) -> Any:
    """Round to the dtype of X, and mirror the lower triangle without Y."""
    K = array_namespace(K).astype(K, X.dtype, copy=False)
    return symmetric(K) if Y is None else K
