"""Convolutions, their gradients and pooling against torch in both layouts, signals and graphs against SciPy."""

from __future__ import annotations

import machine
from cases import conv_bench, conv_bench_others
from contest import group_of, over_threads
from measure import Group


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    return [(machine.active_level(), {})]


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family, those most asked for first."""
    dtypes = ("float32", "float64") if full else ("float32",)
    wanted = [(case, dtype, "") for dtype in dtypes for case in conv_bench.GOALS]
    wanted += [
        (make(point), "float32", axis)
        for axis, make, points, all_points in conv_bench.SERIES
        for point in (all_points if full else points)
    ]
    if full:
        wanted += [(case, "float32", "") for case in conv_bench.LAYERS]
        further = (
            *conv_bench.SMALL,
            *conv_bench_others.SMALL,
            *conv_bench.SIGNALS,
            *conv_bench.AXES,
            *conv_bench_others.OTHERS,
        )
        wanted += [(case, dtype, "") for dtype in dtypes for case in further]
    made = [group_of(case, dtype, isa, axis) for case, dtype, axis in wanted]
    if full:
        made += over_threads(conv_bench.resnet("conv2d", 8, (64, 64, 56, 3, 1)), isa)
    # Some of the layers are goals.
    return list({group.label: group for group in made}.values())


def test_conv(group, contender, replay):
    replay(group, contender)
