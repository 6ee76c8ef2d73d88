"""The accuracy of convolutions: of 3 x 3 ones by algorithm and number of channels, and of every function.

Two sections of docs/accuracy.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import fastdl
import machine
import report
from accuracy_table import DTYPES, SEED, Case, exact, largest, normal, summed
from cases import conv_formulas, wide
from cases.conv import conv_expected, per_axis, windows

TITLE = "Convolutions, function by function"
ELSEWHERE = ("PreparedConv",)
HOW = """\
The largest error of any entry in units of eps. Layers (conv, their gradients, conv_transpose) are relative to the
largest sum of the sizes of the terms of any element, because algorithms that transform, which may be chosen, let
elements share their errors; they are plain, with stride and dilation 2, and in 4 groups. The direct ones by name,
pooling, direct convolutions of signals and graphs are relative to the sum of the sizes of terms of each element; relu
and leaky_relu to the largest value, sigmoid and tanh to 1 and what their slopes make of the largest sum; pooled
maxima and matrices of copies to their values. Images are 2 of 16 channels, 40 long, 15 by 17 and 7 by 9 by 8, and 31
by 33 for algorithms by name, with 8 or 12 filters of side 3; signals have 3000 and 40 by 50 elements, with filters of
501 and 9 by 11; graphs 60 nodes and a tenth of all edges, with weights up to 1. All other numbers are standard
normal. True values: the sums in float64 or more for float32, in extended precision for float64."""
CHANNELS = (4, 8, 16, 32, 64, 128, 256, 512)
FILTERS, SIDE, IMAGES = 32, 28, 4


def contenders() -> dict[str, Callable]:
    """The algorithms, and torch if it is there."""

    def ours(algorithm: str) -> Callable:
        return lambda x, w: fastdl.conv.conv2d(x, w, padding=1, algorithm=algorithm)

    here = {algorithm: ours(algorithm) for algorithm in ("direct", "winograd", "auto")}
    if find_spec("torch") is not None:
        import torch

        here["torch"] = lambda x, w: torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding=1).numpy()
    return here


def relative_errors(channels: tuple[int, ...] = CHANNELS, dtypes: tuple[str, ...] = DTYPES) -> dict:
    """Root mean square error over root mean square result, {name: error} by (dtype, channels)."""
    errors = {}
    for dtype in dtypes:
        for count in channels:
            rng = np.random.default_rng(SEED)
            # What a layer sees after a ReLU, and filters as layers begin with.
            x = np.maximum(0, rng.standard_normal((1, count, SIDE, SIDE))).astype(dtype)
            w = (rng.standard_normal((FILTERS, count, 3, 3)) * np.sqrt(2 / (9 * count))).astype(dtype)
            truth = conv_expected(x, w, padding=1)
            size = np.sqrt(np.mean(np.square(truth)))
            errors[dtype, count] = {
                name: float(np.sqrt(np.mean(np.square(wide(call(x, w)) - truth))) / size)
                for name, call in contenders().items()
            }
    return errors


def weight_errors(channels: tuple[int, ...] = CHANNELS, dtypes: tuple[str, ...] = DTYPES) -> dict:
    """The same of the gradient of as many filters, beside the plain sum over pixels.

    That is the middle of the gradient of 5 x 5 filters, for which there is no other algorithm.
    """
    errors = {}
    for dtype in dtypes:
        for count in channels:
            rng = np.random.default_rng(SEED)
            x = np.maximum(0, rng.standard_normal((IMAGES, count, SIDE, SIDE))).astype(dtype)
            grad = rng.standard_normal((IMAGES, count, SIDE, SIDE)).astype(dtype)

            def gradient(k, padding, x=x, grad=grad):
                return fastdl.conv.conv2d_weight(x, (len(grad[0]), len(x[0]), k, k), grad, padding=padding)

            found = {"ours": gradient(3, 1), "plain sum": gradient(5, 2)[:, :, 1:4, 1:4]}
            if find_spec("torch") is not None:
                import torch

                found["torch"] = torch.nn.grad.conv2d_weight(
                    torch.from_numpy(x), (count, count, 3, 3), torch.from_numpy(grad), padding=1
                ).numpy()
            # Some channels will do for the truth, a sum over windows in more digits.
            some = slice(0, 8)
            windows = np.lib.stride_tricks.sliding_window_view(
                np.pad(wide(x[:, some]), ((0, 0), (0, 0), (1, 1), (1, 1))), (SIDE, SIDE), axis=(2, 3)
            )
            truth = np.einsum("nohw,ncijhw->ocij", wide(grad[:, some]), windows)
            size = np.sqrt(np.mean(np.square(truth)))
            errors[dtype, count] = {
                name: float(np.sqrt(np.mean(np.square(wide(values[some, some]) - truth))) / size)
                for name, values in found.items()
            }
    return errors


def section(errors: dict, weights: dict) -> str:
    """The section, from what was measured."""
    names = list(next(iter(errors.values())))
    rows = [
        [dtype, str(count), *(f"{found[name]:.1e}" for name in names), f"{found['auto'] / found['direct']:.2f}"]
        for (dtype, count), found in errors.items()
    ]
    return (
        f"## Convolutions\n\nRoot mean square error over the root mean square of the result: {FILTERS} filters of 3 by "
        f"3 on an image of {SIDE} by {SIDE} after a ReLU, by algorithm and number of channels "
        f"({machine.active_level()}). "
        "True values: float64 for float32, extended precision for float64. What `auto` chooses is allowed 4 times the "
        "error of `direct`.\n\n"
        + report.in_markdown(["dtype", "channels", *names, "auto / direct"], rows)
        + f"\n\nThe same of the gradient of 3 by 3 filters, as many as channels, {IMAGES} images of {SIDE} by {SIDE}; "
        "the plain sum over pixels is the middle of the gradient of 5 by 5 filters.\n\n" + _table(weights)
    )


def _table(weights: dict) -> str:
    names = list(next(iter(weights.values())))
    rows = [
        [dtype, str(count), *(f"{found[name]:.1e}" for name in names), f"{found['ours'] / found['plain sum']:.2f}"]
        for (dtype, count), found in weights.items()
    ]
    return report.in_markdown(["dtype", "channels", *names, "ours / plain sum"], rows)


# ---- every function: formulas for any number of axes ----
Place = dict[str, Any]
SIDES = {1: (40,), 2: (15, 17), 3: (7, 9, 8)}


def weight_gradient(x, grad, kernel, groups=1, **place):
    """What falls on every element of the filters: sums over all windows."""
    view, _ = windows(x, kernel, **place)
    samples, channels = grad.shape[:2]
    view = view.reshape(samples, groups, -1, *view.shape[2:])
    slopes = grad.reshape(samples, groups, channels // groups, -1)
    return np.einsum("ngop,ngcpk->gock", slopes, view).reshape(channels, -1, *kernel)


def transposed(size, w, grad, groups=1, **place):
    """What falls on every element of an input of a size: windows of the numbers of places tell where terms go."""
    kernel, samples, plane = w.shape[2:], grad.shape[0], math.prod(size)
    numbers = np.arange(1, plane + 1).reshape(1, 1, *size)
    places = windows(numbers, kernel, **place)[0][0, 0]
    filters = w.reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    slopes = grad.reshape(samples, groups, filters.shape[1], -1)
    terms = np.einsum("gock,ngop->pkngc", filters, slopes).reshape(*places.shape, -1)
    result = np.zeros((plane + 1, terms.shape[-1]), grad.dtype)
    np.add.at(result, places, terms)
    # Place 0 is the padding.
    return np.moveaxis(result[1:].reshape(*size, samples, -1), (-2, -1), (0, 1))


def pooled(x, kernel, how, **place):
    """Means or maxima of all windows."""
    view, size = windows(x, per_axis(kernel, x.ndim - 2), **place)
    return how(view, axis=-1).reshape(*x.shape[:2], *size)


def counted(size, kernel, **place):
    """How many elements of an input every window has."""
    inside = np.ones((1, 1, *size))
    return pooled(inside, kernel, np.sum, **place)[0, 0].astype(int)


def shares(grad, size, kernel, count, **place):
    """The gradient of means: every channel by itself, with filters of ones."""
    channels = grad.shape[1]
    ones = np.ones((channels, 1, *per_axis(kernel, grad.ndim - 2)), grad.dtype)
    return transposed(size, ones, grad / count, groups=channels, **place)


# ---- cases ----
def of_layers(rng: np.random.Generator, dtype: str, rank: int) -> Iterator[Case]:
    """Convolutions of a number of axes, their gradients, and transposed ones: plain, with steps, and in groups."""
    conv = fastdl.conv
    size, kernel = SIDES[rank], (3,) * rank
    plain: Place = {"padding": 1}
    strided: Place = {"padding": 1, "stride": 2, "dilation": 2}
    several: Place = {"padding": 1, "groups": 4}
    for place in (plain, strided, several):
        groups = place.get("groups", 1)
        x, w = normal(rng, dtype, 2, 16, *size), normal(rng, dtype, 8, 16 // groups, *kernel)
        # Winograd's and transforms are asked for by name below; here is what is chosen.
        function = partial(getattr(conv, f"conv{rank}d"), **place)
        yield summed(f"conv{rank}d", function, partial(conv_expected, **place), x, w, spread=True)
        y_shape = conv_expected(wide(x), wide(w), **place).shape
        grad = normal(rng, dtype, *y_shape)
        yield summed(
            f"conv{rank}d_input",
            partial(getattr(conv, f"conv{rank}d_input"), x.shape, **place),
            partial(transposed, size, **place),
            w,
            grad,
            spread=True,
        )
        yield summed(
            f"conv{rank}d_weight",
            lambda x, grad, place=place, w=w: getattr(conv, f"conv{rank}d_weight")(x, w.shape, grad, **place),
            partial(weight_gradient, kernel=kernel, **place),
            x,
            grad,
            spread=True,
        )
        back = [
            (n - 1) * place.get("stride", 1) + 2 * place.get("dilation", 1) + 1 - 2 * place["padding"]
            for n in y_shape[2:]
        ]
        yield summed(
            f"conv_transpose{rank}d",
            partial(getattr(conv, f"conv_transpose{rank}d"), **place),
            lambda grad, w, back=tuple(back), place=place: transposed(back, w, grad, **place),
            grad,
            w,
            spread=True,
        )


def of_algorithms(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Every algorithm by name, depthwise filters, margins, functions at the end, and prepared filters."""
    conv2d = fastdl.conv.conv2d
    x, w = normal(rng, dtype, 2, 16, 31, 33), normal(rng, dtype, 12, 16, 3, 3)
    formula = partial(conv_expected, padding=1)
    for algorithm in ("direct", "winograd", "fft"):
        function = partial(conv2d, padding=1, algorithm=algorithm)
        yield summed(f"conv2d, {algorithm}", function, formula, x, w, spread=algorithm != "direct")
    large = normal(rng, dtype, 12, 16, 11, 11)
    yield summed("conv2d, 11 x 11", conv2d, conv_expected, x, large, spread=True)
    lone = normal(rng, dtype, 16, 1, 3, 3)
    depthwise = {"padding": 1, "groups": 16}
    yield summed("conv2d, depthwise", partial(conv2d, **depthwise), partial(conv_expected, **depthwise), x, lone)
    for mode in ("circular", "reflect", "replicate"):
        place = {"padding": 2, "padding_mode": mode}
        yield summed(f"conv2d, {mode}", partial(conv2d, **place), partial(conv_expected, **place), x, w, spread=True)
    yield summed("prepare", lambda x, w: fastdl.conv.prepare(w, padding=1)(x), formula, x, w, spread=True)
    bias, small = normal(rng, dtype, 12), (w / 12).astype(dtype)
    sums = largest(conv_expected(np.abs(wide(x)), np.abs(wide(small)), padding=1))
    for activation in ("relu", "leaky_relu", "sigmoid", "tanh"):
        options = {"padding": 1, "activation": activation}
        truth = conv_expected(x, small, bias, **options)
        # A sum that is off by an eps of its terms is off by a quarter of that after a sigmoid.
        size = (
            largest(truth) if activation in ("relu", "leaky_relu") else 1 + sums / (4 if activation == "sigmoid" else 1)
        )
        yield Case(f"conv2d, {activation}", partial(conv2d, x, small, bias, **options), truth, size)


