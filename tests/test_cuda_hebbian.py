"""Hebbian learning and associative memories on CUDA kernels: against the formulas, a sample after the other."""

import math
from itertools import pairwise

import numpy as np
import pytest

import fastdl
from cases import hebbian as cases
from cases import layouts
from cuda_device import ORDERS, same_layout, to_device
from fastdl import _dispatch, hebbian
from fastdl._arrays import NUMPY

PLAIN = {
    "hebb": hebbian.hebb,
    "normalized": lambda *a, **k: hebbian.hebb(*a, normalize=True, **k),
    "oja": hebbian.oja,
    "sanger": hebbian.sanger,
    "subspace": hebbian.subspace,
}
PUBLIC = ("hebb", "oja", "sanger", "subspace")

# Units, features, samples: around warps, blocks of samples, columns of a block of threads and parts of the depth.
FEW = ((1, 7, 8), (5, 3, 33), (18, 70, 17))
MORE = ((1, 1, 1), (2, 64, 32), (33, 65, 31), (65, 9, 40), (4, 257, 97), (17, 130, 64))


def is_first(request):
    """Whether this is the first world: what takes long is done once."""
    return f"emulated-{ORDERS[0]}" in request.node.name


@pytest.fixture
def shapes(request):
    return (*FEW, *MORE) if is_first(request) else FEW


def only_once(request):
    if not is_first(request):
        pytest.skip("long: once is enough")


@pytest.fixture(autouse=True)
def only_kernels(monkeypatch):
    """Refuse to compute a function of the family on device arrays by the reference."""
    before = _dispatch.Call._run_reference

    def run(call, parameters):
        assert call.library is NUMPY or not call.operation.name.startswith("hebbian."), "the reference"
        return before(call, parameters)

    monkeypatch.setattr(_dispatch.Call, "_run_reference", run)


@pytest.fixture(params=list(PLAIN))
def rule(request):
    return request.param


def reference(name, *arrays, **options):
    """The reference in float64 on the host, of the same numbers."""
    with fastdl.backend("reference"):
        return getattr(hebbian, name)(*(a.astype(np.float64) for a in arrays), **options)


