// Winograd's algorithm for 3 x 3 filters of stride and dilation 1: M x M results from (M + 2) x (M + 2) inputs with one
// product a position, the twin of csrc/conv/winograd.hpp.
//
//   filters: U[position, o, c], inputs: V[position, c, tile], one thread a 3 x 3 filter or an input tile
//   36 (M = 4) or 16 (M = 2) products on the engine: W[position, o, tile] = sum over c of U * V
//   results: one thread a tile takes W back, adds the bias and applies the activation
//
// Neighbouring threads have neighbouring tiles, so every access to V and W is coalesced; what tiles share of the input
// comes from L1. The points are 0, +-1/sqrt(2), +-sqrt(2) and infinity for M = 4, a third to a half of the error that
// 0,
// +-1, +-2 have, and 0, +-1 and infinity for M = 2.
//
// A result that is not finite is computed once more as the sum itself, by the thread that has it: the transforms spread
// NaN and Inf over the tile. (A finite result has not met any.)
//
// What limits it, estimated for M = 4: the products need a quarter of the arithmetic of the sum itself, and V and
// W, 2.25 times the size of input and output, are written and read once. With 64 channels in and out, f32, the
// arithmetic of the implicit product takes 5.4 ns for 1000 positions on an A100, Winograd 1.4 ns for its products
// and 2.0 ns for moving 2.8 KB a position: 1.6 times faster; 2.1 times with 128 channels. On an H100, with twice the
// arithmetic for its memory, 1.2 and 1.8 times.
#pragma once

#include "activation.cuh"
#include "conv_algorithms.hpp"
#include "conv_geometry.cuh"

namespace fastdl::conv::cuda {

using fastdl::cuda::multiply_add;

template <class T, int M>
struct Winograd;

template <class T>
struct Winograd<T, 4> {
  static constexpr int size = 6;
  static constexpr T p = T(0.70710678118654752440), q = T(1.41421356237309504880);  // p^2 = 1/2, q^2 = 2

  static __device__ __forceinline__ void input(const T (&d)[6], T (&to)[6]) {
    const T even_p = multiply_add(d[2], T(-2), d[4]), odd_p = multiply_add(d[1], T(-2), d[3]) * p;
    const T even_q = multiply_add(d[2], T(-0.5), d[4]), odd_q = multiply_add(d[1], T(-0.5), d[3]) * q;
    to[0] = multiply_add(d[2], T(-2.5), d[0] + d[4]);
    to[1] = even_p + odd_p;
    to[2] = even_p - odd_p;
    to[3] = even_q + odd_q;
    to[4] = even_q - odd_q;
    to[5] = multiply_add(d[3], T(-2.5), d[1] + d[5]);
  }

  static __device__ __forceinline__ void filter(const T (&g)[3], T (&to)[6]) {
    const T at_p = multiply_add(g[2], T(0.5), g[0]) * T(-2.0 / 3), odd_p = g[1] * (p * T(-2.0 / 3));
    const T at_q = multiply_add(g[2], T(2), g[0]) * T(1.0 / 6), odd_q = g[1] * (q * T(1.0 / 6));
    to[0] = g[0];
    to[1] = at_p + odd_p;
    to[2] = at_p - odd_p;
    to[3] = at_q + odd_q;
    to[4] = at_q - odd_q;
    to[5] = g[2];
  }

  static __device__ __forceinline__ void output(const T (&m)[6], T (&to)[4]) {
    const T sum_p = m[1] + m[2], odd_p = (m[1] - m[2]) * p, sum_q = m[3] + m[4], odd_q = (m[3] - m[4]) * q;
    to[0] = m[0] + (sum_p + sum_q);
    to[1] = odd_p + odd_q;
    to[2] = multiply_add(sum_q, T(2), sum_p * T(0.5));
    to[3] = multiply_add(odd_q, T(2), multiply_add(odd_p, T(0.5), m[5]));
  }
};

template <class T>
struct Winograd<T, 2> {
  static constexpr int size = 4;

  static __device__ __forceinline__ void input(const T (&d)[4], T (&to)[4]) {
    to[0] = d[0] - d[2];
    to[1] = d[2] + d[1];
    to[2] = d[2] - d[1];
    to[3] = d[3] - d[1];
  }

  static __device__ __forceinline__ void filter(const T (&g)[3], T (&to)[4]) {
    const T even = (g[0] + g[2]) * T(0.5), odd = g[1] * T(0.5);
    to[0] = g[0];
    to[1] = even + odd;
    to[2] = even - odd;
    to[3] = g[2];
  }

