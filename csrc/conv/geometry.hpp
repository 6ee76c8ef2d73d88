// The shape of a convolution, and the arrays it goes over. Three spatial axes always; missing ones, of extent 1, come
// first.
#pragma once

#include <cstdint>

namespace fastdl::conv {

using Index = std::int64_t;
inline constexpr int axes = 3;

struct Geometry {
  Index batch, groups;
  Index in_channels, out_channels;  // of one group
  Index in[axes], kernel[axes], out[axes];
  Index stride[axes], dilation[axes];
  Index lower[axes];  // padding before the first element; what lies behind the last one follows from `out`

  Index taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  Index pixels() const { return out[0] * out[1] * out[2]; }
  Index in_pixels() const { return in[0] * in[1] * in[2]; }
};

// An array (batch, channels, depth, height, width), of any strides.
template <class T>
struct Images {
  T* data;
  Index batch, channel;  // strides
  Index axis[axes];
};

// 3 x 3 filters for Winograd's algorithm: plain ones, (out, in, taps), or transformed ones. Turned ones lie as the
// opposite convolution has them, (in, out, taps from the last to the first).
template <class T>
struct WinogradFilters {
  const T* plain;
  const T* transformed = nullptr;
  bool turned = false;
};

// Elements between the positions of Winograd's transformed filters, beside the filters themselves.
inline constexpr Index winograd_apart = 16;

enum class Activation { none, relu, leaky_relu, sigmoid, tanh };

}  // namespace fastdl::conv
