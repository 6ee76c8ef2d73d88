// Convolution with 3 x 3 filters by Winograd's algorithm, compiled once per instruction-set level.
//
// The output is cut into tiles of m x m pixels. The transformed input of a group of tiles, the transformed filters and
// their product, a small matrix product (output channels x channels x tiles) for each of the (m + 2)^2 positions, stay
// in cache; all tiles of all images are numbered through, so that groups are full however small an image is. Tiles lie
// along the vector: rows of pixels are split into m phases, one for each column of a tile.
#include <type_traits>

#include "conv/activation.hpp"
#include "conv/bodies.hpp"
#include "conv/winograd_tiles.hpp"
#include "core/threads.hpp"
#include "gemm/engine.hpp"

namespace fastdl::conv::FASTDL_LEVEL {
namespace {

template <class T, int M>
class Convolution {
  using W = Winograd<T, M>;
  using V = simd::Vec<T>;
  using S = gemm::Shape<T>;
  using Strip = typename Tiles<M>::Strip;
  static constexpr int size = W::size, positions = size * size, lanes = simd::lanes<T>;

 public:
  Convolution(const Geometry& g, const Images<const T>& x, const WinogradFilters<T>& w, const T* bias,
              Activation activation, T* out)
      : g_(g),
        x_(x),
        w_(w),
        filters_(w.transformed),
        bias_(bias),
        activation_(activation),
        out_(out),
        tiles_(g, width_for(g)) {}

 private:
  static Index width_for(const Geometry& g) {
    // Transformed input in half of L2, but 64 tiles. (AVX-512, 2 MB: 64 tiles take 3.2 ms for 64 channels of 56 x 56
    // and for 128 of 28 x 28, 128 tiles 3.3 and 3.9, 256 tiles 4.8 and 4.4.)
    const Index fit = core::l2_bytes() / 2 / (positions * g.in_channels * Index(sizeof(T)));
    const Index whole = fit / S::columns * S::columns, most = whole < 64 ? 64 : at_most(whole, 128);
    const Index tiles = Tiles<M>(g, 1).count;
    if (tiles == 0) return S::columns;
    return round_up(divide_up(tiles, divide_up(tiles, most)), S::columns);
  }

 public:
  // Whether all outputs are finite.
  bool run() {
    if (tiles_.count == 0) return true;
    // Below some 50 us of one thread, waking others takes longer than they save.
    const double filters = double(g_.groups * positions * g_.in_channels) * double(g_.out_channels);
    const int threads = filters * double(round_up(tiles_.count, lanes) + 40) < 8e6 ? 1 : core::thread_count();
    // What is larger, transformed, filters or inputs, is made in parts, and the rest kept.
    const bool many_filters = g_.out_channels >= tiles_.count;
    for (Index group = 0; group < g_.groups; ++group)
      if (many_filters)
        by_filters(group, threads);
      else
        by_tiles(group, threads);
    return !spread_;
  }

  void prepare(T* to) const {
    for (Index group = 0; group < g_.groups; ++group)
      transform_filters({group, 0, g_.out_channels, nullptr}, to + group * filters_size(g_.out_channels),
                        core::thread_count());
  }

 private:
  // Positions lie so many elements further apart than they are long: at a multiple of 4096 bytes, as they often would,
  // all 36 fall into the same set of the L1 cache.
  static constexpr Index apart = winograd_apart;

  Index filters_size(Index rows) const { return positions * (round_up(rows, S::rows) * g_.in_channels + apart); }
  Index inputs_stride() const { return g_.in_channels * tiles_.width + apart; }

  // Rows of output channels of one group, with their transformed filters: for each position panels of 6 rows, as the
  // tiles of the product read them.
  struct Slab {
    Index group, row, rows;
    const T* filters;

    Index panel(Index position, Index r, Index channels) const {
      return position * (round_up(rows, S::rows) * channels + apart) + r * channels;
    }
  };

