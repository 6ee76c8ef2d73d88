// Transforms of batches of contiguous arrays of complex or real numbers as NumPy has them. What measures the engine by
// itself calls it (fastdl._core.fft): it is no part of the C interface.
#pragma once

#include "core/isa.hpp"
#include "fastdl/fastdl.h"
#include "fft/plan.hpp"

namespace fastdl::fft {

// in and out are (batch, size[0], ..., size[rank - 1]); complex numbers are two of T. Of real input, out has
// size[rank - 1]/2 + 1 numbers along the last axis. The inverse divides by the number of elements. out may be in,
// where both are complex.
template <class T>
struct Batch {
  const T* in;
  T* out;
  Index batch;
  int rank;
  Index size[3];
  bool real, inverse;
};

#define FASTDL_BATCH_BODIES(level)              \
  namespace level {                             \
  void transform_batch(const Batch<float>& b);  \
  void transform_batch(const Batch<double>& b); \
  }
FASTDL_DECLARE_LEVELS(FASTDL_BATCH_BODIES)
#undef FASTDL_BATCH_BODIES

}  // namespace fastdl::fft

// Exported for the Python extension alone. size has rank extents, 1 <= rank <= 3; real is 1 for real input.
extern "C" {
FASTDL_API fastdl_status fastdl_private_fft_f32(const float* in, int64_t batch, int rank, const int64_t* size, int real,
                                                int inverse, float* out);
FASTDL_API fastdl_status fastdl_private_fft_f64(const double* in, int64_t batch, int rank, const int64_t* size,
                                                int real, int inverse, double* out);
}
