"""Groups and what commutes with them, by their formulas."""

from __future__ import annotations

from fastdl.reference.group_layers import (
    act,
    conv2d,
    conv2d_input,
    conv2d_weight,
    expand_filters,
    lift_conv2d,
    lift_conv2d_input,
    lift_conv2d_weight,
    pool,
    se2_filters,
)
from fastdl.reference.group_orbits import (
    average,
    convolve,
    orbit_gramian,
    orbit_regularizer,
    permutation_layer,
    set_pool,
    signature,
)

__all__ = [
    "act",
    "average",
    "conv2d",
    "conv2d_input",
    "conv2d_weight",
    "convolve",
    "expand_filters",
    "lift_conv2d",
    "lift_conv2d_input",
    "lift_conv2d_weight",
    "orbit_gramian",
    "orbit_regularizer",
    "permutation_layer",
    "pool",
    "se2_filters",
    "set_pool",
    "signature",
]
