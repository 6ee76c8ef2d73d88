// Between arrays with any strides and contiguous ones, on the device: how views come in and go out where a kernel wants
// its elements in order.
#pragma once

#include "device.hpp"

namespace fastdl::cuda {

constexpr int most_axes = 8;

struct Layout {
  int axes = 0;
  Index extent[most_axes] = {}, stride[most_axes] = {};  // strides in elements
  Index size() const {
    Index product = 1;
    for (int axis = 0; axis < axes; ++axis) product *= extent[axis];
    return product;
  }
};

// to[0, 1, ...] = the elements of `from` in the order of its axes. T: float, double, std::int64_t.
template <class T>
void gather(const char* name, const T* from, const Layout& layout, T* to, Stream stream);
// The other way around.
template <class T>
void scatter(const char* name, const T* from, T* to, const Layout& layout, Stream stream);

}  // namespace fastdl::cuda
