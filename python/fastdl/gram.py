"""Gram matrices: ``K[i, j] = k(x_i, y_j)`` for the rows of two sets of samples.

The kernels are here; what works on any of them is in the modules ``_gram_*`` beside, and public from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import ndarray

from fastdl._gram_checks import is_sparse, pairs, restrict
from fastdl._gram_invariant import invariant
from fastdl._gram_matrix import gram
from fastdl._gram_operators import cntk, diag, gram_vjp, matvec, matvec_vjp, softmax_matvec
from fastdl._gram_sparse import sparse_gram
from fastdl._gram_statistics import center, cka, distance, empirical_ntk, feature_gram, hsic
from fastdl._kernels import KERNELS

if TYPE_CHECKING:
    from fastdl._arrays import Array

__all__ = [
    "additive_chi2",
    "arc_cosine",
    "center",
    "chi2",
    "cka",
    "cntk",
    "cosine",
    "diag",
    "distance",
    "empirical_ntk",
    "feature_gram",
    "geometric",
    "gram",
    "gram_vjp",
    "hsic",
    "invariant",
    "laplacian",
    "linear",
    "matern",
    "matvec",
    "matvec_vjp",
    "nngp",
    "ntk",
    "polynomial",
    "rbf",
    "sigmoid",
    "sinc",
    "softmax_matvec",
]

_linear = KERNELS["linear"].operation


def linear(X: Array, Y: Array | None = None, *, out: Array | None = None) -> Array:
    r"""Inner products of all pairs of rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row. Any strides; never written. Or a matrix of scipy.sparse.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    out : array of shape (n, m), optional
        Where to put the result: of the library and dtype of the result, writable, and sharing no memory with an
        input.

    Returns
    -------
    array of shape (n, m)
        In the library and on the device of `X`; `out` itself if it was given. float32 if all inputs are, else
        float64. Sparse samples give a NumPy array.

    Raises
    ------
    ValueError
        If the shapes do not fit, or `out` is read-only or overlaps an input.
    TypeError
        If a dtype is not float32, float64, integer or bool, or `out` is of another dtype or library.

    Notes
    -----
    .. math:: K_{ij} = \sum_f X_{if} Y_{jf}

    With ``Y=None`` the compiled code does half the work, and K is symmetric to the bit. Compiled results do not
    depend on the number of threads, nor on how the rows are split over several calls, to the bit. NaN and Inf reach
    only the rows and columns of the samples they are in.

    Of sparse samples only the stored elements count: a NaN does not meet the zeros that are not stored.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.linear(X)
    array([[ 5., 11.],
           [11., 25.]])
    >>> gram.linear(X, np.array([[1.0, 0.0]], dtype=np.float32))
    array([[1.],
           [3.]])
    """
    if (type(X) is not ndarray or (Y is not None and type(Y) is not ndarray)) and is_sparse(X, Y):
        return sparse_gram(KERNELS["linear"], X, Y, out, ())
    call = _linear.begin(X, None if Y is X else Y)
    return call.finish(pairs(call), out)


def _compute(name: str, X: Array, Y: Array | None, out: Array | None, *values: Any) -> Array:
    """Compute any kernel from the values of its parameters, in order."""
    kernel = KERNELS[name]
    if (type(X) is not ndarray or (Y is not None and type(Y) is not ndarray)) and is_sparse(X, Y):
        return sparse_gram(kernel, X, Y, out, values)
    operation = kernel.operation
    call = operation.begin(X, None if Y is X else Y)
    shape = pairs(call)
    parameters = kernel.resolve(operation.name, call.arrays[0].shape[1], values)
    restrict(kernel, call, parameters)
    return call.finish(shape, out, *parameters)


def polynomial(
    X: Array,
    Y: Array | None = None,
    degree: float = 3,
    gamma: float | None = None,
    coef0: float = 1,
    *,
    out: Array | None = None,
) -> Array:
    r"""Powers of inner products.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row, or a matrix of scipy.sparse.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    degree : float, default 3
        The power, at least 1. With one that is not whole, a negative base gives NaN.
    gamma : float, optional
        Scale of the inner products. None means ``1 / d``.
    coef0 : float, default 1
        Added before the power is taken.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = (\gamma\, x_i \cdot y_j + c_0)^{\mathrm{degree}}

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.polynomial(X, degree=2, gamma=1)
    array([[ 36., 144.],
           [144., 676.]])
    """
    return _compute("polynomial", X, Y, out, degree, gamma, coef0)


def sigmoid(
    X: Array,
    Y: Array | None = None,
    gamma: float | None = None,
    coef0: float = 1,
    *,
    out: Array | None = None,
) -> Array:
    r"""Hyperbolic tangents of inner products.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma : float, optional
        Scale of the inner products. None means ``1 / d``.
    coef0 : float, default 1
        Added before the tangent is taken.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \tanh(\gamma\, x_i \cdot y_j + c_0)

    Not positive definite in general.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.sigmoid(X, gamma=0.1, coef0=0).round(4)
    array([[0.4621, 0.8005],
           [0.8005, 0.9866]])
    """
    return _compute("sigmoid", X, Y, out, gamma, coef0)


def rbf(X: Array, Y: Array | None = None, gamma: float | None = None, *, out: Array | None = None) -> Array:
    r"""Gaussians of distances.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row, or a matrix of scipy.sparse.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma : float, optional
        Inverse squared width, at least 0; ``1 / (2 * sigma**2)`` for a width sigma. None means ``1 / d``.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \exp(-\gamma \lVert x_i - y_j \rVert^2)

    Distances are as exact as direct differences make them, also far from the origin, and without `Y` the diagonal is
    exactly 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.rbf(X, gamma=0.25).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """
    return _compute("rbf", X, Y, out, gamma)


def laplacian(X: Array, Y: Array | None = None, gamma: float | None = None, *, out: Array | None = None) -> Array:
    r"""Exponentials of sums of absolute differences.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma : float, optional
        Inverse width, above 0. None means ``1 / d``.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \exp(-\gamma \lVert x_i - y_j \rVert_1)

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.laplacian(X, gamma=0.5).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """
    return _compute("laplacian", X, Y, out, gamma)


def cosine(X: Array, Y: Array | None = None, *, out: Array | None = None) -> Array:
    r"""Cosines of the angles between rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row, or a matrix of scipy.sparse.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \frac{x_i \cdot y_j}{\lVert x_i \rVert \lVert y_j \rVert}

    A row of zeros gives 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.cosine(X).round(4)
    array([[1.    , 0.9839],
           [0.9839, 1.    ]])
    """
    return _compute("cosine", X, Y, out)


def additive_chi2(X: Array, Y: Array | None = None, *, out: Array | None = None) -> Array:
    r"""Negative chi-squared distances of histograms.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or an element is negative.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = -\sum_f \frac{(x_{if} - y_{jf})^2}{x_{if} + y_{jf}}

    0/0 counts as 0. A negative element is a ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.additive_chi2(X, X[::-1] + 1).round(4)
    array([[-3.0857, -0.5333],
           [-0.254 , -0.3429]])
    """
    return _compute("additive_chi2", X, Y, out)


def chi2(X: Array, Y: Array | None = None, gamma: float = 1.0, *, out: Array | None = None) -> Array:
    r"""Exponentials of negative chi-squared distances of histograms.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma : float, default 1
        Inverse width, above 0.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \exp\Bigl(-\gamma \sum_f \frac{(x_{if} - y_{jf})^2}{x_{if} + y_{jf}}\Bigr)

    0/0 counts as 0. A negative element is a ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.chi2(X).round(4)
    array([[1.    , 0.1889],
           [0.1889, 1.    ]])
    """
    return _compute("chi2", X, Y, out, gamma)


def matern(
    X: Array,
    Y: Array | None = None,
    length_scale: Any = 1.0,
    nu: float = 1.5,
    *,
    out: Array | None = None,
) -> Array:
    r"""Matérn kernel: decay with distance, of a chosen smoothness.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    length_scale : float or array of shape (d,), default 1
        The unit of distance, above 0: one for all features, or one for each.
    nu : float, default 1.5
        Smoothness, above 0: 0.5, 1.5, 2.5 and ``inf`` (the Gaussian) have closed forms. Any other takes SciPy's
        Bessel functions and the reference backend.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \frac{2^{1-\nu}}{\Gamma(\nu)} (\sqrt{2\nu}\, r)^\nu K_\nu(\sqrt{2\nu}\, r), \quad
        r = \lVert (x_i - y_j) / \ell \rVert

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.matern(X, nu=0.5).round(4)
    array([[1.    , 0.0591],
           [0.0591, 1.    ]])
    """
    return _compute("matern", X, Y, out, length_scale, nu)


def geometric(X: Array, Y: Array | None = None, alpha: float = 0.5, *, out: Array | None = None) -> Array:
    r"""Geometric series of scaled inner products.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    alpha : float, default 0.5
        Between 0 and 1. ``alpha**2 * x @ y`` must be between -1 and 1 for all pairs, else a ValueError.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \sum_{k \ge 0} (\alpha^2\, x_i \cdot y_j)^k = \frac{1}{1 - \alpha^2\, x_i \cdot y_j}

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.geometric(X / 10).round(4)
    array([[1.0127, 1.0283],
           [1.0283, 1.0667]])
    """
    return _compute("geometric", X, Y, out, alpha)


def sinc(X: Array, Y: Array | None = None, omega: float = 1.0, *, out: Array | None = None) -> Array:
    r"""Products of cardinal sines: the reproducing kernel of functions limited to a band.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    omega : float, default 1
        The limit of the band, above 0.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \prod_f \frac{\sin(\Omega (x_{if} - y_{jf}))}{\pi (x_{if} - y_{jf})}

    A factor with equal features is :math:`\Omega / \pi`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.sinc(X).round(4)
    array([[0.1013, 0.0209],
           [0.0209, 0.1013]])
    """
    return _compute("sinc", X, Y, out, omega)


def arc_cosine(X: Array, Y: Array | None = None, order: int = 1, *, out: Array | None = None) -> Array:
    r"""Covariances of one infinitely wide hidden layer of step, ramp or squared ramp units.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    order : {0, 1, 2}, default 1
        The power of the ramp: 0 for a step, 1 for a ReLU.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        K_{ij} = \frac{1}{\pi} (\lVert x_i \rVert \lVert y_j \rVert)^n J_n(\theta), \quad
        J_0 = \pi - \theta,\; J_1 = \sin\theta + (\pi - \theta) \cos\theta,\;
        J_2 = 3 \sin\theta \cos\theta + (\pi - \theta)(1 + 2 \cos^2\theta)

    A row of zeros counts as at a right angle to all others.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.arc_cosine(X).round(4)
    array([[ 5.    , 11.0069],
           [11.0069, 25.    ]])
    """
    return _compute("arc_cosine", X, Y, out, order)


def nngp(
    X: Array,
    Y: Array | None = None,
    depth: int = 1,
    w_std: float = 1.0,
    b_std: float = 0.0,
    normalize: bool = True,
    *,
    out: Array | None = None,
) -> Array:
    r"""Covariances of the outputs of an infinitely wide random ReLU network.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    depth : int, default 1
        The number of hidden ReLU layers.
    w_std, b_std : float, default 1 and 0
        Standard deviations of the weights, times the square root of the width, and of the biases.
    normalize : bool, default True
        Whether the first layer divides by the number of features too.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        S \leftarrow w^2 S + b^2, \quad S \leftarrow \frac{s + (\pi - \theta) S}{2 \pi}, \quad
        s^2 = S_{xx} S_{yy} - S^2,\; \theta = \operatorname{atan2}(s, S)

    The first step is a dense layer and the second a ReLU: Dense, then (ReLU, Dense) `depth` times, from
    :math:`S = x_i \cdot y_j` (over d if `normalize`).

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.nngp(X, depth=2).round(4)
    array([[0.625 , 1.3767],
           [1.3767, 3.125 ]])
    """
    return _compute("nngp", X, Y, out, depth, w_std, b_std, normalize)


def ntk(
    X: Array,
    Y: Array | None = None,
    depth: int = 1,
    w_std: float = 1.0,
    b_std: float = 0.0,
    normalize: bool = True,
    *,
    out: Array | None = None,
) -> Array:
    r"""Neural tangent kernel of an infinitely wide ReLU network at its start.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    depth : int, default 1
        The number of hidden ReLU layers.
    w_std, b_std : float, default 1 and 0
        Standard deviations of the weights, times the square root of the width, and of the biases.
    normalize : bool, default True
        Whether the first layer divides by the number of features too.
    out : array of shape (n, m), optional
        Where to put the result, as in `linear`.

    Returns
    -------
    array of shape (n, m)
        As from `linear`.

    Raises
    ------
    ValueError
        If the shapes do not fit, or a value is outside its limits.
    TypeError
        If a dtype or the kind of an argument is not one of those above.

    Notes
    -----
    .. math::

        \Theta \leftarrow S_{\mathrm{new}} + w^2 \Bigl(\frac12 - \frac{\theta}{2 \pi}\Bigr) \Theta

    in every dense layer after the first, which sets :math:`\Theta = S`; S and θ are those of `nngp`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram.ntk(X).round(4)
    array([[ 2.5   ,  5.3443],
           [ 5.3443, 12.5   ]])
    """
    return _compute("ntk", X, Y, out, depth, w_std, b_std, normalize)


# What works on any kernel finds the functions by name.
for _name, _kernel in KERNELS.items():
    _kernel.function = globals()[_name]
