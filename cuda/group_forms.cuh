// The Fourier transforms of the point groups and their orbits, the twin of csrc/group/representations.hpp.
//
// On the orbit of a pixel (and an element) the layer is a correlation on the group, y(s) = sum over h of w(s^-1 h)
// x(h). A form turns the values x(h) by `input`, and w(h) by `filter`, into as many numbers, of which number i of both
// give number i of the sum over all orbits; `output` turns these into y(s). First come `characters`, numbers that are
// multiplied as they are. Where the form has `matrices`, four more follow, a 2 x 2 matrix by rows:
//
//   the layer            y^ = x^ w^'
//   the gradient of w    D^ = g^' x^      with D(u) = sum over s of g(s) x(s u), where g is turned by `filter`
//   the gradient of x    dx^ = g^ w^      with dx(h) = sum over s of g(s) w(s^-1 h), and w turned by `convolved`
//
// What the inverse transform divides by is in the filters.
#pragma once

#include "group.hpp"
#include "launch.cuh"

namespace fastdl::group::cuda {

// The identity alone: a plain convolution.
struct Single {
  static constexpr int elements = 1, characters = 1, numbers = 1;
  static constexpr bool matrices = false;

  template <class T>
  static __device__ __forceinline__ void input(const T (&x)[1], T (&to)[1]) {
    to[0] = x[0];
  }
  template <class T>
  static __device__ __forceinline__ void filter(const T (&w)[1], T (&to)[1]) {
    to[0] = w[0];
  }
  template <class T>
  static __device__ __forceinline__ void convolved(T (&)[1]) {}
  template <class T>
  static __device__ __forceinline__ void output(const T (&sum)[1], T (&y)[1]) {
    y[0] = sum[0];
  }
};

// p2 and pm: sum and difference.
struct TwoElements {
  static constexpr int elements = 2, characters = 2, numbers = 2;
  static constexpr bool matrices = false;

  template <class T>
  static __device__ __forceinline__ void input(const T (&x)[2], T (&to)[2]) {
    to[0] = x[0] + x[1];
    to[1] = x[0] - x[1];
  }
  template <class T>
  static __device__ __forceinline__ void filter(const T (&w)[2], T (&to)[2]) {
    to[0] = (w[0] + w[1]) * T(0.5);
    to[1] = (w[0] - w[1]) * T(0.5);
  }
  template <class T>
  static __device__ __forceinline__ void convolved(T (&)[2]) {}
  template <class T>
  static __device__ __forceinline__ void output(const T (&sum)[2], T (&y)[2]) {
    y[0] = sum[0] + sum[1];
    y[1] = sum[0] - sum[1];
  }
};

// p4: the discrete Fourier transform of four values, frequencies 0, 2 and 1. Of the last, conj(w) x of complex numbers
// in three products: wr (xr + xi), (wr - wi) xi and (wr + wi) xr; without the conjugate wi has the other sign.
struct Quarters {
  static constexpr int elements = 4, characters = 5, numbers = 5;
  static constexpr bool matrices = false;

  template <class T>
  static __device__ __forceinline__ void input(const T (&x)[4], T (&to)[5]) {
    const T even = x[0] + x[2], odd = x[1] + x[3], real = x[0] - x[2], imaginary = x[3] - x[1];
    to[0] = even + odd;
    to[1] = even - odd;
    to[2] = real + imaginary;
    to[3] = imaginary;
    to[4] = real;
  }
  template <class T>
  static __device__ __forceinline__ void filter(const T (&w)[4], T (&to)[5]) {
    const T even = (w[0] + w[2]) * T(0.25), odd = (w[1] + w[3]) * T(0.25);
    const T real = (w[0] - w[2]) * T(0.5), imaginary = (w[3] - w[1]) * T(0.5);
    to[0] = even + odd;
    to[1] = even - odd;
    to[2] = real;
    to[3] = real - imaginary;
    to[4] = real + imaginary;
  }
  template <class T>
  static __device__ __forceinline__ void convolved(T (&w)[5]) {
    const T other = w[3];
    w[3] = w[4];
    w[4] = other;
  }
  template <class T>
  static __device__ __forceinline__ void output(const T (&sum)[5], T (&y)[4]) {
    const T even = sum[0] + sum[1], odd = sum[0] - sum[1];
    const T real = sum[2] - sum[3], imaginary = sum[2] - sum[4];
    y[0] = even + real;
    y[1] = odd - imaginary;
    y[2] = even - real;
    y[3] = odd + imaginary;
  }
};

// p4m: four characters, and the symmetries of the square as 2 x 2 matrices, R = (0 -1; 1 0) and F = diag(-1, 1).
struct Square {
  static constexpr int elements = 8, characters = 4, numbers = 8;
  static constexpr bool matrices = true;

