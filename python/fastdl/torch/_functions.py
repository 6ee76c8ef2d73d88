"""What the functions of this package share: their checks, and the maps that they are made of as autograd functions.

Compiled code is called within `Function.forward` alone, where tensors carry no history; gradients go back through the
same functions. So a gradient can be differentiated again wherever it is made of such maps, and `torch.func` sees
through all of them.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.autograd import forward_ad

from fastdl._arrays import dtype_name, kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    Map = Callable[[Tensor], Tensor]

# Not of torch's public interface. Without the first two small calls take longer; without the others every tensor is
# followed within a transform of torch.func, also those that are constant there.
try:
    from torch._functorch.utils import unwrap_dead_wrappers
except ImportError:
    unwrap_dead_wrappers = None
_transforms_active: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
try:
    from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
except ImportError:
    get_unwrapped = lambda tensor: tensor  # noqa: E731
    is_functorch_wrapped_tensor = lambda tensor: False  # noqa: E731
    is_batchedtensor = lambda tensor: _transforms_active()  # noqa: E731


def check(where: str, optional: dict[str, object] | None = None, **arguments: object) -> None:
    """Refuse what is not a tensor of float32 or float64; `optional` arguments may be None."""
    given = {name: value for name, value in (optional or {}).items() if value is not None}
    for name, value in (arguments | given).items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"[{where}] expected {name} to be a torch.Tensor, got {kind(value)}")
        if value.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"[{where}] expected {name} of dtype float32 or float64, got {dtype_name(value.dtype)}")


def recorded(*values: object) -> bool:
    """Tell whether autograd has to know of a call. If not, the plain function will do, and nothing is kept of it."""
    if _transforms_active():  # of which the tensors themselves do not tell
        return True
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    # Forward mode would go astray in the plain function; here it ends in torch's own message.
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


def _layers(value: Tensor) -> Iterator[Tensor]:
    """Give a tensor and what it is around within the transforms of `torch.func`, one layer for each of them."""
    while _transforms_active() and is_functorch_wrapped_tensor(value):
        yield value
        value = get_unwrapped(value)
    yield value


def differentiated(value: object) -> bool:
    """Tell whether a derivative with respect to this very tensor is recorded, by autograd or within `torch.func`."""
    if not isinstance(value, torch.Tensor):
        return False
    layers = list(_layers(value))
    if torch.is_grad_enabled() and any(layer.requires_grad for layer in layers):
        return True
    return any(forward_ad.unpack_dual(layer).tangent is not None for layer in layers)


def mapped(value: Tensor) -> bool:
    """Tell whether `torch.func.vmap` maps over this very tensor."""
    return any(is_batchedtensor(layer) for layer in _layers(value))


def check_out(where: str, out: object) -> None:
    """Refuse `out` for a result that autograd has to know of, as torch does."""
    if out is not None:
        raise ValueError(f"[{where}] expected no out where gradients are recorded, got {kind(out)}")


class Function(torch.autograd.Function):
    """An autograd function that `torch.func.vmap` runs in a loop."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        """Call the function for one sample after another."""

        def sample(i: int) -> Any:
            return cls.apply(
                *(
                    value.select(axis, i) if isinstance(axis, int) else value
                    for value, axis in zip(arguments, in_dims, strict=True)
                )
            )

        if not info.batch_size:
            raise ValueError(
                "[torch.vmap] expected a sample at least, of which the shape of the result is known, got none"
            )
        results = [sample(i) for i in range(info.batch_size)]
        if isinstance(results[0], tuple):
            return tuple(None if parts[0] is None else torch.stack(parts) for parts in zip(*results, strict=True)), 0
        return torch.stack(results), 0


def call(function: type[Function], *arguments: Any) -> Any:
    """Apply a function as torch does, but do not match the arguments with its signature for the sake of defaults.

    No function here has any, and looking for them took four fifths of the time of such a call.
    """
    if unwrap_dead_wrappers is None or _transforms_active() or torch.compiler.is_compiling():
        return function.apply(*arguments)
    return super(torch.autograd.Function, function).apply(*unwrap_dead_wrappers(arguments))


def full_precision(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Make a `backward` that multiplies matrices by torch do so in their own type, under `torch.autocast` too."""

    @wraps(backward)
    def run(ctx: Any, grad: Tensor) -> Any:
        with torch.autocast(grad.device.type, enabled=False):
            return backward(ctx, grad)

    return run


