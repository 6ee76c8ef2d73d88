// Products of rows of a strip with each other, lanes along the columns: for blocks of few samples, which would not fill
// the lanes themselves. Nothing is turned, and of the samples with each other no more than the tiles on and above the
// diagonal is computed; the price is a sum over the lanes for every product of a strip.
#pragma once

#include "hebbian/strips.hpp"
#include "simd/transpose.hpp"

namespace fastdl::hebbian {
namespace {

// Samples of a tile, and rows: their products are as many sums as stay in registers.
inline constexpr int dot_samples = 4;
inline constexpr int dot_rows = tile_vectors<float> == 4 ? 4 : 2;

// Rows in the pieces of a strip: one behind the other in a piece, and from piece to piece `apart` numbers.
template <class T>
struct PieceRows {
  const T* first;
  Index apart;
};

// out[r*stride + s] = row r of `rows` times row s of `samples`, over all columns of a strip.
template <class T, int Rows, class Pitch, class Stride>
void dot_tile(PieceRows<T> rows, PieceRows<T> samples, Pitch pitch, Index width, T* out, Stride stride) {
  constexpr int lanes = step<T>, products = Rows * dot_samples, groups = (products + lanes - 1) / lanes;
  Vec<T> sums[groups][lanes] = {};
  for (; width > 0; width -= pitch, rows.first += rows.apart, samples.first += samples.apart)
    for (Index j = 0; j < at_most(width, pitch); j += lanes) {
      Vec<T> sample[dot_samples];
#pragma GCC unroll 4
      for (int s = 0; s < dot_samples; ++s) sample[s] = simd::load(samples.first + s * pitch + j);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        const Vec<T> row = simd::load(rows.first + r * pitch + j);
#pragma GCC unroll 4
        for (int s = 0; s < dot_samples; ++s) {
          Vec<T>& sum = sums[(r * dot_samples + s) / lanes][(r * dot_samples + s) % lanes];
          sum = simd::fma(row, sample[s], sum);
        }
      }
    }
  T totals[groups * lanes];
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) simd::store(totals + g * lanes, simd::totals<T>(sums[g]));
  for (int r = 0; r < Rows; ++r) __builtin_memcpy(out + r * stride, totals + r * dot_samples, dot_samples * sizeof(T));
}

// The same for any number of rows, and of samples from `first` on; those are made up to whole tiles.
template <class T, int Rows = dot_rows, class Pitch, class Stride>
void dots(PieceRows<T> rows, Index count, PieceRows<T> samples, Index first, Index end, Pitch pitch, Index width,
          T* out, Stride stride) {
  Index r = 0;
  for (; r + Rows <= count; r += Rows)
    for (Index s = first; s < end; s += dot_samples)
      dot_tile<T, Rows>({rows.first + r * pitch, rows.apart}, {samples.first + s * pitch, samples.apart}, pitch, width,
                        out + r * stride + s, stride);
  if constexpr (Rows > 1)
    if (r < count)
      dots<T, Rows / 2>({rows.first + r * pitch, rows.apart}, count - r, samples, first, end, pitch, width,
                        out + r * stride, stride);
}

}  // namespace
}  // namespace fastdl::hebbian
