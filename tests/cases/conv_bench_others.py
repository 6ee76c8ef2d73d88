"""What of fastdl.conv is benchmarked besides convolutions and their gradients: a line a case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cases import conv_formulas
from cases import conv_others_formulas as formulas
from cases.bench_case import BenchCase, normal, some
from cases.conv_bench import ConvCase, conv


# ---- transposed convolutions, and filters prepared beforehand ----
@dataclass(frozen=True)
class TransposedCase(BenchCase):
    """A transposed convolution."""

    family = "conv"
    formulas = conv_formulas

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take the channels of the result that there is time for, of its first and last image."""
        if self.terms <= budget:
            return inputs, ...
        x, w = inputs["x"], inputs["w"]
        first = some(len(x), 0.0)
        others = some(w.shape[1], budget / self.terms * len(x) / len(first))
        return {**inputs, "x": x[first], "w": w[:, others]}, np.ix_(first, others)


def transposed(n: int, axes: int, channels: int, filters: int, side: int, k: int, stride: int) -> TransposedCase:
    """Enlarge n images by the stride, as a decoder does."""
    x, w = (n, channels, *axes * (side,)), (channels, filters, *axes * (k,))
    padding = (k - 1) // 2
    # Sides that are whole multiples, whatever k is.
    parameters = {"stride": stride, "padding": padding, "output_padding": max(0, stride + 2 * padding - k)}

    def arrays(rng, dtype):
        return {"x": normal(rng, x, dtype), "w": normal(rng, w, dtype)}

    size: dict[str, int | str] = {"n": n, "channels": channels, "filters": filters, "side": side, "k": k}
    terms = float(math.prod(x) * math.prod(w[1:]))
    name = f"conv_transpose{axes}d"
    return TransposedCase(name, {**size, "stride": stride}, arrays, parameters, 2 * terms, terms=terms)


@dataclass(frozen=True)
class PreparedCase(ConvCase):
    """A convolution whose filters are prepared before it is timed."""

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Give the call of what was prepared."""
        from fastdl import conv

        x, rest = inputs["x"], {name: value for name, value in inputs.items() if name != "x"}
        made = conv.prepare(**rest, input_size=x.shape)
        return lambda: made(x)


def prepared(n: int, layer: tuple[int, ...]) -> PreparedCase:
    plain = conv("conv2d", n, layer)
    return PreparedCase(
        "prepare", plain.size, plain.arrays, plain.parameters, plain.flops, terms=plain.terms, result=plain.result
    )


# ---- pooling ----
@dataclass(frozen=True)
class PoolCase(BenchCase):
    """Pooling, or its gradient; the windows are of those that need them."""

    family = "conv"
    formulas = formulas

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Give the call: of a largest element its place is enough to know."""
        if not self.name.startswith("max") or not self.name.endswith("_grad"):
            return super().caller(inputs)
        return super().caller({name: inputs[name] for name in ("grad", "indices", "input_size")})

    def part(self, inputs: dict[str, Any], budget: float) -> tuple[dict[str, Any], Any]:
        """Take some of the images, if there is not time for all."""
        if self.terms <= budget or self.parameters.get("return_indices"):
            return inputs, ...
        of_images = [name for name in ("x", "grad", "indices") if name in inputs]
        chosen = some(len(inputs[of_images[0]]), budget / self.terms)
        subset = {name: inputs[name][chosen] for name in of_images}
        if "input_size" in inputs:
            subset["input_size"] = (len(chosen), *inputs["input_size"][1:])
        return {**inputs, **subset}, chosen


