"""Configuration, backends, environment, the command line, and the documentation's examples."""

import asyncio
import doctest
import importlib
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fastdl
from fastdl import __main__ as command
from fastdl import _dispatch


def run(code, expect=0, **environment):
    """Run Python code in a process of its own; give its output and its errors."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("FASTDL_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**base, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == expect, done.stderr
    return done.stdout, done.stderr


# What makes the extension look absent, or present and unusable, whether or not it is built here.
ABSENT = "import sys; sys.modules['fastdl._core'] = None\n"
BROKEN = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "fastdl._core":
            raise ImportError("libmissing.so: cannot open shared object file")
sys.meta_path.insert(0, Finder())
"""
STALE = """
import sys, types
sys.modules["fastdl._core"] = types.SimpleNamespace(__version__="0.0.1")
"""


class TestShowConfig:
    def test_dicts(self):
        found = fastdl.show_config(mode="dicts")
        assert {"version", "native", "isa", "isas", "threads", "cuda", "build", "python", "numpy", "backend"} <= set(
            found
        )
        assert found["version"] == fastdl.__version__
        assert found["native"] is (_dispatch.core is not None)
        assert found["threads"] == fastdl.get_num_threads()
        assert found["numpy"] == np.__version__
        if found["native"]:
            assert found["isa"] in found["isas"] and "baseline" in found["isas"]
            assert found["build"]

    def test_prints(self, capsys):
        assert fastdl.show_config() is None
        printed = capsys.readouterr().out
        assert fastdl.__version__ in printed and np.__version__ in printed

    def test_unknown_mode(self):
        with pytest.raises(ValueError, match=r"^\[show_config\] expected mode None or 'dicts', got 'json'"):
            fastdl.show_config(mode="json")


class TestBackend:
    def test_context(self):
        before = fastdl.get_backend()
        with fastdl.backend("reference"):
            assert fastdl.get_backend() == "reference"
            with fastdl.backend("auto"):
                assert fastdl.get_backend() == ("reference" if _dispatch.core is None else "native")
            assert fastdl.get_backend() == "reference"
        assert fastdl.get_backend() == before

    def test_restored_after_an_error(self):
        before = fastdl.get_backend()
        with pytest.raises(KeyError), fastdl.backend("reference"):
            raise KeyError
        assert fastdl.get_backend() == before

    def test_unknown(self):
        with pytest.raises(ValueError, match=r"^\[backend\] expected one of auto, native, cuda, reference, got 'gpu'"):
            fastdl.backend("gpu")
        with pytest.raises(TypeError, match=r"^\[backend\] expected the name of a backend, got int"):
            fastdl.backend(3)

    def test_cuda_not_installed(self):
        if _dispatch.load_cuda() is not None:
            pytest.skip("the CUDA extension is installed")
        with pytest.raises(RuntimeError, match=r"^\[backend\] expected the CUDA extension"):
            fastdl.backend("cuda")

    def test_each_thread_and_task_has_its_own(self):
        found = []
        default = fastdl.get_backend()

        async def task(name):
            with fastdl.backend(name):
                await asyncio.sleep(0)
                found.append(fastdl.get_backend() == ("reference" if name == "reference" else default))

        async def main():
            await asyncio.gather(task("reference"), task("auto"), task("reference"))

        if os.environ.get("FASTDL_BACKEND", "auto") == "auto":
            asyncio.run(main())
            assert found == [True] * 3
        with fastdl.backend("reference"):
            thread = threading.Thread(target=lambda: found.append(fastdl.get_backend()))
            thread.start()
            thread.join()
        assert found[-1] == default

    def test_reference_really_runs_the_reference(self, monkeypatch):
        monkeypatch.setattr(fastdl.gram._linear, "_reference", lambda X, Y: "the reference")
        with fastdl.backend("reference"):
            assert fastdl.gram.linear(np.eye(2)) == "the reference"

    def test_native_really_runs_the_kernel(self, native, monkeypatch):
        monkeypatch.setattr(fastdl.gram._linear, "native", lambda X, Y, out: out.fill(42))
        for name in ("native", "auto"):
            with fastdl.backend(name):
                assert np.all(fastdl.gram.linear(np.eye(2)) == 42)


