// What the binding files share: arrays in, views out.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>

#include "bindings/gil.hpp"
#include "fastdl/matrix.hpp"

namespace fastdl::bindings {

namespace py = pybind11;

void register_conv(py::module_& module);
void register_conv_signal(py::module_& conv);
void register_fft(py::module_& module);
void register_gram(py::module_& module);
void register_group(py::module_& module);
void register_hebbian(py::module_& module);
void register_room(py::module_& module);
void register_scattering(py::module_& module);

// f(T{}) in the type of the array. (What is neither float32 nor float64 is refused where the array is read.)
template <class Function>
void in_type_of(const py::array& array, const Function& f) {
  if (array.itemsize() == 4)
    f(float{});
  else
    f(double{});
}

// An array's type and shape, for messages: "float32 (3, 4)".
inline std::string described(const py::array& array) {
  return std::string(py::str(array.dtype())) + " " + std::string(py::str(array.attr("shape")));
}

template <class T>
void check_aligned(const py::array& array, const char* name) {
  if (array.size() > 0 && reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T) != 0)
    throw py::value_error(std::string(name) + ": expected aligned elements, got an address between them");
}

// A view of a 2-d array of T (or of a 1-d one as a column, a 0-d one as an element), or a Python error: the Python
// layer has checked already, but nothing else stands between a caller of the extension and a pointer.
template <class T>
MatrixView<T> matrix(const py::array& array, const char* name, int dimensions = 2) {
  using Value = std::remove_const_t<T>;
  constexpr auto size = static_cast<py::ssize_t>(sizeof(Value));
  if (!py::isinstance<py::array_t<Value>>(array))
    throw py::type_error(std::string(name) + ": expected " + (size == 4 ? "float32" : "float64") +
                         " like the first array, got " + std::string(py::str(array.dtype())));
  if (array.ndim() != dimensions)
    throw py::value_error(std::string(name) + ": expected " + std::to_string(dimensions) + " dimensions, got " +
                          std::to_string(array.ndim()));
  // A stride that is never taken may be anything: along one element, or in an empty array.
  const auto stride = [&](int axis) {
    return axis < dimensions && array.size() > 0 && array.shape(axis) > 1 ? array.strides(axis) : 0;
  };
  const py::ssize_t rows = stride(0), cols = stride(1);
  check_aligned<Value>(array, name);
  if (rows % size != 0 || cols % size != 0)
    throw py::value_error(std::string(name) + ": expected strides of whole elements, got " + std::to_string(rows) +
                          ", " + std::to_string(cols));
  if constexpr (!std::is_const_v<T>)
    if (!array.writeable())
      throw py::value_error(std::string(name) + ": expected a writable array, got a read-only one");
  const auto extent = [&](int axis) { return axis < dimensions ? array.shape(axis) : 1; };
  return {static_cast<T*>(const_cast<void*>(array.data())), extent(0), extent(1), rows / size, cols / size};
}

}  // namespace fastdl::bindings
