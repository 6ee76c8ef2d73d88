"""Convolutions, their gradients, pooling and signals on the CUDA kernels: the formulas of the host's tests."""

import itertools
import math

import numpy as np
import pytest

import test_conv_gradients as gradients
import test_conv_pool as pooling
import test_conv_signal as signals
from cases import conv as cases
from cases import integers, wide
from cuda_device import Array, same_layout, to_device
from fastdl import _dispatch, conv

FORWARD = {1: conv.conv1d, 2: conv.conv2d, 3: conv.conv3d}

# Shapes of x and w, and options, beside those of the host's tests: for the matrix product, with tiles that are full and
# not, vectors that can be stored and not, groups, and depths of a slice and one more.
PRODUCTS = (
    ((2, 3, 8, 6), (9, 3, 3, 3), {"padding": 1, "bias": True}),
    ((1, 8, 11, 13), (130, 8, 1, 1), {}),
    ((3, 6, 5, 5), (24, 2, 3, 2), {"groups": 3, "stride": (2, 1), "padding": 1, "bias": True}),
    ((1, 9, 65), (17, 9, 1), {"bias": True}),
    ((2, 2, 4, 5, 6), (8, 2, 2, 3, 2), {"dilation": (1, 2, 1), "padding": (1, 2, 0)}),
    ((1, 5, 140), (6, 5, 3), {"stride": 3, "padding": 2}),
    # Few channels: groups of taps along the last axis, not all of them full.
    ((2, 1, 9, 11), (6, 1, 5, 7), {"padding": (2, 3), "bias": True}),
    ((1, 4, 8, 23), (10, 2, 2, 5), {"groups": 2, "dilation": (1, 3), "stride": (1, 2), "padding": (0, 6)}),
)
# Strides that the input gradient takes apart into classes, with taps for all of them, for some, and for none.
CLASSES = (
    ((2, 6, 9, 8), (8, 6, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 8, 20), (9, 8, 4), {"stride": 4}),
    ((1, 10, 7, 9), (6, 5, 3, 2), {"stride": (3, 2), "dilation": (2, 2), "padding": (2, 1), "groups": 2}),
    ((1, 5, 5, 6, 7), (7, 5, 2, 3, 1), {"stride": (1, 2, 3), "padding": (0, 1, 0)}),
    ((1, 6, 3, 4), (5, 6, 2, 2), {"stride": 7, "padding": 5}),
    ((1, 6, 40), (5, 6, 1), {"stride": 20}),
    # Few filters: groups of taps, of which some classes see one less.
    ((2, 6, 5, 11), (2, 6, 3, 5), {"stride": (1, 2), "padding": (1, 2)}),
    ((1, 12, 29), (2, 6, 7), {"groups": 2, "stride": 3, "dilation": 2, "padding": 5}),
)


def on_device(*arrays):
    return [None if array is None else to_device(array) for array in arrays]


def few(cuda, cases, every=4):
    """All cases for the emulation, some for the simulator, which takes longer."""
    return cases if cuda.emulated else cases[::every]


def forward(x, w, bias=None, **options):
    return FORWARD[x.ndim - 2](x, w, bias, **options)


@pytest.fixture(autouse=True)
def _kernels_only(monkeypatch):
    """No result may come from the reference."""

    def refused(call, parameters):
        raise AssertionError(f"{call.operation.name} was computed by the reference")

    monkeypatch.setattr(_dispatch.Call, "_run_reference", refused)


def test_every_option(cuda, dtype, rng):
    """Whole numbers: the sum itself is exact, in any order."""
    for case in few(cuda, (*cases.CASES, *PRODUCTS)):
        x, w, bias, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
        expected = cases.conv_expected(x, w, bias, **options)
        y = forward(*on_device(x, w, bias), algorithm="direct", **options)
        assert type(y) is Array and y.dtype == dtype
        np.testing.assert_array_equal(y.host, expected, err_msg=cases.label(case))


