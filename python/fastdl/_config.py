"""What is installed and how many threads it uses."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl import _dispatch
from fastdl._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST_COUNT = 4096  # as for FASTDL_NUM_THREADS: more is a slip


def _check_count(where: str, n: object) -> int:
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"[{where}] expected n to be an integer, got {type(n).__name__}")
    count = int(n.__index__())
    if not 1 <= count <= _LARGEST_COUNT:
        raise ValueError(f"[{where}] expected n from 1 to {_LARGEST_COUNT}, got {count}")
    return count


def get_num_threads() -> int:
    """Tell how many threads a call made here would use at most.

    Returns
    -------
    int
        1 without the compiled extension.

    Examples
    --------
    >>> import fastdl
    >>> fastdl.get_num_threads() >= 1
    True
    """
    return 1 if _dispatch.core is None else int(_dispatch.core.get_num_threads())


def set_num_threads(n: int) -> None:
    """Set how many threads calls may use, for the whole process.

    The default is the environment variable ``FASTDL_NUM_THREADS``, or the number of processors this process may run
    on. Results do not depend on it. Without the compiled extension it has no effect.

    Parameters
    ----------
    n : int
        From 1 to 4096.

    Examples
    --------
    >>> import fastdl
    >>> fastdl.set_num_threads(fastdl.get_num_threads())
    """
    count = _check_count("set_num_threads", n)
    if _dispatch.core is not None:
        _dispatch.core.set_num_threads(count)


@contextmanager
def _limited(count: int) -> Iterator[None]:
    if _dispatch.core is None:
        yield
        return
    before = _dispatch.core.set_thread_limit(count)
    try:
        yield
    finally:
        _dispatch.core.set_thread_limit(before)


def threads(n: int) -> Any:
    """Set how many threads calls made by this Python thread may use, within a ``with`` block.

    Other threads of the program keep the number of `set_num_threads`. Asynchronous tasks share their thread's number:
    do not await within the block.

    Parameters
    ----------
    n : int
        From 1 to 4096.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import fastdl
    >>> with fastdl.threads(1):
    ...     fastdl.get_num_threads()
    1
    """
    return _limited(_check_count("threads", n))


def _folder(where: str, *parts: str) -> str:
    # An editable install leaves the .py files in the checkout and puts what was compiled elsewhere, beside the
    # extension, so that is where to look.
    if _dispatch.core is None:
        raise RuntimeError(f"[{where}] expected the compiled parts, but {_dispatch.missing}: {_dispatch.HOW_TO_BUILD}")
    folder = os.path.join(os.path.dirname(os.path.abspath(_dispatch.core.__file__)), *parts)
    if not os.path.isdir(folder):
        raise RuntimeError(f"[{where}] expected the installed folder {folder}, got none: install fastdl anew")
    return folder


def get_include() -> str:
    """Give the folder of the C and C++ headers, to pass to a compiler as ``-I``.

    Returns
    -------
    str

    Raises
    ------
    RuntimeError
        If the compiled parts are not installed.

    Examples
    --------
    >>> import os
    >>> import fastdl
    >>> os.path.isfile(os.path.join(fastdl.get_include(), "fastdl", "fastdl.h"))
    True
    """
    return _folder("get_include", "include")


def get_cmake_dir() -> str:
    """Give the folder of ``fastdlConfig.cmake``, to pass to CMake as ``-Dfastdl_DIR=``.

    Returns
    -------
    str

    Raises
    ------
    RuntimeError
        If the compiled parts are not installed.

    Examples
    --------
    >>> import os
    >>> import fastdl
    >>> os.path.isfile(os.path.join(fastdl.get_cmake_dir(), "fastdlConfig.cmake"))
    True
    """
    return _folder("get_cmake_dir", "lib", "cmake", "fastdl")


def _configuration() -> dict[str, Any]:
    core = _dispatch.core
    return {
        "version": __version__,
        "backend": _dispatch.get_backend(),
        "native": core is not None,
        "native_missing": _dispatch.missing or None,
        "isa": None if core is None else core.isa(),
        "isas": () if core is None else tuple(core.isas()),
        "threads": get_num_threads(),
        "cuda": _dispatch.load_cuda() is not None,
        "build": None if core is None else core.build_info(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "platform": sys.platform,
        "location": os.path.dirname(os.path.abspath(__file__)),
    }


def show_config(mode: str | None = None) -> dict[str, Any] | None:
    """Show what fastdl is made of and what it found on this machine.

    Parameters
    ----------
    mode : {None, "dicts"}
        None prints, ``"dicts"`` returns.

    Returns
    -------
    dict or None
        With ``mode="dicts"``: version, backend, native, native_missing, isa, isas, threads, cuda, build, python,
        numpy, platform, location.

    Examples
    --------
    >>> import fastdl
    >>> fastdl.show_config(mode="dicts")["version"] == fastdl.__version__
    True
    """
    if mode not in (None, "dicts"):
        raise ValueError(f"[show_config] expected mode None or 'dicts', got {mode!r}")
    configuration = _configuration()
    if mode == "dicts":
        return configuration
    configuration["isas"] = ", ".join(configuration["isas"])
    for name, value in configuration.items():
        if value is not None and value != "":
            shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
            print(f"{name.replace('_', ' '):15} {shown}")
    return None
