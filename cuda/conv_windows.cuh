// Windows of images as an operand of the product engine (gemm.cuh), and maps as its result: a convolution without the
// matrix of windows ever being written.
//
//   C[channel, (image, position)] = sum over k of A[channel, k] * B[(image, position), k],   k = (channel, tap)
//
// Filters are the left operand: a tile has rows of channels, and columns of positions, which are neighbours in memory,
// in the windows and in the result. A thread brings one position of the tile, always the same: its coordinates are
// found once; warps read 32 neighbouring positions for one k. The k come in groups of four neighbours, channels or taps
// along the last axis, whichever leaves fewer places empty; a thread brings such a group at a time. What belongs to it
// comes from a table, which a small kernel writes before: 24 bytes, read by all threads of a warp at once, in place of
// divisions, and one look at the edges for four elements. The filters are put into the same order before.
//
// Padding is zeros here: the other kinds are written out first (conv_padded.cu). To find the elements that stand for
// those outside, for one k at a time, made two thirds of the loop's code and spilled up to 164 bytes of registers.
//
// The input gradient is such a product as well, over the positions p that element i was seen from: i + lower =
// stride*p + dilation*q. With a stride the elements fall into classes, i modulo stride along each axis, which see
// different taps; every class is a product of its own, one of a batch, with its own table and filters. No product is
// with zeros that a stride would put between the elements of grad.
//
// What limits it, estimated: the engine's arithmetic. A slice costs a thread 512 multiply-adds (f32; 256 in f64) of 660
// instructions on sm_80: 78% of the peak at most. A tile has 128 (64) rows, so fewer channels a group leave a part of
// it idle. 64 images of 128 channels, 28 x 28, 3 x 3 filters: 14.8 Gflop; at 70%, 1.1 ms on an A100 and 0.32 ms on an
// H100 in f32, and twice that in f64.
#pragma once

#include "activation.cuh"
#include "conv_algorithms.hpp"
#include "conv_geometry.cuh"
#include "gemm.cuh"

namespace fastdl::conv::cuda {

// The order of k = (channel, tap): groups of `lanes` neighbours along one axis.
struct Order {
  Index channels, extent[axes];  // of the taps
  int lanes;
  bool along_channels;  // else along the last axis of the taps

  // Groups along the axes; channels come first.
  __host__ __device__ __forceinline__ Index groups_along(int axis) const {
    return axis == axes - 1 && !along_channels ? (extent[axis] + lanes - 1) / lanes : extent[axis];
  }
  Index groups() const {
    const Index planes = along_channels ? (channels + lanes - 1) / lanes : channels;
    return planes * groups_along(0) * groups_along(1) * groups_along(2);
  }
  Index depth() const { return groups() * lanes; }

  // The first of a group.
  __device__ __forceinline__ Position first(Index group) const {
    const Index along[axes] = {groups_along(0), groups_along(1), groups_along(2)};
    Position found = position_of(group, along);
    (along_channels ? found.plane : found.at[axes - 1]) *= lanes;
    return found;
  }
  // The channel and tap of one k, which has() says to exist or not.
  __device__ __forceinline__ Position place(Index k) const {
    Position found = first(k / lanes);
    (along_channels ? found.plane : found.at[axes - 1]) += k % lanes;
    return found;
  }
  __device__ __forceinline__ bool has(const Position& place) const {
    return place.plane < channels && place.at[axes - 1] < extent[axes - 1];
  }
  // How many of a group exist.
  __device__ __forceinline__ int there(const Position& first) const {
    const Index left = along_channels ? channels - first.plane : extent[axes - 1] - first.at[axes - 1];
    return int(left < lanes ? left : lanes);
  }
};

constexpr int group_lanes = gemm::cuda::FourOfRow<float>::held;  // what a thread brings of a slice

inline Order order_of(Index channels, const Index (&taps)[axes]) {
  Order by_channels{channels, {taps[0], taps[1], taps[2]}, group_lanes, true}, by_taps = by_channels;
  by_taps.along_channels = false;
  return by_channels.groups() <= by_taps.groups() ? by_channels : by_taps;
}

// What belongs to one group of k: where its first element lies relative to a position's first, and in coordinates.
struct Tap {
  Index offset;
  int at[axes];
  int lanes;  // that exist
};

// From one lane of a group to the next.
struct Step {
  Index offset;
  unsigned at;  // along the last axis, modulo 2^32
};

// Outside of any image.
constexpr int nowhere = -(1 << 30);

// The positions of a batch of products along the axes: every spread-th of `extent`, from the product's own class on.
struct Lattice {
  Index groups;
  int extent[axes], spread[axes], classes[axes];  // fewer than 2^31 positions in all

