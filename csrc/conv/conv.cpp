// Entry points of the convolutions: check, choose the algorithm, then one dispatch to the active instruction-set level.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "conv/bodies.hpp"
#include "conv/fft_bodies.hpp"
#include "core/check.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::conv {
namespace {

// ---- checks ---------------------------------------------------------------------------------------------------------

std::string numbers(const Index* values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text;
}

// Bytes of an array of these extents must be representable.
void check_size(const char* name, const char* label, std::initializer_list<Index> extents) {
  Index bytes = 8;
  for (Index extent : extents)
    if (extent != 0 && __builtin_mul_overflow(bytes, extent, &bytes))
      core::fail(name, std::string(label) + " within the address space", "more");
}

Geometry geometry_of(const char* name, const fastdl_conv_shape* shape, bool pooling) {
  if (!shape) core::fail(name, "a shape", "NULL");
  const int rank = shape->rank;
  if (rank < 1 || rank > axes) core::fail(name, "a rank of 1, 2 or 3", std::to_string(rank));
  const auto at_least = [&](const char* label, const Index* values, Index least) {
    for (int a = 0; a < rank; ++a)
      if (values[a] < least || values[a] > (Index{1} << 40))
        core::fail(name, std::string(label) + " of at least " + std::to_string(least), numbers(values, rank));
  };
  at_least("in", shape->in, 0);
  at_least("kernel", shape->kernel, 1);
  at_least("out", shape->out, 0);
  at_least("stride", shape->stride, 1);
  if (!pooling) at_least("dilation", shape->dilation, 1);
  at_least("lower", shape->lower, -(Index{1} << 40));
  const Index groups = pooling ? 1 : shape->groups, outputs = pooling ? shape->in_channels : shape->out_channels;
  const Index counts[] = {shape->batch, shape->in_channels, outputs};
  if (groups < 1) core::fail(name, "groups of at least 1", std::to_string(groups));
  for (Index count : counts)
    if (count < 0) core::fail(name, "a batch and channels of at least 0", numbers(counts, 3));
  if (shape->in_channels % groups != 0 || outputs % groups != 0)
    core::fail(name, "groups that divide the channels", std::to_string(groups) + " of " + numbers(counts + 1, 2));
  Geometry g;
  g.batch = shape->batch;
  g.groups = groups;
  g.in_channels = shape->in_channels / groups;
  g.out_channels = outputs / groups;
  for (int a = 0; a < axes; ++a) {
    const int from = a - (axes - rank);
    const auto set = [&](Index* to, const Index* values, Index missing) { to[a] = from < 0 ? missing : values[from]; };
    set(g.in, shape->in, 1);
    set(g.kernel, shape->kernel, 1);
    set(g.out, shape->out, 1);
    set(g.stride, shape->stride, 1);
    set(g.lower, shape->lower, 0);
    if (pooling)
      g.dilation[a] = 1;
    else
      set(g.dilation, shape->dilation, 1);
  }
  check_size(name, "x", {g.batch, shape->in_channels, g.in[0], g.in[1], g.in[2]});
  check_size(name, "out", {g.batch, outputs, g.out[0], g.out[1], g.out[2]});
  check_size(name, "w", {outputs, g.in_channels, g.kernel[0], g.kernel[1], g.kernel[2]});
  // Windows stay in range: positions are computed in 64 bits.
  for (int a = 0; a < axes; ++a) {
    check_size(name, "the reach of the windows", {g.out[a] + 1, g.stride[a]});
    check_size(name, "the reach of the windows", {g.kernel[a], g.dilation[a]});
  }
  return g;
}

template <class T>
Images<T> contiguous(T* data, Index channels, const Index* extent) {
  Images<T> images{data, 0, 0, {extent[1] * extent[2], extent[2], 1}};
  images.channel = extent[0] * images.axis[0];
  images.batch = channels * images.channel;
  return images;
}

template <class T>
Images<const T> images_of(const Geometry& g, int rank, const T* x, const std::int64_t* strides) {
  const Index channels = g.groups * g.in_channels;
  Images<const T> images = contiguous<const T>(x, channels, g.in);
  if (!strides) return images;
  images.batch = strides[0];
  images.channel = strides[1];
  for (int a = 0; a < axes; ++a) {
    const int from = a - (axes - rank);
    images.axis[a] = from < 0 ? 0 : strides[2 + from];
  }
  // An axis of one position may have any stride; 1 along rows lets the fast paths take it.
  if (g.in[2] == 1) images.axis[2] = 1;
  return images;
}

void check_data(const char* name, const char* label, const void* data, std::initializer_list<Index> extents) {
  for (Index extent : extents)
    if (extent == 0) return;
  if (!data) core::fail(name, std::string(label) + " with data", "a null pointer");
}

bool empty(const Geometry& g) { return g.batch * g.groups * g.out_channels * g.pixels() == 0; }

// ---- algorithms -----------------------------------------------------------------------------------------------------

// Axes that the windows do not move along are one: 1 x 1 filters see a row of pixels.
template <class T>
void join_axes(Geometry& g, Images<T>& x) {
  const auto plain = [&](int a) {
    return g.kernel[a] == 1 && g.stride[a] == 1 && g.lower[a] == 0 && g.in[a] == g.out[a];
  };
  for (int a = axes - 2; a >= 0; --a) {
    if (!plain(a) || !plain(2) || (a == 0 && g.in[1] != 1) || (g.in[a] != 1 && x.axis[a] != x.axis[2] * g.in[2]))
      return;
    g.in[2] *= g.in[a];
    g.out[2] *= g.out[a];
    g.in[a] = g.out[a] = 1;
  }
}

bool winograd_fits(const Geometry& g) {
  return g.in[0] == 1 && g.kernel[0] == 1 && g.out[0] == 1 && g.lower[0] == 0 && g.kernel[1] == 3 && g.kernel[2] == 3 &&
         g.stride[1] == 1 && g.stride[2] == 1 && g.dilation[1] == 1 && g.dilation[2] == 1 && g.lower[1] >= 0 &&
         g.lower[2] >= 0;
}

// What an algorithm costs, in multiply-adds of the direct one. Winograd's by tiles of m x m: its products, which run at
// the same rate; the transforms of the input, of the output and of the filters.
double winograd_cost(const Geometry& g, int m) {
  const double positions = double((m + 2) * (m + 2));
  const double tiles = double(g.batch) * std::ceil(double(g.out[1]) / m) * std::ceil(double(g.out[2]) / m);
  const double in = double(g.in_channels), out = double(g.out_channels);
  return double(g.groups) * positions * (tiles * (in * out + 8 * in + 8 * out) + 4 * in * out);
}

// The side of the tiles, or 0 for the direct algorithm. With few channels the error of F(4 x 4) is too large a multiple
// of the direct one's (docs/conv.md).
int winograd_tile(const Geometry& g, bool forced) {
  if (!winograd_fits(g)) return 0;
  const double direct =
      double(g.batch) * double(g.groups * g.in_channels) * double(g.out_channels) * double(g.pixels()) * 9;
  const double two = winograd_cost(g, 2), four = winograd_cost(g, 4);
  const bool accurate = g.in_channels >= 16;
  if (!forced && direct <= two && (direct <= four || !accurate)) return 0;
  return accurate && four <= two ? 4 : 2;
}

// Weights, and what was made of them beforehand: filters for Winograd's algorithm by tiles of that side, or none.
template <class T>
struct Weights {
  const T* plain;
  const T* filters = nullptr;
  int tile = 0;
};

template <class T>
void forward(Geometry g, Images<const T> x, const Weights<T>& w, const T* bias, Activation activation,
             fastdl_conv_algorithm algorithm, T* out) {
  if (empty(g)) return;
  // One channel a group, unless there is but one group, whose output channels a product takes together.
  if (algorithm != FASTDL_CONV_WINOGRAD && g.in_channels == 1 && g.groups > 1) {
    FASTDL_DISPATCH(depthwise(g, x, w.plain, bias, activation, out));
    return;
  }
  const int tile = w.filters                         ? w.tile
                   : algorithm == FASTDL_CONV_DIRECT ? 0
                                                     : winograd_tile(g, algorithm == FASTDL_CONV_WINOGRAD);
  if (tile && g.in_channels > 0 && x.axis[2] == 1) {
    bool finite = true;
    FASTDL_DISPATCH(winograd(g, x, w.plain, w.filters, bias, activation, tile, out, finite));
    if (finite) return;  // else once more, without what the transforms spread
  }
  join_axes(g, x);
  FASTDL_DISPATCH(direct(g, x, w.plain, bias, activation, out));
}

// f(first image, how many) for the batch in parts whose copies, of `bytes` an image, take about 16 MB.
template <class Function>
void in_parts(Index batch, Index bytes, const Function& f) {
  const Index step = std::max<Index>(1, (Index{16} << 20) / (bytes + 1));
  for (Index first = 0; first < batch; first += step) f(first, std::min(step, batch - first));
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

double apply(double value, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return value < 0 ? 0 : value;
    case Activation::leaky_relu:
      return value < 0 ? 0.01 * value : value;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-value));
    case Activation::tanh:
      return std::tanh(value);
    default:
      return value;
  }
}

