"""What is made of a record of benchmarks: numbers, cliffs, reports, comparisons, docs/performance.md and README.md."""

import json
import re
from pathlib import Path

import pytest

import bench_records as made

for module in ("matplotlib", "pytest_benchmark", "threadpoolctl", "tqdm"):
    pytest.importorskip(module)

BENCH, ROOT = made.BENCH, made.BENCH.parent
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)


@pytest.fixture(scope="module")
def suite():
    names = ("compare", "figures", "notes", "page", "performance", "report", "run", "series", "tables")
    with made.modules(*names) as modules:
        yield modules


# ---- cliffs ----
def along(axis, times, function="gram.rbf", fixed=None, **more):
    """A series: {place: our time}."""
    return [
        made.group(
            function,
            {"fastdl": time, "torch": 1.0},
            series=axis,
            size={**(fixed or {}), axis: place},
            **more,
        )
        for place, time in times.items()
    ]


@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5, 1.0, 3.0])
def test_a_power_of_the_size_has_no_cliff(suite, power):
    record = made.record(*along("n", {n: 1e-6 * n**power for n in (1, 3, 64, 65, 1000)}))
    assert suite["series"].cliffs(record) == ([], 1)
    assert suite["notes"].cliffs(record) == ["no cliff in 1 series"]


@pytest.mark.parametrize(("factor", "found"), [(1.45, 0), (1.55, 1), (4.0, 1)])
@pytest.mark.parametrize("axis", ["n", "d", "channels", "side", "batch", "k"])
def test_a_cliff_is_off_the_line_between_its_neighbours(suite, axis, factor, found):
    times = {n: 1e-6 * n**2 for n in (7, 16, 33, 64, 100)}
    times[33] *= factor
    cliffs, count = suite["series"].cliffs(made.record(*along(axis, times)))
    assert count == 1 and len(cliffs) == found
    for cliff in cliffs:
        assert cliff.group["size"][axis] == 33
        assert cliff.factor == pytest.approx(factor, rel=1e-12)


def test_a_cliff_at_some_number_of_threads(suite):
    times = {1: 8.0, 2: 4.0, 3: 6.0, 4: 2.0}
    groups = [
        made.group("gram.rbf", {"fastdl": time}, series="threads", threads=threads) for threads, time in times.items()
    ]
    (cliff,), count = suite["series"].cliffs(made.record(*groups))
    assert (count, cliff.group["threads"]) == (1, 3)
    # 8 / threads is a straight line.
    assert cliff.expected == pytest.approx(8 / 3, rel=1e-12)


def test_sizes_of_several_numbers_are_places(suite):
    times = {"1x3": 3.0, "2x3": 6.0, "16x3": 100.0, "32x3": 96.0}
    (cliff,), _ = suite["series"].cliffs(made.record(*along("batch", times)))
    assert cliff.group["size"]["batch"] == "16x3" and cliff.expected == pytest.approx(48.0, rel=1e-12)
    assert suite["series"].cliffs(made.record(*along("of", {"a": 1.0, "b": 9.0, "c": 1.0}))) == ([], 0)
    # Three times the same place: nothing lies between its neighbours.
    assert suite["series"].cliffs(made.record(*along("batch", {"1x6": 1.0, "2x3": 9.0, "3x2": 1.0}))) == ([], 1)


def test_series_are_told_apart(suite):
    # The second takes ten times as long at the same places: taken for one series, every other point would be a cliff.
    def both(**more):
        return [
            *along("side", {8: 1.0, 16: 4.0, 32: 16.0}, fixed={"group": "p4"}, **more),
            *along("side", {8: 10.0, 16: 40.0, 32: 160.0}, fixed={"group": "p4m"}, **more),
        ]

    record = made.record(*both(), *both(dtype="float64"), *both(threads=1), *along("n", {1: 1.0, 2: 9.0}))
    assert suite["series"].cliffs(record) == ([], 6)
    # What goes up with the axis does not tell apart.
    groups = [made.group("gram.rbf", {"fastdl": n * m}, series="n", size={"n": n, "m": m}) for n, m in ((1, 1), (2, 2))]
    (one,) = suite["series"].all_series(made.record(*reversed(groups)))
    assert one == groups and suite["series"].constants(one) == {}


def test_every_report_has_the_cliffs(suite):
    record = made.record(*along("side", {8: 1e-3, 16: 9e-3, 32: 16e-3}))
    (line,) = suite["notes"].cliffs(record)
    assert "side=16" in line and "9 ms" in line and "4 ms" in line and "2.25" in line
    for text in (suite["report"].text(record), suite["report"].markdown(record, {}), suite["page"].html(record)):
        assert line in text
    smooth = made.record(*along("side", {8: 1e-3, 16: 4e-3, 32: 16e-3}))
    for text in (suite["report"].text(smooth), suite["report"].markdown(smooth, {}), suite["page"].html(smooth)):
        assert "no cliff in 1 series" in text
    short = made.record(*along("side", {8: 1e-3, 16: 4e-3}))
    assert "cliff" not in suite["report"].text(short)


