"""Associative memories: exact where the arithmetic is, and by what they are made for."""

import math
from itertools import pairwise

import numpy as np
import pytest

import fastdl
from cases import hebbian as cases
from cases import layouts
from fastdl import gram, hebbian

# Powers of two, so that all weights, fields and energies are exact in float32.
EXACT = 64


def network(rng, n, d, dtype):
    P = cases.spins(rng, (n, d), dtype)
    return P, hebbian.hopfield_weights(P)


def recall_by_definition(W, s, b, mode, sweeps, orders):
    """One state, a unit at a time."""
    s = s.astype(np.float64).copy()
    for sweep in range(sweeps):
        if mode == "sync":
            s = np.where(W @ s - b >= 0, 1.0, -1.0)
        else:
            for i in orders[sweep % len(orders)]:
                s[i] = 1.0 if W[i] @ s - b[i] >= 0 else -1.0
    return s


class TestWeights:
    @pytest.mark.parametrize("n, d", [(0, 5), (1, 1), (3, 7), (9, 64), (17, 33), (40, 65), (5, 0)])
    def test_definition(self, level, dtype, rng, n, d):
        P = cases.spins(rng, (n, d), dtype)
        expected = P.astype(np.float64).T @ P.astype(np.float64) / max(1, d)
        kept = hebbian.hopfield_weights(P, zero_diagonal=False)
        W = hebbian.hopfield_weights(P)
        assert W.dtype == dtype and W.shape == (d, d)
        assert np.abs(kept - expected).max(initial=0) <= 2 * np.finfo(dtype).eps * max(1, n)
        np.testing.assert_array_equal(kept, kept.T)
        np.testing.assert_array_equal(W, kept - np.diag(np.diag(kept)))

    def test_errors(self, level):
        with pytest.raises(ValueError, match=r"^\[hebbian\.hopfield_weights\] expected P of shape \(n, d\), got"):
            hebbian.hopfield_weights(np.ones(3))
        with pytest.raises(TypeError, match="expected zero_diagonal to be True or False, got int"):
            hebbian.hopfield_weights(np.ones((2, 3)), 0)


class TestEnergy:
    def test_definition(self, level, dtype, rng):
        for m, d in ((0, 3), (1, 1), (7, 9), (33, 65)):
            W, s, b = rng.standard_normal((d, d)), cases.spins(rng, (m, d), dtype), rng.standard_normal(d)
            W, b = W.astype(dtype), b.astype(dtype)
            w, t = W.astype(np.float64), s.astype(np.float64)
            allowed = (d + 2) * np.finfo(dtype).eps * (np.abs(w).sum() + np.abs(b).sum())
            for bias in (None, b):
                expected = -np.einsum("mi,ij,mj->m", t, w, t) / 2 + (0 if bias is None else t @ bias.astype(np.float64))
                found = hebbian.hopfield_energy(W, s, bias)
                assert found.shape == (m,) and found.dtype == dtype
                assert np.abs(found - expected).max(initial=0) <= allowed
                for i in range(min(m, 2)):
                    one = hebbian.hopfield_energy(W, s[i], bias)
                    assert one.shape == () and abs(float(one) - expected[i]) <= allowed

    def test_errors(self, level):
        W = np.zeros((3, 3))
        for arguments, message in [
            ((np.zeros((3, 2)), np.ones(3)), r"expected W of shape \(d, d\), got \(3, 2\)"),
            ((W, np.ones(2)), r"expected s of shape \(3,\) or \(m, 3\), got \(2,\)"),
            ((W, np.ones((2, 2, 3))), r"expected s of shape \(3,\) or \(m, 3\), got \(2, 2, 3\)"),
            ((W, np.ones(3), np.ones(2)), r"expected b of shape \(3,\), got \(2,\)"),
        ]:
            for name in ("hopfield_energy", "hopfield_recall"):
                with pytest.raises(ValueError, match=rf"^\[hebbian\.{name}\] {message}"):
                    getattr(hebbian, name)(*arguments)


