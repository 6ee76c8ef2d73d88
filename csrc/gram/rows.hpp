// What a kernel must know of each row beside the products: lengths, and the centre distances are taken from.
#pragma once

#include <cmath>

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

// (x - centre) * weight, as it is packed and measured; either may be missing. The second pair has every number once for
// each row of a packed panel, side by side.
template <class T>
struct Features {
  const T *centre = nullptr, *weight = nullptr;
  const T *centre_rows = nullptr, *weight_rows = nullptr;

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
  T* make(Index rows, Index cols = 1) { return scratch_.array<T>(rows, cols); }

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

// The squared length of a contiguous row: lanes of partial sums, which are added in double, by halves. (One after the
// other, 32 lanes took as long as 250 features.)
template <bool centred, bool weighted, class T>
double squared_length(const T* row, Index count, const Features<T>& features) {
  constexpr int step = simd::lanes<T>;
  simd::Vec<T> sums[4] = {};
  Index k = 0;
  const auto take = [&](simd::Vec<T>& sum, const auto& load) {
    simd::Vec<T> value = load(row);
    if constexpr (centred) value -= load(features.centre);
    if constexpr (weighted) value *= load(features.weight);
    sum = simd::fma(value, value, sum);
  };
  for (; k + 4 * step <= count; k += 4 * step)
    for (int u = 0; u < 4; ++u) take(sums[u], [&](const T* from) { return simd::load(from + k + u * step); });
  for (; k + step <= count; k += step) take(sums[0], [&](const T* from) { return simd::load(from + k); });
  if (const int rest = int(count - k); rest > 0)
    take(sums[1], [&](const T* from) { return simd::load_first(from + k, rest); });
  double total[step];
  for (int i = 0; i < step; ++i)
    total[i] = (double(sums[0][i]) + double(sums[1][i])) + (double(sums[2][i]) + double(sums[3][i]));
  for (int half = step / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) total[i] += total[i + half];
  return total[0];
}

template <class T>
double squared_length(const Matrix<const T>& x, Index i, const Features<T>& features) {
  const T* row = x.data + i * x.row_stride;
  const auto in_double = [&] {
    return sum_over(x.cols, [&](Index k) {
      const double value = double(features(row[k * x.col_stride], k));
      return value * value;
    });
  };
  if (x.col_stride != 1 || x.cols < simd::lanes<T>) return in_double();
  const double squared = features.centre && features.weight ? squared_length<true, true>(row, x.cols, features)
                         : features.centre                  ? squared_length<true, false>(row, x.cols, features)
                         : features.weight                  ? squared_length<false, true>(row, x.cols, features)
                                                            : squared_length<false, false>(row, x.cols, features);
  // Out of the range of float32 the lanes have lost something.
  return sizeof(T) == 4 && !(squared > 1e-30 && squared < 1e30) ? in_double() : squared;
}

template <class T>
bool is_zero(const Matrix<const T>& x, Index i) {
  for (Index k = 0; k < x.cols; ++k)
    if (x.data[i * x.row_stride + k * x.col_stride] != 0) return false;
  return true;
}

// to[i] = f(i) for every row, and `beyond` for a vector's lanes past the end, which epilogues read.
template <class T, class Function>
void for_rows(const Matrix<const T>& x, T beyond, T* to, const Function& f) {
  const Index block = rows_a_task(x.cols), tasks = gemm::divide_up(x.rows, block);
  core::parallel_for(tasks, tasks < 4 ? 1 : core::thread_count(), [&](Index task) {
    for (Index i = task * block; i < x.rows && i < (task + 1) * block; ++i) to[i] = f(i);
  });
  for (int i = 0; i < simd::lanes<T>; ++i) to[x.rows + i] = beyond;
}

// to[i] = scale * f(squared length of row i)
template <class T>
void squared_lengths(const Matrix<const T>& x, const Features<T>& features, double scale, OfLength f, T beyond, T* to) {
  for_rows(x, beyond, to, [&](Index i) { return T(scale * f(squared_length(x, i, features))); });
}

// to[i] = 1/length of row i; 0 for a row of zeros; NaN for one so long or short that its product with another leaves
// the range of T, which epilogues then take from the rows themselves.
template <class T>
void inverse_lengths(const Matrix<const T>& x, T* to) {
  constexpr double most = sizeof(T) == 4 ? 1e37 : 1e300;
  for_rows(x, T(0), to, [&](Index i) {
    const double squared = squared_length(x, i, {});
    if (squared > 1 / most && squared < most) return T(1 / __builtin_sqrt(squared));
    return is_zero(x, i) ? T(0) : T(__builtin_nan(""));
  });
}

// A row over its length, in double. One whose squares leave that range too is brought near 1 first, by a power of 2.
// `inverse` is what inverse_lengths has for it.
template <class T>
class UnitRow {
 public:
  UnitRow(const Matrix<const T>& rows, Index row, T inverse)
      : from_(rows.data + row * rows.row_stride), stride_(rows.col_stride), zero_(inverse == 0) {
    if (sizeof(T) == 8 && inverse != inverse) {
      double largest = 0;
      for (Index k = 0; k < rows.cols; ++k) {
        const double size = __builtin_fabs(double(from_[k * stride_]));
        largest = size > largest ? size : largest;
      }
      if (largest > 0 && __builtin_isfinite(largest)) shift_ = -__builtin_ilogb(largest);
    }
    const double squared = sum_over(rows.cols, [&](Index k) { return near_one(k) * near_one(k); });
    finite_ = squared <= __DBL_MAX__;
    inverse_ = inverse_length(squared);
  }

