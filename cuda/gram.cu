// Entry points of the Gram family on the GPU.
#include "gram.cuh"

#include "gram.hpp"

namespace fastdl::gram::cuda {

#define FASTDL_GRAM_LINEAR(T)                                                                                         \
  void linear(const T* x, Index x_rows, Index x_row_stride, Index x_col_stride, const T* y, Index y_rows,             \
              Index y_row_stride, Index y_col_stride, Index cols, T* k, Index k_row_stride, cudaStream_t stream) {    \
    gram("gram.linear", x, x_rows, x_row_stride, x_col_stride, y, y_rows, y_row_stride, y_col_stride, cols, k,        \
         k_row_stride, gemm::cuda::Identity{}, stream);                                                               \
  }                                                                                                                   \
  void linear(const T* x, Index x_rows, Index x_row_stride, Index x_col_stride, Index cols, T* k, Index k_row_stride, \
              cudaStream_t stream) {                                                                                  \
    symmetric_gram("gram.linear", x, x_rows, x_row_stride, x_col_stride, cols, k, k_row_stride,                       \
                   gemm::cuda::Identity{}, stream);                                                                   \
  }
FASTDL_GRAM_LINEAR(float)
FASTDL_GRAM_LINEAR(double)
#undef FASTDL_GRAM_LINEAR

}  // namespace fastdl::gram::cuda
