"""A CMake project that embeds fastdl is configured, built and run against the installed package."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fastdl

pytestmark = [
    pytest.mark.skipif(not fastdl.show_config(mode="dicts")["native"], reason="the compiled kernels are not installed"),
    pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("c++")), reason="needs cmake and a compiler"),
]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    build = tmp_path_factory.mktemp("consume")
    run("cmake", "-S", Path(__file__).parent / "consume", "-B", build, f"-Dfastdl_DIR={fastdl.get_cmake_dir()}")
    run("cmake", "--build", build)
    return build


@pytest.mark.parametrize("program", ["from_cpp", "from_c"])
def test_embedding(built, program):
    lines = run(built / program).splitlines()
    assert lines[:3] == ["1 0 3", "0 4 8", "3 8 25"]
    assert lines[3].startswith("[gram.linear] expected K")


def test_command_line_gives_the_folders():
    cmake_dir = run(sys.executable, "-m", "fastdl", "--cmakedir").strip()
    assert (Path(cmake_dir) / "fastdlConfig.cmake").is_file()
    includes = run(sys.executable, "-m", "fastdl", "--includes").strip()
    assert (Path(includes.removeprefix("-I")) / "fastdl" / "gram.hpp").is_file()
