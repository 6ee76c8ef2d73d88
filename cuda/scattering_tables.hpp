// What the kernels are told of a scattering transform: structs that are passed by value, over tables that the plan
// keeps on the device.
#pragma once

#include <memory>

#include "fft.hpp"

namespace fastdl::scattering::cuda {

using fastdl::cuda::Index;
using fastdl::cuda::Scratch;
using fastdl::cuda::Stream;
using fft::cuda::Axis;
using fft::cuda::Complex;

// A resolution. An image of ny rows and nx columns is a grid of as many; a signal is a grid as well, sample i at
// (i / columns, i % columns) and frequency k at (k % rows, k / rows): between the transforms of columns and of rows,
// (r, c) is multiplied by root r c of `twist`. Samples and frequencies lie in memory in their own order.
template <class T>
struct Grid {
  Axis<T> first, second;    // along a column, and along a row
  const Complex<T>* twist;  // roots of rows * columns, for signals
  Index size;
  int nx() const { return twist ? 1 : second.n; }
  int ny() const { return twist ? int(size) : first.n; }
};

// out[p] = sum over i < length of taps[i] in[(start + p step + i) mod n]
template <class T>
struct Averages {
  int n, count, step, length, start;
  const T* taps;
};

// Where the spectrum of a filter is more than nothing, going round at the ends of the grid it is applied to; and how it
// is folded to the grid of its result.
struct Window {
  int row, rows, column, columns;
  int coarse_rows, coarse_columns, row_phase, column_phase;  // the phases: row and column modulo the coarse sizes
  Index coefficients;                                        // the first of its numbers, row by row
  Index spectrum;  // where its results begin among those of all filters, for one input
};

// Filters of one grid. The factors of the inverse transform and of the fold are in their numbers.
template <class T>
struct Filters {
  const Window* window;
  const T* coefficient;
  int count, rows, columns;  // of the grid they are applied to
};

// Where averages go, or come from backwards: of the result of filter f for input i, image i / parents has them in
// channel[(i % parents) count + f].
template <class T>
struct Channels {
  T* values;
  const int* channel;
  const int* exponent;  // what images were divided by, as powers of two
  int parents;
  Index channels, size;  // of an image; of a channel
  Averages<T> down, across;
};

// Gives tables back on the device that they are on: they may end at any time, between calls for another. Their memory
// was had on the default stream, which waits for all calls.
template <class Tables>
void give_back(int device, std::unique_ptr<Tables>& tables) noexcept {
  if (!tables) return;
  try {
    const fastdl::cuda::Place before = fastdl::cuda::place();
    const int current = fastdl::cuda::enter({device, nullptr});
    tables.reset();
    fastdl::cuda::enter(before);
    fastdl::cuda::leave(current);
  } catch (...) {
  }
}

// To be called at the end of a call.
inline void hold_tables(const char* name, Stream stream) {
  if (stream) fastdl::cuda::wait_for(name, stream, nullptr);
}

}  // namespace fastdl::scattering::cuda
