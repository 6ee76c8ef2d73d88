"""Scattering on the group of rotations and translations, and its gradient: plain array-API code.

Functions take the transform as a `fastdl.scattering._roto.Bank`, and the rows that average its paths at each level:
those of the low-pass, or of the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.fourier import fftn, ifftn

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray

_AXES = (-2, -1)


def _constant(xp: Any, array: HostArray, x: Array) -> Array:
    single = x.dtype in (xp.float32, xp.complex64)
    real, cplx = (xp.float32, xp.complex64) if single else (xp.float64, xp.complex128)
    return xp.asarray(array.copy(), dtype=cplx if array.dtype.kind == "c" else real, device=device(x))


def _spectrum(xp: Any, u: Array) -> Array:
    cplx = xp.complex64 if u.dtype in (xp.float32, xp.complex64) else xp.complex128
    return fftn(xp, xp.astype(u, cplx), _AXES)


def _average(xp: Any, u: Array, rows: tuple[HostArray, HostArray]) -> Array:
    """Give A u B', the averages of u by the rows of A down and of B across."""
    down, across = (_constant(xp, row, u) for row in rows)
    return xp.matmul(xp.matmul(down, u), xp.matrix_transpose(across))


def _spread(xp: Any, g: Array, rows: tuple[HostArray, HostArray]) -> Array:
    """Give A' g B, the adjoint."""
    down, across = (_constant(xp, row, g) for row in rows)
    return xp.matmul(xp.matmul(xp.matrix_transpose(down), g), across)


def _direction(xp: Any, z: Array) -> Array:
    modulus = xp.abs(z)
    return xp.where(modulus == 0, 0 * z, z / xp.where(modulus == 0, xp.ones_like(modulus), modulus))


def _centred(xp: Any, x: Array, bank: Any) -> Array:
    """Give the spectrum of the padded image with its centre at the origin."""
    from fastdl.reference.scattering import pad

    return _spectrum(xp, pad(xp, x, bank.padding)) * _constant(xp, bank.shift, x)


def _wavelets(xp: Any, u_hat: Array, psi: HostArray, step: int) -> Array:
    """Give convolutions with wavelets of all angles, (..., angle, rows, columns), at one sample in `step`."""
    from fastdl.reference.scattering import fold

    return ifftn(xp, fold(xp, u_hat * _constant(xp, psi, xp.real(u_hat)), step, 2), _AXES)


def _wavelets_adjoint(xp: Any, g: Array, psi: HostArray, step: int) -> Array:
    """Give the gradient of each angle for the spectrum, up to the inverse transform."""
    from fastdl.reference.scattering import repeat

    return repeat(xp, _spectrum(xp, g), step, 2) * _constant(xp, psi, xp.real(g))


def _turned(xp: Any, v: Array, shift: int) -> Array:
    """Complete L angles to the 2 L of a full turn; the wavelets past half a turn are conjugate to those before it."""
    angles = v.shape[-3]
    half = xp.concat([v[..., : angles - shift, :, :], xp.conj(v[..., angles - shift :, :, :])], axis=-3)
    return xp.concat([half, xp.conj(half)], axis=-3)


def _turned_adjoint(xp: Any, g: Array, shift: int) -> Array:
    angles = g.shape[-3] // 2
    half = g[..., :angles, :, :] + xp.conj(g[..., angles:, :, :])
    return xp.concat([half[..., : angles - shift, :, :], xp.conj(half[..., angles - shift :, :, :])], axis=-3)


def _over_angles(xp: Any, v: Array, matrix: HostArray) -> Array:
    """Multiply along the angles: (..., angle, rows, columns)."""
    flat = xp.reshape(v, (*v.shape[:-2], v.shape[-2] * v.shape[-1]))
    return xp.reshape(xp.matmul(_constant(xp, matrix, v), flat), (*v.shape[:-3], matrix.shape[0], *v.shape[-2:]))


def _rolled(psi: HostArray, shift: int) -> HostArray:
    """Wavelets for angle t at index t: the one of t + shift."""
    import numpy as np

    return np.roll(psi, -shift, axis=0)


def roto(x: Array, bank: Any, rows: tuple[tuple[HostArray, HostArray], ...]) -> Array:
    """Give all paths, averaged over positions and angles, (..., channels, rows, columns)."""
    xp = array_namespace(x)
    x_hat = _centred(xp, x, bank)
    results = [_average(xp, xp.real(ifftn(xp, x_hat, _AXES)), rows[0])]
    second = []
    for j1 in range(bank.J):
        y = xp.abs(_wavelets(xp, x_hat[..., None, :, :], bank.first[j1], 2**j1))
        results.append(_average(xp, xp.mean(y, axis=-3), rows[j1]))
        if bank.max_order == 1:
            continue
        y_hat = _spectrum(xp, y)
        for j2 in range(j1 + 1, bank.J):
            for shift in range(bank.L):
                psi = _rolled(bank.second[j1][j2 - j1 - 1], shift)
                turned = _turned(xp, _wavelets(xp, y_hat, psi, 2 ** (j2 - j1)), shift)
                for matrix in bank.angular:
                    moduli = xp.abs(_over_angles(xp, turned, matrix))
                    second.append(_average(xp, xp.mean(moduli, axis=-3), rows[j2]))
    return xp.stack([*results, *second], axis=-3)


def roto_vjp(x: Array, grad: Array, bank: Any, rows: tuple[tuple[HostArray, HostArray], ...]) -> Array:
    """Give the gradient for x of the sum of all results times `grad`."""
    from fastdl.reference.scattering import pad_adjoint

    xp = array_namespace(x)
    x_hat = _centred(xp, x, bank)
    total = _spectrum(xp, _spread(xp, grad[..., 0, :, :], rows[0]))
    channel = bank.J + 1
    for j1 in range(bank.J):
        z = _wavelets(xp, x_hat[..., None, :, :], bank.first[j1], 2**j1)
        y = xp.abs(z)
        g = (_spread(xp, grad[..., 1 + j1, :, :], rows[j1]) / bank.L)[..., None, :, :]
        if bank.max_order == 2 and j1 + 1 < bank.J:
            y_hat = _spectrum(xp, y)
            inner = xp.zeros_like(y_hat)
            for j2 in range(j1 + 1, bank.J):
                for shift in range(bank.L):
                    psi = _rolled(bank.second[j1][j2 - j1 - 1], shift)
                    turned = _turned(xp, _wavelets(xp, y_hat, psi, 2 ** (j2 - j1)), shift)
                    back = xp.zeros_like(turned)
                    for matrix in bank.angular:
                        w = _over_angles(xp, turned, matrix)
                        spread = _spread(xp, grad[..., channel, :, :], rows[j2])[..., None, :, :] / (2 * bank.L)
                        back = back + _over_angles(xp, spread * _direction(xp, w), matrix.conj().T)
                        channel += 1
                    back = _turned_adjoint(xp, back, shift)
                    inner = inner + _wavelets_adjoint(xp, back, psi, 2 ** (j2 - j1))
            g = g + xp.real(ifftn(xp, inner, _AXES))
        total = total + xp.sum(_wavelets_adjoint(xp, g * _direction(xp, z), bank.first[j1], 2**j1), axis=-3)
    centred = ifftn(xp, total * _constant(xp, bank.shift.conj(), x), _AXES)
    return pad_adjoint(xp, xp.real(centred), bank.padding, bank.shape)
