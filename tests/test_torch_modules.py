"""fastdl.torch: modules in the company of torch.nn, in files, copies and other processes; and life without torch."""

import copy
import io
import pickle
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
ft = pytest.importorskip("fastdl.torch")
nn = torch.nn

# Name, arguments, options, and the shape of an input.
SAME_AS_TORCH = (
    ("Conv1d", (4, 6, 3), {"groups": 2, "padding": 1}, (2, 4, 9)),
    ("Conv1d", (2, 3, 4), {"padding": "same"}, (2, 2, 9)),
    ("Conv2d", (3, 4, 3), {}, (2, 3, 7, 6)),
    ("Conv2d", (3, 4, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "bias": False}, (2, 3, 7, 6)),
    ("Conv2d", (3, 4, 3), {"padding": "same", "padding_mode": "reflect", "dilation": 2}, (2, 3, 7, 6)),
    ("Conv2d", (2, 4, 3), {"padding": 2, "padding_mode": "circular"}, (2, 2, 5, 6)),
    ("Conv2d", (2, 4, 3), {"padding": "valid", "padding_mode": "replicate"}, (2, 2, 5, 6)),
    ("Conv3d", (2, 3, 2), {"padding": 1, "padding_mode": "replicate"}, (1, 2, 4, 5, 3)),
    ("ConvTranspose1d", (4, 6, 3), {"groups": 2, "stride": 2, "output_padding": 1}, (2, 4, 5)),
    ("ConvTranspose2d", (3, 4, 3), {"stride": 2, "padding": 1, "bias": False}, (2, 3, 4, 5)),
    ("ConvTranspose3d", (2, 3, 2), {"dilation": 2}, (1, 2, 3, 4, 2)),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, (2, 3, 8)),
    ("MaxPool2d", (2,), {}, (2, 3, 7, 6)),
    ("MaxPool2d", ((3, 2),), {"stride": 1, "padding": 1, "return_indices": True}, (2, 3, 7, 6)),
    ("MaxPool3d", (2,), {}, (1, 2, 4, 5, 4)),
    ("AvgPool1d", (3,), {"padding": 1, "count_include_pad": False}, (2, 3, 8)),
    ("AvgPool2d", (2, 3), {}, (2, 3, 7, 6)),
    ("AvgPool3d", ((1, 2, 2),), {}, (1, 2, 4, 5, 4)),
)
# Modules of our own, with an input.
OURS = (
    (lambda: ft.LiftConv2d(2, 3, 3, padding=1, group="p4m", activation="relu"), (2, 2, 5, 5)),
    (lambda: ft.GroupConv2d(2, 3, 3, stride=2, bias=False), (2, 2, 4, 5, 5)),
    (lambda: ft.SE2LiftConv2d(2, 3, 3, rotations=6), (2, 2, 5, 5)),
    (lambda: ft.SE2Conv2d(2, 3, 3, rotations=4, interpolation="bicubic"), (2, 2, 4, 5, 5)),
    (lambda: ft.GroupPool("l2"), (2, 2, 4, 5, 5)),
    (lambda: ft.PermutationLayer(3, 4), (2, 5, 3)),
    (lambda: ft.SetPool("mean"), (2, 5, 3)),
    (lambda: ft.Gram("rbf", gamma=nn.Parameter(torch.tensor(0.5))), (5, 3)),
    (lambda: ft.Gram("matern", length_scale=torch.tensor([1.0, 2.0, 3.0]), nu=2.5), (5, 3)),
    (lambda: ft.Scattering1D(2, 16), (2, 16)),
    (lambda: ft.Scattering2D(1, (6, 5)), (2, 6, 5)),
    (lambda: ft.HarmonicScattering3D(1, (4, 4, 4), 1), (2, 4, 4, 4)),
    (lambda: ft.RotoTranslationScattering2D(1, (6, 5), 2), (2, 6, 5)),
)