class TestRecall:
    @pytest.mark.parametrize("mode", ["async", "sync"])
    @pytest.mark.parametrize("threshold", [False, True])
    def test_definition(self, level, dtype, rng, mode, threshold):
        """In exact arithmetic, so equal: many states at once are each what it would be alone."""
        d = EXACT
        _, W = network(rng, 12, d, dtype)
        b = rng.integers(-2, 3, d).astype(dtype) / 4 if threshold else np.zeros(d, dtype)
        S = cases.spins(rng, (37, d), dtype)
        order = rng.permutation(d)
        for sweeps in (0, 1, 2, 3, 6, 51):
            for orders in [None, order, np.stack([order, order[::-1]])] if mode == "async" else [None]:
                asked = np.arange(d)[None] if orders is None else np.atleast_2d(orders)
                found = hebbian.hopfield_recall(
                    W, S, b if threshold else None, mode=mode, max_sweeps=sweeps, order=orders
                )
                assert found.dtype == dtype and found is not S
                expected = [recall_by_definition(W.astype(float), s, b.astype(float), mode, sweeps, asked) for s in S]
                np.testing.assert_array_equal(found, expected)
                np.testing.assert_array_equal(
                    hebbian.hopfield_recall(
                        W, S[3], b if threshold else None, mode=mode, max_sweeps=sweeps, order=orders
                    ),
                    expected[3],
                )

    def test_weights_that_are_not_symmetric(self, level, dtype, rng):
        W = rng.integers(-8, 9, (33, 33)).astype(dtype)
        S = cases.spins(rng, (9, 33), dtype)
        for mode in ("async", "sync"):
            expected = [recall_by_definition(W.astype(float), s, np.zeros(33), mode, 4, [range(33)]) for s in S]
            for _, weights in layouts(W):
                found = hebbian.hopfield_recall(weights, S, mode=mode, max_sweeps=4)
                np.testing.assert_array_equal(found, expected)
            for _, states in layouts(S):
                kept = states.copy()
                np.testing.assert_array_equal(hebbian.hopfield_recall(W, states, mode=mode, max_sweeps=4), expected)
                np.testing.assert_array_equal(states, kept)

    def test_sign_of_zero_is_plus(self, level, dtype):
        W = np.zeros((5, 5), dtype)
        for mode in ("async", "sync"):
            np.testing.assert_array_equal(hebbian.hopfield_recall(W, -np.ones((2, 5), dtype), mode=mode), 1)

    def test_sizes(self, level, dtype, rng):
        for d in (0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65):
            W = rng.integers(-8, 9, (d, d)).astype(dtype)
            for m in (0, 1, 3):
                S = cases.spins(rng, (m, d), dtype)
                for mode in ("async", "sync"):
                    expected = [recall_by_definition(W.astype(float), s, np.zeros(d), mode, 3, [range(d)]) for s in S]
                    found = hebbian.hopfield_recall(W, S, mode=mode, max_sweeps=3)
                    np.testing.assert_array_equal(found, np.reshape(expected, (m, d)))

    @pytest.mark.parametrize("seed", [None, 5])
    def test_energy_never_rises(self, level, dtype, rng, seed):
        _, W = network(rng, 9, EXACT, dtype)
        b = rng.integers(-2, 3, EXACT).astype(dtype) / 4
        S = cases.spins(rng, (50, EXACT), dtype)
        energies = [
            hebbian.hopfield_energy(W, hebbian.hopfield_recall(W, S, b, max_sweeps=sweeps, seed=seed), b)
            for sweeps in range(9)
        ]
        for before, after in pairwise(energies):
            assert (after <= before).all()
        assert (energies[1] < energies[0]).any()

    def test_patterns_are_recalled(self, level, dtype, rng):
        d, n = 256, 12
        P, W = network(rng, n, d, dtype)
        assert (hebbian.crosstalk(P).__abs__() < 1).all()
        np.testing.assert_array_equal(hebbian.hopfield_recall(W, P), P)
        noisy = np.where(rng.random((n, d)) < 0.1, -P, P)
        for mode in ("async", "sync"):
            np.testing.assert_array_equal(hebbian.hopfield_recall(W, noisy, mode=mode), P)

    def test_seeds(self, level, rng):
        _, W = network(rng, 20, EXACT, np.float64)
        S = cases.spins(rng, (30, EXACT), np.float64)
        first = hebbian.hopfield_recall(W, S, seed=1)
        np.testing.assert_array_equal(hebbian.hopfield_recall(W, S, seed=1), first)
        np.testing.assert_array_equal(hebbian.hopfield_recall(W, S, seed=np.random.default_rng(1)), first)
        assert not np.array_equal(hebbian.hopfield_recall(W, S, seed=2), first)
        orders = np.stack([g.permutation(EXACT) for g in [np.random.default_rng(1)] for _ in range(16)])
        np.testing.assert_array_equal(hebbian.hopfield_recall(W, S, order=orders), first)

    def test_an_order_without_all_units(self, level, dtype, rng):
        W = rng.integers(-8, 9, (20, 20)).astype(dtype)
        S = cases.spins(rng, (5, 20), dtype)
        orders = np.array([[3, 3, 1], [7, 0, 19]])
        expected = [recall_by_definition(W.astype(float), s, np.zeros(20), "async", 9, orders) for s in S]
        np.testing.assert_array_equal(hebbian.hopfield_recall(W, S, order=orders, max_sweeps=9), expected)
        np.testing.assert_array_equal(hebbian.hopfield_recall(W, S, order=[], max_sweeps=9), S)

    def test_cycles_of_two(self, level, dtype):
        W = np.array([[0, 1], [1, 0]], dtype)
        s = np.array([1, -1], dtype)
        for sweeps in range(6):
            expected = s if sweeps % 2 == 0 else -s
            np.testing.assert_array_equal(hebbian.hopfield_recall(W, s, mode="sync", max_sweeps=sweeps), expected)

    @pytest.mark.parametrize("mode", ["async", "sync"])
    def test_a_state_among_others_and_alone(self, native_level, dtype, rng, mode):
        """Fields that are zero but for rounding: their signs tell in which order they were summed."""
        d = 96
        state = cases.spins(rng, (d,), dtype)
        half = rng.standard_normal((d, d // 2)).astype(dtype)
        W = rng.permuted(np.concatenate([half, -half], axis=1), axis=1) * state
        alone = hebbian.hopfield_recall(W, state, mode=mode, max_sweeps=1)
        for m in (2, 7, 8, 33):
            others = cases.spins(rng, (m, d), dtype)
            others[m // 2] = state
            np.testing.assert_array_equal(hebbian.hopfield_recall(W, others, mode=mode, max_sweeps=1)[m // 2], alone)

    def test_threads(self, native_level, dtype, rng, keep_threads):
        W = rng.standard_normal((300, 300)).astype(dtype)
        S = cases.spins(rng, (400, 300), dtype)
        for mode in ("async", "sync"):
            found = []
            for count in (1, 2, 3):
                fastdl.set_num_threads(count)
                found.append(hebbian.hopfield_recall(W, S, mode=mode, max_sweeps=5).tobytes())
            assert len(set(found)) == 1

    def test_errors(self, level):
        W, s = np.zeros((3, 3)), np.ones(3)
        for arguments, options, error, message in [
            ((W, np.array([1.0, 0.0, -1.0])), {}, ValueError, r"expected states of \+1 and -1, got 0\.0"),
            ((W, np.array([[1.0, np.nan, -1.0]])), {}, ValueError, r"expected states of \+1 and -1, got nan"),
            ((W, np.array([2, 1, -1])), {}, ValueError, r"expected states of \+1 and -1, got 2\.0"),
            ((W, s), {"max_sweeps": -1}, ValueError, r"expected max_sweeps to be a whole number of at least 0, got -1"),
            (
                (W, s),
                {"max_sweeps": 1.5},
                TypeError,
                "expected max_sweeps to be a whole number of at least 0",
            ),
            ((W, s), {"mode": "both"}, ValueError, r"expected mode to be 'async' or 'sync', got 'both'"),
            ((W, s), {"order": [0, 3]}, ValueError, r"expected order of units from 0 to 2, got 3"),
            ((W, s), {"order": [-1]}, ValueError, r"expected order of units from 0 to 2, got -1"),
            ((W, s), {"order": [0.5]}, TypeError, r"expected order to be numbers of units, got list of float64"),
            ((W, s), {"order": [0], "seed": 1}, ValueError, r"expected an order or a seed, got both"),
            ((W, s), {"seed": 1, "mode": "sync"}, ValueError, r"expected no order or seed with mode 'sync', got one"),
            ((W, s), {"seed": "x"}, TypeError, r"expected seed to be a whole number, got str"),
            ((W, None), {}, TypeError, r"expected s to be an array, got None"),
        ]:
            with pytest.raises(error, match=rf"^\[hebbian\.hopfield_recall\] {message}"):
                hebbian.hopfield_recall(*arguments, **options)


class TestCapacity:
    def test_crosstalk(self, level, dtype, rng):
        for n, d in ((0, 4), (1, 5), (9, 33), (40, 65)):
            P = cases.spins(rng, (n, d), dtype)
            p = P.astype(np.float64)
            G = p @ p.T / d
            found = hebbian.crosstalk(P)
            assert found.dtype == dtype and found.shape == (n, d)
            assert np.abs(found - (G - np.diag(np.diag(G))) @ p).max(initial=0) <= 4 * (n + 1) * np.finfo(dtype).eps

    def test_crosstalk_is_the_field_less_the_pattern(self, level, rng):
        P, W = network(rng, 7, EXACT, np.float64)
        share = 7 / EXACT  # of the diagonal that the weights lack
        np.testing.assert_allclose(P @ W, P + hebbian.crosstalk(P) - share * P, rtol=0, atol=1e-14)

    def test_flip_probability(self):
        for share, expected in ((0.138, 0.00355221), (0.1, 0.000782701), (0.05, 3.87211e-6)):
            assert hebbian.flip_probability(1000 * share, 1000) == pytest.approx(expected, rel=2e-6)
        assert hebbian.flip_probability(1, 1000) > 0  # 1 - erf would be 0

    def test_flips_are_as_probable_as_that(self, rng):
        """Where units are not coupled to themselves, by which crosstalk is 59/500 too large."""
        P = cases.spins(rng, (60, 500), np.float32)
        flipped = np.mean(hebbian.crosstalk(P) * P - 59 / 500 < -1)
        expected = hebbian.flip_probability(60, 500)
        assert abs(flipped - expected) < 5 * math.sqrt(expected / P.size)

    def test_capacity_is_its_inverse(self):
        for probability in (1e-9, 0.0036, 0.2, 0.49):
            assert hebbian.flip_probability(hebbian.capacity(700, probability), 700) == pytest.approx(probability, 1e-6)

    def test_errors(self):
        for function, arguments in ((hebbian.flip_probability, (0, 5)), (hebbian.flip_probability, (5, -1))):
            with pytest.raises(ValueError, match=r"^\[hebbian\.flip_probability\] expected . to be a number above 0"):
                function(*arguments)
        with pytest.raises(ValueError, match=r"^\[hebbian\.capacity\] expected probability to be"):
            hebbian.capacity(10, 0.5)
        with pytest.raises(TypeError, match=r"^\[hebbian\.flip_probability\] expected n to be a number"):
            hebbian.flip_probability("3", 5)


class TestDense:
    def test_degree_2_is_a_hopfield_network(self, level, dtype, rng):
        P, W = network(rng, 9, EXACT, dtype)
        S = cases.spins(rng, (11, EXACT), dtype)
        for mode in ("async", "sync"):
            np.testing.assert_array_equal(
                hebbian.dense_hopfield(P, S, degree=2, mode=mode, max_sweeps=5),
                hebbian.hopfield_recall(W, S, mode=mode, max_sweeps=5),
            )

    @pytest.mark.parametrize("mode", ["async", "sync"])
    @pytest.mark.parametrize("degree", [1, 3, 5])
    def test_definition(self, level, dtype, rng, degree, mode):
        """In whole numbers: a unit takes the sign with the lower energy, +1 if they are equal."""
        for n, m, d in ((1, 1, 1), (7, 9, 32), (17, 3, 13), (4, 6, 3), (0, 2, 5)):
            P, S = cases.spins(rng, (n, d), dtype), cases.spins(rng, (m, d), dtype)
            patterns, states = P.astype(int).tolist(), S.astype(int).tolist()
            for state in states:
                for _ in range(2):
                    before = list(state)
                    for i in range(d):
                        sums = []
                        for value in (1, -1):
                            trial = list(before if mode == "sync" else state)
                            trial[i] = value
                            sums.append(
                                sum(sum(a * b for a, b in zip(p, trial, strict=True)) ** degree for p in patterns)
                            )
                        state[i] = 1 if sums[0] >= sums[1] else -1
            found = hebbian.dense_hopfield(P, S, degree=degree, mode=mode, max_sweeps=2)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.reshape(states, (m, d)))

    def test_an_order_of_no_units_changes_nothing(self, level, rng):
        P, S = cases.spins(rng, (3, 8), np.float64), cases.spins(rng, (5, 8), np.float64)
        np.testing.assert_array_equal(hebbian.dense_hopfield(P, S, order=[]), S)
        np.testing.assert_array_equal(hebbian.hopfield_recall(hebbian.hopfield_weights(P), S, order=[]), S)

    def test_stores_more(self, level, rng):
        P = cases.spins(rng, (60, 40), np.float64)
        noisy = P.copy()
        noisy[:, :3] *= -1
        restored = {
            degree: np.mean(hebbian.dense_hopfield(P, noisy, degree=degree) == P) for degree in (2, 4, math.inf)
        }
        assert restored[2] < 0.95 < restored[4] <= restored[math.inf] + 1e-3
        assert restored[math.inf] > 0.999

    @pytest.mark.parametrize("degree", [2, 3, 6, math.inf])
    def test_energy(self, level, rng, degree):
        P, S = cases.spins(rng, (5, 12), np.float64), cases.spins(rng, (7, 12), np.float64)
        F = np.exp if degree == math.inf else lambda m: m**degree
        expected = -F(S @ P.T).sum(1)
        np.testing.assert_allclose(hebbian.dense_hopfield_energy(P, S, degree=degree), expected, rtol=1e-12)
        np.testing.assert_allclose(hebbian.dense_hopfield_energy(P, S[0], degree=degree), expected[0], rtol=1e-12)
        for sweeps in range(4):
            later = hebbian.dense_hopfield_energy(
                P, hebbian.dense_hopfield(P, S, degree=degree, max_sweeps=sweeps), degree=degree
            )
            assert (later <= expected + 1e-9 * np.abs(expected)).all()
            expected = later

    @pytest.mark.parametrize("degree", [101, 701, 1000])
    def test_high_powers_do_not_vanish(self, level, degree):
        p = np.tile([1.0, -1.0], 20)[None, :]
        s = np.ones(40)
        s[1:12:2] = -1
        expected = -p[0] if degree % 2 == 0 and p[0] @ s < 0 else p[0]
        np.testing.assert_array_equal(hebbian.dense_hopfield(p, s, degree=degree), expected)

    def test_many_units_do_not_overflow(self, level, rng):
        P = cases.spins(rng, (4, 3000), np.float64)
        np.testing.assert_array_equal(hebbian.dense_hopfield(P, P, degree=math.inf, max_sweeps=1, order=range(50)), P)

    def test_errors(self, level):
        P = np.ones((2, 3))
        for options, error, message in [
            ({"degree": 0}, ValueError, "expected degree to be a whole number from 1 to 1000, or inf, got 0"),
            ({"degree": 2.5}, TypeError, "expected degree to be a whole number from 1 to 1000, or inf, got float"),
        ]:
            with pytest.raises(error, match=message):
                hebbian.dense_hopfield(P, P, **options)
        with pytest.raises(ValueError, match=r"^\[hebbian\.dense_hopfield\] expected states of \+1 and -1, got 0\.0"):
            hebbian.dense_hopfield(P, np.zeros(3))


class TestModern:
    def test_definition(self, level, dtype, rng):
        P, q = rng.standard_normal((9, 17)).astype(dtype), rng.standard_normal((5, 17)).astype(dtype)
        score = 0.7 * q.astype(float) @ P.astype(float).T
        weight = np.exp(score - score.max(1, keepdims=True))
        expected = weight / weight.sum(1, keepdims=True) @ P.astype(float)
        found = hebbian.modern_hopfield(P, q, 0.7)
        assert found.dtype == dtype
        assert np.abs(found - expected).max() <= 100 * np.finfo(dtype).eps
        np.testing.assert_array_equal(found, gram.softmax_matvec(q, P, P, 0.7))
        np.testing.assert_array_equal(hebbian.modern_hopfield(P, q[2], 0.7), hebbian.modern_hopfield(P, q[2:3], 0.7)[0])

    def test_large_beta_finds_the_nearest_pattern(self, level, rng):
        P = cases.spins(rng, (20, 50), np.float64)
        q = P + 0.5 * rng.standard_normal(P.shape)
        np.testing.assert_allclose(hebbian.modern_hopfield(P, q, 50.0), P, rtol=0, atol=1e-12)

    def test_errors(self, level):
        with pytest.raises(ValueError, match=r"^\[hebbian\.modern_hopfield\] expected q of shape \(3,\) or \(m, 3\)"):
            hebbian.modern_hopfield(np.ones((2, 3)), np.ones(4), 1.0)
        with pytest.raises(ValueError, match=r"^\[hebbian\.modern_hopfield\] expected beta to be a finite number"):
            hebbian.modern_hopfield(np.ones((2, 3)), np.ones(3), math.nan)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_other_libraries(level, library, dtype, rng):
    xp = pytest.importorskip(library)
    P, W = network(rng, 5, EXACT, dtype)
    S = cases.spins(rng, (4, EXACT), dtype)
    p, w, s = xp.asarray(P), xp.asarray(W), xp.asarray(S)
    for found, expected in [
        (hebbian.hopfield_weights(p), W),
        (hebbian.hopfield_energy(w, s), hebbian.hopfield_energy(W, S)),
        (hebbian.hopfield_recall(w, s, seed=3), hebbian.hopfield_recall(W, S, seed=3)),
        (hebbian.hopfield_recall(w, s, mode="sync"), hebbian.hopfield_recall(W, S, mode="sync")),
        (hebbian.crosstalk(p), hebbian.crosstalk(P)),
        (hebbian.dense_hopfield(p, s), hebbian.dense_hopfield(P, S)),
        (hebbian.modern_hopfield(p, s, 0.1), hebbian.modern_hopfield(P, S, 0.1)),
    ]:
        assert type(found) is type(p) and found.dtype == p.dtype
        np.testing.assert_allclose(np.from_dlpack(found), expected, rtol=1e-5, atol=1e-5)
