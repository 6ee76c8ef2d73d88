// What a sample does to every unit: w_i becomes scale_i w_i + gain_i x, for rules in which units meet only in this.
#pragma once

#include "hebbian/strips.hpp"
#include "simd/math.hpp"

namespace fastdl::hebbian {
namespace {

inline bool deflates(const Rule& rule) {
  return rule.kind == FASTDL_HEBBIAN_SANGER || rule.kind == FASTDL_HEBBIAN_SUBSPACE;
}

// Number `rank` of the units by activity, from 1 on; of equal ones the first is the larger.
template <class T>
Index ranked(const T* y, Index units, Index rank) {
  Index last = -1;
  for (Index place = 0; place < rank; ++place) {
    Index best = -1;
    for (Index i = 0; i < units; ++i) {
      const bool left = last < 0 || y[i] < y[last] || (y[i] == y[last] && i > last);
      if (left && (best < 0 || y[i] > y[best])) best = i;
    }
    if (best < 0) return last;  // not a number: the weights end so too
    last = best;
  }
  return last;
}

// Whether a squared length is the sum of squares that neither overflowed nor vanished.
template <class T>
bool is_safe(T square) {
  constexpr T least = sizeof(T) == 4 ? T(1e-30) : T(1e-280), most = sizeof(T) == 4 ? T(1e38) : T(1e300);
  return square >= least && square <= most;
}

// `squares`: the squared lengths of the units, kept for the rule that normalises; `square` that of the sample. All
// arrays have room for whole vectors.
template <class T>
void coefficients(const Rule& rule, const T* y, Index units, T lr, T square, T* squares, T* theta, T* scale, T* gain) {
  switch (rule.kind) {
    case FASTDL_HEBBIAN_OJA:
      for (Index i = 0; i < units; ++i) {
        gain[i] = lr * y[i];
        scale[i] = T(1) - gain[i] * y[i];
      }
      return;
    case FASTDL_HEBBIAN_NORMALIZED:
      for (Index i = 0; i < units; ++i) {
        const T e = lr * y[i], length = squares[i] + e * (y[i] + y[i]) + e * e * square;
        // Beyond these the square has lost digits, or all: not a number, and so the plain loop starts over.
        const T inverse = is_safe(length) ? T(1) / T(__builtin_sqrt(double(length))) : T(__builtin_nan(""));
        scale[i] = inverse;
        gain[i] = e * inverse;
        squares[i] = 1;
      }
      return;
    case FASTDL_HEBBIAN_BCM: {
      const T share = T(1 / rule.tau);
      for (Index i = 0; i < units; ++i) {
        scale[i] = 1;
        gain[i] = lr * y[i] * (y[i] - theta[i]);
        theta[i] += (y[i] * y[i] - theta[i]) * share;
      }
      return;
    }
    case FASTDL_HEBBIAN_KROTOV: {
      for (Index i = 0; i < units; ++i) scale[i] = 1, gain[i] = 0;
      for (Index i = 0; i < units; ++i)
        if (!(y[i] * T(0) == T(0)))
          gain[i] = y[i] * T(0);  // no order among these: not a number, for the loop to look at
      const auto set = [&](Index i, T g) {
        gain[i] = lr * g;
        scale[i] = T(1) - gain[i] * y[i];
      };
      if (units > 0) set(ranked(y, units, 1), 1);
      if (rule.rank <= units) set(ranked(y, units, rule.rank), T(-rule.delta));
      return;
    }
    case FASTDL_HEBBIAN_SOFT: {
      T most = -T(__builtin_inf()), total = 0;
      for (Index i = 0; i < units; ++i) most = y[i] > most || y[i] != y[i] ? y[i] : most;
      constexpr double most_inverse = sizeof(T) == 4 ? double(__FLT_MAX__) : __DBL_MAX__;
      const T inverse = T(1 / rule.temperature < most_inverse ? 1 / rule.temperature : most_inverse);
      for (Index i = 0; i < units; i += step<T>) {
        const int here = int(at_most(step<T>, units - i));
        simd::store(gain + i, simd::exp((simd::load_first(y + i, here) - most) * inverse));
      }
      for (Index i = 0; i < units; ++i) total += gain[i];
      for (Index i = 0; i < units; ++i) {
        gain[i] *= lr / total;
        scale[i] = T(1) - gain[i] * y[i];
      }
      return;
    }
    default:
      for (Index i = 0; i < units; ++i) scale[i] = 1, gain[i] = lr * y[i];
  }
}

}  // namespace
}  // namespace fastdl::hebbian
