// The matrix view that the C++ functions take, and how their errors are thrown. The other headers include it.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "fastdl/fastdl.h"

namespace fastdl {

// Element (i, j) lies at data[i*row_stride + j*col_stride]. The view owns nothing. Inputs are taken as MatrixView<const
// T>, to which a MatrixView<T> converts.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t row_stride = 0, col_stride = 1;

  MatrixView() = default;
  // Row-major, without gaps.
  MatrixView(T* data_, std::int64_t rows_, std::int64_t cols_)
      : data(data_), rows(rows_), cols(cols_), row_stride(cols_) {}
  MatrixView(T* data_, std::int64_t rows_, std::int64_t cols_, std::int64_t row_stride_, std::int64_t col_stride_)
      : data(data_), rows(rows_), cols(cols_), row_stride(row_stride_), col_stride(col_stride_) {}
  template <class U, class = std::enable_if_t<std::is_same_v<T, const U>>>
  MatrixView(const MatrixView<U>& other)
      : MatrixView(other.data, other.rows, other.cols, other.row_stride, other.col_stride) {}

  // The struct of the C interface, which has no const variant: its functions write only to their outputs.
  auto plain() const {
    using Value = std::remove_const_t<T>;
    using Plain = std::conditional_t<std::is_same_v<Value, float>, fastdl_matrix_f32, fastdl_matrix_f64>;
    return Plain{const_cast<Value*>(data), rows, cols, row_stride, col_stride};
  }
};

// A call that the interrupt check ended (fastdl_set_interrupt_check).
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// std::invalid_argument, std::bad_alloc, Interrupted or another std::runtime_error, with the library's message. To be
// put around functions of fastdl.h that have no wrapper.
inline void throw_on_error(fastdl_status status) {
  switch (status) {
    case FASTDL_OK:
      return;
    case FASTDL_INVALID_ARGUMENT:
      throw std::invalid_argument(fastdl_last_error());
    case FASTDL_OUT_OF_MEMORY:
      throw std::bad_alloc();
    case FASTDL_INTERRUPTED:
      throw Interrupted(fastdl_last_error());
    default:
      throw std::runtime_error(fastdl_last_error());
  }
}

}  // namespace fastdl
