// The kernel functions on the GPU: k(x_i, y_j) from the finished sum over the features of a pair, and its derivatives.
// The mathematics is that of csrc/gram/epilogues.hpp and derivatives.hpp, one pair at a time.
//
// Three classes of functions, each chosen among by a switch at run time: it is taken once an element, all threads the
// same way, and spares an instantiation of every kernel for each of the 14 functions.
#pragma once

#include "gram_pairs.cuh"
#include "launch.cuh"

namespace fastdl::gram::cuda {

using fastdl::cuda::multiply_add;

// The derivative of k(x, y) by feature f of x is factor (pair feature(x_f, y_f) + own x_f): see derivatives.hpp. The
// last is the derivative by gamma, 0 where there is none.
template <class T>
struct Slope {
  T pair, own, gamma;
};

// ---- functions of the product -----------------------------------------------------------------------------------

template <class T>
struct OfProduct {
  Parameters<T> p;

  __device__ __forceinline__ T operator()(T sum, Index, Index) const {
    switch (p.form) {
      case Form::polynomial:
        return power(base(sum), p.whole, p.degree);
      case Form::sigmoid:
        return std::tanh(base(sum));
      case Form::geometric:
        return T(1) / multiply_add(sum, -p.gamma, T(1));
      default:
        return sum;
    }
  }

  __device__ __forceinline__ Slope<T> slope(T sum, Index row, Index column) const {
    switch (p.form) {
      case Form::polynomial: {
        const T steep = power(base(sum), p.whole < 0 ? -1 : p.whole - 1, p.degree - T(1)) * p.degree;
        return {steep, T(0), steep * sum};
      }
      case Form::sigmoid: {
        // 1 - tanh(z)^2 = 4 e^-2|z| / (1 + e^-2|z|)^2, which does not cancel
        const T decay = std::exp(std::fabs(base(sum)) * T(-2)), whole = decay + T(1);
        const T steep = T(4) * decay / (whole * whole);
        return {steep, T(0), steep * sum};
      }
      case Form::geometric: {
        const T value = (*this)(sum, row, column);
        return {value * value, T(0), T(0)};
      }
      case Form::cosine: {
        // With unit vectors u and v, d cos = (v - cos u) / |x|; the sum is of unit vectors.
        const T inverse = p.x_inverse[row];
        return {p.y_inverse[column] * inverse, -sum * inverse * inverse, T(0)};
      }
      default:
        return {T(1), T(0), T(0)};
    }
  }

 private:
  __device__ __forceinline__ T base(T sum) const { return multiply_add(sum, p.gamma, p.coef0); }

  static __device__ __forceinline__ T power(T base, int whole, T degree) {
    if (whole < 0) return std::pow(base, degree);
    T result = whole & 1 ? base : T(1), square = base;
    FASTDL_NO_UNROLL
    for (int rest = whole >> 1; rest; rest >>= 1) {
      square *= square;
      if (rest & 1) result *= square;
    }
    return result;
  }
};

// ---- functions of a sum of differences, and the sum itself --------------------------------------------------------

template <class T>
struct OfSum {
  Parameters<T> p;

  __device__ __forceinline__ T operator()(T sum, Index, Index) const {
    switch (p.form) {
      case Form::negative:
        return T(0) - sum;  // +0, not -0
      case Form::exponential:
        return std::exp(bounded(sum) * -p.gamma);
      case Form::matern_half:
      case Form::matern_three_halves:
      case Form::matern_five_halves: {
        const T r = scaled(std::sqrt(sum)), decay = std::exp(-r);
        if (p.form == Form::matern_half) return decay;
        if (p.form == Form::matern_three_halves) return multiply_add(r, decay, decay);
        return multiply_add(multiply_add(r, T(1) / 3, T(1)), r, T(1)) * decay;
      }
      default:
        return sum;
    }
  }

  __device__ __forceinline__ Slope<T> slope(T sum, Index, Index) const {
    switch (p.form) {
      case Form::exponential: {
        const T value = std::exp(bounded(sum) * -p.gamma);
        return {value, T(0), value == T(0) ? T(0) : -value * sum};  // gamma may have made 0 * infinity
      }
      case Form::matern_half:
      case Form::matern_three_halves:
      case Form::matern_five_halves: {
        const T distance = std::sqrt(sum), r = scaled(distance), decay = std::exp(-r);
        if (p.form == Form::matern_half) return {sum == T(0) ? T(0) : decay / distance, T(0), T(0)};
        return {p.form == Form::matern_three_halves ? decay : multiply_add(r, decay, decay), T(0), T(0)};
      }
      default:
        return {T(1), T(0), T(0)};
    }
  }

