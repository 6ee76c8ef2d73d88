"""The matrix-product engine against NumPy's sgemm and dgemm: by size, type, instruction set and threads.

The product is X Yᵀ into a given result, so that only the product is timed, not the first touch of new memory. Each
instruction set runs in a process of its own (`passes`), with NumPy's OpenBLAS held to the same instructions.
"""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np

import fastdl
import machine
from measure import FEWEST_ROUNDS, OURS, Disagreement, Group, Prepared

NUMPY = "numpy"
SEED = 20240607
DTYPES = ("float32", "float64")

# n, m, d of X (n, d) and Y (m, d); m is None for Y = X. Cubes, then sizes that fit no tile.
SHAPES = (
    (256, 256, 256),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (500, 300, 2000),
    (4096, None, 512),
)

# Also with --full.
MORE_SHAPES = ((512, 512, 512), (1000, 1000, 1000), (1023, 1023, 1023), (1025, 1025, 1025))

# The instruction sets below the widest of a machine are there for others' machines: these will do in a quick run.
SHAPES_OF_LOWER_LEVELS = ((1024, 1024, 1024),)

# No common divisor with a tile or a vector, so that every kind of edge is met.
SWEEP = range(64, 1101, 345)
SWEEP_FULL = range(64, 1101, 7)

# Of a full run, so that on a machine that others use too each contender meets a quiet moment: the goals are stated as
# ratios of a few per cent. The slowest level has none.
MORE_ROUNDS = 15

# OpenBLAS kernels with the instructions of a level, the best first. The baseline is SSE2; of the kernels without AVX
# those for Nehalem are the fastest, and releases differ in which of them they carry.
BLAS_KERNELS = {"avx2": ("Haswell", "Zen"), "baseline": ("Nehalem", "Core2", "Prescott")}


def _honoured(kernels: str) -> bool:
    """Whether NumPy's OpenBLAS takes kernels it is told to take; it falls back on others without a word."""
    code = f"import machine; print(machine.blas()['architecture'] == {kernels!r})"
    environment = {**machine.environment(), "OPENBLAS_CORETYPE": kernels}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=machine.HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip() == "True"


def passes() -> list[tuple[str, dict[str, str]]]:
    """Instruction set and environment of each process the family runs in: the widest first."""
    result = []
    for level in reversed(machine.levels()):
        environment = {"FASTDL_ISA": level}
        if level != machine.levels()[-1] and platform.machine() in ("x86_64", "AMD64"):
            kernels = next((name for name in BLAS_KERNELS.get(level, ()) if _honoured(name)), None)
            if kernels is not None:
                environment["OPENBLAS_CORETYPE"] = kernels
        result.append((level, environment))
    return result


def _prepare(n: int, m: int | None, d: int, dtype: str) -> Prepared:
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((n, d)).astype(dtype)
    Y = X if m is None else rng.standard_normal((m, d)).astype(dtype)
    result = {name: np.empty((n, Y.shape[0]), dtype) for name in (OURS, NUMPY)}
    linear = fastdl.gram.linear
    calls = {
        # linear sees that Y is X, and so does NumPy, which then calls syrk: both compute one triangle.
        OURS: lambda: linear(X, Y, out=result[OURS]),
        NUMPY: lambda: np.matmul(X, Y.T, out=result[NUMPY]),
    }
    # Each is within d eps |x||y| of the truth (Cauchy and Schwarz), so they are within twice that of each other.
    lengths = [np.linalg.norm(rows.astype(np.float64), axis=1) for rows in (X, Y)]
    bound = 2 * d * np.finfo(dtype).eps * np.multiply.outer(*lengths)

    def check(name: str, got: np.ndarray) -> None:
        if name == OURS:
            return  # it is what the other is compared with
        error = np.abs(got.astype(np.float64) - result[OURS])
        if not np.all(error <= bound):
            raise Disagreement(f"engine and NumPy differ by {np.max(error / bound):.3g} times the error bound")

    return Prepared(calls, check, (X, Y))


def _group(
    n: int, m: int | None, d: int, dtype: str, threads: int, isa: str, series: str = "", rounds: int = FEWEST_ROUNDS
) -> Group:
    return Group(
        family="engine",
        function="engine",
        size={"n": n, "m": n if m is None else m, "d": d},
        dtype=dtype,
        threads=threads,
        # One triangle with its diagonal is all that has to be computed of a symmetric result.
        flops=float(n * (n + 1) * d) if m is None else 2.0 * n * m * d,
        contenders=(OURS, NUMPY),
        prepare=lambda: _prepare(n, m, d, dtype),
        alone={name: lambda name=name: _prepare(n, m, d, dtype).calls[name] for name in (OURS, NUMPY)},
        series=series,
        symmetric=m is None,
        isa=isa,
        rounds=rounds,
    )


def groups(full: bool, isa: str) -> list[Group]:
    """The table, then the sweep, on one instruction set; quick, one thread and the sweep are of float32."""
    widest = (isa,) == machine.levels()[-1:]
    shapes = SHAPES + MORE_SHAPES if full else SHAPES if widest else SHAPES_OF_LOWER_LEVELS
    sweep = (SWEEP_FULL if full else SWEEP) if widest else ()
    every = [(dtype, threads) for dtype in DTYPES for threads in reversed(machine.thread_counts())]
    most = machine.thread_counts()[-1]
    settings = [setting for setting in every if full or setting[0] == DTYPES[0] or setting[1] == most]
    swept = [setting for setting in settings if full or setting == (DTYPES[0], most)]
    rounds = MORE_ROUNDS if full and isa != "baseline" else FEWEST_ROUNDS
    return [
        *(_group(n, m, d, dtype, threads, isa, rounds=rounds) for dtype, threads in settings for n, m, d in shapes),
        *(_group(n, n, n, dtype, threads, isa, "sweep") for dtype, threads in swept for n in sweep),
    ]


def test_engine(group, contender, replay):
    replay(group, contender)
