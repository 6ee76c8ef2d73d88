"""Libraries of arrays, and a call of every public function that takes arrays, to be made in each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

import numpy as np

from fastdl import conv, gram, group, hebbian, scattering


class Library:
    """NumPy, and what the others differ from."""

    name = "numpy"

    def __init__(self) -> None:
        self.module: Any = np

    def give(self, values: np.ndarray) -> Any:
        """An array of the library with these values."""
        return values.copy()

    def read(self, array: Any) -> np.ndarray:
        """What is in an array of the library."""
        return array

    def owns(self, array: Any) -> bool:
        return type(array) is np.ndarray or isinstance(array, np.generic)

    def address(self, array: Any) -> int:
        """Where the memory of an array begins."""
        return int(np.from_dlpack(array).ctypes.data)

    def precision(self, dtype: np.dtype) -> Any:
        """A context in which the library has arrays of `dtype`."""
        return nullcontext()


class ReadOnly(Library):
    """NumPy arrays that cannot be written."""

    name = "read-only numpy"

    def give(self, values: np.ndarray) -> Any:
        array = values.copy()
        array.flags.writeable = False
        return array


class Torch(Library):
    name = "torch"

    def __init__(self) -> None:
        import torch

        self.module = torch

    def give(self, values: np.ndarray) -> Any:
        return self.module.from_numpy(values.copy())

    def read(self, array: Any) -> np.ndarray:
        assert array.device.type == "cpu" and not array.requires_grad
        return array.numpy()

    def owns(self, array: Any) -> bool:
        return type(array) is self.module.Tensor

    def address(self, array: Any) -> int:
        return int(array.data_ptr())


class Strict(Library):
    """array-api-strict: the standard and not a function more. On a device of its own, which results must keep."""

    name = "array_api_strict"

    def __init__(self) -> None:
        import array_api_strict

        self.module = array_api_strict
        self.device = array_api_strict.Device("device1")

    def give(self, values: np.ndarray) -> Any:
        return self.module.asarray(values.copy(), device=self.device)

    def read(self, array: Any) -> np.ndarray:
        assert array.device == self.device
        return np.from_dlpack(array)

    def owns(self, array: Any) -> bool:
        return type(array) is type(self.module.asarray(0.0))


class Jax(Library):
    name = "jax"

    def __init__(self) -> None:
        import jax

        self.jax, self.module = jax, jax.numpy

    def give(self, values: np.ndarray) -> Any:
        array = self.module.asarray(values.copy())
        assert array.dtype == values.dtype or values.dtype == np.int64
        return array

    def read(self, array: Any) -> np.ndarray:
        assert array.device.platform == "cpu"
        return np.asarray(array)

    def owns(self, array: Any) -> bool:
        return isinstance(array, self.jax.Array)

    def address(self, array: Any) -> int:
        return int(array.unsafe_buffer_pointer())

    @contextmanager
    def precision(self, dtype: np.dtype) -> Iterator[None]:
        """JAX has numbers of 64 bits only on request."""
        before = self.jax.config.jax_enable_x64
        self.jax.config.update("jax_enable_x64", dtype == np.float64)
        try:
            yield
        finally:
            self.jax.config.update("jax_enable_x64", before)


LIBRARIES = {library.name: library for library in (Library, ReadOnly, Torch, Strict, Jax)}


class Giver:
    """Makes the arrays of a case, the same in every library, and remembers them."""

    def __init__(self, library: Library, dtype: Any) -> None:
        self.library, self.dtype = library, np.dtype(dtype)
        self.rng = np.random.default_rng(20240607)
        self.given: list[tuple[Any, np.ndarray]] = []

    def __call__(self, *shape: int) -> Any:
        """Normal numbers."""
        return self.array(self.rng.standard_normal(shape).astype(self.dtype))

    def positive(self, *shape: int) -> Any:
        """Numbers from 0 to less than 1."""
        return self.array(self.rng.random(shape).astype(self.dtype))

    def spins(self, *shape: int) -> Any:
        """+1 and -1."""
        return self.array(np.where(self.rng.random(shape) < 0.5, 1, -1).astype(self.dtype))

    def edges(self, n: int) -> Any:
        """The weights of an undirected graph."""
        weights = self.rng.random((n, n))
        return self.array(((weights + weights.T) * (1 - np.eye(n))).astype(self.dtype))

    def array(self, values: np.ndarray) -> Any:
        """These values."""
        array = self.library.give(values)
        self.given.append((array, values))
        return array


TURNS = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
SIGNALS = scattering.Scattering1D(3, 64, Q=2)
IMAGES = scattering.Scattering2D(2, (16, 16), L=4)
PATHS = scattering.Scattering1D(2, 32, out_type="dict")
LARGE_IMAGES = scattering.Scattering2D(2, (32, 32))
LISTED = scattering.Scattering2D(1, (8, 8), L=2, out_type="list")
VOLUMES = scattering.HarmonicScattering3D(1, (8, 8, 8), L=1)
MOTIONS = scattering.RotoTranslationScattering2D(2, (16, 16), L=4)

Case = Callable[[Giver], Any]


KERNELS = (
    "additive_chi2", "arc_cosine", "chi2", "cosine", "geometric", "laplacian", "linear", "matern", "nngp", "ntk",
    "polynomial", "rbf", "sigmoid", "sinc",
)  # fmt: skip
RULES = ("hebb", "krotov", "oja", "sanger", "soft_hebb", "subspace")


def _kernel(function: Any) -> Case:
    """A kernel of samples with themselves and with others: positive and short, as chi2 and geometric want them."""
    return lambda a: (function(a.positive(13, 3)), function(a.positive(9, 3), a.positive(4, 3)))


def _rule(function: Any) -> Case:
    """A rule with one step, and with a step for every sample."""
    return lambda a: (function(a(3, 5), a(20, 5), 0.01), function(a(3, 5), a(2, 5), a.positive(2)))


def _pooled(pool: str, *shape: int) -> Case:
    """A pooling with its indices, and its gradient by them."""

    def case(a: Giver) -> Any:
        x = a(*shape)
        largest, places = getattr(conv, pool)(x, 2, return_indices=True)
        return largest, places, getattr(conv, pool + "_grad")(largest, places, shape)

    return case


def _learnt(a: Giver) -> Any:
    """An estimator keeps what it learns as NumPy arrays; what it transforms comes back in the library of X."""
    X = a(40, 5)
    return hebbian.HebbianPCA(2).fit(X).partial_fit(a(10, 5)).transform(X)


def _prepared(a: Giver) -> Any:
    return conv.prepare(a(4, 3, 3, 3), bias=a(4))(a(2, 3, 6, 5))


# Cases are named by what they call; where one function has several, by a word after it.
CASES: dict[str, Case] = {
    **{f"gram.{name}": _kernel(getattr(gram, name)) for name in KERNELS},
    "gram.matern of scales": lambda a: gram.matern(a(9, 4), a(5, 4), length_scale=a.positive(4) + 1),
    "gram.matern of any nu": lambda a: gram.matern(a(9, 4), nu=1.2),
    "gram.gram": lambda a: gram.gram(a(9, 4), a(5, 4), kernel="matern", nu=2.5),
    "gram.gram with progress": lambda a: gram.gram(a(9, 4), kernel="rbf", progress=lambda done, total: None),
    "gram.gram_vjp": lambda a: gram.gram_vjp(a(9, 4), a(9, 5), a(5, 4)),
    "gram.diag": lambda a: gram.diag(a(9, 4), "polynomial"),
    "gram.distance": lambda a: gram.distance(a(9, 4), a(5, 4)),
    "gram.matvec": lambda a: (gram.matvec(a(9, 4), a(9)), gram.matvec(a(9, 4), a(5, 3), a(5, 4), kernel="ntk")),
    "gram.matvec_vjp": lambda a: gram.matvec_vjp(a(9, 4), a(5, 3), a(9, 3), a(5, 4)),
    "gram.softmax_matvec": lambda a: gram.softmax_matvec(a(9, 4), a(5, 4), a(5, 3)),
    "gram.invariant": lambda a: gram.invariant(a(9, 4), a(5, 4), permutations=a.array(np.array(TURNS))),
    "gram.cntk": lambda a: gram.cntk(a(3, 2, 4, 5), a(2, 2, 4, 5)),
    "gram.center": lambda a: gram.center(a(7, 7)),
    "gram.hsic": lambda a: gram.hsic(a(7, 7), a(7, 7)),
    "gram.cka": lambda a: gram.cka(gram.linear(a(7, 3)), gram.linear(a(7, 4))),
    "gram.feature_gram": lambda a: gram.feature_gram(a(2, 3, 4, 5), center=True),
    "gram.empirical_ntk": lambda a: gram.empirical_ntk(a(5, 33), a(4, 33)),
    "conv.conv1d": lambda a: conv.conv1d(a(2, 3, 9), a(4, 3, 3), a(4), padding=1, activation="relu"),
    "conv.conv2d": lambda a: conv.conv2d(a(2, 4, 9, 7), a(6, 2, 3, 3), a(6), stride=2, padding="full", groups=2),
    "conv.conv3d": lambda a: conv.conv3d(a(2, 2, 5, 4, 6), a(3, 2, 3, 2, 3), padding_mode="circular", padding=1),
    "conv.conv_transpose1d": lambda a: conv.conv_transpose1d(a(2, 3, 5), a(3, 4, 3), a(4), stride=2),
    "conv.conv_transpose2d": lambda a: conv.conv_transpose2d(a(2, 3, 5, 4), a(3, 4, 3, 3), stride=2, padding=1),
    "conv.conv_transpose3d": lambda a: conv.conv_transpose3d(a(1, 2, 3, 4, 3), a(2, 2, 2, 2, 2)),
    "conv.conv1d_input": lambda a: conv.conv1d_input((2, 3, 9), a(4, 3, 3), a(2, 4, 7)),
    "conv.conv2d_input": lambda a: conv.conv2d_input((2, 3, 9, 7), a(4, 3, 3, 3), a(2, 4, 9, 7), padding=1),
    "conv.conv3d_input": lambda a: conv.conv3d_input((1, 2, 4, 4, 4), a(3, 2, 2, 2, 2), a(1, 3, 3, 3, 3)),
    "conv.conv1d_weight": lambda a: conv.conv1d_weight(a(2, 3, 9), (4, 3, 3), a(2, 4, 7)),
    "conv.conv2d_weight": lambda a: conv.conv2d_weight(a(2, 3, 9, 7), (4, 3, 3, 3), a(2, 4, 9, 7), padding=1),
    "conv.conv3d_weight": lambda a: conv.conv3d_weight(a(1, 2, 4, 4, 4), (3, 2, 2, 2, 2), a(1, 3, 3, 3, 3)),
    "conv.prepare": _prepared,
    "conv.max_pool1d, conv.max_pool1d_grad": _pooled("max_pool1d", 2, 3, 9),
    "conv.max_pool2d, conv.max_pool2d_grad": _pooled("max_pool2d", 2, 3, 9, 6),
    "conv.max_pool3d, conv.max_pool3d_grad": _pooled("max_pool3d", 1, 2, 4, 5, 4),
    "conv.avg_pool1d": lambda a: conv.avg_pool1d(a(2, 3, 9), 2),
    "conv.avg_pool2d": lambda a: conv.avg_pool2d(a(2, 3, 9, 6), 3, 2, 1, count_include_pad=False),
    "conv.avg_pool3d": lambda a: conv.avg_pool3d(a(1, 2, 4, 5, 4), 2),
    "conv.avg_pool1d_grad": lambda a: conv.avg_pool1d_grad(a(2, 3, 4), (2, 3, 9), 2),
    "conv.avg_pool2d_grad": lambda a: conv.avg_pool2d_grad(a(2, 3, 4, 3), (2, 3, 9, 6), 2),
    "conv.avg_pool3d_grad": lambda a: conv.avg_pool3d_grad(a(1, 2, 2, 2, 2), (1, 2, 4, 5, 4), 2),
    "conv.convolve": lambda a: (conv.convolve(a(33), a(5)), conv.convolve(a(6, 7), a(3, 2), mode="circular")),
    "conv.correlate": lambda a: conv.correlate(a(6, 7), a(3, 2), mode="same", method="fft"),
    "conv.circulant": lambda a: conv.circulant(a(6)),
    "conv.toeplitz": lambda a: conv.toeplitz(a(3), 5),
    "conv.graph_laplacian": lambda a: conv.graph_laplacian(a.edges(7), normalized=True),
    "conv.graph_filter": lambda a: conv.graph_filter(conv.graph_laplacian(a.edges(7)), a(7, 3), [1, 0.5, 2]),
    "conv.gcn": lambda a: conv.gcn(a.edges(7), a(7, 3), a(3, 2), activation="relu"),
    "group.lift_conv2d": lambda a: group.lift_conv2d(a(2, 3, 6, 6), a(4, 3, 3, 3), a(4), padding=1),
    "group.conv2d": lambda a: group.conv2d(a(2, 3, 4, 6, 6), a(2, 3, 4, 3, 3), a(2), activation="relu"),
    "group.lift_conv2d_input": lambda a: group.lift_conv2d_input((2, 3, 6, 6), a(4, 3, 3, 3), a(2, 4, 4, 4, 4)),
    "group.lift_conv2d_weight": lambda a: group.lift_conv2d_weight(a(2, 3, 6, 6), (4, 3, 3, 3), a(2, 4, 4, 4, 4)),
    "group.conv2d_input": lambda a: group.conv2d_input((1, 3, 4, 6, 6), a(2, 3, 4, 3, 3), a(1, 2, 4, 4, 4)),
    "group.conv2d_weight": lambda a: group.conv2d_weight(a(1, 3, 4, 6, 6), (2, 3, 4, 3, 3), a(1, 2, 4, 4, 4)),
    "group.expand_filters": lambda a: group.expand_filters(a(4, 3, 3, 3), "p4m", lift=True),
    "group.act": lambda a: group.act(a(2, 3, 4, 5, 5), 1),
    "group.pool": lambda a: (group.pool(a(2, 3, 4, 5, 5)), group.pool(a(2, 3, 4, 5, 5), "mean")),
    "group.set_pool": lambda a: group.set_pool(a(2, 5, 3)),
    "group.convolve": lambda a: group.convolve(a(2, 6), a(6), group.Group.dihedral(3)),
    "group.signature": lambda a: group.signature(a(3, 4), a(2, 4), TURNS, thresholds=[-0.5, 0.5], moments=[1, 2]),
    "group.average": lambda a: group.average(a(3, 4), TURNS),
    "group.permutation_layer": lambda a: group.permutation_layer(a(2, 5), 0.5, 0.25),
    "group.orbit_gramian": lambda a: group.orbit_gramian(a(4), TURNS),
    "group.orbit_regularizer": lambda a: group.orbit_regularizer(a(3, 5), 0.7)[1],
    "group.se2_filters": lambda a: group.se2_filters(a(2, 3, 5, 5), lift=True),
    "group.se2_lift_conv2d": lambda a: group.se2_lift_conv2d(a(1, 3, 7, 7), a(2, 3, 5, 5), a(2)),
    "group.se2_conv2d": lambda a: group.se2_conv2d(a(1, 2, 8, 7, 7), a(2, 2, 8, 3, 3), padding=1),
    "scattering.Scattering1D": lambda a: (SIGNALS(a(3, 64)), SIGNALS.scattering(a(64)), SIGNALS.moments(a(2, 64))),
    "scattering.Scattering1D.vjp": lambda a: SIGNALS.vjp(a(3, 64), a(3, *SIGNALS(np.zeros(64)).shape)),
    "scattering.Scattering1D of paths": lambda a: PATHS(a(3, 32)),
    "scattering.Scattering2D": lambda a: (IMAGES(a(2, 3, 16, 16)), IMAGES.moments(a(2, 16, 16))),
    "scattering.Scattering2D.vjp": lambda a: (
        IMAGES.vjp(a(2, 16, 16), a(2, *IMAGES(np.zeros((16, 16))).shape)),
        IMAGES.moments_vjp(a(2, 16, 16), a(2, *IMAGES.moments(np.zeros((16, 16))).shape)),
    ),
    "scattering.Scattering2D as a list": lambda a: [path["coef"] for path in LISTED(a(2, 8, 8))],
    "scattering.HarmonicScattering3D": lambda a: VOLUMES(a(2, 8, 8, 8)),
    "scattering.RotoTranslationScattering2D": lambda a: MOTIONS(a(2, 16, 16)),
    "scattering.wavelet_transform2d": lambda a: scattering.wavelet_transform2d(a(2, 8, 8), 2, "db2"),
    "scattering.inverse_wavelet_transform2d": lambda a: scattering.inverse_wavelet_transform2d(
        *scattering.wavelet_transform2d(a(2, 8, 8), 2)
    ),
    **{f"hebbian.{name}": _rule(getattr(hebbian, name)) for name in RULES},
    "hebbian.bcm": lambda a: hebbian.bcm(a(3, 5), a(20, 5), 0.01, theta=a.positive(3)),
    "hebbian.ccipca": lambda a: hebbian.ccipca(a(3, 5), a(20, 5), count=4),
    "hebbian.foldiak": lambda a: hebbian.foldiak(a(3, 5), a.positive(9, 5), a.array(np.zeros((3, 3), a.dtype)), a(3)),
    "hebbian.hopfield_weights": lambda a: hebbian.hopfield_weights(a.spins(3, 8)),
    "hebbian.hopfield_energy": lambda a: hebbian.hopfield_energy(a(8, 8), a.spins(4, 8), a(8)),
    "hebbian.hopfield_recall": lambda a: hebbian.hopfield_recall(
        hebbian.hopfield_weights(a.spins(2, 8)), a.spins(4, 8), a(8)
    ),
    "hebbian.dense_hopfield": lambda a: hebbian.dense_hopfield(a.spins(3, 8), a.spins(4, 8)),
    "hebbian.dense_hopfield_energy": lambda a: hebbian.dense_hopfield_energy(a.spins(3, 8), a.spins(4, 8)),
    "hebbian.modern_hopfield": lambda a: hebbian.modern_hopfield(a(3, 8), a(4, 8), 2.0),
    "hebbian.crosstalk": lambda a: hebbian.crosstalk(a.spins(3, 8)),
    "hebbian.HebbianPCA": _learnt,
}

# Names that take no arrays, or are types of what others return.
WITHOUT_ARRAYS = {
    "conv.PreparedConv",
    "group.EquivarianceWarning",
    "group.Group",
    "group.escnn_order",
    "hebbian.capacity",
    "hebbian.flip_probability",
}

# Computed by the library of the arguments, for want of a kernel.
WITHOUT_KERNEL = {
    "gram.matern of any nu",
    "conv.circulant",
    "conv.toeplitz",
    "conv.graph_laplacian",
    "conv.graph_filter",
    "conv.gcn",
    "group.act",
    "group.set_pool",
    "group.average",
    "group.permutation_layer",
    "group.orbit_gramian",
    "group.se2_filters",
    "group.se2_lift_conv2d",
    "group.se2_conv2d",
}

# Calls of every family whose result is large enough to begin on a cache line.
LARGE: dict[str, Case] = {
    "gram.rbf": lambda a: gram.rbf(a(160, 8), a(150, 8)),
    "gram.matvec": lambda a: gram.matvec(a(160, 8), a(170, 150), a(170, 8)),
    "conv.conv2d": lambda a: conv.conv2d(a(2, 3, 64, 64), a(8, 3, 3, 3), a(8)),
    "conv.conv2d_input": lambda a: conv.conv2d_input((4, 4, 64, 64), a(8, 4, 3, 3), a(4, 8, 62, 62)),
    "conv.conv2d_weight": lambda a: conv.conv2d_weight(a(1, 64, 8, 8), (64, 64, 3, 3), a(1, 64, 6, 6)),
    "conv.avg_pool2d": lambda a: conv.avg_pool2d(a(8, 8, 64, 64), 2),
    "group.conv2d": lambda a: group.conv2d(a(2, 4, 4, 32, 32), a(4, 4, 4, 3, 3)),
    "group.pool": lambda a: group.pool(a(8, 8, 4, 32, 32)),
    "scattering": lambda a: LARGE_IMAGES(a(16, 32, 32)),
    "scattering.vjp": lambda a: LARGE_IMAGES.vjp(a(16, 32, 32), a(16, 81, 8, 8)),
    "hebbian.sanger": lambda a: hebbian.sanger(a(64, 512), a(3, 512), 0.01),
}

# Functions that take out=, and the shape of their result.
WITH_OUT: dict[str, tuple[Case, tuple[int, ...]]] = {
    "gram.rbf": (lambda a, **out: gram.rbf(a(13, 6), a(9, 6), **out), (13, 9)),
    "gram.gram": (lambda a, **out: gram.gram(a(13, 6), kernel="ntk", **out), (13, 13)),
    "gram.gram with progress": (
        lambda a, **out: gram.gram(a(13, 6), progress=lambda done, total: None, **out),
        (13, 13),
    ),
    "gram.matern of any nu": (lambda a, **out: gram.matern(a(9, 4), nu=1.2, **out), (9, 9)),
    "conv.conv2d": (lambda a, **out: conv.conv2d(a(2, 3, 9, 7), a(4, 3, 3, 3), **out), (2, 4, 7, 5)),
    "conv.conv1d": (lambda a, **out: conv.conv1d(a(2, 3, 9), a(4, 3, 3), **out), (2, 4, 7)),
    "hebbian.sanger": (lambda a, **out: hebbian.sanger(a(3, 5), a(20, 5), 0.01, **out), (3, 5)),
    "hebbian.krotov": (lambda a, **out: hebbian.krotov(a(3, 5), a(20, 5), 0.01, **out), (3, 5)),
    "hebbian.ccipca": (lambda a, **out: hebbian.ccipca(a(3, 5), a(20, 5), **out), (3, 5)),
}


def leaves(result: Any) -> Iterator[Any]:
    """The arrays of a result, however it holds them. Plain numbers are the same in every library and are left out."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        for part in result:
            yield from leaves(part)
    elif result is not None and type(result) not in (int, float):
        yield result


# Its Bessel functions are SciPy's.
if find_spec("scipy") is None:
    del CASES["gram.matern of any nu"], WITH_OUT["gram.matern of any nu"]
    WITHOUT_KERNEL.discard("gram.matern of any nu")
