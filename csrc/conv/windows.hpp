// The windows of an image as columns of a matrix product: column (image, pixel), k (channel, tap) or (tap, channel).
//
// Nothing is laid out beforehand: a panel of columns is gathered when the product needs it. Pixels of a row of the
// output lie side by side in the input, so a vector of columns is one load for each row of pixels it touches (a piece),
// and a mask where the window leaves the image.
#pragma once

#include "conv/taps.hpp"
#include "gemm/pack.hpp"

namespace fastdl::conv {
namespace {

using gemm::at_most;
using gemm::divide_up;
using gemm::round_up;

// Where an array lies: its first and last element, from `data` on. Loads of whole vectors stay within.
struct Reach {
  Index first, last;
};

// Loads `lanes` elements at distance Step.
template <int Step, class T>
FASTDL_INLINE simd::Vec<T> load_every(const T* from) {
  constexpr int n = simd::lanes<T>;
  if constexpr (Step == 1) return simd::load(from);
  return simd::even_lanes<T>(simd::load(from), simd::load(from + n));
}

// What both orders of windows know: where they lie.
template <class T>
struct WindowsOf {
  const Geometry& g;
  const Images<const T>& x;
  const Tap* taps;
  Reach reach;
  Index group = 0;

  static constexpr int step = simd::lanes<T>;

  WindowsOf(const Geometry& geometry, const Images<const T>& images, const Tap* taps_)
      : g(geometry), x(images), taps(taps_), reach{0, 0} {
    const auto add = [&](Index stride, Index count) {
      (stride < 0 ? reach.first : reach.last) += stride * (count - 1);
    };
    add(x.batch, g.batch);
    add(x.channel, g.groups * g.in_channels);
    for (int a = 0; a < axes; ++a) add(x.axis[a], g.in[a]);
  }

  const T* data() const { return x.data + group * g.in_channels * x.channel; }

  // Where the window of a pixel begins, and the place of that in the image.
  Index corner(const Pixel& pixel, Index (&at)[axes]) const {
    Index offset = pixel.image * x.batch;
    for (int a = 0; a < axes; ++a) {
      at[a] = pixel.at[a] * g.stride[a] - g.lower[a];
      offset += at[a] * x.axis[a];
    }
    return offset;
  }

  bool inside(const Index (&at)[axes], const Tap& tap, int last = axes) const {
    for (int a = 0; a < last; ++a)
      if (at[a] + tap.shift[a] < 0 || at[a] + tap.shift[a] >= g.in[a]) return false;
    return true;
  }

  // Of pixels side by side, the first of which has its tap in `column` of the image: [begin, stop) lie in the image.
  template <int Stride>
  void columns_inside(Index column, Index& begin, Index& stop) const {
    begin = column < 0 ? divide_up(-column, Stride) : 0;
    stop = column < g.in[2] ? divide_up(g.in[2] - column, Stride) : 0;
  }

  // Whether loads of a vector of pixels from `offset` to `last` (either may be the smaller) stay in the array.
  template <int Stride>
  bool within(Index offset, Index last) const {
    const Index from = data() - x.data;
    return from + (offset < last ? offset : last) >= reach.first &&
           from + (offset < last ? last : offset) + Stride * step - 1 <= reach.last;
  }

  static FASTDL_INLINE simd::Vec<T> masked(simd::Vec<T> value, simd::Vec<T> mask) {
    return (simd::Vec<T>)((simd::IntVec<T>)value & (simd::IntVec<T>)mask);
  }

  // Lanes [begin, stop).
  static FASTDL_INLINE simd::Vec<T> between(Index begin, Index stop) {
    using Integer = typename simd::Types<T>::Integer;
    simd::IntVec<T> lane;
    for (int i = 0; i < step; ++i) lane[i] = i;
    return (simd::Vec<T>)((lane >= simd::broadcast_integer<T>(Integer(at_most(begin, step)))) &
                          (lane < simd::broadcast_integer<T>(Integer(at_most(stop, step)))));
  }
};

template <class T>
struct Windows : WindowsOf<T> {
  using Base = WindowsOf<T>;
  using Base::corner, Base::inside, Base::masked, Base::g, Base::x, Base::taps, Base::step;

