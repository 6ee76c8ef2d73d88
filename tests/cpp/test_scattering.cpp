// Scattering of small images with arbitrary filters, at every level this machine can run, against sums in double.
#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "core/threads.hpp"
#include "scattering/bodies.hpp"
#include "scattering/plan_tables.hpp"

#define TEST_LEVEL(level)                   \
  {#level,                                  \
   fastdl::scattering::level::forward,      \
   fastdl::scattering::level::large,        \
   fastdl::scattering::level::backward,     \
   fastdl::scattering::level::harmonic,     \
   fastdl::scattering::level::harmonic_vjp, \
   fastdl::scattering::level::moduli,       \
   fastdl::scattering::level::moduli_vjp,   \
   fastdl::scattering::level::large_vjp,    \
   fastdl::scattering::level::large_moduli, \
   fastdl::scattering::level::large_moduli_vjp}
#include "levels.hpp"

using namespace fastdl;
using Index = std::int64_t;
using Complex = std::complex<double>;
using Grid = std::vector<double>;

namespace {

std::mt19937_64 bits(7);
double normal() {
  const auto uniform = [] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
}
Grid random_grid(Index n) {
  Grid values(static_cast<std::size_t>(n));
  for (double& v : values) v = normal();
  return values;
}

template <class T>
struct Level {
  std::string name;
  void (*forward)(const scattering::Plan<T>&, const T*, Index, T*);
  void (*large)(const scattering::Plan<T>&, const T*, Index, T*);
  void (*backward)(const scattering::Plan<T>&, const T*, const T*, Index, T*);
  void (*harmonic)(const scattering::Harmonic<T>&, const T*, Index, T*);
  void (*harmonic_vjp)(const scattering::Harmonic<T>&, const T*, const T*, Index, T*);
  void (*moduli)(const scattering::Plan<T>&, const fastdl_scattering_part*, const T*, Index, T* const*);
  void (*moduli_vjp)(const scattering::Plan<T>&, const fastdl_scattering_part*, const T*, const T* const*, Index, T*);
  void (*large_vjp)(const scattering::Plan<T>&, const T*, const T*, Index, T*);
  void (*large_moduli)(const scattering::Plan<T>&, const fastdl_scattering_part*, const T*, Index, T* const*);
  void (*large_moduli_vjp)(const scattering::Plan<T>&, const fastdl_scattering_part*, const T*, const T* const*, Index,
                           T*);
};

// A tree of two groups with random filters and averages; the second has no followers.
struct Tree {
  Index ny, nx, height, width;
  std::vector<Grid> kernels, psi, psi_2;
  std::vector<Index> place_y, place_x;
  std::vector<fastdl_scattering_level> levels;
  std::vector<const double*> first[2], second;
  std::vector<Index> channel[2], channel_2, level_2;
  std::vector<fastdl_scattering_group> groups;
  fastdl_scattering_tree plain;

