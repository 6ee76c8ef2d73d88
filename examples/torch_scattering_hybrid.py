"""Digits under two others, by PyTorch: scattering with a linear layer behind it, and with a learnt layer before it too.

Every image has three channels, each another mixture of three digits, of which the first is asked for. Scattering of the
mixtures keeps the digits mixed: moduli cannot be taken apart again. A layer before it can learn to take the digits
apart, if gradients go back through the scattering.

Usage: python examples/torch_scattering_hybrid.py [FOLDER]
(writes torch_scattering_hybrid.png; the folder is . if none is given)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from fastdl.torch import Conv2d, Scattering2D

matplotlib.use("Agg")
from matplotlib import pyplot

SAMPLES, EPOCHS, BATCH = 1000, 40, 50
MIXING = torch.tensor([[1.0, 0.9, 0.4], [0.5, -1.0, 0.9], [0.8, 0.6, -1.0]])


def network(before: nn.Module, channels: int) -> nn.Module:
    """Put scattering behind a first layer, and a linear layer on all that it gives."""
    scattering = Scattering2D(J=2, shape=(8, 8), L=4)
    features = channels * int(scattering.output_size()) * 4  # each path is an image of 2 x 2
    return nn.Sequential(before, scattering, nn.Flatten(), nn.BatchNorm1d(features), nn.Linear(features, 10))


def mixtures(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give images (n, 3, 8, 8) of mixed digits, the digits that are asked for, and their labels."""
    data = load_digits()
    generator = torch.Generator().manual_seed(seed)
    images = torch.tensor(data.images / 16, dtype=torch.float32)
    orders = [torch.randperm(len(images), generator=generator) for _ in range(3)]
    digits = torch.stack([images[order] for order in orders], 1)
    mixed = torch.einsum("ij,njhw->nihw", MIXING, digits)
    return mixed, digits[:, 0], torch.tensor(data.target)[orders[0]]


def learn(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int) -> list[float]:
    """Train all parameters with Adam and a step that goes down in half a wave; give the mean loss of every epoch."""
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses = []
    model.train()
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        losses.append(total / len(labels))
    return losses


@torch.inference_mode()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of the images whose highest score is that of their label."""
    model.eval()
    return float((model(images).argmax(1) == labels).float().mean())


def leftover(weights: torch.Tensor) -> float:
    """How much of the other two digits a learnt layer leaves, relative to what it leaves of the first."""
    share = weights[0, :, 0, 0] @ MIXING
    return float(share[1:].abs().max() / share[0].abs())


def main(folder: str | Path = ".", samples: int = SAMPLES, epochs: int = EPOCHS) -> dict[str, float]:
    """Train both, test on other images, draw; print and return the figures."""
    torch.manual_seed(0)
    mixed, digits, labels = mixtures()
    train, test = slice(samples), slice(samples, None)
    layer = Conv2d(3, 1, 1, bias=False)
    models = {
        "scattering of the mixtures": network(nn.Identity(), 3),
        "a learnt layer before it": network(layer, 1),
    }
    start = leftover(layer.weight.detach())
    figures, losses = {}, {}
    for name, model in models.items():
        losses[name] = learn(model, mixed[train], labels[train], epochs)
        figures[name] = accuracy(model, mixed[test], labels[test])
    figures["leftover"], figures["leftover at the start"] = leftover(layer.weight.detach()), start

    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained", width_ratios=[1.2, 1])
    for name, values in losses.items():
        axes[0].semilogy(values, label=f"{name}: {100 * figures[name]:.1f}% right")
    axes[0].set(xlabel="epoch", ylabel="mean loss in training")
    axes[0].legend(fontsize=8)
    with torch.no_grad():
        seen = layer(mixed[test][:6])[:, 0]
        seen = seen * torch.sign((seen * digits[test][:6]).sum())
    rows = [*mixed[test][:6].unbind(1), seen, digits[test][:6]]
    unit = [row / row.abs().max() for row in rows]
    picture = torch.cat([torch.cat(list(F.pad(row, (1, 1, 1, 1), value=-1)), 1) for row in unit], 0)
    axes[1].imshow(picture.numpy(), cmap="gray", vmin=-1, vmax=1)
    axes[1].set_yticks(
        [4.5 + 10 * i for i in range(5)], ["channel 1", "channel 2", "channel 3", "learnt layer", "digit"]
    )
    axes[1].set_xticks([])
    path = Path(folder) / "torch_scattering_hybrid.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)

    for name in models:
        print(f"{name:28}{100 * figures[name]:.1f}% of {len(labels) - samples} other images right")
    end = figures["leftover"]
    print(f"of the other digits the layer leaves {100 * start:.0f}% at the start, {100 * end:.1f}% at the end")
    print(f"Look for: the learnt layer in {path.name} shows the digit alone, by gradients through the scattering.")
    return figures


if __name__ == "__main__":
    torch.set_num_threads(1)  # layers as small as these wait longer for torch's threads than they work
    main(*sys.argv[1:2])
