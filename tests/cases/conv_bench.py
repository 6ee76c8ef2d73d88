"""What of fastdl.conv is benchmarked: a line a case."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import conv_formulas as formulas
from cases.bench_case import BenchCase, normal, some
from cases.conv_layers import LENET5, MOBILENET_DEPTHWISE, RESNET50, VGG16


@dataclass(frozen=True)
class ConvCase(BenchCase):
    """A call of a convolution or of one of its gradients; with groups, of one channel and one filter each.

    `result` is the shape of the result.
    """

    result: tuple[int, ...] = ()

    family = "conv"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the channels of the result that there is time for, of its first and last image or filter."""
        if self.terms <= budget:
            return inputs, ...
        count, channels = self.result[:2]
        first = some(count, 0.0)
        others = some(channels, budget / self.terms * count / len(first))
        both = np.ix_(first, others)
        if self.name.endswith("_input"):
            size = (len(first), len(others), *inputs["input_size"][2:])
            subset = {"input_size": size, "w": inputs["w"][:, others], "grad": inputs["grad"][first]}
        elif self.name.endswith("_weight"):
            size = (len(first), len(others), *inputs["weight_size"][2:])
            subset = {"x": inputs["x"][:, others], "weight_size": size, "grad": inputs["grad"][:, first]}
        elif inputs["groups"] == 1:
            subset = {"x": inputs["x"][first], "w": inputs["w"][others]}
        else:
            subset = {"x": inputs["x"][both], "w": inputs["w"][others], "groups": len(others)}
        return {**inputs, **subset}, both


