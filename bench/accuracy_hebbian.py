"""The accuracy of Hebbian learning and of associative memories: a section of docs/accuracy.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from accuracy_table import SEED, Case, exact, largest, normal, summed
from cases import gram_formulas, hebbian_formulas, wide
from cases.hebbian import RULES, draw, learnt, spins, unit_rows
from fastdl import hebbian

TITLE = "Hebbian learning"
ELSEWHERE: tuple[str, ...] = ()
HOW = """\
The largest error of any weight, threshold or energy in units of eps. Rules learn from 97 samples, standard normal, of
17 and of 130 features, with 3 and with 24 units whose weights begin with a length of about 1 and steps so small that
they stay so. What a sample gets wrong the next ones see: errors are those of all samples together, relative to the
largest weight. ccipca and HebbianPCA see 97 samples of 30 features whose variances fall from 1 to 1/30, for
HebbianPCA about 3, with steps of 0.02. Patterns are 40 of 130 units, of +1 and -1 and standard normal; couplings,
crosstalk, energies, modern_hopfield (an average, with exponents t that are known to t eps) and coordinates are
relative to the sum of the sizes of their terms; states that networks come to are either right or wrong. True values:
the rules sample by sample in float64 for float32, in extended precision for float64; 50 digits (mpmath) for
flip_probability and capacity, which are relative to their values, have one type and know no instruction sets. The
probability of 1e-23 goes by an exponent of -50, of which an eps makes 50."""

SHAPES = ((3, 17, 97), (24, 130, 97))


def centred(X):
    """Samples less the mean of all up to them, and the mean of all."""
    means = np.cumsum(X, axis=0) / np.arange(1, len(X) + 1)[:, None]
    return X - means, means[-1]


# ---- cases ----
def weights(label: str, call: Callable, truth: Any) -> Case:
    """What was learnt, relative to the largest of each."""
    return Case(label, call, truth, largest(truth))


def of_rules(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """The rules by which units learn from all samples in their order, by every algorithm."""
    for k, d, n in SHAPES:
        W, X, lr = draw(rng, k, d, n, dtype)
        for rule in RULES:
            function: Callable[..., Any] = getattr(hebbian, "hebb" if rule == "normalized" else rule)
            options = {"normalize": True} if rule == "normalized" else {}
            name = "hebb, normalize" if rule == "normalized" else rule
            truth = learnt(rule, W, X, lr)
            for algorithm in ("loop", "blocks"):
                call = partial(function, W, X, lr, algorithm=algorithm, **options)
                yield weights(f"{name}, {algorithm}", call, truth)
            call = partial(function, W, X, lr, mode="batch", **options)
            yield weights(f"{name}, batch", call, learnt(rule, W, X, lr, "batch"))
        theta = np.abs(normal(rng, dtype, k))
        steps = wide(lr)
        truth = hebbian_formulas.bcm(wide(W), wide(X), steps / 4, 100, wide(theta))
        yield weights("bcm", partial(hebbian.bcm, W, X, lr / 4, theta=theta, tau=100), truth)
        for p in (2.0, 3.0):
            truth = hebbian_formulas.krotov(wide(W), wide(X), steps, p, 0.4, 2)
            yield weights(f"krotov, p={p:g}", partial(hebbian.krotov, W, X, lr, p=p, delta=0.4), truth)
        truth = hebbian_formulas.soft_hebb(wide(W), wide(X), steps, 0.5)
        yield weights("soft_hebb", partial(hebbian.soft_hebb, W, X, lr, temperature=0.5), truth)
        yield from of_inhibition(rng, dtype, k, d, n)


def of_inhibition(rng: np.random.Generator, dtype: str, k: int, d: int, n: int) -> Iterator[Case]:
    """Units that inhibit each other, with steps that are exact in both types."""
    W = np.abs(rng.standard_normal((k, d)) / d).astype(dtype)
    X = (rng.random((n, d)) < 0.3).astype(dtype)
    V = -np.abs(rng.standard_normal((k, k)) / k).astype(dtype)
    np.fill_diagonal(V, 0)
    theta = np.full(k, 0.125, dtype)
    options = {"lateral_lr": 0.125, "threshold_lr": 0.03125, "activity": 0.125, "steepness": 8.0, "steps": 50}
    lr = np.full(n, 0.03125, dtype)
    truth = hebbian_formulas.foldiak(*(wide(array) for array in (W, X, V, theta, lr)), **options)
    yield weights("foldiak", partial(hebbian.foldiak, W, X, V, theta, lr, **options), truth)


def of_components(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Principal components."""
    n, d, k = 97, 30, 4
    X = (rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))).astype(dtype)
    V = np.zeros((k, d), dtype)
    yield weights("ccipca", partial(hebbian.ccipca, V, X, amnesic=2.0), hebbian_formulas.ccipca(wide(V), wide(X)))
    start = unit_rows(np.random.default_rng(0).standard_normal((k, d))).astype(dtype)
    offset = (X + 3).astype(dtype)
    middle, mean = centred(wide(offset))
    rate = np.full(n, 0.02, dtype)
    for rule in ("sanger", "subspace", "oja", "ccipca"):
        if rule == "ccipca":
            components = hebbian_formulas.ccipca(wide(V), middle)
        else:
            components = getattr(hebbian_formulas, rule)(W=wide(start), X=middle, lr=wide(rate)[0])

        def fit(rule=rule):
            found = hebbian.HebbianPCA(k, rule, None if rule == "ccipca" else 0.02).fit(offset)
            return found.components_, found.mean_

        yield weights(f"HebbianPCA.fit, {rule}", fit, (components, mean))

    def given():
        found = hebbian.HebbianPCA(k).partial_fit(offset)
        found.components_, found.mean_ = start, mean.astype(np.float64)
        return found

    middle, places = wide(offset) - mean.astype(np.float64), normal(rng, dtype, n, k)
    sizes = np.abs(middle) @ np.abs(wide(start)).T
    yield Case("HebbianPCA.transform", lambda: given().transform(offset), middle @ wide(start).T, sizes)
    back = wide(places) @ wide(start) + mean.astype(np.float64)
    sizes = np.abs(wide(places)) @ np.abs(wide(start)) + np.abs(mean)
    yield Case("HebbianPCA.inverse_transform", lambda: given().inverse_transform(places), back, sizes)


