"""Doctests of an integration are collected where its library is installed."""

from importlib.util import find_spec

collect_ignore_glob = [
    f"fastdl/{name}*"
    for name, library in (("torch", "torch"), ("sklearn", "sklearn"), ("dask", "dask"))
    if find_spec(library) is None
]
