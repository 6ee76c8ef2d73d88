"""Convolutions and pooling as modules: subclasses of those of torch.nn that compute with fastdl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from fastdl._conv_checks import ALGORITHMS, activation_name, choice
from fastdl.torch import _conv, _pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _batched(function: Callable[..., Any], rank: int, x: Tensor, *arguments: Any, **options: Any) -> Any:
    """Call a function of samples also for one that has no axis of samples, as modules of torch.nn do."""
    if x.ndim != rank + 1:
        return function(x, *arguments, **options)
    result = function(x.unsqueeze(0), *arguments, **options)
    return tuple(part.squeeze(0) for part in result) if isinstance(result, tuple) else result.squeeze(0)


class _Convolution(nn.Module):
    """What convolutions add to the modules of torch.nn."""

    _function: Callable[..., Tensor]
    _rank: int

    def __init__(self, *arguments: Any, activation: str | None = None, algorithm: str = "auto", **options: Any) -> None:
        super().__init__(*arguments, **options)
        where = f"conv.conv{self._rank}d"
        self.activation = activation_name(where, activation)
        self.algorithm = choice(where, "algorithm", algorithm, ALGORITHMS)

    def forward(self, input: Tensor) -> Tensor:
        """Convolve the input."""
        return _batched(
            type(self)._function,
            self._rank,
            input,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            padding_mode=self.padding_mode,
            activation=self.activation,
            algorithm=self.algorithm,
        )

    def extra_repr(self) -> str:
        """Give the arguments."""
        text: str = super().extra_repr()
        if self.activation is not None:
            text += f", activation={self.activation}"
        if self.algorithm != "auto":
            text += f", algorithm={self.algorithm}"
        return text


class Conv1d(_Convolution, nn.Conv1d):
    """`torch.nn.Conv1d` computed by `fastdl.torch.conv1d`, as `Conv2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.Conv1d`.
    activation, algorithm
        As in `Conv2d`.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import Conv1d
    >>> Conv1d(2, 3, 5, padding="same")(torch.ones(4, 2, 10)).shape
    torch.Size([4, 3, 10])
    """

    _function, _rank = staticmethod(_conv.conv1d), 1


class Conv2d(_Convolution, nn.Conv2d):
    """`torch.nn.Conv2d` computed by `fastdl.torch.conv2d`, with an activation if wanted.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.Conv2d`: in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        bias=True, padding_mode="zeros", device=None, dtype=None.
    activation : {"relu", "leaky_relu", "sigmoid", "tanh"}, optional
        What is applied to the result, within the convolution.
    algorithm : {"auto", "direct", "winograd", "fft"}, default "auto"
        As in `fastdl.conv.conv2d`.

    Notes
    -----
    Parameters begin as those of torch.nn do, with the same random numbers, and go by the same names: a ``state_dict``
    moves between the two.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import Conv2d
    >>> layer = Conv2d(3, 8, 3, padding=1, activation="relu")
    >>> layer
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), activation=relu)
    >>> layer(torch.ones(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    _function, _rank = staticmethod(_conv.conv2d), 2


class Conv3d(_Convolution, nn.Conv3d):
    """`torch.nn.Conv3d` computed by `fastdl.torch.conv3d`, as `Conv2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.Conv3d`.
    activation, algorithm
        As in `Conv2d`.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import Conv3d
    >>> Conv3d(1, 2, 3)(torch.ones(4, 1, 5, 6, 7)).shape
    torch.Size([4, 2, 3, 4, 5])
    """

    _function, _rank = staticmethod(_conv.conv3d), 3


class _Transposed(nn.Module):
    """What transposed convolutions add to the modules of torch.nn."""

    _function: Callable[..., Tensor]
    _rank: int

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Convolve the input; `output_size` chooses the padding of the output, as in torch.nn."""
        place = (self.stride, self.padding, self.kernel_size, self._rank, self.dilation)
        output_padding = self._output_padding(input, output_size, *place)
        return _batched(
            type(self)._function,
            self._rank,
            input,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            output_padding=output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )


class ConvTranspose1d(_Transposed, nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` computed by `fastdl.torch.conv_transpose1d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.ConvTranspose1d`.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import ConvTranspose1d
    >>> ConvTranspose1d(2, 3, 4, stride=2)(torch.ones(1, 2, 5)).shape
    torch.Size([1, 3, 12])
    """

    _function, _rank = staticmethod(_conv.conv_transpose1d), 1


class ConvTranspose2d(_Transposed, nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` computed by `fastdl.torch.conv_transpose2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.ConvTranspose2d`.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import ConvTranspose2d
    >>> ConvTranspose2d(2, 3, 3, stride=2, padding=1)(torch.ones(1, 2, 4, 4), output_size=(8, 8)).shape
    torch.Size([1, 3, 8, 8])
    """

    _function, _rank = staticmethod(_conv.conv_transpose2d), 2


