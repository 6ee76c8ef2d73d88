"""The kernel of convolutional networks: against loops over positions, and its symmetries."""

import math

import numpy as np
import pytest

from fastdl import gram
from fastdl.reference import gram as reference


def by_loops(x, y, depth, size, pooling):
    """One entry of the kernel, position by position, as it is defined."""
    _, height, width = x.shape
    places = [(i, j) for i in range(height) for j in range(width)]
    reach = (size - 1) // 2

    def box(A):
        found = {}
        for (i, j), (k, l) in A:  # noqa: E741
            found[(i, j), (k, l)] = (
                sum(
                    A.get(((i + a, j + b), (k + a, l + b)), 0.0)
                    for a in range(-reach, reach + 1)
                    for b in range(-reach, reach + 1)
                )
                / size**2
            )
        return found

    def start(a, b):
        return box({(p, q): float(a[(slice(None), *p)] @ b[(slice(None), *q)]) for p in places for q in places})

    def step(S, Sxx, Syy):
        K, D = {}, {}
        for p, q in S:
            s = math.sqrt(max(0.0, Sxx[p, p] * Syy[q, q] - S[p, q] ** 2))
            theta = math.pi / 2 if s == 0 and S[p, q] == 0 else math.atan2(s, S[p, q])
            K[p, q] = (s + (math.pi - theta) * S[p, q]) / math.pi
            D[p, q] = (math.pi - theta) / math.pi
        return K, D

    S, Sxx, Syy = start(x, y), start(x, x), start(y, y)
    T = dict(S)
    for layer in range(depth):
        K, D = step(S, Sxx, Syy)
        Kxx, Kyy = step(Sxx, Sxx, Sxx)[0], step(Syy, Syy, Syy)[0]
        T = {key: D[key] * T[key] + K[key] for key in T}
        S, Sxx, Syy = K, Kxx, Kyy
        if layer + 1 < depth:
            T, S, Sxx, Syy = box(T), box(S), box(Sxx), box(Syy)
    if pooling == "mean":
        return sum(T.values()) / len(T)
    return sum(T[p, p] for p in places) / len(places)


def allowed(K, dtype, depth, terms):
    """An angle near 0 is only as exact as the root of the rounding in a sum; it enters every layer."""
    return 2 * depth * math.sqrt(4 * (terms + 16) * np.finfo(dtype).eps) * np.abs(K).max()


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
@pytest.mark.parametrize(
    "depth, size, shape", [(1, 1, (2, 2, 3)), (2, 3, (3, 3, 4)), (3, 3, (1, 4, 3)), (2, 5, (2, 3, 2))]
)
def test_like_loops_over_positions(level, dtype, rng, depth, size, shape, pooling):
    X, Y = (rng.standard_normal((n, *shape)).astype(dtype) for n in (3, 2))
    options = {"depth": depth, "kernel_size": size, "pooling": pooling}
    K = gram.cntk(X, Y, **options)
    assert K.dtype == dtype and K.shape == (3, 2)
    expected = np.array([[by_loops(x.astype(float), y.astype(float), depth, size, pooling) for y in Y] for x in X])
    # Samples that differ have no small angles but by chance: far fewer digits are lost than the bound allows.
    assert np.all(np.abs(K - expected) <= allowed(expected, dtype, depth, shape[0] * size**2))
    if level == "reference":
        np.testing.assert_allclose(K, expected, rtol=4 * np.finfo(dtype).eps + 1e-12)
    alone = gram.cntk(X, **options)
    assert alone.tobytes() == np.ascontiguousarray(alone.T).tobytes()
    expected = np.array([[by_loops(x.astype(float), y.astype(float), depth, size, pooling) for y in X] for x in X])
    assert np.all(np.abs(alone - expected) <= allowed(expected, dtype, depth, shape[0] * size**2))


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_images_of_one_pixel(level, dtype, rng, depth, pooling):
    X, Y = rng.standard_normal((9, 6)).astype(dtype), rng.standard_normal((5, 6)).astype(dtype)
    expected = gram.ntk(X, Y, depth, math.sqrt(2), 0.0, False) / 2
    K = gram.cntk(X[:, :, None, None], Y[:, :, None, None], depth=depth, kernel_size=1, pooling=pooling)
    assert np.all(np.abs(K - expected) <= allowed(expected, dtype, depth, 6))


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
def test_symmetries(level, dtype, rng, pooling):
    X, Y = (rng.standard_normal((n, 2, 4, 5)).astype(dtype) for n in (4, 3))
    options = {"depth": 2, "pooling": pooling}
    K = gram.cntk(X, Y, **options)
    limit = allowed(K, dtype, 2, 18)
    assert np.all(np.abs(K - gram.cntk(Y, X, **options).T) <= limit)
    for flip in (np.s_[:, :, :, ::-1], np.s_[:, :, ::-1], np.s_[:, ::-1]):
        assert np.all(np.abs(K - gram.cntk(X[flip], Y[flip], **options)) <= limit)
    transposed = gram.cntk(X.transpose(0, 1, 3, 2), Y.transpose(0, 1, 3, 2), **options)
    assert np.all(np.abs(K - transposed) <= limit)
    # A network without biases is homogeneous of degree 1.
    assert np.all(np.abs(2 * K - gram.cntk(2 * X, Y, **options)) <= 2 * limit)
    both = gram.cntk(np.concatenate([X, Y]), **options).astype(float)
    assert np.linalg.eigvalsh(both).min() >= -8 * allowed(both, dtype, 2, 18)


