"""Scattering transforms and their gradients against kymatio's torch and NumPy frontends, or the formula in NumPy."""

from __future__ import annotations

import machine
from cases import scattering_bench
from contest import group_of, over_threads
from measure import Group


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    return [(machine.active_level(), {})]


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family, those most asked for first."""
    dtypes = ("float32", "float64") if full else ("float32",)
    # In a quick run volumes would take kymatio a minute.
    wanted = [
        (case, dtype, "")
        for dtype in dtypes
        for case in scattering_bench.GOALS
        if full or case.name != "HarmonicScattering3D"
    ]
    wanted += [
        (make(point), "float32", axis)
        for axis, make, points, all_points in scattering_bench.SERIES
        for point in (all_points if full else points)
    ]
    if full:
        others = (*scattering_bench.SMALL, *scattering_bench.OTHERS)
        wanted += [(case, dtype, "") for dtype in dtypes for case in others]
    made = [group_of(case, dtype, isa, axis) for case, dtype, axis in wanted]
    if full:
        made += over_threads(scattering_bench.case("Scattering2D", (128, 3), (32, 32), J=2), isa)
    return list({group.label: group for group in made}.values())


def test_scattering(group, contender, replay):
    replay(group, contender)
