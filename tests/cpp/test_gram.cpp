// Every kernel, matvec and its gradients, softmax and sparse rows, at every level this machine can run, against loops
// in double.
//
// Samples are made so that the kernels are of order one; a result may be off by a multiple of the type's precision that
// grows with the number of features as a sum's error does. Also: symmetry to the bit, the diagonal, and bit-equality
// over thread counts.
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "gram/bodies.hpp"

#define TEST_LEVEL(level)           \
  {#level,                          \
   fastdl::gram::level::gram,       \
   fastdl::gram::level::diagonal,   \
   fastdl::gram::level::matvec,     \
   fastdl::gram::level::softmax,    \
   fastdl::gram::level::sparse,     \
   fastdl::gram::level::matvec_vjp, \
   fastdl::gram::level::vjp,        \
   fastdl::gram::level::part}
#include "levels.hpp"

using namespace fastdl;
using gram::Kernel;
using gram::Matrix;
using gram::SparseRows;
using Index = std::int64_t;

namespace {

bool quick = false, smoke = false;
std::mt19937_64 bits(11);
double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

constexpr double pi = 3.14159265358979323846;

// The angle between two samples, from their difference and sum as unit vectors (Kahan): accurate everywhere.
double angle(const std::vector<double>& x, const std::vector<double>& y) {
  double xx = 0, yy = 0, apart = 0, together = 0;
  for (std::size_t k = 0; k < x.size(); ++k) xx += x[k] * x[k], yy += y[k] * y[k];
  if (xx == 0 || yy == 0) return pi / 2;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const double u = x[k] / std::sqrt(xx), v = y[k] / std::sqrt(yy);
    apart += (u - v) * (u - v), together += (u + v) * (u + v);
  }
  return 2 * std::atan2(std::sqrt(apart), std::sqrt(together));
}

// Dense, (ReLU, Dense) x depth, by the recursion of the kernels' definition.
double network(const Kernel& k, double xy, double xx, double yy, std::size_t d) {
  const double w = k.w_std * k.w_std, b = k.b_std * k.b_std, scale = k.normalize ? 1 / double(d) : 1;
  double s = w * xy * scale + b, sx = w * xx * scale + b, sy = w * yy * scale + b, tangent = s;
  for (int layer = 0; layer < k.depth; ++layer) {
    const double root = std::sqrt(std::fmax(0, sx * sy - s * s));
    const double theta = s == 0 && root == 0 ? pi / 2 : std::atan2(root, s), slope = 0.5 - theta / (2 * pi);
    tangent *= slope;
    s = w * (root / (2 * pi) + slope * s) + b;
    sx = w * sx / 2 + b, sy = w * sy / 2 + b;
    tangent = s + w * tangent;
  }
  return k.kind == FASTDL_NTK ? tangent : s;
}

double expected(const Kernel& k, const std::vector<double>& x, const std::vector<double>& y) {
  const std::size_t d = x.size();
  double xy = 0, xx = 0, yy = 0, squared = 0, absolute = 0, chi = 0, product = 1;
  for (std::size_t f = 0; f < d; ++f) {
    const double t = x[f] - y[f], scaled = k.length_scales ? t / k.length_scales[f] : t;
    xy += x[f] * y[f], xx += x[f] * x[f], yy += y[f] * y[f];
    squared += scaled * scaled, absolute += std::fabs(t);
    chi += x[f] + y[f] == 0 ? 0 : t * t / (x[f] + y[f]);
    product *= t == 0 ? k.omega / pi : std::sin(k.omega * t) / (pi * t);
  }
  const double r = std::sqrt(squared) / (k.length_scales ? 1 : k.length_scale), theta = angle(x, y);
  const double lengths = std::sqrt(xx) * std::sqrt(yy);
  switch (k.kind) {
    case FASTDL_LINEAR:
      return xy;
    case FASTDL_POLYNOMIAL:
      return std::pow(k.gamma * xy + k.coef0, k.degree);
    case FASTDL_SIGMOID:
      return std::tanh(k.gamma * xy + k.coef0);
    case FASTDL_RBF:
      return std::exp(-k.gamma * squared);
    case FASTDL_LAPLACIAN:
      return std::exp(-k.gamma * absolute);
    case FASTDL_COSINE:
      return lengths == 0 ? 0 : xy / lengths;
    case FASTDL_ADDITIVE_CHI2:
      return -chi;
    case FASTDL_CHI2:
      return std::exp(-k.gamma * chi);
    case FASTDL_MATERN: {
      if (k.nu == 0.5) return std::exp(-r);
      const double t = std::sqrt(2 * k.nu) * r;
      if (k.nu == 1.5) return (1 + t) * std::exp(-t);
      if (k.nu == 2.5) return (1 + t + t * t / 3) * std::exp(-t);
      return std::exp(-r * r / 2);
    }
    case FASTDL_GEOMETRIC:
      return 1 / (1 - k.alpha * k.alpha * xy);
    case FASTDL_SINC:
      return product;
    case FASTDL_ARC_COSINE: {
      const double s = std::sin(theta), c = std::cos(theta), rest = pi - theta;
      if (k.order == 0) return rest / pi;
      if (k.order == 1) return lengths * (s + rest * c) / pi;
      return lengths * lengths * (3 * s * c + rest * (1 + 2 * c * c)) / pi;
    }
    default:
      return network(k, xy, xx, yy, d);
  }
}

