// Packing: from a strided matrix to the panels the micro-kernel reads.
//
// An operand is anything with `pack_rows` (as A) or `pack_columns` (as B), with the contracts below. Strided is the
// ordinary matrix; a family that gathers its operand (windows of an image, orbits of a group) brings a type of its
// own.
#pragma once

#include "gemm/shape.hpp"
#include "simd/transpose.hpp"

namespace fastdl::gemm {
namespace {

// One operand of a product over k: entry (i, k) lies at data[i*stride + k*stride_k].
template <class T>
struct Strided {
  const T* data;
  Index stride, stride_k;

  // panel[p*rows + r] = entry(first + r, k + p) for r < count, and anything for count <= r < rows. A's panel: the
  // values of one k side by side, for the micro-kernel to broadcast.
  void pack_rows(Index first, int count, Index k, Index depth, T* panel) const {
    constexpr int rows = Shape<T>::rows, step = simd::lanes<T>;
    const T* source = data + first * stride + k * stride_k;
    Index p = 0;
    if constexpr (rows == 6 && step == 16) {
      // A square of 16 would be 6 rows in use: by 30 shuffles, and not 64, for 16 columns.
      if (stride_k == 1)
        for (; p + step <= depth; p += step) {
          simd::Vec<T> from[6];
#pragma GCC unroll 6
          for (int r = 0; r < 6; ++r) from[r] = simd::load(source + (r < count ? r : count - 1) * stride + p);
          simd::six_by_turns<T>(from, panel + p * rows, std::make_integer_sequence<int, 6>{});
        }
    } else if (stride_k == 1) {
      // Square blocks turned in registers and stored whole: what a store writes beyond its rows, the next one
      // overwrites. At the panel's end they go through a buffer, since what follows may be another thread's.
      constexpr int blocks = (rows + step - 1) / step, beyond = blocks * step - rows;
      T end[step * rows + beyond];
      const T* row[blocks * step];
      for (int r = 0; r < blocks * step; ++r) row[r] = source + (r < count ? r : count - 1) * stride;
      for (; p + step <= depth; p += step) {
        simd::Vec<T> square[blocks][step];
#pragma GCC unroll 4
        for (int b = 0; b < blocks; ++b) {
#pragma GCC unroll 16
          for (int i = 0; i < step; ++i) square[b][i] = simd::load(row[b * step + i] + p);
          simd::transpose<T>(square[b]);
        }
        const bool inside = (p + step) * rows + beyond <= depth * rows;
        T* to = inside ? panel + p * rows : end;
#pragma GCC unroll 16
        for (int i = 0; i < step; ++i)
#pragma GCC unroll 4
          for (int b = 0; b < blocks; ++b) simd::store(to + i * rows + b * step, square[b][i]);
        if (!inside) std::memcpy(panel + p * rows, end, step * rows * sizeof(T));
      }
    }
    for (; p < depth; ++p)
      for (int r = 0; r < rows; ++r) panel[p * rows + r] = source[(r < count ? r : count - 1) * stride + p * stride_k];
  }

  // panel[p*width + j] = entry(first + j, k + p) for j < count, and anything finite or not for count <= j < width,
  // where a tile drops its result. B's panel: the values of one k side by side, a multiple of the vector wide.
  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    constexpr int step = simd::lanes<T>;
    const T* source = data + first * stride + k * stride_k;
    for (int j = 0; j < width; j += step) {
      const int here = count - j < step ? count - j : step;
      if (stride_k == 1)
        turn(source + j * stride, here, depth, width, panel + j);
      else if (stride == 1)
        copy(source + j, here, depth, width, panel + j);
      else
        gather(source + j * stride, here, depth, width, panel + j);
    }
  }

 private:
  // From rows contiguous in k: square blocks turned in registers. Few rows are read again in place of missing ones, and
  // their lanes of the panel, which no result takes, hold copies instead of zeros.
  void turn(const T* source, int count, Index depth, int width, T* panel) const {
    constexpr int step = simd::lanes<T>;
    const T* rows[step];
    for (int i = 0; i < step; ++i) rows[i] = source + (i < count ? i : count - 1) * stride;
    Index p = 0;
    simd::Vec<T> block[step];
    for (; p + step <= depth; p += step) {
#pragma GCC unroll 16
      for (int i = 0; i < step; ++i) block[i] = simd::load(rows[i] + p);
      simd::transpose<T>(block);
#pragma GCC unroll 16
      for (int i = 0; i < step; ++i) simd::store(panel + (p + i) * width, block[i]);
    }
    if (p < depth) gather(source + p, count, depth - p, width, panel + p * width);
  }

  void copy(const T* source, int count, Index depth, int width, T* panel) const {
    if (count == simd::lanes<T>) {
      for (Index p = 0; p < depth; ++p) simd::store(panel + p * width, simd::load(source + p * stride_k));
    } else {
      for (Index p = 0; p < depth; ++p) simd::store(panel + p * width, simd::load_first(source + p * stride_k, count));
    }
  }

  void gather(const T* source, int count, Index depth, int width, T* panel) const {
    for (Index p = 0; p < depth; ++p)
      for (int i = 0; i < simd::lanes<T>; ++i)
        panel[p * width + i] = i < count ? source[i * stride + p * stride_k] : T(0);
  }
};

// Any operand, behind pointers: the engine is compiled once, not once for every kind of operand. A call packs a panel.
template <class T>
struct Operand {
  const void* self;
  void (*rows)(const void* self, Index first, int count, Index k, Index depth, T* panel);
  void (*columns)(const void* self, Index first, int count, Index k, Index depth, int width, T* panel);

  template <class A>
  explicit Operand(const A& a)
      : self(&a),
        rows([](const void* s, Index first, int count, Index k, Index depth, T* panel) {
          static_cast<const A*>(s)->pack_rows(first, count, k, depth, panel);
        }),
        columns([](const void* s, Index first, int count, Index k, Index depth, int width, T* panel) {
          static_cast<const A*>(s)->pack_columns(first, count, k, depth, width, panel);
        }) {}

  void pack_rows(Index first, int count, Index k, Index depth, T* panel) const {
    rows(self, first, count, k, depth, panel);
  }
  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    columns(self, first, count, k, depth, width, panel);
  }
};

}  // namespace
}  // namespace fastdl::gemm
