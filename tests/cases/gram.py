"""Gram matrices."""

from __future__ import annotations

import numpy as np

from cases import Case, wide

# Around the widths of vectors and the heights of tiles.
SIZES = (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)

# Large enough to cross cache blocks, and prime or odd so that every edge is ragged: n, m, d.
LARGE = ((97, 131, 523), (513, 67, 33), (3, 1030, 257), (65, 33, 1030), (211, 197, 2053))


def linear_expected(X, Y=None):
    """Compute X Yᵀ with room to spare."""
    return wide(X) @ wide(X if Y is None else Y).T


def linear_tolerance(X, Y=None):
    """A sum of d products, taken in any order, is off by at most d eps times the sum of their sizes."""
    eps = float(np.finfo(X.dtype).eps)
    return X.shape[1] * eps * (np.abs(wide(X)) @ np.abs(wide(X if Y is None else Y)).T)


def _pair(n, m, d):
    def make(rng, dtype):
        return {"X": rng.standard_normal((n, d)).astype(dtype), "Y": rng.standard_normal((m, d)).astype(dtype)}

    return make


def _alone(n, d):
    def make(rng, dtype):
        return {"X": rng.standard_normal((n, d)).astype(dtype)}

    return make


def linear_case(n: int, m: int | None, d: int, bench: bool = False) -> Case:
    """Take X of shape (n, d), and Y of shape (m, d) unless m is None."""
    name = f"linear {n}x{d}" if m is None else f"linear {n}x{d}, {m}x{d}"
    # One triangle with its diagonal is all that has to be computed of a symmetric result.
    flops = float(n * (n + 1) * d) if m is None else 2.0 * n * m * d
    make = _alone(n, d) if m is None else _pair(n, m, d)
    return Case(name, "gram.linear", make, linear_expected, linear_tolerance, flops, bench)


CASES = (
    linear_case(8, None, 8),
    *(linear_case(n, m, d) for n, m, d in LARGE),
    *(linear_case(n, None, d) for n, _, d in LARGE),
)

BENCH = (
    linear_case(8, None, 8, bench=True),
    linear_case(128, 128, 128, bench=True),
    linear_case(1024, 1024, 1024, bench=True),
    linear_case(2048, 2048, 2048, bench=True),
    linear_case(4096, None, 512, bench=True),
)
