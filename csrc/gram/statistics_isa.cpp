// Statistics of Gram matrices, compiled once per instruction-set level: centring, and the dependence of two of them.
// Sums are in double, over groups of rows that the size alone determines.
#include "gram/bodies.hpp"
#include "gram/rows.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using gemm::at_most;
using gemm::divide_up;

// Rows of a group, and columns that are summed together: a multiple of 8, and enough for 64 groups or fewer.
constexpr Index most_groups = 64;
constexpr Index group_rows(Index n) {
  const Index rows = gemm::round_up(divide_up(n, most_groups), 8);
  return rows < 64 ? 64 : rows;
}

// function(group, first row, last row + 1) for the rows of an n x n matrix, a task each.
template <class Function>
void each_group(Index n, const Function& function) {
  const Index step = group_rows(n);
  core::parallel_for(divide_up(n, step), double(n) * double(n) < 1e5 ? 1 : core::thread_count(),
                     [&](Index group) { function(group, group * step, at_most((group + 1) * step, n)); });
}

// A number for every row and every column, and their common total.
struct Margins {
  double *rows, *columns;
  double total;
};

// The sums of k, with its diagonal or without. A column is summed in the order in which a row is: by groups, and eight
// interleaved sums in each (sum_over). So a symmetric matrix has the same sums of both, to the bit.
template <class T>
Margins sums_of(const Matrix<const T>& k, bool diagonal, Arrays<double>& arrays) {
  const Index n = k.rows, step = group_rows(n), groups = divide_up(n, step);
  Margins sums{arrays.make(n), arrays.make(n), 0};
  core::Scratch scratch;
  double* partial = scratch.array<double>(groups, n);
  each_group(n, [&](Index group, Index first, Index end) {
    core::Scratch inner;
    double* lanes = inner.array<double>(8, step);
    for (Index i = first; i < end; ++i) sums.rows[i] = 0;
    for (Index from = 0; from < n; from += step) {
      const Index count = at_most(step, n - from);
      for (Index j = 0; j < 8 * step; ++j) lanes[j] = 0;
      for (Index i = first; i < end; ++i) {
        const T* row = k.data + i * k.row_stride + from * k.col_stride;
        double* columns = lanes + (i - first) % 8 * step;
        const auto add = [&](const auto& value) {
          sums.rows[i] += sum_over(count, value);
          for (Index j = 0; j < count; ++j) columns[j] += value(j);
        };
        const Index own = i - from;
        if (!diagonal && own >= 0 && own < count)
          add([&](Index j) { return j == own ? 0 : double(row[j * k.col_stride]); });
        else if (k.col_stride == 1)
          add([&](Index j) { return double(row[j]); });
        else
          add([&](Index j) { return double(row[j * k.col_stride]); });
      }
      for (Index j = 0; j < count; ++j)
        partial[group * n + from + j] = sum_over(8, [&](Index lane) { return lanes[lane * step + j]; });
    }
  });
  for (Index j = 0; j < n; ++j) {
    sums.columns[j] = 0;
    for (Index group = 0; group < groups; ++group) sums.columns[j] += partial[group * n + j];
  }
  sums.total = sum_over(n, [&](Index i) { return sums.rows[i]; });
  return sums;
}

// From the sums of k to what is subtracted of entry (i, j), rows[i] + columns[j], to make all sums 0.
void to_means(Margins& sums, Index n) {
  const double half = sums.total / double(n) / double(n) / 2;
  for (Index i = 0; i < n; ++i) {
    sums.rows[i] = sums.rows[i] / double(n) - half;
    sums.columns[i] = sums.columns[i] / double(n) - half;
  }
}

template <class T>
void center_of(const Matrix<const T>& k, const Matrix<T>& out) {
  Arrays<double> arrays;
  Margins means = sums_of(k, true, arrays);
  to_means(means, k.rows);
  each_group(k.rows, [&](Index, Index first, Index end) {
    for (Index i = first; i < end; ++i) {
      const T* from = k.data + i * k.row_stride;
      T* to = out.data + i * out.row_stride;
      const auto row = [&](Index stride, Index out_stride) {
        for (Index j = 0; j < k.cols; ++j)
          to[j * out_stride] = T(double(from[j * stride]) - (means.rows[i] + means.columns[j]));  // symmetric, if K is
      };
      k.col_stride == 1 && out.col_stride == 1 ? row(1, 1) : row(k.col_stride, out.col_stride);
    }
  });
}

