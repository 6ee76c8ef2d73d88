"""Hebbian rules: against the formula sample by sample in more precision, and what they converge to."""

import numpy as np
import pytest

import fastdl
from cases import hebbian as cases
from cases import layouts, odd_layouts
from fastdl import hebbian

PLAIN = {
    "hebb": lambda *a, **k: hebbian.hebb(*a, **k),
    "normalized": lambda *a, **k: hebbian.hebb(*a, normalize=True, **k),
    "oja": hebbian.oja,
    "sanger": hebbian.sanger,
    "subspace": hebbian.subspace,
}
ALGORITHMS = ("auto", "loop", "blocks")
PUBLIC = ("hebb", "oja", "sanger", "subspace")


@pytest.fixture(params=list(PLAIN))
def rule(request):
    return request.param


class TestAgainstTheFormula:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_sequential(self, level, dtype, rng, rule, algorithm):
        if level == "reference" and algorithm != "auto":
            pytest.skip("the reference has one algorithm")
        for k, d, n in cases.SHAPES:
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            found = PLAIN[rule](W, X, lr, algorithm=algorithm)
            assert found.dtype == dtype and found.shape == (k, d)
            error = np.abs(found - cases.learnt(rule, W, X, lr)).max()
            assert error <= cases.tolerance(W, X, lr), (k, d, n)

    def test_batch(self, level, dtype, rng, rule):
        for k, d, n in (*cases.SHAPES, (3, 70, 600)):
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            found = PLAIN[rule](W, X, lr / n, mode="batch")
            expected = cases.learnt(rule, W, X, lr / n, "batch")
            assert np.abs(found - expected).max() <= cases.tolerance(W, X, lr), (k, d, n)

    def test_one_step_for_all_samples(self, level, dtype, rng, rule):
        W, X, _ = cases.draw(rng, 9, 65, 40, dtype)
        lr = dtype.type(0.003)
        for given in (float(lr), lr, np.asarray(lr), np.full(40, lr), np.full(40, lr)[::-1], [float(lr)] * 40):
            np.testing.assert_array_equal(PLAIN[rule](W, X, given), PLAIN[rule](W, X, float(lr)))

    def test_negative_steps(self, level, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 5, 33, 20, dtype)
        error = np.abs(PLAIN[rule](W, X, -lr) - cases.learnt(rule, W, X, -lr)).max()
        assert error <= cases.tolerance(W, X, lr)

    def test_empty(self, level, dtype, rng, rule):
        for k, d, n in cases.EMPTY:
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            for mode in ("sequential", "batch"):
                found = PLAIN[rule](W, X, lr, mode=mode)
                assert found is not W and found.dtype == dtype
                np.testing.assert_array_equal(found, W)

    def test_rows_of_zeros_stay(self, level, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 4, 20, 70, dtype)
        W[2] = 0
        for algorithm in ALGORITHMS:
            assert not PLAIN[rule](W, X, lr, algorithm=algorithm)[2].any()

    def test_normalised_rows_have_length_1(self, level, dtype, rng):
        W, X, lr = cases.draw(rng, 9, 100, 130, dtype)
        for lr_, mode, algorithm in ((lr, "sequential", "loop"), (lr, "sequential", "blocks"), (0.0, "batch", "auto")):
            found = hebbian.hebb(3 * W, X, lr_, normalize=True, mode=mode, algorithm=algorithm)
            lengths = np.linalg.norm(found.astype(np.float64), axis=1)
            assert np.abs(lengths - 1).max() <= 8 * np.finfo(dtype).eps

    @pytest.mark.parametrize("mode", ["sequential", "batch"])
    def test_lengths_whose_squares_are_beyond_the_type(self, level, dtype, mode):
        for size in (2e19, 2e-24) if dtype == np.float32 else (1e200, 1e-200):
            W = np.array([[3 * size, 4 * size], [0, 0]], dtype)
            found = hebbian.hebb(W, np.zeros((1, 2), dtype), 0.1, normalize=True, mode=mode)
            np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], rtol=4 * np.finfo(dtype).eps)

    @pytest.mark.parametrize("place", [0, 15, 20, 47])
    def test_a_large_sample_in_a_block(self, level, rng, place):
        W, X = np.eye(16, dtype=np.float32), rng.standard_normal((48, 16)).astype(np.float32)
        X[place] = 1e19
        lr = np.full(48, 1e-2)
        lr[place] = 1e-30
        found = hebbian.hebb(W, X, lr, normalize=True)
        np.testing.assert_allclose(found, cases.learnt("normalized", W, X, lr), rtol=0, atol=1e-5)

    def test_more_units_than_features(self, level, rng, rule):
        W, X, lr = cases.draw(rng, 20, 6, 50, np.dtype(np.float64))
        error = np.abs(PLAIN[rule](W, X, lr) - cases.learnt(rule, W, X, lr)).max()
        assert error <= cases.tolerance(W, X, lr)


