// Where the elements of windows lie, for all kernels of the family.
#pragma once

#include "conv.hpp"
#include "launch.cuh"

namespace fastdl::conv::cuda {

// The position in [0, n) that stands for position i, or -1 for none. Positions that no element of a result sees may be
// asked for, and have none either.
template <class Integer>
__device__ __forceinline__ Integer mapped(Integer i, Integer n, Padding padding) {
  if (i >= 0 && i < n) return i;
  if (padding == Padding::zeros || n == 0) return -1;
  if (padding == Padding::circular) return (i % n + n) % n;
  if (padding == Padding::replicate) return i < 0 ? 0 : n - 1;
  const Integer back = i < 0 ? -i : 2 * (n - 1) - i;
  return back >= 0 && back < n ? back : Integer(-1);
}

// An element of arrays (planes, positions along three axes).
struct Position {
  Index plane, at[axes];
};

__device__ __forceinline__ Position position_of(Index number, const Index (&extent)[axes]) {
  // A plane has fewer than 2^31 elements. A division of 64 bits is a call, and one is enough.
  Position found;
  const unsigned of_plane = unsigned(extent[0]) * unsigned(extent[1]) * unsigned(extent[2]);
  found.plane = number / of_plane;
  unsigned rest = unsigned(number - found.plane * of_plane);
  FASTDL_UNROLL
  for (int a = axes - 1; a >= 0; --a) {
    const unsigned next = rest / unsigned(extent[a]);
    found.at[a] = rest - next * unsigned(extent[a]);
    rest = next;
  }
  return found;
}

// For kernels with a thread an element, which step over what a grid does not reach: 2^20 blocks fill any chip.
constexpr int element_threads = 256;

inline fastdl::cuda::Geometry over_elements(Index count, Stream stream) {
  const Index blocks = (count + element_threads - 1) / element_threads, most = Index(1) << 20;
  return {dim3(unsigned(blocks < most ? blocks : most)), dim3(element_threads), 0, stream};
}

__device__ __forceinline__ Index first_element() { return Index(blockIdx.x) * element_threads + threadIdx.x; }
__device__ __forceinline__ Index element_step() { return Index(gridDim.x) * element_threads; }

}  // namespace fastdl::conv::cuda
