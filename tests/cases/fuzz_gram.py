"""Gram matrices on arrays and parameters at random: both backends agree, on every instruction set."""

import math

import numpy as np
import pytest

from cases import fuzz
from cases import gram as kernels
from cases.fuzz import Trial, any_not_finite, finite
from cases.fuzz_draw import FINITE_KINDS, LARGEST
from cases.gram_formulas import growth
from cases.gram_gradients import gradient_tolerance
from fastdl import gram

LARGE = LARGEST
WORK = 12_000  # elements of all differences of a pair of samples

# Kernels of angles, of which Inf has none: it gives NaN or Inf.
ANGLES = ("arc_cosine", "nngp", "ntk")


# ---- kernels and their parameters ----
def parameters(draw, name, d):
    """Parameters within the range that the bounds of `cases.gram` are for."""
    options = {}
    if name in ("polynomial", "sigmoid", "rbf", "laplacian", "chi2") and draw.chance(60):
        signed = name in ("polynomial", "sigmoid")
        options["gamma"] = draw.number(-2 if signed else 0.0625, 2)
        if name == "rbf" and draw.chance(15):
            options["gamma"] = 0
    if name in ("polynomial", "sigmoid") and draw.chance(60):
        options["coef0"] = draw.number(-2, 2)
    if name == "polynomial" and draw.chance(60):
        options["degree"] = draw.one_of((1, 2, 3, 4, 2.5, 7, 1.0))
    if name == "matern":
        if draw.chance(70):
            options["nu"] = draw.one_of((0.5, 1.5, 2.5, math.inf, 0.75, 3.0))
        if draw.chance(70):
            scale = draw.one_of(("one", "each"))
            options["length_scale"] = draw.number(0.25, 4) if scale == "one" else draw.rng.integers(1, 8, d) / 4.0
    if name == "geometric" and draw.chance(60):
        options["alpha"] = draw.number(0.0625, 0.96875)
    if name == "sinc" and draw.chance(60):
        options["omega"] = draw.number(0.125, 4)
    if name == "arc_cosine":
        options["order"] = draw.one_of((0, 1, 2))
    if name in ("nngp", "ntk"):
        options["depth"] = draw.integer(0, 4)
        options["w_std"] = draw.one_of((0.0, 0.5, 1.0, 1.40625))
        options["b_std"] = draw.one_of((0.0, 0.25, 1.0))
        options["normalize"] = draw.chance(50)
    if draw.chance(3):
        options[draw.one_of(("gamma", "degree", "order", "nu", "depth", "omega"))] = draw.one_of(
            (-1.0, 0, "x", math.nan)
        )
    return options


def samples(draw, name, rows, d):
    """Samples that a kernel is defined for, mostly."""
    values = draw.values((rows, d))
    if draw.chance(15):
        values = values + 100  # all far from the origin
    if rows > 1 and draw.chance(30):
        values[draw.rng.integers(rows)] = values[draw.rng.integers(rows)]
    if name in ("chi2", "additive_chi2") and not draw.chance(5):
        values = np.abs(values)
    if name == "geometric" and not draw.chance(8):
        largest = np.maximum(np.abs(finite(values)).max(axis=1, keepdims=True, initial=0), 1)
        lengths = largest * np.sqrt(np.sum(np.square(finite(values) / largest), axis=1, keepdims=True))
        values = values * (0.95 / np.maximum(lengths, 0.95))
    return draw.array((rows, d), values=values)


def pair(draw, name, work=WORK):
    """X, and Y unless it is left out."""
    n, m, d = draw.extents(3, work)
    X = samples(draw, name, n, d)
    way = draw.one_of(("other", "other", "none", "same"))
    return X, X if way == "same" else None if way == "none" else samples(draw, name, m, d)


def typed(eps, *arrays):
    """Give arrays in the dtype of the result, from which the bounds of `cases` take the unit of rounding."""
    dtype = np.float32 if eps > 1e-10 else np.float64
    return [None if array is None else array.astype(dtype) for array in arrays]