def check_same(level, found, expected, allowed, name=""):
    """Equal to the bit, but for the reference: NumPy's products have another order for another layout."""
    if level == "reference":
        assert np.abs(found - expected).max() <= allowed, name
    else:
        np.testing.assert_array_equal(found, expected, name)


class TestArrays:
    def test_layouts(self, level, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 9, 70, 41, dtype)
        for mode in ("sequential", "batch"):
            expected = PLAIN[rule](W, X, lr, mode=mode)
            for make in (layouts, odd_layouts):
                allowed = cases.tolerance(W, X, lr)
                for name, weights in make(W):
                    check_same(level, PLAIN[rule](weights, X, lr, mode=mode), expected, allowed, name)
                for name, samples in make(X):
                    kept = samples.copy()
                    check_same(level, PLAIN[rule](W, samples, lr, mode=mode), expected, allowed, name)
                    np.testing.assert_array_equal(samples, kept)

    def test_in_place(self, level, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 9, 70, 41, dtype)
        for algorithm in ALGORITHMS:
            expected = PLAIN[rule](W, X, lr, algorithm=algorithm)
            for name, weights in layouts(W):
                if name == "read-only":
                    continue
                found = PLAIN[rule](weights, X, lr, algorithm=algorithm, out=weights)
                assert found is weights
                check_same(level, weights, expected, cases.tolerance(W, X, lr), name)
        out = np.empty_like(W)
        assert PLAIN[rule](W, X, lr, algorithm="blocks", out=out) is out
        np.testing.assert_array_equal(out, expected)

    def test_out_may_be_w_but_overlap_nothing_else(self, level, rng):
        room = rng.standard_normal((12, 5))
        W, X = room[:4], room[6:]
        kept = room.copy()
        for out in (room[1:5], room[:4, ::-1], X[:4], room[3:7]):
            with pytest.raises(ValueError, match=r"^\[hebbian\.oja\] expected out to overlap no input"):
                hebbian.oja(W, X, 0.1, out=out)
        np.testing.assert_array_equal(room, kept)
        expected = hebbian.oja(W.copy(), X, 0.1)
        hebbian.oja(W, X, 0.1, out=room[:4])  # another view of the same elements
        np.testing.assert_array_equal(W, expected)

    def test_bad_out(self, level):
        W, X = np.ones((2, 3)), np.ones((4, 3))
        for out, error, message in [
            (np.ones((2, 4)), ValueError, r"expected out of shape \(2, 3\), got \(2, 4\)"),
            (np.ones((2, 3), np.float32), TypeError, "expected out of dtype float64, got float32"),
            ([[0] * 3] * 2, TypeError, "expected out to be a numpy.ndarray, got list"),
        ]:
            with pytest.raises(error, match=message):
                hebbian.sanger(W, X, 0.1, out=out)

    def test_dtypes(self, level):
        W, X = np.eye(2, 3, dtype=np.float32), np.arange(6).reshape(2, 3)
        assert hebbian.oja(W, X.astype(np.float32), np.full(2, 0.1)).dtype == np.float32
        assert hebbian.oja(W, X, 0.01).dtype == np.float64
        assert hebbian.oja(W.astype(bool), X, 0.01).dtype == np.float64
        with pytest.raises(TypeError, match=r"^\[hebbian\.oja\] expected X of dtype .*, got float16"):
            hebbian.oja(W, X.astype(np.float16), 0.01)

    @pytest.mark.parametrize("library", ["torch", "array_api_strict"])
    def test_other_libraries(self, level, library, dtype, rng, rule):
        xp = pytest.importorskip(library)
        W, X, lr = cases.draw(rng, 5, 33, 20, dtype)
        w, x = xp.asarray(W), xp.asarray(X)
        for mode in ("sequential", "batch"):
            found = PLAIN[rule](w, x, lr, mode=mode)
            assert type(found) is type(w) and found.dtype == w.dtype
            error = np.abs(np.from_dlpack(found) - PLAIN[rule](W, X, lr, mode=mode)).max()
            assert error <= 2 * cases.tolerance(W, X, lr)
        expected = PLAIN[rule](W, X, lr)
        if library == "torch":
            assert PLAIN[rule](w, x, xp.asarray(lr), out=w) is w
            assert np.abs(w.numpy() - expected).max() <= 2 * cases.tolerance(W, X, lr)


