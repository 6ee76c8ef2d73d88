"""Hebbian learning and memories on arrays and options at random: both backends agree, on every instruction set.

How far a rule may be off after many samples depends on what later samples make of an early rounding. So it is measured:
the reference goes through the samples in float64, with the weights moved after each by as much as rounding can, at
random, several times. What comes out is spread by what the rule makes of roundings.
"""

import math
from functools import partial

import numpy as np

import fastdl
from cases import fuzz
from cases.fuzz import Trial, any_not_finite, sum_roundings
from cases.hebbian import masked
from fastdl import hebbian

RUNS = 4  # with roundings at random
ROOM = 4  # times the largest deviation among them


# ---- rules ----
def problem(draw, work=4000):
    """Weights, samples and steps, so small that not all diverges."""
    k, d, n = draw.extents(3, work)
    W = draw.values((k, d)) / math.sqrt(max(1, d))
    X = draw.values((n, d))
    size = float(np.max(np.sum(np.square(np.clip(np.nan_to_num(X), -1e3, 1e3)), axis=1), initial=0))
    strength = draw.one_of((0.1, 0.3, 0.5, 2.0 if draw.chance(10) else 0.2)) / max(size, 1e-6)
    rate = float(np.float32(strength * draw.one_of((1, 1, 1, -1))))
    if draw.chance(40):
        rate = (rate * draw.rng.uniform(0.2, 1, n)).astype(np.float32)
        if draw.chance(30):
            rate = rate.astype(np.float64)
    return draw.array((k, d), values=W), draw.array((n, d), values=X), rate


def rates(lr, n):
    return np.broadcast_to(np.asarray(lr, np.float64), (n,))


def rule_size(rule, W, x, eta):
    """Sum the sizes of all terms of a step, for every weight."""
    W, x, eta = np.abs(W), np.abs(x), abs(eta)
    y = W @ x
    return W + eta * (np.outer(y, x) + masked(rule, np.outer(y, y)) @ W)


def moved(values, size, roundings, eps, rng):
    return values + roundings * eps * size * rng.choice([-1.0, 1.0], values.shape)


def deviation(paths, true):
    """Give how far the weights of a unit may be off, from those that went other ways."""
    if not len(true) or not true.size:
        return np.zeros(true.shape)
    apart = np.max([np.abs(path - true) for path in paths], axis=0)
    return ROOM * np.broadcast_to(
        apart.reshape(len(true), -1).max(axis=1).reshape(-1, *[1] * (true.ndim - 1)), true.shape
    )


def steps_roundings(*terms):
    """Give the roundings of a step with sums of so many terms, which are as good as random: 4 standard deviations."""
    return 4 * sum(math.sqrt(count) + 1 for count in terms)


def beyond(*names, power=3.0, along=None):
    """Tell whether products of so many of the largest numbers leave float32, in which a kernel may compute them.

    The reference computes in float64, and sees only whether the weights fit. Or whether roundings alone decide.
    """

    def edge(values):
        largest = max(float(np.abs(values[name]).max(initial=1)) for name in names)
        return power * math.log2(max(2.0, largest)) > 100 or (along is not None and along.wavers(values))

    return edge


def walk(step, size, state, n, eps, roundings, rng):
    """Go through the samples, as far as weights stay finite: give the last state and the number of samples seen.

    `state` is a tuple of arrays, `step(t, state)` the next, `size(t, state)` that of its terms.
    """
    for t in range(n):
        try:
            after = step(t, state)
        except (FloatingPointError, ValueError):
            return state, t
        sizes = size(t, state)
        state = tuple(moved(part, each, roundings, eps, rng) for part, each in zip(after, sizes, strict=True))
    return state, n


class Walked:
    """The bound of a rule from its step in float64: what several walks with roundings at random come to."""

    def __init__(self, step, size, start, n, roundings, draw):
        self.step, self.size, self.start, self.n, self.roundings = step, size, start, n, roundings
        self.seed, self.single = draw.seed, draw.dtypes == "float32"

    def walks(self, values, eps):
        rng = np.random.default_rng(self.seed)
        step, size = partial(self.step, values), partial(self.size, values)
        return [walk(step, size, self.start(values), self.n, eps, self.roundings, rng) for _ in range(RUNS)]

    def __call__(self, values, expected, eps):
        if not self.n:
            return [np.zeros(part.shape) for part in expected]
        walks = self.walks(values, eps)
        if any(seen < self.n for _, seen in walks):
            return [math.inf] * len(expected)  # on the edge of divergence
        return [
            deviation([path[number] for path, _ in walks], true) + self.roundings * eps * np.abs(true)
            for number, true in enumerate(expected)
        ]

    def wavers(self, values):
        """Tell whether roundings alone decide at which sample weights diverge."""
        eps = float(np.finfo(np.float32 if self.single else np.float64).eps)
        with np.errstate(all="ignore"), fastdl.backend("reference"):
            return len({seen for _, seen in self.walks(values, eps)}) > 1


