// Calls of the scattering family: plans of trees with sizes of all sorts, volumes, rotations, wavelets.
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

// Filters one at a time: those that the tree itself has, or at times none.
struct Filters {
  const fastdl_scattering_tree* tree;
  bool lacking;

  static const double* give(void* context, Index group, int follower, Index number) {
    const auto& filters = *static_cast<const Filters*>(context);
    const auto& of = filters.tree->group[group];
    const auto* list = follower ? of.psi_2 : of.psi;
    return filters.lacking || !list ? nullptr : list[number];
  }
};

// Parts of levels: nearly always within them.
const fastdl_scattering_part* parts(Case& c, const fastdl_scattering_tree& tree) {
  if (tree.levels < 1) return nullptr;
  auto* part = c.room<fastdl_scattering_part>(tree.levels, Role::input);
  const auto between = [&](Index size, Index& first, Index& end) {
    const int most = int(size > 0 && size < 100 ? size : 1);
    first = c.below(most);
    end = first + c.below(int(most - first) + 1);
    if (c.wild(32)) (c.chance(2) ? first : end) = c.special(), c.refuse();
  };
  for (Index i = 0; i < tree.levels; ++i) {
    between(tree.level[i].down.size, part[i].top, part[i].bottom);
    between(tree.level[i].across.size, part[i].left, part[i].right);
  }
  return c.wild(32) ? (c.refuse(), nullptr) : part;
}

// An array for every channel, which lies on any of the levels.
template <class T>
T** channels(Case& c, const fastdl_scattering_tree& tree, Index batch, Role role) {
  const Index count = tree.channels > 0 && tree.channels < 100 ? tree.channels : 0;
  auto** list = c.room<T*>(count, Role::input);
  for (Index i = 0; i < count; ++i)
    list[i] = c.array<T>({batch, tree.level[0].down.size, tree.level[0].across.size}, role);
  return c.wild(32) && batch > 0 ? (c.refuse(), nullptr) : list;
}

template <class T>
void images(Case& c) {
  using Plan = std::conditional_t<std::is_same_v<T, float>, fastdl_scattering_plan_f32, fastdl_scattering_plan_f64>;
  const Tree t = tree_of(c);
  Plan* plan = nullptr;
  const auto make = FUZZ_BY_TYPE(T, fastdl_scattering_plan_make);
  const auto* tree = c.wild(32) ? (c.refuse(), nullptr) : t.tree;
  if (c.chance(3)) {
    Filters filters{tree, c.wild(16)};
    if (filters.lacking && t.tree->groups > 0) c.refuse();
    const auto give = c.wild(32) ? (c.refuse(), nullptr) : &Filters::give;
    const auto make_from = FUZZ_BY_TYPE(T, fastdl_scattering_plan_make_from);
    c.call("scattering_plan_make_from", [&] { return make_from(tree, give, &filters, &plan); });
  } else {
    c.call("scattering_plan_make", [&] { return make(tree, &plan); });
  }
  const std::unique_ptr<Plan, void (*)(Plan*)> owner(plan, [](Plan* made) {
    FUZZ_BY_TYPE(T, fastdl_scattering_plan_free)(made);
  });
  if (!plan) c.refuse();
  const Index batch = c.extent(4);
  const T* x = c.array<T>({batch, t.tree->height, t.tree->width}, Role::input);
  const auto results = [&](Role role) { return c.array<T>({batch, t.tree->channels, t.rows, t.columns}, role); };
  const Wide places = product({t.tree->level[0].down.size, t.tree->level[0].across.size});
  c.work({batch, places, Wide(t.tree->channels) + 1, 4});
  if (c.chance(3)) {
    const auto* part = parts(c, *t.tree);
    if (c.chance(2)) {
      T** out = channels<T>(c, *t.tree, batch, Role::output);
      c.call("scattering_moduli", [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_moduli)(plan, part, x, batch, out); });
    } else {
      const T* const* grad = channels<T>(c, *t.tree, batch, Role::input);
      T* dx = c.array<T>({batch, t.tree->height, t.tree->width}, Role::output);
      c.call("scattering_moduli_vjp",
             [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_moduli_vjp)(plan, part, x, grad, batch, dx); });
    }
  } else if (c.chance(2)) {
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
void rotations(Case& c) {
  using Plan = std::conditional_t<std::is_same_v<T, float>, fastdl_roto_plan_f32, fastdl_roto_plan_f64>;
  fastdl_roto_bank b{};
  const Index scales = 1 + c.below(3), angles = 1 + c.below(5);
  const Index rows = 1 + c.below(3), columns = 1 + c.below(3);
  const Index down = (1 + c.below(4)) << (scales - 1), across = (1 + c.below(4)) << (scales - 1);
  auto* levels = c.room<fastdl_scattering_level>(scales, Role::input);
  for (Index j = 0; j < scales; ++j) levels[j] = {axis(c, down >> j, rows), axis(c, across >> j, columns)};
  b.level = levels;
  b.height = c.chance(2) ? down : c.extent(16);
  b.width = c.chance(2) ? across : 1 + c.below(int(across));
  if (c.wild(16)) b.width = c.extent(16);
  b.place_y = c.places({down}, b.height);
  b.place_x = c.places({across}, b.width);
  b.filters = 1 + c.below(3);
  b.order = 1 + c.below(2);
  b.phase_y = c.array<double>({down, 2}, Role::input);
  b.phase_x = c.array<double>({across, 2}, Role::input);
  b.first = c.array<double>({scales, angles, down, across}, Role::input);
  b.angular = c.array<double>({b.filters, 2 * angles, 2}, Role::input);
  auto** second = c.room<const double*>(scales - 1, Role::input);
  for (Index j = 0; j + 1 < scales; ++j)
    second[j] = b.order == 1 ? nullptr : c.array<double>({scales - 1 - j, angles, down >> j, across >> j}, Role::input);
  b.second = second;
  b.scales = scales;
  b.angles = angles;
  const Index pairs = b.order == 2 ? scales * (scales - 1) / 2 : 0;
  const Index paths = 1 + scales + pairs * angles * b.filters;
  if (c.wild(16)) b.scales = -c.below(2), c.refuse();
  if (c.wild(16)) b.angles = -c.below(2), c.refuse();
  if (c.wild(16)) b.filters = -c.below(2), c.refuse();
  if (c.wild(16)) b.order = c.special(), c.refuse();
  c.work({down * across, angles, paths, 4});

  Plan* plan = nullptr;
  const auto* bank = c.wild(32) ? (c.refuse(), nullptr) : c.keep(b);
  c.call("roto_plan_make", [&] { return FUZZ_BY_TYPE(T, fastdl_roto_plan_make)(bank, &plan); });
  const std::unique_ptr<Plan, void (*)(Plan*)> owner(plan, [](Plan* made) {
    FUZZ_BY_TYPE(T, fastdl_roto_plan_free)(made);
  });
  if (!plan) c.refuse();
  const Index batch = c.extent(3);
  const T* x = c.array<T>({batch, b.height, b.width}, Role::input);
  const auto results = [&](Role role) {
    return c.array<T>({batch, paths, levels[0].down.count, levels[0].across.count}, role);
  };
  c.work({batch, down * across, angles, paths, 4});
  if (c.chance(2)) {
    T* out = results(Role::output);
    c.call("scattering_roto", [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_roto)(plan, x, batch, out); });
  } else {
    const T* grad = results(Role::input);
    T* dx = c.array<T>({batch, b.height, b.width}, Role::output);
    c.call("scattering_roto_vjp",
           [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_roto_vjp)(plan, x, grad, batch, dx); });
  }
}

