"""Which backend computes a call, and the one path every public function takes through it.

A family module declares an `Operation` for each function and uses it in three steps::

    call = _linear.begin(X, Y)          # arguments become checked arrays, the backend is chosen
    shape = ...                         # the function checks the shapes and its own parameters
    return call.finish(shape, out)      # out is checked, the backend computes, the result goes home

Nothing is computed or written before `finish`, and `finish` checks `out` first.
"""

from __future__ import annotations

import math
import os
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from fastdl._arrays import (
    CUDA_BY_DLPACK,
    NUMPY,
    Array,
    HostArray,
    Library,
    check_out,
    dtype_name,
    float32,
    float64,
    is_plain,
    kind,
    library_of,
    to_device,
    to_host,
)
from fastdl._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BACKENDS = ("auto", "native", "cuda", "reference")

HOW_TO_BUILD = "with a C++20 compiler present, run `pip install .` in a checkout of fastdl (without FASTDL_NO_NATIVE)"

HOW_TO_BUILD_CUDA = "with the CUDA toolkit's nvcc present, run `pip install .` in a checkout of fastdl"


def _load_core() -> tuple[Any, str]:
    """Import the compiled extension, or tell why it cannot be used."""
    try:
        core = import_module("fastdl._core")
    except ModuleNotFoundError as error:
        if error.name == "fastdl._core":
            return None, "it was not built"
        return None, f"it cannot be imported: {error}"
    except ImportError as error:
        return None, f"it cannot be imported: {error}"
    if core.__version__ != __version__:
        return None, f"it is of version {core.__version__}, the package of version {__version__}"
    return core, ""


core, missing = _load_core()

# Results from this size on lie in a Room: from a cache line on (NumPy begins 16 bytes past one, where a vector of 64
# bytes always lies in two, and a symmetric Gram matrix of 512 to 4096 rows takes 4 to 16% longer), in memory that is
# used again.
_LARGE = 1 << 16


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
    """Make room for a result."""
    size = math.prod(shape) * dtype.itemsize
    try:
        if size > sys.maxsize:
            raise MemoryError
        if core is None or size < _LARGE:
            return np.empty(shape, dtype)
        return ndarray(shape, dtype, core.Room(size))
    except MemoryError:
        raise MemoryError(f"unable to allocate {size} bytes for a result of shape {shape} and dtype {dtype}") from None


_cuda: Any = None
_cuda_looked_for = False


def load_cuda() -> Any:
    """Give the CUDA extension or None. Looked for at the first need: most processes never hold a CUDA array."""
    global _cuda, _cuda_looked_for
    if not _cuda_looked_for:
        try:
            _cuda = import_module("fastdl._cuda")
        except ImportError:
            _cuda = None
        _cuda_looked_for = True
    return _cuda


_cuda_with_device: Any = None


def check_device(where: str, extension: Any) -> None:
    """Refuse a CUDA extension that has no device to run on. Where one was found, no later call asks for it again."""
    global _cuda_with_device
    if extension is not _cuda_with_device:
        if extension.device_count() == 0:
            raise RuntimeError(
                f"[{where}] expected a CUDA device, got none: see that nvidia-smi lists one and that its driver is not "
                "older than the CUDA that fastdl was built with"
            )
        _cuda_with_device = extension


def check_backend(where: str, name: object) -> str:
    """Refuse a backend that is unknown or not installed."""
    if not isinstance(name, str):
        raise TypeError(f"[{where}] expected the name of a backend, got {type(name).__name__}")
    if name not in BACKENDS:
        raise ValueError(f"[{where}] expected one of {', '.join(BACKENDS)}, got {name!r}")
    if name == "native" and core is None:
        raise RuntimeError(f"[{where}] expected the compiled extension, but {missing}: {HOW_TO_BUILD}")
    if name == "cuda":
        extension = load_cuda()
        if extension is None:
            raise RuntimeError(f"[{where}] expected the CUDA extension, but it is not installed: {HOW_TO_BUILD_CUDA}")
        check_device(where, extension)
    return name


