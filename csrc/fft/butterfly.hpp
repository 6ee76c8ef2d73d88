// Transforms of 2, 3, 4, 5, 6, 8 and any odd number of complex vectors, in registers.
#pragma once

#include "fft/plan.hpp"
#include "simd/vec.hpp"

namespace fastdl::fft {
namespace {

using simd::broadcast;
using simd::fma;
using simd::load;
using simd::store;
using simd::Vec;

// The same element of `lanes` transforms side by side. In memory the imaginary vector follows the real one: an element
// is then one cache line or two, and a pass walks one stream where separate arrays would take two.
template <class T>
struct Complex {
  Vec<T> re, im;
};
template <class T>
inline constexpr Index width = 2 * simd::lanes<T>;  // numbers of an element
template <class T>
inline constexpr Index width<const T> = width<T>;

template <class T>
FASTDL_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
FASTDL_INLINE Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
FASTDL_INLINE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {fma(a.re, b.re, -(a.im * b.im)), fma(a.re, b.im, a.im * b.re)};
}
template <class T>
FASTDL_INLINE Complex<T> conjugate(Complex<T> a) {
  return {a.re, -a.im};
}
template <class T>
FASTDL_INLINE Complex<T> scaled(Complex<T> a, T factor) {
  return {a.re * factor, a.im * factor};
}
template <class T>
FASTDL_INLINE Vec<T> modulus(Complex<T> a) {
  return simd::sqrt(fma(a.re, a.re, a.im * a.im));
}
// -i a
template <class T>
FASTDL_INLINE Complex<T> turned(Complex<T> a) {
  return {a.im, -a.re};
}
// One complex number in all lanes; its real part comes first in memory.
template <class T>
FASTDL_INLINE Complex<T> everywhere(const T* number) {
  return {broadcast(number[0]), broadcast(number[1])};
}
template <class T>
FASTDL_INLINE Complex<T> load_element(const T* p) {
  return {load(p), load(p + simd::lanes<T>)};
}
template <class T>
FASTDL_INLINE void store_element(T* p, Complex<T> a) {
  store(p, a.re);
  store(p + simd::lanes<T>, a.im);
}

// x[j] <- sum over k of x[k] exp(-2 pi i j k / R)
template <class T, int R>
struct Butterfly;

template <class T>
struct Butterfly<T, 2> {
  static FASTDL_INLINE void apply(Complex<T> (&x)[2]) {
    const Complex<T> difference = x[0] - x[1];
    x[0] = x[0] + x[1];
    x[1] = difference;
  }
};

template <class T>
struct Butterfly<T, 3> {
  static FASTDL_INLINE void apply(Complex<T> (&x)[3]) {
    constexpr T sine = T(0.866025403784438646763723170752936183L);
    const Complex<T> sum = x[1] + x[2], side = turned(scaled(x[1] - x[2], sine));
    const Complex<T> middle{fma(sum.re, broadcast(T(-0.5)), x[0].re), fma(sum.im, broadcast(T(-0.5)), x[0].im)};
    x[0] = x[0] + sum;
    x[1] = middle + side;
    x[2] = middle - side;
  }
};

template <class T>
struct Butterfly<T, 4> {
  static FASTDL_INLINE void apply(Complex<T> (&x)[4]) {
    const Complex<T> even = x[0] + x[2], even_difference = x[0] - x[2];
    const Complex<T> odd = x[1] + x[3], odd_difference = turned(x[1] - x[3]);
    x[0] = even + odd;
    x[1] = even_difference + odd_difference;
    x[2] = even - odd;
    x[3] = even_difference - odd_difference;
  }
};

template <class T>
struct Butterfly<T, 5> {
  static FASTDL_INLINE void apply(Complex<T> (&x)[5]) {
    constexpr T cos1 = T(0.309016994374947424102293417182819059L), cos2 = T(-0.809016994374947424102293417182819059L);
    constexpr T sin1 = T(0.951056516295153572116439333379382143L), sin2 = T(0.587785252292473129168705954639072769L);
    const Complex<T> sum1 = x[1] + x[4], sum2 = x[2] + x[3], side1 = x[1] - x[4], side2 = x[2] - x[3];
    const auto mixed = [](Vec<T> start, Vec<T> a, T by_a, Vec<T> b, T by_b) {
      return fma(b, broadcast(by_b), fma(a, broadcast(by_a), start));
    };
    const Complex<T> middle1{mixed(x[0].re, sum1.re, cos1, sum2.re, cos2),
                             mixed(x[0].im, sum1.im, cos1, sum2.im, cos2)};
    const Complex<T> middle2{mixed(x[0].re, sum1.re, cos2, sum2.re, cos1),
                             mixed(x[0].im, sum1.im, cos2, sum2.im, cos1)};
    const Complex<T> across1{fma(side2.re, broadcast(sin2), side1.re * sin1),
                             fma(side2.im, broadcast(sin2), side1.im * sin1)};
    const Complex<T> across2{fma(side2.re, broadcast(-sin1), side1.re * sin2),
                             fma(side2.im, broadcast(-sin1), side1.im * sin2)};
    x[0] = x[0] + sum1 + sum2;
    x[1] = middle1 + turned(across1);
    x[4] = middle1 - turned(across1);
    x[2] = middle2 + turned(across2);
    x[3] = middle2 - turned(across2);
  }
};

template <class T>
struct Butterfly<T, 6> {
  static FASTDL_INLINE void apply(Complex<T> (&x)[6]) {
    Complex<T> even[3] = {x[0], x[2], x[4]}, odd[3] = {x[3], x[5], x[1]};
    Butterfly<T, 3>::apply(even);
    Butterfly<T, 3>::apply(odd);
    x[0] = even[0] + odd[0];
    x[3] = even[0] - odd[0];
    x[4] = even[1] + odd[1];
    x[1] = even[1] - odd[1];
    x[2] = even[2] + odd[2];
    x[5] = even[2] - odd[2];
  }
};

template <class T>
struct Butterfly<T, 8> {
  static FASTDL_INLINE void apply(Complex<T> (&x)[8]) {
    constexpr T half = T(0.707106781186547524400844362104849039L);
    Complex<T> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
    Butterfly<T, 4>::apply(even);
    Butterfly<T, 4>::apply(odd);
    odd[1] = scaled(Complex<T>{odd[1].re + odd[1].im, odd[1].im - odd[1].re}, half);
    odd[2] = turned(odd[2]);
    odd[3] = scaled(Complex<T>{odd[3].im - odd[3].re, -odd[3].re - odd[3].im}, half);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      x[j] = even[j] + odd[j];
      x[j + 4] = even[j] - odd[j];
    }
  }
};

