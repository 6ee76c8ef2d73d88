// The matrix-product engine: C[i, j] = epilogue(sum over k of A[i, k] * B[j, k]), for every family. Another rule
// (combine.hpp) in place of the product gives other sums over k.
//
//   for each block of rows, stretch of k and block of columns
//     pack A's rows                                            rows x depth, in panels of 6 rows; when they change
//     pack B's columns                                         depth x columns
//     for each part of the columns, and chunk of the rows      a part stays in L2
//       for each panel of A: a tile in registers for each panel of B, then the epilogue along its rows, in L1
//
// Packing is shared out among the threads, then the chunks are: two phases a block, and nothing is packed twice. Rows
// that all columns meet in one chunk are packed by its task.
//
// Both operands are indexed (i, k), (j, k), as Gram matrices have them; a strided operand covers every other layout.
// The sum of an element is taken in the order of k, in passes that depend on K alone (balanced_depth), with the same
// operation in every tile shape: so the sums do not depend on threads, blocking, or how rows and columns are batched.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/epilogue.hpp"
#include "gemm/mirror.hpp"
#include "gemm/pack.hpp"
#include "gemm/partition.hpp"
#include "gemm/tile.hpp"

namespace fastdl::gemm {
namespace {

struct Extents {
  Index rows, columns, depth;
};

template <class T, class Rule>
class Product {
 public:
  Product(Extents size, bool symmetric, const Rule& rule, Operand<T> a, Operand<T> b, Output<T> c, Finish<T> finish)
      : size_(size), symmetric_(symmetric), rule_(rule), a_(a), b_(b), c_(c), finish_(finish) {}

  void run() const {
    if (size_.rows == 0 || size_.columns == 0) return;
    const double flops = (symmetric_ ? 1.0 : 2.0) * double(size_.rows) * double(size_.columns) * double(size_.depth);
    const int threads = flops < serial_flops ? 1 : core::thread_count();
    const Index depth = balanced_depth<T>(size_.depth);
    const Partition p = partition<T>(size_.rows, size_.columns, depth, symmetric_, threads);
    const Index passes = depth == 0 ? 1 : divide_up(size_.depth, depth);  // sums of depth 0 still meet the epilogue
    const Index column_blocks = divide_up(size_.columns, p.column_block);
    // A panel of rows that one task needs alone goes through L1: no time or up to 20% less (50000 x 100 x 17 on Zen 5).
    const bool shared_rows = passes > 1 || p.part < size_.columns;
    const Index row_packs = shared_rows ? divide_up(at_most(p.row_block, size_.rows), pack_rows) : 0;
    const Index column_packs = divide_up(p.column_block, S::columns);
    // A symmetric result is mirrored by whole lines: its chunks end where lines do, and the first may be short.
    const Index lead = symmetric_ ? rows_to_line(c_) : 0, short_by = lead > 0 ? p.chunk - lead : 0;
    const Index chunks = divide_up(at_most(p.row_block, size_.rows) + short_by, p.chunk);
    const Index packs = row_packs + column_packs, tiles = chunks * (p.column_block / p.part);

    core::Scratch scratch;
    T* packed_a = shared_rows ? scratch.array<T>(round_up(at_most(p.row_block, size_.rows), S::rows), depth) : nullptr;
    T* packed_b = scratch.array<T>(p.column_block, depth);

    const Index blocks = divide_up(size_.rows, p.row_block) * passes * column_blocks;
    core::parallel_phases(2 * blocks, packs > tiles ? packs : tiles, threads, [&](Index phase, Index task) {
      const Index block = phase / 2, column = block % column_blocks * p.column_block;
      const Index k = block / column_blocks % passes * depth;
      const Index row = block / column_blocks / passes * p.row_block;
      const Index row_end = at_most(row + p.row_block, size_.rows);
      const Index column_end = at_most(column + p.column_block, symmetric_ ? row_end : size_.columns);
      const Stretch stretch{k, at_most(depth, size_.depth - k), size_.depth};
      if (phase % 2 == 0) {
        if (task >= row_packs)
          pack_columns(column, column + (task - row_packs) * S::columns, column_end, stretch, packed_b);
        else if (column == 0)
          pack_rows_of(row, row + task * pack_rows, row_end, stretch, packed_a);
      } else if (task < tiles) {
        const Index j = column + task / chunks * p.part, j_end = at_most(j + p.part, column_end);
        const Index i_first = row + task % chunks * p.chunk - short_by, i_end = at_most(i_first + p.chunk, row_end);
        const Index i = i_first < row ? row : i_first;
        const T* b = packed_b + (j - column) * stretch.depth;
        const T* a = shared_rows ? packed_a + (i - row) * stretch.depth : nullptr;
        if (i < row_end && j < j_end) chunk(i, i_end, j, j_end, a, b, stretch);
      }
    });
  }

