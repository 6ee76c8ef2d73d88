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

}  // namespace fastdl::gram
