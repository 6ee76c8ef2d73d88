"""Kernels that a group of permutations of the features leaves as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind, library_of
from fastdl._dispatch import Operation
from fastdl._gram_checks import columns_of, pairs, restrict
from fastdl._kernels import find

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray

_invariant = Operation("gram.invariant", "X", "Y?")


def invariant(X: Array, Y: Array | None = None, *, permutations: Any, kernel: Any = "rbf", **params: Any) -> Array:
    r"""Gram matrix of a kernel summed over a group: a convolution kernel.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    permutations : integers of shape (order, d)
        How the elements of the group permute the features: ``(g x)[i] = x[permutations[g, i]]``.
    kernel : str or callable, default "rbf"
        As in `gram`.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    array of shape (n, m)
        In the library and dtype of `X`; symmetric to the bit without `Y`.

    Raises
    ------
    ValueError
        If there is no such kernel, a row of `permutations` is not a permutation, or the shapes or values do not fit.
    TypeError
        If the kernel has no parameter of a name, or a dtype or kind does not fit.

    Notes
    -----
    .. math:: K(x, y) = \sum_g \sum_{g'} k(g x, g' y)

    For a group, the result does not change when an element acts on x or on y. A kernel that is the same after one
    permutation of both samples, as all are but matern with length scales that differ within an orbit of features, then
    makes it :math:`|G| \sum_g k(x, g y)`, which is what the compiled backends compute.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> shifts = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    >>> X = np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 1.0]])
    >>> gram.invariant(X, permutations=shifts, kernel="linear")
    array([[108., 108.],
           [108., 108.]])
    """
    where = "gram.invariant"
    entry = find(where, kernel)
    call = _invariant.begin(X, None if Y is X else Y)
    shape = pairs(call)
    d = call.arrays[0].shape[1]
    orders = _permutations(where, permutations, d)
    parameters = entry.named(where, d, params)
    if entry.name == "geometric":
        samples = call.arrays[0] if call.arrays[1] is None else call.arrays[1]
        for order in _relative(orders):
            restrict(entry, call, list(parameters.values()), columns_of(samples, order))
    else:
        restrict(entry, call, list(parameters.values()))
    if not call.compiled:
        return call.finish(shape, None, orders, entry.name, parameters)
    scales = parameters.get("length_scale", 1.0)
    alike = isinstance(scales, float) or bool(np.all(scales[orders] == scales))
    return call.finish(shape, None, orders, entry.name, parameters, alike and is_group(orders))


def _permutations(where: str, permutations: Any, d: int) -> HostArray:
    """Check that every row is a permutation of the features."""
    orders = library_of(permutations).view(where, "permutations", permutations)
    if orders.ndim != 2 or orders.shape[1] != d:
        raise ValueError(f"[{where}] expected permutations of shape (order, {d}), got {orders.shape}")
    if orders.dtype.kind not in "iu" and orders.size:
        raise TypeError(f"[{where}] expected permutations to be integers, got {kind(permutations)} of {orders.dtype}")
    orders = np.ascontiguousarray(orders, np.int64)
    wrong = np.flatnonzero(np.any(np.sort(orders, axis=1) != np.arange(d), axis=1))
    if wrong.size:
        raise ValueError(
            f"[{where}] expected every row of permutations to permute 0 to {d - 1}, got otherwise in row {wrong[0]}"
        )
    return orders


def _relative(orders: HostArray) -> HostArray:
    """Give every permutation h with (g x)·(g' y) = x·(h y) for some g and g'; of a group, its elements."""
    if is_group(orders):
        return orders
    inverse = np.argsort(orders, axis=1)
    products = orders[:, inverse].reshape(-1, orders.shape[1])
    return np.unique(products, axis=0)


def is_group(orders: HostArray) -> bool:
    """Tell whether permutations form a group: all different, and closed under composition.

    Elements not reached from the generators so far become generators themselves. Each at least doubles what is reached,
    so there are few of them, and only products with them have to be looked at.
    """
    elements = {order.tobytes() for order in orders}
    start = np.arange(orders.shape[1], dtype=np.int64)
    if len(elements) != len(orders) or start.tobytes() not in elements:
        return False
    reached, generators = {start.tobytes()}, []
    for order in orders:
        if order.tobytes() in reached:
            continue
        generators.append(order)
        reached, front = {start.tobytes()}, [start]
        while front:
            element = front.pop()
            for generator in generators:
                product = element[generator]
                name = product.tobytes()
                if name not in elements:
                    return False
                if name not in reached:
                    reached.add(name)
                    front.append(product)
    return True
