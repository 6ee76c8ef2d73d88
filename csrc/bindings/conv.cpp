#include <pybind11/stl.h>  // std::optional, std::vector

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"

namespace fastdl::bindings {
namespace {

// The functions of the C interface in each type.
template <class T>
struct C;
#define FASTDL_C_FUNCTIONS(T, suffix)                                    \
  template <>                                                            \
  struct C<T> {                                                          \
    static constexpr auto conv = fastdl_conv_##suffix;                   \
    static constexpr auto prepare = fastdl_conv_prepare_##suffix;        \
    static constexpr auto prepared = fastdl_conv_prepared_##suffix;      \
    static constexpr auto free = fastdl_conv_filters_free_##suffix;      \
    using Filters = fastdl_conv_filters_##suffix;                        \
    static constexpr auto input = fastdl_conv_input_##suffix;            \
    static constexpr auto weight = fastdl_conv_weight_##suffix;          \
    static constexpr auto max_pool = fastdl_max_pool_##suffix;           \
    static constexpr auto avg_pool = fastdl_avg_pool_##suffix;           \
    static constexpr auto max_pool_grad = fastdl_max_pool_grad_##suffix; \
    static constexpr auto avg_pool_grad = fastdl_avg_pool_grad_##suffix; \
  };
FASTDL_C_FUNCTIONS(float, f32)
FASTDL_C_FUNCTIONS(double, f64)

void copy_sizes(const Sizes& from, std::int64_t* to, int rank, const char* name) {
  if (int(from.size()) != rank)
    throw py::value_error(std::string(name) + ": expected " + std::to_string(rank) + " numbers, got " +
                          std::to_string(from.size()));
  for (int a = 0; a < rank; ++a) to[a] = from[std::size_t(a)];
}

// in, out: shapes of the convolution's input and output
fastdl_conv_shape shape_of(const Sizes& in, const Sizes& out, const Sizes& kernel, const Sizes& stride,
                           const Sizes& lower, const Sizes& dilation, std::int64_t groups) {
  if (in.size() < 3 || in.size() > 5 || out.size() != in.size() || in[0] != out[0])
    throw py::value_error("expected arrays (N, C, ...) of one batch with 1 to 3 axes of positions, got " +
                          std::to_string(in.size()) + " and " + std::to_string(out.size()) + " dimensions");
  fastdl_conv_shape shape{};
  shape.rank = int(in.size()) - 2;
  shape.batch = in[0];
  shape.in_channels = in[1];
  shape.out_channels = out[1];
  shape.groups = groups;
  std::copy(in.begin() + 2, in.end(), shape.in);
  std::copy(out.begin() + 2, out.end(), shape.out);
  copy_sizes(kernel, shape.kernel, shape.rank, "kernel");
  copy_sizes(stride, shape.stride, shape.rank, "stride");
  copy_sizes(lower, shape.lower, shape.rank, "padding");
  copy_sizes(dilation, shape.dilation, shape.rank, "dilation");
  return shape;
}

Sizes sizes_of(const py::array& array) { return Sizes(array.shape(), array.shape() + array.ndim()); }

// The kernel's extents, of weights for these channels.
Sizes kernel_of(const py::array& w, std::int64_t out_channels, std::int64_t in_channels, std::int64_t groups,
                py::ssize_t dimensions) {
  if (w.ndim() != dimensions || w.shape(0) != out_channels || groups < 1 || w.shape(1) * groups != in_channels)
    throw py::value_error("w: expected weights for " + std::to_string(in_channels) + " and " +
                          std::to_string(out_channels) + " channels in " + std::to_string(groups) + " groups, got " +
                          described(w));
  return Sizes(w.shape() + 2, w.shape() + w.ndim());
}

template <class T>
const T* bias_of(const std::optional<Contiguous<T>>& bias, std::int64_t channels) {
  if (!bias) return nullptr;
  if (bias->ndim() != 1 || bias->shape(0) != channels)
    throw py::value_error("bias: expected " + std::to_string(channels) + " numbers, got " + bias->described());
  return bias->data();
}

fastdl_conv_algorithm algorithm_of(const std::string& name) {
  return chosen<fastdl_conv_algorithm>("algorithm", name,
                                       {{"auto", FASTDL_CONV_AUTO},
                                        {"direct", FASTDL_CONV_DIRECT},
                                        {"winograd", FASTDL_CONV_WINOGRAD},
                                        {"fft", FASTDL_CONV_FFT}});
}

// Filters made ready for many calls.
template <class T>
class Filters {
 public:
  Filters(const py::array& w, const fastdl_conv_shape& shape, const std::string& algorithm) {
    const Contiguous<T> weights(w, "w");
    throw_on_error(C<T>::prepare(&shape, algorithm_of(algorithm), weights.data(), &made_));
  }
  ~Filters() { C<T>::free(made_); }
  Filters(const Filters&) = delete;
  Filters& operator=(const Filters&) = delete;
  const typename C<T>::Filters* get() const { return made_; }

