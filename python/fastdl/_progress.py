"""How far the work is: a bar, a line, or a call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[int, int], object]


def check_progress(where: str, progress: Any) -> None:
    """Refuse what says neither whether nor how to tell."""
    if not isinstance(progress, (bool, np.bool_)) and not callable(progress):
        raise TypeError(f"[{where}] expected progress to be True, False or callable, got {type(progress).__name__}")


class Report:
    """Tells how much of the work is done, in the way asked for."""

    def __init__(self, label: str, progress: bool | Progress, total: int) -> None:
        # A total of 0 is one that is not known.
        self.label, self.total, self.done, self.shown = label, total, 0, -1
        self.callback: Progress | None = progress if callable(progress) else None
        self.visible = progress is not False and self.callback is None
        self.bar: Any = None
        if self.visible:
            try:
                from tqdm import tqdm

                self.bar = tqdm(total=total or None, desc=label, unit_scale=True)
            except ImportError:
                pass

    def add(self, pieces: int) -> None:
        """Count pieces of the work as done."""
        self.done += pieces
        if self.callback is not None:
            self.callback(self.done, self.total)
        elif self.bar is not None:
            self.bar.update(pieces)
        elif self.visible and (percent := 100 * self.done // max(1, self.total)) != self.shown:
            self.shown = percent
            sys.stderr.write(f"\r[{self.label}] {percent} %")
            sys.stderr.flush()

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.shown >= 0:
            sys.stderr.write("\n")
