// The family's bodies, one set per instruction-set level, compiled from gram_isa.cpp, matvec_isa.cpp,
// sparse_isa.cpp and vjp_isa.cpp.
#pragma once

#include <cstdint>

#include "core/isa.hpp"
#include "fastdl/fastdl.h"

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

using Kernel = fastdl_kernel;

// gram:    K[i, j] = k(x_i, y_j); symmetric means that y is x.
// diagonal: out[i] = k(x_i, x_i)
// matvec:  out = K(x, y) v, without K
// softmax: out = row-softmax(scale q k') v
// sparse:  K of sparse rows x and y, the latter by its columns; linear, polynomial, rbf and cosine
// matvec_vjp: gradients of sum grad * (K v) by x, y, v and gamma; y and dy null mean that y is x
#define FASTDL_GRAM_TYPE(T)                                                                                           \
  void gram(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,                 \
            const Matrix<T>& k);                                                                                      \
  void diagonal(const Kernel& kernel, const Matrix<const T>& x, T* out, std::int64_t stride);                         \
  void matvec(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, const Matrix<const T>& v,     \
              const Matrix<T>& out);                                                                                  \
  void softmax(const Matrix<const T>& q, const Matrix<const T>& k, const Matrix<const T>& v, double scale,            \
               const Matrix<T>& out);                                                                                 \
  void sparse(const Kernel& kernel, const SparseRows<T>& x, const SparseRows<T>& y_columns, bool symmetric,           \
              const Matrix<T>& k);                                                                                    \
  void matvec_vjp(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>* y, const Matrix<const T>& v, \
                  const Matrix<const T>& grad, const Matrix<T>& dx, const Matrix<T>* dy, const Matrix<T>& dv,         \
                  double& gamma);

#define FASTDL_GRAM_BODIES(level) \
  namespace level {               \
  FASTDL_GRAM_TYPE(float)         \
  FASTDL_GRAM_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_GRAM_BODIES)
#undef FASTDL_GRAM_BODIES

}  // namespace fastdl::gram
