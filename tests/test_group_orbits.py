"""Signatures, averages, Gramians and all that does not change along orbits; sets; and SE(2, N)."""

import itertools
import math

import numpy as np
import pytest

import fastdl
from cases import group as cases
from fastdl import group


def orbit_products(x, t, orders):
    return np.einsum("nd,gkd->nkg", x.astype(float), t.astype(float)[:, orders].transpose(1, 0, 2))


NONLINEAR = {
    "step": lambda z: (z >= 0).astype(float),
    "cdf": lambda z: (z <= 0).astype(float),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
}


class TestSignature:
    @pytest.mark.parametrize("name", list(NONLINEAR))
    def test_against_the_sum(self, level, dtype, rng, name):
        for n, m, d in [(1, 1, 1), (3, 2, 5), (7, 19, 12), (50, 5, 9), (2, 130, 6)]:
            orders = cases.rotations_and_flips(d)
            # Whole numbers, so that no product lies near a threshold but on neither side of it.
            x = rng.integers(-4, 5, (n, d)).astype(dtype)
            t = rng.integers(-4, 5, (m, d)).astype(dtype)
            cuts = [-3.5, 0.0, 2.5]
            products = orbit_products(x, t, orders)
            found = group.signature(x, t, orders, thresholds=cuts, moments=[0, 1, 2, 3], nonlinearity=name)
            parts = [NONLINEAR[name](products - b).sum(-1) for b in cuts]
            parts += [(products**p).sum(-1) for p in (0, 1, 2, 3)]
            expected = np.stack(parts, axis=-1)
            assert found.shape == (n, m, 7) and found.dtype == dtype
            sizes = np.stack(
                [*([np.abs(products).sum(-1) + len(orders)] * 3), *[(np.abs(products) ** p).sum(-1) for p in range(4)]],
                -1,
            )
            assert (np.abs(found - expected) <= (len(orders) + 16) * np.finfo(dtype).eps * sizes).all(), (n, m, d)

    def test_thresholds_are_of_the_type(self, level, dtype):
        """0.1 is not a number of single precision: what counts is the nearest, where products can lie."""
        near = dtype.type(0.1)
        x = np.array([[near], [np.nextafter(near, dtype.type(0))], [np.nextafter(near, dtype.type(1))]])
        for name, expected in (("step", [1, 0, 1]), ("cdf", [1, 1, 0])):
            found = group.signature(x, np.ones((1, 1), dtype), [[0]], [0.1], nonlinearity=name)
            np.testing.assert_array_equal(found[:, 0, 0], expected)
        # Beyond the type no product is left.
        far = [-1e300, -np.inf, 1e300, np.inf]
        for name, expected in (("step", [1, 1, 0, 0]), ("cdf", [0, 0, 1, 1])):
            found = group.signature(x, np.ones((1, 1), dtype), [[0]], far, nonlinearity=name)
            np.testing.assert_array_equal(found[:, 0], [expected] * 3)

    def test_invariance(self, level, rng):
        orders = cases.rotations_and_flips(10)
        x, t = rng.standard_normal((4, 10)), rng.standard_normal((3, 10))
        before = group.signature(x, t, orders, [0.1, -0.3], [2], "sigmoid")
        for order in orders:
            np.testing.assert_allclose(
                group.signature(x[:, order], t, orders, [0.1, -0.3], [2], "sigmoid"), before, atol=1e-12
            )

    def test_defaults_and_empty(self, level, rng):
        orders = cases.rotations_and_flips(4)
        x, t = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
        np.testing.assert_array_equal(group.signature(x, t, orders), group.signature(x, t, orders, thresholds=[0.0]))
        assert group.signature(x, t[:0], orders).shape == (3, 0, 1)
        assert group.signature(x[:0], t, orders).shape == (0, 2, 1)
        assert group.signature(x, t, orders, thresholds=[]).shape == (3, 2, 0)
        assert not group.signature(x, t, orders[:0], [0.0], [1]).any()

    def test_large_groups(self, native, rng):
        """10^4 elements and 10^3 templates, in memory that does not hold the orbits (640 MB)."""
        d = 16
        orders = np.argsort(rng.random((10_000, d)), axis=1)
        x, t = rng.standard_normal((2, d)).astype(np.float32), rng.standard_normal((1000, d)).astype(np.float32)
        found = group.signature(x, t, orders, thresholds=[0.0, 1.0], nonlinearity="sigmoid")
        some = [0, 17, 999]
        expected = NONLINEAR["sigmoid"](orbit_products(x, t[some], orders)[..., None] - [0.0, 1.0]).sum(2)
        np.testing.assert_allclose(found[:, some], expected, rtol=1e-4)

    def test_threads(self, native_level, dtype, rng, keep_threads):
        orders = cases.rotations_and_flips(30)
        x, t = rng.standard_normal((60, 30)).astype(dtype), rng.standard_normal((40, 30)).astype(dtype)
        results = []
        for threads in (1, 2, 5):
            fastdl.set_num_threads(threads)
            results.append(group.signature(x, t, orders, [0.3], [2], "tanh"))
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])
        # Nor on the other samples.
        np.testing.assert_array_equal(group.signature(x[7:9], t, orders, [0.3], [2], "tanh"), results[0][7:9])

    def test_bad_input(self, level):
        x, t, orders = np.ones((2, 3)), np.ones((1, 3)), [[0, 1, 2]]
        for call, error, message in [
            (lambda: group.signature(x[0], t, orders), ValueError, r"expected x of shape \(n, d\), got \(3,\)"),
            (
                lambda: group.signature(x, t[:, :2], orders),
                ValueError,
                r"expected templates of shape \(m, 3\), got \(1, 2\)",
            ),
            (lambda: group.signature(x, t, [[0, 1]]), ValueError, r"expected permutations of shape \(order, 3\)"),
            (lambda: group.signature(x, t, [[0, 1, 1]]), ValueError, "got otherwise in row 0"),
            (lambda: group.signature(x, t, [[0.0, 1, 2]]), TypeError, "expected permutations to be integers"),
            (lambda: group.signature(x, t, orders, nonlinearity="gelu"), ValueError, "expected nonlinearity to be"),
            (lambda: group.signature(x, t, orders, moments=[-1]), ValueError, "expected moments to be"),
            (lambda: group.signature(x, t, orders, thresholds="a"), TypeError, "expected thresholds to be numbers"),
            (
                lambda: group.signature(x, t, orders, thresholds=[np.nan]),
                ValueError,
                "expected thresholds to be a list",
            ),
        ]:
            with pytest.raises(error, match=r"^\[group\.signature\] .*" + message):
                call()


