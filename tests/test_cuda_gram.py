"""The CUDA kernels of fastdl.gram, through the public functions, against independent formulas in more precision."""

import contextlib

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from cases import layouts, wide
from cases.gram_gradients import gradient_tolerance
from cuda_device import Array, same_layout, to_device
from fastdl import _dispatch, gram
from fastdl._kernels import KERNELS

RUN_REFERENCE = _dispatch.Call._run_reference
ALL = pytest.mark.parametrize("name", tuple(KERNELS))


def label(value):
    return value if isinstance(value, str) else ",".join(f"{k}={v}" for k, v in value.items()) or "defaults"


TRIED = pytest.mark.parametrize("name, params", cases.KERNEL_CASES, ids=label)


@pytest.fixture(autouse=True)
def without_reference(monkeypatch):
    """Let nothing be computed by the reference unless a test asks for it."""

    def refuse(self, parameters):
        raise AssertionError(f"{self.operation.name} ran on the reference")

    monkeypatch.setattr(_dispatch.Call, "_run_reference", refuse)


def compute(name, *arrays, **params):
    """Call a kernel on device arrays; its K on the host."""
    K = getattr(gram, name)(*(None if array is None else to_device(array) for array in arrays), **params)
    assert type(K) is Array
    return K.host


def assert_within(found, expected, allowed, message=""):
    error = np.abs(wide(np.asarray(found)) - expected)
    excess = ~(error <= allowed)
    assert found.shape == expected.shape
    assert not np.any(excess), (
        f"{message}: {error[excess].max()} over {np.broadcast_to(allowed, error.shape)[excess].max()}"
    )


@TRIED
def test_kernels(cuda, dtype, rng, name, params):
    for n, m, d in [(33, 17, 9), (1, 65, 4), (7, 9, 0), (0, 3, 5), (3, 0, 5), (70, 5, 1)]:
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        K = compute(name, X, Y, **params)
        assert K.dtype == dtype
        assert_within(
            K, cases.kernel_expected(name, X, Y, **params), cases.kernel_tolerance(name, X, Y, **params), f"{n} {m} {d}"
        )
        S = compute(name, X, **params)
        assert S.tobytes() == S.T.tobytes()
        assert_within(S, cases.kernel_expected(name, X, **params), cases.kernel_tolerance(name, X, **params))
        D = gram.diag(to_device(X), name, **params).host
        assert_within(
            D,
            np.diagonal(cases.kernel_expected(name, X, **params)),
            np.diagonal(cases.kernel_tolerance(name, X, **params)),
        )


@ALL
def test_several_tiles(cuda, dtype, rng, name):
    """More rows than a tile has, none of them a multiple of anything, and symmetric results across tiles."""
    n, m, d = (130, 131, 19) if dtype == np.float32 else (67, 65, 19)
    X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
    assert_within(compute(name, X, Y), cases.kernel_expected(name, X, Y), cases.kernel_tolerance(name, X, Y))
    S = compute(name, X)
    assert S.tobytes() == S.T.tobytes()
    assert_within(S, cases.kernel_expected(name, X), cases.kernel_tolerance(name, X))
    # An element depends on its own two rows alone.
    assert compute(name, X[3:5], Y[-2:]).tobytes() == compute(name, X, Y)[3:5, -2:].tobytes()


def test_layouts_and_out(cuda, dtype, rng):
    X, Y = rng.standard_normal((20, 9)).astype(dtype), rng.standard_normal((7, 9)).astype(dtype)
    for name in ("polynomial", "rbf", "laplacian", "ntk"):
        expected, alone = compute(name, X, Y), compute(name, X)
        for laid, array in layouts(X):
            assert getattr(gram, name)(same_layout(array), to_device(Y)).host.tobytes() == expected.tobytes(), laid
        wide_out = to_device(np.zeros((20, 40), dtype))
        getattr(gram, name)(to_device(X), out=wide_out[:, ::2])
        assert (wide_out.host[:, ::2] == alone).all() and not wide_out.host[:, 1::2].any()


