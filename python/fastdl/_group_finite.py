"""Convolution on any finite group."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._dispatch import Operation, new_array
from fastdl._group_table import any_group

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray
    from fastdl._dispatch import Call
    from fastdl._group_table import Group

_convolve = Operation("group.convolve", "f", "h")

# Order from which transforms are thought of.
LEAST_TRANSFORM = 32

# Functions that meet a matrix, from which on the compiled product is worth a call for each matrix.
MANY = 16

# Numbers that are transformed, or multiplied, at a time: they stay in a core's own cache.
FUNCTIONS_AT_ONCE = 1 << 15
FACTORS_AT_ONCE = 1 << 16

# Products of NumPy's that stay below these run on one thread: terms of real ones, numbers in a complex matrix that
# meets a vector, terms of complex ones. (OpenBLAS 0.3.31 goes on to two between 409600 and 518400, at 4096, and between
# 61440 and 65536.) Where another program had the second core, waiting for it took 100 ms in place of 0.3.
REAL_TERMS = 1 << 18
COMPLEX_NUMBERS = 4000
COMPLEX_TERMS = 1 << 15


def convolve(f: Array, h: Array, group: Any) -> Array:
    r"""Convolve functions on a finite group.

    Parameters
    ----------
    f, h : arrays of shape (..., order)
        Values at the elements of the group, along the last axis; the other axes broadcast.
    group : Group, table or {"p4", "p4m", "p2", "pm"}
        The group; of a planar one its turns and flips alone.

    Returns
    -------
    array of shape (..., order)
        In the library and on the device of `f`. float32 if both are, else float64.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a table is not that of a group.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: (f * h)(u) = \sum_v f(u v^{-1})\, h(v)

    It is associative, and commutative if the group is. Compiled, it is that sum, as a matrix product; or, where that is
    expected to be quicker, Fourier transforms along the cosets of the largest cyclic subgroup, in double. For one pair
    that is from some 200 elements on if the subgroup has some 16 or more, for many pairs sooner, for many f with one h
    later. Errors of the sum are relative to the sum of the sizes of its terms, those of transforms to the norms of f
    and h.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.group import Group, convolve
    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 0.0]), Group.cyclic(3))
    array([3., 1., 2.])
    """
    where = "group.convolve"
    call = _convolve.begin(f, h)
    found = any_group(where, group)
    first, second = call.arrays
    for name, array in (("f", first), ("h", second)):
        if array.ndim < 1 or array.shape[-1] != found.order:
            raise ValueError(
                f"[{where}] expected {name} with the {found.order} elements of the group along its last axis, "
                f"got shape {tuple(array.shape)}"
            )
    try:
        shape = np.broadcast_shapes(tuple(first.shape), tuple(second.shape))
    except ValueError:
        raise ValueError(
            f"[{where}] expected f and h of shapes that broadcast, got {tuple(first.shape)} and {tuple(second.shape)}"
        ) from None
    if call.backend == "native":
        n = found.order
        if 0 in shape:
            call.backend = "reference"
        elif second.size > n or _transforms_pay(found, 1, first.size // n, call.dtype):
            return call.library.wrap(_compute(call, found, shape), call.like)
        else:
            call.arrays = (first.reshape(-1, n), second.reshape(n))
    elif call.backend == "cuda":
        # The kernel has one h: several of them are left to the reference.
        if 0 in shape or math.prod(second.shape) > found.order:
            call.backend = "reference"
        else:
            xp = call.library.namespace(call.like)
            call.arrays = (first, xp.reshape(second, (found.order,)))
    return call.finish(shape, None, found.quotient)


def _compute(call: Call, group: Group, shape: tuple[int, ...]) -> HostArray:
    """Choose a way and go it: c separate problems, in each of which a functions f meet b functions h."""
    f, h = call.arrays
    n = group.order
    order: list[int] = []
    if h.size == n:
        c, b, a = 1, 1, f.size // n
    elif f.size == n:
        c, b, a = 1, h.size // n, 1
    elif f.shape == h.shape:
        c, b, a = f.size // n, 1, 1
    else:
        f, h = (array.reshape((1,) * (len(shape) - array.ndim) + array.shape) for array in (f, h))
        both = [i for i in range(len(shape) - 1) if f.shape[i] == h.shape[i]]
        only_h = [i for i in range(len(shape) - 1) if f.shape[i] < h.shape[i]]
        only_f = [i for i in range(len(shape) - 1) if f.shape[i] > h.shape[i]]
        c, b, a = (math.prod(shape[i] for i in axes) for axes in (both, only_h, only_f))
        order = [*both, *only_h, *only_f, len(shape) - 1]
        f, h = f.transpose(order), h.transpose(order)
    functions, factors = f.reshape(c, a, n), h.reshape(c, b, n)
    # Those of which there are fewer become matrices. With f'(u) = f(u⁻¹), (f * h)' = h' * f'.
    turned = a < b
    if turned:
        functions, factors = (array.take(group.inverse, axis=-1) for array in (factors, functions))
    result = None
    # The kernels let NaN and Inf through without a word, and NumPy must behave as they do.
    with np.errstate(all="ignore"):
        if _transforms_pay(group, c * min(a, b), max(a, b), call.dtype):
            result = _by_transforms(functions, factors, group)
        if result is None:
            result = _by_sums(call, functions, factors, group)
    if turned:
        result = result.take(group.inverse, axis=-1).transpose(0, 2, 1, 3)
    if not order:
        return result.reshape(shape)
    return np.ascontiguousarray(result.reshape([shape[i] for i in order]).transpose(np.argsort(order)))


def _transforms_pay(group: Group, matrices: int, functions: int, dtype: Any) -> bool:
    """Tell which way is quicker for so many matrices with so many functions each: docs/group.md has the measurements.

    In nanoseconds on Zen 3 with two threads. How many threads there are must not change a result, so they do not count.
    """
    n = group.order
    if n < LEAST_TRANSFORM:
        return False
    k = n // len(group.cycle)
    gathered = 1.6 if matrices == 1 or functions >= MANY else 1.0
    sums = n * n * (gathered + functions * (0.014 if dtype == np.float32 else 0.028))
    transforms = n * (7 * k + functions * (12 + 0.25 * k))
    return matrices * sums > (15e3 if matrices * k == 1 else 60e3) + matrices * transforms


def _by_sums(call: Call, functions: HostArray, factors: HostArray, group: Group) -> HostArray:
    """Multiply functions (c, a, n) with the matrices h(w⁻¹u) of factors (c, b, n): (c, b, a, n)."""
    (c, a, n), b = functions.shape, factors.shape[1]
    result = new_array((c, b, a, n), call.dtype)
    if a >= MANY:
        for i, j in itertools.product(range(c), range(b)):
            call.operation.native(functions[i], factors[i, j], group.quotient, result[i, j])  # type: ignore[misc]
        return result
    # For few functions the kernel mostly gathers a matrix, which NumPy does in 0.7 of the time and for several at once.
    several = max(1, FUNCTIONS_AT_ONCE // (n * n))
    rows = min(n, max(1, min(2 * FUNCTIONS_AT_ONCE, REAL_TERMS // a) // n))
    matrices, results = factors.reshape(c * b, n), result.reshape(c * b, a, n)
    for i in range(0, c * b, several):
        part = slice(i, min(i + several, c * b))
        chosen = functions[part] if b == 1 else functions[np.arange(part.start, part.stop) // b]
        for w in range(0, n, rows):
            gathered = matrices[part].take(group.quotient[w : w + rows], axis=-1)
            if w == 0:
                np.matmul(chosen[..., :rows], gathered, out=results[part])
            else:
                results[part] += chosen[..., w : w + rows] @ gathered
    return result


class Cosets:
    """The cosets Ct of the largest cyclic subgroup C, and where the values of functions go with them.

    With m powers of c and k cosets, `places` [t, i] is c^i t, `back` goes back from there, and `between` [t, t', i] is
    t⁻¹ c^i t'. All are flat.
    """

    def __init__(self, group: Group) -> None:
        n, cycle, table = group.order, group.cycle, group.table
        left, firsts = np.ones(n, bool), []
        for t in range(n):
            if left[t]:
                firsts.append(t)
                left[table[cycle, t]] = False
        self.m, self.k = len(cycle), len(firsts)
        self.places = table[cycle, np.array(firsts)[:, None]].reshape(-1)
        self.back = np.argsort(self.places)
        forward = table[group.inverse[firsts][:, None], cycle]
        self.between = table[forward[:, None, :], np.array(firsts)[:, None]].reshape(-1)


def _by_transforms(functions: HostArray, factors: HostArray, group: Group) -> HostArray | None:
    """Do as `_by_sums` with Fourier transforms; None if a number is not finite, or becomes too large on the way.

    (f * h)(c^i t') = Σ_t Σ_j f(c^j t) h(t⁻¹ c^(i - j) t'): circular convolutions, which transforms make products of k
    numbers with k × k matrices, one for every frequency. In double: NumPy's transforms take as long in single.
    """
    if group._cosets is None:
        group._cosets = Cosets(group)
    cosets: Cosets = group._cosets
    m, k = cosets.m, cosets.k
    (c, a, n), b = functions.shape, factors.shape[1]
    result = new_array((c, b, a, n), functions.dtype)
    if c * b * k == 1:
        # Those of `conv` take half as long, and do not mind prime lengths.
        from fastdl import conv

        f, h = _along(functions[0], cosets.places), _along(factors[0], cosets.between)
        found = conv.convolve(f, h, mode="circular")
        result[0, 0] = found.take(cosets.back, axis=-1)
        return result if np.isfinite(found).all() else None
    at_b = min(b, max(1, FACTORS_AT_ONCE // (n * k)))
    at_c = min(c, max(1, FACTORS_AT_ONCE // (n * k * at_b)))
    width = min(k, max(1, COMPLEX_NUMBERS // k))
    at_a = min(a, max(1, min(FUNCTIONS_AT_ONCE // (n * at_b * at_c), COMPLEX_TERMS // (k * width))))
    # Few terms are summed for all frequencies at once, many by a product for each.
    several = at_a * k * k > 256
    for i, j in itertools.product(range(0, c, at_c), range(0, b, at_b)):
        chosen = factors[i : i + at_c, j : j + at_b]
        matrices = np.fft.rfft(_along(chosen, cosets.between).reshape(*chosen.shape[:2], k, k, m))
        if several:
            matrices = np.ascontiguousarray(matrices.transpose(0, 1, 4, 2, 3))
        for at in range(0, a, at_a):
            chosen = functions[i : i + at_c, at : at + at_a]
            rows = np.fft.rfft(_along(chosen, cosets.places).reshape(*chosen.shape[:2], k, m))
            if several:
                rows = np.ascontiguousarray(rows.transpose(0, 3, 1, 2))[:, None]
                parts = [rows @ matrices[..., first : first + width] for first in range(0, k, width)]
                products = np.concatenate(parts, axis=-1).transpose(0, 1, 3, 4, 2)
            else:
                products = np.einsum("catw,cbtuw->cbauw", rows, matrices)
            found = np.fft.irfft(products, m).reshape(*products.shape[:3], n)
            if not np.isfinite(found).all():
                return None
            result[i : i + at_c, j : j + at_b, at : at + at_a] = found.take(cosets.back, axis=-1)
    return result


def _along(values: HostArray, places: HostArray) -> HostArray:
    return values.take(places, axis=-1).astype(np.float64, copy=False)