  bool channels_last;  // k is (tap, channel), for images whose channels are contiguous
  const T* zeros;      // as many as there are channels

  static constexpr int most = gemm::Shape<T>::columns;

  // panel[p*width + j] = window `first + j` at k + p
  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    const T* data = this->data();
    if (channels_last) return turn(data, first, count, k, depth, width, panel);
    for (int v = 0; v < width; v += step) {
      const int here = count - v < step ? count - v : step;
      if (x.axis[2] == 1 && g.stride[2] == 1 && 2 * g.out[2] >= step)
        pieces<1>(data, first + v, here, k, depth, width, panel + v);
      else if (x.axis[2] == 1 && g.stride[2] == 2 && 2 * g.out[2] >= step)
        pieces<2>(data, first + v, here, k, depth, width, panel + v);
      else
        gather(data, first + v, here, k, depth, width, panel + v);
    }
  }

 private:
  // The channels of the first and beyond the last k of a tap in [k, k + depth).
  void channels_of(Index tap, Index k, Index depth, Index& channel, Index& end) const {
    const Index count = g.taps();
    channel = k > tap ? divide_up(k - tap, count) : 0;
    end = divide_up(k + depth - tap, count);
  }

  struct Piece {
    Index offset;    // of lane 0, were it on this row
    Index at[axes];  // and its place
    int from, to;    // lanes
  };

  template <int Stride>
  void pieces(const T* data, Index first, int count, Index k, Index depth, int width, T* panel) const {
    Piece list[step];
    int number = 0;
    Pixel pixel(g, first);
    for (int lane = 0; lane < count;) {
      Piece& piece = list[number++];
      piece.from = lane;
      piece.to = lane + int(at_most(count - lane, g.out[2] - pixel.at[2]));
      pixel.at[2] -= lane;
      piece.offset = corner(pixel, piece.at);
      pixel.next_row(g);
      lane = piece.to;
    }
    for (Index tap = 0; tap < g.taps(); ++tap) {
      Index channel, end;
      channels_of(tap, k, depth, channel, end);
      if (channel >= end) continue;
      T* to = panel + (channel * g.taps() + tap - k) * width;
      const Index down = g.taps() * width;
      simd::Vec<T> mask[step];
      const T* from[step];
      int used = 0;
      bool near_end = false, whole = false;
      for (int i = 0; i < number; ++i) {
        const Piece& piece = list[i];
        if (!inside(piece.at, taps[tap], 2)) continue;
        Index begin, stop;
        this->template columns_inside<Stride>(piece.at[2] + taps[tap].shift[2], begin, stop);
        begin = begin > piece.from ? begin : piece.from;
        stop = at_most(stop, piece.to);
        if (begin >= stop) continue;
        const Index offset = piece.offset + taps[tap].offset + channel * x.channel;
        near_end |= !this->template within<Stride>(offset, offset + (end - channel - 1) * x.channel);
        whole = begin == 0 && stop == step;
        mask[used] = Base::between(begin, stop);
        from[used++] = data + offset;
      }
      if (near_end) {
        slowly(data, first, count, tap, channel, end, to, down);
      } else if (used == 0) {
        for (Index c = channel; c < end; ++c, to += down) simd::store(to, simd::Vec<T>{});
      } else if (used == 1 && whole) {
        for (Index c = channel; c < end; ++c, to += down, from[0] += x.channel)
          simd::store(to, load_every<Stride>(from[0]));
      } else if (used == 1) {
        for (Index c = channel; c < end; ++c, to += down, from[0] += x.channel)
          simd::store(to, masked(load_every<Stride>(from[0]), mask[0]));
      } else {
        for (Index c = channel; c < end; ++c, to += down) {
          simd::Vec<T> value = masked(load_every<Stride>(from[0]), mask[0]);
          from[0] += x.channel;
          for (int i = 1; i < used; ++i, from[i - 1] += x.channel)
            value = either(value, masked(load_every<Stride>(from[i]), mask[i]));
          simd::store(to, value);
        }
      }
    }
  }

