"""Gaussian-process regression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fastdl._hebbian_checks import flag
from fastdl.sklearn._kernel import FLOATS, kernel_of
from fastdl.sklearn._lanczos import log_determinants
from fastdl.sklearn._solver import largest
from fastdl.sklearn._system import COUNT, POSITIVE, System, generator
from fastdl.sklearn._values import values

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl._progress import Progress

# Numbers in the columns that are solved for at a time, for variances: 32 MB in float64, and six times as many are kept.
_TOGETHER = 1 << 22


class GaussianProcessRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Gaussian-process regression with a fixed kernel: mean and variance, without forming the kernel's matrix.

    Parameters
    ----------
    kernel : str, callable or InvariantKernel, default "rbf"
        The name of a kernel of `fastdl.gram`, or its function there.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel, for kernels that have them. ``gamma=None`` is the default of the kernel.
    kernel_params : dict, optional
        Further parameters of the kernel, by name.
    variance : float, default 1
        What the kernel is multiplied with.
    alpha : float or array of shape (n_samples,), default 1e-2
        The variance of the noise, above 0: one for all samples, or one for each.
    normalize_y : bool, default False
        Whether targets are brought to mean 0 and variance 1 first.
    solver, rank, tol, max_iter, random_state, progress
        As in `KernelRidge`.

    Attributes
    ----------
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_targets)
        The weights of the samples in the mean.
    X_fit_ : array of shape (n_samples, n_features)
        The samples learnt from.
    n_iter_, residual_, solver_, rank_
        As in `KernelRidge`.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The same with K formed, and parameters of the kernel learnt.

    Notes
    -----
    With :math:`A = v K + \mathrm{diag}(\alpha)` the mean at x is :math:`v\, k(x)^T A^{-1} y` and the variance
    :math:`v\, k(x, x) - v^2 k(x)^T A^{-1} k(x)`: another system for every new sample, solved for blocks of them. The
    parameters of the kernel are those given; to choose them, compare `log_marginal_likelihood`, or search as for any
    estimator.

    A fitted estimator keeps what solved its systems: the Cholesky factor of A, or the Nyström preconditioner.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import GaussianProcessRegressor
    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> process = GaussianProcessRegressor(gamma=0.5, alpha=1e-4).fit(X, np.sin(X[:, 0]))
    >>> mean, deviation = process.predict([[1.0], [9.0]], return_std=True)
    >>> mean.round(2) + 0.0
    array([0.84, 0.  ])
    >>> deviation.round(1)
    array([0., 1.])
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        variance: float = 1.0,
        alpha: Any = 1e-2,
        normalize_y: bool = False,
        solver: str = "auto",
        rank: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.variance = variance
        self.alpha = alpha
        self.normalize_y = normalize_y
        self.solver = solver
        self.rank = rank
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any) -> GaussianProcessRegressor:
        """Learn from samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Their targets.

        Returns
        -------
        GaussianProcessRegressor
            This estimator.

        Raises
        ------
        numpy.linalg.LinAlgError
            If K with its noise is not positive definite to rounding.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the tolerance was not reached.
        """
        where = "sklearn.GaussianProcessRegressor"
        X, y = validate_data(self, X, y, dtype=FLOATS, order="C", multi_output=True, y_numeric=True)
        targets = y.reshape(len(X), -1).astype(np.float64)
        t = targets.shape[1]
        self._mean, self._deviation = np.zeros(t), np.ones(t)
        if flag(where, "normalize_y", self.normalize_y):
            self._mean, self._deviation = targets.mean(axis=0), targets.std(axis=0)
            self._deviation[self._deviation < 10 * np.finfo(np.float64).eps * np.abs(self._mean)] = 1
            self._deviation[self._deviation == 0] = 1
        self._targets = (targets - self._mean) / self._deviation
        self._variance = POSITIVE(where, "variance", self.variance, 0)
        shift, self._precision = self._noise(where, len(X))
        scale = math.sqrt(self._variance) * self._precision
        self._system = System(self, kernel_of(self), X, shift, scale, strict=True)
        solution = self._system.solve(self._precision[:, None] * self._targets)
        self._weights = self._precision[:, None] * solution.x
        self.dual_coef_ = self._weights.reshape(y.shape)
        self._size = largest(np.abs(self._deviation * self._targets))
        self.X_fit_ = X
        self.n_iter_ = max(1, solution.iterations)
        self.residual_ = largest(solution.residuals)
        self.solver_, self.rank_ = self._system.solver, self._system.rank
        return self

    def _noise(self, where: str, n: int) -> tuple[float, HostArray]:
        """Give the shift of the system, and what its rows and columns are divided by beside it.

        Noise that differs between samples is brought to 1: S K S + 1 is better conditioned than K + diag(alpha).
        """
        if np.ndim(self.alpha) == 0:
            return POSITIVE(where, "alpha", self.alpha, 0), np.ones(n)
        noise = np.array([POSITIVE(where, "alpha", alpha, 0) for alpha in np.ravel(self.alpha)])
        if noise.shape != (n,):
            raise ValueError(f"[{where}] expected one alpha or {n}, got {len(noise)}")
        return 1.0, 1 / np.sqrt(noise)

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Give the mean of the process at samples, and how sure it is.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        return_std : bool, default False
            Whether to give the standard deviation of the function, without noise, at every sample. With ``"cg"`` its
            square has an error of some times `tol` times the variance without samples.
        return_cov : bool, default False
            Whether to give the covariance between samples. Not both.

        Returns
        -------
        mean : array of shape (n_samples,) or (n_samples, n_targets)
        deviation : array of the same shape
            With `return_std`.
        covariance : array of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            With `return_cov`.
        """
        where = "sklearn.GaussianProcessRegressor.predict"
        if return_std and return_cov:
            raise ValueError(f"[{where}] expected return_std or return_cov, got both")
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        kernel = self._system.operator.kernel
        shape = (len(X), *self.dual_coef_.shape[1:])
        weights = self._variance * self._deviation * self._weights
        mean = values(kernel, X, weights, self.X_fit_, self._size) + self._mean
        mean = mean.astype(np.result_type(X, self.X_fit_), copy=False).reshape(shape)
        # Variances are what is left of a difference, and multiplied with an inverse: float32 would leave no digit.
        X = X.astype(np.float64, copy=False)
        if return_std:
            deviation = np.sqrt(self._variances(X))[:, None] * self._deviation
            return mean, deviation.astype(mean.dtype).reshape(shape)
        if return_cov:
            covariance = self._covariance(X)[:, :, None] * self._deviation**2
            return mean, covariance.astype(mean.dtype).reshape(len(X), *shape)
        return mean

    def _columns(self, X: HostArray) -> tuple[HostArray, HostArray]:
        """Give v T k(x) for new samples, a column each, and the solutions of the system for them."""
        system = self._system
        cross = system.operator.kernel.gram(self.X_fit_.astype(np.float64, copy=False), X)
        cross *= self._variance * self._precision[:, None]
        return cross, system.solve(cross, quiet=True).x

    def _variances(self, X: HostArray) -> HostArray:
        variances = self._variance * self._system.operator.kernel.diag(X)
        step = max(1, _TOGETHER // len(self.X_fit_))
        for start in range(0, len(X), step):
            cross, solved = self._columns(X[start : start + step])
            variances[start : start + step] -= np.einsum("ij,ij->j", cross, solved)
        # What the solver leaves undone makes variances too large, and rounding may make them negative.
        return np.asarray(np.maximum(variances, 0))

    def _covariance(self, X: HostArray) -> HostArray:
        covariance = self._variance * self._system.operator.kernel.gram(X)
        cross, solved = self._columns(X)
        covariance -= cross.T @ solved
        return np.asarray((covariance + covariance.T) / 2)

    def log_marginal_likelihood(self, n_probes: int = 16, return_error: bool = False) -> Any:
        r"""Give the logarithm of the probability of the targets, summed over them.

        Parameters
        ----------
        n_probes : int, default 16
            The number of random vectors that the solver ``"cg"`` estimates the determinant with.
        return_error : bool, default False
            Whether to give the standard error of the estimate too.

        Returns
        -------
        likelihood : float
            Exact, to rounding, with the solver ``"cholesky"``; with ``"cg"`` an estimate by stochastic Lanczos
            quadrature. With `normalize_y` it is that of the normalised targets, as in scikit-learn.
        error : float
            With `return_error`; 0 with ``"cholesky"``.
        """
        check_is_fitted(self)
        where = "sklearn.GaussianProcessRegressor.log_marginal_likelihood"
        system = self._system
        shift = float(system.shift[0])
        n, t = self._targets.shape
        if system.solver == "cholesky":
            logarithms = np.array([2 * np.log(np.diagonal(system.factor(shift)[0])).sum()])
        else:
            assert system.preconditioner is not None
            logarithms = log_determinants(
                lambda V: system.operator.exact_product(V) + shift * V,
                system.preconditioner,
                shift,
                probes=COUNT(where, "n_probes", n_probes, 0),
                tol=math.sqrt(system.tol),
                max_iter=system.max_iter,
                random=generator(self.random_state).spawn(1)[0],
            )
        determinant = float(logarithms.mean()) - 2 * float(np.log(self._precision).sum())
        fit = float(np.sum(self._targets * self._weights))
        likelihood = -0.5 * (fit + t * (determinant + n * math.log(2 * math.pi)))
        if not return_error:
            return likelihood
        count = len(logarithms)
        spread = float(logarithms.std(ddof=1)) if count > 1 else 0.0 if system.solver == "cholesky" else math.nan
        return likelihood, 0.5 * t * spread / math.sqrt(count)
