// Convolution as a matrix product over windows that are gathered as it goes, compiled once per instruction-set level:
// rows are output channels, columns the pixels of all images, k the channels and taps of a window.
#include "conv/activation.hpp"
#include "conv/bodies.hpp"
#include "conv/windows.hpp"
#include "gemm/columns.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

// weights(group) gives them as rows.
template <class T, class Weights>
void direct_of(const Geometry& g, const Images<const T>& x, bool channels_last, const Weights& weights, const T* bias,
               Activation activation, T* out) {
  const Index k = g.in_channels * g.taps(), pixels = g.pixels();
  const gemm::Extents size{g.out_channels, g.batch * pixels, k};
  core::Scratch scratch;
  const Tap* taps = taps_of(g, x, scratch);
  T* zeros = scratch.array<T>(g.in_channels + 2 * simd::lanes<T>);
  for (Index c = 0; c < g.in_channels + 2 * simd::lanes<T>; ++c) zeros[c] = 0;
  const auto packed = [&] {
    return gemm::pack_all_rows<T>(g.groups, size, weights, scratch.array<T>(gemm::packed_rows_size<T>(g.groups, size)));
  };
  const Windows<T> windows{{g, x, taps}, channels_last, zeros};
  const Index channels = g.groups * g.out_channels;
  const auto finish = [&](Index channel, const T* sums, Index count, T* to) {
    finish_pixels(sums, count, bias ? bias[channel] : T(0), activation, to);
  };
  // Large images one by one, each a product whose result lies in the output; small ones together, so that tiles are
  // full, and their pixels put where they belong.
  if (pixels >= 8 * gemm::Shape<T>::columns) {
    const auto columns = [&](Index product) {
      return ImageWindows<T>{windows.of(product / g.batch), product % g.batch * pixels};
    };
    const auto output = [&](Index product) {
      const Index image = product % g.batch, group = product / g.batch;
      return gemm::Output<T>{out + (image * channels + group * g.out_channels) * pixels, pixels, 1};
    };
    const auto done = [&](Index product, Index row, int count, Index, Index width, gemm::Output<T> to) {
      if (!bias && activation == Activation::none) return;
      for (int r = 0; r < count; ++r) {
        T* pixels_of = to.at(r, 0).data;
        finish(product / g.batch * g.out_channels + row + r, pixels_of, width, pixels_of);
      }
    };
    const gemm::Extents of_image{g.out_channels, pixels, k};
    gemm::multiply_columns<T>(g.groups * g.batch, g.batch, of_image, packed(), columns, gemm::InPlace{output, done});
    return;
  }
  const auto columns = [&](Index group) { return windows.of(group); };
  const auto done = [&](Index group, Index row, int count, Index column, Index width, gemm::Output<T> values) {
    for (int r = 0; r < count; ++r) {
      const Index channel = group * g.out_channels + row + r;
      for (Index j = 0; j < width;) {
        const Index image = (column + j) / pixels, pixel = (column + j) % pixels;
        const Index here = at_most(width - j, pixels - pixel);
        finish(channel, values.at(r, j).data, here, out + (image * channels + channel) * pixels + pixel);
        j += here;
      }
    }
  };
  // Of one small image weights are most of what there is to read. (1 x 1 filters, 2048 to 512 channels of 7 x 7, Zen 5:
  // 0.33 ms, and 0.36 with all of them packed beforehand.)
  if (gemm::in_one_block<T>(g.groups, size))
    gemm::multiply_columns<T>(g.groups, 1, size, gemm::RowsAtTheirTurn<T, Weights>{weights, g.out_channels}, columns,
                              gemm::HandOver{done});
  else
    gemm::multiply_columns<T>(g.groups, 1, size, packed(), columns, gemm::HandOver{done});
}

template <class T>
void direct_of(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, T* out) {
  const Index k = g.in_channels * g.taps();
  const auto weights_of = [&](Index group) { return w + group * g.out_channels * k; };
  if (x.channel == 1 && x.axis[2] != 1 && g.in_channels >= simd::lanes<T>)
    direct_of(
        g, x, true, [&](Index group) { return TurnedWeights<T>{weights_of(group), g.in_channels, g.taps()}; }, bias,
        activation, out);
  else
    direct_of(
        g, x, false, [&](Index group) { return gemm::Strided<T>{weights_of(group), k, 1}; }, bias, activation, out);
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                            \
  void direct(const Geometry& g, const Images<const T>& x, const T* w, const T* bias, Activation activation, T* out) { \
    direct_of<T>(g, x, w, bias, activation, out);                                                                      \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