struct Named {
  std::string name;
  Kernel kernel;
};

std::vector<Named> kernels(Index d, const double* scales) {
  std::vector<Named> list;
  const auto add = [&](const char* name, fastdl_kernel_kind kind) -> Kernel& {
    list.push_back({name, fastdl_kernel_default(kind, d)});
    return list.back().kernel;
  };
  add("linear", FASTDL_LINEAR);
  add("polynomial", FASTDL_POLYNOMIAL);
  add("polynomial 5", FASTDL_POLYNOMIAL).degree = 5;
  auto& real = add("polynomial 2.5", FASTDL_POLYNOMIAL);
  real.degree = 2.5, real.coef0 = 3;
  add("sigmoid", FASTDL_SIGMOID);
  add("rbf", FASTDL_RBF);
  add("laplacian", FASTDL_LAPLACIAN);
  add("cosine", FASTDL_COSINE);
  add("additive_chi2", FASTDL_ADDITIVE_CHI2);
  add("chi2", FASTDL_CHI2).gamma = 1.0 / double(d);
  for (double nu : {0.5, 1.5, 2.5, double(INFINITY)}) {
    auto& k = add("matern", FASTDL_MATERN);
    k.nu = nu, k.length_scale = std::sqrt(double(d));
  }
  add("matern by feature", FASTDL_MATERN).length_scales = scales;
  add("geometric", FASTDL_GEOMETRIC).alpha = 0.3 / std::sqrt(double(d));
  add("sinc", FASTDL_SINC).omega = 0.7;
  for (int order : {0, 1, 2}) add("arc_cosine", FASTDL_ARC_COSINE).order = order;
  for (auto kind : {FASTDL_NNGP, FASTDL_NTK})
    for (int depth : {0, 1, 3})
      for (double bias : {0.0, 0.4}) {
        auto& k = add(kind == FASTDL_NTK ? "ntk" : "nngp", kind);
        k.depth = depth, k.b_std = bias, k.w_std = 1.4;
      }
  return list;
}

template <class T>
struct Level {
  std::string name;
  void (*gram)(const Kernel&, const Matrix<const T>&, const Matrix<const T>&, bool, const Matrix<T>&);
  void (*diagonal)(const Kernel&, const Matrix<const T>&, T*, Index);
  void (*matvec)(const Kernel&, const Matrix<const T>&, const Matrix<const T>&, const Matrix<const T>&,
                 const Matrix<T>&);
  void (*softmax)(const Matrix<const T>&, const Matrix<const T>&, const Matrix<const T>&, double, const Matrix<T>&);
  void (*sparse)(const Kernel&, const SparseRows<T>&, const SparseRows<T>&, bool, const Matrix<T>&);
  void (*matvec_vjp)(const Kernel&, const Matrix<const T>&, const Matrix<const T>*, const Matrix<const T>&,
                     const Matrix<const T>&, const Matrix<T>&, const Matrix<T>*, const Matrix<T>&, double&);
  void (*vjp)(const Kernel&, const Matrix<const T>&, const Matrix<const T>*, const Matrix<const T>&, const Matrix<T>&,
              const Matrix<T>*, double&);
  void (*part)(const Kernel&, const Matrix<const T>&, Index, Index, const Matrix<T>&);
};

