"""Gram matrices of samples in scipy.sparse, against those of the same samples made dense."""

import tracemalloc

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from fastdl import gram
from fastdl._kernels import KERNELS

ALL = pytest.mark.parametrize("name", tuple(KERNELS))

sparse = pytest.importorskip("scipy.sparse", reason="needs SciPy")
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
SPARSE_KERNELS = ("linear", "polynomial", "rbf", "cosine")


class TestSparse:
    def samples(self, rng, n, d, dtype, density=0.2):
        X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
        return X.astype(dtype)

    def allowed(self, name, X, Y=None, **params):
        """Sparse distances come from norms and a product: their error is that of the sizes of these."""
        if name != "rbf":
            return cases.kernel_tolerance(name, X, Y, **params)
        x, y = X.astype(float), (X if Y is None else Y).astype(float)
        sizes = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :]
        gamma = params.get("gamma", 1 / max(1, X.shape[1]))
        eps = np.finfo(X.dtype).eps
        return 2 * gamma * (X.shape[1] + 6) * eps * sizes + 8 * eps

    @pytest.mark.parametrize("name", SPARSE_KERNELS)
    def test_like_dense_samples(self, level, dtype, rng, name):
        for n, m, d in [(33, 17, 40), (9, 8, 5), (0, 3, 4), (3, 0, 4), (4, 5, 0)]:
            X, Y = self.samples(rng, n, d, dtype), self.samples(rng, m, d, dtype)
            for params in cases.PARAMETERS[name]:
                expected, limit = cases.kernel_expected(name, X, Y, **params), self.allowed(name, X, Y, **params)
                function = getattr(gram, name)
                pairs = [
                    (sparse.csr_array(X), sparse.csr_array(Y)),
                    (sparse.csr_matrix(X), Y),
                    (X, sparse.csc_array(Y)),
                ]
                for x, y in pairs:
                    K = function(x, y, **params)
                    assert type(K) is np.ndarray and K.dtype == dtype and K.shape == (n, m)
                    assert np.all(np.abs(K - expected) <= limit)
                    np.testing.assert_array_equal(gram.gram(x, y, name, **params), K)
                K = function(sparse.csr_array(X), **params)
                assert K.tobytes() == np.ascontiguousarray(K.T).tobytes()
                limit = self.allowed(name, X, **params)
                assert np.all(np.abs(K - cases.kernel_expected(name, X, **params)) <= limit)
                if name == "rbf":
                    np.testing.assert_array_equal(np.diagonal(K), 1)

    @pytest.mark.parametrize("name", SPARSE_KERNELS)
    def test_any_number_of_threads_gives_the_same_bits(self, native_level, dtype, rng, keep_threads, name):
        X, Y = (sparse.csr_array(self.samples(rng, rows, 60, dtype)) for rows in (301, 217))
        found = []
        for count in (1, 2, 5):
            fastdl.set_num_threads(count)
            found.append([K.tobytes() for K in (gram.gram(X, Y, name), gram.gram(X, kernel=name))])
        assert found[0] == found[1] == found[2]

    @pytest.mark.parametrize("form", FORMATS)
    def test_every_format(self, level, rng, form):
        X = self.samples(rng, 12, 8, np.float64)
        expected = gram.rbf(X)
        for make in (getattr(sparse, f"{form}_array"), getattr(sparse, f"{form}_matrix")):
            np.testing.assert_allclose(gram.rbf(make(X)), expected, rtol=1e-13)
            np.testing.assert_allclose(gram.rbf(make(X), make(X[:5])), expected[:, :5], rtol=1e-13)

    def test_unsorted_and_repeated_entries_are_read_and_left_alone(self, level):
        data, indices, indptr = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])
        X = sparse.csr_array((data, indices, indptr), shape=(2, 3))
        dense = np.array([[2.0, 0, 4.0], [0, 4.0, 0]])
        before = X.data.copy(), X.indices.copy()
        np.testing.assert_array_equal(gram.linear(X), dense @ dense.T)
        np.testing.assert_array_equal(gram.linear(dense, X), dense @ dense.T)
        np.testing.assert_array_equal(X.data, before[0])
        np.testing.assert_array_equal(X.indices, before[1])

    def test_dtypes_and_out(self, level, rng):
        X = (self.samples(rng, 9, 6, np.float64) * 4).round()
        for kind in ("int8", "int64", "bool", "float32", "float64"):
            K = gram.linear(sparse.csr_array(X.astype(kind)))
            assert K.dtype == (np.float32 if kind == "float32" else np.float64)
            np.testing.assert_array_equal(K, X.astype(kind).astype(float) @ X.astype(kind).astype(float).T)
        out = np.full((18, 9), np.nan)[::2]
        assert gram.linear(sparse.csr_array(X), out=out) is out
        np.testing.assert_array_equal(out, X @ X.T)
        with pytest.raises(ValueError, match=r"^\[gram\.linear\] expected out of shape"):
            gram.linear(sparse.csr_array(X), out=np.zeros((3, 3)))
        with pytest.raises(TypeError, match=r"^\[gram\.rbf\] expected X of dtype .* got complex128"):
            gram.rbf(sparse.csr_array(X * 1j))

    @ALL
    def test_the_other_kernels_say_so(self, level, rng, name):
        X = sparse.csr_array(np.eye(4))
        if name not in SPARSE_KERNELS:
            for arguments in ((X,), (X, X), (np.eye(4), X)):
                with pytest.raises(
                    TypeError, match=rf"^\[gram\.{name}\] .*: linear, polynomial, rbf and cosine take sparse"
                ):
                    getattr(gram, name)(*arguments)
            with pytest.raises(TypeError, match="linear, polynomial, rbf and cosine take sparse"):
                gram.gram(X, kernel=name)
        with pytest.raises(TypeError, match=r"^\[gram\.matvec\] expected X to be a dense array, got scipy.csr_array"):
            gram.matvec(X, np.ones(4), None, name)

    def test_errors(self, level):
        X = sparse.csr_array(np.ones((4, 3)))
        with pytest.raises(ValueError, match=r"^\[gram\.rbf\] expected Y of shape \(m, 3\), got \(2, 4\)"):
            gram.rbf(X, np.ones((2, 4)))
        with pytest.raises(ValueError, match=r"^\[gram\.rbf\] expected gamma"):
            gram.rbf(X, gamma=-1)
        with pytest.raises(ValueError, match=r"^\[gram\.linear\] expected X of shape \(n, d\)"):
            gram.linear(sparse.coo_array(np.ones(3)))
        calls = []
        gram.gram(X, progress=lambda *numbers: calls.append(numbers))
        assert calls == [(16, 16)]

    def test_samples_are_never_made_dense(self, level):
        X = sparse.random_array((100, 10**6), density=1e-5, rng=np.random.default_rng(0), format="csr")
        tracemalloc.start()
        try:
            assert gram.rbf(X).shape == (100, 100)
            assert tracemalloc.get_traced_memory()[1] < 100 * 10**6  # a seventh of the dense samples
        finally:
            tracemalloc.stop()
