"""How a family's groups become pytest-benchmark tests: one group a case, one test a contender."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import machine
import measure
import memory


def pytest_addoption(parser):
    options = parser.getgroup("fastdl")
    options.addoption("--full", action="store_true", help="all sizes, more rounds")
    options.addoption("--case", default="", help="only groups whose label contains this, or one of a|b|c")
    options.addoption("--deadline", type=float, help="begin no group after this time (as time.time())")
    options.addoption("--memory", action="store_true", help="also the peak memory of the first call, as with --full")
    options.addoption("--record", action="store_true", help="print a line of JSON for each timing, for run.py")


def pytest_generate_tests(metafunc):
    if "contender" not in metafunc.fixturenames:
        return
    config = metafunc.config
    metafunc.parametrize(
        ("group", "contender"),
        [
            pytest.param(
                group,
                contender,
                id=f"{group.label}-{contender}",
                marks=pytest.mark.benchmark(group=group.label, timer=measure.clock),
            )
            for group in measure.selected(
                metafunc.module, config.getoption("full"), machine.active_level(), config.getoption("case")
            )
            for contender in group.contenders
        ],
    )


@pytest.fixture(scope="session")
def races():
    """The one race that was run last: the tests of a group follow each other."""
    return {}


@pytest.fixture(scope="session")
def pace():
    """How long the last race took, under `last`."""
    return {}


@pytest.fixture(scope="session")
def servers():
    """Those that measure memory, by the file whose groups they know."""
    started: dict[Path, memory.Server] = {}
    yield started
    for server in started.values():
        server.close()


@pytest.fixture
def replay(request, races, pace, servers, benchmark):
    """Run the race of a group at its first contender, then replay one contender's part of it."""
    config = request.config
    full, recording = config.getoption("full"), config.getoption("record")

    def tell(kind: str, **content) -> None:
        if recording:
            # On a line of its own, whatever pytest has written on the line before.
            print(f"\n@{kind} {json.dumps(content)}", flush=True)

    def grown(group: measure.Group) -> dict[str, int | None]:
        # Points of a series are many, and in time as in memory more of the same.
        if group.series or not (full or config.getoption("memory")):
            return {}
        if request.path not in servers:
            servers[request.path] = memory.Server(request.path, full)
        return {name: servers[request.path].growth(group.label, name) for name in group.alone}

    def run(group: measure.Group) -> object:
        deadline, begin = config.getoption("deadline"), time.time()
        # A family's cases are of a length, more or less: one like the last has to end in time.
        if deadline is not None and begin + pace.get("last", 0.0) > deadline:
            tell("skipped", label=group.label)
            return pytest.skip.Exception("no time left; --full measures everything")
        try:
            race = measure.measure(group, seconds=2.0 if full else 0.2)
            found = race, grown(group)
            pace["last"] = time.time() - begin
            return found
        except Exception as error:
            # Kept for the group's other contenders. Only our own message goes into the record: others name folders.
            message = str(error) if isinstance(error, measure.Disagreement) else type(error).__name__
            tell("failed", label=group.label, message=message)
            return error

    def replay_one(group: measure.Group, contender: str) -> None:
        if group.label not in races:
            races.clear()
            races[group.label] = run(group)
        found = races[group.label]
        if isinstance(found, BaseException):
            benchmark.skipped = True
            raise found
        race, memory_of = found
        durations, batch = race.rounds[contender]
        measure.clock.replay(benchmark, durations)
        stats = benchmark.stats.stats
        timing = {
            "best": stats.min,
            "median": stats.median,
            "spread": stats.iqr,
            "rounds": stats.rounds,
            "batch": batch,
        }
        if memory_of.get(contender) is not None:
            timing["memory"] = memory_of[contender]
        described = {**group.describe(), "bytes": race.bytes, "blas": machine.blas()["architecture"]}
        tell("timing", group=described, of=len(group.contenders), contender=contender, timing=timing)

    return replay_one
