"""Who fastdl.conv is measured against besides convolutions of images: torch, SciPy, and the formulas in NumPy.

Torch has everything in the layout named beforehand, and gradients are what autograd calls, without its graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import rivals_torch
from cases.conv_bench_others import Entries, matrix_of
from rivals_torch import _laid_out, _tensors

Call = Callable[[], Any]
Maker = Callable[..., Call]

# By number of axes; signals have one layout.
LAYOUTS: dict[int, dict[str, str]] = {
    1: {"torch": "contiguous_format"},
    2: {"torch": "contiguous_format", "torch nhwc": "channels_last"},
    3: {"torch": "contiguous_format", "torch nhwc": "channels_last_3d"},
}


# ---- torch: convolutions and pooling ----
def torch_transposed(layout: str, x, w, stride, padding, output_padding) -> Call:
    from torch.nn import functional

    maps, filters = _laid_out(layout, x, w)
    function = getattr(functional, f"conv_transpose{x.ndim - 2}d")
    return lambda: function(maps, filters, None, stride, padding, output_padding)


def torch_pool(kind: str, layout: str, x, kernel_size, stride, padding, **rest) -> Call:
    from torch.nn import functional

    (maps,) = _laid_out(layout, x)
    function = getattr(functional, f"{kind}_pool{x.ndim - 2}d")
    return lambda: function(maps, kernel_size, stride, padding, **rest)


def _windows(axes: int, kernel_size: int, stride: int, padding: int) -> list[list[int]]:
    """Give the windows of an operator of torch; it has none for signals but those of images of one row."""
    first = [] if axes > 1 else [1]
    return [first + axes * [kernel_size], first + axes * [stride], [0] * len(first) + axes * [padding]]


def _as_images(*arrays: np.ndarray) -> list[np.ndarray]:
    return [array[:, :, None] if array.ndim == 3 else array for array in arrays]


def torch_max_pool_grad(layout: str, grad, indices, input_size, kernel_size, stride, padding) -> Call:
    import torch

    # Of the input only the size and layout are looked at.
    arrays = _as_images(grad, np.zeros(input_size, grad.dtype), indices)
    slopes, maps, places = _laid_out(layout, *arrays)
    function = getattr(torch.ops.aten, f"max_pool{maps.ndim - 2}d_with_indices_backward")
    axes, shape = grad.ndim - 2, tuple(input_size)
    options = (*_windows(axes, kernel_size, stride, padding), [1] * (maps.ndim - 2), False)
    return lambda: function(slopes, maps, *options, places).reshape(shape)


def torch_avg_pool_grad(layout: str, grad, input_size, kernel_size, stride, padding) -> Call:
    import torch

    slopes, maps = _laid_out(layout, *_as_images(grad, np.zeros(input_size, grad.dtype)))
    function = getattr(torch.ops.aten, f"avg_pool{maps.ndim - 2}d_backward")
    options = (*_windows(grad.ndim - 2, kernel_size, stride, padding), False, True, None)
    shape = tuple(input_size)
    return lambda: function(slopes, maps, *options).reshape(shape)


def _in_layouts(axes: int, maker: Maker) -> dict[str, Maker]:
    return {rival: partial(maker, layout) for rival, layout in LAYOUTS[axes].items()}


# ---- matrices of convolutions ----
def scipy_circulant(h: np.ndarray) -> Call:
    from scipy.linalg import circulant

    return lambda: circulant(h)


def scipy_toeplitz(h: np.ndarray, n: int) -> Call:
    from scipy.linalg import toeplitz

    def call() -> np.ndarray:
        column, row = np.zeros(n + len(h) - 1, h.dtype), np.zeros(n, h.dtype)
        column[: len(h)], row[0] = h, h[0]
        return toeplitz(column, row)

    return call


def scipy_convolution_matrix(h: np.ndarray, n: int) -> Call:
    from scipy.linalg import convolution_matrix

    return lambda: convolution_matrix(h, n)


# ---- graphs as dense matrices, and by their edges as sparse ones that are made beforehand ----
def scipy_dense_laplacian(A: np.ndarray, normalized: bool) -> Call:
    from scipy.sparse.csgraph import laplacian

    return lambda: laplacian(A, normed=normalized)


def scipy_laplacian(weights: np.ndarray, ends: np.ndarray, n: int, normalized: bool) -> Call:
    from scipy.sparse.csgraph import laplacian

    A = matrix_of(weights, ends, n)
    return lambda: Entries(laplacian(A, normed=normalized))


def _normalized_laplacian(A: Any, diagonal: Callable[[Any], Any]) -> Call:
    """Scale rows and columns, in place where it can be; of any library."""

    def call() -> Any:
        roots = A.sum(1) ** -0.5
        found = A * -roots[:, None]
        found *= roots
        diagonal(found)[...] += 1
        return found

    return call


def numpy_laplacian(A: np.ndarray, normalized: bool) -> Call:
    if not normalized:
        raise ValueError("expected a normalized Laplacian to be asked for")
    return _normalized_laplacian(A, lambda found: np.einsum("ii->i", found))


def torch_laplacian(A: np.ndarray, normalized: bool) -> Call:
    if not normalized:
        raise ValueError("expected a normalized Laplacian to be asked for")
    return _normalized_laplacian(*_tensors(A), lambda found: found.diagonal())


def _chebyshev(L: Any, X: Any, coefficients: tuple[float, ...], basis: str, largest: float) -> Call:
    """Follow the recurrence by products with L, which may be any library's."""
    if basis != "chebyshev" or largest != 2:
        raise ValueError(f"expected the basis chebyshev and the largest eigenvalue 2, got {basis} and {largest}")

    def call() -> Any:
        before, now = X, L @ X - X
        result = coefficients[0] * before + coefficients[1] * now
        for coefficient in coefficients[2:]:
            following = L @ now
            following -= now
            following *= 2
            following -= before
            before, now = now, following
            result += coefficient * now
        return result

    return call


