#include <string>

#include "bindings/arrays.hpp"

namespace fastdl::bindings {
namespace {

using Places = py::array_t<std::int64_t, py::array::c_style>;

// The functions of the C interface in each type.
template <class T>
struct C;
#define FASTDL_C_FUNCTIONS(T, suffix)                                      \
  template <>                                                              \
  struct C<T> {                                                            \
    static constexpr auto conv = fastdl_group_conv_##suffix;               \
    static constexpr auto input = fastdl_group_conv_input_##suffix;        \
    static constexpr auto weight = fastdl_group_conv_weight_##suffix;      \
    static constexpr auto expand = fastdl_group_expand_##suffix;           \
    static constexpr auto pool = fastdl_group_pool_##suffix;               \
    static constexpr auto convolve = fastdl_group_convolve_##suffix;       \
    static constexpr auto signature = fastdl_group_signature_##suffix;     \
    static constexpr auto regularizer = fastdl_group_regularizer_##suffix; \
  };
FASTDL_C_FUNCTIONS(float, f32)
FASTDL_C_FUNCTIONS(double, f64)

fastdl_planar_group group_of(const std::string& name) {
  return chosen<fastdl_planar_group>("group", name,
                                     {{"p2", FASTDL_P2}, {"p4", FASTDL_P4}, {"pm", FASTDL_PM}, {"p4m", FASTDL_P4M}});
}

fastdl_group_algorithm algorithm_of(const std::string& name) {
  return chosen<fastdl_group_algorithm>(
      "algorithm", name, {{"auto", FASTDL_GROUP_AUTO}, {"expand", FASTDL_GROUP_EXPAND}, {"orbit", FASTDL_GROUP_ORBIT}});
}

int elements_of(fastdl_planar_group group) { return group == FASTDL_P4M ? 8 : group == FASTDL_P4 ? 4 : 2; }

[[noreturn]] void refuse(const char* name, const std::string& expected, const py::array& array) {
  throw py::value_error(std::string(name) + ": expected " + expected + ", got " + described(array));
}

// A layer from `in` with filters w to `out`, any of which may be the one that is computed.
fastdl_group_shape shape_of(const std::string& name, bool lift, const py::array& in, const py::array& w,
                            const py::array& out, const Sizes& stride, const Sizes& lower) {
  fastdl_group_shape shape{};
  shape.group = group_of(name);
  shape.lift = lift;
  const int elements = elements_of(shape.group), rank = lift ? 4 : 5;
  if (in.ndim() != rank || (!lift && in.shape(2) != elements)) refuse("x", "channels and elements of " + name, in);
  if (w.ndim() != rank || (!lift && w.shape(2) != elements) || w.shape(rank - 1) != w.shape(rank - 2))
    refuse("w", "square filters of " + name, w);
  if (out.ndim() != 5 || out.shape(2) != elements) refuse("out", "channels and elements of " + name, out);
  if (w.shape(1) != in.shape(1) || w.shape(0) != out.shape(1) || in.shape(0) != out.shape(0))
    refuse("w", "filters from the channels of the input to those of the output, of one batch", w);
  if (stride.size() != 2 || lower.size() != 2) throw py::value_error("stride and padding: expected 2 numbers each");
  shape.batch = in.shape(0);
  shape.in_channels = in.shape(1);
  shape.out_channels = out.shape(1);
  shape.kernel = w.shape(rank - 1);
  for (int a = 0; a < 2; ++a) {
    shape.in[a] = in.shape(rank - 2 + a);
    shape.out[a] = out.shape(3 + a);
    shape.stride[a] = stride[std::size_t(a)];
    shape.lower[a] = lower[std::size_t(a)];
  }
  return shape;
}

// The strides of x with channels and elements as one axis, which the caller has seen to.
template <class T>
Sizes joined_strides(const Strided<T>& x, const py::array& array, bool lift) {
  if (lift) return x.strides;
  const std::int64_t channels = array.shape(1), elements = array.shape(2);
  if (channels > 1 && elements > 1 && x.strides[1] != elements * x.strides[2])
    refuse("x", "channels and elements at equal steps", array);
  return {x.strides[0], elements > 1 ? x.strides[2] : x.strides[1], x.strides[3], x.strides[4]};
}

template <class T>
void conv(bool lift, const py::array& x, const py::array& w, const Optional& bias, const std::string& group,
          const Sizes& stride, const Sizes& lower, const std::optional<std::string>& activation,
          const std::string& algorithm, const py::array& out) {
  const auto shape = shape_of(group, lift, x, w, out, stride, lower);
  const Strided<T> maps(x, "x");
  const Sizes strides = joined_strides(maps, x, lift);
  const Contiguous<T> filters(w, "w");
  const auto constants = optional<T>(bias, "bias");
  if (constants && (constants->ndim() != 1 || constants->shape(0) != shape.out_channels))
    refuse("bias", std::to_string(shape.out_channels) + " numbers", *bias);
  const auto function = activation_of(activation);
  const auto how = algorithm_of(algorithm);
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::conv(&shape, function, how, maps.data, strides.data(), filters.data(),
                              constants ? constants->data() : nullptr, result.data()));
  }
  result.finish();
}