def close(found, wanted):
    """Results or gradients of two convolutions in float32."""
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def network():
    """A network with every kind of layer, from images of 12 × 12 to 3 numbers."""
    return nn.Sequential(
        ft.Conv2d(1, 2, 3, padding=1, activation="relu"),
        ft.LiftConv2d(2, 3, 3, padding=1, activation="relu"),
        nn.BatchNorm3d(3),
        ft.GroupConv2d(3, 4, 3, padding=1, activation="tanh"),
        ft.MaxPool3d((1, 2, 2)),
        ft.GroupPool("max"),
        ft.Scattering2D(1, (6, 6), 2),
        nn.Flatten(),
        nn.Linear(4 * 3 * 9, 3),
    )


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("name", "arguments", "options", "shape"), SAME_AS_TORCH, ids=str)
class TestLikeTorch:
    """Modules that torch.nn has too."""

    def pair(self, name, arguments, options):
        modules = []
        for place in (ft, nn):
            torch.manual_seed(0)
            modules.append(getattr(place, name)(*arguments, **options))
        return modules

    def test_same_start_and_results(self, name, arguments, options, shape):
        ours, theirs = self.pair(name, arguments, options)
        assert isinstance(ours, type(theirs))
        assert repr(ours) == repr(theirs)
        mine, other = ours.state_dict(), theirs.state_dict()
        assert list(mine) == list(other)
        assert all(torch.equal(mine[key], other[key]) for key in mine)
        x = torch.randn(shape)
        results = []
        for module in (ours, theirs):
            inner = x.clone().requires_grad_()
            y = module(inner)
            first = y[0] if isinstance(y, tuple) else y
            first.square().sum().backward()
            results.append((y, inner.grad, *(parameter.grad for parameter in module.parameters())))
        for found, wanted in zip(*results, strict=True):
            close(found, wanted)
        close(ours(x[0]), theirs(x[0]))  # one sample, without its axis

    def test_states_move(self, name, arguments, options, shape, tmp_path):
        ours, theirs = self.pair(name, arguments, options)
        for parameter in theirs.parameters():
            nn.init.normal_(parameter)
        torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
        ours.load_state_dict(torch.load(tmp_path / "theirs.pt"))
        x = torch.randn(shape)
        close(ours(x), theirs(x))
        torch.save(ours.state_dict(), tmp_path / "ours.pt")
        again = self.pair(name, arguments, options)[1]
        again.load_state_dict(torch.load(tmp_path / "ours.pt"))
        close(again(x), ours(x))

    def test_dtypes_and_devices(self, name, arguments, options, shape):
        ours, _ = self.pair(name, arguments, options)
        x = torch.randn(shape, dtype=torch.float64)
        y = ours.double()(x)
        assert (y[0] if isinstance(y, tuple) else y).dtype == torch.float64
        assert all(parameter.dtype == torch.float64 for parameter in ours.parameters())
        if list(ours.parameters()):
            made = getattr(ft, name)(*arguments, **options, dtype=torch.float64, device="cpu")
            assert made.weight.dtype == torch.float64
        with pytest.raises(TypeError, match="expected x of dtype float32 or float64, got bfloat16"):
            ours(x.to(torch.bfloat16))


def test_output_sizes():
    ours, theirs = ft.ConvTranspose2d(2, 3, 3, stride=2, padding=1), nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(1, 2, 4, 4)
    for size in ((7, 8), (8, 8), [8, 7]):
        close(ours(x, output_size=size), theirs(x, output_size=size))
    close(ours(x[0], output_size=(8, 8)), theirs(x[0], output_size=(8, 8)))
    with pytest.raises(ValueError, match="requested an output size"):
        ours(x, output_size=(9, 9))


def test_activations_of_modules():
    x = torch.randn(2, 3, 6, 6)
    for activation, function in (("relu", nn.ReLU()), ("leaky_relu", nn.LeakyReLU()), ("tanh", nn.Tanh())):
        layer = ft.Conv2d(3, 4, 3, activation=activation, algorithm="direct")
        other = nn.Conv2d(3, 4, 3)
        other.load_state_dict(layer.state_dict())
        close(layer(x), function(other(x)))
        assert f"activation={activation}, algorithm=direct" in repr(layer)
    with pytest.raises(ValueError, match=r"\[conv.conv2d\] expected activation to be"):
        ft.Conv2d(3, 4, 3, activation="gelu")
    with pytest.raises(ValueError, match=r"\[conv.conv1d\] expected algorithm to be"):
        ft.Conv1d(3, 4, 3, algorithm="quick")


