"""The CUDA kernels as nvcc compiles them: what ptxas says of them, what is in their PTX, and faults that are found.

What they compute is tested through the Python interface by test_cuda_<family>.py, in the worlds of cuda_device.py.
"""

import importlib
import os
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "bench").is_dir():
    pytest.skip("needs a source checkout", allow_module_level=True)
sys.path.insert(0, str(ROOT / "bench"))
import cuda_resources  # noqa: E402
from fastdl import _dispatch  # noqa: E402

PTXSIM = os.environ.get("FASTDL_PTXSIM")
# Fewer warps than this hide neither memory nor arithmetic on a multiprocessor.
LEAST_WARPS = 8
# Of the five that docs/cuda/resources.md has, the one that most machines with a GPU are like.
ARCHITECTURE = 80

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc"),
    pytest.mark.skipif(_dispatch.core is None, reason="an install without kernels says nothing of them"),
]


@cache
def kernels():
    return cuda_resources.kernels((ARCHITECTURE,))


@cache
def ptx():
    return {source.name: cuda_resources.ptx(source) for source in sorted(cuda_resources.CUDA.glob("*.cu"))}


def test_there_are_kernels_of_every_family():
    assert {kernel.source.split("_")[0].split(".")[0] for kernel in kernels()} >= {
        "conv",
        "gram",
        "group",
        "hebbian",
        "scattering",
        "strided",
    }


def test_resources():
    """No spills, launch bounds everywhere, and the warps on a multiprocessor that they ask for."""
    for kernel in kernels():
        assert kernel.spilled == 0, kernel
        assert kernel.threads > 0, kernel
        assert kernel.warps >= max(LEAST_WARPS, kernel.blocks * kernel.threads // 32), kernel


def test_no_atomics():
    """No result depends on the order in which threads come."""
    for source, text in ptx().items():
        assert not re.search(r"\b(atom|red)\.", text), source


@pytest.mark.parametrize("type_, mode", [(t, m) for t in ("f32", "f64") for m in ("rectangle", "triangle")])
def test_instructions_of_the_engine(type_, mode):
    """What its design rests on is in the PTX: fused chains, 16-byte accesses, no local memory."""
    letter, number = {"f32": "f", "f64": "d"}[type_], {"rectangle": 0, "triangle": 1}[mode]
    entries = re.split(r"\.visible \.entry ", ptx()["gram.cu"])[1:]
    name = rf"\w*productILNS\w+4ModeE{number}ENS\w+OperandI{letter}\w+IdentityE"
    text = next(entry for entry in entries if re.match(name, entry))
    vector = "v4.f32" if type_ == "f32" else "v2.f64"
    for access in ("ld.global", "ld.shared", "st.shared", "st.global"):
        assert f"{access}.{vector}" in text, access
    # 64 chains a thread, two steps of each at a time; a few more find the place of a tile.
    assert 128 <= len(re.findall(rf"\bfma\.rn\.{type_}", text)) < 128 + 8
    assert not re.search(r"\b(ld|st)\.local\b", text)
    # The next slice is asked for before the products of this one, between one barrier and the next.
    loop = text.split("bar.sync")[1]
    assert loop.index("ld.global") < loop.index("fma.rn")


# ---- faults put in on purpose, in the PTX ----

# The simulator leaves it to Python to close the files that it reads.
untidy = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    if not PTXSIM:
        pytest.skip("needs FASTDL_PTXSIM, the folder of ptxsim")
    folder = tmp_path_factory.mktemp("faults")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PTXSIM_CACHE", str(folder))
        patch.syspath_prepend(PTXSIM)
        simulator = importlib.import_module("ptxsim")
        source = folder / "faults.cu"
        source.write_text('#include "cuda_faults.cuh"')
        flags = ["-std=c++20", f"-I{ROOT / 'cuda'}", f"-I{ROOT / 'tests' / 'cpp'}"]
        yield simulator.load_cu(str(source), flags=flags)


ORDERS = ("fwd", "rev", "random")
COUNT = 96


@untidy
def test_a_removed_barrier_is_a_race(faults):
    values = np.arange(COUNT, dtype=np.int32)
    wrong = 0
    for order in ORDERS:
        for barrier in (1, 0):
            out = np.zeros(COUNT, np.int32)
            faults.launch("reverse_values", 1, COUNT, [values, out, np.uint8(barrier)], smem=4 * COUNT, order=order)
            if barrier:
                assert (out == values[::-1]).all()
            else:
                wrong += (out != values[::-1]).any()
    assert wrong


@untidy
def test_a_race_depends_on_the_order(faults):
    found = set()
    for order in ORDERS:
        out = np.zeros(1, np.int32)
        faults.launch("last_writer", 1, COUNT, [out], order=order)
        found.add(int(out[0]))
    assert len(found) > 1


@untidy
@pytest.mark.parametrize(
    "kernel, arguments, message",
    [
        ("barrier_or_shuffle", [np.zeros(COUNT, np.int32)], "deadlock|barrier"),
        ("off_by_one", [np.zeros(COUNT - 1, np.int32), np.int32(COUNT - 1)], "out-of-bounds|out of bounds"),
        ("unaligned", [np.zeros(4 * COUNT + 4, np.float32), np.zeros(4 * COUNT, np.float32)], "misaligned"),
    ],
)
def test_a_fault_is_reported(faults, kernel, arguments, message):
    with pytest.raises(RuntimeError, match=f"(?i){message}"):
        faults.launch(kernel, 1, COUNT, arguments)
