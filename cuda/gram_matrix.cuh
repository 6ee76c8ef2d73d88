// K as a matrix, its diagonal, and the weighted slopes that gradients are made of: the kernels of the Gram family that
// write what a tile holds. What limits them is the sum over features, see gram_tile.cuh; and for few features (fewer
// than about 25 multiply-adds a value on an A100, 41 on an H100, estimated) the n m values to be written. The functions
// add 10 to 40 instructions a value, networks some 100 a layer.
#pragma once

#include "gram_tile.cuh"

namespace fastdl::gram::cuda {

template <class T>
__device__ __forceinline__ T finished(const Afterwards<T>& then, T value, Index row, Index column) {
  if (then.earlier) value += then.earlier[row * then.earlier_stride + column];
  value *= then.scale;
  if (!then.own_x) return value;
  if (then.same && row == column) return then.own_x[row] - then.own_x[row];
  const T squared = multiply_add(value, T(-2), then.own_x[row] + then.own_y[column]);
  return squared < T(0) ? T(0) : squared;  // NaN stays
}

// K[i, j] = f(sum, i, j). A block computes one tile; in symmetric mode one on or below the diagonal, and its mirror.
template <bool symmetric, class T, class Rule, class Function>
__global__ void __launch_bounds__(Shape<T>::threads, Shape<T>::resident_blocks)
    matrix(Rows<T> x, Rows<T> y, Index features, Rule rule, Function function, Afterwards<T> then,
           gemm::cuda::Result<T> k) {
  using S = Shape<T>;
  FASTDL_SHARED(Tile<T>, shared);
  const gemm::cuda::Place<T> first = symmetric
                                         ? gemm::cuda::triangle_place<T>(blockIdx.x)
                                         : gemm::cuda::rectangle_place<T>(blockIdx.x, (k.rows + S::side - 1) / S::side,
                                                                          (k.columns + S::side - 1) / S::side);
  FASTDL_SHARED(gemm::cuda::Place<T>, kept);  // and not in registers, which the sums need all
  if (threadIdx.x == 0) kept = first;
  Sums<T> sums;
  sum_tile(sums, x, y, first.row(), first.column(), features, rule, shared);
  if (features <= 0) __syncthreads();  // else the sums had one
  const gemm::cuda::Place<T> tile = kept;
  const int rows = gemm::cuda::extent<T>(tile.row(), k.rows), columns = gemm::cuda::extent<T>(tile.column(), k.columns);
  map_tile(sums, rows, columns,
           [&](T sum, int row, int column) { return function(sum, tile.row() + row, tile.column() + column); });
  if (then.wanted)
    map_tile(sums, rows, columns, [&](T value, int row, int column) {
      return finished(then, value, tile.row() + row, tile.column() + column);
    });
  gemm::cuda::store_tile<symmetric>(k, tile, sums);
  if constexpr (symmetric) gemm::cuda::store_mirrored(k, tile, sums, shared);
}

template <bool symmetric, class T, class Rule, class Function>
void launch_matrix(const Pairs<T>& pairs, const Task<T>& task, const Rule& rule, const Function& function) {
  using S = Shape<T>;
  const Index rows = pairs.x.rows, columns = pairs.y.rows;
  if (rows == 0 || columns == 0) return;
  const Index down = (rows + S::side - 1) / S::side, across = (columns + S::side - 1) / S::side;
  const auto tiles = static_cast<unsigned>(symmetric ? down * (down + 1) / 2 : down * across);
  fastdl::cuda::launch(task.name, matrix<symmetric, T, Rule, Function>, {dim3(tiles), dim3(S::threads), 0, task.stream},
                       pairs.x, pairs.y, pairs.features, rule, function, task.afterwards,
                       gemm::cuda::result(task.out, rows, columns, task.out_stride));
}

// out[i] = k(x_i, x_i): a warp sums a row. Limited by reading x once.
template <class T, class Rule, class Function>
__global__ void __launch_bounds__(256)
    diagonal(Rows<T> x, Index features, Rule rule, Function function, T* out, Index stride) {
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (Index row = Index(blockIdx.x) * warps + threadIdx.x / 32; row < x.rows; row += Index(gridDim.x) * warps) {
    T sum = Rule::start;
    FASTDL_NO_UNROLL
    for (Index f = lane; f < features; f += 32) {
      const T value = x.data[row * x.stride + f];
      sum = of_feature(rule, f).step(sum, value, value);
    }
    FASTDL_UNROLL
    for (int width = 16; width > 0; width /= 2) {
      const T other = __shfl_xor_sync(~0u, sum, width);
      sum = Rule::start == T(1) ? sum * other : sum + other;
    }
    if (lane == 0) out[row * stride] = function(sum, row, row);
  }
}

template <class T, class Rule, class Function>
void launch_diagonal(const Pairs<T>& pairs, const Task<T>& task, const Rule& rule, const Function& function) {
  if (pairs.x.rows == 0) return;
  constexpr Index most = 1 << 16;
  const Index blocks = (pairs.x.rows + 7) / 8;
  fastdl::cuda::launch(task.name, diagonal<T, Rule, Function>,
                       {dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(256), 0, task.stream}, pairs.x,
                       pairs.features, rule, function, task.out, task.out_stride);
}

// S[i, j] = (derivative of k(x_i, y_j) by the sum) W[i, j], which may be the weights' own place; and the sums over j of
// what goes with x_i itself and with gamma. The tile is read once more as weights: memory is the limit for fewer than
// about 50 features.
template <class T, class Rule, class Function>
__global__ void __launch_bounds__(Shape<T>::threads, Shape<T>::resident_blocks)
    slopes(Rows<T> x, Rows<T> y, Index features, Rule rule, Function function, PairWeights<T> weights, T* out,
           Index out_stride) {
  using S = Shape<T>;
  FASTDL_SHARED(Tile<T>, shared);
  const Index tiles_across = (y.rows + S::side - 1) / S::side;
  const gemm::cuda::Place<T> tile{int(blockIdx.x / tiles_across), int(blockIdx.x % tiles_across)};
  Sums<T> sums;
  sum_tile(sums, x, y, tile.row(), tile.column(), features, rule, shared);
  const int rows = gemm::cuda::extent<T>(tile.row(), x.rows), columns = gemm::cuda::extent<T>(tile.column(), y.rows);
  constexpr int warps_across = S::threads_across / 8;
  const Share<T> share;
  const Index strip = Index(tile.tile_column) * warps_across + share.thread_column / 8;
  FASTDL_NO_UNROLL
  for (int i = 0; i < S::part; ++i) {
    const int row = share.row(i);
    T values[S::part], own = T(0), gamma = T(0);
    FASTDL_UNROLL
    for (int j = 0; j < S::part; ++j) values[j] = sums.sum[0][j];
    FASTDL_NO_UNROLL
    for (int j = 0; j < S::part; ++j) {
      const int column = share.column(j);
      T value = T(0);
      if (row < rows && column < columns) {
        const Index to_row = tile.row() + row, to_column = tile.column() + column;
        T weight = weights.data[to_row * weights.row_stride + to_column * weights.column_stride];
        if (weights.turned)
          weight += weights.turned[to_row * weights.turned_row_stride + to_column * weights.turned_column_stride];
        const Slope<T> slope = function.slope(values[0], to_row, to_column);
        value = slope.pair * weight;
        own = multiply_add(slope.own, weight, own);
        gamma = multiply_add(slope.gamma, weight, gamma);
        out[to_row * out_stride + to_column] = value;
      }
      rotate<T>(values, value);
    }
    rotate(sums, values);
    FASTDL_UNROLL
    for (int width = 4; width > 0; width /= 2) {
      own += __shfl_xor_sync(~0u, own, width);
      gamma += __shfl_xor_sync(~0u, gamma, width);
    }
    if (row < rows && threadIdx.x % 8 == 0) {
      if (weights.own) weights.own[strip * x.rows + tile.row() + row] = own;
      if (weights.gamma) weights.gamma[strip * x.rows + tile.row() + row] = gamma;
    }
  }
}

template <class T, class Rule, class Function>
void launch_slopes(const Pairs<T>& pairs, const Task<T>& task, const Rule& rule, const Function& function) {
  using S = Shape<T>;
  if (pairs.x.rows == 0 || pairs.y.rows == 0) return;
  const Index down = (pairs.x.rows + S::side - 1) / S::side, across = (pairs.y.rows + S::side - 1) / S::side;
  fastdl::cuda::launch(task.name, slopes<T, Rule, Function>,
                       {dim3(static_cast<unsigned>(down * across)), dim3(S::threads), 0, task.stream}, pairs.x, pairs.y,
                       pairs.features, rule, function, task.weights, task.out, task.out_stride);
}

}  // namespace fastdl::gram::cuda
