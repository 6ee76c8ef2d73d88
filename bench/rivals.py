"""Who fastdl is measured against, and how each of them is called in its fastest documented way.

A rival is a maker: it takes the inputs of a case and gives a call without arguments. What a user would do once is
done by the maker; what a user would do every time is done by the call.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

Call = Callable[[], Any]


def numpy_linear(X: np.ndarray, Y: np.ndarray | None = None) -> Call:
    """Take the plain product; for X @ X.T NumPy itself computes one triangle only (syrk)."""
    other = X if Y is None else Y
    return lambda: X @ other.T


def torch_linear(X: np.ndarray, Y: np.ndarray | None = None) -> Call:
    """Take the plain product, of tensors made beforehand, without gradients."""
    import torch

    torch.set_grad_enabled(False)
    left = torch.from_numpy(X)
    right = left if Y is None else torch.from_numpy(Y)
    return lambda: left @ right.T


def sklearn_linear(X: np.ndarray, Y: np.ndarray | None = None) -> Call:
    """Call scikit-learn with its checks off, as its guide to speed has it."""
    import sklearn
    from sklearn.metrics.pairwise import linear_kernel

    sklearn.set_config(assume_finite=True, skip_parameter_validation=True)
    return lambda: linear_kernel(X, Y)


def python_linear(X: np.ndarray, Y: np.ndarray | None = None) -> Call:
    """Loop over lists of floats: what the formula costs without any library."""
    rows = X.tolist()
    others = rows if Y is None else Y.tolist()

    def linear() -> list[list[float]]:
        result = []
        for x in rows:
            values = []
            for y in others:
                total = 0.0
                for a, b in zip(x, y, strict=True):
                    total += a * b
                values.append(total)
            result.append(values)
        return result

    return linear


# By function of fastdl: name in the tables, module that must be there, maker.
RIVALS: dict[str, tuple[tuple[str, str, Callable[..., Call]], ...]] = {
    "gram.linear": (
        ("numpy", "numpy", numpy_linear),
        ("torch", "torch", torch_linear),
        ("sklearn", "sklearn", sklearn_linear),
    ),
}

PYTHON_LOOPS: dict[str, Callable[..., Call]] = {"gram.linear": python_linear}


def installed(function: str) -> dict[str, Callable[..., Call]]:
    """The rivals of a function that this environment has."""
    return {name: maker for name, module, maker in RIVALS.get(function, ()) if find_spec(module) is not None}
