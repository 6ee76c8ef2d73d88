"""Layers on groups of the plane: against their formula, and that they commute with every element."""

import itertools
import warnings

import numpy as np
import pytest

import fastdl
from cases import group as cases
from fastdl import group

ALGORITHMS = ("auto", "expand", "orbit")
pytestmark = pytest.mark.filterwarnings("ignore::fastdl.group.EquivarianceWarning")


@pytest.fixture(params=cases.GROUPS)
def name(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["group", "lift"])
def lift(request):
    return request.param


def forward(lift):
    return group.lift_conv2d if lift else group.conv2d


class TestAgainstTheFormula:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_forward(self, level, dtype, name, lift, algorithm):
        if level == "reference" and algorithm != "auto":
            pytest.skip("the reference has one algorithm")
        for case in cases.expected(name, lift, dtype):
            stride, padding = case.shape[-2:]
            options = {"group": name, "stride": stride, "padding": padding, "algorithm": algorithm}
            found = forward(lift)(case.x, case.w, case.bias, **options)
            assert found.dtype == dtype and found.shape == case.y.shape
            assert np.abs(found - case.y).max() <= case.tolerances[0], case.shape

    @pytest.mark.parametrize("activation", ["relu", "leaky_relu", "sigmoid", "tanh"])
    def test_activations(self, level, dtype, rng, name, activation):
        x, w, bias = cases.draw(rng, (2, 3, 4, 9, 9, 3, 1, 1), name, False, dtype)
        y = cases.layer(x, w, bias, name, 1, 1, False)
        expected = {
            "relu": np.maximum(y, 0),
            "leaky_relu": np.where(y < 0, 0.01 * y, y),
            "sigmoid": 1 / (1 + np.exp(-y)),
            "tanh": np.tanh(y),
        }[activation]
        for algorithm in ALGORITHMS:
            found = group.conv2d(x, w, bias, group=name, padding=1, activation=activation, algorithm=algorithm)
            assert np.abs(found - expected).max() <= 2 * cases.tolerance(x, w, bias, name, 1, 1, False)

    def test_empty(self, level, dtype, rng, name, lift):
        for shape in cases.EMPTY:
            x, w, bias = cases.draw(rng, shape, name, lift, dtype)
            for algorithm in ALGORITHMS:
                found = forward(lift)(x, w, bias, group=name, padding=1, algorithm=algorithm)
                expected = cases.layer(x, w, bias, name, 1, 1, lift)
                np.testing.assert_array_equal(found, expected.astype(dtype))

    def test_images_without_pixels(self, level, dtype, rng, name, lift):
        x, w, bias = cases.draw(rng, (1, 2, 3, 0, 0, 3, 1, 2), name, lift, dtype)
        for algorithm in ALGORITHMS:
            found = forward(lift)(x, w, bias, group=name, padding=2, algorithm=algorithm)
            expected = np.broadcast_to(bias[:, None, None, None], (1, 3, cases.order(name), 2, 2))
            np.testing.assert_array_equal(found, expected)

    def test_expanded_filters(self, level, dtype, rng, name, lift):
        shape = (2, 3, 4, 7, 7, 3, 1, 1)
        x, w, _ = cases.draw(rng, shape, name, lift, dtype)
        filters = group.expand_filters(w, name, lift)
        order = cases.order(name)
        for o in range(4):
            for s in range(order):
                one = filters.reshape(4, order, 3, -1, 3, 3)[o, s]
                expected = w[o][:, None] if lift else w[o][:, cases.QUOTIENTS[name][s]]
                np.testing.assert_array_equal(one, cases.pose(expected, name, s))
        y = fastdl.conv.conv2d(x.reshape(2, -1, 7, 7), filters, padding=1).reshape(2, 4, order, 7, 7)
        expected = cases.layer(x, w, None, name, 1, 1, lift)
        assert np.abs(y - expected).max() <= cases.tolerance(x, w, None, name, 1, 1, lift)


