"""Graphs: Laplacians and their filters against eigenvectors, dense and sparse."""

import tracemalloc

import numpy as np
import pytest

from cases import integers
from fastdl import conv
from fastdl.reference import conv as reference

SIZES = (0, 1, 2, 7, 33)
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


@pytest.fixture
def sparse():
    return pytest.importorskip("scipy.sparse")


def graph(rng, n, dtype=np.float64, density=0.4):
    """Weights of a graph without direction or self-loops; the last node is isolated."""
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), 1)
    A[:, -1:] = 0
    return (A + A.T).astype(dtype)


def cycle(n):
    return np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)


def kinds(matrix, sparse=None):
    """The matrix as it is, and sparse."""
    yield matrix
    if sparse is not None:
        yield sparse.csr_array(matrix)


def dense(matrix):
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


# ---- Laplacians ----


@pytest.mark.parametrize("n", SIZES)
def test_laplacian_by_its_formula(level, dtype, rng, n, sparse):
    A = graph(rng, n, dtype)
    eps = np.finfo(dtype).eps
    wide = A.astype(float)
    degree = wide.sum(axis=1)
    root = np.where(degree == 0, 0, 1 / np.sqrt(np.where(degree == 0, 1, degree)))
    expected = np.diag(degree) - wide
    normalized = np.diag(np.where(degree == 0, 0.0, 1.0)) - root[:, None] * wide * root[None, :]
    for given in kinds(A, sparse):
        for flag, wanted in ((False, expected), (True, normalized)):
            L = conv.graph_laplacian(given, flag)
            assert L.dtype == dtype and L.shape == (n, n)
            if given is not A:
                assert sparse.issparse(L) and L.format == "csr"
            found = dense(L)
            assert np.all(np.abs(found - wanted) <= (n + 4) * eps * max(1, degree.max(initial=0)))
            assert found.tobytes() == np.ascontiguousarray(found.T).tobytes()


def test_the_cycle_of_six(level, dtype, sparse):
    for A in kinds(cycle(6).astype(dtype), sparse):
        L = conv.graph_laplacian(A)
        np.testing.assert_allclose(np.linalg.eigvalsh(dense(L).astype(float)), [0, 1, 1, 3, 3, 4], rtol=0, atol=1e-14)
        normalized = dense(conv.graph_laplacian(A, normalized=True)).astype(float)
        tolerance = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(normalized, dense(L).astype(float) / 2, rtol=0, atol=tolerance)


def test_constants_are_in_the_kernel(level, dtype, rng):
    A = integers(rng, (17, 17), dtype)
    A = np.abs(A) + np.abs(A).T
    L = conv.graph_laplacian(A)
    np.testing.assert_array_equal(L @ np.ones(17, dtype), 0)
    np.testing.assert_array_equal(np.diagonal(L), A.sum(axis=1) - np.diagonal(A))
    values = np.linalg.eigvalsh(conv.graph_laplacian(A, normalized=True).astype(float))
    slack = 17 * np.finfo(dtype).eps
    assert -slack <= values.min() and values.max() <= 2 + slack


