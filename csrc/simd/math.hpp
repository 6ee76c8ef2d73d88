// exp, tanh, sigmoid, sin, atan2 and 1/sqrt for f32v and f64v: over the whole range, edges as in C. Branch-free, but
// for sin of arguments so large that they are left to the C library.
//
// Worst error in ulp at the baseline and AVX2, from tests/cpp/test_math.cpp: f32 exp over every input, tanh, sigmoid,
// rsqrt and sin over every input where they bend; elsewhere, and all f64 and atan2, sampled. NEON, sampled under
// emulation, stays within the same numbers; AVX-512, sampled, has AVX2's to the digit. Time in ns per element on one
// core of a Zen 3 at 3.2 GHz, and for AVX-512 of an Emerald Rapids at 2.8 GHz, GCC 12, arrays of 1024 elements in
// cache, inputs of a size of about 3.
//
//            ulp           ns f32                    ns f64
//            f32   f64     baseline  avx2  avx512    baseline  avx2  avx512
//   exp      1.1   1.0     1.06      0.38  0.21      3.2       1.1   0.63
//   tanh     2.6   2.5     1.43      0.51  0.35      4.0       1.4   0.93
//   sigmoid  2.4   2.2     1.43      0.51  0.35      4.0       1.5   0.96
//   sin      2.5   2.4     1.13      0.42  0.25      2.7       1.0   0.60    libm beyond 12867 (f32), 823549 (f64)
//   atan2    1.6   1.8     2.4       0.77  0.51      6.5       2.2   1.5
//   rsqrt    1.5   1.5     0.66      0.33  0.46      2.1       1.0   1.6
//
// Polynomials are minimax fits of the relative error of the function itself, made for this file in 200 to 300 bits.
// Coefficients were rounded to the type one at a time, lowest first, and the remaining ones fitted anew after each,
// which leaves the error within 0.4 bit of the unrounded optimum.
//
// No step relies on fma being fused: constants that meet an integer multiplier carry enough trailing zero bits for the
// product to be exact, so the levels differ in speed and in the last bit, not in quality. Default rounding is assumed.
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
  typedef std::uint32_t Unsigned __attribute__((vector_size(vector_bytes)));
  static constexpr std::int32_t sign_bit = INT32_MIN;
  static constexpr std::int32_t exponent_mask = 0x7f800000;
  static constexpr int mantissa_bits = 23;
  static constexpr int exponent_bias = 127;

  static constexpr float round_to_integer = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  static constexpr float log2_e = 0x1.715476p+0f;
  static constexpr float ln2_high = 0x1.62e4p-1f;  // 15 bits: exact times any n of 9 bits
  static constexpr float ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float exp_overflows = 89.0f;
  static constexpr float exp_vanishes = -104.0f;
  static constexpr int lift = 64;  // moves 2^-150, half the smallest denormal, well into the normal numbers
  static constexpr float unlift = 0x1p-64f;
  static constexpr float tanh_is_one = 10.0f;
  // (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; relative error of e^r - 1 is 2^-26.1
  static constexpr float expm1_polynomial[] = {0x1.fffffep-2f, 0x1.5554b4p-3f, 0x1.5556f6p-5f, 0x1.122536p-7f,
                                               0x1.6b97b2p-10f};

  static constexpr float half_pi_high = 0x1.921fb6p+0f;
  static constexpr float half_pi_low = -0x1.777a5cp-25f;
  // (atan(q)/q - 1) / q^2 in q^2, for 0 <= q <= 1; relative error of atan(q) is 2^-28.2
  static constexpr float atan_polynomial[] = {-0x1.55553ep-2f, 0x1.9991e4p-3f,  -0x1.2420aap-3f,
                                              0x1.c09340p-4f,  -0x1.58358ep-4f, 0x1.db2062p-5f,
                                              -0x1.001308p-5f, 0x1.67bfaap-7f,  -0x1.db09b4p-10f};

  static constexpr float inverse_pi = 0x1.45f306p-2f;
  // All but the last have 12 bits: exact times any n up to 2^12. n*pi is then wrong by at most 2^-32 of its distance
  // from the nearest number of the type, for every such n.
  static constexpr float pi_parts[] = {0x1.922p+1f, -0x1.2aep-17f, -0x1.deap-30f, 0x1.184698p-43f};
  static constexpr float sin_reduces = 12867.0f;  // 2^12 pi
  // (sin(r)/r - 1) / r^2 in r^2, for |r| <= 1.001 pi/2; relative error of sin(r) is 2^-27.2
  static constexpr float sin_polynomial[] = {-0x1.55554cp-3f, 0x1.110edap-7f, -0x1.9f70e2p-13f, 0x1.5dc754p-19f};
};

