"""Convolutions on arrays and options at random: both backends agree, on every instruction set."""

import math

import numpy as np
import pytest

from cases import conv as layers
from cases import fuzz, fuzz_draw
from cases.fuzz import Trial, any_not_finite, sum_roundings
from fastdl import conv

ACTIVATIONS = (None, None, "relu", "leaky_relu", "sigmoid", "tanh")


# ---- layers ----
def axes_of(draw, rank, least, most):
    """One number for all axes, or one for each."""
    if draw.chance(60):
        return draw.integer(least, most)
    return tuple(draw.integer(least, most) for _ in range(rank))


def layer(draw, rank):
    """Shapes of x and w, and where the filters are put; nearly always such that there is a result."""
    groups = draw.one_of((1, 1, 1, 2, 3, draw.integer(1, 20)))
    usual = draw.chance(40)  # 3 x 3, for Winograd's algorithm
    n, inputs, outputs, *positions = draw.extents(3 + rank, 2500 if rank < 3 else 800)
    inputs, outputs = (-(-count // groups) if groups > 3 else count for count in (inputs, outputs))
    kernel = (3,) * rank if usual else draw.extents(rank, 40 if rank < 3 else 12, least=1, most=12 if rank < 3 else 4)
    options = {"groups": groups}
    if not usual or draw.chance(20):
        options |= {"stride": axes_of(draw, rank, 1, 4), "dilation": axes_of(draw, rank, 1, 3 if rank < 3 else 2)}
    options["padding"] = draw.one_of((0, "valid", "full", "same", axes_of(draw, rank, 0, 4), 1))
    if options["padding"] == "same" and not draw.chance(5):
        options.pop("stride", None)
    if not draw.chance(5):
        reach = [d * (k - 1) + 1 for k, d in zip(kernel, per_axis(options.get("dilation", 1), rank), strict=True)]
        room = per_axis(options["padding"] if not isinstance(options["padding"], str) else 0, rank)
        positions = [max(size, least - 2 * p) for size, least, p in zip(positions, reach, room, strict=True)]
    return (n, inputs * groups, *positions), (outputs * groups, inputs, *kernel), options


def per_axis(value, rank):
    return (value,) * rank if isinstance(value, int) else value


def typed(eps, array):
    return None if array is None else array.astype(np.float32 if eps > 1e-10 else np.float64)


def conv_trial(rank, prepared=False):
    def make(draw):
        x_shape, w_shape, options = layer(draw, rank)
        options["padding_mode"] = draw.one_of(("zeros", "zeros", *layers.NUMPY_MODES))
        options["activation"] = draw.one_of(ACTIVATIONS)
        plain = options.get("stride", 1) == 1 and options.get("dilation", 1) == 1
        able = ("winograd",) if (w_shape[2:] == (3, 3) and plain) or draw.chance(3) else ()
        algorithm = draw.one_of(("auto", "auto", "direct", "fft", *able))
        arrays = {"x": draw.array(x_shape), "w": draw.array(w_shape), "bias": None}
        if draw.chance(50):
            arrays["bias"] = draw.array(w_shape[:1])
        function = getattr(conv, f"conv{rank}d")

        def call(x, w, bias, **more):
            if not prepared:
                return function(x, w, bias, algorithm=algorithm, **options, **more)
            ready = conv.prepare(w, bias=bias, algorithm=algorithm, **options)
            assert isinstance(ready, conv.PreparedConv)
            ready(x[:1])  # which decides on the algorithm
            return ready(x, **more)

        def bound(values, expected, eps):
            x, w, bias = (typed(eps, values[name]) for name in ("x", "w", "bias"))
            return [allowed(x, w, bias, algorithm, options)]

        def open_to(values, expected):
            """Fourier transforms chosen by hand spread NaN and Inf."""
            return [algorithm == "fft" and any_not_finite(list(arrays.values()))] * len(expected)

        return Trial(call, arrays, bound, takes_out=True, open_to=open_to, options={"algorithm": algorithm, **options})

    return make


def allowed(x, w, bias, algorithm, options):
    """Bound the error of a convolution. Its functions have slopes of at most 1, and errors of their own."""
    bound = layers.conv_tolerance(x, w, bias, algorithm=algorithm, **options).astype(float)
    if options["activation"] in ("sigmoid", "tanh"):
        # What is added up is large where a sigmoid is steep in nothing.
        return np.minimum(bound, 2.0)
    return bound


def transpose_trial(rank):
    def make(draw):
        x_shape, w_shape, options = layer(draw, rank)
        n, _, *positions = x_shape
        outputs, inputs, *kernel = w_shape
        groups = options["groups"]
        most = max(1, *per_axis(options.get("stride", 1), rank), *per_axis(options.get("dilation", 1), rank)) - 1
        options["output_padding"] = draw.one_of((0, 0, axes_of(draw, rank, 0, most)))
        function = getattr(conv, f"conv_transpose{rank}d")
        arrays = {
            "x": draw.array((n, outputs, *positions)),
            "w": draw.array((outputs, inputs, *kernel)),
            "bias": draw.array((inputs * groups,)) if draw.chance(50) else None,
        }

        def call(x, w, bias):
            return function(x, w, bias, **options)

        terms = outputs // groups * math.prod(kernel) + 1
        return Trial(
            call,
            arrays,
            fuzz.by_any_algorithm(call, terms, draw.kind, "x"),
            open_to=filters_not_finite(arrays["w"], groups),
            options=options,
        )

    return make


def filters_not_finite(w, groups):
    """Open the channels of filters with NaN or Inf to anything.

    Their gradient is a convolution from beyond the edges, where such a tap meets zeros; the formula stops before.
    """
    touched = ~np.isfinite(w).reshape(groups, w.shape[0] // groups, w.shape[1], math.prod(w.shape[2:])).all(axis=3)
    channels = touched.any(axis=1).reshape(-1)
    return lambda values, expected: [channels.reshape(-1, *(1 for _ in w.shape[2:]))]


def result_size(x_shape, w_shape, options):
    """The size of a convolution, or of something, if there is none."""
    rank = len(x_shape) - 2
    dilation = per_axis(options.get("dilation", 1), rank)
    stride = per_axis(options.get("stride", 1), rank)
    margins = layers.margins(options["padding"], w_shape[2:], dilation)
    reach = [d * (k - 1) + 1 for k, d in zip(w_shape[2:], dilation, strict=True)]
    size = [
        max(0, (extent + sum(margin) - least) // step + 1)
        for extent, margin, least, step in zip(x_shape[2:], margins, reach, stride, strict=True)
    ]
    return (x_shape[0], w_shape[0], *size)


def input_trial(rank):
    def make(draw):
        x_shape, w_shape, options = layer(draw, rank)
        function = getattr(conv, f"conv{rank}d_input")
        arrays = {"w": draw.array(w_shape), "grad": draw.array(result_size(x_shape, w_shape, options))}

        def call(w, grad):
            return function(x_shape, w, grad, **options)

        terms = w_shape[0] // options["groups"] * math.prod(w_shape[2:])
        return Trial(
            call,
            arrays,
            fuzz.by_any_algorithm(call, terms, draw.kind, "grad"),
            open_to=filters_not_finite(arrays["w"], options["groups"]),
            options={"input_size": x_shape, **options},
        )

    return make


def weight_trial(rank):
    def make(draw):
        x_shape, w_shape, options = layer(draw, rank)
        function = getattr(conv, f"conv{rank}d_weight")
        grad_shape = result_size(x_shape, w_shape, options)
        arrays = {"x": draw.array(x_shape), "grad": draw.array(grad_shape)}

        def call(x, grad):
            return function(x, w_shape, grad, **options)

        terms = grad_shape[0] * math.prod(grad_shape[2:])
        bound = fuzz.by_any_algorithm(call, terms, draw.kind, "x", "grad")
        return Trial(call, arrays, bound, options={"weight_size": w_shape, **options})

    return make


# ---- pooling ----
def windows(draw, rank):
    shape = draw.extents(2 + rank, 4000)
    kernel = axes_of(draw, rank, 1, 5)
    if not draw.chance(5):
        least = per_axis(kernel, rank)
        shape = (*shape[:2], *(max(size, k) for size, k in zip(shape[2:], least, strict=True)))
    padding = min(per_axis(kernel, rank)) // 2 if draw.chance(40) else draw.integer(0, 1)
    return shape, kernel, draw.one_of((None, axes_of(draw, rank, 1, 4))), padding


def pooled(shape, kernel, stride, padding):
    rank = len(shape) - 2
    kernel = per_axis(kernel, rank)
    stride = kernel if stride is None else per_axis(stride, rank)
    size = [max(0, (n + 2 * padding - k) // s + 1) for n, k, s in zip(shape[2:], kernel, stride, strict=True)]
    return (*shape[:2], *size)


def max_pool_trial(rank):
    def make(draw):
        shape, *place = windows(draw, rank)
        indices = draw.chance(50)
        function = getattr(conv, f"max_pool{rank}d")
        return Trial(
            lambda x: function(x, *place, indices),
            {"x": draw.array(shape)},
            options={"place": place, "return_indices": indices},
        )

    return make


def avg_pool_trial(rank):
    def make(draw):
        shape, *place = windows(draw, rank)
        count = draw.chance(50)
        function = getattr(conv, f"avg_pool{rank}d")

        def call(x):
            return function(x, *place, count)

        bound = fuzz.of_sums(call, sum_roundings(math.prod(per_axis(place[0], rank))))
        return Trial(call, {"x": draw.array(shape)}, bound, options={"place": place, "count_include_pad": count})

    return make


def max_pool_grad_trial(rank):
    def make(draw):
        shape, *place = windows(draw, rank)
        size = pooled(shape, *place)
        plane = math.prod(shape[2:])
        indices = draw.rng.integers(0, max(1, plane), size).astype(draw.one_of((np.int64, np.int32, np.uint16)))
        if indices.size and draw.chance(5):
            indices.flat[-1] = plane
        indices = draw.lay(indices, fuzz_draw.KEEPING)
        function = getattr(conv, f"max_pool{rank}d_grad")

        def call(grad):
            return function(grad, indices, shape)

        bound = fuzz.of_sums(call, sum_roundings(math.prod(size[2:])))
        return Trial(call, {"grad": draw.array(size)}, bound, options={"input_size": shape})

    return make


def avg_pool_grad_trial(rank):
    def make(draw):
        shape, *place = windows(draw, rank)
        count = draw.chance(50)
        function = getattr(conv, f"avg_pool{rank}d_grad")

        def call(grad):
            return function(grad, shape, *place, count)

        bound = fuzz.of_sums(call, sum_roundings(math.prod(per_axis(place[0], rank))))
        grad = draw.array(pooled(shape, *place))
        return Trial(call, {"grad": grad}, bound, options={"place": place, "count_include_pad": count})

    return make


# ---- signals ----
def signal_trial(name):
    function = getattr(conv, name)

    def make(draw):
        axes = draw.integer(1, 3)
        first, second = (draw.extents(axes, 500) for _ in range(2))
        mode = draw.one_of(("full", "same", "valid", "circular"))
        method = draw.one_of(("auto", "direct", "fft", "overlap_add"))
        if mode == "valid" and not draw.chance(5):
            second = tuple(min(sizes) for sizes in zip(first, second, strict=True))
            if draw.chance(40):
                first, second = second, first
        arrays = {"f": draw.array(first), "h": draw.array(second)}

        def bound(values, expected, eps):
            """Allow a sum its roundings; transforms those of norms, at every one of their stages."""
            f, h = values["f"], values["h"]
            sums = fuzz.sizes(lambda f, h: function(f, h, mode, "direct"), values)[0]
            each = sum_roundings(min(f.size, h.size)) * eps * sums
            if method == "direct":
                return [each]
            stages = math.log2(math.prod(4 * (n + m) for n, m in zip(f.shape, h.shape, strict=True)))
            return [each + (21 * stages + 8) * eps * float(np.linalg.norm(f)) * float(np.linalg.norm(h))]

        def open_to(values, expected):
            """Transforms spread NaN and Inf."""
            return [method != "direct" and any_not_finite(list(arrays.values()))]

        return Trial(
            lambda f, h: function(f, h, mode, method),
            arrays,
            bound,
            open_to=open_to,
            options={"mode": mode, "method": method},
        )

    return make


def circulant_trial(draw):
    return Trial(lambda h: conv.circulant(h), {"h": draw.array(draw.extents(1, 70))})


def toeplitz_trial(draw):
    n = draw.integer(0, 70)
    return Trial(lambda h: conv.toeplitz(h, n), {"h": draw.array(draw.extents(1, 70))}, options={"n": n})


# ---- graphs ----
def edges(draw, n):
    """Weights of edges, mostly not negative; or a sparse matrix of them."""
    values = draw.values((n, n))
    if not draw.chance(10):
        values = np.abs(values)
    A = draw.array((n, n), values=values)
    if draw.kind in fuzz_draw.FINITE_KINDS and draw.chance(15):
        sparse = pytest.importorskip("scipy.sparse")
        return sparse.csr_array(A.astype(A.dtype.newbyteorder("=")))
    return A


def lost(A, added):
    """Give by how much the sizes of the terms of each degree are more than the degree."""
    degree = added + A.sum(axis=1)
    return (added + np.abs(A).sum(axis=1)) / np.where(degree == 0, 1, np.abs(degree)), degree


def graph_laplacian_trial(draw):
    n = draw.extents(1, 70)[0]
    normalized = draw.chance(50)

    def call(A):
        found = conv.graph_laplacian(A, normalized)
        return found.toarray() if hasattr(found, "toarray") else found

    def bound(values, expected, eps):
        A = values["A"]
        size = np.abs(A) + np.diag(np.abs(A).sum(axis=1))
        if normalized:
            ratio, degree = lost(A, 0)
            root = np.where(degree == 0, 0, 1 / np.sqrt(np.abs(np.where(degree == 0, 1, degree))))
            size = np.eye(n) + np.abs(A) * np.multiply.outer(root * ratio, root * ratio)
        return [(n + 8) * eps * size]

    return Trial(call, {"A": edges(draw, n)}, bound, options={"normalized": normalized})


def graph_filter_trial(draw):
    n, f = draw.extents(2, 2000)
    basis = draw.one_of(("monomial", "chebyshev"))
    coefficients = [draw.number(-2, 2) for _ in range(draw.integer(0 if draw.chance(5) else 1, 5))]
    largest = draw.one_of((None, 2.0, draw.number(0.5, 40)))
    arrays = {"L": edges(draw, n), "X": draw.array((n, f) if draw.chance(60) else (n,))}

    def bound(values, expected, eps):
        """Go through the recursion with all signs positive."""
        L, X = np.abs(values["L"]), np.abs(values["X"])
        if basis == "monomial":
            total = abs(coefficients[-1]) * X
            for coefficient in coefficients[-2::-1]:
                total = L @ total + abs(coefficient) * X
        else:
            scale = largest
            if scale is None and n:
                symmetric = (values["L"] + values["L"].T) / 2
                scale = float(np.linalg.eigvalsh(symmetric).max())
            before, term, total = X, X, abs(coefficients[0]) * X
            for k, coefficient in enumerate(coefficients[1:], start=1):
                step = 2 / abs(scale or 1) * (L @ term) + term
                before, term = term, step if k == 1 else 2 * step + before
                total = total + abs(coefficient) * term
        return [len(coefficients) * (n + 8) * eps * total]

    return Trial(
        lambda L, X: conv.graph_filter(L, X, coefficients, basis, largest=largest),
        arrays,
        bound,
        options={"coefficients": coefficients, "basis": basis, "largest": largest},
    )


def gcn_trial(draw):
    n, f, g = draw.extents(3, 3000)
    activation = draw.one_of(ACTIVATIONS)
    arrays = {"A": edges(draw, n), "X": draw.array((n, f)), "W": draw.array((f, g))}
    if draw.chance(40):
        arrays |= {"X": draw.array((n, f) if draw.chance(50) else (n,)), "W": None}

    def bound(values, expected, eps):
        A, X, W = (values[name] for name in ("A", "X", "W"))
        ratio, degree = lost(A, 1)
        root = ratio / np.sqrt(np.abs(np.where(degree == 0, 1, degree)))
        coupling = (np.abs(A) + np.eye(n)) * np.multiply.outer(root, root)
        size = coupling @ (np.abs(X) if W is None else np.abs(X) @ np.abs(W))
        return [(2 * n + f + 8) * eps * size + (8 * eps if activation else 0)]

    return Trial(
        lambda A, X, W: conv.gcn(A, X, W, activation=activation), arrays, bound, options={"activation": activation}
    )


RANKS = (1, 2, 3)
TRIALS = {
    **{f"conv{rank}d": conv_trial(rank) for rank in RANKS},
    **{f"conv_transpose{rank}d": transpose_trial(rank) for rank in RANKS},
    **{f"conv{rank}d_input": input_trial(rank) for rank in RANKS},
    **{f"conv{rank}d_weight": weight_trial(rank) for rank in RANKS},
    **{f"max_pool{rank}d": max_pool_trial(rank) for rank in RANKS},
    **{f"avg_pool{rank}d": avg_pool_trial(rank) for rank in RANKS},
    **{f"max_pool{rank}d_grad": max_pool_grad_trial(rank) for rank in RANKS},
    **{f"avg_pool{rank}d_grad": avg_pool_grad_trial(rank) for rank in RANKS},
    "PreparedConv": lambda draw: conv_trial(draw.one_of(RANKS), prepared=True)(draw),
    "circulant": circulant_trial,
    "convolve": signal_trial("convolve"),
    "correlate": signal_trial("correlate"),
    "gcn": gcn_trial,
    "graph_filter": graph_filter_trial,
    "graph_laplacian": graph_laplacian_trial,
    "prepare": lambda draw: conv_trial(2, prepared=True)(draw),
    "toeplitz": toeplitz_trial,
}
