// The gradient of a convolution with respect to its weights, compiled once per instruction-set level: a matrix product
// over the pixels of all images, rows the output channels, columns the channels and taps.
//
// The result is mostly small and the pixels are many: they are taken in equal parts, each with sums of its own, which
// are added in order. So every window is gathered once, by the one task that has its pixels. The parts depend on the
// sizes alone, not on the threads.
#include "conv/bodies.hpp"
#include "conv/windows.hpp"
#include "core/interrupt.hpp"
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
class WeightGradient {
  using S = gemm::Shape<T>;

 public:
  WeightGradient(const Geometry& g, const Images<const T>& x, const T* grad, T* dw, core::Scratch& scratch)
      : g_(g), x_(x), grad_(grad), dw_(dw), taps_(taps_of(g, x, scratch)), columns_(g.in_channels * g.taps()) {}

  // Every part by one task, which packs what it needs of rows and columns, a stretch of pixels at a time, and uses it
  // while it is in L2.
  void by_parts(Index parts) const {
    const Index numbers = g_.groups * g_.out_channels * columns_, part = g_.batch * g_.pixels() / parts;
    const Index depth = gemm::balanced_depth<T>(part), height = round_up(g_.out_channels, S::rows);
    core::Scratch scratch;
    T* sums = scratch.array<T>(parts - 1, numbers);  // of all parts but the first, whose place is the result
    core::parallel_for(parts * g_.groups, core::thread_count(), [&](Index task) {
      const Index group = task % g_.groups, of = task / g_.groups;
      const gemm::Output<T> out{(of == 0 ? dw_ : sums + (of - 1) * numbers) + group * g_.out_channels * columns_,
                                columns_, 1};
      core::Scratch of_task;
      T* rows = of_task.array<T>(height, depth);
      T* columns = of_task.array<T>(Index(S::columns), depth);
      const auto pixels = rows_of(group, of * part);
      const auto windows = columns_of(group, of * part);
      for (Index k = 0; k < part; k += depth) {
        core::check_interrupt();
        const gemm::Stretch stretch{k, at_most(depth, part - k), part};
        for (Index r = 0; r < g_.out_channels; r += S::rows)
          pixels.pack_rows(r, int(at_most(S::rows, g_.out_channels - r)), k, stretch.depth, rows + r * stretch.depth);
        for (Index j = 0; j < columns_; j += S::columns) {
          const int count = int(at_most(S::columns, columns_ - j));
          windows.pack_columns(j, count, k, stretch.depth, gemm::padded<T>(count), columns);
          for (Index r = 0; r < g_.out_channels; r += S::rows)
            gemm::row_panel<T>(rows + r * stretch.depth, nullptr, columns, stretch, out.at(r, j),
                               int(at_most(S::rows, g_.out_channels - r)), count, count, 0, gemm::MultiplyAdd{});
        }
      }
    });
    constexpr Index block = 4096;
    core::parallel_for(divide_up(numbers, block), core::thread_count(), [&](Index task) {
      const Index begin = task * block, end = at_most(begin + block, numbers);
      for (Index of = 0; of < parts - 1; ++of)
        for (Index i = begin; i < end; ++i) dw_[i] += sums[of * numbers + i];
    });
  }

  // A large result, by blocks of its columns. As many pixels at a time as packed rows of 8 MB have.
  void by_columns() const {
    const Index all = g_.batch * g_.pixels(), channels = g_.groups * g_.out_channels;
    const Index most = 512 + (Index{8} << 20) / Index(sizeof(T)) / round_up(channels, S::rows) / 512 * 512;
    core::Scratch scratch;
    T* room = scratch.array<T>(gemm::packed_rows_size<T>(g_.groups, {g_.out_channels, columns_, at_most(most, all)}));
    for (Index first = 0; first < all; first += most) {
      const gemm::Extents size{g_.out_channels, columns_, at_most(most, all - first)};
      const auto rows =
          gemm::pack_all_rows<T>(g_.groups, size, [&](Index group) { return rows_of(group, first); }, room);
      const auto done = [&](Index group, Index row, int count, Index column, Index width, gemm::Output<T> values) {
        for (int r = 0; r < count; ++r) {
          T* to = dw_ + (group * g_.out_channels + row + r) * columns_ + column;
          const T* from = values.at(r, 0).data;
          for (Index j = 0; j < width; ++j) to[j] = (first == 0 ? T(0) : to[j]) + from[j];
        }
      };
      gemm::multiply_columns<T>(
          g_.groups, 1, size, rows, [&](Index group) { return columns_of(group, first); }, gemm::HandOver{done});
    }
  }

 private:
  Pixels<T> rows_of(Index group, Index pixel) const {
    const Index pixels = g_.pixels(), image = g_.groups * g_.out_channels * pixels;
    return {grad_ + group * g_.out_channels * pixels, image, pixels, pixels, pixel};
  }

  TurnedWindows<T> columns_of(Index group, Index pixel) const {
    TurnedWindows<T> windows{{g_, x_, taps_}};
    windows.group = group;
    windows.first_pixel = pixel;
    return windows;
  }

  const Geometry& g_;
  const Images<const T>& x_;
  const T* grad_;
  T* dw_;
  const Tap* taps_;
  Index columns_;
};

template <class T>
void weights_of(const Geometry& g, const Images<const T>& x, const T* grad, T* dw) {
  const Index all = g.batch * g.pixels(), numbers = g.groups * g.out_channels * g.in_channels * g.taps();
  if (all == 0 || g.in_pixels() == 0) {
    for (Index i = 0; i < numbers; ++i) dw[i] = 0;
    return;
  }
  core::Scratch scratch;
  const WeightGradient<T> gradient(g, x, grad, dw, scratch);
  // A stretch of the rows of all output channels, which a part has to itself, is some 2 KB a channel.
  const Index parts = g.out_channels > 4096 ? 1 : parts_of(all, numbers * Index(sizeof(T)));
  if (parts > 1)
    gradient.by_parts(parts);
  else
    gradient.by_columns();
}

}  // namespace

#define FASTDL_BODIES_OF(T) \
  void weights(const Geometry& g, const Images<const T>& x, const T* grad, T* dw) { weights_of<T>(g, x, grad, dw); }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
