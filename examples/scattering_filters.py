"""The filters of scattering transforms, how they cover the frequencies, and what one sees of an image, with pictures.

Usage: python examples/scattering_filters.py [FOLDER]    (writes scattering_filters.png there, or in .)
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np

from fastdl.scattering import Scattering1D, Scattering2D, plot

matplotlib.use("Agg")
from matplotlib import pyplot


def grating(size: int, degrees: float) -> np.ndarray:
    """Give waves of five pixels whose crests lie at an angle, within a round window."""
    y, x = np.mgrid[:size, :size] - size / 2
    angle = np.radians(degrees)
    window = np.exp(-(x * x + y * y) / (2 * (size / 5) ** 2))
    return np.cos(2 * np.pi / 5 * (x * np.cos(angle) + y * np.sin(angle))) * window


def main(folder: str | Path = ".") -> dict[str, float]:
    """Draw filters, Littlewood-Paley sums and scattering discs; print and return what to look for."""
    signals, images = Scattering1D(J=6, shape=1024, Q=8), Scattering2D(J=3, shape=(64, 64))
    figure, axes = pyplot.subplots(2, 3, figsize=(14, 8))
    plot.filter_bank(signals, axes[0, 0])
    plot.littlewood_paley(signals, axes[1, 0])
    plot.filter_bank(images, axes[0, 1])
    plot.littlewood_paley(images, axes[1, 1])
    upright, slanted = images(np.stack([grating(64, 0), grating(64, 45)]))
    middle = upright.shape[-1] // 2
    plot.scattering_disc(images, upright[:, middle, middle], axes[0, 2])
    plot.scattering_disc(images, slanted[:, middle, middle], axes[1, 2])
    figure.tight_layout()
    figure.savefig(Path(folder) / "scattering_filters.png", dpi=80)
    pyplot.close(figure)
    first = images.meta()["order"] == 1
    angles = [int(np.argmax(part[first][:, middle, middle])) % images.L for part in (upright, slanted)]
    sums = {kind: float(plot.littlewood_paley_sum(S).max()) for kind, S in (("signals", signals), ("images", images))}
    print("Look for filters that cover all frequencies alike: their Littlewood-Paley sums are at most")
    print(f"  {sums['signals']:.2f} for signals and {sums['images']:.2f} for images,")
    print(f"and for gratings that turn by an eighth: the strongest wavelet goes from angle {angles[0]} to {angles[1]}.")
    return {**sums, "turn": float((angles[1] - angles[0]) % images.L)}


if __name__ == "__main__":
    main(*sys.argv[1:])
