"""The estimators keep to scikit-learn's conventions: its own checks, on every one of them and on every solver."""

import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.utils.estimator_checks import parametrize_with_checks

from fastdl.sklearn import (
    GaussianProcessRegressor,
    HebbianPCA,
    InvariantKernel,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    Scattering1D,
    Scattering2D,
)

ESTIMATORS = [
    GaussianProcessRegressor(),
    GaussianProcessRegressor(solver="cg"),
    HebbianPCA(),
    InvariantKernel(),
    KernelLogisticRegression(),
    KernelLogisticRegression(solver="cg", kernel="linear"),
    KernelPCA(),
    KernelPCA(eigen_solver="krylov"),
    KernelRidge(),
    KernelRidge(solver="cg", tol=1e-12),
    KernelRidge(kernel=InvariantKernel(gamma=0.1)),
    Scattering1D(),
]


@parametrize_with_checks(ESTIMATORS)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


# Some checks have classes that no function separates.
@pytest.mark.filterwarnings("ignore:.sklearn.KernelPerceptron.:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([KernelPerceptron(), KernelPerceptron(average=True, shuffle=True)])
def test_checks_of_scikit_learn_on_the_perceptron(estimator, check):
    check(estimator)


# Their samples are no images: three features, or ten.
@pytest.mark.filterwarnings("ignore:.sklearn.Scattering2D. expected shape, or a square number:UserWarning")
@parametrize_with_checks([Scattering2D()])
def test_checks_of_scikit_learn_on_images(estimator, check):
    check(estimator)