template <class T>
void conv_input(bool lift, const py::array& w, const py::array& grad, const std::string& group, const Sizes& stride,
                const Sizes& lower, const std::string& algorithm, const py::array& out) {
  const auto shape = shape_of(group, lift, out, w, grad, stride, lower);
  const Contiguous<T> filters(w, "w"), slopes(grad, "grad");
  const auto how = algorithm_of(algorithm);
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::input(&shape, how, filters.data(), slopes.data(), result.data()));
  }
  result.finish();
}

template <class T>
void conv_weight(bool lift, const py::array& x, const py::array& grad, const std::string& group, const Sizes& stride,
                 const Sizes& lower, const std::string& algorithm, const py::array& out) {
  const auto shape = shape_of(group, lift, x, out, grad, stride, lower);
  const Strided<T> maps(x, "x");
  const Sizes strides = joined_strides(maps, x, lift);
  const Contiguous<T> slopes(grad, "grad");
  const auto how = algorithm_of(algorithm);
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::weight(&shape, how, maps.data, strides.data(), slopes.data(), result.data()));
  }
  result.finish();
}

template <class T>
void expand_filters(const py::array& w, const std::string& name, bool lift, const py::array& out) {
  const auto group = group_of(name);
  const int elements = elements_of(group), rank = lift ? 4 : 5;
  if (w.ndim() != rank || (!lift && w.shape(2) != elements) || w.shape(rank - 1) != w.shape(rank - 2))
    refuse("w", "square filters of " + name, w);
  if (out.ndim() != 4 || out.shape(0) != w.shape(0) * elements || out.shape(1) != w.shape(1) * (lift ? 1 : elements) ||
      out.shape(2) != w.shape(rank - 1) || out.shape(3) != w.shape(rank - 1))
    refuse("out", "room for the filters of all elements", out);
  const Contiguous<T> filters(w, "w");
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::expand(group, lift, w.shape(0), w.shape(1), w.shape(rank - 1), filters.data(), result.data()));
  }
  result.finish();
}

template <class T>
void pool(const py::array& x, const std::string& name, const py::array& out) {
  const auto mode = chosen<fastdl_group_pool>("mode", name,
                                              {{"max", FASTDL_GROUP_POOL_MAX},
                                               {"mean", FASTDL_GROUP_POOL_MEAN},
                                               {"sum", FASTDL_GROUP_POOL_SUM},
                                               {"l2", FASTDL_GROUP_POOL_L2}});
  if (x.ndim() != 5 || out.ndim() != 4 || out.size() * x.shape(2) != x.size()) refuse("out", "x without an axis", out);
  const Contiguous<T> maps(x, "x");
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(
        C<T>::pool(maps.data(), x.shape(0) * x.shape(1), x.shape(2), x.shape(3) * x.shape(4), mode, result.data()));
  }
  result.finish();
}

template <class T>
void convolve(const py::array& f, const py::array& h, const Places& quotient, const py::array& out) {
  const Contiguous<T> first(f, "f"), second(h, "h");
  const std::int64_t n = quotient.ndim() == 2 ? quotient.shape(0) : -1;
  if (n < 1 || quotient.shape(1) != n) refuse("quotient", "a square table", quotient);
  if (h.ndim() != 1 || h.shape(0) != n || f.ndim() < 1 || f.shape(f.ndim() - 1) != n || out.size() != f.size())
    refuse("f", "functions on the group", f);
  const std::int64_t* places = quotient.data();
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::convolve(first.data(), f.size() / n, second.data(), n, places, result.data()));
  }
  result.finish();
}

