"""Statistics of Gram matrices: against their definitions, and what they do not change under."""

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from cases import layouts, wide
from fastdl import gram
from fastdl.reference import gram as reference


def psd(rng, n, dtype, rank=6):
    A = rng.standard_normal((n, rank))
    return (A @ A.T).astype(dtype)


class TestCenter:
    @pytest.mark.parametrize("n", [0, 1, 2, 9, 65, 200])
    def test_definition(self, level, dtype, rng, n):
        K = (rng.standard_normal((n, n)) + 3).astype(dtype)
        H = np.eye(n) - np.full((n, n), 1 / max(1, n))
        found = gram.center(K)
        eps = np.finfo(dtype).eps
        assert found.dtype == dtype and found.shape == (n, n)
        assert np.all(np.abs(found - H @ K.astype(float) @ H) <= 4 * (n + 4) * eps * np.abs(K).max(initial=0))

    def test_constants_vanish_and_twice_is_once(self, level, dtype, rng):
        K = psd(rng, 17, dtype)
        limit = 100 * np.finfo(dtype).eps * np.abs(K).max()
        centred = gram.center(K)
        assert np.all(np.abs(centred.sum(0)) <= 17 * limit) and np.all(np.abs(centred.sum(1)) <= 17 * limit)
        assert np.all(np.abs(gram.center(centred) - centred) <= limit)
        shift = rng.standard_normal(17).astype(dtype)
        assert np.all(np.abs(gram.center(K + shift[:, None] + shift[None, :]) - centred) <= limit)
        np.testing.assert_array_equal(gram.center(np.full((5, 5), 3, dtype)), 0)

    @pytest.mark.parametrize("n", [1, 2, 7, 63, 64, 65, 129, 500])
    def test_a_symmetric_matrix_stays_so_to_the_bit(self, level, dtype, rng, n):
        K = rng.standard_normal((n, n))
        for name, matrix in layouts((K + K.T + 100 * rng.random()).astype(dtype)):
            centred = gram.center(matrix)
            assert centred.tobytes() == np.ascontiguousarray(centred.T).tobytes(), name

    def test_is_the_gram_matrix_of_centred_samples(self, level, rng):
        X = rng.standard_normal((11, 4))
        np.testing.assert_allclose(gram.center(gram.linear(X)), gram.linear(X - X.mean(0)), rtol=0, atol=1e-13)


