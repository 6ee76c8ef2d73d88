"""kymatio as a rival: its torch and NumPy frontends, objects made beforehand, gradients by autograd.

Its package asks SciPy for `sph_harm`, which newer versions call `sph_harm_y`; where it is missing it is put in its
place for the import, and no transform but that of volumes calls it. Filters are made or kept in single precision, and
sums over volumes rounded to it: in double it is given our filters, in the places of its own, and keeps its sums, so
that its results can be checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

Call = Callable[[], Any]

_AXES = {"Scattering1D": 1, "Scattering2D": 2, "HarmonicScattering3D": 3}


def _made(library: str, name: str, x: np.ndarray, parameters: dict[str, Any]) -> Any:
    """Make kymatio's object of that name."""
    import scipy.special

    if not hasattr(scipy.special, "sph_harm"):
        scipy.special.sph_harm = lambda m, n, azimuth, polar: scipy.special.sph_harm_y(n, m, polar, azimuth)
    shape = x.shape[-_AXES[name] :]
    shape = shape[0] if len(shape) == 1 else shape
    theirs = {
        key: value for key, value in parameters.items() if key != "normalization"
    }  # ours is asked for its numbers
    made = getattr(import_module(f"kymatio.{library}"), name)(shape=shape, **theirs)
    if x.dtype == np.float64:
        from fastdl import scattering

        _in_double(library, made, getattr(scattering, name)(shape=shape, **parameters))
        if library == "numpy" and name == "HarmonicScattering3D":
            made.backend = type("InDouble", (made.backend,), {"compute_integrals": staticmethod(_integrals)})
    return made


def _integrals(u: np.ndarray, powers: tuple[float, ...]) -> np.ndarray:
    """As its own, but for a rounding of the result."""
    return np.stack([(u**power).reshape(len(u), -1).sum(axis=1) for power in powers], axis=-1)


def _in_double(library: str, made: Any, ours: Any) -> None:
    """Put our filters in the place of its own."""
    if isinstance(ours.filters, list):
        banks, filters = [made.filters], [ours.filters]
    else:
        theirs = (made.phi, *made.psi) if hasattr(made, "psi") else (made.phi_f, *made.psi1_f, *made.psi2_f)
        phi, *psi = ours.filters.values()
        banks = [bank["levels"] for bank in theirs]
        filters = [phi["levels"], *(wavelet["levels"] for bank in psi for wavelet in bank)]
    number = 0
    for bank, levels in zip(banks, filters, strict=True):
        for place, (before, spectrum) in enumerate(zip(list(bank), levels, strict=True)):
            bank[place] = spectrum
            if library == "torch":
                import torch

                values = torch.from_numpy(np.ascontiguousarray(spectrum).copy())
                bank[place] = (torch.view_as_real(values) if values.is_complex() else values).reshape(
                    (*spectrum.shape, -1)
                )
                made._buffers[f"tensor{number}"] = bank[place]
                assert bank[place].shape[: spectrum.ndim] == before.shape[: spectrum.ndim]
            number += 1


def _double_sums(call: Call, x: np.ndarray) -> Call:
    """Let torch make new tensors in double during a call, if that is what it is given: sums over volumes are such."""
    import torch

    if x.dtype != np.float64:
        return call

    def wrapped() -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return call()
        finally:
            torch.set_default_dtype(before)

    return wrapped


def transform(library: str, name: str, x: np.ndarray, **parameters: Any) -> Call:
    """Make a call of kymatio's class of that name; paths of a list as they come."""
    made = _made(library, name, x, parameters)
    given: Any = x
    if library == "torch":
        import torch

        torch.set_grad_enabled(False)
        given = torch.from_numpy(x)
    if parameters.get("out_type") == "list":
        return lambda: tuple(path["coef"] for path in made(given))
    return (lambda: made(given)) if library == "numpy" else _double_sums(lambda: made(given), x)


def gradient(name: str, x: np.ndarray, grad: np.ndarray, **parameters: Any) -> Call:
    """Make a call of the torch frontend with autograd, forward and back."""
    import torch

    made = _made("torch", name, x, parameters)
    tensor = torch.from_numpy(x)
    if parameters.get("out_type") == "list":
        from cases.scattering_bench_formulas import made as ours
        from cases.scattering_bench_formulas import paths_of

        slopes = [torch.from_numpy(part.copy()) for part in paths_of(ours(name, x, **parameters), grad)]
    else:
        slopes = [torch.from_numpy(grad)]

    def forward_and_back() -> Any:
        with torch.enable_grad():
            leaf = tensor.detach().requires_grad_()
            result = made(leaf)
            paths = [path["coef"] for path in result] if isinstance(result, list) else [result]
            torch.autograd.backward(paths, slopes)
        return leaf.grad

    return _double_sums(forward_and_back, x)


def volume_moments(library: str, x: np.ndarray, **parameters: Any) -> Call:
    """Divide the sums over volumes by their size."""
    call, count = transform(library, "HarmonicScattering3D", x, **parameters), math.prod(x.shape[-3:])
    return lambda: call() / count


def volume_moments_gradient(x: np.ndarray, grad: np.ndarray, **parameters: Any) -> Call:
    return gradient("HarmonicScattering3D", x, grad / x.dtype.type(math.prod(x.shape[-3:])), **parameters)
