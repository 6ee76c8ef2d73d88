"""What is given wrongly to the functions of fastdl.gram that are not kernels, and where NaN goes in them."""

import numpy as np
import pytest

from fastdl import gram

SHIFTS = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])

# Each with X (5, 3) and Y (4, 3).
PAIRS = {
    "distance": lambda X, Y: gram.distance(X, Y),
    "invariant": lambda X, Y: gram.invariant(X, Y, permutations=SHIFTS),
    "matvec": lambda X, Y: gram.matvec(X, np.ones(4), Y),
    "matvec_vjp": lambda X, Y: gram.matvec_vjp(X, np.ones(4), np.ones(5), Y),
    "gram_vjp": lambda X, Y: gram.gram_vjp(X, np.ones((5, 4)), Y),
}


@pytest.mark.parametrize("name", [*PAIRS, "diag"])
def test_samples_of_another_rank_or_type(level, name):
    call = PAIRS.get(name, lambda X, Y: gram.diag(X))
    X, Y = np.ones((5, 3)), np.ones((4, 3))
    for wrong in (X[0], X[None], np.float64(1)):
        with pytest.raises((ValueError, TypeError), match=rf"^\[gram\.{name}\] expected X (of shape|to be an array)"):
            call(wrong, Y)
    for wrong in (X.astype(complex), X.astype(str)):
        with pytest.raises(TypeError, match=rf"^\[gram\.{name}\] expected X of dtype"):
            call(wrong, Y)
    if name in PAIRS:
        for wrong in (Y[0], Y[None], Y[:, :2], np.ones((4, 0))):
            with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] expected Y of shape \(m, 3\), got"):
                call(X, wrong)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2"])
@pytest.mark.parametrize("gamma", [-1, -1e-300, -np.inf, np.nan])
def test_a_negative_gamma(level, name, gamma):
    X, out = np.ones((4, 3)), np.full((4, 4), 7.5)
    with pytest.raises(
        ValueError, match=rf"^\[gram\.{name}\] expected gamma to be a number .*, got -?(1|1e-300|inf|nan)"
    ):
        getattr(gram, name)(X, gamma=gamma, out=out)
    np.testing.assert_array_equal(out, 7.5)


def only_in(found, expected, rows, columns=()):
    """NaN in these rows and columns, and elsewhere what is there without it."""
    mask = np.zeros(expected.shape, bool)
    mask[rows], mask[:, list(columns)] = True, True
    assert np.isnan(found[mask]).all()
    np.testing.assert_array_equal(found[~mask], expected[~mask])


class TestNan:
    def test_of_a_sample_under_a_group(self, level, dtype, rng):
        X, Y = rng.random((5, 3)).astype(dtype), rng.random((40, 3)).astype(dtype)
        expected = gram.invariant(X, Y, permutations=SHIFTS)
        X[2, 1] = np.nan
        only_in(gram.invariant(X, Y, permutations=SHIFTS), expected, [2])

    def test_of_a_jacobian(self, level, dtype, rng):
        first, second = rng.random((9, 70)).astype(dtype), rng.random((5, 70)).astype(dtype)
        expected = gram.empirical_ntk(first, second)
        first[3, 60] = second[1, 2] = np.nan
        only_in(gram.empirical_ntk(first, second), expected, [3], [1])

    @pytest.mark.parametrize("center", [False, True])
    def test_of_a_map(self, level, dtype, rng, center):
        x = rng.random((3, 4, 5, 7)).astype(dtype)
        expected = gram.feature_gram(x, center=center)
        x[1, 2, 3, 4] = np.nan
        found = gram.feature_gram(x, center=center)
        np.testing.assert_array_equal(found[[0, 2]], expected[[0, 2]])
        only_in(found[1], expected[1], [2], [2])

    def test_of_a_matrix_is_in_all_that_it_is_averaged_with(self, level, dtype, rng):
        K = rng.random((6, 6)).astype(dtype)
        L = K @ K.T
        K[1, 4] = np.nan
        # Every element is less its row's, its column's and the whole mean.
        assert np.isnan(gram.center(K)).all()
        for unbiased in (False, True):
            assert np.isnan(gram.hsic(K, L, unbiased=unbiased)) and np.isnan(gram.hsic(L, K, unbiased=unbiased))
            assert np.isnan(gram.cka(K, L, unbiased=unbiased))
