// Every algorithm of convolution, the gradient of the weights and pooling, at every level this machine can run, against
// loops in double; and bit-equality over thread counts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.hpp"
#include "conv/bodies.hpp"
#include "core/threads.hpp"

#define TEST_LEVEL(level)                  \
  {#level,                                 \
   fastdl::conv::level::direct,            \
   fastdl::conv::level::planes,            \
   fastdl::conv::level::winograd,          \
   fastdl::conv::level::winograd_filters,  \
   fastdl::conv::level::weights,           \
   fastdl::conv::level::winograd_weights,  \
   fastdl::conv::level::max_pool,          \
   fastdl::conv::level::average_pool,      \
   fastdl::conv::level::max_pool_gradient, \
   fastdl::conv::level::average_pool_gradient}
#include "levels.hpp"

using namespace fastdl;
using namespace fastdl::conv;

namespace {

bool quick = false;
std::mt19937_64 bits(3);
double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
Index between(Index low, Index high) { return low + Index(bits() % std::uint64_t(high - low + 1)); }

template <class T>
struct Level {
  std::string name;
  void (*direct)(const Geometry&, const Images<const T>&, const T*, const T*, Activation, T*);
  void (*planes)(const Geometry&, const Images<const T>&, const T*, const T*, Activation, T*);
  void (*winograd)(const Geometry&, const Images<const T>&, const WinogradFilters<T>&, const T*, Activation, int, T*,
                   bool&);
  void (*winograd_filters)(const Geometry&, const T*, int, T*);
  void (*weights)(const Geometry&, const Images<const T>&, const T*, T*);
  void (*winograd_weights)(const Geometry&, const Images<const T>&, const T*, T*, bool&);
  void (*max_pool)(const Geometry&, const Images<const T>&, T*, Index*);
  void (*average_pool)(const Geometry&, const Images<const T>&, bool, T*);
  void (*max_pool_gradient)(const Geometry&, const T*, const Index*, T*);
  void (*average_pool_gradient)(const Geometry&, const T*, bool, T*);
};

template <class T>
std::vector<T> values(Index count) {
  std::vector<T> list(static_cast<std::size_t>(count));
  for (T& v : list) v = T(2 * uniform() - 1);
  return list;
}

// Images in one of three layouts: channels first, channels last, rows backwards.
template <class T>
struct Layout {
  std::vector<T> data;
  Images<const T> images;

  Layout(const Geometry& g, int kind) : data(values<T>(g.batch * g.groups * g.in_channels * g.in_pixels())) {
    const Index channels = g.groups * g.in_channels;
    if (kind == 1)
      images = {data.data(), channels * g.in_pixels(), 1, {g.in[1] * g.in[2] * channels, g.in[2] * channels, channels}};
    else
      images = {data.data(), channels * g.in_pixels(), g.in_pixels(), {g.in[1] * g.in[2], g.in[2], 1}};
    if (kind == 2) images.data += g.in[2] - 1, images.axis[2] = -1;
  }
};

// f(output index, tap index, value of x) for every product of the sum; 0 outside of the image.
template <class T, class Function>
void each_product(const Geometry& g, const Images<const T>& x, const Function& f) {
  const Index channels = g.groups * g.out_channels;
  for (Index n = 0; n < g.batch; ++n)
    for (Index o = 0; o < channels; ++o)
      for (Index p = 0; p < g.pixels(); ++p)
        for (Index c = 0; c < g.in_channels; ++c)
          for (Index q = 0; q < g.taps(); ++q) {
            Index offset = n * x.batch + (o / g.out_channels * g.in_channels + c) * x.channel, rest = p, tap = q;
            bool inside = true;
            for (int a = axes - 1; a >= 0; --a) {
              const Index at = rest % g.out[a] * g.stride[a] + tap % g.kernel[a] * g.dilation[a] - g.lower[a];
              rest /= g.out[a], tap /= g.kernel[a];
              inside &= at >= 0 && at < g.in[a];
              offset += at * x.axis[a];
            }
            f((n * channels + o) * g.pixels() + p, (o * g.in_channels + c) * g.taps() + q,
              inside ? double(x.data[offset]) : 0.0);
          }
}

double apply(double v, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return v < 0 ? 0 : v;
    case Activation::leaky_relu:
      return v < 0 ? 0.01 * v : v;
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-v));
    case Activation::tanh:
      return std::tanh(v);
    default:
      return v;
  }
}

