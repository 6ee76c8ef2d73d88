"""Scattering on the CUDA kernels: against its definition in float64, gradients against the reference, and promises."""

from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import fastdl
from cases import scattering_formulas as formulas
from cuda_device import ORDERS, Array, same_layout, to_device
from fastdl.scattering import HarmonicScattering3D, Scattering1D, Scattering2D, _native

TOLERANCE = {"float32": 1e-5, "float64": 1e-7}
# The direction z/|z| of a small z carries the rounding of z, relative to the largest: as in tests/test_scattering.py.
GRADIENT = {"float32": 2e-4, "float64": 1e-7}


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def close(found, expected, dtype, tolerance=TOLERANCE):
    assert type(found) is Array and found.dtype == dtype and found.shape == expected.shape
    assert relative(found.host, expected) <= tolerance[dtype.name]


def by_reference(function, *arrays):
    with fastdl.backend("reference"):
        return function(*(array.astype(np.float64) for array in arrays))


def limited(cuda, patch, **limits):
    """Make plans that may use less memory, and no others."""
    for name in ("PlanF32", "PlanF64"):
        patch.setattr(cuda.scattering, name, partial(getattr(cuda.scattering, name), **limits))
    patch.setattr(_native, "_plans", WeakKeyDictionary())


@pytest.fixture(autouse=True)
def no_reference(monkeypatch):
    """Let nothing but the kernels compute arrays on the device."""

    def guarded(function):
        def call(x, *arguments):
            assert not isinstance(x, Array), "computed by the reference"
            return function(x, *arguments)

        return call

    operations = [HarmonicScattering3D._forward, HarmonicScattering3D._backward]
    for family in (Scattering1D, Scattering2D):
        operations += [family._forward, family._backward, family._mean, family._mean_backward]
    for operation in operations:
        monkeypatch.setattr(operation, "_reference", guarded(operation.reference))


@pytest.fixture(params=["in shared memory", "by lines"])
def way(request, cuda, monkeypatch):
    """Compute whole grids in the shared memory of a block, or as larger ones are: rows and columns apart."""
    if request.param == "by lines":
        limited(cuda, monkeypatch, shared_bytes=0)
    return request.param


# Padded sizes, in this order: 16 x 12; 18 x 10 (nine, five); 24 x 32; 22 x 26 (eleven, thirteen); 16 x 24 with three
# levels; 14 x 8 (seven), no second order.
IMAGES = [
    dict(J=2, shape=(8, 7), L=2),
    dict(J=1, shape=(15, 7), L=3),
    dict(J=2, shape=(19, 25), L=1),
    dict(J=1, shape=(18, 22), L=1),
    dict(J=3, shape=(8, 13), L=1),
    dict(J=1, shape=(10, 4), L=2, max_order=1),
]
SIGNALS = [
    dict(J=3, shape=64, Q=(2, 2)),
    dict(J=4, shape=150, Q=1, T=20),
    dict(J=3, shape=100, Q=3, oversampling=2),
    dict(J=2, shape=33, Q=1, T=3, max_order=1, normalization="mean"),
]


class TestImages:
    @pytest.mark.parametrize("arguments", IMAGES, ids=str)
    def test_against_the_definition(self, way, dtype, rng, arguments):
        x = rng.standard_normal((2, *arguments["shape"])).astype(dtype)
        S = Scattering2D(**arguments)
        expected = formulas.scattering2d(x, **{key: value for key, value in arguments.items() if key != "shape"})
        close(S(to_device(x)), expected, dtype)
        close(S.moments(to_device(x)), by_reference(S.moments, x), dtype)

    @pytest.mark.parametrize("arguments", IMAGES, ids=str)
    def test_gradients(self, way, dtype, rng, arguments):
        S = Scattering2D(**arguments)
        x = rng.standard_normal((2, *arguments["shape"])).astype(dtype)
        grad = rng.standard_normal((2, S.output_size(), *S._tree.output)).astype(dtype)
        close(S.vjp(to_device(x), to_device(grad)), by_reference(S.vjp, x, grad), dtype, GRADIENT)
        means = grad[..., 0, 0].copy()
        close(S.moments_vjp(to_device(x), to_device(means)), by_reference(S.moments_vjp, x, means), dtype, GRADIENT)

    def test_padded_images(self, way, dtype, rng):
        S = Scattering2D(1, (6, 9), L=2, pre_pad=True)
        x = rng.standard_normal((1, *S.padded_shape)).astype(dtype)
        close(S(to_device(x)), formulas.scattering2d(x, 1, 2, pre_pad=True), dtype)
        grad = rng.standard_normal(S(to_device(x)).shape).astype(dtype)
        close(S.vjp(to_device(x), to_device(grad)), by_reference(S.vjp, x, grad), dtype, GRADIENT)

    def test_larger_than_shared_memory(self, cuda, dtype, rng):
        # 80 x 74 complex numbers are 47 KB in float32.
        S = Scattering2D(2, (75, 65), L=1)
        assert S.padded_shape == (80, 72)
        x = rng.standard_normal((1, 75, 65)).astype(dtype)
        close(S(to_device(x)), formulas.scattering2d(x, 2, 1), dtype)


