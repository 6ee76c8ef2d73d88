// What is made of Gram matrices and of features, at every level this machine can run, against loops in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "gram/bodies.hpp"

#define TEST_LEVEL(level)             \
  {#level,                            \
   fastdl::gram::level::distance,     \
   fastdl::gram::level::invariant,    \
   fastdl::gram::level::center,       \
   fastdl::gram::level::dependence,   \
   fastdl::gram::level::feature_gram, \
   fastdl::gram::level::empirical_ntk}
#include "levels.hpp"

using namespace fastdl;
using gram::Kernel;
using gram::Matrix;
using Index = std::int64_t;

namespace {

bool smoke = false;
std::mt19937_64 bits(5);
double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

template <class T>
struct Level {
  std::string name;
  void (*distance)(const Kernel&, const Matrix<const T>&, const Matrix<const T>&, bool, const Matrix<T>&);
  void (*invariant)(const Kernel&, const Matrix<const T>&, const Matrix<const T>&, bool, const Index*, Index, bool,
                    const Matrix<T>&);
  void (*center)(const Matrix<const T>&, const Matrix<T>&);
  void (*dependence)(const Matrix<const T>&, const Matrix<const T>&, bool, bool, T*);
  void (*feature_gram)(const T*, Index, Index, Index, bool, T*);
  void (*empirical_ntk)(const Matrix<const T>&, const Matrix<const T>&, bool, const Matrix<T>&);
};

template <class T>
struct Array {
  std::vector<T> data;
  Index rows, cols;

  Array(Index n, Index m) : data(std::size_t(n * m)), rows(n), cols(m) {
    for (T& v : data) v = T(uniform() - 0.3);
  }
  Matrix<const T> view() const { return {data.data(), rows, cols, cols, 1}; }
  Matrix<const T> turned() const { return {data.data(), cols, rows, 1, cols}; }
  Matrix<T> writable() { return {data.data(), rows, cols, cols, 1}; }
  double at(Index i, Index j) const { return double(data[std::size_t(i * cols + j)]); }
};

template <class T>
constexpr double eps = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;

// exp(-gamma |gx - hy|^2), and the sum of it over g and h
double rbf(double gamma, const auto& x, Index i, const Index* g, const auto& y, Index j, const Index* h) {
  double sum = 0;
  for (Index f = 0; f < x.cols; ++f) {
    const double t = x.at(i, g ? g[f] : f) - y.at(j, h ? h[f] : f);
    sum += t * t;
  }
  return std::exp(-gamma * sum);
}

template <class T>
void test_kernels(const Level<T>& level, Index n, Index m, Index d) {
  const Array<T> x(n, d), y(m, d);
  const Kernel kernel = fastdl_kernel_default(FASTDL_RBF, d);
  Array<T> out(n, m), own(n, n);
  level.distance(kernel, x.view(), y.view(), false, out.writable());
  level.distance(kernel, x.view(), x.view(), true, own.writable());
  const double limit = 64 * (8 + std::sqrt(double(d))) * eps<T> + (sizeof(T) == 4 ? 1e-5 : 1e-12);
  double worst = 0, diagonal = 0;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < m; ++j)
      worst = std::max(worst, std::fabs(out.at(i, j) - 2 * (1 - rbf(kernel.gamma, x, i, nullptr, y, j, nullptr))));
    for (Index j = 0; j < n; ++j)
      worst = std::max(worst, std::fabs(own.at(i, j) - 2 * (1 - rbf(kernel.gamma, x, i, nullptr, x, j, nullptr))));
    diagonal = std::max(diagonal, std::fabs(own.at(i, i)));
  }
  CHECK(worst <= limit && diagonal == 0, "%s distance %d %d %d: %g", level.name.c_str(), int(n), int(m), int(d), worst);

  // Cyclic shifts: a group, and two of them, which are none.
  std::vector<Index> shifts;
  for (Index g = 0; g < d; ++g)
    for (Index f = 0; f < d; ++f) shifts.push_back((f + g) % d);
  for (bool group : {true, false}) {
    const Index order = group ? d : std::min<Index>(d, 2);
    const auto expected = [&](const Array<T>& b, Index i, Index j) {
      double sum = 0;
      for (Index g = 0; g < order; ++g)
        for (Index h = 0; h < order; ++h)
          sum += rbf(kernel.gamma, x, i, shifts.data() + g * d, b, j, shifts.data() + h * d);
      return sum;
    };
    level.invariant(kernel, x.view(), y.view(), false, shifts.data(), order, group, out.writable());
    level.invariant(kernel, x.view(), x.view(), true, shifts.data(), order, group, own.writable());
    worst = 0;
    bool symmetric = true;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < m; ++j) worst = std::max(worst, std::fabs(out.at(i, j) - expected(y, i, j)));
      for (Index j = 0; j < n; ++j) {
        worst = std::max(worst, std::fabs(own.at(i, j) - expected(x, i, j)));
        symmetric &= own.at(i, j) == own.at(j, i);
      }
    }
    CHECK(worst <= double(order * order) * (limit + double(order) * eps<T>) && symmetric, "%s invariant %d %d %d: %g",
          level.name.c_str(), int(n), int(m), int(d), worst);
  }
}

// K less the means of its rows and columns, by the definition (I - U) K (I - U).
template <class T>
std::vector<double> centred(const Array<T>& k) {
  const Index n = k.rows;
  std::vector<double> rows(static_cast<std::size_t>(n)), columns(rows), out(k.data.begin(), k.data.end());
  double total = 0;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) {
      rows[std::size_t(i)] += k.at(i, j) / double(n);
      columns[std::size_t(j)] += k.at(i, j) / double(n);
      total += k.at(i, j) / double(n * n);
    }
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) out[std::size_t(i * n + j)] += total - rows[std::size_t(i)] - columns[std::size_t(j)];
  return out;
}