@ALL
def test_nan_and_inf_stay_in_their_row_and_column(cuda, dtype, rng, name):
    n, m, d = 9, 8, 11
    X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
    v = np.ones((m, 1), dtype)
    clean, alone = compute(name, X, Y), compute(name, X)
    products = gram.matvec(to_device(X), to_device(v), to_device(Y), name).host
    for poison in (np.nan, np.inf):
        if name == "geometric" and poison == np.inf:
            continue  # no product with Inf is in the domain
        bad = X.copy()
        bad[4, d - 1] = poison
        K, S = compute(name, bad, Y), compute(name, bad)
        np.testing.assert_array_equal(np.delete(K, 4, 0), np.delete(clean, 4, 0))
        keep = np.ix_(np.arange(n) != 4, np.arange(n) != 4)
        np.testing.assert_array_equal(S[keep], alone[keep])
        found = gram.matvec(to_device(bad), to_device(v), to_device(Y), name).host
        np.testing.assert_array_equal(np.delete(found, 4, 0), np.delete(products, 4, 0))
        if np.isnan(poison):
            assert (
                np.isnan(K[4]).all() and np.isnan(S[4]).all() and np.isnan(S[:, 4]).all() and np.isnan(found[4]).all()
            )


def test_distances_do_not_cancel(cuda, dtype, rng):
    """Offsets of 1e3 and distances of 1e-1 in float32: a relative error of 1e-5, and exactly 1 on the diagonal."""
    X = (1000 + 0.1 * rng.standard_normal((20, 12))).astype(dtype)
    square = ((wide(X)[:, None] - wide(X)[None]) ** 2).sum(-1)
    K = compute("rbf", X, gamma=1.0)
    assert (np.diagonal(K) == 1).all()
    assert np.all(np.abs(K - np.exp(-square)) <= (1e-5 * square + 8 * np.finfo(dtype).eps) * np.exp(-square))
    scales = np.linspace(0.5, 2, 12)
    square = (((wide(X)[:, None] - wide(X)[None]) / scales) ** 2).sum(-1)
    K = compute("matern", X, nu=0.5, length_scale=scales)
    assert np.all(np.abs(K - np.exp(-np.sqrt(square))) <= 1e-5 * np.sqrt(square) + 8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_a_length_scale_for_each_feature(cuda, dtype, rng, nu):
    X, Y, v = (rng.standard_normal(shape).astype(dtype) for shape in ((9, 11), (5, 11), (5, 2)))
    scales = np.linspace(0.5, 3, 11)
    K = compute("matern", X, Y, length_scale=scales, nu=nu)
    expected = cases.kernel_expected("matern", X, Y, length_scale=scales, nu=nu)
    allowed = cases.kernel_tolerance("matern", X, Y, nu=nu)
    assert_within(K, expected, allowed)
    found = gram.diag(to_device(X), "matern", length_scale=scales, nu=nu).host
    np.testing.assert_array_equal(found, np.ones(len(X), dtype))
    found = gram.matvec(to_device(X), to_device(v), to_device(Y), "matern", length_scale=scales, nu=nu).host
    assert_within(found, expected @ wide(v), (allowed + 8 * np.finfo(dtype).eps) @ np.abs(v))


def test_zero_parallel_and_opposite_rows(cuda, dtype, rng):
    """Angles of 0 and 180 degrees are known as well as any, and a row of zeros is at right angles."""
    X = rng.standard_normal((6, 9)).astype(dtype)
    Y = np.concatenate((np.zeros((1, 9), dtype), X[1:3], -X[3:5], X[5:] * dtype.type(1.001)))
    for name, params in [("arc_cosine", {"order": order}) for order in (0, 1, 2)] + [
        ("ntk", {"depth": 3}),
        ("cosine", {}),
    ]:
        K = compute(name, X, Y, **params)
        assert_within(
            K, cases.kernel_expected(name, X, Y, **params), cases.kernel_tolerance(name, X, Y, **params), name
        )
        if name != "arc_cosine" or params["order"]:
            assert not K[:, 0].any()
    # (π - θ) / π of equal and of opposite rows, to the rounding of the unit vectors.
    K = compute("arc_cosine", X, Y, order=0)
    limit = 16 * np.finfo(dtype).eps
    assert np.all(np.abs([K[1, 1] - 1, K[2, 2] - 1, K[3, 3], K[4, 4], K[5, 5] - 1]) <= limit)


@TRIED
def test_matvec(cuda, dtype, rng, name, params):
    for n, m, d, p in [(33, 17, 9, 3), (1, 65, 4, 1), (7, 9, 0, 2), (0, 3, 2, 1), (3, 0, 2, 2), (3, 2, 2, 0)]:
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        for others, count in ((Y, m), (None, n)):
            v = rng.standard_normal((count, p)).astype(dtype)
            K = cases.kernel_expected(name, X, others, **params)
            allowed = cases.kernel_tolerance(name, X, others, **params) + (count + 2) * np.finfo(dtype).eps * np.abs(K)
            device = None if others is None else to_device(others)
            found = gram.matvec(to_device(X), to_device(v), device, name, **params)
            assert found.dtype == dtype
            assert_within(found.host, K @ wide(v), allowed @ np.abs(v))


def test_matvec_over_tiles_and_parts(cuda, dtype, rng):
    """More columns than 16 parts of one tile each, more right-hand sides than go together; any strides."""
    side = 128 if dtype == np.float32 else 64
    X, Y = rng.standard_normal((side + 3, 3)).astype(dtype), rng.standard_normal((17 * side + 5, 3)).astype(dtype)
    v = rng.standard_normal((len(Y), 2)).astype(dtype)
    K = cases.kernel_expected("rbf", X, Y)
    allowed = cases.kernel_tolerance("rbf", X, Y) + 2 * len(Y) * np.finfo(dtype).eps * K
    found = gram.matvec(to_device(X), to_device(v), to_device(Y)).host
    assert_within(found, K @ wide(v), allowed @ np.abs(v))
    # A row depends neither on the other rows nor on the layout of v.
    again = gram.matvec(to_device(X[-2:]), same_layout(np.asfortranarray(v))[:, 1], to_device(Y)).host
    assert again.tobytes() == found[-2:, 1].tobytes()
    v = rng.standard_normal((5, 35)).astype(dtype)
    found = gram.matvec(to_device(X), to_device(v), to_device(Y[:5])).host
    assert_within(found, K[:, :5] @ wide(v), allowed[:, :5] @ np.abs(v))
    for column in (0, 16, 34):
        single = gram.matvec(to_device(X), to_device(v[:, column]), to_device(Y[:5])).host
        assert single.tobytes() == found[:, column].tobytes()


def test_more_right_hand_sides_than_a_launch_takes(cuda, dtype, rng):
    X, Y = rng.integers(-3, 3, (2, 3)).astype(dtype), rng.integers(-3, 3, (1, 3)).astype(dtype)
    v = rng.integers(-3, 3, (1, 4100)).astype(dtype)
    found = gram.matvec(to_device(X), to_device(v), to_device(Y), kernel="linear").host
    np.testing.assert_array_equal(found, X @ Y.T @ v)
    found = gram.softmax_matvec(to_device(X), to_device(Y), to_device(v)).host
    np.testing.assert_array_equal(found, np.repeat(v, 2, axis=0))  # one key has all the weight


@pytest.mark.parametrize("scale", [None, -2.0])
def test_softmax_matvec(cuda, dtype, rng, scale):
    for n, m, d, p in [(1, 1, 1, 1), (7, 33, 8, 5), (5, 4, 0, 2), (3, 300, 3, 18), (4, 0, 2, 3), (0, 2, 2, 1)]:
        Q, K, V = (rng.standard_normal(shape).astype(dtype) for shape in ((n, d), (m, d), (m, p)))
        found = gram.softmax_matvec(to_device(Q), to_device(K), to_device(V), scale).host
        assert found.shape == (n, p) and found.dtype == dtype
        if m == 0:
            assert not found.any()
            continue
        factor = 1 / np.sqrt(max(1, d)) if scale is None else scale
        score = factor * (wide(Q) @ wide(K).T)
        weight = np.exp(score - score.max(axis=1, keepdims=True, initial=-np.inf))
        weight /= weight.sum(axis=1, keepdims=True)
        eps = np.finfo(dtype).eps
        # An error in a score is a relative error of its weight.
        error = abs(factor) * (d + 3) * eps * (np.abs(wide(Q)) @ np.abs(wide(K)).T).max(axis=1, keepdims=True)
        error = 2 * (error + eps * np.abs(score).max(axis=1, keepdims=True)) + (2 * m + 16) * eps
        assert_within(found, weight @ wide(V), error * (weight @ np.abs(wide(V))))


def test_softmax_of_large_and_infinite_scores(cuda, dtype):
    # 200 keys in two tiles of float32, four of float64: the largest scores come last, and nothing overflows.
    K = np.concatenate((np.full((130, 1), -1e4), np.linspace(0, 1e4, 70)[:, None])).astype(dtype)
    V = np.arange(200.0)[:, None].astype(dtype)
    found = gram.softmax_matvec(to_device(np.ones((2, 1), dtype)), to_device(K), to_device(V), 1.0).host
    assert np.all(found == 199)
    K[:150] = -np.inf
    found = gram.softmax_matvec(to_device(np.ones((1, 1), dtype)), to_device(K), to_device(V), 1.0).host
    assert found == 199
    K[:] = -np.inf
    assert np.isnan(gram.softmax_matvec(to_device(np.ones((1, 1), dtype)), to_device(K), to_device(V), 1.0).host).all()


@ALL
def test_distance(cuda, dtype, rng, name):
    X, Y = cases.samples(name, rng, 9, 5, dtype), cases.samples(name, rng, 6, 5, dtype)
    own_x, own_y = (np.diagonal(cases.kernel_expected(name, a)) for a in (X, Y))
    for others, own in ((Y, own_y), (None, own_x)):
        found = gram.distance(to_device(X), None if others is None else to_device(others), name).host
        expected = own_x[:, None] + own[None] - 2 * cases.kernel_expected(name, X, others)
        size = np.abs(own_x).max() + np.abs(own).max()
        allowed = 4 * np.max(cases.kernel_tolerance(name, np.concatenate((X, Y)))) + 8 * np.finfo(dtype).eps * size
        assert np.all(found >= 0)
        assert_within(found, np.maximum(expected, 0), allowed)
    assert not np.diagonal(found).any() and found.tobytes() == found.T.tobytes()


def cyclic(d):
    return np.array([np.roll(np.arange(d), -g) for g in range(d)])


@ALL
def test_invariant(cuda, dtype, rng, name):
    X, Y = cases.samples(name, rng, 9, 4, dtype), cases.samples(name, rng, 6, 4, dtype)
    for orders in (cyclic(4), cyclic(4)[1:3]):  # a group, and not one
        terms = [(X[:, g], Y[:, h]) for g in orders for h in orders]
        expected = sum(cases.kernel_expected(name, x, y) for x, y in terms)
        allowed = sum(cases.kernel_tolerance(name, x, y) for x, y in terms)
        allowed = allowed + 2 * len(orders) * np.finfo(dtype).eps * sum(
            np.abs(cases.kernel_expected(name, x, y)) for x, y in terms
        )
        K = gram.invariant(to_device(X), to_device(Y), permutations=orders, kernel=name).host
        assert_within(K, expected, allowed)
        alone = gram.invariant(to_device(X), permutations=orders, kernel=name).host
        assert alone.tobytes() == alone.T.tobytes()
    none = gram.invariant(to_device(X), to_device(Y), permutations=np.zeros((0, 4), int), kernel=name).host
    assert none.shape == (9, 6) and not none.any()


DIFFERENTIABLE = [(name, params) for name, params in cases.KERNEL_CASES if name != "sinc"]


def reference(function, *arrays, **options):
    """In float64 on the host, by the reference."""
    with pytest.MonkeyPatch.context() as patch, fastdl.backend("reference"):
        patch.setattr(_dispatch.Call, "_run_reference", RUN_REFERENCE)
        return function(*(None if a is None else a.astype(np.float64) for a in arrays), **options)


@pytest.mark.parametrize("name, params", DIFFERENTIABLE, ids=label)
def test_gradients(cuda, dtype, rng, name, params):
    for n, m, d, p, alone in [(5, 70, 11, 2, False), (13, 7, 6, 1, True)]:
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        X, Y = (np.concatenate((X, Y)), None) if alone else (X, Y)
        v, grad = (rng.standard_normal((count, p)).astype(dtype) for count in (len(X) if alone else m, len(X)))
        x, u, g = (to_device(array) for array in (X, v, grad))
        y = None if alone else to_device(Y)
        expected = reference(gram.matvec_vjp, X, v, grad, Y, kernel=name, **params)
        for_X, for_Y, for_gamma = gradient_tolerance(name, X, v, grad, Y, **params)
        product = gram.matvec_vjp(x, u, g, y, name, **params)
        for found in (product, gram.gram_vjp(x, to_device(grad @ v.T), y, name, **params)):
            assert found.X.dtype == dtype
            assert np.all(np.linalg.norm(found.X.host - expected.X, axis=1) <= for_X)
            assert found.Y is None if alone else np.all(np.linalg.norm(found.Y.host - expected.Y, axis=1) <= for_Y)
            assert found.gamma is None if for_gamma is None else abs(found.gamma - expected.gamma) <= for_gamma
        K = np.abs(cases.kernel_expected(name, X, Y, **params)).astype(np.float64)
        allowed = cases.kernel_tolerance(name, X, Y, **params) + (len(X) + 2) * np.finfo(dtype).eps * K
        assert_within(product.v.host, expected.v, allowed.T @ np.abs(grad))


def test_gradients_of_several_tiles_and_panels(cuda, dtype, rng):
    """Strided weights over more than a tile; linear is exact in whole numbers."""
    n, m, d = (131, 130, 67) if dtype == np.float32 else (67, 66, 67)
    X, Y, W = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((n, d), (m, d), (n, m)))
    found = gram.gram_vjp(to_device(X), same_layout(np.asfortranarray(W)), to_device(Y), "linear")
    np.testing.assert_array_equal(found.X.host, W @ Y)
    np.testing.assert_array_equal(found.Y.host, W.T @ X)
    W = rng.integers(-3, 4, (n, n)).astype(dtype)
    found = gram.gram_vjp(to_device(X), to_device(W), None, "linear")
    np.testing.assert_array_equal(found.X.host, (W + W.T) @ X)
    X = rng.standard_normal((n, d)).astype(dtype)
    found = gram.gram_vjp(to_device(X), to_device(W), None, "rbf", gamma=0.01)
    K = cases.kernel_expected("rbf", X, gamma=0.01).astype(np.float64)
    slopes = 0.02 * (W + W.T) * K
    expected = slopes @ X - slopes.sum(1)[:, None] * X
    assert np.all(np.abs(found.X.host - expected) <= 4 * n * np.finfo(dtype).eps * (np.abs(slopes) @ np.abs(X)).max())


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_gradients_with_a_length_scale_for_each_feature(cuda, dtype, rng, nu):
    X, Y, v, grad = (rng.standard_normal(shape).astype(dtype) for shape in ((5, 3), (4, 3), (4, 1), (5, 1)))
    params = {"kernel": "matern", "length_scale": np.array([0.5, 1.0, 3.0]), "nu": nu}
    found = gram.matvec_vjp(*(to_device(array) for array in (X, v, grad, Y)), **params)
    expected = reference(gram.matvec_vjp, X, v, grad, Y, **params)
    # Sums of five terms, of slopes of up to 30.
    allowed = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(found.X.host, expected.X, rtol=0, atol=allowed)
    np.testing.assert_allclose(found.Y.host, expected.Y, rtol=0, atol=allowed)


