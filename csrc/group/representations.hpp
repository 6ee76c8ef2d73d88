// The Fourier transforms of the point groups, and which products make a convolution of them.
//
// On the orbit of a pixel (and an element) the layer is a correlation on the group, y(s) = sum over h of w(s^-1 h)
// x(h). A form turns the values x(h) into `right` numbers and the values w(h) into `left` numbers, such that the terms,
// each sum[to] += left * right, taken over all orbits, give what `output` turns into y(s). The gradient of w has the
// same shape, D(u) = sum over s of g(s) x(s u), with g in the place of w, and terms of its own where the group does not
// commute. That of x is a convolution, dx(h) = sum over s of g(s) w(s^-1 h), with g in the place of x: `products` and
// `kinds` are of it. What the inverse transform divides by is in the filters.
#pragma once

#include "conv/activation.hpp"
#include "group/layer.hpp"
#include "simd/vec.hpp"

namespace fastdl::group {
namespace {

struct Term {
  int to, left, right;
};

// One sum of the gradient of x: over `length` numbers of w from `left` on, in the order that `place` gives them, and as
// many of g from `right` on. A product of matrices is so one sum for every entry, and not two.
struct Product {
  int left, right, length;
};

// What is left of the products on an orbit of pixels of which `fixing` elements leave the first where it is, `element`
// among them: the transform of w is then 0 in places, or repeats itself. source[i] is the sum that sum i is equal to,
// none if it is 0. The first |G| / fixing elements lead to all pixels.
struct Kind {
  int fixing, element;
  int source[8];
};
inline constexpr int none = -1;

// p2 and pm: sum and difference.
struct TwoElements {
  static constexpr int elements = 2, left = 2, right = 2, sums = 2;
  static constexpr Term terms[] = {{0, 0, 0}, {1, 1, 1}};
  static constexpr auto& gradient_terms = terms;
  static constexpr int place[] = {0, 1};
  static constexpr Product products[] = {{0, 0, 1}, {1, 1, 1}};
  static constexpr Kind kinds[] = {{1, 0, {0, 1}}, {2, 0, {0, none}}};

  template <class V>
  static FASTDL_INLINE void input(const V (&x)[2], V (&to)[2]) {
    to[0] = x[0] + x[1];
    to[1] = x[0] - x[1];
  }
  template <class V>
  static FASTDL_INLINE void filter(const V (&w)[2], V (&to)[2]) {
    using T = decltype(w[0][0] + 0);
    to[0] = (w[0] + w[1]) * T(0.5);
    to[1] = (w[0] - w[1]) * T(0.5);
  }
  template <class V>
  static FASTDL_INLINE void output(const V (&sum)[2], V (&y)[2]) {
    y[0] = sum[0] + sum[1];
    y[1] = sum[0] - sum[1];
  }
};

// p4: the discrete Fourier transform of four values, frequencies 0, 2 and 1. Of the last, conj(w) x of complex numbers
// in three products: wr (xr + xi), (wr - wi) xi and (wr + wi) xr. The gradient of x has w g, without the conjugate.
struct Quarters {
  static constexpr int elements = 4, left = 5, right = 5, sums = 5;
  static constexpr Term terms[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 4}, {3, 3, 3}, {4, 4, 2}};
  static constexpr auto& gradient_terms = terms;
  static constexpr int place[] = {0, 1, 2, 3, 4};
  static constexpr Product products[] = {{0, 0, 1}, {1, 1, 1}, {2, 4, 1}, {4, 3, 1}, {3, 2, 1}};
  static constexpr Kind kinds[] = {{1, 0, {0, 1, 2, 3, 4}}, {4, 0, {0, none, none, none, none}}};

