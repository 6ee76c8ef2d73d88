"""Plots of a recorded run: a panel for each series, time against size."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import figures
import series
from figures import OURS, PYTHON, REFERENCE

COLORS = {
    OURS: "tab:red",
    REFERENCE: "tab:gray",
    PYTHON: "black",
    "numpy": "tab:blue",
    "torch": "tab:orange",
    "torch nhwc": "goldenrod",
    "scipy": "tab:cyan",
    "sklearn": "tab:green",
    "keops": "tab:purple",
    "neural-tangents": "tab:brown",
    "kymatio torch": "tab:pink",
    "kymatio numpy": "tab:olive",
    "e2cnn": "navy",
}

PANEL = (5.0, 3.6)  # inches
MOST_COLUMNS = 4


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _plain(text: str) -> str:
    """A text in which no sign begins a formula."""
    return text.replace("$", r"\$")


def _curves(groups: list[dict], value) -> dict[str, tuple[list, list]]:
    """Points of each contender, in the order of the axis."""
    curves: dict[str, tuple[list, list]] = {}
    for group in groups:
        for name in group["contenders"]:
            x, y = curves.setdefault(name, ([], []))
            x.append(series.position(group))
            y.append(value(group, name))
    return curves


def title(groups: list[dict]) -> str:
    """What a panel shows, in two lines."""
    first = groups[0]
    if first["family"] in figures.RATE_FAMILIES:
        return f"n³ {first['dtype']}, {first['isa']}, threads {first['threads']}\ndashed: peak"
    threads = "" if series.axis(first) == "threads" else f", threads {first['threads']}"
    other = ", ".join(f"{name} = {value}" for name, value in series.constants(groups).items())
    return f"{first['function']} {first['dtype']}{threads}\n{other}"


def _ticks(places: list[float]) -> list[float]:
    """Places of a series that are far enough from each other to be written at a logarithmic axis."""
    chosen = places[:1]
    for place in places[1:]:
        if math.log(place / chosen[-1]) > 0.09 * math.log(places[-1] / places[0]):
            chosen.append(place)
    return chosen


def _panel(axes: Any, record: dict, groups: list[dict]) -> None:
    """Draw one series: rates on plain scales where the table is of rates, else times on logarithmic ones."""
    first = groups[0]
    by_rate = first["family"] in figures.RATE_FAMILIES
    for name, (x, y) in _curves(groups, figures.rate if by_rate else figures.best).items():
        axes.plot(
            x,
            y,
            marker="o" if len(x) < 30 else None,
            markersize=3,
            color=COLORS.get(name),
            linewidth=2 if name == OURS else 1,
            zorder=3 if name == OURS else 2,
            label=_plain(name),
        )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    axes.set_title(_plain(title(groups)), fontsize=10)
    if by_rate:
        top = figures.peak(record, first)
        if top:
            axes.axhline(top, color="black", linestyle="--", linewidth=0.8)
        axes.set(xlabel=series.axis(first), ylabel="GF/s", ylim=(0, None))
        return
    axes.set(xscale="log", yscale="log", xlabel=series.axis(first), ylabel="seconds")
    ticks = _ticks([series.position(group) for group in groups])
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)


def _ordered(record: dict, family: str) -> list[list[dict]]:
    """The series of a family, those of one type together."""
    return sorted(series.all_series(record, family), key=lambda groups: groups[0]["dtype"])


def plot(record: dict, family: str, path: Path) -> None:
    """Draw the series of a family, of which there are some, one panel each, into one file."""
    panels = _ordered(record, family)
    pyplot = _pyplot()
    columns = min(len(panels), MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(PANEL[0] * columns, PANEL[1] * rows), squeeze=False, layout="constrained"
    )
    for axes, groups in zip(grid.flat, panels, strict=False):
        _panel(axes, record, groups)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    # No software or date in the file: the same record gives the same bytes.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def panels(record: dict, family: str) -> list[tuple[str, bytes]]:
    """Each series of a family as a title and a PNG without a background, for a page that has its own."""
    found = _ordered(record, family)
    if not found:
        return []
    pyplot = _pyplot()
    result = []
    for groups in found:
        figure, axes = pyplot.subplots(figsize=PANEL, layout="constrained")
        _panel(axes, record, groups)
        axes.get_legend().get_frame().set_alpha(0.0)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=120, transparent=True, metadata={"Software": None})
        pyplot.close(figure)
        result.append((title(groups).replace("\n", "; "), file.getvalue()))
    return result
