"""Large images and long signals, which kernels take one at a time: against the definition, and what they promise."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdl
from cases import scattering_formulas as formulas
from fastdl.scattering import Scattering1D, Scattering2D

# From about 181 x 181 padded pixels and 16384 padded samples on: see wants_rasters in csrc/scattering/plan_raster.cpp.
IMAGES = [
    dict(J=2, shape=(190, 175), L=2),
    dict(J=4, shape=(176, 208), L=3),
    dict(J=3, shape=(64, 600), L=2),
    dict(J=2, shape=(181, 251), L=2, max_order=1),
]
SIGNALS = [
    dict(J=6, shape=8192, Q=2),
    dict(J=4, shape=10000, Q=(1, 1), T=300),
    dict(J=5, shape=9001, Q=3, oversampling=1),
    dict(J=3, shape=20000, Q=1, max_order=1, normalization="mean"),
]
# Windows of many thousand samples, by rasters and by lanes (a batch of signals that do not divide into rows).
LONG_AVERAGES = [dict(J=12, shape=32768, max_order=1), dict(J=6, shape=65536, T=8192, max_order=1)]
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def transform(arguments):
    return (Scattering2D if isinstance(arguments["shape"], tuple) else Scattering1D)(**arguments)


def shape_of(arguments):
    shape = arguments["shape"]
    return shape if isinstance(shape, tuple) else (shape,)


def defined(arguments, x):
    if isinstance(arguments["shape"], tuple):
        return formulas.scattering2d(x, **{key: value for key, value in arguments.items() if key != "shape"})
    S = transform(arguments)
    return formulas.scattering1d(x, S.meta(), S.N_padded, S.T, S.oversampling, S.max_order, S.normalization)


@pytest.mark.parametrize("arguments", [*IMAGES, *SIGNALS, *LONG_AVERAGES], ids=str)
def test_against_the_definition(level, dtype, rng, arguments):
    x = rng.standard_normal((2, *shape_of(arguments))).astype(dtype)
    found = transform(arguments)(x)
    assert found.dtype == dtype
    for one, expected in zip(found, x, strict=True):
        assert relative(one, defined(arguments, expected)) <= TOLERANCE[dtype.name]


@pytest.mark.parametrize("arguments", [IMAGES[0], SIGNALS[1]], ids=str)
def test_same_bits_for_any_threads_and_any_batch(level, dtype, rng, arguments):
    S = transform(arguments)
    x = rng.standard_normal((5, *shape_of(arguments))).astype(dtype)
    with fastdl.threads(1):
        alone = S(x)
    with fastdl.threads(3):
        assert S(x).tobytes() == alone.tobytes()
    for first, end in ((0, 1), (1, 3), (4, 5)):
        assert S(x[first:end]).tobytes() == alone[first:end].tobytes()


@pytest.mark.parametrize("arguments", [IMAGES[0], SIGNALS[1]], ids=str)
def test_nan_stays_in_its_image(dtype, rng, arguments):
    S = transform(arguments)
    x = rng.standard_normal((3, *shape_of(arguments))).astype(dtype)
    clean = S(x)
    x[1].flat[7] = np.nan
    found = S(x)
    assert np.isnan(found[1, 1:]).all()  # that of order 0 is an average, of windows
    assert np.isnan(found[1, 0]).any()
    assert found[[0, 2]].tobytes() == clean[[0, 2]].tobytes()


@pytest.mark.parametrize("arguments", [*IMAGES, *SIGNALS], ids=str)
def test_gradient_of_the_reference(level, dtype, rng, arguments):
    S = transform(arguments)
    x = rng.standard_normal((2, *shape_of(arguments))).astype(dtype)
    grad = rng.standard_normal(S(x).shape).astype(dtype)
    with fastdl.backend("reference"):
        expected = S.vjp(x.astype(np.float64), grad.astype(np.float64))
    # Moduli near 0 have directions of few digits.
    assert relative(S.vjp(x, grad), expected) <= {"float32": 3e-4, "float64": 1e-10}[dtype.name]


@pytest.mark.parametrize("arguments", [IMAGES[0], SIGNALS[1]], ids=str)
def test_same_bits_of_gradients_for_any_threads_and_any_batch(level, dtype, rng, arguments):
    S = transform(arguments)
    x = rng.standard_normal((5, *shape_of(arguments))).astype(dtype)
    grad = rng.standard_normal(S(x).shape).astype(dtype)
    with fastdl.threads(1):
        alone = S.vjp(x, grad)
    for threads in (2, 3):
        with fastdl.threads(threads):
            assert S.vjp(x, grad).tobytes() == alone.tobytes()
    for first, end in ((0, 1), (1, 3), (4, 5)):
        assert S.vjp(x[first:end], grad[first:end]).tobytes() == alone[first:end].tobytes()


MEMORY = """
import sys
import numpy as np
from pathlib import Path
import fastdl
from fastdl.scattering import Scattering1D, Scattering2D

def resident(what):
    status = Path("/proc/self/status").read_text()
    return int(status.partition(what)[2].split()[1]) / 1024

fastdl.set_num_threads(2)
S = {"image": lambda: Scattering2D(3, (1024, 1024), L=2), "signal": lambda: Scattering1D(8, 2**18, Q=2)}[sys.argv[1]]()
x = np.ones((0, *S.shape), np.float32)
grad = np.ones(S(x).shape[1:], np.float32)  # the plan is made, and nothing was computed yet
x = np.ones(S.shape, np.float32)
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
result = S.vjp(x, grad)
print(resident("VmHWM") - before - result.nbytes / 2**20)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel tells no peaks")
@pytest.mark.parametrize("kind", ["image", "signal"])
def test_gradients_take_grids_of_one_image(native, kind):
    done = subprocess.run([sys.executable, "-c", MEMORY, kind], capture_output=True, text=True, check=True)
    # Six grids a thread and two a call, of 4.5 MB the image's, of which signals' are less; a lane-full of grids is 400.
    assert float(done.stdout) <= 72


@pytest.mark.parametrize("arguments", [IMAGES[0], SIGNALS[1]], ids=str)
def test_gradient_along_a_direction(rng, arguments):
    S = transform(arguments)
    x, direction = rng.standard_normal((2, *shape_of(arguments)))
    grad = rng.standard_normal(S(x).shape)
    step = 1e-5
    difference = np.sum(grad * (S(x + step * direction) - S(x - step * direction))) / (2 * step)
    assert np.sum(S.vjp(x, grad) * direction) == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("arguments", [IMAGES[1], SIGNALS[1]], ids=str)
def test_moments_are_those_of_the_reference(level, dtype, rng, arguments):
    S = transform(arguments)
    x = rng.standard_normal(shape_of(arguments)).astype(dtype)
    with fastdl.backend("reference"):
        expected = S.moments(x.astype(np.float64))
    assert relative(S.moments(x), expected) <= TOLERANCE[dtype.name]
