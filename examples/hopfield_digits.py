"""A Hopfield network recalls images of digits from noise, with pictures.

Usage: python examples/hopfield_digits.py [FOLDER]    (writes hopfield_digits.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

from fastdl import hebbian

matplotlib.use("Agg")
from matplotlib import pyplot

# What is stored: as many images as 64 units hold that are this much alike.
DIGITS = (0, 1, 4, 6)
NOISE = 0.15


def patterns(digits=DIGITS):
    """Give the mean image of each digit as +1 and -1, half of the pixels each: what all images share is no pattern."""
    data = load_digits()
    means = np.stack([data.data[data.target == digit].mean(axis=0) for digit in digits])
    means -= data.data.mean(axis=0)
    return np.where(means > np.median(means, axis=1, keepdims=True), 1.0, -1.0)


def main(folder: str | Path = ".") -> dict[str, float]:
    """Draw what is stored, seen and recalled; print and return how much is right, and how the energy falls."""
    rng = np.random.default_rng(0)
    P = patterns()
    W = hebbian.hopfield_weights(P)
    seen = np.where(rng.random((200, *P.shape)) < NOISE, -P, P)
    states = seen.reshape(-1, P.shape[1])
    recalled = {
        "one unit after the other": hebbian.hopfield_recall(W, states, seed=0),
        "all units at once": hebbian.hopfield_recall(W, states, mode="sync"),
        "dense, degree 6": hebbian.dense_hopfield(P, states, degree=6),
        "modern, one step": np.sign(hebbian.modern_hopfield(P, states, 0.5)),
    }
    wanted = np.tile(P, (200, 1))
    print(f"{len(P)} digits stored in {P.shape[1]} units. With {100 * NOISE:.0f}% of the pixels turned over, recalled:")
    results = {}
    for name, found in recalled.items():
        results[name] = float(np.mean(np.all(found == wanted, axis=1)))
        print(f"  {name:26s} {100 * results[name]:.1f}%")
    energies = [
        hebbian.hopfield_energy(W, hebbian.hopfield_recall(W, states, max_sweeps=sweeps, seed=0)) for sweeps in range(4)
    ]
    results["rises"] = float(max(np.max(after - before) for before, after in pairwise(energies)))
    print("  mean energy after 0, 1, 2, 3 sweeps:", *(f"{energy.mean():.2f}" for energy in energies))

    rows = {"stored": P, "seen": seen[0], **{name: found[: len(P)] for name, found in recalled.items()}}
    figure, axes = pyplot.subplots(len(rows), len(P), figsize=(1.3 * len(P) + 2, 1.3 * len(rows)), layout="constrained")
    for (name, images), line in zip(rows.items(), axes, strict=True):
        for image, panel in zip(images, line, strict=True):
            panel.imshow(image.reshape(8, 8), cmap="gray_r", vmin=-1, vmax=1)
            panel.set(xticks=[], yticks=[])
        line[0].set_ylabel(name.replace(", ", ",\n").replace(" after", "\nafter"), rotation=0, ha="right", va="center")
    path = Path(folder) / "hopfield_digits.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: in {path.name} the rows below `seen` are those of `stored` again.")
    return results


if __name__ == "__main__":
    main(*sys.argv[1:2])
