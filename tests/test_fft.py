"""The FFT engine by itself, through the private `_core.fft`, against NumPy's transforms in float64.

Errors are relative to the root mean square of the result. A transform rounds each number a few times for every binary
digit of n, so that they grow with the root of that; Bluestein's algorithm goes through two transforms of more than
twice the length.
"""

import time
from pathlib import Path

import numpy as np
import pytest

import fastdl
from fastdl import _dispatch

SIZES = (*range(1, 71), 96, 97, 127, 128, 144, 243, 251, 256, 509, 512, 576, 1000, 1024, 2048, 4093, 4096)
BATCHES = (0, 1, 7, 16, 17, 33)
IMAGES = ((1, 1), (1, 9), (5, 1), (3, 4), (8, 8), (12, 17), (48, 48), (31, 96), (37, 288), (300, 20))
VOLUMES = ((1, 1, 1), (2, 3, 4), (5, 16, 7), (16, 8, 64), (32, 30, 29))

pytestmark = pytest.mark.usefixtures("native")


def complex_of(dtype):
    return np.dtype("complex64" if dtype == np.float32 else "complex128")


def normal(rng, shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def transform(x, inverse=False):
    out = np.full(x.shape, np.nan, x.dtype)
    _dispatch.core.fft.complex(x, x.ndim - 1, inverse, out)
    return out


def real_transform(x):
    out = np.full((*x.shape[:-1], x.shape[-1] // 2 + 1), np.nan, complex_of(x.dtype))
    _dispatch.core.fft.real(x, x.ndim - 1, out)
    return out


def check(got, expected, dtype):
    assert got.dtype == complex_of(dtype) and got.shape == expected.shape
    if expected.size == 0:
        return
    size = np.sqrt(np.mean(np.abs(expected) ** 2))
    error = np.sqrt(np.mean(np.abs(got - expected) ** 2))
    # NumPy's own is in float64 too.
    share = 2.0 * np.finfo(dtype).eps * np.sqrt(np.log2(np.prod(expected.shape[1:])) + 2)
    assert error <= share * size, f"{error / size:.3g} of {share:.3g}"


@pytest.mark.parametrize("n", [1021, 4099, 7207, 2 * 7207, 32003, 37 * 41 * 2, 3 * 4093])
def test_large_primes(native_level, dtype, rng, n):
    """Also those whose prime neighbours below them have large factors, which tables could take a minute for."""
    x = normal(rng, (3, n), complex_of(dtype))
    begin = time.monotonic()
    found = transform(x)
    assert time.monotonic() - begin < 5
    check(found, np.fft.fft(x.astype(np.complex128)), dtype)
    np.testing.assert_array_equal(transform(x[1:2]), found[1:2])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel tells no sizes")
def test_plans_of_many_lengths_do_not_pile_up(dtype):
    def resident():
        return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024

    x = np.ones((1, 6000), complex_of(dtype))
    before = resident()
    for n in range(3000, 5000):
        transform(x[:, :n].copy())
    assert resident() - before < 32  # MB; without the limit 147 and 263


@pytest.mark.parametrize("n", SIZES)
def test_every_size_and_batch(native_level, dtype, rng, n):
    for batch in BATCHES:
        x = normal(rng, (batch, n), complex_of(dtype))
        kept = x.copy()
        wide = x.astype(np.complex128)
        check(transform(x), np.fft.fft(wide), dtype)
        check(transform(x, inverse=True), np.fft.ifft(wide), dtype)
        assert np.array_equal(x, kept)
        real = normal(rng, (batch, n), dtype)
        check(real_transform(real), np.fft.rfft(real.astype(np.float64)), dtype)


@pytest.mark.parametrize("shape", IMAGES + VOLUMES)
def test_several_axes(native_level, dtype, rng, shape):
    axes = tuple(range(1, len(shape) + 1))
    for batch in (0, 1, 3, 17):
        x = normal(rng, (batch, *shape), complex_of(dtype))
        wide = x.astype(np.complex128)
        check(transform(x), np.fft.fftn(wide, axes=axes), dtype)
        check(transform(x, inverse=True), np.fft.ifftn(wide, axes=axes), dtype)
        real = normal(rng, (batch, *shape), dtype)
        check(real_transform(real), np.fft.rfftn(real.astype(np.float64), axes=axes), dtype)


@pytest.mark.parametrize("n", [1 << 15, 3 << 16, 100003])
def test_one_long_row(native_level, dtype, rng, n):
    x = normal(rng, (1, n), complex_of(dtype))
    check(transform(x), np.fft.fft(x.astype(np.complex128)), dtype)
    check(transform(x, inverse=True), np.fft.ifft(x.astype(np.complex128)), dtype)
    real = normal(rng, (1, 2 * n), dtype)
    check(real_transform(real), np.fft.rfft(real.astype(np.float64)), dtype)


@pytest.mark.parametrize("n", SIZES)
def test_energy_is_kept(native_level, dtype, rng, n):
    x = normal(rng, (5, n), complex_of(dtype)).astype(np.complex128)
    spectrum = transform(x.astype(complex_of(dtype))).astype(np.complex128)
    energy, other = (np.sum(np.abs(a) ** 2, axis=1) for a in (x, spectrum / np.sqrt(n)))
    assert np.all(np.abs(energy - other) <= 8 * np.finfo(dtype).eps * np.sqrt(np.log2(n) + 2) * energy)


@pytest.mark.parametrize("shape", [(6,), (97,), (128,), (251,), (1000,), (4096,), (1 << 15,), (48, 48), (64, 64, 64)])
def test_threads_and_neighbours_change_nothing(native_level, dtype, rng, keep_threads, shape):
    batch = max(3, 30000 // int(np.prod(shape)))
    x = normal(rng, (batch, *shape), complex_of(dtype))
    real = normal(rng, (batch, *shape), dtype)
    fastdl.set_num_threads(1)
    one = transform(x), real_transform(real)
    fastdl.set_num_threads(2)
    two = transform(x), real_transform(real)
    # A row by itself is what it is among others.
    alone = transform(x[2:3]), real_transform(real[2:3])
    for a, b, c in zip(one, two, alone, strict=True):
        assert a.tobytes() == b.tobytes()
        assert a[2:3].tobytes() == c.tobytes()


@pytest.mark.parametrize("shape", [(20,), (1024,), (31, 48), (4, 6, 10)])
def test_in_place(native_level, dtype, rng, shape):
    x = normal(rng, (19, *shape), complex_of(dtype))
    expected = transform(x)
    _dispatch.core.fft.complex(x, len(shape), False, x)
    assert x.tobytes() == expected.tobytes()


def test_what_is_not_finite_stays_in_its_row(native_level, dtype, rng):
    for n in (12, 251, 512):
        x = normal(rng, (20, n), complex_of(dtype))
        expected = transform(x)
        x[3, 5] = np.nan
        got = transform(x)
        assert np.isnan(got[3]).any()
        assert np.array_equal(np.delete(got, 3, 0), np.delete(expected, 3, 0))


def test_errors(dtype):
    kind = complex_of(dtype)
    fft = _dispatch.core.fft
    x, out = np.zeros((3, 8), kind), np.zeros((3, 8), kind)
    for wrong in (dtype, "complex64" if kind == np.complex128 else "complex128", "int64"):
        with pytest.raises(TypeError, match="out: expected complex"):
            fft.complex(x, 1, False, np.zeros((3, 8), wrong))
    with pytest.raises(TypeError, match="x: expected complex"):
        fft.complex(np.zeros((3, 8), "int64"), 1, False, out)
    with pytest.raises(TypeError, match="x: expected float"):
        fft.real(np.zeros((3, 8), "int16"), 1, out)
    for shape in ((3, 7), (2, 8), (24,), (3, 8, 1)):
        with pytest.raises(ValueError, match="out: expected the shape"):
            fft.complex(x, 1, False, np.zeros(shape, kind))
        with pytest.raises(ValueError, match="out: expected the shape"):
            fft.real(np.zeros((3, 14), dtype), 1, np.zeros(shape if shape != (3, 8, 1) else (3, 14), kind))
    for rank in (0, 2, 4):
        with pytest.raises(ValueError, match="x: expected a batch"):
            fft.complex(x, rank, False, out)
    with pytest.raises(ValueError, match="contiguous"):
        fft.complex(np.zeros((8, 3), kind).T, 1, False, out)
    with pytest.raises(ValueError, match="contiguous"):
        fft.complex(x, 1, False, np.zeros((8, 3), kind).T)
    with pytest.raises(ValueError, match=r"\[fft.transform\] expected extents of at least 1, got 0"):
        fft.complex(np.zeros((3, 0), kind), 1, False, np.zeros((3, 0), kind))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        fft.complex(x, 1, False, out)
