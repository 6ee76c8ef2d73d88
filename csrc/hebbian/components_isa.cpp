// Candid components and running means, compiled once per instruction-set level.
#include "core/interrupt.hpp"
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
template <class T, class F>
class Candid {
 public:
  // Computes in F, with samples times `scale`. Rows of V from `count` on have not begun: the samples that they begin
  // with overwrite them.
  Candid(const Matrix<const T>& v, const Matrix<const T>& x, Index count, double amnesic, F scale)
      : x_(x), count_(count), amnesic_(amnesic), units_(v.rows), length_(round_up(v.cols, 2 * step<F>)), scale_(scale) {
    components_ = scratch_.array<F>(units_, length_);
    left_ = scratch_.array<F>(length_);
    squares_ = scratch_.array<F>(units_);
    for (Index j = 0; j < length_; ++j) left_[j] = 0;
    for (Index i = 0; i < units_; ++i) {
      F* row = components_ + i * length_;
      for (Index j = 0; j < length_; ++j)
        row[j] = i < count && j < v.cols ? F(v.data[i * v.row_stride + j * v.col_stride]) * scale_ * scale_ : F(0);
      squares_[i] = dot(row, row);
    }
  }

  Index run(bool careful) {
    for (Index t = 0; t < x_.rows; ++t) {
      core::check_interrupt(t, units_ * length_);
      learn(t);
      if (careful && !finite()) return t;
    }
    return careful || finite() ? all_finite : x_.rows - 1;
  }

  // Of the components without the scale.
  bool finite() const {
    Vec<F> sum{};
    const F most = F(sizeof(T) == 4 ? __FLT_MAX__ : __DBL_MAX__);
    bool fits = true;
    for (Index i = 0; i < units_ * length_; i += step<F>) {
      const Vec<F> value = simd::load(components_ + i) / scale_ / scale_;
      sum += value * F(0);
      fits = fits && !simd::any((value > broadcast(most)) | (value < broadcast(-most)));
    }
    return fits && !simd::any(sum != sum);
  }

  // Rows of V that still have not begun stay as they are.
  void write(const Matrix<const T>& v, const Matrix<T>& out) const {
    for (Index i = 0; i < out.rows; ++i)
      for (Index j = 0; j < out.cols; ++j)
        out.data[i * out.row_stride + j * out.col_stride] = i < count_ + x_.rows
                                                                ? T(components_[i * length_ + j] / scale_ / scale_)
                                                                : v.data[i * v.row_stride + j * v.col_stride];
  }

 private:
  F dot(const F* a, const F* b) const {
    Vec<F> sums[2] = {};
    for (Index j = 0; j < length_; j += 2 * step<F>)
#pragma GCC unroll 2
      for (int p = 0; p < 2; ++p)
        sums[p] = simd::fma(simd::load(a + j + p * step<F>), simd::load(b + j + p * step<F>), sums[p]);
    return total_of<F>(sums[0], sums[1]);
  }

  // Not one that is so short that its square vanishes: by that it becomes no number, and is found.
  bool is_zero(Index i) const {
    bool zero = squares_[i] == F(0);
    for (Index j = 0; zero && j < length_; ++j) zero = components_[i * length_ + j] == F(0);
    return zero;
  }

