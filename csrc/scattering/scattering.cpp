// Entry points of scattering: check, then one dispatch to the active instruction-set level.
#include <memory>
#include <string>

#include "conv/checks.hpp"
#include "core/check.hpp"
#include "core/isa.hpp"
#include "scattering/bodies.hpp"
#include "scattering/plan_tables.hpp"

struct fastdl_scattering_plan_f32 {
  fastdl::scattering::PlanTables<float> tables;
};
struct fastdl_scattering_plan_f64 {
  fastdl::scattering::PlanTables<double> tables;
};

namespace fastdl::scattering {
namespace {

constexpr Index most = Index{1} << 30;  // elements of a grid, which are numbered by 32 bits

void expect(const char* name, bool valid, const char* wanted, const std::string& got) {
  if (!valid) core::fail(name, wanted, got);
}

void check_axis(const char* name, const fastdl_scattering_axis& axis) {
  expect(name, axis.size > 0 && axis.size <= most, "sizes above 0", std::to_string(axis.size));
  expect(name, axis.count > 0 && axis.count <= most, "counts above 0", std::to_string(axis.count));
  expect(name, axis.kernel != nullptr, "kernels", "NULL");
  expect(name, axis.first >= -most && axis.first <= most && axis.step >= 0 && axis.step <= most, "places of averages",
         std::to_string(axis.first) + " and every " + std::to_string(axis.step));
}

void check_places(const char* name, const Index* places, Index count, Index size) {
  expect(name, places != nullptr, "places of samples", "NULL");
  for (Index i = 0; i < count; ++i)
    if (places[i] < 0 || places[i] >= size)
      core::fail(name, "places from 0 to " + std::to_string(size - 1), std::to_string(places[i]));
}

void check_tree(const char* name, const fastdl_scattering_tree* tree) {
  expect(name, tree && tree->level, "a tree with levels", "NULL");
  expect(name, tree->levels > 0, "at least one level", std::to_string(tree->levels));
  expect(name, tree->groups >= 0 && (tree->groups == 0 || tree->group), "groups", std::to_string(tree->groups));
  expect(name, tree->height > 0 && tree->width > 0, "images of at least one sample",
         std::to_string(tree->height) + " x " + std::to_string(tree->width));
  expect(name, tree->channels > 0, "at least one channel", std::to_string(tree->channels));
  const fastdl_scattering_level& finest = tree->level[0];
  for (Index i = 0; i < tree->levels; ++i) {
    const fastdl_scattering_level& level = tree->level[i];
    check_axis(name, level.down);
    check_axis(name, level.across);
    expect(name, level.down.size <= most / (level.across.size + 1), "grids of at most 2^30 places",
           std::to_string(level.down.size) + " x " + std::to_string(level.across.size));
    expect(name, finest.down.size % level.down.size == 0 && finest.across.size % level.across.size == 0,
           "sizes that divide those of level 0",
           std::to_string(level.down.size) + " x " + std::to_string(level.across.size));
    expect(name, level.down.count == finest.down.count && level.across.count == finest.across.count,
           "as many averages as on level 0",
           std::to_string(level.down.count) + " x " + std::to_string(level.across.count));
  }
  conv::check_size(name, "images", {tree->height, tree->width});
  conv::check_size(name, "results", {tree->channels, finest.down.count, finest.across.count});
  expect(name, tree->width <= finest.across.size, "images no wider than level 0", std::to_string(tree->width));
  check_places(name, tree->place_y, finest.down.size, tree->height);
  check_places(name, tree->place_x, finest.across.size, tree->width);
  const auto channel_fits = [&](Index first, Index count) { return first >= 0 && count <= tree->channels - first; };
  for (Index g = 0; g < tree->groups; ++g) {
    const fastdl_scattering_group& group = tree->group[g];
    expect(name, group.level >= 0 && group.level < tree->levels, "levels that there are", std::to_string(group.level));
    expect(name, group.members > 0 && group.psi && group.channel && group.channel_2, "groups with members",
           std::to_string(group.members));
    expect(name, group.followers == 0 || (group.followers > 0 && group.psi_2 && group.level_2), "followers",
           std::to_string(group.followers));
    for (Index m = 0; m < group.members; ++m) {
      expect(name, group.psi[m] != nullptr, "spectra", "NULL");
      expect(name, channel_fits(group.channel[m], 1), "channels that there are", std::to_string(group.channel[m]));
      expect(name, group.followers == 0 || channel_fits(group.channel_2[m], group.followers), "channels that there are",
             std::to_string(group.channel_2[m]));
    }
    const fastdl_scattering_level& level = tree->level[group.level];
    for (Index f = 0; f < group.followers; ++f) {
      expect(name, group.psi_2[f] != nullptr, "spectra", "NULL");
      const Index which = group.level_2[f];
      expect(name, which >= 0 && which < tree->levels, "levels that there are", std::to_string(which));
      const fastdl_scattering_level& coarse = tree->level[which];
      expect(name, level.down.size % coarse.down.size == 0 && level.across.size % coarse.across.size == 0,
             "followers on levels that divide their own", std::to_string(which));
    }
  }
}

template <class Handle>
void make(const fastdl_scattering_tree* tree, Handle** plan) {
  constexpr const char* name = "scattering.plan";
  expect(name, plan != nullptr, "a place for the plan", "NULL");
  *plan = nullptr;
  check_tree(name, tree);
  *plan = new Handle{decltype(Handle::tables)(*tree)};
}

// With the arrays of images and of results.
template <class T>
void check_call(const char* name, const Plan<T>& plan, Index batch, const T* x, const T* out) {
  expect(name, batch >= 0, "a batch of at least 0", std::to_string(batch));
  if (batch > 0) expect(name, x && out, "arrays with data", "a null pointer");
  conv::check_size(name, "images", {batch, plan.samples()});
  conv::check_size(name, "results", {batch, plan.channels, plan.outputs()});
}

template <class T, class Handle>
void run_forward(const Handle* handle, const T* x, Index batch, T* out) {
  constexpr const char* name = "scattering.forward";
  expect(name, handle != nullptr, "a plan", "NULL");
  const Plan<T>& plan = handle->tables.plan();
  check_call(name, plan, batch, x, static_cast<const T*>(out));
  FASTDL_DISPATCH(forward(plan, x, batch, out));
}

template <class T, class Handle>
void run_backward(const Handle* handle, const T* x, const T* grad, Index batch, T* dx) {
  constexpr const char* name = "scattering.vjp";
  expect(name, handle != nullptr, "a plan", "NULL");
  const Plan<T>& plan = handle->tables.plan();
  check_call(name, plan, batch, x, static_cast<const T*>(dx));
  expect(name, batch == 0 || grad, "a gradient", "NULL");
  FASTDL_DISPATCH(backward(plan, x, grad, batch, dx));
}

}  // namespace
}  // namespace fastdl::scattering

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                      \
  fastdl_status fastdl_scattering_plan_make_##suffix(const fastdl_scattering_tree* tree,                               \
                                                     fastdl_scattering_plan_##suffix** plan) {                         \
    return core::guarded([&] { scattering::make(tree, plan); });                                                       \
  }                                                                                                                    \
  void fastdl_scattering_plan_free_##suffix(fastdl_scattering_plan_##suffix* plan) { delete plan; }                    \
  fastdl_status fastdl_scattering_forward_##suffix(const fastdl_scattering_plan_##suffix* plan, const T* x,            \
                                                   int64_t batch, T* out) {                                            \
    return core::guarded([&] { scattering::run_forward<T>(plan, x, batch, out); });                                    \
  }                                                                                                                    \
  fastdl_status fastdl_scattering_vjp_##suffix(const fastdl_scattering_plan_##suffix* plan, const T* x, const T* grad, \
                                               int64_t batch, T* dx) {                                                 \
    return core::guarded([&] { scattering::run_backward<T>(plan, x, grad, batch, dx); });                              \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
