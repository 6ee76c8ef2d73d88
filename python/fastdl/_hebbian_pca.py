"""Principal components learnt from a stream of samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import NUMPY, kind, library_of
from fastdl._dispatch import Operation
from fastdl._hebbian_checks import choice, flag, on_host
from fastdl._kernels import integer, real
from fastdl._progress import Report, check_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fastdl._arrays import Array, HostArray
    from fastdl._progress import Progress

    Rate = float | Callable[[HostArray], Array]

RULES = ("sanger", "subspace", "oja", "ccipca")

# Samples taken together: large enough for the blocks of the rules, small beside memory.
CHUNK_BYTES = 16 << 20

# Samples for each component before the steps go down. (64 components of 784 features whose variances fall as 1/i, 20000
# samples: 0.588 of the variance is explained with 5, 0.639 with 20, 0.649 with 100, 0.642 with 400; 0.657 is the most.)
PATIENCE = 100

_COMPONENTS = integer("a whole number of at least 1", lambda value: 1 <= value < 1 << 62)
_RATE = real("a number above 0, a function, or None", lambda value: 0 < value < math.inf)

_center = Operation("hebbian.center", "X")


class HebbianPCA:
    r"""Principal components by a Hebbian rule, from samples that are seen once and need not fit in memory.

    Parameters
    ----------
    n_components : int
        The number of components.
    rule : {"sanger", "subspace", "oja", "ccipca"}, default "sanger"
        The rule. With ``"subspace"`` the components are an orthonormal basis of the space of the principal ones, with
        ``"oja"`` all come to the first one.
    learning_rate : float or callable, optional
        The step of the rule: a number, or a function that gives the steps of samples from their numbers (an array of
        integers, counted from 0 over all calls). None means :math:`\eta_t = 1 / (m_t (1 + t / \tau))`, with
        :math:`m_t` the largest squared length of the samples so far, so that no step overshoots, and :math:`\tau` 100
        times `n_components`. ``"ccipca"`` has none.
    center : bool, default True
        Whether the mean of all samples so far is subtracted from each.
    epochs : int, default 1
        How often `fit` goes through its samples.
    random_state : int, default 0
        Seed of the weights to begin with.

    Attributes
    ----------
    components_ : array of shape (n_components, d)
        The components, a row each.
    mean_ : array of shape (d,)
        The mean of all samples seen; zeros without `center`.
    n_features_in_ : int
        The number of features.
    n_samples_seen_ : int
        The number of samples seen, with repetitions.

    Notes
    -----
    Samples are seen one after the other, whatever the pieces in which they come: `partial_fit` on pieces, and `fit` on
    an array or a generator, lead to the same components, to rounding. All computes in the dtype of the first samples.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.hebbian import HebbianPCA
    >>> X = np.random.default_rng(0).standard_normal((5000, 3)) * np.array([1.0, 3.0, 0.3]) + 5
    >>> abs(HebbianPCA(2).fit(X).components_).round(1)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """

    components_: Array
    mean_: Array
    n_features_in_: int
    n_samples_seen_: int
    _largest: float

    def __init__(
        self,
        n_components: int,
        rule: str = "sanger",
        learning_rate: Rate | None = None,
        *,
        center: bool = True,
        epochs: int = 1,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.rule = rule
        self.learning_rate = learning_rate
        self.center = center
        self.epochs = epochs
        self.random_state = random_state

    def fit(self, X: Array | Iterable[Array], y: object = None, *, progress: bool | Progress = False) -> HebbianPCA:
        """Learn from samples, from the beginning.

        Parameters
        ----------
        X : array of shape (n, d), or iterable of such arrays
            Samples, one a row, or a generator of them in pieces. An array, also a `numpy.memmap` larger than memory,
            is taken in pieces of 2 million numbers.
        y : object
            Not used.
        progress : bool or callable, default False
            Whether to show how far the work is: with tqdm if it is installed, else by a line on standard error. A
            callable gets the number of samples seen and their total, 0 for a generator, after every piece.

        Returns
        -------
        HebbianPCA
            This estimator.

        Raises
        ------
        FloatingPointError
            If a weight becomes infinite or NaN, with the number of the sample in X, or among all of a generator.
        ValueError
            If a shape does not fit, or a parameter is outside its limits.
        TypeError
            If a dtype or the kind of a parameter does not fit.
        """
        where = "hebbian.HebbianPCA.fit"
        check_progress(where, progress)
        self._check(where)
        array = hasattr(X, "shape") or isinstance(X, (list, tuple))
        if not array and self.epochs != 1:
            raise ValueError(f"[{where}] expected epochs of 1 for a generator, got {self.epochs}")
        for name in ("components_", "mean_", "n_features_in_", "n_samples_seen_", "_largest"):
            self.__dict__.pop(name, None)
        extents = getattr(X, "shape", None) or (len(X) if isinstance(X, (list, tuple)) else 0,)
        n = int(extents[0])
        with Report("hebbian.HebbianPCA", progress, n * self.epochs) as report:
            for _ in range(self.epochs):
                for piece in self._pieces(where, X) if array else X:
                    before = getattr(self, "n_samples_seen_", 0)
                    try:
                        self.partial_fit(piece)
                    except FloatingPointError as error:
                        message, _, number = str(error).rpartition(" ")
                        place = before + int(number)
                        raise FloatingPointError(f"{message} {place % n if array else place}") from None
                    report.add(self.n_samples_seen_ - before)
        if not hasattr(self, "components_"):
            raise ValueError(f"[{where}] expected samples, got none")
        return self

    def partial_fit(self, X: Array, y: object = None) -> HebbianPCA:
        """Learn from further samples.

        Parameters
        ----------
        X : array of shape (n, d)
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
            If a weight becomes infinite or NaN, with the number of the sample; the estimator is as before.
        ValueError
            If a shape does not fit, or a parameter is outside its limits.
        TypeError
            If a dtype or the kind of a parameter does not fit.
        """
        where = "hebbian.HebbianPCA.partial_fit"
        self._check(where)
        samples = self._samples(where, X)
        n, d = samples.shape
        first = not hasattr(self, "components_")
        xp, place = _home(samples)
        if first:
            mean = xp.zeros(d, dtype=xp.float64, **place)
            weights = _cast(xp.asarray(_initial(self.n_components, d, self.random_state), **place), samples.dtype)
            seen, largest = 0, 0.0
        else:
            mean, weights = self.mean_, self.components_
            seen, largest = self.n_samples_seen_, self._largest
            samples = _cast(samples, weights.dtype)
        after = mean
        if self.center:
            after = xp.empty(d, dtype=xp.float64, **place)
            samples = _center.begin(samples).finish((n, d), None, mean, seen, after)
        weights, largest = self._step(where, weights, samples, seen, largest)
        self.components_, self.mean_, self._largest = weights, after, largest
        self.n_features_in_, self.n_samples_seen_ = d, seen + n
        return self

    def transform(self, X: Array) -> Array:
        r"""Give the coordinates of samples along the components.

        Parameters
        ----------
        X : array of shape (n, d)
            Samples, one a row.

        Returns
        -------
        array of shape (n, n_components)
            :math:`(x - m) \cdot w` for every component w, in the library of X.

        Raises
        ------
        ValueError
            If a shape does not fit, or nothing was learnt yet.
        TypeError
            If the dtype does not fit.
        """
        from fastdl.gram import linear

        where = "hebbian.HebbianPCA.transform"
        self._learnt(where)
        samples = self._samples(where, X)
        weights = _cast(self._directions(), samples.dtype)
        if not isinstance(samples, np.ndarray):
            parts = [linear(_cast(piece - self.mean_, samples.dtype), weights) for piece in _pieces(where, samples)]
            return _home(samples)[0].concat(parts) if parts else linear(samples, weights)
        if not self.mean_.any():
            return library_of(X).wrap(linear(samples, weights), X)
        # The mean is taken from the samples, not from products with them: those may be of another order of magnitude.
        result: HostArray = np.empty((len(samples), len(weights)), samples.dtype)
        start = 0
        for piece in _pieces(where, samples):
            result[start : start + len(piece)] = linear((piece - self.mean_).astype(samples.dtype), weights)
            start += len(piece)
        return library_of(X).wrap(result, X)

    def inverse_transform(self, Y: Array) -> Array:
        """Give the samples in the space of the components that have given coordinates.

        Parameters
        ----------
        Y : array of shape (n, n_components)
            Coordinates, as from `transform`.

        Returns
        -------
        array of shape (n, d)
            The nearest samples, if the components are orthonormal, in the library of Y.

        Raises
        ------
        ValueError
            If a shape does not fit, or nothing was learnt yet.
        """
        where = "hebbian.HebbianPCA.inverse_transform"
        self._learnt(where)
        library = library_of(Y)
        places = library.view(where, "Y", Y) if library.device(Y) == "cpu" else Y
        if places.ndim != 2 or places.shape[1] != self.n_components:
            raise ValueError(f"[{where}] expected Y of shape (n, {self.n_components}), got {tuple(places.shape)}")
        self._check_place(where, "Y", Y, places)
        result = places @ self._directions() + _cast(self.mean_, self.components_.dtype)
        return library.wrap(result, Y) if isinstance(result, np.ndarray) else result

    def fit_transform(self, X: Array, y: object = None) -> Array:
        """Learn from samples, and give their coordinates.

        Parameters
        ----------
        X : array of shape (n, d)
            Samples, one a row.
        y : object
            Not used.

        Returns
        -------
        array of shape (n, n_components)
            As from `transform`.
        """
        return self.fit(X).transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the parameters by name, as scikit-learn has it."""
        names = ("n_components", "rule", "learning_rate", "center", "epochs", "random_state")
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> HebbianPCA:
        """Set parameters by name, as scikit-learn has it."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"[hebbian.HebbianPCA.set_params] expected one of {', '.join(known)}, got {name}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return f"HebbianPCA(n_components={self.n_components}, rule={self.rule!r})"

    def _check(self, where: str) -> None:
        _COMPONENTS(where, "n_components", self.n_components, 0)
        choice(where, "rule", self.rule, RULES)
        flag(where, "center", self.center)
        _COMPONENTS(where, "epochs", self.epochs, 0)
        rate = self.learning_rate
        if rate is not None and not callable(rate):
            _RATE(where, "learning_rate", rate, 0)
        if rate is not None and self.rule == "ccipca":
            raise ValueError(f"[{where}] expected no learning_rate for rule 'ccipca', got one")

    def _pieces(self, where: str, X: Any) -> Iterator[Any]:
        """Cut an array into what is learnt from together; estimators of other arrays have their own way."""
        return _pieces(where, X)

    def _learnt(self, where: str) -> None:
        if not hasattr(self, "components_"):
            raise ValueError(f"[{where}] expected fit or partial_fit before, got neither")

    def _samples(self, where: str, X: Array) -> Array:
        """Give samples of float32 or float64, a NumPy array or where they are, with the features seen before."""
        call = _center.begin(X)
        samples = call.arrays[0]
        d = getattr(self, "n_features_in_", "d")
        if samples.ndim != 2 or (d != "d" and samples.shape[1] != d):
            raise ValueError(f"[{where}] expected X of shape (n, {d}), got {tuple(samples.shape)}")
        if d != "d":
            self._check_place(where, "X", X, samples)
        return samples

    def _check_place(self, where: str, name: str, given: Array, array: Array) -> None:
        """Refuse an array of another library than the samples before, or on the host if these were on a device."""
        if not library_of(self.mean_).owns(array, self.mean_):
            raise TypeError(f"[{where}] expected {name} where the samples before were, got {kind(given)}")

    def _directions(self) -> Array:
        """Give the components at length 1 where the rule makes them so: those of ccipca are eigenvalues long."""
        if self.rule != "ccipca":
            return self.components_
        if isinstance(self.components_, np.ndarray):
            lengths = np.linalg.norm(self.components_, axis=1, keepdims=True)
            return self.components_ / np.where(lengths == 0, 1, lengths).astype(self.components_.dtype)
        xp, _ = _home(self.components_)
        norms = xp.sqrt(xp.sum(self.components_ * self.components_, axis=1, keepdims=True))
        return self.components_ / xp.where(norms == 0, xp.ones_like(norms), norms)

    def _step(self, where: str, weights: Array, samples: Array, seen: int, largest: float) -> tuple[Array, float]:
        """Let the rule see samples; give the weights, and the largest squared length so far."""
        from fastdl import hebbian

        if self.rule == "ccipca":
            return hebbian.ccipca(weights, samples, count=seen), largest
        numbers = np.arange(seen, seen + len(samples))
        if self.learning_rate is None:
            lengths = _squared_lengths(samples)
            so_far = np.maximum(np.maximum.accumulate(lengths), largest)
            largest = float(so_far[-1]) if len(so_far) else largest
            rates: Any = 1 / (np.where(so_far > 0, so_far, 1) * (1 + numbers / (PATIENCE * self.n_components)))
        elif callable(self.learning_rate):
            rates = np.asarray(self.learning_rate(numbers), np.float64)
            if rates.shape != numbers.shape:
                raise ValueError(f"[{where}] expected learning_rate to give {numbers.shape} steps, got {rates.shape}")
        else:
            rates = float(self.learning_rate)
        return getattr(hebbian, self.rule)(weights, samples, rates), largest


def _home(array: Array) -> tuple[Any, dict[str, Any]]:
    """Give the namespace of an array, and where to make others beside it."""
    if isinstance(array, np.ndarray):
        return np, {}
    library = library_of(array)
    return library.namespace(array), {"device": library.exact_device(array)}


def _cast(array: Array, dtype: Any) -> Array:
    """Give an array of another dtype, or the same one."""
    if isinstance(array, np.ndarray):
        return array.astype(dtype, copy=False)
    return _home(array)[0].astype(array, dtype, copy=False)


def _squared_lengths(samples: Array) -> HostArray:
    """Give the squared length of every sample, in main memory and in float64."""
    if isinstance(samples, np.ndarray):
        lengths: HostArray = np.einsum("ij,ij->i", samples, samples, dtype=np.float64)
        return lengths
    xp, _ = _home(samples)
    wide = xp.astype(samples, xp.float64)
    return on_host(xp.sum(wide * wide, axis=1))


def _initial(k: int, d: int, seed: Any) -> HostArray:
    """Give random rows of length 1."""
    weights = np.random.default_rng(seed).standard_normal((k, d))
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    rows: HostArray = weights / np.where(lengths == 0, 1, lengths)
    return rows


def _pieces(where: str, X: Any) -> Iterator[Any]:
    """Cut an array into pieces of some megabytes, of rows."""
    if (library := library_of(X)) is not NUMPY and library.device(X) == "cpu":
        X = library.view(where, "X", X)
    elif not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"[{where}] expected X of shape (n, d), got {tuple(X.shape)}")
    rows = max(1, CHUNK_BYTES // (8 * max(1, X.shape[1])))
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows]