def of_pooling(rng: np.random.Generator, dtype: str, rank: int) -> Iterator[Case]:
    """Largest elements and averages of windows that overlap, and their gradients."""
    conv, size, place = fastdl.conv, SIDES[rank], {"stride": 2, "padding": 1}
    x = normal(rng, dtype, 2, 8, *size)
    kernel = per_axis(3, rank)
    # Padding counts as less than any element.
    least = np.pad(wide(x), [(0, 0), (0, 0), *((1, 1) for _ in size)], constant_values=-np.inf)
    best = pooled(least, kernel, np.max, stride=2)
    name = f"max_pool{rank}d"
    yield exact(name, partial(getattr(conv, name), kernel_size=3, **place), lambda x: best, x)
    grad = normal(rng, dtype, *best.shape)
    numbers = np.pad(np.arange(math.prod(size)).reshape(1, 1, *size), [(0, 0), (0, 0), *((1, 1) for _ in size)])
    view = windows(least, kernel, stride=2)[0]
    places = windows(numbers, kernel, stride=2)[0][0, 0]
    indices = np.take_along_axis(np.broadcast_to(places, view.shape), view.argmax(-1)[..., None], -1)[..., 0]
    indices = indices.reshape(best.shape)

    def spread(grad):
        result = np.zeros((2, 8, math.prod(size)), grad.dtype)
        for n, c in np.ndindex(2, 8):
            np.add.at(result[n, c], indices[n, c].ravel(), grad[n, c].ravel())
        return result.reshape(x.shape)

    yield summed(f"{name}_grad", lambda grad: getattr(conv, f"{name}_grad")(grad, indices, x.shape), spread, grad)
    name = f"avg_pool{rank}d"
    for include in (True, False):
        label = "" if include else ", without padding"
        count = 3**rank if include else counted(size, kernel, **place)
        options = {"kernel_size": 3, "count_include_pad": include, **place}
        yield summed(
            f"{name}{label}",
            partial(getattr(conv, name), **options),
            lambda x, count=count: pooled(x, kernel, np.sum, **place) / count,
            x,
        )
        yield summed(
            f"{name}_grad{label}",
            partial(getattr(conv, f"{name}_grad"), input_size=x.shape, **options),
            lambda grad, count=count: shares(grad, size, kernel, count, **place),
            grad,
        )


