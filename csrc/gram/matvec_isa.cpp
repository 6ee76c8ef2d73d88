// Products with a Gram matrix that is never formed, compiled once per instruction-set level: K v, and softmax(Q K') V.
//
// Blocks of 48 rows by 128 columns of K are computed in cache (gemm/stream.hpp) and multiplied at once with their part
// of v. A part is summed in the type of the data, and the parts in double, so that the error does not grow with the
// number of columns.
#include "gemm/stream.hpp"
#include "gram/bodies.hpp"
#include "gram/rows.hpp"
#include "simd/math.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

using gemm::Index;
using gemm::stream_part;

// Up to so many columns of v are taken one by one, along the columns of K; more side by side, a vector of them at a
// time.
inline constexpr Index few = 4;

// Rows multiplied together: each vector of v is loaded once for all of them.
inline constexpr int together = 6;

// v as the products read it: its columns one after the other (few), or its rows, filled up with zeros to whole vectors.
template <class T>
struct RightSide {
  const T* data;
  Index rows, cols, stride;  // cols rounded up to vectors when there are more than a few

  RightSide(const Matrix<const T>& v, Arrays<T>& arrays) : rows(v.rows), cols(v.cols) {
    const bool side_by_side = cols > few;
    stride = side_by_side ? gemm::round_up(cols, simd::lanes<T>) : rows;
    T* to = arrays.make(side_by_side ? rows : cols, stride);
    for (Index i = 0; i < rows; ++i)
      for (Index c = 0; c < (side_by_side ? stride : cols); ++c) {
        const T value = c < cols ? v.data[i * v.row_stride + c * v.col_stride] : T(0);
        (side_by_side ? to[i * stride + c] : to[c * stride + i]) = value;
      }
    data = to;
  }
};

// sums[r][c] = sum over j < width of block[r][j] v[column + j][c] for Count rows
template <class T, int Count>
FASTDL_INLINE void rows_times_few(const T* block, const RightSide<T>& v, Index column, Index width, double* to,
                                  Index stride) {
  constexpr int step = simd::lanes<T>;
  for (Index c = 0; c < v.cols; ++c) {
    const T* values = v.data + c * v.stride + column;
    simd::Vec<T> sums[Count] = {};
    Index j = 0;
    for (; j + step <= width; j += step) {
      const simd::Vec<T> value = simd::load(values + j);
#pragma GCC unroll 8
      for (int r = 0; r < Count; ++r) sums[r] = simd::fma(simd::load(block + r * stream_part + j), value, sums[r]);
    }
    if (const int rest = int(width - j); rest > 0) {
      const simd::Vec<T> value = simd::load_first(values + j, rest);
      for (int r = 0; r < Count; ++r)
        sums[r] = simd::fma(simd::load_first(block + r * stream_part + j, rest), value, sums[r]);
    }
    for (int r = 0; r < Count; ++r) {
      double total = 0;
      for (int i = 0; i < step; ++i) total += double(sums[r][i]);
      to[r * stride + c] += total;
    }
  }
}

template <class T, int Count, int Vectors>
FASTDL_INLINE void rows_times_vectors(const T* block, const T* v, Index v_stride, Index width, double* to, Index stride,
                                      Index cols) {
  constexpr int step = simd::lanes<T>;
  simd::Vec<T> sums[Count][Vectors] = {};
  for (Index j = 0; j < width; ++j) {
    simd::Vec<T> right[Vectors];
#pragma GCC unroll 4
    for (int u = 0; u < Vectors; ++u) right[u] = simd::load(v + j * v_stride + u * step);
#pragma GCC unroll 8
    for (int r = 0; r < Count; ++r) {
      const simd::Vec<T> left = simd::broadcast(block[r * stream_part + j]);
#pragma GCC unroll 4
      for (int u = 0; u < Vectors; ++u) sums[r][u] = simd::fma(left, right[u], sums[r][u]);
    }
  }
  for (int r = 0; r < Count; ++r)
    for (int u = 0; u < Vectors; ++u)
      for (int i = 0; i < step && u * step + i < cols; ++i) to[r * stride + u * step + i] += double(sums[r][u][i]);
}

