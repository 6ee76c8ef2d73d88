// Squared distances in the feature space of a kernel, compiled once per instruction-set level: another epilogue behind
// that of the kernel, k(x, x) + k(y, y) - 2 k(x, y).
#include "gemm/engine.hpp"
#include "gram/bodies.hpp"
#include "gram/diagonal.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

template <class T, class Epilogue>
struct Distance {
  const Epilogue& kernel;
  const T *of_x, *of_y;  // k(x, x) and k(y, y)

  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index row, Index column) const {
    if constexpr (std::is_same_v<Epilogue, gemm::Identity>)
      return distance(sum, row, column);
    else
      return distance(kernel(sum, row, column), row, column);
  }

  void along(T* values, Index row, Index column, Index count) const
    requires requires(const Epilogue& e) { e.along(values, row, column, count); }
  {
    kernel.along(values, row, column, count);
    for (Index j = 0; j < count; j += simd::lanes<T>)
      simd::store(values + j, distance(load(values + j), row, column + j));
  }

 private:
  FASTDL_INLINE Vec<T> distance(Vec<T> value, Index row, Index column) const {
    const Vec<T> squared = simd::fma(value, broadcast(T(-2)), load(of_y + column) + of_x[row]);
    return simd::select(squared < Vec<T>{}, Vec<T>{}, squared);  // NaN stays
  }
};

template <class T>
void distance_of(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,
                 const Matrix<T>& out) {
  Arrays<T> arrays;
  const auto own = [&](const Matrix<const T>& rows) {
    T* to = arrays.make(rows.rows + simd::lanes<T>);
    diagonal_of<T>(kernel, rows, to, 1);
    for (int i = 0; i < simd::lanes<T>; ++i) to[rows.rows + i] = 0;
    return to;
  };
  const T* of_x = own(x);
  const T* of_y = symmetric ? of_x : own(y);
  Rows<T> rows(x, y, symmetric);
  const gemm::Output<T> output{out.data, out.row_stride, out.col_stride};
  with_kernel(kernel, rows, [&](const auto& rule, const auto& left, const auto& right, const auto& epilogue) {
    const Distance<T, std::decay_t<decltype(epilogue)>> distance{epilogue, of_x, of_y};
    gemm::multiply<T>({x.rows, y.rows, x.cols}, symmetric, rule, left, right, output, distance);
  });
  // 0 for a sample and itself, but not where the kernel is not finite.
  if (symmetric)
    for (Index i = 0; i < x.rows; ++i) out.data[i * (out.row_stride + out.col_stride)] = 0 * of_x[i];
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                               \
  void distance(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, \
                const Matrix<T>& out) {                                                                   \
    distance_of<T>(kernel, x, y, symmetric, out);                                                         \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
