"""What of fastdl.group is benchmarked: a line a case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import group_formulas as formulas
from cases.bench_case import BenchCase, normal, some
from cases.group import order


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
        if self.name == "conv2d_input":
            size = (len(first), len(others), *inputs["input_size"][2:])
            subset = {"input_size": size, "w": inputs["w"][:, others], "grad": inputs["grad"][first]}
        elif self.name == "conv2d_weight":
            size = (len(first), len(others), *inputs["weight_size"][2:])
            subset = {"x": inputs["x"][:, others], "weight_size": size, "grad": inputs["grad"][:, first]}
        else:
            subset = {"x": inputs["x"][first], "w": inputs["w"][others]}
        return {**inputs, **subset}, np.ix_(first, others)


def layer(name: str, group: str, n: int, channels: int, side: int, k: int = 3, stride: int = 1) -> GroupCase:
    """Take a group convolution, or a gradient of it, of n images from as many channels to as many."""
    padding, elements = k // 2, order(group)
    out = (side + 2 * padding - k) // stride + 1
    x, w = (n, channels, elements, side, side), (channels, channels, elements, k, k)
    y = (n, channels, elements, out, out)

    def arrays(rng, dtype):
        if name == "conv2d_input":
            return {"input_size": x, "w": normal(rng, w, dtype), "grad": normal(rng, y, dtype)}
        if name == "conv2d_weight":
            return {"x": normal(rng, x, dtype), "weight_size": w, "grad": normal(rng, y, dtype)}
        return {"x": normal(rng, x, dtype), "w": normal(rng, w, dtype)}

    size: dict[str, int | str] = {"group": group, "n": n, "channels": channels, "side": side, "k": k}
    if stride != 1:
        size["stride"] = stride
    # Those of the convolution with expanded filters, as everyone counts them.
    terms = float(math.prod(y) * math.prod(w[1:]))
    result = {"conv2d_input": x, "conv2d_weight": w}.get(name, y)
    parameters = {"group": group, "stride": stride, "padding": padding}
    return GroupCase(name, size, arrays, parameters, 2 * terms, terms=terms, result=result)


# The rows the project's goals are stated for.
GOALS = tuple(
    layer(name, group, 16, 32, 32) for group in ("p4", "p4m") for name in ("conv2d", "conv2d_input", "conv2d_weight")
)

# Time against channels and against the side: name of the axis, how to make a case, points, all points.
CHANNELS = (4, 8, 12, 16, 24, 32, 48, 64)
SIDES = (8, 9, 12, 15, 16, 17, 24, 28, 32, 33, 48, 64)
SERIES = (
    ("channels", lambda channels: layer("conv2d", "p4", 16, channels, 16), (4, 16, 64), CHANNELS),
    ("side", lambda side: layer("conv2d", "p4", 16, 16, side), (8, 64), SIDES),
)

OTHERS = (
    *(
        layer("conv2d", group, 16, channels, side)
        for group in ("p4", "p4m")
        for channels in (4, 64)
        for side in (8, 64)
    ),
    *(layer("conv2d", group, 16, 32, 32) for group in ("p2", "pm")),
    *(layer("conv2d", group, 16, 16, 32, k=5) for group in ("p4", "p4m")),
    *(layer("conv2d", group, 16, 32, 33, stride=2) for group in ("p4", "p4m")),
)