@pytest.mark.parametrize("name", ["cosine", "arc_cosine", "nngp", "ntk"])
def test_gradients_at_zero_and_parallel_samples(cuda, dtype, rng, name):
    X, Y = rng.standard_normal((5, 6)).astype(dtype), rng.standard_normal((6, 6)).astype(dtype)
    X[0] = Y[0] = 0
    Y[1], Y[2], Y[3] = X[1], 2 * X[2], -X[3]
    v, grad = rng.standard_normal((6, 2)).astype(dtype), rng.standard_normal((5, 2)).astype(dtype)
    tried = {"cosine": [{}], "arc_cosine": [{"order": order} for order in range(3)]}
    layers = [{"depth": depth, "b_std": bias, "w_std": 1.3} for depth in (0, 1, 3) for bias in (0, 0.5)]
    for params in tried.get(name, layers):
        found = gram.matvec_vjp(*(to_device(array) for array in (X, v, grad, Y)), name, **params)
        expected = reference(gram.matvec_vjp, X, v, grad, Y, kernel=name, **params)
        for part in ("X", "Y", "v"):
            size = np.abs(getattr(expected, part)).max()
            error = np.abs(getattr(found, part).host - getattr(expected, part)).max()
            assert error <= 2 * cases.distance_error(dtype, 6) * size, (part, params)


