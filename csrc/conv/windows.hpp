// The windows of an image as columns of a matrix product: column (image, pixel), k (channel, tap) or (tap, channel).
//
// Nothing is laid out beforehand: a panel of columns is gathered when the product needs it. Pixels of a row of the
// output lie side by side in the input, so a vector of columns is one load for each row of pixels it touches (a piece),
// and a mask where the window leaves the image.
#pragma once

#include <utility>

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
  Index least_tap = 0, largest_tap = 0;  // offsets
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
    for (Index t = 0; t < g.taps(); ++t) {
      least_tap = t == 0 || taps[t].offset < least_tap ? taps[t].offset : least_tap;
      largest_tap = t == 0 || taps[t].offset > largest_tap ? taps[t].offset : largest_tap;
    }
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
  const T* zeros;      // as many as there are channels, and two vectors

  static constexpr int most = gemm::Shape<T>::columns;

  Windows of(Index other_group) const {
    Windows other = *this;
    other.group = other_group;
    return other;
  }

  // panel[p*width + j] = window `first + j` at k + p
  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    const T* data = this->data();
    if (channels_last) return turn(data, first, count, k, depth, width, panel);
    const bool long_rows = x.axis[2] == 1 && (most_pieces - 1) * g.out[2] >= step - 1;
    if (long_rows && g.stride[2] == 1) return rows<1>(data, first, count, k, depth, width, panel);
    if (long_rows && g.stride[2] == 2) return rows<2>(data, first, count, k, depth, width, panel);
    for (int v = 0; v < width; v += step)
      gather(data, first + v, count - v < step ? count - v : step, k, depth, width, panel + v);
  }

 private:
  // The channels of the first and beyond the last k of a tap in [k, k + depth).
  void channels_of(Index tap, Index k, Index depth, Index& channel, Index& end) const {
    const Index count = g.taps();
    channel = k > tap ? divide_up(k - tap, count) : 0;
    end = divide_up(k + depth - tap, count);
  }

  // Rows so long that a vector has no more pieces are gathered by whole vectors.
  static constexpr int most_pieces = 4;

  // The pixels of one row among the lanes of a vector.
  struct Piece {
    Index offset;    // of lane 0, were it on this row
    Index at[axes];  // and its place
    int from, to;    // lanes
  };

  int pieces_of(Index first, int count, Piece* list) const {
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
    return number;
  }

  // Whether every tap of all its lanes lies in the image.
  template <int Stride>
  bool whole(const Piece& piece) const {
    if (piece.from != 0 || piece.to != step) return false;
    for (int a = 0; a < axes; ++a) {
      const Index last = piece.at[a] + (a == 2 ? (step - 1) * Stride : 0) + (g.kernel[a] - 1) * g.dilation[a];
      if (piece.at[a] < 0 || last >= g.in[a]) return false;
    }
    return true;
  }

  // f(place in the panel, channel, first tap, last tap + 1) for every channel of [k, k + depth)
  template <class Function>
  FASTDL_INLINE void each_channel(Index k, Index depth, const Function& f) const {
    const Index count = g.taps();
    for (Index p = 0, channel = k / count, tap = k % count; p < depth; ++channel, tap = 0) {
      const Index end = at_most(count, tap + depth - p);
      f(p, channel, tap, end);
      p += end - tap;
    }
  }

  template <int Stride>
  void rows(const T* data, Index first, int count, Index k, Index depth, int width, T* panel) const {
    constexpr int vectors = most / step;
    Piece list[vectors][step];
    int number[vectors];
    const T* from[vectors];
    const Index last_channel = (k + depth - 1) / g.taps() * x.channel, first_channel = k / g.taps() * x.channel;
    const Index lowest = at_most(first_channel, last_channel) + this->least_tap;
    const Index highest = (first_channel > last_channel ? first_channel : last_channel) + this->largest_tap;
    bool plain = true;
    for (int v = 0; v * step < width; ++v) {
      number[v] = pieces_of(first + v * step, int(at_most(step, count - v * step)), list[v]);
      const Index offset = list[v][0].offset;
      plain = plain && number[v] == 1 && whole<Stride>(list[v][0]) &&
              this->template within<Stride>(offset + lowest, offset + highest);
      from[v] = data + offset;
    }
    if (plain && width == most) return all_inside<Stride, vectors>(from, k, depth, panel);
    for (int v = 0; v * step < width; ++v) {
      const Index at = first + v * step;
      const int here = int(at_most(step, count - v * step));
      masked_pieces<Stride>(data, list[v], number[v], at, here, k, depth, width, panel + v * step);
    }
  }

  // A whole panel of windows that lie in the image. Channel by channel: the taps of one lie close together, and are
  // read from L1.
  template <int Stride, int Vectors>
  void all_inside(const T* const (&from)[Vectors], Index k, Index depth, T* panel) const {
    const auto put = [&](Index offset, T* to) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) simd::store(to + v * step, load_every<Stride>(from[v] + offset));
    };
    if (g.taps() == 1) {
      for (Index p = 0; p < depth; ++p) put((k + p) * x.channel, panel + p * most);
      return;
    }
    each_channel(k, depth, [&](Index p, Index channel, Index tap, Index end) {
      for (T* to = panel + p * most; tap < end; ++tap, to += most) put(channel * x.channel + taps[tap].offset, to);
    });
  }

  // At edges of the image and ends of rows: for every tap a load with a mask for each piece, of one channel after the
  // other, since masks then stay in registers. What comes near the end of the array is done slowly.
  template <int Stride>
  __attribute__((noinline)) void masked_pieces(const T* data, const Piece* list, int number, Index first, int count,
                                               Index k, Index depth, int width, T* panel) const {
    const Index down = g.taps() * width;
    for (Index tap = 0; tap < g.taps(); ++tap) {
      Index channel, end;
      channels_of(tap, k, depth, channel, end);
      if (channel >= end) continue;
      simd::Vec<T> mask[most_pieces];
      const T* from[most_pieces];
      int used = 0;
      bool slow = false;
      for (int i = 0; i < number && !slow; ++i) {
        const Piece& piece = list[i];
        if (!inside(piece.at, taps[tap], 2)) continue;
        Index begin, stop;
        this->template columns_inside<Stride>(piece.at[2] + taps[tap].shift[2], begin, stop);
        begin = begin > piece.from ? begin : piece.from;
        stop = at_most(stop, piece.to);
        if (begin >= stop) continue;
        const Index offset = piece.offset + taps[tap].offset + channel * x.channel;
        slow = !this->template within<Stride>(offset, offset + (end - 1 - channel) * x.channel);
        if (!slow) mask[used] = Base::between(begin, stop), from[used++] = data + offset;
      }
      T* to = panel + (channel * g.taps() + tap - k) * width;
      if (slow)
        slowly(data, first, count, tap, channel, end, to, down);
      else if (used == 0)
        each_of<Stride>(std::integer_sequence<int>{}, from, mask, end - channel, to, down);
      else if (used == 1)
        each_of<Stride>(std::integer_sequence<int, 0>{}, from, mask, end - channel, to, down);
      else if (used == 2)
        each_of<Stride>(std::integer_sequence<int, 0, 1>{}, from, mask, end - channel, to, down);
      else if (used == 3)
        each_of<Stride>(std::integer_sequence<int, 0, 1, 2>{}, from, mask, end - channel, to, down);
      else
        each_of<Stride>(std::integer_sequence<int, 0, 1, 2, 3>{}, from, mask, end - channel, to, down);
    }
  }

  // A tap of some channels, from these pieces of a vector.
  template <int Stride, int... Piece>
  void each_of(std::integer_sequence<int, Piece...>, const T* const (&from)[most_pieces],
               const simd::Vec<T> (&mask)[most_pieces], Index channels, T* to, Index down) const {
    for (Index c = 0; c < channels; ++c) {
      simd::Vec<T> value{};
      ((value = either(value, masked(load_every<Stride>(from[Piece] + c * x.channel), mask[Piece]))), ...);
      simd::store(to + c * down, value);
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

// The windows of one image, from pixel `first_pixel` on.
template <class T>
struct ImageWindows {
  Windows<T> all;
  Index first_pixel;

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    all.pack_columns(first_pixel + first, count, k, depth, width, panel);
  }

  // 1 x 1 filters see rows of pixels: a channel's are copied all at once, since single cache lines from every channel
  // by turns are more than the processor fetches ahead. `width` is a number of whole panels; gives how much of it was
  // done.
  Index pack_panels(Index first, Index width, Index k, Index depth, T* packed) const {
    constexpr int panel = gemm::Shape<T>::columns, step = simd::lanes<T>;
    const Geometry& g = all.g;
    const Images<const T>& x = all.x;
    for (int a = 0; a < axes; ++a)
      if (g.lower[a] != 0 || g.stride[a] != 1 || g.in[a] != (a == 2 ? g.pixels() : 1)) return 0;
    if (all.channels_last || g.taps() != 1 || x.axis[2] != 1) return 0;
    const T* from = all.data() + first_pixel / g.pixels() * x.batch + first;
    for (Index p = 0; p < depth; ++p) {
      const T* row = from + (k + p) * x.channel;
      for (Index j = 0; j < width; j += panel)
#pragma GCC unroll 4
        for (int v = 0; v < panel; v += step) simd::store(packed + j * depth + p * panel + v, simd::load(row + j + v));
    }
    return width;
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
    constexpr int most = gemm::Shape<T>::columns;
    // Columns, and the taps among them, which repeat from channel to channel.
    Index offset[most], least = 0, largest = 0;
    int tap_of[most];
    const int distinct = int(at_most(width, g.taps()));
    const Tap* list[most];
    for (int j = 0; j < width; ++j) {
      const Index column = first + at_most(j, count - 1);
      tap_of[j] = int(at_most(j, count - 1)) % distinct;
      const Tap& tap = taps[column % g.taps()];
      if (j < distinct) list[j] = &tap;
      offset[j] = tap.offset + column / g.taps() * x.channel;
      least = j == 0 || offset[j] < least ? offset[j] : least;
      largest = j == 0 || offset[j] > largest ? offset[j] : largest;
    }
    const T* data = this->data();
    Pixel pixel(g, pixel_number);
    for (Index p = 0; p < depth; pixel.next_row(g)) {
      Index at[axes];
      const Index corner_offset = corner(pixel, at), run = at_most(depth - p, g.out[2] - pixel.at[2]);
      Index begins[most], stops[most];  // pixels of the run whose tap is in the image
      for (int t = 0; t < distinct; ++t) {
        const Tap& tap = *list[t];
        if constexpr (Stride != 0) {
          this->template columns_inside<Stride>(at[2] + tap.shift[2], begins[t], stops[t]);
        } else {
          begins[t] = 0;
          while (begins[t] < run && at[2] + begins[t] * g.stride[2] + tap.shift[2] < 0) ++begins[t];
          stops[t] = begins[t];
          while (stops[t] < run && at[2] + stops[t] * g.stride[2] + tap.shift[2] < g.in[2]) ++stops[t];
        }
        if (!inside(at, tap, 2)) begins[t] = stops[t] = 0;
      }
      bool near_end = Stride == 0;
      if constexpr (Stride != 0)
        near_end = !this->template within<Stride>(corner_offset + least,
                                                  corner_offset + largest + (run - 1) / step * step * Stride);
      for (int v = 0; v < width; v += step) {
        const T* from[step];
        Index begin[step], stop[step], latest = 0, earliest = run;  // between the last two all are in the image
        for (int i = 0; i < step; ++i) {
          const int t = tap_of[v + i];
          from[i] = data + corner_offset + offset[v + i];
          begin[i] = begins[t], stop[i] = stops[t];
          latest = begin[i] > latest ? begin[i] : latest;
          earliest = at_most(earliest, stop[i]);
        }
        const bool whole = latest == 0 && earliest >= run;
        T* to = panel + p * width + v;
        if (near_end) {
          for (int i = 0; i < step; ++i)
            for (Index j = 0; j < run; ++j)
              to[j * width + i] = j >= begin[i] && j < stop[i] ? from[i][j * g.stride[2] * x.axis[2]] : T(0);
          continue;
        }
        for (Index j = 0; j < run; j += step) {
          simd::Vec<T> square[step];
          const bool inner = whole || (j >= latest && j + step <= earliest);
#pragma GCC unroll 16
          for (int i = 0; i < step; ++i) {
            square[i] = load_every < Stride == 2 ? 2 : 1 > (from[i] + j * Stride);
            if (!inner) square[i] = masked(square[i], Base::between(begin[i] - j, stop[i] - j));
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
