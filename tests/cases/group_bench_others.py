"""What of fastdl.group is benchmarked besides layers on the groups of the plane: a line a case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import group_formulas as formulas
from cases.bench_case import BenchCase, normal, some
from cases.group import order, rotations_and_flips
from cases.group_bench import GroupCase


@dataclass(frozen=True)
class OtherCase(BenchCase):
    """A call of which some samples of `x`, or all there is, are checked."""

    family = "group"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take some of the samples, if there are any and not time for all."""
        if self.terms <= budget or "x" not in inputs:
            return inputs, ...
        chosen = some(len(inputs["x"]), budget / self.terms)
        return {**inputs, "x": inputs["x"][chosen]}, chosen


# ---- layers for turns by any angle ----
def turns(name: str, rotations: int, n: int, channels: int, side: int, k: int = 5, filters: int = 0) -> GroupCase:
    """Take a layer of n images, from as many channels to as many unless said."""
    padding, filters = k // 2, filters or channels
    elements = () if "lift" in name else (rotations,)
    x, w = (n, channels, *elements, side, side), (filters, channels, *elements, k, k)
    y = (n, filters, rotations, side, side)

    def arrays(rng, dtype):
        return {"x": normal(rng, x, dtype), "w": normal(rng, w, dtype)}

    size: dict[str, int | str] = {"rotations": rotations, "n": n, "channels": channels}
    size |= {"filters": filters} if filters != channels else {}
    size |= {"side": side, "k": k}
    # Those of the convolution with turned filters, as everyone counts them.
    terms = float(math.prod(y) * math.prod(w[1:]))
    parameters = {"rotations": rotations, "padding": padding}
    return GroupCase(name, size, arrays, parameters, 2 * terms, terms=terms, result=y)


def turned_filters(rotations: int, filters: int, channels: int, k: int, lift: bool = False) -> OtherCase:
    def arrays(rng, dtype):
        return {"w": normal(rng, (filters, channels, *(() if lift else (rotations,)), k, k), dtype)}

    size: dict[str, int | str] = {"rotations": rotations, "filters": filters, "channels": channels, "k": k}
    size |= {"lift": "yes"} if lift else {}
    # Four numbers for each of the result.
    terms = 4.0 * filters * rotations * channels * (1 if lift else rotations) * k * k
    return OtherCase("se2_filters", size, arrays, {"rotations": rotations, "lift": lift}, terms=terms)


# ---- what is moved, and what is joined ----
def moved(group: str, g: int, n: int, channels: int, side: int) -> OtherCase:
    """Let an element act on functions on the group."""
    x = (n, channels, order(group), side, side)

    def arrays(rng, dtype):
        return {"x": normal(rng, x, dtype)}

    size: dict[str, int | str] = {"group": group, "g": g, "n": n, "channels": channels, "side": side}
    return OtherCase("act", size, arrays, {"g": g, "group": group}, terms=float(math.prod(x)))


def expanded(group: str, filters: int, channels: int, k: int, lift: bool = False) -> OtherCase:
    w = (filters, channels, *(() if lift else (order(group),)), k, k)

    def arrays(rng, dtype):
        return {"w": normal(rng, w, dtype)}

    size: dict[str, int | str] = {"group": group, "filters": filters, "channels": channels, "k": k}
    size |= {"lift": "yes"} if lift else {}
    terms = float(math.prod(w) * order(group))
    return OtherCase("expand_filters", size, arrays, {"group": group, "lift": lift}, terms=terms)


def pooled(mode: str, elements: int, n: int, channels: int, side: int) -> OtherCase:
    x = (n, channels, elements, side, side)

    def arrays(rng, dtype):
        return {"x": normal(rng, x, dtype)}

    size: dict[str, int | str] = {"mode": mode, "order": elements, "n": n, "channels": channels, "side": side}
    return OtherCase("pool", size, arrays, {"mode": mode}, terms=float(math.prod(x)))


def pooled_sets(mode: str, count: int, n: int, channels: int) -> OtherCase:
    """Join the elements of so many sets of n vectors."""

    def arrays(rng, dtype):
        return {"x": normal(rng, (count, n, channels), dtype)}

    size: dict[str, int | str] = {"mode": mode, "sets": count, "n": n, "channels": channels}
    return OtherCase("set_pool", size, arrays, {"mode": mode}, terms=float(count * n * channels))


