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

    @fuzz.needs_native
    @fuzz.on_request
    @pytest.mark.parametrize("name", sorted(trials))
    def test(name):
        held = []

        @fuzz.cases(len(trials))
        def run(data):
            draw = fuzz.Draw(data)
            held.append(fuzz.check(draw, trials[name](draw)))

        run()
        # A bound that is open says nothing: it must be the exception.
        told = [found for found in held if found is not None]
        assert len(told) < 10 or sum(told) >= 0.3 * len(told), f"{sum(told)} of {len(told)} cases were held to a value"

    return test


test_conv = agreement(conv)
test_gram = agreement(gram)
test_group = agreement(group)
test_hebbian = agreement(hebbian)
test_scattering = agreement(scattering)
