"""Scattering transforms of arrays at random: both backends agree, on every instruction set.

A Fourier transform of N numbers is off by some log2 N roundings of the size of the signal; filters, whose sizes sum to
about 1, keep that. What moduli, roots and their gradients make of it is measured: signals are moved by as much at
random, several times, and what comes out in float64 is spread by what the transform makes of roundings.
"""

import math

import numpy as np

from cases import fuzz
from cases.fuzz import Trial
from fastdl import scattering

RUNS = 3  # with roundings at random
ROOM = 4  # times the largest deviation among them
STAGES = 4  # roundings a stage: three pairs of transforms, and filters that are rounded


def roundings(shape):
    """Give the roundings of a transform of signals of a shape, padded to at most four times their size."""
    return STAGES * math.log2(4 ** len(shape) * math.prod(shape))


def most(values, axes):
    """Give the largest number of every signal."""
    return np.abs(values).max(axis=tuple(range(-axes, 0)), initial=0)


def per_signal(limits, results):
    """Give the limit of a signal to all numbers that come of it; other results are not of signals."""
    found = []
    for result in results:
        numbers = result.dtype.kind == "f" and result.shape[: limits.ndim] == limits.shape
        found.append(np.reshape(limits, (*limits.shape, *(1,) * (result.ndim - limits.ndim))) if numbers else 0.0)
    return found


def broken_signals(arrays, batch):
    """Open the results of signals with NaN or Inf; all others must be as they are."""
    broken = np.zeros(batch)
    for array in arrays:
        broken = broken + (~np.isfinite(rows_of(array, batch))).any(axis=-1)
    return lambda values, expected: [np.asarray(limit) > 0 for limit in per_signal(broken, expected)]


def rows_of(array, batch):
    """Give all numbers of a signal in a row."""
    return np.reshape(array, (*batch, math.prod(np.shape(array)[len(batch) :])))


def linear_bound(shape):
    """Bound what is as smooth as the signal: averages of moduli."""

    def bound(values, expected, eps):
        return per_signal(roundings(shape) * eps * most(values["x"], len(shape)), expected)

    return bound


def measured_bound(call, shape, seed, inputs):
    """Move the signals, and see what becomes of that, for every signal."""

    def bound(values, expected, eps):
        rng = np.random.default_rng(seed)
        x = values["x"]
        axes = len(shape)
        batch = x.shape[: x.ndim - axes]
        moves = roundings(shape) * eps * np.reshape(most(x, axes), (*batch, *(1,) * axes))
        (true,) = fuzz.run(call, values, "reference").results
        spread = np.zeros(batch)
        for _ in range(RUNS):
            moved = {**values, "x": x + moves * rng.uniform(-1, 1, x.shape)}
            (other,) = fuzz.run(call, moved, "reference").results
            spread = np.maximum(spread, np.abs(rows_of(other - true, batch)).max(axis=-1, initial=0))
        largest = np.abs(rows_of(true, batch)).max(axis=-1, initial=0)
        limit = ROOM * spread + roundings(shape) * eps * largest
        if inputs:  # of gradients, which are sums over paths
            limit = limit + roundings(shape) * eps * np.linalg.norm(rows_of(values["grad"], batch), axis=-1)
        # Where roundings move a result by much, they may move it by more than they did here.
        return per_signal(np.where(spread > 1e-2 * largest, math.inf, limit), expected)

    return bound


def batch_of(draw, budget=24):
    return draw.extents(draw.integer(0, 2), budget, most=24)


def transform_trial(draw, make, arguments, shape, output):
    """One of the methods of a transform; `output(S, method)` is the shape of a gradient without the batch."""
    method = draw.one_of(("scattering", "scattering", "moments", "vjp", "moments_vjp"))
    given = arguments.pop("given", shape)
    x = draw.array((*batch_of(draw), *given))
    axes = len(given)
    arrays = {"x": x}
    try:
        S = make(**arguments)
    except (ValueError, TypeError):
        # Refused before anything is computed, by both backends in the same way.
        return Trial(lambda x: make(**arguments)(x), arrays, options=arguments)
    if method.endswith("vjp"):
        S.out_type = "array"
        arrays["grad"] = draw.array((*x.shape[: x.ndim - axes], *output(S, method)))

    def call(x, **grad):
        return getattr(S, method)(x, **grad)

    measured = method.endswith("vjp") or make is scattering.HarmonicScattering3D
    bound = measured_bound(call, given, draw.seed, method.endswith("vjp")) if measured else linear_bound(given)
    return Trial(
        call,
        arrays,
        bound,
        open_to=broken_signals(list(arrays.values()), x.shape[: x.ndim - axes]),
        options={"method": method, **arguments},
    )


