// The gradient of a convolution with respect to its weights, compiled once per instruction-set level: a matrix product
// over the pixels of all images, rows the output channels, columns the channels and taps.
//
// The result is mostly small and the pixels are many: they are taken in equal parts, each with sums of its own, which
// are added in order. So every window is gathered once, by the one task that has its pixels. The parts depend on the
// sizes alone, not on the threads.
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

// The most equal parts of `all` pixels, 512 or more in each, whose sums take no more than 16 MB.
Index parts_of(Index all, Index sums_bytes) {
  const Index room = 1 + (Index{16} << 20) / (sums_bytes + 1);
  for (Index parts = at_most(16, room); parts > 1; --parts)
    if (all % parts == 0 && all / parts >= 512) return parts;
  return 1;
}

template <class T>
void weights_of(const Geometry& g, const Images<const T>& x, const T* grad, T* dw) {
  const Index pixels = g.pixels(), all = g.batch * pixels, columns = g.in_channels * g.taps();
  const Index channels = g.groups * g.out_channels, numbers = channels * columns;
  if (all == 0) {
    for (Index i = 0; i < numbers; ++i) dw[i] = 0;
    return;
  }
  core::Scratch scratch;
  const Tap* taps = taps_of(g, x, scratch);
  const Index parts = parts_of(all, numbers * Index(sizeof(T))), part = all / parts;
  T* sums = scratch.array<T>(parts - 1, numbers);  // of all parts but the first, whose place is the result
  // As many pixels of every part at a time as packed rows of 8 MB have.
  const Index height = round_up(channels, gemm::Shape<T>::rows) * parts;
  const Index most = 512 + (Index{8} << 20) / Index(sizeof(T)) / height / 512 * 512;
  const gemm::Extents largest{g.out_channels, columns, at_most(most, part)};
  const Index products = parts * g.groups;
  T* room = scratch.array<T>(gemm::packed_rows_size<T>(products, largest));
  for (Index first = 0; first < part; first += most) {
    const gemm::Extents size{g.out_channels, columns, at_most(most, part - first)};
    const auto rows_of = [&](Index product) {
      const Index group = product % g.groups, pixel = product / g.groups * part + first;
      return Pixels<T>{grad + group * g.out_channels * pixels, channels * pixels, pixels, pixels, pixel};
    };
    const auto rows = gemm::pack_all_rows<T>(products, size, rows_of, room);
    const auto columns_of = [&](Index product) {
      TurnedWindows<T> windows{{g, x, taps}};
      windows.group = product % g.groups;
      windows.first_pixel = product / g.groups * part + first;
      return windows;
    };
    const auto done = [&](Index product, Index row, int count, Index column, Index width, gemm::Output<T> values) {
      const Index of = product / g.groups;
      for (int r = 0; r < count; ++r) {
        const Index place = (product % g.groups * g.out_channels + row + r) * columns + column;
        T* to = (of == 0 ? dw : sums + (of - 1) * numbers) + place;
        const T* from = values.at(r, 0).data;
        for (Index j = 0; j < width; ++j) to[j] = (first == 0 ? T(0) : to[j]) + from[j];
      }
    };
    gemm::multiply_columns<T>(products, 1, size, rows, columns_of, gemm::HandOver{done});
  }
  constexpr Index block = 4096;
  core::parallel_for(parts == 1 ? 0 : divide_up(numbers, block), core::thread_count(), [&](Index task) {
    const Index begin = task * block, end = at_most(begin + block, numbers);
    for (Index of = 0; of < parts - 1; ++of)
      for (Index i = begin; i < end; ++i) dw[i] += sums[of * numbers + i];
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T) \
  void weights(const Geometry& g, const Images<const T>& x, const T* grad, T* dw) { weights_of<T>(g, x, grad, dw); }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