_default = check_backend("FASTDL_BACKEND", os.environ.get("FASTDL_BACKEND") or "auto")
_requested: ContextVar[str] = ContextVar("fastdl_backend", default=_default)

# What computes arrays in main memory, by what was requested; "cuda" is absent because it cannot.
_HOST_BACKENDS = {
    "auto": "reference" if core is None else "native",
    "native": "native",
    "reference": "reference",
}
# The same for an operation that has no compiled code for the host.
_WITHOUT_KERNEL = dict.fromkeys(_HOST_BACKENDS, "reference")

# Where the alignment of a dtype is its size, an aligned array has strides of whole elements. Not so on 32-bit x86.
_ALIGNED_IS_PLAIN = float64.alignment == float64.itemsize


def get_backend() -> str:
    """Name the backend in force for arrays in main memory.

    Returns
    -------
    str
        ``"native"``, ``"reference"`` or ``"cuda"``; with nothing chosen, the first one that is installed.

    Examples
    --------
    >>> import fastdl
    >>> with fastdl.backend("reference"):
    ...     fastdl.get_backend()
    'reference'
    """
    requested = _requested.get()
    return _HOST_BACKENDS["auto"] if requested == "auto" else requested


@contextmanager
def _requesting(name: str) -> Iterator[None]:
    token = _requested.set(name)
    try:
        yield
    finally:
        _requested.reset(token)


def backend(name: str) -> Any:
    """Choose the backend within a ``with`` block, for this thread or asynchronous task.

    Parameters
    ----------
    name : {"auto", "native", "cuda", "reference"}
        ``auto`` takes the compiled code for the device of the arrays where it is installed, else the reference.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        If there is no backend of that name.
    RuntimeError
        If that backend is not installed.

    Examples
    --------
    >>> import numpy as np, fastdl
    >>> with fastdl.backend("reference"):
    ...     fastdl.gram.linear(np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """
    return _requesting(check_backend("backend", name))


def choose(operation: str, device: str) -> str:
    """Choose the backend for arrays on `device`."""
    requested = _requested.get()
    if requested == "reference":
        return "reference"
    if device == "cpu" and requested != "cuda":
        return _HOST_BACKENDS[requested]
    if device == "cuda" and requested != "native":
        extension = load_cuda()
        if extension is None:
            return "reference"
        # The array's own library found a device all the same, so what is missing is a driver for this extension.
        check_device(operation, extension)
        return "cuda"
    if requested == "auto" or (requested == "cuda" and device == CUDA_BY_DLPACK):
        return "reference"
    place = "in main memory" if requested == "native" else "on a CUDA device"
    raise ValueError(f"[{operation}] expected arrays {place} for backend {requested!r}, got device {device}")


