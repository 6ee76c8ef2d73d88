"""Rivals that cannot share our environment: they run in an interpreter of their own, and are timed there.

A worker (`foreign_worker.py`) is started in that interpreter and does what it is told, line by line: it makes a call
ready from inputs in a file, makes a batch of calls and tells how long they took. So a foreign rival takes its turn
like any other, with the others' processes asleep, and the way to it and back is not counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent

# By rival: the variable with the path of its interpreter (`make rivals` says which), and the module that must be there.
INTERPRETERS = {"neural-tangents": ("FASTDL_NT_PYTHON", "neural_tangents")}

# What `make rivals` makes, for when the variable is not set.
MADE = {"neural-tangents": HERE.parent / "build" / "neural-tangents" / "bin" / "python"}


def interpreter(rival: str) -> str | None:
    """The interpreter a rival lives in, if there is one."""
    variable, _ = INTERPRETERS[rival]
    path = os.environ.get(variable) or str(MADE[rival])
    return path if Path(path).exists() else None


@cache
def version(rival: str) -> str | None:
    """The version of a rival; None if it is not there."""
    path = interpreter(rival)
    if path is None:
        return None
    name = INTERPRETERS[rival][1].replace("_", "-")
    code = f"from importlib.metadata import version; print(version({name!r}), version('jax'))"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False, env=_environment())
    return " with jax ".join(done.stdout.split()) if done.returncode == 0 else None


def _environment() -> dict[str, str]:
    # Our interpreter's packages are not for theirs.
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


class ForeignCall:
    """A call in another interpreter: gives its result when called, and the seconds of a batch when asked."""

    def __init__(self, rival: str, function: str, inputs: dict[str, Any]) -> None:
        path = interpreter(rival)
        if path is None:
            raise RuntimeError(f"{rival} has no interpreter")
        arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        parameters = {name: value for name, value in inputs.items() if name not in arrays}
        self._folder = tempfile.TemporaryDirectory()
        np.savez(Path(self._folder.name) / "inputs.npz", **arrays)
        dtype = next(iter(arrays.values())).dtype.name
        # Stated here, because JAX wants to know before it is imported.
        environment = {**_environment(), "JAX_ENABLE_X64": str(int(dtype == "float64")), "JAX_PLATFORMS": "cpu"}
        self._process = subprocess.Popen(
            [path, str(HERE / "foreign_worker.py"), self._folder.name, function, json.dumps(parameters)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        try:
            self._answer()
        except RuntimeError:
            self.close()
            raise

    def _answer(self) -> str:
        for line in self._process.stdout:
            # Libraries print what they like.
            if line.startswith("@ "):
                return line[2:].strip()
        raise RuntimeError("a foreign rival ended")

    def _ask(self, order: str) -> str:
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self._answer()

    def __call__(self) -> np.ndarray:
        """Compute once and fetch the result: for the check."""
        self._ask("result")
        return np.load(Path(self._folder.name) / "result.npy")

    def timed(self, batch: int) -> float:
        """Seconds of a call, the average over a batch, on the clock of the other interpreter."""
        return float(self._ask(f"time {batch}"))

    def close(self) -> None:
        """End the worker."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()
