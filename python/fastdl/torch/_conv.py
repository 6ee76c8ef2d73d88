"""Convolutions with gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import pad

from fastdl import conv
from fastdl._conv_checks import geometry
from fastdl.torch._functions import check, check_out, layer, recorded

if TYPE_CHECKING:
    from torch import Tensor

    from fastdl._conv_checks import Count, Padding, Sizes

    Options = dict[str, Any]  # stride, padding, dilation and groups


class _Convolution:
    """A convolution and its adjoints, for an input and filters of fixed shapes."""

    def __init__(
        self, rank: int, x: Tensor, w: Tensor, options: Options, padding_mode: str = "zeros", algorithm: str = "auto"
    ) -> None:
        self.name = f"conv{rank}d"
        self.x_shape, self.w_shape = tuple(x.shape), tuple(w.shape)
        self.options, self.padding_mode, self.algorithm = options, padding_mode, algorithm

    def _margins(self) -> tuple[Sizes, Sizes, Options]:
        """Give the padding before and after, and the options of the convolution of a padded input."""
        place = geometry(f"conv.{self.name}", self.w_shape[2:], **self.options)
        return place.lower, place.upper, {**self.options, "padding": 0}

    def forward(self, x: Tensor, w: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
        return getattr(conv, self.name)(
            x,
            w,
            bias,
            **self.options,
            padding_mode=self.padding_mode,
            activation=activation,
            algorithm=self.algorithm,
        )

    def input(self, w: Tensor, grad: Tensor) -> Tensor:
        gradient = getattr(conv, f"{self.name}_input")
        if self.padding_mode == "zeros":
            return gradient(self.x_shape, w, grad, **self.options)
        lower, upper, options = self._margins()
        size = [sum(extents) for extents in zip(self.x_shape[2:], lower, upper, strict=True)]
        return _folded(gradient((*self.x_shape[:2], *size), w, grad, **options), lower, upper, self.padding_mode)

    def weight(self, x: Tensor, grad: Tensor) -> Tensor:
        gradient = getattr(conv, f"{self.name}_weight")
        if self.padding_mode == "zeros":
            return gradient(x, self.w_shape, grad, **self.options)
        lower, upper, options = self._margins()
        return gradient(_padded(x, lower, upper, self.padding_mode), self.w_shape, grad, **options)


def _places(n: int, lower: int, upper: int, mode: str) -> Tensor:
    """Give the element that stands at each place of a padded axis of n elements."""
    places = torch.arange(-lower, n + upper)
    if mode == "circular":
        return places % n
    if mode == "replicate":
        return places.clamp(0, n - 1)
    period = max(1, 2 * (n - 1))
    places = places % period
    return torch.where(places < n, places, period - places)


def _padded(x: Tensor, lower: Sizes, upper: Sizes, mode: str) -> Tensor:
    for axis, (before, after) in enumerate(zip(lower, upper, strict=True), 2):
        if before or after:
            x = x.index_select(axis, _places(x.shape[axis], before, after, mode).to(x.device))
    return x


def _folded(grad: Tensor, lower: Sizes, upper: Sizes, mode: str) -> Tensor:
    """Give the adjoint of `_padded`: what stands in the margins is added to the elements it came from."""
    for axis, (before, after) in enumerate(zip(lower, upper, strict=True), 2):
        if before or after:
            n = grad.shape[axis] - before - after
            places = _places(n, before, after, mode).to(grad.device)
            inner = grad.narrow(axis, before, n).clone()
            for start, count in ((0, before), (before + n, after)):
                inner.index_add_(axis, places[start : start + count], grad.narrow(axis, start, count))
            grad = inner
    return grad


class _Transposed:
    """A transposed convolution and its adjoints: those of a convolution, changing places."""

    def __init__(self, rank: int, x: Tensor, w: Tensor, options: Options, output_padding: Count) -> None:
        self.rank, self.x_shape, self.w_shape = rank, tuple(x.shape), tuple(w.shape)
        self.options, self.output_padding = options, output_padding

    def forward(self, x: Tensor, w: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
        function = getattr(conv, f"conv_transpose{self.rank}d")
        return function(x, w, bias, output_padding=self.output_padding, **self.options)

    # With an output padding of a stride or more, which dilation allows, the convolution back has more positions than x.

    def input(self, w: Tensor, grad: Tensor) -> Tensor:
        x = getattr(conv, f"conv{self.rank}d")(grad, w, **self.options)
        return x[(..., *(slice(n) for n in self.x_shape[2:]))]

    def weight(self, x: Tensor, grad: Tensor) -> Tensor:
        place = geometry(f"conv.conv{self.rank}d", self.w_shape[2:], **self.options)
        missing = []
        for n, k, s, before, after, d, own in zip(
            grad.shape[2:], self.w_shape[2:], *place[:4], x.shape[2:], strict=True
        ):
            missing.append((n + before + after - d * (k - 1) - 1) // s + 1 - own)
        if any(missing):
            x = pad(x, [margin for count in reversed(missing) for margin in (0, count)])
        return getattr(conv, f"conv{self.rank}d_weight")(grad, self.w_shape, x, **self.options)


def _convolution(
    rank: int,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    options: Options,
    padding_mode: str,
    activation: str | None,
    algorithm: str,
    out: Tensor | None,
) -> Tensor:
    where = f"conv.conv{rank}d"
    check(where, {"bias": bias}, x=x, w=w)
    if out is None:
        return layer(x, w, bias, _Convolution(rank, x, w, options, padding_mode, algorithm), activation)
    if recorded(x, w, bias):
        check_out(where, out)
    function = getattr(conv, f"conv{rank}d")
    return function(
        x, w, bias, **options, padding_mode=padding_mode, activation=activation, algorithm=algorithm, out=out
    )


def conv2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    algorithm: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Cross-correlation of images with filters, `fastdl.conv.conv2d` with gradients for `x`, `w` and `bias`.

    Parameters
    ----------
    x : tensor of shape (N, Cin, H, W)
        Images. Any strides: channels-last tensors are not copied.
    w : tensor of shape (Cout, Cin / groups, kH, kW)
        Filters.
    bias : tensor of shape (Cout,), optional
    stride, padding, dilation, groups, padding_mode, activation, algorithm, out
        As in `fastdl.conv.conv2d`; `out` only where no gradient is recorded.

    Returns
    -------
    tensor of shape (N, Cout, H', W')
        Contiguous. float32 if all inputs are, else float64.

    Raises
    ------
    ValueError
        If the shapes or values do not fit.
    TypeError
        If an argument is not a tensor of float32 or float64.

    Notes
    -----
    Bias and activation are computed with the convolution; what goes back through the activation is found from the
    result. Gradients can be differentiated again, any number of times.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> x = torch.ones(1, 1, 3, 3, requires_grad=True)
    >>> fastdl.torch.conv2d(x, torch.ones(1, 1, 2, 2), activation="relu").sum().backward()
    >>> x.grad[0, 0]
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _convolution(2, x, w, bias, options, padding_mode, activation, algorithm, out)


def conv1d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    algorithm: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Cross-correlation with filters: `conv2d` with one axis of positions.

    Parameters
    ----------
    x : tensor of shape (N, Cin, L)
    w : tensor of shape (Cout, Cin / groups, k)
    bias, stride, padding, dilation, groups, padding_mode, activation, algorithm, out
        As in `conv2d`.

    Returns
    -------
    tensor of shape (N, Cout, L')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.conv1d(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[1.0, 10.0]]]))
    tensor([[[21., 32.]]])
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _convolution(1, x, w, bias, options, padding_mode, activation, algorithm, out)


def conv3d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    dilation: Count = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    activation: str | None = None,
    algorithm: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Cross-correlation with filters: `conv2d` with three axes of positions.

    Parameters
    ----------
    x : tensor of shape (N, Cin, D, H, W)
    w : tensor of shape (Cout, Cin / groups, kD, kH, kW)
    bias, stride, padding, dilation, groups, padding_mode, activation, algorithm, out
        As in `conv2d`.

    Returns
    -------
    tensor of shape (N, Cout, D', H', W')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.conv3d(torch.arange(8.0).reshape(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2))
    tensor([[[[[28.]]]]])
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _convolution(3, x, w, bias, options, padding_mode, activation, algorithm, out)


def _transposed(
    rank: int, x: Tensor, w: Tensor, bias: Tensor | None, options: Options, output_padding: Count
) -> Tensor:
    check(f"conv.conv_transpose{rank}d", {"bias": bias}, x=x, w=w)
    return layer(x, w, bias, _Transposed(rank, x, w, options, output_padding))


def conv_transpose2d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    output_padding: Count = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Tensor:
    """Transposed convolution, `fastdl.conv.conv_transpose2d` with gradients for `x`, `w` and `bias`.

    Parameters
    ----------
    x : tensor of shape (N, Cin, H, W)
    w : tensor of shape (Cin, Cout / groups, kH, kW)
    bias : tensor of shape (Cout,), optional
    stride, padding, output_padding, dilation, groups
        As in `fastdl.conv.conv_transpose2d`.

    Returns
    -------
    tensor of shape (N, Cout, H', W')

    Raises
    ------
    ValueError
        If the shapes or values do not fit.
    TypeError
        If an argument is not a tensor of float32 or float64.

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> w = torch.tensor([[[[1.0, 10.0], [5.0, 0.0]]]])
    >>> fastdl.torch.conv_transpose2d(torch.tensor([[[[1.0, 2.0]]]]), w)
    tensor([[[[ 1., 12., 20.],
              [ 5., 10.,  0.]]]])
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _transposed(2, x, w, bias, options, output_padding)


