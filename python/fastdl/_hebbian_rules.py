"""Further rules of learning: thresholds that slide, units that compete or inhibit each other, candid components."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastdl._dispatch import Operation
from fastdl._hebbian_checks import learning_rates, of_shape, update, weights_and_samples
from fastdl._kernels import integer, real

if TYPE_CHECKING:
    from fastdl._arrays import Array

_ABOVE_0 = real("a number above 0", lambda value: 0 < value < math.inf)
_AT_LEAST_0 = real("a number of at least 0", lambda value: 0 <= value < math.inf)
_AT_LEAST_1 = real("a number of at least 1", lambda value: 1 <= value < math.inf)
_FINITE = real("a finite number")
_SHARE = real("a number between 0 and 1", lambda value: 0 < value < 1)
_RANK = integer("a whole number of at least 2", lambda value: 2 <= value < 1 << 62)
_COUNT = integer("a whole number of at least 0", lambda value: 0 <= value < 1 << 62)
_STEPS = integer("a whole number of at least 1", lambda value: 1 <= value < 1 << 31)


class Thresholded(NamedTuple):
    """Weights and sliding thresholds of `bcm`."""

    W: Any
    theta: Any


class Inhibited(NamedTuple):
    """Weights, weights between units, and thresholds of `foldiak`."""

    W: Any
    lateral: Any
    threshold: Any


_bcm = Operation("hebbian.bcm", "W", "X", "theta")


def bcm(W: Array, X: Array, lr: Any, *, theta: Array | None = None, tau: float = 100.0) -> Thresholded:
    r"""Rule of Bienenstock, Cooper and Munro: Hebb's with a threshold that slides with the activity of the unit.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row; each learns by itself.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen.
    lr : float or array of shape (n,)
        The step, as in `hebb`.
    theta : array of shape (k,), optional
        The thresholds to begin with. None means 0.
    tau : float, default 100
        How many samples a threshold remembers, above 0.

    Returns
    -------
    Thresholded
        A named tuple (W, theta): the weights and thresholds after all samples.

    Raises
    ------
    FloatingPointError
        If a weight or threshold becomes infinite or NaN; the message names the sample.
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math:: w \leftarrow w + \eta\, y (y - \theta) x, \qquad \theta \leftarrow \theta + (y^2 - \theta) / \tau

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> hebbian.bcm(np.array([[1.0, 0.0]]), np.array([[2.0, 1.0]]), 0.5, tau=2.0)
    Thresholded(W=array([[5., 2.]]), theta=array([2.]))
    """
    call = _bcm.begin(W, X, _zeros_like_rows(W) if theta is None else theta)
    k, d, n = weights_and_samples(call)
    of_shape(call, 2, (k,))
    steps = learning_rates(call, lr, n)
    weights, thresholds, _ = call.finish_several(((k, d), (k,)), steps, _ABOVE_0(call.operation.name, "tau", tau, 0))
    return Thresholded(weights, thresholds)


def _zeros_like_rows(W: Array) -> Any:
    """Give a 0 for every row of W, of a dtype that changes nothing, in main memory or where W is."""
    shape = np.shape(W) if isinstance(W, (list, tuple)) else tuple(getattr(W, "shape", ()))
    rows = shape[:1] or (0,)
    if hasattr(W, "new_zeros"):  # of torch
        return W.new_zeros(rows)
    if type(W) is np.ndarray or not hasattr(W, "__array_namespace__"):
        dtype = str(getattr(W, "dtype", "")).rpartition(".")[2]
        return np.zeros(rows, np.float32 if dtype == "float32" else np.float64)
    from array_api_compat import array_namespace, device

    return array_namespace(W).zeros(rows, dtype=W.dtype, device=device(W))


_krotov = Operation("hebbian.krotov", "W", "X")


def krotov(
    W: Array,
    X: Array,
    lr: Any,
    *,
    p: float = 2.0,
    delta: float = 0.4,
    rank: int = 2,
    out: Array | None = None,
) -> Array:
    r"""Competition of Krotov and Hopfield: the unit most active learns, one of the next unlearns.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen.
    lr : float or array of shape (n,)
        The step, as in `hebb`.
    p : float, default 2
        The norm that weights come to have length 1 in, at least 1.
    delta : float, default 0.4
        Strength of unlearning, at least 0.
    rank : int, default 2
        Which unit unlearns, in the order of activity: 2 is the second. None does if there are fewer units.
    out : array of shape (k, d), optional
        Where to put the result, as in `hebb`.

    Returns
    -------
    array of shape (k, d)
        The weights after all samples, as from `hebb`.

    Raises
    ------
    FloatingPointError
        If a weight becomes infinite or NaN; the message names the sample, and nothing is written.
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        I_i = \sum_j \operatorname{sign}(W_{ij}) |W_{ij}|^{p-1} x_j, \qquad
        w_i \leftarrow w_i + \eta\, g_i (x - I_i w_i)

    with :math:`g_i` 1 for the unit of the largest I, :math:`-\Delta` for that of number `rank`, and 0 for all others.
    Of equal ones the first counts as larger.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> hebbian.krotov(np.eye(2), np.array([[2.0, 1.0]]), 0.5, delta=0.0)
    array([[1. , 0.5],
           [0. , 1. ]])
    """
    where = "hebbian.krotov"
    call = _krotov.begin(W, X)
    k, d, n = weights_and_samples(call)
    steps = learning_rates(call, lr, n)
    parameters = (_AT_LEAST_1(where, "p", p, 0), _AT_LEAST_0(where, "delta", delta, 0), _RANK(where, "rank", rank, 0))
    return update(call, W, (k, d), out, steps, *parameters)


_soft_hebb = Operation("hebbian.soft_hebb", "W", "X")


def soft_hebb(W: Array, X: Array, lr: Any, *, temperature: float = 1.0, out: Array | None = None) -> Array:
    r"""SoftHebb: all units learn, by their share in a soft competition.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen.
    lr : float or array of shape (n,)
        The step, as in `hebb`.
    temperature : float, default 1
        How soft the competition is, above 0: the closer to 0, the more the winner takes all.
    out : array of shape (k, d), optional
        Where to put the result, as in `hebb`.

    Returns
    -------
    array of shape (k, d)
        The weights after all samples, as from `hebb`.

    Raises
    ------
    FloatingPointError
        If a weight becomes infinite or NaN; the message names the sample, and nothing is written.
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        u = W x, \quad y = \operatorname{softmax}(u / T), \qquad w_i \leftarrow w_i + \eta\, y_i (x - u_i w_i)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> hebbian.soft_hebb(np.eye(2), np.array([[1.0, 1.0]]), 0.5)
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """
    where = "hebbian.soft_hebb"
    call = _soft_hebb.begin(W, X)
    k, d, n = weights_and_samples(call)
    steps = learning_rates(call, lr, n)
    return update(call, W, (k, d), out, steps, _ABOVE_0(where, "temperature", temperature, 0))


_foldiak = Operation("hebbian.foldiak", "W", "X", "lateral", "threshold")


def foldiak(
    W: Array,
    X: Array,
    lateral: Array,
    threshold: Array,
    lr: Any = 0.02,
    *,
    lateral_lr: float = 0.1,
    threshold_lr: float = 0.02,
    activity: float = 0.125,
    steepness: float = 10.0,
    steps: int = 100,
) -> Inhibited:
    r"""Földiák's rule: units that learn by Hebb's rule, and not to be active together by its opposite.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen.
    lateral : array of shape (k, k)
        Weights between units, at most 0, with a zero diagonal.
    threshold : array of shape (k,)
        Thresholds of the units.
    lr : float or array of shape (n,), default 0.02
        The step of W.
    lateral_lr, threshold_lr : float, default 0.1 and 0.02
        The steps of the other two, at least 0.
    activity : float, default 0.125
        The share p of the samples for which a unit is to be active.
    steepness : float, default 10
        Of the function that activity settles with.
    steps : int, default 100
        How many steps it is given to settle.

    Returns
    -------
    Inhibited
        A named tuple (W, lateral, threshold): all weights and thresholds after all samples.

    Raises
    ------
    FloatingPointError
        If a weight becomes infinite or NaN; the message names the sample.
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    Activity settles by :math:`u \leftarrow u + (f(W x + V u - \theta) - u) / 10` with
    :math:`f(a) = 1 / (1 + e^{-\lambda a})`, from 0, and becomes :math:`y = [u > \tfrac12]`. Then

    .. math::

        W \leftarrow W + \eta\, y (x - W), \quad V \leftarrow \min(0, V - \alpha (y y^T - p^2)), \quad
        \theta \leftarrow \theta + \gamma (y - p)

    with zeros on the diagonal of V.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> learnt = hebbian.foldiak(np.eye(2), np.array([[1.0, 0.0]]), np.zeros((2, 2)), np.full(2, 0.5), 0.1)
    >>> learnt.threshold
    array([0.5175, 0.4975])
    """
    where = "hebbian.foldiak"
    call = _foldiak.begin(W, X, lateral, threshold)
    k, d, n = weights_and_samples(call)
    of_shape(call, 2, (k, k))
    of_shape(call, 3, (k,))
    parameters = (
        learning_rates(call, lr, n),
        _AT_LEAST_0(where, "lateral_lr", lateral_lr, 0),
        _AT_LEAST_0(where, "threshold_lr", threshold_lr, 0),
        _SHARE(where, "activity", activity, 0),
        _FINITE(where, "steepness", steepness, 0),
        _STEPS(where, "steps", steps, 0),
    )
    return Inhibited(*call.finish_several(((k, d), (k, k), (k,)), *parameters)[:3])


_ccipca = Operation("hebbian.ccipca", "V", "X")


def ccipca(V: Array, X: Array, *, count: int = 0, amnesic: float = 2.0, out: Array | None = None) -> Array:
    r"""Candid covariance-free incremental principal components, without a learning rate.

    Parameters
    ----------
    V : array of shape (k, d)
        What earlier samples led to; not read if there were none. Rows come to be the principal components, as long as
        the eigenvalues are large.
    X : array of shape (n, d)
        Samples with mean 0, one a row, in the order in which they are seen.
    count : int, default 0
        The number of earlier samples.
    amnesic : float, default 2
        How much more than its share the newest sample counts, at least 0: early estimates are forgotten.
    out : array of shape (k, d), optional
        Where to put the result, as in `hebb`.

    Returns
    -------
    array of shape (k, d)
        V after all samples. Rows that there were not enough samples for are as they were.

    Raises
    ------
    FloatingPointError
        If a number becomes infinite or NaN; the message names the sample, and nothing is written.
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    For sample number n, counted from 1 on, beginning with u = x, a row after the other:

    .. math::

        v \leftarrow \Bigl(1 - \frac{1 + l}{n}\Bigr) v + \frac{1 + l}{n} \frac{u \cdot v}{\|v\|} u, \qquad
        u \leftarrow u - \frac{u \cdot v}{\|v\|^2} v

    where l is `amnesic` if n > 1 + amnesic, else 0. Row n becomes u itself, as the first thing that it sees.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> X = np.random.default_rng(0).standard_normal((5000, 3)) * np.array([1.0, 3.0, 0.3])
    >>> abs(hebbian.ccipca(np.zeros((2, 3)), X)).round(0)
    array([[0., 9., 0.],
           [1., 0., 0.]])
    """
    where = "hebbian.ccipca"
    call = _ccipca.begin(V, X)
    k, d, _ = weights_and_samples(call)
    parameters = (_COUNT(where, "count", count, 0), _AT_LEAST_0(where, "amnesic", amnesic, 0))
    return update(call, V, (k, d), out, *parameters)