class Operation:
    """A function of a family: its name in messages, its array arguments, and its code in each backend.

    Parameters
    ----------
    name : str
        ``family.function``; the native kernel is ``_core.family.function``, the reference
        ``fastdl.reference.family.function``. An extension without that kernel leaves the call to the reference.
    *arguments : str
        Names of the array arguments in order; one ending in ``?`` may be None, but never the first.
    """

    __slots__ = ("_hosts", "_reference", "_required", "arguments", "name", "native")

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self.arguments = tuple(argument.rstrip("?") for argument in arguments)
        self._required = [index for index, argument in enumerate(arguments) if index and not argument.endswith("?")]
        self._reference: Callable[..., Array] | None = None
        self.native: Callable[..., Any] | None = None if core is None else self._find(core)
        self._hosts = _HOST_BACKENDS if core is None or self.native is not None else _WITHOUT_KERNEL

    def _find(self, module: Any) -> Any:
        """Give the kernel in an extension, or None."""
        family, _, function = self.name.partition(".")
        return getattr(getattr(module, family, None), function, None)

    @property
    def cuda(self) -> Callable[..., Any] | None:
        """The kernel for arrays on a CUDA device, or None."""
        extension = load_cuda()
        return None if extension is None else self._find(extension)

    @property
    def reference(self) -> Callable[..., Array]:
        """The reference function, imported when it is first wanted."""
        if self._reference is None:
            family, _, function = self.name.partition(".")
            self._reference = getattr(import_module(f"fastdl.reference.{family}"), function)
        return self._reference

    def begin(self, *arrays: Array) -> Call:
        """Turn the array arguments into checked arrays of one dtype, and choose the backend."""
        first = arrays[0]
        if type(first) is ndarray and _ALIGNED_IS_PLAIN:
            # The everyday call must not pay for the general rules: see tests/test_overhead.py.
            dtype = first.dtype
            if dtype is float64 or dtype is float32:
                for array in arrays:
                    if type(array) is ndarray:
                        if array.dtype is not dtype or not array.flags.aligned:
                            break
                    elif array is not None:
                        break
                else:
                    chosen = self._hosts.get(_requested.get())
                    if chosen is not None and not (self._required and self._lacking(arrays)):
                        return Call(self, chosen, NUMPY, first, arrays, arrays, dtype)
        return self._begin_any(arrays)

    def _lacking(self, arrays: tuple[Array, ...]) -> str:
        """Name an argument after the first that is None and may not be."""
        return next((self.arguments[index] for index in self._required if arrays[index] is None), "")

    def _refuse_sparse(self, arrays: tuple[Array, ...]) -> None:
        """Say that a matrix of scipy.sparse is not dense: NumPy would make an array of one object of it."""
        sparse = sys.modules.get("scipy.sparse")
        if sparse is not None:
            for name, array in zip(self.arguments, arrays, strict=True):
                if sparse.issparse(array):
                    raise TypeError(f"[{self.name}] expected {name} to be a dense array, got {kind(array)}")

    def _begin_any(self, arrays: tuple[Array, ...]) -> Call:
        first = arrays[0]
        lacking = self.arguments[0] if first is None else self._lacking(arrays)
        if lacking:
            raise TypeError(f"[{self.name}] expected {lacking} to be an array, got None")
        self._refuse_sparse(arrays)
        library = library_of(first)
        device = library.device(first)
        chosen = choose(self.name, device)
        if chosen == "native":
            chosen = self._hosts[chosen]
        elif chosen == "cuda" and self.cuda is None:
            chosen = "reference"
        if device == "cpu":
            host, views, dtype = to_host(self.name, self.arguments, arrays)
            return Call(self, chosen, library, first, tuple(host), views, dtype)
        ready, sources, device_dtype = to_device(self.name, self.arguments, arrays, library)
        return Call(self, chosen, library, first, tuple(ready), sources, device_dtype)


