// Rules of learning and associative memories, at every level this machine can run, against loops in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "hebbian/bodies.hpp"

#define TEST_LEVEL(level)                  \
  {#level,                                 \
   fastdl::hebbian::level::learn,          \
   fastdl::hebbian::level::learn_together, \
   fastdl::hebbian::level::weights,        \
   fastdl::hebbian::level::energy,         \
   fastdl::hebbian::level::recall,         \
   fastdl::hebbian::level::crosstalk,      \
   fastdl::hebbian::level::center}
#include "levels.hpp"

using namespace fastdl;
using hebbian::Matrix;
using hebbian::Rule;
using hebbian::Steps;
using Index = std::int64_t;

namespace {

bool smoke = false, quick = false;
std::mt19937_64 bits(7);
double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform()); }

template <class T>
struct Level {
  std::string name;
  void (*learn)(const Rule&, const Matrix<const T>&, const Matrix<const T>&, Steps<T>, T*, const Matrix<T>&, Index&);
  void (*learn_together)(const Rule&, const Matrix<const T>&, const Matrix<const T>&, Steps<T>, const Matrix<T>&,
                         Index&);
  void (*weights)(const Matrix<const T>&, bool, const Matrix<T>&);
  void (*energy)(const Matrix<const T>&, const Matrix<const T>&, const Matrix<const T>&, T*, Index);
  void (*recall)(const Matrix<const T>&, const Matrix<const T>&, bool, Index, const Index*, Index, Index,
                 const Matrix<T>&);
  void (*crosstalk)(const Matrix<const T>&, const Matrix<T>&);
  void (*center)(const Matrix<const T>&, const double*, Index, double*, const Matrix<T>&);
};

template <class T>
struct Array {
  std::vector<T> data;
  Index rows, cols;

  Array(Index n, Index m, double size = 1) : data(std::size_t(n * m)), rows(n), cols(m) {
    for (T& v : data) v = T(size * normal());
  }
  Matrix<const T> view() const { return {data.data(), rows, cols, cols, 1}; }
  Matrix<T> writable() { return {data.data(), rows, cols, cols, 1}; }
  double at(Index i, Index j) const { return double(data[std::size_t(i * cols + j)]); }
};

template <class T>
constexpr double eps = sizeof(T) == 4 ? 0x1p-23 : 0x1p-52;

Rule rule_of(fastdl_hebbian_kind kind) { return {kind, FASTDL_HEBBIAN_AUTO, 0, 20.0, 0.4, 0.7, 3, 2.0}; }

// One sample, by the formula: W += step (y x' - M(y y') W) or what else the rule has.
void learn_one(const Rule& rule, std::vector<double>& w, Index k, Index d, const std::vector<double>& x, double lr,
               std::vector<double>& theta) {
  const auto at = [&](Index i, Index j) -> double& { return w[std::size_t(i * d + j)]; };
  std::vector<double> y(std::size_t(k), 0.0), before = w;
  for (Index i = 0; i < k; ++i)
    for (Index j = 0; j < d; ++j) y[std::size_t(i)] += at(i, j) * x[std::size_t(j)];
  std::vector<double> gain(std::size_t(k), 0.0), decay(std::size_t(k), 0.0);
  if (rule.kind == FASTDL_HEBBIAN_SOFT) {
    double total = 0;
    for (Index i = 0; i < k; ++i) total += gain[std::size_t(i)] = std::exp(y[std::size_t(i)] / rule.temperature);
    for (Index i = 0; i < k; ++i) gain[std::size_t(i)] /= total, decay[std::size_t(i)] = y[std::size_t(i)];
  } else if (rule.kind == FASTDL_HEBBIAN_KROTOV) {
    std::vector<Index> order;
    for (Index i = 0; i < k; ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return y[std::size_t(a)] > y[std::size_t(b)]; });
    gain[std::size_t(order[0])] = 1;
    if (rule.rank <= k) gain[std::size_t(order[std::size_t(rule.rank - 1)])] = -rule.delta;
    decay = y;
  } else if (rule.kind == FASTDL_HEBBIAN_BCM) {
    for (Index i = 0; i < k; ++i) {
      const std::size_t u = std::size_t(i);
      gain[u] = y[u] * (y[u] - theta[u]);
      theta[u] += (y[u] * y[u] - theta[u]) / rule.tau;
    }
  } else {
    gain = y;
    if (rule.kind == FASTDL_HEBBIAN_OJA) decay = y;
  }
  for (Index i = 0; i < k; ++i)
    for (Index j = 0; j < d; ++j) {
      double left = x[std::size_t(j)] - decay[std::size_t(i)] * before[std::size_t(i * d + j)];
      const Index to = rule.kind == FASTDL_HEBBIAN_SANGER ? i + 1 : rule.kind == FASTDL_HEBBIAN_SUBSPACE ? k : 0;
      for (Index u = 0; u < to; ++u) left -= y[std::size_t(u)] * before[std::size_t(u * d + j)];
      at(i, j) += lr * gain[std::size_t(i)] * left;
    }
  if (rule.kind != FASTDL_HEBBIAN_NORMALIZED) return;
  for (Index i = 0; i < k; ++i) {
    double square = 0;
    for (Index j = 0; j < d; ++j) square += at(i, j) * at(i, j);
    for (Index j = 0; j < d && square > 0; ++j) at(i, j) /= std::sqrt(square);
  }
}

