"""Determinants from products: stochastic Lanczos quadrature with a preconditioner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import HostArray
    from fastdl.sklearn._nystrom import Preconditioner


def log_determinants(
    apply: Callable[[HostArray], HostArray],
    preconditioner: Preconditioner,
    shift: float,
    *,
    probes: int,
    tol: float,
    max_iter: int,
    random: Any,
) -> HostArray:
    r"""Estimate the logarithm of the determinant of a positive definite matrix, once from every probe.

    Parameters
    ----------
    apply : callable
        Multiplies columns (n, p) with the matrix A.
    preconditioner : Preconditioner
        An approximation P of A, with its `shift`.
    shift : float
        λ of P.
    probes : int
        The number of random vectors.
    tol : float
        The size of a residual, relative to the first, at which to stop.
    max_iter : int
        The largest number of products.
    random : numpy.random.Generator
        Draws the vectors.

    Returns
    -------
    array of shape (probes,)
        Independent estimates; their mean has no bias but that of stopping.

    Notes
    -----
    .. math:: \log\det A = \log\det P + \mathrm E\, w^T \log(P^{-1/2} A P^{-1/2})\, w, \qquad w \sim N(0, I)

    With :math:`w = P^{-1/2} z` and z from N(0, P), the coefficients of conjugate gradients for :math:`A x = z` are the
    Lanczos matrix of that product, whose logarithm gives the quadratic form. The better P, the less is left to chance.
    """
    used = float(preconditioner.shifts(shift))
    r = preconditioner.sample(probes, shift, random)
    z = preconditioner.solve(r, used)
    direction, rz = z, np.einsum("ij,ij->j", r, z)
    first = rz.copy()
    steps: list[HostArray] = []
    ratios: list[HostArray] = []
    for _ in range(min(max_iter, len(r))):
        product = apply(direction)
        curvature = np.einsum("ij,ij->j", direction, product)
        if not np.all(curvature > 0):
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        step = rz / curvature
        r = r - step * product
        z = preconditioner.solve(r, used)
        after = np.einsum("ij,ij->j", r, z)
        steps.append(step)
        ratios.append(np.maximum(after, 0) / rz)
        if np.all(after <= tol**2 * first):
            break
        direction = z + ratios[-1] * direction
        rz = after
    result = np.full(probes, preconditioner.log_determinant(shift))
    for probe in range(probes):
        alpha = np.array([step[probe] for step in steps])
        beta = np.array([ratio[probe] for ratio in ratios])
        diagonal = 1 / alpha
        diagonal[1:] += beta[:-1] / alpha[:-1]
        values, vectors = eigh_tridiagonal(diagonal, np.sqrt(beta[:-1]) / alpha[:-1])
        result[probe] += first[probe] * float(vectors[0] ** 2 @ np.log(values))
    return result
