"""Scattering by its definition, in float64: filters summed as they are written, convolutions by whole transforms."""

from __future__ import annotations

import math

import numpy as np


def gabor(shape, sigma, theta, xi, slant):
    """The sum over 5 x 5 periods, with the 3.1415 of the convention."""
    c, s = np.cos(theta), np.sin(theta)
    R = np.array([[c, -s], [s, c]])
    curve = R @ np.diag([1, slant**2]) @ R.T / (2 * sigma**2)
    total = np.zeros(shape, complex)
    for ex in range(-2, 3):
        for ey in range(-2, 3):
            x, y = np.mgrid[ex * shape[0] : (ex + 1) * shape[0], ey * shape[1] : (ey + 1) * shape[1]]
            square = curve[0, 0] * x * x + 2 * curve[0, 1] * x * y + curve[1, 1] * y * y
            total += np.exp(-square + 1j * xi * (x * c + y * s))
    return total / (2 * 3.1415 * sigma**2 / slant)


def morlet(shape, j, t, L):
    angle = (int(L - L / 2 - 1) - t) * np.pi / L
    wave = gabor(shape, 0.8 * 2**j, angle, 0.75 * np.pi / 2**j, 4 / L)
    envelope = gabor(shape, 0.8 * 2**j, angle, 0, 4 / L)
    return np.fft.fft2(wave - wave.sum() / envelope.sum() * envelope).real


def lowest(spectrum, level):
    """The lowest frequencies along each axis, cut out of the middle of the shifted spectrum."""
    shifted = np.fft.fftshift(spectrum)
    cut = tuple(slice(n // 2 - (n >> (level + 1)), n // 2 + (n >> (level + 1))) for n in spectrum.shape)
    return np.fft.ifftshift(shifted[cut])


def filtered(u, spectrum, step):
    every = (Ellipsis, *(slice(None, None, step),) * spectrum.ndim)
    axes = tuple(range(-spectrum.ndim, 0))
    return np.fft.ifftn(np.fft.fftn(u, axes=axes) * spectrum, axes=axes)[every]


def scattering2d(x, J, L=8, max_order=2, pre_pad=False):
    shape = x.shape[-2:]
    x = x.astype(np.float64)
    if not pre_pad:
        missing = [((n + 2**J) // 2**J + 1) * 2**J - n for n in shape]
        x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(d // 2, d - d // 2) for d in missing], mode="reflect")
    padded = x.shape[-2:]
    psi = {(j, t): morlet(padded, j, t, L) for j in range(J) for t in range(L)}
    phi = np.fft.fft2(gabor(padded, 0.8 * 2 ** (J - 1), 0, 0, 1)).real

    def low(u, j):
        return filtered(u, lowest(phi, j), 2 ** (J - j)).real[..., 1:-1, 1:-1]

    zero, ones, twos = [low(x, 0)], [], []
    for j1 in range(J):
        for t1 in range(L):
            u = abs(filtered(x, psi[j1, t1], 2**j1))
            ones.append(low(u, j1))
            for j2 in range(j1 + 1, J if max_order == 2 else 0):
                for t2 in range(L):
                    twos.append(low(abs(filtered(u, lowest(psi[j2, t2], j1), 2 ** (j2 - j1))), j2))
    return np.stack(zero + ones + twos, -3)


def morlet1d(n, xi, sigma):
    P = min(math.ceil(math.sqrt(-2 * sigma**2 * math.log(1e-7)) + 1), 5)
    f = np.arange((1 - P) * n, P * n) / n
    g = np.exp(-((np.fft.fftfreq(n) if P == 1 else f) ** 2) / (2 * sigma**2)).reshape(-1, n).sum(0)
    if xi:
        wave = np.exp(-((f - xi) ** 2) / (2 * sigma**2)).reshape(-1, n).sum(0)
        g = wave - wave[0] / g[0] * g
    return g / abs(np.fft.ifft(g)).sum()


def scattering1d(x, meta, n_padded, T, oversampling=0, max_order=2, normalization="sum"):
    """From the centre frequencies, widths and scales of `meta`."""
    x = x.astype(np.float64)
    N, t = x.shape[-1], math.floor(math.log2(T))
    left = (n_padded - N) // 2
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(left, n_padded - N - left)], mode="reflect")
    phi = morlet1d(n_padded, 0, 0.1 / T)

    def at(spectrum, k):
        periods = spectrum.reshape(2**k, -1)
        return periods.sum(0) if normalization == "sum" else periods.mean(0)

    def low(u, k):
        to = max(t - oversampling, k)
        values = filtered(u, at(phi, k), 2 ** (to - k)).real
        return values[..., -(-left // 2**to) : -(-(left + N) // 2**to)]

    results = []
    for order, xi, sigma, j in zip(meta["order"], meta["xi"], meta["sigma"], meta["j"], strict=True):
        u, k = x, 0
        for i in range(order):
            after = max(min(int(j[i]), t) - oversampling, k)
            u, k = abs(filtered(u, at(morlet1d(n_padded, xi[i], sigma[i]), k), 2 ** (after - k))), after
        results.append(low(u, k))
    return np.stack(results, -2)
