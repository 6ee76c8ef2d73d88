// How one value of A and one of B enter a sum over k. The engine is a matrix product with MultiplyAdd; with another
// rule the same tiles compute sums (or products) over k of any f(a, b).
#pragma once

#include "simd/vec.hpp"

namespace fastdl::gemm {
namespace {

// A rule has `start`, the value of an empty sum; `step`, which takes one k; `merge`, which joins two stretches of k;
// `long_step`, true if a step is many operations; and `wants_registers`, true if it needs so many registers that of 16
// not enough are left for the sums of a whole tile, which are then taken half by half.
struct Sum {
  static constexpr int start = 0;
  static constexpr bool long_step = false, wants_registers = false;
  template <class V>
  FASTDL_INLINE V merge(V first, V second) const {
    return first + second;
  }
};

struct MultiplyAdd : Sum {
  template <class V>
  FASTDL_INLINE V step(V sum, V a, V b) const {
    return simd::fma(a, b, sum);
  }
};

}  // namespace
}  // namespace fastdl::gemm
