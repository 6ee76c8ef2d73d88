"""Samples and parameters at the edges of what the types hold, where a shorter formula would give NaN, 0 or nonsense."""

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from fastdl import gram


@pytest.mark.parametrize("large", [1e12, 1e16, 2.9e20, 1e22, 3e38])
@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_a_far_sample_does_not_touch_the_others(level, rng, kernel, large):
    X = rng.standard_normal((100, 20)).astype(np.float32)
    near = gram.gram(X[1:], kernel=kernel)
    X[0, 0] = large
    K = gram.gram(X, kernel=kernel)
    np.testing.assert_array_equal(np.diag(K), 1)
    np.testing.assert_allclose(K[1:, 1:], near, rtol=2e-5)
    np.testing.assert_array_equal(K[0, 1:], 0)


def test_scores_of_minus_infinity_weigh_nothing(level):
    K = np.zeros((300, 1), np.float32)
    K[:128] = -np.inf
    V = np.arange(300, dtype=np.float32)
    np.testing.assert_allclose(gram.softmax_matvec(np.ones((2, 1), np.float32), K, V), V[128:].mean(), rtol=1e-6)


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
def test_networks_are_the_same_to_the_bit_in_any_batch(native_level, rng, dtype, kernel):
    X, Y = (rng.standard_normal((rows, 30)).astype(dtype) for rows in (40, 90))
    parameters = {"w_std": 1.3, "depth": 3}
    K = gram.gram(X, Y, kernel=kernel, **parameters)
    for rows in (1, 3, 5, 7):
        np.testing.assert_array_equal(gram.gram(X[:rows], Y, kernel=kernel, **parameters), K[:rows])
    turned = np.empty(K.shape, dtype, order="F")
    np.testing.assert_array_equal(gram.gram(X, Y, kernel=kernel, out=turned, **parameters), K)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_matern_of_samples_far_apart_is_zero(level, dtype, nu):
    X = np.zeros((2, 10), dtype)
    X[1] = 1e18 if dtype == np.float32 else 1e150
    np.testing.assert_array_equal(gram.matern(X, length_scale=1e-10, nu=nu), np.eye(2))


def test_sparse_nan_reaches_its_diagonal(level):
    sparse = pytest.importorskip("scipy.sparse")
    K = gram.rbf(sparse.csr_array(np.array([[1.0, 0, 2], [0, np.nan, 1]])))
    assert np.isnan(K[1, 1]) and K[0, 0] == 1


def test_close_samples_of_many_features(level, rng):
    """The distance of two samples close to each other in a spread-out set, with 100 000 features."""
    X = 1000 * rng.standard_normal((3, 100_000))
    X[1] = X[0] + 0.01 * rng.standard_normal(100_000)
    X = X.astype(np.float32)
    wide = X.astype(np.float64)
    squared = ((wide[0] - wide[1]) ** 2).sum()
    gamma = 1 / squared
    scales = np.ones(100_000)
    for K in (gram.rbf(X, gamma=gamma), gram.rbf(np.asfortranarray(X), gamma=gamma)):
        assert abs(-np.log(np.float64(K[0, 1])) - 1) <= 2e-5
    K = gram.matern(X, length_scale=scales / np.sqrt(gamma), nu=np.inf)
    assert abs(-2 * np.log(np.float64(K[0, 1])) - 1) <= 2e-5


def test_biased_networks_of_large_samples(level, rng):
    X = (1e10 * rng.standard_normal((5, 12))).astype(np.float32)
    K = gram.ntk(X, depth=2, b_std=1.0)
    with fastdl.backend("reference"):
        expected = gram.ntk(X.astype(np.float64), depth=2, b_std=1.0)
    np.testing.assert_allclose(K, expected, rtol=1e-4)


def test_a_parameter_beyond_float32(level):
    X = np.arange(24, dtype=np.float32).reshape(2, 12)
    np.testing.assert_array_equal(gram.rbf(X, gamma=1e39), np.eye(2))
    np.testing.assert_array_equal(gram.matern(X, length_scale=1e-39), np.eye(2))


