"""What fastdl costs before it computes: its import, and a call on matrices so small that only the call counts."""

import subprocess
import sys
import timeit

import numpy as np
import pytest

import fastdl

pytestmark = pytest.mark.alone

IMPORT_LIMIT = 30e-3
CALL_LIMIT = 5e-6


def test_import_costs_little_beyond_numpy(tmp_path):
    # An installed package has its bytecode; a checkout may be told not to write any, so it is kept elsewhere.
    code = (
        "import sys, time, warnings; warnings.simplefilter('ignore')\n"
        "import numpy\n"
        f"sys.dont_write_bytecode, sys.pycache_prefix = False, {str(tmp_path)!r}\n"
        "began = time.perf_counter()\n"
        "import fastdl\n"
        "print(time.perf_counter() - began)"
    )
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(6)
    ]
    assert min(seconds) < IMPORT_LIMIT


def test_import_leaves_the_heavy_modules_out():
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "import numpy; before = set(sys.modules)\n"
        "import fastdl; print(*(set(sys.modules) - before))"
    )
    added = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"array_api_compat", "torch", "argparse", "importlib.metadata", "inspect", "dataclasses", "subprocess"}
    assert not heavy & {name for name in added if not name.startswith("fastdl")}


def best(statement, repeats=40, number=500):
    """The least time of a call: what disturbs a machine only ever adds."""
    return min(timeit.repeat(statement, number=number, repeat=repeats)) / number


def test_call_costs_little_beyond_a_matrix_product(native, dtype):
    X = np.random.default_rng(0).standard_normal((8, 8)).astype(dtype)
    Y = X[::-1].copy()
    linear = fastdl.gram.linear
    excess = min(best(lambda: linear(X)) - best(lambda: X @ X.T) for _ in range(3))
    assert excess < CALL_LIMIT
    excess = min(best(lambda: linear(X, Y)) - best(lambda: X @ Y.T) for _ in range(3))
    assert excess < CALL_LIMIT


def test_a_given_out_costs_little_more(native):
    X = np.random.default_rng(0).standard_normal((8, 8))
    out = np.empty((8, 8))
    linear = fastdl.gram.linear
    excess = min(best(lambda: linear(X, out=out)) - best(lambda: X @ X.T) for _ in range(3))
    assert excess < 3 * CALL_LIMIT
