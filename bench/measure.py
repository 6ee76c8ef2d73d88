"""Timing the contenders of a group fairly, and handing the durations to pytest-benchmark."""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import threadpoolctl

import fastdl

OURS = "fastdl"
REFERENCE = "reference"
PYTHON = "python"

# Calls shorter than this are made in batches, or the clock would be measured.
SHORTEST_ROUND = 1e-3
# A call this long is no short one that was interrupted.
LONG = 0.25
# After a rest the first milliseconds are slower, of every contender: by 30% with 1 ms of calls before the timed one.
WARM_UP = 5e-3
FEWEST_ROUNDS = 5
MOST_ROUNDS = 25


class Disagreement(AssertionError):
    """A contender computed something else than the others."""


@dataclass(frozen=True)
class Prepared:
    """A group made ready: one call without arguments a contender, and a check that raises `Disagreement`.

    A contender that is timed elsewhere (`foreign.py`) has a method `timed(batch)` for that, and one to `close` it.
    `inputs` holds the arrays that all of them read.
    """

    calls: dict[str, Callable[[], Any]]
    check: Callable[[str, Any], None]
    inputs: Any = ()

    def close(self) -> None:
        """End what the contenders have started."""
        for call in self.calls.values():
            if hasattr(call, "close"):
                call.close()


