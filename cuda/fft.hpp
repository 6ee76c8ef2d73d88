// Tables of Fourier transforms on the device, made by the host once and read by the kernels of fft.cuh.
#pragma once

#include <vector>

#include "device.hpp"

namespace fastdl::fft::cuda {

using fastdl::cuda::Index;
using fastdl::cuda::Scratch;
using fastdl::cuda::Stream;

template <class T>
struct alignas(2 * sizeof(T)) Complex {
  T re, im;
};

// The largest prime factor that a line may have: what a block of 256 threads holds in registers, four numbers each.
constexpr int largest_prime = 1024;

// A transform of n points: forwards by stages of the radices in their order, backwards in the opposite one. Frequency k
// stands at place[k] where it was computed.
template <class T>
struct Axis {
  int n, stages;
  const int *radix, *place;
  const Complex<T>* roots;  // exp(-2 pi i k / n), k < n
};

// The radices of n, fours and eights first.
std::vector<int> radices_of(Index n);
// Whether all its prime factors are small enough.
bool transformable(Index n);

template <class T>
Scratch<Complex<T>> roots_of(const char* name, Index n, Stream stream);

// An axis and the memory behind it.
template <class T>
class AxisTables {
 public:
  AxisTables(const char* name, Index n, Stream stream);
  const Axis<T>& axis() const { return axis_; }

 private:
  Scratch<int> numbers_;
  Scratch<Complex<T>> roots_;
  Axis<T> axis_;
};

}  // namespace fastdl::fft::cuda