def test_isolated_nodes(level, dtype, sparse):
    A = np.zeros((4, 4), dtype)
    A[0, 1] = A[1, 0] = 3
    for given in kinds(A, sparse):
        L = dense(conv.graph_laplacian(given, normalized=True))
        np.testing.assert_allclose(L[:2, :2], [[1, -1], [-1, 1]], rtol=2 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(L[2:], 0)
        np.testing.assert_array_equal(L[:, 2:], 0)


def test_nan_reaches_the_node_it_is_at_only(level, dtype):
    A = cycle(6).astype(dtype)
    A[2, 3] = np.nan
    L = conv.graph_laplacian(A)
    expected = np.zeros((6, 6), bool)
    expected[2, [2, 3]] = True
    np.testing.assert_array_equal(np.isnan(L), expected)


# ---- filters ----


def filtered(L, X, coefficients, basis, largest=None):
    """By the eigenvectors of L, which the filter itself never needs."""
    values, vectors = np.linalg.eigh(np.asarray(L, np.float64))
    if basis == "chebyshev":
        scaled = 2 * values / (values.max() if largest is None else largest) - 1
        response = np.polynomial.chebyshev.chebval(scaled, coefficients)
    else:
        response = np.polynomial.polynomial.polyval(values, coefficients)
    return vectors @ (response.reshape(-1, *[1] * (X.ndim - 1)) * (vectors.T @ X.astype(float)))


@pytest.mark.parametrize("basis", ["monomial", "chebyshev"])
@pytest.mark.parametrize("coefficients", [(2.0,), (0.5, -1.0), (0.3, 0.2, -0.4, 0.1, 0.05)], ids=len)
@pytest.mark.parametrize("normalized", [False, True])
def test_filters_by_eigenvectors(level, dtype, rng, sparse, basis, coefficients, normalized):
    L = conv.graph_laplacian(graph(rng, 33, dtype), normalized)
    eps = np.finfo(dtype).eps
    for shape in ((33,), (33, 1), (33, 9), (33, 0)):
        X = rng.standard_normal(shape).astype(dtype)
        expected = filtered(L, X, coefficients, basis)
        # Terms are at most this large; a product of 33 elements adds as many roundings, and 1e-12 the eigenvectors.
        norm = max(1.0, float(np.abs(L.astype(float)).sum(axis=1).max())) if basis == "monomial" else 1.0
        size = sum(abs(c) * norm**k for k, c in enumerate(coefficients)) * np.abs(X).max(initial=0) * 33
        for given in kinds(L, sparse):
            Y = conv.graph_filter(given, X, coefficients, basis)
            assert type(Y) is np.ndarray and Y.dtype == dtype and Y.shape == shape
            assert np.all(np.abs(Y - expected) <= (64 * eps + 1e-12) * size)


def test_largest_is_taken_as_given(level, dtype, rng, sparse):
    L = conv.graph_laplacian(graph(rng, 40, dtype), normalized=True)
    X = rng.standard_normal((40, 3)).astype(dtype)
    coefficients = [0.5, 1.0, -0.25, 0.125]
    expected = filtered(L, X, coefficients, "chebyshev", largest=2)
    for given in kinds(L, sparse):
        Y = conv.graph_filter(given, X, coefficients, "chebyshev", largest=2)
        np.testing.assert_allclose(Y, expected, rtol=0, atol=1000 * np.finfo(dtype).eps)


def test_one_coefficient_in_both_bases(level, rng):
    """Σ α_k T_k of one and two terms are polynomials one can write down."""
    L, X = conv.graph_laplacian(cycle(6)), rng.standard_normal((6, 2))
    np.testing.assert_array_equal(conv.graph_filter(L, X, [3.0]), 3 * X)
    np.testing.assert_array_equal(conv.graph_filter(L, X, [3.0], "chebyshev"), 3 * X)
    np.testing.assert_allclose(conv.graph_filter(L, X, [0, 1], "monomial"), L @ X, rtol=0, atol=1e-14)
    np.testing.assert_allclose(conv.graph_filter(L, X, [0, 1], "chebyshev"), 2 * (L @ X) / 4 - X, rtol=0, atol=1e-14)


def test_filters_reach_as_many_steps_as_they_have_powers(level, dtype, sparse):
    A = cycle(12).astype(dtype)
    impulse = np.zeros(12, dtype)
    impulse[0] = 1
    for given in kinds(conv.graph_laplacian(A), sparse):
        for steps in range(4):
            Y = conv.graph_filter(given, impulse, [1.0] * (steps + 1))
            distance = np.minimum(np.arange(12), 12 - np.arange(12))
            np.testing.assert_array_equal(Y != 0, distance <= steps)


def test_filters_commute_with_symmetries(level, rng):
    A, X = graph(rng, 15), rng.standard_normal((15, 4))
    order = rng.permutation(15)
    for basis in ("monomial", "chebyshev"):
        Y = conv.graph_filter(conv.graph_laplacian(A), X, [0.1, 0.2, 0.3], basis)
        turned = conv.graph_filter(conv.graph_laplacian(A[np.ix_(order, order)]), X[order], [0.1, 0.2, 0.3], basis)
        np.testing.assert_allclose(turned, Y[order], rtol=0, atol=1e-11)


def test_graphs_without_edges(level, dtype, sparse):
    for n in (1, 3, 60):
        X = np.ones((n, 2), dtype)
        for L in kinds(np.zeros((n, n), dtype), sparse):
            np.testing.assert_array_equal(conv.graph_filter(L, X, [1.0, 10.0, 100.0]), X)
            # T_k(-1) = (-1)^k
            np.testing.assert_array_equal(conv.graph_filter(L, X, [1.0, 10.0, 100.0], "chebyshev"), 91)
    for L in kinds(np.zeros((0, 0), dtype), sparse):
        assert conv.graph_filter(L, np.zeros((0, 3), dtype), [1.0, 1.0], "chebyshev").shape == (0, 3)


@pytest.mark.parametrize("n", [26, 60, 400])
def test_the_largest_eigenvalue_of_sparse_graphs(rng, n):
    pytest.importorskip("scipy.sparse")
    from scipy.sparse import csr_array

    from fastdl.reference.conv_graph_sparse import largest_eigenvalue

    complete = np.ones((n, n)) - np.eye(n)
    for A in (
        graph(rng, n, density=8 / n),
        cycle(n),
        complete,
        np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1),
    ):
        for normalized in (False, True):
            L = conv.graph_laplacian(A, normalized)
            exact = np.linalg.eigvalsh(L).max()
            assert abs(largest_eigenvalue(csr_array(L)) - exact) <= 1e-11 * exact