@dataclass(frozen=True)
class Group:
    """One call of one function on one input, by all contenders.

    `size` holds what the plots go by. `series` names the plot a group belongs to, "" for none. `contenders` are known
    before `prepare` makes the inputs, so that tests can be listed without the memory being used. `flops` are those of
    matrix products, `entries` those of a Gram matrix, `terms` what is summed up in them; 0 where there are none. With
    one round, for calls of minutes, the check is the only warm-up. `alone` makes the call of one contender on inputs of
    its own, for those whose memory can be measured (`memory.py`).
    """

    family: str
    function: str
    size: dict[str, int]
    dtype: str
    threads: int
    flops: float
    contenders: tuple[str, ...]
    prepare: Callable[[], Prepared]
    series: str = ""
    symmetric: bool = False
    isa: str = ""
    entries: float = 0.0
    terms: float = 0.0
    rounds: int = FEWEST_ROUNDS
    alone: dict[str, Callable[[], Callable[[], Any]]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """A name no other group has, for progress and for selection."""
        size = " ".join(f"{name}={value}" for name, value in self.size.items())
        parts = (self.function, size, self.dtype, f"threads={self.threads}", self.isa, self.series)
        return " ".join(part for part in parts if part)

    def describe(self) -> dict:
        """What a record says of the group, besides the timings."""
        names = ("family", "function", "size", "dtype", "threads", "flops", "entries", "series", "symmetric", "isa")
        return {"label": self.label, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class Race:
    """What was found of a group: by contender the seconds a call of each round and the calls in a round; and bytes."""

    rounds: dict[str, tuple[list, int]]
    bytes: int


def selected(module: Any, full: bool, isa: str, case: str) -> list[Group]:
    """The groups of a family on one instruction set whose label contains `case`, or one of several between bars."""
    return [group for group in module.groups(full, isa) if any(text in group.label for text in case.split("|"))]


@contextmanager
def same_threads(count: int) -> Iterator[None]:
    """Hold every library that is loaded to the same number of threads."""
    before = fastdl.get_num_threads()
    fastdl.set_num_threads(count)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(count)
    try:
        # Covers the OpenBLAS of NumPy and of SciPy, and OpenMP.
        with threadpoolctl.threadpool_limits(count):
            yield
    finally:
        fastdl.set_num_threads(before)


def fall_quiet() -> None:
    """Wait until no thread of this process is at work.

    Those of OpenBLAS go on spinning after a call, for more than 60 ms with NumPy's build of it at 2.3 GHz, on the
    processors the next contender is about to use: fastdl ran at 184 GF/s behind them, and at 280 when they slept.
    """
    step, most = 10e-3, 0.5
    for _ in range(int(most / step)):
        before = time.process_time()
        time.sleep(step)
        if time.process_time() - before < 0.1 * step:
            return


def _time(call: Callable[[], Any], batch: int) -> float:
    """Seconds of a call, the average over a batch."""
    if hasattr(call, "timed"):
        return call.timed(batch)
    repeats = range(batch)
    begin = time.perf_counter()
    for _ in repeats:
        call()
    return (time.perf_counter() - begin) / batch


def _batch(call: Callable[[], Any]) -> tuple[int, float]:
    """How many calls make a round that is long enough to be timed, and about how long one call takes."""
    batch = 1
    while True:
        seconds = _time(call, batch)
        if seconds < LONG:
            # The best of three: a call that was interrupted must not pass for a long one.
            seconds = min(seconds, _time(call, batch), _time(call, batch))
        if seconds * batch >= SHORTEST_ROUND:
            return batch, seconds
        batch = min(10 * batch, max(batch + 1, math.ceil(1.2 * SHORTEST_ROUND / max(seconds, 1e-9))))


def interleave(
    calls: dict[str, Callable[[], Any]], seconds: float, settle: bool, fewest: int = FEWEST_ROUNDS
) -> dict[str, tuple[list, int]]:
    """Time all calls by turns, so that whatever else the machine does meets all of them alike.

    Parameters
    ----------
    calls : dict
        What to time, by name.
    seconds : float
        Begin no further round after this.
    settle : bool
        Wait before each turn until the threads of the one before sleep.
    fewest : int
        How many rounds are made at least. With 1 just one is made, of one call, and nothing before it.

    Returns
    -------
    dict
        For each name the seconds a call of each round, and the number of calls in a round.
    """
    durations: dict[str, list[float]] = {name: [] for name in calls}
    collecting = gc.isenabled()
    gc.disable()
    try:
        # One round is for calls of minutes, which are not repeated to find out that they are long.
        tried = {name: (1, math.inf) if fewest == 1 else _batch(call) for name, call in calls.items()}
        stop = time.perf_counter() + (seconds if fewest > 1 else 0.0)
        for turn in range(MOST_ROUNDS):
            if turn >= fewest and time.perf_counter() >= stop:
                break
            # There and back, so that nobody always follows the same neighbour.
            for name in list(calls)[:: 1 if turn % 2 == 0 else -1]:
                if settle:
                    fall_quiet()
                batch, expected = tried[name]
                # Untimed, to wake the contender's threads, bring its inputs back into the caches and the processor to
                # speed. A call that fills a round many times over does not notice, and would only double the wait.
                if expected < 10 * WARM_UP:
                    _time(calls[name], math.ceil(WARM_UP / max(expected, 1e-9)))
                durations[name].append(_time(calls[name], batch))
    finally:
        if collecting:
            gc.enable()
    return {name: (durations[name], tried[name][0]) for name in calls}


def as_numpy(result: Any) -> np.ndarray:
    """The result of any contender, to be compared; several arrays as one, end to end."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple):
        return np.concatenate([np.ravel(as_numpy(part)) for part in result if part is not None])
    if hasattr(result, "cpu"):  # a tensor of torch, on whichever device
        result = result.cpu()
    if hasattr(result, "numpy"):
        return result.numpy()
    return result.get() if hasattr(result, "get") else np.asarray(result)  # an array of CuPy, and all others


def _arrays(value: Any) -> Iterator[Any]:
    """All arrays in what holds them; the numbers of a sparse matrix and where they stand."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for part in value:
            yield from _arrays(part)
    elif hasattr(value, "indptr"):
        yield from (value.data, value.indices, value.indptr)
    elif hasattr(value, "nbytes"):
        yield value


def bytes_of(*values: Any) -> int:
    """Bytes of all arrays, each once: one that is given twice, or is both an input and the result, is read once."""
    found = {}
    for array in _arrays(values):
        place = array.ctypes.data if isinstance(array, np.ndarray) else id(array)
        found[place, array.nbytes] = array.nbytes
    return sum(found.values())


def measure(group: Group, seconds: float) -> Race:
    """Check that all contenders of a group agree, then time them."""
    with same_threads(group.threads):
        prepared = group.prepare()
        try:
            if tuple(prepared.calls) != group.contenders:
                raise RuntimeError(f"{group.label}: announced {group.contenders}, prepared {tuple(prepared.calls)}")
            # Once more: a library that was loaded for its call is held to the number of threads only now.
            with same_threads(group.threads):
                size = 0
                for name, call in prepared.calls.items():
                    result = call()
                    # Of the first, who is always ourselves: others may compute in another type.
                    size = size or bytes_of(prepared.inputs, result)
                    prepared.check(name, as_numpy(result))
                return Race(interleave(prepared.calls, seconds, group.threads > 1, group.rounds), size)
        finally:
            prepared.close()


class ReplayedClock:
    """A clock that tells the time of a measurement already made.

    pytest-benchmark times one function after the other, which is no fair race on a machine whose speed wanders. So
    the race is run by `interleave`, and each contender's test replays its part through this clock: `setup` sets the
    clock to zero, the "function under test" sets it to the next duration. All statistics are then pytest-benchmark's.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Read the clock."""
        return self.now

    def _set(self, now: float) -> None:
        self.now = now

    def replay(self, benchmark: Any, durations: list[float]) -> None:
        """Give the durations to the `benchmark` fixture, which must have been made with this clock as its timer."""
        remaining = iter(durations)
        benchmark.pedantic(
            lambda: self._set(next(remaining)), setup=lambda: self._set(0.0), rounds=len(durations), iterations=1
        )


clock = ReplayedClock()
