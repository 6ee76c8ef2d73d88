// C[j, i] = C[i, j] for the finished rows of a symmetric result.
#pragma once

#include "core/threads.hpp"
#include "gemm/tile.hpp"
#include "simd/transpose.hpp"

namespace fastdl::gemm {
namespace {

// Copies the part of rows [row, row_end), columns [column, column + width) below the diagonal to its place above it.
// Called for a group of rows as soon as they are finished, while they are in L2; a square of lanes x lanes is turned in
// registers.
template <class T>
void mirror(Output<T> c, Index row, Index row_end, Index column, Index width) {
  constexpr int step = simd::lanes<T>;
  const Index column_end = column + width < row_end ? column + width : row_end;
  for (Index j = column; j < column_end; j += step) {
    for (Index i = row; i < row_end; i += step) {
      const bool whole = c.stride_column == 1 && i + step <= row_end && j + step <= column_end && j + step <= i;
      if (whole) {
        simd::Vec<T> square[step];
#pragma GCC unroll 16
        for (int s = 0; s < step; ++s) square[s] = simd::load(c.data + (i + s) * c.stride + j);
        simd::transpose<T>(square);
#pragma GCC unroll 16
        for (int s = 0; s < step; ++s) simd::store(c.data + (j + s) * c.stride + i, square[s]);
      } else {
        for (Index r = i; r < row_end && r < i + step; ++r)
          for (Index s = j; s < column_end && s < j + step && s < r; ++s)
            c.data[s * c.stride + r * c.stride_column] = c.data[r * c.stride + s * c.stride_column];
      }
    }
  }
}

// All of a result of `size` rows at once.
template <class T>
void mirror_all(Output<T> c, Index size) {
  constexpr Index rows = 64;
  core::parallel_for(divide_up(size, rows), size < 512 ? 1 : core::thread_count(), [&](Index task) {
    const Index end = at_most((task + 1) * rows, size);
    mirror(c, task * rows, end, 0, end);
  });
}

}  // namespace
}  // namespace fastdl::gemm
