"""What of fastdl.hebbian is benchmarked: a line a case."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import hebbian_formulas as formulas
from cases.bench_case import BenchCase, normal, some
from cases.hebbian import spins, unit_rows


@dataclass(frozen=True)
class HebbianCase(BenchCase):
    """A call of fastdl.hebbian.

    `rows_of` names the argument each of whose rows becomes one of the result by itself, so that some of them are enough
    for a check: "" if there is none.
    """

    rows_of: str = ""

    family = "hebbian"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        if not self.rows_of or self.terms <= budget:
            return inputs, ...
        given = inputs[self.rows_of]
        rows = some(len(given), budget / self.terms)
        return {**inputs, self.rows_of: given[rows]}, rows


# ---- rules of learning ----
def learn(
    name: str, k: int, d: int, n: int, mode: str = "sequential", rivals: tuple[str, ...] = (), **parameters: Any
) -> HebbianCase:
    """Let k units see n samples of d features, with a step at which weights move and stay bounded."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        return {"W": normal(rng, (k, d), dtype) / dtype.type(d**0.5), "X": normal(rng, (n, d), dtype)}

    told = {key: int(value) if isinstance(value, bool) else value for key, value in parameters.items()}
    size: dict[str, int | str] = {"k": k, "d": d, "n": n, "mode": mode, **told}
    parameters["lr"] = 0.05 / d if mode == "sequential" else 0.05 / d / n
    if mode == "batch":
        parameters["mode"] = mode
    # By the formula of a sample: y, y xᵀ, and for those that take a sum of units away that sum.
    flops = float(n) * d * k * (6 if name in ("sanger", "subspace") else 4)
    return HebbianCase(name, size, arrays, parameters, flops, terms=float(n) * d * k, rivals=rivals)


def foldiak(k: int, d: int, n: int, steps: int = 100) -> HebbianCase:
    """Let k units that inhibit each other see samples of zeros and ones, with steps that are exact in both types."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        lateral = -np.abs(normal(rng, (k, k), dtype)) / dtype.type(k)
        np.fill_diagonal(lateral, 0)
        return {
            "W": np.abs(normal(rng, (k, d), dtype)) / dtype.type(d),
            "X": (rng.random((n, d)) < 0.3).astype(dtype),
            "lateral": lateral,
            "threshold": np.full(k, 0.125, dtype),
        }

    parameters = {"lateral_lr": 0.125, "threshold_lr": 0.03125, "activity": 0.125, "steepness": 8.0, "lr": 0.03125}
    size: dict[str, int | str] = {"k": k, "d": d, "n": n, "steps": steps}
    terms = float(n) * k * (d + steps * k)
    return HebbianCase("foldiak", size, arrays, {**parameters, "steps": steps}, 2 * terms, terms=terms)


def _falling(rng: np.random.Generator, n: int, d: int, dtype: np.dtype) -> np.ndarray:
    """Samples whose features have variances that fall, so that there are components to find."""
    return (rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))).astype(dtype)


def ccipca(k: int, d: int, n: int) -> HebbianCase:
    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        return {"V": np.zeros((k, d), dtype), "X": _falling(rng, n, d, dtype)}

    # Two products with a direction and two sums for each unit.
    return HebbianCase("ccipca", {"k": k, "d": d, "n": n}, arrays, {}, 8.0 * n * d * k, terms=float(n) * d * k)


# ---- principal components ----
@dataclass(frozen=True)
class EstimatorCase(HebbianCase):
    """A call of a method of HebbianPCA; results are what it learns, or what it gives."""

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Give the call of the method, on an estimator that is new or knows what was learnt before."""
        from fastdl.hebbian import HebbianPCA

        method = self.name.partition("_")[2] or "fit"
        if method in ("fit", "fit_transform"):
            X, parameters = inputs["X"], self.parameters
            if method == "fit_transform":
                return lambda: HebbianPCA(**parameters).fit_transform(X)

            def fit() -> tuple:
                found = HebbianPCA(**parameters).fit(X)
                return found.components_, found.mean_

            return fit
        given = inputs["Y"] if method == "inverse_transform" else inputs["X"]
        components = inputs["start" if method == "partial_fit" else "components"]
        parameters = {key: value for key, value in self.parameters.items() if key != "seen"}
        known = HebbianPCA(**{"n_components": len(components), **parameters})
        known.partial_fit(np.zeros((1, components.shape[1]), components.dtype))
        known.components_, known.mean_ = components, inputs["mean"].astype(np.float64)
        known.n_samples_seen_ = self.parameters.get("seen", 1)
        if method != "partial_fit":
            return lambda: getattr(known, method)(given)

        def partial_fit() -> tuple:
            found = copy.copy(known).partial_fit(given)
            return found.components_, found.mean_

        return partial_fit


