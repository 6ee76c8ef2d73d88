#pragma once

#include <cstdint>

#include "simd/vec.hpp"

namespace fastdl::simd {
namespace {

template <class V>
struct MathTraits;

template <>
struct MathTraits<f32v> {
  using Scalar = float;
  using Integer = std::int32_t;
  typedef std::uint32_t Unsigned __attribute__((vector_size(vector_bytes)));
  static constexpr int mantissa_bits = 23;
  static constexpr Integer sign_bit = INT32_MIN;
  static constexpr Integer exponent_mask = 0x7f800000;
  static constexpr int exponent_bias = 127;

  static constexpr float round_to_integer = 0x1.8p23f;
  static constexpr float log2_e = 0x1.715476p+0f;
  static constexpr float ln2_high = 0x1.62e4p-1f;
  static constexpr float ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float exp_overflows = 89.0f;
  static constexpr float exp_vanishes = -104.0f;
  static constexpr int rescue_exponent = 64;
  static constexpr float rescue_factor = 0x1p-64f;
  static constexpr float expm1_polynomial[] = {0x1.fffffep-2f, 0x1.5554b4p-3f, 0x1.5556f6p-5f, 0x1.122536p-7f,
                                               0x1.6b97b2p-10f};
  static constexpr float tanh_is_one = 10.0f;

  static constexpr float half_pi_high = 0x1.921fb6p+0f;
  static constexpr float half_pi_low = -0x1.777a5cp-25f;
  static constexpr float atan_polynomial[] = {-0x1.55553ep-2f, 0x1.9991e4p-3f,  -0x1.2420aap-3f,
                                              0x1.c09340p-4f,  -0x1.58358ep-4f, 0x1.db2062p-5f,
                                              -0x1.001308p-5f, 0x1.67bfaap-7f,  -0x1.db09b4p-10f};
};

template <>
struct MathTraits<f64v> {
  using Scalar = double;
  using Integer = std::int64_t;
  typedef std::uint64_t Unsigned __attribute__((vector_size(vector_bytes)));
  static constexpr int mantissa_bits = 52;
  static constexpr Integer sign_bit = INT64_MIN;
  static constexpr Integer exponent_mask = 0x7ff0000000000000;
  static constexpr int exponent_bias = 1023;

  static constexpr double round_to_integer = 0x1.8p52;
  static constexpr double log2_e = 0x1.71547652b82fep+0;
  static constexpr double ln2_high = 0x1.62e42fefa4p-1;
  static constexpr double ln2_low = -0x1.8432a1b0e2634p-43;
  static constexpr double exp_overflows = 710.0;
  static constexpr double exp_vanishes = -746.0;
  static constexpr int rescue_exponent = 512;
  static constexpr double rescue_factor = 0x1p-512;
  static constexpr double expm1_polynomial[] = {
      0x1.0000000000005p-1,  0x1.5555555555542p-3,  0x1.555555555211fp-5,  0x1.1111111116d3fp-7,
      0x1.6c16c17f28c6cp-10, 0x1.a01a0180c7114p-13, 0x1.a019a6b6025a8p-16, 0x1.71de6dd8d2329p-19,
      0x1.28a27a382edb9p-22, 0x1.ae951f60b6661p-26};
  static constexpr double tanh_is_one = 20.0;

