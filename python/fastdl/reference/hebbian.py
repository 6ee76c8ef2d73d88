"""Hebbian learning and associative memories, by their formulas."""

from __future__ import annotations

from fastdl.reference.hebbian_memory import (
    crosstalk,
    dense_hopfield,
    dense_hopfield_energy,
    hopfield_energy,
    hopfield_recall,
    hopfield_weights,
)
from fastdl.reference.hebbian_rules import (
    bcm,
    ccipca,
    center,
    foldiak,
    hebb,
    krotov,
    oja,
    sanger,
    soft_hebb,
    subspace,
)

__all__ = [
    "bcm",
    "ccipca",
    "center",
    "crosstalk",
    "dense_hopfield",
    "dense_hopfield_energy",
    "foldiak",
    "hebb",
    "hopfield_energy",
    "hopfield_recall",
    "hopfield_weights",
    "krotov",
    "oja",
    "sanger",
    "soft_hebb",
    "subspace",
]
