"""The accuracy of what is made of kernels: a section of docs/accuracy.md. Kernels themselves are in `accuracy.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from accuracy_table import SEED, Case, largest, normal, summed
from cases import gram_formulas as formulas
from cases import wide
from cases.group import rotations_and_flips
from fastdl import gram

TITLE = "What is made of kernels"
# Kernels have tables of their own.
ELSEWHERE = tuple(formulas.KERNELS)
HOW = """\
The largest error of any entry in units of eps, as above. Samples are standard normal, 37 of them in X and 53 in Y,
for gradients 12 in each, with 3, 17 and 129 features, `offset` as above; they are not negative for chi2, and of
length 0.9 for geometric. v and grad are standard normal; sparse samples have a tenth of 129 features. diag and
distance are the worst of all 14 kernels. What is a sum of products (matvec, invariant, empirical_ntk, feature_gram,
center, hsic) is relative to the sum of the sizes of its terms, cka to that of its numerator; distance to the sizes of
K(x, x) + K(y, y) and 2 K(x, y); gradients to the sum over the other samples of the lengths of what each contributes;
softmax_matvec to the average of the sizes of the values; diag and cntk to their values. True values of gradients are
derivatives of the formulas by complex steps of 1e-40, which cancel nothing; the others are formulas in float64 for
float32, in extended precision for float64."""

KERNELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "polynomial": {},
    "sigmoid": {},
    "rbf": {},
    "laplacian": {},
    "cosine": {},
    "additive_chi2": {},
    "chi2": {"gamma": 0.1},
    "matern": {"nu": 2.5, "length_scale": 5.0},
    "geometric": {"alpha": 0.9},
    "sinc": {"omega": 1.0},
    "arc_cosine": {"order": 1},
    "nngp": {"depth": 3, "w_std": 1.5, "b_std": 0.1},
    "ntk": {"depth": 3, "w_std": 1.5, "b_std": 0.1},
}
FEATURES = (3, 17, 129)
FEW = 12
STEP = 1e-40


def samples(rng: np.random.Generator, kernel: str, rows: int, d: int, dtype: str) -> np.ndarray:
    """Samples that a kernel is defined on."""
    X = rng.standard_normal((rows, d))
    if "chi2" in kernel:
        X = np.abs(X)
    if kernel == "geometric":
        X *= 0.9 / np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(dtype)


# ---- kernels of complex samples, for derivatives ----
def relu_network(X, Y, tangent: bool, depth, w_std, b_std):
    """The recursion of nngp and ntk by the arc cosine, which unlike atan2 takes complex numbers."""
    real = X.real.dtype.type
    w, b, pi = real(w_std) ** 2, real(b_std) ** 2, np.arccos(real(-1))
    S = w * (X @ Y.T) / X.shape[1] + b
    left, right = (w * np.sum(np.square(rows), axis=1) / X.shape[1] + b for rows in (X, Y))
    T = S
    for _ in range(depth):
        product = np.multiply.outer(left, right)
        slope = (1 - np.arccos(S / np.sqrt(product)) / pi) / 2
        S = w * (np.sqrt(product - S * S) / (2 * pi) + slope * S) + b
        T = S + w * slope * T
        left, right = w * left / 2 + b, w * right / 2 + b
    return T if tangent else S


def arc_cosine(X, Y, order):
    """Of order 1."""
    assert order == 1
    pi = np.arccos(X.real.dtype.type(-1))
    lengths = np.multiply.outer(*(np.sqrt(np.sum(np.square(rows), axis=1)) for rows in (X, Y)))
    product = X @ Y.T
    theta = np.arccos(product / lengths)
    return (np.sqrt(lengths**2 - product**2) + (pi - theta) * product) / pi


def laplacian(X, Y, gamma=None):
    """Sizes of complex numbers are those of their real parts, with their signs."""
    difference = X[:, None] - Y
    total = np.sum(np.sign(difference.real) * difference, axis=-1)
    return np.exp(-(1 / X.shape[1] if gamma is None else gamma) * total)


COMPLEX: dict[str, Callable] = {
    "laplacian": laplacian,
    "arc_cosine": arc_cosine,
    "nngp": partial(relu_network, tangent=False),
    "ntk": partial(relu_network, tangent=True),
}


def slopes(kernel: str, X, Y, parameters: dict) -> np.ndarray:
    """The derivatives of K for every feature of X, of shape (n, d, m): imaginary parts of K(x + i step, y) / step."""
    n, d = X.shape
    complex_type = np.result_type(X.dtype, np.complex64)
    moved = np.repeat(X, d, axis=0).astype(complex_type)
    moved[np.arange(n * d), np.tile(np.arange(d), n)] += complex_type.type(1j) * X.dtype.type(STEP)
    K = COMPLEX.get(kernel, getattr(formulas, kernel))(moved, Y.astype(complex_type), **parameters)
    return (K.imag / X.dtype.type(STEP)).reshape(n, d, -1)


def gradients(kernel: str, X, Y, weights, parameters: dict) -> tuple[tuple, tuple]:
    """Gradients of the sum of weights times K for X, Y and gamma if there is one, and what they are relative to.

    An entry is relative to the sum over the other samples of the lengths of the vectors that are added up.
    """
    of_X, of_Y = slopes(kernel, X, Y, parameters), slopes(kernel, Y, X, parameters)
    truth = [np.einsum("ij,ifj->if", weights, of_X), np.einsum("ij,jfi->jf", weights, of_Y)]
    size = [
        np.einsum("ij,ij->i", np.abs(each), np.sqrt(np.sum(of**2, axis=1)))[:, None]
        for each, of in ((weights, of_X), (weights.T, of_Y))
    ]
    if "gamma" in formulas.KERNELS[kernel].__code__.co_varnames:
        complex_type = np.result_type(X.dtype, np.complex64).type
        gamma = complex_type(parameters.get("gamma", 1 / X.shape[1])) + complex_type(1j) * X.dtype.type(STEP)
        K = COMPLEX.get(kernel, getattr(formulas, kernel))(
            X.astype(complex_type), Y.astype(complex_type), **{**parameters, "gamma": gamma}
        )
        by_gamma = K.imag / X.dtype.type(STEP)
        truth.append(np.sum(weights * by_gamma))
        size.append(np.sum(np.abs(weights * by_gamma)))
    return tuple(truth), tuple(size)


def present(found: Any) -> tuple:
    """The gradients that there are: not all kernels have a gamma."""
    return tuple(part for part in found if part is not None)


# ---- cases ----
def of_kernels(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """What takes any kernel, for each of them."""
    for kernel, parameters in KERNELS.items():
        for d in FEATURES if kernel != "sinc" else FEATURES[:2]:
            X, Y = (samples(rng, kernel, rows, d, dtype) for rows in (37, 53))
            yield from of_one(rng, kernel, kernel, parameters, X, Y)
    apart = 0.1 / math.sqrt(2 * 17) * rng.standard_normal((90, 17))
    X, Y = np.split((1000 + apart).astype(dtype), [37])
    yield from of_one(rng, "rbf, offset", "rbf", {"gamma": 10.0}, X, Y)


def of_one(
    rng: np.random.Generator, label: str, kernel: str, parameters: dict, X: np.ndarray, Y: np.ndarray
) -> Iterator[Case]:
    """Matrix, products with it, their gradients and distances of one kernel."""
    x, y, dtype = wide(X), wide(Y), X.dtype.name
    v, grad = normal(rng, dtype, 53, 3), normal(rng, dtype, 37, 3)
    formula = getattr(formulas, kernel)
    K = formula(x, y, **parameters)
    # Kernels with terms of both signs: the size of the value itself would be that of what is left.
    sizes = formula(np.abs(x), np.abs(y), **parameters) if kernel in ("linear", "polynomial", "cosine") else np.abs(K)
    if kernel in ("sigmoid", "sinc", "arc_cosine", "nngp", "ntk"):
        sizes = np.broadcast_to(largest(K), K.shape)
    if kernel == "geometric":
        sizes = np.maximum(K, parameters["alpha"] ** 2 * (np.abs(x) @ np.abs(y).T) * K**2)
    chosen = {"kernel": kernel, **parameters}
    if kernel in ("rbf", "polynomial"):
        yield Case(f"gram, {label}", lambda: gram.gram(X, Y, **chosen), K, sizes)
    yield Case(f"matvec, {label}", lambda: gram.matvec(X, v, Y, **chosen), K @ wide(v), sizes @ np.abs(wide(v)))
    own, others = (diagonal(kernel, rows, parameters) for rows in (x, y))
    total = np.add.outer(own, others)
    where = ", offset" if "offset" in label else ""
    yield Case(f"diag{where}", lambda: gram.diag(X, **chosen), own, np.abs(own))
    truth = np.maximum(0, total - 2 * K)
    yield Case(f"distance{where}", lambda: gram.distance(X, Y, **chosen), truth, np.abs(total) + 2 * sizes)
    yield from of_gradients(label, chosen, (X[:FEW], Y[:FEW]), (v[:FEW], grad[:FEW]), (K, sizes))


def of_gradients(label: str, chosen: dict, both: tuple, vectors: tuple, matrices: tuple) -> Iterator[Case]:
    """Gradients of a matrix and of products with it, for some of the samples."""
    (X, Y), (v, grad) = both, vectors
    kernel, parameters = chosen["kernel"], {name: value for name, value in chosen.items() if name != "kernel"}
    weights = wide(grad) @ wide(v).T
    truth, size = gradients(kernel, wide(X), wide(Y), weights, parameters)
    K, sizes = (matrix[:FEW, :FEW].T for matrix in matrices)
    truth, size = (*truth[:2], K @ wide(grad), *truth[2:]), (*size[:2], sizes @ np.abs(wide(grad)), *size[2:])
    yield Case(f"matvec_vjp, {label}", lambda: present(gram.matvec_vjp(X, v, grad, Y, **chosen)), truth, size)
    rounded = weights.astype(X.dtype)
    truth, size = gradients(kernel, wide(X), wide(Y), wide(rounded), parameters)
    yield Case(f"gram_vjp, {label}", lambda: present(gram.gram_vjp(X, rounded, Y, **chosen)), truth, size)


def diagonal(kernel: str, X, parameters: dict) -> np.ndarray:
    """k(x, x), where the angle is 0: next to it the formulas of pairs know it to a root of eps only."""
    if kernel in ("nngp", "ntk"):
        w, b = (X.dtype.type(parameters[name]) ** 2 for name in ("w_std", "b_std"))
        S = T = w * np.sum(np.square(X), axis=1) / X.shape[1] + b
        for _ in range(parameters["depth"]):
            S = w * S / 2 + b
            T = S + w * T / 2
        return T if kernel == "ntk" else S
    if kernel == "arc_cosine":
        return np.sum(np.square(X), axis=1) ** parameters["order"]
    return formulas.diag(X, kernel, **parameters)


def of_groups(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Kernels that are summed over a group."""
    permutations = rotations_and_flips(17)
    X, Y = normal(rng, dtype, 37, 17), normal(rng, dtype, 53, 17)
    x, y = wide(X), wide(Y)
    for kernel in ("linear", "rbf", "laplacian"):
        options: dict[str, Any] = {"permutations": permutations, "kernel": kernel}
        truth = formulas.invariant(x, y, **options)
        size = truth if kernel != "linear" else formulas.invariant(np.abs(x), np.abs(y), **options)
        yield Case(f"invariant, {kernel}", lambda options=options: gram.invariant(X, Y, **options), truth, size)