@pytest.mark.parametrize(
    "name, params, scale",
    [
        ("polynomial", {"gamma": 1e-50, "coef0": 0.5}, 1e25),
        ("polynomial", {"gamma": 1e45, "degree": 1, "coef0": 0}, 1e-20),
        ("sigmoid", {"gamma": 1e50, "coef0": 0}, 1e-25),
        ("rbf", {"gamma": 1e-50}, 1e25),
        ("rbf", {"gamma": 1e50}, 1e-25),
        ("laplacian", {"gamma": 1e-38}, 1e38),
        ("laplacian", {"gamma": 1e40}, 1e-40),
        ("chi2", {"gamma": 1e-38}, 1e37),
        ("matern", {"length_scale": 1e25}, 1e25),
        ("matern", {"length_scale": 1e-25, "nu": np.inf}, 1e-25),
        ("matern", {"length_scale": np.array([1e-25, 1e-24, 1e-25]), "nu": 0.5}, 1e-25),
        ("nngp", {"depth": 200, "w_std": 2}, 1e-30),
        ("ntk", {"depth": 200, "w_std": 2}, 1e-30),
        ("ntk", {"depth": 30, "w_std": 0.3}, 1e15),
        ("ntk", {"depth": 1, "w_std": 1e18, "b_std": 1e-20}, 1e-38),
    ],
)
def test_parameters_beyond_float32_that_suit_the_samples(level, rng, name, params, scale):
    """Where a parameter is large because samples are small, or small because they are large, K is ordinary."""
    X, Y = ((scale * rng.random((rows, 3))).astype(np.float32) for rows in (5, 4))
    v, grad = rng.standard_normal((4, 2)).astype(np.float32), rng.standard_normal((5, 2)).astype(np.float32)
    expected = cases.kernel_expected(name, X.astype(np.float64), Y.astype(np.float64), **params).astype(np.float64)
    assert np.all(np.isfinite(expected.astype(np.float32)) & (expected != 0))
    allowed = 1e-4 * np.abs(expected)  # float32 has so few digits of the smallest samples
    for K in (gram.gram(X, Y, name, **params), gram.invariant(X, Y, permutations=[[0, 1, 2]], kernel=name, **params)):
        assert K.dtype == np.float32 and np.all(np.abs(K - expected) <= allowed)
    assert np.all(np.abs(gram.matvec(X, v, Y, name, **params) - expected @ v) <= allowed @ np.abs(v))
    own = cases.kernel_expected(name, X.astype(np.float64), **params).astype(np.float64)
    np.testing.assert_allclose(gram.diag(X, name, **params), np.diagonal(own), rtol=1e-4)
    assert np.all(np.isfinite(gram.distance(X, Y, name, **params)))
    assert np.all(np.abs(gram.matvec_vjp(X, v, grad, Y, name, **params).v - expected.T @ grad) <= allowed.T @ abs(grad))
    if name in ("polynomial", "rbf"):
        sparse = pytest.importorskip("scipy.sparse")
        K = gram.gram(sparse.csr_array(X), sparse.csr_array(Y), name, **params)
        assert K.dtype == np.float32 and np.all(np.abs(K - expected) <= allowed)


