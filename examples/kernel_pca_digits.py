"""Kernel principal components of handwritten digits, with a plot.

Usage: python examples/kernel_pca_digits.py [FOLDER]    (writes kernel_pca_digits.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

from fastdl import gram

matplotlib.use("Agg")
from matplotlib import pyplot


def kernel_pca(K, components):
    """Give the coordinates of all samples on the leading components of a Gram matrix."""
    values, vectors = np.linalg.eigh(gram.center(K))
    leading = slice(-1, -components - 1, -1)
    return vectors[:, leading] * np.sqrt(values[leading])


def nearest_neighbour_accuracy(points, labels):
    """Share of the points whose nearest other point has the same label."""
    distances = gram.distance(points, kernel="linear")
    np.fill_diagonal(distances, np.inf)
    return float(np.mean(labels[np.argmin(distances, axis=1)] == labels))


def main(folder: str | Path = ".") -> dict[str, float]:
    """Plot both projections; print and return how well each keeps the digits apart."""
    images, labels = load_digits(return_X_y=True)
    images, labels = images[:1000] / 16, labels[:1000]
    grams = {"linear (ordinary PCA)": gram.linear(images), "rbf": gram.rbf(images, gamma=0.2)}
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    accuracies = {}
    print("How often is the nearest neighbour of a digit the same digit, in 2 and in 10 coordinates?")
    for axes, (name, K) in zip(panels, grams.items(), strict=True):
        points = kernel_pca(K, 10)
        accuracies[name.split()[0]] = nearest_neighbour_accuracy(points, labels)
        flat = nearest_neighbour_accuracy(np.ascontiguousarray(points[:, :2]), labels)
        print(f"  {name:22s} {100 * flat:.1f}% and {100 * accuracies[name.split()[0]]:.1f}%")
        drawn = axes.scatter(points[:, 0], points[:, 1], c=labels, cmap="tab10", s=6)
        axes.set(title=name, xlabel="first component", ylabel="second component")
    figure.colorbar(drawn, ax=panels, ticks=range(10), label="digit")
    path = Path(folder) / "kernel_pca_digits.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: arms of one colour in {path.name}, longer and thinner with the rbf kernel.")
    return accuracies


if __name__ == "__main__":
    main(*sys.argv[1:2])
