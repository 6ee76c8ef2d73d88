#include "fastdl/gram.hpp"

#include <pybind11/stl.h>  // std::optional

#include <optional>

#include "bindings/bindings.hpp"

namespace fastdl::bindings {
namespace {

using Other = std::optional<py::array>;

template <class T>
void compute(const gram::Kernel& kernel, const py::array& X, const Other& Y, const py::array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x;
  const auto k = matrix<T>(out, "out");
  const bool symmetric = !Y;
  const py::gil_scoped_release release;
  if (symmetric)
    gram::gram(kernel, x, k);
  else
    gram::gram(kernel, x, y, k);
}

// Adds gram.<name>(X, Y, parameters..., out): `set` puts the parameters into the kernel.
template <class... Parameters>
void define(py::module_& module, const char* name, fastdl_kernel_kind kind, void (*set)(gram::Kernel&, Parameters...)) {
  module.def(name, [kind, set](const py::array& X, const Other& Y, Parameters... parameters, const py::array& out) {
    gram::Kernel kernel = gram::kernel(kind, 1);
    set(kernel, parameters...);
    X.itemsize() == 4 ? compute<float>(kernel, X, Y, out) : compute<double>(kernel, X, Y, out);
  });
}

// A number, or an array of one for each feature.
void set_length_scale(gram::Kernel& kernel, const py::object& value, py::array& keep) {
  if (!py::isinstance<py::array>(value)) {
    kernel.length_scale = value.cast<double>();
    return;
  }
  keep = py::array_t<double, py::array::c_style | py::array::forcecast>(value.cast<py::array>());
  kernel.length_scales = static_cast<const double*>(keep.data());
}

void check_length_scales(const gram::Kernel& kernel, const py::array& keep, const py::array& X) {
  if (kernel.length_scales && (X.ndim() != 2 || keep.ndim() != 1 || keep.shape(0) != X.shape(1)))
    throw py::value_error("length_scale: expected one for each feature");
}

// A kernel by name, with the parameters of a dictionary. `length_scales` may point into `keep`.
struct Named {
  gram::Kernel kernel;
  py::array keep;

  Named(const std::string& name, const py::dict& parameters, const py::array& X) : kernel(gram::kernel(kind(name), 1)) {
    for (const auto& [key, value] : parameters) {
      const std::string parameter = key.cast<std::string>();
      if (parameter == "gamma")
        kernel.gamma = value.cast<double>();
      else if (parameter == "coef0")
        kernel.coef0 = value.cast<double>();
      else if (parameter == "degree")
        kernel.degree = value.cast<double>();
      else if (parameter == "nu")
        kernel.nu = value.cast<double>();
      else if (parameter == "alpha")
        kernel.alpha = value.cast<double>();
      else if (parameter == "omega")
        kernel.omega = value.cast<double>();
      else if (parameter == "order")
        kernel.order = value.cast<int>();
      else if (parameter == "depth")
        kernel.depth = value.cast<int>();
      else if (parameter == "w_std")
        kernel.w_std = value.cast<double>();
      else if (parameter == "b_std")
        kernel.b_std = value.cast<double>();
      else if (parameter == "normalize")
        kernel.normalize = value.cast<bool>();
      else if (parameter == "length_scale")
        set_length_scale(kernel, py::reinterpret_borrow<py::object>(value), keep);
      else
        throw py::value_error("unknown parameter " + parameter);
    }
    check_length_scales(kernel, keep, X);
  }