  bool zero() const { return zero_; }
  bool finite() const { return finite_; }
  double operator()(Index k) const { return inverse_ * near_one(k); }

 private:
  double near_one(Index k) const {
    const double value = double(from_[k * stride_]);
    return shift_ == 0 ? value : __builtin_ldexp(value, shift_);
  }

  const T* from_;
  Index stride_;
  bool zero_, finite_;
  int shift_ = 0;
  double inverse_;
};

// A centre near the data keeps the products small that squared distances are differences of. Any will do: the mean of
// up to 256 rows, without what is not finite or so large that it would outweigh the rest. It is taken of Y alone, so
// that K does not depend on how the rows of X are split over calls.
template <class T>
void centre_of(const Matrix<const T>& y, T* centre, double* sums) {
  const Index count = y.rows < 256 ? y.rows : 256;
  for (Index k = 0; k < y.cols; ++k) sums[k] = 0;
  for (Index i = 0; i < count; ++i) {
    const T* row = y.data + i * y.rows / count * y.row_stride;
    for (Index k = 0; k < y.cols; ++k) {
      const double value = double(row[k * y.col_stride]);
      sums[k] += std::fabs(value) <= (sizeof(T) == 4 ? 1e12 : 1e100) ? value : 0;
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
    constexpr int rows = gemm::Shape<T>::rows, step = simd::lanes<T>;
    base.pack_rows(first, count, k, depth, panel);
    const Index size = depth * rows;
    const T *centre = features.centre_rows + k * rows, *weight = features.weight_rows + k * rows;
    Index p = 0;
    for (; p + step <= size; p += step) {
      simd::Vec<T> value = simd::load(panel + p);
      if (features.centre) value -= simd::load(centre + p);
      if (features.weight) value *= simd::load(weight + p);
      simd::store(panel + p, value);
    }
    for (; p < size; ++p) {
      if (features.centre) panel[p] -= centre[p];
      if (features.weight) panel[p] *= weight[p];
    }
  }

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    base.pack_columns(first, count, k, depth, width, panel);
    for (Index p = 0; p < depth; ++p) {
      const simd::Vec<T> centre = simd::broadcast(features.centre ? features.centre[k + p] : T(0));
      const simd::Vec<T> weight = simd::broadcast(features.weight ? features.weight[k + p] : T(1));
      for (int j = 0; j < width; j += simd::lanes<T>) {
        T* at = panel + p * width + j;
        simd::store(at, (simd::load(at) - centre) * weight);
      }
    }
  }
};

// An operand whose rows are of length 1, or 0 where they are 0. `inverse` is what inverse_lengths made.
template <class T>
struct Units {
  Matrix<const T> from;
  const T* inverse;

  void pack_rows(Index first, int count, Index k, Index depth, T* panel) const {
    constexpr int rows = gemm::Shape<T>::rows, step = simd::lanes<T>;
    strided().pack_rows(first, count, k, depth, panel);
    // Rows come round again after as many values as both a vector and a panel fit into.
    constexpr int period = rows % 2 == 0 ? rows * step / 2 : rows * step;
    T factors[period];
    for (int i = 0; i < period; ++i) factors[i] = inverse[first + (i % rows < count ? i % rows : count - 1)];
    const Index size = depth * rows;
    Index p = 0;
    for (; p + period <= size; p += period)
#pragma GCC unroll 8
      for (int i = 0; i < period; i += step)
        simd::store(panel + p + i, simd::load(panel + p + i) * simd::load(factors + i));
    for (int i = 0; p < size; ++p, ++i) panel[p] *= factors[i];
    for (int r = 0; r < count; ++r)
      if (inverse[first + r] != inverse[first + r]) extreme(first + r, k, depth, panel + r, rows);
  }

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    constexpr int step = simd::lanes<T>;
    strided().pack_columns(first, count, k, depth, width, panel);
    for (int j = 0; j < width; j += step) {
      const simd::Vec<T> factors = simd::load(inverse + first + j);
      for (Index p = 0; p < depth; ++p) {
        T* at = panel + p * width + j;
        simd::store(at, simd::load(at) * factors);
      }
    }
    for (int j = 0; j < count; ++j)
      if (inverse[first + j] != inverse[first + j]) extreme(first + j, k, depth, panel + j, width);
  }

 private:
  gemm::Strided<T> strided() const { return {from.data, from.row_stride, from.col_stride}; }

  // A row whose squared length is beyond the type.
  __attribute__((noinline)) void extreme(Index row, Index k, Index depth, T* to, Index stride) const {
    const UnitRow<T> unit(from, row, inverse[row]);
    for (Index p = 0; p < depth; ++p) to[p * stride] = T(unit(k + p));
  }
};

}  // namespace
}  // namespace fastdl::gram
