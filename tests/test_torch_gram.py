"""fastdl.torch: Gram matrices, products with them and what is made of them, with gradients."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastdl
from fastdl import gram as plain

torch = pytest.importorskip("torch")
ft = pytest.importorskip("fastdl.torch")
gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck

# Kernel, its parameters ("gamma" and "length_scale" as tensors with a gradient where they are tensors), and the scale
# and shift of samples that it is defined for.
GAMMA = torch.tensor(0.4, dtype=torch.float64)
CASES = (
    ("linear", {}, 1, 0),
    ("polynomial", {"degree": 2.5, "coef0": 20.0}, 1, 0),
    ("polynomial", {"gamma": GAMMA}, 1, 0),
    ("sigmoid", {"gamma": GAMMA, "coef0": 0.1}, 1, 0),
    ("rbf", {}, 1, 0),
    ("rbf", {"gamma": GAMMA}, 1, 0),
    ("laplacian", {"gamma": GAMMA}, 1, 0),
    ("cosine", {}, 1, 0),
    ("additive_chi2", {}, 0.1, 2),
    ("chi2", {"gamma": GAMMA}, 0.1, 2),
    ("matern", {"nu": 0.5}, 1, 0),
    ("matern", {"nu": 1.5, "length_scale": torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)}, 1, 0),
    ("matern", {"nu": 2.5, "length_scale": torch.tensor([0.7], dtype=torch.float64)}, 1, 0),
    ("matern", {"nu": math.inf, "length_scale": [0.5, 1.0, 2.0]}, 1, 0),
    ("geometric", {"alpha": 0.3}, 0.5, 0),
    ("sinc", {"omega": 1.3}, 1, 0),
    ("arc_cosine", {"order": 0}, 1, 0),
    ("arc_cosine", {"order": 1}, 1, 0),
    ("arc_cosine", {"order": 2}, 1, 0),
    ("nngp", {"depth": 2, "b_std": 0.3}, 1, 0),
    ("ntk", {"depth": 2, "w_std": 1.4}, 1, 0),
)
SHIFTS = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def draw(rng, *shapes, scale=1.0, shift=0.0, dtype=torch.float64):
    values = (torch.from_numpy(np.asarray(shift + scale * rng.standard_normal(shape))) for shape in shapes)
    return tuple(torch.empty(value.shape, dtype=dtype).copy_(value).requires_grad_() for value in values)


def parted(params):
    """The parameters that are tensors, which record gradients, and those that are not."""
    tensors = {name: value.clone().requires_grad_() for name, value in params.items() if torch.is_tensor(value)}
    return tensors, {name: value for name, value in params.items() if name not in tensors}


def numbers(params):
    """The parameters as numbers and arrays."""
    read = {name: value.tolist() if torch.is_tensor(value) else value for name, value in params.items()}
    return {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in read.items()}


def bind(function, tensors, **rest):
    """Give the function with the parameters that are tensors after its other arguments."""
    count = len(tensors)

    def bound(*arguments):
        given = arguments[len(arguments) - count :]
        return function(*arguments[: len(arguments) - count], **rest, **dict(zip(tensors, given, strict=True)))

    return bound


def agree(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("kernel", "params", "scale", "shift"), CASES, ids=str)
class TestKernels:
    """Every kernel, with numbers and with tensors for its parameters."""

    def test_gram(self, kernel, params, scale, shift, rng):
        X, Y = draw(rng, (4, 3), (5, 3), scale=scale, shift=shift)
        tensors, rest = parted(params)
        function = bind(getattr(ft, kernel), tensors, **rest)
        agree(function(X, Y, *tensors.values()), plain.gram(X.detach(), Y.detach(), kernel, **numbers(params)))
        assert gradcheck(function, (X, Y, *tensors.values()))
        for name in (kernel, getattr(ft, kernel), getattr(plain, kernel)):
            agree(ft.gram(X, Y, name, **rest, **tensors), function(X, Y, *tensors.values()))

    def test_symmetric_gram(self, kernel, params, scale, shift, rng):
        (X,) = draw(rng, (4, 3), scale=scale, shift=shift)
        tensors, rest = parted(params)
        function = bind(ft.gram, tensors, kernel=kernel, **rest)
        assert torch.equal(function(X, *tensors.values()), function(X, *tensors.values()).T)
        assert gradcheck(function, (X, *tensors.values()))
        same = ft.gram(X, X, kernel, **rest, **tensors)
        assert torch.equal(same, function(X, *tensors.values()))
        grad = torch.from_numpy(rng.standard_normal((4, 4)))
        for first, second in zip(
            torch.autograd.grad(same, (X, *tensors.values()), grad),
            torch.autograd.grad(function(X, *tensors.values()), (X, *tensors.values()), grad),
            strict=True,
        ):
            assert torch.equal(first, second)

    def test_diag(self, kernel, params, scale, shift, rng):
        (X,) = draw(rng, (5, 3), scale=scale, shift=shift)
        tensors, rest = parted(params)
        function = bind(ft.diag, tensors, kernel=kernel, **rest)
        agree(function(X, *tensors.values()), plain.diag(X.detach(), kernel, **numbers(params)))
        assert gradcheck(function, (X, *tensors.values()))

    def test_matvec(self, kernel, params, scale, shift, rng):
        X, Y = draw(rng, (4, 3), (5, 3), scale=scale, shift=shift)
        v, u, matrix = draw(rng, (5,), (4,), (5, 2))
        tensors, rest = parted(params)
        given = tuple(tensors.values())
        function = bind(ft.matvec, tensors, kernel=kernel, **rest)
        wanted = plain.matvec(X.detach(), v.detach(), Y.detach(), kernel, **numbers(params))
        agree(function(X, v, Y, *given), wanted)
        assert gradcheck(function, (X, matrix, Y, *given))
        assert gradcheck(function, (X, v, Y, *given), fast_mode=True)
        assert gradcheck(function, (X, u, *given), fast_mode=True)
        assert gradgradcheck(lambda v: ft.matvec(X.detach(), v, Y.detach(), kernel, **numbers(params)), (v,))
        assert gradgradcheck(lambda u: ft.matvec(X.detach(), u, None, kernel, **numbers(params)), (u,))

    def test_distance(self, kernel, params, scale, shift, rng):
        X, Y = draw(rng, (4, 3), (5, 3), scale=scale, shift=shift)
        tensors, rest = parted(params)
        given = tuple(tensors.values())
        function = bind(ft.distance, tensors, kernel=kernel, **rest)
        agree(function(X, Y, *given), plain.distance(X.detach(), Y.detach(), kernel, **numbers(params)))
        assert gradcheck(function, (X, Y, *given), fast_mode=True)
        assert gradcheck(function, (X, *given), fast_mode=True)

    def test_float32(self, kernel, params, scale, shift, rng):
        X, Y = draw(rng, (6, 3), (7, 3), scale=scale, shift=shift, dtype=torch.float32)
        wide = [tensor.detach().double().requires_grad_() for tensor in (X, Y)]
        K = ft.gram(X, Y, kernel, **numbers(params))
        assert K.dtype == torch.float32
        found = torch.autograd.grad(K.sum(), (X, Y))
        wanted = torch.autograd.grad(ft.gram(*wide, kernel, **numbers(params)).sum(), wide)
        for first, second in zip(found, wanted, strict=True):
            assert first.dtype == torch.float32
            torch.testing.assert_close(first.double(), second, rtol=1e-4, atol=1e-5)

    def test_second_derivatives_are_refused(self, kernel, params, scale, shift, rng):
        X, v = draw(rng, (4, 3), (4,), scale=scale, shift=shift)
        for y in (ft.gram(X, None, kernel, **numbers(params)), ft.matvec(X, v, None, kernel, **numbers(params))):
            (slope,) = torch.autograd.grad(y.square().sum(), X, create_graph=True)
            with pytest.raises(RuntimeError, match=r"\[gram\..*\] expected to be differentiated once"):
                slope.sum().backward()


def test_only_what_a_product_needs_is_computed(rng, monkeypatch):
    X, v = draw(rng, (4, 3), (4,))
    X = X.detach()

    def refuse(*arguments, **options):
        raise AssertionError("the gradients of X were computed")

    monkeypatch.setattr(plain, "matvec_vjp", refuse)
    y = ft.matvec(X, v)
    assert [None if t is None else t.shape for t in y.grad_fn.saved_tensors] == [(4, 3), None, None, None]
    (slope,) = torch.autograd.grad(y.sum(), v)
    agree(slope, plain.rbf(X).sum(0))


def test_gram_matrices_are_not_kept(rng):
    X, Y = draw(rng, (4, 3), (5, 3))
    kept = [tensor for tensor in ft.rbf(X, Y).grad_fn.saved_tensors if tensor is not None]
    assert [tensor.data_ptr() for tensor in kept] == [X.data_ptr(), Y.data_ptr()]


def test_diagonals_of_many_rows(rng):
    (X,) = draw(rng, (131, 3))  # more than two blocks
    (found,) = torch.autograd.grad(ft.diag(X, "polynomial").sum(), X)
    (wanted,) = torch.autograd.grad(((X.square().sum(1) / 3 + 1) ** 3).sum(), X)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_pairs_off_the_diagonal_have_no_say(rng):
    """A power of a negative product is NaN, and so is what has to do with a row that is."""
    (X,) = draw(rng, (70, 3))
    gamma = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    assert ft.polynomial(X, gamma=gamma, degree=2.5, coef0=0.0).isnan().any()
    function = lambda X, gamma: ft.diag(X, "polynomial", gamma=gamma, degree=2.5, coef0=0.0)  # noqa: E731
    found = torch.autograd.grad(function(X, gamma).sum(), (X, gamma))
    wanted = torch.autograd.grad(((gamma * X.square().sum(1)) ** 2.5).sum(), (X, gamma))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kernel", "params", "scale", "shift"), CASES, ids=str)
def test_a_row_of_nan_spoils_no_other(kernel, params, scale, shift, rng):
    (X,) = draw(rng, (5, 3), scale=scale, shift=shift)
    Y = draw(rng, (2, 3), scale=scale, shift=shift)[0].detach()
    spoilt = X.detach().clone()
    spoilt[1] = math.nan
    spoilt.requires_grad_()
    others = [0, 2, 3, 4]
    for function in (
        lambda X: ft.diag(X, kernel, **numbers(params)),
        lambda X: ft.distance(X, Y, kernel, **numbers(params)).sum(1),
    ):
        (found,), (wanted,) = (torch.autograd.grad(function(Z)[others].sum(), Z) for Z in (spoilt, X))
        torch.testing.assert_close(found[others], wanted[others], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("softmax_matvec", [(5, 3), (4, 3), (4, 2)]),
        ("permutation_layer", [(2, 5, 3), (3, 4), (3, 4)]),
        ("empirical_ntk", [(5, 3), (4, 3)]),
        ("empirical_ntk", [(5, 3)]),
        ("feature_gram", [(2, 3, 4, 4)]),
    ],
    ids=str,
)
def test_under_autocast(name, shapes, rng):
    """Gradients under autocast are those without it."""
    function, tensors = getattr(ft, name), draw(rng, *shapes, dtype=torch.float32)
    wanted = torch.autograd.grad(function(*tensors).square().sum(), tensors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(function(*tensors).square().sum(), tensors)
    for first, second in zip(found, wanted, strict=True):
        assert torch.equal(first, second)


class TestAttention:
    """softmax_matvec."""

    def weights(self, Q, K, scale):
        return torch.softmax(scale * Q @ K.T, 1)

    @pytest.mark.parametrize("shape", [(4, 2), (4,), (4, 1)], ids=str)
    @pytest.mark.parametrize("scale", [None, 0.7, "tensor"])
    @pytest.mark.parametrize("block", [1, 8, 1 << 20])
    def test_gradients(self, shape, scale, block, rng, monkeypatch):
        monkeypatch.setattr(ft._attention, "_WEIGHTS", block)
        tensors = draw(rng, (5, 3), (4, 3), shape)
        if scale == "tensor":
            tensors = (*tensors, torch.tensor(0.4, dtype=torch.float64, requires_grad=True))
            number = tensors[3]
        else:
            number = 3**-0.5 if scale is None else scale
        function = lambda *args: ft.softmax_matvec(*args, *(() if len(args) == 4 else (scale,)))  # noqa: E731
        agree(function(*tensors), self.weights(*tensors[:2], number) @ tensors[2])
        assert gradcheck(function, tensors)
        for i in range(len(tensors)):  # each of them alone
            others = [tensor.detach() for tensor in tensors]
            assert gradcheck(lambda x, i=i, others=others: function(*others[:i], x, *others[i + 1 :]), (tensors[i],))

    def test_nothing(self, rng):
        for n, m, d in ((0, 4, 3), (5, 0, 3), (5, 4, 0)):
            tensors = draw(rng, (n, d), (m, d), (m, 2))
            assert gradcheck(ft.softmax_matvec, tensors)

    def test_large_exponents(self):
        Q = torch.tensor([[1000.0, 0.0]], requires_grad=True)
        K, V = torch.eye(2, requires_grad=True), torch.tensor([[1.0], [2.0]], requires_grad=True)
        ft.softmax_matvec(Q, K, V, 1.0).sum().backward()
        assert torch.equal(V.grad, torch.tensor([[1.0], [0.0]]))
        assert torch.equal(Q.grad, torch.zeros(1, 2))

    def test_mixed(self, rng):
        (Q,), (K, V) = draw(rng, (5, 3), dtype=torch.float32), draw(rng, (4, 3), (4, 2))
        ft.softmax_matvec(Q, K, V).sum().backward()
        assert (Q.grad.dtype, K.grad.dtype) == (torch.float32, torch.float64)

    def test_refused(self, rng):
        Q, K, V = draw(rng, (5, 3), (4, 3), (4, 2))
        for scale in ("large", True):
            with pytest.raises(TypeError, match=r"\[gram.softmax_matvec\] expected scale to be"):
                ft.softmax_matvec(Q, K, V, scale)
        with pytest.raises(ValueError, match=r"\[gram.softmax_matvec\] expected scale to be one number"):
            ft.softmax_matvec(Q, K, V, torch.ones(2))
        with pytest.raises(ValueError, match=r"\[gram.softmax_matvec\] expected scale"):
            ft.softmax_matvec(Q, K, V, math.nan)
        with pytest.raises(ValueError, match=r"\[gram.softmax_matvec\] expected K of shape \(m, 3\)"):
            ft.softmax_matvec(Q, K[:, :2], V)
        (slope,) = torch.autograd.grad(ft.softmax_matvec(Q, K, V).sum(), Q, create_graph=True)
        with pytest.raises(RuntimeError, match="expected to be differentiated once"):
            slope.sum().backward()

    def test_the_weights_are_never_all_in_memory(self, rng, monkeypatch):
        """Blocks of weights are made of at most as many rows as fit."""
        monkeypatch.setattr(ft._attention, "_WEIGHTS", 64)
        seen = []
        softmax = torch.softmax
        monkeypatch.setattr(torch, "softmax", lambda x, axis: seen.append(x.shape) or softmax(x, axis))
        Q, K, V = draw(rng, (50, 3), (20, 3), (20, 2))
        ft.softmax_matvec(Q, K, V).sum().backward()
        assert set(seen) == {(3, 20), (2, 20)}


class TestStatistics:
    """What follows from Gram matrices."""

    def test_center(self, rng):
        (K,) = draw(rng, (4, 4))
        assert torch.equal(ft.center(K), plain.center(K.detach()))
        assert gradcheck(ft.center, (K,))
        assert gradgradcheck(ft.center, (K,))

    @pytest.mark.parametrize("unbiased", [True, False])
    def test_hsic(self, unbiased, rng):
        K, L = draw(rng, (5, 5), (5, 5))
        agree(ft.hsic(K, L, unbiased), plain.hsic(K.detach(), L.detach(), unbiased))
        assert gradcheck(lambda K, L: ft.hsic(K, L, unbiased), (K, L))
        assert gradgradcheck(lambda K, L: ft.hsic(K, L, unbiased), (K, L))
        assert gradcheck(lambda K: ft.hsic(K, K, unbiased), (K,))
        assert gradcheck(lambda L: ft.hsic(K.detach(), L, unbiased), (L,))

    @pytest.mark.parametrize("unbiased", [True, False])
    def test_cka(self, unbiased, rng):
        X, Y = draw(rng, (6, 3), (6, 2))
        function = lambda X, Y: ft.cka(ft.linear(X), ft.linear(Y), unbiased)  # noqa: E731
        agree(function(X, Y), plain.cka(plain.linear(X.detach()), plain.linear(Y.detach()), unbiased))
        assert gradcheck(function, (X, Y))

    @pytest.mark.parametrize("center", [True, False])
    def test_feature_gram(self, center, rng):
        for shape in ((2, 3, 2, 3), (1, 2, 5), (0, 3, 2, 2)):
            (x,) = draw(rng, shape)
            agree(ft.feature_gram(x, center), plain.feature_gram(x.detach(), center))
            assert gradcheck(lambda x: ft.feature_gram(x, center), (x,))
            assert gradgradcheck(lambda x: ft.feature_gram(x, center), (x,), fast_mode=True)

    def test_empirical_ntk(self, rng):
        for first, second in (((3, 4), (2, 4)), ((3, 2, 2), (2, 2, 2))):
            J1, J2 = draw(rng, first, second)
            agree(ft.empirical_ntk(J1, J2), J1.flatten(1) @ J2.flatten(1).T)
            assert gradcheck(ft.empirical_ntk, (J1, J2))
            assert gradcheck(ft.empirical_ntk, (J1,))
            assert gradgradcheck(ft.empirical_ntk, (J1, J2), fast_mode=True)
            assert gradcheck(lambda J2, J1=J1: ft.empirical_ntk(J1.detach(), J2), (J2,))
        mixed = draw(rng, (3, 4), dtype=torch.float32) + draw(rng, (2, 4))
        ft.empirical_ntk(*mixed).sum().backward()
        assert mixed[0].grad.dtype == torch.float32

    def test_of_a_network(self, rng):
        """The tangent kernel of a convolutional network from torch.func's Jacobians, against plain torch."""
        model = torch.nn.Sequential(ft.Conv2d(1, 3, 3, activation="tanh"), torch.nn.Flatten(), torch.nn.Linear(27, 1))
        (images,) = draw(rng, (4, 1, 5, 5), dtype=torch.float32)
        weights = {name: value.detach() for name, value in model.named_parameters()}
        one = lambda weights, image: torch.func.functional_call(model, weights, (image[None],))[0, 0]  # noqa: E731
        jacobians = torch.func.vmap(torch.func.grad(one), (None, 0))(weights, images.detach())
        found = ft.empirical_ntk(torch.cat([part.flatten(1) for part in jacobians.values()], 1))
        rows = []
        for image in images.detach():
            slopes = torch.autograd.grad(model(image[None]).sum(), list(model.parameters()))
            rows.append(torch.cat([slope.flatten() for slope in slopes]))
        torch.testing.assert_close(found, torch.stack(rows) @ torch.stack(rows).T, rtol=1e-5, atol=1e-5)


