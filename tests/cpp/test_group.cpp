// Layers on groups of the plane and what goes with them, at every instruction-set level: against the formula in double,
// and what the C interface refuses.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/isa.hpp"
#include "core/threads.hpp"
#include "fastdl/group.hpp"
#include "group/bodies.hpp"

#define TEST_LEVEL(level)                                                                                          \
  Level {                                                                                                          \
    #level, {fastdl::group::level::orbit, fastdl::group::level::orbit_input, fastdl::group::level::orbit_weights}, \
        {fastdl::group::level::orbit, fastdl::group::level::orbit_input, fastdl::group::level::orbit_weights},     \
        fastdl::group::level::signature, fastdl::group::level::convolve, fastdl::group::level::pool,               \
        fastdl::group::level::regularizer                                                                          \
  }
#include "levels.hpp"

#define EXPECT(condition) CHECK(condition, "%s", level_name.c_str())

using namespace fastdl;
using group::Index;
using group::Layer;
using group::Planar;

namespace {

std::mt19937 generator(7);
std::string level_name;

// The layer and its gradients by orbits.
template <class T>
struct Bodies {
  void (*orbit)(const Layer&, const group::Maps<const T>&, const T*, const T*, conv::Activation, T*);
  void (*input)(const Layer&, const T*, const T*, T*);
  void (*weights)(const Layer&, const group::Maps<const T>&, const T*, T*);
};

// The bodies of a level.
struct Level {
  std::string name;
  Bodies<float> of_floats;
  Bodies<double> of_doubles;
  void (*signature)(const group::Products<float>&, const group::Measures&, float*);
  void (*convolve)(const double*, Index, const double*, Index, const Index*, double*);
  void (*pool)(const float*, Index, Index, Index, group::Pool, float*);
  void (*regularizer)(const double*, Index, double, double*, double&);
};

template <class T>
std::vector<T> normal(Index count) {
  std::normal_distribution<double> draw;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = static_cast<T>(draw(generator));
  return values;
}

// f(place in x, place in w, place in the output) for all terms of the layer.
template <class Function>
void each_term(const Layer& layer, const Function& f) {
  const int elements = layer.elements(), planes = layer.planes();
  for (Index n = 0; n < layer.batch; ++n)
    for (Index o = 0; o < layer.out_channels; ++o)
      for (int s = 0; s < elements; ++s)
        for (Index c = 0; c < layer.in_channels; ++c)
          for (int t = 0; t < planes; ++t)
            for (Index q = 0; q < layer.taps(); ++q) {
              const int plane = layer.lift ? 0 : group::product_of(layer.group, group::inverse_of(layer.group, s), t);
              const Index filter = ((o * layer.in_channels + c) * planes + plane) * layer.taps() + q;
              const Index pixel = group::moved(layer.group, s, layer.k, q);
              for (Index i = 0; i < layer.out[0]; ++i)
                for (Index j = 0; j < layer.out[1]; ++j) {
                  const Index row = i * layer.stride[0] + pixel / layer.k - layer.lower[0];
                  const Index column = j * layer.stride[1] + pixel % layer.k - layer.lower[1];
                  if (row < 0 || row >= layer.in[0] || column < 0 || column >= layer.in[1]) continue;
                  f(((n * layer.in_channels + c) * planes + t) * layer.in[0] * layer.in[1] + row * layer.in[1] + column,
                    filter, ((n * layer.out_channels + o) * elements + s) * layer.pixels() + i * layer.out[1] + j);
                }
            }
}

fastdl_group_shape shape_of(const Layer& layer) {
  fastdl_group_shape shape{};
  shape.group = static_cast<fastdl_planar_group>(layer.group);
  shape.lift = layer.lift;
  shape.batch = layer.batch;
  shape.in_channels = layer.in_channels;
  shape.out_channels = layer.out_channels;
  shape.kernel = layer.k;
  for (int a = 0; a < 2; ++a) {
    shape.in[a] = layer.in[a];
    shape.out[a] = layer.out[a];
    shape.stride[a] = layer.stride[a];
    shape.lower[a] = layer.lower[a];
  }
  return shape;
}

template <class T>
struct C;
template <>
struct C<float> {
  static constexpr auto conv = fastdl_group_conv_f32;
  static constexpr auto input = fastdl_group_conv_input_f32;
  static constexpr auto weight = fastdl_group_conv_weight_f32;
};
template <>
struct C<double> {
  static constexpr auto conv = fastdl_group_conv_f64;
  static constexpr auto input = fastdl_group_conv_input_f64;
  static constexpr auto weight = fastdl_group_conv_weight_f64;
};

template <class T>
bool close(const std::vector<T>& found, const std::vector<double>& expected, const std::vector<double>& sizes,
           double roundings) {
  double largest = 0;
  for (double size : sizes) largest = size > largest ? size : largest;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(std::fabs(double(found[i]) - expected[i]) <= roundings * double(std::numeric_limits<T>::epsilon()) * largest))
      return false;
  return true;
}

