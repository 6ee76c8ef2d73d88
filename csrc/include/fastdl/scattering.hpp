// Scattering transforms in C++: owning, throwing wrappers over the C interface (fastdl.h, where each contract is
// written). Filters are the caller's: a tree is described by their spectra. Arrays are pointers, contiguous.
#pragma once

#include <utility>

#include "fastdl/matrix.hpp"

namespace fastdl::scattering {

// A transform made ready for images of one size and one precision; may be used from many threads at once.
template <class T>
class Plan {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  using Handle = std::conditional_t<std::is_same_v<T, float>, fastdl_scattering_plan_f32, fastdl_scattering_plan_f64>;

 public:
  explicit Plan(const fastdl_scattering_tree& tree) {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_plan_make_f32(&tree, &handle_));
    else
      throw_on_error(fastdl_scattering_plan_make_f64(&tree, &handle_));
  }
  // With filters asked for one at a time
  Plan(const fastdl_scattering_tree& tree, fastdl_scattering_filter give, void* context) {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_plan_make_from_f32(&tree, give, context, &handle_));
    else
      throw_on_error(fastdl_scattering_plan_make_from_f64(&tree, give, context, &handle_));
  }
  Plan(Plan&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Plan& operator=(Plan&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Plan() {
    if constexpr (std::is_same_v<T, float>)
      fastdl_scattering_plan_free_f32(handle_);
    else
      fastdl_scattering_plan_free_f64(handle_);
  }

  // out (batch, channels, rows, columns) of x (batch, height, width)
  void forward(const T* x, std::int64_t batch, T* out) const {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_forward_f32(handle_, x, batch, out));
    else
      throw_on_error(fastdl_scattering_forward_f64(handle_, x, batch, out));
  }

  // dx, the gradient for x of the sum of all results times grad
  void vjp(const T* x, const T* grad, std::int64_t batch, T* dx) const {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_vjp_f32(handle_, x, grad, batch, dx));
    else
      throw_on_error(fastdl_scattering_vjp_f64(handle_, x, grad, batch, dx));
  }

  // Without averages, on a part of every level: out[c] (batch, rows, columns) for every channel
  void moduli(const fastdl_scattering_part* part, const T* x, std::int64_t batch, T* const* out) const {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_moduli_f32(handle_, part, x, batch, out));
    else
      throw_on_error(fastdl_scattering_moduli_f64(handle_, part, x, batch, out));
  }
  void moduli_vjp(const fastdl_scattering_part* part, const T* x, const T* const* grad, std::int64_t batch,
                  T* dx) const {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_moduli_vjp_f32(handle_, part, x, grad, batch, dx));
    else
      throw_on_error(fastdl_scattering_moduli_vjp_f64(handle_, part, x, grad, batch, dx));
  }

 private:
  Handle* handle_ = nullptr;
};

// Scattering on rotations and translations, made ready in the same way.
template <class T>
class RotoPlan {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  using Handle = std::conditional_t<std::is_same_v<T, float>, fastdl_roto_plan_f32, fastdl_roto_plan_f64>;

 public:
  explicit RotoPlan(const fastdl_roto_bank& bank) {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_roto_plan_make_f32(&bank, &handle_));
    else
      throw_on_error(fastdl_roto_plan_make_f64(&bank, &handle_));
  }
  RotoPlan(RotoPlan&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  RotoPlan& operator=(RotoPlan&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~RotoPlan() {
    if constexpr (std::is_same_v<T, float>)
      fastdl_roto_plan_free_f32(handle_);
    else
      fastdl_roto_plan_free_f64(handle_);
  }

  // out (batch, channels, rows, columns) of x (batch, height, width)
  void forward(const T* x, std::int64_t batch, T* out) const {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_roto_f32(handle_, x, batch, out));
    else
      throw_on_error(fastdl_scattering_roto_f64(handle_, x, batch, out));
  }

  // dx, the gradient for x of the sum of all results times grad
  void vjp(const T* x, const T* grad, std::int64_t batch, T* dx) const {
    if constexpr (std::is_same_v<T, float>)
      throw_on_error(fastdl_scattering_roto_vjp_f32(handle_, x, grad, batch, dx));
    else
      throw_on_error(fastdl_scattering_roto_vjp_f64(handle_, x, grad, batch, dx));
  }

 private:
  Handle* handle_ = nullptr;
};

// Solid harmonic scattering of volumes
inline void harmonic(const fastdl_harmonic_shape& shape, const float* const* filters, const float* x,
                     std::int64_t batch, float* out) {
  throw_on_error(fastdl_scattering_harmonic_f32(&shape, filters, x, batch, out));
}
inline void harmonic(const fastdl_harmonic_shape& shape, const double* const* filters, const double* x,
                     std::int64_t batch, double* out) {
  throw_on_error(fastdl_scattering_harmonic_f64(&shape, filters, x, batch, out));
}

// Its gradient
inline void harmonic_vjp(const fastdl_harmonic_shape& shape, const float* const* filters, const float* x,
                         const float* grad, std::int64_t batch, float* dx) {
  throw_on_error(fastdl_scattering_harmonic_vjp_f32(&shape, filters, x, grad, batch, dx));
}
inline void harmonic_vjp(const fastdl_harmonic_shape& shape, const double* const* filters, const double* x,
                         const double* grad, std::int64_t batch, double* dx) {
  throw_on_error(fastdl_scattering_harmonic_vjp_f64(&shape, filters, x, grad, batch, dx));
}

// The fast wavelet transform of images, and its adjoint
inline void wavelet(const fastdl_wavelet_shape& shape, const float* x, float* approximation, float* const* details) {
  throw_on_error(fastdl_scattering_wavelet_f32(&shape, x, approximation, details));
}
inline void wavelet(const fastdl_wavelet_shape& shape, const double* x, double* approximation, double* const* details) {
  throw_on_error(fastdl_scattering_wavelet_f64(&shape, x, approximation, details));
}
inline void wavelet_inverse(const fastdl_wavelet_shape& shape, const float* approximation, const float* const* details,
                            float* x) {
  throw_on_error(fastdl_scattering_wavelet_inverse_f32(&shape, approximation, details, x));
}
inline void wavelet_inverse(const fastdl_wavelet_shape& shape, const double* approximation,
                            const double* const* details, double* x) {
  throw_on_error(fastdl_scattering_wavelet_inverse_f64(&shape, approximation, details, x));
}

}  // namespace fastdl::scattering
