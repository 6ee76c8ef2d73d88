// Small kernels, right ones and ones with a fault of each kind put in on purpose: what executes kernels without a GPU
// must tell them apart. test_cuda_emulation.cpp runs them by emulation, tests/test_cuda.py what nvcc makes of them.
#pragma once

#include "launch.cuh"

extern "C" {

__global__ void reverse_values(const int* from, int* to, bool with_barrier) {
  FASTDL_DYNAMIC_SHARED(int, values);
  const int thread = int(threadIdx.x);
  values[thread] = from[thread];
  if (with_barrier) __syncthreads();
  to[thread] = values[int(blockDim.x) - 1 - thread];
}

__global__ void divergent_barrier(int* out) {
  if (threadIdx.x < 40) __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void two_barriers(int* out) {
  if (threadIdx.x % 2)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void reads_before_writing(float* out) {
  FASTDL_SHARED(float, value);
  out[threadIdx.x] = value;
}

__global__ void sum_of_warp(const int* from, int* to) {
  int value = from[threadIdx.x];
  for (int bits = 16; bits; bits /= 2) value += __shfl_xor_sync(~0u, value, bits);
  const int up = __shfl_up_sync(~0u, int(threadIdx.x), 1), down = __shfl_down_sync(~0u, int(threadIdx.x), 1, 8);
  const int third = __shfl_sync(~0u, int(threadIdx.x), 3, 16);
  const unsigned odd = __ballot_sync(~0u, threadIdx.x % 2);
  __syncwarp();
  to[threadIdx.x] = value + up + 100 * down + 10000 * third + (odd == 0xaaaaaaaau ? 1000000 : 0);
}

__global__ void shuffle_without_some(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(~0u, 1, 1);
}

__global__ void shuffle_from_outside(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1, 20);
}

// Half of a warp waits for the other half, which waits for the block.
__global__ void barrier_or_shuffle(int* out) {
  int value = int(threadIdx.x);
  if (threadIdx.x % 32 < 16)
    value = __shfl_sync(~0u, value, 0);
  else
    __syncthreads();
  out[threadIdx.x] = value;
}

// One element past the end.
__global__ void off_by_one(int* out, int count) {
  if (int(threadIdx.x) <= count) out[threadIdx.x] = int(threadIdx.x);
}

// All threads write one number: which of them comes last is nobody's to say.
__global__ void last_writer(int* out) { out[0] = int(threadIdx.x); }

// 16 bytes from an address that is no multiple of 16.
__global__ void unaligned(const float* from, float* to) {
  fastdl::cuda::vector_at(to + 4 * threadIdx.x) = fastdl::cuda::vector_at(from + 4 * threadIdx.x + 1);
}

}  // extern "C"
