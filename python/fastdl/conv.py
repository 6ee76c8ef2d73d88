"""Convolutions with filters, as networks have them, and all that goes with them.

The convolutions are here; their gradients, pooling, signals and graphs are in the modules ``_conv_*`` beside, and
public from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._conv_checks import (
    RANKS,
    activation_name,
    check_algorithm,
    check_bias,
    check_groups,
    check_kernel,
    check_maps,
    check_padding_mode,
    counts,
    finish_sized,
    forward,
    full_size,
    geometry,
)
from fastdl._conv_gradients import (
    conv1d_input,
    conv1d_weight,
    conv2d_input,
    conv2d_weight,
    conv3d_input,
    conv3d_weight,
)
from fastdl._conv_graph import gcn, graph_filter, graph_laplacian
from fastdl._conv_pool import (
    avg_pool1d,
    avg_pool1d_grad,
    avg_pool2d,
    avg_pool2d_grad,
    avg_pool3d,
    avg_pool3d_grad,
    max_pool1d,
    max_pool1d_grad,
    max_pool2d,
    max_pool2d_grad,
    max_pool3d,
    max_pool3d_grad,
)
from fastdl._conv_signal import circulant, convolve, correlate, toeplitz
from fastdl._dispatch import Operation, core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import Array
    from fastdl._conv_checks import Count, Padding

__all__ = [
    "PreparedConv",
    "avg_pool1d",
    "avg_pool1d_grad",
    "avg_pool2d",
    "avg_pool2d_grad",
    "avg_pool3d",
    "avg_pool3d_grad",
    "circulant",
    "conv1d",
    "conv1d_input",
    "conv1d_weight",
    "conv2d",
    "conv2d_input",
    "conv2d_weight",
    "conv3d",
    "conv3d_input",
    "conv3d_weight",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolve",
    "correlate",
    "gcn",
    "graph_filter",
    "graph_laplacian",
    "max_pool1d",
    "max_pool1d_grad",
    "max_pool2d",
    "max_pool2d_grad",
    "max_pool3d",
    "max_pool3d_grad",
    "prepare",
    "toeplitz",
]

_CONV = {rank: Operation(f"conv.conv{rank}d", "x", "w", "bias?") for rank in RANKS}
_CONV_TRANSPOSE = {rank: Operation(f"conv.conv_transpose{rank}d", "x", "w", "bias?") for rank in RANKS}


def _conv(
    rank: int,
    x: Array,
    w: Array,
    bias: Array | None,
    options: tuple[Any, Any, Any, Any],
    padding_mode: Any,
    activation: Any,
    algorithm: Any,
    out: Array | None,
    prepared: dict[Any, Any] | None = None,
) -> Array:
    """Check and compute; `options` are stride, padding, dilation and groups, `prepared` the filters kept by dtype."""
    operation = _CONV[rank]
    where = operation.name
    call = operation.begin(x, w, bias)
    maps, weights, constants = call.arrays
    x_shape = check_maps(where, "x", maps.shape, rank)
    kernel = check_kernel(where, "w", weights.shape, rank, "Cout, Cin / groups")
    shape, place = forward(where, ("x", x_shape), ("w", weights.shape), *options)
    check_bias(where, constants, shape[1])
    mode = check_padding_mode(where, padding_mode, x_shape[2:], place)
    name = activation_name(where, activation)
    how: Any = check_algorithm(where, algorithm, kernel, place)
    if prepared is not None and call.backend == "native" and how != "fft":
        filters = prepared.get(call.dtype)
        if filters is None:
            size = (place.stride, place.lower, place.dilation, place.groups)
            filters = prepared[call.dtype] = core.conv.filters(weights, x_shape, shape, *size, how)
        how = filters
    return call.finish(shape, out, *place, mode, name, how)


def _conv_transpose(
    rank: int, x: Array, w: Array, bias: Array | None, options: tuple[Any, Any, Any, Any], output_padding: Any
) -> Array:
    operation = _CONV_TRANSPOSE[rank]
    where = operation.name
    call = operation.begin(x, w, bias)
    maps, weights, constants = call.arrays
    x_shape = check_maps(where, "x", maps.shape, rank)
    kernel = check_kernel(where, "w", weights.shape, rank, "Cin, Cout / groups")
    place = geometry(where, kernel, *options)
    extra = counts(where, "output_padding", output_padding, rank, 0)
    check_groups(where, place.groups, x=x_shape[1])
    if weights.shape[0] != x_shape[1]:
        raise ValueError(
            f"[{where}] expected w of shape ({x_shape[1]}, ...) like the channels of x, got {weights.shape}"
        )
    if 0 in x_shape[2:]:
        raise ValueError(f"[{where}] expected x with positions, got shape {x_shape}")
    size = []
    for n, k, s, before, after, d, more in zip(x_shape[2:], kernel, *place[:4], extra, strict=True):
        if more >= max(s, d):
            raise ValueError(f"[{where}] expected output_padding below stride or dilation, {max(s, d)}, got {more}")
        size.append((n - 1) * s + d * (k - 1) + 1 + more - before - after)
    if min(size) < 1:
        raise ValueError(f"[{where}] expected padding that leaves something of the result, got size {tuple(size)}")
    shape = (x_shape[0], weights.shape[1] * place.groups, *size)
    check_bias(where, constants, shape[1])
    return finish_sized(call, shape, place.stride, place.lower, place.dilation, place.groups)


def conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    algorithm: str = "auto",
    out: Array | None = None,
) -> Array:
    r"""Cross-correlation of images with filters: the convolution of neural networks.

    Parameters
    ----------
    x : array of shape (N, Cin, H, W)
        Images. Any strides: a channels-last array is passed as its transposed view, and not copied.
    w : array of shape (Cout, Cin / groups, kH, kW)
        Filters.
    bias : array of shape (Cout,), optional
        Added to every position of a channel.
    stride : int or 2 ints, default 1
        Step from one position of the filters to the next.
    padding : int, 2 ints, "valid", "same" or "full", default 0
        Elements added on both sides of an axis. "valid" adds none, "full" dilation * (k - 1). "same" adds as many in
        all as "full" does on one side, half of them rounded down before, so that the size stays; it needs stride 1.
    dilation : int or 2 ints, default 1
        Step from one element of a filter to the next.
    groups : int, default 1
        Groups of channels that do not mix: a divisor of Cin and of Cout. Cin groups make a depthwise convolution.
    padding_mode : {"zeros", "circular", "reflect", "replicate"}, default "zeros"
        What is added: zeros, the image continued periodically, mirrored at its outermost elements (padding below the
        size), or those elements repeated.
    activation : {"relu", "leaky_relu", "sigmoid", "tanh"}, optional
        What is applied to the result; leaky_relu has slope 0.01.
    algorithm : {"auto", "direct", "winograd", "fft"}, default "auto"
        The sum itself; Winograd's for 3 × 3 filters with stride 1 and dilation 1; the product of Fourier transforms; or
        what is quickest for these sizes. "fft" spreads NaN and Inf over its tiles; the others keep them.
    out : array of the shape of the result, optional
        Where to put the result: of the library and dtype of the result, writable, and sharing no memory with an input.

    Returns
    -------
    array of shape (N, Cout, H', W')
        In the library and on the device of `x`; `out` itself if it was given. float32 if all inputs are, else float64.
        H' = (H + padding before and after - dilation * (k - 1) - 1) // stride + 1.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, the filters are larger than the padded images, or the algorithm cannot
        compute this.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    .. math:: y[n, o, p] = b_o +
        \sum_{c, q} w[o, c, q]\, x[n, c, \mathrm{stride}\, p + \mathrm{dilation}\, q - \mathrm{padding}]

    Compiled results do not depend on the number of threads, to the bit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> x = np.array([[2, 4, 9, 1, 4], [2, 1, 4, 4, 6], [1, 1, 2, 9, 2], [7, 3, 5, 1, 3], [2, 3, 4, 8, 5]])
    >>> w = np.array([[1, 2, 3], [-4, 7, 4], [2, -5, 1]])
    >>> conv.conv2d(x[None, None], w[None, None])
    array([[[[ 51.,  66.,  20.],
             [ 31.,  49., 101.],
             [ 15.,  53.,  -2.]]]])
    """
    place = (stride, padding, dilation, groups)
    return _conv(2, x, w, bias, place, padding_mode, activation, algorithm, out)


def conv1d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    algorithm: str = "auto",
    out: Array | None = None,
) -> Array:
    """Cross-correlation with filters: `conv2d` with one axis of positions.

    Parameters
    ----------
    x : array of shape (N, Cin, L)
    w : array of shape (Cout, Cin / groups, k)
    bias, stride, padding, dilation, groups, padding_mode, activation, algorithm, out
        As in `conv2d`; "winograd" is for images only.

    Returns
    -------
    array of shape (N, Cout, L')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv1d(np.array([[[1.0, 2.0, 3.0]]]), np.array([[[1.0, 10.0]]]))
    array([[[21., 32.]]])
    """
    place = (stride, padding, dilation, groups)
    return _conv(1, x, w, bias, place, padding_mode, activation, algorithm, out)


def conv3d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    algorithm: str = "auto",
    out: Array | None = None,
) -> Array:
    """Cross-correlation with filters: `conv2d` with three axes of positions.

    Parameters
    ----------
    x : array of shape (N, Cin, D, H, W)
    w : array of shape (Cout, Cin / groups, kD, kH, kW)
    bias, stride, padding, dilation, groups, padding_mode, activation, algorithm, out
        As in `conv2d`; "winograd" is for images only.

    Returns
    -------
    array of shape (N, Cout, D', H', W')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv3d(np.arange(8.0).reshape(1, 1, 2, 2, 2), np.ones((1, 1, 2, 2, 2)))
    array([[[[[28.]]]]])
    """
    place = (stride, padding, dilation, groups)
    return _conv(3, x, w, bias, place, padding_mode, activation, algorithm, out)


def conv_transpose2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    output_padding: Count = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    r"""Transposed convolution: every element of `x` puts down a filter, and where they overlap they add up.

    Parameters
    ----------
    x : array of shape (N, Cin, H, W)
        Images, with at least one position.
    w : array of shape (Cin, Cout / groups, kH, kW)
        Filters.
    bias : array of shape (Cout,), optional
        Added to every position of a channel.
    stride : int or 2 ints, default 1
        Step from one filter to the next, in the result.
    padding : int, 2 ints, "valid", "same" or "full", default 0
        Elements left out on both sides of an axis, as many as the convolution from there would add: see `conv2d`.
    output_padding : int or 2 ints, default 0
        Elements added after the last along an axis: below `stride` or `dilation`. Of the sizes from which a convolution
        with this stride comes to H, it chooses one.
    dilation : int or 2 ints, default 1
        Step from one element of a filter to the next.
    groups : int, default 1
        Groups of channels that do not mix: a divisor of Cin and of Cout.

    Returns
    -------
    array of shape (N, Cout, H', W')
        In the library and on the device of `x`. float32 if all inputs are, else float64.
        H' = (H - 1) * stride + dilation * (k - 1) + 1 + output_padding - padding before and after.

    Raises
    ------
    ValueError
        If the shapes or values do not fit, or nothing is left of the result.
    TypeError
        If a dtype or kind does not fit.

    Notes
    -----
    It is the adjoint of `conv2d` with the same filters, stride, padding and dilation.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv_transpose2d(np.array([[[[1.0, 2.0]]]]), np.array([[[[1.0, 10.0], [5.0, 0.0]]]]))
    array([[[[ 1., 12., 20.],
             [ 5., 10.,  0.]]]])
    """
    return _conv_transpose(2, x, w, bias, (stride, padding, dilation, groups), output_padding)


def conv_transpose1d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    output_padding: Count = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Transposed convolution: `conv_transpose2d` with one axis of positions.

    Parameters
    ----------
    x : array of shape (N, Cin, L)
    w : array of shape (Cin, Cout / groups, k)
    bias, stride, padding, output_padding, dilation, groups
        As in `conv_transpose2d`.

    Returns
    -------
    array of shape (N, Cout, L')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv_transpose1d(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0]]]), stride=2)
    array([[[ 1., 10.,  2., 20.]]])
    """
    return _conv_transpose(1, x, w, bias, (stride, padding, dilation, groups), output_padding)


def conv_transpose3d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    output_padding: Count = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Array:
    """Transposed convolution: `conv_transpose2d` with three axes of positions.

    Parameters
    ----------
    x : array of shape (N, Cin, D, H, W)
    w : array of shape (Cin, Cout / groups, kD, kH, kW)
    bias, stride, padding, output_padding, dilation, groups
        As in `conv_transpose2d`.

    Returns
    -------
    array of shape (N, Cout, D', H', W')

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> conv.conv_transpose3d(np.full((1, 1, 1, 1, 1), 3.0), np.arange(2.0).reshape(1, 1, 1, 1, 2))
    array([[[[[0., 3.]]]]])
    """
    return _conv_transpose(3, x, w, bias, (stride, padding, dilation, groups), output_padding)


class PreparedConv:
    """A convolution whose filters and options are fixed, made by `prepare`; called with `x`, and `out` if wanted."""

    __slots__ = ("_filters", "_rank", "_rest")

    def __init__(self, rank: int, **rest: Any) -> None:
        self._rank = rank
        self._rest = rest
        self._filters: dict[Any, Any] = {}  # by dtype, as the compiled code wants them; made by the first call

    def __call__(self, x: Array, out: Array | None = None) -> Array:
        """Convolve `x`."""
        return _conv(self._rank, x, out=out, prepared=self._filters, **self._rest)


def prepare(
    w: Array,
    input_size: Sequence[int] | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    bias: Array | None = None,
    algorithm: str = "auto",
) -> PreparedConv:
    """Make a convolution with fixed filters, for many calls.

    Parameters
    ----------
    w : array of shape (Cout, Cin / groups, kH, kW)
        Filters, with one to three axes after the first two; not to be changed afterwards.
    input_size : tuple of ints, optional
        Shape (N, Cin, H, W) that most calls will have. It is checked, but other shapes work too.
    stride, padding, dilation, groups, padding_mode, activation, bias, algorithm
        As in `conv2d`.

    Returns
    -------
    PreparedConv
        A function of `x`, and optionally `out`: `conv1d`, `conv2d` or `conv3d` with all the rest given here.

    Raises
    ------
    ValueError
        If the shapes or values do not fit; what depends on `x` is checked when it is called.
    TypeError
        If a dtype or kind does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl import conv
    >>> smooth = conv.prepare(np.array([[[0.25, 0.5, 0.25]]]), padding="same")
    >>> smooth(np.array([[[0.0, 4.0, 0.0]]]))
    array([[[1., 2., 1.]]])
    """
    where = "conv.prepare"
    shape = tuple(np.shape(w))
    rank = len(shape) - 2
    if rank not in RANKS:
        raise ValueError(f"[{where}] expected w of shape (Cout, Cin / groups, k, ...) with 3 to 5 axes, got {shape}")
    kernel = check_kernel(where, "w", shape, rank, "Cout, Cin / groups")
    options = (stride, padding, dilation, groups)
    place = geometry(where, kernel, *options)
    if input_size is not None:
        size = full_size(where, "input_size", input_size, rank)
        forward(where, ("input_size", size), ("w", shape), *options)
        check_padding_mode(where, padding_mode, size[2:], place)
    activation_name(where, activation)
    check_algorithm(where, algorithm, kernel, place)
    check_bias(where, bias, shape[0])
    return PreparedConv(
        rank,
        w=w,
        bias=bias,
        options=options,
        padding_mode=padding_mode,
        activation=activation,
        algorithm=algorithm,
    )
