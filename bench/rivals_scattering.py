"""Scattering that no library has, as one would write it in NumPy: moments, and rotations; and wavelets in torch.

Filters are made beforehand, in the type of the signals.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rivals_torch import Call, _tensors


def _narrow(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return array.astype(np.result_type(dtype, np.complex64) if array.dtype.kind == "c" else dtype)


def numpy_moments(name: str, x: np.ndarray, grad: np.ndarray | None = None, **parameters: Any) -> Call:
    """Take the mean of every path of signals or images, or its gradient."""
    from cases.scattering_paths import Mean, made, paths, paths_vjp
    from fastdl.scattering._tree import Group, Tree, Wavelet

    tree = made(name, x, **parameters)._tree

    def narrow(wavelets: tuple) -> tuple:
        return tuple(Wavelet(w.number, _narrow(w.psi, x.dtype), w.level) for w in wavelets)

    levels = tuple(level._replace(phi=_narrow(level.phi, x.dtype)) for level in tree.levels)
    groups = tuple(Group(narrow(group.members), narrow(group.followers)) for group in tree.groups)
    ready = Tree(tree.shape, tree.padding, levels, groups, tree.averaged)
    if grad is None:
        return lambda: np.stack(paths(ready, x, Mean()), -1)
    return partial(paths_vjp, ready, x, np.moveaxis(grad, -1, 0), Mean())


def numpy_roto(moments: bool, x: np.ndarray, grad: np.ndarray | None = None, **parameters: Any) -> Call:
    """Scatter on rotations and translations; the gradient after the transform, as ours is called."""
    from cases.scattering_bench_formulas import made, roto, roto_vjp

    bank = made("RotoTranslationScattering2D", x, **parameters)._bank
    rows = [tuple(_narrow(row, x.dtype) for row in pair) for pair in (bank.mean if moments else bank.low)]
    bank = bank._replace(
        shift=_narrow(bank.shift, x.dtype),
        first=_narrow(bank.first, x.dtype),
        second=tuple(_narrow(part, x.dtype) for part in bank.second),
        angular=_narrow(bank.angular, x.dtype),
    )
    if grad is None:
        return (lambda: roto(x, rows, bank)[..., 0, 0]) if moments else lambda: roto(x, rows, bank)
    if moments:
        return lambda: roto_vjp(x, grad[..., None, None], rows, bank)

    def forward_and_back() -> np.ndarray:
        roto(x, rows, bank)
        return roto_vjp(x, grad, rows, bank)

    return forward_and_back


def numpy_wavelets(name: str, **inputs: Any) -> Call:
    """The formula as it stands in the cases."""
    from cases import scattering_bench_formulas

    return partial(getattr(scattering_bench_formulas, name), **inputs)


# ---- wavelets in torch: convolutions of both filters at once, along one axis and then the other ----
def _taps(dtype: np.dtype, wavelet: str) -> Any:
    from cases.scattering_bench_formulas import daubechies

    return _tensors(np.stack(daubechies(wavelet)).astype(dtype))[0]


def torch_wavelet_transform2d(x: np.ndarray, J: int, wavelet: str) -> Call:
    import torch
    from torch.nn.functional import conv2d

    (images,), taps = _tensors(x), _taps(x.dtype, wavelet)
    down, across, more = taps[:, None, :, None], taps[:, None, None, :], taps.shape[1] - 2
    sides = [tuple(n >> j for n in x.shape[-2:]) for j in range(J)]
    periods = [[torch.arange(n + more, device=images.device) % n for n in side] for side in sides]

    def transform() -> tuple:
        details, current = [], images[:, None]
        for rows, columns in periods:
            current = conv2d(current[..., columns], across, stride=(1, 2))
            current = conv2d(current.flatten(0, 1)[:, None, rows], down, stride=(2, 1))
            # (images, across, down): the details are across, down, both.
            current = current.unflatten(0, (-1, 2))
            details.append(torch.stack([current[:, 1, 0], current[:, 0, 1], current[:, 1, 1]], 1))
            current = current[:, 0, 0, None]
        return current[:, 0], *details

    return transform


def torch_inverse_wavelet_transform2d(approximation: np.ndarray, wavelet: str, **details: np.ndarray) -> Call:
    import torch
    from torch.nn.functional import conv_transpose2d

    average, *scales = _tensors(approximation, *details.values())
    taps = _taps(approximation.dtype, wavelet)
    down, across = taps[:, None, :, None], taps[:, None, None, :]

    def wrapped(y: Any, axis: int, n: int) -> Any:
        result = y.narrow(axis, 0, n).clone()
        for start in range(n, y.shape[axis], n):
            length = min(n, y.shape[axis] - start)
            result.narrow(axis, 0, length).add_(y.narrow(axis, start, length))
        return result

    def transform() -> Any:
        current = average
        for detail in reversed(scales):
            height, width = (2 * n for n in current.shape[-2:])
            # (images, down, across) of the filters along both axes.
            parts = torch.stack([current, detail[:, 0], detail[:, 1], detail[:, 2]], 1).unflatten(1, (2, 2))
            rows = wrapped(conv_transpose2d(parts.flatten(0, 1), across, stride=(1, 2)), -1, width)
            current = wrapped(conv_transpose2d(rows[:, 0].unflatten(0, (-1, 2)), down, stride=(2, 1)), -2, height)
            current = current[:, 0]
        return current

    return transform
