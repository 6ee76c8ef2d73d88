"""Numbers taken from a record: times, ratios, rates, shares of what the machine can do, memory."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

OURS, REFERENCE, PYTHON = "fastdl", "reference", "python"
NOT_RIVALS = (OURS, REFERENCE, PYTHON, "fastdl cuda")

# Families whose table is of GF/s by instruction set and threads; all others have one of times.
RATE_FAMILIES = ("engine",)


# ---- what a record has ----
def families(record: dict) -> list[str]:
    """Those that have timings, in the order they ran."""
    return list(dict.fromkeys(group["family"] for group in record["timings"]))


def of_family(record: dict, family: str) -> list[dict]:
    """The groups of a family."""
    return [group for group in record["timings"] if group["family"] == family]


def rivals(group: dict) -> list[str]:
    """Who took part besides us, the reference and the loop."""
    return [name for name in group["contenders"] if name not in NOT_RIVALS]


def busy(record: dict) -> bool:
    """Whether others were using the machine when the run began."""
    return record["load"] > 0.25 * record["machine"]["available_cores"]


# ---- times ----
def best(group: dict, contender: str = OURS) -> float | None:
    """The best time of a contender, if it took part."""
    timing = group["contenders"].get(contender)
    return None if timing is None else timing["best"]


def median(group: dict, contender: str = OURS) -> float | None:
    """The median time of a contender, if it took part."""
    timing = group["contenders"].get(contender)
    return None if timing is None else timing["median"]


def best_rival(group: dict) -> str | None:
    """The rival with the best time."""
    return min(rivals(group), key=lambda name: best(group, name), default=None)


def ratio(group: dict) -> float | None:
    """Time of the best rival over ours."""
    ours, rival = best(group), best_rival(group)
    return best(group, rival) / ours if ours and rival else None


def geometric_mean(values: list[float]) -> float:
    """The mean of ratios."""
    return math.exp(statistics.mean(math.log(value) for value in values))


# ---- rates ----
def rate(group: dict, contender: str = OURS, time: Callable[[dict, str], float | None] = best) -> float | None:
    """GF/s of a contender in its best time, or another one, where there are products to count."""
    value = time(group, contender)
    return group["flops"] / value / 1e9 if value and group["flops"] else None


def traffic(group: dict) -> float | None:
    """GB/s of our inputs and results, each counted once, where there are no products to count."""
    value, amount = best(group), group.get("bytes")
    return amount / value / 1e9 if value and amount and not group["flops"] else None


def entry_rate(group: dict) -> float | None:
    """Entries of a Gram matrix a second, in billions: ours, and None where there are none."""
    value = best(group)
    return group["entries"] / value / 1e9 if value and group.get("entries") else None


def peak(record: dict, group: dict) -> float | None:
    """GF/s the machine was seen to reach with the same instructions, type and threads."""
    level = record["machine"]["peaks"]["gflops"].get(group["isa"], {})
    real = {"complex64": "float32", "complex128": "float64"}.get(group["dtype"], group["dtype"])
    return level.get(real, {}).get(str(group["threads"]))


def bandwidth(record: dict, group: dict) -> float | None:
    """GB/s the memory was seen to give to the same number of threads."""
    return record["machine"]["peaks"]["bandwidth"].get(str(group["threads"]))


def share(record: dict, group: dict) -> float | None:
    """Our rate over the machine's: of arithmetic where flops are counted, else of the memory."""
    ours, top = (rate(group), peak(record, group)) if group["flops"] else (traffic(group), bandwidth(record, group))
    return ours / top if ours and top else None


# ---- memory ----
def memory(group: dict, contender: str = OURS) -> float | None:
    """Bytes by which the peak of the process grew in a first call, where it was measured."""
    return group["contenders"].get(contender, {}).get("memory")


def leanest_rival(group: dict) -> str | None:
    """The rival that took the least memory."""
    measured = [name for name in rivals(group) if memory(group, name) is not None]
    return min(measured, key=lambda name: memory(group, name), default=None)
