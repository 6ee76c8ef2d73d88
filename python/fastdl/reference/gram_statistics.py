"""Statistics of Gram matrices, and Gram matrices of features and Jacobians."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from fastdl.reference.pairs import finish, symmetric, wide


def center(K: Any) -> Any:
    """(I − U) K (I − U), U_ij = 1/n: the mean of every row and column becomes 0."""
    return array_namespace(K).astype(_centered(wide(K)), K.dtype, copy=False)


def _centered(K: Any) -> Any:
    xp = array_namespace(K)
    if not K.shape[0]:
        return K
    # Both along the last axis of one array, so that a symmetric K stays so to the bit.
    means = xp.mean(xp.stack([K, K.T]), axis=-1)
    means = means - xp.mean(means[0, :]) / 2
    return K - (means[0, :, None] + means[1, None, :])


def hsic(K: Any, L: Any, unbiased: bool) -> Any:
    """Hilbert–Schmidt independence criterion of two Gram matrices of the same samples."""
    return array_namespace(K).astype(_hsic(wide(K), wide(L), unbiased), K.dtype, copy=False)


def _hsic(K: Any, L: Any, unbiased: bool) -> Any:
    xp = array_namespace(K)
    n = K.shape[0]
    if not unbiased:
        # H is its own square, so both may be centred: tr(KHLH) = tr(HKH HLH).
        return xp.sum(_centered(K) * _centered(L).T) / (n - 1) ** 2
    i = xp.arange(n, device=device(K))
    diagonal = i[:, None] == i[None, :]
    K, L = (xp.where(diagonal, xp.zeros_like(value), value) for value in (K, L))
    return (
        xp.sum(K * L.T)
        + xp.sum(K) * xp.sum(L) / ((n - 1) * (n - 2))
        - 2 * xp.sum(xp.sum(K, axis=0) * xp.sum(L, axis=1)) / (n - 2)
    ) / (n * (n - 3))


def cka(K: Any, L: Any, unbiased: bool) -> Any:
    """HSIC(K, L)/√(HSIC(K, K) HSIC(L, L))."""
    xp = array_namespace(K)
    first, second = wide(K), wide(L)
    norms = [xp.sqrt(_hsic(value, value, unbiased)) for value in (first, second)]
    return xp.astype(_hsic(first, second, unbiased) / norms[0] / norms[1], K.dtype, copy=False)


def feature_gram(x: Any, center: bool) -> Any:
    """F Fᵀ/P for the maps F (C, P) of every sample, less their means if centred."""
    xp = array_namespace(x)
    samples, channels = x.shape[:2]
    maps = xp.reshape(wide(x), (samples, channels, -1)) if samples and channels else None
    if maps is None:
        return xp.zeros((samples, channels, channels), dtype=x.dtype, device=device(x))
    if center:
        maps = maps - xp.mean(maps, axis=-1, keepdims=True)
    grams = [symmetric(maps[i, :, :] @ maps[i, :, :].T / maps.shape[-1]) for i in range(samples)]
    return xp.astype(xp.stack(grams), x.dtype, copy=False)


# Columns of the Jacobians taken together.
_PARAMETERS = 1 << 16


def empirical_ntk(J1: Any, J2: Any | None) -> Any:
    """Φ₁ Φ₂ᵀ for Jacobians of shape (n, p), a block of parameters at a time, summed in float64."""
    xp = array_namespace(J1)
    other = J1 if J2 is None else J2
    K = xp.zeros((J1.shape[0], other.shape[0]), dtype=xp.float64, device=device(J1))
    for start in range(0, J1.shape[1], _PARAMETERS):
        part = slice(start, min(J1.shape[1], start + _PARAMETERS))
        K = K + wide(J1[:, part]) @ wide(other[:, part]).T
    return finish(K, J1, J2)
