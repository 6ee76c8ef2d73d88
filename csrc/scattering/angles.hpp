// The convolution along angles: a small circulant product in registers, its moduli, and the way back.
//
// Where there are L angles and K filters it takes some 4 K L^2 multiply-adds for each place of a grid, three times as
// many as the L transforms take, and 2 K L square roots beside them. A transform of 2 L = 16 angles would take more.
#pragma once

#include "scattering/paths.hpp"
#include "scattering/roto_plan.hpp"

namespace fastdl::scattering {
namespace {

// Angles of the result at a time: as many as there are accumulators.
inline constexpr int angle_block = simd::vector_bytes == 64 ? 4 : 2;

template <class T, int R>
struct Products {
  Complex<T> p[R], q[R];
};

// P and Q of the angles from s on, of the element (a, b) of each of the angles, `pitch` numbers apart.
template <class T, int R>
FASTDL_INLINE Products<T, R> products(const AngularFilter<T>& filter, Index angles, Index s, const T* v, Index pitch) {
  Products<T, R> sum{};
  const Index step = filter.real ? 2 : 4;
  const T* taps = filter.taps + (s + angles - 1) * step;
  if (filter.real) {
    for (Index t = 0; t < angles; ++t, taps -= 2) {
      const Complex<T> z = load_element(v + t * pitch);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        sum.p[r].re = fma(z.re, broadcast(taps[2 * r]), sum.p[r].re);
        sum.q[r].re = fma(z.im, broadcast(taps[2 * r + 1]), sum.q[r].re);
      }
    }
    return sum;
  }
  for (Index t = 0; t < angles; ++t, taps -= 4) {
    const Complex<T> z = load_element(v + t * pitch);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      sum.p[r].re = fma(z.re, broadcast(taps[4 * r]), sum.p[r].re);
      sum.p[r].im = fma(z.re, broadcast(taps[4 * r + 1]), sum.p[r].im);
      sum.q[r].re = fma(z.im, broadcast(taps[4 * r + 2]), sum.q[r].re);
      sum.q[r].im = fma(z.im, broadcast(taps[4 * r + 3]), sum.q[r].im);
    }
  }
  return sum;
}

// P + i Q and P - i Q; of a real filter both have the modulus of (P, Q).
template <class T>
FASTDL_INLINE Complex<T> plus(Complex<T> p, Complex<T> q) {
  return {p.re - q.im, p.im + q.re};
}
template <class T>
FASTDL_INLINE Complex<T> minus(Complex<T> p, Complex<T> q) {
  return {p.re + q.im, p.im - q.re};
}

template <class T, int R>
FASTDL_INLINE Vec<T> moduli(const AngularFilter<T>& filter, Index angles, Index s, const T* v, Index pitch,
                            Vec<T> total) {
  const Products<T, R> sum = products<T, R>(filter, angles, s, v, pitch);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    if (filter.real)
      total = total + modulus(Complex<T>{sum.p[r].re, sum.q[r].re});
    else
      total = (total + modulus(plus(sum.p[r], sum.q[r]))) + modulus(minus(sum.p[r], sum.q[r]));
  }
  return total;
}

// to[y] = the mean over all angles of the moduli of the filtered angles, for n elements of each angle.
template <class T>
void mean_moduli(const AngularFilter<T>& filter, Index angles, Index n, const T* columns, Index pitch, T* to) {
  for (Index y = 0; y < n; ++y) {
    const T* v = columns + y * width<T>;
    Vec<T> total{};
    Index s = 0;
    for (; s + angle_block <= angles; s += angle_block)
      total = moduli<T, angle_block>(filter, angles, s, v, pitch, total);
    for (; s < angles; ++s) total = moduli<T, 1>(filter, angles, s, v, pitch, total);
    store(to + y * lanes<T>, total);
  }
}

