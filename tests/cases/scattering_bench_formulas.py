"""The transforms of the benchmarks and their gradients, in plain NumPy from the filters of the objects, and how far
results may be off: for every name, `<name>_bound`.

A formula computes in the precision of its arguments, which the benchmarks make wider than the library had.
"""

from __future__ import annotations

import math

import numpy as np

from cases.scattering_paths import AXES, _step, direction, made, of_tree, padded, padded_adjoint, paths_of

__all__ = ["_step", "made", "paths_of"]

# ---- signals and images ----
Scattering1D, Scattering1D_vjp = of_tree("Scattering1D", False)
Scattering1D_moments, Scattering1D_moments_vjp = of_tree("Scattering1D", True)
Scattering2D, Scattering2D_vjp = of_tree("Scattering2D", False)
Scattering2D_moments, Scattering2D_moments_vjp = of_tree("Scattering2D", True)


# ---- volumes ----
_VOLUME = (-3, -2, -1)


def _moduli(u_hat, filters):
    """The convolutions with the filters of a degree and a scale, and the root of the sum of their squares."""
    z = np.fft.ifftn(u_hat[..., None, :, :, :] * filters, axes=_VOLUME)
    return z, np.sqrt(np.sum(z.real**2 + z.imag**2, axis=-4))


def _moduli_adjoint(z, u, g, filters):
    scale = np.where(u == 0, 0, g / np.where(u == 0, 1, u))
    return np.sum(np.fft.fftn(z * scale[..., None, :, :, :], axes=_VOLUME) * filters.conj(), axis=-4)


def HarmonicScattering3D(x, **parameters):
    S = made("HarmonicScattering3D", x, **parameters)
    x_hat = np.fft.fftn(x, axes=_VOLUME)
    degrees = []
    for bank in S.filters:
        ones = [_moduli(x_hat, filters)[1] for filters in bank]
        rows = []
        for path in S._paths():
            u = ones[path[0]]
            u = u if len(path) == 1 else _moduli(np.fft.fftn(u, axes=_VOLUME), bank[path[1]])[1]
            rows.append(np.stack([np.sum(u**power, axis=_VOLUME) for power in S.integral_powers], -1))
        degrees.append(np.stack(rows, -2))
    return np.stack(degrees, -2)


def HarmonicScattering3D_vjp(x, grad, **parameters):
    S = made("HarmonicScattering3D", x, **parameters)
    x_hat = np.fft.fftn(x, axes=_VOLUME)
    total = np.zeros_like(x_hat)

    def slope(path, degree, u):
        parts = grad[..., S._paths().index(path), degree, :, None, None, None]
        safe = np.where(u == 0, 1, u)
        slopes = [parts[..., i, :, :, :] * p * safe ** (p - 1) for i, p in enumerate(S.integral_powers)]
        return np.where(u == 0, 0, sum(slopes))

    for degree, bank in enumerate(S.filters):
        for j1, filters in enumerate(bank):
            z, u = _moduli(x_hat, filters)
            g = slope((j1,), degree, u)
            u_hat = np.fft.fftn(u, axes=_VOLUME)
            for j2 in range(j1 + 1, len(bank)) if S.max_order == 2 else ():
                w, v = _moduli(u_hat, bank[j2])
                back = _moduli_adjoint(w, v, slope((j1, j2), degree, v), bank[j2])
                g = g + np.fft.ifftn(back, axes=_VOLUME).real
            total += _moduli_adjoint(z, u, g, filters)
    return np.fft.ifftn(total, axes=_VOLUME).real


def _voxels(x):
    return math.prod(x.shape[-3:])


def HarmonicScattering3D_moments(x, **parameters):
    return HarmonicScattering3D(x, **parameters) / _voxels(x)


def HarmonicScattering3D_moments_vjp(x, grad, **parameters):
    return HarmonicScattering3D_vjp(x, grad, **parameters) / _voxels(x)


# ---- rotations and translations ----
_IMAGE = (-2, -1)


def _turned(z, turn):
    """The wavelets of a full turn, of which those past half of it are conjugate to the others."""
    L = z.shape[-3]
    past = (np.arange(L) + turn >= L)[:, None, None]
    half = np.where(past, z.conj(), z)
    return np.concatenate([half, half.conj()], -3)