def pooling(
    name: str, n: int, channels: int, side: int, k: int, stride: int, padding: int = 0, indices: bool = False
) -> PoolCase:
    """Pool n images, or take the gradient of it; with `indices`, tell also where the largest elements are."""
    axes = int(name[8])
    x = (n, channels, *axes * (side,))
    y = (n, channels, *axes * ((side + 2 * padding - k) // stride + 1,))
    parameters: dict[str, Any] = {"kernel_size": k, "stride": stride, "padding": padding}

    def arrays(rng, dtype):
        if not name.endswith("_grad"):
            return {"x": normal(rng, x, dtype)}
        found = {"grad": normal(rng, y, dtype), "input_size": x}
        if name.startswith("max"):
            found["indices"] = formulas.max_pool2d(normal(rng, x, dtype), **parameters, return_indices=True)[1]
        return found

    size: dict[str, int | str] = {"n": n, "channels": channels, "side": side, "k": k, "stride": stride}
    if indices:
        size["indices"] = "yes"
    further = {"return_indices": True} if indices else {}
    terms = float(math.prod(y) * k**axes)
    return PoolCase(name, size, arrays, {**parameters, **further}, terms=terms)


# ---- matrices of convolutions ----
@dataclass(frozen=True)
class OtherCase(BenchCase):
    """A call whose whole result is checked."""

    family = "conv"
    formulas = formulas


def circulant(n: int) -> OtherCase:
    def arrays(rng, dtype):
        return {"h": normal(rng, (n,), dtype)}

    return OtherCase("circulant", {"n": n}, arrays, terms=float(n * n))


def toeplitz(m: int, n: int) -> OtherCase:
    def arrays(rng, dtype):
        return {"h": normal(rng, (m,), dtype)}

    return OtherCase("toeplitz", {"h": m, "n": n}, arrays, {"n": n}, terms=float((n + m - 1) * n))


# ---- graphs, dense and by their edges ----
CHEBYSHEV = {"coefficients": (0.5, -1.0, 0.75, 0.25, -0.125), "basis": "chebyshev", "largest": 2.0}
DENSE, SPARSE = ("numpy", "torch", "scipy dense"), ("scipy", "torch sparse")


def _symmetric(rng, n: int, dtype) -> np.ndarray:
    """Give weights of edges between all nodes."""
    A = rng.random((n, n))
    A = np.triu(A, 1)
    return (A + A.T).astype(dtype)


def graph(name: str, n: int, features: int = 0, outputs: int = 0) -> OtherCase:
    """Take a graph of n nodes, all of them joined, as a dense matrix."""
    parameters = {"graph_laplacian": {"normalized": True}, "graph_filter": CHEBYSHEV}.get(name, {})

    def arrays(rng, dtype):
        A = _symmetric(rng, n, dtype)
        if name == "graph_laplacian":
            return {"A": A}
        X = normal(rng, (n, features), dtype)
        if name == "graph_filter":
            return {"L": formulas.graph_laplacian(A, normalized=True).astype(dtype), "X": X}
        return {"A": A, "X": X, "W": normal(rng, (features, outputs), dtype)}

    size: dict[str, int | str] = {"nodes": n} | ({"features": features} if features else {})
    size |= {"outputs": outputs} if outputs else {}
    products = {"graph_filter": len(CHEBYSHEV["coefficients"]) - 1, "gcn": 1}.get(name, 0)
    terms = float(n * n * max(1, products * features) + n * features * outputs)
    return OtherCase(name, size, arrays, parameters, 2 * terms if products else 0.0, terms=terms, rivals=DENSE)


@dataclass(frozen=True)
class SparseCase(OtherCase):
    """A call with a matrix of scipy.sparse, which is made of the edges beforehand."""

    reference = False  # there is one way for it, on all backends
    on_devices = False

    @property
    def formula(self) -> Callable[..., Any]:
        return getattr(self.formulas, f"sparse_{self.name}")

    @property
    def bound(self) -> Callable[..., Any]:
        return getattr(self.formulas, f"sparse_{self.name}_bound")

    def caller(self, inputs: dict[str, Any]) -> Callable[[], Any]:
        """Give the call, with the matrix made."""
        from fastdl import conv

        A = matrix_of(**inputs)
        if self.name == "graph_laplacian":
            return lambda: Entries(conv.graph_laplacian(A, inputs["normalized"]))
        if self.name == "gcn":
            return lambda: conv.gcn(A, inputs["X"], inputs["W"])
        L = conv.graph_laplacian(A, normalized=True)
        return lambda: conv.graph_filter(L, inputs["X"], **CHEBYSHEV)


class Entries:
    """The entries of a sparse matrix, looked up only when they are compared."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    @property
    def nbytes(self) -> int:
        found = self.matrix.tocsr()
        return found.data.nbytes + found.indices.nbytes + found.indptr.nbytes

    def numpy(self) -> np.ndarray:
        """Give rows, columns and entries, row by row and end to end."""
        found = self.matrix.tocsr()
        found.sum_duplicates()
        found.sort_indices()
        rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        return np.concatenate([rows, found.indices, found.data])


def matrix_of(weights: np.ndarray, ends: np.ndarray, n: int = 0, X: np.ndarray | None = None, **rest: Any) -> Any:
    """Give the weights of edges as a matrix of scipy.sparse."""
    from scipy.sparse import csr_array

    n = n if X is None else len(X)
    return csr_array((weights, (ends[0], ends[1])), shape=(n, n))


def sparse_graph(name: str, n: int, degree: int, features: int = 0, outputs: int = 0) -> SparseCase:
    """Take n nodes on a circle, each joined with the next one and, from both sides, with about `degree` at random."""
    parameters: dict[str, Any] = {"graph_filter": CHEBYSHEV}.get(name, {})
    if name == "graph_laplacian":
        parameters = {"n": n, "normalized": True}

    def arrays(rng, dtype):
        i = np.arange(n)
        there = np.concatenate([i, rng.integers(0, n, (degree - 2) * n // 2)])
        back = np.concatenate([(i + 1) % n, rng.integers(0, n, (degree - 2) * n // 2)])
        pairs = np.unique(np.minimum(there, back) * n + np.maximum(there, back))
        low, high = (end[pairs // n != pairs % n] for end in (pairs // n, pairs % n))
        weights = (1 - rng.random(len(low))).astype(dtype)
        ends = np.stack([np.concatenate([low, high]), np.concatenate([high, low])])
        order = np.lexsort((ends[1], ends[0]))
        found = {"weights": np.concatenate([weights, weights])[order], "ends": ends[:, order]}
        if features:
            found["X"] = normal(rng, (n, features), dtype)
        if outputs:
            found["W"] = normal(rng, (features, outputs), dtype)
        return found

    size: dict[str, int | str] = {"nodes": n, "degree": degree} | ({"features": features} if features else {})
    size |= {"outputs": outputs} if outputs else {}
    products = {"graph_filter": len(CHEBYSHEV["coefficients"]) - 1, "gcn": 1}.get(name, 0)
    terms = float(n * degree * max(1, products * features) + n * features * outputs)
    return SparseCase(name, size, arrays, parameters, 2 * terms if products else 0.0, terms=terms, rivals=SPARSE)


# ---- what is run ----
# So small that a loop in Python takes part.
SMALL = (
    transposed(1, 1, 8, 8, 50, 4, 2),
    transposed(1, 2, 4, 4, 9, 4, 2),
    transposed(1, 3, 3, 3, 5, 3, 2),
    prepared(1, (4, 4, 16, 3, 1)),
    *(
        pooling(f"{kind}_pool{axes}d{gradient}", n, channels, side, 3, 2, 1)
        for kind in ("max", "avg")
        for gradient in ("", "_grad")
        for axes, n, channels, side in ((1, 4, 16, 101), (2, 1, 8, 29), (3, 1, 4, 13))
    ),
    circulant(100),
    toeplitz(31, 101),
    graph("graph_laplacian", 100),
    graph("graph_filter", 30, 16),
    graph("gcn", 40, 16, 8),
)

TRANSPOSED = (
    # Decoders of images as networks have them, and sides that fit nothing.
    *(transposed(8, 2, *layer) for layer in ((256, 128, 14, 4, 2), (128, 64, 28, 4, 2), (64, 3, 56, 4, 2))),
    transposed(8, 2, 64, 64, 28, 2, 2),
    transposed(3, 2, 33, 65, 31, 3, 2),
    transposed(8, 2, 64, 64, 28, 3, 1),
    transposed(8, 1, 128, 64, 500, 16, 8),
    transposed(4, 1, 65, 33, 1001, 4, 2),
    transposed(1, 3, 64, 32, 14, 2, 2),
    transposed(1, 3, 17, 33, 15, 3, 2),
)

PREPARED = tuple(
    prepared(n, layer)
    for n in (1, 8)
    for layer in ((64, 64, 56, 3, 1), (512, 512, 7, 3, 1), (256, 64, 56, 1, 1), (33, 65, 31, 3, 1), (3, 64, 224, 7, 2))
)

POOLS = (
    *(
        pooling(f"{kind}_pool{axes}d{gradient}", *sizes)
        for kind in ("max", "avg")
        for gradient in ("", "_grad")
        for axes, shapes in (
            (1, ((16, 64, 1024, 3, 2, 1), (4, 33, 100_001, 4, 4), (16, 64, 8192, 2, 2))),
            # ResNet, VGG, and what is left of an image at the end.
            (2, ((8, 64, 112, 3, 2, 1), (8, 128, 112, 2, 2), (7, 33, 57, 3, 1, 1), (32, 512, 7, 7, 7))),
            (3, ((2, 16, 32, 2, 2), (1, 17, 45, 3, 2, 1), (2, 64, 28, 2, 2))),
        )
        for sizes in shapes
    ),
    *(pooling("max_pool2d", *sizes, indices=True) for sizes in ((8, 64, 112, 3, 2, 1), (8, 128, 56, 2, 2))),
)

MATRICES = (
    *(circulant(n) for n in (513, 1024, 4099)),
    *(toeplitz(m, n) for m, n in ((127, 513), (1000, 1000), (1000, 4099))),
)

GRAPHS = (
    *(graph("graph_laplacian", n) for n in (513, 2048, 4099)),
    *(graph("graph_filter", n, features) for n, features in ((513, 16), (1000, 33), (2048, 64))),
    *(graph("gcn", n, features, features) for n, features in ((513, 16), (1000, 33), (2048, 64))),
    # Citations and the like: some thousand papers, and some ten thousand.
    *(sparse_graph("graph_laplacian", n, degree) for n, degree in ((2708, 4), (20_001, 16), (100_000, 8))),
    *(sparse_graph("graph_filter", *sizes) for sizes in ((2708, 4, 64), (20_001, 16, 33))),
    *(sparse_graph("gcn", *sizes) for sizes in ((2708, 4, 512, 16), (20_001, 16, 100, 33))),
)

OTHERS = (*TRANSPOSED, *PREPARED, *POOLS, *MATRICES, *GRAPHS)
