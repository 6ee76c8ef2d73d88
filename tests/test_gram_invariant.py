"""Kernels summed over a group of permutations."""

from itertools import permutations

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from fastdl import _gram_invariant, gram
from fastdl._kernels import KERNELS
from fastdl.reference import gram as reference

ALL = pytest.mark.parametrize("name", tuple(KERNELS))


def cyclic(d):
    return np.array([np.roll(np.arange(d), -g) for g in range(d)])


def rotations(side):
    """Quarter turns of a square image, as permutations of its pixels."""
    pixels = np.arange(side * side).reshape(side, side)
    return np.array([np.rot90(pixels, r).reshape(-1) for r in range(4)])


def symmetric_group(d):
    return np.array(list(permutations(range(d))))


def double_sum(name, X, Y, orders, **params):
    """Both sums, sample by sample, in more precision."""
    return sum(cases.kernel_expected(name, X[:, g], Y[:, h], **params) for g in orders for h in orders)


def tolerance(name, X, Y, orders, **params):
    """Every term has its error, and the sum of so many rounds once more for each."""
    terms = [(X[:, g], Y[:, h]) for g in orders for h in orders]
    errors = sum(cases.kernel_tolerance(name, x, y, **params) for x, y in terms)
    sizes = sum(np.abs(cases.kernel_expected(name, x, y, **params)) for x, y in terms)
    return errors + 2 * len(orders) * np.finfo(X.dtype).eps * sizes


@ALL
def test_both_sums(level, dtype, rng, name):
    orders = cyclic(4)
    X, Y = cases.samples(name, rng, 9, 4, dtype), cases.samples(name, rng, 6, 4, dtype)
    K = gram.invariant(X, Y, permutations=orders, kernel=name)
    assert K.dtype == dtype and K.shape == (9, 6)
    expected, limit = double_sum(name, X, Y, orders), tolerance(name, X, Y, orders)
    assert np.all(np.abs(K - expected) <= limit)
    for g in orders:
        assert np.all(np.abs(gram.invariant(X, Y[:, g], permutations=orders, kernel=name) - K) <= 2 * limit)
        assert np.all(np.abs(gram.invariant(X[:, g], Y, permutations=orders, kernel=name) - K) <= 2 * limit)
    alone = gram.invariant(X, permutations=orders, kernel=name)
    assert alone.tobytes() == np.ascontiguousarray(alone.T).tobytes()
    assert np.all(np.abs(alone - double_sum(name, X, X, orders)) <= tolerance(name, X, X, orders))


@ALL
def test_one_sum_is_both(level, dtype, rng, name):
    for orders in (cyclic(6), rotations(3), symmetric_group(3)):
        d = orders.shape[1]
        assert _gram_invariant.is_group(orders)
        X, Y = cases.samples(name, rng, 150, d, dtype), cases.samples(name, rng, 5, d, dtype)
        K = gram.invariant(X, Y, permutations=orders, kernel=name)
        few = X[:20]
        limit = tolerance(name, few, Y, orders)
        assert np.all(np.abs(K[:20] - double_sum(name, few, Y, orders)) <= limit)
        alone = gram.invariant(X, permutations=orders, kernel=name)
        assert alone.tobytes() == np.ascontiguousarray(alone.T).tobytes()
        part = X[60:80]
        assert np.all(
            np.abs(alone[60:80, 60:80] - double_sum(name, part, part, orders)) <= tolerance(name, part, part, orders)
        )


def test_more_columns_and_elements_than_are_taken_together(level, dtype, rng):
    X = rng.standard_normal((560, 9)).astype(dtype)
    K = gram.invariant(X, permutations=rotations(3))
    assert K.tobytes() == np.ascontiguousarray(K.T).tobytes()
    ends = np.r_[:5, 126:131, 510:515, 555:560]
    limit = tolerance("rbf", X[ends], X[ends], rotations(3))
    assert np.all(np.abs(K[np.ix_(ends, ends)] - double_sum("rbf", X[ends], X[ends], rotations(3))) <= limit)
    apart = gram.invariant(X, X.copy(), permutations=rotations(3))
    assert np.all(np.abs(apart - K)[np.ix_(ends, ends)] <= limit)
    orders = cyclic(300)[::5]
    X, Y = rng.standard_normal((3, 300)).astype(dtype), rng.standard_normal((130, 300)).astype(dtype)
    K = gram.invariant(X, Y, permutations=orders, kernel="linear")
    sums = [sum(Z.astype(float)[:, g] for g in orders) for Z in (X, Y)]
    sizes = [sum(np.abs(Z.astype(float)[:, g]) for g in orders) for Z in (X, Y)]
    assert np.all(np.abs(K - sums[0] @ sums[1].T) <= 400 * np.finfo(dtype).eps * (sizes[0] @ sizes[1].T))
    for some in (orders, orders[:7]):  # a group, and none
        found = []
        for threads in (1, 2):
            with fastdl.threads(threads):
                found.append(gram.invariant(X, Y, permutations=some).tobytes())
        assert found[0] == found[1]


def test_what_is_a_group(rng):
    is_group = _gram_invariant.is_group
    for orders in (cyclic(1), cyclic(7), rotations(4), symmetric_group(4), np.arange(5)[None]):
        assert is_group(np.ascontiguousarray(orders, np.int64))
        assert is_group(np.ascontiguousarray(rng.permutation(orders), np.int64))
    assert not is_group(cyclic(6)[:4])
    assert not is_group(cyclic(6)[1:])
    assert not is_group(np.concatenate([cyclic(3), cyclic(3)]))
    assert not is_group(symmetric_group(4)[:23])
    assert not is_group(np.zeros((0, 3), np.int64))


