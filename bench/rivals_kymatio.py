"""kymatio as a rival: its torch and NumPy frontends, objects made beforehand, without gradients.

Its package asks SciPy for `sph_harm`, which newer versions call `sph_harm_y`; where it is missing it is put in its
place for the import, and no transform but that of volumes calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

_AXES = {"Scattering1D": 1, "Scattering2D": 2, "HarmonicScattering3D": 3}


def transform(library: str, name: str, x: np.ndarray, **parameters: Any) -> Callable[[], Any]:
    """Make a call of kymatio's class of that name."""
    import scipy.special

    if not hasattr(scipy.special, "sph_harm"):
        scipy.special.sph_harm = lambda m, n, azimuth, polar: scipy.special.sph_harm_y(n, m, polar, azimuth)
    parameters.pop("normalization", None)  # ours is asked for its numbers
    shape = x.shape[-_AXES[name] :]
    made = getattr(import_module(f"kymatio.{library}"), name)(
        shape=shape[0] if len(shape) == 1 else shape, **parameters
    )
    if library == "numpy":
        return lambda: made(x)
    import torch

    torch.set_grad_enabled(False)
    tensor = torch.from_numpy(x)
    return lambda: made(tensor)


def gradient(x: np.ndarray, grad: np.ndarray, **parameters: Any) -> Callable[[], Any]:
    """Make a call of the torch frontend with autograd, forward and back."""
    import torch

    transform("torch", "Scattering2D", x, **parameters)  # the import, as above
    made = import_module("kymatio.torch").Scattering2D(shape=x.shape[-2:], **parameters)
    tensor, back = torch.from_numpy(x), torch.from_numpy(grad)

    def forward_and_back() -> Any:
        with torch.enable_grad():
            leaf = tensor.detach().requires_grad_()
            made(leaf).backward(back)
        return leaf.grad

    return forward_and_back
