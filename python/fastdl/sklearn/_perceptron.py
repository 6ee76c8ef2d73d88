"""The perceptron in the space of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fastdl._hebbian_checks import flag
from fastdl._progress import Report, check_progress
from fastdl.sklearn._kernel import FLOATS, checked, kernel_of
from fastdl.sklearn._solver import warn
from fastdl.sklearn._system import COUNT, generator

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl._progress import Progress
    from fastdl.sklearn._kernel import Kernel

# Samples whose scores are brought up to date together, by one product with all samples that have a weight; within, one
# small Gram matrix does it. Fewer make the products thin, more make that matrix large.
TOGETHER = 256


class KernelPerceptron(ClassifierMixin, BaseEstimator):
    r"""The dual perceptron: it learns from its mistakes, and from nothing else.

    Parameters
    ----------
    kernel : str, callable or InvariantKernel, default "rbf"
        The name of a kernel of `fastdl.gram`, or its function there.
    gamma, degree, coef0 : float, optional
        Parameters of the kernel, for kernels that have them. ``gamma=None`` is the default of the kernel.
    kernel_params : dict, optional
        Further parameters of the kernel, by name.
    max_iter : int, default 100
        The largest number of passes over the samples. They end after the first one without a mistake.
    average : bool, default False
        Whether to take the mean of the function over all steps in place of the last one, which is better where the
        classes cannot be separated.
    shuffle : bool, default False
        Whether samples are seen in a random order, another one in every pass. Else they are seen as they come.
    random_state : int, numpy.random.RandomState or None, default 0
        Chooses the orders.
    progress : bool or callable, default False
        Whether to show how far the work is: with tqdm if it is installed, else by a line on standard error. A callable
        gets the number of samples seen and that of `max_iter` passes.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    dual_coef_ : array of shape (n_support, 1) or (n_support, n_classes)
        The weights of the samples that were mistaken for another class, for each function that was learnt: one for two
        classes, else one for each against all others.
    support_ : array of shape (n_support,)
        The numbers of those samples.
    support_vectors_ : array of shape (n_support, n_features)
        Those samples.
    mistakes_ : array of shape (1,) or (n_classes,)
        The number of mistakes of each function, which is that of its steps.
    converged_ : array of shape (1,) or (n_classes,)
        Which of the functions made none in the last pass, and so separate their classes.
    margin_ : array of shape (1,) or (n_classes,)
        The smallest distance of a sample from the border, in the space of the kernel, of functions that separate their
        classes; 0 of others.
    radius_ : float
        The largest length of a sample in that space.
    mistake_bound_ : array of shape (1,) or (n_classes,)
        :math:`(R / \gamma)^2` for this radius and margin; infinite for functions that do not separate their classes.
    n_iter_ : int
        The number of passes.
    n_features_in_ : int
        The number of features.

    Notes
    -----
    .. math:: f(x) = \sum_j c_j k(x, x_j), \qquad c_i \leftarrow c_i + y_i \text{ where } y_i f(x_i) \le 0

    Novikoff: if some function of norm 1 has :math:`y_i f(x_i) \ge \gamma` for all samples and no sample is longer than
    R, the perceptron makes at most :math:`(R / \gamma)^2` mistakes, over all passes and in any order. `mistake_bound_`
    is that with the margin it reached itself, so no smaller than the bound of the largest margin.

    There is no intercept: none is needed with rbf, and ``coef0`` gives polynomials one.

    The scores of blocks of samples are brought up to date by products with the samples that have a weight, so a pass
    takes the work of n times their number and forms no matrix; what is learnt is the same as one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.sklearn import KernelPerceptron
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> model = KernelPerceptron(kernel="polynomial", degree=2, gamma=1).fit(X, [0, 1, 1, 0])
    >>> model.predict(X)
    array([0, 1, 1, 0])
    >>> bool(model.mistakes_[0] <= model.mistake_bound_[0])
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        max_iter: int = 100,
        average: bool = False,
        shuffle: bool = False,
        random_state: Any = 0,
        progress: bool | Progress = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.max_iter = max_iter
        self.average = average
        self.shuffle = shuffle
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any) -> KernelPerceptron:
        """Learn from samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.
        y : array of shape (n_samples,)
            Their classes.

        Returns
        -------
        KernelPerceptron
            This estimator.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If there were mistakes in the last pass.
        """
        where = "sklearn.KernelPerceptron"
        X, y = validate_data(self, X, y, dtype=FLOATS, order="C")
        check_progress(where, self.progress)
        max_iter = COUNT(where, "max_iter", self.max_iter, 0)
        averaged, shuffled = flag(where, "average", self.average), flag(where, "shuffle", self.shuffle)
        self.classes_, signs = signs_of(y)
        self._kernel = kernel_of(self)
        squares = checked(where, "the diagonal of K", self._kernel.diag(X).astype(np.float64))
        self.radius_ = float(np.sqrt(max(squares.max(), 0)))
        order = np.arange(len(X))
        random = generator(self.random_state)
        state = _State(self._kernel, X, signs)
        with Report(where, self.progress, max_iter * len(X)) as report:
            for _ in range(max_iter):
                if shuffled:
                    order = random.permutation(len(X))
                if not state.go_through(order, report):
                    break
        self.n_iter_ = state.passes
        self.mistakes_ = state.mistakes
        self.converged_ = state.converged
        self.margin_ = state.margins()
        with np.errstate(divide="ignore", invalid="ignore"):
            self.mistake_bound_ = np.where(self.margin_ > 0, (self.radius_ / self.margin_) ** 2, np.inf)
        weights = state.mean_weights() if averaged else state.weights
        self.support_ = np.flatnonzero(weights.any(axis=1))
        self.support_vectors_ = X[self.support_]
        self.dual_coef_ = weights[self.support_].astype(X.dtype)
        if not self.converged_.all():
            mistaken = int((~self.converged_).sum())
            reached = f"{mistaken} of {len(self.converged_)} functions made mistakes in pass {self.n_iter_}"
            warn(
                where, reached, "raise max_iter, take another kernel, or average=True if no function separates them", 3
            )
        return self

    def decision_function(self, X: Any) -> HostArray:
        """Give the values of the learnt functions.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes, above 0 for the second.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        scores = self._kernel.matvec(X, self.dual_coef_, self.support_vectors_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> HostArray:
        """Give the classes of samples.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples, one a row.

        Returns
        -------
        array of shape (n_samples,)
        """
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])


def signs_of(y: HostArray) -> tuple[HostArray, HostArray]:
    """Give the classes, and for each function to learn the sign that every sample should have."""
    check_classification_targets(y)
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"Classifier can't train when only one class is present: {classes[0]!r}")
    if len(classes) == 2:
        return classes, np.where(numbers == 1, 1.0, -1.0)[:, None]
    return classes, np.where(numbers[:, None] == np.arange(len(classes)), 1.0, -1.0)


class _State:
    """The weights of the samples while they are learnt."""

    def __init__(self, kernel: Kernel, X: HostArray, signs: HostArray) -> None:
        self.kernel, self.X, self.signs = kernel, X, signs
        self.weights = np.zeros(signs.shape)
        # Every step times the number of samples seen before it: what the mean over all steps lacks.
        self.late = np.zeros(signs.shape)
        self.mistakes = np.zeros(signs.shape[1], np.int64)
        self.converged = np.zeros(signs.shape[1], bool)
        self.smallest = np.zeros(signs.shape[1])
        self.passes = self.seen = 0

    def go_through(self, order: HostArray, report: Report) -> bool:
        """See all samples once; tell whether there were mistakes."""
        before = self.mistakes.copy()
        self.smallest = np.full(len(before), np.inf)
        for start in range(0, len(order), TOGETHER):
            self._see(order[start : start + TOGETHER])
            report.add(min(TOGETHER, len(order) - start))
        self.passes += 1
        self.converged = self.mistakes == before
        return not self.converged.all()

    def _see(self, numbers: HostArray) -> None:
        samples, signs = self.X[numbers], self.signs[numbers]
        scores = checked("sklearn.KernelPerceptron", "K", self._scores(samples))
        products: HostArray | None = None
        place = 0
        while True:
            wrong = signs[place:] * scores[place:] <= 0
            rows = wrong.any(axis=1)
            if not rows.any():
                break
            first = place + int(rows.argmax())
            step = np.where(wrong[first - place], signs[first], 0.0)
            if products is None:
                products = checked("sklearn.KernelPerceptron", "K", self.kernel.gram(samples).astype(np.float64))
            scores += products[:, first, None] * step
            self.weights[numbers[first]] += step
            self.late[numbers[first]] += (self.seen + first) * step
            self.mistakes += step != 0
            place = first + 1
            if place == len(numbers):
                break
        self.seen += len(numbers)
        # Of a function without mistakes in this pass these are its scores for all samples.
        self.smallest = np.minimum(self.smallest, (signs * scores).min(axis=0))

    def _scores(self, samples: HostArray) -> HostArray:
        support = np.flatnonzero(self.weights.any(axis=1))
        if not support.size:
            return np.zeros((len(samples), self.signs.shape[1]))
        weights = self.weights[support].astype(self.X.dtype)
        return self.kernel.matvec(samples, weights, self.X[support]).astype(np.float64)

    def margins(self) -> HostArray:
        """Give the smallest distances from the borders, of functions that separate their classes; 0 of others."""
        support = np.flatnonzero(self.weights.any(axis=1))
        squares = np.einsum("ij,ij->j", self.weights[support], self._scores(self.X[support]))
        margins: HostArray = np.where(self.converged & (squares > 0), self.smallest, 0)
        return margins / np.sqrt(np.where(squares > 0, squares, 1))

    def mean_weights(self) -> HostArray:
        """Give the mean of the weights over all steps."""
        return self.weights - self.late / max(1, self.seen)