class Call:
    """One call under way: its arguments checked, its backend chosen, nothing computed yet.

    `arrays` are what the backend reads: NumPy arrays when the arguments lie in main memory, else arrays of their own
    library. `sources` is the memory the caller passed, which `out` may not overlap. `dtype` is the library's.
    """

    __slots__ = ("arrays", "backend", "dtype", "library", "like", "operation", "sources")

    def __init__(
        self,
        operation: Operation,
        backend: str,
        library: Library,
        like: Array,
        arrays: tuple[Array, ...],
        sources: Any,
        dtype: Any,
    ) -> None:
        self.operation = operation
        self.backend = backend
        self.library = library
        self.like = like
        self.arrays = arrays
        self.sources = sources
        self.dtype = dtype

    def finish(self, shape: tuple[int, ...], out: Array | None = None, *parameters: object) -> Array:
        """Compute an array of `shape` and return it in the caller's library, or in `out`.

        `parameters` follow the arrays in the calls of the kernel and of the reference.
        """
        if out is None and self.backend == "native":
            result = new_array(shape, self.dtype)
            self.operation.native(*self.arrays, *parameters, result)  # type: ignore[misc]
            return result if self.library is NUMPY else self.library.wrap(result, self.like)
        return self._finish_any(shape, out, parameters)

    def finish_several(self, shapes: tuple[tuple[int, ...] | None, ...], *parameters: object) -> tuple[Any, ...]:
        """Compute arrays of `shapes`, None in place of one that is not wanted, and a number that comes after them.

        The reference returns them so; a kernel takes the arrays and returns the number.
        """
        if not self.compiled:
            return self._run_reference(parameters)  # type: ignore[no-any-return]
        results = [None if shape is None else self.room(shape) for shape in shapes]
        number = self.run(*self.arrays, *parameters, *results)
        return *(None if array is None else self.home(array) for array in results), number

    @property
    def compiled(self) -> bool:
        """Whether a kernel computes the call, on the host or on a device."""
        return self.backend != "reference"

    @property
    def precision(self) -> np.dtype[Any]:
        """What the call is computed in, as a dtype of NumPy."""
        return float32 if dtype_name(self.dtype) == "float32" else float64

    def room(self, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Make room for a result of a kernel: on the host, or beside the arrays on their device."""
        if self.backend == "native":
            return new_array(shape, self.dtype if dtype is None else dtype)
        namespace = self.library.namespace(self.like)
        wanted = self.dtype if dtype is None else getattr(namespace, dtype_name(dtype))
        return namespace.empty(shape, dtype=wanted, device=self.library.exact_device(self.like))

    def run(self, *arguments: object, kernel: Callable[..., Any] | None = None) -> Any:
        """Call the operation's kernel, or another one, where the arrays lie: on a device, in the caller's stream."""
        if self.backend == "native":
            return (kernel or self.operation.native)(*arguments)  # type: ignore[misc]
        extension = load_cuda()
        before = extension.enter(*self.library.place(self.like))
        try:
            return (kernel or self.operation.cuda)(*arguments)  # type: ignore[misc]
        except (TypeError, ValueError) as error:
            # Of what the extension alone can see: whose memory an address is, whether it may be written.
            if str(error).startswith("["):
                raise
            raise type(error)(f"[{self.operation.name}] {error}") from None
        finally:
            extension.leave(before)

    def home(self, result: Array) -> Array:
        """Give what a kernel wrote in the caller's library."""
        return self.library.wrap(result, self.like) if self.backend == "native" else result

    def _finish_any(self, shape: tuple[int, ...], out: Array | None, parameters: tuple[object, ...]) -> Array:
        operation, library = self.operation, self.library
        target: Any = None
        if out is not None:
            sources = [source for source in self.sources if source is not None]
            target = check_out(operation.name, out, shape, self.dtype, library, self.like, sources)
        if self.compiled:
            # An out that a kernel of the host cannot write as it lies gets its result by a copy.
            direct = target is not None and (self.backend == "cuda" or is_plain(target))
            result = target if direct else self.room(shape)
            self.run(*self.arrays, *parameters, result)
        else:
            result = self._run_reference(parameters)
        if out is None:
            return result
        if result is not target:
            if isinstance(target, ndarray) and not isinstance(result, ndarray):
                result = library.view(operation.name, "result", result)
            target[...] = result
        library.written(out)
        return out

    def readable(self, array: Array) -> Array:
        """Give an array as the reference reads it: of the caller's library, if that can run it."""
        if isinstance(array, ndarray) and self.library.computes:
            return self.library.wrap(array, self.like)
        return array

    def sent_home(self, result: Any) -> Any:
        """Give what the reference computed, one array or several, in the caller's library."""
        if self.library.computes:
            return result
        if isinstance(result, (ndarray, np.generic)):
            return self.library.wrap(np.asarray(result), self.like)
        if isinstance(result, (tuple, list)):
            parts = [self.sent_home(part) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
        return result

    def _run_reference(self, parameters: tuple[object, ...]) -> Array:
        arrays = [self.readable(array) for array in self.arrays]
        # The kernels let NaN and Inf through without a word, and the reference must behave as they do.
        with np.errstate(all="ignore"):
            return self.sent_home(self.operation.reference(*arrays, *parameters))
