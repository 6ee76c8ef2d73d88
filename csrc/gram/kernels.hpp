// From a kernel's name and parameters to the rule, the operands and the epilogue that compute it.
#pragma once

#include "gram/epilogues.hpp"
#include "gram/rules.hpp"

namespace fastdl::gram {
namespace {

// Up to here distances are summed directly: it takes twice the operations of a product, of which there are few, and
// spares the doubtful cases, of which low dimensions have many.
inline constexpr Index direct_features = 8;

// The two sets of rows as the engine sees them, and what is precomputed of them. Arrays live as long as this object.
template <class T>
class Rows {
 public:
  // turned: the rows of the output are the columns of K, and the other way round. all: those that y is some of.
  Rows(const Matrix<const T>& x_, const Matrix<const T>& y_, bool symmetric_, bool turned_ = false,
       const Matrix<const T>* all = nullptr)
      : x(turned_ ? y_ : x_), y(turned_ ? x_ : y_), symmetric(symmetric_), all_(all ? *all : y_) {}

  const Matrix<const T> x, y;
  const bool symmetric;

  gemm::Strided<T> left() const { return {x.data, x.row_stride, x.col_stride}; }
  gemm::Strided<T> right() const { return {y.data, y.row_stride, y.col_stride}; }

  // scale * f(squared length) of every row of x and y
  void lengths(const Features<T>& features, double scale, OfLength f, double beyond, const T*& of_x, const T*& of_y) {
    T* to = arrays_.make(y.rows + simd::lanes<T>);
    squared_lengths(y, features, scale, f, T(beyond), to);
    of_y = of_x = to;
    if (symmetric) return;
    to = arrays_.make(x.rows + simd::lanes<T>);
    squared_lengths(x, features, scale, f, T(beyond), to);
    of_x = to;
  }

  // 1/length of every row (rows.hpp)
  void inverse_lengths(const T*& of_x, const T*& of_y) {
    const auto make = [&](const Matrix<const T>& rows) {
      T* to = arrays_.make(rows.rows + simd::lanes<T>);
      gram::inverse_lengths(rows, to);
      return to;
    };
    of_x = of_y = make(y);
    if (!symmetric) of_x = make(x);
  }

  const T* centre() {
    T* to = arrays_.make(x.cols);
    Arrays<double> sums;  // after what outlives it: scratch frames close in the order opposite to their opening
    centre_of(all_, to, sums.make(x.cols));
    return to;
  }

  // The same for each row of a panel
  const T* repeated(const T* values) {
    if (!values) return nullptr;
    constexpr int rows = gemm::Shape<T>::rows;
    T* to = arrays_.make(x.cols * rows);
    for (Index k = 0; k < x.cols; ++k)
      for (int r = 0; r < rows; ++r) to[k * rows + r] = values[k];
    return to;
  }

  const T* halves() {
    T* to = arrays_.make(x.cols);
    for (Index k = 0; k < x.cols; ++k) to[k] = T(0.5);
    return to;
  }

  // 1/length_scale of every feature
  const T* weights(const double* length_scales) {
    if (!length_scales) return nullptr;
    T* to = arrays_.make(x.cols);
    for (Index k = 0; k < x.cols; ++k) to[k] = T(1 / length_scales[k]);
    return to;
  }

