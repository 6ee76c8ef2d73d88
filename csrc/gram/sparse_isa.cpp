// Gram matrices of sparse rows, compiled once per instruction-set level.
//
// A row of X is multiplied with Y's columns that it has entries in (Gustavson): K[i, :] = sum over k of x[i, k] y[:,
// k], in a row of double sums that stays in cache, and the kernel is applied to that row. Distances |x|^2 + |y|^2 - 2
// x.y that cancel even in double, or leave its range, are summed anew from the two rows.
#include "gemm/epilogue.hpp"
#include "gemm/mirror.hpp"
#include "gram/bodies.hpp"
#include "gram/kernels.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using gemm::Index;

// What is given by its rows, or by its columns: function(sample, entry) for all entries.
template <class T, class Function>
FASTDL_INLINE void each_entry(const SparseRows<T>& s, bool by_columns, const Function& function) {
  for (Index i = 0; i < s.rows; ++i)
    for (Index e = s.offsets[i]; e < s.offsets[i + 1]; ++e) function(by_columns ? s.indices[e] : i, e);
}

// The squared lengths of the samples.
template <class T>
void sparse_lengths(const SparseRows<T>& s, bool by_columns, Index samples, double* to) {
  for (Index i = 0; i < samples; ++i) to[i] = 0;
  each_entry(s, by_columns, [&](Index i, Index e) { to[i] += double(s.values[e]) * double(s.values[e]); });
}

// Samples in a scale in which their products stay within double, and the inverses of their lengths in it: of zeros 0,
// of what is not finite NaN. Squares of float32 stay within as they are.
template <class T>
SparseRows<T> near_one(const SparseRows<T>& s, bool by_columns, Index samples, double* inverse, Arrays<T>& arrays) {
  SparseRows<T> scaled = s;
  double* scale = inverse;  // in the same place: it has served when the inverses are made
  if constexpr (sizeof(T) == 8) {
    T* values = arrays.make(s.offsets[s.rows]);
    for (Index i = 0; i < samples; ++i) scale[i] = 0;
    each_entry(s, by_columns, [&](Index i, Index e) {
      const double size = __builtin_fabs(s.values[e]);
      scale[i] = size > scale[i] ? size : scale[i];
    });
    for (Index i = 0; i < samples; ++i) {
      const int shift = scale[i] > 0 && __builtin_isfinite(scale[i]) ? -__builtin_ilogb(scale[i]) : 0;
      scale[i] = __builtin_ldexp(1, shift > 1000 ? 1000 : shift);  // beyond, this would not be finite
    }
    each_entry(s, by_columns, [&](Index i, Index e) { values[e] = s.values[e] * scale[i]; });
    scaled.values = values;
  }
  sparse_lengths(scaled, by_columns, samples, inverse);
  for (Index i = 0; i < samples; ++i)
    inverse[i] = __builtin_isfinite(inverse[i]) ? inverse_length(inverse[i]) : __builtin_nan("");
  return scaled;
}

// |x - y|^2 from the entries themselves, along both rows at once.
template <class T>
double sparse_distance(const SparseRows<T>& x, Index row, const SparseRows<T>& y, Index column) {
  double sum = 0;
  Index e = x.offsets[row], f = y.offsets[column];
  const Index e_end = x.offsets[row + 1], f_end = y.offsets[column + 1];
  while (e < e_end || f < f_end) {
    const bool take_x = f == f_end || (e < e_end && x.indices[e] <= y.indices[f]);
    const bool take_y = e == e_end || (f < f_end && y.indices[f] <= x.indices[e]);
    const double difference = (take_x ? double(x.values[e]) : 0) - (take_y ? double(y.values[f]) : 0);
    sum += difference * difference;
    e += take_x;
    f += take_y;
  }
  return sum;
}