def pca(method: str, k: int, d: int, n: int, rule: str = "sanger") -> EstimatorCase:
    """Take n samples of d features, a mean away from 0, and k components; `fit` is the class itself."""
    name = "HebbianPCA" if method == "fit" else f"HebbianPCA_{method}"
    learns = method in ("fit", "partial_fit", "fit_transform")

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        # What the estimator begins with, too, for those who are told.
        start = unit_rows(np.random.default_rng(0).standard_normal((k, d))).astype(dtype)
        known = {"start" if learns else "components": start}
        if method not in ("fit", "fit_transform"):
            known["mean"] = np.ones(d, dtype)
        if method == "inverse_transform":
            return {"Y": normal(rng, (n, k), dtype), **known}
        return {"X": _falling(rng, n, d, dtype) + dtype.type(1), **known}

    parameters: dict[str, Any] = {}
    size: dict[str, int | str] = {"k": k, "d": d, "n": n}
    if learns:
        parameters = {"n_components": k, "rule": rule, "learning_rate": None if rule == "ccipca" else 0.05 / d}
        size["rule"] = rule
    if method == "partial_fit":
        parameters["seen"] = 50
    flops = float(n) * d * k * ({"oja": 4, "ccipca": 8}.get(rule, 6) * learns + 2 * method.endswith("transform"))
    rows_of = "" if learns else "Y" if method == "inverse_transform" else "X"
    return EstimatorCase(name, size, arrays, parameters, flops, terms=float(n) * d * k, rows_of=rows_of)


# ---- Hopfield networks ----
def _near(rng: np.random.Generator, P: np.ndarray, m: int) -> np.ndarray:
    """States that come from patterns, a tenth of their units turned over."""
    states = P[rng.integers(0, len(P), m)]
    return np.where(rng.random(states.shape) < 0.1, -states, states)


def _couplings(P: np.ndarray) -> np.ndarray:
    """Weights that are whole numbers over a power of two, so that no rounding turns a unit."""
    W = P.T @ P / P.dtype.type(1024)
    np.fill_diagonal(W, 0)
    return W


def recall(m: int, d: int, n: int, mode: str) -> HebbianCase:
    """Let m states of d units, a tenth of them turned over, run to the n patterns that they come from."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        P = spins(rng, (n, d), dtype)
        return {"W": _couplings(P), "s": _near(rng, P, m)}

    size: dict[str, int | str] = {"m": m, "d": d, "n": n, "mode": mode}
    terms = float(m) * d * d
    return HebbianCase("hopfield_recall", size, arrays, {"mode": mode}, 2 * terms, terms=terms, rows_of="s")


def energy(m: int, d: int) -> HebbianCase:
    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        W = normal(rng, (d, d), dtype) / dtype.type(d)
        return {"W": W + W.T, "s": spins(rng, (m, d), dtype)}

    terms = float(m) * d * d
    return HebbianCase("hopfield_energy", {"m": m, "d": d}, arrays, {}, 2 * terms, terms=terms, rows_of="s")


def on_patterns(name: str, n: int, d: int) -> HebbianCase:
    """Take the couplings of n patterns of d units, one triangle of which is computed, or their crosstalk."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        return {"P": spins(rng, (n, d), dtype)}

    flops = float(n) * d * (d + 1) if name == "hopfield_weights" else float(n) * (n + 1) * d + 2.0 * n * n * d
    return HebbianCase(name, {"n": n, "d": d}, arrays, {}, flops, terms=flops / 2)