def test_edges(level, dtype):
    assert gram.cntk(np.ones((0, 2, 3, 3), dtype), np.ones((4, 2, 3, 3), dtype)).shape == (0, 4)
    assert gram.cntk(np.ones((4, 2, 3, 3), dtype), np.ones((0, 2, 3, 3), dtype)).shape == (4, 0)
    np.testing.assert_array_equal(gram.cntk(np.zeros((2, 1, 3, 3), dtype)), 0)
    X = np.ones((3, 1, 3, 3), dtype)
    X[1] *= 2
    clean = gram.cntk(X)
    X[2, 0, 1, 1] = np.nan
    K = gram.cntk(X)
    np.testing.assert_array_equal(np.isnan(K), (np.arange(3) == 2)[:, None] | (np.arange(3) == 2)[None, :])
    np.testing.assert_array_equal(K[:2, :2], clean[:2, :2])


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_libraries(library, level, rng):
    xp = pytest.importorskip(library)
    X, Y = (rng.standard_normal((n, 2, 3, 4)) for n in (3, 2))
    K = gram.cntk(xp.asarray(X), xp.asarray(Y), depth=2)
    assert type(K) is type(xp.asarray(X))
    np.testing.assert_allclose(np.from_dlpack(K), gram.cntk(X, Y, depth=2), rtol=1e-7)
    K = reference.cntk(xp.asarray(X), None, 2, 3, "flatten")
    np.testing.assert_allclose(np.from_dlpack(K), gram.cntk(X, depth=2, pooling="flatten"), rtol=1e-6)


def test_errors(level):
    X = np.ones((2, 3, 4, 5))
    for arguments, options, error, message in [
        ((X[0],), {}, ValueError, r"expected X of shape \(n, C, H, W\), got \(3, 4, 5\)"),
        ((X[:, :, :0],), {}, ValueError, r"expected X of shape \(n, C, H, W\)"),
        ((X, X[:, :2]), {}, ValueError, r"expected Y of shape \(m, 3, 4, 5\), got \(2, 2, 4, 5\)"),
        ((X,), {"depth": 0}, ValueError, "expected depth to be a whole number from 1 to 1000000, got 0"),
        ((X,), {"kernel_size": 2}, ValueError, "expected kernel_size to be an odd whole number up to 1000001, got 2"),
        ((X,), {"kernel_size": 3.0}, TypeError, "expected kernel_size"),
        ((X,), {"pooling": "max"}, ValueError, "expected pooling to be 'mean' or 'flatten', got 'max'"),
        ((X,), {"pooling": None}, TypeError, "expected pooling"),
    ]:
        with pytest.raises(error, match=rf"^\[gram\.cntk\] {message}"):
            gram.cntk(*arguments, **options)