# ---- columns ----
def shown(table):
    """The rows of a table as dictionaries."""
    header, rows = table.strings()
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_rates_are_of_flops_or_of_bytes(suite):
    record = made.record(
        made.group("gram.rbf", {"fastdl": 0.1, "torch": 0.2}, flops=5e9, bytes=8e9),
        made.group("gram.chi2", {"fastdl": 0.1, "torch": 0.05}, bytes=3e9),
    )
    product, other = shown(suite["tables"].table(record, "gram"))
    # 5e9 flops in 0.1 s are 50 GF/s of 200; 3e9 bytes are 30 GB/s of 40.
    assert (product["GF/s"], product["GB/s"], product["of peak"]) == ("50.0", "", "25%")
    assert (other["GF/s"], other["GB/s"], other["of peak"]) == ("", "30.0", "75%")
    assert (product["best rival / ours"], other["best rival / ours"]) == ("2.00x", "0.50x")


def test_old_records_have_fewer_columns(suite):
    record = made.record(made.group("gram.chi2", {"fastdl": made.timing(0.1, 0.3), "torch": 0.05}))
    (row,) = shown(suite["tables"].table(record, "gram"))
    assert list(row) == ["function", "size", "dtype", "ours", "torch", "best rival / ours"]
    (row,) = shown(suite["tables"].table(record, "gram", median=True))
    assert (row["ours"], row["our median"]) == ("100 ms", "300 ms")
    assert "our median" in suite["report"].markdown(record, {})


def test_memory_is_ours_and_the_leanest_rivals(suite):
    times = {
        "fastdl": made.timing(0.1, memory=2_500_000),
        "reference": made.timing(0.1, memory=1),
        "torch": made.timing(0.1, memory=7e9),
        "numpy": made.timing(0.2, memory=40e6),
        "keops": made.timing(0.3),
    }
    record = made.record(made.group("gram.rbf", times))
    (row,) = shown(suite["tables"].table(record, "gram"))
    assert (row["memory"], row["leanest rival's"]) == ("2.5 MB", "40 MB")
    assert suite["figures"].leanest_rival(record["timings"][0]) == "numpy"


def test_threads_are_shown_where_they_differ(suite):
    groups = [made.group("gram.rbf", {"fastdl": 1.0}, threads=threads) for threads in (1, 2)]
    rows = shown(suite["tables"].table(made.record(*groups), "gram"))
    assert [row["threads"] for row in rows] == ["1", "2"]
    assert "threads" not in shown(suite["tables"].table(made.record(groups[0]), "gram"))[0]


# ---- comparisons ----
def pair(before, after, **more):
    """Two records of one group with our timings."""
    return [made.record(made.group("gram.rbf", {"fastdl": ours, "torch": 1.0}), **more) for ours in (before, after)]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (made.timing(1.0), made.timing(1.0), ""),
        (made.timing(1.0), made.timing(1.5), "SLOWER"),
        (made.timing(1.5), made.timing(1.0), "faster"),
        # Half of the rounds lie within 40% and 20%: 1.5 says nothing, 1.7 does.
        (made.timing(1.0, spread=0.4), made.timing(1.5, spread=0.3), ""),
        (made.timing(1.0, spread=0.4), made.timing(1.7, spread=0.34), "SLOWER"),
        # The best round and the median do not agree.
        (made.timing(1.0, 1.5), made.timing(1.5, 1.5), ""),
        # One round each.
        (made.timing(1.0, rounds=1), made.timing(1.4, rounds=1), ""),
        (made.timing(1.0, rounds=1), made.timing(1.6, rounds=1), "SLOWER"),
        (made.timing(1.0), made.timing(1.04), ""),
    ],
)
def test_changes_beyond_noise_are_found(suite, before, after, verdict):
    (change,) = suite["compare"].changes(*pair(before, after))
    assert change.verdict == verdict
    assert change.ratio == after["best"] / before["best"]


def test_regressions_come_first(suite, tmp_path, capsys):
    def times(**ours):
        groups = [made.group(f"gram.{name}", {"fastdl": time, "torch": 2.0}) for name, time in ours.items()]
        return made.record(*groups)

    before = times(alike=1.0, faster=1.0, slower=1.0, slowest=1.0, gone=1.0)
    after = times(alike=1.01, faster=0.1, slower=1.5, slowest=3.0, new=1.0)
    paths = []
    for name, record in (("a", before), ("b", after)):
        paths.append(str(tmp_path / f"{name}.json"))
        Path(paths[-1]).write_text(json.dumps(record))
    assert suite["run"].main(["--compare", *paths]) == 1
    text = capsys.readouterr().out
    assert re.findall(r"gram\.(\w+)", text) == ["slowest", "slower", "faster", "alike"]
    assert "2 slower and 1 faster beyond noise, 1 alike; 2 are in one record only" in text
    assert "rivals took 1.00 of their time" in text and "WARNING" not in text
    # What became slower is faster the other way round.
    assert suite["run"].main(["--compare", *paths[::-1]]) == 1
    assert suite["run"].main(["--compare", paths[0], paths[0]]) == 0
    Path(paths[1]).write_text(json.dumps(times(other=1.0)))
    assert suite["run"].main(["--compare", *paths]) == 2
    with pytest.raises(SystemExit):
        suite["run"].main(["--compare", paths[0], str(tmp_path / "nothing.json")])


