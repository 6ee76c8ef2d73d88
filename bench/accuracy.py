"""Measure the accuracy of every function on every instruction set, and write docs/accuracy.md: ``make accuracy``.

Kernels are measured here, what is made of them by `accuracy_gram.py`, and the other families by the modules
`accuracy_*.py` of their names.

float32 results are compared with float64, float64 results with extended precision, by `tests/cases/gram_formulas.py`,
which computes distances from the differences themselves. Kernels that go by the angle between two samples lose half of
the digits next to parallel even then, so they are compared with 50 digits, by mpmath, for some pairs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import accuracy_conv  # noqa: E402
import accuracy_gram  # noqa: E402
import accuracy_group  # noqa: E402
import accuracy_hebbian  # noqa: E402
import accuracy_scattering  # noqa: E402
import accuracy_table as tables  # noqa: E402
import fastdl  # noqa: E402
import machine  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
from accuracy_table import DTYPES, KEPT, SEED, levels, recorded  # noqa: E402
from cases import gram_formulas as formulas  # noqa: E402
from cases import wide  # noqa: E402

FAMILIES = {
    accuracy_gram: fastdl.gram,
    accuracy_conv: fastdl.conv,
    accuracy_group: fastdl.group,
    accuracy_scattering: fastdl.scattering,
    accuracy_hebbian: fastdl.hebbian,
}
ROWS, COLUMNS = 33, 47
FEATURES = (1, 3, 17, 128, 1000)

# By kernel: parameters, and the data it is defined on ("any", "positive", or "ball" for samples shorter than 1).
KERNELS: dict[str, tuple[str, dict, str]] = {
    "linear": ("linear", {}, "any"),
    "polynomial": ("polynomial", {}, "any"),
    "sigmoid": ("sigmoid", {}, "any"),
    "rbf": ("rbf", {}, "any"),
    "laplacian": ("laplacian", {}, "any"),
    "cosine": ("cosine", {}, "any"),
    "additive_chi2": ("additive_chi2", {}, "positive"),
    "chi2": ("chi2", {"gamma": 0.1}, "positive"),
    "matern, nu=0.5": ("matern", {"nu": 0.5, "length_scale": 10.0}, "any"),
    "matern, nu=1.5": ("matern", {"nu": 1.5, "length_scale": 10.0}, "any"),
    "matern, nu=2.5": ("matern", {"nu": 2.5, "length_scale": 10.0}, "any"),
    "matern, nu=inf": ("matern", {"nu": math.inf, "length_scale": 10.0}, "any"),
    "geometric": ("geometric", {"alpha": 0.9}, "ball"),
    "sinc": ("sinc", {"omega": 1.0}, "any"),
    "arc_cosine, order=0": ("arc_cosine", {"order": 0}, "any"),
    "arc_cosine, order=1": ("arc_cosine", {"order": 1}, "any"),
    "arc_cosine, order=2": ("arc_cosine", {"order": 2}, "any"),
    "nngp, depth=3": ("nngp", {"depth": 3, "w_std": 1.5, "b_std": 0.1}, "any"),
    "ntk, depth=3": ("ntk", {"depth": 3, "w_std": 1.5, "b_std": 0.1}, "any"),
}
ANGULAR = ("arc_cosine", "nngp", "ntk")


# ---- data ----
def normal(rng, rows, d):
    return rng.standard_normal((rows, d))


def not_negative(rng, rows, d):
    return np.maximum(0, rng.standard_normal((rows, d)))


def offset(rng, rows, d):
    """Far from the origin and close together: offsets of 1000, distances of about 0.1."""
    return 1000 + 0.1 / math.sqrt(2 * d) * rng.standard_normal((rows, d))


def clusters(rng, rows, d):
    """The same about +1000 and about -1000 by turns: here subtracting the mean does not help."""
    return offset(rng, rows, d) - 2000 * (np.arange(rows) % 2)[:, None]


def near_parallel(rng, rows, d):
    """On the unit sphere, in one direction up to 1e-1 … 1e-8."""
    along = np.full((rows, d), 1 / math.sqrt(d))
    return along + np.logspace(-1, -8, rows)[:, None] / math.sqrt(d) * rng.standard_normal((rows, d))


def in_ball(rng, rows, d):
    X = rng.standard_normal((rows, d))
    return 0.95 * X / np.linalg.norm(X, axis=1, keepdims=True)


DATA: dict[str, Callable] = {
    "normal": normal,
    "not negative": not_negative,
    "offset": offset,
    "clusters": clusters,
    "near parallel": near_parallel,
    "ball": in_ball,
}


def suitable(kind: str, data: str, d: int, name: str) -> bool:
    """Whether a kernel is measured on some data."""
    if kind == "ball":
        return data == "ball"
    if kind == "positive":
        return data in ("not negative", "offset")
    # A product of sines of a thousand features underflows.
    return data != "ball" and not (name == "sinc" and d > 17)


# ---- references ----
def scale(name: str, X, Y, value, **parameters):
    """What errors are measured against: the value, but where terms of both signs cancel, the sum of their sizes."""
    size = np.abs(X) @ np.abs(Y).T
    gamma = 1 / X.shape[1]
    if name in ("linear", "cosine"):
        return size if name == "linear" else formulas.cosine(np.abs(X), np.abs(Y))
    if name == "polynomial":
        return (gamma * size + 1) ** 3
    if name == "sigmoid":
        # tanh(t + e) = tanh(t) + e (1 - tanh²(t)).
        return np.maximum(np.abs(value), (gamma * size + 1) * (1 - value**2))
    if name == "geometric":
        return np.maximum(np.abs(value), parameters["alpha"] ** 2 * size * value**2)
    if name == "sinc":
        return np.full(value.shape, (parameters["omega"] / math.pi) ** X.shape[1])
    if name in ("nngp", "ntk", "arc_cosine"):
        # All of them are largest at parallel samples of these lengths.
        lengths = [np.sqrt(np.sum(np.square(rows), axis=1)) for rows in (X, Y)]
        if name == "arc_cosine":
            return np.maximum(np.abs(value), np.multiply.outer(*lengths) ** parameters["order"])
        return np.maximum(np.abs(value), np.multiply.outer(*lengths) / X.shape[1])
    return np.abs(value)


def many_digits(name: str, X, Y, parameters: dict) -> np.ndarray:
    """Compute the angular kernels with 50 digits, one pair at a time."""
    from mpmath import mp, mpf

    mp.dps = 50

    def angle(product, left, right):
        s = mp.sqrt(max(mpf(0), left * right - product**2))
        return (mp.pi / 2 if s == 0 and product == 0 else mp.atan2(s, product)), s

    def arc_cosine(product, left, right, order):
        theta, _ = angle(product, left, right)
        sine, cosine = mp.sin(theta), mp.cos(theta)
        values = (
            mp.pi - theta,
            sine + (mp.pi - theta) * cosine,
            3 * sine * cosine + (mp.pi - theta) * (1 + 2 * cosine**2),
        )
        return mp.sqrt(left * right) ** order * values[order] / mp.pi

    def relu_layers(product, left, right, depth, w_std, b_std):
        w, b, features = mpf(w_std) ** 2, mpf(b_std) ** 2, X.shape[1]
        S, left, right = (w * value / features + b for value in (product, left, right))
        T = S
        for _ in range(depth):
            theta, s = angle(S, left, right)
            slope = mpf(1) / 2 - theta / (2 * mp.pi)
            S = w * (s / (2 * mp.pi) + slope * S) + b
            T = S + w * slope * T
            left, right = w * left / 2 + b, w * right / 2 + b
        return S if name == "nngp" else T

    rows, others = [[[mpf(float(value)) for value in row] for row in rows] for rows in (X, Y)]
    own, theirs = [[mp.fdot(row, row) for row in side] for side in (rows, others)]
    function = arc_cosine if name == "arc_cosine" else relu_layers
    result = np.empty((len(X), len(Y)), np.longdouble)
    for i, x in enumerate(rows):
        for j, y in enumerate(others):
            value = function(mp.fdot(x, y), own[i], theirs[j], **parameters)
            # Extended precision by way of its two halves.
            high = float(value)
            result[i, j] = np.longdouble(high) + np.longdouble(float(value - mpf(high)))
    return result


def expected(name: str, X, Y, parameters: dict) -> np.ndarray:
    """The value, with more digits than the function has."""
    if name in ANGULAR:
        return many_digits(name, X, Y, parameters)
    with np.errstate(all="ignore"):
        return getattr(formulas, name)(wide(X), wide(Y), **parameters)


# ---- measuring ----
def compute(level: str, name: str, X, Y, parameters: dict) -> np.ndarray:
    """Compute a kernel on an instruction set, or by the reference."""
    with tables.at(level):
        return getattr(fastdl.gram, name)(X, Y, **parameters)


def worst_errors(features: tuple[int, ...] = FEATURES) -> dict:
    """Errors in units of eps by (kernel, dtype, data): {level: worst}; NaN counts as infinitely wrong."""
    worst: dict[tuple[str, str, str], dict[str, float]] = {}
    for label, (name, parameters, kind) in KERNELS.items():
        if not hasattr(fastdl.gram, name):
            print(f"{name} is not in this release", file=sys.stderr)
            continue
        print(label, file=sys.stderr, flush=True)
        for data, draw in DATA.items():
            for d in features:
                if not suitable(kind, data, d, name):
                    continue
                rng = np.random.default_rng(SEED)
                # 50 digits take their time.
                rows, columns = (ROWS, COLUMNS) if name not in ANGULAR else (7, 9)
                both = draw(rng, rows + columns, d)
                # Some samples are the same in both sets, and the order is mixed, so that near ones meet far ones.
                both = both[rng.permutation(len(both))]
                for dtype in DTYPES:
                    X, Y = both[:rows].astype(dtype), both[rows:].astype(dtype)
                    Y[:3] = X[:3]
                    truth = expected(name, X, Y, parameters)
                    size = scale(name, wide(X), wide(Y), truth, **parameters)
                    for level in levels():
                        value = tables.worst_error(compute(level, name, X, Y, parameters), truth, size, dtype)
                        entry = worst.setdefault((label, dtype, data), {})
                        entry[level] = max(value, entry.get(level, 0.0))
    return worst


def distance_errors() -> list[tuple[str, str, float, float]]:
    """The relative error of ‖x - y‖² as it is read back from rbf, by data and dtype: ours, and the plain formula's."""
    rows = []
    for dtype in DTYPES:
        for data in ("normal", "offset", "clusters", "near parallel"):
            both = DATA[data](np.random.default_rng(SEED), 2 * ROWS, 17).astype(dtype)
            X, Y = both[:ROWS], both[ROWS:]
            truth = formulas.squared_distances(wide(X), wide(Y))
            # gamma so that the largest exponent is 1: exp then passes an error on as it is. Small distances would be
            # lost in its rounding, so only those above a tenth of the largest are read back; of clusters, those within.
            near = truth[truth < 1e3].max()
            gamma = float(1 / near)
            large = (truth > 0.1 * near) & (truth <= near)
            squares = [np.sum(np.square(rows_), axis=1) for rows_ in (X, Y)]
            plain = np.add.outer(*squares) - 2 * X @ Y.T
            with np.errstate(divide="ignore"):
                back = -np.log(np.asarray(fastdl.gram.rbf(X, Y, gamma=gamma), dtype=np.longdouble)) / gamma
            errors = [np.max((np.abs(d2 - truth) / truth)[large]) for d2 in (back, plain)]
            rows.append((data, dtype, float(errors[0]), float(errors[1])))
    return rows


