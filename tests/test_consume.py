"""The C and C++ interface as other projects meet it: found, built, linked and run in the ways of docs/embedding.md."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdl
from consume.interface import HEADER, declarations, functions, recorded

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "embedding"
BUILD = ROOT / "build" / "cpp"  # of `make build`, where the library was compiled

pytestmark = [
    pytest.mark.skipif(not fastdl.show_config(mode="dicts")["native"], reason="the compiled kernels are not installed"),
    pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("c++")), reason="needs cmake and a compiler"),
]


def run(*command, **environment):
    environment = {**os.environ, **environment}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source, folder, *options):
    run("cmake", "-S", source, "-B", folder, *options)
    run("cmake", "--build", folder)
    return folder


def results(text):
    """What a program of the example printed: the first line apart, the others as numbers by their names."""
    first, *lines = text.splitlines()
    named = dict(line.split(": ", 1) for line in lines)
    error = named.pop("error")
    return first, {name: np.array(values.split(), float) for name, values in named.items()}, error


@pytest.fixture(scope="module")
def consumer(tmp_path_factory):
    return build(Path(__file__).parent / "consume", tmp_path_factory.mktemp("consume"), found())


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return build(EXAMPLE, tmp_path_factory.mktemp("embedding"), found())


def found():
    """Where pip put the package, as a user would say it to CMake."""
    return "-Dfastdl_DIR=" + run(sys.executable, "-m", "fastdl", "--cmakedir").strip()


@pytest.mark.parametrize("program", ["from_cpp", "from_c"])
def test_embedding(consumer, program):
    lines = run(consumer / program).splitlines()
    assert lines[:3] == ["1 0 3", "0 4 8", "3 8 25"]
    assert lines[3].startswith("[gram.linear] expected K")


def test_what_no_function_may_take_is_refused(consumer):
    calls = (Path(__file__).parent / "consume" / "refused.c").read_text().count("  REFUSED(")
    assert calls > 40
    assert run(consumer / "refused") == f"{calls + 1} refused, 0 written\n"


def test_threads(consumer):
    assert run(consumer / "threads").splitlines() == [
        "threads: same",
        "limit: of one thread",
        "callers: same",
        "forked: same",
    ]


def test_command_line_gives_the_folders():
    cmake_dir = run(sys.executable, "-m", "fastdl", "--cmakedir").strip()
    assert (Path(cmake_dir) / "fastdlConfig.cmake").is_file()
    includes = run(sys.executable, "-m", "fastdl", "--includes").strip()
    assert (Path(includes.removeprefix("-I")) / "fastdl" / "gram.hpp").is_file()


# ---- the example ----


def wave(*shape):
    return np.sin(0.7 * np.arange(np.prod(shape)) + 0.3).reshape(shape)


def bump(count, mean, width):
    apart = (np.arange(count) - mean + count / 2) % count - count / 2
    return np.exp(-0.5 * (apart / width) ** 2)


def scattered(signal):
    """The small scattering transform of the example."""
    average, average_2 = (bump(n, 0, n / 8) / bump(n, 0, n / 8).sum() for n in (64, 32))

    def averages(u, kernel):
        smooth = np.fft.ifft(np.fft.fft(u) * np.fft.fft(kernel)).real
        return smooth[:: len(u) // 4]

    def modulus(u, psi):
        return np.abs(np.fft.ifft(np.fft.fft(u) * psi))

    first = [modulus(signal, bump(64, *at))[::2] for at in [(16, 3), (8, 2)]]
    second = [modulus(u, bump(32, 4, 1.5)) for u in first]
    return np.stack([averages(signal, average)] + [averages(u, average_2) for u in first + second])


def expected():
    """All that the example prints, in float64 from the formulas."""
    X = wave(5, 3)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(2))

    def filtered(image, w):
        padded = np.pad(image, 1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
        return np.einsum("ijab,ab->ij", windows, w)

    convolution = np.maximum(filtered(wave(6, 6), wave(2, 3, 3)[0]) + 0.1, 0)
    strongest = np.max([filtered(wave(5, 5), np.rot90(wave(3, 3), r)) for r in range(4)], axis=0)
    signal = wave(64)
    # The gradient of half the sum of squares, by central differences.
    nudge = 1e-6 * np.eye(64)[:4]
    energy = lambda x: (scattered(x) ** 2).sum() / 2  # noqa: E731
    gradient = [(energy(signal + e) - energy(signal - e)) / 2e-6 for e in nudge]
    W = wave(2, 3)
    for x in wave(40, 3):
        y = W @ x
        W = W + 0.05 * (np.outer(y, x) - np.tril(np.outer(y, y)) @ W)
    return {
        "gram": (K[0], 1e-8),
        "matvec": (K.sum(1), 1e-8),
        "convolution": (convolution[0], 1e-5),
        "group": (strongest[0], 1e-5),
        "group, turned": (np.zeros(1), 1e-5),
        "scattering": (scattered(signal).ravel(), 1e-8),
        "scattering, gradient": (np.array(gradient), 1e-7),
        "hebbian": (W.ravel(), 1e-8),
    }


def check_results(text):
    first, named, error = results(text)
    config = fastdl.show_config(mode="dicts")
    assert first.startswith(f"fastdl: {fastdl.__version__} ")
    assert error == "[gram.linear] expected K of shape 3 x 3, got 2 x 2"
    wanted = expected()
    assert named.keys() == wanted.keys()
    for name, (values, slack) in wanted.items():
        np.testing.assert_allclose(named[name], values, rtol=0, atol=slack, err_msg=name)
    return first, config


@pytest.mark.parametrize("program", ["embedding_cpp", "embedding_c"])
def test_the_example_computes_what_it_should(example, program):
    first, config = check_results(run(example / program))
    assert first.split()[2:] == [config["isa"], str(config["threads"])]


def test_the_environment_chooses_instructions_and_threads(example):
    for level in fastdl.show_config(mode="dicts")["isas"]:
        first, _ = check_results(run(example / "embedding_c", FASTDL_ISA=level, FASTDL_NUM_THREADS="3"))
        assert first.split()[2:] == [level, "3"]


def linked_by_hand(folder, *libraries):
    """The example without CMake: a compiler, a linker, and the folders that the package names."""
    includes = run(sys.executable, "-m", "fastdl", "--includes").strip()
    run("cc", "-O1", "-c", includes, EXAMPLE / "main.c", "-o", folder / "main.o")
    run("c++", folder / "main.o", *libraries, "-o", folder / "embedding")
    return run(folder / "embedding")


def test_linking_by_hand(tmp_path):
    library = Path(run(sys.executable, "-m", "fastdl", "--cmakedir").strip()).parents[1]
    check_results(linked_by_hand(tmp_path, f"-L{library}", "-lfastdl", f"-Wl,-rpath,{library}", "-lm"))


def test_linking_by_hand_to_a_static_library(tmp_path):
    objects = sorted(BUILD.glob("CMakeFiles/fastdl_*.dir/**/*.o"))
    objects = [path for path in objects if "fastdl_wide" not in str(path)]
    if not objects:
        pytest.skip("the objects are not here")
    run("ar", "rcs", tmp_path / "libfastdl.a", *objects)  # as CMake does with BUILD_SHARED_LIBS=OFF
    check_results(linked_by_hand(tmp_path, tmp_path / "libfastdl.a", "-pthread"))


def installed(tree, folder):
    """A prefix that `cmake --install` made, moved afterwards: nothing in it may name the place where it was made."""
    if not (tree / "cmake_install.cmake").is_file():
        pytest.skip(f"{tree.name} was not built here")
    run("cmake", "--install", tree, "--prefix", folder / "made")
    return (folder / "made").rename(folder / "moved")


def test_a_prefix_of_cmake(tmp_path):
    prefix = installed(BUILD, tmp_path)
    for file in prefix.glob("lib/cmake/fastdl/*.cmake"):
        assert str(ROOT) not in file.read_text() and str(tmp_path) not in file.read_text()
    check_results(run(build(EXAMPLE, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}") / "embedding_cpp"))


def test_a_static_prefix_for_another_processor(tmp_path):
    """The tree of `make test-aarch64` is static: C programs, too, must be linked with the library of C++."""
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None or not shutil.which("aarch64-linux-gnu-gcc"):
        pytest.skip("needs a compiler for 64-bit ARM and qemu-user")
    prefix = installed(ROOT / "build" / "aarch64", tmp_path)
    assert (prefix / "lib" / "libfastdl.a").is_file()
    cross = f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'aarch64.cmake'}"
    folder = build(EXAMPLE, tmp_path / "build", cross, "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc",
                   f"-Dfastdl_DIR={prefix / 'lib' / 'cmake' / 'fastdl'}")  # fmt: skip
    for program in ("embedding_cpp", "embedding_c"):
        first, _ = check_results(run(emulator, folder / program))
        assert first.split()[2] == "neon"


@pytest.mark.parametrize(
    "version, fits", [("0.1", True), ("0.1.0", True), ("0.2", False), ("0.0", False), ("1", False)]
)
def test_other_versions_are_refused(tmp_path, version, fits):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(versions LANGUAGES CXX)\n"
        f"find_package(fastdl {version} QUIET)\nmessage(STATUS found=${{fastdl_FOUND}})\n"
    )
    assert f"found={int(fits)}" in run("cmake", "-S", tmp_path, "-B", tmp_path / "build", found())


# ---- the interface ----


def test_what_was_declared_still_is():
    """Programs compiled with an earlier 0.1.x go on with this library."""
    assert recorded().is_file(), "a new version of the interface: record it with tests/consume/interface.py"
    lacking = set(recorded().read_text().splitlines()) - set(declarations(HEADER.read_text()))
    assert not lacking, "the interface of this version is broken: a change such as this makes a new one"


def test_what_is_declared_is_there():
    library = next(Path(fastdl.get_cmake_dir()).parents[1].glob("libfastdl.*"))
    loaded = ctypes.CDLL(str(library))
    declared = functions(declarations(HEADER.read_text()))
    assert len(declared) > 100
    assert not [name for name in declared if not hasattr(loaded, name)]
    if shutil.which("nm"):
        lines = run("nm", "-D", "--defined-only", library).splitlines()
        # The extension alone calls the others, and no header has them.
        private = {f"fastdl_private_fft_{kind}" for kind in ("f32", "f64")}
        assert {line.split()[-1] for line in lines} == declared | private


@pytest.mark.parametrize("standard", ["c89", "c99", "c17"])
def test_the_header_is_plain_c(standard):
    headers = fastdl.get_include()
    strict = ("-pedantic-errors", "-Wall", "-Wextra", "-Werror")
    run("cc", f"-std={standard}", *strict, "-fsyntax-only", "-x", "c", "-I", headers, f"{headers}/fastdl/fastdl.h")


@pytest.mark.parametrize("header", sorted(path.name for path in HEADER.parent.glob("*.hpp")))
def test_every_header_stands_alone(tmp_path, header):
    """In C++17, with all warnings: the library itself needs C++20, those who use it do not."""
    source = tmp_path / "alone.cpp"
    source.write_text(f"#include <fastdl/{header}>\n")
    strict = ("-std=c++17", "-pedantic-errors", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")
    run("c++", *strict, "-fsyntax-only", "-I", fastdl.get_include(), source)


def test_the_documentation_shows_what_is_compiled():
    """Every line of C and C++ in docs/embedding.md is a line of the example."""
    page = (ROOT / "docs" / "embedding.md").read_text()
    blocks = re.findall(r"^```(?:cpp|c|cmake)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    lines = {line.strip() for path in EXAMPLE.iterdir() for line in path.read_text().splitlines()}
    shown = [line.strip() for block in blocks for line in block.splitlines()]
    assert len(shown) > 30
    assert not [line for line in shown if line not in lines and line != "..."]
