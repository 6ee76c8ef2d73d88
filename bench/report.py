"""Tables and plots of a recorded run. All numbers come from the record: ``python bench/report.py results/x.json``."""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path

OURS, REFERENCE, PYTHON = "fastdl", "reference", "python"
NOT_RIVALS = (OURS, REFERENCE, PYTHON, "fastdl cuda")

# Whose versions a reader wants to know.
LIBRARIES = ("numpy", "scipy", "torch", "scikit-learn", "pykeops", "kymatio", "e2cnn", "neural-tangents")

# Families whose table is of GF/s by instruction set and threads; all others have one of times.
RATE_FAMILIES = ("engine",)

# Columns of words, to the left; numbers go to the right.
WORDS = ("function", "size", "dtype", "instructions", "NumPy's kernels")

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


# ---- numbers ----
def seconds(value: float | None) -> str:
    """A time in three digits and the unit that fits."""
    if value is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value / size < 100 else f"{value / size:.0f} {unit}"
    return f"{value * 1e9:.0f} ns"


def times(value: float | None) -> str:
    """A ratio; above 1 we are faster."""
    return "" if value is None else f"{value:.2f}x"


def percent(value: float | None) -> str:
    """A share."""
    return "" if value is None else f"{100 * value:.0f}%"


def best(group: dict, contender: str) -> float | None:
    """The best time of a contender, if it took part."""
    timing = group["contenders"].get(contender)
    return None if timing is None else timing["best"]


def rate(group: dict, contender: str = OURS) -> float | None:
    """GF/s of a contender, where there are products to count."""
    value = best(group, contender)
    return group["flops"] / value / 1e9 if value and group["flops"] else None


def entry_rate(group: dict) -> float | None:
    """Entries of a Gram matrix a second, in billions: ours, and None where there are none."""
    value = best(group, OURS)
    return group["entries"] / value / 1e9 if value and group.get("entries") else None


def rivals(group: dict) -> list[str]:
    """Who took part besides us, the reference and the loop."""
    return [name for name in group["contenders"] if name not in NOT_RIVALS]


def ratio(group: dict) -> float | None:
    """Time of the best rival over ours."""
    ours, theirs = best(group, OURS), [best(group, name) for name in rivals(group)]
    return min(theirs) / ours if ours and theirs else None


def peak(record: dict, group: dict) -> float | None:
    """GF/s the machine was seen to reach with the same instructions, type and threads."""
    level = record["machine"]["peaks"]["gflops"].get(group["isa"], {})
    real = {"complex64": "float32", "complex128": "float64"}.get(group["dtype"], group["dtype"])
    return level.get(real, {}).get(str(group["threads"]))


def share(record: dict, group: dict) -> float | None:
    """Our rate over the machine's."""
    top, ours = peak(record, group), rate(group)
    return ours / top if ours and top else None


def size(group: dict) -> str:
    """Shapes as a reader expects them: of X and, unless it is X again, of Y; then whatever else tells cases apart."""
    sizes = dict(group["size"])
    n, m, d = (sizes.get(name) for name in ("n", "m", "d"))
    parts = []
    if None not in (n, m, d):
        parts.append(f"{n}x{d}, symmetric" if group["symmetric"] else f"{n}x{d}, {m}x{d}")
        sizes = {name: value for name, value in sizes.items() if name not in ("n", "m", "d")}
    return ", ".join(parts + [f"{name}={value}" for name, value in sizes.items()])


def fixed(value: float | None, digits: int = 1) -> str:
    """A plain number."""
    return "" if value is None else f"{value:.{digits}f}"


# ---- tables: a header and rows of strings ----
Table = tuple[list[str], list[list[str]]]


def families(record: dict) -> list[str]:
    """Those that have timings, in the order they ran."""
    return list(dict.fromkeys(group["family"] for group in record["timings"]))


def of_family(record: dict, family: str) -> list[dict]:
    """The groups of a family."""
    return [group for group in record["timings"] if group["family"] == family]


