"""Convolution and correlation of signals: by loops, by matrices, by transforms, and as SciPy has them."""

import itertools
import math

import numpy as np
import pytest

import fastdl
from cases import integers, odd_layouts, wide
from fastdl import conv
from fastdl.reference import conv as reference

MODES = ("full", "same", "valid", "circular")
METHODS = ("auto", "direct", "fft", "overlap_add")

SHAPES = (
    ((1,), (1,)),
    ((9,), (4,)),
    ((4,), (9,)),
    ((16,), (16,)),
    ((33,), (7,)),
    ((8,), (31,)),
    ((5, 7), (3, 2)),
    ((4, 9), (6, 9)),
    ((1, 8), (3, 1)),
    ((4, 5, 6), (2, 3, 1)),
    ((3, 2, 4, 2), (2, 2, 1, 3)),
)


def fits(f, h):
    return all(n >= m for n, m in zip(f, h, strict=True)) or all(n <= m for n, m in zip(f, h, strict=True))


def expected(f, h, mode, turned=False):
    """Every product of two elements, put where it belongs; turned for the correlation."""
    f, h = wide(f), wide(h)
    if mode == "circular":
        total = np.zeros(f.shape, f.dtype)
        for u in np.ndindex(*h.shape):
            shift = tuple(-i if turned else i for i in u)
            total += h[u] * np.roll(f, shift, tuple(range(f.ndim)))
        return total
    total = np.zeros(tuple(n + m - 1 for n, m in zip(f.shape, h.shape, strict=True)), f.dtype)
    for t in np.ndindex(*f.shape):
        for u in np.ndindex(*h.shape):
            place = tuple(i + (m - 1 - j if turned else j) for i, j, m in zip(t, u, h.shape, strict=True))
            total[place] += f[t] * h[u]
    if mode == "full":
        return total
    size = f.shape if mode == "same" else tuple(abs(n - m) + 1 for n, m in zip(f.shape, h.shape, strict=True))
    starts = [(n - wanted) // 2 for n, wanted in zip(total.shape, size, strict=True)]
    return total[tuple(slice(start, start + wanted) for start, wanted in zip(starts, size, strict=True))]


def limit(f, h, dtype, method="fft"):
    """A sum of products is off by as many roundings as it has terms; a transform by log2 of its size, of the norms."""
    eps, terms = float(np.finfo(dtype).eps), min(f.size, h.size)
    norms = float(np.sqrt(np.square(wide(f)).sum() * np.square(wide(h)).sum()))
    if method == "direct":
        return (terms + 1) * eps * norms
    points = math.prod(4 * (n + m) for n, m in zip(f.shape, h.shape, strict=True))
    # In pieces, a result is a sum of two at most along each axis; folding adds up more of them.
    folds = math.prod(2 + -(-m // n) for n, m in zip(f.shape, h.shape, strict=True))
    return (terms + 1 + 21 * math.log2(points) + 8) * eps * norms * folds


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_by_loops(level, dtype, rng, name, shapes, mode):
    f, h = (integers(rng, shape, dtype) for shape in shapes)
    function = getattr(conv, name)
    if mode == "valid" and not fits(*shapes):
        with pytest.raises(ValueError, match=rf"^\[conv\.{name}\] expected one array to fit in the other with 'valid'"):
            function(f, h, mode)
        return
    wanted = expected(f, h, mode, turned=name == "correlate")
    for method in METHODS:
        found = function(f, h, mode, method)
        assert found.dtype == dtype and found.shape == wanted.shape
        if method == "direct":
            np.testing.assert_array_equal(found, wanted)
        else:
            assert np.all(np.abs(found - wanted) <= limit(f, h, dtype)), method


@pytest.mark.parametrize("mode", MODES[:3])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_like_scipy(level, rng, name, mode):
    signal = pytest.importorskip("scipy.signal")
    for _ in range(40):
        axes = rng.integers(1, 4)
        f, h = (rng.standard_normal(tuple(rng.integers(1, 9, axes))) for _ in range(2))
        if mode == "valid" and not fits(f.shape, h.shape):
            continue
        theirs = getattr(signal, name)(f, h, mode, method="direct")
        found = getattr(conv, name)(f, h, mode)
        assert found.shape == theirs.shape, (f.shape, h.shape)
        assert np.all(np.abs(found - theirs) <= 2 * limit(f, h, f.dtype)), (f.shape, h.shape)


@pytest.mark.parametrize(
    "shapes", [((10_000,), (100,)), ((3000,), (2900,)), ((120, 70), (90, 60)), ((7,), (5000,))], ids=str
)
def test_large_ones_by_transforms(level, dtype, rng, shapes):
    """The convolution theorem, in extended precision only as far as NumPy's transforms go."""
    f, h = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    size = tuple(n + m - 1 for n, m in zip(f.shape, h.shape, strict=True))
    axes = tuple(range(f.ndim))
    product = np.fft.rfftn(f.astype(float), size, axes) * np.fft.rfftn(h.astype(float), size, axes)
    wanted = np.fft.irfftn(product, size, axes)
    for method in ("auto", "fft", "overlap_add"):
        found = conv.convolve(f, h, method=method)
        assert found.dtype == dtype
        assert np.all(np.abs(found - wanted) <= 2 * limit(f, h, dtype)), method
        found = conv.correlate(f, np.flip(h), method=method)
        assert np.all(np.abs(found - wanted) <= 2 * limit(f, h, dtype)), method


def test_commutes_and_associates(level, dtype, rng):
    for shapes in SHAPES:
        f, h = (integers(rng, shape, dtype, 3) for shape in shapes)
        g = integers(rng, (2,) * f.ndim, dtype, 3)
        np.testing.assert_array_equal(conv.convolve(f, h, method="direct"), conv.convolve(h, f, method="direct"))
        first = conv.convolve(conv.convolve(f, h, method="direct"), g, method="direct")
        second = conv.convolve(f, conv.convolve(h, g, method="direct"), method="direct")
        np.testing.assert_array_equal(first, second)


def test_impulses_shift(level, dtype, rng):
    f = integers(rng, (6, 7), dtype)
    for at in itertools.product(range(3), range(4)):
        impulse = np.zeros((3, 4), dtype)
        impulse[at] = 1
        wanted = np.zeros((8, 10))
        wanted[at[0] : at[0] + 6, at[1] : at[1] + 7] = f
        np.testing.assert_array_equal(conv.convolve(f, impulse, method="direct"), wanted)
        np.testing.assert_array_equal(conv.convolve(f, impulse, "circular", "direct"), np.roll(f, at, (0, 1)))
        np.testing.assert_array_equal(
            conv.correlate(f, impulse, "circular", "direct"), np.roll(f, (-at[0], -at[1]), (0, 1))
        )


def test_correlation_is_the_adjoint_of_convolution(level, dtype, rng):
    for n, m in [(9, 4), (5, 5), (4, 11)]:
        f, h, g = integers(rng, (n,), dtype), integers(rng, (m,), dtype), integers(rng, (n + m - 1,), dtype)
        back = conv.correlate(g, h, "valid", "direct") if n + m - 1 >= m else None
        assert np.vdot(conv.convolve(f, h, method="direct"), g) == np.vdot(f, back)
        u = integers(rng, (n,), dtype)
        circular = conv.convolve(f, h, "circular", "direct")
        assert np.vdot(circular, u) == np.vdot(f, conv.correlate(u, h, "circular", "direct"))


def test_networks_and_signals_agree(level, dtype, rng):
    """conv2d is the valid correlation, and in full the correlation with all shifts."""
    x, w = integers(rng, (9, 8), dtype), integers(rng, (3, 4), dtype)
    for padding, mode in (("valid", "valid"), ("full", "full")):
        y = conv.conv2d(x[None, None], w[None, None], padding=padding, algorithm="direct")[0, 0]
        np.testing.assert_array_equal(y, conv.correlate(x, w, mode, "direct"))
    turned = np.flip(w).copy()
    y = conv.conv2d(x[None, None], turned[None, None], padding="full", algorithm="direct")[0, 0]
    np.testing.assert_array_equal(y, conv.convolve(x, w, method="direct"))


# ---- matrices ----


@pytest.mark.parametrize("n", [0, 1, 2, 7, 16, 33])
def test_circulant(level, dtype, rng, n):
    h = integers(rng, (n,), dtype)
    C = conv.circulant(h)
    assert C.dtype == dtype and C.shape == (n, n)
    for i, j in np.ndindex(n, n):
        assert C[i, j] == h[(i - j) % n]
    if n:
        f = integers(rng, (n,), dtype)
        np.testing.assert_array_equal(C @ f, conv.convolve(f, h, "circular", "direct"))
        np.testing.assert_array_equal(C.T @ f, conv.correlate(f, h, "circular", "direct"))


def test_the_dft_diagonalises_circulants(level, rng):
    h = rng.standard_normal(12)
    C = conv.circulant(h)
    F = np.fft.fft(np.eye(12))
    for matrix, values in ((C, np.fft.fft(h)), (C.T, np.fft.fft(h).conj())):
        np.testing.assert_allclose(F @ matrix @ np.linalg.inv(F), np.diag(values), rtol=0, atol=1e-12)


@pytest.mark.parametrize("m, n", [(1, 1), (3, 0), (3, 1), (4, 7), (9, 5), (1, 6)])
def test_toeplitz(level, dtype, rng, m, n):
    h = integers(rng, (m,), dtype)
    T = conv.toeplitz(h, n)
    assert T.dtype == dtype and T.shape == (n + m - 1, n)
    for i, j in np.ndindex(*T.shape):
        assert T[i, j] == (h[i - j] if 0 <= i - j < m else 0)
    if n:
        f = integers(rng, (n,), dtype)
        np.testing.assert_array_equal(T @ f, conv.convolve(f, h, method="direct"))
        g = integers(rng, (n + m - 1,), dtype)
        np.testing.assert_array_equal(T.T @ g, conv.correlate(g, h, "valid", "direct"))


def test_matrices_keep_what_is_not_finite_in_its_place(level, dtype):
    h = np.array([1, np.nan, np.inf], dtype)
    np.testing.assert_array_equal(np.isnan(conv.circulant(h)), [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    T = conv.toeplitz(h, 2)
    np.testing.assert_array_equal(T, [[1, 0], [np.nan, 1], [np.inf, np.nan], [0, np.inf]])


# ---- memory, threads, libraries ----


def test_every_layout(level, dtype, rng):
    f, h = integers(rng, (9, 12), dtype), integers(rng, (4, 3), dtype)
    wanted = expected(f, h, "full")
    before = f.tobytes(), h.tobytes()
    apart = np.full((18, 36), np.nan, dtype)
    apart[::2, ::3] = f
    for lying in (
        np.asfortranarray(f),
        f[::-1, ::-1].copy()[::-1, ::-1],
        apart[::2, ::3],
        *dict(odd_layouts(f)).values(),
    ):
        np.testing.assert_array_equal(conv.convolve(lying, h, method="direct"), wanted)
        np.testing.assert_array_equal(conv.convolve(h, lying, method="direct"), wanted)
        np.testing.assert_array_equal(conv.correlate(lying, np.flip(h), method="direct"), wanted)
        for method in ("fft", "overlap_add"):
            assert np.all(np.abs(conv.convolve(lying, h, method=method) - wanted) <= limit(f, h, dtype))
    assert (f.tobytes(), h.tobytes()) == before


def test_nan_stays_within_reach_of_the_other_signal(level, dtype, rng):
    f, h = integers(rng, (20,), dtype), np.ones(4, dtype)
    bad = f.copy()
    bad[9] = np.nan
    for mode, touched in (
        ("full", slice(9, 13)),
        ("same", slice(8, 12)),
        ("valid", slice(6, 10)),
        ("circular", slice(9, 13)),
    ):
        y, clean = conv.convolve(bad, h, mode, "direct"), conv.convolve(f, h, mode, "direct")
        assert np.all(np.isnan(y[touched]))
        np.testing.assert_array_equal(np.delete(y, touched), np.delete(clean, touched))


def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, rng, keep_threads):
    for shapes in (((5000,), (300,)), ((90, 80), (13, 11))):
        f, h = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
        for mode, method in itertools.product(MODES, METHODS):
            found = set()
            for count in (1, 2, 3):
                fastdl.set_num_threads(count)
                found.add(conv.convolve(f, h, mode, method).tobytes() + conv.correlate(f, h, mode, method).tobytes())
            assert len(found) == 1, (shapes, mode, method)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_libraries(level, dtype, rng, library):
    xp = pytest.importorskip(library)
    f, h = integers(rng, (9, 8), dtype), integers(rng, (3, 4), dtype)
    for name, mode, method in itertools.product(("convolve", "correlate"), MODES, METHODS):
        wanted = expected(f, h, mode, turned=name == "correlate")
        arguments = xp.asarray(f), xp.asarray(h)
        for found in (
            getattr(conv, name)(*arguments, mode, method),
            getattr(reference, name)(*arguments, mode, method),
        ):
            assert type(found) is type(arguments[0]) and found.dtype == arguments[0].dtype
            assert np.all(np.abs(np.from_dlpack(found) - wanted) <= limit(f, h, dtype))
    line = xp.asarray(f[0])
    for found, wanted in (
        (conv.circulant(line), conv.circulant(f[0])),
        (conv.toeplitz(line, 5), conv.toeplitz(f[0], 5)),
    ):
        assert type(found) is type(line)
        np.testing.assert_array_equal(np.from_dlpack(found), wanted)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((1.0, [1.0]), ValueError, r"expected f with at least one axis and no axis of size 0, got shape \(\)"),
        (([], [1.0]), ValueError, r"expected f with at least one axis and no axis of size 0, got shape \(0,\)"),
        (([1.0], np.ones((0,))), ValueError, r"expected h with at least one axis and no axis of size 0"),
        (([1.0], [[1.0]]), ValueError, r"expected h with 1 axes like f, got shape \(1, 1\)"),
        (([1.0], [1.0], "half"), ValueError, r"expected mode to be 'full', 'same', 'valid' or 'circular', got 'half'"),
        (([1.0], [1.0], 1), TypeError, r"expected mode to be 'full', .* got int"),
        (([1.0], [1.0], "full", "slow"), ValueError, r"expected method to be 'auto', .* or 'overlap_add', got 'slow'"),
        ((np.ones((2, 5)), np.ones((3, 4)), "valid"), ValueError, r"expected one array to fit in the other"),
        (([1j], [1.0]), TypeError, r"expected f of dtype float32, float64, integer or bool, got complex128"),
        ((None, [1.0]), TypeError, r"expected f to be an array, got None"),
        (([1.0], None), TypeError, r"expected h to be an array, got None"),
    ],
)
def test_what_is_refused(level, name, arguments, error, message):
    with pytest.raises(error, match=rf"^\[conv\.{name}\] " + message):
        getattr(conv, name)(*arguments)


def test_matrices_that_are_refused(level):
    with pytest.raises(ValueError, match=r"^\[conv\.circulant\] expected h of shape \(n,\), got \(2, 2\)"):
        conv.circulant(np.eye(2))
    for h in ([], np.eye(2)):
        with pytest.raises(ValueError, match=r"^\[conv\.toeplitz\] expected h of shape \(m,\) with m of at least 1"):
            conv.toeplitz(h, 3)
    with pytest.raises(ValueError, match=r"^\[conv\.toeplitz\] expected n to be a whole number from 0 to \d+, got -1"):
        conv.toeplitz([1.0], -1)
    with pytest.raises(TypeError, match=r"^\[conv\.toeplitz\] expected n to be .*, got float"):
        conv.toeplitz([1.0], 2.0)
