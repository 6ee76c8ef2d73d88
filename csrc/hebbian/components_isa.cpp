// Candid components and running means, compiled once per instruction-set level.
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "hebbian/strips.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

template <class T>
T total_of(Vec<T> a, Vec<T> b) {
  const Vec<T> all = a + b;
  T result = 0;
  for (int l = 0; l < step<T>; ++l) result += all[l];
  return result;
}

// One sample after the other, two passes over a component each: it takes what is left of the sample, and gives its
// length and product with it; then that is subtracted, and multiplied with the next component.
template <class T>
class Candid {
 public:
  Candid(const Matrix<const T>& v, const Matrix<const T>& x, Index count, double amnesic)
      : x_(x), count_(count), amnesic_(amnesic), units_(v.rows), length_(round_up(v.cols, 2 * step<T>)) {
    components_ = scratch_.array<T>(units_, length_);
    left_ = scratch_.array<T>(length_);
    squares_ = scratch_.array<T>(units_);
    for (Index j = 0; j < length_; ++j) left_[j] = 0;
    scale_ = scale_for(v, x);
    for (Index i = 0; i < units_; ++i) {
      T* row = components_ + i * length_;
      for (Index j = 0; j < length_; ++j)
        row[j] = j < v.cols ? v.data[i * v.row_stride + j * v.col_stride] * scale_ * scale_ : T(0);
      squares_[i] = dot(row, row);
    }
  }

  Index run(bool careful) {
    for (Index t = 0; t < x_.rows; ++t) {
      learn(t);
      if (careful && !finite()) return t;
    }
    return careful || finite() ? all_finite : x_.rows - 1;
  }

  // Of the components without the scale.
  bool finite() const {
    Vec<T> sum{};
    for (Index i = 0; i < units_ * length_; i += step<T>) sum += simd::load(components_ + i) / scale_ / scale_ * T(0);
    return !simd::any(sum != sum);
  }

  void write(const Matrix<T>& out) const {
    for (Index i = 0; i < out.rows; ++i)
      for (Index j = 0; j < out.cols; ++j)
        out.data[i * out.row_stride + j * out.col_stride] = components_[i * length_ + j] / scale_ / scale_;
  }

 private:
  // Components are as long as squares of samples, and their squared lengths are fourth powers: samples are taken times
  // a power of two, which changes no digit, by which the largest is about 1.
  static T scale_for(const Matrix<const T>& v, const Matrix<const T>& x) {
    const auto largest = [](const Matrix<const T>& m) {
      T most = 0;
      for (Index i = 0; i < m.rows; ++i)
        for (Index j = 0; j < m.cols; ++j) {
          const T value = m.data[i * m.row_stride + j * m.col_stride], size = value < 0 ? -value : value;
          most = size > most ? size : most;
        }
      return double(most);
    };
    const double root = __builtin_sqrt(largest(v)), sample = largest(x), most = sample > root ? sample : root;
    if (!(most > 0) || most > double(limit)) return T(1);
    int exponent;
    (void)__builtin_frexp(most, &exponent);
    constexpr int furthest = sizeof(T) == 4 ? 120 : 1000;
    return T(__builtin_ldexp(1.0, exponent < -furthest ? furthest : -exponent));
  }
  static constexpr T limit = sizeof(T) == 4 ? T(__FLT_MAX__) : T(__DBL_MAX__);

  T dot(const T* a, const T* b) const {
    Vec<T> sums[2] = {};
    for (Index j = 0; j < length_; j += 2 * step<T>)
#pragma GCC unroll 2
      for (int p = 0; p < 2; ++p)
        sums[p] = simd::fma(simd::load(a + j + p * step<T>), simd::load(b + j + p * step<T>), sums[p]);
    return total_of<T>(sums[0], sums[1]);
  }

