"""Scattering of signals and images: against its definition in float64, and what it promises."""

import time

import numpy as np
import pytest

import fastdl
from cases import scattering_formulas as formulas
from fastdl.scattering import Scattering1D, Scattering2D

TOLERANCE = {"float32": 1e-5, "float64": 1e-7}


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def close(found, expected, dtype, factor=1.0):
    assert found.dtype == dtype and found.shape == expected.shape
    assert relative(found, expected) <= factor * TOLERANCE[dtype.name]


IMAGES = [
    dict(J=2, shape=(32, 32), L=8),
    dict(J=3, shape=(32, 32), L=4),
    dict(J=1, shape=(7, 9), L=3),
    dict(J=2, shape=(19, 28), L=6, max_order=1),
    dict(J=3, shape=(8, 13), L=2),
    dict(J=2, shape=(5, 4), L=1),
    dict(J=4, shape=(17, 16), L=2),
]
SIGNALS = [
    dict(J=4, shape=300, Q=3),
    dict(J=3, shape=64, Q=(2, 2)),
    dict(J=5, shape=777, Q=1, T=20),
    dict(J=3, shape=100, Q=12, oversampling=2),
    dict(J=6, shape=64, Q=1),
    dict(J=4, shape=256, Q=8, max_order=1, normalization="mean"),
    dict(J=4, shape=513, Q=(5, 2), T=100, normalization="mean"),
    dict(J=5, shape=1000, Q=4, T=3),
]


def images_of(arguments, x):
    arguments = {key: value for key, value in arguments.items() if key != "shape"}
    return formulas.scattering2d(x, **arguments)


def signals_of(S, x):
    return formulas.scattering1d(x, S.meta(), S.N_padded, S.T, S.oversampling, S.max_order, S.normalization)


