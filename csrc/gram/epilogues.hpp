// The kernels as epilogues: k(x_i, y_j) from the finished sum over features of row i and columns j, j+1, ...
//
// An epilogue is built from the two sets of rows (turned by the caller so that `x` are the rows of the output) and is
// called with a vector of sums. Lanes past the last column hold anything; arrays over columns go on for a vector.
#pragma once

#include "gram/rows.hpp"
#include "simd/math.hpp"

namespace fastdl::gram {
namespace {

using simd::broadcast;
using simd::load;
using simd::Vec;

// Which share of its terms a difference of two sums over d features must reach to be trusted. Four standard deviations
// of the error of a sum are about sqrt(d)/2 roundings.
template <class T>
T trusted_share(double roundings) {
  constexpr double rounding = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53, wanted = sizeof(T) == 4 ? 1e-5 : 1e-12;
  return T(rounding / (2 * wanted) * roundings);
}
template <class T>
double summed_at_once(Index features) {  // after which a sum begins anew
  return double(gemm::at_most(features, gemm::Shape<T>::max_depth));
}
template <class T>
T trusted_share_of_angles(Index features) {
  return trusted_share<T>(1 + 2 * __builtin_sqrt(summed_at_once<T>(features)));
}
// Of features that are all of one size the roundings do not average out: up to 0.31 d of them were seen. In float64
// that is no share to speak of. In float32 it would be: rbf of handwritten digits, enlarged to 1024 features, took 28
// to 35% longer with 0.24 d on Zen 5, as bench/distance_cost.py measures it, since rows far from each other in memory
// are then read again.
template <class T>
T trusted_share_of_distances(Index features) {
  const double length = summed_at_once<T>(features), sums = length > 0 ? double(features) / length : 0;
  const double usual = 1 + 2 * __builtin_sqrt(length), equal = sizeof(T) == 8 ? 0.34 * (length + sums) : 0;
  return trusted_share<T>(usual < equal ? equal : usual);
}

// ---- functions of the product -------------------------------------------------------------------------------------

template <class T>
struct Polynomial {
  T gamma, coef0, degree;
  int whole;  // the degree, if it is a small whole number, else -1

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index) const {
    const Vec<T> base = simd::fma(sum, broadcast(gamma), broadcast(coef0));
    if (whole < 0) return real_power(base);
    Vec<T> result = whole & 1 ? base : broadcast(T(1)), square = base;
    for (int rest = whole >> 1; rest; rest >>= 1) {
      square *= square;
      if (rest & 1) result *= square;
    }
    return result;
  }

 private:
  __attribute__((noinline)) Vec<T> real_power(Vec<T> base) const {
    for (int i = 0; i < simd::lanes<T>; ++i) base[i] = T(__builtin_pow(double(base[i]), double(degree)));
    return base;
  }
};

template <class T>
struct Sigmoid {
  T gamma, coef0;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index) const {
    return simd::tanh(simd::fma(sum, broadcast(gamma), broadcast(coef0)));
  }
};

template <class T>
struct Geometric {
  T alpha_squared;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index) const {
    return T(1) / simd::fma(sum, broadcast(-alpha_squared), broadcast(T(1)));
  }
};

// ---- functions of a sum of differences ----------------------------------------------------------------------------

template <class T>
struct Negative {
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index) const { return Vec<T>{} - sum; }  // +0, not -0
};

template <class T>
struct NegativeExponential {
  T gamma;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index) const { return simd::exp(sum * -gamma); }
};

// Where the engine summed over halves of the features, and the sum is twice as large.
template <class T, class Function>
struct OfHalves {
  Function function;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    return function(sum + sum, row, column);
  }
};

// ---- functions of the squared distance ------------------------------------------------------------------------------