template <>
struct MathTraits<f64v> {
  using Scalar = double;
  typedef std::uint64_t Unsigned __attribute__((vector_size(vector_bytes)));
  static constexpr std::int64_t sign_bit = INT64_MIN;
  static constexpr std::int64_t exponent_mask = 0x7ff0000000000000;
  static constexpr int mantissa_bits = 52;
  static constexpr int exponent_bias = 1023;

  static constexpr double round_to_integer = 0x1.8p52;
  static constexpr double log2_e = 0x1.71547652b82fep+0;
  static constexpr double ln2_high = 0x1.62e42fefa4p-1;  // 41 bits: exact times any n of 12 bits
  static constexpr double ln2_low = -0x1.8432a1b0e2634p-43;
  static constexpr double exp_overflows = 710.0;
  static constexpr double exp_vanishes = -746.0;
  static constexpr int lift = 512;
  static constexpr double unlift = 0x1p-512;
  static constexpr double tanh_is_one = 20.0;
  // relative error of e^r - 1 is 2^-55.5
  static constexpr double expm1_polynomial[] = {0x1.0000000000005p-1,  0x1.5555555555542p-3,  0x1.555555555211fp-5,
                                                0x1.1111111116d3fp-7,  0x1.6c16c17f28c6cp-10, 0x1.a01a0180c7114p-13,
                                                0x1.a019a6b6025a8p-16, 0x1.71de6dd8d2329p-19, 0x1.28a27a382edb9p-22,
                                                0x1.ae951f60b6661p-26};

  static constexpr double half_pi_high = 0x1.921fb54442d18p+0;
  static constexpr double half_pi_low = 0x1.1a62633145c07p-54;
  // relative error of atan(q) is 2^-57.6
  static constexpr double atan_polynomial[] = {
      -0x1.5555555555526p-2, 0x1.9999999995597p-3,  -0x1.249249237eb8ep-3,  0x1.c71c717fa5b0cp-4,
      -0x1.745d11ab78f00p-4, 0x1.3b136677abcb2p-4,  -0x1.110e5014f54c6p-4,  0x1.e1bb9a1f0e9f1p-5,
      -0x1.ae5e3dedbaf22p-5, 0x1.82da2a6a05408p-5,  -0x1.59a247ce75169p-5,  0x1.2c2af87ab4e23p-5,
      -0x1.e9ef97dfadd10p-6, 0x1.68304206f2d59p-6,  -0x1.c778bcfce2eb7p-7,  0x1.d7992c937885bp-8,
      -0x1.7a194df5a142cp-9, 0x1.b3cdf65ff2392p-11, -0x1.3f10146c2abc2p-13, 0x1.bbb148b8ee0b7p-17};

  static constexpr double inverse_pi = 0x1.45f306dc9c883p-2;
  // Two of 35 bits, exact times any n up to 2^18; n*pi is then wrong by at most 2^-56 of that distance.
  static constexpr double pi_parts[] = {0x1.921fb5444p+1, 0x1.68c234c4cp-38, 0x1.98a2e03707345p-76};
  static constexpr double sin_reduces = 823549.0;  // 2^18 pi
  // relative error of sin(r) is 2^-61.5
  static constexpr double sin_polynomial[] = {-0x1.5555555555555p-3,  0x1.11111111110c8p-7,   -0x1.a01a01a014d6fp-13,
                                              0x1.71de3a52a0b9ap-19,  -0x1.ae6454d47fe00p-26, 0x1.6123cd0c9107bp-33,
                                              -0x1.ae438672eb06bp-41, 0x1.8832eca13c2b3p-49};
};

template <class V>
using ScalarOf = typename MathTraits<V>::Scalar;
template <class V>
using IntegersOf = IntVec<ScalarOf<V>>;
template <class V>
using UnsignedOf = typename MathTraits<V>::Unsigned;  // where a shift must be logical or a sum may wrap

