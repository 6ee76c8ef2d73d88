"""The benchmark suite: that it runs, records what it promises, and fails when contenders disagree."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

for module in ("matplotlib", "pytest_benchmark", "threadpoolctl", "tqdm"):
    pytest.importorskip(module)

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

# A case of both families that takes no time, and belongs to a plot in both.
SMALL = "n=64 "


@pytest.fixture(scope="module")
def suite():
    """The modules of the suite, found as its own processes find them, and forgotten afterwards."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(BENCH))
    try:
        import bench_gram
        import machine
        import measure
        import report
        import run

        yield {module.__name__: module for module in (bench_gram, machine, measure, report, run)}
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == BENCH:
                del sys.modules[name]


@pytest.fixture(scope="module")
def peaks(suite):
    """Peaks measured in no time: good enough to be there."""
    return suite["machine"].peaks(0.01)


@pytest.fixture(scope="module")
def ran(suite, peaks, tmp_path_factory):
    """A small run of everything: its folder, its record, its exit status."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite["machine"], "peaks", lambda seconds: peaks)
        status = suite["run"].main(["--case", SMALL, "--output", str(folder)])
    (record,) = folder.glob("*.json")
    return folder, record, status


def test_peaks_are_measured_for_every_instruction_set(suite, peaks):
    levels = suite["machine"].levels() or ("native",)
    assert peaks["method"]
    if suite["machine"].find_compiler() is not None:
        assert tuple(peaks["gflops"]) == levels
        assert set(peaks["vector_bytes"]) == set(levels)
    for rates in peaks["gflops"].values():
        for dtype in ("float32", "float64"):
            assert set(rates[dtype]) == {str(count) for count in suite["machine"].thread_counts()}
            # No processor does more than 4096 flops a nanosecond, nor less than one in ten.
            assert all(0.1 < rate < 4096 * os.cpu_count() for rate in rates[dtype].values())
    assert all(rate > 0 for rate in peaks["bandwidth"].values())


def test_peaks_without_a_compiler_say_so(suite, monkeypatch):
    monkeypatch.setattr(suite["machine"], "find_compiler", lambda: None)
    peaks = suite["machine"].peaks(0.01)
    assert "no C++ compiler" in peaks["method"]
    assert all(rate > 0 for rates in peaks["gflops"].values() for counts in rates.values() for rate in counts.values())


def test_a_run_records_what_it_promises(suite, ran):
    folder, path, status = ran
    record = json.loads(path.read_text())
    assert status == 0
    assert record["complete"] and not record["failed"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\w+(-dirty)?\.json", path.name)
    assert {"cpu", "cores", "caches", "instruction_sets", "peaks"} <= set(record["machine"])
    assert {"version", "build", "isas"} <= set(record["fastdl"])
    assert {"python", "numpy", "blas", "torch", "scikit-learn"} <= set(record["versions"])
    assert {"commit", "dirty", "date", "load"} <= set(record)
    families = {group["family"] for group in record["timings"]}
    assert families == ({"gram", "engine"} if suite["machine"].levels() else {"gram"})
    for group in record["timings"]:
        assert {"fastdl", "numpy"} <= set(group["contenders"])
        assert group["flops"] > 0
        for timing in group["contenders"].values():
            assert 0 < timing["best"] <= timing["median"]
            assert timing["rounds"] >= 5
    for name in ("report.md", *(f"{family}.png" for family in families)):
        assert (folder / name).stat().st_size > 500
    assert (folder / "gram.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_written_names_this_machine(ran):
    folder, path, _ = ran
    for text in (path.read_text(), (folder / "report.md").read_text()):
        for private in (str(ROOT), str(Path.home()), sys.prefix, str(folder)):
            # A home of "/" or "/root" would be found in anything or is long enough to mean it.
            assert len(private) < 5 or private not in text
        assert os.uname().nodename not in text


def test_a_report_comes_from_the_record_alone(ran, tmp_path):
    folder, path, _ = ran
    copy = tmp_path / "copy.json"
    copy.write_text(path.read_text())
    done = subprocess.run(
        [sys.executable, str(BENCH / "report.py"), str(copy)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "gram.linear" in done.stdout
    assert (tmp_path / "report.md").read_text() == (folder / "report.md").read_text()
    assert (tmp_path / "gram.png").exists()


@pytest.fixture
def group(suite, monkeypatch):
    """The smallest case, against NumPy only: other rivals take long to import and change settings as they do."""
    rivals = sys.modules["rivals"]
    monkeypatch.setattr(rivals, "installed", lambda function: {"numpy": rivals.numpy_linear})
    case = suite["bench_gram"].BENCH[0]
    return suite["bench_gram"]._group(case, "float32", suite["machine"].active_level())


def spoiled(group, error):
    """The same group with one contender's results off."""

    def prepare():
        prepared = group.prepare()
        correct = prepared.calls["numpy"]
        calls = {**prepared.calls, "numpy": lambda: np.asarray(correct()) + error}
        return dataclasses.replace(prepared, calls=calls)

    return dataclasses.replace(group, prepare=prepare)


