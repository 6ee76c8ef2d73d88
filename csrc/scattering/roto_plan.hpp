// What the kernels are told of scattering on rotations and translations: tables made once, and only read afterwards.
#pragma once

#include "scattering/plan.hpp"

namespace fastdl::scattering {

// A filter h along the 2 L angles of a full turn. The second half of them has the conjugates of the first, so that of
// v(t) = a(t) + i b(t), t < L, the result at the angles s and s + L is P(s) +- i Q(s) with
//   P(s) = sum over t of (h(s - t) + h(s - t + L)) a(t),   Q(s) = sum over t of (h(s - t) - h(s - t + L)) b(t),
// a quarter of the products of the full turn. The taps of s - t lie at number s - t + L - 1: of a real filter those of
// P and Q; else the real and imaginary part of that of P, and then of Q. The mean over all angles is in them: of a real
// filter the results at s and s + L have the same modulus.
template <class T>
struct AngularFilter {
  const T* taps;
  bool real;
};

template <class T>
struct Roto {
  Plan<T> plan;  // level 0 takes averages of the padded image; those of the scales come after it
  Index scales, angles, filters, order;
  const T *phase_y, *phase_x;  // what takes the centre of an image to the origin; complex, of the half spectrum
  // Wavelets of all angles and once more from the first on, so that those of as many angles as a vector has lanes lie
  // side by side from any angle on: of first order by scale; of second by scales*j1 + j2.
  const Fold<T>*first, *second;
  const AngularFilter<T>* angular;

  const Level<T>& level(Index scale) const __attribute__((always_inline)) { return plan.level[1 + scale]; }
  // The first path of a pair of scales j1 < j2: its angles come one after the other, each with all filters.
  Index channel(Index j1, Index j2) const __attribute__((always_inline)) {
    return 1 + scales + (j1 * (2 * scales - j1 - 1) / 2 + j2 - j1 - 1) * angles * filters;
  }
};

template <class T>
inline constexpr Index most_lanes = 64 / Index(sizeof(T));

}  // namespace fastdl::scattering
