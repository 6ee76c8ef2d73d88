"""What the compiled kernels are told of a transform: made once for a tree and a precision, and kept with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastdl.scattering._tree import Tree


def plan_of(tree: Tree, dtype: Any, means: bool) -> Any:
    """Give the plan of a tree, or None where only the reference computes it."""
    return None
