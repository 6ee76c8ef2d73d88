"""Samples that are not finite, and sums that leave the type on the way to a result that does not."""

import numpy as np
import pytest

from fastdl import gram

ANGLES = [
    ("cosine", {}),
    *(("arc_cosine", {"order": order}) for order in (0, 1, 2)),
    *((name, {"depth": depth, "b_std": b}) for name in ("nngp", "ntk") for depth in (0, 1, 3) for b in (0.0, 0.5)),
]


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("features", [1, 3, 40])
@pytest.mark.parametrize("name, params", ANGLES)
def test_a_row_of_zeros_hides_no_nan(level, dtype, rng, name, params, features, poison):
    X = rng.standard_normal((9, features)).astype(dtype)
    X[2], X[5] = 0, 1e-30  # the second is so short that its angles are taken from the rows
    X[4, 0] = poison
    touched = np.zeros((9, 9), bool)
    touched[4] = touched[:, 4] = True
    with np.errstate(all="ignore"):
        for K in (gram.gram(X, kernel=name, **params), gram.gram(X, X.copy(), kernel=name, **params)):
            np.testing.assert_array_equal(np.isfinite(K), ~touched)
            assert np.isnan(K[4, 2]) and np.isnan(K[2, 4])
            assert not np.isnan(poison) or np.all(np.isnan(K[touched]))
        np.testing.assert_array_equal(np.isfinite(gram.diag(X, name, **params)), np.arange(9) != 4)
        np.testing.assert_array_equal(
            np.isfinite(gram.matvec(X, np.ones(4, dtype), X[:4], name, **params)), np.arange(9) != 4
        )


@pytest.mark.parametrize("name, params", [case for case in ANGLES if case[0] in ("nngp", "ntk")])
@pytest.mark.parametrize("w_std", [1.3, 0.0])
def test_networks_of_samples_with_infinities(level, dtype, name, params, w_std):
    """Without hidden layers the kernel is w² x·y / d + b², which has a limit; with them there is no angle, so none."""
    X = np.array([[1, 2, 3], [np.inf, 1, 1], [-1, 2, 0], [np.inf, -np.inf, 1], [0, 0, 0], [-np.inf, 0, 1]], dtype)
    with np.errstate(all="ignore"):
        wide = X.astype(np.float64)
        expected = w_std**2 * (wide @ wide.T) / 3 + params["b_std"] ** 2
        if params["depth"]:
            bad = ~np.isfinite(wide).all(axis=1)
            expected[bad[:, None] | bad] = np.nan
        for K in (
            gram.gram(X, kernel=name, w_std=w_std, **params),
            gram.gram(X, X.copy(), name, w_std=w_std, **params),
        ):
            if params["depth"] == 0:
                np.testing.assert_allclose(K, expected, rtol=8 * np.finfo(dtype).eps)
            np.testing.assert_array_equal(np.isnan(K), np.isnan(expected))
            found = gram.diag(X, name, w_std=w_std, **params)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(np.diagonal(expected)))
            np.testing.assert_array_equal(np.isinf(found), np.isinf(np.diagonal(expected)))


# ---- histograms ----


def chi_squares(X, Y):
    """Σ (x−y)²/(x+y) in numbers of a larger range than either type has."""
    x, y = X.astype(np.longdouble)[:, None], Y.astype(np.longdouble)
    total = x + y
    return ((x - y) ** 2 / np.where(total == 0, 1, total)).sum(axis=-1)


def largest_histograms(rng, dtype, features):
    largest = np.finfo(dtype).max
    X = rng.random((9, features)).astype(dtype)
    X[1], X[2], X[3] = largest, largest / 2, 0
    X[4] = largest * X[0]
    X[5, 1:] = 0
    X[5, 0] = largest
    X[6] = largest / features / 4 * X[0]
    return X


@pytest.mark.parametrize("features", [1, 3, 40])
def test_histograms_whose_sums_leave_the_type(level, dtype, rng, features):
    X = largest_histograms(rng, dtype, features)
    with np.errstate(over="ignore"):
        expected = (-chi_squares(X, X)).astype(dtype)
        assert np.any(np.isinf(expected)) == (features > 1) and np.any(np.abs(expected) > np.finfo(dtype).max / 8)
        for K in (gram.additive_chi2(X), gram.additive_chi2(X, X.copy())):
            np.testing.assert_allclose(K, expected, rtol=4 * np.sqrt(features) * np.finfo(dtype).eps)
        np.testing.assert_array_equal(gram.diag(X, "additive_chi2"), 0)
        for gamma in (1.0, float(1e-30 if dtype == np.float32 else 4 / np.finfo(dtype).max)):
            wanted = np.exp(gamma * expected.astype(np.longdouble)).astype(dtype)
            np.testing.assert_allclose(gram.chi2(X, gamma=gamma), wanted, rtol=1e-5, atol=1e-37)
        v = rng.random(9).astype(dtype)
        np.testing.assert_allclose(gram.matvec(X, v, kernel="chi2"), gram.chi2(X) @ v, rtol=1e-5)


