// The activities of a block of samples, one after the other, from the products of the samples with the weights before
// them and with each other; and from these what the weights need to take the whole block at once.
#pragma once

#include "core/scratch.hpp"
#include "hebbian/coefficients.hpp"

namespace fastdl::hebbian {
namespace {

inline constexpr Index longest_block = 32;
inline constexpr Known<longest_block> stride{};  // of rows with a number for every sample of a block

// What a worker finds out of a block, for itself. All arrays have room for whole vectors.
template <class T>
class Settled {
 public:
  T* fields;          // units x samples: W B', and less and less of it, until the sample itself is reached
  T* grams;           // samples x samples: B B', on and above the diagonal
  T *first, *second;  // units x samples: for sanger -y and lr*y, for subspace -y and C, else C in second
  T* scale;           // of every unit, for rules in which units learn by themselves
  T* squares;         // squared lengths of the units, for the rule that normalises
  T* theta;           // thresholds, of a rule that has them

  Settled(core::Scratch& scratch, Index units, Index block, const T* thresholds) __attribute__((always_inline))
      : units_(units) {
    const Index padded = round_up(units, step<T>);
    for (T** matrix : {&fields, &first, &second}) *matrix = scratch.array<T>(units, stride);
    for (T** matrix : {&grams, &overlaps_, &inverse_}) *matrix = scratch.array<T>(block, stride);
    for (T** vector : {&scale, &squares, &theta, &activity_, &factor_, &gain_}) *vector = scratch.array<T>(padded);
    for (Index i = 0; i < padded; ++i) activity_[i] = 0;
    if (!thresholds) theta = nullptr;
    for (Index i = 0; i < units && thresholds; ++i) theta[i] = thresholds[i];
  }

  // `count` samples, with the steps from number `sample` on.
  void settle(const Rule& rule, const Steps<T>& lr, Index sample, Index count) {
    for (Index i = 0; i < units_; ++i) scale[i] = 1;
    for (Index t = 0; t < count; ++t) settle_one(rule, lr[sample + t], t, count);
    if (rule.kind == FASTDL_HEBBIAN_SUBSPACE) {
      overlap(count);
      invert(lr, sample, count);
    } else if (!deflates(rule)) {
      scale_gains(count);
    }
  }

 private:
  void settle_one(const Rule& rule, T lr, Index t, Index count) {
    const T* g = grams + t * stride;
    // Fields of the samples that are still to come.
    const Index from = (t + 1) / step<T> * step<T>, to = round_up(count, step<T>);
    if (rule.kind == FASTDL_HEBBIAN_SANGER) {
      for (Index i = 0; i < units_; ++i) {
        const T y = fields[i * stride + t];
        first[i * stride + t] = -y;
        second[i * stride + t] = lr * y;
      }
      deflate_once<T>(g, fields, stride, from, to, units_, first + t, second + t, stride);
    } else if (rule.kind == FASTDL_HEBBIAN_SUBSPACE) {
      for (Index i = 0; i < units_; ++i) {
        const T y = fields[i * stride + t];
        first[i * stride + t] = -y;
        gain_[i] = lr * y;
      }
      project_once<T>(g, fields, stride, from, to, units_, first + t, stride, gain_);
    } else {
      for (Index i = 0; i < units_; ++i) activity_[i] = fields[i * stride + t];
      coefficients<T>(rule, activity_, units_, lr, g[t], squares, theta, factor_, gain_);
      for (Index i = 0; i < units_; ++i) {
        first[i * stride + t] = factor_[i];
        second[i * stride + t] = gain_[i];
        if (factor_[i] == T(1) && gain_[i] == T(0)) continue;
        const Vec<T> factor = broadcast(factor_[i]), gain = broadcast(gain_[i]);
        T* field = fields + i * stride;
        for (Index j = from; j < to; j += step<T>)
          simd::store(field + j, simd::fma(gain, simd::load(g + j), simd::load(field + j) * factor));
      }
    }
  }

  // W = scale W + sum of gain_t x_t: what comes after a sample scales its gain.
  void scale_gains(Index count) {
    for (Index i = 0; i < units_; ++i) {
      T after = 1;
      for (Index t = count - 1; t >= 0; --t) {
        second[i * stride + t] *= after;
        after *= first[i * stride + t];
      }
      scale[i] = after;
    }
  }

  // overlaps[t, u] = y_t.y_u below the diagonal, and zeros
  void overlap(Index count) {
    const Index columns = round_up(count, step<T>);
    for (Index i = 0; i < units_; ++i)
      for (Index t = count; t < columns; ++t) first[i * stride + t] = 0;
    combine<T>(
        Combination<T, Known<1>, Known<stride>, Known<stride>, Known<stride>>{
            first, {}, {}, first, {}, units_, nullptr, nullptr, overlaps_, {}},
        count, columns);
    for (Index t = 0; t < count; ++t)
      for (Index u = t; u < columns; ++u) overlaps_[t * stride + u] = 0;
  }

  // The residuals R of a block are E less what earlier ones took from them: (1 + L) R = E = B - Y' W with
  // L[t, u] = lr_u y_t.y_u below the diagonal. So W + lr Y R = W + C E with C (1 + L) = lr Y, which is solved from the
  // last column on: for the rows of minus the identity, and then C is a product. (By itself every unit's row took a
  // quarter of all, with 256 of them.)
  void invert(const Steps<T>& lr, Index sample, Index count) {
    const Index columns = round_up(count, step<T>);
    for (Index i = 0; i < count; ++i) {
      T* row = inverse_ + i * stride;
      for (Index t = 0; t < columns; ++t) row[t] = T(t == i ? -1 : 0);
      for (Index t = i; t >= 0; --t) {
        const T* overlap = overlaps_ + t * stride;
        row[t] *= lr[sample + t];
        const Vec<T> minus = broadcast(-row[t]);
        for (Index j = 0; j < t; j += step<T>)
          simd::store(row + j, simd::fma(minus, simd::load(overlap + j), simd::load(row + j)));
      }
    }
    combine<T>(
        Combination<T, Known<stride>, Known<1>, Known<stride>, Known<stride>>{
            first, {}, {}, inverse_, {}, count, nullptr, nullptr, second, {}},
        units_, columns);
  }

  Index units_;
  T *overlaps_, *inverse_, *activity_, *factor_, *gain_;
};

}  // namespace
}  // namespace fastdl::hebbian