// g z/|z|, and 0 at 0
template <class T>
FASTDL_INLINE Complex<T> along(Complex<T> z, Vec<T> g) {
  const Vec<T> size = modulus(z);
  const auto zero = size == Vec<T>{};
  const Vec<T> factor = simd::select(zero, Vec<T>{}, g / simd::select(zero, broadcast(T(1)), size));
  return {z.re * factor, z.im * factor};
}

// back[s] = (dP, dQ) of the angles from s on, from the gradient g for the mean of the moduli.
template <class T, int R>
FASTDL_INLINE void moduli_back(const AngularFilter<T>& filter, Index angles, Index s, const T* v, Index pitch, Vec<T> g,
                               T* back) {
  const Products<T, R> sum = products<T, R>(filter, angles, s, v, pitch);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    T* at = back + (s + r) * 2 * width<T>;
    if (filter.real) {
      store_element(at, along<T>({sum.p[r].re, sum.q[r].re}, g));
      continue;
    }
    const Complex<T> one = along(plus(sum.p[r], sum.q[r]), g), other = along(minus(sum.p[r], sum.q[r]), g);
    store_element(at, one + other);
    store_element(at + width<T>, fft::turned(one - other));
  }
}

// sums[t] += what goes back to (a, b) of the angles from t on.
template <class T, int R>
FASTDL_INLINE void products_back(const AngularFilter<T>& filter, Index angles, Index t, const T* back, T* sums) {
  Complex<T> sum[R];
  for (int r = 0; r < R; ++r) sum[r] = load_element(sums + (t + r) * width<T>);
  const Index step = filter.real ? 2 : 4;
  const T* taps = filter.taps + (angles - 1 - t) * step;
  for (Index s = 0; s < angles; ++s, taps += step, back += 2 * width<T>) {
    const Complex<T> p = load_element(back);
    if (filter.real) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        sum[r].re = fma(p.re, broadcast(taps[-2 * r]), sum[r].re);
        sum[r].im = fma(p.im, broadcast(taps[-2 * r + 1]), sum[r].im);
      }
      continue;
    }
    const Complex<T> q = load_element(back + width<T>);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      sum[r].re = fma(p.re, broadcast(taps[-4 * r]), sum[r].re);
      sum[r].re = fma(p.im, broadcast(taps[-4 * r + 1]), sum[r].re);
      sum[r].im = fma(q.re, broadcast(taps[-4 * r + 2]), sum[r].im);
      sum[r].im = fma(q.im, broadcast(taps[-4 * r + 3]), sum[r].im);
    }
  }
  for (int r = 0; r < R; ++r) store_element(sums + (t + r) * width<T>, sum[r]);
}

// The element of every angle at v, `pitch` numbers apart, becomes the gradient for it from those for the means of all
// filters, g[k] at k*g_pitch. Room is for 3 elements of every angle.
template <class T>
void mean_moduli_back(const Roto<T>& roto, const T* g, Index g_pitch, T* v, Index pitch, T* room) {
  const Index angles = roto.angles;
  T *back = room, *sums = room + angles * 2 * width<T>;
  for (Index t = 0; t < angles; ++t) store_element(sums + t * width<T>, Complex<T>{});
  for (Index k = 0; k < roto.filters; ++k) {
    const AngularFilter<T>& filter = roto.angular[k];
    const Vec<T> slope = load(g + k * g_pitch);
    Index s = 0;
    for (; s + angle_block <= angles; s += angle_block)
      moduli_back<T, angle_block>(filter, angles, s, v, pitch, slope, back);
    for (; s < angles; ++s) moduli_back<T, 1>(filter, angles, s, v, pitch, slope, back);
    for (s = 0; s + angle_block <= angles; s += angle_block)
      products_back<T, angle_block>(filter, angles, s, back, sums);
    for (; s < angles; ++s) products_back<T, 1>(filter, angles, s, back, sums);
  }
  for (Index t = 0; t < angles; ++t) store_element(v + t * pitch, load_element(sums + t * width<T>));
}

}  // namespace
}  // namespace fastdl::scattering