// Sum over i, j of (K[i, j] - its shift) (L[j, i] - its shift), with the diagonal or without. Squares of both are
// brought to doubles first, that of L turned.
template <class T>
double dot(const Matrix<const T>& k, const Margins& of_k, const Matrix<const T>& l, const Margins& of_l,
           bool diagonal) {
  constexpr Index side = 32;
  double sums[most_groups] = {};
  each_group(k.rows, [&](Index group, Index first, Index end) {
    double left[side * side], right[side * side];
    for (Index row = first; row < end; row += side)
      for (Index column = 0; column < k.rows; column += side) {
        const Index rows = at_most(side, end - row), columns = at_most(side, k.rows - column);
        for (Index i = 0; i < rows; ++i)
          for (Index j = 0; j < columns; ++j)
            left[i * columns + j] = double(k.data[(row + i) * k.row_stride + (column + j) * k.col_stride]) -
                                    of_k.rows[row + i] - of_k.columns[column + j];
        for (Index j = 0; j < columns; ++j)
          for (Index i = 0; i < rows; ++i)
            right[i * columns + j] = double(l.data[(column + j) * l.row_stride + (row + i) * l.col_stride]) -
                                     of_l.rows[column + j] - of_l.columns[row + i];
        if (!diagonal)
          for (Index i = 0; i < rows; ++i)
            if (const Index j = row + i - column; j >= 0 && j < columns)
              left[i * columns + j] = right[i * columns + j] = 0;
        sums[group] += sum_over(rows * columns, [&](Index at) { return left[at] * right[at]; });
      }
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

// One matrix as both estimates see it.
template <class T>
struct Dependent {
  Matrix<const T> k;
  Margins shift;
  // Unbiased only: the sums of what is left after the shift, which is then the mean off the diagonal.
  Margins left;

  Dependent(const Matrix<const T>& k_, bool unbiased, Arrays<double>& arrays)
      : k(k_), shift(sums_of(k_, !unbiased, arrays)), left(shift) {
    const Index n = k.rows;
    if (!unbiased) {
      to_means(shift, n);
      return;
    }
    const double mean = shift.total / double(n) / double(n - 1);
    shift.rows = arrays.make(n);
    shift.columns = arrays.make(n);
    for (Index i = 0; i < n; ++i) {
      left.rows[i] -= double(n - 1) * mean;
      left.columns[i] -= double(n - 1) * mean;
      shift.rows[i] = mean;
      shift.columns[i] = 0;
    }
    left.total = sum_over(n, [&](Index i) { return left.rows[i]; });
  }
};

// Neither estimate changes when a constant is added to a matrix, so what cancels is subtracted beforehand.
template <class T>
double hsic_of(const Dependent<T>& a, const Dependent<T>& b, bool unbiased) {
  const Index n = a.k.rows;
  const double trace = dot(a.k, a.shift, b.k, b.shift, !unbiased), size = double(n);
  if (!unbiased) return trace / ((size - 1) * (size - 1));
  const double across = sum_over(n, [&](Index i) { return a.left.columns[i] * b.left.rows[i]; });
  return (trace + a.left.total * b.left.total / ((size - 1) * (size - 2)) - 2 * across / (size - 2)) /
         (size * (size - 3));
}

template <class T>
double dependence_of(const Matrix<const T>& k, const Matrix<const T>& l, bool unbiased, bool aligned) {
  Arrays<double> arrays;
  const Dependent<T> a(k, unbiased, arrays), b(l, unbiased, arrays);
  const double value = hsic_of(a, b, unbiased);
  return aligned ? value / __builtin_sqrt(hsic_of(a, a, unbiased)) / __builtin_sqrt(hsic_of(b, b, unbiased)) : value;
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                  \
  void center(const Matrix<const T>& k, const Matrix<T>& out) { center_of<T>(k, out); }                      \
  void dependence(const Matrix<const T>& k, const Matrix<const T>& l, bool unbiased, bool aligned, T* out) { \
    *out = T(dependence_of<T>(k, l, unbiased, aligned));                                                     \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