// By transforms: the valid correlation of padded images with filters that have zeros between their taps, of which every
// stride-th value is kept. Groups one by one, images in parts.
template <class T>
void by_transforms(const Geometry& g, const Images<const T>& x, fastdl_padding padding, const Index (&extent)[axes],
                   const T* w, const T* bias, Activation activation, T* out) {
  Index kernel[axes], found[axes];
  for (int a = 0; a < axes; ++a) {
    kernel[a] = (g.kernel[a] - 1) * g.dilation[a] + 1;
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
               core::parallel_for(count * g.out_channels, core::thread_count(), [&](Index plane) {
                 const Index channel = group * g.out_channels + plane % g.out_channels;
                 const T* from = values + plane * pixels;
                 T* to = out + ((first + plane / g.out_channels) * g.groups * g.out_channels + channel) * g.pixels();
                 for (Index d = 0; d < g.out[0]; ++d)
                   for (Index h = 0; h < g.out[1]; ++h)
                     for (Index i = 0; i < g.out[2]; ++i) {
                       const T sum = from[(d * g.stride[0] * found[1] + h * g.stride[1]) * found[2] + i * g.stride[2]] +
                                     (bias ? bias[channel] : T(0));
                       *to++ = activation == Activation::none ? sum : T(apply(double(sum), activation));
                     }
               });
             });
  }
}

