// Transforms of real lanes, at half the work: n real vectors are n/2 complex elements as they lie in memory, and their
// transform is that of the even and odd numbers, which one more pass joins. An odd n has no halves: it goes as complex.
#pragma once

#include "fft/transform.hpp"

namespace fastdl::fft {
namespace {

// The plan a real transform of length n runs on.
inline Index real_plan_length(Index n) { return n % 2 == 0 ? n / 2 : n; }

// out[k], k <= n/2: the first n/2 + 1 numbers of the transform of n real vectors, `stride` elements apart. plan is of
// real_plan_length(n), scratch has room for plan.scratch + n elements.
template <class T>
void real_forward(const Plan<T>& plan, Index n, const T* in, T* out, T* scratch, Index stride = 1) {
  T* rest = scratch + n * width<T>;
  const Index step = stride * width<T>;
  if (n % 2 != 0) {
    for (Index j = 0; j < n; ++j) store_element(scratch + j * width<T>, Complex<T>{load(in + j * width<T> / 2), {}});
    transform(plan, false, scratch, 1, scratch, 1, rest);
    for (Index k = 0; k <= n / 2; ++k) store_element(out + k * step, load_element(scratch + k * width<T>));
    return;
  }
  const Index half = n / 2;
  transform(plan, false, in, 1, scratch, 1, rest);
  const Complex<T> start = load_element(scratch);
  store_element(out, Complex<T>{start.re + start.im, {}});
  store_element(out + half * step, Complex<T>{start.re - start.im, {}});
  for (Index k = 1; k <= half / 2; ++k) {
    const Complex<T> front = load_element(scratch + k * width<T>);
    const Complex<T> back = conjugate(load_element(scratch + (half - k) * width<T>));
    const Complex<T> even = scaled(front + back, T(0.5));
    const Complex<T> odd = turned(scaled(front - back, T(0.5))) * everywhere(plan.half_turns + 2 * k);
    store_element(out + k * step, even + odd);
    store_element(out + (half - k) * step, conjugate(even - odd));
  }
}

// The inverse: n real vectors from the first n/2 + 1 numbers of their transform, times n. The imaginary parts of
// in[0] and, for an even n, of in[n/2] are not looked at.
template <class T>
void real_inverse(const Plan<T>& plan, Index n, const T* in, T* out, T* scratch) {
  T* rest = scratch + n * width<T>;
  if (n % 2 != 0) {
    store_element(scratch, Complex<T>{load(in), {}});
    for (Index k = 1; k <= n / 2; ++k) {
      const Complex<T> value = load_element(in + k * width<T>);
      store_element(scratch + k * width<T>, value);
      store_element(scratch + (n - k) * width<T>, conjugate(value));
    }
    transform(plan, true, scratch, 1, scratch, 1, rest);
    for (Index j = 0; j < n; ++j) store(out + j * width<T> / 2, load(scratch + j * width<T>));
    return;
  }
  const Index half = n / 2;
  const Vec<T> first = load(in), last = load(in + half * width<T>);
  store_element(scratch, Complex<T>{first + last, first - last});
  for (Index k = 1; k <= half / 2; ++k) {
    const Complex<T> front = load_element(in + k * width<T>);
    const Complex<T> back = conjugate(load_element(in + (half - k) * width<T>));
    const Complex<T> even = front + back;
    const Complex<T> odd = (front - back) * conjugate(everywhere(plan.half_turns + 2 * k));
    store_element(scratch + k * width<T>, even - turned(odd));  // even + i odd
    store_element(scratch + (half - k) * width<T>, conjugate(even + turned(odd)));
  }
  transform(plan, true, scratch, 1, out, 1, rest);
}

}  // namespace
}  // namespace fastdl::fft
