"""Convolutions: inputs, results computed in another way and in more precision, and the error allowed."""

from __future__ import annotations

import itertools
import math

import numpy as np

from cases import wide

# Around the widths of vectors and the sides of tiles.
SIZES = (1, 7, 8, 9, 15, 16, 17, 31, 32, 33)
CHANNELS = (1, 3, 8, 17, 64)

NUMPY_MODES = {"zeros": "constant", "circular": "wrap", "reflect": "reflect", "replicate": "edge"}

# Shapes of x and w, and options; the bias is added where it is marked.
CASES = (
    # one axis
    ((2, 3, 17), (5, 3, 4), {}),
    ((1, 1, 1), (1, 1, 1), {"bias": True}),
    ((2, 4, 33), (6, 2, 3), {"groups": 2, "stride": 2, "padding": 1, "bias": True}),
    ((1, 5, 31), (5, 1, 9), {"groups": 5, "padding": "same"}),
    ((2, 3, 16), (4, 3, 5), {"padding": "full", "dilation": 3}),
    ((1, 2, 9), (3, 2, 3), {"padding": 4, "stride": 4, "dilation": 2, "bias": True}),
    ((1, 1, 200), (2, 1, 65), {"padding": "same"}),
    # two axes
    ((2, 3, 9, 11), (4, 3, 3, 3), {}),
    ((1, 4, 8, 7), (17, 4, 3, 3), {"padding": 1, "bias": True}),
    ((3, 2, 15, 17), (3, 2, 3, 3), {"padding": "same", "bias": True}),
    ((1, 3, 16, 31), (8, 3, 3, 3), {"padding": "full"}),
    ((2, 8, 9, 9), (16, 8, 3, 3), {"padding": (1, 0)}),
    ((1, 6, 12, 10), (4, 3, 3, 3), {"groups": 2, "padding": 1, "bias": True}),
    ((2, 5, 13, 14), (5, 1, 3, 3), {"groups": 5, "padding": 1}),
    ((1, 4, 14, 13), (12, 1, 3, 3), {"groups": 4, "padding": 1, "bias": True}),
    ((1, 8, 17, 15), (8, 1, 5, 5), {"groups": 8, "padding": 2, "stride": 2}),
    ((2, 3, 33, 32), (8, 3, 7, 7), {"stride": 2, "padding": 3, "bias": True}),
    ((1, 3, 8, 8), (2, 3, 3, 3), {"stride": (2, 3), "padding": (2, 1)}),
    ((1, 17, 7, 9), (9, 17, 1, 1), {"bias": True}),
    ((2, 8, 9, 8), (3, 8, 1, 1), {"stride": 2}),
    ((1, 4, 9, 8), (6, 2, 1, 1), {"groups": 2, "padding": 1, "bias": True}),
    ((1, 2, 16, 17), (3, 2, 2, 4), {"padding": "same"}),
    ((1, 2, 17, 16), (3, 2, 3, 3), {"dilation": 2, "padding": 2}),
    ((1, 2, 17, 16), (3, 2, 3, 2), {"dilation": (3, 1), "padding": (1, 2), "stride": (1, 2)}),
    ((1, 2, 9, 9), (2, 2, 9, 9), {"bias": True}),
    ((1, 2, 24, 21), (2, 2, 15, 13), {"padding": (7, 6)}),
    ((1, 1, 1, 1), (1, 1, 3, 3), {"padding": 1}),
    ((1, 1, 1, 40), (2, 1, 1, 3), {"padding": "same"}),
    ((1, 1, 3, 3), (1, 1, 2, 2), {"padding": 5, "stride": 7}),
    # three axes
    ((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), {"padding": 1, "bias": True}),
    ((2, 3, 4, 5, 9), (4, 3, 1, 2, 3), {"stride": (1, 2, 1)}),
    ((1, 4, 5, 5, 5), (4, 2, 2, 2, 2), {"groups": 2, "padding": "same"}),
    ((1, 2, 7, 6, 8), (2, 2, 2, 3, 2), {"dilation": (2, 1, 3), "padding": (1, 0, 2), "stride": 2}),
    ((1, 3, 4, 4, 4), (3, 1, 3, 3, 3), {"groups": 3, "padding": "full"}),
    # many channels for few filters, few for many, and neither
    ((1, 20, 9, 40), (5, 20, 3, 5), {"padding": 2, "bias": True}),
    ((2, 3, 9, 70), (20, 3, 3, 3), {"padding": 1, "stride": (1, 3)}),
    ((1, 7, 12, 33), (19, 7, 3, 2), {"padding": 1, "stride": 2, "bias": True}),
    ((1, 6, 20), (18, 6, 3), {"padding": 1}),
    # a margin wider than the window: the input gradient drops what lies in it
    ((2, 5, 9, 10), (5, 1, 3, 3), {"padding": 4, "groups": 5}),
    ((1, 2, 7, 9), (3, 2, 3, 3), {"padding": 5, "bias": True}),
)


