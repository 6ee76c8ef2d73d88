// Scattering on the device, as the host calls it. Arrays are pointers to device memory, contiguous; filters and powers
// are in main memory.
#pragma once

#include <exception>
#include <memory>

#include "device.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::scattering::cuda {

using fastdl::cuda::Index;
using fastdl::cuda::Stream;

// Sizes that have no kernel: a prime factor above fft::cuda::largest_prime, or lines that do not fit into shared
// memory.
struct Unsupported : std::exception {
  const char* what() const noexcept override { return "sizes whose transforms have kernels"; }
};

// How much memory a plan may use.
struct Limits {
  Index shared = 48 << 10;           // bytes of a block: grids that take more go to global memory between passes
  Index scratch = Index{256} << 20;  // bytes between kernels: so many images are taken at a time, but at least one
};

template <class T>
struct Tables;

// A transform made ready for images of one size, on the device that is current when it is made. Calls may come from any
// thread and stream of that device.
template <class T>
class Plan {
 public:
  Plan(const fastdl_scattering_tree& tree, const Limits& limits);
  ~Plan();
  Plan(Plan&& other) noexcept;
  Plan& operator=(Plan&&) = delete;

  Index samples() const;
  Index results() const;
  int device() const { return device_; }
  // out (batch, channels, rows, columns) of x (batch, height, width)
  void forward(const char* name, const T* x, Index batch, T* out, Stream stream) const;
  // dx, the gradient for x of the sum of all results times grad
  void vjp(const char* name, const T* x, const T* grad, Index batch, T* dx, Stream stream) const;

 private:
  std::unique_ptr<Tables<T>> tables_;
  int device_;
};

template <class T>
struct VolumeTables;

// Solid harmonic scattering of volumes, with its filters on the device: filters[l] are (scales, harmonics[l], voxels)
// complex numbers. The powers and the order are those of a call; see fastdl_harmonic_shape.
template <class T>
class Volumes {
 public:
  Volumes(const fastdl_harmonic_shape& shape, const T* const* filters, const Limits& limits);
  ~Volumes();
  Volumes(Volumes&& other) noexcept;
  Volumes& operator=(Volumes&&) = delete;

  int device() const { return device_; }
  void harmonic(const fastdl_harmonic_shape& shape, const T* x, Index batch, T* out, Stream stream) const;
  void harmonic_vjp(const fastdl_harmonic_shape& shape, const T* x, const T* grad, Index batch, T* dx,
                    Stream stream) const;

 private:
  std::unique_ptr<VolumeTables<T>> tables_;
  int device_;
};

}  // namespace fastdl::scattering::cuda