# ---- networks ----


@pytest.mark.parametrize("n", SIZES[1:])
@pytest.mark.parametrize("activation", [None, "relu", "leaky_relu", "sigmoid", "tanh"])
def test_layer_by_its_formula(level, dtype, rng, sparse, n, activation):
    from cases.conv import activated

    A = graph(rng, n, dtype)
    X, W = rng.standard_normal((n, 5)).astype(dtype), rng.standard_normal((5, 3)).astype(dtype)
    wide = A.astype(float) + np.eye(n)
    coupling = wide / np.sqrt(np.outer(wide.sum(axis=1), wide.sum(axis=1)))
    eps = np.finfo(dtype).eps
    for given in kinds(A, sparse):
        for weights, product in ((W, X.astype(float) @ W.astype(float)), (None, X.astype(float))):
            Y = conv.gcn(given, X, weights, activation=activation)
            assert type(Y) is np.ndarray and Y.dtype == dtype and Y.shape == product.shape
            limit = (n + 16) * eps * (np.abs(coupling) @ np.abs(product) + np.abs(X).sum(axis=1).max() + 1)
            assert np.all(np.abs(Y - activated(coupling @ product, activation)) <= limit)
        Y = conv.gcn(given, X[:, 0], activation=activation)
        np.testing.assert_allclose(Y, conv.gcn(given, X, activation=activation)[:, 0], rtol=8 * eps, atol=8 * eps)


def test_the_coupling_shrinks(level, dtype, rng, sparse):
    """The spectral norm is at most 1, and √d̃ is the vector it keeps."""
    for n in (2, 9, 40):
        A = graph(rng, n, dtype)
        for given in kinds(A, sparse):
            coupling = conv.gcn(given, np.eye(n, dtype=dtype)).astype(float)
            slack = 4 * n * np.finfo(dtype).eps
            assert np.linalg.norm(coupling, 2) <= 1 + slack
            kept = np.sqrt(1 + A.astype(float).sum(axis=1))
            np.testing.assert_allclose(coupling @ kept, kept, rtol=slack)


def test_a_graph_without_edges_does_nothing(level, dtype, rng, sparse):
    X = rng.standard_normal((5, 3)).astype(dtype)
    for A in kinds(np.zeros((5, 5), dtype), sparse):
        np.testing.assert_array_equal(conv.gcn(A, X), X)


# ---- arrays ----


def test_every_sparse_format_and_dtype(level, rng, sparse):
    A = (graph(rng, 12) * 4).round()
    X = rng.standard_normal((12, 3))
    L = conv.graph_laplacian(A)
    expected, layer = conv.graph_filter(L, X, [1.0, 2.0, 0.5]), conv.gcn(A, X)
    for form in FORMATS:
        for make in (getattr(sparse, f"{form}_array"), getattr(sparse, f"{form}_matrix")):
            np.testing.assert_array_equal(conv.graph_laplacian(make(A)).toarray(), L)
            np.testing.assert_allclose(conv.graph_filter(make(L), X, [1.0, 2.0, 0.5]), expected, rtol=0, atol=1e-11)
            np.testing.assert_allclose(conv.gcn(make(A), X), layer, rtol=0, atol=1e-13)
    for kind in ("int8", "uint8", "int64", "bool", "float32", "float64"):
        whole = A.astype(kind)
        result = conv.graph_laplacian(sparse.csr_array(whole))
        assert result.dtype == (np.float32 if kind == "float32" else np.float64)
        np.testing.assert_array_equal(result.toarray(), conv.graph_laplacian(whole))
        mixed = conv.gcn(sparse.csr_array(whole), X.astype(np.float32))
        assert mixed.dtype == (np.float32 if kind == "float32" else np.float64)
        assert conv.gcn(whole, X.astype(np.float32)).dtype == mixed.dtype


