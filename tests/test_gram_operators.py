"""What is made of kernels without their Gram matrices, against what is made of the Gram matrices."""

import math

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from cases import layouts, wide
from cases.gram_gradients import gradient_tolerance
from fastdl import gram
from fastdl._kernels import KERNELS
from fastdl.reference import gram as reference

ALL = pytest.mark.parametrize("name", tuple(KERNELS))


def label(value):
    return value if isinstance(value, str) else ",".join(f"{k}={v}" for k, v in value.items()) or "defaults"


TRIED = pytest.mark.parametrize("name, params", cases.KERNEL_CASES, ids=label)


class TestMatvec:
    @TRIED
    def test_like_the_product_with_the_matrix(self, level, dtype, rng, name, params):
        for n, m, d, p in [(33, 17, 9, 3), (1, 65, 4, 1), (64, 8, 1, 2), (7, 9, 0, 2)]:
            X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
            for others, count in ((Y, m), (None, n)):
                v = rng.standard_normal((count, p)).astype(dtype)
                K = cases.kernel_expected(name, X, others, **params)
                allowed = cases.kernel_tolerance(name, X, others, **params) + (count + 2) * np.finfo(
                    dtype
                ).eps * np.abs(K)
                allowed = allowed @ np.abs(v)
                found = gram.matvec(X, v, others, name, **params)
                assert found.shape == (n, p) and found.dtype == dtype
                assert np.all(np.abs(found - K @ wide(v)) <= allowed)
                single = gram.matvec(X, v[:, 0], others, name, **params)
                assert single.shape == (n,) and np.all(np.abs(single - K @ wide(v)[:, 0]) <= allowed[:, 0])

    def test_empty(self, level, dtype):
        for n, m, p in [(0, 4, 2), (4, 0, 2), (4, 3, 0)]:
            X, Y, v = np.ones((n, 2), dtype), np.ones((m, 2), dtype), np.ones((m, p), dtype)
            np.testing.assert_array_equal(gram.matvec(X, v, Y, "linear"), np.full((n, p), 2.0 * m))

    def test_layouts_and_promotion(self, level, rng):
        X, Y, v = rng.standard_normal((9, 5)), rng.standard_normal((7, 5)), rng.standard_normal((7, 3))
        expected = gram.rbf(X, Y) @ v
        for _, x in layouts(X):
            for _, u in layouts(v):
                np.testing.assert_allclose(gram.matvec(x, u, Y), expected, rtol=1e-12, atol=1e-13)
        assert gram.matvec(X, v[:, 1].astype(np.float32), Y).dtype == np.float64
        assert gram.matvec(X.astype(np.float32), v.astype(np.float32), Y.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(
            gram.matvec(X, v, Y, gram.laplacian, gamma=2), gram.laplacian(X, Y, 2) @ v, rtol=1e-12
        )

    def test_nan_stays_in_its_row(self, level, dtype, rng):
        X, Y, v = (rng.standard_normal(shape).astype(dtype) for shape in ((9, 5), (7, 5), (7, 2)))
        clean = gram.matvec(X, v, Y)
        X[3, 2] = np.nan
        found = gram.matvec(X, v, Y)
        assert np.all(np.isnan(found[3]))
        np.testing.assert_array_equal(np.delete(found, 3, 0), np.delete(clean, 3, 0))

    def test_errors(self, level):
        X = np.ones((4, 3))
        for v, message in [(np.ones(3), r"\(4,\) or \(4, p\), got \(3,\)"), (np.ones((4, 2, 1)), "got")]:
            with pytest.raises(ValueError, match=rf"^\[gram\.matvec\] expected v of shape .*{message}"):
                gram.matvec(X, v)
        with pytest.raises(TypeError, match=r"^\[gram\.matvec\] expected v to be an array, got None"):
            gram.matvec(X, None)
        with pytest.raises(ValueError, match=r"^\[gram\.matvec\] expected Y of shape \(m, 3\)"):
            gram.matvec(X, np.ones(2), np.ones((2, 2)))


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@ALL
def test_other_libraries(library, level, rng, name):
    xp = pytest.importorskip(library)
    X, Y = (cases.samples(name, rng, n, 5, np.float64) for n in (9, 7))
    v, grad = rng.standard_normal((7, 2)), rng.standard_normal((9, 2))
    x, y, u, g = (xp.asarray(value) for value in (X, Y, v, grad))
    for found, expected in [
        (gram.matvec(x, u, y, name), gram.matvec(X, v, Y, name)),
        (gram.diag(x, name), gram.diag(X, name)),
        (gram.distance(x, y, name), gram.distance(X, Y, name)),
        (gram.distance(x, kernel=name), gram.distance(X, kernel=name)),
        (gram.matvec_vjp(x, u, g, y, name).X, gram.matvec_vjp(X, v, grad, Y, name).X),
        (gram.matvec_vjp(x, u[:, 0], g[:, 0], y, name).v, gram.matvec_vjp(X, v[:, 0], grad[:, 0], Y, name).v),
        (gram.softmax_matvec(x, y, u), gram.softmax_matvec(X, Y, v)),
        (reference.matvec(x, u, y, name, KERNELS[name].named("", 5, {})), gram.matvec(X, v, Y, name)),
    ]:
        assert type(found) is type(x)
        np.testing.assert_allclose(np.from_dlpack(found), expected, rtol=1e-10, atol=1e-10)


class TestGradients:
    """Against central differences in float64: their error is h² of the third derivative and eps/h of the value."""

    STEP = 1e-5

    def differences(self, function, array):
        found = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            moved = array.copy()
            moved[index] += self.STEP
            above = function(moved)
            moved[index] -= 2 * self.STEP
            found[index] = (above - function(moved)) / (2 * self.STEP)
        return found

    @TRIED
    @pytest.mark.parametrize("alone", [False, True], ids=["two sets", "one set"])
    def test_every_argument(self, level, rng, name, params, alone):
        X, Y = (0.2 + cases.samples(name, rng, n, 3, np.float64) * 0.8 for n in (5, 4))
        if name == "geometric":
            X, Y = X / 2, Y / 2
        others = None if alone else Y
        v, grad = rng.standard_normal((5 if alone else 4, 2)), rng.standard_normal((5, 2))

        def value(X=X, Y=others, v=v, **changed):
            return float(np.sum(grad * gram.matvec(X, v, Y, name, **{**params, **changed})))

        found = gram.matvec_vjp(X, v, grad, others, name, **params)
        # Third derivatives of these kernels stay below some hundreds here, and so do the values.
        allowed = 1e3 * self.STEP**2 + 1e3 * np.finfo(np.float64).eps / self.STEP
        if name in ("rbf", "matern"):
            # What compiled distances may be off by, seen through the differences.
            allowed += 20 * cases.distance_error(np.float64, 3) / self.STEP
        if alone and (
            (name == "ntk" and params.get("depth") != 0) or (name == "arc_cosine" and params.get("order") == 0)
        ):
            # The step itself goes through the kink at a sample itself, so that √ of rounding shows.
            allowed += 1e-3
        assert np.all(np.abs(found.X - self.differences(lambda X: value(X=X), X)) <= allowed)
        assert np.all(np.abs(found.v - self.differences(lambda v: value(v=v), v)) <= allowed)
        if alone:
            assert found.Y is None
        else:
            assert np.all(np.abs(found.Y - self.differences(lambda Y: value(Y=Y), Y)) <= allowed)
        if "gamma" in KERNELS[name].defaults:
            gamma = np.array(params.get("gamma", 1.0 if name == "chi2" else 1 / 3), float)
            if gamma == 0:  # on the edge of what is allowed, where the derivative is that of 1 − γ‖x−y‖²
                square = ((X[:, None] - (X if alone else Y)[None]) ** 2).sum(-1)
                slope = -np.sum(grad @ v.T * square)
            else:
                slope = self.differences(lambda gamma: value(gamma=float(gamma)), gamma)
            assert isinstance(found.gamma, float) and abs(found.gamma - slope) <= allowed
        else:
            assert found.gamma is None

    @pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
    def test_a_length_scale_for_each_feature(self, level, rng, nu):
        X, Y, v, grad = (rng.standard_normal(shape) for shape in ((5, 3), (4, 3), (4,), (5,)))
        params = {"kernel": "matern", "length_scale": [0.5, 1.0, 3.0], "nu": nu}
        found = gram.matvec_vjp(X, v, grad, Y, **params)
        allowed = 1e3 * self.STEP**2 + 1e3 * np.finfo(np.float64).eps / self.STEP
        expected = self.differences(lambda X: float(grad @ gram.matvec(X, v, Y, **params)), X)
        assert np.all(np.abs(found.X - expected) <= allowed)
        expected = self.differences(lambda Y: float(grad @ gram.matvec(X, v, Y, **params)), Y)
        assert np.all(np.abs(found.Y - expected) <= allowed)
        assert found.v.shape == (4,)

    @TRIED
    @pytest.mark.parametrize("alone", [False, True], ids=["two sets", "one set"])
    @pytest.mark.parametrize("n, m, d, p", [(5, 150, 19, 1), (53, 7, 6, 5)])
    def test_like_the_reference_in_float64(self, native_level, dtype, rng, name, params, alone, n, m, d, p):
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        X, Y = (np.concatenate((X, Y)), None) if alone else (X, Y)
        v, grad = (rng.standard_normal((count, p)).astype(dtype) for count in (len(X) if alone else m, len(X)))
        found = gram.matvec_vjp(X, v, grad, Y, name, **params)
        with fastdl.backend("reference"):
            wide_Y = None if alone else Y.astype(np.float64)
            expected = gram.matvec_vjp(*(a.astype(np.float64) for a in (X, v, grad)), wide_Y, name, **params)
        for_X, for_Y, for_gamma = gradient_tolerance(name, X, v, grad, Y, **params)
        assert found.X.dtype == dtype and np.all(np.linalg.norm(found.X - expected.X, axis=1) <= for_X)
        assert alone or np.all(np.linalg.norm(found.Y - expected.Y, axis=1) <= for_Y)
        assert for_gamma is None or abs(found.gamma - expected.gamma) <= for_gamma
        tolerance = cases.kernel_tolerance(name, X, Y, **params)
        K = np.abs(cases.kernel_expected(name, X, Y, **params)).astype(np.float64)
        allowed = (tolerance + (len(X) + 2) * np.finfo(dtype).eps * K).T @ np.abs(grad)
        assert np.all(np.abs(found.v - expected.v) <= allowed)

    @TRIED
    def test_any_number_of_threads_and_any_layout_give_the_same_bits(
        self, native_level, dtype, rng, keep_threads, name, params
    ):
        n, m, d, p = 301, 270, 37, 3
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        v, grad = rng.standard_normal((m, p)).astype(dtype), rng.standard_normal((n, p)).astype(dtype)

        def bits(*arrays):
            found = gram.matvec_vjp(*arrays, name, **params)
            return [
                getattr(found, part) if part == "gamma" else getattr(found, part).tobytes() for part in found._fields
            ]

        fastdl.set_num_threads(1)
        expected = bits(X, v, grad, Y)
        for count in (2, 5):
            fastdl.set_num_threads(count)
            assert bits(X, v, grad, Y) == expected
        padded = np.zeros((n, 2 * d), dtype)
        padded[:, ::2] = X
        # Lengths of rows are summed in another order where features lie apart: only the products are the same.
        if name in ("linear", "polynomial", "sigmoid", "geometric", "laplacian", "chi2", "additive_chi2", "sinc"):
            assert bits(padded[:, ::2], v[::-1][::-1], np.asfortranarray(grad), np.asfortranarray(Y)) == expected

    @ALL
    def test_rows_are_independent_and_parts_add_up(self, native_level, rng, name):
        X, Y = (cases.samples(name, rng, n, 9, np.float64) for n in (50, 300))
        v, grad = rng.standard_normal((300, 2)), rng.standard_normal((50, 2))
        whole = gram.matvec_vjp(X, v, grad, Y, name)
        np.testing.assert_array_equal(gram.matvec_vjp(X[7:20], v, grad[7:20], Y, name).X, whole.X[7:20])
        parts = [gram.matvec_vjp(X, v[part], grad, Y[part], name) for part in (slice(0, 111), slice(111, 300))]
        size = np.abs(whole.X).max()
        np.testing.assert_allclose(parts[0].X + parts[1].X, whole.X, rtol=0, atol=1e-11 * size)
        np.testing.assert_allclose(np.concatenate([part.v for part in parts]), whole.v, rtol=1e-11, atol=1e-10)

    @ALL
    def test_blocks_of_the_reference_change_little(self, rng, name, monkeypatch):
        from fastdl.reference import gram_gradients

        X, Y = (cases.samples(name, rng, n, 6, np.float64) for n in (40, 30))
        v, grad = rng.standard_normal((30, 2)), rng.standard_normal((40, 2))
        with fastdl.backend("reference"):
            whole = gram.matvec_vjp(X, v, grad, Y, name)
            monkeypatch.setattr(gram_gradients, "_BLOCK", 1)
            blocked = gram.matvec_vjp(X, v, grad, Y, name)
        for part in ("X", "Y", "v", "gamma"):
            expected = getattr(whole, part)
            if expected is not None:
                found, size = getattr(blocked, part), np.abs(expected).max()
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * size)

    def test_close_samples_far_from_the_others(self, level):
        """Differences count, not the samples: a unit vector towards the neighbour, whatever its distance."""
        for dtype, gap in ((np.float32, 2.0**-12), (np.float64, 2.0**-40)):
            X = np.array([[100.0, 0, 0, 0, 0, 0, 0, 0, 0, 3]], dtype)
            Y = X.copy()
            Y[0, 9] += gap
            far = np.concatenate((Y, -X))
            found = gram.matvec_vjp(X, np.ones(2, dtype), np.ones(1, dtype), far, "matern", nu=0.5)
            # e^-r of the neighbour; the other one is 200 away.
            np.testing.assert_allclose(found.X[0], [0] * 9 + [np.exp(-gap)], rtol=1e-5, atol=1e-6)

    def test_nan_stays_with_its_pairs(self, native_level, dtype, rng):
        X, Y = (cases.samples("chi2", rng, n, 5, dtype) for n in (9, 7))
        v, grad = rng.standard_normal((7, 2)).astype(dtype), rng.standard_normal((9, 2)).astype(dtype)
        for name in KERNELS:
            clean = gram.matvec_vjp(X, v, grad, Y, name)
            broken = X.copy()
            broken[3, 2] = np.nan
            found = gram.matvec_vjp(broken, v, grad, Y, name)
            # One of linear does not look at x, and an elementwise one only at the same feature.
            assert np.any(np.isnan(found.X[3])) or name == "linear"
            np.testing.assert_array_equal(np.delete(found.X, 3, 0), np.delete(clean.X, 3, 0))
            assert np.all(np.any(np.isnan(found.Y), axis=1)) and np.all(np.isnan(found.v))

    def test_where_there_is_no_gradient_it_is_zero(self, level):
        X = np.array([[1.0, 2.0]])
        one = np.ones(1)
        for name, params in [
            ("laplacian", {}),
            ("matern", {"nu": 0.5}),
            ("arc_cosine", {"order": 0}),
            ("rbf", {}),
            ("chi2", {}),
            ("cosine", {}),
        ]:
            found = gram.matvec_vjp(X, one, one, X.copy(), name, **params)
            np.testing.assert_allclose(found.X, 0, atol=1e-15, err_msg=name)
            np.testing.assert_allclose(found.Y, 0, atol=1e-15, err_msg=name)
        zero = np.zeros((1, 2))
        for name in ("cosine", "arc_cosine", "chi2", "additive_chi2", "nngp", "ntk"):
            found = gram.matvec_vjp(zero, one, one, zero.copy(), name)
            assert np.all(found.X == 0) and np.all(found.Y == 0), name

    @pytest.mark.parametrize("name", ["cosine", "arc_cosine", "nngp", "ntk"])
    def test_zero_and_parallel_samples(self, native_level, dtype, rng, name):
        X, Y = rng.standard_normal((5, 6)).astype(dtype), rng.standard_normal((6, 6)).astype(dtype)
        X[0] = Y[0] = 0
        Y[1], Y[2], Y[3] = X[1], 2 * X[2], -X[3]
        v, grad = rng.standard_normal((6, 2)).astype(dtype), rng.standard_normal((5, 2)).astype(dtype)
        tried = {"cosine": [{}], "arc_cosine": [{"order": order} for order in range(3)]}
        layers = [{"depth": depth, "b_std": bias, "w_std": 1.3} for depth in (0, 1, 2, 4) for bias in (0, 0.5)]
        for params in tried.get(name, layers):
            found = gram.matvec_vjp(X, v, grad, Y, name, **params)
            with fastdl.backend("reference"):
                expected = gram.matvec_vjp(*(a.astype(np.float64) for a in (X, v, grad, Y)), name, **params)
            # Angles are known to 1e-5 and 1e-12, and none but those of parallel samples are small here.
            for part in ("X", "Y", "v"):
                size = np.abs(getattr(expected, part)).max()
                error = np.abs(getattr(found, part) - getattr(expected, part)).max()
                assert error <= 2 * cases.distance_error(dtype, 6) * size, (part, params)

    def test_empty(self, level, dtype):
        for n, m, d, p in [(0, 3, 2, 1), (3, 0, 2, 1), (3, 4, 0, 1), (3, 4, 2, 0), (0, 0, 0, 0)]:
            X, Y, v, grad = (np.ones(shape, dtype) / 4 for shape in ((n, d), (m, d), (m, p), (n, p)))
            for name in KERNELS:
                found = gram.matvec_vjp(X, v, grad, Y, name)
                assert found.X.shape == (n, d) and found.Y.shape == (m, d) and found.v.shape == (m, p)
                if 0 in (n, m, p):
                    assert np.all(found.X == 0) and np.all(found.Y == 0) and np.all(found.v == 0)
                    assert found.gamma in (0, None)
                assert gram.matvec_vjp(X, grad, grad, None, name).X.shape == (n, d)

    def test_errors(self, level):
        X, v = np.ones((4, 3)), np.ones(4)
        for grad in (np.ones(3), np.ones((4, 1))):
            with pytest.raises(ValueError, match=r"^\[gram\.matvec_vjp\] expected grad of shape \(4,\), got"):
                gram.matvec_vjp(X, v, grad)
        with pytest.raises(ValueError, match=r"^\[gram\.matvec_vjp\] expected nu of 0.5, 1.5, 2.5 or inf, got 0.7"):
            gram.matvec_vjp(X, v, v, kernel="matern", nu=0.7)
        with pytest.raises(ValueError, match=r"^\[gram\.matvec_vjp\] expected v of shape \(4,\) or \(4, p\)"):
            gram.matvec_vjp(X, np.ones(3), v)