def test_empty_gradients(cuda, dtype):
    for n, m, d, p in [(0, 3, 2, 1), (3, 0, 2, 1), (3, 4, 0, 1), (3, 4, 2, 0), (0, 0, 0, 0)]:
        X, Y, v, grad = (to_device(np.ones(shape, dtype) / 4) for shape in ((n, d), (m, d), (m, p), (n, p)))
        for name in ("linear", "rbf", "laplacian", "ntk"):
            found = gram.matvec_vjp(X, v, grad, Y, name)
            assert found.X.shape == (n, d) and found.Y.shape == (m, d) and found.v.shape == (m, p)
            if 0 in (n, m, p):
                assert not found.X.host.any() and not found.Y.host.any() and not found.v.host.any()
                assert found.gamma in (0, None)
            assert gram.matvec_vjp(X, grad, grad, None, name).X.shape == (n, d)


# ---- statistics ----


def test_center(cuda, dtype, rng):
    for n in (0, 1, 9, 65):
        K = (rng.standard_normal((n, n)) + 3).astype(dtype)
        H = np.eye(n) - np.full((n, n), 1 / max(1, n))
        found = gram.center(to_device(K)).host
        eps = np.finfo(dtype).eps
        assert_within(found, H @ wide(K) @ H, 4 * (n + 4) * eps * np.abs(K).max(initial=0))
        S = (K + K.T + 100).astype(dtype)
        for name, laid in layouts(S):
            centred = gram.center(same_layout(laid)).host
            assert centred.tobytes() == centred.T.tobytes(), name
    np.testing.assert_array_equal(gram.center(to_device(np.full((5, 5), 3, dtype))).host, 0)


