"""Finite groups, and convolution of functions on them."""

import itertools
import re
from functools import cache

import numpy as np
import pytest

import fastdl
from cases import group as cases
from fastdl import _group_finite, group
from fastdl.group import Group


class TestGroup:
    def test_s3(self):
        made = Group(cases.S3)
        assert made.order == 6 and made.identity == 0 and not made.abelian
        np.testing.assert_array_equal(made.inverse, [0, 1, 2, 3, 5, 4])
        assert made.classes == [[0], [1, 2, 3], [4, 5]]
        with pytest.raises(ValueError, match="read-only"):
            made.table[0, 0] = 1

    @pytest.mark.parametrize(
        "made, order, classes",
        [
            (Group.cyclic(1), 1, 1),
            (Group.cyclic(7), 7, 7),
            (Group.dihedral(1), 2, 2),
            (Group.dihedral(4), 8, 5),
            (Group.dihedral(5), 10, 4),
            (Group.symmetric(3), 6, 3),
            (Group.symmetric(4), 24, 5),
            (Group.generate([[1, 2, 3, 4, 0]]), 5, 5),
            (Group.generate([[1, 2, 3, 0], [0, 3, 2, 1]]), 8, 5),
            (Group.generate(np.zeros((0, 3), int)), 1, 1),
        ],
    )
    def test_made(self, made, order, classes):
        assert made.order == order and len(made.classes) == classes
        again = Group(made.table)  # which checks all rules
        assert again.identity == made.identity
        np.testing.assert_array_equal(again.inverse, made.inverse)
        if made.permutations is not None:
            x = np.arange(made.permutations.shape[1]) * 10.0
            for a, b in itertools.product(range(order), repeat=2):
                both = x[made.permutations[b]][made.permutations[a]]
                np.testing.assert_array_equal(both, x[made.permutations[made.table[a, b]]])

    def test_planar_tables(self):
        for name, quotient in cases.QUOTIENTS.items():
            made = fastdl._group_table.planar("test", name)
            np.testing.assert_array_equal(made.quotient, quotient)
        np.testing.assert_array_equal(fastdl._group_table.planar("", "p4m").group.inverse, [0, 3, 2, 1, 4, 5, 6, 7])
        np.testing.assert_array_equal(fastdl._group_table.planar("", "p4m").group.table, Group.dihedral(4).table)

    @pytest.mark.parametrize(
        "table, error, message",
        [
            ([[0, 1], [1, 2]], ValueError, r"expected products from 0 to 1 \(closure\), got 2 for \(1, 1\)"),
            ([[0, 1, 2]], ValueError, r"expected a square table .* got shape \(1, 3\)"),
            ([[0.0, 1.0], [1.0, 0.0]], TypeError, "expected table to be integers, got list of float64"),
            ([], ValueError, "expected a square table of at least one element"),
            (
                [[1, 1], [0, 0]],
                ValueError,
                r"expected an identity e .* got none: 0 comes nearest, but \(0, 0\) gives 1",
            ),
            ([[0, 1, 2], [0, 1, 2], [0, 1, 2]], ValueError, r"0 comes nearest, but \(1, 0\) gives 0"),
            ([[0, 1, 2], [1, 0, 1], [2, 1, 0]], ValueError, r"triple \(1, 1, 2\)"),
            ([[0, 1], [1, 1]], ValueError, "expected an inverse of every element, got none of 1"),
            ([[0, 1], [1]], ValueError, "expected table to be a rectangle of integers"),
        ],
    )
    def test_not_a_group(self, table, error, message):
        with pytest.raises(error, match=r"^\[group\.Group\] .*" + message):
            Group(table)

    def test_what_fails_is_named(self, rng):
        """Of tables that are no groups, or nearly one: the message has elements for which the rule does fail."""
        loop = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
        tables, seen = [np.array(loop)], set()
        for _ in range(300):
            n = rng.integers(2, 7)
            table = renamed(Group.cyclic(n).table, rng) if rng.random() < 0.7 else rng.integers(0, n, (n, n))
            table[tuple(rng.integers(0, n, 2))] = rng.integers(0, n + 1)
            tables.append(table)
        # Rows of [0, 1] and [1, 1]: multiplication of 1 and 0, where 0 has no inverse.
        tables += [np.maximum.outer(np.arange(n), np.arange(n)) for n in (2, 3, 5)]
        for table in tables:
            try:
                made = Group(table)
            except ValueError as error:
                message = str(error)
            else:
                seen.add("a group")
                assert (np.sort(made.table) == np.arange(len(table))).all()
                continue
            rule = next(rule for rule in ("closure", "identity", "(ab)c", "inverse") if rule in message)
            seen.add(rule)
            places = [int(i) for i in re.findall(r"\d+", message.rpartition("got")[2])]
            if rule == "closure":
                value, a, b = places
                assert table[a, b] == value and not 0 <= value < len(table)
            elif rule == "identity":
                nearest, a, b, value = places
                assert table[a, b] == value and nearest in (a, b) and value != (b if a == nearest else a)
            elif rule == "(ab)c":
                left, right, a, b, c = places
                assert table[table[a, b], c] == left != right == table[a, table[b, c]]
            else:
                (a,) = places
                e = next(e for e in range(len(table)) if (table[e] == np.arange(len(table))).all())
                assert not ((table[a] == e) & (table[:, a] == e)).any()
        assert seen == {"a group", "closure", "identity", "(ab)c", "inverse"}

    def test_large_tables_are_quick(self):
        assert Group(Group.cyclic(1000).table).order == 1000

    @pytest.mark.parametrize(
        "call, message",
        [
            (lambda: Group.cyclic(0), r"\[group.Group.cyclic\] expected n to be a whole number from 1"),
            (lambda: Group.symmetric(8), "expected n of at most 7"),
            (
                lambda: Group.generate([[0, 0]]),
                "expected every row of generators to permute 0 to 1, got otherwise in row 0",
            ),
        ],
    )
    def test_bad_makers(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()

    def test_order_of_escnn(self):
        """There, element (m, k) is r^k f^m with f the flip of the columns: the same maps of the plane."""
        image = np.arange(9.0).reshape(3, 3)
        for name in cases.GROUPS:
            order = group.escnn_order(name)
            for i in range(cases.order(name)):
                m, k = divmod(int(order[i]), 4) if name == "p4m" else (0, int(order[i]))
                if name == "pm":
                    expected = image[::-1] if k else image
                else:
                    flipped = image[:, ::-1] if m else image
                    expected = np.rot90(flipped, 2 * k if name == "p2" else k)
                np.testing.assert_array_equal(cases.pose(image, name, i), expected)


def product(first, second):
    """The table of the direct product: element (a, b) is a |second| + b."""
    a, b = np.divmod(np.arange(first.order * second.order), second.order)
    return first.table[a[:, None], a] * second.order + second.table[b[:, None], b]


def dicyclic(n):
    """The table of ⟨a, x | a^2n = 1, x² = a^n, x⁻¹ax = a⁻¹⟩, element a^i x^s being 2n s + i; n = 2: the quaternions."""
    s, i = np.divmod(np.arange(4 * n), 2 * n)
    turns = i[:, None] + np.where(s[:, None] == 1, -i, i) + n * (s[:, None] & s)
    return (s[:, None] ^ s) * 2 * n + turns % (2 * n)


def affine(p, root):
    """The table of x → root^s x + i modulo a prime p, s below p - 1: element s p + i."""
    s, i = np.divmod(np.arange(p * (p - 1)), p)
    scale = np.array([pow(root, int(e), p) for e in s])
    return (s[:, None] + s) % (p - 1) * p + (i[:, None] + scale[:, None] * i) % p


def renamed(table, rng):
    """The same group with its elements in another order: the identity is not 0."""
    names = rng.permutation(len(table))
    other = np.empty_like(table)
    other[np.ix_(names, names)] = names[table]
    return other


# With the order of the largest cyclic subgroup.
FINITE = {
    "one": (Group.cyclic(1), 1),
    "C6": (Group.cyclic(6), 6),
    "C97": (Group.cyclic(97), 97),
    "C300": (Group.cyclic(300), 300),
    "D5": (Group.dihedral(5), 5),
    "D150": (Group.dihedral(150), 150),
    "S3": (Group(cases.S3), 3),
    "S4": (Group.symmetric(4), 4),
    "S5": (Group.symmetric(5), 6),
    "S6": (Group.symmetric(6), 6),
    "Q8": (Group(dicyclic(2)), 4),
    "Q200": (Group(renamed(dicyclic(50), np.random.default_rng(1))), 100),
    "C6xS3": (Group(product(Group.cyclic(6), Group.symmetric(3))), 6),
    "C12xC18": (Group(renamed(product(Group.cyclic(12), Group.cyclic(18)), np.random.default_rng(2))), 36),
    "affine": (Group(affine(17, 3)), 17),
}


@pytest.fixture(params=list(FINITE))
def made(request):
    return FINITE[request.param][0]


@pytest.fixture(params=["chosen", "sums", "transforms"])
def way(request, monkeypatch):
    """Convolve as it is chosen, and as it would not be."""
    if request.param != "chosen":
        monkeypatch.setattr(_group_finite, "_transforms_pay", lambda *_: request.param == "transforms")
    return request.param


def naive(f, h, made):
    """The sum over v of f(u v⁻¹) h(v), as it stands, in extended precision."""
    f, h = f.astype(np.longdouble), h.astype(np.longdouble)
    result = np.zeros(np.broadcast_shapes(f.shape, h.shape), np.longdouble)
    for v in range(made.order):
        result += f[..., made.table[:, made.inverse[v]]] * h[..., v, None]
    return result


def norms(f, h):
    """The largest |f * h| can be: the product of their norms, by Cauchy and Schwarz."""
    return np.linalg.norm(f, axis=-1, keepdims=True) * np.linalg.norm(h, axis=-1, keepdims=True)


def bound(f, h, made, dtype):
    """How far a convolution may be off, as in docs/group.md: by roundings of the sum, or of transforms in double."""
    sums = (made.order + 4) * np.finfo(dtype).eps * naive(abs(f), abs(h), made)
    m = len(made.cycle)
    in_double = (8 * np.log2(2 * m) + made.order / m + 8) * np.finfo(np.float64).eps * norms(f, h)
    return np.maximum(sums, np.finfo(dtype).eps * abs(naive(f, h, made)) + in_double)


SHAPES = [
    ((), ()),
    ((5,), ()),
    ((), (3,)),
    ((2,), (2,)),
    ((3, 1), (1, 4)),
    ((2, 3, 1), (3, 2)),
    ((1, 2), (3, 1)),
    ((2, 1, 3), (2, 2, 1)),
    ((70,), ()),
    ((), (40,)),
    ((33,), (33,)),
    ((20, 1), (2,)),
]


@cache
def drawn(name, dtype):
    """Pairs of all shapes that take no time, with what they give and how far that may be off."""
    rng, made = np.random.default_rng(3), FINITE[name][0]
    pairs = []
    for shapes in SHAPES:
        if made.order**2 * np.prod(np.broadcast_shapes(*shapes)) < 3e6:
            f, h = (rng.standard_normal((*shape, made.order)).astype(dtype) for shape in shapes)
            pairs.append((f, h, naive(f, h, made), bound(f, h, made, dtype)))
    return pairs


class TestConvolve:
    @pytest.mark.parametrize("name", list(FINITE))
    def test_largest_cyclic_subgroups(self, name):
        made, size = FINITE[name]
        cycle = made.cycle
        assert len(cycle) == size and cycle[0] == made.identity
        # It is the powers of one element, and no element has more.
        np.testing.assert_array_equal(made.table[cycle, cycle[1 % size]], np.roll(cycle, -1))
        for a in range(made.order):
            power, count = a, 1
            while power != made.identity:
                power, count = made.table[power, a], count + 1
            assert count <= size

    @pytest.mark.parametrize("name", list(FINITE))
    def test_against_the_sum(self, level, way, dtype, name):
        made = FINITE[name][0]
        for f, h, expected, allowed in drawn(name, dtype):
            found = group.convolve(f, h, made)
            assert found.shape == expected.shape and found.dtype == dtype and found.flags.c_contiguous
            assert (np.abs(found - expected) <= allowed).all(), (f.shape, h.shape)

    def test_empty(self, level, way, made):
        f, none = np.ones(made.order, np.float32), np.ones((0, made.order), np.float32)
        for one, other, shape in [
            (f, none, (0,)),
            (none, f, (0,)),
            (none, none, (0,)),
            (none[:, None], f[None], (0, 1)),
        ]:
            found = group.convolve(one, other, made)
            assert found.shape == (*shape, made.order) and found.dtype == np.float32

    def test_strange_arrays(self, level, way, rng):
        """Views that are not contiguous, read-only ones, integers, mixed types; nothing is written to."""
        made = FINITE["D150"][0]
        store = rng.integers(-9, 9, (2, made.order, 6))
        f, h = store[0].T, store[1, ::-1, ::2].T
        before = store.copy()
        store.flags.writeable = False
        found = group.convolve(f, h[:, None], made)
        assert found.dtype == np.float64 and found.shape == (3, 6, made.order)
        np.testing.assert_allclose(found, naive(f, h[:, None], made).astype(float), rtol=0, atol=1e-8)
        assert group.convolve(f.astype(np.float32), h[0], made).dtype == np.float64
        np.testing.assert_array_equal(store, before)

    def test_identities(self, level, way, rng, made):
        f, g, h = rng.standard_normal((3, made.order))
        unit = np.eye(made.order)
        size = norms(f, h)[0] * np.linalg.norm(g)
        allowed = 100 * made.order * np.finfo(float).eps * size
        impulse = unit[made.identity]
        np.testing.assert_allclose(group.convolve(f, impulse, made), f, rtol=0, atol=allowed)
        np.testing.assert_allclose(group.convolve(impulse, f, made), f, rtol=0, atol=allowed)
        left = group.convolve(group.convolve(f, g, made), h, made)
        right = group.convolve(f, group.convolve(g, h, made), made)
        np.testing.assert_allclose(left, right, rtol=0, atol=allowed)
        # An impulse at a shifts: f * δ_a (u) = f(u a⁻¹), and δ_a * f (u) = f(a⁻¹ u).
        a = rng.integers(made.order)
        shifts = made.table[:, made.inverse[a]], made.table[made.inverse[a]]
        np.testing.assert_allclose(group.convolve(f, unit[a], made), f[shifts[0]], rtol=0, atol=allowed)
        np.testing.assert_allclose(group.convolve(unit[a], f, made), f[shifts[1]], rtol=0, atol=allowed)
        # Shifts from the left go through: (L_a f) * h = L_a (f * h).
        moved = group.convolve(f[shifts[1]], h, made)
        np.testing.assert_allclose(moved, group.convolve(f, h, made)[shifts[1]], rtol=0, atol=allowed)
        if made.abelian:
            np.testing.assert_allclose(group.convolve(h, f, made), group.convolve(f, h, made), rtol=0, atol=allowed)

    @pytest.mark.parametrize("name", ["S3", "D150", "S4", "S5", "S6", "Q8"])
    def test_convolution_theorem(self, level, way, rng, name):
        """Σ_g (f * h)(g) ρ(g) = Σ_g f(g) ρ(g) · Σ_g h(g) ρ(g) for a representation ρ."""
        made = FINITE[name][0]
        rho = representation(name, made)
        a, b = rng.integers(made.order, size=(2, 50))
        np.testing.assert_allclose(rho[made.table[a, b]], rho[a] @ rho[b], atol=1e-13)
        f, h = rng.standard_normal((2, made.order))
        both = group.convolve(f, h, made)
        left, right, product = (np.tensordot(values, rho, 1) for values in (f, h, both))
        allowed = 100 * made.order**2 * np.finfo(float).eps * norms(f, h)[0]
        np.testing.assert_allclose(product, left @ right, rtol=0, atol=allowed)

    def test_around_a_cycle(self, level, way, dtype, rng):
        """On a cyclic group, its elements in any order, it is a product of discrete Fourier transforms."""
        names = rng.permutation(300)
        table = np.empty((300, 300), int)
        table[np.ix_(names, names)] = names[(np.arange(300)[:, None] + np.arange(300)) % 300]
        f, h = rng.standard_normal((2, 4, 300)).astype(dtype)
        found = group.convolve(f, h[:1], Group(table))
        expected = np.empty((4, 300))
        spectrum = np.fft.fft(f[:, names].astype(float)) * np.fft.fft(h[:1, names].astype(float))
        expected[:, names] = np.fft.ifft(spectrum).real
        assert found.dtype == dtype and found.shape == (4, 300)
        assert (np.abs(found - expected) <= 304 * np.finfo(dtype).eps * norms(f, h[:1])).all()

    @pytest.mark.parametrize("name", ["C300", "D150", "C12xC18", "S4"])
    def test_numbers_that_are_not_finite(self, level, way, rng, name):
        """They go where the sum takes them, in the functions that have them: signs, and NaN for differences, too."""
        made = FINITE[name][0]
        f, h = rng.standard_normal((3, made.order)), 1 + rng.random((3, made.order))
        f[0, 2], f[1, 3] = np.inf, np.nan
        for one, other in ((f, h), (f, h[0]), (h, f), (h[0], f[:, None])):
            found = group.convolve(one, other, made)
            with np.errstate(invalid="ignore"):
                expected = naive(one, other, made).astype(float)
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
            np.testing.assert_array_equal(found[~np.isfinite(found)], expected[~np.isfinite(expected)])
        f[0, 3] = -np.inf
        assert np.isnan(group.convolve(f, h, made)[0]).all()

    @pytest.mark.parametrize("name", ["C300", "D150", "C12xC18", "S4"])
    def test_numbers_near_the_ends_of_the_type(self, level, way, dtype, rng, name):
        made = FINITE[name][0]
        f, h = (1 + rng.random((2, 2, made.order))).astype(dtype)
        once = group.convolve(f, h, made)
        edge = np.finfo(dtype)
        large = dtype.type(2.0 ** (edge.maxexp - 3) / made.order)
        with np.errstate(under="ignore"):
            for scale, other in ((large, dtype.type(0.25)), (edge.tiny, large), (edge.tiny, dtype.type(1))):
                found = group.convolve(f * scale, h * other, made)
                expected = once.astype(np.longdouble) * scale * other
                np.testing.assert_allclose(
                    found, expected.astype(dtype), rtol=1e3 * edge.eps, atol=edge.tiny * 1e3 * edge.eps
                )
        # And beyond, without a warning.
        assert np.isinf(group.convolve(f * large, h * large, made)).all()

    def test_what_is_chosen(self, native, monkeypatch, rng):
        """Sums for small groups, transforms for large ones with a large cyclic subgroup, and sooner for pairs."""
        ways = []
        for name in ("_by_sums", "_by_transforms"):
            original = getattr(_group_finite, name)
            monkeypatch.setattr(
                _group_finite,
                name,
                lambda *values, name=name, original=original: (ways.append(name), original(*values))[1],
            )

        def ways_of(made, first, second=()):
            ways.clear()
            group.convolve(np.ones((*first, made.order)), np.ones((*second, made.order)), made)
            return ways

        assert ways_of(Group.dihedral(4), ()) == []
        assert ways_of(Group.symmetric(5), (40,)) == []
        assert ways_of(Group.symmetric(5), (40,), (40,)) == ["_by_sums"]
        assert ways_of(Group.dihedral(256), ()) == ["_by_transforms"]
        assert ways_of(Group.cyclic(256), ()) == ["_by_transforms"]
        assert ways_of(Group.dihedral(32), ()) == []
        assert ways_of(Group.dihedral(32), (1000,), (1000,)) == ["_by_transforms"]

    @pytest.mark.parametrize("name", ["S5", "D150", "C300"])
    def test_threads(self, native_level, way, dtype, rng, keep_threads, name):
        made = FINITE[name][0]
        f, h = rng.standard_normal((2, 40, made.order)).astype(dtype)
        for second in (h, h[0]):
            results = []
            for threads in (1, 2, 5):
                fastdl.set_num_threads(threads)
                results.append(group.convolve(f, second, made))
            np.testing.assert_array_equal(results[0], results[1])
            np.testing.assert_array_equal(results[0], results[2])

    def test_tensors(self, level, way, dtype, rng):
        torch = pytest.importorskip("torch")
        for name in ("S4", "D150", "C300"):
            made = FINITE[name][0]
            f, h = rng.standard_normal((2, 3, made.order)).astype(dtype)
            for one, other in ((f, h), (f, h[0]), (f[:, None], h)):
                found = group.convolve(torch.from_numpy(one), torch.from_numpy(other), made)
                assert isinstance(found, torch.Tensor) and found.dtype == getattr(torch, dtype.name)
                assert (np.abs(found.numpy() - naive(one, other, made)) <= bound(one, other, made, dtype)).all()

    def test_names_and_tables(self, level, rng):
        f, h = rng.standard_normal((2, 8))
        expected = group.convolve(f, h, Group.dihedral(4))
        np.testing.assert_array_equal(group.convolve(f, h, "p4m"), expected)
        np.testing.assert_array_equal(group.convolve(f, h, Group.dihedral(4).table), expected)

    def test_bad_input(self, level):
        for call, error, message in [
            (lambda: group.convolve(np.ones(3), np.ones(4), "p4"), ValueError, "expected f with the 4 elements"),
            (lambda: group.convolve(np.ones(4), np.ones((4, 2)), "p4"), ValueError, "expected h with the 4 elements"),
            (lambda: group.convolve(np.ones((2, 4)), np.ones((3, 4)), "p4"), ValueError, "shapes that broadcast"),
            (
                lambda: group.convolve(np.ones(4), np.ones(4), "p6"),
                ValueError,
                "expected group to be one of p4, p4m, p2, pm",
            ),
            (lambda: group.convolve(np.ones(4), np.ones(4), 4), TypeError, "expected group to be a Group, a table or"),
            (lambda: group.convolve(np.ones(4), np.array("a"), "p4"), TypeError, "expected h of dtype"),
        ]:
            with pytest.raises(error, match=r"^\[group\.convolve\] .*" + message):
                call()
        with pytest.raises(ValueError, match=r"^\[group\.Group\] expected \(ab\)c = a\(bc\)"):
            group.convolve(np.ones(3), np.ones(3), [[0, 1, 2], [1, 0, 1], [2, 1, 0]])


def representation(name, made):
    """Matrices (order, d, d) that multiply as the elements do."""
    if made.permutations is not None:
        return np.eye(made.permutations.shape[1])[made.permutations]
    if name == "Q8":
        i, x = np.array([[1j, 0], [0, -1j]]), np.array([[0, 1], [-1, 0]])
        return np.array(
            [np.linalg.matrix_power(i, r) @ np.linalg.matrix_power(x, s) for s in range(2) for r in range(4)]
        )

    def flip(angle):
        return np.array([[np.cos(angle), np.sin(angle)], [np.sin(angle), -np.cos(angle)]])

    if name == "S3":  # e, three flips, and two turns of which the first is ab
        a, b, c = (flip(2 * np.pi * i / 3) for i in range(3))
        return np.array([np.eye(2), a, b, c, a @ b, a @ c])
    n = made.order // 2  # a dihedral group: element m n + r turns r times and then flips if m is 1
    angles = 2 * np.pi * np.arange(n) / n
    turns = np.array([[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in angles])
    return np.concatenate([turns, flip(0) @ turns])
