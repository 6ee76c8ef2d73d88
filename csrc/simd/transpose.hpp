// Square transposes in registers: lanes x lanes values, log2(lanes) steps of two-operand shuffles.
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

}  // namespace
}  // namespace fastdl::simd
