"""Run pytest on another build of the extension: ``python tests/staged.py build/asan --preload libasan.so tests/...``.

The package is put together in the build's folder `stage`, and the interpreters are started with -S, which keeps the
editable install out of the way. CPython leaks by design, so leaks are left to the C++ tests.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def library(name: str) -> str:
    """Where the compiler has its runtime of this name."""
    command = [os.environ.get("CXX", "c++"), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(build: Path, preload: str | None, arguments: list[str]) -> int:
    """The exit code of pytest."""
    stage = build / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(ROOT / "python", stage)
    bin_folder = Path(sys.executable).parent
    with (build / "install.log").open("w") as log:
        command = [str(bin_folder / "cmake"), "--install", str(build), "--prefix", str(stage / "fastdl")]
        subprocess.run(command, stdout=log, check=True)
    # cuda_device.py looks for the emulated extension below build/cpp.
    (build / "cpp").unlink(missing_ok=True)
    (build / "cpp").symlink_to(".")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(stage), sysconfig.get_path("purelib")]),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "TSAN_OPTIONS": "halt_on_error=1",
        "FASTDL_BUILD": str(build),
    }
    if preload:
        environment["LD_PRELOAD"] = f"{library(preload)} {library('libstdc++.so')}"
    python = [sys.executable, "-S"]
    check = "import fastdl; assert 'stage' in fastdl.__file__ and fastdl.show_config('dicts')['native']"
    subprocess.run([*python, "-c", check], env=environment, check=True)
    workers = ["--dist", "worksteal", "--tx", f"{os.cpu_count()}*popen//python={' '.join(python)}"]
    command = [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *workers, *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--preload", help="a runtime of the compiler's, by name")
    known, rest = parser.parse_known_args()
    sys.exit(main(known.build.resolve(), known.preload, rest))