class TestLearning:
    @pytest.mark.parametrize("algorithm", ["loop", "blocks"])
    def test_sequential(self, cuda, dtype, rng, rule, algorithm, shapes):
        for k, d, n in shapes:
            if algorithm == "loop" and k * n > 300:
                continue
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            found = PLAIN[rule](to_device(W), to_device(X), lr, algorithm=algorithm)
            assert found.dtype == dtype and found.shape == (k, d)
            error = np.abs(found.host - cases.learnt(rule, W, X, lr)).max()
            assert error <= cases.tolerance(W, X, lr), (k, d, n)

    def test_batch(self, cuda, dtype, rng, rule, shapes):
        for k, d, n in (*shapes, (3, 70, 200)):
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            found = PLAIN[rule](to_device(W), to_device(X), lr / n, mode="batch").host
            expected = cases.learnt(rule, W, X, lr / n, "batch")
            assert np.abs(found - expected).max() <= cases.tolerance(W, X, lr), (k, d, n)

    def test_more_units_than_shared_memory_holds(self, cuda, dtype, rng, request):
        """The fields of a block of samples then lie in global memory."""
        only_once(request)
        W, X, lr = cases.draw(rng, 290 if dtype == np.float32 else 100, 5, 34, dtype)
        lr /= 60  # as many units as these push each other away
        for rule in ("sanger", "subspace"):
            found = PLAIN[rule](to_device(W), to_device(X), lr).host
            assert np.abs(found - cases.learnt(rule, W, X, lr)).max() <= cases.tolerance(W, X, lr)

    def test_steps(self, cuda, dtype, rng, rule):
        """One for all, one for each from anywhere, and steps against the gradient."""
        W, X, lr = cases.draw(rng, 3, 9, 20, dtype)
        w, x = to_device(W), to_device(X)
        one = dtype.type(0.003)
        for given in (one, np.full(20, one), to_device(np.full(20, one)), to_device(np.full(20, float(one)))):
            assert PLAIN[rule](w, x, given).host.tobytes() == PLAIN[rule](w, x, float(one)).host.tobytes()
        error = np.abs(PLAIN[rule](w, x, -lr).host - cases.learnt(rule, W, X, -lr)).max()
        assert error <= cases.tolerance(W, X, lr)

    def test_empty(self, cuda, dtype, rng, rule):
        for k, d, n in cases.EMPTY:
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            for mode in ("sequential", "batch"):
                found = PLAIN[rule](to_device(W), to_device(X), lr, mode=mode)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found.host, W)

    def test_layouts(self, cuda, dtype, rng, rule, request):
        W, X, lr = cases.draw(rng, 5, 19, 35, dtype)
        for mode in ("sequential", "batch") if is_first(request) else ("sequential",):
            expected = PLAIN[rule](to_device(W), to_device(X), lr, mode=mode).host
            for name, weights in layouts(W):
                found = PLAIN[rule](same_layout(weights), to_device(X), lr, mode=mode).host
                np.testing.assert_array_equal(found, expected, name)
            for name, samples in layouts(X):
                found = PLAIN[rule](to_device(W), same_layout(samples), lr, mode=mode).host
                np.testing.assert_array_equal(found, expected, name)

    def test_in_place(self, cuda, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 5, 19, 35, dtype)
        x = to_device(X)
        for mode in ("sequential", "batch"):
            expected = PLAIN[rule](to_device(W), x, lr, mode=mode).host
            for name, weights in layouts(W):
                if name != "read-only":
                    w = same_layout(weights)
                    assert PLAIN[rule](w, x, lr, mode=mode, out=w) is w
                    np.testing.assert_array_equal(w.host, expected, name)
            w = to_device(W)
            PLAIN[rule](w, x, lr, mode=mode, out=w[:, :])  # another view of the same elements
            np.testing.assert_array_equal(w.host, expected)
            room = to_device(np.zeros((5, 38), dtype))
            PLAIN[rule](to_device(W), x, lr, mode=mode, out=room[:, ::2])
            np.testing.assert_array_equal(room.host[:, ::2], expected)
            assert not room.host[:, 1::2].any()
        with pytest.raises(ValueError, match=r"^\[hebbian\.\w+\] expected out to overlap no input"):
            PLAIN[rule](w, x, lr, out=x[:5])

    def test_many_blocks(self, cuda, rng, request):
        """More tiles of products between samples than one launch makes."""
        only_once(request)
        n = 64 * 512 + 33
        W, X, lr = cases.draw(rng, 1, 1, n, np.dtype(np.float64))
        found = hebbian.oja(to_device(W), to_device(X), 1e-3 * lr).host
        assert np.abs(found - cases.learnt("oja", W, X, 1e-3 * lr)).max() <= cases.tolerance(W, X, 1e-3 * lr)


class TestLengths:
    def test_normalised_rows_have_length_1(self, cuda, dtype, rng):
        W, X, lr = cases.draw(rng, 4, 33, 70, dtype)
        for lr_, mode, algorithm in ((lr, "sequential", "loop"), (lr, "sequential", "blocks"), (0.0, "batch", "auto")):
            found = hebbian.hebb(
                to_device(3 * W), to_device(X), lr_, normalize=True, mode=mode, algorithm=algorithm
            ).host
            assert np.abs(np.linalg.norm(found.astype(np.float64), axis=1) - 1).max() <= 8 * np.finfo(dtype).eps

    def test_rows_of_zeros_stay(self, cuda, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 4, 20, 40, dtype)
        W[2] = 0
        for algorithm in ("loop", "blocks"):
            assert not PLAIN[rule](to_device(W), to_device(X), lr, algorithm=algorithm).host[2].any()

    @pytest.mark.parametrize("mode", ["sequential", "batch"])
    @pytest.mark.parametrize("algorithm", ["loop", "blocks"])
    def test_lengths_whose_squares_are_beyond_the_type(self, cuda, dtype, mode, algorithm):
        for size in (2e19, 2e-24) if dtype == np.float32 else (1e200, 1e-200):
            W, X = np.array([[3 * size, 4 * size], [0, 0]], dtype), np.zeros((1, 2), dtype)
            found = hebbian.hebb(to_device(W), to_device(X), 0.1, normalize=True, mode=mode, algorithm=algorithm).host
            np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], rtol=4 * np.finfo(dtype).eps)

    @pytest.mark.parametrize("place", [0, 20, 47])
    def test_a_large_sample_in_a_block(self, cuda, rng, place):
        W, X = np.eye(4, 9, dtype=np.float32), rng.standard_normal((48, 9)).astype(np.float32)
        X[place] = 1e19
        lr = np.full(48, 1e-2)
        lr[place] = 1e-30
        found = hebbian.hebb(to_device(W), to_device(X), lr, normalize=True).host
        np.testing.assert_allclose(found, cases.learnt("normalized", W, X, lr), rtol=0, atol=1e-5)


