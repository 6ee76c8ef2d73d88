"""Gaussian process regression with a Matérn kernel: mean and variance by a Cholesky decomposition, with a plot.

Usage: python examples/gaussian_process.py [FOLDER]      (writes gaussian_process.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

from fastdl import gram

matplotlib.use("Agg")
from matplotlib import pyplot

NOISE = 0.1
LENGTH_SCALE = 0.8


def truth(x):
    """Compute what the samples are drawn from."""
    return np.sin(2 * x) + 0.3 * x


def posterior(X, y, points, noise=NOISE, length_scale=LENGTH_SCALE, nu=2.5):
    """Give the mean and the standard deviation of the function at `points`, and the log likelihood of the samples."""
    K = gram.matern(X, length_scale=length_scale, nu=nu)
    between = gram.matern(points, X, length_scale=length_scale, nu=nu)
    L = np.linalg.cholesky(K + noise**2 * np.eye(len(K)))
    weights = np.linalg.solve(L.T, np.linalg.solve(L, y))
    explained = np.linalg.solve(L, between.T)
    variance = gram.diag(points, "matern", length_scale=length_scale, nu=nu) - np.sum(explained**2, axis=0)
    likelihood = -0.5 * y @ weights - np.sum(np.log(np.diag(L))) - 0.5 * len(y) * np.log(2 * np.pi)
    return between @ weights, np.sqrt(np.maximum(variance, 0)), likelihood


def main(folder: str | Path = ".") -> dict[str, float]:
    """Fit 60 noisy samples with a gap among them, plot; print and return how well mean and variance do."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(-4, -0.5, 30), rng.uniform(1.5, 4, 30)])[:, None]
    y = truth(X[:, 0]) + NOISE * rng.standard_normal(len(X))
    points = np.linspace(-4, 4, 400)[:, None]
    mean, deviation, likelihood = posterior(X, y, points)

    error = np.abs(mean - truth(points[:, 0]))
    inside = (points[:, 0] > -0.5) & (points[:, 0] < 1.5)
    result = {
        "covered": float(np.mean(error <= 2 * deviation)),
        "error": float(np.sqrt(np.mean(error[~inside] ** 2))),
        "deviation_in_gap": float(deviation[inside].max()),
        "deviation_elsewhere": float(np.median(deviation[~inside])),
        "likelihood": float(likelihood),
    }
    print(f"60 samples with noise {NOISE}; log likelihood {likelihood:.2f}")
    print(f"  error of the mean where there are samples: {result['error']:.3f} (root mean square)")
    print(f"  the truth lies within two standard deviations at {100 * result['covered']:.0f}% of the points")
    print(
        f"  standard deviation: {result['deviation_elsewhere']:.3f}, up to {result['deviation_in_gap']:.3f} in the gap"
    )

    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    axes.fill_between(
        points[:, 0], mean - 2 * deviation, mean + 2 * deviation, alpha=0.25, label="two standard deviations"
    )
    axes.plot(points, mean, label="mean")
    axes.plot(points, truth(points), "k--", linewidth=1, label="truth")
    axes.plot(X, y, "k.", markersize=4, label="samples")
    axes.legend(fontsize=8)
    path = Path(folder) / "gaussian_process.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: in {path.name} the band is narrow where there are samples and wide where there are none.")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
