"""Digits from 100 labelled images by scattering and a linear classifier, and an image back from its scattering.

Usage: python examples/scattering_digits.py [FOLDER]    (writes scattering_digits.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastdl.scattering import Scattering2D

matplotlib.use("Agg")
from matplotlib import pyplot

LABELLED = 100
STEPS = 300


def accuracies(features: dict[str, np.ndarray], labels: np.ndarray, repeats: int = 5) -> dict[str, float]:
    """Learn from few images, drawn anew each time, and test on all others; give the mean share that is right."""
    found = dict.fromkeys(features, 0.0)
    for seed in range(repeats):
        order = np.random.default_rng(seed).permutation(len(labels))
        train, test = order[:LABELLED], order[LABELLED:]
        for name, values in features.items():
            classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.02, max_iter=2000))
            classifier.fit(values[train], labels[train])
            found[name] += classifier.score(values[test], labels[test]) / repeats
    return found


def inverted(S: Scattering2D, wanted: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Find an image with the scattering `wanted` by gradient descent, with steps that grow while they help."""
    x, step = start, 1.0
    difference = S(x) - wanted
    loss = 0.5 * float((difference**2).sum())
    losses = [loss]
    for _ in range(STEPS):
        gradient = S.vjp(x, difference)
        while True:
            trial = x - step * gradient
            new = S(trial) - wanted
            lower = 0.5 * float((new**2).sum())
            if lower < loss or step < 1e-12:
                break
            step /= 2
        x, difference, loss, step = trial, new, lower, 1.5 * step
        losses.append(loss)
    return x, losses


def main(folder: str | Path = ".") -> dict[str, float]:
    """Compare features, invert a scattering, and draw both; print and return the figures."""
    images = load_digits().images / 16
    labels = load_digits().target
    S = Scattering2D(J=2, shape=images.shape[1:], L=8)
    scattered = S(images)
    features = {"pixels": images.reshape(len(images), -1), "scattering": scattered.reshape(len(images), -1)}
    right = accuracies(features, labels)

    fine = Scattering2D(J=1, shape=images.shape[1:], L=8)
    image = images[10]
    start = np.random.default_rng(0).random(image.shape)
    back, losses = inverted(fine, fine(image), start)
    error = float(np.linalg.norm(back - image) / np.linalg.norm(image))

    figure, axes = pyplot.subplots(1, 4, figsize=(13, 3.2))
    pictures = {"image": image, "start": start, "from its scattering": back}
    for axis, (title, picture) in zip(axes, pictures.items(), strict=False):
        axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
        axis.set_title(title)
        axis.axis("off")
    axes[3].semilogy(losses)
    axes[3].set_title("loss")
    figure.tight_layout()
    figure.savefig(Path(folder) / "scattering_digits.png", dpi=80)
    pyplot.close(figure)

    print(f"Look for scattering to be ahead of pixels with {LABELLED} labelled images:")
    for name, share in right.items():
        print(f"  {name:12}{100 * share:.1f}% right")
    print(
        f"and for an image of nearly the same scattering as another: the loss falls {losses[0] / losses[-1]:.0f} times."
    )
    print(
        f"It need not be the same image, as moduli have lost the phases: it is off by {100 * error:.0f}% of the norm."
    )
    return {**right, "fall": losses[-1] / losses[0]}


if __name__ == "__main__":
    main(*sys.argv[1:])