def set_layer(count: int, n: int, channels: int, outputs: int) -> OtherCase:
    """Take so many sets of n vectors."""

    def arrays(rng, dtype):
        lam, gam = (normal(rng, (channels, outputs), dtype) for _ in range(2))
        return {"x": normal(rng, (count, n, channels), dtype), "lam": lam, "gam": gam}

    size: dict[str, int | str] = {"sets": count, "n": n, "channels": channels, "outputs": outputs}
    terms = float(count * (n + 1) * channels * outputs)
    return OtherCase("permutation_layer", size, arrays, flops=2 * terms, terms=terms)


# ---- orbits, under the turns and flips of d points on a circle ----
def average(n: int, d: int) -> OtherCase:
    orders = rotations_and_flips(d)

    def arrays(rng, dtype):
        return {"x": normal(rng, (n, d), dtype)}

    size: dict[str, int | str] = {"n": n, "d": d, "order": len(orders)}
    return OtherCase("average", size, arrays, {"permutations": orders}, terms=float(n * d * len(orders)))


@dataclass(frozen=True)
class GramianCase(OtherCase):
    """The products of the elements of an orbit."""

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take some of the elements."""
        if self.terms <= budget:
            return inputs, ...
        permutations = inputs["permutations"]
        chosen = some(len(permutations), math.sqrt(budget / self.terms))
        return {**inputs, "permutations": permutations[chosen]}, np.ix_(chosen, chosen)


def orbit_gramian(d: int) -> GramianCase:
    orders = rotations_and_flips(d)

    def arrays(rng, dtype):
        return {"t": normal(rng, (d,), dtype)}

    size: dict[str, int | str] = {"d": d, "order": len(orders)}
    terms = len(orders) * (len(orders) + 1) / 2 * d
    parameters = {"permutations": orders}
    return GramianCase("orbit_gramian", size, arrays, parameters, 2 * terms, terms=terms, symmetric=True)


def orbit_regularizer(d: int, n: int) -> OtherCase:
    """Take n columns of about the length 1, whose products differ by about sigma."""

    def arrays(rng, dtype):
        return {"W": normal(rng, (d, n), dtype) / dtype.type(d**0.5)}

    size: dict[str, int | str] = {"d": d, "columns": n}
    return OtherCase("orbit_regularizer", size, arrays, {"sigma": 0.5}, terms=float(n) ** 4 + 2.0 * n * n * d)


# ---- what is run ----
MODES = ("max", "mean", "sum", "l2")

# So small that a loop in Python takes part.
SMALL = (
    turns("se2_lift_conv2d", 8, 1, 1, 8, filters=4),
    turns("se2_conv2d", 4, 1, 2, 8, k=3),
    turned_filters(8, 2, 2, 5),
    moved("p4", 1, 2, 4, 15),
    expanded("p4", 8, 8, 3),
    *(pooled(mode, 8, 2, 4, 16) for mode in MODES),
    *(pooled_sets(mode, 8, 31, 16) for mode in ("sum", "mean", "max")),
    set_layer(8, 15, 16, 16),
    average(31, 16),
    orbit_gramian(20),
    orbit_regularizer(9, 12),
)

OTHERS = (
    *(turns("se2_lift_conv2d", 8, n, 3, side, filters=32) for n, side in ((16, 32), (7, 33), (4, 128))),
    *(turns("se2_conv2d", *sizes) for sizes in ((8, 8, 16, 32), (6, 7, 9, 33), (8, 16, 16, 32, 3))),
    *(turned_filters(*sizes) for sizes in ((8, 32, 32, 5), (6, 33, 17, 7), (8, 64, 64, 3))),
    turned_filters(8, 64, 64, 5, lift=True),
    *(
        moved(group, g, *sizes)
        for group, g in (("p4", 1), ("p4m", 6))
        for sizes in ((16, 32, 32), (7, 9, 65), (16, 32, 64))
    ),
    *(expanded(group, *sizes) for group in ("p4", "p4m") for sizes in ((32, 32, 3), (33, 17, 5), (64, 64, 3))),
    expanded("p4m", 256, 64, 5, lift=True),
    *(pooled(mode, 8, *sizes) for mode in MODES for sizes in ((16, 32, 32), (7, 9, 65), (16, 32, 64))),
    *(
        pooled_sets(mode, *sizes)
        for mode in ("sum", "mean", "max")
        for sizes in ((64, 100, 64), (33, 257, 33), (64, 1000, 128))
    ),
    *(set_layer(*sizes) for sizes in ((64, 100, 64, 64), (33, 257, 33, 65), (64, 500, 128, 128))),
    *(average(n, d) for n, d in ((256, 64), (1001, 65), (1000, 256))),
    *(orbit_gramian(d) for d in (64, 257, 512)),
    *(orbit_regularizer(d, n) for d, n in ((32, 21), (64, 32), (33, 55))),
)