def _turned_adjoint(g, turn):
    L = g.shape[-3] // 2
    half = g[..., :L, :, :] + g[..., L:, :, :].conj()
    return np.where((np.arange(L) + turn >= L)[:, None, None], half.conj(), half)


def _over_angles(matrix, z):
    # As a matrix product, which NumPy has a library for.
    return (matrix @ z.reshape(*z.shape[:-2], -1)).reshape(z.shape)


def _pairs(bank, j1):
    for j2 in range(j1 + 1, bank.J if bank.max_order == 2 else 0):
        for turn in range(bank.L):
            yield j2, turn, np.roll(bank.second[j1][j2 - j1 - 1], -turn, axis=0)


def _centred(bank, x):
    return np.fft.fftn(padded(x, bank.padding), axes=_IMAGE) * bank.shift


def _angular(x_hat, psi, step):
    """Convolve with the wavelets of all angles, along the axis before the image."""
    z = x_hat * psi
    for axis in (z.ndim - 2, z.ndim - 1):
        z = z.reshape(*z.shape[:axis], step, -1, *z.shape[axis + 1 :]).mean(axis)
    return np.fft.ifftn(z, axes=_IMAGE)


def _angular_adjoint(g, psi, step):
    return np.tile(np.fft.fftn(g, axes=_IMAGE), (1,) * (g.ndim - 2) + (step, step)) * psi


def roto(x, rows, bank):
    x_hat = _centred(bank, x)

    def average(u, j):
        down, across = rows[j]
        return down @ u @ across.T

    ones, twos = [average(np.fft.ifftn(x_hat, axes=_IMAGE).real, 0)], []
    for j1 in range(bank.J):
        y = abs(_angular(x_hat[..., None, :, :], bank.first[j1], 2**j1))
        ones.append(average(y.mean(-3), j1))
        y_hat = np.fft.fftn(y, axes=_IMAGE)
        for j2, turn, psi in _pairs(bank, j1):
            z = _turned(_angular(y_hat, psi, 2 ** (j2 - j1)), turn)
            twos += [average(abs(_over_angles(matrix, z)).mean(-3), j2) for matrix in bank.angular]
    return np.stack(ones + twos, -3)


def roto_vjp(x, grad, rows, bank):
    x_hat = _centred(bank, x)

    def spread(g, j):
        down, across = rows[j]
        return (down.T @ g @ across)[..., None, :, :]

    total = np.fft.fftn(spread(grad[..., 0, :, :], 0)[..., 0, :, :], axes=_IMAGE)
    channel = bank.J + 1
    for j1 in range(bank.J):
        z = _angular(x_hat[..., None, :, :], bank.first[j1], 2**j1)
        y_hat = np.fft.fftn(abs(z), axes=_IMAGE)
        inner = np.zeros_like(y_hat)
        for j2, turn, psi in _pairs(bank, j1):
            w = _turned(_angular(y_hat, psi, 2 ** (j2 - j1)), turn)
            back = np.zeros_like(w)
            for matrix in bank.angular:
                g = spread(grad[..., channel, :, :], j2) / (2 * bank.L)
                back += _over_angles(matrix.conj().T, g * direction(_over_angles(matrix, w)))
                channel += 1
            inner += _angular_adjoint(_turned_adjoint(back, turn), psi, 2 ** (j2 - j1))
        g = spread(grad[..., 1 + j1, :, :], j1) / bank.L + np.fft.ifftn(inner, axes=_IMAGE).real
        total = total + _angular_adjoint(g * direction(z), bank.first[j1], 2**j1).sum(-3)
    return padded_adjoint(np.fft.ifftn(total * bank.shift.conj(), axes=_IMAGE).real, bank.padding, bank.shape)


def _bank(x, parameters):
    return made("RotoTranslationScattering2D", x, **parameters)._bank


def RotoTranslationScattering2D(x, **parameters):
    bank = _bank(x, parameters)
    return roto(x, bank.low, bank)


def RotoTranslationScattering2D_vjp(x, grad, **parameters):
    bank = _bank(x, parameters)
    return roto_vjp(x, grad, bank.low, bank)


def RotoTranslationScattering2D_moments(x, **parameters):
    bank = _bank(x, parameters)
    return roto(x, bank.mean, bank)[..., 0, 0]


