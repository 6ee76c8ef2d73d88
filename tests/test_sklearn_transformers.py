"""Scattering and Hebbian learning as steps of pipelines, against the functions they are made of."""

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.decomposition import PCA

from fastdl import hebbian, scattering
from fastdl.sklearn import HebbianPCA, Scattering1D, Scattering2D


class TestScattering1D:
    def test_like_the_transform(self, rng, dtype):
        X = rng.standard_normal((5, 100)).astype(dtype)
        model = Scattering1D(J=3, Q=2, max_order=1, oversampling=1, normalization="mean").fit(X)
        expected = scattering.Scattering1D(3, 100, 2, max_order=1, oversampling=1, normalization="mean")(X)
        found = model.transform(X)
        assert found.dtype == dtype and model.output_shape_ == expected.shape[1:]
        assert np.array_equal(found.reshape(expected.shape), expected)

    def test_several_signals_a_sample(self, rng):
        X = rng.standard_normal((4, 3, 64))
        expected = scattering.Scattering1D(4, 64)(X)
        whole = Scattering1D().fit(X)
        rows = Scattering1D(shape=64).fit(X.reshape(4, -1))
        assert whole.scattering_.J == 4 and whole.shape_ == (64,) and whole.n_features_in_ == 192
        for model in (whole, rows):
            assert model.output_shape_ == expected.shape[1:]
            for samples in (X, X.reshape(4, -1)):
                assert np.array_equal(model.transform(samples).reshape(expected.shape), expected)

    @pytest.mark.parametrize("size, J", [(2, 1), (7, 1), (8, 1), (16, 2), (100, 4), (1024, 8)])
    def test_scales_where_none_are_named(self, size, J):
        assert Scattering1D().fit(np.ones((1, size))).scattering_.J == J

    def test_what_is_refused(self, rng):
        X = rng.standard_normal((4, 64))
        with pytest.raises(ValueError, match="multiple of 48"):
            Scattering1D(shape=48).fit(X)
        with pytest.raises(ValueError, match="n_features = 1"):
            Scattering1D().fit(X[:, :1])
        with pytest.raises(ValueError, match="2\\*\\*J"):
            Scattering1D(J=9).fit(X)
        with pytest.raises(ValueError, match="out_type"):
            Scattering1D(T=0).fit(X)
        model = Scattering1D().fit(X)
        with pytest.raises(ValueError, match="expected X of shape"):
            model.transform(X.reshape(4, 2, 32))
        with pytest.raises(ValueError, match="features"):
            model.transform(X[:, :32])


class TestScattering2D:
    def test_like_the_transform(self, rng, dtype):
        X = rng.standard_normal((3, 12, 20)).astype(dtype)
        expected = scattering.Scattering2D(1, (12, 20), L=3, max_order=1)(X)
        for model in (Scattering2D(L=3, max_order=1).fit(X), Scattering2D(1, (12, 20), L=3, max_order=1).fit(X)):
            assert model.shape_ == (12, 20) and model.scattering_.J == 1
            for samples in (X, X.reshape(3, -1)):
                found = model.transform(samples)
                assert found.dtype == dtype
                assert np.array_equal(found.reshape(expected.shape), expected)

    def test_rows_are_square_images(self, rng):
        X = rng.standard_normal((2, 784))
        model = Scattering2D(L=2).fit(X)
        assert model.shape_ == (28, 28) and model.scattering_.J == 2
        expected = scattering.Scattering2D(2, (28, 28), L=2)(X.reshape(2, 28, 28))
        assert np.array_equal(model.transform(X).reshape(expected.shape), expected)

    def test_rows_that_make_no_square(self, rng):
        X = rng.standard_normal((2, 60))
        with pytest.warns(UserWarning, match="square number"):
            model = Scattering2D(L=2).fit(X)
        images = np.pad(X, ((0, 0), (0, 4))).reshape(2, 8, 8)
        assert np.array_equal(model.transform(X), Scattering2D(L=2).fit(images).transform(images))

    def test_channels(self, rng):
        X = rng.standard_normal((2, 3, 16, 16))
        expected = scattering.Scattering2D(2, (16, 16), L=2)(X)
        for model in (Scattering2D(L=2).fit(X), Scattering2D(L=2, shape=(16, 16)).fit(X.reshape(2, -1))):
            assert model.output_shape_ == expected.shape[1:]
            assert np.array_equal(model.transform(X).reshape(expected.shape), expected)

    def test_names_of_features(self, rng):
        X = rng.standard_normal((2, 8, 8))
        model = Scattering2D(L=2, max_order=1).fit(X)
        names = model.get_feature_names_out()
        assert len(names) == model.transform(X).shape[1] and names[0] == "scattering2d0"

    def test_what_is_refused(self, rng):
        X = rng.standard_normal((2, 8, 8))
        for shape, error in (((8,), ValueError), (8, TypeError), ((7, 7), ValueError), ((4, 16), ValueError)):
            with pytest.raises(error, match="expected"):
                Scattering2D(shape=shape).fit(X)
        with pytest.raises(ValueError, match="at least 2"):
            Scattering2D().fit(rng.standard_normal((2, 1, 9)))


