"""Scattering transforms of samples that are rows, or images."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from fastdl import scattering
from fastdl.scattering._checks import sizes
from fastdl.sklearn._kernel import FLOATS

if TYPE_CHECKING:
    from fastdl._arrays import HostArray


class _Scattering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What both transformers share: samples come as rows, or in their own shape."""

    _axes: int
    J: int | None
    shape: Any

    def _make(self, J: int, shape: tuple[int, ...]) -> Any:
        """Make the transform."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Any:
        """Make the filters for the shape of the samples: there is nothing to learn.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or (n_samples, ..., *shape)
            Samples, as rows or in their own shape.
        y : object
            Not used.

        Returns
        -------
        self
            This estimator.
        """
        where = f"sklearn.{type(self).__name__}"
        inner = np.shape(X)[1:] if getattr(X, "ndim", 2) > 2 else ()
        rows = validate_data(self, _rows(X), dtype=FLOATS)
        self.shape_ = self._shape(where, inner, rows.shape[1])
        J = max(1, int(math.log2(min(self.shape_))) - 2) if self.J is None else self.J
        self.scattering_ = self._make(J, self.shape_)
        self._check_inner(where, X)
        # One sample of zeros: the shape of a result is the transform's own affair.
        self.output_shape_ = self._scatter(np.zeros((1, rows.shape[1]), np.float32)).shape[1:]
        return self

    def _shape(self, where: str, inner: tuple[int, ...], n_features: int) -> tuple[int, ...]:
        """Give the shape of samples: the one asked for, their own, or the one that rows allow."""
        if self.shape is not None:
            shape = sizes(where, self.shape, self._axes)
            if n_features % math.prod(shape):
                wanted = f"a multiple of {math.prod(shape)} features for shape {shape}"
                raise ValueError(f"[{where}] expected {wanted}, got n_features = {n_features}")
        elif inner:
            shape = inner[-self._axes :]
        elif self._axes == 1:
            shape = (n_features,)
        else:
            side = math.isqrt(n_features - 1) + 1
            shape = (side, side)
            if side * side != n_features:
                warnings.warn(
                    f"[{where}] expected shape, or a square number of features, got {n_features} of them: zeros make "
                    f"images of {shape} of them",
                    stacklevel=3,
                )
        if min(shape) < 2:
            raise ValueError(f"[{where}] expected at least 2 in every axis, got {shape} from n_features = {n_features}")
        return shape

    def _check_inner(self, where: str, X: Any) -> None:
        """Refuse samples in another shape than that of the filters."""
        if getattr(X, "ndim", 2) > 2 and tuple(X.shape[-self._axes :]) != self.shape_:
            wanted = ", ".join(map(str, self.shape_))
            raise ValueError(f"[{where}] expected X of shape (n, ..., {wanted}), got {tuple(X.shape)}")

    def _scatter(self, rows: HostArray) -> HostArray:
        size = math.prod(self.shape_)
        if lacking := -rows.shape[1] % size:
            rows = np.pad(rows, ((0, 0), (0, lacking)))
        images = rows.reshape(len(rows), rows.shape[1] // size, *self.shape_)
        result: HostArray = self.scattering_(images)
        return result[:, 0] if images.shape[1] == 1 else result

    def transform(self, X: Any) -> HostArray:
        """Compute the transform.

        Parameters
        ----------
        X : array of shape (n_samples, n_features) or (n_samples, ..., *shape)
            Samples, as rows or in their own shape.

        Returns
        -------
        array of shape (n_samples, n_features_out)
            The coefficients of a sample in a row, of the shape ``output_shape_`` before.
        """
        check_is_fitted(self)
        self._check_inner(f"sklearn.{type(self).__name__}", X)
        rows = validate_data(self, _rows(X), dtype=FLOATS, reset=False)
        return self._scatter(rows).reshape(len(rows), math.prod(self.output_shape_))

    @property
    def _n_features_out(self) -> int:
        return math.prod(self.output_shape_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.three_d_array = True
        return tags


def _rows(X: Any) -> Any:
    """Give samples as rows; what is not an array in their own shape is left to scikit-learn's checks."""
    if getattr(X, "ndim", 2) <= 2:
        return X
    return np.asarray(X).reshape(X.shape[0], math.prod(X.shape[1:]))


class Scattering1D(_Scattering):
    r"""The scattering transform of signals, as a step of a pipeline.

    Parameters
    ----------
    J : int, optional
        The largest scale of wavelets is :math:`2^J`. None means the largest of at most a quarter of the signal, but at
        least 1.
    shape : int, optional
        The length of the signals. None means all features, or the last axis of samples that are no rows. Rows of
        several times this length are several signals, one after the other.
    Q, T, max_order, oversampling, normalization
        As in `fastdl.scattering.Scattering1D`. ``T=0``, of which the results differ in length, is not for rows.

    Attributes
    ----------
    scattering_ : fastdl.scattering.Scattering1D
        The transform.
    shape_ : tuple of one int
        The length of signals.
    output_shape_ : tuple
        The shape of the coefficients of a sample: paths and positions, with an axis before for several signals.
    n_features_in_ : int
        The number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import Scattering1D
    >>> transformer = Scattering1D(J=4, Q=8)
    >>> transformer.fit_transform(np.ones((3, 256))).shape, transformer.output_shape_
    ((3, 800), (50, 16))
    """

    _axes = 1

    def __init__(
        self,
        J: int | None = None,
        shape: Any = None,
        *,
        Q: Any = 1,
        T: float | None = None,
        max_order: int = 2,
        oversampling: int = 0,
        normalization: str = "sum",
    ) -> None:
        self.J = J
        self.shape = shape
        self.Q = Q
        self.T = T
        self.max_order = max_order
        self.oversampling = oversampling
        self.normalization = normalization

    def _make(self, J: int, shape: tuple[int, ...]) -> Any:
        return scattering.Scattering1D(
            J, shape[0], self.Q, self.T, self.max_order, self.oversampling, normalization=self.normalization
        )


class Scattering2D(_Scattering):
    r"""The scattering transform of images, as a step of a pipeline.

    Parameters
    ----------
    J : int, optional
        The largest scale of wavelets is :math:`2^J`. None means the largest of at most a quarter of the shorter side,
        but at least 1.
    shape : tuple of two ints, optional
        The size of the images. None means that of samples that are no rows; rows are then square images, with zeros at
        the end, and a warning, where their features make no square. Rows of several times as many features are
        several images, one after the other: channels.
    L, max_order
        As in `fastdl.scattering.Scattering2D`.

    Attributes
    ----------
    scattering_ : fastdl.scattering.Scattering2D
        The transform.
    shape_ : tuple of two ints
        The size of images.
    output_shape_ : tuple
        The shape of the coefficients of a sample: paths and positions, with an axis before for several channels.
    n_features_in_ : int
        The number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import Scattering2D
    >>> transformer = Scattering2D(L=4)
    >>> transformer.fit_transform(np.ones((3, 28 * 28), np.float32)).shape, transformer.output_shape_
    ((3, 1225), (25, 7, 7))
    """

    _axes = 2

    def __init__(
        self,
        J: int | None = None,
        shape: tuple[int, int] | None = None,
        *,
        L: int = 8,
        max_order: int = 2,
    ) -> None:
        self.J = J
        self.shape = shape
        self.L = L
        self.max_order = max_order

    def _make(self, J: int, shape: tuple[int, ...]) -> Any:
        return scattering.Scattering2D(J, (shape[0], shape[1]), self.L, self.max_order)
