"""What is accepted, as what it is computed, and in which library the answer comes."""

import array
import os
import subprocess
import sys

import numpy as np
import pytest

import fastdl
from cases import integers
from fastdl import _arrays, _dispatch

linear = fastdl.gram.linear


@pytest.fixture(params=["default", "reference"])
def any_backend(request):
    """Run on what a user gets without asking, and on the reference."""
    with fastdl.backend("auto" if request.param == "default" else "reference"):
        yield


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def strict():
    return pytest.importorskip("array_api_strict")


@pytest.fixture
def pair(rng):
    """Two matrices of whole numbers and their product, exact in every backend."""
    X, Y = integers(rng, (13, 6), np.float32), integers(rng, (9, 6), np.float32)
    return X, Y, X @ Y.T


@pytest.mark.usefixtures("any_backend")
class TestDtypes:
    @pytest.mark.parametrize(
        "first, second, result",
        [
            ("float32", "float32", "float32"),
            ("float64", "float64", "float64"),
            ("float32", "float64", "float64"),
            ("float64", "float32", "float64"),
            ("int8", "int8", "float64"),
            ("int64", "float32", "float64"),
            ("float32", "uint8", "float64"),
            ("uint64", "bool", "float64"),
            (">f4", "<f4", "float32"),
            (">f8", "<f4", "float64"),
            (">i4", ">i4", "float64"),
        ],
    )
    def test_promotion(self, rng, first, second, result):
        X = rng.integers(0, 2, (5, 4)).astype(first)
        Y = rng.integers(0, 2, (3, 4)).astype(second)
        K = linear(X, Y)
        assert K.dtype == np.dtype(result) and K.dtype.isnative
        np.testing.assert_array_equal(K, X.astype(int) @ Y.astype(int).T)

    @pytest.mark.parametrize(
        "dtype", ["float16", "longdouble", "complex64", "complex128", "U3", "S3", "O", "M8[s]", "m8[s]", "V8"]
    )
    def test_refused(self, dtype):
        if np.dtype(dtype) == np.float64:
            pytest.skip("long double is double on this platform")
        with pytest.raises(TypeError, match=r"^\[gram\.linear\] expected X of dtype .*, got "):
            linear(np.zeros((2, 2), dtype))
        with pytest.raises(TypeError, match=r"^\[gram\.linear\] expected Y of dtype .*, got "):
            linear(np.zeros((2, 2)), np.zeros((2, 2), dtype))

    def test_a_dtype_equal_to_the_everyday_one_but_not_the_same_object(self):
        special = np.dtype("f8", metadata={"unit": "m"})
        K = linear(np.eye(3).astype(special))
        assert K.dtype == np.float64
        np.testing.assert_array_equal(K, np.eye(3))


