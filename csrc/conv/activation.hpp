// What follows the sums of a convolution: bias and activation.
#pragma once

#include "conv/geometry.hpp"
#include "gemm/shape.hpp"
#include "simd/math.hpp"

namespace fastdl::conv {
namespace {

inline constexpr double leaky_slope = 0.01;

template <class T>
FASTDL_INLINE simd::Vec<T> activated(simd::Vec<T> value, Activation activation) {
  const simd::Vec<T> zero{};
  switch (activation) {
    case Activation::none:
      return value;
    case Activation::relu:
      return simd::select(value < zero, zero, value);  // NaN stays
    case Activation::leaky_relu:
      return simd::select(value < zero, value * T(leaky_slope), value);
    case Activation::sigmoid:
      return simd::sigmoid(value);
    case Activation::tanh:
      return simd::tanh(value);
  }
  return value;
}

// Sums of pixels [0, count) of a row, with its bias, to their place.
template <class T>
void finish_pixels(const T* sums, Index count, T bias, Activation activation, T* to) {
  constexpr int step = simd::lanes<T>;
  const auto all = [&](Activation which) {
    Index j = 0;
    for (; j + step <= count; j += step) simd::store(to + j, activated<T>(simd::load(sums + j) + bias, which));
    if (const int rest = int(count - j); rest > 0)
      simd::store_first(to + j, activated<T>(simd::load_first(sums + j, rest) + bias, which), rest);
  };
  // The test of the activation stands outside the loop.
  if (activation == Activation::none)
    all(Activation::none);
  else if (activation == Activation::relu)
    all(Activation::relu);
  else
    all(activation);
}

}  // namespace
}  // namespace fastdl::conv
