// Entry points of the fast wavelet transform: check, then one dispatch to the active instruction-set level.
#include "scattering/cascade.hpp"

#include <vector>

#include "conv/checks.hpp"
#include "scattering/tree_checks.hpp"

namespace fastdl::scattering {
namespace {

constexpr Index most_taps = 1024;

template <class T>
struct Filters {
  std::vector<T> low, high;
};

template <class T>
Cascade<T> checked(const char* name, const fastdl_wavelet_shape* shape, Filters<T>& filters) {
  expect(name, shape != nullptr, "a shape", "NULL");
  const auto number = [&](bool valid, const char* wanted, Index got) {
    expect(name, valid, wanted, std::to_string(got));
  };
  number(shape->scales >= 0 && shape->scales <= 60, "0 to 60 scales", shape->scales);
  number(shape->batch >= 0, "a batch of at least 0", shape->batch);
  for (const Index size : {shape->height, shape->width})
    number(size >= 0 && size % (Index{1} << shape->scales) == 0, "sizes that are multiples of 2^scales", size);
  number(shape->taps >= 2 && shape->taps <= most_taps && shape->taps % 2 == 0, "an even number of 2 to 1024 taps",
         shape->taps);
  expect(name, shape->low && shape->high, "filters", "NULL");
  conv::check_size(name, "images", {shape->batch, shape->height, shape->width});
  for (Index t = 0; t < shape->taps; ++t) {
    filters.low.push_back(T(shape->low[t]));
    filters.high.push_back(T(shape->high[t]));
  }
  return {shape->batch, shape->height,      shape->width,       shape->scales,
          shape->taps,  filters.low.data(), filters.high.data()};
}

template <class T>
bool empty(const Cascade<T>& cascade) {
  return cascade.batch == 0 || cascade.height == 0 || cascade.width == 0;
}

template <class T, class Pointer>
void check_arrays(const char* name, const Cascade<T>& cascade, const T* x, const T* approximation,
                  const Pointer* details) {
  expect(name, x && approximation && (cascade.scales == 0 || details), "arrays with data", "a null pointer");
  for (Index scale = 0; scale < cascade.scales; ++scale)
    expect(name, details[scale] != nullptr, "details of every scale", "NULL");
}

template <class T>
void transform(const fastdl_wavelet_shape* shape, const T* x, T* approximation, T* const* details) {
  constexpr const char* name = "scattering.wavelet";
  Filters<T> filters;
  const Cascade<T> cascade = checked(name, shape, filters);
  if (empty(cascade)) return;
  check_arrays(name, cascade, x, approximation, details);
  FASTDL_DISPATCH(wavelet(cascade, x, approximation, details));
}

template <class T>
void inverse(const fastdl_wavelet_shape* shape, const T* approximation, const T* const* details, T* x) {
  constexpr const char* name = "scattering.wavelet_inverse";
  Filters<T> filters;
  const Cascade<T> cascade = checked(name, shape, filters);
  if (empty(cascade)) return;
  check_arrays(name, cascade, x, approximation, details);
  FASTDL_DISPATCH(wavelet_inverse(cascade, approximation, details, x));
}

}  // namespace
}  // namespace fastdl::scattering

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                     \
  fastdl_status fastdl_scattering_wavelet_##suffix(const fastdl_wavelet_shape* shape, const T* x, T* approximation,   \
                                                   T* const* details) {                                               \
    return core::guarded([&] { scattering::transform<T>(shape, x, approximation, details); });                        \
  }                                                                                                                   \
  fastdl_status fastdl_scattering_wavelet_inverse_##suffix(const fastdl_wavelet_shape* shape, const T* approximation, \
                                                           const T* const* details, T* x) {                           \
    return core::guarded([&] { scattering::inverse<T>(shape, approximation, details, x); });                          \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