class TestDivergence:
    @pytest.mark.parametrize("algorithm", ["loop", "blocks"])
    @pytest.mark.parametrize("name", PUBLIC)
    def test_names_the_sample_and_writes_nothing(self, cuda, dtype, name, algorithm):
        """Weights that grow by 100 and more with every sample from number 37 on."""
        W, X = np.ones((3, 40), dtype), np.ones((90, 40), dtype)
        X[:37] = 0
        sample = None
        weights = W.copy()
        with np.errstate(all="ignore"):
            for t, x in enumerate(X):
                y = weights @ x
                weights = weights + dtype.type(5) * (np.outer(y, x) - cases.masked(name, np.outer(y, y)) @ weights)
                if not np.isfinite(weights).all():
                    sample = t
                    break
        if sample is None:
            sample, X[60, 3] = 60, np.inf  # Hebb's rule alone does not overflow in float64 so soon
        w, x, out = to_device(W), to_device(X), to_device(np.full_like(W, 7))
        for target in (None, out, w):
            with pytest.raises(FloatingPointError, match=rf"^\[hebbian\.{name}\] expected weights .*") as caught:
                getattr(hebbian, name)(w, x, 5.0, algorithm=algorithm, out=target)
            # Products of other orders round otherwise: a growth of 200 a sample makes that one sample at most.
            assert abs(int(str(caught.value).rpartition(" ")[2]) - sample) <= 1
        np.testing.assert_array_equal(w.host, W)
        assert (out.host == 7).all()

    def test_a_bad_sample(self, cuda, dtype, rng, rule):
        W, X, lr = cases.draw(rng, 3, 9, 70, dtype)
        for bad, at in ((np.nan, 0), (np.inf, 33), (np.nan, 69)):
            samples = X.copy()
            samples[at, 5] = bad
            for options in ({"algorithm": "loop"}, {"algorithm": "blocks"}, {"mode": "batch"}):
                with pytest.raises(FloatingPointError, match=rf"after sample {at}$"):
                    PLAIN[rule](to_device(W), to_device(samples), lr, **options)

    @pytest.mark.parametrize("mode", ["sequential", "batch"])
    def test_bad_weights_are_no_divergence(self, cuda, dtype, rule, mode):
        W, X = np.ones((2, 3), dtype), np.ones((20, 3), dtype)
        W[1, 2] = np.nan
        with pytest.raises(ValueError, match=r"^\[hebbian\.\w+\] expected finite weights to begin with"):
            PLAIN[rule](to_device(W), to_device(X), 0.1, mode=mode)

    def test_what_overflows_in_a_block_only(self, cuda, rng):
        """x·x may overflow where no weight does: the block gives way to the loop, and blocks go on after it."""
        W, X, lr = cases.draw(rng, 3, 20, 100, np.dtype(np.float32))
        W[:, 0] = X[:, 0] = 0
        for t in (36, 40):
            X[t, 0], lr[t] = 1e20, 0
        allowed = cases.tolerance(W[:, 1:], X[:, 1:], lr)
        for name in PUBLIC:
            found = getattr(hebbian, name)(to_device(W), to_device(X), lr, algorithm="blocks").host
            expected = cases.learnt(name, W, X, lr)
            assert np.isfinite(found).all() and np.abs(found - expected).max() <= allowed


FURTHER = [
    ("bcm", {"tau": 20.0}),
    ("krotov", {"p": 2.0, "delta": 0.4, "rank": 2}),
    ("krotov", {"p": 2.0, "delta": 0.1, "rank": 5}),
    ("krotov", {"p": 1.0, "delta": 0.4, "rank": 2}),
    ("krotov", {"p": 2.5, "delta": 0.4, "rank": 2}),
    ("krotov", {"p": 3.0, "delta": 0.4, "rank": 3}),
    ("soft_hebb", {"temperature": 1.0}),
    ("soft_hebb", {"temperature": 0.2}),
]