def test_within_the_bound(cuda, dtype, rng):
    for case in few(cuda, (*cases.CASES[::3], *PRODUCTS), 8):
        x, w, bias, options = cases.make(case, rng, dtype, rng.standard_normal)
        expected = cases.conv_expected(x, w, bias, **options)
        for algorithm in cases.algorithms(case[1], case[2]):
            y = forward(*on_device(x, w, bias), algorithm=algorithm, **options).host
            kind = "direct" if algorithm == "fft" else algorithm  # the sum itself on a device
            tolerance = cases.conv_tolerance(x, w, bias, algorithm=kind, **options)
            assert (np.abs(y - expected) <= tolerance).all(), (cases.label(case), algorithm)


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_padding_modes(cuda, dtype, rng, mode):
    shapes = [((2, 2, 7, 6), (3, 2, 3, 3), {"padding": 1}), ((1, 3, 6, 7), (9, 3, 3, 3), {"padding": (2, 1)})]
    shapes += [((1, 2, 9), (6, 2, 4), {"padding": 3, "stride": 2, "dilation": 2})]
    shapes += [((1, 4, 5, 6, 4), (8, 4, 2, 3, 2), {"padding": (1, 2, 3)})]
    shapes += [((1, 1, 5, 6, 4), (1, 1, 2, 3, 2), {"padding": (1, 2, 3), "dilation": (1, 2, 1)})]
    for case in few(cuda, shapes, 2):
        x, w, _, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
        expected = cases.conv_expected(x, w, padding_mode=mode, **options)
        for algorithm in cases.algorithms(case[1], case[2]):
            y = forward(*on_device(x, w), padding_mode=mode, algorithm=algorithm, **options).host
            tolerance = cases.conv_tolerance(x, w, algorithm=algorithm, padding_mode=mode, **options)
            assert (np.abs(y - expected) <= (tolerance if algorithm == "winograd" else 0)).all(), cases.label(case)


def test_padding_that_would_not_fit_memory(cuda, dtype):
    """Far taps of a small image: what they see is the edge, and is not written out."""
    far = 1 << 29
    x, w = np.full((1, 1, 1, 1, 1), 3, dtype), np.ones((5, 1, 2, 2, 2), dtype)
    y = conv.conv3d(*on_device(x, w), stride=far - 1, padding=far, dilation=far, padding_mode="replicate").host
    np.testing.assert_array_equal(y, np.full((1, 5, 2, 2, 2), 24, dtype))
    x, w = np.full((1, 8, 4, 4), 2, dtype), np.ones((6, 8, 2, 2), dtype)
    far = 1 << 14
    y = conv.conv2d(*on_device(x, w), stride=far, padding=far, dilation=far, padding_mode="replicate").host
    np.testing.assert_array_equal(y, np.full((1, 6, 2, 2), 64, dtype))


def test_circular_padding_may_go_round_more_than_once(cuda, dtype):
    x = to_device(np.array([[[1, 2, 3]]], dtype))
    for filters in (1, 6):
        w = to_device(np.ones((filters, 1, 1), dtype))
        y = conv.conv1d(x, w, padding=7, padding_mode="circular").host
        np.testing.assert_array_equal(y[0], np.broadcast_to(np.pad([1, 2, 3], 7, "wrap"), (filters, 17)))


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "sigmoid", "tanh"])
def test_activations(cuda, dtype, rng, activation):
    x, w = rng.standard_normal((2, 3, 5, 6)).astype(dtype), rng.standard_normal((6, 3, 3, 3)).astype(dtype)
    bias = rng.standard_normal(6).astype(dtype)
    for filters, algorithm in ((6, "direct"), (6, "winograd"), (2, "direct")):
        arrays = x, w[:filters], bias[:filters]
        expected = cases.conv_expected(*arrays, padding=1, activation=activation)
        y = conv.conv2d(*on_device(*arrays), padding=1, activation=activation, algorithm=algorithm).host
        tolerance = cases.conv_tolerance(*arrays, padding=1, activation=activation, algorithm=algorithm)
        assert (np.abs(y - expected) <= tolerance).all()
    far = np.array([[[-1e4, -100, -0.0, 0.0, 100, 1e4, np.nan]]], dtype)
    limits = {
        "relu": [0, 0, 0, 0, 100, 1e4],
        "leaky_relu": [-100, -1, 0, 0, 100, 1e4],
        "sigmoid": [0, 0, 0.5, 0.5, 1, 1],
        "tanh": [-1, -1, 0, 0, 1, 1],
    }
    y = conv.conv1d(*on_device(far, np.ones((1, 1, 1), dtype)), activation=activation).host[0, 0]
    np.testing.assert_allclose(y[:6], limits[activation], rtol=4 * np.finfo(dtype).eps, atol=1e-40)
    assert np.isnan(y[6])