 private:
  using S = Shape<T>;

  // Below this a product takes less time (80 us on one core with AVX2) than a helper that slept needs to wake and join:
  // 128 cubed took 120 us on two threads and 82 on one.
  static constexpr double serial_flops = 8e6;

  static constexpr Index pack_rows = 8 * S::rows;  // of one task

  void pack_rows_of(Index block, Index row, Index block_end, Stretch stretch, T* packed) const {
    const Index row_end = at_most(row + pack_rows, block_end);
    for (Index r = row; r < row_end; r += S::rows)
      a_.pack_rows(r, int(at_most(S::rows, block_end - r)), stretch.first, stretch.depth,
                   packed + (r - block) * stretch.depth);
  }

  void pack_columns(Index block, Index column, Index block_end, Stretch stretch, T* packed) const {
    if (column >= block_end) return;
    const int count = int(at_most(S::columns, block_end - column));
    b_.pack_columns(column, count, stretch.first, stretch.depth, padded<T>(count),
                    packed + (column - block) * stretch.depth);
  }

  // Rows [row, row_end), packed at `a` or, if that is null, yet to pack, against one part of the columns. Those of a
  // large symmetric result in one pass are summed in a block of the task's own, and leave it past the caches. (4096 x
  // 128 on two threads, AVX2: 10% less time than summed in place; of results that are not symmetric, 3 to 20% more.)
  void chunk(Index row, Index row_end, Index column, Index column_end, const T* a, const T* b, Stretch stretch) const {
    const Index width = column_end - column;
    // A symmetric result needs only the rows from the diagonal on: begin with the panel that holds it.
    const Index first = symmetric_ && column > row ? row + (column - row) / S::rows * S::rows : row;
    if (first >= row_end) return;
    const bool streamed = streamed_ && stretch.begins() && stretch.last();
    core::Scratch scratch;
    const Index stride = round_up(width, line<T>) + line<T>;  // not a power of two, at which rows would share few lines
    const Output<T> block =
        streamed ? Output<T>{scratch.array<T>(row_end - first, stride), stride, 1} : c_.at(first, column);
    T* own = a ? nullptr : scratch.array<T>(S::rows, stretch.depth);
    for (Index r = first; r < row_end; r += S::rows) {
      const int rows = int(at_most(S::rows, row_end - r));
      if (own) a_.pack_rows(r, rows, stretch.first, stretch.depth, own);
      const T* panel = own ? own : a + (r - row) * stretch.depth;
      const Output<T> sums = block.at(r - first, 0);
      const Index wanted = symmetric_ ? r - column + 1 : width;
      const T* next = own || r + rows == row_end ? nullptr : panel + S::rows * stretch.depth;
      row_panel(panel, next, b, stretch, sums, rows, width, wanted, symmetric_, rule_);
      for (int i = 0; i < rows; ++i) {
        const Index count = at_most(width, wanted + i * symmetric_);
        if (finish_ && stretch.last()) finish_(sums.at(i, 0), r + i, column, count);
        if (streamed) stream_row(sums.at(i, 0).data, c_.at(r + i, column).data, count);
      }
    }
    if (symmetric_ && stretch.last()) mirror(block, c_, streamed_, first, row_end, column, width);
    if (streamed_ && stretch.last()) simd::end_stream();
  }

  Extents size_;
  bool symmetric_;
  const Rule& rule_;
  Operand<T> a_, b_;
  Output<T> c_;
  bool streamed_ = symmetric_ && is_streamed(c_, size_.rows);
  Finish<T> finish_;
};

// C = epilogue(A B'). With symmetric (A and B the same rows, and an epilogue that gives (i, j) and (j, i) the same
// value) half of it is computed and mirrored.
template <class T, class Rule, class A, class B, class Epilogue>
void multiply(Extents size, bool symmetric, const Rule& rule, const A& a, const B& b, Output<T> c,
              const Epilogue& epilogue) {
  Product<T, Rule>(size, symmetric, rule, Operand<T>(a), Operand<T>(b), c, Finish<T>(epilogue)).run();
}

}  // namespace
}  // namespace fastdl::gemm
