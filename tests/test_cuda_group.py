"""The group family on CUDA: against formulas in float64, by identities, and that it did not run on the reference."""

import itertools
import warnings

import numpy as np
import pytest

from cases import group as cases
from cuda_device import ALL_ORDERS, ORDERS, Array, same_layout, to_device, use
from fastdl import _dispatch, group
from fastdl.group import Group

ALGORITHMS = ("auto", "expand", "orbit")
pytestmark = pytest.mark.filterwarnings("ignore::fastdl.group.EquivarianceWarning")


@pytest.fixture(params=cases.GROUPS)
def name(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["group", "lift"])
def lift(request):
    return request.param


@pytest.fixture
def kernels_only(monkeypatch):
    """Fail where a function that has a kernel runs on the reference."""

    def refuse(self, parameters):
        raise AssertionError(f"{self.operation.name} ran on the reference")

    monkeypatch.setattr(_dispatch.Call, "_run_reference", refuse)


@pytest.fixture
def little_scratch(cuda):
    """Let the layers take their pixels, channels and rows in many portions."""
    before = cuda.group.limit_scratch(1 << 13)
    yield
    cuda.group.limit_scratch(before)


def functions(lift):
    """Give the layer, its gradient for x and that for w."""
    if lift:
        return group.lift_conv2d, group.lift_conv2d_input, group.lift_conv2d_weight
    return group.conv2d, group.conv2d_input, group.conv2d_weight


@pytest.fixture
def thorough(request):
    """Tell whether to try all: with threads in one order, in the emulation; others, and the simulator, have less."""
    return f"emulated-{ORDERS[0]}" in request.node.name


