// The FFT engine at every level this machine can run, against the definition in long double.
//
// Errors are relative to the root mean square of the result. Every pass rounds a few times, so the bound is a small
// multiple of the type's precision times the root of the number of binary digits of n; the algorithms of Rader and of
// Bluestein, for large primes, go through two transforms of about the length or more than twice that.
#include <cmath>
#include <complex>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "fft/plan.hpp"
#include "fft_levels.hpp"

#define TEST_LEVEL(level)               \
  {#level,                              \
   fastdl::fft::level::lane_count,      \
   fastdl::fft::level::along_axis,      \
   fastdl::fft::level::lanes,           \
   fastdl::fft::level::real_to_complex, \
   fastdl::fft::level::complex_to_real}
#include "levels.hpp"

using namespace fastdl;
using Index = std::int64_t;

namespace {

template <class T>
struct Level {
  std::string name;
  int (*lane_count)(Index);
  void (*along_axis)(Index, Index, Index, bool, T*, T*);
  void (*transform)(Index, Index, bool, const T*, const T*, T*, T*);
  void (*real_to_complex)(Index, const T*, T*, T*);
  void (*complex_to_real)(Index, const T*, const T*, T*);
};

bool quick = false, smoke = false;
std::mt19937_64 bits(5);
double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-52 - 1; }

using Wide = std::complex<long double>;
constexpr long double pi = 3.14159265358979323846264338327950288L;

std::vector<Wide> roots_of(Index n) {
  std::vector<Wide> roots;
  for (Index e = 0; e < n; ++e) {
    const long double angle = -2 * pi * static_cast<long double>(e) / static_cast<long double>(n);
    roots.emplace_back(std::cos(angle), std::sin(angle));
  }
  return roots;
}