  struct Part {
    Index group;
    int first[axes], size[axes];
    __device__ __forceinline__ unsigned count() const { return unsigned(size[0]) * size[1] * size[2]; }
  };

  __device__ __forceinline__ Part part(Index batch) const {
    Part found;
    found.group = batch % groups;
    int number = int(batch / groups);
    FASTDL_UNROLL
    for (int a = axes - 1; a >= 0; --a) {
      found.first[a] = number % classes[a];
      number /= classes[a];
      found.size[a] = (extent[a] - found.first[a] + spread[a] - 1) / spread[a];
    }
    return found;
  }
};

inline Lattice whole(Index groups, const Index (&extent)[axes]) {
  return {groups, {int(extent[0]), int(extent[1]), int(extent[2])}, {1, 1, 1}, {1, 1, 1}};
}

template <class T>
struct Windows {
  using Element = T;
  const T* data;
  Index images;
  Strides strides;
  Index group_stride;
  int in[axes], step[axes];  // of the images; from one position's first element to the next one's
  Lattice lattice;
  const Tap* taps;  // `groups` for every class
  Index groups;
  Step step_of_lane;

  class Reader {
    using S = gemm::cuda::Shape<T>;
    static_assert(S::threads * group_lanes == S::side * S::depth);

   public:
    __device__ __forceinline__ Reader(const Windows& from, Index first_row, Index batch) : from_(from) {
      const Lattice::Part part = from.lattice.part(batch);
      const unsigned last = unsigned(from.images) * part.count() - 1;
      unsigned row = unsigned(first_row) + threadIdx.x % S::side;
      if (row > last) row = last;  // read, and not stored
      taps_ = from.taps + batch / from.lattice.groups * from.groups + threadIdx.x / S::side;
      first_ = from.data + part.group * from.group_stride;
      FASTDL_UNROLL
      for (int a = axes - 1; a >= 0; --a) {
        at_[a] = int(row % unsigned(part.size[a])) * from.step[a];
        row /= unsigned(part.size[a]);
        first_ += at_[a] * from.strides.axis[a];
      }
      first_ += row * from.strides.batch;
    }

    __device__ __forceinline__ void read(int depth) {
      Tap tap{};
      if (k() < depth) tap = *taps_;
      const T* place = first_ + tap.offset;
      if (unsigned(at_[0] + tap.at[0]) >= unsigned(from_.in[0]) ||
          unsigned(at_[1] + tap.at[1]) >= unsigned(from_.in[1]))
        tap.lanes = 0;
      unsigned at = unsigned(at_[2] + tap.at[2]);  // lanes that do not exist may wrap
      FASTDL_UNROLL
      for (int v = 0; v < group_lanes; ++v) {
        held_[v] = v < tap.lanes && at < unsigned(from_.in[2]) ? *place : T(0);
        place += from_.step_of_lane.offset;
        at += from_.step_of_lane.at;
      }
      taps_ += S::depth / group_lanes;
    }

    __device__ __forceinline__ void write(T (*slice)[S::pitch]) const {
      FASTDL_UNROLL
      for (int v = 0; v < group_lanes; ++v) slice[k() + v][threadIdx.x % S::side] = held_[v];
    }

