// Windows of images as an operand of the product engine (gemm.cuh), and maps as its result: a convolution without the
// matrix of windows ever being written.
//
//   C[channel, (image, position)] = sum over k of A[channel, k] * B[(image, position), k],   k = (channel, tap)
//
// Filters are the left operand: a tile has rows of channels, and columns of positions, which are neighbours in memory,
// in the windows and in the result. A thread brings one position of the tile, always the same: its coordinates are
// found once; warps read 32 neighbouring positions for one k. What belongs to k (channel and tap) comes from a table,
// which a small kernel writes before: 24 bytes a k, read by all threads of a warp at once, in place of two divisions.
// Only windows that reach over the edge pay for the padding.
//
// The input gradient is such a product as well, over the positions p that element i was seen from: i + lower =
// stride*p + dilation*q. With a stride the elements fall into classes, i modulo stride along each axis, which see
// different taps; every class is a product of its own, one of a batch, with its own table and filters. No product is
// with zeros that a stride would put between the elements of grad.
//
// What limits it, estimated: the engine's arithmetic. A slice costs a thread 512 multiply-adds (f32; 256 in f64), 64
// loads from shared memory and some 60 to 80 instructions for its four elements of windows: 75% of the peak at most. A
// tile has 128 (64) rows, so fewer channels a group leave a part of it idle. 64 images of 128 channels, 28 x 28, 3 x 3
// filters: 14.8 Gflop; at 70%, 1.1 ms on an A100 and 0.32 ms on an H100 in f32, and twice that in f64.
#pragma once

#include "activation.cuh"
#include "conv_algorithms.hpp"
#include "conv_geometry.cuh"
#include "gemm.cuh"

namespace fastdl::conv::cuda {

// What belongs to one k: where its element lies relative to a position's first, and in coordinates.
struct Tap {
  Index offset;
  int at[axes];
  int unused;
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
  Padding padding;
  Lattice lattice;
  const Tap* taps;  // `depth` for every class
  Index depth;

  class Reader {
    using S = gemm::cuda::Shape<T>;
    static constexpr int held = S::side * S::depth / S::threads;  // elements of a slice that one thread brings
    static constexpr int apart = S::threads / S::side;            // along k

   public:
    __device__ __forceinline__ Reader(const Windows& from, Index first_row, Index batch) : from_(from) {
      const Lattice::Part part = from.lattice.part(batch);
      const unsigned last = unsigned(from.images) * part.count() - 1;
      unsigned row = unsigned(first_row) + threadIdx.x % S::side;
      if (row > last) row = last;  // read, and not stored
      taps_ = from.taps + batch / from.lattice.groups * from.depth + threadIdx.x / S::side;
      offset_ = part.group * from.group_stride;
      FASTDL_UNROLL
      for (int a = axes - 1; a >= 0; --a) {
        at_[a] = int(row % unsigned(part.size[a])) * from.step[a];
        row /= unsigned(part.size[a]);
        offset_ += at_[a] * from.strides.axis[a];
      }
      offset_ += row * from.strides.batch;
    }

    __device__ __forceinline__ void read(int depth) {
      FASTDL_UNROLL
      for (int v = 0; v < held; ++v) {
        held_[v] = T(0);
        if (int(threadIdx.x / S::side) + v * apart < depth) {
          const Tap tap = taps_[v * apart];
          Index offset = offset_ + tap.offset;
          bool inside = true;
          FASTDL_UNROLL
          for (int a = 0; a < axes; ++a) inside = inside && unsigned(at_[a] + tap.at[a]) < unsigned(from_.in[a]);
          if (!inside && from_.padding != Padding::zeros) {
            inside = true;
            FASTDL_UNROLL
            for (int a = 0; a < axes; ++a) {
              const int at = at_[a] + tap.at[a], instead = mapped(at, from_.in[a], from_.padding);
              offset += (instead - at) * from_.strides.axis[a];
              inside = inside && instead >= 0;
            }
          }
          if (inside) held_[v] = from_.data[offset];
        }
      }
      taps_ += S::depth;
    }

    __device__ __forceinline__ void write(T (*slice)[S::pitch]) const {
      FASTDL_UNROLL
      for (int v = 0; v < held; ++v) slice[threadIdx.x / S::side + v * apart][threadIdx.x % S::side] = held_[v];
    }

   private:
    const Windows& from_;
    const Tap* taps_;
    Index offset_;
    int at_[axes];
    T held_[held];
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
  Index rows, columns;
  bool vectorised;
  Index pixels, image_stride, group_stride;

  __device__ __forceinline__ void begin(Index batch) { data += batch * group_stride; }
  __device__ __forceinline__ T* at(Index row, Index column) const {
    // In 64 bits: 32 would do, but take registers that the sums hold on sm_80.
    return data + column / pixels * image_stride + row * pixels + column % pixels;
  }
};

// The same where the columns of a product are a class of positions.
template <class T>
struct ScatteredMaps {
  using Element = T;
  T* data;
  Index rows, columns;  // of the largest class, until begin()
  bool vectorised;      // never
  Index images, pixels, image_stride, group_stride;
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
  __device__ __forceinline__ T* at(Index row, Index column) const {
    unsigned rest = unsigned(column);
    Index offset = row * pixels, step = 1;
    FASTDL_UNROLL
    for (int a = axes - 1; a >= 0; --a) {
      offset += rest % unsigned(size[a]) * unsigned(lattice.spread[a]) * step;
      rest /= unsigned(size[a]);
      step *= lattice.extent[a];
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

  __device__ __forceinline__ T operator()(T sum, Index row, Index) const {
    const Index batch = Index(blockIdx.z) * gridDim.y + blockIdx.y;  // as the engine counts them
    if (bias) sum += bias[batch % groups * channels + row];
    return fastdl::cuda::rectified(sum, slope);
  }
};

// One product for forward and backward, compiled once: conv_forward.cu.
template <class T>
void multiply_windows(const char* name, Index batches, const gemm::cuda::Operand<T>& filters, const Windows<T>& windows,
                      const Maps<T>& maps, const Finished<T>& finished, Stream stream);

// The table of a convolution: k = (channel, tap).
__device__ __forceinline__ Tap forward_tap(const Geometry& g, const Strides& strides, Index k) {
  const Position q = position_of(k, g.kernel);
  Tap tap{q.plane * strides.channel, {0, 0, 0}, 0};
  FASTDL_UNROLL
  for (int a = 0; a < axes; ++a) {
    const Index at = q.at[a] * g.dilation[a] - g.lower[a];
    tap.at[a] = int(at);
    tap.offset += at * strides.axis[a];
  }
  return tap;
}

// Writes it: conv_taps.cu.
void write_taps(const char* name, const Geometry& g, const Strides& strides, Tap* to, Index depth, Stream stream);

}  // namespace fastdl::conv::cuda