@pytest.mark.parametrize("unbiased", [False, True])
def test_dependence(cuda, dtype, rng, unbiased):
    for n in (4, 33):
        K, L = ((a @ a.T).astype(dtype) for a in rng.standard_normal((2, n, 6)))
        L += np.triu(np.ones((n, n), dtype))  # not symmetric: rows and columns are told apart
        size = np.abs(K).max() * np.abs(L).max()
        for first, second in ((K, L), (L, K)):
            expected = reference(gram.hsic, first, second, unbiased=unbiased)
            found = gram.hsic(to_device(first), same_layout(np.asfortranarray(second)), unbiased)
            assert found.shape == () and found.dtype == dtype
            assert abs(float(found) - expected) <= 20 * n * np.finfo(dtype).eps * size
            expected = reference(gram.cka, first, second, unbiased=unbiased)
            if np.isfinite(expected):
                found = gram.cka(to_device(first), to_device(second), unbiased)
                assert abs(float(found) - expected) <= 1e3 * n * np.finfo(dtype).eps


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (3, 7, 2, 9), (2, 5, 11), (0, 3, 2, 2), (2, 0, 2, 2)])
def test_feature_gram(cuda, dtype, rng, shape):
    x = rng.standard_normal(shape).astype(dtype)
    count = int(np.prod(shape[2:]))
    maps = wide(x).reshape(*shape[:2], count)
    for center in (False, True):
        maps = maps - maps.mean(-1, keepdims=True) if center else maps
        G = gram.feature_gram(to_device(x), center).host
        allowed = (count + 8) * np.finfo(dtype).eps * np.abs(x).max(initial=0) ** 2
        assert_within(G, np.einsum("ncp,nep->nce", maps, maps) / count, allowed)
        assert G.tobytes() == np.ascontiguousarray(G.transpose(0, 2, 1)).tobytes()


