// Winograd's transforms for 3 x 3 filters: m x m outputs from (m + 2) x (m + 2) inputs with one product a position.
//
// In one dimension, with the polynomial points a_i and infinity, y = A'[(G g) * (B' d)]. The points of m = 4 are 0,
// +-1/sqrt(2) and +-sqrt(2): a third to a half of the error that 0, +-1 and +-2 have (Barabasz et al. 2020), at the
// same cost. In two dimensions each is applied along both axes.
#pragma once

#include "simd/transpose.hpp"

namespace fastdl::conv {
namespace {

template <class T, int M>
struct Winograd;

template <class T>
struct Winograd<T, 4> {
  static constexpr int size = 6;
  using V = simd::Vec<T>;
  static constexpr T p = T(0.70710678118654752440), q = T(1.41421356237309504880);  // p^2 = 1/2, q^2 = 2

  static FASTDL_INLINE void input(const V (&d)[6], V (&to)[6]) {
    const V half = simd::broadcast(T(-0.5)), two = simd::broadcast(T(-2)), both = simd::broadcast(T(-2.5));
    const V even_p = simd::fma(d[2], two, d[4]), odd_p = simd::fma(d[1], two, d[3]) * p;
    const V even_q = simd::fma(d[2], half, d[4]), odd_q = simd::fma(d[1], half, d[3]) * q;
    to[0] = simd::fma(d[2], both, d[0] + d[4]);
    to[1] = even_p + odd_p;
    to[2] = even_p - odd_p;
    to[3] = even_q + odd_q;
    to[4] = even_q - odd_q;
    to[5] = simd::fma(d[3], both, d[1] + d[5]);
  }

  static FASTDL_INLINE void filter(const V (&g)[3], V (&to)[6]) {
    const V at_p = (g[0] + g[2] * T(0.5)) * T(-2.0 / 3), odd_p = g[1] * (p * T(-2.0 / 3));
    const V at_q = (g[0] + g[2] * T(2)) * T(1.0 / 6), odd_q = g[1] * (q * T(1.0 / 6));
    to[0] = g[0];
    to[1] = at_p + odd_p;
    to[2] = at_p - odd_p;
    to[3] = at_q + odd_q;
    to[4] = at_q - odd_q;
    to[5] = g[2];
  }

  // The gradient of the filters is the same algorithm with 3 outputs, the taps, and a filter of 4: the output's
  // gradient.
  static FASTDL_INLINE void gradient(const V (&g)[4], V (&to)[6]) {
    const V half = simd::broadcast(T(0.5)), two = simd::broadcast(T(2));
    const V even_p = simd::fma(g[2], half, g[0]) * T(-2.0 / 3), odd_p = simd::fma(g[3], half, g[1]) * (p * T(-2.0 / 3));
    const V even_q = simd::fma(g[2], two, g[0]) * T(1.0 / 6), odd_q = simd::fma(g[3], two, g[1]) * (q * T(1.0 / 6));
    to[0] = g[0];
    to[1] = even_p + odd_p;
    to[2] = even_p - odd_p;
    to[3] = even_q + odd_q;
    to[4] = even_q - odd_q;
    to[5] = g[3];
  }

  static FASTDL_INLINE void taps(const V (&m)[6], V (&to)[3]) {
    const V sum_p = m[1] + m[2], odd_p = (m[1] - m[2]) * p, sum_q = m[3] + m[4], odd_q = (m[3] - m[4]) * q;
    to[0] = m[0] + (sum_p + sum_q);
    to[1] = odd_p + odd_q;
    to[2] = simd::fma(sum_q, simd::broadcast(T(2)), simd::fma(sum_p, simd::broadcast(T(0.5)), m[5]));
  }

  static FASTDL_INLINE void output(const V (&m)[6], V (&to)[4]) {
    const V sum_p = m[1] + m[2], odd_p = (m[1] - m[2]) * p, sum_q = m[3] + m[4], odd_q = (m[3] - m[4]) * q;
    const V half = simd::broadcast(T(0.5)), two = simd::broadcast(T(2));
    to[0] = m[0] + (sum_p + sum_q);
    to[1] = odd_p + odd_q;
    to[2] = simd::fma(sum_q, two, sum_p * half);
    to[3] = simd::fma(odd_q, two, simd::fma(odd_p, half, m[5]));
  }

  // Vectors of every fourth element from each of the first four, of 4 x lanes.
  static FASTDL_INLINE void split(const T* from, V (&phase)[4]) {
    constexpr int n = simd::lanes<T>;
    const V a = simd::load(from), b = simd::load(from + n), c = simd::load(from + 2 * n), d = simd::load(from + 3 * n);
    const V even_ab = simd::even_lanes<T>(a, b), even_cd = simd::even_lanes<T>(c, d);
    const V odd_ab = simd::odd_lanes<T>(a, b), odd_cd = simd::odd_lanes<T>(c, d);
    phase[0] = simd::even_lanes<T>(even_ab, even_cd);
    phase[1] = simd::even_lanes<T>(odd_ab, odd_cd);
    phase[2] = simd::odd_lanes<T>(even_ab, even_cd);
    phase[3] = simd::odd_lanes<T>(odd_ab, odd_cd);
  }

  // The opposite, in place: vectors of consecutive elements.
  static FASTDL_INLINE void join(V (&phase)[4]) {
    const V low_even = simd::low_by_turns<T>(phase[0], phase[2]),
            high_even = simd::high_by_turns<T>(phase[0], phase[2]);
    const V low_odd = simd::low_by_turns<T>(phase[1], phase[3]), high_odd = simd::high_by_turns<T>(phase[1], phase[3]);
    phase[0] = simd::low_by_turns<T>(low_even, low_odd);
    phase[1] = simd::high_by_turns<T>(low_even, low_odd);
    phase[2] = simd::low_by_turns<T>(high_even, high_odd);
    phase[3] = simd::high_by_turns<T>(high_even, high_odd);
  }
};

// Points 0, 1, -1.
template <class T>
struct Winograd<T, 2> {
  static constexpr int size = 4;
  using V = simd::Vec<T>;

  static FASTDL_INLINE void input(const V (&d)[4], V (&to)[4]) {
    to[0] = d[0] - d[2];
    to[1] = d[2] + d[1];
    to[2] = d[2] - d[1];
    to[3] = d[3] - d[1];
  }

  static FASTDL_INLINE void filter(const V (&g)[3], V (&to)[4]) {
    const V even = (g[0] + g[2]) * T(0.5), odd = g[1] * T(0.5);
    to[0] = g[0];
    to[1] = even + odd;
    to[2] = even - odd;
    to[3] = g[2];
  }

  static FASTDL_INLINE void output(const V (&m)[4], V (&to)[2]) {
    to[0] = m[0] + (m[1] + m[2]);
    to[1] = (m[1] - m[2]) + m[3];
  }

  static FASTDL_INLINE void split(const T* from, V (&phase)[2]) {
    const V a = simd::load(from), b = simd::load(from + simd::lanes<T>);
    phase[0] = simd::even_lanes<T>(a, b);
    phase[1] = simd::odd_lanes<T>(a, b);
  }

  static FASTDL_INLINE void join(V (&phase)[2]) {
    const V low = simd::low_by_turns<T>(phase[0], phase[1]);
    phase[1] = simd::high_by_turns<T>(phase[0], phase[1]);
    phase[0] = low;
  }
};

}  // namespace
}  // namespace fastdl::conv
