"""Arrays in and out: what is accepted, as what it is computed, and how a result goes home.

A *host view* is the NumPy array over the same memory as an argument, whatever library that came from. Everything that
lives in main memory is checked, converted and computed through host views, so the rules are written once. Arrays on
another device stay in their library and are judged by the names of their dtypes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.exceptions import TooHardError

# An array of whichever library the caller uses.
Array = Any
HostArray = ndarray[Any, np.dtype[Any]]

float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)

# Candidate solutions np.shares_memory may try. Views made by slicing are decided within a handful; the limit is for
# strides made by hand, where the exact answer can take exponential time.
OVERLAP_WORK = 10_000

_INTEGERS = frozenset(
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
)
# NumPy makes up a name at every asking, which takes longer than a small matrix product.
_NAMES = {np.dtype(name): name for name in ("float32", "float64", *_INTEGERS)}
_DLPACK_CPU = (1, 3, 11)  # main memory, and main memory pinned for CUDA and for ROCm
_DLPACK_CUDA = (2, 13)  # device and managed memory

# The device of an array that lies on a CUDA device, where the kernels cannot find it: only the reference can use it.
CUDA_BY_DLPACK = "cuda by DLPack alone"


def kind(value: object) -> str:
    """Name the type of `value` for a message: ``torch.Tensor``, ``list``, ``None``."""
    if value is None:
        return "None"
    cls = type(value)
    package = cls.__module__.partition(".")[0]
    return cls.__qualname__ if package == "builtins" else f"{package}.{cls.__qualname__}"


def dtype_name(dtype: Any) -> str:
    """Name a dtype alike in every library: ``float32`` for ``torch.float32``, ``>f4`` and ``np.float32``."""
    if isinstance(dtype, np.dtype):
        return _NAMES.get(dtype) or dtype.name
    return str(dtype).rpartition(".")[2]


class Library:
    """How the arrays of one library come in and go out. This one: NumPy, and whatever NumPy can read."""

    label = "a numpy.ndarray"
    # Whether the reference runs on arrays of the library itself; else it runs on host views.
    computes = True

    def owns(self, array: Array, like: Array) -> bool:
        """Tell whether `array` is of this library, the one of `like`."""
        return isinstance(array, ndarray)

    def device(self, array: Array) -> str:
        """Give ``cpu`` for main memory, ``cuda``, or another word for a device only the reference can use."""
        return "cpu"

    def view(self, operation: str, name: str, array: Array) -> HostArray:
        """Give the host view of `array`: no copy unless its library demands one."""
        if isinstance(array, ndarray) and type(array) is not ndarray and np.ma.is_masked(array):
            raise TypeError(f"[{operation}] expected {name} without masked elements, got a masked array")
        try:
            if hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
                return np.from_dlpack(array)
            return np.asarray(array)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            # A library that cannot hand its array over says so in many ways.
            sort = next((known for known in (ValueError, RuntimeError) if isinstance(error, known)), TypeError)
            raise sort(
                f"[{operation}] expected {name} to be a rectangular array of numbers, got {kind(array)}: {error}"
            ) from error

    def wrap(self, host: HostArray, like: Array) -> Array:
        """Give `host` as an array of this library, on the device of `like`, sharing its memory where possible."""
        return host

    def namespace(self, like: Array) -> Any:
        """Give the array-API namespace of `like`."""
        # Imported late: array-api-compat costs more to import than all of fastdl, and only the reference needs it.
        from array_api_compat import array_namespace

        return array_namespace(like)

    def written(self, out: Array) -> None:
        """Let the library know that `out` was written through its host view."""

    def exact_device(self, array: Array) -> Any:
        """Give the device of `array` as its library names it."""
        return array.device

    def place(self, array: Array) -> tuple[int, int]:
        """Give the number of the CUDA device that `array` lies on, and the caller's current stream on it."""
        raise NotImplementedError


