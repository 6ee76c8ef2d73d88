"""Leading eigenvectors of a symmetric matrix that is known by its products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, qr

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import HostArray

# The basis is brought back to its best vectors when it has grown to this many blocks.
BLOCKS = 6


class Eigenpairs(NamedTuple):
    """What `leading` found."""

    values: HostArray
    vectors: HostArray
    residuals: HostArray
    iterations: int
    converged: bool


def leading(
    product: Callable[[HostArray], HostArray],
    start: HostArray,
    count: int,
    *,
    tol: float,
    max_iter: int,
    random: Any,
    told: Callable[[float], object] = lambda worst: None,
) -> Eigenpairs:
    r"""Find the largest eigenvalues and their eigenvectors.

    Parameters
    ----------
    product : callable
        Multiplies columns (n, p) with the matrix.
    start : array of shape (n, block)
        Where to begin: at least `count` columns. The more of them, the faster. Random ones take the place of those that
        are in the space of the others.
    count : int
        How many eigenvectors are wanted.
    tol : float
        The norm of :math:`K u - \theta u` relative to the largest eigenvalue, at which to stop.
    max_iter : int
        The largest number of products.
    random : numpy.random.Generator
        Draws them.
    told : callable, optional
        Gets the largest ratio of such a norm to what is wanted, after every product.

    Returns
    -------
    Eigenpairs
        The values, falling; the vectors as columns; the relative norms; the number of products; and whether all norms
        are small enough.

    Notes
    -----
    A space is extended by the residuals of its best vectors, block by block, which makes it a Krylov space (block
    Lanczos), and reduced to those vectors when it has become large (thick restart). The products are kept, so that
    residuals are true ones also when products are exact to 1e-7 only, as with samples in float32.
    """
    n, block = start.shape
    most = min(n, BLOCKS * block)
    basis = _orthonormal(start, np.empty((n, 0)))
    while lacking := block - basis.shape[1]:
        basis = np.concatenate([basis, _orthonormal(random.standard_normal((n, lacking)), basis)], axis=1)
    images = product(basis)
    iterations = 1
    while True:
        values, inner = eigh(_symmetrised(basis.T @ images), check_finite=False)
        inner = inner[:, ::-1][:, :block]
        values = values[::-1][:block]
        vectors, of_vectors = basis @ inner, images @ inner
        rests = of_vectors - vectors * values
        size = max(float(np.abs(values).max(initial=0)), float(np.finfo(np.float64).tiny))
        norms = np.linalg.norm(rests, axis=0) / size
        told(float(norms[:count].max(initial=0)) / tol)
        done = bool(np.all(norms[:count] <= tol)) or basis.shape[1] == n
        if done or iterations >= max_iter:
            return Eigenpairs(values[:count], vectors[:, :count], norms[:count], iterations, done)
        rests = rests[:, norms > tol]
        if basis.shape[1] + rests.shape[1] > most:
            basis, images = vectors, of_vectors
        further = _orthonormal(rests[:, : max(1, n - basis.shape[1])], basis)
        if not further.shape[1]:
            # What is left is in the space already, to rounding.
            return Eigenpairs(values[:count], vectors[:, :count], norms[:count], iterations, False)
        basis = np.concatenate([basis, further], axis=1)
        images = np.concatenate([images, product(further)], axis=1)
        iterations += 1


def _symmetrised(matrix: HostArray) -> HostArray:
    return np.asarray((matrix + matrix.T) / 2)


def _orthonormal(columns: HostArray, basis: HostArray) -> HostArray:
    """Give an orthonormal basis of what columns add to an orthonormal basis."""
    lengths = np.linalg.norm(columns, axis=0)
    columns = columns[:, lengths > 0] / lengths[lengths > 0]
    # Twice, as once leaves a share of rounding over the length of what remains.
    for _ in range(2):
        columns = columns - basis @ (basis.T @ columns)
        if not columns.shape[1]:
            break
        columns, triangle, _ = qr(columns, mode="economic", pivoting=True, check_finite=False)
        sizes = np.abs(np.diagonal(triangle))
        columns = columns[:, sizes > 1e-10]
    return columns
