// Weights and samples in strips of columns, and the products that stay in a strip.
//
// A strip is 256 bytes wide: of 64 units it takes 16 KB, and of a block of 64 samples as much, so that all that is done
// in it finds its operands in L1, as they lie, without packing. Columns past the last are zeros. Strips know nothing of
// each other, so any thread takes any of them.
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
inline constexpr Index strip_width = 256 / Index(sizeof(T));

template <class T>
inline constexpr int step = simd::lanes<T>;

// Rows of a tile, and vectors of one: as in the engine.
template <class T>
inline constexpr int tile_rows = gemm::Shape<T>::rows;
template <class T>
inline constexpr int tile_vectors = gemm::Shape<T>::vectors;

// Columns [column, column + strip_width) of some rows, side by side; zeros past the last.
template <class T>
void pack_strip(const Matrix<const T>& from, Index row, Index rows, Index column, T* to) {
  constexpr Index width = strip_width<T>;
  const Index here = at_most(width, from.cols - column);
  for (Index i = 0; i < rows; ++i, to += width) {
    const T* source = from.data + (row + i) * from.row_stride + column * from.col_stride;
    if (from.col_stride == 1 && here == width) {
      std::memcpy(to, source, sizeof(T) * width);
    } else {
      for (Index j = 0; j < here; ++j) to[j] = source[j * from.col_stride];
      for (Index j = here; j < width; ++j) to[j] = 0;
    }
  }
}

template <class T>
void unpack_strip(const T* from, Index column, const Matrix<T>& to) {
  constexpr Index width = strip_width<T>;
  const Index here = at_most(width, to.cols - column);
  for (Index i = 0; i < to.rows; ++i)
    for (Index j = 0; j < here; ++j) to.data[i * to.row_stride + (column + j) * to.col_stride] = from[i * width + j];
}

// turned[c*count + t] = strip[t*width + c] for t < rows, zeros up to count: whole vectors.
template <class T>
void turn_strip(const T* strip, Index rows, Index count, T* turned) {
  constexpr Index width = strip_width<T>;
  const gemm::Strided<T> operand{strip, width, 1};
  for (Index t = 0; t < count; t += step<T>) {
    const int here = int(at_most(step<T>, rows - t));
    T square[width * step<T>];
    operand.pack_columns(t, here, 0, width, step<T>, square);
    for (Index c = 0; c < width; ++c) {
      for (Index i = here; i < step<T>; ++i) square[c * step<T> + i] = 0;
      simd::store(turned + c * count + t, simd::load(square + c * step<T>));
    }
  }
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

}  // namespace
}  // namespace fastdl::hebbian
