// Between complex numbers as NumPy has them, real and imaginary part by turns, and elements of lanes.
#pragma once

#include "fft/transform.hpp"
#include "simd/transpose.hpp"

namespace fastdl::fft {
namespace {

// Where the parts of an element go: exchanged, a forward transform is the inverse one.
template <class T>
struct Parts {
  Index re, im;
  explicit Parts(bool inverse) : re(inverse ? simd::lanes<T> : 0), im(inverse ? 0 : simd::lanes<T>) {}
};

// The last lane first.
template <class T, int... Lane>
FASTDL_INLINE Vec<T> reversed(Vec<T> a, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, a, (simd::lanes<T> - 1 - Lane)...);
}
template <class T>
FASTDL_INLINE Vec<T> reversed(Vec<T> a) {
  return reversed<T>(a, std::make_integer_sequence<int, simd::lanes<T>>{});
}

// `lanes` complex numbers side by side.
template <class T>
FASTDL_INLINE Complex<T> load_interleaved(const T* p) {
  const Vec<T> a = load(p), b = load(p + simd::lanes<T>);
  return {simd::even_lanes<T>(a, b), simd::odd_lanes<T>(a, b)};
}
template <class T>
FASTDL_INLINE void store_interleaved(T* p, Complex<T> x) {
  store(p, simd::low_by_turns<T>(x.re, x.im));
  store(p + simd::lanes<T>, simd::high_by_turns<T>(x.re, x.im));
}

// The first `count` of them.
template <class T>
FASTDL_INLINE Complex<T> load_interleaved(const T* p, int count) {
  constexpr int lanes = simd::lanes<T>;
  if (count == lanes) return load_interleaved(p);
  const int first = 2 * count < lanes ? 2 * count : lanes;
  const Vec<T> a = simd::load_first(p, first), b = simd::load_first(p + first, 2 * count - first);
  return {simd::even_lanes<T>(a, b), simd::odd_lanes<T>(a, b)};
}
template <class T>
FASTDL_INLINE void store_interleaved(T* p, Complex<T> x, int count) {
  constexpr int lanes = simd::lanes<T>;
  if (count == lanes) return store_interleaved(p, x);
  const int first = 2 * count < lanes ? 2 * count : lanes;
  simd::store_first(p, simd::low_by_turns<T>(x.re, x.im), first);
  simd::store_first(p + first, simd::high_by_turns<T>(x.re, x.im), 2 * count - first);
}

// A square transpose of complex numbers: lanes/2 vectors of lanes/2.
template <class T, int Step = 1>
FASTDL_INLINE void transpose_pairs(Vec<T> (&rows)[simd::lanes<T> / 2]) {
  if constexpr (2 * Step < simd::lanes<T>) {
#pragma GCC unroll 8
    for (int i = 0; i < simd::lanes<T> / 2; ++i)
      if ((i & Step) == 0) {
        if constexpr (sizeof(T) == 4) {  // as numbers of 8 bytes, for which there are shuffles without a table
          Vec<double> a = (Vec<double>)rows[i], b = (Vec<double>)rows[i + Step];
          simd::exchange<double, Step>(a, b, std::make_integer_sequence<int, simd::lanes<double>>{});
          rows[i] = (Vec<T>)a;
          rows[i + Step] = (Vec<T>)b;
        } else {
          simd::exchange<T, 2 * Step>(rows[i], rows[i + Step], std::make_integer_sequence<int, simd::lanes<T>>{});
        }
      }
    transpose_pairs<T, 2 * Step>(rows);
  }
}

template <bool ToWrite>
FASTDL_INLINE void ask_for(const void* line) {
  if constexpr (ToWrite)
    simd::prefetch_to_write(line);
  else
    simd::prefetch_to_l2(line);
}

// A lane-full of rows is read and written a part of a line of each by turns, which no prefetcher of the processor
// follows. So with every step a step's share of the rows after them is asked for. Of 2^20 numbers in L3, rows of 64
// took 1.5 ms without and 0.7 with it, on two threads of a Zen 3.
template <bool ToWrite, class T>
FASTDL_INLINE void ask_ahead(const T* rows, Index pitch, Index first) {
  constexpr Index lanes = simd::lanes<T>, line = 64 / Index(sizeof(T));
  const T* ahead = rows + lanes * pitch + lanes * 2 * first;
  for (Index i = 0; i < lanes * lanes; i += line) ask_for<ToWrite>(ahead + i);
}

// to[j], j < columns: column j of `count` rows of complex numbers, `pitch` numbers apart. Complex numbers are
// transposed whole, and taken apart at the end: 0.5 shuffles a number with 16 lanes, where it would be 0.63 the other
// way round.
template <class T, bool Full>
FASTDL_INLINE void load_batch(const T* from, Index pitch, int count, Index columns, Parts<T> parts, T* to) {
  constexpr int lanes = simd::lanes<T>, pairs = lanes / 2;
  for (Index first = 0; first < columns; first += pairs) {
    const int across = int(columns - first < pairs ? columns - first : pairs);
    const auto row = [&](int i) {
      const T* at = from + i * pitch + 2 * first;
      if (!Full && i >= count) return Vec<T>{};
      return across == pairs ? load(at) : simd::load_first(at, 2 * across);
    };
    if (Full) ask_ahead<false>(from, pitch, first);
    Vec<T> low[pairs], high[pairs];
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i) low[i] = row(i);
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i) high[i] = row(i + pairs);
    transpose_pairs<T>(low);
    transpose_pairs<T>(high);
    T* at = to + first * width<T>;
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i)
      if (i < across) {
        store(at + i * width<T> + parts.re, simd::even_lanes<T>(low[i], high[i]));
        store(at + i * width<T> + parts.im, simd::odd_lanes<T>(low[i], high[i]));
      }
  }
}
template <class T>
void load_batch(const T* from, Index pitch, int count, Index columns, Parts<T> parts, T* to) {
  if (count == simd::lanes<T>)
    load_batch<T, true>(from, pitch, count, columns, parts, to);
  else
    load_batch<T, false>(from, pitch, count, columns, parts, to);
}