@pytest.mark.usefixtures("any_backend")
class TestKinds:
    def test_lists(self):
        K = linear([[1, 2], [3, 4]])
        assert K.dtype == np.float64
        np.testing.assert_array_equal(K, [[5, 11], [11, 25]])
        np.testing.assert_array_equal(linear([[1.0, 2.0]], ((1, 1), (0, 1))), [[3, 2]])
        assert linear([[1, 2]], np.ones((1, 2), np.float32)).dtype == np.float64

    def test_buffers_and_array_protocols(self):
        class Holder:
            def __array__(self, dtype=None, copy=None):
                return np.array([[1.0, 2.0]], dtype=dtype)

        class Exporter:
            """An array with DLPack and nothing else."""

            def __init__(self, values):
                self.values = values

            def __dlpack__(self, **options):
                return self.values.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.values.__dlpack_device__()

        buffer = memoryview(array.array("d", [1.0, 2.0])).cast("B").cast("d", (1, 2))
        for value in (Holder(), Exporter(np.array([[1.0, 2.0]])), buffer):
            result = linear(value)
            assert type(result) is np.ndarray
            np.testing.assert_array_equal(result, [[5]])

    @pytest.mark.filterwarnings("ignore:the matrix subclass")
    def test_subclasses_give_plain_arrays(self, tmp_path):
        values = np.array([[1.0, 2.0], [3.0, 4.0]])
        mapped = np.memmap(tmp_path / "matrix", dtype=float, mode="w+", shape=(2, 2))
        mapped[...] = values

        class Labelled(np.ndarray):
            pass

        for value in (np.asmatrix(values), mapped, values.view(Labelled), np.ma.MaskedArray(values)):
            result = linear(value)
            assert type(result) is np.ndarray
            np.testing.assert_array_equal(result, [[5, 11], [11, 25]])

    def test_masked_elements_are_refused(self):
        masked = np.ma.MaskedArray(np.eye(2), mask=[[True, False], [False, False]])
        with pytest.raises(TypeError, match=r"\[gram\.linear\] expected X without masked elements"):
            linear(masked)
        with pytest.raises(TypeError, match=r"expected Y without masked elements"):
            linear(np.eye(2), masked)

    def test_pandas(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
        np.testing.assert_array_equal(linear(frame), frame.to_numpy() @ frame.to_numpy().T)


@pytest.mark.usefixtures("any_backend")
class TestTorch:
    def test_result_is_a_tensor(self, torch, pair):
        X, Y, expected = pair
        result = linear(torch.from_numpy(X), torch.from_numpy(Y))
        assert type(result) is torch.Tensor and result.dtype == torch.float32 and result.device.type == "cpu"
        np.testing.assert_array_equal(result.numpy(), expected)
        assert linear(torch.from_numpy(X).double()).dtype == torch.float64
        assert linear(torch.from_numpy(X).int()).dtype == torch.float64

    def test_views(self, torch, pair):
        X, Y, expected = pair
        np.testing.assert_array_equal(linear(torch.from_numpy(X.T.copy()).T, torch.from_numpy(Y)).numpy(), expected)
        row = torch.from_numpy(X[:1]).expand(7, -1)
        np.testing.assert_array_equal(linear(row, torch.from_numpy(Y)).numpy(), np.repeat(expected[:1], 7, 0))
        negative = torch.complex(torch.zeros(13, 6), torch.from_numpy(X)).conj().imag
        assert negative.is_neg()
        np.testing.assert_array_equal(linear(negative, torch.from_numpy(Y)).numpy(), -expected)

    def test_mixed_with_numpy_the_first_decides(self, torch, pair):
        X, Y, expected = pair
        for second in (Y, Y[::-1][::-1], np.broadcast_to(Y, Y.shape), Y.tolist()):
            result = linear(torch.from_numpy(X), second)
            assert type(result) is torch.Tensor
            np.testing.assert_array_equal(result.numpy(), expected)
        result = linear(X, torch.from_numpy(Y))
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, expected)

    def test_out(self, torch, pair):
        X, Y, expected = pair
        out = torch.full((9, 13), -1.0).T
        version = out._version
        assert linear(torch.from_numpy(X), torch.from_numpy(Y), out=out) is out
        np.testing.assert_array_equal(out.numpy(), expected)
        assert out._version > version  # or autograd could not notice that a saved tensor changed

    def test_out_refused(self, torch, pair):
        X, Y, _ = pair
        x, y = torch.from_numpy(X), torch.from_numpy(Y)
        with pytest.raises(TypeError, match=r"expected out to be a torch.Tensor, got numpy.ndarray"):
            linear(x, y, out=np.zeros((13, 9), np.float32))
        with pytest.raises(TypeError, match=r"expected out to be a numpy.ndarray, got torch.Tensor"):
            linear(X, Y, out=torch.zeros(13, 9))
        with pytest.raises(TypeError, match=r"expected out of dtype float32, got float64"):
            linear(x, y, out=torch.zeros(13, 9, dtype=torch.float64))
        with pytest.raises(ValueError, match=r"expected out of shape \(13, 9\), got \(9, 13\)"):
            linear(x, y, out=torch.zeros(9, 13))
        with pytest.raises(ValueError, match=r"distinct elements"):
            linear(x, y, out=torch.zeros(1, 9).expand(13, 9))
        with pytest.raises(ValueError, match=r"overlap no input"):
            linear(x[:6], out=x[:6])
        with pytest.raises(ValueError, match=r"requires_grad"):
            linear(x, y, out=torch.zeros(13, 9, requires_grad=True))

    def test_gradients_are_not_dropped_in_silence(self, torch):
        X = torch.ones(3, 2, requires_grad=True)
        with pytest.raises(ValueError, match=r"expected X without requires_grad.*fastdl\.torch.*detach"):
            linear(X)
        with pytest.raises(ValueError, match=r"expected Y without requires_grad"):
            linear(torch.ones(3, 2), X)
        assert not linear(X.detach()).requires_grad
        with torch.no_grad():
            assert not linear(X).requires_grad
        with torch.inference_mode():
            tensor = torch.ones(2, 2)
            np.testing.assert_array_equal(linear(tensor, out=torch.empty(2, 2)).numpy(), 2)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
    def test_refused_dtypes(self, torch, dtype):
        with pytest.raises(TypeError, match=rf"\[gram\.linear\] expected X of dtype .*, got {dtype}"):
            linear(torch.ones(2, 2, dtype=getattr(torch, dtype)))

    def test_sparse_refused(self, torch):
        with pytest.raises(TypeError, match=r"expected X to be a dense tensor, got layout torch.sparse_coo"):
            linear(torch.eye(2).to_sparse())

    def test_another_device_goes_to_the_reference(self, torch):
        """A meta tensor has a device, a shape and no memory: what comes back tells which road was taken."""
        meta = torch.ones(5, 3, device="meta")
        result = linear(meta, torch.ones(4, 3, device="meta", dtype=torch.int32))
        assert result.device.type == "meta" and tuple(result.shape) == (5, 4) and result.dtype == torch.float64
        out = torch.empty(5, 5, device="meta")
        assert linear(meta, out=out) is out
        with pytest.raises(ValueError, match=r"expected Y on device meta like X, got torch.Tensor on device cpu"):
            linear(meta, torch.ones(4, 3))
        with pytest.raises(ValueError, match=r"expected Y on device meta like X, got numpy.ndarray"):
            linear(meta, np.ones((4, 3)))
        with pytest.raises(ValueError, match=r"expected Y in main memory like X, got meta"):
            linear(torch.ones(4, 3), meta)
        with pytest.raises(ValueError, match=r"expected out on device meta, got device cpu"):
            linear(meta, out=torch.empty(5, 5))
        with pytest.raises(TypeError, match=r"expected X of dtype .*, got bfloat16"):
            linear(meta.bfloat16())
        with pytest.raises(ValueError, match=r"expected X without requires_grad"):
            linear(meta.requires_grad_())