def _layer(degrees: Callable[[], Any], product: Callable[[Any], Any], X: Any, W: Any) -> Call:
    """Scale the features before and after the product with A, and multiply with W where there are fewer columns."""
    first = W.shape[1] < X.shape[1]

    def call() -> Any:
        roots = (degrees() + 1) ** -0.5
        features = (X @ W if first else X) * roots[:, None]
        found = product(features)
        found += features
        found *= roots[:, None]
        return found if first else found @ W

    return call


def _normalized(A: Any) -> Any:
    from scipy.sparse.csgraph import laplacian

    return laplacian(A, normed=True).tocsr()


def _torch_csr(matrix: Any) -> Any:
    """Give a matrix of scipy.sparse as torch has it."""
    import torch

    arrays = [np.ascontiguousarray(array) for array in (matrix.indptr, matrix.indices, matrix.data)]
    return torch.sparse_csr_tensor(*_tensors(*arrays), size=matrix.shape)


def scipy_filter(X: np.ndarray, weights: np.ndarray, ends: np.ndarray, **how: Any) -> Call:
    return _chebyshev(_normalized(matrix_of(weights, ends, X=X)), X, **how)


def torch_filter(L: np.ndarray, X: np.ndarray, **how: Any) -> Call:
    return _chebyshev(*_tensors(L, X), **how)


def torch_sparse_filter(X: np.ndarray, weights: np.ndarray, ends: np.ndarray, **how: Any) -> Call:
    return _chebyshev(_torch_csr(_normalized(matrix_of(weights, ends, X=X))), *_tensors(X), **how)


def numpy_gcn(A: np.ndarray, X: np.ndarray, W: np.ndarray) -> Call:
    return _layer(lambda: A.sum(1), lambda features: A @ features, X, W)


def torch_gcn(A: np.ndarray, X: np.ndarray, W: np.ndarray) -> Call:
    edges, features, weights = _tensors(A, X, W)
    return _layer(lambda: edges.sum(1), lambda columns: edges @ columns, features, weights)


def scipy_gcn(weights: np.ndarray, ends: np.ndarray, X: np.ndarray, W: np.ndarray) -> Call:
    A = matrix_of(weights, ends, X=X)
    return _layer(lambda: A.sum(axis=1), lambda features: A @ features, X, W)


def torch_sparse_gcn(weights: np.ndarray, ends: np.ndarray, X: np.ndarray, W: np.ndarray) -> Call:
    edges = _torch_csr(matrix_of(weights, ends, X=X))
    features, of_layer, ones = _tensors(X, W, np.ones((len(X), 1), X.dtype))
    return _layer(lambda: (edges @ ones)[:, 0], lambda columns: edges @ columns, features, of_layer)


# By function: name in the tables, and maker.
MAKERS: dict[str, dict[str, Maker]] = {
    **{
        f"conv{axes}d{gradient}": _in_layouts(axes, getattr(rivals_torch, f"conv2d{gradient}"))
        for axes in (1, 3)
        for gradient in ("", "_input", "_weight")
    },
    **{f"conv_transpose{axes}d": _in_layouts(axes, torch_transposed) for axes in LAYOUTS},
    **{
        f"{kind}_pool{axes}d": _in_layouts(axes, partial(torch_pool, kind))
        for kind in ("max", "avg")
        for axes in LAYOUTS
    },
    **{f"max_pool{axes}d_grad": _in_layouts(axes, torch_max_pool_grad) for axes in LAYOUTS},
    **{f"avg_pool{axes}d_grad": _in_layouts(axes, torch_avg_pool_grad) for axes in LAYOUTS},
    "prepare": _in_layouts(2, rivals_torch.conv2d),
    "circulant": {"scipy": scipy_circulant},
    "toeplitz": {"scipy": scipy_toeplitz, "scipy convolution_matrix": scipy_convolution_matrix},
    "graph_laplacian": {
        "scipy": scipy_laplacian,
        "scipy dense": scipy_dense_laplacian,
        "numpy": numpy_laplacian,
        "torch": torch_laplacian,
    },
    "graph_filter": {
        "scipy": scipy_filter,
        "numpy": _chebyshev,
        "torch": torch_filter,
        "torch sparse": torch_sparse_filter,
    },
    "gcn": {"scipy": scipy_gcn, "numpy": numpy_gcn, "torch": torch_gcn, "torch sparse": torch_sparse_gcn},
}