class TestDivergence:
    def diverging(self, dtype):
        """Weights that double and more with every sample until they overflow."""
        W, X = np.ones((3, 40), dtype), np.ones((200, 40), dtype)
        X[:40] = 0
        return W, X

    def first_bad(self, rule, W, X, lr):
        """By the formula in the type itself."""
        weights = W.copy()
        with np.errstate(all="ignore"):
            for t, x in enumerate(X):
                y = weights @ x
                weights = weights + W.dtype.type(lr) * (np.outer(y, x) - cases.masked(rule, np.outer(y, y)) @ weights)
                if not np.isfinite(weights).all():
                    return t
        raise AssertionError("finite")

    @pytest.mark.parametrize("name", PUBLIC)
    def test_names_the_sample_and_writes_nothing(self, level, dtype, name):
        W, X = self.diverging(dtype)
        sample = self.first_bad(name, W, X, 5.0)
        for algorithm in ALGORITHMS:
            kept = W.copy()
            out = np.full_like(W, 7)
            for target in (None, out, W):
                with pytest.raises(FloatingPointError, match=rf"^\[hebbian\.{name}\] expected weights .*") as caught:
                    getattr(hebbian, name)(W, X, 5.0, algorithm=algorithm, out=target)
                # The reference rounds later, and products of other orders round otherwise: a growth of 200 a sample
                # makes that one sample at most.
                assert abs(int(str(caught.value).rpartition(" ")[2]) - sample) <= 1
            np.testing.assert_array_equal(W, kept)
            assert (out == 7).all()

    def test_a_bad_sample(self, level, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 9, 40, 100, dtype)
        for bad in (np.nan, np.inf):
            for at in (0, 37, 99):
                samples = X.copy()
                samples[at, 5] = bad
                for algorithm in ALGORITHMS:
                    with pytest.raises(FloatingPointError, match=rf"after sample {at}$"):
                        PLAIN[rule](W, samples, lr, algorithm=algorithm)
                with pytest.raises(FloatingPointError, match=rf"after sample {at}$"):
                    PLAIN[rule](W, samples, lr, mode="batch")

    @pytest.mark.parametrize("mode", ["sequential", "batch"])
    def test_bad_weights_are_no_divergence(self, level, dtype, mode):
        W, X = np.ones((2, 3), dtype), np.ones((4, 3), dtype)
        W[1, 2] = np.nan
        with pytest.raises(ValueError, match=r"^\[hebbian\.sanger\] expected finite weights to begin with"):
            hebbian.sanger(W, X, 0.1, mode=mode)

    def test_what_overflows_in_a_block_only(self, native_level, rng):
        """x·x may overflow where no weight does: the block gives way to the loop."""
        W, X, lr = cases.draw(rng, 9, 70, 50, np.dtype(np.float32))
        W[:, 0] = X[:, 0] = 0
        for t in (3, 9):  # of one block
            X[t, 0], lr[t] = 1e20, 0
        allowed = cases.tolerance(W[:, 1:], X[:, 1:], lr)
        for name in PUBLIC:
            blocks, loop = (getattr(hebbian, name)(W, X, lr, algorithm=algorithm) for algorithm in ("blocks", "loop"))
            assert np.isfinite(blocks).all() and not np.array_equal(blocks, W)
            assert np.abs(blocks - loop).max() <= allowed
            if name in ("sanger", "subspace"):  # the others leave out what a step of 0 would do
                np.testing.assert_array_equal(blocks, loop)