@pytest.mark.usefixtures("any_backend")
class TestStandard:
    """array-api-strict stands for every library known by the array API and DLPack alone, such as JAX."""

    def test_result_is_of_the_library(self, strict, pair):
        X, Y, expected = pair
        result = linear(strict.asarray(X), strict.asarray(Y))
        assert type(result) is type(strict.asarray(X)) and result.dtype == strict.float32
        np.testing.assert_array_equal(np.from_dlpack(result), expected)
        assert linear(strict.asarray(X, dtype=strict.int16)).dtype == strict.float64
        result = linear(X, strict.asarray(Y))
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, expected)

    def test_result_is_on_the_device(self, strict, pair):
        X, _, _ = pair
        device = strict.Device("device1")
        result = linear(strict.asarray(X, device=device))
        assert result.device == device
        np.testing.assert_array_equal(np.from_dlpack(result), X @ X.T)

    def test_out(self, strict, pair):
        X, Y, expected = pair
        out = strict.zeros((13, 9), dtype=strict.float32)
        assert linear(strict.asarray(X), strict.asarray(Y), out=out) is out
        np.testing.assert_array_equal(np.from_dlpack(out), expected)
        with pytest.raises(TypeError, match=r"expected out to be an array of the library of the first argument"):
            linear(strict.asarray(X), out=np.zeros((13, 13), np.float32))

    def test_complex_refused(self, strict):
        with pytest.raises(TypeError, match=r"expected X of dtype .*, got complex64"):
            linear(strict.ones((2, 2), dtype=strict.complex64))


