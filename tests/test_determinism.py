"""The same bits for any number of threads and any split of a batch, and nearly the same of every instruction set."""

import numpy as np
import pytest

import fastdl
from cases.families import WORK

every_work = pytest.mark.parametrize("work", WORK, ids=repr)


@every_work
def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, work):
    batch = work.samples(dtype)
    with fastdl.threads(1):
        expected = work(batch)
    for count in (2, 3, 5):
        with fastdl.threads(count):
            np.testing.assert_array_equal(work(batch), expected, strict=True)


@pytest.mark.parametrize("work", [work for work in WORK if work.split], ids=repr)
def test_any_split_of_a_batch_gives_the_same_bits(native_level, dtype, work):
    """What becomes of a sample does not depend on what is beside it."""
    batch = work.samples(dtype)
    expected = work(batch)
    for part in (1, 2, 3, 7, 16, 64, len(batch) - 1):
        for first in range(0, len(batch), part)[:5] if part < len(batch) else ():
            found = work(batch[first : first + part])
            np.testing.assert_array_equal(found, expected[first : first + part], strict=True, err_msg=f"{part} at once")


@pytest.mark.parametrize("strange", [np.nan, 1e16], ids=["nan", "large"])
@pytest.mark.parametrize("work", [work for work in WORK if work.split], ids=repr)
def test_a_strange_sample_changes_no_other(native_level, work, strange):
    """Not even which algorithm is taken for them."""
    if strange != strange and work.name == "conv.conv2d, fft":
        pytest.skip("transforms that are chosen by hand spread NaN")
    batch = work.samples(np.float32, min(work.small, 9))
    expected = work(batch)
    at = len(batch) // 2
    batch[at] *= strange
    with np.errstate(all="ignore"):
        found = work(batch)
    others = np.arange(len(batch)) != at
    np.testing.assert_array_equal(found[others], expected[others], strict=True)


# Units in the last place of the largest element of a result, between any two instruction sets.
BUDGET = 64


@every_work
def test_instruction_sets_agree(native, dtype, work):
    batch = work.samples(dtype)
    before = native.isa()
    try:
        results = []
        for level in native.isas():
            native.set_isa(level)
            results.append(np.asarray(work(batch), np.float64))
    finally:
        native.set_isa(before)
    unit = np.finfo(dtype).eps * np.abs(results[0]).max()
    assert unit > 0
    for result in results[1:]:
        assert np.abs(result - results[0]).max() <= BUDGET * unit


def test_there_is_work_of_every_family():
    assert {work.name.split(".")[0] for work in WORK} == {"gram", "conv", "group", "scattering", "hebbian"}
