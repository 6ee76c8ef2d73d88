// Scattering on rotations and translations with arbitrary filters, at every level this machine can run, against sums in
// double.
#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "scattering/bodies.hpp"
#include "scattering/roto_tables.hpp"

#define TEST_LEVEL(level) {#level, fastdl::scattering::level::roto, fastdl::scattering::level::roto_vjp}
#include "levels.hpp"

using namespace fastdl;
using Index = std::int64_t;
using Complex = std::complex<double>;
using Grid = std::vector<double>;
using Waves = std::vector<Complex>;

namespace {

constexpr double turn = 6.283185307179586;

std::mt19937_64 bits(11);
double normal() {
  const auto uniform = [] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(turn * uniform());
}
Grid random_grid(Index n) {
  Grid values(static_cast<std::size_t>(n));
  for (double& v : values) v = normal();
  return values;
}

template <class T>
struct Level {
  std::string name;
  void (*roto)(const scattering::Roto<T>&, const T*, Index, T*);
  void (*roto_vjp)(const scattering::Roto<T>&, const T*, const T*, Index, T*);
};

// Random wavelets and averages; the last filter along angles is real, and the shift is by 1.3 rows and 0.4 columns.
struct Bank {
  std::vector<Grid> kernels, second;
  std::vector<Index> place_y, place_x;
  std::vector<fastdl_scattering_level> levels;
  std::vector<const double*> after;
  Grid first, angular, phase_y, phase_x;
  fastdl_roto_bank plain;

  static Grid phases(Index n, double places) {
    Grid result;
    for (Index k = 0; k < n; ++k) {
      const double angle = turn * places * double(2 * k < n ? k : k - n) / double(n);
      result.push_back(std::cos(angle));
      result.push_back(2 * k == n ? 0 : std::sin(angle));
    }
    return result;
  }

  Bank(Index ny, Index nx, Index scales, Index angles, Index filters, Index order) {
    const Index height = ny - 1, width = nx == 1 ? 1 : nx - 2;
    kernels.reserve(std::size_t(2 * scales));
    for (Index j = 0; j < scales; ++j) {
      kernels.push_back(random_grid(ny >> j));
      kernels.push_back(random_grid(nx >> j));
      levels.push_back({{ny >> j, 1, 1, 2, kernels[kernels.size() - 2].data()},
                        {nx >> j, 0, 2, nx == 1 ? 1 : 3, kernels.back().data()}});
      if (j + 1 < scales) second.push_back(random_grid((scales - 1 - j) * angles * (ny >> j) * (nx >> j)));
    }
    for (const Grid& psi : second) after.push_back(psi.data());
    for (Index i = 0; i < ny; ++i) place_y.push_back(i % height);
    for (Index i = 0; i < nx; ++i) place_x.push_back((i + 1) % width);
    first = random_grid(scales * angles * ny * nx);
    angular = random_grid(filters * 4 * angles);
    for (Index i = 0; i < 2 * angles; ++i) angular[std::size_t((filters - 1) * 4 * angles + 2 * i + 1)] = 0;
    phase_y = phases(ny, 1.3);
    phase_x = phases(nx, nx == 1 ? 0 : 0.4);
    plain = {height, width,         place_y.data(), place_x.data(), scales,       angles,       filters,
             order,  levels.data(), phase_y.data(), phase_x.data(), first.data(), after.data(), angular.data()};
  }

  Index outputs() const { return levels[0].down.count * levels[0].across.count; }
  Index channels() const {
    const Index pairs = plain.order == 2 ? plain.scales * (plain.scales - 1) / 2 : 0;
    return 1 + plain.scales + pairs * plain.angles * plain.filters;
  }
  Index samples() const { return plain.height * plain.width; }

  static Complex unit(Index a, Index n) { return std::polar(1.0, turn * double(a % n) / double(n)); }

