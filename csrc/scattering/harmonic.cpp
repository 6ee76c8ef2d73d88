// Entry points of solid harmonic scattering: check, then one dispatch to the active instruction-set level.
#include <cmath>
#include <string>

#include "conv/checks.hpp"
#include "core/check.hpp"
#include "core/isa.hpp"
#include "scattering/bodies.hpp"

namespace fastdl::scattering {
namespace {

constexpr Index most = Index{1} << 40;

template <class T>
Harmonic<T> checked(const char* name, const fastdl_harmonic_shape* shape, const T* const* filters, const T* x,
                    Index batch, const T* out) {
  const auto expect = [&](bool valid, const char* wanted, Index got) {
    if (!valid) core::fail(name, wanted, std::to_string(got));
  };
  if (!shape || !filters || !shape->harmonics || !shape->power) core::fail(name, "a shape and filters", "NULL");
  Index voxels = 1;
  for (const Index size : shape->size) {
    expect(size > 0 && size <= most / voxels, "sizes above 0", size);
    voxels *= size;
  }
  expect(shape->scales > 0 && shape->scales <= 64, "1 to 64 scales", shape->scales);
  expect(shape->degrees > 0 && shape->degrees <= 1024, "1 to 1024 degrees", shape->degrees);
  expect(shape->order == 1 || shape->order == 2, "order 1 or 2", shape->order);
  expect(shape->powers > 0 && shape->powers <= most_powers, "1 to 64 powers", shape->powers);
  for (Index p = 0; p < shape->powers; ++p)
    if (!(shape->power[p] > 0) || !std::isfinite(shape->power[p]))
      core::fail(name, "powers above 0", std::to_string(shape->power[p]));
  for (Index degree = 0; degree < shape->degrees; ++degree) {
    expect(shape->harmonics[degree] > 0, "harmonics of every degree", shape->harmonics[degree]);
    if (!filters[degree]) core::fail(name, "filters of every degree", "NULL");
    conv::check_size(name, "filters", {shape->scales, shape->harmonics[degree], voxels, 2});
  }
  expect(batch >= 0, "a batch of at least 0", batch);
  conv::check_size(name, "volumes", {batch, voxels});
  conv::check_size(name, "results", {batch, shape->scales * shape->scales, shape->degrees, shape->powers});
  if (batch > 0 && (!x || !out)) core::fail(name, "arrays with data", "a null pointer");
  return {*shape, filters};
}

template <class T>
void compute(const fastdl_harmonic_shape* shape, const T* const* filters, const T* x, Index batch, T* out) {
  const Harmonic<T> h = checked<T>("scattering.harmonic", shape, filters, x, batch, out);
  FASTDL_DISPATCH(harmonic(h, x, batch, out));
}

template <class T>
void compute_vjp(const fastdl_harmonic_shape* shape, const T* const* filters, const T* x, const T* grad, Index batch,
                 T* dx) {
  constexpr const char* name = "scattering.harmonic_vjp";
  const Harmonic<T> h = checked<T>(name, shape, filters, x, batch, dx);
  if (batch > 0 && !grad) core::fail(name, "a gradient", "NULL");
  FASTDL_DISPATCH(harmonic_vjp(h, x, grad, batch, dx));
}

}  // namespace
}  // namespace fastdl::scattering

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                    \
  fastdl_status fastdl_scattering_harmonic_##suffix(const fastdl_harmonic_shape* shape, const T* const* filters,     \
                                                    const T* x, int64_t batch, T* out) {                             \
    return core::guarded([&] { scattering::compute<T>(shape, filters, x, batch, out); });                            \
  }                                                                                                                  \
  fastdl_status fastdl_scattering_harmonic_vjp_##suffix(const fastdl_harmonic_shape* shape, const T* const* filters, \
                                                        const T* x, const T* grad, int64_t batch, T* dx) {           \
    return core::guarded([&] { scattering::compute_vjp<T>(shape, filters, x, grad, batch, dx); });                   \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