template <class T>
struct Rbf {
  T gamma;
  // A distance beyond the range of T, times a gamma of 0, is still 0.
  FASTDL_INLINE Vec<T> operator()(Vec<T> squared) const {
    return simd::exp(simd::at_most(squared, sizeof(T) == 4 ? T(0x1.fffffep127) : T(0x1.fffffffffffffp1023)) * -gamma);
  }
};

// order: 0 for nu = 1/2, 1 for 3/2, 2 for 5/2; scale = sqrt(2 nu) / length_scale. (nu = infinity is an rbf.)
template <class T, int order>
struct Matern {
  T scale;
  FASTDL_INLINE Vec<T> operator()(Vec<T> squared) const {
    const Vec<T> r = simd::at_most(simd::sqrt(squared) * scale, T(1000));  // where e^-r is 0, and r e^-r too
    const Vec<T> decay = simd::exp(-r);
    if constexpr (order == 0) return decay;
    if constexpr (order == 1) return simd::fma(r, decay, decay);
    return simd::fma(simd::fma(r, broadcast(T(1) / 3), broadcast(T(1))), r, broadcast(T(1))) * decay;
  }
};

// Where the engine summed squared differences.
template <class T, class Function>
struct OfDifferences {
  Function function;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index) const { return function(sum); }
};

// From products: |x|^2 + |y|^2 - 2 x.y, of centred rows. Where that is a small difference of large numbers it is summed
// anew, directly, from the rows themselves: the diagonal, and pairs close to each other in a spread-out set.
template <class T, class Function>
struct OfProducts {
  Function function;
  const T *x_squared, *y_squared;
  T share;
  Matrix<const T> x, y;
  const T* weight;

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    return function(squared(sum, row, column));
  }

  FASTDL_INLINE Vec<T> squared(Vec<T> sum, Index row, Index column) const {
    const Vec<T> total = load(y_squared + column) + x_squared[row];
    const Vec<T> found = simd::fma(sum, broadcast(T(-2)), total);
    // A length beyond the range of T says nothing of the distance either. (Past the last column lengths are NaN.)
    const auto doubtful = (found < total * share) | (total == broadcast(T(__builtin_inf())));
    return __builtin_expect(simd::any(doubtful), 0) ? summed_anew(found, (Vec<T>)doubtful, row, column) : found;
  }

  // The product of a row with itself, as centred.
  T own_product(Index row) const { return x_squared[row]; }

 private:
  __attribute__((noinline)) Vec<T> summed_anew(Vec<T> squared, Vec<T> doubtful, Index row, Index column) const {
    const auto chosen = (simd::IntVec<T>)doubtful;
    for (int i = 0; i < simd::lanes<T>; ++i)
      if (chosen[i]) squared[i] = direct(x.data + row * x.row_stride, y.data + (column + i) * y.row_stride);
    return squared;
  }

  // In lanes of T for 512 features at a time, and those sums in double.
  T direct(const T* a, const T* b) const {
    constexpr int step = simd::lanes<T>;
    Index k = 0;
    double total = 0;
    if (x.col_stride == 1 && y.col_stride == 1 && !weight)
      while (k + 2 * step <= x.cols) {
        Vec<T> sums[2] = {};
        for (const Index end = k + 512; k < end && k + 2 * step <= x.cols; k += 2 * step)
          for (int u = 0; u < 2; ++u) {
            const Vec<T> difference = load(a + k + u * step) - load(b + k + u * step);
            sums[u] = simd::fma(difference, difference, sums[u]);
          }
        const Vec<T> sum = sums[0] + sums[1];
        for (int i = 0; i < step; ++i) total += double(sum[i]);
      }
    const Features<T> features{nullptr, weight, nullptr, nullptr};
    return T(total + sum_over(x.cols - k, [&](Index rest) {
               const Index f = k + rest;
               const double difference = double(features(a[f * x.col_stride] - b[f * y.col_stride], f));
               return difference * difference;
             }));
  }
};

// ---- functions of the angle -----------------------------------------------------------------------------------------