 private:
  typename C<T>::Filters* made_ = nullptr;
};

// For inputs and outputs of these shapes.
py::object filters(const py::array& w, const Sizes& input, const Sizes& output, const Sizes& stride, const Sizes& lower,
                   const Sizes& dilation, std::int64_t groups, const std::string& algorithm) {
  if (input.size() < 3 || output.size() != input.size())
    throw py::value_error("filters: expected an input (N, C, ...) and an output of as many dimensions, got " +
                          std::to_string(input.size()) + " and " + std::to_string(output.size()));
  const Sizes kernel = kernel_of(w, output[1], input[1], groups, py::ssize_t(input.size()));
  const auto shape = shape_of(input, output, kernel, stride, lower, dilation, groups);
  if (w.itemsize() == 4) return py::cast(std::make_unique<Filters<float>>(w, shape, algorithm));
  return py::cast(std::make_unique<Filters<double>>(w, shape, algorithm));
}

template <class T>
void conv(const py::array& x, const py::array& w, const Optional& bias, const Sizes& stride, const Sizes& lower,
          const Sizes& dilation, std::int64_t groups, const std::string& padding,
          const std::optional<std::string>& name, const py::object& how, const py::array& out) {
  const Sizes kernel = kernel_of(w, out.ndim() > 1 ? out.shape(1) : 0, x.ndim() > 1 ? x.shape(1) : 0, groups, x.ndim());
  const auto shape = shape_of(sizes_of(x), sizes_of(out), kernel, stride, lower, dilation, groups);
  const auto mode = chosen<fastdl_padding>("padding_mode", padding,
                                           {{"zeros", FASTDL_ZEROS},
                                            {"circular", FASTDL_CIRCULAR},
                                            {"reflect", FASTDL_REFLECT},
                                            {"replicate", FASTDL_REPLICATE}});
  const auto activation = activation_of(name);
  const Strided<T> images(x, "x");
  const auto offsets = optional<T>(bias, "bias");
  const T* offset = bias_of(offsets, shape.out_channels);
  Result<T> result(out, "out");
  if (py::isinstance<Filters<T>>(how)) {
    const auto* made = how.cast<const Filters<T>&>().get();
    const WithoutGil release;
    throw_on_error(
        C<T>::prepared(made, &shape, mode, activation, images.data, images.strides.data(), offset, result.data()));
  } else {
    const auto algorithm = algorithm_of(how.cast<std::string>());
    const Contiguous<T> weights(w, "w");
    const WithoutGil release;
    throw_on_error(C<T>::conv(&shape, mode, activation, algorithm, images.data, images.strides.data(), weights.data(),
                              offset, result.data()));
  }
  result.finish();
}

// dx from w and grad; also the transposed convolution, of which x is `grad`.
template <class T>
void conv_input(const py::array& w, const py::array& grad, const Optional& bias, const Sizes& stride,
                const Sizes& lower, const Sizes& dilation, std::int64_t groups, const py::array& out) {
  const Sizes kernel =
      kernel_of(w, grad.ndim() > 1 ? grad.shape(1) : 0, out.ndim() > 1 ? out.shape(1) : 0, groups, grad.ndim());
  const auto shape = shape_of(sizes_of(out), sizes_of(grad), kernel, stride, lower, dilation, groups);
  const Contiguous<T> weights(w, "w"), gradient(grad, "grad");
  const auto offsets = optional<T>(bias, "bias");
  const T* offset = bias_of(offsets, shape.in_channels);
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::input(&shape, weights.data(), gradient.data(), offset, result.data()));
  }
  result.finish();
}

