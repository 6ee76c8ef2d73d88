"""A GPU, where there is one: our CUDA kernels, the reference on CuPy arrays, and the formulas of torch on its tensors.

Arrays are brought to the device beforehand and results stay on it; every call is timed until the device has done it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import fastdl
import rivals_torch
from cases.bench_case import BenchCase

OURS_ON_CUDA = "fastdl cuda"

# The reference may keep every term in memory: so many take 8 GB in float64, and more than one copy may be kept.
LARGEST_CUPY = 1e9

Maker = Callable[..., Callable[[], Any]]


class Device(NamedTuple):
    """How arrays come to the device, and how to wait for it."""

    upload: Callable[[np.ndarray], Any]
    wait: Callable[[], None]


@cache
def cupy_device() -> Device | None:
    """CuPy's, if there is one."""
    if find_spec("cupy") is None:
        return None
    import cupy

    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return None
    except cupy.cuda.runtime.CUDARuntimeError:
        return None
    return Device(cupy.asarray, cupy.cuda.runtime.deviceSynchronize)


@cache
def torch_device() -> Device | None:
    """PyTorch's, if there is one."""
    if find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    return Device(lambda array: torch.from_numpy(array).cuda(), torch.cuda.synchronize)


def _waited(call: Callable[[], Any], device: Device) -> Callable[[], Any]:
    def waited() -> Any:
        result = call()
        device.wait()
        return result

    return waited


def on_device(case: BenchCase, device: Device, backend: str) -> Maker:
    """Our function on arrays of the device, by its kernels or by the reference."""

    def make(**inputs: Any) -> Callable[[], Any]:
        # Tables of a group stay where they are; places of maxima were computed with the numbers, and lie with them.
        there = {
            name: device.upload(value)
            if isinstance(value, np.ndarray) and (value.dtype.kind == "f" or name == "indices")
            else value
            for name, value in inputs.items()
        }
        call = case.caller(there)

        def computed() -> Any:
            with fastdl.backend(backend):
                return call()

        return _waited(computed, device)

    return make


def installed(case: BenchCase, of_torch: Maker | None) -> dict[str, Maker]:
    """Who takes part on a GPU; nobody where there is none."""
    makers: dict[str, Maker] = {}
    if not case.on_devices:
        return makers
    ours, theirs = cupy_device() or torch_device(), torch_device()
    if ours is not None and fastdl.show_config("dicts")["cuda"]:
        makers[OURS_ON_CUDA] = on_device(case, ours, "cuda")
    invited = not case.rivals or "cupy" in case.rivals
    if cupy_device() is not None and invited and case.terms <= LARGEST_CUPY:
        makers["cupy"] = on_device(case, cupy_device(), "reference")
    if theirs is not None and of_torch is not None:

        def of_tensors(**inputs: Any) -> Callable[[], Any]:
            with rivals_torch.on("cuda"):
                return _waited(of_torch(**inputs), theirs)

        makers["torch cuda"] = of_tensors
    return makers
