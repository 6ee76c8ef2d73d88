"""Kernel ridge regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fastdl._kernels import real
from fastdl.sklearn._kernel import FLOATS, kernel_of
from fastdl.sklearn._solver import largest
from fastdl.sklearn._system import System
from fastdl.sklearn._values import values

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl._progress import Progress

_RIDGE = real("a finite number of at least 0, or one for each target", lambda value: 0 <= value < np.inf)


class KernelRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Ridge regression in the space of a kernel, without forming its matrix.

    Parameters
    ----------
    alpha : float or array of shape (n_targets,), default 1
        The ridge, at least 0: one for all targets, or one for each.
    kernel : str, callable or InvariantKernel, default "rbf"
        The name of a kernel of `fastdl.gram`, or its function there.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel, for kernels that have them. ``gamma=None`` is the default of the kernel.
    kernel_params : dict, optional
        Further parameters of the kernel, by name.
    solver : {"auto", "cholesky", "cg"}, default "auto"
        ``"cholesky"`` forms K and factors it, ``"cg"`` takes conjugate gradients on `fastdl.gram.matvec` in memory of
        the order of n times `rank`. ``"auto"`` takes the first up to 5000 samples.
    rank : int, optional
        The largest rank of the Nyström preconditioner of ``"cg"``. None means :math:`100 + 10 \sqrt n`, but at most
        512 MB.
    tol : float, default 1e-6
        The norm of the residual, relative to that of the targets, at which ``"cg"`` stops.
    max_iter : int, default 200
        The largest number of steps of ``"cg"``, each of one product with K.
    random_state : int, numpy.random.RandomState or None, default 0
        Chooses the columns of the preconditioner. The result depends on it within the tolerance.
    progress : bool or callable, default False
        Whether to show how far the work is: with tqdm if it is installed, else by a line on standard error. A callable
        gets what is done and the total: of columns of the preconditioner, then of 100 percent of the digits to win.

    Attributes
    ----------
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_targets)
        The weights of the samples, in float64.
    X_fit_ : array of shape (n_samples, n_features)
        The samples learnt from.
    n_iter_ : int
        Steps taken; 1 of ``"cholesky"``.
    residual_ : float
        The largest relative residual of a target, computed anew in the end; 0 of ``"cholesky"``.
    solver_ : str
        The solver that was used.
    rank_ : int
        The rank of the preconditioner.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    sklearn.kernel_ridge.KernelRidge : The same model with K formed, and with ``kernel="linear"`` if none is named.

    Notes
    -----
    .. math:: f(x) = \sum_j c_j k(x, x_j), \qquad (K + \alpha I)\, c = y

    With weights w of samples, :math:`\sum_i w_i (y_i - f(x_i))^2 + \alpha \lVert f \rVert^2` is minimised. Samples in
    float32 stay so; the vectors of the solver are float64.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import KernelRidge
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> model = KernelRidge(alpha=1e-2, gamma=0.5, solver="cg").fit(X, np.sin(X[:, 0]))
    >>> model.predict([[0.0], [1.0]]).round(2) + 0.0
    array([0.  , 0.84])
    """

    def __init__(
        self,
        alpha: Any = 1,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        solver: str = "auto",
        rank: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.solver = solver
        self.rank = rank
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRidge:
        """Learn from samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : float or array of shape (n_samples,), optional
            Weights of the samples, at least 0.

        Returns
        -------
        KernelRidge
            This estimator.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the tolerance was not reached.
        """
        X, y = validate_data(self, X, y, dtype=FLOATS, order="C", multi_output=True, y_numeric=True)
        targets = y.reshape(len(X), -1).astype(np.float64)
        scale = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            if not weights.any():
                raise ValueError("Sample weights must contain at least one non-zero number.")
            scale = np.sqrt(weights)
            targets = scale[:, None] * targets
        self._kernel = kernel_of(self)
        system = System(self, self._kernel, X, self._ridge(targets.shape[1]), scale)
        solution = system.solve(targets)
        coefficients = solution.x if scale is None else scale[:, None] * solution.x
        self.dual_coef_ = coefficients.reshape(y.shape)
        self._size = largest(np.abs(y))
        self.X_fit_ = X
        self.n_iter_ = max(1, solution.iterations)
        self.residual_ = largest(solution.residuals)
        self.solver_, self.rank_ = system.solver, system.rank
        return self

    def _ridge(self, n_targets: int) -> HostArray:
        where = "sklearn.KernelRidge"
        if np.ndim(self.alpha) == 0:
            return np.array([_RIDGE(where, "alpha", self.alpha, 0)])
        ridge = np.array([_RIDGE(where, "alpha", alpha, 0) for alpha in np.ravel(self.alpha)])
        if ridge.shape != (n_targets,):
            raise ValueError(f"[{where}] expected one alpha or {n_targets}, got {len(ridge)}")
        return ridge

    def predict(self, X: Any) -> HostArray:
        """Give the values of the learnt function.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        found = values(self._kernel, X, self.dual_coef_, self.X_fit_, self._size)
        return found.astype(np.result_type(X, self.X_fit_), copy=False)
