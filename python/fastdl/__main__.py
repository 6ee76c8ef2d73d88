"""The command ``python -m fastdl``."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from pathlib import Path

import fastdl


def _bench(arguments: list[str]) -> int:
    # The suite is not installed: it belongs to a checkout, which is around this file or around the user.
    for checkout in (Path(__file__).resolve().parents[2], Path.cwd()):
        script = checkout / "bench" / "run.py"
        if script.is_file() and (checkout / "python" / "fastdl").is_dir():
            suite = subprocess.Popen([sys.executable, str(script), *arguments])
            # Ctrl-C reaches the suite too, which then writes what it has: wait for that.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return suite.wait()
    print(
        "The benchmarks are part of the source: clone the fastdl repository and run `make bench` there.",
        file=sys.stderr,
    )
    return 1


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fastdl", description="Show the configuration of fastdl, check it or measure it."
    )
    parser.add_argument("--version", action="version", version=fastdl.__version__)
    parser.add_argument("--includes", action="store_true", help="print the compiler flag for the headers")
    parser.add_argument("--cmakedir", action="store_true", help="print the folder of fastdlConfig.cmake")
    commands = parser.add_subparsers(dest="command", metavar="{selftest,bench}")
    commands.add_parser("selftest", help="check functions of every family on every backend of this machine")
    commands.add_parser("bench", help="run the benchmarks of a source checkout; further arguments go to them")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "bench":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")

    if options.includes:
        print(f"-I{fastdl.get_include()}")
    if options.cmakedir:
        print(fastdl.get_cmake_dir())
    if options.command == "selftest":
        from fastdl import _selftest

        return _selftest.run()
    if options.command == "bench":
        return _bench(rest)
    if not options.includes and not options.cmakedir:
        fastdl.show_config()
    return 0


if __name__ == "__main__":
    sys.exit(main())
