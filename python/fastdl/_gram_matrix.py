"""Gram matrices of any kernel, whole or in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import check_out, dtype_name, is_plain
from fastdl._dispatch import core, new_array
from fastdl._gram_checks import is_sparse, pairs, restrict
from fastdl._kernels import find
from fastdl._progress import Report, check_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdl._arrays import Array
    from fastdl._dispatch import Call
    from fastdl._progress import Progress

# A block of a result that lies in a file: large enough for any kernel to run at full speed on it, small beside memory.
BLOCK_BYTES = 64 << 20
# On a device distances are centred on the second samples: only against all of them is a block the same to the bit as
# in one call. The native code is told which part of the whole a block is, and the reference does not centre.
CENTRED = ("rbf", "matern")
# Blocks of a result whose progress is shown, along each side.
STEPS = 16


def gram(
    X: Array,
    Y: Array | None = None,
    kernel: Any = "rbf",
    *,
    out: Array | None = None,
    progress: bool | Progress = False,
    **params: Any,
) -> Array:
    r"""Gram matrix of any kernel, given by its name.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row. Matrices of scipy.sparse for the kernels that take them.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel : str or callable, default "rbf"
        The name of a kernel, or its function in this module. ``"poly"`` is short for ``"polynomial"``.
    out : array of shape (n, m), optional
        Where to put the result. A `numpy.memmap` is filled in blocks of 64 MB, each written once, so it may be larger
        than memory.
    progress : bool or callable, default False
        Whether to show how far the work is: with tqdm if it is installed, else by a line on standard error. A callable
        gets the number of entries of K done and their total, after every block.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    array of shape (n, m)
        As from the function of the kernel.

    Raises
    ------
    ValueError
        If there is no such kernel, or the shapes or values do not fit.
    TypeError
        If the kernel has no parameter of a name, or a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.gram import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram(X, kernel="poly", degree=2, gamma=1)
    array([[ 36., 144.],
           [144., 676.]])
    """
    where = "gram.gram"
    entry = find(where, kernel)
    check_progress(where, progress)
    if is_sparse(X, Y):
        result = entry.function(X, Y, out=out, **entry.names(where, params))
        if progress is not False:
            with Report(entry.operation.name, progress, result.size) as report:
                report.add(result.size)
        return result
    in_file = isinstance(out, np.memmap)
    if progress is False and not in_file:
        return entry.function(X, Y, out=out, **entry.names(where, params))
    call = entry.operation.begin(X, None if Y is X else Y)
    n, m = pairs(call)
    parameters = entry.named(entry.operation.name, call.arrays[0].shape[1], params)
    restrict(entry, call, list(parameters.values()))
    target = _target(call, (n, m), out)
    first, second = call.arrays
    if second is None and call.backend == "cuda" and entry.name in CENTRED:
        second = first
    size = 4 if dtype_name(call.dtype) == "float32" else 8
    with Report(entry.operation.name, progress, n * m) as report:
        for rows, columns in _blocks(n, None if second is None else m, size, fine=not in_file):
            left, block = first[rows, :], target[rows, columns]
            if second is not None:
                entry.function(left, second[columns, :], out=block, **parameters)
            elif call.backend == "native":
                room = block if is_plain(block) else new_array(block.shape, call.dtype)
                core.gram.part(first, rows.start, columns.start, entry.name, parameters, room)
                if room is not block:
                    block[...] = room
            else:
                entry.function(left, None if rows == columns else first[columns, :], out=block, **parameters)
            if second is None and rows != columns:
                target[columns, rows] = block.T
            done = (rows.stop - rows.start) * (columns.stop - columns.start)
            report.add(done if second is not None or rows == columns else 2 * done)
    if out is not None:
        call.library.written(out)
        return out
    return call.library.wrap(target, call.like) if isinstance(target, np.ndarray) else target


def _target(call: Call, shape: tuple[int, int], out: Array | None) -> Array:
    """Check where the result goes, or make room for it."""
    if out is not None:
        sources = [source for source in call.sources if source is not None]
        return check_out(call.operation.name, out, shape, call.dtype, call.library, call.like, sources)
    if isinstance(call.arrays[0], np.ndarray):
        return new_array(shape, call.dtype)
    return call.library.namespace(call.like).empty(shape, dtype=call.dtype, device=call.like.device)


def _blocks(n: int, m: int | None, itemsize: int, *, fine: bool) -> Iterator[tuple[slice, slice]]:
    """Cut K into blocks of rows, or without m the lower triangle into squares.

    Of the squares, each is copied to its mirror place, so every page of a file is written about once: rows of whole
    blocks would write the upper triangle in strips narrower than a page.
    """
    if m is None:
        side = max(1024, int((BLOCK_BYTES / itemsize) ** 0.5) // 1024 * 1024)
        if fine:
            side = min(side, max(64, -(-n // STEPS)))
        cuts = [slice(start, min(n, start + side)) for start in range(0, n, side)]
        for i, rows in enumerate(cuts):
            for columns in cuts[: i + 1]:
                yield rows, columns
        return
    step = max(1, BLOCK_BYTES // (itemsize * max(1, m)))
    if fine:
        step = min(step, max(64, -(-n // STEPS**2)))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step)), slice(0, m)
