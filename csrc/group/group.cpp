// Entry points of the layers on groups of the plane: check, choose an algorithm, compute.
#include <new>
#include <string>

#include "conv/checks.hpp"
#include "core/check.hpp"
#include "core/scratch.hpp"
#include "core/stride.hpp"
#include "core/threads.hpp"
#include "group/bodies.hpp"

namespace fastdl::group {
namespace {

using conv::check_data;
using conv::check_size;

// The plain convolutions in each type.
template <class T>
struct Plain;
#define FASTDL_PLAIN(T, suffix)                                 \
  template <>                                                   \
  struct Plain<T> {                                             \
    static constexpr auto forward = fastdl_conv_##suffix;       \
    static constexpr auto input = fastdl_conv_input_##suffix;   \
    static constexpr auto weight = fastdl_conv_weight_##suffix; \
  };
FASTDL_PLAIN(float, f32)
FASTDL_PLAIN(double, f64)

void pass_on(fastdl_status status) {
  if (status == FASTDL_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status == FASTDL_INVALID_ARGUMENT) throw core::InvalidArgument(fastdl_last_error());
  if (status == FASTDL_INTERRUPTED) throw core::Interrupted();
  if (status != FASTDL_OK) throw std::runtime_error(fastdl_last_error());
}

Planar planar_of(const char* name, fastdl_planar_group group) {
  if (group < FASTDL_P2 || group > FASTDL_P4M) core::fail(name, "a group of the list", std::to_string(int(group)));
  return static_cast<Planar>(group);
}

Layer layer_of(const char* name, const fastdl_group_shape* shape) {
  if (!shape) core::fail(name, "a shape", "NULL");
  const auto within = [&](const char* label, const std::int64_t* values, Index least) {
    for (int a = 0; a < 2; ++a)
      if (values[a] < least || values[a] > (Index{1} << 31))
        core::fail(name, std::string(label) + " from " + std::to_string(least) + " to 2^31", conv::numbers(values, 2));
  };
  within("in", shape->in, 0);
  within("out", shape->out, 0);
  within("stride", shape->stride, 1);
  within("lower", shape->lower, -(Index{1} << 31));
  if (shape->kernel < 1 || shape->kernel > (Index{1} << 15))
    core::fail(name, "filters of a side from 1 to 2^15", std::to_string(shape->kernel));
  const Index counts[] = {shape->batch, shape->in_channels, shape->out_channels};
  for (Index count : counts)
    if (count < 0) core::fail(name, "a batch and channels of at least 0", conv::numbers(counts, 3));
  Layer layer{planar_of(name, shape->group),
              shape->lift != 0,
              shape->batch,
              shape->in_channels,
              shape->out_channels,
              {shape->in[0], shape->in[1]},
              {shape->out[0], shape->out[1]},
              shape->kernel,
              {shape->stride[0], shape->stride[1]},
              {shape->lower[0], shape->lower[1]}};
  const Index elements = layer.elements();
  check_size(name, "x", {layer.batch, layer.in_channels, elements, layer.in[0], layer.in[1]});
  check_size(name, "out", {layer.batch, layer.out_channels, elements, layer.out[0], layer.out[1]});
  check_size(name, "expanded w", {layer.out_channels, layer.in_channels, 64, layer.k, layer.k});
  return layer;
}

void check_algorithm(const char* name, fastdl_group_algorithm algorithm) {
  if (algorithm < FASTDL_GROUP_AUTO || algorithm > FASTDL_GROUP_ORBIT)
    core::fail(name, "an algorithm of the list", std::to_string(int(algorithm)));
}

template <class T>
Maps<const T> maps_of(const char* name, const Layer& layer, const T* x, const std::int64_t* strides) {
  const Index planes = layer.in_channels * layer.planes(), pixels = layer.in[0] * layer.in[1];
  x = core::usable_data(x);
  if (!strides || layer.batch * planes * pixels == 0) return {x, planes * pixels, pixels, layer.in[1], 1};
  const Index extents[] = {layer.batch, planes, layer.in[0], layer.in[1]};
  Index reach = 0;
  for (int a = 0; a < 4; ++a) {
    Index bytes;
    if (extents[a] > 1 &&
        (strides[a] == INT64_MIN ||
         __builtin_mul_overflow(strides[a] < 0 ? -strides[a] : strides[a], extents[a] - 1, &bytes) ||
         __builtin_mul_overflow(bytes, Index{sizeof(T)}, &bytes) || __builtin_add_overflow(reach, bytes, &reach)))
      core::fail(name, "x within the address space",
                 std::to_string(extents[a]) + " elements with a stride of " + std::to_string(strides[a]));
  }
  const auto stride = [&](int a) { return core::usable_stride(extents[a], strides[a]); };
  return {x, stride(0), stride(1), stride(2), layer.in[1] == 1 ? 1 : strides[3]};
}

// to[o,s,i,t] = A_s w[o,i,s^-1 t], or A_s w[o,i]: filters of the plain convolution.
template <class T>
void expand(const Layer& layer, const T* w, T* to) {
  const int elements = layer.elements(), planes = layer.planes();
  const Index taps = layer.taps();
  core::Scratch scratch;
  Index* places = scratch.array<Index>(elements, taps);
  for (int s = 0; s < elements; ++s)
    for (Index q = 0; q < taps; ++q) places[s * taps + q] = moved(layer.group, s, layer.k, q);
  const int threads =
      layer.out_channels * layer.in_channels * elements * planes * taps < 20000 ? 1 : core::thread_count();
  core::parallel_for(layer.out_channels, threads, [&](Index o) {
    for (int s = 0; s < elements; ++s) {
      const Index* place = places + s * taps;
      for (Index i = 0; i < layer.in_channels; ++i)
        for (int t = 0; t < planes; ++t) {
          const int from_plane = layer.lift ? 0 : product_of(layer.group, inverse_of(layer.group, s), t);
          const T* from = w + ((o * layer.in_channels + i) * planes + from_plane) * taps;
          T* filter = to + (((o * elements + s) * layer.in_channels + i) * planes + t) * taps;
          for (Index q = 0; q < taps; ++q) filter[place[q]] = from[q];
        }
    }
  });
}

// dw[o,i,u] = sum over s of A_s^-1 G[o,s,i,su]: what `expand` spread comes together.
template <class T>
void gather(const Layer& layer, const T* expanded, T* dw) {
  const int elements = layer.elements(), planes = layer.planes();
  const Index taps = layer.taps();
  core::Scratch scratch;
  Index* places = scratch.array<Index>(elements, taps);
  for (int s = 0; s < elements; ++s)
    for (Index q = 0; q < taps; ++q) places[s * taps + q] = moved(layer.group, s, layer.k, q);
  core::parallel_for(layer.out_channels, core::thread_count(), [&](Index o) {
    for (Index i = 0; i < layer.in_channels; ++i)
      for (int u = 0; u < planes; ++u) {
        T* to = dw + ((o * layer.in_channels + i) * planes + u) * taps;
        for (Index q = 0; q < taps; ++q) to[q] = 0;
        for (int s = 0; s < elements; ++s) {
          const int t = layer.lift ? 0 : product_of(layer.group, s, u);
          const T* from = expanded + (((o * elements + s) * layer.in_channels + i) * planes + t) * taps;
          for (Index q = 0; q < taps; ++q) to[q] += from[places[s * taps + q]];
        }
      }
  });
}

fastdl_conv_shape plain_shape(const Layer& layer) {
  fastdl_conv_shape shape{};
  shape.rank = 2;
  shape.batch = layer.batch;
  shape.in_channels = layer.in_channels * layer.planes();
  shape.out_channels = layer.out_channels * layer.elements();
  shape.groups = 1;
  for (int a = 0; a < 2; ++a) {
    shape.in[a] = layer.in[a];
    shape.out[a] = layer.out[a];
    shape.kernel[a] = layer.k;
    shape.stride[a] = layer.stride[a];
    shape.lower[a] = layer.lower[a];
    shape.dilation[a] = 1;
  }
  return shape;
}

Index expanded_size(const Layer& layer) {
  return layer.out_channels * layer.elements() * layer.in_channels * layer.planes() * layer.taps();
}

// Whether a layer, or its weight gradient, is quicker by orbits than by the plain convolution with expanded filters, as
// measured on Zen 3 (docs/group.md). With few output channels, gathering the orbits takes longer than their products.
// Winograd's algorithm, which the plain convolution has for 3 x 3 filters, costs about |G|^2 9 / 3.6 products where
// orbits take 9 times 2 for p2 and pm, 5 for p4 and 12 for p4m: the less the smaller the image, whose tiles it does not
// fill. A layer that lifts has orbits smaller than the group for 3 x 3 filters.
bool orbits_pay(const Layer& layer, bool weights) {
  if (layer.lift) return layer.k > 3;
  const bool p4 = layer.group == Planar::p4, p4m = layer.group == Planar::p4m;
  const Index least = p4m ? 2 : p4 ? (weights ? 2 : 4) : (weights ? 4 : 8);
  if (layer.out_channels < least) return false;
  const bool winograd =
      layer.k == 3 && layer.stride[0] == 1 && layer.stride[1] == 1 && layer.in_channels * layer.elements() >= 16;
  const bool small = layer.pixels() < 576;
  if (p4m || !winograd) return true;
  if (p4) return weights || layer.in_channels < 16 || small;
  return weights ? layer.in_channels <= 8 : layer.in_channels <= 16 && small;
}

bool uses_orbits(const Layer& layer, fastdl_group_algorithm algorithm, bool weights = false) {
  return layer.in_channels > 0 &&
         (algorithm == FASTDL_GROUP_ORBIT || (algorithm == FASTDL_GROUP_AUTO && orbits_pay(layer, weights)));
}

template <class T>
void compute(const fastdl_group_shape* shape, fastdl_activation activation, fastdl_group_algorithm algorithm,
             const T* data, const std::int64_t* strides, const T* w, const T* bias, T* out) {
  constexpr const char* name = "group.conv2d";
  const Layer layer = layer_of(name, shape);
  check_algorithm(name, algorithm);
  if (activation < FASTDL_NO_ACTIVATION || activation > FASTDL_TANH)
    core::fail(name, "an activation of the list", std::to_string(int(activation)));
  check_data(name, "x", data, {layer.batch, layer.in_channels, layer.in[0], layer.in[1]});
  check_data(name, "w", w, {layer.in_channels, layer.out_channels});
  check_data(name, "out", out, {layer.batch, layer.out_channels, layer.pixels()});
  if (layer.batch * layer.out_channels * layer.pixels() == 0) return;
  const Maps<const T> x = maps_of(name, layer, data, strides);
  if (uses_orbits(layer, algorithm)) {
    FASTDL_DISPATCH(orbit(layer, x, w, bias, static_cast<conv::Activation>(activation), out));
    return;
  }
  core::Scratch scratch;
  T* filters = scratch.array<T>(expanded_size(layer) + 1);
  T* constants = bias ? scratch.array<T>(layer.out_channels, layer.elements()) : nullptr;
  expand(layer, w, filters);
  for (Index o = 0; bias && o < layer.out_channels * layer.elements(); ++o) constants[o] = bias[o / layer.elements()];
  const fastdl_conv_shape plain = plain_shape(layer);
  pass_on(
      Plain<T>::forward(&plain, FASTDL_ZEROS, activation, FASTDL_CONV_AUTO, data, strides, filters, constants, out));
}

// The layer that is the gradient of one with stride 1: filters rot180(A_t w[o,i,t^-1]), from outputs to inputs.
Layer opposite(const Layer& layer) {
  Layer back = layer;
  back.in_channels = layer.out_channels;
  back.out_channels = layer.in_channels;
  for (int a = 0; a < 2; ++a) {
    back.in[a] = layer.out[a];
    back.out[a] = layer.in[a];
    back.lower[a] = layer.k - 1 - layer.lower[a];
  }
  return back;
}

template <class T>
void turn_filters(const Layer& layer, const T* w, T* to) {
  const int elements = layer.elements();
  const Index taps = layer.taps();
  core::parallel_for(layer.in_channels, core::thread_count(), [&](Index i) {
    for (Index o = 0; o < layer.out_channels; ++o)
      for (int t = 0; t < elements; ++t) {
        const T* from = w + ((o * layer.in_channels + i) * elements + inverse_of(layer.group, t)) * taps;
        T* filter = to + ((i * layer.out_channels + o) * elements + t) * taps;
        for (Index q = 0; q < taps; ++q) filter[taps - 1 - moved(layer.group, t, layer.k, q)] = from[q];
      }
  });
}

bool strided(const Layer& layer) { return layer.stride[0] != 1 || layer.stride[1] != 1; }

// Whether the input gradient goes by the layer transposed (orbit_input), and not by the layer that it is without stride
// (orbit): the former adds the values of every orbit of an input channel to where they belong, the latter gathers those
// of every orbit of an output channel and turns the filters first, which counts with few pixels.
bool transposed(const Layer& layer) {
  const Index in = layer.in_channels, out = layer.out_channels;
  return layer.lift || strided(layer) || out >= 2 * in ||
         (layer.k >= 3 && out >= 16 && (layer.pixels() > 256 ? out : 4 * out) >= in);
}

// Whether the layer transposed is quicker than the plain gradient with expanded filters, as measured on Zen 3
// (docs/group.md): its sums are over the output channels alone, and with few of them to add the values takes longer
// than the products. The plain gradient is one convolution for every phase of a stride. With 1 x 1 filters it is a
// matrix product, and has Winograd's algorithm without stride for 3 x 3.
bool transposed_pays(const Layer& layer) {
  const bool two = layer.elements() == 2;
  const Index in = layer.in_channels, out = layer.out_channels;
  if (strided(layer) && (in <= 4 || layer.k == 1)) return true;
  if (layer.k == 1) return out >= (layer.lift && !two ? 8 : 16);
  if (two && layer.k == 3 && !strided(layer) && in >= 16 && layer.pixels() >= 256) return false;
  const Index least = layer.group == Planar::p4m ? 2 : two ? 8 : 4;
  return out >= (in <= 4 ? least / 2 : least);
}

template <class T>
void compute_input(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm, const T* w, const T* grad,
                   T* dx) {
  constexpr const char* name = "group.conv2d_input";
  const Layer layer = layer_of(name, shape);
  check_algorithm(name, algorithm);
  check_data(name, "w", w, {layer.in_channels, layer.out_channels});
  check_data(name, "grad", grad, {layer.batch, layer.out_channels, layer.pixels()});
  check_data(name, "dx", dx, {layer.batch, layer.in_channels, layer.in[0], layer.in[1]});
  if (layer.batch * layer.in_channels * layer.in[0] * layer.in[1] == 0) return;
  const Layer back = opposite(layer);
  const bool by_transposed = transposed(layer), empty = layer.out_channels * layer.pixels() == 0;
  const bool pays = by_transposed ? transposed_pays(layer) : orbits_pay(back, false);
  core::Scratch scratch;
  if (empty || algorithm == FASTDL_GROUP_EXPAND || (algorithm == FASTDL_GROUP_AUTO && !pays)) {
    T* filters = scratch.array<T>(expanded_size(layer) + 1);
    expand(layer, w, filters);
    const fastdl_conv_shape plain = plain_shape(layer);
    pass_on(Plain<T>::input(&plain, filters, grad, nullptr, dx));
  } else if (by_transposed) {
    FASTDL_DISPATCH(orbit_input(layer, w, grad, dx));
  } else {
    T* filters = scratch.array<T>(layer.in_channels * layer.out_channels, layer.elements() * layer.taps());
    turn_filters(layer, w, filters);
    const Index planes = layer.out_channels * layer.elements(), pixels = layer.pixels();
    const Maps<const T> from{grad, planes * pixels, pixels, layer.out[1], 1};
    FASTDL_DISPATCH(orbit(back, from, filters, nullptr, conv::Activation::none, dx));
  }
}

template <class T>
void compute_weight(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm, const T* data,
                    const std::int64_t* strides, const T* grad, T* dw) {
  constexpr const char* name = "group.conv2d_weight";
  const Layer layer = layer_of(name, shape);
  check_algorithm(name, algorithm);
  check_data(name, "x", data, {layer.batch, layer.in_channels, layer.in[0], layer.in[1]});
  check_data(name, "grad", grad, {layer.batch, layer.out_channels, layer.pixels()});
  check_data(name, "dw", dw, {layer.in_channels, layer.out_channels});
  const Index numbers = layer.in_channels * layer.out_channels * layer.planes() * layer.taps();
  if (numbers == 0) return;
  if (layer.batch * layer.pixels() == 0) {
    for (Index i = 0; i < numbers; ++i) dw[i] = 0;
    return;
  }
  const Maps<const T> x = maps_of(name, layer, data, strides);
  if (uses_orbits(layer, algorithm, true)) {
    FASTDL_DISPATCH(orbit_weights(layer, x, grad, dw));
    return;
  }
  core::Scratch scratch;
  T* expanded = scratch.array<T>(expanded_size(layer));
  const fastdl_conv_shape plain = plain_shape(layer);
  pass_on(Plain<T>::weight(&plain, data, strides, grad, expanded));
  gather(layer, expanded, dw);
}

template <class T>
void compute_expanded(fastdl_planar_group group, int lift, Index outputs, Index inputs, Index k, const T* w, T* out) {
  constexpr const char* name = "group.expand_filters";
  fastdl_group_shape shape{};
  shape.group = group;
  shape.lift = lift;
  shape.in_channels = inputs;
  shape.out_channels = outputs;
  shape.kernel = k;
  shape.stride[0] = shape.stride[1] = 1;
  const Layer layer = layer_of(name, &shape);
  check_data(name, "w", w, {inputs, outputs});
  check_data(name, "out", out, {inputs, outputs});
  if (inputs == 0 || outputs == 0) return;
  expand(layer, w, out);
}

}  // namespace
}  // namespace fastdl::group

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                      \
  fastdl_status fastdl_group_conv_##suffix(const fastdl_group_shape* shape, fastdl_activation activation,              \
                                           fastdl_group_algorithm algorithm, const T* x, const int64_t* x_strides,     \
                                           const T* w, const T* bias, T* out) {                                        \
    return core::guarded([&] { group::compute<T>(shape, activation, algorithm, x, x_strides, w, bias, out); });        \
  }                                                                                                                    \
  fastdl_status fastdl_group_conv_input_##suffix(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm,    \
                                                 const T* w, const T* grad, T* dx) {                                   \
    return core::guarded([&] { group::compute_input<T>(shape, algorithm, w, grad, dx); });                             \
  }                                                                                                                    \
  fastdl_status fastdl_group_conv_weight_##suffix(const fastdl_group_shape* shape, fastdl_group_algorithm algorithm,   \
                                                  const T* x, const int64_t* x_strides, const T* grad, T* dw) {        \
    return core::guarded([&] { group::compute_weight<T>(shape, algorithm, x, x_strides, grad, dw); });                 \
  }                                                                                                                    \
  fastdl_status fastdl_group_expand_##suffix(fastdl_planar_group group, int lift, int64_t out_channels,                \
                                             int64_t in_channels, int64_t kernel, const T* w, T* out) {                \
    return core::guarded([&] { group::compute_expanded<T>(group, lift, out_channels, in_channels, kernel, w, out); }); \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