class TestSignals:
    @pytest.mark.parametrize("arguments", SIGNALS, ids=str)
    def test_against_the_definition(self, way, dtype, rng, arguments):
        S = Scattering1D(**arguments)
        x = rng.standard_normal((2, arguments["shape"])).astype(dtype)
        expected = formulas.scattering1d(x, S.meta(), S.N_padded, S.T, S.oversampling, S.max_order, S.normalization)
        close(S(to_device(x)), expected, dtype)
        close(S.moments(to_device(x)), by_reference(S.moments, x), dtype)

    @pytest.mark.parametrize("arguments", SIGNALS, ids=str)
    def test_gradients(self, way, dtype, rng, arguments):
        S = Scattering1D(**arguments)
        x = rng.standard_normal((2, arguments["shape"])).astype(dtype)
        grad = rng.standard_normal((2, S.output_size(), *S._tree.output)).astype(dtype)
        close(S.vjp(to_device(x), to_device(grad)), by_reference(S.vjp, x, grad), dtype, GRADIENT)
        means = grad[..., 0].copy()
        close(S.moments_vjp(to_device(x), to_device(means)), by_reference(S.moments_vjp, x, means), dtype, GRADIENT)

    def test_longer_than_shared_memory(self, cuda, dtype, rng):
        S = Scattering1D(2, 6000, T=16)
        assert S.N_padded == 8192
        x = rng.standard_normal(6000).astype(dtype)
        close(S(to_device(x)), formulas.scattering1d(x, S.meta(), 8192, 16), dtype)

    def test_without_averages(self, cuda, dtype):
        # Only the reference has them.
        S = Scattering1D(2, 16, T=0, out_type="dict")
        call, _, told = S._begin(S._forward, to_device(np.ones((1, 16), dtype)))
        assert call.backend == "reference" and told is S._tree


class TestVolumes:
    @pytest.mark.parametrize(
        "S",
        [
            HarmonicScattering3D(1, (8, 8, 8), 0),
            HarmonicScattering3D(2, (4, 7, 6), 1, integral_powers=(1.0, 3.0)),
            HarmonicScattering3D(1, (3, 5, 4), 2, rotation_covariant=False, max_order=1),
        ],
        ids=str,
    )
    def test_against_the_reference(self, cuda, dtype, rng, S):
        x = rng.standard_normal((2, *S.shape)).astype(dtype)
        found = S(to_device(x))
        close(found, by_reference(S, x), dtype)
        grad = rng.standard_normal(found.shape).astype(dtype)
        close(S.vjp(to_device(x), to_device(grad)), by_reference(S.vjp, x, grad), dtype, GRADIENT)
        close(S.moments(to_device(x)), by_reference(S.moments, x), dtype)

    def test_plane_waves(self, cuda, dtype):
        # A wave is an eigenvector of a convolution: every modulus is that of the filter at its frequency.
        S = HarmonicScattering3D(1, (4, 6, 8), 1, max_order=1, integral_powers=(1.0,))
        z, y, x = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in S.shape), indexing="ij")
        wave = np.cos(z) * 0 + np.cos(2 * x + y)
        spectrum = np.fft.fftn(wave)
        expected = [
            [
                np.sqrt((abs(np.fft.ifftn(filters[j] * spectrum, axes=(-3, -2, -1))) ** 2).sum(0)).sum()
                for filters in S.filters
            ]
            for j in range(2)
        ]
        close(S(to_device(wave.astype(dtype))), np.array(expected)[..., None], dtype)

    def test_filters_are_sent_once(self, cuda, rng):
        S = HarmonicScattering3D(1, (4, 4, 4), 0)
        x = to_device(rng.standard_normal((4, 4, 4)))
        first = S(x).host
        before = dict(_native._filters)
        assert S(x).host.tobytes() == first.tobytes()
        assert _native._filters == before

    def test_zero(self, cuda, dtype):
        S = HarmonicScattering3D(1, (4, 4, 4), 1)
        zero = np.zeros((1, 4, 4, 4), dtype)
        assert not S(to_device(zero)).host.any()
        assert np.isfinite(S.vjp(to_device(zero), to_device(np.ones(S(to_device(zero)).shape, dtype))).host).all()


