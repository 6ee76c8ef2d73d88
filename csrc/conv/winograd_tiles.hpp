// The tiles of all images for Winograd's algorithm, numbered through and taken in groups, and their pixels as lines.
#pragma once

#include "conv/geometry.hpp"
#include "conv/winograd.hpp"
#include "core/scratch.hpp"
#include "gemm/shape.hpp"

namespace fastdl::conv {
namespace {

using gemm::at_most;
using gemm::divide_up;
using gemm::round_up;

// Tiles of M x M outputs, `width` a group.
template <int M>
struct Tiles {
  Index across, down, count, width;

  Tiles(const Geometry& g, Index wanted)
      : across(divide_up(g.out[2], M)), down(divide_up(g.out[1], M)), count(g.batch * down * across), width(wanted) {}

  Index groups() const { return divide_up(count, width); }
  Index in_group(Index group) const { return at_most(width, count - group * width); }

  // A row of tiles of one image, as far as it lies in a group: from `across` on, and from `offset` of the group.
  struct Strip {
    Index image, down, across, offset, count;
  };

  template <class Function>
  void each_strip(Index group, const Function& function) const {
    const Index first = group * width, end = at_most(first + width, count);
    for (Index tile = first; tile < end;) {
      const Index column = tile % across, row = tile / across;
      const Strip strip{row / down, row % down, column, tile - first, at_most(end - tile, across - column)};
      function(strip);
      tile += strip.count;
    }
  }
};

// What is transformed: tiles of the input, which overlap by two, or of the gradient, which do not.
template <class T, int M>
struct OfInput {
  using W = Winograd<T, M>;
  using V = simd::Vec<T>;
  static constexpr int taken = W::size;
  static FASTDL_INLINE void transform(const V (&values)[taken], V (&to)[W::size]) { W::input(values, to); }
};
template <class T, int M>
struct OfGradient {
  using W = Winograd<T, M>;
  using V = simd::Vec<T>;
  static constexpr int taken = M;
  static FASTDL_INLINE void transform(const V (&values)[taken], V (&to)[W::size]) { W::gradient(values, to); }
};

// The transform of the tiles of a group, one channel at a time. Down the columns it is made of pixels side by side;
// then rows are split into lines, one for each column that a tile sees, and along the rows it is made of tiles side by
// side, from all strips: vectors are full however short a strip is.
template <class T, int M, class Kind>
class TileTransform {
  using W = Winograd<T, M>;
  using V = simd::Vec<T>;
  using Strip = typename Tiles<M>::Strip;
  static constexpr int size = W::size, taken = Kind::taken, lanes = simd::lanes<T>;

 public:
  // height, width: of the planes, of which tile 0 begins lower[1] before the first row and lower[2] before the first
  // column
  TileTransform(const Tiles<M>& tiles, const Images<const T>& x, Index height, Index width, const Index (&lower)[axes],
                core::Scratch& scratch)
      : tiles_(tiles), x_(x), height_(height), width_(width), lower_{lower[1], lower[2]} {
    line_ = tiles.width + lanes;
    longest_ = at_most(tiles.across, tiles.width) * M + size + 5 * M * lanes;
    lines_ = scratch.array<T>(size * taken, line_);
    vertical_ = scratch.array<T>(size, longest_);
    zeros_ = scratch.array<T>(width + lanes);
    for (Index i = 0; i < width + lanes; ++i) zeros_[i] = 0;
  }

  // Tiles [0, count) of a group; to(position, tile) is where a vector of them goes.
  template <class Place>
  FASTDL_INLINE void run(Index group, Index channel, const Place& to) {
    tiles_.each_strip(group, [&](const Strip& strip) {
      columns(x_.data + strip.image * x_.batch + channel * x_.channel, strip);
      for (int i = 0; i < size; ++i)
        split_row(vertical_ + i * longest_, strip.count, lines_ + i * taken * line_ + strip.offset);
    });
    const Index count = tiles_.in_group(group);
    for (Index t = 0; t < count; t += lanes)
      for (int i = 0; i < size; ++i) {
        V values[taken], found[size];
        for (int k = 0; k < taken; ++k) values[k] = simd::load(lines_ + (i * taken + k) * line_ + t);
        Kind::transform(values, found);
        for (int k = 0; k < size; ++k) simd::store(to(i * size + k, t), found[k]);
      }
  }

 private:
  // vertical[i][j]: row i of the transform down column j of the strip, the padding included.
  void columns(const T* plane, const Strip& strip) {
    const Index first = strip.across * M - lower_[1], length = strip.count * M + taken - M;
    const Index begin = first < 0 ? 0 : first, stop = at_most(first + length, width_);
    const T* from[taken];
    for (int i = 0; i < taken; ++i) {
      const Index row = strip.down * M - lower_[0] + i;
      from[i] = row >= 0 && row < height_ ? plane + row * x_.axis[1] : zeros_;
    }
    const auto clear = [&](Index j, Index j_end) {
      for (int i = 0; i < size; ++i)
        for (Index at = j; at < j_end; ++at) vertical_[i * longest_ + at] = 0;
    };
    const auto put = [&](Index column, const V(&values)[taken]) {
      V found[size];
      Kind::transform(values, found);
      for (int i = 0; i < size; ++i) simd::store(vertical_ + i * longest_ + column - first, found[i]);
    };
    clear(0, at_most(begin - first, length));
    Index column = begin;
    V values[taken];
    for (; column + lanes <= stop; column += lanes) {
      // The same rows of the next channel: too short for the processor to see a stream. (Rows that tiles share are
      // those of the next strip.)
      for (int i = 0; i < M; ++i) simd::prefetch_to_l2(from[i] + column + x_.channel);
      for (int i = 0; i < taken; ++i) values[i] = simd::load(from[i] + column);
      put(column, values);
    }
    if (column < stop) {
      for (int i = 0; i < taken; ++i) values[i] = simd::load_first(from[i] + column, int(stop - column));
      put(column, values);
      column += lanes;
    }
    if (column < first + length) clear(column - first < 0 ? 0 : column - first, length);
  }

  // A row of a strip, a line for each of the columns that a tile sees.
  void split_row(const T* from, Index count, T* to) const {
    V current[M], next[M];
    W::split(from, current);
    for (Index t = 0; t < count; t += lanes) {
      for (int i = 0; i < M; ++i) simd::store(to + i * line_ + t, current[i]);
      // The columns that a tile shares with the next one come from registers: to store the phases and to read them one
      // element further waits for the stores.
      W::split(from + (t + lanes) * M, next);
      for (int i = M; i < taken; ++i) simd::store(to + i * line_ + t, simd::next_lanes<T>(current[i - M], next[i - M]));
      for (int i = 0; i < M; ++i) current[i] = next[i];
    }
  }

  const Tiles<M>& tiles_;
  const Images<const T>& x_;
  Index height_, width_, lower_[2];
  Index line_, longest_;
  T *lines_, *vertical_, *zeros_;
};

}  // namespace
}  // namespace fastdl::conv
