// Entry points of the Gram family: check, then one dispatch to the active instruction-set level.
#include "core/check.hpp"
#include "core/isa.hpp"
#include "fastdl/fastdl.h"
#include "gram/bodies.hpp"

namespace fastdl::gram {
namespace {

template <class T, class View>
Matrix<T> matrix_of(const View& v) {
  return {v.data, v.rows, v.cols, v.row_stride, v.col_stride};
}

template <class T, class View>
void linear(const View* x, const View* y, const View* k) {
  constexpr const char* name = "gram.linear";
  const bool symmetric = y == nullptr;
  if (symmetric) y = x;
  core::check_matrix(name, "X", x);
  core::check_matrix(name, "Y", y);
  if (x->cols != y->cols)
    core::fail(name, "Y with " + std::to_string(x->cols) + " columns as X has", std::to_string(y->cols));
  core::check_output(name, "K", k, x->rows, y->rows);
  FASTDL_DISPATCH(linear(matrix_of<T>(*x), matrix_of<T>(*y), symmetric, matrix_of<T>(*k)));
}

}  // namespace
}  // namespace fastdl::gram

using namespace fastdl;

fastdl_status fastdl_gram_linear_f32(const fastdl_matrix_f32* X, const fastdl_matrix_f32* Y,
                                     const fastdl_matrix_f32* K) {
  return core::guarded([&] { gram::linear<float>(X, Y, K); });
}

fastdl_status fastdl_gram_linear_f64(const fastdl_matrix_f64* X, const fastdl_matrix_f64* Y,
                                     const fastdl_matrix_f64* K) {
  return core::guarded([&] { gram::linear<double>(X, Y, K); });
}
