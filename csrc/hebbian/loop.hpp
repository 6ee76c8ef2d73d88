// The plain loop: a sample after the other, in one pass over the weights that updates them and takes their products
// with the next sample on the way (subspace: two passes). For few weights, where blocks do not pay.
#pragma once

#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "hebbian/coefficients.hpp"

namespace fastdl::hebbian {
namespace {

// Four interleaved sums: their chains are shorter than the loads.
template <class T>
struct Dot {
  Vec<T> sums[4] = {};

  FASTDL_INLINE void add(int place, Vec<T> a, Vec<T> b) { sums[place] = simd::fma(a, b, sums[place]); }
  T total() const {
    const Vec<T> all = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    T result = 0;
    for (int l = 0; l < step<T>; ++l) result += all[l];
    return result;
  }
};

// A sample as it is read in groups of vectors: as it lies, but for a last group that would end past it, of which there
// is a copy filled up with zeros.
template <class T>
struct Sample {
  const T *body, *tail;
};

template <class T>
class Loop {
 public:
  Loop(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, T* theta)
      : rule_(rule), x_(x), lr_(lr), theta_(theta), units_(w.rows), length_(round_up(w.cols, group)) {
    body_ = x.col_stride == 1 ? w.cols / group * group : 0;
    weights_ = scratch_.array<T>(units_, length_);
    for (T*& tail : tails_) tail = scratch_.array<T>(length_ - body_);
    left_ = scratch_.array<T>(length_);
    const Index padded = round_up(units_, step<T>);
    for (T** vector : {&activity_, &scale_, &gain_, &squares_}) *vector = scratch_.array<T>(padded);
    for (Index i = 0; i < padded; ++i) activity_[i] = 0;
    for (Index i = 0; i < units_; ++i) {
      for (Index j = 0; j < w.cols; ++j) weights_[i * length_ + j] = w.data[i * w.row_stride + j * w.col_stride];
      for (Index j = w.cols; j < length_; ++j) weights_[i * length_ + j] = 0;
    }
    for (T* tail : tails_)
      for (Index j = 0; j < length_ - body_; ++j) tail[j] = 0;
  }

  // The first sample after which not all is finite, or all_finite. Looks after every sample, or at the end only.
  Index run(bool careful) {
    if (x_.rows == 0) return all_finite;
    Sample<T> sample = row(0);
    for (Index i = 0; i < units_; ++i) activity_[i] = dot(weights_ + i * length_, sample);
    for (Index t = 0; t < x_.rows; ++t) {
      core::check_interrupt(t, units_ * length_);
      const Sample<T> next = t + 1 < x_.rows ? row(t + 1) : sample;
      learn(lr_[t], sample, next);
      if (careful && !finite()) return t;
      sample = next;
    }
    return careful || finite() ? all_finite : x_.rows - 1;
  }

  void write(const Matrix<T>& out) const {
    for (Index i = 0; i < out.rows; ++i)
      for (Index j = 0; j < out.cols; ++j)
        out.data[i * out.row_stride + j * out.col_stride] = weights_[i * length_ + j];
  }

 private:
  static constexpr Index group = 4 * step<T>;

  bool finite() const {
    Vec<T> sum{};
    for (Index i = 0; i < units_ * length_; i += step<T>) sum += simd::load(weights_ + i) * T(0);
    T other = 0;
    if (theta_)
      for (Index i = 0; i < units_; ++i) other += theta_[i] * T(0);
    return !simd::any(sum != sum) && other == T(0);
  }

  Sample<T> row(Index t) {
    const T* source = x_.data + t * x_.row_stride;
    T* tail = tails_[t % 2];
    for (Index j = body_; j < x_.cols; ++j) tail[j - body_] = source[j * x_.col_stride];
    return {source, tail};
  }

  // function(place, of the vector within its group, the same place in each of the samples) for all vectors of a row
  template <class Function, class... Samples>
  FASTDL_INLINE void each(const Function& function, const Samples&... samples) const {
    for (Index j = 0; j < body_; j += group)
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) function(j + p * step<T>, p, samples.body + j + p * step<T>...);
    for (Index j = body_; j < length_; j += group)
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) function(j + p * step<T>, p, samples.tail + j - body_ + p * step<T>...);
  }

