"""Write docs/performance.md and the tables of README.md: ``python bench/performance.py RECORD.json [RECORD.json ...]``.

The page has a section for each record. README has the rows that the project's goals are stated for, each from the first
record that has it, and of every function the row in which a rival is furthest ahead. Nothing is written by hand: a test
makes both again from the records that the page names.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import figures
import notes
import report
from tables import seconds, shape, times

ROOT = Path(__file__).resolve().parents[1]
PAGE, PLOTS, README = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance", ROOT / "README.md"
COMMAND = "python bench/performance.py"
BEGIN, END = "<!-- performance: begin -->", "<!-- performance: end -->"

# How the labels of the rows in README begin; where several do, the widest instructions and most threads are taken.
GOALS = (
    "gram.rbf n=4096 m=4096 d=128 float32",
    "gram.laplacian n=1024 m=1024 d=128 float32",
    "gram.ntk n=4096 m=4096 d=128 depth=2 float32",
    "gram.linear n=4096 m=4096 d=512 float32",
    "gram.linear n=8 m=8 d=8 float32",
    "gram.matvec n=20000 m=20000 d=16 float32",
    *(f"engine n={n} m={n} d={n} {dtype}" for n in (1024, 2048) for dtype in ("float32", "float64")),
    *(
        f"conv.{name} of=ResNet-50 n=8 channels={channels} filters={channels} side={side} k=3 float32"
        for name, channels, side in (
            ("conv2d", 64, 56),
            ("conv2d", 128, 28),
            ("conv2d", 256, 14),
            ("conv2d", 512, 7),
            ("conv2d_input", 64, 56),
            ("conv2d_weight", 64, 56),
        )
    ),
    "conv.conv2d of=ResNet-50 n=8 channels=64 filters=256 side=56 k=1 float32",
    "conv.conv2d of=ResNet-50 n=8 channels=256 filters=64 side=56 k=1 float32",
    "conv.conv2d of=ResNet-50 n=8 channels=3 filters=64 side=224 k=7 stride=2 float32",
    "conv.conv2d of=MobileNet n=8 channels=128 side=56 k=3 float32",
    "conv.convolve f=1000000 h=1000 float32",
    *(
        f"group.{name} group={group} n=16 channels=32 side=32 k=3 float32"
        for group in ("p4", "p4m")
        for name in ("conv2d", "conv2d_input", "conv2d_weight")
    ),
    "scattering.Scattering2D batch=128x3 shape=32x32 J=2 float32",
    "scattering.Scattering2D batch=128x3 shape=32x32 J=3 float32",
    "scattering.Scattering2D_vjp batch=128x3 shape=32x32 J=2 float32",
    "scattering.Scattering2D batch=8x1 shape=256x256 J=4 float32",
    "scattering.Scattering2D batch=1x1 shape=512x512 J=5 float32",
    "scattering.Scattering1D batch=16 shape=8192 J=6 Q=8 normalization=mean float32",
    "scattering.HarmonicScattering3D batch=8 shape=64x64x64 J=2 L=2 float32",
    *(f"fft.batched n={n} numbers=1048576 complex64" for n in (48, 256, 1000, 4096)),
    "fft.real n=512 numbers=1048576 float32",
    "hebbian.sanger k=64 d=784 n=2000 mode=sequential float32",
    "hebbian.oja k=1 d=784 n=2000 mode=sequential float32",
    "hebbian.subspace k=256 d=1024 n=250 mode=sequential float32",
    "hebbian.sanger k=64 d=784 n=2000 mode=batch float32",
    "hebbian.hopfield_recall m=1000 d=1000 n=50 mode=async float32",
)


# ---- choosing rows ----
def _call(group: dict) -> str:
    """The label without what it was run with."""
    return group["label"].split(" threads=")[0]


def _rank(record: dict, group: dict) -> tuple:
    """Of rows of the same sizes: no point of a plot, the widest instructions, the most threads."""
    isas = record["fastdl"]["isas"]
    width = isas.index(group["isa"]) if group["isa"] in isas else -1
    return not group["series"], width, group["threads"]


def chosen(records: list[dict]) -> list[list[dict]]:
    """The rows of the goals, for each record those that it is the first to have."""
    result: list[list[dict]] = [[] for _ in records]
    for goal in GOALS:
        for rows, record in zip(result, records, strict=True):
            alike = [group for group in record["timings"] if _call(group) == goal and figures.ratio(group)]
            if alike:
                rows.append(max(alike, key=lambda group: _rank(record, group)))
                break
    return result


def compared(records: list[dict]) -> list[dict]:
    """All rows with a rival, each of the first record that has it."""
    first: dict[str, dict] = {}
    for record in records:
        for group in record["timings"]:
            if figures.ratio(group):
                first.setdefault(group["label"], group)
    return list(first.values())


def furthest_behind(groups: list[dict]) -> list[dict]:
    """Of every function that is slower than a rival somewhere, the row in which it is furthest behind."""
    worst: dict[str, dict] = {}
    for group in sorted(groups, key=figures.ratio):
        if figures.ratio(group) < 1:
            worst.setdefault(group["function"], group)
    return list(worst.values())


# ---- README ----
def _cells(group: dict) -> list[str]:
    def time(contender: str) -> str:
        # A number and its unit stay in one line.
        return seconds(figures.best(group, contender)).replace(" ", "\u00a0")

    rival = figures.best_rival(group)
    return [
        f"`{group['function']}`",
        shape(group),
        group["dtype"],
        time(figures.OURS),
        f"{rival} {time(rival)}",
        times(figures.ratio(group)),
    ]


HEADER = ["function", "size", "dtype", "fastdl", "best rival", "best rival / fastdl"]


def _where(record: dict) -> str:
    computer = record["machine"]
    return f"{computer['available_cores']} cores of {computer['cpu']} with {record['fastdl']['isa']}"


def _conditions(record: dict) -> str:
    dirty = " with changes" if record["dirty"] else ""
    return f"{record['date'][:10]}, commit {record['commit']}{dirty}, load {record['load']:.1f} when it began"


def summary(records: list[dict]) -> str:
    """The part of README: goals by machine, then where rivals are ahead."""
    parts = []
    given = [(record, groups) for record, groups in zip(records, chosen(records), strict=True) if groups]
    for record, groups in sorted(given, key=lambda pair: GOALS.index(_call(pair[1][0]))):
        parts.append(f"On {_where(record)} ({_conditions(record)}):")
        parts.append(report.in_markdown(HEADER, [_cells(group) for group in groups]))
    groups = compared(records)
    behind = [group for group in groups if figures.ratio(group) < 1]
    parts.append(f"A rival is faster in {len(behind)} of the {len(groups)} rows of these records that have one.")
    if behind:
        parts[-1] += " Of each function the one in which it is furthest ahead:"
        rows = [
            [*_cells(group)[:3], f"{group['isa']}, threads {group['threads']}", *_cells(group)[3:]]
            for group in furthest_behind(groups)
        ]
        parts.append(report.in_markdown([*HEADER[:3], "instructions", *HEADER[3:]], rows))
    return "\n\n".join(parts)


def readme(text: str, records: list[dict]) -> str:
    """The text of README with its tables made new."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no part between {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{summary(records)}\n{END}{after}"


