// The products of the family on the engine (gemm.cuh), instantiated once in hebbian_products.cu.
#pragma once

#include "hebbian.hpp"

namespace fastdl::hebbian::cuda {

// A factor of a product, row by row along its depth; or a batch of them.
template <class T>
struct Factor {
  const T* data;
  Index rows, row_stride, depth_stride;
  Index batch_stride = 0;
};

// c[batch][i, j] = sum over k of a[batch][i, k] * b[batch][j, k]
template <class T>
void multiply(const char* name, const Factor<T>& a, const Factor<T>& b, Index depth, T* c, Index row_stride,
              Stream stream, Index batches = 1, Index batch_stride = 0);

// How a long depth is cut, so that a product of few rows is made by many blocks: their results are parts, to be summed
// in their order.
struct Parts {
  Index count, depth;
};
template <class T>
Parts parts_of(Index rows, Index columns, Index depth);
// c[part][i, j] = the part's share of the sum; parts are rows * columns apart
template <class T>
void multiply_in_parts(const char* name, const Factor<T>& a, const Factor<T>& b, Index depth, Parts parts, T* c,
                       Index row_stride, Index part_stride, Stream stream);

// c = factor * a a', symmetric to the bit; zeros on the diagonal if wanted
template <class T>
void couplings(const char* name, const Factor<T>& a, Index depth, T factor, bool zero_diagonal, T* c, Stream stream);

}  // namespace fastdl::hebbian::cuda
