// Weights and samples in strips of columns, and the products that stay in a strip.
//
// A strip is cut into pieces of 256 bytes of columns, and the rows of a piece lie side by side: of 64 units that is 16
// KB, and of a block of samples no more, so that products find their operands in L1, as they lie, without packing.
// Columns past the last are zeros. Strips know nothing of each other, so any thread takes any of them.
#pragma once

#include "gemm/pack.hpp"
#include "hebbian/bodies.hpp"

namespace fastdl::hebbian {
namespace {

using gemm::at_most;
using gemm::divide_up;
using gemm::Index;
using gemm::round_up;
using simd::broadcast;
using simd::Vec;

template <class T>
inline constexpr Index piece_width = 256 / Index(sizeof(T));

template <class T>
inline constexpr int step = simd::lanes<T>;

// Rows of a tile, and vectors of one: as in the engine.
template <class T>
inline constexpr int tile_rows = gemm::Shape<T>::rows;
template <class T>
inline constexpr int tile_vectors = gemm::Shape<T>::vectors;

// Columns of a matrix, from `first` on; `width` is a multiple of four vectors, and some of them may lie past the last.
struct Columns {
  Index first, width;
};

// Strips begin at multiples of four vectors, and are as wide as each other to within that. How many there are depends
// on the number of columns alone: a power of two, at most 16, with twelve vectors or more in each.
template <class T>
struct Strips {
  Index units, count;

  explicit Strips(Index columns) : units(divide_up(columns, unit)), count(1) {
    while (count < 16 && 6 * count <= units) count *= 2;
  }
  // function(columns) for every piece of a strip
  template <class Function>
  FASTDL_INLINE void each_piece(Index s, const Function& function) const {
    const Index end = (s + 1) * units / count * unit;
    for (Index first = s * units / count * unit; first < end; first += piece_width<T>)
      function(Columns{first, at_most(piece_width<T>, end - first)});
  }

  template <class Function>
  FASTDL_INLINE void each_piece(const Function& function) const {
    for (Index s = 0; s < count; ++s) each_piece(s, function);
  }

