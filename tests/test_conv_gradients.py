"""Transposed convolutions and the gradients of convolutions: sums over windows, and adjoints of the forward one."""

import math

import numpy as np
import pytest

import fastdl
from cases import conv as cases
from cases import integers, odd_layouts, wide
from fastdl import conv
from fastdl.reference import conv as reference

FORWARD = {1: conv.conv1d, 2: conv.conv2d, 3: conv.conv3d}
TRANSPOSE = {1: conv.conv_transpose1d, 2: conv.conv_transpose2d, 3: conv.conv_transpose3d}
INPUT = {1: conv.conv1d_input, 2: conv.conv2d_input, 3: conv.conv3d_input}
WEIGHT = {1: conv.conv1d_weight, 2: conv.conv2d_weight, 3: conv.conv3d_weight}

# Larger ones: shapes of x and w, and options.
LARGER = (
    ((2, 17, 31, 33), (24, 17, 3, 3), {"padding": 1}),
    ((2, 64, 14, 15), (32, 64, 3, 3), {"padding": "same"}),
    ((3, 32, 9, 9), (64, 32, 1, 1), {}),
    ((2, 16, 16, 17), (16, 1, 3, 3), {"padding": 1, "groups": 16}),
    ((2, 8, 33, 32), (16, 8, 3, 3), {"padding": 1, "stride": 2}),
    ((1, 3, 40, 41), (8, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((4, 8, 100), (6, 4, 5), {"groups": 2, "dilation": 3}),
    ((1, 4, 9, 10, 11), (6, 4, 3, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
)


def without_bias(case):
    x, w, options = case
    return x, w, {name: value for name, value in options.items() if name != "bias"}


def output_shape(x_shape, w_shape, options):
    return cases.conv_expected(np.zeros(x_shape, np.float32), np.zeros(w_shape, np.float32), **options).shape


def problem(case, dtype, draw):
    x, w, options = without_bias(case)
    grad = draw(output_shape(x, w, options))
    return draw(x).astype(dtype), draw(w).astype(dtype), grad.astype(dtype), options


def parted(w, grad, options):
    """The groups of filters and gradients, and the options without them."""
    groups = options.get("groups", 1)
    filters = wide(w).reshape(groups, w.shape[0] // groups, w.shape[1], -1)
    slopes = wide(grad).reshape(grad.shape[0], groups, w.shape[0] // groups, -1)
    return filters, slopes, {name: value for name, value in options.items() if name != "groups"}


def input_expected(x, w, grad, options):
    """What every window gives to its elements, put down one by one; and how large the terms of a sum may be."""
    filters, slopes, place = parted(w, grad, options)
    plane = math.prod(x.shape[2:])
    # The windows of the numbers of the elements; 0 is the margin.
    index, _ = cases.windows(np.arange(1, plane + 1).reshape(1, 1, *x.shape[2:]), w.shape[2:], **place)
    shares = np.einsum("ngop,gock->ngcpk", slopes, filters)
    total = np.zeros((x.shape[0] * x.shape[1], plane + 1), shares.dtype)
    np.add.at(total, (slice(None), index.reshape(-1)), shares.reshape(len(total), -1))
    size = np.abs(filters).sum(axis=(1, 3)).max(initial=0) * np.abs(slopes).max(initial=0)
    return total[:, 1:].reshape(x.shape), float(size)


def weight_expected(x, w, grad, options):
    """The product of the gradient and the windows of x; and how large the terms of a sum may be."""
    filters, slopes, place = parted(w, grad, options)
    view, _ = cases.windows(wide(x), w.shape[2:], **place)
    view = view.reshape(len(x), filters.shape[0], w.shape[1], *view.shape[2:])
    total = np.einsum("ngop,ngcpk->gock", slopes, view)
    size = np.abs(slopes).sum(axis=(0, 3)).max(initial=0) * np.abs(x).max(initial=0)
    return total.reshape(w.shape), float(size)


def assert_within(found, expected, size, terms):
    """A sum of products in any order; errors may go to other elements and be 4 times as large, as in convolutions."""
    assert found.shape == expected.shape
    assert np.all(np.abs(found - expected) <= 4 * (terms + 1) * np.finfo(found.dtype).eps * size)


@pytest.mark.parametrize("case", (*cases.CASES, *LARGER), ids=cases.label)
def test_input_gradient_is_a_sum_of_what_windows_give(level, dtype, rng, case):
    for draw in (rng.standard_normal, lambda shape: integers(rng, shape, dtype)):
        x, w, grad, options = problem(case, dtype, draw)
        expected, size = input_expected(x, w, grad, options)
        found = INPUT[x.ndim - 2](x.shape, w, grad, **options)
        assert type(found) is np.ndarray and found.dtype == dtype
        terms = w.shape[0] // options.get("groups", 1) * math.prod(w.shape[2:])
        assert_within(found, expected, size, terms)


@pytest.mark.parametrize("channels", [16, 64])
def test_the_weight_gradient_by_tiles_is_nearly_as_accurate_as_the_sum(level, dtype, rng, channels):
    """The middle of the gradient of 5 x 5 filters is that of 3 x 3 ones, and always a plain sum over pixels."""
    x = np.maximum(0, rng.standard_normal((4, channels, 28, 28))).astype(dtype)
    grad = rng.standard_normal((4, channels, 28, 28)).astype(dtype)
    found = fastdl.conv.conv2d_weight(x, (channels, channels, 3, 3), grad, padding=1)
    plain = fastdl.conv.conv2d_weight(x, (channels, channels, 5, 5), grad, padding=2)[:, :, 1:4, 1:4]
    truth, _ = weight_expected(x, found, grad, {"padding": 1})

    def error(values):
        return np.sqrt(np.mean(np.square(wide(values) - truth)))

    assert error(found) <= 4 * error(plain)


@pytest.mark.parametrize(("channels", "side"), [(64, 56), (512, 14), (300, 7)])
def test_weight_gradients_of_several_parts(native, rng, channels, side):
    """More tiles, or more filters, than are kept at a time; the same for any number of threads."""
    x = rng.standard_normal((8, channels, side, side), np.float32)
    grad = rng.standard_normal((8, channels, side, side), np.float32)
    shape = (channels, channels, 3, 3)
    found = fastdl.conv.conv2d_weight(x, shape, grad, padding=1)
    plain = fastdl.conv.conv2d_weight(x, (channels, channels, 5, 5), grad, padding=2)[:, :, 1:4, 1:4]
    assert np.abs(found - plain).max() <= 2e-5 * np.abs(plain).max()
    for count in (1, 3):
        with fastdl.threads(count):
            assert np.array_equal(fastdl.conv.conv2d_weight(x, shape, grad, padding=1), found)


@pytest.mark.parametrize("place", [(0, 0), (5, 9), (18, 18)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_the_taps_that_meet_it(level, dtype, rng, place, value):
    """Winograd's transforms would spread it over all taps of a channel; in a corner some taps do not meet it."""
    x = rng.standard_normal((2, 20, 19, 19)).astype(dtype)
    grad = rng.standard_normal((2, 24, 19, 19)).astype(dtype)
    x[(1, 3, *place)] = value
    with np.errstate(invalid="ignore"):
        found = fastdl.conv.conv2d_weight(x, (24, 20, 3, 3), grad, padding=1)
        met = np.array([[0 <= place[a] + 1 - t < 19 for t in range(3)] for a in range(2)])
        expected = np.zeros(found.shape, bool)
        expected[:, 3] = met[0][:, None] & met[1][None, :]
    assert np.array_equal(~np.isfinite(found), expected)


@pytest.mark.parametrize("case", (*cases.CASES, *LARGER), ids=cases.label)
def test_weight_gradient_is_a_sum_over_windows(level, dtype, rng, case):
    for draw in (rng.standard_normal, lambda shape: integers(rng, shape, dtype)):
        x, w, grad, options = problem(case, dtype, draw)
        expected, size = weight_expected(x, w, grad, options)
        found = WEIGHT[x.ndim - 2](x, w.shape, grad, **options)
        assert type(found) is np.ndarray and found.dtype == dtype
        assert_within(found, expected, size, len(x) * math.prod(grad.shape[2:]))


@pytest.mark.parametrize("case", (*cases.CASES, *LARGER), ids=cases.label)
def test_adjoints(level, dtype, rng, case):
    """⟨conv(x, w), g⟩ = ⟨x, input gradient⟩ = ⟨w, weight gradient⟩."""
    x, w, grad, options = problem(case, dtype, rng.standard_normal)
    rank = x.ndim - 2
    y = FORWARD[rank](x, w, **options)
    value = np.vdot(wide(y), wide(grad))
    eps = float(np.finfo(dtype).eps)
    # Every error is a rounding of a sum of products x w g, and these sum up to this in absolute value.
    size = float(np.vdot(cases.conv_expected(np.abs(x), np.abs(w), **options), np.abs(wide(grad))))
    terms = math.prod(w.shape[1:]) + math.prod(w.shape) // w.shape[1] + grad.size // max(1, grad.shape[1])
    limit = 4 * terms * eps * size
    assert abs(np.vdot(wide(INPUT[rank](x.shape, w, grad, **options)), wide(x)) - value) <= limit
    assert abs(np.vdot(wide(WEIGHT[rank](x, w.shape, grad, **options)), wide(w)) - value) <= limit


@pytest.mark.parametrize("case", [*cases.CASES[::4], LARGER[0]], ids=cases.label)
def test_finite_differences(level, rng, case):
    """The result is linear in x and in w, so a difference quotient has no error but that of rounding."""
    x, w, grad, options = problem(case, np.float64, rng.standard_normal)
    rank = x.ndim - 2
    step, direction = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
    change = np.vdot(FORWARD[rank](x + step, w, **options) - FORWARD[rank](x - step, w, **options), grad) / 2
    np.testing.assert_allclose(np.vdot(INPUT[rank](x.shape, w, grad, **options), step), change, rtol=0, atol=1e-9)
    change = np.vdot(FORWARD[rank](x, w + direction, **options) - FORWARD[rank](x, w - direction, **options), grad) / 2
    np.testing.assert_allclose(np.vdot(WEIGHT[rank](x, w.shape, grad, **options), direction), change, rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", (*cases.CASES[2::4], *LARGER[::3]), ids=cases.label)
def test_like_torch(level, rng, case):
    torch = pytest.importorskip("torch")
    x, w, grad, options = problem(case, np.float64, rng.standard_normal)
    rank = x.ndim - 2
    dilation = cases.per_axis(options.get("dilation", 1), rank)
    pairs = cases.margins(options.get("padding", 0), w.shape[2:], dilation)
    if any(before != after for before, after in pairs):
        pytest.skip("torch.nn.grad pads alike on both sides")
    theirs = {**options, "padding": tuple(before for before, _ in pairs)}
    arrays = [torch.asarray(array) for array in (x, w, grad)]
    gradients = torch.nn.grad
    expected = getattr(gradients, f"conv{rank}d_input")(x.shape, arrays[1], arrays[2], **theirs)
    found = INPUT[rank](x.shape, arrays[1], arrays[2], **options)
    assert type(found) is torch.Tensor
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)
    expected = getattr(gradients, f"conv{rank}d_weight")(arrays[0], w.shape, arrays[2], **theirs)
    found = WEIGHT[rank](arrays[0], torch.Size(w.shape), arrays[2], **options)
    assert type(found) is torch.Tensor
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


# ---- transposed convolutions ----


@pytest.mark.parametrize("case", cases.CASES, ids=cases.label)
def test_a_transposed_convolution_is_a_sum_of_filters_put_down(level, dtype, rng, case):
    x, w, grad, options = problem(case, dtype, lambda shape: integers(rng, shape, dtype))
    rank = x.ndim - 2
    bias = integers(rng, (x.shape[1],), dtype)
    expected, size = input_expected(x, w, grad, options)
    expected = expected + wide(bias).reshape(-1, *[1] * rank)
    # The sizes that the stride rounded away are asked for.
    stride, dilation = (cases.per_axis(options.get(name, 1), rank) for name in ("stride", "dilation"))
    pairs = cases.margins(options.get("padding", 0), w.shape[2:], dilation)
    spatial = zip(x.shape[2:], w.shape[2:], stride, dilation, pairs, strict=True)
    extra = tuple((n + sum(pair) - d * (k - 1) - 1) % s for n, k, s, d, pair in spatial)
    for constants in (bias, None):
        y = TRANSPOSE[rank](grad, w, constants, output_padding=extra, **options)
        assert y.dtype == dtype
        wanted = expected if constants is not None else expected - wide(bias).reshape(-1, *[1] * rank)
        terms = w.shape[0] // options.get("groups", 1) * math.prod(w.shape[2:]) + 1
        assert_within(y, wanted, size + float(np.abs(bias).max(initial=0)), terms)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2},
        {"stride": 3, "padding": 1, "output_padding": 2},
        {"dilation": 2, "padding": 2, "output_padding": 1},
        {"groups": 2, "stride": 2, "padding": 1},
        {"stride": 2, "padding": 0, "output_padding": 1, "dilation": 3, "groups": 2},
    ],
    ids=str,
)
def test_transposed_like_torch(level, rng, rank, options):
    torch = pytest.importorskip("torch")
    arrays = [rng.standard_normal((2, 4, *(6, 5, 4)[:rank])), rng.standard_normal((4, 3, *(3, 2, 3)[:rank]))]
    arrays.append(rng.standard_normal(3 * options.get("groups", 1)))
    tensors = [torch.asarray(array) for array in arrays]
    expected = getattr(torch.nn.functional, f"conv_transpose{rank}d")(*tensors, **options)
    found = TRANSPOSE[rank](*tensors, **options)
    assert type(found) is torch.Tensor
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_transposed_by_loops(level, dtype, rng):
    x, w = integers(rng, (2, 4, 3, 4), dtype), integers(rng, (4, 3, 2, 3), dtype)
    bias = integers(rng, (6,), dtype)
    y = conv.conv_transpose2d(
        x, w, bias, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), dilation=(3, 1), groups=2
    )
    expected = np.zeros((2, 6, 8 + 2, 9 + 3 + 2), int)
    for n, c, i, j in np.ndindex(*x.shape):
        for o, a, b in np.ndindex(*w.shape[1:]):
            expected[n, c // 2 * 3 + o, 2 * i + 3 * a, 3 * j + b] += int(x[n, c, i, j]) * int(w[c, o, a, b])
    # Of 2·2 + 3 + 1 = 8 rows one is left out on both sides and one is added; of 3·3 + 2 + 1 = 12 columns two are added.
    expected = expected[:, :, 1:8, :14] + bias.astype(int).reshape(-1, 1, 1)
    # At most 2 channels of 6 elements go to one place, each up to 8 · 8, and the bias.
    np.testing.assert_allclose(y, expected, rtol=0, atol=4 * 13 * np.finfo(dtype).eps * (12 * 64 + 8))


def test_words_for_the_padding(level, dtype, rng):
    w = integers(rng, (2, 3, 3, 4), dtype)
    for padding, size in (("valid", (7, 9)), ("same", (5, 6)), ("full", (3, 3))):
        x, grad = integers(rng, (1, 3, *size), dtype), integers(rng, (1, 2, 5, 6), dtype)
        y = conv.conv_transpose2d(grad, w, padding=padding)
        assert y.shape == x.shape
        back = conv.conv2d(x, w, padding=padding)
        assert back.shape == grad.shape
        tolerance = 4 * (w.size + 1) * np.finfo(dtype).eps * 8**3 * w.size * grad.size
        assert abs(np.vdot(wide(y), wide(x)) - np.vdot(wide(back), wide(grad))) <= tolerance


# ---- memory, threads, libraries ----


@pytest.mark.parametrize("case", [cases.CASES[i] for i in (2, 8, 13, 16, 18, 29)], ids=cases.label)
def test_every_layout(level, dtype, rng, case):
    x, w, grad, options = problem(case, dtype, lambda shape: integers(rng, shape, dtype))
    rank = x.ndim - 2
    for_x, x_size = input_expected(x, w, grad, options)
    for_w, w_size = weight_expected(x, w, grad, options)
    before = x.tobytes(), w.tobytes(), grad.tobytes()
    x_terms, w_terms = math.prod(w.shape), grad.size
    for _, slopes in (*cases.layouts(grad), *odd_layouts(grad)):
        assert_within(INPUT[rank](x.shape, w, slopes, **options), for_x, x_size, x_terms)
        assert_within(WEIGHT[rank](x, w.shape, slopes, **options), for_w, w_size, w_terms)
    for _, filters in cases.layouts(w):
        assert_within(INPUT[rank](x.shape, filters, grad, **options), for_x, x_size, x_terms)
    for _, image in cases.layouts(x):
        assert_within(WEIGHT[rank](image, w.shape, grad, **options), for_w, w_size, w_terms)
    assert (x.tobytes(), w.tobytes(), grad.tobytes()) == before


def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, rng, keep_threads):
    for case in (*cases.CASES[::5], *LARGER[::2]):
        x, w, grad, options = problem(case, dtype, rng.standard_normal)
        rank, found = x.ndim - 2, set()
        for count in (1, 2, 3, 5):
            fastdl.set_num_threads(count)
            results = INPUT[rank](x.shape, w, grad, **options), WEIGHT[rank](x, w.shape, grad, **options)
            found.add(b"".join(result.tobytes() for result in (*results, TRANSPOSE[rank](grad, w, **options))))
        assert len(found) == 1, cases.label(case)


def test_empty(level, dtype):
    w = np.ones((4, 3, 3, 3), dtype)
    x, grad = np.ones((0, 3, 5, 6), dtype), np.ones((0, 4, 3, 4), dtype)
    assert conv.conv2d_input(x.shape, w, grad).shape == x.shape
    assert conv.conv_transpose2d(grad, w).shape == x.shape
    np.testing.assert_array_equal(conv.conv2d_weight(x, w.shape, grad), np.zeros(w.shape))
    np.testing.assert_array_equal(conv.conv2d_input((2, 3, 5, 6), w[:0], np.ones((2, 0, 3, 4), dtype)), 0)
    assert conv.conv2d_weight(np.ones((2, 3, 5, 6), dtype), (0, 3, 3, 3), np.ones((2, 0, 3, 4), dtype)).shape[0] == 0


def test_nan_stays_in_its_channel_and_sample(level, dtype, rng):
    x, w, grad, options = problem(cases.CASES[12], dtype, rng.standard_normal)  # two groups
    samples = np.concatenate([grad, grad])
    samples[1, 0, 5, 5] = np.nan
    found = conv.conv2d_input((2, *x.shape[1:]), w, samples, **options)
    assert np.all(np.isfinite(found[0])) and np.all(np.isfinite(found[1, 3:]))
    assert np.isnan(found[1, 0, 5, 5])
    slopes = grad.copy()
    slopes[0, 3, 5, 5] = np.nan
    found = conv.conv2d_weight(x, w.shape, slopes, **options)
    assert np.all(np.isfinite(found[:2])) and np.all(np.isnan(found[3]))


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_the_reference_runs_on_every_library(library, dtype, rng):
    xp = pytest.importorskip(library)
    for case in cases.CASES[::3]:
        x, w, grad, options = problem(case, dtype, lambda shape: integers(rng, shape, dtype))
        rank = x.ndim - 2
        stride, dilation = (cases.per_axis(options.get(name, 1), rank) for name in ("stride", "dilation"))
        lower = tuple(before for before, _ in cases.margins(options.get("padding", 0), w.shape[2:], dilation))
        place = (stride, lower, dilation, options.get("groups", 1))
        image, filters, slopes = (xp.asarray(array) for array in (x, w, grad))
        for found, (expected, _) in [
            (
                getattr(reference, f"conv{rank}d_input")(filters, slopes, *place, x.shape),
                input_expected(x, w, grad, options),
            ),
            (
                getattr(reference, f"conv{rank}d_weight")(image, slopes, *place, w.shape),
                weight_expected(x, w, grad, options),
            ),
        ]:
            assert type(found) is type(image) and found.dtype == image.dtype
            np.testing.assert_array_equal(np.from_dlpack(found), expected)


# ---- refusals ----

image, filters, slopes = np.ones((2, 4, 5, 6)), np.ones((6, 4, 3, 3)), np.ones((2, 6, 3, 4))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: conv.conv2d_input((2, 4, 5), filters, slopes),
            ValueError,
            r"expected input_size to be 4 whole numbers",
        ),
        (lambda: conv.conv2d_input((2, 4, 5, -1), filters, slopes), ValueError, r"expected input_size .*, got -1"),
        (lambda: conv.conv2d_input((2, 4, 5, 6.0), filters, slopes), TypeError, r"expected input_size .*, got float"),
        (lambda: conv.conv2d_input(5, filters, slopes), TypeError, r"expected input_size to be .*, got int"),
        (lambda: conv.conv2d_input(image.shape, filters[0], slopes), ValueError, r"expected w of shape \(Cout,"),
        (lambda: conv.conv2d_input((2, 3, 5, 6), filters, slopes), ValueError, r"expected w with 3 channels a group"),
        (
            lambda: conv.conv2d_input(image.shape, filters, slopes[:1]),
            ValueError,
            r"expected grad of shape \(2, 6, 3, 4\)",
        ),
        (
            lambda: conv.conv2d_input(image.shape, filters, slopes, padding=1),
            ValueError,
            r"expected grad of shape \(2, 6, 5",
        ),
        (lambda: conv.conv2d_input(image.shape, filters, slopes, stride=0), ValueError, r"expected stride"),
        (
            lambda: conv.conv2d_input(image.shape, filters, slopes, groups=3),
            ValueError,
            r"expected groups to divide the 4",
        ),
        (lambda: conv.conv2d_input((2, 4, 2, 6), filters, slopes), ValueError, r"expected a kernel no larger"),
        (lambda: conv.conv2d_input(image.shape, filters, None), TypeError, r"expected grad to be an array, got None"),
    ],
)
def test_input_gradients_that_are_refused(level, call, error, message):
    with pytest.raises(error, match=r"^\[conv\.conv2d_input\] " + message):
        call()


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda: conv.conv2d_weight(image[0], filters.shape, slopes),
            ValueError,
            r"expected x of shape \(N, C, H, W\)",
        ),
        (
            lambda: conv.conv2d_weight(image, (6, 4, 3), slopes),
            ValueError,
            r"expected weight_size to be 4 whole numbers",
        ),
        (
            lambda: conv.conv2d_weight(image, (6, 4, 0, 3), slopes),
            ValueError,
            r"expected weight_size of shape .* at least 1",
        ),
        (lambda: conv.conv2d_weight(image, (6, 3, 3, 3), slopes), ValueError, r"expected weight_size with 4 channels"),
        (lambda: conv.conv2d_weight(image, (5, 4, 3, 3), slopes), ValueError, r"expected grad of shape \(2, 5, 3, 4\)"),
        (lambda: conv.conv2d_weight(image, (6, 4, 6, 3), slopes), ValueError, r"expected a kernel no larger"),
        (lambda: conv.conv2d_weight(image, filters.shape, slopes, dilation=-1), ValueError, r"expected dilation"),
        (lambda: conv.conv2d_weight(image, "6433", slopes), TypeError, r"expected weight_size to be .*, got str"),
    ],
)
def test_weight_gradients_that_are_refused(level, call, error, message):
    with pytest.raises(error, match=r"^\[conv\.conv2d_weight\] " + message):
        call()


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        ((image[0], filters), {}, r"expected x of shape \(N, C, H, W\), got \(4, 5, 6\)"),
        ((image, filters), {}, r"expected w of shape \(4, \.\.\.\) like the channels of x, got \(6, 4, 3, 3\)"),
        ((slopes, filters[0]), {}, r"expected w of shape \(Cin, Cout / groups, k, k\)"),
        ((slopes, filters), {"groups": 4}, r"expected groups to divide the 6 channels of x, got 4"),
        ((slopes, filters), {"output_padding": 1}, r"expected output_padding below stride or dilation, 1, got 1"),
        ((slopes, filters), {"output_padding": -1}, r"expected output_padding to be a whole number from 0"),
        (
            (slopes, filters),
            {"padding": 3},
            r"expected padding that leaves something of the result, got size \(-1, 0\)",
        ),
        ((slopes, filters), {"padding": "same", "stride": 2}, r"expected stride 1 with padding 'same'"),
        ((slopes, filters), {"stride": (0, 1)}, r"expected stride"),
        ((slopes[:, :, :0], filters), {}, r"expected x with positions, got shape \(2, 6, 0, 4\)"),
        ((slopes, filters, np.ones(6)), {}, r"expected bias of shape \(4,\), got \(6,\)"),
    ],
)
def test_transposed_convolutions_that_are_refused(level, arguments, options, message):
    with pytest.raises(ValueError, match=r"^\[conv\.conv_transpose2d\] " + message):
        conv.conv_transpose2d(*arguments, **options)
