"""The kernel of an estimator, and its products: what all solvers see of the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastdl import gram
from fastdl._kernels import find

if TYPE_CHECKING:
    from typing import Protocol

    from fastdl._arrays import HostArray

    class Kernel(Protocol):
        """A kernel with its parameters: `fastdl.sklearn.InvariantKernel` is another."""

        def gram(self, X: HostArray, Y: HostArray | None = None) -> HostArray:
            """Give K(X, Y)."""
            ...

        def matvec(self, X: HostArray, v: HostArray, Y: HostArray | None = None) -> HostArray:
            """Give K(X, Y) v."""
            ...

        def diag(self, X: HostArray) -> HostArray:
            """Give the diagonal of K(X, X)."""
            ...


FLOATS = (np.float64, np.float32)

# Parameters that an estimator has by themselves, as in scikit-learn; all others come in kernel_params.
OWN = ("gamma", "degree", "coef0")


class NamedKernel:
    """A kernel of `fastdl.gram` with its parameters."""

    def __init__(self, name: str, parameters: dict[str, Any]) -> None:
        self.name = name
        self.parameters = parameters

    def gram(self, X: HostArray, Y: HostArray | None = None) -> HostArray:
        """Give K(X, Y)."""
        result: HostArray = gram.gram(X, Y, self.name, **self.parameters)
        return result

    def matvec(self, X: HostArray, v: HostArray, Y: HostArray | None = None) -> HostArray:
        """Give K(X, Y) v."""
        result: HostArray = gram.matvec(X, v, Y, self.name, **self.parameters)
        return result

    def diag(self, X: HostArray) -> HostArray:
        """Give the diagonal of K(X, X)."""
        result: HostArray = gram.diag(X, self.name, **self.parameters)
        return result


def kernel_parameters(estimator: Any, n_features: int) -> tuple[str, dict[str, Any]]:
    """Give the name of an estimator's kernel and those of its parameters that the kernel has.

    As in scikit-learn, gamma, degree and coef0 are passed over by kernels without them, so that a search over kernels
    need not know which has which; what is in kernel_params must fit.
    """
    where = f"sklearn.{type(estimator).__name__}"
    entry = find(where, estimator.kernel)
    given = estimator.kernel_params
    if given is not None and not isinstance(given, dict):
        raise TypeError(f"[{where}] expected kernel_params to be a dict or None, got {type(given).__name__}")
    parameters = {
        name: getattr(estimator, name)
        for name in OWN
        if name in entry.defaults and getattr(estimator, name) is not None
    }
    parameters.update(entry.names(where, given or {}))
    # As checked, with copies of what the caller could change.
    return entry.name, entry.named(where, n_features, parameters)


def kernel_of(estimator: Any) -> Kernel:
    """Give the kernel of an estimator that knows its number of features, with checked parameters.

    It is the estimator's as it is now: to set other parameters does not change what was learnt with it.
    """
    n_features = estimator.n_features_in_
    if hasattr(estimator.kernel, "kernel_for"):
        for name in ("gamma", "kernel_params"):
            if getattr(estimator, name, None) is not None:
                raise ValueError(
                    f"[sklearn.{type(estimator).__name__}] expected {name} in the kernel itself, "
                    f"got one beside {type(estimator.kernel).__name__}: set kernel__{name}"
                )
        return estimator.kernel.kernel_for(n_features)  # type: ignore[no-any-return]
    return NamedKernel(*kernel_parameters(estimator, n_features))


class Operator:
    r"""The matrix :math:`S K S` for a diagonal S, known by its products.

    Parameters
    ----------
    kernel : Kernel
        What gives K.
    X : array of shape (n, d)
        The samples.
    scale : array of shape (n,), optional
        The diagonal of S; ones if not given.
    K : array of shape (n, n), optional
        K itself in float64, for few samples: its products are then those of a matrix.

    Notes
    -----
    Vectors are float64 whatever the dtype of the samples: the solvers would lose orthogonality in float32. Only for a
    product are they brought to that of the samples, and `fastdl.gram.matvec` sums in double.
    """

    def __init__(self, kernel: Kernel, X: HostArray, scale: HostArray | None = None, K: HostArray | None = None):
        self.kernel = kernel
        self.X = X
        self.scale = scale
        self.K = K

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.X)

    @property
    def dtype(self) -> Any:
        """The dtype of the samples, which says how exact products are."""
        return self.X.dtype

    def product(self, V: HostArray) -> HostArray:
        """Multiply with columns, of shape (n, p)."""
        return self._product(self.X, V)

    def exact_product(self, V: HostArray) -> HostArray:
        """Multiply with columns in float64, whatever the dtype of the samples is: it takes some times as long."""
        return self._product(self.X.astype(np.float64), V)

    def _product(self, X: HostArray, V: HostArray) -> HostArray:
        if self.scale is not None:
            V = self.scale[:, None] * V
        result = np.asarray(self.K @ V) if self.K is not None else self._multiply(X, V)
        if self.scale is not None:
            result *= self.scale[:, None]
        return result

    def _multiply(self, X: HostArray, V: HostArray) -> HostArray:
        if X.dtype == np.float64:
            return self.kernel.matvec(X, np.ascontiguousarray(V))
        # float32 ends at 1e-38 and 1e38, residuals do not: columns are brought near 1 by powers of two.
        largest = np.abs(V).max(axis=0, initial=0)
        exponents = np.frexp(np.where(np.isfinite(largest), largest, 1))[1]
        columns = np.ascontiguousarray(np.ldexp(V, -exponents), dtype=X.dtype)
        return np.ldexp(self.kernel.matvec(X, columns).astype(np.float64), exponents)

    def diagonal(self) -> HostArray:
        """Give the diagonal, in float64."""
        diagonal = self.kernel.diag(self.X).astype(np.float64)
        return diagonal if self.scale is None else diagonal * self.scale**2

    def block(self, rows: slice | HostArray, columns: HostArray) -> HostArray:
        """Give a part of the matrix, in float64."""
        part = self.kernel.gram(self.X[rows], self.X[columns]) if self.K is None else self.K[rows][:, columns]
        part = part.astype(np.float64)
        if self.scale is not None:
            part *= self.scale[rows, None]
            part *= self.scale[columns]
        return part


def matrix_of(where: str, kernel: Kernel, X: HostArray) -> HostArray:
    """Form K, in float64 also for samples in float32, of which K may not be positive definite in that type."""
    return checked(where, "K", kernel.gram(X.astype(np.float64, copy=False)))


def checked(where: str, what: str, value: HostArray) -> HostArray:
    """Refuse what is not finite: a kernel may overflow on finite samples."""
    if not np.all(np.isfinite(value)):
        raise ValueError(f"[{where}] expected {what} to be finite, got NaN or infinity")
    return value
