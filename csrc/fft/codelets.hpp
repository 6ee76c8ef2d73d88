// Short transforms in two steps, with all indices known beforehand.
//
// n = A*B. Where A and B have no common factor the indices are those of Good and Thomas, and there are no twiddles
// between the steps; otherwise the twiddles are constants. Against the passes of transform.hpp this saves the passes'
// loops, a pass for lengths with a factor 6, and at 12, 20, 24 and 40 all twiddles.
#pragma once

#include "fft/bodies.hpp"
#include "fft/butterfly.hpp"

namespace fastdl::fft {
namespace {

// cos and sin of 2 pi k / n by their series, for tables that the compiler makes.
constexpr long double series(int k, int n, bool sine) {
  constexpr long double turn = 6.283185307179586476925286766559005768L;
  const long double x = turn * (2 * k > n ? k - n : k) / n;
  long double term = sine ? x : 1, sum = term;
  for (int i = sine ? 2 : 1; i < 60; i += 2) {
    term *= -x * x / (i * (i + 1));
    sum += term;
  }
  return sum;
}

constexpr int common_factor(int a, int b) { return b == 0 ? a : common_factor(b, a % b); }
constexpr int inverse_of(int a, int n) {
  int i = 1;
  while (a * i % n != 1 % n) ++i;
  return i;
}

template <class T, int A, int B>
struct TwoSteps {
  static constexpr int n = A * B;
  static constexpr bool coprime = common_factor(A, B) == 1;
  int in[n] = {}, out[n] = {};  // of (a, b) at b*A + a, and at a*B + b
  T twiddle[2 * n] = {};        // of (a, b) at 2*(b*A + a)

  constexpr TwoSteps() {
    for (int a = 0; a < A; ++a)
      for (int b = 0; b < B; ++b) {
        in[b * A + a] = coprime ? (B * a + A * b) % n : B * a + b;
        out[a * B + b] = coprime ? (B * inverse_of(B, A) * a + A * inverse_of(A, B) * b) % n : a + A * b;
        twiddle[2 * (b * A + a)] = T(series(a * b % n, n, false));
        twiddle[2 * (b * A + a) + 1] = T(-series(a * b % n, n, true));
      }
  }
};

// Butterflies of composite radices, in registers as far as there are any: what is left over is spilt to L1, where the
// array between two steps would be too.
template <class T, int A, int B>
struct Composite {
  static FASTDL_INLINE void apply(Complex<T> (&x)[A * B]) {
    constexpr TwoSteps<T, A, B> map{};
    Complex<T> between[A * B];
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
      Complex<T> y[A];
#pragma GCC unroll 8
      for (int a = 0; a < A; ++a) y[a] = x[map.in[b * A + a]];
      Butterfly<T, A>::apply(y);
#pragma GCC unroll 8
      for (int a = 0; a < A; ++a) {
        if (!map.coprime && a > 0 && b > 0)
          y[a] =
              y[a] * Complex<T>{broadcast(map.twiddle[2 * (b * A + a)]), broadcast(map.twiddle[2 * (b * A + a) + 1])};
        between[a * B + b] = y[a];
      }
    }
#pragma GCC unroll 8
    for (int a = 0; a < A; ++a) {
      Complex<T> y[B];
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) y[b] = between[a * B + b];
      Butterfly<T, B>::apply(y);
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) x[map.out[a * B + b]] = y[b];
    }
  }
};
template <class T>
struct Butterfly<T, 9> : Composite<T, 3, 3> {};
template <class T>
struct Butterfly<T, 12> : Composite<T, 3, 4> {};
template <class T>
struct Butterfly<T, 16> : Composite<T, 4, 4> {};
template <class T>
struct Butterfly<T, 18> : Composite<T, 2, 9> {};
template <class T>
struct Butterfly<T, 24> : Composite<T, 3, 8> {};
template <class T>
struct Butterfly<T, 32> : Composite<T, 4, 8> {};

template <class T, int A, int B>
void two_steps(const Elements<const T>& from, const Elements<T>& to) {
  static constexpr TwoSteps<T, A, B> map{};
  alignas(64) T between[A * B * width<T>];
  for (int b = 0; b < B; ++b) {
    Complex<T> x[A];
#pragma GCC unroll 32
    for (int a = 0; a < A; ++a) {
      const Index at = map.in[b * A + a] * from.step;
      x[a] = {load(from.re + at), load(from.im + at)};
    }
    Butterfly<T, A>::apply(x);
#pragma GCC unroll 32
    for (int a = 0; a < A; ++a) {
      if (!TwoSteps<T, A, B>::coprime && a > 0) x[a] = x[a] * everywhere(map.twiddle + 2 * (b * A + a));
      store_element(between + (a * B + b) * width<T>, x[a]);
    }
  }
  for (int a = 0; a < A; ++a) {
    Complex<T> x[B];
#pragma GCC unroll 32
    for (int b = 0; b < B; ++b) x[b] = load_element(between + (a * B + b) * width<T>);
    Butterfly<T, B>::apply(x);
#pragma GCC unroll 32
    for (int b = 0; b < B; ++b) {
      const Index at = map.out[a * B + b] * to.step;
      store(to.re + at, x[b].re);
      store(to.im + at, x[b].im);
    }
  }
}

// Whether a length has a codelet; it has run then. Input and output may be the same.
template <class T>
bool run_codelet(Index n, const Elements<const T>& from, const Elements<T>& to) {
  switch (n) {
    case 8: {
      Complex<T> x[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) x[k] = {load(from.re + k * from.step), load(from.im + k * from.step)};
      Butterfly<T, 8>::apply(x);
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        store(to.re + k * to.step, x[k].re);
        store(to.im + k * to.step, x[k].im);
      }
      return true;
    }
#define FASTDL_CODELET(A, B)      \
  case A* B:                      \
    two_steps<T, A, B>(from, to); \
    return true
      FASTDL_CODELET(2, 3);
      FASTDL_CODELET(3, 3);
      FASTDL_CODELET(2, 5);
      FASTDL_CODELET(3, 4);
      FASTDL_CODELET(4, 4);
      FASTDL_CODELET(3, 6);
      FASTDL_CODELET(4, 5);
      FASTDL_CODELET(3, 8);
      FASTDL_CODELET(4, 8);
      FASTDL_CODELET(4, 9);
      FASTDL_CODELET(5, 8);
      FASTDL_CODELET(6, 8);
      FASTDL_CODELET(8, 8);
      FASTDL_CODELET(8, 9);
      FASTDL_CODELET(5, 16);
      FASTDL_CODELET(6, 16);
      FASTDL_CODELET(8, 16);
      FASTDL_CODELET(9, 16);
      FASTDL_CODELET(16, 16);
      FASTDL_CODELET(16, 18);
      FASTDL_CODELET(16, 32);
      FASTDL_CODELET(24, 24);
#undef FASTDL_CODELET
    default:
      return false;
  }
}

}  // namespace
}  // namespace fastdl::fft
