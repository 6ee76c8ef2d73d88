// How a convolution is best done: directly, by one transform, or by transforms of tiles.
//
// Times are modelled in ns of one thread; only their order matters.
#pragma once

#include <algorithm>
#include <cmath>

#include "conv/signal_bodies.hpp"
#include "fastdl/fastdl.h"
#include "fft/plan.hpp"

namespace fastdl::conv {

template <class T>
double products(const Signal<T>& s) {
  double count = static_cast<double>(s.f_count) * static_cast<double>(s.h_count);
  for (int a = 0; a < s.rank; ++a) count *= static_cast<double>(s.out_size[a]) * static_cast<double>(s.h_size[a]);
  return count;
}

// What a tile of these lengths takes, of which numbers() are complex.
template <class T>
double price(const Signal<T>& s, const Blocks& blocks) {
  double numbers = 1, work = 0, tiles = static_cast<double>(s.f_count);
  const auto add = [&](std::int64_t length) {
    numbers *= static_cast<double>(length);
    work += fft::cost(length) / static_cast<double>(length);
  };
  for (int a = 0; a < s.rank; ++a) {
    if (s.rank == 1) {
      add(blocks.rows);
      add(blocks.columns);
    } else {
      add(a == 0 ? blocks.length[a] / 2 : blocks.length[a]);
    }
    tiles *= std::ceil(static_cast<double>(s.out_size[a]) / static_cast<double>(blocks.tile[a]));
  }
  const double bytes = numbers * 2 * sizeof(T);
  const double far = bytes > 4e6 ? 40 : bytes > 2e5 ? 20 : 0;  // from memory, from L3, or from L2
  const double one = numbers * (work + 10 + far) * sizeof(T) / 4;
  return static_cast<double>(s.h_count) * (2 * tiles + 1) * one * 0.1;
}

template <class T>
double direct_price(const Signal<T>& s) {
  return products(s) * sizeof(T) / 4 * 0.03;
}

// Transforms of these lengths along every axis; those of the first are real.
template <class T>
void set_length(const Signal<T>& s, int axis, std::int64_t least, Blocks& blocks) {
  if (s.rank == 1) {
    fft::good_split((least + 1) / 2, blocks.rows, blocks.columns);
    blocks.length[0] = 2 * blocks.rows * blocks.columns;
  } else {
    blocks.length[axis] = axis == 0 ? 2 * fft::good_size((least + 1) / 2) : fft::good_size(least);
  }
}

// One tile. What wraps around must not reach the window.
template <class T>
Blocks whole(const Signal<T>& s) {
  Blocks blocks{};
  for (int a = 0; a < s.rank; ++a) {
    set_length(s, a, std::max(s.f_size[a] + s.h_size[a] - 1 - s.offset[a], s.offset[a] + s.out_size[a]), blocks);
    blocks.tile[a] = s.out_size[a];
  }
  return blocks;
}

// Tiles along the longest axis, of the quickest length.
template <class T>
Blocks tiled(const Signal<T>& s) {
  Blocks best = whole(s);
  const int axis = static_cast<int>(std::max_element(s.out_size, s.out_size + s.rank) - s.out_size);
  double least = HUGE_VAL;
  Blocks blocks = best;
  const std::int64_t overlap = s.h_size[axis] - 1;
  for (std::int64_t tile = std::max<std::int64_t>(16, overlap / 4); tile < s.out_size[axis]; tile += (tile + 1) / 2) {
    set_length(s, axis, tile + overlap, blocks);
    blocks.tile[axis] = blocks.length[axis] - overlap;
    if (const double time = price(s, blocks); time < least && blocks.tile[axis] < s.out_size[axis]) {
      least = time;
      best = blocks;
    }
  }
  return best;
}

template <class T>
fastdl_convolution_method quickest(const Signal<T>& s) {
  const double direct = direct_price(s);
  const double by_one = price(s, whole(s)), by_tiles = price(s, tiled(s));
  if (direct <= std::min(by_one, by_tiles)) return FASTDL_METHOD_DIRECT;
  return by_tiles < by_one ? FASTDL_METHOD_OVERLAP_ADD : FASTDL_METHOD_FFT;
}

}  // namespace fastdl::conv