  // A task for every group of tiles, from input to output; with filters of 16 MB, transformed, at a time, or all there
  // are if they are given.
  void by_tiles(Index group, int threads) {
    const Index fit = round_up(1 + (Index{16} << 20) / (positions * g_.in_channels * Index(sizeof(T))), S::rows);
    const Index slab = filters_ ? g_.out_channels : at_most(g_.out_channels, fit);
    core::Scratch scratch;
    T* room = filters_ ? nullptr : scratch.array<T>(filters_size(slab));
    for (Index row = 0; row < g_.out_channels; row += slab) {
      const Slab part{group, row, at_most(slab, g_.out_channels - row),
                      filters_ ? filters_ + group * filters_size(g_.out_channels) : room};
      if (!filters_) transform_filters(part, room, threads);
      core::parallel_for(tiles_.groups(), threads, [&](Index task) {
        core::Scratch of_task;
        T* inputs = of_task.array<T>(positions, inputs_stride());
        transform_inputs(part.group, task, 0, g_.in_channels, inputs);
        for (Index r = 0; r < part.rows; r += rows_together) multiply(part, r, task, inputs);
      });
    }
  }

  // All inputs, in parts of 16 MB, first; then a task for some filters, from their transform to the output. They are
  // used while they are in cache: written to memory and read again, the filters of 512 channels took as long as all
  // products.
  void by_filters(Index group, int threads) {
    const Index each = positions * inputs_stride();
    const Index groups = tiles_.groups();
    const Index most = at_most(groups, 1 + (Index{16} << 20) / (each * Index(sizeof(T))));
    core::Scratch scratch;
    T* inputs = scratch.array<T>(most, each);
    constexpr Index channels = 16;
    const Index channel_tasks = divide_up(g_.in_channels, channels);
    const Index even = round_up(divide_up(g_.out_channels, 4 * Index(threads)), S::rows);
    const Index rows = at_most(rows_together, even);
    for (Index first = 0; first < groups; first += most) {
      const Index here = at_most(most, groups - first);
      core::parallel_for(here * channel_tasks, threads, [&](Index task) {
        const Index c = task % channel_tasks * channels, at = task / channel_tasks;
        transform_inputs(group, first + at, c, at_most(c + channels, g_.in_channels), inputs + at * each);
      });
      core::parallel_for(divide_up(g_.out_channels, rows), threads, [&](Index task) {
        core::Scratch of_task;
        T* room = filters_ ? nullptr : of_task.array<T>(filters_size(rows));
        Slab part{group, task * rows, at_most(rows, g_.out_channels - task * rows), room};
        Index row = 0;
        if (filters_) {
          // Seen from the first output channel: prepared panels lie so.
          row = part.row;
          part = {group, 0, g_.out_channels, filters_ + group * filters_size(g_.out_channels)};
        } else {
          for (Index r = 0; r < part.rows; r += S::rows) transform_panel(part, r, room);
        }
        for (Index at = 0; at < here; ++at) multiply(part, row, first + at, inputs + at * each, rows);
      });
    }
  }

  void transform_filters(const Slab& part, T* to, int threads) const {
    core::parallel_for(divide_up(part.rows, S::rows), threads,
                       [&](Index task) { transform_panel(part, task * S::rows, to); });
  }

