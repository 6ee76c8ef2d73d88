// Entry points of the transforms by themselves: check, then one dispatch to the active instruction-set level.
#include "fft/batch.hpp"

#include <string>

#include "conv/checks.hpp"
#include "core/check.hpp"

namespace fastdl::fft {
namespace {

template <class T>
void transform(const T* in, Index batch, int rank, const Index* size, int real, int inverse, T* out) {
  constexpr const char* name = "fft.transform";
  if (rank < 1 || rank > 3) core::fail(name, "1 to 3 axes", std::to_string(rank));
  if (!size) core::fail(name, "extents", "NULL");
  if (real != 0 && inverse != 0) core::fail(name, "a forward transform of real numbers", "an inverse one");
  if (batch < 0) core::fail(name, "a batch of at least 0", std::to_string(batch));
  Batch<T> b{in, out, batch, rank, {1, 1, 1}, real != 0, inverse != 0};
  for (int axis = 0; axis < rank; ++axis) {
    b.size[axis] = size[axis];
    if (size[axis] < 1) core::fail(name, "extents of at least 1", std::to_string(size[axis]));
  }
  conv::check_size(name, "arrays", {batch, b.size[0], b.size[1], b.size[2], 2});
  if (batch == 0) return;
  if (!in || !out) core::fail(name, "arrays with data", "a null pointer");
  FASTDL_DISPATCH(transform_batch(b));
}

}  // namespace
}  // namespace fastdl::fft

using fastdl::core::guarded;

fastdl_status fastdl_private_fft_f32(const float* in, int64_t batch, int rank, const int64_t* size, int real,
                                     int inverse, float* out) {
  return guarded([&] { fastdl::fft::transform(in, batch, rank, size, real, inverse, out); });
}
fastdl_status fastdl_private_fft_f64(const double* in, int64_t batch, int rank, const int64_t* size, int real,
                                     int inverse, double* out) {
  return guarded([&] { fastdl::fft::transform(in, batch, rank, size, real, inverse, out); });
}
