// Argument checks of the C interface. Every message reads "[family.function] expected ..., got ...".
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"

namespace fastdl::core {

[[noreturn]] inline void fail(const char* function, const std::string& expected, const std::string& got) {
  throw InvalidArgument("[" + std::string(function) + "] expected " + expected + ", got " + got);
}

// The byte distance from the first to the last element along each axis must be representable.
template <class Matrix>
void check_matrix(const char* function, const char* name, const Matrix* m) {
  const std::string label(name);
  if (!m) fail(function, label + " to be given", "NULL");
  if (m->rows < 0 || m->cols < 0)
    fail(function, label + " with extents >= 0", std::to_string(m->rows) + " x " + std::to_string(m->cols));
  if (m->rows == 0 || m->cols == 0) return;
  if (!m->data) fail(function, label + " with data", "a null pointer");
  std::int64_t down, across, elements, bytes;
  if (__builtin_mul_overflow(m->rows - 1, m->row_stride, &down) ||
      __builtin_mul_overflow(m->cols - 1, m->col_stride, &across) || __builtin_add_overflow(down, across, &elements) ||
      __builtin_mul_overflow(elements, static_cast<std::int64_t>(sizeof *m->data), &bytes) ||
      __builtin_mul_overflow(down, static_cast<std::int64_t>(sizeof *m->data), &bytes) ||
      __builtin_mul_overflow(across, static_cast<std::int64_t>(sizeof *m->data), &bytes))
    fail(function, label + " within the address space",
         std::to_string(m->rows) + " x " + std::to_string(m->cols) + " with strides " + std::to_string(m->row_stride) +
             ", " + std::to_string(m->col_stride));
}

template <class Matrix>
void check_output(const char* function, const char* name, const Matrix* m, std::int64_t rows, std::int64_t cols) {
  check_matrix(function, name, m);
  if (m->rows != rows || m->cols != cols)
    fail(function, std::string(name) + " of shape " + std::to_string(rows) + " x " + std::to_string(cols),
         std::to_string(m->rows) + " x " + std::to_string(m->cols));
  if (rows == 0 || cols == 0) return;
  if ((rows > 1 && m->row_stride == 0) || (cols > 1 && m->col_stride == 0))
    fail(function, std::string(name) + " with distinct elements", "a zero stride");
}

}  // namespace fastdl::core
