"""The kernels by name, with gradients: each is `fastdl.torch.gram` with that kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastdl.torch._gram import matrix

if TYPE_CHECKING:
    from torch import Tensor


def linear(X: Tensor, Y: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Inner products of all pairs of rows, `fastdl.gram.linear` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.linear(X)
    tensor([[ 5., 11.],
            [11., 25.]])
    """
    return matrix("gram.linear", X, Y, "linear", {}, out)


def polynomial(
    X: Tensor,
    Y: Tensor | None = None,
    degree: float = 3,
    gamma: float | Tensor | None = None,
    coef0: float = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Powers of inner products, `fastdl.gram.polynomial` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    degree, gamma, coef0
        As in `fastdl.gram.polynomial`; gamma may be a tensor with a gradient.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.polynomial(X, degree=2, gamma=1)
    tensor([[ 36., 144.],
            [144., 676.]])
    """
    return matrix("gram.polynomial", X, Y, "polynomial", {"degree": degree, "gamma": gamma, "coef0": coef0}, out)


def sigmoid(
    X: Tensor,
    Y: Tensor | None = None,
    gamma: float | Tensor | None = None,
    coef0: float = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Hyperbolic tangents of inner products, `fastdl.gram.sigmoid` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma, coef0
        As in `fastdl.gram.sigmoid`; gamma may be a tensor with a gradient.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.sigmoid(X, gamma=0.1, coef0=0)
    tensor([[0.4621, 0.8005],
            [0.8005, 0.9866]])
    """
    return matrix("gram.sigmoid", X, Y, "sigmoid", {"gamma": gamma, "coef0": coef0}, out)


def rbf(
    X: Tensor, Y: Tensor | None = None, gamma: float | Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Gaussians of distances, `fastdl.gram.rbf` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma
        As in `fastdl.gram.rbf`; gamma may be a tensor with a gradient.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.rbf(X, gamma=0.25)
    tensor([[1.0000, 0.1353],
            [0.1353, 1.0000]])
    """
    return matrix("gram.rbf", X, Y, "rbf", {"gamma": gamma}, out)


def laplacian(
    X: Tensor, Y: Tensor | None = None, gamma: float | Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Exponentials of sums of absolute differences, `fastdl.gram.laplacian` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma
        As in `fastdl.gram.laplacian`; gamma may be a tensor with a gradient.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.laplacian(X, gamma=0.5)
    tensor([[1.0000, 0.1353],
            [0.1353, 1.0000]])
    """
    return matrix("gram.laplacian", X, Y, "laplacian", {"gamma": gamma}, out)


def cosine(X: Tensor, Y: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cosines of the angles between rows, `fastdl.gram.cosine` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.cosine(X)
    tensor([[1.0000, 0.9839],
            [0.9839, 1.0000]])
    """
    return matrix("gram.cosine", X, Y, "cosine", {}, out)


def additive_chi2(X: Tensor, Y: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Negative chi-squared distances of histograms, `fastdl.gram.additive_chi2` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.additive_chi2(X)
    tensor([[ 0.0000, -1.6667],
            [-1.6667,  0.0000]])
    """
    return matrix("gram.additive_chi2", X, Y, "additive_chi2", {}, out)


def chi2(X: Tensor, Y: Tensor | None = None, gamma: float | Tensor = 1.0, *, out: Tensor | None = None) -> Tensor:
    """Exponentials of negative chi-squared distances of histograms, `fastdl.gram.chi2` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    gamma
        As in `fastdl.gram.chi2`; gamma may be a tensor with a gradient.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.chi2(X)
    tensor([[1.0000, 0.1889],
            [0.1889, 1.0000]])
    """
    return matrix("gram.chi2", X, Y, "chi2", {"gamma": gamma}, out)


def matern(
    X: Tensor, Y: Tensor | None = None, length_scale: Any = 1.0, nu: float = 1.5, *, out: Tensor | None = None
) -> Tensor:
    """Matérn kernel, `fastdl.gram.matern` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    length_scale, nu
        As in `fastdl.gram.matern`; length_scale may be a tensor with a gradient, of one number or one a feature. For
        gradients nu is 0.5, 1.5, 2.5 or inf.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.matern(X, nu=0.5)
    tensor([[1.0000, 0.0591],
            [0.0591, 1.0000]])
    """
    return matrix("gram.matern", X, Y, "matern", {"length_scale": length_scale, "nu": nu}, out)


def geometric(X: Tensor, Y: Tensor | None = None, alpha: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Geometric series of scaled inner products, `fastdl.gram.geometric` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    alpha
        As in `fastdl.gram.geometric`.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.geometric(X / 10)
    tensor([[1.0127, 1.0283],
            [1.0283, 1.0667]])
    """
    return matrix("gram.geometric", X, Y, "geometric", {"alpha": alpha}, out)


def sinc(X: Tensor, Y: Tensor | None = None, omega: float = 1.0, *, out: Tensor | None = None) -> Tensor:
    """Products of cardinal sines, `fastdl.gram.sinc` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    omega
        As in `fastdl.gram.sinc`.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.sinc(X)
    tensor([[0.1013, 0.0209],
            [0.0209, 0.1013]])
    """
    return matrix("gram.sinc", X, Y, "sinc", {"omega": omega}, out)


def arc_cosine(X: Tensor, Y: Tensor | None = None, order: int = 1, *, out: Tensor | None = None) -> Tensor:
    """Covariances of one infinitely wide hidden layer, `fastdl.gram.arc_cosine` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    order
        As in `fastdl.gram.arc_cosine`.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.arc_cosine(X)
    tensor([[ 5.0000, 11.0069],
            [11.0069, 25.0000]])
    """
    return matrix("gram.arc_cosine", X, Y, "arc_cosine", {"order": order}, out)


def nngp(
    X: Tensor,
    Y: Tensor | None = None,
    depth: int = 1,
    w_std: float = 1.0,
    b_std: float = 0.0,
    normalize: bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Covariances of the outputs of an infinitely wide random ReLU network, `fastdl.gram.nngp` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    depth, w_std, b_std, normalize
        As in `fastdl.gram.nngp`.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.nngp(X, depth=2)
    tensor([[0.6250, 1.3767],
            [1.3767, 3.1250]])
    """
    return matrix(
        "gram.nngp", X, Y, "nngp", {"depth": depth, "w_std": w_std, "b_std": b_std, "normalize": normalize}, out
    )


def ntk(
    X: Tensor,
    Y: Tensor | None = None,
    depth: int = 1,
    w_std: float = 1.0,
    b_std: float = 0.0,
    normalize: bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Neural tangent kernel of an infinitely wide ReLU network, `fastdl.gram.ntk` with gradients.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Samples, one a row.
    Y : tensor of shape (m, d), optional
        Other samples. None means ``Y = X``.
    depth, w_std, b_std, normalize
        As in `fastdl.gram.ntk`.
    out : tensor of shape (n, m), optional
        Where to put the result, where no gradient is recorded.

    Returns
    -------
    tensor of shape (n, m)

    Examples
    --------
    >>> import torch
    >>> import fastdl.torch
    >>> X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> fastdl.torch.ntk(X)
    tensor([[ 2.5000,  5.3443],
            [ 5.3443, 12.5000]])
    """
    return matrix(
        "gram.ntk", X, Y, "ntk", {"depth": depth, "w_std": w_std, "b_std": b_std, "normalize": normalize}, out
    )
