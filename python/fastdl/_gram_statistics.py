"""Statistics of Gram matrices, and Gram matrices of features and Jacobians."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind
from fastdl._dispatch import Operation
from fastdl._gram_checks import pairs, restrict
from fastdl._kernels import find

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._dispatch import Call


def _square(call: Call, at: int = 0) -> int:
    """Check that an argument is a square matrix, of the size of the first; give its size."""
    array, name = call.arrays[at], call.operation.arguments[at]
    n = call.arrays[0].shape[0] if at and call.arrays[0].ndim else "n"
    if array.ndim != 2 or array.shape[0] != array.shape[1] or (at and array.shape[0] != n):
        raise ValueError(f"[{call.operation.name}] expected {name} of shape ({n}, {n}), got {tuple(array.shape)}")
    return int(array.shape[0])


def _flag(where: str, name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"[{where}] expected {name} to be True or False, got {kind(value)}")
    return bool(value)


_center = Operation("gram.center", "K")


def center(K: Array) -> Array:
    r"""Centre a Gram matrix: that of the samples less their mean, in feature space.

    Parameters
    ----------
    K : array of shape (n, n)
        A Gram matrix.

    Returns
    -------
    array of shape (n, n)
        :math:`(I - U) K (I - U)` with :math:`U_{ij} = 1/n`.

    Raises
    ------
    ValueError
        If K is not square.
    TypeError
        If the dtype is not float32, float64, integer or bool.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> gram.center(np.array([[5.0, 11.0], [11.0, 25.0]]))
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    call = _center.begin(K)
    n = _square(call)
    return call.finish((n, n))


_distance = Operation("gram.distance", "X", "Y?")


def distance(X: Array, Y: Array | None = None, kernel: Any = "rbf", **params: Any) -> Array:
    r"""Squared distances of samples in the feature space of a kernel.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel : str or callable, default "rbf"
        As in `gram`.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    array of shape (n, m)
        :math:`k(x_i, x_i) + k(y_j, y_j) - 2 k(x_i, y_j)`, at least 0; without `Y` symmetric to the bit, with a diagonal
        of exact zeros. Distances much smaller than k itself are as inexact as that difference.

    Raises
    ------
    ValueError
        If there is no such kernel, or the shapes or values do not fit.
    TypeError
        If the kernel has no parameter of a name, or a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> gram.distance(np.array([[1.0, 2.0], [3.0, 4.0]]), kernel="linear")
    array([[0., 8.],
           [8., 0.]])
    """
    entry = find("gram.distance", kernel)
    call = _distance.begin(X, None if Y is X else Y)
    shape = pairs(call)
    parameters = entry.named("gram.distance", call.arrays[0].shape[1], params)
    restrict(entry, call, list(parameters.values()))
    if entry.name == "geometric":
        for array in call.arrays:
            if array is not None:
                alone = _distance.begin(array, None)
                restrict(entry, alone, list(parameters.values()), diagonal=True)
    return call.finish(shape, None, entry.name, parameters)


_hsic = Operation("gram.hsic", "K", "L")


def hsic(K: Array, L: Array, unbiased: bool = True) -> Array:
    r"""Hilbert–Schmidt independence criterion: how much two sets of features of the same samples depend on each other.

    Parameters
    ----------
    K, L : array of shape (n, n)
        Gram matrices of the two sets of features.
    unbiased : bool, default True
        Whether to take the unbiased estimate, which needs four samples and may be negative; the biased one needs two.

    Returns
    -------
    array of shape ()
        In the library and dtype of the arguments.

    Raises
    ------
    ValueError
        If the matrices are not square and of one size, or too small.
    TypeError
        If a dtype is not float32, float64, integer or bool.

    Notes
    -----
    Biased, with :math:`H = I - U`: :math:`\operatorname{tr}(K H L H) / (n - 1)^2`. Unbiased, with zeroed diagonals:

    .. math::

        \frac{1}{n (n - 3)} \Bigl[ \operatorname{tr}(\tilde K \tilde L)
        + \frac{1^T \tilde K 1\, 1^T \tilde L 1}{(n - 1)(n - 2)} - \frac{2}{n - 2} 1^T \tilde K \tilde L 1 \Bigr]

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> float(gram.hsic(np.eye(4), np.eye(4), unbiased=False).round(4))
    0.3333
    """
    call, flag = _matched(_hsic, K, L, unbiased)
    return call.finish((), None, flag)