# ---- the page ----
def prefix(name: str) -> str:
    """What the names of the plots of a record begin with."""
    return name.removeprefix("bench/results/").removesuffix(".json").replace("/", "-") + "-"


def page(names: list[str], records: list[dict]) -> str:
    """docs/performance.md: what README has, then every record in full."""
    parts = [
        "# Performance",
        f"Generated by `{COMMAND} {' '.join(names)}`; do not edit.",
        notes.HOW + " More on how contenders are measured, and how each of them is called, is in `bench/README.md`.",
        "## At a glance",
        summary(records),
    ]
    for name, record in zip(names, records, strict=True):
        pictures = {
            family: f"{PLOTS.name}/{file}" for family, file in report.picture_names(record, prefix(name)).items()
        }
        parts += [
            f"## {_where(record)}, {record['date'][:10]}: {', '.join(figures.families(record))}",
            f"From `{name}`.",
            "```text\n" + "\n".join(notes.description(record)) + "\n```",
            *report.sections(record, pictures, heading="###"),
        ]
    return "\n\n".join(parts) + "\n"


def named(text: str) -> list[str]:
    """The records that a page was made of."""
    found = re.search(rf"`{re.escape(COMMAND)} ([^`]+)`", text)
    return found[1].split() if found else []


def read(names: list[str]) -> list[dict]:
    """Records by their names in the checkout."""
    return [json.loads((ROOT / name).read_text(encoding="utf-8")) for name in names]


def main(arguments: list[str]) -> int:
    """Write the page, its plots, and the tables of README."""
    if not arguments:
        print(f"usage: {COMMAND} RECORD.json [RECORD.json ...]", file=sys.stderr)
        return 2
    names = [Path(argument).resolve().relative_to(ROOT).as_posix() for argument in arguments]
    records = read(names)
    here = {_call(group) for groups in chosen(records) for group in groups}
    for goal in GOALS:
        if goal not in here:
            print(f"no record has {goal} with a rival", file=sys.stderr)
    PLOTS.mkdir(exist_ok=True)
    for old in PLOTS.glob("*.png"):
        old.unlink()
    for name, record in zip(names, records, strict=True):
        report.draw(record, PLOTS, prefix(name))
    PAGE.write_text(page(names, records), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8"), records), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
