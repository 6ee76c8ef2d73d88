"""What transforms of signals and images share: calls, gradients, moments, and the forms of their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind
from fastdl._dispatch import Operation
from fastdl.scattering._checks import batch_of, choice, grad_of
from fastdl.scattering._native import plan_of, unaveraged_of
from fastdl.scattering._range import scaled, unscaled

if TYPE_CHECKING:
    from fastdl._arrays import Array
    from fastdl._dispatch import Call
    from fastdl.scattering._tree import Tree

OUT_TYPES = ("array", "list", "dict")


class Transform:
    """A scattering transform that is described by a tree."""

    _forward: Operation
    _backward: Operation
    _mean: Operation
    _mean_backward: Operation
    _tree: Tree
    out_type: str

    def _description(self, path: tuple[int, ...]) -> dict[str, Any]:
        """Tell the scales and angles of a path, for the output as a list."""
        raise NotImplementedError

    def _begin(self, operation: Operation, *arrays: Array) -> tuple[Call, tuple[int, ...], Any]:
        """Check the arrays; give the call, its batch, and what the backend is told of the transform."""
        call = operation.begin(*arrays)
        tree = self._current()
        batch = batch_of(call, tree.shape)
        if call.compiled:
            means = operation in (self._mean, self._mean_backward)
            plan: Any = plan_of(tree, call, means) if tree.averaged or means else unaveraged_of(tree, call)
            if plan is not None:
                return call, batch, plan
            call.backend = "reference"
        return call, batch, tree

    def _current(self) -> Tree:
        return self._tree

    def __getstate__(self) -> dict[str, Any]:
        # A copy travels as its parameters: filters take megabytes, and a process keeps those it has made.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._tree = self._current()

    def __call__(self, x: Array) -> Any:
        r"""Compute the transform: the same as `scattering`."""
        return self.scattering(x)

    def scattering(self, x: Array) -> Any:
        r"""Compute the transform of all signals in `x`.

        Parameters
        ----------
        x : array of shape (..., \*shape)
            Signals, with any axes before; float32 or float64, and integers are taken as float64.

        Returns
        -------
        array, list or dict
            As `out_type` says: an array (..., paths, \*output); a list of dicts with the coefficients of each path as
            ``"coef"``; or a dict of them by the numbers of the wavelets. In the library and dtype of `x`.

        Raises
        ------
        ValueError
            If the last axes of `x` are not of the shape that the transform was made for.
        TypeError
            If the dtype is float16, complex or another that is not supported.
        """
        where = self._forward.name
        out_type = choice(where, "out_type", self.out_type, OUT_TYPES)
        call, batch, told = self._begin(self._forward, x)
        tree = self._current()
        if not tree.averaged:
            if out_type == "array":
                raise ValueError(f"[{where}] expected out_type 'list' or 'dict' without averaging, got 'array'")
            parts = self._moduli(call, batch, told)
        else:
            exponent = scaled(call, len(self._current().shape))
            result = call.finish((*batch, len(tree.channels), *tree.output), None, told)
            result = unscaled(call, result, exponent)
            if out_type == "array":
                return result
            every = (slice(None),) * len(batch)
            parts = [result[(*every, channel, ...)] for channel in range(len(tree.channels))]
        if out_type == "dict":
            return {path: parts[channel] for path, channel in tree.channels.items()}
        return [{"coef": parts[channel], **self._description(path)} for path, channel in tree.channels.items()]

    def _moduli(self, call: Call, batch: tuple[int, ...], told: Any) -> Any:
        """Give all paths without averages, a list of arrays."""
        if call.backend != "native":
            return call.finish((), None, told)
        exponent = scaled(call, len(self._current().shape))
        results = told.rooms(call, batch)
        told.forward(call.arrays[0], results)
        return [call.home(unscaled(call, result, exponent)) for result in results]

    def vjp(self, x: Array, grad: Any) -> Array:
        r"""Compute the gradient of a loss for `x` from its gradient for the result.

        Parameters
        ----------
        x : array of shape (..., \*shape)
            Signals, as in `scattering`.
        grad : array, list or dict
            The gradient for the result, in the form that `scattering` gives.

        Returns
        -------
        array
            The gradient for `x`, in its shape. Where a modulus is 0, its gradient is taken as 0.

        Raises
        ------
        ValueError
            If a shape does not fit.
        TypeError
            If a dtype or kind does not fit.
        """
        tree, where = self._current(), self._backward.name
        if isinstance(grad, dict):
            lacking = [path for path in tree.channels if path not in grad]
            if lacking:
                raise ValueError(f"[{where}] expected grad with all paths, got none for {lacking[0]}")
            grad = [grad[path] for path in tree.channels]
        elif isinstance(grad, list) and grad and isinstance(grad[0], dict):
            grad = [part["coef"] for part in grad]
        if not tree.averaged:
            return self._vjp_of_paths(x, grad)
        if isinstance(grad, (list, tuple)):
            grad = self._stacked(x, grad)
        call, batch, told = self._begin(self._backward, x, grad)
        grad_of(call, (*batch, len(tree.channels), *tree.output))
        scaled(call, len(self._current().shape))  # of which gradients do not depend
        return self._reshaped(call, where, told)

    def _reshaped(self, call: Call, where: str, told: Any) -> Array:
        return call.finish(tuple(call.arrays[0].shape), None, told)

    def _stacked(self, x: Array, parts: Any) -> Array:
        """Put the paths of a list into one array."""
        tree, where = self._current(), self._backward.name
        if len(parts) != len(tree.channels):
            raise ValueError(f"[{where}] expected grad of {len(tree.channels)} paths, got {len(parts)}")
        axis = np.ndim(parts[0]) - len(tree.shape)
        if hasattr(parts[0], "__array_namespace__") or type(parts[0]).__module__.startswith("torch"):
            from array_api_compat import array_namespace

            return array_namespace(*parts).stack(list(parts), axis=axis)
        return np.stack([np.asarray(part) for part in parts], axis=axis)

    def _vjp_of_paths(self, x: Array, grads: Any) -> Array:
        tree, where = self._current(), self._backward.name
        if not isinstance(grads, (list, tuple)):
            raise TypeError(f"[{where}] expected grad to be a list or dict of paths, got {kind(grads)}")
        if len(grads) != len(tree.channels):
            raise ValueError(f"[{where}] expected grad of {len(tree.channels)} paths, got {len(grads)}")
        names = (f"grad[{number}]" for number in range(len(grads)))
        call = Operation(where, "x", *names).begin(x, *grads)
        batch = batch_of(call, tree.shape)
        first, *parts = call.arrays
        for path, part in zip(tree.channels, parts, strict=True):
            inside = self._level_of(path).inside
            wanted = (*batch, *(end - first for first, end in inside))
            if tuple(part.shape) != wanted:
                raise ValueError(f"[{where}] expected grad of path {path} of shape {wanted}, got {tuple(part.shape)}")
        plan = unaveraged_of(tree, call)
        if plan is not None:
            scaled(call, len(tree.shape))  # of which gradients do not depend
            out: Any = call.room(tuple(first.shape))
            plan.backward(call.arrays[0], parts, out)
            return call.home(out)
        return call.sent_home(self._backward.reference(call.readable(first), list(map(call.readable, parts)), tree))

    def _level_of(self, path: tuple[int, ...]) -> Any:
        tree = self._current()
        if not path:
            return tree.levels[0]
        for group in tree.groups:
            for wavelet in group.members:
                if wavelet.number == path[0]:
                    followers = [v for v in group.followers if len(path) == 2 and v.number == path[1]]
                    return tree.levels[followers[0].level if followers else wavelet.level]
        raise KeyError(path)

    def moments(self, x: Array) -> Array:
        r"""Compute expected scattering: the mean of every path over the signal, with no low-pass.

        Parameters
        ----------
        x : array of shape (..., \*shape)
            Signals, as in `scattering`.

        Returns
        -------
        array of shape (..., paths)
            Means of the signal and of the moduli of both orders, in the order of the paths.

        Raises
        ------
        ValueError
            If the last axes of `x` are not of the shape that the transform was made for.
        TypeError
            If the dtype is not supported.
        """
        call, batch, told = self._begin(self._mean, x)
        exponent = scaled(call, len(self._current().shape))
        return unscaled(call, call.finish((*batch, len(self._current().channels)), None, told), exponent)

    def moments_vjp(self, x: Array, grad: Array) -> Array:
        r"""Compute the gradient for `x` of a loss from its gradient for the moments.

        Parameters
        ----------
        x : array of shape (..., \*shape)
            Signals, as in `scattering`.
        grad : array of shape (..., paths)
            The gradient for what `moments` gives.

        Returns
        -------
        array
            The gradient for `x`, in its shape.

        Raises
        ------
        ValueError
            If a shape does not fit.
        TypeError
            If a dtype does not fit.
        """
        call, batch, told = self._begin(self._mean_backward, x, grad)
        grad_of(call, (*batch, len(self._current().channels)))
        scaled(call, len(self._current().shape))
        return call.finish(tuple(call.arrays[0].shape), None, told)
