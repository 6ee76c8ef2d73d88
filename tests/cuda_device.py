"""The CUDA backend, with and without a GPU: the extension `_cuda` in three worlds, and arrays on its device.

`gpu` is a real one: `pytest -m gpu`, where fastdl._cuda is installed. The others need none: `emulated` is the kernels'
source compiled by the host compiler (cuda/emulation), `ptxsim` what nvcc compiles, executed by the simulator that
FASTDL_PTXSIM names; both are built by `make build-cuda`. In all of them the host can read the memory of the arrays
here, so that an array-API library for them is NumPy in disguise.
"""

import importlib.util
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fastdl import _dispatch

BUILD = Path(os.environ.get("FASTDL_BUILD") or Path(__file__).parents[1] / "build")
FOLDERS = {"emulated": BUILD / "cpp" / "cuda_emulation", "ptxsim": BUILD / "ptxsim"}
# In which the threads of a block run. `make test-cuda` takes all three.
ALL_ORDERS = ("fwd", "rev", "random")
ORDERS = os.environ.get("FASTDL_CUDA_ORDERS", "random").split(",")


class Array:
    """An array on the device: what `__cuda_array_interface__` says, and as much of the array API as NumPy has."""

    def __init__(self, host, device=0, stream=None, readonly=False):
        self._host, self._device, self._stream = host, device, stream
        self._readonly = readonly
        self.shape, self.dtype, self.ndim, self.size = host.shape, host.dtype, host.ndim, host.size

    @property
    def host(self):
        """What is in the device's memory, when all that was queued has ended."""
        _dispatch.load_cuda().synchronize()
        return self._host

    @property
    def __cuda_array_interface__(self):
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._host.ctypes.data, self._readonly),
            "strides": None if self._host.flags.c_contiguous else self._host.strides,
            "stream": self._stream,
        }

    @property
    def device(self):
        return f"cuda:{self._device}"

    def __dlpack_device__(self):
        return 2, self._device

    def __dlpack__(self, **options):
        raise BufferError("on a CUDA device")

    def __array_namespace__(self, **options):
        return Namespace()

    def get(self):
        """Copy to the host, as CuPy's arrays do."""
        return self.host.copy()

    def __getitem__(self, key):
        return Array(self.host[_plain(key)], self._device, self._stream, self._readonly)

    def __setitem__(self, key, value):
        self.host[_plain(key)] = _plain(value)

    def __bool__(self):
        return bool(self.host)

    def __float__(self):
        return float(self.host)

    def __int__(self):
        return int(self.host)

    def __len__(self):
        return len(self.host)

    @property
    def T(self):
        return Array(self.host.T, self._device, self._stream, self._readonly)

    @property
    def mT(self):
        return Array(np.swapaxes(self.host, -1, -2), self._device, self._stream, self._readonly)


def _plain(value):
    if isinstance(value, Array):
        return value.host
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(part) for part in value)
    return value


def _operator(name):
    def method(self, *others):
        return to_device(getattr(self.host, name)(*_plain(list(others))))

    return method


for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"]:
    for _variant in (f"__{_name}__", f"__r{_name}__"):
        setattr(Array, _variant, _operator(_variant))
for _name in ["neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "invert"]:
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))


class Namespace:
    """The array API over these arrays: NumPy's functions, with results on the device."""

    float32, float64, int64, bool = (np.dtype(name) for name in ("float32", "float64", "int64", "bool"))

    def __getattr__(self, name):
        value = getattr(np, name)
        if not callable(value) or isinstance(value, type):
            return value

        def function(*arguments, device=None, **options):
            found = value(*_plain(list(arguments)), **{key: _plain(option) for key, option in options.items()})
            return to_device(found) if isinstance(found, (np.ndarray, np.generic)) else found

        return function

    def astype(self, array, dtype, copy=True, device=None):
        return to_device(array.host.astype(dtype)) if copy or array.dtype != dtype else array

    def empty(self, shape, dtype=np.float64, device=None):
        shape = shape if isinstance(shape, tuple) else (shape,)
        return Array(allocate(shape, np.dtype(dtype)))


class _Lent:
    """Memory of the device as NumPy reads it, alive as long as an array over it is."""

    def __init__(self, memory, size):
        self._memory = memory
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (memory.address, False)}


def allocate(shape, dtype):
    """Give memory of the device in use as an array of NumPy, filled with NaN."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    return np.asarray(_Lent(_dispatch.load_cuda().Memory(size), size)).view(dtype).reshape(shape)


# Of arrays here: not the default one, so that the emulation finds launches on that. (A GPU knows only its own streams.)
STREAM = 64


def to_device(host, stream="any"):
    """Copy to the device, contiguous."""
    host = np.asarray(host)
    room = allocate(host.shape, host.dtype)
    room[...] = host
    if stream == "any":
        stream = STREAM if _dispatch.load_cuda().emulated else None
    return Array(room, stream=stream)


def same_layout(host):
    """Copy to the device as it lies: with the strides it has, and nothing allocated but what they reach."""
    if host.size == 0:
        return to_device(host)
    steps = [(extent - 1) * stride for extent, stride in zip(host.shape, host.strides, strict=True)]
    before = -sum(step for step in steps if step < 0)
    size = before + sum(step for step in steps if step > 0) + host.itemsize
    room = allocate((size,), np.dtype(np.uint8))
    view = np.ndarray(host.shape, host.dtype, room, before, host.strides)
    view[...] = host
    return Array(view)


@cache
def extension(world):
    """Load the extension of a world, or give None."""
    if world == "gpu":
        module = _dispatch.load_cuda()
        return module if module is not None and module.device_count() else None
    found = sorted(FOLDERS[world].glob("_cuda.*so"))
    if not found:
        return None
    if world == "ptxsim":
        os.environ["PTXSIM_CACHE"] = str(FOLDERS[world] / "cache")
        os.environ["PATH"] = os.pathsep.join([str(FOLDERS[world] / "bin"), os.environ["PATH"]])
    # A name for each: pybind11 makes one module of a name.
    spec = importlib.util.spec_from_file_location(f"{world}._cuda", found[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tell_launches(folder):
    """Write the places of the kernels that were emulated into a file of this process."""
    module = extension("emulated")
    if module is not None:
        places = "".join(f"{place:x}\n" for place in module.launched())
        (Path(folder) / f"{os.getpid()}.txt").write_text(places)


def use(world, order, patch):
    """Make the extension of a world the CUDA backend, with threads running in an order."""
    module = extension(world)
    if module is None and world == "gpu":
        pytest.skip("needs a GPU and fastdl._cuda")
    if module is None:
        pytest.skip(f"needs {FOLDERS[world] / '_cuda'}, made by `make build-cuda`")
    assert module.emulated == (world == "emulated")
    patch.setattr(_dispatch, "_cuda", module)
    patch.setattr(_dispatch, "_cuda_looked_for", True)
    if world == "emulated":
        module.set_order(order)
    elif world == "ptxsim":
        patch.setenv("CUDASIM_ORDER", order)
    return module


WORLDS = [
    pytest.param(("gpu", "its own"), id="gpu", marks=pytest.mark.gpu),
    *(pytest.param(("emulated", order), id=f"emulated-{order}") for order in ORDERS),
    *(pytest.param(("ptxsim", order), id=f"ptxsim-{order}") for order in ORDERS),
]
