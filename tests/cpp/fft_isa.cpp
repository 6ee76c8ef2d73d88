// The FFT engine as plain functions on arrays, compiled once per instruction-set level for test_fft.cpp.
#include "fft_levels.hpp"

#include "fft/axes.hpp"
#include "fft/real.hpp"

namespace fastdl::fft::FASTDL_LEVEL {
namespace {

template <class T>
void lanes_of(Index n, Index stride, bool inverse, const T* re, const T* im, T* out_re, T* out_im) {
  constexpr Index lanes = simd::lanes<T>;
  const SharedPlan<T> shared(n);
  core::Scratch scratch;
  T* x = scratch.array<T>(n, stride, width<T>);
  for (Index j = 0; j < n; ++j) store_element(x + j * stride * width<T>, {load(re + j * lanes), load(im + j * lanes)});
  transform(shared.plan(), inverse, x, stride, x, stride, scratch.array<T>(shared.plan().scratch, width<T>));
  for (Index j = 0; j < n; ++j) {
    const Complex<T> value = load_element(x + j * stride * width<T>);
    store(out_re + j * lanes, value.re);
    store(out_im + j * lanes, value.im);
  }
}

template <class T>
void forward_of(Index n, const T* x, T* re, T* im) {
  constexpr Index lanes = simd::lanes<T>;
  const SharedPlan<T> shared(real_plan_length(n));
  core::Scratch scratch;
  T* out = scratch.array<T>(n / 2 + 1, width<T>);
  real_forward(shared.plan(), n, x, out, scratch.array<T>(n + shared.plan().scratch, width<T>));
  for (Index k = 0; k <= n / 2; ++k) {
    const Complex<T> value = load_element(out + k * width<T>);
    store(re + k * lanes, value.re);
    store(im + k * lanes, value.im);
  }
}

template <class T>
void inverse_of(Index n, const T* re, const T* im, T* x) {
  constexpr Index lanes = simd::lanes<T>;
  const SharedPlan<T> shared(real_plan_length(n));
  core::Scratch scratch;
  T* in = scratch.array<T>(n / 2 + 1, width<T>);
  for (Index k = 0; k <= n / 2; ++k) store_element(in + k * width<T>, {load(re + k * lanes), load(im + k * lanes)});
  real_inverse(shared.plan(), n, in, x, scratch.array<T>(n + shared.plan().scratch, width<T>));
}

}  // namespace

int lane_count(std::int64_t size) { return int(simd::vector_bytes / size); }

#define FASTDL_BODIES_OF(T)                                                                         \
  void along_axis(Index outer, Index n, Index inner, bool inverse, T* re, T* im) {                  \
    transform_axis<T>(outer, n, inner, inverse ? im : re, inverse ? re : im);                       \
  }                                                                                                 \
  void lanes(Index n, Index stride, bool inverse, const T* re, const T* im, T* out_re, T* out_im) { \
    lanes_of<T>(n, stride, inverse, re, im, out_re, out_im);                                        \
  }                                                                                                 \
  void real_to_complex(Index n, const T* x, T* re, T* im) { forward_of<T>(n, x, re, im); }          \
  void complex_to_real(Index n, const T* re, const T* im, T* x) { inverse_of<T>(n, re, im, x); }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::fft::FASTDL_LEVEL
