"""Fixtures that run a test on every backend and instruction set this machine has, and restore what they set."""

import os
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    # Without the extension the import warns; the suite must pass so, and warnings are errors in it.
    warnings.simplefilter("ignore", RuntimeWarning)
    import fastdl
import cuda_device
from fastdl import _dispatch

core = _dispatch.core
NATIVE = core is not None and os.environ.get("FASTDL_BACKEND") != "reference"
ISAS = tuple(core.isas()) if NATIVE else ()
WHY_NOT = pytest.mark.skip(reason=f"needs the compiled extension: {_dispatch.missing or 'FASTDL_BACKEND=reference'}")

_NATIVE_LEVELS = list(ISAS) or [pytest.param("native", marks=WHY_NOT)]


def pytest_addoption(parser):
    parser.addoption("--large", action="store_true", help="run tests of arrays beyond 2^31 elements")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--large"):
        for item in items:
            if "large" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="takes gigabytes: --large"))


def pytest_sessionfinish():
    """Tell tests/cuda_launches.py which kernels this process has emulated."""
    folder = os.environ.get("FASTDL_CUDA_LAUNCHES")
    if folder:
        cuda_device.tell_launches(folder)


def _use(level):
    """Compute on `level`, an instruction set or "reference", until resumed."""
    with fastdl.backend("reference" if level == "reference" else "native"):
        if level == "reference":
            yield level
        else:
            before = core.isa()
            core.set_isa(level)
            try:
                assert core.isa() == level
                yield level
            finally:
                core.set_isa(before)


@pytest.fixture(params=[*_NATIVE_LEVELS, "reference"])
def level(request):
    """Run on every instruction set and on the reference."""
    yield from _use(request.param)


@pytest.fixture(params=_NATIVE_LEVELS)
def native_level(request):
    """Run on every instruction set: for promises that only compiled code makes."""
    yield from _use(request.param)


@pytest.fixture
def native():
    """Skip without compiled code."""
    if not NATIVE:
        pytest.skip(WHY_NOT.kwargs["reason"])
    with fastdl.backend("native"):
        yield core


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Run in both precisions."""
    return np.dtype(request.param)


@pytest.fixture
def rng():
    """Random numbers, the same in every run."""
    return np.random.default_rng(20240607)


@pytest.fixture
def keep_threads():
    """Restore the number of threads of the process."""
    before = fastdl.get_num_threads()
    yield
    fastdl.set_num_threads(before)


@pytest.fixture(params=cuda_device.WORLDS)
def cuda(request, monkeypatch):
    """Run on the CUDA kernels, emulated and as nvcc compiles them, in one or more orders of threads."""
    yield cuda_device.use(*request.param, monkeypatch)
