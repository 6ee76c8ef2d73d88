"""Compiled scattering on rotations and translations: against the reference in float64, and what kernels promise."""

import numpy as np
import pytest

import fastdl
from fastdl.scattering import RotoTranslationScattering2D

# Results are sums of moduli: errors of float32 are some roundings, those of filters cut off at 1e-7 and 1e-14 as much.
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
METHODS = (("scattering", "vjp"), ("moments", "moments_vjp"))

TRANSFORMS = (
    RotoTranslationScattering2D(1, (5, 4), L=2, K=2),
    RotoTranslationScattering2D(2, (9, 7), L=3),
    RotoTranslationScattering2D(2, (16, 12), L=8, max_order=1),
    RotoTranslationScattering2D(3, (17, 24), L=8),
    RotoTranslationScattering2D(2, (8, 9), L=17, K=1),  # more angles than lanes
)


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def by_reference(function, *arrays):
    with fastdl.backend("reference"):
        return function(*(array.astype(np.float64) for array in arrays))


def checked(S, x, rng):
    """Compare transform, moments and their gradients; give what was found."""
    results = []
    for forward, backward in METHODS:
        found = getattr(S, forward)(x)
        expected = by_reference(getattr(S, forward), x)
        grad = rng.standard_normal(expected.shape).astype(x.dtype)
        slope = getattr(S, backward)(x, grad)
        assert found.dtype == slope.dtype == x.dtype
        assert found.shape == expected.shape and slope.shape == x.shape
        if x.size:
            assert relative(found, expected) < TOLERANCE[x.dtype.name]
            assert relative(slope, by_reference(getattr(S, backward), x, grad)) < TOLERANCE[x.dtype.name]
        results += [found, slope]
    return results


@pytest.mark.parametrize("S", TRANSFORMS, ids=repr)
@pytest.mark.parametrize("batch", [(), (1,), (7,), (17,), (2, 0, 3), (3, 1, 2)], ids=str)
def test_against_the_reference(native_level, dtype, rng, S, batch):
    checked(S, rng.standard_normal((*batch, *S.shape)).astype(dtype), rng)


def test_of_any_layout(native_level, dtype, rng):
    S = TRANSFORMS[1]
    whole = rng.standard_normal((4, 18, 14)).astype(dtype)
    turned = np.ascontiguousarray(np.moveaxis(whole[:, ::2, ::2], 0, -1))
    for x in (whole[:, ::2, ::-2], np.moveaxis(turned, -1, 0), whole[::-1, :9, 7:]):
        assert not x.flags.c_contiguous
        grad = rng.standard_normal((*S(x).shape, 2)).astype(dtype)[..., 0]
        np.testing.assert_array_equal(S(x), S(x.copy()))
        np.testing.assert_array_equal(S.vjp(x, grad), S.vjp(x.copy(), grad.copy()))


@pytest.mark.parametrize("S", TRANSFORMS[1:], ids=repr)
def test_gradients_are_slopes(native_level, rng, S):
    x, along = rng.standard_normal((2, 3, *S.shape))
    for forward, backward in METHODS:
        f, step = getattr(S, forward), 1e-5
        grad = rng.standard_normal(f(x).shape)
        slope = np.sum(grad * (f(x + step * along) - f(x - step * along))) / (2 * step)
        found = getattr(S, backward)(x, grad)
        # Errors of the difference: step² times third derivatives, and eps / step times the value.
        assert abs(np.sum(found * along) - slope) < 1e-6 * np.linalg.norm(found) * np.linalg.norm(along)


@pytest.mark.parametrize("S", TRANSFORMS, ids=repr)
def test_of_degree_one(native_level, dtype, rng, S):
    """S(c x) = c S(x) for c > 0, so that by Euler <S'(x)* g, x> = <g, S(x)>."""
    x = rng.standard_normal((2, *S.shape)).astype(dtype)
    for forward, backward in METHODS:
        result = getattr(S, forward)(x)
        grad = rng.standard_normal(result.shape).astype(dtype)
        slope = getattr(S, backward)(x, grad)
        difference = np.vdot(slope.astype(float), x) - np.vdot(grad.astype(float), result)
        assert abs(difference) < TOLERANCE[dtype.name] * np.linalg.norm(grad) * np.linalg.norm(result)


