// The kernels' derivatives, one for each epilogue of epilogues.hpp.
//
// The derivative of k(x, y) by feature f of x is
//
//   factor (pair feature(x_f, y_f) + own x_f)
//
// with a number for the kernel (factor_of), two for the pair of rows (Slope) and a function of the two values
// (Feature). The kernels are symmetric: what holds for x holds for y.
#pragma once

#include "gram/kernels.hpp"

namespace fastdl::gram {
namespace {

// ---- what a pair of features contributes ----------------------------------------------------------------------------

// d(x.y)
struct Other {
  template <class V>
  FASTDL_INLINE V operator()(V, V y) const {
    return y;
  }
};

// -d|x - y|^2 / 2. A difference of weighted sums would cancel where samples are close to each other.
struct Apart {
  template <class V>
  FASTDL_INLINE V operator()(V x, V y) const {
    return y - x;
  }
};

// -d|x - y|, 0 where they are equal
struct Towards {
  template <class V>
  FASTDL_INLINE V operator()(V x, V y) const {
    return simd::select(y > x, V{} + 1, V{}) - simd::select(y < x, V{} + 1, V{});
  }
};

// -d (x - y)^2 / (x + y) = t (t - 2) with t = (x - y) / (x + y), 0 at two zeros
struct ChiSquaredSlope {
  template <class V>
  FASTDL_INLINE V operator()(V x, V y) const {
    const V half = V{} + 0.5f, a = x * half, b = y * half, total = a + b;  // the largest numbers add up to infinity
    const V t = (a - b) / simd::select(total == V{}, total + 1, total);
    return t * (t - 2);
  }
};

template <class Rule, class Epilogue>
struct FeatureOf {
  using Type = Other;
};
template <class Epilogue>
struct FeatureOf<AbsoluteDifference, Epilogue> {
  using Type = Towards;
};
template <class Epilogue>
struct FeatureOf<ChiSquared, Epilogue> {
  using Type = ChiSquaredSlope;
};
template <class Rule, class T, class Function>
struct FeatureOf<Rule, OfDifferences<T, Function>> {
  using Type = Apart;
};
template <class Rule, class T, class Function>
struct FeatureOf<Rule, OfProducts<T, Function>> {
  using Type = Apart;
};

// ---- what a pair of rows contributes --------------------------------------------------------------------------------

// The last is the derivative of k by gamma, 0 where there is none.
template <class T>
struct Slope {
  Vec<T> pair, own{}, gamma{};
};

// Sums themselves: nothing depends on their values.
template <class Epilogue>
struct Derivative {
  explicit Derivative(const Epilogue&) {}
};

template <class T>
struct Derivative<Polynomial<T>> {
  Polynomial<T> below;  // of degree - 1
  T degree;

  explicit Derivative(const Polynomial<T>& k) : below(k), degree(k.degree) {
    below.degree -= 1;
    if (below.whole >= 0) below.whole -= 1;
  }
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index row, Index column) const {
    const Vec<T> slope = below(sum, row, column) * degree;
    return {slope, Vec<T>{}, slope * sum};
  }
};

template <class T>
struct Derivative<Sigmoid<T>> {
  Sigmoid<T> k;
  explicit Derivative(const Sigmoid<T>& k_) : k(k_) {}

  // 1 - tanh(z)^2 = 4 e^-2|z| / (1 + e^-2|z|)^2, which does not cancel
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index, Index) const {
    const Vec<T> z = simd::fma(sum, broadcast(k.gamma), broadcast(k.coef0));
    const Vec<T> decay = simd::exp(simd::abs(z) * T(-2)), whole = decay + 1;
    const Vec<T> slope = T(4) * decay / (whole * whole);
    return {slope, Vec<T>{}, slope * sum};
  }
};

template <class T>
struct Derivative<Geometric<T>> {
  Geometric<T> k;
  explicit Derivative(const Geometric<T>& k_) : k(k_) {}
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index row, Index column) const {
    const Vec<T> value = k(sum, row, column);
    return {value * value};
  }
};

// value = e^(-gamma distance), of which gamma may have made 0 * infinity
template <class T>
FASTDL_INLINE Slope<T> of_exponential(Vec<T> value, Vec<T> distance) {
  return {value, Vec<T>{}, simd::select(value == Vec<T>{}, Vec<T>{}, -value * distance)};
}

template <class T>
struct Derivative<NegativeExponential<T>> {
  NegativeExponential<T> k;
  explicit Derivative(const NegativeExponential<T>& k_) : k(k_) {}
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index row, Index column) const {
    return of_exponential<T>(k(sum, row, column), sum);
  }
};

