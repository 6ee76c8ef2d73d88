// Gram matrices, compiled once per instruction-set level: each kernel is an epilogue of the matrix-product engine.
#include "gemm/engine.hpp"
#include "gram/bodies.hpp"

namespace fastdl::gram::FASTDL_LEVEL {
namespace {

template <class T>
void linear_of(const Matrix<T>& x, const Matrix<T>& y, bool symmetric, const Matrix<T>& k) {
  const gemm::Strided<T> a{x.data, x.row_stride, x.col_stride}, b{y.data, y.row_stride, y.col_stride};
  // The engine writes whole vectors along a row of its output, and packs its second operand at a cost that few rows do
  // not repay: an output whose columns are contiguous, or a short wide one, is computed as its transpose.
  const bool turned = k.row_stride == 1 ? k.col_stride != 1 : !symmetric && x.rows < 6 && x.rows < y.rows;
  if (turned)
    gemm::multiply<T>({y.rows, x.rows, x.cols}, symmetric, b, a, {k.data, k.col_stride, k.row_stride},
                      gemm::Identity{});
  else
    gemm::multiply<T>({x.rows, y.rows, x.cols}, symmetric, a, b, {k.data, k.row_stride, k.col_stride},
                      gemm::Identity{});
}

}  // namespace

void linear(const Matrix<float>& x, const Matrix<float>& y, bool symmetric, const Matrix<float>& k) {
  linear_of(x, y, symmetric, k);
}
void linear(const Matrix<double>& x, const Matrix<double>& y, bool symmetric, const Matrix<double>& k) {
  linear_of(x, y, symmetric, k);
}

}  // namespace fastdl::gram::FASTDL_LEVEL
