// The shape of a layer on a group of the plane, and where the group moves the pixels of a filter.
#pragma once

#include <cstdint>

namespace fastdl::group {

using Index = std::int64_t;

// In the order of the C interface. An element flips f times the rows of what was turned r times, counter-clockwise:
//   p2: r = 0, 2      p4: r = 0 to 3      pm: f = 0, 1      p4m: f, r, number 4 f + r
enum class Planar { p2, p4, pm, p4m };
inline constexpr int most_elements = 8;

// Inlined always: bodies of different levels must not share a copy.
#define FASTDL_GROUP_INLINE inline __attribute__((always_inline))

FASTDL_GROUP_INLINE int order_of(Planar group) { return group == Planar::p4 ? 4 : group == Planar::p4m ? 8 : 2; }
FASTDL_GROUP_INLINE int turns_of(Planar group, int element) {
  return group == Planar::p2 ? 2 * element : group == Planar::pm ? 0 : element % 4;
}
FASTDL_GROUP_INLINE int flips_of(Planar group, int element) {
  return group == Planar::pm ? element : group == Planar::p4m ? element / 4 : 0;
}

// The pixel of a k x k filter, i*k + j, to which an element moves another.
FASTDL_GROUP_INLINE Index moved(Planar group, int element, Index k, Index pixel) {
  Index i = pixel / k, j = pixel % k;
  for (int turn = 0; turn < turns_of(group, element); ++turn) {
    const Index row = k - 1 - j;
    j = i;
    i = row;
  }
  return (flips_of(group, element) ? k - 1 - i : i) * k + j;
}

FASTDL_GROUP_INLINE int product_of(Planar group, int a, int b) {
  const int flips = flips_of(group, a) ^ flips_of(group, b);
  const int turns = ((flips_of(group, b) ? 4 - turns_of(group, a) : turns_of(group, a)) + turns_of(group, b)) % 4;
  return group == Planar::p2 ? turns / 2 : group == Planar::pm ? flips : 4 * flips + turns;
}
FASTDL_GROUP_INLINE int inverse_of(Planar group, int a) {
  int b = 0;
  while (product_of(group, a, b) != 0) ++b;
  return b;
}

// Channels are those of one element; an input channel has one plane if the layer lifts, else one for every element.
struct Layer {
  Planar group;
  bool lift;
  Index batch, in_channels, out_channels;
  Index in[2], out[2], k;
  Index stride[2], lower[2];

  FASTDL_GROUP_INLINE int elements() const { return order_of(group); }
  FASTDL_GROUP_INLINE int planes() const { return lift ? 1 : elements(); }
  FASTDL_GROUP_INLINE Index taps() const { return k * k; }
  FASTDL_GROUP_INLINE Index pixels() const { return out[0] * out[1]; }
};

// An array (batch, planes, rows, columns), of any strides.
template <class T>
struct Maps {
  T* data;
  Index batch, plane, row, column;
};

enum class Pool { max, mean, sum, l2 };
enum class Nonlinearity { step, cdf, sigmoid, tanh, relu };

}  // namespace fastdl::group
