"""Instruction counts of the hot loops: that a comparison says what it should, and that the loops are as recorded."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("threadpoolctl")
BENCH = Path(__file__).resolve().parents[1] / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)
sys.path.insert(0, str(BENCH))

import instructions  # noqa: E402

RECORDED = {"GNU 1": {"avx2": {"product": 1000, "sum": 500}, "baseline": {"product": 4000, "sum": 2000}}}


def report(compiler="GNU 1", **changes):
    """What is said of counts as recorded, but for those of avx2 that are named."""
    now = {"avx2": {"product": 1000, "sum": 500, **changes}, "baseline": {"product": 4000, "sum": 2000}}
    return instructions.report(RECORDED, compiler, now)


@pytest.mark.parametrize("count", [980, 1000, 1020])
def test_counts_as_recorded(count):
    text, good = report(product=count)
    assert good and text == "4 counts are as recorded, within 2%"


@pytest.mark.parametrize(("count", "ratio"), [(1021, "1.021"), (3000, "3.000")])
def test_a_slower_loop_fails_by_name(count, ratio):
    text, good = report(product=count)
    assert not good
    (line,) = [line for line in text.splitlines() if "product" in line]
    assert line.split() == ["avx2", "product", "1000", str(count), ratio]
    assert "sum" not in text and "record again" not in text


def test_a_faster_loop_is_to_be_recorded_again():
    text, good = report(product=979)
    assert good
    assert "record again" in text
    assert "avx2      product" in text and "0.979" in text


def test_one_that_is_slower_is_not_made_good_by_one_that_is_faster():
    text, good = report(product=1100, sum=100)
    assert not good
    assert text.index("1.100") < text.index("record again") < text.index("0.200")


def test_loops_that_came_or_went_are_to_be_recorded_again():
    text, good = report(more=7)
    assert good and "record again" in text and "more" in text
    text, good = instructions.report(RECORDED, "GNU 1", {"avx2": {"sum": 500}})
    assert good and "record again" in text and "product" in text
    # Another machine has another set of levels.
    assert "baseline" not in text


def test_another_compiler_is_not_compared():
    text, good = report(compiler="Clang 2", product=9000)
    assert good
    assert text == "not compared: recorded for GNU 1, got Clang 2"
    assert instructions.report({}, "GNU 1", {})[0] == "not compared: recorded for nothing, got GNU 1"


def test_a_loop_that_cannot_be_run_is_no_count(tmp_path):
    if instructions.missing():
        pytest.skip(f"needs {instructions.missing()}")
    level = instructions.counted_levels()[0]
    with pytest.raises(RuntimeError, match="nothing was not counted"):
        instructions.count(Path(sys.executable), level, "nothing")


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_the_hot_loops_are_as_recorded(tmp_path):
    if instructions.missing():
        pytest.skip(f"needs {instructions.missing()}")
    program = instructions.build(tmp_path)
    compiler, loops = instructions.described(program)
    recorded = instructions.load()
    if compiler not in recorded:
        pytest.skip(f"recorded for {', '.join(recorded)}, not for {compiler}")
    for level in instructions.counted_levels():
        assert set(recorded[compiler].get(level, loops)) == set(loops), instructions.AGAIN
    text, good = instructions.report(recorded, compiler, instructions.count_all(program, loops))
    assert good, text
