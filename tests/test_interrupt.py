"""Ctrl-C ends a long call soon, with KeyboardInterrupt, and leaves the library as it was."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import fastdl
from fastdl import conv, gram, group, hebbian, scattering

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are raised as POSIX has them"),
]

LIMIT = 0.2  # seconds from the signal to the exception
BEFORE = 0.3  # seconds after which it comes


def drawn(*shape):
    return np.random.default_rng(3).standard_normal(shape, dtype=np.float32)


def signs(*shape):
    return np.where(drawn(*shape) < 0, -1, 1).astype(np.float32)


def repeated(d, count):
    """As many samples as it takes, without the memory: one of them, again and again."""
    return np.broadcast_to(drawn(d) / d**0.5, (count, d))


def learning(rule, k, d, count, **options):
    weights, samples = 0.1 * drawn(k, d), repeated(d, count)
    return lambda: rule(weights, samples, 1e-4, **options)


def gradient(transform, x):
    grad = np.ones_like(transform(x[:1])).repeat(len(x), axis=0)
    return lambda: transform.vjp(x, grad)


def of(function, *arrays, **options):
    return lambda: function(*arrays, **options)


# Seconds of work at the least. Each makes its arrays and gives the call, which alone is timed.
LONG = {
    "gram.linear": lambda: of(gram.linear, drawn(12000, 4000), drawn(12000, 4000)),
    "gram.laplacian": lambda: of(gram.laplacian, drawn(12000, 500), drawn(12000, 500)),
    "gram.matvec": lambda: of(gram.matvec, drawn(100000, 16), drawn(100000, 2)),
    "gram.cntk": lambda: of(gram.cntk, drawn(60, 3, 24, 24), depth=5),
    "gram.cntk, large images": lambda: of(gram.cntk, drawn(4, 1, 64, 64), depth=3),
    "conv.conv2d": lambda: of(conv.conv2d, drawn(64, 128, 64, 64), drawn(256, 128, 3, 3), padding=1),
    "conv.conv2d, one channel": lambda: of(conv.conv2d, drawn(2, 1, 4000, 4000), drawn(8, 1, 15, 15)),
    "conv.conv2d_weight": lambda: of(
        conv.conv2d_weight, drawn(64, 128, 64, 64), (512, 128, 3, 3), drawn(64, 512, 64, 64), padding=1
    ),
    "conv.conv2d_weight, few channels": lambda: of(
        conv.conv2d_weight, drawn(128, 16, 128, 128), (16, 16, 7, 7), drawn(128, 16, 128, 128), padding=3
    ),
    "conv.convolve": lambda: of(conv.convolve, drawn(4000000), drawn(20000), method="direct"),
    "group.conv2d": lambda: of(group.conv2d, drawn(64, 32, 4, 56, 56), drawn(64, 32, 4, 3, 3), padding=1),
    "group.conv2d_weight": lambda: of(
        group.conv2d_weight, drawn(64, 32, 4, 56, 56), (64, 32, 4, 3, 3), drawn(64, 64, 4, 56, 56), padding=1
    ),
    "scattering.Scattering2D": lambda: of(scattering.Scattering2D(4, (512, 512)), drawn(32, 512, 512)),
    "scattering.Scattering2D.vjp": lambda: gradient(scattering.Scattering2D(3, (256, 256)), drawn(64, 256, 256)),
    "scattering.Scattering1D": lambda: of(scattering.Scattering1D(8, 2**16, Q=8), drawn(128, 2**16)),
    "scattering.HarmonicScattering3D": lambda: of(
        scattering.HarmonicScattering3D(3, (96, 96, 96), L=3), drawn(8, 96, 96, 96)
    ),
    # Fewer tasks than threads could do one after the other: the last of them is waited for.
    "scattering.RotoTranslationScattering2D": lambda: of(
        scattering.RotoTranslationScattering2D(3, (256, 256)), drawn(32, 256, 256)
    ),
    "scattering.HarmonicScattering3D.vjp": lambda: gradient(
        scattering.HarmonicScattering3D(2, (96, 96, 96), L=2), drawn(3, 96, 96, 96)
    ),
    "group.orbit_regularizer": lambda: of(group.orbit_regularizer, drawn(64, 160), 1.0),
    "hebbian.oja": lambda: learning(hebbian.oja, 4, 1000, 3000000),
    "hebbian.sanger": lambda: learning(hebbian.sanger, 64, 1000, 2000000),
    "hebbian.krotov": lambda: learning(hebbian.krotov, 64, 1000, 1000000, p=3.0),
    "hebbian.foldiak": lambda: of(
        hebbian.foldiak, drawn(64, 200), repeated(200, 100000), np.zeros((64, 64), np.float32), np.zeros(64, np.float32)
    ),
    "hebbian.ccipca": lambda: of(hebbian.ccipca, drawn(16, 1000), repeated(1000, 2000000)),
    "hebbian.hopfield_recall": lambda: of(
        hebbian.hopfield_recall, hebbian.hopfield_weights(signs(3000, 3000)), signs(3000, 3000), max_sweeps=10000
    ),
}


def interrupted(call, moment=BEFORE):
    """Seconds from a signal to the KeyboardInterrupt that must end the call, made anew until the signal meets one."""
    sent = []

    def send():
        time.sleep(moment)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    try:
        thread.start()
        while True:
            call()
    except KeyboardInterrupt:
        now = time.perf_counter()
        thread.join()
        return now - sent[0]


@pytest.mark.parametrize("name", LONG)
def test_a_long_call_ends_soon(native, name):
    call = LONG[name]()
    for count in (1, 2):
        with fastdl.threads(count):
            found = [interrupted(call)]
            # A busy machine may keep a try waiting, but not most of them.
            while sum(seconds >= LIMIT for seconds in found) * 2 >= len(found) and len(found) < 5:
                found.append(interrupted(call))
            assert sum(seconds >= LIMIT for seconds in found) * 2 < len(found), f"{found} seconds"
    X = drawn(65, 33)
    np.testing.assert_allclose(gram.linear(X), X @ X.T, rtol=1e-4, atol=1e-4)


def test_weights_stay_as_they_were(native):
    weights = drawn(64, 1000)
    before = weights.copy()
    samples = repeated(1000, 20000000)
    interrupted(lambda: hebbian.sanger(weights, samples, 1e-6, out=weights))
    np.testing.assert_array_equal(weights, before)


def test_another_handler_has_its_exception_raised(native):
    class Stop(Exception):
        pass

    def handler(number, frame):
        raise Stop

    call = LONG["gram.linear"]()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, BEFORE)
        with pytest.raises(Stop):
            while True:
                call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_that_returns_lets_the_call_go_on(native):
    seen = []
    X = drawn(4000, 8000)
    expected = gram.linear(X, X[::-1])
    before = signal.signal(signal.SIGALRM, lambda number, frame: seen.append(time.perf_counter()))
    try:
        for _ in range(20):  # until one of them is met well before its end
            seen.clear()
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            found = gram.linear(X, X[::-1])
            ended = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, 0)
            np.testing.assert_array_equal(found, expected)
            if seen and seen[0] < ended - 0.03:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen and seen[0] < ended - 0.03
