// How a product is cut into tasks. Only speed depends on it: the engine's sums do not.
#pragma once

#include "gemm/shape.hpp"

namespace fastdl::gemm {
namespace {

struct Grid {
  Index row_blocks, column_blocks;
  Index block_rows, block_columns;
};

constexpr Index divide_up(Index n, Index by) { return (n + by - 1) / by; }

// One task for one thread, unless its packed A grew too large; for several threads, the grid that is expected to end
// first. Cost of a task, in multiply-adds: its own, and packing its columns of B and rows of A, which other tasks
// repeat: packing one value costs about as much as 24 multiply-adds of the tile.
template <class T>
Grid partition(Index rows, Index columns, bool symmetric, int threads) {
  using S = Shape<T>;
  constexpr double packing = 24;
  const auto grid_of = [&](Index row_blocks, Index column_blocks) {
    Grid g;
    g.block_rows = divide_up(divide_up(rows, row_blocks), S::group_rows) * S::group_rows;
    g.block_columns = divide_up(divide_up(columns, column_blocks), S::columns) * S::columns;
    g.row_blocks = divide_up(rows, g.block_rows);
    g.column_blocks = divide_up(columns, g.block_columns);
    return g;
  };
  const Index fewest = divide_up(rows, S::max_rows);
  Grid best = grid_of(fewest, 1);
  if (threads <= 1) return best;

  const auto cost = [&](const Grid& g) {
    const double width = double(g.block_columns), height = double(g.block_rows);
    const double task = width * height + packing * (width + height);
    // Half of a symmetric grid is work.
    const double tasks = double(g.row_blocks * g.column_blocks);
    // A thread may be late, because its core is busy with something else: several smaller tasks a thread then even out.
    const double rounds = (symmetric ? 0.5 * tasks / threads : double(divide_up(Index(tasks), threads))) + 0.25;
    return rounds * task;
  };
  // In growing steps: every grid there is would be 16 threads^2 of them, milliseconds a call on a machine of 64 cores.
  for (Index i = 0; i < 2 * threads && (fewest + i - 1) * S::group_rows < rows; i += 1 + i / 4)
    for (Index j = 1; j <= 8 * threads && (j - 1) * S::columns < columns; j += 1 + j / 8) {
      const Grid g = grid_of(fewest + i, j);
      if (cost(g) < cost(best)) best = g;
    }
  return best;
}

}  // namespace
}  // namespace fastdl::gemm