  static constexpr Index unit = 4 * step<T>;
};

// A piece of one row; zeros past the last column.
template <class T>
FASTDL_INLINE void pack_piece(const Matrix<const T>& from, Index row, Columns piece, T* to) {
  const Index here = at_most(piece.width, from.cols - piece.first);
  const T* source = from.data + row * from.row_stride + piece.first * from.col_stride;
  Index j = 0;
  if (from.col_stride == 1)
    for (; j + step<T> <= here; j += step<T>) simd::store(to + j, simd::load(source + j));
  for (; j < here; ++j) to[j] = source[j * from.col_stride];
  for (; j < piece.width; ++j) to[j] = 0;
}

// Asks for a piece of a row long before it is packed.
template <class T>
FASTDL_INLINE void fetch_piece(const Matrix<const T>& from, Index row, Columns piece) {
  if (from.col_stride != 1) return;
  for (Index j = piece.first; j < at_most(piece.first + piece.width, from.cols); j += 64 / Index(sizeof(T)))
    simd::prefetch_to_l2(from.data + row * from.row_stride + j);
}

template <class T>
void unpack_piece(const T* from, Columns piece, const Matrix<T>& to) {
  const Index here = at_most(piece.width, to.cols - piece.first);
  for (Index i = 0; i < to.rows; ++i)
    for (Index j = 0; j < here; ++j)
      to.data[i * to.row_stride + (piece.first + j) * to.col_stride] = from[i * piece.width + j];
}

// Whether none is infinite or NaN.
template <class T>
bool all_numbers(const Matrix<const T>& w) {
  T sum = 0;
  for (Index i = 0; i < w.rows; ++i)
    for (Index j = 0; j < w.cols; ++j) sum += w.data[i * w.row_stride + j * w.col_stride] * T(0);
  return sum == T(0);
}

// One tile of out = scale * init + coefficients * source: row r of it, Vectors wide, is
//   scale[r] * init[r] + sum over p < depth of coefficients[r*row_step + p*depth_step] * source[p*source_stride]
template <class T>
struct Combination {
  const T* coefficients;
  Index row_step, depth_step;
  const T* source;
  Index source_stride, depth;
  const T* init;  // null: 0
  Index init_stride;
  const T* scale;  // null: 1
  T* out;
  Index out_stride;
};

template <class T, int Rows, int Vectors>
FASTDL_INLINE void combine_tile(const Combination<T>& c, Index row, Index column) {
  Vec<T> sums[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sums[r][v] = Vec<T>{};
      if (c.init) {
        sums[r][v] = simd::load(c.init + (row + r) * c.init_stride + column + v * step<T>);
        if (c.scale) sums[r][v] *= broadcast(c.scale[row + r]);
      }
    }
  const T* source = c.source + column;
  const T* coefficients = c.coefficients + row * c.row_step;
  for (Index p = 0; p < c.depth; ++p, source += c.source_stride, coefficients += c.depth_step) {
    Vec<T> right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) right[v] = simd::load(source + v * step<T>);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const Vec<T> left = broadcast(coefficients[r * c.row_step]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sums[r][v] = simd::fma(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) simd::store(c.out + (row + r) * c.out_stride + column + v * step<T>, sums[r][v]);
}

template <class T, int Rows = tile_rows<T>>
void combine_rows(const Combination<T>& c, Index row, int rows, Index column, Index width) {
  if constexpr (Rows > 1)
    if (rows < Rows) return combine_rows<T, Rows - 1>(c, row, rows, column, width);
  constexpr int vectors = tile_vectors<T>;
  for (; column + vectors * step<T> <= width; column += vectors * step<T>)
    combine_tile<T, Rows, vectors>(c, row, column);
  for (; column < width; column += step<T>) combine_tile<T, Rows, 1>(c, row, column);
}

// All of out, width a multiple of the vector. With `triangle` only columns that are not all below the diagonal.
template <class T>
void combine(const Combination<T>& c, Index rows, Index width, bool triangle = false) {
  constexpr int most = tile_rows<T>;
  for (Index r = 0; r < rows; r += most)
    combine_rows<T>(c, r, int(at_most(most, rows - r)), triangle ? r / step<T> * step<T> : 0, width);
}

// Deflation: for each of Count samples in turn, r = x - y_0 w_0 - y_1 w_1 - ..., and on the way every unit learns from
// what is left: w_i += e_i r. Count samples go through the units together, one behind the other, so that a vector of
// weights is loaded and stored once for all of them: 2 Count multiply-adds for a load and a store.
template <class T, int Count, int Vectors>
FASTDL_INLINE void deflate_tile(const T* x, Index x_stride, T* w, Index stride, Index units, const T* minus_y,
                                const T* step_y, Index y_stride) {
  Vec<T> left[Count][Vectors];
#pragma GCC unroll 4
  for (int s = 0; s < Count; ++s)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) left[s][v] = simd::load(x + s * x_stride + v * step<T>);
  for (Index i = 0; i < units; ++i, w += stride, minus_y += y_stride, step_y += y_stride) {
    Vec<T> weight[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) weight[v] = simd::load(w + v * step<T>);
#pragma GCC unroll 4
    for (int s = 0; s < Count; ++s) {
      const Vec<T> y = broadcast(minus_y[s]), e = broadcast(step_y[s]);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) {
        left[s][v] = simd::fma(y, weight[v], left[s][v]);
        weight[v] = simd::fma(e, left[s][v], weight[v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) simd::store(w + v * step<T>, weight[v]);
  }
}

// One sample, any number of vectors from column `first` on.
template <class T, int Vectors = 8>
void deflate_once(const T* x, T* w, Index stride, Index first, Index width, Index units, const T* minus_y,
                  const T* step_y, Index y_stride) {
  Index column = first;
  for (; column + Vectors * step<T> <= width; column += Vectors * step<T>)
    deflate_tile<T, 1, Vectors>(x + column, 0, w + column, stride, units, minus_y, step_y, y_stride);
  if constexpr (Vectors > 1)
    if (column < width) deflate_once<T, Vectors / 2>(x, w, stride, column, width, units, minus_y, step_y, y_stride);
}

// The same for a rule whose units all learn from what all of them leave.
template <class T, int Vectors = 8>
void project_once(const T* x, T* w, Index stride, Index first, Index width, Index units, const T* minus_y,
                  Index y_stride, const T* gain) {
  Index column = first;
  for (; column + Vectors * step<T> <= width; column += Vectors * step<T>) {
    Vec<T> left[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) left[v] = simd::load(x + column + v * step<T>);
    for (Index i = 0; i < units; ++i) {
      const Vec<T> y = broadcast(minus_y[i * y_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v)
        left[v] = simd::fma(y, simd::load(w + i * stride + column + v * step<T>), left[v]);
    }
    for (Index i = 0; i < units; ++i) {
      const Vec<T> g = broadcast(gain[i]);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) {
        T* at = w + i * stride + column + v * step<T>;
        simd::store(at, simd::fma(g, left[v], simd::load(at)));
      }
    }
  }
  if constexpr (Vectors > 1)
    if (column < width) project_once<T, Vectors / 2>(x, w, stride, column, width, units, minus_y, y_stride, gain);
}

}  // namespace
}  // namespace fastdl::hebbian
