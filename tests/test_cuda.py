"""The CUDA kernels as nvcc compiles them: what ptxas says of them, and what their PTX computes, executed by ptxsim.

The same sources executed by the host compiler are in tests/cpp/test_cuda_emulation.cpp.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cases import layouts
from cases.gram import linear_expected, linear_tolerance

CUDA = Path(__file__).parents[1] / "cuda"
NVCC = shutil.which("nvcc")
GXX = shutil.which("g++")
PTXSIM = os.environ.get("FASTDL_PTXSIM")
COMPILE = (NVCC, "-std=c++20", "-Werror", "all-warnings", "-I", CUDA)
KERNELS = {
    "f32 general": "productIfLb0E",
    "f32 symmetric": "productIfLb1E",
    "f64 general": "productIdLb0E",
    "f64 symmetric": "productIdLb1E",
}

needs_nvcc = pytest.mark.skipif(NVCC is None, reason="needs nvcc")
needs_ptxsim = pytest.mark.skipif(
    NVCC is None or not PTXSIM or GXX is None,
    reason="needs nvcc, g++ and FASTDL_PTXSIM, the folder of ptxsim",
)


def output(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# ---- what ptxas says ----


def architectures():
    """The oldest and the newest that this nvcc knows, and those of the A100 and the H100."""
    if NVCC is None:
        return [80, 90]
    known = sorted(int(name) for name in re.findall(r"compute_(\d+)\b", output(NVCC, "--list-gpu-arch")))
    return sorted({known[0], 80, 90, known[-1]} & set(known))


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    """Registers, spills and shared memory by architecture and kernel."""
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures()]
    target = tmp_path_factory.mktemp("cubin") / "gram.fatbin"
    text = output(*COMPILE, "-fatbin", *codes, "--threads", "2", "-Xptxas", "-v", CUDA / "gram.cu", "-o", target)
    pattern = (
        r"Compiling entry function '(\w+)' for 'sm_(\d+)'.*?"
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
        r"Used (\d+) registers.*?(\d+) bytes smem"
    )
    found = {}
    for name, architecture, stack, stores, loads, registers, shared in re.findall(pattern, text, re.DOTALL):
        (kernel,) = (key for key, part in KERNELS.items() if part in name)
        found[int(architecture), kernel] = {
            "stack": int(stack) + int(stores) + int(loads),
            "registers": int(registers),
            "shared": int(shared),
        }
    return found


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    """The kernels' PTX by name."""
    target = tmp_path_factory.mktemp("ptx") / "gram.ptx"
    output(*COMPILE, "-ptx", f"-arch=compute_{architectures()[0]}", CUDA / "gram.cu", "-o", target)
    entries = re.split(r"\.visible \.entry ", target.read_text())[1:]
    return {key: next(entry for entry in entries if part in entry[:200]) for key, part in KERNELS.items()}


