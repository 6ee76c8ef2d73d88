"""Groups made of the cases in tests/cases: who takes part in them, and what all must agree on."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import fastdl
import foreign
import machine
import rivals
import rivals_cuda
from cases import wide
from cases.bench_case import BenchCase
from measure import FEWEST_ROUNDS, OURS, PYTHON, REFERENCE, Disagreement, Group, Prepared, as_numpy

SEED = 20240607

# Above this a loop in Python takes longer than all the others together.
LARGEST_LOOP = 1e5

# The reference is written for reading: beyond so many terms it takes most of the time of a run, or more memory than
# there is. Where all is a matrix product it goes further.
LARGEST_REFERENCE = 1e7
LARGEST_PRODUCT = 3e8
PRODUCTS = ("gram.linear", "gram.empirical_ntk", "gram.feature_gram")

# How many terms an independent computation in a wider type may have: about half a second.
CHECK_BUDGET = 3e7


def _floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


def check_against(case: BenchCase, inputs: dict[str, Any]):
    """Make the check of a case: no element may be off by more than its bound, given before anything is run.

    A part of the result, as large as there is time for, is checked against an independent computation in a wider type:
    float64 for float32, extended precision for float64. All the rest is checked against the first contender: both are
    within the bound of the truth, so within twice the bound of each other.
    """
    dtype = next(value.dtype for value in inputs.values() if _floating(value))
    subset, where = case.part(inputs, CHECK_BUDGET)
    widened = {name: wide(value) if _floating(value) else value for name, value in subset.items()}
    expected = as_numpy(case.formula(**widened))
    bound = as_numpy(case.bound(float(np.finfo(dtype).eps), **inputs))
    # Beside the bound stands the smallest number there is: below it nothing is accurate.
    bound = bound + max(np.finfo(kind).tiny for kind in (dtype, bound.dtype)).astype(bound.dtype)
    kept: dict[str, np.ndarray] = {}

    def within(name: str, error: np.ndarray, allowed: np.ndarray) -> None:
        # Written so that NaN fails.
        if not np.all(error <= allowed):
            worst = np.max(error / allowed)
            raise Disagreement(
                f"{name} is off by {worst:.3g} times the error bound in {case.name} {case.size}, {dtype}"
            )

    def check(name: str, result: np.ndarray) -> None:
        if result.shape != bound.shape:
            raise Disagreement(f"{name} gave {result.shape} for {bound.shape} in {case.name} {case.size}, {dtype}")
        within(name, np.abs(result[where] - expected), bound[where])
        if where is not ...:
            within(name, np.abs(result - kept.setdefault("result", result)), 2 * bound)

    return check


def _inputs(case: BenchCase, dtype: str) -> dict[str, Any]:
    return case.make(np.random.default_rng(SEED), np.dtype(dtype))


def _alone(case: BenchCase, dtype: str, maker: rivals.Maker) -> rivals.Call:
    return maker(**_inputs(case, dtype))


def ours(case: BenchCase, inputs: dict[str, Any]):
    return case.caller(inputs)


def _reference(case: BenchCase, inputs: dict[str, Any]):
    call = ours(case, inputs)

    def reference():
        with fastdl.backend("reference"):
            return call()

    return reference


def group_of(case: BenchCase, dtype: str, isa: str, series: str = "", threads: int = 0) -> Group:
    """All contenders of a case: ourselves, the reference and a loop where they can keep up, and the rivals.

    They have all processors unless a number of `threads` is named.
    """
    theirs = rivals.installed(case.function)
    if case.rivals:
        theirs = {name: maker for name, maker in theirs.items() if name in case.rivals}
    makers: dict[str, rivals.Maker] = {OURS: lambda **inputs: ours(case, inputs)}
    if case.reference and case.terms <= (LARGEST_PRODUCT if case.function in PRODUCTS else LARGEST_REFERENCE):
        makers[REFERENCE] = lambda **inputs: _reference(case, inputs)
    if case.terms <= LARGEST_LOOP and case.function in rivals.PYTHON_LOOPS:
        makers[PYTHON] = rivals.PYTHON_LOOPS[case.function]
    makers.update(theirs)
    # The memory of this process says nothing of another interpreter's, nor of a device's.
    alone = {
        name: partial(_alone, case, dtype, maker) for name, maker in makers.items() if name not in foreign.INTERPRETERS
    }
    makers.update(rivals_cuda.installed(case, theirs.get("torch")))

    def prepare() -> Prepared:
        inputs = _inputs(case, dtype)
        calls = {name: maker(**inputs) for name, maker in makers.items()}
        return Prepared(calls, check_against(case, inputs), inputs)

    return Group(
        family=case.family,
        function=case.function,
        size=case.size,
        dtype=dtype,
        threads=threads or machine.available_cores(),
        flops=case.flops,
        contenders=tuple(makers),
        prepare=prepare,
        series=series,
        symmetric=case.symmetric,
        isa=isa,
        entries=case.entries,
        terms=case.terms,
        rounds=case.rounds or FEWEST_ROUNDS,
        alone=alone,
    )


def over_threads(case: BenchCase, isa: str) -> list[Group]:
    """One case in float32 with one thread and more, up to all processors there are: a series by itself."""
    cores = machine.available_cores()
    # Of many processors not every number.
    counts = [n for n in range(1, cores + 1) if n <= 8 or n == cores or n.bit_count() == 1]
    return [group_of(case, "float32", isa, "threads", threads=n) for n in counts]
