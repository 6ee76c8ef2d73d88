"""What of fastdl.hebbian is benchmarked: a line a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import hebbian_formulas as formulas
from cases.bench_case import BenchCase, normal
from cases.hebbian import spins


@dataclass(frozen=True)
class HebbianCase(BenchCase):
    """A call of fastdl.hebbian."""

    family = "hebbian"
    formulas = formulas


def learn(name: str, k: int, d: int, n: int, mode: str = "sequential", rivals: tuple[str, ...] = ()) -> HebbianCase:
    """Let k units see n samples of d features, with a step at which weights move and stay bounded."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        return {"W": normal(rng, (k, d), dtype) / dtype.type(d**0.5), "X": normal(rng, (n, d), dtype)}

    parameters: dict[str, Any] = {"lr": 0.05 / d if mode == "sequential" else 0.05 / d / n}
    if mode == "batch":
        parameters["mode"] = mode
    size: dict[str, int | str] = {"k": k, "d": d, "n": n, "mode": mode}
    # By the formula of a sample: y, y xᵀ, and for all but Oja the sum of units.
    flops = float(n) * d * k * (4 if name == "oja" else 6)
    return HebbianCase(name, size, arrays, parameters, flops, terms=float(n) * d * k, rivals=rivals)


def recall(m: int, d: int, n: int, mode: str) -> HebbianCase:
    """Let m states of d units, a tenth of them turned over, run to the n patterns that they come from.

    The weights are whole numbers over a power of two, so that no rounding turns a unit.
    """

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        P = spins(rng, (n, d), dtype)
        W = P.T @ P / dtype.type(1024)
        np.fill_diagonal(W, 0)
        states = P[rng.integers(0, n, m)]
        return {"W": W, "s": np.where(rng.random((m, d)) < 0.1, -states, states)}

    size: dict[str, int | str] = {"m": m, "d": d, "n": n, "mode": mode}
    return HebbianCase("hopfield_recall", size, arrays, {"mode": mode}, 2.0 * m * d * d, terms=float(m) * d * d)


# The rows the project's goals are stated for.
GOALS = (
    learn("sanger", 64, 784, 2000),
    learn("oja", 1, 784, 2000),
    *(learn(name, k, d, 250) for k, d in ((16, 3072), (256, 1024)) for name in ("sanger", "subspace", "oja")),
    learn("sanger", 64, 784, 2000, "batch"),
    recall(1000, 1000, 50, "async"),
    recall(1000, 1000, 50, "sync"),
)

OTHERS = (
    learn("subspace", 64, 784, 2000),
    learn("oja", 64, 784, 2000),
    *(learn(name, 64, 784, 2000, "batch") for name in ("subspace", "oja")),
    learn("oja", 1, 64, 2000),
    learn("sanger", 8, 64, 2000),
    learn("sanger", 5, 1003, 301),
)

# Time against size: name of the axis, how to make a case, points, and all points.
SERIES = (
    ("k", lambda k: learn("sanger", k, 784, 300), (4, 16, 64), (1, 2, 4, 8, 15, 16, 17, 32, 64, 127, 256)),
    ("d", lambda d: learn("sanger", 64, d, 300), (), (16, 64, 127, 256, 511, 784, 1024, 2048)),
)
