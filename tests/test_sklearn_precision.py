"""Samples in float32, weights of any size, kernels that are none: what is learnt is right, or there is an error."""

import warnings

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn", "1.6")

from fastdl import gram  # noqa: E402
from fastdl.sklearn import (  # noqa: E402
    GaussianProcessRegressor,
    InvariantKernel,
    KernelLogisticRegression,
    KernelPerceptron,
    KernelRidge,
)

# float32 means the samples: all are compared with dense formulas in float64 of the same samples.


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("alpha", [1e-2, 1e-4])
def test_ridge_with_weights_that_cancel(rng, solver, alpha):
    X, points = (rng.standard_normal((n, 4)).astype(np.float32) for n in (600, 50))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(600)
    wide, far = X.astype(np.float64), points.astype(np.float64)
    weights = np.linalg.solve(gram.rbf(wide, gamma=0.1) + alpha * np.eye(600), y)
    model = KernelRidge(alpha=alpha, gamma=0.1, solver=solver, tol=1e-10).fit(X, y)
    assert np.abs(weights).sum() * 1e-7 > 1e-4  # what a sum in float32 would be off by
    # 1e-10 of y in the residual is at most that over alpha in the weights.
    allowed = 2e-5 * np.abs(y).max() + 1e-10 * np.linalg.norm(y) / alpha
    assert np.abs(model.predict(points) - gram.rbf(far, wide, gamma=0.1) @ weights).max() < allowed


@pytest.mark.parametrize("solver", ["dense", "cg"])
def test_logistic_regression_of_large_samples(rng, solver):
    X = (1e3 * rng.standard_normal((300, 3))).astype(np.float32)
    y = X[:, 0] + 700 * rng.standard_normal(300) > 0
    wide = X.astype(np.float64)
    found = KernelLogisticRegression(kernel="linear", solver=solver).fit(X, y)
    exact = KernelLogisticRegression(kernel="linear", solver="dense", tol=1e-7).fit(wide, y)
    assert np.abs(found.predict_proba(X) - exact.predict_proba(wide)).max() < 1e-4
    # The gradient is that of the model as it is.
    pull = y - found.predict_proba(wide)[:, 1]
    assert np.abs(pull - found.dual_coef_[:, 0]).max() < 1e-5


@pytest.mark.parametrize("share", [1e-8, 1e6])
def test_logistic_regression_with_weights_of_any_size(rng, share):
    """Of weights and 1/C only the ratio counts."""
    X = rng.standard_normal((200, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(200) > 0
    expected = KernelLogisticRegression(gamma=0.5).fit(X, y).predict_proba(X)
    found = KernelLogisticRegression(C=1 / share, gamma=0.5).fit(X, y, np.full(200, share)).predict_proba(X)
    assert np.abs(found - expected).max() < 1e-6


@pytest.mark.parametrize("alpha", [1e-4, 1e-6])
def test_variances_of_a_process(rng, alpha):
    X, points = (rng.standard_normal((n, 2)).astype(np.float32) for n in (150, 40))
    wide, far = X.astype(np.float64), points.astype(np.float64)
    model = GaussianProcessRegressor(gamma=0.5, alpha=alpha, solver="cholesky").fit(X, np.sin(X[:, 0]))
    deviation = model.predict(points, return_std=True)[1]
    K, cross = gram.rbf(wide, gamma=0.5) + alpha * np.eye(150), gram.rbf(wide, far, gamma=0.5)
    expected = 1 - np.einsum("ij,ij->j", cross, np.linalg.solve(K, cross))
    # What the inverse makes of roundings of cross in float64.
    assert np.abs(deviation.astype(np.float64) ** 2 - expected).max() < 1e-6 * expected.max() + 1e-14 / alpha
    assert np.median(expected) > 1e-13 / alpha  # so that the bound says something


def test_a_process_that_is_none(rng):
    X = rng.standard_normal((40, 2))
    for solver in ("cholesky", "cg"):
        model = GaussianProcessRegressor("sigmoid", gamma=2.0, coef0=-1.0, solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(np.linalg.LinAlgError, match=r"^\[sklearn\.GaussianProcessRegressor\] expected K"):
                model.fit(X, X[:, 0])


def test_a_perceptron_does_not_learn_from_nan(rng):
    X = rng.standard_normal((60, 2))
    with pytest.raises(ValueError, match=r"^\[sklearn\.KernelPerceptron\] expected K to be finite, got NaN"):
        KernelPerceptron(kernel="polynomial", degree=2.5, coef0=0, gamma=1).fit(X, X[:, 0] > 0)


def test_a_model_keeps_its_parameters(rng):
    X = rng.standard_normal((30, 2))
    scales = np.array([1.0, 2.0])
    model = KernelRidge(kernel="matern", kernel_params={"length_scale": scales}).fit(X, X[:, 0])
    before = model.predict(X)
    scales[:] = 9
    assert np.array_equal(model.predict(X), before)


def test_parameters_beside_a_kernel_with_its_own(rng):
    X = rng.standard_normal((30, 2))
    for options in ({"gamma": 5.0}, {"kernel_params": {"gamma": 5.0}}):
        with pytest.raises(ValueError, match=r"^\[sklearn\.KernelRidge\] expected .* in the kernel itself, got one"):
            KernelRidge(kernel=InvariantKernel(gamma=0.1), **options).fit(X, X[:, 0])
