#include "conv/forward.hpp"

#include <algorithm>
#include <atomic>

#include "conv/bodies.hpp"
#include "conv/checks.hpp"
#include "conv/fft_bodies.hpp"
#include "conv/fft_cost.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"

namespace fastdl::conv {
namespace {

// What an algorithm costs, in multiply-adds at full speed; the constants are measured (docs/conv.md). Vectors of pixels
// or tiles are as full as they are, and filters are packed or transformed whatever there is to convolve.
Index filled(Index n) { return (n + 15) / 16 * 16; }

double direct_cost(const Geometry& g) {
  const double weights = double(g.groups * g.in_channels) * double(g.out_channels) * double(g.taps());
  return weights * (1.1 * double(filled(g.batch * g.pixels())) + 60);
}

// By tiles of m x m: their products, the transforms of input and output, and those of the filters.
double winograd_cost(const Geometry& g, Index m) {
  const Index tiles = g.batch * ((g.out[1] + m - 1) / m) * ((g.out[2] + m - 1) / m);
  const double in = double(g.in_channels), out = double(g.out_channels);
  const double products = in * out * (1.5 * double(filled(tiles)) + 30), transforms = 16 * (in + out) * double(tiles);
  return double(g.groups * (m + 2) * (m + 2)) * (products + transforms);
}

// The side of the tiles, or 0 for another algorithm. With few channels the error of F(4 x 4) is too large a multiple of
// the direct one's, and F(2 x 2) gains nothing (docs/conv.md). Where the algorithm was asked for, tiles are as for 8
// images: what becomes of an image then does not depend on the others.
int winograd_tile(Geometry g, bool forced) {
  if (forced) g.batch = 8;
  // From some 1800 channels on the transforms of 64 tiles take 32 MB.
  const bool many = g.in_channels >= 16 && g.in_channels <= 1800;
  if (!winograd_fits(g) || (!many && !forced)) return 0;
  const double two = winograd_cost(g, 2), four = winograd_cost(g, 4);
  const bool use_four = many && four <= two;
  return forced || (use_four ? four : two) < direct_cost(g) ? (use_four ? 4 : 2) : 0;
}

// Whether few channels are better convolved plane by plane than by a product over windows: one channel a group; few
// channels, if rows fill the vectors or there are few filters; or few filters, if their planes need no rearranging.
template <class T>
bool planes_fit(const Geometry& g) {
  if (g.lower[2] < 0 || g.in_channels == 0) return false;
  // What the planes of a task take (plane.hpp), which dilation and padding may make much larger than the image.
  const auto seen_along = [&](int a) { return double(seen(g, a)); };
  const double width = std::max(seen_along(2), double(g.lower[2] + g.in[2])) + double(g.stride[2]);
  const double bytes = double(g.in_channels) * seen_along(0) * seen_along(1) * width * double(sizeof(T));
  if (g.in_channels == 1 && g.groups > 1) return bytes <= 0x1p25;
  if (g.taps() == 1 || bytes > 0x1p23) return false;
  const bool full = 4 * g.out[2] >= 3 * filled(g.out[2]), few_filters = g.out_channels <= 16;
  return g.in_channels <= 4 ? full || few_filters : few_filters && g.stride[2] == 1;
}

// Whether channels along the vector serve (depthwise_isa.cpp): one channel and one filter a group, and groups enough to
// fill half a vector. A row of outputs must not see more than a cache holds.
template <class T>
bool depthwise_fits(const Geometry& g) {
  const bool plane = g.in[0] == 1 && g.kernel[0] == 1 && g.out[0] == 1 && g.lower[0] == 0 && g.lower[1] >= 0;
  const double row = double(seen(g, 2)) * double(reach(g, 1));
  return plane && g.in_channels == 1 && g.out_channels == 1 && g.groups >= 8 && g.lower[2] >= 0 &&
         row * 16 * double(sizeof(T)) <= 0x1p22;
}

// Whether rows serve as they lie (depthwise_rows_isa.cpp): the same with 3 x 3 filters of stride 1 or 2, padded by one.
template <class T>
bool rows_fit(const Geometry& g, const Images<const T>& x) {
  const bool plane = g.in[0] == 1 && g.kernel[0] == 1 && g.out[0] == 1 && g.lower[0] == 0;
  const bool filter = g.in_channels == 1 && g.out_channels == 1 && g.kernel[1] == 3 && g.kernel[2] == 3 &&
                      g.dilation[1] == 1 && g.dilation[2] == 1;
  const bool same = g.lower[2] == 1 && g.out[2] == (g.in[2] - 1) / g.stride[2] + 1;
  return plane && filter && same && g.stride[1] == g.stride[2] && g.stride[2] <= 2 && x.axis[2] == 1;
}

// The position in [0, n) that stands for one outside, or -1 for none.
Index mapped(Index i, Index n, fastdl_padding padding) {
  if (i >= 0 && i < n) return i;
  if (padding == FASTDL_ZEROS) return -1;
  if (padding == FASTDL_CIRCULAR) return ((i % n) + n) % n;
  if (padding == FASTDL_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
  return i < 0 ? 0 : n - 1;
}

// Images with their surroundings, or of rows that are not contiguous: a copy, contiguous, from position -lower on.
template <class T>
void copy_padded(const Geometry& g, const Images<const T>& x, Index first, Index count, const Index (&extent)[axes],
                 fastdl_padding padding, T* to) {
  const Index channels = g.groups * g.in_channels, pixels = extent[0] * extent[1] * extent[2];
  core::Scratch scratch;
  Index* columns = scratch.array<Index>(extent[2] + 1);
  for (Index w = 0; w < extent[2]; ++w) columns[w] = mapped(w - g.lower[2], g.in[2], padding);
  core::parallel_for(count * channels, count * channels * pixels < 20000 ? 1 : core::thread_count(), [&](Index plane) {
    const T* from = x.data + (first + plane / channels) * x.batch + plane % channels * x.channel;
    T* row = to + plane * pixels;
    for (Index d = 0; d < extent[0]; ++d)
      for (Index h = 0; h < extent[1]; ++h, row += extent[2]) {
        const Index i = mapped(d - g.lower[0], g.in[0], padding), j = mapped(h - g.lower[1], g.in[1], padding);
        const T* source = from + i * x.axis[0] + j * x.axis[1];
        for (Index w = 0; w < extent[2]; ++w)
          row[w] = i < 0 || j < 0 || columns[w] < 0 ? T(0) : source[columns[w] * x.axis[2]];
      }
  });
}

// Whether transforms take less time, in the terms of direct_cost. (76 layers of 1 to 64 channels, 28 to 224 pixels and
// 7 to 31 taps a side: the choice costs 2% in the mean.)
bool transforms_pay(const Geometry& g, const Index (&extent)[axes]) {
  if (g.taps() < 49 || g.in_channels == 0) return false;
  const Index kernel[axes] = {reach(g, 0), reach(g, 1), reach(g, 2)};
  const Layer layer(axes, g.batch, g.in_channels, g.out_channels, extent, kernel);
  return 90 * double(g.groups) * price(layer, best_blocks(layer)) < direct_cost(g);
}

// By transforms: false if a result is not finite, which the transforms then spread over a tile. The valid correlation
// of padded images with filters that have zeros between their taps, of which every stride-th value is kept. Groups one
// by one, images in parts.
template <class T>
bool by_transforms(const Geometry& g, const Images<const T>& x, fastdl_padding padding, const Index (&extent)[axes],
                   const T* w, const T* bias, Activation activation, T* out) {
  Index kernel[axes], found[axes];
  std::atomic<bool> finite{true};
  for (int a = 0; a < axes; ++a) {
    kernel[a] = reach(g, a);
    found[a] = extent[a] - kernel[a] + 1;
  }
  const Index taps = kernel[0] * kernel[1] * kernel[2], filters = g.out_channels * g.in_channels;
  const Index pixels = found[0] * found[1] * found[2], image = extent[0] * extent[1] * extent[2];
  Geometry one = g;
  one.groups = 1;
  core::Scratch scratch;
  T* spread = scratch.array<T>(filters, taps);
  for (Index group = 0; group < g.groups; ++group) {
    std::fill(spread, spread + filters * taps, T(0));
    for (Index f = 0; f < filters; ++f)
      for (Index t = 0; t < g.taps(); ++t) {
        const Index at[axes] = {t / (g.kernel[1] * g.kernel[2]), t / g.kernel[2] % g.kernel[1], t % g.kernel[2]};
        const Index place =
            (at[0] * g.dilation[0] * kernel[1] + at[1] * g.dilation[1]) * kernel[2] + at[2] * g.dilation[2];
        spread[f * taps + place] = w[(group * filters + f) * g.taps() + t];
      }
    const Images<const T> of_group{
        x.data + group * g.in_channels * x.channel, x.batch, x.channel, {x.axis[0], x.axis[1], x.axis[2]}};
    in_parts(g.batch, (g.in_channels * image + g.out_channels * pixels) * Index(sizeof(T)),
             [&](Index first, Index count) {
               core::Scratch of_part;
               T* copy = of_part.array<T>(count * g.in_channels, image);
               T* values = of_part.array<T>(count * g.out_channels, pixels);
               copy_padded(one, of_group, first, count, extent, padding, copy);
               FASTDL_DISPATCH(
                   fft_correlate(copy, count, g.in_channels, extent, axes, spread, g.out_channels, kernel, values));
               FASTDL_DISPATCH(keep_strided(g, found, values, first, count, group, bias, activation, out, finite));
             });
  }
  return finite;
}

}  // namespace

bool winograd_fits(const Geometry& g) {
  return g.in[0] == 1 && g.kernel[0] == 1 && g.out[0] == 1 && g.lower[0] == 0 && g.kernel[1] == 3 && g.kernel[2] == 3 &&
         g.stride[1] == 1 && g.stride[2] == 1 && g.dilation[1] == 1 && g.dilation[2] == 1 && g.lower[1] >= 0 &&
         g.lower[2] >= 0;
}

// Filters that are ready decide, but only for what they can compute: those of a 1 x 3 x 3 kernel were perhaps made for
// images of one plane.
template <class T>
int tile_of(const Geometry& g, const Weights<T>& w, fastdl_conv_algorithm algorithm) {
  if (algorithm == FASTDL_CONV_DIRECT || algorithm == FASTDL_CONV_FFT || g.in_channels == 0) return 0;
  if (w.filters && winograd_fits(g)) return w.tile;
  return winograd_tile(g, algorithm == FASTDL_CONV_WINOGRAD);
}

template <class T>
void by_sums(Geometry g, Images<const T> x, const Weights<T>& w, const T* bias, Activation activation, T* out) {
  if (rows_fit(g, x)) {
    FASTDL_DISPATCH(depthwise_rows(g, x, w.plain, bias, activation, out));
    return;
  }
  if (depthwise_fits<T>(g)) {
    FASTDL_DISPATCH(depthwise(g, x, w.plain, bias, activation, out));
    return;
  }
  if (planes_fit<T>(g)) {
    FASTDL_DISPATCH(planes(g, x, w.plain, bias, activation, out));
    return;
  }
  join_axes(g, x);
  FASTDL_DISPATCH(direct(g, x, w.plain, bias, activation, out));
}

template <class T>
void forward(const Geometry& g, const Images<const T>& x, const Weights<T>& w, const T* bias, Activation activation,
             fastdl_conv_algorithm algorithm, T* out) {
  if (empty(g)) return;
  const int tile = tile_of(g, w, algorithm);
  if (!tile || x.axis[2] != 1) return by_sums(g, x, w, bias, activation, out);
  const WinogradFilters<T> filters{w.plain, tile == w.tile ? w.filters : nullptr};
  without_spreading(
      g.batch,
      [&](Index first, Index images) {
        bool finite = true;
        FASTDL_DISPATCH(winograd(some_images(g, images), from_image(x, first), filters, bias, activation, tile,
                                 out + first * g.groups * g.out_channels * g.pixels(), finite));
        return finite;
      },
      [&](Index image) {
        by_sums(some_images(g, 1), from_image(x, image), w, bias, activation,
                out + image * g.groups * g.out_channels * g.pixels());
      });
}

template <class T>
void forward_padded(const Geometry& g, const Images<const T>& x, fastdl_padding padding, const Weights<T>& w,
                    const T* bias, Activation activation, fastdl_conv_algorithm algorithm, T* out) {
  Index extent[axes];
  bool outside = false;
  for (int a = 0; a < axes; ++a) {
    extent[a] = seen(g, a);
    outside |= g.lower[a] > 0 || extent[a] - g.lower[a] > g.in[a];
  }
  const bool padded = padding != FASTDL_ZEROS && outside && g.in_channels > 0;
  const bool asked = algorithm == FASTDL_CONV_FFT && g.in_channels > 0;
  if (asked || (algorithm == FASTDL_CONV_AUTO && !empty(g) && transforms_pay(g, extent)))
    if (by_transforms(g, x, padding, extent, w.plain, bias, activation, out) || asked) return;
  // Winograd's rows are contiguous; a copy costs less than it gains.
  const bool turned = !padded && x.axis[2] != 1 && tile_of(g, w, algorithm) != 0;
  if (!padded && !turned) return forward(g, x, w, bias, activation, algorithm, out);
  Geometry inner = g, outer = g;  // of the copy, and of what is copied
  for (int a = 0; a < axes; ++a)
    if (padded)
      inner.in[a] = extent[a], inner.lower[a] = 0;
    else
      outer.lower[a] = 0;
  const Index channels = g.groups * g.in_channels, image = channels * inner.in_pixels();
  in_parts(g.batch, image * Index(sizeof(T)), [&](Index first, Index count) {
    core::Scratch scratch;
    T* copy = scratch.array<T>(count, image);
    copy_padded(outer, x, first, count, inner.in, padding, copy);
    inner.batch = count;
    forward(inner, contiguous<const T>(copy, channels, inner.in), w, bias, activation, algorithm,
            out + first * g.groups * g.out_channels * g.pixels());
  });
}

template int tile_of(const Geometry&, const Weights<float>&, fastdl_conv_algorithm);
template void forward(const Geometry&, const Images<const float>&, const Weights<float>&, const float*, Activation,
                      fastdl_conv_algorithm, float*);
template void forward_padded(const Geometry&, const Images<const float>&, fastdl_padding, const Weights<float>&,
                             const float*, Activation, fastdl_conv_algorithm, float*);
template int tile_of(const Geometry&, const Weights<double>&, fastdl_conv_algorithm);
template void forward(const Geometry&, const Images<const double>&, const Weights<double>&, const double*, Activation,
                      fastdl_conv_algorithm, double*);
template void forward_padded(const Geometry&, const Images<const double>&, fastdl_padding, const Weights<double>&,
                             const double*, Activation, fastdl_conv_algorithm, double*);

}  // namespace fastdl::conv
