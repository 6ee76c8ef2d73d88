// Gram matrices, compiled once per instruction-set level: each kernel is an epilogue of the engine, or a rule of its
// own.
#include "gemm/engine.hpp"
#include "gram/bodies.hpp"
#include "gram/diagonal.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

template <class T>
void gram_of(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric,
             const Matrix<T>& k) {
  // The engine writes whole vectors along a row of its output, and packs its second operand at a cost that few rows do
  // not repay: an output whose columns are contiguous, or a short wide one, is computed as its transpose.
  const bool turned = k.row_stride == 1 ? k.col_stride != 1 : !symmetric && x.rows < 6 && x.rows < y.rows;
  Rows<T> rows(x, y, symmetric, turned);
  const gemm::Output<T> output{k.data, turned ? k.col_stride : k.row_stride, turned ? k.row_stride : k.col_stride};
  with_kernel(kernel, rows, [&](const auto& rule, const auto& left, const auto& right, const auto& epilogue) {
    gemm::multiply<T>({rows.x.rows, rows.y.rows, rows.x.cols}, symmetric, rule, left, right, output, epilogue);
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                           \
  void gram(const Kernel& kernel, const Matrix<const T>& x, const Matrix<const T>& y, bool symmetric, \
            const Matrix<T>& k) {                                                                     \
    gram_of<T>(kernel, x, y, symmetric, k);                                                           \
  }                                                                                                   \
  void diagonal(const Kernel& kernel, const Matrix<const T>& x, T* out, std::int64_t stride) {        \
    diagonal_of<T>(kernel, x, out, stride);                                                           \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::gram::FASTDL_LEVEL
