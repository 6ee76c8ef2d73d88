// Short transforms, one set per instruction-set level, compiled from codelets_isa.cpp: they are long to compile, so
// those who transform only call them.
#pragma once

#include "core/isa.hpp"
#include "fft/plan.hpp"

namespace fastdl::fft {

// Where a transform reads or writes vectors: element k at re + k*step, its imaginary part at im + k*step.
template <class T>
struct Elements {
  T *re, *im;
  Index step;
};

// Transforms a lane-full if there is a codelet for the length, and says so: to elements, which may be those of the
// input, or only the moduli, one vector after the other.
#define FASTDL_FFT_BODIES(level)                                                         \
  namespace level {                                                                      \
  bool codelet(Index n, const Elements<const float>& from, const Elements<float>& to);   \
  bool codelet(Index n, const Elements<const double>& from, const Elements<double>& to); \
  bool moduli_codelet(Index n, const Elements<const float>& from, float* moduli);        \
  bool moduli_codelet(Index n, const Elements<const double>& from, double* moduli);      \
  }
FASTDL_DECLARE_LEVELS(FASTDL_FFT_BODIES)
#undef FASTDL_FFT_BODIES

}  // namespace fastdl::fft