// Forward and both gradients, by the bodies of a level and, at the level in use, through the C interface.
template <class T>
void compare(const Layer& layer, const Bodies<T>& bodies, bool interface_too) {
  const Index in = layer.batch * layer.in_channels * layer.planes() * layer.in[0] * layer.in[1];
  const Index filters = layer.out_channels * layer.in_channels * layer.planes() * layer.taps();
  const Index out = layer.batch * layer.out_channels * layer.elements() * layer.pixels();
  const auto x = normal<T>(in), w = normal<T>(filters), grad = normal<T>(out), bias = normal<T>(layer.out_channels);
  std::vector<double> y(std::size_t(out), 0), sizes(y), dx(std::size_t(in), 0), dx_sizes(dx),
      dw(std::size_t(filters), 0), dw_sizes(dw);
  const auto add = [](std::vector<double>& sums, std::vector<double>& absolute, Index at, double a, double b) {
    sums[std::size_t(at)] += a * b;
    absolute[std::size_t(at)] += std::fabs(a * b);
  };
  each_term(layer, [&](Index i, Index f, Index o) {
    const double of_x = double(x[std::size_t(i)]), of_w = double(w[std::size_t(f)]),
                 slope = double(grad[std::size_t(o)]);
    add(y, sizes, o, of_x, of_w);
    add(dx, dx_sizes, i, of_w, slope);
    add(dw, dw_sizes, f, of_x, slope);
  });
  for (Index o = 0; o < out; ++o)
    y[std::size_t(o)] += double(bias[std::size_t(o / (layer.elements() * layer.pixels()) % layer.out_channels)]);
  const double roundings = 4 * (double(filters / layer.out_channels) + 8);
  const double of_pixels = 4 * (double(layer.batch * layer.elements() * layer.pixels()) + 8);
  const Index plane = layer.in[0] * layer.in[1];
  const group::Maps<const T> maps{x.data(), layer.in_channels * layer.planes() * plane, plane, layer.in[1], 1};
  std::vector<T> found(static_cast<std::size_t>(out)), slopes(static_cast<std::size_t>(filters)),
      back(static_cast<std::size_t>(in), std::numeric_limits<T>::quiet_NaN());
  bodies.orbit(layer, maps, w.data(), bias.data(), conv::Activation::none, found.data());
  EXPECT(close(found, y, sizes, roundings));
  bodies.weights(layer, maps, grad.data(), slopes.data());
  EXPECT(close(slopes, dw, dw_sizes, of_pixels));
  const double of_outputs = 4 * (double(layer.out_channels * layer.elements() * layer.taps()) + 8);
  bodies.input(layer, w.data(), grad.data(), back.data());
  EXPECT(close(back, dx, dx_sizes, of_outputs));
  if (!interface_too) return;
  const auto shape = shape_of(layer);
  for (auto algorithm : {FASTDL_GROUP_AUTO, FASTDL_GROUP_EXPAND, FASTDL_GROUP_ORBIT}) {
    EXPECT(C<T>::conv(&shape, FASTDL_NO_ACTIVATION, algorithm, x.data(), nullptr, w.data(), bias.data(),
                      found.data()) == FASTDL_OK);
    EXPECT(close(found, y, sizes, roundings));
    EXPECT(C<T>::weight(&shape, algorithm, x.data(), nullptr, grad.data(), slopes.data()) == FASTDL_OK);
    EXPECT(close(slopes, dw, dw_sizes, of_pixels));
    EXPECT(C<T>::input(&shape, algorithm, w.data(), grad.data(), back.data()) == FASTDL_OK);
    EXPECT(close(back, dx, dx_sizes, of_outputs));
  }
}

Layer layer_of(Planar group, bool lift, Index n, Index in, Index out, Index size, Index k, Index stride,
               Index padding) {
  Layer layer{group, lift, n, in, out, {size, size + 1}, {0, 0}, k, {stride, stride}, {padding, padding}};
  for (int a = 0; a < 2; ++a) layer.out[a] = (layer.in[a] + 2 * padding - k) / stride + 1;
  return layer;
}