def dense(name: str, m: int, d: int, n: int, degree: int = 3, mode: str = "") -> HebbianCase:
    """Let m states run to the n patterns that they come from, or take their energies."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        P = spins(rng, (n, d), dtype)
        return {"P": P, "s": _near(rng, P, m)}

    size: dict[str, int | str] = {"m": m, "d": d, "n": n, "degree": degree}
    parameters: dict[str, Any] = {"degree": degree}
    if mode:
        size["mode"] = parameters["mode"] = mode
    terms = float(m) * d * n
    return HebbianCase(name, size, arrays, parameters, 2 * terms, terms=terms, rows_of="s")


def modern(m: int, d: int, n: int) -> HebbianCase:
    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        return {"P": normal(rng, (n, d), dtype), "q": normal(rng, (m, d), dtype)}

    size: dict[str, int | str] = {"m": m, "d": d, "n": n}
    parameters, terms = {"beta": 1 / d**0.5}, float(m) * d * n
    return HebbianCase("modern_hopfield", size, arrays, parameters, 4 * terms, terms=terms, rows_of="q")


@dataclass(frozen=True)
class NumberCase(HebbianCase):
    """A function of numbers, which computes in double: a call for each of several pairs, exact in the type."""

    reference = False  # it is the function itself

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        from fastdl import hebbian

        call = getattr(hebbian, self.name)
        pairs = list(zip(*(values.tolist() for values in inputs.values()), strict=True))
        return lambda: [call(*pair) for pair in pairs]


def number(name: str, count: int) -> NumberCase:
    """Follow a curve: networks of 1000 units that hold more and more, or that may be more and more unstable."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        units, shares = np.full(count, 1000, dtype), np.linspace(0.05, 0.4, count)
        if name == "flip_probability":
            return {"n": (1000 * shares).astype(dtype), "d": units}
        return {"d": units, "probability": (0.1 * shares).astype(dtype)}

    # Of the formula: a sum, and for its inverse as many sums as an interval is halved.
    terms = float(count) * formulas.POINTS * (1 if name == "flip_probability" else formulas.HALVINGS)
    return NumberCase(name, {"numbers": count}, arrays, terms=terms)


# ---- what is run ----
# The rows the project's goals are stated for.
GOALS = (
    learn("sanger", 64, 784, 2000),
    learn("oja", 1, 784, 2000),
    *(learn(name, k, d, 250) for k, d in ((16, 3072), (256, 1024)) for name in ("sanger", "subspace", "oja")),
    learn("sanger", 64, 784, 2000, "batch"),
    recall(1000, 1000, 50, "async"),
    recall(1000, 1000, 50, "sync"),
)

# Of every function: what a loop in Python can keep up with.
SMALL = (
    *(learn(name, 4, 31, 50) for name in ("hebb", "oja", "sanger", "subspace", "bcm", "krotov", "soft_hebb")),
    learn("hebb", 4, 31, 50, normalize=True),
    *(learn(name, 4, 31, 50, "batch") for name in ("hebb", "oja", "sanger", "subspace")),
    foldiak(4, 31, 20, steps=50),
    ccipca(3, 31, 50),
    *(pca(method, 3, 31, 50) for method in ("fit", "partial_fit", "fit_transform", "transform", "inverse_transform")),
    pca("fit", 3, 31, 50, "ccipca"),
    on_patterns("hopfield_weights", 7, 33),
    on_patterns("crosstalk", 7, 33),
    energy(9, 33),
    *(recall(5, 33, 3, mode) for mode in ("async", "sync")),
    dense("dense_hopfield_energy", 9, 33, 7),
    *(dense("dense_hopfield", 3, 33, 5, mode=mode) for mode in ("async", "sync")),
    modern(9, 16, 33),
    number("flip_probability", 7),
    number("capacity", 3),
)

