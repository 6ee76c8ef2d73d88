"""How much memory calls take that promise not to form K, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
needs_proc = pytest.mark.skipif(not STATUS.exists(), reason="needs the /proc of Linux")

# Megabytes of main memory at most so far. getrusage would count what the parent had before the fork.
PEAK = """
import sys
import numpy as np
from fastdl import gram

def peak():
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024

def grown(call):
    before = peak()
    result = call()
    assert all(np.isfinite(part).all() for part in result if part is not None)
    return peak() - before

rng = np.random.default_rng(0)
"""


def run(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_proc
def test_products_of_many_samples_form_no_matrix(native):
    # K would take 3600 MB, the arguments take 2.
    script = (
        PEAK
        + """
X, v = rng.standard_normal((30_000, 16), dtype=np.float32), rng.standard_normal((30_000, 1), dtype=np.float32)
gram.matvec(X[:300], v[:300])
print(grown(lambda: gram.matvec(X, v)), grown(lambda: gram.softmax_matvec(X, X, v)))
"""
    )
    assert all(float(megabytes) < 32 for megabytes in run(script).split())


@needs_proc
def test_no_kernel_forms_its_matrix(native):
    # K would take 64 MB.
    script = (
        PEAK
        + """
from fastdl._kernels import KERNELS
X, v = rng.random((4000, 16), dtype=np.float32) / 5, rng.standard_normal((4000, 5), dtype=np.float32)
gram.matvec_vjp(X[:300], v[:300], v[:300])
for name in KERNELS:
    print(name, grown(lambda: gram.matvec(X, v, None, name)), grown(lambda: gram.matvec_vjp(X, v, v, None, name)[:3]))
"""
    )
    for line in run(script).splitlines():
        name, product, gradients = line.split()
        assert float(product) < 16 and float(gradients) < 16, name


@needs_proc
def test_sparse_samples_are_not_made_dense(native):
    # Dense they would take 800 MB.
    pytest.importorskip("scipy.sparse")
    script = (
        PEAK
        + """
from scipy import sparse
X = sparse.random_array((100, 10**6), density=1e-5, rng=rng, format="csr")
Y = X[::-1].tocsr()
X.tocsc(), gram.linear(X[:, :9], Y[:, :9])
for name in ("linear", "polynomial", "rbf", "cosine"):
    print(grown(lambda: [gram.gram(X, Y, name)]), grown(lambda: [gram.gram(X, kernel=name)]))
"""
    )
    assert all(float(megabytes) < 64 for megabytes in run(script).split())


@needs_proc
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_matrix_in_a_file_passes_through_memory_in_blocks(native, tmp_path, kernel):
    # K is a file of 144 MB; the process may have 64 MB more of its own, of which blocks of 4 take some.
    script = """
import resource, sys
import numpy as np
from fastdl import _gram_matrix, gram
_gram_matrix.BLOCK_BYTES = 4 << 20
X = np.random.default_rng(0).standard_normal((6000, 8), dtype=np.float32)
small = np.memmap(sys.argv[1] + ".small", dtype=np.float32, mode="w+", shape=(300, 300))
gram.gram(X[:300], kernel=sys.argv[2], out=small)
out = np.memmap(sys.argv[1], dtype=np.float32, mode="w+", shape=(6000, 6000))
used = int(open("/proc/self/status").read().partition("VmData:")[2].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (used + (64 << 20),) * 2)
try:
    gram.gram(X, kernel=sys.argv[2])
except MemoryError:
    print("limited")
assert gram.gram(X, kernel=sys.argv[2], out=out) is out
out.flush()
print(np.array_equal(out[5000:, :1000], gram.gram(X[5000:], X, sys.argv[2])[:, :1000]))
"""
    assert run(script, tmp_path / "gram", kernel).split() == ["limited", "True"]
