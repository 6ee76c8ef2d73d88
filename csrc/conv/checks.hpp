// What every entry of the convolutions checks, and how its arguments are seen from then on.
#pragma once

#include <initializer_list>
#include <string>

#include "conv/geometry.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::conv {

std::string numbers(const Index* values, int count);

// An array of these extents must fit into the address space.
void check_size(const char* name, const char* label, std::initializer_list<Index> extents);

// Refuses a null pointer, unless an extent is 0.
void check_data(const char* name, const char* label, const void* data, std::initializer_list<Index> extents);

Geometry geometry_of(const char* name, const fastdl_conv_shape* shape, bool pooling);

inline bool empty(const Geometry& g) { return g.batch * g.groups * g.out_channels * g.pixels() == 0; }

template <class T>
Images<T> contiguous(T* data, Index channels, const Index* extent) {
  Images<T> images{data, 0, 0, {extent[1] * extent[2], extent[2], 1}};
  images.channel = extent[0] * images.axis[0];
  images.batch = channels * images.channel;
  return images;
}

inline Geometry some_images(Geometry g, Index images) {
  g.batch = images;
  return g;
}

template <class T>
Images<T> from_image(Images<T> x, Index first) {
  x.data += first * x.batch;
  return x;
}

// For algorithms that mix the numbers of an image and so spread what is not finite. mixed(first, images) tells whether
// all were; images that were not are computed anew by sums, each by itself: what becomes of an image does not depend on
// those beside it.
template <class Mixed, class Sums>
void without_spreading(Index batch, const Mixed& mixed, const Sums& by_sums) {
  if (mixed(Index{0}, batch)) return;
  for (Index image = 0; image < batch; ++image)
    if (batch == 1 || !mixed(image, Index{1})) by_sums(image);
}

// x by its strides, or contiguous if they are null. Elements must lie within the address space.
template <class T>
Images<const T> images_of(const char* name, const Geometry& g, int rank, const T* x, const std::int64_t* strides);

}  // namespace fastdl::conv
