"""Every public function of a family is measured: in both types, so small that a loop takes part, and larger."""

import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import fastdl

for module in ("matplotlib", "pytest_benchmark", "threadpoolctl", "tqdm"):
    pytest.importorskip(module)

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

FAMILIES = ("gram", "conv", "group", "hebbian", "scattering")
DTYPES = ("float32", "float64")

# What has no case of its own, and why.
EXCLUDED = {
    "conv.PreparedConv": "measured as conv.prepare, which makes it",
    "group.EquivarianceWarning": "a warning",
    "group.Group": "a table of whole numbers, measured as the argument of group.convolve",
    "group.escnn_order": "eight whole numbers",
    "hebbian.HebbianPCA": "an estimator of the rules that are measured; bench/hebbian_pca.py is about it",
}

# Calls of a transform that are measured by themselves, where it has them.
METHODS = ("vjp", "moments")


@pytest.fixture(scope="module")
def suite():
    """The modules of the suite, found as its own processes find them, and forgotten afterwards."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(BENCH))
    try:
        yield {name: import_module(name) for name in ("contest", "measure", "rivals")}
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == BENCH:
                del sys.modules[name]


def functions(family):
    """What there is to measure: public functions, and of transforms the call and what else they compute."""
    module = getattr(fastdl, family)
    for name in module.__all__:
        if f"{family}.{name}" in EXCLUDED:
            continue
        yield f"{family}.{name}"
        if inspect.isclass(getattr(module, name)):
            yield from (f"{family}.{name}_{method}" for method in METHODS if hasattr(getattr(module, name), method))


@pytest.fixture
def groups(suite, family, monkeypatch):
    """All groups of a family without its rivals, which take long to import and change settings as they do."""
    monkeypatch.setattr(suite["rivals"], "installed", lambda function: {})
    return [group for group in import_module(f"bench_{family}").groups(True, "any") if not group.series]


def test_what_is_left_out_is_there():
    for name in EXCLUDED:
        family, _, function = name.partition(".")
        assert function in getattr(fastdl, family).__all__


@pytest.mark.parametrize("family", FAMILIES)
def test_every_function_has_cases_small_and_large(suite, groups, family):
    contest, measure = suite["contest"], suite["measure"]
    missing = []
    for function in functions(family):
        for dtype in DTYPES:
            there = [group for group in groups if (group.function, group.dtype) == (function, dtype)]
            if not any(measure.PYTHON in group.contenders for group in there):
                missing.append(f"{function}, {dtype}: none with a loop")
            if not any(group.terms > contest.LARGEST_LOOP for group in there):
                missing.append(f"{function}, {dtype}: none larger")
    assert not missing
    assert all(group.terms > 0 for group in groups)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_cases_have_one_name(groups, family):
    labels = [group.label for group in groups]
    assert len(set(labels)) == len(labels)


@pytest.mark.filterwarnings("ignore::fastdl.group.EquivarianceWarning")
@pytest.mark.parametrize("family", FAMILIES)
def test_small_cases_run_in_both_types(suite, groups, family):
    """We, the reference and the loop agree within the bound, which a number that is wrong does not pass."""
    measure = suite["measure"]
    small = [group for group in groups if measure.PYTHON in group.contenders]
    assert {group.dtype for group in small} == set(DTYPES)
    for group in small:
        prepared = group.prepare()
        assert tuple(prepared.calls) == group.contenders
        for name, call in prepared.calls.items():
            result = measure.as_numpy(call())
            prepared.check(name, result)
        wrong = result.copy()
        wrong.flat[-1] += 0.05 * np.abs(result).max()
        with pytest.raises(measure.Disagreement, match="is off"):
            prepared.check(name, wrong)


# In a process of its own, for the same reason. KeOps compiles for a minute, and another interpreter has to start.
RIVALS = """
import sys, warnings
from importlib import import_module
import contest, foreign, measure, rivals

warnings.simplefilter("ignore")
family, function = sys.argv[1], rivals.installed
left_out = {"keops", *foreign.INTERPRETERS}
rivals.installed = lambda name: {rival: maker for rival, maker in function(name).items() if rival not in left_out}
with measure.same_threads(1):
    for group in import_module(f"bench_{family}").groups(True, "any"):
        if group.series or group.terms > contest.LARGEST_LOOP or measure.PYTHON not in group.contenders:
            continue
        prepared = group.prepare()
        for name, call in prepared.calls.items():
            prepared.check(name, measure.as_numpy(call()))
            print(name)
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_rivals_agree_on_small_cases(family):
    pytest.importorskip("torch")
    folders = [str(BENCH), str(ROOT / "tests")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {folders}\n{RIVALS}", family],
        # Torch has as many threads as processors unless it is told before it is imported, and needs none here.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert {"fastdl", "reference", "python"} < set(done.stdout.split("\n")) - {""}


@pytest.mark.parametrize("family", ["conv", "group"])
def test_a_part_is_what_the_whole_has_there(family):
    """Of the cases whose results are checked in part when they are large."""
    modules = [import_module(f"cases.{family}_bench{others}") for others in ("", "_others")]
    parted = set()
    for case in (case for module in modules for case in module.SMALL):
        inputs = case.make(np.random.default_rng(7), np.dtype("float64"))
        subset, where = case.part(inputs, 200.0)
        if where is ...:
            continue
        parted.add(type(case).__name__)
        bound = case.bound(np.finfo(np.float64).eps, **inputs)
        # Both are within the bound of the truth.
        assert (np.abs(case.formula(**subset) - case.formula(**inputs)[where]) <= 2 * bound[where]).all(), case
    wanted = {
        "conv": {"ConvCase", "SignalCase", "TransposedCase", "PreparedCase", "PoolCase"},
        "group": {"GroupCase", "FiniteCase", "SignatureCase", "OtherCase", "GramianCase"},
    }
    assert parted == wanted[family]