class TestOrbits:
    def test_average(self, level, dtype, rng):
        orders = cases.rotations_and_flips(7)
        x = rng.standard_normal((2, 3, 7)).astype(dtype)
        found = group.average(x, orders)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.broadcast_to(x.mean(-1, keepdims=True), x.shape), rtol=1e-5, atol=1e-6)
        smooth = group.average(x, orders, lambda z: np.tanh(z[..., 0] - z[..., 1]))
        expected = np.mean([np.tanh(x[..., o][..., 0] - x[..., o][..., 1]) for o in orders], axis=0)
        np.testing.assert_allclose(smooth, expected, rtol=1e-5, atol=1e-6)

    def test_gramian(self, level, dtype, rng):
        """(WᵀW)_ij = ⟨t, g_i⁻¹ g_j t⟩, so every column is a permutation of the first."""
        orders = cases.rotations_and_flips(6)
        t = rng.standard_normal(6).astype(dtype)
        found = group.orbit_gramian(t, orders)
        W = t[orders].T.astype(float)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, W.T @ W, rtol=1e-5, atol=1e-5)
        first = np.sort(found[:, 0])
        for column in found.T:
            np.testing.assert_allclose(np.sort(column), first, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize(
        "orders", [cases.rotations_and_flips(6)[:6], cases.rotations_and_flips(6)], ids=["C6", "D6"]
    )
    def test_regularizer_is_zero_on_orbits(self, level, rng, orders):
        W = rng.standard_normal(6)[orders].T
        value, gradient = group.orbit_regularizer(W, 0.5)
        assert abs(value) <= 1e-9 and np.abs(gradient).max() <= 1e-9
        moved = W + 0.1 * rng.standard_normal(W.shape)
        assert group.orbit_regularizer(moved, 0.5)[0] > 1e-3

    def test_regularizer(self, level, dtype, rng):
        for d, n in [(1, 1), (3, 4), (5, 9), (4, 17)]:
            W = rng.standard_normal((d, n)).astype(dtype)
            value, gradient = group.orbit_regularizer(W, 1.3)
            G = W.astype(float).T @ W.astype(float)
            terms = np.exp(-((G[:, :, None, None] - G[None, None, :, :]) ** 2) / 1.3**2)  # k i l j
            expected = n * np.einsum("kili->", terms) - terms.sum()
            assert isinstance(value, float) and gradient.dtype == dtype
            slack = 64 * np.finfo(dtype).eps * n**4
            assert abs(value - expected) <= slack and value >= -slack
            # The directional derivative of the float64 formula.
            e = rng.standard_normal(W.shape)
            dG = e.T @ W + W.T @ e
            slopes = (
                terms * (-2 / 1.3**2) * (G[:, :, None, None] - G[None, None]) * (dG[:, :, None, None] - dG[None, None])
            )
            expected = n * np.einsum("kili->", slopes) - slopes.sum()
            assert abs((gradient * e).sum() - expected) <= 64 * np.finfo(dtype).eps * n * np.abs(slopes).sum() + 1e-12

    def test_regularizer_empty_and_bad(self, level):
        value, gradient = group.orbit_regularizer(np.ones((3, 0)), 1.0)
        assert value == 0 and gradient.shape == (3, 0)
        for call, error, message in [
            (lambda: group.orbit_regularizer(np.ones(3), 1.0), ValueError, r"expected W of shape \(d, n\)"),
            (
                lambda: group.orbit_regularizer(np.ones((3, 2)), 0),
                ValueError,
                "expected sigma to be a finite number above 0",
            ),
            (lambda: group.orbit_regularizer(np.ones((3, 2)), "a"), TypeError, "expected sigma"),
            (lambda: group.orbit_regularizer(np.ones((3, 2)), np.inf), ValueError, "expected sigma .* got inf"),
            (lambda: group.orbit_regularizer(np.ones((3, 2)), np.nan), ValueError, "expected sigma .* got nan"),
        ]:
            with pytest.raises(error, match=r"^\[group\.orbit_regularizer\] " + message):
                call()

    @pytest.mark.parametrize("sigma", [5e-324, 1e-310, 1e-200, 1e-130])
    def test_regularizer_of_no_width(self, level, dtype, rng, sigma):
        """It counts the entries that are exactly equal: Σ_ij (n δ_ij - 1) #{(k, l): G_ki = G_lj}."""
        W = rng.integers(-2, 3, (3, 5)).astype(dtype)
        value, gradient = group.orbit_regularizer(W, sigma)
        equal = np.equal.outer(W.T @ W, W.T @ W)  # k i l j
        assert value == 5 * np.einsum("kili->", equal.astype(float)) - equal.sum()
        assert gradient.dtype == dtype and not gradient.any()

    @pytest.mark.parametrize("sigma", [1e130, 1e200, 1e308])
    def test_regularizer_of_great_width(self, level, dtype, rng, sigma):
        value, gradient = group.orbit_regularizer(rng.standard_normal((3, 5)).astype(dtype), sigma)
        assert value == 0 and gradient.dtype == dtype and np.abs(gradient).max() <= 1e-100

    @pytest.mark.parametrize("exponent", [-500, -440, -402, -399, 399, 402, 440, 480])
    def test_regularizer_scales(self, level, rng, exponent):
        """Of s W with s² sigma it has the same value, and a gradient of 1 / s."""
        W = rng.standard_normal((3, 5))
        value, gradient = group.orbit_regularizer(W, 1.3)
        scaled = group.orbit_regularizer(W * 2.0 ** (exponent // 2), math.ldexp(1.3, exponent // 2 * 2))
        assert scaled[0] == value
        np.testing.assert_array_equal(scaled[1] * 2.0 ** (exponent // 2), gradient)

    def test_learning_a_symmetry(self, level, rng):
        """Descent on the regulariser from near an orbit comes closer to one."""
        W = rng.standard_normal(4)[cases.rotations_and_flips(4)[:4]].T + 0.05 * rng.standard_normal((4, 4))
        value, gradient = group.orbit_regularizer(W, 2.0)
        start = value
        for _ in range(300):
            W = W - 1e-3 * gradient
            value, gradient = group.orbit_regularizer(W, 2.0)
        # An orbit found exactly has 0, but for the rounding of n^4 terms whose sizes add up to 2 n^3 (n - 1).
        rounding = 4**4 * np.finfo(np.float64).eps * (2 * 4**3 * 3)
        assert -rounding <= value < 0.2 * start


class TestSets:
    def test_layer(self, level, dtype, rng):
        x = rng.standard_normal((3, 5)).astype(dtype)
        found = group.permutation_layer(x, 2.0, -0.5)
        theta = 2 * np.eye(5) - 0.5 * np.ones((5, 5))
        np.testing.assert_allclose(found, x @ theta, rtol=1e-5, atol=1e-5)
        assert found.dtype == dtype
        order = rng.permutation(5)
        np.testing.assert_allclose(
            group.permutation_layer(x[:, order], 2.0, -0.5), found[:, order], rtol=1e-5, atol=1e-5
        )

    def test_layer_with_matrices(self, level, dtype, rng):
        x = rng.standard_normal((2, 5, 3)).astype(dtype)
        lam, gam = rng.standard_normal((2, 3, 4)).astype(dtype)
        found = group.permutation_layer(x, lam, gam)
        np.testing.assert_allclose(found, x @ lam + x.sum(1, keepdims=True) @ gam, rtol=1e-4, atol=1e-4)

    def test_pool(self, level, dtype, rng):
        x = rng.standard_normal((2, 5, 3)).astype(dtype)
        order = rng.permutation(5)
        for mode in ("sum", "mean", "max"):
            found = group.set_pool(x, mode)
            np.testing.assert_allclose(found, getattr(x, mode)(axis=1), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(group.set_pool(x[:, order], mode), found, rtol=1e-5, atol=1e-6)

    def test_graphs(self, level):
        """Two drawings of one graph have the same signature under all permutations of its vertices."""
        A1 = np.array([[int(c) for c in row] for row in ["01000", "10111", "01010", "01101", "01010"]], float)
        A2 = np.array([[int(c) for c in row] for row in ["01100", "10111", "11010", "01100", "01000"]], float)
        p = np.array([2, 1, 3, 4, 0])
        np.testing.assert_array_equal(A2, A1[np.ix_(p, p)])
        all_orders = np.array(list(itertools.permutations(range(5))))
        pairs = (all_orders[:, :, None] * 5 + all_orders[:, None, :]).reshape(120, 25)
        t = np.random.default_rng(1).standard_normal((3, 25))
        first, second = group.signature(np.stack([A1.ravel(), A2.ravel()]), t, pairs, [0.2], [2, 3], "tanh")
        np.testing.assert_allclose(first, second, atol=1e-10)

    def test_bad_input(self, level):
        x = np.ones((2, 3, 4))
        for call, error, message in [
            (lambda: group.permutation_layer(x, 1.0, np.ones((4, 4))), TypeError, "two numbers or two arrays"),
            (lambda: group.permutation_layer(x, None, None), TypeError, "two arrays, got None and None"),
            (lambda: group.average(x[0, 0], [[0, 1, 2, 3]], 3), TypeError, "expected function to be callable, got int"),
            (
                lambda: group.permutation_layer(x, np.ones((3, 4)), np.ones((3, 4))),
                ValueError,
                r"lam of shape \(C, C'\)",
            ),
            (lambda: group.permutation_layer(x, np.ones((4, 4)), np.ones((4, 3))), ValueError, "expected gam of shape"),
            (lambda: group.set_pool(x, "l2"), ValueError, "expected mode to be"),
            (lambda: group.set_pool(x[0, 0]), ValueError, "expected x of shape"),
            (lambda: group.average(x, [[0, 1]]), ValueError, r"expected permutations of shape \(order, 4\)"),
            (lambda: group.orbit_gramian(x, [[0]]), ValueError, r"expected t of shape \(d,\)"),
        ]:
            with pytest.raises(error, match=message):
                call()


class TestRotations:
    @pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
    def test_quarter_turns_are_those_of_p4(self, level, dtype, rng, interpolation):
        """With 4 turns and filters that are 0 outside the disk, SE(2, 4) is p4."""
        for k in (3, 5):
            x, w, bias = cases.draw(rng, (2, 2, 3, 8, 8, k, 1, 1), "p4", False, dtype)
            i = np.arange(k) - (k - 1) / 2
            w = np.where(np.hypot(i[:, None], i[None, :]) <= k / 2, w, 0).astype(dtype)
            options = {"padding": 1, "activation": "relu"}
            found = group.se2_conv2d(x, w, bias, rotations=4, interpolation=interpolation, **options)
            allowed = 2 * cases.tolerance(x, w, bias, "p4", 1, 1, False)
            assert np.abs(found - group.conv2d(x, w, bias, **options)).max() <= allowed
            found = group.se2_lift_conv2d(x[:, :, 0], w[:, :, 0], bias, rotations=4, interpolation=interpolation)
            assert np.abs(found - group.lift_conv2d(x[:, :, 0], w[:, :, 0], bias)).max() <= allowed

    def test_turned_filters_are_those_of_a_turned_function(self, level):
        """A smooth bump off the middle: the filter turned by interpolation is the bump, turned."""
        n = 8
        up, right = np.mgrid[4:-5:-1, -4:5]

        def bump(angle):
            c, s = 1.5 * np.cos(angle), 1.5 * np.sin(angle)
            return np.exp(-((right - c) ** 2 + (up - s) ** 2) / 4)

        inside = np.hypot(up, right) <= 3.2
        for interpolation, allowed in (("bilinear", 0.1), ("bicubic", 0.03)):
            found = group.se2_filters(bump(0)[None, None], n, lift=True, interpolation=interpolation)
            for s in range(n):
                assert np.abs(found[s, 0] - bump(2 * np.pi * s / n))[inside].max() <= allowed

    def test_quarter_turns_of_eight(self, level, rng):
        """Among 8 turns the quarters are exact: the layer commutes with them."""
        x, w = rng.standard_normal((1, 2, 8, 7, 7)), rng.standard_normal((3, 2, 8, 3, 3))
        y = group.se2_conv2d(x, w, padding=1)
        for quarter in range(4):

            def turned(z, q=quarter):
                return np.rot90(np.roll(z, 2 * q, axis=2), q, (-2, -1))

            np.testing.assert_allclose(group.se2_conv2d(turned(x), w, padding=1), turned(y), atol=1e-12)

    def test_bad_input(self, level):
        x, w = np.ones((1, 2, 8, 5, 5)), np.ones((3, 2, 8, 3, 3))
        for call, error, message in [
            (
                lambda: group.se2_conv2d(x, w, rotations=6),
                ValueError,
                r"\[group.se2_conv2d\] expected x of shape \(N, Cin, 6",
            ),
            (lambda: group.se2_conv2d(x, w[:, :, :4]), ValueError, r"expected w of shape \(Cout, Cin, 8, k, k\)"),
            (lambda: group.se2_conv2d(x, w[..., :2]), ValueError, "expected square filters"),
            (lambda: group.se2_conv2d(x, w[:, :1]), ValueError, "expected w with 2 input channels"),
            (lambda: group.se2_conv2d(x, w, np.ones(2)), ValueError, "expected bias of shape"),
            (lambda: group.se2_conv2d(x, w, rotations=0), ValueError, "expected rotations to be a whole number from 1"),
            (lambda: group.se2_conv2d(x, w, interpolation="linear"), ValueError, "expected interpolation to be"),
            (lambda: group.se2_lift_conv2d(x, w), ValueError, r"\[group.se2_lift_conv2d\] expected x of shape"),
            (
                lambda: group.se2_filters(w, 8, "no"),
                TypeError,
                r"\[group.se2_filters\] expected lift to be True or False",
            ),
        ]:
            with pytest.raises(error, match=message):
                call()


def test_pooling_near_the_ends_of_the_type(level, dtype, rng):
    """A mean and a length are within the type where a sum, or the sum of squares, is not."""
    edge = np.finfo(dtype)
    x = (0.5 + rng.random((2, 3, 8, 3, 5)) / 2).astype(dtype)
    wide = x.astype(np.longdouble)
    for scale in (edge.max / 4, edge.tiny * 16, dtype.type(1)):
        for mode, expected in (("mean", wide.mean(2)), ("l2", np.sqrt((wide * wide).sum(2)))):
            found = group.pool(x * scale, mode).astype(np.longdouble)
            assert (np.abs(found - expected * scale) <= 16 * edge.eps * expected * scale).all(), (scale, mode)
    x[0, 0, 3, 0, 0], x[0, 0, 3, 0, 1], x[0, 1] = np.inf, np.nan, 0
    for mode in ("mean", "l2"):
        found = group.pool(x, mode)
        assert found[0, 0, 0, 0] == np.inf and np.isnan(found[0, 0, 0, 1]) and not found[0, 1].any()
        assert np.isfinite(found).sum() == found.size - 2


# The layers, their arguments that fit, and which of them are shapes.
IMAGES, MAPS, FILTERS, POSES = (1, 2, 5, 5), (1, 2, 4, 5, 5), (3, 2, 3, 3), (3, 2, 4, 3, 3)
OF_8 = (1, 2, 8, 5, 5), (3, 2, 8, 3, 3)
LAYERS = {
    "lift_conv2d": (IMAGES, FILTERS),
    "conv2d": (MAPS, POSES),
    "lift_conv2d_input": (IMAGES, FILTERS),
    "conv2d_input": (MAPS, POSES),
    "lift_conv2d_weight": (IMAGES, FILTERS),
    "conv2d_weight": (MAPS, POSES),
    "se2_lift_conv2d": (IMAGES, FILTERS),
    "se2_conv2d": OF_8,
}


@pytest.mark.parametrize("name", list(LAYERS))
def test_bad_input_of_every_layer(level, name):
    """Every layer and gradient refuses the same things, with its own name in front."""
    x, w = LAYERS[name]
    lift, elements = "lift" in name, w[2]

    def call(x=x, w=w, grad=(1, 3, 4, 3, 3), **options):
        first = x if name.endswith("_input") else np.ones(x)
        second = w if name.endswith("_weight") else np.ones(w)
        further = (np.ones(grad),) if name.endswith(("_input", "_weight")) else ()
        return getattr(group, name)(first, second, *further, **options)

    assert call().shape in (x, w, (1, 3, 4, 3, 3), (1, 3, 8, 3, 3))
    bad = [
        ({"w": (*w[:-1], 2)}, ValueError, "expected square filters, got 3 x 2"),
        ({"w": (3, 5, *w[2:])}, ValueError, "with 2 input channels like .*, got 5"),
        ({"w": (*w[:-2], 0, 0)}, ValueError, "expected w.* of shape"),
        ({"w": (*w[:-2], 7, 7)}, ValueError, "expected filters no larger than the padded input, 5, got 7"),
        ({"x": x[1:]}, ValueError, "expected (x|input_size) (of shape|to be)"),
        ({"w": w[1:]}, ValueError, "expected (w|weight_size) (of shape|to be)"),
        ({"stride": 0}, ValueError, "expected stride to be a whole number from 1"),
        ({"padding": -1}, ValueError, "expected padding to be a whole number from 0"),
    ]
    if not lift:
        bad += [
            ({"x": (1, 2, 3, 5, 5)}, ValueError, f"expected .*{elements}.*, got"),
            ({"w": (3, 2, 3, 3, 3)}, ValueError, f"expected .*{elements}.*, got"),
        ]
    if name.startswith("se2"):
        bad += [({"rotations": 0}, ValueError, "expected rotations to be a whole number from 1")]
    else:
        bad += [
            ({"group": "p6"}, ValueError, "expected group to be one of p4, p4m, p2, pm, got 'p6'"),
            ({"group": 4}, TypeError, "expected group to be one of p4, p4m, p2, pm, got int"),
            ({"algorithm": "fast"}, ValueError, "expected algorithm to be 'auto', 'expand' or 'orbit'"),
        ]
        bad += [] if lift else [({"group": "p4m"}, ValueError, "with the 8 elements of p4m along axis 2, got 4")]
    if name.endswith(("_input", "_weight")):
        bad += [
            ({"grad": grad}, ValueError, r"expected grad of shape \(1, 3, 4, 3, 3\), got")
            for grad in ((1, 3, 8, 3, 3), (1, 2, 4, 3, 3), (1, 3, 4, 4, 3), (1, 12, 3, 3))
        ]
    else:
        bad += [
            ({"bias": np.ones(4)}, ValueError, r"expected bias of shape \(3,\), got \(4,\)"),
            ({"activation": "gelu"}, ValueError, "expected activation to be"),
        ]
    for changes, error, message in bad:
        with pytest.raises(error, match=rf"^\[group\.{name}\] .*" + message):
            call(**changes)
