"""Run the benchmarks: ``python -m fastdl bench [family ...] [--quick | --full] [--rivals] [--html FILE]``.

Measures in processes of pytest, prints the table, and writes a record (JSON), a report (Markdown), plots (PNG) and, if
asked, a page (HTML). With ``--compare A.json B.json`` nothing is measured.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The cases are the tests'.
sys.path.insert(0, str(HERE.parent / "tests"))

import compare  # noqa: E402
import machine  # noqa: E402
import measure  # noqa: E402
import page  # noqa: E402
import report  # noqa: E402

# A quick run begins nothing new after this many seconds, and with all families ends within 180.
QUICK_LIMIT = 160.0

# What a case takes with its check and all rivals, and a process before its first case: measured on 2 cores of Zen 4.
SECONDS_OF_CASE = {
    "gram": 3.0,
    "engine": 1.5,
    "conv": 0.9,
    "group": 1.8,
    "hebbian": 2.2,
    "scattering": 10.0,
    "fft": 0.5,
}
SECONDS_TO_BEGIN = 3.0
FAMILIES = tuple(SECONDS_OF_CASE)

INTERRUPTED = 130  # as shells have it

# Rivals have an environment of their own, so that a user's and a developer's stay as they are.
RIVALS = HERE.parent / ".venv-rivals"


class Progress:
    """A bar where someone watches, else a line a group."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.bar = total, 0, None
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=total, unit="case", file=sys.stderr, dynamic_ncols=True)

    def advance(self, label: str) -> None:
        """One more group is done."""
        self.done += 1
        if self.bar is None:
            print(f"[{self.done}/{self.total}] {label}", file=sys.stderr, flush=True)
        else:
            self.bar.set_postfix_str(label, refresh=False)
            self.bar.update()

    def close(self) -> None:
        """Leave the line to others."""
        if self.bar is not None:
            self.bar.close()


class Collector:
    """Takes what the measuring processes print, and builds the record from it."""

    def __init__(self, record: dict, progress: Progress) -> None:
        self.record, self.progress = record, progress
        self.groups: dict[str, dict] = {}

    def take(self, line: str) -> bool:
        """Take a line; tell whether it was meant for us."""
        kind, _, content = line.partition(" ")
        if kind not in ("@timing", "@skipped", "@failed"):
            return False
        entry = json.loads(content)
        if kind == "@timing":
            label = entry["group"]["label"]
            group = self.groups.setdefault(label, {**entry["group"], "contenders": {}})
            group["contenders"][entry["contender"]] = entry["timing"]
            # A group that was interrupted halfway would compare us with nobody.
            if len(group["contenders"]) < entry["of"]:
                return True
            self.record["timings"].append(group)
        else:
            label = entry["label"]
            self.record[kind[1:]].append(entry)
        self.progress.advance(label)
        return True


def command(file: str, options: argparse.Namespace, deadline: float | None) -> list[str]:
    """Give the command that measures the groups of a file."""
    result = [sys.executable, "-m", "pytest", "-q", "-s", "--record", "--benchmark-quiet", "--case", options.case]
    result += ["-c", str(HERE / "pytest.ini"), "--rootdir", str(HERE), "--tb=short", str(HERE / file)]
    if options.full:
        result.append("--full")
    if options.memory:
        result.append("--memory")
    return result if deadline is None else [*result, "--deadline", str(deadline)]


