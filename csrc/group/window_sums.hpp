// Sums of windows: what a block of output pixels adds to the gradient of the input, as strips.hpp is what it sees of
// the input.
//
// There is one set of sums for every column of the window, with the columns of the block side by side, and the rows of
// each phase of the stride together: vectors of pixels go on from row to row in them, whatever the stride. The sets are
// joined when they are written. Blocks that meet in the input write one after the other, in phases; the first one sets
// and the others add. So the order of all sums depends on the layer alone.
#pragma once

#include "group/strips.hpp"
#include "simd/transpose.hpp"

namespace fastdl::group {
namespace {

// Blocks of `step` places of the gradient, along one axis of dx.
struct Axis {
  Index step, count, stride, k, lower, size;

  // Blocks that many apart have no place of dx in common.
  Index phases() const { return at_most(count, divide_up((step - 1) * stride + k, step * stride)); }

  // What block `number` gives: [begin, end), of which [fresh, stale) before any other does.
  struct Span {
    Index begin, fresh, stale, end;
  };
  Span span(Index number) const {
    const Index first = begin(number), last = end(number), apart = phases(), phase = number % apart;
    Span span{first, first, last, last};
    for (Index other = number - phase; other < number; ++other)
      span.fresh = at_most(last, larger(span.fresh, end(other)));
    for (Index other = number + apart - phase; other < at_most(count, number + apart); ++other)
      span.stale = larger(span.fresh, at_most(span.stale, begin(other)));
    return span;
  }

 private:
  static Index larger(Index a, Index b) { return a < b ? b : a; }
  Index within(Index place) const { return larger(0, at_most(size, place)); }
  Index begin(Index number) const { return number == 0 ? 0 : within(number * step * stride - lower); }
  Index end(Index number) const {
    if (number + 1 == count) return size;
    return within(((number + 1) * step - 1) * stride + larger(k, stride) - lower);
  }
};

template <class T>
class WindowSums {
  using V = simd::Vec<T>;
  static constexpr int lanes = simd::lanes<T>;

 public:
  WindowSums(const Layer& layer, const Blocks& blocks)
      : layer_(layer),
        blocks_(blocks),
        down_{blocks.rows, blocks.down, layer.stride[0], layer.k, layer.lower[0], layer.in[0]},
        across_{blocks.columns, blocks.across, layer.stride[1], layer.k, layer.lower[1], layer.in[1]},
        phases_(at_most(layer.stride[0], layer.k)),
        phase_((blocks.rows + (layer.k - 1) / layer.stride[0]) * blocks.columns),
        plane_(phase_ * phases_ * layer.k) {}

  const Axis& down() const { return down_; }
  const Axis& across() const { return across_; }

  // Elements of the sums of one plane of the input; `beyond` more are read before the first and after the last.
  Index plane() const { return plane_; }
  static constexpr Index beyond = lanes;

  // Where pixel 0 of the block falls with a pixel of the window.
  Index offset(Index pixel) const {
    const Index down = pixel / layer_.k, across = pixel % layer_.k;
    return (across * phases_ + down % layer_.stride[0]) * phase_ + down / layer_.stride[0] * blocks_.columns;
  }

  // The sums of one plane of block (row, column) to that plane.
  void write(Index row, Index column, const T* sums, T* to) const {
    const Block block = blocks_.at(row * blocks_.across + column);
    if (layer_.stride[1] == 1)
      write_rows<1>(block, down_.span(row), across_.span(column), sums, to);
    else if (layer_.stride[1] == 2)
      write_rows<2>(block, down_.span(row), across_.span(column), sums, to);
    else
      write_rows<0>(block, down_.span(row), across_.span(column), sums, to);
  }

 private:
  // Places [begin, end) of the input along an axis. The first has what falls on number * stride + phase, counted from
  // the block on.
  struct Places {
    Index begin, end, phase, number;

    Places(Index begin_, Index end_, Index shift, Index stride) : begin(begin_), end(end_) {
      phase = ((begin + shift) % stride + stride) % stride;
      number = (begin + shift - phase) / stride;
    }
  };

  // A row of the sums: for each column of the window `columns` of them, `apart` from the next.
  template <int Stride>
  struct Line {
    const T* sums;
    Index apart, columns, k, any_stride;

    FASTDL_INLINE Index stride() const { return Stride ? Stride : any_stride; }