def plain_trial(name):
    function = getattr(hebbian, name)

    def make(draw):
        W, X, lr = problem(draw)
        n, (k, d) = len(X), W.shape
        options = {"mode": draw.one_of(("sequential", "sequential", "batch"))}
        if draw.chance(60):
            options["algorithm"] = draw.one_of(("auto", "loop", "blocks"))
        if name == "hebb":
            options["normalize"] = draw.chance(50)
        each = rates(lr, n)

        def size(values, t, state):
            return (rule_size(name, state[0], values["X"][t], each[t]),)

        def step(values, t, state):
            return (function(state[0], values["X"][t : t + 1], each[t], **{**options, "mode": "sequential"}),)

        roundings = steps_roundings(d, d, k)
        sequential = Walked(step, size, lambda values: (values["W"],), n, roundings, draw)

        def bound(values, expected, eps):
            if options["mode"] == "sequential":
                return sequential(values, expected, eps)
            W, X, eta = np.abs(values["W"]), np.abs(values["X"]), np.abs(each)[:, None]
            Y = X @ W.T
            total = W + (eta * Y).T @ X + masked(name, (eta * Y).T @ Y) @ W
            error = (roundings + n) * eps * total
            if options.get("normalize") and n:
                # A rounding is as large, relative to the length of the row, as it was before.
                lengths = np.linalg.norm(
                    values["W"] + (each[:, None] * (values["X"] @ values["W"].T)).T @ values["X"], axis=1
                )
                error = 2 * np.linalg.norm(error, axis=1, keepdims=True) / lengths[:, None] + 8 * eps
            return [error + np.zeros(W.shape)]

        return Trial(
            lambda W, X, **more: function(W, X, lr, **options, **more),
            {"W": W, "X": X},
            bound,
            takes_out=True,
            in_place="W",
            edge=beyond("W", "X", power=5, along=sequential),
            options={"lr": lr, **options},
        )

    return make


def bcm_trial(draw):
    W, X, lr = problem(draw)
    n, (k, d) = len(X), W.shape
    tau = draw.number(1, 200)
    arrays = {"W": W, "X": X, "theta": draw.array((k,)) if draw.chance(50) else None}
    each = rates(lr, n)

    def size(values, t, state):
        W, theta, x = np.abs(state[0]), np.abs(state[1]), np.abs(values["X"][t])
        y = W @ x
        return W + abs(each[t]) * np.outer(y * (y + theta), x), theta + (y * y + theta) / tau

    def step(values, t, state):
        return hebbian.bcm(state[0], values["X"][t : t + 1], each[t], theta=state[1], tau=tau)

    def start(values):
        return values["W"], np.zeros(k) if values["theta"] is None else values["theta"]

    along = Walked(step, size, start, n, steps_roundings(d, d), draw)
    return Trial(
        lambda W, X, theta: hebbian.bcm(W, X, lr, theta=theta, tau=tau),
        arrays,
        along,
        edge=beyond("W", "X", power=5, along=along),
        options={"lr": lr, "tau": tau},
    )


