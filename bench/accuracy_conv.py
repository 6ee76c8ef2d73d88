"""The accuracy of 3 x 3 convolutions by algorithm and number of channels: a section of docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

import fastdl
import machine
import report
from cases import wide
from cases.conv import conv_expected

SEED = 20240607
CHANNELS = (4, 8, 16, 32, 64, 128, 256, 512)
DTYPES = ("float32", "float64")
FILTERS, SIDE = 32, 28


def contenders() -> dict[str, Callable]:
    """The algorithms, and torch if it is there."""

    def ours(algorithm: str) -> Callable:
        return lambda x, w: fastdl.conv.conv2d(x, w, padding=1, algorithm=algorithm)

    here = {algorithm: ours(algorithm) for algorithm in ("direct", "winograd", "auto")}
    if find_spec("torch") is not None:
        import torch

        here["torch"] = lambda x, w: torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding=1).numpy()
    return here


def relative_errors(channels: tuple[int, ...] = CHANNELS, dtypes: tuple[str, ...] = DTYPES) -> dict:
    """Root mean square error over root mean square result, {name: error} by (dtype, channels)."""
    errors = {}
    for dtype in dtypes:
        for count in channels:
            rng = np.random.default_rng(SEED)
            # What a layer sees after a ReLU, and filters as layers begin with.
            x = np.maximum(0, rng.standard_normal((1, count, SIDE, SIDE))).astype(dtype)
            w = (rng.standard_normal((FILTERS, count, 3, 3)) * np.sqrt(2 / (9 * count))).astype(dtype)
            truth = conv_expected(x, w, padding=1)
            size = np.sqrt(np.mean(np.square(truth)))
            errors[dtype, count] = {
                name: float(np.sqrt(np.mean(np.square(wide(call(x, w)) - truth))) / size)
                for name, call in contenders().items()
            }
    return errors


def section(errors: dict) -> str:
    """The section, from what was measured."""
    names = list(next(iter(errors.values())))
    rows = [
        [dtype, str(count), *(f"{found[name]:.1e}" for name in names), f"{found['auto'] / found['direct']:.2f}"]
        for (dtype, count), found in errors.items()
    ]
    return (
        f"## Convolutions\n\nRoot mean square error over the root mean square of the result: {FILTERS} filters of 3 by "
        f"3 on an image of {SIDE} by {SIDE} after a ReLU, by algorithm and number of channels "
        f"({machine.active_level()}). "
        "True values: float64 for float32, extended precision for float64. What `auto` chooses is allowed 4 times the "
        "error of `direct`.\n\n" + report.in_markdown(["dtype", "channels", *names, "auto / direct"], rows)
    )