  template <class V>
  static FASTDL_INLINE void input(const V (&x)[4], V (&to)[5]) {
    const V even = x[0] + x[2], odd = x[1] + x[3], real = x[0] - x[2], imaginary = x[3] - x[1];
    to[0] = even + odd;
    to[1] = even - odd;
    to[2] = real;
    to[3] = imaginary;
    to[4] = real + imaginary;
  }
  template <class V>
  static FASTDL_INLINE void filter(const V (&w)[4], V (&to)[5]) {
    using T = decltype(w[0][0] + 0);
    const V even = (w[0] + w[2]) * T(0.25), odd = (w[1] + w[3]) * T(0.25);
    const V real = (w[0] - w[2]) * T(0.5), imaginary = (w[3] - w[1]) * T(0.5);
    to[0] = even + odd;
    to[1] = even - odd;
    to[2] = real;
    to[3] = real - imaginary;
    to[4] = real + imaginary;
  }
  template <class V>
  static FASTDL_INLINE void output(const V (&sum)[5], V (&y)[4]) {
    const V even = sum[0] + sum[1], odd = sum[0] - sum[1];
    const V real = sum[2] - sum[3], imaginary = sum[2] - sum[4];
    y[0] = even + real;
    y[1] = odd - imaginary;
    y[2] = even - real;
    y[3] = odd + imaginary;
  }
};

// p4m: four characters, and the symmetries of the square as 2 x 2 matrices, R = (0 -1; 1 0) and F = diag(-1, 1): with
// x^ = sum of x(h) rho(h), y^ = x^ w^', D^ = g^' x^ and dx^ = g^ w^.
struct Square {
  static constexpr int elements = 8, left = 8, right = 8, sums = 8;
  // Matrices are numbers 4 to 7, by rows.
  static constexpr Term terms[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {4, 5, 5},
                                   {5, 6, 4}, {5, 7, 5}, {6, 4, 6}, {6, 5, 7}, {7, 6, 6}, {7, 7, 7}};
  static constexpr Term gradient_terms[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {4, 4, 4}, {4, 6, 6},
                                            {5, 4, 5}, {5, 6, 7}, {6, 5, 4}, {6, 7, 6}, {7, 5, 5}, {7, 7, 7}};
  // w^ by columns.
  static constexpr int place[] = {0, 1, 2, 3, 4, 6, 5, 7};
  static constexpr Product products[] = {{0, 0, 1}, {1, 1, 1}, {2, 2, 1}, {3, 3, 1},
                                         {4, 4, 2}, {6, 4, 2}, {4, 6, 2}, {6, 6, 2}};
  // Where w(h e) = w(h), w^ rho(e) = w^: rho is diag(1, -1) of element 6, which leaves the middle column where it is,
  // and (0 1; 1 0) of element 5, which leaves the diagonal.
  static constexpr Kind kinds[] = {{1, 0, {0, 1, 2, 3, 4, 5, 6, 7}},
                                   {2, 6, {0, none, 2, none, 4, none, 6, none}},
                                   {2, 5, {0, none, none, 3, 4, 4, 6, 6}},
                                   {8, 0, {0, none, none, none, none, none, none, none}}};

  template <class V>
  static FASTDL_INLINE void input(const V (&x)[8], V (&to)[8]) {
    const V s0 = x[0] + x[2], d0 = x[0] - x[2], s1 = x[1] + x[3], d1 = x[1] - x[3];
    const V t0 = x[4] + x[6], e0 = x[4] - x[6], t1 = x[5] + x[7], e1 = x[5] - x[7];
    const V s_even = s0 + s1, s_odd = s0 - s1, t_even = t0 + t1, t_odd = t0 - t1;
    to[0] = s_even + t_even;
    to[1] = s_even - t_even;
    to[2] = s_odd + t_odd;
    to[3] = s_odd - t_odd;
    to[4] = d0 - e0;
    to[5] = e1 - d1;
    to[6] = d1 + e1;
    to[7] = d0 + e0;
  }
  template <class V>
  static FASTDL_INLINE void filter(const V (&w)[8], V (&to)[8]) {
    using T = decltype(w[0][0] + 0);
    input(w, to);
    for (int i = 0; i < 4; ++i) to[i] = to[i] * T(0.125);
    for (int i = 4; i < 8; ++i) to[i] = to[i] * T(0.25);
  }
  template <class V>
  static FASTDL_INLINE void output(const V (&sum)[8], V (&y)[8]) {
    const V plus = sum[0] + sum[1], minus = sum[0] - sum[1], even = sum[2] + sum[3], odd = sum[2] - sum[3];
    const V trace = sum[4] + sum[7], other = sum[7] - sum[4], turn = sum[6] - sum[5], swap = sum[5] + sum[6];
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
FASTDL_INLINE void with_form(Planar group, const Function& f) {
  if (group == Planar::p4)
    f(Quarters{});
  else if (group == Planar::p4m)
    f(Square{});
  else
    f(TwoElements{});
}

}  // namespace
}  // namespace fastdl::group