def conv_transpose1d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    output_padding: Count = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Tensor:
    """Transposed convolution: `conv_transpose2d` with one axis of positions.

    Parameters
    ----------
    x : tensor of shape (N, Cin, L)
    w : tensor of shape (Cin, Cout / groups, k)
    bias, stride, padding, output_padding, dilation, groups
        As in `conv_transpose2d`.

    Returns
    -------
    tensor of shape (N, Cout, L')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.conv_transpose1d(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _transposed(1, x, w, bias, options, output_padding)


def conv_transpose3d(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Count = 1,
    padding: Padding = 0,
    output_padding: Count = 0,
    dilation: Count = 1,
    groups: int = 1,
) -> Tensor:
    """Transposed convolution: `conv_transpose2d` with three axes of positions.

    Parameters
    ----------
    x : tensor of shape (N, Cin, D, H, W)
    w : tensor of shape (Cin, Cout / groups, kD, kH, kW)
    bias, stride, padding, output_padding, dilation, groups
        As in `conv_transpose2d`.

    Returns
    -------
    tensor of shape (N, Cout, D', H', W')

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> fastdl.torch.conv_transpose3d(torch.full((1, 1, 1, 1, 1), 3.0), torch.arange(2.0).reshape(1, 1, 1, 1, 2))
    tensor([[[[[0., 3.]]]]])
    """
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _transposed(3, x, w, bias, options, output_padding)
