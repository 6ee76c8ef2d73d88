"""Convolution on any finite group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._dispatch import Operation
from fastdl._group_table import any_group

if TYPE_CHECKING:
    from fastdl._arrays import Array

_convolve = Operation("group.convolve", "f", "h")


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

    It is associative, and commutative if the group is. One h for many f is a matrix product.

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
    quotient = found.table[found.inverse]
    if call.backend == "native" and second.size != found.order:
        # A filter for every function: no matrix product, and the reference's sums are as good as any.
        call.backend = "reference"
    elif call.backend == "native":
        call.arrays = (first, second.reshape(found.order))
        if shape != first.shape:
            shape_of_f = (1,) * (len(shape) - first.ndim) + tuple(first.shape)
            call.arrays = (first.reshape(shape_of_f), call.arrays[1])
    return call.finish(shape, None, quotient)