template <class T>
void conv_weight(const py::array& x, const py::array& grad, const Sizes& stride, const Sizes& lower,
                 const Sizes& dilation, std::int64_t groups, const py::array& out) {
  const Sizes kernel =
      kernel_of(out, grad.ndim() > 1 ? grad.shape(1) : 0, x.ndim() > 1 ? x.shape(1) : 0, groups, x.ndim());
  const auto shape = shape_of(sizes_of(x), sizes_of(grad), kernel, stride, lower, dilation, groups);
  const Strided<T> images(x, "x");
  const Contiguous<T> gradient(grad, "grad");
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::weight(&shape, images.data, images.strides.data(), gradient.data(), result.data()));
  }
  result.finish();
}

fastdl_conv_shape pool_shape(const py::array& in, const py::array& out, const Sizes& kernel, const Sizes& stride,
                             const Sizes& lower) {
  if (in.ndim() < 3 || out.ndim() != in.ndim() || in.shape(1) != out.shape(1))
    throw py::value_error("expected arrays (N, C, ...) of one C, got " + described(in) + " and " + described(out));
  return shape_of(sizes_of(in), sizes_of(out), kernel, stride, lower, Sizes(kernel.size(), 1), 1);
}

using Places = std::optional<py::array_t<std::int64_t, py::array::c_style>>;

std::int64_t* places_of(Places& indices, const py::array& like, bool written) {
  if (!indices) return nullptr;
  if (indices->ndim() != like.ndim() || !std::equal(like.shape(), like.shape() + like.ndim(), indices->shape()))
    throw py::value_error("indices: expected one for each value of " + described(like) + ", got " +
                          described(*indices));
  return written ? indices->mutable_data() : const_cast<std::int64_t*>(indices->data());
}

template <class T>
void max_pool(const py::array& x, const Sizes& kernel, const Sizes& stride, const Sizes& lower, Places indices,
              const py::array& out) {
  const auto shape = pool_shape(x, out, kernel, stride, lower);
  const Strided<T> images(x, "x");
  std::int64_t* places = places_of(indices, out, true);
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::max_pool(&shape, images.data, images.strides.data(), result.data(), places));
  }
  result.finish();
}

template <class T>
void avg_pool(const py::array& x, const Sizes& kernel, const Sizes& stride, const Sizes& lower, bool padding_counts,
              const py::array& out) {
  const auto shape = pool_shape(x, out, kernel, stride, lower);
  const Strided<T> images(x, "x");
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::avg_pool(&shape, images.data, images.strides.data(), padding_counts, result.data()));
  }
  result.finish();
}

template <class T>
void max_pool_grad(const py::array& grad, Places indices, const py::array& out) {
  if (!indices) throw py::value_error("indices: expected an array, got None");
  const Sizes ones(std::size_t(std::max<py::ssize_t>(0, grad.ndim() - 2)), 1), none(ones.size(), 0);
  const auto shape = pool_shape(out, grad, ones, ones, none);
  const Contiguous<T> gradient(grad, "grad");
  const std::int64_t* places = places_of(indices, grad, false);
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::max_pool_grad(&shape, gradient.data(), places, result.data()));
  }
  result.finish();
}