def two_trial(draw):
    J = draw.integer(1, 3)
    shape = draw.extents(2, 1200, least=2**J)
    arguments = {
        "J": J,
        "shape": shape,
        "L": draw.integer(1, 8 if J < 3 else 3),
        "max_order": draw.integer(1, 2),
        "pre_pad": draw.chance(20),
        "out_type": draw.one_of(("array", "array", "list", "dict")),
    }
    if arguments["pre_pad"]:
        arguments["given"] = tuple(((size + 2**J) // 2**J + 1) * 2**J for size in shape)

    def output(S, method):
        count = S.output_size()
        return (count,) if method == "moments_vjp" else (count, *(S(np.zeros(grid(S))).shape[-2:]))

    def grid(S):
        return S.padded_shape if S.pre_pad else S.shape

    return transform_trial(draw, scattering.Scattering2D, arguments, shape, output)


def one_trial(draw):
    J = draw.integer(1, 5)
    size = draw.extents(1, 200, least=2**J, most=200)[0]
    arguments = {
        "J": J,
        "shape": draw.one_of((size, (size,))),
        "Q": draw.one_of((1, 2, draw.integer(1, 6), (3, 2))),
        "max_order": draw.integer(1, 2),
        "oversampling": draw.one_of((0, 0, 1, 2)),
        "out_type": draw.one_of(("array", "array", "list", "dict")),
        "normalization": draw.one_of(("sum", "mean")),
    }
    if draw.chance(40):
        arguments["T"] = draw.one_of((draw.integer(1, size), draw.number(1, size), size + 1 if draw.chance(5) else 1))

    def output(S, method):
        count = S.output_size()
        return (count,) if method == "moments_vjp" else (count, S(np.zeros(size)).shape[-1])

    return transform_trial(draw, scattering.Scattering1D, arguments, (size,), output)


def three_trial(draw):
    J = draw.integer(1, 2)
    shape = draw.extents(3, 500, least=2**J, most=14)
    arguments = {
        "J": J,
        "shape": shape,
        "L": draw.integer(0, 2),
        "sigma_0": draw.one_of((1, draw.number(0.5, 2))),
        "max_order": draw.integer(1, 2),
        "rotation_covariant": draw.chance(60),
        "integral_powers": draw.one_of(((0.5, 1.0, 2.0), (1.0,), (2.0, 3.0), (1.5,))),
    }
    return transform_trial(
        draw, scattering.HarmonicScattering3D, arguments, shape, lambda S, method: S(np.zeros(shape)).shape
    )


def roto_trial(draw):
    J = draw.integer(1, 2)
    shape = draw.extents(2, 500, least=2**J, most=40)
    arguments = {
        "J": J,
        "shape": shape,
        "L": draw.integer(1, 4),
        "K": draw.integer(1, 3),
        "max_order": draw.integer(1, 2),
    }

    def output(S, method):
        count = S.output_size()
        return (count,) if method == "moments_vjp" else (count, *(size >> J for size in shape))

    return transform_trial(draw, scattering.RotoTranslationScattering2D, arguments, shape, output)


# ---- cascades of orthogonal filters ----
def wavelet(draw):
    return draw.one_of(("haar", "db1", "db2", "db4", "db10", "db11" if draw.chance(5) else "db3"))


def cascade_bound(J):
    """An image of ones becomes 2^J times as large; filters have at most 20 taps."""

    def bound(values, expected, eps):
        largest = max(float(np.abs(part).max(initial=0)) for part in fuzz.parts_of(list(values.values())))
        return [80 * J * 2**J * eps * largest] * len(expected)

    return bound


def touched(arrays):
    """Wavelets reach around the edges of an image: one with NaN or Inf is open."""
    broken = fuzz.any_not_finite(list(arrays.values()))
    return lambda values, expected: [broken] * len(expected)


def forward_trial(draw):
    J, name = draw.integer(1, 3), wavelet(draw)
    *batch, height, width = draw.extents(draw.integer(2, 4), 200, most=20)
    unit = 2**J if not draw.chance(5) else 1
    arrays = {"x": draw.array((*batch, height * unit, width * unit))}
    return Trial(
        lambda x: scattering.wavelet_transform2d(x, J, name),
        arrays,
        cascade_bound(J),
        open_to=touched(arrays),
        options={"J": J, "wavelet": name},
    )


def backward_trial(draw):
    J, name = draw.integer(0, 3), wavelet(draw)
    *batch, height, width = draw.extents(draw.integer(2, 4), 100, most=12)
    details = [draw.array((*batch, 3, height * 2**scale, width * 2**scale)) for scale in range(J - 1, -1, -1)]
    arrays = {"approximation": draw.array((*batch, height, width)), "details": details}
    return Trial(
        lambda approximation, details: scattering.inverse_wavelet_transform2d(approximation, details, name),
        arrays,
        cascade_bound(max(1, J)),
        open_to=touched(arrays),
        options={"J": J, "wavelet": name},
    )


TRIALS = {
    "HarmonicScattering3D": three_trial,
    "RotoTranslationScattering2D": roto_trial,
    "Scattering1D": one_trial,
    "Scattering2D": two_trial,
    "inverse_wavelet_transform2d": backward_trial,
    "wavelet_transform2d": forward_trial,
}