def test_options_of_pooling_that_are_not_there():
    for make, name in (
        (lambda: ft.MaxPool2d(2, dilation=2), "dilation=1"),
        (lambda: ft.MaxPool2d(2, dilation=(1, 2)), "dilation=1"),
        (lambda: ft.MaxPool1d(2, ceil_mode=True), "ceil_mode=False"),
        (lambda: ft.AvgPool2d(2, ceil_mode=True), "ceil_mode=False"),
        (lambda: ft.AvgPool3d(2, divisor_override=3), "divisor_override=None"),
    ):
        with pytest.raises(ValueError, match=rf"\[conv\.(max|avg)_pool.d\] expected {name}, the only one there is"):
            make()
    x = torch.randn(1, 2, 5, 4)
    assert torch.equal(ft.MaxPool2d(2, dilation=(1, 1))(x), ft.MaxPool2d(2)(x))


@pytest.mark.parametrize(("make", "shape"), OURS, ids=lambda value: "" if isinstance(value, tuple) else repr(value()))
class TestOurs:
    """Modules that torch.nn does not have."""

    def test_training_and_states(self, make, shape, tmp_path):
        module, other = make(), make()
        x = torch.randn(shape, requires_grad=True)
        module(x).square().sum().backward()
        assert x.grad.shape == x.shape
        assert all(parameter.grad is not None for parameter in module.parameters())
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.1)
        torch.save(module.state_dict(), tmp_path / "state.pt")
        other.load_state_dict(torch.load(tmp_path / "state.pt"))
        assert torch.equal(other(x), module(x))

    def test_copies(self, make, shape):
        module = make().eval()
        x = torch.randn(shape)
        buffer = io.BytesIO()
        torch.save(module, buffer)
        buffer.seek(0)
        stored = torch.load(buffer, weights_only=False)
        for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), stored):
            assert torch.equal(other(x), module(x))
            assert repr(other) == repr(module)
            assert not other.training

    def test_dtypes(self, make, shape):
        module = make()
        assert module(torch.randn(shape)).dtype == torch.float32
        assert module.to(torch.float64)(torch.randn(shape, dtype=torch.float64)).dtype == torch.float64
        with pytest.raises(TypeError, match=r"expected . of dtype float32 or float64, got float16"):
            module(torch.randn(shape).half())

    def test_modes(self, make, shape):
        module = make()
        x = torch.randn(shape)
        wanted = module(x)
        assert torch.equal(module.eval()(x), wanted)
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                assert torch.equal(module(x), wanted)
                assert module(x).grad_fn is None


def test_starts_of_group_layers():
    torch.manual_seed(0)
    layer = ft.GroupConv2d(16, 32, 3, group="p4m")
    bound = (16 * 8 * 9) ** -0.5
    for parameter in (layer.weight, layer.bias):
        assert parameter.abs().max() <= bound
    # The variance of even numbers between -bound and bound, of 36864 of them.
    assert layer.weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    plain = ft.LiftConv2d(3, 8, 5)
    assert (plain.weight.shape, plain.bias.shape) == ((8, 3, 5, 5), (8,))
    assert ft.LiftConv2d(3, 8, 5, bias=False).bias is None
    assert ft.SE2Conv2d(2, 3, 5, rotations=6).weight.shape == (3, 2, 6, 5, 5)
    sets = ft.PermutationLayer(3, 4)
    assert torch.equal(sets.gam, torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"\[group.conv2d\] expected group to be one of"):
        ft.GroupConv2d(2, 3, 3, group="p6")
    with pytest.raises(ValueError, match=r"\[group.pool\] expected mode to be"):
        ft.GroupPool("min")
    with pytest.raises(TypeError, match=r"\[group.lift_conv2d\] expected kernel_size"):
        ft.LiftConv2d(2, 3, (3, 3))


def test_sets_have_no_order():
    model = nn.Sequential(ft.PermutationLayer(3, 8), nn.Tanh(), ft.PermutationLayer(8, 4), ft.SetPool("sum"))
    nn.init.normal_(model[0].gam)
    nn.init.normal_(model[2].gam)
    x = torch.randn(2, 7, 3)
    torch.testing.assert_close(model(x[:, torch.randperm(7)]), model(x), rtol=1e-4, atol=1e-3)


