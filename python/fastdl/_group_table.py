"""Finite groups as tables, and the symmetries of the plane that the layers know by name."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastdl._arrays import kind
from fastdl._conv_checks import whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastdl._arrays import HostArray

# Elements of a group that is made from generators, at most: its table has the square of that.
MOST_ELEMENTS = 20_000


class Group:
    """A finite group, given by its table.

    Parameters
    ----------
    table : integers of shape (order, order)
        ``table[a][b]`` is the product ab. Elements are the numbers from 0 to order - 1.

    Attributes
    ----------
    order : int
        How many elements there are.
    table : array of int64, read-only
    inverse : array of int64, read-only
        The inverse of every element.
    identity : int
    permutations : array of int64 of shape (order, d), or None
        Of a group made by `generate` or `symmetric`, how its elements act: ``(g x)[i] = x[permutations[g, i]]``.

    Raises
    ------
    ValueError
        If the table is not that of a group; the message names elements for which it fails.
    TypeError
        If it is not of integers.

    Examples
    --------
    >>> from fastdl.group import Group
    >>> group = Group([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    >>> group.order, group.identity, group.inverse
    (3, 0, array([0, 2, 1]))
    """

    __slots__ = ("_cosets", "_cycle", "_quotient", "identity", "inverse", "order", "permutations", "table")

    def __init__(self, table: Any) -> None:
        where = "group.Group"
        numbers = _integers(where, "table", table)
        if numbers.ndim != 2 or numbers.shape[0] != numbers.shape[1] or not len(numbers):
            raise ValueError(f"[{where}] expected a square table of at least one element, got shape {numbers.shape}")
        n = len(numbers)
        outside = np.argwhere((numbers < 0) | (numbers >= n))
        if len(outside):
            a, b = (int(i) for i in outside[0])
            raise ValueError(
                f"[{where}] expected products from 0 to {n - 1} (closure), got {int(numbers[a, b])} for ({a}, {b})"
            )
        self.identity = _identity(where, numbers)
        _associative(where, numbers)
        self.inverse = _inverses(where, numbers, self.identity)
        self.order = n
        self.table = _read_only(numbers)
        self.permutations: HostArray | None = None
        self._quotient: HostArray | None = None
        self._cycle: HostArray | None = None
        self._cosets: Any = None

    @property
    def quotient(self) -> HostArray:
        """The table of a⁻¹b, made when it is first wanted."""
        if self._quotient is None:
            self._quotient = _read_only(self.table[self.inverse])
        return self._quotient

    @property
    def cycle(self) -> HostArray:
        """The powers of an element of which there are most, in their order: the largest cyclic subgroup."""
        if self._cycle is None:
            longest, seen = [self.identity], np.zeros(self.order, bool)
            for a in range(self.order):
                if seen[a] or len(longest) == self.order:
                    continue
                row, powers, at = self.table[a], [self.identity], a
                while at != self.identity:
                    powers.append(at)
                    at = int(row[at])
                seen[powers] = True  # which have no more powers than a
                longest = max(longest, powers, key=len)
            self._cycle = _read_only(np.array(longest, np.int64))
        return self._cycle

    def __repr__(self) -> str:
        return f"<fastdl.group.Group of order {self.order}>"

    @property
    def abelian(self) -> bool:
        """Whether ab = ba for all elements."""
        return bool(np.array_equal(self.table, self.table.T))

    @property
    def classes(self) -> list[list[int]]:
        """The classes of elements h a h⁻¹ that belong together."""
        left, found = set(range(self.order)), []
        while left:
            a = min(left)
            members = sorted({int(i) for i in self.table[self.table[:, a], self.inverse]})
            found.append(members)
            left -= set(members)
        return found

    @classmethod
    def cyclic(cls, n: int) -> Group:
        """Make the group of n turns: ab is a + b modulo n.

        Examples
        --------
        >>> from fastdl.group import Group
        >>> Group.cyclic(3).table
        array([[0, 1, 2],
               [1, 2, 0],
               [2, 0, 1]])
        """
        number = whole("group.Group.cyclic", "n", n, 1)
        i = np.arange(number, dtype=np.int64)
        return cls._known((i[:, None] + i[None, :]) % number)

    @classmethod
    def dihedral(cls, n: int) -> Group:
        """Make the 2n symmetries of a polygon of n sides: element m n + r turns r times and then flips if m is 1.

        Examples
        --------
        >>> from fastdl.group import Group
        >>> Group.dihedral(4).inverse
        array([0, 3, 2, 1, 4, 5, 6, 7])
        """
        number = whole("group.Group.dihedral", "n", n, 1)
        m, r = np.divmod(np.arange(2 * number, dtype=np.int64), number)
        # f^m r^a f^l r^b: a flip that comes before turns them round.
        turns = np.where(m[None, :] == 1, -r[:, None], r[:, None]) + r[None, :]
        return cls._known((m[:, None] ^ m[None, :]) * number + turns % number)

    @classmethod
    def symmetric(cls, n: int) -> Group:
        """Make the group of all permutations of n things, in lexicographic order.

        Examples
        --------
        >>> from fastdl.group import Group
        >>> Group.symmetric(3).order
        6
        """
        number = whole("group.Group.symmetric", "n", n, 1)
        if number > 7:
            raise ValueError(f"[group.Group.symmetric] expected n of at most 7, whose table has 5040², got {number}")
        return cls._permuting(np.array(list(itertools.permutations(range(number))), np.int64))

    @classmethod
    def generate(cls, generators: Any) -> Group:
        """Make the group of all products of permutations.

        Parameters
        ----------
        generators : integers of shape (count, d)
            Permutations of 0 to d - 1: ``(g x)[i] = x[generators[g, i]]``.

        Returns
        -------
        Group
            With the attribute `permutations`, an element a row, the identity first.

        Examples
        --------
        >>> from fastdl.group import Group
        >>> Group.generate([[1, 2, 3, 0], [0, 3, 2, 1]]).order
        8
        """
        where = "group.Group.generate"
        orders = permutations_of(where, "generators", generators)
        start = np.arange(orders.shape[1], dtype=np.int64)
        elements, front, reached = [start], [start], {start.tobytes()}
        while front:
            element = front.pop(0)
            for order in orders:
                product = element[order]
                if product.tobytes() not in reached:
                    if len(elements) == MOST_ELEMENTS:
                        raise ValueError(f"[{where}] expected a group of at most {MOST_ELEMENTS} elements, got more")
                    reached.add(product.tobytes())
                    elements.append(product)
                    front.append(product)
        return cls._permuting(np.stack(elements))

    @classmethod
    def _permuting(cls, orders: HostArray) -> Group:
        """Make the group of permutations that are known to be one: (ab)x = a(bx)."""
        number = {order.tobytes(): i for i, order in enumerate(orders)}
        table = np.empty((len(orders), len(orders)), np.int64)
        for a, order in enumerate(orders):
            products = np.ascontiguousarray(orders[:, order])
            table[a] = [number[product.tobytes()] for product in products]
        group = cls._known(table)
        group.permutations = _read_only(orders)
        return group

    @classmethod
    def _known(cls, table: HostArray) -> Group:
        """Make a group of a table that needs no check."""
        group = cls.__new__(cls)
        group.table = _read_only(table.astype(np.int64))
        group.order = len(table)
        group.identity = _identity("group.Group", table)
        group.inverse = _inverses("group.Group", table, group.identity)
        group.permutations = group._quotient = group._cycle = group._cosets = None
        return group


def _read_only(array: HostArray) -> HostArray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _integers(where: str, name: str, values: Any) -> HostArray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"[{where}] expected {name} to be a rectangle of integers, got {kind(values)}") from error
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"[{where}] expected {name} to be integers, got {kind(values)} of {array.dtype}")
    return array.astype(np.int64)


def permutations_of(where: str, name: str, values: Any, d: int | None = None) -> HostArray:
    """Check that every row is a permutation of 0 to d - 1."""
    from fastdl._arrays import library_of

    orders = _integers(where, name, library_of(values).view(where, name, values))
    if orders.ndim != 2 or (d is not None and orders.shape[1] != d):
        raise ValueError(f"[{where}] expected {name} of shape (order, {'d' if d is None else d}), got {orders.shape}")
    wrong = np.flatnonzero(np.any(np.sort(orders, axis=1) != np.arange(orders.shape[1]), axis=1))
    if wrong.size:
        raise ValueError(
            f"[{where}] expected every row of {name} to permute 0 to {orders.shape[1] - 1}, "
            f"got otherwise in row {wrong[0]}"
        )
    return np.ascontiguousarray(orders)


def _identity(where: str, table: HostArray) -> int:
    i = np.arange(len(table))
    for e in range(len(table)):
        if table[e, 0] == 0 and np.array_equal(table[e], i) and np.array_equal(table[:, e], i):
            return e
    holds = (table == i) & (i == table.T)  # [e, a]: ea = a and ae = a
    e = int(np.argmax(holds.sum(axis=1)))
    a = int(np.argmin(holds[e]))
    left, right = (e, a) if table[e, a] != a else (a, e)
    raise ValueError(
        f"[{where}] expected an identity e with ea = ae = a for all a, "
        f"got none: {e} comes nearest, but ({left}, {right}) gives {int(table[left, right])}"
    )


def _inverses(where: str, table: HostArray, e: int) -> HostArray:
    n = len(table)
    found = np.argmax(table == e, axis=1)
    a = np.arange(n)
    wrong = np.flatnonzero((table[a, found] != e) | (table[found, a] != e))
    if len(wrong):
        raise ValueError(f"[{where}] expected an inverse of every element, got none of {int(wrong[0])}")
    return _read_only(found.astype(np.int64))


def _associative(where: str, table: HostArray) -> None:
    """Find a triple with (ab)c ≠ a(bc), by Light's test.

    The elements b for which all (ab)c = a(bc) are closed under products, so only generators have to be tried.
    """
    n = len(table)
    reached = np.zeros(n, bool)
    generators: list[int] = []
    for b in range(n):
        if reached[b]:
            continue
        left, right = table[table[:, b]], table[:, table[b]]
        wrong = np.argwhere(left != right)
        if len(wrong):
            a, c = (int(i) for i in wrong[0])
            raise ValueError(
                f"[{where}] expected (ab)c = a(bc) for all elements, got {int(left[a, c])} and {int(right[a, c])} "
                f"for the triple ({a}, {b}, {c})"
            )
        generators.append(b)
        front = [b]
        reached[b] = True
        while front:
            element = front.pop()
            for generator in generators:
                for product in (int(table[element, generator]), int(table[generator, element])):
                    if not reached[product]:
                        reached[product] = True
                        front.append(product)


class Planar(NamedTuple):
    """A group of symmetries of the square grid: element i turns by quarters and then flips the rows."""

    name: str
    elements: tuple[tuple[int, int], ...]  # flips and quarter turns, counter-clockwise
    group: Group
    quotient: HostArray  # [s][t] = s⁻¹t

    @property
    def order(self) -> int:
        """How many elements there are."""
        return len(self.elements)

    @property
    def turns(self) -> bool:
        """Whether a quarter turn is among them, which exchanges height and width."""
        return any(quarters % 2 for _, quarters in self.elements)


def _planar(name: str, elements: Iterable[tuple[int, int]]) -> Planar:
    listed = tuple(elements)
    numbers = {element: i for i, element in enumerate(listed)}

    def product(a: tuple[int, int], b: tuple[int, int]) -> int:
        turns = (-a[1] if b[0] else a[1]) + b[1]
        return numbers[a[0] ^ b[0], turns % 4]

    group = Group._known(np.array([[product(a, b) for b in listed] for a in listed], np.int64))
    return Planar(name, listed, group, _read_only(group.table[group.inverse]))


NAMES = ("p4", "p4m", "p2", "pm")


@cache
def _by_name(name: str) -> Planar:
    return {
        "p4": lambda: _planar("p4", ((0, r) for r in range(4))),
        "p4m": lambda: _planar("p4m", ((m, r) for m in range(2) for r in range(4))),
        "p2": lambda: _planar("p2", ((0, r) for r in (0, 2))),
        "pm": lambda: _planar("pm", ((m, 0) for m in range(2))),
    }[name]()


def planar(where: str, group: Any) -> Planar:
    """Find a group of the plane by its name."""
    if not isinstance(group, str):
        raise TypeError(f"[{where}] expected group to be one of {', '.join(NAMES)}, got {kind(group)}")
    if group not in NAMES:
        raise ValueError(f"[{where}] expected group to be one of {', '.join(NAMES)}, got {group!r}")
    return _by_name(group)


def any_group(where: str, group: Any) -> Group:
    """Find a group: one itself, a name of the plane's, or a table."""
    if isinstance(group, Group):
        return group
    if isinstance(group, str):
        return planar(where, group).group
    if isinstance(group, (list, tuple, np.ndarray)):
        return Group(group)
    raise TypeError(f"[{where}] expected group to be a Group, a table or a name, got {kind(group)}")


def escnn_order(group: str) -> HostArray:
    r"""Where the elements of a planar group are in the order of escnn and e2cnn.

    Parameters
    ----------
    group : {"p4", "p4m", "p2", "pm"}

    Returns
    -------
    array of int64 of shape (order,)
        ``order[i]`` is the number that escnn gives to element i: with features ``f`` of a regular representation there,
        ``f[..., order, :, :]`` are the same features here.

    Notes
    -----
    Both begin with the turns, counter-clockwise. Here element 4 + r turns r times and then flips the rows, as GrouPy
    has it; there element 4 + r flips the columns (the axis of ``flipRot2dOnR2``, by default vertical) and then turns r
    times. As flipping the rows is flipping the columns and half a turn, 4 + r here is 4 + (2 - r) modulo 4 there. For
    "pm" give ``flip2dOnR2`` the horizontal axis, ``axis=0``.

    Examples
    --------
    >>> from fastdl.group import escnn_order
    >>> escnn_order("p4m")
    array([0, 1, 2, 3, 6, 5, 4, 7])
    """
    found = planar("group.escnn_order", group)
    order = np.arange(found.order, dtype=np.int64)
    if found.name == "p4m":
        order[4:] = 4 + (2 - np.arange(4)) % 4
    return order