class TestDependence:
    def definition(self, K, L, unbiased):
        n = len(K)
        if not unbiased:
            H = np.eye(n) - 1 / n
            return np.trace(K @ H @ L @ H) / (n - 1) ** 2
        K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
        one = np.ones(n)
        first = np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
        return (first - 2 / (n - 2) * (one @ K @ L @ one)) / (n * (n - 3))

    @pytest.mark.parametrize("unbiased", [False, True])
    def test_definition(self, level, dtype, rng, unbiased):
        for n in (4, 5, 33):
            K, L = psd(rng, n, dtype), psd(rng, n, dtype)
            size = np.abs(K).max() * np.abs(L).max()
            expected = self.definition(K.astype(float), L.astype(float), unbiased)
            found = gram.hsic(K, L, unbiased)
            assert found.shape == () and found.dtype == dtype
            assert abs(float(found) - expected) <= 20 * n * np.finfo(dtype).eps * size
            expected /= np.sqrt(
                self.definition(K.astype(float), K.astype(float), unbiased)
                * self.definition(L.astype(float), L.astype(float), unbiased)
            )
            if np.isfinite(expected):
                assert abs(float(gram.cka(K, L, unbiased)) - expected) <= 1e3 * n * np.finfo(dtype).eps

    def test_the_unbiased_estimate_is_the_mean_over_all_quadruples(self, level, rng):
        """Of h = K_ij (L_ij + L_kl − 2 L_ik) over all ordered four different samples."""
        from itertools import permutations

        K, L = psd(rng, 6, np.float64), psd(rng, 6, np.float64)
        terms = [K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q]) for i, j, q, r in permutations(range(6), 4)]
        np.testing.assert_allclose(gram.hsic(K, L), np.mean(terms), rtol=1e-12)

    @pytest.mark.parametrize("unbiased", [False, True])
    def test_what_they_do_not_change_under(self, level, rng, unbiased):
        X, Y = rng.standard_normal((20, 4)), rng.standard_normal((20, 3))
        K, L = gram.linear(X), gram.rbf(Y)
        rotation = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        order = rng.permutation(20)
        value, alignment = gram.hsic(K, L, unbiased), gram.cka(K, L, unbiased)
        np.testing.assert_allclose(gram.hsic(L, K, unbiased), value, rtol=1e-11)
        np.testing.assert_allclose(gram.hsic(gram.linear(X @ rotation + 3), L, unbiased), value, rtol=1e-9)
        np.testing.assert_allclose(
            gram.hsic(K[np.ix_(order, order)], L[np.ix_(order, order)], unbiased), value, rtol=1e-10
        )
        np.testing.assert_allclose(gram.hsic(2 * K, 3 * L, unbiased), 6 * value, rtol=1e-11)
        np.testing.assert_allclose(gram.cka(gram.linear(5 * X @ rotation - 1), L, unbiased), alignment, rtol=1e-9)
        np.testing.assert_allclose(gram.cka(K, 7 * K + 2, unbiased), 1, rtol=1e-10)
        assert abs(alignment) <= 1

    def test_the_biased_estimate_is_a_cross_covariance(self, level, rng):
        X, Y = rng.standard_normal((20, 4)), rng.standard_normal((20, 3))
        cross = (X - X.mean(0)).T @ (Y - Y.mean(0)) / 19
        np.testing.assert_allclose(gram.hsic(gram.linear(X), gram.linear(Y), False), np.sum(cross**2), rtol=1e-11)

    def test_independent_samples_have_no_dependence(self, level):
        rng = np.random.default_rng(5)
        values = []
        for _ in range(200):
            X, Y = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
            values.append(float(gram.hsic(gram.rbf(X), gram.rbf(Y))))
        assert abs(np.mean(values)) <= 5 * np.std(values) / np.sqrt(200)

    def test_errors(self, level):
        K = np.eye(5)
        for function in (gram.hsic, gram.cka):
            name = function.__name__
            with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] expected K of shape \(n, n\), got \(5, 4\)"):
                function(K[:, :4], K)
            with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] expected L of shape \(5, 5\), got \(4, 4\)"):
                function(K, np.eye(4))
            with pytest.raises(ValueError, match="expected at least 4 samples for unbiased=True, got 3"):
                function(np.eye(3), np.eye(3), unbiased=True)
            with pytest.raises(ValueError, match="expected at least 2 samples for unbiased=False, got 1"):
                function(np.eye(1), np.eye(1), unbiased=False)
            with pytest.raises(TypeError, match="expected unbiased to be True or False, got int"):
                function(K, K, 1)
            with pytest.raises(TypeError, match="expected L to be an array, got None"):
                function(K, None)
        with pytest.raises(ValueError, match=r"^\[gram\.center\] expected K of shape \(n, n\), got \(5,\)"):
            gram.center(np.ones(5))


class TestFeatureGram:
    @pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (3, 7, 2, 9), (2, 5, 11), (2, 3, 2, 2, 3)])
    def test_definition(self, level, dtype, rng, shape):
        x = rng.standard_normal(shape).astype(dtype)
        maps = x.astype(float).reshape(*shape[:2], -1)
        count = maps.shape[-1]
        for center in (False, True):
            if center:
                maps = maps - maps.mean(-1, keepdims=True)
            G = gram.feature_gram(x, center)
            assert G.dtype == dtype
            allowed = (count + 8) * np.finfo(dtype).eps * np.abs(x).max() ** 2
            assert np.all(np.abs(G - np.einsum("ncp,nep->nce", maps, maps) / count) <= allowed)
            assert G.tobytes() == np.ascontiguousarray(G.transpose(0, 2, 1)).tobytes()
        if count > 1:
            for one, maps_of_one in zip(gram.feature_gram(x.astype(float), True), x.astype(float), strict=True):
                covariance = np.cov(maps_of_one.reshape(shape[1], -1), bias=True)
                np.testing.assert_allclose(one, np.atleast_2d(covariance), rtol=0, atol=1e-13)

    def test_edges_and_errors(self, level):
        assert gram.feature_gram(np.ones((0, 3, 2, 2))).shape == (0, 3, 3)
        assert gram.feature_gram(np.ones((2, 0, 2, 2))).shape == (2, 0, 0)
        for shape in [(2, 3), (2, 3, 0, 4)]:
            with pytest.raises(ValueError, match=r"^\[gram\.feature_gram\] expected x of shape \(N, C, H, W\)"):
                gram.feature_gram(np.ones(shape))