def test_winograd(cuda, dtype, rng):
    """Tiles of 4 x 4, which "auto" takes with many channels, and of 2 x 2."""
    shapes = [(16, 5, 2, 9, 10), (32, 33, 1, 6, 6), (17, 8, 1, 4, 1), (3, 6, 1, 5, 4)]
    for channels, filters, images, height, width in few(cuda, shapes, 2):
        x = rng.standard_normal((images, channels, height, width)).astype(dtype)
        w = rng.standard_normal((filters, channels, 3, 3)).astype(dtype)
        bias = rng.standard_normal(filters).astype(dtype)
        expected = cases.conv_expected(x, w, bias, padding=1)
        error = {}
        for algorithm in ("direct", "winograd", "auto"):
            y = conv.conv2d(*on_device(x, w, bias), padding=1, algorithm=algorithm).host
            error[algorithm] = np.abs(y - expected)
            tolerance = cases.conv_tolerance(x, w, bias, padding=1, algorithm=algorithm)
            assert (error[algorithm] <= tolerance).all(), (channels, algorithm)
        assert error["auto"].max() <= 4 * error["direct"].max()
    x, w = rng.standard_normal((2, 4, 6, 7)).astype(dtype), rng.standard_normal((6, 2, 3, 3)).astype(dtype)
    y = conv.conv2d(*on_device(x, w), groups=2, algorithm="winograd").host
    tolerance = cases.conv_tolerance(x, w, groups=2, algorithm="winograd")
    assert (np.abs(y - cases.conv_expected(x, w, groups=2)) <= tolerance).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_windows(cuda, dtype, rng, value):
    x, w = integers(rng, (1, 17, 9, 9), dtype), integers(rng, (5, 17, 3, 3), dtype)
    x[0, 3, 4, 5] = value
    w[w == 0] = 1
    with np.errstate(invalid="ignore"):
        expected = cases.conv_expected(x, w, padding=1).astype(dtype)
    for algorithm in ("direct", "winograd"):
        y = conv.conv2d(*on_device(x, w), padding=1, algorithm=algorithm).host
        assert (np.isfinite(y) == np.isfinite(expected)).all()
        assert (~np.isfinite(expected)).sum() == 5 * 9
        np.testing.assert_array_equal(y[~np.isfinite(y)], expected[~np.isfinite(y)])


@pytest.mark.parametrize("channels, kernel", [(1, 5), (2, 7), (3, 3), (5, 1), (6, 2)])
def test_what_fills_up_groups_meets_no_element(cuda, dtype, channels, kernel):
    """Groups of four channels or taps that are not full end with zeros, and an infinity times zero would be NaN."""
    for last in range(2):
        x, w = np.ones((2, channels, 3, 20), dtype), np.ones((6, channels, 1, kernel), dtype)
        x[0, -last, 1, 11], x[1, 0, 2, 0], x[0, 0, 0, 19] = np.inf, np.inf, -np.inf
        expected = cases.conv_expected(x, w).astype(dtype)
        np.testing.assert_array_equal(conv.conv2d(*on_device(x, w), algorithm="direct").host, expected)
        # Its transpose: every element of the result sees the same of x, in the other order of taps.
        turned = np.ones((channels, 6, 1, kernel), dtype)
        y = conv.conv_transpose2d(*on_device(x, turned), padding=(0, kernel - 1)).host
        np.testing.assert_array_equal(y, expected)


