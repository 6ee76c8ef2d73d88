"""Kernel principal components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fastdl._progress import Report, check_progress
from fastdl.sklearn._eigen import Eigenpairs, leading
from fastdl.sklearn._kernel import FLOATS, Operator, kernel_of, matrix_of
from fastdl.sklearn._nystrom import pivoted_cholesky
from fastdl.sklearn._solver import Approach, largest, warn
from fastdl.sklearn._system import COUNT, POSITIVE, RANK, generator

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl._progress import Progress

SOLVERS = ("auto", "dense", "krylov")

# Up to this number of samples "auto" forms K: to rounding, in place of a tolerance. (5 components, rbf of 10 features,
# float64, one core of a Zen 3: 0.09 and 0.05 s at n = 1000, 0.8 and 0.12 s at 2000, 6 and 0.4 s at 4000.)
FEW = 1000

# Columns beyond those that are asked for: the last ones wanted would else converge slowly.
FURTHER = 8


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Principal components in the space of a kernel, without forming its matrix.

    Parameters
    ----------
    n_components : int, default 2
        The number of components; at most that of samples is taken.
    kernel : str, callable or InvariantKernel, default "rbf"
        The name of a kernel of `fastdl.gram`, or its function there.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel, for kernels that have them. ``gamma=None`` is the default of the kernel.
    kernel_params : dict, optional
        Further parameters of the kernel, by name.
    eigen_solver : {"auto", "dense", "krylov"}, default "auto"
        ``"dense"`` forms K, ``"krylov"`` finds its leading eigenvectors by products with blocks of columns.
        ``"auto"`` takes the first up to 1000 samples.
    rank : int, optional
        The rank of the Nyström approximation whose eigenvectors ``"krylov"`` begins with. None means 50 and four for
        every component.
    tol : float, default 1e-6
        The norm of :math:`K u - \lambda u`, relative to the largest eigenvalue, at which ``"krylov"`` stops.
    max_iter : int, default 100
        The largest number of products with K.
    random_state : int, numpy.random.RandomState or None, default 0
        Chooses the columns of the Nyström approximation. The result depends on it within the tolerance.
    progress : bool or callable, default False
        Whether to show how far the work is, as in `KernelRidge`.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        The largest eigenvalues of the centred K, falling.
    eigenvectors_ : array of shape (n_samples, n_components)
        Their eigenvectors. The largest element of each is positive.
    X_fit_ : array of shape (n_samples, n_features)
        The samples learnt from.
    n_iter_ : int
        Products that were taken; 1 of ``"dense"``.
    residual_ : float
        The largest of the norms that `tol` is for; 0 of ``"dense"``.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    sklearn.decomposition.KernelPCA : The same with K formed, and with an approximate inverse.

    Notes
    -----
    With :math:`P = I - 1 1^T / n` the eigenvectors are those of :math:`P K P`. A new sample has the coordinates
    :math:`\sum_j (k(x, x_j) - \bar k_j)\, u_j / \sqrt \lambda`, with :math:`\bar k` the mean of the rows of K.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import KernelPCA
    >>> angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    >>> circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> places = KernelPCA(n_components=2, gamma=1).fit_transform(np.concatenate([circle, 3 * circle]))
    >>> places.shape
    (120, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        eigen_solver: str = "auto",
        rank: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.eigen_solver = eigen_solver
        self.rank = rank
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Learn from samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : object
            Not used.

        Returns
        -------
        KernelPCA
            This estimator.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the tolerance was not reached.
        """
        where = "sklearn.KernelPCA"
        X = validate_data(self, X, dtype=FLOATS, order="C")
        count = min(COUNT(where, "n_components", self.n_components, 0), len(X))
        solver = self.eigen_solver
        if solver not in SOLVERS:
            raise ValueError(f"[{where}] expected eigen_solver to be one of {', '.join(SOLVERS)}, got {solver!r}")
        check_progress(where, self.progress)
        self._kernel = kernel = kernel_of(self)
        if solver == "dense" or (solver == "auto" and len(X) <= FEW):
            found, means = _dense(matrix_of(where, kernel, X), count)
        else:
            operator = Operator(kernel, X)
            found = self._krylov(operator, count)
            means = operator.product(np.full((len(X), 1), 1 / len(X)))[:, 0]
        signs = np.sign(found.vectors[np.abs(found.vectors).argmax(axis=0), np.arange(count)])
        vectors = found.vectors * np.where(signs == 0, 1, signs)
        # Eigenvalues at the level of rounding are none: their vectors are noise, and would be divided by their roots.
        least = 1e-12 if X.dtype == np.float64 else 1e-6
        values = np.where(found.values > least * found.values[0], found.values, 0)
        self.eigenvalues_ = values.astype(X.dtype)
        self.eigenvectors_ = vectors.astype(X.dtype)
        self.X_fit_ = X
        self._offset = means @ self._weights().astype(np.float64)
        self.n_iter_, self.residual_ = found.iterations, largest(found.residuals)
        return self

    def _krylov(self, operator: Operator, count: int) -> Eigenpairs:
        where, n = "sklearn.KernelPCA", operator.n
        tol = POSITIVE(where, "tol", self.tol, 0)
        max_iter = COUNT(where, "max_iter", self.max_iter, 0)
        random = generator(self.random_state)
        block = min(n, count + FURTHER)
        rank = min(n, 50 + 4 * count if self.rank is None else RANK(where, "rank", self.rank, 0))
        with Report(f"{where}: beginning", self.progress, rank) as report:
            factor, _ = pivoted_cholesky(where, operator, rank, random=random, report=report)
        factor -= factor.mean(axis=1, keepdims=True)
        size = len(factor)
        inner = eigh(factor @ factor.T, subset_by_index=[max(0, size - block), size - 1])[1] if size else factor[:, :0]
        start = np.zeros((n, block))
        start[:, : inner.shape[1]] = factor.T @ inner

        def product(columns: HostArray) -> HostArray:
            images = operator.product(columns - columns.mean(axis=0))
            return np.asarray(images - images.mean(axis=0))

        with Approach(where, self.progress) as told:
            found = leading(product, start, count, tol=tol, max_iter=max_iter, random=random, told=told)
        if not found.converged:
            reached = f"residual {largest(found.residuals):.2g} after {found.iterations} products, tol {tol:.2g}"
            warn(where, reached, "raise max_iter or tol, or use float64")
        return found

    def _weights(self) -> HostArray:
        """Give the weights of the samples in each coordinate."""
        roots = np.sqrt(self.eigenvalues_)
        weights: HostArray = np.where(roots > 0, self.eigenvectors_ / np.where(roots > 0, roots, 1), 0)
        return weights

    def fit_transform(self, X: Any, y: Any = None) -> HostArray:
        """Learn from samples, and give their coordinates.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : object
            Not used.

        Returns
        -------
        array of shape (n_samples, n_components)
            As from `transform`, without another product with K.
        """
        self.fit(X)
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    def transform(self, X: Any) -> HostArray:
        """Give the coordinates of samples along the components.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        images = self._kernel.matvec(X, self._weights(), self.X_fit_)
        return np.asarray(images - self._offset.astype(images.dtype))

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _dense(K: HostArray, count: int) -> tuple[Eigenpairs, HostArray]:
    """Give the leading eigenvectors of a centred matrix, and the means of its rows before."""
    means = K.mean(axis=0)
    K = K - means
    K -= K.mean(axis=1, keepdims=True)
    n = len(K)
    values, vectors = eigh((K + K.T) / 2, subset_by_index=[n - count, n - 1], overwrite_a=True, check_finite=False)
    return Eigenpairs(values[::-1], vectors[:, ::-1], np.zeros(count), 1, True), means