class Torch(Library):
    """PyTorch tensors."""

    label = "a torch.Tensor"

    def owns(self, array: Array, like: Array) -> bool:
        return isinstance(array, sys.modules["torch"].Tensor)

    def device(self, array: Array) -> str:
        return str(array.device.type)

    def view(self, operation: str, name: str, array: Array) -> HostArray:
        return self.values(operation, name, array).resolve_neg().numpy()  # type: ignore[no-any-return]

    def values(self, operation: str, name: str, array: Array) -> Array:
        """Give the tensor without its autograd history, or say why that would be wrong."""
        torch = sys.modules["torch"]
        if array.layout != torch.strided:
            raise TypeError(f"[{operation}] expected {name} to be a dense tensor, got layout {array.layout}")
        if array.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"[{operation}] expected {name} without requires_grad, got a tensor that records gradients: "
                "use the function of the same name in fastdl.torch, or pass a tensor.detach()"
            )
        check_dtype(operation, name, array)
        return array.detach()

    def wrap(self, host: HostArray, like: Array) -> Array:
        if not host.flags.writeable or any(stride < 0 for stride in host.strides):
            host = host.copy()  # torch has neither read-only memory nor negative strides
        return sys.modules["torch"].from_numpy(host)

    def place(self, array: Array) -> tuple[int, int]:
        stream = sys.modules["torch"].cuda.current_stream(array.device)
        return int(array.device.index), int(stream.cuda_stream)

    def written(self, out: Array) -> None:
        torch = sys.modules["torch"]
        if not out.is_inference():
            torch.autograd.graph.increment_version(out)


class Jax(Library):
    """JAX arrays, on whichever device: what is not in main memory is copied there, and the result back.

    They are immutable and, unless JAX is told otherwise, have no numbers of 64 bits. The reference writes to arrays and
    asks for such numbers, so it runs on host views.
    """

    label = "a jax.Array"
    computes = False

    def owns(self, array: Array, like: Array) -> bool:
        return isinstance(array, sys.modules["jax"].Array)

    def view(self, operation: str, name: str, array: Array) -> HostArray:
        jax = sys.modules["jax"]
        check_dtype(operation, name, array)
        if isinstance(array, jax.core.Tracer):
            raise TypeError(
                f"[{operation}] expected {name} to have values, got {kind(array)}: call it outside of jax.jit, "
                "jax.grad and jax.vmap, or through jax.pure_callback"
            )
        if name == "out":
            raise TypeError(f"[{operation}] expected out to be an array that can be written, got {kind(array)}")
        return np.asarray(array)  # waits for what is still being computed; no copy of what is in main memory

    def wrap(self, host: HostArray, like: Array) -> Array:
        jax = sys.modules["jax"]
        # As JAX would, but that its own conversion makes zeros of numbers below 1e-38.
        host = host.astype(jax.dtypes.canonicalize_dtype(host.dtype), copy=False)
        own = host.flags.carray and host.size > 0
        array = jax.numpy.from_dlpack(host) if own else jax.numpy.array(host)
        places = like.devices()
        return array if len(places) > 1 or array.devices() == places else jax.device_put(array, *places)


class Standard(Library):
    """Libraries that follow the array API standard and exchange by DLPack: CuPy and others."""

    label = "an array of the library of the first argument"

    def owns(self, array: Array, like: Array) -> bool:
        return type(array) is type(like)

    def device(self, array: Array) -> str:
        number = int(array.__dlpack_device__()[0])
        if number in _DLPACK_CUDA:
            return "cuda" if hasattr(array, "__cuda_array_interface__") else CUDA_BY_DLPACK
        return "cpu" if number in _DLPACK_CPU else f"dlpack device {number}"

    def view(self, operation: str, name: str, array: Array) -> HostArray:
        check_dtype(operation, name, array)
        try:
            return np.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError) as error:
            if name == "out":  # what __array__ gives may be a copy, and the result would be lost in it
                raise ValueError(f"[{operation}] expected out to lend its memory by DLPack, got: {error}") from error
            return np.asarray(array)

    def wrap(self, host: HostArray, like: Array) -> Array:
        from array_api_compat import device, to_device

        array = self.namespace(like).from_dlpack(host if host.flags.writeable else host.copy())
        return array if device(array) == device(like) else to_device(array, device(like))

    def place(self, array: Array) -> tuple[int, int]:
        number = int(array.__dlpack_device__()[1])
        cupy = sys.modules.get("cupy")
        if cupy is not None and isinstance(array, cupy.ndarray):
            return number, int(cupy.cuda.get_current_stream(number).ptr)
        # Others name the stream that their array is made on, if they have any: 1 is the default one.
        stream = array.__cuda_array_interface__.get("stream") or 0
        return number, 0 if stream == 1 else int(stream)


