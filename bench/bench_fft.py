"""The FFT engine, called by itself, against scipy.fft and torch.fft: batches of a million numbers, and single rows."""

from __future__ import annotations

import fastdl
import machine
from cases import fft_bench
from contest import group_of
from measure import Group


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: one, as a user would have it."""
    return [(machine.active_level(), {})]


def groups(full: bool, isa: str) -> list[Group]:
    """All cases of the family; the engine has no reference, so without the extension there are none."""
    if not fastdl.show_config(mode="dicts")["native"]:
        return []
    wanted = [
        (make(point), dtype, axis)
        for axis, dtype, make, points, all_points in fft_bench.SERIES
        for point in (all_points if full else points)
    ]
    wanted += [(case, "complex64", "") for case in (fft_bench.SEVERAL if full else fft_bench.SEVERAL[:1])]
    if full:
        wanted += [(fft_bench.batched(n), "complex128", "n") for n in fft_bench.FEW_SIZES]
    return [group_of(case, dtype, isa, axis) for case, dtype, axis in wanted]


def test_fft(group, contender, replay):
    replay(group, contender)