void test_layers(const Level& level, bool interface_too, bool quick) {
  const Index shapes[][7] = {{1, 1, 1, 1, 1, 1, 0}, {2, 2, 3, 5, 3, 1, 1},   {1, 3, 7, 8, 2, 1, 1},
                             {1, 2, 8, 9, 3, 2, 1}, {1, 1, 13, 17, 5, 1, 2}, {1, 18, 2, 4, 3, 1, 1},
                             {2, 1, 2, 33, 3, 3, 4}};
  int number = 0;
  for (const auto& s : shapes)
    for (Planar group : {Planar::p2, Planar::p4, Planar::pm, Planar::p4m})
      for (bool lift : {false, true}) {
        if (quick && ++number % 5 != 0) continue;
        const Layer layer = layer_of(group, lift, s[0], s[1], s[2], s[3], s[4], s[5], s[6]);
        compare<float>(layer, level.of_floats, interface_too);
        compare<double>(layer, level.of_doubles, interface_too);
      }
}

// Strides that differ, that leave pixels out or do not divide; windows that begin inside or far outside the input; and
// more pixels than a block has, down, across, and with windows that reach over several blocks.
void test_windows(const Level& level, bool interface_too, bool quick) {
  struct Windows {
    Index in[2], out[2], k, stride[2], lower[2], out_channels;
    bool large;
  };
  const Windows all[] = {
      {{7, 6}, {3, 6}, 3, {2, 1}, {0, 1}, 3, false},      {{9, 11}, {9, 4}, 4, {1, 3}, {2, 0}, 2, false},
      {{10, 9}, {3, 2}, 1, {3, 4}, {0, 0}, 5, false},     {{11, 7}, {3, 3}, 2, {4, 5}, {1, 3}, 3, false},
      {{8, 9}, {3, 2}, 3, {2, 1}, {-1, -4}, 3, false},    {{2, 3}, {6, 5}, 5, {2, 2}, {6, 5}, 2, false},
      {{5, 4}, {9, 3}, 3, {1, 2}, {-3, -2}, 2, false},    {{45, 44}, {45, 44}, 3, {1, 1}, {1, 1}, 1, true},
      {{90, 77}, {45, 39}, 5, {2, 2}, {2, 2}, 1, true},   {{5, 2300}, {3, 1150}, 3, {2, 2}, {1, 1}, 1, true},
      {{6, 140}, {6, 140}, 5, {1, 1}, {2, 2}, 400, true}, {{12, 420}, {4, 140}, 7, {3, 3}, {3, 3}, 400, true},
  };
  int number = 0;
  for (const Windows& w : all)
    for (Planar group : {Planar::p2, Planar::p4, Planar::pm, Planar::p4m})
      for (bool lift : {false, true}) {
        // The largest ones are about how the pixels are cut, and not about the group.
        if (w.out_channels == 400 && !(group == Planar::p2 && lift)) continue;
        if (quick && (w.large || ++number % 5 != 0)) continue;
        const Layer layer{group,
                          lift,
                          1,
                          w.large ? 1 : 2,
                          w.out_channels,
                          {w.in[0], w.in[1]},
                          {w.out[0], w.out[1]},
                          w.k,
                          {w.stride[0], w.stride[1]},
                          {w.lower[0], w.lower[1]}};
        compare<float>(layer, level.of_floats, interface_too);
        compare<double>(layer, level.of_doubles, interface_too);
      }
}

void test_tables() {
  for (Planar group : {Planar::p2, Planar::p4, Planar::pm, Planar::p4m}) {
    const int n = group::order_of(group);
    for (int a = 0; a < n; ++a) {
      EXPECT(group::product_of(group, a, group::inverse_of(group, a)) == 0);
      for (int b = 0; b < n; ++b)
        for (Index k = 1; k < 5; ++k)
          for (Index q = 0; q < k * k; ++q)
            EXPECT(group::moved(group, a, k, group::moved(group, b, k, q)) ==
                   group::moved(group, group::product_of(group, a, b), k, q));
    }
  }
  const int quotients[] = {3, 0, 1, 2, 5, 6, 7, 4};  // 1^-1 t in p4m
  for (int t = 0; t < 8; ++t)
    EXPECT(group::product_of(Planar::p4m, group::inverse_of(Planar::p4m, 1), t) == quotients[t]);
}

