"""The comparison of both backends on random calls, which `fuzz_gram.py` and its like make and `test_fuzz.py` runs.

A `Trial` is one call with the error that is allowed to it. `check` runs a trial on the compiled backend and on the
reference: both raise the same, or both give arrays of one shape and dtype that are within the bound of the value in
float64.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import fastdl
from cases.conv_formulas import _roundings as transform_roundings
from cases.fuzz_draw import NATIVE, UNEVEN, Draw, core, misaligned, stepped
from cases.gram_formulas import growth

# Cases of a family, new ones in every run; FASTDL_FUZZ_REPEAT makes them the same. None: the tests skip.
CASES = int(os.environ.get("FASTDL_FUZZ_CASES", "0"))
REPEATED = "FASTDL_FUZZ_REPEAT" in os.environ
LEAST = 5

needs_native = pytest.mark.skipif(not NATIVE, reason="compares the compiled extension with the reference")
on_request = pytest.mark.skipif(CASES == 0, reason="make fuzz, or FASTDL_FUZZ_CASES=500")

OUTS = (
    "contiguous",
    "fortran",
    "stepped",
    "misaligned",
    "shared",
    "read-only",
    "repeated",
    "other byte order",
    "other shape",
    "other dtype",
    "no array",
)
SENTINEL = 12345.0


def cases(functions: int) -> Callable[[Any], Any]:
    """Make a test of `data` that runs its share of the cases of a family with so many functions."""

    def decorate(test: Any) -> Any:
        run = settings(
            max_examples=max(LEAST, -(-CASES // functions)),
            deadline=None,
            database=None,
            derandomize=REPEATED,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        return run(given(data=st.data())(test))

    return decorate


def memory_of(array: np.ndarray) -> np.ndarray:
    """Give the array that owns the memory, with what lies around."""
    owner: Any = array
    while getattr(owner, "base", None) is not None:  # np.lib.stride_tricks puts an object of its own in between
        owner = owner.base
    return owner if isinstance(owner, np.ndarray) else array


def bytes_of(array: np.ndarray) -> np.ndarray:
    """Copy the memory that an array lies in, as it is."""
    return np.frombuffer(memory_of(array).tobytes(order="A"), np.uint8)


def parts_of(array: Any) -> list[np.ndarray]:
    """Give the arrays of which an argument is made."""
    if isinstance(array, np.ndarray):
        return [array]
    if isinstance(array, (list, tuple)):
        return [part for item in array for part in parts_of(item)]
    data = getattr(array, "data", None)  # of scipy.sparse
    return [data] if isinstance(data, np.ndarray) else []


# ---- trials ----
Bound = Callable[[dict[str, Any], list[np.ndarray], float], list[Any]]


@dataclass
class Trial:
    """One call, and what is allowed to it.

    `call` takes `arrays` by name, and `out` if `takes_out`. `bound(values, expected, eps)` gives for every array of the
    result how far each element may be off from `expected`, from the arguments in float64 with zeros in the place of
    what is not finite; without it, results are equal to the bit. An element whose bound is not finite is not compared.
    `open_to(values, expected)` gives for every array of the result which elements may be what they will. Without
    `infinities`, what is not finite may be NaN in one backend and Inf in the other: sums of Inf have an order.
    `edge(values)` tells whether products leave the type on the way, so that weights diverge at another sample.
    """

    call: Callable[..., Any]
    arrays: dict[str, Any]
    bound: Bound | None = None
    takes_out: bool = False
    in_place: str = ""
    open_to: Callable[[dict[str, Any], list[np.ndarray]], list[Any]] | None = None
    infinities: bool = True
    edge: Callable[[dict[str, Any]], bool] | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What a call did: its results by place, or its error; and its warnings."""

    places: list[str]
    results: list[np.ndarray]
    error: tuple[type, str] | None
    warned: list[tuple[type, str]]
    value: Any = None


