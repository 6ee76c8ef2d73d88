"""Gram matrices by name, in blocks, in files, and with progress."""

import itertools
import sys
from types import SimpleNamespace

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
        for name in ("linear", "polynomial", "laplacian", "ntk", "rbf", "matern", "cosine"):
            out = np.memmap(tmp_path / "gram", dtype=dtype, mode="w+", shape=(45, 45))
            assert gram.gram(X, kernel=name, out=out).tobytes() == gram.gram(X, kernel=name).tobytes()

    @pytest.mark.parametrize("name", ["rbf", "matern", "laplacian"])
    def test_one_triangle_is_computed(self, native, dtype, rng, name, tmp_path, monkeypatch):
        X = 1000 + rng.standard_normal((45, 40)).astype(dtype)  # distances that depend on where they are centred
        computed = []

        def part(X, row, column, kernel, parameters, out):
            computed.append(out.size)
            native.gram.part(X, row, column, kernel, parameters, out)

        monkeypatch.setattr(_gram_matrix, "core", SimpleNamespace(gram=SimpleNamespace(part=part)))
        out = np.memmap(tmp_path / "gram", dtype=dtype, mode="w+", shape=(45, 45))
        assert gram.gram(X, kernel=name, out=out).tobytes() == gram.gram(X, kernel=name).tobytes()
        assert 45 * 46 / 2 <= sum(computed) < 0.7 * 45 * 45
        # Elements that do not lie at multiples of their size are filled by a copy.
        unaligned = np.memmap(tmp_path / "gram", dtype=dtype, mode="w+", shape=(45, 45), offset=3)
        assert gram.gram(X, kernel=name, out=unaligned).tobytes() == gram.gram(X, kernel=name).tobytes()

    def test_parts_are_within_the_whole(self, native):
        X, out = np.ones((5, 3)), np.full((2, 3), 7.5)
        for row, column, rest in [(4, 0, "rows"), (-1, 0, "rows"), (0, 3, "columns"), (0, 2**62, "columns")]:
            with pytest.raises(ValueError, match=rf"^\[gram\.part\] expected {rest} of K within the 5 rows of X, got"):
                native.gram.part(X, row, column, "rbf", {"gamma": 1.0}, out)
        np.testing.assert_array_equal(out, 7.5)
        native.gram.part(X, 3, 2, "rbf", {"gamma": 1.0}, out)
        np.testing.assert_array_equal(out, 1)

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