void test_threads() {
  const Layer layer = layer_of(Planar::p4m, false, 2, 5, 7, 24, 3, 1, 1);
  const Layer second = layer_of(Planar::p4m, false, 2, 5, 7, 70, 5, 2, 1);  // more than one block
  const auto shape = shape_of(layer), strided = shape_of(second);
  const auto x = normal<float>(2 * 5 * 8 * 24 * 25), w = normal<float>(7 * 5 * 8 * 25),
             grad = normal<float>(2 * 7 * 8 * second.pixels());
  std::vector<float> y(std::size_t(2 * 7 * 8 * layer.pixels())), dw(7 * 5 * 8 * 9), dx(2 * 5 * 8 * 70 * 71);
  std::vector<float> first[3];
  const int before = fastdl_get_num_threads();
  for (int threads : {1, 2, 3, 7}) {
    fastdl_set_num_threads(threads);
    EXPECT(fastdl_group_conv_f32(&shape, FASTDL_RELU, FASTDL_GROUP_ORBIT, x.data(), nullptr, w.data(), nullptr,
                                 y.data()) == FASTDL_OK);
    EXPECT(fastdl_group_conv_weight_f32(&shape, FASTDL_GROUP_ORBIT, x.data(), nullptr, y.data(), dw.data()) ==
           FASTDL_OK);
    EXPECT(fastdl_group_conv_input_f32(&strided, FASTDL_GROUP_ORBIT, w.data(), grad.data(), dx.data()) == FASTDL_OK);
    const std::vector<float>* found[] = {&y, &dw, &dx};
    for (int i = 0; i < 3; ++i) {
      if (threads == 1)
        first[i] = *found[i];
      else
        EXPECT(std::memcmp(first[i].data(), found[i]->data(), first[i].size() * sizeof(float)) == 0);
    }
  }
  fastdl_set_num_threads(before);
}

void test_refusals() {
  const Layer layer = layer_of(Planar::p4, false, 1, 2, 3, 6, 3, 1, 1);
  const auto good = shape_of(layer);
  const auto x = normal<float>(1 * 2 * 4 * 6 * 7), w = normal<float>(3 * 2 * 4 * 9);
  std::vector<float> out(std::size_t(3 * 4 * layer.pixels()), 7.5f);
  const auto refused = [&](const fastdl_group_shape* shape, const float* from, const char* message) {
    const auto status = fastdl_group_conv_f32(shape, FASTDL_NO_ACTIVATION, FASTDL_GROUP_AUTO, from, nullptr, w.data(),
                                              nullptr, out.data());
    EXPECT(status == FASTDL_INVALID_ARGUMENT);
    EXPECT(std::string(fastdl_last_error()).find(message) != std::string::npos);
    for (float value : out) EXPECT(value == 7.5f);
  };
  refused(nullptr, x.data(), "[group.conv2d] expected a shape, got NULL");
  refused(&good, nullptr, "expected x with data, got a null pointer");
  auto bad = good;
  bad.kernel = 0;
  refused(&bad, x.data(), "expected filters of a side from 1");
  bad = good;
  bad.stride[1] = 0;
  refused(&bad, x.data(), "expected stride from 1");
  bad = good;
  bad.batch = -1;
  refused(&bad, x.data(), "expected a batch and channels of at least 0");
  const auto unknown = static_cast<fastdl_group_algorithm>(3);
  EXPECT(fastdl_group_conv_f32(&good, FASTDL_NO_ACTIVATION, unknown, x.data(), nullptr, w.data(), nullptr,
                               out.data()) == FASTDL_INVALID_ARGUMENT);
  EXPECT(std::string(fastdl_last_error()) == "[group.conv2d] expected an algorithm of the list, got 3");
  const std::int64_t places[] = {0, 1, 1, 5};
  EXPECT(fastdl_group_convolve_f32(x.data(), 1, w.data(), 2, places, out.data()) == FASTDL_INVALID_ARGUMENT);
  EXPECT(fastdl_group_pool_f32(x.data(), 1, 0, 4, FASTDL_GROUP_POOL_MAX, out.data()) == FASTDL_INVALID_ARGUMENT);
  double value = 0;
  EXPECT(fastdl_group_regularizer_f32(x.data(), 2, 2, 0.0, out.data(), &value) == FASTDL_INVALID_ARGUMENT);
  EXPECT(fastdl_group_signature_f32(x.data(), 1, w.data(), 1, 2, places, 2, nullptr, out.data()) ==
         FASTDL_INVALID_ARGUMENT);
}

