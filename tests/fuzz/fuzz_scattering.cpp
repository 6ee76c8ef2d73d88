// Calls of the scattering family: plans of trees with sizes of all sorts, and volumes.
#include "fuzz.hpp"

namespace fuzz {
namespace {

struct Tree {
  fastdl_scattering_tree* tree;
  Index rows, columns;  // of a result
};

fastdl_scattering_axis axis(Case& c, Index size, Index count) {
  fastdl_scattering_axis a{};
  a.size = size;
  a.count = c.wild(32) ? c.extent(4) : count;
  a.first = c.number(-3, 9, 32);
  a.step = c.number(0, 5, 32);
  a.kernel = c.array<double>({size}, Role::input);
  // So many averages are a table of as many numbers as a kernel has, or of 64: of more than a few the case would be too
  // long.
  if (a.count > 64 && a.count <= (Index{1} << 30)) c.skip();
  return a;
}

// A divisor of the size, or at times none.
Index coarser(Case& c, Index size) {
  const Index factor = 1 + c.below(4);
  if (c.wild(16)) return c.extent(20);
  return size > 0 && size % factor == 0 ? size / factor : size;
}

const double* const* spectra(Case& c, Index count, Wide places) {
  auto** list = c.room<const double*>(count, Role::input);
  for (Index i = 0; i < count; ++i) list[i] = c.array<double>({places}, Role::input);
  return list;
}

Tree tree_of(Case& c) {
  fastdl_scattering_tree t{};
  const bool line = c.chance(4);  // a signal of one axis
  const Index rows = 1 + c.below(4), columns = line ? 1 : 1 + c.below(4);
  t.levels = 1 + c.below(3);
  auto* levels = c.room<fastdl_scattering_level>(t.levels, Role::input);
  for (Index i = 0; i < t.levels; ++i) {
    const auto& finest = levels[0];
    const Index down = i == 0 ? c.extent(line ? 90 : 24) : coarser(c, finest.down.size);
    const Index across = i > 0 ? coarser(c, finest.across.size) : line ? 1 : c.extent(24);
    levels[i] = {axis(c, down, rows), axis(c, across, columns)};
  }
  t.level = levels;
  const Index down = levels[0].down.size, across = levels[0].across.size;
  t.height = c.chance(2) ? down : c.extent(24);
  t.width = c.chance(2) || line ? across : 1 + c.below(int(across > 0 && across < 24 ? across : 1));
  if (c.wild(16)) t.width = c.extent(24);
  t.place_y = c.places({down}, t.height);
  t.place_x = c.places({across}, t.width);
  t.groups = c.below(3);
  auto* groups = c.room<fastdl_scattering_group>(t.groups, Role::input);
  Index channel = 1;
  for (Index g = 0; g < t.groups; ++g) {
    fastdl_scattering_group group{};
    group.level = c.below(int(t.levels));
    group.members = 1 + c.below(3);
    group.followers = c.below(3);
    const auto& level = levels[group.level];
    group.psi = spectra(c, group.members, product({down, across}));
    group.psi_2 = spectra(c, group.followers, product({level.down.size, level.across.size}));
    auto* level_2 = c.room<Index>(group.followers, Role::input);
    for (Index f = 0; f < group.followers; ++f) level_2[f] = c.chance(2) ? group.level : c.below(int(t.levels));
    auto *first = c.room<Index>(group.members, Role::input), *second = c.room<Index>(group.members, Role::input);
    for (Index m = 0; m < group.members; ++m) {
      first[m] = channel++;
      second[m] = channel;
      channel += group.followers;
    }
    if (c.wild(16)) first[0] = c.special();
    if (c.wild(16)) second[0] = c.special();
    if (c.wild(16) && group.followers > 0) level_2[0] = c.special(), c.refuse();
    if (c.wild(16)) group.level = c.special(), c.refuse();
    if (c.wild(16)) group.followers = -1 - c.below(2), c.refuse();
    if (c.wild(16)) group.members = -c.below(2), c.refuse();
    if (c.wild(32)) group.psi = nullptr, c.refuse();
    group.level_2 = level_2;
    group.channel = first;
    group.channel_2 = second;
    if (c.wild(32)) group.channel_2 = nullptr, c.refuse();
    groups[g] = group;
  }
  t.group = groups;
  t.channels = channel;
  if (c.wild(16)) t.channels = c.extent(9);
  if (c.wild(32)) t.levels = -c.below(2), c.refuse();
  if (c.wild(32)) t.groups = -1, c.refuse();
  const Wide places = product({down, across}), paths = Wide(channel) + 1;
  c.work({places, paths, 4 + rows + columns});
  return {c.keep(t), levels[0].down.count, levels[0].across.count};
}

template <class T>
void images(Case& c) {
  using Plan = std::conditional_t<std::is_same_v<T, float>, fastdl_scattering_plan_f32, fastdl_scattering_plan_f64>;
  const Tree t = tree_of(c);
  Plan* plan = nullptr;
  const auto make = FUZZ_BY_TYPE(T, fastdl_scattering_plan_make);
  const auto* tree = c.wild(32) ? (c.refuse(), nullptr) : t.tree;
  c.call("scattering_plan_make", [&] { return make(tree, &plan); });
  const std::unique_ptr<Plan, void (*)(Plan*)> owner(plan, [](Plan* made) {
    FUZZ_BY_TYPE(T, fastdl_scattering_plan_free)(made);
  });
  if (!plan) c.refuse();
  const Index batch = c.extent(4);
  const T* x = c.array<T>({batch, t.tree->height, t.tree->width}, Role::input);
  const auto results = [&](Role role) { return c.array<T>({batch, t.tree->channels, t.rows, t.columns}, role); };
  const Wide places = product({t.tree->level[0].down.size, t.tree->level[0].across.size});
  c.work({batch, places, Wide(t.tree->channels) + 1, 4});
  if (c.chance(2)) {
    T* out = results(Role::output);
    c.call("scattering_forward", [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_forward)(plan, x, batch, out); });
  } else {
    const T* grad = results(Role::input);
    T* dx = c.array<T>({batch, t.tree->height, t.tree->width}, Role::output);
    c.call("scattering_vjp", [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_vjp)(plan, x, grad, batch, dx); });
  }
}