template <class T>
void compute(const fastdl_conv_shape* shape, fastdl_padding padding, fastdl_activation activation,
             fastdl_conv_algorithm algorithm, const T* data, const std::int64_t* strides, const Weights<T>& w,
             const T* bias, T* out) {
  constexpr const char* name = "conv.conv";
  Geometry g = geometry_of(name, shape, false);
  if (padding < FASTDL_ZEROS || padding > FASTDL_REPLICATE)
    core::fail(name, "a padding of the list", std::to_string(int(padding)));
  if (activation < FASTDL_NO_ACTIVATION || activation > FASTDL_TANH)
    core::fail(name, "an activation of the list", std::to_string(int(activation)));
  if (algorithm < FASTDL_CONV_AUTO || algorithm > FASTDL_CONV_FFT)
    core::fail(name, "an algorithm of the list", std::to_string(int(algorithm)));
  if (algorithm == FASTDL_CONV_WINOGRAD && !winograd_fits(g))
    core::fail(name, "3 x 3 filters of stride and dilation 1 for Winograd's algorithm", numbers(g.kernel, axes));
  check_data(name, "x", data, {g.batch, g.groups, g.in_channels, g.in_pixels()});
  check_data(name, "w", w.plain, {g.groups, g.in_channels, g.out_channels});
  check_data(name, "out", out, {g.batch, g.groups, g.out_channels, g.pixels()});
  if (empty(g)) return;
  Images<const T> x = images_of(g, shape->rank, data, strides);
  const auto kind = static_cast<Activation>(activation);
  Index extent[axes];  // what the windows see
  for (int a = 0; a < axes; ++a) extent[a] = (g.out[a] - 1) * g.stride[a] + (g.kernel[a] - 1) * g.dilation[a] + 1;
  bool outside = false;
  for (int a = 0; a < axes; ++a) outside |= g.lower[a] > 0 || extent[a] - g.lower[a] > g.in[a];
  const bool padded = padding != FASTDL_ZEROS && outside && g.in_channels > 0;
  if (padded)
    for (int a = 0; a < axes; ++a) {
      const Index behind = extent[a] - g.lower[a] - g.in[a];
      if (g.in[a] == 0) core::fail(name, "positions to pad with along axis " + std::to_string(a), "none");
      if (padding == FASTDL_REFLECT && (g.lower[a] >= g.in[a] || behind >= g.in[a]))
        core::fail(name, "padding below " + std::to_string(g.in[a]) + " along axis " + std::to_string(a),
                   std::to_string(g.lower[a]) + " and " + std::to_string(behind));
    }
  if (algorithm == FASTDL_CONV_FFT && g.in_channels > 0)
    return by_transforms(g, x, padding, extent, w.plain, bias, kind, out);
  // Winograd's rows are contiguous; a copy costs less than it gains.
  const bool turned = !padded && x.axis[2] != 1 && algorithm != FASTDL_CONV_DIRECT && g.in_channels > 0 &&
                      !(g.in_channels == 1 && g.groups > 1 && algorithm == FASTDL_CONV_AUTO) &&
                      (w.filters || winograd_tile(g, algorithm == FASTDL_CONV_WINOGRAD));
  if (!padded && !turned) return forward(g, x, w, bias, kind, algorithm, out);
  Geometry inner = g;
  if (padded)
    for (int a = 0; a < axes; ++a) inner.in[a] = extent[a], inner.lower[a] = 0;
  else
    for (int a = 0; a < axes; ++a) g.lower[a] = 0;
  const Index channels = g.groups * g.in_channels, image = channels * inner.in_pixels();
  in_parts(g.batch, image * Index(sizeof(T)), [&](Index first, Index count) {
    core::Scratch scratch;
    T* copy = scratch.array<T>(count, image);
    copy_padded(g, x, first, count, inner.in, padding, copy);
    inner.batch = count;
    forward(inner, contiguous<const T>(copy, channels, inner.in), w, bias, kind, algorithm,
            out + first * g.groups * g.out_channels * g.pixels());
  });
}