@pytest.mark.parametrize("scale", [1e39, -1e39, 1e-39])
def test_a_scale_of_scores_beyond_float32(level, rng, scale):
    Q, K, V = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 3), (7, 3), (7, 2)))
    found = gram.softmax_matvec(Q, K, V, scale)
    scores = scale * (Q.astype(np.float64) @ K.astype(np.float64).T)
    if abs(scale) > 1:  # the largest score takes it all
        np.testing.assert_array_equal(found, V[np.argmax(scores, axis=1)])
    else:
        np.testing.assert_allclose(found, np.broadcast_to(V.mean(axis=0), found.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["nngp", "ntk"])
def test_weights_whose_squares_are_beyond_float64(level, name):
    """No result is asked for, but an error of Python's own arithmetic is none either."""
    X = np.ones((2, 3))
    assert gram.gram(X, kernel=name, w_std=1e200).shape == (2, 2)
    assert gram.matvec_vjp(X, np.ones(2), np.ones(2), kernel=name, w_std=1e200, b_std=1e200).X.shape == (2, 3)
    assert gram.diag(X, name, w_std=1e200, b_std=1e200).shape == (2,)


def test_a_product_of_limits_beyond_float64(level):
    X = np.ones((2, 400))
    np.testing.assert_array_equal(gram.diag(X, "sinc", omega=1e3), np.inf)


def test_sizes_beyond_the_address_space_are_memory_errors(native):
    X = np.broadcast_to(np.float32(1), (1, 2**55))
    with pytest.raises((MemoryError, ValueError)):
        gram.matvec(X, np.ones(1, np.float32), kernel="linear")
    with pytest.raises((MemoryError, ValueError)):
        gram.softmax_matvec(X, X, np.ones((1, 1), np.float32))


def test_layers_beyond_an_int_are_refused_by_name(level):
    with pytest.raises(ValueError, match=r"\[gram.ntk\] expected depth"):
        gram.ntk(np.ones((2, 2)), depth=2**31)
    with pytest.raises(ValueError, match=r"\[gram.cntk\] expected kernel_size"):
        gram.cntk(np.ones((2, 1, 2, 2)), kernel_size=2**31 + 1)


@pytest.mark.parametrize("gamma", [0, 1e-20, 1e-6])
def test_gradients_with_a_small_gamma(level, dtype, rng, gamma):
    X, Y = (rng.standard_normal((rows, 4)).astype(dtype) for rows in (30, 20))
    v, grad = rng.random(20).astype(dtype), rng.random(30).astype(dtype)
    squared = ((X.astype(np.float64)[:, None] - Y.astype(np.float64)) ** 2).sum(-1)
    expected = -(np.outer(grad, v).astype(np.float64) * squared * np.exp(-gamma * squared)).sum()
    found = float(gram.matvec_vjp(X, v, grad, Y, kernel="rbf", gamma=gamma).gamma)
    assert abs(found - expected) <= (1e-5 if dtype == np.float32 else 1e-12) * abs(expected)


@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e-22, 1e-20, 1.5e19, 2e19, 1e25, 1e38, 1e-320, 1e-165, 1e155, 1e300])
def test_angles_of_very_long_and_short_samples(level, dtype, scale):
    """Angles do not depend on lengths, also where products of lengths leave the type."""
    if dtype == np.float32 and not 1e-45 < scale < 1e39:
        pytest.skip("beyond float32")
    X = np.array([[1, 2, 3, 4], [4, -1, 2, 2], [-4, 1, -2, -2]]) / 4
    scaled = (X * scale).astype(dtype)
    wide = scaled.astype(np.longdouble)
    wide = wide / np.abs(wide).max()
    cosine = (wide @ wide.T) / np.sqrt(np.outer((wide**2).sum(1), (wide**2).sum(1)))
    angle = np.arccos(np.clip(cosine, -1, 1).astype(np.float64))
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(gram.cosine(scaled), cosine.astype(np.float64), rtol=0, atol=tolerance)
    np.testing.assert_allclose(gram.diag(scaled, "cosine"), 1, rtol=tolerance)
    other = np.concatenate([X.astype(dtype), scaled, np.zeros((1, 4), dtype)])
    mixed = np.concatenate([cosine, cosine, np.zeros((1, 3))]).T.astype(np.float64)
    found = gram.cosine(scaled, other)
    # The ordinary rows are those of X itself; a denormal row has other angles than it.
    np.testing.assert_allclose(found[:, 3:], mixed[:, 3:], rtol=0, atol=tolerance)
    np.testing.assert_allclose(gram.arc_cosine(scaled, order=0), 1 - angle / np.pi, rtol=0, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e-20])
def test_biased_networks_of_short_samples(level, scale):
    X = (np.array([[1, 2, 3, 4], [4, -1, 2, 2]]) * scale).astype(np.float32)
    np.testing.assert_allclose(gram.ntk(X, b_std=1.0), gram.ntk(np.zeros_like(X), b_std=1.0), rtol=1e-6)


@pytest.mark.parametrize("kernel", ["nngp", "ntk"])
@pytest.mark.parametrize("scale", [1e18, 3e19, 1e25])
def test_biased_networks_of_long_samples(level, kernel, scale):
    """The squares of the samples are beyond float32, what the kernel is with short ones is not."""
    long = (np.array([[1, 2, 3, 4], [4, -1, 2, 2]]) * scale).astype(np.float32)
    short = (np.array([[1, 2, 3, 4], [-2, 1, 1, 3], [0, 0, 0, 0]]) * 1e-3).astype(np.float32)
    expected = gram.gram(long.astype(np.float64), short.astype(np.float64), kernel, depth=3, b_std=0.5)
    np.testing.assert_allclose(gram.gram(long, short, kernel, depth=3, b_std=0.5), expected, rtol=1e-5)


@pytest.mark.parametrize("kernel, options", [("cosine", {}), *(("arc_cosine", {"order": n}) for n in (0, 1, 2))])
@pytest.mark.parametrize("scale", [1e-35, 1e-22, 1e-17, 1e16, 1e22, 1e30])
def test_gradients_of_angles_of_very_long_and_short_samples(level, rng, kernel, options, scale):
    X = (rng.standard_normal((5, 4)) * scale).astype(np.float32)
    Y = rng.standard_normal((7, 4)).astype(np.float32)
    X[2] /= np.float32(scale)  # an ordinary one among them
    grad = rng.standard_normal((5, 7)).astype(np.float32)
    wide = [array.astype(np.float64) for array in (X, Y, grad)]
    with fastdl.backend("reference"), np.errstate(over="ignore"):
        expected = gram.gram_vjp(wide[0], wide[2], wide[1], kernel=kernel, **options)
    found = gram.gram_vjp(X, grad, Y, kernel=kernel, **options)
    largest = np.finfo(np.float32).max
    for name in ("X", "Y"):
        value, other = (np.clip(getattr(result, name), -largest, largest) for result in (found, expected))
        # Rows are sums of numbers of very different sizes; below 1e-38 there are fewer digits.
        size = np.abs(other).max(axis=1, keepdims=True)
        assert np.all(np.abs(value - other) <= 1e-5 * size + 1e-44), (value, other)


