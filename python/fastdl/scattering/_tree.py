"""What a scattering transform of signals or images consists of, as the reference and the kernels read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import HostArray


class Level(NamedTuple):
    """A resolution: one sample in 2^k of the padded grid along every axis.

    `phi` is the spectrum of the low-pass there. Its result is taken at one sample in `step`, and of that `crop`, first
    and end along every axis, is given out. `inside` is the part of this grid that lies in the signal itself.
    """

    shape: tuple[int, ...]
    phi: HostArray
    step: int
    crop: tuple[tuple[int, int], ...]
    inside: tuple[tuple[int, int], ...]


class Wavelet:
    """A filter of one level, with its result on another, coarser one; `number` is its place in the bank.

    Its spectrum may be a function that makes it: all spectra together are many times the size of an image.
    """

    __slots__ = ("_psi", "level", "number")

    def __init__(self, number: int, psi: HostArray | Callable[[], HostArray], level: int) -> None:
        self.number, self._psi, self.level = number, psi, level

    @property
    def psi(self) -> HostArray:
        """The spectrum."""
        return self._psi() if callable(self._psi) else self._psi


class Group(NamedTuple):
    """Wavelets of the first order on one level, and those of the second order that follow each of them."""

    members: tuple[Wavelet, ...]
    followers: tuple[Wavelet, ...]


class Tree:
    """A transform of order 1 or 2.

    `padding` has, along every axis, the sample at each place of the padded grid, or None where there is no padding.
    `channels` are the numbers of the results by their paths: 0 is the average of the signal, then come the first order,
    and the second, first path outer.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        padding: tuple[HostArray | None, ...],
        levels: tuple[Level, ...],
        groups: tuple[Group, ...],
        averaged: bool = True,
    ) -> None:
        self.shape, self.padding, self.levels, self.groups, self.averaged = shape, padding, levels, groups, averaged
        ones = sorted((w.number,) for group in groups for w in group.members)
        twos = sorted((w.number, v.number) for group in groups for w in group.members for v in group.followers)
        self.channels: dict[tuple[int, ...], int] = {path: channel for channel, path in enumerate([(), *ones, *twos])}

    @property
    def output(self) -> tuple[int, ...]:
        """The shape of what is given out of one path; the same for all when it is averaged."""
        return tuple(end - first for first, end in self.levels[0].crop)


def reflection(size: int, before: int, after: int) -> HostArray:
    """Give the sample at each place of a signal that is reflected at its ends, which are not repeated."""
    period = max(1, 2 * (size - 1))
    places = np.arange(-before, size + after) % period
    return np.where(places < size, places, period - places)


def occurrences(places: HostArray, size: int) -> list[Any]:
    """Give index arrays that together name, for each sample, all places it was copied to; others name `len(places)`."""
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=size)
    starts = np.cumsum(counts) - counts
    return [
        np.where(counts > turn, order[np.minimum(starts + turn, len(places) - 1)], len(places))
        for turn in range(int(counts.max(initial=0)))
    ]