template <class T>
void avg_pool_grad(const py::array& grad, const Sizes& kernel, const Sizes& stride, const Sizes& lower,
                   bool padding_counts, const py::array& out) {
  const auto shape = pool_shape(out, grad, kernel, stride, lower);
  const Contiguous<T> gradient(grad, "grad");
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::avg_pool_grad(&shape, gradient.data(), padding_counts, result.data()));
  }
  result.finish();
}

}  // namespace

void register_conv(py::module_& module) {
  auto family = module.def_submodule("conv", "Convolutions");
  py::class_<Filters<float>>(family, "Filters32");
  py::class_<Filters<double>>(family, "Filters64");
  family.def("filters", &filters);
  register_conv_signal(family);
  // The number of axes is that of the arrays: one function serves the three of the public interface.
  for (const char* axes : {"1d", "2d", "3d"}) {
    const auto name = [&](const char* stem, const char* end = "") { return std::string(stem) + axes + end; };
    family.def(name("conv").c_str(),
               [](const py::array& x, const py::array& w, const Optional& bias, const Sizes& stride, const Sizes& lower,
                  const Sizes&, const Sizes& dilation, std::int64_t groups, const std::string& padding_mode,
                  const std::optional<std::string>& activation, const py::object& algorithm, const py::array& out) {
                 in_type_of(x, [&](auto zero) {
                   conv<decltype(zero)>(x, w, bias, stride, lower, dilation, groups, padding_mode, activation,
                                        algorithm, out);
                 });
               });
    family.def(name("conv_transpose").c_str(), [](const py::array& x, const py::array& w, const Optional& bias,
                                                  const Sizes& stride, const Sizes& lower, const Sizes& dilation,
                                                  std::int64_t groups, const py::array& out) {
      in_type_of(x, [&](auto zero) { conv_input<decltype(zero)>(w, x, bias, stride, lower, dilation, groups, out); });
    });
    family.def(name("conv", "_input").c_str(),
               [](const py::array& w, const py::array& grad, const Sizes& stride, const Sizes& lower,
                  const Sizes& dilation, std::int64_t groups, const py::array& out) {
                 in_type_of(w, [&](auto zero) {
                   conv_input<decltype(zero)>(w, grad, std::nullopt, stride, lower, dilation, groups, out);
                 });
               });
    family.def(name("conv", "_weight").c_str(), [](const py::array& x, const py::array& grad, const Sizes& stride,
                                                   const Sizes& lower, const Sizes& dilation, std::int64_t groups,
                                                   const py::array& out) {
      in_type_of(x, [&](auto zero) { conv_weight<decltype(zero)>(x, grad, stride, lower, dilation, groups, out); });
    });
    family.def(name("max_pool").c_str(), [](const py::array& x, const Sizes& kernel, const Sizes& stride,
                                            const Sizes& lower, const Places& indices, const py::array& out) {
      in_type_of(x, [&](auto zero) { max_pool<decltype(zero)>(x, kernel, stride, lower, indices, out); });
    });
    family.def(name("avg_pool").c_str(), [](const py::array& x, const Sizes& kernel, const Sizes& stride,
                                            const Sizes& lower, bool padding_counts, const py::array& out) {
      in_type_of(x, [&](auto zero) { avg_pool<decltype(zero)>(x, kernel, stride, lower, padding_counts, out); });
    });
    family.def(name("max_pool", "_grad").c_str(),
               [](const py::array& grad, const Places& indices, const py::array& out) {
                 in_type_of(grad, [&](auto zero) { max_pool_grad<decltype(zero)>(grad, indices, out); });
               });
    family.def(name("avg_pool", "_grad").c_str(), [](const py::array& grad, const Sizes& kernel, const Sizes& stride,
                                                     const Sizes& lower, bool padding_counts, const py::array& out) {
      in_type_of(grad,
                 [&](auto zero) { avg_pool_grad<decltype(zero)>(grad, kernel, stride, lower, padding_counts, out); });
    });
  }
}

}  // namespace fastdl::bindings
