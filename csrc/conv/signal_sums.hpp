// Convolution by sums of products: along the rows with vectors, whatever the number of axes.
#pragma once

#include "conv/signal_tile.hpp"

namespace fastdl::conv {
namespace {

using simd::broadcast;

template <class T>
bool all_finite(const T* x, Index count) {
  T sum = 0;  // of zeros, or NaN
  for (Index i = 0; i < count; ++i) sum += 0 * x[i];
  return sum == 0;
}

// Threads for `times` such convolutions: below 2e5 products, one.
template <class T>
int threads_for_sums(const Signal<T>& s, Index times) {
  const double products = double(product(s.rank, s.out_size)) * double(product(s.rank, s.h_size)) * double(times);
  return products < 2e5 ? 1 : core::thread_count();
}

// A row of f and the row of h that goes with it in the sums of one row of out.
template <class T>
struct Pair {
  const T *f, *h;
};

// out[i] = sum over the pairs, and over t, of f[i + t] h[t], for i < count: blocks of 8 vectors keep their sums in
// registers over all pairs, and every product takes one load. f is readable for 8 vectors beyond.
template <class T>
void sum_rows(const Pair<T>* pairs, Index pair_count, Index taps, Index first, Index end, T* out) {
  constexpr int lanes = simd::lanes<T>, vectors = 8;
  for (Index i = first; i < end; i += vectors * lanes) {
    Vec<T> sums[vectors] = {};
    for (Index pair = 0; pair < pair_count; ++pair) {
      const T *f = pairs[pair].f + i, *h = pairs[pair].h;
      for (Index t = 0; t < taps; ++t) {
        const Vec<T> factor = broadcast(h[t]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sums[v] = simd::fma(load(f + t + v * lanes), factor, sums[v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const Index left = end - i - v * lanes;
      if (left > 0) simd::store_first(out + i + v * lanes, sums[v], int(at_most(lanes, left)));
    }
  }
}

// The same from f itself, term by term where f is: a tap that is not finite must not meet the zeros around f.
template <class T>
void sum_rows_within(const Pair<T>* pairs, Index pair_count, Index taps, Index f_size, Index offset, Index first,
                     Index end, T* out) {
  for (Index i = first; i < end; ++i) {
    T sum = 0;
    for (Index pair = 0; pair < pair_count; ++pair)
      for (Index t = 0; t < taps; ++t)
        if (const Index at = i + offset + t; at >= 0 && at < f_size) sum += pairs[pair].f[at] * pairs[pair].h[t];
    out[i] = sum;
  }
}

// One f with one h. The rows of f get zeros before and after, so that every sum has all its taps; h is reversed along
// its rows. Rows of f that are not there are left out of the sums.
template <class T>
void direct_one(const Signal<T>& s, const T* f, const T* h, T* out) {
  constexpr Index block = 8 * simd::lanes<T>;
  const int last = s.rank - 1;
  const Index taps = s.h_size[last], before = s.offset[last] - (taps - 1);  // f[i + before + t] h[taps - 1 - t]
  const Index f_rows = product(last, s.f_size), h_rows = product(last, s.h_size), rows = product(last, s.out_size);
  const Index f_columns = s.f_size[last], columns = s.out_size[last];
  const bool padded = all_finite(h, h_rows * taps);
  core::Scratch scratch;
  T* reversed = scratch.array<T>(h_rows, taps);
  for (Index i = 0; i < h_rows; ++i)
    for (Index t = 0; t < taps; ++t) reversed[i * taps + t] = h[i * taps + taps - 1 - t];
  const Index pitch = columns + taps - 1 + block;
  const T* rows_of_f = f;
  const int threads = threads_for_sums(s, 1);
  if (padded) {
    T* copy = scratch.array<T>(f_rows, pitch);
    core::parallel_for(f_rows, threads, [&](Index row) {
      const Index low = before < 0 ? -before : 0, high = at_most(pitch, f_columns - before);
      T* to = copy + row * pitch;
      for (Index c = 0; c < low; ++c) to[c] = 0;
      for (Index c = low; c < high; ++c) to[c] = f[row * f_columns + before + c];
      for (Index c = high < low ? low : high; c < pitch; ++c) to[c] = 0;
    });
    rows_of_f = copy;
  }
  // Tasks of about 100 us: several rows, or pieces of one.
  const double row_cost = double(h_rows) * double(taps) * double(columns);
  const Index pieces = at_most(divide_up(columns, block), 1 + Index(row_cost / 2e6));
  const Index piece = divide_up(divide_up(columns, pieces), block) * block;
  const Index group = pieces > 1 ? 1 : 1 + Index(1e6 / row_cost);
  core::parallel_for(divide_up(rows, group) * pieces, threads, [&](Index task) {
    core::Scratch local;
    Pair<T>* pairs = local.array<Pair<T>>(h_rows);
    const Index first_row = task / pieces * group, first = task % pieces * piece;
    for (Index row = first_row; row < at_most(rows, first_row + group); ++row) {
      Index count = 0;
      for (Index tap = 0; tap < h_rows; ++tap) {
        Index i = row, t = tap, at = 0, scale = 1;
        bool there = true;
        for (int a = last - 1; a >= 0; --a) {
          const Index place = i % s.out_size[a] + s.offset[a] - t % s.h_size[a];
          there &= place >= 0 && place < s.f_size[a];
          at += place * scale;
          scale *= s.f_size[a];
          i /= s.out_size[a];
          t /= s.h_size[a];
        }
        if (there) pairs[count++] = {rows_of_f + at * (padded ? pitch : f_columns), reversed + tap * taps};
      }
      T* to = out + row * columns;
      const Index end = at_most(columns, first + piece);
      if (padded)
        sum_rows(pairs, count, taps, first, end, to);
      else
        sum_rows_within(pairs, count, taps, f_columns, before, first, end, to);
    }
  });
}

}  // namespace
}  // namespace fastdl::conv
