// The body of network convolution by transforms, one per instruction-set level, compiled from fft_isa.cpp.
#pragma once

#include <atomic>
#include <cstdint>

#include "conv/geometry.hpp"
#include "core/isa.hpp"

namespace fastdl::conv {

// out[n, o, i] = sum over c and t of x[n, c, i + t] w[o, c, t], the valid cross-correlation: x is images x channels x
// size, w outputs x channels x kernel, out images x outputs x (size - kernel + 1), all contiguous; 1 <= kernel <= size
// along each of 1 to 64 axes. Errors are relative to the largest results, and what is not finite spreads over a tile.
//
// keep_strided: of such values (found along each axis) for images [first, first + images), one group of g, every
// stride-th, with bias (or null) and activation, to the output of all. finite becomes false if one of them is not.
#define FASTDL_FFT_CORRELATE_TYPE(T)                                                                             \
  void fft_correlate(const T* x, std::int64_t images, std::int64_t channels, const std::int64_t* size, int rank, \
                     const T* w, std::int64_t outputs, const std::int64_t* kernel, T* out);                      \
  void keep_strided(const Geometry& g, const std::int64_t* found, const T* values, std::int64_t first,           \
                    std::int64_t images, std::int64_t group, const T* bias, Activation activation, T* out,       \
                    std::atomic<bool>& finite);

#define FASTDL_FFT_CORRELATE_BODIES(level) \
  namespace level {                        \
  FASTDL_FFT_CORRELATE_TYPE(float)         \
  FASTDL_FFT_CORRELATE_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_FFT_CORRELATE_BODIES)
#undef FASTDL_FFT_CORRELATE_BODIES

}  // namespace fastdl::conv
