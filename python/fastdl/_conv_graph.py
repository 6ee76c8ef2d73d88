"""Convolutions on graphs, given by dense matrices or matrices of scipy.sparse."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import check_dtype, float32, float64, kind, library_of
from fastdl._conv_checks import activation_name, choice, flag
from fastdl._dispatch import Operation
from fastdl._gram_checks import is_sparse
from fastdl._kernels import real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import Array

_graph_laplacian = Operation("conv.graph_laplacian", "A")


def graph_laplacian(A: Array, normalized: bool = False) -> Array:
    r"""Laplacian of a graph.

    Parameters
    ----------
    A : array of shape (n, n)
        Weights of the edges, 0 where there is none. Or a matrix of scipy.sparse.
    normalized : bool, default False
        Whether to divide by the degrees of the nodes, the sums of the rows of `A`.

    Returns
    -------
    array of shape (n, n)
        :math:`D - A`, or :math:`I - D^{-1/2} A D^{-1/2}` with rows and columns of 0 for nodes of degree 0. In the
        library and dtype of `A`, a ``scipy.sparse.csr_array`` for a sparse one; symmetric to the bit if `A` is.

    Raises
    ------
    ValueError
        If `A` is not square, or normalized with a negative degree.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.graph_laplacian(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]]))
    array([[ 1., -1.,  0.],
           [-1.,  3., -2.],
           [ 0., -2.,  2.]])
    """
    where = "conv.graph_laplacian"
    normalized = flag(where, "normalized", normalized)
    if is_sparse(A):
        (matrix,), dtype = _sparse_arguments(where, A=A)
        _check_degrees(where, matrix, 0.0 if normalized else -math.inf)
        from fastdl.reference.conv_graph_sparse import graph_laplacian as compute

        with np.errstate(all="ignore"):
            return compute(matrix, normalized).astype(dtype)
    call = _graph_laplacian.begin(A)
    (edges,) = call.arrays
    n = _check_square(where, "A", edges)
    _check_degrees(where, edges, 0.0 if normalized else -math.inf)
    return call.finish((n, n), None, normalized)


_graph_filter = Operation("conv.graph_filter", "L", "X")
_COEFFICIENT = real("a finite number")
_LARGEST = real("a number above 0, or None", lambda value: 0 < value < math.inf)


def graph_filter(
    L: Array, X: Array, coefficients: Sequence[float], basis: str = "monomial", *, largest: float | None = None
) -> Array:
    r"""Polynomial of a Laplacian applied to signals on a graph, without eigenvectors.

    Parameters
    ----------
    L : array of shape (n, n)
        A Laplacian, as from `graph_laplacian`, or any matrix. Or a matrix of scipy.sparse, which is not made dense.
    X : array of shape (n, f) or (n,)
        Signals: a row for every node.
    coefficients : sequence of K numbers
        At least one: of the powers of `L` from 0, or of the Chebyshev polynomials from :math:`T_0`.
    basis : {"monomial", "chebyshev"}, default "monomial"
        What the coefficients belong to.
    largest : float, optional
        The eigenvalue that "chebyshev" scales by. None means the largest one of :math:`(L + L^T) / 2`, so of `L` if it
        is symmetric. It is computed from all eigenvalues of a dense matrix, and for a sparse one by at most 1000
        products, which give it to rounding, or to 1e-6 of its size for large graphs whose largest eigenvalues lie close
        together, like long paths. Give it if it is known, as 2 often is for a normalized Laplacian.

    Returns
    -------
    array of shape (n, f) or (n,)
        Of the rank of `X`, in the library and dtype of the arguments; a NumPy array for a sparse `L`.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or `L` has no positive eigenvalue to scale by and is not 0.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: Y = \sum_k \alpha_k L^k X \qquad\text{or}\qquad Y = \sum_k \alpha_k T_k(2 L / \lambda_{\max} - I)\, X

    It takes K - 1 products with `L`. For L = 0, the graph without edges, the argument of :math:`T_k` is -I.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> L = conv.graph_laplacian(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> conv.graph_filter(L, np.array([1.0, 0.0]), [1.0, -0.25])
    array([0.75, 0.25])
    """
    where = "conv.graph_filter"
    basis = choice(where, "basis", basis, ("monomial", "chebyshev"))
    if isinstance(coefficients, str) or not hasattr(coefficients, "__iter__"):
        raise TypeError(f"[{where}] expected coefficients to be a sequence of numbers, got {coefficients!r}")
    numbers = tuple(_COEFFICIENT(where, "coefficients", value, 0) for value in coefficients)
    if not numbers:
        raise ValueError(f"[{where}] expected at least one coefficient, got none")
    if largest is not None:
        largest = _LARGEST(where, "largest", largest, 0)
    elif basis == "monomial" or len(numbers) == 1:
        largest = 1.0  # nothing is scaled
    if is_sparse(L):
        (matrix, signals), dtype = _sparse_arguments(where, L=L, X=X)
        _check_signals(where, matrix, signals)
        from fastdl.reference.conv_graph import polynomial
        from fastdl.reference.conv_graph_sparse import largest_eigenvalue

        if largest is None:
            largest = _scale(where, largest_eigenvalue(matrix), bool(matrix.count_nonzero()))
        with np.errstate(all="ignore"):
            return polynomial(matrix, signals, numbers, basis, largest).astype(dtype)
    call = _graph_filter.begin(L, X)
    matrix, signals = call.arrays
    _check_square(where, "L", matrix)
    _check_signals(where, matrix, signals)
    if largest is None:
        from fastdl.reference.conv_graph import largest_eigenvalue as dense_largest_eigenvalue

        largest = _scale(where, dense_largest_eigenvalue(matrix), bool((matrix != 0).any()))
    return call.finish(tuple(signals.shape), None, numbers, basis, largest)


_gcn = Operation("conv.gcn", "A", "X", "W?")


def gcn(A: Array, X: Array, W: Array | None = None, *, activation: str | None = None) -> Array:
    r"""Layer of a graph convolutional network.

    Parameters
    ----------
    A : array of shape (n, n)
        Weights of the edges, without self-loops, which are added. Or a matrix of scipy.sparse.
    X : array of shape (n, f), or (n,) without `W`
        Features: a row for every node.
    W : array of shape (f, g), optional
        Weights of the layer. None means the identity.
    activation : {"relu", "leaky_relu", "sigmoid", "tanh"}, optional
        What is applied to the result.

    Returns
    -------
    array of shape (n, g), (n, f) or (n,)
        In the library and dtype of the arguments; a NumPy array for a sparse `A`.

    Raises
    ------
    ValueError
        If the shapes do not fit, a row of `A` sums to -1 or less, or there is no such activation.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: Y = \sigma(\hat A X W), \quad \hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}, \quad
        \tilde d_i = 1 + \sum_j A_{ij}

    For a symmetric `A` without negative weights the spectral norm of :math:`\hat A` is at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.gcn(np.array([[0.0, 3.0], [3.0, 0.0]]), np.array([[1.0], [0.0]]))
    array([[0.25],
           [0.75]])
    """
    where = "conv.gcn"
    activation = activation_name(where, activation)
    if is_sparse(A):
        (matrix, features, *rest), dtype = _sparse_arguments(where, A=A, X=X, **({} if W is None else {"W": W}))
        weights = rest[0] if rest else None
        _check_layer(where, matrix, features, weights)
        from fastdl.reference.conv_graph_sparse import gcn as compute

        with np.errstate(all="ignore"):
            return compute(matrix, features, weights, activation).astype(dtype)
    call = _gcn.begin(A, X, W)
    matrix, features, weights = call.arrays
    _check_square(where, "A", matrix)
    shape = _check_layer(where, matrix, features, weights)
    return call.finish(shape, None, activation)


def _check_square(where: str, name: str, matrix: Any) -> int:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"[{where}] expected {name} of shape (n, n), got {tuple(matrix.shape)}")
    return int(matrix.shape[0])


def _check_degrees(where: str, matrix: Any, least: float, *, open_end: bool = False) -> None:
    """Refuse nodes whose degree has no inverse root. NaN passes."""
    degree = matrix.sum(axis=1)
    if bool((degree <= least).any() if open_end else (degree < least).any()):
        wanted = "above" if open_end else "of at least"
        raise ValueError(f"[{where}] expected rows of A with sums {wanted} {least:g}, got {float(degree.min()):g}")


def _check_signals(where: str, matrix: Any, signals: Any) -> None:
    n = matrix.shape[0]
    if signals.ndim not in (1, 2) or signals.shape[0] != n:
        raise ValueError(f"[{where}] expected X of shape ({n}, f) or ({n},), got {tuple(signals.shape)}")


def _check_layer(where: str, matrix: Any, features: Any, weights: Any | None) -> tuple[int, ...]:
    """Check the arguments of a layer; give the shape of its result."""
    _check_signals(where, matrix, features)
    _check_degrees(where, matrix, -1.0, open_end=True)
    if weights is None:
        return tuple(features.shape)
    if features.ndim != 2:
        raise ValueError(f"[{where}] expected X of shape ({matrix.shape[0]}, f) with W, got {tuple(features.shape)}")
    if weights.ndim != 2 or weights.shape[0] != features.shape[1]:
        raise ValueError(f"[{where}] expected W of shape ({features.shape[1]}, g), got {tuple(weights.shape)}")
    return (features.shape[0], weights.shape[1])


def _scale(where: str, largest: float, any_edge: bool) -> float:
    """Give what to divide by: any number does for a matrix of zeros."""
    if not any_edge:
        return 1.0
    if largest <= 0:
        raise ValueError(f"[{where}] expected L with an eigenvalue above 0, or largest, got {largest:g}")
    return largest


def _sparse_arguments(where: str, **arrays: Any) -> tuple[list[Any], Any]:
    """Give a square sparse matrix in CSR and the arrays that go with it, all in float64, and the dtype of the result.

    The arguments themselves are never changed.
    """
    ready: list[Any] = []
    computed = set()
    for name, array in arrays.items():
        if not ready:
            _check_square(where, name, array)
            computed.add(check_dtype(where, name, array))
            ready.append(sys.modules["scipy.sparse"].csr_array(array, dtype=float64))
            continue
        if is_sparse(array):
            raise TypeError(f"[{where}] expected {name} to be a dense array, got {kind(array)}")
        library = library_of(array)
        if (device := library.device(array)) != "cpu":
            raise ValueError(f"[{where}] expected {name} in main memory, got {device}")
        view = library.view(where, name, array)
        computed.add(check_dtype(where, name, view))
        ready.append(np.asarray(view, float64))
    return ready, float32 if computed == {"float32"} else float64