COSTED = ("normal", "offset", "clusters")


def cost_of_accuracy(n: int = 4096, d: int = 128) -> dict[str, dict[str, float]]:
    """Seconds of rbf by dtype and data, taken by turns: ordinary data, and such as need an accurate distance."""
    result = {}
    for dtype in DTYPES:
        out = np.empty((n, n), dtype)
        samples = {data: DATA[data](np.random.default_rng(SEED), n, d).astype(dtype) for data in COSTED}
        calls = {data: partial(fastdl.gram.rbf, X, out=out) for data, X in samples.items()}
        times = measure.interleave(calls, seconds=5.0, settle=False)
        result[dtype] = {data: min(times[data][0]) for data in COSTED}
    return result


# ---- the page ----
HOW = """\
# Accuracy

Generated by `make accuracy` (`bench/accuracy.py`); do not edit.

The largest error of any entry, in units of eps (1.2e-7 for float32, 2.2e-16 for float64; half of it is what rounding
the result once can cost), over data of {features} features, with some samples in both X and Y.
Errors are relative to the value of the kernel. Where terms of both signs cancel, so that no algorithm in one precision
can keep the digits of the value, they are relative to the sum of the sizes of the terms: linear, polynomial, sigmoid,
cosine, geometric; sinc relative to its largest factor to the power d; arc_cosine, nngp and ntk at least to their value
for parallel samples. True values: float64 for float32, extended precision for float64, 50 digits (mpmath) for those
kernels that go by an angle.

- normal: independent standard normal features.
- not negative: the same, with the negative ones set to 0.
- offset: features about 1000, distances about 0.1. In float32 the plain formula ‖x‖² + ‖y‖² - 2xy has no correct digit.
- clusters: the same about 1000 and about -1000 by turns, so that subtracting the mean does not bring them closer to 0.
- near parallel: samples on the unit sphere, 1e-1 to 1e-8 apart.
- ball: samples of length 0.95, for the kernel that wants them shorter than 1.

An exponent t of a decaying kernel is rounded to t eps, which exp hands on: laplacian and rbf of far samples are that
much less accurate, for everyone. An angle θ next to parallel is known to eps / sin θ only, and to √eps where a sample
of X is also one of Y; of the kernels here only ntk and arc_cosine of order 0 show it."""