 private:
  const Matrix<const T> all_;
  Arrays<T> arrays_;
};

// A parameter as T: what is beyond its range becomes its largest number, so that it times 0 is still 0.
template <class T>
T finite(double value) {
  constexpr double most = sizeof(T) == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
  return T(value > most ? most : value < -most ? -most : value);
}

template <class T>
Polynomial<T> polynomial_of(const Kernel& kernel) {
  const bool whole = kernel.degree <= 1024 && kernel.degree == double(int(kernel.degree));
  return {finite<T>(kernel.gamma), finite<T>(kernel.coef0), T(kernel.degree), whole ? int(kernel.degree) : -1};
}

template <class T, class Function, class Run>
void with_distance(Rows<T>& rows, const double* length_scales, const Function& function, const Run& run) {
  const T* weight = rows.weights(length_scales);
  // Not with weights, which would be applied when rows are packed, before their difference is taken.
  if (rows.x.cols <= direct_features && !weight) {
    run(SquaredDifference{}, rows.left(), rows.right(), OfDifferences<T, Function>{function});
    return;
  }
  const T* centre = rows.centre();
  const Features<T> features{centre, weight, rows.repeated(centre), rows.repeated(weight)};
  OfProducts<T, Function> epilogue{function, nullptr, nullptr, trusted_share_of_distances<T>(rows.x.cols),
                                   rows.x,   rows.y,  weight};
  rows.lengths(features, 1, itself, __builtin_nan(""), epilogue.x_squared, epilogue.y_squared);
  run(gemm::MultiplyAdd{}, Centred<T>{rows.left(), features}, Centred<T>{rows.right(), features}, epilogue);
}

// The largest numbers add up to infinity: features are halved when they are packed, and sums doubled in the end, which
// changes no other bit unless they are denormal. (Halved in the rule, the inner loop of an AVX2 tile had 235
// instructions in place of 195.)
template <class T, class Function, class Run>
void with_chi_squared(Rows<T>& rows, const Function& function, const Run& run) {
  const T* half = rows.halves();
  const Features<T> features{nullptr, half, nullptr, rows.repeated(half)};
  run(ChiSquared{}, Centred<T>{rows.left(), features}, Centred<T>{rows.right(), features},
      OfHalves<T, Function>{function});
}

template <class T>
Angles<T> angles_of(Rows<T>& rows) {
  Angles<T> angles{nullptr, nullptr, trusted_share_of_angles<T>(rows.x.cols), rows.x, rows.y};
  rows.inverse_lengths(angles.x_inverse, angles.y_inverse);
  return angles;
}

template <class T, bool tangent, class Run>
void with_network(const Kernel& kernel, Rows<T>& rows, const Run& run) {
  const double features = kernel.normalize && rows.x.cols > 0 ? double(rows.x.cols) : 1;
  const double w = kernel.w_std, b = kernel.b_std;
  const auto fill = [&](auto network, double growth) {
    network.angles = angles_of(rows);
    network.depth = kernel.depth, network.w = finite<T>(w), network.b = finite<T>(b);
    network.product = finite<T>(w * w / features), network.constant = finite<T>(b * b);
    rows.lengths({}, growth / __builtin_sqrt(features), length, 0, network.x_length, network.y_length);
    run(gemm::MultiplyAdd{}, rows.left(), rows.right(), network);
  };
  if (b > (sizeof(T) == 4 ? 1e-37 : 1e-307))  // the square of a smaller one is nothing, even for rows of zeros
    fill(ReluNetwork<T, tangent, true>{}, 1);
  else
    fill(ReluNetwork<T, tangent, false>{}, w * __builtin_pow(w * w / 2, kernel.depth / 2.0));
}

template <class T, int order, class Run>
void with_arc_cosine(Rows<T>& rows, const Run& run) {
  ArcCosine<T, order> epilogue{angles_of(rows), nullptr, nullptr};
  rows.lengths({}, 1, length, 0, epilogue.x_length, epilogue.y_length);
  run(gemm::MultiplyAdd{}, rows.left(), rows.right(), epilogue);
}

// run(rule, left operand, right operand, epilogue) for the kernel
template <class T, class Run>
void with_kernel(const Kernel& kernel, Rows<T>& rows, const Run& run) {
  const T gamma = finite<T>(kernel.gamma), coef0 = finite<T>(kernel.coef0);
  const auto direct = [&](const auto& rule, const auto& epilogue) { run(rule, rows.left(), rows.right(), epilogue); };
  switch (kernel.kind) {
    case FASTDL_LINEAR:
      return direct(gemm::MultiplyAdd{}, gemm::Identity{});
    case FASTDL_POLYNOMIAL:
      return direct(gemm::MultiplyAdd{}, polynomial_of<T>(kernel));
    case FASTDL_SIGMOID:
      return direct(gemm::MultiplyAdd{}, Sigmoid<T>{gamma, coef0});
    case FASTDL_RBF:
      return with_distance(rows, nullptr, Rbf<T>{gamma}, run);
    case FASTDL_LAPLACIAN:
      return direct(AbsoluteDifference{}, NegativeExponential<T>{gamma});
    case FASTDL_COSINE:
      return direct(gemm::MultiplyAdd{}, Cosine<T>{angles_of(rows)});
    case FASTDL_ADDITIVE_CHI2:
      return with_chi_squared(rows, Negative<T>{}, run);
    case FASTDL_CHI2:
      return with_chi_squared(rows, NegativeExponential<T>{gamma}, run);
    case FASTDL_MATERN: {
      const double scale = kernel.length_scales ? 1 : 1 / kernel.length_scale;
      if (kernel.nu == 0.5) return with_distance(rows, kernel.length_scales, Matern<T, 0>{finite<T>(scale)}, run);
      if (kernel.nu == 1.5)
        return with_distance(rows, kernel.length_scales, Matern<T, 1>{finite<T>(__builtin_sqrt(3.0) * scale)}, run);
      if (kernel.nu == 2.5)
        return with_distance(rows, kernel.length_scales, Matern<T, 2>{finite<T>(__builtin_sqrt(5.0) * scale)}, run);
      return with_distance(rows, kernel.length_scales, Rbf<T>{finite<T>(0.5 * scale * scale)}, run);
    }
    case FASTDL_GEOMETRIC:
      return direct(gemm::MultiplyAdd{}, Geometric<T>{T(kernel.alpha * kernel.alpha)});
    case FASTDL_SINC:
      return direct(SincProduct<T>{T(kernel.omega), T(kernel.omega / pi), T(1 / pi)}, gemm::Identity{});
    case FASTDL_ARC_COSINE:
      if (kernel.order == 0) return with_arc_cosine<T, 0>(rows, run);
      if (kernel.order == 1) return with_arc_cosine<T, 1>(rows, run);
      return with_arc_cosine<T, 2>(rows, run);
    case FASTDL_NNGP:
      return with_network<T, false>(kernel, rows, run);
    case FASTDL_NTK:
      return with_network<T, true>(kernel, rows, run);
  }
}

}  // namespace
}  // namespace fastdl::gram