@pytest.mark.usefixtures("any_backend")
class TestOut:
    @pytest.mark.filterwarnings("ignore:the matrix subclass")
    def test_returned_itself_also_a_subclass(self, tmp_path):
        mapped = np.memmap(tmp_path / "matrix", dtype=float, mode="w+", shape=(2, 2))
        for out in (np.zeros((2, 2)), mapped, np.asmatrix(np.zeros((2, 2)))):
            assert linear(np.array([[1.0, 2.0], [3.0, 4.0]]), out=out) is out
            np.testing.assert_array_equal(np.asarray(out), [[5, 11], [11, 25]])

    def test_between_the_elements_of_an_input_is_no_overlap(self):
        field = np.zeros((6, 12))
        field[:, 1::2] = 1
        linear(field[:, 1::2], out=field[:, ::2])
        np.testing.assert_array_equal(field[:, ::2], 6)
        np.testing.assert_array_equal(field[:, 1::2], 1)

    @pytest.mark.parametrize("convert", [np.asarray, lambda x: x.view(np.int64), lambda x: x.view(">f8")])
    def test_overlap_is_refused_also_when_the_input_is_converted(self, convert):
        field = np.zeros((9, 8))
        before = field.copy()
        for X, out in [
            (field[:8], field[:8]),
            (field[:8], field[1:]),
            (field[:8], field[:8].T),
            (field[1:], field[:8]),
        ]:
            with pytest.raises(ValueError, match=r"^\[gram\.linear\] expected out to overlap no input"):
                linear(convert(X), out=out)
            with pytest.raises(ValueError, match=r"overlap no input"):
                linear(np.ones((8, 8)), convert(X), out=out)
        np.testing.assert_array_equal(field, before)

    def test_an_overlap_too_hard_to_decide_is_refused(self, monkeypatch):
        monkeypatch.setattr(_arrays, "OVERLAP_WORK", 1)
        memory = np.zeros(4000)
        strided = np.lib.stride_tricks.as_strided
        X = strided(memory, (7, 7), (8 * 31, 8 * 17))
        out = strided(memory[3:], (7, 7), (8 * 101, 8 * 13))
        with pytest.raises(ValueError, match=r"overlap no input"):
            linear(X, out=out)

    def test_elements_must_be_distinct(self):
        strided = np.lib.stride_tricks.as_strided
        for strides in [(0, 8), (8, 0), (0, 0), (8, 8), (16, 8), (8, -8)]:
            out = strided(np.zeros(32)[16:], (3, 3), strides)
            with pytest.raises(ValueError, match=r"^\[gram\.linear\] expected out with distinct elements"):
                linear(np.ones((3, 2)), out=out)
        out = strided(np.zeros(32), (1, 3), (0, 8))
        assert linear(np.ones((1, 2)), np.ones((3, 2)), out=out) is out

    def test_empty_out_overlaps_nothing(self):
        X = np.zeros((0, 3))
        out = X[:, :0]
        assert linear(X, out=out) is out


def test_a_cuda_array_is_compared_by_its_addresses():
    """The interface CuPy arrays and CUDA tensors have; the addresses are compared, never followed."""

    class OnDevice:
        def __init__(self, pointer):
            self.__cuda_array_interface__ = {
                "data": (pointer, False),
                "shape": (4, 4),
                "strides": None,
                "typestr": "<f4",
                "version": 3,
            }

    here = _arrays._addresses(OnDevice(0x1000))
    assert _arrays._overlap(here, _arrays._addresses(OnDevice(0x1000 + 60)))
    assert not _arrays._overlap(here, _arrays._addresses(OnDevice(0x1000 + 64)))


