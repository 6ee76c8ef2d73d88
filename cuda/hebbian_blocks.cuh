// Exact sequential updates by blocks of 32 samples, the twin of csrc/hebbian/blocks.hpp.
//
// All that the samples B of a block do to each other is in P = W B' and G = B B'. A sample t needs its own column of
// the fields Q = W B' only, and changes the later ones as it changes the weights, with G[t] in place of x. So the
// activities of a block follow from two small matrices, and then the weights take all its samples at once. For each
// block, three launches:
//
//   P      the engine, the depth cut into parts, for a product of so few rows would keep a single multiprocessor busy
//   settle sums the parts in their order and goes through the samples: from P and G to what the weights need
//   take   a thread a column of the weights, its 32 numbers of the block in registers, the rows one after the other:
//            by units    w_i = scale_i w_i + sum over t of second[i, t] x_t
//            deflation   (sanger) for every t: x_t += first[i, t] w_i, w_i += second[i, t] x_t
//            projection  (subspace) x_t += first[i, t] w_i over all rows, and then w_i += second[i, t] x_t
//
// G is made for many blocks at once by one launch of the engine, whose tiles hold 4 (f64: 2) blocks on their diagonal.
// 32 samples are what the lanes of a warp and the registers of a thread hold in f32 and f64 alike.
//
// What limits it, estimated for 64 units of 784 features in f32 on an A100: launches, 3 of about 3 us for 32 samples;
// P 12 us (13 parts of one tile each); settling 6 us (32 dependent steps of some 250 cycles, in one block); taking 5 us
// (25 warps, 64 rows of 32 dependent pairs of multiply-adds, 4 rows abreast). About 1 us a sample, where two launches
// for every sample would take 6. An H100 would gain by its clock alone: 0.8 us. With 1024 units of 1024 features, about
// 4 us a sample: 1.6 for taking, where 32 warps are few, 1.4 for settling in one block of 16 warps, the sum of the
// parts included, and 0.5 for P.
#pragma once

#include "hebbian_rows.cuh"

