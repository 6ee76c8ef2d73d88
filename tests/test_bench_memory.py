"""What the benchmarks say of memory: bytes of inputs and results, peaks of first calls, and series over threads."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

for module in ("matplotlib", "pytest_benchmark", "threadpoolctl", "tqdm"):
    pytest.importorskip(module)

BENCH = Path(__file__).resolve().parents[1] / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.insert(0, str(BENCH))

import contest  # noqa: E402
import machine  # noqa: E402
import measure  # noqa: E402
import memory  # noqa: E402
import run  # noqa: E402
from cases import gram_bench  # noqa: E402

pytestmark = pytest.mark.alone
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sizes of processes are those of Linux")

MB = 1_000_000
LABEL = "memory float32 threads=1"

# A family with one group. The kernel's counters are exact to some pages a processor, and touched pages of code count.
FAMILY = """
import os, time
from pathlib import Path
import numpy as np
from measure import Group

def touches():
    return lambda: np.ones(64_000_000, np.uint8)

def in_place():
    x = np.ones(64_000_000, np.uint8)
    return lambda: np.add(x, 1, out=x)

def frees_before():
    # The first comes from the system; to give it back makes the allocator keep the second, below what lies above it.
    np.ones(24_000_000, np.uint8)
    large, above = np.ones(24_000_000, np.uint8), [np.ones(1000, np.uint8) for _ in range(1000)]
    del large
    return lambda: (above, np.ones(16_000_000, np.uint8))

def frees_within():
    return lambda: np.ones(64_000_000, np.uint8).sum()

def prints():
    def call():
        os.write(1, b"@ 7\\n")
    return call

def imports():
    def call():
        import heavy
    return call

def raises():
    raise ValueError("not today")

def dies():
    return lambda: os.kill(os.getpid(), 9)

def sleeps():
    def call():
        Path(__file__).with_name("pids").write_text(f"{os.getpid()} {os.getppid()} ")
        time.sleep(100)
    return call

MAKERS = (touches, in_place, frees_before, frees_within, prints, imports, raises, dies, sleeps)

def groups(full, isa):
    alone = {maker.__name__: maker for maker in MAKERS}
    return [Group("memory", "memory", {}, "float32", 1, 0.0, tuple(alone), prepare=None, alone=alone)]
"""


@pytest.fixture
def family(tmp_path):
    """The file of the family above."""
    (tmp_path / "bench_memory.py").write_text(FAMILY)
    (tmp_path / "heavy.py").write_text("DATA = bytes(range(256)) * 125_000\n")
    return tmp_path / "bench_memory.py"


def running(pid):
    """Whether a process is there and has not ended: one that nobody has waited for may still have its number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@linux
def test_the_peak_of_a_first_call(family):
    server = memory.Server(family, full=False)
    try:
        assert 63 * MB < server.growth(LABEL, "touches") < 80 * MB
        assert server.growth(LABEL, "in_place") < 4 * MB
        assert 63 * MB < server.growth(LABEL, "frees_within") < 80 * MB
        # What was given back in the preparation must not be had for nothing.
        assert 15 * MB < server.growth(LABEL, "frees_before") < 32 * MB
        # Nor is what a call imports its own.
        assert server.growth(LABEL, "imports") < 4 * MB
    finally:
        server.close()
    assert server._process.returncode == 0


@linux
def test_a_server_survives_its_contenders(family):
    server = memory.Server(family, full=False)
    try:
        assert server.growth(LABEL, "raises") is None
        assert server.growth(LABEL, "dies") is None
        assert server.growth(LABEL, "nobody") is None
        assert server.growth("nothing", "touches") is None
        # An answer is what the server says, not what a library prints.
        assert server.growth(LABEL, "prints") not in (None, 7)
        assert 63 * MB < server.growth(LABEL, "touches") < 80 * MB
        server._process.kill()
        assert server.growth(LABEL, "touches") is None
    finally:
        server.close()


