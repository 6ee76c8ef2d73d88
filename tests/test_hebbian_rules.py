"""Further rules and the estimator: against their formulas in float64, in pieces, and by what they find."""

import math

import numpy as np
import pytest

from cases import hebbian as cases
from fastdl import hebbian
from fastdl.hebbian import HebbianPCA


def by_formula(name, W, X, lr, **options):
    """Sample by sample, in float64."""
    W, X = W.astype(np.float64), X.astype(np.float64)
    theta = np.zeros(len(W))
    for x, eta in zip(X, np.broadcast_to(lr, len(X)).astype(np.float64), strict=True):
        y = W @ x
        if name == "bcm":
            W = W + eta * np.outer(y * (y - theta), x)
            theta = theta + (y**2 - theta) / options["tau"]
        elif name == "krotov":
            y = (np.sign(W) * np.abs(W) ** (options["p"] - 1)) @ x
            g = np.zeros(len(W))
            order = sorted(range(len(W)), key=lambda i: (-y[i], i))
            g[order[0]] = 1
            if options["rank"] <= len(W):
                g[order[options["rank"] - 1]] = -options["delta"]
            W = W + eta * g[:, None] * (x - y[:, None] * W)
        else:
            s = np.exp((y - y.max()) / options["temperature"])
            W = W + eta * (s / s.sum())[:, None] * (x - y[:, None] * W)
    return (W, theta) if name == "bcm" else W


RULES = [
    ("bcm", {"tau": 20.0}),
    ("krotov", {"p": 2.0, "delta": 0.4, "rank": 2}),
    ("krotov", {"p": 2.0, "delta": 0.1, "rank": 5}),
    ("krotov", {"p": 1.0, "delta": 0.4, "rank": 2}),
    ("krotov", {"p": 2.5, "delta": 0.4, "rank": 2}),
    ("krotov", {"p": 3.0, "delta": 0.4, "rank": 3}),
    ("soft_hebb", {"temperature": 1.0}),
    ("soft_hebb", {"temperature": 0.2}),
]


