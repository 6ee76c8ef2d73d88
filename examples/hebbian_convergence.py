"""Hebbian rules converge to principal components: angle against samples, on digits and on the orbit of a template.

Usage: python examples/hebbian_convergence.py [FOLDER]    (writes hebbian_convergence.png; the folder is . if none)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

from fastdl import hebbian

matplotlib.use("Agg")
from matplotlib import pyplot

UNITS = {"oja": 1, "sanger": 3, "subspace": 3}
STOPS = 60


def angle(rule, W, vectors):
    """Give the largest angle in degrees that is left: of each unit to its component, or between the two spaces."""
    rows = W / np.linalg.norm(W, axis=1, keepdims=True)
    if rule == "subspace":
        rows = np.linalg.qr(W.T)[0].T
        cosines = np.linalg.svd(rows @ vectors[: len(W)].T)[1]
    else:
        cosines = np.abs(np.sum(rows * vectors[: len(W)], axis=1))
    return float(np.degrees(np.arccos(np.clip(cosines.min(), 0, 1))))


def learn(rule, X, units, vectors, samples, scale, rng):
    """Let units see random samples, with steps that go down; give the weights, and the angles on the way."""
    W = rng.standard_normal((units, X.shape[1])) / np.sqrt(X.shape[1])
    stops = np.unique(np.geomspace(10, samples, STOPS).astype(int))
    angles, seen = [], 0
    for stop in stops:
        t = np.arange(seen, stop)
        steps = scale / (1 + t / (samples / 30))
        W = getattr(hebbian, rule)(W, X[rng.integers(0, len(X), stop - seen)], steps)
        angles.append(angle(rule, W, vectors))
        seen = stop
    return W, stops, angles


def digits():
    """Give centred images of digits."""
    X = load_digits().data / 16
    return X - X.mean(axis=0)


def orbit(size=16):
    """Give all cyclic shifts of a template."""
    place = np.arange(size)
    template = np.exp(-(((place - 4) / 1.5) ** 2)) + 0.7 * np.exp(-(((place - 9) / 2.0) ** 2))
    template -= template.mean()
    return np.stack([np.roll(template, shift) for shift in range(size)])


def main(folder: str | Path = ".") -> dict[str, float]:
    """Plot the angles; print and return those at the end, and how invariant the space learnt from an orbit is."""
    rng = np.random.default_rng(0)
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
    results = {}
    X = digits()
    vectors = np.linalg.eigh(X.T @ X)[1][:, ::-1].T
    print("Angle to the principal components of digits, after 200000 samples:")
    for rule, units in UNITS.items():
        _, stops, angles = learn(rule, X, units, vectors, 200_000, 0.03, rng)
        panels[0].loglog(stops, angles, label=f"{rule}, {units} units" if units > 1 else f"{rule}, one unit")
        results[rule] = angles[-1]
        print(f"  {rule:9s} {angles[-1]:.2f} degrees")
    panels[0].set(title="digits", xlabel="samples", ylabel="angle in degrees")

    X = orbit()
    C = X.T @ X
    shift = np.roll(np.eye(len(X)), 1, axis=0)
    results["commutator"] = float(np.abs(shift @ C - C @ shift).max() / np.abs(C).max())
    vectors = np.linalg.eigh(C)[1][:, ::-1].T
    # A frequency is a pair of components: spaces of two or four are invariant, one of three is not determined.
    for units in (2, 4):
        W, stops, angles = learn("subspace", X, units, vectors, 200_000, 0.05, rng)
        panels[1].loglog(stops, angles, label=f"subspace, {units} units")
        projection = np.linalg.qr(W.T)[0]
        projection = projection @ projection.T
        results[f"moved {units}"] = float(np.abs(shift @ projection @ shift.T - projection).max())
        results[f"orbit {units}"] = angles[-1]
        print(
            f"Orbit of 16 shifts, {units} units: {angles[-1]:.2f} degrees; a shift moves the projection onto the space"
        )
        print(f"  that was learnt by {results[f'moved {units}']:.1e}, the covariance by {results['commutator']:.0e}")
    panels[1].set(title="orbit of a template", xlabel="samples")
    for axes in panels:
        axes.legend()
        axes.grid(True, which="both", alpha=0.3)
    path = Path(folder) / "hebbian_convergence.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: in {path.name} all angles go down, those of sanger last: a unit waits for the ones before it.")
    return results


if __name__ == "__main__":
    main(*sys.argv[1:2])
