// Shuffles of whole vectors. Square transposes in registers: lanes x lanes values, log2(lanes) steps of two operands.
#pragma once

#include <utility>

#include "simd/vec.hpp"

namespace fastdl::simd {
namespace {

// Exchanges the off-diagonal step x step blocks of a pair of rows: first takes the even blocks of both, second the odd
// ones.
template <class T, int Step, int... Lane>
FASTDL_INLINE void exchange(Vec<T>& first, Vec<T>& second, std::integer_sequence<int, Lane...>) {
  constexpr int n = lanes<T>;
  const Vec<T> a = first, b = second;
  first = __builtin_shufflevector(a, b, ((Lane & Step) == 0 ? Lane : n + Lane - Step)...);
  second = __builtin_shufflevector(a, b, ((Lane & Step) == 0 ? Lane + Step : n + Lane)...);
}

template <class T, int Step = 1>
FASTDL_INLINE void transpose(Vec<T> (&rows)[lanes<T>]) {
  if constexpr (Step < lanes<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes<T>; ++i)
      if ((i & Step) == 0) exchange<T, Step>(rows[i], rows[i + Step], std::make_integer_sequence<int, lanes<T>>{});
    transpose<T, 2 * Step>(rows);
  }
}

// Lane i of the result is the sum of the lanes of vector i.
template <class T, int Step = 1>
FASTDL_INLINE Vec<T> totals(Vec<T> (&vectors)[lanes<T>]) {
  if constexpr (Step < lanes<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes<T>; i += 2 * Step) {
      exchange<T, Step>(vectors[i], vectors[i + Step], std::make_integer_sequence<int, lanes<T>>{});
      vectors[i] += vectors[i + Step];
    }
    return totals<T, 2 * Step>(vectors);
  } else {
    return vectors[0];
  }
}

// Every second lane of a, then of b: the even ones, or the odd ones.
template <class T, int First, int... Lane>
FASTDL_INLINE Vec<T> every_second(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, (2 * Lane + First)...);
}
template <class T>
FASTDL_INLINE Vec<T> even_lanes(Vec<T> a, Vec<T> b) {
  return every_second<T, 0>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}
template <class T>
FASTDL_INLINE Vec<T> odd_lanes(Vec<T> a, Vec<T> b) {
  return every_second<T, 1>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}

// Lanes 1, 2, ... of a, and the first of b.
template <class T, int... Lane>
FASTDL_INLINE Vec<T> next_lanes(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, (Lane + 1)...);
}
template <class T>
FASTDL_INLINE Vec<T> next_lanes(Vec<T> a, Vec<T> b) {
  return next_lanes<T>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}

// The lanes of a and b by turns: their first halves, or their second halves.
template <class T, int First, int... Lane>
FASTDL_INLINE Vec<T> by_turns(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, (First + Lane / 2 + (Lane % 2) * lanes<T>)...);
}
template <class T>
FASTDL_INLINE Vec<T> low_by_turns(Vec<T> a, Vec<T> b) {
  return by_turns<T, 0>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}
template <class T>
FASTDL_INLINE Vec<T> high_by_turns(Vec<T> a, Vec<T> b) {
  return by_turns<T, lanes<T> / 2>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}

// Six rows by turns: element p of row r goes to 6 p + r, of six vectors. Vector `Number` of them.
template <class T, int Number, int... Lane>
FASTDL_INLINE Vec<T> six_by_turns(const Vec<T> (&rows)[6], std::integer_sequence<int, Lane...>) {
  constexpr int n = lanes<T>;
  constexpr auto row = [](int lane) { return (Number * n + lane) % 6; };
  constexpr auto from = [](int lane) { return (Number * n + lane) / 6 + (Number * n + lane) % 2 * n; };
  // From each pair of rows what it gives; then the three together.
  const Vec<T> a = __builtin_shufflevector(rows[0], rows[1], (row(Lane) / 2 == 0 ? from(Lane) : Lane)...);
  const Vec<T> b = __builtin_shufflevector(rows[2], rows[3], (row(Lane) / 2 == 1 ? from(Lane) : Lane)...);
  const Vec<T> c = __builtin_shufflevector(rows[4], rows[5], (row(Lane) / 2 == 2 ? from(Lane) : Lane)...);
  const Vec<T> ab = __builtin_shufflevector(a, b, (row(Lane) / 2 == 1 ? n + Lane : Lane)...);
  return __builtin_shufflevector(ab, c, (row(Lane) / 2 == 2 ? n + Lane : Lane)...);
}
template <class T, int... Number>
FASTDL_INLINE void six_by_turns(const Vec<T> (&rows)[6], T* to, std::integer_sequence<int, Number...>) {
  (store(to + Number * lanes<T>, six_by_turns<T, Number>(rows, std::make_integer_sequence<int, lanes<T>>{})), ...);
}

}  // namespace
}  // namespace fastdl::simd