template <class T>
void test_rules(const Level<T>& level, Index k, Index d, Index n) {
  const Array<T> w(k, d, 1 / std::sqrt(double(d))), x(n, d);
  std::vector<T> lr;
  for (Index t = 0; t < n; ++t) lr.push_back(T((0.2 + 0.8 * uniform()) * 0.2 / double(d)));
  for (int kind = FASTDL_HEBBIAN_HEBB; kind <= FASTDL_HEBBIAN_SOFT; ++kind) {
    Rule rule = rule_of(fastdl_hebbian_kind(kind));
    std::vector<double> expected(w.data.begin(), w.data.end()), theta(std::size_t(k), 0.1);
    for (Index t = 0; t < n; ++t) {
      std::vector<double> sample;
      for (Index j = 0; j < d; ++j) sample.push_back(x.at(t, j));
      learn_one(rule, expected, k, d, sample, double(lr[std::size_t(t)]), theta);
    }
    double size = 1;
    for (double v : expected) size = std::max(size, std::fabs(v));
    // Some roundings of the weights for each sample, and of a sum of d products.
    const double allowed = 4 * (8 + 4 * double(n) + 2 * std::sqrt(double(d))) * eps<T> * size;
    for (const auto algorithm : {FASTDL_HEBBIAN_LOOP, FASTDL_HEBBIAN_BLOCKS}) {
      rule.algorithm = algorithm;
      std::vector<T> first;
      for (int threads : {1, 3}) {
        core::set_thread_count(threads);
        Array<T> out(k, d);
        std::vector<T> thresholds(std::size_t(k), T(0.1));
        Index diverged = 99;
        level.learn(rule, w.view(), x.view(), {lr.data(), 1}, kind == FASTDL_HEBBIAN_BCM ? thresholds.data() : nullptr,
                    out.writable(), diverged);
        double worst = 0;
        for (std::size_t i = 0; i < expected.size(); ++i)
          worst = std::max(worst, std::fabs(double(out.data[i]) - expected[i]));
        CHECK(diverged == hebbian::all_finite && worst <= allowed, "%s rule %d algorithm %d, %d %d %d: %g of %g",
              level.name.c_str(), kind, int(algorithm), int(k), int(d), int(n), worst, allowed);
        if (threads == 1) first = out.data;
        CHECK(out.data == first, "%s rule %d: bits differ with the threads", level.name.c_str(), kind);
      }
      // A bad sample is named, and nothing is written.
      Array<T> bad = x, kept = w;
      bad.data[std::size_t((n / 2) * d)] = T(NAN);
      Index diverged = 99;
      std::vector<T> thresholds(std::size_t(k), T(0.1)), same = thresholds;
      level.learn(rule, kept.view(), bad.view(), {lr.data(), 1},
                  kind == FASTDL_HEBBIAN_BCM ? thresholds.data() : nullptr, kept.writable(), diverged);
      CHECK(diverged == n / 2 && kept.data == w.data && thresholds == same, "%s rule %d: diverged at %d of %d",
            level.name.c_str(), kind, int(diverged), int(n / 2));
    }
    if (kind > FASTDL_HEBBIAN_SUBSPACE || kind == FASTDL_HEBBIAN_NORMALIZED) continue;
    // All samples at once, with a step so small that the sum of the changes is what they make one after the other, but
    // for the square of it.
    rule.together = 1;
    std::vector<double> sum(w.data.begin(), w.data.end());
    for (Index t = 0; t < n; ++t) {
      std::vector<double> sample, alone(w.data.begin(), w.data.end());
      for (Index j = 0; j < d; ++j) sample.push_back(x.at(t, j));
      learn_one(rule, alone, k, d, sample, double(lr[std::size_t(t)]), theta);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += alone[i] - double(w.data[i]);
    }
    Array<T> out(k, d);
    Index diverged = 99;
    level.learn_together(rule, w.view(), x.view(), {lr.data(), 1}, out.writable(), diverged);
    double worst = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) worst = std::max(worst, std::fabs(double(out.data[i]) - sum[i]));
    CHECK(diverged == hebbian::all_finite && worst <= allowed, "%s rule %d together: %g of %g", level.name.c_str(),
          kind, worst, allowed);
  }
}