class TestErrors:
    W, X = np.ones((2, 3)), np.ones((4, 3))

    @pytest.mark.parametrize("name", PUBLIC)
    @pytest.mark.parametrize(
        "arguments, options, error, message",
        [
            ((np.ones(3), X, 0.1), {}, ValueError, r"expected W of shape \(k, d\), got \(3,\)"),
            ((W, np.ones(3), 0.1), {}, ValueError, r"expected X of shape \(n, 3\), got \(3,\)"),
            ((W, np.ones((4, 2)), 0.1), {}, ValueError, r"expected X of shape \(n, 3\), got \(4, 2\)"),
            ((W, X, np.ones(3)), {}, ValueError, r"expected lr of shape \(4,\) or a number, got \(3,\)"),
            ((W, X, np.ones((4, 1))), {}, ValueError, r"expected lr of shape \(4,\) or a number, got \(4, 1\)"),
            ((W, X, np.nan), {}, ValueError, r"expected lr to be finite, got nan"),
            ((W, X, [1, 2, np.inf, 3]), {}, ValueError, r"expected lr to be finite, got inf"),
            ((W, X, None), {}, TypeError, r"expected lr to be a number or one for each sample, got None"),
            ((W, X, True), {}, TypeError, r"expected lr to be a number or one for each sample, got bool"),
            ((W, X, "fast"), {}, TypeError, r"expected lr to be a number or one for each sample, got str"),
            ((W, X, [1j] * 4), {}, TypeError, r"expected lr to be a number or 4 of them, got list of complex128"),
            ((W, X, 0.1), {"mode": "both"}, ValueError, r"expected mode to be 'sequential' or 'batch', got 'both'"),
            ((W, X, 0.1), {"mode": 1}, TypeError, r"expected mode to be 'sequential' or 'batch', got int"),
            (
                (W, X, 0.1),
                {"algorithm": "x"},
                ValueError,
                r"expected algorithm to be 'auto' or 'loop' or 'blocks'",
            ),
            ((None, X, 0.1), {}, TypeError, r"expected W to be an array, got None"),
            ((W, None, 0.1), {}, TypeError, r"expected X to be an array, got None"),
        ],
    )
    def test_bad_arguments(self, level, name, arguments, options, error, message):
        with pytest.raises(error, match=rf"^\[hebbian\.{name}\] {message}"):
            getattr(hebbian, name)(*arguments, **options)

    def test_normalize(self, level):
        with pytest.raises(TypeError, match=r"^\[hebbian\.hebb\] expected normalize to be True or False, got int"):
            hebbian.hebb(self.W, self.X, 0.1, normalize=1)


class TestThreads:
    @pytest.mark.parametrize("k, d, n", [(64, 784, 200), (3, 3000, 150), (130, 200, 300)])
    def test_bits_do_not_depend_on_the_number_of_threads(self, native_level, dtype, rng, rule, k, d, n, keep_threads):
        W, X, lr = cases.draw(rng, k, d, n, dtype)
        for mode, algorithm in (("sequential", "blocks"), ("sequential", "auto"), ("batch", "auto")):
            found = []
            for count in (1, 2, 3, 5):
                fastdl.set_num_threads(count)
                found += [PLAIN[rule](W, X, lr, mode=mode, algorithm=algorithm).tobytes() for _ in range(2)]
            assert len(set(found)) == 1


def spectrum(rng, values, n):
    """Samples whose covariance has these eigenvalues, and its eigenvectors, the first one first."""
    d = len(values)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = rng.standard_normal((n, d)) * np.sqrt(values) @ basis.T
    return X, np.linalg.eigh(X.T @ X / n)[1][:, ::-1].T