template <class T>
void signature(const py::array& x, const py::array& templates, const Places& permutations,
               const py::array_t<double, py::array::c_style>& thresholds, const Sizes& powers, const std::string& name,
               const py::array& out) {
  const Contiguous<T> samples(x, "x"), others(templates, "templates");
  if (x.ndim() != 2 || templates.ndim() != 2 || permutations.ndim() != 2 || templates.shape(1) != x.shape(1) ||
      permutations.shape(1) != x.shape(1) || thresholds.ndim() != 1)
    refuse("templates", "rows of as many numbers as x and the permutations have", templates);
  const std::int64_t count = thresholds.shape(0) + std::int64_t(powers.size());
  if (out.ndim() != 3 || out.shape(0) != x.shape(0) || out.shape(1) != templates.shape(0) || out.shape(2) != count)
    refuse("out", "samples x templates x " + std::to_string(count), out);
  const fastdl_group_measures measures{thresholds.data(), thresholds.shape(0), powers.data(),
                                       std::int64_t(powers.size()),
                                       chosen<fastdl_group_nonlinearity>("nonlinearity", name,
                                                                         {{"step", FASTDL_GROUP_STEP},
                                                                          {"cdf", FASTDL_GROUP_CDF},
                                                                          {"sigmoid", FASTDL_GROUP_SIGMOID},
                                                                          {"tanh", FASTDL_GROUP_TANH},
                                                                          {"relu", FASTDL_GROUP_RELU}})};
  const std::int64_t* places = permutations.data();
  Result<T> result(out, "out");
  {
    const WithoutGil release;
    throw_on_error(C<T>::signature(samples.data(), x.shape(0), others.data(), templates.shape(0), x.shape(1), places,
                                   permutations.shape(0), &measures, result.data()));
  }
  result.finish();
}

template <class T>
double orbit_regularizer(const py::array& W, double sigma, const py::array& gradient) {
  const Contiguous<T> columns(W, "W");
  if (W.ndim() != 2 || gradient.ndim() != 2 || gradient.shape(0) != W.shape(0) || gradient.shape(1) != W.shape(1))
    refuse("gradient", "the shape of W", gradient);
  double value = 0;
  Result<T> result(gradient, "gradient");
  {
    const WithoutGil release;
    throw_on_error(C<T>::regularizer(columns.data(), W.shape(0), W.shape(1), sigma, result.data(), &value));
  }
  result.finish();
  return value;
}

}  // namespace

void register_group(py::module_& module) {
  auto group = module.def_submodule("group", "Group convolutions and orbits");
  for (const bool lift : {false, true}) {
    const std::string name = lift ? "lift_conv2d" : "conv2d";
    group.def(name.c_str(), [lift](const py::array& x, const py::array& w, const Optional& bias, const std::string& of,
                                   const Sizes& stride, const Sizes& lower, const Sizes& /* upper: seen in out */,
                                   const std::optional<std::string>& activation, const std::string& algorithm,
                                   const py::array& out) {
      in_type_of(
          x, [&](auto zero) { conv<decltype(zero)>(lift, x, w, bias, of, stride, lower, activation, algorithm, out); });
    });
    group.def((name + "_input").c_str(), [lift](const py::array& w, const py::array& grad, const std::string& of,
                                                const Sizes& stride, const Sizes& lower, const std::string& algorithm,
                                                const py::array& out) {
      in_type_of(w, [&](auto zero) { conv_input<decltype(zero)>(lift, w, grad, of, stride, lower, algorithm, out); });
    });
    group.def((name + "_weight").c_str(), [lift](const py::array& x, const py::array& grad, const std::string& of,
                                                 const Sizes& stride, const Sizes& lower, const std::string& algorithm,
                                                 const py::array& out) {
      in_type_of(x, [&](auto zero) { conv_weight<decltype(zero)>(lift, x, grad, of, stride, lower, algorithm, out); });
    });
  }
  group.def("expand_filters", [](const py::array& w, const std::string& of, bool lift, const py::array& out) {
    in_type_of(w, [&](auto zero) { expand_filters<decltype(zero)>(w, of, lift, out); });
  });
  group.def("pool", [](const py::array& x, const std::string& mode, const py::array& out) {
    in_type_of(x, [&](auto zero) { pool<decltype(zero)>(x, mode, out); });
  });
  group.def("convolve", [](const py::array& f, const py::array& h, const Places& quotient, const py::array& out) {
    in_type_of(f, [&](auto zero) { convolve<decltype(zero)>(f, h, quotient, out); });
  });
  group.def("signature", [](const py::array& x, const py::array& templates, const Places& permutations,
                            const py::array_t<double, py::array::c_style>& thresholds, const Sizes& powers,
                            const std::string& nonlinearity, const py::array& out) {
    in_type_of(x, [&](auto zero) {
      signature<decltype(zero)>(x, templates, permutations, thresholds, powers, nonlinearity, out);
    });
  });
  group.def("orbit_regularizer", [](const py::array& W, double sigma, const py::array& gradient) {
    double value = 0;
    in_type_of(W, [&](auto zero) { value = orbit_regularizer<decltype(zero)>(W, sigma, gradient); });
    return value;
  });
}

}  // namespace fastdl::bindings
