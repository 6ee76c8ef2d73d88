"""What of fastdl.gram is benchmarked: a line a case."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cases import gram_formulas as formulas
from cases.bench_case import BenchCase, normal, some


@dataclass(frozen=True)
class GramCase(BenchCase):
    """A call of fastdl.gram.

    `rows_of` names the argument whose rows are the rows of the result, so that some of them are enough for a check: ""
    if there is none.
    """

    rows_of: str = ""

    family = "gram"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        if not self.rows_of or self.terms <= budget:
            return inputs, ...
        first = inputs[self.rows_of]
        rows = some(len(first), budget / (self.terms * (2 if self.symmetric else 1)))
        subset = {**inputs, self.rows_of: first[rows]}
        # A subset of the rows of X is a call of its own, with X itself as its Y.
        other = {"X": "Y", "J1": "J2"}.get(self.rows_of) if self.name != "diag" else None
        if other is not None and other not in inputs:
            subset[other] = first
        return subset, rows


# ---- samples ----
def positive(rng, shape, dtype):
    """Histograms: half of the entries are zero."""
    return np.maximum(0, rng.standard_normal(shape)).astype(dtype)


def in_ball(rng, shape, dtype):
    """Shorter than 1, as geometric wants its samples."""
    X = rng.standard_normal(shape)
    return (0.9 * X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)


SAMPLES = {"additive_chi2": positive, "chi2": positive, "geometric": in_ball}

# Those that are no function of a matrix product: entries are counted, not flops.
WITHOUT_PRODUCT = ("laplacian", "additive_chi2", "chi2", "sinc")


def _samples(name: str, n: int, m: int | None, d: int):
    draw = SAMPLES.get(name, normal)

    def arrays(rng, dtype):
        X = draw(rng, (n, d), dtype)
        return {"X": X} if m is None else {"X": X, "Y": draw(rng, (m, d), dtype)}

    return arrays


def kernel(name: str, n: int, m: int | None, d: int, **parameters: Any) -> GramCase:
    """Take K of X (n, d), and of Y (m, d) unless m is None."""
    pairs = n * (n + 1) / 2 if m is None else float(n * m)
    # What tells apart two cases of a size.
    told = {key: value for key, value in parameters.items() if isinstance(value, int | float)}
    return GramCase(
        name,
        {"n": n, "m": n if m is None else m, "d": d, **told},
        _samples(name, n, m, d),
        parameters,
        0.0 if name in WITHOUT_PRODUCT else 2 * pairs * d,
        pairs,
        pairs * d,
        m is None,
        rows_of="X",
    )


def gram(n: int, m: int | None, d: int, name: str, **parameters: Any) -> GramCase:
    """Take K by the name of its kernel."""
    case = kernel(name, n, m, d, **parameters)
    return replace(case, name="gram", size={**case.size, "kernel": name}, parameters={"kernel": name, **parameters})


def matvec(n: int, d: int, rivals: tuple[str, ...] = (), rounds: int = 0) -> GramCase:
    """Take K v with the rbf kernel, v not negative: a sum that cancels would say nothing of its terms."""

    def arrays(rng, dtype):
        return {"X": normal(rng, (n, d), dtype), "v": rng.random((n, 1)).astype(dtype)}

    # Every entry is needed: whether it is taken twice, and saved once, is an algorithm's own affair.
    count = float(n) * n
    flops = 2 * count * (d + 1)
    size = {"n": n, "m": n, "d": d}
    return GramCase("matvec", size, arrays, {}, flops, count, count * d, True, rivals, rounds, "X")


def matvec_vjp(n: int, m: int, d: int) -> GramCase:
    def arrays(rng, dtype):
        X, Y = normal(rng, (n, d), dtype), normal(rng, (m, d), dtype)
        return {"X": X, "v": rng.random(m).astype(dtype), "grad": rng.random(n).astype(dtype), "Y": Y}

    count = float(n) * m
    return GramCase("matvec_vjp", {"n": n, "m": m, "d": d}, arrays, {}, 0.0, count, count * d)


def gram_vjp(n: int, m: int, d: int) -> GramCase:
    def arrays(rng, dtype):
        X, Y = normal(rng, (n, d), dtype), normal(rng, (m, d), dtype)
        return {"X": X, "grad": rng.random((n, m)).astype(dtype), "Y": Y}

    count = float(n) * m
    return GramCase("gram_vjp", {"n": n, "m": m, "d": d}, arrays, {}, 0.0, count, count * d)


def softmax_matvec(n: int, m: int, d: int) -> GramCase:
    def arrays(rng, dtype):
        return {name: normal(rng, (rows, d), dtype) for name, rows in (("Q", n), ("K", m), ("V", m))}

    count = float(n) * m
    flops = 4 * count * d
    return GramCase("softmax_matvec", {"n": n, "m": m, "d": d}, arrays, {}, flops, count, count * d, rows_of="Q")


def cntk(n: int, channels: int, side: int, depth: int) -> GramCase:
    def arrays(rng, dtype):
        return {"X": normal(rng, (n, channels, side, side), dtype)}

    pairs = n * (n + 1) / 2
    size = {"n": n, "channels": channels, "side": side, "depth": depth}
    # Each pair of images has side⁴ entries in each layer, with a filter and an angle for each.
    terms = pairs * side**4 * depth * 9
    return GramCase("cntk", size, arrays, {"depth": depth}, 0.0, pairs, terms, True, rows_of="X")


def on_grams(name: str, n: int, **parameters: Any) -> GramCase:
    """Take a function of one or two Gram matrices."""

    def arrays(rng, dtype):
        K, L = (formulas.rbf(rng.standard_normal((n, 8))).astype(dtype) for _ in range(2))
        return {"K": K} if name == "center" else {"K": K, "L": L}

    return GramCase(name, {"n": n}, arrays, parameters, terms=float(n * n))


def feature_gram(count: int, channels: int, side: int, center: bool) -> GramCase:
    def arrays(rng, dtype):
        return {"x": normal(rng, (count, channels, side, side), dtype)}

    size = {"n": count, "channels": channels, "side": side, "center": int(center)}
    flops = float(count * channels * (channels + 1) * side**2)
    return GramCase("feature_gram", size, arrays, {"center": center}, flops, terms=flops)


def empirical_ntk(n: int, p: int) -> GramCase:
    def arrays(rng, dtype):
        return {"J1": normal(rng, (n, p), dtype)}

    flops = float(n * (n + 1) * p)
    size = {"n": n, "m": n, "d": p}
    return GramCase("empirical_ntk", size, arrays, {}, flops, terms=flops, symmetric=True, rows_of="J1")


def invariant(n: int, m: int, d: int) -> GramCase:
    """Take the cyclic group of order d, on its d features."""
    case = kernel("invariant", n, m, d)
    permutations = np.add.outer(np.arange(d), np.arange(d)) % d
    count, parameters = float(n) * m * d, {"permutations": permutations}
    return GramCase(
        "invariant", case.size, case.arrays, parameters, 2 * count * d, float(n) * m, count * d, rows_of="X"
    )


def diag(n: int, d: int, name: str) -> GramCase:
    arrays = _samples(name, n, None, d)
    return GramCase("diag", {"n": n, "d": d}, arrays, {"kernel": name}, terms=float(n * d), rows_of="X")


def distance(n: int, m: int, d: int) -> GramCase:
    case = kernel("distance", n, m, d)
    return GramCase("distance", case.size, case.arrays, {}, case.flops, case.entries, case.terms, rows_of="X")


# ---- what is run ----
# The rows the project's goals are stated for.
GOALS = (
    kernel("rbf", 4096, None, 128),
    kernel("laplacian", 1024, None, 128),
    kernel("ntk", 4096, None, 128, depth=2),
    kernel("linear", 4096, None, 512),
    matvec(20000, 16, rivals=("keops",)),
)

# A call that does next to nothing.
SMALLEST = kernel("linear", 8, None, 8)

# Of every function: what a loop in Python can keep up with.
SMALL = (
    *(kernel(name, 13, 11, 7) for name in ("linear", "polynomial", "sigmoid", "rbf", "laplacian", "cosine")),
    *(kernel(name, 13, 11, 7) for name in ("additive_chi2", "chi2", "geometric", "arc_cosine")),
    kernel("matern", 13, 11, 7, nu=1.5),
    kernel("sinc", 13, 11, 3, omega=1.0),
    *(kernel(name, 13, 11, 7, depth=2, w_std=1.5, b_std=0.1) for name in ("nngp", "ntk")),
    gram(13, 11, 7, "rbf"),
    cntk(2, 2, 4, depth=2),
    matvec(13, 16),
    matvec_vjp(13, 11, 7),
    gram_vjp(13, 11, 7),
    softmax_matvec(13, 11, 7),
    on_grams("hsic", 13, unbiased=True),
    on_grams("cka", 13),
    on_grams("center", 13),
    feature_gram(2, 3, 5, center=True),
    empirical_ntk(5, 31),
    invariant(7, 5, 6),
    distance(13, 11, 7),
    diag(31, 7, "polynomial"),
)

# Once is enough, and all that there is time for.
LARGEST = matvec(200000, 16, rivals=("keops",), rounds=1)

LINEAR = (
    kernel("linear", 128, 128, 128),
    kernel("linear", 1024, 1024, 1024),
    kernel("linear", 2048, 2048, 2048),
)

# n, m, d: no multiple of a tile or a vector; few features and many; square, tall and wide.
SHAPES = (
    (3001, 2003, 2),
    (2999, None, 3),
    (1021, 997, 17),
    (523, 509, 1000),
    (1025, None, 129),
    (4099, 67, 100),
)
PAIRWISE = ("rbf", "polynomial", "sigmoid", "cosine", "laplacian", "chi2", "additive_chi2")

# The same for kernels that are looked at less often.
MORE_SHAPES = ((1021, 997, 17), (1025, 511, 129))

OTHERS = (
    kernel("matern", 2001, None, 16, nu=1.5),
    kernel("matern", 1501, 1003, 16, nu=2.5),
    kernel("matern", 1501, 1003, 16, nu=math.inf),
    kernel("geometric", 2001, None, 64, alpha=0.9),
    kernel("sinc", 1501, 1003, 3, omega=1.0),
    kernel("arc_cosine", 2001, None, 64, order=1),
    kernel("nngp", 2001, None, 64, depth=3, w_std=1.5, b_std=0.1),
    kernel("ntk", 1501, 1003, 64, depth=3, w_std=1.5, b_std=0.1),
    cntk(16, 3, 16, depth=3),
    softmax_matvec(4096, 4096, 64),
    on_grams("hsic", 2001, unbiased=True),
    on_grams("cka", 2001),
    on_grams("center", 2001),
    feature_gram(8, 64, 56, center=False),
    feature_gram(8, 64, 56, center=True),
    empirical_ntk(256, 100_003),
    invariant(301, 203, 16),
    matvec(5003, 16),
    matvec_vjp(2001, 1503, 16),
    gram_vjp(2001, 1503, 16),
    distance(1501, 1003, 16),
    diag(100_001, 16, "polynomial"),
    gram(2048, None, 64, "rbf"),
    gram(1501, 1003, 17, "laplacian"),
    gram(1021, 997, 129, "polynomial"),
    *(kernel("geometric", *shape, alpha=0.9) for shape in MORE_SHAPES),
    *(kernel("arc_cosine", *shape, order=1) for shape in MORE_SHAPES),
    *(kernel(name, *shape, depth=3, w_std=1.5, b_std=0.1) for name in ("nngp", "ntk") for shape in MORE_SHAPES),
    kernel("sinc", 1025, 511, 2, omega=1.0),
    kernel("sinc", 301, 4099, 7, omega=2.0),
    cntk(5, 3, 13, depth=2),
    softmax_matvec(1023, 2049, 33),
    softmax_matvec(64, 8191, 128),
    on_grams("hsic", 511, unbiased=False),
    on_grams("cka", 511),
    on_grams("center", 4095),
    feature_gram(3, 127, 13, center=False),
    empirical_ntk(1001, 2003),
    invariant(65, 1001, 7),
    matvec(1501, 129, rivals=("torch",)),  # for which KeOps would compile for minutes
    matvec_vjp(511, 1025, 65),
    gram_vjp(511, 1025, 65),
    distance(2047, 511, 129),
    diag(10_001, 129, "polynomial"),
)

# Time against size, symmetric, the everyday call: name of the axis, how to make a case, points, and all points. Powers
# of two; with --full also their odd neighbours.
LENGTHS = (16, 31, 64, 127, 256, 511, 1024, 2047, 4096)
FEATURES = (2, 3, 4, 8, 15, 16, 33, 64, 127, 256, 513, 1024, 2048)
SERIES = (
    ("n", lambda n: kernel("linear", n, None, 128), (64, 512, 4096), (*LENGTHS, 8191)),
    ("n", lambda n: kernel("rbf", n, None, 128), (16, 64, 256, 1024, 2048), LENGTHS),
    ("d", lambda d: kernel("rbf", 1024, None, d), (4, 64, 1024), FEATURES),
    ("n", lambda n: kernel("laplacian", n, None, 128), (64, 512), LENGTHS[:-1]),
    ("n", lambda n: kernel("ntk", n, None, 128, depth=2), (), LENGTHS),
    ("d", lambda d: kernel("laplacian", 512, None, d), (), FEATURES[:-2]),
    ("d", lambda d: kernel("ntk", 512, None, d, depth=2), (), FEATURES),
    ("n", lambda n: kernel("chi2", n, None, 64), (), LENGTHS[:-1]),
    ("n", lambda n: matvec(n, 16), (), LENGTHS[2:]),
    ("n", lambda n: gram_vjp(n, n, 16), (), LENGTHS[2:-1]),
    ("n", lambda n: softmax_matvec(n, n, 64), (), LENGTHS[2:]),
    ("n", lambda n: on_grams("center", n), (), LENGTHS[2:]),
    ("n", lambda n: cntk(n, 3, 8, depth=2), (), (1, 2, 4, 7, 8, 9, 16, 32)),
)