def test_repeated_entries_count_together_and_are_left_alone(level, sparse):
    data, rows, columns = np.array([1.0, 2.0, 3.0]), np.array([0, 0, 1]), np.array([1, 1, 0])
    A = sparse.coo_array((data, (rows, columns)), shape=(2, 2))
    np.testing.assert_array_equal(conv.graph_laplacian(A).toarray(), [[3, -3], [-3, 3]])
    np.testing.assert_allclose(conv.graph_laplacian(A, True).toarray(), [[1, -1], [-1, 1]], rtol=1e-15)
    assert A.nnz == 3


def test_sparse_graphs_are_never_made_dense(level, sparse):
    n = 20_000
    steps = np.arange(n)
    A = sparse.coo_array((np.ones(2 * n), (np.r_[steps, (steps + 1) % n], np.r_[(steps + 1) % n, steps])), shape=(n, n))
    X = np.ones((n, 2))
    tracemalloc.start()
    try:
        L = conv.graph_laplacian(A, normalized=True)
        np.testing.assert_allclose(conv.graph_filter(L, X, [1.0, 1.0, 1.0], "chebyshev", largest=2), X, atol=1e-12)
        np.testing.assert_allclose(conv.gcn(A, X), X, rtol=1e-12)
        assert tracemalloc.get_traced_memory()[1] < 40e6  # the dense matrix has 3.2 GB
    finally:
        tracemalloc.stop()


def test_inputs_of_every_layout_are_never_written(level, dtype, rng):
    A, X, W = (
        graph(rng, 14, dtype),
        rng.standard_normal((14, 6)).astype(dtype),
        rng.standard_normal((6, 4)).astype(dtype),
    )
    before = A.tobytes(), X.tobytes(), W.tobytes()
    eps = np.finfo(dtype).eps
    spread = np.full((28, 18), np.nan, dtype)
    spread[::2, ::3] = X
    for signals in (np.asfortranarray(X), spread[::2, ::3], X[::-1, ::-1].copy()[::-1, ::-1]):
        np.testing.assert_allclose(
            conv.gcn(A[::-1, ::-1].copy()[::-1, ::-1], signals, W), conv.gcn(A, X, W), atol=32 * eps
        )
        first = conv.graph_filter(np.asfortranarray(A), signals, [1.0, 0.5], "chebyshev")
        np.testing.assert_allclose(first, conv.graph_filter(A, X, [1.0, 0.5], "chebyshev"), atol=32 * eps)
    assert (A.tobytes(), X.tobytes(), W.tobytes()) == before


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_libraries(level, dtype, rng, library):
    xp = pytest.importorskip(library)
    host, signals, weights = graph(rng, 9, dtype), rng.standard_normal((9, 4)), rng.standard_normal((4, 2))
    A, X, W = (xp.asarray(array.astype(dtype)) for array in (host, signals, weights))
    eps = np.finfo(dtype).eps
    L = conv.graph_laplacian(host, True)
    for found, expected in [
        (conv.graph_laplacian(A, True), L),
        (reference.graph_laplacian(A, True), L),
        (conv.graph_filter(A, X, [1.0, 0.5], "chebyshev"), filtered(host, signals, [1.0, 0.5], "chebyshev")),
        (reference.graph_filter(A, X, [1.0, 0.5], "monomial", 1.0), filtered(host, signals, [1.0, 0.5], "monomial")),
        (conv.gcn(A, X, W, activation="relu"), conv.gcn(host.astype(float), signals, weights, activation="relu")),
        (reference.gcn(A, X, W, "relu"), conv.gcn(host.astype(float), signals, weights, activation="relu")),
    ]:
        assert type(found) is type(A) and found.dtype == A.dtype
        np.testing.assert_allclose(np.from_dlpack(found), expected, rtol=0, atol=200 * eps)


