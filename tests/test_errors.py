"""Bad input is refused with a message that says what was expected, before anything is computed or written."""

import numpy as np
import pytest

import fastdl

linear = fastdl.gram.linear
ok = np.ones((4, 3))


class Ragged:
    """An object NumPy can make nothing of."""


class Elsewhere:
    """An array that lies where NumPy cannot reach it."""

    def __dlpack__(self, **options):
        raise BufferError("on another device")

    def __dlpack_device__(self):
        return 2, 0


class Broken:
    """An array of a library that fails."""

    def __array__(self, *arguments, **options):
        raise RuntimeError("no more")


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((1.0,), ValueError, r"expected X of shape \(n, d\), got \(\)"),
        ((np.float64(1),), ValueError, r"expected X of shape \(n, d\), got \(\)"),
        ((np.ones(3),), ValueError, r"expected X of shape \(n, d\), got \(3,\)"),
        ((np.ones((2, 3, 4)),), ValueError, r"expected X of shape \(n, d\), got \(2, 3, 4\)"),
        (([],), ValueError, r"expected X of shape \(n, d\), got \(0,\)"),
        ((ok, np.ones(3)), ValueError, r"expected Y of shape \(m, 3\), got \(3,\)"),
        ((ok, np.ones((2, 4))), ValueError, r"expected Y of shape \(m, 3\), got \(2, 4\)"),
        ((ok, np.ones((3, 2, 1))), ValueError, r"expected Y of shape \(m, 3\), got \(3, 2, 1\)"),
        ((ok, np.ones((0, 4))), ValueError, r"expected Y of shape \(m, 3\), got \(0, 4\)"),
        (([[1, 2], [3]],), ValueError, r"expected X to be a rectangular array of numbers, got list"),
        ((Elsewhere(),), TypeError, r"expected X to be .* of numbers, got test_errors.Elsewhere: on another device"),
        ((ok, Broken()), RuntimeError, r"expected Y to be .* of numbers, got test_errors.Broken: no more"),
        ((None,), TypeError, r"expected X to be an array, got None"),
        ((None, ok), TypeError, r"expected X to be an array, got None"),
        (("text",), TypeError, r"expected X of dtype float32, float64, integer or bool, got str"),
        ((b"text",), TypeError, r"expected X of dtype .*, got bytes"),
        (([["a", "b"]],), TypeError, r"expected X of dtype .*, got str"),
        (([[None, 1.0]],), TypeError, r"expected X of dtype .*, got object"),
        (({"a": 1},), TypeError, r"expected X of dtype .*, got object"),
        ((Ragged(),), TypeError, r"expected X of dtype .*, got object"),
        ((ok, Ragged()), TypeError, r"expected Y of dtype .*, got object"),
        ((ok * 1j,), TypeError, r"expected X of dtype .*, got complex128"),
        ((ok.astype(object),), TypeError, r"expected X of dtype .*, got object"),
        ((ok.astype(np.float16),), TypeError, r"expected X of dtype .*, got float16"),
        ((ok, np.zeros((2, 3), [("a", "f8")])), TypeError, r"expected Y of dtype .*, got void"),
    ],
)
def test_arguments(level, arguments, error, message):
    out = np.full((4, 4), 7.5)
    for options in ({}, {"out": out}):
        with pytest.raises(error, match=r"^\[gram\.linear\] " + message):
            linear(*arguments, **options)
    np.testing.assert_array_equal(out, 7.5)


def readonly(shape):
    array = np.full(shape, 7.5)
    array.flags.writeable = False
    return array


def swapped(shape):
    return np.full(shape, 7.5, np.dtype(np.float64).newbyteorder())


@pytest.mark.parametrize(
    "out, error, message",
    [
        (np.full((4, 5), 7.5), ValueError, r"expected out of shape \(4, 4\), got \(4, 5\)"),
        (np.full((1, 4), 7.5), ValueError, r"expected out of shape \(4, 4\), got \(1, 4\)"),
        (np.full((1, 4, 4), 7.5), ValueError, r"expected out of shape \(4, 4\), got \(1, 4, 4\)"),
        (np.full((4, 4), 7.5, np.float32), TypeError, r"expected out of dtype float64, got float32"),
        (np.full((4, 4), 7), TypeError, r"expected out of dtype float64, got int"),
        (swapped((4, 4)), TypeError, r"expected out in native byte order, got dtype [<>]f8"),
        (np.full((4, 4), 7.5, object), TypeError, r"expected out of dtype float64, got object"),
        (readonly((4, 4)), ValueError, r"expected out to be writable, got a read-only array"),
        ([[0.0] * 4] * 4, TypeError, r"expected out to be a numpy.ndarray, got list"),
        (True, TypeError, r"expected out to be a numpy.ndarray, got bool"),
        (np.ma.zeros((4, 4)) + 7.5, TypeError, r"expected out to be a numpy.ndarray, got numpy.*MaskedArray"),
    ],
    ids=lambda value: None if isinstance(value, (str, type)) else "out",
)
def test_out(level, out, error, message):
    before = np.array(out)
    with pytest.raises(error, match=r"^\[gram\.linear\] " + message):
        linear(ok, out=out)
    np.testing.assert_array_equal(np.array(out), before)


def test_out_is_left_alone_when_the_inputs_are_wrong(level):
    out = np.full((4, 4), 7.5)
    for arguments in [(ok, np.ones((4, 9))), (ok.astype(complex),), (np.ones((5, 3)),), (ok, out[:, :3])]:
        with pytest.raises((ValueError, TypeError), match=r"^\[gram\.linear\] expected "):
            linear(*arguments, out=out)
        np.testing.assert_array_equal(out, 7.5)


def test_keywords():
    with pytest.raises(TypeError):
        linear(ok, ok, np.zeros((4, 4)))
    with pytest.raises(TypeError):
        linear(ok, gamma=1)
    with pytest.raises(TypeError):
        linear()


def test_a_result_too_large_for_memory(level):
    rows = np.broadcast_to(np.float64(1), (2**40, 1))
    with pytest.raises((MemoryError, ValueError)):
        linear(rows)


def test_an_error_in_array_conversion_is_not_hidden(level):
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("the file is gone")

    with pytest.raises(RuntimeError, match="the file is gone"):
        linear(Broken())


def test_the_kernels_refuse_what_the_public_functions_would_never_pass(native):
    """The extension is the last line: whoever calls it directly must not be able to crash the process."""
    for arguments in [
        (np.ones((2, 3)), None, np.ones((3, 3))),
        (np.ones((2, 3)), np.ones((4, 2)), np.ones((2, 4))),
        (np.ones(3), None, np.ones((3, 3))),
        (np.ones((2, 3)), None, readonly((2, 2))),
        (np.ones((2, 3)), None, np.ones((2, 2), np.float32)),
        (np.ones((2, 3), np.float32), np.ones((2, 3)), np.ones((2, 2))),
        (np.ones((2, 3), np.int64), None, np.ones((2, 2))),
        (np.ones((2, 3), complex), None, np.ones((2, 2), complex)),
        (None, None, np.ones((2, 2))),
        ("text", None, np.ones((2, 2))),
    ]:
        with pytest.raises((TypeError, ValueError)):
            native.gram.linear(*arguments)
