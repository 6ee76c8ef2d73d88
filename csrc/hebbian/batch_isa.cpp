// Rules of learning with all samples seeing the same weights, compiled once per instruction-set level: products of the
// engine, for some hundred samples at a time, which then are in L2 for both of theirs.
#include "gemm/engine.hpp"
#include "hebbian/strips.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

inline constexpr Index samples_together = 512;

// sum + other[row, column], of contiguous rows with room for a vector behind the last
template <class T>
struct Plus {
  const T* other;
  Index stride;

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    return sum + simd::load(other + row * stride + column);
  }
};

template <class T>
bool is_finite(const T* values, Index count) {
  T sum = 0;
  for (Index i = 0; i < count; ++i) sum += values[i] * T(0);
  return sum == T(0);
}

template <class T>
struct Together {
  const Rule& rule;
  Matrix<const T> w, x;
  Steps<T> lr;
  Index units, features;
  core::Scratch scratch;
  T *total, *other, *squares, *other_squares;

  // result = w + sum over samples of lr (y x' - M(y y') w)
  const T* compute() {
    const Index most = at_most(samples_together, x.rows);
    T* y = scratch.array<T>(units, most);
    T* steps = scratch.array<T>(units, most);
    const Index room = simd::lanes<T>;
    for (T** array : {&total, &other}) *array = scratch.array<T>(units * features + room);
    for (T** array : {&squares, &other_squares}) *array = scratch.array<T>(units * units + room);
    for (Index i = 0; i < units; ++i)
      for (Index j = 0; j < features; ++j) total[i * features + j] = w.data[i * w.row_stride + j * w.col_stride];
    for (Index i = 0; i < units * units; ++i) squares[i] = 0;
    const gemm::Strided<T> weights{w.data, w.row_stride, w.col_stride};
    for (Index first = 0; first < x.rows; first += most) {
      const Index count = at_most(most, x.rows - first);
      const T* samples = x.data + first * x.row_stride;
      gemm::multiply<T>({units, count, features}, false, gemm::MultiplyAdd{}, weights,
                        gemm::Strided<T>{samples, x.row_stride, x.col_stride}, {y, most, 1}, gemm::Identity{});
      for (Index i = 0; i < units; ++i)
        for (Index t = 0; t < count; ++t) steps[i * most + t] = lr[first + t] * y[i * most + t];
      const gemm::Strided<T> left{steps, most, 1};
      add({units, features, count}, left, gemm::Strided<T>{samples, x.col_stride, x.row_stride}, total, other);
      if (rule.kind == FASTDL_HEBBIAN_OJA) {
        for (Index i = 0; i < units; ++i)
          for (Index t = 0; t < count; ++t) squares[i * units + i] += steps[i * most + t] * y[i * most + t];
      } else if (rule.kind == FASTDL_HEBBIAN_SANGER || rule.kind == FASTDL_HEBBIAN_SUBSPACE) {
        add({units, units, count}, left, gemm::Strided<T>{y, most, 1}, squares, other_squares);
      }
    }
    if (rule.kind == FASTDL_HEBBIAN_HEBB || rule.kind == FASTDL_HEBBIAN_NORMALIZED) return total;
    for (Index i = 0; i < units; ++i)
      for (Index j = 0; j < units; ++j) {
        const bool kept = rule.kind == FASTDL_HEBBIAN_OJA ? j == i : rule.kind == FASTDL_HEBBIAN_SUBSPACE || j <= i;
        squares[i * units + j] = kept ? -squares[i * units + j] : T(0);
      }
    if (rule.kind == FASTDL_HEBBIAN_OJA) {
      for (Index i = 0; i < units; ++i)
        for (Index j = 0; j < features; ++j)
          total[i * features + j] += squares[i * units + i] * w.data[i * w.row_stride + j * w.col_stride];
      return total;
    }
    add({units, features, units}, gemm::Strided<T>{squares, units, 1},
        gemm::Strided<T>{w.data, w.col_stride, w.row_stride}, total, other);
    return total;
  }