template <class T, class Function>
struct Derivative<OfHalves<T, Function>> : Derivative<Function> {
  explicit Derivative(const OfHalves<T, Function>& halves) : Derivative<Function>(halves.function) {}
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index row, Index column) const {
    return Derivative<Function>::operator()(sum + sum, row, column);
  }
};

template <class T>
FASTDL_INLINE Slope<T> of_distance(const Rbf<T>& k, Vec<T> squared) {
  return of_exponential<T>(k(squared), squared);
}

template <class T, int order>
FASTDL_INLINE Slope<T> of_distance(const Matern<T, order>& k, Vec<T> squared) {
  const Vec<T> distance = simd::sqrt(squared), r = simd::at_most(distance * k.scale, T(1000));
  const Vec<T> decay = simd::exp(-r);
  const auto same = squared == Vec<T>{};
  if constexpr (order == 0) return {simd::select(same, Vec<T>{}, decay / simd::select(same, distance + 1, distance))};
  if constexpr (order == 1) return {decay};
  return {simd::fma(r, decay, decay)};
}

template <class T, class Function>
struct Derivative<OfDifferences<T, Function>> {
  OfDifferences<T, Function> k;
  explicit Derivative(const OfDifferences<T, Function>& k_) : k(k_) {}
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index, Index) const { return of_distance(k.function, sum); }
};

template <class T, class Function>
struct Derivative<OfProducts<T, Function>> {
  OfProducts<T, Function> k;
  explicit Derivative(const OfProducts<T, Function>& k_) : k(k_) {}
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index row, Index column) const {
    return of_distance(k.function, k.squared(sum, row, column));
  }
};

// With unit vectors u and v, d cos = (v - cos u) / |x|.
template <class T>
struct Derivative<Cosine<T>> {
  Cosine<T> k;
  explicit Derivative(const Cosine<T>& k_) : k(k_) {}
  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index row, Index column) const {
    const T inverse = k.angles.x_inverse[row];
    return {load(k.angles.y_inverse + column) * inverse, -k(sum, row, column) * inverse * inverse};
  }
};

// 1 / (pi sin), and 0 for an angle that is no more than rounding in double: samples as good as parallel
template <class T>
FASTDL_INLINE Vec<T> steepness(Vec<T> squared_sine) {
  const auto parallel = squared_sine <= broadcast(T(0x1p-48));
  const Vec<T> safe = simd::select(parallel, broadcast(T(1)), squared_sine);
  return simd::select(parallel, Vec<T>{}, T(1 / pi) / simd::sqrt(safe));
}

template <class T, int order>
struct Derivative<ArcCosine<T, order>> {
  ArcCosine<T, order> k;
  explicit Derivative(const ArcCosine<T, order>& k_) : k(k_) {}

  FASTDL_INLINE Slope<T> operator()(Vec<T> sum, Index row, Index column) const {
    const Angle<T> angle = k.angles(sum, row, column);
    const T inverse = k.angles.x_inverse[row];
    if constexpr (order == 0) {
      const Vec<T> steep = steepness<T>(angle.squared_sine) * inverse;
      return {steep * load(k.angles.y_inverse + column), -steep * angle.cosine * inverse};
    }
    const Vec<T> sine = simd::sqrt(angle.squared_sine) * T(1 / pi), length = load(k.y_length + column);
    Vec<T> slope;
    const Angle<T> after = relu(angle, angle.radians(), slope);
    if constexpr (order == 1) return {slope, sine * length * inverse};
    return {after.cosine * length * (T(4) * k.x_length[row]),
            simd::fma(sine, angle.cosine, slope) * length * length * T(2)};
  }
};

// The derivatives of nngp and ntk by x.y and |x|^2 of the inputs, carried through the layers with the values. With X
// and Y the lengths of the two signals, s their product, t the tangent kernel, c, a the cosine and sine of their angle,
// slope = (pi - angle) / pi, and h what |x|^2 grows by, which is the same for all rows and left to the factor:
//
//   ReLU:   t_xy <- slope t_xy + t/(XY) s_xy / (pi a)     t_xx <- slope t_xx + t/(XY) (s_xx - c/2) / (pi a)
//           s_xy <- slope s_xy                            s_xx <- slope s_xx + a / (2 pi)
//   dense:  t <- s + t
//
// where the derivatives by |x|^2 are kept in units of Y/X, which a bias changes.
template <class T, bool tangent, bool biased>
struct Derivative<ReluNetwork<T, tangent, biased>> {
  using Network = ReluNetwork<T, tangent, biased>;
  Network k;
  explicit Derivative(const Network& k_) : k(k_) {}