Geometry random_geometry(int rank, bool single) {
  Geometry g;
  g.batch = between(1, 3);
  g.groups = single ? between(1, 9) : between(1, 3) == 1 ? 2 : 1;
  g.in_channels = single ? 1 : between(1, 12);
  g.out_channels = single ? between(1, 2) : between(1, 15);
  for (int a = 0; a < axes; ++a) {
    const bool there = a >= axes - rank;
    g.kernel[a] = there ? between(1, 4) : 1;
    g.stride[a] = there ? between(1, 3) : 1;
    g.dilation[a] = there ? between(1, 2) : 1;
    g.lower[a] = there ? between(0, 2) : 0;
    const Index needed = g.dilation[a] * (g.kernel[a] - 1) + 1;
    g.in[a] = there ? std::max<Index>(1, needed - 2 * g.lower[a]) + between(0, rank == 3 ? 6 : rank == 2 ? 17 : 40) : 1;
    g.out[a] = (g.in[a] + 2 * g.lower[a] - needed) / g.stride[a] + 1;
  }
  return g;
}

// The error of a sum of so many products of numbers up to 1, each a rounding or two.
template <class T>
double allowed(double terms) {
  return std::numeric_limits<T>::epsilon() * (4 + 2 * terms);
}

template <class T>
double difference(const std::vector<T>& found, const std::vector<double>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::fabs(double(found[i]) - expected[i]);
    worst = off <= worst ? worst : off;  // NaN stays
  }
  return worst;
}

std::string text(const Geometry& g) {
  std::ostringstream out;
  out << g.batch << "x" << g.groups << "x" << g.in_channels << "->" << g.out_channels;
  for (int a = 0; a < axes; ++a)
    out << " " << g.in[a] << "k" << g.kernel[a] << "s" << g.stride[a] << "p" << g.lower[a] << "d" << g.dilation[a];
  return out.str();
}

