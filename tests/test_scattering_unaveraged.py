"""Compiled scattering without averages: against the reference in float64, and what kernels promise."""

import numpy as np
import pytest

import fastdl
from fastdl.scattering import Scattering1D

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}

TRANSFORMS = (
    Scattering1D(3, 40, T=0, out_type="list"),
    Scattering1D(4, 101, Q=(3, 2), T=0, out_type="list", oversampling=1),
    Scattering1D(5, 300, Q=8, T=0, out_type="list", max_order=1),
    Scattering1D(6, 5000, Q=2, T=0, out_type="list"),  # long: averages of such go one at a time
)


def coefficients(paths):
    return [path["coef"] for path in paths]


def norm(parts):
    return np.sqrt(sum(np.linalg.norm(part.astype(np.float64)) ** 2 for part in parts))


def relative(found, expected):
    return norm([a - b for a, b in zip(found, expected, strict=True)]) / norm(expected)


@pytest.mark.parametrize("S", TRANSFORMS, ids=repr)
@pytest.mark.parametrize("batch", [(), (1,), (7,), (17,), (2, 0), (2, 1, 3)], ids=str)
def test_against_the_reference(native_level, dtype, rng, S, batch):
    x = rng.standard_normal((*batch, *np.atleast_1d(S.shape))).astype(dtype)
    found = coefficients(S(x))
    with fastdl.backend("reference"):
        expected = coefficients(S(x.astype(float)))
    assert [part.shape for part in found] == [part.shape for part in expected]
    assert all(part.dtype == dtype for part in found)
    grads = [rng.standard_normal(part.shape).astype(dtype) for part in found]
    slope = S.vjp(x, grads)
    with fastdl.backend("reference"):
        wanted = S.vjp(x.astype(float), [grad.astype(float) for grad in grads])
    assert slope.shape == x.shape and slope.dtype == dtype
    if x.size:
        assert relative(found, expected) < TOLERANCE[dtype.name]
        assert relative([slope], [wanted]) < TOLERANCE[dtype.name]
        # Of degree one in x: by Euler <S'(x)* g, x> = <g, S(x)>.
        there = sum(np.vdot(g.astype(float), part) for g, part in zip(grads, found, strict=True))
        assert abs(np.vdot(slope.astype(float), x) - there) < TOLERANCE[dtype.name] * norm(grads) * norm(found)


@pytest.mark.parametrize("S", TRANSFORMS[:3], ids=repr)
def test_gradients_are_slopes(native_level, rng, S):
    x, along = rng.standard_normal((2, 3, *np.atleast_1d(S.shape)))
    grads = [rng.standard_normal(part.shape) for part in coefficients(S(x))]
    up, down = (coefficients(S(x + step * along)) for step in (1e-6, -1e-6))
    slope = sum(np.vdot(g, a - b) for g, a, b in zip(grads, up, down, strict=True)) / 2e-6
    found = S.vjp(x, grads)
    # Of moduli next to 0 slopes change within the step: the difference of them all is less exact than of averages.
    assert abs(np.vdot(found, along) - slope) < 1e-5 * np.linalg.norm(found) * np.linalg.norm(along)


def test_any_threads_and_any_split_give_the_same_bits(native_level, dtype, rng):
    S = TRANSFORMS[1]
    x = rng.standard_normal((21, 101)).astype(dtype)
    with fastdl.threads(1):
        expected = coefficients(S(x))
        grads = [part[..., ::-1] for part in expected]
        slope = S.vjp(x, grads)
    for threads in (2, 3):
        with fastdl.threads(threads):
            for part in (slice(0, 21), slice(4, 5), slice(3, 20)):
                for found, wanted in zip(coefficients(S(x[part])), expected, strict=True):
                    np.testing.assert_array_equal(found, wanted[part])
                np.testing.assert_array_equal(S.vjp(x[part], [grad[part] for grad in grads]), slope[part])


def test_what_is_not_finite_stays_in_its_signal(native_level, dtype, rng):
    S = TRANSFORMS[1]
    x = rng.standard_normal((5, 101)).astype(dtype)
    expected = coefficients(S(x))
    x[2, 50] = np.nan
    for found, wanted in zip(coefficients(S(x)), expected, strict=True):
        np.testing.assert_array_equal(found[[0, 1, 3, 4]], wanted[[0, 1, 3, 4]])
    assert np.isnan(coefficients(S(x))[1][2]).all()


@pytest.mark.parametrize("scale", [1e-35, 1e35])
def test_signals_whose_squares_are_beyond_the_type(native_level, rng, scale):
    S = TRANSFORMS[0]
    x = rng.standard_normal((3, 40)).astype(np.float32)
    expected = [part.astype(float) * scale for part in coefficients(S(x))]
    found = [part.astype(float) for part in coefficients(S(x * np.float32(scale)))]
    assert relative([part / scale for part in found], [part / scale for part in expected]) < 1e-5


def test_forms_and_layouts(native_level, dtype, rng):
    S = Scattering1D(3, 40, T=0, out_type="dict")
    whole = rng.standard_normal((6, 80)).astype(dtype)
    x = whole[::2, ::-2]
    found = S(x)
    expected = coefficients(TRANSFORMS[0](x.copy()))
    for part, wanted in zip(found.values(), expected, strict=True):
        np.testing.assert_array_equal(part, wanted)
    grads = {path: np.repeat(part, 2, -1)[..., ::2] for path, part in found.items()}
    np.testing.assert_array_equal(S.vjp(x, grads), S.vjp(x.copy(), found))
    torch = pytest.importorskip("torch")
    parts = S(torch.from_numpy(x.copy()))
    assert all(isinstance(part, torch.Tensor) for part in parts.values())
    slope = S.vjp(torch.from_numpy(x.copy()), parts)
    assert isinstance(slope, torch.Tensor)
    np.testing.assert_array_equal(slope.numpy(), S.vjp(x, found))


def test_gradients_that_do_not_fit(level, rng):
    S = Scattering1D(3, 40, T=0, out_type="dict")
    x = rng.standard_normal((2, 40)).astype(np.float32)
    grads = S(x)
    paths = list(grads)
    for wrong in (np.complex64, np.float16, "U3"):
        with pytest.raises(TypeError, match=r"\[scattering.scattering1d_vjp\] expected grad\[1\]"):
            S.vjp(x, {**grads, paths[1]: grads[paths[1]].astype(wrong)})
    with pytest.raises(ValueError, match=r"expected grad with all paths, got none for \(2,\)"):
        S.vjp(x, {path: grad for path, grad in grads.items() if path != (2,)})
    with pytest.raises(ValueError, match=r"expected grad of path \(1,\) of shape"):
        S.vjp(x, {**grads, (1,): grads[1,][..., 1:]})
    wide = S.vjp(x, {path: grad.astype(float) for path, grad in grads.items()})
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, S.vjp(x.astype(float), grads), rtol=1e-12, atol=1e-12)
