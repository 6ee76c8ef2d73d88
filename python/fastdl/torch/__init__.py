"""PyTorch: the functions of fastdl with gradients, and modules over them.

Functions have the names and arguments of those in `fastdl.conv`, `fastdl.group`, `fastdl.scattering` and `fastdl.gram`;
`fastdl.group.conv2d` and `fastdl.group.convolve` are `group_conv2d` and `group_convolve` here. Tensors come in and go
out without a copy.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"fastdl.torch needs PyTorch, which cannot be imported: {error}. "
        "To have it, run pip install 'fastdl-kernels[torch]'"
    ) from error

from fastdl.torch._attention import softmax_matvec
from fastdl.torch._conv import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from fastdl.torch._gram import diag, gram, matvec
from fastdl.torch._gram_module import Gram
from fastdl.torch._group import act, group_conv2d, lift_conv2d, pool, se2_conv2d, se2_lift_conv2d
from fastdl.torch._group_layers import (
    GroupConv2d,
    GroupPool,
    LiftConv2d,
    PermutationLayer,
    SE2Conv2d,
    SE2LiftConv2d,
    SetPool,
)
from fastdl.torch._kernels import (
    additive_chi2,
    arc_cosine,
    chi2,
    cosine,
    geometric,
    laplacian,
    linear,
    matern,
    nngp,
    ntk,
    polynomial,
    rbf,
    sigmoid,
    sinc,
)
from fastdl.torch._layers import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from fastdl.torch._orbits import average, group_convolve, orbit_regularizer, permutation_layer, set_pool
from fastdl.torch._pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from fastdl.torch._scattering import (
    HarmonicScattering3D,
    RotoTranslationScattering2D,
    Scattering1D,
    Scattering2D,
    inverse_wavelet_transform2d,
    wavelet_transform2d,
)
from fastdl.torch._statistics import center, cka, distance, empirical_ntk, feature_gram, hsic, invariant

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Gram",
    "GroupConv2d",
    "GroupPool",
    "HarmonicScattering3D",
    "LiftConv2d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "PermutationLayer",
    "RotoTranslationScattering2D",
    "SE2Conv2d",
    "SE2LiftConv2d",
    "Scattering1D",
    "Scattering2D",
    "SetPool",
    "act",
    "additive_chi2",
    "arc_cosine",
    "average",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "center",
    "chi2",
    "cka",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine",
    "diag",
    "distance",
    "empirical_ntk",
    "feature_gram",
    "geometric",
    "gram",
    "group_conv2d",
    "group_convolve",
    "hsic",
    "invariant",
    "inverse_wavelet_transform2d",
    "laplacian",
    "lift_conv2d",
    "linear",
    "matern",
    "matvec",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "nngp",
    "ntk",
    "orbit_regularizer",
    "permutation_layer",
    "polynomial",
    "pool",
    "rbf",
    "se2_conv2d",
    "se2_lift_conv2d",
    "set_pool",
    "sigmoid",
    "sinc",
    "softmax_matvec",
    "wavelet_transform2d",
]