def time_table(record: dict, family: str) -> Table:
    """A row for each case: everyone's best time."""
    groups = of_family(record, family)
    others = list(dict.fromkeys(name for group in groups for name in (PYTHON, *rivals(group))))
    if not any(PYTHON in group["contenders"] for group in groups):
        others.remove(PYTHON)
    header = ["function", "size", "dtype", "ours", "reference", *others, "best rival / ours"]
    header += ["GF/s", "of peak", "Gentries/s"]
    rows = [
        [
            group["function"],
            size(group),
            group["dtype"],
            *(seconds(best(group, name)) for name in (OURS, REFERENCE, *others)),
            times(ratio(group)),
            fixed(rate(group)),
            percent(share(record, group)),
            fixed(entry_rate(group), 3),
        ]
        for group in groups
    ]
    return header, rows


def rate_table(record: dict, family: str) -> Table:
    """A row for each case: rates, ours and NumPy's."""
    header = [
        "instructions",
        "threads",
        "dtype",
        "size",
        "ours GF/s",
        "NumPy GF/s",
        "ratio",
        "of peak",
        "NumPy's kernels",
    ]
    rows = [
        [
            group["isa"],
            str(group["threads"]),
            group["dtype"],
            size(group),
            fixed(rate(group)),
            fixed(rate(group, "numpy")),
            times(ratio(group)),
            percent(share(record, group)),
            group.get("blas") or "",
        ]
        for group in of_family(record, family)
        if not group["series"]
    ]
    return header, rows


def table(record: dict, family: str) -> Table:
    """The table of a family."""
    return (rate_table if family in RATE_FAMILIES else time_table)(record, family)


def in_columns(header: list[str], rows: list[list[str]]) -> str:
    """A table for a terminal: words to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    words = [name in WORDS for name in header]

    def line(row: list[str]) -> str:
        cells = zip(row, widths, words, strict=True)
        return "  ".join(f"{cell:<{width}}" if word else f"{cell:>{width}}" for cell, width, word in cells).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def in_markdown(header: list[str], rows: list[list[str]]) -> str:
    """The same table for a report."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


# ---- remarks ----
def symmetric_remarks(record: dict, family: str) -> list[str]:
    """Symmetric products against NumPy's plain rate on 2048³: the measure of the project's goals."""
    groups = [group for group in of_family(record, family) if not group["series"]]
    plain = {
        (group["isa"], group["threads"], group["dtype"]): rate(group, "numpy")
        for group in groups
        if set(group["size"].values()) == {2048}
    }
    return [
        f"{size(group)}, {group['dtype']}, {group['isa']}, threads {group['threads']}: {fixed(rate(group))} GF/s with "
        f"half the flops counted, {rate(group) / reference:.2f} of NumPy's rate on 2048³"
        for group in groups
        if group["symmetric"]
        and rate(group)
        and (reference := plain.get((group["isa"], group["threads"], group["dtype"])))
    ]


def sweep_remarks(record: dict, family: str) -> list[str]:
    """For each curve of the sweep: the mean ratio, and the size that falls behind its neighbours most."""
    curves: dict[tuple, list[dict]] = {}
    for group in of_family(record, family):
        if group["series"] == "sweep" and ratio(group):
            curves.setdefault((group["isa"], group["dtype"], group["threads"]), []).append(group)
    remarks = []
    for (isa, dtype, threads), groups in curves.items():
        if len(groups) < 3:
            continue
        groups.sort(key=lambda group: group["size"]["n"])
        mean = math.exp(statistics.mean(math.log(ratio(group)) for group in groups))
        drops = [
            (2 * rate(at) / (rate(before) + rate(after)), at["size"]["n"])
            for before, at, after in zip(groups, groups[1:], groups[2:], strict=False)
        ]
        worst, where = min(drops)
        remarks.append(
            f"n³ for n = {groups[0]['size']['n']} to {groups[-1]['size']['n']}, {isa}, {dtype}, threads {threads}: "
            f"{mean:.2f} of NumPy's rate (geometric mean); lowest against its neighbours: {worst:.2f} at n = {where}"
        )
    return remarks


