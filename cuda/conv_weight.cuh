// The weight gradient: dw[o, (c, q)] = sum over images and positions of grad[n, o, p] * x[n, c, window element q of p].
//
// As a product on the engine (gemm.cuh) its depth is the positions of all images, which are neighbours in memory: a
// thread reads four of them of a row of grad, and of what a tap sees of x, and two (f64: one) share a sector. There is
// little to compute in parallel where there are few filters, so the depth is cut into parts, each a product of a batch;
// a second kernel adds them up in their order. How many depends on the shape alone: no atomics, and the same bits on
// every card.
//
// What limits it, estimated: the engine's arithmetic; a thread spends some 100 instructions a slice on where its
// elements lie, for 512 multiply-adds (f64: 256). 64 images of 128 channels, 28 x 28, 3 x 3 filters: 14.8 Gflop, at
// 65% 1.2 ms on an A100 and 0.34 ms on an H100 in f32; 13 parts of 128 x 1152 are 7.7 MB and take 10 us to add up.
#pragma once

#include "conv_windows.cuh"

namespace fastdl::conv::cuda {

// Which part of the depth a product of the batch has: (part, group).
struct Parts {
  Index groups, length, total;
  __device__ __forceinline__ Index first(Index batch) const { return batch / groups * length; }
  __device__ __forceinline__ int left(Index batch) const {
    const Index left = total - first(batch);
    return int(left < length ? left : length);
  }
};

// Rows are the channels of grad, k are images and positions.
template <class T>
struct Slopes {
  using Element = T;
  const T* data;
  Index rows, pixels, image_stride, group_stride, end;
  Parts parts;

  class Reader {
    using S = gemm::cuda::Shape<T>;
    using Four = gemm::cuda::FourOfRow<T>;

   public:
    __device__ __forceinline__ Reader(const Slopes& from, Index first_row, Index batch) : from_(from) {
      const Index k = from.parts.first(batch) + Four::k();
      Index row = first_row + Four::row();
      if (row >= from.rows) row = from.rows - 1;  // read, and not stored
      pixel_ = int(k % from.pixels);
      offset_ = batch % from.parts.groups * from.group_stride + k / from.pixels * from.image_stride +
                row * from.pixels + pixel_;
    }

    __device__ __forceinline__ void read(int) {
      Index offset = offset_;
      FASTDL_UNROLL
      for (int e = 0; e < Four::held; ++e) {
        held_[e] = offset < from_.end ? from_.data[offset] : T(0);  // past the last image, in the last part
        next(1, pixel_, offset);
      }
      offset_ = offset;
      next(S::depth - Four::held, pixel_, offset_);
    }

    __device__ __forceinline__ void write(T (*slice)[S::pitch]) const { Four::write(held_, slice); }

   private:
    __device__ __forceinline__ void next(int steps, int& pixel, Index& offset) const {
      pixel += steps;
      offset += steps;
      while (pixel >= int(from_.pixels)) {
        pixel -= int(from_.pixels);
        offset += from_.image_stride - from_.pixels;
      }
    }

    const Slopes& from_;
    Index offset_;
    int pixel_;
    T held_[Four::held];
  };
};

// Rows are channels of x and taps, k are images and positions. What is padded is zero.
template <class T>
struct SeenByTaps {
  using Element = T;
  const T* data;
  Index rows;
  Strides strides;
  Index group_stride;
  int in[axes], size[axes], step[axes];
  const Tap* taps;
  Parts parts;

  class Reader {
    using S = gemm::cuda::Shape<T>;
    using Four = gemm::cuda::FourOfRow<T>;

   public:
    __device__ __forceinline__ Reader(const SeenByTaps& from, Index first_row, Index batch) : from_(from) {
      Index k = from.parts.first(batch) + Four::k();
      const Index row = first_row + Four::row();
      left_ = row < from.rows ? from.parts.left(batch) - Four::k() : 0;
      const Tap tap = from.taps[row < from.rows ? row : 0];
      FASTDL_UNROLL
      for (int a = axes - 1; a >= 0; --a) {
        at_[a] = int(k % from.size[a]);
        first_[a] = tap.at[a];
        k /= from.size[a];
      }
      image_ = batch % from.parts.groups * from.group_stride + k * from.strides.batch + tap.offset;
    }

    __device__ __forceinline__ void read(int) {
      FASTDL_UNROLL
      for (int e = 0; e < Four::held; ++e) {
        Index offset = image_;
        bool inside = e < left_;
        FASTDL_UNROLL
        for (int a = 0; a < axes; ++a) {
          const int at = at_[a] * from_.step[a];
          offset += at * from_.strides.axis[a];
          inside = inside && unsigned(at + first_[a]) < unsigned(from_.in[a]);
        }
        held_[e] = inside ? from_.data[offset] : T(0);
        next(1);
      }
      left_ -= S::depth;
      next(S::depth - Four::held);
    }

