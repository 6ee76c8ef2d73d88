// Between arrays in memory and lanes: number i of `lanes` arrays side by side in vector i.
#pragma once

#include "simd/transpose.hpp"
#include "simd/vec.hpp"

namespace fastdl::scattering {
namespace {

using simd::broadcast;
using simd::fma;
using simd::load;
using simd::store;
using simd::Vec;

template <class T>
inline constexpr int lanes = simd::lanes<T>;

// Lane index[l] of a in lane l.
template <class T>
FASTDL_INLINE Vec<T> picked(Vec<T> a, simd::IntVec<T> index) {
#if defined(__clang__)
  Vec<T> result;
  for (int l = 0; l < lanes<T>; ++l) result[l] = a[index[l]];
  return result;
#else
  return __builtin_shuffle(a, index);
#endif
}

// to[i] = lanes of from[l][i], for n numbers; a lane whose array is null is zero.
template <class T>
void gather(const T* const* from, Index n, T* to) {
  constexpr int w = lanes<T>;
  for (Index first = 0; first < n; first += w) {
    const int across = int(n - first < w ? n - first : w);
    Vec<T> rows[w];
    for (int l = 0; l < w; ++l)
      rows[l] = !from[l] ? Vec<T>{} : across == w ? load(from[l] + first) : simd::load_first(from[l] + first, across);
    simd::transpose<T>(rows);
    for (int i = 0; i < across; ++i) store(to + (first + i) * w, rows[i]);
  }
}

// The way back. Arrays that are null are not written.
template <class T>
void scatter(const T* from, Index n, T* const* to) {
  constexpr int w = lanes<T>;
  for (Index first = 0; first < n; first += w) {
    const int across = int(n - first < w ? n - first : w);
    Vec<T> rows[w];
    for (int i = 0; i < w; ++i) rows[i] = i < across ? load(from + (first + i) * w) : Vec<T>{};
    simd::transpose<T>(rows);
    for (int l = 0; l < w; ++l) {
      if (!to[l]) continue;
      if (across == w)
        store(to[l] + first, rows[l]);
      else
        simd::store_first(to[l] + first, rows[l], across);
    }
  }
}

}  // namespace
}  // namespace fastdl::scattering
