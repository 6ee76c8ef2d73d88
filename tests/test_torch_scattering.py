"""fastdl.torch: scattering transforms as modules, with gradients for their input."""

import copy
import pickle

import pytest

import fastdl
from fastdl import scattering

torch = pytest.importorskip("torch")
ft = pytest.importorskip("fastdl.torch")
gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck

# Name, arguments and options of a transform.
TRANSFORMS = (
    ("Scattering1D", (2, 9), {}),
    ("Scattering1D", (3, 20, (2, 1)), {"T": 4, "oversampling": 1}),
    ("Scattering1D", (2, (16,), 3), {"max_order": 1, "normalization": "mean"}),
    ("Scattering2D", (1, (5, 4), 3), {}),
    ("Scattering2D", (2, (4, 7), 2), {"max_order": 1}),
    ("Scattering2D", (2, (6, 5), 2), {}),
    ("Scattering2D", (1, (4, 4), 2), {"pre_pad": True}),
    ("HarmonicScattering3D", (1, (2, 3, 2), 1), {}),
    ("HarmonicScattering3D", (1, (2, 2, 3), 2), {"rotation_covariant": False, "integral_powers": (1.0, 3.0)}),
    ("HarmonicScattering3D", (1, (3, 2, 2), 1), {"max_order": 1, "sigma_0": 1.5}),
    ("RotoTranslationScattering2D", (2, (4, 5), 2), {}),
    ("RotoTranslationScattering2D", (1, (3, 4), 2), {"K": 2, "max_order": 1}),
)


def make(case):
    """The module, the plain transform, and the shape of a signal."""
    name, arguments, options = case
    module, transform = (getattr(place, name)(*arguments, **options) for place in (ft, scattering))
    return module, transform, getattr(transform, "_tree", transform).shape


def draw(rng, *shape, dtype=torch.float64):
    return torch.empty(shape, dtype=dtype).copy_(torch.from_numpy(rng.standard_normal(shape))).requires_grad_()


@pytest.mark.parametrize("case", TRANSFORMS, ids=str)
def test_gradcheck(case, rng):
    S, transform, shape = make(case)
    x = draw(rng, 2, *shape)
    assert torch.equal(S(x), transform(x.detach()))
    assert torch.equal(S.scattering(x), S(x))
    assert torch.equal(S.moments(x), transform.moments(x.detach()))
    assert gradcheck(S, (x,), fast_mode=True)
    assert gradcheck(S.moments, (x,), fast_mode=True)
    one = draw(rng, *shape)  # no axis before the signal
    assert gradcheck(S, (one,))
    assert gradcheck(S.moments, (one,))


