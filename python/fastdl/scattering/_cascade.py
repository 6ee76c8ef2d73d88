"""The fast wavelet transform of images, a cascade of orthogonal filters, and its inverse."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind
from fastdl._dispatch import Operation
from fastdl.scattering._checks import whole

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray

_transform = Operation("scattering.wavelet_transform2d", "x")
_inverse = Operation("scattering.inverse_wavelet_transform2d", "approximation")

_MOST_MOMENTS = 10


@lru_cache
def wavelet_filters(wavelet: str) -> tuple[HostArray, HostArray]:
    """Give the low-pass and the high-pass of a Daubechies wavelet, ``"db1"`` to ``"db10"``; ``"haar"`` is the first.

    The low-pass has p zeros at -1; the rest of it is a root of the polynomial of Daubechies, of which those roots are
    taken that lie inside the unit circle.
    """
    moments = 1 if wavelet == "haar" else int(wavelet[2:])
    polynomial = [math.comb(moments - 1 + k, k) for k in range(moments)]  # in y = (2 - z - 1/z) / 4
    low = np.array([1.0])
    for root in np.roots(polynomial[::-1]):
        pair = np.roots([1, 4 * root - 2, 1])
        low = np.convolve(low, [1, -pair[np.argmin(abs(pair))]])
    for _ in range(moments):
        low = np.convolve(low, [1.0, 1.0])
    low = low.real * (math.sqrt(2) / low.real.sum())
    return low, low[::-1] * (-1.0) ** np.arange(len(low))


def _filters(where: str, wavelet: Any) -> tuple[HostArray, HostArray]:
    wanted = f"wavelet to be 'haar' or 'db1' to 'db{_MOST_MOMENTS}'"
    if not isinstance(wavelet, str):
        raise TypeError(f"[{where}] expected {wanted}, got {kind(wavelet)}")
    if wavelet not in ("haar", *(f"db{p}" for p in range(1, _MOST_MOMENTS + 1))):
        raise ValueError(f"[{where}] expected {wanted}, got {wavelet!r}")
    return wavelet_filters(wavelet)


def wavelet_transform2d(x: Array, J: int, wavelet: str = "haar") -> tuple[Array, list[Array]]:
    r"""Compute the fast wavelet transform of images, periodic at their edges.

    Parameters
    ----------
    x : array of shape (..., M, N)
        Images; M and N are multiples of :math:`2^J`.
    J : int
        Number of scales, at least 1.
    wavelet : str, default "haar"
        ``"haar"``, or a wavelet of Daubechies with 1 to 10 vanishing moments, ``"db1"`` to ``"db10"``.

    Returns
    -------
    approximation : array of shape (..., M / 2^J, N / 2^J)
        The average at the largest scale.
    details : list of J arrays of shape (..., 3, M / 2^j, N / 2^j), j = 1 to J
        What each scale takes away: differences across, down, and both.

    Raises
    ------
    ValueError
        If a size is no multiple of :math:`2^J`, or there is no such wavelet.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    With the low-pass h and the high-pass g, :math:`x_j = (h h) \star x_{j-1}` at every second sample, and the details
    are the same with g across, down, and both. The transform is orthogonal: its adjoint, by which gradients go back,
    is `inverse_wavelet_transform2d`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.scattering import wavelet_transform2d
    >>> approximation, details = wavelet_transform2d(np.ones((4, 4)), 1)
    >>> approximation
    array([[2., 2.],
           [2., 2.]])
    """
    where = _transform.name
    call = _transform.begin(x)
    scales = whole(where, "J", J, 1, 60)
    filters = _filters(where, wavelet)
    found = tuple(call.arrays[0].shape)
    if len(found) < 2 or found[-1] % 2**scales or found[-2] % 2**scales:
        raise ValueError(f"[{where}] expected x of shape (..., M, N) with multiples of {2**scales}, got {found}")
    if call.backend != "native":
        call.backend = "reference"
        return call.finish((), None, scales, *filters)  # type: ignore[no-any-return]
    *batch, height, width = found
    approximation = call.room((*batch, height >> scales, width >> scales))
    details = [call.room((*batch, 3, height >> scale, width >> scale)) for scale in range(1, scales + 1)]
    call.run(np.ascontiguousarray(call.arrays[0]), *filters, approximation, details)
    return call.home(approximation), [call.home(detail) for detail in details]


def inverse_wavelet_transform2d(approximation: Array, details: list[Array], wavelet: str = "haar") -> Array:
    """Compute images back from their fast wavelet transform.

    Parameters
    ----------
    approximation : array of shape (..., M / 2^J, N / 2^J)
        The average at the largest scale.
    details : list of J arrays
        The details of all scales, from the finest on, as `wavelet_transform2d` gives them.
    wavelet : str, default "haar"
        The wavelet that they were made with.

    Returns
    -------
    array of shape (..., M, N)

    Raises
    ------
    ValueError
        If shapes do not fit, or there is no such wavelet.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.scattering import inverse_wavelet_transform2d, wavelet_transform2d
    >>> x = np.arange(64.0).reshape(8, 8)
    >>> np.allclose(inverse_wavelet_transform2d(*wavelet_transform2d(x, 2, "db2"), "db2"), x)
    True
    """
    where = _inverse.name
    filters = _filters(where, wavelet)
    if not isinstance(details, (list, tuple)):
        raise TypeError(f"[{where}] expected details to be a list of arrays, got {kind(details)}")
    names = [f"details[{number}]" for number in range(len(details))]
    operation = Operation(where, "approximation", *names)
    call = operation.begin(approximation, *details)
    first, *rest = call.arrays
    if first.ndim < 2:
        raise ValueError(f"[{where}] expected approximation of shape (..., M, N), got {tuple(first.shape)}")
    for name, part, scale in zip(names, rest, range(len(rest) - 1, -1, -1), strict=True):
        wanted = (*first.shape[:-2], 3, *(size * 2**scale for size in first.shape[-2:]))
        if tuple(part.shape) != wanted:
            raise ValueError(f"[{where}] expected {name} of shape {wanted}, got {tuple(part.shape)}")
    if call.backend == "native":
        *batch, height, width = first.shape
        out = call.room((*batch, height << len(rest), width << len(rest)))
        call.run(np.ascontiguousarray(first), [np.ascontiguousarray(part) for part in rest], *filters, out)
        return call.home(out)
    arrays = [call.readable(array) for array in call.arrays]
    with np.errstate(all="ignore"):  # as every other reference is called
        return call.sent_home(_inverse.reference(arrays[0], arrays[1:], *filters))