def label(case):
    """Name a case by its sizes and options."""
    x, w, options = case
    words = [f"{name}={value}" for name, value in options.items()]
    return " ".join(["x".join(map(str, x)), "x".join(map(str, w)), *words])


def algorithms(w_shape, options):
    """The algorithms that can compute a case."""
    plain = options.get("stride", 1) == 1 and options.get("dilation", 1) == 1
    return ("auto", "direct", "fft", *(("winograd",) if w_shape[2:] == (3, 3) and plain else ()))


def per_axis(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def margins(padding, kernel, dilation):
    """The padding before and after, along each axis."""
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if padding == "full":
        return [(n, n) for n in reach]
    if padding == "same":
        return [(n // 2, n - n // 2) for n in reach]
    return [(n, n) for n in per_axis(0 if padding == "valid" else padding, len(kernel))]


def padded(x, kernel, padding=0, dilation=1, padding_mode="zeros"):
    """The input with its margins."""
    widths = margins(padding, kernel, per_axis(dilation, len(kernel)))
    return np.pad(x, [(0, 0), (0, 0), *widths], NUMPY_MODES[padding_mode])


def windows(x, kernel, stride=1, padding=0, dilation=1, padding_mode="zeros"):
    """All windows of x, of shape (N, C, positions, elements of the kernel), and the sizes of the positions."""
    rank = len(kernel)
    stride, dilation = per_axis(stride, rank), per_axis(dilation, rank)
    x = padded(x, kernel, padding, dilation, padding_mode)
    extents = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(x, extents, axis=tuple(range(2, 2 + rank)))
    view = view[(..., *(slice(None, None, s) for s in stride), *(slice(None, None, d) for d in dilation))]
    size = view.shape[2 : 2 + rank]
    return view.reshape(*x.shape[:2], math.prod(size), math.prod(kernel)), size


def activated(y, activation):
    if activation == "relu":
        return np.where(y > 0, y, 0)
    if activation == "leaky_relu":
        return np.where(y > 0, y, y / 100)
    if activation == "sigmoid":
        return np.exp(-np.logaddexp(0, -y))
    return np.tanh(y) if activation == "tanh" else y


def conv_expected(x, w, bias=None, *, groups=1, activation=None, **place):
    """The sum over all windows, a matrix product for every group."""
    x, w = wide(x), wide(w)
    view, size = windows(x, w.shape[2:], **place)
    samples, channels = x.shape[0], w.shape[0]
    view = view.reshape(samples, groups, w.shape[1], *view.shape[2:])
    view = view.transpose(1, 0, 3, 2, 4).reshape(groups, samples * math.prod(size), w.shape[1] * view.shape[-1])
    filters = w.reshape(groups, channels // groups, view.shape[-1])
    y = (view @ filters.transpose(0, 2, 1)).reshape(groups, samples, math.prod(size), channels // groups)
    y = y.transpose(1, 0, 3, 2).reshape(samples, channels, *size)
    if bias is not None:
        y = y + wide(bias).reshape(-1, *(1 for _ in size))
    return activated(y, activation)


def conv_tolerance(x, w, bias=None, *, algorithm="direct", **options):
    """How far a convolution may be off: by rounding alone, before anything is run.

    direct: a sum of products in any order. auto: by the specification 4 times as much, of a window full of the largest
    elements, because errors may go to other windows. winograd and fft: what their transforms can make of roundings.
    """
    eps = float(np.finfo(x.dtype).eps)
    activation = options.pop("activation", None)
    sizes = conv_expected(np.abs(x), np.abs(w), None if bias is None else np.abs(bias), **options).astype(float)
    terms = math.prod(w.shape[1:]) + (bias is not None)
    # The functions are off by a few units in the last place, and none is steeper than 1.
    function = 0.0 if activation is None else 8 * eps
    direct = (terms + 1) * eps * sizes + function
    if algorithm == "direct" or not direct.size:
        return direct
    if algorithm == "auto":
        fullest = np.abs(wide(w)).reshape(w.shape[0], -1).sum(axis=1).max(initial=0) * np.abs(x).max(initial=0)
        return 4 * ((terms + 1) * eps * float(fullest) + direct)
    largest = np.abs(x).max(axis=(0, *range(2, x.ndim)), initial=0).astype(float)
    if algorithm == "winograd":
        reach = WINOGRAD_GROWTH * float(np.abs(w).max(initial=0)) * largest.sum()
        return direct + (w.shape[1] + 24) * eps * reach
    # Each of three transforms of n elements is off by at most 7 log2(n) roundings of the norm of what it transforms; a
    # transform may be of the double size, so that it is a power of 2.
    place = {name: options[name] for name in ("padding", "dilation", "padding_mode") if name in options}
    image = padded(wide(x), w.shape[2:], **place)
    points = math.prod(4 * n for n in image.shape[2:])
    norm = np.sqrt(np.square(image).reshape(x.shape[0], -1).sum(axis=1).max(initial=0))
    filters = np.sqrt(np.square(wide(w)).reshape(w.shape[0], -1).sum(axis=1).max(initial=0))
    return direct + (21 * math.log2(points) + w.shape[1] + 8) * eps * float(norm * filters)


def _winograd_growth():
    """How much the transforms of F(4x4, 3x3), with the points 0, ±1, ±2, enlarge numbers and so errors, at worst."""
    A = [[1, 1, 1, 1, 1, 0], [0, 1, 1, 2, 2, 0], [0, 1, 1, 4, 4, 0], [0, 1, 1, 8, 8, 1]]
    G = [1 / 4, 1 / 2, 1 / 2, 7 / 24, 7 / 24, 1]
    B = [10, 10, 10, 6, 6, 10]
    return float((np.array(A) @ (np.array(G) * np.array(B))).max()) ** 2


WINOGRAD_GROWTH = _winograd_growth()


def layouts(array):
    """The same array of images or filters in every way it can lie in memory."""
    yield "contiguous", np.ascontiguousarray(array)
    yield "channels last", np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    yield "fortran", np.asfortranarray(array)
    yield "samples last", np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)
    turned = tuple(slice(None, None, -1) for _ in array.shape)
    yield "reversed", array[turned].copy()[turned]
    apart = np.full(tuple(2 * n + 1 for n in array.shape), np.nan, array.dtype)
    every = tuple(slice(1, None, 2) for _ in array.shape)
    apart[every] = array
    yield "strided", apart[every]
    larger = np.full(tuple(n + 3 for n in array.shape), np.nan, array.dtype)
    inner = tuple(slice(2, 2 + n) for n in array.shape)
    larger[inner] = array
    yield "part of a larger array", larger[inner]
    readonly = array.copy()
    readonly.flags.writeable = False
    yield "read-only", readonly


def outs(shape, dtype):
    """Outputs of a shape lying in every way, with the memory they are in and the part of it that is theirs."""
    for order in (tuple(range(len(shape))), (0, *range(2, len(shape)), 1), tuple(reversed(range(len(shape))))):
        lying = tuple(shape[axis] for axis in order)
        for step, start in itertools.product((1, 2, -1), (2,)):
            memory = np.full(tuple(2 * n + 4 for n in lying), 1234.5, dtype)
            part = memory[tuple(slice(start, start + abs(step) * n, abs(step)) for n in lying)]
            if step < 0:
                part = part[tuple(slice(None, None, -1) for _ in lying)]
            out = part.transpose(np.argsort(order))
            assert out.shape == shape
            yield f"order {order}, step {step}", memory, part, out


def make(case, rng, dtype, draw):
    """Arrays and options of a case, with numbers from `draw(shape)`."""
    x, w, options = case
    options = dict(options)
    bias = draw((w[0],)).astype(dtype) if options.pop("bias", False) else None
    return draw(x).astype(dtype), draw(w).astype(dtype), bias, options
