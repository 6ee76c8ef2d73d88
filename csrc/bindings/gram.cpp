#include "fastdl/gram.hpp"

#include <pybind11/stl.h>  // std::optional

#include <optional>

#include "bindings/bindings.hpp"
#include "bindings/choices.hpp"

namespace fastdl::bindings {
namespace {

using Chosen = ChosenKernel<gram::Kernel>;
using Other = std::optional<py::array>;
using Permutations = py::array_t<std::int64_t, py::array::c_style>;

template <class T>
void compute(const gram::Kernel& kernel, const py::array& X, const Other& Y, const py::array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x;
  const auto k = matrix<T>(out, "out");
  const bool symmetric = !Y;
  const WithoutGil release;
  if (symmetric)
    gram::gram(kernel, x, k);
  else
    gram::gram(kernel, x, y, k);
}

// gram.<name>(X, Y, parameters..., out)
void define(py::module_& module, const KernelEntry& entry) {
  module.def(entry.name, [&entry](const py::array& X, const Other& Y, const py::args& rest) {
    const Chosen chosen(entry, rest);
    const auto out = py::cast<py::object>(rest[rest.size() - 1]);
    if (!py::isinstance<py::array>(out))
      throw py::type_error("out: expected an array for the result, got " + std::string(py::str(py::type::of(out))));
    in_type_of(X, [&](auto zero) { compute<decltype(zero)>(chosen.on(X), X, Y, out.cast<py::array>()); });
  });
}

template <class T>
void part(const gram::Kernel& kernel, const py::array& X, std::int64_t row, std::int64_t column, const py::array& out) {
  const auto x = matrix<const T>(X, "X");
  const auto k = matrix<T>(out, "out");
  const WithoutGil release;
  gram::part(kernel, x, row, column, k);
}

template <class T>
void diagonal(const gram::Kernel& kernel, const py::array& X, const py::array& out) {
  const auto x = matrix<const T>(X, "X");
  const auto to = matrix<T>(out, "out", 1);
  const WithoutGil release;
  gram::diag(kernel, x, to);
}

template <class T>
void matvec(const gram::Kernel& kernel, const py::array& X, const py::array& v, const Other& Y, const py::array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x, right = matrix<const T>(v, "v");
  const auto to = matrix<T>(out, "out");
  const WithoutGil release;
  gram::matvec(kernel, x, y, right, to);
}

template <class T>
void softmax(const py::array& Q, const py::array& K, const py::array& V, double scale, const py::array& out) {
  const auto q = matrix<const T>(Q, "Q"), k = matrix<const T>(K, "K"), v = matrix<const T>(V, "V");
  const auto to = matrix<T>(out, "out");
  const WithoutGil release;
  gram::softmax_matvec(q, k, v, scale, to);
}

template <class T>
void cntk(const py::array& X, const Other& Y, int depth, int kernel_size, const std::string& pooling,
          const py::array& out) {
  // Contiguous, by a copy if need be: images are small beside what is computed of them.
  using Images = py::array_t<T, py::array::c_style>;
  const auto images = [](const py::array& array, const char* name) {
    if (!py::isinstance<py::array_t<T>>(array) || array.ndim() != 4)
      throw py::value_error(std::string(name) + ": expected images (n, C, H, W) of one type, got " +
                            std::to_string(array.ndim()) + " dimensions of " + std::string(py::str(array.dtype())));
    check_aligned<T>(array, name);
    return Images(array);
  };
  const auto view = [](const Images& array) -> gram::ImagesView<T> {
    return {array.data(), array.shape(0), array.shape(1), array.shape(2), array.shape(3)};
  };
  const Images first = images(X, "X"), second = Y ? images(*Y, "Y") : first;
  const auto x = view(first), y = view(second);
  const auto k = matrix<T>(out, "out");
  if (k.rows != x.count || k.cols != y.count || !(out.flags() & py::array::c_style))
    throw py::value_error("out: expected a contiguous array of shape (" + std::to_string(x.count) + ", " +
                          std::to_string(y.count) + "), got (" + std::to_string(k.rows) + ", " +
                          std::to_string(k.cols) + ")");
  if (pooling != "mean" && pooling != "flatten")
    throw py::value_error("pooling: expected mean or flatten, got " + pooling);
  const auto pooled = pooling == "mean" ? gram::Pooling::mean : gram::Pooling::flatten;
  const bool symmetric = !Y;
  const WithoutGil release;
  if (symmetric)
    gram::cntk(x, depth, kernel_size, pooled, k.data);
  else
    gram::cntk(x, y, depth, kernel_size, pooled, k.data);
}

template <class T>
void distance(const gram::Kernel& kernel, const py::array& X, const Other& Y, const py::array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x;
  const auto to = matrix<T>(out, "out");
  const bool symmetric = !Y;
  const WithoutGil release;
  if (symmetric)
    gram::distance(kernel, x, to);
  else
    gram::distance(kernel, x, y, to);
}

template <class T>
void invariant(const gram::Kernel& kernel, const py::array& X, const Other& Y, const Permutations& permutations,
               bool group, const py::array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x;
  const auto to = matrix<T>(out, "out");
  if (permutations.ndim() != 2 || permutations.shape(1) != x.cols)
    throw py::value_error("permutations: expected one for each element and feature, got " +
                          std::to_string(permutations.ndim()) + " dimensions of " +
                          std::to_string(permutations.size()));
  const std::int64_t* orders = permutations.data();
  const std::int64_t order = permutations.shape(0);
  const bool symmetric = !Y;
  const WithoutGil release;
  if (symmetric)
    gram::invariant(kernel, x, orders, order, group, to);
  else
    gram::invariant(kernel, x, y, orders, order, group, to);
}

template <class T>
void center(const py::array& K, const py::array& out) {
  const auto k = matrix<const T>(K, "K");
  const auto to = matrix<T>(out, "out");
  const WithoutGil release;
  gram::center(k, to);
}

template <class T>
void dependence(const py::array& K, const py::array& L, bool unbiased, bool aligned, const py::array& out) {
  const auto k = matrix<const T>(K, "K"), l = matrix<const T>(L, "L");
  T* to = matrix<T>(out, "out", 0).data;
  const WithoutGil release;
  *to = aligned ? gram::cka(k, l, unbiased) : gram::hsic(k, l, unbiased);
}

template <class T>
void feature_gram(const py::array& x, bool center, const py::array& out) {
  using Maps = py::array_t<T, py::array::c_style>;  // contiguous, by a copy if need be
  if (!py::isinstance<py::array_t<T>>(x) || x.ndim() < 3 || !py::isinstance<Maps>(out) || out.ndim() != 3 ||
      out.shape(0) != x.shape(0) || out.shape(1) != x.shape(1) || out.shape(2) != x.shape(1) || !out.writeable())
    throw py::value_error("feature_gram: expected maps (N, C, ...) and a contiguous array (N, C, C), got " +
                          described(x) + " and " + described(out));
  check_aligned<T>(x, "x");
  check_aligned<T>(out, "out");
  const Maps maps(x);
  std::int64_t positions = 1;
  for (int axis = 2; axis < x.ndim(); ++axis) positions *= x.shape(axis);
  const std::int64_t samples = x.shape(0), channels = x.shape(1);
  const T* from = maps.data();
  T* to = static_cast<T*>(const_cast<void*>(out.data()));
  const WithoutGil release;
  gram::feature_gram(from, samples, channels, positions, center, to);
}

template <class T>
void empirical_ntk(const py::array& J1, const Other& J2, const py::array& out) {
  const auto x = matrix<const T>(J1, "J1"), y = J2 ? matrix<const T>(*J2, "J2") : x;
  const auto to = matrix<T>(out, "out");
  const bool symmetric = !J2;
  const WithoutGil release;
  if (symmetric)
    gram::empirical_ntk(x, to);
  else
    gram::empirical_ntk(x, y, to);
}

// A contiguous array of one dimension.
template <class T>
const T* values(const py::array& array, const char* name, py::ssize_t count) {
  if (!py::isinstance<py::array_t<T>>(array) || array.ndim() != 1 || !(array.flags() & py::array::c_style) ||
      array.shape(0) < count)
    throw py::value_error(std::string(name) + ": expected " + std::to_string(count) + " contiguous values, got " +
                          std::to_string(array.size()) + " of " + std::string(py::str(array.dtype())));
  check_aligned<T>(array, name);
  return static_cast<const T*>(array.data());
}

struct Triple {
  py::array offsets, indices, values;