// ---- prepared filters
// ------------------------------------------------------------------------------------------------

// Weights and, where they will serve, transformed filters, for many convolutions.
template <class T>
struct Filters {
  fastdl_conv_shape shape;  // of the weights; the rest is that of the calls
  fastdl_conv_algorithm algorithm;
  std::vector<T> weights, filters;
  int tile = 0;
};

template <class T>
Filters<T>* prepare(const fastdl_conv_shape* shape, fastdl_conv_algorithm algorithm, const T* w) {
  constexpr const char* name = "conv.prepare";
  const Geometry g = geometry_of(name, shape, false);
  check_data(name, "w", w, {g.groups, g.in_channels, g.out_channels});
  auto made = std::make_unique<Filters<T>>();
  made->shape = *shape;
  made->algorithm = algorithm;
  made->weights.assign(w, w + g.groups * g.out_channels * g.in_channels * g.taps());
  if (algorithm != FASTDL_CONV_DIRECT && g.in_channels > 0 && !(g.in_channels == 1 && g.groups > 1))
    made->tile = winograd_tile(g, algorithm == FASTDL_CONV_WINOGRAD);
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
  if (!same) core::fail(name, "the channels, kernel, stride and dilation of the filters", "others");
  const Weights<T> weights{filters->weights.data(), filters->tile ? filters->filters.data() : nullptr, filters->tile};
  compute<T>(shape, padding, activation, filters->algorithm, x, strides, weights, bias, out);
}