template <class T>
void wavelets(Case& c) {
  fastdl_wavelet_shape s{};
  const Index scales = c.below(4);
  s.scales = scales;
  s.batch = c.extent(4);
  s.height = Index(c.below(5)) << scales;
  s.width = Index(c.below(5)) << scales;
  if (c.wild(16)) s.height = c.extent(40);
  if (c.wild(16)) s.width = c.extent(40);
  s.taps = c.number(1, 12);
  s.low = c.array<double>({s.taps}, Role::input);
  s.high = c.array<double>({s.taps}, Role::input);
  if (s.taps < 2 || s.taps % 2 != 0) c.refuse();
  auto** details = c.room<T*>(scales, Role::input);
  const bool inverse = c.chance(2);
  const Role role = inverse ? Role::input : Role::output;
  const auto part = [](Index size, Index scale) { return size > 0 ? size >> scale : size; };
  for (Index j = 1; j <= scales; ++j)
    details[j - 1] = c.array<T>({s.batch, 3, part(s.height, j), part(s.width, j)}, role);
  T* approximation = c.array<T>({s.batch, part(s.height, scales), part(s.width, scales)}, role);
  T* x = c.array<T>({s.batch, s.height, s.width}, inverse ? Role::output : Role::input);
  if (c.wild(16)) s.scales = c.special(), c.refuse();
  c.work({s.batch, s.height, s.width, s.taps, 4});
  const auto* shape = c.wild(32) ? (c.refuse(), nullptr) : c.keep(s);
  if (inverse)
    c.call("scattering_wavelet_inverse",
           [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_wavelet_inverse)(shape, approximation, details, x); });
  else
    c.call("scattering_wavelet",
           [&] { return FUZZ_BY_TYPE(T, fastdl_scattering_wavelet)(shape, x, approximation, details); });
}

template <class T>
void any(Case& c) {
  switch (c.below(6)) {
    case 0:
      return volumes<T>(c);
    case 1:
      return rotations<T>(c);
    case 2:
      return wavelets<T>(c);
    default:
      return images<T>(c);
  }
}

}  // namespace

void scattering_case(Case& c) { c.chance(2) ? any<double>(c) : any<float>(c); }

}  // namespace fuzz