def test_empirical_ntk(cuda, dtype, rng):
    J, other = rng.standard_normal((9, 4, 10)).astype(dtype), rng.standard_normal((5, 4, 10)).astype(dtype)
    for second in (other, None):
        K = gram.empirical_ntk(to_device(J), None if second is None else to_device(second)).host
        flat = [a.reshape(len(a), -1) for a in (J, J if second is None else second)]
        assert_within(K, wide(flat[0]) @ wide(flat[1]).T, cases.linear_tolerance(*flat))
    assert K.tobytes() == K.T.tobytes()
    # More parameters than are summed in one chain, in whole numbers.
    J = rng.integers(-1, 2, (2, 4100)).astype(dtype)
    np.testing.assert_array_equal(gram.empirical_ntk(to_device(J)).host, J @ J.T)
    np.testing.assert_array_equal(gram.empirical_ntk(to_device(J), to_device(J[:1])).host, J @ J[:1].T)


@pytest.mark.parametrize("pooling", ["mean", "flatten"])
@pytest.mark.parametrize(
    "depth, size, shape", [(1, 1, (2, 2, 3)), (3, 3, (3, 4, 3)), (2, 5, (2, 3, 2)), (2, 4, (1, 1, 5))]
)
def test_cntk(cuda, dtype, rng, depth, size, shape, pooling):
    X, Y = (rng.standard_normal((n, *shape)).astype(dtype) for n in (3, 2))
    options = {"depth": depth, "kernel_size": size, "pooling": pooling}
    # An angle near 0 is only as exact as the root of the rounding in a sum; it enters every layer.
    error = 2 * depth * np.sqrt(4 * (shape[0] * size**2 + 16) * np.finfo(dtype).eps)
    expected = reference(gram.cntk, X, Y, **options)
    K = gram.cntk(to_device(X), same_layout(np.asfortranarray(Y)), **options)
    assert K.dtype == dtype
    assert_within(K.host, expected, error * np.abs(expected).max())
    # Different images have no small angles but by chance, so that few digits are lost.
    assert_within(K.host, expected, 1e3 * np.finfo(dtype).eps * np.abs(expected).max())
    expected = reference(gram.cntk, X, **options)
    alone = gram.cntk(to_device(X), **options).host
    assert alone.tobytes() == alone.T.tobytes()
    assert_within(alone, expected, error * np.abs(expected).max())
    assert gram.cntk(to_device(X[:0]), to_device(Y), **options).shape == (0, 2)


