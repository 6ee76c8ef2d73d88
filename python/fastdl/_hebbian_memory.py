"""Associative memories: Hopfield networks, their capacity, and their dense and modern forms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fastdl._dispatch import Operation
from fastdl._gram_operators import softmax_matvec
from fastdl._hebbian_checks import choice, flag, orders, spins, sweeps
from fastdl._kernels import integer, real

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._dispatch import Call

_RECALL_MODES = ("async", "sync")

_hopfield_weights = Operation("hebbian.hopfield_weights", "P")


def hopfield_weights(P: Array, zero_diagonal: bool = True) -> Array:
    r"""Weights of a Hopfield network that stores patterns, by Hebb's rule.

    Parameters
    ----------
    P : array of shape (n, d)
        Patterns, one a row, of +1 and -1. (Any numbers will do.)
    zero_diagonal : bool, default True
        Whether no unit is coupled to itself.

    Returns
    -------
    array of shape (d, d)
        :math:`\frac1d \sum_\mu p_\mu p_\mu^T`, symmetric to the bit.

    Raises
    ------
    ValueError
        If P is no matrix.
    TypeError
        If the dtype or the kind of an argument is not one of those above.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> hebbian.hopfield_weights(np.array([[1, -1], [1, 1]]))
    array([[0., 0.],
           [0., 0.]])
    """
    call = _hopfield_weights.begin(P)
    d = _patterns(call)[1]
    return call.finish((d, d), None, flag("hebbian.hopfield_weights", "zero_diagonal", zero_diagonal))


def _patterns(call: Call) -> tuple[int, int]:
    P = call.arrays[0]
    if P.ndim != 2:
        raise ValueError(f"[{call.operation.name}] expected P of shape (n, d), got {tuple(P.shape)}")
    return P.shape[0], P.shape[1]


def _states(call: Call, d: int) -> tuple[int, bool]:
    """Check that the second array is one state of d units or many; make it many; give their number, and whether one."""
    s = call.arrays[1]
    if s.ndim not in (1, 2) or s.shape[-1] != d:
        raise ValueError(f"[{call.operation.name}] expected s of shape ({d},) or (m, {d}), got {tuple(s.shape)}")
    single = s.ndim == 1
    if single:
        call.arrays = (call.arrays[0], s[None, :], *call.arrays[2:])
    return 1 if single else s.shape[0], single


def _network(call: Call) -> tuple[int, int, bool]:
    """Check W, s and b; give the number of units, that of states, and whether there is a single one."""
    W, _, b = call.arrays
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(f"[{call.operation.name}] expected W of shape (d, d), got {tuple(W.shape)}")
    d = W.shape[0]
    m, single = _states(call, d)
    if b is not None and tuple(b.shape) != (d,):
        raise ValueError(f"[{call.operation.name}] expected b of shape ({d},), got {tuple(b.shape)}")
    return d, m, single


_hopfield_energy = Operation("hebbian.hopfield_energy", "W", "s", "b?")


def hopfield_energy(W: Array, s: Array, b: Array | None = None) -> Array:
    r"""Energy of states of a Hopfield network, which asynchronous recall never raises.

    Parameters
    ----------
    W : array of shape (d, d)
        Weights.
    s : array of shape (d,) or (m, d)
        A state, or one a row.
    b : array of shape (d,), optional
        Thresholds. None means 0.

    Returns
    -------
    array of shape () or (m,)
        :math:`-\frac12 s^T W s + b^T s` for every state.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        If a dtype is not float32, float64, integer or bool.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> float(hebbian.hopfield_energy(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0])))
    1.0
    """
    call = _hopfield_energy.begin(W, s, b)
    _, m, single = _network(call)
    result = call.finish((m,))
    return result[0, ...] if single else result


_hopfield_recall = Operation("hebbian.hopfield_recall", "W", "s", "b?")


def hopfield_recall(
    W: Array,
    s: Array,
    b: Array | None = None,
    *,
    mode: str = "async",
    max_sweeps: int = 100,
    order: Any = None,
    seed: Any = None,
) -> Array:
    r"""Let states of a Hopfield network run to where they stay.

    Parameters
    ----------
    W : array of shape (d, d)
        Weights, usually from `hopfield_weights`. Energy never rises in asynchronous recall if they are symmetric
        without a negative diagonal.
    s : array of shape (d,) or (m, d)
        A state of +1 and -1, or one a row; each runs by itself.
    b : array of shape (d,), optional
        Thresholds. None means 0.
    mode : {"async", "sync"}
        Whether units are set one after the other, each seeing those before, or all at once. Synchronous states may
        end in a cycle of two; the one that `max_sweeps` leads to is returned.
    max_sweeps : int, default 100
        How often all units are asked, at most. A state at which nothing changes any more is left alone.
    order : array of integers of shape (units,) or (sweeps, units), optional
        The order of the units in every sweep, or in each of several that are gone through again and again. None means
        0, 1, 2 ...
    seed : int or numpy.random.Generator, optional
        In place of `order`: random ones, a new one for each of 16 sweeps, which then come again.

    Returns
    -------
    array of shape (d,) or (m, d)
        The states reached, of +1 and -1.

    Raises
    ------
    ValueError
        If the shapes do not fit, a state has other values, `max_sweeps` is negative, or `order` names no unit.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math:: s_i \leftarrow \operatorname{sign}\Bigl(\sum_j W_{ij} s_j - b_i\Bigr), \qquad \operatorname{sign}(0) = 1

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> W = hebbian.hopfield_weights(np.array([[1.0, 1.0, -1.0, -1.0]]))
    >>> hebbian.hopfield_recall(W, np.array([1.0, 1.0, -1.0, 1.0]))
    array([ 1.,  1., -1., -1.])
    """
    where = "hebbian.hopfield_recall"
    call = _hopfield_recall.begin(W, s, b)
    d, m, single = _network(call)
    return _run(call, where, (m, d), single, mode, max_sweeps, order, seed)


def _run(
    call: Call,
    where: str,
    shape: tuple[int, int],
    single: bool,
    mode: str,
    max_sweeps: int,
    order: Any,
    seed: Any,
    *parameters: object,
) -> Array:
    """Check what every recall takes, and finish it."""
    choice(where, "mode", mode, _RECALL_MODES)
    count = sweeps(where, max_sweeps)
    asked = orders(where, shape[1], mode, order, seed, count)
    spins(call, 1)
    result = call.finish(shape, None, *parameters, mode, count, asked)
    return result[0, :] if single else result


_crosstalk = Operation("hebbian.crosstalk", "P")


def crosstalk(P: Array) -> Array:
    r"""Give what every stored pattern is disturbed by: the part of its field that comes from the others.

    Parameters
    ----------
    P : array of shape (n, d)
        Patterns, one a row, of +1 and -1.

    Returns
    -------
    array of shape (n, d)
        :math:`C = (G - \operatorname{diag} G)\, P` with :math:`G = P P^T / d`. A unit of a pattern is stable where
        :math:`|C| < 1`.

    Raises
    ------
    ValueError
        If P is no matrix.
    TypeError
        If the dtype is not float32, float64, integer or bool.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> hebbian.crosstalk(np.array([[1, 1, 1, 1], [1, 1, 1, -1]]))
    array([[ 0.5,  0.5,  0.5, -0.5],
           [ 0.5,  0.5,  0.5,  0.5]])
    """
    call = _crosstalk.begin(P)
    return call.finish(_patterns(call))


_COUNT = real("a number above 0", lambda value: 0 < value < math.inf)
_CHANCE = real("a number above 0 and below 0.5", lambda value: 0 < value < 0.5)


def flip_probability(n: float, d: float) -> float:
    r"""Probability that a unit of a stored pattern is not stable, for n random patterns of d units.

    Parameters
    ----------
    n : float
        Number of patterns, above 0.
    d : float
        Number of units, above 0.

    Returns
    -------
    float
        :math:`\frac12 \bigl(1 - \operatorname{erf} \sqrt{d / (2 n)}\bigr)`: the crosstalk of many patterns is normal,
        with variance n/d.

    Raises
    ------
    ValueError
        If a number is not above 0.
    TypeError
        If an argument is no number.

    Examples
    --------
    >>> from fastdl import hebbian
    >>> round(hebbian.flip_probability(138, 1000), 8)
    0.00355221
    """
    where = "hebbian.flip_probability"
    # erfc, since 1 - erf has no digit left where it is small.
    return math.erfc(math.sqrt(_COUNT(where, "d", d, 0) / (2 * _COUNT(where, "n", n, 0)))) / 2


def capacity(d: float, probability: float = 0.0036) -> float:
    r"""Give the number of random patterns at which units of a network are unstable with a given probability.

    Parameters
    ----------
    d : float
        Number of units, above 0.
    probability : float, default 0.0036
        The probability allowed, above 0 and below 0.5. The default leads to the classical 0.138 d.

    Returns
    -------
    float
        The n for which ``flip_probability(n, d)`` is `probability`.

    Raises
    ------
    ValueError
        If a number is outside its limits.
    TypeError
        If an argument is no number.

    Examples
    --------
    >>> from fastdl import hebbian
    >>> round(hebbian.capacity(1000))
    138
    """
    where = "hebbian.capacity"
    from statistics import NormalDist

    size = _COUNT(where, "d", d, 0)
    return float(size / NormalDist().inv_cdf(_CHANCE(where, "probability", probability, 0)) ** 2)


_DEGREE = integer("a whole number from 1 to 1000, or inf", lambda value: 1 <= value <= 1000)


def _degree(where: str, value: Any) -> float:
    if isinstance(value, float) and (value == math.inf or value == int(value if math.isfinite(value) else 0)):
        value = math.inf if value == math.inf else int(value)
    return math.inf if value == math.inf else float(_DEGREE(where, "degree", value, 0))


_dense_hopfield_energy = Operation("hebbian.dense_hopfield_energy", "P", "s")


def dense_hopfield_energy(P: Array, s: Array, *, degree: float = 3) -> Array:
    r"""Energy of states of a dense associative memory.

    Parameters
    ----------
    P : array of shape (n, d)
        Patterns, one a row, of +1 and -1.
    s : array of shape (d,) or (m, d)
        A state, or one a row.
    degree : int or inf, default 3
        The power F takes; inf means the exponential function.

    Returns
    -------
    array of shape () or (m,)
        :math:`-\sum_\mu F(p_\mu \cdot s)` for every state.

    Raises
    ------
    ValueError
        If the shapes do not fit, or `degree` is below 1.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> float(hebbian.dense_hopfield_energy(np.ones((1, 4)), np.ones(4), degree=2))
    -16.0
    """
    where = "hebbian.dense_hopfield_energy"
    call = _dense_hopfield_energy.begin(P, s)
    m, single = _states(call, _patterns(call)[1])
    result = call.finish((m,), None, _degree(where, degree))
    return result[0, ...] if single else result


_dense_hopfield = Operation("hebbian.dense_hopfield", "P", "s")


def dense_hopfield(
    P: Array,
    s: Array,
    *,
    degree: float = 3,
    mode: str = "async",
    max_sweeps: int = 100,
    order: Any = None,
    seed: Any = None,
) -> Array:
    r"""Let states of a dense associative memory run to where they stay.

    Parameters
    ----------
    P : array of shape (n, d)
        Patterns, one a row, of +1 and -1.
    s : array of shape (d,) or (m, d)
        A state of +1 and -1, or one a row; each runs by itself.
    degree : int or inf, default 3
        The power F takes; inf means the exponential function. 2 is a Hopfield network with a zero diagonal.
    mode, max_sweeps, order, seed
        As in `hopfield_recall`.

    Returns
    -------
    array of shape (d,) or (m, d)
        The states reached, of +1 and -1.

    Raises
    ------
    ValueError
        If the shapes do not fit, a state has other values, or another argument is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        s_i \leftarrow \operatorname{sign}
        \sum_\mu \bigl[F(p_\mu \cdot s |_{s_i = 1}) - F(p_\mu \cdot s |_{s_i = -1})\bigr]

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> P = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0, -1.0]])
    >>> hebbian.dense_hopfield(P, np.array([1.0, 1.0, 1.0, 1.0, -1.0]))
    array([1., 1., 1., 1., 1.])
    """
    where = "hebbian.dense_hopfield"
    call = _dense_hopfield.begin(P, s)
    d = _patterns(call)[1]
    m, single = _states(call, d)
    return _run(call, where, (m, d), single, mode, max_sweeps, order, seed, _degree(where, degree))


_BETA = real("a finite number")


def modern_hopfield(P: Array, q: Array, beta: float) -> Array:
    r"""One step of a modern Hopfield network with continuous states: attention of queries to the patterns.

    Parameters
    ----------
    P : array of shape (n, d)
        Patterns, one a row.
    q : array of shape (d,) or (m, d)
        A state, or one a row.
    beta : float
        Inverse temperature: the larger, the closer to the nearest pattern alone.

    Returns
    -------
    array of shape (d,) or (m, d)
        :math:`P^T \operatorname{softmax}(\beta P q)` for every state; zeros if there are no patterns.

    Raises
    ------
    ValueError
        If the shapes do not fit, or `beta` is not finite.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> hebbian.modern_hopfield(np.eye(2), np.array([1.0, 0.5]), beta=100.0).round(6)
    array([1., 0.])
    """
    where = "hebbian.modern_hopfield"
    call = _modern_hopfield.begin(P, q)
    d = _patterns(call)[1]
    query = call.arrays[1]
    if query.ndim not in (1, 2) or query.shape[-1] != d:
        raise ValueError(f"[{where}] expected q of shape ({d},) or (m, {d}), got {tuple(query.shape)}")
    scale = _BETA(where, "beta", beta, 0)
    patterns, states = (
        call.library.wrap(a, call.like) if call.library.device(call.like) == "cpu" else a for a in call.arrays
    )
    result = softmax_matvec(states if query.ndim == 2 else states[None, :], patterns, patterns, scale)
    return result if query.ndim == 2 else result[0, :]


_modern_hopfield = Operation("hebbian.modern_hopfield", "P", "q")
