"""Estimators for scikit-learn: kernel methods that never form the kernel's matrix, scattering, Hebbian learning."""

try:
    from sklearn.utils import validation as _validation

    _validation.validate_data  # noqa: B018  (it came with scikit-learn 1.6)
except (ImportError, AttributeError) as error:
    raise ImportError(
        "fastdl.sklearn needs scikit-learn 1.6 or newer: pip install 'fastdl-kernels[sklearn]'"
    ) from error

from fastdl.sklearn._gaussian_process import GaussianProcessRegressor
from fastdl.sklearn._hebbian import HebbianPCA
from fastdl.sklearn._invariant import InvariantKernel
from fastdl.sklearn._logistic import KernelLogisticRegression
from fastdl.sklearn._pca import KernelPCA
from fastdl.sklearn._perceptron import KernelPerceptron
from fastdl.sklearn._ridge import KernelRidge
from fastdl.sklearn._scattering import Scattering1D, Scattering2D

__all__ = [
    "GaussianProcessRegressor",
    "HebbianPCA",
    "InvariantKernel",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRidge",
    "Scattering1D",
    "Scattering2D",
]