// The way back, times a factor.
template <class T, bool Full>
FASTDL_INLINE void store_batch(T* to, Index pitch, int count, Index columns, Parts<T> parts, T factor, const T* from) {
  constexpr int lanes = simd::lanes<T>, pairs = lanes / 2;
  for (Index first = 0; first < columns; first += pairs) {
    const int across = int(columns - first < pairs ? columns - first : pairs);
    const T* at = from + first * width<T>;
    if (Full) ask_ahead<true>(to, pitch, first);
    Vec<T> low[pairs], high[pairs];
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i) {
      const T* element = at + (i < across ? i : 0) * width<T>;
      const Vec<T> re = load(element + parts.re) * factor, im = load(element + parts.im) * factor;
      low[i] = simd::low_by_turns<T>(re, im);
      high[i] = simd::high_by_turns<T>(re, im);
    }
    transpose_pairs<T>(low);
    transpose_pairs<T>(high);
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) {
      if (!Full && i >= count) continue;
      T* there = to + i * pitch + 2 * first;
      const Vec<T> value = i < pairs ? low[i % pairs] : high[i % pairs];
      if (across == pairs) {
        store(there, value);
      } else if (sizeof(value) == 64) {
        simd::store_first(there, value, 2 * across);
      } else {  // a masked store of AVX2 takes a Zen 3 some 20 cycles
        T part[lanes];
        store(part, value);
        for (int k = 0; k < across; ++k) __builtin_memcpy(there + 2 * k, part + 2 * k, 2 * sizeof(T));
      }
    }
  }
}
template <class T>
void store_batch(T* to, Index pitch, int count, Index columns, Parts<T> parts, T factor, const T* from) {
  if (count == simd::lanes<T>)
    store_batch<T, true>(to, pitch, count, columns, parts, factor, from);
  else
    store_batch<T, false>(to, pitch, count, columns, parts, factor, from);
}

}  // namespace
}  // namespace fastdl::fft
