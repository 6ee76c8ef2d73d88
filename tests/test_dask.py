"""Gram matrices, scattering and Hebbian learning over Dask arrays: against single calls, lazily, in any chunks."""

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdl
from cases import gram as cases
from fastdl import gram, hebbian
from fastdl._gram_matrix import CENTRED
from fastdl._kernels import KERNELS
from fastdl.scattering import HarmonicScattering3D, RotoTranslationScattering2D, Scattering1D, Scattering2D

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
cloudpickle = pytest.importorskip("cloudpickle")  # which Dask brings
_gram = pytest.importorskip("fastdl.dask._gram")  # with which there is fastdl.dask

ROOT = Path(__file__).resolve().parents[1]
ALL = pytest.mark.parametrize("name", tuple(KERNELS))
CHUNKS = (100, (1, 37, 62), (30, 0, 69, 1))
SCHEDULERS = ("synchronous", "threads")


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def split(array, rows):
    """Give an array in chunks of rows, and of halves of the features."""
    d = array.shape[1]
    return da.from_array(array, chunks=(rows, (d // 2, d - d // 2)))


def described(result, shape, dtype):
    """Check what a lazy result says of itself against what it becomes."""
    assert isinstance(result, da.Array)
    assert result.shape == shape and result.dtype == dtype
    assert type(result._meta) is np.ndarray and result._meta.dtype == dtype and result._meta.ndim == len(shape)
    for place in np.ndindex(result.numblocks):
        block = result.blocks[place].compute()
        assert type(block) is np.ndarray and block.dtype == dtype
        assert block.shape == tuple(sizes[i] for sizes, i in zip(result.chunks, place, strict=True))
    return result.compute()


class TestGram:
    @ALL
    @pytest.mark.parametrize("rows", CHUNKS)
    def test_bits_of_one_call(self, native, dtype, rng, name, rows):
        X, Y = cases.samples(name, rng, 100, 11, dtype), cases.samples(name, rng, 57, 11, dtype)
        params = cases.PARAMETERS[name][-1]
        K = fastdl.dask.gram(split(X, rows), kernel=name, **params)
        found = described(K, (100, 100), dtype)
        np.testing.assert_array_equal(found, gram.gram(X, kernel=name, **params))
        np.testing.assert_array_equal(found, found.T)
        K = fastdl.dask.gram(split(X, rows), split(Y, 23), name, **params)
        assert K.chunks == (split(X, rows).chunks[0], (23, 23, 11))
        np.testing.assert_array_equal(K.compute(), gram.gram(X, Y, name, **params))

    @pytest.mark.parametrize("name", CENTRED)
    @pytest.mark.parametrize("d", [3, 40])
    @pytest.mark.parametrize("n", [255, 256, 700])
    def test_bits_of_distances(self, native_level, dtype, rng, name, d, n):
        # More samples than are looked at for the centre, and as many; and all far from the origin.
        X, Y = (5 + rng.standard_normal((size, d)).astype(dtype) for size in (n, n - 40))
        for params in cases.PARAMETERS[name]:
            if np.ndim(params.get("length_scale", 1)):
                params = params | {"length_scale": np.linspace(1, 2, d)}
            for rows in (n // 2 + 1, (1, 0, 99, n - 100)):
                K = fastdl.dask.gram(split(X, rows), kernel=name, **params).compute()
                np.testing.assert_array_equal(K, gram.gram(X, kernel=name, **params))
            K = fastdl.dask.gram(split(X, 200), split(Y, 150), name, **params).compute()
            np.testing.assert_array_equal(K, gram.gram(X, Y, name, **params))

    @pytest.mark.parametrize("name", CENTRED)
    def test_blocks_with_centres_of_their_own(self, dtype, rng, name):
        X = (5 + rng.standard_normal((150, 20))).astype(dtype)
        K = fastdl.dask.gram(split(X, 60), kernel=name, same_bits=False)
        found = K.compute()
        np.testing.assert_array_equal(found, found.T)
        assert np.all(found.diagonal() == 1)
        assert np.all(np.abs(found - cases.kernel_expected(name, X)) <= cases.kernel_tolerance(name, X))
        # The first block is a call of its own, and needs no other.
        np.testing.assert_array_equal(found[:60, :60], gram.gram(X[:60], kernel=name))
        corner = K.blocks[0, 0]
        assert len(corner.dask.cull(corner.__dask_keys__())) < len(K.dask) / 2

    @ALL
    def test_reference(self, dtype, rng, name):
        X, Y = cases.samples(name, rng, 40, 7, dtype), cases.samples(name, rng, 21, 7, dtype)
        params = cases.PARAMETERS[name][-1]
        with fastdl.backend("reference"):
            lazy = fastdl.dask.gram(split(X, 15), split(Y, 8), name, **params)
            expected = gram.gram(X, Y, name, **params)
        # Computed out of the block, it is still the reference: the backend is that of the graph's making.
        found = lazy.compute()
        assert np.all(np.abs(found - expected) <= cases.kernel_tolerance(name, X, Y, **params))
        if fastdl.get_backend() == "native" and name == "ntk":
            assert np.any(found != gram.gram(X, Y, name, **params))

    @pytest.mark.skipif("FASTDL_BACKEND" in os.environ, reason="the default is not chosen here")
    def test_backend_of_the_worker(self, rng):
        X = rng.standard_normal((5, 3))
        with fastdl.backend("reference"):
            lazy = fastdl.dask.gram(X)
        assert lazy.name != fastdl.dask.gram(X).name
        assert [recipe.backend for recipe in recipes(lazy)] == ["reference"]
        assert [recipe.backend for recipe in recipes(fastdl.dask.gram(X))] == [None]

    @pytest.mark.parametrize("name", ["linear", "rbf"])
    def test_one_triangle(self, monkeypatch, rng, name):
        calls = []
        inner = _gram._block

        def counting(*arguments, **options):
            calls.append(arguments)
            return inner(*arguments, **options)

        monkeypatch.setattr(_gram, "_block", counting)
        X = rng.standard_normal((70, 9))
        fastdl.dask.gram(split(X, 10), kernel=name).compute()
        assert len(calls) == 7 * 8 // 2
        fastdl.dask.gram(split(X, 10), split(X + 1, 10), kernel=name).compute()
        assert len(calls) == 28 + 49
        # A corner is one block, and one above the diagonal is the transpose of one below.
        fastdl.dask.gram(split(X, 10), kernel=name)[:10, 60:].compute()
        assert len(calls) == 28 + 49 + 1

    def test_tasks(self, rng):
        X = da.from_array(rng.standard_normal((70, 3)), chunks=10)
        K = fastdl.dask.gram(X, kernel="linear")
        tasks = dict(K.dask.layers[K.name])
        assert len(tasks) == 49 + 1  # and the recipe
        assert sum(task[0] is np.transpose for task in tasks.values() if type(task) is tuple) == 21

    def test_y_that_is_x(self, rng):
        x = rng.standard_normal((20, 3))
        X = da.from_array(x, chunks=10)
        name = fastdl.dask.gram(X).name
        assert fastdl.dask.gram(X, X).name == name
        assert fastdl.dask.gram(X, da.from_array(x, chunks=10)).name == name  # the same data, by Dask's name
        assert fastdl.dask.gram(X, da.from_array(x, chunks=5)).name != name
        assert fastdl.dask.gram(x, x).name == fastdl.dask.gram(x).name

    def test_defaults_are_of_all_features(self, rng):
        X = rng.standard_normal((20, 10))
        K = fastdl.dask.gram(split(X, 7))
        np.testing.assert_allclose(K.compute(), gram.rbf(X, gamma=0.1), rtol=1e-13)
        assert [recipe.options["parameters"] for recipe in recipes(K)] == [{"gamma": 0.1}]

    def test_arrays_in_memory(self, dtype, rng):
        X = rng.standard_normal((4097, 2)).astype(dtype)
        K = fastdl.dask.gram(X, kernel="linear")
        assert K.chunks == ((4096, 1),) * 2 and K.dtype == dtype
        np.testing.assert_allclose(K[4090:, 4090:].compute(), X[4090:] @ X[4090:].T, rtol=1e-5, atol=1e-5)
        K = fastdl.dask.gram([[1, 2], [3, 4]], da.ones((3, 2), dtype="float32"), "linear")
        np.testing.assert_array_equal(K.compute(), [[3.0] * 3, [7.0] * 3])
        assert K.dtype == np.float64
        strided = np.asfortranarray(X[::-3])
        np.testing.assert_array_equal(fastdl.dask.gram(strided).compute(), gram.rbf(X[::-3]))

    @pytest.mark.parametrize("kind", ["int16", "bool", ">f4", "float32", "float64"])
    def test_dtypes(self, rng, kind):
        X = rng.integers(0, 2, (30, 4)).astype(kind)
        K = fastdl.dask.gram(split(X, 11))
        expected = gram.rbf(X)
        found = described(K, (30, 30), expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_large_chunks_are_cut(self, rng):
        X = da.from_array(rng.standard_normal((100, 3)), chunks=(50, 3))
        assert fastdl.dask.gram(X).chunks == ((50, 50),) * 2
        K = fastdl.dask.gram(X, block_rows=30)
        assert K.chunks == ((30, 30, 30, 10),) * 2
        np.testing.assert_array_equal(K.compute(), fastdl.dask.gram(X).compute())
        large = da.zeros((1_000_000, 100), chunks=(500_000, 100), dtype="float32")
        assert max(fastdl.dask.gram(large).chunks[0]) == 4096
        assert fastdl.dask.gram(large, block_rows=None).chunks == ((500_000,) * 2,) * 2

    @pytest.mark.parametrize("n, m", [(0, 5), (5, 0), (0, 0)])
    @pytest.mark.parametrize("name", ["rbf", "linear", "ntk"])
    def test_empty(self, level, dtype, n, m, name):
        X, Y = (da.zeros((size, 3), chunks=(2, 3), dtype=dtype) for size in (n, m))
        assert described(fastdl.dask.gram(X, Y, name), (n, m), dtype).shape == (n, m)
        assert described(fastdl.dask.gram(X, kernel=name), (n, n), dtype).shape == (n, n)
        without = fastdl.dask.gram(da.zeros((3, 0), chunks=(2, 0), dtype=dtype), kernel="rbf")
        np.testing.assert_array_equal(without.compute(), np.ones((3, 3)))

    def test_nan_stays_in_its_rows(self, native, rng):
        X = rng.standard_normal((300, 12))
        X[7] = np.nan  # also where the centre is taken from
        K = fastdl.dask.gram(split(X, 140)).compute()
        assert np.all(np.isnan(K[7])) and np.isfinite(np.delete(np.delete(K, 7, 0), 7, 1)).all()
        np.testing.assert_array_equal(K, gram.rbf(X))

    def test_values_are_checked_when_computed(self, rng):
        X = da.from_array(-np.ones((4, 2)), chunks=2)
        K = fastdl.dask.gram(X, kernel="chi2")
        with pytest.raises(ValueError, match=r"\[gram\.chi2\] expected X without negative elements"):
            K.compute()


def recipes(lazy):
    """Give what tasks are told, from a graph."""
    return [value for value in dict(lazy.dask).values() if type(value).__name__ == "Recipe"]


class TestLazy:
    def test_nothing_is_computed(self, rng):
        loaded = []

        def load(block, block_info=None):
            loaded.append(block_info[None]["chunk-location"])
            return block

        source = da.zeros((60, 16), chunks=(20, 16), dtype="float32")
        X = source.map_blocks(load, dtype="float32", meta=np.empty((0, 0), np.float32))
        images = source.reshape(60, 4, 4).map_blocks(load, dtype="float32", meta=np.empty((0, 0, 0), np.float32))
        lazy = [
            fastdl.dask.gram(X),
            fastdl.dask.matvec(X, da.ones(60)),
            fastdl.dask.scattering(Scattering2D(1, (4, 4)), images),
            fastdl.dask.moments(Scattering2D(1, (4, 4)), images),
        ]
        assert not loaded
        lazy[0][:20, 40:].compute()  # of distances, so that a few rows of every chunk are needed
        assert {place[0] for place in loaded} == {0, 1, 2}
        loaded.clear()
        fastdl.dask.gram(X, kernel="linear")[:20, 40:].compute()
        assert sorted(place[0] for place in loaded) == [0, 2]

    @pytest.mark.parametrize(
        "make",
        [
            lambda X, v: fastdl.dask.gram(X, kernel="matern", nu=2.5),
            lambda X, v: fastdl.dask.gram(X, X + 1, length_scale=np.arange(1.0, 13), kernel="matern"),
            lambda X, v: fastdl.dask.matvec(X, v, kernel="ntk", depth=2),
            lambda X, v: fastdl.dask.scattering(Scattering1D(2, 12), X),
            lambda X, v: fastdl.dask.moments(Scattering2D(1, (3, 4), L=2), X.reshape(-1, 3, 4)),
        ],
    )
    def test_names_and_graphs(self, rng, make):
        x, v = rng.standard_normal((500, 12)), rng.standard_normal(500)

        def again():
            return da.from_array(x, chunks=(50, 12))

        with dask.config.set({"tokenize.ensure-deterministic": True}):
            first, second = make(again(), da.from_array(v, chunks=50)), make(again(), da.from_array(v, chunks=50))
        assert first.name == second.name and first.dask.keys() == second.dask.keys()
        assert make(again() * 2, da.from_array(v, chunks=50)).name != first.name
        own = {key: task for key, task in dict(first.dask).items() if "fastdl" in str(key)}
        assert own and len(pickle.dumps(own)) < 500 * len(own)  # keys, and no numbers
        pickled = cloudpickle.loads(cloudpickle.dumps(first))
        np.testing.assert_array_equal(pickled.compute(), first.compute())

    @pytest.mark.parametrize("change", [{"gamma": 0.25}, {"threads": 2}, {"kernel": "laplacian"}, {"threads": None}])
    def test_names_tell_calls_apart(self, change):
        X, v = da.ones((10, 9), chunks=5), da.ones(10, chunks=5)
        assert fastdl.dask.gram(X, **change).name != fastdl.dask.gram(X).name
        assert fastdl.dask.matvec(X, v, **change).name != fastdl.dask.matvec(X, v).name

    def test_names_of_other_bits(self):
        X = da.ones((20, 9), chunks=(10, 9))
        assert fastdl.dask.gram(X, same_bits=False).name != fastdl.dask.gram(X).name
        assert fastdl.dask.gram(X, kernel="ntk", same_bits=False).name == fastdl.dask.gram(X, kernel="ntk").name

    def test_the_same_on_every_scheduler(self, dtype, rng):
        X, v = rng.standard_normal((330, 10)).astype(dtype), rng.standard_normal(330).astype(dtype)
        lazy = fastdl.dask.gram(split(X, 50)), fastdl.dask.matvec(split(X, 50), v)
        expected = dask.compute(*lazy, scheduler="synchronous")
        for workers in (1, 2, 5):
            found = dask.compute(*lazy, scheduler="threads", num_workers=workers)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))

    def test_processes(self, rng):
        X, v = rng.standard_normal((60, 10)), rng.standard_normal((60, 2))
        images = da.from_array(rng.standard_normal((6, 4, 4)), chunks=(2, 4, 4))
        lazy = (
            fastdl.dask.gram(split(X, 20)),
            fastdl.dask.matvec(split(X, 20), v, kernel="matern", length_scale=np.arange(1.0, 11)),
            fastdl.dask.scattering(Scattering2D(1, (4, 4), L=2), images),
        )
        expected = dask.compute(*lazy, scheduler="synchronous")
        found = dask.compute(*lazy, scheduler="processes", num_workers=2)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))

    @pytest.mark.parametrize("threads", [1, 2, None])
    def test_threads_of_a_task(self, native, monkeypatch, keep_threads, threads):
        fastdl.set_num_threads(3)
        seen = []
        monkeypatch.setattr(_gram, "_block", lambda *blocks, **options: seen.append(fastdl.get_num_threads()))
        monkeypatch.setattr(_gram, "_product", lambda *blocks, **options: seen.append(fastdl.get_num_threads()))
        X = da.ones((4, 2), chunks=4)
        recipe = [
            *recipes(fastdl.dask.gram(X, threads=threads)),
            *recipes(fastdl.dask.matvec(X, da.ones(4), threads=threads)),
        ]
        for each in recipe:
            fastdl.dask._blocks.run(each)
        assert seen == [threads or 3] * 2
        assert fastdl.get_num_threads() == 3


class TestMatvec:
    @ALL
    @pytest.mark.parametrize("shape", [(), (3,)])
    def test_against_the_formula(self, dtype, rng, name, shape):
        X, Y = cases.samples(name, rng, 61, 10, dtype), cases.samples(name, rng, 47, 10, dtype)
        params = cases.PARAMETERS[name][-1]
        for others, m in ((None, 61), (Y, 47)):
            v = rng.standard_normal((m, *shape)).astype(dtype)
            lazy = fastdl.dask.matvec(
                split(X, (1, 37, 23)), v, None if others is None else split(others, 20), name, **params
            )
            assert lazy.chunks[0] == (1, 37, 23)
            found = described(lazy, (61, *shape), dtype)
            other = X if others is None else others
            K = cases.kernel_expected(name, X, others, **params)
            # The error of the elements of K, and of sums of m terms in any order and twice rounded.
            eps = float(np.finfo(dtype).eps)
            size = np.abs(v.astype(np.float64))
            allowed = (cases.kernel_tolerance(name, X, other, **params) + (m + 2) * eps * np.abs(K)) @ size
            assert np.all(np.abs(found - K @ v.astype(np.float64)) <= allowed)

    def test_chunks_of_v(self, rng):
        X, v = rng.standard_normal((60, 5)), rng.standard_normal((60, 4))
        expected = fastdl.dask.matvec(split(X, 20), v).compute()
        for chunks in ((60, 4), (7, 2), (20, 1)):
            lazy = fastdl.dask.matvec(split(X, 20), da.from_array(v, chunks=chunks))
            assert lazy.chunks == ((20,) * 3, (4,))
            np.testing.assert_array_equal(lazy.compute(), expected)

    def test_sums_of_float32_are_taken_in_double(self):
        # 1 and then a thousand times half an eps: in float32 each would be lost.
        X = da.ones((1001, 1), chunks=1, dtype="float32")
        v = np.full(1001, 2.0**-25, np.float32)
        v[0] = 1
        found = fastdl.dask.matvec(X[:1], da.from_array(v, chunks=1), X, "linear").compute()
        assert found[0] == np.float32(1 + 1000 * 2.0**-25)

    def test_the_order_of_sums_is_fixed(self, rng):
        X, v = rng.standard_normal((90, 3)), rng.standard_normal(90)
        parts = [gram.matvec(X, v[j : j + 30], X[j : j + 30]) for j in (0, 30, 60)]
        expected = (parts[0] + parts[1]) + parts[2]
        found = fastdl.dask.matvec(da.from_array(X, chunks=(90, 3)), v, da.from_array(X, chunks=(30, 3))).compute()
        np.testing.assert_array_equal(found, expected)

    def test_empty(self, level, dtype):
        X = da.zeros((5, 3), chunks=(2, 3), dtype=dtype)
        assert fastdl.dask.matvec(X, np.ones((5, 0), dtype)).compute().shape == (5, 0)
        assert fastdl.dask.matvec(X[:0], np.ones(5, dtype), X).compute().shape == (0,)
        np.testing.assert_array_equal(fastdl.dask.matvec(X, np.ones((0, 2), dtype), X[:0]).compute(), np.zeros((5, 2)))


class TestRefusals:
    X = np.ones((6, 3))

    @pytest.mark.parametrize("function", ["gram", "matvec"])
    @pytest.mark.parametrize(
        "change, error, message",
        [
            ({"X": np.ones(3)}, ValueError, r"expected X of shape \(n, d\), got \(3,\)"),
            ({"X": np.ones((3, 2, 1))}, ValueError, r"expected X of shape \(n, d\), got \(3, 2, 1\)"),
            ({"X": da.ones(())}, ValueError, r"expected X of shape \(n, d\), got \(\)"),
            ({"X": None}, TypeError, r"expected X to be an array, got None"),
            ({"Y": da.ones((6, 2))}, ValueError, r"expected Y of shape \(m, 3\), got \(6, 2\)"),
            ({"Y": da.ones(3)}, ValueError, r"expected Y of shape \(m, 3\), got \(3,\)"),
            ({"X": da.ones((6, 3), dtype="complex128")}, TypeError, r"expected X of dtype float32.*got complex128"),
            ({"X": da.ones((6, 3), dtype="float16")}, TypeError, r"expected X of dtype float32.*got float16"),
            ({"X": da.zeros((6, 3), dtype=[("a", "f4")])}, TypeError, r"expected X of dtype float32"),
            (
                {"X": da.ma.masked_less(da.ones((6, 3)), 0)},
                TypeError,
                r"in blocks of NumPy arrays, got blocks of numpy",
            ),
            ({"X": np.ma.masked_less(np.eye(6, 3), 1)}, TypeError, r"expected X without masked elements"),
            ({"X": dask.delayed(np.ones)((6, 3))}, TypeError, r"expected X to be a Dask array or one in memory, got"),
            ({"X": [[1, 2], [3]]}, ValueError, r"expected X to be a rectangular array of numbers"),
            (
                {"X": da.ones((6, 3))[da.ones(6) > 0]},
                ValueError,
                r"chunks of known sizes, got shape \(nan, 3\): call X",
            ),
            ({"kernel": "gauss"}, ValueError, r"expected kernel to be one of linear, .*, ntk, got 'gauss'"),
            ({"kernel": None}, TypeError, r"expected kernel to be a name or a function of fastdl\.gram, got None"),
            ({"sigma": 1}, TypeError, r"expected parameters of rbf \(gamma\), got sigma"),
            ({"gamma": -1}, ValueError, r"expected gamma to be a number of at least 0, or None, got -1"),
            ({"gamma": da.ones(())}, TypeError, r"expected gamma to be computed, got dask.*: call its compute\(\)"),
            ({"kernel": "matern", "length_scale": np.ones(2)}, ValueError, r"expected length_scale of shape \(3,\)"),
            ({"kernel": "matern", "length_scale": da.ones(3)}, TypeError, r"expected length_scale to be computed"),
            ({"threads": 0}, ValueError, r"expected threads to be None or a whole number from 1 to 4096, got 0"),
            ({"threads": "all"}, TypeError, r"expected threads to be None or a whole number from 1 to 4096, got str"),
        ],
    )
    def test_both(self, function, change, error, message):
        arguments = {"X": self.X} | ({"v": np.ones(6)} if function == "matvec" else {}) | change
        with pytest.raises(error, match=rf"^\[dask\.{function}\] .*{message}"):
            getattr(fastdl.dask, function)(**arguments)

    def test_v(self):
        for v, shape in ((np.ones(5), r"\(5,\)"), (da.ones((6, 1, 1)), r"\(6, 1, 1\)"), (1.0, r"\(\)")):
            with pytest.raises(
                ValueError, match=rf"^\[dask\.matvec\] expected v of shape \(6,\) or \(6, p\), got {shape}"
            ):
                fastdl.dask.matvec(self.X, v)
        with pytest.raises(ValueError, match=r"expected v of shape \(4,\)"):
            fastdl.dask.matvec(self.X, np.ones(6), np.ones((4, 3)))
        with pytest.raises(TypeError, match=r"expected v of dtype"):
            fastdl.dask.matvec(self.X, np.ones(6, complex))

    def test_of_gram_alone(self):
        with pytest.raises(
            ValueError, match=r"^\[dask\.gram\] expected block_rows to be None or a whole number above 0"
        ):
            fastdl.dask.gram(self.X, block_rows=0)
        with pytest.raises(TypeError, match=r"^\[dask\.gram\] expected same_bits to be True or False, got int"):
            fastdl.dask.gram(self.X, same_bits=1)

    def test_scattering(self):
        transform = Scattering2D(1, (4, 4))
        for function in (fastdl.dask.scattering, fastdl.dask.moments):
            for x, shape in ((np.ones((3, 4, 5)), r"\(3, 4, 5\)"), (da.ones(4), r"\(4,\)")):
                with pytest.raises(
                    ValueError, match=rf"^\[dask\..*\] expected x of shape \(\.\.\., 4, 4\), got {shape}"
                ):
                    function(transform, x)
            with pytest.raises(TypeError, match=r"expected a transform of fastdl\.scattering, got function"):
                function(lambda x: x, np.ones((3, 4, 4)))
            with pytest.raises(TypeError, match=r"expected x of dtype float32"):
                function(transform, da.ones((4, 4), dtype=complex))
            with pytest.raises(ValueError, match=r"chunks of known sizes"):
                function(transform, da.ones((5, 4, 4))[da.ones(5) > 0])
        for form in ("list", "dict"):
            with pytest.raises(ValueError, match=rf"^\[dask\.scattering\] expected a transform .*, got '{form}'"):
                fastdl.dask.scattering(Scattering2D(1, (4, 4), out_type=form), np.ones((4, 4)))


TRANSFORMS = (
    Scattering1D(J=3, shape=40, Q=2),
    Scattering2D(J=2, shape=(8, 9), L=2),
    Scattering2D(J=1, shape=(8, 8), L=2, pre_pad=True),
    RotoTranslationScattering2D(J=2, shape=(8, 8), L=2, K=2),
    HarmonicScattering3D(J=1, shape=(4, 5, 6), L=1),
)


class TestScattering:
    @pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: type(transform).__name__)
    @pytest.mark.parametrize(
        "before, chunks", [((), ()), ((7,), (3,)), ((5, 2), (2, 1)), ((3, 1, 4), (2, 1, 4)), ((0,), (1,))]
    )
    def test_against_one_call(self, dtype, rng, transform, before, chunks):
        shape = getattr(transform, "padded_shape", None) if getattr(transform, "pre_pad", False) else transform.shape
        x = rng.standard_normal((*before, *shape)).astype(dtype)
        lazy = da.from_array(x, chunks=(*chunks, *(max(1, size // 2) for size in shape)))
        for function, method in ((fastdl.dask.scattering, transform), (fastdl.dask.moments, transform.moments)):
            expected = method(x)
            result = function(transform, lazy)
            assert result.chunks[: len(before)] == lazy.chunks[: len(before)]
            found = described(result, expected.shape, dtype)
            # Signals that do not fill the lanes round otherwise: some hundred operations, on numbers of the size of
            # the largest.
            error = 200 * np.finfo(dtype).eps * np.max(np.abs(expected), initial=0)
            np.testing.assert_allclose(found, expected, rtol=0, atol=error)

    def test_transform_is_copied(self):
        transform = Scattering2D(2, (4, 4), L=2)
        lazy = fastdl.dask.scattering(transform, np.ones((3, 4, 4)))
        transform.max_order = 1
        assert lazy.compute().shape == lazy.shape == (3, 9, 1, 1)
        other = fastdl.dask.scattering(transform, np.ones((3, 4, 4)))
        assert other.shape == (3, 5, 1, 1) and other.name != lazy.name


class TestHebbianPCA:
    @pytest.mark.parametrize("rule", ["sanger", "subspace", "oja", "ccipca"])
    @pytest.mark.parametrize("epochs", [1, 2])
    def test_like_the_same_pieces(self, dtype, rng, rule, epochs):
        x = (rng.standard_normal((90, 6)) * np.arange(1, 7) + 3).astype(dtype)
        chunks = (40, 1, 0, 49)
        ours = fastdl.dask.HebbianPCA(2, rule, epochs=epochs).fit(split(x, chunks))
        theirs = hebbian.HebbianPCA(2, rule)
        for _ in range(epochs):
            for start, stop in ((0, 40), (40, 41), (41, 90)):
                theirs.partial_fit(x[start:stop])
        for name in ("components_", "mean_"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        assert ours.n_samples_seen_ == 90 * epochs and ours.n_features_in_ == 6
        assert ours.components_.dtype == dtype
        by_parts = fastdl.dask.HebbianPCA(2, rule)
        for _ in range(epochs):
            by_parts.partial_fit(split(x, chunks)[:41]).partial_fit(x[41:])
        np.testing.assert_array_equal(by_parts.components_, ours.components_)

    def test_components(self, rng):
        # Variances 9, 1 and 0.01: the components are axes.
        X = da.from_array(rng.standard_normal((20000, 3)) * np.array([1.0, 3.0, 0.1]), chunks=(3000, 3))
        pca = fastdl.dask.HebbianPCA(2).fit(X)
        assert np.abs(pca.components_[0, 1]) > 0.999 and np.abs(pca.components_[1, 0]) > 0.99

    def test_transform(self, dtype, rng):
        x = (rng.standard_normal((50, 4)) + 2).astype(dtype)
        pca = fastdl.dask.HebbianPCA(2, "ccipca").fit(split(x, 20))
        Z = pca.transform(split(x, 20))
        expected = pca.transform(x)
        np.testing.assert_array_equal(described(Z, (50, 2), dtype), expected)
        back = pca.inverse_transform(Z)
        np.testing.assert_allclose(described(back, (50, 4), dtype), pca.inverse_transform(expected), rtol=1e-5)
        assert pca.transform(split(x, 20)).name == Z.name
        lazy = pca.transform(split(x, 20))
        pca.partial_fit(x)
        np.testing.assert_array_equal(lazy.compute(), expected)  # the components of when it was asked for
        assert pca.transform(split(x, 20)).name != lazy.name
        assert fastdl.dask.HebbianPCA(2).fit_transform(split(x, 20)).shape == (50, 2)

    def test_one_chunk_at_a_time(self):
        events = []

        def load(block):
            events.append("load")
            return block

        def rate(numbers):
            events.append("learn")
            return np.full(numbers.shape, 1e-3)

        X = da.ones((40, 3), chunks=(10, 3)).map_blocks(load, meta=np.empty((0, 0)))
        with dask.config.set(scheduler="threads", num_workers=4):
            fastdl.dask.HebbianPCA(1, learning_rate=rate, center=False).fit(X)
        assert events == ["load", "learn"] * 4

    def test_progress(self):
        seen = []
        X = da.ones((40, 3), chunks=(15, 3))
        fastdl.dask.HebbianPCA(1, epochs=2).fit(X, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (80, 80) and {done for done, _ in seen} >= {15, 30, 40, 55, 70, 80}

    def test_failure_leaves_it_as_it_was(self):
        x = np.ones((30, 3))
        x[17] = np.nan
        pca = fastdl.dask.HebbianPCA(1, center=False).partial_fit(np.eye(3))
        before = dict(vars(pca))
        with pytest.raises(FloatingPointError, match=r" 17$"):
            pca.partial_fit(da.from_array(x, chunks=(10, 3)))
        assert vars(pca).keys() == before.keys() and all(vars(pca)[name] is before[name] for name in before)
        with pytest.raises(FloatingPointError, match=r" 17$"):
            pca.fit(da.from_array(x, chunks=(10, 3)))

    def test_refusals(self):
        X = da.ones((6, 3), chunks=(2, 3))
        pca = fastdl.dask.HebbianPCA(2)
        for method in (pca.transform, pca.inverse_transform):
            with pytest.raises(ValueError, match=r"^\[dask\.HebbianPCA\..*\] expected fit or partial_fit before"):
                method(X)
        for method in (pca.fit, pca.partial_fit):
            with pytest.raises(ValueError, match=r"^\[dask\.HebbianPCA\..*\] expected X of shape \(n, d\), got \(3,\)"):
                method(da.ones(3))
            with pytest.raises(ValueError, match=r"chunks of known sizes"):
                method(X[da.ones(6) > 0])
        pca.fit(X)
        for method in (pca.transform, pca.partial_fit):
            with pytest.raises(
                ValueError, match=r"^\[dask\.HebbianPCA\..*\] expected X of shape \(n, 3\), got \(6, 2\)"
            ):
                method(X[:, :2])
        with pytest.raises(ValueError, match=r"expected Y of shape \(m, 2\), got \(6, 3\)"):
            pca.inverse_transform(X)
        with pytest.raises(ValueError, match=r"expected samples, got none"):
            fastdl.dask.HebbianPCA(2).fit(X[:0])
        with pytest.raises(ValueError, match=r"expected rule"):
            fastdl.dask.HebbianPCA(2, "none").partial_fit(X)


class TestFiles:
    @pytest.mark.parametrize("scheduler", SCHEDULERS)
    def test_memory_map(self, native, rng, tmp_path, scheduler):
        X = rng.standard_normal((300, 10)).astype(np.float32)
        target = np.memmap(tmp_path / "K", np.float32, "w+", shape=(300, 300))
        da.store(fastdl.dask.gram(X, block_rows=77), target, scheduler=scheduler)
        target.flush()
        np.testing.assert_array_equal(np.memmap(tmp_path / "K", np.float32, "r", shape=(300, 300)), gram.rbf(X))

    @pytest.mark.parametrize("scheduler", SCHEDULERS)
    def test_npy(self, native, rng, tmp_path, monkeypatch, scheduler):
        monkeypatch.chdir(tmp_path)
        X = rng.standard_normal((300, 10)).astype(np.float32)
        (tmp_path / "K.npy").write_text("what was there before")
        with dask.config.set(scheduler=scheduler):
            found = fastdl.dask.to_npy(fastdl.dask.gram(X, block_rows=77), "K.npy")
        assert isinstance(found, np.memmap) and not found.flags.writeable
        np.testing.assert_array_equal(found, gram.rbf(X))
        np.testing.assert_array_equal(np.load(tmp_path / "K.npy"), gram.rbf(X))
        other = fastdl.dask.to_npy(da.arange(24, chunks=5).reshape(4, 3, 2), tmp_path / "other.npy")
        np.testing.assert_array_equal(other, np.arange(24).reshape(4, 3, 2))

    def test_npy_refusals(self, tmp_path):
        with pytest.raises(TypeError, match=r"^\[dask\.to_npy\] expected a Dask array, got numpy\.ndarray"):
            fastdl.dask.to_npy(np.ones(3), tmp_path / "K.npy")
        with pytest.raises(ValueError, match=r"^\[dask\.to_npy\] expected an array in chunks of known sizes"):
            fastdl.dask.to_npy(da.ones(3)[da.ones(3) > 0], tmp_path / "K.npy")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("scheduler", SCHEDULERS)
    def test_zarr(self, native, rng, tmp_path, scheduler):
        zarr = pytest.importorskip("zarr")
        X = rng.standard_normal((300, 10)).astype(np.float32)
        with dask.config.set(scheduler=scheduler):
            fastdl.dask.gram(X, block_rows=77).to_zarr(str(tmp_path / "K.zarr"))
        stored = zarr.open_array(str(tmp_path / "K.zarr"), mode="r")
        assert stored.chunks == (77, 77) and stored.dtype == np.float32
        np.testing.assert_array_equal(stored[:], gram.rbf(X))
        np.testing.assert_array_equal(da.from_zarr(str(tmp_path / "K.zarr")).compute(), gram.rbf(X))

    def test_memory_is_that_of_a_few_blocks(self, tmp_path):
        pytest.importorskip("zarr")
        script = """
import resource, sys
import dask.array as da, numpy as np, zarr
import fastdl.dask
X = da.random.default_rng(0).standard_normal((8000, 16), chunks=(500, 16), dtype="float32")
store = zarr.create_array(sys.argv[1], shape=(8000, 8000), chunks=(500, 500), dtype="float32", compressors=None)
fastdl.dask.gram(X[:1000], kernel="rbf").store(store, regions=(slice(0, 1000),) * 2, scheduler="threads", num_workers=2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fastdl.dask.gram(X, kernel="rbf").store(store, scheduler="threads", num_workers=2)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
samples = X.compute()
K = fastdl.gram.rbf(samples[1234:1240], samples)
assert (store[1234:1240] == K).all() and (store[:, 1234:1240] == K.T).all()
"""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "K.zarr")],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) < 64  # of the 244 MB of K, in blocks of 1 MB


class TestImport:
    def test_without_dask(self):
        script = """
import sys
sys.modules["dask"] = None
import fastdl
try:
    import fastdl.dask
except ImportError as error:
    print(error)
"""
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
        )
        assert "pip install 'fastdl-kernels[dask]'" in done.stdout

    def test_fastdl_does_not_import_dask(self):
        script = "import sys, fastdl, fastdl.scattering; print([name for name in sys.modules if 'dask' in name])"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"


def test_dask_gram(tmp_path, capsys):
    if not (ROOT / "examples").is_dir():
        pytest.skip("the examples are not here")
    spec = importlib.util.spec_from_file_location("example_dask_gram", ROOT / "examples" / "dask_gram.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = module.main(tmp_path, rows=600)
    assert result["residual"] < 2e-8  # conjugate gradients stop at half of it, by their own account
    assert result["error"] < 0.7
    assert np.load(tmp_path / "gram.npy", mmap_mode="r").shape == (600, 600)
    assert "Look for" in capsys.readouterr().out
