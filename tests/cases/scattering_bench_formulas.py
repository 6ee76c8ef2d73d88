"""The transforms of the benchmarks in a wider type, from the filters of the objects, and how far results may be off."""

from __future__ import annotations

import numpy as np

from fastdl import scattering

AXES = {"Scattering1D": 1, "Scattering2D": 2, "RotoTranslationScattering2D": 2, "HarmonicScattering3D": 3}


def _objects(name, x, **parameters):
    axes = AXES[name]
    shape = x.shape[-axes:]
    return getattr(scattering, name)(shape=shape[0] if axes == 1 else shape, **parameters)


def _step(u_hat, psi, step):
    """Multiply, fold, and transform back along the last axes."""
    axes = tuple(range(-psi.ndim, 0))
    z = u_hat * psi
    for axis in axes:
        at = z.ndim + axis
        z = z.reshape(*z.shape[:at], step, -1, *z.shape[at + 1 :]).mean(at)
    return np.fft.ifftn(z, axes=axes)


def _tree(S, x):
    tree = S._tree
    axes = tuple(range(-len(tree.shape), 0))
    for axis, places in zip(axes, tree.padding, strict=True):
        x = x if places is None else np.take(x, places, axis)
    results = [None] * len(tree.channels)

    def average(path, u_hat, level):
        cut = tuple(slice(*part) for part in level.crop)
        results[tree.channels[path]] = _step(u_hat, level.phi, level.step).real[(..., *cut)]

    x_hat = np.fft.fftn(x, axes=axes)
    average((), x_hat, tree.levels[0])
    for group in tree.groups:
        for first in group.members:
            level = tree.levels[first.level]
            u_hat = np.fft.fftn(abs(_step(x_hat, first.psi, x_hat.shape[-1] // level.shape[-1])), axes=axes)
            average((first.number,), u_hat, level)
            for second in group.followers:
                coarse = tree.levels[second.level]
                v = abs(_step(u_hat, second.psi, level.shape[-1] // coarse.shape[-1]))
                average((first.number, second.number), np.fft.fftn(v, axes=axes), coarse)
    return np.stack(results, -len(tree.shape) - 1)


def Scattering2D(x, **parameters):
    return _tree(_objects("Scattering2D", x, **parameters), x)


def Scattering1D(x, **parameters):
    return _tree(_objects("Scattering1D", x, **parameters), x)


def _by_reference(name):
    def transform(x, **parameters):
        import fastdl

        with fastdl.backend("reference"):
            return _objects(name, x, **parameters)(x.astype(np.float64))

    return transform


HarmonicScattering3D = _by_reference("HarmonicScattering3D")
RotoTranslationScattering2D = _by_reference("RotoTranslationScattering2D")


def Scattering2D_vjp(x, grad, **parameters):
    import fastdl

    S = _objects("Scattering2D", x, **parameters)
    with fastdl.backend("reference"):
        return S.vjp(x.astype(np.float64), grad.astype(np.float64))


def Scattering2D_vjp_bound(eps, x, grad, **parameters):
    """z/|z| is uncertain where |z| is small, by what a rounding is of it: of 10⁴ numbers one is 10⁻² of the others."""
    S = _objects("Scattering2D", x, **parameters)
    first = (slice(0, 1),) * (x.ndim - 2)
    return np.full(x.shape, 1e4 * eps * float(np.abs(S.vjp(x[first], grad[first])).max()))


def wavelet_transform2d(x, **parameters):
    """There and back."""
    return x


def wavelet_transform2d_bound(eps, x, J, wavelet):
    """Each of 2 J steps along two axes rounds sums of a few terms that are no larger than the image's largest."""
    return np.full(x.shape, 64 * J * eps * float(np.abs(x).max()))


def _bound(name):
    def bound(eps, x, **parameters):
        S = _objects(name, x, **parameters)
        small = S(x[(slice(0, 1),) * (x.ndim - len(S.shape))])
        shape = (*x.shape[: x.ndim - len(S.shape)], *small.shape[x.ndim - len(S.shape) :])
        # Transforms round each number about log2 n times, by a rounding of the largest; powers and sums of volumes
        # keep their relative error.
        size = 4 * float(np.abs(small).max()) if name != "HarmonicScattering3D" else 4 * np.abs(small)
        return np.broadcast_to(64 * eps * size, shape)

    return bound


Scattering1D_bound = _bound("Scattering1D")
Scattering2D_bound = _bound("Scattering2D")
RotoTranslationScattering2D_bound = _bound("RotoTranslationScattering2D")
HarmonicScattering3D_bound = _bound("HarmonicScattering3D")
