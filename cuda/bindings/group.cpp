#include "group.hpp"

#include "bindings/activations.hpp"
#include "bindings/arrays.hpp"

namespace fastdl::cuda::bindings {
namespace {

using group::cuda::Algorithm;
using group::cuda::Layer;
using group::cuda::Planar;

using Places = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
using Thresholds = py::array_t<double, py::array::c_style | py::array::forcecast>;

Planar group_of(const std::string& name) {
  return chosen<Planar>("group", name,
                        {{"p2", Planar::p2}, {"p4", Planar::p4}, {"pm", Planar::pm}, {"p4m", Planar::p4m}});
}

Algorithm algorithm_of(const std::string& name) {
  return chosen<Algorithm>(
      "algorithm", name, {{"auto", Algorithm::automatic}, {"expand", Algorithm::expand}, {"orbit", Algorithm::orbit}});
}

[[noreturn]] void refuse(const char* name, const std::string& expected, const Array& array) {
  throw py::value_error(std::string(name) + ": expected " + expected + ", got " + array.described());
}

// Positions are 32-bit numbers in the kernels, with room for padding and stride.
constexpr std::int64_t most_extent = std::int64_t{1} << 30;

// A layer from `in` with filters w to `out`, any of which may be the one that is computed.
Layer layer_of(const std::string& name, bool lift, const Array& in, const Array& w, const Array& out,
               const Sizes& stride, const Sizes& lower) {
  Layer layer{};
  layer.group = group_of(name);
  layer.lift = lift;
  const int elements = layer.elements(), rank = lift ? 4 : 5;
  if (in.ndim() != rank || (!lift && in.shape(2) != elements)) refuse("x", "channels and elements of " + name, in);
  if (w.ndim() != rank || (!lift && w.shape(2) != elements) || w.shape(rank - 1) != w.shape(rank - 2) ||
      w.shape(rank - 1) < 1 || w.shape(rank - 1) >= 1 << 15)
    refuse("w", "square filters of " + name + " with a side from 1 to 32767", w);
  if (out.ndim() != 5 || out.shape(2) != elements) refuse("out", "channels and elements of " + name, out);
  if (w.shape(1) != in.shape(1) || w.shape(0) != out.shape(1) || in.shape(0) != out.shape(0))
    refuse("w", "filters from the channels of the input to those of the output, of one batch", w);
  if (stride.size() != 2 || lower.size() != 2) throw py::value_error("stride and padding: expected 2 numbers each");
  layer.batch = in.shape(0);
  layer.in_channels = in.shape(1);
  layer.out_channels = out.shape(1);
  layer.k = w.shape(rank - 1);
  for (int a = 0; a < 2; ++a) {
    layer.in[a] = in.shape(rank - 2 + a);
    layer.out[a] = out.shape(3 + a);
    layer.stride[a] = stride[std::size_t(a)];
    layer.lower[a] = lower[std::size_t(a)];
    if (layer.in[a] >= most_extent || layer.out[a] >= most_extent || layer.stride[a] < 1 ||
        layer.stride[a] >= most_extent || layer.lower[a] >= most_extent || layer.lower[a] <= -most_extent)
      throw py::value_error("x: expected extents, stride and padding below 2^30 on a CUDA device");
  }
  for (const auto* extent : {layer.in, layer.out})
    if (extent[0] * extent[1] > most_extent)
      throw py::value_error("x: expected planes of at most 2^30 positions on a CUDA device, got " +
                            std::to_string(extent[0]) + " x " + std::to_string(extent[1]));
  return layer;
}

group::cuda::Strides strides_of(const Array& x, bool lift) {
  const int at = lift ? 2 : 3;
  return {x.stride(0), x.stride(1), lift ? 0 : x.stride(2), x.stride(at), x.stride(at + 1)};
}

template <class T>
void conv(bool lift, const Array& x, const Array& w, const Optional& bias, const std::string& group,
          const Sizes& stride, const Sizes& lower, const std::optional<std::string>& activation,
          const std::string& algorithm, const Array& out) {
  const Layer layer = layer_of(group, lift, x, w, out, stride, lower);
  check_type<T>(x, "x");
  const auto function = activation_of(activation);
  const auto how = algorithm_of(algorithm);
  if (bias && (bias->ndim() != 1 || bias->shape(0) != layer.out_channels))
    refuse("bias", std::to_string(layer.out_channels) + " numbers", *bias);
  const Contiguous<T> filters(w, "w");
  const auto constants = optional<T>(bias, "bias");
  const Result<T> result(out, "out");
  const WithoutGil release;
  group::cuda::conv(layer, how, function, x.data<const T>(), strides_of(x, lift), filters.data(),
                    constants ? constants->data() : nullptr, result.data(), stream());
  result.finish();
}

template <class T>
void conv_input(bool lift, const Array& w, const Array& grad, const std::string& group, const Sizes& stride,
                const Sizes& lower, const std::string& algorithm, const Array& out) {
  const Layer layer = layer_of(group, lift, out, w, grad, stride, lower);
  const auto how = algorithm_of(algorithm);
  const Contiguous<T> filters(w, "w"), slopes(grad, "grad");
  const Result<T> result(out, "out");
  const WithoutGil release;
  group::cuda::conv_input(layer, how, filters.data(), slopes.data(), result.data(), stream());
  result.finish();
}

template <class T>
void conv_weight(bool lift, const Array& x, const Array& grad, const std::string& group, const Sizes& stride,
                 const Sizes& lower, const std::string& algorithm, const Array& out) {
  const Layer layer = layer_of(group, lift, x, out, grad, stride, lower);
  check_type<T>(x, "x");
  const auto how = algorithm_of(algorithm);
  const Contiguous<T> slopes(grad, "grad");
  const Result<T> result(out, "out");
  const WithoutGil release;
  group::cuda::conv_weight(layer, how, x.data<const T>(), strides_of(x, lift), slopes.data(), result.data(), stream());
  result.finish();
}

template <class T>
void expand_filters(const Array& w, const std::string& name, bool lift, const Array& out) {
  Layer layer{};
  layer.group = group_of(name);
  layer.lift = lift;
  const int elements = layer.elements(), rank = lift ? 4 : 5;
  if (w.ndim() != rank || (!lift && w.shape(2) != elements) || w.shape(rank - 1) != w.shape(rank - 2) ||
      w.shape(rank - 1) >= 1 << 15)
    refuse("w", "square filters of " + name + " with a side below 32768", w);
  layer.out_channels = w.shape(0);
  layer.in_channels = w.shape(1);
  layer.k = w.shape(rank - 1);
  if (out.shape() != Sizes{w.shape(0) * elements, w.shape(1) * layer.planes(), layer.k, layer.k})
    refuse("out", "room for the filters of all elements", out);
  const Contiguous<T> filters(w, "w");
  const Result<T> result(out, "out");
  const WithoutGil release;
  group::cuda::expand(layer, filters.data(), result.data(), stream());
  result.finish();
}

template <class T>
void pool(const Array& x, const std::string& name, const Array& out) {
  using group::cuda::Pool;
  const auto mode =
      chosen<Pool>("mode", name, {{"max", Pool::max}, {"mean", Pool::mean}, {"sum", Pool::sum}, {"l2", Pool::l2}});
  if (x.ndim() != 5 || x.shape(2) < 1 || out.shape() != Sizes{x.shape(0), x.shape(1), x.shape(3), x.shape(4)})
    refuse("out", "x without its axis of elements", out);
  const Contiguous<T> maps(x, "x");
  const Result<T> result(out, "out");
  const WithoutGil release;
  group::cuda::pool(maps.data(), x.shape(0) * x.shape(1), x.shape(2), x.shape(3) * x.shape(4), mode, result.data(),
                    stream());
  result.finish();
}

// What is a place in no array would be read outside of it.
void check_places(const char* name, const Places& places, std::int64_t limit) {
  for (py::ssize_t i = 0; i < places.size(); ++i)
    if (places.data()[i] < 0 || places.data()[i] >= limit)
      throw py::value_error(std::string(name) + ": expected numbers from 0 to " + std::to_string(limit - 1) + ", got " +
                            std::to_string(places.data()[i]));
}

template <class T>
void convolve(const Array& f, const Array& h, const Places& quotient, const Array& out) {
  const std::int64_t n = quotient.ndim() == 2 ? quotient.shape(0) : -1;
  if (n < 1 || quotient.shape(1) != n) throw py::value_error("quotient: expected a square table");
  if (h.ndim() != 1 || h.shape(0) != n || f.ndim() < 1 || f.shape(f.ndim() - 1) != n || out.size() != f.size())
    refuse("f", "functions on the group", f);
  check_places("quotient", quotient, n);
  const Contiguous<T> first(f, "f"), second(h, "h");
  const auto places = uploaded<std::int64_t>("group.convolve", quotient);
  const Result<T> result(out, "out");
  const WithoutGil release;
  group::cuda::convolve(first.data(), f.size() / n, second.data(), n, places.data(), result.data(), stream());
  result.finish();
}

template <class T>
void signature(const Array& x, const Array& templates, const Places& permutations, const Thresholds& thresholds,
               const Sizes& powers, const std::string& name, const Array& out) {
  using group::cuda::Nonlinearity;
  if (x.ndim() != 2 || templates.ndim() != 2 || permutations.ndim() != 2 || templates.shape(1) != x.shape(1) ||
      permutations.shape(1) != x.shape(1) || thresholds.ndim() != 1)
    refuse("templates", "rows of as many numbers as x and the permutations have", templates);
  const std::int64_t count = thresholds.shape(0) + std::int64_t(powers.size());
  if (out.shape() != Sizes{x.shape(0), templates.shape(0), count})
    refuse("out", "samples x templates x " + std::to_string(count), out);
  const auto which = chosen<Nonlinearity>("nonlinearity", name,
                                          {{"step", Nonlinearity::step},
                                           {"cdf", Nonlinearity::cdf},
                                           {"sigmoid", Nonlinearity::sigmoid},
                                           {"tanh", Nonlinearity::tanh},
                                           {"relu", Nonlinearity::relu}});
  check_places("permutations", permutations, x.shape(1));
  for (std::int64_t power : powers)
    if (power < 0) throw py::value_error("powers: expected numbers of at least 0, got " + std::to_string(power));
  constexpr const char* where = "group.signature";
  const Contiguous<T> samples(x, "x"), others(templates, "templates");
  const auto orders = uploaded<std::int64_t>(where, permutations);
  const auto cuts = uploaded<double>(where, thresholds);
  const Scratch<std::int64_t> moments(where, powers.data(), std::int64_t(powers.size()), stream());
  const Result<T> result(out, "out");
  const group::cuda::Signature<T> wanted{
      samples.data(), others.data(), x.shape(0),          templates.shape(0), x.shape(1),      permutations.shape(0),
      orders.data(),  cuts.data(),   thresholds.shape(0), moments.data(),     moments.count(), which};
  const WithoutGil release;
  group::cuda::signature(wanted, result.data(), stream());
  result.finish();
}

template <class T>
double orbit_regularizer(const Array& W, double sigma, const Array& gradient) {
  if (W.ndim() != 2 || gradient.shape() != W.shape()) refuse("gradient", "the shape of W", gradient);
  if (W.shape(1) >= 1 << 15) refuse("W", "fewer than 2^15 columns on a CUDA device", W);
  if (!(sigma > 0)) throw py::value_error("sigma: expected a number above 0, got " + std::to_string(sigma));
  const Contiguous<T> columns(W, "W");
  const Result<T> result(gradient, "gradient");
  const WithoutGil release;
  const double value = group::cuda::regularizer(columns.data(), W.shape(0), W.shape(1), sigma, result.data(), stream());
  result.finish();
  return value;
}

}  // namespace

void register_group(py::module_& module) {
  auto group = module.def_submodule("group", "Group convolutions and orbits");
  for (const bool lift : {false, true}) {
    const std::string name = lift ? "lift_conv2d" : "conv2d";
    group.def(name.c_str(), [lift](const Array& x, const Array& w, const Optional& bias, const std::string& of,
                                   const Sizes& stride, const Sizes& lower, const Sizes& /* upper: seen in out */,
                                   const std::optional<std::string>& activation, const std::string& algorithm,
                                   const Array& out) {
      in_type_of(
          x, [&](auto zero) { conv<decltype(zero)>(lift, x, w, bias, of, stride, lower, activation, algorithm, out); });
    });
    group.def((name + "_input").c_str(), [lift](const Array& w, const Array& grad, const std::string& of,
                                                const Sizes& stride, const Sizes& lower, const std::string& algorithm,
                                                const Array& out) {
      in_type_of(w, [&](auto zero) { conv_input<decltype(zero)>(lift, w, grad, of, stride, lower, algorithm, out); });
    });
    group.def((name + "_weight").c_str(), [lift](const Array& x, const Array& grad, const std::string& of,
                                                 const Sizes& stride, const Sizes& lower, const std::string& algorithm,
                                                 const Array& out) {
      in_type_of(x, [&](auto zero) { conv_weight<decltype(zero)>(lift, x, grad, of, stride, lower, algorithm, out); });
    });
  }
  group.def("expand_filters", [](const Array& w, const std::string& of, bool lift, const Array& out) {
    in_type_of(w, [&](auto zero) { expand_filters<decltype(zero)>(w, of, lift, out); });
  });
  group.def("pool", [](const Array& x, const std::string& mode, const Array& out) {
    in_type_of(x, [&](auto zero) { pool<decltype(zero)>(x, mode, out); });
  });
  group.def("convolve", [](const Array& f, const Array& h, const Places& quotient, const Array& out) {
    in_type_of(f, [&](auto zero) { convolve<decltype(zero)>(f, h, quotient, out); });
  });
  group.def("signature",
            [](const Array& x, const Array& templates, const Places& permutations, const Thresholds& thresholds,
               const Sizes& powers, const std::string& nonlinearity, const Array& out) {
              in_type_of(x, [&](auto zero) {
                signature<decltype(zero)>(x, templates, permutations, thresholds, powers, nonlinearity, out);
              });
            });
  group.def("orbit_regularizer", [](const Array& W, double sigma, const Array& gradient) {
    double value = 0;
    in_type_of(W, [&](auto zero) { value = orbit_regularizer<decltype(zero)>(W, sigma, gradient); });
    return value;
  });
  group.def("limit_scratch", &group::cuda::limit_scratch);
}

}  // namespace fastdl::cuda::bindings
