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

  // Those of a group of columns, which lies within a block: number i of it.
  struct Group {
    Complex<T> coarse;
    const T* fine;
    FASTDL_INLINE Complex<T> operator()(int i) const { return coarse * load_element(fine + i * width<T>); }
  };
  FASTDL_INLINE Group from(Index j) const {
    return {load_element(elements + (block + j / block) * width<T>), elements + j % block * width<T>};
  }
};

struct NoTwiddles {
  struct Group {};
  Group from(Index) const { return {}; }
};

// rows[i] = `across` numbers at from + i*pitch, of the first `count` rows; transposed.
template <class T>
FASTDL_INLINE void load_transposed(const T* from, Index pitch, Index count, int across,
                                   Vec<T> (&rows)[simd::lanes<T>]) {
  constexpr int lanes = simd::lanes<T>;
  if (count == lanes && across == lanes) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) rows[i] = load(from + i * pitch);
  } else {
#pragma GCC unroll 1
    for (int i = 0; i < lanes; ++i) rows[i] = i < count ? simd::load_first(from + i * pitch, across) : Vec<T>{};
  }
  simd::transpose<T>(rows);
}

// to[j], j < columns: column j of the first `count` rows, times its twiddle. Real parts first, and then the imaginary
// ones: together they are more than the registers hold.
template <class T, class Twiddles>
void load_rows(const Rows<const T>& rows, Index count, Index columns, T* to, const Twiddles& twiddles) {
  constexpr int lanes = simd::lanes<T>;
  for (Index first = 0; first < columns; first += lanes) {
    const int across = int(at_most(lanes, columns - first));
    const Index at = first / lanes * rows.group;
    T* here = to + first * width<T>;
    Vec<T> part[lanes];
    load_transposed(rows.re + at, rows.pitch, count, across, part);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i)
      if (i < across) store(here + i * width<T>, part[i]);
    load_transposed(rows.im + at, rows.pitch, count, across, part);
    [[maybe_unused]] const auto factor = twiddles.from(first);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if (i >= across) continue;
      if constexpr (std::is_same_v<Twiddles, NoTwiddles>)
        store(here + i * width<T> + lanes, part[i]);
      else
        store_element(here + i * width<T>, Complex<T>{load(here + i * width<T>), part[i]} * factor(i));
    }
  }
}

// The way back, with conjugate twiddles: the groups of columns from the one of `first` to the one of `end - 1`.
template <class T, class Twiddles>
void store_rows(const Rows<T>& rows, Index count, Index first, Index end, const T* from, const Twiddles& twiddles) {
  constexpr int lanes = simd::lanes<T>;
  for (first = first / lanes * lanes; first < end; first += lanes) {
    const int across = int(at_most(lanes, end - first));
    [[maybe_unused]] const auto factor = twiddles.from(first);
    const auto element = [&](int i) {
      Complex<T> x = load_element(from + (first + i) * width<T>);
      if constexpr (!std::is_same_v<Twiddles, NoTwiddles>) x = x * conjugate(factor(i));
      return x;
    };
    const auto put = [&](T* to, Vec<T>(&part)[lanes]) {
      simd::transpose<T>(part);
      if (count == lanes && across == lanes) {
#pragma GCC unroll 16
        for (int i = 0; i < lanes; ++i) store(to + i * rows.pitch, part[i]);
      } else {
#pragma GCC unroll 1
        for (int i = 0; i < count; ++i) simd::store_first(to + i * rows.pitch, part[i], across);
      }
    };
    Vec<T> part[lanes];
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) part[i] = i < across ? element(i).re : Vec<T>{};
    put(rows.re + first / lanes * rows.group, part);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) part[i] = i < across ? element(i).im : Vec<T>{};
    put(rows.im + first / lanes * rows.group, part);
  }
}

}  // namespace
}  // namespace fastdl::fft