// An angle in [0, pi]: its cosine, its squared sine, and one minus its cosine, each to full relative accuracy.
template <class T>
struct Angle {
  Vec<T> cosine, squared_sine, deficit;

  static FASTDL_INLINE Angle of(Vec<T> cosine, Vec<T> squared_sine) {
    const Vec<T> one = broadcast(T(1));
    const Vec<T> small = squared_sine / (one + cosine);  // 1 - c = s^2 / (1 + c), which does not cancel
    return {cosine, squared_sine, simd::select(cosine > Vec<T>{}, small, one - cosine)};
  }

  FASTDL_INLINE Vec<T> radians() const { return simd::atan2(simd::sqrt(squared_sine), cosine); }
};

// The angle between two rows, from their product. As the squared distance, 1 - cos^2 is computed anew, from the rows
// and in double, where it is small.
template <class T>
struct Angles {
  const T *x_inverse, *y_inverse;  // 1/length; 0 for a zero row, at right angles with every other; NaN for extreme ones
  T share;
  Matrix<const T> x, y;

  FASTDL_INLINE Angle<T> operator()(Vec<T> sum, Index row, Index column) const {
    const Vec<T> one = broadcast(T(1));
    const Vec<T> cosine = sum * (load(y_inverse + column) * x_inverse[row]);
    const Vec<T> squared_sine = simd::fma(-cosine, cosine, one);
    const auto doubtful = (squared_sine < broadcast(share)) | (cosine != cosine);
    Angle<T> angle = Angle<T>::of(cosine, squared_sine);
    if (__builtin_expect(simd::any(doubtful), 0)) again(angle, (Vec<T>)doubtful, row, column);
    return angle;
  }

  // The angles of the lanes that are chosen, of pairs that there are. With e = |u -+ v|^2 of the unit vectors,
  // cos = +-(1 - e/2) and sin^2 = e (1 - e/4).
  __attribute__((noinline)) void again(Angle<T>& angle, Vec<T> doubtful, Index row, Index column) const {
    const auto chosen = (simd::IntVec<T>)doubtful;
    const UnitRow<T> a(x, row, x_inverse[row]);
    for (int i = 0; i < simd::lanes<T>; ++i) {
      if (!chosen[i] || column + i >= y.rows) continue;
      const UnitRow<T> b(y, column + i, y_inverse[column + i]);
      if (a.zero() || b.zero()) {  // at right angles, but NaN and Inf have none
        angle.cosine[i] = a.finite() && b.finite() ? T(0) : T(__builtin_nan(""));
        angle.squared_sine[i] = angle.deficit[i] = 1 + angle.cosine[i];
        continue;
      }
      const double product = sum_over(x.cols, [&](Index k) { return a(k) * b(k); }), sign = product < 0 ? -1 : 1;
      const double e = sum_over(x.cols, [&](Index k) { return square(a(k) - sign * b(k)); });
      angle.squared_sine[i] = T(e * (1 - e / 4));
      angle.cosine[i] = T(sign * (1 - e / 2));
      angle.deficit[i] = T(sign > 0 ? e / 2 : 2 - e / 2);
    }
  }

 private:
  static FASTDL_INLINE double square(double v) { return v * v; }
};

// theta - sin(theta), by its series where that cancels.
template <class T>
FASTDL_INLINE Vec<T> minus_sine(Vec<T> theta, Vec<T> sine) {
  const Vec<T> square = theta * theta;
  constexpr T coefficients[] = {T(1) / 6,        T(-1) / 120,          T(1) / 5040,           T(-1) / 362880,
                                T(1) / 39916800, T(-1 / 6227020800.0), T(1 / 1307674368000.0)};
  constexpr int terms = sizeof(T) == 4 ? 4 : 7;
  Vec<T> series = broadcast(coefficients[terms - 1]);
#pragma GCC unroll 8
  for (int i = terms - 2; i >= 0; --i) series = simd::fma(series, square, broadcast(coefficients[i]));
  return simd::select(square < broadcast(T(0.5)), series * square * theta, theta - sine);
}

