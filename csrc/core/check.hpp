// Argument checks of the C interface. Every message reads "[family.function] expected ..., got ...".
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"

namespace fastdl::core {

[[noreturn]] inline void fail(const char* function, const std::string& expected, const std::string& got) {
  throw InvalidArgument("[" + std::string(function) + "] expected " + expected + ", got " + got);
}

// Whether extents and strides, in elements of `size` bytes, go beyond the address space: both the way from the lowest
// to the highest element and, with any strides and where one of the extents is 0, the size of an array of 8-byte
// numbers, so that products of extents can be formed.
inline bool beyond_addresses(std::int64_t rows, std::int64_t row_stride, std::int64_t cols, std::int64_t col_stride,
                             std::int64_t size) {
  std::int64_t count = 8, down = 0, across = 0, span;
  if (rows > 0 && __builtin_mul_overflow(count, rows, &count)) return true;
  if (cols > 0 && __builtin_mul_overflow(count, cols, &count)) return true;
  if (rows == 0 || cols == 0) return false;
  const auto way = [](std::int64_t extent, std::int64_t stride, std::int64_t* to) {
    return extent > 1 && (stride == INT64_MIN || __builtin_mul_overflow(extent - 1, stride < 0 ? -stride : stride, to));
  };
  return way(rows, row_stride, &down) || way(cols, col_stride, &across) ||
         __builtin_add_overflow(down, across, &span) || __builtin_mul_overflow(span, size, &span);
}

template <class Matrix>
void check_matrix(const char* function, const char* name, const Matrix* m) {
  const std::string label(name);
  if (!m) fail(function, label + " to be given", "NULL");
  if (m->rows < 0 || m->cols < 0)
    fail(function, label + " with extents >= 0", std::to_string(m->rows) + " x " + std::to_string(m->cols));
  if (m->rows > 0 && m->cols > 0 && !m->data) fail(function, label + " with data", "a null pointer");
  if (beyond_addresses(m->rows, m->row_stride, m->cols, m->col_stride, sizeof *m->data))
    fail(function, label + " within the address space",
         std::to_string(m->rows) + " x " + std::to_string(m->cols) + " with strides " + std::to_string(m->row_stride) +
             ", " + std::to_string(m->col_stride));
}

// Entries return when there is nothing to write: what is left of the extents may be so large that not even counting
// would come to an end.
template <class Matrix>
bool empty(const Matrix* m) {
  return m->rows == 0 || m->cols == 0;
}

template <class Matrix>
void check_output(const char* function, const char* name, const Matrix* m, std::int64_t rows, std::int64_t cols) {
  check_matrix(function, name, m);
  if (m->rows != rows || m->cols != cols)
    fail(function, std::string(name) + " of shape " + std::to_string(rows) + " x " + std::to_string(cols),
         std::to_string(m->rows) + " x " + std::to_string(m->cols));
  if (empty(m)) return;
  if ((rows > 1 && m->row_stride == 0) || (cols > 1 && m->col_stride == 0))
    fail(function, std::string(name) + " with distinct elements", "a zero stride");
}

}  // namespace fastdl::core
