"""Results that are larger than memory, in a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np

from fastdl._arrays import kind

if TYPE_CHECKING:
    from fastdl._arrays import HostArray


class _File:
    """A file of NumPy that blocks are written to. It travels as its path: a memory map would travel as its numbers."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __setitem__(self, place: Any, block: HostArray) -> None:
        target = np.lib.format.open_memmap(self.path, mode="r+")
        target[place] = block
        target.flush()


def to_npy(array: Any, path: str | os.PathLike[str]) -> HostArray:
    """Compute a Dask array into one file of NumPy, block by block, and give a memory map of it.

    Parameters
    ----------
    array : Dask array
        Of any shape, with chunks of known sizes, such as what `gram` gives.
    path : path
        Where the file goes, ``.npy`` by custom. What is there is overwritten. All workers must see it under this path:
        processes of one machine do, those of several need a common file system (or Zarr: ``array.to_zarr(…)``).

    Returns
    -------
    numpy.memmap
        Read-only, of the shape and dtype of `array`. No more of it than a few blocks was ever in memory.

    Raises
    ------
    ValueError
        If the sizes of chunks are not known.
    TypeError
        If `array` is no Dask array.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import dask.array as da
    >>> from fastdl.dask import gram, to_npy
    >>> X = da.ones((100, 3), chunks=(40, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     K = to_npy(gram(X, kernel="linear"), Path(folder) / "gram.npy")
    ...     print(K.shape, K[0, 99])
    (100, 100) 3.0
    """
    where = "dask.to_npy"
    if not isinstance(array, da.Array):
        raise TypeError(f"[{where}] expected a Dask array, got {kind(array)}")
    if any(np.isnan(size) for size in array.shape):
        raise ValueError(f"[{where}] expected an array in chunks of known sizes, got shape {array.shape}")
    whole = os.path.abspath(path)  # workers may have other working directories
    np.lib.format.open_memmap(whole, mode="w+", dtype=array.dtype, shape=array.shape).flush()
    da.store(array, _File(whole), lock=False)
    result: HostArray = np.load(whole, mmap_mode="r")
    return result