class TestEnvironment:
    def test_backend(self):
        code = "import fastdl; print(fastdl.get_backend())"
        assert run(code, FASTDL_BACKEND="reference")[0].strip() == "reference"
        assert run("import warnings; warnings.simplefilter('ignore')\n" + code, FASTDL_BACKEND="auto")[0].strip() in (
            "native",
            "reference",
        )

    def test_unknown_backend(self):
        _, errors = run("import fastdl", expect=1, FASTDL_BACKEND="gpu")
        assert "ValueError: [FASTDL_BACKEND] expected one of auto, native, cuda, reference, got 'gpu'" in errors

    def test_native_asked_for_and_absent(self):
        _, errors = run(ABSENT + "import fastdl", expect=1, FASTDL_BACKEND="native")
        assert "RuntimeError: [FASTDL_BACKEND] expected the compiled extension, but it was not built" in errors
        assert "pip install ." in errors

    def test_number_of_threads(self, native):
        assert run("import fastdl; print(fastdl.get_num_threads())", FASTDL_NUM_THREADS="3")[0].strip() == "3"

    def test_instruction_set_is_capped(self, native):
        code = "import fastdl; c = fastdl.show_config('dicts'); print(c['isa'], *c['isas'])"
        for isa in native.isas():
            assert run(code, FASTDL_ISA=isa)[0].split()[0] == isa


class TestWithoutTheExtension:
    def test_warns_once_and_works(self):
        code = ABSENT + (
            "import warnings\n"
            "with warnings.catch_warnings(record=True) as caught:\n"
            "    warnings.simplefilter('always')\n"
            "    import numpy as np, fastdl, fastdl.gram\n"
            "    fastdl.gram.linear(np.eye(2)); fastdl.gram.linear(np.eye(2))\n"
            "[one] = caught\n"
            "assert one.category is RuntimeWarning and one.filename == '<string>', one\n"
            "print(one.message)\n"
            "print(fastdl.get_backend(), fastdl.get_num_threads())\n"
            "fastdl.set_num_threads(4)\n"
            "with fastdl.threads(2): print(fastdl.get_num_threads())\n"
            "print(fastdl.show_config('dicts')['native'])\n"
            "for ask in (fastdl.get_include, fastdl.get_cmake_dir, lambda: fastdl.backend('native')):\n"
            "    try: ask()\n"
            "    except RuntimeError as error: assert 'it was not built' in str(error), error\n"
            "    else: raise AssertionError(ask)\n"
        )
        printed = run(code)[0].splitlines()
        assert "it was not built" in printed[0] and "pip install ." in printed[0]
        assert printed[1:] == ["reference 1", "1", "False"]

    def test_silent_for_who_asked_for_the_reference(self):
        assert run(
            ABSENT + "import warnings; warnings.simplefilter('error'); import fastdl", FASTDL_BACKEND="reference"
        )

    def test_a_broken_extension_tells_why(self):
        _, errors = run(BROKEN + "import fastdl")
        assert "RuntimeWarning" in errors and "cannot be imported: libmissing.so: cannot open" in errors

    def test_a_stale_extension_is_not_used(self):
        _, errors = run(STALE + "import fastdl; assert fastdl.get_backend() == 'reference'")
        assert "it is of version 0.0.1" in errors


class TestThreadCount:
    @pytest.mark.parametrize("function", [fastdl.set_num_threads, fastdl.threads])
    def test_refused(self, function):
        name = function.__name__
        for count in (0, -1, 4097, 2**70):
            with pytest.raises(ValueError, match=rf"^\[{name}\] expected n from 1 to .*, got {count}"):
                function(count)
        for count in (1.0, "2", None, True):
            with pytest.raises(TypeError, match=rf"^\[{name}\] expected n to be an integer, got"):
                function(count)

    def test_numpy_integers(self, keep_threads):
        fastdl.set_num_threads(np.int64(1))
        with fastdl.threads(np.uint8(1)):
            assert fastdl.get_num_threads() == 1

    def test_set_and_get(self, native, keep_threads):
        for count in (1, 2, 5):
            fastdl.set_num_threads(count)
            assert fastdl.get_num_threads() == count

    def test_limit(self, native, keep_threads):
        fastdl.set_num_threads(4)
        with fastdl.threads(3):
            assert fastdl.get_num_threads() == 3
            with fastdl.threads(1):
                assert fastdl.get_num_threads() == 1
            assert fastdl.get_num_threads() == 3
            fastdl.set_num_threads(2)
            assert fastdl.get_num_threads() == 3  # the block's own number stands, more or fewer than the process's
        assert fastdl.get_num_threads() == 2
        with pytest.raises(KeyError), fastdl.threads(1):
            raise KeyError
        assert fastdl.get_num_threads() == 2

    def test_limit_is_of_this_thread(self, native, keep_threads):
        fastdl.set_num_threads(2)
        found = []
        with fastdl.threads(1):
            thread = threading.Thread(target=lambda: found.append(fastdl.get_num_threads()))
            thread.start()
            thread.join()
        assert found == [2]