def RotoTranslationScattering2D_moments_vjp(x, grad, **parameters):
    bank = _bank(x, parameters)
    return roto_vjp(x, grad[..., None, None], bank.mean, bank)


# ---- the fast wavelet transform ----
def daubechies(wavelet):
    """The low-pass and the high-pass of a wavelet, as the library makes them."""
    from fastdl.scattering._cascade import wavelet_filters

    return wavelet_filters(wavelet)


def _analysis(x, taps, axis):
    n = x.shape[axis]
    places = 2 * np.arange(n // 2)
    return sum(tap * np.take(x, (places + t) % n, axis) for t, tap in enumerate(taps))


def _synthesis(y, taps, axis):
    n = 2 * y.shape[axis]
    lines = np.moveaxis(y, axis, 0)
    result = np.zeros((n, *lines.shape[1:]), y.dtype)
    for t, tap in enumerate(taps):
        result[(2 * np.arange(n // 2) + t) % n] += tap * lines
    return np.moveaxis(result, 0, axis)


def wavelet_transform2d(x, J, wavelet):
    low, high = (taps.astype(x.dtype) for taps in daubechies(wavelet))
    details = []
    for _ in range(J):
        smooth, rough = (_analysis(x, taps, -2) for taps in (low, high))
        parts = ((smooth, high), (rough, low), (rough, high))
        details.append(np.stack([_analysis(part, taps, -1) for part, taps in parts], -3))
        x = _analysis(smooth, low, -1)
    return (x, *details)


def inverse_wavelet_transform2d(approximation, wavelet, **details):
    x = approximation
    low, high = (taps.astype(x.dtype) for taps in daubechies(wavelet))
    for detail in reversed(details.values()):
        across, down, both = (detail[..., i, :, :] for i in range(3))
        smooth = _synthesis(x, low, -1) + _synthesis(across, high, -1)
        rough = _synthesis(down, low, -1) + _synthesis(both, high, -1)
        x = _synthesis(smooth, low, -2) + _synthesis(rough, high, -2)
    return x


def _steps_bound(eps, J, *arrays):
    """Each of J steps along two axes rounds sums of a few terms that are no larger than the largest number."""
    return 64 * J * eps * max(float(np.abs(array).max()) for array in arrays)


def wavelet_transform2d_bound(eps, x, J, wavelet):
    # Averages of noise are no larger than it: the filters keep its length. All numbers of it are somewhere.
    return np.full(x.size, _steps_bound(eps, J, x))


def inverse_wavelet_transform2d_bound(eps, approximation, wavelet, **details):
    shape = (*approximation.shape[:-2], *(size << len(details) for size in approximation.shape[-2:]))
    return np.full(shape, _steps_bound(eps, len(details), approximation, *details.values()))


# ---- bounds of transforms, from the first signal of a batch ----
def _first(name, array, x):
    return array[(slice(0, 1),) * (x.ndim - AXES[name])].astype(np.float64)


def _bound(name, formula):
    """Transforms round each number about log2 n times, by a rounding of the largest.

    Powers and sums of volumes keep their relative error.
    """

    def bound(eps, x, **parameters):
        small, count = formula(_first(name, x, x), **parameters), x.ndim - AXES[name]
        if isinstance(small, tuple):  # without averages, all paths end to end
            largest = max(float(np.abs(part).max()) for part in small)
            return np.full(math.prod(x.shape[:count]) * sum(part.size for part in small), 256 * eps * largest)
        size = np.abs(small) if name == "HarmonicScattering3D" else float(np.abs(small).max())
        return np.broadcast_to(256 * eps * size, (*x.shape[:count], *small.shape[count:]))

    return bound


def _vjp_bound(name, formula):
    """z/|z| is uncertain where |z| is small, by what a rounding is of it: of 10⁴ numbers one is 10⁻² of the others."""

    def bound(eps, x, grad, **parameters):
        small = formula(_first(name, x, x), _first(name, grad, x), **parameters)
        return np.full(x.shape, 1e4 * eps * float(np.abs(small).max()))

    return bound


for _name in AXES:
    for _suffix, _make in (("", _bound), ("_moments", _bound), ("_vjp", _vjp_bound), ("_moments_vjp", _vjp_bound)):
        globals()[f"{_name}{_suffix}_bound"] = _make(_name, globals()[f"{_name}{_suffix}"])
