// Entry points of the gradients of convolutions, and of the transposed convolution, which is one of them.
#include <algorithm>
#include <utility>

#include "conv/bodies.hpp"
#include "conv/checks.hpp"
#include "conv/forward.hpp"
#include "core/check.hpp"
#include "core/scratch.hpp"
#include "core/stride.hpp"
#include "core/threads.hpp"

namespace fastdl::conv {
namespace {

// The taps that meet every `stride`-th position from `phase` on, along one axis; the first is `first`, the next `step`
// further.
struct Taps {
  Index first, step, count;
  Index dilation, lower;  // of the convolution with them, turned round
};

Taps taps_of_phase(const Geometry& g, int a, Index phase) {
  Taps taps{0, 1, 0, 1, 0};
  Index second = -1;
  for (Index q = 0; q < g.kernel[a]; ++q)
    if ((phase + g.lower[a] - q * g.dilation[a]) % g.stride[a] == 0) {
      if (taps.count == 0) taps.first = q;
      if (taps.count == 1) second = q;
      ++taps.count;
    }
  if (taps.count == 0) return taps;
  if (taps.count > 1) taps.step = second - taps.first;
  taps.dilation = taps.count > 1 ? taps.step * g.dilation[a] / g.stride[a] : 1;
  // Position phase + stride*u meets tap `first` in grad[u + e]; the last tap, which comes first, dilation*(count-1)
  // lower.
  const Index e = (phase + g.lower[a] - taps.first * g.dilation[a]) / g.stride[a];
  taps.lower = (taps.count - 1) * taps.dilation - e;
  return taps;
}

// turned[c][o] = the taps of w[o][c] that meet a phase, from the last to the first. A block of channels at a time, so
// that filters are read in long pieces.
template <class T>
void turn_filters(const Geometry& g, const Geometry& inner, const Taps (&taps)[axes], const T* w, T* turned) {
  constexpr Index block = 16;
  const Index outputs = g.out_channels, inputs = g.in_channels, count = inner.taps();
  const Index blocks = (inputs + block - 1) / block;
  if (inner.in_channels == 0) return;
  core::Scratch scratch;
  Index* order = scratch.array<Index>(count);
  const auto tap = [&](int a, Index t) { return taps[a].first + (taps[a].count - 1 - t) * taps[a].step; };
  for (Index t = 0; t < count; ++t) {
    const Index k = t % taps[2].count, j = t / taps[2].count % taps[1].count, i = t / taps[2].count / taps[1].count;
    order[t] = (tap(0, i) * g.kernel[1] + tap(1, j)) * g.kernel[2] + tap(2, k);
  }
  core::parallel_for(g.groups * blocks, core::thread_count(), [&](Index task) {
    const Index group = task / blocks, first = task % blocks * block, end = std::min(first + block, inputs);
    for (Index o = 0; o < outputs; ++o)
      for (Index c = first; c < end; ++c) {
        const T* from = w + ((group * outputs + o) * inputs + c) * g.taps();
        T* to = turned + ((group * inputs + c) * outputs + o) * count;
        for (Index t = 0; t < count; ++t) to[t] = from[order[t]];
      }
  });
}

// The gradient with respect to the input is a convolution of `grad` with the filters turned round and their channels
// changed; with a stride, one for each of the places within it, with the taps that meet it.
template <class T>
void input_gradient(const Geometry& g, const T* w, const T* grad, const T* bias, T* dx) {
  const Index outputs = g.out_channels, inputs = g.in_channels, channels = g.groups * inputs;
  // Those that there are: a stride may be far longer than the input.
  const Index within[axes] = {std::min(g.stride[0], g.in[0]), std::min(g.stride[1], g.in[1]),
                              std::min(g.stride[2], g.in[2])};
  const Index phases = within[0] * within[1] * within[2];
  const bool strided = g.stride[0] != 1 || g.stride[1] != 1 || g.stride[2] != 1;
  for (Index phase = 0; phase < phases; ++phase) {
    const Index place[axes] = {phase / (within[1] * within[2]), phase / within[2] % within[1], phase % within[2]};
    Geometry inner = g;
    std::swap(inner.in_channels, inner.out_channels);
    Taps taps[axes];
    for (int a = 0; a < axes; ++a) {
      taps[a] = taps_of_phase(g, a, place[a]);
      inner.in[a] = g.out[a];
      inner.out[a] = (g.in[a] - place[a] + g.stride[a] - 1) / g.stride[a];
      inner.kernel[a] = taps[a].count;
      inner.stride[a] = 1;
      inner.dilation[a] = taps[a].dilation;
      inner.lower[a] = taps[a].lower;
    }
    if (inner.taps() == 0) {  // met by none
      for (int a = 0; a < axes; ++a) inner.kernel[a] = inner.dilation[a] = 1, inner.lower[a] = 0;
      inner.in_channels = 0;
    }
    const int tile = !strided ? tile_of(inner, Weights<T>{}, FASTDL_CONV_AUTO) : 0;
    const auto algorithm = tile ? FASTDL_CONV_DIRECT : FASTDL_CONV_AUTO;
    core::Scratch scratch;
    const T* turned = nullptr;
    const auto compute_part = [&](Index first, Index images, T* out) {
      if (!turned) {
        T* filters = scratch.array<T>(g.groups * inputs * outputs, inner.taps());
        turn_filters(g, inner, taps, w, filters);
        turned = filters;
      }
      const T* part = grad + first * g.groups * outputs * g.pixels();
      forward(some_images(inner, images), contiguous<const T>(part, g.groups * inner.in_channels, inner.in),
              Weights<T>{turned}, bias, Activation::none, algorithm, out);
    };
    if (tile) {
      const Images<const T> x = contiguous<const T>(grad, g.groups * outputs, inner.in);
      without_spreading(
          g.batch,
          [&](Index first, Index images) {
            bool finite = true;  // Winograd's transforms read the filters as they are
            FASTDL_DISPATCH(winograd(some_images(inner, images), from_image(x, first), {w, nullptr, true}, bias,
                                     Activation::none, tile, dx + first * channels * g.in_pixels(), finite));
            return finite;
          },
          [&](Index image) { compute_part(image, 1, dx + image * channels * g.in_pixels()); });
      return;
    }
    if (phases == 1) {
      compute_part(0, g.batch, dx);
      continue;
    }
    const Index pixels = inner.pixels();
    in_parts(g.batch, channels * pixels * Index(sizeof(T)), [&](Index first, Index images) {
      core::Scratch of_part;
      T* part = of_part.array<T>(images * channels, pixels);
      compute_part(first, images, part);
      core::parallel_for(images * channels, core::thread_count(), [&](Index plane) {
        const T* from = part + plane * pixels;
        T* to = dx + (first * channels + plane) * g.in_pixels();
        for (Index d = 0; d < inner.out[0]; ++d)
          for (Index h = 0; h < inner.out[1]; ++h) {
            T* row = to + ((place[0] + d * g.stride[0]) * g.in[1] + place[1] + h * g.stride[1]) * g.in[2] + place[2];
            for (Index i = 0; i < inner.out[2]; ++i) row[i * g.stride[2]] = *from++;
          }
      });
    });
  }
}

template <class T>
void compute_input(const fastdl_conv_shape* shape, const T* w, const T* grad, const T* bias, T* dx) {
  constexpr const char* name = "conv.conv_input";
  const Geometry g = geometry_of(name, shape, false);
  check_data(name, "w", w, {g.groups, g.in_channels, g.out_channels});
  check_data(name, "grad", grad, {g.batch, g.groups, g.out_channels, g.pixels()});
  check_data(name, "dx", dx, {g.batch, g.groups, g.in_channels, g.in_pixels()});
  if (g.batch * g.groups * g.in_channels * g.in_pixels() == 0) return;
  input_gradient(g, w, core::usable_data(grad), bias, dx);
}

// Whether Winograd's algorithm takes less than the plain sum over pixels, in multiply-adds; both counts are measured
// (docs/conv.md).
bool winograd_weights_fit(const Geometry& g) {
  // (A group of tiles takes 18 KB a channel, in float64.)
  if (!winograd_fits(g) || g.in_channels < 16 || g.out_channels < 16 || g.in_channels + g.out_channels > 2048)
    return false;
  const double in = double(g.in_channels), out = double(g.out_channels), pixels = double(g.batch * g.pixels());
  const double tiles = double(g.batch * ((g.out[1] + 3) / 4) * ((g.out[2] + 3) / 4));
  return 36 * (in * out * (1.5 * tiles + 30) + 60 * tiles * (in + out)) < 9 * 1.6 * in * out * pixels;
}

template <class T>
void compute_weight(const fastdl_conv_shape* shape, const T* data, const std::int64_t* strides, const T* grad, T* dw) {
  constexpr const char* name = "conv.conv_weight";
  Geometry g = geometry_of(name, shape, false);
  check_data(name, "x", data, {g.batch, g.groups, g.in_channels, g.in_pixels()});
  check_data(name, "grad", grad, {g.batch, g.groups, g.out_channels, g.pixels()});
  check_data(name, "dw", dw, {g.groups, g.in_channels, g.out_channels});
  if (g.groups * g.in_channels * g.out_channels == 0) return;
  if (g.batch * g.pixels() == 0) {
    std::fill(dw, dw + g.groups * g.in_channels * g.out_channels * g.taps(), T(0));
    return;
  }
  Images<const T> x = images_of(name, g, shape->rank, data, strides);
  if (x.axis[2] == 1 && winograd_weights_fit(g)) {
    bool finite = true;
    FASTDL_DISPATCH(winograd_weights(g, x, grad, dw, finite));
    if (finite) return;  // else once more, without what the transforms spread
  }
  join_axes(g, x);
  FASTDL_DISPATCH(weights(g, x, grad, dw));
}

}  // namespace
}  // namespace fastdl::conv

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                    \
  fastdl_status fastdl_conv_input_##suffix(const fastdl_conv_shape* shape, const T* w, const T* grad, const T* bias, \
                                           T* dx) {                                                                  \
    return core::guarded([&] { conv::compute_input<T>(shape, w, grad, bias, dx); });                                 \
  }                                                                                                                  \
  fastdl_status fastdl_conv_weight_##suffix(const fastdl_conv_shape* shape, const T* x, const int64_t* x_strides,    \
                                            const T* grad, T* dw) {                                                  \
    return core::guarded([&] { conv::compute_weight<T>(shape, x, x_strides, grad, dw); });                           \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
