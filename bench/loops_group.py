"""The functions of fastdl.group as loops over lists of floats: what the formulas cost without any library.

A maker turns the inputs into lists beforehand, and lists where a pose takes a pixel from; its call uses nothing but
those and the math module.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cases.group import QUOTIENTS, order, pose
from loops_conv import Call, Maker, Maps, convolved, for_filters, positions, put_down, steps_of, triple, volumes

Plane = list[list[float]]
Places = list[list[list[int]]]


# ---- groups of the plane ----
def _places(group: str, side: int) -> list[Places]:
    """For every element and every pixel of a square, give the row and column that the pixel comes from."""
    rows_and_columns = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))
    return [np.moveaxis(pose(rows_and_columns, group, s), 0, -1).tolist() for s in range(order(group))]


def _posed(plane: Plane, places: Places) -> Plane:
    return [[plane[i][j] for i, j in row] for row in places]


def _flat(maps: np.ndarray) -> Maps:
    """Join channels and elements, if there are any."""
    return volumes(maps.reshape(len(maps), -1, *maps.shape[-2:]))


def _split(maps: Maps, elements: int) -> list:
    """Take channels and elements apart."""
    return [
        [[volume[0] for volume in image[first : first + elements]] for first in range(0, len(image), elements)]
        for image in maps
    ]


def _expanded(w: list, group: str, places: list[Places]) -> Maps:
    """Give the filters of all elements: A_s w[o][c][s⁻¹t], or A_s w[o][c] where they lift."""
    result = []
    for filters in w:
        for s, quotient in enumerate(QUOTIENTS[group]):
            result.append([])
            for channel in filters:
                planes = channel if isinstance(channel[0][0], list) else [channel]
                for t in quotient if planes is channel else (0,):
                    result[-1].append([_posed(planes[t], places[s])])
    return result


def _expanded_lists(w: np.ndarray, group: str) -> Call:
    filters, places = w.tolist(), _places(group, w.shape[-1])
    return lambda: _expanded(filters, group, places)


def conv2d(x: np.ndarray, w: np.ndarray, group: str, stride: int, padding: int) -> Call:
    maps, filters, steps = _flat(x), _expanded_lists(w, group), steps_of(2, stride, padding)
    size = positions(triple(x.shape[-2:]), triple(w.shape[-2:]), steps)
    return lambda: _split(convolved(maps, filters(), size, steps), order(group))


def conv2d_input(
    input_size: tuple[int, ...], w: np.ndarray, grad: np.ndarray, group: str, stride: int, padding: int
) -> Call:
    slopes, filters, steps = _flat(grad), _expanded_lists(w, group), steps_of(2, stride, padding)
    size, lifts = triple(input_size[-2:]), len(input_size) == 4

    def call() -> Any:
        result = put_down(slopes, filters(), size, steps)
        return [[volume[0] for volume in image] for image in result] if lifts else _split(result, order(group))

    return call


def conv2d_weight(
    x: np.ndarray, weight_size: tuple[int, ...], grad: np.ndarray, group: str, stride: int, padding: int
) -> Call:
    """Sum A_{s⁻¹} G[o, s, c, su] over s, of the gradient G for the filters of all elements."""
    maps, slopes, steps = _flat(x), _flat(grad), steps_of(2, stride, padding)
    k, lifts = weight_size[-1], len(weight_size) == 4
    places, elements = _places(group, k), order(group)

    def call() -> Any:
        plain = for_filters(maps, slopes, triple((k, k)), steps)
        outputs, inputs = len(plain) // elements, weight_size[1]
        result = [[[_zeros(k) for _ in range(1 if lifts else elements)] for _ in range(inputs)] for _ in range(outputs)]
        for o in range(outputs):
            for s, quotient in enumerate(QUOTIENTS[group]):
                for c in range(inputs):
                    for t, u in enumerate((0,) if lifts else quotient):
                        found = plain[o * elements + s][c * (1 if lifts else elements) + t][0]
                        _add(result[o][c][u], _posed(found, places[quotient[0]]))
        return [[planes[0] for planes in filters] for filters in result] if lifts else result

    return call


def _zeros(k: int) -> Plane:
    return [[0.0] * k for _ in range(k)]


def _add(total: Plane, plane: Plane) -> None:
    for i, row in enumerate(plane):
        for j, value in enumerate(row):
            total[i][j] += value


def expand_filters(w: np.ndarray, group: str, lift: bool) -> Call:
    call = _expanded_lists(w, group)
    return lambda: [[volume[0] for volume in filters] for filters in call()]


def act(x: np.ndarray, g: int, group: str) -> Call:
    maps, places, quotient = x.tolist(), _places(group, x.shape[-1])[g], QUOTIENTS[group][g]
    return lambda: [[[_posed(channel[t], places) for t in quotient] for channel in image] for image in maps]


# ---- turns by any angle ----
def _turned(plane: Plane, angle: float) -> Plane:
    """Turn a filter counter-clockwise; what lies more than k / 2 from its middle is 0."""
    k = len(plane)
    middle, c, d = (k - 1) / 2, math.cos(angle), math.sin(angle)
    inside = [[math.hypot(i - middle, j - middle) <= k / 2 for j in range(k)] for i in range(k)]
    result = _zeros(k)
    for i in range(k):
        for j in range(k):
            if not inside[i][j]:
                continue
            right, up = j - middle, middle - i
            row, column = middle - (c * up - d * right), c * right + d * up + middle
            for a in (math.floor(row), math.floor(row) + 1):
                for b in (math.floor(column), math.floor(column) + 1):
                    if 0 <= a < k and 0 <= b < k and inside[a][b]:
                        result[i][j] += (1 - abs(row - a)) * (1 - abs(column - b)) * plane[a][b]
    return result


def _all_turned(w: np.ndarray, rotations: int) -> Call:
    filters, lifts = w.tolist(), w.ndim == 4

    def call() -> Maps:
        result = []
        for channels in filters:
            for s in range(rotations):
                angle = 2 * math.pi * s / rotations
                result.append([])
                for channel in channels:
                    planes = [channel] if lifts else [channel[(t - s) % rotations] for t in range(rotations)]
                    result[-1] += [[_turned(plane, angle)] for plane in planes]
        return result

    return call


def se2_filters(w: np.ndarray, rotations: int, lift: bool) -> Call:
    call = _all_turned(w, rotations)
    return lambda: [[volume[0] for volume in filters] for filters in call()]


def se2_conv2d(x: np.ndarray, w: np.ndarray, rotations: int, padding: int) -> Call:
    maps, filters, steps = _flat(x), _all_turned(w, rotations), steps_of(2, 1, padding)
    size = positions(triple(x.shape[-2:]), triple(w.shape[-2:]), steps)
    return lambda: _split(convolved(maps, filters(), size, steps), rotations)


# ---- what is joined ----
def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)


def _length(values: tuple[float, ...]) -> float:
    return math.sqrt(sum(value * value for value in values))


JOINTS = {"max": max, "sum": sum, "mean": _mean, "l2": _length}


def pool(x: np.ndarray, mode: str) -> Call:
    maps, join = x.tolist(), JOINTS[mode]

    def pooled(planes: list[Plane]) -> Plane:
        return [[join(values) for values in zip(*rows, strict=True)] for rows in zip(*planes, strict=True)]

    return lambda: [[pooled(channel) for channel in image] for image in maps]


def set_pool(x: np.ndarray, mode: str) -> Call:
    sets, join = x.tolist(), JOINTS[mode]
    return lambda: [[join(values) for values in zip(*vectors, strict=True)] for vectors in sets]


def permutation_layer(x: np.ndarray, lam: np.ndarray, gam: np.ndarray) -> Call:
    sets, own, shared = x.tolist(), lam.T.tolist(), gam.T.tolist()

    def call() -> Any:
        result = []
        for vectors in sets:
            total = [sum(values) for values in zip(*vectors, strict=True)]
            common = [_dot(total, column) for column in shared]
            result.append([[_dot(v, column) + c for column, c in zip(own, common, strict=True)] for v in vectors])
        return result

    return call


def _dot(left: list[float], right: list[float]) -> float:
    total = 0.0
    for a, b in zip(left, right, strict=True):
        total += a * b
    return total


# ---- functions on finite groups, and orbits ----
def convolve(f: np.ndarray, h: np.ndarray, group: Any) -> Call:
    """Sum f(w) h(w⁻¹u) over w."""
    quotient = group.table[group.inverse].tolist()
    functions, factors = f.tolist(), np.broadcast_to(h, f.shape).tolist()

    def call() -> Any:
        result = []
        for values, others in zip(functions, factors, strict=True):
            total = [0.0] * len(values)
            for value, row in zip(values, quotient, strict=True):
                for u, v in enumerate(row):
                    total[u] += value * others[v]
            result.append(total)
        return result

    return call


def signature(
    x: np.ndarray, templates: np.ndarray, permutations: np.ndarray, thresholds: list[float], nonlinearity: str
) -> Call:
    if nonlinearity != "sigmoid":
        raise ValueError(f"expected sigmoids, got {nonlinearity}")
    samples, others, orders = x.tolist(), templates.tolist(), permutations.tolist()

    def call() -> Any:
        result = []
        for sample in samples:
            result.append([])
            for template in others:
                products = [_dot(sample, [template[i] for i in permutation]) for permutation in orders]
                result[-1].append([sum(1 / (1 + math.exp(b - p)) for p in products) for b in thresholds])
        return result

    return call


def average(x: np.ndarray, permutations: np.ndarray) -> Call:
    samples, orders = x.tolist(), permutations.tolist()

    def call() -> Any:
        result = []
        for sample in samples:
            total = [0.0] * len(sample)
            for permutation in orders:
                for i, place in enumerate(permutation):
                    total[i] += sample[place]
            result.append([value / len(orders) for value in total])
        return result

    return call


def orbit_gramian(t: np.ndarray, permutations: np.ndarray) -> Call:
    template, orders = t.tolist(), permutations.tolist()

    def call() -> Any:
        orbit = [[template[i] for i in permutation] for permutation in orders]
        return [[_dot(left, right) for right in orbit] for left in orbit]

    return call


def orbit_regularizer(W: np.ndarray, sigma: float) -> Call:
    columns = W.T.tolist()

    def call() -> Any:
        n, d = len(columns), len(columns[0])
        gramian = [[_dot(left, right) for right in columns] for left in columns]
        value, slopes = 0.0, _zeros(n)
        for i in range(n):
            for j in range(n):
                factor = (n if i == j else 0) - 1
                for k in range(n):
                    for m in range(n):
                        difference = gramian[k][i] - gramian[m][j]
                        term = factor * math.exp(-((difference / sigma) ** 2))
                        value += term
                        slopes[k][i] -= 2 / sigma**2 * difference * term
                        slopes[m][j] += 2 / sigma**2 * difference * term
        gradient = [[0.0] * n for _ in range(d)]
        for row, values in enumerate(zip(*columns, strict=True)):
            for i in range(n):
                gradient[row][i] = sum(values[k] * (slopes[k][i] + slopes[i][k]) for k in range(n))
        return value, gradient

    return call


LOOPS: dict[str, Maker] = {
    **{f"group.{lift}conv2d": conv2d for lift in ("", "lift_")},
    **{f"group.{lift}conv2d_input": conv2d_input for lift in ("", "lift_")},
    **{f"group.{lift}conv2d_weight": conv2d_weight for lift in ("", "lift_")},
    **{f"group.se2_{lift}conv2d": se2_conv2d for lift in ("", "lift_")},
    "group.se2_filters": se2_filters,
    "group.expand_filters": expand_filters,
    "group.act": act,
    "group.pool": pool,
    "group.set_pool": set_pool,
    "group.permutation_layer": permutation_layer,
    "group.convolve": convolve,
    "group.signature": signature,
    "group.average": average,
    "group.orbit_gramian": orbit_gramian,
    "group.orbit_regularizer": orbit_regularizer,
}