  Waves spectrum(const Grid& u, Index level) const {
    const Index h = levels[std::size_t(level)].down.size, w = levels[std::size_t(level)].across.size;
    Waves hat;
    for (Index k = 0; k < h; ++k)
      for (Index l = 0; l < w; ++l) {
        Complex sum = 0;
        for (Index i = 0; i < h; ++i)
          for (Index j = 0; j < w; ++j) sum += u[std::size_t(i * w + j)] * std::conj(unit(i * k, h) * unit(j * l, w));
        hat.push_back(sum);
      }
    return hat;
  }

  // A spectrum times a filter, back in space at the places of a coarser level.
  Waves filtered(const Waves& hat, const double* filter, Index from, Index to) const {
    const Index h = levels[std::size_t(from)].down.size, w = levels[std::size_t(from)].across.size;
    Waves result;
    for (Index i = 0; i < levels[std::size_t(to)].down.size; ++i)
      for (Index j = 0; j < levels[std::size_t(to)].across.size; ++j) {
        Complex sum = 0;
        for (Index k = 0; k < h; ++k)
          for (Index l = 0; l < w; ++l) {
            const Complex value = hat[std::size_t(k * w + l)] * (filter ? filter[k * w + l] : 1.0);
            sum += value * unit((i << (to - from)) * k, h) * unit((j << (to - from)) * l, w);
          }
        result.push_back(sum / double(h * w));
      }
    return result;
  }

  void average(const Grid& u, Index which, double* out) const {
    const auto& [down, across] = levels[std::size_t(which)];
    const auto at = [](Index a, Index n) { return (a % n + n) % n; };
    for (Index p = 0; p < down.count; ++p)
      for (Index q = 0; q < across.count; ++q) {
        double sum = 0;
        for (Index d = 0; d < down.size; ++d)
          for (Index e = 0; e < across.size; ++e)
            sum += down.kernel[d] * across.kernel[e] *
                   u[std::size_t(at(down.first + p * down.step - d, down.size) * across.size +
                                 at(across.first + q * across.step - e, across.size))];
        out[p * across.count + q] = sum;
      }
  }