class TestFurtherRules:
    @pytest.mark.parametrize("name, options", FURTHER)
    def test_definition(self, cuda, dtype, rng, name, options):
        for k, d, n in ((1, 7, 8), (5, 3, 17), (33, 40, 12)):
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            found = getattr(hebbian, name)(to_device(W), to_device(X), lr, **options)
            expected = reference(name, W, X, lr=lr.astype(np.float64), **options)
            allowed = 4 * cases.tolerance(W, X, lr)
            if name == "bcm":
                # A threshold is a mean of squares of sums of d products.
                error = np.abs(found.theta.host - expected.theta).max()
                assert error <= 8 * allowed * max(1, np.abs(expected.theta).max())
                found, expected = found.W, expected.W
            assert found.dtype == dtype and np.abs(found.host - expected).max() <= allowed, (k, d, n)

    def test_empty(self, cuda, dtype, rng):
        for k, d, n in cases.EMPTY:
            W, X, lr = cases.draw(rng, k, d, n, dtype)
            for name in ("bcm", "krotov", "soft_hebb"):
                found = getattr(hebbian, name)(to_device(W), to_device(X), lr)
                np.testing.assert_array_equal((found.W if name == "bcm" else found).host, W)
            np.testing.assert_array_equal(hebbian.ccipca(to_device(W), to_device(X)).host.shape, W.shape)

    def test_bcm_goes_on(self, cuda, rng):
        W, X, lr = cases.draw(rng, 3, 9, 20, np.dtype(np.float64))
        w, x = to_device(W), to_device(X)
        whole = hebbian.bcm(w, x, lr, tau=10.0)
        half = hebbian.bcm(w, x[:8], lr[:8], tau=10.0)
        rest = hebbian.bcm(half.W, x[8:], lr[8:], theta=half.theta, tau=10.0)
        np.testing.assert_array_equal(rest.W.host, whole.W.host)
        np.testing.assert_array_equal(rest.theta.host, whole.theta.host)

    @pytest.mark.parametrize("k, d, n", [(0, 3, 2), (1, 1, 3), (3, 0, 2), (4, 6, 12), (5, 9, 0), (17, 33, 5)])
    def test_foldiak(self, cuda, dtype, rng, k, d, n):
        W, X = rng.random((k, d)).astype(dtype), (rng.random((n, d)) < 0.4).astype(dtype)
        V, bar = (-rng.random((k, k)) * (1 - np.eye(k))).astype(dtype), (0.5 * rng.random(k)).astype(dtype)
        options = {"lr": 0.1, "lateral_lr": 0.2, "activity": 0.3, "steepness": 4.0, "steps": 10}
        found = hebbian.foldiak(*map(to_device, (W, X, V, bar)), **options)
        expected = reference("foldiak", W, X, V, bar, **{**options, "lr": float(dtype.type(0.1))})
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == dtype
            np.testing.assert_allclose(one.host, other, rtol=0, atol=40 * np.finfo(dtype).eps)

    def test_candid_components(self, cuda, dtype, rng):
        for k, d, n in ((1, 1, 3), (2, 5, 9), (3, 33, 12)):
            X = (rng.standard_normal((n, d)) * 2.0 ** -np.minimum(np.arange(d), 8)).astype(dtype)
            v = to_device(np.zeros((k, d), dtype))
            found = hebbian.ccipca(v, to_device(X), amnesic=1.0).host
            expected = reference("ccipca", np.zeros((k, d)), X, amnesic=1.0)
            assert found.dtype == dtype
            # Gaps between the eigenvalues are larger than the smallest of them: errors grow by a factor of about that.
            assert np.abs(found - expected).max() <= 1e3 * n * np.finfo(dtype).eps * np.abs(expected).max()
            half = hebbian.ccipca(v, to_device(X[:2]), amnesic=1.0)
            assert hebbian.ccipca(half, to_device(X[2:]), count=2, amnesic=1.0, out=half) is half
            np.testing.assert_allclose(
                half.host, found, rtol=0, atol=1e3 * n * np.finfo(dtype).eps * np.abs(found).max()
            )

    @pytest.mark.parametrize("exponent", [-36, 36])
    def test_components_whose_squares_are_beyond_the_type(self, cuda, dtype, rng, exponent):
        X = (rng.standard_normal((12, 5)) * [1, 3, 0.3, 0.1, 2]).astype(dtype)
        X *= dtype.type(2.0) ** (exponent if dtype == np.float32 else 8 * exponent)
        v = np.zeros(5, np.longdouble)
        for n, x in enumerate(X.astype(np.longdouble), 1):
            share = (1 + (2 if n > 3 else 0)) / np.longdouble(n)
            v = x if n == 1 else (1 - share) * v + share * x * (x @ v) / np.sqrt(v @ v)
        found = hebbian.ccipca(to_device(np.zeros((1, 5), dtype)), to_device(X)).host.astype(np.longdouble)
        assert np.abs(found - v).max() <= 200 * np.finfo(dtype).eps * np.abs(v).max()

    def test_divergence(self, cuda, dtype):
        W, X = np.ones((3, 20), dtype), np.full((50, 20), 30, dtype)
        w, x = to_device(W), to_device(X)
        for name, options in (("bcm", {}), ("krotov", {}), ("krotov", {"p": 3}), ("soft_hebb", {})):
            with pytest.raises(FloatingPointError, match=rf"^\[hebbian\.{name}\] expected weights that stay finite"):
                getattr(hebbian, name)(w, x, 100.0, **options)
            np.testing.assert_array_equal(w.host, W)
        bad = np.ones((9, 20), dtype)
        bad[4, 4] = np.nan
        b = to_device(bad)
        for call in (
            lambda: hebbian.bcm(w, b, 1e-3),
            lambda: hebbian.krotov(w, b, 1e-3),
            lambda: hebbian.krotov(w, b, 1e-3, p=3),
            lambda: hebbian.soft_hebb(w, b, 1e-3),
            lambda: hebbian.ccipca(w, b),
            lambda: hebbian.foldiak(w, b, to_device(np.zeros((3, 3), dtype)), to_device(np.ones(3, dtype)), 1e-3),
        ):
            with pytest.raises(FloatingPointError, match=r"after sample 4$"):
                call()

    def test_soft_competition_at_the_lowest_temperatures(self, cuda, dtype):
        W, X = to_device(np.eye(2, dtype=dtype)), to_device(np.ones((1, 2), dtype))
        for temperature in (1e-39, 1e-300, 5e-309):
            found = hebbian.soft_hebb(W, X, 0.5, temperature=temperature)
            np.testing.assert_allclose(found.host, [[1, 0.25], [0.25, 1]])


