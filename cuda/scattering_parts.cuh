// What the kernels of scattering consist of: filters applied and folded, averages, and their adjoints. All loops run in
// one order, whatever the threads do: results are the same to the bit.
#pragma once

#include <algorithm>

#include "fft.cuh"
#include "scattering_tables.hpp"

namespace fastdl::scattering::cuda {

using fastdl::cuda::multiply_add;
using fft::cuda::Divider;

constexpr int most_threads = 256;

// Blocks for kernels whose threads step over `work` by the grid.
inline unsigned blocks_for(Index work) {
  return unsigned(std::clamp<Index>((work + most_threads - 1) / most_threads, 1, 1 << 16));
}

template <class T>
__device__ __forceinline__ int rows_of(const Grid<T>& grid) {
  return grid.twist ? int(grid.size) : grid.first.n;
}
template <class T>
__device__ __forceinline__ int columns_of(const Grid<T>& grid) {
  return grid.twist ? 1 : grid.second.n;
}

// The spectrum times a filter at frequency (y, x) of the coarse grid: a sum over all frequencies of the fine one that
// fall on it, as far as the filter has any there. Neighbouring x read neighbouring numbers of both.
template <class T>
__device__ __forceinline__ Complex<T> folded(const Filters<T>& filters, const Window& window,
                                             const Complex<T>* spectrum, int y, int x) {
  int down = y - window.row_phase, across = x - window.column_phase;
  if (down < 0) down += window.coarse_rows;
  if (across < 0) across += window.coarse_columns;
  Complex<T> sum{T(0), T(0)};
  for (int i = down; i < window.rows; i += window.coarse_rows) {
    int row = window.row + i;
    if (row >= filters.rows) row -= filters.rows;
    const T* const coefficient = filters.coefficient + window.coefficients + Index(i) * window.columns;
    const Complex<T>* const line = spectrum + Index(row) * filters.columns;
    for (int j = across; j < window.columns; j += window.coarse_columns) {
      int column = window.column + j;
      if (column >= filters.columns) column -= filters.columns;
      sum = fft::cuda::multiply_add(line[column], coefficient[j], sum);
    }
  }
  return sum;
}

// The adjoint for all filters together: what goes back to frequency (y, x) of the fine grid. `waves` are the spectra of
// their gradients, each where its window says.
template <class T>
__device__ __forceinline__ Complex<T> unfolded(const Filters<T>& filters, const Complex<T>* waves, int y, int x) {
  Complex<T> sum{T(0), T(0)};
  for (int f = 0; f < filters.count; ++f) {
    const Window& window = filters.window[f];
    int i = y - window.row, j = x - window.column;
    if (i < 0) i += filters.rows;
    if (j < 0) j += filters.columns;
    if (i >= window.rows || j >= window.columns) continue;
    const Index place = Index(y % window.coarse_rows) * window.coarse_columns + x % window.coarse_columns;
    sum = fft::cuda::multiply_add(waves[window.spectrum + place],
                                  filters.coefficient[window.coefficients + Index(i) * window.columns + j], sum);
  }
  return sum;
}

// What goes back to sample i from gradients g of all averages.
template <class T>
__device__ __forceinline__ T spread(const Averages<T>& averages, const T* g, int stride, int i) {
  int distance = i - averages.start;
  if (distance < 0) distance += averages.n;
  T sum = 0;
  for (int turn = 0; turn < 2; ++turn, distance += averages.n) {
    const int before = distance - averages.length + averages.step;
    int p = before > 0 ? before / averages.step : 0;
    int last = distance / averages.step;
    if (last >= averages.count) last = averages.count - 1;
    for (; p <= last; ++p) sum = multiply_add(averages.taps[distance - p * averages.step], g[Index(p) * stride], sum);
  }
  return sum;
}

// How many threads, a power of two, share the sum of one output: more where outputs are few.
__device__ __forceinline__ int share_of(int outputs) {
  int share = 1;
  while (share < 32 && 2 * outputs * share <= int(blockDim.x)) share *= 2;
  return share;
}

// put(o, sum over i < length of value(o, i)) for the outputs from `first` on, those that one round of the block has
// room for. All threads of a block come here.
template <class T, class Value, class Put>
__device__ __forceinline__ void sum_some(int first, int outputs, int length, int share, const Value& value,
                                         const Put& put) {
  const int output = first + int(threadIdx.x) / share, part = int(threadIdx.x) % share;
  T sum = 0;
  if (output < outputs)
    for (int i = part; i < length; i += share) sum = value(output, i, sum);
  for (int distance = share / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (output < outputs && part == 0) put(output, sum);
}

// The same for all outputs.
template <class T, class Value, class Put>
__device__ __forceinline__ void sum_all(int outputs, int length, const Value& value, const Put& put) {
  const int share = share_of(outputs);
  for (int first = 0; first < outputs; first += int(blockDim.x) / share)
    sum_some<T>(first, outputs, length, share, value, put);
}

// The sample that tap i of average p is for.
template <class T>
__device__ __forceinline__ int sample_of(const Averages<T>& averages, int p, int i) {
  int sample = averages.start + p * averages.step;
  if (sample >= averages.n) sample -= averages.n;
  sample += i;
  return sample >= averages.n ? sample - averages.n : sample;
}

template <class T>
__device__ __forceinline__ T modulus_of(Complex<T> z) {
  return std::sqrt(multiply_add(z.re, z.re, z.im * z.im));
}

// g z/|z|, and 0 where z is 0.
template <class T>
__device__ __forceinline__ Complex<T> directed(T g, Complex<T> z) {
  const T modulus = modulus_of(z);
  const T factor = modulus == T(0) ? T(0) : g / modulus;
  return {z.re * factor, z.im * factor};
}

// The channel that the averages of a task go to or come from; `task` is an input and one of `filters` filters.
template <class T>
__device__ __forceinline__ T* channel_of(const Channels<T>& channels, Index task, int filters, Index* image) {
  const Index input = task / filters;
  const int filter = int(task % filters), parent = int(input % channels.parents);
  *image = input / channels.parents;
  return channels.values + (*image * channels.channels + channels.channel[parent * filters + filter]) * channels.size;
}

}  // namespace fastdl::scattering::cuda