class TestInstructionSets:
    def test_set(self, native):
        before = native.isa()
        for isa in native.isas():
            native.set_isa(isa)
            assert native.isa() == isa == fastdl.show_config("dicts")["isa"]
        native.set_isa(before)

    def test_unknown(self, native):
        before = native.isa()
        with pytest.raises(ValueError):
            native.set_isa("mmx")
        assert native.isa() == before


class TestFolders:
    def test_include(self, native):
        assert os.path.isfile(os.path.join(fastdl.get_include(), "fastdl", "fastdl.h"))

    def test_cmake(self, native):
        assert os.path.isfile(os.path.join(fastdl.get_cmake_dir(), "fastdlConfig.cmake"))


class TestCommand:
    def test_configuration(self, capsys):
        assert command.main([]) == 0
        assert fastdl.__version__ in capsys.readouterr().out

    def test_as_a_module(self):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "fastdl"], capture_output=True, text=True, timeout=120, check=True
        )
        assert fastdl.__version__ in done.stdout

    def test_selftest(self, capsys):
        assert command.main(["selftest"]) == 0
        assert "All right." in capsys.readouterr().out

    def test_selftest_finds_a_wrong_kernel(self, capsys, monkeypatch):
        monkeypatch.setattr(fastdl.gram._linear, "_reference", lambda X, Y: X[:, :1] + (X if Y is None else Y)[:, :1].T)
        assert command.main(["selftest"]) == 1
        assert "WRONG" in capsys.readouterr().out

    def test_includes_and_cmakedir(self, native, capsys):
        assert command.main(["--includes"]) == 0
        assert command.main(["--cmakedir"]) == 0
        assert capsys.readouterr().out.split() == ["-I" + fastdl.get_include(), fastdl.get_cmake_dir()]

    def test_bench_without_a_checkout(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setattr(command, "__file__", str(tmp_path / "site-packages" / "fastdl" / "__main__.py"))
        monkeypatch.chdir(tmp_path)
        assert command.main(["bench"]) == 1
        assert "clone the fastdl repository" in capsys.readouterr().err

    def test_bench_passes_its_arguments_on(self, monkeypatch, tmp_path):
        (tmp_path / "python" / "fastdl").mkdir(parents=True)
        (tmp_path / "bench").mkdir()
        (tmp_path / "bench" / "run.py").write_text("import sys; sys.exit(len(sys.argv) - 1)")
        monkeypatch.setattr(command, "__file__", str(tmp_path / "python" / "fastdl" / "__main__.py"))
        assert command.main(["bench", "--quick", "gram"]) == 2

    def test_unknown_arguments(self, capsys):
        with pytest.raises(SystemExit):
            command.main(["--gpu"])
        capsys.readouterr()


# Their examples show folders that an install without compiled kernels does not have.
COMPILED_ONLY = {"fastdl._config.get_include", "fastdl._config.get_cmake_dir"}


@pytest.mark.parametrize("module", ["fastdl.gram", "fastdl._config", "fastdl._dispatch"])
def test_examples_in_the_docstrings(module):
    runner = doctest.DocTestRunner()
    for examples in doctest.DocTestFinder().find(importlib.import_module(module)):
        if _dispatch.core is not None or examples.name not in COMPILED_ONLY:
            runner.run(examples)
    assert runner.tries and not runner.failures


def test_every_public_function_is_everywhere():
    """One name in the public module, in the reference and in the extension; kernels with the same arguments."""
    import inspect

    from fastdl._kernels import KERNELS
    from fastdl.reference import gram as reference

    assert set(KERNELS) < set(fastdl.gram.__all__)
    for name in fastdl.gram.__all__:
        assert getattr(fastdl.gram, name).__doc__.count("Examples") == 1, name
    for name in KERNELS:
        public = list(inspect.signature(getattr(fastdl.gram, name)).parameters)
        assert public == [*inspect.signature(getattr(reference, name)).parameters, "out"], name
    if _dispatch.core is not None:
        for name in (*KERNELS, "diag", "matvec", "softmax_matvec", "cntk", "sparse"):
            assert callable(getattr(_dispatch.core.gram, name)), name


def test_public_names():
    for name in fastdl.__all__:
        assert hasattr(fastdl, name)
    assert os.path.isfile(os.path.join(os.path.dirname(fastdl.__file__), "py.typed"))
