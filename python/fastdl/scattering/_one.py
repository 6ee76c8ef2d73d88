"""Scattering of signals."""

from __future__ import annotations

import math
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind
from fastdl._dispatch import Operation
from fastdl.scattering._base import OUT_TYPES, Transform
from fastdl.scattering._checks import choice, flag, sizes, whole
from fastdl.scattering._filters import ALPHA, R_PSI, SIGMA_0, bank_1d, padded_length, periodized, wavelets_1d
from fastdl.scattering._tree import Group, Level, Tree, Wavelet, reflection

if TYPE_CHECKING:
    from fastdl._arrays import HostArray


def _borders(left: int, size: int, level: int) -> tuple[int, int]:
    """Give the first and the end of a signal on the grid of one sample in 2^level."""
    return -(-left // 2**level), -(-(left + size) // 2**level)


@lru_cache(8)
def _tree(
    size: int,
    J: int,
    Q: tuple[int, int],
    T: float,
    max_order: int,
    oversampling: int,
    normalization: str,
    averaged: bool,
) -> Tree:
    """Describe the transform of signals of a length."""
    padded = padded_length(size, T)
    left = (padded - size) // 2
    first, second, phi = bank_1d(padded, J, Q, T)
    scale = math.floor(math.log2(T))

    def level_of(j: int, above: int = 0) -> int:
        """Give how often the result of a wavelet is halved, when its input was `above` times."""
        adjusted = min(j, scale) if averaged else j
        return above + max(adjusted - above - oversampling, 0)

    js = [[j for _, _, j in wavelets_1d(J, q)] for q in Q]
    coarsest = max([level_of(j) for j in js[0] + js[1]] + [0])
    levels = []
    for k in range(coarsest + 1):
        step = max(scale - k - oversampling, 0)
        low = periodized(phi, k, normalization) if k <= scale else phi[:1]
        inside = (_borders(left, size, k),)
        levels.append(Level((padded >> k,), low, 2**step, (_borders(left, size, k + step),), inside))
    groups = []
    for j1 in sorted(set(js[0])):
        k1 = level_of(j1)
        members = tuple(Wavelet(n, first[n], k1) for n, j in enumerate(js[0]) if j == j1)
        followers = tuple(
            Wavelet(n, periodized(second[n], k1, normalization), level_of(j2, k1))
            for n, j2 in enumerate(js[1])
            if max_order == 2 and j2 > j1
        )
        groups.append(Group(members, followers))
    return Tree((size,), (reflection(size, left, padded - size - left),), tuple(levels), tuple(groups), averaged)


class Scattering1D(Transform):
    r"""The scattering transform of signals with Morlet wavelets.

    Parameters
    ----------
    J : int
        The largest scale of wavelets is :math:`2^J`; at least 1.
    shape : int or tuple of one int
        The length N of the signals, at least :math:`2^J`.
    Q : int or tuple of one or two ints, default 1
        Wavelets an octave, of the first and of the second order; one number is that of the first, with 1 of the second.
    T : float, optional
        The scale of the low-pass, from 1 to N; :math:`2^J` if not given. 0 gives moduli that are not averaged.
    max_order : {1, 2}
        How many wavelets follow each other in a path at most.
    oversampling : int, default 0
        Results are taken :math:`2^{oversampling}` times as densely, as far as there are samples.
    out_type : {"array", "list", "dict"}
        The form of results: see `scattering`. Without averaging their lengths differ, and they are no array.
    normalization : {"sum", "mean"}
        How the spectra of filters are folded for coarser resolutions. The sum keeps their gain; ``"mean"``, which makes
        them weaker by the subsampling, gives the numbers of kymatio 0.3.0.
    average : bool, optional
        False is the same as T=0.
    backend : object, optional
        Taken for the sake of other libraries, and not looked at.

    Raises
    ------
    ValueError
        If a scale is larger than the signal, or another argument is out of its range.
    TypeError
        If an argument is of the wrong kind.

    Notes
    -----
    .. math:: S x = \bigl(x \star \phi,\; |x \star \psi_{n_1}| \star \phi,\;
              ||x \star \psi_{n_1}| \star \psi_{n_2}| \star \phi\bigr), \qquad j(n_1) < j(n_2)

    Paths of order 0 come first, then 1, then 2 with the first wavelet outermost. Attributes are those of kymatio's
    class of the same name.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.scattering import Scattering1D
    >>> S = Scattering1D(J=4, shape=1000, Q=8)
    >>> S(np.ones((2, 1000))).shape
    (2, 50, 63)
    """

    _forward = Operation("scattering.scattering1d", "x")
    _backward = Operation("scattering.scattering1d_vjp", "x", "grad")
    _mean = Operation("scattering.moments1d", "x")
    _mean_backward = Operation("scattering.moments1d_vjp", "x", "grad")

    r_psi = R_PSI
    sigma0 = SIGMA_0
    alpha = ALPHA

    def __init__(
        self,
        J: int,
        shape: int | tuple[int],
        Q: int | tuple[int, ...] = 1,
        T: float | None = None,
        max_order: int = 2,
        oversampling: int = 0,
        out_type: str = "array",
        normalization: str = "sum",
        *,
        average: bool | None = None,
        backend: Any = None,
    ) -> None:
        where = "scattering.Scattering1D"
        self.J = whole(where, "J", J, 1)
        self.shape = sizes(where, shape, 1)
        size = self.shape[0]
        if self.J > 60 or size < 2**self.J:
            raise ValueError(f"[{where}] expected 2**J of at most {size}, the length of signals, got J = {J}")
        if isinstance(Q, (tuple, list)):
            if not 1 <= len(Q) <= 2:
                raise ValueError(f"[{where}] expected Q to be a number or one or two of them, got {tuple(Q)}")
            self.Q = (whole(where, "Q", Q[0], 1), whole(where, "Q", Q[-1], 1) if len(Q) == 2 else 1)
        else:
            self.Q = (whole(where, "Q", Q, 1), 1)
        self.average = _averaged(where, T, average)
        self.T = 2**self.J if T is None or T == 0 or not self.average else T
        if size < self.T:
            raise ValueError(f"[{where}] expected T of at most {size}, the length of signals, got {self.T}")
        self.max_order = whole(where, "max_order", max_order, 1, 2)
        self.oversampling = whole(where, "oversampling", oversampling, 0)
        self.out_type = choice(where, "out_type", out_type, OUT_TYPES)
        if not self.average and self.out_type == "array":
            raise ValueError(f"[{where}] expected out_type 'list' or 'dict' without averaging, got 'array'")
        self.normalization = choice(where, "normalization", normalization, ("sum", "mean"))
        self.backend = backend
        self.log2_T = math.floor(math.log2(self.T))
        self._tree = self._current()

    def _current(self) -> Tree:
        return _tree(
            self.shape[0],
            self.J,
            self.Q,
            self.T,
            self.max_order,
            self.oversampling,
            self.normalization,
            self.average,
        )

    def __repr__(self) -> str:
        return f"Scattering1D(J={self.J}, shape={self.shape[0]}, Q={self.Q}, T={self.T}, max_order={self.max_order})"

    @property
    def N(self) -> int:
        """The length of signals."""
        return self.shape[0]

    @property
    def N_padded(self) -> int:
        """The length of padded signals, a power of two."""
        return self._tree.levels[0].shape[0]

    _N_padded = N_padded

    @property
    def J_pad(self) -> int:
        """The logarithm of the padded length."""
        return self.N_padded.bit_length() - 1

    @property
    def pad_left(self) -> int:
        """How many samples are put before the signal."""
        return (self.N_padded - self.N) // 2

    @property
    def pad_right(self) -> int:
        """How many samples are put after the signal."""
        return self.N_padded - self.N - self.pad_left

    @property
    def ind_start(self) -> dict[int, int]:
        """Where the signal begins at each resolution."""
        return {k: _borders(self.pad_left, self.N, k)[0] for k in range(max(self.log2_T, self.J) + 1)}

    @property
    def ind_end(self) -> dict[int, int]:
        """Where the signal ends at each resolution."""
        return {k: _borders(self.pad_left, self.N, k)[1] for k in range(max(self.log2_T, self.J) + 1)}

    def _bank(self) -> tuple[HostArray, HostArray, HostArray]:
        return bank_1d(self.N_padded, self.J, self.Q, self.T)

    def _levels(self, spectrum: HostArray, coarsest: int) -> list[HostArray]:
        return [periodized(spectrum, k, self.normalization) for k in range(coarsest + 1)]

    @property
    def psi1_f(self) -> list[dict[str, Any]]:
        """The wavelets of the first order: dicts with ``levels``, ``xi``, ``sigma`` and ``j``."""
        parameters = zip(self._bank()[0], wavelets_1d(self.J, self.Q[0]), strict=True)
        return [{"levels": [psi], "xi": xi, "sigma": sigma, "j": j} for psi, (xi, sigma, j) in parameters]

    @property
    def psi2_f(self) -> list[dict[str, Any]]:
        """The wavelets of the second order, at each resolution they are used at."""
        ones = [j for _, _, j in wavelets_1d(self.J, self.Q[0])]
        return [
            {
                "levels": self._levels(psi, max([j1 for j1 in ones if j1 < j], default=0)),
                "xi": xi,
                "sigma": sigma,
                "j": j,
            }
            for psi, (xi, sigma, j) in zip(self._bank()[1], wavelets_1d(self.J, self.Q[1]), strict=True)
        ]

    @property
    def phi_f(self) -> dict[str, Any]:
        """The low-pass at each resolution: a dict with ``levels``, ``xi``, ``sigma`` and ``j``."""
        coarsest = min(max(j for q in self.Q for _, _, j in wavelets_1d(self.J, q)), self.log2_T)
        levels = self._levels(self._bank()[2], coarsest)
        return {"levels": levels, "xi": 0, "sigma": SIGMA_0 / self.T, "j": self.log2_T}

    @property
    def filters(self) -> dict[str, Any]:
        """The filters in the Fourier domain."""
        return {"phi": self.phi_f, "psi1": self.psi1_f, "psi2": self.psi2_f}

    def _description(self, path: tuple[int, ...]) -> dict[str, Any]:
        banks = [wavelets_1d(self.J, q) for q in self.Q]
        return {"j": tuple(banks[order][n][2] for order, n in enumerate(path)), "n": path}

    def meta(self) -> dict[str, Any]:
        """Describe the paths.

        Returns
        -------
        dict
            Arrays with a row for each path: ``order``; ``xi``, ``sigma``, ``j`` and ``n``, centre frequency, width,
            scale and number of each wavelet, NaN where there is none; and ``key``, the list of paths.
        """
        banks = [wavelets_1d(self.J, q) for q in self.Q]
        paths = list(self._current().channels)

        def rows(value: Any) -> HostArray:
            missing = (math.nan,)
            padded = [
                tuple(value(order, n) for order, n in enumerate(path)) + missing * (self.max_order - len(path))
                for path in paths
            ]
            return np.array(padded, float).reshape(len(paths), self.max_order)

        return {
            "order": np.array([len(path) for path in paths]),
            "xi": rows(lambda order, n: banks[order][n][0]),
            "sigma": rows(lambda order, n: banks[order][n][1]),
            "j": rows(lambda order, n: banks[order][n][2]),
            "n": rows(lambda order, n: n),
            "key": paths,
        }

    def output_size(self, detail: bool = False) -> int | list[int]:
        """Count the paths.

        Parameters
        ----------
        detail : bool, default False
            Whether to count them for each order.

        Returns
        -------
        int or list of ints
        """
        orders = [len(path) for path in self._current().channels]
        counts = [orders.count(order) for order in range(self.max_order + 1)]
        return counts if detail else sum(counts)


def _averaged(where: str, T: Any, average: Any) -> bool:
    """Tell whether results are averaged, from T and the older argument for it."""
    if average is not None:
        flag(where, "average", average)
    if T is None:
        return average is not False
    if isinstance(T, (bool, np.bool_)) or not isinstance(T, Real):
        raise TypeError(f"[{where}] expected T to be a number, got {kind(T)}")
    if T == 0:
        if average:
            raise ValueError(f"[{where}] expected T of at least 1 with averaging, got 0")
        return False
    if not 1 <= float(T) < math.inf:
        raise ValueError(f"[{where}] expected T to be 0 or a number of at least 1, got {T}")
    if average is False:
        raise ValueError(f"[{where}] expected T = 0 without averaging, got {T}")
    return True