def test_layouts(cuda, dtype, rng):
    x, w = integers(rng, (2, 3, 6, 7), dtype), integers(rng, (6, 3, 3, 3), dtype)
    expected = cases.conv_expected(x, w, padding=1)
    grad = integers(rng, expected.shape, dtype)
    slopes, _ = gradients.weight_expected(x, w, grad, {"padding": 1})
    for name, image in few(cuda, list(cases.layouts(x)), 3):
        y = conv.conv2d(same_layout(image), to_device(w), padding=1, algorithm="direct")
        np.testing.assert_array_equal(y.host, expected, err_msg=name)
        y = conv.conv2d(same_layout(image), to_device(w[:2]), padding=1, algorithm="direct")
        np.testing.assert_array_equal(y.host, expected[:, :2], err_msg=name)
        found = conv.conv2d_weight(same_layout(image), w.shape, to_device(grad), padding=1)
        np.testing.assert_array_equal(found.host, slopes, err_msg=name)
    for name, filters in few(cuda, list(cases.layouts(w)), 3):
        y = conv.conv2d(to_device(x), same_layout(filters), padding=1, algorithm="direct")
        np.testing.assert_array_equal(y.host, expected, err_msg=name)
    wide_out = to_device(np.full((2, 6, 6, 14), 7, dtype))
    out = wide_out[..., ::2]
    assert conv.conv2d(to_device(x), to_device(w), padding=1, algorithm="direct", out=out) is out
    np.testing.assert_array_equal(out.host, expected)
    assert (wide_out.host[..., 1::2] == 7).all()


def test_empty(cuda, dtype):
    for x, w in [((0, 3, 5, 6), (4, 3, 3, 3)), ((2, 3, 5, 6), (0, 3, 3, 3)), ((2, 0, 5, 6), (4, 0, 3, 3))]:
        y = conv.conv2d(*on_device(np.ones(x, dtype), np.ones(w, dtype), np.full(w[0], 2, dtype)), activation="relu")
        assert y.shape == (x[0], w[0], 3, 4) and (y.host == 2).all()
        grad = to_device(np.ones(y.shape, dtype))
        dx = conv.conv2d_input(x, to_device(np.ones(w, dtype)), grad)
        dw = conv.conv2d_weight(to_device(np.ones(x, dtype)), w, grad)
        assert dx.shape == x and not dx.host.any()
        assert dw.shape == w and not dw.host.any()
    y = conv.conv2d(*on_device(np.ones((1, 2, 0, 3), dtype), np.ones((6, 2, 1, 1), dtype)), padding=1)
    assert y.shape == (1, 6, 2, 5) and not y.host.any()


def test_prepared_filters_serve_the_device_as_well(cuda, dtype, rng):
    x, w = integers(rng, (2, 3, 6, 7), dtype), integers(rng, (6, 3, 3, 3), dtype)
    layer = conv.prepare(to_device(w), padding=1, algorithm="direct")
    np.testing.assert_array_equal(layer(to_device(x)).host, cases.conv_expected(x, w, padding=1))


# ---- gradients ----


def gradient_cases(cuda):
    return few(cuda, (*cases.CASES[1::5], *PRODUCTS, *CLASSES), 5)


def test_input_gradient(cuda, dtype, rng):
    for case in gradient_cases(cuda):
        x, w, grad, options = gradients.problem(case, dtype, lambda shape: integers(rng, shape, dtype))
        expected, _ = gradients.input_expected(x, w, grad, options)
        found = gradients.INPUT[x.ndim - 2](x.shape, *on_device(w, grad), **options)
        assert type(found) is Array and found.dtype == dtype
        np.testing.assert_array_equal(found.host, expected, err_msg=cases.label(case))


def test_weight_gradient(cuda, dtype, rng):
    for case in gradient_cases(cuda):
        x, w, grad, options = gradients.problem(case, dtype, lambda shape: integers(rng, shape, dtype))
        expected, _ = gradients.weight_expected(x, w, grad, options)
        found = gradients.WEIGHT[x.ndim - 2](to_device(x), w.shape, to_device(grad), **options)
        assert type(found) is Array and found.dtype == dtype
        np.testing.assert_array_equal(found.host, expected, err_msg=cases.label(case))


