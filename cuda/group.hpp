// The group family on the GPU, as the host calls it. Pointers are device memory and arrays contiguous, but for x of the
// layers, whose strides count elements and may be zero or negative; extents of zero are valid. Work is queued on the
// stream; what fails is thrown with the name of the public function in front. Arguments have been checked by the
// caller. T: float, double.
#pragma once

#include "activation.hpp"
#include "device.hpp"

namespace fastdl::group::cuda {

using fastdl::cuda::Activation;
using fastdl::cuda::Index;
using fastdl::cuda::Stream;

// The groups of the plane as in csrc/group/layer.hpp. `one` has the identity alone: a layer on it is a plain
// convolution, and what makes one out of the others is `plain`.
enum class Planar { p2, p4, pm, p4m, one };
inline int order_of(Planar group) {
  return group == Planar::one ? 1 : group == Planar::p4 ? 4 : group == Planar::p4m ? 8 : 2;
}

enum class Algorithm { automatic, expand, orbit };
enum class Pool { max, mean, sum, l2 };
enum class Nonlinearity { step, cdf, sigmoid, tanh, relu };

// Channels are those of one element; an input channel has one plane if the layer lifts, else one for every element.
// Extents, strides and padding are below 2^30.
struct Layer {
  Planar group;
  bool lift;
  Index batch, in_channels, out_channels;
  Index in[2], out[2], k;
  Index stride[2], lower[2];

  int elements() const { return order_of(group); }
  int planes() const { return lift ? 1 : elements(); }
  Index taps() const { return k * k; }
  Index pixels() const { return out[0] * out[1]; }
};

// Of x: (batch, channels, elements, rows, columns); a layer that lifts has no elements.
struct Strides {
  Index batch, channel, element, row, column;
};

// out = activation(bias + the layer of x); bias may be null.
template <class T>
void conv(const Layer& layer, Algorithm algorithm, Activation activation, const T* x, const Strides& strides,
          const T* w, const T* bias, T* out, Stream stream);
// The gradient for x, contiguous, from that for the output.
template <class T>
void conv_input(const Layer& layer, Algorithm algorithm, const T* w, const T* grad, T* dx, Stream stream);
// The gradient for w.
template <class T>
void conv_weight(const Layer& layer, Algorithm algorithm, const T* x, const Strides& strides, const T* grad, T* dw,
                 Stream stream);
// The layer by orbits in one kernel, if it is one that this is for: whose output channels fill less than three quarters
// of the tiles of the matrix-product engine.
template <class T>
bool fused_conv(const char* name, const Layer& layer, Activation activation, const T* x, const Strides& strides,
                const T* w, const T* bias, T* out, Stream stream);
// Bytes of scratch memory that the layers keep to by taking pixels and channels in portions, if one portion of the
// least size does not take more. Gives the number before. (For tests: 64 MB otherwise.)
Index limit_scratch(Index bytes);

// out[o,s,i,t] = A_s w[o,i,s^-1 t], or A_s w[o,i] where it lifts: filters of a plain convolution.
template <class T>
void expand(const Layer& layer, const T* w, T* out, Stream stream);
// dw[o,i,u] = sum over s of A_s^-1 G[o,s,i,su] of the gradient G for these.
template <class T>
void contract(const Layer& layer, const T* expanded, T* dw, Stream stream);

// out[i][p] of x[i][element][p]
template <class T>
void pool(const T* x, Index count, Index elements, Index pixels, Pool mode, T* out, Stream stream);

// out[i] = f[i] * h on a group of n elements: h[quotient[w*n + u]] goes with f[i][w] and out[i][u].
template <class T>
void convolve(const T* f, Index count, const T* h, Index n, const Index* quotient, T* out, Stream stream);

// out[samples][count][cuts + moments]: sums over the orbit, of `order` permutations of d numbers. All tables are on the
// device; thresholds are numbers of T.
template <class T>
struct Signature {
  const T *x, *templates;
  Index samples, count, d, order;
  const Index* permutations;
  const double* thresholds;
  Index cuts;
  const Index* powers;
  Index moments;
  Nonlinearity nonlinearity;
};
template <class T>
void signature(const Signature<T>& wanted, T* out, Stream stream);

// The gradient of the regulariser of W, d x n with n below 2^15, and its value, for which it waits.
template <class T>
double regularizer(const T* w, Index d, Index n, double sigma, T* gradient, Stream stream);

}  // namespace fastdl::group::cuda
