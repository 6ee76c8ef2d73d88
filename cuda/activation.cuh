// What follows the sums of a layer: bias and activation, the twin of csrc/conv/activation.hpp.
#pragma once

#include "activation.hpp"
#include "device.hpp"
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

// Where a thread has many results: sigmoid and tanh, unrolled for all of them, would be most of the code. They are left
// to activate_rest, afterwards and in place: as many bytes again as the kernel wrote. The others are a slope below
// zero.
inline double slope_of(Activation activation) {
  return activation == Activation::relu ? 0.0 : activation == Activation::leaky_relu ? 0.01 : 1.0;
}
template <class T>
__device__ __forceinline__ T rectified(T value, T slope) {
  const T below = slope == T(0) ? T(0) : value * slope;  // not 0 times infinity
  return value < T(0) ? below : value;
}

constexpr int activation_threads = 256;

// In place, for the activations that take a pass of their own. Limit: memory, a read and a write of a number.
template <class T>
__global__ void __launch_bounds__(activation_threads) activate(T* values, Index count, Activation activation) {
  const Index all = Index(gridDim.x) * activation_threads;
  for (Index at = Index(blockIdx.x) * activation_threads + threadIdx.x; at < count; at += all)
    values[at] = activated(values[at], activation);
}

template <class T>
void activate_rest(const char* name, T* values, Index count, Activation activation, Stream stream) {
  if (count == 0 || (activation != Activation::sigmoid && activation != Activation::tanh)) return;
  const Index blocks = (count + activation_threads - 1) / activation_threads;
  const Geometry geometry{dim3(unsigned(blocks < (1 << 20) ? blocks : 1 << 20)), dim3(activation_threads), 0, stream};
  launch(name, activate<T>, geometry, values, count, activation);
}

}  // namespace fastdl::cuda