  // The filters of six rows: channel by channel the six side by side, as the tiles of the product read them.
  void transform_panel(const Slab& part, Index row, T* filters) const {
    const Index channels = g_.in_channels, length = channels * S::rows;
    const int count = int(at_most(S::rows, part.rows - row));
    core::Scratch scratch;
    T* taps[9];
    for (int t = 0; t < 9; ++t) taps[t] = scratch.array<T>(length + lanes);
    const T* from[S::rows];
    for (int r = 0; r < S::rows; ++r) {
      const Index output = part.row + row + (r < count ? r : count - 1);
      from[r] = w_.plain + part.group * g_.out_channels * channels * 9 + output * (w_.turned ? 9 : channels * 9);
    }
    const Index step = w_.turned ? g_.out_channels * 9 : 9;  // from channel to channel
    const auto gather = [&](auto turned) {
      for (Index c = 0; c < channels; ++c) {
        // Turned filters lie too far apart for the processor to see a pattern: 512 channels of 7 x 7 took 5.9 ms.
        if (turned)
          for (int i = 0; i < 9 * S::rows; i += 64 / int(sizeof(T)))
            simd::prefetch_to_l2(from[0] + (c + 16) * step + i);
        for (int t = 0; t < 9; ++t)
          for (int r = 0; r < S::rows; ++r) taps[t][c * S::rows + r] = from[r][c * step + (turned ? 8 - t : t)];
      }
    };
    if (w_.turned)
      gather(std::true_type{});
    else
      gather(std::false_type{});
    T* panel = filters + part.panel(0, row, channels);
    const Index stride = part.panel(1, 0, channels);
    for (Index at = 0; at < length; at += lanes) {
      V half[3][size];
      for (int i = 0; i < 3; ++i) {
        V column[3];
        for (int j = 0; j < 3; ++j) column[j] = simd::load(taps[3 * j + i] + at);
        W::filter(column, half[i]);
      }
      for (int i = 0; i < size; ++i) {
        V row_of[3], to[size];
        for (int j = 0; j < 3; ++j) row_of[j] = half[j][i];
        W::filter(row_of, to);
        for (int j = 0; j < size; ++j) {
          T* target = panel + (i * size + j) * stride + at;
          if (at + lanes <= length)
            simd::store(target, to[j]);
          else
            simd::store_first(target, to[j], int(length - at));
        }
      }
    }
  }

  // Products are summed over so many channels at a time, and those sums then: the transforms magnify the roundings of a
  // sum, and of 512 channels at once an error three times as large would be left (docs/accuracy.md).
  static constexpr Index most_channels = 64;

  gemm::Stretch stretch_of(Index channel) const {
    const Index depth = divide_up(g_.in_channels, divide_up(g_.in_channels, most_channels));
    const Index first = channel / depth * depth;
    return {first, at_most(depth, g_.in_channels - first), g_.in_channels};
  }

  // inputs: for each position, stretch of channels and panel of tiles, channels x the tiles of a panel
  void transform_inputs(Index group, Index task, Index channel, Index end, T* inputs) const {
    const Index count = tiles_.in_group(task);
    core::Scratch scratch;
    TileTransform<T, M, OfInput<T, M>> transform(tiles_, x_, g_.in[1], g_.in[2], g_.lower, scratch);
    for (Index c = channel; c < end; ++c) {
      const gemm::Stretch stretch = stretch_of(c);
      T* to = inputs + stretch.first * tiles_.width;
      transform.run(task, group * g_.in_channels + c, [&](int position, Index t) {
        const Index panel = t / S::columns * S::columns,
                    wide = gemm::padded<T>(int(at_most(S::columns, count - panel)));
        return to + position * inputs_stride() + panel * stretch.depth + (c - stretch.first) * wide + t - panel;
      });
    }
  }

  // Output channels whose products wait for all positions.
  static constexpr Index rows_together = 4 * S::rows;

  void multiply(const Slab& part, Index row, Index task, const T* inputs, Index rows = rows_together) {
    const Index count = tiles_.in_group(task), rows_here = at_most(rows, part.rows - row);
    const Index channels = g_.in_channels;
    core::Scratch scratch;
    T* products = scratch.array<T>(rows_together, positions, tiles_.width + lanes);
    const Index stride = tiles_.width + lanes;
    // A stretch of channels of the inputs stays in L1 for all rows.
    for (int p = 0; p < positions; ++p)
      for (Index c = 0; c < channels;) {
        const gemm::Stretch stretch = stretch_of(c);
        const T* columns = inputs + p * inputs_stride() + c * tiles_.width;
        for (Index r = 0; r < rows_here; r += S::rows) {
          const T* panel = part.filters + part.panel(p, row + r, channels) + c * S::rows;
          const gemm::Output<T> to{products + (r * positions + p) * stride, positions * stride, 1};
          gemm::row_panel<T>(panel, nullptr, columns, stretch, to, int(at_most(S::rows, rows_here - r)), count, count,
                             0, gemm::MultiplyAdd{});
        }
        c += stretch.depth;
      }
    T* pixels = scratch.array<T>(M * M, stride);
    for (Index r = 0; r < rows_here; ++r) {
      const Index channel = part.group * g_.out_channels + part.row + row + r;
      transform_outputs(products + r * positions * stride, count, bias_ ? bias_[channel] : T(0), pixels, stride);
      tiles_.each_strip(task, [&](const Strip& strip) { join_strip(pixels + strip.offset, stride, strip, channel); });
    }
  }

