// One vector type for every instruction set, over the compiler's vector extensions.
//
// Included only by *_isa.cpp bodies, which are compiled once per level (see cmake/FastdlIsa.cmake) with
//   FASTDL_LEVEL         the level's namespace: baseline, avx2, avx512, neon
//   FASTDL_VECTOR_BYTES  the width of a vector: 16, 32 or 64
// Arithmetic, comparison and bitwise operators come from the compiler. This file adds what it does not give:
// broadcast, loads and stores with tails, fused multiply-add, selection, square root, and casts.
//
// Everything sits in an anonymous namespace, so that no level's code can be merged with another's by the linker.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#ifndef FASTDL_LEVEL
#error "compile this body through fastdl_add_level()"
#endif

#define FASTDL_INLINE inline __attribute__((always_inline))

// Which native operations the level has. A 64-byte vector without AVX-512 is still valid code (the compiler splits
// it), which is how the tests execute the widest body on machines that lack the instructions. The baseline of aarch64
// is plain code too: it rounds as the x86 baseline does.
#if FASTDL_VECTOR_BYTES == 64 && defined(__AVX512F__)
#define FASTDL_NATIVE_AVX512 1
#elif FASTDL_VECTOR_BYTES == 32 && defined(__AVX2__) && defined(__FMA__)
#define FASTDL_NATIVE_AVX2 1
#elif FASTDL_VECTOR_BYTES == 16 && defined(FASTDL_NEON)
#define FASTDL_NATIVE_NEON 1
#elif FASTDL_VECTOR_BYTES == 16 && defined(__SSE2__)
#define FASTDL_NATIVE_SSE2 1
#endif

namespace fastdl::simd {
namespace {

inline constexpr int vector_bytes = FASTDL_VECTOR_BYTES;

typedef float f32v __attribute__((vector_size(vector_bytes)));
typedef double f64v __attribute__((vector_size(vector_bytes)));
typedef std::int32_t i32v __attribute__((vector_size(vector_bytes)));
typedef std::int64_t i64v __attribute__((vector_size(vector_bytes)));

template <class T>
struct Types;
template <>
struct Types<float> {
  using Vector = f32v;
  using Integers = i32v;  // also the type of a comparison: all ones where true
  using Integer = std::int32_t;
};
template <>
struct Types<double> {
  using Vector = f64v;
  using Integers = i64v;
  using Integer = std::int64_t;
};

template <class T>
using Vec = typename Types<T>::Vector;
template <class T>
using IntVec = typename Types<T>::Integers;
template <class T>
inline constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T));

// ---- broadcast, load, store ------------------------------------------------------------------------------------

template <class T>
FASTDL_INLINE Vec<T> broadcast(T x) {
  return x - Vec<T>{};  // x - 0 keeps the sign of -0.0 and compiles to a single broadcast
}

template <class T>
FASTDL_INLINE IntVec<T> broadcast_integer(typename Types<T>::Integer x) {
  return x - IntVec<T>{};
}

template <class T>
FASTDL_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
FASTDL_INLINE void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}

// Past the caches to memory, for large results that are not read again soon: the line is not fetched first. p must be
// aligned to the vector, whole lines should be stored together, and `end_stream` comes before another thread looks.
template <class T>
FASTDL_INLINE void stream(T* p, Vec<T> v) {
#if defined(FASTDL_NATIVE_AVX512)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(v));
#elif defined(FASTDL_NATIVE_AVX2)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(v));
#elif defined(FASTDL_NATIVE_SSE2)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), reinterpret_cast<__m128i>(v));
#else
  store(p, v);
#endif
}

FASTDL_INLINE void end_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Asks for the cache line of p: to L1 for writing or reading soon, or to L2 for later. Assembly, because GCC 12 drops
// loops and functions that do nothing but __builtin_prefetch.
FASTDL_INLINE void prefetch_to_write(const void* p) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));  // processors without it do nothing
#elif defined(__aarch64__)
  asm volatile("prfm pstl1keep, %0" : : "Q"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}

FASTDL_INLINE void prefetch_to_l1(const void* p) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, %0" : : "Q"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 0, 3);
#endif
}

FASTDL_INLINE void prefetch_to_l2(const void* p) {
#if defined(__x86_64__)
  asm volatile("prefetcht1 %0" : : "m"(*static_cast<const char*>(p)));
#elif defined(__aarch64__)
  asm volatile("prfm pldl2keep, %0" : : "Q"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 0, 2);
#endif
}

// Lane i true where i < count; count may be anything.
template <class T>
FASTDL_INLINE IntVec<T> first_lanes(int count) {
  IntVec<T> index;
  for (int i = 0; i < lanes<T>; ++i) index[i] = i;
  return index < broadcast_integer<T>(count);
}

