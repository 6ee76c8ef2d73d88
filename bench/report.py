"""Tables and plots of a recorded run. All numbers come from the record: ``python bench/report.py results/x.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import plots
from figures import families
from notes import HOW, cliffs, description, omissions, remarks
from series import all_series
from tables import Table, table


def in_columns(shown: Table) -> str:
    """A table for a terminal: words to the left, numbers to the right."""
    header, rows = shown.strings()
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    sides = ["<" if column.word else ">" for column in shown.columns]

    def line(row: list[str]) -> str:
        cells = zip(row, sides, widths, strict=True)
        return "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def in_markdown(header: list[str], rows: list[list[str]]) -> str:
    """The same table for a report."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def listed(lines: list[str]) -> str:
    """Lines as a list."""
    return "\n".join(f"- {line}" for line in lines)


def text(record: dict) -> str:
    """The whole report for a terminal."""
    parts = ["\n".join(description(record))]
    for family in families(record):
        shown = table(record, family)
        if shown.groups:
            parts.append(f"{family}\n{in_columns(shown)}")
        if remarks(record, family):
            parts.append("\n".join(remarks(record, family)))
    if cliffs(record):
        parts.append("cliffs\n" + "\n".join(cliffs(record)))
    if omissions(record):
        parts.append("\n".join(omissions(record)))
    return "\n\n".join(parts) + "\n"


def sections(record: dict, pictures: dict[str, str], heading: str = "##") -> list[str]:
    """Each family, then cliffs and what was not measured, in Markdown; `pictures` are file names by family."""
    parts = []
    for family in families(record):
        parts.append(f"{heading} {family}")
        shown = table(record, family, median=True)
        if shown.groups:
            parts.append(in_markdown(*shown.strings()))
        if remarks(record, family):
            parts.append(listed(remarks(record, family)))
        if family in pictures:
            parts.append(f"![{family}]({pictures[family]})")
    for title, lines in (("Cliffs", cliffs(record)), ("Not measured", omissions(record))):
        if lines:
            parts += [f"{heading} {title}", listed(lines)]
    return parts


def markdown(record: dict, pictures: dict[str, str]) -> str:
    """The whole report as Markdown; `pictures` are file names by family."""
    parts = ["# Benchmarks", "```text\n" + "\n".join(description(record)) + "\n```", HOW]
    return "\n\n".join(parts + sections(record, pictures)) + "\n"


def picture_names(record: dict, prefix: str = "") -> dict[str, str]:
    """The file of every family that has a series to be drawn."""
    return {family: f"{prefix}{family}.png" for family in families(record) if all_series(record, family)}


def draw(record: dict, folder: Path, prefix: str = "") -> None:
    """Draw these files."""
    for family, name in picture_names(record, prefix).items():
        plots.plot(record, family, folder / name)


def write(record: dict, folder: Path) -> None:
    """Write the report and the plots into a folder."""
    draw(record, folder)
    (folder / "report.md").write_text(markdown(record, picture_names(record)), encoding="utf-8")


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