@dataclass(frozen=True)
class SignalCase(BenchCase):
    """A call of convolve or correlate in full."""

    family = "conv"
    formulas = formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the corner of the result at its beginning: what is valid of f with zeros before it."""
        f, h = inputs["f"], inputs["h"]
        if f.size * h.size <= budget:
            return inputs, ...
        side = max(2, int((budget / h.size) ** (1 / f.ndim)))
        corner = tuple(slice(0, min(side, n)) for n in f.shape)
        padded = np.pad(f[corner], [(m - 1, 0) for m in h.shape])
        return {**inputs, "f": padded, "mode": "valid"}, corner


def conv(name: str, n: int, layer: tuple[int, ...], *, of: str = "", padding: int | None = None, depthwise=False):
    """Take a convolution, or a gradient of it, of n images by a layer (see conv_layers); `of` names the network.

    Signals and volumes are images of one side and of three.
    """
    channels, filters, side, k, stride = layer
    padding = k // 2 if padding is None else padding
    groups = channels if depthwise else 1
    axes = int(name[4])
    out = (side + 2 * padding - k) // stride + 1
    x, w, y = (n, channels) + axes * (side,), (filters, channels // groups) + axes * (k,), (n, filters) + axes * (out,)

    def arrays(rng, dtype):
        if name.endswith("_input"):
            return {"input_size": x, "w": normal(rng, w, dtype), "grad": normal(rng, y, dtype)}
        if name.endswith("_weight"):
            return {"x": normal(rng, x, dtype), "weight_size": w, "grad": normal(rng, y, dtype)}
        return {"x": normal(rng, x, dtype), "w": normal(rng, w, dtype)}

    size: dict[str, int | str] = {"of": of} if of else {}
    size |= {"n": n, "channels": channels} if depthwise else {"n": n, "channels": channels, "filters": filters}
    size |= {"side": side, "k": k} if stride == 1 else {"side": side, "k": k, "stride": stride}
    terms = float(math.prod(y) * math.prod(w[1:]))
    result = x if name.endswith("_input") else w if name.endswith("_weight") else y
    parameters = {"stride": stride, "padding": padding, "groups": groups}
    return ConvCase(name, size, arrays, parameters, 2 * terms, terms=terms, result=result)


def signal(name: str, f: tuple[int, ...], h: tuple[int, ...]) -> SignalCase:
    def arrays(rng, dtype):
        return {"f": normal(rng, f, dtype), "h": normal(rng, h, dtype)}

    size = {"f": "x".join(map(str, f)), "h": "x".join(map(str, h))}
    # Of transforms, whose flops are no measure of anything.
    terms = 5 * math.prod(f) * math.log2(math.prod(f))
    return SignalCase(name, size, arrays, terms=terms)


# ---- what is run ----
def resnet(name: str, n: int, layer: tuple[int, ...]) -> ConvCase:
    return conv(name, n, layer, of="ResNet-50")


# The rows the project's goals are stated for.
GOAL_LAYERS = (
    (64, 64, 56, 3, 1),
    (128, 128, 28, 3, 1),
    (256, 256, 14, 3, 1),
    (512, 512, 7, 3, 1),
    (64, 256, 56, 1, 1),
    (256, 64, 56, 1, 1),
    (3, 64, 224, 7, 2),
)
GOALS = (
    *(resnet(name, 8, layer) for name in ("conv2d", "conv2d_input", "conv2d_weight") for layer in GOAL_LAYERS),
    conv("conv2d", 64, (1, 8, 28, 5, 1), padding=0),
    resnet("conv2d", 1, (64, 64, 56, 3, 1)),
    conv("conv2d", 8, (128, 128, 56, 3, 1), of="MobileNet", depthwise=True),
    signal("convolve", (1_000_000,), (1_000,)),
    signal("convolve", (1024, 1024), (64, 64)),
)

# Time against the side of the image, the channels and the batch, odd ones among them: name of the axis, how to make a
# case, points, all points.
SIDES = (7, 8, 13, 14, 15, 27, 28, 29, 31, 32, 33, 55, 56, 57, 63, 64, 65, 97, 111, 112)
CHANNELS = (3, 8, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 192, 256)
IMAGES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 64)
SERIES = (
    ("side", lambda side: conv("conv2d", 1, (64, 64, side, 3, 1)), (7, 13, 28, 57, 112), SIDES),
    ("channels", lambda channels: conv("conv2d", 8, (channels, channels, 28, 3, 1)), (16, 129), CHANNELS),
    ("n", lambda n: conv("conv2d", n, (64, 64, 28, 3, 1)), (1, 4, 16), IMAGES),
)

BATCHES = (1, 8, 32)
LAYERS = tuple(
    conv("conv2d", n, layer, of=network, **options)
    for n in BATCHES
    for network, layers, options in (
        ("ResNet-50", RESNET50, {}),
        ("VGG-16", VGG16, {}),
        ("MobileNet", MOBILENET_DEPTHWISE, {"depthwise": True}),
        ("LeNet-5", LENET5, {"padding": 0}),
    )
    for layer in layers
)

SIGNALS = (
    signal("convolve", (100_003,), (31,)),
    signal("convolve", (65_536,), (65_536,)),
    signal("convolve", (511, 509), (7, 7)),
    signal("convolve", (2048, 2048), (255, 255)),
    signal("convolve", (96, 96, 96), (9, 9, 9)),
    signal("correlate", (1_000_000,), (1_000,)),
    signal("correlate", (1024, 1024), (64, 64)),
)

# So small that a loop in Python takes part.
SMALL = (
    *(
        conv(f"conv{axes}{gradient}", 1, layer)
        for axes, layer in (
            ("1d", (8, 8, 100, 5, 1)),
            ("2d", (4, 4, 16, 3, 1)),
            ("3d", (3, 3, 7, 3, 1)),
        )
        for gradient in ("", "_input", "_weight")
    ),
    *(signal(name, (255,), (31,)) for name in ("convolve", "correlate")),
    *(signal(name, (31, 33), (5, 5)) for name in ("convolve", "correlate")),
)

# Signals and volumes as speech and video have them, and sizes that fit nothing: batch, and layer.
SPEECH = (
    (16, (64, 64, 1024, 3, 1)),
    (4, (127, 65, 2001, 7, 1)),
    (8, (1, 64, 16_000, 10, 5)),
    (1, (256, 256, 8192, 3, 1)),
)
VIDEO = ((2, (16, 16, 16, 3, 1)), (1, (17, 33, 31, 3, 1)), (1, (32, 32, 33, 3, 2)), (2, (64, 64, 28, 3, 1)))
AXES = tuple(
    conv(f"conv{axes}d{gradient}", n, layer)
    for axes, layers in ((1, SPEECH), (3, VIDEO))
    for n, layer in layers
    for gradient in ("", "_input", "_weight")
)
