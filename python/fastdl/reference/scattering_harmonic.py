"""Solid harmonic scattering of volumes, and its gradient: plain array-API code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.fourier import fftn, ifftn
from fastdl.reference.pairs import wide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdl._arrays import Array, HostArray

    Bank = tuple[HostArray, ...]

_AXES = (-3, -2, -1)


def _constant(xp: Any, array: HostArray, x: Array) -> Array:
    return xp.asarray(array.copy(), dtype=xp.complex128, device=device(x))


def _spectrum(xp: Any, u: Array) -> Array:
    return fftn(xp, xp.astype(u, xp.complex128), _AXES)


def _modulus(xp: Any, u_hat: Array, filters: HostArray) -> tuple[list[Array], Array]:
    """Give the convolutions with the filters of all m, and the root of the sum of their squares."""
    z = [ifftn(xp, u_hat * _constant(xp, psi, xp.real(u_hat)), _AXES) for psi in filters]
    return z, xp.sqrt(sum(xp.real(part) ** 2 + xp.imag(part) ** 2 for part in z))


def _adjoint(xp: Any, z: list[Array], u: Array, g: Array, filters: HostArray) -> Array:
    """Give the gradient for the spectrum that the filters were applied to, up to the inverse transform."""
    scale = xp.where(u == 0, xp.zeros_like(u), g / xp.where(u == 0, xp.ones_like(u), u))
    return sum(
        fftn(xp, part * scale, _AXES) * xp.conj(_constant(xp, psi, u)) for part, psi in zip(z, filters, strict=True)
    )


def _power(xp: Any, u: Array, power: float) -> Array:
    return u**power


def _power_slope(xp: Any, u: Array, power: float) -> Array:
    """Give the slope of u^power; 0 at 0, also where it is infinite."""
    positive = xp.where(u == 0, xp.ones_like(u), u)
    return xp.where(u == 0, xp.zeros_like(u), power * positive ** (power - 1))


def _pairs(J: int, max_order: int) -> Iterator[tuple[int, ...]]:
    """Name the scales of all results, in their order."""
    yield from ((j,) for j in range(J + 1))
    if max_order == 2:
        yield from ((j1, j2) for j1 in range(J + 1) for j2 in range(j1 + 1, J + 1))


def _used(bank: HostArray, j: int, covariant: bool) -> HostArray:
    filters: HostArray = bank[j]
    return filters if covariant else filters[:1]


def harmonic(x: Array, bank: Bank, max_order: int, covariant: bool, powers: tuple[float, ...]) -> Array:
    """Give sums of powers of the moduli, (..., scales, l, powers)."""
    xp = array_namespace(x)
    J = bank[0].shape[0] - 1
    x_hat = _spectrum(xp, x)
    rows: dict[tuple[int, ...], list[Array]] = {path: [] for path in _pairs(J, max_order)}

    def give(path: tuple[int, ...], u: Array) -> None:
        rows[path].append(xp.stack([xp.sum(_power(xp, u, power), axis=_AXES) for power in powers], axis=-1))

    for filters in bank:
        for j1 in range(J + 1):
            u = _modulus(xp, x_hat, _used(filters, j1, covariant))[1]
            give((j1,), u)
            if max_order == 2:
                u_hat = _spectrum(xp, u)
                for j2 in range(j1 + 1, J + 1):
                    give((j1, j2), _modulus(xp, u_hat, _used(filters, j2, covariant))[1])
    result = xp.stack([xp.stack(row, axis=-2) for row in rows.values()], axis=-3)
    return xp.astype(result, x.dtype, copy=False)


def harmonic_vjp(
    x: Array, grad: Array, bank: Bank, max_order: int, covariant: bool, powers: tuple[float, ...]
) -> Array:
    """Give the gradient for x of the sum of all results times `grad`."""
    xp = array_namespace(x)
    J = bank[0].shape[0] - 1
    x_hat, grad = _spectrum(xp, x), wide(grad)
    paths = {path: row for row, path in enumerate(_pairs(J, max_order))}
    total = xp.zeros_like(x_hat)

    def slope(path: tuple[int, ...], degree: int, u: Array) -> Array:
        parts = grad[..., paths[path], degree, :]
        return sum(parts[..., i, None, None, None] * _power_slope(xp, u, power) for i, power in enumerate(powers))

    for degree, filters in enumerate(bank):
        for j1 in range(J + 1):
            z, u = _modulus(xp, x_hat, _used(filters, j1, covariant))
            g = slope((j1,), degree, u)
            if max_order == 2 and j1 < J:
                u_hat = _spectrum(xp, u)
                inner = xp.zeros_like(u_hat)
                for j2 in range(j1 + 1, J + 1):
                    w, v = _modulus(xp, u_hat, _used(filters, j2, covariant))
                    inner = inner + _adjoint(xp, w, v, slope((j1, j2), degree, v), _used(filters, j2, covariant))
                g = g + xp.real(ifftn(xp, inner, _AXES))
            total = total + _adjoint(xp, z, u, g, _used(filters, j1, covariant))
    return xp.astype(xp.real(ifftn(xp, total, _AXES)), x.dtype, copy=False)
