"""What the functions of fastdl.gram check of their samples before they compute."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from fastdl._arrays import float32
from fastdl._kernels import KERNELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import Array, HostArray
    from fastdl._dispatch import Call
    from fastdl._kernels import Kernel

# Kernels that are not defined for all samples, or not compiled for all of their forms.
RESTRICTED = frozenset(["additive_chi2", "chi2", "geometric", "matern"])

CLOSED_FORMS = (0.5, 1.5, 2.5, np.inf)  # of matern, by nu

# Products looked at together: 8 MB in float64, whatever the number of columns.
_PRODUCTS = 1 << 20


def is_sparse(*arrays: Any) -> bool:
    """Tell whether one of the arrays is of scipy.sparse, without importing it: no such array exists before."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and any(sparse.issparse(array) for array in arrays)


def pairs(call: Call, second: int = 1) -> tuple[int, int]:
    """Check that the first array and one other are samples with the same features; give the shape of their K."""
    X, Y = call.arrays[0], call.arrays[second]
    if X.ndim != 2:
        raise ValueError(f"[{call.operation.name}] expected X of shape (n, d), got {tuple(X.shape)}")
    n, d = X.shape
    if Y is None:
        return n, n
    if Y.ndim != 2 or Y.shape[1] != d:
        raise ValueError(f"[{call.operation.name}] expected Y of shape (m, {d}), got {tuple(Y.shape)}")
    return n, Y.shape[0]


def in_single(call: Call) -> bool:
    """Tell whether compiled code computes the call in float32."""
    if call.backend == "native":
        return call.dtype is float32
    return call.backend == "cuda" and call.precision is float32


def restrict(
    kernel: Kernel, call: Call, parameters: Sequence[Any], Y: Array | None = None, *, diagonal: bool = False
) -> None:
    """Refuse samples that the kernel is not defined for; leave to the reference what the compiled code cannot take.

    That is what it has no formula for, and parameters beyond float32: the reference computes in float64. `Y` is the
    second array of the call unless it is given; `diagonal` leaves out the pairs of different rows.
    """
    name, where = kernel.name, call.operation.name
    if in_single(call) and not kernel.fits(*parameters):
        call.backend = "reference"
    if name not in RESTRICTED:
        return
    X = call.arrays[0]
    if Y is None and len(call.arrays) == 2:
        Y = call.arrays[1]
    if name == "matern":
        if parameters[1] not in CLOSED_FORMS:
            call.backend = "reference"
    elif name == "geometric":
        _check_convergence(where, X, Y, float(parameters[0]), diagonal)
    else:
        for argument, array in (("X", X), ("Y", Y)):
            if array is not None and _any(array < 0):
                raise ValueError(f"[{where}] expected {argument} without negative elements, got some below 0")


def _namespace(array: Array) -> Any:
    if isinstance(array, ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def columns_of(array: Array, order: HostArray) -> Array:
    """Permute the columns."""
    xp = _namespace(array)
    return xp.take(array, order if xp is np else xp.asarray(order, device=array.device), axis=1)


def _any(truth: Array) -> bool:
    return bool(_namespace(truth).any(truth))


def _largest_norm(array: Array) -> float:
    """Give the largest Euclidean norm of a row; 0 without rows, and rows with NaN do not count."""
    if not array.shape[0]:
        return 0.0
    xp = _namespace(array)
    if isinstance(array, ndarray):
        squares = np.einsum("ij,ij->i", array, array, dtype=np.float64)
    else:
        values = xp.astype(array, xp.float64)
        squares = xp.sum(values * values, axis=1)
    return math.sqrt(float(xp.max(xp.where(xp.isnan(squares), xp.zeros_like(squares), squares))))


def _check_convergence(where: str, X: Array, Y: Array | None, alpha: float, diagonal: bool) -> None:
    """Refuse samples with |α² x·y| ≥ 1: by the norms where they settle it, else by the products."""
    with np.errstate(all="ignore"):
        largest = _largest_norm(X)
        bound = alpha**2 * largest * (largest if Y is None else _largest_norm(Y))
        if bound < 1:
            return
        if not diagonal:
            bound = 0.0
            linear = KERNELS["linear"].function
            other = X if Y is None else Y
            step = max(1, _PRODUCTS // max(1, other.shape[0]))
            for start in range(0, X.shape[0], step):
                products = linear(X[start : min(X.shape[0], start + step), :], other)
                xp = _namespace(products)
                sizes = xp.abs(xp.where(xp.isnan(products), xp.zeros_like(products), products))
                if sizes.shape[1]:
                    bound = max(bound, alpha**2 * float(xp.max(sizes)))
    if bound >= 1:
        raise ValueError(f"[{where}] expected |alpha² x·y| below 1 for all pairs, got {bound:.6g}")
