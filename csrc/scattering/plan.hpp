// What the kernels are told of a scattering transform: tables made once, in baseline code, and only read afterwards.
//
// Signals of one axis are images of one column. A grid of a level has ny rows and nx columns; the spectrum of something
// real keeps its first ny/2 + 1 rows, and the others are their conjugates.
#pragma once

#include <cstdint>

#include "fastdl/fastdl.h"
#include "fft/plan.hpp"

namespace fastdl::scattering {

using Index = std::int64_t;

// Places of a dense average that each other's mirror image has the same taps for: first pairs of two, then places that
// are their own image.
struct Mirror {
  Index pairs, centres;
  const std::int32_t* place;  // or null
};
inline constexpr Index most_mirrored = 64;  // places

// out[p] = sum over i < length of taps[i] in[(start[p] + i) mod n]; or, where length is n, over all i of
// taps[i*count + p] in[i]; or, with pairs, as `mirrored_averages` says.
template <class T>
struct Averages {
  Index n, count, length;
  const Index* start;
  const T* taps;
  Mirror mirror;
};

// The same for sums along a vector's lanes, always by a window: `length` is a multiple of `raster_block`, and taps
// beyond the window are 0.
template <class T>
struct Windows {
  Index n, count, length;
  const Index* start;
  const T* taps;
};

// Large images and long signals, one at a time: rows x columns, whose columns lie along the lanes. A signal is cut into
// rows, n = rows * columns. The spectrum has the real parts of a row, and `plane` numbers further the imaginary ones;
// its rows are `pitch` numbers apart. Of an image it keeps the first columns/2 + 1 columns; that of a signal is a
// single row, and all of it. A block may be read that begins before it, or ends behind it.
inline constexpr Index raster_block = 16;  // columns for which a filter's terms are listed together

template <class T>
struct Raster {
  Index rows, columns;
  Index plane, pitch;
  const fft::Plan<T>* down;    // of rows
  const fft::Plan<T>* across;  // of columns
  const fft::Plan<T>* real;    // fft::real_plan_length of columns; of a signal, of rows
  Windows<T> low_down;
  // Of a signal: exp(-2 pi i j row / n) for j < turn_block, then for its multiples; for a block of rows at a time, real
  // parts first.
  const T* turns;
};
inline constexpr Index turn_block = 32;
constexpr Index turns_of(Index columns) { return turn_block + (columns + turn_block - 1) / turn_block; }

template <class T>
struct Level {
  Index ny, nx, half;          // half = ny/2 + 1
  Index pitch;                 // elements from row to row, odd: no two rows in one cache set
  const fft::Plan<T>* down;    // of ny
  const fft::Plan<T>* across;  // of nx
  const fft::Plan<T>* real;    // of real columns, fft::real_plan_length(ny)
  Averages<T> low_down, low_across;
  Raster<T> raster;  // of large plans
};

// A spectrum times a filter, folded to a coarser grid: output k is the sum over its terms of coef * in[offset], first
// those from begin[k] to middle[k] as they are, then to begin[k + 1] conjugated. Offsets count elements of the half
// spectrum. Terms below the precision of T are left out.
//
// Neighbouring outputs mostly have as many terms, a place further on (conjugated ones, a place before): a run of
// `length` outputs is told by the terms of its first. Runs end with the row.
struct Run {
  std::int32_t length, plain, conjugate;
};

template <class T>
struct Fold {
  const std::int32_t *begin, *middle, *offset;
  const T* coef;  // of a single filter; of all filters of a group, `filters` at a time
  Index terms, filters;
  const Run* run;
  const std::int32_t* row;  // the first run of each row
};

// The same for rasters: outputs in blocks of columns, a block by runs of rows that have as many terms, each a row
// further on in the spectrum (`step` numbers). A term is `raster_block` numbers from `offset` on, times as many
// coefficients; the conjugated ones, which come after the plain ones, are in reverse order and a row before.
struct RasterRun {
  std::int32_t length, plain, conjugate;
  std::int32_t offset, coef;  // the first of its terms, and its first block of coefficients

  bool operator==(const RasterRun&) const = default;
};

template <class T>
struct RasterFold {
  const RasterRun* run;
  const std::int32_t *first_run, *offset;  // the first run of each block, and the end
  const T* coef;
  Index step;
};

template <class T>
struct Wavelet {
  Fold<T> fold;
  Index level;
  RasterFold<T> raster;
};

// Wavelets of the first order on one level, and those of the second order that follow each of them.
template <class T>
struct Group {
  Index level, members, followers;
  const Wavelet<T>* member;
  const Wavelet<T>* follower;
  Fold<T> together;        // of all members
  const Index* channel;    // of each member
  const Index* channel_2;  // of each member with the first follower; the others come after it
};

template <class T>
struct Plan {
  Index height, width_of_image;    // before padding
  const Index *place_y, *place_x;  // the sample at each place of the padded grid
  Index levels, groups, channels;
  const Level<T>* level;
  const Group<T>* group;
  double flops;  // of one image, about
  bool large;    // images go one at a time, by rasters
  bool image;    // of two axes

  Index samples() const __attribute__((always_inline)) { return height * width_of_image; }
  Index outputs() const __attribute__((always_inline)) { return level[0].low_down.count * level[0].low_across.count; }
};

}  // namespace fastdl::scattering