class TestInvariant:
    """Kernels summed over permutations."""

    @pytest.mark.parametrize(
        "permutations", [SHIFTS, SHIFTS[:2], torch.tensor(SHIFTS)], ids=["group", "none", "tensor"]
    )
    @pytest.mark.parametrize(
        ("kernel", "params"),
        [
            ("rbf", {"gamma": GAMMA}),
            ("linear", {}),
            ("matern", {"length_scale": [0.5, 1.0, 2.0]}),
            ("matern", {"length_scale": [0.7, 0.7, 0.7]}),
            ("matern", {"length_scale": GAMMA, "nu": 2.5}),
        ],
        ids=str,
    )
    def test_gradients(self, kernel, params, permutations, rng):
        X, Y = draw(rng, (3, 3), (2, 3))
        tensors, rest = parted(params)
        given = tuple(tensors.values())

        function = bind(ft.invariant, tensors, permutations=permutations, kernel=kernel, **rest)
        wanted = plain.invariant(X.detach(), Y.detach(), permutations=permutations, kernel=kernel, **numbers(params))
        agree(function(X, Y, *given), wanted)
        assert gradcheck(function, (X, Y, *given))
        assert gradcheck(function, (X, *given))

    def test_length_scales_of_features_have_none(self, rng):
        (X,) = draw(rng, (3, 3))
        scales = torch.ones(3, dtype=torch.float64, requires_grad=True)
        with pytest.raises(ValueError, match=r"\[gram.invariant\] expected length_scale to be one number"):
            ft.invariant(X, permutations=SHIFTS, kernel="matern", length_scale=scales)


