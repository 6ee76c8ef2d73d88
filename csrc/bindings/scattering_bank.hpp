// Scattering on rotations and translations as Python describes it, in the terms of the C interface.
#pragma once

#include <complex>

#include "bindings/scattering_tree.hpp"

namespace fastdl::bindings {

using Complexes = py::array_t<std::complex<double>, py::array::c_style | py::array::forcecast>;

// A bank, which lives as long as the arguments it was made from: `first` (scales, angles, rows, columns), `second` the
// same of the scales above each, `angular` (filters, 2 angles).
struct Bank {
  std::vector<fastdl_scattering_level> levels;
  std::vector<const double*> after;
  fastdl_roto_bank plain;

  Bank(std::int64_t height, std::int64_t width, const Indices& place_y, const Indices& place_x, std::int64_t order,
       const std::vector<std::pair<Axis, Axis>>& given_levels, const Complexes& phase_y, const Complexes& phase_x,
       const Doubles& first, const std::vector<Doubles>& second, const Complexes& angular) {
    for (const auto& [down, across] : given_levels) levels.push_back({axis_of(down), axis_of(across)});
    const auto scales = std::int64_t(levels.size());
    if (scales == 0 || place_y.size() != levels[0].down.size || place_x.size() != levels[0].across.size ||
        phase_y.size() != place_y.size() || phase_x.size() != place_x.size())
      throw py::value_error("expected a place and a phase for every row and column of level 0");
    if (first.ndim() != 4 || first.shape(0) != scales)
      throw py::value_error("expected wavelets (scales, angles, rows, columns), got " + described(first));
    const std::int64_t angles = first.shape(1);
    const auto check = [&](const Doubles& psi, std::int64_t count, const fastdl_scattering_level& level) {
      if (psi.size() != count * angles * level.down.size * level.across.size)
        throw py::value_error("expected wavelets on all places of their level, got " + described(psi));
    };
    check(first, scales, levels[0]);
    if (order == 2 && std::int64_t(second.size()) != scales - 1)
      throw py::value_error("expected wavelets after every scale but the last");
    for (std::size_t j = 0; order == 2 && j < second.size(); ++j) {
      check(second[j], scales - 1 - std::int64_t(j), levels[j]);
      after.push_back(second[j].data());
    }
    if (angular.ndim() != 2 || angular.shape(1) != 2 * angles)
      throw py::value_error("expected filters along all angles of a turn, got " + described(angular));
    const auto numbers = [](const Complexes& array) { return reinterpret_cast<const double*>(array.data()); };
    plain = {height, width,         place_y.data(),   place_x.data(),   scales,       angles,       angular.shape(0),
             order,  levels.data(), numbers(phase_y), numbers(phase_x), first.data(), after.data(), numbers(angular)};
  }

  std::int64_t results() const {
    const std::int64_t pairs = plain.order == 2 ? plain.scales * (plain.scales - 1) / 2 : 0;
    return (1 + plain.scales + pairs * plain.angles * plain.filters) * levels[0].down.count * levels[0].across.count;
  }
};

}  // namespace fastdl::bindings