# ---- what is refused, and what is not computed here ----


def test_errors_before_anything_is_written(cuda, dtype):
    X, out = to_device(np.ones((3, 4), dtype)), to_device(np.full((3, 3), 7, dtype))
    for function, options, error, message in [
        (gram.rbf, {"gamma": -1.0}, ValueError, r"^\[gram\.rbf\] expected gamma"),
        (gram.chi2, {"Y": to_device(np.full((3, 4), -1, dtype))}, ValueError, "expected Y without negative elements"),
        (gram.geometric, {"alpha": 0.9}, ValueError, "expected |alpha² x·y| below 1"),
        (gram.rbf, {"Y": to_device(np.ones((3, 5), dtype))}, ValueError, r"expected Y of shape \(m, 4\)"),
        (gram.matern, {"length_scale": np.ones(3)}, ValueError, "expected length_scale of shape"),
        (gram.ntk, {"Y": np.ones((3, 4), dtype)}, (TypeError, ValueError), "expected Y"),
    ]:
        with pytest.raises(error, match=message):
            function(X, out=out, **options)
    assert (out.host == 7).all()
    with pytest.raises(ValueError, match=r"expected v of shape \(3,\)"):
        gram.matvec(X, to_device(np.ones(4, dtype)))


def test_the_bindings_refuse_what_does_not_fit(cuda, dtype):
    """The extension checks its own arguments: no kernel reads beyond an array."""
    X, wrong = to_device(np.ones((3, 4), dtype)), to_device(np.full((2, 2), 7, dtype))
    named = {"gamma": 1.0}
    with pytest.raises(ValueError, match=r"out: expected shape \(3, 3\), got"):
        cuda.gram.rbf(X, None, 1.0, wrong)
    with pytest.raises(ValueError, match="Y: expected 4 columns, got 2"):
        cuda.gram.rbf(X, wrong, 1.0, wrong)
    with pytest.raises(ValueError, match="v: expected 3 rows, got 2"):
        cuda.gram.matvec(X, wrong, None, "rbf", named, wrong)
    with pytest.raises(ValueError, match="expected the name of a kernel"):
        cuda.gram.diag(X, "rbff", named, wrong)
    with pytest.raises(ValueError, match="expected the parameter gamma"):
        cuda.gram.diag(X, "rbf", {}, wrong)
    with pytest.raises(TypeError, match="expected X, Y, 1 parameters"):
        cuda.gram.rbf(X, None, wrong)
    assert (wrong.host == 7).all()