class TestGramGradients:
    """Gradients of Σ G ∘ K: those of G = grad vᵀ are known from `matvec_vjp`, and any G is a sum of such."""

    @TRIED
    @pytest.mark.parametrize("alone", [False, True], ids=["two sets", "one set"])
    @pytest.mark.parametrize("n, m, d, p", [(5, 150, 19, 1), (53, 7, 6, 5)])
    def test_those_of_a_product(self, level, dtype, rng, name, params, alone, n, m, d, p):
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        X, Y = (np.concatenate((X, Y)), None) if alone else (X, Y)
        v, grad = (rng.standard_normal((count, p)).astype(dtype) for count in (len(X) if alone else m, len(X)))
        found = gram.gram_vjp(X, grad @ v.T, Y, name, **params)
        with fastdl.backend("reference"):
            wide_Y = None if alone else Y.astype(np.float64)
            expected = gram.matvec_vjp(*(a.astype(np.float64) for a in (X, v, grad)), wide_Y, name, **params)
        for_X, for_Y, for_gamma = gradient_tolerance(name, X, v, grad, Y, **params)
        assert found.X.dtype == dtype and np.all(np.linalg.norm(found.X - expected.X, axis=1) <= for_X)
        assert found.Y is None if alone else np.all(np.linalg.norm(found.Y - expected.Y, axis=1) <= for_Y)
        assert found.gamma is None if for_gamma is None else abs(found.gamma - expected.gamma) <= for_gamma

    @TRIED
    def test_every_weight_by_itself(self, level, rng, name, params):
        """With one weight that is not 0 it is the gradient of one pair: sums over all pairs add up."""
        X, Y = (cases.samples(name, rng, n, 4, np.float64) for n in (3, 2))
        grad = rng.standard_normal((3, 2))
        whole, parts = gram.gram_vjp(X, grad, Y, name, **params), np.zeros((3, 4))
        for i, j in np.ndindex(3, 2):
            single = np.zeros((1, 1)) + grad[i, j]
            parts[i] += gram.gram_vjp(X[i : i + 1], single, Y[j : j + 1], name, **params).X[0]
        # Kernels of distances centre each pair by itself, which their accuracy is promised for.
        error = 20 * cases.distance_error(np.float64, 4) if name in ("rbf", "matern") else 1e-12
        np.testing.assert_allclose(parts, whole.X, rtol=0, atol=error * (1 + np.abs(whole.X).max()))

    @ALL
    def test_threads_and_layouts_give_the_same_bits(self, native_level, dtype, rng, keep_threads, name):
        n, m, d = 301, 270, 37
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        grad = rng.standard_normal((n, m)).astype(dtype)
        fastdl.set_num_threads(1)
        expected = gram.gram_vjp(X, grad, Y, name)
        alone = gram.gram_vjp(X, grad[:, :1] * np.ones(n, dtype), None, name)
        padded = np.zeros((n, 2 * m), dtype)
        padded[:, ::2] = grad
        for count, weights in ((2, grad), (5, np.asfortranarray(grad)), (2, padded[:, ::2]), (1, grad[::-1][::-1])):
            fastdl.set_num_threads(count)
            found = gram.gram_vjp(X, weights, Y, name)
            assert found.X.tobytes() == expected.X.tobytes() and found.Y.tobytes() == expected.Y.tobytes()
            assert found.gamma == expected.gamma
            again = gram.gram_vjp(X, grad[:, :1] * np.ones(n, dtype), X, name)
            assert again.Y is None and again.X.tobytes() == alone.X.tobytes() and again.gamma == alone.gamma

    def test_empty(self, level, dtype):
        for n, m, d in [(0, 3, 2), (3, 0, 2), (3, 4, 0), (0, 0, 0)]:
            X, Y, grad = (np.ones(shape, dtype) / 4 for shape in ((n, d), (m, d), (n, m)))
            for name in KERNELS:
                found = gram.gram_vjp(X, grad, Y, name)
                assert found.X.shape == (n, d) and found.Y.shape == (m, d) and found.gamma in (0, None)
                assert not found.X.any() and not found.Y.any()
                assert gram.gram_vjp(X, np.ones((n, n), dtype), None, name).X.shape == (n, d)

    def test_errors(self, level):
        X = np.ones((4, 3))
        for grad in (np.ones(4), np.ones((4, 3)), np.ones((3, 4))):
            with pytest.raises(ValueError, match=r"^\[gram\.gram_vjp\] expected grad of shape \(4, 4\), got"):
                gram.gram_vjp(X, grad)
        with pytest.raises(ValueError, match=r"^\[gram\.gram_vjp\] expected nu of 0.5, 1.5, 2.5 or inf, got 0.7"):
            gram.gram_vjp(X, np.ones((4, 4)), kernel="matern", nu=0.7)
        with pytest.raises(ValueError, match=r"^\[gram\.gram_vjp\] expected Y of shape \(m, 3\), got"):
            gram.gram_vjp(X, np.ones((4, 4)), np.ones((4, 2)))
        with pytest.raises(TypeError, match=r"^\[gram\.gram_vjp\] expected grad to be an array, got None"):
            gram.gram_vjp(X, None)