def network_remarks(record: dict, family: str) -> list[str]:
    """For layers of a network that differ only in channels and in the size of the image: the mean and lowest ratio."""
    alike: dict[tuple, list[dict]] = {}
    for group in of_family(record, family):
        if "of" in group["size"] and ratio(group):
            kind = ", ".join(
                f"{name}={value}"
                for name, value in group["size"].items()
                if name not in ("channels", "filters", "side")
            )
            alike.setdefault((group["function"], kind, group["dtype"]), []).append(group)
    remarks = []
    for (function, kind, dtype), groups in alike.items():
        if len(groups) > 1:
            mean = math.exp(statistics.mean(math.log(ratio(group)) for group in groups))
            lowest = min(groups, key=ratio)
            remarks.append(
                f"{function} {kind}, {dtype}: {times(mean)} the best rival's speed (geometric mean of {len(groups)}); "
                f"lowest {times(ratio(lowest))}, channels={lowest['size']['channels']}, side={lowest['size']['side']}"
            )
    return remarks


def remarks(record: dict, family: str) -> list[str]:
    """What the table of a family does not show by itself."""
    if family in RATE_FAMILIES:
        return symmetric_remarks(record, family) + sweep_remarks(record, family)
    return network_remarks(record, family)


def description(record: dict) -> list[str]:
    """On what, with what and from what the figures were made."""
    computer, versions, library = record["machine"], record["versions"], record["fastdl"]
    peaks = computer["peaks"]
    blas = versions["blas"]
    dirty = " with changes" if record["dirty"] else ""
    busy = record["load"] > 0.25 * computer["available_cores"]
    load = f"load before it {record['load']:.1f}{': OTHERS WERE USING THIS MACHINE' if busy else ''}"
    lines = [
        f"{computer['cpu']}, {computer['available_cores']} of {computer['cores']} cores, caches "
        + ", ".join(f"{name} {amount}" for name, amount in computer["caches"].items()),
        f"fastdl {library['version']} ({record['commit']}{dirty}), {library['build'] or 'not compiled'}; "
        f"instruction sets {', '.join(library['isas']) or 'none'}",
        f"Python {versions['python']}, "
        + ", ".join(f"{name} {versions[name]}" for name in LIBRARIES if versions.get(name))
        + f"; NumPy's BLAS: {blas['internal_api']} {blas['version']} ({blas['architecture']})",
        f"{record['date']}, {record['mode']} run of {record['seconds']:.0f} s, {load}",
        f"peaks by {peaks['method']}:",
    ]
    for level, rates in peaks["gflops"].items():
        width = peaks["vector_bytes"].get(level)
        parts = [
            f"{dtype} {' / '.join(fixed(value, 0) for value in counts.values())} GF/s with {' / '.join(counts)} threads"
            for dtype, counts in rates.items()
        ]
        lines.append(f"  {level}{f', vectors of {width} bytes' if width else ''}: {'; '.join(parts)}")
    counts, rates = peaks["bandwidth"].keys(), peaks["bandwidth"].values()
    lines.append(f"  memory: {' / '.join(fixed(value) for value in rates)} GB/s with {' / '.join(counts)} threads")
    return lines


def omissions(record: dict) -> list[str]:
    """What is not in the tables, and why."""
    lines = [f"FAILED {entry['label']}: {entry['message']}" for entry in record["failed"]]
    if record["skipped"]:
        labels = ", ".join(entry["label"] for entry in record["skipped"][:3])
        more = "" if len(record["skipped"]) <= 3 else ", …"
        lines.append(f"{len(record['skipped'])} cases had no time left (--full measures all): {labels}{more}")
    if not record["complete"]:
        lines.append("This run was not completed.")
    return lines


def text(record: dict) -> str:
    """The whole report for a terminal."""
    parts = ["\n".join(description(record))]
    for family in families(record):
        header, rows = table(record, family)
        if rows:
            parts.append(f"{family}\n{in_columns(header, rows)}")
        if remarks(record, family):
            parts.append("\n".join(remarks(record, family)))
    if omissions(record):
        parts.append("\n".join(omissions(record)))
    return "\n\n".join(parts) + "\n"


HOW = """\
Times are the best of at least five rounds; medians and spreads are in the record. All contenders of a row have the
same threads, types and inputs, run by turns after a warm-up, and agreed within an error bound before they were timed.
Ratios above 1 mean that fastdl is faster. GF/s are ours, of the matrix products alone, and Gentries/s billions of
entries of K, whatever an entry takes; of a symmetric result one triangle is counted, for everyone. The flops of a
convolution are those of its sum, also where Winograd's algorithm needs fewer: its share of the peak may pass 100%.
The share of peak is of what the processor was measured to reach with the same instructions and threads."""


