"""Functions of single numbers that end a layer."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace


def activate(y: Any, activation: str | None) -> Any:
    """Apply an activation by its name; NaN stays."""
    xp = array_namespace(y)
    if activation == "relu":
        return xp.where(y < 0, xp.zeros_like(y), y)
    if activation == "leaky_relu":
        return xp.where(y < 0, 0.01 * y, y)
    if activation == "sigmoid":
        return 1 / (1 + xp.exp(-y))
    if activation == "tanh":
        return xp.tanh(y)
    return y
