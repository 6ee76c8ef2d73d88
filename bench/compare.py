"""Two recorded runs beside each other: ``python -m fastdl bench --compare BEFORE.json AFTER.json``.

A change counts where our best time and our median both moved by more than the noise of the two measurements.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import figures
import report
from figures import OURS
from tables import Column, Table, percent, seconds

# By so much two runs of one commit on one machine differ in the median case (results/engine and results/engine/again),
# whatever the rounds of each say.
LEAST_NOISE = 0.06
# Of one or two rounds nobody knows how far they are off.
NOISE_OF_FEW_ROUNDS = 0.25

SLOWER, FASTER, ALIKE = "SLOWER", "faster", ""

# What makes times of two records incomparable: how to call it, and where it is.
CONDITIONS = (
    ("processors", ("machine", "cpu")),
    ("numbers of cores", ("machine", "available_cores")),
    ("threads", ("fastdl", "threads")),
    ("instruction sets", ("fastdl", "isas")),
    ("instruction sets in use", ("fastdl", "isa")),
    ("compilers", ("fastdl", "build")),
)


@dataclass(frozen=True)
class Change:
    """A group that both records have: our times in them, and how far such times are off by themselves."""

    label: str
    before: float
    after: float
    ratio: float
    ratio_of_medians: float
    noise: float

    @property
    def verdict(self) -> str:
        """Whether it is beyond noise, and in which direction."""
        moved = [math.log(value) for value in (self.ratio, self.ratio_of_medians)]
        limit = math.log1p(self.noise)
        return SLOWER if min(moved) > limit else FASTER if max(moved) < -limit else ALIKE


def _noise(timing: dict) -> float:
    """Half of the rounds lie within this part of the median."""
    return NOISE_OF_FEW_ROUNDS if timing["rounds"] < 3 else timing["spread"] / timing["median"]


def changes(before: dict, after: dict) -> list[Change]:
    """All groups of both records: slower ones first, then faster ones, then those within noise."""
    earlier = {group["label"]: group["contenders"] for group in before["timings"]}
    found = []
    for group in after["timings"]:
        old, new = earlier.get(group["label"], {}).get(OURS), group["contenders"].get(OURS)
        if old and new:
            found.append(
                Change(
                    group["label"],
                    old["best"],
                    new["best"],
                    new["best"] / old["best"],
                    new["median"] / old["median"],
                    max(LEAST_NOISE, _noise(old) + _noise(new)),
                )
            )
    order = (SLOWER, FASTER, ALIKE)
    return sorted(found, key=lambda change: (order.index(change.verdict), -abs(math.log(change.ratio))))


def drift(before: dict, after: dict) -> float | None:
    """How the times of all others changed, in the mean: what the machine and not the library did."""
    earlier = {group["label"]: group["contenders"] for group in before["timings"]}
    ratios = [
        timing["best"] / earlier[group["label"]][name]["best"]
        for group in after["timings"]
        for name, timing in group["contenders"].items()
        if name in figures.rivals(group) and name in earlier.get(group["label"], {})
    ]
    return figures.geometric_mean(ratios) if ratios else None


def warnings(before: dict, after: dict) -> list[str]:
    """Why times of the two may not be compared."""
    lines = []
    for words, (part, name) in CONDITIONS:
        old, new = before[part].get(name), after[part].get(name)
        if old != new:
            lines.append(f"different {words}: {_plain(old)} and {_plain(new)}")
    for words, record in (("first", before), ("second", after)):
        if figures.busy(record):
            lines.append(f"others were using the machine before the {words} run (load {record['load']:.1f})")
    return lines


def _plain(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def text(before: dict, after: dict) -> str:
    """The comparison for a terminal."""
    found = changes(before, after)
    parts = [f"WARNING {line}" for line in warnings(before, after)]
    others = drift(before, after)
    if others is not None:
        parts.append(f"rivals took {others:.2f} of their time of the first run (geometric mean)")
    columns = [
        Column("case", lambda change: change.label, word=True),
        Column("first", lambda change: change.before, seconds),
        Column("second", lambda change: change.after, seconds),
        Column("second / first", lambda change: change.ratio, lambda value: f"{value:.2f}"),
        Column("noise", lambda change: change.noise, percent),
        Column("", lambda change: change.verdict, word=True),
    ]
    if found:
        parts.append("\n" + report.in_columns(Table(columns, found)) + "\n")
    slower, faster = (sum(change.verdict == verdict for change in found) for verdict in (SLOWER, FASTER))
    alone = len({group["label"] for record in (before, after) for group in record["timings"]}) - len(found)
    parts.append(
        f"{len(found)} cases: {slower} slower and {faster} faster beyond noise, {len(found) - slower - faster} alike; "
        f"{alone} are in one record only"
    )
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Compare two records; the status is 1 if something became slower, 2 if they have nothing in common."""
    if len(arguments) != 2:
        print("usage: python bench/compare.py BEFORE.json AFTER.json", file=sys.stderr)
        return 2
    before, after = (json.loads(Path(path).read_text(encoding="utf-8")) for path in arguments)
    print(text(before, after))
    found = changes(before, after)
    if not found:
        return 2
    return int(found[0].verdict == SLOWER)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