class TestEmpiricalNTK:
    def test_like_a_product(self, level, dtype, rng, monkeypatch):
        from fastdl.reference import gram_statistics

        for block in (1 << 16, 7):
            monkeypatch.setattr(gram_statistics, "_PARAMETERS", block)
            J, other = rng.standard_normal((9, 40)).astype(dtype), rng.standard_normal((5, 40)).astype(dtype)
            for second in (other, None):
                K = gram.empirical_ntk(J, second)
                assert K.dtype == dtype
                allowed = cases.linear_tolerance(J, second) + np.finfo(dtype).eps * np.abs(
                    wide(J) @ wide(J if second is None else second).T
                )
                assert np.all(np.abs(K - wide(J) @ wide(J if second is None else second).T) <= 2 * allowed)
            assert K.tobytes() == np.ascontiguousarray(K.T).tobytes()

    def test_axes_are_flattened(self, level, rng):
        J, other = rng.standard_normal((9, 4, 5, 2)), rng.standard_normal((6, 4, 5, 2))
        expected = np.einsum("iabc,jabc->ij", J, other)
        np.testing.assert_allclose(gram.empirical_ntk(J, other), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            gram.empirical_ntk(J.transpose(0, 3, 1, 2), other.transpose(0, 3, 1, 2)), expected, rtol=0, atol=1e-12
        )
        np.testing.assert_array_equal(gram.empirical_ntk(np.ones((3, 0, 4))), np.zeros((3, 3)))
        assert gram.empirical_ntk(np.ones((0, 4))).shape == (0, 0)

    def test_errors(self, level):
        with pytest.raises(ValueError, match=r"^\[gram\.empirical_ntk\] expected J1 of shape \(n, p\), got \(3,\)"):
            gram.empirical_ntk(np.ones(3))
        with pytest.raises(
            ValueError, match=r"^\[gram\.empirical_ntk\] expected J2 of shape \(m, 4, 2\), got \(3, 8\)"
        ):
            gram.empirical_ntk(np.ones((3, 4, 2)), np.ones((3, 8)))


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_libraries(level, library, dtype, rng):
    xp = pytest.importorskip(library)
    K, L, x = psd(rng, 7, dtype), psd(rng, 7, dtype), rng.standard_normal((2, 3, 4, 5)).astype(dtype)
    k, l, maps = xp.asarray(K), xp.asarray(L), xp.asarray(x)  # noqa: E741
    rtol = 1e-4 if dtype == np.float32 else 1e-11
    for found, expected in [
        (gram.center(k), gram.center(K)),
        (gram.hsic(k, l), gram.hsic(K, L)),
        (gram.cka(k, l), gram.cka(K, L)),
        (gram.feature_gram(maps, center=True), gram.feature_gram(x, center=True)),
        (gram.empirical_ntk(maps), gram.empirical_ntk(x)),
        (reference.hsic(k, l, False), gram.hsic(K, L, False)),
        (reference.empirical_ntk(k, l), gram.empirical_ntk(K, L)),
    ]:
        assert type(found) is type(k) and found.dtype == k.dtype
        np.testing.assert_allclose(np.from_dlpack(found), expected, rtol=rtol, atol=rtol)


def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, rng, keep_threads):
    K, L = (rng.standard_normal((700, 700)).astype(dtype) for _ in range(2))
    x, J = rng.standard_normal((9, 40, 30, 17)).astype(dtype), rng.standard_normal((50, 20_000)).astype(dtype)
    Q = rng.standard_normal((600, 20)).astype(dtype)
    found = []
    for count in (1, 2, 5):
        fastdl.set_num_threads(count)
        results = (
            *(gram.center(K), gram.hsic(K, L), gram.hsic(K, L, False), gram.cka(K, L)),
            *(
                gram.feature_gram(x),
                gram.feature_gram(x, center=True),
                gram.empirical_ntk(J),
                gram.empirical_ntk(J, J[:7]),
            ),
            *(gram.softmax_matvec(Q, Q[::-1], Q), gram.softmax_matvec(Q, Q[::-1], Q[:, 0])),
        )
        found.append([result.tobytes() for result in results])
    assert found[0] == found[1] == found[2]