  static FASTDL_INLINE simd::Vec<T> either(simd::Vec<T> a, simd::Vec<T> b) {
    return (simd::Vec<T>)((simd::IntVec<T>)a | (simd::IntVec<T>)b);
  }

  // One tap of some channels, lane by lane; lanes past the last are zero.
  __attribute__((noinline)) void slowly(const T* data, Index first, int count, Index tap, Index channel, Index end,
                                        T* to, Index down) const {
    for (int lane = 0; lane < step; ++lane) {
      Index at[axes] = {}, offset = 0;
      const bool there = lane < count && (offset = corner(Pixel(g, first + lane), at), inside(at, taps[tap]));
      const T* from = data + offset + taps[tap].offset;
      for (Index c = channel; c < end; ++c) to[(c - channel) * down + lane] = there ? from[c * x.channel] : T(0);
    }
  }

  // Any strides.
  void gather(const T* data, Index first, int count, Index k, Index depth, int width, T* panel) const {
    Index at[step][axes], offset[step];
    for (int lane = 0; lane < count; ++lane) offset[lane] = corner(Pixel(g, first + lane), at[lane]);
    for (Index tap = 0; tap < g.taps(); ++tap) {
      Index channel, end;
      channels_of(tap, k, depth, channel, end);
      T* to = panel + (channel * g.taps() + tap - k) * width;
      for (int lane = 0; lane < step; ++lane) {
        const bool there = lane < count && inside(at[lane], taps[tap]);
        const T* from = data + (there ? offset[lane] + taps[tap].offset : 0);
        for (Index c = channel; c < end; ++c)
          to[(c - channel) * g.taps() * width + lane] = there ? from[c * x.channel] : T(0);
      }
    }
  }

  // Channels contiguous: squares of windows x channels, turned in registers.
  void turn(const T* data, Index first, int count, Index k, Index depth, int width, T* panel) const {
    Index at[most][axes], offset[most];
    Pixel pixel(g, first);
    for (int lane = 0; lane < count; ++lane) {
      offset[lane] = corner(pixel, at[lane]);
      if (++pixel.at[2] == g.out[2]) pixel.next_row(g);
    }
    const Index channels = g.in_channels;
    for (Index p = 0; p < depth;) {
      const Index tap = (k + p) / channels, channel = (k + p) % channels;
      const Index here = at_most(channels - channel, depth - p);
      for (int v = 0; v < width; v += step) {
        const T* from[step];
        for (int i = 0; i < step; ++i) {
          const int lane = v + i;
          from[i] =
              lane < count && inside(at[lane], taps[tap]) ? data + offset[lane] + taps[tap].offset + channel : zeros;
        }
        T* to = panel + p * width + v;
        Index c = 0;
        for (; c + step <= here; c += step) {
          simd::Vec<T> square[step];
#pragma GCC unroll 16
          for (int i = 0; i < step; ++i) square[i] = simd::load(from[i] + c);
          simd::transpose<T>(square);
#pragma GCC unroll 16
          for (int i = 0; i < step; ++i) simd::store(to + (c + i) * width, square[i]);
        }
        for (; c < here; ++c)
          for (int i = 0; i < step; ++i) to[c * width + i] = from[i][c];
      }
      p += here;
    }
  }
};

// The same windows with pixels and taps changing places: column (channel, tap), k (image, pixel) from `first_pixel` on.
// Squares of taps x pixels are turned in registers.
template <class T>
struct TurnedWindows : WindowsOf<T> {
  using Base = WindowsOf<T>;
  using Base::corner, Base::inside, Base::masked, Base::g, Base::x, Base::taps, Base::step;

