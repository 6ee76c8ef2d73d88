"""What the functions of fastdl.hebbian check before they compute."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind, library_of
from fastdl._kernels import integer

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray
    from fastdl._dispatch import Call

# Random orders of the units that are made for a recall; sweeps go through them again and again.
MOST_ORDERS = 16


def weights_and_samples(call: Call) -> tuple[int, int, int]:
    """Check that the first array is units by features and the second samples of these features; give k, d and n."""
    where, (first, second) = call.operation.name, call.operation.arguments[:2]
    W, X = call.arrays[:2]
    if W.ndim != 2:
        raise ValueError(f"[{where}] expected {first} of shape (k, d), got {tuple(W.shape)}")
    k, d = W.shape
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"[{where}] expected {second} of shape (n, {d}), got {tuple(X.shape)}")
    return k, d, X.shape[0]


def of_shape(call: Call, at: int, shape: tuple[int, ...]) -> None:
    """Check the shape of an argument."""
    found = tuple(call.arrays[at].shape)
    if found != shape:
        raise ValueError(
            f"[{call.operation.name}] expected {call.operation.arguments[at]} of shape {shape}, got {found}"
        )


def learning_rates(call: Call, lr: Any, n: int) -> HostArray:
    """Give a finite step for every sample, from one or from one for each, in the dtype of the call.

    The steps never decide that dtype: they are rounded to it.
    """
    where = call.operation.name
    dtype = call.dtype if isinstance(call.dtype, np.dtype) else call.precision
    if isinstance(lr, Real) and not isinstance(lr, (bool, np.bool_)):
        with np.errstate(over="ignore"):
            steps = np.broadcast_to(np.asarray(lr, dtype), (n,))
            if not np.isfinite(np.asarray(lr, dtype)):
                raise ValueError(f"[{where}] expected lr to be finite, got {lr}")
        return steps
    if lr is None or isinstance(lr, (bool, np.bool_, str)):
        raise TypeError(f"[{where}] expected lr to be a number or one for each sample, got {kind(lr)}")
    library = library_of(lr)
    try:
        view = library.view(where, "lr", lr) if library.device(lr) == "cpu" else on_host(lr)
    except AttributeError:
        raise TypeError(f"[{where}] expected lr to be a number or {n} of them, got {kind(lr)}") from None
    if view.dtype.kind not in "fiu":
        raise TypeError(f"[{where}] expected lr to be a number or {n} of them, got {kind(lr)} of {view.dtype}")
    if view.ndim == 0:
        return learning_rates(call, float(view), n)
    if view.shape != (n,):
        raise ValueError(f"[{where}] expected lr of shape ({n},) or a number, got {view.shape}")
    with np.errstate(over="ignore"):
        steps = np.ascontiguousarray(view, dtype)
    if not np.isfinite(steps).all():
        raise ValueError(f"[{where}] expected lr to be finite, got {view[~np.isfinite(steps)][0]}")
    return steps


def on_host(array: Array) -> HostArray:
    """Copy a small array of a device to main memory."""
    return np.asarray(array.get() if hasattr(array, "get") else array.cpu().numpy())


def choice(where: str, name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check a word of a list."""
    if not isinstance(value, str):
        raise TypeError(f"[{where}] expected {name} to be {' or '.join(map(repr, choices))}, got {kind(value)}")
    if value not in choices:
        raise ValueError(f"[{where}] expected {name} to be {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def flag(where: str, name: str, value: Any) -> bool:
    """Check a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"[{where}] expected {name} to be True or False, got {kind(value)}")
    return bool(value)


def update(call: Call, W: Array, shape: tuple[int, ...], out: Array | None, *parameters: object) -> Array:
    """Finish a call whose `out` may be W itself: nothing is written before all is computed."""
    if out is not None and _same(out, W):
        call.sources = tuple(call.sources)[1:]
    return call.finish(shape, out, *parameters)


def _same(first: Array, second: Array) -> bool:
    """Tell whether two arrays are the same elements in the same order."""
    if first is second:
        return True
    if not (isinstance(first, np.ndarray) and isinstance(second, np.ndarray)):
        return _on_device(first) is not None and _on_device(first) == _on_device(second)
    return first.ctypes.data == second.ctypes.data and first.shape == second.shape and first.strides == second.strides


def _on_device(array: Array) -> tuple[Any, ...] | None:
    """Give what tells the elements of a device array from those of others."""
    if isinstance(array, np.ndarray) or not hasattr(array, "__cuda_array_interface__"):
        return None
    interface = array.__cuda_array_interface__
    return interface["data"][0], interface["shape"], interface["typestr"], interface.get("strides")


_SWEEPS = integer("a whole number of at least 0", lambda value: 0 <= value <= 1 << 62)
_UNITS = integer("a whole number", lambda value: True)


def sweeps(where: str, value: Any) -> int:
    """Check a number of sweeps."""
    return int(_SWEEPS(where, "max_sweeps", value, 0))


def orders(where: str, d: int, mode: str, order: Any, seed: Any, max_sweeps: int) -> HostArray:
    """Give the orders in which units are asked, a row for every sweep until they begin again."""
    if mode == "sync" and (order is not None or seed is not None):
        raise ValueError(f"[{where}] expected no order or seed with mode 'sync', got one")
    if order is not None and seed is not None:
        raise ValueError(f"[{where}] expected an order or a seed, got both")
    if seed is not None:
        if not isinstance(seed, np.random.Generator):
            seed = np.random.default_rng(int(_UNITS(where, "seed", seed, 0)))
        count = max(1, min(MOST_ORDERS, max_sweeps))
        return np.stack([seed.permutation(d) for _ in range(count)]).astype(np.int64)
    if order is None:
        return np.arange(d, dtype=np.int64)[None, :]
    try:
        given = np.asarray(order)
    except ValueError:
        given = np.asarray(None)
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"[{where}] expected order to be numbers of units, got {kind(order)} of {given.dtype}")
    if given.ndim not in (1, 2) or (given.ndim == 2 and given.shape[0] == 0):
        raise ValueError(f"[{where}] expected order of shape (units,) or (sweeps, units), got {given.shape}")
    if given.size and (given.min() < 0 or given.max() >= d):
        wrong = given[(given < 0) | (given >= d)].flat[0]
        raise ValueError(f"[{where}] expected order of units from 0 to {d - 1}, got {wrong}")
    return np.ascontiguousarray(given.astype(np.int64).reshape((-1, given.shape[-1]) if given.size else (1, 0)))


def spins(call: Call, at: int) -> None:
    """Refuse states that are not made of +1 and −1. Kernels look for themselves."""
    if call.compiled:
        return
    states = call.arrays[at]
    if isinstance(states, np.ndarray):
        fine = np.abs(states) == 1
        found: Any = None if fine.all() else f"{states[~fine].flat[0]:f}"
    else:
        xp = call.library.namespace(call.like)
        found = None if bool(xp.all(xp.abs(states) == 1)) else "another value"
    if found is not None:
        raise ValueError(f"[{call.operation.name}] expected states of +1 and -1, got {found}")
