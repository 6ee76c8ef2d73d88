"""Gram matrices against their reference, a loop in Python, and the rivals that are installed."""

from __future__ import annotations

import numpy as np

import fastdl
import machine
import rivals
from cases import Case
from cases.gram import BENCH, linear_case
from measure import OURS, PYTHON, REFERENCE, Disagreement, Group, Prepared

SEED = 20240607

# Time against n and against d; symmetric, the everyday call. Powers of two and their odd neighbours.
LENGTHS = (16, 64, 256, 1024, 4096)
LENGTHS_FULL = (16, 31, 64, 127, 256, 511, 1024, 2047, 4096, 8191)
FEATURES = (4, 16, 64, 256, 1024)
FEATURES_FULL = (4, 8, 15, 16, 33, 64, 127, 256, 513, 1024, 2048)

# Above this a loop in Python takes longer than all the others together.
LARGEST_LOOP = 1e5

# In float64 larger cases are for --full.
LARGEST_QUICK = 1e10

# How many products an independent computation in extended precision may take: about half a second.
EXTENDED_BUDGET = 5e7


def check_against(case: Case, inputs: dict[str, np.ndarray]):
    """Make the check of a case: no element may be off by more than its bound, given before anything is run.

    float32 results are checked whole, against float64. Extended precision is too slow for that at large sizes, so of
    float64 results some rows are checked so, and all else against the first contender: both are within the bound of
    the truth, so within twice the bound of each other.
    """
    X, Y = inputs["X"], inputs.get("Y")
    n, d = X.shape
    m = n if Y is None else Y.shape[0]
    whole = X.dtype == np.float32 or n * m * d <= EXTENDED_BUDGET
    count = n if whole else max(2, int(EXTENDED_BUDGET / (m * d)))
    rows = np.unique(np.linspace(0, n - 1, count).astype(int))
    # A subset of the rows of X is a case of its own, with X itself as its Y.
    subset = {**inputs, "X": X[rows], "Y": X if Y is None else Y}
    expected, tolerance = case.expected(**subset), case.tolerance(**subset)
    if not whole:
        # The same bound by way of float32 inputs, which the cases compute fast; the few bits lost are given back.
        ratio = 1.001 * np.finfo(np.float64).eps / np.finfo(np.float32).eps
        narrow = {name: array.astype(np.float32) for name, array in inputs.items()}
        everywhere = 2 * ratio * case.tolerance(**narrow)
    first: dict[str, np.ndarray] = {}

    def within(name: str, error: np.ndarray, bound: np.ndarray) -> None:
        # Written so that NaN fails.
        if not np.all(error <= bound):
            worst = np.max(error / np.maximum(bound, np.finfo(np.float64).tiny))
            raise Disagreement(f"{name} is off by {worst:.3g} times the error bound in {case.name}, {X.dtype}")

    def check(name: str, result: np.ndarray) -> None:
        if result.shape != (n, m):
            raise Disagreement(f"{name} gave shape {result.shape} for {(n, m)} in {case.name}, {X.dtype}")
        within(name, np.abs(result[rows] - expected), tolerance)
        if not whole:
            kept = first.setdefault("result", result)
            within(name, np.abs(result - kept), everywhere)

    return check


def _ours(function: str, inputs: dict[str, np.ndarray]):
    family, _, name = function.partition(".")
    call = getattr(getattr(fastdl, family), name)
    return lambda: call(**inputs)


def _reference(function: str, inputs: dict[str, np.ndarray]):
    call = _ours(function, inputs)

    def reference():
        with fastdl.backend("reference"):
            return call()

    return reference


def _group(case: Case, dtype: str, isa: str, series: str = "") -> Group:
    shapes = {name: array.shape for name, array in case.make(np.random.default_rng(SEED), np.dtype(dtype)).items()}
    n, d = shapes["X"]
    size = {"n": n, "m": shapes.get("Y", shapes["X"])[0], "d": d}
    makers = rivals.installed(case.function)
    loop = case.flops <= LARGEST_LOOP and case.function in rivals.PYTHON_LOOPS
    if loop:
        makers = {PYTHON: rivals.PYTHON_LOOPS[case.function], **makers}

    def prepare() -> Prepared:
        inputs = case.make(np.random.default_rng(SEED), np.dtype(dtype))
        calls = {OURS: _ours(case.function, inputs), REFERENCE: _reference(case.function, inputs)}
        calls.update({name: maker(**inputs) for name, maker in makers.items()})
        return Prepared(calls, check_against(case, inputs))

    return Group(
        family="gram",
        function=case.function,
        size=size,
        dtype=dtype,
        threads=machine.available_cores(),
        flops=case.flops,
        contenders=(OURS, REFERENCE, *makers),
        prepare=prepare,
        series=series,
        symmetric="Y" not in shapes,
        isa=isa,
    )


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    return [(machine.active_level(), {})]


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family, those most asked for first."""
    lengths, features = (LENGTHS_FULL, FEATURES_FULL) if full else (LENGTHS, FEATURES)
    dtypes = ("float32", "float64")
    return [
        *(
            _group(case, dtype, isa)
            for dtype in dtypes
            for case in BENCH
            if full or dtype == "float32" or case.flops <= LARGEST_QUICK
        ),
        *(_group(linear_case(n, None, 128), dtype, isa, "n") for dtype in dtypes for n in lengths),
        *(_group(linear_case(1024, None, d), dtype, isa, "d") for dtype in dtypes for d in features),
    ]


def test_gram(group, contender, replay):
    replay(group, contender)
