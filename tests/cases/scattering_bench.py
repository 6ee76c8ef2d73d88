"""What of fastdl.scattering is benchmarked: a line a case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import scattering_bench_formulas as formulas
from cases.bench_case import BenchCase, normal


@dataclass(frozen=True)
class ScatteringCase(BenchCase):
    """A transform, made beforehand, of a batch."""

    family = "scattering"
    formulas = formulas

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Give the call of the object, which is made once."""
        x = inputs["x"]
        S = formulas._objects(self.name, **inputs)
        return lambda: S(x)

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the first signal."""
        axes = {"Scattering1D": 1, "Scattering2D": 2, "HarmonicScattering3D": 3}[self.name]
        first = (slice(0, 1),) * (inputs["x"].ndim - axes)
        return {**inputs, "x": inputs["x"][first]}, first


def case(name: str, batch: tuple[int, ...], shape: tuple[int, ...], **parameters: Any) -> ScatteringCase:
    """Transform a batch of noise. Flops are of complex transforms at full resolution for each of the first scales."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        return {"x": normal(rng, (*batch, *shape), dtype)}

    size: dict[str, int | str] = {"batch": "x".join(map(str, batch)), "shape": "x".join(map(str, shape)), **parameters}
    terms = float(math.prod(batch)) * math.prod(shape) * 100
    return ScatteringCase(name, size, arrays, parameters, terms=terms)


# The rows the project's goals are stated for.
GOALS = (
    case("Scattering2D", (128, 3), (32, 32), J=2),
    case("Scattering2D", (128, 3), (32, 32), J=3),
    case("Scattering2D", (8, 1), (256, 256), J=4),
    case("Scattering2D", (1, 1), (512, 512), J=5),
    case("Scattering1D", (16,), (8192,), J=6, Q=8, normalization="mean"),
    case("Scattering1D", (4,), (65536,), J=8, Q=12, normalization="mean"),
    case("HarmonicScattering3D", (8,), (64, 64, 64), J=2, L=2),
)

# Time against size: name of the axis, how to make a case, points, and all points.
SERIES = (
    (
        "n",
        lambda n: case("Scattering2D", (32,), (n, n), J=2),
        (32, 64),
        (16, 24, 28, 31, 32, 33, 48, 64, 96, 128),
    ),
    ("batch", lambda n: case("Scattering2D", (n,), (32, 32), J=2), (), (1, 2, 4, 8, 16, 31, 32, 33, 64, 128)),
)
