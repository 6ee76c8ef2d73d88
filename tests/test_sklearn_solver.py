"""What the estimators are solved with: Nyström factors, conjugate gradients, eigenvectors; against dense float64."""

import math

import numpy as np
import pytest

pytest.importorskip("sklearn", minversion="1.6")

from fastdl._progress import Report
from fastdl.sklearn._eigen import leading
from fastdl.sklearn._kernel import NamedKernel, Operator
from fastdl.sklearn._lanczos import log_determinants
from fastdl.sklearn._nystrom import Preconditioner, default_rank, pivoted_cholesky
from fastdl.sklearn._solver import Approach, conjugate_gradients

RBF = NamedKernel("rbf", {"gamma": 0.3})


def operator_of(rng, n=150, d=4, dtype=np.float64, scale=None, kernel=RBF):
    return Operator(kernel, rng.standard_normal((n, d)).astype(dtype), scale)


def matrix_of(operator):
    K = operator.kernel.gram(operator.X.astype(np.float64))
    return K if operator.scale is None else operator.scale[:, None] * K * operator.scale


class TestPivotedCholesky:
    @pytest.mark.parametrize("scaled", [False, True])
    def test_what_is_left_is_positive_and_its_trace_is_told(self, rng, dtype, scaled):
        scale = rng.uniform(0.1, 2, 150) if scaled else None
        operator = operator_of(rng, dtype=dtype, scale=scale)
        K = matrix_of(operator)
        eps = float(np.finfo(dtype).eps) * np.trace(K)
        for rank in (1, 7, 60):
            factor, left = pivoted_cholesky("tests", operator, rank, random=np.random.default_rng(1))
            assert factor.shape == (rank, 150) and factor.dtype == dtype
            rest = K - factor.astype(np.float64).T @ factor
            # A Schur complement: positive, and zero in the rows of its pivots.
            assert np.linalg.eigvalsh(rest).min() > -10 * eps
            assert np.sum(np.abs(rest).max(axis=1) < 10 * eps) >= rank
            assert left == pytest.approx(np.trace(rest), abs=10 * eps)

    def test_no_better_than_the_best_and_not_much_worse(self, rng):
        operator = operator_of(rng, n=400)
        tails = np.cumsum(np.linalg.eigvalsh(matrix_of(operator)))
        rank = 40
        lefts = [pivoted_cholesky("tests", operator, rank, random=np.random.default_rng(s))[1] for s in range(5)]
        assert min(lefts) >= tails[400 - rank - 1]
        # The theorem of Chen et al. for (r, eps): with k = r/eps + r log(...) columns at most (1 + eps) times the best
        # of rank r, in expectation. Half the rank is well within it here.
        assert np.mean(lefts) <= 2 * tails[400 - rank // 2 - 1]

    def test_all_columns_give_the_matrix(self, rng):
        operator = operator_of(rng, n=50, d=6, kernel=NamedKernel("laplacian", {}))
        factor, left = pivoted_cholesky("tests", operator, 1000, random=np.random.default_rng(0))
        assert factor.shape == (50, 50) and left < 1e-12
        assert np.allclose(factor.T @ factor, matrix_of(operator), rtol=0, atol=1e-13)

    def test_stops_with_the_rank_of_the_matrix(self, rng, dtype):
        X = rng.standard_normal((20, 3)).astype(dtype)
        operator = Operator(NamedKernel("linear", {}), np.concatenate([X, X, 2 * X]))
        factor, left = pivoted_cholesky("tests", operator, 60, random=np.random.default_rng(0))
        assert len(factor) == 3
        assert left < 100 * np.finfo(dtype).eps * np.trace(matrix_of(operator))

    def test_stops_when_it_is_enough(self, rng):
        operator = operator_of(rng, n=700)
        factor, left = pivoted_cholesky("tests", operator, 700, enough=20.0, random=np.random.default_rng(0))
        assert left <= 20.0 and 128 < len(factor) < 700
        # Only the last block of proposals goes further than needed.
        assert pivoted_cholesky("tests", operator, len(factor) - 128, random=np.random.default_rng(0))[1] > 20.0

    def test_of_zeros(self):
        factor, left = pivoted_cholesky(
            "tests", Operator(NamedKernel("linear", {}), np.zeros((5, 2))), 3, random=np.random.default_rng(0)
        )
        assert factor.shape == (0, 5) and left == 0

    def test_one_by_one_has_the_same_distribution(self):
        # Three samples on a line and two pivots, by a product kernel: every sequence of two has the probability
        # d_i / sum(d) * s_j / sum(s), s the diagonal after i. The blocks must give the same for the unordered pairs.
        X = np.array([[1.0, 0.2], [0.3, 1.5], [0.9, 0.9]])
        K = X @ X.T + 0.1
        expected = {}
        for i in range(3):
            rest = np.diagonal(K) - K[:, i] ** 2 / K[i, i]
            for j in range(3):
                if i != j:
                    chance = K[i, i] / np.trace(K) * rest[j] / rest.sum()
                    pair = tuple(sorted((i, j)))
                    expected[pair] = expected.get(pair, 0) + chance
        kernel = NamedKernel("polynomial", {"degree": 1, "gamma": 1.0, "coef0": 0.1})
        counts = dict.fromkeys(expected, 0)
        total = 2000
        random = np.random.default_rng(0)
        for _ in range(total):
            factor, _ = pivoted_cholesky("tests", Operator(kernel, X), 2, random=random)
            rest = np.abs(np.diagonal(K) - np.sum(factor**2, axis=0))
            counts[tuple(sorted(np.argsort(rest)[:2]))] += 1
        for pair, chance in expected.items():
            deviation = math.sqrt(chance * (1 - chance) / total)
            assert abs(counts[pair] / total - chance) < 5 * deviation

    def test_an_overflow_is_told(self, rng):
        operator = Operator(NamedKernel("polynomial", {"degree": 300.0}), 1e3 * rng.standard_normal((20, 3)))
        with pytest.raises(ValueError, match="finite"):
            pivoted_cholesky("tests", operator, 5, random=np.random.default_rng(0))

    def test_default_rank(self):
        assert default_rank(50, 8) == 50
        assert default_rank(10_000, 8) == 1100
        assert default_rank(1_000_000, 4) * 1_000_000 * 4 <= 512 << 20

    def test_report(self, rng):
        told = []
        with Report("factor", lambda done, total: told.append((done, total)), 150) as report:
            pivoted_cholesky("tests", operator_of(rng), 150, enough=5.0, random=np.random.default_rng(0), report=report)
        assert told == sorted(told) and told[-1] == (150, 150)


class TestPreconditioner:
    @pytest.mark.parametrize("scaled", [False, True])
    def test_is_an_inverse(self, rng, dtype, scaled):
        factor = rng.standard_normal((12, 80)).astype(dtype)
        scale = rng.uniform(0, 2, 80) if scaled else None
        preconditioner = Preconditioner(factor, scale)
        wide = factor.astype(np.float64) * (1 if scale is None else scale)
        R = rng.standard_normal((80, 3))
        shifts = np.array([1e-6, 1.0, 1e3])
        found = preconditioner.solve(R, shifts)
        for j, shift in enumerate(shifts):
            P = wide.T @ wide + shift * np.eye(80)
            # Woodbury's formula subtracts numbers 1 / shift times as large as what is left.
            allowed = 1e-13 * np.linalg.norm(wide, 2) ** 2 / shift
            assert np.abs(P @ found[:, j] - R[:, j]).max() < max(allowed, 1e-12)
            assert preconditioner.log_determinant(shift) == pytest.approx(np.linalg.slogdet(P)[1], rel=1e-10)
        assert np.allclose(preconditioner.solve(R, 2.0), np.linalg.solve(wide.T @ wide + 2 * np.eye(80), R))

    def test_without_a_factor(self, rng):
        preconditioner = Preconditioner(np.empty((0, 9)))
        R = rng.standard_normal((9, 2))
        assert np.array_equal(preconditioner.solve(R, 4.0), R / 4)
        assert preconditioner.log_determinant(4.0) == pytest.approx(9 * math.log(4))

    def test_samples_have_its_covariance(self, rng):
        factor, scale = rng.standard_normal((2, 4)), np.array([1.0, 2.0, 0.5, 1.0])
        draws = Preconditioner(factor, scale).sample(40_000, 0.5, rng)
        covariance = (factor * scale).T @ (factor * scale) + 0.5 * np.eye(4)
        # A covariance of N draws has a standard deviation of at most its largest variance times sqrt(2 / N).
        assert np.abs(draws @ draws.T / 40_000 - covariance).max() < 5 * covariance.max() * math.sqrt(2 / 40_000)


def positive_matrix(rng, n, condition):
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return Q * np.geomspace(1, condition, n) @ Q.T


class TestConjugateGradients:
    def test_solves_each_column_with_its_matrix(self, rng):
        A = positive_matrix(rng, 60, 100)
        shifts = np.array([0.0, 1.0, 50.0])
        rhs = rng.standard_normal((60, 3)) * [1.0, 1e-30, 1e30]
        solution = conjugate_gradients(
            lambda V, columns: A @ V + shifts[columns] * V,
            lambda V, columns: V,
            rhs,
            1e-12 * np.linalg.norm(rhs, axis=0),
            500,
        )
        assert solution.converged and solution.definite
        for j, shift in enumerate(shifts):
            exact = np.linalg.solve(A + shift * np.eye(60), rhs[:, j])
            assert np.linalg.norm(solution.x[:, j] - exact) < 1e-10 * np.linalg.norm(exact)
            residual = np.linalg.norm(rhs[:, j] - A @ solution.x[:, j] - shift * solution.x[:, j])
            assert solution.residuals[j] == pytest.approx(residual, rel=0.1)

    def test_within_the_number_of_steps_of_the_theory(self, rng):
        condition = 25.0
        A = positive_matrix(rng, 300, condition)
        rhs = rng.standard_normal((300, 1))
        solution = conjugate_gradients(
            lambda V, columns: A @ V, lambda V, columns: V, rhs, 1e-8 * np.linalg.norm(rhs, axis=0), 1000
        )
        # The error in the norm of A falls by (sqrt(c) - 1) / (sqrt(c) + 1); residuals are within sqrt(c) of it.
        rate = (math.sqrt(condition) - 1) / (math.sqrt(condition) + 1)
        assert solution.iterations <= math.log(1e-8 / (2 * math.sqrt(condition))) / math.log(rate) + 1

    def test_one_step_with_the_inverse(self, rng):
        A = positive_matrix(rng, 40, 1e6)
        inverse = np.linalg.inv(A)
        rhs = rng.standard_normal((40, 4))
        solution = conjugate_gradients(
            lambda V, columns: A @ V, lambda V, columns: inverse @ V, rhs, 1e-8 * np.linalg.norm(rhs, axis=0), 10
        )
        assert solution.converged and solution.iterations <= 2

    def test_nothing_to_do(self):
        def refuse(V, columns):
            raise AssertionError("no product is needed")

        solution = conjugate_gradients(refuse, refuse, np.zeros((5, 2)), np.zeros(2), 10)
        assert solution.converged and solution.iterations == 0 and not solution.x.any()

    def test_columns_that_are_done_take_part_no_more(self, rng):
        A = np.diag(np.r_[np.ones(30), np.geomspace(1, 1e3, 30)])
        rhs = np.zeros((60, 2))
        rhs[0, 0] = 1  # an eigenvector: one step
        rhs[30:, 1] = rng.standard_normal(30)
        widths = []

        def apply(V, columns):
            widths.append(list(columns))
            return A @ V

        solution = conjugate_gradients(apply, lambda V, columns: V, rhs, 1e-10 * np.linalg.norm(rhs, axis=0), 200)
        assert solution.converged
        assert widths[0] == [0, 1] and widths[1:-1] == [[1]] * len(widths[1:-1]) and widths[-1] == [0, 1]

    def test_the_limit_of_steps(self, rng):
        A = positive_matrix(rng, 100, 1e8)
        rhs = rng.standard_normal((100, 1))
        solution = conjugate_gradients(
            lambda V, columns: A @ V, lambda V, columns: V, rhs, 1e-10 * np.linalg.norm(rhs, axis=0), 7
        )
        assert solution.iterations == 7 and not solution.converged
        # What is told is true, however it was reached.
        assert solution.residuals[0] == pytest.approx(np.linalg.norm(rhs - A @ solution.x), rel=1e-6)

    def test_an_indefinite_matrix_is_noticed(self, rng):
        A = np.diag(np.r_[np.linspace(1, 2, 20), -1.0])
        rhs = rng.standard_normal((21, 1))
        solution = conjugate_gradients(
            lambda V, columns: A @ V, lambda V, columns: V, rhs, 1e-10 * np.linalg.norm(rhs, axis=0), 100
        )
        assert not solution.definite and not solution.converged

    def test_refinement_goes_beyond_inexact_products(self, rng):
        A = positive_matrix(rng, 80, 1e3)
        rounded = A.astype(np.float32)
        rhs = rng.standard_normal((80, 2))
        tolerances = 1e-12 * np.linalg.norm(rhs, axis=0)

        def inexact(V, columns):
            return (rounded @ V.astype(np.float32)).astype(np.float64)

        reach = 4 * float(np.finfo(np.float32).eps)
        alone = conjugate_gradients(inexact, lambda V, c: V, rhs, tolerances, 2000, reach=reach)
        assert not alone.converged and alone.iterations < 2000
        walked = []

        def exactly(V, columns):
            walked.append(V.shape[1])
            return A @ V

        refined = conjugate_gradients(inexact, lambda V, c: V, rhs, tolerances, 2000, exact=exactly, reach=reach)
        # Steps are with the inexact products, residuals with the exact ones.
        assert refined.converged and 0 < len(walked) < refined.iterations / 10
        assert np.all(np.linalg.norm(rhs - A @ refined.x, axis=0) <= tolerances)

    def test_exact_steps_where_inexact_ones_lead_nowhere(self, rng):
        A = positive_matrix(rng, 60, 1e4)
        wrong = A - 10 * np.eye(60)  # not positive definite
        rhs = rng.standard_normal((60, 2))
        tolerances = 1e-10 * np.linalg.norm(rhs, axis=0)
        solution = conjugate_gradients(
            lambda V, c: wrong @ V, lambda V, c: V, rhs, tolerances, 2000, exact=lambda V, c: A @ V
        )
        assert solution.converged and solution.definite
        assert np.all(np.linalg.norm(rhs - A @ solution.x, axis=0) <= tolerances)

    def test_with_the_preconditioner_condition_two(self, rng):
        # What is left has a trace of at most the shift, so the condition number is at most 2.
        operator = operator_of(rng, n=500)
        shift = 0.05
        factor, left = pivoted_cholesky("tests", operator, 500, enough=shift, random=np.random.default_rng(0))
        assert left <= shift
        preconditioner = Preconditioner(factor)
        rhs = rng.standard_normal((500, 1))
        solution = conjugate_gradients(
            lambda V, columns: operator.product(V) + shift * V,
            lambda V, columns: preconditioner.solve(V, shift),
            rhs,
            1e-10 * np.linalg.norm(rhs, axis=0),
            100,
        )
        rate = (math.sqrt(2) - 1) / (math.sqrt(2) + 1)
        condition = np.linalg.cond(matrix_of(operator) + shift * np.eye(500))
        assert solution.converged
        assert solution.iterations <= math.log(1e-10 / (2 * math.sqrt(condition))) / math.log(rate) + 2

    def test_products_in_float32_of_any_size(self, rng):
        operator = operator_of(rng, n=40, dtype=np.float32)
        V = rng.standard_normal((40, 3)) * [1e-60, 1.0, 1e60]
        K = matrix_of(operator)
        error = np.abs(operator.product(V) - K @ V) / np.abs(V).max(axis=0)
        assert error.max() < 1e-4
        assert (np.abs(operator.exact_product(V) - K @ V) / np.abs(V).max(axis=0)).max() < 1e-11


class TestApproach:
    def test_percent_of_the_digits(self):
        told = []
        with Approach("label", lambda done, total: told.append((done, total))) as approach:
            for ratio in (1e6, 1e3, 2e3, 1e1, 0.5):
                approach(ratio)
        assert told == [(50, 100), (83, 100), (99, 100), (100, 100)]

    def test_done_at_once(self):
        told = []
        with Approach("label", lambda done, total: told.append(done)) as approach:
            approach(0.1)
        assert told == [99, 100]


class TestEigenvectors:
    @pytest.mark.parametrize("count, block", [(1, 1), (3, 8), (10, 12), (40, 40)])
    def test_the_largest(self, rng, count, block):
        n = 40 if count == 40 else 120
        A = positive_matrix(rng, n, 1e4)
        found = leading(lambda V: A @ V, rng.standard_normal((n, block)), count, tol=1e-10, max_iter=500, random=rng)
        values, vectors = np.linalg.eigh(A)
        assert found.converged and np.all(found.residuals <= 1e-10)
        assert np.allclose(found.values, values[::-1][:count], rtol=1e-12)
        assert np.allclose(found.vectors.T @ found.vectors, np.eye(count), atol=1e-12)
        overlaps = np.abs(np.sum(found.vectors * vectors[:, ::-1][:, :count], axis=0))
        assert np.all(overlaps > 1 - 1e-12)

    def test_eigenvalues_that_coincide(self, rng):
        Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
        A = Q * np.r_[5.0, 5.0, 5.0, 2.0, np.linspace(0, 1, 56)] @ Q.T
        found = leading(lambda V: A @ V, rng.standard_normal((60, 6)), 4, tol=1e-11, max_iter=200, random=rng)
        assert np.allclose(found.values, [5, 5, 5, 2])
        assert np.allclose(A @ found.vectors, found.vectors * found.values, atol=1e-9)

    def test_of_low_rank_from_a_poor_beginning(self, rng):
        F = rng.standard_normal((30, 2))
        A = F @ F.T
        found = leading(lambda V: A @ V, np.zeros((30, 5)), 4, tol=1e-10, max_iter=50, random=rng)
        assert np.allclose(found.values, [*np.linalg.eigvalsh(F.T @ F)[::-1], 0, 0], atol=1e-10)
        assert np.allclose(found.vectors.T @ found.vectors, np.eye(4), atol=1e-12)

    def test_the_limit_of_products(self, rng):
        A = positive_matrix(rng, 200, 1.5)
        found = leading(lambda V: A @ V, rng.standard_normal((200, 4)), 3, tol=1e-12, max_iter=3, random=rng)
        assert found.iterations == 3 and not found.converged
        residual = np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0) / found.values[0]
        assert np.allclose(found.residuals, residual, rtol=1e-6)


class TestDeterminants:
    def test_exact_with_enough_steps_and_an_exact_preconditioner(self, rng):
        operator = operator_of(rng, n=60, d=6)
        shift = 0.1
        factor, _ = pivoted_cholesky("tests", operator, 60, random=np.random.default_rng(0))
        found = log_determinants(
            lambda V: operator.product(V) + shift * V,
            Preconditioner(factor),
            shift,
            probes=3,
            tol=1e-10,
            max_iter=60,
            random=rng,
        )
        exact = np.linalg.slogdet(matrix_of(operator) + shift * np.eye(60))[1]
        assert np.allclose(found, exact, rtol=0, atol=1e-8)

    def test_unbiased_without_a_preconditioner(self, rng):
        A = positive_matrix(rng, 50, 20)
        found = log_determinants(
            lambda V: A @ V, Preconditioner(np.empty((0, 50))), 3.0, probes=400, tol=1e-8, max_iter=50, random=rng
        )
        error = found.std(ddof=1) / 20
        assert abs(found.mean() - np.linalg.slogdet(A)[1]) < 5 * error
