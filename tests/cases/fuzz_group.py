"""Groups, on arrays and options at random: both backends agree, on every instruction set."""

import itertools
import math

import numpy as np

from cases import fuzz, fuzz_draw
from cases.fuzz import Trial, any_not_finite, sum_roundings
from cases.group import GROUPS, order
from fastdl import conv, group

ACTIVATIONS = (None, None, "relu", "leaky_relu", "sigmoid", "tanh")
DOUBLE = float(np.finfo(np.float64).eps)


# ---- layers on the groups of the plane ----
def place(draw):
    """Stride and padding, one for both axes or one for each."""
    stride = draw.one_of((1, 1, 2, 3, (1, 2), (2, 1)))
    padding = draw.one_of((0, 1, 2, (0, 2), "valid", "full", *(("same",) if stride == 1 else ())))
    return {"stride": stride, "padding": padding}


def shapes(draw, elements, lift):
    """Shapes of x and w that nearly always fit each other."""
    n, inputs, outputs, height, width = draw.extents(5, 3000 // elements)
    k = draw.one_of((1, 2, 3, 3, 4, 5))
    if draw.chance(50):
        width = height
    if not draw.chance(5):
        height, width = max(height, k), max(width, k)
    inner = () if lift else (elements,)
    return (n, inputs, *inner, height, width), (outputs, inputs, *inner, k, k)


def result_size(x_shape, w_shape, elements, options):
    k = w_shape[-1]
    stride, padding = options["stride"], options["padding"]
    stride = (stride, stride) if isinstance(stride, int) else stride
    words = {"valid": 0, "full": 2 * (k - 1), "same": k - 1}
    if isinstance(padding, str):
        added = (words[padding],) * 2
    else:
        added = (2 * padding,) * 2 if isinstance(padding, int) else tuple(2 * p for p in padding)
    size = [max(0, (m + p - k) // s + 1) for m, p, s in zip(x_shape[-2:], added, stride, strict=True)]
    return (x_shape[0], w_shape[0], elements, *size)


def spread_over(axes, algorithm, filters):
    """Open what lies along some axes with what is not finite to anything: orbits mix it.

    Filters are mixed with all their poses. `algorithm="expand"` has neither.
    """

    def open_to(values, expected):
        if algorithm == "expand":
            return [False]
        if filters is not None and any_not_finite(filters):
            return [True]
        return [~np.isfinite(expected[0]).all(axis=axes, keepdims=True)]

    return open_to


def layer_trial(lift):
    def make(draw):
        name = draw.one_of(GROUPS)
        x_shape, w_shape = shapes(draw, order(name), lift)
        options = {"group": name, **place(draw), "algorithm": draw.one_of(("auto", "expand", "orbit"))}
        activation = draw.one_of(ACTIVATIONS)
        function = group.lift_conv2d if lift else group.conv2d
        arrays = {"x": draw.array(x_shape), "w": draw.array(w_shape), "bias": None}
        if draw.chance(50):
            arrays["bias"] = draw.array(w_shape[:1])
        terms = math.prod(w_shape[1:]) + 1
        linear = fuzz.by_any_algorithm(lambda x, w, bias: function(x, w, bias, **options), terms, draw.kind, "x")

        def bound(values, expected, eps):
            return [error + (8 * eps if activation else 0) for error in linear(values, expected, eps)]

        def open_to(values, expected):
            # Seen before the activation, which makes numbers of what is not finite.
            plain = fuzz.run(lambda x, w, bias: function(x, w, bias, **options), arrays, "reference").results
            return spread_over((2,), options["algorithm"], arrays["w"])(values, plain)

        return Trial(
            lambda x, w, bias: function(x, w, bias, activation=activation, **options),
            arrays,
            bound,
            open_to=open_to,
            options={"activation": activation, **options},
        )

    return make


def input_trial(lift):
    def make(draw):
        name = draw.one_of(GROUPS)
        x_shape, w_shape = shapes(draw, order(name), lift)
        options = {"group": name, **place(draw), "algorithm": draw.one_of(("auto", "expand", "orbit"))}
        function = group.lift_conv2d_input if lift else group.conv2d_input
        arrays = {
            "w": draw.array(w_shape),
            "grad": draw.array(result_size(x_shape, w_shape, order(name), options)),
        }

        def call(w, grad):
            return function(x_shape, w, grad, **options)

        terms = w_shape[0] * order(name) * w_shape[-1] ** 2
        touched = spread_over((2,) if not lift else (), options["algorithm"], arrays["w"])

        def open_to(values, expected):
            # As the input gradient of a convolution: beyond the edges such a tap of a filter meets zeros.
            return [True] if any_not_finite(arrays["w"]) else touched(values, expected)

        return Trial(
            call,
            arrays,
            fuzz.by_any_algorithm(call, terms, draw.kind, "grad"),
            open_to=open_to,
            options={"input_size": x_shape, **options},
        )

    return make


def weight_trial(lift):
    def make(draw):
        name = draw.one_of(GROUPS)
        x_shape, w_shape = shapes(draw, order(name), lift)
        options = {"group": name, **place(draw), "algorithm": draw.one_of(("auto", "expand", "orbit"))}
        function = group.lift_conv2d_weight if lift else group.conv2d_weight
        grad_shape = result_size(x_shape, w_shape, order(name), options)
        arrays = {"x": draw.array(x_shape), "grad": draw.array(grad_shape)}

        def call(x, grad):
            return function(x, w_shape, grad, **options)

        terms = grad_shape[0] * math.prod(grad_shape[2:])
        return Trial(
            call,
            arrays,
            fuzz.by_any_algorithm(call, terms, draw.kind, "x", "grad"),
            open_to=spread_over((2, 3) if lift else (2, 3, 4), options["algorithm"], None),
            options={"weight_size": w_shape, **options},
        )

    return make


def expand_filters_trial(draw):
    name, lift = draw.one_of(GROUPS), draw.chance(50)
    _, w_shape = shapes(draw, order(name), lift)
    return Trial(
        lambda w: group.expand_filters(w, name, lift),
        {"w": draw.array(w_shape)},
        options={"group": name, "lift": lift},
    )


def act_trial(draw):
    name = draw.one_of(GROUPS)
    x_shape, _ = shapes(draw, order(name), draw.chance(50))
    element = draw.integer(0, order(name) - (0 if draw.chance(5) else 1))
    return Trial(
        lambda x: group.act(x, element, name), {"x": draw.array(x_shape)}, options={"g": element, "group": name}
    )


def pool_trial(draw):
    shape = draw.extents(5, 4000)
    mode = draw.one_of(("max", "mean", "sum", "l2"))

    def bound(values, expected, eps):
        if mode == "max":
            return fuzz.is_exact(values, expected, eps)
        return [sum_roundings(shape[2]) * eps * size for size in fuzz.sizes(call, values)]

    def call(x):
        return group.pool(x, mode)

    return Trial(call, {"x": draw.array(shape)}, bound, options={"mode": mode})


# ---- turns by any angle ----
def se2_filters_trial(draw):
    rotations, lift = draw.integer(1, 9), draw.chance(50)
    interpolation = draw.one_of(("bilinear", "bicubic"))
    _, w_shape = shapes(draw, rotations, lift)

    def bound(values, expected, eps):
        # Weights of the four or sixteen pixels around a point have a sum of sizes below 2.
        return [(w_shape[-1] ** 2 + 4) * eps * 2 * np.abs(values["w"]).max(initial=0)]

    return Trial(
        lambda w: group.se2_filters(w, rotations, lift, interpolation),
        {"w": draw.array(w_shape)},
        bound,
        options={"rotations": rotations, "lift": lift, "interpolation": interpolation},
    )


def se2_layer_trial(lift):
    def make(draw):
        rotations = draw.integer(1, 9)
        options = {"rotations": rotations, "interpolation": draw.one_of(("bilinear", "bicubic"))}
        where = place(draw)
        activation = draw.one_of(ACTIVATIONS)
        x_shape, w_shape = shapes(draw, rotations, lift)
        function = group.se2_lift_conv2d if lift else group.se2_conv2d
        arrays = {"x": draw.array(x_shape), "w": draw.array(w_shape), "bias": None}
        if draw.chance(50):
            arrays["bias"] = draw.array(w_shape[:1])

        def bound(values, expected, eps):
            """Bound a convolution with turned filters, which are the same for both backends, but rounded."""
            x, w, bias = values["x"], values["w"], values["bias"]
            filters = fuzz.run(group.se2_filters, {"w": w, **options, "lift": lift}, "reference").results[0]
            maps = {"x": x.reshape(x.shape[0], filters.shape[1], *x.shape[-2:]), "w": filters}
            linear = fuzz.by_any_algorithm(
                lambda x, w: conv.conv2d(x, w, **where), math.prod(w_shape[1:]), draw.kind, "x"
            )
            added = 0 if bias is None else 4 * eps * np.abs(bias).max(initial=0)
            return [error.reshape(expected[0].shape) + added + 8 * eps for error in linear(maps, expected, eps)]

        return Trial(
            lambda x, w, bias: function(x, w, bias, activation=activation, **options, **where),
            arrays,
            bound,
            options={"activation": activation, **options, **where},
        )

    return make


# ---- finite groups ----
def finite_group(draw):
    kind = draw.one_of(("cyclic", "cyclic", "dihedral", "symmetric", "planar", "table"))
    if kind == "cyclic":
        return group.Group.cyclic(draw.integer(1, 300 if draw.chance(30) else 70))
    if kind == "dihedral":
        return group.Group.dihedral(draw.integer(1, 130 if draw.chance(30) else 35))
    if kind == "symmetric":
        return group.Group.symmetric(draw.integer(1, 4))
    return draw.one_of(GROUPS) if kind == "planar" else group.Group.dihedral(3).table


def order_of(found):
    return order(found) if isinstance(found, str) else len(found) if isinstance(found, np.ndarray) else found.order


def convolve_trial(draw):
    found = finite_group(draw)
    n = order_of(found)
    batch = draw.extents(draw.integer(0, 2), 40)
    way = draw.one_of(("pairs", "one f", "one h", "both", "broadcast"))
    first, second = {
        "pairs": (batch, batch),
        "one f": ((), batch),
        "one h": (batch, ()),
        "both": ((), ()),
        "broadcast": ((*batch, 1), (1,) * len(batch) + (draw.integer(1, 4),)),
    }[way]

    def call(f, h):
        return group.convolve(f, h, found)

    def bound(values, expected, eps):
        """Allow the sum its roundings, and transforms, always in double, those that docs/group.md tells of."""
        norms = [np.linalg.norm(values[name], axis=-1, keepdims=True) for name in ("f", "h")]
        transforms = (8 * math.log2(2 * n) + n + 8) * DOUBLE * norms[0] * norms[1]
        size = fuzz.sizes(call, values)[0]
        return [(n + 4) * eps * size + transforms]

    arrays = {"f": draw.array((*first, n)), "h": draw.array((*second, n))}
    return Trial(call, arrays, bound, options={"order": n, "way": way})


def is_group(table):
    """Look at all the axioms by themselves."""
    n, elements = len(table), range(len(table))
    if not all(0 <= table[a][b] < n for a in elements for b in elements):
        return False
    units = [e for e in elements if all(table[e][a] == a == table[a][e] for a in elements)]
    if not units or not all(any(table[a][b] == units[0] == table[b][a] for b in elements) for a in elements):
        return False
    return all(
        table[table[a][b]][c] == table[a][table[b][c]] for a, b, c in itertools.product(elements, elements, elements)
    )


def table_trial(draw):
    """The table of a group with its elements renamed, sometimes with an entry that is wrong."""
    made = draw.one_of((group.Group.cyclic(draw.integer(1, 8)), group.Group.dihedral(draw.integer(1, 4))))
    names = draw.rng.permutation(made.order)
    table = np.empty_like(made.table)
    table[np.ix_(names, names)] = names[made.table]
    if draw.chance(40):
        table[draw.rng.integers(len(table)), draw.rng.integers(len(table))] = draw.rng.integers(-1, len(table) + 1)
    given = draw.lay(table.astype(draw.one_of((np.int64, np.int32, np.int8))), fuzz_draw.KEEPING)
    accepted = fuzz.run(group.Group, {"table": given}, "native").error is None
    assert accepted == is_group(table.tolist())

    def call():
        found = group.Group(given)
        members = np.array([member for part in found.classes for member in part])
        return [found.table, found.inverse, found.quotient, found.cycle, members, np.array(found.abelian)]

    return Trial(call, {}, options={"table": table.tolist()})


def escnn_order_trial(draw):
    name = draw.one_of((*GROUPS, "p6"))
    return Trial(lambda: group.escnn_order(name), {}, options={"group": name})


# ---- orbits ----
def permutations(draw, d, most=fuzz_draw.LARGEST):
    count = draw.integer(0 if draw.chance(10) else 1, most)
    rows = np.array([draw.rng.permutation(d) for _ in range(count)]).reshape(count, d)
    if d > 1 and count and draw.chance(4):
        rows[-1, 0] = rows[-1, 1]
    return draw.lay(rows.astype(draw.one_of((np.int64, np.int32, np.uint8))), fuzz_draw.KEEPING)


def average_trial(draw):
    shape = draw.extents(draw.integer(1, 3), 2000)
    orders = permutations(draw, shape[-1], 20)
    function = draw.one_of((None, None, lambda values: values * values))

    def call(x):
        return group.average(x, orders, function)

    return Trial(call, {"x": draw.array(shape)}, fuzz.of_sums(call, sum_roundings(len(orders))), infinities=False)


def orbit_gramian_trial(draw):
    d = draw.extents(1, 70)[0]
    orders = permutations(draw, d)

    def call(t):
        return group.orbit_gramian(t, orders)

    return Trial(call, {"t": draw.array((d,))}, fuzz.of_sums(call, sum_roundings(d)))


def orbit_regularizer_trial(draw):
    d, n = draw.extents(2, 100, most=10)
    sigma = draw.one_of((draw.number(0.125, 8), draw.number(0.125, 8), 1e-300, 1e300))

    def bound(values, expected, eps):
        """All is in double but the gradient at its end. With t = Δ/σ, no slope of exp(-t²) or t exp(-t²) is above 1."""
        W = values["W"]
        G = W.T @ W
        error = (d + 4) * DOUBLE * (np.abs(W).T @ np.abs(W))
        difference = np.abs(G[:, :, None, None] - G[None, None])  # k, i, l, j
        off = (error[:, :, None, None] + error[None, None] + 2 * DOUBLE * difference) / sigma
        weights = 1 + n * np.eye(n)[None, :, None, :]
        near = np.exp(-np.square(difference / sigma))
        value = np.sum(weights * (np.minimum(off, 1) + (n**4 + 8) * DOUBLE * near))
        slope = np.sum(weights * (np.minimum(off, 1) + 8 * DOUBLE), axis=(2, 3)) * 4 / sigma
        size = np.sum(weights * (difference / sigma) * near, axis=(2, 3)) * 4 / sigma
        slope = slope + (n * n + 8) * DOUBLE * size
        gradient = np.abs(W) @ (slope + slope.T) + (n + 4) * DOUBLE * (np.abs(W) @ (size + size.T))
        return [value, gradient + 2 * eps * np.abs(np.nan_to_num(expected[1]))]

    return Trial(
        lambda W: group.orbit_regularizer(W, sigma),
        {"W": draw.array((d, n))},
        bound,
        infinities=False,
        options={"sigma": sigma},
    )


def permutation_layer_trial(draw):
    if draw.chance(50):
        lam, gam = draw.number(-3, 3), draw.number(-3, 3)
        x = draw.array(draw.extents(draw.integer(1, 3), 3000))

        def bound(values, expected, eps):
            x = np.abs(values["x"])
            return [sum_roundings(x.shape[-1]) * eps * (abs(lam) * x + abs(gam) * x.sum(axis=-1, keepdims=True))]

        return Trial(lambda x: group.permutation_layer(x, lam, gam), {"x": x}, bound, options={"lam": lam, "gam": gam})
    *batch, n, inputs = draw.extents(draw.integer(2, 4), 3000)
    outputs = draw.integer(0, 9)
    arrays = {
        "x": draw.array((*batch, n, inputs)),
        "lam": draw.array((inputs, outputs)),
        "gam": draw.array((inputs, outputs)),
    }
    return Trial(group.permutation_layer, arrays, fuzz.of_sums(group.permutation_layer, sum_roundings(n + inputs)))


def set_pool_trial(draw):
    shape = draw.extents(draw.integer(2, 4), 4000)
    mode = draw.one_of(("sum", "mean", "max"))

    def call(x):
        return group.set_pool(x, mode)

    bound = None if mode == "max" else fuzz.of_sums(call, sum_roundings(shape[-2]))
    return Trial(call, {"x": draw.array(shape)}, bound, options={"mode": mode})


def signature_trial(draw):
    n, m, d = draw.extents(3, 1500)
    orders = permutations(draw, d, 40)
    name = draw.one_of(("step", "cdf", "sigmoid", "tanh", "relu"))
    thresholds = None if draw.chance(30) else [draw.number(-3, 3) for _ in range(draw.integer(0, 3))]
    moments = None if draw.chance(40) else [draw.integer(0, 4) for _ in range(draw.integer(0, 3))]
    cuts = [0.0] if thresholds is None and moments is None else thresholds or []

    def bound(values, expected, eps):
        x, t = values["x"], values["templates"]
        orbit = t[:, orders]  # m, order, d
        products = np.einsum("nd,mgd->nmg", x, orbit)
        error = sum_roundings(d) * eps * np.einsum("nd,mgd->nmg", np.abs(x), np.abs(orbit))
        count = len(orders)
        found = []
        for cut in cuts:
            z, off = products - cut, error + 2 * eps * (np.abs(products) + abs(cut))
            if name in ("step", "cdf"):
                found.append((np.abs(z) <= off).sum(axis=-1))  # those that may be on either side
            else:
                size = np.maximum(z, 0) if name == "relu" else 1
                each = off + (count + 8) * eps * size
                found.append(each.sum(axis=-1))
        for power in moments or []:
            size = np.abs(products) + error
            steep = power * size ** max(0, power - 1) * error
            found.append((steep + (count + power + 8) * eps * size**power).sum(axis=-1))
        return [np.stack(found, axis=-1) if found else np.zeros((n, m, 0))]

    return Trial(
        lambda x, templates: group.signature(x, templates, orders, thresholds, moments, name),
        {"x": draw.array((n, d)), "templates": draw.array((m, d))},
        bound,
        options={"thresholds": thresholds, "moments": moments, "nonlinearity": name},
    )


TRIALS = {
    "EquivarianceWarning": lambda draw: layer_trial(draw.chance(50))(draw),
    "Group": table_trial,
    "act": act_trial,
    "average": average_trial,
    "conv2d": layer_trial(False),
    "conv2d_input": input_trial(False),
    "conv2d_weight": weight_trial(False),
    "convolve": convolve_trial,
    "escnn_order": escnn_order_trial,
    "expand_filters": expand_filters_trial,
    "lift_conv2d": layer_trial(True),
    "lift_conv2d_input": input_trial(True),
    "lift_conv2d_weight": weight_trial(True),
    "orbit_gramian": orbit_gramian_trial,
    "orbit_regularizer": orbit_regularizer_trial,
    "permutation_layer": permutation_layer_trial,
    "pool": pool_trial,
    "se2_conv2d": se2_layer_trial(False),
    "se2_filters": se2_filters_trial,
    "se2_lift_conv2d": se2_layer_trial(True),
    "set_pool": set_pool_trial,
    "signature": signature_trial,
}