// The same for an odd radix, from and to memory: x[k] at from + k*step, and the result j to store(j, value). With the
// sums and differences of x[k] and x[radix - k], half of the products are saved.
template <class T, class Store>
FASTDL_INLINE void odd_butterfly(int radix, const T* roots, const T* re, const T* im, Index step, const Store& put) {
  const int half = radix / 2;
  Complex<T> sums[largest_radix / 2], sides[largest_radix / 2];
  const Complex<T> first{load(re), load(im)};
  Complex<T> total = first;
  for (int k = 1; k <= half; ++k) {
    const Index front = k * step, back = (radix - k) * step;
    const Complex<T> a{load(re + front), load(im + front)}, b{load(re + back), load(im + back)};
    sums[k - 1] = a + b;
    sides[k - 1] = turned(a - b);
    total = total + sums[k - 1];
  }
  put(0, total);
  for (int j = 1; j <= half; ++j) {
    Complex<T> middle = first, side{};
    for (int k = 1, turn = j; k <= half; ++k, turn += j, turn -= turn >= radix ? radix : 0) {
      const Vec<T> c = broadcast(roots[2 * turn]), s = broadcast(-roots[2 * turn + 1]);
      middle = {fma(sums[k - 1].re, c, middle.re), fma(sums[k - 1].im, c, middle.im)};
      side = {fma(sides[k - 1].re, s, side.re), fma(sides[k - 1].im, s, side.im)};
    }
    put(j, middle + side);
    put(radix - j, middle - side);
  }
}

}  // namespace
}  // namespace fastdl::fft
