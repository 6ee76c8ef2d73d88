"""The table of a family: which columns it has, and how numbers are written in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import figures
from figures import OURS, PYTHON, REFERENCE


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


def fixed(value: float | None, digits: int = 1) -> str:
    """A plain number."""
    return "" if value is None else f"{value:.{digits}f}"


def amount(value: float | None) -> str:
    """Bytes in three digits and the unit that fits."""
    if value is None:
        return ""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value / size < 100 else f"{value / size:.0f} {unit}"
    return f"{value / 1e3:.0f} kB"


def shape(group: dict) -> str:
    """Shapes as a reader expects them: of X and, unless it is X again, of Y; then whatever else tells cases apart."""
    sizes = dict(group["size"])
    n, m, d = (sizes.get(name) for name in ("n", "m", "d"))
    parts = []
    if None not in (n, m, d):
        parts.append(f"{n}x{d}, symmetric" if group["symmetric"] else f"{n}x{d}, {m}x{d}")
        sizes = {name: value for name, value in sizes.items() if name not in ("n", "m", "d")}
    return ", ".join(parts + [f"{name}={value}" for name, value in sizes.items()])


# ---- columns ----
@dataclass(frozen=True)
class Column:
    """What a column has of a group: a value to go by, None where there is none, and how it is written.

    `meaning` is for who points at the heading, `note` what stands beside the number where there is room.
    """

    name: str
    value: Callable[[dict], float | str | None]
    write: Callable[[float | None], str] = str
    meaning: str = ""
    word: bool = False
    note: Callable[[dict], str] | None = None
    contender: str = ""

    def text(self, group: dict) -> str:
        """The cell of a group."""
        value = self.value(group)
        return "" if value is None else self.write(value)


@dataclass(frozen=True)
class Table:
    """Columns, and the groups that are its rows."""

    columns: list[Column]
    groups: list[dict]

    def strings(self) -> tuple[list[str], list[list[str]]]:
        """A header and rows, as they are read."""
        rows = [[column.text(group) for column in self.columns] for group in self.groups]
        return [column.name for column in self.columns], rows


def _words(*names: str) -> list[Column]:
    known: dict[str, Callable[[dict], str]] = {"size": shape, "instructions": lambda group: group["isa"]}
    return [Column(name, known.get(name, lambda group, name=name: group[name]), word=True) for name in names]


def _threads() -> Column:
    return Column("threads", lambda group: group["threads"])


def _time(name: str, contender: str) -> Column:
    return Column(
        name,
        lambda group: figures.best(group, contender),
        seconds,
        f"best time of {contender}; small: the median",
        note=lambda group: seconds(figures.median(group, contender)),
        contender=contender,
    )


RATIO = Column(
    "best rival / ours", figures.ratio, times, "time of the best rival over ours: below 1 the rival is faster"
)
GFLOPS = Column("GF/s", figures.rate, fixed, "our rate of multiplications and additions, in billions a second")
GBYTES = Column("GB/s", figures.traffic, fixed, "our inputs and results, each once, in billions of bytes a second")
ENTRIES = Column("Gentries/s", figures.entry_rate, lambda value: fixed(value, 3), "entries of K, in billions a second")
MEDIAN = Column("our median", figures.median, seconds)
MEMORY = Column("memory", figures.memory, amount, "growth of our peak resident size in a first call")
LEANEST = Column(
    "leanest rival's",
    lambda group: figures.memory(group, figures.leanest_rival(group)),
    amount,
    "the same of the rival that took least",
    note=figures.leanest_rival,
)


def _share(record: dict) -> Column:
    return Column(
        "of peak",
        lambda group: figures.share(record, group),
        percent,
        "GF/s over the measured peak of the processor, or GB/s over that of the memory",
    )


def time_table(record: dict, family: str, median: bool) -> Table:
    """A row for each case: everyone's best time, with a column for our median if wanted."""
    groups = figures.of_family(record, family)
    others = list(dict.fromkeys(name for group in groups for name in (PYTHON, *figures.rivals(group))))
    columns = [
        *_words("function", "size", "dtype"),
        *([_threads()] if len({group["threads"] for group in groups}) > 1 else []),
        _time("ours", OURS),
        *([MEDIAN] if median else []),
        *(_time(name, name) for name in (REFERENCE, *others)),
        *(RATIO, GFLOPS, GBYTES, _share(record), ENTRIES, MEMORY, LEANEST),
    ]
    # A column that nobody has an entry in only takes room.
    return Table([column for column in columns if any(column.text(group) for group in groups)], groups)


def rate_table(record: dict, family: str) -> Table:
    """A row for each case: rates, ours and NumPy's."""

    def rates(name: str, contender: str) -> Column:
        return Column(
            name,
            lambda group: figures.rate(group, contender),
            fixed,
            f"rate of {contender} in its best time; small: in its median time",
            note=lambda group: fixed(figures.rate(group, contender, figures.median)),
            contender=contender,
        )

    columns = [
        *_words("instructions"),
        _threads(),
        *_words("dtype", "size"),
        rates("ours GF/s", OURS),
        rates("NumPy GF/s", "numpy"),
        Column("ratio", figures.ratio, times, RATIO.meaning),
        _share(record),
        Column("NumPy's kernels", lambda group: group.get("blas"), word=True),
    ]
    return Table(columns, [group for group in figures.of_family(record, family) if not group["series"]])


def table(record: dict, family: str, median: bool = False) -> Table:
    """The table of a family."""
    if family in figures.RATE_FAMILIES:
        return rate_table(record, family)
    return time_table(record, family, median)