  static fastdl_kernel_kind kind(const std::string& name) {
    static const char* const names[] = {"linear", "polynomial",    "sigmoid", "rbf",    "laplacian",
                                        "cosine", "additive_chi2", "chi2",    "matern", "geometric",
                                        "sinc",   "arc_cosine",    "nngp",    "ntk"};
    for (int i = 0; i <= FASTDL_NTK; ++i)
      if (name == names[i]) return static_cast<fastdl_kernel_kind>(i);
    throw py::value_error("unknown kernel " + name);
  }
};

template <class T>
void diagonal(const gram::Kernel& kernel, const py::array& X, const py::array& out) {
  const auto x = matrix<const T>(X, "X");
  const auto to = matrix<T>(out, "out", 1);
  const py::gil_scoped_release release;
  gram::diag(kernel, x, to);
}

template <class T>
void matvec(const gram::Kernel& kernel, const py::array& X, const py::array& v, const Other& Y, const py::array& out) {
  const auto x = matrix<const T>(X, "X"), y = Y ? matrix<const T>(*Y, "Y") : x, right = matrix<const T>(v, "v");
  const auto to = matrix<T>(out, "out");
  const py::gil_scoped_release release;
  gram::matvec(kernel, x, y, right, to);
}

template <class T>
void softmax(const py::array& Q, const py::array& K, const py::array& V, double scale, const py::array& out) {
  const auto q = matrix<const T>(Q, "Q"), k = matrix<const T>(K, "K"), v = matrix<const T>(V, "V");
  const auto to = matrix<T>(out, "out");
  const py::gil_scoped_release release;
  gram::softmax_matvec(q, k, v, scale, to);
}

template <class T>
void cntk(const py::array& X, const Other& Y, int depth, int kernel_size, const std::string& pooling,
          const py::array& out) {
  // Contiguous, by a copy if need be: images are small beside what is computed of them.
  using Images = py::array_t<T, py::array::c_style>;
  const auto images = [](const py::array& array, const char* name) {
    if (!py::isinstance<py::array_t<T>>(array) || array.ndim() != 4)
      throw py::value_error(std::string(name) + ": expected images (n, C, H, W) of one type");
    return Images::ensure(array);
  };
  const auto view = [](const Images& array) -> gram::ImagesView<T> {
    return {array.data(), array.shape(0), array.shape(1), array.shape(2), array.shape(3)};
  };
  const Images first = images(X, "X"), second = Y ? images(*Y, "Y") : first;
  const auto x = view(first), y = view(second);
  const auto k = matrix<T>(out, "out");
  if (k.rows != x.count || k.cols != y.count || !(out.flags() & py::array::c_style))
    throw py::value_error("out: expected a contiguous array of the shape of the result");
  const auto pooled = pooling == "mean" ? gram::Pooling::mean : gram::Pooling::flatten;
  const bool symmetric = !Y;
  const py::gil_scoped_release release;
  if (symmetric)
    gram::cntk(x, depth, kernel_size, pooled, k.data);
  else
    gram::cntk(x, y, depth, kernel_size, pooled, k.data);
}

// A contiguous array of one dimension.
template <class T>
const T* values(const py::array& array, const char* name, py::ssize_t count) {
  if (!py::isinstance<py::array_t<T>>(array) || array.ndim() != 1 || !(array.flags() & py::array::c_style) ||
      array.shape(0) < count)
    throw py::value_error(std::string(name) + ": expected " + std::to_string(count) + " contiguous values");
  return static_cast<const T*>(array.data());
}

struct Triple {
  py::array offsets, indices, values;

