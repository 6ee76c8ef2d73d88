// The gradient of a convolution with respect to its weights, compiled once per instruction-set level: a matrix product
// over the pixels of all images, rows the output channels, columns the channels and taps.
#include "conv/bodies.hpp"
#include "conv/windows.hpp"
#include "gemm/columns.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

// Output channels as rows, k (image, pixel) from `first` on.
template <class T>
struct Pixels {
  const T* data;
  Index image, channel, pixels, first;

  void pack_rows(Index row, int count, Index k, Index depth, T* panel) const {
    for (Index p = 0; p < depth;) {
      const Index at = first + k + p, pixel = at % pixels, here = at_most(depth - p, pixels - pixel);
      const gemm::Strided<T> rows{data + at / pixels * image, channel, 1};
      rows.pack_rows(row, count, pixel, here, panel + p * gemm::Shape<T>::rows);
      p += here;
    }
  }
};

template <class T>
void weights_of(const Geometry& g, const Images<const T>& x, const T* grad, T* dw) {
  const Index pixels = g.pixels(), all = g.batch * pixels, columns = g.in_channels * g.taps();
  const Index channels = g.groups * g.out_channels;
  if (all == 0) {
    for (Index i = 0; i < channels * columns; ++i) dw[i] = 0;
    return;
  }
  core::Scratch scratch;
  const Tap* taps = taps_of(g, x, scratch);
  // As many pixels at a time as packed rows of 8 MB have; the parts are added in order.
  const Index most = 512 + (Index{8} << 20) / Index(sizeof(T)) / round_up(channels, gemm::Shape<T>::rows) / 512 * 512;
  const gemm::Extents largest{g.out_channels, columns, at_most(most, all)};
  T* room = scratch.array<T>(gemm::packed_rows_size<T>(g.groups, largest));
  TurnedWindows<T> windows{{g, x, taps}};
  for (Index first = 0; first < all; first += most) {
    const gemm::Extents size{g.out_channels, columns, at_most(most, all - first)};
    const auto rows = gemm::pack_all_rows<T>(
        g.groups, size,
        [&](Index group) {
          return Pixels<T>{grad + group * g.out_channels * pixels, channels * pixels, pixels, pixels, first};
        },
        room);
    windows.first_pixel = first;
    const auto columns_of = [&](Index group) {
      TurnedWindows<T> of_group = windows;
      of_group.group = group;
      return of_group;
    };
    const auto done = [&](Index group, Index row, int count, Index column, Index width, gemm::Output<T> values) {
      for (int r = 0; r < count; ++r) {
        T* to = dw + (group * g.out_channels + row + r) * columns + column;
        const T* from = values.at(r, 0).data;
        for (Index j = 0; j < width; ++j) to[j] = (first == 0 ? T(0) : to[j]) + from[j];
      }
    };
    gemm::multiply_columns<T>(g.groups, 1, size, rows, columns_of, gemm::HandOver{done});
  }
}

}  // namespace

#define FASTDL_BODIES_OF(T) \
  void weights(const Geometry& g, const Images<const T>& x, const T* grad, T* dw) { weights_of<T>(g, x, grad, dw); }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
