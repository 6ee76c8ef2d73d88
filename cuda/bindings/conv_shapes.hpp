// What the bindings of the convolutions share: shapes as the kernels take them, checked.
#pragma once

#include "conv.hpp"

#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {

void register_conv_pool(py::module_& conv);
void register_conv_signal(py::module_& conv);

// in, out: shapes (N, C, ...) of the convolution's input and output.
inline conv::cuda::Geometry geometry_of(const Sizes& in, const Sizes& out, const Sizes& kernel, const Sizes& stride,
                                        const Sizes& lower, const Sizes& dilation, std::int64_t groups) {
  using conv::cuda::axes;
  if (in.size() < 3 || in.size() > 5 || out.size() != in.size() || in[0] != out[0])
    throw py::value_error("expected arrays (N, C, ...) of one batch with 1 to 3 axes of positions, got " +
                          std::to_string(in.size()) + " and " + std::to_string(out.size()) + " dimensions");
  if (groups < 1 || in[1] % groups != 0 || out[1] % groups != 0)
    throw py::value_error("groups: expected a divisor of " + std::to_string(in[1]) + " and " + std::to_string(out[1]) +
                          " channels, got " + std::to_string(groups));
  const std::size_t rank = in.size() - 2;
  const auto checked = [&](const Sizes& values, const char* name, std::int64_t least) {
    if (values.size() != rank)
      throw py::value_error(std::string(name) + ": expected " + std::to_string(rank) + " numbers, got " +
                            std::to_string(values.size()));
    for (const std::int64_t value : values)
      if (value < least || value > (std::int64_t{1} << 40))
        throw py::value_error(std::string(name) + ": expected numbers from " + std::to_string(least) +
                              " to 2^40, got " + std::to_string(value));
  };
  checked(kernel, "kernel", 1);
  checked(stride, "stride", 1);
  checked(lower, "padding", 0);
  checked(dilation, "dilation", 1);
  conv::cuda::Geometry g;
  g.batch = in[0];
  g.groups = groups;
  g.in_channels = in[1] / groups;
  g.out_channels = out[1] / groups;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t to = std::size_t(axes) - rank + axis;
    g.in[to] = in[2 + axis];
    g.out[to] = out[2 + axis];
    g.kernel[to] = kernel[axis];
    g.stride[to] = stride[axis];
    g.lower[to] = lower[axis];
    g.dilation[to] = dilation[axis];
  }
  return g;
}

// Kernels count positions along an axis and in a plane in 32 bits.
inline void check_positions(const conv::cuda::Geometry& g) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const auto check = [&](std::int64_t reach) {
    if (reach >= most)
      throw py::value_error("expected positions below 2^30 along an axis on a CUDA device, got " +
                            std::to_string(reach));
  };
  for (int a = 0; a < conv::cuda::axes; ++a) {
    for (const std::int64_t extent : {g.in[a], g.out[a], g.lower[a], g.kernel[a], g.stride[a] / 2, g.dilation[a] / 2})
      check(extent);
    check((g.out[a] - 1) * g.stride[a]);
    check((g.kernel[a] - 1) * g.dilation[a]);
  }
  for (const auto& extent : {g.in, g.out, g.kernel})
    if (double(extent[0]) * double(extent[1]) * double(extent[2]) >= 2 * double(most))
      throw py::value_error("expected planes of fewer than 2^31 positions on a CUDA device, got " +
                            std::to_string(extent[0]) + " x " + std::to_string(extent[1]) + " x " +
                            std::to_string(extent[2]));
}

}  // namespace fastdl::cuda::bindings
