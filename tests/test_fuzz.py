"""Random calls of every public function, on the compiled backend and on the reference: ``make fuzz``."""

import pytest

from cases import fuzz, fuzz_conv, fuzz_gram, fuzz_group, fuzz_hebbian, fuzz_scattering
from fastdl import conv, gram, group, hebbian, scattering

TRIALS = {
    conv: fuzz_conv.TRIALS,
    gram: fuzz_gram.TRIALS,
    group: fuzz_group.TRIALS,
    hebbian: fuzz_hebbian.TRIALS,
    scattering: fuzz_scattering.TRIALS,
}


@pytest.mark.parametrize("family", TRIALS, ids=lambda family: family.__name__)
def test_every_function_is_tried(family):
    assert set(TRIALS[family]) == set(family.__all__)


def agreement(family):
    """Make the test of a family, which has its own number of functions to share the cases."""
    trials = TRIALS[family]

    @pytest.mark.parametrize("name", sorted(trials))
    @fuzz.cases(len(trials))
    def test(name, data):
        draw = fuzz.Draw(data)
        fuzz.check(draw, trials[name](draw))

    return test


test_conv = agreement(conv)
test_gram = agreement(gram)
test_group = agreement(group)
test_hebbian = agreement(hebbian)
test_scattering = agreement(scattering)
