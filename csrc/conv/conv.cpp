// Entry points of the forward convolution: check, then compute. (Gradients: gradients.cpp; pooling: pool.cpp.)
#include <memory>
#include <vector>

#include "conv/bodies.hpp"
#include "conv/checks.hpp"
#include "conv/forward.hpp"
#include "core/check.hpp"

namespace fastdl::conv {
namespace {

void check_algorithm(const char* name, const Geometry& g, fastdl_conv_algorithm algorithm) {
  if (algorithm < FASTDL_CONV_AUTO || algorithm > FASTDL_CONV_FFT)
    core::fail(name, "an algorithm of the list", std::to_string(int(algorithm)));
  if (algorithm == FASTDL_CONV_WINOGRAD && !winograd_fits(g))
    core::fail(name, "images and 3 x 3 filters of stride and dilation 1 for Winograd's algorithm",
               "a kernel of " + numbers(g.kernel, axes));
}

template <class T>
void compute(const fastdl_conv_shape* shape, fastdl_padding padding, fastdl_activation activation,
             fastdl_conv_algorithm algorithm, const T* data, const std::int64_t* strides, const Weights<T>& w,
             const T* bias, T* out) {
  constexpr const char* name = "conv.conv";
  const Geometry g = geometry_of(name, shape, false);
  if (padding < FASTDL_ZEROS || padding > FASTDL_REPLICATE)
    core::fail(name, "a padding of the list", std::to_string(int(padding)));
  if (activation < FASTDL_NO_ACTIVATION || activation > FASTDL_TANH)
    core::fail(name, "an activation of the list", std::to_string(int(activation)));
  check_algorithm(name, g, algorithm);
  check_data(name, "x", data, {g.batch, g.groups, g.in_channels, g.in_pixels()});
  check_data(name, "w", w.plain, {g.groups, g.in_channels, g.out_channels});
  check_data(name, "out", out, {g.batch, g.groups, g.out_channels, g.pixels()});
  if (empty(g)) return;
  const Images<const T> x = images_of(name, g, shape->rank, data, strides);
  // Copies of what the windows see, and filters with zeros between their taps.
  check_size(name, "padded x", {g.batch, g.groups, g.in_channels, seen(g, 0), seen(g, 1), seen(g, 2)});
  if (algorithm == FASTDL_CONV_FFT)
    check_size(name, "dilated w",
               {g.out_channels, g.in_channels, (g.kernel[0] - 1) * g.dilation[0] + 1,
                (g.kernel[1] - 1) * g.dilation[1] + 1, (g.kernel[2] - 1) * g.dilation[2] + 1});
  if (padding != FASTDL_ZEROS && g.in_channels > 0)
    for (int a = 0; a < axes; ++a) {
      const Index behind = seen(g, a) - g.lower[a] - g.in[a];
      if (g.lower[a] <= 0 && behind <= 0) continue;
      if (g.in[a] == 0) core::fail(name, "positions to pad with along axis " + std::to_string(a), "none");
      if (padding == FASTDL_REFLECT && (g.lower[a] >= g.in[a] || behind >= g.in[a]))
        core::fail(name, "padding below " + std::to_string(g.in[a]) + " along axis " + std::to_string(a),
                   std::to_string(g.lower[a]) + " and " + std::to_string(behind));
    }
  forward_padded(g, x, padding, w, bias, static_cast<Activation>(activation), algorithm, out);
}

// Weights and, where they will serve, transformed filters, for many convolutions.
template <class T>
struct Filters {
  fastdl_conv_shape shape;  // of the weights; the rest is that of the calls
  fastdl_conv_algorithm algorithm;
  std::vector<T> weights, filters;
  int tile = 0;
};

template <class Made, class T>
Made* prepare(const fastdl_conv_shape* shape, fastdl_conv_algorithm algorithm, const T* w) {
  constexpr const char* name = "conv.prepare";
  const Geometry g = geometry_of(name, shape, false);
  check_algorithm(name, g, algorithm);
  check_data(name, "w", w, {g.groups, g.in_channels, g.out_channels});
  auto made = std::make_unique<Made>();
  made->shape = *shape;
  made->algorithm = algorithm;
  made->weights.assign(w, w + g.groups * g.out_channels * g.in_channels * g.taps());
  made->tile = tile_of(g, Weights<T>{w}, algorithm);
  if (made->tile) {
    const Index side = made->tile + 2;
    made->filters.resize(
        std::size_t(g.groups * side * side * ((g.out_channels + 5) / 6 * 6 * g.in_channels + winograd_apart)));
    FASTDL_DISPATCH(winograd_filters(g, w, made->tile, made->filters.data()));
  }
  return made.release();
}

template <class T>
void compute_prepared(const Filters<T>* filters, const fastdl_conv_shape* shape, fastdl_padding padding,
                      fastdl_activation activation, const T* x, const std::int64_t* strides, const T* bias, T* out) {
  constexpr const char* name = "conv.prepared";
  if (!filters || !shape) core::fail(name, "filters and a shape", "NULL");
  const fastdl_conv_shape& made = filters->shape;
  bool same = shape->rank == made.rank && shape->in_channels == made.in_channels &&
              shape->out_channels == made.out_channels && shape->groups == made.groups;
  for (int a = 0; same && a < made.rank; ++a)
    same = shape->kernel[a] == made.kernel[a] && shape->stride[a] == made.stride[a] &&
           shape->dilation[a] == made.dilation[a];
  if (!same) {
    const auto text = [](const fastdl_conv_shape& s) {
      return std::to_string(s.in_channels) + " to " + std::to_string(s.out_channels) + " channels in " +
             std::to_string(s.groups) + " groups, kernel " + numbers(s.kernel, s.rank) + ", stride " +
             numbers(s.stride, s.rank) + ", dilation " + numbers(s.dilation, s.rank);
    };
    core::fail(name, "what the filters were made for, " + text(made),
               shape->rank == made.rank ? text(*shape) : "another rank, " + std::to_string(shape->rank));
  }
  const Weights<T> weights{filters->weights.data(), filters->tile ? filters->filters.data() : nullptr, filters->tile};
  compute<T>(shape, padding, activation, filters->algorithm, x, strides, weights, bias, out);
}

}  // namespace
}  // namespace fastdl::conv

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                               \
  fastdl_status fastdl_conv_##suffix(const fastdl_conv_shape* shape, fastdl_padding padding,                    \
                                     fastdl_activation activation, fastdl_conv_algorithm algorithm, const T* x, \
                                     const int64_t* x_strides, const T* w, const T* bias, T* out) {             \
    return core::guarded(                                                                                       \
        [&] { conv::compute<T>(shape, padding, activation, algorithm, x, x_strides, {w}, bias, out); });        \
  }                                                                                                             \
  struct fastdl_conv_filters_##suffix : conv::Filters<T> {};                                                    \
  fastdl_status fastdl_conv_prepare_##suffix(const fastdl_conv_shape* shape, fastdl_conv_algorithm algorithm,   \
                                             const T* w, fastdl_conv_filters_##suffix** filters) {              \
    return core::guarded([&] {                                                                                  \
      if (!filters) core::fail("conv.prepare", "a place for the filters", "NULL");                              \
      *filters = conv::prepare<fastdl_conv_filters_##suffix>(shape, algorithm, w);                              \
    });                                                                                                         \
  }                                                                                                             \
  void fastdl_conv_filters_free_##suffix(fastdl_conv_filters_##suffix* filters) { delete filters; }             \
  fastdl_status fastdl_conv_prepared_##suffix(                                                                  \
      const fastdl_conv_filters_##suffix* filters, const fastdl_conv_shape* shape, fastdl_padding padding,      \
      fastdl_activation activation, const T* x, const int64_t* x_strides, const T* bias, T* out) {              \
    return core::guarded(                                                                                       \
        [&] { conv::compute_prepared<T>(filters, shape, padding, activation, x, x_strides, bias, out); });      \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
