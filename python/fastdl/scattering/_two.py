"""Scattering of images."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._dispatch import Operation
from fastdl.scattering._base import OUT_TYPES, Transform
from fastdl.scattering._checks import choice, flag, scales_fit, sizes, whole
from fastdl.scattering._filters import bank_2d, cropped, frozen, low_pass_2d, wavelet_2d
from fastdl.scattering._tree import Group, Level, Tree, Wavelet, reflection

if TYPE_CHECKING:
    from fastdl._arrays import HostArray


def _spectrum(padded: tuple[int, int], L: int, j: int, t: int, level: int = 0) -> HostArray:
    """Give the spectrum of a wavelet on a level."""
    return frozen(cropped(wavelet_2d(padded, L, j, t), level, (0, 1)))


@lru_cache(8)
def _tree(shape: tuple[int, int], J: int, L: int, max_order: int, pre_pad: bool) -> Tree:
    """Describe the transform of images of a shape."""
    padded = tuple(((size + 2**J) // 2**J + 1) * 2**J for size in shape)
    phi = low_pass_2d(padded, J)
    missing = [wide - size for wide, size in zip(padded, shape, strict=True)]
    before = [0 if pre_pad else count // 2 for count in missing]
    extent = padded if pre_pad else shape
    padding = tuple(
        None if pre_pad else reflection(size, count // 2, count - count // 2)
        for size, count in zip(shape, missing, strict=True)
    )
    levels = tuple(
        Level(
            tuple(size >> j for size in padded),
            frozen(cropped(phi, j, (0, 1))),
            2 ** (J - j),
            tuple((1, (size >> J) - 1) for size in padded),
            tuple((-(-first // 2**j), -(-(first + size) // 2**j)) for first, size in zip(before, extent, strict=True)),
        )
        for j in range(J)
    )
    groups = tuple(
        Group(
            tuple(Wavelet(j1 * L + t, partial(_spectrum, padded, L, j1, t), j1) for t in range(L)),
            tuple(
                Wavelet(j2 * L + t, partial(_spectrum, padded, L, j2, t, j1), j2)
                for j2 in range(j1 + 1, J if max_order == 2 else 0)
                for t in range(L)
            ),
        )
        for j1 in range(J)
    )
    return Tree(extent, padding, levels, groups)


class Scattering2D(Transform):
    r"""The scattering transform of images with Morlet wavelets.

    Parameters
    ----------
    J : int
        The largest scale is :math:`2^J`; at least 1.
    shape : tuple of two ints
        The size (M, N) of the images, any of at least :math:`2^J`.
    L : int, default 8
        Number of angles, of half a turn.
    max_order : {1, 2}
        How many wavelets follow each other in a path at most.
    pre_pad : bool, default False
        Whether images come padded already, of the size :attr:`padded_shape`. Otherwise they are reflected.
    out_type : {"array", "list", "dict"}
        The form of results: see `scattering`.
    backend : object, optional
        Taken for the sake of other libraries, and not looked at.

    Raises
    ------
    ValueError
        If :math:`2^J` is larger than the image, or another argument is out of its range.
    TypeError
        If an argument is of the wrong kind.

    Notes
    -----
    .. math:: S x = \bigl(x \star \phi_J,\; |x \star \psi_{j_1,t_1}| \star \phi_J,\;
              ||x \star \psi_{j_1,t_1}| \star \psi_{j_2,t_2}| \star \phi_J\bigr), \qquad j_1 < j_2

    The results, filters and attributes are those of kymatio's class of the same name: (..., C, M1, N1) with
    :math:`C = 1 + JL + L^2J(J-1)/2` paths, first those of order 0, then 1, then 2 with the first wavelet outermost.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.scattering import Scattering2D
    >>> S = Scattering2D(J=2, shape=(32, 32))
    >>> S(np.ones((5, 3, 32, 32), np.float32)).shape
    (5, 3, 81, 8, 8)
    """

    _forward = Operation("scattering.scattering2d", "x")
    _backward = Operation("scattering.scattering2d_vjp", "x", "grad")
    _mean = Operation("scattering.moments2d", "x")
    _mean_backward = Operation("scattering.moments2d_vjp", "x", "grad")

    _order = 0  # of the tree; none was made yet

    def __init__(
        self,
        J: int,
        shape: tuple[int, int],
        L: int = 8,
        max_order: int = 2,
        pre_pad: bool = False,
        out_type: str = "array",
        *,
        backend: Any = None,
    ) -> None:
        where = "scattering.Scattering2D"
        self.J = whole(where, "J", J, 1)
        self.shape: tuple[int, int] = sizes(where, shape, 2)  # type: ignore[assignment]
        self.L = whole(where, "L", L, 1)
        self.max_order = whole(where, "max_order", max_order, 1, 2)
        self.pre_pad = flag(where, "pre_pad", pre_pad)
        self.out_type = choice(where, "out_type", out_type, OUT_TYPES)
        self.backend = backend
        scales_fit(where, self.J, self.shape)
        self._tree, self._order = _tree(self.shape, self.J, self.L, self.max_order, self.pre_pad), self.max_order

    def _current(self) -> Tree:
        """Describe the transform as its attributes now are: `max_order` may have been changed."""
        order = whole("scattering.Scattering2D", "max_order", self.max_order, 1, 2)
        if order != self._order:
            self._tree, self._order = _tree(self.shape, self.J, self.L, order, self.pre_pad), order
        return self._tree

    def __repr__(self) -> str:
        return f"Scattering2D(J={self.J}, shape={self.shape}, L={self.L}, max_order={self.max_order})"

    @property
    def padded_shape(self) -> tuple[int, int]:
        """The size of the padded image, on which the filters are."""
        return self._tree.levels[0].shape  # type: ignore[return-value]

    @property
    def M(self) -> int:
        """The number of rows of an image."""
        return self.shape[0]

    @property
    def N(self) -> int:
        """The number of columns of an image."""
        return self.shape[1]

    @property
    def M_padded(self) -> int:
        """The number of rows of the padded image."""
        return self.padded_shape[0]

    @property
    def N_padded(self) -> int:
        """The number of columns of the padded image."""
        return self.padded_shape[1]

    _M_padded, _N_padded = M_padded, N_padded

    @property
    def psi(self) -> list[dict[str, Any]]:
        """The wavelets: a dict with ``j``, ``theta`` and ``levels``, their spectra at each resolution."""
        bank: HostArray = bank_2d(self.padded_shape, self.J, self.L)
        return [
            {
                "levels": [cropped(bank[j, t], r, (0, 1)) for r in range(min(j + 1, max(self.J - 1, 1)))],
                "j": j,
                "theta": t,
            }
            for j in range(self.J)
            for t in range(self.L)
        ]

    @property
    def phi(self) -> dict[str, Any]:
        """The low-pass: a dict with ``j`` and ``levels``, its spectra at each resolution."""
        return {"levels": [level.phi for level in self._tree.levels], "j": self.J}

    @property
    def filters(self) -> dict[str, Any]:
        """The filters in the Fourier domain, as `psi` and `phi`."""
        return {"phi": self.phi, "psi": self.psi}

    def _description(self, path: tuple[int, ...]) -> dict[str, Any]:
        return {"j": tuple(n // self.L for n in path), "n": path, "theta": tuple(n % self.L for n in path)}

    def meta(self) -> dict[str, Any]:
        """Describe the paths.

        Returns
        -------
        dict
            Arrays with a row for each path: ``order``; ``j``, ``theta`` and ``n``, the scale, angle and number of each
            wavelet, NaN where there is none; and ``key``, the list of paths as a dict of results has them.
        """
        paths = list(self._current().channels)
        padded = [path + (np.nan,) * (self.max_order - len(path)) for path in paths]
        n = np.array(padded, float).reshape(len(paths), self.max_order)
        order = np.array([len(path) for path in paths])
        return {"order": order, "j": n // self.L, "theta": n % self.L, "n": n, "key": paths}

    def output_size(self, detail: bool = False) -> int | tuple[int, ...]:
        """Count the paths.

        Parameters
        ----------
        detail : bool, default False
            Whether to count them for each order.

        Returns
        -------
        int or tuple of ints
        """
        orders = [len(path) for path in self._current().channels]
        counts = tuple(orders.count(order) for order in range(self.max_order + 1))
        return counts if detail else sum(counts)
