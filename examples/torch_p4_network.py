"""Digits turned by any angle: a PyTorch network on the group p4, and a plain one with as many parameters.

Usage: python examples/torch_p4_network.py [FOLDER]    (writes torch_p4_network.png; the folder is . if none is given)
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import matplotlib
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from fastdl.torch import Conv2d, GroupConv2d, GroupPool, LiftConv2d, MaxPool2d, MaxPool3d

matplotlib.use("Agg")
from matplotlib import pyplot

SAMPLES, EPOCHS, BATCH = 400, 30, 40


class MeanOverImage(nn.Module):
    """The mean over all positions, (N, C, H, W) to (N, C)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take the mean."""
        return x.mean((-2, -1))


def p4_network(width: int = 8) -> nn.Module:
    """Give layers that turn with the image, and at the end the largest of four poses: turned digits score alike."""
    return nn.Sequential(
        LiftConv2d(1, width, 3, padding=1),
        nn.BatchNorm3d(width),
        nn.ReLU(),
        GroupConv2d(width, 2 * width, 3, padding=1),
        nn.BatchNorm3d(2 * width),
        nn.ReLU(),
        MaxPool3d((1, 2, 2)),  # over positions; poses stay apart
        GroupConv2d(2 * width, 2 * width, 3, padding=1),
        nn.BatchNorm3d(2 * width),
        nn.ReLU(),
        GroupPool("max"),
        MeanOverImage(),
        nn.Linear(2 * width, 10),
    )


def plain_network(width: int = 16) -> nn.Module:
    """Give the same with plain convolutions, wider so that it has as many parameters."""
    return nn.Sequential(
        Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        Conv2d(width, 2 * width, 3, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        MaxPool2d(2),
        Conv2d(2 * width, 2 * width, 3, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        MeanOverImage(),
        nn.Linear(2 * width, 10),
    )


def turned(images: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Turn each image by its angle, in radians."""
    c, s, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    maps = torch.stack([torch.stack([c, -s, zero], 1), torch.stack([s, c, zero], 1)], 1)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def learn(network: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int) -> list[float]:
    """Train with Adam and a step that goes down in half a wave; give the mean loss of every epoch."""
    optimizer = torch.optim.Adam(network.parameters(), 0.01, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    losses = []
    network.train()
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(network(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        losses.append(total / len(labels))
    return losses


@torch.inference_mode()
def accuracy(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of the images whose highest score is that of their label."""
    network.eval()
    return float((network(images).argmax(1) == labels).float().mean())


@torch.inference_mode()
def change_by_quarter_turns(network: nn.Module, images: torch.Tensor) -> float:
    """How much scores change at most when the images are turned by quarters, relative to the largest score."""
    network.eval()
    scores = network(images)
    changes = [(network(images.rot90(k, (-2, -1))) - scores).abs().max() for k in (1, 2, 3)]
    return float(max(changes) / scores.abs().max())


def main(folder: str | Path = ".", samples: int = SAMPLES, epochs: int = EPOCHS) -> dict[str, dict[str, float]]:
    """Train both on digits turned by random angles, test on other digits; print and return the figures."""
    torch.manual_seed(0)
    data = load_digits()
    order = torch.randperm(len(data.target))
    images = torch.tensor(data.images / 16, dtype=torch.float32)[order, None]
    labels = torch.tensor(data.target)[order]
    images = turned(F.pad(images, (2, 2, 2, 2)), 2 * math.pi * torch.rand(len(labels)))
    train, test = slice(samples), slice(samples, None)

    figures: dict[str, dict[str, float]] = {}
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for name, network in (("p4", p4_network()), ("plain", plain_network())):
        losses = learn(network, images[train], labels[train], epochs)
        figures[name] = {
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "loss": losses[-1],
            "accuracy": accuracy(network, images[test], labels[test]),
            "change": change_by_quarter_turns(network, images[test][:200]),
        }
        axes[0].semilogy(losses, label=f"{name}, {figures[name]['parameters']} parameters")
        print(
            f"{name:6} {figures[name]['parameters']} parameters, {100 * figures[name]['accuracy']:.1f}% of "
            f"{len(labels) - samples} other digits right; quarter turns change scores by {figures[name]['change']:.1e}"
        )
    axes[0].set(xlabel="epoch", ylabel="mean loss in training", title=f"{samples} digits, turned by any angle")
    axes[0].legend()
    axes[1].bar(list(figures), [1 - found["accuracy"] for found in figures.values()], color=["C0", "C1"], width=0.5)
    axes[1].set(ylabel="share of other digits that is wrong", title="test")
    path = Path(folder) / "torch_p4_network.png"
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    print(f"Look for: p4 is wrong less often in {path.name}, and its scores do not change with quarter turns.")
    return figures


if __name__ == "__main__":
    torch.set_num_threads(1)  # layers as small as these wait longer for torch's threads than they work
    main(*sys.argv[1:2])
