#include "bindings/arrays.hpp"

#include <cstdlib>

namespace fastdl::cuda::bindings {

Array::Array(const py::handle& object) {
  const auto interface = object.attr("__cuda_array_interface__").cast<py::dict>();
  const auto type = interface["typestr"].cast<std::string>();
  const auto [address, readonly] = interface["data"].cast<std::pair<std::uintptr_t, bool>>();
  shape_ = interface["shape"].cast<Sizes>();
  kind_ = type.size() > 2 ? type[1] : '?';
  itemsize_ = type.size() > 2 ? std::atoi(type.c_str() + 2) : 0;
  data_ = address;
  writeable_ = !readonly;
  if ((type[0] != '<' && type[0] != '|' && type[0] != '=') || itemsize_ < 1 || (kind_ != 'f' && kind_ != 'i'))
    throw py::type_error("expected numbers in native byte order, got " + type);
  if (interface.contains("mask") && !interface["mask"].is_none())
    throw py::type_error("expected an array without a mask, got a masked one");
  if (ndim() > most_axes)
    throw py::value_error("expected at most " + std::to_string(most_axes) + " axes, got " + std::to_string(ndim()));

  std::int64_t step = 1;
  strides_.assign(shape_.size(), 0);
  for (std::size_t axis = shape_.size(); axis-- > 0; step *= shape_[axis]) strides_[axis] = step;
  if (interface.contains("strides") && !interface["strides"].is_none()) {
    const auto bytes = interface["strides"].cast<Sizes>();
    if (bytes.size() != shape_.size())
      throw py::value_error("expected a stride for every axis, got " + std::to_string(bytes.size()));
    for (std::size_t axis = 0; axis < bytes.size(); ++axis) {
      if (shape_[axis] > 1 && size() > 0 && bytes[axis] % itemsize_ != 0)
        throw py::value_error("expected strides of whole elements, got " + std::to_string(bytes[axis]));
      strides_[axis] = bytes[axis] / itemsize_;
    }
  }
  for (std::size_t axis = 0; axis < strides_.size(); ++axis)
    if (shape_[axis] < 2 || size() == 0) strides_[axis] = 0;
  if (size() == 0) return;
  if (data_ % std::uintptr_t(itemsize_) != 0)
    throw py::value_error("expected aligned elements, got an address between them");
  const int device = device_of(reinterpret_cast<const void*>(data_));
  if (device != place().device)
    throw py::value_error("expected memory of device " + std::to_string(place().device) + ", got " +
                          (device < 0 ? "memory of the host" : "device " + std::to_string(device)));
  // The stream on which the array was made, where its library says so: 1 is the default one, as 0 is here.
  if (interface.contains("stream") && !interface["stream"].is_none()) {
    const auto other = interface["stream"].cast<std::uintptr_t>();
    const auto made_on = reinterpret_cast<Stream>(other == 1 ? 0 : other);
    if (made_on != stream()) wait_for("cuda", made_on, stream());
  }
}

std::int64_t Array::size() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape_) product *= extent;
  return product;
}

bool Array::contiguous() const {
  std::int64_t step = 1;
  for (std::size_t axis = shape_.size(); axis-- > 0; step *= shape_[axis])
    if (shape_[axis] > 1 && strides_[axis] != step) return size() == 0;
  return true;
}

std::string Array::described() const {
  std::string text = (kind_ == 'f' ? "float" : "int") + std::to_string(8 * itemsize_) + " (";
  for (std::size_t axis = 0; axis < shape_.size(); ++axis)
    text += (axis ? ", " : "") + std::to_string(shape_[axis]) + (shape_.size() == 1 ? "," : "");
  return text + ")";
}

Layout Array::layout() const {
  Layout layout;
  layout.axes = int(ndim());
  for (int axis = 0; axis < layout.axes; ++axis) {
    layout.extent[axis] = shape(axis);
    layout.stride[axis] = stride(axis);
  }
  return layout;
}

}  // namespace fastdl::cuda::bindings
