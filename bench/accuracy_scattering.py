"""The accuracy of scattering transforms and of their gradients: a section of docs/accuracy.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from accuracy_table import SEED, Case, largest, normal
from cases import scattering_bench_formulas as formulas
from cases import wide
from fastdl import scattering

TITLE = "Scattering"
ELSEWHERE: tuple[str, ...] = ()
HOW = """\
The largest error of any entry in units of eps, relative to the largest entry of a result: Fourier transforms let all
of them share their errors. Signals and images are standard normal, 5 signals of 150 samples with J = 4 and Q = (4,
1), and 5 images of 16 by 18 with J = 2 and L = 4, 2 of them for gradients and for RotoTranslationScattering2D;
gradients of results are standard normal too. Volumes are 2 of 8 by 8 by 8 with J = 1 and L = 2, not negative, and
their sums relative to the largest for each power. A gradient goes by the directions of complex numbers, and an error
of these counts by how small they are beside the largest: of the images here the smallest is a thousandth, which is
what their gradients show (half of all entries are within 0.7 eps). Of volumes with both signs some averages are next
to 0, where the slope of a power of 1/2 has no bound, and errors are hundreds of eps, for everyone. True values have
the filters as they are made, in float64, and own transforms in float64 for float32, in extended precision for
float64; derivatives are carried forward beside the values. The cascade is relative to the sums of the sizes of terms,
its true filters are found with 50 digits (mpmath): roots of polynomials in double, of which those of db10 are made,
are less exact."""

SIGNAL: dict[str, Any] = {"J": 4, "Q": (4, 1)}
IMAGE: dict[str, Any] = {"J": 2, "L": 4}
VOLUME: dict[str, Any] = {"J": 1, "L": 2}
FEW = 2


# ---- derivatives beside values ----
class Tangents(np.ndarray):
    """Along the first axis a signal and its derivatives: what is linear takes them together, a modulus does not."""

    def __array_function__(self, function, types, arguments, options):
        return np.asarray(super().__array_function__(function, types, arguments, options)).view(Tangents)

    def __abs__(self):
        return modulus(self[:, None], 1)


def modulus(z, axis: int):
    """The root of the sum of the squared moduli along an axis, and its derivatives."""
    z = np.asarray(z)
    squares = z[:1].real ** 2 + z[:1].imag ** 2
    value = np.sqrt(squares.sum(axis))
    slopes = (z[:1].real * z[1:].real + z[:1].imag * z[1:].imag).sum(axis) / value
    return np.concatenate([value, slopes]).view(Tangents)


def power(u, exponent: float):
    """A power of what is above 0, and its derivatives."""
    u = np.asarray(u)
    return np.concatenate([u[:1] ** exponent, exponent * u[:1] ** (exponent - 1) * u[1:]]).view(Tangents)


def values(formula: Callable, x) -> np.ndarray:
    """What a formula makes of each signal."""
    return np.stack([np.asarray(formula(one[None].view(Tangents)))[0] for one in x])


def gradients(formula: Callable, x, grad) -> np.ndarray:
    """The gradient of the sum of results times grad for each signal, from the derivatives of all results."""
    found = []
    for one, slopes in zip(x, grad, strict=True):
        directions = np.eye(one.size, dtype=one.dtype).reshape(one.size, *one.shape)
        results = np.asarray(formula(np.concatenate([one[None], directions]).view(Tangents)))
        found.append((results[1:] * slopes).reshape(one.size, -1).sum(axis=1).reshape(one.shape))
    return np.stack(found)


# ---- formulas that the test cases do not have ----
def paths(x, tree) -> Iterator[tuple[Any, Any]]:
    """The moduli of all paths in their order, and the levels they are on."""
    axes = tuple(range(-len(tree.shape), 0))
    for axis, places in zip(axes, tree.padding, strict=True):
        x = x if places is None else np.take(x, places, axis)
    found = {(): (x, tree.levels[0])}
    x_hat = np.fft.fftn(x, axes=axes)
    for group in tree.groups:
        for first in group.members:
            level = tree.levels[first.level]
            u = abs(formulas._step(x_hat, first.psi, x_hat.shape[-1] // level.shape[-1]))
            found[(first.number,)] = u, level
            u_hat = np.fft.fftn(u, axes=axes)
            for second in group.followers:
                coarse = tree.levels[second.level]
                v = abs(formulas._step(u_hat, second.psi, level.shape[-1] // coarse.shape[-1]))
                found[first.number, second.number] = v, coarse
    for path in tree.channels:
        u, level = found[path]
        yield u[(..., *(slice(*part) for part in level.inside))], level


def moments(x, tree):
    return np.stack([u.mean(tuple(range(1, u.ndim))) for u, _ in paths(x, tree)], axis=-1)


def unaveraged(x, tree):
    return np.concatenate([u for u, _ in paths(x, tree)], axis=-1)


def harmonic(x, S):
    """Sums of powers of moduli over all harmonics of a degree, (scales, degrees, powers)."""
    axes = (-3, -2, -1)

    def next_one(u, filters):
        return modulus(np.fft.ifftn(np.fft.fftn(u, axes=axes)[:, None] * filters, axes=axes), 1)

    def sums(u):
        return np.stack([power(u, exponent).sum(axes) for exponent in S.integral_powers], axis=-1)

    degrees = []
    for bank in S.filters:
        ones = [next_one(x, filters) for filters in bank]
        twos = [next_one(ones[i], bank[j]) for i in range(len(bank)) for j in range(i + 1, len(bank))]
        degrees.append(np.stack([sums(u) for u in ones + twos], axis=1))
    return np.stack(degrees, axis=2)


def roto(x, bank, rows):
    """Convolutions on the group of turns and shifts, averaged by rows over positions and over all angles."""
    axes = (-2, -1)
    for axis, places in zip(axes, bank.padding, strict=True):
        x = np.take(x, places, axis)
    x_hat = np.fft.fftn(x, axes=axes) * bank.shift

    def average(u, level):
        down, across = rows[level]
        return np.matmul(np.matmul(down, u), across.T)

    ones, twos = [average(np.fft.ifftn(x_hat, axes=axes).real, 0)], []
    for j1 in range(bank.J):
        y = abs(wavelets(x_hat[:, None], bank.first[j1], 2**j1))
        ones.append(average(y.mean(1), j1))
        y_hat = np.fft.fftn(y, axes=axes)
        for j2 in range(j1 + 1, bank.J):
            for shift in range(bank.L):
                psi = np.roll(bank.second[j1][j2 - j1 - 1], -shift, axis=0)
                half = wavelets(y_hat, psi, 2 ** (j2 - j1))
                # Wavelets past half a turn are conjugate to those before it.
                past = np.arange(bank.L) >= bank.L - shift
                half = np.where(past[:, None, None], half.conj(), half)
                turned = np.concatenate([half, half.conj()], axis=1)
                for matrix in bank.angular:
                    w = np.einsum("ab,nb...->na...", matrix, turned)
                    twos.append(average(abs(w).mean(1), j2))
    return np.stack(ones + twos, axis=1)


def wavelets(u_hat, psi, step: int):
    """Multiply with wavelets of all angles, fold, and transform back."""
    z = u_hat * psi
    z = z.reshape(*z.shape[:-2], step, z.shape[-2] // step, step, z.shape[-1] // step).mean((-4, -2))
    return np.fft.ifftn(z, axes=(-2, -1))


@cache
def daubechies(count: int) -> np.ndarray:
    """The low-pass with so many vanishing moments, in extended precision: roots of the polynomial with 50 digits."""
    from mpmath import mp, mpf

    with mp.workdps(50):
        taps = [mpf(1)]

        def times(root):
            return [a - root * b for a, b in zip([*taps, 0], [0, *taps], strict=True)]

        polynomial = [mpf(math.comb(count - 1 + k, k)) for k in range(count)]
        for root in mp.polyroots(polynomial[::-1], maxsteps=500, extraprec=500) if count > 1 else []:
            taps = times(min(mp.polyroots([1, 4 * root - 2, 1], extraprec=500), key=abs))
        for _ in range(count):
            taps = times(-1)
        total = sum(mp.re(tap) for tap in taps)
        exact = [mp.re(tap) * mp.sqrt(2) / total for tap in taps]
        return np.array([np.longdouble(float(tap)) + np.longdouble(float(tap - mpf(float(tap)))) for tap in exact])


def analysis(size: int, taps) -> np.ndarray:
    """The matrix of a filter at every second sample, periodic."""
    matrix = np.zeros((size // 2, size), taps.dtype)
    for n in range(size // 2):
        np.add.at(matrix[n], (2 * n + np.arange(len(taps))) % size, taps)
    return matrix


def filters(taps) -> tuple[np.ndarray, np.ndarray]:
    """The low-pass, and the high-pass that belongs to it."""
    return taps, taps[::-1] * (-1) ** np.arange(len(taps))


def sizes_of(pair) -> tuple[np.ndarray, np.ndarray]:
    return np.abs(pair[0]), np.abs(pair[1])


def cascade(x, J: int, pair) -> tuple[np.ndarray, ...]:
    """The average of the largest scale, and the details of each: products with matrices."""
    details = []
    for _ in range(J):
        low, high = ([analysis(size, taps) for size in x.shape[-2:]] for taps in pair)
        parts = ((low[0], high[1]), (high[0], low[1]), (high[0], high[1]))
        details.append(np.stack([down @ x @ across.T for down, across in parts], axis=-3))
        x = low[0] @ x @ low[1].T
    return x, *details


def inverse_cascade(x, *details, pair):
    """The adjoint, from the coarsest scale on."""
    for detail in reversed(details):
        low, high = ([analysis(2 * size, taps) for size in x.shape[-2:]] for taps in pair)
        across, down, both = (detail[..., i, :, :] for i in range(3))
        x = low[0].T @ (x @ low[1] + across @ high[1]) + high[0].T @ (down @ low[1] + both @ high[1])
    return x


# ---- cases ----
def of_transform(
    name: str, S: Any, forward: Callable, mean: Callable, x: np.ndarray, rng: np.random.Generator
) -> Iterator[Case]:
    """A transform, its moments, and the gradients of both."""
    broad, few, dtype = wide(x), x[:FEW], x.dtype.name
    for method, formula, backward in (("scattering", forward, "vjp"), ("moments", mean, "moments_vjp")):
        truth = values(formula, broad)
        size = np.abs(truth).max(axis=(0, 1, 2)) if name.startswith("Harmonic") else largest(truth)
        yield Case(f"{name}.{method}", partial(getattr(S, method), x), truth, size)
        grad = normal(rng, dtype, FEW, *truth.shape[1:])
        truth = gradients(formula, broad[:FEW], wide(grad))
        yield Case(f"{name}.{backward}", partial(getattr(S, backward), few, grad), truth, largest(truth))


def of_signals(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Signals and images, also with no average."""
    x = normal(rng, dtype, 5, 150)
    S = scattering.Scattering1D(shape=150, **SIGNAL)
    forward = partial(formulas.Scattering1D, **SIGNAL)
    yield from of_transform("Scattering1D", S, forward, partial(moments, tree=S._tree), x, rng)
    S = scattering.Scattering1D(shape=150, T=0, out_type="list", **SIGNAL)
    truth = values(partial(unaveraged, tree=S._tree), wide(x))
    call = partial(joined, S, x)
    yield Case("Scattering1D.scattering, not averaged", call, truth, largest(truth))
    x = normal(rng, dtype, 5, 16, 18)
    S = scattering.Scattering2D(shape=(16, 18), **IMAGE)
    forward = partial(formulas.Scattering2D, **IMAGE)
    yield from of_transform("Scattering2D", S, forward, partial(moments, tree=S._tree), x, rng)


