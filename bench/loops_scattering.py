"""The transforms of fastdl.scattering as loops over lists, with Fourier transforms by their sums: what the formulas
cost without any library.

A maker turns signals, filters and places into lists beforehand; its call uses nothing but those and the math modules.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from loops_gram import Call, Maker
from loops_lines import (
    Line,
    Shape,
    along_all,
    cut,
    direction,
    flat,
    fold,
    inverse,
    nested,
    pad,
    pad_adjoint,
    plus,
    real,
    repeat,
    times,
    transform,
    uncut,
)
from loops_turns import Turns


# ---- signals and images: paths along a tree of wavelets ----
class Level(NamedTuple):
    """A resolution, its low-pass with the step and the part of its result, and the part inside the signal."""

    shape: Shape
    phi: Line
    step: int
    crop: list[tuple[int, int]]
    inside: list[tuple[int, int]]


class Low:
    """What is given out of a path: its average by the low-pass."""

    def read(self, level: Level, u: Line, u_hat: Line) -> Line:
        coarse = self.shape(level)
        averaged = inverse(fold(times(u_hat, level.phi), level.shape, level.step), coarse)
        return cut(real(averaged), coarse, level.crop)

    def adjoint(self, level: Level, g: Line) -> Line:
        coarse = self.shape(level)
        spectrum = repeat(transform(uncut(g, coarse, level.crop), coarse), coarse, level.step)
        return real(inverse(times(spectrum, level.phi), level.shape))

    def shape(self, level: Level) -> Shape:
        return tuple(n // level.step for n in level.shape)


class Inside:
    """What is given out of a path: itself, where the signal is."""

    def read(self, level: Level, u: Line, u_hat: Line) -> Line:
        return cut(u, level.shape, level.inside)

    def adjoint(self, level: Level, g: Line) -> Line:
        return uncut(g, level.shape, level.inside)


class Mean:
    """What is given out of a path: its mean, where the signal is."""

    def read(self, level: Level, u: Line, u_hat: Line) -> Line:
        part = cut(u, level.shape, level.inside)
        return [sum(part) / len(part)]

    def adjoint(self, level: Level, g: Line) -> Line:
        count = math.prod(b - a for a, b in level.inside)
        return uncut([g[0] / count] * count, level.shape, level.inside)


class Paths:
    """The tree of a transform as lists, and its two directions."""

    def __init__(self, S: Any, readout: Any) -> None:
        tree = S._tree
        self.readout, self.shape, self.channels = readout, tree.shape, tree.channels
        self.padding = [places.tolist() for places in tree.padding]
        self.levels = [
            Level(level.shape, level.phi.ravel().tolist(), level.step, level.crop, level.inside)
            for level in tree.levels
        ]

        def listed(wavelet: Any) -> tuple[int, Line, int, int]:
            coarse = tree.levels[wavelet.level].shape
            return wavelet.number, wavelet.psi.ravel().tolist(), wavelet.level, wavelet.psi.shape[-1] // coarse[-1]

        self.groups = [
            ([listed(w) for w in group.members], [listed(w) for w in group.followers]) for group in tree.groups
        ]

    def modulus(self, u_hat: Line, wavelet: tuple, step_from: Shape) -> tuple[Line, Line]:
        _, psi, level, step = wavelet
        z = inverse(fold(times(u_hat, psi), step_from, step), self.levels[level].shape)
        return z, [abs(value) for value in z]

    def modulus_adjoint(self, z: Line, u: Line, g: Line, wavelet: tuple) -> Line:
        _, psi, level, step = wavelet
        shape = self.levels[level].shape
        return times(repeat(transform(times(g, direction(z, u)), shape), shape, step), psi)

    def forward(self, x: Line) -> list[Line]:
        results: list[Line] = [[]] * len(self.channels)
        top = self.levels[0]
        u = pad(x, self.shape, self.padding)
        x_hat = transform(u, top.shape)
        results[0] = self.readout.read(top, u, x_hat)
        for members, followers in self.groups:
            for first in members:
                level = self.levels[first[2]]
                _, u = self.modulus(x_hat, first, top.shape)
                u_hat = transform(u, level.shape)
                results[self.channels[first[0],]] = self.readout.read(level, u, u_hat)
                for second in followers:
                    coarse = self.levels[second[2]]
                    _, v = self.modulus(u_hat, second, level.shape)
                    channel = self.channels[first[0], second[0]]
                    results[channel] = self.readout.read(coarse, v, transform(v, coarse.shape))
        return results

    def backward(self, x: Line, grads: list[Line]) -> Line:
        top = self.levels[0]
        x_hat = transform(pad(x, self.shape, self.padding), top.shape)
        total = [0.0] * len(x_hat)
        for members, followers in self.groups:
            for first in members:
                level = self.levels[first[2]]
                z, u = self.modulus(x_hat, first, top.shape)
                u_hat = transform(u, level.shape)
                inner = [0.0] * len(u)
                for second in followers:
                    w, v = self.modulus(u_hat, second, level.shape)
                    g = self.readout.adjoint(self.levels[second[2]], grads[self.channels[first[0], second[0]]])
                    inner = plus(inner, self.modulus_adjoint(w, v, g, second))
                g = self.readout.adjoint(level, grads[self.channels[first[0],]])
                g = plus(g, real(inverse(inner, level.shape)))
                total = plus(total, self.modulus_adjoint(z, u, g, first))
        padded = plus(self.readout.adjoint(top, grads[0]), real(inverse(total, top.shape)))
        return pad_adjoint(padded, top.shape, self.padding)


def _made(name: str, x: np.ndarray, parameters: dict[str, Any]) -> Any:
    from cases.scattering_bench_formulas import made

    return made(name, x, **parameters)


def _split(grad: Line, lengths: list[int]) -> list[Line]:
    ends = np.cumsum(lengths).tolist()
    return [grad[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def tree_forward(name: str, moments: bool = False) -> Maker:
    def make(x: np.ndarray, **parameters: Any) -> Call:
        S = _made(name, x, parameters)
        averaged = S._tree.averaged
        paths = Paths(S, Mean() if moments else Low() if averaged else Inside())
        signals, output = flat(x), S._tree.output
        if moments:
            return lambda: [[value for (value,) in paths.forward(signal)] for signal in signals]
        if averaged:
            return lambda: [[nested(path, output) for path in paths.forward(signal)] for signal in signals]
        return lambda: tuple(zip(*(paths.forward(signal) for signal in signals), strict=True))

    return make


def tree_backward(name: str, moments: bool = False) -> Maker:
    def make(x: np.ndarray, grad: np.ndarray, **parameters: Any) -> Call:
        S = _made(name, x, parameters)
        tree = S._tree
        paths = Paths(S, Mean() if moments else Low() if tree.averaged else Inside())
        if moments or tree.averaged:
            lengths = [1 if moments else math.prod(tree.output)] * len(tree.channels)
        else:
            lengths = [math.prod(b - a for a, b in S._level_of(path).inside) for path in tree.channels]
        signals = [(signal, _split(slopes, lengths)) for signal, slopes in zip(flat(x), flat(grad), strict=True)]
        return lambda: [nested(paths.backward(signal, slopes), S.shape) for signal, slopes in signals]

    return make


# ---- volumes ----
class Volumes:
    """Solid harmonic scattering of one volume: filters by degree, scale and number, as lists."""

    def __init__(self, S: Any) -> None:
        self.shape, self.powers = S.shape, S.integral_powers
        self.bank = [[[psi.ravel().tolist() for psi in scale] for scale in degree] for degree in S.filters]
        self.paths = S._paths()

    def modulus(self, u_hat: Line, filters: list[Line]) -> tuple[list[Line], Line]:
        z = [inverse(times(u_hat, psi), self.shape) for psi in filters]
        return z, [math.sqrt(sum(value.real**2 + value.imag**2 for value in values)) for values in zip(*z, strict=True)]

    def spectrum(self, u: Line) -> Line:
        return transform(u, self.shape)

    def forward(self, x: Line) -> list[list[Line]]:
        x_hat = self.spectrum(x)
        ones = [[self.modulus(x_hat, filters)[1] for filters in degree] for degree in self.bank]
        result = []
        for path in self.paths:
            rows = []
            for degree, moduli in zip(self.bank, ones, strict=True):
                u = moduli[path[0]]
                if len(path) == 2:
                    u = self.modulus(self.spectrum(u), degree[path[1]])[1]
                rows.append([sum(value**power for value in u) for power in self.powers])
            result.append(rows)
        return result

    def slope(self, u: Line, grads: Line) -> Line:
        return [
            sum(g * power * value ** (power - 1) for g, power in zip(grads, self.powers, strict=True)) if value else 0.0
            for value in u
        ]

    def adjoint(self, z: list[Line], u: Line, g: Line, filters: list[Line]) -> Line:
        total = [0.0] * len(u)
        for part, psi in zip(z, filters, strict=True):
            spectrum = self.spectrum(times(g, direction(part, u)))
            total = plus(total, [a * b.conjugate() for a, b in zip(spectrum, psi, strict=True)])
        return total

    def backward(self, x: Line, grads: list[list[Line]]) -> Line:
        x_hat, total = self.spectrum(x), [0.0] * len(x)
        for number, degree in enumerate(self.bank):
            for j1, filters in enumerate(degree):
                z, u = self.modulus(x_hat, filters)
                u_hat, inner, g = self.spectrum(u), [0.0] * len(u), [0.0] * len(u)
                for path, slopes in zip(self.paths, grads, strict=True):
                    if path[0] != j1:
                        continue
                    if len(path) == 1:
                        g = plus(g, self.slope(u, slopes[number]))
                        continue
                    w, v = self.modulus(u_hat, degree[path[1]])
                    inner = plus(inner, self.adjoint(w, v, self.slope(v, slopes[number]), degree[path[1]]))
                g = plus(g, real(inverse(inner, self.shape)))
                total = plus(total, self.adjoint(z, u, g, filters))
        return real(inverse(total, self.shape))


def harmonic(direction_of: str, moments: bool = False) -> Maker:
    def make(x: np.ndarray, grad: np.ndarray | None = None, **parameters: Any) -> Call:
        S = _made("HarmonicScattering3D", x, parameters)
        volumes, signals, count = Volumes(S), flat(x), math.prod(S.shape) if moments else 1
        if direction_of == "forward":
            return lambda: [
                [[[value / count for value in row] for row in path] for path in volumes.forward(signal)]
                for signal in signals
            ]
        slopes = (grad / count).tolist()
        return lambda: [
            nested(volumes.backward(signal, each), S.shape) for signal, each in zip(signals, slopes, strict=True)
        ]

    return make


# ---- rotations and translations ----
def roto(direction_of: str, moments: bool = False) -> Maker:
    def make(x: np.ndarray, grad: np.ndarray | None = None, **parameters: Any) -> Call:
        S = _made("RotoTranslationScattering2D", x, parameters)
        turns, signals = Turns(S, moments), flat(x)
        if direction_of == "forward":
            if moments:
                return lambda: [[value for (value,) in turns.forward(signal)] for signal in signals]
            return lambda: [[nested(path, turns.output) for path in turns.forward(signal)] for signal in signals]
        slopes = grad.reshape(*grad.shape[:2], -1).tolist()
        return lambda: [
            nested(turns.backward(signal, each), S.shape) for signal, each in zip(signals, slopes, strict=True)
        ]

    return make


# ---- the fast wavelet transform ----
def _filters(wavelet: str) -> tuple[Line, Line]:
    from cases.scattering_bench_formulas import daubechies

    low, high = daubechies(wavelet)
    return low.tolist(), high.tolist()


def _analysis(taps: Line) -> Callable[[Line], Line]:
    def change(line: Line) -> Line:
        n = len(line)
        return [sum(tap * line[(2 * k + t) % n] for t, tap in enumerate(taps)) for k in range(n // 2)]

    return change


def _synthesis(taps: Line) -> Callable[[Line], Line]:
    def change(line: Line) -> Line:
        n = 2 * len(line)
        result = [0.0] * n
        for k, value in enumerate(line):
            for t, tap in enumerate(taps):
                result[(2 * k + t) % n] += tap * value
        return result

    return change


def wavelet_transform(x: np.ndarray, J: int, wavelet: str) -> Call:
    images, given, (low, high) = flat(x), x.shape[-2:], _filters(wavelet)

    def transformed() -> tuple:
        averages, details = [], [[] for _ in range(J)]
        for image in images:
            shape = given
            for j in range(J):
                for down, across in ((low, high), (high, low), (high, high)):
                    details[j].append(along_all(image, shape, [_analysis(down), _analysis(across)]))
                image = along_all(image, shape, [_analysis(low), _analysis(low)])
                shape = (shape[0] // 2, shape[1] // 2)
            averages.append(image)
        return averages, *details

    return transformed


def inverse_wavelet_transform(approximation: np.ndarray, wavelet: str, **details: np.ndarray) -> Call:
    images, shape, (low, high) = flat(approximation), approximation.shape[-2:], _filters(wavelet)
    scales = [detail.reshape(*detail.shape[:2], -1).tolist() for detail in reversed(details.values())]

    def transformed() -> list:
        result = []
        for number, image in enumerate(images):
            size = shape
            for scale in scales:
                total = along_all(image, size, [_synthesis(low), _synthesis(low)])
                pairs = ((low, high), (high, low), (high, high))
                for part, (down, across) in zip(scale[number], pairs, strict=True):
                    total = plus(total, along_all(part, size, [_synthesis(down), _synthesis(across)]))
                image, size = total, (2 * size[0], 2 * size[1])
            result.append(nested(image, size))
        return result

    return transformed


LOOPS: dict[str, Maker] = {
    **{
        f"scattering.{name}{suffix}": make(name, suffix.startswith("_moments"))
        for name in ("Scattering1D", "Scattering2D")
        for suffix, make in (
            ("", tree_forward),
            ("_vjp", tree_backward),
            ("_moments", tree_forward),
            ("_moments_vjp", tree_backward),
        )
    },
    **{
        f"scattering.{name}{suffix}": make(way, suffix.startswith("_moments"))
        for name, make in (("HarmonicScattering3D", harmonic), ("RotoTranslationScattering2D", roto))
        for suffix, way in (
            ("", "forward"),
            ("_vjp", "backward"),
            ("_moments", "forward"),
            ("_moments_vjp", "backward"),
        )
    },
    "scattering.wavelet_transform2d": wavelet_transform,
    "scattering.inverse_wavelet_transform2d": inverse_wavelet_transform,
}
