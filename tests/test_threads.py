"""Threads and processes: the same bits for every number of threads, from many threads at once, and after a fork."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import fastdl
from cases.families import WORK

pytestmark = pytest.mark.alone

linear = fastdl.gram.linear
COUNTS = (1, 2, 3, 5)
LIMIT = 120  # seconds, for what takes one on an idle machine
STRESS = float(os.environ.get("FASTDL_STRESS_SECONDS", "5"))


def matrices(dtype=np.float32, n=301, m=517, d=203):
    rng = np.random.default_rng(7)
    return rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d)).astype(dtype)


@pytest.mark.parametrize("n, m, d", [(301, 517, 203), (1031, 17, 64), (13, 1030, 523), (64, 64, 2053), (700, 700, 40)])
def test_any_number_of_threads_gives_the_same_bits(native_level, dtype, keep_threads, n, m, d):
    X, Y = matrices(dtype, n, m, d)
    fastdl.set_num_threads(1)
    expected, alone = linear(X, Y).tobytes(), linear(X).tobytes()
    for count in COUNTS:
        fastdl.set_num_threads(count)
        assert linear(X, Y).tobytes() == expected
        assert linear(X).tobytes() == alone
        for limit in COUNTS:
            with fastdl.threads(limit):
                assert linear(X, Y).tobytes() == expected
                assert linear(X).tobytes() == alone


def together(*functions):
    """Run functions in threads that start at one moment; raise the first error among them."""
    barrier = threading.Barrier(len(functions))
    errors = []

    def run(function):
        try:
            barrier.wait(LIMIT)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive(), "a thread never came back"
    if errors:
        raise errors[0]


def test_many_python_threads_at_once(level, dtype, keep_threads):
    """Whatever the interleaving, each caller gets the bits it gets alone."""
    fastdl.set_num_threads(3)
    backend = "reference" if level == "reference" else "native"
    work = []
    for index, (n, m, d) in enumerate([(8, 8, 8), (65, 33, 17), (301, 217, 103), (130, 400, 64), (3, 700, 50)]):
        X, Y = matrices(dtype, n, m, d)
        X = X + index
        with fastdl.threads(1):
            work.append((X, Y, linear(X, Y), linear(X)))

    def caller(start):
        def call():
            # A thread does not inherit the context of the one that started it.
            with fastdl.backend(backend):
                for step in range(25):
                    X, Y, expected, alone = work[(start + step) % len(work)]
                    check(linear(X, Y), expected)
                    check(linear(X), alone)

        return call

    def check(result, expected):
        if level == "reference":
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
        else:
            assert result.tobytes() == expected.tobytes()

    together(*(caller(start) for start in range(8)))


def test_all_families_from_many_threads(native, keep_threads):
    """32 threads, each with work of its own choice, while the number of threads changes under them."""
    tasks = [(work, work.samples(dtype)) for work in WORK for dtype in (np.float32, np.float64)]
    expected = [work(batch).tobytes() for work, batch in tasks]
    end = time.monotonic() + STRESS
    done = [0] * len(tasks)

    def caller(seed):
        def call():
            rng = np.random.default_rng(seed)
            while time.monotonic() < end:
                index = int(rng.integers(len(tasks)))
                work, batch = tasks[index]
                assert work(batch).tobytes() == expected[index], work.name
                done[index] += 1
                if seed == 0:
                    fastdl.set_num_threads(int(rng.integers(1, 6)))

        return call

    together(*(caller(seed) for seed in range(32)))
    assert sum(done) > 32


def test_the_number_of_threads_may_change_during_work(native, keep_threads):
    X, Y = matrices()
    expected = linear(X, Y).tobytes()
    stop = threading.Event()

    def work():
        try:
            for _ in range(60):
                assert linear(X, Y).tobytes() == expected
        finally:
            stop.set()

    def change():
        while not stop.is_set():
            for count in COUNTS:
                fastdl.set_num_threads(count)
                with fastdl.threads(2):
                    assert fastdl.get_num_threads() <= 2
                time.sleep(0.001)

    together(work, work, change)


def test_the_interpreter_runs_during_a_kernel(native):
    """A call of a second's work must let other Python threads run: the GIL is released."""
    X, Y = matrices(np.float64, 1500, 1500, 1500)
    steps = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            steps.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    out = np.empty((1500, 1500))
    began = time.perf_counter()
    with fastdl.threads(1):
        linear(X, Y, out=out)
    ended = time.perf_counter()
    done.set()
    thread.join(LIMIT)
    assert sum(began < step < ended for step in steps) >= 3


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="a Python without the free-threaded build")
def test_importing_does_not_bring_the_gil_back():
    import sysconfig

    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("not a free-threaded build")
    assert not sys._is_gil_enabled()


