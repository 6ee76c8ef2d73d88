// rbf as the library has it, and from ||x||^2 + ||y||^2 - 2 x.y as it is: the same engine, exponential and threads, the
// rows not centred and no difference looked at twice. What lies between is what accurate distances cost
// (distance_cost.py).
#include "gemm/engine.hpp"
#include "gram/kernels.hpp"

namespace fastdl::gram {
namespace {

template <class T>
struct Plain {
  Rbf<T> function;
  const T *x_squared, *y_squared;

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    const Vec<T> total = load(y_squared + column) + x_squared[row];
    return function(simd::at_least(simd::fma(sum, broadcast(T(-2)), total), T(0)));
  }
};

// y is NULL for one set of samples.
template <class T>
void compute(const T* x, const T* y, Index n, Index m, Index d, double gamma, bool plain, T* k) {
  const Matrix<const T> first{x, n, d, d, 1}, second{y ? y : x, m, d, d, 1};
  const bool symmetric = !y;
  Rows<T> rows(first, second, symmetric);
  const gemm::Extents size{n, m, d};
  const gemm::Output<T> output{k, m, 1};
  if (plain) {
    Plain<T> epilogue{{finite<T>(gamma)}, nullptr, nullptr};
    rows.lengths({}, 1, itself, 0, epilogue.x_squared, epilogue.y_squared);
    return gemm::multiply<T>(size, symmetric, gemm::MultiplyAdd{}, rows.left(), rows.right(), output, epilogue);
  }
  Kernel kernel{};
  kernel.kind = FASTDL_RBF;
  kernel.gamma = gamma;
  with_kernel(kernel, rows, [&](const auto& rule, const auto& left, const auto& right, const auto& epilogue) {
    gemm::multiply<T>(size, symmetric, rule, left, right, output, epilogue);
  });
}

}  // namespace
}  // namespace fastdl::gram

extern "C" {
void rbf_float32(const float* x, const float* y, std::int64_t n, std::int64_t m, std::int64_t d, double gamma,
                 int plain, float* k) {
  fastdl::gram::compute(x, y, n, m, d, gamma, plain != 0, k);
}
void rbf_float64(const double* x, const double* y, std::int64_t n, std::int64_t m, std::int64_t d, double gamma,
                 int plain, double* k) {
  fastdl::gram::compute(x, y, n, m, d, gamma, plain != 0, k);
}
void set_threads(int count) { fastdl::core::set_thread_count(count); }
}
