"""A quick check of an installation: every family, on every instruction set and backend, against float64 NumPy."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastdl import _dispatch, conv, gram, group, hebbian, scattering
from fastdl._kernels import KERNELS

if TYPE_CHECKING:
    from collections.abc import Iterator

# Around the widths of vectors and tiles, where kernels go wrong first.
_SIZES = ((0, 3, 2), (1, 1, 1), (7, 9, 17), (33, 16, 64), (97, 65, 523))


def _linear(rng: np.random.Generator, dtype: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Give calls to make, what they should give, and the error rounding allows in each element."""
    for n, m, d in _SIZES:
        X = rng.standard_normal((n, d)).astype(dtype)
        Y = rng.standard_normal((m, d)).astype(dtype)
        # Rounding a sum of d products costs at most d + 1 roundings of the sum of their sizes, in any order.
        slack = (d + 1) * np.finfo(dtype).eps
        wide, other = X.astype(np.float64), Y.astype(np.float64)
        yield (X, Y), wide @ other.T, slack * (np.abs(wide) @ np.abs(other).T)
        yield (X,), wide @ wide.T, slack * (np.abs(wide) @ np.abs(wide).T)


def _against_reference(name: str) -> Callable[..., Any]:
    """Give the check of a kernel: the reference in float64, within what rounding may do to it."""

    def calls(rng: np.random.Generator, dtype: Any) -> Iterator[tuple[Any, Any, Any]]:
        for n, m, d in _SIZES:
            # Not negative, for chi2; short, for geometric.
            X, Y = ((rng.random((rows, d)) / np.sqrt(d)).astype(dtype) for rows in (n, m))
            for arguments in ((X, Y), (X,)):
                with _dispatch.backend("reference"):
                    expected = getattr(gram, name)(*(array.astype(np.float64) for array in arguments))
                # Distances are promised to 1e-5 and 1e-12; sums and functions of them add a few roundings.
                slack = (1e-5 if dtype == np.float32 else 1e-12) + 64 * np.sqrt(d) * np.finfo(dtype).eps
                yield arguments, expected, np.full(expected.shape, slack * max(1.0, np.abs(expected).max(initial=0)))

    return calls


def _matvec(X: Any, Y: Any | None = None) -> Any:
    return gram.matvec(X, 0 * (X if Y is None else Y)[:, 0] + 1, Y)


def _row_sums(rng: np.random.Generator, dtype: Any) -> Iterator[tuple[Any, Any, Any]]:
    for arguments, expected, allowed in _against_reference("rbf")(rng, dtype):
        yield arguments, expected.sum(axis=1), allowed.sum(axis=1)


def _max_pool_and_back(x: Any) -> Any:
    largest, places = conv.max_pool2d(x, 3, 2, 1, return_indices=True)
    return conv.max_pool2d_grad(largest, places, x.shape)


# Of convolutions: a function of arrays of these shapes, and how many terms its sums have. The sizes are such that each
# compiled algorithm takes its turn.
_CONVOLUTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = {
    "conv1d": (lambda x, w: conv.conv1d(x, w, padding=2, dilation=2), ((2, 3, 33), (5, 3, 4)), 12),
    "conv2d": (lambda x, w, b: conv.conv2d(x, w, b, stride=2), ((2, 3, 17, 33), (7, 3, 5, 5), (7,)), 76),
    "conv2d winograd": (lambda x, w: conv.conv2d(x, w, padding=1), ((2, 32, 17, 18), (33, 32, 3, 3)), 288),
    "conv2d depthwise": (lambda x, w: conv.conv2d(x, w, groups=9), ((2, 9, 9, 35), (9, 1, 3, 3)), 9),
    "conv2d_input": (lambda w, g: conv.conv2d_input((2, 3, 9, 21), w, g, stride=2), ((5, 3, 3, 3), (2, 5, 4, 10)), 20),
    "conv2d_weight": (lambda x, g: conv.conv2d_weight(x, (5, 3, 3, 3), g), ((2, 3, 9, 21), (2, 5, 7, 19)), 266),
    "conv3d": (lambda x, w: conv.conv3d(x, w, padding="same"), ((1, 3, 4, 5, 17), (5, 3, 3, 3, 3)), 81),
    "conv_transpose2d": (lambda x, w: conv.conv_transpose2d(x, w, stride=2), ((2, 3, 5, 17), (3, 4, 3, 3)), 12),
    "max_pool2d": (lambda x: conv.max_pool2d(x, 3, 2, 1), ((2, 3, 9, 35),), 1),
    "avg_pool2d": (lambda x: conv.avg_pool2d(x, 3, 2, 1), ((2, 3, 9, 35),), 9),
    "max_pool2d_grad": (_max_pool_and_back, ((2, 3, 9, 35),), 4),
    "avg_pool2d_grad": (lambda g: conv.avg_pool2d_grad(g, (2, 3, 9, 35), 3, 2, 1), ((2, 3, 5, 18),), 4),
    "convolve": (conv.convolve, ((1000,), (33,)), 33),
    "correlate": (conv.correlate, ((33, 65), (5, 7)), 35),
}