def markdown(record: dict, plots: dict[str, str]) -> str:
    """The whole report as Markdown; `plots` are file names by family."""
    parts = ["# Benchmarks", "```text\n" + "\n".join(description(record)) + "\n```", HOW]
    for family in families(record):
        parts.append(f"## {family}")
        header, rows = table(record, family)
        if rows:
            parts.append(in_markdown(header, rows))
        if remarks(record, family):
            parts.append("\n".join(f"- {remark}" for remark in remarks(record, family)))
        if family in plots:
            parts.append(f"![{family}]({plots[family]})")
    if omissions(record):
        parts.append("## Not measured\n\n" + "\n".join(f"- {line}" for line in omissions(record)))
    return "\n\n".join(parts) + "\n"


# ---- plots ----
def _curves(groups: list[dict], axis: str, value) -> dict[str, tuple[list, list]]:
    """Points of each contender, in the order of the axis."""
    curves: dict[str, tuple[list, list]] = {}
    for group in sorted(groups, key=lambda group: group["size"][axis]):
        for name in group["contenders"]:
            x, y = curves.setdefault(name, ([], []))
            x.append(group["size"][axis])
            y.append(value(group, name))
    return curves


def _draw(axes, curves: dict[str, tuple[list, list]]) -> None:
    for name, (x, y) in curves.items():
        ours = name == OURS
        axes.plot(
            x,
            y,
            marker="o" if len(x) < 30 else None,
            markersize=3,
            color=COLORS.get(name),
            linewidth=2 if ours else 1,
            zorder=3 if ours else 2,
            label=name,
        )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def plot(record: dict, family: str, path: Path) -> bool:
    """Draw the series of a family, one panel each; tell whether there were any."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_rate = family in RATE_FAMILIES
    panels: dict[tuple, list[dict]] = {}
    for group in of_family(record, family):
        if group["series"]:
            column = group["threads"] if by_rate else (group["function"], group["series"])
            panels.setdefault((group["dtype"], column, group["isa"]), []).append(group)
    if not panels:
        return False
    dtypes = sorted({key[0] for key in panels})
    columns = list(dict.fromkeys(key[1:] for key in panels))
    figure, grid = pyplot.subplots(
        len(dtypes), len(columns), figsize=(5 * len(columns), 3.6 * len(dtypes)), squeeze=False, layout="constrained"
    )
    for (dtype, column, isa), groups in panels.items():
        axes = grid[dtypes.index(dtype)][columns.index((column, isa))]
        series = groups[0]["series"]
        if by_rate:
            _draw(axes, _curves(groups, "n", rate))
            top = peak(record, groups[0])
            if top:
                axes.axhline(top, color="black", linestyle="--", linewidth=0.8)
            axes.set(
                xlabel="n", ylabel="GF/s", ylim=(0, None), title=f"n³ {dtype}, {isa}, threads {column}; dashed: peak"
            )
        else:
            _draw(axes, _curves(groups, series, best))
            other = ", ".join(
                f"{name} = {value}" for name, value in groups[0]["size"].items() if name not in ("m", series)
            )
            axes.set(xscale="log", yscale="log", xlabel=series, ylabel="seconds")
            axes.set_title(f"{groups[0]['function']} {dtype}, threads {groups[0]['threads']}\n{other}", fontsize=10)
    for axes in grid.flat:
        axes.set_visible(axes.has_data())
    # No software or date in the file: the same record gives the same bytes.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return True


def write(record: dict, folder: Path) -> None:
    """Write the report and the plots into a folder."""
    plots = {family: f"{family}.png" for family in families(record) if plot(record, family, folder / f"{family}.png")}
    (folder / "report.md").write_text(markdown(record, plots), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Report on a recorded run, beside its file."""
    if len(arguments) != 1:
        print("usage: python bench/report.py RECORD.json", file=sys.stderr)
        return 2
    path = Path(arguments[0])
    record = json.loads(path.read_text(encoding="utf-8"))
    print(text(record))
    write(record, path.resolve().parent)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