  // sparse: filters are 0 but for a patch that goes round the ends, as that of a wavelet does. flat: all levels but the
  // finest have one column.
  Tree(Index ny_, Index nx_, Index height_, Index width_, Index members, bool sparse = false, bool flat = false)
      : ny(ny_), nx(nx_), height(height_), width(width_) {
    const Index across = nx == 1 ? 1 : 2;
    kernels.reserve(16);
    for (Index step = 1; step <= 4; step *= 2) {
      const Index rows = ny / step, columns = nx == 1 || (flat && step > 1) ? 1 : nx / step;
      kernels.push_back(random_grid(rows));
      kernels.push_back(random_grid(columns));
      // Mostly nothing: the averages then have windows, which go round the end.
      for (Index i = 0; i < rows; ++i)
        if (rows > 8 && i >= 2 && i < rows - 1) kernels[kernels.size() - 2][std::size_t(i)] = 0;
      levels.push_back(
          {{rows, 1, 4 / step, 2, kernels[kernels.size() - 2].data()}, {columns, 0, 1, across, kernels.back().data()}});
    }
    for (Index i = 0; i < ny; ++i) place_y.push_back(i % height);
    for (Index i = 0; i < nx; ++i) place_x.push_back((i + 1) % width);
    for (Index m = 0; m < members + 2; ++m) psi.push_back(random_grid(ny * nx));
    for (Index f = 0; f < 3; ++f) psi_2.push_back(random_grid(levels[1].down.size * levels[1].across.size));
    const auto cut_out = [&](Grid& filter, Index rows, Index columns, Index shift) {
      for (Index i = 0; i < rows * columns; ++i)
        if ((i / columns + shift) % rows >= (rows + 1) / 2 || (i % columns + 2 * shift) % columns > columns / 3)
          filter[std::size_t(i)] = 0;
    };
    for (std::size_t m = 0; sparse && m < psi.size(); ++m) cut_out(psi[m], ny, nx, Index(m));
    for (std::size_t f = 0; sparse && f < psi_2.size(); ++f)
      cut_out(psi_2[f], levels[1].down.size, levels[1].across.size, Index(f) + 1);
    for (Index m = 0; m < members; ++m) {
      first[0].push_back(psi[std::size_t(m)].data());
      channel[0].push_back(1 + m);
      channel_2.push_back(1 + members + 2 + 3 * m);
    }
    for (Index m = 0; m < 2; ++m) {
      first[1].push_back(psi[std::size_t(members + m)].data());
      channel[1].push_back(1 + members + m);
    }
    for (const Grid& p : psi_2) second.push_back(p.data());
    level_2 = {1, 2, 2};
    groups.push_back(
        {1, members, 3, first[0].data(), channel[0].data(), second.data(), level_2.data(), channel_2.data()});
    groups.push_back({2, 2, 0, first[1].data(), channel[1].data(), nullptr, nullptr, channel[1].data()});
    plain = {height,        width,        place_y.data(), place_x.data(), 3, 2, 1 + members + 2 + 3 * members,
             levels.data(), groups.data()};
  }

  Index outputs() const { return levels[0].down.count * levels[0].across.count; }

  Grid padded(const double* x) const {
    Grid u(std::size_t(ny * nx));
    for (Index i = 0; i < ny; ++i)
      for (Index j = 0; j < nx; ++j)
        u[std::size_t(i * nx + j)] = x[place_y[std::size_t(i)] * width + place_x[std::size_t(j)]];
    return u;
  }

  // |u * psi| at the places of a coarser level.
  Grid modulus(const Grid& u, const double* filter, Index from, Index to) const {
    const Index h = levels[std::size_t(from)].down.size, w = levels[std::size_t(from)].across.size;
    const Index hh = levels[std::size_t(to)].down.size, ww = levels[std::size_t(to)].across.size;
    std::vector<Complex> half(std::size_t(h * w)), hat(std::size_t(h * w)), rows(std::size_t(hh * w));
    const auto down = turns(h), across = turns(w);
    for (Index i = 0; i < h; ++i)
      for (Index l = 0; l < w; ++l)
        for (Index j = 0; j < w; ++j)
          half[std::size_t(i * w + l)] += u[std::size_t(i * w + j)] * std::conj(across[std::size_t(j * l % w)]);
    for (Index k = 0; k < h; ++k)
      for (Index l = 0; l < w; ++l) {
        Complex sum = 0;
        for (Index i = 0; i < h; ++i) sum += half[std::size_t(i * w + l)] * std::conj(down[std::size_t(i * k % h)]);
        hat[std::size_t(k * w + l)] = sum * filter[k * w + l] / double(h * w);
      }
    for (Index i = 0; i < hh; ++i)
      for (Index k = 0; k < h; ++k)
        for (Index l = 0; l < w; ++l)
          rows[std::size_t(i * w + l)] += hat[std::size_t(k * w + l)] * down[std::size_t(i * (h / hh) * k % h)];
    Grid result;
    for (Index i = 0; i < hh; ++i)
      for (Index j = 0; j < ww; ++j) {
        Complex sum = 0;
        for (Index l = 0; l < w; ++l) sum += rows[std::size_t(i * w + l)] * across[std::size_t(j * (w / ww) * l % w)];
        result.push_back(std::abs(sum));
      }
    return result;
  }

