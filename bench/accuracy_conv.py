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
FILTERS, SIDE, IMAGES = 32, 28, 4


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


def weight_errors(channels: tuple[int, ...] = CHANNELS, dtypes: tuple[str, ...] = DTYPES) -> dict:
    """The same of the gradient of as many filters, beside the plain sum over pixels.

    That is the middle of the gradient of 5 x 5 filters, for which there is no other algorithm.
    """
    errors = {}
    for dtype in dtypes:
        for count in channels:
            rng = np.random.default_rng(SEED)
            x = np.maximum(0, rng.standard_normal((IMAGES, count, SIDE, SIDE))).astype(dtype)
            grad = rng.standard_normal((IMAGES, count, SIDE, SIDE)).astype(dtype)

            def gradient(k, padding, x=x, grad=grad):
                return fastdl.conv.conv2d_weight(x, (len(grad[0]), len(x[0]), k, k), grad, padding=padding)

            found = {"ours": gradient(3, 1), "plain sum": gradient(5, 2)[:, :, 1:4, 1:4]}
            if find_spec("torch") is not None:
                import torch

                found["torch"] = torch.nn.grad.conv2d_weight(
                    torch.from_numpy(x), (count, count, 3, 3), torch.from_numpy(grad), padding=1
                ).numpy()
            # Some channels will do for the truth, a sum over windows in more digits.
            some = slice(0, 8)
            windows = np.lib.stride_tricks.sliding_window_view(
                np.pad(wide(x[:, some]), ((0, 0), (0, 0), (1, 1), (1, 1))), (SIDE, SIDE), axis=(2, 3)
            )
            truth = np.einsum("nohw,ncijhw->ocij", wide(grad[:, some]), windows)
            size = np.sqrt(np.mean(np.square(truth)))
            errors[dtype, count] = {
                name: float(np.sqrt(np.mean(np.square(wide(values[some, some]) - truth))) / size)
                for name, values in found.items()
            }
    return errors


def section(errors: dict, weights: dict) -> str:
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
        "error of `direct`.\n\n"
        + report.in_markdown(["dtype", "channels", *names, "auto / direct"], rows)
        + f"\n\nThe same of the gradient of 3 by 3 filters, as many as channels, {IMAGES} images of {SIDE} by {SIDE}; "
        "the plain sum over pixels is the middle of the gradient of 5 by 5 filters.\n\n" + _table(weights)
    )


def _table(weights: dict) -> str:
    names = list(next(iter(weights.values())))
    rows = [
        [dtype, str(count), *(f"{found[name]:.1e}" for name in names), f"{found['ours'] / found['plain sum']:.2f}"]
        for (dtype, count), found in weights.items()
    ]
    return report.in_markdown(["dtype", "channels", *names, "ours / plain sum"], rows)
