// How a finished part of a result reaches its place: past the caches if the result is large, and mirrored if it is
// symmetric, C[j, i] = C[i, j].
#pragma once

#include "core/threads.hpp"
#include "gemm/tile.hpp"
#include "simd/transpose.hpp"

namespace fastdl::gemm {
namespace {

// A result of at least this many bytes is written past the caches, where it lies in whole lines: the caches would not
// hold it for whoever reads it next, and its lines need not be fetched to be written. (AVX-512, 64 MB of float32 from
// 4096 x 128 on two threads: mirrored in 12.6 ms by plain stores, 10.4 with the lines fetched ahead, 9.8 past the
// caches.)
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

template <class T>
bool is_streamed(Output<T> c, Index rows) {
  const Index bytes = c.stride * Index(sizeof(T));
  return c.stride_column == 1 && bytes % 64 == 0 && rows * bytes >= streamed_bytes && rows_to_line(c) >= 0;
}

// A row of values; its whole lines go past the caches.
template <class T>
void stream_row(const T* from, T* to, Index count) {
  constexpr int step = simd::lanes<T>;
  const Index off = Index(reinterpret_cast<std::uintptr_t>(to) / sizeof(T) % line<T>);
  const Index head = at_most(off == 0 ? 0 : line<T> - off, count), lines_end = count - (count - head) % line<T>;
  for (Index i = 0; i < head; ++i) to[i] = from[i];
  for (Index i = head; i < lines_end; i += step) simd::stream(to + i, simd::load(from + i));
  for (Index i = lines_end; i < count; ++i) to[i] = from[i];
}

// Copies the part of rows [row, row_end), columns [column, column + width) below the diagonal to its place above it in
// C; `from` has that part, which may be a place in C. Called for a group of rows as soon as they are finished, while
// they are in L2. A line of C is made of squares of lanes x lanes that are turned in registers, and written at once.
template <class T>
void mirror(Output<T> from, Output<T> c, bool streamed, Index row, Index row_end, Index column, Index width) {
  constexpr int step = simd::lanes<T>, squares = line<T> / step;
  const Index column_end = column + width < row_end ? column + width : row_end;
  for (Index j = column; j < column_end; j += step) {
    if (!streamed && j + 2 * step <= column_end)
      for (int s = step; s < 2 * step; ++s)
        for (Index i = row; i < row_end; i += line<T>)
          simd::prefetch_to_write(c.data + (j + s) * c.stride + i * c.stride_column);
    for (Index i = row; i < row_end; i += line<T>) {
      const Output<T> part = from.at(i - row, j - column);
      T* to = c.data + j * c.stride + i * c.stride_column;
      if (c.stride_column == 1 && part.stride_column == 1 && i + line<T> <= row_end && j + step <= column_end &&
          j + step <= i) {
        simd::Vec<T> square[squares][step];
#pragma GCC unroll 4
        for (int q = 0; q < squares; ++q) {
#pragma GCC unroll 16
          for (int s = 0; s < step; ++s) square[q][s] = simd::load(part.data + (q * step + s) * part.stride);
          simd::transpose<T>(square[q]);
        }
        const bool aligned = reinterpret_cast<std::uintptr_t>(to) % simd::vector_bytes == 0;
        if (streamed && aligned) {
#pragma GCC unroll 16
          for (int s = 0; s < step; ++s)
#pragma GCC unroll 4
            for (int q = 0; q < squares; ++q) simd::stream(to + s * c.stride + q * step, square[q][s]);
        } else {
#pragma GCC unroll 16
          for (int s = 0; s < step; ++s)
#pragma GCC unroll 4
            for (int q = 0; q < squares; ++q) simd::store(to + s * c.stride + q * step, square[q][s]);
        }
      } else {
        for (Index r = i; r < row_end && r < i + line<T>; ++r)
          for (Index s = j; s < column_end && s < j + step && s < r; ++s)
            to[(s - j) * c.stride + (r - i) * c.stride_column] =
                part.data[(r - i) * part.stride + (s - j) * part.stride_column];
      }
    }
  }
}

// Within C, of `size` rows.
template <class T>
void mirror_rows(Output<T> c, Index size, Index row, Index row_end) {
  const bool streamed = is_streamed(c, size);
  mirror(c.at(row, 0), c, streamed, row, row_end, 0, row_end);
  if (streamed) simd::end_stream();
}

// All of a result of `size` rows at once.
template <class T>
void mirror_all(Output<T> c, Index size) {
  constexpr Index rows = 64;
  core::parallel_for(divide_up(size, rows), size < 512 ? 1 : core::thread_count(),
                     [&](Index task) { mirror_rows(c, size, task * rows, at_most((task + 1) * rows, size)); });
}

}  // namespace
}  // namespace fastdl::gemm
