// The forward convolution, by whichever algorithm is best.
#pragma once

#include <algorithm>

#include "conv/geometry.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::conv {

// Weights, and what was made of them beforehand: filters for Winograd's algorithm by tiles of that side, or none.
template <class T>
struct Weights {
  const T* plain;
  const T* filters = nullptr;
  int tile = 0;
};

// Axes that the windows do not move along are one: 1 x 1 filters see a row of pixels.
template <class T>
void join_axes(Geometry& g, Images<T>& x) {
  const auto plain = [&](int a) {
    return g.kernel[a] == 1 && g.stride[a] == 1 && g.lower[a] == 0 && g.in[a] == g.out[a];
  };
  for (int a = axes - 2; a >= 0; --a) {
    if (!plain(a) || !plain(2) || (a == 0 && g.in[1] != 1) || (g.in[a] != 1 && x.axis[a] != x.axis[2] * g.in[2]))
      return;
    g.in[2] *= g.in[a];
    g.out[2] *= g.out[a];
    g.in[a] = g.out[a] = 1;
  }
}

// Whether Winograd's algorithm can compute this.
bool winograd_fits(const Geometry& g);

// The side of Winograd's tiles for a call, or 0 if another algorithm is to run.
template <class T>
int tile_of(const Geometry& g, const Weights<T>& w, fastdl_conv_algorithm algorithm);

// With zeros around x.
template <class T>
void forward(const Geometry& g, const Images<const T>& x, const Weights<T>& w, const T* bias, Activation activation,
             fastdl_conv_algorithm algorithm, T* out);

// With any surroundings, which must be there: checked by the caller.
template <class T>
void forward_padded(const Geometry& g, const Images<const T>& x, fastdl_padding padding, const Weights<T>& w,
                    const T* bias, Activation activation, fastdl_conv_algorithm algorithm, T* out);

// A window along an axis, with what lies between its taps.
inline Index reach(const Geometry& g, int a) { return (g.kernel[a] - 1) * g.dilation[a] + 1; }

// What the windows see of an image, from position -lower on, along an axis.
inline Index seen(const Geometry& g, int a) { return (g.out[a] - 1) * g.stride[a] + reach(g, a); }

// f(first image, how many) for the batch in parts whose copies, of `bytes` an image, take about 16 MB.
template <class Function>
void in_parts(Index batch, Index bytes, const Function& f) {
  const Index step = std::max<Index>(1, (Index{16} << 20) / (bytes + 1));
  for (Index first = 0; first < batch; first += step) f(first, std::min(step, batch - first));
}

}  // namespace fastdl::conv
