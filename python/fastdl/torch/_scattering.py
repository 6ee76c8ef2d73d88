"""Scattering transforms as modules, with gradients for their input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from fastdl import scattering
from fastdl.scattering._base import OUT_TYPES
from fastdl.scattering._checks import choice
from fastdl.torch._functions import Function, call, check, once, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class _Transformed(Function):
    """A function of x, with one tensor or several as its result, whose gradient is `back(x, *grads)`."""

    @staticmethod
    def forward(x: Tensor, where: str, there: Callable[[Tensor], Any], back: Callable[..., Tensor]) -> Any:
        return there(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, ctx.where, _, ctx.back = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return once(ctx.where, ctx.back, *ctx.saved_tensors, *grads), None, None, None


def _transformed(x: Tensor, where: str, there: Callable[[Tensor], Any], back: Callable[..., Tensor]) -> Any:
    check(where, x=x)
    return call(_Transformed, x, where, there, back) if recorded(x) else there(x)


class _Scattering(nn.Module):
    """What the transforms share. They have no parameters: the attributes are those of the plain transform within."""

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self._transform = transform

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            return getattr(self._transform, name)

    def __setattr__(self, name: str, value: Any) -> None:
        transform = self.__dict__.get("_transform")
        if transform is not None and name in vars(transform) and name != "out_type":
            setattr(transform, name, value)
        else:
            super().__setattr__(name, value)

    def extra_repr(self) -> str:
        """Give the arguments."""
        return repr(self._transform).partition("(")[2][:-1]

    def forward(self, x: Tensor) -> Any:
        """Compute the transform: the same as `scattering`."""
        return self.scattering(x)

    def scattering(self, x: Tensor) -> Any:
        r"""Compute the transform of all signals in `x`.

        Parameters
        ----------
        x : tensor of shape (..., \*shape)
            Signals, with any axes before; float32 or float64.

        Returns
        -------
        tensor
            As the plain transform gives it.
        """
        transform = self._transform
        return _transformed(x, transform._forward.name, transform.scattering, transform.vjp)

    def moments(self, x: Tensor) -> Tensor:
        r"""Compute means in place of local averages, as `moments` of the plain transform.

        Parameters
        ----------
        x : tensor of shape (..., \*shape)
            Signals, as in `scattering`.

        Returns
        -------
        tensor
            As the plain transform gives it.
        """
        transform = self._transform
        return _transformed(x, transform._forward.name, transform.moments, transform.moments_vjp)


class _WithPaths(_Scattering):
    """What the transforms of signals and images share: the forms of their results."""

    out_type: str

    def _paths(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(path["coef"] for path in self._transform.scattering(x))

    def _paths_back(self, x: Tensor, *grads: Tensor) -> Tensor:
        return self._transform.vjp(x, list(grads))

    def scattering(self, x: Tensor) -> Any:
        r"""Compute the transform of all signals in `x`.

        Parameters
        ----------
        x : tensor of shape (..., \*shape)
            Signals, with any axes before; float32 or float64.

        Returns
        -------
        tensor, list or dict
            As `out_type` says, as the plain transform: a tensor (..., paths, \*output); a list of dicts with the
            coefficients of each path as ``"coef"``; or a dict of them by the numbers of the wavelets.
        """
        transform = self._transform
        where = transform._forward.name
        out_type = choice(where, "out_type", self.out_type, OUT_TYPES)
        tree = transform._current()
        transform.out_type = "array" if tree.averaged else "list"  # the forms are made here, of tensors
        parts: Any
        if tree.averaged:
            y = super().scattering(x)
            if out_type == "array":
                return y
            parts = y.unbind(-1 - len(tree.shape))
        else:
            if out_type == "array":
                raise ValueError(f"[{where}] expected out_type 'list' or 'dict' without averaging, got 'array'")
            parts = _transformed(x, where, self._paths, self._paths_back)
        if out_type == "dict":
            return {path: parts[channel] for path, channel in tree.channels.items()}
        return [{"coef": parts[channel], **transform._description(path)} for path, channel in tree.channels.items()]


class Scattering1D(_WithPaths):
    """The scattering transform of signals, `fastdl.scattering.Scattering1D` with a gradient for its input.

    Parameters
    ----------
    J, shape, Q, T, max_order, oversampling, out_type, normalization, average, backend
        As in `fastdl.scattering.Scattering1D`.

    Notes
    -----
    A module without parameters: `forward`, `scattering` and `moments` take tensors (..., N). `meta`, `output_size`,
    `filters` and all other attributes are those of the plain transform. Gradients cannot be differentiated again.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import Scattering1D
    >>> S = Scattering1D(J=4, shape=1000, Q=8)
    >>> x = torch.randn(2, 1000, requires_grad=True)
    >>> S(x).shape
    torch.Size([2, 50, 63])
    >>> S.moments(x).sum().backward()
    >>> x.grad.shape
    torch.Size([2, 1000])
    """

    def __init__(
        self,
        J: int,
        shape: int | tuple[int],
        Q: int | tuple[int, ...] = 1,
        T: float | None = None,
        max_order: int = 2,
        oversampling: int = 0,
        out_type: str = "array",
        normalization: str = "sum",
        *,
        average: bool | None = None,
        backend: Any = None,
    ) -> None:
        options = {"average": average, "backend": backend}
        transform = scattering.Scattering1D(J, shape, Q, T, max_order, oversampling, out_type, normalization, **options)
        super().__init__(transform)
        self.out_type = out_type


class Scattering2D(_WithPaths):
    """The scattering transform of images, `fastdl.scattering.Scattering2D` with a gradient for its input.

    Parameters
    ----------
    J, shape, L, max_order, pre_pad, out_type, backend
        As in `fastdl.scattering.Scattering2D`.

    Notes
    -----
    A module without parameters: `forward`, `scattering` and `moments` take tensors (..., M, N). `meta`, `output_size`,
    `filters` and all other attributes are those of the plain transform. Gradients cannot be differentiated again.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import Scattering2D
    >>> S = Scattering2D(J=2, shape=(32, 32))
    >>> S
    Scattering2D(J=2, shape=(32, 32), L=8, max_order=2)
    >>> S(torch.ones(5, 3, 32, 32)).shape
    torch.Size([5, 3, 81, 8, 8])
    """

    def __init__(
        self,
        J: int,
        shape: tuple[int, int],
        L: int = 8,
        max_order: int = 2,
        pre_pad: bool = False,
        out_type: str = "array",
        *,
        backend: Any = None,
    ) -> None:
        transform = scattering.Scattering2D(J, shape, L, max_order, pre_pad, out_type, backend=backend)
        super().__init__(transform)
        self.out_type = out_type


class HarmonicScattering3D(_Scattering):
    """Solid harmonic scattering of volumes, `fastdl.scattering.HarmonicScattering3D` with a gradient for its input.

    Parameters
    ----------
    J, shape, L, sigma_0, max_order, rotation_covariant, integral_powers, method, points, backend
        As in `fastdl.scattering.HarmonicScattering3D`.

    Notes
    -----
    A module without parameters: `forward`, `scattering` and `moments` take tensors (..., M, N, O). `meta`,
    `output_size`, `filters` and all other attributes are those of the plain transform. Gradients cannot be
    differentiated again.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import HarmonicScattering3D
    >>> HarmonicScattering3D(J=1, shape=(8, 8, 8), L=2)(torch.ones(4, 8, 8, 8)).shape
    torch.Size([4, 3, 3, 3])
    """

    def __init__(
        self,
        J: int,
        shape: tuple[int, int, int],
        L: int = 3,
        sigma_0: float = 1,
        max_order: int = 2,
        rotation_covariant: bool = True,
        integral_powers: tuple[float, ...] = (0.5, 1.0, 2.0),
        *,
        method: str = "integral",
        points: Any = None,
        backend: Any = None,
    ) -> None:
        super().__init__(
            scattering.HarmonicScattering3D(
                J,
                shape,
                L,
                sigma_0,
                max_order,
                rotation_covariant,
                integral_powers,
                method=method,
                points=points,
                backend=backend,
            )
        )


class RotoTranslationScattering2D(_Scattering):
    """Scattering on rotations and translations, `fastdl.scattering.RotoTranslationScattering2D` with a gradient.

    Parameters
    ----------
    J, shape, L, K, max_order
        As in `fastdl.scattering.RotoTranslationScattering2D`.

    Notes
    -----
    A module without parameters: `forward`, `scattering` and `moments` take tensors (..., M, N). `meta`, `output_size`,
    `filters` and all other attributes are those of the plain transform. Gradients cannot be differentiated again.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import RotoTranslationScattering2D
    >>> RotoTranslationScattering2D(J=2, shape=(16, 16), L=4)(torch.ones(16, 16)).shape
    torch.Size([15, 4, 4])
    """

    def __init__(self, J: int, shape: tuple[int, int], L: int = 8, K: int = 3, max_order: int = 2) -> None:
        super().__init__(scattering.RotoTranslationScattering2D(J, shape, L, K, max_order))


class _Wavelets(Function):
    @staticmethod
    def forward(x: Tensor, J: int, wavelet: str) -> tuple[Tensor, ...]:
        approximation, details = scattering.wavelet_transform2d(x, J, wavelet)
        return approximation, *details

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, _, ctx.wavelet = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return call(_Image, ctx.wavelet, *grads), None, None


class _Image(Function):
    @staticmethod
    def forward(wavelet: str, approximation: Tensor, *details: Tensor) -> Tensor:
        image = scattering.inverse_wavelet_transform2d(approximation, list(details), wavelet)
        return image if details else image.clone()  # which would be the approximation itself

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.wavelet, ctx.scales = inputs[0], len(inputs) - 2

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> tuple[Any, ...]:
        if not ctx.scales:
            return None, x
        return None, *call(_Wavelets, x, ctx.scales, ctx.wavelet)


def wavelet_transform2d(x: Tensor, J: int, wavelet: str = "haar") -> tuple[Tensor, list[Tensor]]:
    """Compute the fast wavelet transform of images, `fastdl.scattering.wavelet_transform2d` with a gradient.

    Parameters
    ----------
    x : tensor of shape (..., M, N)
    J, wavelet
        As in `fastdl.scattering.wavelet_transform2d`.

    Returns
    -------
    approximation : tensor of shape (..., M / 2^J, N / 2^J)
    details : list of J tensors of shape (..., 3, M / 2^j, N / 2^j), j = 1 to J

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> approximation, details = fastdl.torch.wavelet_transform2d(torch.ones(4, 4), 1)
    >>> approximation.shape, details[0].shape
    (torch.Size([2, 2]), torch.Size([3, 2, 2]))
    """
    check("scattering.wavelet_transform2d", x=x)
    if not recorded(x):
        return scattering.wavelet_transform2d(x, J, wavelet)
    approximation, *details = call(_Wavelets, x, J, wavelet)
    return approximation, details


def inverse_wavelet_transform2d(approximation: Tensor, details: list[Tensor], wavelet: str = "haar") -> Tensor:
    """Compute images from their wavelet transform, `fastdl.scattering.inverse_wavelet_transform2d` with gradients.

    Parameters
    ----------
    approximation : tensor of shape (..., M / 2^J, N / 2^J)
    details : list of J tensors
    wavelet : str, default "haar"
        As in `fastdl.scattering.inverse_wavelet_transform2d`.

    Returns
    -------
    tensor of shape (..., M, N)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> x = torch.arange(64.0).reshape(8, 8)
    >>> y = fastdl.torch.inverse_wavelet_transform2d(*fastdl.torch.wavelet_transform2d(x, 2, "db2"), "db2")
    >>> torch.allclose(y, x, atol=1e-4)
    True
    """
    where = "scattering.inverse_wavelet_transform2d"
    check(where, approximation=approximation)
    if not isinstance(details, (list, tuple)) or not recorded(approximation, *details):
        return scattering.inverse_wavelet_transform2d(approximation, details, wavelet)
    check(where, **{f"details[{number}]": part for number, part in enumerate(details)})
    return call(_Image, wavelet, approximation, *details)
