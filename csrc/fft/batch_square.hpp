// Rows of lanes x lanes complex numbers, each by itself: the matrix that a long row is too (batch_grid.hpp), here with
// all lengths known, and nothing but L1 between memory and memory.
#pragma once

#include "fft/batch_grid.hpp"
#include "fft/codelets.hpp"

namespace fastdl::fft {
namespace {

// exp(-2 pi i a b / (lanes*lanes)) at a*lanes + b.
template <class T>
struct SquareTurns {
  static constexpr int lanes = simd::lanes<T>, n = lanes * lanes;
  alignas(64) T re[n] = {}, im[n] = {};

  constexpr SquareTurns() {
    for (int a = 0; a < lanes; ++a)
      for (int b = 0; b < lanes; ++b) {
        re[a * lanes + b] = T(turns_of<n>.cosine[a * b]);
        im[a * lanes + b] = T(-turns_of<n>.sine[a * b]);
      }
  }

  FASTDL_INLINE Complex<T> operator()(Index a) const { return {load(re + a * lanes), load(im + a * lanes)}; }
  FASTDL_INLINE const SquareTurns& from(Index) const { return *this; }  // there is one block
};

template <class T>
struct FromInterleaved {
  const T* from;
  bool exchanged;
  FASTDL_INLINE Complex<T> operator()(int k) const {
    const Complex<T> x = load_interleaved(from + k * width<T>);
    return exchanged ? Complex<T>{x.im, x.re} : x;
  }
};
template <class T>
struct ToInterleaved {
  T* to;
  bool exchanged;
  T factor;
  FASTDL_INLINE void operator()(int k, int, Complex<T> x) const {
    x = scaled(x, factor);
    store_interleaved(to + k * width<T>, exchanged ? Complex<T>{x.im, x.re} : x);
  }
};

// Of `lanes` elements.
template <class T, class From, class To>
FASTDL_INLINE void transform_lanes(const From& from, const To& to) {
  constexpr int lanes = simd::lanes<T>;
  if constexpr (lanes == 16) {
    two_steps<T, 4, 4>(from, to);
  } else {
    Complex<T> x[lanes];
#pragma GCC unroll 8
    for (int k = 0; k < lanes; ++k) x[k] = from(k);
    Butterfly<T, lanes>::apply(x);
#pragma GCC unroll 8
    for (int k = 0; k < lanes; ++k) to(k, k, x[k]);
  }
}

// Number j = a*lanes + b is in lane b of element a: transformed down the elements, turned, and transformed again.
template <class T>
void transform_square(const T* in, T* out, bool inverse, T factor) {
  constexpr int lanes = simd::lanes<T>;
  static constexpr SquareTurns<T> turns{};
  alignas(64) T grid[lanes * width<T>];
  transform_lanes<T>(FromInterleaved<T>{in, inverse}, ToElements<T>{grid, grid + lanes, width<T>});
  load_turned<T>(grid, width<T>, lanes, grid, turns);
  transform_lanes<T>(FromElements<T>{grid, grid + lanes, width<T>}, ToInterleaved<T>{out, inverse, factor});
}

// Whether rows of a length go so.
template <class T>
constexpr bool goes_as_square(Index n) {
  constexpr Index lanes = simd::lanes<T>;
  return lanes >= 8 && n == lanes * lanes;
}

}  // namespace
}  // namespace fastdl::fft