namespace fastdl::hebbian::cuda {

using fastdl::cuda::Vector;

constexpr int block_length = 32;  // samples of a block

template <class T>
struct Table {  // in shared memory: a row for every sample
  T row[block_length][block_length];
};

// One block of samples as settling reads and writes it.
template <class T>
struct Settled {
  Index units;
  int samples;
  Index number;         // of the block, from 1 on
  const Index* status;  // 0, or the number of the first block that led to weights that are not finite
  const T* parts;       // of P: part_count of units x 32
  Index part_count;
  const T* gram;  // row t at t * gram_stride
  Index gram_stride;
  const T* lr;
  T *first, *second, *scale;  // units x 32, units x 32, units
};

// Blocks after one that failed leave everything as it is: the weights before it are wanted. A block's own mark, which
// others of the same launch may have set already, stops none: all threads go the same way.
__device__ __forceinline__ bool has_failed(const Index* status, Index number) {
  const Index failed = *static_cast<const volatile Index*>(status);
  return failed != 0 && failed != number;
}

template <class T>
__device__ __forceinline__ T field_of(const Settled<T>& block, Index unit) {
  const int lane = lane_number();
  T sum = T(0);
  if (lane < block.samples)
    for (Index part = 0; part < block.part_count; ++part)
      sum += block.parts[(part * block.units + unit) * block_length + lane];
  return sum;
}

template <class T>
__device__ __forceinline__ void stage_gram(const Settled<T>& block, Table<T>& gram) {
  for (int place = int(threadIdx.x); place < block_length * block_length; place += int(blockDim.x)) {
    const int t = place / block_length, j = place % block_length;
    gram.row[t][j] = t < block.samples && j < block.samples ? block.gram[t * block.gram_stride + j] : T(0);
  }
}

constexpr int unit_warps = 4;

// Rules by units: a warp a unit, lane j with the field of sample j. After sample t, lanes up to t hold what their
// sample adds to the weights in the end, by which the row of fields becomes the row of `second` in place. No barrier
// but the one after G is staged; units are independent, so this is the one settling that uses many multiprocessors.
template <class T>
__global__ void __launch_bounds__(32 * unit_warps)
    settle_units(Settled<T> block, Rule rule, const T* weights, Index features) {
  FASTDL_SHARED(Table<T>, gram);
  if (has_failed(block.status, block.number)) return;
  stage_gram(block, gram);
  __syncthreads();
  const Index unit = Index(blockIdx.x) * unit_warps + warp_number();
  if (unit >= block.units) return;
  const int lane = lane_number();
  T value = field_of(block, unit), scale = T(1), square = T(1);
  bool is_zero = false;
  if (rule == Rule::normalized) {
    // Of the weights themselves, not what should have become of it.
    const T* const row = weights + unit * features;
    T sum = T(0), any = T(0);
    for (Index j = lane; j < features; j += 32) {
      const T weight = row[j];
      sum = multiply_add(weight, weight, sum);
      if (weight != T(0)) any = T(1);
    }
    square = warp_sum(sum);
    is_zero = warp_largest(any) == T(0);
  }
  FASTDL_NO_UNROLL
  for (int t = 0; t < block.samples; ++t) {
    const T y = __shfl_sync(all_lanes, value, t), lr = block.lr[t];
    T gain = lr * y, factor = T(1);
    if (rule == Rule::oja) factor = multiply_add(-gain, y, T(1));
    if (rule == Rule::normalized && !is_zero) {
      // The length after the step, by products that are there. Where its square has lost digits it is no number, and
      // the samples of the block are taken one by one.
      const T length = multiply_add(gain * gain, gram.row[t][t], multiply_add(gain, y + y, square));
      factor = is_safe(length) ? T(1) / T(std::sqrt(double(length))) : not_a_number<T>();
      gain *= factor;
      square = T(1);
    }
    const T later = multiply_add(gain, gram.row[t][lane], value * factor);
    value = lane > t ? later : lane == t ? gain : value * factor;
    scale *= factor;
  }
  block.second[unit * block_length + lane] = lane < block.samples ? value : T(0);
  if (lane == 0) block.scale[unit] = scale;
}

constexpr int most_warps = 16;

template <class T>
struct Sums {  // in shared memory
  T of_warp[2][most_warps][block_length];
};

// Sanger and subspace: one block of threads. A warp has some units, one after the other, lane j their fields of sample
// j: in shared memory if they fit, else in `second`. For sample t, which column t has settled:
//   every warp sums y_i q_i over its units; one barrier; then subspace takes the sum of all warps, sanger that of the
//   warps before and goes on with its own units; and the fields of the samples to come learn.
// Sums of two samples take turns, so one barrier a sample is enough. In subspace, the sums of the lanes before t are
// the products y_t.y_u: with these the residuals R of the block, (1 + L) R = B - Y' W with L[t, u] = lr_u y_t.y_u below
// the diagonal, are left out of `take`: second (1 + L) = lr Y is solved here, from the last column on.
template <class T, bool deflates>
__global__ void __launch_bounds__(32 * most_warps, 1) settle_together(Settled<T> block, bool in_shared) {
  FASTDL_DYNAMIC_SHARED(T, room);
  FASTDL_SHARED(Table<T>, gram);
  FASTDL_SHARED(Table<T>, overlaps);
  FASTDL_SHARED(Sums<T>, sums);
  if (has_failed(block.status, block.number)) return;
  const int lane = lane_number(), warp = warp_number(), warps = warp_count();
  const Index each = (block.units + warps - 1) / warps, begin = warp * each;
  const Index end = begin + each < block.units ? begin + each : block.units;
  T* const fields = in_shared ? room : block.second;
  stage_gram(block, gram);
  for (Index i = begin; i < end; ++i) fields[i * block_length + lane] = field_of(block, i);
  __syncthreads();
  FASTDL_NO_UNROLL
  for (int t = 0; t < block.samples; ++t) {
    T(*const of_warp)[block_length] = sums.of_warp[t % 2];
    T own = T(0);
    for (Index i = begin; i < end; ++i)
      own = multiply_add(fields[i * block_length + t], fields[i * block_length + lane], own);
    of_warp[warp][lane] = own;
    __syncthreads();
    T total = T(0);
    for (int other = 0; other < (deflates ? warp : warps); ++other) total += of_warp[other][lane];
    if (!deflates && warp == 0) overlaps.row[t][lane] = total;
    const T lr = block.lr[t];
    T left = gram.row[t][lane] - total;
    for (Index i = begin; i < end; ++i) {
      const T y = fields[i * block_length + t], field = fields[i * block_length + lane];
      if (deflates) left = multiply_add(-y, field, left);
      if (lane > t) fields[i * block_length + lane] = multiply_add(lr * y, left, field);
    }
    __syncwarp();  // the column of the next sample is read by all lanes
  }
  const T lr = lane < block.samples ? block.lr[lane] : T(0);
  if (!deflates) __syncthreads();  // the products of the last sample
  for (Index i = begin; i < end; ++i) {
    const T y = lane < block.samples ? fields[i * block_length + lane] : T(0);
    T value = lr * y;
    if (!deflates) {
      value = y;
      FASTDL_NO_UNROLL
      for (int u = block.samples - 1; u >= 0; --u) {
        const T gain = block.lr[u] * __shfl_sync(all_lanes, value, u);
        value = lane < u ? multiply_add(-gain, overlaps.row[u][lane], value) : lane == u ? gain : value;
      }
    }
    block.first[i * block_length + lane] = -y;
    block.second[i * block_length + lane] = value;
  }
}

enum class Taking { by_units, deflation, projection };

template <class T>
struct Taken {
  const T *from, *x;
  T* to;
  Index units, features, x_row_stride, x_col_stride;
  int samples;
  Index number;
  Index* status;
  const T *first, *second, *scale;
};

constexpr int columns_of_block = 64, staged_rows = 16, rows_abreast = 4;

template <class T>
struct Stage {  // in shared memory: some rows of the tables
  T first[staged_rows][block_length], second[staged_rows][block_length], scale[staged_rows];
};

template <class T>
__device__ __forceinline__ void stage_rows(const Taken<T>& a, Index begin, bool with_first, bool with_second,
                                           bool with_scale, Stage<T>& stage) {
  for (int place = int(threadIdx.x); place < staged_rows * block_length; place += columns_of_block) {
    const int row = place / block_length, t = place % block_length;
    const bool exists = begin + row < a.units;
    const Index at = begin * block_length + place;
    if (with_first) stage.first[row][t] = exists ? a.first[at] : T(0);
    if (with_second) stage.second[row][t] = exists ? a.second[at] : T(0);
  }
  if (with_scale && threadIdx.x < staged_rows)
    stage.scale[threadIdx.x] = begin + int(threadIdx.x) < a.units ? a.scale[begin + int(threadIdx.x)] : T(0);
}

// The weights take a block that has settled: from `from` to `to`, so that those before are kept. Four rows go through
// the 32 samples together, which makes 4 chains of multiply-adds (a wavefront of them in deflation), and the next four
// are on their way from memory meanwhile. Reads and writes of the weights are coalesced; tables are broadcasts from
// shared memory, 16 bytes a load.
template <class T, Taking how>
__global__ void __launch_bounds__(columns_of_block) take(Taken<T> a) {
  FASTDL_SHARED(Stage<T>, stage);
  if (has_failed(a.status, a.number)) return;
  constexpr int lanes = Vector<T>::lanes;
  const Index column = Index(blockIdx.x) * columns_of_block + threadIdx.x;
  const bool exists = column < a.features;
  const auto weight = [&](Index row) { return exists && row < a.units ? a.from[row * a.features + column] : T(0); };
  T x[block_length];
  FASTDL_UNROLL
  for (int t = 0; t < block_length; ++t)
    x[t] = exists && t < a.samples ? a.x[t * a.x_row_stride + column * a.x_col_stride] : T(0);

  if (how == Taking::projection) {
    FASTDL_NO_UNROLL
    for (Index begin = 0; begin < a.units; begin += staged_rows) {
      __syncthreads();
      stage_rows(a, begin, true, false, false, stage);
      __syncthreads();
      FASTDL_NO_UNROLL
      for (int row = 0; row < staged_rows; ++row) {
        const T w = weight(begin + row);
        FASTDL_UNROLL
        for (int t = 0; t < block_length; t += lanes) {
          const Vector<T> y = *reinterpret_cast<const Vector<T>*>(&stage.first[row][t]);
          FASTDL_UNROLL
          for (int e = 0; e < lanes; ++e) x[t + e] = multiply_add(y.lane[e], w, x[t + e]);
        }
      }
    }
  }

  T w[rows_abreast], next[rows_abreast];
  FASTDL_UNROLL
  for (int r = 0; r < rows_abreast; ++r) next[r] = weight(r);
  bool finite = true;
  FASTDL_NO_UNROLL
  for (Index begin = 0; begin < a.units; begin += staged_rows) {
    __syncthreads();
    stage_rows(a, begin, how == Taking::deflation, true, how == Taking::by_units, stage);
    __syncthreads();
    FASTDL_NO_UNROLL
    for (int row = 0; row < staged_rows; row += rows_abreast) {
      FASTDL_UNROLL
      for (int r = 0; r < rows_abreast; ++r) {
        w[r] = how == Taking::by_units ? next[r] * stage.scale[row + r] : next[r];
        next[r] = weight(begin + row + rows_abreast + r);
      }
      FASTDL_UNROLL
      for (int t = 0; t < block_length; t += lanes) {
        Vector<T> first[rows_abreast], second[rows_abreast];
        FASTDL_UNROLL
        for (int r = 0; r < rows_abreast; ++r) {
          if (how == Taking::deflation) first[r] = *reinterpret_cast<const Vector<T>*>(&stage.first[row + r][t]);
          second[r] = *reinterpret_cast<const Vector<T>*>(&stage.second[row + r][t]);
        }
        FASTDL_UNROLL
        for (int e = 0; e < lanes; ++e) {
          FASTDL_UNROLL
          for (int r = 0; r < rows_abreast; ++r) {
            if (how == Taking::deflation) x[t + e] = multiply_add(first[r].lane[e], w[r], x[t + e]);
            w[r] = multiply_add(second[r].lane[e], x[t + e], w[r]);
          }
        }
      }
      FASTDL_UNROLL
      for (int r = 0; r < rows_abreast; ++r)
        if (exists && begin + row + r < a.units) {
          a.to[(begin + row + r) * a.features + column] = w[r];
          finite &= is_finite(w[r]);
        }
    }
  }
  if (!finite) *a.status = a.number;  // whoever writes it writes the same
}

}  // namespace fastdl::hebbian::cuda
