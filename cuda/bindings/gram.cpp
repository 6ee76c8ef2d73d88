#include "gram.hpp"

#include <algorithm>

#include "bindings/arrays.hpp"
#include "gram_kernels.hpp"

namespace fastdl::cuda::bindings {
namespace {

using fastdl::bindings::KernelEntry;
using gram::cuda::Kernel;
using gram::cuda::Kind;
using Chosen = fastdl::bindings::ChosenKernel<Kernel>;
static_assert(int(Kind::ntk) == int(FASTDL_NTK) && int(Kind::sigmoid) == int(FASTDL_SIGMOID));
using HostTable = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

template <class T>
using View = gram::cuda::MatrixView<const T>;

// A view of a 2-d array as the kernels take it.
template <class T>
View<T> view_of(const Array& array, const char* name) {
  const auto view = matrix<const T>(array, name);
  return {view.data, view.rows, view.cols, view.row_stride, view.col_stride};
}

void expect(bool right, const char* name, const std::string& wanted, const std::string& got) {
  if (!right) throw py::value_error(std::string(name) + ": expected " + wanted + ", got " + got);
}

// A result, checked to be of these extents.
template <class T>
Result<T> result(const Array& array, const char* name, const Sizes& shape) {
  std::string wanted;
  for (const std::int64_t extent : shape) wanted += (wanted.empty() ? "shape (" : ", ") + std::to_string(extent);
  expect(array.shape() == shape, name, (wanted.empty() ? "shape (" : wanted) + ")", array.described());
  return Result<T>(array, name);
}

// Samples of both sides, with the same features; without Y the first are also the second.
template <class T>
struct Samples {
  View<T> x, others;
  bool alone;

