"""Gram matrices against exact arithmetic, a-priori error bounds and identities."""

import itertools

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from cases import integers, layouts, odd_layouts
from fastdl.reference import gram as reference


def bits(array):
    """The array as integers, so that comparing tells -0.0 from 0.0 and one NaN from another."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def assert_same_bits(first, second):
    assert first.dtype == second.dtype
    np.testing.assert_array_equal(bits(first), bits(second))


def test_linear_is_exact_on_whole_numbers_of_every_size(level, dtype, rng):
    for d in cases.SIZES:
        X = integers(rng, (max(cases.SIZES), d), dtype)
        Y = integers(rng, (max(cases.SIZES), d), dtype)
        expected = X.astype(int) @ Y.astype(int).T
        expected_alone = X.astype(int) @ X.astype(int).T
        for n in cases.SIZES:
            alone = fastdl.gram.linear(X[:n])
            assert alone.dtype == dtype
            np.testing.assert_array_equal(alone, expected_alone[:n, :n], err_msg=f"n={n} d={d}")
            for m in cases.SIZES:
                result = fastdl.gram.linear(X[:n], Y[:m])
                assert result.shape == (n, m)
                np.testing.assert_array_equal(result, expected[:n, :m], err_msg=f"n={n} m={m} d={d}")


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_linear_within_the_bound(level, dtype, rng, case):
    arguments = case.make(rng, dtype)
    result = fastdl.gram.linear(**arguments)
    assert type(result) is np.ndarray and result.dtype == dtype
    error = np.abs(result - case.expected(**arguments))
    assert np.all(error <= case.tolerance(**arguments))


@pytest.mark.parametrize("n, d", [*itertools.product((1, 9, 33, 64, 131), (1, 17, 523)), (300, 40)])
def test_alone_is_symmetric_to_the_bit(level, dtype, rng, n, d):
    X = rng.standard_normal((n, d)).astype(dtype)
    K = fastdl.gram.linear(X)
    assert_same_bits(K, K.T)
    strided = rng.standard_normal((d, 2 * n)).astype(dtype).T[::-2]
    K = fastdl.gram.linear(strided)
    assert_same_bits(K, K.T)


@pytest.mark.parametrize("n, d", [(33, 17), (131, 523), (300, 40)])
def test_alone_equals_both_to_the_bit(native_level, dtype, rng, n, d):
    X = rng.standard_normal((n, d)).astype(dtype)
    alone = fastdl.gram.linear(X)
    assert_same_bits(alone, fastdl.gram.linear(X, X))
    assert_same_bits(alone, fastdl.gram.linear(X, X.copy()))


@pytest.mark.parametrize("beside", [0, 1])
def test_large_results_are_mirrored_wherever_they_begin(native_level, dtype, rng, beside):
    # From 16 MB on whole cache lines are stored past the caches, if rows are whole lines, from where they begin.
    n, line = 2064, 64
    X = rng.standard_normal((n, 9)).astype(dtype)
    expected = fastdl.gram.linear(X, X.copy())
    room = np.empty(n * (n + beside) * dtype.itemsize + 2 * line, np.uint8)
    first = -room.ctypes.data % line
    for offset in (0, dtype.itemsize, 16, 32, 48):
        out = np.ndarray((n, n + beside), dtype, room, first + offset)
        out[...] = np.nan
        assert_same_bits(fastdl.gram.linear(X, out=out[:, :n]), expected)
        assert np.isnan(out[:, n:]).all()


def test_large_results_begin_at_a_cache_line(native, dtype, rng):
    for n in (128, 131, 1000):
        results = [fastdl.gram.linear(rng.standard_normal((n, 3)).astype(dtype)) for _ in range(4)]
        assert all(result.flags.carray and result.ctypes.data % 64 == 0 for result in results)


def test_transposed_when_the_arguments_are_swapped(level, dtype, rng):
    X = rng.standard_normal((37, 101)).astype(dtype)
    Y = rng.standard_normal((53, 101)).astype(dtype)
    tolerance = 2 * cases.linear_tolerance(X, Y)
    assert np.all(np.abs(fastdl.gram.linear(X, Y) - fastdl.gram.linear(Y, X).T) <= tolerance)


def test_every_layout_of_the_inputs(level, dtype, rng, tmp_path):
    X, Y = integers(rng, (35, 19), dtype), integers(rng, (50, 19), dtype)
    expected, expected_alone = fastdl.gram.linear(X, Y), fastdl.gram.linear(X)
    np.testing.assert_array_equal(expected, X.astype(int) @ Y.astype(int).T)
    mapped = np.memmap(tmp_path / "matrix", dtype=dtype, mode="w+", shape=Y.shape)
    mapped[...] = Y
    first = [*layouts(X), *odd_layouts(X)]
    second = [*layouts(Y), *odd_layouts(Y), ("memmap", mapped)]
    for name, x in first:
        np.testing.assert_array_equal(fastdl.gram.linear(x), expected_alone, err_msg=name)
        for other, y in second:
            result = fastdl.gram.linear(x, y)
            assert type(result) is np.ndarray and result.dtype == dtype
            np.testing.assert_array_equal(result, expected, err_msg=f"X {name}, Y {other}")


def test_strides_that_lead_nowhere_do_not_matter(level, dtype):
    """NumPy gives an axis of one element, or an array of none, any stride at all."""
    strided = np.lib.stride_tricks.as_strided
    memory = np.full(8, 3, dtype)
    for strides in [(1, 3), (-7, 0), (0, 0)]:
        one = strided(memory, (1, 1), strides)
        np.testing.assert_array_equal(fastdl.gram.linear(one, one.copy()), 9)
        assert fastdl.gram.linear(strided(memory, (0, 5), strides)).shape == (0, 0)
        np.testing.assert_array_equal(fastdl.gram.linear(strided(memory, (5, 0), strides)), 0)
        out = strided(np.zeros(8, dtype), (1, 1), strides)
        assert fastdl.gram.linear(one, out=out)[0, 0] == 9
    for shape in [(0, 3), (5, 0)]:  # an empty array may lie at any address
        empty = np.ndarray(shape, dtype, buffer=np.zeros(200, np.uint8), offset=1)
        np.testing.assert_array_equal(fastdl.gram.linear(empty), np.zeros((shape[0], shape[0])))


def test_layout_does_not_change_the_bits(native_level, dtype, rng):
    X, Y = rng.standard_normal((45, 301)).astype(dtype), rng.standard_normal((67, 301)).astype(dtype)
    expected = fastdl.gram.linear(X, Y)
    for (name, x), (other, y) in itertools.product(layouts(X), layouts(Y)):
        np.testing.assert_array_equal(bits(fastdl.gram.linear(x, y)), bits(expected), err_msg=f"X {name}, Y {other}")


def test_broadcast_inputs(level, dtype, rng):
    row, column = integers(rng, (1, 21), dtype), integers(rng, (18, 1), dtype)
    for x in (
        np.broadcast_to(row, (18, 21)),
        np.broadcast_to(column, (18, 21)),
        np.broadcast_to(dtype.type(3), (18, 21)),
    ):
        Y = integers(rng, (40, 21), dtype)
        np.testing.assert_array_equal(fastdl.gram.linear(x, Y), x.astype(int) @ Y.astype(int).T)
        np.testing.assert_array_equal(fastdl.gram.linear(Y, x), Y.astype(int) @ x.astype(int).T)
        np.testing.assert_array_equal(fastdl.gram.linear(x), x.astype(int) @ x.astype(int).T)


def outs(shape, dtype):
    """Outputs lying in every way within a larger array, with the memory around and between their elements."""
    n, m = shape
    for name, cut, transpose in [
        ("block", np.s_[3 : 3 + n, 5 : 5 + m], False),
        ("strided", np.s_[1 : 1 + 2 * n : 2, 2 : 2 + 3 * m : 3], False),
        ("reversed", np.s_[n:0:-1, m + 3 : 3 : -1], False),
        ("fortran", np.s_[3 : 3 + m, 5 : 5 + n], True),
        ("fortran strided", np.s_[1 : 1 + 2 * m : 2, 2 : 2 + 3 * n : 3], True),
    ]:
        larger = np.full((2 * max(n, m) + 8, 3 * max(n, m) + 8), 1234.5, dtype)
        out = larger[cut].T if transpose else larger[cut]
        assert out.shape == shape
        yield name, larger, larger[cut], out


@pytest.mark.parametrize("n, m, d", [(1, 1, 3), (9, 31, 17), (64, 33, 8), (70, 131, 1030), (5, 4, 0)])
def test_out_of_every_layout_and_nothing_else_is_written(level, dtype, rng, n, m, d):
    X, Y = integers(rng, (n, d), dtype), integers(rng, (m, d), dtype)
    for name, larger, part, out in outs((n, m), dtype):
        assert fastdl.gram.linear(X, Y, out=out) is out
        np.testing.assert_array_equal(out, X.astype(int) @ Y.astype(int).T, err_msg=name)
        part[...] = 1234.5
        assert np.all(larger == 1234.5), name
    for name, larger, part, out in outs((n, n), dtype):
        assert fastdl.gram.linear(X, out=out) is out
        np.testing.assert_array_equal(out, X.astype(int) @ X.astype(int).T, err_msg=name)
        part[...] = 1234.5
        assert np.all(larger == 1234.5), name


def test_out_a_kernel_cannot_write_as_it_lies(level, dtype, rng):
    X = integers(rng, (11, 6), dtype)
    for name, out in odd_layouts(np.zeros((11, 11), dtype)):
        if out.dtype.isnative:
            assert fastdl.gram.linear(X, out=out) is out
            np.testing.assert_array_equal(out, X.astype(int) @ X.astype(int).T, err_msg=name)


def test_old_contents_of_out_do_not_matter(level, dtype, rng):
    X = integers(rng, (40, 0), dtype)
    np.testing.assert_array_equal(fastdl.gram.linear(X, out=np.full((40, 40), np.nan, dtype)), 0)
    X = integers(rng, (40, 600), dtype)
    expected = X.astype(int) @ X.astype(int).T
    np.testing.assert_array_equal(fastdl.gram.linear(X, out=np.full((40, 40), np.nan, dtype)), expected)


def test_inputs_are_never_written(level, dtype, rng):
    X, Y = rng.standard_normal((45, 77)).astype(dtype), rng.standard_normal((32, 77)).astype(dtype)
    before = X.tobytes(), Y.tobytes()
    fastdl.gram.linear(X, Y)
    fastdl.gram.linear(X)
    fastdl.gram.linear(X[::2, ::-1], Y[:, ::-1])
    assert (X.tobytes(), Y.tobytes()) == before


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_stay_in_their_row_and_column(level, dtype, rng, poison):
    for n, m, d in [(35, 50, 19), (17, 9, 8), (66, 130, 300)]:
        X, Y = integers(rng, (n, d), dtype), integers(rng, (m, d), dtype)
        i, j = n // 2, m - 1
        clean, clean_alone = fastdl.gram.linear(X, Y), fastdl.gram.linear(X)
        bad = X.copy()
        bad[i, d - 1] = poison
        K = fastdl.gram.linear(bad, Y)
        with np.errstate(invalid="ignore"):
            touched = poison * Y[:, d - 1]
        np.testing.assert_array_equal(np.isnan(K[i]), np.isnan(touched))
        np.testing.assert_array_equal(np.isinf(K[i]), np.isinf(touched))
        np.testing.assert_array_equal(np.delete(K, i, 0), np.delete(clean, i, 0))
        K = fastdl.gram.linear(bad)
        assert not np.isfinite(K[i, i])
        np.testing.assert_array_equal(
            np.delete(np.delete(K, i, 0), i, 1), np.delete(np.delete(clean_alone, i, 0), i, 1)
        )
        bad = Y.copy()
        bad[j, 0] = poison
        K = fastdl.gram.linear(X, bad)
        np.testing.assert_array_equal(np.delete(K, j, 1), np.delete(clean, j, 1))
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(np.isfinite(K[:, j]), np.isfinite(X[:, 0] * poison))


def test_padding_is_not_read(native_level, dtype, rng):
    """What lies beside the elements must not reach the result, NaN above all."""
    for n, m, d in [(9, 17, 5), (33, 31, 65)]:
        field = np.full((2, 64, 128), np.nan, dtype)
        X, Y = field[0, 1 : 1 + n, 3 : 3 + d], field[1, 1 : 1 + m, 3 : 3 + d]
        X[...], Y[...] = integers(rng, (n, d), dtype), integers(rng, (m, d), dtype)
        np.testing.assert_array_equal(fastdl.gram.linear(X, Y), X.astype(int) @ Y.astype(int).T)


def test_splitting_the_rows_does_not_change_the_bits(native_level, dtype, rng):
    X, Y = rng.standard_normal((131, 523)).astype(dtype), rng.standard_normal((97, 523)).astype(dtype)
    whole, alone = fastdl.gram.linear(X, Y), fastdl.gram.linear(X)
    for step in (1, 3, 8, 16, 33, 96):
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            assert_same_bits(fastdl.gram.linear(X[part], Y), whole[part])
            assert_same_bits(fastdl.gram.linear(X[part]), alone[part, part])
        for start in range(0, len(Y), step):
            part = slice(start, start + step)
            assert_same_bits(fastdl.gram.linear(X, Y[part]), whole[:, part])


def test_linear_in_each_argument(level, dtype, rng):
    A, B, Y = (integers(rng, (n, 40), dtype) for n in (23, 23, 31))
    linear = fastdl.gram.linear
    np.testing.assert_array_equal(linear(3 * A - 2 * B, Y), 3 * linear(A, Y) - 2 * linear(B, Y))
    np.testing.assert_array_equal(linear(Y, 3 * A - 2 * B), 3 * linear(Y, A) - 2 * linear(Y, B))


def test_adjoint(level, dtype, rng):
    """⟨K(X, Y) v, u⟩ = ⟨Yᵀ v, Xᵀ u⟩."""
    X, Y = integers(rng, (23, 40), dtype), integers(rng, (31, 40), dtype)
    u, v = integers(rng, (23,), dtype), integers(rng, (31,), dtype)
    K = fastdl.gram.linear(X, Y).astype(int)
    assert K @ v.astype(int) @ u.astype(int) == (Y.T.astype(int) @ v.astype(int)) @ (X.T.astype(int) @ u.astype(int))


def test_features_may_be_permuted_and_identity_gives_back(level, dtype, rng):
    X = integers(rng, (23, 40), dtype)
    order = rng.permutation(40)
    np.testing.assert_array_equal(fastdl.gram.linear(X[:, order]), fastdl.gram.linear(X))
    np.testing.assert_array_equal(fastdl.gram.linear(X, np.eye(40, dtype=dtype)), X)


def test_extreme_magnitudes(level, dtype):
    limits = np.finfo(dtype)
    assert fastdl.gram.linear(np.array([[limits.max]], dtype), np.array([[2]], dtype))[0, 0] == np.inf
    tiny = np.full((9, 3), limits.smallest_subnormal, dtype)
    one = np.ones((1, 3), dtype)
    np.testing.assert_array_equal(fastdl.gram.linear(tiny, one), 3 * tiny[:, :1])
    large = np.full((3, 5), limits.max / 8, dtype)
    np.testing.assert_array_equal(fastdl.gram.linear(large, np.ones((2, 5), dtype)), 5 * (limits.max / 8))


def test_rank_and_nonnegativity(level, dtype, rng):
    K = fastdl.gram.linear(integers(rng, (30, 4), dtype)).astype(float)
    assert np.linalg.matrix_rank(K) <= 4
    assert np.linalg.eigvalsh(K).min() >= -1e-9 * np.abs(K).max()


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_the_reference_runs_on_every_library(library, dtype, rng):
    xp = pytest.importorskip(library)
    host, other = integers(rng, (23, 40), dtype), integers(rng, (31, 40), dtype)
    X, Y = xp.asarray(host), xp.asarray(other)
    for result, expected in [
        (reference.linear(X, Y), host.astype(int) @ other.astype(int).T),
        (reference.linear(X), host.astype(int) @ host.astype(int).T),
    ]:
        assert type(result) is type(X) and result.dtype == X.dtype
        np.testing.assert_array_equal(np.from_dlpack(result), expected)
    wide = rng.standard_normal((131, 523)).astype(dtype)
    K = np.from_dlpack(reference.linear(xp.asarray(wide)))
    assert_same_bits(K, K.T)
