"""Kernels that a group of permutations of the features leaves as they are, for estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fastdl import gram
from fastdl._gram_invariant import _permutations as check_permutations
from fastdl._gram_invariant import is_group
from fastdl.sklearn._kernel import FLOATS, kernel_parameters

if TYPE_CHECKING:
    from fastdl._arrays import HostArray

# Rows whose kernel with themselves is taken from one small matrix: more would compute pairs that nobody asked for.
_TOGETHER = 8


class GroupKernel:
    """A kernel of `fastdl.gram` summed over permutations, with its products."""

    def __init__(self, name: str, parameters: dict[str, Any], permutations: HostArray) -> None:
        self.name, self.parameters, self.permutations = name, parameters, permutations
        scales = np.asarray(parameters.get("length_scale", 1.0))
        alike = scales.ndim == 0 or bool(np.all(scales[permutations] == scales))
        self.one_sum = alike and is_group(permutations)

    def gram(self, X: HostArray, Y: HostArray | None = None) -> HostArray:
        """Give K(X, Y)."""
        result: HostArray = gram.invariant(X, Y, permutations=self.permutations, kernel=self.name, **self.parameters)
        return result

    def matvec(self, X: HostArray, v: HostArray, Y: HostArray | None = None) -> HostArray:
        """Give K(X, Y) v: a product for every element of a group, and for every pair of permutations of no group."""
        others = X if Y is None else Y
        lefts = [X] if self.one_sum else [X[:, order] for order in self.permutations]
        dtype = np.result_type(X, v, others)
        total = np.zeros((len(X), *v.shape[1:]))
        for order in self.permutations:
            right = others[:, order]
            for left in lefts:
                total += gram.matvec(left, v, right, self.name, **self.parameters)
        return np.asarray(total * (len(self.permutations) if self.one_sum else 1), dtype)

    def diag(self, X: HostArray) -> HostArray:
        """Give the diagonal of K(X, X)."""
        result = np.empty(len(X), X.dtype)
        for start in range(0, len(X), _TOGETHER):
            rows = slice(start, start + _TOGETHER)
            result[rows] = np.diagonal(self.gram(X[rows]))
        return result


class InvariantKernel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""A kernel summed over a group of permutations of the features, for estimators and in pipelines.

    Parameters
    ----------
    permutations : integers of shape (order, n_features), optional
        How the elements of the group permute the features: ``(g x)[i] = x[permutations[g, i]]``. None means the cyclic
        shifts of all features.
    kernel : str or callable, default "rbf"
        The name of a kernel of `fastdl.gram`, or its function there.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel, for kernels that have them. ``gamma=None`` is the default of the kernel.
    kernel_params : dict, optional
        Further parameters of the kernel, by name.

    Attributes
    ----------
    X_fit_ : array of shape (n_samples, n_features)
        The samples that `transform` compares with.
    permutations_ : array of shape (order, n_features)
        The permutations that are used.
    n_features_in_ : int
        The number of features.

    Notes
    -----
    .. math:: K(x, y) = \sum_g \sum_{g'} k(g x, g' y)

    It is used in three ways. As a function, for estimators that take one: ``SVC(kernel=InvariantKernel(group))``. As
    the kernel of `KernelRidge`, `KernelPCA` and the others of this module, which then take products for every element
    of the group and form no matrix. And as a transformer, which gives ``K(X, X_fit_)``, before estimators for
    precomputed kernels: ``make_pipeline(InvariantKernel(group), SVC(kernel="precomputed"))``.

    K is :math:`|G|^2` times as large as the kernel it is made of.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from fastdl.sklearn import InvariantKernel
    >>> X = np.random.default_rng(0).standard_normal((40, 5))
    >>> y = X.max(axis=1) > 1  # the same for all shifts
    >>> model = SVC(kernel=InvariantKernel(gamma=0.5), C=10).fit(X, y)
    >>> bool(np.all(model.predict(X) == model.predict(np.roll(X, 2, axis=1))))
    True
    """

    def __init__(
        self,
        permutations: Any = None,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
    ) -> None:
        self.permutations = permutations
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params

    def kernel_for(self, n_features: int) -> GroupKernel:
        """Give the kernel on samples with a number of features, with its products.

        Parameters
        ----------
        n_features : int
            The number of features.

        Returns
        -------
        GroupKernel
            An object with the methods ``gram(X, Y=None)``, ``matvec(X, v, Y=None)`` and ``diag(X)``.
        """
        name, parameters = kernel_parameters(self, n_features)
        permutations = self.permutations
        if permutations is None:
            steps = np.arange(n_features)
            permutations = (steps[:, None] + steps) % n_features
        orders = check_permutations("sklearn.InvariantKernel", permutations, n_features)
        return GroupKernel(name, parameters, orders)

    def __call__(self, X: Any, Y: Any = None) -> HostArray:
        """Compute the Gram matrix.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Samples, one a row.
        Y : array of shape (m, n_features), optional
            Other samples. None means ``Y = X``.

        Returns
        -------
        array of shape (n, m)
        """
        X = check_array(X, dtype=FLOATS)
        return self.kernel_for(X.shape[1]).gram(X, None if Y is None else check_array(Y, dtype=FLOATS))

    def fit(self, X: Any, y: Any = None) -> InvariantKernel:
        """Take the samples that others are compared with.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : object
            Not used.

        Returns
        -------
        InvariantKernel
            This estimator.
        """
        X = validate_data(self, X, dtype=FLOATS, order="C")
        self._kernel = self.kernel_for(X.shape[1])
        self.permutations_ = self._kernel.permutations
        self.X_fit_ = X
        return self

    def transform(self, X: Any) -> HostArray:
        """Compute the Gram matrix of samples with those of `fit`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples, number of samples of `fit`)
        """
        check_is_fitted(self)
        return self._kernel.gram(validate_data(self, X, dtype=FLOATS, reset=False), self.X_fit_)

    @property
    def _n_features_out(self) -> int:
        return len(self.X_fit_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
