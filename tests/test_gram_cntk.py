"""The kernel of convolutional networks: against loops over positions, and its symmetries."""

import math

import numpy as np
import pytest

import fastdl
from cases import gram_formulas as formulas
from fastdl import conv, gram
from fastdl.reference import gram as reference


def by_loops(x, y, depth, size, pooling):
    """One entry of the kernel, position by position, as it is defined."""
    _, height, width = x.shape
    places = [(i, j) for i in range(height) for j in range(width)]
    reach = range(-((size - 1) // 2), size // 2 + 1)

    def box(A):
        found = {}
        for (i, j), (k, l) in A:  # noqa: E741
            found[(i, j), (k, l)] = (
                sum(A.get(((i + a, j + b), (k + a, l + b)), 0.0) for a in reach for b in reach) / size**2
            )
        return found

    def start(a, b):
        return {(p, q): float(a[(slice(None), *p)] @ b[(slice(None), *q)]) for p in places for q in places}

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
    for _ in range(depth):
        T, S, Sxx, Syy = box(T), box(S), box(Sxx), box(Syy)
        K, D = step(S, Sxx, Syy)
        Kxx, Kyy = step(Sxx, Sxx, Sxx)[0], step(Syy, Syy, Syy)[0]
        T = {key: D[key] * T[key] + K[key] for key in T}
        S, Sxx, Syy = K, Kxx, Kyy
    if pooling == "mean":
        return sum(T.values()) / len(T)
    return sum(T[p, p] for p in places) / len(places)


def allowed(K, dtype, depth, terms):
    """An angle near 0 is only as exact as the root of the rounding in a sum; it enters every layer."""
    return 2 * max(1, depth) * math.sqrt(4 * (terms + 16) * np.finfo(dtype).eps) * np.abs(K).max()


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
@pytest.mark.parametrize(
    "depth, size, shape",
    [
        (1, 1, (2, 2, 3)),
        (2, 3, (3, 3, 4)),
        (3, 3, (1, 4, 3)),
        (2, 5, (2, 3, 2)),
        (0, 3, (2, 2, 3)),
        (2, 2, (2, 3, 3)),
        (2, 4, (2, 1, 5)),
    ],
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
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_reference_like_loops_for_every_size_and_depth(rng, depth, size, pooling):
    X, Y = (rng.standard_normal((n, 2, 3, 5)) for n in (1, 1))
    expected = [[by_loops(X[0], Y[0], depth, size, pooling)]]
    np.testing.assert_allclose(reference.cntk(X, Y, depth, size, pooling), expected, rtol=1e-12, atol=1e-14)
    # An image and itself: the angle of a position with itself is as exact as the root of the rounding in a sum.
    alone = by_loops(X[0], X[0], depth, size, pooling)
    assert abs(reference.cntk(X, None, depth, size, pooling)[0, 0] - alone) <= allowed(
        alone, X.dtype, depth, 2 * size**2
    )


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 999_999, 1_000_000])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_native_like_the_reference_for_every_size_and_depth(native_level, dtype, rng, depth, size, pooling):
    options = {"depth": depth, "kernel_size": size, "pooling": pooling}
    for shape in [(3, 5, 3), (3, 3, 7)]:
        X, Y = (rng.standard_normal((n, *shape)).astype(dtype) for n in (9, 5))
        # A window sums no more than there is of the image.
        bounded = {**options, "kernel_size": min(size, 2 * max(shape))}
        for other in (Y, None):
            K = gram.cntk(X, other, **options)
            exact = reference.cntk(X.astype(float), None if other is None else Y.astype(float), depth, size, pooling)
            assert np.all(np.abs(K - exact) <= formulas.cntk_bound(np.finfo(dtype).eps, X, other, **bounded))
        assert K.tobytes() == np.ascontiguousarray(K.T).tobytes() == gram.cntk(X, X.copy(), **options).tobytes()
        crossed = gram.cntk(X, Y, **options)
        assert crossed.tobytes() == np.ascontiguousarray(gram.cntk(Y, X, **options).T).tobytes()
        parts = [gram.cntk(X[rows], Y, **options) for rows in (slice(0, 2), slice(2, 3), slice(3, 9))]
        assert np.concatenate(parts).tobytes() == crossed.tobytes()


@pytest.mark.parametrize("depth, size, pooling", [(2, 2, "mean"), (3, 4, "flatten"), (0, 3, "mean"), (0, 3, "flatten")])
def test_the_same_for_any_number_of_threads(native_level, dtype, rng, keep_threads, depth, size, pooling):
    # Enough for several tasks.
    shape = (300, 2, 1, 2) if depth == 0 and pooling == "mean" else (40, 2, 7, 9)
    X = rng.standard_normal(shape).astype(dtype)
    found = []
    for threads in (1, 2, 5):
        fastdl.set_num_threads(threads)
        found.append(gram.cntk(X, X[:13], depth=depth, kernel_size=size, pooling=pooling).tobytes())
        found.append(gram.cntk(X, depth=depth, kernel_size=size, pooling=pooling).tobytes())
    assert len(set(found)) == 2


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_windows_are_those_of_a_convolution(level, dtype, rng, size):
    # Of an image with itself at one position every angle is 0: what is left are the filters, once for each layer.
    X = rng.standard_normal((3, 2, 5, 3)).astype(dtype)
    variance = np.sum(np.square(X.astype(float)), axis=1, keepdims=True)
    for depth in (1, 2, 3):
        variance = conv.conv2d(variance, np.full((1, 1, size, size), 1 / size**2), padding="same")
        expected = (depth + 1) * variance.mean(axis=(1, 2, 3))
        K = np.diagonal(gram.cntk(X, depth=depth, kernel_size=size, pooling="flatten"))
        assert np.all(np.abs(K - expected) <= allowed(expected, dtype, depth, 2 * size**2))


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
def test_without_a_layer(level, dtype, rng, pooling):
    X, Y = (rng.standard_normal((n, 3, 5, 7)).astype(dtype) for n in (9, 4))
    options = {"depth": 0, "pooling": pooling}
    K = gram.cntk(X, Y, **options)

    def product(A, B):
        if pooling == "mean":
            return A.mean(axis=(2, 3), dtype=float) @ B.mean(axis=(2, 3), dtype=float).T
        return np.einsum("ncij,mcij->nm", A.astype(float), B.astype(float)) / 35

    # Of a sum of 3 channels, a row of 7 and 35 pixels, each rounded once.
    limit = 45 * np.finfo(dtype).eps * product(np.abs(X), np.abs(Y))
    assert np.all(np.abs(K - product(X, Y)) <= limit)
    for size in (1, 2, 8):  # of filters that are not there
        assert gram.cntk(X, Y, kernel_size=size, **options).tobytes() == K.tobytes()
    # Neither sums nor means overflow.
    if level != "reference":
        large, small = (dtype.type(2.0**power) for power in (np.finfo(dtype).maxexp - 3, 30 - np.finfo(dtype).maxexp))
        np.testing.assert_array_equal(gram.cntk(X * large, Y * small, **options), K * 2**27)


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
@pytest.mark.parametrize("depth", [0, 1, 2, 4])
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


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
def test_edges_without_a_layer(level, dtype, pooling):
    options = {"depth": 0, "pooling": pooling}
    assert gram.cntk(np.ones((0, 2, 3, 3), dtype), np.ones((4, 2, 3, 3), dtype), **options).shape == (0, 4)
    np.testing.assert_array_equal(gram.cntk(np.ones((2, 0, 3, 3), dtype), **options), 0)
    X = np.ones((4, 1, 3, 3), dtype)
    X[1] *= 2
    X[2, 0, 1, 1] = np.nan
    X[3, 0, 0, 2] = -np.inf
    nan, inf = np.nan, np.inf
    expected = [[1, 2, nan, -inf], [2, 4, nan, -inf], [nan] * 4, [-inf, -inf, nan, inf]]
    np.testing.assert_array_equal(gram.cntk(X, **options), np.array(expected, dtype))


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_libraries(library, level, rng):
    xp = pytest.importorskip(library)
    X, Y = (rng.standard_normal((n, 2, 3, 4)) for n in (3, 2))
    K = gram.cntk(xp.asarray(X), xp.asarray(Y), depth=2)
    assert type(K) is type(xp.asarray(X))
    np.testing.assert_allclose(np.from_dlpack(K), gram.cntk(X, Y, depth=2), rtol=1e-7)
    K = reference.cntk(xp.asarray(X), None, 2, 3, "flatten")
    np.testing.assert_allclose(np.from_dlpack(K), gram.cntk(X, depth=2, pooling="flatten"), rtol=1e-6)
    for options in ({"depth": 0}, {"depth": 0, "pooling": "flatten"}, {"depth": 2, "kernel_size": 4}):
        K = gram.cntk(xp.asarray(X), xp.asarray(Y), **options)
        np.testing.assert_allclose(np.from_dlpack(K), gram.cntk(X, Y, **options), rtol=1e-7, atol=1e-12)


def test_errors(level):
    X = np.ones((2, 3, 4, 5))
    for arguments, options, error, message in [
        ((X[0],), {}, ValueError, r"expected X of shape \(n, C, H, W\), got \(3, 4, 5\)"),
        ((X[:, :, :0],), {}, ValueError, r"expected X of shape \(n, C, H, W\)"),
        ((X, X[:, :2]), {}, ValueError, r"expected Y of shape \(m, 3, 4, 5\), got \(2, 2, 4, 5\)"),
        ((X,), {"depth": -1}, ValueError, "expected depth to be a whole number from 0 to 1000000, got -1"),
        ((X,), {"depth": 1.0}, TypeError, "expected depth"),
        ((X,), {"depth": None}, TypeError, "expected depth"),
        ((X,), {"kernel_size": 0}, ValueError, "expected kernel_size to be a whole number from 1 to 1000001, got 0"),
        ((X,), {"kernel_size": -2}, ValueError, "expected kernel_size to be a whole number from 1 to 1000001, got -2"),
        ((X,), {"kernel_size": 1_000_002}, ValueError, "expected kernel_size"),
        ((X,), {"kernel_size": 0, "depth": 0}, ValueError, "expected kernel_size"),
        ((X,), {"kernel_size": 3.0}, TypeError, "expected kernel_size"),
        ((X,), {"kernel_size": "2"}, TypeError, "expected kernel_size"),
        ((X,), {"pooling": "max"}, ValueError, "expected pooling to be 'mean' or 'flatten', got 'max'"),
        ((X,), {"pooling": None}, TypeError, "expected pooling"),
    ]:
        with pytest.raises(error, match=rf"^\[gram\.cntk\] {message}"):
            gram.cntk(*arguments, **options)
