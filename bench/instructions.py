"""Count the instructions of the hot loops under valgrind: ``python bench/instructions.py [--record]``.

Times wander, and on a machine that others use by more than a slip in a kernel costs. The instructions of one warm call
in one thread do not: two runs of a build have the same, and the processor and its caches are those that valgrind makes
up. `instructions.cpp` has the loops; it is compiled here, against the library as it is installed. `instructions.json`
has their counts by compiler and instruction set. A loop that executes 2% more than recorded fails. Counts of another
compiler say nothing of a change, and are not compared.

What is counted is work, not time: a kernel that waits for memory is as slow as before. `make bench` measures that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import fastdl
import machine

HERE = Path(__file__).resolve().parent
RECORD = HERE / "instructions.json"
AGAIN = "python bench/instructions.py --record"

# Beyond this, in either direction, a count is another one: less is what another C library copies memory with.
TOLERANCE = 0.02

# By instruction set, the count of every loop.
Counts = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Comparison:
    """Lines of all loops that are not as recorded, those that are slower apart."""

    slower: list[str]
    others: list[str]


def missing() -> str:
    """What is needed to count, but not there; "" if nothing is."""
    if not counted_levels():
        return "the compiled kernels"
    if machine.find_compiler() is None:
        return "a C++ compiler"
    return "" if shutil.which("valgrind") else "valgrind"


def counted_levels() -> tuple[str, ...]:
    """The instruction sets of this machine that valgrind knows."""
    return tuple(level for level in machine.levels() if level != "avx512")


def build(folder: Path) -> Path:
    """Compile the program against the installed library."""
    program, package = folder / "instructions", Path(fastdl.get_include()).parent
    command = [machine.find_compiler(), "-O2", "-std=c++20", f"-I{package / 'include'}", HERE / "instructions.cpp"]
    command += [f"-L{package / 'lib'}", "-lfastdl", f"-Wl,-rpath,{package / 'lib'}", "-o", program]
    subprocess.run(command, check=True)
    return program


def described(program: Path) -> tuple[str, list[str]]:
    """The compiler of the library, and the names of the loops."""
    compiler, *loops = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    return compiler, loops


def count(program: Path, level: str, loop: str) -> int:
    """Instructions of the second call of a loop."""
    options = ("--tool=callgrind", "--toggle-collect=counted", f"--callgrind-out-file={os.devnull}")
    done = subprocess.run(
        ["valgrind", *options, program, loop],
        env={**os.environ, "FASTDL_ISA": level, "FASTDL_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None or int(found[1]) == 0:
        raise RuntimeError(f"{loop} was not counted on {level}: {done.stderr.strip()[-500:]}")
    return int(found[1])


def count_all(program: Path, loops: list[str]) -> Counts:
    """Count every loop on every level, as many at a time as there are processors."""
    with ThreadPoolExecutor(machine.available_cores()) as pool:
        waiting = {
            level: {loop: pool.submit(count, program, level, loop) for loop in loops} for level in counted_levels()
        }
        return {level: {loop: job.result() for loop, job in jobs.items()} for level, jobs in waiting.items()}


def compare(recorded: Counts, now: Counts) -> Comparison:
    """Find what is not as recorded."""
    slower, others = [], []
    for level, loops in now.items():
        for loop, found in loops.items():
            before = recorded.get(level, {}).get(loop)
            if before is None:
                others.append(_line(level, loop, "none", found, ""))
            elif abs(found - before) > TOLERANCE * before:
                lines = slower if found > before else others
                lines.append(_line(level, loop, before, found, f"{found / before:.3f}"))
        others += [
            _line(level, loop, before, "none", "")
            for loop, before in recorded.get(level, {}).items()
            if loop not in loops
        ]
    return Comparison(slower, others)


def _line(level: object, loop: object, recorded: object, now: object, ratio: object) -> str:
    return f"{level!s:10}{loop!s:20}{recorded!s:>12}{now!s:>12}{ratio!s:>8}"


def report(recorded: dict[str, Counts], compiler: str, now: Counts) -> tuple[str, bool]:
    """Say what the counts mean, and whether they are good."""
    if compiler not in recorded:
        return f"not compared: recorded for {' and for '.join(recorded) or 'nothing'}, got {compiler}", True
    found = compare(recorded[compiler], now)
    heading, parts = _line("level", "loop", "recorded", "now", "ratio"), []
    if found.slower:
        parts += [f"more instructions than recorded, by over {TOLERANCE:.0%}:", heading, *found.slower]
    if found.others:
        parts += [f"not as recorded, record again ({AGAIN}):", heading, *found.others]
    total = sum(len(loops) for loops in now.values())
    return "\n".join(parts) or f"{total} counts are as recorded, within {TOLERANCE:.0%}", not found.slower


def load() -> dict[str, Counts]:
    """What was recorded, by compiler."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def main(arguments: list[str] | None = None) -> int:
    """Count, then compare or record; the status is 1 if a loop has become slower, 2 if nothing can be counted."""
    parser = argparse.ArgumentParser(description="Count the instructions of the hot loops under valgrind.")
    parser.add_argument("--record", action="store_true", help="keep the counts, for this compiler")
    options = parser.parse_args(arguments)
    if missing():
        print(f"nothing is counted without {missing()}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        compiler, loops = described(program)
        now = count_all(program, loops)
    if options.record:
        # Levels that another machine has recorded stay.
        kept = load()
        kept[compiler] = {**kept.get(compiler, {}), **now}
        RECORD.write_text(json.dumps(kept, indent=1) + "\n")
        print(f"recorded for {compiler}: {sum(len(counts) for counts in now.values())} counts")
        return 0
    text, good = report(load(), compiler, now)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
