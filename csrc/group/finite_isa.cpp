// Convolution on a finite group and pooling over one, compiled once per instruction-set level.
#include "gemm/engine.hpp"
#include "group/bodies.hpp"
#include "simd/math.hpp"

namespace fastdl::group::FASTDL_LEVEL {
namespace {

using gemm::at_most;

// The matrix h(w^-1 u) with u as columns and w as k, gathered as it is packed.
template <class T>
struct Shifted {
  const T* h;
  const Index* quotient;
  Index n;

  void pack_rows(Index, int, Index, Index, T*) const {}  // never rows

  void pack_columns(Index first, int count, Index k, Index depth, int width, T* panel) const {
    for (Index p = 0; p < depth; ++p)
      for (int j = 0; j < width; ++j)
        panel[p * width + j] = h[quotient[(k + p) * n + first + (j < count ? j : count - 1)]];
  }
};

template <class T>
void convolve_of(const T* f, Index count, const T* h, Index n, const Index* quotient, T* out) {
  gemm::multiply<T>({count, n, n}, false, gemm::MultiplyAdd{}, gemm::Strided<T>{f, n, 1}, Shifted<T>{h, quotient, n},
                    gemm::Output<T>{out, n, 1}, gemm::Identity{});
}

template <class T>
FASTDL_INLINE simd::Vec<T> joined(simd::Vec<T> total, simd::Vec<T> value, Pool mode) {
  switch (mode) {
    case Pool::max:  // NaN wins, and stays
      return simd::select((value > total) | (value != value), value, total);
    case Pool::l2:
      return simd::fma(value, value, total);
    default:
      return total + value;
  }
}

// The mean or the length of values whose sum, or sum of squares, leaves the type: brought near 1 by a power of 2.
template <class T>
__attribute__((noinline)) T far_from_one(const T* x, Index elements, Index stride, double largest, Pool mode) {
  const int shift = __builtin_ilogb(largest);
  double total = 0;
  for (Index i = 0; i < elements; ++i) {
    const double value = __builtin_ldexp(double(x[i * stride]), -shift);
    total += mode == Pool::l2 ? value * value : value;
  }
  return T(__builtin_ldexp(mode == Pool::l2 ? __builtin_sqrt(total) : total / double(elements), shift));
}

template <class T>
void pool_planes(const T* x, Index elements, Index pixels, Pool mode, T* out) {
  using V = simd::Vec<T>;
  constexpr int lanes = simd::lanes<T>;
  // Squares below have lost digits, if they are not 0.
  const V infinity = simd::broadcast(T(__builtin_inf()));
  const V least = simd::broadcast(mode == Pool::l2 ? T(sizeof(T) == 4 ? 1e-30 : 1e-290) : T(0));
  for (Index p = 0; p < pixels; p += lanes) {
    const int here = int(at_most(lanes, pixels - p));
    const auto value = [&](Index element) {
      const T* from = x + element * pixels + p;
      return here == lanes ? simd::load(from) : simd::load_first(from, here);
    };
    V total = mode == Pool::l2 ? value(0) * value(0) : value(0);
    for (Index element = 1; element < elements; ++element) total = joined<T>(total, value(element), mode);
    const V size = simd::abs(total);
    const auto beyond = !(mode == Pool::l2 || mode == Pool::mean) ? V{} != V{} : (size < least) | (size == infinity);
    if (mode == Pool::l2) total = simd::sqrt(total);
    if (mode == Pool::mean) total = total / T(elements);
    if (__builtin_expect(simd::any(beyond), 0)) {
      V largest = simd::abs(value(0));
      for (Index element = 1; element < elements; ++element) {
        const V other = simd::abs(value(element));
        largest = simd::select((other > largest) | (other != other), other, largest);
      }
      for (int i = 0; i < here; ++i)
        if (beyond[i] && largest[i] > 0 && largest[i] < T(__builtin_inf()))
          total[i] = far_from_one(x + p + i, elements, pixels, double(largest[i]), mode);
    }
    if (here == lanes)
      simd::store(out + p, total);
    else
      simd::store_first(out + p, total, here);
  }
}

template <class T>
void pool_of(const T* x, Index count, Index elements, Index pixels, Pool mode, T* out) {
  const int threads = count * elements * pixels < (1 << 16) ? 1 : core::thread_count();
  const Index together = 1 + (1 << 14) / (elements * pixels + 1);
  core::parallel_for(gemm::divide_up(count, together), threads, [&](Index task) {
    for (Index i = task * together; i < at_most((task + 1) * together, count); ++i)
      pool_planes(x + i * elements * pixels, elements, pixels, mode, out + i * pixels);
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                    \
  void convolve(const T* f, Index count, const T* h, Index n, const Index* quotient, T* out) { \
    convolve_of<T>(f, count, h, n, quotient, out);                                             \
  }                                                                                            \
  void pool(const T* x, Index count, Index elements, Index pixels, Pool mode, T* out) {        \
    pool_of<T>(x, count, elements, pixels, mode, out);                                         \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::group::FASTDL_LEVEL
