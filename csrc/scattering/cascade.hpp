// The fast wavelet transform: what its bodies are told, one set of them per instruction-set level.
#pragma once

#include "core/isa.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {

template <class T>
struct Cascade {
  Index batch, height, width, scales, taps;  // an even number of taps
  const T *low, *high;
};

// wavelet:         averages (batch, height / 2^scales, width / 2^scales) and for each scale from the finest on the
//                  details (batch, 3, height / 2^j, width / 2^j) of x (batch, height, width)
// wavelet_inverse: x from these
// All arrays are contiguous, and no extent is 0.
#define FASTDL_CASCADE_TYPE(T)                                                              \
  void wavelet(const Cascade<T>& cascade, const T* x, T* approximation, T* const* details); \
  void wavelet_inverse(const Cascade<T>& cascade, const T* approximation, const T* const* details, T* x);

#define FASTDL_CASCADE_BODIES(level) \
  namespace level {                  \
  FASTDL_CASCADE_TYPE(float)         \
  FASTDL_CASCADE_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_CASCADE_BODIES)
#undef FASTDL_CASCADE_BODIES

}  // namespace fastdl::scattering
