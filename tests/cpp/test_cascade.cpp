// The fast wavelet transform with arbitrary filters, at every level this machine can run, against sums in double.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "scattering/cascade.hpp"

#define TEST_LEVEL(level) {#level, fastdl::scattering::level::wavelet, fastdl::scattering::level::wavelet_inverse}
#include "levels.hpp"

using namespace fastdl;
using Index = std::int64_t;
using Grid = std::vector<double>;

namespace {

std::mt19937_64 bits(13);
double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1; }

template <class T>
struct Level {
  std::string name;
  void (*forward)(const scattering::Cascade<T>&, const T*, T*, T* const*);
  void (*inverse)(const scattering::Cascade<T>&, const T*, const T* const*, T*);
};

// Low-pass down or not, and across or not, of an image at every second sample.
template <class T>
Grid filtered(const Grid& x, Index rows, Index columns, const std::vector<T>& down, const std::vector<T>& across) {
  Grid result;
  for (Index n = 0; n < rows / 2; ++n)
    for (Index m = 0; m < columns / 2; ++m) {
      double sum = 0;
      for (std::size_t t = 0; t < down.size(); ++t)
        for (std::size_t u = 0; u < across.size(); ++u)
          sum += double(down[t]) * double(across[u]) *
                 x[std::size_t((2 * n + Index(t)) % rows * columns + (2 * m + Index(u)) % columns)];
      result.push_back(sum);
    }
  return result;
}

