"""Signals of any number of axes as flat lists: what is done to them, along one axis after the other.

Fourier transforms are the sums that define them.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Line = list[Any]


def along(values: Line, shape: Shape, axis: int, change: Callable[[Line], Line]) -> tuple[Line, Shape]:
    """Change all lines along an axis; give the values and their shape."""
    stride, n = math.prod(shape[axis + 1 :]), shape[axis]
    lines = [
        change(values[start + place : start + n * stride : stride])
        for start in range(0, len(values), n * stride)
        for place in range(stride)
    ]
    m = len(lines[0])
    result = [0.0] * (len(lines) * m)
    for number, line in enumerate(lines):
        start, place = divmod(number, stride)
        result[start * m * stride + place : (start + 1) * m * stride : stride] = line
    return result, (*shape[:axis], m, *shape[axis + 1 :])


def along_all(values: Line, shape: Shape, changes: list[Callable[[Line], Line]]) -> Line:
    for axis, change in enumerate(changes):
        values, shape = along(values, shape, axis, change)
    return values


def transform(values: Line, shape: Shape, sign: int = -1) -> Line:
    """Give the sums over t of values[t] exp(∓2πi k t / n), along all axes."""

    def change(line: Line) -> Line:
        n = len(line)
        roots = [cmath.exp(sign * 2j * math.pi * k / n) for k in range(n)]
        return [sum(value * roots[k * t % n] for t, value in enumerate(line)) for k in range(n)]

    return along_all(values, shape, [change] * len(shape))


def inverse(values: Line, shape: Shape) -> Line:
    return [value / len(values) for value in transform(values, shape, 1)]


def fold(spectrum: Line, shape: Shape, step: int) -> Line:
    """Subsample by taking the mean of the periods of a spectrum."""

    def change(line: Line) -> Line:
        m = len(line) // step
        return [sum(line[k::m]) / step for k in range(m)]

    return along_all(spectrum, shape, [change] * len(shape))


def repeat(spectrum: Line, shape: Shape, step: int) -> Line:
    """Repeat a spectrum: up to a factor, the adjoint of `fold`."""
    return along_all(spectrum, shape, [lambda line: line * step] * len(shape))


def pad(values: Line, shape: Shape, padding: list[list[int]]) -> Line:
    return along_all(values, shape, [lambda line, places=places: [line[p] for p in places] for places in padding])


def pad_adjoint(values: Line, shape: Shape, padding: list[list[int]]) -> Line:
    def gathered(places: list[int]) -> Callable[[Line], Line]:
        def change(line: Line) -> Line:
            result = [0.0] * (max(places) + 1)
            for place, value in zip(places, line, strict=True):
                result[place] += value
            return result

        return change

    return along_all(values, shape, [gathered(places) for places in padding])


def cut(values: Line, shape: Shape, parts: list[tuple[int, int]]) -> Line:
    return along_all(values, shape, [lambda line, a=a, b=b: line[a:b] for a, b in parts])


def uncut(values: Line, shape: Shape, parts: list[tuple[int, int]]) -> Line:
    """Put a part of something of a shape back, with zeros around it."""
    kept = tuple(b - a for a, b in parts)
    changes = [
        lambda line, a=a, b=b, n=n: [0.0] * a + line + [0.0] * (n - b) for (a, b), n in zip(parts, shape, strict=True)
    ]
    return along_all(values, kept, changes)


def times(values: Line, others: Line) -> Line:
    return [a * b for a, b in zip(values, others, strict=True)]


def plus(values: Line, others: Line) -> Line:
    return [a + b for a, b in zip(values, others, strict=True)]


def real(values: Line) -> Line:
    return [value.real for value in values]


def direction(z: Line, u: Line) -> Line:
    """Give z / |z|, the gradient of |z|; 0 at 0."""
    return [a / b if b else 0.0 for a, b in zip(z, u, strict=True)]


def nested(values: Line, shape: Shape) -> Line:
    if len(shape) < 2:
        return values
    step = len(values) // shape[0]
    return [nested(values[i : i + step], shape[1:]) for i in range(0, len(values), step)]


def flat(array: np.ndarray) -> list[Line]:
    """Give a flat list for each signal of a batch along one axis."""
    return array.reshape(array.shape[0], -1).tolist()