  static constexpr double half_pi_high = 0x1.921fb54442d18p+0;
  static constexpr double half_pi_low = 0x1.1a62633145c07p-54;
  static constexpr double atan_polynomial[] = {-0x1.5555555555526p-2, 0x1.9999999995597p-3, -0x1.249249237eb8ep-3, 0x1.c71c717fa5b0cp-4, -0x1.745d11ab78f00p-4, 0x1.3b136677abcb2p-4, -0x1.110e5014f54c6p-4, 0x1.e1bb9a1f0e9f1p-5, -0x1.ae5e3dedbaf22p-5, 0x1.82da2a6a05408p-5, -0x1.59a247ce75169p-5, 0x1.2c2af87ab4e23p-5, -0x1.e9ef97dfadd10p-6, 0x1.68304206f2d59p-6, -0x1.c778bcfce2eb7p-7, 0x1.d7992c937885bp-8, -0x1.7a194df5a142cp-9, 0x1.b3cdf65ff2392p-11, -0x1.3f10146c2abc2p-13, 0x1.bbb148b8ee0b7p-17};
};

template <class V>
using ScalarOf = typename MathTraits<V>::Scalar;
template <class V>
using IntegersOf = IntVec<ScalarOf<V>>;

// min(x, bound) and max(x, bound), where a NaN in x comes through. Written out, because GCC 12 turns the selection into
// a compare and a blend, which on the x86 baseline is four operations instead of one (f32 exp there: 1.7 against 1.3 ns).
// The x86 instructions return their second operand if either is a NaN; NEON's return the NaN.
template <class V>
FASTDL_INLINE V at_most(V x, ScalarOf<V> bound) {
  const V limit = broadcast<ScalarOf<V>>(bound);
#if defined(FASTDL_NATIVE_AVX512)
  if constexpr (sizeof(bound) == 4)
    return (V)_mm512_maskz_min_ps(static_cast<__mmask16>(-1), (__m512)limit, (__m512)x);
  else
    return (V)_mm512_maskz_min_pd(static_cast<__mmask8>(-1), (__m512d)limit, (__m512d)x);
#elif defined(FASTDL_NATIVE_AVX2)
  if constexpr (sizeof(bound) == 4)
    return (V)_mm256_min_ps((__m256)limit, (__m256)x);
  else
    return (V)_mm256_min_pd((__m256d)limit, (__m256d)x);
#elif defined(FASTDL_NATIVE_NEON)
  if constexpr (sizeof(bound) == 4)
    return (V)vminq_f32((float32x4_t)limit, (float32x4_t)x);
  else
    return (V)vminq_f64((float64x2_t)limit, (float64x2_t)x);
#elif defined(FASTDL_NATIVE_SSE2)
  if constexpr (sizeof(bound) == 4)
    return (V)_mm_min_ps((__m128)limit, (__m128)x);
  else
    return (V)_mm_min_pd((__m128d)limit, (__m128d)x);
#else
  return select(limit < x, limit, x);
#endif
}

template <class V>
FASTDL_INLINE V at_least(V x, ScalarOf<V> bound) {
  const V limit = broadcast<ScalarOf<V>>(bound);
#if defined(FASTDL_NATIVE_AVX512)
  if constexpr (sizeof(bound) == 4)
    return (V)_mm512_maskz_max_ps(static_cast<__mmask16>(-1), (__m512)limit, (__m512)x);
  else
    return (V)_mm512_maskz_max_pd(static_cast<__mmask8>(-1), (__m512d)limit, (__m512d)x);
#elif defined(FASTDL_NATIVE_AVX2)
  if constexpr (sizeof(bound) == 4)
    return (V)_mm256_max_ps((__m256)limit, (__m256)x);
  else
    return (V)_mm256_max_pd((__m256d)limit, (__m256d)x);
#elif defined(FASTDL_NATIVE_NEON)
  if constexpr (sizeof(bound) == 4)
    return (V)vmaxq_f32((float32x4_t)limit, (float32x4_t)x);
  else
    return (V)vmaxq_f64((float64x2_t)limit, (float64x2_t)x);
#elif defined(FASTDL_NATIVE_SSE2)
  if constexpr (sizeof(bound) == 4)
    return (V)_mm_max_ps((__m128)limit, (__m128)x);
  else
    return (V)_mm_max_pd((__m128d)limit, (__m128d)x);
#else
  return select(limit > x, limit, x);
#endif
}

template <class V>
FASTDL_INLINE IntegersOf<V> sign_of(V x) {
  return (IntegersOf<V>)x & broadcast_integer<ScalarOf<V>>(MathTraits<V>::sign_bit);
}

// Estrin's scheme: powers[i] is x^(2^i).
template <int first, int count, class V>
FASTDL_INLINE V estrin(const V (&powers)[5], const ScalarOf<V>* coefficients) {
  if constexpr (count == 1) {
    return broadcast<ScalarOf<V>>(coefficients[first]);
  } else {
    constexpr int level = count > 16 ? 4 : count > 8 ? 3 : count > 4 ? 2 : count > 2 ? 1 : 0;
    constexpr int half = 1 << level;
    return fma(estrin<first + half, count - half>(powers, coefficients), powers[level],
               estrin<first, half>(powers, coefficients));
  }
}

template <class V, int count>
FASTDL_INLINE V polynomial(V x, const ScalarOf<V> (&coefficients)[count]) {
  static_assert(count <= 32);
#ifdef USE_HORNER
  V r = broadcast<ScalarOf<V>>(coefficients[count - 1]);
  for (int i = count - 2; i >= 0; --i) r = fma(r, x, broadcast<ScalarOf<V>>(coefficients[i]));
  return r;
#elif defined(USE_FOUR)
  auto chain = [&](int start, V y) __attribute__((always_inline)) {
    int last = start + (count - 1 - start) / 4 * 4;
    V a = broadcast<ScalarOf<V>>(coefficients[last]);
    for (int i = last - 4; i >= 0; i -= 4) a = fma(a, y, broadcast<ScalarOf<V>>(coefficients[i]));
    return a;
  };
  V y = x * x, y2 = y * y;
  return fma(fma(chain(3, y2), x, chain(2, y2)), y, fma(chain(1, y2), x, chain(0, y2)));
#elif defined(USE_EVENODD)
  V y = x * x;
  V a = broadcast<ScalarOf<V>>(coefficients[count - 1]);
  V b = broadcast<ScalarOf<V>>(coefficients[count - 2]);
  for (int i = count - 3; i >= 0; i -= 2) a = fma(a, y, broadcast<ScalarOf<V>>(coefficients[i]));
  for (int i = count - 4; i >= 0; i -= 2) b = fma(b, y, broadcast<ScalarOf<V>>(coefficients[i]));
  return (count & 1) ? fma(b, x, a) : fma(a, x, b);
#else
  const V x2 = x * x;
  const V x4 = x2 * x2;
  const V x8 = x4 * x4;
  const V powers[5] = {x, x2, x4, x8, x8 * x8};
  return estrin<0, count>(powers, coefficients);
#endif
}

template <class V>
struct ReducedExponential {
  V expm1;               // e^r - 1
  IntegersOf<V> biased;  // the low bits are n + bias
};

// x = n ln 2 + r, |r| <= ln(2)/2.
template <class V>
FASTDL_INLINE ReducedExponential<V> reduce_exponential(V x, int bias) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  const V round = broadcast<T>(Constants::round_to_integer + static_cast<T>(bias));
  const V shifted = fma(x, broadcast<T>(Constants::log2_e), round);
  const V n = shifted - round;
  V r = fma(n, broadcast<T>(-Constants::ln2_high), x);
  r = fma(n, broadcast<T>(-Constants::ln2_low), r);
  return {fma(r * r, polynomial(r, Constants::expm1_polynomial), r), (IntegersOf<V>)shifted};
}

template <class V>
FASTDL_INLINE V exp(V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  x = at_least(at_most(x, Constants::exp_overflows), Constants::exp_vanishes);
  const ReducedExponential<V> e = reduce_exponential(x, 2 * Constants::exponent_bias);
  const IntegersOf<V> first =
      (e.biased << (Constants::mantissa_bits - 1)) & broadcast_integer<T>(Constants::exponent_mask);
  const IntegersOf<V> second = (e.biased << Constants::mantissa_bits) - first;
  return (e.expm1 + broadcast<T>(1)) * (V)first * (V)second;
}

template <class V>
FASTDL_INLINE V tanh(V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  const V magnitude = at_most(abs(x), Constants::tanh_is_one);
  const ReducedExponential<V> e = reduce_exponential(magnitude + magnitude, Constants::exponent_bias);
  const V scale = (V)(e.biased << Constants::mantissa_bits);
  const V expm1 = fma(scale, e.expm1, scale - broadcast<T>(1));
  const V result = expm1 / (expm1 + broadcast<T>(2));
  return (V)((IntegersOf<V>)result | sign_of(x));
}

template <class V>
FASTDL_INLINE V sigmoid(V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  const V one = broadcast<T>(1);
  const V negative = at_least((V)((IntegersOf<V>)x | broadcast_integer<T>(Constants::sign_bit)), Constants::exp_vanishes);
  const ReducedExponential<V> e = reduce_exponential(negative, Constants::rescue_exponent);
  const V scaled = (V)((IntegersOf<V>)(e.expm1 + one) + (e.biased << Constants::mantissa_bits));
  const V exponential = scaled * broadcast<T>(Constants::rescue_factor);
  return select(x < V{}, exponential, one) / (exponential + one);
}

template <class V>
FASTDL_INLINE V atan2(V y, V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  using I = IntegersOf<V>;
  const V one = broadcast<T>(1);
  const V height = abs(y);
  const V width = abs(x);
  const auto steep = height > width;
  const V larger = select(steep, height, width);
  const V smaller = select(steep, width, height);
  const V divisor = select(larger == V{}, one, larger);
  const V ratio = select(smaller == divisor, one, smaller / divisor);
  const V square = ratio * ratio;
  const V angle = fma(ratio * square, polynomial(square, Constants::atan_polynomial), ratio);

  const I behind = sign_of(x);
  const I flipped = (steep & broadcast_integer<T>(Constants::sign_bit)) ^ behind;
  const V quarter_turns = select(steep, one, (V)((typename Constants::Unsigned)behind >> 1));
  V result = fma(quarter_turns, broadcast<T>(Constants::half_pi_low), (V)((I)angle ^ flipped));
  result = fma(quarter_turns, broadcast<T>(Constants::half_pi_high), result);
  return (V)((I)result | sign_of(y));
}

template <class V>
FASTDL_INLINE V rsqrt(V x) {
  return broadcast<ScalarOf<V>>(1) / sqrt(x);
}

}  // namespace
}  // namespace fastdl::simd