def of_signals(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Convolutions of signals by every method, and matrices that do the same."""
    conv = fastdl.conv
    for f, h in (((3000,), (501,)), ((40, 50), (9, 11))):
        signal, filters = normal(rng, dtype, *f), normal(rng, dtype, *h)
        for name in ("convolve", "correlate"):
            function, formula = getattr(conv, name), getattr(conv_formulas, name)
            for method in ("direct", "fft", "overlap_add"):
                here = partial(function, method=method)
                yield summed(f"{name}, {method}", here, formula, signal, filters, spread=method != "direct")
            yield summed(
                f"{name}, circular",
                partial(function, mode="circular"),
                partial(wrapped, name),
                signal,
                filters,
                spread=True,
            )
    h = normal(rng, dtype, 65)
    n = len(h)
    i = np.arange(2 * n)
    yield exact("circulant", conv.circulant, lambda h: h[(i[:n, None] - i[:n]) % n], h)
    place = i[: 2 * n - 1, None] - i[:n]
    inside = (place >= 0) & (place < n)
    yield exact("toeplitz", lambda h: conv.toeplitz(h, n), lambda h: np.where(inside, h[place * inside], 0), h)


def wrapped(name, f, h):
    """A full convolution with elements of equal positions modulo the size of f added up; a correlation begins at 0."""
    full = getattr(conv_formulas, name)(f, h)
    result = np.zeros_like(f)
    first = [0 if name == "convolve" else 1 - m for m in h.shape]
    places = np.ix_(*((np.arange(n) + start) % m for n, start, m in zip(full.shape, first, f.shape, strict=True)))
    np.add.at(result, places, full)
    return result


def of_graphs(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Laplacians, polynomials of them, and layers."""
    conv, n = fastdl.conv, 60
    edges = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.1), 1)
    A = (edges + edges.T).astype(dtype)
    A[7] = A[:, 7] = 0  # a node without edges
    X, W = normal(rng, dtype, n, 5), normal(rng, dtype, 5, 4)
    a, identity = wide(A), np.eye(n, dtype=wide(A).dtype)
    degree = a.sum(axis=1)
    root = np.divide(1, np.sqrt(degree), where=degree > 0, out=np.zeros_like(degree))
    normalized = identity * (degree > 0) - root[:, None] * a * root
    laplacian = np.diag(degree) - a
    for label, truth in (("", laplacian), (", normalized", normalized)):
        call = partial(conv.graph_laplacian, A, normalized=bool(label))
        yield Case(f"graph_laplacian{label}", call, truth, np.abs(truth))
    coefficients = (0.5, -0.25, 0.125, 0.75, -0.5)
    L = laplacian.astype(dtype)
    for basis in ("monomial", "chebyshev"):
        matrix = wide(L) if basis == "monomial" else wide(L) / 4 - identity
        truth, size = polynomial(matrix, wide(X), coefficients, basis)
        call = partial(conv.graph_filter, L, X, coefficients, basis, largest=8.0)
        yield Case(f"graph_filter, {basis}", call, truth, size)
    joined = root_of_degrees(a)
    for activation in (None, "tanh"):
        y, size = joined @ (wide(X) @ wide(W)), np.abs(joined) @ (np.abs(wide(X)) @ np.abs(wide(W)))
        truth = np.tanh(y) if activation else y
        label = f"gcn, {activation}" if activation else "gcn"
        yield Case(label, partial(conv.gcn, A, X, W, activation=activation), truth, size)


