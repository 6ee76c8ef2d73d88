"""Gradients of the moments of every transform, and transforms of nothing, on NumPy and torch."""

import numpy as np
import pytest

import fastdl
from fastdl.scattering import HarmonicScattering3D, RotoTranslationScattering2D, Scattering1D, Scattering2D

TRANSFORMS = [
    Scattering1D(3, 20, 2),
    Scattering2D(2, (9, 7), 3),
    HarmonicScattering3D(1, (4, 5, 3), 2, integral_powers=(0.5, 1.0, 2.0, 3.0)),
    HarmonicScattering3D(1, (4, 5, 3), 2, rotation_covariant=False, max_order=1),
    RotoTranslationScattering2D(2, (9, 7), 4),
    RotoTranslationScattering2D(3, (8, 8), 2, K=2),
]


@pytest.mark.parametrize("S", TRANSFORMS, ids=repr)
def test_gradients_of_moments_are_their_slopes(S, rng):
    x, direction = rng.standard_normal((2, 3, *S.shape))
    grad = rng.standard_normal(S.moments(x).shape)
    step = 1e-5
    slope = np.sum(grad * (S.moments(x + step * direction) - S.moments(x - step * direction))) / (2 * step)
    found = S.moments_vjp(x, grad)
    assert found.shape == x.shape
    # Errors of the difference: step² times third derivatives, and eps / step times the value.
    assert abs(np.sum(found * direction) - slope) < 1e-6 * np.linalg.norm(found) * np.linalg.norm(direction)


@pytest.mark.parametrize("S", TRANSFORMS[3:], ids=repr)
def test_gradients_of_moments_refuse_other_shapes(S):
    with pytest.raises(ValueError, match="expected grad of shape"):
        S.moments_vjp(np.ones((2, *S.shape)), np.ones(2))


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("S", TRANSFORMS, ids=repr)
def test_empty_batches(S, library, backend, dtype):
    xp = pytest.importorskip(library)
    x = xp.zeros((0, 2, *S.shape), dtype=getattr(xp, dtype.name))
    with fastdl.backend(backend):
        for forward, backward in ((S, S.vjp), (S.moments, S.moments_vjp)):
            y = forward(x)
            assert type(y) is type(x)
            assert y.shape[:2] == (0, 2)
            assert y.dtype == x.dtype
            back = backward(x, y)
            assert back.shape == x.shape
            assert back.dtype == x.dtype
