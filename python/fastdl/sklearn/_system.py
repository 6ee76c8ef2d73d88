"""Systems with a kernel and a ridge: which solver takes them, and what it keeps for further right-hand sides."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.lapack import dpocon
from sklearn.utils import check_random_state

from fastdl._kernels import integer, real
from fastdl._progress import Report, check_progress
from fastdl.sklearn._kernel import Operator, matrix_of
from fastdl.sklearn._nystrom import Preconditioner, default_rank, pivoted_cholesky
from fastdl.sklearn._solver import Approach, Solution, conjugate_gradients, largest, warn

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl.sklearn._kernel import Kernel

SOLVERS = ("auto", "cholesky", "cg")

POSITIVE = real("a number above 0", lambda value: 0 < value < math.inf)
COUNT = integer("a whole number of at least 1", lambda value: value >= 1)
RANK = integer("a whole number of at least 0, or None", lambda value: value >= 0)

# Up to this number of samples "auto" forms K, in 200 MB. (rbf of 10 features, one core of a Zen 3, seconds of the
# factor and of conjugate gradients in float64: n = 2000 0.12 and 0.20 with alpha = 1, 0.12 and 0.44 with 0.01; n = 4000
# 1.4 and 0.6, 1.2 and 1.6; n = 8000 8.7 and 2.1, 7.6 and 7.0.) A factor does not mind a small alpha.
DENSE = 5000


def choose(where: str, solver: Any, n: int) -> str:
    """Give the solver for n samples."""
    if solver not in SOLVERS:
        raise ValueError(f"[{where}] expected solver to be one of {', '.join(SOLVERS)}, got {solver!r}")
    return str(solver) if solver != "auto" else "cholesky" if n <= DENSE else "cg"


def rank_of(where: str, rank: Any, X: HostArray) -> int:
    """Give the largest rank of the preconditioner."""
    return default_rank(len(X), X.itemsize) if rank is None else min(len(X), RANK(where, "rank", rank, 0))


def generator(random_state: Any) -> Any:
    """Give random numbers from what scikit-learn takes as their source."""
    if random_state is None or isinstance(random_state, (int, np.integer, np.random.Generator)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


class System:
    r"""The systems :math:`(S K S + \lambda_j I)\, x_j = b_j`.

    Parameters
    ----------
    estimator : estimator
        Its parameters solver, rank, tol, max_iter, random_state and progress say how they are solved.
    kernel : Kernel
        What gives K.
    X : array of shape (n, d)
        The samples.
    shift : float or array of shape (p,)
        λ: one for all columns, or one for each.
    scale : array of shape (n,), optional
        The diagonal of S.
    strict : bool, default False
        Whether a matrix that is singular to rounding is an error for ``"cholesky"``. Else it takes least squares.

    Attributes
    ----------
    solver : str
        The solver in use, "cholesky" or "cg".
    rank : int
        The rank of the preconditioner; 0 without one.
    """

    def __init__(
        self,
        estimator: Any,
        kernel: Kernel,
        X: HostArray,
        shift: Any,
        scale: HostArray | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.where = f"sklearn.{type(estimator).__name__}"
        check_progress(self.where, estimator.progress)
        self.tol = POSITIVE(self.where, "tol", estimator.tol, 0)
        self.max_iter = COUNT(self.where, "max_iter", estimator.max_iter, 0)
        self.progress, self.strict = estimator.progress, strict
        self.solver = choose(self.where, estimator.solver, len(X))
        self.operator = Operator(kernel, X, scale)
        self.shift: HostArray = np.atleast_1d(np.asarray(shift, np.float64))
        self.preconditioner: Preconditioner | None = None
        self.factors: dict[float, Any] = {}
        if self.solver == "cg":
            rank = rank_of(self.where, estimator.rank, X)
            with Report(f"{self.where}: preconditioner", self.progress, rank) as report:
                # With a rest whose trace is a shift, the condition number is at most 2: more would not pay.
                factor, _ = pivoted_cholesky(
                    self.where,
                    self.operator,
                    rank,
                    enough=float(self.shift.min()),
                    random=generator(estimator.random_state),
                    report=report,
                )
            self.preconditioner = Preconditioner(factor)

    @property
    def rank(self) -> int:
        """The rank of the preconditioner."""
        return 0 if self.preconditioner is None else len(self.preconditioner.factor)

    def solve(self, rhs: HostArray, *, quiet: bool = False) -> Solution:
        """Solve for columns (n, p), in float64; say so if the tolerance is not reached."""
        if self.solver == "cholesky":
            return self._solve_directly(rhs)
        assert self.preconditioner is not None
        preconditioner, operator = self.preconditioner, self.operator
        shifts = np.broadcast_to(self.shift, rhs.shape[1])
        # Near 1, so that no square leaves float64.
        sizes = np.abs(rhs).max(axis=0, initial=0)
        sizes[sizes == 0] = 1
        rhs = rhs / sizes
        norms = np.linalg.norm(rhs, axis=0)
        double = operator.dtype == np.float64
        with Approach(self.where, False if quiet else self.progress) as told:
            solution = conjugate_gradients(
                lambda V, columns: operator.product(V) + shifts[columns] * V,
                lambda V, columns: preconditioner.solve(V, shifts[columns]),
                rhs,
                self.tol * norms,
                self.max_iter,
                exact=None if double else lambda V, columns: operator.exact_product(V) + shifts[columns] * V,
                reach=4 * float(np.finfo(operator.dtype).eps),
                told=told,
            )
        relative = solution.residuals / np.where(norms > 0, norms, 1)
        if self.strict and not solution.definite and not solution.converged:
            raise self._indefinite()
        if not solution.converged:
            reached = (
                f"residual {largest(relative):.2g} of the target after {solution.iterations} steps, tol {self.tol:.2g}"
            )
            advice = "raise max_iter or rank"
            if not solution.definite:
                advice = "the kernel with alpha is not positive definite, to rounding; raise alpha"
            elif solution.iterations < self.max_iter:
                advice = "no step made it smaller; raise tol or alpha"
            warn(self.where, reached, advice)
        return solution._replace(x=solution.x * sizes, residuals=relative)

    def _indefinite(self) -> np.linalg.LinAlgError:
        return np.linalg.LinAlgError(f"[{self.where}] expected K + alpha to be positive definite; raise alpha")

    def _solve_directly(self, rhs: HostArray) -> Solution:
        x = np.empty_like(rhs)
        shifts = np.broadcast_to(self.shift, rhs.shape[1])
        for shift in np.unique(shifts):
            columns = shifts == shift
            x[:, columns] = self._direct(float(shift), rhs[:, columns])
        return Solution(x, np.zeros(rhs.shape[1]), 1, True, True)

    def _matrix(self, shift: float) -> HostArray:
        matrix = matrix_of(self.where, self.operator.kernel, self.operator.X)
        scale = self.operator.scale
        if scale is not None:
            matrix *= scale[:, None]
            matrix *= scale
        matrix[np.diag_indices_from(matrix)] += shift
        return matrix

    def _direct(self, shift: float, rhs: HostArray) -> HostArray:
        factor = self.factor(shift)
        if isinstance(factor, tuple):
            return np.asarray(cho_solve(factor, rhs, check_finite=False))
        values, vectors = factor.values, factor.vectors
        return np.asarray(vectors @ ((vectors.T @ rhs) / values[:, None]))

    def factor(self, shift: float) -> Any:
        """Give the Cholesky factor of the matrix with a shift, as `scipy.linalg.cho_solve` takes it.

        Of a matrix that has none to rounding, the eigenvectors with an eigenvalue: least squares.
        """
        if shift not in self.factors:
            matrix = self._matrix(shift)
            size = float(np.abs(matrix).sum(axis=0).max(initial=0))
            eps = float(np.finfo(np.float64).eps)
            try:
                factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
                condition, _ = dpocon(factor[0], size, uplo="L")
                if condition < eps:
                    raise np.linalg.LinAlgError
            except np.linalg.LinAlgError:
                if self.strict:
                    raise self._indefinite() from None
                warnings.warn(
                    f"[{self.where}] K + alpha is singular to rounding: the least-squares solution is taken",
                    stacklevel=4,
                )
                values, vectors = eigh(self._matrix(shift), overwrite_a=True, check_finite=False)
                kept = np.abs(values) > eps * len(values) * np.abs(values).max()
                factor = _Eigenpairs(values[kept], vectors[:, kept])
            self.factors[shift] = factor
        return self.factors[shift]


class _Eigenpairs:
    def __init__(self, values: HostArray, vectors: HostArray) -> None:
        self.values, self.vectors = values, vectors