class TestRules:
    @pytest.mark.parametrize("name, options", RULES)
    def test_definition(self, level, dtype, rng, name, options):
        for k, d, n in cases.SHAPES:
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            found = getattr(hebbian, name)(W, X, lr, **options)
            expected = by_formula(name, W, X, lr, **options)
            allowed = 4 * cases.tolerance(W, X, lr)
            if name == "bcm":
                # A threshold is a mean of squares of sums of d products.
                assert np.abs(found.theta - expected[1]).max() <= 8 * allowed * max(1, np.abs(expected[1]).max())
                found, expected = found.W, expected[0]
            assert found.dtype == dtype and found.shape == (k, d)
            assert np.abs(found - expected).max() <= allowed, (k, d, n)

    def test_bcm_goes_on(self, level, rng):
        W, X, lr = cases.draw(rng, 5, 20, 50, np.dtype(np.float64))
        whole = hebbian.bcm(W, X, lr, tau=10.0)
        half = hebbian.bcm(W, X[:20], lr[:20], tau=10.0)
        rest = hebbian.bcm(half.W, X[20:], lr[20:], theta=half.theta, tau=10.0)
        np.testing.assert_allclose(rest.W, whole.W, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(rest.theta, whole.theta, rtol=1e-12)

    def test_bcm_selects(self, level, rng):
        """Of two patterns at right angles a unit comes to answer to one, and not to the other."""
        X = np.eye(2)[rng.integers(0, 2, 2000 if level == "reference" else 20000)]
        W = hebbian.bcm(np.array([[0.6, 0.5]]), X, 0.02, theta=np.array([0.3]), tau=20.0).W
        assert W[0, 0] > 10 * abs(W[0, 1])

    def test_competition_finds_clusters(self, level, rng):
        centres = np.eye(4, 30)
        X = centres[rng.integers(0, 4, 3000)] + 0.05 * rng.standard_normal((3000, 30))
        W = centres + 0.3 * rng.standard_normal((4, 30))
        for found in (hebbian.krotov(W, X, 0.02, delta=0.0), hebbian.soft_hebb(W, X, 0.02, temperature=0.05)):
            cosines = found @ centres.T / np.linalg.norm(found, axis=1, keepdims=True)
            assert (np.diag(cosines) > 0.98).all()

    @pytest.mark.parametrize("k, d, n", [(0, 3, 2), (1, 1, 3), (3, 0, 2), (4, 6, 12), (5, 9, 0), (17, 33, 9)])
    def test_foldiak(self, level, dtype, rng, k, d, n):
        """By its equations, a number at a time."""
        W, X = rng.random((k, d)), (rng.random((n, d)) < 0.4).astype(float)
        V, bar = -rng.random((k, k)) * (1 - np.eye(k)), 0.5 * rng.random(k)
        found = hebbian.foldiak(
            *(a.astype(dtype) for a in (W, X, V, bar)), 0.1, lateral_lr=0.2, activity=0.3, steepness=4.0, steps=20
        )
        W, V, bar = (a.astype(dtype).astype(float) for a in (W, V, bar))
        for x in X:
            u = [0.0] * k
            for _ in range(20):
                field = [sum(W[i] * x) + sum(V[i, j] * u[j] for j in range(k)) - bar[i] for i in range(k)]
                u = [u[i] + 0.1 * (1 / (1 + math.exp(-4 * field[i])) - u[i]) for i in range(k)]
            y = [float(value > 0.5) for value in u]
            for i in range(k):
                W[i] += 0.1 * y[i] * (x - W[i])
                bar[i] += 0.02 * (y[i] - 0.3)
                for j in range(k):
                    V[i, j] = 0 if i == j else min(0, V[i, j] - 0.2 * (y[i] * y[j] - 0.09))
        for one, expected in zip(found, (W, V, bar), strict=True):
            assert one.dtype == dtype
            np.testing.assert_allclose(one, expected, rtol=0, atol=40 * np.finfo(dtype).eps)

    def test_foldiak_keeps_the_activity(self, rng):
        """Thresholds stop moving where each unit is active for a share p of the samples."""
        X = (rng.random((1500, 8)) < 0.3).astype(float)
        state = (rng.random((5, 8)), np.zeros((5, 5)), np.full(5, 0.5))
        W, V, bar = state
        for _ in range(3):
            W, V, bar = hebbian.foldiak(W, X, V, bar, 0.01, activity=0.2, steps=30)
        moved = hebbian.foldiak(W, X, V, bar, 0.01, activity=0.2, steps=30).threshold - bar
        # Over 1500 samples a threshold moves by 0.02 times (active - 0.2) of them.
        assert np.abs(moved / (0.02 * 1500)).max() < 0.03
        assert V.min() < 0 and not np.diag(V).any()

    def test_divergence(self, level, dtype):
        W, X = np.ones((3, 20), dtype), np.full((50, 20), 30, dtype)
        for name in ("bcm", "krotov", "soft_hebb"):
            kept = W.copy()
            with pytest.raises(FloatingPointError, match=rf"^\[hebbian\.{name}\] expected weights that stay finite"):
                getattr(hebbian, name)(W, X, 100.0)
            np.testing.assert_array_equal(W, kept)
        with pytest.raises(FloatingPointError, match=r"^\[hebbian\.krotov\] expected weights that stay finite"):
            hebbian.krotov(W, X, 100.0, p=3)
        with pytest.raises(FloatingPointError, match=r"^\[hebbian\.foldiak\] expected weights that stay finite"):
            hebbian.foldiak(W, X * X, np.zeros((3, 3), dtype), np.zeros(3, dtype), float(np.finfo(dtype).max) / 4)
        bad = np.ones((9, 20), dtype)
        bad[4, 4] = np.nan
        for call in (
            lambda: hebbian.bcm(W, bad, 1e-3),
            lambda: hebbian.krotov(W, bad, 1e-3),
            lambda: hebbian.krotov(W, bad, 1e-3, p=3),
            lambda: hebbian.soft_hebb(W, bad, 1e-3),
            lambda: hebbian.ccipca(W, bad),
            lambda: hebbian.foldiak(W, bad, np.zeros((3, 3), dtype), np.ones(3, dtype), 1e-3),
        ):
            with pytest.raises(FloatingPointError, match=r"after sample 4$"):
                call()

    @pytest.mark.parametrize("exponent", [-36, 36])
    def test_components_whose_squares_are_beyond_the_type(self, level, dtype, rng, exponent):
        """Components are as long as squares of samples, and their squared lengths are fourth powers."""
        X = (rng.standard_normal((30, 5)) * [1, 3, 0.3, 0.1, 2]).astype(dtype)
        X *= dtype.type(2.0) ** (exponent if dtype == np.float32 else 8 * exponent)
        v = np.zeros(5, np.longdouble)
        for n, x in enumerate(X.astype(np.longdouble), 1):
            share = (1 + (2 if n > 3 else 0)) / np.longdouble(n)
            v = x if n == 1 else (1 - share) * v + share * x * (x @ v) / np.sqrt(v @ v)
        found = hebbian.ccipca(np.zeros((1, 5), dtype), X).astype(np.longdouble)
        assert np.abs(found - v).max() <= 200 * np.finfo(dtype).eps * np.abs(v).max()

    def test_competition_needs_an_order(self, level):
        """Fields of which one is no number: not another unit wins, but the call says so."""
        W, X = np.array([[1, 0], [1e20, 1e20]], np.float32), np.array([[2, -1]], np.float32)
        if level == "reference":
            pytest.skip("the reference has the range of float64")
        with pytest.raises(FloatingPointError, match="after sample 0"):
            hebbian.krotov(W, X, 0.5, p=3, delta=0.0)

    def test_competition_where_products_of_samples_overflow(self, level):
        """Products of samples are beyond the type, but no weight and no field is."""
        W, X, lr = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32), np.zeros(16)
        W[:2, :2] = [[1], [0.5]]
        X[:2, :2] = [[3e20, -1e20], [-1e20, 3e20]]
        lr[:2] = 1e-22
        expected = by_formula("krotov", W, X, lr, p=2, delta=0.0, rank=2)
        np.testing.assert_allclose(hebbian.krotov(W, X, lr, delta=0.0), expected, rtol=1e-5)

    def test_soft_competition_at_the_lowest_temperatures(self, level, dtype):
        W, X = np.eye(2, dtype=dtype), np.ones((1, 2), dtype)
        for temperature in (1e-39, 1e-300, 5e-309):
            found = hebbian.soft_hebb(W, X, 0.5, temperature=temperature)
            np.testing.assert_allclose(found, [[1, 0.25], [0.25, 1]])

    def test_inhibition_that_is_not_finite(self, level, dtype):
        W, X, V, bar = np.ones((2, 3), dtype), np.ones((2, 3), dtype), np.zeros((2, 2), dtype), np.zeros(2, dtype)
        wrong = [((W, X, np.full((2, 2), np.nan, dtype), bar), {}), ((W, X, V, np.full(2, np.nan, dtype)), {})]
        if dtype == np.float32:
            wrong += [((W, X, V, bar), {"threshold_lr": 1e39}), ((W, X, V, bar), {"lateral_lr": 1e39})]
        for arguments, options in wrong:
            with pytest.raises(FloatingPointError, match=r"^\[hebbian\.foldiak\] expected weights that stay finite"):
                hebbian.foldiak(*arguments, 0.1, **options)

    @pytest.mark.parametrize("library", ["torch", "array_api_strict"])
    def test_other_libraries(self, level, library, dtype, rng):
        xp = pytest.importorskip(library)
        W, X, lr = cases.draw(rng, 5, 17, 20, dtype)
        w, x = xp.asarray(W), xp.asarray(X)
        allowed = 8 * cases.tolerance(W, X, lr)
        inhibition = (np.zeros((5, 5), dtype), np.zeros(5, dtype))
        for found, expected in [
            (hebbian.bcm(w, x, lr).W, hebbian.bcm(W, X, lr).W),
            (hebbian.bcm(w, x, lr).theta, hebbian.bcm(W, X, lr).theta),
            (hebbian.krotov(w, x, lr), hebbian.krotov(W, X, lr)),
            (hebbian.krotov(w, x, lr, p=3), hebbian.krotov(W, X, lr, p=3)),
            (hebbian.soft_hebb(w, x, lr), hebbian.soft_hebb(W, X, lr)),
            (
                hebbian.foldiak(w, x, *map(xp.asarray, inhibition), lr, steps=5).lateral,
                hebbian.foldiak(W, X, *inhibition, lr, steps=5).lateral,
            ),
        ]:
            assert type(found) is type(w) and found.dtype == w.dtype
            assert np.abs(np.from_dlpack(found) - expected).max() <= allowed

    @pytest.mark.parametrize(
        "name, options, error, message",
        [
            ("bcm", {"tau": 0}, ValueError, "expected tau to be a number above 0, got 0.0"),
            ("bcm", {"theta": np.ones(2)}, ValueError, r"expected theta of shape \(3,\), got \(2,\)"),
            ("krotov", {"p": 0.5}, ValueError, "expected p to be a number of at least 1, got 0.5"),
            ("krotov", {"delta": -1}, ValueError, "expected delta to be a number of at least 0, got -1.0"),
            ("krotov", {"rank": 1}, ValueError, "expected rank to be a whole number of at least 2, got 1"),
            ("soft_hebb", {"temperature": 0}, ValueError, "expected temperature to be a number above 0, got 0.0"),
            ("soft_hebb", {"temperature": "hot"}, TypeError, "expected temperature to be a number above 0, got str"),
        ],
    )
    def test_errors(self, level, name, options, error, message):
        W, X = np.ones((3, 4)), np.ones((5, 4))
        with pytest.raises(error, match=rf"^\[hebbian\.{name}\] {message}"):
            getattr(hebbian, name)(W, X, 0.1, **options)
        with pytest.raises(ValueError, match=rf"^\[hebbian\.{name}\] expected X of shape \(n, 4\), got \(5, 3\)"):
            getattr(hebbian, name)(W, X[:, :3], 0.1)
        with pytest.raises(ValueError, match=rf"^\[hebbian\.{name}\] expected lr of shape \(5,\) or a number"):
            getattr(hebbian, name)(W, X, np.ones(4))


