"""Pooling against loops over windows, and its gradients as adjoints."""

import itertools
import math

import numpy as np
import pytest

import fastdl
from cases import conv as cases
from cases import integers, odd_layouts, wide
from fastdl import conv
from fastdl.reference import conv as reference

MAX = {1: conv.max_pool1d, 2: conv.max_pool2d, 3: conv.max_pool3d}
AVG = {1: conv.avg_pool1d, 2: conv.avg_pool2d, 3: conv.avg_pool3d}
MAX_GRAD = {1: conv.max_pool1d_grad, 2: conv.max_pool2d_grad, 3: conv.max_pool3d_grad}
AVG_GRAD = {1: conv.avg_pool1d_grad, 2: conv.avg_pool2d_grad, 3: conv.avg_pool3d_grad}

# Shape of x, kernel, stride and padding.
CASES = (
    ((2, 3, 17), 2, None, 0),
    ((1, 1, 1), 1, None, 0),
    ((1, 2, 9), 3, 1, 1),
    ((2, 1, 33), 5, 3, 2),
    ((2, 3, 8, 8), 2, None, 0),
    ((1, 3, 9, 11), 2, None, 1),
    ((1, 17, 15, 16), 3, 2, 1),
    ((2, 4, 7, 9), 3, 1, 1),
    ((1, 2, 32, 31), (2, 3), (3, 1), (1, 0)),
    ((1, 2, 5, 6), (5, 6), None, 0),
    ((1, 1, 3, 40), (1, 7), (1, 4), (0, 3)),
    ((1, 2, 7, 7), 2, 3, 0),  # some elements are in no window
    ((1, 2, 5, 6, 7), 2, None, 1),
    ((2, 2, 4, 5, 9), (2, 3, 4), (1, 2, 3), (0, 1, 2)),
)


def label(case):
    return " ".join(str(part) for part in case)


every_case = pytest.mark.parametrize("case", CASES, ids=label)


