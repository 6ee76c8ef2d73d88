"""What the functions over Dask arrays share: arrays in, the task that computes a block, and the graph of all blocks."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from dask.highlevelgraph import HighLevelGraph

from fastdl._arrays import check_dtype, dtype_name, kind, to_host
from fastdl._config import threads as limited
from fastdl._dispatch import _default, _requested, backend
from fastdl._kernels import integer

if TYPE_CHECKING:
    from collections.abc import Callable

# Rows of a chunk: a block of K then has 64 MB in float32, enough for any kernel to run at full speed on it.
ROWS = 4096

_THREADS = integer("None or a whole number from 1 to 4096", lambda value: 1 <= value <= 4096)


class Recipe:
    """How the blocks of a result are computed; a graph holds it once, under a key of its own.

    Parameters
    ----------
    where : str
        The name of the public function, for messages.
    threads : int or None
        How many threads of fastdl a task may use; None leaves that to its process.
    function : callable
        Gets the blocks.
    **options
        Its other arguments.
    """

    def __init__(self, where: str, threads: Any, function: Callable[..., Any], **options: Any) -> None:
        self.function = function
        self.options = options
        self.threads = None if threads is None else _THREADS(where, "threads", threads, 0)
        # What was chosen where the graph is made holds where it runs; else every process has its own default.
        chosen = _requested.get()
        self.backend = None if chosen == _default else chosen

    def __dask_tokenize__(self) -> Any:
        return self.function, self.options, self.threads, self.backend


def run(recipe: Recipe, *blocks: Any) -> Any:
    """Compute a block."""
    with ExitStack() as limits:
        if recipe.backend is not None:
            limits.enter_context(backend(recipe.backend))
        if recipe.threads is not None:
            limits.enter_context(limited(recipe.threads))
        return recipe.function(*blocks, **recipe.options)


def take(where: str, name: str, array: Any) -> Any:
    """Give an argument as a Dask array of NumPy blocks; one in memory is split along its first axis."""
    if array is None:
        raise TypeError(f"[{where}] expected {name} to be an array, got None")
    if not isinstance(array, da.Array):
        if is_dask_collection(array):
            raise TypeError(f"[{where}] expected {name} to be a Dask array or one in memory, got {kind(array)}")
        host: Any = to_host(where, (name,), (array,))[0][0]
        return da.from_array(host, chunks=(ROWS, *host.shape[1:])[: host.ndim])
    check_dtype(where, name, array)
    if not isinstance(array._meta, np.ndarray) or isinstance(array._meta, np.ma.MaskedArray):
        raise TypeError(f"[{where}] expected {name} in blocks of NumPy arrays, got blocks of {kind(array._meta)}")
    if any(math.isnan(size) for size in array.shape):
        raise ValueError(
            f"[{where}] expected {name} in chunks of known sizes, got shape {array.shape}: "
            f"call {name}.compute_chunk_sizes() before"
        )
    return array


def take_samples(where: str, name: str, array: Any, d: Any = "d") -> Any:
    """Give samples as a Dask array of shape (n, d), in chunks of whole rows."""
    array = take(where, name, array)
    if array.ndim != 2 or (d != "d" and array.shape[1] != d):
        raise ValueError(f"[{where}] expected {name} of shape ({'m' if name == 'Y' else 'n'}, {d}), got {array.shape}")
    return joined(array, 1)


def joined(array: Any, first: int) -> Any:
    """Bring together the chunks along the axes from `first` on."""
    axes = [axis for axis in range(first, array.ndim) if array.numblocks[axis] > 1]
    return array.rechunk(dict.fromkeys(axes, -1)) if axes else array


def computed(*arrays: Any) -> np.dtype[Any]:
    """Give the dtype of what fastdl computes from arrays."""
    return np.dtype("float32" if all(dtype_name(array.dtype) == "float32" for array in arrays) else "float64")


def assemble(name: str, graph: dict[Any, Any], chunks: Any, dtype: Any, *sources: Any) -> Any:
    """Make a Dask array of tasks that read the blocks of `sources`."""
    layers = HighLevelGraph.from_collections(name, graph, dependencies=sources)
    return da.Array(layers, name, chunks, meta=np.empty((0,) * len(chunks), dtype))