template <class T>
struct Samples {
  std::vector<T> data;
  Index rows, cols;

  Samples(Index n, Index d) : data(static_cast<std::size_t>(n * d)), rows(n), cols(d) {
    for (T& v : data) v = T(uniform() < 0.2 ? 0 : uniform());  // not negative, for chi2; with zeros
  }
  Matrix<const T> view() const { return {data.data(), rows, cols, cols, 1}; }
  Matrix<T> writable() { return {data.data(), rows, cols, cols, 1}; }
  std::vector<double> row(Index i) const {
    return std::vector<double>(data.begin() + i * cols, data.begin() + (i + 1) * cols);
  }
  T at(Index i, Index j) const { return data[static_cast<std::size_t>(i * cols + j)]; }
};

// Rounding of a sum over d features, and of a function of it that magnifies relative errors by at most 16; distances
// are promised to 1e-5 (f32) and 1e-12 (f64) of themselves where they are small differences.
template <class T>
double allowed(Index d) {
  return (sizeof(T) == 4 ? 4e-7 : 8e-16) * 16 * (4 + std::sqrt(double(d))) + (sizeof(T) == 4 ? 1e-5 : 1e-12);
}

// How well `expected` knows a pair: of parallel rows, as all are with one feature, and some are that have one feature
// other than 0, Sxx Syy - S^2 of its recursion is rounding, known to 1e-16, and its root to 1e-8.
double unknown(const Kernel& kernel, const std::vector<double>& x, const std::vector<double>& y) {
  if (kernel.kind != FASTDL_NNGP && kernel.kind != FASTDL_NTK) return 0;
  for (std::size_t f = 0; f < x.size(); ++f)
    for (std::size_t g = 0; g < f; ++g)
      if (x[f] * y[g] != x[g] * y[f]) return 0;
  return 1e-7;
}

template <class T>
void test_kernels(const Level<T>& level, Index n, Index m, Index d) {
  const Samples<T> x(n, d), y(m, d);
  std::vector<double> scales(static_cast<std::size_t>(d));
  for (double& s : scales) s = std::sqrt(double(d)) * (0.5 + uniform());
  for (const Named& named : kernels(d, scales.data())) {
    const std::string what = level.name + " " + named.name + " " + std::to_string(n) + "x" + std::to_string(m) + "x" +
                             std::to_string(d) + (sizeof(T) == 4 ? " f32" : " f64");
    Samples<T> k(n, m), s(n, n), diagonal(n, 1), v(m, 6), product(n, 6), few(m, 1), single(n, 1);
    level.gram(named.kernel, x.view(), y.view(), false, k.writable());
    level.gram(named.kernel, x.view(), x.view(), true, s.writable());
    level.diagonal(named.kernel, x.view(), diagonal.data.data(), 1);
    level.matvec(named.kernel, x.view(), y.view(), v.view(), product.writable());
    level.matvec(named.kernel, x.view(), y.view(), few.view(), single.writable());
    double worst = 0, largest = 1;
    bool symmetric = true;
    for (Index i = 0; i < n; ++i) {
      double sums[7] = {}, slack = 0;
      for (Index j = 0; j < m; ++j) {
        const double value = expected(named.kernel, x.row(i), y.row(j));
        const double pair = unknown(named.kernel, x.row(i), y.row(j));
        slack = std::max(slack, pair);
        largest = std::max(largest, std::fabs(value));
        worst = std::max(worst, std::fabs(k.at(i, j) - value) - pair);
        for (int c = 0; c < 6; ++c) sums[c] += value * double(v.at(j, c));
        sums[6] += value * double(few.at(j, 0));
      }
      // A part of 128 terms is summed in T.
      for (int c = 0; c < 6; ++c)
        worst = std::max(worst, std::fabs(product.at(i, c) - sums[c]) / double(m + 1) - slack);
      worst = std::max(worst, std::fabs(single.at(i, 0) - sums[6]) / double(m + 1) - slack);
      for (Index j = 0; j <= i; ++j) {
        symmetric &= std::memcmp(&s.data[std::size_t(i * n + j)], &s.data[std::size_t(j * n + i)], sizeof(T)) == 0;
        const double value = expected(named.kernel, x.row(i), x.row(j));
        largest = std::max(largest, std::fabs(value));
        const double pair = unknown(named.kernel, x.row(i), x.row(j));
        worst = std::max(worst, std::fabs(s.at(i, j) - value) - pair);
        if (i == j) worst = std::max(worst, std::fabs(diagonal.at(i, 0) - value) - pair);
      }
    }
    CHECK(worst <= allowed<T>(d) * largest, "%s: off by %g of %g", what.c_str(), worst, largest);
    CHECK(symmetric, "%s", what.c_str());
  }
}