@needs_nvcc
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("architecture", architectures())
def test_resources(resources, ptx, architecture, kernel):
    """No spills, and as many blocks on a multiprocessor as the launch bounds ask for."""
    used = resources[architecture, kernel]
    threads = int(re.search(r"\.maxntid (\d+)", ptx[kernel])[1])
    blocks = int(re.search(r"\.minnctapersm (\d+)", ptx[kernel])[1])
    budget = min(65536 // (threads * blocks) // 8 * 8, 255)
    assert used["stack"] == 0, used
    assert used["registers"] <= budget, (used, budget)
    assert blocks * (used["shared"] + 1024) <= 64 << 10, "more than the 64 KB of sm_75"


@needs_nvcc
@pytest.mark.parametrize("kernel", KERNELS)
def test_instructions(ptx, kernel):
    """What the design rests on is in the PTX: fused chains, 16-byte accesses, no atomics and no local memory."""
    text = ptx[kernel]
    vector = "v4.f32" if "f32" in kernel else "v2.f64"
    for access in ("ld.global", "ld.shared", "st.shared", "st.global"):
        assert f"{access}.{vector}" in text, access
    # 64 chains a thread along a slice of 32 bytes, unrolled once; a few more find the place of a tile.
    chains = 64 * (8 if "f32" in kernel else 4)
    assert chains <= len(re.findall(rf"\bfma\.rn\.{vector[3:]}", text)) < chains + 8
    assert not re.search(r"\b(atom|red|ld\.local|st\.local)\b", text)


# ---- what the PTX computes ----

# The launcher behind a C interface: m < 0 means Y absent. The host compiler makes the emulation of the same file.
SHIM = r"""
#include <cstring>
#include <exception>
#include "gram.cu"

template <class Call>
int guarded(char* message, Call call) {
  try {
    call();
#if defined(__CUDACC__)
    if (cudaError_t error = cudaDeviceSynchronize()) throw std::runtime_error(cudaGetErrorString(error));
#endif
    return 0;
  } catch (const std::exception& error) {
    std::strncpy(message, error.what(), 999);
    return 1;
  }
}

using Index = std::int64_t;
#define LINEAR(name, T)                                                                                            \
  extern "C" int name(const T* x, Index n, Index xr, Index xc, const T* y, Index m, Index yr, Index yc, Index d,   \
                      T* k, Index kr, char* message) {                                                             \
    return guarded(message, [&] {                                                                                  \
      if (m < 0)                                                                                                   \
        fastdl::gram::cuda::linear(x, n, xr, xc, d, k, kr, nullptr);                                               \
      else                                                                                                         \
        fastdl::gram::cuda::linear(x, n, xr, xc, y, m, yr, yc, d, k, kr, nullptr);                                 \
    });                                                                                                            \
  }
LINEAR(linear_float32, float)
LINEAR(linear_float64, double)

__global__ void nothing() {}
extern "C" int launch_nothing(int threads, char* message) {
  return guarded(message, [&] { fastdl::cuda::launch("gram.nothing", nothing, {dim3(1), dim3(threads)}); });
}
"""


def byte_bounds(array):
    """Where the elements of a strided array begin and end in memory. (NumPy 1 and 2 have it under different names.)"""
    if array.size == 0:
        return 0, 0
    steps = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    start = array.ctypes.data
    return start + sum(s for s in steps if s < 0), start + sum(s for s in steps if s > 0) + array.itemsize


class Kernels:
    """The launcher in a shared library, on memory of its own."""

    def __init__(self, path, runtime=None):
        self.library = ctypes.CDLL(str(path))
        self.runtime = runtime

    def call(self, name, *arguments):
        message = ctypes.create_string_buffer(1000)
        if getattr(self.library, name)(*arguments, message):
            raise RuntimeError(message.value.decode())

    def allocate(self, count):
        """Device memory of exactly so many bytes, so that the next one is out of bounds."""
        if self.runtime is None:
            memory = ctypes.create_string_buffer(max(count, 1) + 256)
            address = -(-ctypes.addressof(memory) // 256) * 256
            return memory, address
        pointer = ctypes.c_void_p()
        assert self.runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(count)) == 0
        return pointer, pointer.value or 0

    def free(self, memory):
        if self.runtime is not None:
            assert self.runtime.cudaFree(memory) == 0

    def linear(self, X, Y=None, padding=0):
        """X Yᵀ, with X and Y laid out on the device as they are here, and K with rows `padding` longer."""
        held = []

        def upload(array):
            low, high = byte_bounds(array)
            memory, address = self.allocate(high - low)
            held.append(memory)
            ctypes.memmove(address, low, high - low)
            strides = [stride // array.itemsize for stride in array.strides]
            return ctypes.c_void_p(address + array.ctypes.data - low if array.size else 0), strides

        x, x_strides = upload(X)
        y, y_strides = (ctypes.c_void_p(0), [0, 0]) if Y is None else upload(Y)
        n, m = len(X), len(X) if Y is None else len(Y)
        width = m + padding
        # Not a byte after the last element.
        size = max((n - 1) * width + m, 0) * X.itemsize if n and m else 0
        memory, address = self.allocate(size)
        held.append(memory)
        ctypes.memset(address, 0xAB, size)
        wide = [ctypes.c_int64(v) for v in (n, *x_strides, -1 if Y is None else m, *y_strides, X.shape[1], width)]
        self.call(f"linear_{X.dtype}", x, *wide[:3], y, *wide[3:7], ctypes.c_void_p(address), wide[7])
        flat = np.zeros(n * width, X.dtype)
        ctypes.memmove(flat.ctypes.data, address, size)
        for memory in held:
            self.free(memory)
        result = flat.reshape(n, width)
        between = result[:-1, m:].tobytes() if n and m else b""
        assert set(between) <= {0xAB}, "wrote between the rows of K"
        return result[:, :m]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """The shim built by nvcc over ptxsim's runtime, and by g++ over the emulation."""
    folder = tmp_path_factory.mktemp("ptxsim")
    shim = folder / "shim.cu"
    shim.write_text(SHIM)
    with pytest.MonkeyPatch.context() as patch:
        # ptxsim translates with the python3 it finds first, which must have NumPy, and compiles with the g++ it finds
        # first, which takes 60 s with -O2 and 15 s with -Og. (With -O0 the stacks of its fibers are too small.)
        quick = folder / "bin" / "g++"
        quick.parent.mkdir()
        quick.write_text(f'#!/bin/sh\nexec "{GXX}" "$@" -Og\n')
        quick.chmod(0o755)
        patch.setenv("PATH", os.pathsep.join([str(quick.parent), str(Path(sys.executable).parent), os.environ["PATH"]]))
        # Nothing is cached in the tree or at home.
        patch.setenv("PTXSIM_CACHE", str(folder / "cache"))
        patch.setenv("TMPDIR", str(folder))
        runtime = folder / "runtime"
        output("make", "-s", "-C", Path(PTXSIM).resolve(), f"OUT={runtime}")
        output(
            *(*COMPILE, "-arch=compute_75", "--no-compress", "-cudart", "none", "-shared", "-Xcompiler", "-fPIC"),
            *(shim, "-o", folder / "ptx.so", f"-L{runtime}", "-lcudartsim", "-Xlinker", f"-rpath={runtime}"),
        )
        output(GXX, "-std=c++20", "-O1", "-fPIC", "-shared", "-I", CUDA, "-x", "c++", shim, "-o", folder / "host.so")
        simulated = Kernels(folder / "ptx.so", ctypes.CDLL(str(runtime / "libcudartsim.so")))
        yield simulated, Kernels(folder / "host.so")


ORDERS = ("fwd", "rev", "random")
SIZES = (
    (0, 3, 4),
    (3, 0, 4),
    (5, 4, 0),
    (1, 1, 1),
    (7, 9, 8),
    (17, 15, 33),
    (33, 31, 7),
    (65, 63, 9),
    (129, 7, 5),
    (5, 130, 17),
    (131, 129, 3),
)


@needs_ptxsim
@pytest.mark.parametrize("n,m,d", SIZES)
def test_ptx_sizes(build, rng, monkeypatch, dtype, n, m, d):
    simulated, emulated = build
    X, Y = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d)).astype(dtype)
    general, symmetric = emulated.linear(X, Y), emulated.linear(X)
    for order in ORDERS:
        monkeypatch.setenv("CUDASIM_ORDER", order)
        K = simulated.linear(X, Y, padding=3)
        S = simulated.linear(X)
        assert K.shape == (n, m) and S.shape == (n, n)
        assert (np.abs(K - linear_expected(X, Y)) <= linear_tolerance(X, Y)).all()
        assert (np.abs(S - linear_expected(X)) <= linear_tolerance(X)).all()
        assert S.tobytes() == S.T.tobytes()
        # One chain of fused multiply-adds in a fixed order: every world must round alike.
        assert K.tobytes() == general.tobytes() and S.tobytes() == symmetric.tobytes()


