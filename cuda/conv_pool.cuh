// Pooling over windows and its gradients, all in gather form: every element of a result is the work of one thread, or
// of one warp, and is added up in the order of the windows. There are no atomics.
//
// What limits them, estimated: memory. max_pool and avg_pool read x once from memory (overlapping windows meet in L1
// and L2) and write a result of 1/stride^2 of it. A thread needs some 100 instructions to find its place, which an A100
// does for 1e11 threads a second; 2 x 2 windows move 20 bytes a result, 8e10 of them a second. f32, windows 2 x 2, 64 x
// 64 planes of 112 x 112: 0.26 GB, 0.17 ms on an A100, 0.08 ms on an H100. The gradients are limited by instructions,
// see there.
#pragma once

#include "conv_geometry.cuh"

namespace fastdl::conv::cuda {

// The elements of x that window p sees along an axis.
struct Range {
  int first, end;
};

__device__ __forceinline__ Range seen_by(const Geometry& g, int axis, Index p) {
  const int first = int(p * g.stride[axis] - g.lower[axis]), end = first + int(g.kernel[axis]);
  return {first < 0 ? 0 : first, end < int(g.in[axis]) ? end : int(g.in[axis])};
}

// The windows that see element i along an axis.
__device__ __forceinline__ Range windows_of(const Geometry& g, int axis, Index i) {
  const int place = int(i + g.lower[axis]), stride = int(g.stride[axis]), end = place / stride + 1;
  const int short_of = place - int(g.kernel[axis]), first = short_of < 0 ? 0 : short_of / stride + 1;
  return {first, end < int(g.out[axis]) ? end : int(g.out[axis])};
}

// One thread a window, its elements in row-major order: of equals the first stays, and the first NaN.
template <class T>
__global__ void __launch_bounds__(element_threads)
    max_pool_kernel(Geometry g, const T* x, T* out, Index* indices, Index count) {
  for (Index number = first_element(); number < count; number += element_step()) {
    const Position to = position_of(number, g.out);
    const T* plane = x + to.plane * (g.in[0] * g.in[1] * g.in[2]);
    const Range depth = seen_by(g, 0, to.at[0]), height = seen_by(g, 1, to.at[1]), width = seen_by(g, 2, to.at[2]);
    Index place = -1;
    T best = T(0);
    for (int d = depth.first; d < depth.end; ++d)
      for (int h = height.first; h < height.end; ++h) {
        const Index row = (d * g.in[1] + h) * g.in[2];
        for (int w = width.first; w < width.end; ++w) {
          const T value = plane[row + w];
          if (place < 0 || value > best || (value != value && best == best)) {
            best = value;
            place = row + w;
          }
        }
      }
    out[number] = best;
    if (indices) indices[number] = place;
  }
}

__device__ __forceinline__ Index elements_of(const Range& depth, const Range& height, const Range& width) {
  return Index(depth.end - depth.first) * (height.end - height.first) * (width.end - width.first);
}

template <class T>
__global__ void __launch_bounds__(element_threads)
    avg_pool_kernel(Geometry g, const T* x, bool padding_counts, T* out, Index count) {
  for (Index number = first_element(); number < count; number += element_step()) {
    const Position to = position_of(number, g.out);
    const T* plane = x + to.plane * (g.in[0] * g.in[1] * g.in[2]);
    const Range depth = seen_by(g, 0, to.at[0]), height = seen_by(g, 1, to.at[1]), width = seen_by(g, 2, to.at[2]);
    T sum = T(0);
    for (int d = depth.first; d < depth.end; ++d)
      for (int h = height.first; h < height.end; ++h) {
        const T* row = plane + (d * g.in[1] + h) * g.in[2];
        for (int w = width.first; w < width.end; ++w) sum += row[w];
      }
    const Index elements = padding_counts ? g.kernel[0] * g.kernel[1] * g.kernel[2] : elements_of(depth, height, width);
    out[number] = sum / T(elements);
  }
}

// One thread an element of x: the shares of all windows that see it. Limit, estimated: some 250 instructions to find
// its place and its windows, which is 4e10 elements a second on an A100; memory would allow 3e11 for windows of 2 x 2.
template <class T>
__global__ void __launch_bounds__(element_threads)
    avg_pool_gradient_kernel(Geometry g, const T* grad, bool padding_counts, T* dx, Index count) {
  const auto elements = [&](int axis, int p) {
    const Range seen = seen_by(g, axis, p);
    return padding_counts ? int(g.kernel[axis]) : seen.end - seen.first;
  };
  for (Index number = first_element(); number < count; number += element_step()) {
    const Position to = position_of(number, g.in);
    const T* plane = grad + to.plane * (g.out[0] * g.out[1] * g.out[2]);
    const Range depth = windows_of(g, 0, to.at[0]), height = windows_of(g, 1, to.at[1]),
                width = windows_of(g, 2, to.at[2]);
    T sum = T(0);
    for (int d = depth.first; d < depth.end; ++d)
      for (int h = height.first; h < height.end; ++h) {
        const T* row = plane + (d * g.out[1] + h) * g.out[2];
        const Index of_rows = Index(elements(0, d)) * elements(1, h);
        FASTDL_NO_UNROLL
        for (int w = width.first; w < width.end; ++w) sum += row[w] / T(of_rows * elements(2, w));
      }
    dx[number] = sum;
  }
}

// The gradient of the maximum: dx[indices[p]] += grad[p] within a plane. The windows are not known, only where each
// maximum was, so elements of dx are dealt out to the warps: warp i of the block that has the plane takes the indices
// that are i modulo 8. The block brings 256 windows to shared memory; each warp goes through them in their order, 32 at
// a time, picks its own by a ballot, and the first lane with an index adds up all lanes with the same one, in order. So
// every element of dx has one owner, and its windows come in their order.
//
// Limit, estimated: each window is looked at by 8 warps, a shared load and a ballot, and costs its own warp two
// shuffles: some 12 warp instructions a window, 5e10 windows a second on an A100, 36 bytes each. A plane is the work of
// one block: it takes some 1000 planes to fill a chip.
constexpr int pool_warps = element_threads / 32;

__device__ __forceinline__ int lowest_bit(unsigned bits) {
#if defined(__CUDACC__)
  return __ffs(int(bits)) - 1;
#else
  return __builtin_ctz(bits);
#endif
}

template <class T>
struct Windowful {  // in shared memory
  Index place[element_threads];
  T slope[element_threads];
};

template <class T>
__global__ void __launch_bounds__(element_threads)
    max_pool_gradient_kernel(const T* grad, const Index* indices, Index planes, Index pixels, Index in_pixels, T* dx) {
  FASTDL_SHARED(Windowful<T>, some);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (Index plane = blockIdx.x; plane < planes; plane += gridDim.x) {
    T* const to = dx + plane * in_pixels;
    for (Index i = threadIdx.x; i < in_pixels; i += element_threads) to[i] = T(0);
    for (Index first = 0; first < pixels; first += element_threads) {
      const Index own = first + threadIdx.x;
      __syncthreads();  // the zeros are written, and all have read what is overwritten here
      some.place[threadIdx.x] = own < pixels ? indices[plane * pixels + own] : -1;
      some.slope[threadIdx.x] = own < pixels ? grad[plane * pixels + own] : T(0);
      __syncthreads();
      for (int part = 0; part < element_threads; part += 32) {
        const Index place = some.place[part + lane];
        const T slope = some.slope[part + lane];
        const bool mine = place >= 0 && place % pool_warps == warp;
        T sum = T(0);
        int leader = -1;
        for (unsigned left = __ballot_sync(~0u, mine); left != 0; left &= left - 1) {
          const int source = lowest_bit(left);
          const Index other = __shfl_sync(~0u, place, source);
          const T value = __shfl_sync(~0u, slope, source);
          if (mine && other == place) {
            if (leader < 0) leader = source;
            sum += value;
          }
        }
        if (mine && leader == lane) to[place] += sum;
        __syncwarp();  // the next 32 may have the same places in other lanes
      }
    }
  }
}

}  // namespace fastdl::conv::cuda