    __device__ __forceinline__ void write(T (*slice)[S::pitch]) const { Four::write(held_, slice); }

   private:
    __device__ __forceinline__ void next(int steps) {
      at_[2] += steps;
      while (at_[2] >= from_.size[2]) {
        at_[2] -= from_.size[2];
        if (++at_[1] < from_.size[1]) continue;
        at_[1] = 0;
        if (++at_[0] < from_.size[0]) continue;
        at_[0] = 0;
        image_ += from_.strides.batch;
      }
    }

    const SeenByTaps& from_;
    Index image_;
    int at_[axes], first_[axes], left_;  // positions, and what the tap adds to where they begin
    T held_[Four::held];
  };
};

// to[i] = the sum of from[part, i] in the order of the parts. Limited by memory.
template <class T>
__global__ void __launch_bounds__(element_threads) add_parts_kernel(const T* from, Index parts, Index count, T* to) {
  for (Index number = first_element(); number < count; number += element_step()) {
    T sum = from[number];
    for (Index part = 1; part < parts; ++part) sum += from[part * count + number];
    to[number] = sum;
  }
}

// With few channels and few filters a group a tile of the engine would be empty. Here a block has one filter, one
// channel and up to 9 taps: a thread goes through every 256th position, reads grad once and x for each tap, and the
// sums of the threads are added up in a tree. Limit, estimated: some 30 instructions a multiply-add, for the place of a
// position (280 for 9 taps): 3e11 multiply-adds a second on an A100. The loads of x come from L1.
constexpr int block_taps = 9;

template <class T>
struct TapSums {  // in shared memory
  Tap tap[block_taps];
  T sum[element_threads / 32][block_taps];  // of a warp
};

template <class T>
__global__ void __launch_bounds__(element_threads)
    tap_sums_kernel(Geometry g, const T* x, Strides strides, const T* grad, T* dw, Index count) {
  FASTDL_SHARED(TapSums<T>, shared);
  const Index taps = g.kernel[0] * g.kernel[1] * g.kernel[2], pixels = g.out[0] * g.out[1] * g.out[2];
  const Index blocks_a_plane = (taps + block_taps - 1) / block_taps;
  for (Index block = blockIdx.x; block < count; block += gridDim.x) {
    const Index first_tap = block % blocks_a_plane * block_taps, plane = block / blocks_a_plane;  // of dw
    const Index filter = plane / g.in_channels, channel = plane % g.in_channels;
    __syncthreads();  // the sums before have been read
    if (threadIdx.x < block_taps) {
      const Index tap = first_tap + threadIdx.x < taps ? first_tap + threadIdx.x : first_tap;
      shared.tap[threadIdx.x] = forward_tap(g, strides, position_of(channel * taps + tap, g.kernel));
    }
    __syncthreads();
    const T* from = x + filter / g.out_channels * g.in_channels * strides.channel;
    T sum[block_taps];
    FASTDL_UNROLL
    for (int t = 0; t < block_taps; ++t) sum[t] = T(0);
    for (Index number = threadIdx.x; number < g.batch * pixels; number += element_threads) {
      const Position p = position_of(number, g.out);
      const T slope = grad[(p.plane * g.groups * g.out_channels + filter) * pixels + number % pixels];
      Index offset = p.plane * strides.batch;
      int at[axes];
      FASTDL_UNROLL
      for (int a = 0; a < axes; ++a) {
        at[a] = int(p.at[a] * g.stride[a]);
        offset += at[a] * strides.axis[a];
      }
      FASTDL_UNROLL
      for (int t = 0; t < block_taps; ++t) {
        const Tap tap = shared.tap[t];
        bool inside = true;
        FASTDL_UNROLL
        for (int a = 0; a < axes; ++a) inside = inside && unsigned(at[a] + tap.at[a]) < unsigned(g.in[a]);
        sum[t] = fastdl::cuda::multiply_add(slope, inside ? from[offset + tap.offset] : T(0), sum[t]);
      }
    }
    FASTDL_UNROLL
    for (int t = 0; t < block_taps; ++t) {
      FASTDL_UNROLL
      for (int half = 16; half > 0; half /= 2) sum[t] += __shfl_down_sync(~0u, sum[t], half);
      if (threadIdx.x % 32 == 0) shared.sum[threadIdx.x / 32][t] = sum[t];
    }
    __syncthreads();
    if (threadIdx.x < block_taps && first_tap + threadIdx.x < taps) {
      T total = T(0);
      FASTDL_UNROLL
      for (int warp = 0; warp < element_threads / 32; ++warp) total += shared.sum[warp][threadIdx.x];
      dw[plane * taps + first_tap + threadIdx.x] = total;
    }
  }
}

}  // namespace fastdl::conv::cuda
