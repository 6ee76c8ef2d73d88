// Between rows in memory and lanes: `lanes` rows become one row of vectors, by square transposes in registers.
#pragma once

#include <type_traits>

#include "fft/transform.hpp"
#include "simd/transpose.hpp"

namespace fastdl::fft {
namespace {

constexpr Index divide_up(Index n, Index by) { return (n + by - 1) / by; }
constexpr Index at_most(Index most, Index n) { return n < most ? n : most; }

// Complex rows, `pitch` numbers apart. The columns come in groups of a vector's lanes, `group` numbers apart:
// separate real and imaginary arrays have group = lanes; in a grid the two alternate, and group = 2*lanes.
template <class T>
struct Rows {
  T *re, *im;
  Index pitch, group;
};

template <class T>
Rows<T> grid_rows(T* data, Index pitch) {
  return {data, data + width<T> / 2, pitch, width<T>};
}

// The factors between the two steps of a long transform, for the lanes' rows: number j is
// exp(-2 pi i j (scale*row + offset) / order), a product of two of about sqrt(columns) elements that are kept.
template <class T>
struct RowTwiddles {
  static constexpr Index block = 32;
  const T* elements;  // of j < block, then of the multiples of block

  static Index size(Index columns) { return (block + divide_up(columns, block)) * width<T>; }

  static void fill(const Turns& turns, Index scale, Index offset, Index first_row, Index rows, Index columns, T* to) {
    for (Index e = 0; e < size(columns) / width<T>; ++e) {
      const Index j = e < block ? e : (e - block) * block;
      for (int lane = 0; lane < simd::lanes<T>; ++lane) {
        double re = 1, im = 0;
        if (lane < rows && j < columns) turns(j * (scale * (first_row + lane) + offset), re, im);
        to[e * width<T> + lane] = T(re);
        to[e * width<T> + simd::lanes<T> + lane] = T(im);
      }
    }
  }

  FASTDL_INLINE Complex<T> operator()(Index j) const {
    return load_element(elements + (block + j / block) * width<T>) * load_element(elements + j % block * width<T>);
  }
};

struct NoTwiddles {};

// to[j], j < columns: column j of the first `count` rows, times its twiddle.
template <class T, class Twiddles>
void load_rows(const Rows<const T>& rows, Index count, Index columns, T* to, const Twiddles& twiddles) {
  constexpr int lanes = simd::lanes<T>;
  for (Index first = 0; first < columns; first += lanes) {
    const int across = int(at_most(lanes, columns - first));
    Vec<T> re[lanes], im[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      const Index at = i * rows.pitch + first / lanes * rows.group;
      re[i] = im[i] = Vec<T>{};
      if (i < count) {
        re[i] = across == lanes ? load(rows.re + at) : simd::load_first(rows.re + at, across);
        im[i] = across == lanes ? load(rows.im + at) : simd::load_first(rows.im + at, across);
      }
    }
    simd::transpose<T>(re);
    simd::transpose<T>(im);
    for (int i = 0; i < across; ++i) {
      Complex<T> x{re[i], im[i]};
      if constexpr (!std::is_same_v<Twiddles, NoTwiddles>) x = x * twiddles(first + i);
      store_element(to + (first + i) * width<T>, x);
    }
  }
}

// The way back, with conjugate twiddles: the groups of columns from the one of `first` to the one of `end - 1`.
template <class T, class Twiddles>
void store_rows(const Rows<T>& rows, Index count, Index first, Index end, const T* from, const Twiddles& twiddles) {
  constexpr int lanes = simd::lanes<T>;
  for (first = first / lanes * lanes; first < end; first += lanes) {
    const int across = int(at_most(lanes, end - first));
    Vec<T> re[lanes], im[lanes];
    for (int i = 0; i < lanes; ++i) {
      Complex<T> x{};
      if (i < across) {
        x = load_element(from + (first + i) * width<T>);
        if constexpr (!std::is_same_v<Twiddles, NoTwiddles>) x = x * conjugate(twiddles(first + i));
      }
      re[i] = x.re;
      im[i] = x.im;
    }
    simd::transpose<T>(re);
    simd::transpose<T>(im);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      const Index at = i * rows.pitch + first / lanes * rows.group;
      if (i >= count) continue;
      if (across == lanes) {
        store(rows.re + at, re[i]);
        store(rows.im + at, im[i]);
      } else {
        simd::store_first(rows.re + at, re[i], across);
        simd::store_first(rows.im + at, im[i], across);
      }
    }
  }
}

}  // namespace
}  // namespace fastdl::fft
