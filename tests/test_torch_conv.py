"""fastdl.torch: convolutions and pooling with their gradients, against torch's own and finite differences."""

import gc
import weakref

import numpy as np
import pytest

import fastdl
from fastdl import conv

torch = pytest.importorskip("torch")
ft = pytest.importorskip("fastdl.torch")
F = torch.nn.functional
gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck

FORWARD = {rank: getattr(ft, f"conv{rank}d") for rank in (1, 2, 3)}
TRANSPOSE = {rank: getattr(ft, f"conv_transpose{rank}d") for rank in (1, 2, 3)}

# Shapes of x and w, and options: odd and even kernels, strides beyond the kernel, groups, every padding mode.
CASES = (
    ((2, 3, 7), (4, 3, 3), {}),
    ((2, 4, 9), (6, 2, 2), {"groups": 2, "stride": 3, "padding": 1}),
    ((1, 2, 8), (2, 2, 4), {"padding": "same", "dilation": 1}),
    ((2, 2, 6), (3, 2, 3), {"padding": "full", "dilation": 2}),
    ((2, 3, 5, 4), (2, 3, 3, 2), {"padding": (1, 0)}),
    ((2, 4, 6, 5), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    ((1, 4, 7, 6), (6, 2, 3, 2), {"groups": 2, "stride": (2, 1), "padding": (2, 1), "dilation": (1, 2)}),
    ((2, 2, 6, 6), (3, 2, 2, 2), {"stride": 3}),
    ((2, 2, 5, 6), (2, 2, 1, 1), {"stride": 2}),
    ((1, 2, 5, 5), (2, 2, 4, 2), {"padding": "same"}),
    ((1, 2, 5, 4), (2, 2, 3, 4), {"padding": "same", "padding_mode": "circular"}),
    ((1, 2, 5, 4), (2, 2, 3, 3), {"padding": (4, 5), "padding_mode": "circular"}),
    ((1, 2, 4, 5), (2, 2, 3, 3), {"padding": (3, 2), "padding_mode": "reflect", "stride": 2}),
    ((1, 2, 4, 3), (2, 1, 3, 2), {"padding": (1, 4), "padding_mode": "replicate", "groups": 2, "dilation": 2}),
    ((1, 2, 1, 3), (2, 2, 3, 3), {"padding": (1, 0), "padding_mode": "replicate"}),
    ((1, 2, 3, 4, 4), (2, 2, 2, 3, 1), {"padding": 1, "stride": (1, 2, 1)}),
    ((1, 2, 3, 3, 4), (2, 2, 2, 2, 2), {"padding": (0, 1, 2), "padding_mode": "reflect"}),
    ((0, 2, 4, 4), (3, 2, 3, 3), {"padding": 1}),
)
TRANSPOSED = (
    ((2, 3, 5), (3, 2, 3), {}),
    ((2, 4, 4), (4, 3, 2), {"groups": 2, "stride": 3, "output_padding": 2}),
    ((1, 2, 4), (2, 2, 3), {"dilation": 3, "output_padding": 2, "padding": 1}),
    ((2, 4, 3, 4), (4, 2, 3, 2), {"stride": 2, "padding": 1, "output_padding": (1, 0)}),
    ((1, 4, 3, 3), (4, 1, 2, 3), {"groups": 4, "stride": (1, 2), "dilation": (4, 3), "output_padding": (3, 2)}),
    ((1, 2, 4, 3), (2, 2, 2, 2), {"padding": "same"}),
    ((1, 2, 2, 3, 2), (2, 2, 2, 1, 3), {"stride": 2, "output_padding": 1}),
    ((0, 2, 3, 3), (2, 3, 3, 3), {"stride": 2}),
)


def draw(rng, *shapes, dtype=torch.float64, grad=True):
    """Random tensors that record gradients."""
    values = (torch.from_numpy(rng.standard_normal(shape)) for shape in shapes)
    return tuple(torch.empty(value.shape, dtype=dtype).copy_(value).requires_grad_(grad) for value in values)


def torch_convolution(x, w, bias, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros"):
    """The convolution of torch, with padding written out."""
    rank = x.ndim - 2
    kernel, dilations = w.shape[2:], (dilation,) * rank if isinstance(dilation, int) else dilation
    if isinstance(padding, str):
        reach = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
        margins = [(n, n) if padding == "full" else (n // 2, n - n // 2) for n in reach]
    else:
        margins = [(n, n) for n in ((padding,) * rank if isinstance(padding, int) else padding)]
    if padding_mode == "zeros":
        x = F.pad(x, [n for pair in reversed(margins) for n in pair])
    else:
        modes = {"circular": "wrap", "reflect": "reflect", "replicate": "edge"}
        for axis, margin in enumerate(margins, 2):
            places = np.pad(np.arange(x.shape[axis]), margin, mode=modes[padding_mode])
            x = x.index_select(axis, torch.from_numpy(places))
    return getattr(F, f"conv{rank}d")(x, w, bias, stride, 0, dilation, groups)


@pytest.mark.parametrize("activation", [None, "relu", "leaky_relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions_are_those_of_torch(case, activation, rng):
    shape, filters, options = case
    tensors = draw(rng, shape, filters, filters[:1])
    ours = FORWARD[len(shape) - 2](*tensors, activation=activation, **options)
    theirs = torch_convolution(*tensors, **options)
    if activation is not None:
        theirs = getattr(F, activation)(theirs) if activation != "tanh" else theirs.tanh()
    assert ours.shape == theirs.shape
    # Sums of at most 40 terms of size about 1, in two orders.
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)
    grad = torch.from_numpy(rng.standard_normal(theirs.shape))
    for found, wanted in zip(*(torch.autograd.grad(y, tensors, grad) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradcheck_of_convolutions(case, rng):
    shape, filters, options = case
    function = FORWARD[len(shape) - 2]
    for bias in (True, False):
        tensors = draw(rng, shape, filters, *([filters[:1]] if bias else []))
        assert gradcheck(lambda *args: function(*args, activation="tanh", **options), tensors)


@pytest.mark.parametrize("activation", [None, "relu", "leaky_relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("case", [CASES[1], CASES[6], CASES[9], CASES[12]], ids=str)
def test_second_derivatives_of_convolutions(case, activation, rng):
    shape, filters, options = case
    tensors = draw(rng, shape, filters, filters[:1])
    function = FORWARD[len(shape) - 2]
    assert gradgradcheck(lambda *args: function(*args, activation=activation, **options), tensors, fast_mode=True)


@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_transposed_convolutions(case, rng):
    shape, filters, options = case
    rank, groups = len(shape) - 2, options.get("groups", 1)
    tensors = draw(rng, shape, filters, (filters[1] * groups,))
    ours = TRANSPOSE[rank](*tensors, **options)
    if not isinstance(options.get("padding", 0), str):
        theirs = getattr(F, f"conv_transpose{rank}d")(*tensors, **options)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)
    assert gradcheck(lambda *args: TRANSPOSE[rank](*args, **options), tensors)
    assert gradcheck(lambda *args: TRANSPOSE[rank](*args, **options), tensors[:2])
    assert gradgradcheck(lambda *args: TRANSPOSE[rank](*args, **options), tensors, fast_mode=True)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", [(2,), (3, 2, 1), (2, 3), (3, 1, 1)], ids=str)
def test_pooling(rank, options, rng):
    (x,) = draw(rng, (2, 2, *(5, 4, 3)[:rank]))
    for ours, theirs in (
        (getattr(ft, f"max_pool{rank}d"), getattr(F, f"max_pool{rank}d")),
        (getattr(ft, f"avg_pool{rank}d"), getattr(F, f"avg_pool{rank}d")),
    ):
        torch.testing.assert_close(ours(x, *options), theirs(x, *options), rtol=0, atol=1e-15)
        assert gradcheck(lambda x, function=ours: function(x, *options), (x,))
        assert gradgradcheck(lambda x, function=ours: function(x, *options), (x,), fast_mode=True)
    values, indices = getattr(ft, f"max_pool{rank}d")(x, *options, return_indices=True)
    wanted = getattr(F, f"max_pool{rank}d")(x, *options, return_indices=True)
    assert torch.equal(values, wanted[0])
    assert torch.equal(indices, wanted[1])
    assert not indices.requires_grad


def test_average_pooling_without_the_padding(rng):
    (x,) = draw(rng, (2, 2, 5, 4))
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}
    torch.testing.assert_close(ft.avg_pool2d(x, **options), F.avg_pool2d(x, **options), rtol=0, atol=1e-15)
    assert gradcheck(lambda x: ft.avg_pool2d(x, **options), (x,))


def test_equal_elements_give_their_gradient_to_the_first():
    x = torch.zeros(1, 1, 3, 3, dtype=torch.float64, requires_grad=True)
    ft.max_pool2d(x, 2, 1).sum().backward()
    assert torch.equal(x.grad[0, 0], torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 0]], dtype=torch.float64))


@pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
def test_gradients_at_kinks_are_those_of_torch(activation):
    x = torch.tensor([[[-1.0, 0.0, 1.0]]], requires_grad=True)
    other = x.detach().clone().requires_grad_()
    ft.conv1d(x, torch.ones(1, 1, 1), activation=activation).sum().backward()
    getattr(F, activation)(other).sum().backward()
    assert torch.equal(x.grad, other.grad)


@pytest.mark.parametrize("algorithm", ["direct", "winograd", "fft"])
def test_the_algorithm_changes_no_gradient(algorithm, rng):
    x, w = draw(rng, (2, 3, 12, 13), (4, 3, 3, 3))
    ours = ft.conv2d(x, w, padding=1, algorithm=algorithm)
    torch.testing.assert_close(ours, F.conv2d(x, w, padding=1), rtol=0, atol=1e-12)
    found = torch.autograd.grad(ours.square().sum(), (x, w))
    wanted = torch.autograd.grad(F.conv2d(x, w, padding=1).square().sum(), (x, w))
    for first, second in zip(found, wanted, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-11, atol=1e-10)


class TestLayouts:
    """Strides of tensors are read as they are."""

    def layouts(self, x):
        yield x.contiguous(memory_format=torch.channels_last)
        yield x.transpose(2, 3).contiguous().transpose(2, 3)
        yield torch.stack([x, x], -1)[..., 0]
        yield x.flip(0).flip(0)
        yield x[:, :1].expand_as(x)

    def test_results_and_gradients(self, rng):
        x, w = draw(rng, (2, 3, 6, 5), (4, 3, 3, 2), grad=False)
        for maps in self.layouts(x):
            for filters in self.layouts(w):
                inputs = maps.detach().requires_grad_(), filters.detach().requires_grad_()
                y = ft.conv2d(*inputs, padding=1, activation="sigmoid")
                grad = torch.from_numpy(rng.standard_normal(y.shape)).contiguous(memory_format=torch.channels_last)
                found = torch.autograd.grad(y, inputs, grad)
                wanted = torch.autograd.grad(F.conv2d(*inputs, padding=1).sigmoid(), inputs, grad)
                for first, second in zip(found, wanted, strict=True):
                    torch.testing.assert_close(first, second, rtol=0, atol=1e-13)

    def test_gradcheck_of_channels_last(self, rng):
        x, w = draw(rng, (2, 3, 4, 5), (2, 3, 2, 2), grad=False)
        x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
        assert gradcheck(lambda x: ft.conv2d(x, w), (x,))
        assert gradcheck(lambda x: ft.max_pool2d(x, 2), (x,))

    def test_gradients_that_are_one_number(self, rng):
        x, w = draw(rng, (2, 3, 6, 5), (4, 3, 3, 2))
        found = torch.autograd.grad(ft.conv2d(x, w).sum(), (x, w))  # an expanded gradient, all strides 0
        wanted = torch.autograd.grad(F.conv2d(x, w).sum(), (x, w))
        for first, second in zip(found, wanted, strict=True):
            torch.testing.assert_close(first, second, rtol=0, atol=1e-13)


class TestMemory:
    """No copies, and nothing kept or computed that is not needed."""

    @pytest.fixture
    def seen(self, native, monkeypatch):
        """Addresses of the arrays that kernels were called with."""
        addresses = {}

        def spy(operation):
            kernel = operation.native

            def watched(*arguments):
                addresses[operation.name] = [a.ctypes.data for a in arguments if isinstance(a, np.ndarray)]
                return kernel(*arguments)

            monkeypatch.setattr(operation, "native", watched)

        for operation in (conv._CONV[2], fastdl._conv_gradients._INPUT[2], fastdl._conv_gradients._WEIGHT[2]):
            spy(operation)
        return addresses

    def test_no_copies(self, seen, rng):
        x, w, bias = draw(rng, (8, 4, 32, 33), (6, 4, 3, 3), (6,))
        x = x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()
        y = ft.conv2d(x, w, bias, padding=1)
        assert seen["conv.conv2d"] == [x.data_ptr(), w.data_ptr(), bias.data_ptr(), y.data_ptr()]
        grad = torch.from_numpy(rng.standard_normal(y.shape))
        dx, dw, _ = torch.autograd.grad(y, (x, w, bias), grad)
        assert seen["conv.conv2d_input"] == [w.data_ptr(), grad.data_ptr(), dx.data_ptr()]
        assert seen["conv.conv2d_weight"] == [x.data_ptr(), grad.data_ptr(), dw.data_ptr()]

    def test_no_copies_without_gradients(self, seen, rng):
        x, w = draw(rng, (8, 4, 32, 33), (6, 4, 3, 3))
        with torch.no_grad():
            y = ft.conv2d(x, w)
        assert seen["conv.conv2d"] == [x.data_ptr(), w.data_ptr(), y.data_ptr()]

    @pytest.mark.parametrize("needed", ["x", "w", "bias"])
    def test_only_what_is_needed_is_computed_and_kept(self, needed, seen, rng):
        tensors = dict(zip(("x", "w", "bias"), draw(rng, (2, 3, 5, 5), (4, 3, 3, 3), (4,), grad=False), strict=True))
        tensors[needed].requires_grad_()
        y = ft.conv2d(**tensors)
        kept = [tensor.data_ptr() for tensor in y.grad_fn.saved_tensors if tensor is not None]
        assert kept == {"x": [tensors["w"].data_ptr()], "w": [tensors["x"].data_ptr()], "bias": []}[needed]
        y.sum().backward()
        assert ("conv.conv2d_input" in seen) == (needed == "x")
        assert ("conv.conv2d_weight" in seen) == (needed == "w")
        assert tensors[needed].grad.shape == tensors[needed].shape

    def test_the_graph_frees_what_it_kept(self, rng):
        x, w = draw(rng, (2, 3, 9, 9), (4, 3, 3, 3))
        inner = ft.conv2d(x, w, activation="relu")
        alive = weakref.ref(inner.grad_fn)
        loss = ft.max_pool2d(inner, 2).sum()
        del inner
        loss.backward()
        del loss
        gc.collect()
        assert alive() is None

    def test_what_needs_no_gradient_takes_the_plain_path(self, rng, monkeypatch):
        x, w = draw(rng, (2, 3, 5, 5), (4, 3, 3, 3))
        functions = (
            lambda x: ft.conv2d(x, w, activation="relu"),
            lambda x: ft.conv_transpose2d(x, w.transpose(0, 1), groups=1),
            lambda x: ft.max_pool2d(x, 2),
            lambda x: ft.avg_pool2d(x, 2),
        )
        wanted = [function(x) for function in functions]
        assert all(y.grad_fn is not None for y in wanted)

        def refuse(*arguments):
            raise AssertionError("autograd was told of a call that it need not know of")

        for module in (ft._functions, ft._pool):
            monkeypatch.setattr(module, "call", refuse)
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                for function, y in zip(functions, wanted, strict=True):
                    found = function(x)
                    assert torch.equal(found, y)
                    assert not found.requires_grad
        frozen = x.detach()
        assert torch.equal(ft.max_pool2d(frozen, 2), wanted[2])

    def test_changed_in_place(self, rng):
        for changed in range(2):
            tensors = draw(rng, (2, 3, 5, 5), (4, 3, 3, 3))
            y = ft.conv2d(*tensors)
            with torch.no_grad():
                tensors[changed].add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
        y = ft.conv2d(*draw(rng, (2, 3, 5, 5), (4, 3, 3, 3)), activation="relu")
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    def test_results_may_be_changed_in_place(self, rng):
        x, w = draw(rng, (2, 3, 5, 5), (4, 3, 3, 3))
        assert gradcheck(lambda x, w: ft.conv2d(x, w).mul_(2).tanh_(), (x, w))


class TestTypes:
    """Dtypes and kinds."""

    def test_float32(self, rng):
        x, w, bias = draw(rng, (2, 3, 9, 8), (4, 3, 3, 3), (4,), dtype=torch.float32)
        y = ft.conv2d(x, w, bias, padding=1, activation="relu")
        assert y.dtype == torch.float32
        wide = [tensor.detach().double().requires_grad_() for tensor in (x, w, bias)]
        y.sum().backward()
        F.conv2d(*wide, padding=1).relu().sum().backward()
        for found, wanted in zip((x, w, bias), wide, strict=True):
            assert found.grad.dtype == torch.float32
            torch.testing.assert_close(found.grad.double(), wanted.grad, rtol=1e-5, atol=1e-4)

    def test_mixed(self, rng):
        (x,), (w,) = draw(rng, (2, 3, 5, 5), dtype=torch.float32), draw(rng, (4, 3, 3, 3))
        y = ft.conv2d(x, w)
        assert y.dtype == torch.float64
        y.square().sum().backward()
        assert (x.grad.dtype, w.grad.dtype) == (torch.float32, torch.float64)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
    @pytest.mark.parametrize("grad", [True, False])
    def test_refused(self, dtype, grad):
        x, w = torch.ones(1, 1, 4, 4).to(dtype), torch.ones(1, 1, 2, 2, requires_grad=grad)
        name = str(dtype).removeprefix("torch.")
        with pytest.raises(TypeError, match=rf"\[conv.conv2d\] expected x of dtype float32 or float64, got {name}"):
            ft.conv2d(x, w)
        with pytest.raises(TypeError, match=rf"\[conv.conv2d\] expected bias of dtype .*, got {name}"):
            ft.conv2d(torch.ones(1, 1, 4, 4), w, x[0, 0, 0, :1])
        for function in (ft.max_pool2d, ft.avg_pool2d):
            with pytest.raises(TypeError, match=rf"expected x of dtype float32 or float64, got {name}"):
                function(x, 2)

    @pytest.mark.parametrize("value", [None, [[1.0]], np.ones((1, 1, 2, 2)), 3.0])
    def test_not_tensors(self, value):
        x = torch.ones(1, 1, 4, 4, requires_grad=True)
        with pytest.raises(TypeError, match=r"\[conv.conv2d\] expected w to be a torch.Tensor, got"):
            ft.conv2d(x, value)
        with pytest.raises(TypeError, match=r"\[conv.conv_transpose2d\] expected x to be a torch.Tensor, got"):
            ft.conv_transpose2d(value, x)

    def test_shapes(self):
        x = torch.ones(1, 2, 4, 4, requires_grad=True)
        with pytest.raises(ValueError, match=r"\[conv.conv2d\] expected w with 2 channels"):
            ft.conv2d(x, torch.ones(1, 3, 2, 2))
        with pytest.raises(ValueError, match=r"\[conv.conv_transpose2d\] expected output_padding below"):
            ft.conv_transpose2d(x, torch.ones(2, 3, 2, 2), output_padding=1)
        with pytest.raises(ValueError, match=r"\[conv.conv2d\] expected activation to be"):
            ft.conv2d(x, torch.ones(1, 2, 2, 2), activation="gelu")

    def test_out(self):
        x, w, out = torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2), torch.empty(1, 1, 3, 3)
        assert ft.conv2d(x, w, out=out) is out
        assert out.sum() == 36
        out.zero_()
        with pytest.raises(ValueError, match=r"\[conv.conv2d\] expected no out where gradients are recorded"):
            ft.conv2d(x.requires_grad_(), w, out=out)
        assert out.sum() == 0


class TestTransforms:
    """torch.func, and forward mode, which is not there."""

    def test_gradients_of_every_sample(self, rng):
        x, w = draw(rng, (3, 2, 6, 5), (4, 2, 3, 2), grad=False)

        def loss(conv, pool, w, x):
            return pool(conv(x[None], w).tanh(), 2).square().sum()

        found = torch.func.vmap(torch.func.grad(lambda w, x: loss(ft.conv2d, ft.max_pool2d, w, x)), (None, 0))(w, x)
        wanted = torch.func.vmap(torch.func.grad(lambda w, x: loss(F.conv2d, F.max_pool2d, w, x)), (None, 0))(w, x)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)

    def test_an_empty_batch_has_no_shape(self):
        with pytest.raises(ValueError, match=r"\[torch.vmap\] expected a sample at least"):
            torch.func.vmap(lambda x: ft.avg_pool2d(x, 2))(torch.ones(0, 1, 2, 4, 4))

    def test_jacobians(self, rng):
        x, w = draw(rng, (2, 2, 5, 5), (2, 2, 3, 3), grad=False)
        ours = lambda w: ft.conv2d(x, w, activation="sigmoid").sum((2, 3))  # noqa: E731
        theirs = lambda w: F.conv2d(x, w).sigmoid().sum((2, 3))  # noqa: E731
        found, wanted = (torch.func.jacrev(function)(w) for function in (ours, theirs))
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
        found, wanted = (torch.func.jacrev(torch.func.jacrev(function))(w) for function in (ours, theirs))
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
        _, back = torch.func.vjp(ours, w)
        grad = torch.from_numpy(rng.standard_normal((2, 2)))
        wanted = torch.einsum("nc,ncijkl->ijkl", grad, torch.func.jacrev(theirs)(w))
        torch.testing.assert_close(back(grad)[0], wanted, rtol=0, atol=1e-12)

    @pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch's own, as it sets up forward mode
    def test_forward_mode_is_refused(self):
        from torch.autograd import forward_ad

        with forward_ad.dual_level():
            x = forward_ad.make_dual(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4, 4))
            for context in (torch.enable_grad, torch.no_grad):
                with context(), pytest.raises(NotImplementedError, match="jvp"):
                    ft.conv2d(x, torch.ones(1, 1, 2, 2))


def test_on_the_reference(rng):
    x, w, bias = draw(rng, (1, 2, 5, 4), (2, 2, 3, 2), (2,))
    with fastdl.backend("reference"):
        assert gradcheck(lambda *args: ft.conv2d(*args, padding=1, activation="tanh"), (x, w, bias))
        assert gradcheck(lambda x: ft.max_pool2d(x, 2), (x,))
        assert gradcheck(lambda x: ft.avg_pool2d(x, 2), (x,))
        assert gradcheck(lambda x, w: ft.conv_transpose2d(x, w, stride=2), (x, w))


def test_threads_change_no_bit(native, rng):
    x, w = draw(rng, (4, 8, 33, 31), (16, 8, 3, 3), dtype=torch.float32)
    results = []
    for count in (1, 2):
        with fastdl.threads(count):
            results.append(torch.autograd.grad(ft.conv2d(x, w, padding=1, activation="relu").square().sum(), (x, w)))
    assert all(torch.equal(first, second) for first, second in zip(*results, strict=True))
