"""Series of a record, in which one size goes up, and the cliffs in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import figures

# A point that takes more than this many times what its neighbours lead one to expect.
CLIFF = 1.5

# The size that goes up along a series, where that is not its name.
AXES = {"sweep": "n"}


def axis(group: dict) -> str:
    """What goes up along the series of a group."""
    return AXES.get(group["series"], group["series"])


def position(group: dict) -> float | None:
    """Where along its axis a group lies; of sizes such as 128x3 the product counts."""
    name = axis(group)
    value = group["size"].get(name, group["threads"] if name == "threads" else None)
    if isinstance(value, str):
        parts = value.split("x")
        value = math.prod(map(int, parts)) if all(part.isdigit() for part in parts) else None
    return value


def _settings(group: dict) -> dict:
    """All that may tell one series from another, besides the place along it."""
    name = axis(group)
    settings = {**group["size"], "symmetric": group["symmetric"], "threads": group["threads"]}
    return {key: value for key, value in settings.items() if key != name}


def all_series(record: dict, family: str | None = None) -> list[list[dict]]:
    """Every series, in the order of its axis.

    What goes up together with the axis (the m of a symmetric matrix) does not tell series apart, but what differs
    between two groups at the same place does.
    """
    alike: dict[tuple, list[dict]] = {}
    for group in record["timings"]:
        if group["series"] and position(group) and family in (None, group["family"]):
            # Threads are a setting like the instruction set: curves of different ones are never one series.
            threads = None if axis(group) == "threads" else group["threads"]
            key = (group["family"], group["function"], group["series"], group["dtype"], group["isa"], threads)
            alike.setdefault(key, []).append(group)
    result = []
    for groups in alike.values():
        places: dict[float, list[dict]] = {}
        for group in groups:
            places.setdefault(position(group), []).append(_settings(group))
        telling = sorted(
            {
                name
                for settings in places.values()
                for other in settings[1:]
                for name in settings[0].keys() | other.keys()
                if settings[0].get(name) != other.get(name)
            }
        )
        apart: dict[tuple, list[dict]] = {}
        for group in groups:
            settings = _settings(group)
            apart.setdefault(tuple(str(settings.get(name)) for name in telling), []).append(group)
        result += [sorted(members, key=position) for members in apart.values()]
    return result


def constants(groups: list[dict]) -> dict:
    """The sizes that stay the same along a series."""
    first = groups[0]["size"]
    return {
        name: value
        for name, value in first.items()
        if name != axis(groups[0]) and all(group["size"].get(name) == value for group in groups)
    }


@dataclass(frozen=True)
class Cliff:
    """A group of a series that takes much longer than its neighbours lead one to expect."""

    group: dict
    before: dict
    after: dict
    expected: float

    @property
    def factor(self) -> float:
        """The time over what was expected."""
        return figures.best(self.group) / self.expected


def _expected(before: dict, group: dict, after: dict) -> float:
    """The time at a place on the straight line between two others, with both scales logarithmic."""
    places, times = [position(at) for at in (before, group, after)], [figures.best(at) for at in (before, after)]
    weight = math.log(places[1] / places[0]) / math.log(places[2] / places[0])
    return times[0] ** (1 - weight) * times[1] ** weight


def cliffs(record: dict) -> tuple[list[Cliff], int]:
    """Every cliff of ours, the steepest first, and the number of series that are long enough to have one."""
    found, count = [], 0
    for groups in all_series(record):
        groups = [group for group in groups if figures.best(group)]
        count += len(groups) > 2
        for before, group, after in zip(groups, groups[1:], groups[2:], strict=False):
            # 2x3 and 3x2 are one place.
            if not position(before) < position(group) < position(after):
                continue
            expected = _expected(before, group, after)
            if figures.best(group) > CLIFF * expected:
                found.append(Cliff(group, before, after, expected))
    return sorted(found, key=lambda cliff: -cliff.factor), count
