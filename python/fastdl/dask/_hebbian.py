"""Principal components learnt from Dask arrays."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize

from fastdl import hebbian
from fastdl.dask._blocks import Recipe, assemble, computed, run, take_samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastdl._progress import Progress


class HebbianPCA(hebbian.HebbianPCA):
    r"""Principal components by a Hebbian rule, from the chunks of Dask arrays one after the other.

    The parameters and attributes are those of `fastdl.hebbian.HebbianPCA`, and arrays that are not Dask's are taken as
    there. `fit` and `partial_fit` compute at once: the chunks of X are computed in turn, each where the scheduler puts
    it, and the estimator goes to the samples. Only one chunk is there at a time. `transform` and `inverse_transform`
    are lazy.

    Parameters
    ----------
    n_components : int
        The number of components.
    rule : {"sanger", "subspace", "oja", "ccipca"}, default "sanger"
        The rule.
    learning_rate : float or callable, optional
        The step of the rule.
    center : bool, default True
        Whether the mean of all samples so far is subtracted from each.
    epochs : int, default 1
        How often `fit` goes through its samples.
    random_state : int, default 0
        Seed of the weights to begin with.

    Notes
    -----
    A rule sees one sample after the other, so learning uses one worker at a time, with all its threads. What the chunks
    of X have in common, such as a mean that is subtracted, would be computed again for every chunk: persist it before.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from fastdl.dask import HebbianPCA
    >>> X = da.random.default_rng(0).standard_normal((5000, 3), chunks=(1000, 3)) * np.array([1.0, 3.0, 0.3])
    >>> pca = HebbianPCA(2).fit(X)
    >>> abs(pca.components_).round(1)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    >>> pca.transform(X).chunksize
    (1000, 2)
    """

    def fit(self, X: Any, y: object = None, *, progress: bool | Progress = False) -> HebbianPCA:
        """Learn from samples, from the beginning.

        Parameters
        ----------
        X : Dask array of shape (n, d)
            Samples, one a row. Or what `fastdl.hebbian.HebbianPCA.fit` takes.
        y : object
            Not used.
        progress : bool or callable, default False
            Whether to show how far the work is, as there; after every chunk.

        Returns
        -------
        HebbianPCA
            This estimator.

        Raises
        ------
        FloatingPointError
            If a weight becomes infinite or NaN, with the number of the sample.
        ValueError
            If a shape does not fit, the sizes of chunks are not known, or a parameter is outside its limits.
        TypeError
            If a dtype or the kind of a parameter does not fit.
        """
        if isinstance(X, da.Array):
            X = take_samples("dask.HebbianPCA.fit", "X", X)
        super().fit(X, progress=progress)
        return self

    def partial_fit(self, X: Any, y: object = None) -> HebbianPCA:
        """Learn from further samples.

        Parameters
        ----------
        X : Dask array of shape (n, d)
            Samples, one a row. Or an array in memory.
        y : object
            Not used.

        Returns
        -------
        HebbianPCA
            This estimator.

        Raises
        ------
        FloatingPointError
            If a weight becomes infinite or NaN, with the number of the sample; the estimator is as before.
        ValueError
            If a shape does not fit, the sizes of chunks are not known, or a parameter is outside its limits.
        TypeError
            If a dtype or the kind of a parameter does not fit.
        """
        if not isinstance(X, da.Array):
            super().partial_fit(X)
            return self
        where = "dask.HebbianPCA.partial_fit"
        self._check(where)
        before, seen = dict(vars(self)), 0
        try:
            for piece in self._pieces(where, X):
                vars(self).update(vars(dask.delayed(_learn, pure=False)(self, piece).compute()))
                seen += len(piece)
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            if isinstance(error, FloatingPointError):
                message, _, number = str(error).rpartition(" ")
                raise FloatingPointError(f"{message} {seen + int(number)}") from None
            raise
        return self

    def transform(self, X: Any) -> Any:
        r"""Give the coordinates of samples along the components.

        Parameters
        ----------
        X : Dask array of shape (n, d)
            Samples, one a row. Or an array in memory.

        Returns
        -------
        Dask array of shape (n, n_components)
            :math:`(x - m) \cdot w` for every component w, as they are now. Of an array in memory, a NumPy array.

        Raises
        ------
        ValueError
            If a shape does not fit, the sizes of chunks are not known, or nothing was learnt yet.
        TypeError
            If the dtype does not fit.
        """
        if not isinstance(X, da.Array):
            return super().transform(X)
        where = "dask.HebbianPCA.transform"
        self._learnt(where)
        X = take_samples(where, "X", X, self.n_features_in_)
        return self._map(where, "transform", X, len(self.components_), computed(X))

    def inverse_transform(self, Y: Any) -> Any:
        """Give the samples in the space of the components that have given coordinates.

        Parameters
        ----------
        Y : Dask array of shape (n, n_components)
            Coordinates, as from `transform`. Or an array in memory.

        Returns
        -------
        Dask array of shape (n, d)
            The nearest samples, if the components are orthonormal. Of an array in memory, a NumPy array.

        Raises
        ------
        ValueError
            If a shape does not fit, the sizes of chunks are not known, or nothing was learnt yet.
        """
        if not isinstance(Y, da.Array):
            return super().inverse_transform(Y)
        where = "dask.HebbianPCA.inverse_transform"
        self._learnt(where)
        Y = take_samples(where, "Y", Y, len(self.components_))
        dtype = np.result_type(Y.dtype, self.components_.dtype)
        return self._map(where, "inverse_transform", Y, self.n_features_in_, dtype)

    def _map(self, where: str, method: str, X: Any, columns: int, dtype: Any) -> Any:
        """Apply a method to every chunk, with the components as they are now."""
        recipe = Recipe(where, 1, getattr(copy(self), method))
        token = tokenize(method, self.rule, self.components_, self.mean_, recipe.backend, X)
        name, key = f"fastdl-pca-{method}-{token}", f"fastdl-recipe-{token}"
        graph: dict[Any, Any] = {key: recipe}
        for i in range(X.numblocks[0]):
            graph[name, i, 0] = (run, key, (X.name, i, 0))
        return assemble(name, graph, (X.chunks[0], (columns,)), dtype, X)

    def _pieces(self, where: str, X: Any) -> Iterator[Any]:
        if not isinstance(X, da.Array):
            yield from super()._pieces(where, X)
            return
        X = take_samples(where, "X", X, getattr(self, "n_features_in_", "d"))
        for i, rows in enumerate(X.chunks[0]):
            if rows:
                yield X.blocks[i]


def _learn(estimator: HebbianPCA, samples: Any) -> HebbianPCA:
    """Learn from samples in memory. A task may be run twice, so the estimator it was given stays as it is."""
    return copy(estimator).partial_fit(samples)
