"""Solid harmonic and roto-translation scattering, and the wavelet cascade: definitions and identities."""

import numpy as np
import pytest

from fastdl.scattering import (
    HarmonicScattering3D,
    RotoTranslationScattering2D,
    inverse_wavelet_transform2d,
    wavelet_transform2d,
)

TOLERANCE = {"float32": 1e-5, "float64": 1e-7}


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def harmonics(shape, degree, sigma):
    """Solid harmonics of degree 1 and 2 by their Cartesian formulas; polar angles are measured from -z."""
    z, y, x = np.meshgrid(
        *(2 * np.pi * np.fft.ifftshift(np.arange(-n // 2, -n // 2 + n)) / n for n in shape), indexing="ij"
    )
    gauss = np.exp(-(x * x + y * y + z * z) * sigma**2 / 2)
    if degree == 0:
        return gauss[None] + 0j
    plus, z = x + 1j * y, -z
    if degree == 1:
        a, b = np.sqrt(3 / (8 * np.pi)), np.sqrt(3 / (4 * np.pi))
        Y = [a * plus.conj(), b * z + 0j, -a * plus]
        c = 1 / (2**2 * np.sqrt(np.pi * 3))
    else:
        a, b, c = np.sqrt(15 / (32 * np.pi)), np.sqrt(15 / (8 * np.pi)), np.sqrt(5 / (16 * np.pi))
        square = x * x + y * y + z * z
        Y = [a * plus.conj() ** 2, b * plus.conj() * z, c * (3 * z * z - square) + 0j, -b * plus * z, a * plus**2]
        c = 1 / (2 * np.pi * np.sqrt(2.5) * 3)
    return np.array(Y) * c * (2 * np.pi) ** 1.5 * (-1j) ** degree * sigma**degree * gauss


def harmonic(x, J, L, sigma_0, powers, max_order=2):
    def modulus(u, degree, j):
        z = np.fft.ifftn(
            np.fft.fftn(u, axes=(-3, -2, -1))[..., None, :, :, :] * harmonics(x.shape[-3:], degree, sigma_0 * 2**j),
            axes=(-3, -2, -1),
        )
        return np.sqrt((abs(z) ** 2).sum(-4))

    ones, twos = [], []
    for j1 in range(J + 1):
        u = [modulus(x, degree, j1) for degree in range(L + 1)]
        ones.append(u)
        if max_order == 2:
            for j2 in range(j1 + 1, J + 1):
                twos.append([modulus(v, degree, j2) for degree, v in enumerate(u)])
    values = np.array(ones + twos)  # (scales, l, ..., volume)
    sums = np.stack([(values**p).sum((-3, -2, -1)) for p in powers], -1)
    return np.moveaxis(sums, (0, 1), (-3, -2))


class TestHarmonic:
    @pytest.mark.parametrize("shape", [(8, 8, 8), (7, 10, 12)])
    def test_against_the_definition(self, level, dtype, rng, shape):
        x = rng.standard_normal((2, 3, *shape)).astype(dtype)
        for options in (dict(J=2, L=2), dict(J=1, L=1, sigma_0=1.5, integral_powers=(1.0, 3.0), max_order=1)):
            S = HarmonicScattering3D(shape=shape, **options)
            found = S(x)
            expected = harmonic(x.astype(float), S.J, S.L, S.sigma_0, S.integral_powers, S.max_order)
            assert found.dtype == dtype and found.shape == expected.shape
            assert relative(found, expected) < TOLERANCE[dtype.name]
            np.testing.assert_allclose(found, expected, rtol=100 * TOLERANCE[dtype.name])

    def test_one_harmonic_of_each_degree(self, level, dtype, rng):
        x = rng.standard_normal((8, 8, 8)).astype(dtype)
        found = HarmonicScattering3D(1, (8, 8, 8), 2, rotation_covariant=False, integral_powers=(1,))(x)
        z = np.fft.ifftn(np.fft.fftn(x.astype(float)) * harmonics((8, 8, 8), 2, 2.0)[0])
        np.testing.assert_allclose(found[1, 2, 0], abs(z).sum(), rtol=1e-5)

    def test_gradient(self, level, rng):
        S = HarmonicScattering3D(1, (6, 8, 7), 2)
        x, along = rng.standard_normal((2, 2, 6, 8, 7))
        grad = rng.standard_normal(S(x).shape)
        expected = ((S(x + 1e-5 * along) - S(x - 1e-5 * along)) * grad).sum() / 2e-5
        found = S.vjp(x, grad)
        assert found.shape == x.shape
        np.testing.assert_allclose((found * along).sum(), expected, rtol=1e-5)
        assert np.isfinite(S.vjp(0 * x, grad)).all()

    def test_rotations_by_a_quarter(self, level, rng):
        S = HarmonicScattering3D(1, (8, 8, 8), 2, max_order=1)
        low = abs(np.fft.fftfreq(8)) < 0.3  # without the highest frequency, whose sign is not known
        hat = np.fft.fftn(rng.standard_normal((8, 8, 8))) * (low[:, None, None] & low[:, None] & low)
        x = np.fft.ifftn(hat).real
        np.testing.assert_allclose(S(np.rot90(x, axes=(0, 1))), S(x), rtol=1e-6)

    def test_forms(self):
        S = HarmonicScattering3D(2, (16, 16, 16), 3)
        meta = S.meta()
        assert len(meta["order"]) == 6 and meta["key"][-1] == (1, 2) and S.output_size() == 6 * 4 * 3
        assert [f.shape for f in S.filters] == [(3, 2 * degree + 1, 16, 16, 16) for degree in range(4)]
        assert S.gaussian_filters.shape == (4, 16, 16, 16)
        x = np.ones((16, 16, 16))
        np.testing.assert_allclose(S.moments(x) * 16**3, S(x))

    def test_errors(self):
        for options, error, words in (
            (dict(J=0), ValueError, "J to be"),
            (dict(J=4), ValueError, r"2\*\*J of at most 8"),
            (dict(J=2, sigma_0=0), ValueError, "sigma_0"),
            (dict(J=2, integral_powers=()), ValueError, "integral_powers"),
            (dict(J=2, integral_powers=1), TypeError, "integral_powers"),
            (dict(J=2, L=-1), ValueError, "L to be"),
        ):
            with pytest.raises(error, match=rf"^\[scattering.HarmonicScattering3D\] expected .*{words}.*, got"):
                HarmonicScattering3D(shape=(8, 8, 8), **options)
        S = HarmonicScattering3D(1, (8, 8, 8), 1)
        with pytest.raises(ValueError, match=r"expected x of shape \(\.\.\., 8, 8, 8\), got"):
            S(np.ones((8, 8, 9)))
        with pytest.raises(TypeError, match="float16"):
            S(np.ones((8, 8, 8), np.float16))

    @pytest.mark.parametrize("scale", [1e-35, 1e-25, 1e-16, 1e16, 1e25, 1e33])
    def test_volumes_whose_squares_are_beyond_the_type(self, level, rng, scale):
        """Of degree p in the volume are the sums of p-th powers, and of degree p - 1 their gradients."""
        powers = (0.5, 1.0)
        S = HarmonicScattering3D(1, (4, 6, 5), L=1, integral_powers=powers)
        x = rng.standard_normal((2, 4, 6, 5)).astype(np.float32)
        x[1] *= np.float32(scale)
        ordinary = x.astype(np.float64)
        ordinary[1] /= scale
        found, expected = S(x), S(ordinary)
        grad = rng.standard_normal(found.shape).astype(np.float32)
        slope = S.vjp(ordinary, grad * np.array([[[1.0]], [[scale]]])[..., None] ** (np.array(powers) - 1))
        expected[1] *= scale ** np.array(powers)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        assert np.abs(S.vjp(x, grad)[1] - slope[1]).max() <= 1e-4 * np.abs(slope[1]).max()


class TestRotoTranslation:
    def test_rotations_by_a_quarter(self, level, dtype, rng):
        S = RotoTranslationScattering2D(3, (24, 24), L=4)
        x = rng.standard_normal((2, 24, 24)).astype(dtype)
        eps = 1e-6 if dtype == np.float32 else 1e-13
        for turns in (1, 2, 3):
            turned = np.rot90(x, turns, axes=(-2, -1))
            assert relative(S.moments(turned), S.moments(x)) < eps
            assert relative(S(turned), np.rot90(S(x), turns, axes=(-2, -1))) < eps

    def test_against_the_definition(self, level, rng):
        """With one scale after the other on a torus, all sums over positions and angles written out."""
        S = RotoTranslationScattering2D(2, (8, 8), L=2, K=2)
        x = rng.standard_normal((8, 8))
        found = S.moments(x)
        assert found.shape == (1 + 2 + 2 * 2,)
        n, L = 16, 2
        padded = np.pad(x, 4, mode="reflect")
        frequencies = np.fft.fftfreq(n)
        phase = np.exp(2j * np.pi * frequencies * 7.5)
        phase[n // 2] = 0
        hat = np.fft.fft2(padded) * np.outer(phase, phase)
        psi = S.filters["psi"]
        y = abs(np.fft.ifft2(hat * psi[0]))
        inside = [i for i in range(n) if min(i, n - i) <= 3.5]
        np.testing.assert_allclose(found[1], y[:, inside][:, :, inside].mean(), rtol=1e-6)
        h = S.filters["angular"]
        for turn in range(L):
            v = []
            for t in range(2 * L):
                which = t + turn
                wave = psi[1][which % L]
                z = np.fft.ifft2(np.fft.fft2(y[t % L]) * wave)[::2, ::2]
                v.append(z.conj() if which // L % 2 else z)
            for k in range(2):
                total = 0.0
                for t in range(2 * L):
                    w = sum(v[s] * h[k][(t - s) % (2 * L)] for s in range(2 * L))
                    total += abs(w)[np.ix_([0, 1, 7], [0, 1, 7])].mean()
                np.testing.assert_allclose(found[3 + 2 * turn + k], total / (2 * L), rtol=1e-6)

    def test_gradient(self, level, rng):
        S = RotoTranslationScattering2D(2, (8, 9), L=4)
        x, along = rng.standard_normal((2, 2, 8, 9))
        grad = rng.standard_normal(S(x).shape)
        expected = ((S(x + 1e-5 * along) - S(x - 1e-5 * along)) * grad).sum() / 2e-5
        np.testing.assert_allclose((S.vjp(x, grad) * along).sum(), expected, rtol=1e-5)
        assert np.isfinite(S.vjp(0 * x, grad)).all()

    def test_forms(self, rng):
        S = RotoTranslationScattering2D(3, (16, 17), L=4, K=2)
        assert S.output_size() == 1 + 3 + 2 * 4 * 3 == len(S.meta()["order"])
        assert S(rng.standard_normal((5, 16, 17)).astype(np.float32)).shape == (5, S.output_size(), 2, 2)
        one = RotoTranslationScattering2D(3, (16, 17), L=4, max_order=1)
        x = rng.standard_normal((16, 17))
        np.testing.assert_allclose(one(x), S(x)[: 1 + 3])

    def test_errors(self):
        for options, error, words in (
            (dict(J=0), ValueError, "J to be"),
            (dict(J=4), ValueError, r"2\*\*J of at most 8"),
            (dict(J=2, K=9, L=4), ValueError, "K"),
        ):
            with pytest.raises(error, match=rf"\[scattering.RotoTranslationScattering2D\] expected .*{words}.*, got"):
                RotoTranslationScattering2D(shape=(8, 8), **options)


class TestCascade:
    @pytest.mark.parametrize("wavelet", ["haar", "db1", "db2", "db4", "db10"])
    def test_is_orthogonal(self, level, dtype, rng, wavelet):
        x = rng.standard_normal((2, 32, 48)).astype(dtype)
        approximation, details = wavelet_transform2d(x, 3, wavelet)
        assert approximation.shape == (2, 4, 6) and [d.shape for d in details] == [
            (2, 3, 16, 24),
            (2, 3, 8, 12),
            (2, 3, 4, 6),
        ]
        assert approximation.dtype == dtype
        energy = (approximation.astype(float) ** 2).sum() + sum((d.astype(float) ** 2).sum() for d in details)
        slack = 1e-5 if dtype == np.float32 else 1e-10
        np.testing.assert_allclose(energy, (x.astype(float) ** 2).sum(), rtol=slack)
        assert relative(inverse_wavelet_transform2d(approximation, details, wavelet), x) < slack

    def test_haar(self, level):
        approximation, (detail,) = wavelet_transform2d(np.array([[1.0, 2.0], [3.0, 5.0]]), 1)
        np.testing.assert_allclose(approximation, [[5.5]])
        np.testing.assert_allclose(abs(detail[:, 0, 0]), [1.5, 2.5, 0.5])

    def test_without_details_it_is_a_copy(self, level):
        x = np.array([[1.0, 2.0]])
        found = inverse_wavelet_transform2d(x, [])
        assert np.array_equal(found, x) and not np.shares_memory(found, x)

    @pytest.mark.parametrize("moments", [1, 2, 3, 5])
    def test_polynomials_have_no_details(self, moments):
        x = np.outer(np.arange(64.0) ** (moments - 1), np.ones(64))
        detail = wavelet_transform2d(x, 1, f"db{moments}")[1][0]
        assert abs(detail[1, : 32 - moments]).max() < 1e-8 * abs(x).max()

    def test_errors(self):
        with pytest.raises(ValueError, match=r"expected wavelet to be 'haar'.*, got 'db11'"):
            wavelet_transform2d(np.ones((4, 4)), 1, "db11")
        with pytest.raises(ValueError, match="multiples of 4, got"):
            wavelet_transform2d(np.ones((4, 6)), 2)
        with pytest.raises(ValueError, match=r"expected details\[0\] of shape \(3, 2, 2\), got"):
            inverse_wavelet_transform2d(np.ones((2, 2)), [np.ones((3, 2, 3))])
