// Arrays of more than two axes, and words, as the bindings of layers take them.
#pragma once

#include <pybind11/stl.h>  // std::optional, std::vector

#include <optional>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/choices.hpp"

namespace fastdl::bindings {

using Sizes = std::vector<std::int64_t>;
using Optional = std::optional<py::array>;

template <class T>
void check_type(const py::array& array, const char* name) {
  if (!py::isinstance<py::array_t<T>>(array))
    throw py::type_error(std::string(name) + ": expected " + (sizeof(T) == 4 ? "float32" : "float64") +
                         " like the first array, got " + std::string(py::str(array.dtype())));
  check_aligned<T>(array, name);
}

// An array read as contiguous: itself, or a copy that lives as long as this object.
template <class T>
class Contiguous {
 public:
  Contiguous(const py::array& array, const char* name) {
    check_type<T>(array, name);
    kept_ = py::array_t<T, py::array::c_style>(array);  // raises what NumPy does; `ensure` forgets it
  }
  const T* data() const { return kept_.data(); }
  std::int64_t shape(int axis) const { return kept_.shape(axis); }
  py::ssize_t ndim() const { return kept_.ndim(); }
  std::string described() const { return bindings::described(kept_); }

 private:
  py::array_t<T, py::array::c_style> kept_;
};

// An array written as contiguous: itself, or a buffer that finish() copies to it.
template <class T>
class Result {
 public:
  Result(const py::array& array, const char* name) : array_(array) {
    check_type<T>(array, name);
    if (!array.writeable())
      throw py::value_error(std::string(name) + ": expected a writable array, got a read-only one");
    const bool direct = array.flags() & py::array::c_style;
    buffer_ = direct ? array : py::array(py::array_t<T>(Sizes(array.shape(), array.shape() + array.ndim())));
  }
  T* data() { return static_cast<T*>(const_cast<void*>(buffer_.data())); }
  void finish() {
    if (!buffer_.is(array_)) array_[py::ellipsis()] = buffer_;
  }

 private:
  py::array array_, buffer_;
};

// x as it lies: its strides in elements.
template <class T>
struct Strided {
  const T* data;
  Sizes strides;

  Strided(const py::array& x, const char* name) : data(static_cast<const T*>(x.data())) {
    check_type<T>(x, name);
    for (int axis = 0; axis < x.ndim(); ++axis) {
      const py::ssize_t bytes = x.shape(axis) > 1 ? x.strides(axis) : 0;
      if (bytes % py::ssize_t(sizeof(T)) != 0)
        throw py::value_error(std::string(name) + ": expected strides of whole elements, got " + std::to_string(bytes));
      strides.push_back(bytes / py::ssize_t(sizeof(T)));
    }
  }
};

template <class T>
std::optional<Contiguous<T>> optional(const Optional& array, const char* name) {
  if (!array) return std::nullopt;
  return Contiguous<T>(*array, name);
}

inline fastdl_activation activation_of(const std::optional<std::string>& name) {
  return chosen<fastdl_activation>("activation", name.value_or("none"),
                                   {{"none", FASTDL_NO_ACTIVATION},
                                    {"relu", FASTDL_RELU},
                                    {"leaky_relu", FASTDL_LEAKY_RELU},
                                    {"sigmoid", FASTDL_SIGMOID_ACTIVATION},
                                    {"tanh", FASTDL_TANH}});
}

}  // namespace fastdl::bindings
