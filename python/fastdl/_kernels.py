"""The kernels by name: their parameters, defaults and limits, and the operation that computes each."""

from __future__ import annotations

import math
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl._arrays import kind, library_of
from fastdl._dispatch import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdl._arrays import Array

    Limit = Callable[[float], bool]
    Check = Callable[[str, str, Any, int], Any]
    Fit = Callable[..., bool]


def _real(where: str, name: str, value: Any, limit: Limit | None, wanted: str) -> float:
    """Give a parameter as a float, or say what was wanted."""
    if type(value) is not float:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
            raise TypeError(f"[{where}] expected {name} to be {wanted}, got {kind(value)}")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf if value > 0 else -math.inf
    # Written so that NaN is refused too.
    if not (limit(value) if limit is not None else math.isfinite(value)):
        raise ValueError(f"[{where}] expected {name} to be {wanted}, got {value}")
    return float(value)


def real(wanted: str, limit: Limit | None = None) -> Check:
    """Make the check of a real number."""
    return lambda where, name, value, d: _real(where, name, value, limit, wanted)


def gamma(wanted: str, limit: Limit | None = None) -> Check:
    """Make the check of a gamma: None means one over the number of features."""

    def check(where: str, name: str, value: Any, d: int) -> float:
        if value is None:
            return 1.0 / d if d else 1.0
        return _real(where, name, value, limit, wanted)

    return check


def integer(wanted: str, limit: Callable[[int], bool]) -> Check:
    """Make the check of a whole number."""

    def check(where: str, name: str, value: Any, d: int) -> int:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError(f"[{where}] expected {name} to be {wanted}, got bool")
        try:
            number = index(value)
        except TypeError:
            raise TypeError(f"[{where}] expected {name} to be {wanted}, got {kind(value)}") from None
        if not limit(number):
            raise ValueError(f"[{where}] expected {name} to be {wanted}, got {number}")
        return number

    return check


def _flag(where: str, name: str, value: Any, d: int) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"[{where}] expected {name} to be True or False, got {kind(value)}")
    return bool(value)


def _length_scale(where: str, name: str, value: Any, d: int) -> Any:
    if isinstance(value, Real):
        return _real(where, name, value, lambda number: 0 < number < math.inf, "a number above 0")
    scales = library_of(value).view(where, name, value)
    if scales.dtype.kind not in "iuf":
        raise TypeError(f"[{where}] expected {name} to be a number or {d} numbers, got {kind(value)} of {scales.dtype}")
    scales = scales.astype(np.float64)
    if scales.ndim == 0:
        return _length_scale(where, name, float(scales), d)
    if scales.shape != (d,):
        raise ValueError(f"[{where}] expected {name} of shape ({d},) or a number, got {scales.shape}")
    if not np.all((scales > 0) & (scales < np.inf)):
        raise ValueError(f"[{where}] expected {name} to be above 0 in every feature, got {scales}")
    # One for all features is a number: its distances need no weights.
    return float(scales[0]) if d and np.all(scales == scales[0]) else scales


def moderate(*values: float) -> bool:
    """Tell whether numbers are 0, or so far from the ends of float32 that products with them rarely leave it."""
    return all(1e-30 <= abs(value) <= 1e30 or value == 0 for value in values)


def _moderate_scale(length_scale: Any, nu: float) -> bool:
    if isinstance(length_scale, float):
        return 1e-15 <= length_scale <= 1e15
    return bool(np.all((length_scale >= 1e-15) & (length_scale <= 1e15)))


def _moderate_network(depth: int, w_std: float, b_std: float, normalize: bool) -> bool:
    """Tell whether the variances of all layers stay within float32, or are 0 in it."""
    if not moderate(w_std * w_std, b_std * b_std):
        return False
    growth = 2 * math.log2(w_std) if w_std else 0.0
    last = growth + depth * (growth - 1)  # w² (w²/2)^depth
    # Below 2^-400 no length of samples brings the result back.
    return last <= 100 and (last >= -100 or b_std > 0 or last <= -400)


