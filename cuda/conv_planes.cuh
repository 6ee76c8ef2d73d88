// The sum itself, plane by plane: depthwise convolutions, few filters, and convolution and correlation of signals.
//
//   a block computes 1024 results, 4 a thread: a tile of one plane, or of several where planes are small
//     for each channel of the group, each depth of the window, each part of the window's taps
//       bring the part of the input that the tile sees through these taps to shared memory, with its padding
//       add up: one filter element for the 4 results of a thread, whose inputs come from shared memory
//
// Tiles are 32 x 32, or as wide as 1024 where a plane has one row; a thread's results are so far apart that a warp
// reads neighbouring elements of shared memory. The part of the window is the whole one unless the patch would pass 24
// KB, of which 3 blocks a multiprocessor take 72 KB. The tile depends on the shape alone, and so the order of the sums.
//
// What limits it, estimated: a tap costs a load from shared memory, so a quarter of the multiply-adds' peak (2.4e12 a
// second on an A100 in f32) is the most. A depthwise 3 x 3 convolution of f32 reads and writes 8 bytes for 9 taps:
// memory allows 1.7e12 a second, and is the limit. In f64 it is memory as well. 32 x 256 planes of 56 x 56: 0.2 GB,
// 0.13 ms on an A100, 0.06 ms on an H100.
#pragma once

#include "activation.cuh"
#include "conv_geometry.cuh"