  static __device__ __forceinline__ void output(const T (&m)[4], T (&to)[2]) {
    to[0] = m[0] + (m[1] + m[2]);
    to[1] = (m[1] - m[2]) + m[3];
  }
};

// How the tiles of some images are numbered: (image, down, across). Rows of V and W are padded to whole vectors.
struct Tiles {
  Index images, down, across, count, pitch;
};

constexpr int transform_threads = 128;

// to[position, number] of filter and channel `number`.
template <class T, int M>
__global__ void __launch_bounds__(transform_threads) filter_transform_kernel(const T* w, T* to, Index count) {
  using W = Winograd<T, M>;
  for (Index number = Index(blockIdx.x) * transform_threads + threadIdx.x; number < count;
       number += Index(gridDim.x) * transform_threads) {
    T half[3][W::size];
    FASTDL_UNROLL
    for (int i = 0; i < 3; ++i) {
      const T row[3] = {w[number * 9 + i * 3], w[number * 9 + i * 3 + 1], w[number * 9 + i * 3 + 2]};
      W::filter(row, half[i]);
    }
    FASTDL_UNROLL
    for (int j = 0; j < W::size; ++j) {
      const T column[3] = {half[0][j], half[1][j], half[2][j]};
      T found[W::size];
      W::filter(column, found);
      FASTDL_UNROLL
      for (int i = 0; i < W::size; ++i) to[(i * W::size + j) * count + number] = found[i];
    }
  }
}

// to[position, channel, tile]
template <class T, int M>
__global__ void __launch_bounds__(transform_threads)
    input_transform_kernel(Geometry g, Padding padding, const T* x, Strides strides, Tiles tiles, T* to) {
  using W = Winograd<T, M>;
  const Index channels = g.groups * g.in_channels, count = channels * tiles.count;
  for (Index number = Index(blockIdx.x) * transform_threads + threadIdx.x; number < count;
       number += Index(gridDim.x) * transform_threads) {
    const Index tile = number % tiles.count, channel = number / tiles.count, line = tile / tiles.across;
    const Index left = tile % tiles.across * M - g.lower[2], top = line % tiles.down * M - g.lower[1];
    const T* image = x + line / tiles.down * strides.batch + channel * strides.channel;
    Index columns[W::size];
    FASTDL_UNROLL
    for (int j = 0; j < W::size; ++j) columns[j] = mapped(left + j, g.in[2], padding);
    T half[W::size][W::size];
    FASTDL_UNROLL
    for (int i = 0; i < W::size; ++i) {
      const Index row = mapped(top + i, g.in[1], padding);
      T values[W::size];
      FASTDL_UNROLL
      for (int j = 0; j < W::size; ++j)
        values[j] = row >= 0 && columns[j] >= 0 ? image[row * strides.axis[1] + columns[j] * strides.axis[2]] : T(0);
      W::input(values, half[i]);
    }
    FASTDL_UNROLL
    for (int j = 0; j < W::size; ++j) {
      T column[W::size], found[W::size];
      FASTDL_UNROLL
      for (int i = 0; i < W::size; ++i) column[i] = half[i][j];
      W::input(column, found);
      FASTDL_UNROLL
      for (int i = 0; i < W::size; ++i) to[((i * W::size + j) * channels + channel) * tiles.pitch + tile] = found[i];
    }
  }
}

// One result as the sum itself.
template <class T>
__device__ T plain_sum(const Geometry& g, Padding padding, const T* image, const Strides& strides, const T* w,
                       Index row, Index column) {
  T sum = T(0);
  for (Index c = 0; c < g.in_channels; ++c)
    for (int i = 0; i < 3; ++i) {
      const Index from_row = mapped(row + i - g.lower[1], g.in[1], padding);
      for (int j = 0; j < 3; ++j) {
        const Index from_column = mapped(column + j - g.lower[2], g.in[2], padding);
        const T value = from_row >= 0 && from_column >= 0
                            ? image[c * strides.channel + from_row * strides.axis[1] + from_column * strides.axis[2]]
                            : T(0);
        sum = multiply_add(w[(c * 3 + i) * 3 + j], value, sum);
      }
    }
  return sum;
}

// out[image, channel, ...] from from[position, channel, tile].
template <class T, int M>
__global__ void __launch_bounds__(transform_threads)
    output_transform_kernel(Geometry g, Padding padding, const T* from, const T* x, Strides strides, const T* w,
                            Finish<T> finish, Tiles tiles, T* out) {
  using W = Winograd<T, M>;
  const Index channels = g.groups * g.out_channels, count = channels * tiles.count;
  for (Index number = Index(blockIdx.x) * transform_threads + threadIdx.x; number < count;
       number += Index(gridDim.x) * transform_threads) {
    const Index tile = number % tiles.count, channel = number / tiles.count, line = tile / tiles.across;
    const Index left = tile % tiles.across * M, top = line % tiles.down * M, image = line / tiles.down;
    T half[W::size][M];
    FASTDL_UNROLL
    for (int i = 0; i < W::size; ++i) {
      T values[W::size];
      FASTDL_UNROLL
      for (int j = 0; j < W::size; ++j) values[j] = from[((i * W::size + j) * channels + channel) * tiles.pitch + tile];
      W::output(values, half[i]);
    }
    const T bias = finish.bias ? finish.bias[channel] : T(0);
    T* to = out + ((image * channels + channel) * g.out[1] + top) * g.out[2] + left;
    unsigned spread = 0;  // a bit for each result that is not finite
    FASTDL_UNROLL
    for (int j = 0; j < M; ++j) {
      T column[W::size], found[M];
      FASTDL_UNROLL
      for (int i = 0; i < W::size; ++i) column[i] = half[i][j];
      W::output(column, found);
      FASTDL_UNROLL
      for (int i = 0; i < M; ++i)
        if (top + i < g.out[1] && left + j < g.out[2]) {
          to[i * g.out[2] + j] = fastdl::cuda::activated(found[i] + bias, finish.activation);
          if (!(found[i] - found[i] == T(0))) spread |= 1u << (i * M + j);
        }
    }
    const T* of_group = x + image * strides.batch + channel / g.out_channels * g.in_channels * strides.channel;
    FASTDL_NO_UNROLL
    for (int place = 0; spread >> place != 0; ++place)
      if (spread >> place & 1) {
        const int i = place / M, j = place % M;
        const T sum = plain_sum(g, padding, of_group, strides, w + channel * g.in_channels * 9, top + i, left + j);
        to[i * g.out[2] + j] = fastdl::cuda::activated(sum + bias, finish.activation);
      }
  }
}

}  // namespace fastdl::conv::cuda
