// C[j, i] = C[i, j] for the finished rows of a symmetric result.
#pragma once

#include "core/threads.hpp"
#include "gemm/tile.hpp"
#include "simd/transpose.hpp"

namespace fastdl::gemm {
namespace {

// A result of at least this many bytes is mirrored past the caches, where it lies in whole lines: the caches would not
// hold it for whoever reads it next, and its lines need not be fetched to be written. (AVX-512, 64 MB of float32 from
// 4096 x 128 on two threads: 12.6 ms by plain stores, 10.4 with the lines fetched ahead, 9.8 past the caches.)
constexpr Index streamed_bytes = Index{16} << 20;

// After how many rows of C, whole panels of them, the rows mirrored from the next ones begin a line; -1 if they never
// do.
template <class T>
Index rows_to_line(Output<T> c) {
  constexpr Index line = 64;
  for (Index rows = 0; rows < Shape<T>::group_rows; rows += Shape<T>::rows)
    if (reinterpret_cast<std::uintptr_t>(c.data + rows) % line == 0) return rows;
  return -1;
}

// Copies the part of rows [row, row_end), columns [column, column + width) below the diagonal to its place above it, of
// a result of `size` rows. Called for a group of rows as soon as they are finished, while they are in L2; a square of
// lanes x lanes is turned in registers.
template <class T>
void mirror(Output<T> c, Index size, Index row, Index row_end, Index column, Index width) {
  constexpr int step = simd::lanes<T>;
  constexpr Index line = 64;
  const Index column_end = column + width < row_end ? column + width : row_end, bytes = c.stride * Index(sizeof(T));
  const bool lines =
      c.stride_column == 1 && bytes % line == 0 && size * bytes >= streamed_bytes && rows_to_line(c) >= 0;
  for (Index j = column; j < column_end; j += step) {
    if (!lines && j + 2 * step <= column_end)
      for (int s = step; s < 2 * step; ++s)
        for (Index i = row; i < row_end; i += line / Index(sizeof(T)))
          simd::prefetch_to_write(c.data + (j + s) * c.stride + i * c.stride_column);
    for (Index i = row; i < row_end; i += step) {
      const bool whole = c.stride_column == 1 && i + step <= row_end && j + step <= column_end && j + step <= i;
      if (whole) {
        simd::Vec<T> square[step];
#pragma GCC unroll 16
        for (int s = 0; s < step; ++s) square[s] = simd::load(c.data + (i + s) * c.stride + j);
        simd::transpose<T>(square);
        T* to = c.data + j * c.stride + i;
        if (lines && reinterpret_cast<std::uintptr_t>(to) % simd::vector_bytes == 0) {
#pragma GCC unroll 16
          for (int s = 0; s < step; ++s) simd::stream(to + s * c.stride, square[s]);
        } else {
#pragma GCC unroll 16
          for (int s = 0; s < step; ++s) simd::store(to + s * c.stride, square[s]);
        }
      } else {
        for (Index r = i; r < row_end && r < i + step; ++r)
          for (Index s = j; s < column_end && s < j + step && s < r; ++s)
            c.data[s * c.stride + r * c.stride_column] = c.data[r * c.stride + s * c.stride_column];
      }
    }
  }
  if (lines) simd::end_stream();
}

// All of a result of `size` rows at once.
template <class T>
void mirror_all(Output<T> c, Index size) {
  constexpr Index rows = 64;
  core::parallel_for(divide_up(size, rows), size < 512 ? 1 : core::thread_count(), [&](Index task) {
    const Index end = at_most((task + 1) * rows, size);
    mirror(c, size, task * rows, end, 0, end);
  });
}

}  // namespace
}  // namespace fastdl::gemm
