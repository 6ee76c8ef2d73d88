"""Scattering transforms of signals and images, and their gradients: plain array-API code.

All functions take the transform as a `fastdl.scattering._tree.Tree`. Signals have any number of axes; the ones before
are a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.fourier import fftn, ifftn
from fastdl.reference.scattering_cascade import inverse_wavelet_transform2d, wavelet_transform2d
from fastdl.reference.scattering_harmonic import harmonic, harmonic_vjp
from fastdl.reference.scattering_roto import roto, roto_vjp

if TYPE_CHECKING:
    from fastdl._arrays import Array, HostArray
    from fastdl.scattering._tree import Level, Tree

__all__ = [
    "harmonic",
    "harmonic_vjp",
    "inverse_wavelet_transform2d",
    "moments",
    "moments_vjp",
    "roto",
    "roto_vjp",
    "scattering",
    "scattering_vjp",
    "wavelet_transform2d",
]


def like(xp: Any, array: HostArray, x: Array) -> Array:
    """Give a constant in the library, the precision and on the device of x."""
    dtype = None if array.dtype.kind in "iu" else x.dtype
    return xp.asarray(array.copy(), dtype=dtype, device=device(x))  # torch has no read-only memory


def fold(xp: Any, z: Array, step: int, axes: int) -> Array:
    """Subsample along the last axes by adding up the periods of a spectrum."""
    for axis in range(z.ndim - axes, z.ndim):
        shape = (*z.shape[:axis], step, z.shape[axis] // step, *z.shape[axis + 1 :])
        z = xp.sum(xp.reshape(z, shape), axis=axis) / step
    return z


def repeat(xp: Any, z: Array, step: int, axes: int) -> Array:
    """Repeat a spectrum: up to a factor, the adjoint of `fold`."""
    for axis in range(z.ndim - axes, z.ndim):
        z = xp.concat([z] * step, axis=axis)
    return z


def transform(xp: Any, u: Array, axes: int) -> Array:
    """Transform a real or complex array along its last axes."""
    complex_dtype = xp.complex64 if u.dtype in (xp.float32, xp.complex64) else xp.complex128
    return fftn(xp, xp.astype(u, complex_dtype), tuple(range(u.ndim - axes, u.ndim)))


def inverse(xp: Any, z: Array, axes: int) -> Array:
    """Transform back."""
    return ifftn(xp, z, tuple(range(z.ndim - axes, z.ndim)))


def direction(xp: Any, z: Array, modulus: Array) -> Array:
    """Give z/|z|, the gradient of |z|; 0 at 0."""
    return xp.where(modulus == 0, 0 * z, z / xp.where(modulus == 0, xp.ones_like(modulus), modulus))


def pad(xp: Any, x: Array, places: tuple[HostArray | None, ...]) -> Array:
    """Copy samples to their places on the padded grid."""
    for axis, index in enumerate(places, start=x.ndim - len(places)):
        if index is not None:
            x = xp.take(x, like(xp, index, x), axis=axis)
    return x


def pad_adjoint(xp: Any, g: Array, places: tuple[HostArray | None, ...], shape: tuple[int, ...]) -> Array:
    """Add up, for each sample, the places it was copied to."""
    from fastdl.scattering._tree import occurrences

    for axis, index in enumerate(places, start=g.ndim - len(places)):
        if index is not None:
            nothing = xp.zeros((*g.shape[:axis], 1, *g.shape[axis + 1 :]), dtype=g.dtype, device=device(g))
            extended = xp.concat([g, nothing], axis=axis)
            g = sum(
                xp.take(extended, like(xp, turn, g), axis=axis)
                for turn in occurrences(index, shape[axis - g.ndim + len(places)])
            )
    return g


def cut(u: Array, parts: tuple[tuple[int, int], ...]) -> Array:
    """Give a part along the last axes."""
    return u[(..., *(slice(first, end) for first, end in parts))]


def uncut(xp: Any, g: Array, parts: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> Array:
    """Put a part back, with zeros around it."""
    for axis, ((first, end), size) in enumerate(zip(parts, shape, strict=True), start=g.ndim - len(parts)):
        around = [
            xp.zeros((*g.shape[:axis], count, *g.shape[axis + 1 :]), dtype=g.dtype, device=device(g))
            for count in (first, size - end)
        ]
        g = xp.concat([around[0], g, around[1]], axis=axis)
    return g


class LowPass:
    """What is given out of a path: its average by the low-pass filter, subsampled and cropped."""

    def read(self, xp: Any, level: Level, u: Array, u_hat: Array) -> Array:
        axes = len(level.shape)
        averaged = inverse(xp, fold(xp, u_hat * like(xp, level.phi, u), level.step, axes), axes)
        return cut(xp.real(averaged), level.crop)

    def adjoint(self, xp: Any, level: Level, g: Array) -> Array:
        axes = len(level.shape)
        whole = uncut(xp, g, level.crop, tuple(size // level.step for size in level.shape))
        spectrum = repeat(xp, transform(xp, whole, axes), level.step, axes)
        return xp.real(inverse(xp, spectrum * like(xp, level.phi, g), axes))


class Unaveraged:
    """What is given out of a path: the path itself, where the signal is."""

    def read(self, xp: Any, level: Level, u: Array, u_hat: Array) -> Array:
        return cut(u, level.inside)

    def adjoint(self, xp: Any, level: Level, g: Array) -> Array:
        return uncut(xp, g, level.inside, level.shape)


class Mean:
    """What is given out of a path: its mean, where the signal is."""

    def read(self, xp: Any, level: Level, u: Array, u_hat: Array) -> Array:
        return xp.mean(cut(u, level.inside), axis=tuple(range(u.ndim - len(level.shape), u.ndim)))

    def adjoint(self, xp: Any, level: Level, g: Array) -> Array:
        sizes = tuple(end - first for first, end in level.inside)
        count = 1
        for size in sizes:
            count *= size
        shape = (*g.shape, *(1 for _ in sizes))
        spread = xp.broadcast_to(xp.reshape(g / count, shape), (*g.shape, *sizes))
        return uncut(xp, spread, level.inside, level.shape)


def _forward(x: Array, tree: Tree, readout: Any) -> list[Array]:
    xp, axes = array_namespace(x), len(tree.shape)
    results: list[Array] = [None] * len(tree.channels)
    u = pad(xp, x, tree.padding)
    x_hat = transform(xp, u, axes)
    results[0] = readout.read(xp, tree.levels[0], u, x_hat)
    for group in tree.groups:
        for first in group.members:
            u, u_hat = _moduli(xp, x_hat, first, tree)[1:]
            results[tree.channels[first.number,]] = readout.read(xp, tree.levels[first.level], u, u_hat)
            for second in group.followers:
                _, v, v_hat = _moduli(xp, u_hat, second, tree)
                channel = tree.channels[first.number, second.number]
                results[channel] = readout.read(xp, tree.levels[second.level], v, v_hat)
    return results


def _moduli(xp: Any, u_hat: Array, wavelet: Any, tree: Tree) -> tuple[Array, Array, Array]:
    """Give the convolution with a wavelet, subsampled; its modulus; and the spectrum of that."""
    shape = tree.levels[wavelet.level].shape
    axes = len(shape)
    psi = like(xp, wavelet.psi, xp.real(u_hat))
    z = inverse(xp, fold(xp, u_hat * psi, psi.shape[-1] // shape[-1], axes), axes)
    u = xp.abs(z)
    return z, u, transform(xp, u, axes)


def _modulus_adjoint(xp: Any, z: Array, u: Array, g: Array, wavelet: Any) -> Array:
    """Give the gradient for the spectrum of what a wavelet was applied to, up to the inverse transform."""
    axes = wavelet.psi.ndim
    spectrum = transform(xp, g * direction(xp, z, u), axes)
    return repeat(xp, spectrum, wavelet.psi.shape[-1] // z.shape[-1], axes) * like(xp, wavelet.psi, u)


def _backward(x: Array, grads: list[Array], tree: Tree, readout: Any) -> Array:
    xp, axes = array_namespace(x), len(tree.shape)
    x_hat = transform(xp, pad(xp, x, tree.padding), axes)
    total = xp.zeros_like(x_hat)
    for group in tree.groups:
        for first in group.members:
            z, u, u_hat = _moduli(xp, x_hat, first, tree)
            inner = xp.zeros_like(u_hat)
            for second in group.followers:
                w, v, _ = _moduli(xp, u_hat, second, tree)
                g = readout.adjoint(xp, tree.levels[second.level], grads[tree.channels[first.number, second.number]])
                inner = inner + _modulus_adjoint(xp, w, v, g, second)
            g = readout.adjoint(xp, tree.levels[first.level], grads[tree.channels[first.number,]])
            if group.followers:
                g = g + xp.real(inverse(xp, inner, axes))
            total = total + _modulus_adjoint(xp, z, u, g, first)
    padded = readout.adjoint(xp, tree.levels[0], grads[0]) + xp.real(inverse(xp, total, axes))
    return pad_adjoint(xp, padded, tree.padding, tree.shape)


def scattering(x: Array, tree: Tree) -> Array:
    r"""Give all paths, averaged, as an array (..., channels, \*output); unaveraged, as a list."""
    if not tree.averaged:
        return _forward(x, tree, Unaveraged())
    xp = array_namespace(x)
    return xp.stack(_forward(x, tree, LowPass()), axis=x.ndim - len(tree.shape))


def scattering_vjp(x: Array, grad: Array, tree: Tree) -> Array:
    """Give the gradient for x of the sum of all results times `grad`."""
    if not tree.averaged:
        return _backward(x, list(grad), tree, Unaveraged())
    axis = (slice(None),) * (x.ndim - len(tree.shape))
    grads = [grad[(*axis, channel, ...)] for channel in range(len(tree.channels))]
    return _backward(x, grads, tree, LowPass())


def moments(x: Array, tree: Tree) -> Array:
    """Give the mean of every path, (..., channels)."""
    return array_namespace(x).stack(_forward(x, tree, Mean()), axis=-1)


def moments_vjp(x: Array, grad: Array, tree: Tree) -> Array:
    """Give the gradient for x of the sum of all means times `grad`."""
    return _backward(x, [grad[..., channel] for channel in range(len(tree.channels))], tree, Mean())


scattering1d = scattering2d = scattering
scattering1d_vjp = scattering2d_vjp = scattering_vjp
moments1d = moments2d = moments
moments1d_vjp = moments2d_vjp = moments_vjp
