// Competition in a norm other than 2: fields are taken of sign(w) |w|^(p-1), which is kept beside the weights and made
// anew for the two units that learn from a sample.
#pragma once

#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "hebbian/coefficients.hpp"

namespace fastdl::hebbian {
namespace {

template <class T>
class Competition {
 public:
  Competition(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr)
      : rule_(rule), x_(x), lr_(lr), units_(w.rows), features_(w.cols), length_(round_up(w.cols, step<T>)) {
    weights_ = scratch_.array<T>(units_, length_);
    powers_ = scratch_.array<T>(units_, length_);
    sample_ = scratch_.array<T>(length_);
    fields_ = scratch_.array<T>(units_);
    const double whole = __builtin_floor(rule.norm);
    factors_ = rule.norm == whole && rule.norm <= 9 ? int(whole) - 1 : -1;
    for (Index i = 0; i < units_; ++i) {
      pack_piece(w, i, {0, length_}, weights_ + i * length_);
      raise(i);
    }
  }

  // The first sample after which not all is finite, or all_finite.
  Index run() {
    for (Index t = 0; t < x_.rows && units_ > 0; ++t) {
      core::check_interrupt(t, units_ * length_);
      pack_piece(x_, t, {0, length_}, sample_);
      T sum = 0;
      for (Index i = 0; i < units_; ++i) {
        fields_[i] = field(i);
        sum += fields_[i] * T(0);
      }
      if (sum != T(0)) return t;  // no order among these
      const Index first = ranked(fields_, units_, 1);
      bool finite;
      if (rule_.rank <= units_) {
        const Index other = ranked(fields_, units_, rule_.rank);
        const bool one = learn(first, lr_[t]), two = learn(other, T(-rule_.delta) * lr_[t]);
        finite = one && two;
      } else {
        finite = learn(first, lr_[t]);
      }
      if (!finite) return t;
    }
    return all_finite;
  }

  void write(const Matrix<T>& out) const {
    for (Index i = 0; i < out.rows; ++i)
      for (Index j = 0; j < out.cols; ++j)
        out.data[i * out.row_stride + j * out.col_stride] = weights_[i * length_ + j];
  }

 private:
  T field(Index i) const {
    Vec<T> sum{};
    for (Index j = 0; j < length_; j += step<T>)
      sum = simd::fma(simd::load(powers_ + i * length_ + j), simd::load(sample_ + j), sum);
    T total = 0;
    for (int l = 0; l < step<T>; ++l) total += sum[l];
    return total;
  }

  // w += gain (x - field w); whether it is finite
  bool learn(Index i, T gain) {
    T* w = weights_ + i * length_;
    const Vec<T> g = broadcast(gain), scale = broadcast(T(1) - gain * fields_[i]);
    Vec<T> sum{};
    for (Index j = 0; j < length_; j += step<T>) {
      const Vec<T> learnt = simd::fma(g, simd::load(sample_ + j), simd::load(w + j) * scale);
      simd::store(w + j, learnt);
      sum += learnt * T(0);
    }
    raise(i);
    return !simd::any(sum != sum);
  }

  void raise(Index i) {
    const T* w = weights_ + i * length_;
    T* to = powers_ + i * length_;
    for (Index j = 0; j < length_; j += step<T>) {
      const Vec<T> weight = simd::load(w + j), size = simd::abs(weight);
      Vec<T> power = broadcast(T(1));
      for (int f = 0; f < factors_; ++f) power *= size;
      for (int l = 0; l < step<T> && factors_ < 0; ++l) power[l] = T(__builtin_pow(double(size[l]), rule_.norm - 1));
      simd::store(to + j, simd::select(weight > Vec<T>{}, power, simd::select(weight < Vec<T>{}, -power, weight)));
    }
  }

  Rule rule_;
  Matrix<const T> x_;
  Steps<T> lr_;
  Index units_, features_, length_;
  int factors_;  // the exponent, if it is a small whole number
  core::Scratch scratch_;
  T *weights_, *powers_, *sample_, *fields_;
};

}  // namespace
}  // namespace fastdl::hebbian
