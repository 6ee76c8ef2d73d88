// The bodies of convolve and correlate, one set per instruction-set level, compiled from signal_isa.cpp.
#pragma once

#include <cstdint>

#include "core/isa.hpp"

namespace fastdl::conv {

inline constexpr int most_axes = 64;

// out[i] = sum over t of f[i + offset - t] h[t], over all axes, for i < out; what lies outside of f is zero. All arrays
// are contiguous. There may be several of f and of h, one after the other; out then holds, for each h, all of f.
template <class T>
struct Signal {
  int rank;
  std::int64_t f_size[most_axes], h_size[most_axes], out_size[most_axes], offset[most_axes];
  std::int64_t f_count, h_count;
  const T *f, *h;
  T* out;
};

// How a convolution by transforms is done. Along each axis the output is cut into tiles of `tile` numbers, each found
// by transforms of `length` real numbers (along the first axis) or complex ones (along the others). With one axis, the
// transform goes in two steps over a matrix: length = 2 * rows * columns.
struct Blocks {
  std::int64_t length[most_axes], tile[most_axes];
  std::int64_t rows, columns;
};

// direct: the sums, in order. Where h is finite, values of f spread only to the sums that hold them.
// by_transforms: a value that is not finite spreads over its tile.
#define FASTDL_SIGNAL_TYPE(T)           \
  void direct(const Signal<T>& signal); \
  void by_transforms(const Signal<T>& signal, const Blocks& blocks);

#define FASTDL_SIGNAL_BODIES(level) \
  namespace level {                 \
  FASTDL_SIGNAL_TYPE(float)         \
  FASTDL_SIGNAL_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_SIGNAL_BODIES)
#undef FASTDL_SIGNAL_BODIES

}  // namespace fastdl::conv
