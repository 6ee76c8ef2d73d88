// The matrix-product engine: C[i, j] = epilogue(sum over k of A[i, k] * B[j, k]), for every family.
//
//   for each block of columns (and of rows): a task, on any thread
//     for each pass over k
//       pack the block of B                                    depth x columns, stays in L2
//       for each panel of 6 rows
//         pack the panel of A                                  6 x depth, stays in L1
//         for each panel of columns: one tile, in registers
//
// Both operands are indexed (i, k), (j, k), as Gram matrices have them; a strided operand covers every other layout.
// The sum of an element is taken in the order of k, in passes that depend on K alone (balanced_depth), with the same operation in
// every tile shape: so the result does not depend on threads, blocking, or how rows and columns are batched.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/mirror.hpp"
#include "gemm/pack.hpp"
#include "gemm/partition.hpp"
#include "gemm/tile.hpp"

namespace fastdl::gemm {
namespace {

// Leaves the sum as it is. An epilogue maps a vector of finished sums, lane l belonging to (row, column + l); lanes past
// the last column hold zero sums and their result is dropped.
struct Identity {
  template <class V>
  FASTDL_INLINE V operator()(V sum, Index, Index) const {
    return sum;
  }
};

struct Extents {
  Index rows, columns, depth;
};

template <class T, class A, class B, class Epilogue>
class Product {
 public:
  Product(Extents size, bool symmetric, const A& a, const B& b, Output<T> c, const Epilogue& epilogue)
      : size_(size), symmetric_(symmetric), a_(a), b_(b), c_(c), epilogue_(epilogue) {}

  void run() const {
    if (size_.rows == 0 || size_.columns == 0) return;
    const double flops = (symmetric_ ? 1.0 : 2.0) * double(size_.rows) * double(size_.columns) * double(size_.depth);
    const int threads = flops < serial_flops ? 1 : core::thread_count();
    const Grid grid = partition<T>(size_.rows, size_.columns, symmetric_, threads);
    core::parallel_for(grid.row_blocks * grid.column_blocks, threads, [&](Index task) {
      // Column blocks outermost: in a symmetric result they shrink, and the largest should begin first.
      const Index i = task % grid.row_blocks * grid.block_rows;
      const Index j = task / grid.row_blocks * grid.block_columns;
      const Index end = i + grid.block_rows < size_.rows ? i + grid.block_rows : size_.rows;
      const Index width = grid.block_columns < size_.columns - j ? grid.block_columns : size_.columns - j;
      const Index begin = symmetric_ && i < j ? j : i;
      if (begin < end) block(begin, end, j, width);
    });
  }

 private:
  // Below this a product takes less time (10 us) than waking a helper.
  static constexpr double serial_flops = 1e6;

  void block(Index row, Index row_end, Index column, Index width) const {
    using S = Shape<T>;
    const Index depth = balanced_depth<T>(size_.depth);
    const Index block_size = (width + S::lanes - 1) / S::lanes * S::lanes * depth;
    core::Scratch scratch;
    T* panel_a = static_cast<T*>(scratch.bytes(S::rows * S::panel_stride * sizeof(T)));
    T* block_b = static_cast<T*>(scratch.bytes(static_cast<std::size_t>(block_size) * sizeof(T)));
    Index k = 0;
    do {  // once even for depth 0, whose sums are zero and still meet the epilogue
      const Stretch stretch{k, depth < size_.depth - k ? depth : size_.depth - k, size_.depth};
      pack_block(column, width, stretch, block_b);
      for (Index i = row; i < row_end; i += S::group_rows) {
        const Index group_end = i + S::group_rows < row_end ? i + S::group_rows : row_end;
        for (Index r = i; r < group_end; r += S::rows) {
          a_.pack_rows(r, at_most(S::rows, group_end - r), k, stretch.depth, panel_a);
          row_panel(panel_a, block_b, stretch, r, group_end, row_end, column, width);
        }
        if (symmetric_ && stretch.last()) mirror(c_, i, group_end, column, width);
      }
      k += stretch.depth;
    } while (k < size_.depth);
  }

  void pack_block(Index column, Index width, Stretch stretch, T* block) const {
    using S = Shape<T>;
    for (Index j = 0; j < width; j += S::columns) {
      const int count = at_most(S::columns, width - j);
      b_.pack_columns(column + j, count, stretch.first, stretch.depth, padded(count), block + j * stretch.depth);
    }
  }

  // The tiles of one panel of rows. While they run, the values of the next panel are fetched, a part before each tile: packing
  // it straight from memory would wait for 4-8% of the time.
  void row_panel(const T* panel, const T* block, Stretch stretch, Index row, Index group_end, Index row_end, Index column,
                 Index width) const {
    using S = Shape<T>;
    const int rows = at_most(S::rows, group_end - row);
    const int next_rows = at_most(S::rows, row_end - row - rows);
    const Index tiles = (width + S::columns - 1) / S::columns;
    const Tile<T, Epilogue> whole = pick_tile<T, Epilogue>(rows, S::vectors);
    for (Index t = 0; t < tiles; ++t) {
      const Index j = t * S::columns;
      if (symmetric_ && column + j >= row + rows) break;  // above the diagonal: the mirror's part
      a_.prefetch_rows(row + rows, next_rows, stretch.first, stretch.depth, t, tiles);
      const bool below = symmetric_ && column + j + S::columns > row + 1;
      const int count = at_most(S::columns, width - j);
      const auto kernel = count == S::columns ? whole : pick_tile<T, Epilogue>(rows, padded(count) / S::lanes);
      kernel(panel, block + j * stretch.depth, stretch, c_, row, column + j, count, below, epilogue_);
    }
  }

  static constexpr int at_most(int most, Index n) { return n < most ? int(n) : most; }
  static constexpr int padded(int count) { return (count + simd::lanes<T> - 1) / simd::lanes<T> * simd::lanes<T>; }

  Extents size_;
  bool symmetric_;
  const A& a_;
  const B& b_;
  Output<T> c_;
  const Epilogue& epilogue_;
};

// C = epilogue(A B'). With symmetric (A and B the same rows, and an epilogue that gives (i, j) and (j, i) the same value) half of
// it is computed and mirrored.
template <class T, class A, class B, class Epilogue>
void multiply(Extents size, bool symmetric, const A& a, const B& b, Output<T> c, const Epilogue& epilogue) {
  Product<T, A, B, Epilogue>(size, symmetric, a, b, c, epilogue).run();
}

}  // namespace
}  // namespace fastdl::gemm
