"""The estimators among others: pipelines, searches, copies, pickles, data frames, and without scikit-learn."""

import importlib.util
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import fastdl.sklearn as package
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
    GaussianProcessRegressor(solver="cg", rank=30),
    HebbianPCA(2),
    InvariantKernel(gamma=0.1),
    KernelLogisticRegression(solver="cg"),
    KernelPCA(eigen_solver="krylov"),
    KernelPerceptron(max_iter=1000),
    KernelRidge(kernel=InvariantKernel(gamma=0.1), solver="cg"),
    Scattering1D(J=1),
    Scattering2D(J=1, L=2),
]
ALL = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 9))
    return X, (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)


def results(model, X):
    names = ("predict", "decision_function", "predict_proba", "transform")
    return [getattr(model, name)(X) for name in names if hasattr(model, name)]


def test_all_are_here():
    assert {type(estimator).__name__ for estimator in ESTIMATORS} == set(package.__all__)


@ALL
def test_pickles(estimator, data):
    X, y = data
    model = clone(estimator).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    points = X[::2].copy()
    for mine, other in zip(results(model, points), results(again, points), strict=True):
        assert np.array_equal(mine, other)


@ALL
def test_clones(estimator, data):
    X, y = data
    model = clone(estimator).fit(X, y)
    copy = clone(model)
    assert repr(copy) == repr(estimator) and not hasattr(copy, "n_features_in_")
    for mine, other in zip(results(model, X), results(copy.fit(X, y), X), strict=True):
        assert np.array_equal(mine, other)


@ALL
def test_data_frames(estimator, data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=[f"feature {i}" for i in range(9)])
    model = clone(estimator).fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    for mine, other in zip(results(model, frame), results(clone(estimator).fit(X, y), X), strict=True):
        assert np.allclose(mine, other, rtol=0, atol=1e-10)  # columns in memory are added up in another order
    with pytest.raises(ValueError, match="feature names"):
        results(model, frame.rename(columns={"feature 1": "another"}))
    if hasattr(model, "set_output"):
        given = model.set_output(transform="pandas").transform(frame)
        assert list(given.columns) == list(model.get_feature_names_out())


@ALL
def test_input_is_not_written(estimator, data):
    X, y = data
    before = X.copy()
    X.flags.writeable = False
    results(clone(estimator).fit(X, y), X)
    assert np.array_equal(X, before)


def by_chance(y):
    """The score of who always names the larger class."""
    return max(np.mean(y == label) for label in np.unique(y))


def searched(estimator, parameters, X, y):
    """A search in which the parameters have come through: they change the scores."""
    search = GridSearchCV(estimator, parameters, cv=3).fit(X, y)
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0
    return search


def test_search_over_parameters(data):
    X, y = data
    search = searched(KernelRidge(), {"alpha": [0.1, 1.0], "gamma": [0.01, 0.1], "kernel": ["rbf", "linear"]}, X, y)
    assert set(search.best_params_) == {"alpha", "gamma", "kernel"}
    searched(KernelRidge(kernel="matern"), {"kernel_params": [{"nu": 0.5}, {"nu": 2.5}]}, X, y)
    searched(SVC(kernel=InvariantKernel()), {"kernel__gamma": [0.001, 1.0]}, X, y)
    model = KernelLogisticRegression(kernel=InvariantKernel())
    assert searched(model, {"kernel__gamma": [0.01, 1.0], "C": [0.1, 10]}, X, y).best_score_ > by_chance(y)


def test_pipelines(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), KernelPCA(4, gamma=0.1), KernelLogisticRegression(gamma=1.0))
    parameters = {"kernelpca__gamma": [0.001, 0.1], "kernellogisticregression__C": [1, 10]}
    assert searched(pipeline, parameters, X, y).best_score_ > by_chance(y)
    several = cross_val_score(make_pipeline(HebbianPCA(9), KernelPerceptron(max_iter=2000)), X, y, cv=3)
    assert several.mean() > by_chance(y)
    several = OneVsRestClassifier(KernelLogisticRegression()).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    assert several.predict_proba(X).shape == (60, 3)


def test_scattered_digits():
    images, labels = load_digits(return_X_y=True)
    images, labels = images[:600].astype(np.float32) / 16, labels[:600]
    pipeline = make_pipeline(Scattering2D(J=1, L=4), StandardScaler(), KernelRidge(alpha=1e-2))
    targets = np.eye(10)[labels]
    pipeline.fit(images[:400], targets[:400])
    assert np.mean(pipeline.predict(images[400:]).argmax(axis=1) == labels[400:]) > 0.85


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )


def test_without_scikit_learn():
    done = run(
        """
        import sys

        sys.modules["sklearn"] = None
        import fastdl

        try:
            import fastdl.sklearn
        except ImportError as error:
            print(error)
        """
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'fastdl-kernels[sklearn]'" in done.stdout


def test_with_a_scikit_learn_that_is_too_old():
    done = run(
        """
        import sklearn.utils.validation as validation

        del validation.validate_data
        try:
            import fastdl.sklearn
        except ImportError as error:
            print(error)
        """
    )
    assert done.returncode == 0, done.stderr
    assert "scikit-learn 1.6 or newer" in done.stdout


def test_fastdl_does_not_import_scikit_learn():
    done = run("import sys, fastdl, fastdl.scattering; print('sklearn' in sys.modules, 'scipy' in sys.modules)")
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_kernel_ridge_large(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = Path(__file__).resolve().parents[1] / "examples" / "kernel_ridge_large.py"
    if not path.exists():
        pytest.skip("the examples are not here")
    spec = importlib.util.spec_from_file_location("example_kernel_ridge_large", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    result = example.main(tmp_path, 3000, progress=False)
    assert result["size"] == [46, 375, 3000]
    errors = result["error"]
    assert errors[0] > 1.5 * errors[1] > 2 * errors[2] and errors[2] < 1
    assert max(result["residual"]) <= 1e-4 and max(result["steps"]) < 30
    assert (tmp_path / "kernel_ridge_large.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out