def krotov_trial(draw):
    W, X, lr = problem(draw)
    n, (k, d) = len(X), W.shape
    options = {
        "p": draw.one_of((2.0, 2.0, 1.0, 3.0, draw.number(1, 5))),
        "delta": draw.one_of((0.0, 0.4, draw.number(0, 2))),
        "rank": draw.integer(2, 6),
    }
    each = rates(lr, n)

    def size(values, t, state):
        W, x = np.abs(state[0]), np.abs(values["X"][t])
        currents = W ** (options["p"] - 1) @ x
        return (W + abs(each[t]) * (1 + options["delta"]) * (x[None] + currents[:, None] * W),)

    def step(values, t, state):
        return (hebbian.krotov(state[0], values["X"][t : t + 1], each[t], **options),)

    along = Walked(step, size, lambda values: (values["W"],), n, steps_roundings(d, d, 4), draw)

    def bound(values, expected, eps):
        """Where two units are as good as equal, either may win: then all is open."""
        W = values["W"]
        for t in range(n if k > 1 and d else 0):
            x = values["X"][t]
            powers = np.sign(W) * np.abs(W) ** (options["p"] - 1)
            ordered = np.sort(powers @ x)[::-1]
            # What has gone before is off too.
            near = 50 * (2 * d + 16) * eps * float((np.abs(powers) @ np.abs(x)).max())
            gaps = -np.diff(ordered)[[0, *(at for at in (options["rank"] - 2, options["rank"] - 1) if at < k - 1)]]
            if not gaps.min() > near:
                return [math.inf]
            (W,) = step(values, t, (W,))
        return along(values, expected, eps)

    return Trial(
        lambda W, X, **more: hebbian.krotov(W, X, lr, **options, **more),
        {"W": W, "X": X},
        bound,
        takes_out=True,
        in_place="W",
        edge=beyond("W", "X", power=options["p"] + 1, along=along),
        options={"lr": lr, **options},
    )


def soft_hebb_trial(draw):
    W, X, lr = problem(draw)
    n, (k, d) = len(X), W.shape
    temperature = draw.number(0.25, 4)
    each = rates(lr, n)

    def size(values, t, state):
        """The share of a unit is off by what its exponent is."""
        W, x = np.abs(state[0]), np.abs(values["X"][t])
        u = W @ x
        share = 1 + 2 * u.max(initial=0) / temperature
        return (W + abs(each[t]) * share * (x[None] + u[:, None] * W),)

    def step(values, t, state):
        return (hebbian.soft_hebb(state[0], values["X"][t : t + 1], each[t], temperature=temperature),)

    along = Walked(step, size, lambda values: (values["W"],), n, steps_roundings(d, d, k, 4), draw)
    return Trial(
        lambda W, X, **more: hebbian.soft_hebb(W, X, lr, temperature=temperature, **more),
        {"W": W, "X": X},
        along,
        takes_out=True,
        in_place="W",
        edge=beyond("W", "X", along=along),
        options={"lr": lr, "temperature": temperature},
    )


def foldiak_trial(draw):
    W, X, _ = problem(draw)
    n, (k, d) = len(X), W.shape
    lr = draw.number(0, 0.5)
    options = {
        "lateral_lr": draw.number(0, 0.5),
        "threshold_lr": draw.number(0, 0.5),
        "activity": draw.number(0.0625, 0.9),
        "steepness": draw.number(0.5, 12),
        "steps": draw.integer(1, 20),
    }
    lateral = -np.abs(draw.values((k, k))) / max(1, k)
    np.fill_diagonal(lateral, 0)
    arrays = {
        "W": W,
        "X": X,
        "lateral": draw.array((k, k), values=lateral),
        "threshold": draw.array((k,), kind="normal"),
    }

    def settled(values, state, t):
        """Give how active the units are in the end."""
        W, V, bar = state
        drive = W @ values["X"][t] - bar
        u = np.zeros(k)
        for _ in range(options["steps"]):
            u = u + 0.1 * (1 / (1 + np.exp(-options["steepness"] * (drive + V @ u))) - u)
        return u

    def step(values, t, state):
        return hebbian.foldiak(state[0], values["X"][t : t + 1], state[1], state[2], lr, **options)

    def size(values, t, state):
        W, V, bar = (np.abs(part) for part in state)
        return W + lr * (np.abs(values["X"][t])[None] + W), V + options["lateral_lr"], bar + options["threshold_lr"]

    along = Walked(
        step,
        size,
        lambda values: (values["W"], values["lateral"], values["threshold"]),
        n,
        steps_roundings(d, k),
        draw,
    )

    def bound(values, expected, eps):
        """Where a unit is as good as on the edge of being active, all is open."""
        state = (values["W"], values["lateral"], values["threshold"])
        steep = options["steepness"]
        for t in range(n if k else 0):
            size = np.abs(state[0]) @ np.abs(values["X"][t]) + np.abs(state[2]) + np.abs(state[1]).sum(axis=1) + 1
            u = settled(values, state, t)
            # A unit is moved by what its neighbours are, at most by a factor in every step.
            growth = (1 + 0.025 * steep * np.abs(state[1]).sum(axis=1).max(initial=0)) ** options["steps"]
            near = 100 * (d + k + 8 + t) * eps * (1 + steep) * growth * size.max(initial=0)
            if not np.abs(u - 0.5).min(initial=1) > near:
                return [math.inf] * 3
            state = step(values, t, state)
        return along(values, expected, eps)

    return Trial(
        lambda W, X, lateral, threshold: hebbian.foldiak(W, X, lateral, threshold, lr, **options),
        arrays,
        bound,
        options={"lr": lr, **options},
    )