@linux
def test_nothing_is_left_running_when_the_asker_is_killed(family):
    code = f"""
import sys; sys.path.insert(0, {str(BENCH)!r})
from pathlib import Path
import memory
memory.Server(Path({str(family)!r}), False).growth({LABEL!r}, "sleeps")
"""
    asker = subprocess.Popen([sys.executable, "-c", code])
    try:
        pids, stop = [], time.monotonic() + 60
        while len(pids) < 2 and time.monotonic() < stop:
            time.sleep(0.05)
            pids = family.with_name("pids").read_text().split() if family.with_name("pids").exists() else []
        assert len(pids) == 2 and all(map(running, pids))
    finally:
        os.kill(asker.pid, signal.SIGKILL)
        asker.wait()
    stop = time.monotonic() + 30
    while any(map(running, pids)) and time.monotonic() < stop:
        time.sleep(0.05)
    assert not any(map(running, pids))


def test_where_it_cannot_be_measured_there_is_no_figure(family, monkeypatch):
    monkeypatch.setattr(memory.Path, "exists", lambda path: False)
    server = memory.Server(family, full=False)
    assert server.growth(LABEL, "touches") is None
    server.close()


def test_bytes_are_counted_once():
    x, y = np.ones((10, 3), np.float32), np.ones(7, np.float64)
    assert measure.bytes_of({"X": x, "Y": y, "gamma": 2.0, "kernel": "rbf"}) == 120 + 56
    assert measure.bytes_of((x, x), {"a": y}, y) == 120 + 56
    assert measure.bytes_of([x, (y, None)], x.copy()) == 120 + 56 + 120
    sparse = SimpleNamespace(data=y, indices=np.zeros(7, np.int32), indptr=np.zeros(4, np.int32))
    assert measure.bytes_of(sparse) == 56 + 28 + 16


def test_a_symmetric_matrix_counts_whole(monkeypatch):
    monkeypatch.setattr(contest.rivals, "installed", lambda function: {"numpy": contest.rivals.numpy_linear})
    group = contest.group_of(gram_bench.kernel("linear", 9, None, 5), "float64", "any")
    race = measure.measure(group, seconds=0.0)
    assert race.bytes == 8 * (9 * 5 + 9 * 9)
    assert set(race.rounds) == set(group.contenders) == set(group.alone)


def test_a_run_records_bytes_and_memory(tmp_path):
    (tmp_path / "bench_one.py").write_text(
        "from bench_engine import _group\n"
        "def groups(full, isa):\n"
        "    return [_group(16, 16, 16, 'float32', 1, isa, series) for series in ('', 'sweep')]\n"
        "def test_one(group, contender, replay):\n"
        "    replay(group, contender)\n"
    )
    record = {"timings": [], "skipped": [], "failed": []}
    collector = run.Collector(record, run.Progress(2))
    arguments = [*run.command(str(tmp_path / "bench_one.py"), run.parse(["--memory"]), None), "-p", "conftest"]
    assert run.run_process(arguments, {"PYTHONPATH": str(BENCH)}, collector) == 0
    table, point = record["timings"]
    assert table["bytes"] == point["bytes"] == 3 * 16 * 16 * 4
    for timing in table["contenders"].values():
        # A product of 1 KB, and the code and buffers of whoever computes it.
        assert ("memory" in timing) == sys.platform.startswith("linux")
        assert 0 <= timing.get("memory", 0) < 200 * MB
    assert not any("memory" in timing for timing in point["contenders"].values())
    json.dumps(record)


@pytest.mark.parametrize(
    ("cores", "counts"), [(1, [1]), (3, [1, 2, 3]), (12, [*range(1, 9), 12]), (40, [*range(1, 9), 16, 32, 40])]
)
def test_a_series_over_threads(monkeypatch, cores, counts):
    monkeypatch.setattr(machine, "available_cores", lambda: cores)
    groups = contest.over_threads(gram_bench.kernel("rbf", 9, None, 5), "any")
    assert [group.threads for group in groups] == counts
    assert {(group.series, group.dtype, group.contenders) for group in groups} == {
        ("threads", "float32", groups[0].contenders)
    }
    assert len({group.label for group in groups}) == len(groups)


def test_a_library_loaded_for_a_call_is_held_to_the_threads(monkeypatch):
    # As torch is, which chooses its threads when it is imported.
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    late, seen = SimpleNamespace(threads=64), []
    late.set_num_threads = lambda count: setattr(late, "threads", count)

    def prepare():
        monkeypatch.setitem(sys.modules, "torch", late)
        return measure.Prepared({"one": lambda: seen.append(late.threads)}, lambda name, result: None)

    measure.measure(measure.Group("f", "f", {}, "float32", 2, 0.0, ("one",), prepare, rounds=1), seconds=0.0)
    assert set(seen) == {2}