// In whole numbers, so exact in any order.
template <class T>
void test_memory(const Level<T>& level, Index m, Index d) {
  Array<T> w(d, d), s(m, d), b(d, 1);
  for (T& v : w.data) v = T(int(uniform() * 17) - 8);
  for (T& v : s.data) v = uniform() < 0.5 ? T(-1) : T(1);
  for (T& v : b.data) v = T(int(uniform() * 5) - 2);
  std::vector<Index> order;
  for (Index i = 0; i < d; ++i) order.push_back(d - 1 - i);
  for (bool together : {false, true})
    for (Index sweeps : {Index(1), Index(4), Index(9)}) {
      Array<T> found = s;
      level.recall(w.view(), b.view(), together, sweeps, order.data(), 1, d, found.writable());
      Array<T> expected = s;
      for (Index i = 0; i < m; ++i)
        for (Index sweep = 0; sweep < sweeps; ++sweep) {
          const Array<T> before = expected;
          for (Index u : order) {
            double field = -b.at(u, 0);
            for (Index j = 0; j < d; ++j) field += w.at(u, j) * (together ? before : expected).at(i, j);
            expected.data[std::size_t(i * d + u)] = field >= 0 ? T(1) : T(-1);
          }
        }
      CHECK(found.data == expected.data, "%s recall %d %d, together %d, %d sweeps", level.name.c_str(), int(m), int(d),
            int(together), int(sweeps));
    }
  std::vector<T> energies(static_cast<std::size_t>(m));
  level.energy(w.view(), s.view(), b.view(), energies.data(), 1);
  bool right = true;
  for (Index i = 0; i < m; ++i) {
    double sum = 0;
    for (Index u = 0; u < d; ++u) {
      sum += b.at(u, 0) * s.at(i, u);
      for (Index j = 0; j < d; ++j) sum -= s.at(i, u) * w.at(u, j) * s.at(i, j) / 2;
    }
    right &= double(energies[std::size_t(i)]) == sum;
  }
  CHECK(right, "%s energy %d %d", level.name.c_str(), int(m), int(d));

  Array<T> stored(d, d), cross(m, d);
  level.weights(s.view(), true, stored.writable());
  level.crosstalk(s.view(), cross.writable());
  double worst = 0;
  for (Index i = 0; i < d; ++i)
    for (Index j = 0; j < d; ++j) {
      double sum = 0;
      for (Index p = 0; p < m; ++p) sum += s.at(p, i) * s.at(p, j);
      worst = std::max(worst, std::fabs(stored.at(i, j) - (i == j ? 0 : sum / double(d))));
    }
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < d; ++j) {
      double sum = 0;
      for (Index p = 0; p < m; ++p)
        for (Index u = 0; u < d && p != i; ++u) sum += s.at(i, u) * s.at(p, u) * s.at(p, j) / double(d);
      worst = std::max(worst, std::fabs(cross.at(i, j) - sum));
    }
  CHECK(worst <= 4 * double(m + 1) * eps<T>, "%s weights and crosstalk %d %d: %g", level.name.c_str(), int(m), int(d),
        worst);
}

template <class T>
void test_center(const Level<T>& level, Index n, Index d) {
  const Array<T> x(n, d);
  Array<T> out(n, d);
  std::vector<double> mean(std::size_t(d), 0.5), after(mean);
  level.center(x.view(), mean.data(), 3, after.data(), out.writable());
  double worst = 0;
  for (Index j = 0; j < d; ++j) {
    double sum = 1.5;
    for (Index t = 0; t < n; ++t) {
      sum += x.at(t, j);
      worst = std::max(worst, std::fabs(out.at(t, j) - (x.at(t, j) - sum / double(t + 4))));
    }
    worst = std::max(worst, std::fabs(after[std::size_t(j)] - sum / double(n + 3)));
  }
  CHECK(worst <= 8 * eps<T> + double(n) * 1e-15, "%s center %d %d: %g", level.name.c_str(), int(n), int(d), worst);
}

template <class T>
void test_type() {
  for (const auto& level : levels_to_test<Level<T>>(smoke)) {
    const int before = failed;
    for (const auto& [k, d, n] : std::vector<std::array<Index, 3>>{
             {1, 1, 1}, {2, 7, 9}, {5, 16, 33}, {17, 33, 15}, {9, 130, 70}, {33, 65, 64}, {70, 300, 97}})
      if (k * d * n < (smoke ? 4000 : quick ? 150000 : 1 << 30)) test_rules(level, k, d, n);
    for (const auto& [m, d] : std::vector<std::array<Index, 2>>{{1, 1}, {3, 7}, {5, 16}, {9, 33}, {20, 65}})
      test_memory(level, m, d);
    test_center(level, 1, 1);
    test_center(level, 40, 70);
    std::printf("%s %s: %s\n", level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64", failed == before ? "ok" : "FAILED");
  }
}

}  // namespace

int main(int argc, char** argv) {
  smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  quick = argc > 1 && std::string(argv[1]) == "--quick";
  test_type<float>();
  test_type<double>();
  return summary();
}
