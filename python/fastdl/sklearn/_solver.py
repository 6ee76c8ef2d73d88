"""Preconditioned conjugate gradients for several right-hand sides at once, and how far they are."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fastdl._progress import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import HostArray
    from fastdl._progress import Progress

    Apply = Callable[[HostArray, HostArray], HostArray]


# Steps without progress before more exact products are tried.
PATIENCE = 30


class Solution(NamedTuple):
    """What `conjugate_gradients` found."""

    x: HostArray
    residuals: HostArray
    iterations: int
    converged: bool
    definite: bool


def conjugate_gradients(
    apply: Apply,
    precondition: Apply,
    rhs: HostArray,
    tolerances: HostArray,
    max_iter: int,
    *,
    exact: Apply | None = None,
    reach: float = 0.0,
    verify: bool = True,
    told: Callable[[float], object] = lambda worst: None,
) -> Solution:
    r"""Solve :math:`A_j x_j = b_j` for symmetric positive definite matrices, all columns at the same time.

    Parameters
    ----------
    apply : callable
        ``apply(V, columns)`` multiplies every column of V, of which `columns` are the numbers, with its matrix.
    precondition : callable
        ``precondition(V, columns)`` does the same with approximate inverses.
    rhs : array of shape (n, p)
        The right-hand sides, in float64.
    tolerances : array of shape (p,)
        The norms at which residuals are small enough.
    max_iter : int
        The largest number of steps, each of one product with the matrices.
    exact : callable, optional
        As `apply`, but slower and more exact: see the notes.
    reach : float, default 0
        The share of a residual that steps with `apply` can bring it down to: there it is computed anew.
    verify : bool, default True
        Whether residuals are computed anew when the steps end, and steps are begun again from them where they are not
        what the recurrence said.
    told : callable, optional
        Gets the largest ratio of a residual to its tolerance, after every step.

    Returns
    -------
    Solution
        The solutions, the norms of their residuals, the number of steps, whether all are within the tolerances, and
        whether all matrices were seen to be positive definite.

    Notes
    -----
    Each column has its own coefficients: one product with all of them costs little more than with one, since
    evaluating the kernel dominates. Columns that are done take part no more.

    To begin again from residuals that are computed anew is iterative refinement. Once that makes them no smaller with
    `apply` alone, `exact` computes the residuals: steps in float32 then reach any tolerance, as long as each of them
    wins something. Where they win too little, or the matrix is not positive definite in float32, `exact` takes the
    steps too.
    """
    x = np.zeros_like(rhs)
    rest = rhs.copy()
    norms = np.linalg.norm(rest, axis=0)
    columns = np.flatnonzero(norms > tolerances)
    # What takes the steps, and what computes the residuals.
    stages = [(apply, apply)] if exact is None else [(apply, apply), (apply, exact), (exact, exact)]
    iterations, definite = 0, True
    while columns.size and iterations < max_iter:
        walk, look = stages[0]
        before = norms[columns]
        goals = np.maximum(tolerances[columns], reach * before)
        # What is not exact leaves half of the steps to what comes after it.
        budget = max_iter - iterations if len(stages) == 1 else (max_iter - iterations + 1) // 2
        patience = budget if len(stages) == 1 else PATIENCE
        change, said, steps, definite = _descend(
            walk, precondition, rest[:, columns], goals, columns, budget, patience, told
        )
        iterations += steps
        trial = x[:, columns] + change
        after = said
        if verify:
            change = rhs[:, columns] - look(trial, columns)
            after = np.linalg.norm(change, axis=0)
        better = after < before
        x[:, columns[better]] = trial[:, better]
        rest[:, columns[better]] = change[:, better]
        norms[columns[better]] = after[better]
        if not verify:
            break
        stuck = (after > tolerances[columns]) & (after > 0.5 * before)
        if len(stages) > 1:
            # Nor is it worth while where less than half of the digits that the recurrence won are really there.
            stuck |= (after > tolerances[columns]) & (after > np.sqrt(before * said))
        if not stuck.any() and definite:
            columns = columns[after > tolerances[columns]]
            continue
        if len(stages) == 1:
            columns = columns[(after > tolerances[columns]) & ~stuck] if definite else columns[:0]
            continue
        stages = stages[1:] if definite else stages[-1:]
        columns = np.flatnonzero(norms > tolerances)
        rest[:, columns] = rhs[:, columns] - stages[0][1](x[:, columns], columns)
        norms[columns] = np.linalg.norm(rest[:, columns], axis=0)
        columns = np.flatnonzero(norms > tolerances)
    return Solution(x, norms, iterations, bool(np.all(norms <= tolerances)), definite)


def _descend(
    apply: Apply,
    precondition: Apply,
    r: HostArray,
    tolerances: HostArray,
    numbers: HostArray,
    max_iter: int,
    patience: int,
    told: Callable[[float], object],
) -> tuple[HostArray, HostArray, int, bool]:
    """Take steps until the residuals that the recurrence gives are within the tolerances.

    The coefficient is that of Polak and Ribière: unlike the usual one it does not trust products and preconditioner to
    be exact. After `patience` steps that made no residual smaller than it was before they end.
    """
    x = np.zeros_like(r)
    norms = np.linalg.norm(r, axis=0)
    active = np.arange(len(numbers))
    definite = True
    least, since = norms.copy(), 0
    z = precondition(r, numbers)
    direction, rz = z, _dots(r, z)
    for iteration in range(1, max_iter + 1):
        product = apply(direction, numbers[active])
        curvature = _dots(direction, product)
        positive = (curvature > 0) & (rz > 0)
        if not positive.all():
            definite = False
            active, r, direction, product, rz, curvature = _of(positive, active, r, direction, product, rz, curvature)
            if not active.size:
                return x, norms, iteration, definite
        step = rz / curvature
        x[:, active] += step * direction
        change = step * product
        r = r - change
        norms[active] = np.linalg.norm(r, axis=0)
        told(float(np.max(norms / tolerances)))
        since = 0 if np.any(norms < least) else since + 1
        np.minimum(norms, least, out=least)
        going = norms[active] > tolerances[active]
        if not going.any() or iteration == max_iter or since >= patience:
            break
        if not going.all():
            active, r, direction, change, rz = _of(going, active, r, direction, change, rz)
        z = precondition(r, numbers[active])
        direction = z - (_dots(z, change) / rz) * direction
        rz = _dots(r, z)
    return x, norms, iteration, definite


def _of(kept: HostArray, *arrays: HostArray) -> list[HostArray]:
    """Keep some of the columns."""
    return [array[..., kept] for array in arrays]


def _dots(a: HostArray, b: HostArray) -> HostArray:
    return np.asarray(np.einsum("ij,ij->j", a, b))


class Approach:
    """Shows how far an iteration is on its way to a tolerance: in percent, of the digits there are to win.

    The last percent is kept for the end: what an iteration says of itself is checked before.
    """

    def __init__(self, label: str, progress: bool | Progress) -> None:
        self.report = Report(label, progress, 100)
        self.first = 0.0

    def __call__(self, ratio: float) -> None:
        """Take the ratio of what is left to what is wanted."""
        if not self.first:
            self.first = max(ratio, 1.0)
        share = 1.0 if ratio <= 1 else 0.0
        if 1 < ratio < self.first:
            share = math.log(self.first / ratio) / math.log(self.first)
        self._show(min(99, int(100 * share)))

    def _show(self, percent: int) -> None:
        if percent > self.report.done:
            self.report.add(percent - self.report.done)

    def __enter__(self) -> Approach:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._show(100)
        self.report.__exit__(*error)


def warn(where: str, reached: str, advice: str, stacklevel: int = 4) -> None:
    """Say that an iteration ended before its tolerance was reached."""
    warnings.warn(f"[{where}] {reached}: {advice}", ConvergenceWarning, stacklevel=stacklevel)


def largest(values: Any) -> float:
    """Give the largest of some numbers, 0 of none."""
    return float(np.max(values, initial=0.0))