class TestEstimator:
    @pytest.mark.parametrize("rule", ["sanger", "subspace", "oja", "ccipca"])
    def test_is_that_of_the_host(self, cuda, dtype, rng, rule):
        X = (rng.standard_normal((60, 9)) * 2.0 ** -np.arange(9)).astype(dtype) + dtype.type(3)
        x = to_device(X)
        host = hebbian.HebbianPCA(3, rule).fit(X)
        model = hebbian.HebbianPCA(3, rule).fit(x)
        assert type(model.components_) is type(x) and model.components_.dtype == dtype
        # Some roundings for each sample, as between pieces of them on the host.
        allowed = 60 * 20 * np.finfo(dtype).eps
        assert np.abs(model.components_.host - host.components_).max() <= allowed
        assert np.abs(model.mean_.host - X.astype(float).mean(0)).max() < 1e-13 * 4
        pieces = hebbian.HebbianPCA(3, rule)
        for start, end in ((0, 1), (1, 40), (40, 40), (40, 60)):
            pieces.partial_fit(x[start:end])
        assert np.abs(pieces.components_.host - host.components_).max() <= allowed
        # What the components are off by, at length 1; times a sample, with d roundings more; and back.
        eps, scale = np.finfo(dtype).eps, np.linalg.norm(host.components_, axis=1).min() if rule == "ccipca" else 1
        off, largest = 2 * allowed / scale, np.abs(host._directions()).max()
        off_place = (off + 2 * 9 * eps * largest) * np.abs(X - host.mean_).sum(1).max()
        places, Y = host.transform(X), model.transform(x)
        assert type(Y) is type(x) and np.abs(Y.host - places).max() <= off_place
        back = model.inverse_transform(Y)
        expected = host.inverse_transform(places)
        off_back = 3 * (off * np.abs(places).max() + largest * off_place) + 8 * eps * np.abs(expected).max()
        assert np.abs(back.host - expected).max() <= off_back

    def test_a_failure_changes_nothing(self, cuda, rng):
        X = rng.standard_normal((40, 6))
        model = hebbian.HebbianPCA(2).fit(to_device(X))
        kept = model.components_.host.copy(), model.mean_.host.copy()
        X[7, 2] = np.inf
        with pytest.raises(FloatingPointError, match=r"after sample 7$"):
            model.partial_fit(to_device(X))
        np.testing.assert_array_equal(model.components_.host, kept[0])
        np.testing.assert_array_equal(model.mean_.host, kept[1])
        with pytest.raises(TypeError, match=r"expected X where the samples before were, got numpy\.ndarray"):
            model.partial_fit(rng.standard_normal((3, 6)))


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