// Parts of K, also those above the diagonal, have the bits of the whole.
template <class T>
void test_parts(const Level<T>& level, Index n, Index d) {
  Samples<T> x(n, d);
  for (T& value : x.data) value = T(double(value) + 100);  // distances far from the origin depend on the centre
  const std::vector<double> scales(static_cast<std::size_t>(d), 2 * std::sqrt(double(d)));
  const Index cuts[] = {0, 1, n / 3, n / 2 + 3, n};
  for (const Named& named : kernels(d, scales.data())) {
    if (named.kernel.kind == FASTDL_GEOMETRIC) continue;  // not of such samples
    Samples<T> whole(n, n), parts(n, n);
    level.gram(named.kernel, x.view(), x.view(), true, whole.writable());
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        level.part(named.kernel, x.view(), cuts[i], cuts[j],
                   {parts.data.data() + cuts[i] * n + cuts[j], cuts[i + 1] - cuts[i], cuts[j + 1] - cuts[j], n, 1});
    CHECK(std::memcmp(whole.data.data(), parts.data.data(), whole.data.size() * sizeof(T)) == 0, "%s %s: parts of %d",
          level.name.c_str(), named.name.c_str(), int(n));
  }
}

// Without biases, w^2 (w^2/2)^depth may be beyond float32 where samples as small, or as large, keep the result in it.
void test_growth(const Level<float>& level) {
  const struct {
    double w;
    int depth;
    double size;
  } cases[] = {{2, 200, 1e-30},  {0.3, 30, 1e15},  {1e12, 1, 1e-23},
               {1e-12, 1, 1e23}, {1e25, 0, 1e-25}, {1e-30, 0, 1e30}};
  for (const auto& c : cases)
    for (auto kind : {FASTDL_NNGP, FASTDL_NTK}) {
      const Index n = 9, d = 5;
      Samples<float> x(n, d), k(n, n), diagonal(n, 1), ones(n, 1), product(n, 1);
      for (float& value : x.data) value = float(c.size * (double(value) + 0.1));
      for (float& value : ones.data) value = 1;
      Kernel kernel = fastdl_kernel_default(kind, d);
      kernel.w_std = c.w, kernel.depth = c.depth;
      level.gram(kernel, x.view(), x.view(), true, k.writable());
      level.diagonal(kernel, x.view(), diagonal.data.data(), 1);
      level.matvec(kernel, x.view(), x.view(), ones.view(), product.writable());
      double worst = 0;
      for (Index i = 0; i < n; ++i) {
        double sum = 0;
        for (Index j = 0; j < n; ++j) {
          const double value = expected(kernel, x.row(i), x.row(j));
          sum += value;
          worst = std::fmax(worst, std::fabs(k.at(i, j) / value - 1));
          if (i == j) worst = std::fmax(worst, std::fabs(diagonal.at(i, 0) / value - 1));
        }
        worst = std::fmax(worst, std::fabs(product.at(i, 0) / sum - 1));
      }
      bool known = true;  // fmax takes no NaN
      for (float value : k.data) known &= std::isfinite(value) && value != 0;
      for (float value : product.data) known &= std::isfinite(value) && value != 0;
      CHECK(known && worst <= 1e-5, "%s %s of w %g, depth %d: off by %g", level.name.c_str(),
            kind == FASTDL_NTK ? "ntk" : "nngp", c.w, c.depth, worst);
    }
}

