"""The accuracy of layers that commute with groups, and of functions on groups: a section of docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from accuracy_table import SEED, Case, exact, largest, normal, summed
from cases import conv_formulas, wide
from cases import group_formulas as formulas
from cases.group import GROUPS, QUOTIENTS, order, pose, rotations_and_flips
from fastdl import group

TITLE = "Groups"
# Tables of integers, and a warning.
ELSEWHERE = ("EquivarianceWarning", "Group", "escnn_order")
HOW = """\
The largest error of any entry in units of eps. All numbers are standard normal. Layers have 2 images of 13 by 13, 5
channels, 7 filters of 3 by 3, padding 1 and strides of 1 and 2; those of se2 have filters of 5 by 5. Their errors are
relative to the largest sum of the sizes of the terms of any element, because the elements of an orbit share theirs.
se2_filters are relative to the largest element; the true ones have weights of interpolation with more digits too.
Other sums are relative to the sum of the sizes of their terms, convolutions of pairs and on the cyclic group of 1024,
which may go through Fourier transforms, to the largest such sum. Signatures are of 11 samples of 34 features with 3
templates and the 68 turns and flips of a circle; their terms count with their slopes, by which errors of products
come in. orbit_regularizer is of 8 columns, its gradient relative to the largest sum. True values: sums in float64 for
float32, in extended precision for float64."""

IMAGES, INPUTS, OUTPUTS, SIDE, KERNEL = 2, 5, 7, 13, 3


# ---- layers ----
def of_layers(rng: np.random.Generator, dtype: str, name: str) -> Iterator[Case]:
    """Both layers on a group of the plane, by both algorithms, and their gradients."""
    for lift in (True, False):
        elements = () if lift else (order(name),)
        x = normal(rng, dtype, IMAGES, INPUTS, *elements, SIDE, SIDE)
        w = normal(rng, dtype, OUTPUTS, INPUTS, *elements, KERNEL, KERNEL)
        function = "lift_conv2d" if lift else "conv2d"
        for stride in (1, 2):
            place = {"group": name, "stride": stride, "padding": 1}
            side = (SIDE + 2 - KERNEL) // stride + 1
            grad = normal(rng, dtype, IMAGES, OUTPUTS, order(name), side, side)
            for algorithm in ("expand", "orbit"):
                label = f"{name}, {algorithm}"
                options = {"algorithm": algorithm, **place}
                yield summed(
                    f"{function}, {label}",
                    partial(getattr(group, function), **options),
                    partial(formulas.conv2d, **place),
                    x,
                    w,
                    spread=True,
                )
                yield summed(
                    f"{function}_input, {label}",
                    partial(getattr(group, f"{function}_input"), x.shape, **options),
                    partial(formulas.conv2d_input, x.shape, **place),
                    w,
                    grad,
                    spread=True,
                )
                yield summed(
                    f"{function}_weight, {label}",
                    with_size(getattr(group, f"{function}_weight"), w.shape, options),
                    with_size(formulas.conv2d_weight, w.shape, place),
                    x,
                    grad,
                    spread=True,
                )


def with_size(function: Callable, size: tuple[int, ...], options: dict) -> Callable:
    """The gradient for filters of a size, as a function of images and gradients alone."""
    return lambda x, grad: function(x, size, grad, **options)


def of_moves(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """What moves numbers, or joins the elements of a group."""
    for name in GROUPS:
        x = normal(rng, dtype, 2, 3, order(name), 6, 6)
        w = normal(rng, dtype, 2, 3, order(name), 3, 3)
        for element, quotient in enumerate(QUOTIENTS[name]):
            moved = partial(act, name=name, element=element, quotient=quotient)
            yield exact("act", lambda x, g=element, name=name: group.act(x, g, name), moved, x)
        yield exact(
            "expand_filters", partial(group.expand_filters, group=name), partial(formulas.expanded, group=name), w
        )
    x = normal(rng, dtype, 2, 3, 8, 6, 6)
    yield exact("pool, max", partial(group.pool, mode="max"), partial(np.max, axis=2), x)
    yield summed("pool, mean", partial(group.pool, mode="mean"), partial(np.mean, axis=2), x)
    yield summed("pool, sum", partial(group.pool, mode="sum"), partial(np.sum, axis=2), x)
    yield summed("pool, l2", partial(group.pool, mode="l2"), lambda x: np.sqrt(np.sum(x * x, axis=2)), x)


def act(x, name, element, quotient):
    return pose(x[:, :, quotient], name, element)


# ---- turns by any angle ----
def of_rotations(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Filters turned by interpolation, and layers with them."""
    for rotations, interpolation in ((6, "bilinear"), (8, "bicubic")):
        how: dict[str, Any] = {"rotations": rotations, "interpolation": interpolation}
        for lift in (True, False):
            elements = () if lift else (rotations,)
            x = normal(rng, dtype, IMAGES, INPUTS, *elements, SIDE, SIDE)
            w = normal(rng, dtype, OUTPUTS, INPUTS, *elements, 5, 5)
            make = partial(formulas.turned, lift=lift, **how)
            truth = make(wide(w))
            function = "se2_lift_conv2d" if lift else "se2_conv2d"
            if not lift:
                yield Case(f"se2_filters, {interpolation}", partial(group.se2_filters, w, **how), truth, largest(truth))

            def layer(x, filters, rotations=rotations):
                y = conv_formulas.conv2d(x.reshape(IMAGES, -1, SIDE, SIDE), filters, padding=2)
                return y.reshape(IMAGES, OUTPUTS, rotations, *y.shape[-2:])

            yield Case(
                f"{function}, {interpolation}",
                partial(getattr(group, function), x, w, padding=2, **how),
                layer(wide(x), truth),
                largest(layer(np.abs(wide(x)), np.abs(truth))),
            )