class TestArrays:
    def test_layouts(self, cuda, dtype, rng):
        S = Scattering2D(1, (6, 5), L=1)
        x = rng.standard_normal((2, 3, 6, 5)).astype(dtype)
        grad = rng.standard_normal((2, 3, S.output_size(), *S._tree.output)).astype(dtype)
        expected, back = S(to_device(x)).host, S.vjp(to_device(x), to_device(grad)).host
        for other in (np.asfortranarray, lambda a: np.repeat(a, 2, -1)[..., ::2], lambda a: a[::-1].copy()[::-1]):
            assert (S(same_layout(other(x))).host == expected).all()
            assert (S.vjp(same_layout(other(x)), same_layout(other(grad))).host == back).all()
        volumes = HarmonicScattering3D(1, (4, 3, 5), 1)
        x = rng.standard_normal((2, 4, 3, 5)).astype(dtype)
        assert (volumes(same_layout(np.asfortranarray(x))).host == volumes(to_device(x)).host).all()

    @pytest.mark.parametrize(
        "S", [Scattering2D(1, (4, 5), L=1), Scattering1D(2, 16), HarmonicScattering3D(1, (2, 3, 4), 0)], ids=str
    )
    def test_batches(self, cuda, dtype, rng, S):
        x = rng.standard_normal((3, 2, *S.shape)).astype(dtype)
        whole = S(to_device(x))
        assert whole.shape[:2] == (3, 2)
        assert (S(to_device(x[1, 1])).host == whole.host[1, 1]).all()  # to the bit
        for forward, backward in ((S, S.vjp), (S.moments, S.moments_vjp)):
            nothing = to_device(np.ones((0, 4, *S.shape), dtype))
            result = forward(nothing)
            assert result.shape[:2] == (0, 4) and result.dtype == dtype
            assert backward(nothing, result).shape == nothing.shape

    def test_more_images_than_memory(self, way, cuda, dtype, rng, monkeypatch):
        S = Scattering2D(2, (5, 4), L=1)
        x = rng.standard_normal((3, 5, 4)).astype(dtype)
        expected = S(to_device(x))
        grad = rng.standard_normal(expected.shape).astype(dtype)
        back = S.vjp(to_device(x), to_device(grad))
        limited(cuda, monkeypatch, scratch_bytes=1, shared_bytes=48 << 10 if way == "in shared memory" else 0)
        assert (S(to_device(x)).host == expected.host).all()
        assert (S.vjp(to_device(x), to_device(grad)).host == back.host).all()

    def test_integers(self, cuda, rng):
        x = rng.integers(-5, 5, (2, 4, 4))
        S = Scattering2D(1, (4, 4), L=1)
        assert (S(to_device(x)).host == S(to_device(x.astype(float))).host).all()

    def test_forms(self, cuda, rng):
        x = to_device(rng.standard_normal((2, 5, 5)))
        array = Scattering2D(1, (5, 5), L=2)(x)
        for out_type in ("list", "dict"):
            S = Scattering2D(1, (5, 5), L=2, out_type=out_type)
            paths = S(x)
            for channel, path in enumerate(paths):
                part = path["coef"] if out_type == "list" else paths[path]
                assert type(part) is Array and (part.host == array.host[:, channel]).all()

    def test_not_finite_stays_with_its_image(self, cuda, dtype, rng):
        S = Scattering2D(1, (6, 6), L=1)
        x = rng.standard_normal((3, 6, 6)).astype(dtype)
        expected = S(to_device(x)).host
        x[1, 3, 3] = np.nan
        found = S(to_device(x)).host
        assert np.isnan(found[1]).any() and (found[[0, 2]] == expected[[0, 2]]).all()

    @pytest.mark.parametrize("make", [lambda: Scattering2D(1, (6, 7), L=1), lambda: Scattering1D(2, 20)])
    def test_squares_beyond_the_type(self, way, dtype, rng, make):
        """The transform of c x is c times that of x, and its gradient the same; to the bit for powers of two."""
        S = make()
        x = rng.standard_normal((3, *S.shape)).astype(dtype)
        exponents = np.array([0, -80, 120] if dtype == np.float32 else [0, -560, 1000]).reshape(3, *(1,) * len(S.shape))
        scaled = np.ldexp(x, exponents)
        result = S(to_device(x)).host
        allowed = 1e-5 if dtype == np.float32 else 1e-12
        for found, expected in (
            (np.ldexp(S(to_device(scaled)).host, -exponents[..., None]), result),
            (S.vjp(to_device(scaled), to_device(result)).host, S.vjp(to_device(x), to_device(result)).host),
        ):
            assert np.abs(found - expected).max() <= allowed * np.abs(expected).max()

    def test_gradients_are_finite_at_zero(self, way, dtype):
        for S in (Scattering2D(2, (5, 4), L=1), Scattering1D(2, 16)):
            zero = np.zeros((1, *S.shape), dtype)
            result = S(to_device(zero))
            assert not result.host.any()
            assert np.isfinite(S.vjp(to_device(zero), to_device(np.ones(result.shape, dtype))).host).all()


