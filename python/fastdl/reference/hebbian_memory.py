"""Associative memories: Hopfield networks, and dense ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.hebbian_rules import diagonal
from fastdl.reference.pairs import symmetric, wide

if TYPE_CHECKING:
    from collections.abc import Callable


def hopfield_weights(P: Any, zero_diagonal: bool) -> Any:
    """W = (1/d) Σ p pᵀ, the diagonal 0 unless it is kept."""
    xp = array_namespace(P)
    W = symmetric(wide(P).T @ wide(P) / max(1, P.shape[1]))
    places = xp.arange(W.shape[0], device=device(W))
    if zero_diagonal:  # also where it is not a number
        W = xp.where(places[:, None] == places[None, :], xp.zeros_like(W), W)
    return xp.astype(W, P.dtype, copy=False)


def hopfield_energy(W: Any, s: Any, b: Any | None) -> Any:
    """−½ sᵀ W s + bᵀ s for every row s."""
    xp = array_namespace(W)
    states = wide(s)
    energy = -xp.sum((states @ wide(W).T) * states, axis=1) / 2
    if b is not None:
        energy = energy + states @ wide(b)
    return xp.astype(energy, W.dtype, copy=False)


def sign(field: Any) -> Any:
    """+1 where a field is at least 0, else −1."""
    xp = array_namespace(field)
    return xp.where(field >= 0, xp.ones_like(field), -xp.ones_like(field))


def _recall(states: Any, mode: str, max_sweeps: int, orders: Any, field: Callable[[Any, Any], Any]) -> Any:
    """Set units to the sign of `field(states, units)`, one after the other in the orders given, or all together."""
    xp = array_namespace(states)
    d = states.shape[1]
    states = xp.asarray(states, copy=True)
    # Sweeps without a change after which there can be none: one, if all units are asked in it.
    patience = 1 if mode == "sync" or all(len(set(order.tolist())) == d for order in orders) else len(orders)
    quiet = 0
    for sweep in range(max_sweeps):
        before = xp.asarray(states, copy=True)
        if mode == "sync":
            states = sign(field(states, slice(0, d)))
        else:
            for i in orders[sweep % len(orders)]:
                states[:, int(i)] = sign(field(states, slice(int(i), int(i) + 1)))[:, 0]
        quiet = quiet + 1 if bool(xp.all(states == before)) else 0
        if quiet == patience:
            break
    return states


def hopfield_recall(W: Any, s: Any, b: Any | None, mode: str, max_sweeps: int, orders: Any) -> Any:
    """Let s_i ← sign(W s − b)_i, until nothing changes or the sweeps are done."""
    xp = array_namespace(W)
    weights = wide(W)
    bias = xp.zeros(W.shape[0], dtype=xp.float64, device=device(W)) if b is None else wide(b)
    found = _recall(
        wide(s), mode, max_sweeps, orders, lambda states, units: states @ weights[units, :].T - bias[None, units]
    )
    return xp.astype(found, W.dtype, copy=False)


def crosstalk(P: Any) -> Any:
    """(G with zero diagonal) P, G = P Pᵀ/d."""
    xp = array_namespace(P)
    patterns = wide(P)
    G = patterns @ patterns.T / max(1, P.shape[1])
    return xp.astype((G - diagonal(G)) @ patterns, P.dtype, copy=False)


def _power(m: Any, degree: float) -> Any:
    """F(m) of overlaps: m^degree, or for an infinite degree e^m."""
    return array_namespace(m).exp(m) if degree == float("inf") else m**degree


def _scaled(up: Any, down: Any, degree: float) -> tuple[Any, Any]:
    """Give overlaps whose F are by one factor those of the given ones, and neither overflow nor all vanish.

    The largest is taken from arguments of an exponential. Others are divided by a power of two: whole numbers stay
    exact, and terms that cancel do.
    """
    xp = array_namespace(up)
    if degree == float("inf"):
        largest = xp.max(xp.where(up > down, up, down), axis=1, keepdims=True)
        return up - largest, down - largest
    size = xp.max(xp.where(xp.abs(up) > xp.abs(down), xp.abs(up), xp.abs(down)), axis=1, keepdims=True)
    scale = 2.0 ** xp.ceil(xp.log2(xp.where(size > 0, size, xp.ones_like(size))))
    return up / scale, down / scale


def dense_hopfield_energy(P: Any, s: Any, degree: float) -> Any:
    """−Σ_μ F(ξ_μ·s) for every row s."""
    xp = array_namespace(P)
    return xp.astype(-xp.sum(_power(wide(s) @ wide(P).T, degree), axis=1), P.dtype, copy=False)


def dense_hopfield(P: Any, s: Any, degree: float, mode: str, max_sweeps: int, orders: Any) -> Any:
    """Let s_i ← sign Σ_μ [F(ξ_μ·s with s_i = 1) − F(ξ_μ·s with s_i = −1)], until nothing changes."""
    xp = array_namespace(P)
    patterns = wide(P)

    def field(states: Any, units: slice) -> Any:
        columns = []
        overlaps = states @ patterns.T
        for i in range(units.start, units.stop):
            rest = overlaps - states[:, i : i + 1] * patterns[None, :, i]
            up, down = rest + patterns[None, :, i], rest - patterns[None, :, i]
            if P.shape[0]:
                up, down = _scaled(up, down, degree)
            columns.append(xp.sum(_power(up, degree) - _power(down, degree), axis=1))
        return xp.stack(columns, axis=1) if columns else states

    return xp.astype(_recall(wide(s), mode, max_sweeps, orders, field), P.dtype, copy=False)