def test_what_runs_on_the_reference(cuda, rng, monkeypatch):
    """Bessel forms, parameters beyond float32, and gradients of sinc; they run, on the device's library."""
    monkeypatch.setattr(_dispatch.Call, "_run_reference", RUN_REFERENCE)
    X = rng.standard_normal((4, 3)).astype(np.float32)
    K = gram.rbf(to_device(X), gamma=1e-40)
    assert type(K) is Array and np.all(K.host == 1)
    ran = []
    monkeypatch.setattr(_dispatch.Call, "_run_reference", lambda call, parameters: ran.append(call.operation.name))
    images, weights = to_device(np.ones((1, 1, 100, 100))), to_device(np.ones((4, 4), np.float32))
    for function in (
        lambda: gram.rbf(to_device(X), gamma=1e-40),
        lambda: gram.matern(to_device(X), nu=0.7),
        lambda: gram.softmax_matvec(to_device(X), to_device(X), to_device(X), 1e-40),
        lambda: gram.gram_vjp(to_device(X), weights, None, "sinc"),
        lambda: gram.cntk(images),
        lambda: gram.cntk(images[:, :, :2, :2], depth=0),
    ):
        with contextlib.suppress(TypeError):  # what is made of nothing
            function()
    assert ran == [f"gram.{name}" for name in ("rbf", "matern", "softmax_matvec", "gram_vjp", "cntk", "cntk")]


def test_a_missing_barrier_is_noticed(cuda, dtype, rng):
    """Every barrier of the tile's loop is needed: without it, another result in some order of the threads."""
    if not cuda.emulated:
        pytest.skip("only the emulation can leave barriers out")
    X, v = rng.standard_normal((40, 40)).astype(dtype), rng.standard_normal((40, 1)).astype(dtype)

    def found():
        return compute("rbf", X).tobytes(), gram.matvec(to_device(X), to_device(v)).host.tobytes()

    expected = found()
    noticed = []
    try:
        for barrier in range(5 if dtype == np.float32 else 10):
            for order in ("fwd", "rev", "random"):
                cuda.set_order(order)
                cuda.skip_barrier(barrier)
                try:
                    differs = found() != expected
                except RuntimeError:
                    differs = True
                if differs:
                    noticed.append(barrier)
                    break
    finally:
        cuda.skip_barrier(-1)
    assert noticed == list(range(5 if dtype == np.float32 else 10))
