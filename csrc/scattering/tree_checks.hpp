// What the entries of transforms with levels check alike.
#pragma once

#include <string>

#include "core/check.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {

inline constexpr Index most_places = Index{1} << 30;  // of a grid: they are numbered by 32 bits

inline void expect(const char* name, bool valid, const char* wanted, const std::string& got) {
  if (!valid) core::fail(name, wanted, got);
}

inline void check_axis(const char* name, const fastdl_scattering_axis& axis) {
  expect(name, axis.size > 0 && axis.size <= most_places, "sizes from 1 to 2^30", std::to_string(axis.size));
  expect(name, axis.count > 0, "at least one average", std::to_string(axis.count));
  expect(name, axis.kernel != nullptr, "kernels", "NULL");
  expect(name, axis.first >= -most_places && axis.first <= most_places && axis.step >= 0 && axis.step <= most_places,
         "places of averages", std::to_string(axis.first) + " and every " + std::to_string(axis.step));
}

inline void check_places(const char* name, const Index* places, Index count, Index size) {
  expect(name, places != nullptr, "places of samples", "NULL");
  for (Index i = 0; i < count; ++i)
    if (places[i] < 0 || places[i] >= size)
      core::fail(name, "places from 0 to " + std::to_string(size - 1), std::to_string(places[i]));
}

// A level and the averages on it, beside those of level 0.
inline void check_level(const char* name, const fastdl_scattering_level& level, const fastdl_scattering_level& finest) {
  check_axis(name, level.down);
  check_axis(name, level.across);
  const auto sizes = [](Index down, Index across) { return std::to_string(down) + " x " + std::to_string(across); };
  expect(name, level.down.size <= most_places / (level.across.size + 1), "grids of at most 2^30 places",
         sizes(level.down.size, level.across.size));
  expect(name, finest.down.size % level.down.size == 0 && finest.across.size % level.across.size == 0,
         "sizes that divide those of level 0", sizes(level.down.size, level.across.size));
  expect(name, level.down.count == finest.down.count && level.across.count == finest.across.count,
         "as many averages as on level 0", sizes(level.down.count, level.across.count));
  expect(name, finest.down.count <= finest.down.size && finest.across.count <= finest.across.size,
         "no more averages than places on level 0", sizes(finest.down.count, finest.across.count));
}

}  // namespace fastdl::scattering
