"""Group convolutions and their gradients against torch on filters expanded beforehand, in both layouts, and e2cnn.

``--full --case sweep`` is all passes of p4 and p4m over channels and sides.
"""

from __future__ import annotations

from dataclasses import replace

import machine
from cases import group_bench
from contest import group_of
from measure import Group


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    return [(machine.active_level(), {})]


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family, those most asked for first."""
    # Without e2cnn where it takes no part: it needs its time to be made ready, and has a basis of single precision.
    goals = [replace(case, rivals=group_bench.LAYOUTS) for case in group_bench.GOALS]
    wanted = [(case, "float32", "") for case in (group_bench.GOALS if full else goals)]
    wanted += [(case, "float64", "") for case in goals if full]
    wanted += [
        (make(point), "float32", axis)
        for axis, make, points, all_points in group_bench.SERIES
        for point in (all_points if full else points)
    ]
    if full:
        wanted += [(case, "float32", "") for case in (*group_bench.SWEEP, *group_bench.OTHERS)]
    made = (group_of(case, dtype, isa, axis) for case, dtype, axis in wanted)
    return list({group.label: group for group in made}.values())


def test_group(group, contender, replay):
    replay(group, contender)
