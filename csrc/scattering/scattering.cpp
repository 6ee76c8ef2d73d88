// Entry points of scattering: check, then one dispatch to the active instruction-set level.
#include <memory>
#include <string>

#include "conv/checks.hpp"
#include "core/check.hpp"
#include "core/isa.hpp"
#include "scattering/bodies.hpp"
#include "scattering/plan_tables.hpp"
#include "scattering/tree_checks.hpp"

struct fastdl_scattering_plan_f32 {
  fastdl_scattering_plan_f32(const fastdl_scattering_tree& tree, fastdl_scattering_filter give, void* context)
      : tables(tree, fastdl::scattering::Layout::automatic, give, context) {}
  fastdl::scattering::PlanTables<float> tables;
};
struct fastdl_scattering_plan_f64 {
  fastdl_scattering_plan_f64(const fastdl_scattering_tree& tree, fastdl_scattering_filter give, void* context)
      : tables(tree, fastdl::scattering::Layout::automatic, give, context) {}
  fastdl::scattering::PlanTables<double> tables;
};

namespace fastdl::scattering {
namespace {

void check_tree(const char* name, const fastdl_scattering_tree* tree, bool with_filters) {
  expect(name, tree && tree->level, "a tree with levels", "NULL");
  expect(name, tree->levels > 0, "at least one level", std::to_string(tree->levels));
  expect(name, tree->groups >= 0 && (tree->groups == 0 || tree->group), "groups", std::to_string(tree->groups));
  expect(name, tree->height > 0 && tree->width > 0, "images of at least one sample",
         std::to_string(tree->height) + " x " + std::to_string(tree->width));
  expect(name, tree->channels > 0, "at least one channel", std::to_string(tree->channels));
  const fastdl_scattering_level& finest = tree->level[0];
  for (Index i = 0; i < tree->levels; ++i) check_level(name, tree->level[i], finest);
  conv::check_size(name, "images", {tree->height, tree->width});
  conv::check_size(name, "results", {tree->channels, finest.down.count, finest.across.count});
  expect(name, tree->width <= finest.across.size, "images no wider than level 0", std::to_string(tree->width));
  check_places(name, tree->place_y, finest.down.size, tree->height);
  check_places(name, tree->place_x, finest.across.size, tree->width);
  const auto channel_fits = [&](Index first, Index count) { return first >= 0 && count <= tree->channels - first; };
  for (Index g = 0; g < tree->groups; ++g) {
    const fastdl_scattering_group& group = tree->group[g];
    expect(name, group.level >= 0 && group.level < tree->levels, "levels that there are", std::to_string(group.level));
    expect(name, group.members > 0, "groups with members", std::to_string(group.members));
    expect(name, (group.psi || !with_filters) && group.channel, "spectra and channels of members", "NULL");
    expect(name, group.followers >= 0, "at least 0 followers", std::to_string(group.followers));
    expect(name, group.followers == 0 || ((group.psi_2 || !with_filters) && group.level_2 && group.channel_2),
           "spectra, levels and channels of followers", "NULL");
    for (Index m = 0; m < group.members; ++m) {
      if (with_filters) expect(name, group.psi[m] != nullptr, "spectra", "NULL");
      expect(name, channel_fits(group.channel[m], 1), "channels that there are", std::to_string(group.channel[m]));
      if (group.followers > 0)
        expect(name, channel_fits(group.channel_2[m], group.followers), "channels that there are",
               std::to_string(group.channel_2[m]));
    }
    const fastdl_scattering_level& level = tree->level[group.level];
    for (Index f = 0; f < group.followers; ++f) {
      if (with_filters) expect(name, group.psi_2[f] != nullptr, "spectra", "NULL");
      const Index which = group.level_2[f];
      expect(name, which >= 0 && which < tree->levels, "levels that there are", std::to_string(which));
      const fastdl_scattering_level& coarse = tree->level[which];
      expect(name, level.down.size % coarse.down.size == 0 && level.across.size % coarse.across.size == 0,
             "followers on levels that divide their own", std::to_string(which));
    }
  }
}

template <class Handle>
void make(const fastdl_scattering_tree* tree, fastdl_scattering_filter give, void* context, Handle** plan) {
  constexpr const char* name = "scattering.plan";
  expect(name, plan != nullptr, "a place for the plan", "NULL");
  *plan = nullptr;
  check_tree(name, tree, give == nullptr);
  *plan = new Handle(*tree, give, context);
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
  if (plan.large) {
    FASTDL_DISPATCH(large(plan, x, batch, out));
  } else {
    FASTDL_DISPATCH(forward(plan, x, batch, out));
  }
}

template <class T, class Handle>
void run_backward(const Handle* handle, const T* x, const T* grad, Index batch, T* dx) {
  constexpr const char* name = "scattering.vjp";
  expect(name, handle != nullptr, "a plan", "NULL");
  const Plan<T>& plan = handle->tables.plan();
  check_call(name, plan, batch, x, static_cast<const T*>(dx));
  expect(name, batch == 0 || grad, "a gradient", "NULL");
  if (plan.large) {
    FASTDL_DISPATCH(large_vjp(plan, x, grad, batch, dx));
  } else {
    FASTDL_DISPATCH(backward(plan, x, grad, batch, dx));
  }
}

// Of a call without averages; `all` are the arrays of the channels.
template <class T, class Handle, class Array>
const Plan<T>& check_moduli(const char* name, const Handle* handle, const fastdl_scattering_part* part, const T* x,
                            Index batch, Array* const* all) {
  expect(name, handle != nullptr, "a plan", "NULL");
  const Plan<T>& plan = handle->tables.plan();
  expect(name, part != nullptr, "a part of every level", "NULL");
  expect(name, batch >= 0, "a batch of at least 0", std::to_string(batch));
  conv::check_size(name, "images", {batch, plan.samples()});
  for (Index i = 0; i < plan.levels; ++i) {
    const fastdl_scattering_part& p = part[i];
    expect(name,
           0 <= p.top && p.top <= p.bottom && p.bottom <= plan.level[i].ny && 0 <= p.left && p.left <= p.right &&
               p.right <= plan.level[i].nx,
           "parts within their levels",
           std::to_string(p.top) + " to " + std::to_string(p.bottom) + " by " + std::to_string(p.left) + " to " +
               std::to_string(p.right));
    conv::check_size(name, "results", {batch, plan.level[i].ny, plan.level[i].nx});
  }
  if (batch == 0) return plan;
  expect(name, x && all, "arrays with data", "a null pointer");
  for (Index c = 0; c < plan.channels; ++c) expect(name, all[c] != nullptr, "an array for every channel", "NULL");
  return plan;
}

template <class T, class Handle>
void run_moduli(const Handle* handle, const fastdl_scattering_part* part, const T* x, Index batch, T* const* out) {
  const Plan<T>& plan = check_moduli<T>("scattering.moduli", handle, part, x, batch, out);
  if (batch == 0) return;
  if (plan.large) {
    FASTDL_DISPATCH(large_moduli(plan, part, x, batch, out));
  } else {
    FASTDL_DISPATCH(moduli(plan, part, x, batch, out));
  }
}

template <class T, class Handle>
void run_moduli_vjp(const Handle* handle, const fastdl_scattering_part* part, const T* x, const T* const* grad,
                    Index batch, T* dx) {
  constexpr const char* name = "scattering.moduli_vjp";
  const Plan<T>& plan = check_moduli<T>(name, handle, part, x, batch, grad);
  if (batch == 0) return;
  expect(name, dx != nullptr, "arrays with data", "a null pointer");
  if (plan.large) {
    FASTDL_DISPATCH(large_moduli_vjp(plan, part, x, grad, batch, dx));
  } else {
    FASTDL_DISPATCH(moduli_vjp(plan, part, x, grad, batch, dx));
  }
}

}  // namespace
}  // namespace fastdl::scattering

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                      \
  fastdl_status fastdl_scattering_plan_make_##suffix(const fastdl_scattering_tree* tree,                               \
                                                     fastdl_scattering_plan_##suffix** plan) {                         \
    return core::guarded([&] { scattering::make(tree, nullptr, nullptr, plan); });                                     \
  }                                                                                                                    \
  fastdl_status fastdl_scattering_plan_make_from_##suffix(const fastdl_scattering_tree* tree,                          \
                                                          fastdl_scattering_filter give, void* context,                \
                                                          fastdl_scattering_plan_##suffix** plan) {                    \
    return core::guarded([&] {                                                                                         \
      scattering::expect("scattering.plan", give != nullptr, "a function that gives filters", "NULL");                 \
      scattering::make(tree, give, context, plan);                                                                     \
    });                                                                                                                \
  }                                                                                                                    \
  void fastdl_scattering_plan_free_##suffix(fastdl_scattering_plan_##suffix* plan) { delete plan; }                    \
  fastdl_status fastdl_scattering_forward_##suffix(const fastdl_scattering_plan_##suffix* plan, const T* x,            \
                                                   int64_t batch, T* out) {                                            \
    return core::guarded([&] { scattering::run_forward<T>(plan, x, batch, out); });                                    \
  }                                                                                                                    \
  fastdl_status fastdl_scattering_vjp_##suffix(const fastdl_scattering_plan_##suffix* plan, const T* x, const T* grad, \
                                               int64_t batch, T* dx) {                                                 \
    return core::guarded([&] { scattering::run_backward<T>(plan, x, grad, batch, dx); });                              \
  }                                                                                                                    \
  fastdl_status fastdl_scattering_moduli_##suffix(const fastdl_scattering_plan_##suffix* plan,                         \
                                                  const fastdl_scattering_part* part, const T* x, int64_t batch,       \
                                                  T* const* out) {                                                     \
    return core::guarded([&] { scattering::run_moduli<T>(plan, part, x, batch, out); });                               \
  }                                                                                                                    \
  fastdl_status fastdl_scattering_moduli_vjp_##suffix(const fastdl_scattering_plan_##suffix* plan,                     \
                                                      const fastdl_scattering_part* part, const T* x,                  \
                                                      const T* const* grad, int64_t batch, T* dx) {                    \
    return core::guarded([&] { scattering::run_moduli_vjp<T>(plan, part, x, grad, batch, dx); });                      \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
