// How a product is cut into blocks and tasks. Only speed depends on it: the engine's sums do not.
#pragma once

#include "gemm/tile.hpp"

namespace fastdl::gemm {
namespace {

struct Partition {
  Index row_block;     // rows of A packed at a time
  Index column_block;  // columns of B packed at a time: one or more parts
  Index part;          // columns of B that a core keeps in L2
  Index chunk;         // rows of a task, against one part
};

// Every thread works on the same packed block, and takes one chunk of its rows after another against the same part:
// 32 tasks a thread, if the columns give them, keep the threads' ends within a few per cent of each other. (Chunks of
// 12 rows on two threads, 1024 cubed: 300 GF/s; of 24 rows 296.)
template <class T>
Partition partition(Index rows, Index columns, Index depth, bool symmetric, int threads) {
  using S = Shape<T>;
  constexpr Index most_parts = 16;  // so that packed B takes at most 10 L2 caches
  Partition p;
  p.row_block = round_up(divide_up(rows, divide_up(rows, S::most_rows(depth))), S::group_rows);
  p.part = round_up(divide_up(columns, divide_up(columns, S::part_columns(depth))), S::columns);
  // A symmetric result is mirrored by the task that computed it, in whole cache lines.
  p.chunk = symmetric || threads == 1 ? S::group_rows : S::group_rows / 4;
  const Index tasks = divide_up(at_most(p.row_block, rows), p.chunk);
  const Index parts = threads == 1 ? 1 : at_most(most_parts, divide_up(32 * threads, tasks));
  p.column_block = p.part * at_most(parts, divide_up(columns, p.part));
  return p;
}

}  // namespace
}  // namespace fastdl::gemm