class TestConvergence:
    """To the eigenvectors of XᵀX that numpy.linalg.eigh gives, with steps that go down as 1/t."""

    values = np.array([4.0, 2.5, 1.5, 0.4, 0.2, 0.1, 0.05])

    def run(self, name, rng, k, passes=30):
        X, vectors = spectrum(rng, self.values, 2000)
        W = rng.standard_normal((k, len(self.values))) / 3
        for number in range(passes):
            t = np.arange(len(X)) + number * len(X)
            W = getattr(hebbian, name)(W, X, 0.02 / (1 + t / 1000))
        return W, vectors, X

    def test_oja_finds_the_first(self, level, rng):
        W, vectors, _ = self.run("oja", rng, 3, 8 if level == "reference" else 30)
        cosines = W @ vectors[0]
        assert np.abs(np.linalg.norm(W, axis=1) - 1).max() < 0.02
        assert (np.abs(cosines) > 0.999).all()

    def test_sanger_finds_them_in_order(self, level, rng):
        W, vectors, _ = self.run("sanger", rng, 3, 8 if level == "reference" else 30)
        cosines = np.abs(W @ vectors[:3].T)
        assert (np.diag(cosines) > 0.995).all()
        assert (np.abs(cosines - np.diag(np.diag(cosines))) < 0.1).all()

    def test_subspace_finds_their_span(self, level, rng):
        W, vectors, _ = self.run("subspace", rng, 3, 8 if level == "reference" else 30)
        assert np.abs(W @ W.T - np.eye(3)).max() < 0.05
        assert np.abs(W.T @ W - vectors[:3].T @ vectors[:3]).max() < 0.06

    @pytest.mark.parametrize("name", ["oja", "sanger", "subspace"])
    def test_eigenvectors_are_where_a_batch_stays(self, level, rng, name):
        """The mean change is zero there, to rounding: an identity, without chance."""
        X, vectors = spectrum(rng, self.values, 500)
        W = np.repeat(vectors[:1], 3, axis=0) if name == "oja" else vectors[:3]
        np.testing.assert_allclose(getattr(hebbian, name)(W, X, 0.3 / 500, mode="batch"), W, rtol=0, atol=1e-13)

    def test_digits(self, native):
        datasets = pytest.importorskip("sklearn.datasets")
        X = datasets.load_digits().data / 16
        X = X - X.mean(0)
        vectors = np.linalg.eigh(X.T @ X)[1][:, ::-1].T
        rng = np.random.default_rng(0)
        W = {name: rng.standard_normal((k, 64)) / 8 for name, k in (("oja", 1), ("sanger", 4), ("subspace", 4))}
        for epoch in range(60):
            order = rng.permutation(len(X))
            t = epoch * len(X) + np.arange(len(X))
            for name, weights in W.items():
                W[name] = getattr(hebbian, name)(weights, X[order], 0.05 / (1 + t / 2000))
        assert abs(W["oja"][0] @ vectors[0]) > 0.999
        assert (np.abs(np.diag(W["sanger"] @ vectors[:4].T)) > 0.99).all()
        assert np.linalg.svd(W["subspace"] @ vectors[:4].T)[1].min() > 0.99

    def test_orbits(self, native):
        """Rotations of a template: the covariance commutes with the group, and the space learnt is invariant."""
        rng = np.random.default_rng(3)
        d = 12
        template = rng.standard_normal(d)
        orbit = np.stack([np.roll(template, g) for g in range(d)])
        C = orbit.T @ orbit
        shift = np.roll(np.eye(d), 1, axis=0)
        np.testing.assert_allclose(shift @ C, C @ shift, rtol=0, atol=1e-12)
        values = np.linalg.eigvalsh(C)[::-1]
        # Frequencies come in pairs: a space of the first k is invariant if it splits none.
        k = next(k for k in range(2, 8) if values[k - 1] > 1.5 * values[k])
        W = rng.standard_normal((k, d)) / 4
        for epoch in range(400):
            W = hebbian.subspace(W, orbit[rng.permutation(d)], 0.2 / values[0] / (1 + epoch / 40))
        projection = W.T @ W
        assert np.abs(projection @ projection - projection).max() < 0.02
        for g in range(1, d):
            moved = np.roll(np.eye(d), g, axis=0)
            assert np.abs(moved @ projection @ moved.T - projection).max() < 0.03