template <class T>
void test_softmax(const Level<T>& level, Index n, Index m, Index d, Index p) {
  const Samples<T> q(n, d), k(m, d), v(m, p);
  Samples<T> out(n, p);
  for (double scale : {0.5, -2.0, 40.0}) {
    level.softmax(q.view(), k.view(), v.view(), scale, out.writable());
    double worst = 0;
    for (Index i = 0; i < n; ++i) {
      std::vector<double> scores;
      double most = -INFINITY, total = 0;
      for (Index j = 0; j < m; ++j) {
        double sum = 0;
        for (Index f = 0; f < d; ++f) sum += double(q.at(i, f)) * double(k.at(j, f));
        scores.push_back(scale * sum);
        most = std::max(most, scores.back());
      }
      for (double& s : scores) total += s = std::exp(s - most);
      for (Index c = 0; c < p; ++c) {
        double sum = 0;
        for (Index j = 0; j < m; ++j) sum += scores[std::size_t(j)] * double(v.at(j, c)) / total;
        worst = std::max(worst, std::fabs(out.at(i, c) - sum));
      }
    }
    const double conditioning = std::fabs(scale) * double(d);
    CHECK(worst <= (sizeof(T) == 4 ? 1e-6 : 2e-15) * (4 + conditioning), "%s %d: %g", level.name.c_str(), int(n),
          worst);
  }
}

// A sparse set of rows and the same, dense, to the bounds of a sum.
template <class T>
void test_sparse(const Level<T>& level, Index n, Index d) {
  Samples<T> x(n, d);
  for (T& value : x.data) value = uniform() < 0.8 ? T(0) : value;
  const auto rows_of = [](Index rows, Index cols, const auto& at, std::vector<Index>& offsets,
                          std::vector<Index>& indices, std::vector<T>& values) -> SparseRows<T> {
    offsets.assign(1, 0);
    for (Index i = 0; i < rows; ++i) {
      for (Index f = 0; f < cols; ++f)
        if (at(i, f) != 0) indices.push_back(f), values.push_back(at(i, f));
      offsets.push_back(Index(indices.size()));
    }
    return {rows, offsets.data(), indices.data(), values.data()};
  };
  std::vector<Index> offsets, indices, t_offsets, t_indices;
  std::vector<T> values, t_values;
  const auto rows = rows_of(n, d, [&](Index i, Index f) { return x.at(i, f); }, offsets, indices, values);
  const auto columns = rows_of(d, n, [&](Index f, Index i) { return x.at(i, f); }, t_offsets, t_indices, t_values);
  for (auto kind : {FASTDL_LINEAR, FASTDL_POLYNOMIAL, FASTDL_RBF, FASTDL_COSINE})
    for (bool symmetric : {false, true}) {
      const Kernel kernel = fastdl_kernel_default(kind, d);
      Samples<T> k(n, n);
      level.sparse(kernel, rows, columns, symmetric, k.writable());
      double worst = 0, largest = 1;
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) {
          const double value = expected(kernel, x.row(i), x.row(j));
          largest = std::max(largest, std::fabs(value));
          worst = std::max(worst, std::fabs(k.at(i, j) - value));
        }
      CHECK(worst <= allowed<T>(d) * largest, "%s sparse %d: %g", level.name.c_str(), int(kind), worst);
    }
}

