"""Kernel ridge regression and Gaussian processes, against scikit-learn and dense float64."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn import gaussian_process, kernel_ridge
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from fastdl import gram
from fastdl._kernels import KERNELS
from fastdl.sklearn import GaussianProcessRegressor, KernelRidge
from fastdl.sklearn import _system as system

SOLVERS = pytest.mark.parametrize("solver", ["cholesky", "cg"])


def problem(rng, n=200, d=4, dtype=np.float64):
    X = rng.standard_normal((n, d)).astype(dtype)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, -1] + 0.1 * rng.standard_normal(n)
    return X, y, rng.standard_normal((37, d)).astype(dtype)


class TestKernelRidge:
    @SOLVERS
    @pytest.mark.parametrize(
        "kernel, params",
        [
            ("linear", {}),
            ("rbf", {"gamma": 0.2}),
            ("rbf", {}),
            ("laplacian", {"gamma": 0.3}),
            ("polynomial", {"degree": 2, "gamma": 0.5, "coef0": 2.0}),
            ("poly", {}),
            ("cosine", {}),
        ],
    )
    def test_like_scikit_learn(self, rng, solver, kernel, params):
        X, y, points = problem(rng)
        alpha = 0.3
        theirs = kernel_ridge.KernelRidge(alpha=alpha, kernel=kernel, **params).fit(X, y)
        ours = KernelRidge(alpha=alpha, kernel=kernel, solver=solver, tol=1e-13, **params).fit(X, y)
        # Both solve to rounding, which the condition number makes at most this much of.
        condition = np.linalg.cond(gram.gram(X, kernel=kernel, **params) + alpha * np.eye(len(X)))
        size = np.abs(theirs.dual_coef_).max()
        assert np.abs(ours.dual_coef_ - theirs.dual_coef_).max() < 1e-13 * condition * size
        assert np.allclose(ours.predict(points), theirs.predict(points), rtol=0, atol=1e-9)
        assert ours.solver_ == solver and ours.residual_ <= 1e-13

    def test_chi2_like_scikit_learn(self, rng):
        X = rng.uniform(0, 1, (90, 5))
        y = X[:, 0] - X[:, 1] ** 2
        # The second is negative: its eigenvalues are above -90 times its largest element.
        for kernel, alpha in (("chi2", 0.1), ("additive_chi2", 200.0)):
            theirs = kernel_ridge.KernelRidge(alpha=alpha, kernel=kernel, gamma=0.7).fit(X, y)
            ours = KernelRidge(alpha=alpha, kernel=kernel, gamma=0.7).fit(X, y)
            assert np.allclose(ours.predict(X), theirs.predict(X), rtol=0, atol=1e-10)

    @pytest.mark.parametrize("name", [name for name in KERNELS if name not in ("sigmoid", "additive_chi2")])
    def test_every_kernel_with_both_solvers(self, rng, name):
        X = rng.uniform(0, 0.5, (120, 3))
        y = X[:, 0] - X[:, 1] * X[:, 2]
        K = gram.gram(X, kernel=name)
        expected = K @ np.linalg.solve(K + 0.1 * np.eye(120), y)
        for solver in ("cholesky", "cg"):
            for kernel in (name, getattr(gram, name)):
                found = KernelRidge(alpha=0.1, kernel=kernel, solver=solver, tol=1e-12).fit(X, y).predict(X)
                assert np.allclose(found, expected, rtol=0, atol=1e-9)

    @SOLVERS
    def test_several_targets_and_a_ridge_for_each(self, rng, solver):
        X, y, points = problem(rng)
        Y = np.stack([y, X[:, 0] ** 2, np.zeros(len(X))], axis=1)
        for alpha in (0.2, [0.1, 10.0, 1.0]):
            theirs = kernel_ridge.KernelRidge(alpha=alpha, kernel="rbf").fit(X, Y)
            ours = KernelRidge(alpha=alpha, solver=solver, tol=1e-13).fit(X, Y)
            assert ours.dual_coef_.shape == (200, 3)
            assert np.allclose(ours.predict(points), theirs.predict(points), rtol=0, atol=1e-10)
            assert not ours.predict(points)[:, 2].any()

    @SOLVERS
    def test_weights_of_samples(self, rng, solver):
        X, y, points = problem(rng)
        weights = rng.uniform(0, 3, len(X))
        weights[::7] = 0
        theirs = kernel_ridge.KernelRidge(alpha=0.2, kernel="rbf").fit(X, y, weights)
        ours = KernelRidge(alpha=0.2, solver=solver, tol=1e-13).fit(X, y, weights)
        assert np.allclose(ours.predict(points), theirs.predict(points), rtol=0, atol=1e-10)
        # A weight is as many repetitions, and a sample without one is as if it were not there.
        counts = rng.integers(0, 3, len(X))
        weighted = KernelRidge(alpha=0.2, solver=solver, tol=1e-13).fit(X, y, counts)
        repeated = KernelRidge(alpha=0.2, solver=solver, tol=1e-13).fit(X.repeat(counts, 0), y.repeat(counts))
        assert np.allclose(weighted.predict(points), repeated.predict(points), rtol=0, atol=1e-10)
        uniform = KernelRidge(alpha=0.2, solver=solver, tol=1e-13).fit(X, y, 2.0)
        half = KernelRidge(alpha=0.1, solver=solver, tol=1e-13).fit(X, y)
        assert np.allclose(uniform.predict(points), half.predict(points), rtol=0, atol=1e-10)

    @SOLVERS
    def test_float32_stays(self, rng, solver):
        X, y, points = problem(rng, dtype=np.float32)
        exact = KernelRidge(alpha=0.05, tol=1e-12).fit(X.astype(np.float64), y).predict(points.astype(np.float64))
        model = KernelRidge(alpha=0.05, solver=solver).fit(X, y.astype(np.float32))
        found = model.predict(points)
        assert found.dtype == model.X_fit_.dtype == np.float32 and model.dual_coef_.dtype == np.float64
        # The norm of the residual is 1e-6 of that of y, and an error of the weights at most 1/alpha of it; values have
        # roundings of 1e-5 of y.
        allowed = 1e-6 * np.linalg.norm(y) / 0.05 + 1e-5 * np.abs(y).max()
        assert np.abs(found - exact).max() < allowed

    def test_float32_below_the_rounding_of_its_products(self, rng):
        X, y, _ = problem(rng, dtype=np.float32)
        model = KernelRidge(alpha=0.05, solver="cg", tol=1e-11, rank=20).fit(X, y)
        assert model.residual_ <= 1e-11

    def test_float32_where_it_is_not_positive_definite(self, rng):
        # Rounding of K is larger than alpha: steps are taken in float64 in the end.
        X = rng.standard_normal((300, 2)).astype(np.float32)
        y = X[:, 0] - X[:, 1] ** 2
        model = KernelRidge(alpha=1e-6, gamma=1e-2, solver="cg").fit(X, y)
        assert model.residual_ <= 1e-6
        wide = X.astype(np.float64)
        K = gram.rbf(wide, gamma=1e-2) + 1e-6 * np.eye(300)
        rest = y - K @ model.dual_coef_
        assert np.linalg.norm(rest) <= 1.01e-6 * np.linalg.norm(y)

    def test_targets_of_any_size(self, rng):
        X, y, points = problem(rng)
        expected = KernelRidge(alpha=0.1, tol=1e-10).fit(X, y).predict(points)
        for size in (1e-200, 1e200):
            for solver in ("cholesky", "cg"):
                found = KernelRidge(alpha=0.1, solver=solver, tol=1e-10).fit(X, size * y).predict(points)
                assert np.allclose(found / size, expected, rtol=0, atol=1e-8)

    def test_one_sample(self, rng):
        for solver in ("cholesky", "cg"):
            model = KernelRidge(alpha=1.0, solver=solver).fit([[1.0, 2.0]], [3.0])
            assert model.predict([[1.0, 2.0]]) == pytest.approx([1.5])

    def test_duplicates_and_a_constant_target(self, rng):
        X = rng.standard_normal((10, 2)).repeat(20, axis=0)
        for solver in ("cholesky", "cg"):
            model = KernelRidge(alpha=1e-6, solver=solver).fit(X, np.full(200, 3.0))
            assert np.allclose(model.predict(X), 3, atol=1e-4)
        assert model.rank_ <= 10

    def test_rank_beyond_the_samples(self, rng):
        X, y, _ = problem(rng, n=30)
        model = KernelRidge(alpha=1e-8, solver="cg", rank=1000).fit(X, y)
        assert model.rank_ == 30 and model.residual_ <= 1e-6

    def test_rank_zero(self, rng):
        X, y, points = problem(rng)
        plain = KernelRidge(alpha=0.5, solver="cg", rank=0, tol=1e-12).fit(X, y)
        helped = KernelRidge(alpha=0.5, solver="cg", tol=1e-12).fit(X, y)
        assert plain.rank_ == 0 and plain.n_iter_ > 2 * helped.n_iter_
        assert np.allclose(plain.predict(points), helped.predict(points), atol=1e-9)

    def test_the_seed_changes_nothing_beyond_the_tolerance(self, rng):
        X, y, _ = problem(rng)
        first = KernelRidge(alpha=0.1, solver="cg", rank=30, random_state=1).fit(X, y)
        second = KernelRidge(alpha=0.1, solver="cg", rank=30, random_state=np.random.RandomState(5)).fit(X, y)
        assert not np.array_equal(first.dual_coef_, second.dual_coef_)
        allowed = 2 * 1e-6 * np.linalg.norm(y) / 0.1
        assert np.linalg.norm(first.dual_coef_ - second.dual_coef_) < allowed
        again = KernelRidge(alpha=0.1, solver="cg", rank=30, random_state=1).fit(X, y)
        assert np.array_equal(first.dual_coef_, again.dual_coef_)

    def test_without_a_ridge_least_squares(self, rng):
        X = rng.standard_normal((12, 3))
        X = np.concatenate([X, X])
        y = rng.standard_normal(24)
        with pytest.warns(UserWarning, match="least-squares"):
            model = KernelRidge(alpha=0, gamma=1.0).fit(X, y)
        means = (y[:12] + y[12:]) / 2
        assert np.allclose(model.predict(X[:12]), means, atol=1e-8)

    def test_convergence_is_told(self, rng):
        X, y, _ = problem(rng, n=400)
        with pytest.warns(ConvergenceWarning, match="after 3 steps, tol 1e-06: raise max_iter or rank"):
            model = KernelRidge(alpha=1e-6, solver="cg", rank=5, max_iter=3).fit(X, y)
        K = gram.rbf(X) + 1e-6 * np.eye(400)
        assert model.residual_ == pytest.approx(np.linalg.norm(y - K @ model.dual_coef_) / np.linalg.norm(y), rel=1e-6)
        with pytest.warns(ConvergenceWarning, match="not positive definite"):
            KernelRidge(alpha=1e-3, solver="cg", kernel="sigmoid", gamma=2.0, coef0=-1.0).fit(X, y)

    def test_auto(self, rng, monkeypatch):
        X, y, _ = problem(rng, n=40)
        assert KernelRidge().fit(X, y).solver_ == "cholesky"
        monkeypatch.setattr(system, "DENSE", 39)
        assert KernelRidge().fit(X, y).solver_ == "cg"

    def test_no_matrix_is_formed(self, rng, monkeypatch):
        X, y, points = problem(rng, n=300)
        sizes = []

        def watched(X, Y=None, *args, **kwargs):
            sizes.append(len(X) * len(X if Y is None else Y))
            return original(X, Y, *args, **kwargs)

        original = gram.gram
        monkeypatch.setattr(gram, "gram", watched)
        model = KernelRidge(alpha=0.5, solver="cg", rank=40).fit(X, y)
        model.predict(points)
        assert 0 < max(sizes) <= 300 * 128 < 300**2

    def test_progress(self, rng, capsys):
        X, y, _ = problem(rng)
        told = []
        KernelRidge(alpha=0.1, solver="cg", rank=50, progress=lambda *done: told.append(done)).fit(X, y)
        assert (50, 50) in told and told[-1] == (100, 100)
        KernelRidge(alpha=0.1, solver="cg", progress=True).fit(X, y)
        assert "KernelRidge" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "params, error, message",
        [
            ({"alpha": -1.0}, ValueError, "alpha"),
            ({"alpha": [1.0, 2.0]}, ValueError, "one alpha or 1, got 2"),
            ({"alpha": "much"}, TypeError, "alpha"),
            ({"kernel": "nothing"}, ValueError, "kernel to be one of linear"),
            ({"kernel": "precomputed"}, ValueError, "kernel to be one of linear"),
            ({"kernel": 3}, TypeError, "kernel"),
            ({"gamma": -1.0}, ValueError, "gamma"),
            ({"kernel_params": {"nu": 2}}, TypeError, "expected parameters of rbf"),
            ({"kernel_params": [1]}, TypeError, "kernel_params to be a dict"),
            ({"solver": "svd"}, ValueError, "solver to be one of auto, cholesky, cg"),
            ({"tol": 0}, ValueError, "tol"),
            ({"max_iter": 0}, ValueError, "max_iter"),
            ({"max_iter": 1.5}, TypeError, "max_iter"),
            ({"solver": "cg", "rank": -1}, ValueError, "rank"),
            ({"progress": "yes"}, TypeError, "progress"),
        ],
    )
    def test_parameters_are_checked(self, rng, params, error, message):
        X, y, _ = problem(rng, n=20)
        with pytest.raises(error, match=message):
            KernelRidge(**params).fit(X, y)

    def test_parameters_set_after_fit_wait_for_the_next(self, rng):
        X, y, points = problem(rng, n=50)
        model = KernelRidge(gamma=0.5).fit(X, y)
        before = model.predict(points)
        model.set_params(gamma=5.0)
        assert np.array_equal(model.predict(points), before)
        assert not np.allclose(model.fit(X, y).predict(points), before)

    def test_parameters_a_kernel_has_not(self, rng):
        # gamma, degree and coef0 are passed over, as in scikit-learn; the others come by name.
        X, y, _ = problem(rng, n=50)
        plain = KernelRidge(kernel="matern", gamma=3.0).fit(X, y).predict(X)
        assert np.array_equal(plain, KernelRidge(kernel="matern").fit(X, y).predict(X))
        scaled = KernelRidge(kernel="matern", kernel_params={"length_scale": np.ones(4) * 2, "nu": 2.5}).fit(X, y)
        K = gram.matern(X, length_scale=2, nu=2.5)
        assert np.allclose(scaled.predict(X), K @ np.linalg.solve(K + np.eye(50), y), atol=1e-12)

    def test_an_overflow_is_told(self, rng):
        X = 1e3 * rng.standard_normal((20, 3))
        for solver in ("cholesky", "cg"):
            with pytest.raises(ValueError, match="finite"):
                KernelRidge(kernel="polynomial", degree=300, solver=solver).fit(X, X[:, 0])


class TestGaussianProcess:
    @SOLVERS
    @pytest.mark.parametrize("alpha", [1e-2, "each"])
    @pytest.mark.parametrize("normalize_y", [False, True])
    def test_like_scikit_learn(self, rng, solver, alpha, normalize_y):
        X, y, points = problem(rng, d=3)
        y = 10 + 3 * y
        if alpha == "each":
            alpha = rng.uniform(1e-3, 0.1, len(X))
        for targets in (y, np.stack([y, X[:, 0]], axis=1)):
            theirs = gaussian_process.GaussianProcessRegressor(
                ConstantKernel(2.0) * RBF(1.5), alpha=alpha, optimizer=None, normalize_y=normalize_y
            ).fit(X, targets)
            ours = GaussianProcessRegressor(
                gamma=0.5 / 1.5**2, variance=2.0, alpha=alpha, normalize_y=normalize_y, solver=solver, tol=1e-13
            ).fit(X, targets)
            mean, deviation = ours.predict(points, return_std=True)
            their_mean, their_deviation = theirs.predict(points, return_std=True)
            # The condition number is below 400 / 1e-3, and means are about 10; a deviation is the root of a difference.
            assert np.allclose(mean, their_mean, rtol=0, atol=1e-8)
            assert np.allclose(deviation**2, their_deviation**2, rtol=0, atol=1e-9)
            assert mean.shape == their_mean.shape and deviation.shape == their_deviation.shape
            _, covariance = ours.predict(points, return_cov=True)
            _, their_covariance = theirs.predict(points, return_cov=True)
            assert covariance.shape == their_covariance.shape
            assert np.allclose(covariance, their_covariance, rtol=0, atol=1e-8)
            likelihood, error = ours.log_marginal_likelihood(return_error=True)
            exact = theirs.log_marginal_likelihood_value_
            if solver == "cholesky":
                assert likelihood == pytest.approx(exact, rel=1e-10) and error == 0
            else:
                assert 0 < error < 0.02 * abs(exact)
                assert abs(likelihood - exact) < 5 * error

    def test_matern_like_scikit_learn(self, rng):
        X, y, points = problem(rng, d=3)
        scales = np.array([0.5, 1.0, 2.0])
        theirs = gaussian_process.GaussianProcessRegressor(Matern(scales, nu=2.5), alpha=0.01, optimizer=None).fit(X, y)
        ours = GaussianProcessRegressor("matern", kernel_params={"length_scale": scales, "nu": 2.5}, alpha=0.01)
        for mine, other in zip(
            ours.fit(X, y).predict(points, return_std=True), theirs.predict(points, return_std=True), strict=True
        ):
            assert np.allclose(mine, other, rtol=0, atol=1e-10)

    def test_float32(self, rng):
        X, y, points = problem(rng, dtype=np.float32)
        exact = GaussianProcessRegressor(alpha=0.1).fit(X.astype(np.float64), y)
        expected = exact.predict(points.astype(np.float64), return_std=True)
        found = GaussianProcessRegressor(alpha=0.1, solver="cg").fit(X, y).predict(points, return_std=True)
        for mine, other in zip(found, expected, strict=True):
            assert mine.dtype == np.float32
            assert np.allclose(mine, other, rtol=0, atol=1e-4)

    def test_variance_is_solved_for_in_blocks(self, rng, monkeypatch):
        from fastdl.sklearn import _gaussian_process as module

        X, y, points = problem(rng)
        model = GaussianProcessRegressor(alpha=0.1, solver="cg", tol=1e-10).fit(X, y)
        whole = model.predict(points, return_std=True)[1]
        monkeypatch.setattr(module, "_TOGETHER", 5 * len(X))
        assert np.allclose(model.predict(points, return_std=True)[1], whole, rtol=0, atol=1e-8)

    def test_sure_where_it_knows_and_not_elsewhere(self, rng):
        X = rng.uniform(-1, 1, (50, 1))
        model = GaussianProcessRegressor(gamma=1.0, alpha=1e-4).fit(X, np.sin(X[:, 0]))
        deviation = model.predict([[0.0], [100.0]], return_std=True)[1]
        assert deviation[0] < 0.02 and deviation[1] == pytest.approx(1)

    def test_a_singular_matrix_is_an_error(self, rng):
        X = rng.standard_normal((5, 2)).repeat(4, axis=0)
        with pytest.raises(np.linalg.LinAlgError, match="raise alpha"):
            GaussianProcessRegressor(alpha=1e-18).fit(X, X[:, 0])

    def test_a_constant_target(self, rng):
        X = rng.standard_normal((20, 2))
        model = GaussianProcessRegressor(normalize_y=True).fit(X, np.full(20, 0.1))
        assert np.allclose(model.predict(X), 0.1)

    @pytest.mark.parametrize(
        "params, error, message",
        [
            ({"alpha": 0.0}, ValueError, "alpha"),
            ({"alpha": [0.1, 0.2]}, ValueError, "one alpha or 20, got 2"),
            ({"variance": -1.0}, ValueError, "variance"),
            ({"normalize_y": 1}, TypeError, "normalize_y"),
        ],
    )
    def test_parameters_are_checked(self, rng, params, error, message):
        X, y, _ = problem(rng, n=20)
        with pytest.raises(error, match=message):
            GaussianProcessRegressor(**params).fit(X, y)

    def test_not_both(self, rng):
        X, y, _ = problem(rng, n=20)
        with pytest.raises(ValueError, match="return_std or return_cov"):
            GaussianProcessRegressor().fit(X, y).predict(X, return_std=True, return_cov=True)
