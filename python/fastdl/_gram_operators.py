"""What is made of a kernel without forming its Gram matrix, and kernels on images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from fastdl._arrays import kind
from fastdl._dispatch import Operation, load_cuda
from fastdl._gram_checks import CLOSED_FORMS, in_single, pairs, restrict
from fastdl._kernels import find, integer, moderate, real

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._dispatch import Call
    from fastdl._kernels import Kernel

_diag = Operation("gram.diag", "X")


def diag(X: Array, kernel: Any = "rbf", **params: Any) -> Array:
    r"""Diagonal of a Gram matrix: every sample with itself.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    kernel : str or callable, default "rbf"
        As in `gram`.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    array of shape (n,)
        In the library and dtype of `X`.

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
    >>> gram.diag(np.array([[1.0, 2.0], [3.0, 4.0]]), "linear")
    array([ 5., 25.])
    """
    entry = find("gram.diag", kernel)
    call = _diag.begin(X)
    (samples,) = call.arrays
    if samples.ndim != 2:
        raise ValueError(f"[gram.diag] expected X of shape (n, d), got {tuple(samples.shape)}")
    parameters = entry.named("gram.diag", samples.shape[1], params)
    restrict(entry, call, list(parameters.values()), diagonal=True)
    return call.finish((samples.shape[0],), None, entry.name, parameters)


_matvec = Operation("gram.matvec", "X", "v", "Y?")


def matvec(X: Array, v: Array, Y: Array | None = None, kernel: Any = "rbf", **params: Any) -> Array:
    r"""Product of a Gram matrix and a vector or matrix, without the Gram matrix.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    v : array of shape (m,) or (m, p)
        What K is multiplied by.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel : str or callable, default "rbf"
        As in `gram`.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    array of shape (n,) or (n, p)
        :math:`K(X, Y)\, v`, of the rank of `v`. Beyond the arguments it takes memory of the order of n.

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
    >>> gram.matvec(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]), kernel="linear")
    array([ -6., -14.])
    """
    entry = find("gram.matvec", kernel)
    call = _matvec.begin(X, v, None if Y is X else Y)
    n, m = pairs(call, 2)
    samples, vector, others = call.arrays
    if vector.ndim not in (1, 2) or vector.shape[0] != m:
        raise ValueError(f"[gram.matvec] expected v of shape ({m},) or ({m}, p), got {tuple(vector.shape)}")
    parameters = entry.named("gram.matvec", samples.shape[1], params)
    restrict(entry, call, list(parameters.values()), others)
    flat = vector.ndim == 1
    if flat:
        call.arrays = (samples, vector[:, None], others)
    shape = (n, 1 if flat else vector.shape[1])
    result = call.finish(shape, None, entry.name, parameters)
    return result[:, 0] if flat else result


_gram_vjp = Operation("gram.gram_vjp", "X", "grad", "Y?")


def gram_vjp(X: Array, grad: Array, Y: Array | None = None, kernel: Any = "rbf", **params: Any) -> GramGradients:
    r"""Gradients of a Gram matrix: from those of a loss for K to those for its samples.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    grad : array of shape (n, m)
        The gradient of a function with respect to ``gram(X, Y, kernel)``.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel : str or callable, default "rbf"
        As in `gram`.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    GramGradients
        A named tuple (X, Y, gamma): the gradients of that function, so of ``sum(grad * gram(X, Y, kernel))``, with
        respect to each. Without `Y` its gradient is None, and that of X has both parts. gamma is a float, and None for
        kernels that have no parameter of this name.

    Raises
    ------
    ValueError
        If there is no such kernel, the shapes or values do not fit, or nu of matern is not 0.5, 1.5, 2.5 or inf.
    TypeError
        If the kernel has no parameter of a name, or a dtype or kind does not fit.

    Notes
    -----
    Where a kernel has no gradient, 0 is taken, as in `matvec_vjp`, which has the gradients of ``K @ v`` without forming
    the n x m matrix ``grad``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X, Y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, -1.0]])
    >>> gradients = gram.gram_vjp(X, np.array([[2.0], [1.0]]), Y, "linear")
    >>> gradients.X
    array([[ 2., -2.],
           [ 1., -1.]])
    >>> gradients.Y
    array([[5., 8.]])
    """
    where = "gram.gram_vjp"
    entry = find(where, kernel)
    call = _gram_vjp.begin(X, grad, None if Y is X else Y)
    shape = pairs(call, 2)
    samples, slope, others = call.arrays
    if tuple(slope.shape) != shape:
        raise ValueError(f"[{where}] expected grad of shape {shape}, got {tuple(slope.shape)}")
    parameters = _differentiable(where, entry, call, params)
    dX, dY, by_gamma = call.finish_several((samples.shape, _shape_of(others)), entry.name, parameters)
    return GramGradients(dX, dY, by_gamma if "gamma" in parameters else None)


def _shape_of(array: Array | None) -> tuple[int, ...] | None:
    return None if array is None else tuple(array.shape)


def _differentiable(where: str, entry: Kernel, call: Call, params: dict[str, Any]) -> dict[str, Any]:
    """Check the parameters of a kernel for its gradients; samples are the first argument of the call, Y the last."""
    samples, others = call.arrays[0], call.arrays[-1]
    parameters = entry.named(where, samples.shape[1], params)
    restrict(entry, call, list(parameters.values()), others)
    if entry.name == "matern" and parameters["nu"] not in CLOSED_FORMS:
        raise ValueError(f"[{where}] expected nu of 0.5, 1.5, 2.5 or inf, got {parameters['nu']}")
    if entry.name == "sinc" and call.backend == "cuda":
        call.backend = "reference"  # its derivative is no sum over features
    return parameters


class GramGradients(NamedTuple):
    """Gradients with respect to each argument of `gram`; None where there is no such argument."""

    X: Any
    Y: Any
    gamma: float | None


_matvec_vjp = Operation("gram.matvec_vjp", "X", "v", "grad", "Y?")


def matvec_vjp(
    X: Array, v: Array, grad: Array, Y: Array | None = None, kernel: Any = "rbf", **params: Any
) -> Gradients:
    r"""Gradients of a product with a Gram matrix, without the Gram matrix.

    Parameters
    ----------
    X : array of shape (n, d)
        Samples, one a row.
    v : array of shape (m,) or (m, p)
        What K is multiplied by.
    grad : array of shape (n,) or (n, p)
        The gradient of a function with respect to ``matvec(X, v, Y, kernel)``.
    Y : array of shape (m, d), optional
        Other samples. None means ``Y = X``.
    kernel : str or callable, default "rbf"
        As in `gram`.
    **params
        Parameters of the kernel, by name.

    Returns
    -------
    Gradients
        A named tuple (X, Y, v, gamma): the gradients of that function, so of ``sum(grad * matvec(X, v, Y, kernel))``,
        with respect to each. Without `Y` its gradient is None, and that of X has both parts. gamma is a float, and
        None for kernels that have no parameter of this name.

    Raises
    ------
    ValueError
        If there is no such kernel, the shapes or values do not fit, or nu of matern is not 0.5, 1.5, 2.5 or inf.
    TypeError
        If the kernel has no parameter of a name, or a dtype or kind does not fit.

    Notes
    -----
    Where a kernel has no gradient, 0 is taken: at equal features for laplacian, at equal samples for matern with nu of
    0.5, at two zeros for the chi2 kernels, at samples of norm 0 for cosine and arc_cosine of order 0, at parallel
    samples for arc_cosine of order 0 and ntk. For the other arc_cosine, nngp and ntk a sample of norm 0 is at right
    angles with all others. Beyond the arguments and gradients it takes memory of their order.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> X, Y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, -1.0]])
    >>> gradients = gram.matvec_vjp(X, np.array([2.0]), np.array([1.0, 1.0]), Y, "linear")
    >>> gradients.X
    array([[ 2., -2.],
           [ 2., -2.]])
    >>> gradients.v
    array([-2.])
    """
    where = "gram.matvec_vjp"
    entry = find(where, kernel)
    call = _matvec_vjp.begin(X, v, grad, None if Y is X else Y)
    n, m = pairs(call, 3)
    samples, vector, slope, others = call.arrays
    if vector.ndim not in (1, 2) or vector.shape[0] != m:
        raise ValueError(f"[{where}] expected v of shape ({m},) or ({m}, p), got {tuple(vector.shape)}")
    shape = (n, *vector.shape[1:])
    if tuple(slope.shape) != shape:
        raise ValueError(f"[{where}] expected grad of shape {shape}, got {tuple(slope.shape)}")
    parameters = _differentiable(where, entry, call, params)
    flat = vector.ndim == 1
    if flat:
        call.arrays = (samples, vector[:, None], slope[:, None], others)
    shapes = (samples.shape, _shape_of(others), tuple(call.arrays[1].shape))
    dX, dY, dv, by_gamma = call.finish_several(shapes, entry.name, parameters)
    return Gradients(dX, dY, dv[:, 0] if flat else dv, by_gamma if "gamma" in parameters else None)


class Gradients(NamedTuple):
    """Gradients with respect to each argument of `matvec`; None where there is no such argument."""

    X: Any
    Y: Any
    v: Any
    gamma: float | None


_softmax_matvec = Operation("gram.softmax_matvec", "Q", "K", "V")


def softmax_matvec(Q: Array, K: Array, V: Array, scale: float | None = None) -> Array:
    r"""Attention: averages of values with the weights of a kernel whose rows sum to 1.

    Parameters
    ----------
    Q : array of shape (n, d)
        Queries, one a row.
    K : array of shape (m, d)
        Keys.
    V : array of shape (m, p) or (m,)
        Values.
    scale : float, optional
        Factor of the inner products. None means :math:`1 / \sqrt d`.

    Returns
    -------
    array of shape (n, p) or (n,)
        Zeros if there are no keys. The matrix of weights is never formed.

    Raises
    ------
    ValueError
        If the shapes do not fit, or `scale` is not finite.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: O_i = \frac{\sum_j \exp(c\, q_i \cdot k_j)\, v_j}{\sum_j \exp(c\, q_i \cdot k_j)}

    The largest exponent of a row is subtracted first, so no weight overflows. Exponents that leave float32 are taken in
    float64. One of -inf weighs nothing; a row whose largest one is +inf, from an Inf in `K` or from products beyond
    float64, is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> gram.softmax_matvec(np.zeros((1, 2)), np.eye(2), np.array([[1.0], [3.0]]))
    array([[2.]])
    """
    call = _softmax_matvec.begin(Q, K, V)
    queries, keys, values = call.arrays
    if queries.ndim != 2:
        raise ValueError(f"[gram.softmax_matvec] expected Q of shape (n, d), got {tuple(queries.shape)}")
    n, d = queries.shape
    if keys.ndim != 2 or keys.shape[1] != d:
        raise ValueError(f"[gram.softmax_matvec] expected K of shape (m, {d}), got {tuple(keys.shape)}")
    m = keys.shape[0]
    if values.ndim not in (1, 2) or values.shape[0] != m:
        raise ValueError(f"[gram.softmax_matvec] expected V of shape ({m}, p) or ({m},), got {tuple(values.shape)}")
    factor = 1 / math.sqrt(max(1, d)) if scale is None else _FINITE("gram.softmax_matvec", "scale", scale, d)
    if in_single(call) and not moderate(factor):
        call.backend = "reference"
    flat = values.ndim == 1
    if flat:
        call.arrays = (queries, keys, values[:, None])
    result = call.finish((n, 1 if flat else values.shape[1]), None, factor)
    return result[:, 0] if flat else result


_FINITE = real("a finite number, or None")
_DEPTH = integer("a whole number from 0 to 1000000", lambda value: 0 <= value <= 1_000_000)
_SIDE = integer("a whole number from 1 to 1000001", lambda value: 1 <= value <= 1_000_001)

_cntk = Operation("gram.cntk", "X", "Y?")


def cntk(X: Array, Y: Array | None = None, *, depth: int = 3, kernel_size: int = 3, pooling: str = "mean") -> Array:
    r"""Neural tangent kernel of an infinitely wide convolutional ReLU network.

    Parameters
    ----------
    X : array of shape (n, C, H, W)
        Images.
    Y : array of shape (m, C, H, W), optional
        Other images of the same size. None means ``Y = X``.
    depth : int, default 3
        The number of convolutions, each followed by a ReLU. With 0, pooling and the dense layer are the whole network.
    kernel_size : int, default 3
        Side of the filters. The images are padded with zeros, so that layers keep their size; of an odd number of them
        the larger half comes after, as with ``padding="same"`` in `fastdl.conv`.
    pooling : {"mean", "flatten"}, default "mean"
        What comes before the dense layer at the end: the average over all positions, or all positions side by side.

    Returns
    -------
    array of shape (n, m)
        In the library and dtype of `X`; symmetric to the bit without `Y`.

    Raises
    ------
    ValueError
        If the shapes or values do not fit.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    The work is of the order of :math:`n m (H W)^2` per layer. Filters are normalised so that a ReLU keeps the variance
    of a position: on images of one pixel, ``cntk(depth, kernel_size=1)`` is half of
    ``ntk(depth, w_std=sqrt(2), normalize=False)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import gram
    >>> gram.cntk(np.ones((1, 2, 1, 1)), depth=1, kernel_size=1)
    array([[4.]])
    """
    call = _cntk.begin(X, None if Y is X else Y)
    images, others = call.arrays
    if images.ndim != 4 or 0 in images.shape[2:]:
        raise ValueError(f"[gram.cntk] expected X of shape (n, C, H, W), got {tuple(images.shape)}")
    if others is not None and (others.ndim != 4 or others.shape[1:] != images.shape[1:]):
        wanted = ", ".join(str(size) for size in images.shape[1:])
        raise ValueError(f"[gram.cntk] expected Y of shape (m, {wanted}), got {tuple(others.shape)}")
    layers = _DEPTH("gram.cntk", "depth", depth, 0)
    side = _SIDE("gram.cntk", "kernel_size", kernel_size, 0)
    if not isinstance(pooling, str):
        raise TypeError(f"[gram.cntk] expected pooling to be 'mean' or 'flatten', got {kind(pooling)}")
    if pooling not in ("mean", "flatten"):
        raise ValueError(f"[gram.cntk] expected pooling to be 'mean' or 'flatten', got {pooling!r}")
    if call.backend == "cuda" and not _fits(call, images.shape[2], images.shape[3], layers):
        call.backend = "reference"
    n = images.shape[0]
    return call.finish((n, n if others is None else others.shape[0]), None, layers, side, pooling)


def _fits(call: Call, height: int, width: int, layers: int) -> bool:
    """Tell whether the CUDA kernel takes images of this size: its maps lie in shared memory.

    Without a layer the average over the positions comes first, as the reference does it.
    """
    return layers > 0 and bool(load_cuda().gram.cntk_fits(height, width, call.precision.itemsize))
