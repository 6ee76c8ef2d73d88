// The family's bodies, one set per instruction-set level, compiled from gram_isa.cpp.
#pragma once

#include <cstdint>

#include "core/isa.hpp"

namespace fastdl::gram {

template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, cols, row_stride, col_stride;
};

#define FASTDL_GRAM_BODIES(level)                                                                         \
  namespace level {                                                                                       \
  void linear(const Matrix<float>& x, const Matrix<float>& y, bool symmetric, const Matrix<float>& k);    \
  void linear(const Matrix<double>& x, const Matrix<double>& y, bool symmetric, const Matrix<double>& k); \
  }
FASTDL_DECLARE_LEVELS(FASTDL_GRAM_BODIES)
#undef FASTDL_GRAM_BODIES

}  // namespace fastdl::gram
