// Calls of the group family.
#include "fuzz.hpp"

namespace fuzz {
namespace {

Wide elements_of(fastdl_planar_group group) { return group == FASTDL_P4 ? 4 : group == FASTDL_P4M ? 8 : 2; }

template <class T>
void layer(Case& c, int function) {
  fastdl_group_shape s{};
  s.group = c.choice<fastdl_planar_group>(4);
  s.lift = c.below(2);
  s.batch = c.extent(3);
  s.in_channels = c.extent(c.chance(4) ? 16 : 3);
  s.out_channels = c.extent(c.chance(4) ? 16 : 3);
  s.kernel = c.number(1, 5, 32);
  for (int a = 0; a < 2; ++a) {
    s.in[a] = c.extent(9);
    s.stride[a] = c.number(1, 2, 32);
    s.lower[a] = c.number(-1, 3, 32);
    const bool plain = s.in[a] >= 0 && s.in[a] < 100 && s.kernel > 0 && s.kernel < 100 && s.stride[a] > 0 &&
                       s.lower[a] < 100 && s.lower[a] > -100;
    const Index room = plain ? s.in[a] + s.lower[a] + c.below(3) - s.kernel : 0;
    s.out[a] = c.wild(8) ? c.extent(6) : room < 0 ? 0 : plain ? room / s.stride[a] + 1 : 1 + c.below(3);
  }
  const Wide elements = elements_of(s.group), planes = s.lift ? Wide(1) : elements;
  const Wide taps = product({s.kernel, s.kernel}), pixels = product({s.out[0], s.out[1]});
  // Only what takes them must refuse those that there are not.
  const auto algorithm = function < 3 ? c.choice<fastdl_group_algorithm>(3) : FASTDL_GROUP_AUTO;
  const auto activation = function == 0 ? c.choice<fastdl_activation>(5) : FASTDL_NO_ACTIVATION;
  c.work({s.batch, s.out_channels, elements, Wide(s.in_channels) + 1, planes, taps, pixels});
  c.work({s.out_channels, elements, Wide(s.in_channels) + 1, planes, taps});
  const auto* shape = function < 3 && c.wild(64) ? (c.refuse(), nullptr) : c.keep(s);
  const Index* strides = nullptr;
  const auto images = [&]() -> const T* {
    Index extents[4] = {s.batch, 0, s.in[0], s.in[1]};
    Index steps[4];
    if (c.chance(2) || __builtin_mul_overflow(s.in_channels, Index(planes), &extents[1]))
      return c.array<T>({s.batch, s.in_channels, planes, s.in[0], s.in[1]}, Role::input);
    c.choose_strides(extents, 4, false, steps);
    Index* kept = c.room<Index>(4, Role::input);
    std::memcpy(kept, steps, sizeof steps);
    strides = kept;
    return c.strided<T>(extents, steps, 4, Role::input, true);
  };
  const auto filters = [&](Role role) { return c.array<T>({s.out_channels, s.in_channels, planes, taps}, role); };
  const auto outputs = [&](Role role) { return c.array<T>({s.batch, s.out_channels, elements, pixels}, role); };
  if (function == 0) {
    const T* x = images();
    const T* w = filters(Role::input);
    const T* bias = c.chance(2) ? nullptr : c.array<T>({s.out_channels}, Role::input, true);
    T* out = outputs(Role::output);
    c.call("group_conv",
           [&] { return FUZZ_BY_TYPE(T, fastdl_group_conv)(shape, activation, algorithm, x, strides, w, bias, out); });
  } else if (function == 1) {
    const T* w = filters(Role::input);
    const T* grad = outputs(Role::input);
    T* dx = c.array<T>({s.batch, s.in_channels, planes, s.in[0], s.in[1]}, Role::output);
    c.call("group_conv_input", [&] { return FUZZ_BY_TYPE(T, fastdl_group_conv_input)(shape, algorithm, w, grad, dx); });
  } else if (function == 2) {
    const T* x = images();
    const T* grad = outputs(Role::input);
    T* dw = filters(Role::output);
    c.call("group_conv_weight",
           [&] { return FUZZ_BY_TYPE(T, fastdl_group_conv_weight)(shape, algorithm, x, strides, grad, dw); });
  } else {
    const T* w = filters(Role::input);
    T* out = c.array<T>({s.out_channels, elements, s.in_channels, planes, taps}, Role::output);
    c.call("group_expand", [&] {
      return FUZZ_BY_TYPE(T, fastdl_group_expand)(s.group, s.lift, s.out_channels, s.in_channels, s.kernel, w, out);
    });
  }
}

template <class T>
void signature(Case& c) {
  const Index samples = c.extent(8), count = c.extent(8), d = c.extent(16), order = c.extent(9);
  fastdl_group_measures m{};
  m.cuts = c.extent(4);
  m.moments = c.extent(4);
  m.nonlinearity = c.choice<fastdl_group_nonlinearity>(5);
  m.thresholds = c.array<double>({m.cuts}, Role::input);
  Index* powers = c.array<Index>({m.moments}, Role::input);
  if (powers && m.moments > 0 && m.moments < 64 && c.wild(8)) {
    powers[c.byte() % m.moments] = c.chance(2) ? INT64_MAX : -1;
    if (powers[0] == -1) c.refuse();
  }
  m.powers = powers;
  const T* x = c.array<T>({samples, d}, Role::input);
  const T* templates = c.array<T>({count, d}, Role::input);
  const Index* permutations = c.places({order, d}, d);
  T* out = c.array<T>({samples, count, Wide(m.cuts) + m.moments}, Role::output);
  c.work({samples, count, order, Wide(d) + m.cuts + m.moments});
  const auto* measures = c.wild(32) ? (c.refuse(), nullptr) : c.keep(m);
  c.call("group_signature", [&] {
    return FUZZ_BY_TYPE(T, fastdl_group_signature)(x, samples, templates, count, d, permutations, order, measures, out);
  });
}

template <class T>
void any(Case& c) {
  const int function = c.below(10);
  if (function < 6) return layer<T>(c, function < 3 ? 0 : function - 2);
  if (function == 6) return signature<T>(c);
  const Index count = c.extent(9), order = c.extent(9), pixels = c.extent(40);
  if (function == 7) {
    const auto mode = c.choice<fastdl_group_pool>(4);
    const T* x = c.array<T>({count, order, pixels}, Role::input);
    T* out = c.array<T>({count, pixels}, Role::output);
    c.call("group_pool", [&] { return FUZZ_BY_TYPE(T, fastdl_group_pool)(x, count, order, pixels, mode, out); });
  } else if (function == 8) {
    const T *f = c.array<T>({count, order}, Role::input), *h = c.array<T>({order}, Role::input);
    const Index* quotient = c.places({order, order}, order);
    T* out = c.array<T>({count, order}, Role::output);
    c.call("group_convolve", [&] { return FUZZ_BY_TYPE(T, fastdl_group_convolve)(f, count, h, order, quotient, out); });
  } else {
    const double sigma = c.real(1);
    const T* W = c.array<T>({count, order}, Role::input);
    T* gradient = c.array<T>({count, order}, Role::output);
    double* value = c.array<double>({1}, Role::output);
    c.work({order, order, order, order});
    c.call("group_regularizer",
           [&] { return FUZZ_BY_TYPE(T, fastdl_group_regularizer)(W, count, order, sigma, gradient, value); });
  }
}

}  // namespace

void group_case(Case& c) { c.chance(2) ? any<double>(c) : any<float>(c); }

}  // namespace fuzz
