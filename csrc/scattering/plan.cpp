// Plans of scattering transforms: levels, averages, and filters as lists of terms.
#include <algorithm>
#include <cmath>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "core/check.hpp"
#include "scattering/plan_tables.hpp"

namespace fastdl::scattering {
namespace {

// What is smaller than this share of the largest is left out of filters and averages: their errors come to about
// 1e-7 of a result in float, and to less than a rounding in double.
template <class T>
constexpr double negligible = sizeof(T) == 4 ? 1e-7 : 1e-14;

Index modulo(Index a, Index n) { return (a % n + n) % n; }

// Filters are made and dropped by the dozen, between tables that stay: glibc would keep what lies between them, half as
// much again as a plan and its results. (256 x 256, J = 4: a peak of 25 MB, and of 21 with this.)
void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

template <class T>
const fft::Plan<T>* PlanTables<T>::transform_of(Index n) {
  transforms_.emplace_back(n);
  return &transforms_.back().plan();
}

// The smallest circular window that holds all of the kernel that counts: kernel[first .. first + length).
template <class T>
void window_of(const fastdl_scattering_axis& axis, Index& first, Index& length) {
  const Index n = axis.size;
  double largest = 0;
  for (Index d = 0; d < n; ++d) largest = std::max(largest, std::abs(axis.kernel[d]));
  // The longest run of what is negligible, going round, is what the window leaves out.
  Index best = 0, best_end = 0, run = 0;
  for (Index i = 0; i < 2 * n; ++i) {
    run = std::abs(axis.kernel[i % n]) <= negligible<T> * largest ? run + 1 : 0;
    if (run > best && run < n) best = run, best_end = i % n;
  }
  length = n - best;
  first = modulo(best_end + 1, n);
}

// The sum of two places that are each other's image for a dense matrix (place, average), or -1.
template <class T>
Index mirror_of(const std::vector<double>& matrix, Index n, Index count) {
  double largest = 0;
  for (double tap : matrix) largest = std::max(largest, std::abs(tap));
  for (Index sum = 0; sum < n; ++sum) {
    bool mirrored = true;
    for (Index i = 0; i < n && mirrored; ++i)
      for (Index p = 0; p < count && mirrored; ++p)
        mirrored = std::abs(matrix[std::size_t(i * count + p)] -
                            matrix[std::size_t(modulo(sum - i, n) * count + count - 1 - p)]) <= negligible<T> * largest;
    if (mirrored) return sum;
  }
  return -1;
}

// The places in pairs, and the taps for their sums and differences.
template <class T>
Averages<T> PlanTables<T>::mirrored(const std::vector<double>& matrix, Index sum, Averages<T> averages) {
  const Index n = averages.n, count = averages.count, sums = count - count / 2;
  const auto tap = [&](Index i, Index p) { return matrix[std::size_t(i * count + p)]; };
  std::vector<std::int32_t> pairs, centres;
  Numbers taps, taps_of_centres;
  for (Index i = 0; i < n; ++i) {
    const Index image = modulo(sum - i, n);
    if (image < i) continue;
    if (image == i) {
      centres.push_back(std::int32_t(i));
      for (Index p = 0; p < sums; ++p) taps_of_centres.push_back(T(tap(i, p)));
      continue;
    }
    pairs.push_back(std::int32_t(i));
    pairs.push_back(std::int32_t(image));
    for (Index p = 0; p < sums; ++p) taps.push_back(T((tap(i, p) + tap(image, p)) / 2));
    for (Index p = 0; p < count / 2; ++p) taps.push_back(T((tap(i, p) - tap(image, p)) / 2));
  }
  averages.mirror = {std::ssize(pairs) / 2, std::ssize(centres), nullptr};
  pairs.insert(pairs.end(), centres.begin(), centres.end());
  taps.insert(taps.end(), taps_of_centres.begin(), taps_of_centres.end());
  averages.mirror.place = keep(offsets_, std::move(pairs));
  averages.taps = keep(numbers_, std::move(taps));
  return averages;
}

// By the window, or where that is nearly everything, a dense matrix.
template <class T>
Averages<T> PlanTables<T>::averages_of(const fastdl_scattering_axis& axis) {
  const Index n = axis.size;
  Index first, length;
  window_of<T>(axis, first, length);
  Averages<T> result{n, axis.count, length, nullptr, nullptr, {}};
  Numbers taps;
  std::vector<Index> start;
  if (4 * length >= 3 * n || n <= most_mirrored) {
    result.length = n;
    std::vector<double> matrix;
    matrix.reserve(std::size_t(n) * std::size_t(axis.count));  // at once, and refused at once where it is too much
    for (Index i = 0; i < n; ++i)
      for (Index p = 0; p < axis.count; ++p) matrix.push_back(axis.kernel[modulo(axis.first + p * axis.step - i, n)]);
    if (n <= most_mirrored && axis.count <= most_mirrored) {
      const Index sum = mirror_of<T>(matrix, n, axis.count);
      if (sum >= 0) return mirrored(matrix, sum, result);
    }
    for (double tap : matrix) taps.push_back(T(tap));
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

template <class T>
Windows<T> PlanTables<T>::windows_of(const fastdl_scattering_axis& axis, double scale) {
  const Index n = axis.size;
  Index first, length;
  window_of<T>(axis, first, length);
  Numbers taps;
  std::vector<Index> start;
  for (Index i = 0; i < length; ++i) taps.push_back(T(scale * axis.kernel[modulo(first + length - 1 - i, n)]));
  while (taps.size() % std::size_t(raster_block) != 0) taps.push_back(0);
  for (Index p = 0; p < axis.count; ++p) start.push_back(modulo(axis.first + p * axis.step - (first + length - 1), n));
  const Index padded = Index(taps.size());
  const T* numbers = keep(numbers_, std::move(taps));
  return {n, axis.count, padded, keep(indices_, std::move(start)), numbers};
}

// What is left of a spectrum without what is negligible. The factor of the inverse transform, and that of the mean over
// what is folded, are in it.
template <class T>
std::vector<T> coefficients_of(const double* psi, Index size) {
  double largest = 0;
  for (Index i = 0; i < size; ++i) largest = std::max(largest, std::abs(psi[i]));
  const double least = negligible<T> * largest, scale = 1.0 / double(size);
  std::vector<T> result(static_cast<std::size_t>(size));
  for (Index i = 0; i < size; ++i) result[std::size_t(i)] = std::abs(psi[i]) > least ? T(psi[i] * scale) : T(0);
  return result;
}

// What lanes want of a level beside the averages.
template <class T>
void PlanTables<T>::add_lanes(Level<T>& level) {
  level.down = transform_of(level.ny);
  level.across = transform_of(level.nx);
  level.real = transform_of(level.ny % 2 == 0 ? level.ny / 2 : level.ny);
}

template <class T>
Group<T> PlanTables<T>::with_lanes(const Group<T>& group, const std::vector<Coefficients>& members,
                                   const std::vector<Coefficients>& followers) {
  Group<T> result = group;
  const Level<T>& level = levels_[std::size_t(group.level)];
  const auto folded = [&](const Wavelet<T>* wavelets, const std::vector<Coefficients>& filters, const Level<T>& from) {
    std::vector<Wavelet<T>> made;
    for (std::size_t i = 0; i < filters.size(); ++i) {
      made.push_back(wavelets[i]);
      made[i].fold = fold_of({filters[i]}, from, levels_[std::size_t(wavelets[i].level)]);
    }
    return keep(wavelets_, std::move(made));
  };
  result.member = folded(group.member, members, levels_[0]);
  result.follower = folded(group.follower, followers, level);
  result.together = fold_of(members, levels_[0], level);
  return result;
}

const double* FilterSource::operator()(Index group, bool follower, Index number) const {
  if (!give) return (follower ? tree.group[group].psi_2 : tree.group[group].psi)[number];
  const double* filter = give(context, group, follower, number);
  if (!filter) core::fail("scattering.plan", "spectra", "NULL");
  return filter;
}

template <class T>
PlanTables<T>::PlanTables(const fastdl_scattering_tree& tree, Layout layout, fastdl_scattering_filter give,
                          void* context) {
  const FilterSource source{tree, give, context};
  const bool large = layout == Layout::automatic ? wants_rasters(tree) : layout == Layout::rasters;
  plan_.image = tree.level[0].across.size > 1;
  for (Index i = 0; i < tree.levels; ++i) {
    const fastdl_scattering_level& given = tree.level[i];
    Level<T> level{};
    level.ny = given.down.size;
    level.nx = given.across.size;
    level.half = level.ny / 2 + 1;
    level.pitch = level.nx | 1;
    level.low_down = averages_of(given.down);
    level.low_across = averages_of(given.across);
    if (large)
      level.raster = raster_of(given);
    else
      add_lanes(level);
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
    std::vector<Coefficients> of_members, of_followers;
    const auto add = [&](const double* psi, const Level<T>& from, Index to, std::vector<Wavelet<T>>& wavelets,
                         std::vector<Coefficients>& filters) {
      Coefficients filter = coefficients_of<T>(psi, from.ny * from.nx);
      wavelets.push_back({{}, to, {}});
      if (large)
        wavelets.back().raster = raster_fold_of(filter, from, levels_[std::size_t(to)]);
      else
        filters.push_back(std::move(filter));
    };
    for (Index m = 0; m < given.members; ++m) add(source(g, false, m), levels_[0], given.level, members, of_members);
    double each = 1.5 * cost(level);
    for (Index f = 0; f < given.followers; ++f) {
      add(source(g, true, f), level, given.level_2[f], followers, of_followers);
      each += cost(levels_[std::size_t(given.level_2[f])]);
    }
    flops += double(given.members) * each;
    group.member = keep(wavelets_, std::move(members));
    group.follower = keep(wavelets_, std::move(followers));
    group.channel = keep(indices_, std::vector<Index>(given.channel, given.channel + given.members));
    std::vector<Index> channel_2(std::size_t(given.members));
    if (given.followers > 0) channel_2.assign(given.channel_2, given.channel_2 + given.members);
    group.channel_2 = keep(indices_, std::move(channel_2));
    groups_.push_back(large ? group : with_lanes(group, of_members, of_followers));
    if (large) give_back_memory();
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
  plan_.large = large;
  building_ = {};
}

template std::vector<float> coefficients_of(const double* psi, Index size);
template std::vector<double> coefficients_of(const double* psi, Index size);
template class PlanTables<float>;
template class PlanTables<double>;

}  // namespace fastdl::scattering
