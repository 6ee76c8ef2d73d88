"""Convolution on any finite group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._dispatch import Operation
from fastdl._group_table import any_group

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._dispatch import Call
    from fastdl._group_table import Group

# Order from which a pair of functions on a cyclic group goes by transforms.
LEAST_TRANSFORM = 256

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

    It is associative, and commutative if the group is. One h for many f is a matrix product; on a large cyclic group a
    pair goes by Fourier transforms, whose errors are relative to the largest results.

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
        if first.size == second.size == found.order >= LEAST_TRANSFORM and len(found.cycle):
            return _around(call, found, shape)
        if second.size == found.order:
            axes = (1,) * (len(shape) - first.ndim)
            call.arrays = (first.reshape(axes + first.shape), second.reshape(found.order))
        else:
            # A filter for every function: no matrix product, and the reference's sums are as good as any.
            call.backend = "reference"
    return call.finish(shape, None, found.quotient)


def _around(call: Call, found: Group, shape: tuple[int, ...]) -> Array:
    """Convolve around a cycle: its representations are those of the discrete Fourier transform."""
    from fastdl import conv

    f, h = (array.reshape(found.order)[found.cycle] for array in call.arrays)
    result = np.empty(found.order, call.dtype)
    result[found.cycle] = conv.convolve(f, h, mode="circular")
    return call.library.wrap(result.reshape(shape), call.like)
