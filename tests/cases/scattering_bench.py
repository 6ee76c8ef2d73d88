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
    """A transform, made beforehand, of a batch: named by its class, and by a method of it if that is what is called."""

    family = "scattering"
    formulas = formulas

    @property
    def of(self) -> tuple[str, str]:
        """The class, and the method."""
        name, _, method = self.name.partition("_")
        return name, method or "scattering"

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Give the call of the object, which is made once."""
        name, method = self.of
        x = inputs["x"]
        S = formulas.made(name, x, **self.parameters)
        call = getattr(S, method)
        if method.endswith("vjp"):
            return self._gradient(S, call, x, inputs["grad"])
        if getattr(S, "out_type", "array") == "array" or method == "moments":
            return lambda: call(x)
        return lambda: tuple(path["coef"] for path in call(x))

    def _gradient(self, S: Any, call: Callable[..., Any], x: np.ndarray, grad: np.ndarray) -> Callable[[], Any]:
        """Give the gradient, after the transform where autograd makes both: what a step of training takes."""
        slopes = grad if S.__dict__.get("average", True) or "moments" in self.name else formulas.paths_of(S, grad)
        if self.of[1] != "vjp":
            return lambda: call(x, slopes)

        def forward_and_back() -> Any:
            S(x)
            return call(x, slopes)

        return forward_and_back

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the first signal, but all where paths lie end to end."""
        if inputs.get("T") == 0 and self.of[1] == "scattering":
            return inputs, ...
        first = (slice(0, 1),) * (inputs["x"].ndim - formulas.AXES[self.of[0]])
        return {**inputs, **{name: inputs[name][first] for name in ("x", "grad") if name in inputs}}, first


def case(name: str, batch: tuple[int, ...], shape: tuple[int, ...], **parameters: Any) -> ScatteringCase:
    """Take a transform, its moments, or a gradient of one of them, of a batch of noise; a gradient of noise.

    Terms are those of complex transforms at full resolution for each of the first scales, and three times as many for
    gradients.
    """
    gradient = name.endswith("vjp")

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        x = normal(rng, (*batch, *shape), dtype)
        if not gradient:
            return {"x": x}
        if name.startswith("HarmonicScattering3D"):
            # Of densities: averages of noise pass through 0, where the slope of a root has no bound.
            x = np.abs(x)
        forward = getattr(formulas, name.removesuffix("_vjp"))
        result = forward(np.zeros((1, *shape)), **parameters)
        if isinstance(result, tuple):
            result = np.concatenate(result, -1)
        return {"x": x, "grad": normal(rng, (*batch, *result.shape[1:]), dtype)}

    size: dict[str, int | str] = {"batch": "x".join(map(str, batch)), "shape": "x".join(map(str, shape)), **parameters}
    terms = float(math.prod(batch)) * math.prod(shape) * (300 if gradient else 100)
    return ScatteringCase(name, size, arrays, parameters, terms=terms)


# ---- the fast wavelet transform ----
@dataclass(frozen=True)
class CascadeCase(ScatteringCase):
    """A fast wavelet transform, or its inverse, whose details are arguments of their own."""

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        from fastdl import scattering

        wavelet = inputs["wavelet"]
        if self.name == "inverse_wavelet_transform2d":
            approximation = inputs["approximation"]
            details = [value for name, value in inputs.items() if name.startswith("detail")]
            return lambda: scattering.inverse_wavelet_transform2d(approximation, details, wavelet)
        x, J = inputs["x"], inputs["J"]

        def transform() -> tuple:
            approximation, details = scattering.wavelet_transform2d(x, J, wavelet)
            return approximation, *details

        return transform

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take all: the formula costs little."""
        return inputs, ...


def cascade(name: str, batch: int, shape: tuple[int, int], J: int, wavelet: str) -> CascadeCase:
    """Transform noise, there or back."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        if name == "wavelet_transform2d":
            return {"x": normal(rng, (batch, *shape), dtype)}
        height, width = shape
        details = {f"detail{j}": normal(rng, (batch, 3, height >> j, width >> j), dtype) for j in range(1, J + 1)}
        return {"approximation": normal(rng, (batch, height >> J, width >> J), dtype), **details}

    size: dict[str, int | str] = {"batch": batch, "shape": "x".join(map(str, shape)), "J": J, "wavelet": wavelet}
    parameters = {"J": J, "wavelet": wavelet} if name == "wavelet_transform2d" else {"wavelet": wavelet}
    # Of the taps of each scale along both axes.
    taps = 2 if wavelet == "haar" else 2 * int(wavelet[2:])
    terms = sum(3.0 * batch * math.prod(shape) * taps / 4**j for j in range(J))
    return CascadeCase(name, size, arrays, parameters, terms=terms)


# ---- what is run ----
SIGNAL = {"J": 6, "Q": 8, "normalization": "mean"}
UNAVERAGED = {"T": 0, "out_type": "list", "normalization": "mean"}
VOLUME = {"J": 2, "L": 2}

