// The matrix-product engine: C[i, j] = epilogue(sum over k of A[i, k] * B[j, k]), for every family.
//
//   for each block of rows and of columns: a task, on any thread
//     for each stretch of k
//       pack A's rows                                          rows x depth, in panels of 6 rows
//       for each part of the columns
//         pack B's columns                                     depth x columns, stays in L2
//         for each panel of A, then each panel of B: one tile, in registers
//
// Both operands are indexed (i, k), (j, k), as Gram matrices have them; a strided operand covers every other layout.
// The sum of an element is taken in the order of k, in passes that depend on K alone (balanced_depth), with the same
// operation in every tile shape: so the result does not depend on threads, blocking, or how rows and columns are
// batched.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/mirror.hpp"
#include "gemm/pack.hpp"
#include "gemm/partition.hpp"
#include "gemm/tile.hpp"

namespace fastdl::gemm {
namespace {

// Leaves the sum as it is. An epilogue maps a vector of finished sums, lane l belonging to (row, column + l); lanes
// past the last column hold any value, and their result is dropped.
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
  // Below this a product takes less time (80 us on one core with AVX2) than a helper that slept needs to wake and join:
  // 128 cubed took 120 us on two threads and 82 on one.
  static constexpr double serial_flops = 8e6;

  void block(Index row, Index row_end, Index column, Index width) const {
    using S = Shape<T>;
    const Index depth = balanced_depth<T>(size_.depth);
    const Index part = at_most(S::block_columns(), width);
    core::Scratch scratch;
    const auto take = [&](Index elements) {
      return static_cast<T*>(scratch.bytes(static_cast<std::size_t>(elements) * sizeof(T)));
    };
    T* packed_a = take(divide_up(row_end - row, S::rows) * S::rows * depth + S::lanes);
    T* packed_b = take(divide_up(part, S::lanes) * S::lanes * depth);
    Index k = 0;
    do {  // once even for depth 0, whose sums are zero and still meet the epilogue
      const Stretch stretch{k, at_most(depth, size_.depth - k), size_.depth};
      for (Index r = row; r < row_end; r += S::rows)
        a_.pack_rows(r, int(at_most(S::rows, row_end - r)), k, stretch.depth, packed_a + (r - row) * stretch.depth);
      for (Index j = column; j < column + width; j += part) {
        const Index here = at_most(part, column + width - j);
        pack_columns(j, here, stretch, packed_b);
        // A symmetric result needs only the rows from the diagonal on; begin with the panel that holds it.
        const Index first = symmetric_ && j > row ? row + (j - row) / S::rows * S::rows : row;
        for (Index i = first; i < row_end; i += S::group_rows) {
          const Index group_end = at_most(i + S::group_rows, row_end);
          for (Index r = i; r < group_end; r += S::rows)
            row_panel(packed_a + (r - row) * stretch.depth, packed_b, stretch, r, row_end, j, here);
          if (symmetric_ && stretch.last()) mirror(c_, i, group_end, j, here);
        }
      }
      k += stretch.depth;
    } while (k < size_.depth);
  }

  void pack_columns(Index column, Index width, Stretch stretch, T* packed) const {
    using S = Shape<T>;
    for (Index j = 0; j < width; j += S::columns) {
      const int count = int(at_most(S::columns, width - j));
      b_.pack_columns(column + j, count, stretch.first, stretch.depth, padded(count), packed + j * stretch.depth);
    }
  }

  // The tiles of one panel of rows. The next panel follows it in memory and is fetched to L2 meanwhile, a part before
  // each tile.
  void row_panel(const T* panel, const T* packed, Stretch stretch, Index row, Index row_end, Index column,
                 Index width) const {
    using S = Shape<T>;
    const int rows = int(at_most(S::rows, row_end - row));
    const Index tiles = divide_up(symmetric_ ? at_most(width, row + rows - column) : width, S::columns);
    const T* next = panel + S::rows * stretch.depth;
    const Index share = row + rows < row_end ? divide_up(S::rows * stretch.depth, tiles) : 0;
    const Tile<T, Epilogue> whole = pick_tile<T, Epilogue>(rows, S::vectors);
    for (Index t = 0; t < tiles; ++t) {
      for (Index p = t * share; p < (t + 1) * share; p += 64 / Index(sizeof(T))) simd::prefetch_to_l2(next + p);
      const Index j = t * S::columns;
      const bool below = symmetric_ && column + j + S::columns > row + 1;
      const int count = int(at_most(S::columns, width - j));
      const auto kernel = count == S::columns ? whole : pick_tile<T, Epilogue>(rows, padded(count) / S::lanes);
      kernel(panel, packed + j * stretch.depth, stretch, c_, row, column + j, count, below, epilogue_);
    }
  }

  static constexpr Index at_most(Index most, Index n) { return n < most ? n : most; }
  static constexpr int padded(int count) { return (count + simd::lanes<T> - 1) / simd::lanes<T> * simd::lanes<T>; }

  Extents size_;
  bool symmetric_;
  const A& a_;
  const B& b_;
  Output<T> c_;
  const Epilogue& epilogue_;
};

// C = epilogue(A B'). With symmetric (A and B the same rows, and an epilogue that gives (i, j) and (j, i) the same
// value) half of it is computed and mirrored.
template <class T, class A, class B, class Epilogue>
void multiply(Extents size, bool symmetric, const A& a, const B& b, Output<T> c, const Epilogue& epilogue) {
  Product<T, A, B, Epilogue>(size, symmetric, a, b, c, epilogue).run();
}

}  // namespace
}  // namespace fastdl::gemm
