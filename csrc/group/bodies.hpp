// The family's bodies, one set per instruction-set level, each compiled from its own *_isa.cpp.
#pragma once

#include "conv/geometry.hpp"
#include "core/isa.hpp"
#include "group/layer.hpp"

namespace fastdl::group {

// What signatures are taken of: samples and templates, rows of d numbers, and `order` permutations of these.
template <class T>
struct Products {
  const T *x, *templates;
  Index samples, count, d, order;
  const Index* permutations;
};

// What is summed over the orbit: `nonlinearity` of the product less each threshold, and powers of it.
struct Measures {
  const double* thresholds;
  Index cuts;
  const Index* powers;
  Index moments;
  Nonlinearity nonlinearity;
};

// orbit:         out = activation(bias + the layer of x), out (batch, out_channels, elements, pixels) contiguous, w as
//                the layer has it, contiguous; bias may be null. in_channels > 0, and out is not empty
// orbit_input:   the gradient for x, contiguous, from that for the output, which lies as the output does. Nothing is
//                empty
// orbit_weights: the gradient for w, likewise
// pool:          out[i][p] of x[i][element][p], both contiguous
// convolve:      out[i] = f[i] * h on a group of n elements: h[quotient[w*n + u]] goes with f[i][w] and out[i][u]
// signature:     out[samples][templates][cuts + moments]
// regularizer:   slope[k*n + i], half the gradient for G[k,i], and the value, of the Gramian G, n x n, symmetric
#define FASTDL_GROUP_TYPE(T)                                                                                     \
  void orbit(const Layer& layer, const Maps<const T>& x, const T* w, const T* bias, conv::Activation activation, \
             T* out);                                                                                            \
  void orbit_input(const Layer& layer, const T* w, const T* grad, T* dx);                                        \
  void orbit_weights(const Layer& layer, const Maps<const T>& x, const T* grad, T* dw);                          \
  void pool(const T* x, Index count, Index elements, Index pixels, Pool mode, T* out);                           \
  void convolve(const T* f, Index count, const T* h, Index n, const Index* quotient, T* out);                    \
  void signature(const Products<T>& products, const Measures& measures, T* out);

#define FASTDL_GROUP_BODIES(level)                                                              \
  namespace level {                                                                             \
  FASTDL_GROUP_TYPE(float)                                                                      \
  FASTDL_GROUP_TYPE(double)                                                                     \
  void regularizer(const double* gramian, Index n, double sigma, double* slope, double& value); \
  }
FASTDL_DECLARE_LEVELS(FASTDL_GROUP_BODIES)
#undef FASTDL_GROUP_BODIES

}  // namespace fastdl::group