  void learn(Index t) {
    const Index n = count_ + t + 1, units = at_most(units_, n);
    const double share = (1 + (double(n) > 1 + amnesic_ ? amnesic_ : 0)) / double(n);
    for (Index j = 0; j < x_.cols; ++j) left_[j] = F(x_.data[t * x_.row_stride + j * x_.col_stride]) * scale_;
    F product = units > 0 ? dot(components_, left_) : F(0);
    for (Index i = 0; i < units; ++i) {
      F* v = components_ + i * length_;
      const bool begins = i == n - 1 || is_zero(i);
      const F keep = begins ? F(0) : F(1 - share);
      const F gain = begins ? F(1) : F(share * double(product) / __builtin_sqrt(double(squares_[i])));
      Vec<F> squares[2] = {}, products[2] = {};
      const Vec<F> k = broadcast(keep), g = broadcast(gain);
      for (Index j = 0; j < length_; j += 2 * step<F>)
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p) {
          const Index at = j + p * step<F>;
          const Vec<F> left = simd::load(left_ + at);
          const Vec<F> weight = begins ? left * scale_ : simd::fma(g, left, simd::load(v + at) * k);
          simd::store(v + at, weight);
          squares[p] = simd::fma(weight, weight, squares[p]);
          products[p] = simd::fma(weight, left, products[p]);
        }
      squares_[i] = total_of<F>(squares[0], squares[1]);
      const F along = total_of<F>(products[0], products[1]);
      const Vec<F> minus = broadcast(is_zero(i) ? F(0) : -along / squares_[i]);
      const F* next = components_ + at_most(i + 1, units - 1) * length_;
      Vec<F> sums[2] = {};
      for (Index j = 0; j < length_; j += 2 * step<F>)
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p) {
          const Index at = j + p * step<F>;
          const Vec<F> left = simd::fma(minus, simd::load(v + at), simd::load(left_ + at));
          simd::store(left_ + at, left);
          sums[p] = simd::fma(left, simd::load(next + at), sums[p]);
        }
      product = total_of<F>(sums[0], sums[1]);
    }
  }

  Matrix<const T> x_;
  Index count_;
  double amnesic_;
  Index units_, length_;
  F scale_;
  core::Scratch scratch_;
  F *components_, *left_, *squares_;
};

// The largest of all numbers, and of the rows that are not 0 the one whose largest is least.
template <class T>
struct Range {
  double most = 0, least = __builtin_huge_val();

  void add(const Matrix<const T>& m, Index rows, bool squares) {
    for (Index i = 0; i < rows; ++i) {
      core::check_interrupt(i, m.cols);
      T of_row = 0;
      for (Index j = 0; j < m.cols; ++j) {
        const T value = m.data[i * m.row_stride + j * m.col_stride], size = value < 0 ? -value : value;
        of_row = size > of_row ? size : of_row;
      }
      const double size = squares ? __builtin_sqrt(double(of_row)) : double(of_row);
      most = size > most ? size : most;
      if (size > 0 && size < least) least = size;
    }
  }
};

// Components are as long as squares of samples, and their squared lengths are fourth powers: samples are taken times a
// power of two, which changes no digit, by which the largest is about 1.
template <class T>
T scale_for(double most) {
  constexpr double limit = sizeof(T) == 4 ? double(__FLT_MAX__) : __DBL_MAX__;
  if (!(most > 0) || most > limit) return T(1);
  int exponent;
  (void)__builtin_frexp(most, &exponent);
  constexpr int furthest = sizeof(T) == 4 ? 120 : 1000;
  return T(__builtin_ldexp(1.0, exponent < -furthest ? furthest : -exponent));
}

template <class T, class F>
void candid(const Matrix<const T>& v, const Matrix<const T>& x, Index count, double amnesic, F scale,
            const Matrix<T>& out, Index& diverged) {
  {
    Candid<T, F> components(v, x, count, amnesic, scale);
    if (components.run(false) == all_finite) {
      components.write(v, out);
      diverged = all_finite;
      return;
    }
  }
  Candid<T, F> components(v, x, count, amnesic, scale);
  diverged = components.run(true);
}

// Samples that differ so much in size that the fourth powers of the small ones vanish beside the large are computed
// with in double, which has room for those of all float32. In float64 what lies between them becomes about 1: there is
// room for 10^150, and beyond that a number that is none.
template <class T>
void ccipca_of(const Matrix<const T>& v, const Matrix<const T>& x, Index count, double amnesic, const Matrix<T>& out,
               Index& diverged) {
  if (x.rows > 0 && !all_numbers(v)) {
    diverged = bad_from_the_start;
    return;
  }
  Range<T> range;
  range.add(v, at_most(v.rows, count), true);
  range.add(x, x.rows, false);
  if constexpr (sizeof(T) == 4)
    if (range.least < 0x1p-24 * range.most) return candid<T, double>(v, x, count, amnesic, 1.0, out, diverged);
  const double usual =
      range.least < 0x1p-250 * range.most ? __builtin_sqrt(range.least) * __builtin_sqrt(range.most) : range.most;
  candid<T, T>(v, x, count, amnesic, scale_for<T>(usual), out, diverged);
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
      core::check_interrupt(t, here);
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