  Samples(const Array& X, const Optional& Y) : x(view_of<T>(X, "X")), others(Y ? view_of<T>(*Y, "Y") : x), alone(!Y) {
    expect(others.cols == x.cols, "Y", std::to_string(x.cols) + " columns", std::to_string(others.cols));
  }
  const View<T>* y() const { return alone ? nullptr : &others; }
};

template <class T>
View<T> right_sides(const Array& v, const char* name, std::int64_t rows) {
  const auto view = view_of<T>(v, name);
  expect(view.rows == rows, name, std::to_string(rows) + " rows", std::to_string(view.rows));
  return view;
}

template <class T>
void compute(const Kernel& kernel, const Array& X, const Optional& Y, const Array& out) {
  const Samples<T> samples(X, Y);
  const View<T>&x = samples.x, &y = samples.others;
  const Result<T> k = result<T>(out, "out", {x.rows, y.rows});
  const WithoutGil release;
  // Products alone are the engine's own.
  if (kernel.kind != Kind::linear)
    gram::cuda::gram(kernel, x, samples.y(), k.data(), y.rows, stream());
  else if (samples.alone)
    gram::cuda::linear(x.data, x.rows, x.row_stride, x.col_stride, x.cols, k.data(), x.rows, stream());
  else
    gram::cuda::linear(x.data, x.rows, x.row_stride, x.col_stride, y.data, y.rows, y.row_stride, y.col_stride, x.cols,
                       k.data(), y.rows, stream());
  k.finish();
}

// gram.<name>(X, Y, parameters..., out)
void define(py::module_& module, const KernelEntry& entry) {
  module.def(entry.name, [&entry](const Array& X, const Optional& Y, const py::args& rest) {
    const Chosen chosen(entry, rest);
    const auto out = rest[rest.size() - 1].cast<Array>();
    in_type_of(X, [&](auto zero) { compute<decltype(zero)>(chosen.on(X), X, Y, out); });
  });
}

template <class T>
void diagonal(const Kernel& kernel, const Array& X, const Array& out) {
  const auto x = view_of<T>(X, "X");
  const Result<T> to = result<T>(out, "out", {x.rows});
  const WithoutGil release;
  gram::cuda::diag(kernel, x, to.data(), stream());
  to.finish();
}

template <class T>
void distance(const Kernel& kernel, const Array& X, const Optional& Y, const Array& out) {
  const Samples<T> samples(X, Y);
  const Result<T> to = result<T>(out, "out", {samples.x.rows, samples.others.rows});
  const WithoutGil release;
  gram::cuda::distance(kernel, samples.x, samples.y(), to.data(), stream());
  to.finish();
}

template <class T>
void invariant(const Kernel& kernel, const Array& X, const Optional& Y, const HostTable& permutations, bool group,
               const Array& out) {
  const Samples<T> samples(X, Y);
  const std::int64_t features = samples.x.cols;
  expect(permutations.ndim() == 2 && permutations.shape(1) == features, "permutations",
         "one for each element and feature", std::to_string(permutations.size()) + " numbers");
  const std::int64_t* orders = permutations.data();
  const std::int64_t count = permutations.shape(0);
  for (std::int64_t i = 0; i < count * features; ++i)
    expect(orders[i] >= 0 && orders[i] < features, "permutations", "0 to " + std::to_string(features - 1),
           std::to_string(orders[i]));
  const Result<T> to = result<T>(out, "out", {samples.x.rows, samples.others.rows});
  const WithoutGil release;
  gram::cuda::invariant(kernel, samples.x, samples.y(), orders, count, group, to.data(), stream());
  to.finish();
}

template <class T>
void matvec(const Kernel& kernel, const Array& X, const Array& v, const Optional& Y, const Array& out) {
  const Samples<T> samples(X, Y);
  const auto right = right_sides<T>(v, "v", samples.others.rows);
  const Result<T> to = result<T>(out, "out", {samples.x.rows, right.cols});
  const WithoutGil release;
  gram::cuda::matvec(kernel, samples.x, samples.others, right, to.data(), stream());
  to.finish();
}

template <class T>
void softmax(const Array& Q, const Array& K, const Array& V, double scale, const Array& out) {
  const auto q = view_of<T>(Q, "Q"), k = view_of<T>(K, "K");
  expect(k.cols == q.cols, "K", std::to_string(q.cols) + " columns", std::to_string(k.cols));
  const auto v = right_sides<T>(V, "V", k.rows);
  const Result<T> to = result<T>(out, "out", {q.rows, v.cols});
  const WithoutGil release;
  gram::cuda::softmax_matvec(q, k, v, scale, to.data(), stream());
  to.finish();
}

template <class T>
double gram_vjp(const Kernel& kernel, const Array& X, const Array& grad, const Optional& Y, const Array& dX,
                const Optional& dY) {
  const Samples<T> samples(X, Y);
  const std::int64_t n = samples.x.rows, m = samples.others.rows, features = samples.x.cols;
  const auto g = right_sides<T>(grad, "grad", n);
  expect(g.cols == m, "grad", std::to_string(m) + " columns", std::to_string(g.cols));
  expect(Y.has_value() == dY.has_value(), "dY", "one with Y and none without", dY ? "one" : "none");
  const Result<T> dx = result<T>(dX, "dX", {n, features});
  const auto dy = dY ? std::optional(result<T>(*dY, "dY", {m, features})) : std::nullopt;
  const WithoutGil release;
  const double gamma =
      gram::cuda::gram_vjp(kernel, samples.x, samples.y(), g, dx.data(), dy ? dy->data() : nullptr, stream());
  dx.finish();
  if (dy) dy->finish();
  return gamma;
}

template <class T>
double matvec_vjp(const Kernel& kernel, const Array& X, const Array& v, const Array& grad, const Optional& Y,
                  const Array& dX, const Optional& dY, const Array& dv) {
  const Samples<T> samples(X, Y);
  const std::int64_t n = samples.x.rows, m = samples.others.rows, features = samples.x.cols;
  const auto right = right_sides<T>(v, "v", m), g = right_sides<T>(grad, "grad", n);
  expect(g.cols == right.cols, "grad", std::to_string(right.cols) + " columns", std::to_string(g.cols));
  expect(Y.has_value() == dY.has_value(), "dY", "one with Y and none without", dY ? "one" : "none");
  const Result<T> dx = result<T>(dX, "dX", {n, features}), by_v = result<T>(dv, "dv", {m, right.cols});
  const auto dy = dY ? std::optional(result<T>(*dY, "dY", {m, features})) : std::nullopt;
  const WithoutGil release;
  const double gamma = gram::cuda::matvec_vjp(kernel, samples.x, samples.y(), right, g, dx.data(),
                                              dy ? dy->data() : nullptr, by_v.data(), stream());
  dx.finish();
  if (dy) dy->finish();
  by_v.finish();
  return gamma;
}

template <class T>
View<T> square(const Array& K, const char* name, std::int64_t least) {
  const auto view = view_of<T>(K, name);
  expect(view.rows == view.cols && view.rows >= least, name,
         "a square matrix of at least " + std::to_string(least) + " rows", K.described());
  return view;
}

template <class T>
void center(const Array& K, const Array& out) {
  const auto k = square<T>(K, "K", 0);
  const Result<T> to = result<T>(out, "out", {k.rows, k.rows});
  const WithoutGil release;
  gram::cuda::center(k, to.data(), stream());
  to.finish();
}

template <class T>
void dependence(const Array& K, const Array& L, bool unbiased, bool aligned, const Array& out) {
  const auto k = square<T>(K, "K", unbiased ? 4 : 2), l = square<T>(L, "L", k.rows);
  expect(l.rows == k.rows, "L", std::to_string(k.rows) + " rows", std::to_string(l.rows));
  const Result<T> to = result<T>(out, "out", {});
  const WithoutGil release;
  gram::cuda::dependence(k, l, unbiased, aligned, to.data(), stream());
  to.finish();
}

template <class T>
void feature_gram(const Array& x, bool centred, const Array& out) {
  expect(x.ndim() >= 3, "x", "maps (N, C, ...)", x.described());
  const Contiguous<T> maps(x, "x");
  const std::int64_t samples = x.shape(0), channels = x.shape(1);
  std::int64_t positions = 1;
  for (int axis = 2; axis < x.ndim(); ++axis) positions *= x.shape(axis);
  expect(positions > 0, "x", "at least one position", x.described());
  const Result<T> to = result<T>(out, "out", {samples, channels, channels});
  const WithoutGil release;
  gram::cuda::feature_gram(maps.data(), samples, channels, positions, centred, to.data(), stream());
  to.finish();
}

template <class T>
void empirical_ntk(const Array& J1, const Optional& J2, const Array& out) {
  const Samples<T> samples(J1, J2);
  const Result<T> to = result<T>(out, "out", {samples.x.rows, samples.others.rows});
  const WithoutGil release;
  gram::cuda::empirical_ntk(samples.x, samples.y(), to.data(), stream());
  to.finish();
}

template <class T>
void cntk(const Array& X, const Optional& Y, int depth, std::int64_t kernel_size, const std::string& pooling,
          const Array& out) {
  expect(X.ndim() == 4 && X.shape(2) > 0 && X.shape(3) > 0, "X", "images (n, C, H, W)", X.described());
  expect(!Y || (Y->ndim() == 4 && std::equal(X.shape().begin() + 1, X.shape().end(), Y->shape().begin() + 1)), "Y",
         "images of the size of those in X", Y ? Y->described() : "none");
  expect(depth >= 0 && kernel_size >= 1 && kernel_size < (1 << 30), "kernel_size", "1 or more, and depth 0 or more",
         std::to_string(kernel_size));
  expect(gram::cuda::cntk_fits(X.shape(2), X.shape(3), X.itemsize()), "X", "images that fit shared memory",
         X.described());
  const bool flatten = chosen<bool>("pooling", pooling, {{"mean", false}, {"flatten", true}});
  const Contiguous<T> x(X, "X");
  const auto y = optional<T>(Y, "Y");
  const std::int64_t n = X.shape(0), m = Y ? Y->shape(0) : n;
  const Result<T> to = result<T>(out, "out", {n, m});
  const WithoutGil release;
  gram::cuda::cntk(x.data(), n, y ? y->data() : nullptr, m, X.shape(1), X.shape(2), X.shape(3), depth, kernel_size,
                   flatten, to.data(), stream());
  to.finish();
}

}  // namespace

void register_gram(py::module_& module) {
  py::module_ gram = module.def_submodule("gram", "Gram matrices");
  for (const KernelEntry& entry : fastdl::bindings::kernels()) define(gram, entry);
  gram.def("diag", [](const Array& X, const std::string& name, const py::dict& parameters, const Array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { diagonal<decltype(zero)>(chosen.on(X), X, out); });
  });
  gram.def("distance", [](const Array& X, const Optional& Y, const std::string& name, const py::dict& parameters,
                          const Array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { distance<decltype(zero)>(chosen.on(X), X, Y, out); });
  });
  gram.def("invariant", [](const Array& X, const Optional& Y, const HostTable& permutations, const std::string& name,
                           const py::dict& parameters, bool group, const Array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { invariant<decltype(zero)>(chosen.on(X), X, Y, permutations, group, out); });
  });
  gram.def("matvec", [](const Array& X, const Array& v, const Optional& Y, const std::string& name,
                        const py::dict& parameters, const Array& out) {
    const Chosen chosen(name, parameters);
    in_type_of(X, [&](auto zero) { matvec<decltype(zero)>(chosen.on(X), X, v, Y, out); });
  });
  gram.def("softmax_matvec", [](const Array& Q, const Array& K, const Array& V, double scale, const Array& out) {
    in_type_of(Q, [&](auto zero) { softmax<decltype(zero)>(Q, K, V, scale, out); });
  });
  gram.def("gram_vjp", [](const Array& X, const Array& grad, const Optional& Y, const std::string& name,
                          const py::dict& parameters, const Array& dX, const Optional& dY) {
    const Chosen chosen(name, parameters);
    double gamma = 0;
    in_type_of(X, [&](auto zero) { gamma = gram_vjp<decltype(zero)>(chosen.on(X), X, grad, Y, dX, dY); });
    return gamma;
  });
  gram.def(
      "matvec_vjp", [](const Array& X, const Array& v, const Array& grad, const Optional& Y, const std::string& name,
                       const py::dict& parameters, const Array& dX, const Optional& dY, const Array& dv) {
        const Chosen chosen(name, parameters);
        double gamma = 0;
        in_type_of(X, [&](auto zero) { gamma = matvec_vjp<decltype(zero)>(chosen.on(X), X, v, grad, Y, dX, dY, dv); });
        return gamma;
      });
  gram.def("center",
           [](const Array& K, const Array& out) { in_type_of(K, [&](auto zero) { center<decltype(zero)>(K, out); }); });
  gram.def("hsic", [](const Array& K, const Array& L, bool unbiased, const Array& out) {
    in_type_of(K, [&](auto zero) { dependence<decltype(zero)>(K, L, unbiased, false, out); });
  });
  gram.def("cka", [](const Array& K, const Array& L, bool unbiased, const Array& out) {
    in_type_of(K, [&](auto zero) { dependence<decltype(zero)>(K, L, unbiased, true, out); });
  });
  gram.def("feature_gram", [](const Array& x, bool center, const Array& out) {
    in_type_of(x, [&](auto zero) { feature_gram<decltype(zero)>(x, center, out); });
  });
  gram.def("cntk_fits", &fastdl::gram::cuda::cntk_fits, py::arg("height"), py::arg("width"), py::arg("itemsize"));
  gram.def("cntk", [](const Array& X, const Optional& Y, int depth, std::int64_t kernel_size,
                      const std::string& pooling, const Array& out) {
    in_type_of(X, [&](auto zero) { cntk<decltype(zero)>(X, Y, depth, kernel_size, pooling, out); });
  });
  gram.def("empirical_ntk", [](const Array& J1, const Optional& J2, const Array& out) {
    in_type_of(J1, [&](auto zero) { empirical_ntk<decltype(zero)>(J1, J2, out); });
  });
}

}  // namespace fastdl::cuda::bindings
