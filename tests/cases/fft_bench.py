"""What of the FFT engine is benchmarked: a line a case. It is called as the private `_core.fft`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import fft_bench_formulas as formulas
from cases.bench_case import BenchCase

SIZES = (6, 8, 12, 16, 20, 24, 32, 36, 40, 48, 60, 64, 72, 80, 96, 97, 100, 120, 128, 144, 192, 240, 251, 256, 288)
SIZES += (384, 480, 512, 576, 720, 768, 1000, 1021, 1024, 1536, 2048, 3072, 4096)
FEW_SIZES = (16, 64, 97, 256, 1024, 4096)

# Of a batch, rounded down to whole transforms.
NUMBERS = 1 << 20

LINE = 64


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory that begins with a cache line, for all contenders alike: torch's own does."""
    size = math.prod(shape) * dtype.itemsize
    room = np.zeros(size + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + size].view(dtype).reshape(shape)


@dataclass(frozen=True)
class FftCase(BenchCase):
    """Transforms of a batch over its last axes, into an array made beforehand."""

    family = "fft"
    formulas = formulas
    reference = False  # there is none: NumPy itself has the transforms

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Give the call of the extension."""
        from fastdl import _dispatch

        x, rank = inputs["x"], inputs["rank"]
        if self.name == "real":
            out = aligned((*x.shape[:-1], x.shape[-1] // 2 + 1), np.result_type(x.dtype, np.complex64))
            call = _dispatch.core.fft.real

            def real() -> np.ndarray:
                call(x, rank, out)
                return out

            return real
        out = aligned(x.shape, x.dtype)
        call = _dispatch.core.fft.complex

        def transform() -> np.ndarray:
            call(x, rank, False, out)
            return out

        return transform

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the first transforms."""
        first = slice(0, max(1, int(budget / 100) // math.prod(inputs["x"].shape[1:])))
        return {**inputs, "x": inputs["x"][first]}, first


def case(name: str, size: dict[str, Any], batch: int, shape: tuple[int, ...]) -> FftCase:
    """Transform noise. Flops are counted as 5 n log2 n of a complex transform and half of that of a real one."""

    def arrays(rng: np.random.Generator, dtype: np.dtype) -> dict[str, np.ndarray]:
        x = aligned((batch, *shape), dtype)
        x.real = rng.standard_normal(x.shape)
        if dtype.kind == "c":
            x.imag = rng.standard_normal(x.shape)
        return {"x": x}

    n = math.prod(shape)
    flops = (2.5 if name == "real" else 5.0) * batch * n * math.log2(n)
    return FftCase(name, size, arrays, {"rank": len(shape)}, flops=flops, terms=float(batch * n))


def batched(n: int) -> FftCase:
    return case("batched", {"n": n, "numbers": NUMBERS}, NUMBERS // n, (n,))


def single(n: int) -> FftCase:
    return case("single", {"n": n, "batch": 1}, 1, (n,))


def real(n: int) -> FftCase:
    return case("real", {"n": n, "numbers": NUMBERS}, NUMBERS // n, (n,))


def several(name: str, batch: int, *shape: int) -> FftCase:
    return case(name, {"batch": batch, "shape": "x".join(map(str, shape))}, batch, shape)


SEVERAL = (
    several("images", 64, 48, 48),
    several("images", 64, 72, 72),
    several("images", 8, 288, 288),
    several("volumes", 1, 64, 64, 64),
)

# Time against size: name of the axis, type, how to make a case, points, and all points.
SERIES = (
    ("n", "complex64", batched, FEW_SIZES, SIZES),
    ("n", "complex64", single, (64, 1024), SIZES),
    ("n", "float32", real, (64,), (16, 32, 48, 64, 97, 100, 128, 240, 256, 512, 1000, 1024, 2048, 4096)),
)