def test_cuda_arrays_reach_the_cuda_kernel(monkeypatch, strict, pair):
    """The road of a CUDA array, walked by arrays that only say they are on such a device."""
    X, Y, expected = pair
    calls = []

    class Kernels:
        device_count = staticmethod(lambda: 1)
        enter = staticmethod(lambda device, stream: 0)
        leave = staticmethod(lambda before: None)

        class gram:
            @staticmethod
            def linear(X, Y, out):
                calls.append((X, Y))
                out[...] = X @ Y.T

    monkeypatch.setattr(_arrays.Standard, "device", lambda self, array: "cuda")
    monkeypatch.setattr(_arrays.Standard, "place", lambda self, array: (0, 0))
    monkeypatch.setattr(_dispatch, "_cuda", Kernels)
    monkeypatch.setattr(_dispatch, "_cuda_looked_for", True)
    with fastdl.backend("cuda"):
        result = linear(strict.asarray(X), strict.asarray(Y))
        out = strict.zeros((13, 9), dtype=strict.float32)
        assert linear(strict.asarray(X), strict.asarray(Y), out=out) is out
        with pytest.raises(ValueError, match=r"expected arrays on a CUDA device for backend 'cuda', got device cpu"):
            linear(X, Y)
    with fastdl.backend("auto"):
        linear(strict.asarray(X), strict.asarray(Y))
    assert len(calls) == 3
    assert type(result) is type(out)
    np.testing.assert_array_equal(np.from_dlpack(result), expected)
    np.testing.assert_array_equal(np.from_dlpack(out), expected)
    with fastdl.backend("reference"):
        linear(strict.asarray(X), strict.asarray(Y))
    monkeypatch.setattr(_dispatch, "_cuda", None)
    with fastdl.backend("auto"):
        linear(strict.asarray(X), strict.asarray(Y))
    assert len(calls) == 3


def test_zero_copy(native, monkeypatch, torch, strict):
    """The kernel gets the caller's own memory, and the caller gets the kernel's."""
    seen = []

    def kernel(X, Y, out):
        seen[:] = [X.ctypes.data, Y.ctypes.data, out.ctypes.data]
        out[...] = 0

    monkeypatch.setattr(fastdl.gram._linear, "native", kernel)
    X, Y = np.ones((4, 6), np.float32)[::2, ::-1], np.ones((3, 12), np.float32).T[::2].T
    result = linear(X, Y)
    assert seen == [X.ctypes.data, Y.ctypes.data, result.ctypes.data]
    tensor, other = torch.ones(4, 6)[::2], torch.ones(6, 5).T
    result = linear(tensor, other)
    assert seen == [tensor.data_ptr(), other.data_ptr(), result.data_ptr()]
    out = torch.ones(4, 5)[::2]
    linear(tensor, other, out=out)
    assert seen[2] == out.data_ptr()
    given = strict.ones((2, 6), dtype=strict.float32)
    result = linear(given, tensor)
    assert seen[0] == np.from_dlpack(given).ctypes.data
    assert seen[2] == np.from_dlpack(result).ctypes.data


def test_torch_is_not_imported_for_numpy_users():
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "import numpy as np, fastdl\n"
        "fastdl.gram.linear(np.eye(3), out=np.empty((3, 3)))\n"
        "assert 'torch' not in sys.modules\n"
        "assert fastdl.get_backend() == 'reference' or not {'numpy.ma', 'array_api_compat'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_of_large_results_is_used_again(native, rng):
    X = rng.standard_normal((1200, 3))
    first = fastdl.gram.linear(X)
    view, where = first[5:, 7:], address(first)
    expected = view.copy()
    del first
    # As long as a view is alive the memory is its own.
    assert address(fastdl.gram.linear(X)) != where
    np.testing.assert_array_equal(view, expected)
    del view
    again = fastdl.gram.linear(X)
    np.testing.assert_array_equal(again, fastdl.gram.linear(X, X.copy()))
    assert again.flags.carray and again.flags.writeable


@pytest.mark.parametrize("limit, reused", [("0", False), ("16", True), ("10", False), ("nonsense", True)])
def test_how_much_memory_is_kept(native, limit, reused):
    # 11.5 MB, deleted: kept memory holds what it held, memory fresh from the system holds zeros.
    code = """
import numpy as np
import fastdl
from fastdl._core import Room
fastdl.set_num_threads(1)
np.frombuffer(Room(11_500_000), np.uint8)[:] = 7
print((np.frombuffer(Room(11_400_000), np.uint8) == 7).all())
"""
    environment = {**os.environ, "FASTDL_KEEP_MB": limit}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(reused)]


def test_a_result_that_cannot_be_had(native):
    tall = np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 26, 1), (0, 0))
    endless = np.broadcast_to(np.float32(1), (2**40, 1))
    with pytest.raises(MemoryError, match=r"unable to allocate \d+ bytes for a result of shape \(1099511627776, "):
        fastdl.gram.linear(endless)
    with pytest.raises(MemoryError, match=r"unable to allocate \d+ bytes for a result of shape \(67108864, "):
        fastdl.gram.linear(tall)
