// Convolution and correlation, of arrays and of network layers: the bodies at every level this machine can run, and the
// entry with its modes, strides and checks, against sums in long double.
//
// A direct sum of n products is off by at most n roundings of the sum of their sizes. Transforms of N numbers spread
// their error over all of them alike: a few roundings for each of log2 N steps, which add up as a random walk, relative
// to the root mean square |f| |h| / sqrt(N).
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "conv/fft_bodies.hpp"
#include "conv/signal_cost.hpp"
#include "core/threads.hpp"
#include "fastdl/conv_signal.hpp"

#define TEST_LEVEL(level) \
  {#level, fastdl::conv::level::direct, fastdl::conv::level::by_transforms, fastdl::conv::level::fft_correlate}
#include "levels.hpp"

using namespace fastdl;
using conv::Blocks;
using conv::Signal;
using Index = std::int64_t;
using Sizes = std::vector<Index>;

namespace {

bool quick = false, smoke = false;
std::mt19937_64 bits(7);
double normal() {
  static std::normal_distribution<double> distribution;
  return distribution(bits);
}

template <class T>
struct Level {
  std::string name;
  void (*direct)(const Signal<T>&);
  void (*by_transforms)(const Signal<T>&, const Blocks&);
  void (*fft_correlate)(const T*, Index, Index, const Index*, int, const T*, Index, const Index*, T*);
};

template <class T>
constexpr double precision = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;

Index count_of(const Sizes& sizes) {
  Index count = 1;
  for (Index size : sizes) count *= size;
  return count;
}

// function(index) for every index of an array in row-major order.
void each(const Sizes& sizes, const std::function<void(const Sizes&)>& function) {
  Sizes index(sizes.size(), 0);
  for (Index i = 0; i < count_of(sizes); ++i) {
    function(index);
    for (std::size_t a = sizes.size(); a-- > 0 && ++index[a] == sizes[a];) index[a] = 0;
  }
}

Index place(const Sizes& index, const Sizes& sizes) {
  Index at = 0;
  for (std::size_t a = 0; a < sizes.size(); ++a) at = at * sizes[a] + index[a];
  return at;
}

template <class T>
struct Array {
  Sizes sizes;
  std::vector<T> data;
  explicit Array(Sizes sizes_) : sizes(std::move(sizes_)), data(std::size_t(count_of(sizes))) {}
  Array& randomize() {
    for (T& value : data) value = T(normal());
    return *this;
  }
  T at(const Sizes& index) const { return data[std::size_t(place(index, sizes))]; }
  double norm() const {
    double sum = 0;
    for (T value : data) sum += double(value) * double(value);
    return std::sqrt(sum);
  }
  conv::ArrayView<T> view() { return {data.data(), sizes, strides()}; }
  conv::ArrayView<const T> view() const { return {data.data(), sizes, strides()}; }
  Sizes strides() const {
    Sizes result(sizes.size(), 1);
    for (std::size_t a = sizes.size(); a-- > 1;) result[a - 1] = result[a] * sizes[a];
    return result;
  }
};

// sum over t of f[i + offset - t] h[t] where there is such an f (or, if periodic, of its repetition), and the same of
// absolute values.
template <class T>
void expected(const Array<T>& f, const Array<T>& h, const Sizes& i, const Sizes& offset, bool periodic, double& sum,
              double& size) {
  long double total = 0;
  size = 0;
  each(h.sizes, [&](const Sizes& t) {
    Sizes from(t.size());
    bool there = true;
    for (std::size_t a = 0; a < t.size(); ++a) {
      from[a] = i[a] + offset[a] - t[a];
      if (periodic) from[a] = (from[a] % f.sizes[a] + f.sizes[a]) % f.sizes[a];
      there &= from[a] >= 0 && from[a] < f.sizes[a];
    }
    if (!there) return;
    const long double product = static_cast<long double>(f.at(from)) * h.at(t);
    total += product;
    size += double(std::fabs(product));
  });
  sum = double(total);
}

struct Errors {
  double direct = 0, transformed = 0, layer = 0;  // as shares of their bounds
};

template <class T>
double transform_bound(const Array<T>& f, const Array<T>& h, double numbers) {
  return 8 * precision<T> * std::sqrt(std::log2(numbers) + 2) * f.norm() * h.norm() / std::sqrt(numbers);
}

double numbers_of(const Blocks& blocks, int rank) {
  double product = 1;
  for (int a = 0; a < rank; ++a) product *= double(blocks.length[a]);
  return product;
}

template <class T>
void test_bodies(const Level<T>& level, const Sizes& f_sizes, const Sizes& h_sizes, const Sizes& out_sizes,
                 const Sizes& offset, Errors& worst) {
  const int rank = int(f_sizes.size());
  Array<T> f(f_sizes), h(h_sizes), direct(out_sizes), whole(out_sizes), tiled(out_sizes), cut(out_sizes);
  f.randomize();
  h.randomize();
  Signal<T> signal{};
  signal.rank = rank;
  std::copy(f_sizes.begin(), f_sizes.end(), signal.f_size);
  std::copy(h_sizes.begin(), h_sizes.end(), signal.h_size);
  std::copy(out_sizes.begin(), out_sizes.end(), signal.out_size);
  std::copy(offset.begin(), offset.end(), signal.offset);
  signal.f_count = signal.h_count = 1;
  signal.f = f.data.data();
  signal.h = h.data.data();
  const auto run = [&](Array<T>& out) -> const Signal<T>& {
    signal.out = out.data.data();
    return signal;
  };
  const Blocks one = conv::whole(signal), several = conv::tiled(signal);
  Blocks small = one;  // tiles along every axis
  for (int a = 0; a < rank; ++a) {
    conv::set_length(signal, a, h_sizes[std::size_t(a)] + 6, small);
    small.tile[a] = small.length[a] - (h_sizes[std::size_t(a)] - 1);
  }
  level.direct(run(direct));
  level.by_transforms(run(whole), one);
  level.by_transforms(run(tiled), several);
  level.by_transforms(run(cut), small);
  double worst_direct = 0, worst_transformed = 0;
  each(out_sizes, [&](const Sizes& i) {
    double sum, size;
    expected(f, h, i, offset, false, sum, size);
    worst_direct = std::max(
        worst_direct, std::fabs(direct.at(i) - sum) / (double(count_of(h_sizes)) * precision<T> / 2 * size + 1e-300));
    const auto share = [&](const Array<T>& got, const Blocks& blocks) {
      // A tile has only part of f.
      const double numbers = numbers_of(blocks, rank), fraction = std::min(1.0, numbers / double(count_of(f_sizes)));
      const double bound = transform_bound(f, h, numbers) * std::sqrt(fraction);
      worst_transformed = std::max(worst_transformed, std::fabs(got.at(i) - sum) / bound);
    };
    share(whole, one);
    share(tiled, several);
    share(cut, small);
  });
  CHECK(worst_direct <= 1, "%s direct %d: %g", level.name.c_str(), int(f_sizes[0]), worst_direct);
  CHECK(worst_transformed <= 1, "%s transforms %d of rank %d: %g", level.name.c_str(), int(f_sizes[0]), rank,
        worst_transformed);
  worst.direct = std::max(worst.direct, worst_direct);
  worst.transformed = std::max(worst.transformed, worst_transformed);
}

// A layer against its sums; the error is that of transforms of at most 4 times its size, summed over the channels. The
// same for any number of threads.
template <class T>
void test_layer(const Level<T>& level, Index images, Index channels, Index outputs, const Sizes& size,
                const Sizes& kernel, Errors& worst) {
  const auto joined = [](Index a, Index b, const Sizes& rest) {
    Sizes sizes{a, b};
    sizes.insert(sizes.end(), rest.begin(), rest.end());
    return sizes;
  };
  Sizes out_size;
  for (std::size_t a = 0; a < size.size(); ++a) out_size.push_back(size[a] - kernel[a] + 1);
  const auto x = Array<T>(joined(images, channels, size)).randomize();
  const auto w = Array<T>(joined(outputs, channels, kernel)).randomize();
  Array<T> out(joined(images, outputs, out_size)), again(out.sizes);
  const auto run = [&](int threads, Array<T>& to) {
    core::set_thread_limit(threads);
    level.fft_correlate(x.data.data(), images, channels, size.data(), int(size.size()), w.data.data(), outputs,
                        kernel.data(), to.data.data());
    core::set_thread_limit(0);
  };
  run(1, out);
  run(3, again);
  CHECK(out.data == again.data, "%s layer with 3 threads", level.name.c_str());
  double wrong = 0;
  each(out.sizes, [&](const Sizes& i) {
    long double sum = 0;
    each(joined(1, channels, kernel), [&](const Sizes& t) {
      Sizes from = t, tap = t;
      from[0] = i[0];
      tap[0] = i[1];
      for (std::size_t a = 2; a < i.size(); ++a) from[a] = i[a] + t[a];
      sum += static_cast<long double>(x.at(from)) * w.at(tap);
    });
    wrong = std::max(wrong, double(std::fabs(out.at(i) - sum)));
  });
  // Numbers are normal: what is summed for a result has the norm sqrt(channels * kernel).
  const double bound = 8 * precision<T> * std::sqrt(std::log2(4.0 * double(count_of(size))) + 2) *
                       std::sqrt(double(channels * count_of(kernel)));
  CHECK(wrong <= bound, "%s layer %d -> %d: %g of %g", level.name.c_str(), int(channels), int(outputs), wrong, bound);
  worst.layer = std::max(worst.layer, bound == 0 ? 0 : wrong / bound);
}

template <class T>
void test_threads(const Level<T>& level) {
  const Sizes shapes[][2] = {{{60000}, {50}}, {{300, 200}, {9, 7}}, {{40, 30, 20}, {3, 4, 5}}};
  for (const auto& shape : shapes) {
    Array<T> f(shape[0]), h(shape[1]), out(shape[0]);
    f.randomize();
    h.randomize();
    Signal<T> signal{};
    signal.rank = int(shape[0].size());
    std::copy(shape[0].begin(), shape[0].end(), signal.f_size);
    std::copy(shape[1].begin(), shape[1].end(), signal.h_size);
    std::copy(shape[0].begin(), shape[0].end(), signal.out_size);
    signal.f_count = signal.h_count = 1;
    signal.f = f.data.data();
    signal.h = h.data.data();
    signal.out = out.data.data();
    const Blocks blocks[] = {conv::whole(signal), conv::tiled(signal)};
    for (int method = 0; method < 3; ++method) {
      const auto run = [&](int threads) {
        core::set_thread_limit(threads);
        method == 2 ? level.direct(signal) : level.by_transforms(signal, blocks[method]);
        return out.data;
      };
      const std::vector<T> alone = run(1);
      for (int threads : {2, 5})
        CHECK(run(threads) == alone, "%s method %d rank %d, %d threads", level.name.c_str(), method, signal.rank,
              threads);
    }
  }
  core::set_thread_limit(0);
}

const fastdl_convolution_mode modes[] = {FASTDL_MODE_FULL, FASTDL_MODE_SAME, FASTDL_MODE_VALID, FASTDL_MODE_CIRCULAR};
const fastdl_convolution_method methods[] = {FASTDL_METHOD_AUTO, FASTDL_METHOD_DIRECT, FASTDL_METHOD_FFT,
                                             FASTDL_METHOD_OVERLAP_ADD};

template <class T>
Array<T> reversed(const Array<T>& h) {
  Array<T> result(h.sizes);
  std::reverse_copy(h.data.begin(), h.data.end(), result.data.begin());
  return result;
}

// Sizes of the result and where it begins in the full convolution, as the header says.
bool window(fastdl_convolution_mode mode, bool correlate, const Sizes& f, const Sizes& h, Sizes& sizes, Sizes& offset) {
  bool f_larger = true, h_larger = true;
  sizes.clear();
  offset.clear();
  for (std::size_t a = 0; a < f.size(); ++a) {
    f_larger &= f[a] >= h[a];
    h_larger &= h[a] >= f[a];
    switch (mode) {
      case FASTDL_MODE_FULL:
        sizes.push_back(f[a] + h[a] - 1), offset.push_back(0);
        break;
      case FASTDL_MODE_SAME:
        sizes.push_back(f[a]), offset.push_back((h[a] - 1) / 2);
        break;
      case FASTDL_MODE_VALID:
        sizes.push_back(std::abs(f[a] - h[a]) + 1), offset.push_back(std::min(f[a], h[a]) - 1);
        break;
      default:  // of h reversed, number u is at u + h - 1
        sizes.push_back(f[a]), offset.push_back(correlate ? h[a] - 1 : 0);
    }
  }
  return mode != FASTDL_MODE_VALID || f_larger || h_larger;
}

template <class T>
void test_entry(const Sizes& f_sizes, const Sizes& h_sizes) {
  const auto f = Array<T>(f_sizes).randomize(), h = Array<T>(h_sizes).randomize();
  for (auto mode : modes)
    for (bool correlate : {false, true}) {
      Sizes sizes, offset;
      if (!window(mode, correlate, f_sizes, h_sizes, sizes, offset)) continue;
      const Array<T> taps = correlate ? reversed(h) : h;
      for (auto method : methods) {
        Array<T> out(sizes);
        correlate ? conv::correlate(f.view(), h.view(), mode, method, out.view())
                  : conv::convolve(f.view(), h.view(), mode, method, out.view());
        double worst = 0;
        each(sizes, [&](const Sizes& i) {
          double sum, size;
          expected(f, taps, i, offset, mode == FASTDL_MODE_CIRCULAR, sum, size);
          worst = std::max(worst, std::fabs(out.at(i) - sum));
        });
        // Both bounds at once, on the size of everything: this is about which sums are taken.
        const double bound = precision<T> * (8 + double(count_of(h_sizes))) * f.norm() * h.norm();
        CHECK(worst <= bound, "%s mode %d method %d, rank %d, first sizes %d %d: %g of %g",
              correlate ? "correlate" : "convolve", int(mode), int(method), int(f_sizes.size()),
              f_sizes.empty() ? 0 : int(f_sizes[0]), h_sizes.empty() ? 0 : int(h_sizes[0]), worst, bound);
      }
    }
}

// The same numbers through strides of any sign and order.
template <class T>
void test_strides() {
  const auto f = Array<T>({13, 10}).randomize(), h = Array<T>({4, 5}).randomize();
  Array<T> plain({16, 14}), turned({14, 33});
  std::vector<T> room(std::size_t(13 * 10 * 6));
  each(f.sizes, [&](const Sizes& i) { room[std::size_t(6 * (i[0] + 13 * (9 - i[1])))] = f.at(i); });
  const conv::ArrayView<const T> view{room.data() + 6 * 13 * 9, {13, 10}, {6, -6 * 13}};
  for (auto method : methods) {
    conv::convolve(f.view(), h.view(), FASTDL_MODE_FULL, method, plain.view());
    conv::convolve(view, h.view(), FASTDL_MODE_FULL, method, {turned.data.data(), {16, 14}, {2, 33}});
    bool same = true;
    each(plain.sizes, [&](const Sizes& i) { same &= plain.at(i) == turned.data[std::size_t(2 * i[0] + 33 * i[1])]; });
    CHECK(same, "method %d", int(method));
  }
}

// A value that is not finite stays with the sums that hold it: by the direct method, and by the one chosen.
template <class T>
void test_not_finite() {
  for (bool in_h : {false, true})
    for (T value : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
      auto f = Array<T>({900}).randomize(), h = Array<T>({300}).randomize();
      (in_h ? h : f).data[120] = value;
      for (auto method : {FASTDL_METHOD_AUTO, FASTDL_METHOD_DIRECT}) {
        Array<T> out({1199});
        conv::convolve(f.view(), h.view(), FASTDL_MODE_FULL, method, out.view());
        for (Index i = 0; i < 1199; ++i) {
          const bool touched = i >= 120 && i < 120 + (in_h ? 900 : 300);
          if (std::isfinite(double(out.at({i}))) == touched) {
            CHECK(false, "method %d, in h %d: number %d", int(method), int(in_h), int(i));
            break;
          }
          ++passed;
        }
      }
    }
}

template <class T>
void test_empty_and_wrong() {
  const Array<T> nothing({0}), some = Array<T>({5}).randomize(), plane = Array<T>({5, 2}).randomize();
  Array<T> none({0}), five({5}), nine({9});
  for (auto method : methods) {
    conv::convolve(some.view(), nothing.view(), FASTDL_MODE_FULL, method, none.view());
    conv::convolve(nothing.view(), some.view(), FASTDL_MODE_SAME, method, none.view());
    five.data.assign(5, T(3));
    conv::convolve(some.view(), nothing.view(), FASTDL_MODE_SAME, method, five.view());
    CHECK(five.data == std::vector<T>(5, T(0)), "an empty h, method %d", int(method));
  }
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no error";
  };
  const auto check = [&](const std::string& expected_, const auto& call) {
    const std::string got = message(call);
    CHECK(got == expected_, "%s", got.c_str());
  };
  check("[conv.convolve] expected out of shape (9), got (5)",
        [&] { conv::convolve(some.view(), some.view(), FASTDL_MODE_FULL, FASTDL_METHOD_AUTO, five.view()); });
  check("[conv.correlate] expected h of rank 1 as f, got 2",
        [&] { conv::correlate(some.view(), plane.view(), FASTDL_MODE_FULL, FASTDL_METHOD_AUTO, nine.view()); });
  check("[conv.convolve] expected a mode, got 9",
        [&] { conv::convolve(some.view(), some.view(), conv::Mode(9), FASTDL_METHOD_AUTO, nine.view()); });
  check("[conv.convolve] expected a method, got -1",
        [&] { conv::convolve(some.view(), some.view(), FASTDL_MODE_FULL, conv::Method(-1), nine.view()); });
  check("[conv.convolve] expected out with distinct elements, got a zero stride", [&] {
    conv::convolve(some.view(), some.view(), FASTDL_MODE_FULL, FASTDL_METHOD_AUTO, {nine.data.data(), {9}, {0}});
  });
  check("[conv.convolve] expected f with data, got a null pointer",
        [&] { conv::convolve({nullptr, {5}, {1}}, some.view(), FASTDL_MODE_FULL, FASTDL_METHOD_AUTO, nine.view()); });
  check(
      "[conv.convolve] expected one of f and h at least as large as the other along every axis for valid, got (5, 2) "
      "and (2, 5)",
      [&] {
        conv::convolve(plane.view(), {plane.data.data(), {2, 5}, {5, 1}}, FASTDL_MODE_VALID, FASTDL_METHOD_AUTO,
                       {nine.data.data(), {4, 2}, {2, 1}});
      });
}

template <class T>
void test_type() {
  for (const auto& level : levels_to_test<Level<T>>(smoke)) {
    const int before = failed;
    Errors worst;
    test_bodies(level, {1}, {1}, {1}, {0}, worst);
    test_bodies(level, {50}, {7}, {56}, {0}, worst);
    test_bodies(level, {300}, {100}, {300}, {49}, worst);
    test_bodies(level, {33, 20}, {4, 9}, {36, 28}, {0, 0}, worst);
    test_bodies(level, {30, 41}, {12, 3}, {19, 39}, {11, 2}, worst);
    test_bodies(level, {9, 8, 11}, {2, 5, 3}, {9, 8, 11}, {0, 2, 1}, worst);
    test_bodies(level, {5, 4, 3, 6}, {2, 2, 2, 3}, {6, 5, 4, 8}, {0, 0, 0, 0}, worst);
    if (!quick) {
      test_bodies(level, {3000}, {700}, {3699}, {0}, worst);
      test_bodies(level, {90, 70}, {40, 30}, {129, 99}, {0, 0}, worst);
    }
    test_layer(level, 1, 1, 1, {1}, {1}, worst);
    test_layer(level, 2, 3, 5, {40}, {9}, worst);
    test_layer(level, 3, 2, 2, {30, 21}, {7, 7}, worst);
    test_layer(level, 1, 0, 2, {5, 6}, {2, 2}, worst);
    test_layer(level, 1, 3, 3, {9, 8, 10}, {3, 8, 2}, worst);
    if (!quick) test_layer(level, 2, 5, 4, {50, 60}, {11, 5}, worst);
    if (!smoke) test_threads(level);
    std::printf("%s %s: %s, errors up to %.2f (direct), %.2f (transforms) and %.2f (layers) of their bounds\n",
                level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64", failed == before ? "ok" : "FAILED", worst.direct,
                worst.transformed, worst.layer);
  }
  const Sizes shapes[][2] = {{{}, {}},
                             {{1}, {1}},
                             {{9}, {4}},
                             {{4}, {9}},
                             {{200}, {31}},
                             {{6, 7}, {3, 2}},
                             {{2, 3}, {5, 8}},
                             {{3, 8}, {5, 2}},
                             {{20, 1}, {1, 6}},
                             {{3, 9, 8}, {1, 2, 3}},
                             {{1, 9, 8}, {4, 2, 3}},
                             {{5, 3, 6}, {2, 1, 4}},
                             {{4, 1, 5}, {1, 3, 2}},
                             {{3, 2, 4, 3}, {2, 3, 1, 2}}};
  for (const auto& [f, h] : shapes) test_entry<T>(f, h);
  test_strides<T>();
  test_not_finite<T>();
  test_empty_and_wrong<T>();
}

}  // namespace

int main(int argc, char** argv) {
  smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  quick = smoke || (argc > 1 && std::string(argv[1]) == "--quick");
  test_type<float>();
  test_type<double>();
  return summary();
}
