"""Inputs, expected results and tolerances, shared by the tests and the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One call of one function.

    `expected` computes the result independently, in more precision than the function has. `tolerance` bounds the
    error of each element from the inputs alone, before anything is run.
    """

    name: str
    function: str
    make: Callable[[np.random.Generator, np.dtype], dict[str, Any]]
    expected: Callable[..., np.ndarray]
    tolerance: Callable[..., np.ndarray]
    flops: float


def wide(array: np.ndarray) -> np.ndarray:
    """The same numbers with room to compute in: float64 for float32, extended precision for float64."""
    wider = {"float32": np.float64, "complex64": np.complex128, "complex128": np.clongdouble}
    return array.astype(wider.get(array.dtype.name, np.longdouble))


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype, largest: int = 8) -> np.ndarray:
    """Small whole numbers: their sums of products are exact in float32 in any order, so results must be equal."""
    return rng.integers(-largest, largest, shape, endpoint=True).astype(dtype)


def layouts(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same matrix in every way it can lie in memory."""
    rows, columns = array.shape
    yield "contiguous", array.copy()
    yield "fortran", np.asfortranarray(array)
    yield "reversed", array[::-1, ::-1].copy()[::-1, ::-1]
    yield "reversed columns of fortran", np.asfortranarray(array[:, ::-1])[:, ::-1]
    sparse = np.full((2 * rows + 1, 3 * columns + 2), np.nan, array.dtype)
    sparse[1::2, 2::3] = array
    yield "strided", sparse[1::2, 2::3]
    cube = np.full((rows, 5, columns), np.nan, array.dtype)
    cube[:, 3] = array
    yield "slice of a cube", cube[:, 3]
    readonly = array.copy()
    readonly.flags.writeable = False
    yield "read-only", readonly


def odd_layouts(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Layouts no kernel can read as they lie."""
    swapped = array.astype(array.dtype.newbyteorder())
    yield "other byte order", swapped
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    misaligned = buffer[1:].view(array.dtype).reshape(array.shape)
    misaligned[...] = array
    yield "misaligned", misaligned
    records = np.zeros(array.shape, np.dtype([("value", array.dtype), ("rest", "u1")]))
    records["value"] = array
    yield "strides of no whole element", records["value"]
