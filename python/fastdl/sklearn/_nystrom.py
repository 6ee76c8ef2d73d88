"""Nyström approximations by randomly pivoted Cholesky, and the preconditioner made of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh, solve_triangular

from fastdl.sklearn._kernel import checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdl._arrays import HostArray
    from fastdl._progress import Report
    from fastdl.sklearn._kernel import Operator

# Pivots proposed together. Fewer make the products thinner, more go further beyond what is enough. (n = 20000, rank
# 1000, rbf of 16 features, one core of a Zen 3: 2.3 s with 16, 1.6 s with 64, 1.4 s with 128, 1.1 s with 512.)
PROPOSALS = 128

# Numbers of a factor that are in float64 at a time: 16 MB.
_TOGETHER = 1 << 21


# The largest factor where no rank was asked for, in bytes.
_FACTOR = 512 << 20


def default_rank(n: int, itemsize: int) -> int:
    """Give the largest rank where none was asked for.

    The work for it, n rank², is then about that of 20 products with K.
    """
    return min(n, 100 + int(10 * n**0.5), max(1, _FACTOR // (itemsize * n)))


def pivoted_cholesky(
    where: str, operator: Operator, rank: int, *, enough: float = 0.0, random: Any, report: Report | None = None
) -> tuple[HostArray, float]:
    r"""Approximate a positive matrix by :math:`F^T F`, from some of its columns.

    Parameters
    ----------
    where : str
        Who asks, for messages.
    operator : Operator
        The n × n matrix.
    rank : int
        The largest number of columns to take.
    enough : float, default 0
        The trace of what is left, at which to stop before.
    random : numpy.random.Generator
        Chooses columns.
    report : Report, optional
        Told how many columns were taken.

    Returns
    -------
    factor : array of shape (k, n)
        F, with k at most `rank`: fewer once nothing is left that is above rounding. In the dtype of the samples.
    left : float
        The trace of the matrix minus its approximation.

    Notes
    -----
    A column is taken with a probability in proportion to what is left of the diagonal (Chen, Epperly, Tropp, Webber
    2022: the error is near that of the best approximation of the rank). Proposals come in blocks, and are thinned by
    rejection such that the columns taken have the distribution they had one by one (Epperly, Tropp, Webber 2024).
    """
    n = operator.n
    left = np.maximum(checked(where, "the diagonal of K", operator.diagonal()), 0)
    rank = min(rank, n)
    # Below this a pivot is rounding: duplicates of samples taken before.
    least = 16 * float(np.finfo(operator.dtype).eps) * float(left.max(initial=0))
    factor = np.empty((rank, n), operator.dtype)
    taken = 0
    while taken < rank and (total := float(left.sum())) > enough and total > least:
        proposals = random.choice(n, size=min(PROPOSALS, n), p=left / total)
        before = factor[:taken, proposals].astype(np.float64)
        schur = operator.block(proposals, proposals) - before.T @ before
        kept, lower = _thin(schur, rank - taken, least, random)
        if not kept:
            # Only what is at the level of rounding was proposed: a sign that all that is left is.
            break
        pivots = proposals[kept]
        at_pivots = factor[:taken, pivots].astype(np.float64)
        after = taken + len(kept)
        for rows in pieces(n, max(after, 1)):
            columns = operator.block(rows, pivots).T
            columns -= at_pivots.T @ factor[:taken, rows].astype(np.float64)
            columns = solve_triangular(lower, columns, lower=True, overwrite_b=True, check_finite=False)
            factor[taken:after, rows] = columns
            left[rows] -= np.einsum("kn,kn->n", columns, columns)
        checked(where, "K", left)
        np.maximum(left, 0, out=left)
        left[pivots] = 0
        if report is not None:
            report.add(len(kept))
        taken = after
    if report is not None and taken < rank:
        report.add(rank - taken)
    return factor[:taken], float(left.sum())


def _thin(schur: HostArray, most: int, least: float, random: Any) -> tuple[list[int], HostArray]:
    """Choose among proposals as if each had been made after the one before was taken; give their Cholesky factor."""
    size = len(schur)
    lower = np.zeros((size, size))
    kept: list[int] = []
    chances = random.random(size) * np.diagonal(schur)
    for i in range(size):
        k = len(kept)
        pivot = schur[i, i] - lower[i, :k] @ lower[i, :k]
        if pivot > least and pivot > chances[i]:
            lower[i:, k] = (schur[i:, i] - lower[i:, :k] @ lower[i, :k]) / np.sqrt(pivot)
            kept.append(i)
            if len(kept) == most:
                break
    return kept, lower[kept, : len(kept)]


def pieces(n: int, rank: int) -> Iterator[slice]:
    """Cut n columns such that pieces of rank rows are some megabytes of float64."""
    step = max(256, _TOGETHER // max(1, rank))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


class Preconditioner:
    r"""The inverse of :math:`S F^T F S + \lambda I` for a factor F of k rows, a diagonal S and any shifts λ.

    Parameters
    ----------
    factor : array of shape (k, n)
        F.
    scale : array of shape (n,), optional
        The diagonal of S; ones if not given.

    Notes
    -----
    By Woodbury's formula, with the eigenvectors of the k × k matrix :math:`F S^2 F^T`, so that every column may have
    another shift. F may be float32; it is taken as exact, and everything is computed in float64: what is applied is
    then symmetric and positive definite to rounding of that type, however small the shift is beside K.
    """

    def __init__(self, factor: HostArray, scale: HostArray | None = None) -> None:
        self.factor = factor
        self.scale = scale
        k, n = factor.shape
        products = np.zeros((k, k))
        for columns in pieces(n, k):
            part = self._part(columns)
            products += part @ part.T
        self.vectors: HostArray = products
        self.values: HostArray = np.zeros(k)
        if k:
            values, self.vectors = eigh(products, overwrite_a=True, check_finite=False)
            self.values = np.maximum(values, 0)
        # Shifts below this would divide rounding of the products by themselves.
        self.least = 64 * float(np.finfo(np.float64).eps) * max(1, k) * float(self.values.max(initial=0))

    def _part(self, columns: slice) -> HostArray:
        part: HostArray = self.factor[:, columns].astype(np.float64, copy=False)
        return part if self.scale is None else part * self.scale[columns]

    def shifts(self, shift: Any) -> HostArray:
        """Give the shifts that are used in place of some: those that are too small are raised."""
        return np.maximum(np.asarray(shift, np.float64), max(self.least, np.finfo(np.float64).tiny))

    def solve(self, R: HostArray, shift: Any) -> HostArray:
        """Apply the inverse to columns (n, p), with one shift for all or one for each."""
        shift = self.shifts(shift)
        k, n = self.factor.shape
        if not k:
            return np.asarray(R / shift)
        inner = np.zeros((k, R.shape[1]))
        for columns in pieces(n, k):
            inner += self._part(columns) @ R[columns]
        inner = self.vectors @ ((self.vectors.T @ inner) / (self.values[:, None] + shift))
        result = np.empty_like(R)
        for columns in pieces(n, k):
            result[columns] = (R[columns] - self._part(columns).T @ inner) / shift
        return result

    def log_determinant(self, shift: float) -> float:
        """Give the logarithm of the determinant of what `solve` inverts."""
        used = float(self.shifts(shift))
        k, n = self.factor.shape
        return float(np.log(self.values + used).sum() + (n - k) * np.log(used))

    def sample(self, count: int, shift: float, random: Any) -> HostArray:
        """Draw columns (n, count) from the normal distribution whose covariance `solve` inverts."""
        k, n = self.factor.shape
        inner = random.standard_normal((k, count))
        result: HostArray = float(self.shifts(shift)) ** 0.5 * random.standard_normal((n, count))
        for columns in pieces(n, k):
            result[columns] += self._part(columns).T @ inner
        return result
