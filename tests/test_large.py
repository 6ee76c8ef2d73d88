"""Arrays of more than 2^31 elements: minutes and gigabytes, so only on request (``make test-large``)."""

import numpy as np
import pytest

from fastdl import conv, gram, hebbian

pytestmark = [pytest.mark.large, pytest.mark.alone]

BEYOND = 2**31 + 1000  # elements; the last of them are beyond 32-bit positions


def test_a_gram_matrix_larger_than_memory(native, tmp_path):
    """50 000 x 50 000 float32, 10 GB, into a file."""
    n = 50_000
    X = np.random.default_rng(1).standard_normal((n, 20), dtype=np.float32)
    out = np.lib.format.open_memmap(tmp_path / "gram.npy", "w+", np.float32, (n, n))
    assert gram.rbf(X, out=out, gamma=0.02) is out
    rows = [0, 1, 31_337, n - 1]
    distances = ((X[rows, None, :].astype(np.float64) - X[None].astype(np.float64)) ** 2).sum(axis=2)
    np.testing.assert_allclose(out[rows], np.exp(-0.02 * distances), rtol=2e-5)
    np.testing.assert_array_equal(out[:, rows], out[rows].T)
    np.testing.assert_array_equal(out[n - 1, ::-1][:5], gram.rbf(X[-1:], X[::-1][:5], gamma=0.02)[0])


def test_a_convolution_of_a_long_signal(native):
    """Positions beyond 2^31 in the input, and 3.7e9 multiply-adds."""
    x = np.zeros((1, 1, BEYOND), np.float32)  # pages of zeros take no memory until they are written
    rng = np.random.default_rng(2)
    x[0, 0, :5000] = rng.standard_normal(5000)
    x[0, 0, -5000:] = rng.standard_normal(5000)
    w = rng.standard_normal((1, 1, 7), dtype=np.float32)
    found = conv.conv1d(x, w, stride=4)[0, 0]
    assert found.size * 7 > 3e9
    for part in (slice(0, 5000), slice(BEYOND // 4 * 4 - 4996, BEYOND)):
        expected = np.correlate(x[0, 0, part].astype(np.float64), w[0, 0].astype(np.float64), "valid")[::4]
        first = part.start // 4
        np.testing.assert_allclose(found[first : first + len(expected)], expected, rtol=1e-4, atol=1e-5)
    assert not found[2000 : len(found) - 2000].any()


def test_pooling_of_many_planes(native):
    x = np.zeros((3, 1, 2**15, 22_000), np.float32)
    assert x.size > BEYOND
    x[2, 0, -1, -1] = 5
    found, places = conv.max_pool2d(x, 100, 100, 0, return_indices=True)
    assert found.sum() == 0
    found, places = conv.max_pool2d(x[:, :, -(2**15) + 68 :, -21_900:], 100, 100, 0, return_indices=True)
    assert found[2, 0, -1, -1] == 5 and found.sum() == 5
    assert places[2, 0, -1, -1] == 32_700 * 21_900 - 1


def test_a_product_with_a_long_operand(native):
    """Rows that begin beyond 2^31, of a view."""
    n = BEYOND // 64 + 1
    X = np.zeros((n, 64), np.float32)
    X[-3:] = np.random.default_rng(4).standard_normal((3, 64))
    Y = np.random.default_rng(5).standard_normal((2, 64), dtype=np.float32)
    found = gram.linear(X, Y)
    np.testing.assert_allclose(found[-3:], X[-3:].astype(np.float64) @ Y.T.astype(np.float64), rtol=1e-4, atol=1e-5)
    assert not found[:-3].any()


def test_learning_from_many_samples(native):
    """The last samples are beyond 2^31 elements and the only ones that are not zero."""
    n = BEYOND // 100 + 1
    X = np.zeros((n, 100), np.float32)
    X[-50:] = np.random.default_rng(6).standard_normal((50, 100))
    W = np.random.default_rng(7).standard_normal((3, 100), dtype=np.float32) * np.float32(0.1)
    np.testing.assert_array_equal(hebbian.oja(W, X, 0.01), hebbian.oja(W, X[-64:], 0.01))
