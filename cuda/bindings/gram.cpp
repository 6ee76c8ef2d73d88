#include "gram.hpp"

#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {
namespace {

template <class T>
void linear(const Array& X, const Optional& Y, const Array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x;
  const Result<T> k(out, "out");
  const bool symmetric = !Y;
  const py::gil_scoped_release release;
  if (symmetric)
    gram::cuda::linear(x.data, x.rows, x.row_stride, x.col_stride, x.cols, k.data(), x.rows, stream());
  else
    gram::cuda::linear(x.data, x.rows, x.row_stride, x.col_stride, y.data, y.rows, y.row_stride, y.col_stride, x.cols,
                       k.data(), y.rows, stream());
  k.finish();
}

}  // namespace

void register_gram(py::module_& module) {
  py::module_ gram = module.def_submodule("gram");
  gram.def(
      "linear",
      [](const Array& X, const Optional& Y, const Array& out) {
        in_type_of(X, [&](auto zero) { linear<decltype(zero)>(X, Y, out); });
      },
      py::arg("X"), py::arg("Y").none(true), py::arg("out"));
}

}  // namespace fastdl::cuda::bindings
