// Group convolutions in C++: typed, throwing wrappers over the C interface (fastdl.h, where each contract is written).
// Arrays are pointers, contiguous in the order of their axes: x (batch, channels, elements, rows, columns), or without
// elements with lift; w (out, in, elements, rows, columns), likewise; results and gradients as in the formula there.
#pragma once

#include "fastdl/matrix.hpp"

namespace fastdl::group {

using Shape = fastdl_group_shape;

// out = activation(bias + the layer of x); x_strides may be null, as bias may
inline void conv(const Shape& shape, const float* x, const float* w, float* out, const float* bias = nullptr,
                 fastdl_activation activation = FASTDL_NO_ACTIVATION,
                 fastdl_group_algorithm algorithm = FASTDL_GROUP_AUTO, const std::int64_t* x_strides = nullptr) {
  throw_on_error(fastdl_group_conv_f32(&shape, activation, algorithm, x, x_strides, w, bias, out));
}
inline void conv(const Shape& shape, const double* x, const double* w, double* out, const double* bias = nullptr,
                 fastdl_activation activation = FASTDL_NO_ACTIVATION,
                 fastdl_group_algorithm algorithm = FASTDL_GROUP_AUTO, const std::int64_t* x_strides = nullptr) {
  throw_on_error(fastdl_group_conv_f64(&shape, activation, algorithm, x, x_strides, w, bias, out));
}

// The gradient for x
inline void conv_input(const Shape& shape, const float* w, const float* grad, float* dx,
                       fastdl_group_algorithm algorithm = FASTDL_GROUP_AUTO) {
  throw_on_error(fastdl_group_conv_input_f32(&shape, algorithm, w, grad, dx));
}
inline void conv_input(const Shape& shape, const double* w, const double* grad, double* dx,
                       fastdl_group_algorithm algorithm = FASTDL_GROUP_AUTO) {
  throw_on_error(fastdl_group_conv_input_f64(&shape, algorithm, w, grad, dx));
}

// The gradient for w
inline void conv_weight(const Shape& shape, const float* x, const float* grad, float* dw,
                        fastdl_group_algorithm algorithm = FASTDL_GROUP_AUTO, const std::int64_t* x_strides = nullptr) {
  throw_on_error(fastdl_group_conv_weight_f32(&shape, algorithm, x, x_strides, grad, dw));
}
inline void conv_weight(const Shape& shape, const double* x, const double* grad, double* dw,
                        fastdl_group_algorithm algorithm = FASTDL_GROUP_AUTO, const std::int64_t* x_strides = nullptr) {
  throw_on_error(fastdl_group_conv_weight_f64(&shape, algorithm, x, x_strides, grad, dw));
}

}  // namespace fastdl::group