# The same of layers on groups; both algorithms take their turn.
_LAYERS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = {
    "lift_conv2d": (lambda x, w: group.lift_conv2d(x, w, padding=1), ((2, 3, 9, 9), (5, 3, 3, 3)), 27),
    "conv2d p4": (lambda x, w, b: group.conv2d(x, w, b, padding=1), ((2, 3, 4, 9, 9), (5, 3, 4, 3, 3), (5,)), 109),
    "conv2d p4m": (
        lambda x, w: group.conv2d(x, w, group="p4m", stride=2),
        ((2, 3, 8, 9, 9), (5, 3, 8, 3, 3)),
        216,
    ),
    "conv2d expand": (
        lambda x, w: group.conv2d(x, w, padding=1, algorithm="expand"),
        ((2, 8, 4, 9, 9), (5, 8, 4, 3, 3)),
        288,
    ),
    "conv2d_input": (
        lambda w, g: group.conv2d_input((2, 3, 4, 9, 9), w, g, padding=1),
        ((5, 3, 4, 3, 3), (2, 5, 4, 9, 9)),
        180,
    ),
    "conv2d_weight": (
        lambda x, g: group.conv2d_weight(x, (5, 3, 4, 3, 3), g, padding=1),
        ((2, 3, 4, 9, 9), (2, 5, 4, 9, 9)),
        648,
    ),
    "pool": (lambda x: group.pool(x, "l2"), ((2, 3, 4, 9, 9),), 4),
    "convolve": (lambda f, h: group.convolve(f, h, "p4m"), ((9, 8), (8,)), 8),
}


def _convolution(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], terms: int) -> Callable[..., Any]:
    """Check a convolution against the reference in float64."""

    def calls(rng: np.random.Generator, dtype: Any) -> Iterator[tuple[Any, Any, Any]]:
        arguments = tuple(rng.random(shape).astype(dtype) for shape in shapes)
        with _dispatch.backend("reference"):
            expected = function(*(array.astype(np.float64) for array in arguments))
        # Nothing cancels. Algorithms that transform are allowed four times the roundings of the sum, of any window.
        yield arguments, expected, np.full(expected.shape, 4 * (terms + 1) * np.finfo(dtype).eps * expected.max())

    return calls


# Shapes of the weights and of the samples, or of the patterns. The sizes are such that both algorithms take their turn.
_LEARNING: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "hebb": (lambda W, X: hebbian.hebb(W, X, 1e-3), ((17, 65), (40, 65))),
    "oja": (lambda W, X: hebbian.oja(W, X, 1e-3), ((17, 65), (40, 65))),
    "oja loop": (lambda W, X: hebbian.oja(W, X, 1e-3), ((1, 65), (40, 65))),
    "sanger": (lambda W, X: hebbian.sanger(W, X, 1e-3), ((17, 65), (40, 65))),
    "subspace": (lambda W, X: hebbian.subspace(W, X, 1e-3), ((17, 65), (40, 65))),
    "batch": (lambda W, X: hebbian.sanger(W, X, 1e-4, mode="batch"), ((17, 65), (40, 65))),
    "soft_hebb": (lambda W, X: hebbian.soft_hebb(W, X, 1e-3), ((17, 65), (40, 65))),
    "krotov": (lambda W, X: hebbian.krotov(W, X, 1e-3), ((17, 65), (40, 65))),
    "bcm": (lambda W, X: hebbian.bcm(W, X, 1e-3).W, ((17, 65), (40, 65))),
    "hopfield_weights": (hebbian.hopfield_weights, ((9, 65),)),
    "crosstalk": (hebbian.crosstalk, ((9, 65),)),
}


def _learning(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
    """Check a rule against the reference in float64."""

    def calls(rng: np.random.Generator, dtype: Any) -> Iterator[tuple[Any, Any, Any]]:
        arguments = tuple((rng.standard_normal(shape) / 8).astype(dtype) for shape in shapes)
        with _dispatch.backend("reference"):
            expected = function(*(array.astype(np.float64) for array in arguments))
        # The weights and samples are about 1 long: some roundings of the products of each sample.
        slack = 64 * len(arguments[-1]) * np.finfo(dtype).eps
        yield arguments, expected, np.full(expected.shape, slack * np.abs(expected).max())

    return calls


_IMAGES = scattering.Scattering2D(2, (12, 10), L=3)
_SIGNALS = scattering.Scattering1D(4, 100, Q=3)
_VOLUMES = scattering.HarmonicScattering3D(1, (6, 5, 9), L=1)
# Batches on both sides of what fills the lanes.
_SCATTERING: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "Scattering2D": (_IMAGES, ((70, 12, 10),)),
    "Scattering2D few": (_IMAGES, ((2, 12, 10),)),
    "Scattering2D.vjp": (_IMAGES.vjp, ((9, 12, 10), (9, 16, 3, 2))),
    "Scattering1D": (_SIGNALS, ((3, 100),)),
    "HarmonicScattering3D": (_VOLUMES, ((2, 6, 5, 9),)),
}