class TestGradients:
    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_transposed(self, level, dtype, name, lift, algorithm):
        """The layer is linear in either argument: its gradients are the transposed formula."""
        if level == "reference" and algorithm != "auto":
            pytest.skip("the reference has one algorithm")
        input_of = group.lift_conv2d_input if lift else group.conv2d_input
        weight_of = group.lift_conv2d_weight if lift else group.conv2d_weight
        for case in cases.expected(name, lift, dtype):
            stride, padding = case.shape[-2:]
            options = {"group": name, "stride": stride, "padding": padding, "algorithm": algorithm}
            dx = input_of(case.x.shape, case.w, case.grad, **options)
            dw = weight_of(case.x, case.w.shape, case.grad, **options)
            assert dx.dtype == dw.dtype == dtype and dx.shape == case.x.shape and dw.shape == case.w.shape
            assert np.abs(dx - case.dx).max() <= case.tolerances[1], case.shape
            assert np.abs(dw - case.dw).max() <= case.tolerances[2], case.shape

    def test_by_unit_vectors(self, level, rng, name):
        """Each element of both gradients, from the layer of unit vectors, in float64."""
        shape = (1, 2, 2, 5, 5, 3, 1, 1)
        x, w, _ = cases.draw(rng, shape, name, False, np.float64)
        grad = rng.standard_normal(cases.layer(x, w, None, name, 2, 1, False).shape)
        for algorithm in ALGORITHMS:
            options = {"group": name, "stride": 2, "padding": 1, "algorithm": algorithm}
            dx = group.conv2d_input(x.shape, w, grad, **options)
            dw = group.conv2d_weight(x, w.shape, grad, **options)
            for i in rng.choice(x.size, 12, replace=False):
                e = np.zeros(x.size)
                e[i] = 1
                expected = (cases.layer(e.reshape(x.shape), w, None, name, 2, 1, False) * grad).sum()
                assert abs(dx.ravel()[i] - expected) <= 1e-12
            for i in rng.choice(w.size, 12, replace=False):
                e = np.zeros(w.size)
                e[i] = 1
                expected = (cases.layer(x, e.reshape(w.shape), None, name, 2, 1, False) * grad).sum()
                assert abs(dw.ravel()[i] - expected) <= 1e-12

    def test_empty(self, level, dtype, rng, name, lift):
        for shape in cases.EMPTY:
            x, w, _ = cases.draw(rng, shape, name, lift, dtype)
            weight_of = group.lift_conv2d_weight if lift else group.conv2d_weight
            input_of = group.lift_conv2d_input if lift else group.conv2d_input
            for (stride, side), algorithm in itertools.product(((1, 4), (2, 2)), ALGORITHMS):
                grad = np.ones((shape[0], shape[2], cases.order(name), side, side), dtype)
                options = {"group": name, "stride": stride, "padding": 1, "algorithm": algorithm}
                assert not weight_of(x, w.shape, grad, **options).any()
                assert not input_of(x.shape, w, grad, **options).any()


