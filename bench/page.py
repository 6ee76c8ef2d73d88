"""A recorded run as one HTML page that needs nothing else: ``python bench/page.py RECORD.json FILE``.

Style and script come from page.css and page.js and are put into the page, as are the plots. A browser that opens it
asks nobody for anything: the page itself forbids it. Nothing of the record gets into the script.
"""

from __future__ import annotations

import base64
import json
import sys
from html import escape
from pathlib import Path

import figures
import notes
import plots
import tables
from tables import Column, Table

HERE = Path(__file__).resolve().parent

# What is in the page may run and show; nothing may be fetched, sent or framed.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "script-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
)

FAMILY_WORDS = {
    "gram": "Gram matrices",
    "engine": "The matrix-product engine",
    "conv": "Convolutions",
    "group": "Convolutions on groups",
    "hebbian": "Hebbian learning",
    "scattering": "Scattering transforms",
    "fft": "The Fourier engine",
}


# ---- parts ----
def listed(lines: list[str], kind: str = "remarks") -> str:
    """Lines as a list."""
    return f'<ul class="{kind}">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>' if lines else ""


def _cell(column: Column, group: dict, first: bool) -> str:
    value, text = column.value(group), escape(column.text(group))
    note = column.note(group) if column.note and text else None
    classes = ["word" if column.word else "number"]
    # The eye goes to the fastest of a row, and to rows in which that is someone else.
    if column.contender and column.contender == _fastest(group):
        classes.append("fastest")
    if column.value is figures.ratio and value is not None and value < 1:
        classes.append("behind")
    attributes = f' class="{" ".join(classes)}"'
    if not column.word and value is not None:
        attributes += f' data-value="{value!r}"'
    if note:
        text += f" <small>{escape(note)}</small>"
    return f'<th scope="row"{attributes}>{text}</th>' if first else f"<td{attributes}>{text}</td>"


def _fastest(group: dict) -> str | None:
    """Who of us and the rivals took least."""
    names = [name for name in (figures.OURS, *figures.rivals(group)) if figures.best(group, name)]
    return min(names, key=lambda name: figures.best(group, name)) if len(names) > 1 else None


def _heading(column: Column) -> str:
    meaning = f' title="{escape(column.meaning)}"' if column.meaning else ""
    ours = " ours" if column.contender == figures.OURS else ""
    kind = "word" if column.word else "number"
    return f'<th scope="col" class="{kind}{ours}" data-kind="{kind}"{meaning}>{escape(column.name)}</th>'


def in_html(table: Table, caption: str, kind: str = "figures") -> str:
    """A table whose numbers carry their values, for the script to sort by."""
    rows = []
    for group in table.groups:
        behind = ' class="rival-faster"' if (figures.ratio(group) or 1.0) < 1 else ""
        cells = "".join(_cell(column, group, number == 0) for number, column in enumerate(table.columns))
        rows.append(f"<tr{behind}>{cells}</tr>")
    head = "".join(map(_heading, table.columns))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{kind}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody></table></div>"
    )


def summary(record: dict) -> str:
    """A line for each family: how often, and by how much, who is faster."""
    lines = []
    for family in figures.families(record):
        ratios = [value for group in figures.of_family(record, family) if (value := figures.ratio(group))]
        if ratios:
            behind = sum(value < 1 for value in ratios)
            lines.append(
                f'<tr><th scope="row"><a href="#{escape(family)}">{escape(FAMILY_WORDS.get(family, family))}</a></th>'
                f'<td class="number">{len(ratios)}</td><td class="number{" behind" if behind else ""}">{behind}</td>'
                f'<td class="number">{tables.times(figures.geometric_mean(ratios))}</td>'
                f'<td class="number{" behind" if min(ratios) < 1 else ""}">{tables.times(min(ratios))}</td>'
                f'<td class="number">{tables.times(max(ratios))}</td></tr>'
            )
    if not lines:
        return ""
    names = ("compared", "rival faster", "mean ratio", "lowest", "highest")
    head = "".join(f'<th scope="col" class="number">{name}</th>' for name in names)
    return (
        '<div class="scroll"><table class="summary"><caption>Time of the best rival over ours</caption>'
        f'<thead><tr><th scope="col">family</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def pictures(record: dict, family: str) -> str:
    """The plots of a family, inside of the page."""
    found = [
        f'<img alt="{escape(title)}" src="data:image/png;base64,{base64.b64encode(content).decode()}">'
        for title, content in plots.panels(record, family)
    ]
    return f'<div class="plots">{"".join(found)}</div>' if found else ""


def _ours_first(table: Table) -> Table:
    """The same with all that is ours on the left: on a narrow screen the rest is out of sight."""
    ours = next(number for number, column in enumerate(table.columns, 1) if column.contender == figures.OURS)
    rest = sorted(table.columns[ours:], key=lambda column: 2 if column.word else bool(column.contender))
    return Table([*table.columns[:ours], *rest], table.groups)


def section(record: dict, family: str) -> str:
    """A family: its table, remarks and plots."""
    name = FAMILY_WORDS.get(family, family)
    table = _ours_first(tables.table(record, family))
    return (
        f'<section id="{escape(family)}"><h2>{escape(name)}</h2>'
        + (in_html(table, f"{name}: {len(table.groups)} rows") if table.groups else "")
        + listed(notes.remarks(record, family))
        + pictures(record, family)
        + "</section>"
    )


# ---- the page ----
def html(record: dict) -> str:
    """The whole page."""
    families = figures.families(record)
    computer = record["machine"]
    lead = (
        f"{computer['cpu']}, {computer['available_cores']} cores, {record['fastdl']['isa'] or 'not compiled'} · "
        f"{record['date'][:10]} · commit {record['commit']}{' with changes' if record['dirty'] else ''}"
    )
    facts = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in notes.facts(record))
    links = "".join(f'<a href="#{escape(family)}">{escape(family)}</a>' for family in families)
    busy = '<p class="warning">Others were using this machine when the run began.</p>'
    found = [("Cliffs", notes.cliffs(record)), ("Not measured", notes.omissions(record))]
    parts = [
        f"<header><h1>fastdl <span>benchmarks</span></h1><p>{escape(lead)}</p>",
        busy if figures.busy(record) else "",
        f"</header><main>{summary(record)}",
        f"<details><summary>Machine and method</summary><dl>{facts}</dl><p>{escape(notes.HOW)}</p></details>",
        '<div id="tools" hidden><label>Filter <input id="filter" type="search" autocomplete="off" '
        'placeholder="rbf float32"></label><label><input id="behind" type="checkbox"> only where a rival is '
        f'faster</label><output id="count" aria-live="polite"></output><nav aria-label="Families">{links}</nav></div>',
        *(section(record, family) for family in families),
        *(f"<section><h2>{title}</h2>{listed(lines, 'findings')}</section>" for title, lines in found if lines),
        "</main>",
    ]
    title = f"fastdl benchmarks, {record['date'][:10]}, {computer['cpu']}"
    style, script = ((HERE / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n'
        f"<body>\n{body}\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def write(record: dict, path: Path) -> None:
    """Write the page."""
    path.write_text(html(record), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Make the page of a recorded run."""
    if len(arguments) != 2:
        print("usage: python bench/page.py RECORD.json FILE", file=sys.stderr)
        return 2
    write(json.loads(Path(arguments[0]).read_text(encoding="utf-8")), Path(arguments[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
