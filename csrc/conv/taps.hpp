// The taps of a filter: where they lie from the corner of a window.
#pragma once

#include "conv/geometry.hpp"
#include "core/scratch.hpp"

namespace fastdl::conv {
namespace {

struct Tap {
  Index offset;       // in elements of the image
  Index shift[axes];  // in positions
};

template <class T>
const Tap* taps_of(const Geometry& g, const Images<const T>& x, core::Scratch& scratch) {
  Tap* taps = scratch.array<Tap>(g.taps());
  for (Index t = 0; t < g.taps(); ++t) {
    taps[t].offset = 0;
    Index rest = t;
    for (int a = axes - 1; a >= 0; --a) {
      taps[t].shift[a] = rest % g.kernel[a] * g.dilation[a];
      taps[t].offset += taps[t].shift[a] * x.axis[a];
      rest /= g.kernel[a];
    }
  }
  return taps;
}

// A pixel of the output: its image and place.
struct Pixel {
  Index image, at[axes];

  Pixel(const Geometry& g, Index number) {
    for (int a = axes - 1; a >= 0; --a) at[a] = number % g.out[a], number /= g.out[a];
    image = number;
  }

  // The first pixel of the next row.
  void next_row(const Geometry& g) {
    at[2] = 0;
    if (++at[1] < g.out[1]) return;
    at[1] = 0;
    if (++at[0] < g.out[0]) return;
    at[0] = 0;
    ++image;
  }
};

}  // namespace
}  // namespace fastdl::conv