def joined(S, x):
    """All paths one after the other."""
    return np.concatenate([part["coef"] for part in S(x)], axis=-1)


def of_volumes(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Volumes."""
    x = np.abs(normal(rng, dtype, FEW, 8, 8, 8))
    S = scattering.HarmonicScattering3D(shape=(8, 8, 8), **VOLUME)
    forward = partial(harmonic, S=S)
    yield from of_transform("HarmonicScattering3D", S, forward, lambda x: forward(x) / 512, x, rng)


def of_rotations(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Images on the group of turns and shifts."""
    x = normal(rng, dtype, FEW, 16, 18)
    S = scattering.RotoTranslationScattering2D(shape=(16, 18), **IMAGE)
    bank = S._bank
    forward, mean = partial(roto, bank=bank, rows=bank.low), lambda x: roto(x, bank, bank.mean)[..., 0, 0]
    yield from of_transform("RotoTranslationScattering2D", S, forward, mean, x, rng)


def of_cascades(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """The cascade of orthogonal filters and its inverse."""
    x = normal(rng, dtype, 3, 32, 48)
    for wavelet, count in (("haar", 1), ("db2", 2), ("db10", 10)):
        pair = filters(daubechies(count))

        def call(wavelet=wavelet):
            approximation, details = scattering.wavelet_transform2d(x, 2, wavelet)
            return approximation, *details

        truth = cascade(wide(x), 2, pair)
        sizes = cascade(np.abs(wide(x)), 2, sizes_of(pair))
        yield Case(f"wavelet_transform2d, {wavelet}", call, truth, sizes)
        parts = tuple(part.astype(dtype) for part in truth)

        def back(wavelet=wavelet, parts=parts):
            return scattering.inverse_wavelet_transform2d(parts[0], list(parts[1:]), wavelet)

        truth = inverse_cascade(*(wide(part) for part in parts), pair=pair)
        size = inverse_cascade(*(np.abs(wide(part)) for part in parts), pair=sizes_of(pair))
        yield Case(f"inverse_wavelet_transform2d, {wavelet}", back, truth, size)


def cases(dtype: str) -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(SEED)
    yield from of_signals(rng, dtype)
    yield from of_volumes(rng, dtype)
    yield from of_rotations(rng, dtype)
    yield from of_cascades(rng, dtype)