def bits():
    """Of results of all families."""
    return b"".join(work(work.samples(np.float32)).tobytes() for work in WORK)


def _child(connection, backend):
    with fastdl.backend(backend):
        connection.send_bytes(bits())
    connection.close()


def in_child(method, backend):
    """Compute in a new process; give the bytes it found."""
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, backend))
    with warnings.catch_warnings():
        # Python warns that forking with threads running is risky. That it works here is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    try:
        assert receiver.poll(LIMIT), f"the {method} child hangs"
        found = receiver.recv_bytes()
        process.join(LIMIT)
        assert process.exitcode == 0
        return found
    finally:
        if process.is_alive():
            process.kill()
            process.join()
        receiver.close()


needs_fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin",
    reason="no fork on this platform, or one its system libraries do not survive",
)


@needs_fork
@pytest.mark.parametrize("count", [1, 3])
def test_a_forked_child_computes_the_same(native, keep_threads, count):
    fastdl.set_num_threads(count)
    expected = bits()
    for _ in range(3):
        assert in_child("fork", "native") == expected
    assert bits() == expected


@needs_fork
def test_a_fork_while_other_threads_compute(native, keep_threads):
    """The child has only the forking thread: no lock or queue left by the others may stop it."""
    fastdl.set_num_threads(3)
    X, Y = matrices()
    expected = bits()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            linear(X, Y)

    def fork():
        try:
            for _ in range(10):
                assert in_child("fork", "native") == expected
        finally:
            stop.set()

    together(work, work, fork)
    assert bits() == expected


@needs_fork
def test_a_child_deletes_what_was_made_before_the_fork(native):
    """Plans of transforms are counted by a cache that is new in the child."""
    transform = fastdl.scattering.Scattering2D(2, (40, 24), L=3)
    transform(np.ones((2, 40, 24)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            del transform
            made = fastdl.scattering.Scattering2D(2, (24, 40), L=3)
            os._exit(0 if np.isfinite(made(np.ones((24, 40)))).all() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("method", [m for m in multiprocessing.get_all_start_methods() if m != "fork"])
def test_a_started_child_computes_the_same(native, method):
    expected = bits()
    assert in_child(method, "native") == expected
    assert bits() == expected


# An interpreter that ends while threads are at work: a daemon is stopped wherever it is when it next wants the
# GIL, and that must not look like a crash.
ENDING = """
import sys, threading, time
import numpy as np
import fastdl
from fastdl import gram
X = np.ones((2000, 300), np.float32)
started = threading.Semaphore(0)
def work():
    while True:
        started.release()
        gram.linear(X, X)
        gram.rbf(X[:50])
threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(12):
    started.acquire()
{ending}
"""


@pytest.mark.parametrize(
    "ending, code",
    [("", 0), ("sys.exit(3)", 3), ("raise ZeroDivisionError", 1), ("import os; os._exit(4)", 4)],
    ids=["end", "exit", "error", "at once"],
)
def test_the_interpreter_may_end_during_work(native, ending, code):
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", ENDING.format(ending=ending)],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert ("ZeroDivisionError" in done.stderr) if code == 1 else (done.stderr == "")


def test_callers_at_once_take_no_longer_than_one_after_the_other(native, keep_threads):
    """Two threads that each want all processors share them: at most 1.2 times what the same calls take in a row."""
    fastdl.set_num_threads(max(2, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else 2)
    X, Y = matrices(np.float32, 700, 700, 500)
    calls = 40

    def work():
        for _ in range(calls):
            linear(X, Y)

    def seconds(run):
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    def in_a_row():
        work()
        work()

    ratios = [seconds(lambda: together(work, work)) / seconds(in_a_row) for _ in range(5)]
    assert min(ratios) < 1.2, ratios


def test_beside_torch_and_openmp(native):
    """Another pool of threads in the process: both compute what they compute alone, and a fork afterwards too."""
    torch = pytest.importorskip("torch")
    expected = bits()
    a = torch.ones(300, 300)
    product = a @ a

    def ours():
        for _ in range(3):
            assert bits() == expected

    def theirs():
        for _ in range(200):
            assert torch.equal(a @ a, product)

    together(ours, theirs, theirs)
    if "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin":
        assert in_child("fork", "native") == expected
    assert bits() == expected