   private:
    static __device__ __forceinline__ int k() { return int(threadIdx.x) / S::side * group_lanes; }

    const Windows& from_;
    const Tap* taps_;
    const T* first_;
    int at_[axes];
    T held_[group_lanes];
  };
};

// The positions of the images of one launch are counted in 32 bits, whose divisions are much shorter: this many images
// go together.
inline Index images_together(Index images, Index pixels) {
  const Index most = ((Index(1) << 31) - 1) / pixels;
  return most < images ? most : images;
}

// The result of a convolution: rows are channels, columns positions of images.
template <class T>
struct Maps {
  using Element = T;
  T* data;
  Index rows, columns, row_stride;
  bool vectorised;
  Index image_stride, group_stride;

  __device__ __forceinline__ void begin(Index batch) { data += batch * group_stride; }
  __device__ __forceinline__ T* column(Index number) const {
    const unsigned pixels = unsigned(row_stride), image = unsigned(number) / pixels;
    return data + image * image_stride + (unsigned(number) - image * pixels);
  }
};

// The same where the columns of a product are a class of positions.
template <class T>
struct ScatteredMaps {
  using Element = T;
  T* data;
  Index rows, columns;  // of the largest class, until begin()
  Index row_stride;
  bool vectorised;  // never
  Index images, image_stride, group_stride;
  Lattice lattice;
  int size[axes] = {1, 1, 1};

  __device__ __forceinline__ void begin(Index batch) {
    const Lattice::Part part = lattice.part(batch);
    columns = images * part.count();
    data += part.group * group_stride + (Index(part.first[0]) * lattice.extent[1] + part.first[1]) * lattice.extent[2] +
            part.first[2];
    FASTDL_UNROLL
    for (int a = 0; a < axes; ++a) size[a] = part.size[a];
  }
  __device__ __forceinline__ T* column(Index number) const {
    unsigned rest = unsigned(number), offset = 0, step = 1;  // of a plane, which has fewer than 2^31 elements
    FASTDL_UNROLL
    for (int a = axes - 1; a >= 0; --a) {
      const unsigned next = rest / unsigned(size[a]);
      offset += (rest - next * unsigned(size[a])) * unsigned(lattice.spread[a]) * step;
      rest = next;
      step *= unsigned(lattice.extent[a]);
    }
    return data + offset + rest * image_stride;
  }
};

// Bias and activation of a batch of groups; sigmoid and tanh are left to activate_rest.
template <class T>
struct Finished {
  const T* bias;
  T slope;
  Index groups, channels;

  __device__ __forceinline__ void begin(Index batch) {
    if (bias) bias += batch % groups * channels;
  }
  __device__ __forceinline__ T operator()(T sum, Index row, Index) const {
    if (bias) sum += bias[row];
    return fastdl::cuda::rectified(sum, slope);
  }
};

// One product for forward and backward, compiled once: conv_forward.cu.
template <class T>
void multiply_windows(const char* name, Index batches, const gemm::cuda::Rows<T>& filters, const Windows<T>& windows,
                      const Maps<T>& maps, const Finished<T>& finished, Stream stream);

// What belongs to a tap of a channel, or to a group of them that begins there.
__device__ __forceinline__ Tap forward_tap(const Geometry& g, const Strides& strides, const Position& q,
                                           int lanes = 1) {
  Tap tap{q.plane * strides.channel, {0, 0, 0}, lanes};
  FASTDL_UNROLL
  for (int a = 0; a < axes; ++a) {
    const Index at = q.at[a] * g.dilation[a] - g.lower[a];
    tap.at[a] = int(at);
    tap.offset += at * strides.axis[a];
  }
  return tap;
}

// Writes the table of a convolution: conv_taps.cu.
void write_taps(const char* name, const Geometry& g, const Strides& strides, const Order& order, Tap* to,
                Stream stream);

}  // namespace fastdl::conv::cuda
