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

// Columns of a matrix, from `first` on; `width` is a multiple of the vector, and the last may lie past the last of all.
struct Columns {
  Index first, width;
};

// Strips are as wide as each other to within a vector. How many there are depends on the number of columns alone: a
// power of two, at most 16, with `least` vectors or more in each.
template <class T>
struct Strips {
  Index vectors, count;

  explicit Strips(Index columns, Index least) : vectors(divide_up(columns, step<T>)), count(1) {
    while (count < 16 && 2 * least * count <= vectors) count *= 2;
  }

  // function(columns, number) for every piece of the strips from `begin` to `end`. All pieces are numbered through.
  template <class Function>
  FASTDL_INLINE void each_piece(Index begin, Index end, const Function& function) const {
    for (Index s = begin; s < end; ++s) {
      const Index last = border(s + 1);
      Index number = s * most_pieces();
      for (Index first = border(s); first < last; first += piece_width<T>)
        function(Columns{first, at_most(piece_width<T>, last - first)}, number++);
    }
  }
  template <class Function>
  FASTDL_INLINE void each_piece(const Function& function) const {
    each_piece(0, count, function);
  }

  // The first column of a strip.
  Index border(Index s) const { return s * vectors / count * step<T>; }
  Index most_pieces() const { return divide_up(divide_up(vectors, count) * step<T>, piece_width<T>); }
  Index pieces() const { return count * most_pieces(); }
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

// The way back, of columns that are there.
template <class T>
FASTDL_INLINE void unpack_row(const T* from, Columns columns, const Matrix<T>& to, Index row) {
  T* target = to.data + row * to.row_stride + columns.first * to.col_stride;
  Index j = 0;
  if (to.col_stride == 1)
    for (; j + step<T> <= columns.width; j += step<T>) simd::store(target + j, simd::load(from + j));
  for (; j < columns.width; ++j) target[j * to.col_stride] = from[j];
}

// Whether none is infinite or NaN.
template <class T>
bool all_numbers(const Matrix<const T>& w) {
  T sum = 0;
  for (Index i = 0; i < w.rows; ++i)
    for (Index j = 0; j < w.cols; ++j) sum += w.data[i * w.row_stride + j * w.col_stride] * T(0);
  return sum == T(0);
}

// A stride that the compiler knows: addresses of a tile's rows then take no registers. (With strides in variables the
// fields of 64 units took 1.3 times as long.)
template <Index N>
struct Known {
  FASTDL_INLINE constexpr operator Index() const { return N; }
};

// out = scale * init + coefficients * source: row r is
//   scale[r] * init[r] + sum over p < depth of coefficients[r*row_step + p*depth_step] * source[p*source_stride]
template <class T, class RowStep, class DepthStep, class SourceStride, class OutStride>
struct Combination {
  const T* coefficients;
  RowStep row_step;
  DepthStep depth_step;
  const T* source;
  SourceStride source_stride;
  Index depth;
  const T* init;   // null: 0; its rows are as far apart as those of out
  const T* scale;  // null: 1
  T* out;
  OutStride out_stride;
};

template <class T, int Rows, int Vectors, class Combination>
FASTDL_INLINE void combine_tile(const Combination& c, Index row, Index column) {
  Vec<T> sums[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      sums[r][v] = Vec<T>{};
      if (c.init) {
        sums[r][v] = simd::load(c.init + (row + r) * c.out_stride + column + v * step<T>);
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

template <class T, int Vectors, int Rows, class Combination>
FASTDL_INLINE void combine_rows(const Combination& c, Index row, int rows, Index column) {
  if constexpr (Rows > 1)
    if (rows < Rows) return combine_rows<T, Vectors, Rows - 1>(c, row, rows, column);
  combine_tile<T, Rows, Vectors>(c, row, column);
}

// All of out, width a multiple of the vector. What is narrower than a tile has tiles of more rows: a block of samples
// is two vectors of AVX-512 wide, and six rows of one vector, too few to hide the latency of a sum, went at half the
// rate.
template <class T, int Vectors = tile_vectors<T>, class Combination>
void combine(const Combination& c, Index rows, Index width, Index first = 0) {
  constexpr int most = Vectors == tile_vectors<T> ? tile_rows<T> : 8;
  const Index end = first + (width - first) / (Vectors * step<T>)*(Vectors * step<T>);
  for (Index r = 0; r < rows && first < end; r += most)
    for (Index j = first; j < end; j += Vectors * step<T>)
      combine_rows<T, Vectors, most>(c, r, int(at_most(most, rows - r)), j);
  if constexpr (Vectors > 1)
    if (end < width) combine<T, Vectors / 2>(c, rows, width, end);
}

// Deflation: for each of Count samples in turn, r = x - y_0 w_0 - y_1 w_1 - ..., and on the way every unit learns from
// what is left: w_i += e_i r. Count samples go through the units together, one behind the other, so that a vector of
// weights is loaded and stored once for all of them: 2 Count multiply-adds for a load and a store.
template <class T, int Count, int Vectors, class Stride, class YStride>
FASTDL_INLINE void deflate_tile(const T* x, Index x_stride, T* w, Stride stride, Index units, const T* minus_y,
                                const T* step_y, YStride y_stride) {
  Vec<T> left[Count][Vectors];
#pragma GCC unroll 8
  for (int s = 0; s < Count; ++s)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) left[s][v] = simd::load(x + s * x_stride + v * step<T>);
  for (Index i = 0; i < units; ++i, w += stride, minus_y += y_stride, step_y += y_stride) {
    Vec<T> weight[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) weight[v] = simd::load(w + v * step<T>);
#pragma GCC unroll 8
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
template <class T, int Vectors = 8, class Stride>
void deflate_once(const T* x, T* w, Stride stride, Index first, Index width, Index units, const T* minus_y,
                  const T* step_y, Stride y_stride) {
  Index column = first;
  for (; column + Vectors * step<T> <= width; column += Vectors * step<T>)
    deflate_tile<T, 1, Vectors>(x + column, 0, w + column, stride, units, minus_y, step_y, y_stride);
  if constexpr (Vectors > 1)
    if (column < width) deflate_once<T, Vectors / 2>(x, w, stride, column, width, units, minus_y, step_y, y_stride);
}

// The same for a rule whose units all learn from what all of them leave.
template <class T, int Vectors = 8, class Stride>
void project_once(const T* x, T* w, Stride stride, Index first, Index width, Index units, const T* minus_y,
                  Stride y_stride, const T* gain) {
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
