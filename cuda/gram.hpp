// The Gram family on the GPU, as the host calls it. Pointers are device memory; strides count elements and may be zero
// or negative for inputs; extents of zero are valid. Work is queued on the stream, and a refused launch is thrown as
// std::runtime_error. Arguments have been checked by the caller.
#pragma once

#include <cstdint>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace fastdl::gram::cuda {

// K[i, j] = x_i . y_j, with K row-major, its rows k_row_stride apart.
void linear(const float* x, std::int64_t x_rows, std::int64_t x_row_stride, std::int64_t x_col_stride, const float* y,
            std::int64_t y_rows, std::int64_t y_row_stride, std::int64_t y_col_stride, std::int64_t cols, float* k,
            std::int64_t k_row_stride, CUstream_st* stream);
void linear(const double* x, std::int64_t x_rows, std::int64_t x_row_stride, std::int64_t x_col_stride, const double* y,
            std::int64_t y_rows, std::int64_t y_row_stride, std::int64_t y_col_stride, std::int64_t cols, double* k,
            std::int64_t k_row_stride, CUstream_st* stream);

// K[i, j] = x_i . x_j: half the work, symmetric to the bit.
void linear(const float* x, std::int64_t x_rows, std::int64_t x_row_stride, std::int64_t x_col_stride,
            std::int64_t cols, float* k, std::int64_t k_row_stride, CUstream_st* stream);
void linear(const double* x, std::int64_t x_rows, std::int64_t x_row_stride, std::int64_t x_col_stride,
            std::int64_t cols, double* k, std::int64_t k_row_stride, CUstream_st* stream);

}  // namespace fastdl::gram::cuda
