// The orbits that a filter falls into under the group.
//
// A layer on the group sums over pairs of an element t and a pixel q of the window. The group moves the element, so no
// pair stays where it is, and there are as many orbits as pixels: that of (1, q) is (h, h q) for all h. A layer that
// lifts has pixels alone, whose orbits may be smaller than the group: the sum over all h then counts each pixel as
// often as elements leave q where it is, which the filters are divided by.
#pragma once

#include "core/scratch.hpp"
#include "group/layer.hpp"

namespace fastdl::group {
namespace {

struct Orbits {
  Index count;          // of a channel
  const Index* pixel;   // [orbit * elements + h]: h q
  const Index* fixing;  // [orbit]: how many elements leave q where it is
  int elements;
};

inline Orbits orbits_of(const Layer& layer, core::Scratch& scratch) {
  const int elements = layer.elements();
  Index* pixel = scratch.array<Index>(layer.taps(), elements);
  Index* fixing = scratch.array<Index>(layer.taps());
  Index count = 0;
  for (Index q = 0; q < layer.taps(); ++q) {
    Index* to = pixel + count * elements;
    Index still = 0;
    bool first = true;  // of its orbit
    for (int h = 0; h < elements; ++h) {
      to[h] = moved(layer.group, h, layer.k, q);
      still += to[h] == q;
      first = first && to[h] >= q;
    }
    if (layer.lift && !first) continue;
    fixing[count++] = layer.lift ? still : 1;
  }
  return {count, pixel, fixing, elements};
}

}  // namespace
}  // namespace fastdl::group
