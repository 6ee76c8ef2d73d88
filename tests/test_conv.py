"""Convolutions against another way to compute them in more precision, and by identities."""

import itertools

import numpy as np
import pytest

import fastdl
from cases import conv as cases
from cases import integers, odd_layouts, wide
from fastdl import conv

FORWARD = {1: conv.conv1d, 2: conv.conv2d, 3: conv.conv3d}


def forward(x, w, bias=None, **options):
    return FORWARD[x.ndim - 2](x, w, bias, **options)


def assert_within(found, expected, tolerance):
    assert found.shape == expected.shape
    error = np.abs(found - expected)
    assert np.all(error <= tolerance), f"error {np.max(error)} where {np.max(tolerance)} is allowed"


def test_the_worked_example(level, dtype):
    x = [[2, 4, 9, 1, 4], [2, 1, 4, 4, 6], [1, 1, 2, 9, 2], [7, 3, 5, 1, 3], [2, 3, 4, 8, 5]]
    w = [[1, 2, 3], [-4, 7, 4], [2, -5, 1]]
    y = conv.conv2d(np.array([[x]], dtype), np.array([[w]], dtype), algorithm="direct")
    assert y.shape == (1, 1, 3, 3) and y.dtype == dtype
    assert y[0, 0, 0, 0] == 51


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_definition_by_loops(level, dtype, rng, rank):
    stride, padding, dilation, groups = (2, 1, 1)[:rank], (1, 0, 2)[:rank], (1, 2, 1)[:rank], 2
    x, w = integers(rng, (2, 4, *(5, 6, 4)[:rank]), dtype), integers(rng, (6, 2, *(3, 2, 3)[:rank]), dtype)
    bias = integers(rng, (6,), dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    y = forward(x, w, bias, algorithm="direct", **options)
    for n, o, *p in np.ndindex(*y.shape):
        total = int(bias[o])
        for c, *q in np.ndindex(*w.shape[1:]):
            place = [s * i + d * j - a for i, j, s, d, a in zip(p, q, stride, dilation, padding, strict=True)]
            if all(0 <= i < size for i, size in zip(place, x.shape[2:], strict=True)):
                total += int(w[(o, c, *q)]) * int(x[(n, o // 3 * 2 + c, *place)])
        assert y[(n, o, *p)] == total


@pytest.mark.parametrize("case", cases.CASES, ids=cases.label)
def test_every_option_and_algorithm(level, dtype, rng, case):
    """Whole numbers: the direct sum is exact, the others round."""
    x, w, bias, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
    expected = cases.conv_expected(x, w, bias, **options)
    for algorithm in cases.algorithms(case[1], case[2]):
        y = forward(x, w, bias, algorithm=algorithm, **options)
        assert type(y) is np.ndarray and y.dtype == dtype and y.shape == expected.shape
        if algorithm == "direct":
            np.testing.assert_array_equal(y, expected)
        else:
            assert_within(y, expected, cases.conv_tolerance(x, w, bias, algorithm=algorithm, **options))


@pytest.mark.parametrize("case", cases.CASES[::3], ids=cases.label)
def test_within_the_bound(level, dtype, rng, case):
    x, w, bias, options = cases.make(case, rng, dtype, rng.standard_normal)
    expected = cases.conv_expected(x, w, bias, **options)
    for algorithm in cases.algorithms(case[1], case[2]):
        y = forward(x, w, bias, algorithm=algorithm, **options)
        assert_within(y, expected, cases.conv_tolerance(x, w, bias, algorithm=algorithm, **options))


@pytest.mark.parametrize("height", cases.SIZES)
def test_every_size(level, dtype, rng, height):
    for width, (kernel, padding) in itertools.product(cases.SIZES, [(1, 0), (3, 1), (5, 2)]):
        x, w = integers(rng, (1, 2, height, width), dtype), integers(rng, (3, 2, kernel, kernel), dtype)
        expected = cases.conv_expected(x, w, padding=padding)
        y = conv.conv2d(x, w, padding=padding, algorithm="direct")
        np.testing.assert_array_equal(y, expected, err_msg=f"{height}x{width}, kernel {kernel}")
        y = conv.conv2d(x, w, padding=padding)
        assert_within(y, expected, cases.conv_tolerance(x, w, algorithm="auto", padding=padding))


@pytest.mark.parametrize("channels", cases.CHANNELS)
@pytest.mark.parametrize("filters", cases.CHANNELS)
def test_every_number_of_channels(level, dtype, rng, channels, filters):
    x = integers(rng, (2, channels, 7, 9), dtype)
    for size in (1, 3):
        w = integers(rng, (filters, channels, size, size), dtype)
        expected = cases.conv_expected(x, w, padding="same")
        for algorithm in ("direct", "auto") if size == 1 else ("direct", "auto", "winograd"):
            y = conv.conv2d(x, w, padding="same", algorithm=algorithm)
            assert_within(y, expected, cases.conv_tolerance(x, w, algorithm=algorithm, padding="same"))
        assert np.array_equal(conv.conv2d(x, w, padding="same", algorithm="direct"), expected)


@pytest.mark.parametrize("n, channels, size, kernel", [(2, 64, 28, 3), (1, 16, 56, 3), (1, 3, 40, 17), (2, 32, 12, 3)])
def test_auto_errs_at_most_four_times_as_much_as_direct(level, rng, n, channels, size, kernel):
    """Over many elements, so that the largest errors can be compared."""
    x = rng.standard_normal((n, channels, size, size)).astype(np.float32)
    w = rng.standard_normal((8, channels, kernel, kernel)).astype(np.float32)
    expected = cases.conv_expected(x, w, padding="same")
    auto, direct = (
        np.abs(conv.conv2d(x, w, padding="same", algorithm=algorithm) - expected).max()
        for algorithm in ("auto", "direct")
    )
    assert auto <= 4 * direct


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize("case", [case for case in cases.CASES if case[0][2:] > (6,)][::2], ids=cases.label)
def test_padding_modes(level, dtype, rng, mode, case):
    x, w, bias, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
    rank = x.ndim - 2
    before = cases.margins(options.get("padding", 0), w.shape[2:], cases.per_axis(options.get("dilation", 1), rank))
    if mode == "reflect" and any(max(pair) >= n for pair, n in zip(before, x.shape[2:], strict=True)):
        with pytest.raises(ValueError, match=r"expected padding below the size of x with 'reflect'"):
            forward(x, w, bias, padding_mode=mode, **options)
        return
    expected = cases.conv_expected(x, w, bias, padding_mode=mode, **options)
    for algorithm in cases.algorithms(case[1], case[2]):
        y = forward(x, w, bias, padding_mode=mode, algorithm=algorithm, **options)
        tolerance = cases.conv_tolerance(x, w, bias, algorithm=algorithm, padding_mode=mode, **options)
        assert_within(y, expected, 0 if algorithm == "direct" else tolerance)


def test_circular_padding_may_go_round_more_than_once(level, dtype):
    x = np.array([[[1, 2, 3]]], dtype)
    y = conv.conv1d(x, np.ones((1, 1, 1), dtype), padding=7, padding_mode="circular")
    np.testing.assert_array_equal(y[0, 0], np.pad([1, 2, 3], 7, "wrap"))
    y = conv.conv1d(x, np.ones((1, 1, 1), dtype), padding=5, padding_mode="replicate")
    np.testing.assert_array_equal(y[0, 0], np.pad([1, 2, 3], 5, "edge"))


@pytest.mark.parametrize("activation", [None, "relu", "leaky_relu", "sigmoid", "tanh"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_activations(level, dtype, rng, activation, rank):
    x, w = (rng.standard_normal((2, 3, *(9, 8, 5)[:rank])), rng.standard_normal((17, 3, *(3, 3, 3)[:rank])))
    x, w, bias = x.astype(dtype), w.astype(dtype), rng.standard_normal(17).astype(dtype)
    for constants, padding in ((bias, 1), (None, 0)):
        expected = cases.conv_expected(x, w, constants, padding=padding, activation=activation)
        for algorithm in cases.algorithms(w.shape, {}):
            y = forward(x, w, constants, padding=padding, activation=activation, algorithm=algorithm)
            options = {"algorithm": algorithm, "padding": padding, "activation": activation}
            assert_within(y, expected, cases.conv_tolerance(x, w, constants, **options))


def test_activations_far_out(level, dtype):
    x = np.array([[[-1e4, -100, -0.0, 0.0, 100, 1e4, np.nan]]], dtype)
    one = np.ones((1, 1, 1), dtype)
    limits = {
        "relu": [0, 0, 0, 0, 100, 1e4],
        "leaky_relu": [-100, -1, 0, 0, 100, 1e4],
        "sigmoid": [0, 0, 0.5, 0.5, 1, 1],
        "tanh": [-1, -1, 0, 0, 1, 1],
    }
    for name, values in limits.items():
        y = conv.conv1d(x, one, activation=name)[0, 0]
        np.testing.assert_allclose(y[:6], values, rtol=4 * np.finfo(dtype).eps, atol=1e-40)
        assert np.isnan(y[6])


# ---- identities ----


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_an_impulse_gives_back_the_filters(level, dtype, rng, rank):
    w = integers(rng, (5, 3, *(3, 4, 2)[:rank]), dtype)
    x = np.zeros((3, 3, *(1, 1, 1)[:rank]), dtype)
    x[range(3), range(3)] = 1  # sample c is an impulse in channel c
    y = forward(x, w, padding="full", algorithm="direct")
    np.testing.assert_array_equal(y, np.flip(w, range(2, 2 + rank)).swapaxes(0, 1))


def test_a_shift_of_the_image_shifts_the_result(level, dtype, rng):
    x, w = integers(rng, (2, 3, 9, 10), dtype), integers(rng, (4, 3, 3, 3), dtype)
    options = {"padding": 1, "padding_mode": "circular", "algorithm": "direct"}
    y = conv.conv2d(x, w, **options)
    for shift in itertools.product((0, 1, -3), (0, 2, 5)):
        np.testing.assert_array_equal(
            conv.conv2d(np.roll(x, shift, (2, 3)), w, **options), np.roll(y, shift, (2, 3)), err_msg=str(shift)
        )


@pytest.mark.parametrize("case", [case for case in cases.CASES if "stride" in case[2]], ids=cases.label)
def test_a_stride_leaves_out_elements(level, dtype, rng, case):
    x, w, bias, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
    stride = cases.per_axis(options.pop("stride"), x.ndim - 2)
    dense = forward(x, w, bias, algorithm="direct", **options)
    y = forward(x, w, bias, stride=stride, algorithm="direct", **options)
    np.testing.assert_array_equal(y, dense[(..., *(slice(None, None, s) for s in stride))])


def test_groups_are_separate_convolutions(level, dtype, rng):
    x, w = integers(rng, (2, 12, 8, 9), dtype), integers(rng, (18, 2, 3, 3), dtype)
    y = conv.conv2d(x, w, groups=6, algorithm="direct")
    for g in range(6):
        part = conv.conv2d(x[:, 2 * g : 2 * g + 2], w[3 * g : 3 * g + 3], algorithm="direct")
        np.testing.assert_array_equal(y[:, 3 * g : 3 * g + 3], part)


@pytest.mark.parametrize("channels", [7, 8, 9, 16, 17, 33])
@pytest.mark.parametrize("size", [(1, 1), (2, 9), (7, 7), (8, 15), (17, 33)])
def test_depthwise_is_a_convolution_of_each_channel(level, dtype, rng, channels, size):
    whole = integers(rng, (2, *size, channels), dtype)
    x, w, bias = whole.transpose(0, 3, 1, 2), integers(rng, (channels, 1, 3, 3), dtype), integers(rng, channels, dtype)
    filters = {3: w, 2: w[..., :2, :1], 5: np.concatenate((w, w[..., :2, :]), axis=2)}
    for side, stride, padding, dilation in itertools.product(filters, (1, 2, (3, 1)), (1, (0, 2), 4), (1, (2, 1))):
        options = {"stride": stride, "padding": padding, "dilation": dilation, "activation": "relu"}
        seen = [n + 2 * p for n, p in zip(size, np.broadcast_to(padding, 2), strict=True)]
        reach = (np.array(filters[side].shape[2:]) - 1) * dilation + 1
        if (reach > seen).any():
            continue
        expected = cases.conv_expected(x, filters[side], bias, groups=channels, **options)
        whole_rows, apart = np.ascontiguousarray(x), np.repeat(x, 2, axis=2)[:, :, ::2]
        for images in (x, whole_rows, apart, np.ascontiguousarray(x[..., ::-1])[..., ::-1]):
            found = conv.conv2d(images, filters[side], bias, groups=channels, **options)
            np.testing.assert_array_equal(found, expected, err_msg=str((side, options)))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 3, 20])
def test_depthwise_rows_of_every_length(level, dtype, rng, groups, stride):
    """Along rows, as channels-first images have them, and along channels: the same sums in the same order."""
    w, bias = rng.standard_normal((groups, 1, 3, 3)).astype(dtype), rng.standard_normal(groups).astype(dtype)
    for width, height in zip((*range(1, 36), 47, 48, 49, 63, 64, 65, 130), itertools.cycle(range(1, 11)), strict=False):
        x = rng.standard_normal((2, groups, height, width)).astype(dtype)
        last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        options = {"stride": stride, "padding": 1, "groups": groups}
        found, expected = conv.conv2d(x, w, bias, **options), cases.conv_expected(x, w, bias, **options)
        assert np.all(np.abs(found - expected) <= cases.conv_tolerance(x, w, bias, **options)), (width, height)
        np.testing.assert_array_equal(conv.conv2d(x, w, bias, algorithm="direct", **options), found)
        if groups >= 8:
            np.testing.assert_array_equal(conv.conv2d(last, w, bias, **options), found)
        i, j = height // 2, width // 2
        x[1, -1, i, j] = np.nan
        marked = conv.conv2d(x, w, bias, **options)
        seen = np.zeros(found.shape, bool)
        rows, columns = (np.arange(n) * stride for n in found.shape[2:])
        seen[1, -1] = np.outer(np.abs(rows - i) <= 1, np.abs(columns - j) <= 1)
        np.testing.assert_array_equal(np.isnan(marked), seen)
        np.testing.assert_array_equal(marked[~seen], found[~seen])


def test_what_lies_around_depthwise_images_does_not_matter(level, dtype, rng):
    """Rows are padded with zeros, not with what lies before the first element or behind the last one."""
    w = rng.standard_normal((2, 1, 3, 3)).astype(dtype)
    for width, stride in itertools.product((7, 16, 17, 32, 40), (1, 2)):
        room = np.full(2 * 5 * width + 128, np.nan, dtype)
        x = room[64:-64].reshape(1, 2, 5, width)
        x[...] = rng.standard_normal(x.shape)
        assert np.isfinite(conv.conv2d(x, w, stride=stride, padding=1, groups=2)).all()


def test_one_by_one_is_a_matrix_product(level, dtype, rng):
    x, w = integers(rng, (3, 17, 5, 7), dtype), integers(rng, (9, 17, 1, 1), dtype)
    expected = np.einsum("oc,nchw->nohw", w[:, :, 0, 0], x)
    np.testing.assert_array_equal(conv.conv2d(x, w, algorithm="direct"), expected)


def test_linear_in_each_argument(level, dtype, rng):
    x, other = integers(rng, (2, 2, 3, 9, 8), dtype)
    w, filters = integers(rng, (2, 4, 3, 3, 3), dtype)

    def apply(x, w):
        return conv.conv2d(x, w, padding=1, algorithm="direct")

    np.testing.assert_array_equal(apply(3 * x - 2 * other, w), 3 * apply(x, w) - 2 * apply(other, w))
    np.testing.assert_array_equal(apply(x, 3 * w - 2 * filters), 3 * apply(x, w) - 2 * apply(x, filters))


def test_the_ranks_agree(level, dtype, rng):
    x, w = integers(rng, (2, 3, 12), dtype), integers(rng, (4, 3, 5), dtype)
    line = conv.conv1d(x, w, stride=2, padding=2, algorithm="direct")
    plane = conv.conv2d(x[:, :, None], w[:, :, None], stride=(1, 2), padding=(0, 2), algorithm="direct")
    space = conv.conv3d(
        x[:, :, None, None], w[:, :, None, None], stride=(1, 1, 2), padding=(0, 0, 2), algorithm="direct"
    )
    np.testing.assert_array_equal(plane[:, :, 0], line)
    np.testing.assert_array_equal(space[:, :, 0, 0], line)


# ---- memory ----


@pytest.mark.parametrize("case", [cases.CASES[i] for i in (2, 8, 12, 13, 16, 18, 29)], ids=cases.label)
def test_every_layout_of_the_inputs(level, dtype, rng, case):
    x, w, bias, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
    expected = forward(x, w, bias, algorithm="direct", **options)
    np.testing.assert_array_equal(expected, cases.conv_expected(x, w, bias, **options))
    for name, image in (*cases.layouts(x), *odd_layouts(x)):
        y = forward(image, w, bias, algorithm="direct", **options)
        np.testing.assert_array_equal(y, expected, err_msg=f"x {name}")
        auto = forward(image, w, bias, **options)
        assert_within(auto, expected, cases.conv_tolerance(x, w, bias, algorithm="auto", **options))
    for name, filters in (*cases.layouts(w), *odd_layouts(w)):
        y = forward(x, filters, bias, algorithm="direct", **options)
        np.testing.assert_array_equal(y, expected, err_msg=f"w {name}")
    if bias is not None:
        spread = np.repeat(bias, 2)[::2]
        np.testing.assert_array_equal(forward(x, w, spread, algorithm="direct", **options), expected)


def test_broadcast_inputs(level, dtype, rng):
    row = integers(rng, (1, 1, 1, 9), dtype)
    x, w = np.broadcast_to(row, (2, 3, 8, 9)), np.broadcast_to(dtype.type(2), (4, 3, 3, 3))
    y = conv.conv2d(x, w, algorithm="direct")
    np.testing.assert_array_equal(y, cases.conv_expected(x, w))


@pytest.mark.parametrize("case", [cases.CASES[i] for i in (2, 7, 8, 13, 18, 29)], ids=cases.label)
def test_out_of_every_layout_and_nothing_else_is_written(level, dtype, rng, case):
    x, w, bias, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
    expected = cases.conv_expected(x, w, bias, **options)
    for algorithm in cases.algorithms(case[1], case[2]):
        tolerance = cases.conv_tolerance(x, w, bias, algorithm=algorithm, **options)
        for name, memory, part, out in cases.outs(expected.shape, dtype):
            assert forward(x, w, bias, out=out, algorithm=algorithm, **options) is out
            assert np.all(np.abs(out - expected) <= (0 if algorithm == "direct" else tolerance)), (name, algorithm)
            part[...] = 1234.5
            assert np.all(memory == 1234.5), (name, algorithm)


def test_old_contents_of_out_do_not_matter(level, dtype, rng):
    x, w = integers(rng, (2, 3, 9, 9), dtype), integers(rng, (4, 3, 3, 3), dtype)
    for algorithm in ("auto", "direct", "winograd", "fft"):
        out = np.full((2, 4, 7, 7), np.nan, dtype)
        assert np.all(np.isfinite(conv.conv2d(x, w, out=out, algorithm=algorithm)))


def test_inputs_are_never_written(level, dtype, rng):
    x, w = rng.standard_normal((2, 4, 9, 9)).astype(dtype), rng.standard_normal((4, 4, 3, 3)).astype(dtype)
    bias = rng.standard_normal(4).astype(dtype)
    before = x.tobytes(), w.tobytes(), bias.tobytes()
    for algorithm in ("auto", "direct", "winograd", "fft"):
        conv.conv2d(x, w, bias, padding=1, activation="relu", algorithm=algorithm)
    assert (x.tobytes(), w.tobytes(), bias.tobytes()) == before


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize(
    "options",
    [{}, {"padding": 1}, {"stride": 2, "padding": 2}, {"dilation": 2}, {"groups": 2, "padding": "same"}],
    ids=str,
)
def test_nan_and_inf_stay_in_the_windows_they_are_in(level, dtype, rng, poison, options):
    x = integers(rng, (2, 4, 17, 19), dtype)
    w = rng.integers(1, 9, (6, 4 // options.get("groups", 1), 3, 3)).astype(dtype)
    marked = np.zeros_like(x)
    marked[1, 2, 8, 10] = 1
    touched = cases.conv_expected(marked, np.ones_like(w), **options) > 0
    clean = conv.conv2d(x, w, algorithm="direct", **options)
    y = conv.conv2d(np.where(marked > 0, dtype.type(poison), x), w, algorithm="direct", **options)
    np.testing.assert_array_equal(np.isnan(y) if np.isnan(poison) else y == poison, touched)
    np.testing.assert_array_equal(y[~touched], clean[~touched])
    # Whatever the algorithm, other samples know nothing of it.
    auto = conv.conv2d(np.where(marked > 0, dtype.type(poison), x), w, **options)
    assert np.all(np.isfinite(auto[0])) and not np.any(np.isfinite(auto[touched]))


def test_empty(level, dtype):
    w = np.ones((4, 3, 3, 3), dtype)
    for algorithm in ("auto", "direct", "winograd", "fft"):
        assert conv.conv2d(np.ones((0, 3, 5, 6), dtype), w, algorithm=algorithm).shape == (0, 4, 3, 4)
        assert conv.conv2d(np.ones((2, 3, 5, 6), dtype), w[:0], algorithm=algorithm).shape == (2, 0, 3, 4)
        y = conv.conv2d(np.ones((2, 0, 5, 6), dtype), w[:, :0], np.arange(4, dtype=dtype), algorithm=algorithm)
        np.testing.assert_array_equal(y, np.broadcast_to(np.arange(4).reshape(4, 1, 1), (2, 4, 3, 4)))
        np.testing.assert_array_equal(conv.conv2d(np.ones((1, 3, 0, 2), dtype), w, padding=2, algorithm=algorithm), 0)
    assert conv.conv1d(np.ones((0, 1, 4)), np.ones((1, 1, 2))).shape == (0, 1, 3)
    assert conv.conv3d(np.ones((0, 1, 4, 3, 2)), np.ones((1, 1, 2, 2, 2))).shape == (0, 1, 3, 2, 1)


def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, rng, keep_threads):
    for case in cases.CASES[::4]:
        x, w, bias, options = cases.make(case, rng, dtype, rng.standard_normal)
        for algorithm in cases.algorithms(case[1], case[2]):
            found = set()
            for count in (1, 2, 3, 5):
                fastdl.set_num_threads(count)
                found.add(forward(x, w, bias, algorithm=algorithm, **options).tobytes())
            assert len(found) == 1, (cases.label(case), algorithm)
    x, w = rng.standard_normal((4, 16, 33, 31)).astype(dtype), rng.standard_normal((24, 16, 3, 3)).astype(dtype)
    fastdl.set_num_threads(3)
    expected = conv.conv2d(x, w, padding=1)
    for limit in (1, 2):
        with fastdl.threads(limit):
            assert conv.conv2d(x, w, padding=1).tobytes() == expected.tobytes()


# ---- libraries ----


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_answers_in_the_library_it_was_asked_in(level, dtype, rng, library):
    xp = pytest.importorskip(library)
    x, w, bias = integers(rng, (2, 3, 9, 8), dtype), integers(rng, (4, 3, 3, 3), dtype), integers(rng, (4,), dtype)
    expected = cases.conv_expected(x, w, bias, padding=1, stride=2)
    arrays = [xp.asarray(array) for array in (x, w, bias)]
    y = conv.conv2d(*arrays, padding=1, stride=2, algorithm="direct")
    assert type(y) is type(arrays[0]) and y.dtype == arrays[0].dtype
    np.testing.assert_array_equal(np.from_dlpack(y), expected)
    out = xp.asarray(np.zeros(expected.shape, dtype))
    assert conv.conv2d(*arrays, padding=1, stride=2, algorithm="direct", out=out) is out
    np.testing.assert_array_equal(np.from_dlpack(out), expected)


def test_torch_tensors_of_every_layout(level, dtype, rng):
    torch = pytest.importorskip("torch")
    x, w = integers(rng, (2, 4, 9, 8), dtype), integers(rng, (6, 4, 3, 3), dtype)
    expected = cases.conv_expected(x, w, padding=1)
    image, filters = torch.asarray(x), torch.asarray(w)
    for other in (
        image,
        image.to(memory_format=torch.channels_last),
        image.permute(3, 1, 0, 2).clone().permute(2, 1, 3, 0),
    ):
        y = conv.conv2d(other, filters, padding=1, algorithm="direct")
        np.testing.assert_array_equal(y.numpy(), expected)
    out = torch.empty(tuple(expected.shape), dtype=image.dtype).to(memory_format=torch.channels_last)
    assert conv.conv2d(image, filters, padding=1, algorithm="direct", out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected)
    theirs = torch.nn.functional.conv2d(image, filters, padding=1)
    np.testing.assert_array_equal(conv.conv2d(image, filters, padding=1, algorithm="direct"), theirs)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("case", cases.CASES, ids=cases.label)
def test_like_torch(level, rng, case):
    torch = pytest.importorskip("torch")
    x, w, bias, options = cases.make(case, rng, np.float64, rng.standard_normal)
    if options.get("padding") == "full":
        dilation = cases.per_axis(options.get("dilation", 1), x.ndim - 2)
        options["padding"] = tuple(d * (k - 1) for k, d in zip(w.shape[2:], dilation, strict=True))
    function = getattr(torch.nn.functional, f"conv{x.ndim - 2}d")
    theirs = function(*(None if array is None else torch.asarray(array) for array in (x, w, bias)), **options)
    tolerance = 2 * cases.conv_tolerance(x, w, bias, algorithm="auto", **options)
    assert_within(forward(x, w, bias, **options), theirs.numpy(), tolerance)


def test_dtypes(level):
    x, w = np.ones((1, 1, 3, 3), np.int8), np.ones((1, 1, 2, 2), np.float32)
    for first, second, result in [
        (x, w, "float64"),
        (x.astype("f4"), w, "float32"),
        (x.astype(">f4"), w, "float32"),
        (x.astype("f4"), w.astype("f8"), "float64"),
        (x.astype(bool), w.astype(int), "float64"),
        (x.tolist(), w.tolist(), "float64"),
    ]:
        y = conv.conv2d(first, second)
        assert y.dtype == result
        np.testing.assert_array_equal(y, 4)
    for bad in (x.astype("f2"), x * 1j, x.astype(object)):
        with pytest.raises(TypeError, match=r"^\[conv\.conv2d\] expected x of dtype"):
            conv.conv2d(bad, w)
        with pytest.raises(TypeError, match=r"^\[conv\.conv2d\] expected w of dtype"):
            conv.conv2d(x, bad)


# ---- prepared ----


@pytest.mark.parametrize("case", cases.CASES[::3], ids=cases.label)
def test_prepared(level, dtype, rng, case):
    x, w, bias, options = cases.make(case, rng, dtype, rng.standard_normal)
    for algorithm in cases.algorithms(case[1], case[2]):
        for size in (None, x.shape):
            prepared = conv.prepare(w, size, bias=bias, activation="relu", algorithm=algorithm, **options)
            assert isinstance(prepared, conv.PreparedConv)
            expected = cases.conv_expected(x, w, bias, activation="relu", **options)
            tolerance = cases.conv_tolerance(x, w, bias, algorithm=algorithm, activation="relu", **options)
            assert_within(prepared(x), expected, tolerance)
            out = np.empty(expected.shape, dtype)
            assert prepared(x, out) is out and prepared(x, out=out) is out
            assert_within(out, expected, tolerance)
            # Another number of samples than was announced.
            twice = np.concatenate([x, x])
            assert_within(prepared(twice), np.concatenate([expected, expected]), tolerance.max())


def test_prepared_for_one_plane_and_called_with_several(level, dtype, rng):
    """Filters made for images of one plane, by tiles, do not compute those of several."""
    w = rng.standard_normal((32, 32, 1, 3, 3)).astype(dtype)
    prepared = conv.prepare(w, (4, 32, 1, 20, 20), padding="valid")
    for planes in (1, 2, 5):
        x = rng.standard_normal((2, 32, planes, 20, 20)).astype(dtype)
        tolerance = cases.conv_tolerance(x, w, algorithm="auto")
        assert_within(prepared(x), cases.conv_expected(x, w), tolerance)


def test_prepared_from_lists(level):
    prepared = conv.prepare([[[1.0, 2.0]]], bias=[3.0])
    np.testing.assert_array_equal(prepared([[[1.0, 1.0, 2.0]]]), [[[6, 8]]])


def test_prepared_errors(level):
    w = np.ones((2, 1, 3, 3))
    for arguments, options, message in [
        (
            (np.ones((2, 1)),),
            {},
            r"expected w of shape \(Cout, Cin / groups, k, \.\.\.\) with 3 to 5 axes, got \(2, 1\)",
        ),
        ((w,), {"stride": 0}, r"expected stride to be a whole number from 1"),
        ((w,), {"activation": "gelu"}, r"expected activation to be 'relu', 'leaky_relu', 'sigmoid' or 'tanh'"),
        ((w,), {"algorithm": "winograd", "stride": 2}, r"expected a kernel of \(3, 3\), stride 1 and dilation 1"),
        ((w,), {"bias": np.ones(3)}, r"expected bias of shape \(2,\), got \(3,\)"),
        ((w, (1, 1, 2, 2)), {}, r"expected a kernel no larger than the padded input"),
        ((w, (1, 5, 4, 4)), {}, r"expected w with 5 channels a group like input_size, got 1"),
        ((w, (1, 1, 4)), {}, r"expected input_size to be 4 whole numbers"),
    ]:
        with pytest.raises(ValueError, match=r"^\[conv\.prepare\] " + message):
            conv.prepare(*arguments, **options)
    with pytest.raises(ValueError, match=r"^\[conv\.conv2d\] expected x of shape \(N, C, H, W\), got \(3, 3\)"):
        conv.prepare(w)(np.ones((3, 3)))


# ---- refusals ----

image, filters = np.ones((2, 4, 5, 6)), np.ones((6, 4, 3, 3))


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"groups": 2}, ValueError, r"expected w with 2 channels a group like x, got 4"),
        ({"groups": 3}, ValueError, r"expected groups to divide the 4 channels of x, got 3"),
        ({"groups": 0}, ValueError, r"expected groups to be a whole number from 1 to \d+, got 0"),
        ({"groups": -1}, ValueError, r"expected groups to be .*, got -1"),
        ({"groups": 1.0}, TypeError, r"expected groups to be .*, got float"),
        ({"groups": (1, 1)}, TypeError, r"expected groups to be .*, got tuple"),
        ({"stride": 0}, ValueError, r"expected stride to be a whole number from 1 to \d+, or 2 of them, got 0"),
        ({"stride": -2}, ValueError, r"expected stride to be .*, got -2"),
        ({"stride": (1, 0)}, ValueError, r"expected stride to be .*, got 0"),
        ({"stride": (1, 1, 1)}, ValueError, r"expected stride to be .*, got \(1, 1, 1\)"),
        ({"stride": ()}, ValueError, r"expected stride to be .*, got \(\)"),
        ({"stride": 1.5}, TypeError, r"expected stride to be .*, got float"),
        ({"stride": True}, TypeError, r"expected stride to be .*, got bool"),
        ({"stride": "2"}, TypeError, r"expected stride to be .*, got str"),
        ({"stride": 2**40}, ValueError, r"expected stride to be .*, got \d+"),
        ({"dilation": 0}, ValueError, r"expected dilation to be .*, got 0"),
        ({"dilation": (1, -1)}, ValueError, r"expected dilation to be .*, got -1"),
        ({"dilation": None}, TypeError, r"expected dilation to be .*, got None"),
        ({"dilation": 3}, ValueError, r"expected a kernel no larger than the padded input, 5 .* got 7"),
        ({"padding": -1}, ValueError, r"expected padding to be a whole number from 0 to \d+, or 2 of them, got -1"),
        ({"padding": (0, 0, 0)}, ValueError, r"expected padding to be .*, got \(0, 0, 0\)"),
        ({"padding": 2**70}, ValueError, r"expected padding to be .*, got \d+"),
        ({"padding": "some"}, ValueError, r"expected padding to be 'valid', 'same' or 'full', got 'some'"),
        ({"padding": None}, TypeError, r"expected padding to be .*, got None"),
        ({"padding": "same", "stride": 2}, ValueError, r"expected stride 1 with padding 'same', got \(2, 2\)"),
        ({"padding_mode": "wrap"}, ValueError, r"expected padding_mode to be 'zeros', .* got 'wrap'"),
        ({"padding_mode": None}, TypeError, r"expected padding_mode to be 'zeros', .* got None"),
        ({"padding_mode": "reflect", "padding": 5}, ValueError, r"expected padding below the size .*, 5, got 5"),
        ({"activation": "gelu"}, ValueError, r"expected activation to be 'relu', .* got 'gelu'"),
        ({"activation": 1}, TypeError, r"expected activation to be 'relu', .* got int"),
        ({"algorithm": "magic"}, ValueError, r"expected algorithm to be 'auto', .* got 'magic'"),
        ({"algorithm": None}, TypeError, r"expected algorithm to be 'auto', .* got None"),
        ({"algorithm": "winograd", "stride": 2}, ValueError, r"expected a kernel of \(3, 3\), stride 1 and dilation 1"),
        (
            {"algorithm": "winograd", "dilation": 2, "padding": 2},
            ValueError,
            r"expected a kernel of \(3, 3\), stride 1",
        ),
        ({"bias": np.ones(5)}, ValueError, r"expected bias of shape \(6,\), got \(5,\)"),
        ({"bias": np.ones((6, 1))}, ValueError, r"expected bias of shape \(6,\), got \(6, 1\)"),
        ({"bias": 1.0}, ValueError, r"expected bias of shape \(6,\), got \(\)"),
    ],
)
def test_options_that_are_refused(level, options, error, message):
    check_refusal((image, filters), options, error, message)


@pytest.mark.parametrize(
    "arguments, options, error, message",
    [
        ((np.ones(3), filters), {}, ValueError, r"expected x of shape \(N, C, H, W\), got \(3,\)"),
        ((np.ones((4, 5, 6)), filters), {}, ValueError, r"expected x of shape \(N, C, H, W\), got \(4, 5, 6\)"),
        ((1.0, filters), {}, ValueError, r"expected x of shape \(N, C, H, W\), got \(\)"),
        ((image, filters[0]), {}, ValueError, r"expected w of shape \(Cout, Cin / groups, k, k\) .* got \(4, 3, 3\)"),
        ((image, filters[:, :, :0]), {}, ValueError, r"expected w .* with k of at least 1, got \(6, 4, 0, 3\)"),
        ((image, filters[:, :3]), {}, ValueError, r"expected w with 4 channels a group like x, got 3"),
        ((image, filters[:, :1]), {"groups": 4}, ValueError, r"expected groups to divide the 6 channels of w, got 4"),
        ((image, np.ones((6, 4, 6, 3))), {}, ValueError, r"expected a kernel no larger than .*, 5 .* got 6"),
        ((image[:, :, :0], filters), {}, ValueError, r"expected a kernel no larger than .*, 0 .* got 3"),
        (
            (image[:, :, :0], filters),
            {"padding_mode": "circular", "padding": 2},
            ValueError,
            r"expected x with elements to pad with, got size 0",
        ),
        ((image, filters[..., :2]), {"algorithm": "winograd"}, ValueError, r"expected a kernel of .* got \(3, 2\)"),
        ((None, filters), {}, TypeError, r"expected x to be an array, got None"),
        ((image, None), {}, TypeError, r"expected w to be an array, got None"),
    ],
)
def test_arrays_that_are_refused(level, arguments, options, error, message):
    check_refusal(arguments, options, error, message)


def check_refusal(arguments, options, error, message):
    out = np.full((2, 6, 3, 4), 7.5)
    for more in ({}, {"out": out}):
        with pytest.raises(error, match=r"^\[conv\.conv2d\] " + message):
            conv.conv2d(*arguments, **options, **more)
    np.testing.assert_array_equal(out, 7.5)


def test_what_is_refused_in_other_ranks(level):
    for rank in (1, 3):
        x, w = np.ones((1, 1, *(3, 3, 3)[:rank])), np.ones((1, 1, *(3, 3, 3)[:rank]))
        where = rf"^\[conv\.conv{rank}d\] "
        with pytest.raises(ValueError, match=where + r"expected x of shape \(N, C, (L|D, H, W)\), got \(1, 1, 3, 3\)"):
            FORWARD[rank](image[:1, :1, :3, :3], w)
        with pytest.raises(ValueError, match=where + r"expected a kernel of \(3, 3\)"):
            FORWARD[rank](x, w, algorithm="winograd")
        with pytest.raises(ValueError, match=where + rf"expected stride to be .* {rank} of them, got \(1, 1\)"):
            FORWARD[rank](x, w, stride=(1, 1))


def test_out_is_checked(level):
    for out, error, message in [
        (np.zeros((2, 6, 3, 3)), ValueError, r"expected out of shape \(2, 6, 3, 4\), got \(2, 6, 3, 3\)"),
        (np.zeros((2, 6, 3, 4), np.float32), TypeError, r"expected out of dtype float64, got float32"),
        ([], TypeError, r"expected out to be a numpy\.ndarray, got list"),
        (np.broadcast_to(0.0, (2, 6, 3, 4)), ValueError, r"expected out to be writable"),
    ]:
        with pytest.raises(error, match=r"^\[conv\.conv2d\] " + message):
            conv.conv2d(image, filters, out=out)
    field = np.ones((2, 6, 5, 6))
    with pytest.raises(ValueError, match=r"^\[conv\.conv2d\] expected out to overlap no input"):
        conv.conv2d(field[:, :4], filters, out=field[:, :, :3, :4])
    np.testing.assert_array_equal(field, 1)


# ---- names ----


def test_every_public_function_is_everywhere():
    from fastdl.reference import conv as reference

    for name in conv.__all__:
        if name != "PreparedConv":
            assert getattr(conv, name).__doc__.count("Examples") == 1, name
        if name not in ("PreparedConv", "prepare"):
            assert callable(getattr(reference, name)), name


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_the_reference_runs_on_every_library(library, dtype, rng):
    from fastdl.reference import conv as reference

    xp = pytest.importorskip(library)
    for case in cases.CASES[::3]:
        x, w, bias, options = cases.make(case, rng, dtype, lambda shape: integers(rng, shape, dtype))
        rank = x.ndim - 2
        dilation = cases.per_axis(options.get("dilation", 1), rank)
        stride = cases.per_axis(options.get("stride", 1), rank)
        lower, upper = zip(*cases.margins(options.get("padding", 0), w.shape[2:], dilation), strict=True)
        arrays = [None if array is None else xp.asarray(array) for array in (x, w, bias)]
        for mode in ("zeros", "circular", "replicate"):
            expected = cases.conv_expected(x, w, bias, padding_mode=mode, activation="leaky_relu", **options)
            y = getattr(reference, f"conv{rank}d")(
                *arrays, stride, lower, upper, dilation, options.get("groups", 1), mode, "leaky_relu", "auto"
            )
            assert type(y) is type(arrays[0]) and y.dtype == arrays[0].dtype
            eps = np.finfo(dtype).eps
            np.testing.assert_allclose(np.from_dlpack(y), expected.astype(float), rtol=4 * eps)


def close(dtype):
    """Allow for sums of some hundred products in another order, or by another algorithm."""
    tolerance = 800 * float(np.finfo(dtype).eps)
    return {"rtol": tolerance, "atol": tolerance}


def test_one_row_of_outputs_is_made_of_the_right_rows(level, dtype, rng):
    """1 x 1 filters see an image as one row of pixels only if that is what it is."""
    x = rng.standard_normal((1, 20, 3, 512)).astype(dtype)
    w = rng.standard_normal((20, 24, 1, 1)).astype(dtype)
    found = fastdl.conv.conv_transpose2d(x, w, padding=(1, 0))
    expected = np.einsum("nchw,co->nohw", wide(x[:, :, 1:2]), wide(w[:, :, 0, 0]))
    assert np.allclose(found, expected.astype(dtype), **close(dtype))
    beside = fastdl.conv.conv2d(x[:, :, :1], w.transpose(1, 0, 2, 3), stride=(3, 1), padding=(1, 0))
    assert np.array_equal(beside, np.zeros((1, 24, 1, 512)))


def test_windows_far_larger_than_the_image(level, dtype, rng):
    x, w = rng.standard_normal((1, 3, 8, 9)).astype(dtype), rng.standard_normal((8, 3, 3, 3)).astype(dtype)
    far = fastdl.conv.conv2d(x, w, dilation=600, padding=600)
    assert np.allclose(far, fastdl.conv.conv2d(x, w[:, :, 1:2, 1:2]), **close(dtype))
    signal, filters = rng.standard_normal((1, 2, 4)).astype(dtype), rng.standard_normal((2, 1, 3)).astype(dtype)
    once = fastdl.conv.conv1d(signal, filters, groups=2, stride=2**31 - 1)
    assert np.allclose(once, fastdl.conv.conv1d(signal[:, :, :3], filters, groups=2), **close(dtype))
    assert np.allclose(fastdl.conv.avg_pool1d(signal, 4), signal.mean(axis=2, keepdims=True), **close(dtype))


def test_prepared_by_an_empty_batch(level, dtype, rng):
    x, w = rng.standard_normal((2, 32, 8, 8)).astype(dtype), rng.standard_normal((32, 32, 3, 3)).astype(dtype)
    prepared = fastdl.conv.prepare(w, padding=1)
    assert prepared(x[:0]).shape == (0, 32, 8, 8)
    assert np.allclose(prepared(x), fastdl.conv.conv2d(x, w, padding=1), **close(dtype))


def test_auto_takes_transforms_for_large_filters(native_level, rng):
    x, w = rng.standard_normal((2, 16, 60, 60)), rng.standard_normal((16, 16, 31, 31))
    options = {"padding": 15, "stride": (1, 2)}
    exact = conv.conv2d(wide(x[:1].astype("f4")), wide(w.astype("f4")), algorithm="direct", **options)
    for dtype in ("float32", "float64"):
        images, filters = x.astype(dtype), w.astype(dtype)
        found = conv.conv2d(images, filters, **options)
        np.testing.assert_array_equal(found, conv.conv2d(images, filters, algorithm="fft", **options))
        direct = conv.conv2d(images, filters, algorithm="direct", **options)
        assert not np.array_equal(found, direct)
        assert np.abs(found - direct).max() <= 60 * np.finfo(dtype).eps * np.sqrt((direct**2).mean())
        if dtype == "float32":
            errors = [np.sqrt(((result[:1] - exact) ** 2).mean()) for result in (found, direct)]
            assert errors[0] <= 4 * errors[1]


@pytest.mark.parametrize("activation", [None, "relu", "sigmoid"])
def test_what_is_not_finite_stays_in_its_windows_where_auto_would_take_transforms(native_level, rng, activation):
    x, w = rng.standard_normal((2, 16, 60, 60), dtype="f4"), rng.standard_normal((16, 16, 31, 31), dtype="f4")
    options = {"padding": 15, "activation": activation}
    for poison in (np.nan, np.inf, -np.inf):
        x[1, 3, 2, 5] = poison
        expected = conv.conv2d(x, w, algorithm="direct", **options)
        np.testing.assert_array_equal(conv.conv2d(x, w, **options), expected)
        assert np.isfinite(expected[0]).all()
