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
inline void softmax_matvec(MatrixView<const float> Q, MatrixView<const float> K, MatrixView<const float> V, double scale,
                           MatrixView<float> out) {
  const auto q = Q.plain(), k = K.plain(), v = V.plain(), to = out.plain();
  throw_on_error(fastdl_gram_softmax_matvec_f32(&q, &k, &v, scale, &to));
}
inline void softmax_matvec(MatrixView<const double> Q, MatrixView<const double> K, MatrixView<const double> V,
                           double scale, MatrixView<double> out) {
  const auto q = Q.plain(), k = K.plain(), v = V.plain(), to = out.plain();
  throw_on_error(fastdl_gram_softmax_matvec_f64(&q, &k, &v, scale, &to));
}

}  // namespace fastdl::gram
