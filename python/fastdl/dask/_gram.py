"""Gram matrices over Dask arrays, and products with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection, tokenize

from fastdl._arrays import kind
from fastdl._dispatch import new_array
from fastdl._gram_matrix import CENTRED
from fastdl._gram_operators import matvec as matvec_of_blocks
from fastdl._hebbian_checks import flag
from fastdl._kernels import KERNELS, find, integer
from fastdl.dask._blocks import ROWS, Recipe, assemble, computed, joined, run, take, take_samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import HostArray
    from fastdl._kernels import Kernel

# Distances of more features than these are centred on the mean of so many rows of Y, spread evenly (csrc/gram).
DIRECT_FEATURES = 8
CENTRE_ROWS = 256
# Rows of K computed before they are moved to their place.
STRIP = 512

_BLOCK_ROWS = integer("None or a whole number above 0", lambda value: value > 0)


def gram(
    X: Any,
    Y: Any = None,
    kernel: Any = "rbf",
    *,
    block_rows: int | None = ROWS,
    same_bits: bool = True,
    threads: int | None = 1,
    **params: Any,
) -> Any:
    r"""Gram matrix of any kernel, lazily and in blocks.

    Parameters
    ----------
    X : Dask array of shape (n, d)
        Samples, one a row. Chunks along features are brought together. What is no Dask array, NumPy's for one, is
        split into chunks of 4096 rows.
    Y : Dask array of shape (m, d), optional
        Other samples. None means ``Y = X``: one triangle of blocks is computed, and the other has their transposes.
    kernel : str or callable, default "rbf"
        As in `fastdl.gram.gram`.
    block_rows : int, optional
        Samples with a chunk of more rows than this are cut anew, into chunks of so many; by default 4096, which makes
        blocks of 64 MB in float32. None leaves them as they are.
    same_bits : bool, default True
        Whether kernels of distances, ``"rbf"`` and ``"matern"``, are centred alike in all blocks, as they are in one
        call. False lets every block have a centre of its own: see the notes.
    threads : int, optional
        How many threads of fastdl a task may use, 1 by default. None leaves it to ``FASTDL_NUM_THREADS`` of the worker.
    **params
        Parameters of the kernel, by name. Defaults that depend on the number of features are those of all features.

    Returns
    -------
    Dask array of shape (n, m)
        In chunks of the rows of `X` by those of `Y`. float32 if both are, else float64.

    Raises
    ------
    ValueError
        If there is no such kernel, the shapes or values do not fit, or the sizes of chunks are not known.
    TypeError
        If the kernel has no parameter of a name, or a dtype or kind does not fit.

    Notes
    -----
    What does not depend on elements is checked at once; elements that a kernel is not defined for are found when their
    block is computed.

    The compiled code gives the same bits as `fastdl.gram.gram` on the whole arrays, whatever the chunks. Distances of
    more than 8 features are centred on 256 rows from all of `Y`: these are computed first, even if one block is wanted,
    and are 256 more columns in every block. Without `same_bits` there is none of that, and results that are as accurate
    differ in their last bits when the chunks are others.

    Examples
    --------
    >>> import dask.array as da
    >>> from fastdl.dask import gram
    >>> X = da.random.default_rng(0).standard_normal((10000, 20), chunks=(2000, 20))
    >>> K = gram(X, kernel="matern", nu=2.5)
    >>> K.shape, K.numblocks
    ((10000, 10000), (5, 5))
    >>> K[:3, :3].compute().diagonal()
    array([1., 1., 1.])
    """
    where = "dask.gram"
    entry = find(where, kernel)
    X, Y = _pair(where, X, Y)
    parameters = _parameters(where, entry, X.shape[1], params)
    X, Y = (_cut(where, array, block_rows) for array in (X, Y))
    centre = _centre(entry, Y, parameters) if flag(where, "same_bits", same_bits) else None
    recipe = Recipe(where, threads, _block, kernel=entry.name, parameters=parameters)
    token = tokenize(recipe, X, Y, centre)
    name, key = f"fastdl-gram-{entry.name}-{token}", f"fastdl-recipe-{token}"
    graph: dict[Any, Any] = {key: recipe}
    starts = np.cumsum((0, *Y.chunks[0])).tolist()
    for i in range(X.numblocks[0]):
        for j in range(Y.numblocks[0]):
            left, right = (X.name, i, 0), (Y.name, j, 0)
            if left == right and centre is None:
                graph[name, i, j] = (run, key, left)
            elif X.name == Y.name and i < j:
                graph[name, i, j] = (np.transpose, (name, j, i))
            elif centre is None:
                graph[name, i, j] = (run, key, left, right)
            else:
                graph[name, i, j] = (run, key, left, right, (centre.name, 0, 0), starts[j])
    sources = (X, Y) if centre is None else (X, Y, centre)
    return assemble(name, graph, (X.chunks[0], Y.chunks[0]), computed(X, Y), *sources)


def _centre(entry: Kernel, Y: Any, parameters: dict[str, Any]) -> Any:
    """Give the rows that a call with all of Y is centred on, or None where blocks do not depend on others."""
    direct = Y.shape[1] <= DIRECT_FEATURES and np.ndim(parameters.get("length_scale", 1)) == 0
    if entry.name not in CENTRED or direct or Y.numblocks[0] == 1:
        return None
    count = min(Y.shape[0], CENTRE_ROWS)
    return Y[np.arange(count) * Y.shape[0] // max(1, count)].rechunk(-1)


def _block(
    X: HostArray,
    Y: HostArray | None = None,
    centre: HostArray | None = None,
    start: int = 0,
    *,
    kernel: str,
    parameters: dict[str, Any],
) -> HostArray:
    """Compute a block of K; with the rows that all distances are centred on, to the bit as in a call with all of Y."""
    function: Callable[..., HostArray] = KERNELS[kernel].function
    if Y is None or centre is None:
        return function(X, Y, **parameters)
    count = len(centre)
    if count < CENTRE_ROWS:  # they are all of Y
        return function(X, centre, **parameters)[:, start : start + len(Y)]
    # They go where a call looks for them: to the heads of 256 equal parts of what it gets, and their columns go out
    # again, in strips of K that are still in cache. (A block of 4096 x 4096 in float32 with 128 features, one thread of
    # a Zen 3: 70 ms by itself, 88 ms so, 97 ms without strips.)
    width = max(1, -(-len(Y) // count))
    parts = np.zeros((count, width + 1, Y.shape[1]), Y.dtype)
    parts[:, 0] = centre
    for part, head in enumerate(range(0, len(Y), width)):
        rows = Y[head : head + width]
        parts[part, 1 : 1 + len(rows)] = rows
    extended = parts.reshape(-1, Y.shape[1])
    result = new_array((len(X), count, width), computed(X, Y))
    for first in range(0, len(X), STRIP):
        strip = function(X[first : first + STRIP], extended, **parameters)
        result[first : first + STRIP] = strip.reshape(-1, count, width + 1)[:, :, 1:]
    return np.ascontiguousarray(result.reshape(len(X), count * width)[:, : len(Y)])


def matvec(X: Any, v: Any, Y: Any = None, kernel: Any = "rbf", *, threads: int | None = 1, **params: Any) -> Any:
    r"""Product of a Gram matrix and a vector or matrix, lazily, in blocks that are never formed.

    Parameters
    ----------
    X : Dask array of shape (n, d)
        Samples, one a row, as in `gram`. Chunks may be large: a task takes no more memory than its arguments.
    v : Dask array of shape (m,) or (m, p)
        What K is multiplied by. It is brought to the chunks of `Y`.
    Y : Dask array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel : str or callable, default "rbf"
        As in `fastdl.gram.gram`.
    threads : int, optional
        As in `gram`.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    Dask array of shape (n,) or (n, p)
        :math:`K(X, Y)\, v`, of the rank of `v`, in the chunks of `X`.

    Raises
    ------
    ValueError
        If there is no such kernel, the shapes or values do not fit, or the sizes of chunks are not known.
    TypeError
        If the kernel has no parameter of a name, or a dtype or kind does not fit.

    Notes
    -----
    There is a task for every pair of a chunk of `X` and one of `Y`. The products of one chunk of `X` are then summed
    in float64, in the order of the chunks of `Y`: the result is the same for any number of workers, to the bit, and
    differs from that of `fastdl.gram.matvec` by rounding.

    Examples
    --------
    >>> import dask.array as da
    >>> from fastdl.dask import matvec
    >>> X = da.random.default_rng(0).standard_normal((10000, 20), chunks=(2000, 20))
    >>> product = matvec(X, da.ones(10000), kernel="cosine")
    >>> product.chunks
    ((2000, 2000, 2000, 2000, 2000),)
    >>> product[:100].compute().shape
    (100,)
    """
    where = "dask.matvec"
    entry = find(where, kernel)
    X, Y = _pair(where, X, Y)
    v = take(where, "v", v)
    m = Y.shape[0]
    if v.ndim not in (1, 2) or v.shape[0] != m:
        raise ValueError(f"[{where}] expected v of shape ({m},) or ({m}, p), got {v.shape}")
    v = joined(v.rechunk({0: Y.chunks[0]}), 1)
    parameters = _parameters(where, entry, X.shape[1], params)
    recipe = Recipe(where, threads, _product, kernel=entry.name, parameters=parameters)
    token = tokenize(recipe, X, v, Y)
    name, part, key = f"fastdl-matvec-{token}", f"fastdl-matvec-{entry.name}-{token}", f"fastdl-recipe-{token}"
    graph: dict[Any, Any] = {key: recipe}
    other = (0,) * (v.ndim - 1)
    for i in range(X.numblocks[0]):
        for j in range(Y.numblocks[0]):
            graph[part, i, j] = (run, key, (X.name, i, 0), (v.name, j, *other), (Y.name, j, 0))
        graph[(name, i, *other)] = (_sum, [(part, i, j) for j in range(Y.numblocks[0])])
    return assemble(name, graph, (X.chunks[0], *v.chunks[1:]), computed(X, v, Y), X, v, Y)


def _product(X: HostArray, v: HostArray, Y: HostArray, *, kernel: str, parameters: dict[str, Any]) -> HostArray:
    result: HostArray = matvec_of_blocks(X, v, Y, kernel, **parameters)
    return result


def _sum(parts: list[HostArray]) -> HostArray:
    """Sum up in the order of the list."""
    total = parts[0].astype(np.float64)
    for part in parts[1:]:
        total += part
    return total.astype(parts[0].dtype, copy=False)


def _pair(where: str, X: Any, Y: Any) -> tuple[Any, Any]:
    """Give both sets of samples; the same for both without Y."""
    first = take_samples(where, "X", X)
    return first, first if Y is None or Y is X else take_samples(where, "Y", Y, first.shape[1])


def _parameters(where: str, entry: Kernel, d: int, given: dict[str, Any]) -> dict[str, Any]:
    """Check the parameters, and put in the defaults for all features."""
    for name, value in given.items():
        if is_dask_collection(value):
            raise TypeError(f"[{where}] expected {name} to be computed, got {kind(value)}: call its compute()")
    return entry.named(where, d, given)


def _cut(where: str, array: Any, block_rows: Any) -> Any:
    """Cut samples anew if a chunk has more rows than a block may have."""
    if block_rows is None:
        return array
    most = _BLOCK_ROWS(where, "block_rows", block_rows, 0)
    return array.rechunk({0: most}) if max(array.chunks[0]) > most else array