template <class T>
double hsic(const Array<T>& k, const Array<T>& l, bool unbiased) {
  const Index n = k.rows;
  if (!unbiased) {
    const std::vector<double> a = centred(k), b = centred(l);
    double sum = 0;
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) sum += a[std::size_t(i * n + j)] * b[std::size_t(j * n + i)];
    return sum / double((n - 1) * (n - 1));
  }
  double trace = 0, of_k = 0, of_l = 0, across = 0;
  for (Index i = 0; i < n; ++i) {
    double column = 0, row = 0;
    for (Index j = 0; j < n; ++j) {
      if (i == j) continue;
      trace += k.at(i, j) * l.at(j, i);
      column += k.at(j, i), row += l.at(i, j);
    }
    of_k += column, of_l += row, across += column * row;
  }
  const double m = double(n);
  return (trace + of_k * of_l / ((m - 1) * (m - 2)) - 2 * across / (m - 2)) / (m * (m - 3));
}

template <class T>
void test_statistics(const Level<T>& level, Index n) {
  const Array<T> k(n, n), l(n, n);
  Array<T> out(n, n), of_turned(n, n);
  level.center(k.view(), out.writable());
  level.center(k.turned(), of_turned.writable());
  const std::vector<double> expected = centred(k);
  double worst = 0;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) {
      worst = std::max(worst, std::fabs(out.at(i, j) - expected[std::size_t(i * n + j)]));
      worst = std::max(worst, std::fabs(of_turned.at(j, i) - expected[std::size_t(i * n + j)]));
    }
  // Beside the rounding of T: the three means are sums of n numbers below 1, in double, here as there.
  CHECK(worst <= 2 * eps<T> + 3 * double(n) * 0x1p-52, "%s center %d: %g", level.name.c_str(), int(n), worst);
  for (bool unbiased : {false, true}) {
    if (n < (unbiased ? 4 : 2)) continue;
    T value, aligned;
    level.dependence(k.view(), l.view(), unbiased, false, &value);
    level.dependence(k.view(), l.view(), unbiased, true, &aligned);
    const double wanted = hsic(k, l, unbiased), a = hsic(k, k, unbiased), b = hsic(l, l, unbiased);
    CHECK(std::fabs(value - wanted) <= 4 * eps<T> * std::fabs(wanted) + 1e-15, "%s hsic %d: %g of %g",
          level.name.c_str(), int(n), value - wanted, wanted);
    if (a > 0 && b > 0)
      CHECK(std::fabs(aligned - wanted / std::sqrt(a * b)) <= (4 * eps<T> + 1e-12) * (1 + std::fabs(aligned)),
            "%s cka %d", level.name.c_str(), int(n));
  }
}

template <class T>
void test_features(const Level<T>& level, Index samples, Index channels, Index positions) {
  const Array<T> x(samples * channels, positions), jacobian(channels, positions);
  Array<T> out(samples * channels, channels), k(channels, channels), half(channels, channels);
  for (bool center : {false, true}) {
    level.feature_gram(x.data.data(), samples, channels, positions, center, out.data.data());
    double worst = 0;
    for (Index i = 0; i < samples * channels; ++i)
      for (Index j = 0; j < channels; ++j) {
        const Index other = i / channels * channels + j;
        double sum = 0, first = 0, second = 0;
        for (Index p = 0; p < positions; ++p)
          sum += x.at(i, p) * x.at(other, p), first += x.at(i, p), second += x.at(other, p);
        if (center) sum -= first * second / double(positions);
        worst = std::max(worst, std::fabs(out.at(i, j) - sum / double(positions)));
      }
    CHECK(worst <= (4 + std::sqrt(double(positions))) * eps<T>, "%s feature_gram: %g", level.name.c_str(), worst);
  }
  level.empirical_ntk(jacobian.view(), jacobian.view(), false, k.writable());
  level.empirical_ntk(jacobian.view(), jacobian.view(), true, half.writable());
  double worst = 0;
  for (Index i = 0; i < channels; ++i)
    for (Index j = 0; j < channels; ++j) {
      double sum = 0;
      for (Index p = 0; p < positions; ++p) sum += jacobian.at(i, p) * jacobian.at(j, p);
      worst = std::max({worst, std::fabs(k.at(i, j) - sum), std::fabs(half.at(i, j) - sum)});
    }
  CHECK(worst <= double(positions) * (4 + std::sqrt(double(positions))) * eps<T>, "%s empirical_ntk: %g",
        level.name.c_str(), worst);
}

template <class T>
void test_type() {
  for (const auto& level : levels_to_test<Level<T>>(smoke)) {
    const int before = failed;
    for (const auto& [n, m, d] : std::vector<std::array<Index, 3>>{{1, 1, 1}, {7, 9, 3}, {17, 130, 8}, {33, 16, 9}})
      if (!smoke || n * m * d < 1000) test_kernels(level, n, m, d);
    for (Index n : {1, 2, 3, 4, 5, 17, 33, 100}) test_statistics(level, n);
    for (const auto& [n, c, p] : std::vector<std::array<Index, 3>>{{1, 1, 1}, {3, 7, 17}, {2, 33, 40}})
      test_features(level, n, c, p);
    if (!smoke) test_features(level, 1, 5, 70000);  // more parameters than are summed together
    std::printf("%s %s: %s\n", level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64", failed == before ? "ok" : "FAILED");
  }
}

}  // namespace

int main(int argc, char** argv) {
  smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  test_type<float>();
  test_type<double>();
  return summary();
}