// ---- pieces ------------------------------------------------------------------------------------------------------

// min(x, bound) and max(x, bound), where a NaN in x comes through: the x86 instructions return their second operand if
// either is a NaN, NEON's return the NaN. Not a selection, because GCC 12 keeps that as compare and blend, which is
// four operations at the x86 baseline (f32 exp there: 1.7 against 1.1 ns). The masked forms are plain vminps and
// vmaxps; the unmasked intrinsics of GCC 12 read an uninitialized value and warn.
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

// Estrin's scheme, powers[i] = x^(2^i). Against Horner: 2.2 and 3.8 ns for f64 atan2 on AVX2, 6.5 and 12.6 at the
// baseline, no difference for the short polynomials of f32. Two or four interleaved Horner chains gain up to 9% on
// AVX2 for f64 exp and tanh, and lose as much elsewhere.
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
  const V x2 = x * x;
  const V x4 = x2 * x2;
  const V x8 = x4 * x4;
  const V powers[5] = {x, x2, x4, x8, x8 * x8};
  return estrin<0, count>(powers, coefficients);
}

template <class V>
struct ReducedExponential {
  V expm1;               // e^r - 1, with full relative accuracy
  V n;                   // of the type itself
  UnsignedOf<V> biased;  // n + bias in the low bits, so that a shift by mantissa_bits makes it an exponent
};

// e^x = 2^n e^r, |r| <= ln(2)/2. A NaN comes out as expm1; n is then meaningless, hence no caller may do integer
// arithmetic on the bits of expm1 (adding to a NaN's exponent can make it a number).
template <class V>
FASTDL_INLINE ReducedExponential<V> reduce_exponential(V x, int bias) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  const V round = broadcast<T>(Constants::round_to_integer + static_cast<T>(bias));
  const V shifted = fma(x, broadcast<T>(Constants::log2_e), round);
  const V n = shifted - round;
  V r = fma(n, broadcast<T>(-Constants::ln2_high), x);
  r = fma(n, broadcast<T>(-Constants::ln2_low), r);
  return {fma(r * r, polynomial(r, Constants::expm1_polynomial), r), n, (UnsignedOf<V>)shifted};
}

// ---- functions ---------------------------------------------------------------------------------------------------

// The bounds lie just outside the finite range, so that overflow and underflow come from the last multiplication, and
// denormal results are rounded once. n spans more than the exponent field, so 2^n goes in as two factors of about
// 2^(n/2); their exponents n + 2*bias split into halves without a carry into the sign.
template <class V>
FASTDL_INLINE V exp(V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  x = at_least(at_most(x, Constants::exp_overflows), Constants::exp_vanishes);
  const ReducedExponential<V> e = reduce_exponential(x, 2 * Constants::exponent_bias);
  const V significand = e.expm1 + broadcast<T>(1);
#if defined(FASTDL_NATIVE_AVX512)
  // AVX-512 has the product with 2^n, of any n and rounded once, as an instruction: the same bits in 0.21 ns, not 0.27.
  if constexpr (sizeof(T) == 4)
    return (V)_mm512_maskz_scalef_ps(static_cast<__mmask16>(-1), (__m512)significand, (__m512)e.n);
  else
    return (V)_mm512_maskz_scalef_pd(static_cast<__mmask8>(-1), (__m512d)significand, (__m512d)e.n);
#else
  const UnsignedOf<V> exponents = (UnsignedOf<V>)broadcast_integer<T>(Constants::exponent_mask);
  const UnsignedOf<V> first = (e.biased << (Constants::mantissa_bits - 1)) & exponents;
  const UnsignedOf<V> second = (e.biased << Constants::mantissa_bits) - first;
  return significand * (V)first * (V)second;
#endif
}

// (e^2|x| - 1) / (e^2|x| + 1), from expm1 throughout: relative accuracy at small x without a second branch, and x
// itself where x^2 vanishes. With h = expm1/2, h - h^2/(1 + h) below h = 1 and 1 - 1/(1 + h) above is 0.3 ulp better,
// but takes 14 to 24% longer.
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

