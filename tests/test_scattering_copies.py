"""Transforms that travel: copies and pickles carry the parameters, and make filters where they arrive."""

import pickle
from copy import copy

import numpy as np
import pytest

from fastdl.scattering import HarmonicScattering3D, RotoTranslationScattering2D, Scattering1D, Scattering2D

TRANSFORMS = (
    lambda: Scattering1D(J=3, shape=64, Q=(2, 1), T=4, max_order=1),
    lambda: Scattering2D(J=2, shape=(13, 16), L=3, pre_pad=False, max_order=2),
    lambda: RotoTranslationScattering2D(J=2, shape=(16, 12), L=4),
    lambda: HarmonicScattering3D(J=1, shape=(4, 5, 6), L=1),
)


@pytest.mark.parametrize("make", TRANSFORMS)
@pytest.mark.parametrize("travel", [copy, lambda transform: pickle.loads(pickle.dumps(transform))])
def test_copies_are_the_same(level, dtype, rng, make, travel):
    transform = make()
    other = travel(transform)
    x = rng.standard_normal((3, *transform.shape)).astype(dtype)
    np.testing.assert_array_equal(other(x), transform(x))
    np.testing.assert_array_equal(other.moments(x), transform.moments(x))
    assert other.meta().keys() == transform.meta().keys() and repr(other) == repr(transform)


@pytest.mark.parametrize("make", TRANSFORMS)
def test_pickles_have_no_filters(make):
    assert len(pickle.dumps(make())) < 1000


def test_what_was_changed_since_it_was_made():
    transform = Scattering2D(J=2, shape=(8, 8), L=2)
    transform.max_order = 1
    other = pickle.loads(pickle.dumps(transform))
    assert other(np.ones((8, 8))).shape == transform(np.ones((8, 8))).shape == (5, 2, 2)
    other.max_order = 2
    assert other.output_size() == 9 and transform.output_size() == 5