// One number of the transform, by its definition.
Wide expected(const std::vector<Wide>& x, const std::vector<Wide>& roots, Index k) {
  const auto n = static_cast<Index>(x.size());
  Wide sum = 0;
  for (Index j = 0, turn = 0; j < n; ++j, turn = (turn + k) % n) {
    const Wide a = x[std::size_t(j)], b = roots[std::size_t(turn)];  // their product, without the rules for infinities
    sum += Wide(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
  return sum;
}

template <class T>
struct Split {
  std::vector<T> re, im;
  explicit Split(Index n) : re(std::size_t(n)), im(std::size_t(n)) {}
  void randomize() {
    for (T& v : re) v = T(uniform());
    for (T& v : im) v = T(uniform());
  }
  Wide at(Index i) const { return {re[std::size_t(i)], im[std::size_t(i)]}; }
};

template <class T>
double bound(Index n) {
  const fft::SharedPlan<T> shared(n);
  const fft::Plan<T>& plan = shared.plan();
  bool convolves = plan.inner != nullptr;
  for (int i = 0; i < plan.passes; ++i) convolves = convolves || plan.pass[i].prime;
  const double digits = std::log2(double(n) + 1);
  return (convolves ? 1.5 : 0.6) * (sizeof(T) == 4 ? 0x1p-23 : 0x1p-52) * std::sqrt(digits + 1);
}

// The largest seen, in units of bound / multiple, for the report.
double worst_share = 0;

// Relative error over the root mean square, of some of the numbers when there are many.
template <class Got>
double error_of(const std::vector<Wide>& x, const std::vector<Wide>& roots, Index count, const Got& got) {
  long double wrong = 0, size = 0;
  const Index step = x.size() > 1000 ? 1 + count / 25 : 1;
  for (Index k = 0; k < count; k += step) {
    const Wide value = expected(x, roots, k);
    wrong += std::norm(got(k) - value);
    size += std::norm(value);
  }
  return double(std::sqrt(wrong / size));
}

template <class T>
void check_error(const char* what, const Level<T>& level, Index n, double error) {
  worst_share = std::fmax(worst_share, error / bound<T>(n));
  CHECK(error <= bound<T>(n), "%s %s n=%lld: %g of %g", level.name.c_str(), what, static_cast<long long>(n), error,
        bound<T>(n));
}

// Every lane its own transform, with a stride, forward and back.
template <class T>
void test_lanes(const Level<T>& level, Index n) {
  const Index lanes = level.lane_count(sizeof(T));
  Split<T> x(n * lanes), y(n * lanes), back(n * lanes);
  x.randomize();
  level.transform(n, 1 + n % 3, false, x.re.data(), x.im.data(), y.re.data(), y.im.data());
  level.transform(n, 1 + n % 2, true, y.re.data(), y.im.data(), back.re.data(), back.im.data());
  const std::vector<Wide> roots = roots_of(n);
  for (Index lane : {Index{0}, lanes - 1}) {
    std::vector<Wide> one;
    for (Index j = 0; j < n; ++j) one.push_back(x.at(j * lanes + lane));
    check_error("lanes", level, n, error_of(one, roots, n, [&](Index k) { return y.at(k * lanes + lane); }));
    long double wrong = 0, size = 0;
    for (Index j = 0; j < n; ++j) {
      wrong += std::norm(back.at(j * lanes + lane) / static_cast<long double>(n) - one[std::size_t(j)]);
      size += std::norm(one[std::size_t(j)]);
    }
    check_error("there and back", level, n, double(std::sqrt(wrong / size)) / 1.5);
  }
}

template <class T>
void test_real(const Level<T>& level, Index n) {
  const Index lanes = level.lane_count(sizeof(T)), half = n / 2 + 1;
  Split<T> x(n * lanes), y(half * lanes);
  x.randomize();
  level.real_to_complex(n, x.re.data(), y.re.data(), y.im.data());
  const std::vector<Wide> roots = roots_of(n);
  std::vector<Wide> one;
  for (Index j = 0; j < n; ++j) one.push_back(x.re[std::size_t(j * lanes + 1)]);
  check_error("real", level, n, error_of(one, roots, half, [&](Index k) { return y.at(k * lanes + 1); }));
  std::vector<T> back(std::size_t(n * lanes));
  level.complex_to_real(n, y.re.data(), y.im.data(), back.data());
  double wrong = 0, size = 0;
  for (std::size_t i = 0; i < back.size(); ++i) {
    wrong += std::pow(double(back[i]) / double(n) - double(x.re[i]), 2);
    size += std::pow(double(x.re[i]), 2);
  }
  check_error("real, there and back", level, n, std::sqrt(wrong / size) / 1.5);
}

// Along an axis of an array: rows by transposes, columns in the lanes, long ones in two steps; forward and inverse.
template <class T>
void test_axis(const Level<T>& level, Index outer, Index n, Index inner) {
  Split<T> x(outer * n * inner);
  x.randomize();
  Split<T> forward = x, inverse = x;
  level.along_axis(outer, n, inner, false, forward.re.data(), forward.im.data());
  level.along_axis(outer, n, inner, true, inverse.re.data(), inverse.im.data());
  const std::vector<Wide> roots = roots_of(n);
  for (Index o = 0; o < outer; o += outer > 1 ? outer - 1 : 1)  // the first and the last
    for (Index i = 0; i < inner; i += inner > 1 ? inner - 1 : 1) {
      const auto at = [&](Index j) { return (o * n + j) * inner + i; };
      std::vector<Wide> one, mirrored;
      for (Index j = 0; j < n; ++j) {
        one.push_back(x.at(at(j)));
        mirrored.push_back(std::conj(one.back()));
      }
      check_error("axis", level, n, error_of(one, roots, n, [&](Index k) { return forward.at(at(k)); }));
      check_error("inverse axis", level, n,
                  error_of(mirrored, roots, n, [&](Index k) { return std::conj(inverse.at(at(k))); }));
    }
}

template <class T>
void test_threads(const Level<T>& level) {
  const Index shapes[][3] = {{1, 1 << 15, 1}, {300, 120, 1}, {3, 200, 70}};
  for (const auto& [outer, n, inner] : shapes) {
    Split<T> x(outer * n * inner);
    x.randomize();
    core::set_thread_limit(1);
    Split<T> alone = x;
    level.along_axis(outer, n, inner, false, alone.re.data(), alone.im.data());
    for (int threads : {2, 5}) {
      core::set_thread_limit(threads);
      Split<T> again = x;
      level.along_axis(outer, n, inner, false, again.re.data(), again.im.data());
      CHECK(again.re == alone.re && again.im == alone.im, "%s %d with %d threads", level.name.c_str(), int(n), threads);
    }
  }
  core::set_thread_limit(0);
}

void test_sizes() {
  for (Index n = 1; n <= 3000; ++n) {
    const Index size = fft::good_size(n);
    Index rest = size, rows = 0, columns = 0;
    for (Index p : {2, 3, 5})
      while (rest % p == 0) rest /= p;
    CHECK(size >= n && size < 2 * n && rest == 1, "good_size(%d) = %d", int(n), int(size));
    fft::split(n, rows, columns);
    CHECK(rows * columns == n && rows <= columns, "split(%d)", int(n));
    fft::good_split(n, rows, columns);
    CHECK(rows * columns >= n && columns % 16 == 0, "good_split(%d)", int(n));
  }
}

template <class T>
void test_type() {
  for (const Level<T>& level : levels_to_test<Level<T>>(smoke)) {
    const int before = failed;
    worst_share = 0;
    for (Index n = 1; n <= (smoke ? 40 : quick ? 130 : 300); ++n) {
      test_lanes(level, n);
      test_real(level, n);
      if (n % 7 == 1) test_axis(level, 19, n, 1), test_axis(level, 2, n, 21);
    }
    if (!smoke)
      for (Index n : {384, 576, 625, 1000, 1009, 1024, 1152, 2048, 2401, 3125, 4096}) {
        test_lanes(level, n);
        test_real(level, n);
      }
    if (!quick)
      for (Index n : {8192, 9216, 12288, 15625, 65537, 131072, 1 << 20}) test_axis(level, 1, n, 1);
    if (!smoke) test_threads(level);
    std::printf("%s %s: %s, errors up to %.2f of their bounds\n", level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64",
                failed == before ? "ok" : "FAILED", worst_share);
  }
}

}  // namespace

int main(int argc, char** argv) {
  smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  quick = smoke || (argc > 1 && std::string(argv[1]) == "--quick");
  test_sizes();
  test_type<float>();
  test_type<double>();
  return summary();
}