class TestParameters:
    """Parameters as tensors."""

    def test_tensors_without_gradients_are_numbers(self, rng):
        (X,) = draw(rng, (4, 3))
        X = X.detach()
        agree(ft.rbf(X, gamma=torch.tensor(0.5)), plain.rbf(X, gamma=0.5))
        agree(
            ft.polynomial(X, degree=torch.tensor(2), coef0=torch.tensor([1.5])),
            plain.polynomial(X, degree=2, coef0=1.5),
        )
        scales = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
        agree(ft.matern(X, length_scale=scales), plain.matern(X, length_scale=scales))
        with torch.no_grad():
            agree(ft.matern(X, length_scale=scales.requires_grad_()), plain.matern(X, length_scale=scales))

    def test_length_scales_change_no_dtype(self, rng):
        (X,) = draw(rng, (4, 3), dtype=torch.float32)
        scales = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
        K = ft.matern(X, X[:2].detach(), length_scale=scales)
        assert K.dtype == torch.float32
        K.sum().backward()
        assert scales.grad.dtype == torch.float64

    def test_shapes_of_gradients(self, rng):
        (X,) = draw(rng, (4, 3), dtype=torch.float32)
        for shape, dtype in (((), torch.float64), ((1,), torch.float32), ((1, 1), torch.float64)):
            gamma = torch.full(shape, 0.5, dtype=dtype, requires_grad=True)
            ft.rbf(X, gamma=gamma).sum().backward()
            assert (gamma.grad.shape, gamma.grad.dtype) == (shape, dtype)

    def test_refused(self, rng):
        (X,) = draw(rng, (4, 3))
        one = torch.tensor(0.5, requires_grad=True)
        for function, name in (
            (ft.polynomial, "coef0"),
            (ft.geometric, "alpha"),
            (ft.sinc, "omega"),
            (ft.ntk, "w_std"),
        ):
            with pytest.raises(ValueError, match=rf"expected {name} to be constant, .* that records gradients"):
                function(X, **{name: one})
        with pytest.raises(ValueError, match=r"\[gram.rbf\] expected gamma to be one number .* \(2,\)"):
            ft.rbf(X, gamma=torch.ones(2, requires_grad=True))
        with pytest.raises(ValueError, match=r"\[gram.rbf\] expected gamma to be a number of at least 0"):
            ft.rbf(X, gamma=-one)
        with pytest.raises(ValueError, match=r"\[gram.matern\] expected length_scale of shape \(3,\)"):
            ft.matern(X, length_scale=torch.ones(2, requires_grad=True))
        with pytest.raises(ValueError, match=r"\[gram.matern\] expected length_scale to be a number above 0"):
            ft.matern(X, length_scale=-one)
        with pytest.raises(TypeError, match=r"\[gram.gram\] expected parameters of rbf \(gamma\), got degree"):
            ft.gram(X, degree=2)
        with pytest.raises(ValueError, match=r"\[gram.gram\] expected kernel to be one of"):
            ft.gram(X, kernel="gauss")

    def test_a_smoothness_without_a_closed_form(self, rng):
        X, v = draw(rng, (4, 3), (4,))
        scale = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        for where, function in (
            ("matern", lambda: ft.matern(X, nu=2.0)),
            ("matern", lambda: ft.matern(X.detach(), length_scale=scale, nu=2)),
            ("diag", lambda: ft.diag(X, "matern", nu=0.7)),
            ("distance", lambda: ft.distance(X.detach(), X, "matern", nu=torch.tensor(0.7))),
            ("matvec", lambda: torch.func.grad(lambda X: ft.matvec(X, v, None, "matern", nu=2.0).sum())(X)),
        ):
            with pytest.raises(ValueError, match=rf"\[gram.{where}\] expected nu to be 0.5, 1.5, 2.5 or inf"):
                function()
        X = X.detach()
        agree(torch.func.vmap(lambda X: ft.matern(X, nu=2.0))(X[None])[0], plain.matern(X, nu=2.0))
        (slope,) = torch.autograd.grad(ft.matvec(X, v, None, "matern", nu=2.0).sum(), v)
        agree(slope, plain.matern(X, nu=2.0).sum(0))

    @pytest.mark.parametrize("nu", [0.5, 1.5])
    @pytest.mark.parametrize("scale", [0.07, (0.07, 0.09, 0.03)], ids=str)
    def test_length_scales_far_from_the_origin(self, scale, nu, rng):
        """A length scale that has a gradient costs no digits of the differences."""
        X, Y = draw(rng, (6, 3), (5, 3), scale=0.05, shift=1000, dtype=torch.float32)
        weights = torch.from_numpy(rng.standard_normal((6, 5)))

        def gradients(dtype):
            X_, Y_, scale_ = (
                torch.empty(z.shape, dtype=dtype).copy_(z.detach()).requires_grad_()
                for z in (X, Y, torch.tensor(scale))
            )
            K = ft.matern(X_, Y_, length_scale=scale_, nu=nu)
            return K.detach(), *torch.autograd.grad((K * weights.to(dtype)).sum(), (X_, Y_, scale_))

        for found, wanted in zip(gradients(torch.float32), gradients(torch.float64), strict=True):
            assert found.dtype == torch.float32
            assert (found - wanted).abs().max() <= 2e-6 * wanted.abs().max()

    def test_constants_within_transforms(self, rng):
        (X,) = draw(rng, (4, 3), scale=0.4)
        X = X.detach()
        for name, params in (
            ("sigmoid", {"coef0": 0.5, "gamma": 0.3}),
            ("geometric", {"alpha": 0.5}),
            ("matern", {"nu": 2.5, "length_scale": (0.5, 1.0, 2.0)}),
        ):
            outside = {key: torch.tensor(value, dtype=torch.float64) for key, value in params.items()}
            wanted = torch.func.grad(lambda X, name=name, params=params: ft.gram(X, None, name, **params).sum())(X)

            def inside(X, name=name, params=params):
                made = {key: torch.tensor(value, dtype=torch.float64) for key, value in params.items()}
                return ft.gram(X, None, name, **made).sum()

            agree(torch.func.grad(lambda X, name=name, p=outside: ft.gram(X, None, name, **p).sum())(X), wanted)
            agree(torch.func.grad(inside)(X), wanted)
            agree(torch.func.vmap(torch.func.grad(inside))(X[None])[0], wanted)
            agree(torch.func.vmap(inside)(X[None])[0], inside(X))
        with pytest.raises(ValueError, match=r"expected coef0 to be constant, .* got a tensor that records gradients"):
            torch.func.grad(lambda coef0: ft.sigmoid(X, coef0=coef0).sum())(torch.tensor(1.0))
        with pytest.raises(ValueError, match=r"expected coef0 to be constant, .* got a tensor that vmap maps over"):
            torch.func.vmap(lambda coef0: ft.sigmoid(X, coef0=coef0).sum())(torch.ones(2))

    def test_mapped_over(self, rng):
        X, V, values = (tensor.detach() for tensor in draw(rng, (4, 3), (4, 2), (5,)))
        values = values.abs() + 0.1
        for function in (
            lambda value: ft.rbf(X, gamma=value),
            lambda value: ft.matern(X, length_scale=value),
            lambda value: ft.matern(X, length_scale=value * torch.arange(1.0, 4.0)),
            lambda value: ft.softmax_matvec(X, X, V, value),
        ):
            agree(torch.func.vmap(function)(values), torch.stack([function(value) for value in values]))
            slope = torch.func.grad(lambda value, function=function: function(value).sum())
            agree(torch.func.vmap(slope)(values), torch.stack([slope(value) for value in values]))

    @pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch's own, as it sets up forward mode
    def test_forward_mode_is_refused(self, rng):
        X = draw(rng, (4, 3))[0].detach()
        one = torch.tensor(0.5, dtype=torch.float64)
        for function in (lambda gamma: ft.rbf(X, gamma=gamma), lambda scale: ft.softmax_matvec(X, X, X, scale)):
            with pytest.raises((RuntimeError, NotImplementedError), match=r"jvp|forward"):
                torch.func.jvp(function, (one,), (one,))
            with (
                torch.autograd.forward_ad.dual_level(),
                pytest.raises((RuntimeError, NotImplementedError), match=r"jvp|forward"),
            ):
                function(torch.autograd.forward_ad.make_dual(one, one))


