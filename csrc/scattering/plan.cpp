// Plans of scattering transforms: levels, averages, and filters as lists of terms.
#include <algorithm>
#include <cmath>

#include "scattering/plan_tables.hpp"

namespace fastdl::scattering {
namespace {

// What is smaller than this share of the largest is left out of filters and averages: their errors come to about
// 1e-7 of a result in float, and to less than a rounding in double.
template <class T>
constexpr double negligible = sizeof(T) == 4 ? 1e-7 : 1e-14;

Index modulo(Index a, Index n) { return (a % n + n) % n; }

}  // namespace

template <class T>
const fft::Plan<T>* PlanTables<T>::transform_of(Index n) {
  transforms_.emplace_back(n);
  return &transforms_.back().plan();
}

// The smallest circular window that holds all of the kernel that counts; or, where that is nearly everything, a dense
// matrix.
template <class T>
Averages<T> PlanTables<T>::averages_of(const fastdl_scattering_axis& axis) {
  const Index n = axis.size;
  double largest = 0;
  for (Index d = 0; d < n; ++d) largest = std::max(largest, std::abs(axis.kernel[d]));
  // The longest run of what is negligible, going round, is what the window leaves out.
  Index best = 0, best_end = 0, run = 0;
  for (Index i = 0; i < 2 * n; ++i) {
    run = std::abs(axis.kernel[i % n]) <= negligible<T> * largest ? run + 1 : 0;
    if (run > best && run < n) best = run, best_end = i % n;
  }
  const Index length = n - best, first = modulo(best_end + 1, n);  // kernel[first .. first + length)
  Averages<T> result{n, axis.count, length, nullptr, nullptr};
  std::vector<T> taps;
  std::vector<Index> start;
  if (4 * length >= 3 * n || n <= 64) {
    result.length = n;
    for (Index i = 0; i < n; ++i)
      for (Index p = 0; p < axis.count; ++p) taps.push_back(T(axis.kernel[modulo(axis.first + p * axis.step - i, n)]));
  } else {
    // in[position - d] for d = first + length - 1 down to first: ascending samples.
    for (Index i = 0; i < length; ++i) taps.push_back(T(axis.kernel[modulo(first + length - 1 - i, n)]));
    for (Index p = 0; p < axis.count; ++p)
      start.push_back(modulo(axis.first + p * axis.step - (first + length - 1), n));
  }
  result.taps = keep(numbers_, std::move(taps));
  result.start = keep(indices_, std::move(start));
  return result;
}

// Of several filters the terms are those that any of them has. The factor of the inverse transform, and that of the
// mean over what is folded, are in the coefficients.
template <class T>
Fold<T> PlanTables<T>::fold_of(const double* const* psi, Index filters, const Level<T>& from, const Level<T>& to) {
  const Index size = from.ny * from.nx;
  const double scale = 1.0 / double(size);
  std::vector<double> least;  // of each filter: what is left out of it alone is 0 in the company of others, to the bit
  for (Index f = 0; f < filters; ++f) {
    double largest = 0;
    for (Index i = 0; i < size; ++i) largest = std::max(largest, std::abs(psi[f][i]));
    least.push_back(negligible<T> * largest);
  }
  const auto counts = [&](Index f, Index source) { return std::abs(psi[f][source]) > least[std::size_t(f)]; };
  std::vector<std::int32_t> begin, middle, offset;
  std::vector<T> coef;
  std::vector<std::pair<std::int32_t, Index>> mirrored;
  const auto add = [&](std::int32_t at, Index source) {
    offset.push_back(at);
    for (Index f = 0; f < filters; ++f) coef.push_back(counts(f, source) ? T(psi[f][source] * scale) : T(0));
  };
  for (Index y = 0; y < to.ny; ++y)
    for (Index x = 0; x < to.nx; ++x) {
      begin.push_back(std::int32_t(offset.size()));
      mirrored.clear();
      for (Index ky = y; ky < from.ny; ky += to.ny)
        for (Index kx = x; kx < from.nx; kx += to.nx) {
          const Index source = ky * from.nx + kx;
          bool any = false;
          for (Index f = 0; f < filters; ++f) any = any || counts(f, source);
          if (!any) continue;
          if (ky < from.half)
            add(std::int32_t(ky * from.pitch + kx), source);
          else
            mirrored.emplace_back(std::int32_t((from.ny - ky) * from.pitch + modulo(-kx, from.nx)), source);
        }
      middle.push_back(std::int32_t(offset.size()));
      for (const auto& [at, source] : mirrored) add(at, source);
    }
  begin.push_back(std::int32_t(offset.size()));
  std::vector<Run> runs;
  std::vector<std::int32_t> rows;
  const Index down = to.nx == 1 ? 1 : to.ny, across = to.nx == 1 ? to.ny : to.nx;  // a single column is one row
  for (Index y = 0; y < down; ++y) {
    rows.push_back(std::int32_t(runs.size()));
    for (Index x = 0; x < across; ++x) {
      const auto output = std::size_t(y * across + x);
      const std::int32_t plain = middle[output] - begin[output], conjugate = begin[output + 1] - middle[output];
      bool goes_on = x > 0 && runs.back().plain == plain && runs.back().conjugate == conjugate;
      for (std::int32_t k = 0; goes_on && k < plain + conjugate; ++k)
        goes_on =
            offset[std::size_t(begin[output] + k)] - offset[std::size_t(begin[output - 1] + k)] == (k < plain ? 1 : -1);
      if (goes_on)
        ++runs.back().length;
      else
        runs.push_back({1, plain, conjugate});
    }
  }
  rows.push_back(std::int32_t(runs.size()));
  const Index terms = Index(offset.size());
  const std::int32_t* begins = keep(offsets_, std::move(begin));
  const std::int32_t* middles = keep(offsets_, std::move(middle));
  const std::int32_t* places = keep(offsets_, std::move(offset));
  const T* numbers = keep(numbers_, std::move(coef));
  const Run* all_runs = keep(runs_, std::move(runs));
  return {begins, middles, places, numbers, terms, filters, all_runs, keep(offsets_, std::move(rows))};
}

template <class T>
PlanTables<T>::PlanTables(const fastdl_scattering_tree& tree) {
  for (Index i = 0; i < tree.levels; ++i) {
    const fastdl_scattering_level& given = tree.level[i];
    Level<T> level{};
    level.ny = given.down.size;
    level.nx = given.across.size;
    level.half = level.ny / 2 + 1;
    level.pitch = level.nx | 1;
    level.down = transform_of(level.ny);
    level.across = transform_of(level.nx);
    level.real = transform_of(level.ny % 2 == 0 ? level.ny / 2 : level.ny);
    level.low_down = averages_of(given.down);
    level.low_across = averages_of(given.across);
    levels_.push_back(level);
  }
  const auto cost = [&](const Level<T>& level) {
    const double n = double(level.ny) * double(level.nx);
    return 5 * n * std::log2(n + 2);
  };
  double flops = cost(levels_[0]);
  for (Index g = 0; g < tree.groups; ++g) {
    const fastdl_scattering_group& given = tree.group[g];
    const Level<T>& level = levels_[std::size_t(given.level)];
    Group<T> group{};
    group.level = given.level;
    group.members = given.members;
    group.followers = given.followers;
    std::vector<Wavelet<T>> members, followers;
    for (Index m = 0; m < given.members; ++m)
      members.push_back({fold_of(given.psi + m, 1, levels_[0], level), given.level});
    double each = 1.5 * cost(level);
    for (Index f = 0; f < given.followers; ++f) {
      const Level<T>& coarse = levels_[std::size_t(given.level_2[f])];
      followers.push_back({fold_of(given.psi_2 + f, 1, level, coarse), given.level_2[f]});
      each += cost(coarse);
    }
    flops += double(given.members) * each;
    group.together = fold_of(given.psi, given.members, levels_[0], level);
    group.member = keep(wavelets_, std::move(members));
    group.follower = keep(wavelets_, std::move(followers));
    group.channel = keep(indices_, std::vector<Index>(given.channel, given.channel + given.members));
    group.channel_2 = keep(indices_, std::vector<Index>(given.channel_2, given.channel_2 + given.members));
    groups_.push_back(group);
  }
  const Level<T>& finest = levels_[0];
  plan_.height = tree.height;
  plan_.width_of_image = tree.width;
  plan_.place_y = keep(indices_, std::vector<Index>(tree.place_y, tree.place_y + finest.ny));
  plan_.place_x = keep(indices_, std::vector<Index>(tree.place_x, tree.place_x + finest.nx));
  plan_.levels = tree.levels;
  plan_.groups = tree.groups;
  plan_.channels = tree.channels;
  plan_.level = levels_.data();
  plan_.group = groups_.data();
  plan_.flops = flops;
}

template class PlanTables<float>;
template class PlanTables<double>;

}  // namespace fastdl::scattering