template <class T>
void test_convolution(const Level<T>& level, const Geometry& g, int kind) {
  const Layout<T> x(g, kind);
  const Index outputs = g.groups * g.out_channels, taps = outputs * g.in_channels * g.taps();
  const std::vector<T> w = values<T>(taps), bias = values<T>(outputs);
  const auto activation = static_cast<Activation>(between(0, 4));
  std::vector<double> sums(static_cast<std::size_t>(g.batch * outputs * g.pixels())), gradient(w.size());
  const std::vector<T> grad = values<T>(Index(sums.size()));
  each_product(g, x.images, [&](Index out, Index tap, double value) {
    sums[std::size_t(out)] += double(w[std::size_t(tap)]) * value;
    gradient[std::size_t(tap)] += double(grad[std::size_t(out)]) * value;
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t channel = i / std::size_t(g.pixels()) % std::size_t(outputs);
    sums[i] = apply(sums[i] + double(bias[channel]), activation);
  }
  const double terms = double(g.in_channels * g.taps());
  std::vector<T> out(sums.size());
  const auto check = [&](const char* what, double limit) {
    const double worst = difference(out, sums);
    CHECK(worst <= limit, "%s %s %s: %g", level.name.c_str(), what, text(g).c_str(), worst);
    std::fill(out.begin(), out.end(), T(NAN));
  };
  level.direct(g, x.images, w.data(), bias.data(), activation, out.data());
  check("direct", allowed<T>(terms));
  if (g.lower[2] >= 0) {
    level.planes(g, x.images, w.data(), bias.data(), activation, out.data());
    check("planes", allowed<T>(terms));
  }
  const bool by_tiles = g.kernel[0] * g.stride[0] * g.in[0] == 1 && g.kernel[1] == 3 && g.kernel[2] == 3 &&
                        g.stride[1] == 1 && g.stride[2] == 1 && g.dilation[1] == 1 && g.dilation[2] == 1 &&
                        x.images.axis[2] == 1;
  if (by_tiles) {
    std::vector<T> turned(w.size());
    for (Index i = 0; i < Index(w.size()); ++i) {
      const Index tap = i % 9, c = i / 9 % g.in_channels, o = i / 9 / g.in_channels % g.out_channels;
      const Index group = i / 9 / g.in_channels / g.out_channels;
      turned[std::size_t(((group * g.in_channels + c) * g.out_channels + o) * 9 + 8 - tap)] = w[std::size_t(i)];
    }
    for (int m : {2, 4}) {
      bool finite = false;
      level.winograd(g, x.images, {w.data()}, bias.data(), activation, m, out.data(), finite);
      check(m == 2 ? "winograd 2" : "winograd 4", (m == 2 ? 4 : 16) * allowed<T>(terms));
      CHECK(finite, "%s winograd", level.name.c_str());
      std::vector<T> filters(
          std::size_t(g.groups * (m + 2) * (m + 2) * ((g.out_channels + 5) / 6 * 6 * g.in_channels + winograd_apart)));
      level.winograd_filters(g, w.data(), m, filters.data());
      level.winograd(g, x.images, {nullptr, filters.data()}, bias.data(), activation, m, out.data(), finite);
      check("winograd, prepared", (m == 2 ? 4 : 16) * allowed<T>(terms));
      level.winograd(g, x.images, {turned.data(), nullptr, true}, bias.data(), activation, m, out.data(), finite);
      check("winograd, turned", (m == 2 ? 4 : 16) * allowed<T>(terms));
    }
  }
  std::vector<T> dw(w.size());
  const auto check_weights = [&](const char* what, double limit) {
    const double worst = difference(dw, gradient);
    CHECK(worst <= limit, "%s %s %s: %g", level.name.c_str(), what, text(g).c_str(), worst);
    std::fill(dw.begin(), dw.end(), T(NAN));
  };
  const double limit = allowed<T>(double(g.batch * g.pixels()));
  level.weights(g, x.images, grad.data(), dw.data());
  check_weights("weights", limit);
  if (by_tiles) {
    bool finite = false;
    level.winograd_weights(g, x.images, grad.data(), dw.data(), finite);
    check_weights("weights by winograd", 16 * limit);
    CHECK(finite, "%s weights by winograd", level.name.c_str());
  }
}

template <class T>
void test_pooling(const Level<T>& level, Geometry g, int kind) {
  g.in_channels *= g.groups;
  g.groups = 1;
  g.out_channels = g.in_channels;
  for (int a = 0; a < axes; ++a) {
    g.dilation[a] = 1;
    g.lower[a] = std::min(g.lower[a], g.kernel[a] / 2);
    if (g.in[a] + 2 * g.lower[a] < g.kernel[a]) g.in[a] = g.kernel[a];
    g.out[a] = (g.in[a] + 2 * g.lower[a] - g.kernel[a]) / g.stride[a] + 1;
  }
  const Layout<T> x(g, kind);
  Geometry each = g;  // one channel at a time
  each.groups = g.in_channels;
  each.in_channels = each.out_channels = 1;
  const std::size_t count = std::size_t(g.batch * g.in_channels * g.pixels());
  std::vector<double> most(count, -INFINITY), sum(count), inside(count);
  Geometry planes = each;
  each_product(planes, x.images, [&](Index out, Index, double value) { sum[std::size_t(out)] += value; });
  // Which taps lie inside, and the largest of those: a plane of ones tells.
  const std::vector<T> ones(x.data.size(), T(1));
  Images<const T> of_ones = x.images;
  of_ones.data = ones.data() + (x.images.data - x.data.data());
  std::vector<double> flags, found;
  each_product(planes, of_ones, [&](Index, Index, double value) { flags.push_back(value); });
  std::size_t at = 0;
  each_product(planes, x.images, [&](Index out, Index, double value) {
    inside[std::size_t(out)] += flags[at];
    if (flags[at++] != 0) most[std::size_t(out)] = std::max(most[std::size_t(out)], value);
  });
  std::vector<T> out(count), again(count);
  std::vector<Index> indices(count);
  level.max_pool(g, x.images, out.data(), nullptr);
  level.max_pool(g, x.images, again.data(), indices.data());
  CHECK(difference(out, most) == 0 && out == again, "%s max_pool %s", level.name.c_str(), text(g).c_str());
  const std::vector<T> grad = values<T>(Index(count));
  std::vector<T> dx(x.data.size());
  std::vector<double> expected(x.data.size());
  const std::size_t out_plane = std::size_t(g.pixels()), in_plane = std::size_t(g.in_pixels());
  for (std::size_t i = 0; i < count; ++i)
    expected[i / out_plane * in_plane + std::size_t(indices[i])] += double(grad[i]);
  level.max_pool_gradient(g, grad.data(), indices.data(), dx.data());
  CHECK(difference(dx, expected) <= allowed<T>(double(g.taps())), "%s max_pool_gradient", level.name.c_str());
  for (bool counts : {false, true}) {
    std::vector<double> mean(count);
    double forward = 0, backward = 0;
    for (std::size_t i = 0; i < count; ++i) mean[i] = sum[i] / (counts ? double(g.taps()) : inside[i]);
    level.average_pool(g, x.images, counts, out.data());
    const double worst = difference(out, mean);
    CHECK(worst <= allowed<T>(double(g.taps())), "%s average_pool %s: %g", level.name.c_str(), text(g).c_str(), worst);
    // <pool(x), g> = <x, gradient(g)>, for x in the order of its planes
    if (kind != 0) continue;
    level.average_pool_gradient(g, grad.data(), counts, dx.data());
    for (std::size_t i = 0; i < count; ++i) forward += mean[i] * double(grad[i]);
    for (std::size_t i = 0; i < dx.size(); ++i) backward += double(dx[i]) * double(x.data[i]);
    CHECK(std::fabs(forward - backward) <= allowed<T>(double(count + dx.size())), "%s average_pool_gradient %s: %g",
          level.name.c_str(), text(g).c_str(), forward - backward);
  }
}

Geometry square(Index batch, Index in, Index out, Index side, Index kernel, Index stride) {
  Geometry g{batch,     1,        in, out, {1, side, side}, {1, kernel, kernel}, {1, 0, 0}, {1, stride, stride},
             {1, 1, 1}, {0, 1, 1}};
  g.out[1] = g.out[2] = (side + 2 - kernel) / stride + 1;
  return g;
}

template <class T>
void test_threads(const Level<T>& level) {
  for (const Geometry& g : {square(2, 70, 50, 15, 3, 1), square(3, 9, 20, 30, 3, 2), square(1, 80, 130, 14, 3, 1)}) {
    const Layout<T> x(g, 0);
    const std::vector<T> w = values<T>(g.out_channels * g.in_channels * 9);
    const std::vector<T> grad = values<T>(g.batch * g.out_channels * g.pixels());
    std::vector<std::vector<T>> first;
    for (int threads : {1, 2, 5}) {
      core::set_thread_limit(threads);
      std::vector<std::vector<T>> found(4, std::vector<T>(grad.size()));
      bool finite;
      level.direct(g, x.images, w.data(), nullptr, Activation::none, found[0].data());
      for (int m : {2, 4})
        if (g.stride[1] == 1)
          level.winograd(g, x.images, {w.data()}, nullptr, Activation::none, m, found[std::size_t(m / 2)].data(),
                         finite);
      found[3].resize(w.size());
      level.weights(g, x.images, grad.data(), found[3].data());
      if (threads == 1)
        first = found;
      else
        CHECK(first == found, "%s with %d threads", level.name.c_str(), threads);
    }
  }
  core::set_thread_limit(0);
}

template <class T>
void test_type() {
  for (const auto& level : levels_to_test<Level<T>>(false)) {
    const int before = failed;
    bits.seed(7);
    for (int i = 0; i < (quick ? 12 : 60); ++i) {
      const Geometry g = random_geometry(1 + i % 3, i % 5 == 4);
      test_convolution(level, g, i / 3 % 3);
      test_pooling(level, g, i / 3 % 3);
    }
    for (Index side : {1, 2, 3, 7, 8, 9, 15, 16, 17, 33}) test_convolution(level, square(1, 3, 7, side + 2, 3, 1), 0);
    test_convolution(level, square(2, 17, 65, 13, 3, 1), 0);
    if (!quick) test_convolution(level, square(1, 150, 20, 9, 3, 1), 0);  // more than one stretch of channels
    if (!quick) test_threads(level);
    std::printf("%s %s: %s\n", level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64", failed == before ? "ok" : "FAILED");
  }
}

}  // namespace

int main(int argc, char**) {
  quick = argc > 1;  // --quick or --smoke
  test_type<float>();
  test_type<double>();
  return summary();
}