// The rows of what is given by its columns.
template <class T>
SparseRows<T> turned(const SparseRows<T>& columns, Index rows, Arrays<Index>& of_indices, Arrays<T>& of_values) {
  const Index entries = columns.offsets[columns.rows];
  Index *offsets = of_indices.make(rows + 1), *next = of_indices.make(rows), *indices = of_indices.make(entries);
  T* values = of_values.make(entries);
  for (Index i = 0; i <= rows; ++i) offsets[i] = 0;
  for (Index e = 0; e < entries; ++e) ++offsets[columns.indices[e] + 1];
  for (Index i = 0; i < rows; ++i) {
    next[i] = offsets[i];
    offsets[i + 1] += offsets[i];
  }
  for (Index c = 0; c < columns.rows; ++c)
    for (Index e = columns.offsets[c]; e < columns.offsets[c + 1]; ++e) {
      const Index to = next[columns.indices[e]]++;
      indices[to] = c;
      values[to] = columns.values[e];
    }
  return {rows, offsets, indices, values};
}

// k of row `row` of X and `count` columns of K, from `value` of each column.
template <class T, class Value, class Epilogue>
void finish_sparse(Index row, Index count, const Value& value, const Epilogue& epilogue, gemm::Output<T> to) {
  T part[gemm::longest];
  for (Index j = 0; j < count; j += gemm::longest) {
    const Index here = gemm::at_most(gemm::longest, count - j);
    for (Index i = 0; i < here; ++i) part[i] = T(value(j + i));
    if constexpr (!std::is_same_v<Epilogue, gemm::Identity>)
      gemm::finish_row<T>(epilogue, {part, gemm::longest, 1}, row, j, here);
    for (Index i = 0; i < here; ++i) to.data[(j + i) * to.stride_column] = part[i];
  }
}

template <class T>
void sparse_of(const Kernel& kernel, SparseRows<T> x, SparseRows<T> y_columns, bool symmetric, const Matrix<T>& k) {
  const Index n = x.rows, m = k.cols;
  Arrays<double> doubles;
  Arrays<T> of_values;
  double *x_lengths = doubles.make(n), *y_lengths = doubles.make(m);

  const gemm::Output<T> output{k.data, k.row_stride, k.col_stride};
  constexpr Index chunk = gemm::Shape<T>::group_rows;
  // value(sum, i, j) of row i and column j, whose product is sum
  const auto run = [&](const auto& value, const auto& epilogue) {
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
                                const double factor = double(x.values[e]);
                                for (Index f = y_columns.offsets[feature]; f < y_columns.offsets[feature + 1]; ++f) {
                                  const Index j = y_columns.indices[f];
                                  if (j >= count) break;  // sorted
                                  sums[j] += factor * double(y_columns.values[f]);
                                }
                              }
                              const auto of_column = [&](Index j) { return value(sums[j], i, j); };
                              finish_sparse(i, count, of_column, epilogue, output.at(i, 0));
                            }
                          });
  };
  const auto product = [](double sum, Index, Index) { return sum; };
  switch (kernel.kind) {
    case FASTDL_POLYNOMIAL:
      return run(product, polynomial_of<T>(kernel));
    case FASTDL_RBF: {
      sparse_lengths(x, false, n, x_lengths);
      sparse_lengths(y_columns, true, m, y_lengths);
      Arrays<Index> of_indices;
      const SparseRows<T> y = symmetric ? x : turned(y_columns, m, of_indices, of_values);
      // Sums of doubles: for float32 they need not reach further than 1e-7 of the distance.
      const double share = trusted_share_of_distances<double>(y_columns.rows) * (sizeof(T) == 4 ? 1e-5 : 1);
      const auto distance = [&](double sum, Index i, Index j) {
        const double total = x_lengths[i] + y_lengths[j], squared = total - 2 * sum;
        return squared >= total * share ? squared : sparse_distance(x, i, y, j);
      };
      return run(distance, OfDifferences<T, Rbf<T>>{{finite<T>(kernel.gamma)}});
    }
    case FASTDL_COSINE: {
      x = near_one(x, false, n, x_lengths, of_values);
      y_columns = near_one(y_columns, true, m, y_lengths, of_values);
      const auto cosine = [&](double sum, Index i, Index j) { return sum * (x_lengths[i] * y_lengths[j]); };
      return run(cosine, gemm::Identity{});
    }
    default:
      return run(product, gemm::Identity{});
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
