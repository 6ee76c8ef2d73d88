"""What all parts of docs/accuracy.md share: instruction sets, errors in units of eps, and tables of the worst of them.

A family is a module with a TITLE, a text HOW, and `cases(dtype)`, which gives the calls to be measured.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import fastdl
import machine
import report
from cases import wide
from fastdl import _dispatch

SEED = 20240607
DTYPES = ("float32", "float64")
KEPT = " (kept)"
MISSING = "-"


@dataclass(frozen=True)
class Case:
    """One call of a function.

    `label` begins with the name of the function. `truth` has what it should give, with more digits: an array, or a
    tuple of them; `size` what the error of each is relative to. Cases of the same label share a row, which has the
    worst of them.
    """

    label: str
    call: Callable[[], Any]
    truth: Any
    size: Any


def largest(truth: Any) -> Any:
    """The largest element of a result, or of each part of it: where errors of all its elements are of one size."""
    if isinstance(truth, tuple):
        return tuple(largest(part) for part in truth)
    return np.abs(truth).max()


def normal(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Independent standard normal numbers."""
    return rng.standard_normal(shape).astype(dtype)


def summed(label: str, function: Callable, formula: Callable, *arrays: Any, spread: bool = False) -> Case:
    """A sum of products of its arguments: relative to the sum of the sizes of its terms.

    Of those of an element, or with `spread` of the element that has most: algorithms that transform let elements share
    their errors.
    """
    broad = [wide(array) for array in arrays]
    size = formula(*(np.abs(array) for array in broad))
    return Case(label, lambda: function(*arrays), formula(*broad), largest(size) if spread else size)


def exact(label: str, function: Callable, formula: Callable, *arrays: Any) -> Case:
    """A function that moves or chooses numbers: relative to their values."""
    truth = formula(*(wide(array) for array in arrays))
    return Case(label, lambda: function(*arrays), truth, np.abs(truth))


# ---- measuring ----
def levels() -> tuple[str, ...]:
    """What is measured: every instruction set of this machine, and the reference."""
    return (*machine.levels(), "reference")


@contextmanager
def at(level: str) -> Iterator[None]:
    """Compute on an instruction set, or by the reference."""
    if level == "reference":
        with fastdl.backend("reference"):
            yield
        return
    before = _dispatch.core.isa()
    _dispatch.core.set_isa(level)
    try:
        with fastdl.backend("native"):
            yield
    finally:
        _dispatch.core.set_isa(before)


def worst_error(got: Any, truth: Any, size: Any, dtype: str) -> float:
    """The largest error in units of eps; NaN counts as infinitely wrong."""
    if isinstance(truth, tuple):
        parts = zip(got, truth, size, strict=True)
        return max((worst_error(*part, dtype) for part in parts), default=0.0)
    if np.shape(got) != np.shape(truth):
        raise ValueError(f"expected a result of shape {np.shape(truth)}, got {np.shape(got)}")
    limits = np.finfo(dtype)
    # What underflows is not accurate, whoever computes it.
    error = np.abs(got - truth) / (limits.eps * np.maximum(size, float(limits.tiny) / limits.eps))
    return math.inf if np.isnan(error).any() else float(np.max(error, initial=0))


def worst_errors(family: ModuleType) -> dict[tuple[str, str], dict[str, float]]:
    """Errors in units of eps by (function, dtype): {level: worst}."""
    worst: dict[tuple[str, str], dict[str, float]] = {}
    for dtype in DTYPES:
        for case in family.cases(dtype):
            print(case.label, dtype, file=sys.stderr, flush=True)
            entry = worst.setdefault((case.label, dtype), {})
            for level in levels():
                with at(level):
                    got = case.call()
                entry[level] = max(worst_error(got, case.truth, case.size, dtype), entry.get(level, 0.0))
    return worst


def function_of(label: str) -> str:
    """The name that a label begins with."""
    return label.split(",")[0].split(".")[0]


def not_measured(family: ModuleType, worst: dict, public: ModuleType) -> list[str]:
    """Public functions of a module that no row is of."""
    rows = {function_of(label) for label, _ in worst}
    return [name for name in public.__all__ if name not in rows and name not in family.ELSEWHERE]


# ---- the page ----
def units(value: float | None) -> str:
    """A number of eps, in two digits."""
    if value is None:
        return MISSING
    return f"{value:.2g}" if value < 1e4 else f"{value:.1e}"


def table(names: list[str], rows: list[tuple[list[str], dict[str, float], dict[str, str]]], others: list[str]) -> str:
    """A table with a column for every level, from the first cells of each row, its errors, and what is kept of it."""
    *here, last = levels()
    header = [*names, *here, *(level + KEPT for level in others), last]
    lines = []
    for first, entry, cells in rows:
        measured = [units(entry.get(level)) for level in here]
        earlier = [cells.get(level, MISSING) for level in others]
        lines.append([*first, *measured, *earlier, units(entry.get(last))])
    return report.in_markdown(header, lines)


def section(family: ModuleType, worst: dict, kept: dict, others: list[str]) -> str:
    """The section of a family, from what was measured and what is kept of an earlier page.

    Rows of a function come together, where the first of them was measured.
    """
    order = list(dict.fromkeys(function_of(label) for label, _ in worst))
    keys = sorted(worst, key=lambda key: (DTYPES.index(key[1]), order.index(function_of(key[0]))))
    rows = [([label, dtype], worst[label, dtype], kept.get((label, dtype, family.TITLE), {})) for label, dtype in keys]
    return f"## {family.TITLE}\n\n{family.HOW}\n\n" + table(["function", "dtype"], rows, others)


def recorded(text: str) -> dict[tuple[str, str, str], dict[str, str]]:
    """What a page has of instruction sets that this machine lacks.

    {(kernel, dtype, data): {level: cell}}, and for functions of a family {(function, dtype, title): {level: cell}}.
    """
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    for part in text.split("\n## "):
        title, _, rest = part.partition("\n")
        lines = [line.strip("| ").split(" | ") for line in rest.splitlines() if line.startswith("| ")]
        if not lines or lines[0][:2] not in (["kernel", "data"], ["function", "dtype"]):
            continue
        names = [name.removesuffix(KEPT) for name in lines[0]]
        for first, second, *cells in lines[2:]:
            key = (first, title, second) if title in DTYPES else (first, second, title)
            found[key] = {name: cell for name, cell in zip(names[2:], cells, strict=True) if name not in levels()}
    return found