def of_memories(rng: np.random.Generator, dtype: str) -> Iterator[Case]:
    """Hopfield networks, of patterns and of any numbers, and what is made of them."""
    P, s = spins(rng, (40, 130), dtype), spins(rng, (9, 130), dtype)
    numbers = normal(rng, dtype, 40, 130)
    for keeps in (True, False):
        label = f"hopfield_weights, {'zero diagonal' if keeps else 'diagonal'}"
        for patterns in (P, numbers):
            function = partial(hebbian.hopfield_weights, zero_diagonal=keeps)
            yield summed(label, function, partial(hebbian_formulas.hopfield_weights, zero_diagonal=keeps), patterns)
    for patterns in (P, numbers):
        yield summed("crosstalk", hebbian.crosstalk, hebbian_formulas.crosstalk, patterns)
    W, b = hebbian.hopfield_weights(numbers), normal(rng, dtype, 130)
    broad = [wide(array) for array in (W, s, b)]
    sizes = np.abs(broad[0]).sum() / 2 + np.abs(broad[2]).sum()
    yield Case(
        "hopfield_energy", partial(hebbian.hopfield_energy, W, s, b), hebbian_formulas.hopfield_energy(*broad), sizes
    )
    # Far from where a field is 0, rounding changes no sign: 9 states near patterns of a network that is not full.
    few = hebbian.hopfield_weights(P[:7])
    near = P[np.arange(9) % 7] * np.where(rng.random((9, 130)) < 0.1, -1, 1).astype(dtype)
    for mode in ("async", "sync"):
        function = partial(hebbian.hopfield_recall, mode=mode)
        yield exact(
            f"hopfield_recall, {mode}", function, partial(hebbian_formulas.hopfield_recall, mode=mode), few, near
        )
    yield from of_dense_memories(P, near, numbers)


def of_dense_memories(P: np.ndarray, near: np.ndarray, numbers: np.ndarray) -> Iterator[Case]:
    """Memories with powers, and with exponentials."""
    for degree in (3, 6, math.inf):
        # Shorter states, whose exponentials are within float32.
        s = near / 2 if degree == math.inf else near
        overlaps = wide(s) @ wide(P).T
        terms = np.exp(overlaps) if degree == math.inf else overlaps ** int(degree)
        call = partial(hebbian.dense_hopfield_energy, P, s, degree=degree)
        yield Case(f"dense_hopfield_energy, degree={degree}", call, -terms.sum(axis=1), np.abs(terms).sum(axis=1))
        for mode in ("async", "sync"):
            # All are nearest to the pattern they come from, by far.
            function = partial(hebbian.dense_hopfield, P, degree=degree, mode=mode)
            kept = P[np.arange(9) % 7]
            yield exact(f"dense_hopfield, degree={degree}, {mode}", function, lambda s, kept=kept: wide(kept), near)
    q = numbers[:9] + numbers[9:18]
    truth = gram_formulas.softmax_matvec(wide(q), wide(numbers), wide(numbers), 0.125)
    size = gram_formulas.softmax_matvec(wide(q), wide(numbers), np.abs(wide(numbers)), 0.125)
    yield Case("modern_hopfield", partial(hebbian.modern_hopfield, numbers, q, 0.125), truth, size)


def of_chances() -> Iterator[Case]:
    """Probabilities and capacities, which are single numbers in double."""
    from mpmath import mp, mpf

    def halves(value) -> np.longdouble:
        return np.longdouble(float(value)) + np.longdouble(float(value - mpf(float(value))))

    with mp.workdps(50):
        for share in (0.01, 0.05, 0.138, 0.5, 3.0):
            n = share * 1000
            truth = halves(mp.erfc(mp.sqrt(mpf(1000) / (2 * mpf(n)))) / 2)
            yield Case("flip_probability", partial(hebbian.flip_probability, n, 1000), truth, truth)
        for chance in (1e-12, 1e-5, 0.0036, 0.1, 0.4):
            truth = halves(1000 / (2 * mp.erfinv(1 - 2 * mpf(chance)) ** 2))
            yield Case("capacity", partial(hebbian.capacity, 1000, chance), truth, truth)


def cases(dtype: str) -> Iterator[Case]:
    """All of them."""
    rng = np.random.default_rng(SEED)
    yield from of_rules(rng, dtype)
    yield from of_components(rng, dtype)
    yield from of_memories(rng, dtype)
    if dtype == "float64":
        yield from of_chances()
