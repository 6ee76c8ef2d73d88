"""A Dask cluster of two processes: results are right, also when one is killed on the way, and within little memory."""

import os
import signal
import time

import numpy as np
import pytest

import fastdl
from fastdl import gram, hebbian
from fastdl.scattering import Scattering2D

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytest.importorskip("fastdl.dask._gram")  # with which there is fastdl.dask

pytestmark = pytest.mark.alone

PATIENCE = 60  # seconds for anything that a cluster of two idle workers does in one


@pytest.fixture
def client():
    """Give a client of a cluster with two worker processes, and leave no process behind."""
    processes = set()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="1GiB"
        ) as cluster,
        distributed.Client(cluster, timeout=PATIENCE) as client,
    ):
        processes |= set(client.run(os.getpid).values())
        yield client
        processes |= set(client.run(os.getpid).values())
    wait_until(lambda: not any(alive(process) for process in processes))


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def gated(samples, rows, gate):
    """Give samples in chunks, the last of which comes only when there is a file."""

    def load(block, block_info=None):
        location = block_info[0]
        while location["chunk-location"][0] == location["num-chunks"][0] - 1 and not os.path.exists(gate):
            time.sleep(0.01)
        return block

    chunks = da.from_array(samples, chunks=(rows, samples.shape[1]))
    return chunks.map_blocks(load, dtype=samples.dtype, meta=np.empty((0, 0), samples.dtype))


def finished(client, prefix):
    """Give the workers that hold results of tasks whose names begin so, a worker for each result."""

    def look(dask_scheduler):
        return [
            worker.address
            for key, task in dask_scheduler.tasks.items()
            if str(key[0] if isinstance(key, tuple) else key).startswith(prefix) and task.state == "memory"
            for worker in task.who_has
        ]

    return client.run_on_scheduler(look)


def workers(client):
    return client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.workers))


def kill_the_holder(client, prefix, count):
    """Kill the worker that holds most of the results, as soon as there are some; wait until the scheduler knows."""
    wait_until(lambda: len(finished(client, prefix)) >= count)
    holders = finished(client, prefix)
    victim = max(set(holders), key=holders.count)
    process = client.run(os.getpid, workers=[victim])[victim]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: victim not in workers(client))
    wait_until(lambda: len(workers(client)) == 2)  # its nanny starts another


@pytest.mark.timeout(180)
def test_gram_with_a_worker_killed(client, rng, tmp_path):
    X = rng.standard_normal((600, 6)).astype(np.float32)
    gate = tmp_path / "open"
    # Six features: no block waits for rows of the last chunk, so 15 of the 21 can be computed while it is held back.
    lazy = fastdl.dask.gram(gated(X, 100, str(gate)))
    future = client.compute(lazy)
    kill_the_holder(client, "fastdl-gram", 5)
    assert not future.done()
    gate.touch()
    K = future.result(timeout=PATIENCE)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(K, gram.rbf(X))


@pytest.mark.timeout(180)
def test_matvec_with_a_worker_killed(client, rng, tmp_path):
    X, v = rng.standard_normal((600, 20)), rng.standard_normal(600)
    gate = tmp_path / "open"
    lazy = fastdl.dask.matvec(gated(X, 100, str(gate)), v, kernel="ntk")
    future = client.compute(lazy)
    kill_the_holder(client, "fastdl-matvec", 5)
    assert not future.done()
    gate.touch()
    found = future.result(timeout=PATIENCE)
    expected = np.zeros(600)
    for start in range(0, 600, 100):
        rows = slice(start, start + 100)
        expected += np.concatenate([gram.matvec(part, v[rows], X[rows], "ntk") for part in np.split(X, 6)])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, gram.matvec(X, v, kernel="ntk"), rtol=1e-12, atol=1e-12)


@pytest.mark.timeout(180)
def test_results_are_those_of_one_process(client, rng, tmp_path):
    pytest.importorskip("zarr")
    x = rng.standard_normal((300, 20))
    X = da.from_array(x, chunks=(70, 10))
    expected = gram.rbf(x)
    np.testing.assert_allclose(fastdl.dask.gram(X).compute(), expected, rtol=1e-12)
    scales = {"kernel": "matern", "length_scale": np.arange(1.0, 21)}
    np.testing.assert_allclose(fastdl.dask.gram(X, **scales).compute(), gram.gram(x, **scales), rtol=1e-12)
    found = fastdl.dask.to_npy(fastdl.dask.gram(X), tmp_path / "K.npy")
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    fastdl.dask.gram(X).to_zarr(str(tmp_path / "K.zarr"))
    np.testing.assert_allclose(da.from_zarr(str(tmp_path / "K.zarr")).compute(), expected, rtol=1e-12)

    transform, images = Scattering2D(2, (8, 8), L=2), rng.standard_normal((20, 8, 8))
    found = fastdl.dask.scattering(transform, da.from_array(images, chunks=(7, 8, 8))).compute()
    np.testing.assert_allclose(found, transform(images), atol=1e-14)

    pca, other = fastdl.dask.HebbianPCA(3).fit(X), hebbian.HebbianPCA(3)
    for start in range(0, 300, 70):
        other.partial_fit(x[start : start + 70])
    np.testing.assert_array_equal(pca.components_, other.components_)
    np.testing.assert_array_equal(pca.transform(X).compute(), other.transform(x))
    x[123] = np.nan
    with pytest.raises(FloatingPointError, match=r" 123$"):
        pca.fit(da.from_array(x, chunks=(70, 20)))