class ConvTranspose3d(_Transposed, nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` computed by `fastdl.torch.conv_transpose3d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.ConvTranspose3d`.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import ConvTranspose3d
    >>> ConvTranspose3d(2, 3, 2)(torch.ones(1, 2, 4, 4, 4)).shape
    torch.Size([1, 3, 5, 5, 5])
    """

    _function, _rank = staticmethod(_conv.conv_transpose3d), 3


class _Pool(nn.Module):
    """What pooling adds to the modules of torch.nn: it refuses the options that fastdl does not have."""

    _function: Callable[..., Any]
    _rank: int
    _last: str  # the option after kernel_size, stride and padding

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name, wanted in (("dilation", 1), ("ceil_mode", False), ("divisor_override", None)):
            found = getattr(self, name, wanted)
            if any(value != wanted for value in (found if isinstance(found, (tuple, list)) else (found,))):
                where = f"conv.{type(self)._function.__name__}"
                raise ValueError(f"[{where}] expected {name}={wanted}, the only one there is, got {found}")

    def forward(self, input: Tensor) -> Any:
        """Pool the input."""
        options = {self._last: getattr(self, self._last)}
        function = type(self)._function
        return _batched(function, self._rank, input, self.kernel_size, self.stride, self.padding, **options)


class MaxPool1d(_Pool, nn.MaxPool1d):
    """`torch.nn.MaxPool1d` computed by `fastdl.torch.max_pool1d`, as `MaxPool2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.MaxPool1d`, with dilation 1 and without ceil_mode.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import MaxPool1d
    >>> MaxPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
    tensor([[[3., 2.]]])
    """

    _function, _rank, _last = staticmethod(_pool.max_pool1d), 1, "return_indices"


class MaxPool2d(_Pool, nn.MaxPool2d):
    """`torch.nn.MaxPool2d` computed by `fastdl.torch.max_pool2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.MaxPool2d`: kernel_size, stride=None, padding=0, return_indices=False; dilation is 1, and there
        is no ceil_mode.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import MaxPool2d
    >>> MaxPool2d(2)(torch.arange(4.0).reshape(1, 1, 2, 2))
    tensor([[[[3.]]]])
    """

    _function, _rank, _last = staticmethod(_pool.max_pool2d), 2, "return_indices"


class MaxPool3d(_Pool, nn.MaxPool3d):
    r"""`torch.nn.MaxPool3d` computed by `fastdl.torch.max_pool3d`, as `MaxPool2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.MaxPool3d`, with dilation 1 and without ceil_mode.

    Notes
    -----
    With a window of (1, k, k) it pools functions on a group, (N, C, \|G\|, H, W), over positions.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import MaxPool3d
    >>> MaxPool3d((1, 2, 2))(torch.ones(1, 8, 4, 6, 6)).shape
    torch.Size([1, 8, 4, 3, 3])
    """

    _function, _rank, _last = staticmethod(_pool.max_pool3d), 3, "return_indices"


class AvgPool1d(_Pool, nn.AvgPool1d):
    """`torch.nn.AvgPool1d` computed by `fastdl.torch.avg_pool1d`, as `AvgPool2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.AvgPool1d`, without ceil_mode.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import AvgPool1d
    >>> AvgPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]))
    tensor([[[2., 1.]]])
    """

    _function, _rank, _last = staticmethod(_pool.avg_pool1d), 1, "count_include_pad"


class AvgPool2d(_Pool, nn.AvgPool2d):
    """`torch.nn.AvgPool2d` computed by `fastdl.torch.avg_pool2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.AvgPool2d`: kernel_size, stride=None, padding=0, count_include_pad=True; there is no ceil_mode
        and no divisor_override.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import AvgPool2d
    >>> AvgPool2d(2)(torch.arange(4.0).reshape(1, 1, 2, 2))
    tensor([[[[1.5000]]]])
    """

    _function, _rank, _last = staticmethod(_pool.avg_pool2d), 2, "count_include_pad"


class AvgPool3d(_Pool, nn.AvgPool3d):
    """`torch.nn.AvgPool3d` computed by `fastdl.torch.avg_pool3d`, as `AvgPool2d`.

    Parameters
    ----------
    *arguments, **options
        As in `torch.nn.AvgPool3d`, without ceil_mode and divisor_override.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import AvgPool3d
    >>> AvgPool3d((1, 2, 2))(torch.ones(1, 8, 4, 6, 6)).shape
    torch.Size([1, 8, 4, 3, 3])
    """

    _function, _rank, _last = staticmethod(_pool.avg_pool3d), 3, "count_include_pad"
