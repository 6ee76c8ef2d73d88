"""What the figures were measured on: the machine, its measured peaks, and the versions of everything involved."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import threadpoolctl

import fastdl
import foreign
from fastdl import _dispatch

HERE = Path(__file__).resolve().parent

# An instruction set of fastdl, as compilers call it: a level is judged by what its own instructions can do.
COMPILER_FLAGS = {"baseline": (), "avx2": ("-mavx2", "-mfma"), "avx512": ("-mavx512f", "-mfma"), "neon": ()}

# Each of the three arrays of the triad, in bytes: beyond the caches of all but the largest servers.
TRIAD_BYTES = 64 << 20


def available_cores() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment() -> dict[str, str]:
    """The environment of a measuring process: no number of threads or kernels set for one library only."""
    held = ("FASTDL_NUM_THREADS", "OPENBLAS_", "OMP_", "MKL_", "GOTO_")
    return {name: value for name, value in os.environ.items() if not name.startswith(held)}


def thread_counts() -> tuple[int, ...]:
    """One thread, and all there are."""
    return tuple(sorted({1, available_cores()}))


def levels() -> tuple[str, ...]:
    """Instruction sets of fastdl on this machine, the widest last."""
    return () if _dispatch.core is None else tuple(_dispatch.core.isas())


def active_level() -> str:
    """The instruction set calls run on, "native" where fastdl itself has none."""
    return "native" if _dispatch.core is None else _dispatch.core.isa()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def processor() -> dict:
    """Model, cores, caches and instruction sets, as far as the system tells."""
    model, flags = platform.processor() or platform.machine(), ""
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        if key.strip() in ("flags", "Features"):
            flags = value
    interesting = ("sse", "avx", "fma", "asimd", "sve", "amx")
    caches = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        caches[f"L{_read(folder / 'level')} {_read(folder / 'type').lower()}"] = _read(folder / "size")
    return {
        "cpu": model,
        "architecture": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "available_cores": available_cores(),
        "caches": caches,
        "instruction_sets": sorted({flag for flag in flags.split() if flag.startswith(interesting)}),
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def blas() -> dict:
    """The matrix products behind NumPy: library, version, and the kernels it chose for this processor."""
    numpy_libraries = [
        pool
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas" and "scipy.libs" not in pool["filepath"] and "torch" not in pool["filepath"]
    ]
    first = numpy_libraries[0] if numpy_libraries else {}
    # No "filepath": records are published, and where things lie on one machine is nobody's business.
    return {name: first.get(name) for name in ("internal_api", "version", "architecture", "threading_layer")}


def versions() -> dict:
    """Versions of the language and of every library that takes part."""
    rivals = ("torch", "scikit-learn", "pykeops", "kymatio", "e2cnn", "scipy")
    names = ("numpy", "array-api-compat", *rivals, "threadpoolctl", "pytest-benchmark")
    here = {name: _version(name) for name in names}
    elsewhere = {name: foreign.version(name) for name in foreign.INTERPRETERS}
    return {"python": platform.python_version(), **here, **elsewhere, "blas": blas()}


def library() -> dict:
    """The configuration of fastdl, with compiler and flags, without the folder it lies in."""
    configuration = fastdl.show_config(mode="dicts")
    return {name: configuration[name] for name in ("version", "backend", "native", "build", "isa", "isas", "threads")}


def revision() -> dict:
    """The commit of the checkout, and whether there were changes on top of it; results do not count as changes."""

    def git(*arguments: str) -> str | None:
        # No optional locks: a measurement must not get in the way of someone at work in the same checkout.
        command = ["git", "--no-optional-locks", *arguments]
        try:
            done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short=10", "HEAD")
    changes = git("status", "--porcelain", "--", ".", ":(exclude)bench/results")
    return {"commit": commit or "unknown", "dirty": None if changes is None else bool(changes)}


def find_compiler() -> str | None:
    """The C++ compiler of the system, if there is one."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return name
    return None


def _compile(compiler: str, flags: tuple[str, ...], folder: Path) -> ctypes.CDLL | None:
    target = folder / f"peak{''.join(flags)}.so"
    command = [compiler, "-O3", "-std=c++17", "-shared", "-fPIC", "-pthread", *flags, HERE / "peak.cpp", "-o", target]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        return None
    code = ctypes.CDLL(str(target))
    for function in (code.multiply_add_f32, code.multiply_add_f64, code.triad):
        function.restype = ctypes.c_double
    return code


def _best_time(call: Callable[[], object], seconds: float) -> float:
    call()
    best, stop = np.inf, time.perf_counter() + seconds
    while best == np.inf or time.perf_counter() < stop:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def _peaks_without_compiler(seconds: float) -> dict:
    top = levels()[-1] if levels() else "native"
    rates: dict = {}
    for dtype in ("float32", "float64"):
        X = np.random.default_rng(0).standard_normal((1024, 1024)).astype(dtype)
        Y = X[::-1].copy()
        rates[dtype] = {}
        for threads in thread_counts():
            with threadpoolctl.threadpool_limits(threads):
                rates[dtype][str(threads)] = 2 * 1024**3 / _best_time(lambda X=X, Y=Y: X @ Y, seconds) / 1e9
    source = np.ones(TRIAD_BYTES // 8)
    target = np.empty_like(source)
    best = _best_time(lambda: np.copyto(target, source), seconds)
    return {
        "method": "no C++ compiler was found: the best 1024³ product of NumPy, and the bandwidth of a copy",
        "gflops": {top: rates},
        "vector_bytes": {},
        "bandwidth": {"1": 2 * TRIAD_BYTES / best / 1e9},
    }


def peaks(seconds: float = 0.3) -> dict:
    """Measure GF/s by instruction set, dtype and number of threads, and GB/s by number of threads.

    Each figure takes `seconds`, after the compiler's own time.
    """
    compiler = find_compiler()
    if compiler is None:
        return _peaks_without_compiler(seconds)
    wanted = {level: COMPILER_FLAGS.get(level, ("-march=native",)) for level in levels()}
    gflops: dict = {}
    vector_bytes: dict = {}
    bandwidth: dict = {}
    # Where the library cannot be unloaded the folder cannot be removed; it is the system's to clean then.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for level, flags in (wanted or {"native": ("-march=native",)}).items():
            code = _compile(compiler, flags, Path(folder))
            if code is None:
                continue
            vector_bytes[level] = code.vector_bytes()
            gflops[level] = {}
            for dtype, function in (("float32", code.multiply_add_f32), ("float64", code.multiply_add_f64)):
                rates = {n: function(n, ctypes.c_double(seconds)) / 1e9 for n in thread_counts()}
                # All processors are no slower than one; if it looked so, someone else was using them.
                gflops[level][dtype] = {str(n): max(rates[n], rates[1]) for n in rates}
            triad = code.triad
        if gflops:
            elements = ctypes.c_size_t(TRIAD_BYTES // 8)
            bandwidth = {str(n): triad(n, ctypes.c_double(seconds), elements) / 1e9 for n in thread_counts()}
    if not gflops:
        return _peaks_without_compiler(seconds)
    return {
        "method": "independent chains of multiply-adds in registers, and the STREAM triad (bench/peak.cpp)",
        "gflops": gflops,
        "vector_bytes": vector_bytes,
        "bandwidth": bandwidth,
    }


if __name__ == "__main__":
    import json

    print(json.dumps({**processor(), "peaks": peaks(), "versions": versions(), "fastdl": library()}, indent=1))
