"""Gram matrices, scattering transforms and Hebbian learning over Dask arrays, block by block, on any Dask scheduler.

`gram`, `matvec`, `scattering` and `moments` are lazy: they check their arguments and return Dask arrays, which are
computed when they are asked for, on threads, processes or a cluster. Samples lie in the rows and are split along them;
what is split along its other axes is brought together first. A task computes with one thread of fastdl, because a
scheduler runs as many tasks at once as there are cores; results do not depend on the number of workers, to the bit.
"""

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError("fastdl.dask needs Dask: pip install 'fastdl-kernels[dask]'") from error

from fastdl.dask._files import to_npy
from fastdl.dask._gram import gram, matvec
from fastdl.dask._hebbian import HebbianPCA
from fastdl.dask._scattering import moments, scattering

__all__ = ["HebbianPCA", "gram", "matvec", "moments", "scattering", "to_npy"]
