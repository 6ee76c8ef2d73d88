"""The functions of fastdl.conv as loops over lists of floats: what the formulas cost without any library.

A maker turns the inputs into lists beforehand; its call uses nothing but those and the math module. Signals and images
are volumes whose first axes have one position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = Callable[[], Any]
Maker = Callable[..., Call]
Volume = list[list[list[float]]]
Maps = list[list[Volume]]  # by image and channel, or by filter and channel
Triple = tuple[int, ...]
Steps = tuple[Triple, Triple]  # stride and padding


# ---- volumes ----
def volumes(array: np.ndarray) -> Maps:
    """Give maps or filters of one to three axes as lists."""
    return array.reshape(*array.shape[:2], *triple(array.shape[2:])).tolist()


def triple(size: tuple[int, ...]) -> Triple:
    return (1,) * (3 - len(size)) + tuple(size)


def steps_of(axes: int, stride: int, padding: int) -> Steps:
    """Give stride and padding along three axes, of which the first may not be there."""
    return (1,) * (3 - axes) + axes * (stride,), (0,) * (3 - axes) + axes * (padding,)


def positions(size: Triple, kernel: Triple, steps: Steps) -> Triple:
    return tuple((n + 2 * m - k) // s + 1 for n, k, s, m in zip(size, kernel, *steps, strict=True))


def _without_axes(maps: Maps, axes: int) -> Any:
    """Leave out the axes that were not there."""
    if axes == 3:
        return maps
    return [[volume[0] if axes == 2 else volume[0][0] for volume in image] for image in maps]


def _filled(size: Triple, value: float) -> Volume:
    return [[[value] * size[2] for _ in range(size[1])] for _ in range(size[0])]


def _padded(volume: Volume, margins: Triple, value: float = 0.0) -> Volume:
    depth, height, width = (len(volume), len(volume[0]), len(volume[0][0]))
    result = _filled((depth + 2 * margins[0], height + 2 * margins[1], width + 2 * margins[2]), value)
    for z, plane in enumerate(volume):
        for y, row in enumerate(plane):
            result[margins[0] + z][margins[1] + y][margins[2] : margins[2] + width] = row
    return result


def _cropped(volume: Volume, margins: Triple, size: Triple) -> Volume:
    ends = [margin + n for margin, n in zip(margins, size, strict=True)]
    return [
        [row[margins[2] : ends[2]] for row in plane[margins[1] : ends[1]]] for plane in volume[margins[0] : ends[0]]
    ]


def _places(size: Triple, strides: Triple) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Go through the positions of a result, each with where its window begins."""
    for z in range(size[0]):
        for y in range(size[1]):
            for x in range(size[2]):
                yield z, y, x, z * strides[0], y * strides[1], x * strides[2]


# ---- convolutions and their gradients ----
def _correlated(image: list[Volume], taps: list[Volume], size: Triple, strides: Triple) -> Volume:
    """Sum a filter of several channels over all windows of padded volumes."""
    result = _filled(size, 0.0)
    for z, y, x, low, top, left in _places(size, strides):
        total = 0.0
        for volume, block in zip(image, taps, strict=True):
            for a, tap_plane in enumerate(block):
                plane = volume[low + a]
                for b, tap_row in enumerate(tap_plane):
                    for value, tap in zip(plane[top + b][left : left + len(tap_row)], tap_row, strict=True):
                        total += value * tap
        result[z][y][x] = total
    return result


def _add_filters(result: list[Volume], grad: Volume, taps: list[Volume], strides: Triple) -> None:
    """Put down a filter of several channels, as large as each element says, at its window in padded volumes."""
    size = (len(grad), len(grad[0]), len(grad[0][0]))
    for z, y, x, low, top, left in _places(size, strides):
        factor = grad[z][y][x]
        for volume, block in zip(result, taps, strict=True):
            for a, tap_plane in enumerate(block):
                for b, tap_row in enumerate(tap_plane):
                    row = volume[low + a][top + b]
                    for i, tap in enumerate(tap_row):
                        row[left + i] += factor * tap


