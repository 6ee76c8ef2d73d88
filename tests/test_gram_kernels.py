"""Every kernel against its formula in more precision, and against identities, with error bounds known beforehand."""

import functools
import inspect
import itertools
import math

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from cases import layouts, wide
from fastdl import gram
from fastdl._kernels import KERNELS
from fastdl.reference import gram as reference

NAMES = tuple(KERNELS)
ALL = pytest.mark.parametrize("name", NAMES)


def label(value):
    return value if isinstance(value, str) else ",".join(f"{k}={v}" for k, v in value.items()) or "defaults"


TRIED = pytest.mark.parametrize("name, params", cases.KERNEL_CASES, ids=label)


def compute(name, *arguments, **options):
    return getattr(gram, name)(*arguments, **options)


def assert_within(result, expected, tolerance, message=""):
    error = np.abs(wide(np.asarray(result)) - expected)
    excess = error > tolerance
    assert not np.any(excess | np.isnan(error)), f"{message}: {error[excess].max()} over {tolerance[excess].max()}"


def test_the_table_is_that_of_the_public_functions():
    for name, kernel in KERNELS.items():
        function = getattr(gram, name)
        assert kernel.function is function and name in gram.__all__
        parameters = inspect.signature(function).parameters
        assert list(parameters) == ["X", "Y", *kernel.defaults, "out"]
        assert {key: parameters[key].default for key in kernel.defaults} == kernel.defaults
        assert list(inspect.signature(getattr(reference, name)).parameters) == ["X", "Y", *kernel.defaults]
    for name in gram.__all__:
        assert callable(getattr(gram, name)) and getattr(gram, name).__doc__.count("Examples") == 1
        assert name == "gram" or callable(getattr(reference, name))


@TRIED
def test_within_the_bound_at_every_size(level, dtype, rng, name, params):
    largest = max(cases.SIZES)
    for d in (0, 1, 3, 8, 17, 33, 64):
        X, Y = (cases.samples(name, rng, largest, d, dtype) for _ in range(2))
        expected, allowed = (make(name, X, Y, **params) for make in (cases.kernel_expected, cases.kernel_tolerance))
        alone, alone_allowed = (make(name, X, **params) for make in (cases.kernel_expected, cases.kernel_tolerance))
        for i, n in enumerate(cases.SIZES):
            m = cases.SIZES[-1 - i]
            K = compute(name, X[:n], Y[:m], **params)
            assert type(K) is np.ndarray and K.dtype == dtype and K.shape == (n, m)
            assert_within(K, expected[:n, :m], allowed[:n, :m], f"n={n} m={m} d={d}")
            K = compute(name, X[:n], **params)
            assert_within(K, alone[:n, :n], alone_allowed[:n, :n], f"n={n} d={d}")
            assert K.tobytes() == K.T.tobytes()


@TRIED
@pytest.mark.parametrize("n, m, d", [(301, 517, 37), (13, 1030, 5)])
def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, rng, keep_threads, name, params, n, m, d):
    X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
    v, w = (rng.standard_normal((rows, columns)).astype(dtype) for rows, columns in ((m, 3), (n, 7)))
    found = []
    for count in (1, 2, 5):
        fastdl.set_num_threads(count)
        results = (
            compute(name, X, Y, **params),
            compute(name, Y, **params),
            gram.distance(X, Y, name, **params),
            gram.matvec(X, v, Y, name, **params),
            gram.matvec(X, w, None, name, **params),
        )
        found.append([result.tobytes() for result in results])
    assert found[0] == found[1] == found[2]
    rows = [compute(name, X[part], Y, **params) for part in (slice(0, 5), slice(5, 6), slice(6, n))]
    assert np.concatenate(rows).tobytes() == found[0][0]
    rows = [gram.matvec(X[part], v, Y, name, **params) for part in (slice(0, 5), slice(5, 6), slice(6, n))]
    assert np.concatenate(rows).tobytes() == found[0][3]


@TRIED
def test_alone_is_like_both_and_symmetric_to_the_bit(level, dtype, rng, name, params):
    for n, d in [(1, 1), (33, 17), (131, 40)]:
        X = cases.samples(name, rng, n, d, dtype)
        K = compute(name, X, **params)
        assert K.tobytes() == np.ascontiguousarray(K.T).tobytes()
        allowed = cases.kernel_tolerance(name, X, **params)
        assert np.all(np.abs(K - compute(name, X, X.copy(), **params)) <= 2 * allowed)
        assert compute(name, X, X, **params).tobytes() == K.tobytes()
        if name in ("rbf", "laplacian", "chi2", "matern"):
            np.testing.assert_array_equal(np.diagonal(K), 1)
        if name == "additive_chi2":
            np.testing.assert_array_equal(np.diagonal(K), 0)


