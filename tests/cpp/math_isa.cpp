// simd/math.hpp applied to arrays, one copy per instruction-set level: what test_math.cpp calls.
#include "math_levels.hpp"
#include "simd/math.hpp"

namespace fastdl::simd::FASTDL_LEVEL {

namespace {

template <class T, class Function>
FASTDL_INLINE void map(const T* x, T* y, std::int64_t n, Function function) {
  std::int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) store<T>(y + i, function(load<T>(x + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) store_first<T>(y + i, function(load_first<T>(x + i, rest)), rest);
}

template <class T, class Function>
FASTDL_INLINE void map(const T* a, const T* b, T* y, std::int64_t n, Function function) {
  std::int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) store<T>(y + i, function(load<T>(a + i), load<T>(b + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) store_first<T>(y + i, function(load_first<T>(a + i, rest), load_first<T>(b + i, rest)), rest);
}

}  // namespace

#define FASTDL_DEFINE_UNARY(name, T, V)                                                \
  void name(const T* x, T* y, std::int64_t n) {                                        \
    map<T>(x, y, n, [](V v) __attribute__((always_inline)) { return simd::name(v); }); \
  }

FASTDL_DEFINE_UNARY(exp, float, f32v)
FASTDL_DEFINE_UNARY(exp, double, f64v)
FASTDL_DEFINE_UNARY(tanh, float, f32v)
FASTDL_DEFINE_UNARY(tanh, double, f64v)
FASTDL_DEFINE_UNARY(sigmoid, float, f32v)
FASTDL_DEFINE_UNARY(sigmoid, double, f64v)
FASTDL_DEFINE_UNARY(rsqrt, float, f32v)
FASTDL_DEFINE_UNARY(rsqrt, double, f64v)
FASTDL_DEFINE_UNARY(sin, float, f32v)
FASTDL_DEFINE_UNARY(sin, double, f64v)
FASTDL_DEFINE_UNARY(sqrt_by_estimate, float, f32v)
FASTDL_DEFINE_UNARY(sqrt_by_estimate, double, f64v)

#define FASTDL_DEFINE_BINARY(name, T, V)                                                          \
  void name(const T* a, const T* b, T* y, std::int64_t n) {                                       \
    map<T>(a, b, y, n, [](V u, V v) __attribute__((always_inline)) { return simd::name(u, v); }); \
  }

FASTDL_DEFINE_BINARY(atan2, float, f32v)
FASTDL_DEFINE_BINARY(atan2, double, f64v)

}  // namespace fastdl::simd::FASTDL_LEVEL
