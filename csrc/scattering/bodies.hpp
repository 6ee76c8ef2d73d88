// The family's bodies, one set per instruction-set level, each compiled from its own *_isa.cpp.
#pragma once

#include "core/isa.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {

// forward:  out (batch, channels, outputs) of x (batch, samples)
// backward: dx (batch, samples) from x and grad (batch, channels, outputs)
// All arrays are contiguous.
#define FASTDL_SCATTERING_TYPE(T)                                     \
  void forward(const Plan<T>& plan, const T* x, Index batch, T* out); \
  void backward(const Plan<T>& plan, const T* x, const T* grad, Index batch, T* dx);

#define FASTDL_SCATTERING_BODIES(level) \
  namespace level {                     \
  FASTDL_SCATTERING_TYPE(float)         \
  FASTDL_SCATTERING_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_SCATTERING_BODIES)
#undef FASTDL_SCATTERING_BODIES

}  // namespace fastdl::scattering