inline constexpr double pi = 3.14159265358979323846;

// What a ReLU makes of the angle theta between two Gaussians: E[relu relu] = cos(new angle) / 2 and E[relu' relu'] =
// slope / 2, in units of their standard deviations. The new angle's deficit is ((pi - t)(1 - cos t) + (t - sin t)) /
// pi: a sum of positive terms, accurate where the angle is small.
template <class T>
FASTDL_INLINE Angle<T> relu(const Angle<T>& angle, Vec<T> theta, Vec<T>& slope) {
  slope = (T(pi) - theta) * T(1 / pi);
  const Vec<T> deficit =
      simd::fma(minus_sine<T>(theta, simd::sqrt(angle.squared_sine)), broadcast(T(1 / pi)), slope * angle.deficit);
  return {T(1) - deficit, deficit * (T(2) - deficit), deficit};
}

template <class T>
struct Cosine {
  Angles<T> angles;

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    const Vec<T> cosine = sum * (load(angles.y_inverse + column) * angles.x_inverse[row]);
    const auto unknown = cosine != cosine;
    return __builtin_expect(simd::any(unknown), 0) ? again(cosine, (Vec<T>)unknown, row, column) : cosine;
  }

 private:
  __attribute__((noinline)) Vec<T> again(Vec<T> cosine, Vec<T> unknown, Index row, Index column) const {
    Angle<T> angle{cosine, cosine, cosine};
    angles.again(angle, unknown, row, column);
    return angle.cosine;
  }
};

template <class T, int order>
struct ArcCosine {
  Angles<T> angles;
  const T *x_length, *y_length;

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    const Angle<T> angle = angles(sum, row, column);
    Vec<T> slope;
    const Angle<T> after = relu(angle, angle.radians(), slope);
    if constexpr (order == 0) return slope;
    const Vec<T> lengths = load(y_length + column) * x_length[row];
    if constexpr (order == 1) return after.cosine * lengths;
    // (3 sin cos + (pi - t)(1 + 2 cos^2)) / pi
    const Vec<T> sine = simd::sqrt(angle.squared_sine), square = angle.cosine * angle.cosine;
    const Vec<T> j =
        simd::fma(slope, simd::fma(square, broadcast(T(2)), broadcast(T(1))), sine * angle.cosine * T(3 / pi));
    return j * lengths * lengths;
  }
};

// What a dense layer with a bias makes of a signal's length: X <- sqrt(w^2 X^2 + b^2), and the shares wX and b have in
// it. Nothing is squared that may be far from 1, so lengths may be anything that is a number.
template <class T>
struct Biased {
  Vec<T> length, kept, added;

  FASTDL_INLINE Biased(Vec<T> before, T w, T b) {
    // The largest number in the place of what is beyond it: infinity has no share of itself.
    constexpr T largest = sizeof(T) == 4 ? T(0x1.fffffep127) : T(0x1.fffffffffffffp1023);
    const Vec<T> weighted = simd::at_most(before * w, largest), bias = broadcast(b);
    const Vec<T> most = simd::select(weighted > bias, weighted, bias);
    const Vec<T> inverse = T(1) / most, first = weighted * inverse, second = bias * inverse;
    const Vec<T> root = simd::sqrt(simd::fma(first, first, second * second)), unit = T(1) / root;
    length = most * root;
    kept = first * unit;
    added = second * unit;
  }
};

// nngp and ntk of a ReLU network: Dense, (ReLU, Dense) x depth, with weights and biases of standard deviations w and b.
//
// Kept per pair: the angle between the two signals before the next dense layer, and the tangent kernel theta in units
// of their lengths. x_length and y_length are the rows' lengths (over sqrt(d) if normalised); without biases those of
// the last layer, w (w^2/2)^(depth/2) times as long: that factor may leave T where they do not.
template <class T, bool tangent, bool biased>
struct ReluNetwork {
  Angles<T> angles;
  const T *x_length, *y_length;
  int depth;
  T w, b;
  T product, constant;  // the kernel without hidden layers: product x.y + constant

