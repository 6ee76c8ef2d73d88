"""Pooling over windows of one, two or three axes, and its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import dtype_name, kind, library_of
from fastdl._conv_checks import RANKS, check_maps, counts, finish_sized, flag, full_size
from fastdl._dispatch import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import Array
    from fastdl._conv_checks import Count, Sizes
    from fastdl._dispatch import Call

_MAX = {rank: Operation(f"conv.max_pool{rank}d", "x") for rank in RANKS}
_AVG = {rank: Operation(f"conv.avg_pool{rank}d", "x") for rank in RANKS}
_MAX_GRAD = {rank: Operation(f"conv.max_pool{rank}d_grad", "grad") for rank in RANKS}
_AVG_GRAD = {rank: Operation(f"conv.avg_pool{rank}d_grad", "grad") for rank in RANKS}


def _windows(
    where: str, name: str, shape: Sizes, rank: int, kernel_size: Any, stride: Any, padding: Any
) -> tuple[Sizes, tuple[Sizes, Sizes, Sizes]]:
    """Check the windows over maps of a shape; give the shape of the result, and kernel, stride and padding."""
    check_maps(where, name, shape, rank)
    if 0 in shape[2:]:
        raise ValueError(f"[{where}] expected {name} with positions, got shape {tuple(shape)}")
    kernel = counts(where, "kernel_size", kernel_size, rank, 1)
    step = kernel if stride is None else counts(where, "stride", stride, rank, 1)
    lower = counts(where, "padding", padding, rank, 0)
    size = []
    for n, k, s, before in zip(shape[2:], kernel, step, lower, strict=True):
        if before > k // 2:
            raise ValueError(f"[{where}] expected padding of at most half the kernel, {k // 2}, got {before}")
        if k > n + 2 * before:
            raise ValueError(
                f"[{where}] expected a kernel no larger than the padded input, {n + 2 * before} along an axis, got {k}"
            )
        size.append((n + 2 * before - k) // s + 1)
    return (*shape[:2], *size), (kernel, step, lower)


def _max_pool(rank: int, x: Array, kernel_size: Any, stride: Any, padding: Any, return_indices: Any) -> Any:
    operation = _MAX[rank]
    call = operation.begin(x)
    (maps,) = call.arrays
    shape, windows = _windows(operation.name, "x", maps.shape, rank, kernel_size, stride, padding)
    wanted = flag(operation.name, "return_indices", return_indices)
    if call.backend == "reference":
        found = call.finish(shape, None, *windows)  # both, as it has them
        return found if wanted else found[0]
    if not wanted:
        return call.finish(shape, None, *windows, None)
    if isinstance(maps, np.ndarray):
        indices = np.empty(shape, np.int64)
        return call.finish(shape, None, *windows, indices), call.library.wrap(indices, call.like)
    xp = call.library.namespace(maps)
    indices = xp.empty(shape, dtype=xp.int64, device=maps.device)
    return call.finish(shape, None, *windows, indices), indices


def _avg_pool(rank: int, x: Array, kernel_size: Any, stride: Any, padding: Any, count_include_pad: Any) -> Array:
    operation = _AVG[rank]
    call = operation.begin(x)
    shape, windows = _windows(operation.name, "x", call.arrays[0].shape, rank, kernel_size, stride, padding)
    return call.finish(shape, None, *windows, flag(operation.name, "count_include_pad", count_include_pad))


def _max_pool_grad(rank: int, grad: Array, indices: Array, input_size: Any) -> Array:
    operation = _MAX_GRAD[rank]
    call = operation.begin(grad)
    shape = full_size(operation.name, "input_size", input_size, rank)
    (slopes,) = call.arrays
    if slopes.ndim != rank + 2 or tuple(slopes.shape[:2]) != shape[:2]:
        wanted = ", ".join(str(extent) for extent in (*shape[:2], *["..."]))
        raise ValueError(
            f"[{operation.name}] expected grad of {rank + 2} axes and shape ({wanted}) like input_size, "
            f"got {tuple(slopes.shape)}"
        )
    plane = 1
    for extent in shape[2:]:
        plane *= extent
    return finish_sized(call, shape, _places(call, indices, plane))


def _places(call: Call, indices: Any, plane: int) -> Any:
    """Check the flat positions of maxima; give them as int64, where and as the backend reads them."""
    where, slopes = call.operation.name, call.arrays[0]
    on_host = isinstance(slopes, np.ndarray)
    if on_host:
        indices = library_of(indices).view(where, "indices", indices)
    elif not call.library.owns(indices, call.like):
        raise TypeError(f"[{where}] expected indices to be {call.library.label}, got {kind(indices)}")
    found = dtype_name(indices.dtype)
    if not found.startswith(("int", "uint")):
        raise TypeError(f"[{where}] expected indices of an integer dtype, got {found}")
    if indices.shape != slopes.shape:
        raise ValueError(f"[{where}] expected indices of shape {tuple(slopes.shape)}, got {tuple(indices.shape)}")
    if 0 not in indices.shape:
        if on_host:
            least, most = int(indices.min()), int(indices.max())
        else:
            xp = call.library.namespace(slopes)
            least, most = int(xp.min(indices)), int(xp.max(indices))
        if least < 0 or most >= plane:
            raise ValueError(f"[{where}] expected indices from 0 to {plane - 1}, got {least if least < 0 else most}")
    if not on_host:
        xp = call.library.namespace(slopes)
        return xp.astype(indices, xp.int64, copy=False)
    indices = np.ascontiguousarray(indices, np.int64)
    return call.readable(indices) if call.backend == "reference" else indices


def _avg_pool_grad(
    rank: int, grad: Array, input_size: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: Any
) -> Array:
    operation = _AVG_GRAD[rank]
    call = operation.begin(grad)
    shape = full_size(operation.name, "input_size", input_size, rank)
    expected, windows = _windows(operation.name, "input_size", shape, rank, kernel_size, stride, padding)
    if tuple(call.arrays[0].shape) != expected:
        raise ValueError(f"[{operation.name}] expected grad of shape {expected}, got {tuple(call.arrays[0].shape)}")
    return finish_sized(call, shape, *windows, flag(operation.name, "count_include_pad", count_include_pad))


def max_pool2d(
    x: Array, kernel_size: Count, stride: Count | None = None, padding: Count = 0, return_indices: bool = False
) -> Any:
    """Largest elements of windows.

    Parameters
    ----------
    x : array of shape (N, C, H, W)
        Maps, with at least one position.
    kernel_size : int or 2 ints
        Size of the windows.
    stride : int or 2 ints, optional
        Step from one window to the next. None means `kernel_size`.
    padding : int or 2 ints, default 0
        Elements added on both sides of an axis, which count as less than any other: at most half of `kernel_size`.
    return_indices : bool, default False
        Whether to tell also where the largest elements are.

    Returns
    -------
    array of shape (N, C, H', W')
        In the library and dtype of `x`, with H' = (H + 2 padding - kernel_size) // stride + 1. With `return_indices`, a
        tuple of it and an array of int64 of the same shape: flat positions in the plane (H, W). Of equal elements it is
        the first in row-major order; NaN counts as the largest, the first of them if there are several.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or a window is larger than the padded input.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> x = np.array([[[[1.0, 2.0, 5.0], [4.0, 3.0, 0.0]]]])
    >>> conv.max_pool2d(x, 2, stride=1)
    array([[[[4., 5.]]]])
    >>> conv.max_pool2d(x, 2, stride=1, return_indices=True)[1]
    array([[[[3, 2]]]])
    """
    return _max_pool(2, x, kernel_size, stride, padding, return_indices)


def max_pool1d(
    x: Array, kernel_size: Count, stride: Count | None = None, padding: Count = 0, return_indices: bool = False
) -> Any:
    """Largest elements of windows: `max_pool2d` with one axis of positions.

    Parameters
    ----------
    x : array of shape (N, C, L)
    kernel_size, stride, padding, return_indices
        As in `max_pool2d`.

    Returns
    -------
    array of shape (N, C, L'), or a tuple of it and the indices

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.max_pool1d(np.array([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    array([[[3., 2.]]])
    """
    return _max_pool(1, x, kernel_size, stride, padding, return_indices)


def max_pool3d(
    x: Array, kernel_size: Count, stride: Count | None = None, padding: Count = 0, return_indices: bool = False
) -> Any:
    """Largest elements of windows: `max_pool2d` with three axes of positions.

    Parameters
    ----------
    x : array of shape (N, C, D, H, W)
    kernel_size, stride, padding, return_indices
        As in `max_pool2d`.

    Returns
    -------
    array of shape (N, C, D', H', W'), or a tuple of it and the indices

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.max_pool3d(np.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    array([[[[[7.]]]]])
    """
    return _max_pool(3, x, kernel_size, stride, padding, return_indices)


def avg_pool2d(
    x: Array, kernel_size: Count, stride: Count | None = None, padding: Count = 0, count_include_pad: bool = True
) -> Array:
    """Averages over windows.

    Parameters
    ----------
    x : array of shape (N, C, H, W)
        Maps, with at least one position.
    kernel_size : int or 2 ints
        Size of the windows.
    stride : int or 2 ints, optional
        Step from one window to the next. None means `kernel_size`.
    padding : int or 2 ints, default 0
        Zeros added on both sides of an axis: at most half of `kernel_size`.
    count_include_pad : bool, default True
        Whether the sum of a window is divided by the size of the window, or by the number of its elements in `x`.

    Returns
    -------
    array of shape (N, C, H', W')
        In the library and dtype of `x`, with H' = (H + 2 padding - kernel_size) // stride + 1.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or a window is larger than the padded input.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.avg_pool2d(np.array([[[[1.0, 2.0, 5.0], [4.0, 3.0, 0.0]]]]), 2, stride=1)
    array([[[[2.5, 2.5]]]])
    """
    return _avg_pool(2, x, kernel_size, stride, padding, count_include_pad)


def avg_pool1d(
    x: Array, kernel_size: Count, stride: Count | None = None, padding: Count = 0, count_include_pad: bool = True
) -> Array:
    """Averages over windows: `avg_pool2d` with one axis of positions.

    Parameters
    ----------
    x : array of shape (N, C, L)
    kernel_size, stride, padding, count_include_pad
        As in `avg_pool2d`.

    Returns
    -------
    array of shape (N, C, L')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.avg_pool1d(np.array([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    array([[[2., 1.]]])
    """
    return _avg_pool(1, x, kernel_size, stride, padding, count_include_pad)


def avg_pool3d(
    x: Array, kernel_size: Count, stride: Count | None = None, padding: Count = 0, count_include_pad: bool = True
) -> Array:
    """Averages over windows: `avg_pool2d` with three axes of positions.

    Parameters
    ----------
    x : array of shape (N, C, D, H, W)
    kernel_size, stride, padding, count_include_pad
        As in `avg_pool2d`.

    Returns
    -------
    array of shape (N, C, D', H', W')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.avg_pool3d(np.arange(8.0).reshape(1, 1, 2, 2, 2), 2)
    array([[[[[3.5]]]]])
    """
    return _avg_pool(3, x, kernel_size, stride, padding, count_include_pad)


def max_pool2d_grad(grad: Array, indices: Array, input_size: Sequence[int]) -> Array:
    """Gradient of `max_pool2d`: every element of `grad` goes to where the largest element was.

    Parameters
    ----------
    grad : array of shape (N, C, H', W')
        Gradient for the result.
    indices : array of shape (N, C, H', W')
        Flat positions of the largest elements, as from ``max_pool2d(..., return_indices=True)``; any integer dtype.
    input_size : tuple of 4 ints
        Shape (N, C, H, W) of the maps.

    Returns
    -------
    array of shape (N, C, H, W)
        In the library and dtype of `grad`; sums where windows overlap.

    Raises
    ------
    ValueError
        If the shapes do not fit, or an index is outside the plane.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.max_pool2d_grad(np.array([[[[1.0, 2.0]]]]), np.array([[[[3, 3]]]]), (1, 1, 2, 2))
    array([[[[0., 0.],
             [0., 3.]]]])
    """
    return _max_pool_grad(2, grad, indices, input_size)


def max_pool1d_grad(grad: Array, indices: Array, input_size: Sequence[int]) -> Array:
    """Gradient of `max_pool1d`, as `max_pool2d_grad`.

    Parameters
    ----------
    grad, indices : array of the shape of the result of `max_pool1d`
    input_size : tuple of 3 ints
        Shape (N, C, L) of the maps.

    Returns
    -------
    array of shape (N, C, L)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.max_pool1d_grad(np.array([[[5.0]]]), np.array([[[2]]]), (1, 1, 4))
    array([[[0., 0., 5., 0.]]])
    """
    return _max_pool_grad(1, grad, indices, input_size)


def max_pool3d_grad(grad: Array, indices: Array, input_size: Sequence[int]) -> Array:
    """Gradient of `max_pool3d`, as `max_pool2d_grad`.

    Parameters
    ----------
    grad, indices : array of the shape of the result of `max_pool3d`
    input_size : tuple of 5 ints
        Shape (N, C, D, H, W) of the maps.

    Returns
    -------
    array of shape (N, C, D, H, W)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.max_pool3d_grad(np.full((1, 1, 1, 1, 1), 5.0), np.full((1, 1, 1, 1, 1), 2), (1, 1, 1, 1, 4))
    array([[[[[0., 0., 5., 0.]]]]])
    """
    return _max_pool_grad(3, grad, indices, input_size)


def avg_pool2d_grad(
    grad: Array,
    input_size: Sequence[int],
    kernel_size: Count,
    stride: Count | None = None,
    padding: Count = 0,
    count_include_pad: bool = True,
) -> Array:
    """Gradient of `avg_pool2d`: every element of `grad` is shared out over its window.

    Parameters
    ----------
    grad : array of shape (N, C, H', W')
        Gradient for the result.
    input_size : tuple of 4 ints
        Shape (N, C, H, W) of the maps.
    kernel_size, stride, padding, count_include_pad
        As they were given to `avg_pool2d`.

    Returns
    -------
    array of shape (N, C, H, W)
        In the library and dtype of `grad`; sums where windows overlap.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or `grad` is not of the shape of the result.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.avg_pool2d_grad(np.array([[[[4.0, 8.0]]]]), (1, 1, 2, 3), 2, stride=1)
    array([[[[1., 3., 2.],
             [1., 3., 2.]]]])
    """
    return _avg_pool_grad(2, grad, input_size, kernel_size, stride, padding, count_include_pad)


def avg_pool1d_grad(
    grad: Array,
    input_size: Sequence[int],
    kernel_size: Count,
    stride: Count | None = None,
    padding: Count = 0,
    count_include_pad: bool = True,
) -> Array:
    """Gradient of `avg_pool1d`, as `avg_pool2d_grad`.

    Parameters
    ----------
    grad : array of the shape of the result of `avg_pool1d`
    input_size : tuple of 3 ints
        Shape (N, C, L) of the maps.
    kernel_size, stride, padding, count_include_pad
        As they were given to `avg_pool1d`.

    Returns
    -------
    array of shape (N, C, L)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.avg_pool1d_grad(np.array([[[4.0, 8.0]]]), (1, 1, 4), 2)
    array([[[2., 2., 4., 4.]]])
    """
    return _avg_pool_grad(1, grad, input_size, kernel_size, stride, padding, count_include_pad)


def avg_pool3d_grad(
    grad: Array,
    input_size: Sequence[int],
    kernel_size: Count,
    stride: Count | None = None,
    padding: Count = 0,
    count_include_pad: bool = True,
) -> Array:
    """Gradient of `avg_pool3d`, as `avg_pool2d_grad`.

    Parameters
    ----------
    grad : array of the shape of the result of `avg_pool3d`
    input_size : tuple of 5 ints
        Shape (N, C, D, H, W) of the maps.
    kernel_size, stride, padding, count_include_pad
        As they were given to `avg_pool3d`.

    Returns
    -------
    array of shape (N, C, D, H, W)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.avg_pool3d_grad(np.full((1, 1, 1, 1, 1), 4.0), (1, 1, 1, 1, 4), (1, 1, 4))
    array([[[[[1., 1., 1., 1.]]]]])
    """
    return _avg_pool_grad(3, grad, input_size, kernel_size, stride, padding, count_include_pad)