// The first `count` lanes (0 <= count <= lanes) from memory, zero in the rest; nothing beyond them is read.
template <class T>
FASTDL_INLINE Vec<T> load_first(const T* p, int count) {
#if defined(FASTDL_NATIVE_AVX512)
  const unsigned mask = (1u << count) - 1u;
  if constexpr (sizeof(T) == 4)
    return (Vec<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
  else
    return (Vec<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p);
#elif defined(FASTDL_NATIVE_AVX2)
  const IntVec<T> mask = first_lanes<T>(count);
  if constexpr (sizeof(T) == 4)
    return (Vec<T>)_mm256_maskload_ps(p, (__m256i)mask);
  else
    return (Vec<T>)_mm256_maskload_pd(p, (__m256i)mask);
#else
  Vec<T> v{};
  for (int i = 0; i < lanes<T>; ++i)
    if (i < count) v[i] = p[i];
  return v;
#endif
}

// The first `count` lanes (0 <= count <= lanes) to memory; nothing beyond them is written.
template <class T>
FASTDL_INLINE void store_first(T* p, Vec<T> v, int count) {
#if defined(FASTDL_NATIVE_AVX512)
  const unsigned mask = (1u << count) - 1u;
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>(mask), (__m512)v);
  else
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>(mask), (__m512d)v);
#elif defined(FASTDL_NATIVE_AVX2)
  const IntVec<T> mask = first_lanes<T>(count);
  if constexpr (sizeof(T) == 4)
    _mm256_maskstore_ps(p, (__m256i)mask, (__m256)v);
  else
    _mm256_maskstore_pd(p, (__m256i)mask, (__m256d)v);
#else
  for (int i = 0; i < lanes<T>; ++i)
    if (i < count) p[i] = v[i];
#endif
}

// ---- arithmetic the operators do not cover -----------------------------------------------------------------------

// a*b + c, fused where the level has it (all but the x86 baseline). Bodies are compiled with -ffp-contract=off, so
// this is the only place where a product and a sum are joined, and every tile shape rounds alike.
template <class V>
FASTDL_INLINE V fma(V a, V b, V c) {
#if defined(FASTDL_NATIVE_AVX512)
  if constexpr (sizeof(a[0]) == 4)
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  else
    return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(FASTDL_NATIVE_AVX2)
  if constexpr (sizeof(a[0]) == 4)
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  else
    return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(FASTDL_NATIVE_NEON)
  if constexpr (sizeof(a[0]) == 4)
    return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
  else
    return (V)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  return a * b + c;
#endif
}

// yes where the mask is all ones, no where it is zero
template <class V, class M>
FASTDL_INLINE V select(M mask, V yes, V no) {
  return mask ? yes : no;
}

// Whether any lane of a comparison is true.
template <class M>
FASTDL_INLINE bool any(M mask) {
#if defined(FASTDL_NATIVE_AVX512)
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(FASTDL_NATIVE_AVX2)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#elif defined(FASTDL_NATIVE_SSE2)
  return _mm_movemask_epi8((__m128i)mask) != 0;
#elif defined(FASTDL_NATIVE_NEON)
  return vmaxvq_u32((uint32x4_t)mask) != 0;
#else
  bool found = false;
  for (unsigned i = 0; i < sizeof(mask) / sizeof(mask[0]); ++i) found |= mask[i] != 0;
  return found;
#endif
}

template <class V>
FASTDL_INLINE V sqrt(V a) {
#if defined(FASTDL_NATIVE_AVX512)
  if constexpr (sizeof(a[0]) == 4)
    return (V)_mm512_maskz_sqrt_ps(static_cast<__mmask16>(-1), (__m512)a);  // unmasked, GCC 12 warns of its own header
  else
    return (V)_mm512_maskz_sqrt_pd(static_cast<__mmask8>(-1), (__m512d)a);
#elif defined(FASTDL_NATIVE_AVX2)
  if constexpr (sizeof(a[0]) == 4)
    return (V)_mm256_sqrt_ps((__m256)a);
  else
    return (V)_mm256_sqrt_pd((__m256d)a);
#elif defined(FASTDL_NATIVE_NEON)
  if constexpr (sizeof(a[0]) == 4)
    return (V)vsqrtq_f32((float32x4_t)a);
  else
    return (V)vsqrtq_f64((float64x2_t)a);
#elif defined(FASTDL_NATIVE_SSE2)
  if constexpr (sizeof(a[0]) == 4)
    return (V)_mm_sqrt_ps((__m128)a);
  else
    return (V)_mm_sqrt_pd((__m128d)a);
#else
  for (unsigned i = 0; i < sizeof(a) / sizeof(a[0]); ++i) {
    if constexpr (sizeof(a[0]) == 4)
      a[i] = __builtin_sqrtf(a[i]);
    else
      a[i] = __builtin_sqrt(a[i]);
  }
  return a;
#endif
}

// The same on the multipliers, for half of the roots where many are taken: with AVX-512 a root keeps the divider for
// ten cycles or more, and these six instructions the multipliers for six. From 2^-126 on within 0.8 ulp (on Zen 4, one
// float in seven), 0 at 0; of infinity it is NaN.
template <class V>
FASTDL_INLINE V sqrt_by_estimate(V a) {
#if defined(FASTDL_NATIVE_AVX512)
  if constexpr (sizeof(a[0]) == 4) {
    constexpr __mmask16 all = static_cast<__mmask16>(-1);
    const __m512 normal = _mm512_maskz_max_ps(all, (__m512)a, _mm512_set1_ps(0x1p-126f));
    const V estimate = (V)_mm512_maskz_rsqrt14_ps(all, normal);
    const V root = a * estimate, half = estimate * 0.5f;
    return fma(root, fma(-root, half, broadcast(0.5f)), root);
  }
#endif
  return sqrt(a);
}

template <class V>
FASTDL_INLINE V abs(V a) {
  if constexpr (sizeof(a[0]) == 4)
    return (V)((i32v)a & broadcast_integer<float>(INT32_MAX));
  else
    return (V)((i64v)a & broadcast_integer<double>(INT64_MAX));
}

}  // namespace
}  // namespace fastdl::simd
