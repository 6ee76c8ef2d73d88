"""Records of benchmarks made by hand, and the modules of the suite, for tests of what is said of records."""

import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1] / "bench"


@contextmanager
def modules(*names):
    """Modules of the suite by name, found as its own processes find them, and forgotten afterwards."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(BENCH))
    try:
        yield {name: import_module(name) for name in names}
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == BENCH:
                del sys.modules[name]


def timing(best, median=None, spread=0.0, rounds=5, **more):
    """A contender's times; `more` may have its memory."""
    return {"best": best, "median": best if median is None else median, "spread": spread, "rounds": rounds, **more}


def group(function, contenders, *, series="", size=None, dtype="float32", threads=2, isa="avx2", **more):
    """A row; contenders are times or what `timing` gives."""
    size = {"n": 8} if size is None else size
    named = " ".join(f"{name}={value}" for name, value in size.items())
    parts = (function, named, dtype, f"threads={threads}", isa, series)
    return {
        "label": " ".join(part for part in parts if part),
        "family": function.split(".")[0],
        "function": function,
        "size": size,
        "dtype": dtype,
        "threads": threads,
        "flops": 0.0,
        "entries": 0.0,
        "series": series,
        "symmetric": False,
        "isa": isa,
        "contenders": {name: value if isinstance(value, dict) else timing(value) for name, value in contenders.items()},
        **more,
    }


def record(*groups, **more):
    """A complete run on a quiet machine of two cores, 40 GB/s and 200 GF/s."""
    return {
        "date": "2026-01-02T03:04:05+00:00",
        "commit": "0123456789",
        "dirty": False,
        "mode": "quick",
        "complete": True,
        "seconds": 12.0,
        "load": 0.0,
        "machine": {
            "cpu": "A processor",
            "cores": 2,
            "available_cores": 2,
            "caches": {"L1 data": "32K"},
            "peaks": {
                "method": "a measurement",
                "gflops": {"avx2": {"float32": {"1": 100.0, "2": 200.0}}},
                "vector_bytes": {"avx2": 32},
                "bandwidth": {"1": 20.0, "2": 40.0},
            },
        },
        "fastdl": {
            "version": "0.1",
            "build": "GNU 12.2.0",
            "isa": "avx2",
            "isas": ["baseline", "avx2"],
            "threads": 2,
        },
        "versions": {
            "python": "3.11",
            "numpy": "2.4",
            "blas": {"internal_api": "openblas", "version": "0.3", "architecture": "Haswell"},
        },
        "timings": list(groups),
        "skipped": [],
        "failed": [],
        **more,
    }
