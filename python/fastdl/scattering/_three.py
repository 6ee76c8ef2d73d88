"""Solid harmonic scattering of volumes."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind
from fastdl._dispatch import Operation
from fastdl.scattering._checks import batch_of, flag, grad_of, sizes, whole
from fastdl.scattering._filters import bank_3d
from fastdl.scattering._native import filters_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import Array, HostArray
    from fastdl._dispatch import Call


def _positive(where: str, name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"[{where}] expected {name} to be a number above 0, got {kind(value)}")
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"[{where}] expected {name} to be a number above 0, got {value}")
    return number


def _extreme(call: Call) -> Any:
    """Tell which float32 volumes have moduli so large or small that kernels cannot square them; None if none has."""
    x = call.arrays[0]
    if call.backend != "native" or call.dtype != np.float32 or not x.size:
        return None
    most = np.abs(x).max((-3, -2, -1))
    extreme = ((most > 1e13) | (most < 1e-13)) & (most > 0) & np.isfinite(most)
    return extreme if extreme.any() else None


class HarmonicScattering3D:
    r"""The scattering transform of periodic volumes with solid harmonic wavelets.

    Parameters
    ----------
    J : int
        Scales are :math:`\sigma_0 2^j` for j from 0 to J; at least 1.
    shape : tuple of three ints
        The size (M, N, O) of volumes, any of at least :math:`2^J`.
    L : int, default 3
        Degrees of the harmonics are 0 to L.
    sigma_0 : float, default 1
        The width of the smallest wavelets.
    max_order : {1, 2}
        How many wavelets follow each other in a path at most.
    rotation_covariant : bool, default True
        Whether moduli are taken over all harmonics of a degree, or of the first of them, m = -l.
    integral_powers : tuple of floats, default (0.5, 1, 2)
        Which powers of the moduli are summed up.
    method : {"integral"}
        The only one there is.
    points : None
        Taken for the sake of other libraries, and not looked at.
    backend : object, optional
        The same.

    Raises
    ------
    ValueError
        If :math:`2^J` is larger than the volume, or another argument is out of its range.
    TypeError
        If an argument is of the wrong kind.

    Notes
    -----
    .. math:: U_{l,j}(x) = \sqrt{\sum_m |x \star \psi_{l,m,j}|^2}, \qquad S_{p} = \sum_u U(u)^p

    of :math:`U_{l,j}(x)` and, in the second order, of :math:`U_{l,j_2}(U_{l,j_1}(x))` with j1 < j2. Results are
    (..., scales, L + 1, powers), first of all j, then of all (j1, j2); numbers and attributes are those of kymatio's
    class of the same name.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdl.scattering import HarmonicScattering3D
    >>> S = HarmonicScattering3D(J=2, shape=(16, 16, 16), L=2)
    >>> S(np.ones((4, 16, 16, 16))).shape
    (4, 6, 3, 3)
    """

    _forward = Operation("scattering.harmonic", "x")
    _backward = Operation("scattering.harmonic_vjp", "x", "grad")

    def __init__(
        self,
        J: int,
        shape: tuple[int, int, int],
        L: int = 3,
        sigma_0: float = 1,
        max_order: int = 2,
        rotation_covariant: bool = True,
        integral_powers: tuple[float, ...] = (0.5, 1.0, 2.0),
        *,
        method: str = "integral",
        points: Any = None,
        backend: Any = None,
    ) -> None:
        where = "scattering.HarmonicScattering3D"
        self.J = whole(where, "J", J, 1)
        self.shape: tuple[int, int, int] = sizes(where, shape, 3)  # type: ignore[assignment]
        self.M, self.N, self.O = self.shape
        if self.J > 60 or min(self.shape) < 2**self.J:
            raise ValueError(f"[{where}] expected 2**J of at most {min(self.shape)}, the smallest size, got J = {J}")
        self.L = whole(where, "L", L, 0)
        self.sigma_0 = _positive(where, "sigma_0", sigma_0)
        self.max_order = whole(where, "max_order", max_order, 1, 2)
        self.rotation_covariant = flag(where, "rotation_covariant", rotation_covariant)
        if method != "integral":
            raise ValueError(f"[{where}] expected method to be 'integral', got {method!r}")
        if not isinstance(integral_powers, (tuple, list, np.ndarray)):
            raise TypeError(f"[{where}] expected integral_powers to be numbers above 0, got {kind(integral_powers)}")
        self.integral_powers = tuple(_positive(where, "integral_powers", power) for power in integral_powers)
        if not self.integral_powers:
            raise ValueError(f"[{where}] expected integral_powers to be numbers above 0, got none")
        self.method, self.points, self.backend = method, points, backend

    def __repr__(self) -> str:
        return f"HarmonicScattering3D(J={self.J}, shape={self.shape}, L={self.L}, max_order={self.max_order})"

    @property
    def filters(self) -> list[HostArray]:
        """The wavelets in the Fourier domain: for each l an array (J + 1, 2 l + 1, M, N, O)."""
        return list(bank_3d(self.shape, self.J, self.L, self.sigma_0))

    @property
    def gaussian_filters(self) -> HostArray:
        """The Gaussians of the scales 0 to J + 1 in the Fourier domain."""
        return bank_3d(self.shape, self.J + 1, 0, self.sigma_0)[0][:, 0]

    def _told(self, call: Call) -> tuple[Any, ...]:
        """Give what the backend of a call is told of the transform."""
        if call.compiled:
            # As the kernels read them: (scales, harmonics, voxels) in the precision of the volumes.
            dtype = "complex64" if call.precision.name == "float32" else "complex128"
            bank = bank_3d(self.shape, self.J, self.L, self.sigma_0, dtype, self.rotation_covariant)
            told: Any = [filters.reshape(*filters.shape[:2], -1) for filters in bank]
            if call.backend == "native":
                call.arrays = tuple(np.ascontiguousarray(array) for array in call.arrays)
            else:
                told = filters_of(bank, told, self.shape, call)
            if told is not None:
                return told, list(self.shape), self.max_order, list(self.integral_powers)
            call.backend = "reference"
        bank = bank_3d(self.shape, self.J, self.L, self.sigma_0)
        return bank, self.max_order, self.rotation_covariant, self.integral_powers

    def _in_double(
        self, call: Call, result: Array, extreme: Any, compute: Callable[..., Array], *arrays: HostArray
    ) -> Array:
        """Put what float64 gives in the place of the results of extreme volumes."""
        joined = np.array(call.library.view("scattering", "result", result))
        with np.errstate(over="ignore"):
            joined[extreme] = compute(*(array[extreme].astype(np.float64) for array in arrays))
        return call.library.wrap(joined, call.like)

    def _output(self) -> tuple[int, int, int]:
        return len(self._paths()), self.L + 1, len(self.integral_powers)

    def _paths(self) -> list[tuple[int, ...]]:
        ones: list[tuple[int, ...]] = [(j,) for j in range(self.J + 1)]
        twos: list[tuple[int, ...]] = [(i, j) for i in range(self.J + 1) for j in range(i + 1, self.J + 1)]
        return ones + (twos if self.max_order == 2 else [])

    def __call__(self, x: Array) -> Array:
        """Compute the transform: the same as `scattering`."""
        return self.scattering(x)

    def scattering(self, x: Array) -> Array:
        """Compute the transform of all volumes in `x`.

        Parameters
        ----------
        x : array of shape (..., M, N, O)
            Volumes, with any axes before.

        Returns
        -------
        array of shape (..., scales, L + 1, powers)
            In the library and dtype of `x`.

        Raises
        ------
        ValueError
            If the last axes of `x` are not of the shape that the transform was made for.
        TypeError
            If the dtype is not supported.
        """
        call = self._forward.begin(x)
        batch = batch_of(call, self.shape)
        extreme, volumes = _extreme(call), call.arrays
        result = call.finish((*batch, *self._output()), None, *self._told(call))
        return result if extreme is None else self._in_double(call, result, extreme, self.scattering, *volumes)

    def vjp(self, x: Array, grad: Array) -> Array:
        """Compute the gradient of a loss for `x` from its gradient for the result.

        Parameters
        ----------
        x : array of shape (..., M, N, O)
            Volumes, as in `scattering`.
        grad : array of shape (..., scales, L + 1, powers)
            The gradient for the result.

        Returns
        -------
        array
            The gradient for `x`, in its shape. Where a modulus is 0, its gradient is taken as 0.

        Raises
        ------
        ValueError
            If a shape does not fit.
        TypeError
            If a dtype does not fit.
        """
        call = self._backward.begin(x, grad)
        grad_of(call, (*batch_of(call, self.shape), *self._output()))
        extreme, given = _extreme(call), call.arrays
        result = call.finish(tuple(call.arrays[0].shape), None, *self._told(call))
        return result if extreme is None else self._in_double(call, result, extreme, self.vjp, *given)

    def moments(self, x: Array) -> Array:
        """Compute the same per voxel: means of powers of the moduli in place of their sums.

        Parameters
        ----------
        x : array of shape (..., M, N, O)
            Volumes, as in `scattering`.

        Returns
        -------
        array of shape (..., scales, L + 1, powers)
        """
        return self.scattering(x) / math.prod(self.shape)

    def moments_vjp(self, x: Array, grad: Array) -> Array:
        """Compute the gradient for `x` of a loss from its gradient for the moments.

        Parameters
        ----------
        x : array of shape (..., M, N, O)
            Volumes, as in `scattering`.
        grad : array of shape (..., scales, L + 1, powers)
            The gradient for what `moments` gives.

        Returns
        -------
        array
            The gradient for `x`, in its shape.

        Raises
        ------
        ValueError
            If a shape does not fit.
        TypeError
            If a dtype does not fit.
        """
        return self.vjp(x, grad) / math.prod(self.shape)

    def meta(self) -> dict[str, Any]:
        """Describe the results.

        Returns
        -------
        dict
            Arrays with a row for each scale or pair of scales, along the third axis from the end: ``order`` and ``j``,
            NaN where there is no second; and ``l`` and ``power``, along the last two axes.
        """
        paths = self._paths()
        padded = [path + (math.nan,) * (self.max_order - len(path)) for path in paths]
        return {
            "order": np.array([len(path) for path in paths]),
            "j": np.array(padded, float).reshape(len(paths), self.max_order),
            "l": np.arange(self.L + 1),
            "power": np.array(self.integral_powers),
            "key": paths,
        }

    def output_size(self) -> int:
        """Count the numbers that a volume becomes.

        Returns
        -------
        int
        """
        return math.prod(self._output())
