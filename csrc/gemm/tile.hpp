// The micro-kernel: one tile of C, rows x vectors accumulators, summed over k in registers and finished by the
// epilogue.
#pragma once

#include "gemm/shape.hpp"

namespace fastdl::gemm {
namespace {

// The output matrix. Vectors are stored when columns are contiguous, single values otherwise.
template <class T>
struct Output {
  T* data;
  Index stride, stride_column;
};

// The part of the sum over k that one pass takes: [first, first + depth) of `all`.
struct Stretch {
  Index first, depth, all;
  bool begins() const { return first == 0; }
  bool last() const { return first + depth == all; }
};

// acc[r][v] = sum over p of a[r, p] * b[p, v]
template <class T, int Rows, int Vectors>
FASTDL_INLINE void accumulate(const T* a, const T* b, Index depth, simd::Vec<T> (&acc)[Rows][Vectors]) {
#pragma GCC unroll 4
  for (Index p = 0; p < depth; ++p) {
    simd::Vec<T> right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) right[v] = simd::load(b + v * simd::lanes<T>);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const simd::Vec<T> left = simd::broadcast(a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) acc[r][v] = simd::fma(left, right[v], acc[r][v]);
    }
    a += Shape<T>::rows;
    b += Vectors * simd::lanes<T>;
  }
}

// One tile, at (row, column) of the output; `valid` columns of it exist, at least one. `below` tells that only columns
// <= row are wanted (a tile on the diagonal of a symmetric result).
template <class T, int Rows, int Vectors, class Epilogue>
void tile(const T* a, const T* b, Stretch stretch, Output<T> c, Index row, Index column, int valid, bool below,
          const Epilogue& epilogue) {
  constexpr int step = simd::lanes<T>;
  T* corner = c.data + row * c.stride + column * c.stride_column;
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    // The ends of the row: a tile's row is one cache line on AVX2, and lies across two when C is not aligned to them.
    simd::prefetch_to_l1(corner + r * c.stride);
    simd::prefetch_to_l1(corner + r * c.stride + (valid - 1) * c.stride_column);
  }

  simd::Vec<T> acc[Rows][Vectors] = {};
  accumulate<T, Rows, Vectors>(a, b, stretch.depth, acc);
  const bool begins = stretch.begins(), last = stretch.last();

  if (c.stride_column == 1 && valid == Vectors * step && !below) {
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        T* to = corner + r * c.stride + v * step;
        simd::Vec<T> sum = acc[r][v];
        if (!begins) sum += simd::load(to);
        if (last) sum = epilogue(sum, row + r, column + v * step);
        simd::store(to, sum);
      }
    }
    return;
  }

  // Tails, diagonals and strided outputs: the same steps from memory, not unrolled, to keep the code small.
  T sums[Rows][Vectors * step];
  std::memcpy(sums, acc, sizeof acc);
  for (int r = 0; r < Rows; ++r) {
    const int wanted = below && row + r - column + 1 < valid ? int(row + r - column + 1) : valid;
    for (int first = 0; first < wanted; first += step) {
      const int count = wanted - first < step ? wanted - first : step;
      T* to = corner + r * c.stride + first * c.stride_column;
      simd::Vec<T> sum = simd::load(sums[r] + first);
      if (c.stride_column == 1) {
        if (!begins) sum += simd::load_first(to, count);
        if (last) sum = epilogue(sum, row + r, column + first);
        simd::store_first(to, sum, count);
      } else {
        if (!begins)
          for (int i = 0; i < count; ++i) sum[i] += to[i * c.stride_column];
        if (last) sum = epilogue(sum, row + r, column + first);
        for (int i = 0; i < count; ++i) to[i * c.stride_column] = sum[i];
      }
    }
  }
}

template <class T, class Epilogue>
using Tile = void (*)(const T*, const T*, Stretch, Output<T>, Index, Index, int, bool, const Epilogue&);

// The tile of any size up to the full one: tails use narrower tiles, never a padded full one.
template <class T, class Epilogue, int Rows = Shape<T>::rows, int Vectors = Shape<T>::vectors>
Tile<T, Epilogue> pick_tile(int rows, int vectors) {
  if constexpr (Vectors > 1)
    if (vectors < Vectors) return pick_tile<T, Epilogue, Rows, Vectors - 1>(rows, vectors);
  if constexpr (Rows > 1)
    if (rows < Rows) return pick_tile<T, Epilogue, Rows - 1, Vectors>(rows, vectors);
  return tile<T, Rows, Vectors, Epilogue>;
}

}  // namespace
}  // namespace fastdl::gemm