NUMPY = Library()
TORCH = Torch()
JAX = Jax()
STANDARD = Standard()


def library_of(array: Array) -> Library:
    """Find the library of `array`. Lists, scalars and objects with only ``__array__`` count as NumPy's."""
    if isinstance(array, ndarray):
        return NUMPY
    # A tensor can only come from a torch that is already imported, so nobody pays for the import here.
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return TORCH
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        return JAX
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        cupy = sys.modules.get("cupy")
        if hasattr(array, "__array_namespace__") or (cupy is not None and isinstance(array, cupy.ndarray)):
            return STANDARD
    return NUMPY


def check_dtype(operation: str, name: str, array: Array) -> str:
    """Refuse what is not real numbers of a supported width; else name what `array` is computed in."""
    found = dtype_name(array.dtype)
    if found in ("float32", "float64"):
        return found
    if found in _INTEGERS:
        return "float64"
    raise TypeError(f"[{operation}] expected {name} of dtype float32, float64, integer or bool, got {found}")


def is_plain(array: HostArray) -> bool:
    """Tell whether a kernel can read `array` as it lies: aligned, native byte order, strides of whole elements."""
    if array.flags.carray and array.dtype.isnative:
        return True
    size = array.itemsize
    return (
        array.flags.aligned
        and array.dtype.isnative
        and all(stride % size == 0 for extent, stride in zip(array.shape, array.strides, strict=True) if extent > 1)
    )


def to_host(
    operation: str, names: tuple[str, ...], arrays: tuple[Array, ...]
) -> tuple[list[HostArray | None], list[HostArray], np.dtype[Any]]:
    """Make every argument a plain NumPy array of one dtype.

    Returns the arrays (None where the argument was None), their host views before any conversion, and the dtype.
    """
    views: list[HostArray | None] = []
    computed = set()
    for name, array in zip(names, arrays, strict=True):
        if array is None:
            views.append(None)
            continue
        library = library_of(array)
        if (device := library.device(array)) != "cpu":
            raise ValueError(f"[{operation}] expected {name} in main memory like {names[0]}, got {device}")
        view = library.view(operation, name, array)
        computed.add(check_dtype(operation, name, view))
        views.append(view)
    dtype = float32 if computed == {"float32"} else float64
    ready = [None if view is None else np.asarray(view, dtype) for view in views]
    plain = [array if array is None or is_plain(array) else array.copy() for array in ready]
    return plain, [view for view in views if view is not None], dtype


def to_device(
    operation: str, names: tuple[str, ...], arrays: tuple[Array, ...], library: Library
) -> tuple[list[Array], list[Array], Any]:
    """Make every argument an array of one dtype, in the library and on the device of the first.

    Returns the arrays (None where the argument was None), the same before any conversion, and the dtype.
    """
    from array_api_compat import device

    sources: list[Array] = []
    computed = set()
    for name, array in zip(names, arrays, strict=True):
        if array is None:
            sources.append(None)
            continue
        if not library.owns(array, arrays[0]) or device(array) != device(arrays[0]):
            where = device(array) if hasattr(array, "device") else "cpu"
            raise ValueError(
                f"[{operation}] expected {name} on device {device(arrays[0])} like {names[0]}, "
                f"got {kind(array)} on device {where}"
            )
        source = library.values(operation, name, array) if isinstance(library, Torch) else array
        computed.add(check_dtype(operation, name, source))
        sources.append(source)
    namespace = library.namespace(arrays[0])
    dtype = namespace.float32 if computed == {"float32"} else namespace.float64
    ready = [None if source is None else namespace.astype(source, dtype, copy=False) for source in sources]
    return ready, [source for source in sources if source is not None], dtype