def _matched(operation: Operation, K: Array, L: Array, unbiased: bool) -> tuple[Call, bool]:
    call = operation.begin(K, L)
    n = _square(call)
    _square(call, 1)
    flag = _flag(operation.name, "unbiased", unbiased)
    least = 4 if flag else 2
    if n < least:
        raise ValueError(f"[{operation.name}] expected at least {least} samples for unbiased={flag}, got {n}")
    return call, flag


_cka = Operation("gram.cka", "K", "L")


def cka(K: Array, L: Array, unbiased: bool = False) -> Array:
    r"""Centred kernel alignment: the likeness of two sets of features of the same samples.

    Parameters
    ----------
    K, L : array of shape (n, n)
        Gram matrices of the two sets of features.
    unbiased : bool, default False
        Which estimate of HSIC to take. The unbiased one may give NaN where the features of one set hardly vary.

    Returns
    -------
    array of shape ()
        1 for features that are equal up to a rotation and a scale; in the library and dtype of the arguments.

    Raises
    ------
    ValueError
        If the matrices are not square and of one size, or too small.
    TypeError
        If a dtype is not float32, float64, integer or bool.

    Notes
    -----
    .. math:: \mathrm{CKA} = \frac{\mathrm{HSIC}(K, L)}{\sqrt{\mathrm{HSIC}(K, K)\, \mathrm{HSIC}(L, L)}}

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])
    >>> float(gram.cka(gram.linear(X), gram.linear(3 * X)).round(4))
    1.0
    """
    call, flag = _matched(_cka, K, L, unbiased)
    return call.finish((), None, flag)


_feature_gram = Operation("gram.feature_gram", "x")


def feature_gram(x: Array, center: bool = False) -> Array:
    r"""Gram matrices of the channels of feature maps, which hold the style of an image.

    Parameters
    ----------
    x : array of shape (N, C, H, W)
        Feature maps. Any number of axes of positions will do, but at least one.
    center : bool, default False
        Whether to subtract the mean of each channel first: the result is then their covariance.

    Returns
    -------
    array of shape (N, C, C)
        :math:`F F^T / (H W)` for every sample, symmetric to the bit.

    Raises
    ------
    ValueError
        If the shape does not fit.
    TypeError
        If the dtype is not float32, float64, integer or bool.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> gram.feature_gram(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[[ 3.5,  9.5],
            [ 9.5, 31.5]]])
    """
    call = _feature_gram.begin(x)
    (maps,) = call.arrays
    if maps.ndim < 3 or 0 in maps.shape[2:]:
        raise ValueError(f"[gram.feature_gram] expected x of shape (N, C, H, W), got {tuple(maps.shape)}")
    samples, channels = maps.shape[:2]
    return call.finish((samples, channels, channels), None, _flag("gram.feature_gram", "center", center))


_empirical_ntk = Operation("gram.empirical_ntk", "J1", "J2?")


def empirical_ntk(J1: Array, J2: Array | None = None) -> Array:
    r"""Neural tangent kernel of a finite network, from the Jacobians of its outputs.

    Parameters
    ----------
    J1 : array of shape (n, p)
        Jacobian: a row for every sample, a column for every parameter. Axes after the first are flattened.
    J2 : array of shape (m, p), optional
        Jacobian for other samples. None means ``J2 = J1``.

    Returns
    -------
    array of shape (n, m)
        :math:`\Phi_1 \Phi_2^T`, summed over blocks of parameters; symmetric to the bit without `J2`.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        If a dtype is not float32, float64, integer or bool.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> gram.empirical_ntk(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 5., 11.],
           [11., 25.]])
    """
    call = _empirical_ntk.begin(J1, None if J2 is J1 else J2)
    first, second = call.arrays
    if first.ndim < 2:
        raise ValueError(f"[gram.empirical_ntk] expected J1 of shape (n, p), got {tuple(first.shape)}")
    if second is not None and (second.ndim < 2 or second.shape[1:] != first.shape[1:]):
        wanted = ", ".join(str(size) for size in first.shape[1:])
        raise ValueError(f"[gram.empirical_ntk] expected J2 of shape (m, {wanted}), got {tuple(second.shape)}")
    call.arrays = tuple(None if array is None else _flattened(array) for array in call.arrays)
    n = first.shape[0]
    return call.finish((n, n if second is None else second.shape[0]))


def _flattened(array: Array) -> Array:
    """Join all axes after the first; written out, because -1 says nothing about an array without elements."""
    size = 1
    for extent in array.shape[1:]:
        size *= extent
    if isinstance(array, np.ndarray):
        return array.reshape(array.shape[0], size)
    from array_api_compat import array_namespace

    return array_namespace(array).reshape(array, (array.shape[0], size))
