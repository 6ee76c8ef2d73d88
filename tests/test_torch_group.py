"""fastdl.torch: layers on groups, and functions on finite groups and sets, with their gradients."""

import numpy as np
import pytest

import fastdl
from fastdl import group as plain
from fastdl.group import EquivarianceWarning, Group

torch = pytest.importorskip("torch")
ft = pytest.importorskip("fastdl.torch")
F = torch.nn.functional
gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck

ORDERS = {"p4": 4, "p4m": 8, "p2": 2, "pm": 2}
SHIFTS = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]

# Options of layers that commute with their group at the sizes below, and of some that cannot.
PLACES = (
    {},
    {"padding": 1, "activation": "tanh"},
    {"stride": 2, "padding": 1, "activation": "sigmoid"},
    {"padding": "same", "activation": "leaky_relu"},
)


def draw(rng, *shapes, dtype=torch.float64, grad=True):
    """Random tensors that record gradients."""
    values = (torch.from_numpy(np.asarray(rng.standard_normal(shape))) for shape in shapes)
    return tuple(torch.empty(value.shape, dtype=dtype).copy_(value).requires_grad_(grad) for value in values)


def expanded(x, w, bias, group, lift, stride=1, padding=0, activation=None):
    """The layer as a convolution of torch with the filters of all poses, turned by torch."""
    plane = fastdl._group_table.planar("test", group)

    def turned(filters, element):
        flip, turns = element
        filters = torch.rot90(filters, turns, (-2, -1))
        return filters.flip(-2) if flip else filters

    poses = [
        turned(w if lift else w[:, :, plane.quotient[s].tolist()], element) for s, element in enumerate(plane.elements)
    ]
    filters = torch.stack(poses, 1).flatten(0, 1)
    filters = filters if lift else filters.flatten(1, 2)
    before, after = ((w.shape[-1] - 1) // 2, w.shape[-1] // 2) if padding == "same" else (padding, padding)
    x = F.pad(x if lift else x.flatten(1, 2), (before, after) * 2)
    y = F.conv2d(x, filters, bias.repeat_interleave(plane.order), stride).unflatten(1, (w.shape[0], plane.order))
    functions = {None: lambda y: y, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "leaky_relu": F.leaky_relu}
    return functions[activation](y)


@pytest.mark.filterwarnings("ignore::fastdl.group.EquivarianceWarning")
@pytest.mark.parametrize("lift", [True, False], ids=["lift", "group"])
@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("group", ORDERS)
def test_layers_are_convolutions_of_torch(group, k, place, lift, rng):
    elements = () if lift else (ORDERS[group],)
    tensors = draw(rng, (2, 2, *elements, 5, 4), (3, 2, *elements, k, k), (3,))
    ours = (ft.lift_conv2d if lift else ft.group_conv2d)(*tensors, group=group, **place)
    theirs = expanded(*tensors, group, lift, **place)
    # Sums of at most 144 products of numbers of size 1, in two orders.
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    grad = torch.from_numpy(rng.standard_normal(ours.shape))
    for found, wanted in zip(*(torch.autograd.grad(y, tensors, grad) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)


@pytest.mark.filterwarnings("ignore::fastdl.group.EquivarianceWarning")
@pytest.mark.parametrize("algorithm", ["auto", "expand", "orbit"])
@pytest.mark.parametrize("group", ORDERS)
def test_gradcheck(group, algorithm, rng):
    n = ORDERS[group]
    options = {"group": group, "algorithm": algorithm, "padding": 1, "stride": (1, 2)}
    lifted = draw(rng, (1, 2, 4, 3), (2, 2, 2, 2), (2,))
    assert gradcheck(lambda *args: ft.lift_conv2d(*args, activation="tanh", **options), lifted)
    assert gradcheck(lambda *args: ft.lift_conv2d(*args, **options), lifted[:2])
    tensors = draw(rng, (1, 2, n, 3, 3), (2, 2, n, 3, 3), (2,))
    assert gradcheck(lambda *args: ft.group_conv2d(*args, activation="sigmoid", **options), tensors, fast_mode=True)
    for function, args in ((ft.lift_conv2d, lifted), (ft.group_conv2d, tensors)):
        layer = lambda *args, function=function: function(*args, activation="tanh", **options)  # noqa: E731
        assert gradgradcheck(layer, args, fast_mode=True)


@pytest.mark.filterwarnings("ignore::fastdl.group.EquivarianceWarning")
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("rotations", [1, 3, 4])
def test_turns_by_any_angle(rotations, interpolation, rng):
    options = {"rotations": rotations, "interpolation": interpolation, "padding": 1, "activation": "tanh"}
    lifted = draw(rng, (2, 2, 5, 4), (2, 2, 3, 3), (2,))
    found = ft.se2_lift_conv2d(*lifted, **options)
    assert torch.equal(found, plain.se2_lift_conv2d(*(tensor.detach() for tensor in lifted), **options))
    assert gradcheck(lambda *args: ft.se2_lift_conv2d(*args, stride=2, **options), lifted)
    tensors = draw(rng, (1, 2, rotations, 3, 2), (2, 2, rotations, 2, 2), (2,))
    assert gradcheck(lambda *args: ft.se2_conv2d(*args, **options), tensors)
    assert gradcheck(lambda *args: ft.se2_conv2d(*args, **options), tensors[:2], fast_mode=True)
    for function, args in ((ft.se2_lift_conv2d, lifted), (ft.se2_conv2d, tensors)):
        assert gradgradcheck(lambda *args, function=function: function(*args, **options), args, fast_mode=True)


@pytest.mark.parametrize("group", ORDERS)
def test_gradients_commute_with_the_group(group, rng):
    """The gradient of a function that is the same for x and gx turns with x."""
    n = ORDERS[group]
    x, w, v = draw(rng, (1, 2, 6, 6), (3, 2, 3, 3), (2, 3, n, 3, 3))

    def loss(x):
        y = ft.lift_conv2d(x, w, group=group, padding=1, activation="tanh")
        return ft.pool(ft.group_conv2d(y, v, group=group, padding=1), "l2").square().sum()

    (slope,) = torch.autograd.grad(loss(x), x)
    for g in range(n):
        turned = ft.act(x, g, group)
        torch.testing.assert_close(loss(turned), loss(x), rtol=1e-12, atol=0)
        (found,) = torch.autograd.grad(loss(turned), turned)
        torch.testing.assert_close(found, plain.act(slope, g, group), rtol=0, atol=1e-11 * float(slope.abs().max()))


def test_warnings_come_through():
    x = torch.ones(1, 1, 4, 5, requires_grad=True)
    with pytest.warns(EquivarianceWarning, match="quarter turns exchange height and width"):
        ft.lift_conv2d(x, torch.ones(1, 1, 3, 3))


@pytest.mark.parametrize("mode", ["max", "mean", "sum", "l2"])
def test_pool(mode, rng):
    (x,) = draw(rng, (2, 2, 4, 2, 3))
    assert torch.equal(ft.pool(x, mode), plain.pool(x.detach(), mode))
    assert gradcheck(lambda x: ft.pool(x, mode), (x,))
    assert gradgradcheck(lambda x: ft.pool(x, mode), (x,))
    strided = x.detach().transpose(1, 4).contiguous().transpose(1, 4).requires_grad_()
    assert gradcheck(lambda x: ft.pool(x, mode), (strided,))
    assert ft.pool(torch.zeros(0, 2, 4, 3, 3, requires_grad=True), mode).shape == (0, 2, 3, 3)


def test_pool_where_there_is_no_gradient():
    x = torch.zeros(1, 1, 4, 1, 1, requires_grad=True)
    (slope,) = torch.autograd.grad(ft.pool(x, "l2").sum(), x)
    assert torch.equal(slope, torch.zeros_like(x))
    (slope,) = torch.autograd.grad(ft.pool(x, "l2").sum(), x, create_graph=True)
    (again,) = torch.autograd.grad(slope.sum(), x)
    assert torch.equal(again, torch.zeros_like(x))
    (slope,) = torch.autograd.grad(ft.pool(x, "max").sum(), x)
    assert slope.flatten().tolist() == [1, 0, 0, 0]


def test_lengths_near_the_ends_of_the_type():
    for size in (1e-30, 1e30):
        x = torch.tensor([3.0, 4.0], dtype=torch.float32).mul(size).reshape(1, 1, 2, 1, 1).requires_grad_()
        (slope,) = torch.autograd.grad(ft.pool(x, "l2").sum(), x)
        torch.testing.assert_close(slope.flatten(), torch.tensor([0.6, 0.8]))


@pytest.mark.parametrize("group", ORDERS)
def test_act(group, rng):
    for shape in ((2, 2, 3, 4), (1, 2, ORDERS[group], 2, 3)):
        (x,) = draw(rng, shape)
        for g in range(ORDERS[group]):
            assert torch.equal(ft.act(x, g, group), plain.act(x.detach(), g, group))
            assert gradcheck(lambda x, g=g: ft.act(x, g, group), (x,))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_set_pool(mode, rng):
    for shape in ((3, 4), (2, 3, 4)):
        (x,) = draw(rng, shape)
        assert torch.equal(ft.set_pool(x, mode), plain.set_pool(x.detach(), mode))
        assert gradcheck(lambda x: ft.set_pool(x, mode), (x,))
        assert gradgradcheck(lambda x: ft.set_pool(x, mode), (x,))


def test_permutation_layer(rng):
    for shape in ((3, 4), (2, 3, 4), (2, 2, 3, 4), (0, 3, 4)):
        tensors = draw(rng, shape, (4, 5), (4, 5))
        found = ft.permutation_layer(*tensors)
        torch.testing.assert_close(found, plain.permutation_layer(*(t.detach() for t in tensors)), rtol=0, atol=0)
        assert gradcheck(ft.permutation_layer, tensors)
        assert gradgradcheck(ft.permutation_layer, tensors, fast_mode=True)
        for i, one in enumerate(tensors):
            others = [tensor.detach() for tensor in tensors]
            assert gradcheck(
                lambda x, i=i, others=others: ft.permutation_layer(*others[:i], x, *others[i + 1 :]), (one,)
            )
    x, lam, gam = draw(rng, (2, 3), (), ())
    assert gradcheck(ft.permutation_layer, (x, lam, gam))
    assert gradcheck(lambda x: ft.permutation_layer(x, 2, 0.5), (x,))
    torch.testing.assert_close(ft.permutation_layer(x, lam, gam), ft.permutation_layer(x, lam.item(), gam.item()))
    with pytest.raises(TypeError, match=r"\[group.permutation_layer\] expected lam and gam to be two numbers"):
        ft.permutation_layer(x, lam, 2.0)


def test_average(rng):
    (x,) = draw(rng, (2, 4))
    for permutations in (SHIFTS, SHIFTS[1:3], np.array(SHIFTS), torch.tensor(SHIFTS)):
        assert torch.equal(ft.average(x, permutations), plain.average(x.detach(), permutations))
        assert gradcheck(lambda x, permutations=permutations: ft.average(x, permutations), (x,))
    weights = draw(rng, (2, 4), grad=False)[0]
    for function in (ft.average, lambda x, permutations: ft.invariant(x, permutations=permutations)[:, :1] * weights):
        permutations = np.array(SHIFTS)
        (wanted,) = torch.autograd.grad((function(x, permutations) * weights).sum(), x)
        y = function(x, permutations)
        permutations[1:] = permutations[0]  # which going back does not see
        assert torch.equal(torch.autograd.grad((y * weights).sum(), x)[0], wanted)
    layer = torch.nn.Linear(4, 3, dtype=torch.float64)
    invariant = lambda x: ft.average(x, SHIFTS, lambda y: layer(y).tanh())  # noqa: E731
    assert gradcheck(invariant, (x,))
    torch.testing.assert_close(invariant(x), invariant(x.roll(1, -1)), rtol=0, atol=1e-15)
    invariant(x).sum().backward()
    assert layer.weight.grad is not None
    with pytest.raises(ValueError, match=r"\[group.average\] expected permutations of shape \(order, 4\)"):
        ft.average(x, [[0, 1]], torch.tanh)
    with pytest.raises(TypeError, match=r"\[group.average\] expected function to be callable"):
        ft.average(x, SHIFTS, 3)


@pytest.mark.parametrize("group", [Group.cyclic(5), Group.dihedral(3), "p4m", [[0, 1], [1, 0]]], ids=str)
def test_convolutions_on_groups(group, rng):
    n = fastdl._group_table.any_group("test", group).order
    for first, second in (((n,), (n,)), ((2, n), (n,)), ((n,), (3, n)), ((2, 1, n), (3, n))):
        tensors = draw(rng, first, second)
        found = ft.group_convolve(*tensors, group)
        torch.testing.assert_close(found, plain.convolve(*(t.detach() for t in tensors), group), rtol=0, atol=0)
        assert gradcheck(lambda f, h: ft.group_convolve(f, h, group), tensors, fast_mode=True)
        assert gradgradcheck(lambda f, h: ft.group_convolve(f, h, group), tensors, fast_mode=True)
    f, h = draw(rng, (n,), (n,))
    assert gradcheck(lambda f, h: ft.group_convolve(f, h, group), (f, h))
    assert gradcheck(lambda f: ft.group_convolve(f, h.detach(), group), (f,))


def test_orbit_regularizer(rng):
    (W,) = draw(rng, (3, 4))
    value, gradient = plain.orbit_regularizer(W.detach(), 1.5)
    found = ft.orbit_regularizer(W, 1.5)
    assert found.item() == value
    assert ft.orbit_regularizer(W.detach(), 1.5).item() == value
    assert torch.equal(torch.autograd.grad(found, W)[0], gradient)
    assert gradcheck(lambda W: ft.orbit_regularizer(W, 1.5), (W,))
    (slope,) = torch.autograd.grad(ft.orbit_regularizer(W, 1.5) ** 2, W, create_graph=True)
    with pytest.raises(RuntimeError, match=r"\[group.orbit_regularizer\] expected to be differentiated once"):
        slope.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32])
