"""What of fastdl.scattering is benchmarked: a line a case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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
        axes = formulas.AXES[self.name]
        first = (slice(0, 1),) * (inputs["x"].ndim - axes)
        return {**inputs, "x": inputs["x"][first]}, first


def case(name: str, batch: tuple[int, ...], shape: tuple[int, ...], **parameters: Any) -> ScatteringCase:
    """Transform a batch of noise. Flops are of complex transforms at full resolution for each of the first scales."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        return {"x": normal(rng, (*batch, *shape), dtype)}

    size: dict[str, int | str] = {"batch": "x".join(map(str, batch)), "shape": "x".join(map(str, shape)), **parameters}
    terms = float(math.prod(batch)) * math.prod(shape) * 100
    return ScatteringCase(name, size, arrays, parameters, terms=terms)


@dataclass(frozen=True)
class GradientCase(ScatteringCase):
    """A transform and its gradient: what a step of training takes."""

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        x, grad = inputs["x"], inputs["grad"]
        S = formulas._objects("Scattering2D", x, **self.parameters)

        def forward_and_back() -> Any:
            S(x)
            return S.vjp(x, grad)

        return forward_and_back

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the first image."""
        first = (slice(0, 1),) * (inputs["x"].ndim - 2)
        return {**inputs, "x": inputs["x"][first], "grad": inputs["grad"][first]}, first


def gradient(batch: tuple[int, ...], shape: tuple[int, int], J: int) -> GradientCase:
    """Take a transform of noise, and the gradient of its product with noise."""
    plain = case("Scattering2D", batch, shape, J=J)

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        x = plain.arrays(rng, dtype)["x"]
        result = formulas._objects("Scattering2D", x, J=J)(x[(0,) * len(batch)])
        return {"x": x, "grad": normal(rng, (*batch, *result.shape), dtype)}

    return GradientCase("Scattering2D_vjp", plain.size, arrays, {"J": J}, terms=3 * plain.terms)


@dataclass(frozen=True)
class CascadeCase(ScatteringCase):
    """A fast wavelet transform and its inverse, which give the images again."""

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        from fastdl import scattering

        x, J, wavelet = inputs["x"], inputs["J"], inputs["wavelet"]
        return lambda: scattering.inverse_wavelet_transform2d(*scattering.wavelet_transform2d(x, J, wavelet), wavelet)

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take all: the formula costs nothing."""
        return inputs, ...


def cascade(batch: tuple[int, ...], shape: tuple[int, int], J: int, wavelet: str) -> CascadeCase:
    """Transform noise there and back."""
    plain = case("wavelet_transform2d", batch, shape, J=J, wavelet=wavelet)
    return CascadeCase(plain.name, plain.size, plain.arrays, plain.parameters, terms=plain.terms)


# The rows the project's goals are stated for.
GOALS = (
    case("Scattering2D", (128, 3), (32, 32), J=2),
    case("Scattering2D", (128, 3), (32, 32), J=3),
    case("Scattering2D", (8, 1), (256, 256), J=4),
    case("Scattering2D", (1, 1), (512, 512), J=5),
    case("Scattering1D", (16,), (8192,), J=6, Q=8, normalization="mean"),
    case("Scattering1D", (4,), (65536,), J=8, Q=12, normalization="mean"),
    case("HarmonicScattering3D", (8,), (64, 64, 64), J=2, L=2),
    gradient((128, 3), (32, 32), J=2),
    case("RotoTranslationScattering2D", (8,), (64, 64), J=3),
    cascade((32,), (256, 256), J=4, wavelet="db4"),
)


def along(axis: str, value: int, made: ScatteringCase) -> ScatteringCase:
    """Give the case with what is varied as a number of its size, which the plots are drawn against."""
    return replace(made, size={**made.size, axis: value})


# Time against size: name of the axis, how to make a case, points, and all points.
SERIES = (
    (
        "side",
        lambda n: along("side", n, case("Scattering2D", (32,), (n, n), J=2)),
        (32, 64),
        (16, 24, 28, 31, 32, 33, 48, 64, 96, 128),
    ),
    (
        "batch",
        lambda n: along("batch", n, case("Scattering2D", (n,), (32, 32), J=2)),
        (),
        (1, 2, 4, 8, 16, 31, 32, 33, 64, 128),
    ),
)
