"""A convolutional network learns handwritten digits: forward, backward, and a plot of the loss.

Every layer is a convolution, as in LeNet-5, where the last ones see the whole of what is left of an image.

Usage: python examples/lenet_digits.py [FOLDER]          (writes lenet_digits.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

from fastdl import conv

matplotlib.use("Agg")
from matplotlib import pyplot

# Side of the kernel, padding, and whether the maximum of every 2 x 2 pixels follows: 8 x 8, 4 x 4, 2 x 2, 1 x 1, 1 x 1.
LAYERS = ((3, 1, True), (3, 1, True), (2, 0, False), (1, 0, False))
LAST = len(LAYERS) - 1
WIDTHS = (1, 16, 32, 64, 10)
EPOCHS, BATCH, STEP, MOMENTUM = 15, 32, 0.05, 0.9


def initial(rng, widths=WIDTHS, dtype=np.float32):
    """Draw filters that keep the variance of what passes a ReLU, and biases of 0: a pair for every layer."""
    shapes = [(o, i, k, k) for i, o, (k, _, _) in zip(widths[:-1], widths[1:], LAYERS, strict=True)]
    filters = [rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:])) for shape in shapes]
    return [(w.astype(dtype), np.zeros(len(w), dtype)) for w in filters]


def forward(parameters, x):
    """Give the scores of the classes; and of every layer its input, its output, and where the maxima were."""
    passed = []
    for index, ((w, bias), (_, padding, pooled)) in enumerate(zip(parameters, LAYERS, strict=True)):
        y = conv.conv2d(x, w, bias, padding=padding, activation="relu" if index < LAST else None)
        after, places = conv.max_pool2d(y, 2, return_indices=True) if pooled else (y, None)
        passed.append((x, y, places))
        x = after
    return x[:, :, 0, 0], passed


def loss_and_gradients(parameters, images, labels):
    """Give the cross-entropy of the labels, and its gradients for all filters and biases."""
    scores, passed = forward(parameters, images)
    shifted = scores - scores.max(axis=1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    chosen = np.eye(scores.shape[1], dtype=scores.dtype)[labels]
    grad = ((np.exp(logarithms) - chosen) / len(labels))[:, :, None, None]
    gradients = []
    for index in reversed(range(len(LAYERS))):
        (w, _), (_, padding, _), (x, y, places) = parameters[index], LAYERS[index], passed[index]
        if places is not None:
            grad = conv.max_pool2d_grad(grad, places, y.shape)
        if index < LAST:
            grad = grad * (y > 0)
        gradients.append((conv.conv2d_weight(x, w.shape, grad, padding=padding), grad.sum(axis=(0, 2, 3))))
        grad = conv.conv2d_input(x.shape, w, grad, padding=padding)
    return -float((chosen * logarithms).sum()) / len(labels), gradients[::-1]


def accuracy(parameters, images, labels):
    """Share of the images whose highest score is that of their label."""
    return float(np.mean(forward(parameters, images)[0].argmax(axis=1) == labels))


def main(folder: str | Path = ".") -> dict[str, list[float]]:
    """Train, plot; print and return the accuracy on digits not seen in training, and the losses."""
    rng = np.random.default_rng(0)
    data = load_digits()
    order = rng.permutation(len(data.target))
    images, labels = (data.images[order, None] / 16).astype(np.float32), data.target[order]
    others, other_labels, images, labels = images[:360], labels[:360], images[360:], labels[360:]
    parameters = initial(rng)
    velocities = [[np.zeros_like(array) for array in layer] for layer in parameters]
    losses, accuracies = [], []
    for epoch in range(EPOCHS):
        # The step goes down to 0 in half a wave.
        step = np.float32(STEP * (1 + np.cos(np.pi * epoch / EPOCHS)) / 2)
        for batch in np.array_split(rng.permutation(len(labels)), len(labels) // BATCH):
            loss, gradients = loss_and_gradients(parameters, images[batch], labels[batch])
            losses.append(loss)
            for layer, velocity, gradient in zip(parameters, velocities, gradients, strict=True):
                for array, speed, slope in zip(layer, velocity, gradient, strict=True):
                    speed *= np.float32(MOMENTUM)
                    speed -= step * slope
                    array += speed
        accuracies.append(accuracy(parameters, others, other_labels))
    print(f"Digits recognised, of {len(others)} not among the {len(images)} learnt from:")
    print(f"  after one epoch {100 * accuracies[0]:.1f}%, after {EPOCHS} epochs {100 * accuracies[-1]:.1f}%")

    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    epochs = np.linspace(0, EPOCHS, len(losses))
    axes.semilogy(epochs, losses, linewidth=0.8, color="tab:blue")
    axes.set(xlabel="epoch", ylabel="loss of a batch")
    beside = axes.twinx()
    beside.plot(np.arange(1, EPOCHS + 1), accuracies, "o-", markersize=3, color="tab:orange")
    beside.set(ylabel="accuracy on other digits", ylim=(0.8, 1.0))
    path = Path(folder) / "lenet_digits.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: in {path.name} the loss falls by orders of magnitude, and the accuracy stays where it arrived.")
    return {"losses": losses, "accuracies": accuracies}


if __name__ == "__main__":
    main(*sys.argv[1:2])
