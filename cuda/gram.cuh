// Gram matrices on the GPU: each kernel function is an epilogue of the product engine (gemm.cuh).
//
// linear: K[i, j] = x_i . y_j, n x m from rows of d numbers. What limits it, estimated; no GPU has measured it yet:
//
//   flops    2 n m d, or n (n + side) d in symmetric mode, which computes whole tiles on the diagonal.
//   bytes    (n + m) d in and n m out, at least. A tile reads 2 side d numbers for 2 side^2 d flops: 32 flops a byte
//            from L2 for f32, 8 for f64. At the peak of the multiply-adds that is 0.6 (f32) and 1.2 TB/s (f64) on an
//            A100 (sm_80: 19.5 and 9.7 Tflop/s, 1.55 TB/s of memory) and 2.1 and 4.2 TB/s on an H100 (sm_90: 67 and
//            34 Tflop/s, 3.35 TB/s): arithmetic is the limit, but f64 on an H100 comes near what L2 gives.
//   depth    writing K takes longer than computing it when d is below 25 (A100) or 41 (H100), in both precisions.
//   chip     f32: 118 to 128 registers, 16.9 KB shared memory, 2 blocks = 16 of 64 warps a multiprocessor. f64: 218 to
//            232 registers, 8.7 KB, 4 blocks = 8 warps. That is few, and enough: a thread has 64 independent chains,
//            more than the 4 to 8 cycles a multiply-add takes. Tensor cores are not used: theirs is another order of
//            summation, and f32 would lose its precision.
//   ptxas    no spills on sm_75, 80, 90, 100 and 120 (docs/cuda/resources.md).
#pragma once

#include "gemm.cuh"

namespace fastdl::gram::cuda {

using gemm::cuda::Index;

template <class T, class Epilogue>
void gram(const char* name, const T* x, Index x_rows, Index x_row_stride, Index x_col_stride, const T* y, Index y_rows,
          Index y_row_stride, Index y_col_stride, Index cols, T* k, Index k_row_stride, const Epilogue& epilogue,
          cudaStream_t stream) {
  gemm::cuda::multiply(name, gemm::cuda::operand(x, x_rows, cols, x_row_stride, x_col_stride),
                       gemm::cuda::operand(y, y_rows, cols, y_row_stride, y_col_stride), cols,
                       gemm::cuda::result(k, x_rows, y_rows, k_row_stride), epilogue, stream);
}

// Y = X. The epilogue must not tell (i, j) from (j, i).
template <class T, class Epilogue>
void symmetric_gram(const char* name, const T* x, Index x_rows, Index x_row_stride, Index x_col_stride, Index cols,
                    T* k, Index k_row_stride, const Epilogue& epilogue, cudaStream_t stream) {
  const auto rows = gemm::cuda::operand(x, x_rows, cols, x_row_stride, x_col_stride);
  gemm::cuda::multiply_symmetric(name, rows, cols, gemm::cuda::result(k, x_rows, x_rows, k_row_stride), epilogue,
                                 stream);
}

}  // namespace fastdl::gram::cuda
