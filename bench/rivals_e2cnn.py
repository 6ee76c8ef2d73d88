"""e2cnn as a rival: its convolution between regular fields, in evaluation mode and with our filters in it.

In that mode its filters are expanded once, as its documentation recommends for inference: what is timed is a plain
convolution and the wrapping around it. Version 0.2.3, the last one, was written for NumPy 1: two calls that NumPy 2 has
no longer are made good below, and nothing else is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from fastdl.group import escnn_order


@cache
def _library() -> Any:
    """Import it, and mend it where it does not know NumPy 2."""
    import torch
    from e2cnn import gspaces, nn
    from e2cnn.kernels import irreps_basis, utils

    torch.set_grad_enabled(False)
    # np.array(x, copy=False) once copied where it had to, as np.asarray does.
    utils.np = SimpleNamespace(**{**vars(np), "array": lambda values, copy=True: np.asarray(values)})
    # Their hashes took ndarray.tostring, which is gone. Equal bases have equal representations, and that will do.
    for kind in vars(irreps_basis).values():
        if isinstance(kind, type) and vars(kind).get("__hash__") is not None:
            kind.__hash__ = lambda basis: hash((basis.in_irrep, basis.out_irrep))
    return SimpleNamespace(gspaces=gspaces, nn=nn, torch=torch)


class _Fields:
    """What comes out, and in our order of the elements only when it is compared."""

    def __init__(self, found: Any, order: np.ndarray) -> None:
        self.found, self.order = found, order

    def numpy(self) -> np.ndarray:
        return self.found.tensor.unflatten(1, (-1, len(self.order))).numpy()[:, :, self.order]


def conv2d(x: np.ndarray, w: np.ndarray, group: str, stride: int, padding: int) -> Callable[[], Any]:
    """Make an R2Conv with the coefficients that give our filters, found by least squares."""
    library = _library()
    nn, torch, spaces = library.nn, library.torch, library.gspaces
    space = {
        "p4": lambda: spaces.Rot2dOnR2(4),
        "p4m": lambda: spaces.FlipRot2dOnR2(4),
        "p2": lambda: spaces.Rot2dOnR2(2),
        "pm": lambda: spaces.Flip2dOnR2(axis=0.0),
    }[group]()
    outputs, inputs, elements, k, _ = w.shape
    order = escnn_order(group)
    theirs = np.argsort(order)
    # With a narrow ring for every distance of a pixel from the middle, and frequencies enough for the pixels on it, the
    # basis spans all filters; by default it leaves out those that change fast.
    pixels = np.arange(k) - (k - 1) / 2
    radii = np.hypot(pixels[:, None], pixels)
    rings = np.unique(np.minimum(radii.round(9), radii.max())).tolist()
    basis = {"rings": rings, "sigma": 0.05, "frequencies_cutoff": lambda radius: 4 if k > 3 else 2}

    def layer(channels: int, filters: int) -> Any:
        fields = [nn.FieldType(space, count * [space.regular_repr]) for count in (channels, filters)]
        return nn.R2Conv(*fields, k, padding, stride, bias=False, initialize=False, **basis)

    # One coefficient at a time, of a layer with a single field: what the elements of the basis are.
    single = layer(1, 1)
    units = torch.eye(single.basisexpansion.dimension())
    spanned = np.stack([single.basisexpansion(unit).numpy().ravel() for unit in units]).astype(np.float64)
    from cases.group_formulas import expanded

    ours = expanded(w.astype(np.float64), group).reshape(outputs, elements, inputs, elements, k, k)
    ours = ours[:, theirs][:, :, :, theirs].transpose(0, 2, 1, 3, 4, 5).reshape(outputs * inputs, -1)
    coefficients, *_ = np.linalg.lstsq(spanned.T, ours.T, rcond=1e-6)
    made = layer(inputs, outputs)
    made.weights.data = torch.from_numpy(np.ascontiguousarray(coefficients.T, dtype=w.dtype).ravel())
    made.train()
    made.eval()
    flat = np.ascontiguousarray(x[:, :, theirs]).reshape(len(x), -1, *x.shape[3:])
    maps = nn.GeometricTensor(torch.from_numpy(flat), made.in_type)
    return lambda: _Fields(made(maps), order)