def convolved(maps: Maps, filters: Maps, size: Triple, steps: Steps, groups: int = 1) -> Maps:
    strides, margins = steps
    channels, of_group = len(filters[0]), len(filters) // groups
    result = []
    for image in maps:
        padded = [_padded(volume, margins) for volume in image]
        result.append([])
        for o, taps in enumerate(filters):
            first = o // of_group * channels
            result[-1].append(_correlated(padded[first : first + channels], taps, size, strides))
    return result


def put_down(slopes: Maps, filters: Maps, size: Triple, steps: Steps, groups: int = 1) -> Maps:
    """Give the gradient for the input, whose volumes have that size."""
    strides, margins = steps
    channels, of_group = len(filters[0]), len(filters) // groups
    wide = tuple(n + 2 * margin for n, margin in zip(size, margins, strict=True))
    result = []
    for image in slopes:
        padded = [_filled(wide, 0.0) for _ in range(groups * channels)]
        for o, taps in enumerate(filters):
            first = o // of_group * channels
            _add_filters(padded[first : first + channels], image[o], taps, strides)
        result.append([_cropped(volume, margins, size) for volume in padded])
    return result


def for_filters(maps: Maps, slopes: Maps, kernel: Triple, steps: Steps, groups: int = 1) -> Maps:
    """Give the gradient for filters of that size."""
    strides, margins = steps
    depth, height, width = len(slopes[0][0]), len(slopes[0][0][0]), len(slopes[0][0][0][0])
    channels, of_group = len(maps[0]) // groups, len(slopes[0]) // groups
    step = strides[2]
    padded = [[_padded(volume, margins) for volume in image] for image in maps]
    result = [[_filled(kernel, 0.0) for _ in range(channels)] for _ in slopes[0]]
    for o, filters in enumerate(result):
        for c, taps in enumerate(filters, start=o // of_group * channels):
            for a, b, i, *_ in _places(kernel, strides):
                total = 0.0
                for image, of_image in zip(padded, slopes, strict=True):
                    for z in range(depth):
                        for y in range(height):
                            row = image[c][z * strides[0] + a][y * strides[1] + b]
                            met = row[i : i + step * (width - 1) + 1 : step]
                            for value, slope in zip(met, of_image[o][z][y], strict=True):
                                total += value * slope
                taps[a][b][i] = total
    return result


def conv(x: np.ndarray, w: np.ndarray, stride: int, padding: int, groups: int) -> Call:
    axes, maps, filters = x.ndim - 2, volumes(x), volumes(w)
    steps = steps_of(axes, stride, padding)
    size = positions(triple(x.shape[2:]), triple(w.shape[2:]), steps)
    return lambda: _without_axes(convolved(maps, filters, size, steps, groups), axes)


def conv_input(
    input_size: tuple[int, ...], w: np.ndarray, grad: np.ndarray, stride: int, padding: int, groups: int
) -> Call:
    axes, filters, slopes = w.ndim - 2, volumes(w), volumes(grad)
    steps, size = steps_of(axes, stride, padding), triple(input_size[2:])
    return lambda: _without_axes(put_down(slopes, filters, size, steps, groups), axes)


def conv_weight(
    x: np.ndarray, weight_size: tuple[int, ...], grad: np.ndarray, stride: int, padding: int, groups: int
) -> Call:
    axes, maps, slopes = x.ndim - 2, volumes(x), volumes(grad)
    steps, kernel = steps_of(axes, stride, padding), triple(weight_size[2:])
    return lambda: _without_axes(for_filters(maps, slopes, kernel, steps, groups), axes)


def conv_transpose(
    x: np.ndarray, w: np.ndarray, stride: int, padding: int = 0, output_padding: int = 0, groups: int = 1
) -> Call:
    """Put down filters, as the gradient for the input does."""
    sizes = zip(x.shape[2:], w.shape[2:], strict=True)
    size = [(n - 1) * stride + k + output_padding - 2 * padding for n, k in sizes]
    return conv_input((len(x), groups * w.shape[1], *size), w, x, stride, padding, groups)


# ---- signals, and the matrices that convolve them ----
def convolve(f: np.ndarray, h: np.ndarray) -> Call:
    """Put down h at every element of f."""
    call = conv_transpose(f[None, None], h[None, None], 1)
    return lambda: call()[0][0]


def correlate(f: np.ndarray, h: np.ndarray) -> Call:
    return convolve(f, np.flip(h))


def circulant(h: np.ndarray) -> Call:
    values = h.tolist()

    def call() -> Any:
        n = len(values)
        return [[values[(i - j) % n] for j in range(n)] for i in range(n)]

    return call


def toeplitz(h: np.ndarray, n: int) -> Call:
    values = h.tolist()

    def call() -> Any:
        m = len(values)
        return [[values[i - j] if 0 <= i - j < m else 0.0 for j in range(n)] for i in range(n + m - 1)]

    return call


# ---- pooling ----
def _pooled(x: np.ndarray, kernel_size: int, stride: int, padding: int, outside: float, join: Callable) -> Call:
    axes, maps = x.ndim - 2, volumes(x)
    strides, margins = steps = steps_of(axes, stride, padding)
    kernel = triple(axes * (kernel_size,))
    size = positions(triple(x.shape[2:]), kernel, steps)

    def pooled(volume: Volume) -> Volume:
        padded, result = _padded(volume, margins, outside), _filled(size, 0.0)
        for z, y, x, low, top, left in _places(size, strides):
            window = []
            for a in range(kernel[0]):
                for b in range(kernel[1]):
                    window += padded[low + a][top + b][left : left + kernel[2]]
            result[z][y][x] = join(window)
        return result

    return lambda: _without_axes([[pooled(volume) for volume in image] for image in maps], axes)


def max_pool(x: np.ndarray, kernel_size: int, stride: int, padding: int) -> Call:
    return _pooled(x, kernel_size, stride, padding, -math.inf, max)


def avg_pool(x: np.ndarray, kernel_size: int, stride: int, padding: int) -> Call:
    return _pooled(x, kernel_size, stride, padding, 0.0, lambda window: sum(window) / len(window))


def max_pool_grad(grad: np.ndarray, indices: np.ndarray, input_size: tuple[int, ...], **windows: int) -> Call:
    """Add every element where the largest one was; the windows are needed by others."""
    slopes = grad.reshape(*grad.shape[:2], -1).tolist()
    places = indices.reshape(*indices.shape[:2], -1).tolist()
    axes, (depth, height, width) = grad.ndim - 2, triple(input_size[2:])

    def call() -> Any:
        result = []
        for image, of_image in zip(slopes, places, strict=True):
            result.append([])
            for channel, of_channel in zip(image, of_image, strict=True):
                volume = _filled((depth, height, width), 0.0)
                for slope, place in zip(channel, of_channel, strict=True):
                    volume[place // (height * width)][place // width % height][place % width] += slope
                result[-1].append(volume)
        return _without_axes(result, axes)

    return call


def avg_pool_grad(grad: np.ndarray, input_size: tuple[int, ...], kernel_size: int, stride: int, padding: int) -> Call:
    """Put down windows of equal parts: filters of a channel each."""
    axes, channels = grad.ndim - 2, grad.shape[1]
    share = np.full((channels, 1, *axes * (kernel_size,)), 1 / kernel_size**axes)
    return conv_input(input_size, share, grad, stride, padding, channels)


# ---- graphs ----
def graph_laplacian(normalized: bool, A: np.ndarray | None = None, **edges: Any) -> Call:
    """Take a dense matrix, or one by its edges."""
    if A is None:
        return _sparse_laplacian(normalized, **edges)
    matrix = A.tolist()

    def call() -> Any:
        degrees = [sum(row) for row in matrix]
        result = []
        for i, row in enumerate(matrix):
            if normalized:
                result.append([-a / math.sqrt(degrees[i] * degrees[j]) for j, a in enumerate(row)])
                result[i][i] += 1.0
            else:
                result.append([-a for a in row])
                result[i][i] += degrees[i]
        return result

    return call


def _sparse_laplacian(normalized: bool, weights: np.ndarray, ends: np.ndarray, n: int) -> Call:
    """Give rows, columns and entries, row by row."""
    rows: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for i, j, a in zip(*ends.tolist(), weights.tolist(), strict=True):
        rows[i].append((j, a))

    def call() -> Any:
        degrees = [sum(a for _, a in row) for row in rows]
        result = []
        for i, row in enumerate(rows):
            if normalized:
                entries = [(i, j, -a / math.sqrt(degrees[i] * degrees[j])) for j, a in row] + [(i, i, 1.0)]
            else:
                entries = [(i, j, -a) for j, a in row] + [(i, i, degrees[i])]
            result += sorted(entries)
        return tuple(list(column) for column in zip(*result, strict=True))

    return call


def _product(left: list[list[float]], right: list[list[float]]) -> list[list[float]]:
    columns = list(zip(*right, strict=True))
    result = []
    for row in left:
        result.append([])
        for column in columns:
            total = 0.0
            for a, b in zip(row, column, strict=True):
                total += a * b
            result[-1].append(total)
    return result


def graph_filter(L: np.ndarray, X: np.ndarray, coefficients: tuple[float, ...], basis: str, largest: float) -> Call:
    """Sum up Chebyshev polynomials by their recurrence."""
    if basis != "chebyshev":
        raise ValueError(f"expected the basis chebyshev, got {basis}")
    laplacian, signals = L.tolist(), X.tolist()

    def call() -> Any:
        scaled = [[2 / largest * a - (i == j) for j, a in enumerate(row)] for i, row in enumerate(laplacian)]
        before, now = signals, _product(scaled, signals)
        result = [[coefficients[0] * a for a in row] for row in signals]
        for k, coefficient in enumerate(coefficients[1:], start=1):
            if k > 1:
                following = _product(scaled, now)
                for row, last in zip(following, before, strict=True):
                    for j, value in enumerate(last):
                        row[j] = 2 * row[j] - value
                before, now = now, following
            for total, row in zip(result, now, strict=True):
                for j, value in enumerate(row):
                    total[j] += coefficient * value
        return result

    return call


def gcn(A: np.ndarray, X: np.ndarray, W: np.ndarray) -> Call:
    edges, features, weights = A.tolist(), X.tolist(), W.tolist()

    def call() -> Any:
        degrees = [1 + sum(row) for row in edges]
        normal = [
            [(a + (i == j)) / math.sqrt(degrees[i] * degrees[j]) for j, a in enumerate(row)]
            for i, row in enumerate(edges)
        ]
        return _product(_product(normal, features), weights)

    return call


LOOPS: dict[str, Maker] = {
    **{f"conv.conv{axes}d": conv for axes in (1, 2, 3)},
    **{f"conv.conv{axes}d_input": conv_input for axes in (1, 2, 3)},
    **{f"conv.conv{axes}d_weight": conv_weight for axes in (1, 2, 3)},
    **{f"conv.conv_transpose{axes}d": conv_transpose for axes in (1, 2, 3)},
    **{f"conv.max_pool{axes}d": max_pool for axes in (1, 2, 3)},
    **{f"conv.avg_pool{axes}d": avg_pool for axes in (1, 2, 3)},
    **{f"conv.max_pool{axes}d_grad": max_pool_grad for axes in (1, 2, 3)},
    **{f"conv.avg_pool{axes}d_grad": avg_pool_grad for axes in (1, 2, 3)},
    "conv.prepare": conv,
    "conv.convolve": convolve,
    "conv.correlate": correlate,
    "conv.circulant": circulant,
    "conv.toeplitz": toeplitz,
    "conv.graph_laplacian": graph_laplacian,
    "conv.graph_filter": graph_filter,
    "conv.gcn": gcn,
}