  Grid scattered(const double* x) const {
    const Index L = plain.angles, ny = levels[0].down.size, nx = levels[0].across.size;
    Grid out(std::size_t(channels() * outputs())), padded;
    for (const Index i : place_y)
      for (const Index j : place_x) padded.push_back(x[i * plain.width + j]);
    Waves x_hat = spectrum(padded, 0);
    for (Index k = 0; k < ny; ++k)
      for (Index l = 0; l < nx; ++l)
        x_hat[std::size_t(k * nx + l)] *= Complex(phase_y[std::size_t(2 * k)], phase_y[std::size_t(2 * k + 1)]) *
                                          Complex(phase_x[std::size_t(2 * l)], phase_x[std::size_t(2 * l + 1)]);
    Grid centred;
    for (const Complex z : filtered(x_hat, nullptr, 0, 0)) centred.push_back(z.real());
    average(centred, 0, out.data());
    double* next = out.data() + (1 + plain.scales) * outputs();
    for (Index j1 = 0; j1 < plain.scales; ++j1) {
      std::vector<Waves> y_hat;
      Grid mean(std::size_t((ny >> j1) * (nx >> j1)), 0.0);
      for (Index t = 0; t < L; ++t) {
        Grid y;
        for (const Complex z : filtered(x_hat, first.data() + (j1 * L + t) * ny * nx, 0, j1)) y.push_back(std::abs(z));
        for (std::size_t i = 0; i < y.size(); ++i) mean[i] += y[i] / double(L);
        y_hat.push_back(spectrum(y, j1));
      }
      average(mean, j1, out.data() + (1 + j1) * outputs());
      for (Index j2 = j1 + 1; j2 < plain.scales && plain.order == 2; ++j2)
        for (Index s = 0; s < L; ++s) {
          const Index size = (ny >> j1) * (nx >> j1);
          std::vector<Waves> v;
          for (Index r = 0; r < 2 * L; ++r) {
            const double* psi = after[std::size_t(j1)] + ((j2 - j1 - 1) * L + (s + r) % L) * size;
            v.push_back(filtered(y_hat[std::size_t(r % L)], psi, j1, j2));
            if ((s + r) / L % 2 == 1)
              for (Complex& z : v.back()) z = std::conj(z);
          }
          for (Index k = 0; k < plain.filters; ++k, next += outputs()) {
            Grid total(v[0].size(), 0.0);
            for (Index t = 0; t < 2 * L; ++t)
              for (std::size_t i = 0; i < total.size(); ++i) {
                Complex sum = 0;
                for (Index r = 0; r < 2 * L; ++r) {
                  const double* h = angular.data() + 2 * (k * 2 * L + (t - r + 2 * L) % (2 * L));
                  sum += v[std::size_t(r)][i] * Complex(h[0], h[1]);
                }
                total[i] += std::abs(sum) / double(2 * L);
              }
            average(total, j2, next);
          }
        }
    }
    return out;
  }
};

double norm(const Grid& a) {
  double sum = 0;
  for (const double v : a) sum += v * v;
  return std::sqrt(sum);
}

template <class T>
void test_bank(const Bank& bank, Index batch, const std::vector<Level<T>>& levels) {
  const double eps = sizeof(T) == 4 ? 3e-6 : 1e-13;
  const scattering::RotoTables<T> tables(bank.plain);
  const Index samples = bank.samples(), results = bank.channels() * bank.outputs();
  std::vector<T> x(std::size_t(batch * samples)), grad(std::size_t(batch * results));
  for (T& v : x) v = T(normal());
  for (T& v : grad) v = T(normal());
  Grid expected;
  const Index last = (batch - 1) * samples;
  const Grid along = random_grid(samples);
  double slope = 0;  // of the sum of results times grad, of the last image along a direction
  for (Index b = 0; b < batch; ++b) {
    const Grid one = bank.scattered(Grid(x.begin() + b * samples, x.begin() + (b + 1) * samples).data());
    expected.insert(expected.end(), one.begin(), one.end());
  }
  for (const double side : {1e-5, -1e-5}) {
    Grid image(x.begin() + last, x.end());
    for (Index i = 0; i < samples; ++i) image[std::size_t(i)] += side * along[std::size_t(i)];
    const Grid one = bank.scattered(image.data());
    for (Index r = 0; r < results; ++r)
      slope += one[std::size_t(r)] * double(grad[std::size_t((batch - 1) * results + r)]) / (2 * side);
  }
  for (const Level<T>& level : levels) {
    std::vector<T> before, before_back;
    for (const int threads : {1, 3}) {
      core::set_thread_count(threads);
      std::vector<T> out(std::size_t(batch * results), T(NAN)), dx(std::size_t(batch * samples), T(NAN));
      level.roto(tables.roto(), x.data(), batch, out.data());
      level.roto_vjp(tables.roto(), x.data(), grad.data(), batch, dx.data());
      Grid error;
      for (std::size_t i = 0; i < out.size(); ++i) error.push_back(double(out[i]) - expected[i]);
      CHECK(norm(error) <= eps * norm(expected), "%s %lld angles, batch %lld: %g", level.name.c_str(),
            (long long)bank.plain.angles, (long long)batch, norm(error) / norm(expected));
      double found = 0;
      Grid back;
      for (Index i = 0; i < samples; ++i) {
        back.push_back(double(dx[std::size_t(last + i)]));
        found += back.back() * along[std::size_t(i)];
      }
      // Differences over 1e-5 have some 1e-9 of the values, which are larger than a slope along one direction.
      const double allowed = (sizeof(T) == 4 ? 1e-4 : 1e-6) * norm(back) * norm(along);
      CHECK(std::abs(found - slope) <= allowed, "%s %lld angles, batch %lld: slope %g for %g", level.name.c_str(),
            (long long)bank.plain.angles, (long long)batch, found, slope);
      CHECK(threads == 1 || (std::memcmp(before.data(), out.data(), out.size() * sizeof(T)) == 0 &&
                             std::memcmp(before_back.data(), dx.data(), dx.size() * sizeof(T)) == 0),
            "%s: other bits with more threads", level.name.c_str());
      before = out;
      before_back = dx;
    }
  }
  core::set_thread_count(1);
}

void test_errors() {
  Bank bank(8, 4, 2, 2, 2, 2);
  fastdl_roto_plan_f32* plan = nullptr;
  float number = 0;
  CHECK(fastdl_roto_plan_make_f32(&bank.plain, &plan) == FASTDL_OK && plan, "%s", fastdl_last_error());
  CHECK(fastdl_scattering_roto_f32(plan, nullptr, 0, nullptr) == FASTDL_OK, "%s", fastdl_last_error());
  CHECK(fastdl_scattering_roto_f32(plan, nullptr, 1, &number) == FASTDL_INVALID_ARGUMENT, "no images");
  CHECK(std::strstr(fastdl_last_error(), "[scattering.roto] expected"), "%s", fastdl_last_error());
  CHECK(fastdl_scattering_roto_f32(plan, &number, INT64_MAX / 4, &number) == FASTDL_INVALID_ARGUMENT, "too many");
  CHECK(fastdl_scattering_roto_vjp_f32(plan, &number, nullptr, 1, &number) == FASTDL_INVALID_ARGUMENT, "no gradient");
  fastdl_roto_plan_free_f32(plan);
  CHECK(fastdl_roto_plan_make_f32(nullptr, &plan) == FASTDL_INVALID_ARGUMENT && !plan, "no bank");
  CHECK(fastdl_scattering_roto_f32(nullptr, &number, 1, &number) == FASTDL_INVALID_ARGUMENT, "no plan");
  const auto refused = [&](const char* what, auto change) {
    fastdl_roto_bank other = bank.plain;
    change(other);
    CHECK(fastdl_roto_plan_make_f32(&other, &plan) == FASTDL_INVALID_ARGUMENT && !plan, "%s", what);
    CHECK(std::strstr(fastdl_last_error(), "[scattering.roto_plan] expected"), "%s", fastdl_last_error());
  };
  refused("no angles", [](fastdl_roto_bank& b) { b.angles = 0; });
  refused("order 3", [](fastdl_roto_bank& b) { b.order = 3; });
  refused("no scales", [](fastdl_roto_bank& b) { b.scales = 0; });
  refused("no filters", [](fastdl_roto_bank& b) { b.filters = -1; });
  refused("no wavelets", [](fastdl_roto_bank& b) { b.first = nullptr; });
  refused("no second wavelets", [](fastdl_roto_bank& b) { b.second = nullptr; });
  refused("no phases", [](fastdl_roto_bank& b) { b.phase_x = nullptr; });
  refused("too tall", [](fastdl_roto_bank& b) { b.height = INT64_MAX; });
  bank.levels[1].down.size = 8;
  refused("as many samples on level 1", [](fastdl_roto_bank&) {});
  bank.levels[1].down.size = 4;
  bank.place_y[3] = 7;
  refused("no such sample", [](fastdl_roto_bank&) {});
}

template <class T>
void test_type(bool smoke) {
  const auto levels = levels_to_test<Level<T>>(smoke);
  for (const Index batch : {1, 7, 18}) {
    if (smoke && batch > 1) break;
    test_bank<T>(Bank(8, 12, 3 - batch % 2, 3, 2, 2), batch, levels);
  }
  test_bank<T>(Bank(8, 4, 2, 8, 3, 2), 2, levels);
  test_bank<T>(Bank(6, 10, 2, 1, 1, 2), 3, levels);
  test_bank<T>(Bank(12, 8, 3, 4, 2, 1), 2, levels);
  test_bank<T>(Bank(9, 5, 1, 4, 1, 2), 2, levels);
  test_bank<T>(Bank(7, 1, 1, 2, 1, 2), 2, levels);
  if (!smoke) test_bank<T>(Bank(4, 4, 2, 19, 2, 2), 2, levels);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  test_type<float>(smoke);
  test_type<double>(smoke);
  test_errors();
  return summary();
}