 private:
  // A distance beyond the range of T, times a gamma of 0, is still 0. NaN stays.
  static __device__ __forceinline__ T bounded(T sum) {
    constexpr T most = sizeof(T) == 4 ? T(0x1.fffffep127) : T(0x1.fffffffffffffp1023);
    return sum > most ? most : sum;
  }
  // Beyond 1000, e^-r is 0, and r e^-r too.
  __device__ __forceinline__ T scaled(T distance) const {
    const T r = distance * p.gamma;
    return r > T(1000) ? T(1000) : r;
  }
};

// ---- functions of the angle -----------------------------------------------------------------------------------------

// An angle in [0, pi]: its cosine, its squared sine, and one minus its cosine, each to full relative accuracy.
template <class T>
struct Angle {
  T cosine, squared_sine, deficit;

  static __device__ __forceinline__ Angle of(T cosine, T squared_sine) {
    // 1 - c = s^2 / (1 + c), which does not cancel
    return {cosine, squared_sine, cosine > T(0) ? squared_sine / (T(1) + cosine) : T(1) - cosine};
  }
  __device__ __forceinline__ T radians() const { return std::atan2(std::sqrt(squared_sine), cosine); }
};

constexpr double pi = 3.14159265358979323846;

// theta - sin(theta), by its series where that cancels.
template <class T>
__device__ __forceinline__ T minus_sine(T theta, T sine) {
  const T square = theta * theta;
  if (!(square < T(0.5))) return theta - sine;
  T series = T(1) / 39916800;
  if (sizeof(T) == 8) {
    series = multiply_add(T(1 / 1307674368000.0), square, T(-1 / 6227020800.0));
    series = multiply_add(series, square, T(1) / 39916800);
  }
  series = multiply_add(series, square, T(-1) / 362880);
  series = multiply_add(series, square, T(1) / 5040);
  series = multiply_add(series, square, T(-1) / 120);
  series = multiply_add(series, square, T(1) / 6);
  return series * square * theta;
}

// What a ReLU makes of the angle between two Gaussians; slope is (pi - theta) / pi.
template <class T>
__device__ __forceinline__ Angle<T> relu(const Angle<T>& angle, T& slope) {
  const T theta = angle.radians();
  slope = (T(pi) - theta) * T(1 / pi);
  const T deficit = multiply_add(minus_sine(theta, std::sqrt(angle.squared_sine)), T(1 / pi), slope * angle.deficit);
  return {T(1) - deficit, deficit * (T(2) - deficit), deficit};
}

// 1 / (pi sin), and 0 for samples as good as parallel
template <class T>
__device__ __forceinline__ T steepness(T squared_sine) {
  return squared_sine <= T(0x1p-48) ? T(0) : T(1 / pi) / std::sqrt(squared_sine);
}

// The sum is e = |u - v|^2 of the unit vectors: cos = 1 - e/2 and sin^2 = e (1 - e/4), which an angle near 0 loses
// nothing in. (From products, 1 - cos^2 would cancel for all pairs less than some 20 degrees apart, and have to be
// summed anew by single threads.) Near 180 degrees the same is done with |u + v|^2, by the thread itself: such pairs
// are rare.
template <class T>
struct OfAngle {
  Parameters<T> p;

  __device__ __forceinline__ T operator()(T sum, Index row, Index column) const {
    const Angle<T> angle = between(sum, row, column);
    if (p.form == Form::network) return network(angle, p.x_length[row], p.y_length[column]);
    T slope;
    const Angle<T> after = relu(angle, slope);
    if (p.form == Form::arc_cosine_0) return slope;
    const T lengths = p.y_length[column] * p.x_length[row];
    if (p.form == Form::arc_cosine_1) return after.cosine * lengths;
    // (3 sin cos + (pi - t)(1 + 2 cos^2)) / pi
    const T square = angle.cosine * angle.cosine;
    const T j =
        multiply_add(slope, multiply_add(square, T(2), T(1)), std::sqrt(angle.squared_sine) * angle.cosine * T(3 / pi));
    return j * lengths * lengths;
  }

  __device__ __forceinline__ Slope<T> slope(T sum, Index row, Index column) const {
    const Angle<T> angle = between(sum, row, column);
    if (p.form == Form::network) return network_slope(angle, p.x_length[row], p.y_length[column]);
    const T inverse = p.x_inverse[row];
    if (p.form == Form::arc_cosine_0) {
      const T steep = steepness(angle.squared_sine) * inverse;
      return {steep * p.y_inverse[column], -steep * angle.cosine * inverse, T(0)};
    }
    const T sine = std::sqrt(angle.squared_sine) * T(1 / pi), length = p.y_length[column];
    T steep;
    const Angle<T> after = relu(angle, steep);
    if (p.form == Form::arc_cosine_1) return {steep, sine * length * inverse, T(0)};
    return {after.cosine * length * (T(4) * p.x_length[row]),
            multiply_add(sine, angle.cosine, steep) * length * length * T(2), T(0)};
  }