class TestAgainstTheDefinition:
    @pytest.mark.parametrize("arguments", IMAGES, ids=str)
    def test_images(self, level, dtype, rng, arguments):
        for batch in ((), (1,), (3, 3)):
            x = rng.standard_normal((*batch, *arguments["shape"])).astype(dtype)
            close(Scattering2D(**arguments)(x), images_of(arguments, x), dtype)

    def test_a_batch_of_more_than_a_vector(self, level, dtype, rng):
        x = rng.standard_normal((37, 12, 10)).astype(dtype)
        close(Scattering2D(2, (12, 10), L=3)(x), formulas.scattering2d(x, 2, 3), dtype)

    def test_images_that_are_padded(self, level, dtype, rng):
        S = Scattering2D(2, (13, 16), L=4, pre_pad=True)
        assert S.padded_shape == (20, 24)
        x = rng.standard_normal((2, 20, 24)).astype(dtype)
        close(S(x), formulas.scattering2d(x, 2, 4, pre_pad=True), dtype)

    def test_any_number_of_averages(self, level, dtype, rng):
        """Down and across, odd and even numbers of them, on grids with and without places that are their own image."""
        for n in range(2, 36):
            arguments = dict(J=1, shape=(n, 37 - n), L=1)
            x = rng.standard_normal((2, *arguments["shape"])).astype(dtype)
            S = Scattering2D(**arguments)
            close(S(x), images_of(arguments, x), dtype)
            # Order 0 is linear: its gradient is the adjoint.
            grad = np.zeros_like(S(x))
            grad[:, 0] = rng.standard_normal(grad[:, 0].shape)
            there, back = np.sum(S(x) * grad, dtype=float), np.sum(x * S.vjp(x, grad), dtype=float)
            size = np.linalg.norm(S(x)[:, 0]) * np.linalg.norm(grad)
            assert abs(there - back) <= TOLERANCE[dtype.name] * size

    @pytest.mark.parametrize("arguments", SIGNALS, ids=str)
    def test_signals(self, level, dtype, rng, arguments):
        S = Scattering1D(**arguments)
        for batch in ((), (2,), (3, 7)):
            x = rng.standard_normal((*batch, arguments["shape"])).astype(dtype)
            close(S(x), signals_of(S, x), dtype)

    def test_unaveraged(self, level, dtype, rng):
        S = Scattering1D(4, 200, 3, T=0, out_type="dict")
        whole = Scattering1D(4, 200, 3)
        x = rng.standard_normal((2, 200)).astype(dtype)
        paths = S(x)
        assert list(paths) == whole.meta()["key"]
        np.testing.assert_array_equal(paths[()], x)
        n, left = S.N_padded, S.pad_left
        for path, (xi, _), (sigma, _), (j, _) in zip(
            paths, *(whole.meta()[key] for key in ("xi", "sigma", "j")), strict=True
        ):
            if len(path) == 1:
                padded = np.pad(x.astype(float), ((0, 0), (left, n - left - 200)), mode="reflect")
                u = abs(formulas.filtered(padded, formulas.morlet1d(n, xi, sigma), 2 ** int(j)))
                close(paths[path], u[:, -(-left // 2 ** int(j)) : -(-(left + 200) // 2 ** int(j))], dtype)

    def test_moments(self, level, dtype, rng):
        S = Scattering2D(2, (16, 20), L=3)
        x = rng.standard_normal((5, 16, 20)).astype(dtype)
        found = S.moments(x)
        assert found.dtype == dtype and found.shape == (5, S.output_size())
        padded = np.pad(x.astype(float), ((0, 0), (4, 4), (4, 4)), mode="reflect")
        u = abs(formulas.filtered(padded, formulas.morlet((24, 28), 1, 2, 3), 2))
        expected = u[:, 2:10, 2:12].mean((1, 2))
        np.testing.assert_allclose(found[:, 0], x.astype(float).mean((1, 2)), rtol=0, atol=1e-5)
        np.testing.assert_allclose(found[:, 1 + 3 + 2], expected, rtol=TOLERANCE[dtype.name])


class TestGradients:
    @pytest.mark.parametrize(
        "S",
        [
            Scattering2D(2, (12, 15), L=3),
            Scattering2D(3, (9, 8), L=2),
            Scattering2D(2, (16, 16), L=8, max_order=1),
            Scattering1D(3, 50, 3),
            Scattering1D(4, 33, (2, 2), T=5, oversampling=1),
        ],
        ids=str,
    )
    def test_against_differences(self, level, rng, S):
        x = rng.standard_normal((3, *S.shape))
        for forward, backward in ((S, S.vjp), (S.moments, S.moments_vjp)):
            grad = rng.standard_normal(forward(x).shape)
            along = rng.standard_normal(x.shape)
            step = 1e-5
            expected = ((forward(x + step * along) - forward(x - step * along)) * grad).sum() / (2 * step)
            found = backward(x, grad)
            assert found.shape == x.shape
            np.testing.assert_allclose((found * along).sum(), expected, rtol=1e-5)
            single = backward(x.astype(np.float32), grad.astype(np.float32))
            assert single.dtype == np.float32 and relative(single, found) < 2e-4

    def test_is_finite_at_zero(self, level, dtype):
        for S in (Scattering2D(2, (8, 8), L=2), Scattering1D(3, 32)):
            zero = np.zeros((2, *S.shape), dtype)
            assert np.isfinite(S.vjp(zero, np.ones_like(S(zero)))).all()

    def test_of_lists_and_dicts(self, level, rng):
        x = rng.standard_normal((2, 8, 8))
        S = Scattering2D(1, (8, 8), L=2)
        expected = S.vjp(x, S(x))
        for out_type in ("list", "dict"):
            T = Scattering2D(1, (8, 8), L=2, out_type=out_type)
            np.testing.assert_array_equal(T.vjp(x, T(x)), expected)

    def test_of_paths_that_are_not_averaged(self, level, rng):
        S = Scattering1D(3, 40, T=0, out_type="list")
        x, along, step = rng.standard_normal((2, 40)), rng.standard_normal((2, 40)), 1e-6
        grads = [rng.standard_normal(path["coef"].shape) for path in S(x)]
        up, down = S(x + step * along), S(x - step * along)
        expected = sum(((a["coef"] - b["coef"]) * g).sum() for a, b, g in zip(up, down, grads, strict=True)) / step / 2
        np.testing.assert_allclose((S.vjp(x, grads) * along).sum(), expected, rtol=1e-6)


class TestProperties:
    def test_contracts(self, level, rng):
        S = Scattering2D(3, (32, 32))
        x, y = rng.standard_normal((2, 32, 32)), rng.standard_normal((2, 32, 32))
        # The filters' Littlewood-Paley sum is about 1; samples of the result are 4^J times as few.
        assert np.linalg.norm(S(x) - S(y)) * 2**3 <= 1.2 * np.linalg.norm(x - y)

    def test_small_shifts_change_little(self, level, rng):
        S = Scattering2D(4, (64, 64))
        x = np.zeros((64, 64))
        x[20:44, 24:40] = rng.standard_normal((24, 16))
        assert relative(S(np.roll(x, 1, 0)), S(x)) < 0.1 < relative(np.roll(x, 1, 0), x)

    def test_rotations_permute_angles(self, level, rng):
        # On a torus, a rotation by a quarter about the origin is exact.
        S = Scattering2D(1, (16, 16), L=4, pre_pad=True)
        x = rng.standard_normal(S.padded_shape)
        turned = np.roll(np.rot90(x, 1), 1, 0)
        u = S.moments(x)[1:]
        np.testing.assert_allclose(S.moments(turned)[1:], np.roll(u, 2), rtol=1e-9)

    def test_constant_images_have_no_moduli(self, level, dtype):
        result = Scattering2D(2, (16, 16))(np.ones((1, 16, 16), dtype))
        np.testing.assert_allclose(result[:, 0], 1, rtol=1e-4)
        assert np.abs(result[:, 1:]).max() < 1e-5


class TestArrays:
    def test_layouts(self, level, dtype, rng):
        S = Scattering2D(2, (12, 9), L=2)
        x = rng.standard_normal((4, 3, 12, 9)).astype(dtype)
        expected = S(x)
        for other in (np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2], x[::-1, :, ::-1].copy()[::-1, :, ::-1]):
            np.testing.assert_array_equal(S(other), expected)
        readonly = x.copy()
        readonly.flags.writeable = False
        np.testing.assert_array_equal(S(readonly), expected)
        np.testing.assert_array_equal(S(x[1, 2]), S(x[1:2, 2:3])[0, 0])

    def test_empty(self, level, dtype):
        assert Scattering2D(2, (8, 8), L=2)(np.ones((0, 3, 8, 8), dtype)).shape == (0, 3, 9, 2, 2)
        assert Scattering1D(2, 8)(np.ones((0, 8), dtype)).shape[0] == 0
        S = Scattering2D(2, (8, 8), L=2)
        assert S.vjp(np.ones((0, 8, 8), dtype), np.ones((0, 9, 2, 2), dtype)).shape == (0, 8, 8)

    def test_not_finite_stays_with_its_image(self, level, dtype, rng):
        S = Scattering2D(2, (12, 12), L=2)
        x = rng.standard_normal((11, 12, 12)).astype(dtype)
        expected = S(x)
        x[4, 3, 3] = np.nan
        found = S(x)
        assert np.isnan(found[4]).any()
        np.testing.assert_array_equal(np.delete(found, 4, 0), np.delete(expected, 4, 0))

    def test_integers_are_doubles(self, level):
        x = np.arange(64).reshape(8, 8)
        np.testing.assert_array_equal(Scattering2D(1, (8, 8), L=2)(x), Scattering2D(1, (8, 8), L=2)(x.astype(float)))

    @pytest.mark.parametrize("library", ["torch", "array_api_strict"])
    def test_other_libraries(self, level, rng, library):
        xp = pytest.importorskip(library)
        x = rng.standard_normal((2, 8, 9))
        S = Scattering2D(2, (8, 9), L=2)
        found = S(xp.asarray(x))
        assert type(found).__module__.startswith(library)
        assert relative(np.asarray(found), S(x)) < 1e-14
        back = S.vjp(xp.asarray(x), found)
        assert relative(np.asarray(back), S.vjp(x, S(x))) < 1e-13
        assert relative(np.asarray(S.moments(xp.asarray(x))), S.moments(x)) < 1e-14

    def test_threads(self, native, dtype, rng, keep_threads):
        x = rng.standard_normal((21, 16, 16)).astype(dtype)
        few = rng.standard_normal((1, 40, 40)).astype(dtype)
        signals = rng.standard_normal((3, 500)).astype(dtype)
        cases = [(Scattering2D(2, (16, 16)), x), (Scattering2D(2, (40, 40)), few), (Scattering1D(4, 500, 8), signals)]
        for S, data in cases:
            results = []
            for count in (1, 2, 3):
                fastdl.set_num_threads(count)
                results.append((S(data), S.vjp(data, S(data)), S.moments(data)))
            for other in results[1:]:
                for found, expected in zip(other, results[0], strict=True):
                    np.testing.assert_array_equal(found, expected)

    def test_a_batch_is_its_signals(self, native_level, dtype, rng):
        S = Scattering2D(2, (16, 16))
        x = rng.standard_normal((5, 16, 16)).astype(dtype)
        whole = S(x)
        for i in range(5):
            assert relative(S(x[i]), whole[i]) < 4 * np.finfo(dtype).eps ** 0.9


class TestForms:
    def test_lists_and_dicts(self, level, rng):
        x = rng.standard_normal((2, 16, 16))
        array = Scattering2D(2, (16, 16), L=3)(x)
        paths = Scattering2D(2, (16, 16), L=3, out_type="list")(x)
        table = Scattering2D(2, (16, 16), L=3, out_type="dict")(x)
        meta = Scattering2D(2, (16, 16), L=3).meta()
        for channel, path in enumerate(paths):
            np.testing.assert_array_equal(path["coef"], array[:, channel])
            np.testing.assert_array_equal(table[path["n"]], array[:, channel])
            assert path["n"] == meta["key"][channel] and len(path["j"]) == meta["order"][channel]
            assert all(j == meta["j"][channel, i] for i, j in enumerate(path["j"]))
            assert all(t == meta["theta"][channel, i] for i, t in enumerate(path["theta"]))
        assert paths[-1]["j"] == (0, 1) and paths[-1]["theta"] == (2, 2)

    def test_sizes(self):
        S = Scattering2D(3, (32, 32))
        assert S.output_size() == 217 and S.output_size(detail=True) == (1, 24, 192)
        assert Scattering1D(6, 8192, 8).output_size(detail=True) == [1, 38, 87]

    def test_littlewood_paley(self):
        psi, phi = Scattering2D(3, (64, 64)).psi, Scattering2D(3, (64, 64)).phi
        total = sum(p["levels"][0] ** 2 for p in psi)
        total = 0.5 * (total + np.roll(total[::-1, ::-1], (1, 1), (0, 1))) + phi["levels"][0] ** 2
        assert total.max() < 1.5

    @pytest.mark.alone
    def test_a_bank_is_built_quickly_and_once(self):
        start = time.perf_counter()
        Scattering2D(4, (256, 254))
        assert time.perf_counter() - start < 2  # 0.1 s on an idle machine
        start = time.perf_counter()
        Scattering2D(4, (256, 254))
        assert time.perf_counter() - start < 0.01

    def test_parameters_may_be_changed_later(self, rng):
        S = Scattering1D(4, 100, 2)
        S.max_order = 1
        S.oversampling = 1
        x = rng.standard_normal(100)
        np.testing.assert_array_equal(S(x), Scattering1D(4, 100, 2, max_order=1, oversampling=1)(x))


class TestErrors:
    @pytest.mark.parametrize(
        "arguments, error, words",
        [
            (dict(J=0, shape=(8, 8)), ValueError, "J to be a whole number of at least 1"),
            (dict(J=4, shape=(8, 32)), ValueError, r"2\*\*J of at most 8"),
            (dict(J=2.5, shape=(8, 8)), TypeError, "J to be a whole number"),
            (dict(J=2, shape=(8,)), ValueError, "shape to be 2 whole numbers"),
            (dict(J=2, shape=8), TypeError, "shape to be 2 whole numbers"),
            (dict(J=2, shape=(8, 8), L=0), ValueError, "L to be"),
            (dict(J=2, shape=(8, 8), max_order=3), ValueError, "max_order"),
            (dict(J=2, shape=(8, 8), out_type="tensor"), ValueError, "out_type"),
            (dict(J=2, shape=(8, 8), pre_pad=1), TypeError, "pre_pad"),
        ],
    )
    def test_images(self, arguments, error, words):
        with pytest.raises(error, match=rf"^\[scattering.Scattering2D\] expected .*{words}.*, got"):
            Scattering2D(**arguments)

    @pytest.mark.parametrize(
        "arguments, error, words",
        [
            (dict(J=0, shape=100), ValueError, "J to be"),
            (dict(J=7, shape=100), ValueError, r"2\*\*J of at most 100"),
            (dict(J=3, shape=100, T=101), ValueError, "T of at most 100"),
            (dict(J=3, shape=100, T=0.5), ValueError, "T to be 0 or"),
            (dict(J=3, shape=100, T="8"), TypeError, "T to be a number"),
            (dict(J=3, shape=100, T=0), ValueError, "out_type"),
            (dict(J=3, shape=(100, 2)), ValueError, "shape"),
            (dict(J=3, shape=100, Q=0), ValueError, "Q to be"),
            (dict(J=3, shape=100, Q=(1, 2, 3)), ValueError, "Q to be"),
            (dict(J=3, shape=100, oversampling=-1), ValueError, "oversampling"),
            (dict(J=3, shape=100, normalization="l2"), ValueError, "normalization"),
        ],
    )
    def test_signals(self, arguments, error, words):
        with pytest.raises(error, match=rf"^\[scattering.Scattering1D\] expected .*{words}.*, got"):
            Scattering1D(**arguments)

    def test_arrays(self, level):
        S = Scattering2D(2, (8, 9), L=2)
        with pytest.raises(ValueError, match=r"\[scattering.scattering2d\] expected x of shape \(\.\.\., 8, 9\), got"):
            S(np.ones((3, 9, 8)))
        with pytest.raises(ValueError, match="expected x of shape"):
            S(np.ones(9))
        for dtype in (np.float16, np.complex64, object, "U3"):
            with pytest.raises(TypeError, match="expected x of dtype float32, float64, integer or bool, got"):
                S(np.ones((8, 9)).astype(dtype))
        with pytest.raises(TypeError, match="expected x to be an array, got None"):
            S(None)
        with pytest.raises(ValueError, match=r"expected grad of shape \(9, 2, 2\), got"):
            S.vjp(np.ones((8, 9)), np.ones((9, 2, 3)))
        with pytest.raises(ValueError, match=r"expected grad of shape \(9,\), got"):
            S.moments_vjp(np.ones((8, 9)), np.ones(8))
        with pytest.raises(ValueError, match="expected x of shape"):
            Scattering1D(2, 8)(np.ones((3, 9)))


@pytest.fixture
def kymatio():
    """Import its NumPy frontends; the package itself asks SciPy for a function that was renamed."""
    special = pytest.importorskip("scipy.special")
    if not hasattr(special, "sph_harm"):
        special.sph_harm = lambda m, n, theta, phi: special.sph_harm_y(n, m, phi, theta)
    return pytest.importorskip("kymatio.numpy")


class TestAgainstKymatio:
    def test_images(self, level, kymatio, rng):
        x = rng.standard_normal((2, 24, 31))
        ours, theirs = Scattering2D(3, (24, 31), L=6), kymatio.Scattering2D(3, (24, 31), L=6)
        assert relative(ours(x), theirs(x)) < 1e-6
        for mine, other in zip(ours.psi, theirs.psi, strict=True):
            assert mine["j"] == other["j"] and mine["theta"] == other["theta"]
            for a, b in zip(mine["levels"], other["levels"], strict=True):
                assert np.abs(a - b).max() < 1e-5

    def test_signals(self, level, kymatio, rng):
        x = rng.standard_normal((2, 1000))
        for options in (dict(Q=8), dict(Q=(4, 2), T=100), dict(Q=2, oversampling=2, max_order=1)):
            ours = Scattering1D(5, 1000, normalization="mean", **options)
            theirs = kymatio.Scattering1D(5, 1000, **options)
            assert relative(ours(x), theirs(x)) < 1e-7
            for key in ("order", "xi", "sigma", "j", "n"):
                np.testing.assert_allclose(ours.meta()[key], theirs.meta()[key], rtol=1e-12)
            assert ours.meta()["key"] == theirs.meta()["key"]
            for name in ("pad_left", "pad_right", "ind_start", "ind_end", "log2_T", "Q", "T"):
                assert getattr(ours, name) == getattr(theirs, name)
            assert ours.output_size(detail=True) == theirs.output_size(detail=True)


class TestFilterBank:
    @pytest.mark.parametrize("size, J, L", [(8, 3, 32), (12, 3, 64), (32, 2, 8)])
    def test_is_the_sum_over_five_periods(self, size, J, L):
        """Also where wavelets are as wide as the image, and the sum is not symmetric."""
        S = Scattering2D(J, (size, size), L=L, max_order=1)
        n = S.padded_shape[0]
        u, v = np.mgrid[-2 * n : 3 * n, -2 * n : 3 * n]
        j, t = J - 1, L - 2
        angle = (int(L - L / 2 - 1) - t) * np.pi / L
        sigma, slant, xi = 0.8 * 2**j, 4.0 / L, 0.75 * np.pi / 2**j
        along, across = u * np.cos(angle) + v * np.sin(angle), v * np.cos(angle) - u * np.sin(angle)
        envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
        fold = lambda a: a.reshape(5, n, 5, n).sum((0, 2))  # noqa: E731
        low, wave = fold(envelope), fold(envelope * np.exp(1j * xi * along))
        expected = (wave - wave.sum() / low.sum() * low) / (2 * 3.1415 * sigma**2 / slant)
        found = S.psi[j * L + t]["levels"][0]
        np.testing.assert_allclose(found, np.fft.fft2(expected).real, atol=1e-10 * np.abs(found).max())

    def test_is_not_changed_from_outside(self, level, rng):
        """Objects of one kind share their filters: those given out are read-only, or copies."""
        S, x = Scattering2D(2, (16, 16), L=2), rng.standard_normal((16, 16))
        expected = S(x)
        for array in (*S.phi["levels"], *(one for psi in S.psi for one in psi["levels"])):
            if array.flags.writeable:
                array[...] = 0
        np.testing.assert_array_equal(Scattering2D(2, (16, 16), L=2)(x), expected)

    def test_max_order_may_be_changed(self, rng):
        S, x = Scattering2D(2, (16, 16), L=4), rng.standard_normal((2, 16, 16))
        both = S(x)
        S.max_order = 1
        np.testing.assert_allclose(S(x), both[:, :9], atol=1e-12)
        assert S.output_size() == 9 and len(S.meta()["order"]) == 9
        S.max_order = 3
        with pytest.raises(ValueError, match="expected max_order"):
            S(x)


class TestRange:
    """The transform of c x is c times that of x, and its gradient the same."""

    @pytest.mark.parametrize("make", [lambda: Scattering2D(2, (16, 16), L=2), lambda: Scattering1D(3, 64, Q=2)])
    @pytest.mark.parametrize("exponent", [-80, 80])
    def test_squares_beyond_the_type(self, level, dtype, rng, make, exponent):
        S = make()
        if dtype == np.float64:
            exponent *= 7
        x = rng.standard_normal((3, *np.atleast_1d(S.shape))).astype(dtype)
        scales = np.ldexp(np.ones(3, dtype), [0, exponent, exponent // 2]).reshape(3, *(1,) * (x.ndim - 1))
        grad = rng.standard_normal(S(x).shape).astype(dtype)
        allowed = 1e-5 if dtype == np.float32 else 1e-12
        factor = scales.reshape(3).astype(np.float64)
        for found, expected in (
            (np.moveaxis(S(x * scales), 0, -1) / factor, np.moveaxis(S(x), 0, -1)),
            (S.vjp(x * scales, grad), S.vjp(x, grad)),
            (S.moments(x * scales).T / factor, S.moments(x).T),
        ):
            assert np.abs(found - expected).max() <= allowed * np.abs(expected).max()