def test_weight_gradient_in_parts(cuda, dtype, rng):
    """More positions than one part has: 64 slices of 8 (f64: 4)."""
    case = ((2, 5, 24, 25), (6, 5, 2, 2), {})
    x, w, grad, options = gradients.problem(case, dtype, rng.standard_normal)
    expected, size = gradients.weight_expected(x, w, grad, options)
    found = conv.conv2d_weight(to_device(x), w.shape, to_device(grad)).host
    gradients.assert_within(found, expected, size, 2 * 23 * 24)


def test_transposed(cuda, dtype, rng):
    """The adjoint of the convolution, with a bias and output padding."""
    shapes = [((2, 6, 4, 5), (6, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1})]
    shapes += [((1, 4, 6), (4, 5, 4), {"stride": 3, "groups": 2, "dilation": 2})]
    shapes += [((1, 2, 3, 4, 2), (2, 6, 2, 2, 3), {"padding": (1, 0, 1)})]
    for case in few(cuda, shapes, 2):
        x, w, _, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
        rank, groups = x.ndim - 2, options.get("groups", 1)
        bias = integers(rng, (w.shape[1] * groups,), dtype)
        y = gradients.TRANSPOSE[rank](*on_device(x, w, bias), **options).host
        place = {name: value for name, value in options.items() if name != "output_padding"}
        expected, _ = gradients.input_expected(y, w, x, place)
        np.testing.assert_array_equal(y, expected + bias.reshape(-1, *[1] * rank))


# ---- pooling ----


def test_max_pool(cuda, dtype, rng):
    for case in few(cuda, pooling.CASES):
        x = integers(rng, case[0], dtype, 1)  # with ties
        rank = x.ndim - 2
        y, indices = pooling.MAX[rank](to_device(x), *case[1:], return_indices=True)
        assert type(y) is type(indices) is Array and indices.dtype == np.int64
        for place, elements, _ in pooling.windows(*case):
            for plane in np.ndindex(*case[0][:2]):
                best = max(elements, key=lambda position, plane=plane: x[plane + position])  # the first of equals
                assert y.host[plane + place] == x[plane + best]
                assert indices.host[plane + place] == pooling.flat(best, case[0])
        np.testing.assert_array_equal(pooling.MAX[rank](to_device(x), *case[1:]).host, y.host)
        grad = integers(rng, y.shape, dtype)
        found = pooling.MAX_GRAD[rank](to_device(grad), indices, x.shape)
        expected = np.zeros((*x.shape[:2], math.prod(x.shape[2:])))
        for at in np.ndindex(*grad.shape):
            expected[(*at[:2], indices.host[at])] += grad[at]
        np.testing.assert_array_equal(found.host, expected.reshape(x.shape))