def stretched(rng, n, d, dtype=np.float64):
    """Samples with eigenvalues that are well apart."""
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (rng.standard_normal((n, d)) * 2.0 ** -np.arange(d) @ basis.T).astype(dtype), basis.T


class TestCandidComponents:
    def test_definition(self, level, dtype, rng):
        for k, d, n in ((1, 1, 3), (2, 5, 9), (3, 8, 33), (4, 17, 40)):
            X, _ = stretched(rng, n, d, dtype)
            found = hebbian.ccipca(np.zeros((k, d), dtype), X, amnesic=1.0)
            V = np.zeros((k, d))
            for number, x in enumerate(X.astype(np.float64), 1):
                u, share = x, (2 if number > 2 else 1) / number
                for i in range(min(k, number)):
                    if i == number - 1 or not V[i].any():
                        V[i] = u
                    else:
                        V[i] = (1 - share) * V[i] + share * u * (u @ V[i]) / np.linalg.norm(V[i])
                    u = u - (u @ V[i]) / (V[i] @ V[i]) * V[i] if V[i].any() else u
            # Gaps between the eigenvalues are larger than the smallest of them: errors grow by a factor of about that.
            assert np.abs(found - V).max() <= 1e3 * n * np.finfo(dtype).eps * np.abs(V).max()

    def test_goes_on(self, level, rng):
        X, _ = stretched(rng, 60, 6)
        whole = hebbian.ccipca(np.zeros((3, 6)), X)
        half = hebbian.ccipca(np.zeros((3, 6)), X[:25])
        np.testing.assert_allclose(hebbian.ccipca(half, X[25:], count=25), whole, rtol=1e-9, atol=1e-12)
        assert hebbian.ccipca(half, X[25:], count=25, out=half) is half
        np.testing.assert_allclose(half, whole, rtol=1e-9, atol=1e-12)

    def test_finds_the_components(self, native, rng):
        X, vectors = stretched(rng, 5000, 8)
        V = hebbian.ccipca(np.zeros((3, 8)), X)
        values = np.linalg.norm(V, axis=1)
        assert (np.abs(np.sum(V / values[:, None] * vectors[:3], axis=1)) > 0.999).all()
        np.testing.assert_allclose(values, 4.0 ** -np.arange(3), rtol=0.15)

    def test_errors(self, level):
        with pytest.raises(ValueError, match=r"^\[hebbian\.ccipca\] expected count to be a whole number of at least 0"):
            hebbian.ccipca(np.ones((1, 2)), np.ones((3, 2)), count=-1)
        with pytest.raises(ValueError, match=r"^\[hebbian\.ccipca\] expected amnesic to be a number of at least 0"):
            hebbian.ccipca(np.ones((1, 2)), np.ones((3, 2)), amnesic=-1)


