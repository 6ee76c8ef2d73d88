r"""Logistic regression in the space of a kernel, by Newton's method on products with the kernel.

The function is :math:`f = K a + 1 b^T`, with a column for each function (one for two classes, else one for each class),
and

.. math:: J = \sum_i w_i\, \ell(y_i, f_i) + \frac{\lambda}{2} \mathrm{tr}(a^T K a)

is smallest where :math:`\lambda a = w (y - p)` and, with an intercept, :math:`1^T a = 0`. The Hessian of the loss is
:math:`W = R R^T`, for every sample a matrix between its functions, and the step (δ, ε) of Newton's method solves
:math:`(\lambda + W K)\, \delta + W 1 \varepsilon = g` with :math:`g = w (y - p) - \lambda a`. With
:math:`\delta = (g - R u) / \lambda` this is the symmetric system

.. math:: (\lambda + R^T K R)\, u - \lambda G \varepsilon = R^T K g, \qquad G^T u = 1^T w (y - p), \qquad G = R^T 1

whose eigenvalues are at least λ however sure the classes are. The side condition says that the sum of a + δ is 0. It is
kept by every step of conjugate gradients: they run on vectors orthogonal to G.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fastdl.sklearn._nystrom import pieces
from fastdl.sklearn._solver import conjugate_gradients

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import HostArray
    from fastdl.sklearn._kernel import Operator


# Steps of conjugate gradients within one of Newton's: with fewer it would be a worse step, but still one.
STEPS = 200

# Newton's steps that do not halve the least gradient, before products in float64 take the place of those in float32;
# four times as many before it is the end.
PATIENCE = 8


class Binary:
    """The logistic loss of one function, for targets 0 and 1 of shape (n, 1)."""

    def __init__(self, targets: HostArray, weights: HostArray) -> None:
        self.targets, self.weights = targets, weights[:, None]
        self.roots: HostArray = np.zeros_like(targets)

    def loss(self, f: HostArray) -> float:
        """Give the sum of the losses."""
        return float(np.sum(self.weights * (np.logaddexp(0, f) - self.targets * f)))

    def look(self, f: HostArray) -> HostArray:
        """Give w (y - p), and take the Hessian at f."""
        both = probabilities_of(f)
        self.roots = np.sqrt(self.weights * both[:, :1] * both[:, 1:])
        return np.asarray(self.weights * (self.targets - both[:, 1:]))

    def spread(self, u: HostArray) -> HostArray:
        """Give R u."""
        return self.roots * u

    gather = spread

    def hessian(self, c: int, e: int) -> HostArray:
        """Give the elements of W between two functions, for all samples."""
        return np.asarray(self.roots[:, 0] ** 2)


class Multinomial:
    r"""The logistic loss of several functions, for targets that are rows of the identity.

    The Hessian of a sample is :math:`D^{1/2} Q D^{1/2}` with :math:`D = \mathrm{diag}(p)` and the projection
    :math:`Q = I - \sqrt p \sqrt p^T`, so that :math:`R = D^{1/2} Q`.
    """

    def __init__(self, targets: HostArray, weights: HostArray) -> None:
        self.targets, self.weights = targets, weights[:, None]
        self.roots: HostArray = np.zeros_like(targets)

    def loss(self, f: HostArray) -> float:
        """Give the sum of the losses."""
        most = f.max(axis=1, keepdims=True)
        sums = most + np.log(np.exp(f - most).sum(axis=1, keepdims=True))
        return float(np.sum(self.weights * (sums - np.sum(self.targets * f, axis=1, keepdims=True))))

    def look(self, f: HostArray) -> HostArray:
        """Give w (y - p), and take the Hessian at f."""
        probabilities = probabilities_of(f)
        self.roots = np.sqrt(probabilities)
        return np.asarray(self.weights * (self.targets - probabilities))

    def _project(self, u: HostArray) -> HostArray:
        return np.asarray(u - self.roots * np.sum(self.roots * u, axis=1, keepdims=True))

    def spread(self, u: HostArray) -> HostArray:
        """Give R u."""
        return np.asarray(np.sqrt(self.weights) * self.roots * self._project(u))

    def gather(self, v: HostArray) -> HostArray:
        """Give the transpose of R times v."""
        return self._project(np.sqrt(self.weights) * self.roots * v)

    def hessian(self, c: int, e: int) -> HostArray:
        """Give the elements of W between two functions, for all samples."""
        squares = self.roots[:, c] ** 2
        return np.asarray(self.weights[:, 0] * squares * ((c == e) - self.roots[:, e] ** 2))


def probabilities_of(f: HostArray) -> HostArray:
    """Give the probabilities of the classes, a column each: of two from one function, else from one for each."""
    if f.shape[1] == 1:
        small = np.exp(-np.abs(f))
        right, left = 1 / (1 + small), small / (1 + small)
        return np.concatenate([np.where(f > 0, left, right), np.where(f > 0, right, left)], axis=1)
    parts = np.exp(f - f.max(axis=1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


class Fitted(NamedTuple):
    """What `fit` found."""

    weights: HostArray
    intercept: HostArray
    gradient: float
    iterations: int
    products: int
    converged: bool


def fit(
    operator: Operator,
    factor: HostArray,
    loss: Binary | Multinomial,
    ridge: float,
    *,
    intercept: bool,
    tol: float,
    max_iter: int,
    told: Callable[[float], object],
) -> Fitted:
    """Minimise the regularised loss.

    Parameters
    ----------
    operator : Operator
        K.
    factor : array of shape (k, n)
        Its Nyström factor, for the preconditioner.
    loss : Binary or Multinomial
        The loss of the samples.
    ridge : float
        λ.
    intercept : bool
        Whether there is an intercept.
    tol : float
        The largest element of the gradient g at which to stop.
    max_iter : int
        The largest number of Newton's steps.
    told : callable
        Gets the ratio of the gradient to the tolerance, after every step.

    Returns
    -------
    Fitted
        The weights a (n, functions), the intercepts b, the largest element of g, the number of steps and of products
        with K, and whether the tolerance was reached.
    """
    n, functions = loss.targets.shape
    a, b = np.zeros((n, functions)), np.zeros(functions)
    Ka = np.zeros((n, functions))
    products = iteration = since = 0
    least, first = np.inf, np.inf
    exact, lost, product = True, False, operator.product
    inexact = operator.K is None and operator.dtype != np.float64
    while True:
        pull = loss.look(Ka + b)
        g = pull - ridge * a
        gradient = float(np.abs(g).max())
        if gradient <= tol and not exact:
            # Ka is a sum of products that may be in float32: the last word has one in float64.
            Ka, exact = operator.exact_product(a), True
            products += 1
            continue
        told(gradient / tol)
        if gradient <= tol or iteration == max_iter:
            break
        since = 0 if gradient <= 0.5 * least else since + 1
        least, first = min(gradient, least), min(first, gradient) if iteration == 0 else first
        if lost or since > (PATIENCE if inexact else 4 * PATIENCE):
            if not inexact:
                break
            product, inexact, lost, since, least = operator.exact_product, False, False, 0, np.inf
            if gradient > first:  # worse than nothing
                a[:], b[:] = 0, 0
            Ka, exact = product(a), True
            products += 1
            continue
        step, shift, image, used = _step(product, factor, loss, ridge, g, pull.sum(axis=0), intercept)
        products += used
        change = image + shift
        linear, quadratic = ridge * float(np.sum(a * image)), ridge * float(np.sum(step * image))
        length = _length(loss, Ka + b, change, linear, quadratic, linear - float(np.sum(pull * change)))
        lost = length == 0
        if lost:
            continue
        a += length * step
        b += length * shift
        Ka += length * image
        iteration, exact = iteration + 1, False
    return Fitted(a, b, gradient, iteration, products, gradient <= tol)


def _length(
    loss: Binary | Multinomial, f: HostArray, change: HostArray, linear: float, quadratic: float, slope: float
) -> float:
    """Give the share of a step that makes the loss smaller, 0 if none does: it needs no further products.

    `linear` and `quadratic` are what the ridge adds along the step, `slope` the derivative of the whole.
    """
    now = loss.loss(f)
    length = 1.0
    for _ in range(40):
        ahead = loss.loss(f + length * change) + length * (linear + 0.5 * length * quadratic)
        # The last digits of a sum over samples are rounding, and may not rule out a step at the end.
        if ahead <= now + 1e-4 * length * slope + 1e-13 * abs(now):
            return length
        length /= 2
    return 0.0


def _step(
    product: Callable[[HostArray], HostArray],
    factor: HostArray,
    loss: Binary | Multinomial,
    ridge: float,
    g: HostArray,
    total: HostArray,
    intercept: bool,
) -> tuple[HostArray, HostArray, HostArray, int]:
    """Give Newton's step for the weights, for the intercept, its product with K, and the number of products.

    `total` is the sum of w (y - p) over the samples.
    """
    shape, functions = g.shape, g.shape[1]
    preconditioner = _Preconditioner(factor, loss, ridge)
    intercepts = _intercepts(functions, intercept)
    G = np.empty((g.size, len(intercepts)))
    for number, row in enumerate(intercepts):
        G[:, number] = loss.gather(np.tile(row, (len(g), 1))).ravel()
    # Vectors orthogonal to G, and the part of the preconditioner between them.
    inverse = np.linalg.pinv(G)
    inverted = np.empty_like(G)
    for number, column in enumerate(G.T):
        inverted[:, number] = preconditioner.solve(column.reshape(shape)).ravel()
    inner = np.linalg.pinv(G.T @ inverted, hermitian=True)

    def full(u: HostArray) -> HostArray:
        return loss.gather(product(loss.spread(u))) + ridge * u

    def clear(column: HostArray) -> HostArray:
        return np.asarray(column - G @ (inverse @ column))

    def apply(column: HostArray, _: Any) -> HostArray:
        return clear(full(column.reshape(shape)).reshape(-1, 1))

    def precondition(column: HostArray, _: Any) -> HostArray:
        z = preconditioner.solve(column.reshape(shape)).reshape(-1, 1)
        return np.asarray(z - inverted @ (inner @ (G.T @ z)))

    Kg = product(g)
    rhs = loss.gather(Kg)
    start = (inverse.T @ (intercepts @ total)).reshape(shape)
    moved = start.any()
    first = rhs - full(start) if moved else rhs
    # What is left of this system is left of g, times the size of R over λ: the step is to win most of its digits.
    size = max(float(max(loss.hessian(c, c).max() for c in range(functions))) ** 0.5, 1e-300)
    norm = float(np.linalg.norm(g))
    wanted = min(0.1, norm / np.sqrt(g.size)) * ridge * norm / size
    found = conjugate_gradients(
        apply, precondition, clear(first.reshape(-1, 1)), np.array([wanted]), STEPS, verify=False
    )
    u = start + found.x.reshape(shape)
    step = (g - loss.spread(u)) / ridge
    image = product(step)
    # λ G ε = (λ + RᵀKR) u - RᵀKg, with K R u = K g - λ K δ.
    shift = (inverse @ (u - loss.gather(image)).ravel()) @ intercepts
    return step, shift, image, found.iterations + (3 if moved else 2)


class _Preconditioner:
    r"""The inverse of :math:`\lambda + R^T F^T F R` for the factor F of K, by Woodbury's formula.

    Its inner matrix couples all functions, as the Hessian does. (Function by function, 400 samples of four classes at
    C = 1e4 took 3500 products, with whatever rank; so they take 200 with rank 180.)
    """

    def __init__(self, factor: HostArray, loss: Binary | Multinomial, ridge: float) -> None:
        self.factor, self.loss, self.ridge = factor, loss, ridge
        k, n = factor.shape
        functions = loss.targets.shape[1]
        inner = np.zeros((functions, k, functions, k))
        for columns in pieces(n, k):
            part = factor[:, columns].astype(np.float64, copy=False)
            for c in range(functions):
                for e in range(c + 1):
                    inner[c, :, e] += (part * loss.hessian(c, e)[columns]) @ part.T
        size = functions * k
        matrix = inner.reshape(size, size)
        matrix[np.arange(size), np.arange(size)] += ridge
        self.cholesky = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False) if size else None

    def solve(self, u: HostArray) -> HostArray:
        """Apply the inverse."""
        if self.cholesky is None:
            return u / self.ridge
        k, n = self.factor.shape
        spread = self.loss.spread(u)
        inner = np.zeros((k, u.shape[1]))
        for columns in pieces(n, k):
            inner += self.factor[:, columns].astype(np.float64, copy=False) @ spread[columns]
        inner = cho_solve(self.cholesky, inner.T.ravel(), check_finite=False).reshape(u.shape[1], k).T
        for columns in pieces(n, k):
            spread[columns] = self.factor[:, columns].astype(np.float64, copy=False).T @ inner
        return np.asarray((u - self.loss.gather(spread)) / self.ridge)


def _intercepts(functions: int, wanted: bool) -> HostArray:
    """Give directions for the intercepts, a row each: of several functions not their sum, which changes nothing."""
    if not wanted:
        return np.zeros((0, functions))
    if functions == 1:
        return np.ones((1, 1))
    return np.linalg.qr(np.eye(functions) - 1 / functions)[0].T[:-1]
