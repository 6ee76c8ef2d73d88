// Strips of the input: what a block of output pixels sees of some planes, copied to where every tap of a vector of
// pixels is one load.
//
// A block is some whole rows of the output, or a piece of one row. If its pixels lie as those of the input do (stride
// 1, and rows that vectors fill), a strip is the rows it sees with the padding around them. Else there is a copy for
// every column of the window, with the columns of the block side by side, and the rows of each phase of the stride
// together: vectors then go on from row to row. Copies cost a few per cent of the products; loads with masks straight
// from the input, as the plain convolution has them, would be taken |G| times for every orbit.
#pragma once

#include "gemm/shape.hpp"
#include "group/orbits.hpp"

namespace fastdl::group {
namespace {

using gemm::at_most;
using gemm::divide_up;
using gemm::round_up;

// Output pixels [row, row + rows) x [column, column + columns): whole rows, or one.
struct Block {
  Index row, rows, column, columns;
  Index count() const { return rows * columns; }
};

// How the pixels of an image are cut into blocks of about `most`.
struct Blocks {
  Index rows, columns;  // of a block, at most
  Index down, across;   // blocks
  Index height, width;

  Blocks(const Layer& layer, Index most, Index multiple) : height(layer.out[0]), width(layer.out[1]) {
    if (width > most) {
      across = divide_up(width, most);
      columns = round_up(divide_up(width, across), multiple);
      across = divide_up(width, columns);
      rows = 1;
    } else {
      across = 1;
      columns = width;
      rows = most / width;
    }
    down = divide_up(height, rows);
    rows = divide_up(height, down);
    down = divide_up(height, rows);
  }

  Index count() const { return down * across; }
  Index pixels() const { return rows * columns; }
  Block at(Index number) const {
    const Index row = number / across * rows, column = number % across * columns;
    return {row, at_most(rows, height - row), column, at_most(columns, width - column)};
  }
};

template <class T>
class Strips {
  static constexpr int lanes = simd::lanes<T>;

 public:
  Strips(const Layer& layer, const Maps<const T>& x, const Orbits& orbits, const Blocks& blocks)
      : layer_(layer), x_(x), orbits_(orbits) {
    plain_ = layer.stride[0] == 1 && layer.stride[1] == 1 && (blocks.rows == 1 || blocks.columns % lanes == 0);
    const Index phases = plain_ ? 1 : at_most(layer.stride[0], layer.k);
    pitch_ = plain_ ? blocks.columns + layer.k - 1 : blocks.columns;
    rows_ = plain_ ? blocks.rows + layer.k - 1 : blocks.rows + (layer.k - 1) / layer.stride[0];
    phase_ = rows_ * pitch_;
    plane_ = phase_ * phases * (plain_ ? 1 : layer.k);
    phases_ = phases;
  }

  // Elements of the strips of so many channels, with what vectors may read beyond.
  Index size(Index channels) const { return channels * layer_.planes() * plane_ + 4 * lanes; }

  Index channel() const { return layer_.planes() * plane_; }

  // [orbit * elements + h]: where the value of the orbit at h lies, from pixel 0 of a channel.
  const Index* offsets(core::Scratch& scratch) const {
    Index* to = scratch.array<Index>(orbits_.count, orbits_.elements);
    for (Index i = 0; i < orbits_.count * orbits_.elements; ++i) {
      const Index down = orbits_.pixel[i] / layer_.k, across = orbits_.pixel[i] % layer_.k;
      const Index plane = layer_.lift ? 0 : i % orbits_.elements;
      to[i] = plane * plane_ +
              (plain_ ? down * pitch_ + across
                      : (across * phases_ + down % layer_.stride[0]) * phase_ + down / layer_.stride[0] * pitch_);
    }
    return to;
  }

  // Where pixels [number, number + lanes) of the block begin.
  Index position(const Block& block, Index number) const {
    if (!plain_ || block.rows == 1) return number;
    return number / block.columns * pitch_ + number % block.columns;
  }

  // Strips of channels [channel, end) of an image.
  void copy(Index image, Index channel, Index end, const Block& block, T* to) const {
    const Index planes = layer_.planes();
    for (Index plane = channel * planes; plane < end * planes; ++plane, to += plane_) {
      const T* from = x_.data + image * x_.batch + plane * x_.plane;
      if (plain_) {
        const Index width = block.columns + layer_.k - 1;
        for (Index r = 0; r < block.rows + layer_.k - 1; ++r)
          copy_row(from, block.row + r - layer_.lower[0], block.column - layer_.lower[1], 1, width, to + r * pitch_);
        continue;
      }
      for (Index across = 0; across < layer_.k; ++across)
        for (Index phase = 0; phase < phases_; ++phase)
          for (Index r = 0; r < block.rows + (layer_.k - 1 - phase) / layer_.stride[0]; ++r)
            copy_row(from, (block.row + r) * layer_.stride[0] + phase - layer_.lower[0],
                     block.column * layer_.stride[1] + across - layer_.lower[1], layer_.stride[1], block.columns,
                     to + (across * phases_ + phase) * phase_ + r * pitch_);
    }
  }

 private:
  // to[i] = the input at (row, column + i*step), 0 outside of it
  FASTDL_INLINE void copy_row(const T* plane, Index row, Index column, Index step, Index count, T* to) const {
    Index begin = 0, stop = 0;  // inside
    if (row >= 0 && row < layer_.in[0]) {
      begin = at_most(column < 0 ? divide_up(-column, step) : 0, count);
      stop = column < layer_.in[1] ? at_most(divide_up(layer_.in[1] - column, step), count) : 0;
      if (stop < begin) stop = begin;
    }
    const T* from = plane + row * x_.row + column * x_.column;
    clear(to, 0, begin);
    if (step == 1 && x_.column == 1) {
      // Planes lie too far apart for the processor to see where the next rows come from.
      for (Index i = begin; i < stop; i += 64 / Index(sizeof(T))) simd::prefetch_to_l2(from + i + 4 * x_.plane);
      Index i = begin;
      for (; i + lanes <= stop; i += lanes) simd::store(to + i, simd::load(from + i));
      if (i < stop) simd::store_first(to + i, simd::load_first(from + i, int(stop - i)), int(stop - i));
    } else {
      for (Index i = begin; i < stop; ++i) to[i] = from[i * step * x_.column];
    }
    clear(to, stop, count);
  }

  // By stores with masks: for one or two zeros the compiler would call a function.
  static FASTDL_INLINE void clear(T* to, Index begin, Index end) {
    for (; begin < end; begin += lanes) simd::store_first(to + begin, simd::Vec<T>{}, int(at_most(lanes, end - begin)));
  }

  const Layer& layer_;
  const Maps<const T>& x_;
  const Orbits& orbits_;
  bool plain_;
  Index pitch_, rows_, phase_, phases_, plane_;
};

}  // namespace
}  // namespace fastdl::group
