// The array functions of math_isa.cpp, declared for every instruction-set level.
// Inputs and output are contiguous arrays of n elements without alignment; the output may be the input.
#pragma once

#include <cstdint>

#define FASTDL_DECLARE_MATH_TYPE(T)                             \
  void exp(const T* x, T* result, std::int64_t n);              \
  void tanh(const T* x, T* result, std::int64_t n);             \
  void sigmoid(const T* x, T* result, std::int64_t n);          \
  void rsqrt(const T* x, T* result, std::int64_t n);            \
  void sin(const T* x, T* result, std::int64_t n);              \
  void sqrt_by_estimate(const T* x, T* result, std::int64_t n); \
  void atan2(const T* y, const T* x, T* result, std::int64_t n);

#define FASTDL_DECLARE_MATH_LEVEL(level) \
  namespace fastdl::simd::level {        \
  FASTDL_DECLARE_MATH_TYPE(float)        \
  FASTDL_DECLARE_MATH_TYPE(double)       \
  }

FASTDL_DECLARE_MATH_LEVEL(baseline)
FASTDL_DECLARE_MATH_LEVEL(avx2)
FASTDL_DECLARE_MATH_LEVEL(avx512)
FASTDL_DECLARE_MATH_LEVEL(neon)
FASTDL_DECLARE_MATH_LEVEL(wide)