@needs_ptxsim
def test_ptx_layouts(build, rng, monkeypatch, dtype):
    simulated, emulated = build
    X, Y = rng.standard_normal((66, 10)).astype(dtype), rng.standard_normal((70, 10)).astype(dtype)
    padded = np.zeros((66, 12), dtype)
    padded[:, :10] = X
    shifted = np.zeros(66 * 12 + 1, dtype)[1:].reshape(66, 12)
    shifted[:, :10] = X
    all_layouts = [*layouts(X), ("padded", padded[:, :10]), ("shifted", shifted[:, :10])]
    expected = emulated.linear(X, Y)
    for order, (name, laid) in ((order, layout) for order in ORDERS for layout in all_layouts):
        monkeypatch.setenv("CUDASIM_ORDER", order)
        assert simulated.linear(laid, Y).tobytes() == expected.tobytes(), (name, order)
        assert simulated.linear(laid, padding=2).tobytes() == emulated.linear(X).tobytes(), (name, order)


@needs_ptxsim
def test_refused_launch(build):
    """A launch that the runtime refuses is an exception with the function's name, in both worlds."""
    for kernels in build:
        kernels.call("launch_nothing", ctypes.c_int(32))
        with pytest.raises(RuntimeError, match=r"^\[gram.nothing\] expected .*, got"):
            kernels.call("launch_nothing", ctypes.c_int(1025))
        kernels.call("launch_nothing", ctypes.c_int(32))
