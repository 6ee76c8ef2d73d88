"""The compiled wavelet cascade: against the reference in float64, and what kernels promise."""

import numpy as np
import pytest

import fastdl
from fastdl.scattering import inverse_wavelet_transform2d, wavelet_transform2d

TOLERANCE = {"float32": 1e-6, "float64": 1e-14}


def relative(found, expected):
    return np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-300)


def by_reference(function, *arguments):
    with fastdl.backend("reference"):
        return function(*arguments)


def parts_of(result):
    approximation, details = result
    return [approximation, *details]


@pytest.mark.parametrize("wavelet", ["haar", "db2", "db5", "db10"])
@pytest.mark.parametrize(
    "shape, J",
    [
        ((8, 8), 3),
        ((1, 4, 2), 1),
        ((7, 24, 40), 2),
        ((17, 2, 66), 1),
        ((2, 0, 8, 8), 1),
        ((3, 1, 48, 16), 4),
        ((0, 4), 2),
    ],
    ids=str,
)
def test_against_the_reference(native_level, dtype, rng, wavelet, shape, J):
    x = rng.standard_normal(shape).astype(dtype)
    found = parts_of(wavelet_transform2d(x, J, wavelet))
    expected = parts_of(by_reference(wavelet_transform2d, x.astype(float), J, wavelet))
    for part, wanted in zip(found, expected, strict=True):
        assert part.dtype == dtype and part.shape == wanted.shape
        assert relative(part, wanted) < TOLERANCE[dtype.name]
    given = [rng.standard_normal(part.shape).astype(dtype) for part in found]
    back = inverse_wavelet_transform2d(given[0], given[1:], wavelet)
    wanted = by_reference(
        inverse_wavelet_transform2d, given[0].astype(float), [part.astype(float) for part in given[1:]], wavelet
    )
    assert back.dtype == dtype and back.shape == x.shape
    assert relative(back, wanted) < TOLERANCE[dtype.name]
    # The inverse is the adjoint, for any details.
    there = sum(np.vdot(a.astype(float), b) for a, b in zip(given, found, strict=True))
    sizes = np.linalg.norm(x) * np.linalg.norm(back)
    assert abs(np.vdot(back.astype(float), x) - there) <= TOLERANCE[dtype.name] * sizes * 4


def test_of_any_layout(native_level, dtype, rng):
    whole = rng.standard_normal((3, 32, 48)).astype(dtype)
    for x in (whole[:, ::2, ::-2], whole[::-1, :16, 8:16], np.moveaxis(whole, 1, 2)):
        found = wavelet_transform2d(x, 2, "db3")
        for part, wanted in zip(parts_of(found), parts_of(wavelet_transform2d(x.copy(), 2, "db3")), strict=True):
            np.testing.assert_array_equal(part, wanted)
        strided = [np.repeat(part, 2, -1)[..., ::2] for part in parts_of(found)]
        back = inverse_wavelet_transform2d(strided[0], strided[1:], "db3")
        np.testing.assert_array_equal(back, inverse_wavelet_transform2d(*found, "db3"))
        assert relative(back, x) < 10 * TOLERANCE[dtype.name]


def test_any_threads_and_any_split_give_the_same_bits(native_level, dtype, rng):
    x = rng.standard_normal((9, 96, 80)).astype(dtype)
    with fastdl.threads(1):
        expected = parts_of(wavelet_transform2d(x, 3, "db4"))
        back = inverse_wavelet_transform2d(expected[0], expected[1:], "db4")
    for threads in (2, 5):
        with fastdl.threads(threads):
            for part in (slice(0, 9), slice(2, 3), slice(4, 9)):
                for found, wanted in zip(parts_of(wavelet_transform2d(x[part], 3, "db4")), expected, strict=True):
                    np.testing.assert_array_equal(found, wanted[part])
                details = [detail[part] for detail in expected[1:]]
                np.testing.assert_array_equal(
                    inverse_wavelet_transform2d(expected[0][part], details, "db4"), back[part]
                )


def test_what_is_not_finite_stays_where_filters_reach(native_level, dtype, rng):
    x = rng.standard_normal((3, 16, 16)).astype(dtype)
    expected = parts_of(wavelet_transform2d(x, 2, "db2"))
    x[1, 5, 6] = np.nan
    found = parts_of(wavelet_transform2d(x, 2, "db2"))
    wanted = parts_of(by_reference(wavelet_transform2d, x, 2, "db2"))
    for part, other, clean in zip(found, wanted, expected, strict=True):
        np.testing.assert_array_equal(np.isnan(part), np.isnan(other))
        np.testing.assert_array_equal(part[[0, 2]], clean[[0, 2]])


def test_torch_in_and_out(native_level, rng):
    torch = pytest.importorskip("torch")
    x = rng.standard_normal((2, 8, 8))
    approximation, details = wavelet_transform2d(torch.from_numpy(x), 2)
    assert isinstance(approximation, torch.Tensor) and all(isinstance(part, torch.Tensor) for part in details)
    assert isinstance(inverse_wavelet_transform2d(approximation, details), torch.Tensor)
    np.testing.assert_array_equal(approximation.numpy(), wavelet_transform2d(x, 2)[0])