@pytest.mark.parametrize("case", TRANSFORMS, ids=str)
def test_batches(case, rng):
    S, _, shape = make(case)
    x = draw(rng, 2, 3, *shape)
    (slope,) = torch.autograd.grad(S(x).sum(), x)
    assert slope.shape == x.shape
    none = draw(rng, 0, 3, *shape)
    for function in (S, S.moments):
        assert function(none).shape == (0, *function(x).shape[1:])
        (slope,) = torch.autograd.grad(function(none).sum(), none)
        assert slope.shape == none.shape
    strided = torch.stack([x, x], -1).detach()[..., 0].requires_grad_()
    (found,) = torch.autograd.grad(S(strided).sum(), strided)
    torch.testing.assert_close(found, torch.autograd.grad(S(x).sum(), x)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", TRANSFORMS, ids=str)
def test_float32(case, rng):
    S, _, shape = make(case)
    x = draw(rng, 3, *shape, dtype=torch.float32)
    wide = x.detach().double().requires_grad_()
    y = S(x)
    assert y.dtype == torch.float32
    (found,), (wanted,) = torch.autograd.grad(y.sum(), x), torch.autograd.grad(S(wide).sum(), wide)
    assert found.dtype == torch.float32
    # Moduli near 0 have gradients that depend on the last bits: of norms, not of elements.
    assert torch.linalg.norm(found - wanted) < 1e-3 * torch.linalg.norm(wanted)


@pytest.mark.parametrize("out_type", ["list", "dict"])
@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("Scattering1D", (3, 20, 2), {}),
        ("Scattering1D", (2, 9, 2), {"T": 0}),
        ("Scattering1D", (2, 8, 1), {"average": False, "max_order": 1}),
        ("Scattering2D", (2, (4, 5), 2), {}),
    ],
)
def test_forms_of_results(name, arguments, options, out_type, rng):
    S, transform = (getattr(place, name)(*arguments, out_type=out_type, **options) for place in (ft, scattering))
    x = draw(rng, 2, *transform.shape)
    found, wanted = S(x), transform(x.detach())
    if out_type == "list":
        for first, second in zip(found, wanted, strict=True):
            assert {k: v for k, v in first.items() if k != "coef"} == {k: v for k, v in second.items() if k != "coef"}
        found, wanted = ({i: path["coef"] for i, path in enumerate(paths)} for paths in (found, wanted))
    assert list(found) == list(wanted)
    assert all(torch.equal(found[path], wanted[path]) for path in wanted)

    def flat(x):
        y = S(x)
        return tuple(path["coef"] for path in y) if out_type == "list" else tuple(y.values())

    assert gradcheck(flat, (x,))
    # Paths that a loss does not use.
    last = flat(x)[-1]
    (slope,) = torch.autograd.grad(last.sum(), x)
    assert slope.shape == x.shape
    if name == "Scattering2D":
        S.out_type = "array"
        torch.testing.assert_close(S(x)[:, -1], last, rtol=0, atol=0)


def test_forms_are_checked():
    with pytest.raises(ValueError, match="expected out_type"):
        ft.Scattering2D(1, (4, 4), out_type="tuple")
    with pytest.raises(ValueError, match="expected out_type 'list' or 'dict' without averaging"):
        ft.Scattering1D(1, 4, T=0)
    S = ft.Scattering1D(1, 4, T=0, out_type="list")
    S.out_type = "array"
    with pytest.raises(ValueError, match="expected out_type 'list' or 'dict' without averaging"):
        S(torch.ones(4))


def test_averaging_may_be_changed(rng):
    x = draw(rng, 16)
    S, wanted = ft.Scattering1D(2, 16), scattering.Scattering1D(2, 16, average=False, out_type="list")
    S.average, S.out_type = False, "list"
    for found, part in zip(S(x), wanted(x.detach()), strict=True):
        assert torch.equal(found["coef"], part["coef"])
    S, wanted = ft.Scattering1D(2, 16, T=0, out_type="list"), scattering.Scattering1D(2, 16, T=4)
    S.average, S.T, S.out_type = True, 4, "array"
    assert torch.equal(S(x), wanted(x.detach()))
    assert gradcheck(S, (x,))


@pytest.mark.parametrize("case", TRANSFORMS[::3], ids=str)
def test_gradients_have_no_gradient(case, rng):
    S, _, shape = make(case)
    x = draw(rng, *shape)
    for function in (S, S.moments):
        (slope,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match=r"\[scattering\..*\] expected to be differentiated once"):
            slope.sum().backward()


@pytest.mark.parametrize("case", TRANSFORMS, ids=str)
def test_copies(case, rng):
    S, transform, shape = make(case)
    x = draw(rng, 2, *shape)
    stored = pickle.dumps(S)
    assert len(stored) < 2000  # without the filters
    for other in (pickle.loads(stored), copy.deepcopy(S), copy.copy(S)):
        assert torch.equal(other(x), S(x))
        assert repr(other) == repr(S) == repr(transform)
    assert S.state_dict() == {}
    assert list(S.parameters()) == []
    assert S.to(torch.float32).eval().train() is S


