// Sums over features that are no products of them: the rules of the direct kernels (gemm/combine.hpp).
#pragma once

#include "gemm/combine.hpp"
#include "simd/math.hpp"

namespace fastdl::gram {
namespace {

// sum |a - b|. The sum is taken by a multiply-add with 1, the same to the bit: processors that subtract on other units
// than they multiply on then use both. (Zen 3, a step of a tile: 10.8 cycles half by half, 12.1 with plain additions,
// and 13.1 with the whole tile, one of whose sums found no register.)
struct AbsoluteDifference : gemm::Sum {
  static constexpr bool wants_registers = true;
  template <class V>
  FASTDL_INLINE V step(V sum, V a, V b) const {
#if FASTDL_VECTOR_BYTES > 16
    return simd::fma(simd::abs(a - b), V{} + 1, sum);
#else
    return sum + simd::abs(a - b);
#endif
  }
};

// sum (a - b)^2: twice the operations of a product, but nothing cancels.
struct SquaredDifference : gemm::Sum {
  template <class V>
  FASTDL_INLINE V step(V sum, V a, V b) const {
    const V difference = a - b;
    return simd::fma(difference, difference, sum);
  }
};

// sum (a - b)^2 / (a + b) of values >= 0, with 0/0 = 0. The division is most of its time; reciprocal estimates would
// differ between makers of processors.
struct ChiSquared : gemm::Sum {
  template <class V>
  FASTDL_INLINE V step(V sum, V a, V b) const {
    const V difference = a - b, total = a + b;
    const V divisor = simd::select(total == V{}, total + 1, total);
    return simd::fma(difference, difference / divisor, sum);
  }
};

// product of sin(omega (a - b)) / (pi (a - b)), which is omega/pi where a = b
template <class T>
struct SincProduct {
  static constexpr int start = 1;
  static constexpr bool long_step = true;
  T omega, omega_over_pi, inverse_pi;

  template <class V>
  FASTDL_INLINE V step(V product, V a, V b) const {
    const V difference = a - b;
    const auto same = difference == V{};
    const V ratio = simd::sin(difference * omega) / simd::select(same, difference + 1, difference) * inverse_pi;
    return product * simd::select(same, simd::broadcast(omega_over_pi), ratio);
  }
  template <class V>
  FASTDL_INLINE V merge(V first, V second) const {
    return first * second;
  }
};

}  // namespace
}  // namespace fastdl::gram
