"""Functions on finite groups and on orbits under permutations, by their formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace, device

from fastdl.reference.pairs import row_blocks, wide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdl._arrays import HostArray


def _indices(like: Any, values: HostArray) -> Any:
    xp = array_namespace(like)
    return xp.asarray(values.copy(), dtype=xp.int64, device=device(like))


def convolve(f: Any, h: Any, quotient: HostArray) -> Any:
    """(f*h)(u) = Σ_v f(u v⁻¹) h(v) = Σ_w f(w) h(w⁻¹u), over the last axis; quotient[w][u] is w⁻¹u."""
    xp = array_namespace(f)
    n = len(quotient)
    first, second = wide(f), wide(h)
    if second.ndim == 1:
        matrix = xp.reshape(xp.take(second, xp.reshape(_indices(f, quotient), (-1,))), (n, n))
        return xp.astype(xp.matmul(first[..., None, :], matrix)[..., 0, :], f.dtype, copy=False)
    total = xp.zeros((), dtype=xp.float64, device=device(f))
    for w in range(n):
        total = total + first[..., w, None] * xp.take(second, _indices(f, quotient[w]), axis=-1)
    return xp.astype(total, f.dtype, copy=False)


def _orbit(t: Any, permutations: HostArray) -> Any:
    """Give (order, d): the rows g t, (g t)[i] = t[permutations[g, i]]."""
    xp = array_namespace(t)
    order, d = permutations.shape
    return xp.reshape(xp.take(t, xp.reshape(_indices(t, permutations), (-1,))), (order, d))


def _nonlinear(z: Any, name: str) -> Any:
    xp = array_namespace(z)
    if name == "step":
        return xp.where(z >= 0, xp.ones_like(z), xp.where(z < 0, xp.zeros_like(z), z))
    if name == "cdf":
        return xp.where(z <= 0, xp.ones_like(z), xp.where(z > 0, xp.zeros_like(z), z))
    if name == "sigmoid":
        return 1 / (1 + xp.exp(-z))
    if name == "tanh":
        return xp.tanh(z)
    return xp.where(z < 0, xp.zeros_like(z), z)  # relu


def signature(
    x: Any,
    templates: Any,
    permutations: HostArray,
    thresholds: HostArray,
    moments: Sequence[int],
    nonlinearity: str,
) -> Any:
    """Σ_g σ(⟨x, g t⟩ − b) for every threshold b, and Σ_g ⟨x, g t⟩^m for every moment m; a template at a time."""
    xp = array_namespace(x)
    samples, order = wide(x), permutations.shape[0]
    columns = []
    for k in range(templates.shape[0]):
        template = wide(templates[k, :])
        sums = [
            xp.zeros((x.shape[0],), dtype=xp.float64, device=device(x)) for _ in range(len(thresholds) + len(moments))
        ]
        for part in row_blocks(order, x.shape[0] + x.shape[1]):
            products = samples @ xp.matrix_transpose(_orbit(template, permutations[part]))
            for i, b in enumerate(thresholds):
                sums[i] = sums[i] + xp.sum(_nonlinear(products - float(b), nonlinearity), axis=1)
            for i, m in enumerate(moments, start=len(thresholds)):
                sums[i] = sums[i] + xp.sum(products ** float(m), axis=1)
        columns.append(xp.stack(sums, axis=-1) if sums else xp.zeros((x.shape[0], 0), dtype=xp.float64))
    count = len(thresholds) + len(moments)
    if not columns:
        return xp.zeros((x.shape[0], 0, count), dtype=x.dtype, device=device(x))
    return xp.astype(xp.stack(columns, axis=1), x.dtype, copy=False)


def average(x: Any, permutations: HostArray) -> Any:
    r"""(1/\|G\|) Σ_g g x, over the last axis."""
    xp = array_namespace(x)
    values = wide(x)
    total = xp.zeros_like(values)
    for order in permutations:
        total = total + xp.take(values, _indices(x, order), axis=-1)
    return xp.astype(total / max(1, len(permutations)), x.dtype, copy=False)


def orbit_gramian(t: Any, permutations: HostArray) -> Any:
    """WᵀW of W = (g_1 t … g_|G| t)."""
    xp = array_namespace(t)
    orbit = _orbit(wide(t), permutations)
    return xp.astype(orbit @ xp.matrix_transpose(orbit), t.dtype, copy=False)


def orbit_regularizer(W: Any, sigma: float) -> Any:
    """Give Σ_{i,j} Σ_{k,l} (n δ_ij − 1) exp(−(G_ki − G_lj)²/σ²) with G = WᵀW, after its gradient.

    The exponents are symmetric in (k,i) and (l,j), so the gradient for G_ki is twice that of its first place.
    """
    xp = array_namespace(W)
    values = wide(W)
    n = W.shape[1]
    gramian = xp.matrix_transpose(values) @ values
    value, columns = 0.0, []
    for i in range(n):
        difference = gramian[:, i][:, None, None] - gramian[None, :, :]  # k, l, j
        terms = xp.exp(-(difference * difference) / sigma**2)
        here = xp.astype(xp.arange(n, device=device(W)) == i, xp.float64)
        weights = n * here - 1
        value += float(xp.sum(xp.sum(terms, axis=(0, 1)) * weights))
        slopes = xp.sum(xp.sum(terms * difference, axis=1) * weights[None, :], axis=1)
        columns.append(slopes * (-4 / sigma**2))
    if not columns:
        return xp.zeros_like(W), 0.0
    slope = xp.stack(columns, axis=1)
    gradient = values @ (slope + xp.matrix_transpose(slope))
    return xp.astype(gradient, W.dtype, copy=False), value


def permutation_layer(x: Any, lam: Any | None, gam: Any | None, scale: float, share: float) -> Any:
    """λx + γ Σ x, of numbers with numbers λ and γ, or of vectors with matrices."""
    xp = array_namespace(x)
    values = wide(x)
    if lam is None:
        y = scale * values + share * xp.sum(values, axis=-1, keepdims=True)
    else:
        y = values @ wide(lam) + xp.sum(values, axis=-2, keepdims=True) @ wide(gam)
    return xp.astype(y, x.dtype, copy=False)


def set_pool(x: Any, mode: str) -> Any:
    """Give the sum, mean or maximum over the last axis but one."""
    xp = array_namespace(x)
    if mode == "max":
        return xp.max(x, axis=-2)
    total = (xp.mean if mode == "mean" else xp.sum)(wide(x), axis=-2)
    return xp.astype(total, x.dtype, copy=False)