class TestTypes:
    """Dtypes, out, progress."""

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
    def test_refused(self, dtype):
        X, v = torch.ones(3, 2).to(dtype), torch.ones(3)
        name = str(dtype).removeprefix("torch.")
        for where, call in (
            ("gram.rbf", lambda: ft.rbf(X)),
            ("gram.gram", lambda: ft.gram(X)),
            ("gram.diag", lambda: ft.diag(X)),
            ("gram.matvec", lambda: ft.matvec(X, v)),
            ("gram.distance", lambda: ft.distance(X)),
            ("gram.invariant", lambda: ft.invariant(X, permutations=[[0, 1]])),
        ):
            with pytest.raises(TypeError, match=rf"\[{where}\] expected X of dtype float32 or float64, got {name}"):
                call()
        for function in (ft.center, ft.hsic, ft.cka):
            with pytest.raises(TypeError, match=rf"expected K of dtype float32 or float64, got {name}"):
                function(*([X] if function is ft.center else [X, X]))

    def test_not_tensors(self):
        with pytest.raises(TypeError, match=r"\[gram.rbf\] expected Y to be a torch.Tensor, got numpy.ndarray"):
            ft.rbf(torch.ones(3, 2), np.ones((3, 2)))
        with pytest.raises(TypeError, match=r"\[gram.rbf\] expected X to be a torch.Tensor, got None"):
            ft.rbf(None)

    def test_out_and_progress(self, rng):
        (X,) = draw(rng, (4, 3))
        out, counts = torch.zeros(4, 4, dtype=torch.float64), []
        assert ft.gram(X.detach(), out=out) is out
        agree(out, plain.rbf(X.detach()))
        K = ft.gram(X, progress=lambda done, total: counts.append((done, total)))
        assert counts[-1] == (16, 16)
        K.sum().backward()
        for call in (lambda: ft.gram(X, out=out), lambda: ft.linear(X, out=out)):
            with pytest.raises(ValueError, match="expected no out where gradients are recorded"):
                call()

    def test_mixed(self, rng):
        (X,), (Y,) = draw(rng, (4, 3), dtype=torch.float32), draw(rng, (5, 3))
        K = ft.rbf(X, Y)
        assert K.dtype == torch.float64
        K.sum().backward()
        assert (X.grad.dtype, Y.grad.dtype) == (torch.float32, torch.float64)

    def test_strides_and_nothing(self, rng):
        X, Y = draw(rng, (3, 4), (6, 3))
        assert gradcheck(lambda X, Y: ft.rbf(X.T, Y[::2]), (X, Y))
        none = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
        assert gradcheck(ft.rbf, (none,))
        assert gradcheck(lambda X, Y: ft.matvec(X, torch.ones(6, dtype=torch.float64), Y), (none, Y))
        assert gradcheck(lambda X: ft.diag(X, "linear"), (none,))

    def test_no_copies(self, native, rng, monkeypatch):
        X, Y = draw(rng, (200, 16), (150, 16))
        seen = {}
        for operation in (fastdl._kernels.KERNELS["rbf"].operation, fastdl._gram_operators._gram_vjp):

            def watched(*arguments, operation=operation, kernel=operation.native):
                seen[operation.name] = [a.ctypes.data for a in arguments if isinstance(a, np.ndarray)]
                return kernel(*arguments)

            monkeypatch.setattr(operation, "native", watched)
        K = ft.rbf(X, Y)
        assert seen["gram.rbf"] == [X.data_ptr(), Y.data_ptr(), K.data_ptr()]
        grad = torch.ones_like(K)
        dX, dY = torch.autograd.grad(K, (X, Y), grad)
        assert seen["gram.gram_vjp"] == [X.data_ptr(), grad.data_ptr(), Y.data_ptr(), dX.data_ptr(), dY.data_ptr()]

    def test_plain_path(self, rng, monkeypatch):
        X, v = draw(rng, (4, 3), (4,))
        functions = (
            lambda: ft.rbf(X),
            lambda: ft.diag(X, "linear"),
            lambda: ft.matvec(X, v),
            lambda: ft.softmax_matvec(X, X, X),
            lambda: ft.distance(X),
            lambda: ft.center(ft.rbf(X)),
            lambda: ft.hsic(ft.rbf(X), ft.linear(X)),
            lambda: ft.cka(ft.rbf(X), ft.linear(X)),
            lambda: ft.empirical_ntk(X),
            lambda: ft.invariant(X, permutations=SHIFTS),
        )
        wanted = [function() for function in functions]
        assert all(y.grad_fn is not None for y in wanted)

        def refuse(*arguments):
            raise AssertionError("autograd was told of a call that it need not know of")

        for module in (ft._functions, ft._attention, ft._gram, ft._statistics):
            monkeypatch.setattr(module, "call", refuse)
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                for function, y in zip(functions, wanted, strict=True):
                    torch.testing.assert_close(function(), y, rtol=1e-12, atol=0)

    def test_changed_in_place(self, rng):
        (X,) = draw(rng, (4, 3))
        K = ft.rbf(X)
        with torch.no_grad():
            X.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            K.sum().backward()