# ---- finite groups and orbits ----
def of_finite(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Convolutions on finite groups, by sums and by transforms."""
    groups = {
        "symmetric, 120": (group.Group.symmetric(5), 9),
        "dihedral, 24": (group.Group.dihedral(12), 33),
        "cyclic, 1024": (group.Group.cyclic(1024), 1),
    }
    for label, (found, count) in groups.items():
        f, h = normal(rng, dtype, count, found.order), normal(rng, dtype, found.order)
        formula = partial(formulas.convolve, group=found)
        function = partial(group.convolve, group=found)
        yield summed(f"convolve, {label}", function, formula, f, h, spread=found.order > 1000)
        if count > 1:
            pairs = normal(rng, dtype, count, found.order)
            yield summed(f"convolve, {label}, pairs", function, formula, f, pairs, spread=True)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


# Functions of products less thresholds, and their slopes, by which errors of products count.
NONLINEARITIES: dict[str, tuple[Callable, Callable]] = {
    "step": (lambda z: (z >= 0).astype(z.dtype), np.zeros_like),
    "cdf": (lambda z: (z <= 0).astype(z.dtype), np.zeros_like),
    "sigmoid": (sigmoid, lambda z: sigmoid(z) * sigmoid(-z)),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "relu": (lambda z: np.maximum(0, z), lambda z: (z >= 0).astype(z.dtype)),
}


def of_orbits(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Signatures, means and Gramians of orbits, and how far columns are from one."""
    permutations = rotations_and_flips(34)
    x, templates = normal(rng, dtype, 11, 34), normal(rng, dtype, 3, 34)
    orbits = np.stack([wide(templates)[:, each] for each in permutations])
    products = np.stack([wide(x) @ orbit.T for orbit in orbits])
    lengths = np.stack([np.abs(wide(x)) @ np.abs(orbit).T for orbit in orbits])
    thresholds = (-1.0, 0.5, 2.0)
    for nonlinearity, (function, slope) in NONLINEARITIES.items():
        inputs = np.stack([products - b for b in thresholds], axis=-1)
        truth = function(inputs).sum(axis=0)
        size = np.abs(function(inputs)).sum(axis=0) + (slope(inputs) * lengths[..., None]).sum(axis=0)
        call = partial(group.signature, x, templates, permutations, thresholds, None, nonlinearity)
        yield Case(f"signature, {nonlinearity}", call, truth, size)
    truth, size = (np.stack([(each**m).sum(axis=0) for m in (1, 2, 3)], axis=-1) for each in (products, lengths))
    yield Case("signature, moments", partial(group.signature, x, templates, permutations, None, (1, 2, 3)), truth, size)
    yield summed(
        "average",
        partial(group.average, permutations=permutations),
        lambda x: sum(x[:, each] for each in permutations) / len(permutations),
        x,
    )
    t = templates[0]
    yield summed(
        "orbit_gramian",
        partial(group.orbit_gramian, permutations=permutations),
        lambda t: t[permutations] @ t[permutations].T,
        t,
    )
    W, sigma = normal(rng, dtype, 5, 8), 4.0
    truth, size = regularizer(wide(W), sigma)
    yield Case("orbit_regularizer", partial(group.orbit_regularizer, W, sigma), truth, size)


def regularizer(W, sigma: float) -> tuple[tuple, tuple]:
    """Its value and gradient by the four sums as they are written, and the largest sums of sizes of their terms."""
    n = W.shape[1]
    G = W.T @ W
    difference = G[:, :, None, None] - G[None, None]  # k, i, l, j
    weights = (n * np.eye(n) - 1)[None, :, None, :]
    terms = weights * np.exp(-((difference / sigma) ** 2))
    slopes = terms * -2 * difference / sigma**2
    # An entry of G is in both places of a pair.
    by_entry = slopes.sum(axis=(2, 3)) - slopes.sum(axis=(0, 1))
    sizes = np.abs(slopes).sum(axis=(2, 3)) + np.abs(slopes).sum(axis=(0, 1))
    gradient = W @ (by_entry + by_entry.T)
    return (terms.sum(), gradient), (np.abs(terms).sum(), largest(np.abs(W) @ (sizes + sizes.T)))


def of_sets(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Layers on sets, and what does not depend on their order."""
    x = normal(rng, dtype, 3, 41)
    yield summed(
        "permutation_layer, numbers",
        lambda x: group.permutation_layer(x, 0.75, 0.125),
        lambda x: 0.75 * x + 0.125 * x.sum(axis=-1, keepdims=True),
        x,
    )
    x, lam, gam = normal(rng, dtype, 3, 41, 6), normal(rng, dtype, 6, 5), normal(rng, dtype, 6, 5)
    yield summed(
        "permutation_layer, matrices",
        group.permutation_layer,
        lambda x, lam, gam: x @ lam + x.sum(axis=-2, keepdims=True) @ gam,
        x,
        lam,
        gam,
    )
    yield exact("set_pool, max", partial(group.set_pool, mode="max"), partial(np.max, axis=-2), x)
    for mode, formula in (("sum", np.sum), ("mean", np.mean)):
        yield summed(f"set_pool, {mode}", partial(group.set_pool, mode=mode), partial(formula, axis=-2), x)


def cases(dtype: str) -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(SEED)
    for name in GROUPS:
        yield from of_layers(rng, dtype, name)
    yield from of_moves(rng, dtype)
    yield from of_rotations(rng, dtype)
    yield from of_finite(rng, dtype)
    yield from of_orbits(rng, dtype)
    yield from of_sets(rng, dtype)