def listed(value: Any, place: str = "") -> list[tuple[str, np.ndarray]]:
    """Give all arrays of a result, with their places in it."""
    if value is None:
        return [(f"{place}=None", np.zeros(0))]
    if isinstance(value, dict):
        return [found for key, part in value.items() for found in listed(part, f"{place}[{key!r}]")]
    if isinstance(value, (tuple, list)):
        return [found for number, part in enumerate(value) for found in listed(part, f"{place}[{number}]")]
    # NumPy gives its numbers in place of arrays without axes.
    kind = "array" if isinstance(value, (np.ndarray, np.generic)) else type(value).__name__
    return [(f"{place}:{kind}", np.asarray(value))]


def run(call: Callable[..., Any], arrays: dict[str, Any], backend: str, isa: str = "", **more: Any) -> Outcome:
    """Call on a backend."""
    before = core.isa()
    with warnings.catch_warnings(record=True) as caught, fastdl.backend(backend):
        warnings.simplefilter("always")
        if isa:
            core.set_isa(isa)
        try:
            value, error = call(**arrays, **more), None
        except Exception as raised:
            value, error = None, (type(raised), str(raised))
        finally:
            core.set_isa(before)
    places = listed(value) if error is None else []
    warned = [(warning.category, str(warning.message)) for warning in caught]
    return Outcome([place for place, _ in places], [array for _, array in places], error, warned, value)


def wide(array: Any) -> Any:
    """Give an argument in float64."""
    if isinstance(array, (list, tuple)):
        return [wide(item) for item in array]
    return None if array is None else array.astype(np.float64)


def finite(array: Any) -> Any:
    """Give an argument in float64 with zeros in the place of NaN and Inf."""
    if isinstance(array, (list, tuple)):
        return [finite(item) for item in array]
    if array is None:
        return None
    found = np.asarray(array.toarray() if hasattr(array, "toarray") else array, np.float64)
    return np.where(np.isfinite(found), found, 0)


