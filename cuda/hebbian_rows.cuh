// What the kernels of the family share: sums over warps and blocks in a fixed order, lengths of rows, and looking for
// numbers that should not be there.
#pragma once

#include "hebbian.hpp"
#include "launch.cuh"

namespace fastdl::hebbian::cuda {

using fastdl::cuda::multiply_add;

constexpr unsigned all_lanes = ~0u;

__device__ __forceinline__ int lane_number() { return int(threadIdx.x) % 32; }
__device__ __forceinline__ int warp_number() { return int(threadIdx.x) / 32; }
__device__ __forceinline__ int warp_count() { return int(blockDim.x) / 32; }

// In every lane, and with the same bits: pairs are added both ways around.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  FASTDL_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(all_lanes, value, distance);
  return value;
}

template <class T>
__device__ __forceinline__ T warp_largest(T value) {
  FASTDL_UNROLL
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(all_lanes, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

// Sums over the threads of a block, one after the other, with one barrier each: two sets of partial sums take turns, so
// that the next sum writes while the last one is still being read.
template <class T>
struct Partials {  // in shared memory
  T of_warp[2][32];
};

template <class T>
class BlockSums {
 public:
  __device__ __forceinline__ explicit BlockSums(Partials<T>& partials) : partials_(partials) {}

  // In every thread, with the same bits.
  __device__ __forceinline__ T sum(T value) {
    value = warp_sum(value);
    if (lane_number() == 0) partials_.of_warp[turn_][warp_number()] = value;
    __syncthreads();
    T total = T(0);
    for (int warp = 0; warp < warp_count(); ++warp) total += partials_.of_warp[turn_][warp];
    turn_ ^= 1;
    return total;
  }

  __device__ __forceinline__ T largest(T value) {
    value = warp_largest(value);
    if (lane_number() == 0) partials_.of_warp[turn_][warp_number()] = value;
    __syncthreads();
    for (int warp = 0; warp < warp_count(); ++warp) {
      const T other = partials_.of_warp[turn_][warp];
      value = other > value ? other : value;
    }
    turn_ ^= 1;
    return value;
  }

 private:
  Partials<T>& partials_;
  int turn_ = 0;
};

template <class T>
__device__ __forceinline__ bool is_finite(T value) {
  return value * T(0) == T(0);
}

// Whether a squared length is the sum of squares that neither overflowed nor vanished.
template <class T>
__device__ __forceinline__ bool is_safe(T square) {
  constexpr T least = T(sizeof(T) == 4 ? 1e-30 : 1e-280), most = T(sizeof(T) == 4 ? 1e38 : 1e300);
  return square >= least && square <= most;
}

template <class T>
__device__ __forceinline__ T not_a_number() {
  return T(NAN);
}

// ---- on the host ----

// A launch of `count` things, `each` to a block.
inline fastdl::cuda::Geometry blocks_for(Index count, Index each, unsigned threads, Stream stream,
                                         std::size_t shared_bytes = 0) {
  return {dim3(unsigned((count + each - 1) / each)), dim3(threads), shared_bytes, stream};
}

// Whole warps for `count` things, and one at least.
inline unsigned threads_for(Index count, Index most) {
  const Index whole = count < 1 ? 32 : (count + 31) / 32 * 32;
  return unsigned(whole < most ? whole : most);
}

// The place of the first of `count` numbers that is not finite, or -1.
template <class T>
Index first_not_finite(const char* name, const T* values, Index count, Stream stream);

// Rows of length 1; rows of zeros stay.
template <class T>
void normalize_rows(const char* name, T* rows, Index count, Index length, Stream stream);

}  // namespace fastdl::hebbian::cuda