  // In short loops over a row, as ReluNetwork.
  void along(const T* sums, Index row, Index column, Index count, Slope<T>* to) const {
    constexpr int step = simd::lanes<T>;
    constexpr T root_half = T(0.70710678118654752440);
    State states[gemm::longest / step];
    const Index vectors = gemm::divide_up(count, step);
    T x = k.x_length[row];
    for (Index i = 0; i < vectors; ++i) {
      State& s = states[i];
      s.angle = k.angles(load(sums + i * step), row, column + i * step);
      s.y = load(k.y_length + column + i * step);
      s.theta = biased ? Vec<T>{} : s.angle.cosine;
      s.signal = Slope<T>{broadcast(T(1))};
      s.tangents = Slope<T>{Vec<T>{}};
    }
    for (int layer = 0;; ++layer) {
      const Biased<T> row_signal(broadcast(x), k.w, k.b);
      for (Index i = 0; i < vectors; ++i) {
        State& s = states[i];
        if constexpr (biased) {
          const Biased<T> signal(s.y, k.w, k.b);
          s.angle = Network::dense(s.angle, row_signal, signal, s.theta);
          s.y = signal.length;
          if (layer > 0 && k.w > 0) {  // before, they are 0, and x may be
            const Vec<T> units = signal.kept / row_signal.kept;
            s.signal.own *= units;
            s.tangents.own *= units;
          }
        }
        s.tangents.pair += s.signal.pair;
        s.tangents.own += s.signal.own;
      }
      if constexpr (biased) x = row_signal.length[0];
      if (layer == k.depth) break;
      for (Index i = 0; i < vectors; ++i) states[i].turn = states[i].angle.radians();
      for (Index i = 0; i < vectors; ++i) activate(states[i], x);
      if constexpr (biased) x *= root_half;
    }
    for (Index i = 0; i < vectors; ++i) {
      const Slope<T>& found = tangent ? states[i].tangents : states[i].signal;
      to[i] = {found.pair, x == 0 ? Vec<T>{} : found.own * (states[i].y / x * T(2))};
    }
  }

 private:
  struct State {
    Angle<T> angle;
    Vec<T> y, theta, turn;
    Slope<T> signal, tangents;
  };

  FASTDL_INLINE void activate(State& s, T x) const {
    Vec<T> slope;
    const Angle<T> after = relu(s.angle, s.turn, slope);
    if constexpr (tangent) {
      const Vec<T> steep = steepness<T>(s.angle.squared_sine) * s.theta;
      s.tangents.pair = simd::fma(s.tangents.pair, slope, steep * s.signal.pair);
      s.tangents.own =
          simd::fma(s.tangents.own, slope, steep * simd::fma(s.angle.cosine, broadcast(T(-0.5)), s.signal.own));
    }
    s.signal.own = simd::fma(s.signal.own, slope, simd::sqrt(s.angle.squared_sine) * T(0.5 / pi));
    s.signal.pair *= slope;
    if constexpr (biased) {
      s.theta *= slope;
      s.y *= T(0.70710678118654752440);
      s.angle = after;
    } else {
      // A zero row stays at right angles with every other.
      const auto nothing = s.y * T(x != 0) == Vec<T>{};
      s.angle = {simd::select(nothing, s.angle.cosine, after.cosine),
                 simd::select(nothing, s.angle.squared_sine, after.squared_sine),
                 simd::select(nothing, s.angle.deficit, after.deficit)};
      s.theta = simd::fma(s.theta, slope, s.angle.cosine);
    }
  }
};

// ---- what the whole kernel contributes ------------------------------------------------------------------------------

// In double, so that no parameter leaves the range of T.
inline double factor_of(const Kernel& kernel, Index features) {
  const double scale = kernel.length_scales ? 1 : 1 / kernel.length_scale, w2 = kernel.w_std * kernel.w_std;
  switch (kernel.kind) {
    case FASTDL_POLYNOMIAL:
    case FASTDL_SIGMOID:
    case FASTDL_LAPLACIAN:
    case FASTDL_CHI2:
      return kernel.gamma;
    case FASTDL_RBF:
      return 2 * kernel.gamma;
    case FASTDL_MATERN:
      if (kernel.nu == 0.5) return scale;
      return scale * scale * (kernel.nu == 1.5 ? 3.0 : kernel.nu == 2.5 ? 5.0 / 3 : 1.0);
    case FASTDL_GEOMETRIC:
      return kernel.alpha * kernel.alpha;
    case FASTDL_SINC:
      return kernel.omega * kernel.omega / pi;
    case FASTDL_NNGP:
    case FASTDL_NTK:
      return w2 * __builtin_pow(w2 / 2, kernel.depth) / (kernel.normalize && features > 0 ? double(features) : 1);
    default:
      return 1;
  }
}

}  // namespace
}  // namespace fastdl::gram