def tolerance(name, eps, X, Y, options):
    """Bound the error of K, in places without limits: where a power of a negative base may or may not be NaN."""
    if name == "chi2":
        options = {"gamma": 1.0, **options}
    first, second = typed(eps, X, Y)
    if name == "matern" and options.get("nu", 1.5) not in (0.5, 1.5, 2.5, math.inf):
        # The reference computes them on both backends.
        return np.full((len(X), len(X if Y is None else Y)), 64 * eps)
    bound = kernels.kernel_tolerance(name, first, second, **options)
    if name == "polynomial" and options.get("degree", 3) % 1:
        other = X if Y is None else Y
        gamma = options.get("gamma")
        gamma = 1 / max(1, X.shape[1]) if gamma is None else gamma
        coef0 = options.get("coef0", 1)
        base = gamma * (X @ other.T) + coef0
        error = (X.shape[1] + 4) * eps * (abs(gamma) * (np.abs(X) @ np.abs(other).T) + abs(coef0))
        bound = np.where(np.abs(base) <= error, math.inf, bound)
    return np.nan_to_num(bound.astype(float), nan=math.inf)


def kernel_bound(name, options):
    def bound(values, expected, eps):
        return [tolerance(name, eps, values["X"], values.get("Y"), options)]

    return bound


def kernel_trial(name):
    def make(draw):
        X, Y = pair(draw, name)
        options = parameters(draw, name, X.shape[1])
        function = getattr(gram, name)
        if name in ("linear", "polynomial", "rbf", "cosine") and draw.kind in FINITE_KINDS and draw.chance(15):
            sparse = pytest.importorskip("scipy.sparse")
            X = sparse.csr_array(X.astype(X.dtype.newbyteorder("=")))
        return Trial(
            lambda X, Y, **more: function(X, Y, **options, **more),
            {"X": X, "Y": Y},
            kernel_bound(name, options),
            takes_out=True,
            infinities=name not in ANGLES,
            options=options,
        )

    return make


def any_kernel(draw, *, without=()):
    name = draw.one_of(sorted(set(kernels.PARAMETERS) - set(without)))
    return name


def gram_trial(draw):
    name = any_kernel(draw)
    X, Y = pair(draw, name)
    options = parameters(draw, name, X.shape[1])
    asked = draw.one_of((name, getattr(gram, name)))
    progress = draw.one_of((False, lambda done, total: None))
    return Trial(
        lambda X, Y, **more: gram.gram(X, Y, asked, progress=progress, **options, **more),
        {"X": X, "Y": Y},
        kernel_bound(name, options),
        takes_out=True,
        infinities=name not in ANGLES,
        options={"kernel": name, "progress": progress, **options},
    )


def diag_trial(draw):
    name = any_kernel(draw)
    n, d = draw.extents(2, 3000)
    X = samples(draw, name, n, d)
    options = parameters(draw, name, d)

    def bound(values, expected, eps):
        return [np.array([tolerance(name, eps, row[None], None, options)[0, 0] for row in values["X"]])]

    return Trial(
        lambda X: gram.diag(X, name, **options),
        {"X": X},
        bound,
        infinities=name not in ANGLES,
        options={"kernel": name, **options},
    )


def distance_trial(draw):
    name = any_kernel(draw)
    X, Y = pair(draw, name)
    options = parameters(draw, name, X.shape[1])

    def bound(values, expected, eps):
        X, Y = values["X"], values["Y"]
        other = X if Y is None else Y
        each = tolerance(name, eps, X, Y, options)
        K = np.abs(kernels.kernel_expected(name, *typed(eps, X, Y), **chi2_options(name, options)).astype(float))
        for axis, rows in enumerate((X, other)):
            own = np.array([tolerance(name, eps, row[None], None, options)[0, 0] for row in rows])
            value = np.array(
                [
                    float(abs(kernels.kernel_expected(name, row[None], **chi2_options(name, options))[0, 0]))
                    for row in rows
                ]
            )
            each = each + np.expand_dims(own + 4 * eps * value, 1 - axis)
        return [2 * each + 8 * eps * K]

    return Trial(
        lambda X, Y: gram.distance(X, Y, name, **options),
        {"X": X, "Y": Y},
        bound,
        infinities=name not in ANGLES,
        options={"kernel": name, **options},
    )


def chi2_options(name, options):
    return {"gamma": 1.0, **options} if name == "chi2" else options