def ccipca_trial(draw):
    V, X, _ = problem(draw, 1000)
    n, (k, d) = len(X), V.shape
    options = {
        "count": draw.one_of((0, 0, 1, draw.integer(0, 20))),
        "amnesic": draw.one_of((0.0, 2.0, draw.number(0, 4))),
    }

    def size(values, t, state):
        """What is left of a sample after the rows before is a difference: its roundings are those of the sample."""
        x = np.abs(values["X"][t])
        return (np.abs(state[0]) + x.max(initial=0) * np.linalg.norm(x) + x.max(initial=0),)

    def step(values, t, state):
        return (hebbian.ccipca(state[0], values["X"][t : t + 1], **{**options, "count": options["count"] + t}),)

    along = Walked(step, size, lambda values: (values["V"],), n, steps_roundings(d, d) * max(1, k), draw)

    def bound(values, expected, eps):
        """Directions of what is left of a sample in the span of the rows before are those of roundings: open."""
        found = along(values, expected, eps)
        if np.ndim(found[0]) == 0:
            return found
        loose = np.linalg.norm(found[0], axis=1, keepdims=True) > 1e-2 * np.linalg.norm(
            np.nan_to_num(expected[0]), axis=1, keepdims=True
        )
        # Later rows depend on those before.
        return [np.where(np.logical_or.accumulate(loose, axis=0), math.inf, found[0])]

    return Trial(
        lambda V, X, **more: hebbian.ccipca(V, X, **options, **more),
        {"V": V, "X": X},
        bound,
        takes_out=True,
        in_place="V",
        options=options,
    )


