"""Scattering of signals and images in plain NumPy, and its gradient, along the tree of wavelets of an object."""

from __future__ import annotations

import math

import numpy as np

from fastdl import scattering

AXES = {"Scattering1D": 1, "Scattering2D": 2, "RotoTranslationScattering2D": 2, "HarmonicScattering3D": 3}


def made(name, x, **parameters):
    """Give the object for signals like x."""
    axes = AXES[name]
    shape = x.shape[-axes:]
    return getattr(scattering, name)(shape=shape[0] if axes == 1 else shape, **parameters)


# ---- signals and images ----
def _last(count):
    return tuple(range(-count, 0))


def _step(u_hat, psi, step):
    """Multiply, fold, and transform back along the last axes."""
    axes = _last(psi.ndim)
    z = u_hat * psi
    for axis in axes:
        at = z.ndim + axis
        z = z.reshape(*z.shape[:at], step, -1, *z.shape[at + 1 :]).mean(at)
    return np.fft.ifftn(z, axes=axes)


def _step_adjoint(g, psi, step):
    """Give the gradient for the spectrum of what a step was taken of, up to the inverse transform."""
    axes = _last(psi.ndim)
    repeats = (1,) * (g.ndim - psi.ndim) + (step,) * psi.ndim
    return np.tile(np.fft.fftn(g, axes=axes), repeats) * psi


def _cut(u, parts):
    return u[(..., *(slice(*part) for part in parts))]


def _uncut(g, parts, shape):
    whole = np.zeros((*g.shape[: g.ndim - len(shape)], *shape), g.dtype)
    _cut(whole, parts)[...] = g
    return whole


def padded(x, padding):
    for axis, places in zip(_last(len(padding)), padding, strict=True):
        x = x if places is None else np.take(x, places, axis)
    return x


def padded_adjoint(g, padding, shape):
    for axis, (places, size) in enumerate(zip(padding, shape, strict=True), start=g.ndim - len(padding)):
        total = np.zeros((size, *np.delete(g.shape, axis)), g.dtype)
        np.add.at(total, places, np.moveaxis(g, axis, 0))
        g = np.moveaxis(total, 0, axis)
    return g


def direction(z):
    u = abs(z)
    return np.where(u == 0, 0, z / np.where(u == 0, 1, u))


class Low:
    """What is given out of a path: its average."""

    def read(self, level, u, u_hat):
        return _cut(_step(u_hat, level.phi, level.step).real, level.crop)

    def adjoint(self, level, g):
        whole = _uncut(g, level.crop, [size // level.step for size in level.shape])
        return np.fft.ifftn(_step_adjoint(whole, level.phi, level.step), axes=_last(len(level.shape))).real


class Inside:
    """What is given out of a path: itself, where the signal is."""

    def read(self, level, u, u_hat):
        return _cut(u, level.inside)

    def adjoint(self, level, g):
        return _uncut(g, level.inside, level.shape)


class Mean:
    """What is given out of a path: its mean, where the signal is."""

    def read(self, level, u, u_hat):
        return _cut(u, level.inside).mean(_last(len(level.shape)))

    def adjoint(self, level, g):
        sizes = [end - first for first, end in level.inside]
        spread = np.broadcast_to(g.reshape(*g.shape, *(1 for _ in sizes)) / math.prod(sizes), (*g.shape, *sizes))
        return _uncut(spread, level.inside, level.shape)


def paths(tree, x, way):
    """What is given out of all paths, in their order."""
    axes = _last(len(tree.shape))
    results = [None] * len(tree.channels)
    x = padded(x, tree.padding)
    x_hat = np.fft.fftn(x, axes=axes)
    results[0] = way.read(tree.levels[0], x, x_hat)
    for group in tree.groups:
        for first in group.members:
            level = tree.levels[first.level]
            u = abs(_step(x_hat, first.psi, x_hat.shape[-1] // level.shape[-1]))
            u_hat = np.fft.fftn(u, axes=axes)
            results[tree.channels[first.number,]] = way.read(level, u, u_hat)
            for second in group.followers:
                coarse = tree.levels[second.level]
                v = abs(_step(u_hat, second.psi, level.shape[-1] // coarse.shape[-1]))
                v_hat = np.fft.fftn(v, axes=axes)
                results[tree.channels[first.number, second.number]] = way.read(coarse, v, v_hat)
    return results


def paths_vjp(tree, x, grads, way):
    """The gradient for x of the sum of what is given out of all paths, each times its part of `grads`."""
    axes = _last(len(tree.shape))
    x_hat = np.fft.fftn(padded(x, tree.padding), axes=axes)
    total = np.zeros_like(x_hat)
    for group in tree.groups:
        for first in group.members:
            level = tree.levels[first.level]
            step = x_hat.shape[-1] // level.shape[-1]
            z = _step(x_hat, first.psi, step)
            u_hat = np.fft.fftn(abs(z), axes=axes)
            inner = np.zeros_like(u_hat)
            for second in group.followers:
                coarse = tree.levels[second.level]
                finer = level.shape[-1] // coarse.shape[-1]
                w = _step(u_hat, second.psi, finer)
                g = way.adjoint(coarse, grads[tree.channels[first.number, second.number]])
                inner += _step_adjoint(g * direction(w), second.psi, finer)
            g = way.adjoint(level, grads[tree.channels[first.number,]]) + np.fft.ifftn(inner, axes=axes).real
            total += _step_adjoint(g * direction(z), first.psi, step)
    whole = way.adjoint(tree.levels[0], grads[0]) + np.fft.ifftn(total, axes=axes).real
    return padded_adjoint(whole, tree.padding, tree.shape)


def _ends(S):
    """Where the parts of a gradient end that has all paths without averages one after the other."""
    lengths = [math.prod(end - first for first, end in S._level_of(path).inside) for path in S._tree.channels]
    return np.cumsum(lengths)


def paths_of(S, grad):
    """The gradients of all paths, without averages, from one array of them along the last axis."""
    return np.split(grad, _ends(S)[:-1], axis=-1)


def of_tree(name, moments):
    def forward(x, **parameters):
        S = made(name, x, **parameters)
        if moments:
            return np.stack(paths(S._tree, x, Mean()), -1)
        if not S._tree.averaged:
            return tuple(paths(S._tree, x, Inside()))
        return np.stack(paths(S._tree, x, Low()), -len(S.shape) - 1)

    def backward(x, grad, **parameters):
        S = made(name, x, **parameters)
        if not moments and not S._tree.averaged:
            return paths_vjp(S._tree, x, paths_of(S, grad), Inside())
        grads = np.moveaxis(grad, -1 if moments else -len(S.shape) - 1, 0)
        return paths_vjp(S._tree, x, grads, Mean() if moments else Low())

    return forward, backward
