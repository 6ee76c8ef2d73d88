"""Scattering of images on the group of rotations and translations."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastdl._dispatch import Operation
from fastdl.scattering._checks import batch_of, grad_of, scales_fit, sizes, whole
from fastdl.scattering._filters import bank_2d, frozen
from fastdl.scattering._native import roto_plan_of
from fastdl.scattering._range import scaled, unscaled
from fastdl.scattering._tree import reflection

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray
    from fastdl._dispatch import Call

    Rows = tuple[tuple[HostArray, HostArray], ...]


class Bank(NamedTuple):
    """A transform of images of one shape, as the reference reads it.

    `first` has the wavelets (J, L, M, N) of the padded size; `second` those that follow scale j1, on its coarser grid;
    `angular` a matrix (2 L, 2 L) for each filter along the angles; `shift` takes the centre of an image to the origin.
    `low` and `mean` have, for each resolution, the rows that average down and across. `plans` are those of the kernels,
    by precision, and whether they are for means.
    """

    shape: tuple[int, int]
    padding: tuple[HostArray, ...]
    shift: HostArray
    first: HostArray
    second: tuple[HostArray, ...]
    angular: HostArray
    low: Rows
    mean: Rows
    J: int
    L: int
    max_order: int
    phases: tuple[HostArray, ...]
    plans: dict[Any, Any]


def _phases(size: int, centre: float) -> HostArray:
    """Give the spectrum of a shift by -centre that takes real signals to real ones."""
    frequencies = np.fft.fftfreq(size)
    phases: HostArray = np.exp(2j * np.pi * frequencies * centre)
    if size % 2 == 0:
        phases[size // 2] = phases[size // 2].real  # half a sample has no sign there, and leaves nothing
    return phases


def _low_rows(size: int, padded: int, J: int, j: int) -> HostArray:
    """Give the rows of the low-pass of scale J on the grid of one sample in 2^j, about the centre."""
    count, sigma, cells = size >> J, 0.8 * 2 ** (J - 1 - j), padded >> j
    places = (np.arange(count) - (count - 1) / 2) * 2 ** (J - j)
    offsets = places[:, None, None] - np.arange(cells)[:, None] + cells * np.arange(-3, 4)
    return np.exp(-(offsets**2) / (2 * sigma**2)).sum(-1) / (math.sqrt(2 * 3.1415) * sigma)  # type: ignore[no-any-return]


def _mean_rows(size: int, padded: int, j: int) -> HostArray:
    """Give one row that takes the mean of the samples within the image."""
    places = np.arange(padded >> j)
    inside = np.minimum(places, (padded >> j) - places) * 2**j <= (size - 1) / 2
    return (inside / inside.sum())[None, :]  # type: ignore[no-any-return]


def angular_filters(L: int, K: int) -> HostArray:
    """Give K filters on 2 L angles: Morlet wavelets from fine to coarse, and the low-pass that is left."""
    angles = np.arange(-4 * L, 4 * L)
    rows = []
    for k in range(K):
        sigma = 0.8 * 2 ** min(k, max(K - 2, 0))
        envelope = np.exp(-(angles**2) / (2 * sigma**2)) / (math.sqrt(2 * np.pi) * sigma) + 0j
        if k < K - 1:
            wave = envelope * np.exp(0.75j * np.pi / 2**k * angles)
            envelope = wave - wave.sum() / envelope.sum() * envelope
        rows.append(envelope.reshape(4, 2 * L).sum(0))
    return np.array(rows)


@lru_cache(4)
def _bank(shape: tuple[int, int], J: int, L: int, K: int, max_order: int) -> Bank:
    padded: Any = tuple(((size + 2**J) // 2**J + 1) * 2**J for size in shape)
    before = [(wide - size) // 2 for wide, size in zip(padded, shape, strict=True)]
    padding = tuple(
        reflection(size, left, wide - size - left) for size, left, wide in zip(shape, before, padded, strict=True)
    )
    shifts = [_phases(wide, left + (size - 1) / 2) for size, left, wide in zip(shape, before, padded, strict=True)]
    grids: list[Any] = [tuple(wide >> j for wide in padded) for j in range(J)]
    turns = (np.arange(2 * L)[:, None] - np.arange(2 * L)) % (2 * L)
    return Bank(
        shape,
        padding,
        frozen(np.outer(*shifts)),
        bank_2d(padded, J, L),
        tuple(bank_2d(grids[j], J - j, L, 1) for j in range(J - 1)),
        frozen(angular_filters(L, K)[:, turns]),
        tuple(tuple(frozen(_low_rows(s, w, J, j)) for s, w in zip(shape, padded, strict=True)) for j in range(J)),  # type: ignore[misc]
        tuple(tuple(frozen(_mean_rows(s, w, j)) for s, w in zip(shape, padded, strict=True)) for j in range(J)),  # type: ignore[misc]
        J,
        L,
        max_order,
        tuple(shifts),
        {},
    )


class RotoTranslationScattering2D:
    r"""The scattering transform of images on the roto-translation group, invariant to rotations.

    Parameters
    ----------
    J : int
        The largest scale is :math:`2^J`; at least 1.
    shape : tuple of two ints
        The size (M, N) of the images, any of at least :math:`2^J`.
    L : int, default 8
        Number of angles :math:`\theta = t\pi/L`, of half a turn.
    K : int, default 3
        Number of filters along the angles: K - 1 wavelets and a low-pass.
    max_order : {1, 2}
        How many wavelets follow each other in a path at most.

    Raises
    ------
    ValueError
        If :math:`2^J` is larger than the image, or another argument is out of its range.
    TypeError
        If an argument is of the wrong kind.

    Notes
    -----
    The image is padded by reflection and put on a torus with its centre at the origin. With the wavelets of
    `Scattering2D`, :math:`Y_{j_1}(u, \theta) = |x \star \psi_{j_1,\theta}(u)|`, and

    .. math:: Y_{j_1,j_2,\theta_2,k}(u, \theta) = \Bigl|\sum_{\theta'} \bigl(Y_{j_1}(\cdot, \theta') \star
              \psi_{j_2,\theta_2+\theta'}\bigr)(u)\; h_k(\theta - \theta')\Bigr|

    where angles go round a full turn, of 2 L. The filters :math:`h_k` are periodic Morlet wavelets of frequency
    :math:`3\pi/4 \cdot 2^{-k}` and width :math:`0.8 \cdot 2^k` angles for k < K - 1, and then the Gaussian of the last
    width. All are averaged over :math:`\theta`, and over u by a Gaussian of width :math:`0.8 \cdot 2^{J-1}` that is
    centred at M // 2^J by N // 2^J places in the image, symmetric about its centre.

    Paths are the average of the image; J of order 1; and of order 2, outermost first, j1, j2 > j1,
    :math:`\theta_2 = -t\pi/L` (wavelets are counted clockwise) and k: :math:`1 + J + KLJ(J-1)/2` in all.

    A rotation of the image about its centre rotates each average as a small image, and leaves `moments` as they are:
    by 90 degrees exactly, where L and the sizes are even and M = N, and by :math:`\pi/L` as far as a grid allows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.scattering import RotoTranslationScattering2D
    >>> S = RotoTranslationScattering2D(J=2, shape=(16, 16), L=4)
    >>> x = np.random.default_rng(0).random((16, 16))
    >>> S(x).shape
    (15, 4, 4)
    >>> np.allclose(S.moments(x), S.moments(np.rot90(x)))
    True
    """

    _forward = Operation("scattering.roto", "x")
    _backward = Operation("scattering.roto_vjp", "x", "grad")

    def __init__(self, J: int, shape: tuple[int, int], L: int = 8, K: int = 3, max_order: int = 2) -> None:
        where = "scattering.RotoTranslationScattering2D"
        self.J = whole(where, "J", J, 1)
        self.shape: tuple[int, int] = sizes(where, shape, 2)  # type: ignore[assignment]
        self.L = whole(where, "L", L, 1)
        self.K = whole(where, "K", K, 1, 16)
        if 2 ** max(self.K - 2, 0) > self.L:
            raise ValueError(f"[{where}] expected 2**(K - 2) of at most L = {self.L}, got K = {self.K}")
        self.max_order = whole(where, "max_order", max_order, 1, 2)
        scales_fit(where, self.J, self.shape)
        self._bank = _bank(self.shape, self.J, self.L, self.K, self.max_order)

    def __getstate__(self) -> dict[str, Any]:
        # As that of the other transforms: without the filters.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._bank = _bank(self.shape, self.J, self.L, self.K, self.max_order)

    def __repr__(self) -> str:
        return f"RotoTranslationScattering2D(J={self.J}, shape={self.shape}, L={self.L}, K={self.K})"

    @property
    def filters(self) -> dict[str, Any]:
        """The filters: ``psi``, wavelets (J, L, M, N) in the Fourier domain, and ``angular``, (K, 2 L)."""
        return {"psi": self._bank.first, "angular": angular_filters(self.L, self.K)}

    def __call__(self, x: Array) -> Array:
        """Compute the transform: the same as `scattering`."""
        return self.scattering(x)

    def scattering(self, x: Array) -> Array:
        """Compute the transform of all images in `x`.

        Parameters
        ----------
        x : array of shape (..., M, N)
            Images, with any axes before.

        Returns
        -------
        array of shape (..., paths, M // 2^J, N // 2^J)
            In the library and dtype of `x`.

        Raises
        ------
        ValueError
            If the last axes of `x` are not of the shape that the transform was made for.
        TypeError
            If the dtype is not supported.
        """
        return self._compute(x, self._bank.low)

    def moments(self, x: Array) -> Array:
        """Compute expected scattering: means over the image and over all angles.

        Parameters
        ----------
        x : array of shape (..., M, N)
            Images, as in `scattering`.

        Returns
        -------
        array of shape (..., paths)
            Invariant to rotations, as far as the grid allows.

        Raises
        ------
        ValueError
            If the last axes of `x` are not of the shape that the transform was made for.
        TypeError
            If the dtype is not supported.
        """
        return self._compute(x, self._bank.mean)[..., 0, 0]

    def _compute(self, x: Array, rows: Rows) -> Array:
        call = self._forward.begin(x)
        batch = batch_of(call, self.shape)
        output = tuple(row.shape[0] for row in rows[0])
        exponent = scaled(call, 2)
        result = call.finish((*batch, self.output_size(), *output), None, *self._told(call, rows))
        return unscaled(call, result, exponent)

    def _told(self, call: Call, rows: Rows) -> tuple[Any, ...]:
        """Give what the backend of a call is told of the transform."""
        if call.backend == "native":
            return (roto_plan_of(self._bank, call, rows is self._bank.mean),)
        return self._bank, rows

    def vjp(self, x: Array, grad: Array) -> Array:
        """Compute the gradient of a loss for `x` from its gradient for the result.

        Parameters
        ----------
        x : array of shape (..., M, N)
            Images, as in `scattering`.
        grad : array of shape (..., paths, M // 2^J, N // 2^J)
            The gradient for the result.

        Returns
        -------
        array
            The gradient for `x`, in its shape. Where a modulus is 0, its gradient is taken as 0.

        Raises
        ------
        ValueError
            If a shape does not fit.
        TypeError
            If a dtype does not fit.
        """
        call = self._backward.begin(x, grad)
        output = tuple(size >> self.J for size in self.shape)
        grad_of(call, (*batch_of(call, self.shape), self.output_size(), *output))
        scaled(call, 2)  # of which gradients do not depend
        return call.finish(tuple(call.arrays[0].shape), None, *self._told(call, self._bank.low))

    def moments_vjp(self, x: Array, grad: Array) -> Array:
        """Compute the gradient for `x` of a loss from its gradient for the moments.

        Parameters
        ----------
        x : array of shape (..., M, N)
            Images, as in `scattering`.
        grad : array of shape (..., paths)
            The gradient for what `moments` gives.

        Returns
        -------
        array
            The gradient for `x`, in its shape.

        Raises
        ------
        ValueError
            If a shape does not fit.
        TypeError
            If a dtype does not fit.
        """
        call = self._backward.begin(x, grad)
        grad_of(call, (*batch_of(call, self.shape), self.output_size()))
        call.arrays = (call.arrays[0], call.arrays[1][..., None, None])
        scaled(call, 2)  # of which gradients do not depend
        return call.finish(tuple(call.arrays[0].shape), None, *self._told(call, self._bank.mean))

    def meta(self) -> dict[str, Any]:
        """Describe the paths.

        Returns
        -------
        dict
            Arrays with a row for each path: ``order``; ``j``, the scale of each wavelet; ``theta``, the number of the
            angle of the second relative to the first; ``k``, the filter along angles. NaN where there is none.
        """
        nan = math.nan
        rows: list[tuple[float, ...]] = [(0, nan, nan, nan, nan)]
        rows += [(1, j, nan, nan, nan) for j in range(self.J)]
        if self.max_order == 2:
            pairs = [(j1, j2) for j1 in range(self.J) for j2 in range(j1 + 1, self.J)]
            rows += [(2, j1, j2, t, k) for j1, j2 in pairs for t in range(self.L) for k in range(self.K)]
        table = np.array(rows)
        return {"order": table[:, 0].astype(int), "j": table[:, 1:3], "theta": table[:, 3], "k": table[:, 4]}

    def output_size(self) -> int:
        """Count the paths.

        Returns
        -------
        int
        """
        pairs = self.J * (self.J - 1) // 2 if self.max_order == 2 else 0
        return 1 + self.J + self.K * self.L * pairs