    // What falls on places (number + i) * stride + phase, i < lanes.
    template <bool Inside>
    FASTDL_INLINE V at(Index phase, Index number) const {
      V sum{};
      const T* from = sums + phase * apart + number;
      for (Index tap = phase; tap < k; tap += stride(), from += stride() * apart - 1) {
        if constexpr (Inside) {
          sum += simd::load(from);
        } else {
          if (number > -lanes && number < columns) {
            const auto inside =
                simd::first_lanes<T>(int(at_most(lanes, columns - number))) & ~simd::first_lanes<T>(int(-number));
            sum += simd::select(inside, simd::load(from), V{});
          }
          --number;
        }
      }
      return sum;
    }
  };

  template <bool Add, int Stride>
  static FASTDL_INLINE void write_row(const Line<Stride>& line, const Places& places, T* to) {
    if constexpr (Stride == 0) {
      write_apart<Add>(line, places, to);
    } else {
      constexpr Index step = Stride * lanes;
      const Index end = places.end;
      Index phase = places.phase, number = places.number, v = places.begin;
      const bool back = !Add && end - v >= step;
      while (v < end) {
        if (back && end - v < step) {
          // What is left, with some of what was written: stores with masks cost more.
          const Index place = number * Stride + phase - (step - (end - v));
          v = end - step;
          phase = place & (Stride - 1);
          number = (place - phase) / Stride;
        }
        if (number * Stride + phase >= line.k - Stride && number + phase + lanes <= line.columns && v + step <= end)
          write_vectors<Add, true>(line, phase, number, end - v, to + v);
        else
          write_vectors<Add, false>(line, phase, number, end - v, to + v);
        v += step;
        number += lanes;
      }
    }
  }

  template <bool Add, bool Inside, int Stride>
  static FASTDL_INLINE void write_vectors(const Line<Stride>& line, Index phase, Index number, Index rest, T* to) {
    const V values = line.template at<Inside>(phase, number);
    if constexpr (Stride == 1) {
      put<Add>(to, values, rest);
    } else {
      const V between = rest > 1 ? line.template at<Inside>(1 - phase, number + phase) : V{};
      put<Add>(to, simd::low_by_turns<T>(values, between), rest);
      put<Add>(to + lanes, simd::high_by_turns<T>(values, between), rest - lanes);
    }
  }

  template <bool Add>
  static void write_apart(const Line<0>& line, const Places& places, T* to) {
    const Index stride = line.stride();
    for (Index e = 0; e < at_most(stride, places.end - places.begin); ++e) {
      const Index phase = (places.phase + e) % stride;
      Index number = places.number + (places.phase + e) / stride;
      for (Index v = places.begin + e; v < places.end; number += lanes) {
        const V values = line.template at<false>(phase, number);
        for (int i = 0; i < lanes && v < places.end; ++i, v += stride) to[v] = Add ? to[v] + values[i] : values[i];
      }
    }
  }

  template <bool Add>
  static FASTDL_INLINE void put(T* to, V value, Index rest) {
    if (rest >= lanes)
      simd::store(to, Add ? simd::load(to) + value : value);
    else if (rest > 0)
      simd::store_first(to, Add ? simd::load_first(to, int(rest)) + value : value, int(rest));
  }

  // Stride: of the columns, 0 for one that is not of the list.
  template <int Stride>
  void write_rows(const Block& block, const Axis::Span& down, const Axis::Span& across, const T* sums, T* to) const {
    const Index stride = layer_.stride[0], shift = layer_.lower[1] - block.column * layer_.stride[1];
    const Places fresh(across.fresh, across.stale, shift, layer_.stride[1]);
    const Places before(across.begin, across.fresh, shift, layer_.stride[1]);
    const Places after(across.stale, across.end, shift, layer_.stride[1]);
    Places rows(down.begin, down.end, layer_.lower[0] - block.row * stride, stride);
    for (Index u = down.begin; u < down.end; ++u) {
      const bool met = rows.number >= 0 && rows.phase < phases_ &&
                       rows.number * stride + rows.phase < (block.rows - 1) * stride + layer_.k;
      const Line<Stride> line{met ? sums + rows.phase * phase_ + rows.number * blocks_.columns : sums, phases_ * phase_,
                              met ? block.columns : 0, layer_.k, layer_.stride[1]};
      T* row = to + u * layer_.in[1];
      if (down.fresh <= u && u < down.stale)
        write_row<false>(line, fresh, row);
      else
        write_row<true>(line, fresh, row);
      if (before.begin < before.end) write_row<true>(line, before, row);
      if (after.begin < after.end) write_row<true>(line, after, row);
      if (++rows.phase == stride) rows.phase = 0, ++rows.number;
    }
  }

  const Layer& layer_;
  const Blocks& blocks_;
  Axis down_, across_;
  Index phases_, phase_, plane_;  // of the stride, down; elements of a phase and of a plane
};

}  // namespace
}  // namespace fastdl::group