// 1 / (1 + e^-x) for x >= 0, e^x / (1 + e^x) below: e^-|x| never overflows, and the left tail keeps its relative
// accuracy down to the denormals. n <= 0 here, so one constant factor serves to round into the denormals.
template <class V>
FASTDL_INLINE V sigmoid(V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  const V one = broadcast<T>(1);
  const V negative = (V)((IntegersOf<V>)x | broadcast_integer<T>(Constants::sign_bit));
  const ReducedExponential<V> e =
      reduce_exponential(at_least(negative, Constants::exp_vanishes), Constants::exponent_bias + Constants::lift);
  const V scale = (V)(e.biased << Constants::mantissa_bits);
  const V exponential = (e.expm1 + one) * scale * broadcast<T>(Constants::unlift);
  return select(x < V{}, exponential, one) / (exponential + one);
}

// The lanes beyond the range of the reduction, one by one; a call, so that the hot loop does not carry it.
template <class V>
__attribute__((noinline, cold)) V sin_by_library(V x, V result) {
  for (int i = 0; i < lanes<ScalarOf<V>>; ++i) {
    if (!(__builtin_fabs(x[i]) > MathTraits<V>::sin_reduces)) continue;
    if constexpr (sizeof(x[0]) == 4)
      result[i] = __builtin_sinf(x[i]);
    else
      result[i] = __builtin_sin(x[i]);
  }
  return result;
}

// (-1)^n sin(|x| - n pi), n the nearest integer to |x|/pi, and the sign of x. Where x is close to a multiple of pi the
// subtractions are exact: the parts of pi say how far, and the last rounding is relative to what is left.
template <class V>
FASTDL_INLINE V sin(V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  using I = IntegersOf<V>;
  const V magnitude = abs(x);
  const V round = broadcast<T>(Constants::round_to_integer);
  const V shifted = fma(magnitude, broadcast<T>(Constants::inverse_pi), round);
  const V n = shifted - round;
  V r = magnitude;
  for (const T part : Constants::pi_parts) r = fma(n, broadcast<T>(-part), r);
  const V square = r * r;
  const V value = fma(r * square, polynomial(square, Constants::sin_polynomial), r);
  const I odd = (I)((UnsignedOf<V>)shifted << (8 * sizeof(T) - 1));
  const V result = (V)((I)value ^ odd ^ sign_of(x));
  if (__builtin_expect(any(magnitude > broadcast<T>(Constants::sin_reduces)), false)) return sin_by_library(x, result);
  return result;
}

// The angle of (x, y) in [-pi, pi], as C's atan2: the signs of zeros count, atan2(+-0, +0) = +-0 and atan2(+-0, -0) =
// +-pi. A caller with another convention at the origin applies it itself.
//
// The smaller magnitude is divided by the larger, so the ratio cannot overflow, and underflows only where the result
// does or where it is added to a multiple of pi/2. Equal magnitudes have the ratio 1 even if infinite, and 0/0 is 0.
template <class V>
FASTDL_INLINE V atan2(V y, V x) {
  using Constants = MathTraits<V>;
  using T = ScalarOf<V>;
  using I = IntegersOf<V>;
  const V one = broadcast<T>(1);
  const V height = abs(y);
  const V width = abs(x);
  const I steep = height > width;
  const V larger = select(steep, height, width);
  const V smaller = select(steep, width, height);
  const V divisor = select(larger == V{}, one, larger);
  const V ratio = select(smaller == divisor, one, smaller / divisor);
  const V square = ratio * ratio;
  const V angle = fma(ratio * square, polynomial(square, Constants::atan_polynomial), ratio);

  // The result is angle, pi/2 - angle, pi/2 + angle or pi - angle. The sign bit shifted right by one is the number 2.0.
  const I behind = sign_of(x);
  const I turned = (steep & broadcast_integer<T>(Constants::sign_bit)) ^ behind;
  const V quarters = select(steep, one, (V)((UnsignedOf<V>)behind >> 1));
  const V low = fma(quarters, broadcast<T>(Constants::half_pi_low), (V)((I)angle ^ turned));
  const V result = fma(quarters, broadcast<T>(Constants::half_pi_high), low);
  return (V)((I)result | sign_of(y));
}

// Square root and division, as hardware has them: right at every edge (1/sqrt(-0) is -infinity) and the same bits on
// every processor, which the hardware's estimate instructions are not.
template <class V>
FASTDL_INLINE V rsqrt(V x) {
  return broadcast<ScalarOf<V>>(1) / sqrt(x);
}

}  // namespace
}  // namespace fastdl::simd
