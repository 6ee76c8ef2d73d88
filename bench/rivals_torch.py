"""PyTorch as a rival: the plain formulas on tensors made beforehand, without gradients, in place where it can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

Call = Callable[[], Any]

# Rows of K that are formed at a time where K as a whole would not fit.
BLOCK = 1024


_device: ContextVar[str] = ContextVar("device", default="cpu")


@contextmanager
def on(device: str) -> Iterator[None]:
    """Make the tensors of calls on a device."""
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def _tensors(*arrays: np.ndarray | None) -> list[Any]:
    """Make tensors that share the memory of the arrays, on the CPU; None stands for the first."""
    import torch

    torch.set_grad_enabled(False)
    first = torch.from_numpy(arrays[0]).to(_device.get())
    return [first if array is None else torch.from_numpy(array).to(_device.get()) for array in arrays]


def _gamma(X: np.ndarray, gamma: float | None) -> float:
    return 1 / X.shape[1] if gamma is None else gamma


def linear(X: np.ndarray, Y: np.ndarray | None = None) -> Call:
    x, y = _tensors(X, Y)
    return lambda: x @ y.T


def polynomial(X, Y=None, degree=3, gamma=None, coef0=1.0) -> Call:
    x, y = _tensors(X, Y)
    gamma = _gamma(X, gamma)
    return lambda: (x @ y.T).mul_(gamma).add_(coef0).pow_(degree)


def sigmoid(X, Y=None, gamma=None, coef0=1.0) -> Call:
    x, y = _tensors(X, Y)
    gamma = _gamma(X, gamma)
    return lambda: (x @ y.T).mul_(gamma).add_(coef0).tanh_()


def _rbf(x: Any, y: Any, gamma: float) -> Any:
    import torch

    return torch.cdist(x, y).square_().mul_(-gamma).exp_()


def rbf(X, Y=None, gamma=None) -> Call:
    x, y = _tensors(X, Y)
    gamma = _gamma(X, gamma)
    return lambda: _rbf(x, y, gamma)


def laplacian(X, Y=None, gamma=None) -> Call:
    import torch

    x, y = _tensors(X, Y)
    gamma = _gamma(X, gamma)
    return lambda: torch.cdist(x, y, p=1.0).mul_(-gamma).exp_()


def cosine(X, Y=None) -> Call:
    from torch.nn.functional import normalize

    x, y = _tensors(X, Y)

    def call() -> Any:
        left = normalize(x)
        return left @ (left if y is x else normalize(y)).T

    return call


def matern(X, Y=None, length_scale=1.0, nu=1.5) -> Call:
    import torch

    x, y = _tensors(X, Y)

    def call() -> Any:
        r = torch.cdist(x / length_scale, y / length_scale)
        if nu == math.inf:
            return r.square_().mul_(-0.5).exp_()
        if nu == 1.5:
            r.mul_(math.sqrt(3))
            return (1 + r).mul_(r.neg_().exp_())
        r.mul_(math.sqrt(5))
        return (r * r).div_(3).add_(r).add_(1).mul_(r.neg_().exp_())

    return call


def geometric(X, Y=None, alpha=0.5) -> Call:
    x, y = _tensors(X, Y)
    return lambda: (x @ y.T).mul_(-(alpha**2)).add_(1).reciprocal_()


def sinc(X, Y, omega=1.0) -> Call:
    import torch

    x, y = _tensors(X, Y)
    scale = omega / math.pi

    def call() -> Any:
        K = x.new_full((x.shape[0], y.shape[0]), scale ** x.shape[1])
        for feature in range(x.shape[1]):
            K.mul_(torch.sinc((x[:, feature, None] - y[None, :, feature]).mul_(scale)))
        return K

    return call


def arc_cosine(X, Y=None, order=1) -> Call:
    if order != 1:
        raise ValueError(f"expected order 1, got {order}")
    x, y = _tensors(X, Y)

    def call() -> Any:
        lengths = x.norm(dim=1)[:, None] * y.norm(dim=1)
        ratio = (x @ y.T).div_(lengths).clamp_(-1, 1)
        theta = ratio.acos()
        return (theta.sin() + (math.pi - theta) * ratio).mul_(lengths).div_(math.pi)

    return call


def _relu_layers(X, Y, depth, w_std, b_std, ntk_wanted) -> Call:
    import torch

    x, y = _tensors(X, Y)
    w, b = w_std**2, b_std**2

    def call() -> Any:
        left, right = (rows.square().sum(dim=1).mul_(w / x.shape[1]).add_(b) for rows in (x, y))
        S = (x @ y.T).mul_(w / x.shape[1]).add_(b)
        T = S
        for _ in range(depth):
            s = (left[:, None] * right).addcmul_(S, S, value=-1).clamp_(min=0).sqrt_()
            slope = torch.atan2(s, S).mul_(-1 / (2 * math.pi)).add_(0.5)
            S = s.mul_(1 / (2 * math.pi)).addcmul_(slope, S).mul_(w).add_(b)
            if ntk_wanted:
                T = (slope * T).mul_(w).add_(S)
            left, right = left * (w / 2) + b, right * (w / 2) + b
        return T if ntk_wanted else S

    return call


def nngp(X, Y=None, depth=1, w_std=1.0, b_std=0.0) -> Call:
    return _relu_layers(X, Y, depth, w_std, b_std, False)


def ntk(X, Y=None, depth=1, w_std=1.0, b_std=0.0) -> Call:
    return _relu_layers(X, Y, depth, w_std, b_std, True)


def gram(X, Y=None, kernel="rbf", **parameters) -> Call:
    return globals()[kernel](X, Y, **parameters)


def matvec(X, v) -> Call:
    """Form K a block of rows at a time."""
    import torch

    x, vector = _tensors(X, v)
    gamma = _gamma(X, None)
    return lambda: torch.cat([_rbf(rows, x, gamma) @ vector for rows in x.split(BLOCK)])


def gram_vjp(X, grad, Y) -> Call:
    """Differentiate by autograd, through the formula whose derivative exists everywhere."""
    return _rbf_vjp((X, Y), grad, lambda K: K)


def matvec_vjp(X, v, grad, Y) -> Call:
    return _rbf_vjp((X, Y, v), grad, lambda K, values: K @ values)


def _rbf_vjp(arrays, grad, result) -> Call:
    import torch

    leaves = [tensor.clone().requires_grad_() for tensor in _tensors(*arrays)]
    (weight,) = _tensors(grad)
    gamma = weight.new_tensor(_gamma(arrays[0], None)).requires_grad_()

    def call() -> Any:
        with torch.enable_grad():
            left, right, *others = leaves
            squared = left.square().sum(1)[:, None] + right.square().sum(1) - 2 * left @ right.T
            return torch.autograd.grad(result((-gamma * squared).exp(), *others), [*leaves, gamma], weight)

    return call


def softmax_matvec(Q, K, V) -> Call:
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value = (tensor[None, None] for tensor in _tensors(Q, K, V))
    return lambda: scaled_dot_product_attention(query, key, value)[0, 0]


def distance(X, Y) -> Call:
    x, y = _tensors(X, Y)
    gamma = _gamma(X, None)
    return lambda: _rbf(x, y, gamma).mul_(-2).add_(2)


def invariant(X, Y, permutations) -> Call:
    """One sum over the group will do for a kernel that it leaves alone."""
    import torch

    x, y = _tensors(X, Y)
    gamma = _gamma(X, None)
    indices = torch.from_numpy(permutations).to(_device.get())

    def call() -> Any:
        K = x.new_zeros(x.shape[0], y.shape[0])
        for permutation in indices:
            K.add_(_rbf(x, y[:, permutation], gamma))
        return K.mul_(len(permutations))

    return call


def center(K) -> Call:
    (k,) = _tensors(K)
    return lambda: (k - k.mean(0)).sub_(k.mean(1, keepdim=True)).add_(k.mean())


def _biased(k: Any, other: Any) -> Any:
    return (k - k.mean(0)).sub_(k.mean(1, keepdim=True)).add_(k.mean()).mul_(other).sum() / (len(k) - 1) ** 2


def hsic(K, L, unbiased=True) -> Call:
    k, other = _tensors(K, L)
    n = len(k)

    def call() -> Any:
        if not unbiased:
            return _biased(k, other)
        left, right = k.clone().fill_diagonal_(0), other.clone().fill_diagonal_(0)
        total = (left * right).sum() + left.sum() * right.sum() / ((n - 1) * (n - 2))
        return (total - 2 * (left.sum(0) @ right.sum(0)) / (n - 2)) / (n * (n - 3))

    return call


def cka(K, L) -> Call:
    k, other = _tensors(K, L)
    return lambda: _biased(k, other) / (_biased(k, k) * _biased(other, other)).sqrt()


def feature_gram(x, center=False) -> Call:
    (maps,) = _tensors(x)

    def call() -> Any:
        rows = maps.flatten(2)
        if center:
            rows = rows - rows.mean(2, keepdim=True)
        return (rows @ rows.transpose(1, 2)).div_(rows.shape[2])

    return call


def empirical_ntk(J1) -> Call:
    return linear(J1)


# ---- convolutions over any number of axes: inputs in the layout named beforehand, the result left as it is ----
def _laid_out(layout: str, *arrays: np.ndarray) -> list[Any]:
    import torch

    return [tensor.contiguous(memory_format=getattr(torch, layout)) for tensor in _tensors(*arrays)]


def conv2d(layout: str, x, w, stride, padding, groups) -> Call:
    from torch.nn import functional

    maps, filters = _laid_out(layout, x, w)
    function = getattr(functional, f"conv{x.ndim - 2}d")
    return lambda: function(maps, filters, None, stride, padding, 1, groups)


def _conv2d_backward(wanted: int, maps, filters, grad, stride, padding, groups) -> Call:
    """Give one of the gradients for the input and the filters: what autograd calls, without its graph."""
    import torch

    mask = [index == wanted for index in range(3)]
    axes = maps.ndim - 2
    options = (axes * [stride], axes * [padding], axes * [1], False, axes * [0], groups, mask)
    return lambda: torch.ops.aten.convolution_backward(grad, maps, filters, None, *options)[wanted]


def conv2d_input(layout: str, input_size, w, grad, stride, padding, groups) -> Call:
    # Of the input only the size and layout are looked at.
    maps, filters, gradient = _laid_out(layout, np.zeros(input_size, w.dtype), w, grad)
    return _conv2d_backward(0, maps, filters, gradient, stride, padding, groups)


def conv2d_weight(layout: str, x, weight_size, grad, stride, padding, groups) -> Call:
    maps, filters, gradient = _laid_out(layout, x, np.zeros(weight_size, x.dtype), grad)
    return _conv2d_backward(1, maps, filters, gradient, stride, padding, groups)


# ---- group convolutions, also those that lift: plain ones with filters that were expanded beforehand ----
def _flat(maps: np.ndarray) -> np.ndarray:
    """Join channels and elements, if there are any."""
    return maps.reshape(maps.shape[0], -1, *maps.shape[-2:])


def group_conv2d(layout: str, x, w, group, stride, padding) -> Call:
    from cases.group import order
    from cases.group_formulas import expanded

    call, elements = conv2d(layout, _flat(x), expanded(w, group), stride, padding, 1), order(group)
    return lambda: call().unflatten(1, (-1, elements))


def group_conv2d_input(layout: str, input_size, w, grad, group, stride, padding) -> Call:
    from cases.group_formulas import expanded

    size = (input_size[0], math.prod(input_size[1:-2]), *input_size[-2:])
    call = conv2d_input(layout, size, expanded(w, group), _flat(grad), stride, padding, 1)
    return call if len(input_size) == 4 else lambda: call().unflatten(1, input_size[1:3])


def _posed(w: Any, group: str, s: int) -> Any:
    import torch

    turns = 2 * s if group == "p2" else 0 if group == "pm" else s % 4
    flips = s if group == "pm" else s // 4 if group == "p4m" else 0
    w = torch.rot90(w, turns, (-2, -1))
    return w.flip(-2) if flips else w


def group_conv2d_weight(layout: str, x, weight_size, grad, group, stride, padding) -> Call:
    """Give the gradient for the expanded filters, and of it the one for those that were expanded."""
    from cases.group import QUOTIENTS

    outputs, elements, k = weight_size[0], len(QUOTIENTS[group]), weight_size[-1]
    size = (outputs * elements, math.prod(weight_size[1:-2]), k, k)
    call = conv2d_weight(layout, _flat(x), size, _flat(grad), stride, padding, 1)

    def gradient() -> Any:
        plain = call().reshape(outputs, elements, *weight_size[1:])
        total = 0
        for s, quotient in enumerate(QUOTIENTS[group]):
            part = plain[:, s]
            if len(weight_size) == 5:
                part = part[:, :, np.argsort(quotient).tolist()]  # s⁻¹t = u where t = su
            total = total + _posed(part, group, quotient[0])
        return total

    return gradient


# ---- functions on finite groups: products with the matrix h(w⁻¹u), gathered in every call ----
def group_convolve(f, h, group) -> Call:
    import torch

    first, second = _tensors(f, h)
    quotient = torch.from_numpy(group.table[group.inverse]).to(_device.get())
    if h.ndim == 1:
        return lambda: first @ second[quotient]
    # As many pairs at a time as have matrices of 4 MB.
    step = max(1, (1 << 20) // group.order**2)

    def pairs() -> Any:
        parts = zip(first.split(step), second.split(step), strict=True)
        return torch.cat([(left[:, None] @ right[:, quotient])[:, 0] for left, right in parts])

    return pairs


def group_signature(x, templates, permutations, thresholds, nonlinearity) -> Call:
    """Write out the orbits in every call, and sum the elements of a template at a time."""
    import torch

    samples, others = _tensors(x, templates)
    orders = torch.from_numpy(permutations).to(_device.get())

    def signature() -> Any:
        columns = []
        for template in others:
            products = samples @ template[orders].T
            columns.append(torch.stack([getattr(products - b, nonlinearity)().sum(1) for b in thresholds], -1))
        return torch.stack(columns, 1)

    return signature
