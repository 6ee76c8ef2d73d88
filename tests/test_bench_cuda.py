"""The contenders of the benchmarks on a GPU, as far as they can be tried without one."""

import sys
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
