"""Scattering of one image on rotations and translations as loops over lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loops_lines import (
    Line,
    Shape,
    along_all,
    direction,
    fold,
    inverse,
    pad,
    pad_adjoint,
    plus,
    real,
    repeat,
    times,
    transform,
)


class Turns:
    """The transform, with everything of its bank as lists, and its gradient."""

    def __init__(self, S: Any, moments: bool) -> None:
        bank = S._bank
        self.bank, self.J, self.L, self.shape = bank, bank.J, bank.L, bank.shape
        self.padding = [places.tolist() for places in bank.padding]
        self.padded = tuple(len(places) for places in self.padding)
        self.shift = bank.shift.ravel().tolist()
        self.first = [[psi.ravel().tolist() for psi in scale] for scale in bank.first]
        self.second = [[[psi.ravel().tolist() for psi in scale] for scale in part] for part in bank.second]
        self.angular = bank.angular.tolist()
        self.rows = [[row.tolist() for row in rows] for rows in (bank.mean if moments else bank.low)]
        self.columns = [[list(zip(*row, strict=True)) for row in rows] for rows in self.rows]
        self.output = tuple(len(row) for row in self.rows[0])

    def grid(self, j: int) -> Shape:
        return tuple(n >> j for n in self.padded)

    def average(self, u: Line, j: int) -> Line:
        changes = [
            lambda line, rows=rows: [sum(a * b for a, b in zip(row, line, strict=True)) for row in rows]
            for rows in self.rows[j]
        ]
        return along_all(u, self.grid(j), changes)

    def spread(self, g: Line, j: int) -> Line:
        changes = [
            lambda line, rows=rows: [sum(a * b for a, b in zip(row, line, strict=True)) for row in rows]
            for rows in self.columns[j]
        ]
        return along_all(g, self.output, changes)

    def centred(self, x: Line) -> Line:
        return times(transform(pad(x, self.shape, self.padding), self.padded), self.shift)

    def wavelet(self, u_hat: Line, psi: Line, j: int, step: int) -> Line:
        coarse = tuple(n // step for n in self.grid(j))
        return inverse(fold(times(u_hat, psi), self.grid(j), step), coarse)

    def wavelet_adjoint(self, g: Line, psi: Line, j: int, step: int) -> Line:
        coarse = tuple(n // step for n in self.grid(j))
        return times(repeat(transform(g, coarse), coarse, step), psi)

    def mean(self, maps: list[Line]) -> Line:
        return [sum(values) / len(maps) for values in zip(*maps, strict=True)]

    def turned(self, spectra: list[Line], j1: int, j2: int, turn: int) -> list[Line]:
        """Give the second wavelets of all 2 L angles, each turned against the first; beyond L they are conjugate."""
        half = []
        for t, u_hat in enumerate(spectra):
            psi = self.second[j1][j2 - j1 - 1][(t + turn) % self.L]
            z = self.wavelet(u_hat, psi, j1, 2 ** (j2 - j1))
            half.append(z if t + turn < self.L else [value.conjugate() for value in z])
        return half + [[value.conjugate() for value in z] for z in half]

    def over_angles(self, maps: list[Line], matrix: list[Line]) -> list[Line]:
        columns = list(zip(*maps, strict=True))
        return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in matrix]

    def pairs(self) -> Iterator[tuple[int, int, int]]:
        for j1 in range(self.J if self.bank.max_order == 2 else 0):
            for j2 in range(j1 + 1, self.J):
                for turn in range(self.L):
                    yield j1, j2, turn

    def forward(self, x: Line) -> list[Line]:
        x_hat = self.centred(x)
        results, spectra = [self.average(real(inverse(x_hat, self.padded)), 0)], []
        for j1, wavelets in enumerate(self.first):
            moduli = [[abs(value) for value in self.wavelet(x_hat, psi, 0, 2**j1)] for psi in wavelets]
            results.append(self.average(self.mean(moduli), j1))
            spectra.append([transform(u, self.grid(j1)) for u in moduli])
        for j1, j2, turn in self.pairs():
            maps = self.turned(spectra[j1], j1, j2, turn)
            for matrix in self.angular:
                moduli = [[abs(value) for value in z] for z in self.over_angles(maps, matrix)]
                results.append(self.average(self.mean(moduli), j2))
        return results

    def backward(self, x: Line, grads: list[Line]) -> Line:
        x_hat = self.centred(x)
        parts = [[self.wavelet(x_hat, psi, 0, 2**j) for psi in wavelets] for j, wavelets in enumerate(self.first)]
        moduli = [[[abs(value) for value in z] for z in scale] for scale in parts]
        inner = [[[0.0] * len(u) for u in scale] for scale in moduli]
        channel = self.J + 1
        for j1, j2, turn in self.pairs():
            maps = self.turned([transform(u, self.grid(j1)) for u in moduli[j1]], j1, j2, turn)
            back = [[0.0] * len(z) for z in maps]
            for matrix in self.angular:
                spread = [g / (2 * self.L) for g in self.spread(grads[channel], j2)]
                slopes = [
                    times(spread, direction(z, [abs(value) for value in z])) for z in self.over_angles(maps, matrix)
                ]
                adjoint = [[value.conjugate() for value in column] for column in zip(*matrix, strict=True)]
                back = [plus(a, b) for a, b in zip(back, self.over_angles(slopes, adjoint), strict=True)]
                channel += 1
            for t in range(self.L):
                g = [a + b.conjugate() for a, b in zip(back[t], back[t + self.L], strict=True)]
                g = g if t + turn < self.L else [value.conjugate() for value in g]
                psi = self.second[j1][j2 - j1 - 1][(t + turn) % self.L]
                inner[j1][t] = plus(inner[j1][t], self.wavelet_adjoint(g, psi, j1, 2 ** (j2 - j1)))
        total = transform(self.spread(grads[0], 0), self.padded)
        for j1, wavelets in enumerate(self.first):
            spread = [g / self.L for g in self.spread(grads[1 + j1], j1)]
            for t, psi in enumerate(wavelets):
                g = plus(spread, real(inverse(inner[j1][t], self.grid(j1))))
                slopes = times(g, direction(parts[j1][t], moduli[j1][t]))
                total = plus(total, self.wavelet_adjoint(slopes, psi, 0, 2**j1))
        centred = inverse([a * b.conjugate() for a, b in zip(total, self.shift, strict=True)], self.padded)
        return pad_adjoint(real(centred), self.padded, self.padding)
