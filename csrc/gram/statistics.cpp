// Entry points of what is made of Gram matrices, features and Jacobians: check, then one dispatch.
#include "core/check.hpp"
#include "core/isa.hpp"
#include "fastdl/fastdl.h"
#include "gram/bodies.hpp"

namespace fastdl::gram {
namespace {

template <class View>
void check_square(const char* name, const char* label, const View* k) {
  core::check_matrix(name, label, k);
  if (k->rows != k->cols)
    core::fail(name, std::string(label) + " to be square", std::to_string(k->rows) + " x " + std::to_string(k->cols));
}

template <class T, class View>
void compute_center(const View* k, const View* out) {
  constexpr const char* name = "gram.center";
  check_square(name, "K", k);
  core::check_output(name, "out", out, k->rows, k->cols);
  FASTDL_DISPATCH(center(matrix_of<const T>(*k), matrix_of<T>(*out)));
}

template <class T, class View>
void compute_dependence(const char* name, const View* k, const View* l, bool unbiased, bool aligned, T* out) {
  check_square(name, "K", k);
  check_square(name, "L", l);
  if (l->rows != k->rows)
    core::fail(name, "L with " + std::to_string(k->rows) + " rows as K has", std::to_string(l->rows));
  const std::int64_t least = unbiased ? 4 : 2;
  if (k->rows < least) core::fail(name, "at least " + std::to_string(least) + " samples", std::to_string(k->rows));
  if (!out) core::fail(name, "out to be given", "NULL");
  FASTDL_DISPATCH(dependence(matrix_of<const T>(*k), matrix_of<const T>(*l), unbiased, aligned, out));
}

template <class T>
void compute_feature_gram(const T* x, std::int64_t samples, std::int64_t channels, std::int64_t positions, bool center,
                          T* out) {
  constexpr const char* name = "gram.feature_gram";
  if (samples < 0 || channels < 0 || positions < 1)
    core::fail(name, "samples and channels >= 0 and positions >= 1",
               std::to_string(samples) + ", " + std::to_string(channels) + " and " + std::to_string(positions));
  if (samples == 0 || channels == 0) return;
  if (!x || !out) core::fail(name, "x and out", "a null pointer");
  std::int64_t bytes;
  for (const std::int64_t last : {positions, channels})
    if (__builtin_mul_overflow(samples, channels, &bytes) || __builtin_mul_overflow(bytes, last, &bytes) ||
        __builtin_mul_overflow(bytes, std::int64_t{sizeof(T)}, &bytes))
      core::fail(name, "arrays within the address space",
                 std::to_string(samples) + " x " + std::to_string(channels) + " x " + std::to_string(last));
  FASTDL_DISPATCH(feature_gram(x, samples, channels, positions, center, out));
}

template <class T, class View>
void compute_empirical_ntk(const View* x, const View* y, const View* k) {
  constexpr const char* name = "gram.empirical_ntk";
  const bool symmetric = !y;
  core::check_matrix(name, "J1", x);
  if (symmetric)
    y = x;
  else
    core::check_matrix(name, "J2", y);
  if (x->cols != y->cols)
    core::fail(name, "J2 with " + std::to_string(x->cols) + " columns as J1 has", std::to_string(y->cols));
  core::check_output(name, "K", k, x->rows, y->rows);
  if (core::empty(k)) return;
  FASTDL_DISPATCH(empirical_ntk(matrix_of<const T>(*x), matrix_of<const T>(*y), symmetric, matrix_of<T>(*k)));
}

}  // namespace
}  // namespace fastdl::gram

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                      \
  fastdl_status fastdl_gram_center_##suffix(const fastdl_matrix_##suffix* K, const fastdl_matrix_##suffix* out) {      \
    return core::guarded([&] { gram::compute_center<T>(K, out); });                                                    \
  }                                                                                                                    \
  fastdl_status fastdl_gram_hsic_##suffix(const fastdl_matrix_##suffix* K, const fastdl_matrix_##suffix* L,            \
                                          int unbiased, T* out) {                                                      \
    return core::guarded([&] { gram::compute_dependence<T>("gram.hsic", K, L, unbiased != 0, false, out); });          \
  }                                                                                                                    \
  fastdl_status fastdl_gram_cka_##suffix(const fastdl_matrix_##suffix* K, const fastdl_matrix_##suffix* L,             \
                                         int unbiased, T* out) {                                                       \
    return core::guarded([&] { gram::compute_dependence<T>("gram.cka", K, L, unbiased != 0, true, out); });            \
  }                                                                                                                    \
  fastdl_status fastdl_gram_feature_gram_##suffix(const T* x, int64_t samples, int64_t channels, int64_t positions,    \
                                                  int center, T* out) {                                                \
    return core::guarded([&] { gram::compute_feature_gram<T>(x, samples, channels, positions, center != 0, out); });   \
  }                                                                                                                    \
  fastdl_status fastdl_gram_empirical_ntk_##suffix(const fastdl_matrix_##suffix* J1, const fastdl_matrix_##suffix* J2, \
                                                   const fastdl_matrix_##suffix* K) {                                  \
    return core::guarded([&] { gram::compute_empirical_ntk<T>(J1, J2, K); });                                          \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
