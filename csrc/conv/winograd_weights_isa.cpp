// The gradient of 3 x 3 filters by Winograd's algorithm, compiled once per instruction-set level.
//
// It is the same algorithm with the roles of filter and output exchanged: 3 x 3 taps from the 4 x 4 pixels of a tile of
// the output's gradient and the 6 x 6 of the input's, with 36 products where the sum has 144. For each of the 36
// positions there is a matrix product over all tiles:
//
//   for as many tiles as fit
//     the input's tiles, transformed and packed as columns; the gradient's, transformed and packed as rows
//   for as many rows as fit
//     for each position: sums (output channels x channels), over tiles
//     back to taps
//
// Tiles of one part after the other are added to the sums; what a part is depends on the sizes alone.
#include "conv/bodies.hpp"
#include "conv/winograd_tiles.hpp"
#include "core/threads.hpp"
#include "gemm/engine.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

template <class T>
class WeightGradient {
  static constexpr int M = 4;
  using W = Winograd<T, M>;
  using V = simd::Vec<T>;
  using S = gemm::Shape<T>;
  static constexpr int size = W::size, positions = size * size, lanes = simd::lanes<T>;
  static constexpr Index group_width = 64;  // tiles transformed together

 public:
  WeightGradient(const Geometry& g, const Images<const T>& x, const T* grad, T* dw)
      : g_(g), x_(x), grad_(grad), dw_(dw), tiles_(g, group_width) {}

  // Whether all numbers are finite.
  bool run() {
    const Index groups = tiles_.groups();
    width_ = round_up(g_.in_channels, S::columns), height_ = round_up(g_.out_channels, S::rows);
    const auto fitting = [](Index megabytes, Index numbers) {
      return 1 + (megabytes << 20) / (positions * numbers * Index(sizeof(T)));
    };
    const Index parts = divide_up(groups, fitting(8, (width_ + height_) * group_width)),
                step = divide_up(groups, parts);
    depth_ = step * group_width;
    // Of several parts the tiles are transformed anew for every block of rows: those are then larger.
    rows_ = at_most(height_, round_up(fitting(parts > 1 ? 24 : 8, width_), S::rows));
    core::Scratch scratch;
    T* columns = scratch.array<T>(positions, width_ * depth_ + apart);
    T* rows = scratch.array<T>(positions, height_ * depth_ + apart);
    T* sums = scratch.array<T>(positions, rows_ * width_ + apart);
    for (Index group = 0; group < g_.groups; ++group)
      for (Index row = 0; row < g_.out_channels; row += rows_) {
        const Index here = at_most(rows_, g_.out_channels - row);
        for (Index first = 0; first < groups; first += step) {
          const Index last = at_most(first + step, groups);
          if (parts > 1 || row == 0) transform(group, first, last, columns, rows);
          multiply(row, here, first, last, columns, rows, sums);
        }
        taps(group, row, here, sums);
      }
    return !spread_;
  }

 private:
  static constexpr Index apart = winograd_apart;

  // Tiles of groups [first, last): columns[position][panel of channels][tile][channel] of the input and
  // rows[position][panel of output channels][tile][channel] of the gradient.
  void transform(Index group, Index first, Index last, T* columns, T* rows) const {
    const Index column_tasks = divide_up(g_.in_channels, lanes), row_tasks = height_ / S::rows;
    const Index tasks = column_tasks + row_tasks;
    const Images<const T> gradient{grad_, g_.groups * g_.out_channels * g_.pixels(), g_.pixels(), {0, g_.out[2], 1}};
    constexpr Index none[axes] = {};
    core::parallel_for((last - first) * tasks, core::thread_count(), [&](Index task) {
      const Index at = task / tasks, which = task % tasks, k = at * group_width;
      const Index count = tiles_.in_group(first + at);
      core::Scratch scratch;
      constexpr Index line = group_width + lanes;
      T* staged = scratch.array<T>(lanes > S::rows ? lanes : S::rows, positions * line);
      const Index depth = depth_of(first, last);
      if (which < column_tasks) {
        TileTransform<T, M, OfInput<T, M>> of_input(tiles_, x_, g_.in[1], g_.in[2], g_.lower, scratch);
        const Index channel = which * lanes, channels = at_most(lanes, g_.in_channels - channel);
        for (Index c = 0; c < channels; ++c)
          of_input.run(first + at, group * g_.in_channels + channel + c,
                       [&](int p, Index t) { return staged + (c * positions + p) * line + t; });
        const Index panel = channel / S::columns * S::columns;
        for (int p = 0; p < positions; ++p) {
          T* to = columns + p * (width_ * depth_ + apart) + panel * depth + k * S::columns + channel - panel;
          for (Index t = 0; t < count; t += lanes) {
            V square[lanes];
            for (int i = 0; i < lanes; ++i)
              square[i] = simd::load(staged + (at_most(i, channels - 1) * positions + p) * line + t);
            simd::transpose<T>(square);
            for (int i = 0; i < at_most(lanes, count - t); ++i) simd::store(to + (t + i) * S::columns, square[i]);
          }
        }
      } else {
        TileTransform<T, M, OfGradient<T, M>> of_gradient(tiles_, gradient, g_.out[1], g_.out[2], none, scratch);
        const Index row = (which - column_tasks) * S::rows, here = at_most(S::rows, g_.out_channels - row);
        for (Index r = 0; r < here; ++r)
          of_gradient.run(first + at, group * g_.out_channels + row + r,
                          [&](int p, Index t) { return staged + (r * positions + p) * line + t; });
        for (int p = 0; p < positions; ++p) {
          T* to = rows + p * (height_ * depth_ + apart) + row * depth + k * S::rows;
          gemm::Strided<T>{staged + p * line, positions * line, 1}.pack_rows(0, int(here), 0, count, to);
        }
      }
    });
  }