def matvec_trial(draw):
    name = any_kernel(draw)
    X, Y = pair(draw, name)
    options = parameters(draw, name, X.shape[1])
    m = len(X if Y is None else Y)
    v = draw.array((m,) if draw.chance(40) else (m, draw.integer(0, 9)))

    def bound(values, expected, eps):
        X, Y, v = values["X"], values["Y"], np.abs(values["v"])
        K = np.abs(kernels.kernel_expected(name, *typed(eps, X, Y), **chi2_options(name, options)).astype(float))
        return [tolerance(name, eps, X, Y, options) @ v + growth(m) * eps * (K @ v)]

    return Trial(
        lambda X, v, Y: gram.matvec(X, v, Y, name, **options),
        {"X": X, "v": v, "Y": Y},
        bound,
        infinities=name not in ANGLES,
        options={"kernel": name, **options},
    )


def gradient_bounds(name, eps, X, v, grad, Y, options):
    """Give the bounds for X, Y and gamma; features with scales of their own are those of samples divided by them."""
    if not X.shape[1]:
        return np.zeros(X.shape), np.zeros((len(v), 0)), 0.0
    options = dict(options)
    scale = np.asarray(options.get("length_scale", 1.0), float)
    if scale.ndim:
        options["length_scale"] = 1.0
        X, Y = X / scale, None if Y is None else Y / scale
    for_X, for_Y, for_gamma = gradient_tolerance(name, *typed(eps, X, v, grad, Y), **options)
    columns = (1 / scale if scale.ndim else np.ones(X.shape[1]))[None]
    rows = [np.nan_to_num(part, nan=math.inf)[:, None] * columns for part in (for_X, for_Y)]
    return rows[0], rows[1], for_gamma


