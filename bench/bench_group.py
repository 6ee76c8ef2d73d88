"""Group convolutions and their gradients against torch on filters expanded beforehand, in both layouts, and e2cnn.

``--full --case sweep`` is all passes of p4 and p4m over channels and sides.
"""

from __future__ import annotations

from dataclasses import replace

import machine
from cases import group_bench, group_bench_others
from cases.bench_case import BenchCase
from contest import group_of, over_threads
from measure import Group


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    return [(machine.active_level(), {})]


def _without_e2cnn(case: BenchCase) -> BenchCase:
    """Leave it out of quick runs, for it takes long to be made ready, and of float64, for its basis is in single."""
    return replace(case, rivals=group_bench.LAYOUTS) if case.name == "conv2d" else case


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family, those most asked for first."""
    goals = [_without_e2cnn(case) for case in group_bench.GOALS]
    wanted = [(case, "float32", "") for case in (group_bench.GOALS if full else goals)]
    wanted += [(case, "float64", "") for case in goals if full]
    wanted += [
        (make(point), "float32", axis)
        for axis, make, points, all_points in group_bench.SERIES
        for point in (all_points if full else points)
    ]
    if full:
        wanted += [(case, "float32", "") for case in (*group_bench.SWEEP, *group_bench.OTHERS)]
        wanted += [(_without_e2cnn(case), "float64", "") for case in group_bench.OTHERS]
        further = (*group_bench.SMALL, *group_bench_others.SMALL, *group_bench_others.OTHERS)
        wanted += [(case, dtype, "") for dtype in ("float32", "float64") for case in further]
    made = [group_of(case, dtype, isa, axis) for case, dtype, axis in wanted]
    if full:
        made += over_threads(group_bench.layer("conv2d", "p4", 16, 32, 32, rivals=group_bench.LAYOUTS), isa)
    return list({group.label: group for group in made}.values())


def test_group(group, contender, replay):
    replay(group, contender)