def test_a_gamma_of_zero_and_distances_beyond_the_type(level, dtype):
    for features in (1, 12):
        X = np.zeros((2, features), dtype)
        X[1] = 1e25 if dtype == np.float32 else 1e160
        np.testing.assert_array_equal(gram.rbf(X, gamma=0), 1)


@pytest.mark.parametrize("features", [1, 3, 8, 9])
@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_scales_of_features_do_not_bring_cancellation_back(level, rng, dtype, features, offset):
    X = (offset + 0.1 * rng.standard_normal((9, features))).astype(dtype)
    scales = rng.uniform(0.05, 0.2, features)
    wide = X.astype(np.longdouble) / scales
    distance = np.sqrt(((wide[:, None] - wide) ** 2).sum(-1)).astype(np.float64)
    found = -np.log(gram.matern(X, length_scale=scales, nu=0.5).astype(np.float64))
    # exp and its inverse lose as many digits as the value has below 1.
    allowed = (1e-5 if dtype == np.float32 else 1e-12) * distance + 4 * np.finfo(dtype).eps
    assert np.all(np.abs(found - distance) <= allowed)


@pytest.mark.parametrize(("features", "offset"), [(64, 1e3), (128, 1e3), (300, 1e4), (300, 1e5)])
def test_sparse_distances_do_not_cancel(level, rng, dtype, features, offset):
    sparse = pytest.importorskip("scipy.sparse")
    X = offset + (0.1 if dtype == np.float32 else 1e-5) * rng.standard_normal((20, features))
    X[:, rng.random(features) < 0.3] = 0
    X[3, :5] = 0
    X = X.astype(dtype)
    wide = X.astype(np.longdouble)
    squared = ((wide[:, None] - wide) ** 2).sum(-1).astype(np.float64)
    gamma = 1 / np.median(squared)
    matrix, other = sparse.csr_array(X), sparse.csr_array(X[::2])
    # d^2 to twice the relative error of d, and the rounding of exp.
    allowed = gamma * squared * (2e-5 if dtype == np.float32 else 2e-12) + 4 * np.finfo(dtype).eps
    expected = np.exp(-gamma * squared)
    assert np.all(np.abs(gram.rbf(matrix, gamma=gamma) - expected) <= allowed)
    assert np.all(np.abs(gram.rbf(matrix, other, gamma=gamma) - expected[:, ::2]) <= allowed[:, ::2])


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1e20, 1e38, 1e-320, 1e-165, 1e155, 1e300])
def test_sparse_angles_of_very_long_and_short_samples(level, dtype, scale):
    sparse = pytest.importorskip("scipy.sparse")
    if dtype == np.float32 and not 1e-45 < scale < 1e39:
        pytest.skip("beyond float32")
    X = np.array([[1, 2, 0, 3], [-4, 0, 1, 2], [0, 0, 0, 0], [0, 1, 0, 0], [0, 3, np.nan, 0]])
    scaled = np.concatenate([X / 4 * scale, X]).astype(dtype)
    wide = scaled.astype(np.longdouble)
    lengths = [np.abs(row).max() * np.sqrt(((row / np.abs(row).max()) ** 2).sum()) if row.any() else 1 for row in wide]
    unit = wide / np.array(lengths)[:, None]
    for expected, found in [
        (unit @ unit.T, gram.cosine(sparse.csr_array(scaled))),
        (unit @ unit[::2].T, gram.cosine(sparse.csr_array(scaled), sparse.csr_array(scaled[::2]))),
    ]:
        np.testing.assert_allclose(found, expected.astype(np.float64), rtol=0, atol=8 * np.finfo(dtype).eps)


def test_sparse_distances_beyond_the_type(level, dtype):
    sparse = pytest.importorskip("scipy.sparse")
    large = dtype.type(1e30 if dtype == np.float32 else 1e200)
    X = np.array([[large, 0, 1], [0, large, 1], [large, 0, 1], [0, 0, 1]], dtype)
    expected = [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(gram.rbf(sparse.csr_array(X)), expected)
    np.testing.assert_array_equal(gram.rbf(sparse.csr_array(X), sparse.csr_array(X.copy())), expected)