class _Linear(Function):
    @staticmethod
    def forward(x: Tensor, there: Map, back: Map) -> Tensor:
        return there(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.there, ctx.back = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return call(_Linear, grad, ctx.back, ctx.there), None, None


def linear(x: Tensor, there: Map, back: Map) -> Tensor:
    """Apply a linear map whose adjoint is `back`. Neither may hold on to a tensor."""
    return call(_Linear, x, there, back) if recorded(x) else there(x)


class Bilinear(Protocol):
    """A map of inputs and filters that is linear in each, and its adjoints."""

    def forward(self, x: Tensor, w: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
        """Give activation(B(x, w) + bias)."""

    def input(self, w: Tensor, grad: Tensor) -> Tensor:
        """Give the gradient of ⟨grad, B(x, w)⟩ for x."""

    def weight(self, x: Tensor, grad: Tensor) -> Tensor:
        """Give the gradient of ⟨grad, B(x, w)⟩ for w."""


# From the result alone, with gradients of their own. NaN lets the gradient through, as in torch.
_BEFORE_ACTIVATION: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda grad, y: torch.ops.aten.threshold_backward(grad, y, 0),
    "leaky_relu": lambda grad, y: torch.ops.aten.leaky_relu_backward(grad, y, 0.01, True),
    "sigmoid": torch.ops.aten.sigmoid_backward,
    "tanh": torch.ops.aten.tanh_backward,
}


class _Layer(Function):
    @staticmethod
    def forward(x: Tensor, w: Tensor, bias: Tensor | None, maps: Bilinear, activation: str | None) -> Tensor:
        return maps.forward(x, w, bias, activation)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, ctx.maps, ctx.activation = inputs
        for_x, for_w = ctx.needs_input_grad[:2]
        ctx.save_for_backward(x if for_w else None, w if for_x else None, None if ctx.activation is None else output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, w, y = ctx.saved_tensors
        for_x, for_w, for_bias = ctx.needs_input_grad[:3]
        if y is not None:
            grad = _BEFORE_ACTIVATION[ctx.activation](grad, y)
        return (
            call(_Input, w, grad, ctx.maps) if for_x else None,
            call(_Weight, x, grad, ctx.maps) if for_w else None,
            grad.sum([axis for axis in range(grad.ndim) if axis != 1]) if for_bias else None,
            None,
            None,
        )


class _Input(Function):
    @staticmethod
    def forward(w: Tensor, grad: Tensor, maps: Bilinear) -> Tensor:
        return maps.input(w, grad)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        w, grad, ctx.maps = inputs
        for_w, for_grad = ctx.needs_input_grad[:2]
        ctx.save_for_backward(w if for_grad else None, grad if for_w else None)

    @staticmethod
    def backward(ctx: Any, x: Tensor) -> tuple[Any, ...]:
        w, grad = ctx.saved_tensors
        for_w, for_grad = ctx.needs_input_grad[:2]
        return (
            call(_Weight, x, grad, ctx.maps) if for_w else None,
            call(_Layer, x, w, None, ctx.maps, None) if for_grad else None,
            None,
        )


class _Weight(Function):
    @staticmethod
    def forward(x: Tensor, grad: Tensor, maps: Bilinear) -> Tensor:
        return maps.weight(x, grad)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, grad, ctx.maps = inputs
        for_x, for_grad = ctx.needs_input_grad[:2]
        ctx.save_for_backward(x if for_grad else None, grad if for_x else None)

    @staticmethod
    def backward(ctx: Any, w: Tensor) -> tuple[Any, ...]:
        x, grad = ctx.saved_tensors
        for_x, for_grad = ctx.needs_input_grad[:2]
        return (
            call(_Input, w, grad, ctx.maps) if for_x else None,
            call(_Layer, x, w, None, ctx.maps, None) if for_grad else None,
            None,
        )


def layer(x: Tensor, w: Tensor, bias: Tensor | None, maps: Bilinear, activation: str | None = None) -> Tensor:
    """Apply a bilinear map, a bias along axis 1 and an activation in one call."""
    if not recorded(x, w, bias):
        return maps.forward(x, w, bias, activation)
    return call(_Layer, x, w, bias, maps, activation)


class _Once(Function):
    @staticmethod
    def forward(where: str, compute: Callable[..., Any], *tensors: Tensor | None) -> Any:
        return compute(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.where = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        raise RuntimeError(f"[{ctx.where}] expected to be differentiated once, got a gradient of its gradient")


def once(where: str, compute: Callable[..., Any], *tensors: Tensor | None) -> Any:
    """Compute gradients that have none of their own. `compute` may not hold on to a tensor."""
    return call(_Once, where, compute, *tensors)
