#include "fastdl/conv_signal.hpp"

#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"

namespace fastdl::bindings {
namespace {

// A view of an array of T of any rank, or a Python error.
template <class T>
conv::ArrayView<T> view(const py::array& array, const char* name) {
  using Value = std::remove_const_t<T>;
  constexpr auto size = static_cast<py::ssize_t>(sizeof(Value));
  if (!py::isinstance<py::array_t<Value>>(array))
    throw py::type_error(std::string(name) + ": expected " + (size == 4 ? "float32" : "float64") +
                         " like the first array, got " + std::string(py::str(array.dtype())));
  check_aligned<Value>(array, name);
  if constexpr (!std::is_const_v<T>)
    if (!array.writeable())
      throw py::value_error(std::string(name) + ": expected a writable array, got a read-only one");
  conv::ArrayView<T> result{static_cast<T*>(const_cast<void*>(array.data())), {}, {}};
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    // A stride that is never taken may be anything: along one element, or in an empty array.
    const py::ssize_t stride = array.size() > 0 && array.shape(axis) > 1 ? array.strides(axis) : 0;
    if (stride % size != 0)
      throw py::value_error(std::string(name) + ": expected strides of whole elements, got " + std::to_string(stride));
    result.sizes.push_back(array.shape(axis));
    result.strides.push_back(stride / size);
  }
  return result;
}

template <class Value>
Value by_name(const char* what, const std::string& name, const std::vector<std::pair<const char*, Value>>& table) {
  for (const auto& [known, value] : table)
    if (name == known) return value;
  throw py::value_error(std::string("expected a ") + what + ", got " + name);
}

template <class T, class Function>
void run(const Function& function, const py::array& f, const py::array& h, conv::Mode mode, conv::Method method,
         const py::array& out) {
  const auto x = view<const T>(f, "f"), y = view<const T>(h, "h");
  const auto to = view<T>(out, "out");
  const WithoutGil release;
  function(x, y, mode, method, to);
}

template <class Function>
void define(py::module_& module, const char* name, const Function& function) {
  module.def(
      name,
      [function](const py::array& f, const py::array& h, const std::string& mode_name, const std::string& method_name,
                 const py::array& out) {
        const auto mode = by_name<conv::Mode>("mode", mode_name,
                                              {{"full", FASTDL_MODE_FULL},
                                               {"same", FASTDL_MODE_SAME},
                                               {"valid", FASTDL_MODE_VALID},
                                               {"circular", FASTDL_MODE_CIRCULAR}});
        const auto method = by_name<conv::Method>("method", method_name,
                                                  {{"auto", FASTDL_METHOD_AUTO},
                                                   {"direct", FASTDL_METHOD_DIRECT},
                                                   {"fft", FASTDL_METHOD_FFT},
                                                   {"overlap_add", FASTDL_METHOD_OVERLAP_ADD}});
        in_type_of(f, [&](auto zero) { run<decltype(zero)>(function, f, h, mode, method, out); });
      },
      py::arg("f"), py::arg("h"), py::arg("mode"), py::arg("method"), py::arg("out"));
}

}  // namespace

void register_conv_signal(py::module_& conv) {
  define(conv, "convolve", [](const auto&... arguments) { conv::convolve(arguments...); });
  define(conv, "correlate", [](const auto&... arguments) { conv::correlate(arguments...); });
}

}  // namespace fastdl::bindings