// Against central differences of the kernel, in double: they are known to the square of the step times the third
// derivative, which 1000 bounds here, and to the rounding of the kernel over the step.
template <class T>
void test_gradients(const Level<T>& level, Index n, Index m, Index d) {
  constexpr double step = 1e-5, known = 1000 * step * step + 1e-15 / step;
  constexpr Index p = 3;
  Samples<T> x(n, d), y(m, d);
  // Away from the edge of chi2, and no two features closer than the step unless they are equal.
  for (T& value : x.data) value = T(std::floor(256 * double(value)) + 32.25) / 256;
  for (T& value : y.data) value = T(std::floor(256 * double(value)) + 32.75) / 256;
  const Samples<T> v(m, p), grad(n, p), other(n, p);
  const std::vector<double> scales(static_cast<std::size_t>(d), 2 * std::sqrt(double(d)));
  const auto weight = [](const Samples<T>& a, Index i, const Samples<T>& b, Index j) {
    double sum = 0;
    for (Index c = 0; c < p; ++c) sum += double(a.at(i, c)) * double(b.at(j, c));
    return sum;
  };
  for (const Named& named : kernels(d, scales.data())) {
    const std::string what = level.name + " " + named.name + " " + std::to_string(n) + "x" + std::to_string(m) + "x" +
                             std::to_string(d) + (sizeof(T) == 4 ? " f32" : " f64");
    double largest = 1, worst = 0;
    const auto slope = [&](std::vector<double> a, const std::vector<double>& b, Index f) {
      const double at = a[std::size_t(f)];
      a[std::size_t(f)] = at + step;
      const double above = expected(named.kernel, a, b);
      a[std::size_t(f)] = at - step;
      const double found = (above - expected(named.kernel, a, b)) / (2 * step);
      largest = std::max(largest, std::fabs(found));
      return found;
    };
    Samples<T> dx(n, d), dy(m, d), dv(m, p), both(n, d), dother(n, p);
    const auto y_view = y.view();
    const auto dy_view = dy.writable();
    double by_gamma, alone;
    level.matvec_vjp(named.kernel, x.view(), &y_view, v.view(), grad.view(), dx.writable(), &dy_view, dv.writable(),
                     by_gamma);
    level.matvec_vjp(named.kernel, x.view(), nullptr, other.view(), grad.view(), both.writable(), nullptr,
                     dother.writable(), alone);
    // The same from the weights themselves, those of one set given as a transposed matrix.
    Samples<T> weights(n, m), turned(n, n), dx_given(n, d), dy_given(m, d), both_given(n, d);
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < m; ++j) weights.data[std::size_t(i * m + j)] = T(weight(grad, i, v, j));
      for (Index j = 0; j < n; ++j) turned.data[std::size_t(j * n + i)] = T(weight(grad, i, other, j));
    }
    const auto dy_given_view = dy_given.writable();
    double gamma_given, alone_given;
    level.vjp(named.kernel, x.view(), &y_view, weights.view(), dx_given.writable(), &dy_given_view, gamma_given);
    level.vjp(named.kernel, x.view(), nullptr, {turned.data.data(), n, n, 1, n}, both_given.writable(), nullptr,
              alone_given);
    // One feature of every row.
    for (Index i = 0; i < n; ++i) {
      const Index f = i % d;
      double sum = 0, sum_both = 0;
      for (Index j = 0; j < m; ++j) sum += weight(grad, i, v, j) * slope(x.row(i), y.row(j), f);
      for (Index j = 0; j < n; ++j)
        if (j != i) sum_both += (weight(grad, i, other, j) + weight(grad, j, other, i)) * slope(x.row(i), x.row(j), f);
      std::vector<double> above = x.row(i), below = x.row(i);
      above[std::size_t(f)] += step, below[std::size_t(f)] -= step;
      sum_both += weight(grad, i, other, i) *
                  (expected(named.kernel, above, above) - expected(named.kernel, below, below)) / (2 * step);
      worst = std::max(worst, std::fabs(dx.at(i, f) - sum) / (p * double(m + 1)));
      worst = std::max(worst, std::fabs(both.at(i, f) - sum_both) / (2 * p * double(n + 1)));
      worst = std::max(worst, std::fabs(dx_given.at(i, f) - sum) / (p * double(m + 1)));
      worst = std::max(worst, std::fabs(both_given.at(i, f) - sum_both) / (2 * p * double(n + 1)));
    }
    double sum_gamma = 0, sum_alone = 0;
    for (Index j = 0; j < m; ++j) {
      double sum = 0, product = 0;
      for (Index i = 0; i < n; ++i) {
        sum += weight(grad, i, v, j) * slope(y.row(j), x.row(i), j % d);
        product += expected(named.kernel, x.row(i), y.row(j)) * double(grad.at(i, 0));
      }
      worst = std::max(worst, std::fabs(dy.at(j, j % d) - sum) / (p * double(n + 1)));
      worst = std::max(worst, std::fabs(dy_given.at(j, j % d) - sum) / (p * double(n + 1)));
      worst = std::max(worst, std::fabs(dv.at(j, 0) - product) / double(n + 1));
    }
    Kernel above = named.kernel, below = named.kernel;
    above.gamma *= 1 + step, below.gamma *= 1 - step;
    const double width = above.gamma - below.gamma;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < m; ++j)
        sum_gamma +=
            weight(grad, i, v, j) * (expected(above, x.row(i), y.row(j)) - expected(below, x.row(i), y.row(j)));
      for (Index j = 0; j < n; ++j)
        sum_alone +=
            weight(grad, i, other, j) * (expected(above, x.row(i), x.row(j)) - expected(below, x.row(i), x.row(j)));
    }
    const double sums = double(d) * p;  // dk/dgamma is a sum over features
    worst = std::max(worst, std::fabs(by_gamma - sum_gamma / width) / (sums * double(n * m)));
    worst = std::max(worst, std::fabs(alone - sum_alone / width) / (sums * double(n * n)));
    worst = std::max(worst, std::fabs(gamma_given - sum_gamma / width) / (sums * double(n * m)));
    worst = std::max(worst, std::fabs(alone_given - sum_alone / width) / (sums * double(n * n)));
    CHECK(worst <= (allowed<T>(d) + known) * largest, "%s: gradients off by %g of %g", what.c_str(), worst, largest);
  }
}