def test_quarter_turns(native_level, dtype, rng):
    eps = 1e-6 if dtype == np.float32 else 1e-13
    for L, size in ((8, 32), (6, 20)):
        S = RotoTranslationScattering2D(2, (size, size), L=L)
        x = rng.standard_normal((3, size, size)).astype(dtype)
        for turns in (1, 2, 3):
            turned = np.rot90(x, turns, axes=(-2, -1))
            assert relative(S.moments(turned), S.moments(x)) < eps
            assert relative(S(turned), np.rot90(S(x), turns, axes=(-2, -1))) < eps


def test_any_threads_and_any_split_give_the_same_bits(native_level, dtype, rng):
    for S in TRANSFORMS[2:]:
        x = rng.standard_normal((21, *S.shape)).astype(dtype)
        grad = rng.standard_normal(S(x).shape).astype(dtype)
        with fastdl.threads(1):
            expected, slope = S(x), S.vjp(x, grad)
        for threads in (2, 3):
            with fastdl.threads(threads):
                np.testing.assert_array_equal(S(x), expected)
                np.testing.assert_array_equal(S.vjp(x, grad), slope)
                for part in (slice(0, 1), slice(3, 8), slice(20, 21)):  # of few images threads share each
                    np.testing.assert_array_equal(S(x[part]), expected[part])
                    np.testing.assert_array_equal(S.vjp(x[part], grad[part]), slope[part])


@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_image(native_level, dtype, rng, strange):
    for S in TRANSFORMS[1:]:
        x = rng.standard_normal((9, *S.shape)).astype(dtype)
        grad = rng.standard_normal(S(x).shape).astype(dtype)
        expected, slope = S(x), S.vjp(x, grad)
        x[4, 2, 3] = strange
        found, found_slope = S(x), S.vjp(x, grad)
        others = np.arange(9) != 4
        np.testing.assert_array_equal(found[others], expected[others])
        np.testing.assert_array_equal(found_slope[others], slope[others])
        assert not np.isfinite(found[4]).any()


@pytest.mark.parametrize("scale", [1e-35, 1e-20, 1e20, 1e35])
def test_images_whose_squares_are_beyond_the_type(native_level, rng, scale):
    S = TRANSFORMS[1]
    x = rng.standard_normal((3, *S.shape)).astype(np.float32)
    large = x.copy()
    large[1] *= np.float32(scale)
    grad = rng.standard_normal(S(x).shape).astype(np.float32)
    np.testing.assert_array_equal(S(large)[[0, 2]], S(x)[[0, 2]])
    assert relative(S(large)[1].astype(float) / scale, S(x)[1].astype(float)) < 1e-5
    assert relative(S.vjp(large, grad), S.vjp(x, grad)) < 1e-4


def test_gradients_at_zero_are_zero_but_for_the_average(native_level, dtype, rng):
    S = TRANSFORMS[3]
    grad = rng.standard_normal(S(np.zeros(S.shape, dtype)).shape).astype(dtype)
    found = S.vjp(np.zeros(S.shape, dtype), grad)
    grad[1:] = 0
    np.testing.assert_array_equal(found, S.vjp(np.zeros(S.shape, dtype), grad))
    assert np.isfinite(found).all() and found.any()


def test_errors_of_plans(native):
    make = native.scattering.RotoPlanF32
    axis = (np.ones(4), 0, 1, 1)
    places, phases = np.arange(4), np.ones(4)
    with pytest.raises(ValueError, match="a place and a phase"):
        make(4, 4, places, places, 2, [(axis, axis)], phases[:3], phases, np.ones((1, 2, 4, 4)), [], np.ones((1, 4)))
    with pytest.raises(ValueError, match="all angles of a turn"):
        make(4, 4, places, places, 2, [(axis, axis)], phases, phases, np.ones((1, 2, 4, 4)), [], np.ones((1, 2)))
    plan = make(4, 4, places, places, 2, [(axis, axis)], phases, phases, np.ones((1, 2, 4, 4)), [], np.ones((1, 4)))
    with pytest.raises(ValueError, match="out: expected 2 times 2 contiguous"):
        plan.forward(np.ones((2, 4, 4), np.float32), np.ones(5, np.float32))