class TestInputGradient:
    """The gradient of the input has algorithms of its own, with a stride and for layers that lift."""

    STRIDES = (1, 2, 3, (1, 2))

    def draw(self, rng, shape, name, lift, stride, dtype=np.float64):
        """The function, an array of the shape of its result, filters and the gradient of the output."""
        n, _, cout, height, width, k, _, padding = shape
        x, w, _ = cases.draw(rng, shape, name, lift, dtype)
        down, across = (stride, stride) if isinstance(stride, int) else stride
        out = ((height + 2 * padding - k) // down + 1, (width + 2 * padding - k) // across + 1)
        grad = rng.standard_normal((n, cout, cases.order(name), *out)).astype(dtype)
        return group.lift_conv2d_input if lift else group.conv2d_input, x, w, grad

    @pytest.mark.parametrize("stride", STRIDES)
    def test_adjoint(self, level, rng, name, lift, stride):
        """⟨Ax, y⟩ = ⟨x, A'y⟩, for filters of all sizes and any padding; what no window meets has no gradient."""
        for k in range(1, 6):
            for padding in range(k + 1):
                shape = (2, 3, 5, 7, 8 - k % 2, k, stride, padding)
                input_of, x, w, grad = self.draw(rng, shape, name, lift, stride)
                options = {"group": name, "stride": stride, "padding": padding}
                with fastdl.backend("reference"):
                    terms = forward(lift)(x, w, **options) * grad
                for algorithm in ALGORITHMS if level != "reference" else ("auto",):
                    dx = input_of(x.shape, w, grad, algorithm=algorithm, **options)
                    assert abs((x * dx).sum() - terms.sum()) <= 1e-12 * np.abs(terms).sum(), (k, padding, algorithm)

    @pytest.mark.parametrize("stride", STRIDES)
    def test_against_the_reference(self, native_level, dtype, rng, name, lift, stride):
        """To rounding; among them more pixels than one block takes, and channels by which algorithms are chosen."""
        for shape in (
            (1, 9, 2, 10, 7, 3, stride, 1),
            (2, 3, 17, 9, 9, 3, stride, 0),
            (1, 2, 5, 12, 5, 2, stride, 1),
            (1, 5, 16, 8, 11, 5, stride, 3),
            (1, 2, 40, 6, 7, 1, stride, 0),
            (1, 1, 3, 73, 68, 3, stride, 1),
            (1, 1, 2, 3, 3400, 4, stride, 2),
        ):
            input_of, x, w, grad = self.draw(rng, shape, name, lift, stride, dtype)
            options = {"group": name, "stride": stride, "padding": shape[-1]}
            with fastdl.backend("reference"):
                expected = input_of(x.shape, w.astype(np.float64), grad.astype(np.float64), **options)
                sizes = input_of(x.shape, abs(w).astype(np.float64), abs(grad).astype(np.float64), **options)
            terms = w.shape[0] * cases.order(name) * w.shape[-1] ** 2
            allowed = 4 * (terms + 8) * np.finfo(dtype).eps * sizes.max()
            for algorithm in ALGORITHMS:
                dx = input_of(x.shape, w, grad, algorithm=algorithm, **options)
                assert dx.dtype == dtype
                assert np.abs(dx - expected).max() <= allowed, (shape, algorithm)

    @pytest.mark.parametrize("stride", STRIDES)
    def test_same_bits(self, native_level, dtype, rng, name, lift, stride, keep_threads):
        """By orbits, for any number of threads, and for an image alone or with others."""
        for shape in ((3, 5, 16, 21, 20, 3, stride, 1), (2, 3, 4, 71, 70, 5, stride, 2)):
            input_of, x, w, grad = self.draw(rng, shape, name, lift, stride, dtype)
            options = {"group": name, "stride": stride, "padding": shape[-1], "algorithm": "orbit"}
            fastdl.set_num_threads(1)
            dx = input_of(x.shape, w, grad, **options)
            for threads in (2, 5):
                fastdl.set_num_threads(threads)
                np.testing.assert_array_equal(input_of(x.shape, w, grad, **options), dx)
            for image in range(shape[0]):
                alone = input_of((1, *x.shape[1:]), w, grad[image : image + 1], **options)
                np.testing.assert_array_equal(alone[0], dx[image])

    def test_not_finite(self, level, dtype, rng, name, lift):
        """NaN stays within the window that gave it."""
        input_of, x, w, grad = self.draw(rng, (1, 2, 3, 12, 13, 3, 2, 1), name, lift, 2, dtype)
        grad[0, 1, 1, 2, 4] = np.nan
        expected = np.zeros((12, 13), bool)
        expected[3:6, 7:10] = True
        for algorithm in ALGORITHMS:
            dx = input_of(x.shape, w, grad, group=name, stride=2, padding=1, algorithm=algorithm)
            assert (np.isnan(dx) == expected).all(), algorithm


class TestEquivariance:
    def bound(self, dtype, y):
        return (1e-12 if dtype == np.float64 else 2e-5) * max(1.0, np.abs(y).max())

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    @pytest.mark.parametrize("size, k, stride, padding", [(8, 3, 1, 1), (9, 3, 2, 1), (6, 2, 1, 0), (7, 5, 1, 2)])
    def test_layers(self, level, dtype, rng, name, algorithm, size, k, stride, padding):
        x, w, bias = cases.draw(rng, (2, 2, 3, size, size, k, stride, padding), name, False, dtype)
        images, filters, _ = cases.draw(rng, (2, 2, 3, size, size, k, stride, padding), name, True, dtype)
        options = {"group": name, "stride": stride, "padding": padding, "algorithm": algorithm}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            y = group.conv2d(x, w, bias, **options)
            z = group.lift_conv2d(images, filters, bias, **options)
        for g in range(cases.order(name)):
            turned = group.conv2d(group.act(x, g, name), w, bias, **options)
            assert np.abs(turned - group.act(y, g, name)).max() <= self.bound(dtype, y)
            turned = group.lift_conv2d(group.act(images, g, name), filters, bias, **options)
            assert np.abs(turned - group.act(z, g, name)).max() <= self.bound(dtype, z)

    def test_network(self, level, dtype, rng, name):
        """Lift, group convolution, ReLU, group convolution, pooling: equivariant, and invariant once all is pooled."""
        order = cases.order(name)
        x = rng.standard_normal((2, 1, 12, 12)).astype(dtype)
        w1 = rng.standard_normal((4, 1, 3, 3)).astype(dtype) / 3
        w2 = rng.standard_normal((5, 4, order, 3, 3)).astype(dtype) / 12
        w3 = rng.standard_normal((3, 5, order, 3, 3)).astype(dtype) / 12

        def network(images):
            y = group.lift_conv2d(images, w1, group=name, padding=1)
            y = group.conv2d(y, w2, group=name, padding=1, activation="relu")
            y = group.conv2d(y, w3, group=name)
            return y, [group.pool(y, mode) for mode in ("max", "mean", "sum", "l2")]

        y, pooled = network(x)
        for g in range(order):
            turned, joined = network(group.act(x, g, name))
            assert np.abs(turned - group.act(y, g, name)).max() <= self.bound(dtype, y)
            for found, expected in zip(joined, pooled, strict=True):
                assert np.abs(found - group.act(expected, g, name)).max() <= self.bound(dtype, expected)
                scores, before = found.mean(axis=(2, 3)), expected.mean(axis=(2, 3))
                assert np.abs(scores - before).max() <= self.bound(dtype, expected)

    def test_action_is_one(self, level, dtype, rng, name):
        """L_a L_b = L_ab, the identity does nothing, and images turn as numpy.rot90 turns them."""
        order = cases.order(name)
        x, _, _ = cases.draw(rng, (2, 3, 1, 5, 5, 1, 1, 0), name, False, dtype)
        quotient = np.array(cases.QUOTIENTS[name])
        np.testing.assert_array_equal(group.act(x, 0, name), x)
        for a in range(order):
            np.testing.assert_array_equal(group.act(x[:, :, 0], a, name), cases.pose(x[:, :, 0], name, a))
            for b in range(order):
                product = int(np.flatnonzero(quotient[a] == b)[0])  # a⁻¹c = b
                both = group.act(group.act(x, b, name), a, name)
                np.testing.assert_array_equal(both, group.act(x, product, name))


class TestWarnings:
    @pytest.mark.filterwarnings("default::fastdl.group.EquivarianceWarning")
    @pytest.mark.parametrize(
        "size, options, message",
        [
            ((8, 8), {"stride": 2, "padding": 1}, r"stride 2 leaves 1 of 8 .* divisible by the stride"),
            ((8, 6), {}, "exchange height and width, 8 and 6: pad or crop to a square"),
            ((9, 9), {"stride": (2, 1), "padding": 1}, "same stride and padding for both"),
            ((9, 9), {"padding": (1, 0)}, "same stride and padding for both"),
        ],
    )
    def test_where_it_cannot_hold(self, level, rng, size, options, message):
        x, w = rng.standard_normal((1, 1, 4, *size)), rng.standard_normal((1, 1, 4, 3, 3))
        with pytest.warns(group.EquivarianceWarning, match=rf"^\[group.conv2d\] .* p4 at this size: .*{message}"):
            group.conv2d(x, w, **options)
        with pytest.warns(group.EquivarianceWarning, match=message):
            group.lift_conv2d(x[:, :, 0], w[:, :, 0], **options)

    @pytest.mark.filterwarnings("default::fastdl.group.EquivarianceWarning")
    def test_even_filters_with_same_padding(self, level):
        with pytest.warns(group.EquivarianceWarning, match="padding is 0 before and 1 after"):
            group.conv2d(np.ones((1, 1, 2, 4, 4)), np.ones((1, 1, 2, 2, 2)), group="pm", padding="same")

    @pytest.mark.filterwarnings("error::fastdl.group.EquivarianceWarning")
    def test_not_where_it_holds(self, level):
        group.conv2d(np.ones((1, 1, 2, 8, 6)), np.ones((1, 1, 2, 3, 3)), group="p2")
        group.conv2d(np.ones((1, 1, 4, 9, 9)), np.ones((1, 1, 4, 3, 3)), stride=2, padding=1)


class TestArrays:
    def layouts(self, x):
        yield "fortran", np.asfortranarray(x)
        yield "reversed", x[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
        turned = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        yield "channels last", np.moveaxis(turned, -1, 1)
        wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, x.dtype)
        wide[..., ::2] = x
        yield "every other", wide[..., ::2]
        readonly = x.copy()
        readonly.flags.writeable = False
        yield "read-only", readonly
        yield "other byte order", x.astype(x.dtype.newbyteorder())

    def test_layouts(self, level, dtype, rng, name, lift):
        x, w, bias = cases.draw(rng, (2, 3, 4, 9, 9, 3, 1, 1), name, lift, dtype)
        for algorithm in ALGORITHMS:
            options = {"group": name, "padding": 1, "algorithm": algorithm}
            y = forward(lift)(x, w, bias, **options)
            allowed = 2 * cases.tolerance(x, w, bias, name, 1, 1, lift)
            for label, other in self.layouts(x):
                kept = other.copy()
                assert np.abs(forward(lift)(other, w, bias, **options) - y).max() <= allowed, label
                np.testing.assert_array_equal(other, kept)
            for label, other in self.layouts(w):
                assert np.abs(forward(lift)(x, other, bias, **options) - y).max() <= allowed, label
            grad = rng.standard_normal(y.shape).astype(dtype)
            weight_of = group.lift_conv2d_weight if lift else group.conv2d_weight
            dw = weight_of(x, w.shape, grad, **options)
            for label, other in self.layouts(grad):
                found = weight_of(x, w.shape, other, **options)
                assert np.abs(found - dw).max() <= 1e3 * np.finfo(dtype).eps * np.abs(dw).max(), label

    def test_libraries(self, rng, name):
        torch = pytest.importorskip("torch")
        strict = pytest.importorskip("array_api_strict")
        x, w, bias = cases.draw(rng, (1, 2, 3, 6, 6, 3, 1, 1), name, False, np.float64)
        for backend in ("auto", "reference"):
            with fastdl.backend(backend):
                y = group.conv2d(x, w, bias, group=name, padding=1)
                for library in (torch, strict):
                    a, b, c = (library.asarray(array) for array in (x, w, bias))
                    found = group.conv2d(a, b, c, group=name, padding=1)
                    assert type(found) is type(a)
                    np.testing.assert_allclose(np.asarray(found), y, atol=1e-12)
                    dx = group.conv2d_input(x.shape, b, found, group=name, padding=1)
                    expected = group.conv2d_input(x.shape, w, y, group=name, padding=1)
                    np.testing.assert_allclose(np.asarray(dx), expected, atol=1e-11)
                    dw = group.conv2d_weight(a, w.shape, found, group=name, padding=1)
                    expected = group.conv2d_weight(x, w.shape, y, group=name, padding=1)
                    np.testing.assert_allclose(np.asarray(dw), expected, atol=1e-11)
                    np.testing.assert_array_equal(np.asarray(group.act(a, 1, name)), group.act(x, 1, name))
                    for mode in ("max", "mean", "sum", "l2"):
                        np.testing.assert_allclose(np.asarray(group.pool(a, mode)), group.pool(x, mode), atol=1e-12)
                    lifted = group.lift_conv2d(a[:, :, 0, ...], b[:, :, 0, ...], c, group=name)
                    expected = group.lift_conv2d(x[:, :, 0], w[:, :, 0], bias, group=name)
                    np.testing.assert_allclose(np.asarray(lifted), expected, atol=1e-12)

    def test_threads(self, native_level, dtype, rng, name, keep_threads):
        x, w, bias = cases.draw(rng, (3, 5, 7, 20, 20, 3, 1, 1), name, False, dtype)
        results = []
        for threads in (1, 2, 5):
            fastdl.set_num_threads(threads)
            found = []
            for algorithm in ("expand", "orbit"):
                options = {"group": name, "padding": 1, "algorithm": algorithm}
                y = group.conv2d(x, w, bias, **options)
                found += [
                    y,
                    group.conv2d_input(x.shape, w, y, **options),
                    group.conv2d_weight(x, w.shape, y, **options),
                ]
            results.append(found)
        for others in results[1:]:
            for first, other in zip(results[0], others, strict=True):
                np.testing.assert_array_equal(first, other)

    def test_batches(self, native_level, dtype, rng, name):
        """By orbits an image has the same bits whatever the others are."""
        x, w, bias = cases.draw(rng, (3, 5, 7, 20, 20, 3, 1, 1), name, False, dtype)
        y = group.conv2d(x, w, bias, group=name, padding=1, algorithm="orbit")
        for image in range(3):
            alone = group.conv2d(x[image : image + 1], w, bias, group=name, padding=1, algorithm="orbit")
            np.testing.assert_array_equal(alone[0], y[image])

    def test_not_finite(self, level, dtype, rng, name):
        """NaN stays within the windows that see it."""
        x, w, _ = cases.draw(rng, (1, 2, 3, 12, 12, 3, 1, 1), name, False, dtype)
        x[0, 1, 1, 4, 4] = np.nan
        for algorithm in ALGORITHMS:
            bad = np.isnan(group.conv2d(x, w, group=name, algorithm=algorithm))
            expected = np.zeros((10, 10), bool)
            expected[2:5, 2:5] = True
            assert (bad == expected).all(), algorithm


class TestPool:
    def test_modes(self, level, dtype, rng):
        for order in (1, 2, 4, 8, 6):
            x = rng.standard_normal((2, 3, order, 5, 7)).astype(dtype)
            wide = x.astype(np.float64)
            np.testing.assert_array_equal(group.pool(x), x.max(axis=2))
            allowed = 8 * order * np.finfo(dtype).eps
            for mode, expected in (
                ("mean", wide.mean(axis=2)),
                ("sum", wide.sum(axis=2)),
                ("l2", np.sqrt((wide**2).sum(axis=2))),
            ):
                found = group.pool(x, mode)
                assert found.dtype == dtype
                assert np.abs(found - expected).max() <= allowed * np.abs(x).max(), mode
                strided = group.pool(x[:, :, :, ::-1], mode)
                np.testing.assert_array_equal(strided, found[:, :, ::-1])

    def test_nan(self, level):
        x = np.zeros((1, 1, 4, 1, 2))
        x[0, 0, 2, 0, 1] = np.nan
        for mode in ("max", "mean", "sum", "l2"):
            np.testing.assert_array_equal(np.isnan(group.pool(x, mode)), [[[[False, True]]]])


ok = np.ones((1, 2, 4, 5, 5))
filters = np.ones((3, 2, 4, 3, 3))


@pytest.mark.parametrize(
    "arguments, options, error, message",
    [
        ((ok, filters), {"group": "p6"}, ValueError, "expected group to be one of p4, p4m, p2, pm, got 'p6'"),
        ((ok, filters), {"group": 4}, TypeError, "expected group to be one of p4, p4m, p2, pm, got int"),
        ((ok[:, :, 0], filters), {}, ValueError, r"expected x of shape \(N, Cin, 4, H, W\), got \(1, 2, 5, 5\)"),
        ((ok[:, :, :3], filters), {}, ValueError, "expected x with the 4 elements of p4 along axis 2, got 3"),
        ((ok, filters[:, :, :2]), {}, ValueError, "expected w with the 4 elements of p4 along axis 2, got 2"),
        ((ok, filters), {"group": "p4m"}, ValueError, "expected x with the 8 elements of p4m along axis 2, got 4"),
        ((ok, filters[..., :2]), {}, ValueError, "expected square filters, got 3 x 2 in w"),
        ((ok, filters[:, :1]), {}, ValueError, "expected w with 2 input channels like x, got 1"),
        ((ok, filters, np.ones(2)), {}, ValueError, r"expected bias of shape \(3,\), got \(2,\)"),
        (
            (ok, np.ones((3, 2, 4, 7, 7))),
            {},
            ValueError,
            "expected filters no larger than .* 5, got 7",
        ),
        ((ok, filters), {"stride": 0}, ValueError, "expected stride to be a whole number from 1"),
        ((ok, filters), {"padding": -1}, ValueError, "expected padding to be a whole number from 0"),
        (
            (ok, filters),
            {"algorithm": "fft"},
            ValueError,
            "expected algorithm to be 'auto', 'expand' or 'orbit', got 'fft'",
        ),
        ((ok, filters), {"activation": "gelu"}, ValueError, "expected activation to be .*, got 'gelu'"),
        ((ok, filters.astype(np.complex128)), {}, TypeError, "expected w of dtype .*, got complex128"),
        ((None, filters), {}, TypeError, "expected x to be an array, got None"),
        ((ok, np.ones((3, 2, 4, 0, 0))), {}, ValueError, "expected w .* with k of at least 1"),
    ],
)
def test_bad_input(level, arguments, options, error, message):
    with pytest.raises(error, match=r"^\[group\.conv2d\] " + message):
        group.conv2d(*arguments, **options)


def test_bad_input_of_others(level):
    grad = np.ones((1, 3, 4, 3, 3))
    for call, error, message in [
        (
            lambda: group.lift_conv2d(ok, filters),
            ValueError,
            r"\[group.lift_conv2d\] expected x of shape \(N, Cin, H, W\)",
        ),
        (lambda: group.conv2d_input((1, 2, 4, 5), filters, grad), ValueError, "expected input_size to be .* 5 of them"),
        (lambda: group.conv2d_input(5, filters, grad), TypeError, "expected input_size to be 5 whole numbers, got int"),
        (
            lambda: group.conv2d_input((1, 2, 4, 6, 6), filters, grad),
            ValueError,
            r"expected grad of shape \(1, 3, 4, 4, 4\)",
        ),
        (lambda: group.conv2d_input((1, 9, 4, 5, 5), filters, grad), ValueError, "expected w with 9 input channels"),
        (lambda: group.conv2d_weight(ok, (3, 2, 4, 3, 2), grad), ValueError, "expected square filters"),
        (
            lambda: group.conv2d_weight(ok, (3, 2, 8, 3, 3), grad),
            ValueError,
            "expected weight_size with the 4 elements",
        ),
        (lambda: group.conv2d_weight(ok, (3, 2, 4, 3, 3), ok), ValueError, r"expected grad of shape \(1, 3, 4, 3, 3\)"),
        (lambda: group.act(ok, 4), ValueError, r"\[group.act\] expected g to be an element of p4, from 0 to 3, got 4"),
        (lambda: group.act(ok, 0.5), TypeError, "expected g to be an element of p4"),
        (lambda: group.act(ok[0, 0], 1), ValueError, r"expected x of shape \(N, C, H, W\) or \(N, C, 4, H, W\)"),
        (lambda: group.pool(ok, "min"), ValueError, r"\[group.pool\] expected mode to be 'max', 'mean', 'sum' or 'l2'"),
        (lambda: group.pool(ok[0]), ValueError, "expected x of shape"),
        (lambda: group.expand_filters(filters, "p4m"), ValueError, "expected w with the 8 elements of p4m"),
        (lambda: group.expand_filters(filters, "p4", 1), TypeError, "expected lift to be True or False"),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_turns_of_the_plane_warn_where_no_size_commutes(level, rng):
    x, w = rng.standard_normal((1, 1, 8, 8)), rng.standard_normal((1, 1, 3, 3))
    for rotations in (2, 4, 8):
        with pytest.warns(group.EquivarianceWarning, match=r"^\[group\.se2_lift_conv2d\] the layer does not commute"):
            group.se2_lift_conv2d(x, w, rotations=rotations, stride=2, padding=1)
    group.se2_lift_conv2d(x, w, rotations=3, stride=2, padding=1)
    with pytest.raises(ValueError, match=r"^\[group\.se2_lift_conv2d\] expected"):
        group.se2_lift_conv2d(x, w, activation="none such")


def test_flips_of_rows_do_not_mind_columns(level, rng):
    x, w = rng.standard_normal((1, 1, 2, 6, 6)), rng.standard_normal((1, 1, 2, 1, 1))
    y = group.conv2d(x, w, group="pm", stride=(1, 2))
    turned = group.conv2d(group.act(x, 1, "pm"), w, group="pm", stride=(1, 2))
    np.testing.assert_allclose(turned, group.act(y, 1, "pm"), atol=1e-12)


def test_average_of_a_function_that_gives_one_array_again_and_again():
    kept = np.zeros(3)

    def function(values):
        kept[:] = values
        return kept

    turns = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    np.testing.assert_allclose(group.average(np.array([1.0, 2.0, 3.0]), turns, function), 2.0)