class TestHebbianPCA:
    @pytest.mark.parametrize("rule", ["sanger", "subspace", "oja", "ccipca"])
    def test_like_the_estimator_of_the_family(self, rng, dtype, rule):
        X = (rng.standard_normal((400, 6)) * np.arange(6, 0, -1) + 3).astype(dtype)
        model = HebbianPCA(3, rule, epochs=2, random_state=4).fit(X)
        family = hebbian.HebbianPCA(3, rule, epochs=2, random_state=4).fit(X)
        assert np.array_equal(model.components_, family.components_)
        assert np.array_equal(model.mean_, family.mean_) and model.n_samples_seen_ == 800
        assert np.array_equal(model.transform(X), family.transform(X)) and model.transform(X).dtype == dtype
        assert np.array_equal(
            model.inverse_transform(model.transform(X)), family.inverse_transform(family.transform(X))
        )

    def test_in_pieces(self, rng):
        X = rng.standard_normal((300, 5)) * [5, 4, 3, 2, 1]
        whole = HebbianPCA(2).fit(X)
        pieces = HebbianPCA(2)
        for piece in np.array_split(X, 7):
            pieces.partial_fit(piece)
        assert pieces.n_samples_seen_ == 300
        assert np.allclose(pieces.components_, whole.components_, atol=1e-12)
        # To fit again is to begin again.
        assert np.array_equal(pieces.fit(X).components_, whole.components_)
        more = HebbianPCA(2).fit(X).partial_fit(X)
        assert more.n_samples_seen_ == 600

    def test_finds_the_components(self, rng):
        X = rng.standard_normal((20_000, 4)) * [4, 2, 1, 0.5] + 7
        ours, theirs = HebbianPCA(2, "ccipca").fit(X), PCA(2).fit(X)
        directions = ours.components_ / np.linalg.norm(ours.components_, axis=1, keepdims=True)
        # What is left of the first samples goes down with their number.
        assert np.all(np.abs(np.sum(directions * theirs.components_, axis=1)) > 0.995)

    def test_components_by_default(self, rng):
        assert HebbianPCA().fit(rng.standard_normal((3, 8))).components_.shape == (3, 8)
        assert HebbianPCA().fit(rng.standard_normal((9, 4))).components_.shape == (4, 4)

    def test_sources_of_random_numbers(self, rng):
        X = rng.standard_normal((50, 4))
        same = [HebbianPCA(2, random_state=np.random.RandomState(3)).fit(X).components_ for _ in range(2)]
        assert np.array_equal(*same)
        HebbianPCA(2, random_state=None).fit(X)
        HebbianPCA(2, random_state=np.random.default_rng(0)).fit(X)

    def test_a_rate_that_is_too_large(self, rng):
        X = rng.standard_normal((500, 4))
        model = HebbianPCA(2).fit(X)
        before = model.components_
        model.set_params(learning_rate=1e3)
        with pytest.raises(FloatingPointError):
            model.fit(X)
        fresh = HebbianPCA(2).partial_fit(X)
        fresh._model.learning_rate = 1e3
        with pytest.raises(FloatingPointError):
            fresh.partial_fit(X)
        assert np.array_equal(fresh.components_, before)

    def test_progress(self, rng):
        told = []
        HebbianPCA(2, epochs=2, progress=lambda *done: told.append(done)).fit(rng.standard_normal((50, 4)))
        assert told[-1] == (100, 100)