def test_nan_wins_and_the_first_one(cuda, dtype):
    x = np.array([[[1, np.nan, 5, 2, 3, np.nan, np.nan, 4]]], dtype)
    y, indices = conv.max_pool1d(to_device(x), 4, return_indices=True)
    assert np.isnan(y.host).all()
    np.testing.assert_array_equal(indices.host, [[[1, 5]]])
    y, indices = conv.max_pool1d(to_device(x), 2, return_indices=True)
    np.testing.assert_array_equal(y.host, [[[np.nan, 5, np.nan, np.nan]]])
    np.testing.assert_array_equal(indices.host, [[[1, 2, 5, 6]]])
    lowest = to_device(np.full((1, 1, 3, 3), -np.inf, dtype))
    y, indices = conv.max_pool2d(lowest, 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(indices.host, [[[[0, 1], [3, 4]]]])


def test_gradient_of_the_maximum_at_any_indices(cuda, dtype, rng):
    """Windows in more than one round of the block, and many at one place."""
    indices, grad = rng.integers(0, 19, (2, 2, 300)), integers(rng, (2, 2, 300), dtype)
    found = conv.max_pool1d_grad(to_device(grad), to_device(indices), (2, 2, 21))
    expected = np.zeros((2, 2, 21))
    for at in np.ndindex(*grad.shape):
        expected[(*at[:2], indices[at])] += grad[at]
    np.testing.assert_array_equal(found.host, expected)


@pytest.mark.parametrize("count_include_pad", [True, False])
def test_average_pool(cuda, dtype, rng, count_include_pad):
    eps = np.finfo(dtype).eps
    for case in few(cuda, pooling.CASES):
        x = rng.standard_normal(case[0]).astype(dtype)
        rank = x.ndim - 2
        y = pooling.AVG[rank](to_device(x), *case[1:], count_include_pad).host
        grad = rng.standard_normal(y.shape).astype(dtype)
        found = pooling.AVG_GRAD[rank](to_device(grad), x.shape, *case[1:], count_include_pad).host
        expected, sizes = np.zeros(x.shape, wide(grad).dtype), np.zeros(x.shape)
        for place, elements, full in pooling.windows(*case):
            count = full if count_include_pad else len(elements)
            values = np.stack([wide(x)[(..., *position)] for position in elements])
            error = np.abs(y[(..., *place)] - values.sum(axis=0) / count)
            assert (error <= (len(elements) + 2) * eps * np.abs(values).sum(axis=0) / count).all()
            for position in elements:
                expected[(..., *position)] += wide(grad)[(..., *place)] / count
                sizes[(..., *position)] += np.abs(grad[(..., *place)]) / count
        overlap = math.prod(cases.per_axis(case[1], rank))
        assert (np.abs(found - expected) <= (overlap + 2) * eps * sizes).all()


def test_pooling_of_strided_maps(cuda, dtype, rng):
    x = integers(rng, (2, 3, 6, 7), dtype)
    y, indices = conv.max_pool2d(to_device(x), 3, 2, 1, return_indices=True)
    for name, image in cases.layouts(x):
        found, where = conv.max_pool2d(same_layout(image), 3, 2, 1, return_indices=True)
        np.testing.assert_array_equal(found.host, y.host, err_msg=name)
        np.testing.assert_array_equal(where.host, indices.host, err_msg=name)
    turned = same_layout(np.asfortranarray(indices.host))
    found = conv.max_pool2d_grad(y, turned, x.shape)
    np.testing.assert_array_equal(found.host, conv.max_pool2d_grad(y, indices, x.shape).host)
    # The binding writes to views as well, and to nothing beside them.
    maxima, places = (to_device(np.full((2, 3, 3, 8), -7, kind)) for kind in (dtype, np.int64))
    cuda.conv.max_pool2d(to_device(x), [3, 3], [2, 2], [1, 1], places[..., ::2], maxima[..., ::2])
    for view, expected in ((places, indices), (maxima, y)):
        np.testing.assert_array_equal(view.host[..., ::2], expected.host)
        assert (view.host[..., 1::2] == -7).all()
    empty = to_device(np.ones((0, 3, 5, 6), dtype))
    y, indices = conv.max_pool2d(empty, 2, return_indices=True)
    assert conv.max_pool2d_grad(y, indices, empty.shape).shape == conv.avg_pool2d_grad(y, empty.shape, 2).shape


# ---- signals ----


def shifted_sum(f, h, mode, turned):
    """The signal times every element of the other one, shifted to its place; turned for the correlation."""
    if mode == "circular":
        return signals.expected(f, h, mode, turned)
    h = np.flip(h) if turned else h
    total = np.zeros(tuple(n + m - 1 for n, m in zip(f.shape, h.shape, strict=True)))
    for u in np.ndindex(*h.shape):
        total[tuple(slice(i, i + n) for i, n in zip(u, f.shape, strict=True))] += h[u] * f
    if mode == "full":
        return total
    size = f.shape if mode == "same" else tuple(abs(n - m) + 1 for n, m in zip(f.shape, h.shape, strict=True))
    starts = [(n - wanted) // 2 for n, wanted in zip(total.shape, size, strict=True)]
    return total[tuple(slice(start, start + wanted) for start, wanted in zip(starts, size, strict=True))]


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_signals(cuda, dtype, rng, name):
    shapes = (*signals.SHAPES[:-1], ((40, 70), (3, 9)), ((600,), (1500,)), ((3000,), (65,)))
    for (first, second), mode in few(cuda, list(itertools.product(shapes, signals.MODES)), 5):
        f, h = integers(rng, first, dtype), integers(rng, second, dtype)
        if mode == "valid" and not signals.fits(first, second):
            continue
        found = getattr(conv, name)(*on_device(f, h), mode)
        assert type(found) is Array and found.dtype == dtype
        expected = shifted_sum(f, h, mode, name == "correlate")
        np.testing.assert_array_equal(found.host, expected, err_msg=f"{first} {second} {mode}")


# ---- errors, races ----


def test_what_is_refused(cuda, dtype):
    x, w, out = on_device(np.ones((1, 2, 5, 5), dtype), np.ones((3, 2, 3, 3), dtype), np.full((1, 3, 3, 3), 7, dtype))
    with pytest.raises(ValueError, match=r"^\[conv\.conv2d\] expected w with 2 channels a group like x, got 1"):
        conv.conv2d(x, w[:, :1], out=out)
    with pytest.raises(ValueError, match=r"^\[conv\.conv2d\] expected a kernel no larger than the padded input"):
        conv.conv2d(x, w, dilation=3, out=out)
    with pytest.raises(ValueError, match=r"^\[conv\.conv2d\] expected out of shape"):
        conv.conv2d(x, w, padding=1, out=out)
    with pytest.raises(ValueError, match=r"^\[conv\.conv2d\] expected w on device cuda:0 like x, got numpy"):
        conv.conv2d(x, w.host, out=out)
    assert (out.host == 7).all()
    indices = to_device(np.full((1, 2, 2, 2), 25))
    with pytest.raises(ValueError, match=r"^\[conv\.max_pool2d_grad\] expected indices from 0 to 24, got 25"):
        conv.max_pool2d_grad(x[:, :, :2, :2], indices, (1, 2, 5, 5))
    kernels = cuda.conv
    with pytest.raises(ValueError, match="w: expected weights"):
        kernels.conv2d(x, w, None, (1, 1), (0, 0), (0, 0), (1, 1), 2, "zeros", None, "auto", out)
    with pytest.raises(ValueError, match="algorithm: expected one of auto, direct, winograd, fft, got slow"):
        kernels.conv2d(x, w, None, (1, 1), (0, 0), (0, 0), (1, 1), 1, "zeros", None, "slow", out)
    with pytest.raises(ValueError, match=r"expected positions below 2\^30 along an axis on a CUDA device"):
        kernels.conv2d(x, w, None, (1, 1), (2**30, 0), (0, 0), (1, 1), 1, "zeros", None, "auto", out)
    assert (out.host == 7).all()


@pytest.mark.parametrize(("filters", "barrier"), [(1, 1), (1, 2), (6, 0), (6, 1)])
def test_a_missing_barrier_is_noticed(cuda, rng, filters, barrier):
    """Tiles in shared memory (one filter) and slices of the product (six): without a barrier some order shows it."""
    if not cuda.emulated:
        pytest.skip("the simulator runs every barrier")
    x, w = integers(rng, (1, 2, 20, 21), np.dtype("f4")), integers(rng, (filters, 2, 3, 3), np.dtype("f4"))
    expected = cases.conv_expected(x, w)
    changed = False
    for order in ("fwd", "rev", "random"):
        cuda.set_order(order)
        try:
            cuda.skip_barrier(barrier)
            changed |= not np.array_equal(conv.conv2d(*on_device(x, w)).host, expected)
        finally:
            cuda.skip_barrier(-1)
        np.testing.assert_array_equal(conv.conv2d(*on_device(x, w)).host, expected)
    assert changed
