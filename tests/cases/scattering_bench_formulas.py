"""The transforms of the benchmarks in a wider type, from the filters of the objects, and how far results may be off."""

from __future__ import annotations

import numpy as np

from fastdl import scattering


def _objects(name, x, **parameters):
    axes = {"Scattering1D": 1, "Scattering2D": 2, "HarmonicScattering3D": 3}[name]
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


def HarmonicScattering3D(x, **parameters):
    import fastdl

    S = _objects("HarmonicScattering3D", x, **parameters)
    with fastdl.backend("reference"):
        return S(x.astype(np.float64))


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
HarmonicScattering3D_bound = _bound("HarmonicScattering3D")