  Index first_pixel = 0;

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    if (x.axis[2] == 1 && g.stride[2] == 1)
      pack<1>(first, count, first_pixel + k, depth, width, panel);
    else if (x.axis[2] == 1 && g.stride[2] == 2)
      pack<2>(first, count, first_pixel + k, depth, width, panel);
    else
      pack<0>(first, count, first_pixel + k, depth, width, panel);
  }

 private:
  // Stride 0: any, one by one.
  template <int Stride>
  void pack(Index first, int count, Index pixel_number, Index depth, int width, T* panel) const {
    const Index columns = g.taps();
    Pixel pixel(g, pixel_number);
    for (Index p = 0; p < depth; pixel.next_row(g)) {
      Index at[axes];
      const Index corner_offset = corner(pixel, at), run = at_most(depth - p, g.out[2] - pixel.at[2]);
      for (int v = 0; v < width; v += step) {
        const T* from[step];
        Index begin[step], stop[step];  // pixels of the run whose tap is in the image
        bool whole = Stride != 0, near_end = Stride == 0;
        for (int i = 0; i < step; ++i) {
          const Index column = first + at_most(v + i, count - 1);
          const Tap& tap = taps[column % columns];
          const Index offset = corner_offset + tap.offset + column / columns * x.channel;
          from[i] = this->data() + offset;
          if constexpr (Stride != 0) {
            this->template columns_inside<Stride>(at[2] + tap.shift[2], begin[i], stop[i]);
            near_end |= !this->template within<Stride>(offset, offset + (run - 1) / step * step * Stride);
          } else {
            begin[i] = 0;
            while (begin[i] < run && at[2] + begin[i] * g.stride[2] + tap.shift[2] < 0) ++begin[i];
            stop[i] = begin[i];
            while (stop[i] < run && at[2] + stop[i] * g.stride[2] + tap.shift[2] < g.in[2]) ++stop[i];
          }
          if (!inside(at, tap, 2)) begin[i] = stop[i] = 0;
          whole &= begin[i] == 0 && stop[i] >= run;
        }
        T* to = panel + p * width + v;
        if (near_end) {
          for (int i = 0; i < step; ++i)
            for (Index j = 0; j < run; ++j)
              to[j * width + i] = j >= begin[i] && j < stop[i] ? from[i][j * g.stride[2] * x.axis[2]] : T(0);
          continue;
        }
        for (Index j = 0; j < run; j += step) {
          simd::Vec<T> square[step];
#pragma GCC unroll 16
          for (int i = 0; i < step; ++i) {
            square[i] = load_every < Stride == 2 ? 2 : 1 > (from[i] + j * Stride);
            if (!whole) square[i] = masked(square[i], Base::between(begin[i] - j, stop[i] - j));
          }
          simd::transpose<T>(square);
          // What is written beyond a run, the next one overwrites; but nothing beyond the panel.
          const int rows = int(at_most(step, depth - p - j));
          if (rows == step) {
#pragma GCC unroll 16
            for (int i = 0; i < step; ++i) simd::store(to + (j + i) * width, square[i]);
          } else {
            for (int i = 0; i < rows; ++i) simd::store(to + (j + i) * width, square[i]);
          }
        }
      }
      p += run;
    }
  }
};

// The weights of a group as rows: k (tap, channel) of weights that lie (channel, tap).
template <class T>
struct TurnedWeights {
  const T* data;
  Index channels, taps;

  void pack_rows(Index first, int count, Index k, Index depth, T* panel) const {
    constexpr int rows = gemm::Shape<T>::rows;
    for (int r = 0; r < rows; ++r) {
      const T* row = data + (first + (r < count ? r : count - 1)) * channels * taps;
      for (Index p = 0; p < depth; ++p) panel[p * rows + r] = row[(k + p) % channels * taps + (k + p) / channels];
    }
  }
};

}  // namespace
}  // namespace fastdl::conv
