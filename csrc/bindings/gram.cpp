#include "fastdl/gram.hpp"

#include <pybind11/stl.h>  // std::optional

#include <optional>

#include "bindings/bindings.hpp"

namespace fastdl::bindings {
namespace {

template <class T>
void linear(const py::array& X, const std::optional<py::array>& Y, const py::array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x;
  const auto k = matrix<T>(out, "out");
  const bool symmetric = !Y;
  const py::gil_scoped_release release;
  if (symmetric)
    gram::linear(x, k);
  else
    gram::linear(x, y, k);
}

}  // namespace

void register_gram(py::module_& module) {
  auto gram = module.def_submodule("gram", "Gram matrices");
  gram.def(
      "linear",
      [](const py::array& X, const std::optional<py::array>& Y, const py::array& out) {
        X.itemsize() == 4 ? linear<float>(X, Y, out) : linear<double>(X, Y, out);
      },
      py::arg("X"), py::arg("Y").none(true), py::arg("out"));
}

}  // namespace fastdl::bindings