  template <class T>
  static __device__ __forceinline__ void input(const T (&x)[8], T (&to)[8]) {
    const T s0 = x[0] + x[2], d0 = x[0] - x[2], s1 = x[1] + x[3], d1 = x[1] - x[3];
    const T t0 = x[4] + x[6], e0 = x[4] - x[6], t1 = x[5] + x[7], e1 = x[5] - x[7];
    const T s_even = s0 + s1, s_odd = s0 - s1, t_even = t0 + t1, t_odd = t0 - t1;
    to[0] = s_even + t_even;
    to[1] = s_even - t_even;
    to[2] = s_odd + t_odd;
    to[3] = s_odd - t_odd;
    to[4] = d0 - e0;
    to[5] = e1 - d1;
    to[6] = d1 + e1;
    to[7] = d0 + e0;
  }
  template <class T>
  static __device__ __forceinline__ void filter(const T (&w)[8], T (&to)[8]) {
    input(w, to);
    FASTDL_UNROLL
    for (int i = 0; i < 4; ++i) to[i] *= T(0.125);
    FASTDL_UNROLL
    for (int i = 4; i < 8; ++i) to[i] *= T(0.25);
  }
  template <class T>
  static __device__ __forceinline__ void convolved(T (&)[8]) {}
  template <class T>
  static __device__ __forceinline__ void output(const T (&sum)[8], T (&y)[8]) {
    const T plus = sum[0] + sum[1], minus = sum[0] - sum[1], even = sum[2] + sum[3], odd = sum[2] - sum[3];
    const T trace = sum[4] + sum[7], other = sum[7] - sum[4], turn = sum[6] - sum[5], swap = sum[5] + sum[6];
    y[0] = plus + even + trace;
    y[1] = plus - even + turn;
    y[2] = plus + even - trace;
    y[3] = plus - even - turn;
    y[4] = minus + odd + other;
    y[5] = minus - odd + swap;
    y[6] = minus + odd - other;
    y[7] = minus - odd - swap;
  }
};

// f(form) for the form of a group.
template <class Function>
void with_form(Planar group, const Function& f) {
  if (group == Planar::one)
    f(Single{});
  else if (group == Planar::p4)
    f(Quarters{});
  else if (group == Planar::p4m)
    f(Square{});
  else
    f(TwoElements{});
}

// What an element does, as in csrc/group/layer.hpp: it turns counter-clockwise and then flips the rows.
__host__ __device__ __forceinline__ int turns_of(Planar group, int element) {
  return group == Planar::p2 ? 2 * element : group == Planar::pm || group == Planar::one ? 0 : element % 4;
}
__host__ __device__ __forceinline__ int flips_of(Planar group, int element) {
  return group == Planar::pm ? element : group == Planar::p4m ? element / 4 : 0;
}
__host__ __device__ __forceinline__ int product_of(Planar group, int a, int b) {
  const int flips = flips_of(group, a) ^ flips_of(group, b);
  const int turns = ((flips_of(group, b) ? 4 - turns_of(group, a) : turns_of(group, a)) + turns_of(group, b)) % 4;
  return group == Planar::p2 ? turns / 2 : group == Planar::pm ? flips : 4 * flips + turns;
}
// A flip is its own inverse, also where it turns first.
__host__ __device__ __forceinline__ int inverse_of(Planar group, int a) {
  return group == Planar::one ? 0 : group == Planar::p4 || (group == Planar::p4m && a < 4) ? (4 - a) % 4 : a;
}

// A pixel of a filter, or of a window.
struct Pixel {
  int row, column;
};

// Where an element moves a pixel of a k x k filter.
__device__ __forceinline__ Pixel moved(Planar group, int element, int k, Pixel q) {
  const int turns = turns_of(group, element), last = k - 1;
  const bool quarter = turns & 1;
  Pixel to = quarter ? Pixel{q.column, q.row} : q;
  // 1: (last - j, i)   2: (last - i, last - j)   3: (j, last - i)
  if ((turns == 1 || turns == 2) != (flips_of(group, element) != 0)) to.row = last - to.row;
  if (turns == 2 || turns == 3) to.column = last - to.column;
  return to;
}

// The orbits that a filter falls into (csrc/group/orbits.hpp), by number. A layer on the group has one for each pixel;
// one that lifts has one for each pixel of a part that the group moves over all.
struct Orbits {
  Planar group;
  bool lift;
  int k;

  __host__ __device__ __forceinline__ int count() const {
    const int half = (k + 1) / 2;
    if (!lift || group == Planar::one) return k * k;
    if (group == Planar::p2) return (k * k + 1) / 2;
    if (group == Planar::pm) return half * k;
    return group == Planar::p4 ? half * (k / 2) + k % 2 : half * (half + 1) / 2;
  }

  // The first pixel of an orbit.
  __device__ __forceinline__ Pixel first(int orbit) const {
    if (lift && group == Planar::p4) {
      const int half = k / 2, corner = (k + 1) / 2 * half;  // the last one is the middle
      return orbit < corner ? Pixel{orbit / half, orbit % half} : Pixel{half, half};
    }
    if (lift && group == Planar::p4m) {  // a triangle
      int row = 0;
      while ((row + 1) * (row + 2) / 2 <= orbit) ++row;
      return {row, orbit - row * (row + 1) / 2};
    }
    return {orbit / k, orbit % k};
  }

  // The orbit that a pixel is the first of, or -1.
  __device__ __forceinline__ int number(Pixel q) const {
    const int half = (k + 1) / 2;
    if (lift && group == Planar::p4) {
      const int across = k / 2;
      if (q.row < half && q.column < across) return q.row * across + q.column;
      return k % 2 && q.row == across && q.column == across ? half * across : -1;
    }
    if (lift && group == Planar::p4m)
      return q.column <= q.row && q.row < half ? q.row * (q.row + 1) / 2 + q.column : -1;
    const int at = q.row * k + q.column;
    return at < count() ? at : -1;
  }

  // How many elements leave the first pixel of an orbit where it is; a layer on the group has pairs, which none does.
  __device__ __forceinline__ int fixing(Pixel first) const {
    if (!lift) return 1;
    const int elements = group == Planar::one ? 1 : group == Planar::p4 ? 4 : group == Planar::p4m ? 8 : 2;
    int still = 0;
    for (int h = 0; h < elements; ++h) {
      const Pixel to = moved(group, h, k, first);
      still += to.row == first.row && to.column == first.column;
    }
    return still;
  }
};

}  // namespace fastdl::group::cuda
