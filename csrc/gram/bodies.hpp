// The family's bodies, one set per instruction-set level, each compiled from its own *_isa.cpp.
#pragma once

#include <cstdint>

#include "core/isa.hpp"
#include "core/stride.hpp"
#include "fastdl/fastdl.h"
#include "gemm/consumer.hpp"

namespace fastdl::gram {

template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, cols, row_stride, col_stride;
};

// Rows of which only some entries are there: those of row i are [offsets[i], offsets[i + 1]) of indices and values,
// their indices ascending.
template <class T>
struct SparseRows {
  std::int64_t rows;
  const std::int64_t *offsets, *indices;
  const T* values;
};

template <class T, class View>
Matrix<T> matrix_of(const View& v) {
  return {core::usable_data(v.data), v.rows, v.cols, core::usable_stride(v.rows, v.row_stride, v.cols),
          core::usable_stride(v.cols, v.col_stride, v.rows)};
}

using Kernel = fastdl_kernel;

// gram:    K[i, j] = k(x_i, y_j); symmetric means that y is x.
// part:    k[i, j] = K[row + i, column + j] of all rows of x with themselves, to the bit
// diagonal: out[i] = k(x_i, x_i)
// blocks:  K, block by block, to a consumer, without K
// matvec:  out = K(x, y) v, without K
// softmax: out = row-softmax(scale q k') v
// distance: out[i, j] = k(x_i, x_i) + k(y_j, y_j) - 2 k(x_i, y_j)
// invariant: k summed over `count` permutations of x and of y, or of y alone and times count for a group
// center, dependence: of Gram matrices; hsic, or aligned, cka
// feature_gram, empirical_ntk: products of the rows of maps and of Jacobians
// sparse:  K of sparse rows x and y, the latter by its columns; linear, polynomial, rbf and cosine
// vjp:     gradients of sum grad * K by x, y and gamma; matvec_vjp: those of sum grad * (K v) by x, y, v and gamma;
//          y and dy null mean that y is x
#define FASTDL_GRAM_TYPE(T)                                                                                           \
  void gram(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,                 \
            const Matrix<T>& k);                                                                                      \
  void part(const Kernel& kernel, const Matrix<const T>& x, std::int64_t row, std::int64_t column,                    \
            const Matrix<T>& k);                                                                                      \
  void diagonal(const Kernel& kernel, const Matrix<const T>& x, T* out, std::int64_t stride);                         \
  void blocks(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y,                               \
              const gemm::Consumer<T>& consumer);                                                                     \
  void matvec(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, const Matrix<const T>& v,     \
              const Matrix<T>& out);                                                                                  \
  void softmax(const Matrix<const T>& q, const Matrix<const T>& k, const Matrix<const T>& v, double scale,            \
               const Matrix<T>& out);                                                                                 \
  void distance(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,             \
                const Matrix<T>& out);                                                                                \
  void invariant(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,            \
                 const std::int64_t* orders, std::int64_t count, bool group, const Matrix<T>& k);                     \
  void center(const Matrix<const T>& k, const Matrix<T>& out);                                                        \
  void dependence(const Matrix<const T>& k, const Matrix<const T>& l, bool unbiased, bool aligned, T* out);           \
  void feature_gram(const T* x, std::int64_t samples, std::int64_t channels, std::int64_t positions, bool center,     \
                    T* out);                                                                                          \
  void empirical_ntk(const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, const Matrix<T>& k);         \
  void sparse(const Kernel& kernel, const SparseRows<T>& x, const SparseRows<T>& y_columns, bool symmetric,           \
              const Matrix<T>& k);                                                                                    \
  void matvec_vjp(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y, const Matrix<const T>& v, \
                  const Matrix<const T>& grad, const Matrix<T>& dx, const Matrix<T>* dy, const Matrix<T>& dv,         \
                  double& gamma);                                                                                     \
  void vjp(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y, const Matrix<const T>& grad,     \
           const Matrix<T>& dx, const Matrix<T>* dy, double& gamma);

#define FASTDL_GRAM_BODIES(level) \
  namespace level {               \
  FASTDL_GRAM_TYPE(float)         \
  FASTDL_GRAM_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_GRAM_BODIES)
#undef FASTDL_GRAM_BODIES

}  // namespace fastdl::gram
