"""Values of learnt functions at new samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fastdl._arrays import HostArray
    from fastdl.sklearn._kernel import Kernel

# What rounding of float32 may change in a value, as a share of the size of what was learnt.
_SHARE = 1e-5


def values(kernel: Kernel, X: HostArray, weights: HostArray, Y: HostArray, size: float) -> HostArray:
    """Give K(X, Y) times weights in float64.

    Samples in float32 are summed in that type, unless its rounding would show beside `size`, that of the values that
    were learnt: with a small ridge the weights are large and cancel. (1500 samples, alpha = 1e-4, targets of about 1:
    off by 0.03 in float32.)
    """
    if X.dtype != np.float32 or Y.dtype != np.float32:
        return kernel.matvec(X, weights, Y)
    reach = float(np.abs(kernel.diag(Y)).max())
    rounding = float(np.finfo(np.float32).eps) * float(np.abs(weights).sum(axis=0).max()) * reach
    if reach > 0 and rounding <= _SHARE * size:
        return kernel.matvec(X, weights.astype(np.float32), Y)
    return kernel.matvec(X.astype(np.float64), weights, Y.astype(np.float64))