  explicit Triple(const py::tuple& arrays)
      : offsets(arrays[0].cast<py::array>()),
        indices(arrays[1].cast<py::array>()),
        values(arrays[2].cast<py::array>()) {}
};

template <class T>
auto sparse_matrix(const Triple& triple, std::int64_t rows, std::int64_t cols) {
  using Plain = std::conditional_t<std::is_same_v<T, float>, fastdl_sparse_f32, fastdl_sparse_f64>;
  if (rows < 0 || cols < 0) throw py::value_error("expected extents >= 0");
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
  const py::gil_scoped_release release;
  if constexpr (std::is_same_v<T, float>)
    throw_on_error(fastdl_gram_sparse_f32(&kernel, &x, &y, symmetric, &k));
  else
    throw_on_error(fastdl_gram_sparse_f64(&kernel, &x, &y, symmetric, &k));
}

}  // namespace

void register_gram(py::module_& module) {
  using gram::Kernel;
  auto gram = module.def_submodule("gram", "Gram matrices");
  define(gram, "linear", FASTDL_LINEAR, +[](Kernel&) {});
  define(
      gram, "polynomial", FASTDL_POLYNOMIAL, +[](Kernel& k, double degree, double gamma, double coef0) {
        k.degree = degree, k.gamma = gamma, k.coef0 = coef0;
      });
  define(
      gram, "sigmoid", FASTDL_SIGMOID,
      +[](Kernel& k, double gamma, double coef0) { k.gamma = gamma, k.coef0 = coef0; });
  define(gram, "rbf", FASTDL_RBF, +[](Kernel& k, double gamma) { k.gamma = gamma; });
  define(gram, "laplacian", FASTDL_LAPLACIAN, +[](Kernel& k, double gamma) { k.gamma = gamma; });
  define(gram, "cosine", FASTDL_COSINE, +[](Kernel&) {});
  define(gram, "additive_chi2", FASTDL_ADDITIVE_CHI2, +[](Kernel&) {});
  define(gram, "chi2", FASTDL_CHI2, +[](Kernel& k, double gamma) { k.gamma = gamma; });
  define(gram, "geometric", FASTDL_GEOMETRIC, +[](Kernel& k, double alpha) { k.alpha = alpha; });
  define(gram, "sinc", FASTDL_SINC, +[](Kernel& k, double omega) { k.omega = omega; });
  define(gram, "arc_cosine", FASTDL_ARC_COSINE, +[](Kernel& k, int order) { k.order = order; });
  constexpr auto network = +[](Kernel& k, int depth, double w_std, double b_std, bool normalize) {
    k.depth = depth, k.w_std = w_std, k.b_std = b_std, k.normalize = normalize;
  };
  define(gram, "nngp", FASTDL_NNGP, network);
  define(gram, "ntk", FASTDL_NTK, network);
  gram.def("matern",
           [](const py::array& X, const Other& Y, const py::object& length_scale, double nu, const py::array& out) {
             Kernel kernel = gram::kernel(FASTDL_MATERN, 1);
             py::array keep;
             kernel.nu = nu;
             set_length_scale(kernel, length_scale, keep);
             check_length_scales(kernel, keep, X);
             X.itemsize() == 4 ? compute<float>(kernel, X, Y, out) : compute<double>(kernel, X, Y, out);
           });
  gram.def("diag", [](const py::array& X, const std::string& name, const py::dict& parameters, const py::array& out) {
    const Named named(name, parameters, X);
    X.itemsize() == 4 ? diagonal<float>(named.kernel, X, out) : diagonal<double>(named.kernel, X, out);
  });
  gram.def("matvec", [](const py::array& X, const py::array& v, const Other& Y, const std::string& name,
                        const py::dict& parameters, const py::array& out) {
    const Named named(name, parameters, X);
    X.itemsize() == 4 ? matvec<float>(named.kernel, X, v, Y, out) : matvec<double>(named.kernel, X, v, Y, out);
  });
  gram.def("cntk", [](const py::array& X, const Other& Y, int depth, int kernel_size, const std::string& pooling,
                      const py::array& out) {
    X.itemsize() == 4 ? cntk<float>(X, Y, depth, kernel_size, pooling, out)
                      : cntk<double>(X, Y, depth, kernel_size, pooling, out);
  });
  gram.def("sparse", [](const py::tuple& X, const py::tuple& Y, const py::tuple& shape, const std::string& name,
                        const py::dict& parameters, bool symmetric, const py::array& out) {
    const Named named(name, parameters, out);
    const Triple x(X), y(Y);
    const auto n = shape[0].cast<std::int64_t>(), m = shape[1].cast<std::int64_t>(), d = shape[2].cast<std::int64_t>();
    x.values.itemsize() == 4 ? sparse<float>(named.kernel, x, y, n, m, d, symmetric, out)
                             : sparse<double>(named.kernel, x, y, n, m, d, symmetric, out);
  });
  gram.def("softmax_matvec",
           [](const py::array& Q, const py::array& K, const py::array& V, double scale, const py::array& out) {
             Q.itemsize() == 4 ? softmax<float>(Q, K, V, scale, out) : softmax<double>(Q, K, V, scale, out);
           });
}

}  // namespace fastdl::bindings