namespace fastdl::conv::cuda {

constexpr int plane_threads = 256;
constexpr int results = 4;       // of a thread
constexpr int most_planes = 64;  // of a block
constexpr Index patch_bytes = 24 << 10;

// A convolution without dilation or stride beyond those of g, whose in_channels are added up and whose out_channels are
// those of the result. The filters have any order of channels.
template <class T>
struct Planes {
  Geometry g;
  Padding padding;
  Activation activation;
  const T* x;
  Strides strides;
  const T* w;
  Index group_stride, out_stride, in_stride;  // of w
  bool turned;                                // from the last tap on
  const T* bias;
  T* out;
  // The tile: results, a power of two along each axis and in all, and the taps it takes at one time.
  int width, height, planes;
  int part[2];
  int patch_height, patch_width;
  Index across, down, tiles;
};

// Of the planes of a tile: where the first channel of the input and the first filter of each begin.
struct Sources {  // in shared memory
  Index image[most_planes], filter[most_planes];
};

template <class T>
__global__ void __launch_bounds__(plane_threads, 3) planes_kernel(Planes<T> a) {
  FASTDL_SHARED(Sources, sources);
  FASTDL_DYNAMIC_SHARED(T, patch);
  const Geometry& g = a.g;
  const Index channels = g.groups * g.out_channels, all_planes = g.batch * channels;
  const int rows = int(g.kernel[1]), columns = int(g.kernel[2]), taps = int(g.kernel[0]) * rows * columns;
  // A thread's results are of one plane, with a filter that is read once for all of them.
  const int tile_size = a.width * a.height, threads = tile_size > results ? tile_size / results : 1;  // of a plane
  const int plane = int(threadIdx.x) / threads, first = int(threadIdx.x) % threads;
  for (Index tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const int first_column = int(tile % a.across) * a.width, first_row = int(tile / a.across % a.down) * a.height;
    const int depth = int(tile / a.across / a.down % g.out[0]);
    const Index first_plane = tile / a.across / a.down / g.out[0] * a.planes;
    __syncthreads();  // the tile before has been computed
    if (int(threadIdx.x) < a.planes) {
      const Index number = first_plane + threadIdx.x, channel = number % channels, group = channel / g.out_channels;
      sources.image[threadIdx.x] = number / channels * a.strides.batch + group * g.in_channels * a.strides.channel;
      sources.filter[threadIdx.x] = group * a.group_stride + channel % g.out_channels * a.out_stride;
    }

    T sum[results];
    int place[results];  // in the patch, of the first tap
    FASTDL_UNROLL
    for (int r = 0; r < results; ++r) {
      const int number = first + r * threads;
      const bool exists = plane < a.planes && number < tile_size;
      place[r] = exists ? (plane * a.patch_height + number / a.width * int(g.stride[1])) * a.patch_width +
                              number % a.width * int(g.stride[2])
                        : 0;
      sum[r] = T(0);
    }

    for (Index channel = 0; channel < g.in_channels; ++channel)
      for (int q = 0; q < int(g.kernel[0]); ++q) {
        const int from_depth =
            mapped(depth * int(g.stride[0]) + q * int(g.dilation[0]) - int(g.lower[0]), int(g.in[0]), a.padding);
        if (from_depth < 0) continue;  // the same for all threads
        for (int tap_row = 0; tap_row < rows; tap_row += a.part[0])
          for (int tap_column = 0; tap_column < columns; tap_column += a.part[1]) {
            __syncthreads();  // the sources are there, and the patch before has been read
            const int above = first_row * int(g.stride[1]) + tap_row * int(g.dilation[1]) - int(g.lower[1]);
            const int before = first_column * int(g.stride[2]) + tap_column * int(g.dilation[2]) - int(g.lower[2]);
            const Index from_channel = channel * a.strides.channel + from_depth * a.strides.axis[0];
            for (int line = int(threadIdx.x) / 32; line < a.planes * a.patch_height; line += plane_threads / 32) {
              const int within = line / a.patch_height;
              const int row = mapped(above + line % a.patch_height, int(g.in[1]), a.padding);
              const bool exists = first_plane + within < all_planes && row >= 0;
              const T* from = a.x + (sources.image[within] + from_channel + row * a.strides.axis[1]);
              for (int column = int(threadIdx.x) % 32; column < a.patch_width; column += 32) {
                const int at = mapped(before + column, int(g.in[2]), a.padding);
                patch[line * a.patch_width + column] = exists && at >= 0 ? from[at * a.strides.axis[2]] : T(0);
              }
            }
            __syncthreads();
            const T* filter = a.w + (sources.filter[plane < a.planes ? plane : 0] + channel * a.in_stride);
            const int rows_here = rows - tap_row < a.part[0] ? rows - tap_row : a.part[0];
            const int columns_here = columns - tap_column < a.part[1] ? columns - tap_column : a.part[1];
            for (int i = 0; i < rows_here; ++i) {
              const int line = i * int(g.dilation[1]) * a.patch_width;
              int tap = (q * rows + tap_row + i) * columns + tap_column;
              if (a.turned) tap = taps - 1 - tap;
              for (int j = 0; j < columns_here; ++j) {
                const T weight = filter[a.turned ? tap - j : tap + j];
                const int offset = line + j * int(g.dilation[2]);
                FASTDL_UNROLL
                for (int r = 0; r < results; ++r)
                  sum[r] = fastdl::cuda::multiply_add(weight, patch[place[r] + offset], sum[r]);
              }
            }
          }
      }

    const Index to = first_plane + plane;
    if (plane < a.planes && to < all_planes) {
      const T bias = a.bias ? a.bias[to % channels] : T(0);
      FASTDL_UNROLL
      for (int r = 0; r < results; ++r) {
        const int number = first + r * threads;
        const int row = first_row + number / a.width, column = first_column + number % a.width;
        if (number < tile_size && row < int(g.out[1]) && column < int(g.out[2]))
          a.out[((to * g.out[0] + depth) * g.out[1] + row) * g.out[2] + column] =
              fastdl::cuda::activated(sum[r] + bias, a.activation);
      }
    }
  }
}

// The input gradient where a stride leaves gaps between the windows and there are few channels: one thread an element
// of dx looks for the windows that see it. Limit, estimated: the search, some 30 instructions with divisions of 64 bits
// for each tap of each filter along the last axis, of which one in the stride is there and loads grad and w from L1.
template <class T>
__global__ void __launch_bounds__(plane_threads)
    gathered_gradient_kernel(Geometry g, const T* w, const T* grad, const T* bias, T* dx, Index count) {
  const Index channels = g.groups * g.in_channels, taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  const Index pixels = g.out[0] * g.out[1] * g.out[2];
  for (Index number = first_element(); number < count; number += element_step()) {
    const Position to = position_of(number, g.in);
    const Index image = to.plane / channels, channel = to.plane % channels, group = channel / g.in_channels;
    T sum = T(0);
    for (Index o = 0; o < g.out_channels; ++o) {
      const Index from_channel = group * g.out_channels + o;
      const T* plane = grad + (image * g.groups * g.out_channels + from_channel) * pixels;
      const T* filter = w + (from_channel * g.in_channels + channel % g.in_channels) * taps;
      for (Index d = 0; d < g.kernel[0]; ++d) {
        const Index depth = to.at[0] + g.lower[0] - d * g.dilation[0];
        if (depth < 0 || depth % g.stride[0] != 0 || depth / g.stride[0] >= g.out[0]) continue;
        for (Index h = 0; h < g.kernel[1]; ++h) {
          const Index height = to.at[1] + g.lower[1] - h * g.dilation[1];
          if (height < 0 || height % g.stride[1] != 0 || height / g.stride[1] >= g.out[1]) continue;
          const T* row = plane + (depth / g.stride[0] * g.out[1] + height / g.stride[1]) * g.out[2];
          for (Index v = 0; v < g.kernel[2]; ++v) {
            const Index width = to.at[2] + g.lower[2] - v * g.dilation[2];
            if (width < 0 || width % g.stride[2] != 0 || width / g.stride[2] >= g.out[2]) continue;
            sum = fastdl::cuda::multiply_add(filter[(d * g.kernel[1] + h) * g.kernel[2] + v], row[width / g.stride[2]],
                                             sum);
          }
        }
      }
    }
    dx[number] = bias ? sum + bias[channel] : sum;
  }
}

}  // namespace fastdl::conv::cuda
