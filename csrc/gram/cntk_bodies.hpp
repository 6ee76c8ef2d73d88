// The bodies of the convolutional neural tangent kernel, one per instruction-set level, compiled from cntk_isa.cpp.
#pragma once

#include <cstdint>

#include "core/isa.hpp"

namespace fastdl::gram {

struct CntkShape {
  std::int64_t channels, height, width;  // of every image; none is zero
  int depth, kernel_size;                // >= 0; >= 1
  bool mean_pooling;                     // else flatten
};

// x holds n images and y m of them, contiguous; k is n x m, contiguous. Symmetric means that y is x.
#define FASTDL_CNTK_BODIES(level)                                                                                     \
  namespace level {                                                                                                   \
  void cntk(const float* x, std::int64_t n, const float* y, std::int64_t m, bool symmetric, const CntkShape& shape,   \
            float* k);                                                                                                \
  void cntk(const double* x, std::int64_t n, const double* y, std::int64_t m, bool symmetric, const CntkShape& shape, \
            double* k);                                                                                               \
  }
FASTDL_DECLARE_LEVELS(FASTDL_CNTK_BODIES)
#undef FASTDL_CNTK_BODIES

}  // namespace fastdl::gram
