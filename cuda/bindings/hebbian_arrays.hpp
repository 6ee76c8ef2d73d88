// What the two files of the family share.
#pragma once

#include "bindings/arrays.hpp"
#include "hebbian.hpp"

namespace fastdl::cuda::bindings {

void register_hebbian_memory(py::module_& hebbian);

template <class T>
hebbian::cuda::Samples<T> samples_of(const Array& X, const char* name) {
  const auto x = matrix<const T>(X, name);
  return {x.data, x.rows, x.cols, x.row_stride, x.col_stride};
}

inline void check_shape(const Array& array, const char* name, const Sizes& shape) {
  if (array.shape() != shape)
    throw py::value_error(std::string(name) + ": expected another shape, got " + array.described());
}

}  // namespace fastdl::cuda::bindings