template <class T>
void volumes(Case& c) {
  fastdl_harmonic_shape s{};
  for (Index& size : s.size) size = c.extent(6);
  s.scales = c.number(1, 3);
  s.degrees = c.number(1, 3);
  s.order = c.number(1, 2);
  s.powers = c.number(1, 3);
  const Index batch = c.extent(3);
  const Wide voxels = product({s.size[0], s.size[1], s.size[2]});
  Index* harmonics = c.array<Index>({s.degrees}, Role::input);
  double* power = c.array<double>({s.powers}, Role::input);
  const bool few = s.degrees > 0 && s.degrees < 8;
  auto** filters = c.room<const T*>(few ? s.degrees : 0, Role::input);
  for (Index i = 0; power && i < s.powers && s.powers < 8; ++i) power[i] = c.real(0.5 * double(i + 1));
  Wide all = 0;
  for (Index degree = 0; harmonics && few && degree < s.degrees; ++degree) {
    harmonics[degree] = c.number(1, 3);
    filters[degree] = c.array<T>({s.scales, harmonics[degree], voxels, 2}, Role::input);
    all += harmonics[degree] > 0 ? harmonics[degree] : 0;
  }
  s.harmonics = harmonics;
  s.power = power;
  const Wide paths =
      s.scales > 0 && s.scales < 100 && s.order == 2 ? Wide(s.scales) * (s.scales + 1) / 2 : Wide(s.scales);
  const T* x = c.array<T>({batch, voxels}, Role::input);
  c.work({batch, voxels, paths, all, 4});
  const auto* shape = c.wild(64) ? (c.refuse(), nullptr) : c.keep(s);
  const auto results = [&](Role role) { return c.array<T>({batch, paths, s.degrees, s.powers}, role); };
  if (c.chance(2)) {
    T* out = results(Role::output);
    c.call("scattering_harmonic",
           [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_harmonic)(shape, filters, x, batch, out); });
  } else {
    const T* grad = results(Role::input);
    T* dx = c.array<T>({batch, voxels}, Role::output);
    c.call("scattering_harmonic_vjp",
           [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_harmonic_vjp)(shape, filters, x, grad, batch, dx); });
  }
}

template <class T>
void any(Case& c) {
  c.chance(3) ? volumes<T>(c) : images<T>(c);
}

}  // namespace

void scattering_case(Case& c) { c.chance(2) ? any<double>(c) : any<float>(c); }

}  // namespace fuzz
