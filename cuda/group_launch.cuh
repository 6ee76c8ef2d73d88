// How the kernels of the group family are spread over the device.
#pragma once

#include "device.hpp"
#include "launch.cuh"

namespace fastdl::group::cuda {

using fastdl::cuda::launch;
using fastdl::cuda::Scratch;

inline fastdl::cuda::Index divide_up(fastdl::cuda::Index a, fastdl::cuda::Index b) { return (a + b - 1) / b; }
inline fastdl::cuda::Index round_up(fastdl::cuda::Index a, fastdl::cuda::Index b) { return divide_up(a, b) * b; }
inline fastdl::cuda::Index at_most(fastdl::cuda::Index a, fastdl::cuda::Index b) { return a < b ? a : b; }
inline fastdl::cuda::Index at_least(fastdl::cuda::Index a, fastdl::cuda::Index b) { return a < b ? b : a; }

// For kernels whose threads go over `count` elements with a stride of the grid.
inline fastdl::cuda::Geometry grid_over(fastdl::cuda::Index count, int threads, cudaStream_t stream) {
  return {dim3(unsigned(at_most(divide_up(count, threads), 1 << 20))), dim3(unsigned(threads)), 0, stream};
}

}  // namespace fastdl::group::cuda
