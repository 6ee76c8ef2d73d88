// Steps of scattering paths where a grid is too large for shared memory: rows in one kernel, columns in another, with
// what is done to the numbers fused into their reads and writes (fft_lines.cuh); averages in kernels of their own.
#pragma once

#include "fft_lines.cuh"
#include "scattering_image.cuh"

namespace fastdl::scattering::cuda {

using fft::cuda::Numbers;
using fft::cuda::RealNumbers;

// Rows of the grid of a task, read: the spectrum of its input times its filter, folded.
template <class T>
struct FilteredRows {
  Filters<T> filters;
  const Complex<T>* spectra;
  int rows;
  bool twisted, lines_first;
  Window window = {};

  __device__ __forceinline__ void enter(Index task) {
    window = filters.window[task % filters.count];
    spectra += task / filters.count * (Index(filters.rows) * filters.columns);
  }
  __device__ __forceinline__ Complex<T> operator()(int row, int column) const {
    const int y = twisted ? row + rows * column : row, x = twisted ? 0 : column;
    return folded(filters, window, spectra, y, x);
  }
};

// Rows, read: what comes back from filters that were applied to this grid.
template <class T>
struct UnfilteredRows {
  Filters<T> filters;
  const Complex<T>* gradients;
  Index stride;
  int rows;
  bool twisted, lines_first;

  __device__ __forceinline__ void enter(Index task) { gradients += task * stride; }
  __device__ __forceinline__ Complex<T> operator()(int row, int column) const {
    const int y = twisted ? row + rows * column : row, x = twisted ? 0 : column;
    return unfolded(filters, gradients, y, x);
  }
};

// Columns, written: their moduli, and themselves where `waves` is given.
template <class T>
struct Moduli {
  T* moduli;
  Complex<T>* waves;
  Index size;
  int columns;
  bool lines_first = true;

  __device__ __forceinline__ void enter(Index task) {
    moduli += task * size;
    if (waves) waves += task * size;
  }
  __device__ __forceinline__ void operator()(int column, int row, Complex<T> z) const {
    const Index place = Index(row) * columns + column;
    moduli[place] = modulus_of(z);
    if (waves) waves[place] = z;
  }
};

// The gradient for the samples of a grid from that for its averages, which are spread across already.
template <class T>
struct Spread {
  const T* averages;
  Averages<T> down;
  int columns, nx;

  __device__ __forceinline__ void enter(Index task) { averages += task * down.count * nx; }
  __device__ __forceinline__ T operator()(int column, int row) const {
    return nx == columns ? spread(down, averages + column, nx, row)
                         : spread(down, averages, 1, row * columns + column);  // of a signal
  }
};

// Columns, written: the gradient times the direction of the convolution. Where `waves` are the convolutions, the real
// part of what is written is added to the gradient of the averages; else what is written is the convolution.
template <class T>
struct Directed {
  Complex<T>* to;
  const Complex<T>* waves;
  Spread<T> averages;
  Index size;
  bool lines_first = true;

  __device__ __forceinline__ void enter(Index task) {
    to += task * size;
    if (waves) waves += task * size;
    averages.enter(task);
  }
  __device__ __forceinline__ void operator()(int column, int row, Complex<T> value) const {
    const Index place = Index(row) * averages.columns + column;
    const T g = averages(column, row);
    to[place] = waves ? directed(value.re + g, waves[place]) : directed(g, value);
  }
};

// Columns, written: real parts, with the gradient of averages added.
template <class T>
struct RealParts {
  T* to;
  Spread<T> averages;
  Index size;
  bool lines_first = true;

  __device__ __forceinline__ void enter(Index task) {
    to += task * size;
    averages.enter(task);
  }
  __device__ __forceinline__ void operator()(int column, int row, Complex<T> value) const {
    to[Index(row) * averages.columns + column] = value.re + averages(column, row);
  }
};

// ---- averages of grids in global memory ----

// out (tasks, count, nx) of u (tasks, ny, nx): a thread an output, or up to 32 where a task has few. Neighbouring
// threads take neighbouring columns. Limit: reads of u from L2, once for every average a sample is in.
template <class T>
__global__ void __launch_bounds__(most_threads)
    average_down_kernel(Averages<T> down, int nx, const T* u, T* out, int share, int blocks_a_task) {
  const Index task = blockIdx.x / unsigned(blocks_a_task);
  const int outputs = down.count * nx;
  const int first = int(blockIdx.x % unsigned(blocks_a_task)) * (int(blockDim.x) / share);
  const T* const from = u + task * down.n * nx;
  T* const to = out + task * outputs;
  sum_some<T>(
      first, outputs, down.length, share,
      [&](int output, int i, T sum) {
        const int p = output / nx, x = output - p * nx;
        return multiply_add(from[Index(sample_of(down, p, i)) * nx + x], down.taps[i], sum);
      },
      [&](int output, T sum) { to[output] = sum; });
}

// The channels of these, averaged across. Limit: reads from L2, as many as the low-pass has taps for a result; there
// are fewer of them than in average_down_kernel by as much as that has averaged.
template <class T>
__global__ void __launch_bounds__(most_threads)
    average_across_kernel(Channels<T> channels, int filters, int nx, const T* averages, int share, int blocks_a_task) {
  const Index task = blockIdx.x / unsigned(blocks_a_task);
  const int first = int(blockIdx.x % unsigned(blocks_a_task)) * (int(blockDim.x) / share);
  const Averages<T>& across = channels.across;
  const T* const from = averages + task * channels.down.count * nx;
  Index image = 0;
  T* const to = channel_of(channels, task, filters, &image);
  const int exponent = channels.exponent[image];
  sum_some<T>(
      first, int(channels.size), across.length, share,
      [&](int output, int i, T sum) {
        const int p = output / across.count, q = output - p * across.count;
        return multiply_add(from[p * nx + sample_of(across, q, i)], across.taps[i], sum);
      },
      [&](int output, T sum) { to[output] = exponent ? std::ldexp(sum, exponent) : sum; });
}

// The adjoint across: averages (tasks, count, nx) of the gradients of channels. Limit: memory, one write of a number;
// its reads are the few gradients whose averages it is in, from L1.
template <class T>
__global__ void __launch_bounds__(most_threads)
    spread_across_kernel(Channels<T> channels, int filters, int nx, Index tasks, T* averages) {
  const Index each = Index(channels.down.count) * nx;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < tasks * each; i += Index(gridDim.x) * blockDim.x) {
    const Index task = i / each, place = i - task * each;
    const int p = int(place / nx), x = int(place - Index(p) * nx);
    Index image = 0;
    const T* const from = channel_of(channels, task, filters, &image);
    averages[i] = spread(channels.across, from + Index(p) * channels.across.count, 1, x);
  }
}