def test_attributes():
    S, transform = ft.Scattering2D(2, (8, 9)), scattering.Scattering2D(2, (8, 9))
    assert (S.J, S.shape, S.L, S.M, S.N, S.padded_shape) == (2, (8, 9), 8, 8, 9, transform.padded_shape)
    assert S.output_size() == transform.output_size() == 81
    assert S.meta()["key"] == transform.meta()["key"]
    assert (S.filters["psi"][3]["levels"][0] == transform.psi[3]["levels"][0]).all()
    S.max_order = 1
    assert S(torch.ones(8, 9)).shape == (17, 2, 2)
    assert pickle.loads(pickle.dumps(S)).max_order == 1
    with pytest.raises(AttributeError, match="missing"):
        _ = S.missing


@pytest.mark.parametrize("case", TRANSFORMS[::3], ids=str)
def test_refused(case):
    S, _, shape = make(case)
    for dtype in (torch.float16, torch.bfloat16, torch.int64):
        with pytest.raises(TypeError, match=r"\[scattering\..*\] expected x of dtype float32 or float64, got"):
            S(torch.ones(shape).to(dtype))
    with pytest.raises(ValueError, match=r"\[scattering\..*\] expected x of shape"):
        S(torch.ones(*shape[:-1], shape[-1] + 1, requires_grad=True))


@pytest.mark.parametrize("case", TRANSFORMS[::3], ids=str)
def test_plain_path_and_what_is_kept(case, rng):
    S, _, shape = make(case)
    x = draw(rng, 2, *shape)
    y = S(x)
    assert [tensor.data_ptr() for tensor in y.grad_fn.saved_tensors] == [x.data_ptr()]
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert torch.equal(S(x), y)
            assert not S(x).requires_grad
    assert S(x.detach()).grad_fn is None
    with torch.no_grad():
        x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_no_copies(native, rng, monkeypatch):
    S = ft.Scattering2D(2, (32, 32))
    x = draw(rng, 8, 32, 32, dtype=torch.float32)
    seen = []
    for operation in (scattering.Scattering2D._forward, scattering.Scattering2D._backward):

        def watched(*arguments, kernel=operation.native):
            seen.append([a.ctypes.data for a in arguments if hasattr(a, "ctypes")])
            return kernel(*arguments)

        monkeypatch.setattr(operation, "native", watched)
    y = S(x)
    assert seen == [[x.data_ptr(), y.data_ptr()]]
    grad = torch.ones_like(y)
    (slope,) = torch.autograd.grad(y, x, grad)
    assert seen[1] == [x.data_ptr(), grad.data_ptr(), slope.data_ptr()]


def test_gradients_of_every_sample(rng):
    S = ft.Scattering1D(2, 16)
    x = draw(rng, 3, 16).detach()
    loss = lambda x: S(x).square().sum()  # noqa: E731
    found = torch.func.vmap(torch.func.grad(loss))(x)
    wanted = torch.stack([torch.func.grad(loss)(sample) for sample in x])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("wavelet", ["haar", "db3"])
def test_wavelet_transforms(wavelet, rng):
    x = draw(rng, 4, 4)

    def there(x):
        approximation, details = ft.wavelet_transform2d(x, 2, wavelet)
        return approximation, *details

    parts = there(x)
    plain, details = scattering.wavelet_transform2d(x.detach(), 2, wavelet)
    assert all(torch.equal(first, second) for first, second in zip(parts, (plain, *details), strict=True))
    assert gradcheck(there, (x,))
    assert gradgradcheck(there, (x,), fast_mode=True)
    parts = tuple(part.detach().requires_grad_() for part in parts)
    back = lambda approximation, *details: ft.inverse_wavelet_transform2d(approximation, list(details), wavelet)  # noqa: E731
    torch.testing.assert_close(back(*parts), x, rtol=0, atol=1e-12)
    assert gradcheck(back, parts)
    assert gradgradcheck(back, parts, fast_mode=True)
    assert gradcheck(lambda x: ft.inverse_wavelet_transform2d(x, [], wavelet), (x,))


def test_on_the_reference(rng):
    x = draw(rng, 2, 5, 4)
    with fastdl.backend("reference"):
        assert gradcheck(ft.Scattering2D(1, (5, 4), 2), (x,), fast_mode=True)
        assert gradcheck(ft.Scattering2D(1, (5, 4), 2).moments, (x,), fast_mode=True)