class TestHopfield:
    @pytest.mark.parametrize("n, d", [(0, 5), (1, 1), (3, 7), (9, 64), (17, 33), (4, 130), (5, 0)])
    def test_weights_and_crosstalk(self, cuda, dtype, rng, n, d):
        P = cases.spins(rng, (n, d), dtype)
        p = P.astype(np.float64)
        expected = p.T @ p / max(1, d)
        kept = hebbian.hopfield_weights(to_device(P), zero_diagonal=False).host
        W = hebbian.hopfield_weights(same_layout(np.asfortranarray(P))).host
        assert W.dtype == dtype and W.shape == (d, d)
        assert np.abs(kept - expected).max(initial=0) <= 2 * np.finfo(dtype).eps * max(1, n)
        np.testing.assert_array_equal(kept, kept.T)
        np.testing.assert_array_equal(W, kept - np.diag(np.diag(kept)))
        G = p @ p.T / max(1, d)
        found = hebbian.crosstalk(to_device(P)).host
        assert found.dtype == dtype and found.shape == (n, d)
        assert np.abs(found - (G - np.diag(np.diag(G))) @ p).max(initial=0) <= 4 * (n + 1) * np.finfo(dtype).eps

    def test_energy(self, cuda, dtype, rng):
        for m, d in ((0, 3), (1, 1), (7, 9), (3, 65)):
            W, s, b = rng.standard_normal((d, d)), cases.spins(rng, (m, d), dtype), rng.standard_normal(d)
            W, b = W.astype(dtype), b.astype(dtype)
            w, t = W.astype(np.float64), s.astype(np.float64)
            allowed = (d + 2) * np.finfo(dtype).eps * (np.abs(w).sum() + np.abs(b).sum())
            for bias in (None, b):
                expected = -np.einsum("mi,ij,mj->m", t, w, t) / 2 + (0 if bias is None else t @ bias.astype(np.float64))
                found = hebbian.hopfield_energy(to_device(W), to_device(s), None if bias is None else to_device(bias))
                assert found.shape == (m,) and found.dtype == dtype
                assert np.abs(found.host - expected).max(initial=0) <= allowed
            if m:
                one = hebbian.hopfield_energy(to_device(W), to_device(s[0]), to_device(b))
                assert one.shape == () and abs(float(one) - expected[0]) <= allowed

    @pytest.mark.parametrize("mode", ["async", "sync"])
    @pytest.mark.parametrize("threshold", [False, True])
    def test_recall(self, cuda, dtype, rng, mode, threshold):
        """In exact arithmetic, so equal: many states at once are each what it would be alone."""
        d = 32
        W = to_device(np.asarray(hebbian.hopfield_weights(cases.spins(rng, (9, d), dtype))))
        b = rng.integers(-2, 3, d).astype(dtype) / 4 if threshold else np.zeros(d, dtype)
        bias = to_device(b) if threshold else None
        S = cases.spins(rng, (7, d), dtype)
        order = rng.permutation(d)
        for sweeps in (0, 1, 3, 31):
            for orders in [None, order, np.stack([order, order[::-1]])] if mode == "async" else [None]:
                asked = np.arange(d)[None] if orders is None else np.atleast_2d(orders)
                options = {"mode": mode, "max_sweeps": sweeps, "order": orders}
                s = to_device(S)
                found = hebbian.hopfield_recall(W, s, bias, **options)
                assert found.dtype == dtype
                expected = [
                    recall_by_definition(W.host.astype(float), s, b.astype(float), mode, sweeps, asked) for s in S
                ]
                np.testing.assert_array_equal(found.host, expected)
                np.testing.assert_array_equal(s.host, S)
                one = hebbian.hopfield_recall(W, to_device(S[3]), bias, **options)
                np.testing.assert_array_equal(one.host, expected[3])

    def test_sizes_and_layouts(self, cuda, dtype, rng, request):
        """Weights that are not symmetric."""
        for d in (0, 1, 7, 33, 65, 257) if is_first(request) else (7, 33):
            W = rng.integers(-8, 9, (d, d)).astype(dtype)
            S = cases.spins(rng, (3, d), dtype)
            for mode in ("async", "sync"):
                expected = [recall_by_definition(W.astype(float), s, np.zeros(d), mode, 3, [range(d)]) for s in S]
                arrays = layouts(W) if d == 7 and is_first(request) else [("contiguous", W)]
                for name, weights in arrays:
                    states = same_layout(np.asfortranarray(S))
                    found = hebbian.hopfield_recall(same_layout(weights), states, mode=mode, max_sweeps=3)
                    np.testing.assert_array_equal(found.host, np.reshape(expected, (3, d)), name)

    def test_many_units(self, cuda, rng, request):
        """More than shared memory holds."""
        only_once(request)
        d = 3010
        p = cases.spins(rng, (1, d), np.float64)
        W = to_device(np.asarray(p.T * (p / d)))
        noisy = p.copy()
        noisy[0, ::700] *= -1
        np.testing.assert_array_equal(hebbian.hopfield_recall(W, to_device(noisy), max_sweeps=2).host, p)

    def test_orders(self, cuda, dtype, rng):
        W = rng.integers(-8, 9, (20, 20)).astype(dtype)
        S = cases.spins(rng, (5, 20), dtype)
        w, s = to_device(W), to_device(S)
        orders = np.array([[3, 3, 1], [7, 0, 19]])
        expected = [recall_by_definition(W.astype(float), s, np.zeros(20), "async", 9, orders) for s in S]
        np.testing.assert_array_equal(hebbian.hopfield_recall(w, s, order=orders, max_sweeps=9).host, expected)
        np.testing.assert_array_equal(hebbian.hopfield_recall(w, s, order=[], max_sweeps=9).host, S)
        np.testing.assert_array_equal(
            hebbian.hopfield_recall(w, s, seed=1, max_sweeps=4).host,
            hebbian.hopfield_recall(W, S, seed=1, max_sweeps=4),
        )

    def test_sign_of_zero_and_cycles_of_two(self, cuda, dtype):
        for mode in ("async", "sync"):
            zeros = to_device(np.zeros((5, 5), dtype))
            found = hebbian.hopfield_recall(zeros, to_device(-np.ones((2, 5), dtype)), mode=mode)
            np.testing.assert_array_equal(found.host, 1)
        W, s = np.array([[0, 1], [1, 0]], dtype), np.array([1, -1], dtype)
        for sweeps in range(6):
            expected = s if sweeps % 2 == 0 else -s
            found = hebbian.hopfield_recall(to_device(W), to_device(s), mode="sync", max_sweeps=sweeps)
            np.testing.assert_array_equal(found.host, expected)

    @pytest.mark.parametrize("seed", [None, 5])
    def test_energy_never_rises(self, cuda, dtype, rng, seed):
        d = 32
        W = hebbian.hopfield_weights(to_device(cases.spins(rng, (9, d), dtype)))
        b = to_device(rng.integers(-2, 3, d).astype(dtype) / 4)
        S = to_device(cases.spins(rng, (9, d), dtype))
        energies = [
            hebbian.hopfield_energy(W, hebbian.hopfield_recall(W, S, b, max_sweeps=sweeps, seed=seed), b).host
            for sweeps in range(4)
        ]
        assert all((after <= before).all() for before, after in pairwise(energies))
        assert (energies[1] < energies[0]).any()

    def test_errors(self, cuda, dtype):
        W = to_device(np.zeros((3, 3), dtype))
        for values, found in (([1, 0, -1], r"0\.0"), ([1, np.nan, -1], "nan"), ([2, 1, -1], r"2\.0")):
            s = to_device(np.array(values, dtype))
            for call in (
                lambda s=s: hebbian.hopfield_recall(W, s),
                lambda s=s: hebbian.hopfield_recall(W, s, mode="sync"),
                lambda s=s: hebbian.dense_hopfield(W, s),
            ):
                with pytest.raises(ValueError, match=rf"^\[hebbian\.\w+\] expected states of \+1 and -1, got {found}"):
                    call()
        with pytest.raises(ValueError, match=r"expected order of units from 0 to 2, got 3"):
            hebbian.hopfield_recall(W, to_device(np.ones(3, dtype)), order=[0, 3])
        with pytest.raises(ValueError, match=r"expected s on device cuda:0 like W, got numpy\.ndarray"):
            hebbian.hopfield_recall(W, np.ones(3, dtype))


