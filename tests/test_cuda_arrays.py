"""How arrays come to the CUDA kernels and results go home: dispatch, devices, streams, layouts, errors."""

import numpy as np

import fastdl
from cases import layouts
from cases.gram import linear_expected, linear_tolerance
from cuda_device import Array, same_layout, to_device


def test_in_and_out(cuda, dtype, rng):
    X, Y = rng.standard_normal((33, 7)).astype(dtype), rng.standard_normal((17, 7)).astype(dtype)
    K = fastdl.gram.linear(to_device(X), to_device(Y))
    assert type(K) is Array and K.dtype == dtype
    assert (np.abs(K.host - linear_expected(X, Y)) <= linear_tolerance(X, Y)).all()
    out = to_device(np.zeros((33, 17), dtype))
    assert fastdl.gram.linear(to_device(X), to_device(Y), out=out) is out
    assert out.host.tobytes() == K.host.tobytes()


def test_layouts(cuda, dtype, rng):
    X = rng.standard_normal((20, 9)).astype(dtype)
    expected = fastdl.gram.linear(to_device(X)).host
    for name, laid in layouts(X):
        assert (fastdl.gram.linear(same_layout(laid)).host == expected).all(), name
    wide = to_device(np.zeros((20, 40), dtype))
    fastdl.gram.linear(to_device(X), out=wide[:, ::2])
    assert (wide.host[:, ::2] == expected).all() and not wide.host[:, 1::2].any()
