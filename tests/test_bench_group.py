"""The benchmark cases of groups: that they are checked, and that those we are measured against compute the same."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdl
from cases import group_bench as cases
from fastdl.group import Group

BENCH = Path(__file__).resolve().parents[1] / "bench"


def small_cases():
    """Every kind of case once, small: strides and sides that do not fit, and as many filters as channels or not."""
    for group in ("p4", "p4m", "p2", "pm"):
        for name in (*cases.PASSES, *(f"lift_{name}" for name in cases.PASSES)):
            yield cases.layer(name, group, 3, 4, 9)
            yield cases.layer(name, group, 2, 2, 11, 5, 2, filters=3)
    for pairs in (False, True):
        yield cases.finite("D150", 300, lambda: Group.dihedral(150), 5, pairs)
        yield cases.finite("S4", 24, lambda: Group.symmetric(4), 5, pairs)
    yield cases.signature(9, 7, 12)


@pytest.mark.filterwarnings("ignore::fastdl.group.EquivarianceWarning")
def test_cases_have_formulas_and_bounds(dtype):
    """Ours is within the bound of the formula in more precision, and a part of a result is what the whole has there."""
    for case in small_cases():
        inputs = case.make(np.random.default_rng(7), dtype)
        wide = {
            name: value.astype(np.longdouble) if name in ("f", "h", "x", "w", "grad", "templates") else value
            for name, value in inputs.items()
        }
        expected, bound = case.formula(**wide), case.bound(float(np.finfo(dtype).eps), **inputs)
        found = getattr(fastdl.group, case.name)(**inputs)
        assert found.shape == expected.shape == bound.shape
        assert (np.abs(found - expected) <= bound).all(), (case.name, case.size)
        # A bound that lets anything pass would be none.
        assert np.median(bound) <= 0.01 * np.abs(expected).max()
        subset, where = case.part(wide, 200.0)
        assert where is not ...
        np.testing.assert_allclose(case.formula(**subset).astype(float), expected[where].astype(float), rtol=1e-10)


def test_no_two_cases_have_one_name():
    everything = (*cases.GOALS, *cases.SWEEP, *cases.OTHERS)
    assert len({(case.name, str(case.size)) for case in everything}) == len(everything)
    swept = {(c.name, c.size["group"], c.size["channels"], c.size["side"]) for c in cases.SWEEP}
    assert len(swept) == 2 * 3 * 5 * 4
    assert {axis for axis, *_ in cases.SERIES} <= set(cases.SERIES[0][1](7).size)


# In a process of its own: rivals take long to import, and change settings as they do.
RIVALS = """
import dataclasses, warnings
import numpy as np
import contest, measure, rivals
from test_bench_group import cases, small_cases

warnings.simplefilter("ignore")
seen = set()
for case in small_cases():
    for dtype in ("float32", "float64"):
        if dtype == "float64" and case.name == "conv2d":
            case = dataclasses.replace(case, rivals=cases.LAYOUTS)
        prepared = contest.group_of(case, dtype, "any").prepare()
        for name, call in prepared.calls.items():
            result = measure.as_numpy(call())
            prepared.check(name, result)
            seen.add(name)
            wrong = result.copy()
            wrong.flat[-1] += 0.05 * np.abs(result).max()
            try:
                prepared.check(name, wrong)
            except measure.Disagreement:
                continue
            raise SystemExit(f"{name} may be wrong in {case.name} {case.size}")
wanted = {name for case in small_cases() for name in rivals.installed(case.function)}
assert wanted <= seen, (wanted, seen)
print(*sorted(seen))
"""


def test_rivals_agree_and_wrong_ones_are_found():
    pytest.importorskip("threadpoolctl")
    if not BENCH.is_dir():
        pytest.skip("the benchmarks are not here")
    folders = [str(BENCH), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {folders}\n{RIVALS}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert {"fastdl", "numpy", "reference"} <= set(done.stdout.split())
