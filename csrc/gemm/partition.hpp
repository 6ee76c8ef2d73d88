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

// The fewest column blocks whose packed B fits L2; then, for several threads, the grid that is expected to end first.
// Cost of a task, in multiply-adds: its own, and packing its block of B, which every row block repeats: turning one value while
// packing costs about as much as 24 multiply-adds of the tile.
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
  const Index fewest = divide_up(columns, S::block_columns());
  Grid best = grid_of(1, fewest);
  if (threads <= 1) return best;

  const auto cost = [&](const Grid& g) {
    const double task = double(g.block_columns) * (double(g.block_rows) + packing);
    const double tasks = double(g.row_blocks * g.column_blocks) * (symmetric ? 0.5 : 1.0);
    const double rounds = tasks <= threads ? 1.0 : symmetric ? tasks / threads + 0.5 : double(divide_up(Index(tasks), threads));
    return rounds * task;
  };
  for (Index row_blocks = 1; row_blocks <= 2 * threads && (row_blocks - 1) * S::group_rows < rows; ++row_blocks)
    for (Index extra = 0; extra <= threads; ++extra) {
      const Grid g = grid_of(row_blocks, fewest + extra);
      if (cost(g) < cost(best)) best = g;
    }
  return best;
}

}  // namespace
}  // namespace fastdl::gemm
