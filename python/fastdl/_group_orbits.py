"""What does not change along orbits: signatures, averages, Gramians, and layers for sets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import dtype_name, kind
from fastdl._conv_checks import choice, whole
from fastdl._dispatch import Operation
from fastdl._group_table import permutations_of
from fastdl._kernels import real

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import Array, HostArray

_signature = Operation("group.signature", "x", "templates")
_average = Operation("group.average", "x")
_gramian = Operation("group.orbit_gramian", "t")
_regularizer = Operation("group.orbit_regularizer", "W")
_layer = Operation("group.permutation_layer", "x", "lam?", "gam?")
_set_pool = Operation("group.set_pool", "x")

NONLINEARITIES = ("step", "cdf", "sigmoid", "tanh", "relu")


def _numbers(where: str, name: str, values: Any) -> HostArray:
    try:
        array = np.atleast_1d(np.asarray(values, np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"[{where}] expected {name} to be numbers, got {kind(values)}") from None
    if array.ndim != 1 or np.isnan(array).any():
        raise ValueError(f"[{where}] expected {name} to be a list of numbers, got {values}")
    return array


def signature(
    x: Array,
    templates: Array,
    permutations: Any,
    thresholds: Any = None,
    moments: Any = None,
    nonlinearity: str = "step",
) -> Array:
    r"""Invariants of samples: how their products with the orbits of templates are distributed.

    Parameters
    ----------
    x : array of shape (n, d)
        Samples.
    templates : array of shape (m, d)
        Templates t, whose orbits g t are never all in memory.
    permutations : integers of shape (order, d)
        How the elements of a group permute the features: ``(g t)[i] = t[permutations[g, i]]``.
    thresholds : numbers, optional
        Thresholds b, rounded to the dtype of the result. Without them and without `moments` there is one, 0.
    moments : whole numbers, optional
        Powers of the products that are summed, each at least 0.
    nonlinearity : {"step", "cdf", "sigmoid", "tanh", "relu"}, default "step"
        The function :math:`\sigma` of ⟨x, g t⟩ - b: 1 from 0 on, 1 up to 0, which counts products of at most b and
        makes the signature a cumulative distribution, or another.

    Returns
    -------
    array of shape (n, m, count)
        For every sample and template the thresholds, and after them the moments. In the library and dtype of `x`.

    Raises
    ------
    ValueError
        If the shapes or values do not fit.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: \mu_b^k(x) = \sum_g \sigma(\langle x, g t^k \rangle - b), \qquad \sum_g \langle x, g t^k \rangle^m

    For a group, they are the same for x and for every g x. Compiled, they come out of the matrix product block by
    block, and take no memory that grows with the order of the group.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> shifts = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    >>> x = np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 1.0]])
    >>> group.signature(x, np.array([[1.0, 0.0, 0.0]]), shifts, thresholds=[0.5, 1.5], moments=[1, 2])
    array([[[ 3.,  2.,  6., 14.]],
    <BLANKLINE>
           [[ 3.,  2.,  6., 14.]]])
    """
    where = "group.signature"
    call = _signature.begin(x, templates)
    samples, others = call.arrays
    if samples.ndim != 2:
        raise ValueError(f"[{where}] expected x of shape (n, d), got {tuple(samples.shape)}")
    d = samples.shape[1]
    if others.ndim != 2 or others.shape[1] != d:
        raise ValueError(f"[{where}] expected templates of shape (m, {d}), got {tuple(others.shape)}")
    orders = permutations_of(where, "permutations", permutations, d)
    if thresholds is None and moments is None:
        thresholds = 0.0
    with np.errstate(over="ignore"):  # what is beyond the type is Inf, which no product reaches
        wanted = _numbers(where, "thresholds", [] if thresholds is None else thresholds)
        cuts = wanted.astype(np.float32 if dtype_name(call.dtype) == "float32" else np.float64).astype(np.float64)
    listed = [] if moments is None else list(np.atleast_1d(moments))
    powers = [whole(where, "moments", power, 0) for power in listed]
    name = choice(where, "nonlinearity", nonlinearity, NONLINEARITIES)
    shape = (samples.shape[0], others.shape[0], len(cuts) + len(powers))
    return call.finish(shape, None, orders, cuts, powers, name)


def average(x: Array, permutations: Any, function: Callable[[Array], Array] | None = None) -> Array:
    r"""Mean over an orbit: of the samples, or of a function of them.

    Parameters
    ----------
    x : array of shape (..., d)
        Samples, features along the last axis.
    permutations : integers of shape (order, d)
        How the elements of a group permute the features: ``(g x)[i] = x[permutations[g, i]]``.
    function : callable, optional
        A function of arrays of the shape of `x`; None means x itself.

    Returns
    -------
    array
        :math:`(1/|G|) \sum_g f(g x)`, which does not change when an element of the group acts on x.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.average(np.array([1.0, 2.0, 6.0]), [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    array([3., 3., 3.])
    """
    where = "group.average"
    call = _average.begin(x)
    (samples,) = call.arrays
    if samples.ndim < 1:
        raise ValueError(f"[{where}] expected x of shape (..., d), got {tuple(samples.shape)}")
    orders = permutations_of(where, "permutations", permutations, samples.shape[-1])
    if not len(orders):
        raise ValueError(f"[{where}] expected an element at least, got permutations of shape {orders.shape}")
    if function is None:
        return call.finish(tuple(samples.shape), None, orders)
    if not callable(function):
        raise TypeError(f"[{where}] expected function to be callable, got {kind(function)}")
    home = call.library.wrap(samples, call.like) if isinstance(samples, np.ndarray) else samples
    xp = call.library.namespace(home)
    total: Any = None
    for order in orders:
        value = function(xp.take(home, xp.asarray(order.copy()), axis=-1))
        total = value + 0 if total is None else total + value  # a copy: the function may give the same array again
    return total / len(orders)


def orbit_gramian(t: Array, permutations: Any) -> Array:
    r"""Products of the elements of an orbit with each other.

    Parameters
    ----------
    t : array of shape (d,)
        A template.
    permutations : integers of shape (order, d)
        How the elements of a group permute the features: ``(g t)[i] = t[permutations[g, i]]``.

    Returns
    -------
    array of shape (order, order)
        :math:`W^T W` of :math:`W = (g_1 t \dots g_{|G|} t)`; for a group every column is a permutation of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.orbit_gramian(np.array([1.0, 2.0]), [[0, 1], [1, 0]])
    array([[5., 4.],
           [4., 5.]])
    """
    where = "group.orbit_gramian"
    call = _gramian.begin(t)
    (template,) = call.arrays
    if template.ndim != 1:
        raise ValueError(f"[{where}] expected t of shape (d,), got {tuple(template.shape)}")
    orders = permutations_of(where, "permutations", permutations, template.shape[0])
    return call.finish((len(orders), len(orders)), None, orders)


def orbit_regularizer(W: Array, sigma: float) -> tuple[float, Array]:
    r"""How far the columns of W are from an orbit of some group, and the gradient of that.

    Parameters
    ----------
    W : array of shape (d, n)
        Columns that shall become an orbit.
    sigma : float
        Width at which entries count as equal, above 0. In the limits, 1e-300 counts those that are exactly equal, and
        with 1e300 all are, and value and gradient 0.

    Returns
    -------
    value : float
        At least 0, and 0 if and only if the columns of :math:`G = W^T W` are permutations of each other.
    gradient : array of shape (d, n)
        In the library and dtype of `W`.

    Notes
    -----
    .. math:: r(W) = \sum_{i,j} \sum_{k,l} (n \delta_{ij} - 1) \exp(-(G_{ki} - G_{lj})^2 / \sigma^2)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> value, gradient = group.orbit_regularizer(np.array([[1.0, 2.0], [2.0, 1.0]]), 1.0)
    >>> abs(value) < 1e-12, bool(abs(gradient).max() < 1e-12)
    (True, True)
    """
    where = "group.orbit_regularizer"
    call = _regularizer.begin(W)
    (weights,) = call.arrays
    if weights.ndim != 2:
        raise ValueError(f"[{where}] expected W of shape (d, n), got {tuple(weights.shape)}")
    width = real("a finite number above 0", lambda value: 0 < value < float("inf"))(where, "sigma", sigma, 0)
    if 2.0**-400 <= width <= 2.0**400:
        gradient, value = call.finish_several((tuple(weights.shape),), width)
        return float(value), gradient
    # Its square would leave the type. Of s W and s² sigma the value is the same, and the gradient 1 / s of this one.
    exponent = math.frexp(width)[1]
    shift = ((-390 if exponent < 0 else 390) - exponent) // 2
    home = call.readable(weights)
    xp = call.library.namespace(home)
    value, gradient = orbit_regularizer(xp.astype(home, xp.float64) * 2.0**shift, math.ldexp(width, 2 * shift))
    with np.errstate(over="ignore", under="ignore"):
        return value, call.sent_home(xp.astype(gradient * 2.0**shift, home.dtype, copy=False))


def permutation_layer(x: Array, lam: Any, gam: Any) -> Array:
    r"""Linear layer that commutes with all permutations of a set.

    Parameters
    ----------
    x : array of shape (..., n), or (..., n, C) with matrices
        Sets of n numbers, or of n vectors.
    lam, gam : float, or arrays of shape (C, C')
        Coefficients of the elements themselves and of their sum.

    Returns
    -------
    array of shape (..., n), or (..., n, C')
        :math:`\lambda x + \gamma \sum_i x_i`: the matrix :math:`\lambda I + \gamma 1 1^T`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.permutation_layer(np.array([1.0, 2.0, 3.0]), 10, 1)
    array([16., 26., 36.])
    """
    where = "group.permutation_layer"
    scalars = [isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in (lam, gam)]
    if scalars[0] != scalars[1] or lam is None or gam is None:
        raise TypeError(
            f"[{where}] expected lam and gam to be two numbers or two arrays, got {kind(lam)} and {kind(gam)}"
        )
    call = _layer.begin(x, *((None, None) if scalars[0] else (lam, gam)))
    samples, first, second = call.arrays
    if scalars[0]:
        if samples.ndim < 1:
            raise ValueError(f"[{where}] expected x of shape (..., n), got {tuple(samples.shape)}")
        return call.finish(tuple(samples.shape), None, float(lam), float(gam))
    if samples.ndim < 2 or first is None or first.ndim != 2 or first.shape[0] != samples.shape[-1]:
        shape = tuple(np.shape(first)) if first is not None else None
        raise ValueError(
            f"[{where}] expected x of shape (..., n, C) and lam of shape (C, C'), "
            f"got {tuple(samples.shape)} and {shape}"
        )
    if tuple(second.shape) != tuple(first.shape):
        raise ValueError(f"[{where}] expected gam of shape {tuple(first.shape)} like lam, got {tuple(second.shape)}")
    return call.finish((*samples.shape[:-1], first.shape[1]), None, 0.0, 0.0)


def set_pool(x: Array, mode: str = "sum") -> Array:
    """Join the elements of sets, as Deep Sets do: what comes out does not depend on their order.

    Parameters
    ----------
    x : array of shape (..., n, C)
        Sets of n vectors.
    mode : {"sum", "mean", "max"}, default "sum"

    Returns
    -------
    array of shape (..., C)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import group
    >>> group.set_pool(np.array([[1.0, 2.0], [3.0, 0.0]]), "max")
    array([3., 2.])
    """
    where = "group.set_pool"
    call = _set_pool.begin(x)
    name = choice(where, "mode", mode, ("sum", "mean", "max"))
    shape = tuple(call.arrays[0].shape)
    if len(shape) < 2 or (name != "sum" and shape[-2] == 0):
        raise ValueError(f"[{where}] expected x of shape (..., n, C) with an element at least, got {shape}")
    return call.finish((*shape[:-2], shape[-1]), None, name)
