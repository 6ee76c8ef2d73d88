"""What of fastdl.group is benchmarked: a line a case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import group_formulas as formulas
from cases.bench_case import BenchCase, normal, some
from cases.group import order, rotations_and_flips
from fastdl.group import Group

LAYOUTS = ("torch", "torch nhwc")


@dataclass(frozen=True)
class GroupCase(BenchCase):
    """A call of a group convolution or of one of its gradients; `result` is the shape of the result."""

    result: tuple[int, ...] = ()

    family = "group"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the channels of the result that there is time for, of its first and last image or filter."""
        if self.terms <= budget:
            return inputs, ...
        count, channels = self.result[:2]
        first = some(count, 0.0)
        others = some(channels, budget / self.terms * count / len(first))
        if self.name.endswith("_input"):
            size = (len(first), len(others), *inputs["input_size"][2:])
            subset = {"input_size": size, "w": inputs["w"][:, others], "grad": inputs["grad"][first]}
        elif self.name.endswith("_weight"):
            size = (len(first), len(others), *inputs["weight_size"][2:])
            subset = {"x": inputs["x"][:, others], "weight_size": size, "grad": inputs["grad"][:, first]}
        else:
            subset = {"x": inputs["x"][first], "w": inputs["w"][others]}
        return {**inputs, **subset}, np.ix_(first, others)


@dataclass(frozen=True)
class FiniteCase(BenchCase):
    """A call of `convolve` on a finite group."""

    family = "group"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take some of the functions."""
        if self.terms <= budget:
            return inputs, ...
        f, h = inputs["f"], inputs["h"]
        chosen = some(len(f), budget / self.terms)
        return {**inputs, "f": f[chosen], "h": h if h.ndim == 1 else h[chosen]}, chosen


@dataclass(frozen=True)
class SignatureCase(BenchCase):
    """A call of `signature`."""

    family = "group"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take some of the samples."""
        if self.terms <= budget:
            return inputs, ...
        chosen = some(len(inputs["x"]), budget / self.terms)
        return {**inputs, "x": inputs["x"][chosen]}, chosen


def layer(
    name: str,
    group: str,
    n: int,
    channels: int,
    side: int,
    k: int = 3,
    stride: int = 1,
    *,
    filters: int = 0,
    of: str = "",
    rivals: tuple[str, ...] = (),
) -> GroupCase:
    """Take a group convolution, or a gradient of it, of n images, from as many channels to as many unless said."""
    padding, filters = k // 2, filters or channels
    out = (side + 2 * padding - k) // stride + 1
    elements = () if name.startswith("lift") else (order(group),)
    x, w = (n, channels, *elements, side, side), (filters, channels, *elements, k, k)
    y = (n, filters, order(group), out, out)

    def arrays(rng, dtype):
        if name.endswith("_input"):
            return {"input_size": x, "w": normal(rng, w, dtype), "grad": normal(rng, y, dtype)}
        if name.endswith("_weight"):
            return {"x": normal(rng, x, dtype), "weight_size": w, "grad": normal(rng, y, dtype)}
        return {"x": normal(rng, x, dtype), "w": normal(rng, w, dtype)}

    size: dict[str, int | str] = {"of": of} if of else {}
    size |= {"group": group, "n": n, "channels": channels}
    if filters != channels:
        size["filters"] = filters
    size |= {"side": side, "k": k}
    if stride != 1:
        size["stride"] = stride
    # Those of the convolution with expanded filters, as everyone counts them.
    terms = float(math.prod(y) * math.prod(w[1:]))
    result = x if name.endswith("_input") else w if name.endswith("_weight") else y
    parameters = {"group": group, "stride": stride, "padding": padding}
    return GroupCase(name, size, arrays, parameters, 2 * terms, terms=terms, rivals=rivals, result=result)


def finite(label: str, n: int, make: Callable[[], Group], count: int, pairs: bool = False) -> FiniteCase:
    """Take so many functions on a group of n elements, each with one of its own or all with one."""

    def arrays(rng, dtype):
        h = (count, n) if pairs else n
        return {"f": normal(rng, (count, n), dtype), "h": normal(rng, h, dtype), "group": make()}

    size: dict[str, int | str] = {"group": label, "order": n, "f": count, "h": count if pairs else 1}
    return FiniteCase("convolve", size, arrays, terms=float(count * n * n))