  // A pair takes a chain of some hundred operations a layer, which the processor cannot look past: in one loop it waits
  // for their results. In several short loops over a row, which keep the state in L1, it works on several pairs at
  // once.
  void along(T* values, Index row, Index column, Index count) const {
    constexpr int step = simd::lanes<T>;
    constexpr Index most = gemm::longest;
    T cosine[most], squared_sine[most], deficit[most], theta[most], turn[most], y[most];
    constexpr T root_half = T(0.70710678118654752440);
    T x = x_length[row];
    const auto keep = [&](Index j, const Angle<T>& angle) {
      simd::store(cosine + j, angle.cosine);
      simd::store(squared_sine + j, angle.squared_sine);
      simd::store(deficit + j, angle.deficit);
    };
    const auto kept = [&](Index j) { return Angle<T>{load(cosine + j), load(squared_sine + j), load(deficit + j)}; };
    for (Index j = 0; j < count; j += step) {
      const Angle<T> angle = angles(load(values + j), row, column + j);
      keep(j, angle);
      simd::store(y + j, load(y_length + column + j));
      simd::store(theta + j, biased ? Vec<T>{} : angle.cosine);
    }
    for (int layer = 0;; ++layer) {
      if constexpr (biased) {
        const Biased<T> row_signal(broadcast(x), w, b);
        for (Index j = 0; j < count; j += step) {
          const Biased<T> signal(load(y + j), w, b);
          Vec<T> tangents = load(theta + j);
          keep(j, dense(kept(j), row_signal, signal, tangents));
          simd::store(theta + j, tangents);
          simd::store(y + j, signal.length);
        }
        x = row_signal.length[0];
      }
      if (layer == depth) break;
      for (Index j = 0; j < count; j += step) simd::store(turn + j, kept(j).radians());
      for (Index j = 0; j < count; j += step) {
        Vec<T> slope;
        const Angle<T> angle = relu(kept(j), load(turn + j), slope);
        keep(j, angle);
        // Without biases the next dense layer adds the new angle's cosine to the tangent kernel, and that is all.
        simd::store(theta + j, load(theta + j) * slope + (biased ? Vec<T>{} : angle.cosine));
        // E[relu relu] is half of what the angle says.
        if constexpr (biased) simd::store(y + j, load(y + j) * root_half);
      }
      if constexpr (biased) x *= root_half;
    }
    for (Index j = 0; j < count; j += step) {
      Vec<T> value = load(y + j) * x * load((tangent ? theta : cosine) + j);
      // Samples with Inf have no angles, but their products may have a limit.
      if (depth == 0)
        value =
            simd::select(value == value, value, simd::fma(load(values + j), broadcast(product), broadcast(constant)));
      simd::store(values + j, value);
    }
  }

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    T values[simd::lanes<T>];
    simd::store(values, sum);
    along(values, row, column, simd::lanes<T>);
    return load(values);
  }

  // S <- w^2 S + b^2, in terms that do not cancel: the angle opens by that between (kept, added) of the one signal and
  // of the other, which are of length 1.
  static FASTDL_INLINE Angle<T> dense(const Angle<T>& angle, const Biased<T>& x, const Biased<T>& y, Vec<T>& theta) {
    const Vec<T> kept = x.kept * y.kept, added = x.added * y.added, apart = x.kept * y.added - x.added * y.kept;
    const Vec<T> cosine = simd::fma(kept, angle.cosine, added);
    const Vec<T> opened = simd::fma(apart, apart, kept * added * angle.deficit * T(2));
    theta = simd::fma(theta, kept, cosine);
    return Angle<T>::of(cosine, simd::fma(kept * kept, angle.squared_sine, opened));
  }
};

}  // namespace
}  // namespace fastdl::gram