 private:
  __device__ __forceinline__ Angle<T> between(T e, Index row, Index column) const {
    // A zero row is at right angles with every other; one with NaN or Inf has a length that is not 0.
    if (p.x_inverse[row] == T(0) || p.y_inverse[column] == T(0)) return {T(0) * e, T(1), T(1)};
    if (e < T(3.5)) return {multiply_add(e, T(-0.5), T(1)), e * multiply_add(e, T(-0.25), T(1)), e * T(0.5)};
    T f = e - e;  // NaN stays
    const T *u = p.x_unit + row * p.features, *v = p.y_unit + column * p.features;
    FASTDL_NO_UNROLL
    for (Index k = 0; k < p.features; ++k) {
      const T total = u[k] + v[k];
      f = multiply_add(total, total, f);
    }
    return {multiply_add(f, T(0.5), T(-1)), f * multiply_add(f, T(-0.25), T(1)), multiply_add(f, T(-0.5), T(2))};
  }

  // nngp and ntk of a ReLU network: Dense, (ReLU, Dense) x depth. Kept: the angle between the two signals before the
  // next dense layer, and the tangent kernel theta in units of their lengths x and y.
  __device__ __forceinline__ T network(Angle<T> angle, T x, T y) const {
    constexpr T root_half = T(0.70710678118654752440);
    T theta = p.biased ? T(0) : angle.cosine;
    FASTDL_NO_UNROLL
    for (int layer = 0;; ++layer) {
      if (p.biased) angle = dense(angle, x, y, theta);
      if (layer == p.depth) break;
      T slope;
      angle = relu(angle, slope);
      // Without biases the next dense layer adds the new angle's cosine to the tangent kernel, and that is all. E[relu
      // relu] is half of what the angle says.
      theta = multiply_add(theta, slope, p.biased ? T(0) : angle.cosine);
      if (p.biased) x *= root_half, y *= root_half;
    }
    return y * x * (p.biased ? T(1) : p.scale) * (p.tangent ? theta : angle.cosine);
  }

  // S <- w2 S + b2. In terms that do not cancel: Sxx Syy - S^2 grows by w2 b2 ((|x| - |y|)^2 + 2 |x||y| (1 - cos)).
  __device__ __forceinline__ Angle<T> dense(const Angle<T>& angle, T& x, T& y, T& theta) const {
    const T apart = x - y, before = x * y;
    const T spread = multiply_add(apart, apart, before * angle.deficit * T(2));
    const T product = multiply_add(before * angle.cosine, p.w2, p.b2);
    x = std::sqrt(multiply_add(x * x, p.w2, p.b2));
    y = std::sqrt(multiply_add(y * y, p.w2, p.b2));
    const T lengths = x * y;
    const bool nothing = lengths == T(0);
    const T inverse = T(1) / (nothing ? T(1) : lengths);
    const T cosine = nothing ? T(0) : product * inverse;
    const T kept = before * p.w2 * inverse;  // the squares of these would leave the range of float32 early
    const T gap = multiply_add(kept * kept, angle.squared_sine, spread * inverse * (inverse * p.w2 * p.b2));
    theta = multiply_add(theta * before, inverse * p.w2, cosine);
    return Angle<T>::of(cosine, nothing ? T(1) : gap);
  }

  // The derivatives by x.y and |x|^2 of the inputs, carried through the layers with the values: see derivatives.hpp.
  __device__ __forceinline__ Slope<T> network_slope(Angle<T> angle, T x, T y) const {
    constexpr T root_half = T(0.70710678118654752440);
    T theta = p.biased ? T(0) : angle.cosine;
    T signal_pair = T(1), signal_own = T(0), tangent_pair = T(0), tangent_own = T(0);
    FASTDL_NO_UNROLL
    for (int layer = 0;; ++layer) {
      if (p.biased) {
        const T x_before = x, y_before = y;
        angle = dense(angle, x, y, theta);
        if (layer > 0) {  // before, they are 0, and x may be
          const T units = y_before / x_before * (x / y);
          signal_own *= units;
          tangent_own *= units;
        }
      }
      tangent_pair += signal_pair;
      tangent_own += signal_own;
      if (layer == p.depth) break;
      T slope;
      const Angle<T> after = relu(angle, slope);
      if (p.tangent) {
        const T steep = steepness(angle.squared_sine) * theta;
        tangent_pair = multiply_add(tangent_pair, slope, steep * signal_pair);
        tangent_own = multiply_add(tangent_own, slope, steep * multiply_add(angle.cosine, T(-0.5), signal_own));
      }
      signal_own = multiply_add(signal_own, slope, std::sqrt(angle.squared_sine) * T(0.5 / pi));
      signal_pair *= slope;
      if (p.biased) {
        theta *= slope;
        x *= root_half, y *= root_half;
        angle = after;
      } else {
        if (!(y * T(x != T(0)) == T(0))) angle = after;  // a zero row stays at right angles with every other
        theta = multiply_add(theta, slope, angle.cosine);
      }
    }
    const T inverse = x == T(0) ? T(0) : T(2) / x;
    return {p.tangent ? tangent_pair : signal_pair, (p.tangent ? tangent_own : signal_own) * y * inverse, T(0)};
  }
};

}  // namespace fastdl::gram::cuda
