// Very short rows of a batch, from memory to memory with nothing between but registers.
#pragma once

#include "fft/codelets.hpp"
#include "fft/interleaved.hpp"

namespace fastdl::fft {
namespace {

// `lanes` rows, one after the other in memory; out may be in. There is no array between the steps but what the compiler
// spills, and all loops are known beforehand: 2^19 complex64 in rows of 8 take 205 us on a core of Zen 4 where a load,
// a codelet and a store took 443, in rows of 16 207 for 405, and in rows of 32 270 for 352.
template <class T, int N, bool Streamed = false>
void transform_short(const T* in, T* out, Parts<T> parts, T factor) {
  constexpr int lanes = simd::lanes<T>, pairs = lanes / 2;
  const bool inverse = parts.re != 0;
  Complex<T> x[N];
#pragma GCC unroll 16
  for (int first = 0; first < N; first += pairs) {
    constexpr auto least = [](int a, int b) { return a < b ? a : b; };
    const int across = least(pairs, N - first);
    Vec<T> low[pairs], high[pairs];
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i) {
      const T* at = in + 2 * (i * N + first);
      low[i] = across == pairs ? load(at) : simd::load_first(at, 2 * across);
      high[i] = across == pairs ? load(at + lanes * N) : simd::load_first(at + lanes * N, 2 * across);
    }
    transpose_pairs<T>(low);
    transpose_pairs<T>(high);
#pragma GCC unroll 8
    for (int i = 0; i < across; ++i) {
      const Vec<T> even = simd::even_lanes<T>(low[i], high[i]), odd = simd::odd_lanes<T>(low[i], high[i]);
      x[first + i] = {inverse ? odd : even, inverse ? even : odd};
    }
  }
  Butterfly<T, N>::apply(x);
#pragma GCC unroll 16
  for (int first = 0; first < N; first += pairs) {
    constexpr auto least = [](int a, int b) { return a < b ? a : b; };
    const int across = least(pairs, N - first);
    Vec<T> low[pairs], high[pairs];
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i) {
      const Complex<T> value = scaled(x[least(first + i, N - 1)], factor);
      const Vec<T> even = inverse ? value.im : value.re, odd = inverse ? value.re : value.im;
      low[i] = simd::low_by_turns<T>(even, odd);
      high[i] = simd::high_by_turns<T>(even, odd);
    }
    transpose_pairs<T>(low);
    transpose_pairs<T>(high);
#pragma GCC unroll 8
    for (int i = 0; i < pairs; ++i) {
      T* at = out + 2 * (i * N + first);
      if (Streamed) {
        simd::stream(at, low[i]);
        simd::stream(at + lanes * N, high[i]);
      } else if (across == pairs) {
        store(at, low[i]);
        store(at + lanes * N, high[i]);
      } else {
        simd::store_first(at, low[i], 2 * across);
        simd::store_first(at + lanes * N, high[i], 2 * across);
      }
    }
  }
}

// Results of so many bytes go past the caches, where they are whole vectors at whole lines: 2^20 complex128 in rows of
// 16 took 790 to 1000 us through them on Zen 4, whose L3 has 32 MB, and 610 past them.
constexpr Index streamed_bytes = 1 << 24;

// The function for a length, or null.
template <class T>
auto short_transform(Index n, bool streamed) -> void (*)(const T*, T*, Parts<T>, T) {
  if constexpr (sizeof(T) == 8) {  // those whose rows are whole vectors
    if (streamed && n == 8) return transform_short<T, 8, true>;
    if (streamed && n == 16) return transform_short<T, 16, true>;
  }
  switch (n) {
#define FASTDL_SHORT(N) \
  case N:               \
    return transform_short<T, N>
    FASTDL_SHORT(2);
    FASTDL_SHORT(3);
    FASTDL_SHORT(4);
    FASTDL_SHORT(5);
    FASTDL_SHORT(6);
    FASTDL_SHORT(8);
    FASTDL_SHORT(9);
    FASTDL_SHORT(10);
    FASTDL_SHORT(12);
    FASTDL_SHORT(16);
    FASTDL_SHORT(18);
    FASTDL_SHORT(20);
    FASTDL_SHORT(24);
    FASTDL_SHORT(32);
#undef FASTDL_SHORT
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace fastdl::fft