// Signatures, group convolution, pooling and the regulariser against sums in double.
void test_orbits(const Level& level) {
  for (Index m : {1, 3, 20}) {
    const Index n = 5, d = 9, order = 150;
    const auto x = normal<float>(n * d), t = normal<float>(m * d);
    std::vector<Index> orders(std::size_t(order * d));
    for (Index g = 0; g < order; ++g)
      for (Index i = 0; i < d; ++i) orders[std::size_t(g * d + i)] = (i * (1 + g % 2 * 7) + g) % d;
    const double cuts[] = {0.1, -1.0};
    const Index powers[] = {0, 1, 3};
    std::vector<float> found(std::size_t(n * m * 5));
    level.signature(group::Products<float>{x.data(), t.data(), n, m, d, order, orders.data()},
                    group::Measures{cuts, 2, powers, 3, group::Nonlinearity::relu}, found.data());
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < m; ++j) {
        double sums[5] = {}, size = 0;
        for (Index g = 0; g < order; ++g) {
          double z = 0;
          for (Index f = 0; f < d; ++f)
            z += double(x[std::size_t(i * d + f)]) * double(t[std::size_t(j * d + orders[std::size_t(g * d + f)])]);
          for (int b = 0; b < 2; ++b) sums[b] += z > cuts[b] ? z - cuts[b] : 0;
          for (int p = 0; p < 3; ++p) sums[2 + p] += std::pow(z, double(powers[p]));
          size += 1 + std::fabs(z * z * z);
        }
        for (int c = 0; c < 5; ++c)
          EXPECT(std::fabs(double(found[std::size_t((i * m + j) * 5 + c)]) - sums[c]) <= 1e-5 * size);
      }
  }
  const Index n = 7;
  const auto f = normal<double>(3 * n), h = normal<double>(n);
  std::vector<Index> quotient(std::size_t(n * n));
  for (Index a = 0; a < n; ++a)
    for (Index b = 0; b < n; ++b) quotient[std::size_t(a * n + b)] = (b - a + n) % n;
  std::vector<double> found(std::size_t(3 * n));
  level.convolve(f.data(), 3, h.data(), n, quotient.data(), found.data());
  for (Index i = 0; i < 3; ++i)
    for (Index u = 0; u < n; ++u) {
      double sum = 0;
      for (Index v = 0; v < n; ++v) sum += f[std::size_t(i * n + (u - v + n) % n)] * h[std::size_t(v)];
      EXPECT(std::fabs(found[std::size_t(i * n + u)] - sum) <= 1e-13);
    }
  const auto maps = normal<float>(2 * 4 * 19);
  std::vector<float> pooled(2 * 19);
  level.pool(maps.data(), 2, 4, 19, group::Pool::max, pooled.data());
  for (Index i = 0; i < 2; ++i)
    for (Index p = 0; p < 19; ++p) {
      float largest = maps[std::size_t(i * 76 + p)];
      for (Index e = 1; e < 4; ++e) largest = std::fmax(largest, maps[std::size_t((i * 4 + e) * 19 + p)]);
      EXPECT(pooled[std::size_t(i * 19 + p)] == largest);
    }
  const Index size = 5;
  auto gramian = normal<double>(size * size);
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j < i; ++j) gramian[std::size_t(i * size + j)] = gramian[std::size_t(j * size + i)];
  std::vector<double> slope(std::size_t(size * size));
  double value = 0, expected = 0;
  level.regularizer(gramian.data(), size, 0.8, slope.data(), value);
  const auto at = [&](Index k, Index i) { return gramian[std::size_t(k * size + i)]; };
  for (Index i = 0; i < size; ++i)
    for (Index k = 0; k < size; ++k) {
      double down = 0;
      for (Index j = 0; j < size; ++j)
        for (Index l = 0; l < size; ++l) {
          const double difference = at(k, i) - at(l, j), term = std::exp(-difference * difference / 0.64);
          const double weight = i == j ? double(size - 1) : -1.0;
          expected += weight * term;
          down += weight * term * difference * -4 / 0.64;
        }
      EXPECT(std::fabs(slope[std::size_t(k * size + i)] - down) <= 1e-11);
    }
  EXPECT(std::fabs(value - expected) <= 1e-11);
}

}  // namespace

int main(int argc, char**) {
  const bool quick = argc > 1;  // --quick or --smoke
  test_tables();
  bool interface_too = true;
  for (const Level& level : levels_to_test<Level>(quick)) {
    level_name = level.name;
    const int before = failed;
    test_layers(level, interface_too, quick);
    test_windows(level, interface_too, quick);
    test_orbits(level);
    interface_too = false;
    std::printf("%s: %s\n", level.name.c_str(), failed == before ? "ok" : "FAILED");
  }
  test_threads();
  test_refusals();
  return summary();
}
