// Arrays on a device as the bindings take them: what __cuda_array_interface__ says, checked, and the views that kernels
// read. The twin of csrc/bindings/arrays.hpp, with the same names.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/choices.hpp"
#include "bindings/gil.hpp"
#include "device.hpp"
#include "fastdl/matrix.hpp"
#include "strided.hpp"

namespace fastdl::cuda::bindings {

namespace py = pybind11;
using fastdl::bindings::chosen;
using fastdl::bindings::WithoutGil;

using Sizes = std::vector<std::int64_t>;

void register_conv(py::module_& module);
void register_gram(py::module_& module);
void register_group(py::module_& module);
void register_hebbian(py::module_& module);
void register_scattering(py::module_& module);

// An array of the caller's on the device of this call. Anything else is a TypeError or ValueError.
class Array {
 public:
  Array() = default;
  explicit Array(const py::handle& object);

  std::int64_t ndim() const { return std::int64_t(shape_.size()); }
  std::int64_t shape(std::int64_t axis) const { return shape_[std::size_t(axis)]; }
  const Sizes& shape() const { return shape_; }
  // In elements; 0 along an axis that is never stepped along.
  std::int64_t stride(std::int64_t axis) const { return strides_[std::size_t(axis)]; }
  std::int64_t size() const;
  int itemsize() const { return itemsize_; }
  bool writeable() const { return writeable_; }
  bool contiguous() const;
  std::string described() const;  // "float32 (3, 4)", for messages
  Layout layout() const;

  template <class T>
  bool is() const {
    return kind_ == (std::is_floating_point_v<T> ? 'f' : 'i') && itemsize_ == int(sizeof(T));
  }
  template <class T>
  T* data() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::uintptr_t data_ = 0;
  char kind_ = 'f';
  int itemsize_ = 4;
  bool writeable_ = true;
  Sizes shape_, strides_;
};

using Optional = std::optional<Array>;

// f(T{}) in the type of the array. (What is neither float32 nor float64 is refused where the array is read.)
template <class Function>
void in_type_of(const Array& array, const Function& f) {
  if (array.itemsize() == 4)
    f(float{});
  else
    f(double{});
}

template <class T>
void check_type(const Array& array, const char* name) {
  if (!array.is<T>())
    throw py::type_error(std::string(name) + ": expected " +
                         (std::is_floating_point_v<T> ? sizeof(T) == 4 ? "float32" : "float64" : "int64") + ", got " +
                         array.described());
}

inline void check_writeable(const Array& array, const char* name) {
  if (!array.writeable()) throw py::value_error(std::string(name) + ": expected a writable array, got a read-only one");
}

// An array read as contiguous: itself, or a copy that lives as long as this object.
template <class T>
class Contiguous {
 public:
  Contiguous(const Array& array, const char* name) : array_(array) {
    check_type<T>(array, name);
    if (array.contiguous()) return;
    copy_ = Scratch<T>(name, array.size(), stream());
    gather(name, array.data<const T>(), array.layout(), copy_.data(), stream());
  }
  const T* data() const { return copy_.data() ? copy_.data() : array_.template data<const T>(); }
  std::int64_t shape(int axis) const { return array_.shape(axis); }
  std::int64_t ndim() const { return array_.ndim(); }
  std::int64_t size() const { return array_.size(); }
  std::string described() const { return array_.described(); }

 private:
  Array array_;
  Scratch<T> copy_;
};

// An array written as contiguous: itself, or a buffer that finish() copies to it.
template <class T>
class Result {
 public:
  Result(const Array& array, const char* name) : array_(array), name_(name) {
    check_type<T>(array, name);
    check_writeable(array, name);
    if (!array.contiguous()) buffer_ = Scratch<T>(name, array.size(), stream());
  }
  T* data() const { return buffer_.data() ? buffer_.data() : array_.template data<T>(); }
  std::int64_t shape(int axis) const { return array_.shape(axis); }
  std::int64_t ndim() const { return array_.ndim(); }
  std::int64_t size() const { return array_.size(); }
  void finish() const {
    if (buffer_.data()) scatter(name_, buffer_.data(), array_.template data<T>(), array_.layout(), stream());
  }

 private:
  Array array_;
  const char* name_;
  Scratch<T> buffer_;
};

template <class T>
std::optional<Contiguous<T>> optional(const Optional& array, const char* name) {
  if (!array) return std::nullopt;
  return std::optional<Contiguous<T>>(std::in_place, *array, name);
}

// A view of a 2-d array of T (or of a 1-d one as a column, a 0-d one as an element), with the strides it has.
template <class T>
MatrixView<T> matrix(const Array& array, const char* name, int dimensions = 2) {
  check_type<std::remove_const_t<T>>(array, name);
  if (array.ndim() != dimensions)
    throw py::value_error(std::string(name) + ": expected " + std::to_string(dimensions) + " dimensions, got " +
                          std::to_string(array.ndim()));
  if constexpr (!std::is_const_v<T>) check_writeable(array, name);
  const auto extent = [&](int axis) { return axis < dimensions ? array.shape(axis) : 1; };
  const auto stride = [&](int axis) { return axis < dimensions ? array.stride(axis) : 0; };
  return {array.data<T>(), extent(0), extent(1), stride(0), stride(1)};
}

// An array of the host, brought to the device: small tables such as permutations.
template <class T>
Scratch<T> uploaded(const char* name, const py::array_t<T, py::array::c_style | py::array::forcecast>& array) {
  return Scratch<T>(name, array.data(), array.size(), stream());
}

}  // namespace fastdl::cuda::bindings

// An argument of type Array is any object with __cuda_array_interface__.
template <>
struct pybind11::detail::type_caster<fastdl::cuda::bindings::Array> {
  PYBIND11_TYPE_CASTER(fastdl::cuda::bindings::Array, const_name("Array"));
  bool load(handle source, bool) {
    if (!hasattr(source, "__cuda_array_interface__")) return false;
    value = fastdl::cuda::bindings::Array(source);
    return true;
  }
};
