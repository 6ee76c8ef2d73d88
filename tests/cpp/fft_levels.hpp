// The functions of fft_isa.cpp, declared for every instruction-set level.
#pragma once

#include <cstdint>

// along_axis: in place along the middle axis of outer x n x inner complex numbers, re and im apart; inverse without 1/n
// lanes:     n elements of lane_count numbers, re and im apart, through the lane-batched transform with a stride
// real:      n rows of lane_count real numbers to n/2 + 1 complex ones, and back (times n)
#define FASTDL_DECLARE_FFT_TYPE(T)                                                                               \
  void along_axis(std::int64_t outer, std::int64_t n, std::int64_t inner, bool inverse, T* re, T* im);           \
  void lanes(std::int64_t n, std::int64_t stride, bool inverse, const T* re, const T* im, T* out_re, T* out_im); \
  void real_to_complex(std::int64_t n, const T* x, T* re, T* im);                                                \
  void complex_to_real(std::int64_t n, const T* re, const T* im, T* x);

#define FASTDL_DECLARE_FFT_LEVEL(level) \
  namespace fastdl::fft::level {        \
  FASTDL_DECLARE_FFT_TYPE(float)        \
  FASTDL_DECLARE_FFT_TYPE(double)       \
  int lane_count(std::int64_t size);    \
  }

FASTDL_DECLARE_FFT_LEVEL(baseline)
FASTDL_DECLARE_FFT_LEVEL(avx2)
FASTDL_DECLARE_FFT_LEVEL(avx512)
FASTDL_DECLARE_FFT_LEVEL(neon)
FASTDL_DECLARE_FFT_LEVEL(wide)