# Units, features, samples: square and far from it, and none a multiple of a vector.
SHAPES = ((64, 784, 300), (5, 1003, 301), (127, 255, 203))

OTHERS = (
    learn("subspace", 64, 784, 2000),
    learn("oja", 64, 784, 2000),
    *(learn(name, 64, 784, 2000, "batch") for name in ("subspace", "oja")),
    learn("oja", 1, 64, 2000),
    learn("sanger", 8, 64, 2000),
    learn("sanger", 5, 1003, 301),
    *(learn(name, *shape) for name in ("hebb", "bcm", "krotov", "soft_hebb") for shape in SHAPES),
    *(learn("hebb", *shape, normalize=True) for shape in SHAPES),
    learn("hebb", 64, 784, 300, "batch"),
    learn("hebb", 64, 784, 300, "batch", normalize=True),
    learn("krotov", 64, 784, 300, p=3.0),
    *(foldiak(*shape) for shape in ((16, 64, 200), (33, 257, 101))),
    *(ccipca(*shape) for shape in ((16, 784, 300), (5, 1003, 301))),
    *(pca("fit", 16, 784, 1000, rule) for rule in ("sanger", "subspace", "oja", "ccipca")),
    pca("fit", 5, 1003, 301),
    *(pca(method, 16, 784, 1000) for method in ("partial_fit", "fit_transform")),
    *(pca(method, 5, 1003, 301) for method in ("partial_fit", "fit_transform")),
    *(pca(method, 64, 784, 5001) for method in ("transform", "inverse_transform")),
    *(pca(method, 5, 255, 20_003) for method in ("transform", "inverse_transform")),
    *(on_patterns(name, *shape) for name in ("hopfield_weights", "crosstalk") for shape in ((138, 1000), (201, 1003))),
    *(energy(*shape) for shape in ((1000, 1000), (301, 2003))),
    *(recall(31, 301, 11, mode) for mode in ("async", "sync")),
    *(dense("dense_hopfield_energy", *shape) for shape in ((1000, 1000, 500), (301, 2003, 703))),
    *(dense("dense_hopfield", 101, 257, 50, mode=mode) for mode in ("async", "sync")),
    dense("dense_hopfield", 64, 300, 101, degree=5, mode="async"),
    *(modern(*shape) for shape in ((1024, 64, 4096), (301, 101, 2003))),
    *(number("flip_probability", count) for count in (301, 1000)),
    *(number("capacity", count) for count in (31, 101)),
)

# Time against size: name of the axis, how to make a case, points, and all points.
UNITS = (1, 2, 4, 8, 15, 16, 17, 32, 64, 127, 256)
FEATURES = (16, 64, 127, 256, 511, 784, 1024, 2048)
SAMPLES = (1, 8, 31, 100, 333, 1000, 3001)
SERIES = (
    ("k", lambda k: learn("sanger", k, 784, 300), (4, 16, 64), UNITS),
    ("d", lambda d: learn("sanger", 64, d, 300), (), FEATURES),
    ("n", lambda n: learn("sanger", 64, 784, n), (), SAMPLES),
    ("k", lambda k: learn("krotov", k, 784, 300), (), UNITS[1:]),
    ("d", lambda d: learn("soft_hebb", 64, d, 300), (), FEATURES),
    ("n", lambda n: pca("fit", 16, 784, n), (), SAMPLES[2:]),
    ("d", lambda d: recall(100, d, 10, "async"), (), (*FEATURES[1:6], 1024)),
    ("d", lambda d: on_patterns("hopfield_weights", 100, d), (), FEATURES),
    ("n", lambda n: modern(256, 64, n), (), (31, 127, 512, 1023, 2048, 4097, 8192)),
)
