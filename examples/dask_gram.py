"""Kernel ridge regression in blocks: on the cores of one machine, or on a Dask cluster.

The equations (K + ridge I) a = y are solved by conjugate gradients, for which K is never formed; then K is written to a
file in blocks, and the solution is put to the test in it.

Usage: python examples/dask_gram.py [folder [rows [workers]]]

With a number of workers, they are processes of a cluster on this machine, of 1 GiB each; without, threads.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import dask
import dask.array as da
import numpy as np

from fastdl.dask import gram, matvec, to_npy

FEATURES, RIDGE = 16, 1.0
KERNEL = {"kernel": "rbf", "gamma": 0.02}


def data(rows, chunk, seed=0):
    """Make samples, which stay where they are computed, and noisy values of a smooth function of them."""
    X = da.random.default_rng(seed).standard_normal((rows, FEATURES), chunks=(chunk, FEATURES))
    noise = da.random.default_rng(seed + 1).standard_normal(rows, chunks=chunk)
    return X, da.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * noise


def solve(X, y, tolerance=1e-8):
    """Solve (K + ridge I) a = y; every step is one product with K, whose blocks are shared out to the workers."""
    a, residual = np.zeros(len(y)), y.copy()
    direction, size = residual, residual @ residual
    steps = 0
    while np.sqrt(size) > tolerance * np.linalg.norm(y):
        product = matvec(X, direction, **KERNEL).compute() + RIDGE * direction
        step = size / (direction @ product)
        a += step * direction
        residual = residual - step * product
        size, before = residual @ residual, size
        direction = residual + size / before * direction
        steps += 1
    return a, steps


def main(folder: Path | str | None = None, rows: int = 1500, workers: int = 0) -> dict[str, float]:
    """Solve, predict, and look at the residual in the file; print and return how well it went."""
    chunk = -(-rows // 6)
    with ExitStack() as resources:
        if workers:
            from distributed import Client, LocalCluster

            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit="1GiB", dashboard_address=None)
            resources.enter_context(cluster)
            resources.enter_context(Client(cluster))
        X, y = dask.persist(*data(rows, chunk))
        points, truth = data(300, 300, seed=7)
        values = y.compute()

        start = perf_counter()
        a, steps = solve(X, values)
        seconds = perf_counter() - start
        print(f"{rows} samples of {FEATURES} features: {steps} products with K in {seconds:.2f} s")

        predicted = matvec(points, a, X, **KERNEL).compute()
        error = float(np.std(predicted - truth.compute()) / np.std(truth.compute()))
        print(f"  error at new points: {error:.2f} of the standard deviation of the values")

        start = perf_counter()
        with TemporaryDirectory() as elsewhere:
            K = to_npy(gram(X, **KERNEL), Path(folder or elsewhere) / "gram.npy")
            residual = float(np.linalg.norm(K @ a + RIDGE * a - values) / np.linalg.norm(values))
            print(
                f"  K, {K.nbytes / 1e6:.0f} MB, in a file in {perf_counter() - start:.2f} s; residual: {residual:.1e}"
            )
            del K
    print("Look for: the residual is the same that conjugate gradients stopped at, 1e-8, though they never saw K;")
    print("and nothing changes with the number of workers but the time.")
    return {"residual": residual, "error": error, "steps": steps}


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:4]))