  // to += A B', by way of `spare`
  void add(gemm::Extents size, const gemm::Strided<T>& a, const gemm::Strided<T>& b, T*& to, T*& spare) {
    for (int i = 0; i < simd::lanes<T>; ++i) to[size.rows * size.columns + i] = 0;
    gemm::multiply<T>(size, false, gemm::MultiplyAdd{}, a, b, {spare, size.columns, 1}, Plus<T>{to, size.columns});
    T* before = to;
    to = spare;
    spare = before;
  }

  // The first sample after which the sum so far is not finite; the last if it never was.
  Index first_bad() {
    T* so_far = scratch.array<T>(units, features);
    T* y = scratch.array<T>(units);
    T* left = scratch.array<T>(features);
    const auto weight = [&](Index i, Index j) { return w.data[i * w.row_stride + j * w.col_stride]; };
    for (Index i = 0; i < units; ++i)
      for (Index j = 0; j < features; ++j) so_far[i * features + j] = weight(i, j);
    if (!is_finite(so_far, units * features)) return bad_from_the_start;
    const bool alone = rule.kind == FASTDL_HEBBIAN_HEBB || rule.kind == FASTDL_HEBBIAN_NORMALIZED;
    for (Index t = 0; t < x.rows; ++t) {
      const T* sample = x.data + t * x.row_stride;
      for (Index i = 0; i < units; ++i) {
        y[i] = 0;
        for (Index j = 0; j < features; ++j) y[i] += weight(i, j) * sample[j * x.col_stride];
      }
      for (Index i = 0; i < units; ++i) {
        const Index from = alone || rule.kind == FASTDL_HEBBIAN_OJA ? i : 0;
        const Index to = alone ? i : rule.kind == FASTDL_HEBBIAN_SUBSPACE ? units : i + 1;
        for (Index j = 0; j < features; ++j) left[j] = sample[j * x.col_stride];
        for (Index other_unit = from; other_unit < to; ++other_unit)
          for (Index j = 0; j < features; ++j) left[j] -= y[other_unit] * weight(other_unit, j);
        for (Index j = 0; j < features; ++j) so_far[i * features + j] += lr[t] * y[i] * left[j];
      }
      if (!is_finite(so_far, units * features)) return t;
    }
    return x.rows - 1;
  }
};

template <class T>
void learn_together_of(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr,
                       const Matrix<T>& out, Index& diverged) {
  const Index units = w.rows, features = w.cols;
  Together<T> work{rule, w, x, lr, units, features, {}, nullptr, nullptr, nullptr, nullptr};
  T* result = const_cast<T*>(work.compute());
  diverged = all_finite;
  if (rule.kind == FASTDL_HEBBIAN_NORMALIZED && x.rows > 0)
    for (Index i = 0; i < units; ++i) {
      double square = 0;
      for (Index j = 0; j < features; ++j)
        square += double(result[i * features + j]) * double(result[i * features + j]);
      if (square == 0) continue;
      const double length = __builtin_sqrt(square);
      for (Index j = 0; j < features; ++j) result[i * features + j] = T(double(result[i * features + j]) / length);
    }
  if (x.rows > 0 && !is_finite(result, units * features)) {
    diverged = work.first_bad();
    return;
  }
  for (Index i = 0; i < units; ++i)
    for (Index j = 0; j < features; ++j) out.data[i * out.row_stride + j * out.col_stride] = result[i * features + j];
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                              \
  void learn_together(const Rule& rule, const Matrix<const T>& w, const Matrix<const T>& x, Steps<T> lr, \
                      const Matrix<T>& out, std::int64_t& diverged) {                                    \
    learn_together_of<T>(rule, w, x, lr, out, diverged);                                                 \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::hebbian::FASTDL_LEVEL