@pytest.mark.parametrize("error", [1e-3, np.nan])
def test_a_wrong_contender_is_found(suite, group, error):
    suite["measure"].measure(group, seconds=0.0)
    with pytest.raises(suite["measure"].Disagreement, match="numpy is off"):
        suite["measure"].measure(spoiled(group, np.float32(error)), seconds=0.0)


def test_a_wrong_contender_fails_its_group(suite, tmp_path):
    # The same through the processes that measure: a family with one good case and one that is wrong.
    (tmp_path / "bench_wrong.py").write_text(
        "import dataclasses\n"
        "from bench_engine import _group\n"
        "def groups(full, isa):\n"
        "    good, other = _group(16, 16, 16, 'float32', 1, isa), _group(16, 16, 16, 'float64', 1, isa)\n"
        "    def prepare():\n"
        "        prepared = other.prepare()\n"
        "        calls = {**prepared.calls, 'numpy': lambda: prepared.calls['fastdl']() * 1.01}\n"
        "        return dataclasses.replace(prepared, calls=calls)\n"
        "    return [good, dataclasses.replace(other, prepare=prepare)]\n"
        "def test_wrong(group, contender, replay):\n"
        "    replay(group, contender)\n"
    )
    run = suite["run"]
    record = {"timings": [], "skipped": [], "failed": []}
    collector = run.Collector(record, run.Progress(2))
    # Conftest is loaded by name, for the file lies elsewhere.
    arguments = [*run.command(str(tmp_path / "bench_wrong.py"), run.parse([]), None), "-p", "conftest"]
    assert run.run_process(arguments, {"PYTHONPATH": str(BENCH)}, collector) != 0
    assert [group["dtype"] for group in record["timings"]] == ["float32"]
    (failure,) = record["failed"]
    assert "float64" in failure["label"]
    assert "NumPy differ" in failure["message"]


def test_turns_are_taken(suite):
    order = []

    def contender(name):
        def call():
            if not order or order[-1] != name:
                order.append(name)
            time.sleep(1.1e-3)

        return call

    result = suite["measure"].interleave({name: contender(name) for name in "abc"}, seconds=0.0, settle=0.0)
    # First each finds its batch; then there and back, five times. Neighbours that are the same fall together.
    assert "".join(order) == "abc" + "abcbabcbabc"
    assert all(len(durations) == 5 for durations, _ in result.values())


def test_short_calls_are_batched(suite):
    result = suite["measure"].interleave({"short": lambda: None}, seconds=0.0, settle=0.0)
    durations, batch = result["short"]
    assert batch > 100
    assert max(durations) < 1e-4


def test_what_is_done_is_kept_when_interrupted(suite, peaks, tmp_path, monkeypatch, capsys):
    def interrupt(progress, label):
        raise KeyboardInterrupt

    monkeypatch.setattr(suite["machine"], "peaks", lambda seconds: peaks)
    monkeypatch.setattr(suite["run"].Progress, "advance", interrupt)
    assert suite["run"].main(["gram", "--output", str(tmp_path)]) == suite["run"].INTERRUPTED
    assert "gram.linear" in capsys.readouterr().out
    (path,) = tmp_path.glob("*.json")
    record = json.loads(path.read_text())
    assert not record["complete"]
    assert len(record["timings"]) == 1
    assert "not completed" in (tmp_path / "report.md").read_text()


def test_unknown_families_are_refused(suite, capsys):
    with pytest.raises(SystemExit):
        suite["run"].main(["conv2"])
    assert "expected families of gram, engine" in capsys.readouterr().err
