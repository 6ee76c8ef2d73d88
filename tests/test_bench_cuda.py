"""The contenders of the benchmarks on a GPU, as far as they can be tried without one."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
if not BENCH.is_dir():
    pytest.skip("needs a source checkout", allow_module_level=True)
pytest.importorskip("threadpoolctl")
sys.path.insert(0, str(BENCH))

import measure  # noqa: E402
import rivals_cuda  # noqa: E402
from cases.gram_bench import SMALLEST  # noqa: E402
from cuda_device import Array, to_device  # noqa: E402


def test_nobody_without_a_device(monkeypatch):
    for name in ("cupy_device", "torch_device"):
        monkeypatch.setattr(rivals_cuda, name, lambda: None)
    assert rivals_cuda.installed(SMALLEST, lambda **inputs: None) == {}


@pytest.mark.parametrize(
    "changes, takes_part",
    [
        ({}, True),
        ({"terms": rivals_cuda.LARGEST_CUPY}, True),
        ({"terms": 2 * rivals_cuda.LARGEST_CUPY}, False),
        ({"rivals": ("keops", "cupy")}, True),
        ({"rivals": ("keops",)}, False),
        ({"rivals": ("cupy",), "terms": 2 * rivals_cuda.LARGEST_CUPY}, False),
    ],
)
def test_cupy_where_it_can_keep_up(monkeypatch, changes, takes_part):
    device = rivals_cuda.Device(to_device, lambda: None)
    monkeypatch.setattr(rivals_cuda, "cupy_device", lambda: device)
    monkeypatch.setattr(rivals_cuda, "torch_device", lambda: None)
    monkeypatch.setattr(rivals_cuda.fastdl, "show_config", lambda mode: {"cuda": True})
    others = {"cupy"} if takes_part else set()
    assert set(rivals_cuda.installed(replace(SMALLEST, **changes), None)) == {rivals_cuda.OURS_ON_CUDA, *others}


@pytest.mark.parametrize("backend", ["cuda", "reference"])
def test_on_the_device(cuda, rng, backend):
    waited = []
    device = rivals_cuda.Device(to_device, lambda: waited.append(True))
    inputs = SMALLEST.make(rng, np.dtype(np.float64))
    call = rivals_cuda.on_device(SMALLEST, device, backend)(**inputs)
    result = call()
    assert waited == [True] and type(result) is Array
    X = inputs["X"]
    np.testing.assert_allclose(measure.as_numpy(result), X @ X.T, rtol=1e-12, atol=1e-12)
