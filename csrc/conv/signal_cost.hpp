// How a convolution is best done: directly, by one transform, or by transforms of tiles.
//
// Times are modelled in ns, from measurements in float32 on one thread of a Zen 3 with AVX2; other types and levels
// change all of them about alike, and only their order matters.
//   direct: 0.036 to 0.039 a product along rows of 300 and 1000 taps; 3 x 3 and 5 x 5 take about 1 more a result
//   transforms: for each complex number, there or back, fft::cost divided by the lanes; and for loads, transposes,
//   twiddles and products 1.5 to 2.3 up to 64K numbers, 3 to 4 up to 512K, 5 from there on
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

template <class T>
double taps(const Signal<T>& s) {
  double count = 1;
  for (int a = 0; a < s.rank; ++a) count *= static_cast<double>(s.h_size[a]);
  return count;
}

template <class T>
double direct_price(const Signal<T>& s) {
  const auto along = static_cast<double>(s.h_size[s.rank - 1]);  // a row of taps costs as two more
  return products(s) * (0.04 * (along + 2) / along + 1 / taps(s)) * sizeof(T) / 4;
}

// One transform for each h, and two for each tile of each f.
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
  const double bytes = numbers * 2 * sizeof(T), rest = bytes < 6e5 ? 2 : bytes < 5e6 ? 3.5 : 5;
  const double transform = numbers * (work / 8 + rest) * sizeof(T) / 4;
  constexpr double call = 3000;  // plans and tables
  return call + static_cast<double>(s.h_count) * (2 * tiles + 1) * (transform + 500);
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
  for (std::int64_t tile = std::max<std::int64_t>(32, overlap / 2); tile < s.out_size[axis]; tile *= 2) {
    set_length(s, axis, tile + overlap, blocks);
    blocks.tile[axis] = blocks.length[axis] - overlap;
    if (blocks.tile[axis] >= s.out_size[axis]) break;
    const double time = price(s, blocks);
    if (time > 1.5 * least) break;
    if (time < least) {
      least = time;
      best = blocks;
    }
  }
  return best;
}

template <class T>
fastdl_convolution_method quickest(const Signal<T>& s) {
  if (taps(s) <= 32) return FASTDL_METHOD_DIRECT;  // whatever the sizes, and to compare takes some 20 us
  const double direct = direct_price(s);
  const double by_one = price(s, whole(s)), by_tiles = price(s, tiled(s));
  if (direct <= std::min(by_one, by_tiles)) return FASTDL_METHOD_DIRECT;
  return by_tiles < by_one ? FASTDL_METHOD_OVERLAP_ADD : FASTDL_METHOD_FFT;
}

}  // namespace fastdl::conv