@pytest.mark.parametrize(
    "function",
    [
        lambda X: ft.rbf(X).square().sum(),
        lambda X: ft.matern(X, X[:2], length_scale=torch.ones(3, dtype=torch.float64)).square().sum(),
        lambda X: ft.diag(X, "linear").square().sum(),
        lambda X: ft.matvec(X, X[:, 0]).square().sum(),
        lambda X: ft.softmax_matvec(X, X, X).square().sum(),
        lambda X: ft.distance(X).square().sum(),
        lambda X: ft.invariant(X, permutations=SHIFTS).sum(),
        lambda X: ft.cka(ft.linear(X), ft.rbf(X)),
        lambda X: ft.empirical_ntk(X).square().sum(),
    ],
)
def test_gradients_of_every_sample(function, rng):
    (X,) = draw(rng, (3, 4, 3))
    found = torch.func.vmap(torch.func.grad(function))(X.detach())
    (wanted,) = torch.autograd.grad(sum(function(part) for part in X), X)
    torch.testing.assert_close(found, wanted, rtol=1e-14, atol=1e-14)  # some are near 100, of which an ulp is more


# Megabytes by which the largest memory of a process grows in forward and backward.
MEMORY = """
import torch
import fastdl.torch as ft

def peak():
    return int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024

X, v = torch.randn(8000, 4, requires_grad=True), torch.randn(8000, 2, requires_grad=True)
for call in (lambda n: ft.matvec(X[:n], v[:n]), lambda n: ft.softmax_matvec(X[:n], X[:n], v[:n])):
    call(100).sum().backward()
    before = peak()
    call(8000).sum().backward()
    print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the /proc of Linux")
def test_memory_of_products(native):
    """Neither K nor another matrix of its size, which would take 256 MB."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert all(float(megabytes) < 128 for megabytes in done.stdout.split()), done.stdout