class TestNetworks:
    """Modules together."""

    def test_learns(self):
        torch.manual_seed(0)
        model = network()
        x, labels = torch.randn(12, 1, 12, 12), torch.arange(12) % 3
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        losses = []
        for _ in range(40):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.1 * losses[0]
        assert all(torch.isfinite(parameter).all() for parameter in model.parameters())

    def test_saved_and_loaded_by_another_process(self, tmp_path):
        torch.manual_seed(0)
        model = network().eval()
        x = torch.randn(2, 1, 12, 12)
        torch.save({"model": model, "state": model.state_dict(), "x": x, "y": model(x).detach()}, tmp_path / "model.pt")
        script = """
            import sys, torch
            saved = torch.load(sys.argv[1], weights_only=False)
            with torch.inference_mode():
                assert torch.equal(saved["model"](saved["x"]), saved["y"])
        """
        run(script, str(tmp_path / "model.pt"))

    def test_checkpoints(self):
        from torch.utils.checkpoint import checkpoint

        torch.manual_seed(0)
        model = network().eval()
        x = torch.randn(2, 1, 12, 12)
        slopes = []
        for call in (model, lambda x: checkpoint(model, x, use_reentrant=False)):
            model.zero_grad()
            call(x).square().sum().backward()
            slopes.append([parameter.grad.clone() for parameter in model.parameters()])
        assert all(torch.equal(first, second) for first, second in zip(*slopes, strict=True))

    @pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")  # of Python from 3.12 on
    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_data_loaders(self, method):
        """Workers compute scattering of what they load; the parent has used its threads before."""
        data = Scattered(torch.randn(8, 10, 10))
        wanted = torch.stack([data[i] for i in range(8)])
        loader = torch.utils.data.DataLoader(
            data, batch_size=3, num_workers=2, multiprocessing_context=method, timeout=120
        )
        assert torch.equal(torch.cat(list(loader)), wanted)

    def test_compiled(self):
        """torch.compile leaves the functions alone and compiles what is between them."""
        script = """
            import torch
            import fastdl.torch as ft
            model = torch.nn.Sequential(ft.Conv2d(1, 2, 3, activation="relu"), torch.nn.BatchNorm2d(2), ft.MaxPool2d(2))
            x = torch.randn(2, 1, 8, 8)
            wanted = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
            compiled = torch.compile(model, backend="eager")
            found = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
            for first, second in zip(found, wanted):
                torch.testing.assert_close(first, second)
        """
        run(script)


class Scattered(torch.utils.data.Dataset):
    """Images, scattered and convolved by whoever loads them."""

    def __init__(self, images):
        self.images = images
        self.transform = nn.Sequential(ft.Scattering2D(1, (10, 10), 2), ft.Conv2d(3, 2, 3)).requires_grad_(False)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index])


def run(script, *arguments):
    """Run a script in a process of its own, without warnings."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_torch():
    script = """
        import sys
        sys.modules["torch"] = None  # as if it were not installed
        import fastdl
        try:
            import fastdl.torch
        except ImportError as error:
            print(error)
    """
    message = run(script)
    assert "fastdl.torch needs PyTorch" in message
    assert "pip install 'fastdl-kernels[torch]'" in message


def test_fastdl_does_not_import_torch():
    script = """
        import sys
        import fastdl
        import fastdl.scattering
        print(sorted(name for name in sys.modules if name.split(".")[0] == "torch" or name == "fastdl.torch"))
    """
    assert run(script).strip() == "[]"


def test_names():
    """Every name that is public is there, and the plain functions with tensors are named in their refusal."""
    assert all(hasattr(ft, name) for name in ft.__all__)
    import fastdl

    with pytest.raises(ValueError, match=r"use the function of the same name in fastdl\.torch"):
        fastdl.gram.rbf(torch.ones(2, 2, requires_grad=True))
    for family in ("conv1d", "max_pool3d", "lift_conv2d", "matvec", "Scattering1D", "hsic"):
        assert family in ft.__all__
