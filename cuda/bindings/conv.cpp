#include "bindings/conv_shapes.hpp"

#include <array>

#include "bindings/activations.hpp"

namespace fastdl::cuda::bindings {
namespace {

// The kernel's extents, of weights for these channels.
Sizes kernel_of(const Array& w, const Array& out, const Array& in, std::int64_t groups) {
  if (in.ndim() < 3 || out.ndim() != in.ndim() || w.ndim() != in.ndim() || groups < 1 || w.shape(0) != out.shape(1) ||
      w.shape(1) * groups != in.shape(1))
    throw py::value_error("w: expected weights from " + in.described() + " to " + out.described() + " in " +
                          std::to_string(groups) + " groups, got " + w.described());
  return Sizes(w.shape().begin() + 2, w.shape().end());
}

template <class T>
const T* bias_of(const std::optional<Contiguous<T>>& bias, std::int64_t channels) {
  if (!bias) return nullptr;
  if (bias->ndim() != 1 || bias->shape(0) != channels)
    throw py::value_error("bias: expected " + std::to_string(channels) + " numbers, got " + bias->described());
  return bias->data();
}

conv::cuda::Strides strides_of(const Array& x) {
  conv::cuda::Strides strides;
  strides.batch = x.stride(0);
  strides.channel = x.stride(1);
  for (std::int64_t axis = 2; axis < x.ndim(); ++axis)
    strides.axis[conv::cuda::axes - x.ndim() + axis] = x.stride(axis);
  return strides;
}

template <class T>
void forward(const char* name, const Array& x, const Array& w, const Optional& bias, const Sizes& stride,
             const Sizes& lower, const Sizes& dilation, std::int64_t groups, const std::string& padding,
             const std::optional<std::string>& activation, const std::string& algorithm, const Array& out) {
  using conv::cuda::Algorithm;
  using conv::cuda::Padding;
  const auto g = geometry_of(x.shape(), out.shape(), kernel_of(w, out, x, groups), stride, lower, dilation, groups);
  check_positions(g);
  const auto mode = chosen<Padding>("padding_mode", padding,
                                    {{"zeros", Padding::zeros},
                                     {"circular", Padding::circular},
                                     {"reflect", Padding::reflect},
                                     {"replicate", Padding::replicate}});
  const auto function = activation_of(activation);
  // There is no transform to compute by: "fft" is the sum itself.
  const auto how = chosen<Algorithm>("algorithm", algorithm,
                                     {{"auto", Algorithm::automatic},
                                      {"direct", Algorithm::direct},
                                      {"winograd", Algorithm::winograd},
                                      {"fft", Algorithm::direct}});
  check_type<T>(x, "x");
  const Contiguous<T> weights(w, "w");
  const auto offsets = optional<T>(bias, "bias");
  const T* offset = bias_of(offsets, out.shape(1));
  const Result<T> result(out, "out");
  const WithoutGil release;
  conv::cuda::forward(name, g, mode, function, how, x.data<const T>(), strides_of(x), weights.data(), offset,
                      result.data(), stream());
  result.finish();
}

// dx from w and grad; also the transposed convolution, of which x is `grad`.
template <class T>
void input_gradient(const char* name, const Array& w, const Array& grad, const Optional& bias, const Sizes& stride,
                    const Sizes& lower, const Sizes& dilation, std::int64_t groups, const Array& out) {
  const auto g =
      geometry_of(out.shape(), grad.shape(), kernel_of(w, grad, out, groups), stride, lower, dilation, groups);
  check_positions(g);
  const Contiguous<T> weights(w, "w"), gradient(grad, "grad");
  const auto offsets = optional<T>(bias, "bias");
  const T* offset = bias_of(offsets, out.shape(1));
  const Result<T> result(out, "out");
  const WithoutGil release;
  conv::cuda::input_gradient(name, g, weights.data(), gradient.data(), offset, result.data(), stream());
  result.finish();
}

template <class T>
void weight_gradient(const char* name, const Array& x, const Array& grad, const Sizes& stride, const Sizes& lower,
                     const Sizes& dilation, std::int64_t groups, const Array& out) {
  const auto g = geometry_of(x.shape(), grad.shape(), kernel_of(out, grad, x, groups), stride, lower, dilation, groups);
  check_positions(g);
  check_type<T>(x, "x");
  const Contiguous<T> gradient(grad, "grad");
  const Result<T> result(out, "out");
  const WithoutGil release;
  conv::cuda::weight_gradient(name, g, x.data<const T>(), strides_of(x), gradient.data(), result.data(), stream());
  result.finish();
}

// The number of axes is that of the arrays: the three functions of the public interface differ in their names.
template <int rank>
void define(py::module_& family) {
  static constexpr const char* conv_name = std::array{"conv.conv1d", "conv.conv2d", "conv.conv3d"}[rank - 1];
  static constexpr const char* transpose_name =
      std::array{"conv.conv_transpose1d", "conv.conv_transpose2d", "conv.conv_transpose3d"}[rank - 1];
  static constexpr const char* input_name =
      std::array{"conv.conv1d_input", "conv.conv2d_input", "conv.conv3d_input"}[rank - 1];
  static constexpr const char* weight_name =
      std::array{"conv.conv1d_weight", "conv.conv2d_weight", "conv.conv3d_weight"}[rank - 1];
  const auto function = [](const char* name) { return name + 5; };  // without the family

  family.def(function(conv_name),
             [](const Array& x, const Array& w, const Optional& bias, const Sizes& stride, const Sizes& lower,
                const Sizes&, const Sizes& dilation, std::int64_t groups, const std::string& padding_mode,
                const std::optional<std::string>& activation, const std::string& algorithm, const Array& out) {
               in_type_of(x, [&](auto zero) {
                 forward<decltype(zero)>(conv_name, x, w, bias, stride, lower, dilation, groups, padding_mode,
                                         activation, algorithm, out);
               });
             });
  family.def(function(transpose_name),
             [](const Array& x, const Array& w, const Optional& bias, const Sizes& stride, const Sizes& lower,
                const Sizes& dilation, std::int64_t groups, const Array& out) {
               in_type_of(x, [&](auto zero) {
                 input_gradient<decltype(zero)>(transpose_name, w, x, bias, stride, lower, dilation, groups, out);
               });
             });
  family.def(function(input_name), [](const Array& w, const Array& grad, const Sizes& stride, const Sizes& lower,
                                      const Sizes& dilation, std::int64_t groups, const Array& out) {
    in_type_of(w, [&](auto zero) {
      input_gradient<decltype(zero)>(input_name, w, grad, std::nullopt, stride, lower, dilation, groups, out);
    });
  });
  family.def(function(weight_name), [](const Array& x, const Array& grad, const Sizes& stride, const Sizes& lower,
                                       const Sizes& dilation, std::int64_t groups, const Array& out) {
    in_type_of(x, [&](auto zero) {
      weight_gradient<decltype(zero)>(weight_name, x, grad, stride, lower, dilation, groups, out);
    });
  });
}

}  // namespace

void register_conv(py::module_& module) {
  py::module_ family = module.def_submodule("conv");
  define<1>(family);
  define<2>(family);
  define<3>(family);
  register_conv_pool(family);
  register_conv_signal(family);
}

}  // namespace fastdl::cuda::bindings
