// The gradient of moduli: |z| grows in the direction of z, and at 0 the gradient is taken as 0.
#pragma once

#include "fft/butterfly.hpp"
#include "scattering/lanes.hpp"

namespace fastdl::scattering {
namespace {

// column[y] <- g[y] z/|z|, z = column[y]
template <class T>
void times_direction(Index n, const T* g, T* column) {
  for (Index y = 0; y < n; ++y) {
    T* at = column + y * fft::width<T>;
    const fft::Complex<T> z = fft::load_element(at);
    const Vec<T> modulus = fft::modulus(z);
    const auto zero = modulus == Vec<T>{};
    const Vec<T> factor =
        simd::select(zero, Vec<T>{}, load(g + y * lanes<T>) / simd::select(zero, broadcast(T(1)), modulus));
    fft::store_element(at, fft::Complex<T>{z.re * factor, z.im * factor});
  }
}

}  // namespace
}  // namespace fastdl::scattering