class TestDense:
    @pytest.mark.parametrize("mode", ["async", "sync"])
    @pytest.mark.parametrize("degree", [1, 2, 3, 5, math.inf])
    def test_definition(self, cuda, dtype, rng, degree, mode, request):
        """In whole numbers but for the last: a unit takes the sign with the lower energy, +1 if they are equal."""
        every = ((1, 1, 1), (7, 4, 12), (40, 3, 13), (0, 2, 5))
        for n, m, d in every if is_first(request) else ((7, 2, 5),):
            P, S = cases.spins(rng, (n, d), dtype), cases.spins(rng, (m, d), dtype)
            found = hebbian.dense_hopfield(to_device(P), to_device(S), degree=degree, mode=mode, max_sweeps=2)
            assert found.dtype == dtype
            expected = reference("dense_hopfield", P, S, degree=degree, mode=mode, max_sweeps=2)
            np.testing.assert_array_equal(found.host, expected)

    @pytest.mark.parametrize("degree", [2, 3, 6, math.inf])
    def test_energy(self, cuda, dtype, rng, degree):
        P, S = cases.spins(rng, (5, 12), dtype), cases.spins(rng, (7, 12), dtype)
        F = np.exp if degree == math.inf else lambda m: m**degree
        expected = -F(S.astype(float) @ P.T.astype(float)).sum(1)
        p, s = to_device(P), to_device(S)
        rtol = max(1e-12, float(np.finfo(dtype).eps))
        found = hebbian.dense_hopfield_energy(p, s, degree=degree)
        np.testing.assert_allclose(found.host, expected, rtol=rtol)
        for sweeps in range(1, 3):
            recalled = hebbian.dense_hopfield(p, s, degree=degree, max_sweeps=sweeps)
            later = hebbian.dense_hopfield_energy(p, recalled, degree=degree).host
            assert (later <= expected + 2 * rtol * np.abs(expected)).all()
            expected = later

    @pytest.mark.parametrize("degree", [101, 1000])
    def test_high_powers_do_not_vanish(self, cuda, degree):
        p = np.tile([1.0, -1.0], 20)[None, :]
        s = np.ones(40)
        s[1:12:2] = -1
        expected = -p[0] if degree % 2 == 0 and p[0] @ s < 0 else p[0]
        found = hebbian.dense_hopfield(to_device(p), to_device(s), degree=degree)
        np.testing.assert_array_equal(found.host, expected)

    def test_orders(self, cuda, rng):
        P, S = cases.spins(rng, (3, 8), np.float64), cases.spins(rng, (5, 8), np.float64)
        np.testing.assert_array_equal(hebbian.dense_hopfield(to_device(P), to_device(S), order=[]).host, S)
        orders = rng.integers(0, 8, (2, 5))
        found = hebbian.dense_hopfield(to_device(P), to_device(S), order=orders, max_sweeps=3).host
        np.testing.assert_array_equal(found, hebbian.dense_hopfield(P, S, order=orders, max_sweeps=3))


