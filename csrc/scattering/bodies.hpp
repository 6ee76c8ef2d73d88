// The family's bodies, one set per instruction-set level, each compiled from its own *_isa.cpp.
#pragma once

#include "core/isa.hpp"
#include "scattering/roto_plan.hpp"

namespace fastdl::scattering {

// Solid harmonic scattering: the shape, and filters of each degree.
template <class T>
struct Harmonic {
  fastdl_harmonic_shape shape;
  const T* const* filters;

  Index paths() const __attribute__((always_inline)) {
    return shape.scales + (shape.order == 2 ? shape.scales * (shape.scales - 1) / 2 : 0);
  }
};
inline constexpr Index most_powers = 64;

// forward:  out (batch, channels, outputs) of x (batch, samples), by lanes of images and wavelets
// backward: dx (batch, samples) from x and grad (batch, channels, outputs)
// moduli, moduli_vjp: the same without averages, of every channel the part of its level (batch, rows, columns)
// large, large_vjp, large_moduli, large_moduli_vjp: the same four by rasters, of large plans
// harmonic, harmonic_vjp: the same for volumes, out (batch, paths, degrees, powers)
// roto, roto_vjp: the same on rotations and translations, out (batch, channels, outputs)
// All arrays are contiguous.
#define FASTDL_SCATTERING_TYPE(T)                                                                                     \
  void forward(const Plan<T>& plan, const T* x, Index batch, T* out);                                                 \
  void backward(const Plan<T>& plan, const T* x, const T* grad, Index batch, T* dx);                                  \
  void moduli(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, Index batch, T* const* out);       \
  void moduli_vjp(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, const T* const* grad,          \
                  Index batch, T* dx);                                                                                \
  void large(const Plan<T>& plan, const T* x, Index batch, T* out);                                                   \
  void large_vjp(const Plan<T>& plan, const T* x, const T* grad, Index batch, T* dx);                                 \
  void large_moduli(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, Index batch, T* const* out); \
  void large_moduli_vjp(const Plan<T>& plan, const fastdl_scattering_part* part, const T* x, const T* const* grad,    \
                        Index batch, T* dx);                                                                          \
  void harmonic(const Harmonic<T>& h, const T* x, Index batch, T* out);                                               \
  void harmonic_vjp(const Harmonic<T>& h, const T* x, const T* grad, Index batch, T* dx);                             \
  void roto(const Roto<T>& roto, const T* x, Index batch, T* out);                                                    \
  void roto_vjp(const Roto<T>& roto, const T* x, const T* grad, Index batch, T* dx);

#define FASTDL_SCATTERING_BODIES(level) \
  namespace level {                     \
  FASTDL_SCATTERING_TYPE(float)         \
  FASTDL_SCATTERING_TYPE(double)        \
  }
FASTDL_DECLARE_LEVELS(FASTDL_SCATTERING_BODIES)
#undef FASTDL_SCATTERING_BODIES

}  // namespace fastdl::scattering