  // pixels: a line for each pixel of a tile
  void transform_outputs(const T* products, Index count, T bias, T* pixels, Index stride) {
    V check{};  // x - x is not 0 if x is not finite
    for (Index t = 0; t < count; t += lanes) {
      V half[size][M];
      for (int i = 0; i < size; ++i) {
        V values[size];
        for (int j = 0; j < size; ++j) values[j] = simd::load(products + (i * size + j) * stride + t);
        W::output(values, half[i]);
      }
      for (int j = 0; j < M; ++j) {
        V values[size], found[M];
        for (int i = 0; i < size; ++i) values[i] = half[i][j];
        W::output(values, found);
        for (int i = 0; i < M; ++i) {
          const V sum = found[i] + bias, zero = sum - sum;
          check += t + lanes <= count ? zero : simd::select(simd::first_lanes<T>(int(count - t)), zero, V{});
          simd::store(pixels + (i * M + j) * stride + t, activated<T>(sum, activation_));
        }
      }
    }
    if (simd::any(check != V{})) __atomic_store_n(&spread_, true, __ATOMIC_RELAXED);
  }

  // From lines of pixels to rows of the image.
  void join_strip(const T* pixels, Index stride, const Strip& strip, Index channel) {
    const Index height = g_.out[1], width = g_.out[2];
    T* plane = out_ + (strip.image * g_.groups * g_.out_channels + channel) * height * width;
    for (int i = 0; i < M && strip.down * M + i < height; ++i)
      for (Index t = 0; t < strip.count; t += lanes) {
        const Index column = (strip.across + t) * M;
        const Index wanted = at_most(at_most(lanes, strip.count - t) * M, width - column);
        T* to = plane + (strip.down * M + i) * width + column;
        V phases[M];
        for (int j = 0; j < M; ++j) phases[j] = simd::load(pixels + (i * M + j) * stride + t);
        W::join(phases);
        for (int j = 0; j < M; ++j) {
          const Index rest = wanted - j * lanes;
          if (rest >= lanes)
            simd::store(to + j * lanes, phases[j]);
          else if (rest > 0)
            simd::store_first(to + j * lanes, phases[j], int(rest));
        }
      }
  }

  const Geometry& g_;
  const Images<const T>& x_;
  WinogradFilters<T> w_;
  const T *filters_, *bias_;
  Activation activation_;
  T* out_;
  Tiles<M> tiles_;
  bool spread_ = false;
};

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                              \
  void winograd(const Geometry& g, const Images<const T>& x, const WinogradFilters<T>& w, const T* bias, \
                Activation activation, int m, T* out, bool& finite) {                                    \
    finite = m == 4 ? Convolution<T, 4>(g, x, w, bias, activation, out).run()                            \
                    : Convolution<T, 2>(g, x, w, bias, activation, out).run();                           \
  }                                                                                                      \
  void winograd_filters(const Geometry& g, const T* w, int m, T* to) {                                   \
    const Images<const T> none{};                                                                        \
    if (m == 4)                                                                                          \
      Convolution<T, 4>(g, none, {w}, nullptr, Activation::none, nullptr).prepare(to);                   \
    else                                                                                                 \
      Convolution<T, 2>(g, none, {w}, nullptr, Activation::none, nullptr).prepare(to);                   \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::conv::FASTDL_LEVEL