def windows(shape, kernel, stride, padding):
    """For every window: its index, and the positions of its elements in x, in row-major order."""
    rank = len(shape) - 2
    kernel, padding = cases.per_axis(kernel, rank), cases.per_axis(padding, rank)
    stride = kernel if stride is None else cases.per_axis(stride, rank)
    size = tuple((n + 2 * p - k) // s + 1 for n, k, s, p in zip(shape[2:], kernel, stride, padding, strict=True))
    for place in np.ndindex(*size):
        ranges = [
            [i for i in range(s * at - p, s * at - p + k) if 0 <= i < n]
            for at, n, k, s, p in zip(place, shape[2:], kernel, stride, padding, strict=True)
        ]
        yield place, list(itertools.product(*ranges)), math.prod(kernel)


def result_size(case):
    return tuple(n + 1 for n in list(windows(*case))[-1][0])


def flat(position, shape):
    return int(np.ravel_multi_index(position, shape[2:]))


@every_case
def test_max_by_loops(level, dtype, rng, case):
    for x in (rng.standard_normal(case[0]).astype(dtype), integers(rng, case[0], dtype, 1)):  # the second has ties
        y, indices = MAX[x.ndim - 2](x, *case[1:], return_indices=True)
        assert y.dtype == dtype and indices.dtype == np.int64
        assert y.shape == indices.shape == (*case[0][:2], *result_size(case))
        for place, elements, _ in windows(*case):
            for plane in np.ndindex(*case[0][:2]):
                best = max(elements, key=lambda position, plane=plane: x[plane + position])  # the first of equals
                assert y[plane + place] == x[plane + best]
                assert indices[plane + place] == flat(best, case[0])
        np.testing.assert_array_equal(MAX[x.ndim - 2](x, *case[1:]), y)


@every_case
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_average_by_loops(level, dtype, rng, case, count_include_pad):
    x = rng.standard_normal(case[0]).astype(dtype)
    y = AVG[x.ndim - 2](x, *case[1:], count_include_pad)
    assert y.dtype == dtype and y.shape == (*case[0][:2], *result_size(case))
    for place, elements, full in windows(*case):
        values = np.stack([wide(x)[(..., *position)] for position in elements])
        count = full if count_include_pad else len(elements)
        error = np.abs(y[(..., *place)] - values.sum(axis=0) / count)
        assert np.all(error <= (len(elements) + 2) * np.finfo(dtype).eps * np.abs(values).sum(axis=0) / count)


@every_case
def test_gradient_of_the_maximum(level, dtype, rng, case):
    x = integers(rng, case[0], dtype)
    rank = x.ndim - 2
    y, indices = MAX[rank](x, *case[1:], return_indices=True)
    grad = integers(rng, y.shape, dtype)
    found = MAX_GRAD[rank](grad, indices, x.shape)
    assert found.dtype == dtype
    expected = np.zeros((*x.shape[:2], math.prod(x.shape[2:])))
    for at in np.ndindex(*grad.shape):
        expected[(*at[:2], indices[at])] += grad[at]
    np.testing.assert_array_equal(found, expected.reshape(x.shape))  # whole numbers: sums are exact in any order
    assert np.vdot(found, x) == np.vdot(grad, y)


@every_case
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_gradient_of_the_average(level, dtype, rng, case, count_include_pad):
    shape, *place = case
    rank = len(shape) - 2
    grad = rng.standard_normal((*shape[:2], *result_size(case))).astype(dtype)
    found = AVG_GRAD[rank](grad, shape, *place, count_include_pad)
    assert found.dtype == dtype
    expected, sizes = np.zeros(shape, wide(grad).dtype), np.zeros(shape)
    for at, elements, full in windows(*case):
        share = wide(grad)[(..., *at)] / (full if count_include_pad else len(elements))
        for position in elements:
            expected[(..., *position)] += share
            sizes[(..., *position)] += np.abs(share)
    overlap = math.prod(cases.per_axis(case[1], rank))
    assert np.all(np.abs(found - expected) <= (overlap + 2) * np.finfo(dtype).eps * sizes)
    x = rng.standard_normal(shape).astype(dtype)
    value = np.vdot(wide(AVG[rank](x, *place, count_include_pad)), wide(grad))
    limit = (3 * overlap + 6) * np.finfo(dtype).eps * float(np.vdot(np.abs(x), sizes))
    assert abs(np.vdot(wide(found), wide(x)) - value) <= limit


@every_case
def test_like_torch(level, rng, case):
    torch = pytest.importorskip("torch")
    shape, *place = case
    rank = len(shape) - 2
    x = torch.asarray(rng.standard_normal(shape)).requires_grad_()
    functional = torch.nn.functional
    y, indices = getattr(functional, f"max_pool{rank}d")(x, *place, return_indices=True)
    found, where = MAX[rank](x.detach(), *place, return_indices=True)
    assert type(found) is torch.Tensor and where.dtype == torch.int64
    assert torch.equal(found, y) and torch.equal(where, indices)
    grad = torch.asarray(rng.standard_normal(tuple(y.shape)))
    (expected,) = torch.autograd.grad(y, x, grad)
    np.testing.assert_allclose(MAX_GRAD[rank](grad, indices, x.shape), expected, rtol=0, atol=1e-14)
    for include in (True, False):
        y = getattr(functional, f"avg_pool{rank}d")(x, *place, count_include_pad=include)
        (expected,) = torch.autograd.grad(y, x, grad)
        np.testing.assert_allclose(AVG[rank](x.detach(), *place, include), y.detach(), rtol=0, atol=1e-14)
        np.testing.assert_allclose(AVG_GRAD[rank](grad, x.shape, *place, include), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("height", cases.SIZES)
def test_every_size(level, dtype, rng, height):
    for width, kernel, stride in itertools.product(cases.SIZES, (1, 2, 3), (1, 2)):
        if kernel > min(height, width) + 2 * (kernel // 2):
            continue
        x = integers(rng, (1, 2, height, width), dtype)
        padding = kernel // 2
        margin = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        for fill, function, reduce in ((-np.inf, conv.max_pool2d, np.max), (0, conv.avg_pool2d, np.mean)):
            view = np.lib.stride_tricks.sliding_window_view(
                np.pad(wide(x), margin, constant_values=fill), (kernel, kernel), (2, 3)
            )[:, :, ::stride, ::stride]
            expected = reduce(view, axis=(-2, -1))
            found = function(x, kernel, stride, padding)
            np.testing.assert_allclose(found, expected.astype(float), rtol=4 * np.finfo(dtype).eps)


def test_nan_wins_and_the_first_one(level, dtype):
    x = np.array([[[1, np.nan, 5, 2, 3, np.nan, np.nan, 4]]], dtype)
    y, indices = conv.max_pool1d(x, 4, return_indices=True)
    assert np.all(np.isnan(y))
    np.testing.assert_array_equal(indices, [[[1, 5]]])
    y, indices = conv.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(y, [[[np.nan, 5, np.nan, np.nan]]])
    np.testing.assert_array_equal(indices, [[[1, 2, 5, 6]]])
    for include in (True, False):
        y = conv.avg_pool1d(x, 2, count_include_pad=include)
        np.testing.assert_array_equal(y, [[[np.nan, 3.5, np.nan, np.nan]]])


def test_minus_infinity_and_the_padding(level, dtype):
    """The padding is less than any element, also than the least, and never the answer."""
    x = np.full((1, 1, 3, 3), -np.inf, dtype)
    y, indices = conv.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert np.all(y == -np.inf)
    np.testing.assert_array_equal(indices, [[[[0, 1], [3, 4]]]])
    y = conv.max_pool2d(np.full((1, 1, 3, 3), -5, dtype), 3, 2, 1)
    np.testing.assert_array_equal(y, -5)


def test_pooling_identities(level, dtype, rng):
    x = integers(rng, (2, 3, 12, 15), dtype)
    np.testing.assert_array_equal(conv.max_pool2d(x, 1), x)
    np.testing.assert_array_equal(conv.avg_pool2d(x, 1), x)
    np.testing.assert_array_equal(conv.max_pool2d(x, (12, 15))[..., 0, 0], x.max(axis=(2, 3)))
    np.testing.assert_array_equal(conv.max_pool2d(conv.max_pool2d(x, 2, 1), 2, 1), conv.max_pool2d(x, 3, 1))
    np.testing.assert_array_equal(conv.max_pool2d(x, 3, 2), conv.max_pool2d(x, 3, 1)[:, :, ::2, ::2])
    # An average is a depthwise convolution with equal weights.
    average = conv.conv2d(x, np.full((3, 1, 4, 4), 1 / 16, dtype), groups=3, stride=2, padding=2, algorithm="direct")
    np.testing.assert_array_equal(conv.avg_pool2d(x, 4, 2, 2), average)


def test_overlapping_windows_accumulate(level, dtype):
    grad, indices = np.arange(1, 5, dtype=dtype).reshape(1, 1, 4), np.full((1, 1, 4), 2)
    np.testing.assert_array_equal(conv.max_pool1d_grad(grad, indices, (1, 1, 5)), [[[0, 0, 10, 0, 0]]])


@every_case
def test_every_layout(level, dtype, rng, case):
    shape, *place = case
    rank = len(shape) - 2
    x = integers(rng, shape, dtype)
    before = x.tobytes()
    expected, indices = MAX[rank](x, *place, return_indices=True)
    average = AVG[rank](x, *place)
    for name, image in (*cases.layouts(x), *odd_layouts(x)):
        found, where = MAX[rank](image, *place, return_indices=True)
        np.testing.assert_array_equal(found, expected, err_msg=name)
        np.testing.assert_array_equal(where, indices, err_msg=name)
        np.testing.assert_array_equal(MAX[rank](image, *place), expected, err_msg=name)
        np.testing.assert_allclose(AVG[rank](image, *place), average, rtol=8 * np.finfo(dtype).eps, err_msg=name)
    assert x.tobytes() == before
    grad = integers(rng, expected.shape, dtype)
    for_max, for_average = MAX_GRAD[rank](grad, indices, shape), AVG_GRAD[rank](grad, shape, *place)
    eps = np.finfo(dtype).eps
    for name, slopes in cases.layouts(grad):
        np.testing.assert_array_equal(MAX_GRAD[rank](slopes, indices, shape), for_max, err_msg=name)
        shared = AVG_GRAD[rank](slopes, shape, *place)
        np.testing.assert_allclose(shared, for_average, rtol=0, atol=64 * eps * 8, err_msg=name)
    for lying in (indices.astype(np.int32), indices.astype(np.uint8) if indices.max() < 256 else indices):
        np.testing.assert_array_equal(MAX_GRAD[rank](grad, lying, shape), for_max)
    turned = np.asfortranarray(indices)
    turned.flags.writeable = False
    np.testing.assert_array_equal(MAX_GRAD[rank](grad, turned, shape), for_max)


def test_empty(level, dtype):
    for shape in ((0, 3, 5, 6), (2, 0, 5, 6)):
        x = np.ones(shape, dtype)
        y, indices = conv.max_pool2d(x, 2, return_indices=True)
        assert y.shape == indices.shape == conv.avg_pool2d(x, 2).shape == (*shape[:2], 2, 3)
        assert conv.max_pool2d_grad(y, indices, shape).shape == conv.avg_pool2d_grad(y, shape, 2).shape == shape
    none = np.ones((1, 1, 0), dtype)
    np.testing.assert_array_equal(conv.max_pool1d_grad(none, none.astype(int), (1, 1, 4)), np.zeros((1, 1, 4)))


def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, rng, keep_threads):
    x = rng.standard_normal((3, 5, 33, 31)).astype(dtype)
    found = set()
    for count in (1, 2, 3, 5):
        fastdl.set_num_threads(count)
        y, indices = conv.max_pool2d(x, 3, 2, 1, return_indices=True)
        parts = (
            y,
            indices,
            conv.avg_pool2d(x, 3, 2, 1),
            conv.max_pool2d_grad(y, indices, x.shape),
            conv.avg_pool2d_grad(y, x.shape, 3, 2, 1),
        )
        found.add(b"".join(part.tobytes() for part in parts))
    assert len(found) == 1


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_answers_in_the_library_it_was_asked_in(level, dtype, rng, library):
    xp = pytest.importorskip(library)
    host = integers(rng, (2, 3, 9, 8), dtype)
    x = xp.asarray(host)
    y, indices = conv.max_pool2d(x, 3, 2, 1, return_indices=True)
    expected, places = conv.max_pool2d(host, 3, 2, 1, return_indices=True)
    assert type(y) is type(indices) is type(x) and y.dtype == x.dtype and indices.dtype == xp.int64
    np.testing.assert_array_equal(np.from_dlpack(y), expected)
    np.testing.assert_array_equal(np.from_dlpack(indices), places)
    back = conv.max_pool2d_grad(y, indices, host.shape)
    assert type(back) is type(x)
    np.testing.assert_array_equal(np.from_dlpack(back), conv.max_pool2d_grad(expected, places, host.shape))
    average = conv.avg_pool2d(x, 2)
    assert type(average) is type(conv.avg_pool2d_grad(average, host.shape, 2)) is type(x)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_the_reference_runs_on_every_library(library, dtype, rng):
    xp = pytest.importorskip(library)
    for shape, kernel, stride, padding in CASES:
        rank = len(shape) - 2
        kernel = cases.per_axis(kernel, rank)
        place = (kernel, kernel if stride is None else cases.per_axis(stride, rank), cases.per_axis(padding, rank))
        host = integers(rng, shape, dtype)
        x = xp.asarray(host)
        y, indices = getattr(reference, f"max_pool{rank}d")(x, *place)
        average = getattr(reference, f"avg_pool{rank}d")(x, *place, False)
        back = getattr(reference, f"max_pool{rank}d_grad")(y, indices, shape)
        shared = getattr(reference, f"avg_pool{rank}d_grad")(y, *place, False, shape)
        for array in (y, average, back, shared):
            assert type(array) is type(x) and array.dtype == x.dtype
        assert np.vdot(np.from_dlpack(back), host) == np.vdot(np.from_dlpack(y), np.from_dlpack(y))
        values = np.vdot(np.from_dlpack(average).astype(float), np.from_dlpack(y))
        # Each of the averages and shares is rounded once, and no element is larger than 8.
        limit = 2 * np.finfo(dtype).eps * 8 * 8 * (math.prod(y.shape) + math.prod(shape))
        assert abs(np.vdot(np.from_dlpack(shared).astype(float), host) - values) <= limit


x, y = np.ones((2, 3, 5, 6)), np.ones((2, 3, 2, 3))
indices = np.zeros((2, 3, 2, 3), int)


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((x[0], 2), ValueError, r"expected x of shape \(N, C, H, W\), got \(3, 5, 6\)"),
        ((x[:, :, :0], 1), ValueError, r"expected x with positions, got shape \(2, 3, 0, 6\)"),
        ((x, 0), ValueError, r"expected kernel_size to be a whole number from 1 to \d+, or 2 of them, got 0"),
        ((x, (2, 2, 2)), ValueError, r"expected kernel_size to be .*, got \(2, 2, 2\)"),
        ((x, None), TypeError, r"expected kernel_size to be .*, got None"),
        ((x, 2, 0), ValueError, r"expected stride to be .*, got 0"),
        ((x, 2, -1), ValueError, r"expected stride to be .*, got -1"),
        ((x, 2, 1, 2), ValueError, r"expected padding of at most half the kernel, 1, got 2"),
        ((x, 2, 1, -1), ValueError, r"expected padding to be a whole number from 0"),
        ((x, 2, 1, "same"), TypeError, r"expected padding to be .*, got str"),
        ((x, 6), ValueError, r"expected a kernel no larger than the padded input, 5 along an axis, got 6"),
        ((x, 2, 1, 0, 1), TypeError, r"expected (return_indices|count_include_pad) to be True or False, got int"),
        ((x * 1j, 2), TypeError, r"expected x of dtype"),
        ((None, 2), TypeError, r"expected x to be an array, got None"),
    ],
)
def test_pooling_that_is_refused(level, name, arguments, error, message):
    with pytest.raises(error, match=rf"^\[conv\.{name}\] " + message):
        getattr(conv, name)(*arguments)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((y[0], indices, x.shape), ValueError, r"expected grad of 4 axes and shape \(2, 3, \.\.\.\) like input_size"),
        ((y, indices, (2, 4, 5, 6)), ValueError, r"expected grad of 4 axes and shape \(2, 4, \.\.\.\) like input_size"),
        ((y, indices, (2, 3, 5)), ValueError, r"expected input_size to be 4 whole numbers"),
        ((y, indices[:1], x.shape), ValueError, r"expected indices of shape \(2, 3, 2, 3\), got \(1, 3, 2, 3\)"),
        ((y, indices + 30, x.shape), ValueError, r"expected indices from 0 to 29, got 30"),
        ((y, indices - 1, x.shape), ValueError, r"expected indices from 0 to 29, got -1"),
        (
            (y, np.uint64(2**64 - 1) + indices.astype("u8"), x.shape),
            ValueError,
            r"expected indices from 0 to 29, got 1844",
        ),
        ((y, indices * 1.0, x.shape), TypeError, r"expected indices of an integer dtype, got float64"),
        ((y, indices > 0, x.shape), TypeError, r"expected indices of an integer dtype, got bool"),
        ((y, None, x.shape), TypeError, r"expected indices of an integer dtype, got object"),
        ((y, indices, (2, 3, 0, 6)), ValueError, r"expected indices from 0 to -1, got 0"),
    ],
)
def test_gradients_of_the_maximum_that_are_refused(level, arguments, error, message):
    with pytest.raises(error, match=r"^\[conv\.max_pool2d_grad\] " + message):
        conv.max_pool2d_grad(*arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((y, x.shape, 3), r"expected grad of shape \(2, 3, 1, 2\), got \(2, 3, 2, 3\)"),
        ((y[:1], x.shape, 2), r"expected grad of shape \(2, 3, 2, 3\), got \(1, 3, 2, 3\)"),
        ((y, (2, 3, 5), 2), r"expected input_size to be 4 whole numbers"),
        ((y, (2, 3, 0, 6), 2), r"expected input_size with positions, got shape \(2, 3, 0, 6\)"),
        ((y, x.shape, 7), r"expected a kernel no larger than the padded input"),
        ((y, x.shape, 2, 2, 2), r"expected padding of at most half the kernel"),
    ],
)
def test_gradients_of_the_average_that_are_refused(level, arguments, message):
    with pytest.raises(ValueError, match=r"^\[conv\.avg_pool2d_grad\] " + message):
        conv.avg_pool2d_grad(*arguments)