def signature(n: int, templates: int, d: int) -> SignatureCase:
    """Take orbits under the turns and flips of d points on a circle."""
    orders = rotations_and_flips(d)

    def arrays(rng, dtype):
        # Products of the size of the thresholds, where sigmoids are neither 0 nor 1.
        return {"x": normal(rng, (n, d), dtype) / dtype.type(d), "templates": normal(rng, (templates, d), dtype)}

    size: dict[str, int | str] = {"n": n, "templates": templates, "d": d, "order": len(orders)}
    terms = float(n * templates * d * len(orders))
    parameters = {"permutations": orders, "thresholds": [-0.5, 0.0, 0.5], "nonlinearity": "sigmoid"}
    return SignatureCase("signature", size, arrays, parameters, 2 * terms, terms=terms)


PASSES = ("conv2d", "conv2d_input", "conv2d_weight")

# The rows the project's goals are stated for.
GOALS = tuple(layer(name, group, 16, 32, 32) for group in ("p4", "p4m") for name in PASSES)

# Time against channels, the side and the batch: name of the axis, how to make a case, points, all points.
CHANNELS = (4, 8, 12, 16, 24, 32, 48, 64)
SIDES = (8, 9, 12, 15, 16, 17, 24, 28, 32, 33, 48, 64)
IMAGES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 64)
SERIES = (
    ("channels", lambda channels: layer("conv2d", "p4", 16, channels, 16, rivals=LAYOUTS), (4, 16, 64), CHANNELS),
    ("side", lambda side: layer("conv2d", "p4", 16, 16, side, rivals=LAYOUTS), (8, 64), SIDES),
    ("n", lambda n: layer("conv2d", "p4", n, 16, 16, rivals=LAYOUTS), (1, 17), IMAGES),
)

# All passes of both groups from few channels to many and from small images to large: no point may fall behind.
SWEEP = tuple(
    layer(name, group, 8, channels, side, of="sweep", rivals=LAYOUTS)
    for group in ("p4", "p4m")
    for name in PASSES
    for channels in (4, 8, 16, 32, 64)
    for side in (8, 16, 32, 64)
)

OTHERS = (
    *(
        layer("conv2d", group, 16, channels, side, rivals=LAYOUTS)
        for group in ("p4", "p4m")
        for channels in (4, 64)
        for side in (8, 64)
    ),
    *(layer(name, group, 16, 32, 32) for group in ("p2", "pm") for name in PASSES),
    *(layer("conv2d", group, 16, 16, 32, k=5) for group in ("p4", "p4m")),
    *(layer(name, group, 16, 32, 33, stride=2) for group in ("p4", "p4m") for name in PASSES),
    *(
        layer(f"lift_{name}", group, 16, 3, 32, k, filters=32)
        for group in ("p4", "p4m")
        for k in (3, 5)
        for name in PASSES
    ),
    signature(256, 128, 64),
    signature(1000, 10, 256),
    # One pair, many f with one h, and many pairs.
    *(
        finite(*group, *counts)
        for group in (
            ("C1024", 1024, lambda: Group.cyclic(1024)),
            ("D512", 1024, lambda: Group.dihedral(512)),
            ("S6", 720, lambda: Group.symmetric(6)),
        )
        for counts in ((1,), (256,), (64, True))
    ),
    finite("S5", 120, lambda: Group.symmetric(5), 1024),
    finite("S5", 120, lambda: Group.symmetric(5), 1024, True),
    finite("D32", 64, lambda: Group.dihedral(32), 1024, True),
    finite("D4", 8, lambda: Group.dihedral(4), 10_000, True),
)

# So small that a loop in Python takes part.
SMALL = (
    *(layer(name, "p4", 1, 2, 8, rivals=LAYOUTS) for name in PASSES),
    *(layer(f"lift_{name}", "p4m", 1, 2, 9, filters=4) for name in PASSES),
    signature(8, 5, 16),
    finite("S4", 24, lambda: Group.symmetric(4), 33),
    finite("D12", 24, lambda: Group.dihedral(12), 33, True),
)
