"""A kernel as a module, with parameters that are learnt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from fastdl._kernels import find
from fastdl.torch import _gram

if TYPE_CHECKING:
    from torch import Tensor


class Gram(nn.Module):
    """A kernel: its Gram matrices, their diagonals and their products with vectors.

    Parameters
    ----------
    kernel : str or callable, default "rbf"
        As in `fastdl.torch.gram`.
    **params
        Parameters of the kernel, by name. A ``torch.nn.Parameter`` becomes a parameter of the module, another tensor a
        buffer. gamma and length_scale have gradients.

    Notes
    -----
    What keeps a parameter within its limits is left to the caller: ``torch.nn.utils.parametrize`` can do it.

    Examples
    --------
    >>> import torch
    >>> from fastdl.torch import Gram
    >>> kernel = Gram("rbf", gamma=torch.nn.Parameter(torch.tensor(0.25)))
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> K = kernel(X)
    >>> K.sum().backward()
    >>> round(kernel.gamma.grad.item(), 4)
    -2.1654
    """

    def __init__(self, kernel: Any = "rbf", **params: Any) -> None:
        super().__init__()
        where = "gram.gram"
        self.kernel = _gram.kernel_name(where, kernel)
        self._names = tuple(find(where, self.kernel).names(where, params))
        for name, value in params.items():
            if isinstance(value, nn.Parameter):
                self.register_parameter(name, value)
            elif isinstance(value, torch.Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def forward(self, X: Tensor, Y: Tensor | None = None) -> Tensor:
        """Compute K(X, Y), as `fastdl.torch.gram`."""
        return _gram.gram(X, Y, self.kernel, **self._given())

    def matvec(self, X: Tensor, v: Tensor, Y: Tensor | None = None) -> Tensor:
        """Compute K(X, Y) v without K, as `fastdl.torch.matvec`."""
        return _gram.matvec(X, v, Y, self.kernel, **self._given())

    def diag(self, X: Tensor) -> Tensor:
        """Compute the diagonal of K(X, X), as `fastdl.torch.diag`."""
        return _gram.diag(X, self.kernel, **self._given())

    def extra_repr(self) -> str:
        """Give the kernel, and the parameters that are numbers."""
        numbers = {name: value for name, value in self._given().items() if not isinstance(value, torch.Tensor)}
        return ", ".join([self.kernel, *(f"{name}={value}" for name, value in numbers.items())])
