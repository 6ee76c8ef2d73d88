"""Digits learnt upright and shown turned: a network on the group p4, and a plain one with as many parameters.

Usage: python examples/rotated_digits.py [FOLDER]          (writes rotated_digits.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

from fastdl import conv, group

matplotlib.use("Agg")
from matplotlib import pyplot

# Channels of the layers, all of 3 x 3 filters: 10,440 weights each, as the filters of p4 have four elements.
WIDTHS = {"p4": (1, 8, 16, 10), "plain": (1, 16, 44, 10)}
EPOCHS, BATCH, STEP, MOMENTUM = 12, 32, 0.1, 0.9


class Network:
    """Three convolutions with ReLU between them; the mean over the image, and for p4 the maximum over its elements."""

    def __init__(self, kind: str, rng: np.random.Generator, widths=None, dtype=np.float32) -> None:
        self.on_group = kind == "p4"
        widths = WIDTHS[kind] if widths is None else widths
        self.parameters = []
        for layer, (i, o) in enumerate(pairwise(widths)):
            shape = (o, i, 4, 3, 3) if self.on_group and layer else (o, i, 3, 3)
            w = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
            self.parameters.append((w.astype(dtype), np.zeros(o, dtype)))

    def _functions(self, layer):
        """Give the layer, and its gradients for input and filters."""
        if not self.on_group:
            return conv.conv2d, conv.conv2d_input, conv.conv2d_weight
        if layer == 0:
            return group.lift_conv2d, group.lift_conv2d_input, group.lift_conv2d_weight
        return group.conv2d, group.conv2d_input, group.conv2d_weight

    def forward(self, images):
        """Give the scores of the classes, and the input of every layer with what came out of the last."""
        passed = [images]
        for layer, (w, bias) in enumerate(self.parameters):
            activation = "relu" if layer + 1 < len(self.parameters) else None
            passed.append(self._functions(layer)[0](passed[-1], w, bias, padding=1, activation=activation))
        scores = passed[-1].mean(axis=(-2, -1))
        return scores.max(axis=2) if self.on_group else scores, passed

    def loss_and_gradients(self, images, labels):
        """Give the cross-entropy of the labels, and its gradients for all filters and biases."""
        scores, passed = self.forward(images)
        shifted = scores - scores.max(axis=1, keepdims=True)
        logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        chosen = np.eye(scores.shape[1], dtype=scores.dtype)[labels]
        slope = (np.exp(logarithms) - chosen) / len(labels)
        last = passed[-1]
        if self.on_group:
            means = last.mean(axis=(-2, -1))
            slope = slope[:, :, None] * (np.arange(4) == means.argmax(axis=2)[:, :, None])
        pixels = last.shape[-1] * last.shape[-2]
        grad = np.broadcast_to(slope[..., None, None] / last.dtype.type(pixels), last.shape).astype(last.dtype)
        gradients = []
        for layer in reversed(range(len(self.parameters))):
            _, for_input, for_weight = self._functions(layer)
            x, (w, _) = passed[layer], self.parameters[layer]
            axes = tuple(axis for axis in range(grad.ndim) if axis != 1)
            gradients.append((for_weight(x, w.shape, grad, padding=1), grad.sum(axis=axes)))
            if layer:
                grad = for_input(x.shape, w, grad, padding=1) * (x > 0)
        return -float((chosen * logarithms).sum()) / len(labels), gradients[::-1]

    def learn(self, images, labels, rng, epochs=EPOCHS):
        """Go through the images in random order, with momentum and a step that goes down to 0 in half a wave."""
        velocities = [[np.zeros_like(array) for array in layer] for layer in self.parameters]
        for epoch in range(epochs):
            step = np.float32(STEP * (1 + np.cos(np.pi * epoch / epochs)) / 2)
            for batch in np.array_split(rng.permutation(len(labels)), len(labels) // BATCH):
                _, gradients = self.loss_and_gradients(images[batch], labels[batch])
                for layer, velocity, gradient in zip(self.parameters, velocities, gradients, strict=True):
                    for array, speed, slope in zip(layer, velocity, gradient, strict=True):
                        speed *= np.float32(MOMENTUM)
                        speed -= step * slope
                        array += speed

    def accuracy(self, images, labels):
        """Share of the images whose highest score is that of their label."""
        return float(np.mean(self.forward(images)[0].argmax(axis=1) == labels))


def turned(images, angle):
    """Turn images counter-clockwise; by quarters exactly."""
    if angle % 90 == 0:
        return np.ascontiguousarray(np.rot90(images, angle // 90, (-2, -1)))
    return rotate(images, angle, axes=(-1, -2), reshape=False, order=1)


def main(folder: str | Path = ".") -> dict[str, dict[int, float]]:
    """Train both, plot; print and return the accuracy of each on other digits, by the angle they are turned by."""
    rng = np.random.default_rng(0)
    data = load_digits()
    order = rng.permutation(len(data.target))
    images, labels = (data.images[order, None] / 16).astype(np.float32), data.target[order]
    others, other_labels, images, labels = images[:360], labels[:360], images[360:], labels[360:]
    angles = range(0, 361, 15)
    results = {}
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for kind in WIDTHS:
        network = Network(kind, rng)
        network.learn(images, labels, rng)
        results[kind] = {angle: network.accuracy(turned(others, angle), other_labels) for angle in angles}
        count = sum(array.size for layer in network.parameters for array in layer)
        axes.plot(angles, list(results[kind].values()), "o-", markersize=3, label=f"{kind}, {count} parameters")
        quarters = ", ".join(f"{100 * results[kind][angle]:.1f}% at {angle}°" for angle in (0, 90, 180, 270))
        print(f"{kind:6} {quarters}")
    axes.set(
        xlabel="degrees by which other digits are turned", ylabel="accuracy", ylim=(0, 1), xticks=range(0, 361, 45)
    )
    axes.legend()
    path = Path(folder) / "rotated_digits.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: in {path.name} p4 repeats itself every 90 degrees, and the plain network is high near 0 alone.")
    return results


if __name__ == "__main__":
    main(*sys.argv[1:2])
