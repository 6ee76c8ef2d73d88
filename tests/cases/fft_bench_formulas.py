"""The transforms of the benchmarks in a wider type, and how far results may be off."""

from __future__ import annotations

import math

import numpy as np


def batched(x, rank):
    """NumPy keeps extended precision, from version 2 on."""
    return np.fft.fftn(x, axes=tuple(range(-rank, 0)))


def real(x, rank):
    return np.fft.rfftn(x, axes=tuple(range(-rank, 0)))


def batched_bound(eps, x, rank):
    """Every pass rounds each number a few times, and there are log2 n of them at most.

    The length of a spectrum is √n that of x, and no number is off by more than the length of all errors.
    """
    n = math.prod(x.shape[-rank:])
    length = np.sqrt(np.sum(np.abs(x) ** 2, axis=tuple(range(-rank, 0)), keepdims=True))
    return np.broadcast_to(4 * eps * (math.log2(n) + 2) * math.sqrt(n) * length, x.shape)


def real_bound(eps, x, rank):
    return batched_bound(eps, x, rank)[..., : x.shape[-1] // 2 + 1]


single, single_bound = batched, batched_bound
images, images_bound = batched, batched_bound
volumes, volumes_bound = batched, batched_bound