template <class T>
void test_shape(Index batch, Index height, Index width, Index scales, Index taps, const std::vector<Level<T>>& levels) {
  // A sum of n terms has at most n roundings of the sum of their sizes; scales follow each other.
  const double rounding = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53, bound = rounding * 2 * double(taps) * double(scales + 1);
  std::vector<T> low(static_cast<std::size_t>(taps)), high(static_cast<std::size_t>(taps));
  for (T& v : low) v = T(uniform());
  for (T& v : high) v = T(uniform());
  const scattering::Cascade<T> cascade{batch, height, width, scales, taps, low.data(), high.data()};
  const Index samples = height * width, last = samples >> (2 * scales);
  std::vector<T> x(std::size_t(batch * samples));
  for (T& v : x) v = T(uniform());
  std::vector<T> low_sizes = low, high_sizes = high;
  for (T& v : low_sizes) v = std::abs(v);
  for (T& v : high_sizes) v = std::abs(v);
  std::vector<Grid> expected(std::size_t(scales + 1)), sizes(expected);  // details, and the averages
  for (Index b = 0; b < batch; ++b) {
    Grid image(x.begin() + b * samples, x.begin() + (b + 1) * samples), sums = image;
    for (double& v : sums) v = std::abs(v);
    const auto add = [](const Grid& part, Grid& all) { all.insert(all.end(), part.begin(), part.end()); };
    for (Index scale = 0; scale < scales; ++scale) {
      const Index rows = height >> scale, columns = width >> scale;
      for (const auto& [down, across] : {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
        add(filtered(image, rows, columns, down ? high : low, across ? high : low), expected[std::size_t(scale)]);
        add(filtered(sums, rows, columns, down ? high_sizes : low_sizes, across ? high_sizes : low_sizes),
            sizes[std::size_t(scale)]);
      }
      image = filtered(image, rows, columns, low, low);
      sums = filtered(sums, rows, columns, low_sizes, low_sizes);
    }
    add(image, expected.back());
    add(sums, sizes.back());
  }
  // The other way by the adjoint identity, of random averages and details.
  std::vector<std::vector<T>> given;
  for (const Grid& part : expected) {
    given.emplace_back();
    for (std::size_t i = 0; i < part.size(); ++i) given.back().push_back(T(uniform()));
  }
  std::vector<const T*> from;
  for (const auto& part : given) from.push_back(part.data());
  for (const Level<T>& level : levels) {
    std::vector<T> before;
    for (const int threads : {1, 3}) {
      core::set_thread_count(threads);
      std::vector<std::vector<T>> found;
      std::vector<T*> to;
      for (const Grid& part : expected) found.emplace_back(part.size(), T(NAN));
      for (auto& part : found) to.push_back(part.data());
      level.forward(cascade, x.data(), to.back(), to.data());
      std::vector<T> back(x.size(), T(NAN));
      level.inverse(cascade, from.back(), from.data(), back.data());
      double here = 0, there = 0, size = 0;
      for (std::size_t p = 0; p < found.size(); ++p) {
        double worst = 0;
        for (std::size_t i = 0; i < found[p].size(); ++i) {
          const double error = std::abs(double(found[p][i]) - expected[p][i]) / sizes[p][i];
          worst = error <= worst ? worst : error;
          here += double(given[p][i]) * expected[p][i];
          size += std::abs(double(given[p][i])) * sizes[p][i];
        }
        CHECK(worst <= bound, "%s %lldx%lld part %zu: %g", level.name.c_str(), (long long)height, (long long)width, p,
              worst);
      }
      for (std::size_t i = 0; i < x.size(); ++i) there += double(x[i]) * double(back[i]);
      CHECK(std::abs(here - there) <= bound * size, "%s %lldx%lld adjoint %g for %g", level.name.c_str(),
            (long long)height, (long long)width, there, here);
      CHECK(threads == 1 || std::memcmp(before.data(), back.data(), back.size() * sizeof(T)) == 0,
            "%s: other bits with more threads", level.name.c_str());
      before = back;
    }
  }
  core::set_thread_count(1);
  CHECK(last * batch == Index(expected.back().size()), "%lld averages", (long long)last);
}

void test_errors() {
  const double taps[2] = {1, 1};
  const fastdl_wavelet_shape good{1, 4, 4, 1, 2, taps, taps};
  float x[16] = {}, average[4], detail[12];
  float* details[1] = {detail};
  CHECK(fastdl_scattering_wavelet_f32(&good, x, average, details) == FASTDL_OK, "%s", fastdl_last_error());
  const auto refused = [&](const char* what, auto change) {
    fastdl_wavelet_shape other = good;
    change(other);
    CHECK(fastdl_scattering_wavelet_f32(&other, x, average, details) == FASTDL_INVALID_ARGUMENT, "%s", what);
    CHECK(std::strstr(fastdl_last_error(), "[scattering.wavelet] expected"), "%s", fastdl_last_error());
  };
  refused("an odd size", [](fastdl_wavelet_shape& s) { s.height = 5; });
  refused("a negative size", [](fastdl_wavelet_shape& s) { s.width = -4; });
  refused("scales", [](fastdl_wavelet_shape& s) { s.scales = 61; });
  refused("three taps", [](fastdl_wavelet_shape& s) { s.taps = 3; });
  refused("no filter", [](fastdl_wavelet_shape& s) { s.high = nullptr; });
  refused("too many", [](fastdl_wavelet_shape& s) { s.batch = INT64_MAX / 2; });
  CHECK(fastdl_scattering_wavelet_f32(nullptr, x, average, details) == FASTDL_INVALID_ARGUMENT, "no shape");
  CHECK(fastdl_scattering_wavelet_f32(&good, x, average, nullptr) == FASTDL_INVALID_ARGUMENT, "no details");
  CHECK(fastdl_scattering_wavelet_inverse_f32(&good, nullptr, details, x) == FASTDL_INVALID_ARGUMENT, "no averages");
  fastdl_wavelet_shape none = good;
  none.batch = 0;
  CHECK(fastdl_scattering_wavelet_f32(&none, nullptr, nullptr, nullptr) == FASTDL_OK, "%s", fastdl_last_error());
}

template <class T>
void test_type(bool smoke) {
  const auto levels = levels_to_test<Level<T>>(smoke);
  for (const Index taps : {2, 6, 20}) {
    test_shape<T>(3, 8, 12, 2, taps, levels);
    test_shape<T>(1, 2, 2, 1, taps, levels);
    test_shape<T>(2, 24, 72, 3, taps, levels);
    test_shape<T>(1, 6, 134, 1, taps, levels);
    test_shape<T>(2, 5, 3, 0, taps, levels);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  test_type<float>(smoke);
  test_type<double>(smoke);
  test_errors();
  return summary();
}
