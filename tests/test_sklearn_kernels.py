"""Kernel principal components, the perceptron, logistic regression and invariant kernels."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn import decomposition
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from fastdl import gram
from fastdl.sklearn import InvariantKernel, KernelLogisticRegression, KernelPCA, KernelPerceptron, KernelRidge
from fastdl.sklearn import _perceptron as perceptron


class TestKernelPCA:
    @pytest.mark.parametrize("solver", ["dense", "krylov"])
    @pytest.mark.parametrize(
        "kernel, params",
        [("rbf", {"gamma": 0.1}), ("rbf", {"gamma": 1.0}), ("linear", {}), ("poly", {"degree": 2})],
    )
    def test_like_scikit_learn(self, rng, solver, kernel, params):
        X, points = rng.standard_normal((150, 6)) * np.arange(1, 7), rng.standard_normal((20, 6))
        theirs = decomposition.KernelPCA(5, kernel=kernel, eigen_solver="dense", **params)
        ours = KernelPCA(5, kernel=kernel, eigen_solver=solver, tol=1e-13, **params)
        their_places, places = theirs.fit_transform(X), ours.fit_transform(X)
        size = theirs.eigenvalues_[0]
        gap = np.min(-np.diff(decomposition.KernelPCA(6, kernel=kernel, **params).fit(X).eigenvalues_)) / size
        # An eigenvector turns by its residual over the gap to the next eigenvalue.
        allowed = 1e-12 / gap * np.sqrt(size)
        assert np.allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-11)
        signs = np.sign(np.sum(places * their_places, axis=0))
        assert np.abs(places * signs - their_places).max() < allowed
        assert np.abs(ours.transform(points) * signs - theirs.transform(points)).max() < 10 * allowed
        assert np.abs(ours.transform(X) - places).max() < 10 * allowed

    @pytest.mark.parametrize("solver", ["dense", "krylov"])
    def test_float32(self, rng, solver):
        X = (rng.standard_normal((200, 4)) * [3, 2, 1, 0.5]).astype(np.float32)
        exact = KernelPCA(3, gamma=0.05).fit_transform(X.astype(np.float64))
        model = KernelPCA(3, gamma=0.05, eigen_solver=solver)
        places = model.fit_transform(X)
        assert places.dtype == model.transform(X).dtype == np.float32
        assert np.allclose(np.abs(places), np.abs(exact), rtol=0, atol=1e-3)
        assert model.residual_ <= 1e-6

    def test_the_largest_element_is_positive(self, rng):
        vectors = KernelPCA(4).fit(rng.standard_normal((30, 3))).eigenvectors_
        assert np.all(vectors[np.abs(vectors).argmax(axis=0), np.arange(4)] > 0)

    @pytest.mark.parametrize("solver", ["dense", "krylov"])
    def test_more_components_than_there_are(self, rng, solver):
        X = rng.standard_normal((3, 2)).repeat(5, axis=0)
        model = KernelPCA(6, eigen_solver=solver).fit(X)
        places = model.transform(X)
        # Three points have two directions.
        assert np.all(model.eigenvalues_[:2] > 0) and not model.eigenvalues_[2:].any()
        assert not places[:, 2:].any()
        K = gram.center(gram.rbf(X))
        assert np.allclose(places @ places.T, K, atol=1e-10)
        assert KernelPCA(6, eigen_solver=solver).fit(X[:4]).n_iter_ >= 1
        assert KernelPCA(6, eigen_solver=solver).fit_transform(X[:4]).shape == (4, 4)

    def test_convergence_is_told(self, rng):
        X = rng.standard_normal((300, 8))
        with pytest.warns(ConvergenceWarning, match="after 2 products"):
            KernelPCA(3, gamma=2.0, eigen_solver="krylov", rank=5, max_iter=2).fit(X)

    def test_progress(self, rng):
        told = []
        KernelPCA(eigen_solver="krylov", progress=lambda *done: told.append(done)).fit(rng.standard_normal((100, 3)))
        assert told[-1] == (100, 100)

    @pytest.mark.parametrize(
        "params, error, message",
        [
            ({"n_components": 0}, ValueError, "n_components"),
            ({"n_components": None}, TypeError, "n_components"),
            ({"eigen_solver": "arpack"}, ValueError, "eigen_solver"),
            ({"eigen_solver": "krylov", "tol": -1.0}, ValueError, "tol"),
        ],
    )
    def test_parameters_are_checked(self, rng, params, error, message):
        with pytest.raises(error, match=message):
            KernelPCA(**params).fit(rng.standard_normal((20, 3)))


def one_by_one(K, signs, passes):
    """The perceptron of the book: one function, one sample after the other."""
    weights, mistakes = np.zeros(len(K)), 0
    for _ in range(passes):
        before = mistakes
        for i in range(len(K)):
            if signs[i] * (K[i] @ weights) <= 0:
                weights[i] += signs[i]
                mistakes += 1
        if mistakes == before:
            break
    return weights, mistakes


class TestKernelPerceptron:
    @pytest.mark.parametrize("together", [1, 7, 256])
    def test_like_one_by_one(self, rng, monkeypatch, together):
        monkeypatch.setattr(perceptron, "TOGETHER", together)
        X = rng.standard_normal((80, 3))
        y = np.sin(2 * X[:, 0]) + X[:, 1] > 0
        model = KernelPerceptron(gamma=0.7, max_iter=500).fit(X, y)
        weights, mistakes = one_by_one(gram.rbf(X, gamma=0.7), np.where(y, 1, -1), 500)
        assert model.mistakes_.tolist() == [mistakes]
        assert np.array_equal(model.support_, np.flatnonzero(weights))
        assert np.array_equal(model.dual_coef_[:, 0], weights[weights != 0])
        assert np.array_equal(model.predict(X), y)

    def test_the_bound_of_novikoff(self, rng):
        for seed in range(5):
            random = np.random.default_rng(seed)
            X = random.standard_normal((60, 2))
            X[:, 0] += np.where(X[:, 0] > 0, 0.3, -0.3)
            y = X[:, 0] > 0
            model = KernelPerceptron(kernel="linear", max_iter=1000, shuffle=True, random_state=seed).fit(X, y)
            assert model.converged_.all()
            # The largest margin, by a support vector machine that allows no error; it has none without an intercept,
            # so all samples and their mirror images are learnt.
            signs = np.where(y, 1, -1)
            machine = SVC(kernel="linear", C=1e8, tol=1e-8).fit(
                np.concatenate([X, -X]), np.concatenate([signs, -signs])
            )
            margin = 1 / np.linalg.norm(machine.coef_)
            radius = np.linalg.norm(X, axis=1).max()
            assert model.radius_ == pytest.approx(radius)
            assert 0 < model.mistakes_[0] <= (radius / margin) ** 2 * (1 + 1e-5)
            # Its own margin is no larger, so its own bound no smaller.
            assert 0 < model.margin_[0] <= margin * (1 + 1e-5)
            assert model.mistake_bound_[0] >= (radius / margin) ** 2 * (1 - 1e-5)

    def test_its_margin(self, rng):
        X = rng.standard_normal((50, 4))
        y = rng.integers(0, 3, 50)
        model = KernelPerceptron(gamma=2.0, max_iter=2000).fit(X, y)
        assert model.converged_.all() and np.array_equal(model.predict(X), y)
        weights = np.zeros((50, 3))
        weights[model.support_] = model.dual_coef_
        scores = gram.rbf(X, gamma=2.0) @ weights
        signs = np.where(y[:, None] == np.arange(3), 1, -1)
        norms = np.sqrt(np.sum(weights * scores, axis=0))
        assert np.allclose(model.margin_, (signs * scores).min(axis=0) / norms, rtol=1e-9)
        assert np.all(model.mistakes_ <= model.mistake_bound_)
        assert np.allclose(model.decision_function(X), scores, rtol=1e-9, atol=1e-9)

    def test_classes_that_cannot_be_separated(self, rng):
        X = rng.standard_normal((100, 1)).repeat(2, axis=0)
        y = np.tile([0, 1], 100)
        with pytest.warns(ConvergenceWarning, match="average=True"):
            model = KernelPerceptron(max_iter=5).fit(X, y)
        assert model.n_iter_ == 5 and not model.converged_.any()
        assert model.margin_.tolist() == [0] and model.mistake_bound_.tolist() == [np.inf]

    def test_the_mean_over_all_steps(self, rng):
        X = rng.standard_normal((40, 2))
        y = X[:, 0] + 0.5 * rng.standard_normal(40) > 0
        K, signs = gram.rbf(X, gamma=1.0), np.where(y, 1, -1)
        weights, total = np.zeros(40), np.zeros(40)
        for _ in range(3):
            for i in range(40):
                if signs[i] * (K[i] @ weights) <= 0:
                    weights[i] += signs[i]
                total += weights
        with pytest.warns(ConvergenceWarning):
            model = KernelPerceptron(gamma=1.0, average=True, max_iter=3).fit(X, y)
        assert np.allclose(model.decision_function(X), K @ total / 120, rtol=0, atol=1e-12)

    def test_float32(self, rng):
        X = rng.standard_normal((60, 3)).astype(np.float32)
        y = X[:, 0] > 0
        model = KernelPerceptron(gamma=1.0, max_iter=1000).fit(X, y)
        assert model.decision_function(X).dtype == np.float32
        assert np.array_equal(model.predict(X), y)

    def test_one_class_is_refused(self, rng):
        with pytest.raises(ValueError, match="one class"):
            KernelPerceptron().fit(rng.standard_normal((5, 2)), np.zeros(5))

    def test_progress(self, rng):
        told = []
        X = rng.standard_normal((30, 2))
        model = KernelPerceptron(progress=lambda *done: told.append(done)).fit(X, X[:, 0] > 0)
        assert told[-1] == (30 * model.n_iter_, 3000)


def classes(rng, n=240, count=4):
    X = rng.standard_normal((n, 4))
    scores = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
    return X, np.digitize(scores, np.quantile(scores, np.linspace(0, 1, count + 1)[1:-1]))


class TestKernelLogisticRegression:
    @pytest.mark.parametrize("solver", ["dense", "cg"])
    @pytest.mark.parametrize("count", [2, 4])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("C", [0.1, 10.0])
    def test_like_scikit_learn_on_features(self, rng, solver, count, fit_intercept, C):
        X, y = classes(rng, count=count)
        theirs = LogisticRegression(C=C, solver="newton-cg", tol=1e-10, max_iter=1000, fit_intercept=fit_intercept)
        ours = KernelLogisticRegression(C=C, kernel="linear", solver=solver, fit_intercept=fit_intercept, tol=1e-9)
        theirs.fit(X, y)
        ours.fit(X, y)
        assert ours.gradient_ <= 1e-9
        assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-7)
        assert np.allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), rtol=0, atol=1e-6)
        coefficients = (ours.dual_coef_.T @ X).reshape(theirs.coef_.shape)
        assert np.allclose(coefficients, theirs.coef_, rtol=0, atol=1e-6)
        if count == 2:
            assert np.allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
        else:  # known up to a number that all classes share
            assert np.allclose(np.diff(ours.intercept_), np.diff(theirs.intercept_), atol=1e-6)

    def test_like_scikit_learn_on_the_features_of_a_polynomial(self, rng):
        # (x·y + 1)² is the product of these features.
        X, y = classes(rng, count=3)
        pairs = [(i, j) for i in range(4) for j in range(i)]
        features = np.concatenate(
            [
                np.ones((len(X), 1)),
                np.sqrt(2) * X,
                X**2,
                np.sqrt(2) * np.stack([X[:, i] * X[:, j] for i, j in pairs], 1),
            ],
            axis=1,
        )
        theirs = LogisticRegression(C=3.0, solver="newton-cg", tol=1e-10, max_iter=1000).fit(features, y)
        ours = KernelLogisticRegression(C=3.0, kernel="polynomial", degree=2, gamma=1, tol=1e-9).fit(X, y)
        assert np.allclose(ours.predict_proba(X), theirs.predict_proba(features), rtol=0, atol=1e-7)

    @pytest.mark.parametrize("count", [2, 3])
    @pytest.mark.parametrize("C", [1.0, 1e4])
    def test_the_gradient_vanishes(self, rng, count, C):
        # In the space of functions: a / C = w (y - p), and the sum of a is 0.
        X, y = classes(rng, count=count)
        weights = rng.uniform(0.5, 2, len(X))
        model = KernelLogisticRegression(C=C, gamma=0.5, tol=1e-8).fit(X, y, weights)
        targets = np.eye(count)[y]
        pulls = weights[:, None] * (targets - model.predict_proba(X))
        a = model.dual_coef_ if count > 2 else np.concatenate([-model.dual_coef_, model.dual_coef_], axis=1)
        assert np.abs(pulls - a / C).max() < 1e-7
        assert np.abs(a.sum(axis=0)).max() < 1e-7 * C * len(X)

    @pytest.mark.parametrize("count", [2, 3])
    def test_weights_are_repetitions(self, rng, count):
        X, y = classes(rng, n=90, count=count)
        counts = rng.integers(0, 3, len(X))
        weighted = KernelLogisticRegression(gamma=0.3, tol=1e-9).fit(X, y, counts)
        repeated = KernelLogisticRegression(gamma=0.3, tol=1e-9).fit(X.repeat(counts, 0), y.repeat(counts))
        assert np.allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-7)

    def test_with_and_without_the_matrix(self, rng):
        X, y = classes(rng)
        formed = KernelLogisticRegression(C=5, gamma=0.3, solver="dense", tol=1e-9).fit(X, y)
        products = KernelLogisticRegression(C=5, gamma=0.3, solver="cg", tol=1e-9, rank=40).fit(X, y)
        assert np.allclose(formed.predict_proba(X), products.predict_proba(X), rtol=0, atol=1e-7)
        assert np.allclose(formed.predict_proba(X).sum(axis=1), 1)

    def test_float32(self, rng):
        X, y = classes(rng)
        exact = KernelLogisticRegression(C=5, gamma=0.3).fit(X, y).predict_proba(X)
        narrow = X.astype(np.float32)
        model = KernelLogisticRegression(C=5, gamma=0.3, solver="cg").fit(narrow, y)
        found = model.predict_proba(narrow)
        assert model.X_fit_.dtype == np.float32 and model.dual_coef_.dtype == found.dtype == np.float64
        assert np.allclose(found, exact, rtol=0, atol=1e-4)

    def test_classes_far_apart(self, rng):
        # The weights of all samples vanish: probabilities are 0 and 1.
        X = np.concatenate([rng.standard_normal((30, 2)), rng.standard_normal((30, 2)) + 50])
        y = np.repeat(["far", "near"], 30)
        model = KernelLogisticRegression(C=1e6, kernel="linear").fit(X, y)
        assert np.array_equal(model.predict(X), y)
        assert np.all(np.isfinite(model.predict_log_proba(1e3 * X)))

    def test_convergence_is_told(self, rng):
        X, y = classes(rng)
        with pytest.warns(ConvergenceWarning, match="after 1 of Newton's steps"):
            KernelLogisticRegression(C=100, max_iter=1).fit(X, y)

    @pytest.mark.parametrize(
        "params, error, message",
        [
            ({"C": 0}, ValueError, "C to be a number above 0"),
            ({"solver": "lbfgs"}, ValueError, "solver to be one of auto, dense, cg"),
            ({"fit_intercept": "no"}, TypeError, "fit_intercept"),
        ],
    )
    def test_parameters_are_checked(self, rng, params, error, message):
        X, y = classes(rng, n=30)
        with pytest.raises(error, match=message):
            KernelLogisticRegression(**params).fit(X, y)

    def test_one_class_is_refused(self, rng):
        X, y = classes(rng, n=30, count=2)
        with pytest.raises(ValueError, match="one class"):
            KernelLogisticRegression().fit(X, np.zeros(30))
        with pytest.raises(ValueError, match="one class"):
            KernelLogisticRegression().fit(X, y, (y == 1).astype(float))


ROTATIONS = np.stack([np.rot90(np.arange(9).reshape(3, 3), k).ravel() for k in range(4)])
NO_GROUP = ROTATIONS[:3]


class TestInvariantKernel:
    @pytest.mark.parametrize("permutations", [ROTATIONS, NO_GROUP, None])
    @pytest.mark.parametrize(
        "kernel, params", [("rbf", {}), ("linear", {}), ("matern", {"length_scale": np.linspace(1, 2, 9)})]
    )
    def test_products_and_diagonals(self, rng, dtype, permutations, kernel, params):
        X, Y = rng.standard_normal((13, 9)).astype(dtype), rng.standard_normal((10, 9)).astype(dtype)
        given = InvariantKernel(permutations, kernel=kernel, kernel_params=params)
        orders = permutations
        if orders is None:
            orders = np.stack([np.roll(np.arange(9), -k) for k in range(9)])
        products = given.kernel_for(9)
        expected = sum(gram.gram(X[:, g], Y[:, h], kernel, **params).astype(np.float64) for g in orders for h in orders)
        eps = 100 * float(np.finfo(dtype).eps) * np.abs(expected).max()
        assert np.allclose(given(X, Y), expected, rtol=0, atol=eps)
        v = rng.standard_normal((10, 2)).astype(dtype)
        assert np.allclose(products.matvec(X, v, Y), expected @ v, rtol=0, atol=10 * eps)
        assert products.matvec(X, v[:, 0], Y).shape == (13,) and products.matvec(X, v, Y).dtype == dtype
        assert np.allclose(products.diag(X), np.diagonal(given(X)), rtol=0, atol=10 * eps)
        assert np.allclose(products.matvec(X, np.ones((13, 1), dtype))[:, 0], given(X).sum(axis=1), atol=200 * eps)

    def test_three_ways(self, rng):
        X, points = rng.standard_normal((60, 9)), rng.standard_normal((20, 9))
        y = X[:, 4] - X[:, 0] * X[:, 8] > 0
        called = SVC(kernel=InvariantKernel(ROTATIONS, gamma=0.1)).fit(X, y)
        piped = make_pipeline(InvariantKernel(ROTATIONS, gamma=0.1), SVC(kernel="precomputed")).fit(X, y)
        assert np.allclose(called.decision_function(points), piped.decision_function(points))
        turned = points[:, ROTATIONS[1]]
        assert np.allclose(called.decision_function(points), called.decision_function(turned))
        K = gram.invariant(X, permutations=ROTATIONS, gamma=0.1)
        across = gram.invariant(points, X, permutations=ROTATIONS, gamma=0.1)
        expected = across @ np.linalg.solve(K + np.eye(60), y)
        for solver in ("cholesky", "cg"):
            ridge = KernelRidge(kernel=InvariantKernel(ROTATIONS, gamma=0.1), solver=solver, tol=1e-12).fit(X, y)
            assert np.allclose(ridge.predict(points), expected, rtol=0, atol=1e-9)
            assert np.allclose(ridge.predict(turned), expected, rtol=0, atol=1e-9)

    def test_of_all_kernel_estimators(self, rng):
        X = rng.standard_normal((40, 9))
        y = (X[:, 4] > 0).astype(int)
        turned = X[:, ROTATIONS[3]]
        kernel = InvariantKernel(ROTATIONS, gamma=0.2)
        for model in (KernelPerceptron(kernel, max_iter=1000), KernelLogisticRegression(kernel=kernel)):
            assert np.allclose(model.fit(X, y).decision_function(turned), model.decision_function(X))
        places = KernelPCA(2, kernel=kernel, eigen_solver="krylov").fit(X)
        assert np.allclose(places.transform(turned), places.transform(X))

    def test_transform_is_the_matrix(self, rng):
        X, points = rng.standard_normal((12, 5)), rng.standard_normal((7, 5))
        model = InvariantKernel(kernel="linear").fit(X)
        # Shifts of a signal see nothing but its sum.
        assert np.allclose(model.transform(points), 5 * np.outer(points.sum(axis=1), X.sum(axis=1)))
        assert model.permutations_.shape == (5, 5)
        assert model.get_feature_names_out()[:2].tolist() == ["invariantkernel0", "invariantkernel1"]

    @pytest.mark.parametrize(
        "permutations, error, message",
        [
            (np.zeros((2, 5), int), ValueError, "every row of permutations"),
            (np.arange(4)[None], ValueError, "permutations of shape"),
            (np.arange(5.0)[None], TypeError, "integers"),
        ],
    )
    def test_permutations_are_checked(self, rng, permutations, error, message):
        with pytest.raises(error, match=message):
            InvariantKernel(permutations).fit(rng.standard_normal((4, 5)))