def root_of_degrees(A):
    """The coupling of a layer: A + I over the roots of the degrees that it has then."""
    root = 1 / np.sqrt(1 + A.sum(axis=1))
    return root[:, None] * (A + np.eye(len(A), dtype=A.dtype)) * root


def polynomial(L, X, coefficients, basis):
    """The sum of powers of L or of Chebyshev polynomials times X, and that of their sizes, from powers of sizes."""
    powers, sizes = [X, L @ X], [np.abs(X), np.abs(L) @ np.abs(X)]
    for _ in coefficients[2:]:
        if basis == "monomial":
            powers.append(L @ powers[-1])
            sizes.append(np.abs(L) @ sizes[-1])
        else:
            powers.append(2 * (L @ powers[-1]) - powers[-2])
            sizes.append(2 * (np.abs(L) @ sizes[-1]) + sizes[-2])
    return (
        sum(c * power for c, power in zip(coefficients, powers, strict=True)),
        sum(abs(c) * size for c, size in zip(coefficients, sizes, strict=True)),
    )


def cases(dtype: str) -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(SEED)
    yield from of_algorithms(rng, dtype)
    for rank in SIDES:
        yield from of_layers(rng, dtype, rank)
    for rank in SIDES:
        yield from of_pooling(rng, dtype, rank)
    yield from of_signals(rng, dtype)
    yield from of_graphs(rng, dtype)