def test_refused(dtype):
    x = torch.ones(1, 1, 4, 4).to(dtype)
    for function, arguments in (
        (ft.lift_conv2d, (x, torch.ones(1, 1, 3, 3))),
        (ft.group_conv2d, (x[:, :, None], torch.ones(1, 1, 1, 3, 3))),
        (ft.se2_lift_conv2d, (x, torch.ones(1, 1, 3, 3))),
        (ft.pool, (x[:, :, None],)),
        (ft.act, (x, 1)),
        (ft.set_pool, (x,)),
        (ft.average, (x, SHIFTS)),
        (ft.permutation_layer, (x, 1, 2)),
    ):
        with pytest.raises(TypeError, match=r"\[group\..*expected x of dtype float32 or float64, got (float16|int32)"):
            function(*arguments)


def test_float32_and_plain_path(rng):
    x, w = draw(rng, (2, 3, 8, 8), (4, 3, 3, 3), dtype=torch.float32)
    y = ft.lift_conv2d(x, w, padding=1, activation="relu")
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.dtype == w.grad.dtype == torch.float32
    with torch.no_grad():
        again = ft.lift_conv2d(x, w, padding=1, activation="relu")
    assert again.grad_fn is None
    assert torch.equal(again, y)
    with fastdl.backend("reference"):
        torch.testing.assert_close(ft.lift_conv2d(x, w, padding=1, activation="relu"), y)


def test_gradients_of_every_sample(rng):
    x, w = draw(rng, (3, 2, 5, 5), (2, 2, 3, 3), grad=False)
    loss = lambda w, x: ft.pool(ft.lift_conv2d(x[None], w, activation="tanh")).sum()  # noqa: E731
    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(w, x)
    for sample, slope in zip(x, found, strict=True):
        inner = w.clone().requires_grad_()
        (wanted,) = torch.autograd.grad(loss(inner, sample), inner)
        torch.testing.assert_close(slope, wanted, rtol=0, atol=1e-13)
