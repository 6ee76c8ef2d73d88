"""How arrays come to the CUDA kernels and results go home: dispatch, devices, streams, layouts, errors."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import fastdl
from cases import layouts
from cases.gram import linear_expected, linear_tolerance
from cuda_device import Array, same_layout, to_device
from fastdl import _arrays, _dispatch, _selftest


def test_in_and_out(cuda, dtype, rng):
    X, Y = rng.standard_normal((33, 7)).astype(dtype), rng.standard_normal((17, 7)).astype(dtype)
    K = fastdl.gram.linear(to_device(X), to_device(Y))
    assert type(K) is Array and K.dtype == dtype
    assert (np.abs(K.host - linear_expected(X, Y)) <= linear_tolerance(X, Y)).all()
    out = to_device(np.zeros((33, 17), dtype))
    assert fastdl.gram.linear(to_device(X), to_device(Y), out=out) is out
    assert out.host.tobytes() == K.host.tobytes()


def test_layouts(cuda, dtype, rng):
    X = rng.standard_normal((20, 9)).astype(dtype)
    expected = fastdl.gram.linear(to_device(X)).host
    for name, laid in layouts(X):
        assert (fastdl.gram.linear(same_layout(laid)).host == expected).all(), name
    wide = to_device(np.zeros((20, 40), dtype))
    fastdl.gram.linear(to_device(X), out=wide[:, ::2])
    assert (wide.host[:, ::2] == expected).all() and not wide.host[:, 1::2].any()


def test_integers_and_mixed_precisions(cuda):
    X = np.arange(12).reshape(4, 3)
    K = fastdl.gram.linear(to_device(X))
    assert K.dtype == np.float64 and (K.host == X @ X.T).all()
    mixed = fastdl.gram.linear(to_device(X.astype(np.float32)), to_device(X.astype(np.float64)))
    assert mixed.dtype == np.float64 and (mixed.host == X @ X.T).all()


class TestBackends:
    def test_named(self, cuda):
        X = to_device(np.eye(3))
        with fastdl.backend("cuda"):
            assert (fastdl.gram.linear(X).host == np.eye(3)).all()
            with pytest.raises(ValueError, match=r"\[gram.linear\] expected arrays on a CUDA device .* got device cpu"):
                fastdl.gram.linear(np.eye(3))

    def test_reference_on_request(self, cuda, monkeypatch):
        monkeypatch.setattr(cuda.gram, "linear", None)
        with fastdl.backend("reference"):
            assert (fastdl.gram.linear(to_device(np.eye(3))).host == np.eye(3)).all()

    def test_reference_without_the_extension(self, cuda, monkeypatch):
        X = to_device(np.eye(3))
        assert fastdl.gram._linear.begin(X, None).backend == "cuda"
        monkeypatch.setattr(_dispatch, "_cuda", None)
        assert fastdl.gram._linear.begin(X, None).backend == "reference"

    def test_not_installed(self, monkeypatch):
        monkeypatch.setattr(_dispatch, "_cuda", None)
        monkeypatch.setattr(_dispatch, "_cuda_looked_for", True)
        with pytest.raises(RuntimeError, match=r"\[backend\] expected the CUDA extension, .* nvcc .*pip install"):
            fastdl.backend("cuda")

    def test_no_device(self, monkeypatch):
        monkeypatch.setattr(_dispatch, "_cuda", SimpleNamespace(device_count=lambda: 0))
        monkeypatch.setattr(_dispatch, "_cuda_looked_for", True)
        with pytest.raises(RuntimeError, match=r"\[backend\] expected a CUDA device, got none: see that nvidia-smi"):
            fastdl.backend("cuda")

    def test_no_device_for_an_array(self, monkeypatch):
        """As when the driver is too old for the extension, but not for the library of the array."""
        monkeypatch.setattr(_dispatch, "_cuda", SimpleNamespace(device_count=lambda: 0))
        monkeypatch.setattr(_dispatch, "_cuda_looked_for", True)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"\[gram.linear\] expected a CUDA device, got none: see that nv"):
                fastdl.gram.linear(Array(np.eye(3)))

    def test_devices_are_counted_once(self, monkeypatch):
        asked = []
        monkeypatch.setattr(_dispatch, "_cuda", SimpleNamespace(device_count=lambda: asked.append(True) or 1))
        monkeypatch.setattr(_dispatch, "_cuda_looked_for", True)
        for _ in range(3):
            fastdl.gram._linear.begin(Array(np.eye(3)), None)
        assert asked == [True]

    @pytest.mark.parametrize("requested", ["auto", "cuda"])
    def test_reference_without_the_interface(self, cuda, requested):
        """The kernels find an array by `__cuda_array_interface__`; what DLPack alone hands over is not theirs."""
        X, out = (ByDLPack(to_device(host).host) for host in (2 * np.eye(3), np.zeros((3, 3))))
        with fastdl.backend(requested):
            assert fastdl.gram._linear.begin(X, None).backend == "reference"
            assert (fastdl.gram.linear(X).host == 4 * np.eye(3)).all()
            assert fastdl.gram.linear(X, X, out=out) is out and (out.host == 4 * np.eye(3)).all()


class ByDLPack(Array):
    """An array that has no `__cuda_array_interface__`."""

    @property
    def __cuda_array_interface__(self):
        raise AttributeError


def test_selftest(cuda, monkeypatch, capsys):
    """What it checks of an installation with a GPU: the first of its functions, as all would take minutes here."""
    monkeypatch.setattr(_selftest, "_SIZES", ((0, 3, 2), (7, 9, 17)))
    monkeypatch.setattr(_selftest, "_CHECKS", _selftest._CHECKS[:1])
    place = _selftest._Place("here", to_device, lambda array: array.host)
    monkeypatch.setattr(_selftest, "_gpu", lambda: place)
    monkeypatch.setattr(_dispatch, "core", None)
    assert _selftest.run() == 0
    assert capsys.readouterr().out.count("cuda      here") == 2


class Recorder:
    """An extension that remembers where its calls ran."""

    def __init__(self, extension):
        self.extension, self.places = extension, []

    def __getattr__(self, name):
        return getattr(self.extension, name)

    def enter(self, device, stream):
        self.places.append((device, stream))
        return self.extension.enter(device, stream)


def no_invented_streams(request):
    """Skip on a GPU: its driver takes the number of a stream for an address, and reads there."""
    if request.node.callspec.params["cuda"][0] == "gpu":
        pytest.skip("invents a stream, which ends the process on a GPU")


class TestStreams:
    @pytest.mark.parametrize("said, stream", [(None, 0), (1, 0), (2, 2), (1 << 40, 1 << 40)])
    def test_of_an_array(self, cuda, monkeypatch, request, said, stream):
        if stream > 2:  # the others are CUDA's own: the default one, and that of each thread
            no_invented_streams(request)
        recorder = Recorder(cuda)
        monkeypatch.setattr(_dispatch, "_cuda", recorder)
        X = to_device(np.eye(3), stream=said)
        assert (fastdl.gram.linear(X).host == np.eye(3)).all()
        assert recorder.places == [(0, stream)]

    def test_another_array_of_another_stream(self, cuda, request):
        """Work waits for the stream that the array was made on."""
        no_invented_streams(request)
        X, Y = to_device(np.eye(3), stream=8), to_device(2 * np.eye(3), stream=16)
        assert (fastdl.gram.linear(X, Y).host == 2 * np.eye(3)).all()

    def test_of_cupy(self, cuda, monkeypatch):
        asked = []

        def current(device):
            asked.append(device)
            return SimpleNamespace(ptr=77)

        module = SimpleNamespace(ndarray=Array, cuda=SimpleNamespace(get_current_stream=current))
        monkeypatch.setitem(sys.modules, "cupy", module)
        assert _arrays.STANDARD.place(to_device(np.eye(2))) == (0, 77) and asked == [0]

    def test_of_torch(self, monkeypatch):
        torch = pytest.importorskip("torch")
        tensor = SimpleNamespace(device=SimpleNamespace(index=3))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=device.index + 5))
        assert _arrays.TORCH.place(tensor) == (3, 8)


class TestRefused:
    def test_devices_mixed(self, cuda):
        X, Y = to_device(np.eye(3)), Array(to_device(np.eye(3)).host, device=1)
        with pytest.raises(ValueError, match=r"\[gram.linear\] expected Y on device cuda:0 like X, got .* cuda:1"):
            fastdl.gram.linear(X, Y)
        with pytest.raises(ValueError, match=r"\[gram.linear\] expected Y on device cuda:0 like X, got numpy.ndarray"):
            fastdl.gram.linear(X, np.eye(3))
        with pytest.raises(ValueError, match=r"\[gram.linear\] expected Y in main memory like X, got cuda"):
            fastdl.gram.linear(np.eye(3), X)

    def test_memory_of_the_host(self, cuda):
        with pytest.raises(ValueError, match=r"\[gram.linear\] .*expected memory of device 0, got memory of the host"):
            fastdl.gram.linear(Array(np.eye(3)))

    @pytest.mark.parametrize("dtype", ["float16", "complex64"])
    def test_dtypes(self, cuda, dtype):
        with pytest.raises(TypeError, match=rf"\[gram.linear\] expected X of dtype .* got {dtype}"):
            fastdl.gram.linear(to_device(np.zeros((2, 2), dtype)))

    def test_out(self, cuda):
        X = to_device(np.ones((3, 3)))
        for out, error, message in (
            (to_device(np.zeros((3, 4))), ValueError, r"expected out of shape \(3, 3\), got \(3, 4\)"),
            (to_device(np.zeros((3, 3), np.float32)), TypeError, "expected out of dtype float64, got float32"),
            (np.zeros((3, 3)), TypeError, "expected out to be an array of the library of the first argument"),
            (X, ValueError, "expected out to overlap no input"),
            (Array(to_device(np.zeros((3, 3))).host, readonly=True), ValueError, "expected a writable array"),
        ):
            before = np.array(out.host if isinstance(out, Array) else out)
            with pytest.raises(error, match=rf"\[gram.linear\].*{message}"):
                fastdl.gram.linear(X, out=out)
            assert (before == (out.host if isinstance(out, Array) else out)).all()

    def test_too_many_axes(self, cuda):
        with pytest.raises(ValueError, match=r"\[gram.linear\] expected X of shape \(n, d\)"):
            fastdl.gram.linear(to_device(np.zeros((1,) * 9)))