// to[r][c] += (block v)[r][c]
template <class T>
void add_product(const T* block, Index rows, const RightSide<T>& v, Index column, Index width, double* to,
                 Index stride) {
  Index r = 0;
  if (v.cols <= few) {
    for (; r + together <= rows; r += together)
      rows_times_few<T, together>(block + r * stream_part, v, column, width, to + r * stride, stride);
    for (; r < rows; ++r) rows_times_few<T, 1>(block + r * stream_part, v, column, width, to + r * stride, stride);
    return;
  }
  constexpr int step = simd::lanes<T>;
  for (Index c = 0; c < v.cols;) {
    const bool two = c + step < v.cols;
    const T* values = v.data + column * v.stride + c;
    for (r = 0; r < rows;) {
      const T* from = block + r * stream_part;
      double* target = to + r * stride + c;
      const bool all = r + together <= rows;
      if (two && all)
        rows_times_vectors<T, together, 2>(from, values, v.stride, width, target, stride, v.cols - c);
      else if (two)
        rows_times_vectors<T, 1, 2>(from, values, v.stride, width, target, stride, v.cols - c);
      else if (all)
        rows_times_vectors<T, together, 1>(from, values, v.stride, width, target, stride, v.cols - c);
      else
        rows_times_vectors<T, 1, 1>(from, values, v.stride, width, target, stride, v.cols - c);
      r += all ? together : 1;
    }
    c += two ? 2 * step : step;
  }
}

template <class T>
void copy_out(const double* sums, const Matrix<T>& out) {
  for (Index i = 0; i < out.rows; ++i)
    for (Index c = 0; c < out.cols; ++c) out.data[i * out.row_stride + c * out.col_stride] = T(sums[i * out.cols + c]);
}

template <class T>
void matvec_of(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, const Matrix<const T>& v,
               const Matrix<T>& out) {
  Arrays<T> arrays;
  Arrays<double> doubles;
  const RightSide<T> right_side(v, arrays);
  double* sums = doubles.make(out.rows, out.cols);
  for (Index i = 0; i < out.rows * out.cols; ++i) sums[i] = 0;
  const auto add = [&](Index row, Index row_end, Index column, Index width, const T* block) {
    add_product(block, row_end - row, right_side, column, width, sums + row * out.cols, out.cols);
  };
  blocks(kernel, x, y, gemm::Consumer<T>(add));
  copy_out(sums, out);
}

// A row whose scores left the range of float32, in double, which has room for all: by the same sums, one key at a time.
void softmax_again(const Matrix<const float>& q, const Matrix<const float>& k, const Matrix<const float>& v,
                   double scale, Index row, double* sums, double& total) {
  const float* query = q.data + row * q.row_stride;
  double largest = -__builtin_inf();
  total = 0;
  for (Index c = 0; c < v.cols; ++c) sums[c] = 0;
  for (Index j = 0; j < k.rows; ++j) {
    const float* key = k.data + j * k.row_stride;
    const double score = scale * sum_over(k.cols, [&](Index f) {
                           return double(query[f * q.col_stride]) * double(key[f * k.col_stride]);
                         });
    if (score > largest) {
      const double shrink = __builtin_exp(largest - score);
      total *= shrink;
      for (Index c = 0; c < v.cols; ++c) sums[c] *= shrink;
      largest = score;
    }
    const double weight = score == -__builtin_inf() ? 0 : __builtin_exp(score - largest);
    total += weight;
    for (Index c = 0; c < v.cols; ++c) sums[c] += weight * double(v.data[j * v.row_stride + c * v.col_stride]);
  }
}

template <class T>
bool all_finite(const T* values, Index count, Index stride) {
  for (Index i = 0; i < count; ++i)
    if (!(__builtin_fabs(double(values[i * stride])) <= __DBL_MAX__)) return false;
  return true;
}

template <class T>
bool any_nan(const Matrix<const T>& m) {
  for (Index i = 0; i < m.rows; ++i)
    for (Index f = 0; f < m.cols; ++f) {
      const T value = m.data[i * m.row_stride + f * m.col_stride];
      if (value != value) return true;
    }
  return false;
}

