// What follows the sums of a layer: bias and activation, the twin of csrc/conv/activation.hpp.
#pragma once

#include "activation.hpp"
#include "launch.cuh"

namespace fastdl::cuda {

// The activation is an argument and not a template parameter: the same branch for all threads, once for an element, and
// a fifth of the kernels to compile. NaN stays NaN.
template <class T>
__device__ __forceinline__ T activated(T value, Activation activation) {
  switch (activation) {
    case Activation::none:
      return value;
    case Activation::relu:
      return value < T(0) ? T(0) : value;
    case Activation::leaky_relu:
      return value < T(0) ? value * T(0.01) : value;
    case Activation::sigmoid: {
      // exp of a number that is not positive: it cannot overflow, and small results keep their digits.
      const T small = std::exp(value < T(0) ? value : -value);
      return (value < T(0) ? small : T(1)) / (T(1) + small);
    }
    case Activation::tanh:
      return std::tanh(value);
  }
  return value;
}

}  // namespace fastdl::cuda
