// K v without K, and attention.
//
//   a block takes a tile's height of rows and a part of the columns, and up to 16 right-hand sides
//     for each tile of columns
//       sum the tile (gram_tile.cuh), 8 x 8 values a thread in registers
//       make them values of the kernel
//       for each right-hand side: 64 multiply-adds, then seven exchanges over the eight lanes that share rows, which
//       leave every lane the sum of one row; it adds that to a number of its own in shared memory
//   a second kernel adds up the parts
//
// K is never in memory, not even in shared memory: what is read is X and Y once a tile (32 flops a byte for f32), v,
// and the parts, 16 blocks times 2 (f32) or 1 (f64) warps of them at most, row by row. The work is 2 n m (d + p) flops
// for d features and p right-hand sides, and 2 n m d (p/16 - 1) more for every further 16 of these. Numbers in shared
// memory and not in registers, because 16 sums a thread would not fit beside the 64 of the tile; each belongs to one
// thread, so no barrier is needed for them. The columns are split by their number alone: a row of the result does not
// depend on what other rows there are, to the bit.
#pragma once

#include "gram_sums.cuh"
#include "gram_tile.cuh"

namespace fastdl::gram::cuda {

constexpr int right_sides_together = 16;

// Warps that share the rows of a tile.
template <class T>
struct Warps {
  static constexpr int across = Shape<T>::threads_across / 8;
};

// Bytes of dynamic shared memory for so many right-hand sides.
template <class T>
std::size_t sums_bytes(Index right_sides) {
  const Index count = right_sides < right_sides_together ? right_sides : right_sides_together;
  return std::size_t(count) * Warps<T>::across * Shape<T>::side * sizeof(T);
}

// The rows of a block, the right-hand sides it takes, and the tiles of columns that it goes through. Made where it is
// needed, and not kept through the sums.
template <class T>
struct Work {
  Index row, first_right;
  int rows, together, first_tile, end_tile;

  __device__ __forceinline__ Work(Index all_rows, Index all_columns, const Split<T>& split, Index right_sides) {
    using S = Shape<T>;
    row = Index(fastdl::cuda::anew(int(blockIdx.x))) * S::side;
    rows = gemm::cuda::extent<T>(row, all_rows);
    const Index part = fastdl::cuda::anew(int(blockIdx.y)), end = (part + 1) * split.tiles_a_part;
    const Index tiles = (all_columns + S::side - 1) / S::side;
    first_tile = int(part * split.tiles_a_part);
    end_tile = int(end < tiles ? end : tiles);
    first_right = Index(fastdl::cuda::anew(int(blockIdx.z))) * right_sides_together;
    const Index rest = right_sides - first_right;
    together = int(rest < right_sides_together ? rest : right_sides_together);
  }
};

// A thread's own numbers: that of its row (one of the tile's) and right-hand side c lies at [c * stride].
template <class T>
struct OwnSums {
  static constexpr int stride = Warps<T>::across * Shape<T>::side;
  T* first;
  int row, strip;

  __device__ __forceinline__ explicit OwnSums(T* shared) {
    const Share<T> share;
    row = share.row(threadIdx.x % 8);
    strip = share.thread_column / 8;
    first = shared + strip * Shape<T>::side + row;
  }

  __device__ __forceinline__ void set_zero(int together) const {
    FASTDL_NO_UNROLL
    for (int c = 0; c < together; ++c) first[c * stride] = T(0);
  }

  // The row of a block's partial results that is this thread's, of which there are `rows` for every strip.
  __device__ __forceinline__ Index partial_row(const Work<T>& work, Index rows) const {
    return (Index(blockIdx.y) * Warps<T>::across + strip) * rows + work.row + row;
  }

  __device__ __forceinline__ void write(const Work<T>& work, Index rows, Index right_sides, T* partial) const {
    if (row >= work.rows) return;
    T* to = partial + partial_row(work, rows) * right_sides + work.first_right;
    FASTDL_NO_UNROLL
    for (int c = 0; c < work.together; ++c) to[c] = first[c * stride];
  }
};

// own sums <- shrink * own sums + tile * v, for right-hand sides from `first_right` on.
template <class T>
__device__ __forceinline__ void add_product(const Sums<T>& sums, const OwnSums<T>& own, const RightSides<T>& right,
                                            Index first_right, int together, Index column, int columns, T shrink) {
  constexpr int part = Shape<T>::part;
  const Share<T> share;
  FASTDL_NO_UNROLL
  for (int c = 0; c < together; ++c) {
    const T* v = right.data + (first_right + c) * right.column_stride;
    T products[part];
    FASTDL_UNROLL
    for (int j = 0; j < part; ++j) {
      const int at = share.column(j);
      const T value = at < columns ? v[(column + at) * right.row_stride] : T(0);
      FASTDL_UNROLL
      for (int i = 0; i < part; ++i)
        products[i] = j == 0 ? sums.sum[i][0] * value : multiply_add(sums.sum[i][j], value, products[i]);
    }
    const T product = across_lanes(products, [](T a, T b) { return a + b; });
    T& to = own.first[c * OwnSums<T>::stride];
    to = multiply_add(to, shrink, product);
  }
}

// Limit: the arithmetic of the tiles (gram_tile.cuh), at the occupancy of these: docs/cuda/resources.md.
template <class T, class Rule, class Function>
__global__ void __launch_bounds__(Shape<T>::threads, Shape<T>::resident_blocks)
    product(Rows<T> x, Rows<T> y, Index features, Rule rule, Function function, RightSides<T> right, Split<T> split) {
  using S = Shape<T>;
  FASTDL_SHARED(Tile<T>, shared);
  FASTDL_DYNAMIC_SHARED(T, memory);
  Sums<T> sums;
  const auto work = [&] { return Work<T>(x.rows, y.rows, split, right.count); };
  OwnSums<T>(memory).set_zero(work().together);
  const int end_tile = work().end_tile;
  FASTDL_NO_UNROLL
  for (int tile = work().first_tile; tile < end_tile; ++tile) {
    sum_tile(sums, x, y, work().row, Index(tile) * S::side, features, rule, shared);
    const Work<T> here = work();
    const Index column = Index(tile) * S::side;
    const int columns = gemm::cuda::extent<T>(column, y.rows);
    map_tile(sums, here.rows, columns,
             [&](T sum, int row, int at) { return function(sum, here.row + row, column + at); });
    add_product(sums, OwnSums<T>(memory), right, here.first_right, here.together, column, columns, T(1));
  }
  OwnSums<T>(memory).write(work(), x.rows, right.count, split.partial);
}

template <class T, class Rule, class Function>
void launch_product(const Pairs<T>& pairs, const Task<T>& task, const Rule& rule, const Function& function) {
  using S = Shape<T>;
  if (pairs.x.rows == 0 || task.right.count == 0) return;
  fastdl::cuda::launch(task.name, product<T, Rule, Function>,
                       {dim3(blocks_of(pairs.x.rows, S::side), static_cast<unsigned>(task.split.parts),
                             blocks_of(task.right.count, right_sides_together)),
                        dim3(S::threads), sums_bytes<T>(task.right.count), task.stream},
                       pairs.x, pairs.y, pairs.features, rule, function, task.right, task.split);
}

}  // namespace fastdl::gram::cuda