// Row by row: with the largest score so far, m, the sum of e^(score - m) and of e^(score - m) v. A new largest score
// scales down what there is.
template <class T>
void softmax_of(const Matrix<const T>& q, const Matrix<const T>& k, const Matrix<const T>& v, double scale,
                const Matrix<T>& out) {
  constexpr int step = simd::lanes<T>;
  const T factor = T(scale);
  Arrays<T> arrays;
  Arrays<double> doubles;
  const RightSide<T> right_side(v, arrays);
  double* sums = doubles.make(out.rows, out.cols);
  double* totals = doubles.make(out.rows);
  T* largest = arrays.make(out.rows);
  for (Index i = 0; i < out.rows * out.cols; ++i) sums[i] = 0;
  for (Index i = 0; i < out.rows; ++i) totals[i] = 0, largest[i] = -T(__builtin_inf());
  const gemm::Strided<T> left{q.data, q.row_stride, q.col_stride}, right{k.data, k.row_stride, k.col_stride};
  const auto add = [&](Index row, Index row_end, Index column, Index width, T* block) {
    for (Index i = row; i < row_end; ++i) {
      T* scores = block + (i - row) * stream_part;
      // A score of -inf in float32 may be a sum that left it on the way: such a row is taken again below.
      const T lowest = -T(__builtin_inf());
      simd::Vec<T> low{};
      for (Index j = 0; j < width; j += step) {
        const simd::Vec<T> score = simd::load(scores + j) * factor;
        simd::store(scores + j, score);
        if (j + step <= width) low = simd::select(score < low, score, low);
      }
      if constexpr (sizeof(T) == 4) {
        bool fell = false;
        for (int l = 0; l < step; ++l) fell |= low[l] == lowest;
        for (Index j = width - width % step; j < width; ++j) fell |= scores[j] == lowest;
        if (fell) totals[i] = __builtin_nan("");
      }
      for (Index j = width; j % step != 0; ++j) scores[j] = lowest;
      simd::Vec<T> top = simd::broadcast(lowest);
      for (Index j = 0; j < width; j += step) {
        const simd::Vec<T> score = simd::load(scores + j);
        top = simd::select(score > top, score, top);
      }
      T most = largest[i];
      for (int l = 0; l < step; ++l) most = top[l] > most ? top[l] : most;
      // As long as there is nothing but -inf, all weights are 0.
      const T base = most > lowest ? most : T(0);
      simd::Vec<T> total{};
      for (Index j = 0; j < width; j += step) {
        const simd::Vec<T> weight = simd::exp(simd::load(scores + j) - base);
        total += weight;
        simd::store(scores + j, weight);
      }
      if (most > largest[i]) {
        const double shrink = __builtin_exp(double(largest[i]) - double(most));
        totals[i] *= shrink;
        for (Index c = 0; c < out.cols; ++c) sums[i * out.cols + c] *= shrink;
        largest[i] = most;
      }
      for (int l = 0; l < step; ++l) totals[i] += double(total[l]);
    }
    add_product<T>(block, row_end - row, right_side, column, width, sums + row * out.cols, out.cols);
  };
  gemm::stream<T>({q.rows, k.rows, q.cols}, gemm::MultiplyAdd{}, left, right, gemm::Identity{}, gemm::Consumer<T>(add));
  if (k.rows == 0) return copy_out(sums, out);
  if constexpr (sizeof(T) == 4) {
    // Samples with NaN have no other result than NaN, nor queries with Inf, whose scores are all infinite.
    const auto lost = [&](Index i) { return !(totals[i] > 0 && totals[i] <= __DBL_MAX__); };
    bool any = false;
    for (Index i = 0; i < out.rows; ++i) any |= lost(i);
    if (any && !any_nan(k))
      core::parallel_for(out.rows, core::thread_count(), [&](Index i) {
        if (lost(i) && all_finite(q.data + i * q.row_stride, q.cols, q.col_stride))
          softmax_again(q, k, v, scale, i, sums + i * out.cols, totals[i]);
      });
  }
  for (Index i = 0; i < out.rows; ++i)
    for (Index c = 0; c < out.cols; ++c) sums[i * out.cols + c] /= totals[i];
  copy_out(sums, out);
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                       \
  void matvec(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, const Matrix<const T>& v, \
              const Matrix<T>& out) {                                                                             \
    matvec_of<T>(kernel, x, y, v, out);                                                                           \
  }                                                                                                               \
  void softmax(const Matrix<const T>& q, const Matrix<const T>& k, const Matrix<const T>& v, double scale,        \
               const Matrix<T>& out) {                                                                            \
    softmax_of<T>(q, k, v, scale, out);                                                                           \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
