"""What is said of a record beside its tables: machine and method, remarks, cliffs, and what is not in it."""

from __future__ import annotations

import figures
import series
from figures import of_family, rate, ratio
from tables import fixed, seconds, shape, times

# Whose versions a reader wants to know.
LIBRARIES = ("numpy", "scipy", "torch", "scikit-learn", "pykeops", "kymatio", "e2cnn", "neural-tangents")

HOW = """\
Times are the best of at least five rounds; medians and spreads are in the record. All contenders of a row have the
same threads, types and inputs, run by turns after a warm-up, and agreed within an error bound before they were timed.
Ratios above 1 mean that fastdl is faster. GF/s are ours, of the matrix products alone, and Gentries/s billions of
entries of K, whatever an entry takes; of a symmetric result one triangle is counted, for everyone. The flops of a
convolution are those of its sum, also where Winograd's algorithm needs fewer: its share of the peak may pass 100%.
GB/s are of our inputs and results, each counted once, where no flops are counted. The share of peak is of what the
processor, or for GB/s the memory, was measured to reach with the same instructions and threads; arrays that stay in
the caches may pass that of the memory. Memory is by how much the peak resident size of a fresh process grew in a first
call, ours and that of the rival that took least."""


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
        f"{shape(group)}, {group['dtype']}, {group['isa']}, threads {group['threads']}: {fixed(rate(group))} GF/s with "
        f"half the flops counted, {rate(group) / reference:.2f} of NumPy's rate on 2048³"
        for group in groups
        if group["symmetric"]
        and rate(group)
        and (reference := plain.get((group["isa"], group["threads"], group["dtype"])))
    ]


def sweep_remarks(record: dict, family: str) -> list[str]:
    """For each curve of the sweep: the mean ratio, and the size that falls behind its neighbours most."""
    remarks = []
    for curve in series.all_series(record, family):
        groups = [group for group in curve if ratio(group)]
        if len(groups) < 3:
            continue
        first, last = groups[0], groups[-1]
        mean = figures.geometric_mean([ratio(group) for group in groups])
        drops = [
            (2 * rate(at) / (rate(before) + rate(after)), at["size"]["n"])
            for before, at, after in zip(groups, groups[1:], groups[2:], strict=False)
        ]
        worst, where = min(drops)
        remarks.append(
            f"n³ for n = {first['size']['n']} to {last['size']['n']}, {first['isa']}, {first['dtype']}, "
            f"threads {first['threads']}: {mean:.2f} of NumPy's rate (geometric mean); "
            f"lowest against its neighbours: {worst:.2f} at n = {where}"
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
            mean = figures.geometric_mean([ratio(group) for group in groups])
            lowest = min(groups, key=ratio)
            remarks.append(
                f"{function} {kind}, {dtype}: {times(mean)} the best rival's speed (geometric mean of {len(groups)}); "
                f"lowest {times(ratio(lowest))}, channels={lowest['size']['channels']}, side={lowest['size']['side']}"
            )
    return remarks


def remarks(record: dict, family: str) -> list[str]:
    """What the table of a family does not show by itself."""
    if family in figures.RATE_FAMILIES:
        return symmetric_remarks(record, family) + sweep_remarks(record, family)
    return network_remarks(record, family)


# ---- the whole record ----
def cliffs(record: dict) -> list[str]:
    """A line for every cliff, or one that says that there is none; nothing where no series is long enough."""
    found, count = series.cliffs(record)
    if not found:
        return [f"no cliff in {count} series"] if count else []
    lines = []
    for cliff in found:
        group, name = cliff.group, series.axis(cliff.group)
        sizes = [f"{key}={value}" for key, value in group["size"].items() if key != name]
        lines.append(
            f"{group['function']} at {name}={series.position(group)} ({', '.join([*sizes, group['dtype']])}, threads "
            f"{group['threads']}): {seconds(figures.best(group))}, {cliff.factor:.2f} of the {seconds(cliff.expected)} "
            f"that {series.position(cliff.before)} and {series.position(cliff.after)} lead one to expect"
        )
    return lines


def facts(record: dict) -> list[tuple[str, str]]:
    """On what, with what and from what the figures were made: a word, and what there is to say."""
    computer, versions, library = record["machine"], record["versions"], record["fastdl"]
    peaks = computer["peaks"]
    blas = versions["blas"]
    dirty = " with changes" if record["dirty"] else ""
    load = f"load before it {record['load']:.1f}"
    if figures.busy(record):
        load += ": OTHERS WERE USING THIS MACHINE"
    lines = [
        (
            "processor",
            f"{computer['cpu']}, {computer['available_cores']} of {computer['cores']} cores, caches "
            + ", ".join(f"{name} {size}" for name, size in computer["caches"].items()),
        ),
        (
            "library",
            f"fastdl {library['version']} ({record['commit']}{dirty}), {library['build'] or 'not compiled'}; "
            f"instruction sets {', '.join(library['isas']) or 'none'}",
        ),
        (
            "others",
            f"Python {versions['python']}, "
            + ", ".join(f"{name} {versions[name]}" for name in LIBRARIES if versions.get(name))
            + f"; NumPy's BLAS: {blas['internal_api']} {blas['version']} ({blas['architecture']})",
        ),
        ("run", f"{record['date']}, {record['mode']} run of {record['seconds']:.0f} s, {load}"),
        ("peaks", f"peaks by {peaks['method']}"),
    ]
    for level, rates in peaks["gflops"].items():
        width = peaks["vector_bytes"].get(level)
        parts = [
            f"{dtype} {' / '.join(fixed(value, 0) for value in counts.values())} GF/s with {' / '.join(counts)} threads"
            for dtype, counts in rates.items()
        ]
        lines.append((level, f"{f'vectors of {width} bytes: ' if width else ''}{'; '.join(parts)}"))
    counts, rates = peaks["bandwidth"].keys(), peaks["bandwidth"].values()
    lines.append(("memory", f"{' / '.join(fixed(value) for value in rates)} GB/s with {' / '.join(counts)} threads"))
    return lines


def description(record: dict) -> list[str]:
    """The facts as lines of text; what follows the method of the peaks are the peaks."""
    lines: list[str] = []
    measured = False
    for word, text in facts(record):
        lines.append(f"  {word}: {text}" if measured else text)
        measured = measured or word == "peaks"
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
