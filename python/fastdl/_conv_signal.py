"""Convolution of signals with any number of axes, and the matrices it is a product with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fastdl._conv_checks import choice, whole
from fastdl._dispatch import Operation

if TYPE_CHECKING:
    from fastdl._arrays import Array

_MODES = ("full", "same", "valid", "circular")
_METHODS = ("auto", "direct", "fft", "overlap_add")

# What the CUDA kernel can do, and up to how many elements of the smaller signal "auto" takes it: beyond, the transforms
# of the arrays' own library are quicker.
_CUDA_AXES = 3
_CUDA_DIRECT = 4096

_convolve = Operation("conv.convolve", "f", "h")


def convolve(f: Array, h: Array, mode: str = "full", method: str = "auto") -> Array:
    r"""Convolution of two signals.

    Parameters
    ----------
    f : array of shape (n, ...)
        A signal with any number of axes, but at least one, and no axis of size 0.
    h : array of shape (m, ...)
        Another with as many axes.
    mode : {"full", "same", "valid", "circular"}, default "full"
        All of it, n + m - 1 along an axis; its middle, of the size of `f`; the part where the smaller one lies within
        the larger one, \|n - m\| + 1 along an axis; or the convolution of periodic signals, of the size of `f`, for
        which `h` is filled up with zeros or, where it is longer, wrapped around.
    method : {"auto", "direct", "fft", "overlap_add"}, default "auto"
        The sum itself; the product of Fourier transforms, of the whole or of pieces of the longer signal; or what is
        quicker for these sizes. Transforms spread rounding errors, NaN and Inf over the whole result or piece.

    Returns
    -------
    array
        In the library and dtype of `f`. Sizes and centring are those of ``scipy.signal.convolve``.

    Raises
    ------
    ValueError
        If the shapes do not fit, or there is no such mode or method.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: (f * h)[u] = \sum_t f[t]\, h[u - t]

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0]))
    array([ 1.,  1.,  1., -3.])
    >>> conv.convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0]), mode="circular")
    array([-2.,  1.,  1.])
    """
    return _signal(_convolve, f, h, mode, method)


_correlate = Operation("conv.correlate", "f", "h")


def correlate(f: Array, h: Array, mode: str = "full", method: str = "auto") -> Array:
    r"""Correlation of two signals: the convolution with `h` reversed.

    Parameters
    ----------
    f : array of shape (n, ...)
        A signal, as in `convolve`.
    h : array of shape (m, ...)
        Another with as many axes.
    mode : {"full", "same", "valid", "circular"}, default "full"
        As in `convolve`. The circular correlation is the product with the transposed circulant matrix.
    method : {"auto", "direct", "fft", "overlap_add"}, default "auto"
        As in `convolve`.

    Returns
    -------
    array
        In the library and dtype of `f`. Sizes and centring are those of ``scipy.signal.correlate``.

    Raises
    ------
    ValueError
        If the shapes do not fit, or there is no such mode or method.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: (f \star h)[u] = \sum_t f[t]\, h[t - u]

    In full, the first element is that of :math:`u = 1 - m`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.correlate(np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0]))
    array([-1., -1., -1.,  3.])
    """
    return _signal(_correlate, f, h, mode, method)


def _signal(operation: Operation, f: Array, h: Array, mode: str, method: str) -> Array:
    where = operation.name
    call = operation.begin(f, h)
    first, second = (tuple(array.shape) for array in call.arrays)
    for name, shape in (("f", first), ("h", second)):
        if not shape or 0 in shape:
            raise ValueError(
                f"[{where}] expected {name} with at least one axis and no axis of size 0, got shape {shape}"
            )
    if len(first) != len(second):
        raise ValueError(f"[{where}] expected h with {len(first)} axes like f, got shape {second}")
    mode = choice(where, "mode", mode, _MODES)
    method = choice(where, "method", method, _METHODS)
    pairs = list(zip(first, second, strict=True))
    if mode == "valid" and any(n < m for n, m in pairs) and any(n > m for n, m in pairs):
        raise ValueError(
            f"[{where}] expected one array to fit in the other with 'valid', got shapes {first} and {second}"
        )
    if mode == "full":
        shape = tuple(n + m - 1 for n, m in pairs)
    else:
        shape = tuple(abs(n - m) + 1 for n, m in pairs) if mode == "valid" else first
    if call.backend == "cuda" and not _fits_kernel(first, second, method):
        call.backend = "reference"
    return call.finish(shape, None, mode, method)


def _fits_kernel(first: tuple[int, ...], second: tuple[int, ...], method: str) -> bool:
    """Tell whether the CUDA kernel, which does the sum itself, is for signals of these shapes."""
    if len(first) > _CUDA_AXES or method not in ("auto", "direct"):
        return False
    return method == "direct" or min(math.prod(first), math.prod(second)) <= _CUDA_DIRECT


_circulant = Operation("conv.circulant", "h")


def circulant(h: Array) -> Array:
    r"""Matrix of the circular convolution with `h`.

    Parameters
    ----------
    h : array of shape (n,)
        A signal.

    Returns
    -------
    array of shape (n, n)
        With entries ``h[(i - j) % n]``: its product with f is ``convolve(f, h, "circular")``, and that of its transpose
        ``correlate(f, h, "circular")``.

    Raises
    ------
    ValueError
        If `h` has not one axis.
    TypeError
        If the dtype is not float32, float64, integer or bool.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.circulant(np.array([1.0, 2.0, 3.0]))
    array([[1., 3., 2.],
           [2., 1., 3.],
           [3., 2., 1.]])
    """
    call = _circulant.begin(h)
    (signal,) = call.arrays
    if signal.ndim != 1:
        raise ValueError(f"[conv.circulant] expected h of shape (n,), got {tuple(signal.shape)}")
    n = signal.shape[0]
    return call.finish((n, n))


_toeplitz = Operation("conv.toeplitz", "h")


def toeplitz(h: Array, n: int) -> Array:
    r"""Matrix of the full convolution with `h` of signals of n elements.

    Parameters
    ----------
    h : array of shape (m,)
        A signal of at least one element.
    n : int
        Length of the signals the matrix is for.

    Returns
    -------
    array of shape (n + m - 1, n)
        With entries ``h[i - j]``, and 0 where there is none: its product with f is ``convolve(f, h)``.

    Raises
    ------
    ValueError
        If `h` has not one axis or no element, or `n` is negative.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.toeplitz(np.array([1.0, 2.0]), 3)
    array([[1., 0., 0.],
           [2., 1., 0.],
           [0., 2., 1.],
           [0., 0., 2.]])
    """
    call = _toeplitz.begin(h)
    (signal,) = call.arrays
    if signal.ndim != 1 or not signal.shape[0]:
        raise ValueError(f"[conv.toeplitz] expected h of shape (m,) with m of at least 1, got {tuple(signal.shape)}")
    n = whole("conv.toeplitz", "n", n, 0)
    return call.finish((n + signal.shape[0] - 1, n), None, n)
