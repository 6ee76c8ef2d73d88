// The regulariser that learns orbits: of G = W'W, r = sum over i, j, k, l of (n delta_ij - 1) exp(-(G_ki - G_lj)^2 /
// sigma^2), and its gradient. All in double, for both types: the differences of a Gramian that is nearly one of an
// orbit are small.
//
// n^4 exponentials, some 40 operations in double each, are all that counts: for n = 64, 0.7 Gflop, an estimated 0.1 ms
// on an A100 or H100, and some ms on cards with few units for double.
#pragma once

#include "group.hpp"
#include "launch.cuh"

namespace fastdl::group::cuda {

constexpr int regularizer_threads = 128;

struct Halves {  // what the threads of a block add up
  double value[regularizer_threads], slope[regularizer_threads];
};

// G[i][j] = sum over f of W[f][i] W[f][j]: one number a thread, neighbours neighbouring j. Limit: latency, a chain of d
// multiply-adds in double with two loads from L1 each; n^2 threads do not fill a chip.
template <class T>
__global__ void __launch_bounds__(regularizer_threads) column_products(const T* w, Index d, Index n, double* gramian) {
  for (Index at = Index(blockIdx.x) * regularizer_threads + threadIdx.x; at < n * n;
       at += Index(gridDim.x) * regularizer_threads) {
    const Index i = at / n, j = at % n;
    double sum = 0;
    for (Index f = 0; f < d; ++f) sum = fma(double(w[f * n + i]), double(w[f * n + j]), sum);
    gramian[at] = sum;
  }
}

// Of G[k][i] against all G[l][j], a block: values[k*n + i], the terms of r, and slope[k*n + i], half the derivative. A
// thread sums every 128th (j, l), along the rows of G, which is symmetric; then the sums of the threads, in a tree.
__global__ void __launch_bounds__(regularizer_threads)
    compare_entries(const double* gramian, int n, double scale, double* slope, double* values) {
  FASTDL_SHARED(Halves, halves);
  const int thread = threadIdx.x, column = int(blockIdx.x) % n;
  const int rows_on = regularizer_threads / n, columns_on = regularizer_threads % n;
  const double own = gramian[blockIdx.x];
  double value = 0, down = 0;
  for (int j = thread / n, l = thread % n; j < n;) {
    const double difference = own - gramian[Index(j) * n + l], term = exp(difference * difference * -scale);
    const double weight = j == column ? double(n - 1) : -1.0;
    value = fma(weight, term, value);
    if (term != 0) down = fma(weight * term, difference, down);  // 0 times Inf is no slope
    j += rows_on;
    l += columns_on;
    if (l >= n) {
      l -= n;
      ++j;
    }
  }
  halves.value[thread] = value;
  halves.slope[thread] = down;
  for (int half = regularizer_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      halves.value[thread] += halves.value[thread + half];
      halves.slope[thread] += halves.slope[thread + half];
    }
  }
  if (thread == 0) {
    values[blockIdx.x] = halves.value[0];
    slope[blockIdx.x] = -4 * scale * halves.slope[0];
  }
}

// The sum of n^2 values, by one block, in an order that depends on their number alone. Limit: latency, n^2 / 128 reads
// a thread: an estimated 6 us for n = 64.
__global__ void __launch_bounds__(regularizer_threads) add_values(const double* values, Index count, double* total) {
  FASTDL_SHARED(Halves, halves);
  const int thread = threadIdx.x;
  double sum = 0;
  for (Index at = thread; at < count; at += regularizer_threads) sum += values[at];
  halves.value[thread] = sum;
  for (int half = regularizer_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) halves.value[thread] += halves.value[thread + half];
  }
  if (thread == 0) *total = halves.value[0];
}

// gradient = W (S + S'), one number a thread: n terms each, rows of S in whole sectors, its columns from L2. Limit:
// these loads, three for 3 flops in double.
template <class T>
__global__ void __launch_bounds__(regularizer_threads)
    regularizer_gradient(const T* w, const double* slope, Index d, Index n, T* gradient) {
  for (Index at = Index(blockIdx.x) * regularizer_threads + threadIdx.x; at < d * n;
       at += Index(gridDim.x) * regularizer_threads) {
    const Index f = at / n, j = at % n;
    double sum = 0;
    for (Index i = 0; i < n; ++i) sum = fma(double(w[f * n + i]), slope[i * n + j] + slope[j * n + i], sum);
    gradient[at] = T(sum);
  }
}

}  // namespace fastdl::group::cuda
