"""Hebbian rules against the loop in NumPy and in torch, memories against their formulas, numbers against SciPy."""

from __future__ import annotations

import machine
from cases import hebbian_bench
from contest import group_of, over_threads
from measure import Group


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    return [(machine.active_level(), {})]


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family, those most asked for first."""
    dtypes = ("float32", "float64") if full else ("float32",)
    wanted = [(case, dtype, "") for dtype in dtypes for case in hebbian_bench.GOALS]
    wanted += [
        (make(point), "float32", axis)
        for axis, make, points, all_points in hebbian_bench.SERIES
        for point in (all_points if full else points)
    ]
    if full:
        wanted += [(case, dtype, "") for dtype in dtypes for case in (*hebbian_bench.SMALL, *hebbian_bench.OTHERS)]
    made = [group_of(case, dtype, isa, axis) for case, dtype, axis in wanted]
    if full:
        made += over_threads(hebbian_bench.learn("sanger", 64, 784, 2000), isa)
    return list({group.label: group for group in made}.values())


def test_hebbian(group, contender, replay):
    replay(group, contender)
