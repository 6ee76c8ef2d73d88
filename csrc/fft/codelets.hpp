// Short transforms in two steps, with all indices known beforehand.
//
// n = A*B. Where A and B have no common factor the indices are those of Good and Thomas, and there are no twiddles
// between the steps; otherwise the twiddles are constants. Against the passes of transform.hpp this saves the passes'
// loops, a pass for lengths with a factor 6, and at 12, 20, 24 and 40 all twiddles.
#pragma once

#include "fft/bodies.hpp"
#include "fft/butterfly.hpp"
#include "fft/codelet_lengths.hpp"

namespace fastdl::fft {
namespace {

// cos and sin of 2 pi k / N, for tables that the compiler makes: by their series up to an eighth of a turn, where
// twelve terms are enough, and mirrored from there. Series for every number of every table took the compiler 25 s
// of 35.
template <int N>
struct Turns {
  long double cosine[N] = {}, sine[N] = {};

  constexpr Turns() {
    constexpr long double quarter = 1.570796326794896619231321691639751442L;
    bool known[N / 2 + 1] = {};
    long double near[N / 2 + 1] = {}, far[N / 2 + 1] = {};  // cosine and sine of q / N quarters
    for (int k = 0; k < N; ++k) {
      int q = 4 * k;
      const bool below = q > 2 * N;
      if (below) q = 4 * N - q;
      const bool left = q > N;
      if (left) q = 2 * N - q;
      const bool steep = 2 * q > N;
      if (steep) q = N - q;
      if (!known[q]) {
        const long double x = quarter * q / N, square = x * x;
        long double even = 1, odd = x;
        for (int i = 1; i < 24; i += 2) {
          near[q] += even;
          far[q] += odd;
          even *= -square / (i * (i + 1));
          odd *= -square / ((i + 1) * (i + 2));
        }
        known[q] = true;
      }
      cosine[k] = (left ? -1 : 1) * (steep ? far : near)[q];
      sine[k] = (below ? -1 : 1) * (steep ? near : far)[q];
    }
  }
};
template <int N>
inline constexpr Turns<N> turns_of{};

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
    const int step_a = coprime ? B * inverse_of(B, A) : 1, step_b = coprime ? A * inverse_of(A, B) : A;
    for (int a = 0; a < A; ++a)
      for (int b = 0; b < B; ++b) {
        in[b * A + a] = coprime ? (B * a + A * b) % n : B * a + b;
        out[a * B + b] = (step_a * a + step_b * b) % n;
        if constexpr (!coprime) {
          twiddle[2 * (b * A + a)] = T(turns_of<n>.cosine[a * b]);
          twiddle[2 * (b * A + a) + 1] = T(-turns_of<n>.sine[a * b]);
        }
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
struct Butterfly<T, 10> : Composite<T, 2, 5> {};
template <class T>
struct Butterfly<T, 20> : Composite<T, 4, 5> {};
template <class T>
struct Butterfly<T, 15> : Composite<T, 3, 5> {};
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

template <class T>
struct FromElements {
  const T *re, *im;
  Index step;
  FASTDL_INLINE Complex<T> operator()(int k) const { return {load(re + k * step), load(im + k * step)}; }
};

// What becomes of the numbers of a transform: kept as they are, or their moduli alone, one after the other.
//
// Moduli by the way: a square root takes the divider ten cycles, in which the butterflies of other numbers go on. In a
// loop of their own those were waited for, and the numbers stored and loaded again. Every other one is left to the
// multipliers. `turn` counts the numbers of a butterfly.
template <class T>
struct ToElements {
  T *re, *im;
  Index step;
  FASTDL_INLINE void operator()(int k, int, Complex<T> x) const {
    store(re + k * step, x.re);
    store(im + k * step, x.im);
  }
};
template <class T>
struct ToModuli {
  T* to;
  FASTDL_INLINE void operator()(int k, int turn, Complex<T> x) const {
    const Vec<T> square = fma(x.re, x.re, x.im * x.im);
    store(to + k * (width<T> / 2), turn % 2 == 0 ? simd::sqrt(square) : simd::sqrt_by_estimate(square));
  }
};

// How many of the A second butterflies have their B elements wait in registers, beside a first one at work.
constexpr int kept_rows(int a, int b) {
  const int room = 32 - 2 * a - 6;
  return room < 2 * b ? 0 : room / (2 * b) < a ? room / (2 * b) : a;
}

template <class T, int A, int B, class From, class To>
FASTDL_INLINE void two_steps(const From& from, const To& to) {
  static constexpr TwoSteps<T, A, B> map{};
  // By value: what is stored might be the pointers themselves, for all that the compiler knows.
  const From get = from;
  const To put = to;
  // Some of the numbers between the steps wait in registers, where there are 32, the others in L1: Zen 4 stores 64
  // bytes in two cycles. 20 numbers take 163 cycles instead of 208, 12 88 instead of 125, where additions alone take
  // 160 and 84.
  constexpr int kept = A * B > 48 || simd::vector_bytes != 64 ? 0 : kept_rows(A, B);
  Complex<T> waiting[kept > 0 ? kept * B : 1];
  alignas(64) T between[A * B * width<T>];
  const auto first = [&](int b) __attribute__((always_inline)) {
    Complex<T> x[A];
#pragma GCC unroll 32
    for (int a = 0; a < A; ++a) x[a] = get(map.in[b * A + a]);
    Butterfly<T, A>::apply(x);
#pragma GCC unroll 32
    for (int a = 0; a < A; ++a) {
      if (!TwoSteps<T, A, B>::coprime && a > 0) x[a] = x[a] * everywhere(map.twiddle + 2 * (b * A + a));
      if constexpr (kept > 0)
        if (a < kept) {
          waiting[a * B + b] = x[a];
          continue;
        }
      store_element(between + (a * B + b) * width<T>, x[a]);
    }
  };
  const auto second = [&](int a) __attribute__((always_inline)) {
    Complex<T> x[B];
#pragma GCC unroll 32
    for (int b = 0; b < B; ++b) {
      if constexpr (kept > 0)
        if (a < kept) {
          x[b] = waiting[a * B + b];
          continue;
        }
      x[b] = load_element(between + (a * B + b) * width<T>);
    }
    Butterfly<T, B>::apply(x);
#pragma GCC unroll 32
    for (int b = 0; b < B; ++b) put(map.out[a * B + b], b, x[b]);
  };
  if constexpr (A * B <= 48) {
#pragma GCC unroll 16
    for (int b = 0; b < B; ++b) first(b);
#pragma GCC unroll 16
    for (int a = 0; a < A; ++a) second(a);
  } else {
    for (int b = 0; b < B; ++b) first(b);
    for (int a = 0; a < A; ++a) second(a);
  }
}

// A function for each: they are long.
template <class T, int A, int B, class To>
__attribute__((noinline)) void codelet_of(const FromElements<T>& from, const To& to) {
  two_steps<T, A, B>(from, to);
}

// Whether a length has a codelet; it has run then. Output may go to the place of the input.
template <class T, class To>
bool run_codelet(Index n, const Elements<const T>& elements, const To& to) {
  const FromElements<T> from{elements.re, elements.im, elements.step};
  switch (n) {
    case 8: {
      Complex<T> x[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) x[k] = from(k);
      Butterfly<T, 8>::apply(x);
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) to(k, k, x[k]);
      return true;
    }
#define FASTDL_CODELET(A, B)       \
  case A* B:                       \
    codelet_of<T, A, B>(from, to); \
    return true;
      FASTDL_FFT_CODELETS(FASTDL_CODELET)
#undef FASTDL_CODELET
    default:
      return false;
  }
}

}  // namespace
}  // namespace fastdl::fft
