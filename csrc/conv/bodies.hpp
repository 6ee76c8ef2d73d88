// The family's bodies, one set per instruction-set level, each compiled from its own *_isa.cpp.
#pragma once

#include "conv/geometry.hpp"
#include "core/isa.hpp"

namespace fastdl::conv {

// direct:    out = activation(bias + w applied to x), out (batch, channels, pixels) contiguous, w (out, in, taps) of
//            all groups; bias may be null
// planes:    the same, for few input channels a group, but not none
// depthwise: the same, for planes of groups of one channel and one filter
// depthwise_rows: the same, for 3 x 3 filters of stride 1 or 2, without dilation; rows are contiguous, and padded by
// one
//            on the left, on the right by one or, with stride 2, perhaps none
// winograd:  the same, for 3 x 3 filters of stride and dilation 1, by tiles of m x m, m = 2 or 4; rows of x are
//            contiguous. finite becomes false if a value of out is not: the transforms spread those over their tile
// winograd_filters: transformed filters, groups x (m + 2)^2 x (out_channels, rounded up to 6, x in_channels and 16
//            more). They are the same at every level
// weights:   the gradient with respect to w, from that with respect to the output, which lies as the output does
// winograd_weights: the same, for what winograd is for
// *_pool:    of the channels of x, out contiguous (dilation 1, groups 1, in_channels all channels); indices may be null
#define FASTDL_CONV_TYPE(T)                                                                                           \
  void direct(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, T* out); \
  void planes(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, T* out); \
  void depthwise(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation,       \
                 T* out);                                                                                             \
  void depthwise_rows(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation,  \
                      T* out);                                                                                        \
  void winograd(const Geometry& g, const Images<const T>& x, const WinogradFilters<T>& w, const T* bias,              \
                Activation activation, int m, T* out, bool& finite);                                                  \
  void winograd_filters(const Geometry& g, const T* w, int m, T* to);                                                 \
  void weights(const Geometry& g, const Images<const T>& x, const T* grad, T* dw);                                    \
  void winograd_weights(const Geometry& g, const Images<const T>& x, const T* grad, T* dw, bool& finite);             \
  void max_pool(const Geometry& g, const Images<const T>& x, T* out, Index* indices);                                 \
  void average_pool(const Geometry& g, const Images<const T>& x, bool padding_counts, T* out);                        \
  void max_pool_gradient(const Geometry& g, const T* grad, const Index* indices, T* dx);                              \
  void average_pool_gradient(const Geometry& g, const T* grad, bool padding_counts, T* dx);

#define FASTDL_CONV_BODIES(level) \
  namespace level {               \
  FASTDL_CONV_TYPE(float)         \
  FASTDL_CONV_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_CONV_BODIES)
#undef FASTDL_CONV_BODIES

}  // namespace fastdl::conv