class TestErrors:
    def test_shapes_and_types(self, cuda, rng):
        S = Scattering2D(1, (4, 5), L=1)
        x = to_device(rng.standard_normal((2, 4, 5)))
        with pytest.raises(ValueError, match=r"\[scattering.scattering2d\] expected x of shape \(\.\.\., 4, 5\), got"):
            S(to_device(np.ones((2, 5, 4))))
        with pytest.raises(ValueError, match="expected grad of shape"):
            S.vjp(x, x)
        with pytest.raises(ValueError, match="expected grad on device cuda:0"):
            S.vjp(x, np.ones((2, S.output_size(), 2, 2)))
        with pytest.raises(TypeError, match="float16"):
            S(to_device(np.ones((4, 5), np.float16)))
        with pytest.raises(ValueError, match="expected x of shape"):
            HarmonicScattering3D(1, (4, 4, 4), 0)(x)

    def test_of_the_extension(self, cuda, dtype):
        S = Scattering2D(1, (4, 5), L=1)
        kind = cuda.scattering.PlanF32 if dtype == np.float32 else cuda.scattering.PlanF64
        plan = _native._make(cuda.scattering, S._tree, dtype, False)
        assert type(plan) is kind
        out = to_device(np.full((2, S.output_size(), *S._tree.output), 7, dtype))
        x = to_device(np.ones((2, 4, 5), dtype))
        other = to_device(np.ones((2, 4, 5), np.float64 if dtype == np.float32 else np.float32))
        for wrong in (x[:, :3], x[:1]):
            with pytest.raises(ValueError, match="expected"):
                plan.forward(wrong, out)
        with pytest.raises(TypeError, match="expected float"):
            plan.forward(other, out)
        with pytest.raises(ValueError, match="grad: expected"):
            plan.vjp(x, x, x)
        assert (out.host == 7).all()

    def test_lines_that_have_no_kernel(self, cuda):
        """What has no kernels is left to the reference: here a prime number of rows, above 1024."""
        S = HarmonicScattering3D(1, (1031, 2, 2), 0)
        call = S._forward.begin(to_device(np.ones(S.shape)))
        assert call.backend == "cuda"
        S._told(call)
        assert call.backend == "reference"
        images = Scattering2D(1, (4, 2 * 1031 - 4), L=1)
        assert images.padded_shape[1] == 2 * 1031
        assert images._begin(images._forward, to_device(np.ones(images.shape)))[0].backend == "reference"


class TestThreads:
    """In the emulation: orders of threads, and barriers that are left out."""

    @pytest.fixture
    def emulated(self, cuda, request):
        if request.node.callspec.params["cuda"] != ("emulated", ORDERS[0]):
            pytest.skip("sets orders itself, which only the emulation can")
        yield cuda
        cuda.set_order(ORDERS[0])
        cuda.skip_barrier(-1)

    def results(self, S, x, grad):
        return S(to_device(x)).host, S.vjp(to_device(x), to_device(grad)).host

    @pytest.mark.parametrize("S", [Scattering2D(1, (6, 5), L=1), Scattering1D(2, 24)], ids=str)
    def test_results_do_not_depend_on_the_order(self, emulated, way, dtype, rng, S):
        x = rng.standard_normal((1, *S.shape)).astype(dtype)
        grad = rng.standard_normal((1, S.output_size(), *S._tree.output)).astype(dtype)
        results = []
        for order in ("fwd", "rev", "random"):
            emulated.set_order(order)
            results.append(self.results(S, x, grad))
        for other in results[1:]:
            assert all(a.tobytes() == b.tobytes() for a, b in zip(results[0], other, strict=True))

    @pytest.mark.parametrize("barrier", range(9))
    def test_missing_barriers(self, emulated, rng, barrier):
        # 16 x 12 in shared memory: reading, then two stages and two more, then moduli, then averages.
        S = Scattering2D(2, (8, 7), L=1)
        x = rng.standard_normal((1, 8, 7))
        grad = rng.standard_normal((1, S.output_size(), *S._tree.output))
        right = self.results(S, x, grad)
        noticed = False
        emulated.skip_barrier(barrier)
        for order in ("fwd", "rev", "random"):
            emulated.set_order(order)
            found = self.results(S, x, grad)
            noticed |= any(a.tobytes() != b.tobytes() for a, b in zip(found, right, strict=True))
        assert noticed