def test_gradients_of_histograms_whose_sums_leave_the_type(level, dtype, rng):
    X = largest_histograms(rng, dtype, 3)
    grad = rng.standard_normal((9, 9)).astype(dtype)
    x, y = X.astype(np.longdouble)[:, None], X.astype(np.longdouble)
    total = np.where(x + y == 0, 1, x + y)
    t = (x - y) / total
    expected = (grad[..., None] * t * (t - 2)).sum(axis=1)  # d/dx of −(x−y)²/(x+y)
    found = gram.gram_vjp(X, grad, X.copy(), kernel="additive_chi2")
    np.testing.assert_allclose(found.X, expected.astype(np.float64), rtol=0, atol=100 * np.finfo(dtype).eps)


def test_histograms_scale_with_powers_of_two(native_level, dtype, rng):
    """The largest and smallest are treated as all others: to the bit."""
    X, Y = rng.random((30, 21)).astype(dtype), rng.random((17, 21)).astype(dtype)
    X[:, ::3] = Y[:, ::4] = 0
    K = gram.additive_chi2(X, Y)
    top = int(np.log2(np.finfo(dtype).max)) - 6
    for power in (-top + 20, -7, top):
        np.testing.assert_array_equal(gram.additive_chi2(np.ldexp(X, power), np.ldexp(Y, power)), np.ldexp(K, power))


# ---- attention ----


def attention(Q, K, V, scale):
    """Row-softmax(scale Q Kᵀ) V in float64."""
    scores = scale * (Q.astype(np.float64) @ K.astype(np.float64).T)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ V.astype(np.float64) / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e-10, 1e-29, 0.0])
@pytest.mark.parametrize("features, keys", [(1, 5), (2, 300), (20, 129)])
def test_scores_beyond_float32(level, rng, scale, features, keys):
    """Products of float32 fit into float64: where they leave float32 the weights are taken from there."""
    Q, K = (rng.standard_normal((rows, features)).astype(np.float32) for rows in (11, keys))
    V = rng.standard_normal((keys, 3)).astype(np.float32)
    large = np.float32(3e19)
    Q[:6] *= large
    K *= large
    K[::3] = np.abs(K[::3])
    Q[1] = -np.abs(Q[1])
    K[1] = K[2]  # two that share the largest weight, or neither
    for keys_here in (K, np.abs(K)):  # of the second all scores of a query are large, or all are large and negative
        expected = attention(Q, keys_here, V, scale)
        assert np.all(np.isfinite(expected))
        found = gram.softmax_matvec(Q, keys_here, V, scale)
        # Ordinary queries have scores of some 1e19: their weights are 0, or as close as the scores are.
        rounding = 4e-6 * (1 + abs(scale) * features * float(large) * 3)
        np.testing.assert_allclose(found[:6], expected[:6], rtol=1e-5, atol=1e-6)
        if rounding < 1e-3:
            np.testing.assert_allclose(found[6:], expected[6:], rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(np.isnan(found), False)


def test_scores_beyond_float32_and_masks(level):
    Q = np.array([[1e20, 0], [-1e20, 1], [1, 1], [np.inf, 0], [np.nan, 1]], np.float32)
    K = np.array([[-np.inf, 1], [1e20, 1], [1e20, 1], [3e19, 5]], np.float32)
    V = np.array([7, 1, 3, 5], np.float32)
    found = gram.softmax_matvec(Q[:1], K, V)
    np.testing.assert_array_equal(found, [2])
    found = gram.softmax_matvec(Q, K[1:], V[1:])
    np.testing.assert_array_equal(found, [2, 5, 2, np.nan, np.nan])
    # Sums that leave float32 on their way to a score that does not.
    Q, K = np.ones((1, 4), np.float32), np.zeros((300, 4), np.float32)
    for sign in (1, -1):
        K[[3, 299]] = sign * np.float32([-3e38, -3e38, 3e38, 3e38])
        found = gram.softmax_matvec(Q, K, np.arange(300, dtype=np.float32))
        np.testing.assert_allclose(found, np.arange(300).mean(), rtol=1e-6)
    K = np.array([[-np.inf, 1], [1e20, 1], [1e20, 1], [3e19, 5]], np.float32)
    Q = np.array([[1e20, 0]], np.float32)
    # A largest score of infinity leaves no weights.
    K[0, 0] = np.inf
    assert np.all(np.isnan(gram.softmax_matvec(Q[:1], K, V)))
    beyond_double = np.full((3, 2), 1e200)
    assert np.all(np.isnan(gram.softmax_matvec(beyond_double, beyond_double, np.ones(3))))
