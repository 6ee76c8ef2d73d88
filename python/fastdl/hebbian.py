"""Hebbian learning and associative memories.

The rules of Hebb, Oja, Sanger and the subspace are here; other rules, Hopfield networks and the estimator are in the
modules ``_hebbian_*`` beside, and public from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdl._dispatch import Operation
from fastdl._hebbian_checks import choice, flag, learning_rates, update, weights_and_samples
from fastdl._hebbian_memory import (
    capacity,
    crosstalk,
    dense_hopfield,
    dense_hopfield_energy,
    flip_probability,
    hopfield_energy,
    hopfield_recall,
    hopfield_weights,
    modern_hopfield,
)
from fastdl._hebbian_pca import HebbianPCA
from fastdl._hebbian_rules import bcm, ccipca, foldiak, krotov, soft_hebb

if TYPE_CHECKING:
    from fastdl._arrays import Array

__all__ = [
    "HebbianPCA",
    "bcm",
    "capacity",
    "ccipca",
    "crosstalk",
    "dense_hopfield",
    "dense_hopfield_energy",
    "flip_probability",
    "foldiak",
    "hebb",
    "hopfield_energy",
    "hopfield_recall",
    "hopfield_weights",
    "krotov",
    "modern_hopfield",
    "oja",
    "sanger",
    "soft_hebb",
    "subspace",
]

_MODES = ("sequential", "batch")
_ALGORITHMS = ("auto", "loop", "blocks")

_hebb = Operation("hebbian.hebb", "W", "X")
_oja = Operation("hebbian.oja", "W", "X")
_sanger = Operation("hebbian.sanger", "W", "X")
_subspace = Operation("hebbian.subspace", "W", "X")


def _learn(
    operation: Operation, W: Array, X: Array, lr: Any, mode: str, algorithm: str, out: Array | None, *parameters: Any
) -> Array:
    call = operation.begin(W, X)
    k, d, n = weights_and_samples(call)
    steps = learning_rates(call, lr, n)
    words = (choice(operation.name, "mode", mode, _MODES), choice(operation.name, "algorithm", algorithm, _ALGORITHMS))
    return update(call, W, (k, d), out, steps, *words, *parameters)


def hebb(
    W: Array,
    X: Array,
    lr: Any,
    *,
    normalize: bool = False,
    mode: str = "sequential",
    algorithm: str = "auto",
    out: Array | None = None,
) -> Array:
    r"""Hebb's rule: units that are active with their inputs come closer to them.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen. Any strides; never written.
    lr : float or array of shape (n,)
        The step :math:`\eta`, the same for all samples or one for each; any sign. Rounded to the dtype of the weights.
    normalize : bool, default False
        Whether every row is rescaled to length 1 after each sample (in a batch, after all of them). Rows of zeros stay.
    mode : {"sequential", "batch"}
        Whether each sample sees the weights that the one before left, or all see `W`.
    algorithm : {"auto", "loop", "blocks"}
        How sequential updates are computed: a sample after the other, or by products of blocks of samples, which gives
        the same to rounding. ``"auto"`` takes the quicker one.
    out : array of shape (k, d), optional
        Where to put the result; `W` itself updates it in place. Otherwise it shares no memory with an input.

    Returns
    -------
    array of shape (k, d)
        The weights after all samples, in the library and on the device of `W`; `out` itself if it was given.

    Raises
    ------
    FloatingPointError
        If a weight becomes infinite or NaN; the message names the sample, and nothing is written.
    ValueError
        If the shapes do not fit, or `lr` or `W` is not finite.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math:: W \leftarrow W + \eta\, y x^T, \qquad y = W x

    Without `normalize` it diverges on most data. Compiled results do not depend on the number of threads, to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> hebbian.hebb(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 2.0]]), 0.5)
    array([[1.5, 1.5]])
    """
    return _learn(_hebb, W, X, lr, mode, algorithm, out, flag("hebbian.hebb", "normalize", normalize))


def oja(
    W: Array, X: Array, lr: Any, *, mode: str = "sequential", algorithm: str = "auto", out: Array | None = None
) -> Array:
    r"""Oja's rule: Hebb's with a decay, by which a unit comes to the first principal component at length 1.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row; each learns by itself.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen.
    lr : float or array of shape (n,)
        The step, as in `hebb`.
    mode : {"sequential", "batch"}
        Whether each sample sees the weights that the one before left, or all see `W`.
    algorithm : {"auto", "loop", "blocks"}
        How sequential updates are computed, as in `hebb`.
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
        If the shapes do not fit, or `lr` or `W` is not finite.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math:: w \leftarrow w + \eta\, y (x - y w), \qquad y = w \cdot x

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> X = np.random.default_rng(0).standard_normal((2000, 3)) * np.array([1.0, 3.0, 0.5])
    >>> abs(hebbian.oja(np.ones((1, 3)), X, 0.002)).round(1)
    array([[0., 1., 0.]])
    """
    return _learn(_oja, W, X, lr, mode, algorithm, out)


def sanger(
    W: Array, X: Array, lr: Any, *, mode: str = "sequential", algorithm: str = "auto", out: Array | None = None
) -> Array:
    r"""Sanger's rule, the generalised Hebbian algorithm: the rows come to the principal components, in their order.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen.
    lr : float or array of shape (n,)
        The step, as in `hebb`.
    mode : {"sequential", "batch"}
        Whether each sample sees the weights that the one before left, or all see `W`.
    algorithm : {"auto", "loop", "blocks"}
        How sequential updates are computed, as in `hebb`.
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
        If the shapes do not fit, or `lr` or `W` is not finite.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math:: w_i \leftarrow w_i + \eta\, y_i \Bigl(x - \sum_{j \le i} y_j w_j\Bigr), \qquad y = W x

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> X = np.random.default_rng(0).standard_normal((4000, 3)) * np.array([1.0, 3.0, 0.1])
    >>> abs(hebbian.sanger(np.eye(3)[:2] + 0.1, X, 0.002)).round(1)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    return _learn(_sanger, W, X, lr, mode, algorithm, out)


def subspace(
    W: Array, X: Array, lr: Any, *, mode: str = "sequential", algorithm: str = "auto", out: Array | None = None
) -> Array:
    r"""Oja's subspace rule: the rows come to an orthonormal basis of the space of the first principal components.

    Parameters
    ----------
    W : array of shape (k, d)
        Weights, a unit in every row.
    X : array of shape (n, d)
        Samples, one a row, in the order in which they are seen.
    lr : float or array of shape (n,)
        The step, as in `hebb`.
    mode : {"sequential", "batch"}
        Whether each sample sees the weights that the one before left, or all see `W`.
    algorithm : {"auto", "loop", "blocks"}
        How sequential updates are computed, as in `hebb`.
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
        If the shapes do not fit, or `lr` or `W` is not finite.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math:: W \leftarrow W + \eta\, y (x - W^T y)^T, \qquad y = W x

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import hebbian
    >>> X = np.random.default_rng(0).standard_normal((4000, 3)) * np.array([1.0, 3.0, 0.1])
    >>> W = hebbian.subspace(np.eye(3)[:2] + 0.1, X, 0.005)
    >>> abs(W.T @ W).round(1)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 0.]])
    """
    return _learn(_subspace, W, X, lr, mode, algorithm, out)