def _scattering(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
    """Check a transform against the reference in float64."""

    def calls(rng: np.random.Generator, dtype: Any) -> Iterator[tuple[Any, Any, Any]]:
        arguments = tuple(rng.random(shape).astype(dtype) for shape in shapes)
        with _dispatch.backend("reference"):
            expected = function(*(array.astype(np.float64) for array in arguments))
        slack = 1e-5 if dtype == np.float32 else 1e-9
        yield arguments, expected, np.full(expected.shape, slack * np.abs(expected).max())

    return calls


_CHECKS: tuple[tuple[str, Callable[..., Any], Callable[..., Any]], ...] = (
    ("gram.linear", gram.linear, _linear),
    *((f"gram.{name}", getattr(gram, name), _against_reference(name)) for name in KERNELS if name != "linear"),
    ("gram.matvec", _matvec, _row_sums),
    *((f"conv.{name}", check[0], _convolution(*check)) for name, check in _CONVOLUTIONS.items()),
    *((f"group.{name}", check[0], _convolution(*check)) for name, check in _LAYERS.items()),
    *((f"hebbian.{name}", check[0], _learning(*check)) for name, check in _LEARNING.items()),
    *((f"scattering.{name}", check[0], _scattering(*check)) for name, check in _SCATTERING.items()),
)


class _Place(NamedTuple):
    """Where the arrays of a check lie: how they come there, and how results come back."""

    name: str
    upload: Callable[[Any], Any] = np.asarray
    download: Callable[[Any], Any] = np.asarray


def _gpu() -> _Place | None:
    """Give the library in which there are arrays on a GPU."""
    extension = _dispatch.load_cuda()
    if extension is None or extension.device_count() == 0:
        return None
    try:
        cupy = import_module("cupy")
        return _Place("cupy", cupy.asarray, cupy.asnumpy)
    except ImportError:
        pass
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    return _Place("torch", lambda array: torch.from_numpy(array).cuda(), lambda tensor: tensor.cpu().numpy())


def _largest_excess(function: Callable[..., Any], calls: Iterator[tuple[Any, Any, Any]], place: _Place) -> float:
    """Give the largest error as a share of the allowed one: at most 1 is right."""
    worst = 0.0
    for arguments, expected, allowed in calls:
        error = np.abs(place.download(function(*(place.upload(array) for array in arguments))) - expected)
        if error.size:
            share = error / np.maximum(allowed, np.finfo(np.float64).tiny)
            worst = max(worst, float("inf") if np.isnan(share).any() else float(share.max()))
    return worst


def _levels() -> Iterator[tuple[str, _Place]]:
    """Set each backend and instruction set in turn, and leave things as they were."""
    core = _dispatch.core
    if core is not None:
        before = core.isa()
        try:
            for isa in core.isas():
                core.set_isa(isa)
                yield "native", _Place(isa)
                if isa == before:  # FASTDL_ISA may hold back wider ones, and for a reason
                    break
        finally:
            core.set_isa(before)
    gpu = _gpu()
    if gpu is not None:
        yield "cuda", gpu
    yield "reference", _Place("")


def run() -> int:
    """Print one line a check; return 0 if all is right, else 1."""
    failures = 0
    for backend, place in _levels():
        for name, function, make in _CHECKS:
            if backend == "reference" and make is not _linear:
                continue  # it is what the others are compared with
            for dtype in (np.float32, np.float64):
                try:
                    with _dispatch.backend(backend):
                        worst = _largest_excess(function, make(np.random.default_rng(0), dtype), place)
                    right, found = worst <= 1, f"error {worst:.2g} of the allowed"
                except Exception as error:  # whatever a broken installation raises is a finding, not the end
                    right, found = False, f"{type(error).__name__}: {error}"
                failures += not right
                print(f"{'ok' if right else 'WRONG':6}{name:32}{dtype.__name__:9}{backend:10}{place.name:10}{found}")
    if _dispatch.core is None:
        print(f"The compiled extension was not checked: {_dispatch.missing}.")
    print(f"{failures} failures" if failures else "All right.")
    return 1 if failures else 0
