// The lane-batched transform: every element is a pair of vectors, a lane its own transform, so there are no shuffles.
//
// Stockham's algorithm: each pass reads one array and writes another, and the result comes out in natural order. The
// first pass may read and the last may write with a stride, so a column of a larger array is transformed without a
// copy. The inverse is the forward transform with real and imaginary parts exchanged, which costs nothing.
#pragma once

#include "fft/bodies.hpp"
#include "fft/butterfly.hpp"

namespace fastdl::fft {
namespace {

template <class T>
Elements<T> elements(T* data, Index stride, bool inverse) {
  T* other = data + width<T> / 2;
  return {inverse ? other : data, inverse ? data : other, stride * width<T>};
}

template <class T, int R, bool Twiddles>
void run_pass(const Pass<T>& pass, const Elements<const T>& from, const Elements<T>& to) {
  const Index count = pass.count, stride = pass.stride;
  for (Index p = 0; p < count; ++p) {
    const T* twiddles = pass.twiddles + 2 * p * (R - 1);
    for (Index q = 0; q < stride; ++q) {
      Complex<T> x[R];
#pragma GCC unroll 8
      for (int k = 0; k < R; ++k) {
        const Index at = (q + stride * (p + count * k)) * from.step;
        x[k] = {load(from.re + at), load(from.im + at)};
      }
      Butterfly<T, R>::apply(x);
#pragma GCC unroll 8
      for (int j = 0; j < R; ++j) {
        if (Twiddles && j > 0) x[j] = x[j] * everywhere(twiddles + 2 * (j - 1));
        const Index at = (q + stride * (R * p + j)) * to.step;
        store(to.re + at, x[j].re);
        store(to.im + at, x[j].im);
      }
    }
  }
}

template <class T>
void run_odd_pass(const Pass<T>& pass, const Elements<const T>& from, const Elements<T>& to) {
  const int radix = int(pass.radix);
  for (Index p = 0; p < pass.count; ++p) {
    const T* twiddles = pass.twiddles + 2 * p * (radix - 1);
    for (Index q = 0; q < pass.stride; ++q) {
      const Index at = (q + pass.stride * p) * from.step;
      odd_butterfly<T>(radix, pass.roots, from.re + at, from.im + at, pass.stride * pass.count * from.step,
                       [&](int j, Complex<T> value) {
                         if (pass.count > 1 && j > 0) value = value * everywhere(twiddles + 2 * (j - 1));
                         const Index there = (q + pass.stride * (radix * p + j)) * to.step;
                         store(to.re + there, value.re);
                         store(to.im + there, value.im);
                       });
    }
  }
}

template <class T>
void transform(const Plan<T>& plan, Elements<const T> from, const Elements<T>& last, T* scratch);

// Of a large prime: a line of it is transformed by itself.
template <class T>
void run_prime_pass(const Pass<T>& pass, const Elements<const T>& from, const Elements<T>& to, T* scratch) {
  const Index radix = pass.radix;
  const Elements<T> line = elements(scratch, 1, false);
  for (Index p = 0; p < pass.count; ++p) {
    const T* twiddles = pass.twiddles + 2 * p * (radix - 1);
    for (Index q = 0; q < pass.stride; ++q) {
      const Index at = (q + pass.stride * p) * from.step, there = (q + pass.stride * radix * p) * to.step;
      const Elements<const T> source{from.re + at, from.im + at, pass.stride * pass.count * from.step};
      const Elements<T> target{to.re + there, to.im + there, pass.stride * to.step};
      transform<T>(*pass.prime, source, pass.count > 1 ? line : target, scratch + radix * width<T>);
      for (Index j = 0; j < radix && pass.count > 1; ++j) {
        Complex<T> value = load_element(scratch + j * width<T>);
        if (j > 0) value = value * everywhere(twiddles + 2 * (j - 1));
        store(target.re + j * target.step, value.re);
        store(target.im + j * target.step, value.im);
      }
    }
  }
}

// scratch is for passes of large primes.
template <class T>
void run(const Pass<T>& pass, const Elements<const T>& from, const Elements<T>& to, T* scratch) {
  if (pass.prime) return run_prime_pass(pass, from, to, scratch);
  const bool twiddles = pass.count > 1;
  switch (pass.radix) {
#define FASTDL_RADIX(R) \
  case R:               \
    return twiddles ? run_pass<T, R, true>(pass, from, to) : run_pass<T, R, false>(pass, from, to)
    FASTDL_RADIX(2);
    FASTDL_RADIX(3);
    FASTDL_RADIX(4);
    FASTDL_RADIX(5);
    FASTDL_RADIX(8);
#undef FASTDL_RADIX
    default:
      run_odd_pass<T>(pass, from, to);
  }
}

template <class T>
void transform(const Plan<T>& plan, bool inverse, const T* in, Index in_stride, T* out, Index out_stride, T* scratch);

// With a generator g, number g^-k is the first one and the sum over j of x[g^j] exp(-2 pi i g^(j - k) / n). The first
// one comes to all sums as a part of the convolution's mean.
template <class T>
void rader(const Plan<T>& plan, const Elements<const T>& from, const Elements<T>& to, T* scratch) {
  const Index m = plan.length - 1;
  T* inner = scratch + m * width<T>;
  for (Index j = 0; j < m; ++j) {
    const Index at = plan.power[j] * from.step;
    store_element(scratch + j * width<T>, Complex<T>{load(from.re + at), load(from.im + at)});
  }
  const Complex<T> first{load(from.re), load(from.im)};
  transform(*plan.inner, false, scratch, 1, scratch, 1, inner);
  const Complex<T> total = first + load_element(scratch);
  for (Index j = 0; j < m; ++j) {
    T* at = scratch + j * width<T>;
    const Complex<T> product = load_element(at) * everywhere(plan.response + 2 * j);
    store_element(at, j == 0 ? product + first : product);
  }
  transform(*plan.inner, true, scratch, 1, scratch, 1, inner);
  store(to.re, total.re);
  store(to.im, total.im);
  for (Index k = 0; k < m; ++k) {
    const Complex<T> y = load_element(scratch + k * width<T>);
    const Index there = plan.power[m - k] * to.step;
    store(to.re + there, y.re);
    store(to.im + there, y.im);
  }
}

// A convolution with the conjugate chirp.
template <class T>
void bluestein(const Plan<T>& plan, const Elements<const T>& from, const Elements<T>& to, T* scratch) {
  const Index n = plan.length, m = plan.inner->length;
  T* inner = scratch + m * width<T>;
  for (Index j = 0; j < n; ++j) {
    const Complex<T> x{load(from.re + j * from.step), load(from.im + j * from.step)};
    store_element(scratch + j * width<T>, x * everywhere(plan.chirp + 2 * j));
  }
  for (Index j = n; j < m; ++j) store_element(scratch + j * width<T>, Complex<T>{});
  transform(*plan.inner, false, scratch, 1, scratch, 1, inner);
  for (Index j = 0; j < m; ++j) {
    T* at = scratch + j * width<T>;
    store_element(at, load_element(at) * everywhere(plan.response + 2 * j));
  }
  transform(*plan.inner, true, scratch, 1, scratch, 1, inner);
  for (Index j = 0; j < n; ++j) {
    const Complex<T> y = load_element(scratch + j * width<T>) * everywhere(plan.chirp + 2 * j);
    store(to.re + j * to.step, y.re);
    store(to.im + j * to.step, y.im);
  }
}

// The transform from elements to elements, which may be the same. scratch has room for plan.scratch elements.
template <class T>
void transform(const Plan<T>& plan, Elements<const T> from, const Elements<T>& last, T* scratch) {
  if (FASTDL_LEVEL::codelet(plan.length, from, last)) return;
  if (plan.inner) return plan.power ? rader(plan, from, last, scratch) : bluestein(plan, from, last, scratch);
  if (plan.passes == 0) {
    const Complex<T> x{load(from.re), load(from.im)};
    store(last.re, x.re);
    store(last.im, x.im);
  }
  const Elements<T> first = elements(scratch, 1, false), second = elements(scratch + plan.length * width<T>, 1, false);
  const bool in_place = from.re == last.re || from.re == last.im;
  for (int i = 0; i < plan.passes; ++i) {
    // Every other pass from the last one writes to its place, unless that is still being read or its cache lines lie
    // apart.
    const int left = plan.passes - 1 - i;
    const bool apart = left > 0 && (last.step != width<T> || (i == 0 && in_place));
    const Elements<T>& to = left % 2 != 0 ? first : apart ? second : last;
    run(plan.pass[i], from, to, scratch + 2 * plan.length * width<T>);
    from = {to.re, to.im, to.step};
  }
}

// out[j] = sum over k of in[k] exp(-/+ 2 pi i j k / n), the inverse without the factor 1/n. Strides count elements, and
// out may be in.
template <class T>
void transform(const Plan<T>& plan, bool inverse, const T* in, Index in_stride, T* out, Index out_stride, T* scratch) {
  transform<T>(plan, elements(in, in_stride, inverse), elements(out, out_stride, inverse), scratch);
}

// Only the moduli of the same, one vector after the other. room is for plan.length elements, which may be those of the
// input.
template <class T>
void transform_moduli(const Plan<T>& plan, bool inverse, const T* in, Index in_stride, T* moduli, T* room, T* scratch) {
  if (FASTDL_LEVEL::moduli_codelet(plan.length, elements(in, in_stride, inverse), moduli)) return;
  transform(plan, inverse, in, in_stride, room, 1, scratch);
  for (Index k = 0; k < plan.length; ++k)
    store(moduli + k * simd::lanes<T>, modulus(load_element(room + k * width<T>)));
}

}  // namespace
}  // namespace fastdl::fft
