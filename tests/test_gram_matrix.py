"""Gram matrices by name, in blocks, in files, with progress, and of sparse samples."""

import itertools
import sys
import tracemalloc

import numpy as np
import pytest

from cases import gram as cases
from fastdl import _gram_matrix, gram
from fastdl._kernels import KERNELS

ALL = pytest.mark.parametrize("name", tuple(KERNELS))


@pytest.fixture
def small_blocks(monkeypatch):
    """Make blocks so small that a test has many of them."""

    def blocks(n, m, itemsize, *, fine):
        step = 16
        if m is None:
            cuts = [slice(start, min(n, start + step)) for start in range(0, n, step)]
            return [(rows, columns) for i, rows in enumerate(cuts) for columns in cuts[: i + 1]]
        return [(slice(start, min(n, start + step)), slice(0, m)) for start in range(0, n, step)]

    monkeypatch.setattr(_gram_matrix, "_blocks", blocks)


class TestByName:
    @ALL
    def test_like_the_function(self, level, dtype, rng, name):
        X, Y = cases.samples(name, rng, 9, 5, dtype), cases.samples(name, rng, 7, 5, dtype)
        function, params = getattr(gram, name), cases.PARAMETERS[name][-1]
        expected = function(X, Y, **params)
        for kernel in (name, function):
            np.testing.assert_array_equal(gram.gram(X, Y, kernel, **params), expected)
            np.testing.assert_array_equal(gram.gram(X, kernel=kernel, **params), function(X, **params))
        out = np.empty((9, 7), dtype)
        assert gram.gram(X, Y, name, out=out, **params) is out
        np.testing.assert_array_equal(out, expected)

    def test_names(self, level, rng):
        X = rng.standard_normal((5, 3))
        np.testing.assert_array_equal(gram.gram(X), gram.rbf(X))
        np.testing.assert_array_equal(gram.gram(X, kernel="poly", degree=2), gram.polynomial(X, degree=2))
        for function in (gram.gram, gram.diag, gram.distance):
            with pytest.raises(
                ValueError, match=r"expected kernel to be one of linear, polynomial, .*, ntk, got 'gauss'"
            ):
                function(X, kernel="gauss")
            with pytest.raises(TypeError, match=r"expected parameters of rbf \(gamma\), got sigma"):
                function(X, kernel="rbf", sigma=1.0)
            with pytest.raises(TypeError, match=r"expected parameters of linear \(none\), got gamma"):
                function(X, kernel="linear", gamma=1.0)
            with pytest.raises(ValueError, match=r"expected kernel to be a kernel function of fastdl\.gram, got sum"):
                function(X, kernel=sum)
            with pytest.raises(
                TypeError, match=r"expected kernel to be a name or a function of fastdl\.gram, got None"
            ):
                function(X, kernel=None)

    @pytest.mark.parametrize("library", ["torch", "array_api_strict"])
    def test_other_libraries(self, level, library, rng):
        xp = pytest.importorskip(library)
        X = rng.standard_normal((9, 5))
        for progress in (False, lambda done, total: None):
            K = gram.gram(xp.asarray(X), kernel="laplacian", progress=progress)
            assert type(K) is type(xp.asarray(X))
            np.testing.assert_allclose(np.from_dlpack(K), gram.laplacian(X), rtol=1e-14)


