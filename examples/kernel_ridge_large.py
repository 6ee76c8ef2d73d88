"""Kernel ridge regression on more samples than a kernel matrix has room for, with a learning curve.

Usage: python examples/kernel_ridge_large.py [FOLDER [N]]      (writes kernel_ridge_large.png; the folder is . and the
number of samples N 12000 if none is given. With 100000 it takes some minutes; their matrix would be 40 GB.)
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib
import numpy as np

from fastdl.sklearn import KernelRidge

matplotlib.use("Agg")
from matplotlib import pyplot

FEATURES = 10
NOISE = 1.0
RIDGE = 0.2
GAMMA = 0.5
TESTS = 4000


def truth(X: np.ndarray) -> np.ndarray:
    """Give Friedman's function: of the features only five matter."""
    waves = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return waves + 10 * X[:, 3] + 5 * X[:, 4]


def resident() -> float:
    """Give the most memory the process has had, in MB; NaN where it is not told."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return float("nan")
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmHWM")), float("nan"))


def main(folder: str | Path = ".", n: int | str = 12_000, progress: bool = True) -> dict[str, list[float]]:
    """Learn from more and more samples without forming K, print and draw the error, and return all figures."""
    n = int(n)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (n + TESTS, FEATURES)).astype(np.float32)
    y = (truth(X) + NOISE * rng.standard_normal(len(X))).astype(np.float32)
    points, exact = X[n:], truth(X[n:])
    sizes = [max(1, n // 64), max(1, n // 8), n]
    results: dict[str, list[float]] = {name: [] for name in ("error", "seconds", "steps", "rank", "residual")}
    for size in sizes:
        model = KernelRidge(RIDGE, gamma=GAMMA, solver="cg", tol=1e-4, progress=progress and size == n)
        start = time.perf_counter()
        mean = float(y[:size].mean())
        model.fit(X[:size], y[:size] - mean)
        results["seconds"].append(time.perf_counter() - start)
        results["error"].append(float(np.sqrt(np.mean((model.predict(points) + mean - exact) ** 2))))
        results["steps"].append(model.n_iter_)
        results["rank"].append(model.rank_)
        results["residual"].append(model.residual_)
        print(
            f"{size:7d} samples: error {results['error'][-1]:.3f} (root mean square, the noise is {NOISE:.0f}), "
            f"{model.n_iter_} steps, rank {model.rank_}, residual {model.residual_:.1e}, {results['seconds'][-1]:.1f} s"
        )
    results["size"] = [float(size) for size in sizes]
    results["memory"] = [resident()]
    print(f"at most {results['memory'][0]:.0f} MB were in use; K would take {4e-6 * n**2:.0f} MB")

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(sizes, results["error"], "o-")
    axes.axhline(float(exact.std()), color="k", linestyle="--", linewidth=1, label="the mean of all targets")
    axes.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    axes.minorticks_off()
    axes.set_xlabel("samples")
    axes.set_ylabel("error on new samples, without noise")
    axes.legend(fontsize=8)
    path = Path(folder) / "kernel_ridge_large.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: in {path.name} the error goes down with the number of samples, and few steps suffice for any of")
    print("them: the preconditioner takes care of the large eigenvalues of K, the ridge of the small ones.")
    return results


if __name__ == "__main__":
    main(*sys.argv[1:3])
