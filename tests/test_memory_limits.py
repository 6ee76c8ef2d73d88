"""Where memory is short a call raises MemoryError, and the next one finds the library as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cases.families import WORK

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are those of Linux")

# Calls under limits from nothing at all to more than they need, each of which may succeed or not, and one with a result
# that is larger than the limit. What is printed at the end, nothing else may be.
SCRIPT = """
import resource, sys
import numpy as np
from cases.families import WORK
from fastdl import conv

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

def fails(batch, megabytes):
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used() + int(megabytes * 2**20), hard))
    try:
        work(batch)
    except MemoryError:
        return True
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return False

work = next(work for work in WORK if work.name == sys.argv[1])
batch = work.samples("float32", 8 * work.small)
# Threads are there (one that starts without room for its variables is ended by the C library, and the process with it),
# and plans; what the kernels keep for themselves is of a small call.
conv.max_pool2d(np.ones((4, 1, 512, 512), np.float32), 8)
small = work(batch[:2])
failures = sum(fails(batch, megabytes) for megabytes in (0, 0.1, 0.3, 1, 2, 3, 5, 8, 12, 20, 40, 80))
if work.split:
    count = 2**30 // (small.nbytes // 2)
    assert fails(np.broadcast_to(batch[:1], (count, *batch.shape[1:])), 100)
    np.testing.assert_array_equal(work(batch[:2]), small)
np.testing.assert_array_equal(work(batch), work(batch))
print("failures:", failures)
"""


@pytest.mark.parametrize("work", WORK, ids=repr)
def test_too_little_memory(native, work):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, work.name],
        cwd=Path(__file__).parent,
        # No memory kept in hand, neither by the C library for each thread nor by this one for results.
        # As many threads as the first call starts.
        env={**os.environ, "MALLOC_ARENA_MAX": "1", "FASTDL_KEEP_MB": "0", "FASTDL_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("failures:")


# The first call in a precision makes its tables, under limits that end it at many places on the way.
TABLES = """
import os, resource
import numpy as np
import fastdl
from fastdl.scattering import Scattering2D

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

S = Scattering2D(3, (190, 190), L=2)
x = np.random.default_rng(0).standard_normal((1, 190, 190))
grad = S(x.astype(np.float32)).astype(np.float64)
read, write = os.pipe()
failures = 0
for megabytes in (None, *range(1, 14)):
    child = os.fork()
    if child == 0:
        failed = False
        if megabytes is not None:
            soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (used() + megabytes * 2**20, hard))
            try:
                S(x)
            except MemoryError:
                failed = True
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        os.write(write, bytes([failed]) + np.float64(np.vdot(S.vjp(x, grad), x)).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    answer = os.read(read, 9)
    failures += answer[0]
    if megabytes is None:
        expected = answer[1:]
    assert answer[1:] == expected, megabytes
print("failures:", failures)
"""


def test_tables_that_were_not_finished(native):
    done = subprocess.run(
        [sys.executable, "-c", TABLES],
        env={**os.environ, "MALLOC_ARENA_MAX": "1", "FASTDL_KEEP_MB": "0", "FASTDL_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.removeprefix("failures:")) > 3  # or the limits are the wrong ones


# Of views that the bindings have to copy, with room for less than that.
COPIES = """
import resource, sys
import numpy as np
from fastdl import conv, gram

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

maps = np.ones((8, 4, 1024, 1024), np.float32).transpose(0, 1, 3, 2)
images = np.ones((2, 1, 2048, 2048), np.float32).transpose(0, 1, 3, 2)
calls = {
    "feature_gram": lambda: gram.feature_gram(maps),
    "conv2d_input": lambda: conv.conv2d_input((2, 1, 2048, 2048), np.ones((1, 1, 1, 1), np.float32), images),
}
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
for name, call in calls.items():
    call()
    failures = 0
    for megabytes in range(0, 100, 10):
        resource.setrlimit(resource.RLIMIT_AS, (used() + (megabytes << 20), hard))
        try:
            call()
        except MemoryError:
            failures += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert failures, name
    call()
"""


def test_too_little_memory_for_a_copy(native):
    done = subprocess.run(
        [sys.executable, "-c", COPIES],
        env={**os.environ, "MALLOC_ARENA_MAX": "1", "FASTDL_KEEP_MB": "0", "FASTDL_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