class Kernel:
    """One kernel: its name, its parameters with their defaults, and its operation.

    Parameters
    ----------
    name : str
        The canonical name, which the operation carries too.
    fits : callable, optional
        Tells for parameters in their order whether the compiled code can take them in float32. By default it can.
    **parameters : tuple of default and check
        In the order in which the compiled code and the reference take them.
    """

    __slots__ = ("checks", "defaults", "fits", "function", "name", "operation")

    def __init__(self, name: str, fits: Fit = lambda *values: True, **parameters: tuple[Any, Check]) -> None:
        self.name = name
        self.fits = fits
        self.operation = Operation(f"gram.{name}", "X", "Y?")
        self.defaults = {parameter: default for parameter, (default, _) in parameters.items()}
        self.checks = tuple((parameter, check) for parameter, (_, check) in parameters.items())
        # The public function, entered by fastdl.gram: what works on any kernel finds it here.
        self.function: Callable[..., Array] = _unregistered

    def resolve(self, where: str, d: int, values: tuple[Any, ...]) -> list[Any]:
        """Check the parameters, given in order, for samples of `d` features."""
        return [check(where, name, value, d) for (name, check), value in zip(self.checks, values, strict=True)]

    def names(self, where: str, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse what is not a parameter of this kernel: Python's own complaint would not list those that are."""
        for name in given:
            if name not in self.defaults:
                known = ", ".join(self.defaults) or "none"
                raise TypeError(f"[{where}] expected parameters of {self.name} ({known}), got {name}")
        return given

    def named(self, where: str, d: int, given: dict[str, Any]) -> dict[str, Any]:
        """Check the parameters, given by name, and put in the defaults."""
        self.names(where, given)
        values = tuple(given.get(name, default) for name, default in self.defaults.items())
        return dict(zip(self.defaults, self.resolve(where, d, values), strict=True))


def _unregistered(*arguments: Any, **options: Any) -> Any:
    raise RuntimeError("fastdl.gram was not imported")


_GAMMA = "a finite number, or None"
_SCALE = "a number above 0, or None"

KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("linear"),
        Kernel(
            "polynomial",
            lambda degree, gamma, coef0: moderate(gamma, coef0),
            degree=(3, real("a finite number of at least 1", lambda value: 1 <= value < math.inf)),
            gamma=(None, gamma(_GAMMA)),
            coef0=(1, real("a finite number")),
        ),
        Kernel("sigmoid", moderate, gamma=(None, gamma(_GAMMA)), coef0=(1, real("a finite number"))),
        Kernel(
            "rbf",
            moderate,
            gamma=(None, gamma("a number of at least 0, or None", lambda value: 0 <= value < math.inf)),
        ),
        Kernel("laplacian", moderate, gamma=(None, gamma(_SCALE, lambda value: 0 < value < math.inf))),
        Kernel("cosine"),
        Kernel("additive_chi2"),
        Kernel("chi2", moderate, gamma=(1.0, real("a number above 0", lambda value: 0 < value < math.inf))),
        Kernel(
            "matern",
            _moderate_scale,
            length_scale=(1.0, _length_scale),
            nu=(1.5, real("a number above 0, or inf", lambda value: value > 0)),
        ),
        Kernel("geometric", alpha=(0.5, real("a number between 0 and 1", lambda value: 0 < value < 1))),
        Kernel("sinc", moderate, omega=(1.0, real("a number above 0", lambda value: 0 < value < math.inf))),
        Kernel("arc_cosine", order=(1, integer("0, 1 or 2", lambda value: value in (0, 1, 2)))),
        *(
            Kernel(
                name,
                _moderate_network,
                depth=(1, integer("a whole number from 0 to 1000000", lambda value: 0 <= value <= 1_000_000)),
                w_std=(1.0, real("a number of at least 0", lambda value: 0 <= value < math.inf)),
                b_std=(0.0, real("a number of at least 0", lambda value: 0 <= value < math.inf)),
                normalize=(True, _flag),
            )
            for name in ("nngp", "ntk")
        ),
    )
}

ALIASES = {"poly": "polynomial"}


def find(where: str, kernel: Any) -> Kernel:
    """Find a kernel by its name, or by its public function."""
    if isinstance(kernel, str):
        found = KERNELS.get(ALIASES.get(kernel, kernel))
        if found is not None:
            return found
        raise ValueError(f"[{where}] expected kernel to be one of {', '.join(KERNELS)}, got {kernel!r}")
    if callable(kernel):
        for entry in KERNELS.values():
            if entry.function is kernel:
                return entry
        name = getattr(kernel, "__name__", kind(kernel))
        raise ValueError(f"[{where}] expected kernel to be a kernel function of fastdl.gram, got {name}")
    raise TypeError(f"[{where}] expected kernel to be a name or a function of fastdl.gram, got {kind(kernel)}")