def of_sparse(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Kernels of samples of which a tenth is stored."""
    from scipy.sparse import csr_array

    X, Y = (normal(rng, dtype, rows, 129) * (rng.random((rows, 129)) < 0.1) for rows in (37, 53))
    x, y = wide(X), wide(Y)
    for kernel in ("linear", "polynomial", "rbf", "cosine"):
        formula = formulas.KERNELS[kernel]
        truth = formula(x, y)
        size = truth if kernel == "rbf" else formula(np.abs(x), np.abs(y))
        call = partial(gram.gram, csr_array(X), csr_array(Y), kernel)
        yield Case(f"gram, {kernel}, sparse", call, truth, size)


def of_statistics(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Statistics of Gram matrices, of linear kernels and of rbf, whose entries have one sign."""
    X, Z = rng.standard_normal((83, 5)), rng.standard_normal((83, 9))
    for name, function in (("linear", formulas.linear), ("rbf", formulas.rbf)):
        K, L = (function(rows).astype(dtype) for rows in (X, np.hstack([X[:, :3], Z])))
        k, l_ = wide(K), wide(L)
        means = [np.abs(k).mean(axis=axis) for axis in (0, 1)]
        size = np.abs(k) + means[0] + means[1][:, None] + np.abs(k).mean()
        yield Case(f"center, {name}", partial(gram.center, K), formulas.center(k), size)
        for unbiased in (True, False):
            which = f"{name}, {'unbiased' if unbiased else 'biased'}"
            truth = np.asarray(formulas.hsic(k, l_, unbiased))
            size = sizes_of_terms(np.abs(k), np.abs(l_), unbiased)
            yield Case(f"hsic, {which}", partial(gram.hsic, K, L, unbiased), truth, size)
            own = [formulas.hsic(each, each, unbiased) for each in (k, l_)]
            truth = np.asarray(formulas.cka(k, l_, unbiased))
            yield Case(f"cka, {which}", partial(gram.cka, K, L, unbiased), truth, size / np.sqrt(own[0] * own[1]))


def sizes_of_terms(K, L, unbiased: bool) -> np.ndarray:
    """HSIC of sizes, with all signs +."""
    n = len(K)
    inner, outer = ((n - 2), (n - 1) * (n - 2)) if unbiased else (n, n * n)
    total = np.sum(K * L) + K.sum() * L.sum() / outer + 2 * (K.sum(axis=0) @ L.sum(axis=0)) / inner
    return total / (n * (n - 3) if unbiased else (n - 1) ** 2)


def of_features(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Gram matrices of feature maps and of Jacobians."""
    maps = normal(rng, dtype, 3, 19, 23, 21)
    yield summed("feature_gram", gram.feature_gram, formulas.feature_gram, maps)
    maps = (5 + maps).astype(dtype)
    sizes = np.abs(wide(maps)).reshape(3, 19, -1)
    sizes = sizes + sizes.mean(axis=2, keepdims=True)
    yield Case(
        "feature_gram, center",
        lambda: gram.feature_gram(maps, center=True),
        formulas.feature_gram(wide(maps), center=True),
        formulas.feature_gram(sizes),
    )
    jacobians = normal(rng, dtype, 21, 20011), normal(rng, dtype, 17, 20011)
    yield summed("empirical_ntk", gram.empirical_ntk, formulas.empirical_ntk, *jacobians)


def of_images(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Kernels of images."""
    X, Y = normal(rng, dtype, 4, 3, 7, 6), normal(rng, dtype, 3, 3, 7, 6)
    for pooling in ("mean", "flatten"):
        truth = formulas.cntk(wide(X), wide(Y), pooling=pooling)
        yield Case(f"cntk, {pooling}", partial(gram.cntk, X, Y, pooling=pooling), truth, np.abs(truth))


def of_attention(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Averages with the weights of a kernel."""
    for d in (16, 64):
        Q, K, V = normal(rng, dtype, 37, d), normal(rng, dtype, 301, d), normal(rng, dtype, 301, 5)
        wider = [wide(array) for array in (Q, K, V)]
        size = formulas.softmax_matvec(*wider[:2], np.abs(wider[2]))
        yield Case("softmax_matvec", partial(gram.softmax_matvec, Q, K, V), formulas.softmax_matvec(*wider), size)


def cases(dtype: str) -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(SEED)
    yield from of_kernels(rng, dtype)
    yield from of_groups(rng, dtype)
    if find_spec("scipy") is not None:
        yield from of_sparse(rng, dtype)
    yield from of_attention(rng, dtype)
    yield from of_images(rng, dtype)
    yield from of_statistics(rng, dtype)
    yield from of_features(rng, dtype)