class TestSoftmax:
    def dense(self, Q, K, V, scale):
        score = scale * (wide(Q) @ wide(K).T)
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True), score

    @pytest.mark.parametrize(
        "n, m, d, p", [(1, 1, 1, 1), (7, 33, 8, 5), (65, 17, 31, 1), (16, 300, 3, 64), (5, 4, 0, 2)]
    )
    @pytest.mark.parametrize("scale", [None, 0.7, -2.0, 0])
    def test_like_the_dense_matrix(self, level, dtype, rng, n, m, d, p, scale):
        Q, K, V = (rng.standard_normal(shape).astype(dtype) for shape in ((n, d), (m, d), (m, p)))
        factor = 1 / math.sqrt(max(1, d)) if scale is None else scale
        weight, score = self.dense(Q, K, V, factor)
        eps = np.finfo(dtype).eps
        # An error in a score is a relative error of its weight.
        error = abs(factor) * (d + 3) * eps * (np.abs(wide(Q)) @ np.abs(wide(K)).T).max(axis=1, keepdims=True)
        error = 2 * (error + eps * np.abs(score).max(axis=1, keepdims=True)) + (2 * m + 16) * eps
        allowed = error * (weight @ np.abs(wide(V)))
        found = gram.softmax_matvec(Q, K, V, scale)
        assert found.shape == (n, p) and found.dtype == dtype
        assert np.all(np.abs(found - weight @ wide(V)) <= allowed)
        single = gram.softmax_matvec(Q, K, V[:, 0], scale)
        assert single.shape == (n,) and np.all(np.abs(single - (weight @ wide(V))[:, 0]) <= allowed[:, 0])

    def test_rows_are_averages(self, level, dtype, rng):
        Q, K = rng.standard_normal((9, 4)).astype(dtype), rng.standard_normal((70, 4)).astype(dtype)
        ones = gram.softmax_matvec(Q, K, np.ones((70, 3), dtype))
        assert np.all(np.abs(ones - 1) <= 80 * np.finfo(dtype).eps)
        V = rng.standard_normal((70, 3)).astype(dtype)
        shifted = gram.softmax_matvec(Q, K, V + 8)
        assert np.all(np.abs(shifted - 8 - gram.softmax_matvec(Q, K, V)) <= 16 * 80 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(gram.softmax_matvec(Q[:, :0], K[:1, :0], V[:1]), np.broadcast_to(V[:1], (9, 3)))

    def test_large_scores_neither_overflow_nor_vanish(self, level, dtype):
        Q = np.array([[1000.0], [-1000.0]], dtype)
        K = np.array([[1.0], [-1.0], [0.5]], dtype)
        V = np.array([[1.0], [2.0], [4.0]], dtype)
        np.testing.assert_array_equal(gram.softmax_matvec(Q, K, V, 1.0), [[1], [2]])
        # The largest score comes last, so a running maximum has to be corrected all the way.
        K = np.arange(200, dtype=dtype)[:, None]
        np.testing.assert_array_equal(gram.softmax_matvec(Q[:1], K, K, 1.0), [[199]])

    def test_without_keys_or_queries(self, level, dtype):
        empty = np.zeros((0, 3), dtype)
        np.testing.assert_array_equal(
            gram.softmax_matvec(np.ones((4, 3), dtype), empty, np.ones((0, 2), dtype)), np.zeros((4, 2))
        )
        assert gram.softmax_matvec(empty, np.ones((4, 3), dtype), np.ones((4, 2), dtype)).shape == (0, 2)

    def test_nan_stays_in_its_row(self, level, dtype, rng):
        Q, K, V = (rng.standard_normal(shape).astype(dtype) for shape in ((9, 4), (17, 4), (17, 3)))
        clean = gram.softmax_matvec(Q, K, V)
        Q[5, 0] = np.nan
        found = gram.softmax_matvec(Q, K, V)
        assert np.all(np.isnan(found[5]))
        np.testing.assert_array_equal(np.delete(found, 5, 0), np.delete(clean, 5, 0))

    def test_errors(self, level):
        Q, K, V = np.ones((4, 3)), np.ones((5, 3)), np.ones((5, 2))
        for arguments, message in [
            ((np.ones(3), K, V), r"expected Q of shape \(n, d\)"),
            ((Q, np.ones((5, 2)), V), r"expected K of shape \(m, 3\), got \(5, 2\)"),
            ((Q, K, np.ones((4, 2))), r"expected V of shape \(5, p\) or \(5,\), got \(4, 2\)"),
            ((Q, K, V, np.inf), "expected scale to be a finite number, or None, got inf"),
        ]:
            with pytest.raises(ValueError, match=rf"^\[gram\.softmax_matvec\] {message}"):
                gram.softmax_matvec(*arguments)
        with pytest.raises(TypeError, match="expected scale"):
            gram.softmax_matvec(Q, K, V, "1")
        with pytest.raises(TypeError, match="expected V to be an array, got None"):
            gram.softmax_matvec(Q, K, None)


@pytest.mark.parametrize("features", [3, 17, 300])
def test_distance_of_samples_does_not_cancel(level, dtype, rng, features):
    """Far from the origin and close together, where differences of squares have no digit left."""
    X = (1000 + 0.1 * rng.standard_normal((21, features))).astype(dtype)
    Y = (1000 + 0.1 * rng.standard_normal((9, features))).astype(dtype)
    limit = 2e-5 if dtype == np.float32 else 2e-12  # twice that of a distance, of which it is the square
    for other in (Y, X):
        expected = ((X.astype(np.longdouble)[:, None] - other.astype(np.longdouble)) ** 2).sum(-1)
        np.testing.assert_allclose(gram.distance(X, None if other is X else Y, "linear"), expected, rtol=limit, atol=0)
    assert np.all(np.diagonal(gram.distance(X, kernel="linear")) == 0)


@pytest.mark.parametrize("features", [9, 100, 200, 500, 784, 1500])
@pytest.mark.parametrize("signs", [False, True])
def test_distance_of_samples_whose_features_have_one_size(level, dtype, rng, features, signs):
    """Roundings of equal terms add up instead of averaging out."""
    sizes = rng.standard_normal((90, 1)).astype(dtype)
    sign = rng.choice([-1, 1], features).astype(dtype) if signs else np.ones(features, dtype)
    X, Y = sizes[:50] * sign, sizes[50:] * sign
    expected = features * (wide(sizes[:50]) - wide(sizes[50:]).T) ** 2
    error = np.abs(gram.distance(X, Y, "linear") - expected)
    # Twice that of the distance, of which it is the square. float32 does not keep its promise here (docs/gram.md): it
    # would be 2e-5.
    assert np.all(error <= (5e-5 if dtype == np.float32 else 2e-12) * expected)


@TRIED
def test_distance_in_feature_space(level, dtype, rng, name, params):
    X, Y = cases.samples(name, rng, 19, 7, dtype), cases.samples(name, rng, 13, 7, dtype)
    expected = [cases.kernel_expected(name, a, b, **params) for a, b in ((X, Y), (X, None), (Y, None))]
    allowed = [cases.kernel_tolerance(name, a, b, **params) for a, b in ((X, Y), (X, None), (Y, None))]
    xx, yy = np.diagonal(expected[1]), np.diagonal(expected[2])
    eps = np.finfo(dtype).eps
    limit = (
        2 * allowed[0]
        + np.diagonal(allowed[1])[:, None]
        + np.diagonal(allowed[2])[None, :]
        + 4 * eps * (np.abs(xx)[:, None] + np.abs(yy)[None, :])
    )
    found = gram.distance(X, Y, name, **params)
    assert np.all(np.abs(found - np.maximum(0, xx[:, None] + yy[None, :] - 2 * expected[0])) <= limit)
    alone = gram.distance(X, kernel=name, **params)
    assert alone.dtype == dtype and alone.tobytes() == np.ascontiguousarray(alone.T).tobytes()
    np.testing.assert_array_equal(np.diagonal(alone), 0)
    assert np.all(alone >= 0)
    X[3, 0] = np.nan
    alone = gram.distance(X, kernel=name, **params)
    np.testing.assert_array_equal(np.isnan(alone), (np.arange(19) == 3)[:, None] | (np.arange(19) == 3)[None, :])
