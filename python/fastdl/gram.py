"""Gram matrices: ``K[i, j] = k(x_i, y_j)`` for the rows of two sets of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastdl._dispatch import Operation

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._dispatch import Call

__all__ = ["linear"]


def _pairs(call: Call) -> tuple[int, int]:
    """Check that the first two arrays are samples with the same features; give the shape of their Gram matrix."""
    X, Y = call.arrays[:2]
    if X.ndim != 2:
        raise ValueError(f"[{call.operation.name}] expected X of shape (n, d), got {tuple(X.shape)}")
    n, d = X.shape
    if Y is None:
        return n, n
    if Y.ndim != 2 or Y.shape[1] != d:
        raise ValueError(f"[{call.operation.name}] expected Y of shape (m, {d}), got {tuple(Y.shape)}")
    return n, Y.shape[0]


_linear = Operation("gram.linear", "X", "Y?")


def linear(X: Array, Y: Array | None = None, *, out: Array | None = None) -> Array:
    r"""Inner products of all pairs of rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row. Any strides; never written.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    out : array of shape (n, m), optional
        Where to put the result: of the library and dtype of the result, writable, and sharing no memory with an
        input.

    Returns
    -------
    array of shape (n, m)
        In the library and on the device of `X`; `out` itself if it was given. float32 if all inputs are, else
        float64.

    Raises
    ------
    ValueError
        If the shapes do not fit, or `out` is read-only or overlaps an input.
    TypeError
        If a dtype is not float32, float64, integer or bool, or `out` is of another dtype or library.

    Notes
    -----
    .. math:: K_{ij} = \sum_f X_{if} Y_{jf}

    With ``Y=None`` the compiled code does half the work, and K is symmetric to the bit. Compiled results do not
    depend on the number of threads, nor on how the rows are split over several calls, to the bit. NaN and Inf reach
    only the rows and columns of the samples they are in.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.linear(X)
    array([[ 5., 11.],
           [11., 25.]])
    >>> gram.linear(X, np.array([[1.0, 0.0]], dtype=np.float32))
    array([[1.],
           [3.]])
    """
    call = _linear.begin(X, None if Y is X else Y)
    return call.finish(_pairs(call), out)
