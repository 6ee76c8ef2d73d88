"""Gram matrices of samples in scipy.sparse, which are never made dense."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from fastdl._arrays import NUMPY, check_dtype, check_out, float32, float64, is_plain, library_of
from fastdl._dispatch import choose, core, new_array

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray
    from fastdl._kernels import Kernel

SPARSE = ("linear", "polynomial", "rbf", "cosine")


def sparse_gram(kernel: Kernel, X: Any, Y: Any, out: Array | None, values: tuple[Any, ...]) -> Any:
    """Compute a Gram matrix where X or Y is sparse, as a dense NumPy array."""
    where = kernel.operation.name
    if kernel.name not in SPARSE:
        raise TypeError(
            f"[{where}] expected dense samples, got a scipy.sparse matrix: "
            f"{', '.join(SPARSE[:-1])} and {SPARSE[-1]} take sparse ones"
        )
    chosen = choose(where, "cpu")
    Y = None if Y is X else Y
    first = _matrix(where, "X", X)
    second = None if Y is None else _matrix(where, "Y", Y)
    if first.ndim != 2:
        raise ValueError(f"[{where}] expected X of shape (n, d), got {first.shape}")
    n, d = first.shape
    if second is not None and (second.ndim != 2 or second.shape[1] != d):
        raise ValueError(f"[{where}] expected Y of shape (m, {d}), got {second.shape}")
    given = [array for array in (first, second) if array is not None]
    dtype = float32 if {check_dtype(where, "XY"[i], array) for i, array in enumerate(given)} == {"float32"} else float64
    shape = (n, n if second is None else second.shape[0])
    parameters = dict(zip(kernel.defaults, kernel.resolve(where, d, values), strict=True))
    if dtype is float32 and not kernel.fits(*parameters.values()):
        chosen = "reference"
    target = None
    if out is not None:
        sources = [memory for array in given for memory in _memory(array)]
        target = check_out(where, out, shape, dtype, NUMPY, None, sources)
    rows = _canonical(first, "csr", dtype)
    columns = _canonical(first if second is None else second, "csc", dtype)
    native = getattr(getattr(core, "gram", None), "sparse", None)
    if chosen == "native" and native is not None:
        result = target if target is not None and is_plain(target) else new_array(shape, dtype)
        native(_triple(rows), _triple(columns), (*shape, d), kernel.name, parameters, second is None, result)
    else:
        from fastdl.reference.gram_sparse import sparse

        with np.errstate(all="ignore"):
            result = sparse(rows, None if second is None else columns, kernel.name, parameters)
    if target is None:
        return result
    if result is not target:
        target[...] = result
    return out


def _matrix(where: str, name: str, array: Any) -> Any:
    """Give a sparse matrix as it is, anything else as a NumPy array."""
    if sys.modules["scipy.sparse"].issparse(array):
        return array
    library = library_of(array)
    if library.device(array) != "cpu":
        raise ValueError(f"[{where}] expected {name} in main memory, got {library.device(array)}")
    return library.view(where, name, array)


def _memory(array: Any) -> list[Any]:
    """Give the arrays that hold the values of a matrix, as far as its format tells."""
    if isinstance(array, ndarray):
        return [array]
    data = getattr(array, "data", None)
    return [data] if isinstance(data, ndarray) else []


def _canonical(array: Any, form: str, dtype: Any) -> Any:
    """Give a matrix as CSR or CSC with sorted indices and no duplicates; the argument itself is never changed."""
    sparse = sys.modules["scipy.sparse"]
    make = sparse.csr_array if form == "csr" else sparse.csc_array
    result = make(array, dtype=dtype)
    if not result.has_canonical_format:
        result = result.copy()
        result.sum_duplicates()
    return result


def _triple(matrix: Any) -> tuple[HostArray, HostArray, HostArray]:
    return (
        np.ascontiguousarray(matrix.indptr, np.int64),
        np.ascontiguousarray(matrix.indices, np.int64),
        np.ascontiguousarray(matrix.data),
    )
