"""Kernel ridge regression on handwritten digits, with the Gaussian kernel and with the kernel of a wide network.

The plot has the share of digits named wrongly by how many were learnt from, and some that the wide network got wrong.

Usage: python examples/kernel_ridge_digits.py [FOLDER]    (writes kernel_ridge_digits.png; the folder is . if none)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fastdl import gram

matplotlib.use("Agg")
from matplotlib import pyplot

KERNELS = {
    "linear": gram.linear,
    "rbf": lambda X, Y=None: gram.rbf(X, Y, gamma=0.2),
    "ntk": lambda X, Y=None: gram.ntk(X, Y, depth=2, w_std=2**0.5, b_std=0.1),
}


def classify(kernel, train, labels, test, ridge=1e-3):
    """Regress on the ten indicator vectors, and take the largest: alpha = (K + ridge I)⁻¹ T, prediction K* alpha."""
    K = kernel(train)
    targets = np.eye(10)[labels] - 0.1
    alpha = np.linalg.solve(K + ridge * np.eye(len(K)), targets)
    return np.argmax(kernel(test, train) @ alpha, axis=1)


def draw(path, counts, errors, wrong):
    """Draw the share of errors by the number of samples; beside it images, with what they were taken for."""
    figure = pyplot.figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.6, 1))
    right.suptitle("wrong with ntk", fontsize=9)
    axes = left.subplots()
    for name, shares in errors.items():
        axes.loglog(counts, np.maximum(shares, 1e-3), "o-", markersize=4, label=name)
    axes.set(xlabel="digits to learn from", ylabel="share of others named wrongly")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    for panel, (image, label, guess) in zip(right.subplots(2, 2).flat, wrong, strict=False):
        panel.imshow(image.reshape(8, 8), cmap="gray_r")
        panel.set_title(f"{label}, taken for {guess}", fontsize=8)
    for panel in right.axes:
        panel.axis("off")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(folder: str | Path = ".") -> dict[str, float]:
    """Plot; print and return the share of test digits that each kernel names rightly."""
    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(images / 16, labels, test_size=0.3, random_state=0)
    counts = [30, 60, 125, 250, 500, len(train)]
    errors = {name: [] for name in KERNELS}
    for name, kernel in KERNELS.items():
        for count in counts:
            guesses = classify(kernel, train[:count], train_labels[:count], test)
            errors[name].append(float(np.mean(guesses != test_labels)))
    accuracies = {name: 1 - shares[-1] for name, shares in errors.items()}
    print(f"{len(train)} digits of 8 x 8 pixels to learn from, {len(test)} to be named; chance is 10%")
    for name, accuracy in accuracies.items():
        print(f"  {name:7s} {100 * accuracy:.1f}%, from {counts[0]} digits {100 * (1 - errors[name][0]):.1f}%")

    # The last kernel is that of the wide network, and it has just seen all there is to learn from.
    wrong = np.flatnonzero(guesses != test_labels)
    path = Path(folder) / "kernel_ridge_digits.png"
    draw(path, counts, errors, list(zip(test[wrong], test_labels[wrong], guesses[wrong], strict=True)))
    print(
        "Look for: both curved kernels make few errors where the linear one makes many. ntk is what an infinitely wide"
    )
    print("network with two hidden layers learns by gradient descent from small rates; no network was trained.")
    return accuracies


if __name__ == "__main__":
    main(*sys.argv[1:2])
