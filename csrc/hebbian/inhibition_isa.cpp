// Foldiak's rule, compiled once per instruction-set level: units that excite by Hebb's rule, and inhibit each other by
// its opposite. A sample after the other: the activities settle in `steps` products with the weights between units,
// which is where the time goes. All in double: an activity near one half decides as it does in the formula.
#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "hebbian/strips.hpp"
#include "simd/math.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

using F = double;

// Rows of doubles with room for whole vectors, zeros there.
struct Rows {
  F* data;
  Index stride;

  F* operator[](Index i) const { return data + i * stride; }
};

template <class T>
Rows wide_copy(const Matrix<const T>& from, core::Scratch& scratch) {
  const Index stride = round_up(from.cols, step<F>);
  const Rows to{scratch.array<F>(from.rows, stride), stride};
  for (Index i = 0; i < from.rows; ++i)
    for (Index j = 0; j < stride; ++j)
      to[i][j] = j < from.cols ? F(from.data[i * from.row_stride + j * from.col_stride]) : F(0);
  return to;
}

template <class T>
class Inhibition {
 public:
  Inhibition(const Settling& how, const Matrix<const T>& w, const Matrix<const T>& lateral, const T* threshold)
      : how_(how), units_(w.rows), features_(w.cols), weights_(wide_copy(w, scratch_)) {
    // Column by column: the activities that a unit inhibits lie abreast.
    columns_ =
        wide_copy(Matrix<const T>{lateral.data, units_, units_, lateral.col_stride, lateral.row_stride}, scratch_);
    for (F** vector : {&threshold_, &drive_, &activity_, &next_}) *vector = scratch_.array<F>(columns_.stride);
    active_ = scratch_.array<bool>(units_);
    sample_ = scratch_.array<F>(weights_.stride);
    for (Index i = 0; i < columns_.stride; ++i) threshold_[i] = i < units_ ? F(threshold[i]) : F(0);
    for (Index i = 0; i < columns_.stride; ++i) drive_[i] = 0;
  }

  // The first sample after which not all is finite, or all_finite.
  Index run(const Matrix<const T>& x, Steps<T> lr) {
    for (Index j = 0; j < weights_.stride; ++j) sample_[j] = 0;
    for (Index t = 0; t < x.rows; ++t) {
      core::check_interrupt(t, units_ * (features_ + units_ * how_.steps));
      F sum = 0;
      for (Index j = 0; j < features_; ++j) {
        sample_[j] = F(x.data[t * x.row_stride + j * x.col_stride]);
        sum += sample_[j] * F(0);
      }
      settle();
      // By the formula, units that are not active take 0 of the sample: that is no number if this is none.
      if (!learn(F(lr[t])) || (units_ > 0 && sum != F(0))) return t;
    }
    return all_finite;
  }

  void write(const Matrix<T>& w, const Matrix<T>& lateral, T* threshold) const {
    for (Index i = 0; i < units_; ++i) {
      for (Index j = 0; j < features_; ++j) w.data[i * w.row_stride + j * w.col_stride] = T(weights_[i][j]);
      for (Index j = 0; j < units_; ++j)
        lateral.data[i * lateral.row_stride + j * lateral.col_stride] = T(columns_[j][i]);
      threshold[i] = T(threshold_[i]);
    }
  }

 private:
  // u += (f(W x + V u - threshold) - u) / 10, again and again from 0
  void settle() {
    for (Index i = 0; i < units_; ++i) {
      Vec<F> sum{};
      for (Index j = 0; j < weights_.stride; j += step<F>)
        sum = simd::fma(simd::load(weights_[i] + j), simd::load(sample_ + j), sum);
      F total = 0;
      for (int l = 0; l < step<F>; ++l) total += sum[l];
      drive_[i] = total - threshold_[i];
    }
    const Index width = columns_.stride;
    for (Index i = 0; i < width; ++i) activity_[i] = 0;
    for (Index round = 0; round < how_.steps; ++round) {
      core::check_interrupt(round, units_ * units_);
      settle_some<4>(0, width);
      F* before = activity_;
      activity_ = next_;
      next_ = before;
    }
    for (Index i = 0; i < units_; ++i) active_[i] = activity_[i] > F(0.5);
  }

  // Some vectors of units, four at a time while there are as many.
  template <int Vectors>
  void settle_some(Index first, Index width) {
    for (; first + Vectors * step<F> <= width; first += Vectors * step<F>) {
      Vec<F> field[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) field[v] = simd::load(drive_ + first + v * step<F>);
      for (Index j = 0; j < units_; ++j) {
        const Vec<F> u = broadcast(activity_[j]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v)
          field[v] = simd::fma(simd::load(columns_[j] + first + v * step<F>), u, field[v]);
      }
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        const Vec<F> u = simd::load(activity_ + first + v * step<F>);
        const Vec<F> wanted = simd::sigmoid(field[v] * F(how_.steepness));
        simd::store(next_ + first + v * step<F>, u + (wanted - u) * F(0.1));
      }
    }
    if constexpr (Vectors > 1)
      if (first < width) settle_some<Vectors / 2>(first, width);
  }

  // Whether all weights and thresholds are finite after it, in their own type.
  bool learn(F lr) {
    bool finite = true;
    for (Index i = 0; i < units_; ++i) {
      for (Index j = 0; active_[i] && j < weights_.stride; j += step<F>) {
        const Vec<F> w = simd::load(weights_[i] + j), learnt = w + (simd::load(sample_ + j) - w) * lr;
        simd::store(weights_[i] + j, learnt);
        finite &= !simd::any(!(simd::abs(learnt) <= broadcast(F(most))));
      }
      for (Index j = 0; j < units_; ++j) {
        const F inhibition =
            columns_[i][j] - how_.lateral_lr * (F(active_[i] && active_[j]) - how_.activity * how_.activity);
        columns_[i][j] = i == j || inhibition > 0 ? F(0) : inhibition;
        finite &= inhibition >= -F(most);
      }
      threshold_[i] += how_.threshold_lr * (F(active_[i]) - how_.activity);
      finite &= threshold_[i] <= F(most) && threshold_[i] >= -F(most);
    }
    return finite;
  }

  static constexpr T most = sizeof(T) == 4 ? T(__FLT_MAX__) : T(__DBL_MAX__);

  Settling how_;
  Index units_, features_;
  core::Scratch scratch_;
  Rows weights_, columns_;
  F *threshold_, *drive_, *activity_, *next_, *sample_;
  bool* active_;
};

template <class T>
void foldiak_of(const Settling& how, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr,
                const Matrix<T>& out, const Matrix<T>& lateral, T* threshold, Index& diverged) {
  diverged = bad_from_the_start;
  if (x.rows > 0 && !all_numbers(w)) return;
  Inhibition<T> inhibition(how, w, {lateral.data, lateral.rows, lateral.cols, lateral.row_stride, lateral.col_stride},
                           threshold);
  diverged = inhibition.run(x, lr);
  if (diverged == all_finite) inhibition.write(out, lateral, threshold);
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                            \
  void foldiak(const Settling& how, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr,   \
               const Matrix<T>& out, const Matrix<T>& lateral, T* threshold, std::int64_t& diverged) { \
    foldiak_of<T>(how, w, x, lr, out, lateral, threshold, diverged);                                   \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::hebbian::FASTDL_LEVEL