  // Tiles of groups [first, last).
  Index depth_of(Index first, Index last) const { return (last - 1 - first) * group_width + tiles_.in_group(last - 1); }

  // sums[position][row][channel] of rows [row, row + count): those of earlier parts and of this one.
  void multiply(Index row, Index count, Index first, Index last, const T* columns, const T* rows, T* sums) const {
    const Index depth = depth_of(first, last), inputs = g_.in_channels;
    core::parallel_for(positions, core::thread_count(), [&](Index p) {
      const T* of_columns = columns + p * (width_ * depth_ + apart);
      const T* of_rows = rows + p * (height_ * depth_ + apart);
      // A group of tiles at a time, and those sums then: roundings of longer sums would show, magnified by the way back
      // to taps. (56 x 56, 8 images: 1.5e-6 of the result with 448 tiles at a time.)
      for (Index j = 0; j < inputs; j += S::columns)
        for (Index k = 0; k < depth; k += group_width) {
          const gemm::Stretch stretch{first * group_width + k, at_most(group_width, depth - k), tiles_.count};
          for (Index r = 0; r < count; r += S::rows) {
            const gemm::Output<T> to{sums + p * (rows_ * width_ + apart) + r * width_ + j, width_, 1};
            gemm::row_panel<T>(of_rows + (row + r) * depth + k * S::rows, nullptr,
                               of_columns + j * depth + k * S::columns, stretch, to, int(at_most(S::rows, count - r)),
                               S::columns, S::columns, 0, gemm::MultiplyAdd{});
          }
        }
    });
  }

  // From sums to taps.
  void taps(Index group, Index row, Index count, const T* sums) {
    const Index stride = rows_ * width_ + apart, inputs = g_.in_channels;
    core::parallel_for(count, core::thread_count(), [&](Index r) {
      T* to = dw_ + (group * g_.out_channels + row + r) * inputs * 9;
      V check{};  // x - x is not 0 if x is not finite
      for (Index c = 0; c < inputs; c += lanes) {
        V half[size][3];
        for (int i = 0; i < size; ++i) {
          V values[size];
          for (int j = 0; j < size; ++j) values[j] = simd::load(sums + (i * size + j) * stride + r * width_ + c);
          W::taps(values, half[i]);
        }
        T found[9][lanes];
        const int here = int(at_most(lanes, inputs - c));
        for (int j = 0; j < 3; ++j) {
          V values[size], of_column[3];
          for (int i = 0; i < size; ++i) values[i] = half[i][j];
          W::taps(values, of_column);
          for (int i = 0; i < 3; ++i) {
            const V zero = of_column[i] - of_column[i];
            check += here == lanes ? zero : simd::select(simd::first_lanes<T>(here), zero, V{});
            simd::store(found[3 * i + j], of_column[i]);
          }
        }
        for (int l = 0; l < here; ++l)
          for (int t = 0; t < 9; ++t) to[(c + l) * 9 + t] = found[t][l];
      }
      if (simd::any(check != V{})) __atomic_store_n(&spread_, true, __ATOMIC_RELAXED);
    });
  }

  const Geometry& g_;
  const Images<const T>& x_;
  const T* grad_;
  T* dw_;
  Tiles<M> tiles_;
  Index width_, height_;  // channels and output channels, rounded up to panels
  Index depth_, rows_;    // tiles of a part, rows whose sums are kept
  bool spread_ = false;
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                \
  void winograd_weights(const Geometry& g, const Images<const T>& x, const T* grad, T* dw, bool& finite) { \
    finite = WeightGradient<T>(g, x, grad, dw).run();                                                      \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