def test_a_set_that_is_no_group_and_scales_of_features(level, rng):
    X, Y = rng.standard_normal((5, 4)), rng.standard_normal((6, 4))
    for orders, params in [
        (cyclic(4)[:3], {"kernel": "rbf"}),
        (np.concatenate([cyclic(4), cyclic(4)[:1]]), {"kernel": "rbf"}),
        (cyclic(4), {"kernel": "matern", "length_scale": np.array([0.5, 1.0, 2.0, 4.0])}),
    ]:
        options = {key: value for key, value in params.items() if key != "kernel"}
        expected = double_sum(params["kernel"], X, Y, orders, **options)
        np.testing.assert_allclose(gram.invariant(X, Y, permutations=orders, **params), expected, rtol=1e-11)


def test_one_sum_is_taken_where_the_kernel_allows_it(native, rng, monkeypatch):
    calls, compiled = [], _gram_invariant._invariant.native

    def recorded(*arguments):
        calls.append(arguments[-2])
        return compiled(*arguments)

    monkeypatch.setattr(_gram_invariant._invariant, "native", recorded)
    swap = np.array([[0, 1, 2, 3], [1, 0, 3, 2]])
    X = rng.random((5, 4)) / 4
    for kernel in KERNELS:
        gram.invariant(X, permutations=swap, kernel=kernel)
        gram.invariant(X, permutations=swap[1:], kernel=kernel)
    assert calls == [True, False] * len(KERNELS)
    for scales, allowed in (([0.5, 0.5, 2.0, 2.0], True), ([0.5, 2.0, 0.5, 2.0], False)):
        K = gram.invariant(X, permutations=swap, kernel="matern", length_scale=scales)
        expected = double_sum("matern", X, X, swap, length_scale=np.array(scales))
        np.testing.assert_allclose(K, expected.astype(np.float64), rtol=1e-12)
        assert calls[-1] is allowed


def test_kernels_of_groups_are_positive(level, rng):
    X = rng.standard_normal((20, 9))
    K = gram.invariant(X, permutations=rotations(3))
    assert np.linalg.eigvalsh(K).min() >= -1e-10 * np.abs(K).max()


def test_edges(level, dtype):
    X = np.ones((3, 4), dtype)
    np.testing.assert_array_equal(gram.invariant(X, permutations=np.zeros((0, 4), int)), np.zeros((3, 3)))
    assert gram.invariant(X[:0], X, permutations=cyclic(4)).shape == (0, 3)
    np.testing.assert_array_equal(gram.invariant(X, permutations=cyclic(4), kernel="linear"), np.full((3, 3), 64))
    np.testing.assert_array_equal(
        gram.invariant(X, permutations=cyclic(4).tolist(), kernel="linear"), np.full((3, 3), 64)
    )


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_libraries(level, library, rng):
    xp = pytest.importorskip(library)
    X, Y = rng.standard_normal((5, 4)), rng.standard_normal((6, 4))
    expected = gram.invariant(X, Y, permutations=cyclic(4))
    for orders in (cyclic(4), xp.asarray(cyclic(4))):
        K = gram.invariant(xp.asarray(X), xp.asarray(Y), permutations=orders)
        assert type(K) is type(xp.asarray(X))
        np.testing.assert_allclose(np.from_dlpack(K), expected, rtol=1e-12)
    K = reference.invariant(xp.asarray(X), xp.asarray(Y), cyclic(4), "rbf", {"gamma": 0.25})
    np.testing.assert_allclose(np.from_dlpack(K), expected, rtol=1e-11)


def test_errors(level):
    X = np.ones((3, 4))
    wrong = cyclic(4)
    wrong[2, 1] = wrong[2, 0]
    for orders, error, message in [
        (wrong, ValueError, "expected every row of permutations to permute 0 to 3, got otherwise in row 2"),
        (cyclic(4) + 1, ValueError, "got otherwise in row 0"),
        (cyclic(5), ValueError, r"expected permutations of shape \(order, 4\), got \(5, 5\)"),
        (np.arange(4), ValueError, r"expected permutations of shape \(order, 4\), got \(4,\)"),
        (cyclic(4).astype(float), TypeError, "expected permutations to be integers, got .*float64"),
    ]:
        with pytest.raises(error, match=rf"^\[gram\.invariant\] .*{message}"):
            gram.invariant(X, permutations=orders)
    with pytest.raises(ValueError, match="expected X without negative elements"):
        gram.invariant(-X, permutations=cyclic(4), kernel="chi2")


@pytest.mark.parametrize("orders", [[[0, 1], [1, 0]], [[1, 0]]])
def test_geometric_wants_products_below_one_for_all_elements(level, orders):
    X, Y = np.array([[1.9, 0.0]]), np.array([[0.0, 1.9]])
    if len(orders) == 1:
        Y = X  # g x . g y = x . y
    with pytest.raises(ValueError, match=r"\[gram.invariant\] expected .* below 1 for all pairs, got 1.29"):
        gram.invariant(X, Y, permutations=orders, kernel="geometric", alpha=0.6)
    gram.invariant(X, Y, permutations=orders, kernel="geometric", alpha=0.4)
