// Scattering transforms as Python describes them, in the terms of the C interface; for the host and for CUDA.
#pragma once

#include <pybind11/stl.h>

#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "fastdl/fastdl.h"

namespace fastdl::bindings {

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Indices = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;

// Averages along an axis: kernel, first, step, count.
using Axis = std::tuple<Doubles, std::int64_t, std::int64_t, std::int64_t>;
// Level, spectra of members, their channels, spectra of followers, their levels, channels of members with followers.
// There are no spectra where they are asked for one at a time.
using Group = std::tuple<std::int64_t, std::vector<Doubles>, std::vector<std::int64_t>, std::vector<Doubles>,
                         std::vector<std::int64_t>, std::vector<std::int64_t>>;

inline fastdl_scattering_axis axis_of(const Axis& axis) {
  const auto& [kernel, first, step, count] = axis;
  return {kernel.size(), first, step, count, kernel.data()};
}

inline std::vector<const double*> spectra_of(const std::vector<Doubles>& arrays, std::int64_t size) {
  std::vector<const double*> pointers;
  for (const Doubles& array : arrays) {
    if (array.size() != size) throw py::value_error("expected spectra of " + std::to_string(size) + " numbers");
    pointers.push_back(array.data());
  }
  return pointers;
}

// A tree in the terms of the C interface, which lives as long as the arguments it was made from.
struct Tree {
  std::vector<fastdl_scattering_level> levels;
  std::vector<std::vector<const double*>> spectra;
  std::vector<fastdl_scattering_group> groups;
  fastdl_scattering_tree plain;

  std::int64_t places(std::int64_t level) const {
    const fastdl_scattering_level& one = levels[std::size_t(level)];
    return one.down.size * one.across.size;
  }

  Tree(std::int64_t height, std::int64_t width, const Indices& place_y, const Indices& place_x, std::int64_t channels,
       const std::vector<std::pair<Axis, Axis>>& given_levels, const std::vector<Group>& given_groups) {
    for (const auto& [down, across] : given_levels) levels.push_back({axis_of(down), axis_of(across)});
    if (levels.empty() || place_y.size() != levels[0].down.size || place_x.size() != levels[0].across.size)
      throw py::value_error("expected a place for every row and column of level 0");
    spectra.reserve(2 * given_groups.size());
    for (const auto& [level, psi, channel, psi_2, level_2, channel_2] : given_groups) {
      const bool there = !psi.empty() || !psi_2.empty();
      if (level < 0 || level >= std::int64_t(levels.size()) || channel_2.size() != channel.size() ||
          (there && (channel.size() != psi.size() || level_2.size() != psi_2.size())))
        throw py::value_error("expected a level and a channel for every wavelet");
      spectra.push_back(spectra_of(psi, places(0)));
      spectra.push_back(spectra_of(psi_2, places(level)));
      groups.push_back({level, std::int64_t(channel.size()), std::int64_t(level_2.size()),
                        spectra[spectra.size() - 2].data(), channel.data(), spectra.back().data(), level_2.data(),
                        channel_2.data()});
    }
    plain = {height,
             width,
             place_y.data(),
             place_x.data(),
             std::int64_t(levels.size()),
             std::int64_t(groups.size()),
             channels,
             levels.data(),
             groups.data()};
  }
};

// Solid harmonic scattering. Filters come as arrays (scales, harmonics, voxels) of complex numbers.
struct Volumes {
  std::vector<py::array> filters;
  std::vector<std::int64_t> harmonics;
  std::vector<double> power;
  fastdl_harmonic_shape shape;

  Volumes(const std::vector<py::array>& filters_, const std::vector<std::int64_t>& size, std::int64_t order,
          const std::vector<double>& power_)
      : filters(filters_), power(power_) {
    if (size.size() != 3 || filters.empty() || power.empty())
      throw py::value_error("expected three sizes, filters and powers");
    for (const py::array& filter : filters) {
      if (filter.ndim() != 3 || filter.shape(0) != filters[0].shape(0) || !(filter.flags() & py::array::c_style) ||
          filter.shape(2) != size[0] * size[1] * size[2])
        throw py::value_error("expected filters of shape (scales, harmonics, voxels), got " + described(filter));
      harmonics.push_back(filter.shape(1));
    }
    shape = {{size[0], size[1], size[2]},
             filters[0].shape(0),
             std::int64_t(filters.size()),
             order,
             std::int64_t(power.size()),
             harmonics.data(),
             power.data()};
  }

  std::int64_t voxels() const { return shape.size[0] * shape.size[1] * shape.size[2]; }
  std::int64_t results() const {
    const std::int64_t pairs = shape.order == 2 ? shape.scales * (shape.scales - 1) / 2 : 0;
    return (shape.scales + pairs) * shape.degrees * shape.powers;
  }
  template <class T>
  std::vector<const T*> spectra() const {
    std::vector<const T*> pointers;
    for (const py::array& filter : filters) {
      if (filter.itemsize() != py::ssize_t(2 * sizeof(T)) || filter.dtype().kind() != 'c')
        throw py::type_error("expected complex filters of the precision of x, got " + described(filter));
      pointers.push_back(static_cast<const T*>(filter.data()));
    }
    return pointers;
  }
};

}  // namespace fastdl::bindings
