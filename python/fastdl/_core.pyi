"""The compiled extension: thin casts over the C interface of csrc/include/fastdl/fastdl.h."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

__version__: str

def build_info() -> str: ...
def isas() -> tuple[str, ...]: ...
def isa() -> str: ...
def set_isa(name: str) -> None: ...
def get_num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def set_thread_limit(n: int) -> int: ...

class Room:
    def __init__(self, size: int) -> None: ...
    def __buffer__(self, flags: int) -> memoryview: ...

_Floats = NDArray[np.floating]
_Parameters = dict[str, object]
_Sparse = tuple[NDArray[np.int64], NDArray[np.int64], _Floats]  # offsets, indices, values

# Arrays are of one dtype, float32 or float64; `out` is written.
class _Gram(ModuleType):
    @staticmethod
    def linear(X: _Floats, Y: _Floats | None, out: _Floats) -> None: ...
    @staticmethod
    def cosine(X: _Floats, Y: _Floats | None, out: _Floats) -> None: ...
    @staticmethod
    def additive_chi2(X: _Floats, Y: _Floats | None, out: _Floats) -> None: ...
    @staticmethod
    def polynomial(X: _Floats, Y: _Floats | None, degree: float, gamma: float, coef0: float, out: _Floats) -> None: ...
    @staticmethod
    def sigmoid(X: _Floats, Y: _Floats | None, gamma: float, coef0: float, out: _Floats) -> None: ...
    @staticmethod
    def rbf(X: _Floats, Y: _Floats | None, gamma: float, out: _Floats) -> None: ...
    @staticmethod
    def laplacian(X: _Floats, Y: _Floats | None, gamma: float, out: _Floats) -> None: ...
    @staticmethod
    def chi2(X: _Floats, Y: _Floats | None, gamma: float, out: _Floats) -> None: ...
    @staticmethod
    def matern(X: _Floats, Y: _Floats | None, length_scale: float | _Floats, nu: float, out: _Floats) -> None: ...
    @staticmethod
    def geometric(X: _Floats, Y: _Floats | None, alpha: float, out: _Floats) -> None: ...
    @staticmethod
    def sinc(X: _Floats, Y: _Floats | None, omega: float, out: _Floats) -> None: ...
    @staticmethod
    def arc_cosine(X: _Floats, Y: _Floats | None, order: int, out: _Floats) -> None: ...
    @staticmethod
    def nngp(
        X: _Floats, Y: _Floats | None, depth: int, w_std: float, b_std: float, normalize: bool, out: _Floats
    ) -> None: ...
    @staticmethod
    def ntk(
        X: _Floats, Y: _Floats | None, depth: int, w_std: float, b_std: float, normalize: bool, out: _Floats
    ) -> None: ...
    @staticmethod
    def part(X: _Floats, row: int, column: int, kernel: str, parameters: _Parameters, out: _Floats) -> None: ...
    @staticmethod
    def diag(X: _Floats, kernel: str, parameters: _Parameters, out: _Floats) -> None: ...
    @staticmethod
    def matvec(
        X: _Floats, v: _Floats, Y: _Floats | None, kernel: str, parameters: _Parameters, out: _Floats
    ) -> None: ...
    @staticmethod
    def softmax_matvec(Q: _Floats, K: _Floats, V: _Floats, scale: float, out: _Floats) -> None: ...
    @staticmethod
    def distance(X: _Floats, Y: _Floats | None, kernel: str, parameters: _Parameters, out: _Floats) -> None: ...
    @staticmethod
    def invariant(
        X: _Floats,
        Y: _Floats | None,
        permutations: NDArray[np.int64],
        kernel: str,
        parameters: _Parameters,
        group: bool,
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def center(K: _Floats, out: _Floats) -> None: ...
    @staticmethod
    def hsic(K: _Floats, L: _Floats, unbiased: bool, out: _Floats) -> None: ...
    @staticmethod
    def cka(K: _Floats, L: _Floats, unbiased: bool, out: _Floats) -> None: ...
    @staticmethod
    def feature_gram(x: _Floats, center: bool, out: _Floats) -> None: ...
    @staticmethod
    def empirical_ntk(J1: _Floats, J2: _Floats | None, out: _Floats) -> None: ...
    @staticmethod
    def cntk(X: _Floats, Y: _Floats | None, depth: int, kernel_size: int, pooling: str, out: _Floats) -> None: ...
    @staticmethod
    def sparse(
        X: _Sparse,
        Y_transposed: _Sparse,
        shape: tuple[int, int, int],
        kernel: str,
        parameters: _Parameters,
        symmetric: bool,
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def gram_vjp(
        X: _Floats,
        grad: _Floats,
        Y: _Floats | None,
        kernel: str,
        parameters: _Parameters,
        dX: _Floats,
        dY: _Floats | None,
    ) -> float: ...
    @staticmethod
    def matvec_vjp(
        X: _Floats,
        v: _Floats,
        grad: _Floats,
        Y: _Floats | None,
        kernel: str,
        parameters: _Parameters,
        dX: _Floats,
        dY: _Floats | None,
        dv: _Floats,
    ) -> float: ...

gram: _Gram

# Of tests and measurements alone.
class _Fft(ModuleType):
    @staticmethod
    def complex(x: NDArray[np.complexfloating], rank: int, inverse: bool, out: NDArray[np.complexfloating]) -> None: ...
    @staticmethod
    def real(x: _Floats, rank: int, out: NDArray[np.complexfloating]) -> None: ...

fft: _Fft

_Sizes = tuple[int, ...]  # a number for every axis
_Places = NDArray[np.int64]

class _Filters: ...  # made ready for many calls, of one dtype

# The number of axes is that of the arrays: the functions for 2 and 3 axes are the same as for one.
class _Conv(ModuleType):
    @staticmethod
    def conv1d(
        x: _Floats,
        w: _Floats,
        bias: _Floats | None,
        stride: _Sizes,
        lower: _Sizes,
        upper: _Sizes,
        dilation: _Sizes,
        groups: int,
        padding_mode: str,
        activation: str | None,
        algorithm: str | _Filters,
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def filters(
        w: _Floats,
        input: _Sizes,
        output: _Sizes,
        stride: _Sizes,
        lower: _Sizes,
        dilation: _Sizes,
        groups: int,
        algorithm: str,
    ) -> _Filters: ...
    @staticmethod
    def conv_transpose1d(
        x: _Floats,
        w: _Floats,
        bias: _Floats | None,
        stride: _Sizes,
        lower: _Sizes,
        dilation: _Sizes,
        groups: int,
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def conv1d_input(
        w: _Floats, grad: _Floats, stride: _Sizes, lower: _Sizes, dilation: _Sizes, groups: int, out: _Floats
    ) -> None: ...
    @staticmethod
    def conv1d_weight(
        x: _Floats, grad: _Floats, stride: _Sizes, lower: _Sizes, dilation: _Sizes, groups: int, out: _Floats
    ) -> None: ...
    @staticmethod
    def max_pool1d(
        x: _Floats, kernel: _Sizes, stride: _Sizes, lower: _Sizes, indices: _Places | None, out: _Floats
    ) -> None: ...
    @staticmethod
    def avg_pool1d(
        x: _Floats, kernel: _Sizes, stride: _Sizes, lower: _Sizes, padding_counts: bool, out: _Floats
    ) -> None: ...
    @staticmethod
    def max_pool1d_grad(grad: _Floats, indices: _Places, out: _Floats) -> None: ...
    @staticmethod
    def avg_pool1d_grad(
        grad: _Floats, kernel: _Sizes, stride: _Sizes, lower: _Sizes, padding_counts: bool, out: _Floats
    ) -> None: ...

    conv2d = conv1d
    conv_transpose2d = conv_transpose1d
    conv2d_input = conv1d_input
    conv2d_weight = conv1d_weight
    max_pool2d = max_pool1d
    avg_pool2d = avg_pool1d
    max_pool2d_grad = max_pool1d_grad
    avg_pool2d_grad = avg_pool1d_grad

    conv3d = conv1d
    conv_transpose3d = conv_transpose1d
    conv3d_input = conv1d_input
    conv3d_weight = conv1d_weight
    max_pool3d = max_pool1d
    avg_pool3d = avg_pool1d
    max_pool3d_grad = max_pool1d_grad
    avg_pool3d_grad = avg_pool1d_grad
    @staticmethod
    def convolve(f: _Floats, h: _Floats, mode: str, method: str, out: _Floats) -> None: ...
    @staticmethod
    def correlate(f: _Floats, h: _Floats, mode: str, method: str, out: _Floats) -> None: ...

conv: _Conv

class _Group(ModuleType):
    @staticmethod
    def conv2d(
        x: _Floats,
        w: _Floats,
        bias: _Floats | None,
        group: str,
        stride: _Sizes,
        lower: _Sizes,
        upper: _Sizes,
        activation: str | None,
        algorithm: str,
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def conv2d_input(
        w: _Floats, grad: _Floats, group: str, stride: _Sizes, lower: _Sizes, algorithm: str, out: _Floats
    ) -> None: ...
    @staticmethod
    def conv2d_weight(
        x: _Floats, grad: _Floats, group: str, stride: _Sizes, lower: _Sizes, algorithm: str, out: _Floats
    ) -> None: ...

    lift_conv2d = conv2d
    lift_conv2d_input = conv2d_input
    lift_conv2d_weight = conv2d_weight
    @staticmethod
    def expand_filters(w: _Floats, group: str, lift: bool, out: _Floats) -> None: ...
    @staticmethod
    def pool(x: _Floats, mode: str, out: _Floats) -> None: ...
    @staticmethod
    def convolve(f: _Floats, h: _Floats, quotient: _Places, out: _Floats) -> None: ...
    @staticmethod
    def signature(
        x: _Floats,
        templates: _Floats,
        permutations: _Places,
        thresholds: NDArray[np.float64],
        powers: _Sizes,
        nonlinearity: str,
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def orbit_regularizer(W: _Floats, sigma: float, gradient: _Floats) -> float: ...

group: _Group

class _Hebbian(ModuleType):
    @staticmethod
    def hebb(W: _Floats, X: _Floats, lr: _Floats, mode: str, algorithm: str, normalize: bool, out: _Floats) -> None: ...
    @staticmethod
    def oja(W: _Floats, X: _Floats, lr: _Floats, mode: str, algorithm: str, out: _Floats) -> None: ...

    sanger = oja
    subspace = oja
    @staticmethod
    def bcm(
        W: _Floats, X: _Floats, theta: _Floats, lr: _Floats, tau: float, out: _Floats, thresholds: _Floats
    ) -> None: ...
    @staticmethod
    def krotov(W: _Floats, X: _Floats, lr: _Floats, p: float, delta: float, rank: int, out: _Floats) -> None: ...
    @staticmethod
    def soft_hebb(W: _Floats, X: _Floats, lr: _Floats, temperature: float, out: _Floats) -> None: ...
    @staticmethod
    def foldiak(
        W: _Floats,
        X: _Floats,
        lateral: _Floats,
        threshold: _Floats,
        lr: _Floats,
        lateral_lr: float,
        threshold_lr: float,
        activity: float,
        steepness: float,
        steps: int,
        out: _Floats,
        after: _Floats,
        thresholds: _Floats,
    ) -> None: ...
    @staticmethod
    def ccipca(V: _Floats, X: _Floats, count: int, amnesic: float, out: _Floats) -> None: ...
    @staticmethod
    def center(X: _Floats, mean: NDArray[np.float64], count: int, after: NDArray[np.float64], out: _Floats) -> None: ...
    @staticmethod
    def hopfield_weights(P: _Floats, zero_diagonal: bool, out: _Floats) -> None: ...
    @staticmethod
    def hopfield_energy(W: _Floats, s: _Floats, b: _Floats | None, out: _Floats) -> None: ...
    @staticmethod
    def hopfield_recall(
        W: _Floats, s: _Floats, b: _Floats | None, mode: str, max_sweeps: int, orders: _Places, out: _Floats
    ) -> None: ...
    @staticmethod
    def dense_hopfield(
        P: _Floats, s: _Floats, degree: float, mode: str, max_sweeps: int, orders: _Places, out: _Floats
    ) -> None: ...
    @staticmethod
    def dense_hopfield_energy(P: _Floats, s: _Floats, degree: float, out: _Floats) -> None: ...
    @staticmethod
    def crosstalk(P: _Floats, out: _Floats) -> None: ...

hebbian: _Hebbian

_Axis = tuple[NDArray[np.float64], int, int, int]
_Scales = tuple[int, list[NDArray[np.float64]], list[int], list[NDArray[np.float64]], list[int], list[int]]

class _Plan:
    def __init__(
        self,
        height: int,
        width: int,
        place_y: _Places,
        place_x: _Places,
        channels: int,
        levels: list[tuple[_Axis, _Axis]],
        groups: list[_Scales],
        give: Callable[[int, bool, int], _Floats],
    ) -> None: ...
    def forward(self, x: _Floats, out: _Floats) -> None: ...
    def vjp(self, x: _Floats, grad: _Floats, out: _Floats) -> None: ...
    def moduli(
        self, x: _Floats, parts: list[tuple[int, int, int, int]], level: list[int], out: list[_Floats]
    ) -> None: ...
    def moduli_vjp(
        self,
        x: _Floats,
        grad: list[_Floats],
        parts: list[tuple[int, int, int, int]],
        level: list[int],
        out: _Floats,
    ) -> None: ...

class _RotoPlan:
    def __init__(
        self,
        height: int,
        width: int,
        place_y: _Places,
        place_x: _Places,
        order: int,
        levels: list[tuple[_Axis, _Axis]],
        phase_y: NDArray[np.complex128],
        phase_x: NDArray[np.complex128],
        first: NDArray[np.float64],
        second: list[NDArray[np.float64]],
        angular: NDArray[np.complex128],
    ) -> None: ...
    def forward(self, x: _Floats, out: _Floats) -> None: ...
    def vjp(self, x: _Floats, grad: _Floats, out: _Floats) -> None: ...

class _Scattering(ModuleType):
    PlanF32: type[_Plan]
    PlanF64: type[_Plan]
    RotoPlanF32: type[_RotoPlan]
    RotoPlanF64: type[_RotoPlan]
    @staticmethod
    def scattering1d(x: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def scattering2d(x: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def moments1d(x: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def moments2d(x: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def scattering1d_vjp(x: _Floats, grad: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def scattering2d_vjp(x: _Floats, grad: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def moments1d_vjp(x: _Floats, grad: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def moments2d_vjp(x: _Floats, grad: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def wavelet_transform2d(
        x: _Floats, low: NDArray[np.float64], high: NDArray[np.float64], approximation: _Floats, details: list[_Floats]
    ) -> None: ...
    @staticmethod
    def inverse_wavelet_transform2d(
        approximation: _Floats,
        details: list[_Floats],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def roto(x: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def roto_vjp(x: _Floats, grad: _Floats, plan: object, out: _Floats) -> None: ...
    @staticmethod
    def harmonic(
        x: _Floats,
        filters: list[NDArray[np.complexfloating]],
        size: list[int],
        order: int,
        powers: list[float],
        out: _Floats,
    ) -> None: ...
    @staticmethod
    def harmonic_vjp(
        x: _Floats,
        grad: _Floats,
        filters: list[NDArray[np.complexfloating]],
        size: list[int],
        order: int,
        powers: list[float],
        out: _Floats,
    ) -> None: ...

scattering: _Scattering
