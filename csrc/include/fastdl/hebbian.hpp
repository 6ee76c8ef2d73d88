// Hebbian learning in C++: typed, throwing wrappers over the C interface (fastdl.h, where each contract is written).
// Weights are k units by d features, samples n by d, states and patterns one a row; out may be the weights themselves.
#pragma once

#include "fastdl/matrix.hpp"

namespace fastdl::hebbian {

using Rule = fastdl_hebbian_rule;
using Settling = fastdl_hebbian_settling;

// A rule with its usual parameters.
inline Rule rule(fastdl_hebbian_kind kind) { return {kind, FASTDL_HEBBIAN_AUTO, 0, 100.0, 0.4, 1.0, 2, 2.0}; }

// out = W after all samples X; lr[t*lr_stride] is the step of sample t. theta is for BCM. Throws std::runtime_error
// when weights become infinite or NaN.
inline void learn(const Rule& rule, MatrixView<const float> W, MatrixView<const float> X, const float* lr,
                  std::int64_t lr_stride, MatrixView<float> out, float* theta = nullptr) {
  const auto w = W.plain(), x = X.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_learn_f32(&rule, &w, &x, lr, lr_stride, theta, &to));
}
inline void learn(const Rule& rule, MatrixView<const double> W, MatrixView<const double> X, const double* lr,
                  std::int64_t lr_stride, MatrixView<double> out, double* theta = nullptr) {
  const auto w = W.plain(), x = X.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_learn_f64(&rule, &w, &x, lr, lr_stride, theta, &to));
}

// Foldiak's rule; lateral and threshold are read and written
inline void foldiak(const Settling& how, MatrixView<const float> W, MatrixView<const float> X, const float* lr,
                    std::int64_t lr_stride, MatrixView<float> lateral, float* threshold, MatrixView<float> out) {
  const auto w = W.plain(), x = X.plain(), between = lateral.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_foldiak_f32(&how, &w, &x, lr, lr_stride, &between, threshold, &to));
}
inline void foldiak(const Settling& how, MatrixView<const double> W, MatrixView<const double> X, const double* lr,
                    std::int64_t lr_stride, MatrixView<double> lateral, double* threshold, MatrixView<double> out) {
  const auto w = W.plain(), x = X.plain(), between = lateral.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_foldiak_f64(&how, &w, &x, lr, lr_stride, &between, threshold, &to));
}

// Candid components after further samples, of which `count` came before
inline void ccipca(MatrixView<const float> V, MatrixView<const float> X, std::int64_t count, double amnesic,
                   MatrixView<float> out) {
  const auto v = V.plain(), x = X.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_ccipca_f32(&v, &x, count, amnesic, &to));
}
inline void ccipca(MatrixView<const double> V, MatrixView<const double> X, std::int64_t count, double amnesic,
                   MatrixView<double> out) {
  const auto v = V.plain(), x = X.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_ccipca_f64(&v, &x, count, amnesic, &to));
}

// Samples less their running mean
inline void center(MatrixView<const float> X, const double* mean, std::int64_t count, double* after,
                   MatrixView<float> out) {
  const auto x = X.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_center_f32(&x, mean, count, after, &to));
}
inline void center(MatrixView<const double> X, const double* mean, std::int64_t count, double* after,
                   MatrixView<double> out) {
  const auto x = X.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_center_f64(&x, mean, count, after, &to));
}

// W = P' P / d
inline void hopfield_weights(MatrixView<const float> P, bool zero_diagonal, MatrixView<float> W) {
  const auto p = P.plain(), w = W.plain();
  throw_on_error(fastdl_hebbian_hopfield_weights_f32(&p, zero_diagonal, &w));
}
inline void hopfield_weights(MatrixView<const double> P, bool zero_diagonal, MatrixView<double> W) {
  const auto p = P.plain(), w = W.plain();
  throw_on_error(fastdl_hebbian_hopfield_weights_f64(&p, zero_diagonal, &w));
}

// out = -s W s' / 2 + b s' for the rows of S; without data, b is 0
inline void hopfield_energy(MatrixView<const float> W, MatrixView<const float> S, MatrixView<const float> b,
                            MatrixView<float> out) {
  const auto w = W.plain(), s = S.plain(), thresholds = b.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_hopfield_energy_f32(&w, &s, b.data ? &thresholds : nullptr, &to));
}
inline void hopfield_energy(MatrixView<const double> W, MatrixView<const double> S, MatrixView<const double> b,
                            MatrixView<double> out) {
  const auto w = W.plain(), s = S.plain(), thresholds = b.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_hopfield_energy_f64(&w, &s, b.data ? &thresholds : nullptr, &to));
}

// The rows of S become what they run to; without data, b is 0
inline void hopfield_recall(MatrixView<const float> W, MatrixView<const float> b, bool together,
                            std::int64_t max_sweeps, const std::int64_t* orders, std::int64_t sweeps,
                            std::int64_t units, MatrixView<float> S) {
  const auto w = W.plain(), thresholds = b.plain(), s = S.plain();
  throw_on_error(fastdl_hebbian_hopfield_recall_f32(&w, b.data ? &thresholds : nullptr, together, max_sweeps, orders,
                                                    sweeps, units, &s));
}
inline void hopfield_recall(MatrixView<const double> W, MatrixView<const double> b, bool together,
                            std::int64_t max_sweeps, const std::int64_t* orders, std::int64_t sweeps,
                            std::int64_t units, MatrixView<double> S) {
  const auto w = W.plain(), thresholds = b.plain(), s = S.plain();
  throw_on_error(fastdl_hebbian_hopfield_recall_f64(&w, b.data ? &thresholds : nullptr, together, max_sweeps, orders,
                                                    sweeps, units, &s));
}

// The same two for a dense associative memory of the patterns P
inline void dense_hopfield_energy(MatrixView<const float> P, MatrixView<const float> S, double degree,
                                  MatrixView<float> out) {
  const auto p = P.plain(), s = S.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_dense_hopfield_energy_f32(&p, &s, degree, &to));
}
inline void dense_hopfield(MatrixView<const float> P, double degree, bool together, std::int64_t max_sweeps,
                           const std::int64_t* orders, std::int64_t sweeps, std::int64_t units, MatrixView<float> S) {
  const auto p = P.plain(), s = S.plain();
  throw_on_error(fastdl_hebbian_dense_hopfield_f32(&p, degree, together, max_sweeps, orders, sweeps, units, &s));
}
inline void dense_hopfield_energy(MatrixView<const double> P, MatrixView<const double> S, double degree,
                                  MatrixView<double> out) {
  const auto p = P.plain(), s = S.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_dense_hopfield_energy_f64(&p, &s, degree, &to));
}
inline void dense_hopfield(MatrixView<const double> P, double degree, bool together, std::int64_t max_sweeps,
                           const std::int64_t* orders, std::int64_t sweeps, std::int64_t units, MatrixView<double> S) {
  const auto p = P.plain(), s = S.plain();
  throw_on_error(fastdl_hebbian_dense_hopfield_f64(&p, degree, together, max_sweeps, orders, sweeps, units, &s));
}

// out = (G with zero diagonal) P, G = P P' / d
inline void crosstalk(MatrixView<const float> P, MatrixView<float> out) {
  const auto p = P.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_crosstalk_f32(&p, &to));
}
inline void crosstalk(MatrixView<const double> P, MatrixView<double> out) {
  const auto p = P.plain(), to = out.plain();
  throw_on_error(fastdl_hebbian_crosstalk_f64(&p, &to));
}

}  // namespace fastdl::hebbian