def run_process(arguments: list[str], environment: dict[str, str], collector: Collector) -> int:
    """Run one measuring process to its end; show what it said if it failed."""
    other = []
    process = subprocess.Popen(
        arguments,
        env={**machine.environment(), **environment},
        cwd=HERE.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        for line in process.stdout:
            if not collector.take(line.rstrip("\n")):
                other.append(line)
        status = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
    if status != 0:
        print("".join(line for line in other if line.strip(" .sFE\n")), file=sys.stderr)
    return status


def new_record(options: argparse.Namespace) -> dict:
    """Describe the run, before anything is timed."""
    return {
        "format": 1,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        **machine.revision(),
        "mode": "full" if options.full else "quick",
        "families": options.families,
        "case": options.case,
        "complete": False,
        "seconds": 0.0,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
        "machine": {**machine.processor(), "peaks": machine.peaks(0.5 if options.full else 0.3)},
        "fastdl": machine.library(),
        "versions": machine.versions(),
        "timings": [],
        "skipped": [],
        "failed": [],
    }


def save(record: dict, folder: Path) -> Path:
    """Write the record whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    # A tree with changes must not overwrite the record of the commit itself.
    path = folder / f"{record['date'][:10]}-{record['commit']}{'-dirty' if record['dirty'] else ''}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(partial, path)
    return path


def expected_seconds(family: str, cases: int) -> float:
    """Roughly what a process of a quick run takes for so many cases, to share out the time."""
    return SECONDS_TO_BEGIN + SECONDS_OF_CASE[family] * cases


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fastdl bench",
        description="Measure fastdl against its reference and the installed rivals.",
        allow_abbrev=False,
    )
    parser.add_argument("families", nargs="*", metavar="family", help=f"{', '.join(FAMILIES)}; all if none is named")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="within three minutes; the default")
    length.add_argument("--full", action="store_true", help="all sizes, more rounds")
    parser.add_argument("--memory", action="store_true", help="also the peak memory of every case, as with --full")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases whose label has TEXT, or one of A|B")
    parser.add_argument("--output", type=Path, default=HERE / "results", metavar="FOLDER", help="bench/results if none")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with everything in it")
    parser.add_argument("--rivals", action="store_true", help="run beside the rivals that `make bench-rivals` installs")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar="RECORD", help="measure nothing; compare our times in two records"
    )
    options = parser.parse_args(arguments)
    lacking = [path for path in options.compare or () if not path.is_file()]
    if lacking:
        parser.error(f"expected records, got {', '.join(map(str, lacking))}")
    unknown = [family for family in options.families if family not in FAMILIES]
    if unknown:
        parser.error(f"expected families of {', '.join(FAMILIES)}, got {', '.join(unknown)}")
    options.families = list(dict.fromkeys(options.families)) or list(FAMILIES)
    return options


def run_beside_rivals(arguments: list[str]) -> int:
    """Become the same run in the environment of the rivals; return only if there is none."""
    python = RIVALS / "bin" / "python"
    if not python.is_file():
        print(f"There is no {RIVALS.name} with the rivals: `make bench-rivals` makes it and runs.", file=sys.stderr)
        return 2
    rest = [argument for argument in arguments if argument != "--rivals"]
    sys.stdout.flush()
    os.execv(python, [str(python), str(HERE / "run.py"), *rest])


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; return the exit status."""
    options = parse(arguments)
    if options.compare:
        return compare.main(options.compare)
    if options.rivals and Path(sys.prefix).resolve() != RIVALS.resolve():
        return run_beside_rivals(sys.argv[1:] if arguments is None else arguments)
    begin = time.time()
    record, path, status = None, None, 0
    try:
        print("measuring the peaks of this machine", file=sys.stderr)
        record = new_record(options)
        plan = []
        for family in options.families:
            module = import_module(f"bench_{family}")
            for isa, environment in module.passes():
                groups = measure.selected(module, options.full, isa, options.case)
                if groups:
                    plan.append((family, environment, len(groups)))
        progress = Progress(sum(count for _, _, count in plan))
        collector = Collector(record, progress)
        weights = [expected_seconds(family, count) for family, _, count in plan]
        try:
            for index, (family, environment, _) in enumerate(plan):
                # On a slow or busy machine everyone loses cases, rather than the last family all of them.
                left = begin + QUICK_LIMIT - time.time()
                deadline = None if options.full else time.time() + left * weights[index] / sum(weights[index:])
                if run_process(command(f"bench_{family}.py", options, deadline), environment, collector) != 0:
                    status = 1
            record["complete"] = status == 0
        finally:
            record["seconds"] = time.time() - begin
            # At once: whoever started us may not wait long after Ctrl-C.
            path = save(record, options.output)
            progress.close()
    except KeyboardInterrupt:
        if path is None:
            return INTERRUPTED
        status = INTERRUPTED
        print("interrupted; what was measured is kept", file=sys.stderr)
    if record["timings"]:
        print(report.text(record))
        report.write(record, options.output)
        if options.html:
            options.html.parent.mkdir(parents=True, exist_ok=True)
            page.write(record, options.html)
    else:
        print("nothing was measured", file=sys.stderr)
    print(f"record: {os.path.relpath(path)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
