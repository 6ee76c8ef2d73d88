"""Who fastdl is measured against, and how each of them is called in its fastest documented way.

A rival is a maker: it takes the inputs of a case and gives a call without arguments. What a user would do once is
done by the maker; what a user would do every time is done by the call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import fastdl
import foreign
import loops_conv
import loops_gram
import loops_group
import loops_hebbian
import loops_scattering
import rivals_conv
import rivals_e2cnn
import rivals_fft
import rivals_group
import rivals_hebbian
import rivals_kymatio
import rivals_scattering
import rivals_torch

Call = Callable[[], Any]
Maker = Callable[..., Call]


# ---- NumPy ----
def numpy_linear(X: np.ndarray, Y: np.ndarray | None = None) -> Call:
    """Take the plain product; for X @ X.T NumPy itself computes one triangle only (syrk)."""
    other = X if Y is None else Y
    return lambda: X @ other.T


def numpy_empirical_ntk(J1: np.ndarray) -> Call:
    return numpy_linear(J1)


def numpy_sinc(X: np.ndarray, Y: np.ndarray, omega: float) -> Call:
    """Multiply a matrix of np.sinc for each feature into the result."""
    scale = X.dtype.type(omega / np.pi)

    def sinc() -> np.ndarray:
        K = np.full((X.shape[0], Y.shape[0]), scale ** X.shape[1], X.dtype)
        for x, y in zip(X.T, Y.T, strict=True):
            K *= np.sinc(scale * np.subtract.outer(x, y))
        return K

    return sinc


def numpy_formula(name: str, **inputs: Any) -> Call:
    """The formula as it stands in the cases: where NumPy has no faster way of writing it."""
    from cases import gram_formulas

    return partial(getattr(gram_formulas, name), **inputs)


def numpy_diag(X: np.ndarray, kernel: str) -> Call:
    if kernel != "polynomial":
        raise ValueError(f"expected the kernel polynomial, got {kernel}")
    gamma = X.dtype.type(1 / X.shape[1])
    return lambda: (gamma * np.einsum("ij,ij->i", X, X) + X.dtype.type(1)) ** 3


def numpy_group_convolve(f: np.ndarray, h: np.ndarray, group: Any) -> Call:
    """Multiply with the matrix h(w⁻¹u), which is gathered in every call."""
    from cases import group_formulas

    return partial(group_formulas.convolve, f, h, group)


# ---- scikit-learn ----
def _sklearn() -> None:
    """Turn its checks off, as its guide to speed has it."""
    import sklearn

    sklearn.set_config(assume_finite=True, skip_parameter_validation=True)


def sklearn_pairwise(name: str, X: np.ndarray, Y: np.ndarray | None = None, **parameters: Any) -> Call:
    from sklearn.metrics import pairwise

    _sklearn()
    function = getattr(pairwise, name)
    return lambda: function(X, Y, **parameters)


def sklearn_gram(X: np.ndarray, Y: np.ndarray | None = None, kernel: str = "rbf", **parameters: Any) -> Call:
    return sklearn_pairwise("pairwise_kernels", X, Y, metric=kernel, **parameters)


def sklearn_matern(X: np.ndarray, Y: np.ndarray | None = None, length_scale: float = 1.0, nu: float = 1.5) -> Call:
    from sklearn.gaussian_process.kernels import Matern

    _sklearn()
    kernel = Matern(length_scale, nu=nu)
    return lambda: kernel(X, Y)


# ---- SciPy ----
def scipy_signal(name: str, f: np.ndarray, h: np.ndarray) -> Call:
    """Let it choose between the sum and transforms, as `method="auto"` does; transforms with as many threads as we."""
    from scipy import fft, signal

    function, threads = getattr(signal, name), fastdl.get_num_threads()

    def call() -> np.ndarray:
        with fft.set_workers(threads):
            return function(f, h)

    return call


def scipy_overlap_add_correlate(f: np.ndarray, h: np.ndarray) -> Call:
    return scipy_signal("oaconvolve", f, np.flip(h))


# ---- KeOps ----
def _keops_rbf(X: Any, Y: Any, gamma: Any) -> Any:
    from pykeops.torch import LazyTensor

    return (-gamma * LazyTensor(X[:, None, :]).sqdist(LazyTensor(Y[None, :, :]))).exp()


def keops_matvec(X: np.ndarray, v: np.ndarray) -> Call:
    """Reduce a LazyTensor. It compiles itself at the first call, with `KEOPS_FLAGS`."""
    import torch

    torch.set_grad_enabled(False)
    x, vector = torch.from_numpy(X), torch.from_numpy(v)
    K = _keops_rbf(x, x, 1 / X.shape[1])
    return lambda: K @ vector


# KeOps compiles for any processor and with strict arithmetic unless told otherwise by the compiler's usual variable;
# told so it takes 0.4 of the time, which is the time to beat. `-march=native` alone changes nothing.
KEOPS_FLAGS = "-march=native -ffast-math"


# ---- the table ----
def _rival(name: str, maker: Maker) -> tuple[str, str, Maker]:
    # The first word is the library, what follows the way it is called.
    library = name.split()[0]
    return name, "pykeops" if library == "keops" else library, maker


def _rivals(makers: dict[str, Maker]) -> tuple[tuple[str, str, Maker], ...]:
    return tuple(_rival(name, maker) for name, maker in makers.items())


def _torch(name: str) -> tuple[str, str, Maker]:
    return _rival("torch", getattr(rivals_torch, name))


def _sklearn_kernel(name: str) -> tuple[str, str, Maker]:
    return _rival("sklearn", partial(sklearn_pairwise, name))


def _torch_layouts(name: str) -> tuple[tuple[str, str, Maker], ...]:
    maker = getattr(rivals_torch, name)
    layouts = {"torch": "contiguous_format", "torch nhwc": "channels_last"}
    return tuple(_rival(rival, partial(maker, layout)) for rival, layout in layouts.items())


def _formula(name: str) -> tuple[str, str, Maker]:
    return _rival("numpy", partial(numpy_formula, name))


def _hebbian_formula(name: str) -> tuple[str, str, Maker]:
    return _rival("numpy", partial(rivals_hebbian.numpy_formula, name))


# By function of fastdl: name in the tables, module that must be there, maker.
RIVALS: dict[str, tuple[tuple[str, str, Maker], ...]] = {
    "gram.linear": (_rival("numpy", numpy_linear), _torch("linear"), _sklearn_kernel("linear_kernel")),
    "gram.polynomial": (_torch("polynomial"), _sklearn_kernel("polynomial_kernel")),
    "gram.sigmoid": (_torch("sigmoid"), _sklearn_kernel("sigmoid_kernel")),
    "gram.rbf": (_torch("rbf"), _sklearn_kernel("rbf_kernel")),
    "gram.laplacian": (_torch("laplacian"), _sklearn_kernel("laplacian_kernel")),
    "gram.cosine": (_torch("cosine"), _sklearn_kernel("cosine_similarity")),
    "gram.additive_chi2": (_sklearn_kernel("additive_chi2_kernel"),),
    "gram.chi2": (_sklearn_kernel("chi2_kernel"),),
    "gram.matern": (_torch("matern"), _rival("sklearn", sklearn_matern)),
    "gram.geometric": (_torch("geometric"),),
    "gram.sinc": (_rival("numpy", numpy_sinc), _torch("sinc")),
    "gram.arc_cosine": (_torch("arc_cosine"),),
    "gram.nngp": (_torch("nngp"),),
    "gram.ntk": (_torch("ntk"),),
    "gram.cntk": (_formula("cntk"),),
    "gram.matvec": (_torch("matvec"), _rival("keops", keops_matvec)),
    "gram.gram_vjp": (_torch("gram_vjp"),),
    "gram.matvec_vjp": (_torch("matvec_vjp"),),
    "gram.softmax_matvec": (_torch("softmax_matvec"),),
    "gram.diag": (_rival("numpy", numpy_diag),),
    "gram.gram": (_torch("gram"), _rival("sklearn", sklearn_gram)),
    "gram.distance": (_torch("distance"),),
    "gram.invariant": (_torch("invariant"),),
    "gram.center": (_formula("center"), _torch("center")),
    "gram.hsic": (_formula("hsic"), _torch("hsic")),
    "gram.cka": (_formula("cka"), _torch("cka")),
    "gram.feature_gram": (_formula("feature_gram"), _torch("feature_gram")),
    "gram.empirical_ntk": (_rival("numpy", numpy_empirical_ntk), _torch("empirical_ntk")),
    **{
        f"hebbian.{name}": (
            _rival("numpy", partial(rivals_hebbian.numpy_learn, name)),
            *((_rival("numpy projected", rivals_hebbian.numpy_projected),) if name == "subspace" else ()),
            _rival("torch", partial(rivals_hebbian.torch_learn, name)),
        )
        for name in ("oja", "sanger", "subspace")
    },
    **{
        f"hebbian.{name}": tuple(
            _rival(library, getattr(rivals_hebbian, f"{library}_{name}")) for library in ("numpy", "torch")
        )
        for name in ("hebb", "bcm", "krotov", "soft_hebb")
    },
    **{
        f"hebbian.{name}": (_hebbian_formula(name), _rival("torch", getattr(rivals_hebbian, f"torch_{name}")))
        for name in ("hopfield_weights", "hopfield_energy", "crosstalk", "dense_hopfield_energy", "modern_hopfield")
    },
    **{f"hebbian.{name}": (_hebbian_formula(name),) for name in ("foldiak", "hopfield_recall", "dense_hopfield")},
    **{
        f"hebbian.{name}": (_rival("scipy", getattr(rivals_hebbian, f"scipy_{name}")),)
        for name in ("flip_probability", "capacity")
    },
    "hebbian.ccipca": (_rival("numpy", rivals_hebbian.numpy_ccipca),),
    "hebbian.HebbianPCA": (_rival("numpy", rivals_hebbian.numpy_fit),),
    "hebbian.HebbianPCA_partial_fit": (_rival("numpy", rivals_hebbian.numpy_partial_fit),),
    "hebbian.HebbianPCA_fit_transform": (_rival("numpy", rivals_hebbian.numpy_fit_transform),),
    **{
        f"hebbian.HebbianPCA_{name}": (
            _hebbian_formula(f"HebbianPCA_{name}"),
            _rival("sklearn", partial(rivals_hebbian.sklearn_pca, name)),
        )
        for name in ("transform", "inverse_transform")
    },
    **{
        f"scattering.{name}": tuple(
            _rival(f"kymatio {library}", partial(rivals_kymatio.transform, library, name))
            for library in ("torch", "numpy")
        )
        for name in ("Scattering1D", "Scattering2D", "HarmonicScattering3D")
    },
    **{
        f"scattering.{name}_vjp": (_rival("kymatio torch", partial(rivals_kymatio.gradient, name)),)
        for name in ("Scattering1D", "Scattering2D", "HarmonicScattering3D")
    },
    "scattering.HarmonicScattering3D_moments": tuple(
        _rival(f"kymatio {library}", partial(rivals_kymatio.volume_moments, library)) for library in ("torch", "numpy")
    ),
    "scattering.HarmonicScattering3D_moments_vjp": (_rival("kymatio torch", rivals_kymatio.volume_moments_gradient),),
    **{
        f"scattering.{name}_{method}": (_rival("numpy", partial(rivals_scattering.numpy_moments, name)),)
        for name in ("Scattering1D", "Scattering2D")
        for method in ("moments", "moments_vjp")
    },
    **{
        f"scattering.RotoTranslationScattering2D{method}": (
            _rival("numpy", partial(rivals_scattering.numpy_roto, "moments" in method)),
        )
        for method in ("", "_vjp", "_moments", "_moments_vjp")
    },
    **{
        f"scattering.{name}": (
            _rival("numpy", partial(rivals_scattering.numpy_wavelets, name)),
            _rival("torch", getattr(rivals_scattering, f"torch_{name}")),
        )
        for name in ("wavelet_transform2d", "inverse_wavelet_transform2d")
    },
    **{
        f"fft.{name}": (_rival("scipy", rivals_fft.scipy_complex), _rival("torch", rivals_fft.torch_complex))
        for name in ("batched", "single", "images", "volumes")
    },
    "fft.real": (_rival("scipy", rivals_fft.scipy_real), _rival("torch", rivals_fft.torch_real)),
    **{f"conv.{name}": _torch_layouts(name) for name in ("conv2d", "conv2d_input", "conv2d_weight")},
    **{f"conv.{name}": _rivals(makers) for name, makers in rivals_conv.MAKERS.items()},
    **{f"group.{name}": _rivals(makers) for name, makers in rivals_group.MAKERS.items()},
    **{
        f"group.{lift}{name}": _torch_layouts(f"group_{name}")
        for lift in ("", "lift_")
        for name in ("conv2d", "conv2d_input", "conv2d_weight")
    },
    "group.conv2d": (*_torch_layouts("group_conv2d"), _rival("e2cnn", rivals_e2cnn.conv2d)),
    "group.convolve": (_rival("numpy", numpy_group_convolve), _torch("group_convolve")),
    "group.signature": (_torch("group_signature"),),
    "conv.convolve": (
        _rival("scipy", partial(scipy_signal, "convolve")),
        _rival("scipy oaconvolve", partial(scipy_signal, "oaconvolve")),
    ),
    "conv.correlate": (
        _rival("scipy", partial(scipy_signal, "correlate")),
        _rival("scipy oaconvolve", scipy_overlap_add_correlate),
    ),
}

# By function: who lives in another interpreter.
FOREIGN: dict[str, tuple[str, ...]] = {f"gram.{name}": ("neural-tangents",) for name in ("nngp", "ntk", "cntk")}

# By function: the same as a loop over lists.
PYTHON_LOOPS: dict[str, Maker] = {
    **loops_gram.LOOPS,
    **loops_conv.LOOPS,
    **loops_group.LOOPS,
    **loops_hebbian.LOOPS,
    **loops_scattering.LOOPS,
}


def installed(function: str) -> dict[str, Maker]:
    """The rivals of a function that this machine has."""
    here = {name: maker for name, module, maker in RIVALS.get(function, ()) if find_spec(module) is not None}
    for name in FOREIGN.get(function, ()):
        if foreign.version(name) is not None:
            _, _, short = function.partition(".")
            here[name] = lambda name=name, short=short, **inputs: foreign.ForeignCall(name, short, inputs)
    return here
