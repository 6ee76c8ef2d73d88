// Gram matrices in C++: typed, throwing wrappers over the C interface (fastdl.h, where each contract is written).
#pragma once

#include "fastdl/matrix.hpp"

namespace fastdl::gram {

// K = X Y'.   X is n x d, Y is m x d, K is n x m.
inline void linear(MatrixView<const float> X, MatrixView<const float> Y, MatrixView<float> K) {
  const auto x = X.plain(), y = Y.plain(), k = K.plain();
  throw_on_error(fastdl_gram_linear_f32(&x, &y, &k));
}
inline void linear(MatrixView<const double> X, MatrixView<const double> Y, MatrixView<double> K) {
  const auto x = X.plain(), y = Y.plain(), k = K.plain();
  throw_on_error(fastdl_gram_linear_f64(&x, &y, &k));
}

// K = X X', half the work, symmetric to the bit.
inline void linear(MatrixView<const float> X, MatrixView<float> K) {
  const auto x = X.plain(), k = K.plain();
  throw_on_error(fastdl_gram_linear_f32(&x, nullptr, &k));
}
inline void linear(MatrixView<const double> X, MatrixView<double> K) {
  const auto x = X.plain(), k = K.plain();
  throw_on_error(fastdl_gram_linear_f64(&x, nullptr, &k));
}

using Kernel = fastdl_kernel;

// The kernel with its usual parameters for rows of d features.
inline Kernel kernel(fastdl_kernel_kind kind, std::int64_t d) { return fastdl_kernel_default(kind, d); }

// K[i, j] = k(x_i, y_j)
inline void gram(const Kernel& k, MatrixView<const float> X, MatrixView<const float> Y, MatrixView<float> K) {
  const auto x = X.plain(), y = Y.plain(), out = K.plain();
  throw_on_error(fastdl_gram_f32(&k, &x, &y, &out));
}
inline void gram(const Kernel& k, MatrixView<const double> X, MatrixView<const double> Y, MatrixView<double> K) {
  const auto x = X.plain(), y = Y.plain(), out = K.plain();
  throw_on_error(fastdl_gram_f64(&k, &x, &y, &out));
}

// K[i, j] = k(x_i, x_j), symmetric to the bit
inline void gram(const Kernel& k, MatrixView<const float> X, MatrixView<float> K) {
  const auto x = X.plain(), out = K.plain();
  throw_on_error(fastdl_gram_f32(&k, &x, nullptr, &out));
}
inline void gram(const Kernel& k, MatrixView<const double> X, MatrixView<double> K) {
  const auto x = X.plain(), out = K.plain();
  throw_on_error(fastdl_gram_f64(&k, &x, nullptr, &out));
}

// K[i, j] = k(x_(row + i), x_(column + j)), to the bit as in the whole of X with itself
inline void part(const Kernel& k, MatrixView<const float> X, std::int64_t row, std::int64_t column,
                 MatrixView<float> K) {
  const auto x = X.plain(), out = K.plain();
  throw_on_error(fastdl_gram_part_f32(&k, &x, row, column, &out));
}
inline void part(const Kernel& k, MatrixView<const double> X, std::int64_t row, std::int64_t column,
                 MatrixView<double> K) {
  const auto x = X.plain(), out = K.plain();
  throw_on_error(fastdl_gram_part_f64(&k, &x, row, column, &out));
}

// out[i] = k(x_i, x_i), n x 1
inline void diag(const Kernel& k, MatrixView<const float> X, MatrixView<float> out) {
  const auto x = X.plain(), to = out.plain();
  throw_on_error(fastdl_gram_diag_f32(&k, &x, &to));
}
inline void diag(const Kernel& k, MatrixView<const double> X, MatrixView<double> out) {
  const auto x = X.plain(), to = out.plain();
  throw_on_error(fastdl_gram_diag_f64(&k, &x, &to));
}

// out = K v, without forming K
inline void matvec(const Kernel& k, MatrixView<const float> X, MatrixView<const float> Y, MatrixView<const float> v,
                   MatrixView<float> out) {
  const auto x = X.plain(), y = Y.plain(), right = v.plain(), to = out.plain();
  throw_on_error(fastdl_gram_matvec_f32(&k, &x, &y, &right, &to));
}
inline void matvec(const Kernel& k, MatrixView<const double> X, MatrixView<const double> Y, MatrixView<const double> v,
                   MatrixView<double> out) {
  const auto x = X.plain(), y = Y.plain(), right = v.plain(), to = out.plain();
  throw_on_error(fastdl_gram_matvec_f64(&k, &x, &y, &right, &to));
}

// out = softmax(scale Q K') V, row by row, without forming the scores
inline void softmax_matvec(MatrixView<const float> Q, MatrixView<const float> K, MatrixView<const float> V,
                           double scale, MatrixView<float> out) {
  const auto q = Q.plain(), k = K.plain(), v = V.plain(), to = out.plain();
  throw_on_error(fastdl_gram_softmax_matvec_f32(&q, &k, &v, scale, &to));
}
inline void softmax_matvec(MatrixView<const double> Q, MatrixView<const double> K, MatrixView<const double> V,
                           double scale, MatrixView<double> out) {
  const auto q = Q.plain(), k = K.plain(), v = V.plain(), to = out.plain();
  throw_on_error(fastdl_gram_softmax_matvec_f64(&q, &k, &v, scale, &to));
}

// out[i, j] = k(x_i, x_i) + k(y_j, y_j) - 2 k(x_i, y_j)
inline void distance(const Kernel& k, MatrixView<const float> X, MatrixView<const float> Y, MatrixView<float> out) {
  const auto x = X.plain(), y = Y.plain(), to = out.plain();
  throw_on_error(fastdl_gram_distance_f32(&k, &x, &y, &to));
}
inline void distance(const Kernel& k, MatrixView<const float> X, MatrixView<float> out) {
  const auto x = X.plain(), to = out.plain();
  throw_on_error(fastdl_gram_distance_f32(&k, &x, nullptr, &to));
}
inline void distance(const Kernel& k, MatrixView<const double> X, MatrixView<const double> Y, MatrixView<double> out) {
  const auto x = X.plain(), y = Y.plain(), to = out.plain();
  throw_on_error(fastdl_gram_distance_f64(&k, &x, &y, &to));
}
inline void distance(const Kernel& k, MatrixView<const double> X, MatrixView<double> out) {
  const auto x = X.plain(), to = out.plain();
  throw_on_error(fastdl_gram_distance_f64(&k, &x, nullptr, &to));
}

// k summed over `order` permutations of the features, of x and of y; `group` as in fastdl.h
inline void invariant(const Kernel& k, MatrixView<const float> X, MatrixView<const float> Y,
                      const std::int64_t* permutations, std::int64_t order, bool group, MatrixView<float> K) {
  const auto x = X.plain(), y = Y.plain(), to = K.plain();
  throw_on_error(fastdl_gram_invariant_f32(&k, &x, &y, permutations, order, group, &to));
}
inline void invariant(const Kernel& k, MatrixView<const float> X, const std::int64_t* permutations, std::int64_t order,
                      bool group, MatrixView<float> K) {
  const auto x = X.plain(), to = K.plain();
  throw_on_error(fastdl_gram_invariant_f32(&k, &x, nullptr, permutations, order, group, &to));
}
inline void invariant(const Kernel& k, MatrixView<const double> X, MatrixView<const double> Y,
                      const std::int64_t* permutations, std::int64_t order, bool group, MatrixView<double> K) {
  const auto x = X.plain(), y = Y.plain(), to = K.plain();
  throw_on_error(fastdl_gram_invariant_f64(&k, &x, &y, permutations, order, group, &to));
}
inline void invariant(const Kernel& k, MatrixView<const double> X, const std::int64_t* permutations, std::int64_t order,
                      bool group, MatrixView<double> K) {
  const auto x = X.plain(), to = K.plain();
  throw_on_error(fastdl_gram_invariant_f64(&k, &x, nullptr, permutations, order, group, &to));
}

// out = (I - U) K (I - U)
inline void center(MatrixView<const float> K, MatrixView<float> out) {
  const auto k = K.plain(), to = out.plain();
  throw_on_error(fastdl_gram_center_f32(&k, &to));
}
inline void center(MatrixView<const double> K, MatrixView<double> out) {
  const auto k = K.plain(), to = out.plain();
  throw_on_error(fastdl_gram_center_f64(&k, &to));
}

// How much two Gram matrices of the same samples depend on each other, and how alike they are
inline float hsic(MatrixView<const float> K, MatrixView<const float> L, bool unbiased = true) {
  const auto k = K.plain(), l = L.plain();
  float out;
  throw_on_error(fastdl_gram_hsic_f32(&k, &l, unbiased, &out));
  return out;
}
inline float cka(MatrixView<const float> K, MatrixView<const float> L, bool unbiased = false) {
  const auto k = K.plain(), l = L.plain();
  float out;
  throw_on_error(fastdl_gram_cka_f32(&k, &l, unbiased, &out));
  return out;
}
inline double hsic(MatrixView<const double> K, MatrixView<const double> L, bool unbiased = true) {
  const auto k = K.plain(), l = L.plain();
  double out;
  throw_on_error(fastdl_gram_hsic_f64(&k, &l, unbiased, &out));
  return out;
}
inline double cka(MatrixView<const double> K, MatrixView<const double> L, bool unbiased = false) {
  const auto k = K.plain(), l = L.plain();
  double out;
  throw_on_error(fastdl_gram_cka_f64(&k, &l, unbiased, &out));
  return out;
}

// out[s] = F F' / positions for the contiguous maps of each sample
inline void feature_gram(const float* x, std::int64_t samples, std::int64_t channels, std::int64_t positions,
                         bool center, float* out) {
  throw_on_error(fastdl_gram_feature_gram_f32(x, samples, channels, positions, center, out));
}
inline void feature_gram(const double* x, std::int64_t samples, std::int64_t channels, std::int64_t positions,
                         bool center, double* out) {
  throw_on_error(fastdl_gram_feature_gram_f64(x, samples, channels, positions, center, out));
}

// K = J1 J2'
inline void empirical_ntk(MatrixView<const float> J1, MatrixView<const float> J2, MatrixView<float> K) {
  const auto x = J1.plain(), y = J2.plain(), to = K.plain();
  throw_on_error(fastdl_gram_empirical_ntk_f32(&x, &y, &to));
}
inline void empirical_ntk(MatrixView<const float> J1, MatrixView<float> K) {
  const auto x = J1.plain(), to = K.plain();
  throw_on_error(fastdl_gram_empirical_ntk_f32(&x, nullptr, &to));
}
inline void empirical_ntk(MatrixView<const double> J1, MatrixView<const double> J2, MatrixView<double> K) {
  const auto x = J1.plain(), y = J2.plain(), to = K.plain();
  throw_on_error(fastdl_gram_empirical_ntk_f64(&x, &y, &to));
}
inline void empirical_ntk(MatrixView<const double> J1, MatrixView<double> K) {
  const auto x = J1.plain(), to = K.plain();
  throw_on_error(fastdl_gram_empirical_ntk_f64(&x, nullptr, &to));
}

// The gradients of the sum of grad * K: dX, dY, and what is returned, the one with respect to gamma
inline double vjp(const Kernel& k, MatrixView<const float> X, MatrixView<const float> Y, MatrixView<const float> grad,
                  MatrixView<float> dX, MatrixView<float> dY) {
  const auto x = X.plain(), y = Y.plain(), g = grad.plain(), dx = dX.plain(), dy = dY.plain();
  double gamma;
  throw_on_error(fastdl_gram_vjp_f32(&k, &x, &y, &g, &dx, &dy, &gamma));
  return gamma;
}
inline double vjp(const Kernel& k, MatrixView<const double> X, MatrixView<const double> Y,
                  MatrixView<const double> grad, MatrixView<double> dX, MatrixView<double> dY) {
  const auto x = X.plain(), y = Y.plain(), g = grad.plain(), dx = dX.plain(), dy = dY.plain();
  double gamma;
  throw_on_error(fastdl_gram_vjp_f64(&k, &x, &y, &g, &dx, &dy, &gamma));
  return gamma;
}

// The same with Y = X; dX has both parts.
inline double vjp(const Kernel& k, MatrixView<const float> X, MatrixView<const float> grad, MatrixView<float> dX) {
  const auto x = X.plain(), g = grad.plain(), dx = dX.plain();
  double gamma;
  throw_on_error(fastdl_gram_vjp_f32(&k, &x, nullptr, &g, &dx, nullptr, &gamma));
  return gamma;
}
inline double vjp(const Kernel& k, MatrixView<const double> X, MatrixView<const double> grad, MatrixView<double> dX) {
  const auto x = X.plain(), g = grad.plain(), dx = dX.plain();
  double gamma;
  throw_on_error(fastdl_gram_vjp_f64(&k, &x, nullptr, &g, &dx, nullptr, &gamma));
  return gamma;
}

// The gradients of the sum of grad * (K v): dX, dY, dv, and what is returned, the one with respect to gamma
inline double matvec_vjp(const Kernel& k, MatrixView<const float> X, MatrixView<const float> Y,
                         MatrixView<const float> v, MatrixView<const float> grad, MatrixView<float> dX,
                         MatrixView<float> dY, MatrixView<float> dv) {
  const auto x = X.plain(), y = Y.plain(), right = v.plain(), g = grad.plain();
  const auto dx = dX.plain(), dy = dY.plain(), dright = dv.plain();
  double gamma;
  throw_on_error(fastdl_gram_matvec_vjp_f32(&k, &x, &y, &right, &g, &dx, &dy, &dright, &gamma));
  return gamma;
}
inline double matvec_vjp(const Kernel& k, MatrixView<const double> X, MatrixView<const double> Y,
                         MatrixView<const double> v, MatrixView<const double> grad, MatrixView<double> dX,
                         MatrixView<double> dY, MatrixView<double> dv) {
  const auto x = X.plain(), y = Y.plain(), right = v.plain(), g = grad.plain();
  const auto dx = dX.plain(), dy = dY.plain(), dright = dv.plain();
  double gamma;
  throw_on_error(fastdl_gram_matvec_vjp_f64(&k, &x, &y, &right, &g, &dx, &dy, &dright, &gamma));
  return gamma;
}

// The same with Y = X; dX has both parts.
inline double matvec_vjp(const Kernel& k, MatrixView<const float> X, MatrixView<const float> v,
                         MatrixView<const float> grad, MatrixView<float> dX, MatrixView<float> dv) {
  const auto x = X.plain(), right = v.plain(), g = grad.plain(), dx = dX.plain(), dright = dv.plain();
  double gamma;
  throw_on_error(fastdl_gram_matvec_vjp_f32(&k, &x, nullptr, &right, &g, &dx, nullptr, &dright, &gamma));
  return gamma;
}
inline double matvec_vjp(const Kernel& k, MatrixView<const double> X, MatrixView<const double> v,
                         MatrixView<const double> grad, MatrixView<double> dX, MatrixView<double> dv) {
  const auto x = X.plain(), right = v.plain(), g = grad.plain(), dx = dX.plain(), dright = dv.plain();
  double gamma;
  throw_on_error(fastdl_gram_matvec_vjp_f64(&k, &x, nullptr, &right, &g, &dx, nullptr, &dright, &gamma));
  return gamma;
}

// Images, contiguous in this order of axes. The view owns nothing.
template <class T>
struct ImagesView {
  const T* data = nullptr;
  std::int64_t count = 0, channels = 0, height = 0, width = 0;
};

enum class Pooling { mean, flatten };

namespace detail {
template <class T>
void check_same_shape(const ImagesView<T>& X, const ImagesView<T>& Y) {
  if (X.channels != Y.channels || X.height != Y.height || X.width != Y.width)
    throw std::invalid_argument("[gram.cntk] expected images of one shape in X and Y, got different ones");
  // The C function would take it to mean X.
  if (!Y.data && Y.count != 0) throw std::invalid_argument("[gram.cntk] expected Y with data, got a null pointer");
}
}  // namespace detail

// The convolutional neural tangent kernel; K is contiguous, X.count x Y.count.
inline void cntk(const ImagesView<float>& X, const ImagesView<float>& Y, int depth, int kernel_size, Pooling pooling,
                 float* K) {
  detail::check_same_shape(X, Y);
  throw_on_error(fastdl_gram_cntk_f32(X.data, X.count, Y.data, Y.count, X.channels, X.height, X.width, depth,
                                      kernel_size, pooling == Pooling::mean, K));
}
inline void cntk(const ImagesView<double>& X, const ImagesView<double>& Y, int depth, int kernel_size, Pooling pooling,
                 double* K) {
  detail::check_same_shape(X, Y);
  throw_on_error(fastdl_gram_cntk_f64(X.data, X.count, Y.data, Y.count, X.channels, X.height, X.width, depth,
                                      kernel_size, pooling == Pooling::mean, K));
}

// Of X with itself: half the work.
inline void cntk(const ImagesView<float>& X, int depth, int kernel_size, Pooling pooling, float* K) {
  throw_on_error(fastdl_gram_cntk_f32(X.data, X.count, nullptr, X.count, X.channels, X.height, X.width, depth,
                                      kernel_size, pooling == Pooling::mean, K));
}
inline void cntk(const ImagesView<double>& X, int depth, int kernel_size, Pooling pooling, double* K) {
  throw_on_error(fastdl_gram_cntk_f64(X.data, X.count, nullptr, X.count, X.channels, X.height, X.width, depth,
                                      kernel_size, pooling == Pooling::mean, K));
}

}  // namespace fastdl::gram
