"""Gram matrices, and what is made of them, against their reference, a loop in Python, and the rivals there are."""

from __future__ import annotations

import os

import fastdl
import machine
import rivals
from cases import gram_bench
from contest import group_of, over_threads
from measure import Group


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
        *gram_bench.SMALL,
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
    made = [group_of(case, dtype, isa, axis) for case, dtype, axis in wanted if case.name in there]
    return [*made, *over_threads(gram_bench.kernel("rbf", 2048, None, 128), isa)] if full else made


def test_gram(group, contender, replay):
    replay(group, contender)
