"""What a case of the benchmarks says of itself, in any family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class BenchCase:
    """One call of one function of a family, by name, on inputs made from a seed.

    `arrays` gives the arguments that are arrays; `parameters` are the others. Of a symmetric result one triangle with
    its diagonal is counted, in `flops` (0 where there is no matrix product to count) and in `entries` (0 where the
    result is no Gram matrix). `rivals` limits who takes part; `rounds` is for calls so long that they cannot be
    repeated. A family's module of formulas has for every name a formula, and an error bound called `<name>_bound`.
    """

    name: str
    size: dict[str, int | str]
    arrays: Callable[[np.random.Generator, np.dtype], dict[str, np.ndarray]]
    parameters: dict[str, Any] = field(default_factory=dict)
    flops: float = 0.0
    entries: float = 0.0
    terms: float = 0.0
    symmetric: bool = False
    rivals: tuple[str, ...] = ()
    rounds: int = 0

    family: ClassVar[str]
    reference: ClassVar[bool] = True  # whether the family has one
    on_devices: ClassVar[bool] = True  # whether it can be called with arrays of a GPU
    formulas: ClassVar[ModuleType]

    @property
    def function(self) -> str:
        return f"{self.family}.{self.name}"

    @property
    def formula(self) -> Callable[..., Any]:
        return getattr(self.formulas, self.name)

    @property
    def bound(self) -> Callable[..., Any]:
        return getattr(self.formulas, f"{self.name}_bound")

    def make(self, rng: np.random.Generator, dtype: np.dtype) -> dict[str, Any]:
        """All arguments of the call."""
        return {**self.arrays(rng, dtype), **self.parameters}

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """The call of the function, with all arguments."""
        import fastdl

        call = getattr(getattr(fastdl, self.family), self.name)
        return lambda: call(**inputs)

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Arguments that give a part of the result, of about `budget` terms, and where in the result it is."""
        return inputs, ...


def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def some(count: int, share: float) -> np.ndarray:
    """Numbers below `count`, spread over them: a share of them, but the first and the last at least."""
    return np.unique(np.linspace(0, count - 1, max(2, int(share * count))).astype(int))
