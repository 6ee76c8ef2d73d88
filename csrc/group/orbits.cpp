// Entry points for functions on finite groups and on orbits: check, then compute.
#include <string>

#include "conv/checks.hpp"
#include "core/check.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "group/bodies.hpp"

namespace fastdl::group {
namespace {

using conv::check_data;
using conv::check_size;

void check_counts(const char* name, const char* what, std::initializer_list<Index> counts) {
  for (Index count : counts)
    if (count < 0) core::fail(name, std::string(what) + " of at least 0", std::to_string(count));
}

// Numbers from 0 to limit - 1.
void check_places(const char* name, const char* label, const std::int64_t* places, Index count, Index limit) {
  for (Index i = 0; i < count; ++i)
    if (places[i] < 0 || places[i] >= limit)
      core::fail(name, std::string(label) + " from 0 to " + std::to_string(limit - 1), std::to_string(places[i]));
}

template <class T>
void compute_pool(const T* x, Index count, Index elements, Index pixels, fastdl_group_pool mode, T* out) {
  constexpr const char* name = "group.pool";
  check_counts(name, "extents", {count, elements, pixels});
  check_size(name, "x", {count, elements, pixels});
  if (mode < FASTDL_GROUP_POOL_MAX || mode > FASTDL_GROUP_POOL_L2)
    core::fail(name, "a mode of the list", std::to_string(int(mode)));
  if (elements == 0) core::fail(name, "an element at least", "0");
  check_data(name, "x", x, {count, pixels});
  check_data(name, "out", out, {count, pixels});
  if (count * pixels == 0) return;
  FASTDL_DISPATCH(pool(x, count, elements, pixels, static_cast<Pool>(mode), out));
}

template <class T>
void compute_convolution(const T* f, Index count, const T* h, Index n, const std::int64_t* quotient, T* out) {
  constexpr const char* name = "group.convolve";
  check_counts(name, "extents", {count, n});
  check_size(name, "f", {count, n});
  check_size(name, "quotient", {n, n});
  check_data(name, "f", f, {count, n});
  check_data(name, "h", h, {n});
  check_data(name, "quotient", quotient, {n});
  check_data(name, "out", out, {count, n});
  check_places(name, "quotients", quotient, n * n, n);
  if (count * n == 0) return;
  FASTDL_DISPATCH(convolve(f, count, h, n, quotient, out));
}

template <class T>
void compute_signature(const T* x, Index samples, const T* templates, Index count, Index d,
                       const std::int64_t* permutations, Index order, const fastdl_group_measures* wanted, T* out) {
  constexpr const char* name = "group.signature";
  if (!wanted) core::fail(name, "measures", "NULL");
  check_counts(name, "extents", {samples, count, d, order, wanted->cuts, wanted->moments});
  if (d > INT32_MAX) core::fail(name, "fewer than 2^31 features", std::to_string(d));
  check_size(name, "thresholds", {wanted->cuts});
  check_size(name, "powers", {wanted->moments});
  check_size(name, "x", {samples, d});
  check_size(name, "templates", {count, d});
  check_size(name, "permutations", {order, d});
  check_size(name, "orbits", {samples, order + 1, 2, 128});
  check_size(name, "orbits", {count, order + 1, 2, 128});
  check_size(name, "out", {samples, count, wanted->cuts + wanted->moments});
  check_data(name, "x", x, {samples, d});
  check_data(name, "templates", templates, {count, d});
  check_data(name, "permutations", permutations, {order, d});
  check_data(name, "thresholds", wanted->thresholds, {wanted->cuts});
  check_data(name, "powers", wanted->powers, {wanted->moments});
  check_data(name, "out", out, {samples, count, wanted->cuts + wanted->moments});
  if (wanted->nonlinearity < FASTDL_GROUP_STEP || wanted->nonlinearity > FASTDL_GROUP_RELU)
    core::fail(name, "a nonlinearity of the list", std::to_string(int(wanted->nonlinearity)));
  check_places(name, "permutations", permutations, order * d, d);
  for (Index i = 0; i < wanted->moments; ++i)
    if (wanted->powers[i] < 0) core::fail(name, "powers of at least 0", std::to_string(wanted->powers[i]));
  if (samples == 0 || count == 0 || wanted->cuts + wanted->moments == 0) return;
  const Products<T> products{x, templates, samples, count, d, order, permutations};
  const Measures measures{wanted->thresholds, wanted->cuts, wanted->powers, wanted->moments,
                          static_cast<Nonlinearity>(wanted->nonlinearity)};
  FASTDL_DISPATCH(signature(products, measures, out));
}

// In double for both types: the differences of a Gramian that is nearly one of an orbit are small.
template <class T>
void compute_regularizer(const T* w, Index d, Index n, double sigma, T* gradient, double* value) {
  constexpr const char* name = "group.orbit_regularizer";
  check_counts(name, "extents", {d, n});
  check_size(name, "W", {d, n});
  check_size(name, "the Gramian", {n, n});
  check_data(name, "W", w, {d, n});
  check_data(name, "gradient", gradient, {d, n});
  if (!value) core::fail(name, "a place for the value", "NULL");
  if (!(sigma > 0)) core::fail(name, "sigma above 0", std::to_string(sigma));
  core::Scratch scratch;
  double* gramian = scratch.array<double>(n, n + 1);
  double* slope = scratch.array<double>(n, n + 1);
  core::parallel_for(n, n * n * d < 100000 ? 1 : core::thread_count(), [&](Index i) {
    for (Index j = 0; j < n; ++j) gramian[i * n + j] = 0;
    for (Index f = 0; f < d; ++f)
      for (Index j = 0; j < n; ++j) gramian[i * n + j] += double(w[f * n + i]) * double(w[f * n + j]);
  });
  FASTDL_DISPATCH(regularizer(gramian, n, sigma, slope, *value));
  for (Index i = 0; i < n; ++i)
    for (Index j = i; j < n; ++j) {
      const double both = slope[i * n + j] + slope[j * n + i];
      slope[i * n + j] = slope[j * n + i] = both;
    }
  core::parallel_for(d, n * n * d < 100000 ? 1 : core::thread_count(), [&](Index f) {
    for (Index j = 0; j < n; ++j) {
      double sum = 0;
      for (Index i = 0; i < n; ++i) sum += double(w[f * n + i]) * slope[i * n + j];
      gradient[f * n + j] = T(sum);
    }
  });
}

}  // namespace
}  // namespace fastdl::group

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                   \
  fastdl_status fastdl_group_pool_##suffix(const T* x, int64_t count, int64_t elements, int64_t pixels,             \
                                           fastdl_group_pool mode, T* out) {                                        \
    return core::guarded([&] { group::compute_pool<T>(x, count, elements, pixels, mode, out); });                   \
  }                                                                                                                 \
  fastdl_status fastdl_group_convolve_##suffix(const T* f, int64_t count, const T* h, int64_t order,                \
                                               const int64_t* quotient, T* out) {                                   \
    return core::guarded([&] { group::compute_convolution<T>(f, count, h, order, quotient, out); });                \
  }                                                                                                                 \
  fastdl_status fastdl_group_signature_##suffix(const T* x, int64_t samples, const T* templates, int64_t count,     \
                                                int64_t d, const int64_t* permutations, int64_t order,              \
                                                const fastdl_group_measures* measures, T* out) {                    \
    return core::guarded(                                                                                           \
        [&] { group::compute_signature<T>(x, samples, templates, count, d, permutations, order, measures, out); }); \
  }                                                                                                                 \
  fastdl_status fastdl_group_regularizer_##suffix(const T* W, int64_t d, int64_t n, double sigma, T* gradient,      \
                                                  double* value) {                                                  \
    return core::guarded([&] { group::compute_regularizer<T>(W, d, n, sigma, gradient, value); });                  \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
