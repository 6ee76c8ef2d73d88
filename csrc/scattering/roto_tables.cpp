// Plans of scattering on rotations and translations.
#include "scattering/roto_tables.hpp"

#include <cmath>

namespace fastdl::scattering {
namespace {

// The kernel of averages that are taken after a shift, which is a convolution with the inverse transform of `phase`:
// to average the image itself then takes no transform.
std::vector<double> shifted(const fastdl_scattering_axis& axis, const double* phase) {
  const Index n = axis.size;
  std::vector<double> turns(std::size_t(2 * n)), wave(static_cast<std::size_t>(n)), kernel(std::size_t(n), 0.0);
  for (Index k = 0; k < n; ++k) {
    turns[std::size_t(2 * k)] = std::cos(6.283185307179586 * double(k) / double(n));
    turns[std::size_t(2 * k + 1)] = std::sin(6.283185307179586 * double(k) / double(n));
  }
  for (Index i = 0; i < n; ++i) {
    double sum = 0;
    for (Index k = 0, at = 0; k < n; ++k, at = (at + i) % n)
      sum += phase[2 * k] * turns[std::size_t(2 * at)] - phase[2 * k + 1] * turns[std::size_t(2 * at + 1)];
    wave[std::size_t(i)] = sum / double(n);
  }
  for (Index d = 0; d < n; ++d)
    for (Index i = 0; i < n; ++i) kernel[std::size_t((d + i) % n)] += axis.kernel[d] * wave[std::size_t(i)];
  return kernel;
}

template <class T>
core::AlignedVector<T> numbers_of(const double* values, Index count) {
  core::AlignedVector<T> result;
  for (Index i = 0; i < count; ++i) result.push_back(T(values[i]));
  return result;
}

}  // namespace

template <class T>
Level<T> RotoTables<T>::level_of(const fastdl_scattering_axis& down, const fastdl_scattering_axis& across) {
  Level<T> level{};
  level.ny = down.size;
  level.nx = across.size;
  level.half = level.ny / 2 + 1;
  level.pitch = level.nx | 1;
  level.low_down = Base::averages_of(down);
  level.low_across = Base::averages_of(across);
  Base::add_lanes(level);
  return level;
}

template <class T>
Fold<T> RotoTables<T>::fold_of_angles(const double* psi, const Level<T>& from, const Level<T>& to) {
  const Index size = from.ny * from.nx, angles = roto_.angles;
  std::vector<std::vector<T>> filters;
  for (Index i = 0; i < angles; ++i) filters.push_back(coefficients_of<T>(psi + i * size, size));
  Fold<T> fold = Base::fold_of(filters, from, to);
  const Index length = angles + most_lanes<T>;
  core::AlignedVector<T> repeated(std::size_t(fold.terms * length));
  for (Index term = 0; term < fold.terms; ++term)
    for (Index i = 0; i < length; ++i) repeated[std::size_t(term * length + i)] = fold.coef[term * angles + i % angles];
  Base::numbers_.pop_back();  // those of every angle once
  fold.coef = Base::keep(Base::numbers_, std::move(repeated));
  fold.filters = length;
  return fold;
}

template <class T>
AngularFilter<T> RotoTables<T>::filter_of(const double* filter) {
  const Index angles = roto_.angles;
  bool real = true;
  for (Index i = 0; i < 2 * angles; ++i) real = real && filter[2 * i + 1] == 0;
  const double scale = 1.0 / double(real ? angles : 2 * angles);
  core::AlignedVector<T> taps;
  for (Index difference = 1 - angles; difference < angles; ++difference) {
    const double* near = filter + 2 * ((difference + 2 * angles) % (2 * angles));
    const double* far = filter + 2 * ((difference + angles) % (2 * angles));
    for (const double sign : {1.0, -1.0})
      for (int part = 0; part < (real ? 1 : 2); ++part) taps.push_back(T((near[part] + sign * far[part]) * scale));
  }
  return {Base::keep(Base::numbers_, std::move(taps)), real};
}

template <class T>
RotoTables<T>::RotoTables(const fastdl_roto_bank& bank) {
  const Index scales = bank.scales, angles = bank.angles;
  roto_.scales = scales;
  roto_.angles = angles;
  roto_.filters = bank.filters;
  roto_.order = bank.order;
  fastdl_scattering_axis down = bank.level[0].down, across = bank.level[0].across;
  const std::vector<double> kernel_down = shifted(down, bank.phase_y), kernel_across = shifted(across, bank.phase_x);
  down.kernel = kernel_down.data();
  across.kernel = kernel_across.data();
  Base::levels_.push_back(level_of(down, across));
  for (Index j = 0; j < scales; ++j) Base::levels_.push_back(level_of(bank.level[j].down, bank.level[j].across));
  const auto level = [&](Index j) -> const Level<T>& { return Base::levels_[std::size_t(1 + j)]; };
  const auto cost = [&](Index j) {
    const double n = double(level(j).ny) * double(level(j).nx);
    return 5 * n * std::log2(n + 2);
  };
  const Index places = level(0).ny * level(0).nx;
  double flops = cost(0);
  second_.resize(std::size_t(scales * scales));
  for (Index j1 = 0; j1 < scales; ++j1) {
    first_.push_back(fold_of_angles(bank.first + j1 * angles * places, level(0), level(j1)));
    flops += double(angles) * 1.5 * cost(j1);
    const Index size = level(j1).ny * level(j1).nx;
    for (Index j2 = j1 + 1; j2 < scales && bank.order == 2; ++j2) {
      const double* psi = bank.second[j1] + (j2 - j1 - 1) * angles * size;
      second_[std::size_t(j1 * scales + j2)] = fold_of_angles(psi, level(j1), level(j2));
      const double products = 4 * double(bank.filters) * double(level(j2).ny) * double(level(j2).nx) * double(angles);
      flops += double(angles) * double(angles) * (cost(j2) + products);
    }
  }
  for (Index k = 0; k < bank.filters; ++k) angular_.push_back(filter_of(bank.angular + k * 4 * angles));
  roto_.first = first_.data();
  roto_.second = second_.data();
  roto_.angular = angular_.data();
  roto_.phase_y = Base::keep(Base::numbers_, numbers_of<T>(bank.phase_y, 2 * level(0).half));
  roto_.phase_x = Base::keep(Base::numbers_, numbers_of<T>(bank.phase_x, 2 * level(0).nx));
  Plan<T>& plan = roto_.plan;
  plan.height = bank.height;
  plan.width_of_image = bank.width;
  plan.place_y = Base::keep(Base::indices_, std::vector<Index>(bank.place_y, bank.place_y + level(0).ny));
  plan.place_x = Base::keep(Base::indices_, std::vector<Index>(bank.place_x, bank.place_x + level(0).nx));
  plan.levels = scales + 1;
  const Index pairs = bank.order == 2 ? scales * (scales - 1) / 2 : 0;
  plan.channels = 1 + scales + pairs * angles * bank.filters;
  plan.level = Base::levels_.data();
  plan.flops = flops;
}

template class RotoTables<float>;
template class RotoTables<double>;

}  // namespace fastdl::scattering