class TestEstimator:
    @pytest.mark.parametrize("rule", ["sanger", "subspace", "oja", "ccipca"])
    @pytest.mark.parametrize("rate", [None, 0.01, lambda t: 0.02 / (1 + t / 50)])
    def test_pieces_do_not_matter(self, level, dtype, rng, rule, rate, tmp_path):
        if rule == "ccipca" and rate is not None:
            pytest.skip("ccipca has no rate")
        X, _ = stretched(rng, 150, 9, dtype)
        X += dtype.type(3)
        whole = HebbianPCA(3, rule, rate).fit(X)
        assert whole.components_.dtype == dtype and whole.n_samples_seen_ == 150
        pieces = HebbianPCA(3, rule, rate)
        for start, end in ((0, 1), (1, 40), (40, 40), (40, 149), (149, 150)):
            assert pieces.partial_fit(X[start:end]) is pieces
        streamed = HebbianPCA(3, rule, rate).fit(X[start : start + 13] for start in range(0, 150, 13))
        mapped = np.memmap(tmp_path / "samples", dtype, "w+", shape=X.shape)
        mapped[...] = X
        eps = np.finfo(dtype).eps
        for other in (pieces, streamed, HebbianPCA(3, rule, rate).fit(mapped)):
            assert other.n_samples_seen_ == 150
            assert np.abs(other.mean_ - X.astype(float).mean(0)).max() < 1e-13 * 4
            # Only the order of sums within a sample differs: some roundings for each of them.
            assert np.abs(other.components_ - whole.components_).max() <= 150 * 20 * eps

    def test_large_arrays_are_taken_in_pieces(self, level, rng, monkeypatch):
        from fastdl import _hebbian_pca

        X, _ = stretched(rng, 100, 6)
        whole = HebbianPCA(2).fit(X)
        monkeypatch.setattr(_hebbian_pca, "CHUNK_BYTES", 8 * 6 * 17)
        seen = []
        cut = HebbianPCA(2).fit(X, progress=lambda done, total: seen.append((done, total)))
        assert seen == [(17, 100), (34, 100), (51, 100), (68, 100), (85, 100), (100, 100)]
        np.testing.assert_allclose(cut.components_, whole.components_, rtol=0, atol=1e-12)
        seen.clear()
        HebbianPCA(2, epochs=2).fit(X, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (200, 200)
        HebbianPCA(2).fit((X[:50], X[50:]).__iter__(), progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (100, 0)

    def test_progress_is_shown(self, level, rng, capsys):
        X, _ = stretched(rng, 30, 6)
        HebbianPCA(2).fit(X, progress=True)
        assert "hebbian.HebbianPCA" in capsys.readouterr().err
        HebbianPCA(2).fit(X)
        assert capsys.readouterr().err == ""

    def test_transform(self, level, dtype, rng):
        X, _ = stretched(rng, 400, 9, dtype)
        X += dtype.type(5)
        model = HebbianPCA(3, epochs=5).fit(X)
        Y = model.transform(X)
        expected = (X - model.mean_) @ model.components_.astype(float).T
        assert Y.dtype == dtype and np.abs(Y - expected).max() <= 200 * np.finfo(dtype).eps
        back = model.inverse_transform(Y)
        assert np.mean((back - X) ** 2) < 0.05 * np.mean((X - X.mean(0)) ** 2)
        np.testing.assert_array_equal(HebbianPCA(3, epochs=5).fit_transform(X), Y)

    def test_transform_of_samples_far_from_zero(self, level, rng):
        X = rng.standard_normal((300, 20)).astype(np.float32) + np.float32(1e4)
        pca = hebbian.HebbianPCA(3).fit(X)
        expected = (X.astype(np.float64) - pca.mean_) @ pca.components_.T.astype(np.float64)
        # The samples less their mean are exact to 1e-7 of what they are now, and sums of 20 products of them.
        assert np.abs(pca.transform(X) - expected).max() <= 40 * np.finfo(np.float32).eps * np.abs(expected).max()

    def test_the_sample_is_named_by_its_place_in_all(self, level, rng, monkeypatch):
        from fastdl import _hebbian_pca

        monkeypatch.setattr(_hebbian_pca, "CHUNK_BYTES", 8 * 4 * 10)
        X = rng.standard_normal((57, 4))
        X[33, 2] = np.nan
        for samples in (X, (X[i : i + 7] for i in range(0, 57, 7))):
            with pytest.raises(FloatingPointError, match=r"after sample 33$"):
                hebbian.HebbianPCA(2).fit(samples)

    @pytest.mark.parametrize("rule", ["sanger", "subspace", "ccipca"])
    def test_explains_what_principal_components_do(self, native, rng, rule):
        X, _ = stretched(rng, 4000, 10)
        X = X + 7
        model = HebbianPCA(3, rule, epochs=3).fit(X)
        W = model._directions()
        Q = np.linalg.qr(W.T)[0]
        centred = X - X.mean(0)
        best = np.linalg.eigvalsh(centred.T @ centred)[-3:].sum()
        assert np.sum((centred @ Q) ** 2) > 0.99 * best

    def test_parameters(self):
        model = HebbianPCA(3, "oja", 0.1, center=False)
        assert model.get_params()["rule"] == "oja" and not model.get_params()["center"]
        assert model.set_params(rule="sanger").rule == "sanger" and "sanger" in repr(model)
        with pytest.raises(ValueError, match=r"expected one of n_components, .*, got units"):
            model.set_params(units=3)

    def test_without_centring(self, level, rng):
        X, _ = stretched(rng, 50, 6)
        model = HebbianPCA(2, learning_rate=0.05, center=False).fit(X)
        assert not model.mean_.any()
        initial = HebbianPCA(2, learning_rate=0.05, center=False).fit(np.zeros((1, 6))).components_
        np.testing.assert_allclose(model.components_, hebbian.sanger(initial, X, 0.05), rtol=0, atol=1e-13)

    def test_a_failure_changes_nothing(self, level, rng):
        X, _ = stretched(rng, 50, 6)
        model = HebbianPCA(2).fit(X)
        kept = model.components_.copy(), model.mean_.copy()
        bad = X.copy()
        bad[7, 2] = np.inf
        with pytest.raises(FloatingPointError, match=r"after sample 7$"):
            model.partial_fit(bad)
        assert model.n_samples_seen_ == 50
        np.testing.assert_array_equal(model.components_, kept[0])
        np.testing.assert_array_equal(model.mean_, kept[1])

    @pytest.mark.parametrize(
        "make, error, message",
        [
            (lambda X: HebbianPCA(0).fit(X), ValueError, "expected n_components to be a whole number of at least 1"),
            (lambda X: HebbianPCA(2, "pca").fit(X), ValueError, "expected rule to be 'sanger' or .*, got 'pca'"),
            (
                lambda X: HebbianPCA(2, learning_rate=-1).fit(X),
                ValueError,
                "expected learning_rate to be a number above",
            ),
            (lambda X: HebbianPCA(2, "ccipca", 0.1).fit(X), ValueError, "expected no learning_rate for rule 'ccipca'"),
            (
                lambda X: HebbianPCA(2, learning_rate=lambda t: 1.0).fit(X),
                ValueError,
                r"expected learning_rate to give",
            ),
            (lambda X: HebbianPCA(2).fit(X[0]), ValueError, r"expected X of shape \(n, d\), got \(6,\)"),
            (lambda X: HebbianPCA(2).fit(X).partial_fit(X[:, :4]), ValueError, r"expected X of shape \(n, 6\), got"),
            (lambda X: HebbianPCA(2).fit(X).transform(X[:, :4]), ValueError, r"expected X of shape \(n, 6\), got"),
            (lambda X: HebbianPCA(2).transform(X), ValueError, "expected fit or partial_fit before, got neither"),
            (lambda X: HebbianPCA(2).fit(iter(())), ValueError, "expected samples, got none"),
            (lambda X: HebbianPCA(2, epochs=2).fit(iter((X,))), ValueError, "expected epochs of 1 for a generator"),
            (lambda X: HebbianPCA(2).fit(X, progress=3), TypeError, "expected progress to be True, False or callable"),
            (lambda X: HebbianPCA(2).fit(X).inverse_transform(X), ValueError, r"expected Y of shape \(n, 2\), got"),
        ],
    )
    def test_errors(self, make, error, message):
        with pytest.raises(error, match=rf"^\[hebbian\.HebbianPCA\.\w+\] {message}"):
            make(np.ones((5, 6)))