  // exp(2 pi i a / n) for all a.
  static std::vector<Complex> turns(Index n) {
    std::vector<Complex> all;
    for (Index a = 0; a < n; ++a) all.push_back(std::polar(1.0, 6.283185307179586 * double(a) / double(n)));
    return all;
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
    Grid out(std::size_t(plain.channels * outputs()));
    const Grid u = padded(x);
    average(u, 0, out.data());
    for (const auto& group : groups)
      for (Index m = 0; m < group.members; ++m) {
        const Grid v = modulus(u, group.psi[m], 0, group.level);
        average(v, group.level, out.data() + group.channel[m] * outputs());
        for (Index f = 0; f < group.followers; ++f)
          average(modulus(v, group.psi_2[f], group.level, group.level_2[f]), group.level_2[f],
                  out.data() + (group.channel_2[m] + f) * outputs());
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
void test_tree(const Tree& tree, Index batch, const std::vector<Level<T>>& levels) {
  const double eps = sizeof(T) == 4 ? 3e-6 : 1e-13;
  const scattering::PlanTables<T> tables(tree.plain);
  const Index samples = tree.height * tree.width, results = tree.plain.channels * tree.outputs();
  std::vector<T> x(std::size_t(batch * samples)), grad(std::size_t(batch * results));
  for (T& v : x) v = T(normal());
  for (T& v : grad) v = T(normal());
  Grid expected;
  std::vector<Grid> slopes;  // of the sum of results times grad, along each sample of the first image
  for (Index b = 0; b < batch; ++b) {
    const Grid image(x.begin() + b * samples, x.begin() + (b + 1) * samples);
    const Grid one = tree.scattered(image.data());
    expected.insert(expected.end(), one.begin(), one.end());
  }
  Grid slope;
  for (Index i = 0; i < samples; ++i) {
    double value[2];
    for (int side = 0; side < 2; ++side) {
      Grid image(x.begin(), x.begin() + samples);
      image[std::size_t(i)] += side ? 1e-5 : -1e-5;
      const Grid one = tree.scattered(image.data());
      value[side] = 0;
      for (Index r = 0; r < results; ++r) value[side] += one[std::size_t(r)] * double(grad[std::size_t(r)]);
    }
    slope.push_back((value[1] - value[0]) / 2e-5);
  }
  for (const Level<T>& level : levels) {
    for (const int threads : {1, 3}) {
      core::set_thread_count(threads);
      std::vector<T> out(std::size_t(batch * results), T(NAN)), dx(std::size_t(batch * samples), T(NAN));
      level.forward(tables.plan(), x.data(), batch, out.data());
      level.backward(tables.plan(), x.data(), grad.data(), batch, dx.data());
      Grid error;
      for (std::size_t i = 0; i < out.size(); ++i) error.push_back(double(out[i]) - expected[i]);
      CHECK(norm(error) <= eps * norm(expected), "%s %lldx%lld batch %lld: %g", level.name.c_str(), (long long)tree.ny,
            (long long)tree.nx, (long long)batch, norm(error) / norm(expected));
      Grid difference;
      for (Index i = 0; i < samples; ++i) difference.push_back(double(dx[std::size_t(i)]) - slope[std::size_t(i)]);
      const double allowed = sizeof(T) == 4 ? 1e-4 : 1e-6;  // differences over 1e-5 have some 1e-9 of the values
      CHECK(norm(difference) <= allowed * norm(slope), "%s %lldx%lld batch %lld: gradient %g", level.name.c_str(),
            (long long)tree.ny, (long long)tree.nx, (long long)batch, norm(difference) / norm(slope));
    }
  }
  core::set_thread_count(1);
}

// Images and signals one at a time; and their gradients, against those of lanes.
template <class T>
void test_rasters(const Tree& tree, Index batch, const std::vector<Level<T>>& levels) {
  const scattering::PlanTables<T> tables(tree.plain, scattering::Layout::rasters);
  const scattering::PlanTables<T> of_lanes(tree.plain, scattering::Layout::lanes);
  const Index samples = tree.height * tree.width, results = tree.plain.channels * tree.outputs();
  std::vector<T> x(std::size_t(batch * samples)), grad(std::size_t(batch * results));
  for (T& v : x) v = T(normal());
  for (T& v : grad) v = T(normal());
  Grid expected;
  for (Index b = 0; b < batch; ++b) {
    const Grid one = tree.scattered(Grid(x.begin() + b * samples, x.begin() + (b + 1) * samples).data());
    expected.insert(expected.end(), one.begin(), one.end());
  }
  for (const Level<T>& level : levels) {
    std::vector<T> first;
    for (const int threads : {1, 3}) {
      core::set_thread_count(threads);
      std::vector<T> out(std::size_t(batch * results), T(NAN));
      level.large(tables.plan(), x.data(), batch, out.data());
      Grid error;
      for (std::size_t i = 0; i < out.size(); ++i) error.push_back(double(out[i]) - expected[i]);
      CHECK(norm(error) <= (sizeof(T) == 4 ? 3e-6 : 1e-13) * norm(expected), "%s raster %lldx%lld batch %lld: %g",
            level.name.c_str(), (long long)tree.ny, (long long)tree.nx, (long long)batch, norm(error) / norm(expected));
      std::vector<T> dx(std::size_t(batch * samples), T(NAN)), wanted = dx;
      level.large_vjp(tables.plan(), x.data(), grad.data(), batch, dx.data());
      level.backward(of_lanes.plan(), x.data(), grad.data(), batch, wanted.data());
      Grid difference;
      for (std::size_t i = 0; i < dx.size(); ++i) difference.push_back(double(dx[i]) - double(wanted[i]));
      // A modulus near 0 has a direction of few digits.
      CHECK(norm(difference) <= (sizeof(T) == 4 ? 1e-4 : 1e-12) * norm(Grid(wanted.begin(), wanted.end())),
            "%s raster %lldx%lld batch %lld: gradient off by %g", level.name.c_str(), (long long)tree.ny,
            (long long)tree.nx, (long long)batch, norm(difference) / norm(Grid(wanted.begin(), wanted.end())));
      out.insert(out.end(), dx.begin(), dx.end());
      if (threads == 1) first = out;
      CHECK(out == first, "%s raster %lldx%lld: other bits with %d threads", level.name.c_str(), (long long)tree.ny,
            (long long)tree.nx, threads);
      // An image by itself has the bits that it has in the batch.
      const Index last = batch - 1;
      level.large_vjp(tables.plan(), x.data() + last * samples, grad.data() + last * results, 1, wanted.data());
      CHECK(std::equal(dx.end() - samples, dx.end(), wanted.begin()), "%s raster %lldx%lld: other bits alone",
            level.name.c_str(), (long long)tree.ny, (long long)tree.nx);
    }
    core::set_thread_count(1);
  }
}

// Without averages: all paths on parts of their levels, and the slope along a direction.
template <class T>
void test_moduli(const Tree& tree, Index batch, const std::vector<Level<T>>& levels, bool rasters = false) {
  using scattering::Layout;
  const scattering::PlanTables<T> tables(tree.plain, rasters ? Layout::rasters : Layout::lanes);
  std::vector<fastdl_scattering_part> parts;
  for (const auto& level : tree.levels)
    parts.push_back({1, level.down.size, 0, level.across.size == 1 ? 1 : level.across.size - 1});
  std::vector<Index> level_of(std::size_t(tree.plain.channels), 0);
  for (const auto& group : tree.groups)
    for (Index m = 0; m < group.members; ++m) {
      level_of[std::size_t(group.channel[m])] = group.level;
      for (Index f = 0; f < group.followers; ++f) level_of[std::size_t(group.channel_2[m] + f)] = group.level_2[f];
    }
  const auto size = [&](Index c) {
    const auto& p = parts[std::size_t(level_of[std::size_t(c)])];
    return (p.bottom - p.top) * (p.right - p.left);
  };
  const auto scattered = [&](const Grid& x) {
    std::vector<Grid> all(level_of.size());
    const auto put = [&](Index c, const Grid& u) {
      const auto& p = parts[std::size_t(level_of[std::size_t(c)])];
      const Index columns = tree.levels[std::size_t(level_of[std::size_t(c)])].across.size;
      for (Index i = p.top; i < p.bottom; ++i)
        for (Index j = p.left; j < p.right; ++j) all[std::size_t(c)].push_back(u[std::size_t(i * columns + j)]);
    };
    const Grid u = tree.padded(x.data());
    put(0, u);
    for (const auto& group : tree.groups)
      for (Index m = 0; m < group.members; ++m) {
        const Grid v = tree.modulus(u, group.psi[m], 0, group.level);
        put(group.channel[m], v);
        for (Index f = 0; f < group.followers; ++f)
          put(group.channel_2[m] + f, tree.modulus(v, group.psi_2[f], group.level, group.level_2[f]));
      }
    return all;
  };
  const Index samples = tree.height * tree.width, channels = tree.plain.channels;
  std::vector<T> x(std::size_t(batch * samples));
  for (T& v : x) v = T(normal());
  std::vector<std::vector<T>> grad;
  for (Index c = 0; c < channels; ++c) {
    grad.emplace_back(std::size_t(batch * size(c)));
    for (T& v : grad.back()) v = T(normal());
  }
  const Grid along = random_grid(samples);
  const Index last = batch - 1;
  const Grid image(x.begin() + last * samples, x.end());
  const std::vector<Grid> expected = scattered(image);
  double slope = 0;
  for (const double side : {1e-6, -1e-6}) {
    Grid moved = image;
    for (Index i = 0; i < samples; ++i) moved[std::size_t(i)] += side * along[std::size_t(i)];
    const std::vector<Grid> all = scattered(moved);
    for (Index c = 0; c < channels; ++c)
      for (Index i = 0; i < size(c); ++i)
        slope += all[std::size_t(c)][std::size_t(i)] * double(grad[std::size_t(c)][std::size_t(last * size(c) + i)]) /
                 (2 * side);
  }
  for (const Level<T>& level : levels) {
    std::vector<std::vector<T>> out;
    std::vector<T*> to;
    std::vector<const T*> from;
    for (const auto& part : grad) out.emplace_back(part.size(), T(NAN)), from.push_back(part.data());
    for (auto& part : out) to.push_back(part.data());
    std::vector<T> dx(x.size(), T(NAN));
    (rasters ? level.large_moduli : level.moduli)(tables.plan(), parts.data(), x.data(), batch, to.data());
    (rasters ? level.large_moduli_vjp : level.moduli_vjp)(tables.plan(), parts.data(), x.data(), from.data(), batch,
                                                          dx.data());
    Grid error, whole;
    for (Index c = 0; c < channels; ++c)
      for (Index i = 0; i < size(c); ++i) {
        whole.push_back(expected[std::size_t(c)][std::size_t(i)]);
        error.push_back(double(out[std::size_t(c)][std::size_t(last * size(c) + i)]) - whole.back());
      }
    CHECK(norm(error) <= (sizeof(T) == 4 ? 3e-6 : 1e-13) * norm(whole), "%s moduli: %g", level.name.c_str(),
          norm(error) / norm(whole));
    Grid back(dx.begin() + last * samples, dx.end());
    double found = 0;
    for (Index i = 0; i < samples; ++i) found += back[std::size_t(i)] * along[std::size_t(i)];
    CHECK(std::abs(found - slope) <= (sizeof(T) == 4 ? 1e-4 : 1e-6) * norm(back) * norm(along),
          "%s moduli: slope %g for %g", level.name.c_str(), found, slope);
  }
}

// Two filters of one degree on a small box, against sums.
template <class T>
void test_harmonic(const std::vector<Level<T>>& levels) {
  const Index size[3] = {2, 3, 5}, voxels = 30, batch = 2;
  const Index harmonics[1] = {2};
  const double power[2] = {1, 2};
  const scattering::Harmonic<T> shape{{{size[0], size[1], size[2]}, 2, 1, 2, 2, harmonics, power}, nullptr};
  std::vector<T> filters(std::size_t(2 * 2 * voxels * 2)), x(std::size_t(batch * voxels)),
      grad(std::size_t(batch * 3 * 2));
  for (T& v : filters) v = T(normal());
  for (T& v : x) v = T(normal());
  for (T& v : grad) v = T(normal());
  const auto modulus = [&](const Grid& u, Index scale) {
    Grid sum(std::size_t(voxels), 0.0);
    const auto phase = [&](Index a, Index b) {
      double turns = 0;
      for (int axis = 2; axis >= 0; --axis) {
        turns += double(a % size[axis] * (b % size[axis])) / double(size[axis]);
        a /= size[axis], b /= size[axis];
      }
      return std::polar(1.0, 6.283185307179586 * turns);
    };
    for (Index m = 0; m < 2; ++m) {
      std::vector<Complex> hat(std::size_t(voxels), 0.0);
      for (Index k = 0; k < voxels; ++k) {
        for (Index i = 0; i < voxels; ++i) hat[std::size_t(k)] += u[std::size_t(i)] * std::conj(phase(i, k));
        const T* psi = filters.data() + 2 * ((scale * 2 + m) * voxels + k);
        hat[std::size_t(k)] *= Complex(double(psi[0]), double(psi[1])) / double(voxels);
      }
      for (Index i = 0; i < voxels; ++i) {
        Complex z = 0;
        for (Index k = 0; k < voxels; ++k) z += hat[std::size_t(k)] * phase(i, k);
        sum[std::size_t(i)] += std::norm(z);
      }
    }
    for (double& v : sum) v = std::sqrt(v);
    return sum;
  };
  const auto scattered = [&](const Grid& u) {
    Grid out;
    const auto give = [&](const Grid& v) {
      for (const double p : power) {
        double total = 0;
        for (const double value : v) total += std::pow(value, p);
        out.push_back(total);
      }
    };
    const Grid small = modulus(u, 0);
    give(small);
    give(modulus(u, 1));
    give(modulus(small, 1));
    return out;
  };
  const T* pointers[1] = {filters.data()};
  scattering::Harmonic<T> h = shape;
  h.filters = pointers;
  for (const Level<T>& level : levels) {
    std::vector<T> out(std::size_t(batch * 6), T(NAN)), dx(std::size_t(batch * voxels), T(NAN));
    level.harmonic(h, x.data(), batch, out.data());
    level.harmonic_vjp(h, x.data(), grad.data(), batch, dx.data());
    for (Index b = 0; b < batch; ++b) {
      const Grid volume(x.begin() + b * voxels, x.begin() + (b + 1) * voxels);
      const Grid expected = scattered(volume);
      for (std::size_t i = 0; i < 6; ++i) {
        const double found = double(out[std::size_t(b) * 6 + i]);
        CHECK(std::abs(found - expected[i]) <= (sizeof(T) == 4 ? 1e-5 : 1e-12) * expected[i], "%s harmonic %g for %g",
              level.name.c_str(), found, expected[i]);
      }
      for (Index i = 0; i < voxels; ++i) {
        Grid up = volume, down = volume;
        up[std::size_t(i)] += 1e-5, down[std::size_t(i)] -= 1e-5;
        const Grid a = scattered(up), c = scattered(down);
        double slope = 0, size_of = 0;
        for (std::size_t r = 0; r < 6; ++r) {
          slope += (a[r] - c[r]) / 2e-5 * double(grad[std::size_t(b) * 6 + r]);
          size_of += std::abs(a[r]);
        }
        const double found = double(dx[std::size_t(b * voxels + i)]);
        CHECK(std::abs(found - slope) <= (sizeof(T) == 4 ? 1e-4 : 1e-6) * size_of, "%s harmonic gradient %g for %g",
              level.name.c_str(), found, slope);
      }
    }
  }
}

void test_errors() {
  Tree tree(8, 4, 7, 3, 2);
  fastdl_scattering_plan_f32* plan = nullptr;
  CHECK(fastdl_scattering_plan_make_f32(&tree.plain, &plan) == FASTDL_OK && plan, "%s", fastdl_last_error());
  fastdl_scattering_plan_free_f32(plan);
  CHECK(fastdl_scattering_plan_make_f32(nullptr, &plan) == FASTDL_INVALID_ARGUMENT && !plan, "no tree");
  const fastdl_scattering_filter nothing = [](void*, int64_t, int, int64_t) -> const double* { return nullptr; };
  CHECK(fastdl_scattering_plan_make_from_f32(&tree.plain, nullptr, nullptr, &plan) == FASTDL_INVALID_ARGUMENT,
        "nobody to give filters");
  CHECK(fastdl_scattering_plan_make_from_f32(&tree.plain, nothing, nullptr, &plan) == FASTDL_INVALID_ARGUMENT && !plan,
        "no filter is given");
  tree.level_2[0] = 7;
  CHECK(fastdl_scattering_plan_make_f32(&tree.plain, &plan) == FASTDL_INVALID_ARGUMENT, "no such level");
  CHECK(std::strstr(fastdl_last_error(), "[scattering.plan] expected"), "%s", fastdl_last_error());
  tree.level_2[0] = 1;
  // As many images, results or samples as addresses do not go to.
  CHECK(fastdl_scattering_plan_make_f32(&tree.plain, &plan) == FASTDL_OK && plan, "%s", fastdl_last_error());
  float none = 0;
  CHECK(fastdl_scattering_forward_f32(plan, &none, INT64_MAX / 4, &none) == FASTDL_INVALID_ARGUMENT, "too many images");
  CHECK(std::strstr(fastdl_last_error(), "address space"), "%s", fastdl_last_error());
  fastdl_scattering_part parts[3] = {{0, 9, 0, 4}, {0, 4, 0, 2}, {0, 2, 0, 1}};  // beyond level 0
  CHECK(fastdl_scattering_moduli_f32(plan, parts, &none, 0, nullptr) == FASTDL_INVALID_ARGUMENT, "too large a part");
  CHECK(std::strstr(fastdl_last_error(), "[scattering.moduli] expected"), "%s", fastdl_last_error());
  parts[0].bottom = 8;
  CHECK(fastdl_scattering_moduli_f32(plan, parts, &none, 0, nullptr) == FASTDL_OK, "%s", fastdl_last_error());
  CHECK(fastdl_scattering_moduli_f32(plan, parts, &none, 1, nullptr) == FASTDL_INVALID_ARGUMENT, "no results");
  CHECK(fastdl_scattering_moduli_vjp_f32(plan, nullptr, &none, nullptr, 1, &none) == FASTDL_INVALID_ARGUMENT,
        "no parts");
  fastdl_scattering_plan_free_f32(plan);
  fastdl_scattering_tree tall = tree.plain, many = tree.plain;
  tall.height = many.channels = INT64_MAX;
  CHECK(fastdl_scattering_plan_make_f32(&tall, &plan) == FASTDL_INVALID_ARGUMENT && !plan, "too tall");
  CHECK(fastdl_scattering_plan_make_f32(&many, &plan) == FASTDL_INVALID_ARGUMENT && !plan, "too many channels");
  tree.place_y[3] = 7;
  CHECK(fastdl_scattering_plan_make_f32(&tree.plain, &plan) == FASTDL_INVALID_ARGUMENT, "no such sample");
  float x = 0;
  CHECK(fastdl_scattering_forward_f32(nullptr, &x, 1, &x) == FASTDL_INVALID_ARGUMENT, "no plan");
  CHECK(fastdl_scattering_harmonic_f32(nullptr, nullptr, &x, 1, &x) == FASTDL_INVALID_ARGUMENT, "no shape");
}

template <class T>
void test_type(bool smoke) {
  const auto levels = levels_to_test<Level<T>>(smoke);
  for (const Index batch : {1, 3, 70}) {
    if (smoke && batch > 1) break;
    test_tree<T>(Tree(8, 12, 7, 9, 3), batch, levels);
    if (batch < 70) test_tree<T>(Tree(20, 4, 16, 3, 16), batch, levels);
    if (batch < 70) test_tree<T>(Tree(20, 4, 16, 3, 16, true), batch, levels);
    test_tree<T>(Tree(40, 1, 23, 1, 5), batch, levels);
    test_tree<T>(Tree(40, 1, 23, 1, 5, true), batch, levels);
    if (batch < 70) test_tree<T>(Tree(24, 20, 16, 13, 3, true), batch, levels);
    for (const bool sparse : {false, true}) test_tree<T>(Tree(36, 3, 33, 3, 3, sparse, true), batch, levels);
  }
  for (const bool sparse : {false, true}) {
    test_rasters<T>(Tree(8, 12, 7, 9, 3, sparse), 3, levels);
    test_rasters<T>(Tree(20, 4, 16, 3, 16, sparse), 1, levels);
    test_moduli<T>(Tree(8, 12, 7, 9, 3, sparse), 2, levels, true);
    if (smoke) continue;
    test_moduli<T>(Tree(36, 40, 33, 37, 2, sparse), 3, levels, true);
    test_moduli<T>(Tree(1024, 1, 700, 1, 2, sparse), 2, levels, true);
    test_rasters<T>(Tree(36, 40, 33, 37, 2, sparse), 2, levels);
    test_rasters<T>(Tree(12, 68, 12, 50, 2, sparse), 1, levels);
    test_rasters<T>(Tree(1024, 1, 700, 1, 2, sparse), 2, levels);
  }
  for (const Index batch : {1, 5, 18}) {
    test_moduli<T>(Tree(8, 12, 7, 9, 3), batch, levels);
    test_moduli<T>(Tree(40, 1, 23, 1, 5), batch, levels);
  }
  test_harmonic<T>(levels);
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  test_type<float>(smoke);
  test_type<double>(smoke);
  test_errors();
  return summary();
}
