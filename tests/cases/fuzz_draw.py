"""What random calls are made of: arrays of any shape, dtype, layout and size of numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fastdl import _dispatch

core = _dispatch.core
NATIVE = core is not None and os.environ.get("FASTDL_BACKEND") != "reference"
ISAS = tuple(core.isas()) if NATIVE else ("reference",)

LARGEST = 70  # of an extent: beyond the widths of vectors, tiles and blocks
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
FINITE_KINDS = ("normal", "normal", "integers", "scaled", "sparse", "constant")
KINDS = (*FINITE_KINDS, "special", "extreme")
UNEVEN = ("sparse", "special", "extreme")
LAYOUTS = (
    "contiguous",
    "contiguous",
    "fortran",
    "permuted",
    "stepped",
    "stepped",
    "repeated",
    "overlapping",
    "read-only",
    "other byte order",
    "misaligned",
)
KEEPING = tuple(layout for layout in LAYOUTS if layout not in ("repeated", "overlapping"))


class Draw:
    """What a case is made of. Structure is drawn by hypothesis, which can shrink it; numbers come from a seed."""

    def __init__(self, data: Any, kinds: tuple[str, ...] = KINDS) -> None:
        self.data = data
        self.isa = ISAS[self.integer(0, 59) % len(ISAS)]  # the same draws on every machine
        self.seed = self.integer(0, 2**32 - 1)
        self.rng = np.random.default_rng(self.seed)
        self.kind = self.one_of(kinds)
        self.dtypes = self.one_of(("float32", "float32", "float64", "mixed"))

    # ---- choices ----
    def integer(self, least: int, most: int) -> int:
        return self.data.draw(st.integers(least, most))

    def one_of(self, options: Any) -> Any:
        return self.data.draw(st.sampled_from(tuple(options)))

    def chance(self, percent: int) -> bool:
        return self.data.draw(st.integers(0, 99)) >= 100 - percent

    def number(self, least: float, most: float) -> float:
        """Give a number that is the same in float32."""
        return float(np.float32(least + (most - least) * self.integer(0, 1024) / 1024))

    def extents(self, count: int, budget: int, least: int = 0, most: int = LARGEST) -> tuple[int, ...]:
        """Give sizes of which one or two are large, with a product of at most `budget`; sometimes one is 0."""
        large = {self.integer(0, count - 1), self.integer(0, count - 1)} if count else set()
        first = max(least, 1)
        sizes = [self.integer(first, most if axis in large else min(most, first + 4)) for axis in range(count)]
        if count and least == 0 and self.chance(7):
            sizes[self.integer(0, count - 1)] = 0
        while np.prod(sizes, dtype=float) > budget:
            at = int(np.argmax(sizes))
            if sizes[at] <= first:
                break
            sizes[at] = max(first, sizes[at] // 2)
        return tuple(sizes)

    def dtype(self) -> np.dtype:
        if self.dtypes != "mixed":
            return np.dtype(self.dtypes)
        return np.dtype(self.one_of(("float32", "float64", self.one_of(INTEGERS))))

    # ---- numbers ----
    def values(self, shape: tuple[int, ...], kind: str = "") -> np.ndarray:
        """Give float64 numbers of the kind of this case."""
        rng, kind = self.rng, kind or self.kind
        values = rng.standard_normal(shape)
        if kind == "integers":
            values = rng.integers(-4, 4, shape, endpoint=True).astype(float)
        elif kind == "scaled":
            values *= 10.0 ** rng.uniform(-3, 3)
        elif kind == "sparse":
            values = np.where(rng.random(shape) < 0.7, 0, values)
        elif kind == "constant":
            values = np.full(shape, float(rng.integers(-3, 3, endpoint=True)))
        elif kind == "special" and values.size:
            found = rng.choice([np.nan, np.inf, -np.inf], rng.integers(1, 3))
            values.flat[rng.integers(0, values.size, found.size)] = found
        elif kind == "extreme" and values.size:
            single = self.dtypes == "float32"
            edges = [1e-45, -1e-42, 1e-38, 1e12, 1e19, -1e30] if single else [5e-324, -1e-310, 1e90, 1e150, -1e250]
            found = rng.choice(edges, rng.integers(1, 4))
            values.flat[rng.integers(0, values.size, found.size)] = found
        return values

    def array(self, shape: tuple[int, ...], kind: str = "", values: Any = None, dtype: Any = None) -> np.ndarray:
        """Give an array of numbers, of any dtype and layout that this case has."""
        values = self.values(shape, kind) if values is None else values
        dtype = self.dtype() if dtype is None else np.dtype(dtype)
        if dtype.kind in "iub":
            values = np.rint(np.nan_to_num(np.clip(values, -100, 100)))
            values = np.abs(values) if dtype.kind == "u" else values
        with np.errstate(over="ignore"):
            return self.lay(values.astype(dtype))

    # ---- layouts ----
    def lay(self, array: np.ndarray, layouts: tuple[str, ...] = LAYOUTS) -> np.ndarray:
        """Put an array into memory in some way. Where elements share memory, they become equal."""
        layout = self.one_of(layouts)
        axes = array.ndim
        if layout == "fortran":
            return np.asfortranarray(array)
        if layout == "permuted" and axes:
            order = self.rng.permutation(axes)
            return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
        if layout == "stepped" and axes:
            return stepped(array, self.rng)
        if layout == "repeated" and array.size:
            axis = int(self.rng.integers(axes)) if axes else 0
            return np.broadcast_to(array.take([0], axis), array.shape) if axes else array
        if layout == "overlapping" and axes >= 2 and array.size:
            # Every row begins an element after the one before.
            memory = np.concatenate([array[..., 0, :], array[..., 1:, -1]], axis=-1)
            step = memory.strides[-1]
            return np.lib.stride_tricks.as_strided(memory, array.shape, (*memory.strides, step))
        if layout == "read-only":
            array = array.copy()
            array.flags.writeable = False
            return array
        if layout == "other byte order":
            return array.astype(array.dtype.newbyteorder())
        if layout == "misaligned":
            return misaligned(array)
        return np.ascontiguousarray(array) if axes else array


def stepped(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Give every second or third element of a larger array, forwards or backwards."""
    steps = rng.integers(1, 3, array.ndim, endpoint=True)
    first = rng.integers(0, 2, array.ndim, endpoint=True)
    memory = np.full([n * s + f + 1 for n, s, f in zip(array.shape, steps, first, strict=True)], 99, array.dtype)
    part = memory[tuple(slice(f, f + n * s, s) for n, s, f in zip(array.shape, steps, first, strict=True))]
    turned = tuple(slice(None, None, int(way)) for way in rng.choice([-1, 1], array.ndim))
    part = part[turned]
    part[...] = array
    return part


def misaligned(array: np.ndarray) -> np.ndarray:
    """Give the same array a byte beside where it should lie."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    found = memory[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found