# ---- refusals ----

A, X = cycle(4), np.ones((4, 3))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda kind: conv.graph_laplacian(kind(A[:2])), ValueError, r"graph_laplacian\] expected A of shape \(n, n\)"),
        (
            lambda kind: conv.graph_laplacian(kind(A), 1),
            TypeError,
            r"graph_laplacian\] expected normalized to be True or",
        ),
        (lambda kind: conv.graph_laplacian(kind(A * 1j)), TypeError, r"graph_laplacian\] expected A of dtype"),
        (
            lambda kind: conv.graph_laplacian(kind(-A), True),
            ValueError,
            r"graph_laplacian\] expected rows of A with sums of",
        ),
        (
            lambda kind: conv.graph_filter(kind(A[:2]), X, [1]),
            ValueError,
            r"graph_filter\] expected L of shape \(n, n\)",
        ),
        (
            lambda kind: conv.graph_filter(kind(A), X[:3], [1]),
            ValueError,
            r"expected X of shape \(4, f\) or \(4,\), got",
        ),
        (
            lambda kind: conv.graph_filter(kind(A), X[None], [1]),
            ValueError,
            r"expected X of shape \(4, f\) or \(4,\), got",
        ),
        (lambda kind: conv.graph_filter(kind(A), X, []), ValueError, r"expected at least one coefficient, got none"),
        (
            lambda kind: conv.graph_filter(kind(A), X, 1.0),
            TypeError,
            r"expected coefficients to be a sequence of numbers",
        ),
        (
            lambda kind: conv.graph_filter(kind(A), X, "12"),
            TypeError,
            r"expected coefficients to be a sequence of numbers",
        ),
        (
            lambda kind: conv.graph_filter(kind(A), X, [np.nan]),
            ValueError,
            r"expected coefficients to be a finite number",
        ),
        (lambda kind: conv.graph_filter(kind(A), X, [1j]), TypeError, r"expected coefficients to be a finite number"),
        (lambda kind: conv.graph_filter(kind(A), X, [1], "fourier"), ValueError, r"expected basis to be 'monomial' or"),
        (
            lambda kind: conv.graph_filter(kind(A), X, [1], largest=0),
            ValueError,
            r"expected largest to be a number above 0",
        ),
        (
            lambda kind: conv.graph_filter(kind(-np.eye(4)), X, [1, 1], "chebyshev"),
            ValueError,
            r"expected L with an eigen",
        ),
        (lambda kind: conv.gcn(kind(A[:2]), X), ValueError, r"gcn\] expected A of shape \(n, n\), got \(2, 4\)"),
        (
            lambda kind: conv.gcn(kind(A), X[:2]),
            ValueError,
            r"gcn\] expected X of shape \(4, f\) or \(4,\), got \(2, 3\)",
        ),
        (lambda kind: conv.gcn(kind(A), X, X), ValueError, r"gcn\] expected W of shape \(3, g\), got \(4, 3\)"),
        (
            lambda kind: conv.gcn(kind(A), X[:, 0], X),
            ValueError,
            r"gcn\] expected X of shape \(4, f\) with W, got \(4,\)",
        ),
        (lambda kind: conv.gcn(kind(-A), X), ValueError, r"gcn\] expected rows of A with sums above -1, got -2"),
        (lambda kind: conv.gcn(kind(A), X, activation="step"), ValueError, r"gcn\] expected activation to be 'relu'"),
        (lambda kind: conv.gcn(kind(A), X * 1j), TypeError, r"gcn\] expected X of dtype"),
        (lambda kind: conv.gcn(kind(A), None), TypeError, r"gcn\] expected X "),
    ],
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_what_is_refused(level, sparse, call, error, message, kind):
    with pytest.raises(error, match=r"^\[conv\..*" + message):
        call(np.asarray if kind == "dense" else sparse.csr_array)


def test_sparse_signals_are_refused(level, sparse):
    for matrix in (A, sparse.csr_array(A)):
        with pytest.raises(TypeError, match=r"^\[conv\.gcn\] expected X to be a dense array, got"):
            conv.gcn(matrix, sparse.csr_array(X))
