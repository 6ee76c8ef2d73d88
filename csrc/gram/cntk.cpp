// Entry points of the convolutional neural tangent kernel: check, then one dispatch to the active level.
#include "core/check.hpp"
#include "core/isa.hpp"
#include "fastdl/fastdl.h"
#include "gram/cntk_bodies.hpp"

namespace fastdl::gram {
namespace {

constexpr const char* name = "gram.cntk";

std::string text_of(std::int64_t count, const CntkShape& shape) {
  return std::to_string(count) + " x " + std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

template <class T>
void check_images(const char* label, const T* data, std::int64_t count, const CntkShape& shape) {
  const std::string images(label);
  if (count < 0 || shape.channels < 0 || shape.height < 0 || shape.width < 0)
    core::fail(name, images + " with extents >= 0", text_of(count, shape));
  if (count == 0 || shape.channels == 0 || shape.height == 0 || shape.width == 0) return;
  if (!data) core::fail(name, images + " with data", "a null pointer");
  std::int64_t pixels, values, elements, bytes;
  if (__builtin_mul_overflow(shape.height, shape.width, &pixels) ||
      __builtin_mul_overflow(pixels, shape.channels, &values) || __builtin_mul_overflow(values, count, &elements) ||
      __builtin_mul_overflow(elements, static_cast<std::int64_t>(sizeof(T)), &bytes))
    core::fail(name, images + " within the address space", text_of(count, shape));
}

template <class T>
void cntk(const T* x, std::int64_t n, const T* y, std::int64_t m, const CntkShape& shape, T* k) {
  const bool empty = shape.channels == 0 || shape.height == 0 || shape.width == 0;
  const bool symmetric = y == nullptr && m != 0 && !empty;
  if (symmetric && m != n)
    core::fail(name, "m = n where Y is not given", std::to_string(m) + " and " + std::to_string(n));
  if (symmetric) y = x;
  check_images("X", x, n, shape);
  check_images("Y", y, m, shape);
  if (shape.depth < 0) core::fail(name, "depth >= 0", std::to_string(shape.depth));
  if (shape.kernel_size < 1) core::fail(name, "kernel_size >= 1", std::to_string(shape.kernel_size));
  if (n == 0 || m == 0) return;
  if (!k) core::fail(name, "K with data", "a null pointer");
  std::int64_t elements, bytes;
  if (__builtin_mul_overflow(n, m, &elements) ||
      __builtin_mul_overflow(elements, static_cast<std::int64_t>(sizeof(T)), &bytes))
    core::fail(name, "K within the address space", std::to_string(n) + " x " + std::to_string(m));
  if (empty) {
    for (std::int64_t i = 0; i < elements; ++i) k[i] = 0;
    return;
  }
  FASTDL_DISPATCH(cntk(x, n, y, m, symmetric, shape, k));
}

}  // namespace
}  // namespace fastdl::gram

using namespace fastdl;

fastdl_status fastdl_gram_cntk_f32(const float* X, int64_t n, const float* Y, int64_t m, int64_t channels,
                                   int64_t height, int64_t width, int depth, int kernel_size, int mean_pooling,
                                   float* K) {
  return core::guarded(
      [&] { gram::cntk(X, n, Y, m, {channels, height, width, depth, kernel_size, mean_pooling != 0}, K); });
}

fastdl_status fastdl_gram_cntk_f64(const double* X, int64_t n, const double* Y, int64_t m, int64_t channels,
                                   int64_t height, int64_t width, int depth, int kernel_size, int mean_pooling,
                                   double* K) {
  return core::guarded(
      [&] { gram::cntk(X, n, Y, m, {channels, height, width, depth, kernel_size, mean_pooling != 0}, K); });
}