def test_different_conditions_are_named(suite):
    before, after = pair(made.timing(1.0), made.timing(1.0))
    assert suite["compare"].warnings(before, after) == []
    after["machine"]["cpu"] = "Another"
    after["fastdl"] = {**after["fastdl"], "build": "Clang 19", "isas": ["neon"], "isa": "neon", "threads": 7}
    after["load"] = 5.0
    text = "\n".join(suite["compare"].warnings(before, after))
    for part in (
        "A processor and Another",
        "GNU 12.2.0 and Clang 19",
        "baseline, avx2 and neon",
        "2 and 7",
        "load 5.0",
    ):
        assert part in text


# ---- the command ----
def test_rivals_have_an_environment_of_their_own(suite, tmp_path, monkeypatch, capsys):
    run = suite["run"]
    monkeypatch.setattr(run, "RIVALS", tmp_path / ".venv-rivals")
    assert run.main(["gram", "--rivals"]) == 2
    assert "make bench-rivals" in capsys.readouterr().err

    class Replaced(Exception):
        pass

    def execv(path, arguments):
        raise Replaced(path, arguments)

    python = tmp_path / ".venv-rivals" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setattr(run.os, "execv", execv)
    with pytest.raises(Replaced) as raised:
        run.main(["gram", "--full", "--rivals", "--case", "rbf"])
    path, arguments = raised.value.args
    assert path == python
    assert arguments == [str(python), str(BENCH / "run.py"), "gram", "--full", "--case", "rbf"]


def test_a_run_writes_the_page(suite, tmp_path, monkeypatch, capsys):
    run = suite["run"]
    group = made.group("gram.rbf", {"fastdl": 1.0, "torch": 2.0})

    def measure(arguments, environment, collector):
        for name, timing in group["contenders"].items():
            described = {key: value for key, value in group.items() if key != "contenders"}
            entry = {"group": described, "of": 2, "contender": name, "timing": timing}
            assert collector.take("@timing " + json.dumps(entry))
        return 0

    monkeypatch.setattr(run, "new_record", lambda options: made.record(complete=False))
    monkeypatch.setattr(run, "run_process", measure)
    file = tmp_path / "pages" / "page.html"
    assert run.main(["gram", "--case", "n=8 ", "--output", str(tmp_path), "--html", str(file)]) == 0
    (path,) = tmp_path.glob("*.json")
    assert file.read_text(encoding="utf-8") == suite["page"].html(json.loads(path.read_text()))
    assert suite["page"].main([str(path), str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == file.read_bytes()


# ---- docs/performance.md and README.md ----
@pytest.fixture
def recorded(suite):
    """The records that the page names."""
    performance = suite["performance"]
    names = performance.named(performance.PAGE.read_text(encoding="utf-8"))
    assert names
    if not all((ROOT / name).is_file() for name in names):
        pytest.skip("the records are not here")
    return names, performance.read(names)


def test_the_page_is_what_the_records_say(suite, recorded):
    performance = suite["performance"]
    names, records = recorded
    page = performance.PAGE.read_text(encoding="utf-8")
    assert page == performance.page(names, records)
    readme = performance.README.read_text(encoding="utf-8")
    assert readme == performance.readme(readme, records)
    there = {f"{performance.PLOTS.name}/{path.name}" for path in performance.PLOTS.iterdir()}
    assert there == set(re.findall(r"!\[\w+\]\(([^)]+)\)", page))


def test_every_goal_is_in_readme(suite, recorded):
    performance = suite["performance"]
    _, records = recorded
    rows = sum(map(len, performance.chosen(records)))
    assert rows == len(performance.GOALS)


def test_rivals_that_win_are_shown(suite):
    performance = suite["performance"]
    first = made.record(
        made.group("gram.rbf", {"fastdl": 1.0, "torch": 2.0}, size={"n": 4096, "m": 4096, "d": 128}),
        made.group("gram.chi2", {"fastdl": 1.0, "torch": 0.5}),
        made.group("gram.chi2", {"fastdl": 1.0, "torch": 0.25, "numpy": 3.0}, dtype="float64"),
        made.group("gram.sinc", {"fastdl": 1.0}),
    )
    # The same row once more does not count again.
    second = made.record(made.group("gram.rbf", {"fastdl": 9.0, "torch": 2.0}, size={"n": 4096, "m": 4096, "d": 128}))
    text = performance.summary([first, second]).replace("\u00a0", " ")
    assert "| `gram.rbf` | 4096x128, 4096x128 | float32 | 1 s | torch 2 s | 2.00x |" in text
    assert "faster in 2 of the 3 rows" in text
    assert "| `gram.chi2` | n=8 | float64 | avx2, threads 2 | 1 s | torch 250 ms | 0.25x |" in text
    assert "0.50x" not in text and "9 s" not in text
    assert text.count("On 2 cores of A processor with avx2") == 1
    with pytest.raises(ValueError, match="no part between"):
        performance.readme("# Nothing", [first])
