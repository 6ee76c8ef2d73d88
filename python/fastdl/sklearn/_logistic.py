"""Logistic regression in the space of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fastdl._hebbian_checks import flag
from fastdl._progress import Report, check_progress
from fastdl.sklearn._kernel import FLOATS, Operator, kernel_of, matrix_of
from fastdl.sklearn._newton import Binary, Multinomial, fit, probabilities_of
from fastdl.sklearn._nystrom import pivoted_cholesky
from fastdl.sklearn._solver import Approach, warn
from fastdl.sklearn._system import COUNT, DENSE, POSITIVE, generator, rank_of
from fastdl.sklearn._values import values

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl._progress import Progress

SOLVERS = ("auto", "dense", "cg")

# The preconditioner factors a matrix of rank times functions in every one of Newton's steps. (n = 4000, float32, one
# core of a Zen 3, seconds with rank 50, 100, 200, 400: two classes 1.1, 1.0, 1.0, 1.1 with C = 1 and 10, 6.9, 4.6, 3.2
# with C = 100; four classes 2.2, 1.5, 1.7, 3.6 and 16, 8.8, 7.2, 8.0.)
COUPLED = 1000


class KernelLogisticRegression(ClassifierMixin, BaseEstimator):
    r"""Logistic regression in the space of a kernel, without forming its matrix.

    Parameters
    ----------
    C : float, default 1
        The inverse of the ridge, above 0.
    kernel : str, callable or InvariantKernel, default "rbf"
        The name of a kernel of `fastdl.gram`, or its function there.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel, for kernels that have them. ``gamma=None`` is the default of the kernel.
    kernel_params : dict, optional
        Further parameters of the kernel, by name.
    fit_intercept : bool, default True
        Whether to add a number that has no ridge to each function.
    solver : {"auto", "dense", "cg"}, default "auto"
        Newton's method by conjugate gradients, whose products are with K formed or by `fastdl.gram.matvec`. ``"auto"``
        forms it up to 5000 samples.
    rank : int, optional
        The largest rank of the Nyström preconditioner. None means :math:`100 + 10 \sqrt n`, but at most 1000 over the
        number of functions, and 512 MB.
    tol : float, default 1e-6
        The largest element of :math:`w (y - p) - a / C` at which to stop, with the weights w of samples, of which the
        largest is taken as 1.
    max_iter : int, default 100
        The largest number of Newton's steps.
    random_state : int, numpy.random.RandomState or None, default 0
        Chooses the columns of the preconditioner. The result depends on it within the tolerance.
    progress : bool or callable, default False
        Whether to show how far the work is, as in `KernelRidge`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    dual_coef_ : array of shape (n_samples, 1) or (n_samples, n_classes)
        The weights of the samples, for each function: one for two classes, else one for each.
    intercept_ : array of shape (1,) or (n_classes,)
        The intercepts.
    X_fit_ : array of shape (n_samples, n_features)
        The samples learnt from.
    n_iter_ : int
        Newton's steps.
    n_products_ : int
        Products with K.
    gradient_ : float
        The largest element of what `tol` is for.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The same model on features.

    Notes
    -----
    .. math:: \min_f\; C \sum_i w_i\, \ell(y_i, f(x_i)) + \frac12 \lVert f \rVert^2, \qquad
              f(x) = \sum_j a_j k(x, x_j) + b

    with the logistic loss for two classes and the multinomial one for more: with ``kernel="linear"`` it is
    scikit-learn's `LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import KernelLogisticRegression
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> model = KernelLogisticRegression(C=10, gamma=1).fit(X, np.linalg.norm(X, axis=1) > 1)
    >>> model.predict([[0.0, 0.0], [2.0, 1.0]])
    array([False,  True])
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        rank: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.rank = rank
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelLogisticRegression:
        """Learn from samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : array of shape (n_samples,)
            Their classes.
        sample_weight : array of shape (n_samples,), optional
            Weights of the samples, at least 0.

        Returns
        -------
        KernelLogisticRegression
            This estimator.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the tolerance was not reached.
        """
        where = "sklearn.KernelLogisticRegression"
        X, y = validate_data(self, X, y, dtype=FLOATS, order="C")
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("Sample weights must contain at least one non-zero number.")
        if len(np.unique(numbers[weights > 0])) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {y[weights > 0][0]!r}")
        if self.solver not in SOLVERS:
            raise ValueError(f"[{where}] expected solver to be one of {', '.join(SOLVERS)}, got {self.solver!r}")
        # Of weights and ridge only the ratio counts: with the largest weight 1 the tolerance has a meaning.
        ridge = 1 / POSITIVE(where, "C", self.C, 0) / float(weights.max())
        weights = weights / weights.max()
        tol, max_iter = POSITIVE(where, "tol", self.tol, 0), COUNT(where, "max_iter", self.max_iter, 0)
        intercept = flag(where, "fit_intercept", self.fit_intercept)
        check_progress(where, self.progress)
        self._kernel = kernel_of(self)
        dense = self.solver == "dense" or (self.solver == "auto" and len(X) <= DENSE)
        K = matrix_of(where, self._kernel, X) if dense else None
        operator = Operator(self._kernel, X, K=K)
        functions = 1 if len(self.classes_) == 2 else len(self.classes_)
        rank = rank_of(where, self.rank, X)
        if self.rank is None:
            rank = min(rank, max(1, COUPLED // functions))
        with Report(f"{where}: preconditioner", self.progress, rank) as report:
            factor, _ = pivoted_cholesky(
                where, operator, rank, enough=ridge, random=generator(self.random_state), report=report
            )
        if functions == 1:
            loss: Binary | Multinomial = Binary(numbers[:, None].astype(np.float64), weights)
        else:
            loss = Multinomial(np.eye(len(self.classes_))[numbers], weights)
        with Approach(where, self.progress) as told:
            found = fit(operator, factor, loss, ridge, intercept=intercept, tol=tol, max_iter=max_iter, told=told)
        self.dual_coef_ = found.weights
        self.intercept_ = found.intercept
        self.X_fit_ = X
        self.n_iter_, self.n_products_, self.gradient_ = max(1, found.iterations), found.products, found.gradient
        if not found.converged:
            reached = f"gradient {found.gradient:.2g} after {found.iterations} of Newton's steps, tol {tol:.2g}"
            warn(where, reached, "raise max_iter, rank or tol, or use float64", 3)
        return self

    def decision_function(self, X: Any) -> HostArray:
        """Give the values of the learnt functions.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes the logarithm of the odds of the second.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        scores = values(self._kernel, X, self.dual_coef_, self.X_fit_, 1.0) + self.intercept_
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict_proba(self, X: Any) -> HostArray:
        """Give the probabilities of the classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        return probabilities_of(scores.reshape(len(scores), -1))

    def predict_log_proba(self, X: Any) -> HostArray:
        """Give the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([-np.logaddexp(0, scores), -np.logaddexp(0, -scores)], axis=1)
        scores = scores - scores.max(axis=1, keepdims=True)
        return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))

    def predict(self, X: Any) -> HostArray:
        """Give the classes of samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])
