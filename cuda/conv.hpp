// Convolutions and pooling on the GPU, as the host calls them: the twin of csrc/conv. All arrays are on the device and
// contiguous in the order of their axes, but that x may have strides. Nothing is checked here.
//
//   out[n,o,p] = activation(bias[o] + sum over c, q of w[o,c,q] * x[n,c, stride*p + dilation*q - lower])
//
// T is float or double; `name` is the public function's, for messages.
#pragma once

#include "activation.hpp"
#include "device.hpp"

namespace fastdl::conv::cuda {

using fastdl::cuda::Activation;
using fastdl::cuda::Index;
using fastdl::cuda::Stream;

constexpr int axes = 3;

// Three axes of positions always: those that are missing come first and have one element.
struct Geometry {
  Index batch = 0, groups = 1, in_channels = 0, out_channels = 0;  // channels of one group
  Index in[axes] = {1, 1, 1}, kernel[axes] = {1, 1, 1}, out[axes] = {1, 1, 1};
  Index stride[axes] = {1, 1, 1}, lower[axes] = {0, 0, 0}, dilation[axes] = {1, 1, 1};

  static Index product(const Index (&extent)[axes]) { return extent[0] * extent[1] * extent[2]; }
  Index in_pixels() const { return product(in); }
  Index pixels() const { return product(out); }
  Index taps() const { return product(kernel); }
  // Elements along an axis from the first that any window sees to the last, padding among them.
  Index reach(int axis) const { return (out[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1; }
};

// Of x, in elements.
struct Strides {
  Index batch = 0, channel = 0, axis[axes] = {0, 0, 0};
};

inline Strides contiguous(Index channels, const Index (&extent)[axes]) {
  const Index plane = Geometry::product(extent);
  return {channels * plane, plane, {extent[1] * extent[2], extent[2], 1}};
}

enum class Padding { zeros, circular, reflect, replicate };
enum class Algorithm { automatic, direct, winograd };

template <class T>
void forward(const char* name, const Geometry& g, Padding padding, Activation activation, Algorithm algorithm,
             const T* x, const Strides& strides, const T* w, const T* bias, T* out, Stream stream);

// dx from w and grad, with zeros as padding. Also the transposed convolution of `grad`, with `bias` (or null) for the
// channels of dx.
template <class T>
void input_gradient(const char* name, const Geometry& g, const T* w, const T* grad, const T* bias, T* dx,
                    Stream stream);

template <class T>
void weight_gradient(const char* name, const Geometry& g, const T* x, const Strides& strides, const T* grad, T* dw,
                     Stream stream);

// Pooling of in_channels channels; out_channels, groups and dilation are not read. indices, which may be null, gets the
// place of each maximum in its plane.
template <class T>
void max_pool(const char* name, const Geometry& g, const T* x, T* out, Index* indices, Stream stream);
template <class T>
void avg_pool(const char* name, const Geometry& g, const T* x, bool padding_counts, T* out, Stream stream);
template <class T>
void max_pool_gradient(const char* name, const Geometry& g, const T* grad, const Index* indices, T* dx, Stream stream);
template <class T>
void avg_pool_gradient(const char* name, const Geometry& g, const T* grad, bool padding_counts, T* dx, Stream stream);

// Of two arrays with up to three axes: batch and channels of g are 1. A turned filter is read from its last tap on.
template <class T>
void correlate(const char* name, const Geometry& g, Padding padding, bool turned, const T* x, const T* w, T* out,
               Stream stream);

}  // namespace fastdl::conv::cuda