  T dot(const T* w, const Sample<T>& x) const {
    Dot<T> sum;
    each([&](Index at, int p, const T* a) { sum.add(p, simd::load(w + at), simd::load(a)); }, x);
    return sum.total();
  }

  // What a row is to be multiplied with for length 1. Where its square is beyond the type, it gets that length here.
  T inverse_length(T* w) const {
    const T square = dot(w, {w, w + body_});
    if (is_safe(square)) return T(1) / T(__builtin_sqrt(double(square)));
    T most = 0, sum = 0;
    for (Index j = 0; j < length_; ++j) {
      const T size = w[j] < 0 ? -w[j] : w[j];
      if (size > most || size != size) most = size;
    }
    if (most == T(0)) return T(1);
    for (Index j = 0; j < length_; ++j) {
      w[j] /= most;  // not a number, if the largest is infinite
      sum += w[j] * w[j];
    }
    return T(1) / T(__builtin_sqrt(double(sum)));
  }

  void learn(T lr, const Sample<T>& sample, const Sample<T>& next) {
    const auto weights = [&](Index i) { return weights_ + i * length_; };
    const Sample<T> left{left_, left_ + body_};
    if (deflates(rule_)) each([&](Index at, int, const T* a) { simd::store(left_ + at, simd::load(a)); }, sample);
    if (rule_.kind == FASTDL_HEBBIAN_SANGER) {
      for (Index i = 0; i < units_; ++i) activity_[i] = deflate(weights(i), -activity_[i], lr * activity_[i], next);
    } else if (rule_.kind == FASTDL_HEBBIAN_SUBSPACE) {
      for (Index i = 0; i < units_; ++i) add(left_, {weights(i), weights(i) + body_}, -activity_[i]);
      for (Index i = 0; i < units_; ++i) activity_[i] = update(weights(i), 1, lr * activity_[i], left, next);
    } else if (rule_.kind == FASTDL_HEBBIAN_NORMALIZED) {
      // The length is that of the weights themselves, not what should have become of it.
      for (Index i = 0; i < units_; ++i) {
        T* w = weights(i);
        add(w, sample, lr * activity_[i]);
        activity_[i] = update(w, inverse_length(w), 0, {w, w + body_}, next);
      }
    } else {
      coefficients<T>(rule_, activity_, units_, lr, T(0), squares_, theta_, scale_, gain_);
      for (Index i = 0; i < units_; ++i) {
        const bool same = scale_[i] == T(1) && gain_[i] == T(0);
        activity_[i] = same ? dot(weights(i), next) : update(weights(i), scale_[i], gain_[i], sample, next);
      }
    }
  }

  void add(T* to, const Sample<T>& what, T factor) const {
    const Vec<T> f = broadcast(factor);
    each([&](Index at, int, const T* a) { simd::store(to + at, simd::fma(f, simd::load(a), simd::load(to + at))); },
         what);
  }

  // w = scale w + gain x; gives w.next
  T update(T* w, T scale, T gain, const Sample<T>& sample, const Sample<T>& next) const {
    const Vec<T> s = broadcast(scale), g = broadcast(gain);
    Dot<T> sum;
    each(
        [&](Index at, int p, const T* x, const T* n) {
          const Vec<T> weight = simd::fma(g, simd::load(x), simd::load(w + at) * s);
          simd::store(w + at, weight);
          sum.add(p, weight, simd::load(n));
        },
        sample, next);
    return sum.total();
  }

  // left -= y w, then w += step left; gives w.next
  T deflate(T* w, T minus_y, T step_y, const Sample<T>& next) {
    const Vec<T> y = broadcast(minus_y), e = broadcast(step_y);
    Dot<T> sum;
    each(
        [&](Index at, int p, const T* n) {
          const Vec<T> before = simd::load(w + at), left = simd::fma(y, before, simd::load(left_ + at));
          const Vec<T> weight = simd::fma(e, left, before);
          simd::store(left_ + at, left);
          simd::store(w + at, weight);
          sum.add(p, weight, simd::load(n));
        },
        next);
    return sum.total();
  }

  Rule rule_;
  Matrix<const T> x_;
  Steps<T> lr_;
  T* theta_;
  Index units_, length_, body_;
  core::Scratch scratch_;
  T *weights_, *tails_[2], *left_, *activity_, *scale_, *gain_, *squares_;
};

}  // namespace
}  // namespace fastdl::hebbian
