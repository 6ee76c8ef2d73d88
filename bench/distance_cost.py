"""What accurate distances cost on ordinary data: ``python bench/distance_cost.py [threads]``.

‖x‖² + ‖y‖² - 2 x·y is one matrix product, but cancels. The library centres the samples, looks at every difference, and
sums anew those that are a small share of their terms (up to 8 features, all of them). `distance_cost.cpp` has rbf both
ways, in the same engine with the same exponential; it is compiled here, with the flags of the library. The first of
them is the library's own rbf to the bit, or it says so.

Ordinary are independent normal features, and the handwritten digits of scikit-learn, as they are and enlarged to 32 x
32 pixels, if it is there. Times are the best of interleaved rounds; on a machine that others use they mean little.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import fastdl  # noqa: E402
import machine  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402

SECONDS = 2.0  # of every row
# Samples and features: summed directly, the fewest with products, and more up to small images.
SIZES = ((2048, 4), (2048, 9), (2048, 16), (2048, 64), (2048, 128), (2048, 784))
VECTOR_BYTES = {"avx2": 32, "avx512": 64}
FLAGS = ("-O3", "-DNDEBUG", "-std=c++20", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


def compiled(folder: Path) -> ctypes.CDLL:
    """Compile both ways for the instruction set in use."""
    compiler, level, root = machine.find_compiler(), machine.active_level(), HERE.parent
    if compiler is None:
        raise SystemExit("a C++ compiler is needed")
    target = folder / "distance_cost.so"
    core = [root / "csrc/core" / name for name in ("cache.cpp", "scratch.cpp", "threads.cpp")]
    command = [compiler, *FLAGS, *machine.COMPILER_FLAGS[level], "-shared", "-fPIC", "-pthread", "-DFASTDL_STATIC"]
    command += [f"-DFASTDL_LEVEL={level}", f"-DFASTDL_VECTOR_BYTES={VECTOR_BYTES.get(level, 16)}"]
    command += [f"-DFASTDL_HAVE_{level.upper()}=1", *(["-DFASTDL_NEON=1"] if level == "neon" else [])]
    # Our own headers from here, and from where it is installed the one that the build writes.
    folders = (root / "csrc", root / "csrc/include", fastdl.get_include())
    command += [*(f"-I{path}" for path in folders), HERE / "distance_cost.cpp", *core]
    subprocess.run([*command, "-o", target], check=True)
    return ctypes.CDLL(str(target))


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def calls(code: ctypes.CDLL, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray) -> dict[str, Callable[[], None]]:
    """One call of each way on the same samples into the same place."""
    n, d = X.shape
    m = n if Y is None else Y.shape[0]
    sizes = [ctypes.c_int64(size) for size in (n, m, d)]
    function, gamma = getattr(code, f"rbf_{X.dtype}"), ctypes.c_double(1 / d)
    return {
        name: partial(function, pointer(X), pointer(Y), *sizes, gamma, plain, pointer(out))
        for name, plain in (("accurate", 0), ("plain", 1))
    }


def data() -> list[tuple[str, np.ndarray]]:
    """Ordinary samples."""
    rng = np.random.default_rng(20240607)
    found = [("normal", rng.standard_normal(size)) for size in SIZES]
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return found
    digits = load_digits().images
    large = np.kron(digits, np.ones((4, 4))).reshape(len(digits), -1)
    return [*found, ("digits", load_digits().data), ("digits, enlarged", large)]


def main(arguments: list[str]) -> int:
    """Measure with all processors, or as many threads as are named, and print."""
    threads, rows = int(arguments[0]) if arguments else machine.available_cores(), []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        code = compiled(Path(folder))
        code.set_threads(threads)
        for dtype in ("float32", "float64"):
            for name, samples in data():
                X = np.ascontiguousarray(samples, dtype)
                for Y, sets in ((None, "one set"), (X[::-1].copy(), "two sets")):
                    out = np.empty((len(X), len(X)), dtype)
                    both = calls(code, X, Y, out)
                    both["accurate"]()
                    if not np.array_equal(out, fastdl.gram.rbf(X, Y)):
                        print(f"not what the library computes: {name} {X.shape} {dtype}", file=sys.stderr)
                    times = measure.interleave(both, seconds=SECONDS, settle=False)
                    best = {way: min(times[way][0]) for way in both}
                    cost = best["accurate"] / best["plain"] - 1
                    milliseconds = [f"{1e3 * best[way]:.2f}" for way in ("plain", "accurate")]
                    rows.append([dtype, name, sets, f"{len(X)} x {X.shape[1]}", *milliseconds, f"{100 * cost:+.0f} %"])
                    print(*rows[-1], file=sys.stderr, flush=True)
    print(f"rbf on {machine.processor()['cpu']}, {machine.active_level()}, {threads} threads\n")
    print(report.in_markdown(["dtype", "data", "samples of", "size", "plain ms", "accurate ms", "cost"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