template <class T>
void test_threads(const Level<T>& level) {
  const Index n = 400, d = 33;  // enough for several threads to take part
  const Samples<T> x(n, d), v(n, 3);
  for (const Named& named : kernels(d, std::vector<double>(static_cast<std::size_t>(d), 5.0).data())) {
    if (named.kernel.length_scales) continue;
    // An emulator takes a product, a distance and a direct sum for all.
    const auto kind = named.kernel.kind;
    if (quick && kind != FASTDL_POLYNOMIAL && kind != FASTDL_RBF && kind != FASTDL_LAPLACIAN) continue;
    Samples<T> k(n, n), product(n, 3), dx(n, d), dv(n, 3);
    double gamma;
    core::set_thread_limit(1);
    level.gram(named.kernel, x.view(), x.view(), false, k.writable());
    level.matvec(named.kernel, x.view(), x.view(), v.view(), product.writable());
    level.matvec_vjp(named.kernel, x.view(), nullptr, v.view(), v.view(), dx.writable(), nullptr, dv.writable(), gamma);
    for (int threads : {2, 5}) {
      Samples<T> again(n, n), product_again(n, 3), dx_again(n, d), dv_again(n, 3);
      double gamma_again;
      core::set_thread_limit(threads);
      level.gram(named.kernel, x.view(), x.view(), false, again.writable());
      level.matvec(named.kernel, x.view(), x.view(), v.view(), product_again.writable());
      level.matvec_vjp(named.kernel, x.view(), nullptr, v.view(), v.view(), dx_again.writable(), nullptr,
                       dv_again.writable(), gamma_again);
      CHECK(dx_again.data == dx.data && dv_again.data == dv.data && gamma_again == gamma,
            "%s %s: gradients with %d threads", level.name.c_str(), named.name.c_str(), threads);
      CHECK(again.data == k.data && product_again.data == product.data, "%s %s with %d threads", level.name.c_str(),
            named.name.c_str(), threads);
    }
  }
  core::set_thread_limit(0);
}

template <class T>
void test_type() {
  const Index sizes[][3] = {{1, 1, 1},    {7, 9, 3},   {17, 33, 8},   {33, 16, 9},
                            {65, 31, 17}, {9, 140, 9}, {50, 140, 40}, {13, 7, 600}};
  for (const auto& level : levels_to_test<Level<T>>(smoke)) {
    const int before = failed;
    for (const auto& [n, m, d] : sizes) {
      if (n * m * d > (smoke ? 20000 : quick ? 60000 : 1000000)) continue;
      test_kernels(level, n, m, d);
      test_softmax(level, n, m, d, 1 + d % 11);
      if (d > 1) test_gradients(level, n, m, d);  // rows of one feature are parallel, where some kernels have none
    }
    test_sparse(level, 61, 40);
    test_parts(level, 61, 7);
    test_parts(level, 61, 40);
    if constexpr (sizeof(T) == 4) test_growth(level);
    if (!smoke) test_threads(level);
    std::printf("%s %s: %s\n", level.name.c_str(), sizeof(T) == 4 ? "f32" : "f64", failed == before ? "ok" : "FAILED");
  }
}

}  // namespace

int main(int argc, char** argv) {
  smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  quick = smoke || (argc > 1 && std::string(argv[1]) == "--quick");
  test_type<float>();
  test_type<double>();
  return summary();
}
