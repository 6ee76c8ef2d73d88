// Shuffles of whole vectors, among them square transposes in registers.
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

// Lanes of a and b by an index known to the compiler: Pick::lane(l) for lane l, those of b counted after those of a.
template <class T, class Pick, int... Lane>
FASTDL_INLINE Vec<T> picked_lanes(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, Pick::lane(Lane)...);
}
template <class T, class Pick>
FASTDL_INLINE Vec<T> picked_lanes(Vec<T> a, Vec<T> b) {
  return picked_lanes<T, Pick>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}

// In every 16 bytes: pieces of `Size` lanes of a and b by turns, from the first half of the 16 bytes or from the
// second.
template <class T, int Size, bool Second>
struct InSixteen {
  static constexpr int lane(int l) {
    constexpr int all = 16 / int(sizeof(T));
    const int place = l % all, piece = place / Size;
    return l - place + (Second ? all / 2 : 0) + piece / 2 * Size + place % Size + (piece % 2) * lanes<T>;
  }
};

// Of 16 bytes at a time: two from a and then two from b, `First` and the one `Step` further on; or, of vectors of 32
// bytes, one from each.
template <class T, int First, int Step>
struct OfSixteens {
  static constexpr int lane(int l) {
    constexpr int all = 16 / int(sizeof(T)), half = lanes<T> / all / 2;
    const int place = l / all;
    return (First + place % half * Step) * all + l % all + (place / half) * lanes<T>;
  }
};

// Square transposes of 16 bytes within them, and then of the sixteens. Each of these shuffles is one instruction
// without a table of indices; with the lanes exchanged in blocks of 1, 2, 4 and 8, GCC took one from memory for each,
// and the transposes of a long transform a third more time.
template <class T>
FASTDL_INLINE void transpose(Vec<T> (&rows)[lanes<T>]) {
  constexpr int all = 16 / int(sizeof(T)), sixteens = lanes<T> / all;
#pragma GCC unroll 8
  for (int g = 0; g < lanes<T>; g += all) {
    if constexpr (all == 4) {
      const Vec<T> a = picked_lanes<T, InSixteen<T, 1, false>>(rows[g], rows[g + 1]);
      const Vec<T> b = picked_lanes<T, InSixteen<T, 1, true>>(rows[g], rows[g + 1]);
      const Vec<T> c = picked_lanes<T, InSixteen<T, 1, false>>(rows[g + 2], rows[g + 3]);
      const Vec<T> d = picked_lanes<T, InSixteen<T, 1, true>>(rows[g + 2], rows[g + 3]);
      rows[g] = picked_lanes<T, InSixteen<T, 2, false>>(a, c);
      rows[g + 1] = picked_lanes<T, InSixteen<T, 2, true>>(a, c);
      rows[g + 2] = picked_lanes<T, InSixteen<T, 2, false>>(b, d);
      rows[g + 3] = picked_lanes<T, InSixteen<T, 2, true>>(b, d);
    } else {
      const Vec<T> a = rows[g], b = rows[g + 1];
      rows[g] = picked_lanes<T, InSixteen<T, 1, false>>(a, b);
      rows[g + 1] = picked_lanes<T, InSixteen<T, 1, true>>(a, b);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < all; ++c) {
    if constexpr (sixteens == 4) {
      const Vec<T> low1 = picked_lanes<T, OfSixteens<T, 0, 1>>(rows[c], rows[all + c]);
      const Vec<T> high1 = picked_lanes<T, OfSixteens<T, 2, 1>>(rows[c], rows[all + c]);
      const Vec<T> low2 = picked_lanes<T, OfSixteens<T, 0, 1>>(rows[2 * all + c], rows[3 * all + c]);
      const Vec<T> high2 = picked_lanes<T, OfSixteens<T, 2, 1>>(rows[2 * all + c], rows[3 * all + c]);
      rows[c] = picked_lanes<T, OfSixteens<T, 0, 2>>(low1, low2);
      rows[all + c] = picked_lanes<T, OfSixteens<T, 1, 2>>(low1, low2);
      rows[2 * all + c] = picked_lanes<T, OfSixteens<T, 0, 2>>(high1, high2);
      rows[3 * all + c] = picked_lanes<T, OfSixteens<T, 1, 2>>(high1, high2);
    } else if constexpr (sixteens == 2) {
      const Vec<T> a = rows[c], b = rows[all + c];
      rows[c] = picked_lanes<T, OfSixteens<T, 0, 1>>(a, b);
      rows[all + c] = picked_lanes<T, OfSixteens<T, 1, 1>>(a, b);
    }
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

// The last lane of a, and those of b but the last.
template <class T, int... Lane>
FASTDL_INLINE Vec<T> lanes_before(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, (Lane + lanes<T> - 1)...);
}
template <class T>
FASTDL_INLINE Vec<T> lanes_before(Vec<T> a, Vec<T> b) {
  return lanes_before<T>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}

// The first halves of a and b side by side; the second half of a, with zeros behind it.
template <class T, int... Lane>
FASTDL_INLINE Vec<T> first_halves(Vec<T> a, Vec<T> b, std::integer_sequence<int, Lane...>) {
  constexpr int half = lanes<T> / 2;
  return __builtin_shufflevector(a, b, (Lane < half ? Lane : Lane + half)...);
}
template <class T>
FASTDL_INLINE Vec<T> first_halves(Vec<T> a, Vec<T> b) {
  return first_halves<T>(a, b, std::make_integer_sequence<int, lanes<T>>{});
}
template <class T, int... Lane>
FASTDL_INLINE Vec<T> second_half(Vec<T> a, std::integer_sequence<int, Lane...>) {
  constexpr int half = lanes<T> / 2;
  return __builtin_shufflevector(a, Vec<T>{}, (Lane + half)...);
}
template <class T>
FASTDL_INLINE Vec<T> second_half(Vec<T> a) {
  return second_half<T>(a, std::make_integer_sequence<int, lanes<T>>{});
}

// Half of the lanes, from First on, to memory. Not of vectors of 16 bytes: for those of 8, GCC 12 uses the registers of
// MMX, which leaves those of the x87 in a state in which every long double is NaN.
template <class T, int First, int... Lane>
FASTDL_INLINE void store_half(T* to, Vec<T> v, std::integer_sequence<int, Lane...>) {
  static_assert(sizeof(Vec<T>) > 16);
  const auto half = __builtin_shufflevector(v, v, (First + Lane)...);
  std::memcpy(to, &half, sizeof half);
}
template <class T, int First>
FASTDL_INLINE void store_half(T* to, Vec<T> v) {
  store_half<T, First>(to, v, std::make_integer_sequence<int, lanes<T> / 2>{});
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
