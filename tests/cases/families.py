"""Some work of every family, for promises that all of them make: of threads, processes, memory and interruption.

Each entry takes a batch of inputs that `samples` draws and gives arrays whose first axis is the batch wherever the
function has one, so that a batch may be split and put together again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fastdl import conv, gram, group, hebbian, scattering

Array = Any


class Work:
    """A function of a batch, the shape of one of its inputs, and how many make a small batch.

    `split` says whether a part of the batch gives that part of the result, to the bit.
    """

    def __init__(
        self, name: str, shape: tuple[int, ...], small: int, function: Callable[[Array], Array], split: bool = True
    ) -> None:
        self.name, self.shape, self.small, self.function, self.split = name, shape, small, function, split

    def __repr__(self) -> str:
        return self.name

    def samples(self, dtype: Any, count: int | None = None) -> Array:
        rng = np.random.default_rng(len(self.name))
        return rng.standard_normal((self.small if count is None else count, *self.shape)).astype(dtype)

    def __call__(self, batch: Array) -> Array:
        return self.function(batch)


def fixed(*shape: int, like: Array, scale: float = 1.0) -> Array:
    """Filters, weights and the like: the same in every call."""
    return (np.random.default_rng(5).standard_normal(shape) * scale).astype(like.dtype)


@cache
def _images() -> Any:
    return scattering.Scattering2D(2, (32, 32), L=4)


@cache
def _signals() -> Any:
    return scattering.Scattering1D(4, 512, Q=4)


@cache
def _volumes() -> Any:
    return scattering.HarmonicScattering3D(1, (12, 12, 12), L=1)


@cache
def _motions() -> Any:
    return scattering.RotoTranslationScattering2D(2, (16, 20), L=4)


def _from_details(x: Array) -> Array:
    return scattering.inverse_wavelet_transform2d(x[:, 3], [x[:, :3]], "db3")


def _weight_gradient(x: Array) -> Array:
    grad = fixed(len(x), 16, 16, 16, like=x)
    return conv.conv2d_weight(x, (16, 8, 3, 3), grad, padding=1)


def _pooled(x: Array) -> Array:
    return conv.max_pool2d(x, 3, 2, 1)


def _of_signs(function: Callable[[Array, Array], Array], d: int) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        patterns = np.sign(fixed(12, d, like=x)).astype(x.dtype)
        return function(patterns, np.where(x < 0, -1, 1).astype(x.dtype))

    return run


def _learnt(rule: Callable[..., Array], k: int) -> Callable[[Array], Array]:
    return lambda x: rule(fixed(k, x.shape[1], like=x, scale=0.1), x, 1e-3)


WORK = [
    Work("gram.linear", (203,), 301, lambda x: gram.linear(x, fixed(517, 203, like=x))),
    Work("gram.rbf", (33,), 301, lambda x: gram.rbf(x, fixed(200, 33, like=x))),
    Work("gram.laplacian", (17,), 200, lambda x: gram.laplacian(x, fixed(101, 17, like=x))),
    Work("gram.ntk", (40,), 150, lambda x: gram.ntk(x, fixed(90, 40, like=x), depth=3)),
    Work("gram.ntk, biased", (40,), 150, lambda x: gram.ntk(x, fixed(90, 40, like=x), depth=2, b_std=0.5)),
    Work(
        "gram.gram_vjp",
        (9,),
        70,
        lambda x: gram.gram_vjp(x, np.ones((len(x), 50), x.dtype), fixed(50, 9, like=x), kernel="arc_cosine").X,
    ),
    Work("gram.rbf, symmetric", (33,), 301, lambda x: gram.rbf(x), split=False),
    Work("gram.matvec", (16,), 500, lambda x: gram.matvec(x, fixed(700, 3, like=x), fixed(700, 16, like=x))),
    Work(
        "gram.softmax_matvec",
        (16,),
        300,
        lambda x: gram.softmax_matvec(x, fixed(400, 16, like=x), fixed(400, 5, like=x)),
    ),
    Work("gram.cntk", (2, 6, 6), 12, lambda x: gram.cntk(x, fixed(5, 2, 6, 6, like=x), depth=2)),
    Work(
        "conv.conv2d, direct",
        (8, 16, 16),
        9,
        lambda x: conv.conv2d(x, fixed(16, 8, 3, 3, like=x), padding=1, algorithm="direct"),
    ),
    Work(
        "conv.conv2d, winograd",
        (16, 16, 16),
        9,
        lambda x: conv.conv2d(x, fixed(16, 16, 3, 3, like=x), padding=1, algorithm="winograd"),
    ),
    Work("conv.conv2d, fft", (4, 32, 32), 5, lambda x: conv.conv2d(x, fixed(6, 4, 11, 11, like=x), algorithm="fft")),
    Work("conv.conv2d, depthwise", (32, 20, 20), 5, lambda x: conv.conv2d(x, fixed(32, 1, 3, 3, like=x), groups=32)),
    Work("conv.conv2d", (8, 16, 16), 9, lambda x: conv.conv2d(x, fixed(16, 8, 3, 3, like=x), padding=1)),
    Work(
        "conv.conv2d_input",
        (16, 16, 16),
        9,
        lambda g: conv.conv2d_input((len(g), 8, 16, 16), fixed(16, 8, 3, 3, like=g), g, padding=1),
    ),
    Work("conv.conv2d_weight", (8, 16, 16), 9, _weight_gradient, split=False),
    Work("conv.max_pool2d", (16, 33, 33), 9, _pooled),
    Work("conv.convolve", (20000,), 1, lambda x: conv.convolve(x[0], fixed(501, like=x)), split=False),
    Work("group.conv2d", (4, 4, 14, 14), 6, lambda x: group.conv2d(x, fixed(8, 4, 4, 3, 3, like=x), padding=1)),
    Work(
        "group.lift_conv2d",
        (3, 16, 16),
        8,
        lambda x: group.lift_conv2d(x, fixed(8, 3, 5, 5, like=x), padding=2, group="p4m"),
    ),
    Work("group.convolve", (24,), 300, lambda x: group.convolve(x, fixed(24, like=x), group.Group.symmetric(4))),
    Work("scattering.Scattering2D", (32, 32), 67, lambda x: _images()(x)),
    Work("scattering.Scattering2D.vjp", (32, 32), 19, lambda x: _images().vjp(x, _images()(x)[..., ::-1])),
    Work("scattering.Scattering1D", (512,), 67, lambda x: _signals()(x)),
    Work("scattering.HarmonicScattering3D", (12, 12, 12), 3, lambda x: _volumes()(x)),
    Work("scattering.RotoTranslationScattering2D", (16, 20), 19, lambda x: _motions()(x)),
    Work(
        "scattering.RotoTranslationScattering2D.vjp",
        (16, 20),
        11,
        lambda x: _motions().vjp(x, _motions()(x)[..., ::-1]),
    ),
    Work("scattering.wavelet_transform2d", (40, 24), 19, lambda x: scattering.wavelet_transform2d(x, 2, "db3")[1][0]),
    Work("scattering.inverse_wavelet_transform2d", (4, 20, 12), 19, _from_details),
    Work("hebbian.oja", (100,), 400, _learnt(hebbian.oja, 3), split=False),
    Work("hebbian.sanger", (257,), 300, _learnt(hebbian.sanger, 24), split=False),
    Work("hebbian.subspace", (64,), 300, _learnt(hebbian.subspace, 24), split=False),
    Work(
        "hebbian.hopfield_recall",
        (128,),
        40,
        _of_signs(lambda p, s: hebbian.hopfield_recall(hebbian.hopfield_weights(p), s), 128),
    ),
    Work("hebbian.modern_hopfield", (128,), 40, _of_signs(lambda p, s: hebbian.modern_hopfield(p, s, 0.1), 128)),
]
