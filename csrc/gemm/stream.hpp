// The engine without an output matrix: finished blocks of epilogue(A B') are handed to a consumer and forgotten.
//
//   for each block of columns
//     pack B's columns, whole depth                            shared by all threads
//     for each chunk of rows                                   a task, on any thread
//       pack A's rows
//       for each part of 128 columns: its tiles, the epilogue, and the consumer
//
// A chunk's parts come in the order of the columns, and parts are cut at multiples of 128 whatever the size of the
// problem or the number of threads: a consumer that sums over columns part by part gives the same bits always.
#pragma once

#include "gemm/consumer.hpp"
#include "gemm/engine.hpp"

namespace fastdl::gemm {
namespace {

template <class T, class Rule>
void stream_blocks(Extents size, const Rule& rule, Operand<T> a, Operand<T> b, Finish<T> finish, Consumer<T> consumer) {
  using S = Shape<T>;
  if (size.rows == 0 || size.columns == 0) return;
  static_assert(stream_part % S::columns == 0);
  const Index depth = balanced_depth<T>(size.depth);
  const Index passes = depth == 0 ? 1 : divide_up(size.depth, depth);
  // Packed B: 4 MB, but no less than a part, or all there is.
  constexpr Index packed_elements = (Index{4} << 20) / Index(sizeof(T));
  const Index parts_in_memory = packed_elements / (size.depth + 1) / stream_part;
  const Index block =
      at_most(round_up(size.columns, S::columns), stream_part * (parts_in_memory < 1 ? 1 : parts_in_memory));
  const double work = double(size.rows) * double(size.columns) * double(size.depth + 16);
  const int threads = work < 4e6 ? 1 : core::thread_count();
  const Index even = round_up(divide_up(size.rows, 4 * Index(threads)), S::rows);
  const Index chunk = even < S::group_rows ? even : S::group_rows;
  const Index panels = divide_up(block, S::columns), chunks = divide_up(size.rows, chunk);

  core::Scratch scratch;
  T* packed_b = scratch.array<T>(block, size.depth);
  const Index blocks = divide_up(size.columns, block);
  core::parallel_phases(2 * blocks, panels > chunks ? panels : chunks, threads, [&](Index phase, Index task) {
    const Index column = phase / 2 * block, column_end = at_most(column + block, size.columns);
    if (phase % 2 == 0) {
      const Index j = column + task * S::columns;
      if (j >= column_end || task >= panels) return;
      const int count = int(at_most(S::columns, column_end - j));
      // Pass by pass, as the tiles read it: a part's panels of one pass lie together.
      const Index part = (j - column) / stream_part * stream_part;
      const Index width = round_up(at_most(stream_part, column_end - column - part), S::lanes);
      for (Index k = 0; k < size.depth; k += depth) {
        const Index here = at_most(depth, size.depth - k);
        T* to = packed_b + part * size.depth + width * k + (j - column - part) * here;
        b.pack_columns(j, count, k, here, padded<T>(count), to);
      }
      return;
    }
    const Index row = task * chunk, row_end = at_most(row + chunk, size.rows);
    if (row >= row_end) return;
    core::Scratch inner;
    T* packed_a = inner.array<T>(round_up(chunk, S::rows), size.depth);
    T* values = inner.array<T>(chunk, stream_part);
    const Index height = round_up(row_end - row, S::rows);
    for (Index k = 0; k < size.depth; k += depth)
      for (Index r = row; r < row_end; r += S::rows) {
        const Index here = at_most(depth, size.depth - k);
        a.pack_rows(r, int(at_most(S::rows, row_end - r)), k, here, packed_a + height * k + (r - row) * here);
      }
    const Output<T> output{values, stream_part, 1};
    for (Index j = column; j < column_end; j += stream_part) {
      const Index width = at_most(stream_part, column_end - j);
      for (Index pass = 0; pass < passes; ++pass) {
        const Index k = pass * depth;
        const Stretch stretch{k, at_most(depth, size.depth - k), size.depth};
        const T* part = packed_b + (j - column) * size.depth + round_up(width, S::lanes) * k;
        for (Index r = row; r < row_end; r += S::rows)
          row_panel<T>(packed_a + height * k + (r - row) * stretch.depth, nullptr, part, stretch, output.at(r - row, 0),
                       int(at_most(S::rows, row_end - r)), width, width, 0, rule);
      }
      if (finish)
        for (Index r = row; r < row_end; ++r) finish(output.at(r - row, 0), r, j, width);
      consumer.take(consumer.self, row, row_end, j, width, values);
    }
  });
}

template <class T, class Rule, class A, class B, class Epilogue>
void stream(Extents size, const Rule& rule, const A& a, const B& b, const Epilogue& epilogue, Consumer<T> consumer) {
  stream_blocks<T, Rule>(size, rule, Operand<T>(a), Operand<T>(b), Finish<T>(epilogue), consumer);
}

}  // namespace
}  // namespace fastdl::gemm
