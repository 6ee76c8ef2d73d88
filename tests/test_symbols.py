"""No wide instruction may run on a processor that lacks it: what the objects and the library contain."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fastdl

OBJECTS = Path(__file__).parents[1] / "build" / "cpp" / "CMakeFiles"
WIDE = {"avx2": r"%[yz]mm", "avx512": r"%zmm"}

pytestmark = pytest.mark.skipif(shutil.which("nm") is None or shutil.which("objdump") is None, reason="needs binutils")


def output(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def objects_of(level):
    found = sorted(OBJECTS.glob(f"fastdl_{level}.dir/**/*.o"))
    if not found:
        pytest.skip("make test-cpp has not built the objects")
    return found


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512", "neon"])
def test_bodies_define_only_their_own_level(level):
    """A weak symbol would let the linker put one level's code in another's place."""
    for path in objects_of(level):
        for line in output("nm", "-C", "--defined-only", path).splitlines():
            kind, name = line.split(maxsplit=2)[1:]
            if name == "DW.ref.__gxx_personality_v0":  # a pointer, not code
                continue
            assert kind not in "WVui", f"{path.name} has the weak symbol {name}"
            if kind in "TDBR":
                assert f"::{level}::" in name, f"{path.name} defines {name}"


@pytest.mark.parametrize("level", ["base", "baseline"])
def test_baseline_objects_have_no_wide_instruction(level):
    for path in objects_of(level):
        lines = output("objdump", "-d", path).splitlines()
        wide = [line for line in lines if re.search(r"%[yz]mm|\sv\w+\s.*%xmm", line)]
        assert not wide, f"{path.name}: {wide[:3]}"


def test_wide_objects_are_wide():
    """The pattern of the test above finds what it looks for."""
    for level, pattern in WIDE.items():
        text = "".join(output("objdump", "-d", path) for path in objects_of(level))
        assert re.search(pattern, text)


def test_library_exports_only_the_c_interface():
    if not fastdl.show_config(mode="dicts")["native"]:
        pytest.skip("the compiled kernels are not installed")
    libraries = list(Path(fastdl.get_cmake_dir()).parents[1].glob("libfastdl.*"))
    assert len(libraries) == 1
    names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", libraries[0]).splitlines()]
    assert names and all(name.startswith("fastdl_") for name in names), names
