// Entry points of pooling and its gradients.
#include "conv/bodies.hpp"
#include "conv/checks.hpp"
#include "core/check.hpp"

namespace fastdl::conv {
namespace {

Geometry pool_geometry(const char* name, const fastdl_conv_shape* shape) {
  const Geometry g = geometry_of(name, shape, true);
  for (int a = 0; a < axes; ++a)
    if (g.out[a] > 0 &&
        (g.lower[a] < 0 || g.lower[a] >= g.kernel[a] || (g.out[a] - 1) * g.stride[a] - g.lower[a] >= g.in[a]))
      core::fail(name, "windows that all hold a position of x",
                 std::to_string(g.out[a]) + " of " + std::to_string(g.kernel[a]) + " positions, from " +
                     std::to_string(-g.lower[a]) + " on");
  return g;
}

template <class T>
void compute_max(const fastdl_conv_shape* shape, const T* data, const std::int64_t* strides, T* out,
                 std::int64_t* indices) {
  constexpr const char* name = "conv.max_pool";
  const Geometry g = pool_geometry(name, shape);
  check_data(name, "x", data, {g.batch, g.in_channels, g.in_pixels()});
  check_data(name, "out", out, {g.batch, g.in_channels, g.pixels()});
  if (empty(g)) return;
  const Images<const T> x = images_of(name, g, shape->rank, data, strides);
  FASTDL_DISPATCH(max_pool(g, x, out, indices));
}

template <class T>
void compute_average(const fastdl_conv_shape* shape, const T* data, const std::int64_t* strides, bool padding_counts,
                     T* out) {
  constexpr const char* name = "conv.avg_pool";
  const Geometry g = pool_geometry(name, shape);
  check_data(name, "x", data, {g.batch, g.in_channels, g.in_pixels()});
  check_data(name, "out", out, {g.batch, g.in_channels, g.pixels()});
  if (empty(g)) return;
  const Images<const T> x = images_of(name, g, shape->rank, data, strides);
  FASTDL_DISPATCH(average_pool(g, x, padding_counts, out));
}

template <class T>
void compute_max_gradient(const fastdl_conv_shape* shape, const T* grad, const std::int64_t* indices, T* dx) {
  constexpr const char* name = "conv.max_pool_grad";
  const Geometry g = geometry_of(name, shape, true);
  check_data(name, "dx", dx, {g.batch, g.in_channels, g.in_pixels()});
  check_data(name, "grad", grad, {g.batch, g.in_channels, g.pixels()});
  check_data(name, "indices", indices, {g.batch, g.in_channels, g.pixels()});
  for (Index i = 0; i < g.batch * g.in_channels * g.pixels(); ++i)
    if (indices[i] < 0 || indices[i] >= g.in_pixels())
      core::fail(name, "indices from 0 to " + std::to_string(g.in_pixels() - 1), std::to_string(indices[i]));
  if (g.in_pixels() == 0) return;  // of however many planes
  FASTDL_DISPATCH(max_pool_gradient(g, grad, indices, dx));
}

template <class T>
void compute_average_gradient(const fastdl_conv_shape* shape, const T* grad, bool padding_counts, T* dx) {
  constexpr const char* name = "conv.avg_pool_grad";
  const Geometry g = pool_geometry(name, shape);
  check_data(name, "dx", dx, {g.batch, g.in_channels, g.in_pixels()});
  check_data(name, "grad", grad, {g.batch, g.in_channels, g.pixels()});
  if (g.in_pixels() == 0) return;
  FASTDL_DISPATCH(average_pool_gradient(g, grad, padding_counts, dx));
}

}  // namespace
}  // namespace fastdl::conv

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                      \
  fastdl_status fastdl_max_pool_##suffix(const fastdl_conv_shape* shape, const T* x, const int64_t* x_strides, T* out, \
                                         int64_t* indices) {                                                           \
    return core::guarded([&] { conv::compute_max<T>(shape, x, x_strides, out, indices); });                            \
  }                                                                                                                    \
  fastdl_status fastdl_avg_pool_##suffix(const fastdl_conv_shape* shape, const T* x, const int64_t* x_strides,         \
                                         int padding_counts, T* out) {                                                 \
    return core::guarded([&] { conv::compute_average<T>(shape, x, x_strides, padding_counts != 0, out); });            \
  }                                                                                                                    \
  fastdl_status fastdl_max_pool_grad_##suffix(const fastdl_conv_shape* shape, const T* grad, const int64_t* indices,   \
                                              T* dx) {                                                                 \
    return core::guarded([&] { conv::compute_max_gradient<T>(shape, grad, indices, dx); });                            \
  }                                                                                                                    \
  fastdl_status fastdl_avg_pool_grad_##suffix(const fastdl_conv_shape* shape, const T* grad, int padding_counts,       \
                                              T* dx) {                                                                 \
    return core::guarded([&] { conv::compute_average_gradient<T>(shape, grad, padding_counts != 0, dx); });            \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
