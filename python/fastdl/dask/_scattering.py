"""Scattering transforms over Dask arrays."""

from __future__ import annotations

from copy import copy
from itertools import product
from typing import Any

import numpy as np
from dask.base import tokenize

from fastdl._arrays import kind
from fastdl.dask._blocks import Recipe, assemble, computed, joined, run, take
from fastdl.scattering import HarmonicScattering3D, RotoTranslationScattering2D
from fastdl.scattering._base import Transform

TRANSFORMS = (Transform, HarmonicScattering3D, RotoTranslationScattering2D)


def scattering(transform: Any, x: Any, *, threads: int | None = 1) -> Any:
    r"""Scattering transform of signals, images or volumes, lazily and in blocks.

    Parameters
    ----------
    transform : object of fastdl.scattering
        Such as ``Scattering2D(J=3, shape=(32, 32))``, with ``out_type="array"``. It is copied.
    x : Dask array of shape (..., \*shape)
        Signals, with any axes before, along which they may be in chunks. Chunks along the axes of a signal are brought
        together. What is no Dask array is split into chunks of 4096 along its first axis.
    threads : int, optional
        How many threads of fastdl a task may use, 1 by default. None leaves it to ``FASTDL_NUM_THREADS`` of the worker.

    Returns
    -------
    Dask array of shape (..., paths, \*output)
        What the transform gives, in the chunks of `x` along the axes before.

    Raises
    ------
    ValueError
        If the last axes of `x` are not of the shape that the transform was made for, the sizes of chunks are not
        known, or `out_type` is another than "array".
    TypeError
        If `transform` is no transform, or the dtype of `x` does not fit.

    Notes
    -----
    Signals that do not fill the lanes of a vector together round differently, so other chunks may change last bits.

    Examples
    --------
    >>> import dask.array as da
    >>> from fastdl.dask import scattering
    >>> from fastdl.scattering import Scattering2D
    >>> x = da.ones((1000, 3, 32, 32), chunks=(100, 3, 32, 32), dtype="float32")
    >>> features = scattering(Scattering2D(J=2, shape=(32, 32)), x)
    >>> features.shape, features.chunksize
    ((1000, 3, 81, 8, 8), (100, 3, 81, 8, 8))
    """
    return _apply("scattering", transform, x, threads)


def moments(transform: Any, x: Any, *, threads: int | None = 1) -> Any:
    r"""Means of scattering over signals, images or volumes, lazily and in blocks.

    Parameters
    ----------
    transform : object of fastdl.scattering
        As in `scattering`.
    x : Dask array of shape (..., \*shape)
        Signals, as in `scattering`.
    threads : int, optional
        As in `scattering`.

    Returns
    -------
    Dask array of shape (..., paths)
        What ``transform.moments`` gives, in the chunks of `x` along the axes before.

    Raises
    ------
    ValueError
        If the last axes of `x` are not of the shape that the transform was made for, or the sizes of chunks are not
        known.
    TypeError
        If `transform` is no transform, or the dtype of `x` does not fit.

    Examples
    --------
    >>> import dask.array as da
    >>> from fastdl.dask import moments
    >>> from fastdl.scattering import Scattering1D
    >>> x = da.ones((1000, 256), chunks=(100, 256))
    >>> moments(Scattering1D(J=4, shape=256), x).shape
    (1000, 13)
    """
    return _apply("moments", transform, x, threads)


def _apply(method: str, transform: Any, x: Any, threads: Any) -> Any:
    where = f"dask.{method}"
    _check(where, transform)
    x = take(where, "x", x)
    shape: Any = transform.padded_shape if getattr(transform, "pre_pad", False) else transform.shape
    before = x.ndim - len(shape)
    if before < 0 or x.shape[before:] != tuple(shape):
        raise ValueError(f"[{where}] expected x of shape (..., {', '.join(map(str, shape))}), got {x.shape}")
    x, dtype = joined(x, before), computed(x)
    # Its attributes may be changed before the graph is computed.
    transform = copy(transform)
    after = getattr(transform, method)(np.empty((0, *shape), dtype)).shape[1:]
    recipe = Recipe(where, threads, getattr(transform, method))
    described = {name: value for name, value in vars(transform).items() if not name.startswith("_")}
    token = tokenize(type(transform).__name__, described, recipe.threads, recipe.backend, x)
    name, key = f"fastdl-{method}-{token}", f"fastdl-recipe-{token}"
    graph: dict[Any, Any] = {key: recipe}
    for place in product(*(range(count) for count in x.numblocks[:before])):
        graph[(name, *place, *(0,) * len(after))] = (run, key, (x.name, *place, *(0,) * len(shape)))
    return assemble(name, graph, (*x.chunks[:before], *((size,) for size in after)), dtype, x)


def _check(where: str, transform: Any) -> None:
    if not isinstance(transform, TRANSFORMS):
        raise TypeError(f"[{where}] expected a transform of fastdl.scattering, got {kind(transform)}")
    form = getattr(transform, "out_type", "array")
    if where == "dask.scattering" and form != "array":
        raise ValueError(f"[{where}] expected a transform with out_type 'array', got {form!r}")
