// What a kernel must know of each row beside the products: lengths, and the centre distances are taken from.
#pragma once

#include <cmath>
#include <limits>

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/pack.hpp"
#include "gram/bodies.hpp"

namespace fastdl::gram {
namespace {

using gemm::Index;

// sum over k of f(k), in double, with eight interleaved sums: the compiler makes vectors of them.
template <class Function>
FASTDL_INLINE double sum_over(Index count, const Function& f) {
  double sums[8] = {};
  Index k = 0;
  for (; k + 8 <= count; k += 8)
    for (int i = 0; i < 8; ++i) sums[i] += f(k + i);
  for (int i = 0; k + i < count; ++i) sums[i] += f(k + i);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// (x - centre) * weight, as it is packed and measured; either may be missing.
template <class T>
struct Features {
  const T *centre = nullptr, *weight = nullptr;

  FASTDL_INLINE T operator()(T x, Index k) const {
    if (centre) x -= centre[k];
    if (weight) x *= weight[k];
    return x;
  }
};

// Arrays over rows or features that live as long as a call.
template <class T>
class Arrays {
 public:
  T* make(Index size) { return static_cast<T*>(scratch_.bytes(static_cast<std::size_t>(size) * sizeof(T))); }

 private:
  core::Scratch scratch_;
};

// Rows enough for a task of about 30 us.
inline Index rows_a_task(Index features) { return 1 + (Index{1} << 16) / (features + 8); }

// A function of a squared length.
inline double itself(double squared) { return squared; }
inline double length(double squared) { return __builtin_sqrt(squared); }
inline double inverse_length(double squared) { return squared > 0 ? 1 / __builtin_sqrt(squared) : squared; }
using OfLength = double (*)(double squared);

// to[i] = f(scale * squared length of row i) for every row, and `beyond` for a vector's lanes past the end, which
// epilogues read.
template <class T>
void squared_lengths(const Matrix<const T>& x, Features<T> features, double scale, OfLength f, T beyond, T* to) {
  const Index block = rows_a_task(x.cols), tasks = gemm::divide_up(x.rows, block);
  core::parallel_for(tasks, tasks < 4 ? 1 : core::thread_count(), [&](Index task) {
    for (Index i = task * block; i < x.rows && i < (task + 1) * block; ++i) {
      const T* row = x.data + i * x.row_stride;
      const double squared = sum_over(x.cols, [&](Index k) {
        const double value = features(row[k * x.col_stride], k);
        return value * value;
      });
      to[i] = T(f(scale * squared));
    }
  });
  for (int i = 0; i < simd::lanes<T>; ++i) to[x.rows + i] = beyond;
}

// A centre near the data keeps the products small that squared distances are differences of. Any will do: the mean of
// up to 256 rows, without what is not finite. It is taken of Y alone, so that K does not depend on how the rows of X
// are split over calls.
template <class T>
void centre_of(const Matrix<const T>& y, T* centre, double* sums) {
  const Index count = y.rows < 256 ? y.rows : 256;
  for (Index k = 0; k < y.cols; ++k) sums[k] = 0;
  for (Index i = 0; i < count; ++i) {
    const T* row = y.data + i * y.rows / count * y.row_stride;
    for (Index k = 0; k < y.cols; ++k) {
      const double value = double(row[k * y.col_stride]);
      sums[k] += std::fabs(value) <= double(std::numeric_limits<T>::max()) / 512 ? value : 0;
    }
  }
  for (Index k = 0; k < y.cols; ++k) centre[k] = count ? T(sums[k] / double(count)) : T(0);
}

// An operand whose values are (x - centre) * weight.
template <class T>
struct Centred {
  gemm::Strided<T> base;
  Features<T> features;

  void pack_rows(Index first, int count, Index k, Index depth, T* panel) const {
    base.pack_rows(first, count, k, depth, panel);
    for (Index p = 0; p < depth; ++p)
      for (int r = 0; r < gemm::Shape<T>::rows; ++r) {
        T& value = panel[p * gemm::Shape<T>::rows + r];
        value = features(value, k + p);
      }
  }

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    base.pack_columns(first, count, k, depth, width, panel);
    for (Index p = 0; p < depth; ++p)
      for (int j = 0; j < width; ++j) panel[p * width + j] = features(panel[p * width + j], k + p);
  }
};

}  // namespace
}  // namespace fastdl::gram