def vjp_trial(draw, with_vector):
    name = any_kernel(draw)
    X, Y = pair(draw, name, WORK // 2)
    options = parameters(draw, name, X.shape[1])
    n, m = len(X), len(X if Y is None else Y)
    arrays = {"X": X, "Y": Y}
    if with_vector:
        rest = () if draw.chance(40) else (draw.integer(0, 5),)
        arrays |= {"v": draw.array((m, *rest)), "grad": draw.array((n, *rest))}
    else:
        arrays |= {"grad": draw.array((n, m))}

    def call(X, Y, grad, v=None):
        if with_vector:
            return gram.matvec_vjp(X, v, grad, Y, name, **options)
        return gram.gram_vjp(X, grad, Y, name, **options)

    def bound(values, expected, eps):
        X, Y, grad = values["X"], values["Y"], values["grad"]
        Y = None if Y is X else Y
        if with_vector:
            columns = math.prod(rest)
            v, grad = values["v"].reshape(m, columns), grad.reshape(n, columns)
        else:
            v = np.eye(m)
        for_X, for_Y, for_gamma = gradient_bounds(name, eps, X, v, grad, Y, options)
        found = [for_X, np.zeros(0) if Y is None else for_Y]
        if with_vector:
            K = np.abs(kernels.kernel_expected(name, *typed(eps, X, Y), **chi2_options(name, options)).astype(float))
            error = tolerance(name, eps, X, Y, options) + growth(n) * eps * K
            found.append((error.T @ np.abs(grad)).reshape(values["v"].shape))
        found.append(np.zeros(0) if for_gamma is None or expected[-1].ndim else np.asarray(for_gamma))
        return found

    def open_to(values, expected):
        """Every pair takes part in the gradient for a sample: NaN and Inf go anywhere."""
        return [any_not_finite(list(arrays.values()))] * len(expected)

    return Trial(call, arrays, bound, open_to=open_to, options={"kernel": name, **options})


def softmax_trial(draw):
    n, m, d = draw.extents(3, WORK)
    scale = draw.one_of((None, 1.0, draw.number(-3, 3)))
    V = draw.array((m,) if draw.chance(40) else (m, draw.integer(0, 20)))

    def bound(values, expected, eps):
        Q, K, V = values["Q"], values["K"], np.abs(values["V"])
        if not len(K):
            return [np.zeros(expected[0].shape)]
        factor = abs(1 / math.sqrt(max(1, d)) if scale is None else scale)
        logits = (1 / math.sqrt(max(1, d)) if scale is None else scale) * (Q @ K.T)
        # Exponents that are off by e change a share by a factor exp(2e) at most.
        error = 2 * ((d + 4) * eps * factor * (np.abs(Q) @ np.abs(K).T)).max(axis=1) + (growth(m) + 24) * eps
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        # Exponents far below 0 are rounded to so many digits, but their shares are as small.
        depth = np.minimum(logits.max(axis=1, keepdims=True) - logits, 800)
        total = (share * (1 + eps * depth)) @ V
        factors = np.expm1(np.minimum(error, 700))
        return [total * (factors[:, None] if V.ndim == 2 else factors)]

    return Trial(
        lambda Q, K, V: gram.softmax_matvec(Q, K, V, scale),
        {"Q": draw.array((n, d)), "K": draw.array((m, d)), "V": V},
        bound,
        options={"scale": scale},
    )


def invariant_trial(draw):
    name = any_kernel(draw)
    n, m, d = draw.extents(3, 1500)
    X = samples(draw, name, n, d)
    Y = None if draw.chance(40) else samples(draw, name, m, d)
    options = parameters(draw, name, d)
    way = draw.one_of(("shifts", "random", "none"))
    if way == "shifts":
        step = draw.integer(1, max(1, d))
        orders = np.array([np.roll(np.arange(d), at) for at in range(0, max(1, d), step)][:6])
    else:
        orders = np.array([draw.rng.permutation(d) for _ in range(draw.integer(0, 3) if way == "random" else 0)])
    orders = orders.reshape(len(orders), d).astype(draw.one_of((np.int64, np.int32)))

    def bound(values, expected, eps):
        X, Y = values["X"], values["Y"]
        other = X if Y is None else Y
        total = np.zeros((len(X), len(other)))
        for first in orders:
            for second in orders:
                x, y = X[:, first], other[:, second]
                K = np.abs(
                    kernels.kernel_expected(name, *typed(eps, x, y), **chi2_options(name, options)).astype(float)
                )
                total += tolerance(name, eps, x, y, options) + (len(orders) ** 2 + 2) * eps * K
        return [total]

    return Trial(
        lambda X, Y: gram.invariant(X, Y, permutations=orders, kernel=name, **options),
        {"X": X, "Y": Y},
        bound,
        infinities=name not in ANGLES,
        options={"kernel": name, "permutations": orders.tolist(), **options},
    )


def cntk_trial(draw):
    channels = draw.integer(1, 20)
    n, m, height, width = draw.extents(4, 250, most=12)
    depth, side = draw.integer(0, 3), draw.integer(1, 4)
    pooling = draw.one_of(("mean", "flatten"))
    X = draw.array((n, channels, height, width))
    Y = None if draw.chance(40) else draw.array((m, channels, height, width))

    def bound(values, expected, eps):
        """An angle is known to √eps at worst: docs/gram.md."""
        X = values["X"]
        Y = X if values["Y"] is None else values["Y"]
        error = 4 * growth(channels * side**2 * max(1, depth)) * eps
        squares = (np.sum(np.square(images), axis=1) for images in (X, Y))
        left, right = (np.sqrt(np.mean(square, axis=(1, 2))) for square in squares)
        return [(depth + 1) * np.multiply.outer(left, right) * (error + (math.sqrt(2 * error) if depth else 0))]

    return Trial(
        lambda X, Y: gram.cntk(X, Y, depth=depth, kernel_size=side, pooling=pooling),
        {"X": X, "Y": Y},
        bound,
        options={"depth": depth, "kernel_size": side, "pooling": pooling},
    )


# ---- statistics ----
def spread(K):
    """Bound what centring makes of the sizes of a matrix."""
    K = np.abs(K)
    if not len(K):
        return K
    return K + K.mean(axis=0) + K.mean(axis=1)[:, None] + K.mean()


def center_trial(draw):
    n = draw.extents(1, LARGE)[0]
    return Trial(
        lambda K: gram.center(K),
        {"K": draw.array((n, n))},
        lambda values, expected, eps: [(n + 4) * eps * spread(values["K"])],
    )


def hsic_error(K, L, eps, unbiased):
    n = len(K)
    if not unbiased:
        return 4 * growth(n * n) * eps * np.sum(spread(K) * spread(L).T) / (n - 1) ** 2
    off = 1 - np.eye(n)
    K, L = np.abs(K) * off, np.abs(L) * off
    total = np.sum(K * L.T) + K.sum() * L.sum() / ((n - 1) * (n - 2))
    total += 2 * np.sum(K.sum(axis=0) * L.sum(axis=1)) / (n - 2)
    return 4 * growth(n * n) * eps * total / (n * (n - 3))


def matched(draw):
    n = draw.extents(1, LARGE)[0]
    return draw.array((n, n)), draw.array((n, n))


def hsic_trial(draw):
    K, L = matched(draw)
    unbiased = draw.chance(50)
    return Trial(
        lambda K, L: gram.hsic(K, L, unbiased),
        {"K": K, "L": L},
        lambda values, expected, eps: [hsic_error(values["K"], values["L"], eps, unbiased)],
        infinities=False,
        options={"unbiased": unbiased},
    )


def cka_trial(draw):
    K, L = matched(draw)
    unbiased = draw.chance(50)

    def bound(values, expected, eps):
        """Bound a quotient, where its divisors are known at all."""
        K, L = values["K"], values["L"]
        own = [
            float(fuzz.run(gram.hsic, {"K": G, "L": G, "unbiased": unbiased}, "reference").results[0]) for G in (K, L)
        ]
        errors = [hsic_error(G, G, eps, unbiased) for G in (K, L)]
        if any(error > abs(value) / 2 or not value for value, error in zip(own, errors, strict=True)):
            return [math.inf]
        root = math.sqrt(abs(own[0])) * math.sqrt(abs(own[1]))
        relative = sum(error / abs(value) for value, error in zip(own, errors, strict=True)) + 8 * eps
        return [hsic_error(K, L, eps, unbiased) / root + np.abs(np.nan_to_num(expected[0])) * relative]

    return Trial(
        lambda K, L: gram.cka(K, L, unbiased),
        {"K": K, "L": L},
        bound,
        infinities=False,
        options={"unbiased": unbiased},
    )


def feature_gram_trial(draw):
    axes = draw.integer(1, 3)
    shape = draw.extents(2 + axes, 8000)
    centred = draw.chance(50)

    def bound(values, expected, eps):
        maps = np.abs(values["x"]).reshape(*shape[:2], int(np.prod(shape[2:])))
        if centred:
            maps = maps + maps.mean(axis=2, keepdims=True)
        return [(maps.shape[2] + 8) * eps * (maps @ maps.transpose(0, 2, 1)) / maps.shape[2]]

    return Trial(lambda x: gram.feature_gram(x, centred), {"x": draw.array(shape)}, bound, options={"center": centred})


def empirical_ntk_trial(draw):
    axes = draw.integer(1, 3)
    n, m, *rest = draw.extents(2 + axes, 20000)
    J1 = draw.array((n, *rest))
    J2 = None if draw.chance(40) else draw.array((m, *rest))

    def bound(values, expected, eps):
        first = np.abs(values["J1"]).reshape(n, int(np.prod(rest)))
        second = first if values["J2"] is None else np.abs(values["J2"]).reshape(m, int(np.prod(rest)))
        return [(first.shape[1] + 2) * eps * (first @ second.T)]

    return Trial(lambda J1, J2: gram.empirical_ntk(J1, J2), {"J1": J1, "J2": J2}, bound)


TRIALS = {
    **{name: kernel_trial(name) for name in kernels.PARAMETERS},
    "center": center_trial,
    "cka": cka_trial,
    "cntk": cntk_trial,
    "diag": diag_trial,
    "distance": distance_trial,
    "empirical_ntk": empirical_ntk_trial,
    "feature_gram": feature_gram_trial,
    "gram": gram_trial,
    "gram_vjp": lambda draw: vjp_trial(draw, False),
    "hsic": hsic_trial,
    "invariant": invariant_trial,
    "matvec": matvec_trial,
    "matvec_vjp": lambda draw: vjp_trial(draw, True),
    "softmax_matvec": softmax_trial,
}
