"""Kernels of fastdl in scikit-learn: as a callable, and as a matrix computed beforehand.

Usage: python examples/svc_precomputed.py [FOLDER]    (writes svc_precomputed.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from fastdl import gram

matplotlib.use("Agg")
from matplotlib import pyplot

GAMMA = 0.2


def draw(path, ours, theirs, labels):
    """Draw the first two components: ours as dots, scikit-learn's as circles around them."""
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    axes.scatter(
        theirs[:, 0], theirs[:, 1], s=40, facecolors="none", edgecolors="lightgrey", label="scikit-learn's rbf"
    )
    drawn = axes.scatter(ours[:, 0], ours[:, 1], s=6, c=labels, cmap="tab10", label="gram.rbf, precomputed")
    axes.set(xlabel="first component", ylabel="second component")
    axes.legend()
    figure.colorbar(drawn, ticks=range(10), label="digit")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(folder: str | Path = ".") -> dict[str, float]:
    """Fit each estimator with our kernel and with scikit-learn's own; draw, print and return what differs."""
    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(images / 16, labels, test_size=0.3, random_state=0)

    # SVC calls a callable with two sets of samples; the defaults of gram.rbf (gamma = 1 / d) are those of gamma="auto".
    ours = SVC(kernel=gram.rbf).fit(train, train_labels)
    theirs = SVC(kernel="rbf", gamma="auto").fit(train, train_labels)
    agreement = float(np.mean(ours.predict(test) == theirs.predict(test)))
    accuracy = ours.score(test, test_labels)

    K, K_test = gram.rbf(train, gamma=GAMMA), gram.rbf(test, train, gamma=GAMMA)
    targets = np.eye(10)[train_labels]
    ridge = KernelRidge(alpha=1e-2, kernel="precomputed").fit(K, targets).predict(K_test)
    their_ridge = KernelRidge(alpha=1e-2, kernel="rbf", gamma=GAMMA).fit(train, targets).predict(test)

    components = KernelPCA(5, kernel="precomputed", eigen_solver="dense").fit(K).transform(K_test)
    their_components = KernelPCA(5, kernel="rbf", gamma=GAMMA, eigen_solver="dense").fit(train).transform(test)
    # An eigenvector is one up to its sign.
    signs = np.sign(np.sum(components * their_components, axis=0))

    differences = {
        "svc_accuracy": float(accuracy),
        "svc_agreement": agreement,
        "ridge_difference": float(np.max(np.abs(ridge - their_ridge))),
        "ridge_accuracy": float(np.mean(np.argmax(ridge, axis=1) == test_labels)),
        "pca_difference": float(np.max(np.abs(components * signs - their_components))),
    }
    print(
        f"SVC(kernel=gram.rbf):              {100 * accuracy:.1f}% right; as scikit-learn's rbf: {100 * agreement:.1f}%"
    )
    print(f'KernelRidge(kernel="precomputed"): {100 * differences["ridge_accuracy"]:.1f}% right; farthest from '
          f"scikit-learn's rbf: {differences['ridge_difference']:.1e}")  # fmt: skip
    print(f'KernelPCA(kernel="precomputed"):   farthest from scikit-learn\'s rbf: {differences["pca_difference"]:.1e}')
    path = Path(folder) / "svc_precomputed.png"
    draw(path, components * signs, their_components, test_labels)
    print(
        f"Look for: the same answers, to rounding; in {path.name} every dot has its circle. Any estimator that takes a"
    )
    print("kernel takes these.")
    return differences


if __name__ == "__main__":
    main(*sys.argv[1:2])
