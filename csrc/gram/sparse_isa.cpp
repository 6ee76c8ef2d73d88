// Gram matrices of sparse rows, compiled once per instruction-set level.
//
// A row of X is multiplied with Y's columns that it has entries in (Gustavson): K[i, :] = sum over k of x[i, k] y[:,
// k], in a row of double sums that stays in cache, and the kernel is applied to that row. In double |x|^2 + |y|^2 - 2
// x.y does not cancel where float32 would.
#include "gemm/epilogue.hpp"
#include "gemm/mirror.hpp"
#include "gram/bodies.hpp"
#include "gram/kernels.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using gemm::Index;

template <class T>
double sparse_length(const SparseRows<T>& x, Index row) {
  double sum = 0;
  for (Index e = x.offsets[row]; e < x.offsets[row + 1]; ++e) sum += double(x.values[e]) * double(x.values[e]);
  return sum;
}

// k of a row of X and `count` columns of K, from their products.
template <class T, class Epilogue>
void finish_sparse(const double* sums, Index count, const double* x_squared, const double* y_squared, Index row,
                   bool distance, const Epilogue& epilogue, gemm::Output<T> to) {
  T part[gemm::longest];
  for (Index j = 0; j < count; j += gemm::longest) {
    const Index here = gemm::at_most(gemm::longest, count - j);
    for (Index i = 0; i < here; ++i) {
      double value = sums[j + i];
      if (distance) {
        value = x_squared[row] + y_squared[j + i] - 2 * value;
        value = value < 0 ? 0 : value;  // on the diagonal it is exactly 0: the same sums in the same order
      }
      part[i] = T(value);
    }
    if constexpr (!std::is_same_v<Epilogue, gemm::Identity>)
      gemm::finish_row<T>(epilogue, {part, gemm::longest, 1}, row, j, here);
    for (Index i = 0; i < here; ++i) to.data[(j + i) * to.stride_column] = part[i];
  }
}

template <class T>
void sparse_of(const Kernel& kernel, const SparseRows<T>& x, const SparseRows<T>& y_columns, bool symmetric,
               const Matrix<T>& k) {
  const Index n = x.rows, m = k.cols;
  Arrays<double> doubles;
  double *x_squared = doubles.make(n), *y_squared = doubles.make(m);
  for (Index i = 0; i < n; ++i) x_squared[i] = sparse_length(x, i);
  for (Index j = 0; j < m; ++j) y_squared[j] = 0;
  for (Index e = 0; e < y_columns.offsets[y_columns.rows]; ++e)
    y_squared[y_columns.indices[e]] += double(y_columns.values[e]) * double(y_columns.values[e]);
  Arrays<T> arrays;
  T *x_inverse = arrays.make(n), *y_inverse = arrays.make(m + simd::lanes<T>);
  for (Index i = 0; i < n; ++i) x_inverse[i] = T(inverse_length(x_squared[i]));
  for (Index j = 0; j < m + simd::lanes<T>; ++j) y_inverse[j] = j < m ? T(inverse_length(y_squared[j])) : T(0);

  const gemm::Output<T> output{k.data, k.row_stride, k.col_stride};
  constexpr Index chunk = gemm::Shape<T>::group_rows;
  const auto run = [&](bool distance, const auto& epilogue) {
    // Phase 0: the rows, of a symmetric result to the diagonal. Phase 1: its mirror.
    core::parallel_phases(symmetric ? 2 : 1, gemm::divide_up(n, chunk), core::thread_count(),
                          [&](Index phase, Index task) {
                            const Index first = task * chunk, end = gemm::at_most(first + chunk, n);
                            if (phase == 1) return gemm::mirror_rows(output, n, first, end);
                            Arrays<double> inner;
                            double* sums = inner.make(m);
                            for (Index i = first; i < end; ++i) {
                              const Index count = symmetric ? i + 1 : m;
                              for (Index j = 0; j < count; ++j) sums[j] = 0;
                              for (Index e = x.offsets[i]; e < x.offsets[i + 1]; ++e) {
                                const Index feature = x.indices[e];
                                const double value = double(x.values[e]);
                                for (Index f = y_columns.offsets[feature]; f < y_columns.offsets[feature + 1]; ++f) {
                                  const Index j = y_columns.indices[f];
                                  if (j >= count) break;  // sorted
                                  sums[j] += value * double(y_columns.values[f]);
                                }
                              }
                              finish_sparse(sums, count, x_squared, y_squared, i, distance, epilogue, output.at(i, 0));
                            }
                          });
  };
  switch (kernel.kind) {
    case FASTDL_POLYNOMIAL:
      return run(false, polynomial_of<T>(kernel));
    case FASTDL_RBF:
      return run(true, OfDifferences<T, Rbf<T>>{{finite<T>(kernel.gamma)}});
    case FASTDL_COSINE:
      return run(false, Cosine<T>{x_inverse, y_inverse});
    default:
      return run(false, gemm::Identity{});
  }
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                 \
  void sparse(const Kernel& kernel, const SparseRows<T>& x, const SparseRows<T>& y_columns, bool symmetric, \
              const Matrix<T>& k) {                                                                         \
    sparse_of<T>(kernel, x, y_columns, symmetric, k);                                                       \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