// ---- gradients ------------------------------------------------------------------------------------------------------

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

// The gradient with respect to the input is a convolution of `grad` with the filters turned round and their channels
// changed; with a stride, one for each of the places within it, with the taps that meet it.
template <class T>
void input_gradient(const Geometry& g, const T* w, const T* grad, const T* bias, T* dx) {
  const Index outputs = g.out_channels, inputs = g.in_channels, channels = g.groups * inputs;
  const Index phases = g.stride[0] * g.stride[1] * g.stride[2];
  core::Scratch scratch;
  T* turned = scratch.array<T>(g.groups * inputs * outputs, g.taps());
  for (Index phase = 0; phase < phases; ++phase) {
    const Index place[axes] = {phase / (g.stride[1] * g.stride[2]), phase / g.stride[2] % g.stride[1],
                               phase % g.stride[2]};
    Geometry inner = g;
    std::swap(inner.in_channels, inner.out_channels);
    Taps taps[axes];
    for (int a = 0; a < axes; ++a) {
      taps[a] = taps_of_phase(g, a, place[a]);
      inner.in[a] = g.out[a];
      inner.out[a] = place[a] < g.in[a] ? (g.in[a] - place[a] + g.stride[a] - 1) / g.stride[a] : 0;
      inner.kernel[a] = taps[a].count;
      inner.stride[a] = 1;
      inner.dilation[a] = taps[a].dilation;
      inner.lower[a] = taps[a].lower;
    }
    if (inner.pixels() == 0) continue;
    if (inner.taps() == 0) {  // met by none
      for (int a = 0; a < axes; ++a) inner.kernel[a] = inner.dilation[a] = 1, inner.lower[a] = 0;
      inner.in_channels = 0;
    }
    const Index count = inner.taps();
    core::parallel_for(inner.in_channels ? g.groups * inputs : 0, core::thread_count(), [&](Index task) {
      const Index group = task / inputs, c = task % inputs;
      for (Index o = 0; o < outputs; ++o) {
        const T* from = w + ((group * outputs + o) * inputs + c) * g.taps();
        T* to = turned + (task * outputs + o) * count;
        for (Index i = 0; i < taps[0].count; ++i)
          for (Index j = 0; j < taps[1].count; ++j)
            for (Index k = 0; k < taps[2].count; ++k) {
              const auto tap = [&](int a, Index t) { return taps[a].first + (taps[a].count - 1 - t) * taps[a].step; };
              *to++ = from[(tap(0, i) * g.kernel[1] + tap(1, j)) * g.kernel[2] + tap(2, k)];
            }
      }
    });
    const auto compute_part = [&](Index first, Index images, T* out) {
      inner.batch = images;
      const T* part = grad + first * g.groups * outputs * g.pixels();
      forward(inner, contiguous<const T>(part, g.groups * inner.in_channels, inner.in), Weights<T>{turned}, bias,
              Activation::none, FASTDL_CONV_AUTO, out);
    };
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
  input_gradient(g, w, grad, bias, dx);
}

template <class T>
void compute_weight(const fastdl_conv_shape* shape, const T* data, const std::int64_t* strides, const T* grad, T* dw) {
  constexpr const char* name = "conv.conv_weight";
  Geometry g = geometry_of(name, shape, false);
  check_data(name, "x", data, {g.batch, g.groups, g.in_channels, g.in_pixels()});
  check_data(name, "grad", grad, {g.batch, g.groups, g.out_channels, g.pixels()});
  check_data(name, "dw", dw, {g.groups, g.in_channels, g.out_channels});
  if (g.groups * g.in_channels * g.out_channels == 0) return;
  Images<const T> x = images_of(g, shape->rank, data, strides);
  join_axes(g, x);
  FASTDL_DISPATCH(weights(g, x, grad, dw));
}

// ---- pooling --------------------------------------------------------------------------------------------------------

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
  const Images<const T> x = images_of(g, shape->rank, data, strides);
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
  const Images<const T> x = images_of(g, shape->rank, data, strides);
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
  FASTDL_DISPATCH(max_pool_gradient(g, grad, indices, dx));
}