class TestModule:
    """Gram as a module."""

    def test_learnt_parameters(self, rng):
        (X,) = draw(rng, (5, 3))
        kernel = ft.Gram("rbf", gamma=torch.nn.Parameter(torch.tensor(0.3, dtype=torch.float64)))
        assert list(kernel.state_dict()) == ["gamma"]
        agree(kernel(X), plain.rbf(X.detach(), gamma=0.3))
        agree(kernel(X, X[:2]), plain.rbf(X.detach(), X[:2].detach(), gamma=0.3))
        agree(kernel.matvec(X, torch.ones(5, dtype=torch.float64)), kernel(X).sum(1))
        agree(kernel.diag(X), torch.ones(5, dtype=torch.float64))
        kernel(X).sum().backward()
        assert kernel.gamma.grad.shape == ()
        assert repr(kernel) == "Gram(rbf)"

    def test_buffers_and_numbers(self):
        kernel = ft.Gram(ft.matern, length_scale=torch.tensor([1.0, 2.0]), nu=2.5)
        assert list(kernel.state_dict()) == ["length_scale"]
        assert list(kernel.parameters()) == []
        assert repr(kernel) == "Gram(matern, nu=2.5)"
        assert kernel(torch.ones(3, 2)).shape == (3, 3)
        with pytest.raises(TypeError, match="expected parameters of rbf"):
            ft.Gram("rbf", degree=2)

    def test_kept_positive(self, rng):
        (X,) = draw(rng, (5, 3))
        kernel = ft.Gram("rbf", gamma=torch.nn.Parameter(torch.tensor(-0.3, dtype=torch.float64)))
        torch.nn.utils.parametrize.register_parametrization(kernel, "gamma", torch.nn.Softplus())
        kernel(X).sum().backward()
        assert kernel.parametrizations.gamma.original.grad is not None

    def test_a_gaussian_process_learns_its_length_scales(self):
        """The likelihood of a process that depends on one of two features: the other's scale grows."""
        rng = np.random.default_rng(0)
        X = torch.from_numpy(rng.uniform(-2, 2, (40, 2)))
        y = torch.sin(2 * X[:, 0])
        logs = torch.zeros(2, dtype=torch.float64, requires_grad=True)

        def loss():
            K = ft.matern(X, length_scale=logs.exp(), nu=2.5) + 1e-2 * torch.eye(40, dtype=torch.float64)
            factor = torch.linalg.cholesky(K)
            return 0.5 * y @ torch.cholesky_solve(y[:, None], factor)[:, 0] + factor.diagonal().log().sum()

        start = loss().item()
        optimizer = torch.optim.Adam([logs], 0.1)
        for _ in range(60):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
        assert loss().item() < start - 5
        scales = logs.exp()
        assert scales[1] > 3 * scales[0]
