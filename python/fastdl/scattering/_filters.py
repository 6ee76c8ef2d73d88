"""Filter banks in the Fourier domain: built whole, in float64, and kept."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fastdl._arrays import HostArray

# exp(-_TAIL) is far below a rounding of what it would be added to.
_TAIL = 45.0
_BANKS_KEPT = 8


def frozen(array: HostArray) -> HostArray:
    """Give the array, contiguous and read-only: it is shared by all who ask for the same bank."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


# ---- two dimensions ----------------------------------------------------------------------------------------------


def _window(size: int, reach: float) -> HostArray:
    """Give the positions within `reach` of 0 of the five periods that a filter is summed over."""
    return np.arange(max(-2 * size, -math.ceil(reach)), min(3 * size - 1, math.ceil(reach)) + 1)


def _wrapped(values: HostArray, axis: int, first: int, size: int) -> HostArray:
    """Sum the periods of `values`, which begin at position `first`."""
    before, count = first % size, values.shape[axis]
    after = -(before + count) % size
    widths = [(0, 0)] * values.ndim
    widths[axis] = (before, after)
    padded = np.pad(values, widths)
    shape = (*values.shape[:axis], padded.shape[axis] // size, size, *values.shape[axis + 1 :])
    folded: HostArray = padded.reshape(shape).sum(axis)
    return folded


def morlet_2d(shape: tuple[int, int], sigma: float, theta: float, xi: float, slant: float) -> HostArray:
    """Give the Fourier transform, which is real, of a Morlet wavelet; of a Gaussian for xi = 0.

    The Gaussian falls off within a window about the origin, and only there is it computed.
    """
    c, s = math.cos(theta), math.sin(theta)
    across = slant * slant
    scale = 1 / (2 * sigma * sigma)
    xx, xy, yy = (c * c + across * s * s) * scale, (1 - across) * c * s * scale, (s * s + across * c * c) * scale
    reach = math.sqrt(_TAIL / (scale * min(1.0, across)))
    x, y = _window(shape[0], reach)[:, None], _window(shape[1], reach)[None, :]
    # The factor is 1/(2π) with the π of four digits that the convention has.
    envelope = np.exp(-(xx * x * x + 2 * xy * x * y + yy * y * y)) * (slant / (2 * 3.1415 * sigma * sigma))

    def half_spectrum(values: HostArray) -> HostArray:
        return np.fft.rfft2(_wrapped(_wrapped(values, 0, int(x[0, 0]), shape[0]), 1, int(y[0, 0]), shape[1]))

    if not xi:
        return _even_and_odd(half_spectrum(envelope).real, np.zeros(1), shape)

    def of_wave(wave: HostArray) -> HostArray:
        wave -= (envelope * wave).sum() / envelope.sum()
        wave *= envelope
        return half_spectrum(wave)

    # The real part of the transform is even where it comes from the real part, and odd where from the imaginary one:
    # half of each is enough.
    angle = xi * c * x + xi * s * y
    even = of_wave(np.cos(angle)).real.copy()
    odd = of_wave(np.sin(angle, out=angle)).imag
    return _even_and_odd(even, -odd, shape)


def _even_and_odd(even: HostArray, odd: HostArray, shape: tuple[int, int]) -> HostArray:
    """Give the sum of an even array and an odd one, of which there are the columns up to the middle."""
    columns = shape[1] // 2 + 1
    whole = np.empty(shape)
    np.add(even, odd, out=whole[:, :columns])
    whole[:, columns:] = np.roll((even - odd)[::-1, shape[1] - columns : 0 : -1], 1, 0)
    return whole


def cropped(spectrum: HostArray, level: int, axes: tuple[int, ...]) -> HostArray:
    """Keep the lowest frequencies of a spectrum, one in 2^level along each axis; Nyquist's from the negative side."""
    if level == 0:
        return spectrum
    for axis in axes:
        half = spectrum.shape[axis] >> (level + 1)
        kept = spectrum.shape[axis] >> level
        index = np.r_[0 : kept - half, spectrum.shape[axis] - half : spectrum.shape[axis]]
        spectrum = np.take(spectrum, index, axis)
    return spectrum


# Of eight angles three are computed, and the others are their mirror images: those of one scale are kept.
_computed_2d = lru_cache(3)(morlet_2d)


def wavelet_2d(shape: tuple[int, int], L: int, j: int, t: int) -> HostArray:
    """Give the spectrum of the wavelet of scale j and angle t, on a padded size."""
    start = int(L - L / 2 - 1)
    turn = start - t  # of π/L

    def of_turn(other: int) -> HostArray:
        return wavelet_2d(shape, L, j, start - other)

    # The sum over periods goes from -2 to 2 sizes about the origin, and one sample less on one side: where the
    # wavelet has not vanished there, its mirror image is not the wavelet of the mirrored angle.
    if 8.6 * (0.8 * 2**j) * (L / 4.0) <= 2 * min(shape):
        known = range(turn + 1, start + 1)  # the angles before
        square = shape[0] == shape[1] and L % 2 == 0
        if -turn in known:  # the mirror image in the second axis
            return np.roll(of_turn(-turn)[:, ::-1], 1, 1)
        if square and L // 2 - turn in known:  # in the diagonal
            return of_turn(L // 2 - turn).T
        if square and L // 2 + turn in known:  # in both
            return np.roll(of_turn(L // 2 + turn).T[:, ::-1], 1, 1)
    return _computed_2d(shape, 0.8 * 2**j, turn * np.pi / L, 0.75 * np.pi / 2**j, 4.0 / L)


def forget_2d() -> None:
    """Drop the wavelets that were kept for their mirror images."""
    _computed_2d.cache_clear()


def low_pass_2d(shape: tuple[int, int], J: int) -> HostArray:
    """Give the spectrum of the low-pass on a padded size."""
    return frozen(morlet_2d(shape, 0.8 * 2 ** (J - 1), 0.0, 0.0, 1.0))


@lru_cache(_BANKS_KEPT)
def bank_2d(shape: tuple[int, int], J: int, L: int, first: int = 0) -> HostArray:
    """Give all wavelets of a padded size, (J, L, M, N) with the scales `first` to J - 1."""
    psi = np.zeros((J - first, L, *shape))
    for j in range(first, J):
        for t in range(L):
            psi[j - first, t] = wavelet_2d(shape, L, j, t)
    forget_2d()
    return frozen(psi)


# ---- one dimension -----------------------------------------------------------------------------------------------

R_PSI = math.sqrt(0.5)  # where neighbouring wavelets cross
SIGMA_0 = 0.1  # width of the low-pass of a scale of 1
ALPHA = 5.0  # a wavelet of frequency xi ends at xi + ALPHA sigma


def _gaussian_1d(size: int, center: float, sigma: float, lowest: int, highest: int) -> HostArray:
    """Give a Gaussian of the frequencies from lowest/size to highest/size, folded to one period."""
    reach = sigma * math.sqrt(2 * _TAIL)
    first = max(lowest, math.floor((center - reach) * size))
    last = min(highest, math.ceil((center + reach) * size))
    frequencies = np.arange(first, last + 1) / size
    return _wrapped(np.exp(-((frequencies - center) ** 2) / (2 * sigma**2)), 0, first, size)


def morlet_1d(size: int, xi: float, sigma: float) -> HostArray:
    """Give the Fourier transform, which is real, of a Morlet wavelet; of a Gaussian for xi = 0. Its L1 norm is 1."""
    periods = min(math.ceil(math.sqrt(-2 * sigma**2 * math.log(1e-7)) + 1), 5)
    lowest, highest = (1 - periods) * size, periods * size - 1
    low = (-(size // 2), (size - 1) // 2) if periods == 1 else (lowest, highest)
    spectrum = _gaussian_1d(size, 0.0, sigma, *low)
    if xi:
        wave = _gaussian_1d(size, xi, sigma, lowest, highest)
        spectrum = wave - (wave[0] / spectrum[0]) * spectrum
    return spectrum / np.abs(np.fft.ifft(spectrum)).sum()  # type: ignore[no-any-return]


def wavelets_1d(J: int, Q: int) -> list[tuple[float, float, int]]:
    """Give centre frequency, width and largest subsampling of all wavelets with Q an octave, high ones first."""
    sigma_min = SIGMA_0 / 2**J
    step = 2 ** (1 / Q)
    xi = max(1 / (1 + 2 ** (3 / Q)), 0.35)
    sigma = xi * (1 - 1 / step) / (1 + 1 / step) / math.sqrt(2 * math.log(1 / R_PSI))
    found = []
    elbow = sigma
    if sigma > sigma_min:
        found.append((xi, sigma))
        while sigma > sigma_min * step:
            xi, sigma = xi / step, sigma / step
            found.append((xi, sigma))
        elbow = xi
    found += [(elbow - k / Q * elbow, sigma_min) for k in range(1, Q)]
    return [(xi, sigma, math.floor(-math.log2(min(xi + ALPHA * sigma, 0.5))) - 1) for xi, sigma in found]


def padded_length(size: int, T: float) -> int:
    """Give the power of two to which signals are padded: room for the low-pass at both ends, as far as they reflect."""
    low = np.abs(np.fft.ifft(morlet_1d(size, 0.0, SIGMA_0 / T)))[: size // 2]
    rest = np.cumsum(low[::-1])[::-1]
    enough = np.flatnonzero(rest <= 1e-3)
    support = int(enough[0]) + 1 if enough.size else size // 2
    wanted = math.ceil(math.log2(size + 6 * support))
    return int(2 ** min(wanted, math.floor(math.log2(3 * size - 2))))


def periodized(spectrum: HostArray, level: int, normalization: str) -> HostArray:
    """Give the spectrum of the filter at one in 2^level samples: the sum of its periods, or their mean."""
    periods = spectrum.reshape(2**level, -1)
    folded: HostArray = periods.sum(0) if normalization == "sum" else periods.mean(0)
    return folded


@lru_cache(_BANKS_KEPT)
def bank_1d(size: int, J: int, Q: tuple[int, int], T: float) -> tuple[HostArray, HostArray, HostArray]:
    """Give the wavelets of both orders and the low-pass of a padded size."""
    both = (np.array([morlet_1d(size, xi, sigma) for xi, sigma, _ in wavelets_1d(J, q)]) for q in Q)
    first, second = (frozen(bank.reshape(-1, size)) for bank in both)
    return first, second, frozen(morlet_1d(size, 0.0, SIGMA_0 / T))


# ---- three dimensions --------------------------------------------------------------------------------------------


def _harmonic(degree: int, m: int, polar_cosine: HostArray, azimuth: HostArray) -> HostArray:
    """Give the spherical harmonic Y_l^m by the three-term recurrence of the associated Legendre functions."""
    order = abs(m)
    sine = np.sqrt(np.maximum(0, 1 - polar_cosine**2))
    last = np.full_like(polar_cosine, (-1.0) ** order * math.prod(range(1, 2 * order, 2))) * sine**order
    before = np.zeros_like(last)
    for n in range(order + 1, degree + 1):
        value = ((2 * n - 1) * polar_cosine * last - (n + order - 1) * before) / (n - order)
        before, last = last, value
    scale = math.sqrt(
        (2 * degree + 1) / (4 * math.pi) * math.factorial(degree - order) / math.factorial(degree + order)
    )
    values: Any = scale * last * np.exp(1j * order * azimuth)
    return (-1.0) ** order * values.conj() if m < 0 else values  # type: ignore[no-any-return]


def _harmonic_scale(degree: int) -> float:
    """Give the constant of solid harmonics of a degree above 0."""
    if degree % 2 == 0:
        return 1 / (2 * math.pi * math.sqrt(degree + 0.5) * math.prod(range(degree + 1, 0, -2)))
    return 1 / (2 ** ((degree + 3) / 2) * math.sqrt(math.pi * (2 * degree + 1)) * math.factorial((degree + 1) // 2))


def bank_3d(
    shape: tuple[int, int, int], J: int, L: int, sigma_0: float, dtype: str = "complex128", covariant: bool = True
) -> tuple[HostArray, ...]:
    """Give solid harmonic wavelets in the Fourier domain: for each l up to L an array (J + 1, 2 l + 1, M, N, O).

    Without `covariant` of each degree only the first harmonic. All are computed in double precision, one at a time.
    """
    return _bank_3d(shape, J, L, sigma_0, dtype, covariant)


@lru_cache(2)
def _bank_3d(
    shape: tuple[int, int, int], J: int, L: int, sigma_0: float, dtype: str, covariant: bool
) -> tuple[HostArray, ...]:
    # An odd size begins at -(size + 1)/2, as floor division of the negative size has it.
    axes = [2 * np.pi / size * np.fft.ifftshift(np.arange(-size // 2, -size // 2 + size)) for size in shape]
    z, y, x = np.meshgrid(*axes, indexing="ij", sparse=True)
    square = z * z + y * y + x * x
    azimuth = np.broadcast_to(np.arctan2(y, x), shape)
    flat = np.sqrt(y * y + x * x)
    polar_cosine = -np.sin(np.arctan2(np.broadcast_to(z, shape), np.broadcast_to(flat, shape)))
    banks = []
    for degree in range(L + 1):
        factor = (2 * np.pi) ** 1.5 * (-1j) ** degree * _harmonic_scale(degree) if degree else 1.0
        orders = range(-degree, degree + 1) if covariant else [-degree]
        bank = np.empty((J + 1, len(orders), *shape), dtype)
        for m, order in enumerate(orders):
            harmonic = factor * _harmonic(degree, order, polar_cosine, azimuth) if degree else factor
            for j in range(J + 1):
                scaled = square * (sigma_0 * 2**j) ** 2
                bank[j, m] = harmonic * (scaled ** (degree / 2) * np.exp(-0.5 * scaled))
        banks.append(frozen(bank))
    return tuple(banks)