# The rows the project's goals are stated for.
GOALS = (
    case("Scattering2D", (128, 3), (32, 32), J=2),
    case("Scattering2D", (128, 3), (32, 32), J=3),
    case("Scattering2D", (8, 1), (256, 256), J=4),
    case("Scattering2D", (1, 1), (512, 512), J=5),
    case("Scattering1D", (16,), (8192,), **SIGNAL),
    case("Scattering1D", (4,), (65536,), J=8, Q=12, normalization="mean"),
    case("HarmonicScattering3D", (8,), (64, 64, 64), **VOLUME),
    case("Scattering2D_vjp", (128, 3), (32, 32), J=2),
    case("RotoTranslationScattering2D", (8,), (64, 64), J=3),
    cascade("wavelet_transform2d", 32, (256, 256), J=4, wavelet="db4"),
    cascade("inverse_wavelet_transform2d", 32, (256, 256), J=4, wavelet="db4"),
)

METHODS = ("", "_vjp", "_moments", "_moments_vjp")

# Of every function: what a loop in Python can keep up with.
SMALL = (
    *(case(f"Scattering1D{method}", (2,), (16,), J=2, Q=1, normalization="mean") for method in METHODS),
    *(case(f"Scattering1D{method}", (2,), (16,), J=2, Q=1, **UNAVERAGED) for method in ("", "_vjp")),
    *(case(f"Scattering2D{method}", (2,), (8, 9), J=2, L=2) for method in METHODS),
    *(case(f"HarmonicScattering3D{method}", (2,), (4, 5, 4), J=1, L=1) for method in METHODS),
    *(case(f"RotoTranslationScattering2D{method}", (2,), (8, 9), J=2, L=2, K=2) for method in METHODS),
    *(cascade(name, 2, (16, 8), J=2, wavelet="db2") for name in ("wavelet_transform2d", "inverse_wavelet_transform2d")),
)

OTHERS = (
    case("Scattering2D", (31,), (65, 47), J=3),
    case("Scattering1D", (7,), (5003,), J=5, Q=4, normalization="mean"),
    case("HarmonicScattering3D", (3,), (31, 32, 33), **VOLUME),
    case("RotoTranslationScattering2D", (31,), (33, 47), J=2),
    *(case(f"Scattering1D{method}", (16,), (8192,), **SIGNAL) for method in METHODS[1:]),
    *(case(f"Scattering1D{method}", (7,), (5003,), J=5, Q=4, normalization="mean") for method in METHODS[1:]),
    *(case(f"Scattering1D{method}", (4,), (8192,), J=6, Q=8, **UNAVERAGED) for method in ("", "_vjp")),
    *(case(f"Scattering1D{method}", (7,), (1001,), J=4, Q=2, **UNAVERAGED) for method in ("", "_vjp")),
    *(case(f"Scattering2D{method}", (128, 3), (32, 32), J=2) for method in METHODS[2:]),
    *(case(f"Scattering2D{method}", (31,), (65, 47), J=3) for method in METHODS[1:]),
    *(case(f"HarmonicScattering3D{method}", (4,), (32, 32, 32), **VOLUME) for method in METHODS[1:]),
    *(case(f"HarmonicScattering3D{method}", (2,), (17, 16, 15), **VOLUME) for method in METHODS[1:]),
    *(case(f"RotoTranslationScattering2D{method}", (8,), (64, 64), J=3) for method in METHODS[1:]),
    *(case(f"RotoTranslationScattering2D{method}", (31,), (33, 47), J=2) for method in METHODS[1:]),
    *(
        cascade(name, *size)
        for name in ("wavelet_transform2d", "inverse_wavelet_transform2d")
        for size in ((7, (24, 1000), 3, "db2"), (1, (2048, 2048), 6, "haar"), (101, (34, 66), 1, "db10"))
    ),
)


def along(axis: str, value: int, made: ScatteringCase) -> ScatteringCase:
    """Give the case with what is varied as a number of its size, which the plots are drawn against."""
    return replace(made, size={**made.size, axis: value})


# Time against size: name of the axis, how to make a case, points, and all points.
SIDES = (16, 24, 28, 31, 32, 33, 48, 64, 96, 128)
LENGTHS = (256, 500, 1000, 1024, 2047, 4096, 8192, 10_000, 16_384, 32_768)
BATCHES = (1, 2, 4, 8, 16, 31, 32, 33, 64, 128)
VOLUMES = (8, 15, 16, 24, 31, 32, 48)
SERIES = (
    ("side", lambda n: along("side", n, case("Scattering2D", (32,), (n, n), J=2)), (32, 64), SIDES),
    ("batch", lambda n: along("batch", n, case("Scattering2D", (n,), (32, 32), J=2)), (), BATCHES),
    ("length", lambda n: along("length", n, case("Scattering1D", (8,), (n,), **SIGNAL)), (), LENGTHS),
    ("batch", lambda n: along("batch", n, case("Scattering1D", (n,), (2048,), **SIGNAL)), (), BATCHES[:-1]),
    (
        "side",
        lambda n: along("side", n, case("HarmonicScattering3D", (1,), (n,) * 3, **VOLUME)),
        (),
        (8, 15, 16, 24, 31, 32, 48),
    ),
    ("side", lambda n: along("side", n, case("RotoTranslationScattering2D", (8,), (n, n), J=2)), (), SIDES[:8]),
    ("side", lambda n: along("side", n, case("Scattering2D_vjp", (32,), (n, n), J=2)), (), SIDES[:8]),
    (
        "side",
        lambda n: along("side", n, cascade("wavelet_transform2d", 8, (n, n), J=3, wavelet="db4")),
        (),
        (16, 32, 64, 120, 128, 256, 360, 512, 1024),
    ),
)