  explicit Triple(const py::tuple& arrays)  // an IndexError if there are fewer than three
      : offsets(arrays[0].cast<py::array>()),
        indices(arrays[1].cast<py::array>()),
        values(arrays[2].cast<py::array>()) {}
};

template <class T>
auto sparse_matrix(const Triple& triple, std::int64_t rows, std::int64_t cols) {
  using Plain = std::conditional_t<std::is_same_v<T, float>, fastdl_sparse_f32, fastdl_sparse_f64>;
  if (rows < 0 || cols < 0 || rows == INT64_MAX)
    throw py::value_error("shape: expected extents >= 0, got " + std::to_string(rows) + " x " + std::to_string(cols));
  const auto* offsets = values<std::int64_t>(triple.offsets, "offsets", rows + 1);
  const auto count = static_cast<py::ssize_t>(offsets[rows]);
  return Plain{rows, cols, offsets, values<std::int64_t>(triple.indices, "indices", count),
               values<T>(triple.values, "values", count)};
}

template <class T>
void sparse(const gram::Kernel& kernel, const Triple& X, const Triple& Y, std::int64_t n, std::int64_t m,
            std::int64_t d, bool symmetric, const py::array& out) {
  const auto x = sparse_matrix<T>(X, n, d), y = sparse_matrix<T>(Y, d, m);
  const auto k = matrix<T>(out, "out").plain();
  const WithoutGil release;
  if constexpr (std::is_same_v<T, float>)
    throw_on_error(fastdl_gram_sparse_f32(&kernel, &x, &y, symmetric, &k));
  else
    throw_on_error(fastdl_gram_sparse_f64(&kernel, &x, &y, symmetric, &k));
}

template <class T>
double gram_vjp(const gram::Kernel& kernel, const py::array& X, const py::array& grad, const Other& Y,
                const py::array& dX, const Other& dY) {
  if (Y.has_value() != dY.has_value()) throw py::value_error("dY: expected one with Y and none without");
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x, g = matrix<const T>(grad, "grad");
  const auto dx = matrix<T>(dX, "dX"), dy = dY ? matrix<T>(*dY, "dY") : dx;
  const bool alone = !Y;
  const WithoutGil release;
  return alone ? gram::vjp(kernel, x, g, dx) : gram::vjp(kernel, x, y, g, dx, dy);
}

template <class T>
double matvec_vjp(const gram::Kernel& kernel, const py::array& X, const py::array& v, const py::array& grad,
                  const Other& Y, const py::array& dX, const Other& dY, const py::array& dv) {
  if (Y.has_value() != dY.has_value()) throw py::value_error("dY: expected one with Y and none without");
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x;
  const auto right = matrix<const T>(v, "v"), g = matrix<const T>(grad, "grad");
  const auto dx = matrix<T>(dX, "dX"), dright = matrix<T>(dv, "dv"), dy = dY ? matrix<T>(*dY, "dY") : dx;
  const bool alone = !Y;
  const WithoutGil release;
  return alone ? gram::matvec_vjp(kernel, x, right, g, dx, dright)
               : gram::matvec_vjp(kernel, x, y, right, g, dx, dy, dright);
}

}  // namespace

void register_gram(py::module_& module) {
  auto gram = module.def_submodule("gram", "Gram matrices");
  for (const KernelEntry& entry : kernels()) define(gram, entry);
  gram.def("part", [](const py::array& X, std::int64_t row, std::int64_t column, const std::string& name,
                      const py::dict& parameters, const py::array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { part<decltype(zero)>(chosen.on(X), X, row, column, out); });
  });
  gram.def("diag", [](const py::array& X, const std::string& name, const py::dict& parameters, const py::array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { diagonal<decltype(zero)>(chosen.on(X), X, out); });
  });
  gram.def("matvec", [](const py::array& X, const py::array& v, const Other& Y, const std::string& name,
                        const py::dict& parameters, const py::array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { matvec<decltype(zero)>(chosen.on(X), X, v, Y, out); });
  });
  gram.def("distance", [](const py::array& X, const Other& Y, const std::string& name, const py::dict& parameters,
                          const py::array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { distance<decltype(zero)>(chosen.on(X), X, Y, out); });
  });
  gram.def("invariant", [](const py::array& X, const Other& Y, const Permutations& permutations,
                           const std::string& name, const py::dict& parameters, bool group, const py::array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { invariant<decltype(zero)>(chosen.on(X), X, Y, permutations, group, out); });
  });
  gram.def("center", [](const py::array& K, const py::array& out) {
    in_type_of(K, [&](auto zero) { center<decltype(zero)>(K, out); });
  });
  gram.def("hsic", [](const py::array& K, const py::array& L, bool unbiased, const py::array& out) {
    in_type_of(K, [&](auto zero) { dependence<decltype(zero)>(K, L, unbiased, false, out); });
  });
  gram.def("cka", [](const py::array& K, const py::array& L, bool unbiased, const py::array& out) {
    in_type_of(K, [&](auto zero) { dependence<decltype(zero)>(K, L, unbiased, true, out); });
  });
  gram.def("feature_gram", [](const py::array& x, bool center, const py::array& out) {
    in_type_of(x, [&](auto zero) { feature_gram<decltype(zero)>(x, center, out); });
  });
  gram.def("empirical_ntk", [](const py::array& J1, const Other& J2, const py::array& out) {
    in_type_of(J1, [&](auto zero) { empirical_ntk<decltype(zero)>(J1, J2, out); });
  });
  gram.def("cntk", [](const py::array& X, const Other& Y, int depth, int kernel_size, const std::string& pooling,
                      const py::array& out) {
    in_type_of(X, [&](auto zero) { cntk<decltype(zero)>(X, Y, depth, kernel_size, pooling, out); });
  });
  gram.def("sparse", [](const py::tuple& X, const py::tuple& Y, const py::tuple& shape, const std::string& name,
                        const py::dict& parameters, bool symmetric, const py::array& out) {
    const Chosen chosen(name, parameters);
    const Triple x(X), y(Y);
    const auto n = shape[0].cast<std::int64_t>(), m = shape[1].cast<std::int64_t>(), d = shape[2].cast<std::int64_t>();
    in_type_of(x.values, [&](auto zero) { sparse<decltype(zero)>(chosen.on(d), x, y, n, m, d, symmetric, out); });
  });
  gram.def("softmax_matvec",
           [](const py::array& Q, const py::array& K, const py::array& V, double scale, const py::array& out) {
             in_type_of(Q, [&](auto zero) { softmax<decltype(zero)>(Q, K, V, scale, out); });
           });
  gram.def("gram_vjp", [](const py::array& X, const py::array& grad, const Other& Y, const std::string& name,
                          const py::dict& parameters, const py::array& dX, const Other& dY) {
    const Chosen chosen(name, parameters);
    double gamma = 0;
    in_type_of(X, [&](auto zero) { gamma = gram_vjp<decltype(zero)>(chosen.on(X), X, grad, Y, dX, dY); });
    return gamma;
  });
  gram.def("matvec_vjp", [](const py::array& X, const py::array& v, const py::array& grad, const Other& Y,
                            const std::string& name, const py::dict& parameters, const py::array& dX, const Other& dY,
                            const py::array& dv) {
    const Chosen chosen(name, parameters);
    double gamma = 0;
    in_type_of(X, [&](auto zero) { gamma = matvec_vjp<decltype(zero)>(chosen.on(X), X, v, grad, Y, dX, dY, dv); });
    return gamma;
  });
}

}  // namespace fastdl::bindings
