"""Gram matrices, and what is made of them, against their reference, a loop in Python, and the rivals there are."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import fastdl
import machine
import rivals
from cases import gram_bench, wide
from cases.gram_bench import BenchCase
from measure import FEWEST_ROUNDS, OURS, PYTHON, REFERENCE, Disagreement, Group, Prepared, as_numpy

SEED = 20240607

# Above this a loop in Python takes longer than all the others together.
LARGEST_LOOP = 1e5

# The reference is written for reading: beyond so many terms it takes seconds, or more memory than there is. Where all
# is a matrix product it goes further.
LARGEST_REFERENCE = 5e7
PRODUCTS = ("linear", "empirical_ntk", "feature_gram")

# How many terms an independent computation in a wider type may have: about half a second.
CHECK_BUDGET = 3e7


def _floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def check_against(case: BenchCase, inputs: dict[str, Any]):
    """Make the check of a case: no element may be off by more than its bound, given before anything is run.

    Some rows, as many as there is time for, are checked against an independent computation in a wider type: float64
    for float32, extended precision for float64. All others are checked against the first contender: both are within the
    bound of the truth, so within twice the bound of each other.
    """
    dtype = next(value.dtype for value in inputs.values() if _floating(value))
    eps = float(np.finfo(dtype).eps)
    rows: Any = ...
    subset = inputs
    if case.rows_of and case.terms > CHECK_BUDGET:
        first = inputs[case.rows_of]
        each = case.terms / len(first) * (2 if case.symmetric else 1)
        rows = np.unique(np.linspace(0, len(first) - 1, max(2, int(CHECK_BUDGET / each))).astype(int))
        # A subset of the rows of X is a call of its own, with X itself as its Y.
        others = {"X": "Y", "J1": "J2"}
        subset = {**inputs, case.rows_of: first[rows]}
        other = others.get(case.rows_of) if case.name != "diag" else None
        if other is not None and other not in inputs:
            subset[other] = first
    widened = {name: wide(value) if _floating(value) else value for name, value in subset.items()}
    expected = as_numpy(case.formula(**widened))
    # Beside the bound stands the smallest number there is: below it nothing is accurate.
    tolerance = as_numpy(case.bound(eps, **subset)) + np.finfo(dtype).tiny
    everywhere = None if rows is ... else 2 * (as_numpy(case.bound(eps, **inputs)) + np.finfo(dtype).tiny)
    kept: dict[str, np.ndarray] = {}

    def within(name: str, error: np.ndarray, bound: np.ndarray) -> None:
        # Written so that NaN fails.
        if not np.all(error <= bound):
            worst = np.max(error / bound)
            raise Disagreement(
                f"{name} is off by {worst:.3g} times the error bound in {case.name} {case.size}, {dtype}"
            )

    def check(name: str, result: np.ndarray) -> None:
        shape = expected.shape if everywhere is None else everywhere.shape
        if result.shape != shape:
            raise Disagreement(f"{name} gave shape {result.shape} for {shape} in {case.name} {case.size}, {dtype}")
        within(name, np.abs(result[rows] - expected), tolerance)
        if everywhere is not None:
            within(name, np.abs(result - kept.setdefault("result", result)), everywhere)

    return check


def _ours(case: BenchCase, inputs: dict[str, Any]):
    call = getattr(fastdl.gram, case.name)
    return lambda: call(**inputs)


def _reference(case: BenchCase, inputs: dict[str, Any]):
    call = _ours(case, inputs)

    def reference():
        with fastdl.backend("reference"):
            return call()

    return reference


def _group(case: BenchCase, dtype: str, isa: str, series: str = "") -> Group:
    makers = rivals.installed(case.function)
    if case.rivals:
        makers = {name: maker for name, maker in makers.items() if name in case.rivals}
    if case.terms <= LARGEST_LOOP and case.function in rivals.PYTHON_LOOPS:
        makers = {PYTHON: rivals.PYTHON_LOOPS[case.function], **makers}
    with_reference = case.name in PRODUCTS or case.terms <= LARGEST_REFERENCE

    def prepare() -> Prepared:
        inputs = case.make(np.random.default_rng(SEED), np.dtype(dtype))
        calls = {OURS: _ours(case, inputs)}
        if with_reference:
            calls[REFERENCE] = _reference(case, inputs)
        calls.update({name: maker(**inputs) for name, maker in makers.items()})
        return Prepared(calls, check_against(case, inputs))

    return Group(
        family="gram",
        function=case.function,
        size=case.size,
        dtype=dtype,
        threads=machine.available_cores(),
        flops=case.flops,
        contenders=(OURS, *((REFERENCE,) if with_reference else ()), *makers),
        prepare=prepare,
        series=series,
        symmetric=case.symmetric,
        isa=isa,
        entries=case.entries,
        terms=case.terms,
        rounds=case.rounds or FEWEST_ROUNDS,
    )


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    # What KeOps compiles with other flags lies elsewhere.
    folder = machine.HERE.parent / "build" / "keops"
    return [(machine.active_level(), {"CXXFLAGS": rivals.KEOPS_FLAGS, "KEOPS_CACHE_FOLDER": os.fspath(folder)})]


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family, those most asked for first."""
    # A release need not have every function.
    there = {name for name in dir(fastdl.gram) if not name.startswith("_")}
    dtypes = ("float32", "float64") if full else ("float32",)
    further = [
        *gram_bench.LINEAR,
        *(gram_bench.kernel(name, *shape) for name in gram_bench.PAIRWISE for shape in gram_bench.SHAPES),
        *gram_bench.OTHERS,
    ]
    # The longest last: it is what a busy machine loses of a quick run, and not the plots.
    *goals, longest = gram_bench.GOALS
    wanted = [(case, dtype, "") for dtype in dtypes for case in (*goals, gram_bench.SMALLEST)]
    wanted += [
        (make(point), dtype, axis)
        for dtype in dtypes
        for axis, make, points, all_points in gram_bench.SERIES
        for point in (all_points if full else points)
    ]
    wanted += [(case, dtype, "") for dtype in dtypes for case in (longest, *(further if full else ()))]
    if full:
        wanted.append((gram_bench.LARGEST, dtypes[0], ""))
    return [_group(case, dtype, isa, axis) for case, dtype, axis in wanted if case.name in there]


def test_gram(group, contender, replay):
    replay(group, contender)