HOW_KEPT = f"""\
A column marked{KEPT} is of an earlier run, on a processor with instructions that the last one did not have."""


def page(
    worst: dict,
    distances: list,
    cost: dict,
    convolutions: tuple[dict, ...],
    kept: dict | None = None,
    families: dict[ModuleType, dict] | None = None,
) -> str:
    """The page, from what was measured and what is kept of an earlier one."""
    kept = kept or {}
    others = list(dict.fromkeys(level for cells in kept.values() for level in cells))
    parts = [HOW.format(features=", ".join(map(str, FEATURES)))]
    if others:
        parts.append(HOW_KEPT)
    for dtype in DTYPES:
        rows = [
            ([label, data], entry, kept.get((label, of, data), {}))
            for (label, of, data), entry in worst.items()
            if of == dtype
        ]
        parts.append(f"## {dtype}\n\n" + tables.table(["kernel", "data"], rows, others))
    if distances:
        rows = [[data, dtype, f"{ours:.1e}", f"{plain:.1e}"] for data, dtype, ours, plain in distances]
        parts.append(
            "## The distance inside\n\nThe largest relative error of ‖x - y‖², read back from rbf, against the plain "
            "formula in the same precision (17 features, distances within a factor of √10 of the largest).\n\n"
            + report.in_markdown(["data", "dtype", "rbf", "plain formula"], rows)
        )
    if cost:
        rows = [[dtype, *(f"{1e3 * times[data]:.1f} ms" for data in COSTED)] for dtype, times in cost.items()]
        parts.append(
            "## What it costs\n\nrbf of 4096 samples of 128 features. A common offset goes with the mean; in clusters "
            f"half of all distances cancel. Threads {fastdl.get_num_threads()}, {machine.active_level()}, "
            f"{machine.processor()['cpu']}; best of at least five rounds by turns.\n\n"
            + report.in_markdown(["dtype", *COSTED], rows)
        )
    if convolutions:
        parts.append(accuracy_conv.section(*convolutions))
    for family, errors in (families or {}).items():
        parts.append(tables.section(family, errors, kept, others))
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Measure and write the page, to docs/accuracy.md or to the file named."""
    path = Path(arguments[0]) if arguments else HERE.parent / "docs" / "accuracy.md"
    worst = worst_errors()
    there = hasattr(fastdl.gram, "rbf")
    distances, cost = (distance_errors(), cost_of_accuracy()) if there else ([], {})
    kept = recorded(path.read_text(encoding="utf-8")) if path.exists() else {}
    convolutions = (accuracy_conv.relative_errors(), accuracy_conv.weight_errors())
    families = {family: tables.worst_errors(family) for family in FAMILIES}
    text = page(worst, distances, cost, convolutions, kept, families)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(worst) + sum(map(len, families.values()))} rows", file=sys.stderr)
    for family, errors in families.items():
        for name in tables.not_measured(family, errors, FAMILIES[family]):
            print(f"not measured: {FAMILIES[family].__name__}.{name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