def pca_trial(draw):
    _, X, _ = problem(draw, 1000)
    n, d = X.shape
    rule = draw.one_of(("sanger", "subspace", "oja", "ccipca"))
    options = {
        "n_components": draw.integer(1, 9),
        "rule": rule,
        "center": draw.chance(60),
        "epochs": draw.integer(1, 2),
        "random_state": draw.integer(0, 5),
    }
    if rule != "ccipca" and draw.chance(40):
        options["learning_rate"] = draw.number(0.0001, 0.02)

    def call(X):
        learnt = hebbian.HebbianPCA(**options).fit(X)
        if n:
            learnt.partial_fit(X[: n // 2 + 1])
        return [learnt.components_, learnt.mean_, learnt.transform(X), learnt.inverse_transform(learnt.transform(X))]

    def bound(values, expected, eps):
        """Move the samples by roundings, and see what becomes of that."""
        rng = np.random.default_rng(draw.seed)
        paths = []
        for _ in range(RUNS):
            X = moved(values["X"], np.abs(values["X"]) + np.abs(values["X"]).mean(axis=0), 2 * d + 16, eps, rng)
            path = fuzz.run(call, {"X": X}, "reference")
            if path.error is not None:
                return [math.inf] * 4
            paths.append(path.results)
        lengths = np.linalg.norm(expected[0], axis=1)
        if rule == "ccipca" and not lengths.min() > 1e3 * math.sqrt(eps) * lengths.max():
            return [math.inf] * 4  # a component of nothing has no direction
        # Rows begin at length 1, and what is left of them may be nothing.
        largest = float(np.abs(values["X"]).max(initial=0))
        begun = (0.0 if rule == "ccipca" else 1.0, largest, d * largest, d * largest)
        found = []
        for number, true in enumerate(expected):
            apart = np.max([np.abs(path[number] - true) for path in paths], axis=0).max(initial=0)
            size = max(float(np.abs(true).max(initial=0)), begun[number])
            error = ROOM * apart + (2 * n + 2 * d + 16) * eps * size
            found.append(error if apart < 1e-2 * size or not size else math.inf)
        return found if math.isfinite(found[0]) else [math.inf] * 4

    return Trial(call, {"X": X}, bound, edge=None if rule == "ccipca" else beyond("X", power=5), options=options)


# ---- memories ----
def spins(draw, shape):
    values = np.where(draw.rng.random(shape) < 0.5, -1.0, 1.0)
    if values.size and draw.chance(5):
        values.flat[draw.rng.integers(values.size)] = draw.one_of((0.0, 2.0, 0.5))
    dtype = draw.dtype()
    return draw.array(shape, values=values, dtype=np.int8 if dtype.kind in "ub" else dtype)


def states(draw, d, most=40):
    return spins(draw, (d,) if draw.chance(30) else (draw.integer(0, most), d))


def hopfield_weights_trial(draw):
    n, d = draw.extents(2, 3000)
    zero = draw.chance(50)

    def call(P):
        return hebbian.hopfield_weights(P, zero)

    return Trial(call, {"P": draw.array((n, d))}, fuzz.of_sums(call, sum_roundings(n)), options={"zero_diagonal": zero})


def energy_bound(W, s, b, eps):
    d = len(W)
    s = np.abs(np.atleast_2d(s))
    size = ((s @ np.abs(W).T) * s).sum(axis=1) / 2 + (0 if b is None else s @ np.abs(b))
    return sum_roundings(2 * d) * eps * size


def hopfield_energy_trial(draw):
    d = draw.extents(1, 70)[0]
    s = draw.array((d,) if draw.chance(30) else (draw.integer(0, 20), d))
    arrays = {"W": draw.array((d, d)), "s": s, "b": draw.array((d,)) if draw.chance(50) else None}
    return Trial(
        lambda W, s, b: hebbian.hopfield_energy(W, s, b),
        arrays,
        lambda values, expected, eps: [
            energy_bound(values["W"], values["s"], values["b"], eps).reshape(expected[0].shape)
        ],
    )


def recall_options(draw, d):
    options = {"mode": draw.one_of(("async", "sync")), "max_sweeps": draw.integer(0, 6)}
    if options["mode"] == "async" or draw.chance(3):
        way = draw.one_of(("none", "order", "orders", "seed"))
        if way == "order":
            options["order"] = draw.rng.integers(0, max(1, d), draw.integer(0, d + 2)) if d else []
        elif way == "orders":
            options["order"] = np.array([draw.rng.permutation(d) for _ in range(draw.integer(1, 3))])
        elif way == "seed":
            options["seed"] = draw.integer(0, 9)
    return options


def undecided(call, values, name, eps, roundings, seed):
    """Open the states that go elsewhere when the weights are moved by roundings: a field was as good as 0."""
    rng = np.random.default_rng(seed)
    true = fuzz.run(call, values, "reference").results[0]
    apart = np.zeros(true.shape[:-1], bool)
    for _ in range(RUNS):
        other = moved(values[name], np.abs(values[name]).max(initial=0), ROOM * roundings, eps, rng)
        for way in (other, 2 * values[name] - other):  # to both sides, for what is exactly 0
            apart |= (fuzz.run(call, {**values, name: way}, "reference").results[0] != true).any(axis=-1)
    return np.where(apart[..., None], math.inf, 0.0) + np.zeros(true.shape)


def hopfield_recall_trial(draw):
    d, n = draw.extents(2, 1500)
    options = recall_options(draw, d)
    patterns = np.where(draw.rng.random((n, d)) < 0.5, -1.0, 1.0)
    W = patterns.T @ patterns / max(1, d) if draw.chance(40) else draw.values((d, d))
    arrays = {
        "W": draw.array((d, d), values=W),
        "s": states(draw, d, 20),
        "b": draw.array((d,)) if draw.chance(40) else None,
    }

    def call(W, s, b):
        return hebbian.hopfield_recall(W, s, b, **options)

    def bound(values, expected, eps):
        return [undecided(call, values, "W", eps, d + 4, draw.seed)]

    def open_to(values, expected):
        return [any_not_finite([array for array in arrays.values() if array is not None])]

    return Trial(call, arrays, bound, open_to=open_to, options=options)


def crosstalk_trial(draw):
    n, d = draw.extents(2, 2000)

    def bound(values, expected, eps):
        P = np.abs(values["P"])
        G = P @ P.T / max(1, d)
        return [sum_roundings(n + d) * eps * ((G - np.diag(np.diag(G))) @ P)]

    return Trial(lambda P: hebbian.crosstalk(P), {"P": draw.array((n, d))}, bound, infinities=False)


def degree(draw):
    return draw.one_of((1, 2, 3, 3, 5, 10, math.inf))


def dense_energy_trial(draw):
    n, d = draw.extents(2, 1500)
    power = degree(draw)
    s = states(draw, d) if draw.chance(50) else draw.array((d,) if draw.chance(30) else (draw.integer(0, 9), d))
    P = spins(draw, (n, d)) if draw.chance(60) else draw.array((n, d))

    def bound(values, expected, eps):
        P, s = values["P"], np.atleast_2d(values["s"])
        overlap, size = s @ P.T, np.abs(s) @ np.abs(P).T
        error = sum_roundings(d) * eps * size
        if power == math.inf:
            each = np.exp(overlap) * (np.expm1(error) + (n + 8 + np.abs(overlap)) * eps)
        else:
            each = power * (np.abs(overlap) + error) ** (power - 1) * error
            each = each + (n + power + 8) * eps * np.abs(overlap) ** power
        return [each.sum(axis=1).reshape(expected[0].shape)]

    return Trial(
        lambda P, s: hebbian.dense_hopfield_energy(P, s, degree=power),
        {"P": P, "s": s},
        bound,
        infinities=False,
        options={"degree": power},
    )


def dense_hopfield_trial(draw):
    d, n = draw.extents(2, 600)
    options = {"degree": degree(draw), **recall_options(draw, d)}
    P = spins(draw, (n, d)) if draw.chance(70) else draw.array((n, d))

    def call(P, s):
        return hebbian.dense_hopfield(P, s, **options)

    def bound(values, expected, eps):
        return [undecided(call, values, "P", eps, d + n + 4, draw.seed)]

    arrays = {"P": P, "s": states(draw, d, 9)}
    return Trial(call, arrays, bound, open_to=lambda values, expected: [any_not_finite(P)], options=options)


def modern_hopfield_trial(draw):
    n, d = draw.extents(2, 2000)
    beta = draw.one_of((1.0, draw.number(-2, 8)))
    q = draw.array((d,) if draw.chance(30) else (draw.integer(0, 9), d))

    def bound(values, expected, eps):
        """As of attention: exponents that are off by e change a share by a factor exp(2e) at most."""
        P, q = values["P"], np.atleast_2d(values["q"])
        if not n:
            return [np.zeros(expected[0].shape)]
        scores = beta * (q @ P.T)
        error = 2 * ((d + 4) * eps * abs(beta) * (np.abs(q) @ np.abs(P).T)).max(axis=1) + (n + 24) * eps
        share = np.exp(scores - scores.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        return [(np.expm1(np.minimum(error, 700))[:, None] * (share @ np.abs(P))).reshape(expected[0].shape)]

    return Trial(
        lambda P, q: hebbian.modern_hopfield(P, q, beta),
        {"P": draw.array((n, d)), "q": q},
        bound,
        options={"beta": beta},
    )


def numbers_trial(name, *limits):
    function = getattr(hebbian, name)

    def make(draw):
        numbers = [draw.number(least, most) for least, most in limits]
        if draw.chance(10):
            numbers[0] = draw.one_of((0.0, -1.0, math.nan, "x"))
        return Trial(lambda: function(*numbers), {}, options={"numbers": numbers})

    return make


TRIALS = {
    **{name: plain_trial(name) for name in ("hebb", "oja", "sanger", "subspace")},
    "HebbianPCA": pca_trial,
    "bcm": bcm_trial,
    "capacity": numbers_trial("capacity", (1, 5000), (0.0009765625, 0.4990234375)),
    "ccipca": ccipca_trial,
    "crosstalk": crosstalk_trial,
    "dense_hopfield": dense_hopfield_trial,
    "dense_hopfield_energy": dense_energy_trial,
    "flip_probability": numbers_trial("flip_probability", (1, 5000), (1, 5000)),
    "foldiak": foldiak_trial,
    "hopfield_energy": hopfield_energy_trial,
    "hopfield_recall": hopfield_recall_trial,
    "hopfield_weights": hopfield_weights_trial,
    "krotov": krotov_trial,
    "modern_hopfield": modern_hopfield_trial,
    "soft_hebb": soft_hebb_trial,
}
