"""Runs in the interpreter of a foreign rival: knows the rival, NumPy, and nothing of fastdl. See `foreign.py`.

Usage: ``python foreign_worker.py FOLDER FUNCTION PARAMETERS``; then orders on stdin: ``time COUNT`` or ``result``.
Answers are lines that begin with "@ ".
"""

import json
import sys
import time
from pathlib import Path

import numpy as np


def neural_tangents(function, X, Y=None, depth=1, w_std=1.0, b_std=0.0, kernel_size=3):
    """NNGP, NTK and CNTK by neural-tangents, compiled by jit, on arrays that JAX already holds."""
    import jax
    from neural_tangents import stax

    def dense(width=1.0, bias=0.0):
        return stax.Dense(1, W_std=width, b_std=bias)

    if function == "cntk":
        convolution = stax.Conv(1, (kernel_size, kernel_size), padding="SAME", W_std=2**0.5, b_std=0.0)
        layers = [convolution, stax.Relu()] * depth + [stax.GlobalAvgPool(), dense()]
        # It divides by the number of channels, and wants them last.
        factor, X = X.shape[1], X.transpose(0, 2, 3, 1)
        Y = None if Y is None else Y.transpose(0, 2, 3, 1)
    else:
        layers = [dense(w_std, b_std)] + [stax.Relu(), dense(w_std, b_std)] * depth
        factor = 1
    kernel = stax.serial(*layers)[2]
    kind = "nngp" if function == "nngp" else "ntk"
    compiled = jax.jit(lambda x, y: kernel(x, y, kind) * factor)
    x, y = jax.device_put(X), None if Y is None else jax.device_put(Y)
    return lambda: compiled(x, y).block_until_ready()


def main(folder, function, parameters):
    with np.load(Path(folder) / "inputs.npz") as inputs:
        arrays = dict(inputs)
    call = neural_tangents(function, **arrays, **json.loads(parameters))
    call()
    print("@ ready", flush=True)
    for line in sys.stdin:
        order, _, count = line.strip().partition(" ")
        if order == "time":
            repeats = range(int(count))
            begin = time.perf_counter()
            for _ in repeats:
                call()
            print("@", (time.perf_counter() - begin) / len(repeats), flush=True)
        else:
            np.save(Path(folder) / "result.npy", np.asarray(call()))
            print("@ done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