  void learn(Index t) {
    const Index n = count_ + t + 1, units = at_most(units_, n);
    const double share = (1 + (double(n) > 1 + amnesic_ ? amnesic_ : 0)) / double(n);
    for (Index j = 0; j < x_.cols; ++j) left_[j] = x_.data[t * x_.row_stride + j * x_.col_stride] * scale_;
    T product = units > 0 ? dot(components_, left_) : T(0);
    for (Index i = 0; i < units; ++i) {
      T* v = components_ + i * length_;
      const bool begins = i == n - 1 || squares_[i] == T(0);
      const T keep = begins ? T(0) : T(1 - share);
      const T gain = begins ? T(1) : T(share * double(product) / __builtin_sqrt(double(squares_[i])));
      Vec<T> squares[2] = {}, products[2] = {};
      const Vec<T> k = broadcast(keep), g = broadcast(gain);
      for (Index j = 0; j < length_; j += 2 * step<T>)
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p) {
          const Index at = j + p * step<T>;
          const Vec<T> left = simd::load(left_ + at);
          const Vec<T> weight = begins ? left * scale_ : simd::fma(g, left, simd::load(v + at) * k);
          simd::store(v + at, weight);
          squares[p] = simd::fma(weight, weight, squares[p]);
          products[p] = simd::fma(weight, left, products[p]);
        }
      squares_[i] = total_of<T>(squares[0], squares[1]);
      const T along = total_of<T>(products[0], products[1]);
      const Vec<T> minus = broadcast(squares_[i] == T(0) ? T(0) : -along / squares_[i]);
      const T* next = components_ + at_most(i + 1, units - 1) * length_;
      Vec<T> sums[2] = {};
      for (Index j = 0; j < length_; j += 2 * step<T>)
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p) {
          const Index at = j + p * step<T>;
          const Vec<T> left = simd::fma(minus, simd::load(v + at), simd::load(left_ + at));
          simd::store(left_ + at, left);
          sums[p] = simd::fma(left, simd::load(next + at), sums[p]);
        }
      product = total_of<T>(sums[0], sums[1]);
    }
  }

  Matrix<const T> x_;
  Index count_;
  double amnesic_;
  Index units_, length_;
  T scale_;
  core::Scratch scratch_;
  T *components_, *left_, *squares_;
};

template <class T>
void ccipca_of(const Matrix<const T>& v, const Matrix<const T>& x, Index count, double amnesic, const Matrix<T>& out,
               Index& diverged) {
  {
    Candid<T> candid(v, x, count, amnesic);
    if (candid.run(false) == all_finite) {
      candid.write(out);
      diverged = all_finite;
      return;
    }
  }
  diverged = bad_from_the_start;
  Candid<T> candid(v, x, count, amnesic);
  if (!candid.finite()) return;
  diverged = candid.run(true);
}

// Columns know nothing of each other: a task has some of them. Means are double.
template <class T>
void center_of(const Matrix<const T>& x, const double* mean, Index count, double* after, const Matrix<T>& out) {
  constexpr Index columns = 64;
  const double work = double(x.rows) * double(x.cols);
  core::parallel_for(divide_up(x.cols, columns), work < 1e6 ? 1 : core::thread_count(), [&](Index task) {
    const Index first = task * columns, here = at_most(columns, x.cols - first);
    double middle[columns];
    for (Index j = 0; j < here; ++j) middle[j] = mean[first + j];
    for (Index t = 0; t < x.rows; ++t) {
      const double share = 1 / double(count + t + 1);
      const T* from = x.data + t * x.row_stride + first * x.col_stride;
      T* to = out.data + t * out.row_stride + first * out.col_stride;
      const auto row = [&](Index stride, Index out_stride) {
        for (Index j = 0; j < here; ++j) {
          const double value = double(from[j * stride]);
          middle[j] += (value - middle[j]) * share;
          to[j * out_stride] = T(value - middle[j]);
        }
      };
      x.col_stride == 1 && out.col_stride == 1 ? row(1, 1) : row(x.col_stride, out.col_stride);
    }
    for (Index j = 0; j < here; ++j) after[first + j] = middle[j];
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                                            \
  void ccipca(const Matrix<const T>& v, const Matrix<const T>& x, std::int64_t count, double amnesic,                  \
              const Matrix<T>& out, std::int64_t& diverged) {                                                          \
    ccipca_of<T>(v, x, count, amnesic, out, diverged);                                                                 \
  }                                                                                                                    \
  void center(const Matrix<const T>& x, const double* mean, std::int64_t count, double* after, const Matrix<T>& out) { \
    center_of<T>(x, mean, count, after, out);                                                                          \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::hebbian::FASTDL_LEVEL
