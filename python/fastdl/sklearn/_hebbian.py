"""Principal components by Hebbian learning, as a step of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fastdl import hebbian
from fastdl.sklearn._kernel import FLOATS

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl._progress import Progress


class HebbianPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Principal components by a Hebbian rule, from samples that are seen one after the other.

    Parameters
    ----------
    n_components : int, optional
        The number of components. None means the smaller of the numbers of samples and of features at the first call.
    rule, learning_rate, center, epochs
        As in `fastdl.hebbian.HebbianPCA`.
    random_state : int, numpy.random.RandomState or None, default 0
        Gives the weights to begin with.
    progress : bool or callable, default False
        Whether `fit` shows how far it is: with tqdm if it is installed, else by a line on standard error. A callable
        gets the number of samples seen and their total.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The components, a row each.
    mean_ : array of shape (n_features,)
        The mean of all samples seen; zeros without `center`.
    n_samples_seen_ : int
        The number of samples seen, with repetitions.
    n_features_in_ : int
        The number of features.

    See Also
    --------
    fastdl.hebbian.HebbianPCA : The same without scikit-learn, also from generators.
    sklearn.decomposition.IncrementalPCA : Components from batches.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import HebbianPCA
    >>> X = np.random.default_rng(0).standard_normal((5000, 3)) * np.array([1.0, 3.0, 0.3]) + 5
    >>> abs(HebbianPCA(2).fit(X).components_).round(1)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """

    def __init__(
        self,
        n_components: int | None = None,
        rule: str = "sanger",
        learning_rate: Any = None,
        *,
        center: bool = True,
        epochs: int = 1,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.n_components = n_components
        self.rule = rule
        self.learning_rate = learning_rate
        self.center = center
        self.epochs = epochs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> HebbianPCA:
        """Learn from samples, from the beginning.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : object
            Not used.

        Returns
        -------
        HebbianPCA
            This estimator.

        Raises
        ------
        FloatingPointError
            If a weight becomes infinite or NaN: the learning rate is too large.
        """
        X = validate_data(self, X, dtype=FLOATS)
        self._model = self._new(X)
        self._model.fit(X, progress=self.progress)
        return self._learnt()

    def partial_fit(self, X: Any, y: Any = None) -> HebbianPCA:
        """Learn from further samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : object
            Not used.

        Returns
        -------
        HebbianPCA
            This estimator.

        Raises
        ------
        FloatingPointError
            If a weight becomes infinite or NaN; the estimator is as before.
        """
        first = not hasattr(self, "_model")
        X = validate_data(self, X, dtype=FLOATS, reset=first)
        model = self._new(X) if first else self._model
        model.partial_fit(X)
        self._model = model
        return self._learnt()

    def _new(self, X: HostArray) -> hebbian.HebbianPCA:
        seed = self.random_state
        if seed is not None and not isinstance(seed, (int, np.integer)):
            seed = seed.randint(2**31 - 1) if hasattr(seed, "randint") else int(seed.integers(2**31 - 1))
        return hebbian.HebbianPCA(
            min(X.shape) if self.n_components is None else self.n_components,
            self.rule,
            self.learning_rate,
            center=self.center,
            epochs=self.epochs,
            random_state=seed,
        )

    def _learnt(self) -> HebbianPCA:
        self.components_, self.mean_ = self._model.components_, self._model.mean_
        self.n_samples_seen_ = self._model.n_samples_seen_
        return self

    def transform(self, X: Any) -> HostArray:
        """Give the coordinates of samples along the components.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return np.asarray(self._model.transform(validate_data(self, X, dtype=FLOATS, reset=False)))

    def inverse_transform(self, X: Any) -> HostArray:
        """Give the samples in the space of the components that have given coordinates.

        Parameters
        ----------
        X : array of shape (n_samples, n_components)
            Coordinates, as from `transform`.

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return np.asarray(self._model.inverse_transform(check_array(X, dtype=FLOATS)))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