class _Addresses:
    """The addresses of a device array in NumPy's terms. np.shares_memory compares addresses and reads no element."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = {**array.__cuda_array_interface__, "version": 3}


def _addresses(array: Array) -> HostArray | None:
    if isinstance(array, ndarray):
        return array
    return np.asarray(_Addresses(array)) if hasattr(array, "__cuda_array_interface__") else None


def _distinct(array: HostArray) -> bool:
    """Tell whether no two elements share memory, by a test that every view made by slicing passes.

    Taken from the smallest stride up, each stride must step over all that the smaller ones reach.
    """
    if array.flags.c_contiguous:
        return True
    reach = array.itemsize
    for stride, extent in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return True


def _overlap(first: HostArray, second: HostArray) -> bool:
    if not np.may_share_memory(first, second):
        return False
    try:
        return np.shares_memory(first, second, max_work=OVERLAP_WORK)  # type: ignore[arg-type]  # too narrow a stub
    except TooHardError:
        return True


def check_out(
    operation: str,
    out: Array,
    shape: tuple[int, ...],
    dtype: Any,
    library: Library,
    like: Array,
    sources: list[Array],
) -> Array:
    """Refuse an `out` the result cannot be written to; else give what to write through (its host view on the CPU)."""
    everyday = type(out) is ndarray and library is NUMPY and out.dtype is dtype and out.shape == shape
    if everyday and out.flags.carray and not any(np.may_share_memory(out, source) for source in sources):
        return out  # every rule below holds
    # np.ma is imported by its first mention, so an everyday array must not get that far.
    if not library.owns(out, like) or (
        library is NUMPY and type(out) is not ndarray and isinstance(out, np.ma.MaskedArray)
    ):
        raise TypeError(f"[{operation}] expected out to be {library.label}, got {kind(out)}")
    found, wanted = dtype_name(out.dtype), dtype_name(dtype)
    if found != wanted:
        raise TypeError(f"[{operation}] expected out of dtype {wanted}, got {found}")
    if library is NUMPY and not out.dtype.isnative:
        raise TypeError(f"[{operation}] expected out in native byte order, got dtype {out.dtype}")
    if tuple(out.shape) != shape:
        raise ValueError(f"[{operation}] expected out of shape {shape}, got {tuple(out.shape)}")
    device = library.device(out)
    if device != library.device(like):
        raise ValueError(f"[{operation}] expected out on device {library.device(like)}, got device {device}")
    if device == "cpu":
        target = library.view(operation, "out", out)
        if library is TORCH and out.is_neg():
            raise ValueError(f"[{operation}] expected out without the negative bit, got a lazily negated tensor")
        if not target.flags.writeable:
            raise ValueError(f"[{operation}] expected out to be writable, got a read-only array")
    else:
        from array_api_compat import device as exact_device

        if exact_device(out) != exact_device(like):
            raise ValueError(f"[{operation}] expected out on {exact_device(like)}, got {exact_device(out)}")
        target = library.values(operation, "out", out) if isinstance(library, Torch) else out
    addresses = _addresses(target)
    if addresses is not None:
        if not _distinct(addresses):
            raise ValueError(f"[{operation}] expected out with distinct elements, got strides {addresses.strides}")
        for source in sources:
            taken = _addresses(source)
            if taken is not None and _overlap(addresses, taken):
                raise ValueError(f"[{operation}] expected out to overlap no input, got memory shared with an input")
    return target