@ALL
def test_every_layout_and_given_outs(level, dtype, rng, name):
    X, Y = cases.samples(name, rng, 21, 13, dtype), cases.samples(name, rng, 18, 13, dtype)
    expected, allowed = cases.kernel_expected(name, X, Y), cases.kernel_tolerance(name, X, Y)
    before = X.tobytes(), Y.tobytes()
    for (first, x), (second, y) in itertools.product(layouts(X), layouts(Y)):
        assert_within(compute(name, x, y), expected, allowed, f"{first}, {second}")
    K = compute(name, X, Y)
    field = np.full((50, 60), 7.5, dtype)
    for cut, transpose in [(np.s_[3:24, 5:23], False), (np.s_[1:43:2, 2:56:3], False), (np.s_[3:21, 5:26], True)]:
        out = field[cut].T if transpose else field[cut]
        assert compute(name, X, Y, out=out) is out
        np.testing.assert_array_equal(out, K)
        out[...] = 7.5
        assert np.all(field == 7.5)
    out = np.full((21, 21), np.nan, dtype)
    assert compute(name, X, out=out) is out
    assert out.tobytes() == compute(name, X).tobytes()
    with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] expected out to overlap no input"):
        compute(name, X[:13], out=X[:13])
    assert (X.tobytes(), Y.tobytes()) == before