@pytest.mark.usefixtures("kernels_only")
class TestLayers:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_against_the_formula(self, cuda, thorough, dtype, name, lift, algorithm):
        forward, input_of, weight_of = functions(lift)
        made = cases.expected(name, lift, dtype)
        of_all = range(len(made)) if algorithm == "orbit" else (0, 3, 7, 8)
        for case in (made[i] for i in (of_all if thorough else (3, 7))):
            stride, padding = case.shape[-2:]
            options = {"group": name, "stride": stride, "padding": padding, "algorithm": algorithm}
            x, w, bias, grad = (to_device(array) for array in (case.x, case.w, case.bias, case.grad))
            y = forward(x, w, bias, **options)
            assert type(y) is Array and y.dtype == dtype and y.shape == case.y.shape
            assert np.abs(y.host - case.y).max() <= case.tolerances[0], case.shape
            dx, dw = input_of(x.shape, w, grad, **options), weight_of(x, w.shape, grad, **options)
            assert dx.dtype == dw.dtype == dtype and dx.shape == x.shape and dw.shape == w.shape
            assert np.abs(dx.host - case.dx).max() <= case.tolerances[1], case.shape
            assert np.abs(dw.host - case.dw).max() <= case.tolerances[2], case.shape

    def test_in_portions(self, cuda, thorough, little_scratch, dtype, name, lift):
        """With scratch memory for a tile of pixels, a channel and a row at a time, to the same formula."""
        forward, input_of, weight_of = functions(lift)
        made = cases.expected(name, lift, dtype)
        for case in (made[i] for i in ((5, 7) if thorough and name == "p4" else (7,))):
            stride, padding = case.shape[-2:]
            x, w, bias, grad = (to_device(array) for array in (case.x, case.w, case.bias, case.grad))
            for algorithm in ("orbit", "expand") if name == "p4" else ("orbit",):
                options = {"group": name, "stride": stride, "padding": padding, "algorithm": algorithm}
                y = forward(x, w, bias, **options)
                assert np.abs(y.host - case.y).max() <= case.tolerances[0], case.shape
                dx, dw = input_of(x.shape, w, grad, **options), weight_of(x, w.shape, grad, **options)
                assert np.abs(dx.host - case.dx).max() <= case.tolerances[1], case.shape
                assert np.abs(dw.host - case.dw).max() <= case.tolerances[2], case.shape

    @pytest.mark.parametrize("limit", [1 << 13, 64 << 20])
    def test_many_output_channels(self, cuda, dtype, rng, name, lift, limit):
        """As many as fill the tiles of the matrix product: otherwise, layers have a kernel of their own."""
        count = 100 if dtype == np.float32 else 50
        shape = (1, 1, count, 13, 13, 2, 1, 0) if limit < 64 << 20 else (2, 3, count, 4, 5, 3, 2, 1)
        x, w, bias = cases.draw(rng, shape, name, lift, dtype)
        before = cuda.group.limit_scratch(limit)
        try:
            options = {"group": name, "stride": shape[-2], "padding": shape[-1], "algorithm": "orbit"}
            y = functions(lift)[0](to_device(x), to_device(w), to_device(bias), **options).host
        finally:
            cuda.group.limit_scratch(before)
        allowed = cases.tolerance(x, w, bias, name, *shape[-2:], lift)
        assert np.abs(y - cases.layer(x, w, bias, name, *shape[-2:], lift)).max() <= allowed

    def test_weights_in_parts(self, cuda, dtype, rng, name):
        """More pixels than one part of the sum takes."""
        shape = (3, 1, 2, 17, 16, 3, 1, 1)
        x, w, _ = cases.draw(rng, shape, name, False, dtype)
        grad = rng.standard_normal((3, 2, cases.order(name), 17, 16)).astype(dtype)
        _, expected = cases.gradients(x, w, grad, name, 1, 1, False)
        _, sizes = cases.gradients(abs(x), abs(w), abs(grad), name, 1, 1, False)
        found = group.conv2d_weight(
            to_device(x), w.shape, to_device(grad), group=name, padding=1, algorithm="orbit"
        ).host
        terms = grad.size / grad.shape[1]
        assert np.abs(found - expected).max() <= 4 * (terms + 8) * np.finfo(dtype).eps * sizes.max()

    @pytest.mark.parametrize("activation", ["relu", "leaky_relu", "sigmoid", "tanh"])
    def test_activations(self, cuda, dtype, rng, activation):
        x, w, bias = cases.draw(rng, (2, 1, 3, 6, 6, 3, 1, 1), "p4", False, dtype)
        y = cases.layer(x, w, bias, "p4", 1, 1, False)
        expected = {
            "relu": np.maximum(y, 0),
            "leaky_relu": np.where(y < 0, 0.01 * y, y),
            "sigmoid": 1 / (1 + np.exp(-y)),
            "tanh": np.tanh(y),
        }[activation]
        for algorithm in ALGORITHMS:
            options = {"padding": 1, "activation": activation, "algorithm": algorithm}
            found = group.conv2d(to_device(x), to_device(w), to_device(bias), **options)
            assert np.abs(found.host - expected).max() <= 2 * cases.tolerance(x, w, bias, "p4", 1, 1, False)

    def test_empty(self, cuda, dtype, rng, name, lift):
        forward, input_of, weight_of = functions(lift)
        for shape, algorithm in itertools.product((*cases.EMPTY, (1, 2, 3, 0, 0, 3, 1, 2)), ALGORITHMS):
            x, w, bias = cases.draw(rng, shape, name, lift, dtype)
            padding = shape[-1]
            options = {"group": name, "padding": padding, "algorithm": algorithm}
            found = forward(to_device(x), to_device(w), to_device(bias), **options).host
            side = shape[3] + 2 * padding - 2
            assert found.shape == (shape[0], shape[2], cases.order(name), side, side)
            np.testing.assert_array_equal(found, np.broadcast_to(bias[:, None, None, None], found.shape))
            grad = to_device(np.ones(found.shape, dtype))
            assert not weight_of(to_device(x), w.shape, grad, **options).host.any()
            assert not input_of(x.shape, to_device(w), grad, **options).host.any()

    def test_padding_and_strides_of_each_axis(self, cuda, rng, lift):
        """Padding before and after, strides that differ, windows that miss pixels: ⟨Ax, y⟩ = ⟨x, A'y⟩ = ⟨w, B'y⟩."""
        forward, input_of, weight_of = functions(lift)
        for name, stride, padding in [("p4", (1, 3), "same"), ("p4m", (3, 2), (0, 2)), ("pm", (4, 1), (1, 3))]:
            for k, algorithm in itertools.product((2, 3), ("orbit", "expand")):
                if padding == "same":
                    stride = 1
                x, w, _ = cases.draw(rng, (2, 3, 2, 7, 9, k, 1, 0), name, lift, np.dtype(float))
                options = {"group": name, "stride": stride, "padding": padding, "algorithm": algorithm}
                y = forward(to_device(x), to_device(w), **options).host
                grad = rng.standard_normal(y.shape)
                dx = input_of(x.shape, to_device(w), to_device(grad), **options).host
                dw = weight_of(to_device(x), w.shape, to_device(grad), **options).host
                total, sizes = (y * grad).sum(), np.abs(y * grad).sum()
                assert abs((x * dx).sum() - total) <= 1e-12 * sizes, (name, k, algorithm)
                assert abs((w * dw).sum() - total) <= 1e-12 * sizes, (name, k, algorithm)

    def test_not_finite(self, cuda, dtype, rng, lift):
        """NaN stays within the window that gave it."""
        _, input_of, _ = functions(lift)
        for name, algorithm in itertools.product(("p4", "p4m"), ("orbit", "expand")):
            x, w, _ = cases.draw(rng, (1, 2, 3, 12, 13, 3, 2, 1), name, lift, dtype)
            grad = rng.standard_normal((1, 3, cases.order(name), 6, 7)).astype(dtype)
            grad[0, 1, 1, 2, 4] = np.nan
            expected = np.zeros((12, 13), bool)
            expected[3:6, 7:10] = True
            options = {"group": name, "stride": 2, "padding": 1, "algorithm": algorithm}
            dx = input_of(x.shape, to_device(w), to_device(grad), **options).host
            assert (np.isnan(dx) == expected).all()

    def test_layouts(self, cuda, dtype, rng, lift):
        forward, input_of, weight_of = functions(lift)
        x, w, bias = cases.draw(rng, (2, 3, 2, 7, 6, 3, 1, 1), "p4", lift, dtype)
        grad = rng.standard_normal((2, 2, 4, 7, 6)).astype(dtype)

        def laid(array):
            yield np.asfortranarray(array)
            yield array[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
            yield np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
            wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
            wide[..., ::2] = array
            yield wide[..., ::2]

        for algorithm in ("orbit", "expand"):
            options = {"group": "p4", "padding": 1, "algorithm": algorithm}

            def results(x, w, bias, grad, options=options):
                parts = (
                    forward(x, w, bias, **options),
                    input_of(x.shape, w, grad, **options),
                    weight_of(x, w.shape, grad, **options),
                )
                return [part.host for part in parts]

            expected = results(*(to_device(array) for array in (x, w, bias, grad)))
            for one, other, third in zip(laid(x), laid(w), laid(grad), strict=True):
                found = results(*(same_layout(array) for array in (one, other, bias, third)))
                for part, same in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(part, same)

    def test_out_of_the_binding(self, cuda, dtype, rng, name):
        """Results go to views as well, and nothing beside them is written."""
        w = rng.standard_normal((2, 3, 3, 3)).astype(dtype)
        order = cases.order(name)
        wide = to_device(np.zeros((2 * order, 3, 3, 6), dtype))
        cuda.group.expand_filters(to_device(w), name, True, wide[..., ::2])
        expected = group.expand_filters(to_device(w), name, True).host
        np.testing.assert_array_equal(wide.host[..., ::2], expected)
        assert not wide.host[..., 1::2].any()

    def test_expanded_filters(self, cuda, dtype, rng, name, lift):
        for k in (1, 2, 3):
            _, w, _ = cases.draw(rng, (1, 3, 4, 7, 7, k, 1, 1), name, lift, dtype)
            order = cases.order(name)
            filters = group.expand_filters(to_device(w), name, lift).host.reshape(4, order, 3, -1, k, k)
            for o, s in itertools.product(range(4), range(order)):
                expected = w[o][:, None] if lift else w[o][:, cases.QUOTIENTS[name][s]]
                np.testing.assert_array_equal(filters[o, s], cases.pose(expected, name, s))


class TestEquivariance:
    @pytest.mark.parametrize("algorithm", ("expand", "orbit"))
    @pytest.mark.parametrize("size, k, stride, padding", [(5, 3, 1, 1), (7, 3, 2, 1), (4, 2, 1, 0)])
    def test_layers(self, cuda, dtype, rng, name, algorithm, size, k, stride, padding):
        """conv(L_g f) = L_g conv(f) for every g, to rounding; `act` runs on the reference."""
        if not cuda.emulated and (size, algorithm) != (7, "orbit"):
            pytest.skip("one size in the simulator")
        for lift in (False, True):
            shape = (1, 2, 3, size, size, k, stride, padding)
            x, w, bias = cases.draw(rng, shape, name, lift, dtype)
            bound = 2 * cases.tolerance(x, w, bias, name, stride, padding, lift)
            forward = functions(lift)[0]
            options = {"group": name, "stride": stride, "padding": padding, "algorithm": algorithm}
            filters, constants = to_device(w), to_device(bias)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                y = forward(to_device(x), filters, constants, **options)
            for g in range(cases.order(name)):
                turned = forward(group.act(to_device(x), g, name), filters, constants, **options)
                assert np.abs(turned.host - group.act(y, g, name).host).max() <= bound

    def test_pooled(self, cuda, dtype, rng, name):
        """What is pooled over the group turns with the image; summed up, in the order of the elements, to rounding."""
        x = to_device(rng.standard_normal((2, 3, cases.order(name), 5, 5)).astype(dtype))
        for mode in ("max", "mean", "sum", "l2"):
            pooled = group.pool(x, mode)
            for g in range(cases.order(name)):
                found = group.pool(group.act(x, g, name), mode).host
                expected = group.act(pooled, g, name).host
                assert np.abs(found - expected).max() <= 64 * np.finfo(dtype).eps


@pytest.mark.usefixtures("kernels_only")
class TestPool:
    def test_against_the_formula(self, cuda, dtype, rng):
        for shape in [(1, 1, 1, 1, 1), (2, 3, 4, 5, 7), (3, 1, 8, 1, 65), (1, 2, 12, 3, 3), (0, 2, 4, 3, 3)]:
            x = rng.standard_normal(shape).astype(dtype)
            wide = x.astype(float)
            for mode, expected in {
                "max": wide.max(2),
                "mean": wide.mean(2),
                "sum": wide.sum(2),
                "l2": np.sqrt((wide * wide).sum(2)),
            }.items():
                found = group.pool(to_device(x), mode)
                assert found.dtype == dtype and found.shape == expected.shape
                allowed = 4 * shape[2] * np.finfo(dtype).eps * np.abs(wide).sum(2)
                assert (np.abs(found.host - expected) <= allowed).all()
                strided = same_layout(np.asfortranarray(x))
                np.testing.assert_array_equal(group.pool(strided, mode).host, found.host)

    def test_near_the_ends_of_the_type(self, cuda, dtype, rng):
        """A mean and a length are within the type where a sum, or the sum of squares, is not."""
        edge = np.finfo(dtype)
        x = (0.5 + rng.random((2, 3, 8, 3, 5)) / 2).astype(dtype)
        wide = x.astype(np.longdouble)
        for scale in (edge.max / 4, edge.tiny * 16, dtype.type(1)):
            for mode, expected in (("mean", wide.mean(2)), ("l2", np.sqrt((wide * wide).sum(2)))):
                found = group.pool(to_device(x * scale), mode).host.astype(np.longdouble)
                assert (np.abs(found - expected * scale) <= 16 * edge.eps * expected * scale).all(), (scale, mode)
        x[0, 0, 3, 0, 0], x[0, 0, 3, 0, 1], x[0, 1] = np.inf, np.nan, 0
        for mode in ("mean", "l2"):
            found = group.pool(to_device(x), mode).host
            assert found[0, 0, 0, 0] == np.inf and np.isnan(found[0, 0, 0, 1]) and not found[0, 1].any()
            assert np.isfinite(found).sum() == found.size - 2
        assert np.isnan(group.pool(to_device(x), "max").host[0, 0, 0, 1])


@pytest.mark.usefixtures("kernels_only")
class TestConvolve:
    @pytest.mark.parametrize("made", [Group.cyclic(1), Group(cases.S3), Group.dihedral(33), Group.symmetric(4)])
    def test_against_the_sum(self, cuda, dtype, rng, made):
        n = made.order
        h = rng.standard_normal(n).astype(dtype)
        for count in (1, 7):
            f = rng.standard_normal((count, n)).astype(dtype)
            expected, sizes = np.zeros((count, n)), np.zeros((count, n))
            for a, b in itertools.product(range(n), repeat=2):  # f(a) h(b) goes to ab
                term = f[:, a].astype(float) * float(h[b])
                expected[:, made.table[a, b]] += term
                sizes[:, made.table[a, b]] += np.abs(term)
            found = group.convolve(to_device(f), to_device(h), made)
            assert found.dtype == dtype and found.shape == f.shape
            assert (np.abs(found.host - expected) <= (n + 2) * np.finfo(dtype).eps * sizes).all()
            strided = group.convolve(same_layout(np.asfortranarray(f)), same_layout(h[::-1].copy()[::-1]), made)
            np.testing.assert_array_equal(strided.host, found.host)

    def test_identities(self, cuda, rng):
        """(f * h) * k = f * (h * k), and the identity of the group is that of the convolution."""
        made = Group(cases.S3)
        f, h, k = rng.standard_normal((3, 6))
        on_device = [to_device(function) for function in (f, h, k, np.eye(6)[made.identity])]
        first = group.convolve(group.convolve(on_device[0], on_device[1], made), on_device[2], made)
        second = group.convolve(on_device[0], group.convolve(on_device[1], on_device[2], made), made)
        np.testing.assert_allclose(first.host, second.host, rtol=0, atol=1e-13)
        np.testing.assert_array_equal(group.convolve(on_device[0], on_device[3], made).host, f)


def test_convolve_on_the_reference(cuda, rng):
    """Several h, and none, are left to the reference, on the device."""
    made = Group.cyclic(5)
    f, h = rng.standard_normal((3, 5)), rng.standard_normal((3, 5))
    found = group.convolve(to_device(f), to_device(h), made)
    expected = np.real(np.fft.ifft(np.fft.fft(f) * np.fft.fft(h)))
    assert type(found) is Array
    np.testing.assert_allclose(found.host, expected, rtol=0, atol=1e-13)
    assert group.convolve(to_device(f[:0]), to_device(h[0]), made).shape == (0, 5)


NONLINEAR = {
    "step": lambda z: (z >= 0).astype(float),
    "cdf": lambda z: (z <= 0).astype(float),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
}


@pytest.mark.usefixtures("kernels_only")
class TestSignature:
    @pytest.mark.parametrize("which", list(NONLINEAR))
    def test_against_the_sum(self, cuda, dtype, rng, which):
        for n, m, d in [(1, 1, 1), (7, 19, 12), (33, 5, 9), (2, 65, 6)] if cuda.emulated else [(7, 5, 9)]:
            orders = cases.rotations_and_flips(d)
            # Whole numbers, so that no product lies near a threshold but on neither side of it.
            x = rng.integers(-4, 5, (n, d)).astype(dtype)
            t = rng.integers(-4, 5, (m, d)).astype(dtype)
            cuts = [-3.5, 0.0, 2.5]
            products = np.einsum("nd,gkd->nkg", x.astype(float), t.astype(float)[:, orders].transpose(1, 0, 2))
            options = {"thresholds": cuts, "moments": [0, 1, 2, 3], "nonlinearity": which}
            found = group.signature(to_device(x), to_device(t), orders, **options)
            parts = [NONLINEAR[which](products - b).sum(-1) for b in cuts]
            expected = np.stack([*parts, *((products**p).sum(-1) for p in range(4))], axis=-1)
            assert found.shape == (n, m, 7) and found.dtype == dtype
            sizes = [
                *([np.abs(products).sum(-1) + len(orders)] * 3),
                *((np.abs(products) ** p).sum(-1) for p in range(4)),
            ]
            allowed = (len(orders) + 16) * np.finfo(dtype).eps * np.stack(sizes, -1)
            assert (np.abs(found.host - expected) <= allowed).all(), (n, m, d)
            strided = group.signature(
                same_layout(np.asfortranarray(x)), same_layout(np.asfortranarray(t)), orders, **options
            )
            np.testing.assert_array_equal(strided.host, found.host)

    def test_thresholds_are_of_the_type(self, cuda, dtype):
        near = dtype.type(0.1)
        x = to_device(np.array([[near], [np.nextafter(near, dtype.type(0))], [np.nextafter(near, dtype.type(1))]]))
        one = to_device(np.ones((1, 1), dtype))
        for which, expected, far in (("step", [1, 0, 1], [1, 1, 0, 0]), ("cdf", [1, 1, 0], [0, 0, 1, 1])):
            found = group.signature(x, one, [[0]], [0.1], nonlinearity=which)
            np.testing.assert_array_equal(found.host[:, 0, 0], expected)
            found = group.signature(x, one, [[0]], [-1e300, -np.inf, 1e300, np.inf], nonlinearity=which)
            np.testing.assert_array_equal(found.host[:, 0], [far] * 3)

    def test_invariance(self, cuda, rng):
        orders = cases.rotations_and_flips(10)
        x, t = rng.standard_normal((4, 10)), to_device(rng.standard_normal((3, 10)))
        before = group.signature(to_device(x), t, orders, [0.1, -0.3], [2], "sigmoid").host
        for order in orders[:: 1 if cuda.emulated else 7]:
            found = group.signature(to_device(x[:, order]), t, orders, [0.1, -0.3], [2], "sigmoid").host
            np.testing.assert_allclose(found, before, rtol=0, atol=1e-12)

    def test_defaults_and_empty(self, cuda, rng):
        orders = cases.rotations_and_flips(4)
        x, t = to_device(rng.standard_normal((3, 4))), to_device(rng.standard_normal((2, 4)))
        found = group.signature(x, t, orders)
        np.testing.assert_array_equal(found.host, group.signature(x, t, orders, thresholds=[0.0]).host)
        assert group.signature(x, t[:0], orders).shape == (3, 0, 1)
        assert group.signature(x[:0], t, orders).shape == (0, 2, 1)
        assert group.signature(x, t, orders, thresholds=[]).shape == (3, 2, 0)
        assert not group.signature(x, t, orders[:0], [0.0], [1]).host.any()
        assert (group.signature(x[:, :0], t[:, :0], np.zeros((2, 0), int), [0.0], [1]).host == [2, 0]).all()


@pytest.mark.usefixtures("kernels_only")
class TestRegularizer:
    def test_against_the_formula(self, cuda, dtype, rng):
        for d, n in [(1, 1), (3, 4), (4, 17)] if cuda.emulated else [(3, 4)]:
            W = rng.standard_normal((d, n)).astype(dtype)
            value, gradient = group.orbit_regularizer(to_device(W), 1.3)
            G = W.astype(float).T @ W.astype(float)
            difference = G[:, :, None, None] - G[None, None, :, :]  # k i l j
            terms = np.exp(-(difference**2) / 1.3**2)
            expected = n * np.einsum("kili->", terms) - terms.sum()
            assert isinstance(value, float) and gradient.dtype == dtype
            slack = 64 * np.finfo(float).eps * n**4
            assert abs(value - expected) <= slack and value >= -slack
            e = rng.standard_normal(W.shape)
            dG = e.T @ W + W.T @ e
            slopes = terms * (-2 / 1.3**2) * difference * (dG[:, :, None, None] - dG[None, None])
            expected = n * np.einsum("kili->", slopes) - slopes.sum()
            allowed = 64 * np.finfo(dtype).eps * n * np.abs(slopes).sum() + 1e-12
            assert abs((gradient.host * e).sum() - expected) <= allowed

    @pytest.mark.parametrize("orders", [6, 12], ids=["C6", "D6"])
    def test_zero_on_orbits(self, cuda, rng, orders):
        W = rng.standard_normal(6)[cases.rotations_and_flips(6)[:orders]].T
        value, gradient = group.orbit_regularizer(same_layout(W), 0.5)
        assert abs(value) <= 1e-9 and np.abs(gradient.host).max() <= 1e-9
        moved = W + 0.1 * rng.standard_normal(W.shape)
        assert group.orbit_regularizer(to_device(moved), 0.5)[0] > 1e-3

    def test_widths_and_empty(self, cuda, dtype, rng):
        """Next to no width counts the entries that are exactly equal; next to all are with a great one."""
        W = rng.integers(-2, 3, (3, 5)).astype(dtype)
        equal = np.equal.outer(W.T @ W, W.T @ W)  # k i l j
        for sigma in (1e-310, 1e-100):
            value, gradient = group.orbit_regularizer(to_device(W), sigma)
            assert value == 5 * np.einsum("kili->", equal.astype(float)) - equal.sum()
            assert gradient.dtype == dtype and not gradient.host.any()
        value, gradient = group.orbit_regularizer(to_device(W), 1e200)
        assert value == 0 and np.abs(gradient.host).max() <= 1e-100
        for shape in ((3, 0), (0, 2)):
            value, gradient = group.orbit_regularizer(to_device(np.ones(shape, dtype)), 1.0)
            assert value == 0 and gradient.shape == shape


class TestBadInput:
    def test_public(self, cuda, name):
        order = cases.order(name)
        x, w = to_device(np.ones((1, 2, order, 5, 5))), to_device(np.ones((3, 2, order, 3, 3)))
        grad = to_device(np.ones((1, 3, order, 3, 4)))
        for call, error, message in [
            (lambda: group.conv2d(x[:, :1], w, group=name), ValueError, "input channels"),
            (lambda: group.conv2d(x[:, :, :1], w, group=name), ValueError, f"the {order} elements of {name}"),
            (lambda: group.conv2d(x, w, to_device(np.ones(2)), group=name), ValueError, "expected bias"),
            (lambda: group.conv2d(x, w, group=name, activation="gelu"), ValueError, "activation"),
            (lambda: group.conv2d(x, np.ones(w.shape), group=name), (TypeError, ValueError), "expected"),
            (lambda: group.conv2d_input(x.shape, w, grad, group=name), ValueError, "expected grad of shape"),
            (lambda: group.conv2d_weight(x, w.shape, grad, group=name), ValueError, "expected grad of shape"),
        ]:
            with pytest.raises(error, match=message):
                call()

    def test_binding(self, cuda):
        """What Python did not check is refused before anything is read or written."""
        out = to_device(np.zeros((1, 3, 4, 3, 3)))
        x, w = to_device(np.ones((1, 2, 4, 5, 5))), to_device(np.ones((3, 2, 4, 3, 3)))
        layer = cuda.group.conv2d
        small = to_device(np.ones((3, 2, 4, 3, 3), np.float32))
        table, numbers = np.array([[0, 1], [1, 2]]), to_device(np.ones(2))
        readonly = Array(out.host, readonly=True)
        for call, error, message in [
            (lambda: layer(x, w, None, "p6", (1, 1), (0, 0), (0, 0), None, "auto", out), ValueError, "group: expected"),
            (lambda: layer(x, w, None, "p4m", (1, 1), (0, 0), (0, 0), None, "auto", out), ValueError, "x: expected"),
            (lambda: layer(x, small, None, "p4", (1, 1), (0, 0), (0, 0), None, "auto", out), TypeError, "w: expected"),
            (lambda: layer(x, w, None, "p4", (0, 1), (0, 0), (0, 0), None, "auto", out), ValueError, "below 2"),
            (lambda: layer(x, w, None, "p4", (1, 1), (0, 0), (0, 0), None, "fft", out), ValueError, "algorithm:"),
            (lambda: layer(x, w, None, "p4", (1, 1), (0, 0), (0, 0), None, "auto", readonly), ValueError, "writable"),
            (lambda: cuda.group.convolve(numbers, numbers, table, numbers), ValueError, "quotient: expected numbers"),
            (lambda: cuda.group.pool(x, "median", out), ValueError, "mode: expected"),
            (lambda: cuda.group.orbit_regularizer(w[0, 0, 0], -1.0, w[0, 0, 0]), ValueError, "sigma: expected"),
        ]:
            with pytest.raises(error, match=message):
                call()
        assert not out.host.any() and (numbers.host == 1).all()


def noticed(cuda, skipped, call):
    """Tell whether a result changes in some order of threads when a barrier is left out."""
    cuda.set_order("fwd")
    expected = call().tobytes()
    try:
        for order in ALL_ORDERS:
            cuda.set_order(order)
            cuda.skip_barrier(-1)
            assert call().tobytes() == expected
            cuda.skip_barrier(skipped)
            if call().tobytes() != expected:
                return True
    finally:
        cuda.skip_barrier(-1)
    return False


def test_missing_barriers(monkeypatch, rng):
    """With any barrier left out, results are wrong in some order: of the regulariser, and of the fused layer."""
    cuda = use("emulated", "fwd", monkeypatch)
    W = to_device(rng.standard_normal((2, 12)))  # 144 terms for 128 threads
    for skipped in range(8):  # 7 levels of the tree
        assert noticed(cuda, skipped, lambda: group.orbit_regularizer(W, 1.3)[1].host) == (skipped < 7)
    x, w, _ = cases.draw(rng, (1, 2, 9, 8, 9, 2, 1, 0), "p4", False, np.dtype(np.float32))
    images, filters = to_device(x), to_device(w)
    for skipped in range(4):  # the table of orbits, and two slices of four
        assert noticed(cuda, skipped, lambda: group.conv2d(images, filters).host) == (skipped < 3), skipped
