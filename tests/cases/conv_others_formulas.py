"""Pooling, matrices and graphs of fastdl.conv as they are benchmarked: in plain NumPy, with error bounds.

A graph is a dense matrix, or its edges: `weights` of shape (edges,), and their rows and columns as `ends`.
"""

from __future__ import annotations

import math

import numpy as np

from cases.conv_formulas import _pad, _positions, _roundings, _taps


# ---- pooling, over any number of axes ----
def _windows(x, kernel_size, stride, padding, value):
    kernel = (kernel_size,) * (x.ndim - 2)
    size = _positions(x.shape[2:], kernel, stride, padding)
    return _taps(_pad(x, padding, value), kernel, stride, size)


def max_pool2d(x, kernel_size, stride, padding=0, return_indices=False):
    """Go through the taps in row-major order, and take over what is larger than all before."""
    flat = np.arange(math.prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
    places = _windows(flat, kernel_size, stride, padding, 0)
    largest = indices = None
    for (_, met), (_, place) in zip(_windows(x, kernel_size, stride, padding, -np.inf), places, strict=True):
        if largest is None:
            largest, indices = met.copy(), np.broadcast_to(place, met.shape).copy()
            continue
        more = met > largest
        largest = np.where(more, met, largest)
        indices = np.where(more, place, indices)
    return (largest, indices) if return_indices else largest


def avg_pool2d(x, kernel_size, stride, padding=0):
    total = sum(met for _, met in _windows(x, kernel_size, stride, padding, 0))
    return total / x.dtype.type(kernel_size ** (x.ndim - 2))


def max_pool2d_grad(grad, indices, input_size, **windows):
    """Add every element where the largest one was; the windows are needed by others."""
    result = np.zeros((math.prod(input_size[:2]), math.prod(input_size[2:])), grad.dtype)
    for plane, values, places in zip(
        result, grad.reshape(len(result), -1), indices.reshape(len(result), -1), strict=True
    ):
        np.add.at(plane, places, values)
    return result.reshape(input_size)


def avg_pool2d_grad(grad, input_size, kernel_size, stride, padding=0):
    rank = grad.ndim - 2
    result = _pad(np.zeros(input_size, grad.dtype), padding)
    for _, met in _taps(result, (kernel_size,) * rank, stride, grad.shape[2:]):
        met += grad / grad.dtype.type(kernel_size**rank)
    return result[(..., *(slice(padding, padding + n) for n in input_size[2:]))]


def max_pool2d_bound(eps, x, kernel_size, stride, padding=0, return_indices=False):
    """Nothing is rounded, and of equal elements the first counts."""
    size = _positions(x.shape[2:], (kernel_size,) * (x.ndim - 2), stride, padding)
    exact = np.zeros((*x.shape[:2], *size))
    return (exact, exact) if return_indices else exact


def avg_pool2d_bound(eps, x, kernel_size, stride, padding=0):
    return eps * _roundings(kernel_size ** (x.ndim - 2)) * avg_pool2d(np.abs(x), kernel_size, stride, padding)


def max_pool2d_grad_bound(eps, grad, indices, input_size, kernel_size, stride, padding=0):
    """A place is the largest of as many windows as meet in it, at most."""
    terms = math.ceil(kernel_size / stride) ** (grad.ndim - 2)
    return eps * _roundings(terms) * max_pool2d_grad(np.abs(grad), indices, input_size)


def avg_pool2d_grad_bound(eps, grad, input_size, kernel_size, stride, padding=0):
    terms = math.ceil(kernel_size / stride) ** (grad.ndim - 2)
    return eps * _roundings(terms) * avg_pool2d_grad(np.abs(grad), input_size, kernel_size, stride, padding)


max_pool1d = max_pool3d = max_pool2d
avg_pool1d = avg_pool3d = avg_pool2d
max_pool1d_grad = max_pool3d_grad = max_pool2d_grad
avg_pool1d_grad = avg_pool3d_grad = avg_pool2d_grad
max_pool1d_bound = max_pool3d_bound = max_pool2d_bound
avg_pool1d_bound = avg_pool3d_bound = avg_pool2d_bound
max_pool1d_grad_bound = max_pool3d_grad_bound = max_pool2d_grad_bound
avg_pool1d_grad_bound = avg_pool3d_grad_bound = avg_pool2d_grad_bound


# ---- matrices of convolutions: numbers are moved, and nothing is rounded ----
def circulant(h):
    i = np.arange(len(h))
    return h[(i[:, None] - i) % len(h)]


def toeplitz(h, n):
    padded = np.concatenate([h, np.zeros(n, h.dtype)])
    return padded[np.maximum(-1, np.arange(n + len(h) - 1)[:, None] - np.arange(n))]


def circulant_bound(eps, h):
    return np.zeros((len(h), len(h)))


def toeplitz_bound(eps, h, n):
    return np.zeros((n + len(h) - 1, n))


# ---- graphs ----
def graph_laplacian(A, normalized=False):
    degrees = A.sum(axis=1)
    if not normalized:
        return np.diag(degrees) - A
    roots = np.sqrt(degrees)
    return np.eye(len(A), dtype=A.dtype) - A / roots[:, None] / roots


def graph_laplacian_bound(eps, A, normalized=False):
    """No edge has a node of degree 0 in these cases; the roundings are those of the degrees, and a few more."""
    return eps * _roundings(len(A)) * np.abs(graph_laplacian(A, normalized))


def _polynomial(times, X, coefficients):
    """Sum up Chebyshev polynomials of L - I, the argument where the largest eigenvalue is 2; `times` applies L."""
    before, now = X, times(X) - X
    result = coefficients[0] * before + coefficients[1] * now
    for coefficient in coefficients[2:]:
        before, now = now, 2 * (times(now) - now) - before
        result = result + coefficient * now
    return result


def graph_filter(L, X, coefficients, basis, largest):
    assert basis == "chebyshev" and largest == 2
    return _polynomial(lambda signals: L @ signals, X, coefficients)


def _polynomial_bound(eps, terms, spread, X, coefficients):
    """Follow the recurrence: a step has the roundings of its terms, and hands on what was off before.

    Weights are not negative, so that I - L has no signs to lose: `spread` applies it.
    """
    unit = eps * _roundings(terms)
    values = X.astype(np.float64)
    before, now = values, -spread(values)
    off_before, off = np.zeros_like(values), unit * (spread(np.abs(values)) + 2 * np.abs(values))
    total = unit * (abs(coefficients[0]) * np.abs(before) + abs(coefficients[1]) * np.abs(now))
    total += abs(coefficients[1]) * off
    for coefficient in coefficients[2:]:
        step = unit * (2 * spread(np.abs(now)) + 4 * np.abs(now) + np.abs(before))
        off_before, off = off, 2 * spread(off) + off_before + step
        before, now = now, -2 * spread(now) - before
        total += abs(coefficient) * (off + unit * np.abs(now))
    return total


def graph_filter_bound(eps, L, X, coefficients, basis, largest):
    rest = np.eye(len(L)) - L
    return _polynomial_bound(eps, len(L), lambda signals: rest @ signals, X, coefficients)


def gcn(A, X, W):
    with_loops = A + np.eye(len(A), dtype=A.dtype)
    roots = np.sqrt(with_loops.sum(axis=1))
    return ((with_loops / roots[:, None] / roots) @ X) @ W


def gcn_bound(eps, A, X, W):
    """Sum the sizes of all terms: weights of edges are not negative."""
    return eps * (_roundings(len(A)) + _roundings(len(W))) * gcn(A, np.abs(X), np.abs(W))


# ---- graphs by their edges, row by row and no row without one ----
def _applied(weights, ends, X):
    """Give A X."""
    return np.add.reduceat(weights[:, None] * X[ends[1]], np.searchsorted(ends[0], np.arange(len(X))), axis=0)


def _degrees(weights, ends, n):
    return _applied(weights, ends, np.ones((n, 1), weights.dtype))[:, 0]


def _normalized(weights, ends, degrees):
    roots = np.sqrt(degrees)
    return weights / roots[ends[0]] / roots[ends[1]]


def sparse_graph_laplacian(weights, ends, n, normalized=False):
    """Give rows, columns and entries, row by row."""
    degrees = _degrees(weights, ends, n)
    own = np.arange(n)
    rows, columns = (np.concatenate([end, own]) for end in ends)
    values = np.concatenate([-_normalized(weights, ends, degrees), np.ones(n)] if normalized else [-weights, degrees])
    order = np.lexsort((columns, rows))
    return rows[order], columns[order], values[order]


def sparse_graph_laplacian_bound(eps, weights, ends, n, normalized=False):
    rows, _, values = sparse_graph_laplacian(weights, ends, n, normalized)
    most = np.bincount(ends[0], minlength=n).max()
    return np.zeros(len(rows)), np.zeros(len(rows)), eps * _roundings(most) * np.abs(values)


def sparse_graph_filter(weights, ends, X, coefficients, basis, largest):
    """L = I - D^-1/2 A D^-1/2 of the edges."""
    assert basis == "chebyshev" and largest == 2
    edges = _normalized(weights, ends, _degrees(weights, ends, len(X)))
    return _polynomial(lambda signals: signals - _applied(edges, ends, signals), X, coefficients)


def sparse_graph_filter_bound(eps, weights, ends, X, coefficients, basis, largest):
    edges = _normalized(weights, ends, _degrees(weights, ends, len(X))).astype(np.float64)
    most = np.bincount(ends[0]).max() + 1
    return _polynomial_bound(eps, most, lambda signals: _applied(edges, ends, signals), X, coefficients)


def sparse_gcn(weights, ends, X, W):
    degrees = _degrees(weights, ends, len(X)) + 1
    return (_applied(_normalized(weights, ends, degrees), ends, X) + X / degrees[:, None]) @ W


def sparse_gcn_bound(eps, weights, ends, X, W):
    most = np.bincount(ends[0]).max() + 1
    return eps * (_roundings(most) + _roundings(len(W))) * sparse_gcn(weights, ends, np.abs(X), np.abs(W))