def converted(arrays: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Convert all arguments, so that those that were one array stay one."""
    made = {id(array): convert(array) for array in arrays.values()}
    return {name: made[id(array)] for name, array in arrays.items()}


def sizes(call: Callable[..., Any], values: dict[str, Any]) -> list[np.ndarray]:
    """Give the sums of the sizes of all terms of what is a sum of products: the reference of absolute values."""
    with np.errstate(all="ignore"):
        found = run(call, converted(values, absolute), "reference")
    assert found.error is None, found.error
    return found.results


def absolute(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [absolute(item) for item in value]
    return None if value is None else np.abs(value)


def of_sums(call: Callable[..., Any], roundings: float) -> Bound:
    """Allow so many roundings of the sum of the sizes of all terms."""
    return lambda values, expected, eps: [roundings * eps * size for size in sizes(call, values)]


def sum_roundings(terms: float) -> float:
    """Give the roundings of a sum of products in any order, in units of eps and the sum of the sizes of its terms."""
    return growth(terms)


def by_any_algorithm(call: Callable[..., Any], terms: float, kind: str, *names: str) -> Bound:
    """Allow algorithms that mix a tile or an orbit four times the error of a sum, relative to the fullest window.

    Where a few numbers are far larger than others, that is one full of the largest elements of the arrays of `names`: a
    tile may have them where no window meets them.
    """

    def filled(values: dict[str, Any]) -> dict[str, Any]:
        return {
            name: np.full_like(value, np.abs(value).max(initial=0)) if name in names else value
            for name, value in values.items()
        }

    def bound(values: dict[str, Any], expected: list[np.ndarray], eps: float) -> list[Any]:
        each = sizes(call, values)
        full = sizes(call, filled(values)) if kind in UNEVEN else each
        most = [float(size.max(initial=0)) for size in full]
        allowed = eps * transform_roundings(terms)
        return [allowed * (size + top) for size, top in zip(each, most, strict=True)]

    return bound


def is_exact(values: dict[str, Any], expected: list[np.ndarray], eps: float) -> list[Any]:
    """Allow no error."""
    return [np.zeros(found.shape) for found in expected]


def any_not_finite(arrays: Any) -> bool:
    return any(not np.isfinite(part).all() for part in parts_of(arrays) if part.dtype.kind == "f")


def strained(arrays: Any) -> bool:
    """Tell whether there are numbers whose fourth powers leave float64."""
    return any((np.abs(part) > 1e76).any() for part in parts_of(arrays))


# ---- the comparison ----
def check(draw: Draw, trial: Trial) -> bool | None:
    """Run a trial on both backends and compare; tell whether results were held to a value, None where there is none."""
    spoilt = bool(trial.arrays) and draw.chance(6)
    if spoilt:
        trial = spoil(draw, trial)
    wanted = (
        draw.one_of(("none", "none", *OUTS, *(("in place",) if trial.in_place else ()))) if trial.takes_out else "none"
    )
    note(describe(draw, trial, wanted))
    plain = run(trial.call, trial.arrays, "reference")
    if plain.error is not None or wanted == "none":
        outs: list[Any] = [None, None]
        settings_of = [trial, trial]
    else:
        settings_of, outs = zip(*(with_out(draw, trial, wanted, plain.results[0]) for _ in range(2)), strict=True)
    native = observe(settings_of[0], "native", draw.isa, outs[0], wanted)
    reference = observe(settings_of[1], "reference", "", outs[1], wanted)
    if trial.edge and not spoilt and native.error != reference.error and edgewise(trial, native, reference):
        return None
    assert native.error == reference.error, f"{native.error} natively, {reference.error} by the reference"
    assert native.warned == reference.warned, f"{native.warned} natively, {reference.warned} by the reference"
    if native.error is not None:
        return None
    assert native.places == reference.places
    for place, found, other in zip(native.places, native.results, reference.results, strict=True):
        assert found.shape == other.shape, f"{place}: {found.shape} natively, {other.shape} by the reference"
        assert found.dtype == other.dtype, f"{place}: {found.dtype} natively, {other.dtype} by the reference"
    return None if spoilt else compare(trial, native, reference)


def edgewise(trial: Trial, *outcomes: Outcome) -> bool:
    """Tell whether calls found that weights diverge, but not at one sample, for a reason.

    On the way to a weight beyond the type, products with it are there a sample before.
    """
    if {outcome.error[0] for outcome in outcomes if outcome.error} != {FloatingPointError}:
        return False
    found = [int(outcome.error[1].rpartition(" ")[2]) for outcome in outcomes if outcome.error]
    return trial.edge(converted(trial.arrays, finite)) or (len(found) == 2 and abs(found[0] - found[1]) == 1)


def observe(trial: Trial, backend: str, isa: str, out: Any, wanted: str) -> Outcome:
    """Call on a backend, and see that nothing was written but `out`, and that only without an error."""
    arrays = trial.arrays
    kept = {name: [bytes_of(part) for part in parts_of(array)] for name, array in arrays.items()}
    more = {} if out is None else {"out": out}
    before = bytes_of(out) if isinstance(out, np.ndarray) else None
    outcome = run(trial.call, arrays, backend, isa, **more)
    written = before is not None and outcome.error is None
    for name, array in arrays.items():
        # What lies in one memory with out is looked at below.
        if not (written and (wanted == "shared" or (wanted == "in place" and name == trial.in_place))):
            for part, memory in zip(parts_of(array), kept[name], strict=True):
                assert np.array_equal(bytes_of(part), memory), f"{name} was changed by the {backend} backend"
    if before is None:
        return outcome
    if not written:
        assert np.array_equal(bytes_of(out), before), f"{backend}: out was written before an error"
        return outcome
    assert outcome.value is out, "the result is not out"
    beside = ~places_of(out)
    assert np.array_equal(bytes_of(out)[beside], before[beside]), f"{backend}: written beside out"
    outcome.results = [out.copy()]
    return outcome


def offset_of(array: np.ndarray) -> int:
    """Give where the first element of an array is in its memory, in bytes."""
    memory = memory_of(array)
    return int(array.__array_interface__["data"][0] - memory.__array_interface__["data"][0])


def places_of(out: np.ndarray) -> np.ndarray:
    """Tell which bytes of its memory are those of an array."""
    mine = np.zeros(memory_of(out).nbytes, bool)
    places = np.full(out.shape, offset_of(out), np.int64)
    for axis, stride in enumerate(out.strides):
        places += (np.arange(out.shape[axis]) * stride).reshape([-1 if a == axis else 1 for a in range(out.ndim)])
    for byte in range(out.itemsize):
        mine[places.reshape(-1) + byte] = True
    return mine


def with_out(draw: Draw, trial: Trial, wanted: str, result: np.ndarray) -> tuple[Trial, Any]:
    """Make an array for the result, and the trial it goes with; the same one every time."""
    rng = np.random.default_rng(draw.seed)
    shape, dtype = result.shape, result.dtype
    plain = np.full(shape, SENTINEL, dtype)
    if wanted == "in place":
        arrays = dict(trial.arrays)
        arrays[trial.in_place] = twin(arrays[trial.in_place])
        return replace(trial, arrays=arrays), arrays[trial.in_place]
    if wanted == "shared":
        name = min(trial.arrays)
        array = trial.arrays[name]
        if isinstance(array, np.ndarray) and array.dtype == dtype and array.dtype.isnative:
            memory = np.full(array.size + plain.size + 2, SENTINEL, dtype)
            at = int(rng.integers(0, array.size + 2, endpoint=True))
            memory[: array.size] = array.reshape(-1)
            arrays = {**trial.arrays, name: memory[: array.size].reshape(array.shape)}
            return replace(trial, arrays=arrays), memory[at : at + plain.size].reshape(shape)
    if wanted == "fortran":
        return trial, np.asfortranarray(plain)
    if wanted == "stepped" and plain.ndim:
        return trial, stepped(plain, rng)
    if wanted == "misaligned":
        return trial, misaligned(plain)
    if wanted == "read-only":
        plain.flags.writeable = False
    elif wanted == "repeated" and plain.size > 1:
        row = np.full(1, SENTINEL, dtype)
        return trial, np.lib.stride_tricks.as_strided(row, shape, (0,) * plain.ndim)
    elif wanted == "other byte order":
        return trial, plain.astype(dtype.newbyteorder())
    elif wanted == "other shape":
        return trial, np.full((*shape, 1), SENTINEL, dtype)
    elif wanted == "other dtype":
        return trial, plain.astype(np.float64 if dtype == np.float32 else np.float32)
    elif wanted == "no array":
        return trial, plain.tolist()
    return trial, plain


def twin(array: np.ndarray) -> np.ndarray:
    """Give an array that lies as another does, in memory of its own."""
    found: Any = np.ndarray(array.shape, array.dtype, bytes_of(array).copy(), offset_of(array), array.strides)
    found.flags.writeable = array.flags.writeable
    return found


def spoil(draw: Draw, trial: Trial) -> Trial:
    """Make one argument unfit, or at least different."""
    name = draw.one_of(sorted(trial.arrays))
    array = trial.arrays[name]
    if not isinstance(array, np.ndarray):
        return trial
    way = draw.one_of(("axis", "longer", "shorter", "float16", "complex128", "none", "list", "flat"))
    if way == "axis":
        spoilt: Any = array[None]
    elif way == "longer":
        spoilt = np.concatenate([array, array[-1:]]) if array.ndim else array
    elif way == "shorter":
        spoilt = array[..., 1:] if array.ndim else array
    elif way == "none":
        spoilt = None
    elif way == "list":
        spoilt = array.tolist()
    elif way == "flat":
        spoilt = array.reshape(-1)
    else:
        with np.errstate(all="ignore"):
            spoilt = array.astype(way)
    return replace(trial, arrays={**trial.arrays, name: spoilt})


def compare(trial: Trial, native: Outcome, reference: Outcome) -> bool | None:
    """Hold the results of both backends against the value in float64.

    Tell whether there was anything to hold them to; None for results without an element.
    """
    dtype = next((found.dtype for found in reference.results if found.dtype.kind == "f"), np.dtype(np.float64))
    expected = reference.results
    if dtype == np.float32:
        truth = run(trial.call, converted(trial.arrays, wide), "reference")
        assert truth.error is None, truth.error
        expected = truth.results
    values = converted(trial.arrays, finite)
    eps = float(np.finfo(dtype).eps)
    with np.errstate(all="ignore"), fastdl.backend("reference"):
        bounds = (trial.bound or is_exact)(values, expected, eps)
        free = trial.open_to(values, expected) if trial.open_to else [False] * len(expected)
    assert len(bounds) == len(free) == len(expected)
    if dtype == np.float64 and not any_not_finite(list(trial.arrays.values())) and strained(list(values.values())):
        # There is no wider type to compute it in: what the reference has no number for is not known.
        free = [skip | ~np.isfinite(value) for skip, value in zip(free, expected, strict=True)]
    for backend, outcome in (("native", native), ("reference", reference)):
        for place, found, value, bound, skip in zip(
            outcome.places, outcome.results, expected, bounds, free, strict=True
        ):
            wrong = deviating(found, value, bound, skip, dtype)
            if not trial.infinities and found.dtype.kind == "f":
                wrong &= np.isfinite(found) | np.isfinite(value)
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                allowed = np.broadcast_to(bound, found.shape)[at]
                raise AssertionError(
                    f"{backend}{place}: {int(wrong.sum())} of {found.size} elements are wrong: at {at} {found[at]!r}, "
                    f"expected {value[at]!r} within {allowed:.3g}"
                )
    if not sum(found.size for found in expected):
        return None
    return any(bool((np.isfinite(bound) & ~np.asarray(skip)).any()) for bound, skip in zip(bounds, free, strict=True))


def deviating(found: np.ndarray, expected: np.ndarray, bound: Any, skip: Any, dtype: np.dtype) -> np.ndarray:
    """Tell which elements are wrong.

    float64 has no wider type here: what is expected may be off as much as what was found. Where the terms themselves
    come near the ends of the type, a sum may overflow in one order and not in another.
    """
    if found.dtype.kind != "f":
        return np.asarray(found != expected) & ~np.asarray(skip)
    limits = np.finfo(dtype)
    bound = np.broadcast_to(np.asarray(bound, np.float64), found.shape)
    with np.errstate(all="ignore"):
        beyond = ~np.isfinite(bound) | (bound / float(limits.eps) > float(limits.max) / 4)
        beyond |= np.isfinite(expected) & (np.abs(expected) > float(limits.max) / 4)
        allowed = bound * (2 if dtype == np.float64 else 1)
        allowed = allowed + 1024 * float(limits.smallest_subnormal)
        close = np.abs(found.astype(np.float64) - expected) <= allowed
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return ~(close | same | beyond | np.asarray(skip))


def describe(draw: Draw, trial: Trial, out: str) -> str:
    """Say what a case is, for who has to look at it."""
    lines = [f"isa {draw.isa}, seed {draw.seed}, numbers {draw.kind}, out {out}, options {trial.options}"]
    for name, array in trial.arrays.items():
        for part in parts_of(array):
            lines.append(f"{name}: {part.dtype} {part.shape}, strides {part.strides}, writeable {part.flags.writeable}")
    return "\n".join(lines)