template <class T>
void compute_average_gradient(const fastdl_conv_shape* shape, const T* grad, bool padding_counts, T* dx) {
  constexpr const char* name = "conv.avg_pool_grad";
  const Geometry g = pool_geometry(name, shape);
  check_data(name, "dx", dx, {g.batch, g.in_channels, g.in_pixels()});
  check_data(name, "grad", grad, {g.batch, g.in_channels, g.pixels()});
  FASTDL_DISPATCH(average_pool_gradient(g, grad, padding_counts, dx));
}

}  // namespace
}  // namespace fastdl::conv

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                      \
  fastdl_status fastdl_conv_##suffix(const fastdl_conv_shape* shape, fastdl_padding padding,                           \
                                     fastdl_activation activation, fastdl_conv_algorithm algorithm, const T* x,        \
                                     const int64_t* x_strides, const T* w, const T* bias, T* out) {                    \
    return core::guarded(                                                                                              \
        [&] { conv::compute<T>(shape, padding, activation, algorithm, x, x_strides, {w}, bias, out); });               \
  }                                                                                                                    \
  struct fastdl_conv_filters_##suffix : conv::Filters<T> {};                                                           \
  fastdl_status fastdl_conv_prepare_##suffix(const fastdl_conv_shape* shape, fastdl_conv_algorithm algorithm,          \
                                             const T* w, fastdl_conv_filters_##suffix** filters) {                     \
    return core::guarded([&] {                                                                                         \
      if (!filters) core::fail("conv.prepare", "a place for the filters", "NULL");                                     \
      *filters = static_cast<fastdl_conv_filters_##suffix*>(conv::prepare<T>(shape, algorithm, w));                    \
    });                                                                                                                \
  }                                                                                                                    \
  void fastdl_conv_filters_free_##suffix(fastdl_conv_filters_##suffix* filters) {                                      \
    delete static_cast<conv::Filters<T>*>(filters);                                                                    \
  }                                                                                                                    \
  fastdl_status fastdl_conv_prepared_##suffix(                                                                         \
      const fastdl_conv_filters_##suffix* filters, const fastdl_conv_shape* shape, fastdl_padding padding,             \
      fastdl_activation activation, const T* x, const int64_t* x_strides, const T* bias, T* out) {                     \
    return core::guarded(                                                                                              \
        [&] { conv::compute_prepared<T>(filters, shape, padding, activation, x, x_strides, bias, out); });             \
  }                                                                                                                    \
  fastdl_status fastdl_conv_input_##suffix(const fastdl_conv_shape* shape, const T* w, const T* grad, const T* bias,   \
                                           T* dx) {                                                                    \
    return core::guarded([&] { conv::compute_input<T>(shape, w, grad, bias, dx); });                                   \
  }                                                                                                                    \
  fastdl_status fastdl_conv_weight_##suffix(const fastdl_conv_shape* shape, const T* x, const int64_t* x_strides,      \
                                            const T* grad, T* dw) {                                                    \
    return core::guarded([&] { conv::compute_weight<T>(shape, x, x_strides, grad, dw); });                             \
  }                                                                                                                    \
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