@pytest.mark.usefixtures("small_blocks")
class TestBlocks:
    @ALL
    def test_like_the_whole(self, level, dtype, rng, name, tmp_path):
        X, Y = cases.samples(name, rng, 45, 7, dtype), cases.samples(name, rng, 21, 7, dtype)
        params = cases.PARAMETERS[name][-1]
        for others, shape in ((Y, (45, 21)), (None, (45, 45))):
            out = np.memmap(tmp_path / "gram", dtype=dtype, mode="w+", shape=shape)
            assert gram.gram(X, others, name, out=out, **params) is out
            out.flush()
            found = np.fromfile(tmp_path / "gram", dtype).reshape(shape)
            allowed = cases.kernel_tolerance(name, X, others, **params)
            assert np.all(np.abs(found - cases.kernel_expected(name, X, others, **params)) <= allowed)
            if others is None:
                assert found.tobytes() == np.ascontiguousarray(found.T).tobytes()

    def test_the_same_bits_as_the_whole(self, native_level, dtype, rng, tmp_path):
        X = rng.standard_normal((45, 40)).astype(dtype)
        for name in ("linear", "polynomial", "laplacian", "ntk"):
            out = np.memmap(tmp_path / "gram", dtype=dtype, mode="w+", shape=(45, 45))
            assert gram.gram(X, kernel=name, out=out).tobytes() == gram.gram(X, kernel=name).tobytes()

    def test_nothing_is_written_before_all_is_checked(self, level, tmp_path):
        out = np.memmap(tmp_path / "gram", dtype=float, mode="w+", shape=(40, 40))
        out[...] = 7.5
        X = np.ones((40, 2)) / 4
        X[39, 1] = -1
        for options in ({"kernel": "chi2"}, {"kernel": "rbf", "gamma": -1}, {"kernel": "rbf", "sigma": 1}):
            with pytest.raises((ValueError, TypeError), match="expected"):
                gram.gram(X, out=out, **options)
        X[39, 1] = 9
        with pytest.raises(ValueError, match="below 1"):
            gram.gram(X, kernel="geometric", out=out)
        with pytest.raises(ValueError, match="expected out of shape"):
            gram.gram(X[:9], out=out)
        with pytest.raises(ValueError, match="overlap"):
            gram.gram(out, out=out)
        np.testing.assert_array_equal(out, 7.5)

    def test_progress_is_called_back(self, level, rng):
        X, Y = rng.standard_normal((45, 3)), rng.standard_normal((21, 3))
        for others, total in ((None, 45 * 45), (Y, 45 * 21)):
            calls = []
            K = gram.gram(X, others, progress=lambda *numbers: calls.append(numbers))  # noqa: B023
            np.testing.assert_allclose(K, gram.rbf(X, others), rtol=1e-14)
            assert calls[-1] == (total, total) and len(calls) >= 3
            assert all(a < b for (a, _), (b, _) in itertools.pairwise(calls))

    def test_progress_is_shown(self, level, rng, capsys, monkeypatch):
        X = rng.standard_normal((45, 3))
        monkeypatch.setitem(sys.modules, "tqdm", None)
        gram.gram(X, progress=True)
        shown = capsys.readouterr()
        assert shown.err.endswith("\r[gram.rbf] 100 %\n") and not shown.out
        gram.gram(X)
        assert not capsys.readouterr().err

    def test_progress_with_tqdm(self, level, rng, capsys):
        pytest.importorskip("tqdm")
        gram.gram(rng.standard_normal((45, 3)), progress=True)
        assert "gram.rbf: 100%" in capsys.readouterr().err

    def test_progress_is_checked(self):
        with pytest.raises(TypeError, match="expected progress to be True, False or callable, got int"):
            gram.gram(np.eye(3), progress=3)


def test_blocks_cover_everything_once():
    for n, m, itemsize, fine in [
        (1000, None, 8, True),
        (5000, None, 8, False),
        (9000, None, 4, False),
        (0, None, 8, False),
        (1000, 700, 4, True),
        (3000, 9000, 8, False),
        (3, 0, 8, False),
    ]:
        covered = 0
        for rows, columns in _gram_matrix._blocks(n, m, itemsize, fine=fine):
            size = (rows.stop - rows.start) * (columns.stop - columns.start)
            assert size * itemsize <= _gram_matrix.BLOCK_BYTES
            covered += size if m is not None or rows == columns else 2 * size
        assert covered == n * (n if m is None else m)


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
