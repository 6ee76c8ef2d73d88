"""Compiled kernels for the mathematics of deep learning.

Gram matrices, convolutions, group convolutions, scattering transforms and Hebbian learning. Every
function takes arrays of NumPy, PyTorch, CuPy or any library that speaks DLPack, and answers in the library it was
asked in.
"""

from typing import TYPE_CHECKING, Any

from fastdl import conv, gram, group, hebbian
from fastdl._config import get_cmake_dir, get_include, get_num_threads, set_num_threads, show_config, threads
from fastdl._dispatch import backend, get_backend
from fastdl._version import __version__

if TYPE_CHECKING:
    from fastdl import scattering

__all__ = [
    "__version__",
    "backend",
    "conv",
    "get_backend",
    "get_cmake_dir",
    "get_include",
    "get_num_threads",
    "gram",
    "group",
    "hebbian",
    "scattering",
    "set_num_threads",
    "show_config",
    "threads",
]


def __getattr__(name: str) -> Any:
    # Imported at the first mention: its filter banks take a third of the time that all others take.
    if name == "scattering":
        from importlib import import_module

        return import_module("fastdl.scattering")
    raise AttributeError(f"module 'fastdl' has no attribute {name!r}")


def _warn_without_extension() -> None:
    import os
    import warnings

    from fastdl import _dispatch

    # Who asked for the reference by name knows.
    if _dispatch.core is None and os.environ.get("FASTDL_BACKEND") != "reference":
        warnings.warn(
            f"fastdl computes on the slow reference backend without its compiled extension: {_dispatch.missing}. "
            f"To have it, {_dispatch.HOW_TO_BUILD}.",
            RuntimeWarning,
            stacklevel=3,
        )


_warn_without_extension()