// Padded images, as real numbers. Limit: memory, one read and one write of a number.
template <class T>
__global__ void __launch_bounds__(most_threads)
    pad_kernel(Padding<T> padding, int nx, Index size, Index images, T* padded) {
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < images * size; i += Index(gridDim.x) * blockDim.x) {
    const Index image = i / size, place = i - image * size;
    const int y = int(place / nx), x = int(place - Index(y) * nx), exponent = padding.exponent[image];
    const T value = padding.images[(image * padding.height + padding.place_y[y]) * padding.width + padding.place_x[x]];
    padded[i] = exponent ? std::ldexp(value, -exponent) : value;
  }
}

// ---- launches ----

inline int share_for(Index outputs) {
  int share = 1;
  while (share < 32 && 2 * outputs * share <= most_threads) share *= 2;
  return share;
}

// The averages of real grids, to their channels.
template <class T>
void average_grids(const char* name, const Grid<T>& grid, const Channels<T>& channels, int filters, Index tasks,
                   const T* u, Stream stream) {
  const int nx = grid.nx();
  const Index outputs = Index(channels.down.count) * nx;
  Scratch<T> averages(name, tasks * outputs, stream);
  const auto blocks = [](Index count, int share) { return (count * share + most_threads - 1) / most_threads; };
  const int share = share_for(outputs), share_2 = share_for(channels.size);
  const Index each = blocks(outputs, share), each_2 = blocks(channels.size, share_2);
  fastdl::cuda::launch(name, average_down_kernel<T>, {dim3(unsigned(tasks * each)), dim3(most_threads), 0, stream},
                       channels.down, nx, u, averages.data(), share, int(each));
  fastdl::cuda::launch(name, average_across_kernel<T>, {dim3(unsigned(tasks * each_2)), dim3(most_threads), 0, stream},
                       channels, filters, nx, averages.data(), share_2, int(each_2));
}

// The gradients of channels, spread across.
template <class T>
Scratch<T> spread_channels(const char* name, const Grid<T>& grid, const Channels<T>& channels, int filters, Index tasks,
                           Stream stream) {
  const Index count = tasks * channels.down.count * grid.nx();
  Scratch<T> averages(name, count, stream);
  fastdl::cuda::launch(name, spread_across_kernel<T>, {dim3(blocks_for(count)), dim3(most_threads), 0, stream},
                       channels, filters, grid.nx(), tasks, averages.data());
  return averages;
}

// A grid of numbers between the two passes, by rows and by columns, and a spectrum by rows.
template <class T>
struct Layouts {
  const Grid<T>& grid;
  bool twisted() const { return grid.twist != nullptr; }
  // `inverse`: multiplied, when stored, for the pass that comes after.
  Numbers<T> rows(Complex<T>* data, bool inverse = false) const {
    return {data, grid.size, grid.second.n, 1, false, inverse ? grid.twist : nullptr, true};
  }
  Numbers<T> columns(Complex<T>* data, bool forward = false) const {
    return {data, grid.size, 1, grid.second.n, true, forward ? grid.twist : nullptr, false};
  }
  Numbers<T> spectrum(Complex<T>* data) const {
    if (twisted()) return {data, grid.size, 1, grid.first.n, true};
    return {data, grid.size, grid.second.n, 1, false};
  }
  Spread<T> spread(const T* averages, const Averages<T>& down) const {
    return {averages, down, grid.second.n, grid.nx()};
  }
  RealNumbers<T> real_columns(const T* data) const { return {data, grid.size, 1, grid.second.n, true}; }
};

}  // namespace fastdl::scattering::cuda