@ALL
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_nan_and_inf_stay_in_their_row_and_column(level, dtype, rng, name, poison):
    if name == "geometric" and poison == np.inf:
        pytest.skip("no product with Inf is in the domain")
    for n, m, d in [(19, 35, 11), (9, 8, 3)]:
        X, Y = cases.samples(name, rng, n, d, dtype), cases.samples(name, rng, m, d, dtype)
        clean, alone = compute(name, X, Y), compute(name, X)
        bad = X.copy()
        bad[n // 2, d - 1] = poison
        K = compute(name, bad, Y)
        np.testing.assert_array_equal(np.delete(K, n // 2, 0), np.delete(clean, n // 2, 0))
        if np.isnan(poison):
            assert np.all(np.isnan(K[n // 2]))
        K = compute(name, bad)
        keep = np.ix_(np.arange(n) != n // 2, np.arange(n) != n // 2)
        if name in ("rbf", "matern"):  # distances may be taken from a centre of the samples, which is another now
            assert_within(K[keep], alone[keep], 2 * cases.kernel_tolerance(name, X)[keep])
        else:
            np.testing.assert_array_equal(K[keep], alone[keep])
        if np.isnan(poison):
            assert np.all(np.isnan(K[n // 2])) and np.all(np.isnan(K[:, n // 2]))
        bad = Y.copy()
        bad[m - 1, 0] = poison
        K = compute(name, X, bad)
        if name in ("rbf", "matern"):
            assert_within(K[:, :-1], clean[:, :-1], 2 * cases.kernel_tolerance(name, X, Y)[:, :-1])
        else:
            np.testing.assert_array_equal(K[:, :-1], clean[:, :-1])
        if np.isnan(poison):
            assert np.all(np.isnan(K[:, -1]))


@TRIED
def test_rows_of_zeros(level, dtype, rng, name, params):
    X, Y = cases.samples(name, rng, 9, 6, dtype), cases.samples(name, rng, 7, 6, dtype)
    X[4], Y[2] = 0, 0
    expected, allowed = (make(name, X, Y, **params) for make in (cases.kernel_expected, cases.kernel_tolerance))
    assert_within(compute(name, X, Y, **params), expected, allowed)
    K = compute(name, X, **params)
    assert_within(K, cases.kernel_expected(name, X, **params), cases.kernel_tolerance(name, X, **params))
    if name == "cosine":
        np.testing.assert_array_equal(K[4], 0)


@TRIED
def test_diag(level, dtype, rng, name, params):
    for n, d in [(0, 3), (1, 1), (17, 9), (33, 0)]:
        X = cases.samples(name, rng, n, d, dtype)
        if n > 5:
            X[3] = 0
        found = gram.diag(X, name, **params)
        assert found.shape == (n,) and found.dtype == dtype
        expected = np.diagonal(cases.kernel_expected(name, X, **params))
        assert_within(found, expected, np.diagonal(cases.kernel_tolerance(name, X, **params)))
    bad = cases.samples(name, rng, 5, 4, dtype)
    bad[2, 1] = np.nan
    np.testing.assert_array_equal(np.isnan(gram.diag(bad, name)), np.arange(5) == 2)


class TestDistances:
    """‖x‖² + ‖y‖² − 2 x·y cancels: far from the origin it must not be what is computed."""

    def test_close_samples_far_from_the_origin(self, level, dtype, rng):
        n, d = 70, 24
        # Multiples of a power of two: the samples are exact in float32, and so are their differences.
        steps = rng.integers(-32, 32, (n, d)) / 1024
        X = (1000 + steps).astype(dtype)
        square = (wide(X)[:, None] - wide(X)[None]) ** 2
        square = square.sum(-1)
        off = ~np.eye(n, dtype=bool)
        assert square[off].min() > 0.002 and square[off].max() < 0.1
        gamma = 16.0
        for K in (gram.rbf(X, gamma=gamma), gram.rbf(X, X.copy(), gamma=gamma)):
            # The distance back from K: what exp and the rounding of K add is eps/(γ d²).
            found = -np.log(wide(K)) / gamma
            eps = np.finfo(dtype).eps
            allowed = 1e-5 * square + 8 * eps / gamma
            assert np.all(np.abs(found - square) <= allowed)
        np.testing.assert_array_equal(np.diagonal(gram.rbf(X, gamma=gamma)), 1)
        r = np.sqrt(square)
        for nu, expected in [(0.5, np.exp(-r)), (np.inf, np.exp(-square / 2))]:
            assert np.all(np.abs(gram.matern(X, nu=nu) - expected) <= 1e-5 * r + 8 * np.finfo(dtype).eps)

    def test_the_same_sample_in_both_sets(self, level, dtype, rng):
        X = (1000 + rng.standard_normal((40, 31))).astype(dtype)
        K = gram.rbf(X, X[::-1].copy())
        assert np.all(np.abs(np.diagonal(K[:, ::-1]) - 1) <= 4 * np.finfo(dtype).eps)

    def test_gamma_zero_and_far_apart(self, level, dtype, rng):
        X = rng.standard_normal((9, 5)).astype(dtype)
        np.testing.assert_array_equal(gram.rbf(X, gamma=0), 1)
        far = (X * 1e4).astype(dtype)
        for name in ("rbf", "laplacian", "matern"):
            K = compute(name, far)
            np.testing.assert_array_equal(K, np.eye(9))


class TestMatern:
    def test_other_smoothness_against_mpmath(self, level, dtype):
        mpmath = pytest.importorskip("mpmath")
        pytest.importorskip("scipy")
        r = np.array([0.0, 1e-8, 1e-3, 0.1, 0.7, 2.0, 10.0]).astype(dtype)
        for nu in (0.2, 1.0, 1.7, 3.0, 6.5, 40.0, 200.0):
            K = gram.matern(r[:, None], np.zeros((1, 1), dtype), nu=nu)[:, 0]
            assert K[0] == 1
            for value, found in zip(r, K, strict=True):
                with mpmath.workdps(60):
                    t = mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(float(value))
                    exact = 1 if not t else 2 ** (1 - mpmath.mpf(nu)) / mpmath.gamma(nu) * t**nu * mpmath.besselk(nu, t)
                # Logarithms of size ν log ν are added, each with a rounding error.
                scale = 16 * (4 + nu * (3 + abs(math.log(nu)) + abs(math.log(max(float(value), 1e-9)))))
                allowed = scale * np.finfo(np.float64).eps + np.finfo(dtype).eps
                assert abs(float(found) - float(exact)) <= allowed * max(float(exact), 1e-30), (nu, value)

    def test_half_integers_join_the_closed_forms(self, level, rng):
        pytest.importorskip("scipy")
        X = rng.standard_normal((12, 4))
        for nu in (0.5, 1.5, 2.5):
            near = gram.matern(X, nu=nu * (1 + 1e-9))
            np.testing.assert_allclose(near, gram.matern(X, nu=nu), rtol=0, atol=1e-8)

    def test_a_length_scale_for_each_feature(self, level, dtype, rng):
        X, Y = rng.standard_normal((9, 5)).astype(dtype), rng.standard_normal((7, 5)).astype(dtype)
        scales = np.array([0.5, 1, 2, 4, 8])  # powers of two, so that dividing first is exact
        for nu in (0.5, 1.5, 2.5, np.inf):
            K = gram.matern(X, Y, scales, nu)
            allowed = cases.kernel_tolerance("matern", X, Y, nu=nu)
            expected = cases.kernel_expected("matern", X, Y, length_scale=scales, nu=nu)
            assert_within(K, expected, allowed)
            assert_within(gram.matern((X / scales).astype(dtype), (Y / scales).astype(dtype), nu=nu), expected, allowed)
        np.testing.assert_array_equal(gram.matern(X, length_scale=[2.0] * 5), gram.matern(X, length_scale=2.0))

    def test_without_scipy_a_message(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
        with fastdl.backend("reference"), pytest.raises(ImportError, match=r"^\[gram\.matern\] expected nu of 0.5"):
            gram.matern(np.eye(2), nu=0.7)


class TestIdentities:
    def test_polynomial_of_degree_one_is_linear(self, level, dtype, rng):
        X, Y = rng.standard_normal((15, 9)).astype(dtype), rng.standard_normal((12, 9)).astype(dtype)
        allowed = 3 * cases.linear_tolerance(X, Y)
        assert np.all(np.abs(gram.polynomial(X, Y, 1, 2.0, 0) - 2 * gram.linear(X, Y)) <= allowed)

    def test_a_power_that_is_not_whole(self, level, dtype, rng):
        X = rng.random((9, 5)).astype(dtype)
        base = 0.5 * (wide(X) @ wide(X).T) + 1
        allowed = 40 * np.finfo(dtype).eps * base**2.5
        assert np.all(np.abs(gram.polynomial(X, degree=2.5, gamma=0.5) - base ** np.float64(2.5)) <= allowed)
        assert np.isnan(gram.polynomial(np.ones((1, 1), dtype), -2 * np.ones((1, 1), dtype), 1.5, 1, 0)[0, 0])

    def test_chi2_is_the_exponential_of_the_additive_one(self, level, dtype, rng):
        X, Y = cases.samples("chi2", rng, 15, 9, dtype), cases.samples("chi2", rng, 12, 9, dtype)
        additive = gram.additive_chi2(X, Y)
        allowed = 2 * (9 + 6) * np.finfo(dtype).eps * (1 + np.abs(additive))
        assert np.all(np.abs(gram.chi2(X, Y, 0.5) - np.exp(0.5 * additive)) <= allowed)

    def test_matern_of_infinite_smoothness_is_rbf(self, level, dtype, rng):
        X = rng.standard_normal((15, 9)).astype(dtype)
        allowed = 2 * cases.kernel_tolerance("matern", X, nu=np.inf)
        assert np.all(np.abs(gram.matern(X, nu=math.inf, length_scale=2.0) - gram.rbf(X, gamma=1 / 8)) <= allowed)

    def test_geometric_is_the_sum_of_powers(self, level, dtype, rng):
        X = cases.samples("geometric", rng, 15, 9, dtype)
        dot = wide(X) @ wide(X).T
        expected = sum((0.25 * dot) ** k for k in range(60))
        assert_within(gram.geometric(X, alpha=0.5), expected, cases.kernel_tolerance("geometric", X))

    def test_cosine_has_no_scale(self, level, dtype, rng):
        X = rng.standard_normal((15, 9)).astype(dtype)
        scales = (2.0 ** rng.integers(-20, 20, (15, 1))).astype(dtype)
        allowed = 2 * cases.kernel_tolerance("cosine", X)
        assert np.all(np.abs(gram.cosine(X * scales) - gram.cosine(X)) <= allowed)

    @pytest.mark.parametrize("order", [0, 1, 2])
    def test_arc_cosine_is_an_integral_over_directions(self, level, order):
        """2 E[step(w·x) (w·x)^n step(w·y) (w·y)^n] for a Gaussian w: in polar form, one angle is left to integrate."""
        x, y = np.array([1.3, 0.0]), np.array([0.4, 0.9])
        angles = (np.arange(2_000_000) + 0.5) * (2 * np.pi / 2_000_000)
        w = np.stack([np.cos(angles), np.sin(angles)])
        both = (x @ w > 0) & (y @ w > 0)
        moment = {0: 1, 1: 2, 2: 8}[order]  # E[r^(2n)] for r² exponential with mean 2
        value = 2 * moment * np.mean(np.where(both, (x @ w) ** order * (y @ w) ** order, 0))
        found = gram.arc_cosine(x[None], y[None], order)[0, 0]
        assert abs(found - value) <= 4 / 2_000_000 * max(1, value)

    def test_the_recursion_is_the_theorem(self, level, dtype, rng):
        """Θ = Σ_j S_j Ṡ_(j+1) ⋯ Ṡ_J, with S_j and Ṡ_j from nngp and its angles."""
        X = rng.standard_normal((8, 5)).astype(dtype)
        depth, w, b = 3, 1.3, 0.4
        S = [wide(gram.nngp(X, depth=j, w_std=w, b_std=b)) for j in range(depth + 1)]
        slopes = []
        for j in range(depth):
            size = np.sqrt(np.diagonal(S[j])[:, None] * np.diagonal(S[j])[None])
            theta = np.arccos(np.clip(S[j] / size, -1, 1))
            slopes.append(w**2 * (0.5 - theta / (2 * np.pi)))
        theorem = sum(S[j] * np.prod([np.ones_like(S[0]), *slopes[j:]], axis=0) for j in range(depth + 1))
        allowed = cases.kernel_tolerance("ntk", X, depth=depth, w_std=w, b_std=b)
        # arccos of a rounded cosine adds its own error of the same kind.
        assert np.all(np.abs(gram.ntk(X, depth=depth, w_std=w, b_std=b) - theorem) <= 3 * allowed)

    @pytest.mark.parametrize("name", ["nngp", "ntk"])
    @pytest.mark.parametrize("depth", [9, 64])
    @pytest.mark.parametrize("b_std", [0.0, 0.1])
    def test_any_depth(self, level, dtype, rng, name, depth, b_std):
        X, Y = (rng.standard_normal((n, 20)).astype(dtype) for n in (9, 17))
        params = {"depth": depth, "w_std": 1.4, "b_std": b_std}
        expected = cases.kernel_expected(name, X, Y, **params)
        assert_within(compute(name, X, Y, **params), expected, cases.kernel_tolerance(name, X, Y, **params))
        # Far fewer digits are lost than the bound allows: the roundings of a layer average out.
        np.testing.assert_allclose(
            compute(name, X, Y, **params), expected.astype(np.float64), rtol=4 * depth * np.finfo(dtype).eps
        )

    def test_the_values_of_the_specification(self, level, dtype):
        values = {-1: 0, -0.5: -0.0576688856, 0: 0.3183098862, 0.5: 0.9423311144, 1: 2}
        x = np.array([[1, 0]], dtype)
        eps = np.finfo(dtype).eps
        for u, kappa in values.items():
            y = np.array([[u, math.sqrt(1 - u * u)]], dtype)
            found = gram.ntk(x, y, depth=1, w_std=math.sqrt(2), normalize=False)[0, 0] / 2
            # u is rounded; at ±1 the angle is only as exact as the root of eps, unless the differences are used.
            allowed = 1e-10 + (4 * math.sqrt(8 * eps) if abs(u) == 1 else 60 * eps)
            assert abs(float(found) - kappa) <= allowed, u

    def test_order_one_is_half_the_nngp(self, level, dtype, rng):
        X = rng.standard_normal((9, 5)).astype(dtype)
        allowed = 2 * cases.kernel_tolerance("arc_cosine", X)
        K = gram.nngp(X, depth=1, normalize=False)
        assert np.all(np.abs(2 * K - gram.arc_cosine(X, order=1)) <= 2 * allowed)


class TestReference:
    """The reference is the measure of the compiled code, so it is held to more than they are."""

    @pytest.fixture(autouse=True)
    def on_the_reference(self):
        with fastdl.backend("reference"):
            yield

    @pytest.mark.parametrize("angle", [0, 1e-12, 1e-8, 1e-4, 0.3, math.pi / 2, 3.0, math.pi - 1e-6])
    def test_nearly_parallel_samples_against_mpmath(self, angle):
        mp = pytest.importorskip("mpmath")
        X = np.array([[1.5, 0.25]])
        Y = 0.75 * np.array(
            [[1.5 * math.cos(angle) - 0.25 * math.sin(angle), 1.5 * math.sin(angle) + 0.25 * math.cos(angle)]]
        )
        with mp.workdps(60):
            x, y = [mp.mpf(v) for v in X[0]], [mp.mpf(v) for v in Y[0]]
            xx, yy, xy = (sum(a * b for a, b in zip(u, v, strict=True)) for u, v in ((x, x), (y, y), (x, y)))
            theta = mp.acos(xy / mp.sqrt(xx * yy)) if xx * yy > xy * xy else mp.mpf(0)
            order_zero = 1 - theta / mp.pi
            w, b = mp.mpf(1.3) ** 2, mp.mpf(0.4) ** 2
            xx, yy, xy = (w * value + b for value in (xx, yy, xy))
            tangent = xy
            for _ in range(3):
                theta = mp.acos(min(mp.mpf(1), xy / mp.sqrt(xx * yy)))
                s = mp.sqrt(max(mp.mpf(0), xx * yy - xy * xy))
                share = mp.mpf(1) / 2 - theta / (2 * mp.pi)
                xx, yy, xy = w * xx / 2 + b, w * yy / 2 + b, w * (s / (2 * mp.pi) + share * xy) + b
                tangent = xy + w * tangent * share
        options = {"depth": 3, "w_std": 1.3, "b_std": 0.4, "normalize": False}
        assert abs(gram.arc_cosine(X, Y, 0)[0, 0] - float(order_zero)) <= 1e-15
        assert abs(gram.nngp(X, Y, **options)[0, 0] / float(xy) - 1) <= 4e-15
        assert abs(gram.ntk(X, Y, **options)[0, 0] / float(tangent) - 1) <= 4e-15

    @ALL
    def test_float32_is_rounded_once(self, rng, name):
        X, Y = (cases.samples(name, rng, n, 12, np.float32) for n in (9, 8))
        if name == "linear":
            pytest.skip("a plain product in the precision of its samples")
        K = compute(name, X, Y)
        expected = compute(name, X.astype(np.float64), Y.astype(np.float64))
        np.testing.assert_array_equal(K, expected.astype(np.float32))

    @pytest.mark.parametrize("library", ["torch", "array_api_strict"])
    @TRIED
    def test_other_libraries(self, library, dtype, rng, name, params):
        xp = pytest.importorskip(library)
        X, Y = (cases.samples(name, rng, n, 5, dtype) for n in (9, 7))
        for arguments in ((X, Y), (X,), (X[:0], Y), (X[:, :0],)):
            K = getattr(gram, name)(*map(xp.asarray, arguments), **params)
            assert type(K) is type(xp.asarray(X)) and K.dtype == xp.asarray(X).dtype
            expected = compute(name, *arguments, **params)
            np.testing.assert_allclose(
                np.from_dlpack(K), expected, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6
            )

    def test_blocks_of_rows_change_nothing(self, monkeypatch, rng):
        from fastdl.reference import pairs

        results = {}
        for size in (pairs.BLOCK, 100):
            monkeypatch.setattr(pairs.row_blocks, "__defaults__", (size,))
            for name in NAMES:
                generator = np.random.default_rng(3)
                X, Y = (cases.samples(name, generator, n, 6, np.float64) for n in (9, 7))
                results.setdefault(name, []).append((compute(name, X, Y), compute(name, X)))
        for first, second in results.values():
            for a, b in zip(first, second, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)


@functools.cache
def random_networks():
    """Products of outputs, and of gradients, of wide random networks with two hidden layers of ReLU."""
    rng = np.random.default_rng(7)
    n, d, width, w, b, networks = 4, 5, 256, 1.3, 0.3, 400
    X = rng.standard_normal((n, d))
    outputs, tangents = [], []
    for _ in range(networks):
        weights = [rng.standard_normal(shape) for shape in ((width, d), (width, width), (1, width))]
        inputs, before, h = [], [], X
        for weight in weights:
            inputs.append(h)
            before.append(w / math.sqrt(weight.shape[1]) * h @ weight.T + b * rng.standard_normal(weight.shape[0]))
            h = np.maximum(before[-1], 0)
        outputs.append(before[-1] @ before[-1].T)
        # The gradient of the output by every weight and bias, times the scale of that weight or bias.
        slope, total = np.ones((n, 1)), np.zeros((n, n))
        for layer in (2, 1, 0):
            size = weights[layer].shape[1]
            total += (slope @ slope.T) * (w * w / size * inputs[layer] @ inputs[layer].T + b * b)
            if layer:
                slope = (w / math.sqrt(size) * slope @ weights[layer]) * (before[layer - 1] > 0)
        tangents.append(total)
    return X, {"depth": 2, "w_std": w, "b_std": b}, width, np.array(outputs), np.array(tangents)


def test_random_networks_approach_their_kernels(level):
    X, options, width, outputs, tangents = random_networks()
    for found, expected in [(outputs, gram.nngp(X, **options)), (tangents, gram.ntk(X, **options))]:
        error = np.std(found, axis=0) / math.sqrt(len(found))
        # Five standard errors, and the first correction for the finite width.
        allowed = 5 * error + 4 / width * np.abs(np.diagonal(expected)).max()
        assert np.all(np.abs(np.mean(found, axis=0) - expected) <= allowed)


class TestErrors:
    @ALL
    def test_shapes(self, level, name):
        ok = np.ones((4, 3)) / 4
        out = np.full((4, 4), 7.5)
        for arguments, message in [
            ((np.ones(3),), r"expected X of shape \(n, d\), got \(3,\)"),
            ((ok, np.ones((2, 4))), r"expected Y of shape \(m, 3\), got \(2, 4\)"),
            ((ok, np.ones(3)), r"expected Y of shape \(m, 3\), got \(3,\)"),
        ]:
            with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] {message}"):
                compute(name, *arguments, out=out)
        with pytest.raises(TypeError, match=rf"^\[gram\.{name}\] expected X of dtype"):
            compute(name, ok.astype(complex), out=out)
        with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] expected out of shape \(4, 4\)"):
            compute(name, ok, out=np.zeros((4, 5)))
        np.testing.assert_array_equal(out, 7.5)

    @pytest.mark.parametrize(
        "name, params, error, message",
        [
            ("polynomial", {"degree": 0.5}, ValueError, "expected degree to be a finite number of at least 1, got 0.5"),
            ("polynomial", {"gamma": np.inf}, ValueError, "expected gamma to be a finite number, or None, got inf"),
            ("polynomial", {"coef0": np.nan}, ValueError, "expected coef0 to be a finite number, got nan"),
            ("polynomial", {"degree": "3"}, TypeError, "expected degree to be .*, got str"),
            ("sigmoid", {"gamma": True}, TypeError, "expected gamma to be .*, got bool"),
            ("rbf", {"gamma": -1e-9}, ValueError, "expected gamma to be a number of at least 0, or None, got -1e-09"),
            ("rbf", {"gamma": np.nan}, ValueError, "expected gamma .*, got nan"),
            ("rbf", {"gamma": 1j}, TypeError, "expected gamma .*, got complex"),
            ("laplacian", {"gamma": 0}, ValueError, "expected gamma to be a number above 0, or None, got 0"),
            ("chi2", {"gamma": 0.0}, ValueError, "expected gamma to be a number above 0, got 0"),
            ("chi2", {"gamma": None}, TypeError, "expected gamma .*, got None"),
            ("matern", {"nu": 0}, ValueError, "expected nu to be a number above 0, or inf, got 0"),
            ("matern", {"nu": np.nan}, ValueError, "expected nu .*, got nan"),
            ("matern", {"length_scale": 0}, ValueError, "expected length_scale to be a number above 0, got 0"),
            (
                "matern",
                {"length_scale": [1, 2]},
                ValueError,
                r"expected length_scale of shape \(3,\) or a number, got \(2,\)",
            ),
            (
                "matern",
                {"length_scale": [1, -2, 1]},
                ValueError,
                "expected length_scale to be above 0 in every feature",
            ),
            ("matern", {"length_scale": ["a", "b", "c"]}, TypeError, "expected length_scale"),
            ("matern", {"length_scale": [1, [2], 3]}, ValueError, "expected length_scale to be a rectangular array"),
            ("matern", {"length_scale": [1, 2j, 3]}, TypeError, "expected length_scale to be a number or 3 numbers"),
            ("matern", {"length_scale": None}, TypeError, "expected length_scale to be a number or 3 numbers"),
            ("geometric", {"alpha": 1}, ValueError, "expected alpha to be a number between 0 and 1, got 1"),
            ("geometric", {"alpha": 0.0}, ValueError, "expected alpha"),
            ("sinc", {"omega": 0}, ValueError, "expected omega to be a number above 0, got 0"),
            ("arc_cosine", {"order": 3}, ValueError, "expected order to be 0, 1 or 2, got 3"),
            ("arc_cosine", {"order": 1.0}, TypeError, "expected order to be 0, 1 or 2, got float"),
            ("nngp", {"depth": -1}, ValueError, "expected depth to be a whole number from 0 to 1000000, got -1"),
            ("ntk", {"w_std": -1}, ValueError, "expected w_std to be a number of at least 0, got -1"),
            ("ntk", {"b_std": np.inf}, ValueError, "expected b_std"),
            ("ntk", {"normalize": 1}, TypeError, "expected normalize to be True or False, got int"),
            ("ntk", {"depth": True}, TypeError, "expected depth"),
        ],
    )
    def test_parameters(self, level, name, params, error, message):
        X = np.ones((4, 3)) / 4
        out = np.full((4, 4), 7.5)
        with pytest.raises(error, match=rf"^\[gram\.{name}\] {message}"):
            compute(name, X, out=out, **params)
        with pytest.raises(error, match=rf"^\[gram\.diag\] {message}"):
            gram.diag(X, name, **params)
        with pytest.raises(error, match=rf"^\[gram\.matvec\] {message}"):
            gram.matvec(X, np.ones(4), None, name, **params)
        np.testing.assert_array_equal(out, 7.5)

    @pytest.mark.parametrize("name", ["chi2", "additive_chi2"])
    def test_negative_histograms(self, level, dtype, name):
        X, Y = np.ones((4, 3), dtype), np.ones((5, 3), dtype)
        Y[4, 2] = -1e-30
        out = np.full((4, 5), 7.5, dtype)
        with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] expected Y without negative elements"):
            compute(name, X, Y, out=out)
        with pytest.raises(ValueError, match=rf"^\[gram\.{name}\] expected X without negative elements"):
            compute(name, Y, X)
        for function, arguments in [(gram.diag, (Y,)), (gram.distance, (Y,)), (gram.matvec, (Y, np.ones(5, dtype)))]:
            with pytest.raises(ValueError, match="expected X without negative elements"):
                function(*arguments, kernel=name)
        np.testing.assert_array_equal(out, 7.5)
        X[1, 1] = np.nan
        Y[4, 2] = -0.0
        np.testing.assert_array_equal(np.isnan(compute(name, X, Y)), np.arange(4)[:, None] == np.ones(5))

    def test_geometric_outside_its_limits(self, level, dtype):
        X = np.array([[3, 0], [0, 3]], dtype)
        out = np.full((2, 2), 7.5, dtype)
        with pytest.raises(
            ValueError, match=r"^\[gram\.geometric\] expected \|alpha² x·y\| below 1 for all pairs, got 2.25"
        ):
            gram.geometric(X, out=out)
        np.testing.assert_array_equal(out, 7.5)
        # The norms alone would refuse these, the products do not.
        np.testing.assert_array_equal(gram.geometric(X[:1], X[1:]), 1)
        with pytest.raises(ValueError, match="below 1"):
            gram.geometric(np.array([[1.0]]), np.array([[-4.0]]))
        with pytest.raises(ValueError, match=r"^\[gram\.diag\] .*below 1"):
            gram.diag(X, "geometric")
        assert gram.geometric(X[:0], X).shape == (0, 2)


def test_scikit_learn_takes_the_functions_as_kernels(rng):
    svm = pytest.importorskip("sklearn.svm")
    X = rng.standard_normal((40, 3))
    labels = (X[:, 0] > 0).astype(int)
    assert svm.SVC(kernel=gram.rbf).fit(X, labels).score(X, labels) > 0.9


@pytest.mark.parametrize("name", ["polynomial", "rbf", "laplacian", "sigmoid", "cosine", "chi2", "additive_chi2"])
def test_the_same_as_scikit_learn(level, name, rng):
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    X, Y = cases.samples("chi2", rng, 17, 5, np.float64), cases.samples("chi2", rng, 13, 5, np.float64)
    theirs = {"cosine": "cosine_similarity"}.get(name, f"{name}_kernel")
    np.testing.assert_allclose(compute(name, X, Y), getattr(pairwise, theirs)(X, Y), rtol=1e-12, atol=1e-13)
