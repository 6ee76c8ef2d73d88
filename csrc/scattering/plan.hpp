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

// out[p] = sum over i < length of taps[i] in[(start[p] + i) mod n]; or, where length is n, over all i of
// taps[i*count + p] in[i]
template <class T>
struct Averages {
  Index n, count, length;
  const Index* start;
  const T* taps;
};

template <class T>
struct Level {
  Index ny, nx, half;          // half = ny/2 + 1
  Index pitch;                 // elements from row to row, odd: no two rows in one cache set
  const fft::Plan<T>* down;    // of ny
  const fft::Plan<T>* across;  // of nx
  const fft::Plan<T>* real;    // of real columns, fft::real_plan_length(ny)
  Averages<T> low_down, low_across;
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

template <class T>
struct Wavelet {
  Fold<T> fold;
  Index level;
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

  Index samples() const __attribute__((always_inline)) { return height * width_of_image; }
  Index outputs() const __attribute__((always_inline)) { return level[0].low_down.count * level[0].low_across.count; }
};

}  // namespace fastdl::scattering