class TestBarriers:
    """With one barrier of every thread left out, some order of the threads gives another result or none."""

    def notices(self, cuda, call, skipped):
        expected = call().host.tobytes()
        noticed = False
        try:
            for order in ("fwd", "rev", "random"):
                cuda.set_order(order)
                cuda.skip_barrier(skipped)
                try:
                    noticed |= call().host.tobytes() != expected
                except (RuntimeError, FloatingPointError):
                    noticed = True
                cuda.skip_barrier(-1)
        finally:
            cuda.skip_barrier(-1)
        return noticed

    @pytest.mark.parametrize(
        "name, barriers", [("sanger", range(1, 7)), ("subspace", range(1, 7)), ("oja", range(1, 4))]
    )
    def test_blocks(self, cuda, rng, name, barriers, request):
        """Of few features, so that a product has the first barrier alone; oja settles with one, and takes with four."""
        only_once(request)
        W, X, lr = cases.draw(rng, 20, 4, 12, np.dtype(np.float64))
        w, x = to_device(W), to_device(X)
        for skipped in barriers:
            assert self.notices(cuda, lambda: getattr(hebbian, name)(w, x, lr, algorithm="blocks"), skipped), skipped

    @pytest.mark.parametrize("name", ["sanger", "oja", "krotov"])
    def test_loops(self, cuda, rng, name, request):
        only_once(request)
        W, X, lr = cases.draw(rng, 2, 70, 6, np.dtype(np.float32))
        w, x = to_device(W), to_device(X)
        options = {} if name == "krotov" else {"algorithm": "loop"}
        for skipped in range(1, 5):
            assert self.notices(cuda, lambda: getattr(hebbian, name)(w, x, lr, **options), skipped), skipped

    def test_recall(self, cuda, rng, request):
        only_once(request)
        # About half of the units turn over, and each decides for others.
        W = to_device(rng.integers(-100, 101, (33, 33)) + 200.0 * np.diag(cases.spins(rng, 33, np.float64)))
        s = to_device(cases.spins(rng, (2, 33), np.float64))
        # Beyond those of the product, and not that of a window: without it units are read that there are not.
        for skipped in (11, 12, 14, 15):
            assert self.notices(cuda, lambda: hebbian.hopfield_recall(W, s, max_sweeps=1), skipped), skipped
