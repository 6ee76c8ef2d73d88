// Entry points of scattering on rotations and translations: check, then one dispatch to the active level.
#include <string>

#include "conv/checks.hpp"
#include "core/isa.hpp"
#include "scattering/bodies.hpp"
#include "scattering/roto_tables.hpp"
#include "scattering/tree_checks.hpp"

struct fastdl_roto_plan_f32 {
  explicit fastdl_roto_plan_f32(const fastdl_roto_bank& bank) : tables(bank) {}
  fastdl::scattering::RotoTables<float> tables;
};
struct fastdl_roto_plan_f64 {
  explicit fastdl_roto_plan_f64(const fastdl_roto_bank& bank) : tables(bank) {}
  fastdl::scattering::RotoTables<double> tables;
};

namespace fastdl::scattering {
namespace {

void check_bank(const char* name, const fastdl_roto_bank* bank) {
  expect(name, bank && bank->level, "a bank with levels", "NULL");
  const auto number = [&](bool valid, const char* wanted, Index got) {
    expect(name, valid, wanted, std::to_string(got));
  };
  number(bank->scales > 0 && bank->scales <= 60, "1 to 60 scales", bank->scales);
  number(bank->angles > 0 && bank->angles <= 4096, "1 to 4096 angles", bank->angles);
  number(bank->filters > 0 && bank->filters <= 4096, "1 to 4096 filters along angles", bank->filters);
  number(bank->order == 1 || bank->order == 2, "order 1 or 2", bank->order);
  expect(name, bank->height > 0 && bank->width > 0, "images of at least one sample",
         std::to_string(bank->height) + " x " + std::to_string(bank->width));
  const fastdl_scattering_level& finest = bank->level[0];
  for (Index j = 0; j < bank->scales; ++j) {
    const fastdl_scattering_level& level = bank->level[j];
    check_level(name, level, finest);
    expect(name, finest.down.size >> j == level.down.size && finest.across.size >> j == level.across.size,
           "half as many samples from level to level",
           std::to_string(level.down.size) + " x " + std::to_string(level.across.size));
  }
  const Index paths = bank->scales * bank->scales * bank->angles * bank->filters + bank->scales + 1;
  conv::check_size(name, "images", {bank->height, bank->width});
  conv::check_size(name, "results", {paths, finest.down.count, finest.across.count});
  conv::check_size(name, "spectra", {bank->scales, bank->angles, finest.down.size, finest.across.size});
  expect(name, bank->width <= finest.across.size, "images no wider than level 0", std::to_string(bank->width));
  check_places(name, bank->place_y, finest.down.size, bank->height);
  check_places(name, bank->place_x, finest.across.size, bank->width);
  expect(name, bank->phase_y && bank->phase_x && bank->first && bank->angular, "phases and filters", "NULL");
  if (bank->order == 1 || bank->scales == 1) return;
  expect(name, bank->second != nullptr, "wavelets of the second order", "NULL");
  for (Index j = 0; j + 1 < bank->scales; ++j)
    expect(name, bank->second[j] != nullptr, "wavelets of the second order", "NULL");
}

template <class Handle>
void make(const fastdl_roto_bank* bank, Handle** plan) {
  constexpr const char* name = "scattering.roto_plan";
  expect(name, plan != nullptr, "a place for the plan", "NULL");
  *plan = nullptr;
  check_bank(name, bank);
  *plan = new Handle(*bank);
}

template <class T, class Handle>
const Roto<T>& checked(const char* name, const Handle* handle, Index batch, const T* x, const T* out) {
  expect(name, handle != nullptr, "a plan", "NULL");
  const Roto<T>& roto = handle->tables.roto();
  expect(name, batch >= 0, "a batch of at least 0", std::to_string(batch));
  if (batch > 0) expect(name, x && out, "arrays with data", "a null pointer");
  conv::check_size(name, "images", {batch, roto.plan.samples()});
  conv::check_size(name, "results", {batch, roto.plan.channels, roto.plan.outputs()});
  return roto;
}

template <class T, class Handle>
void compute(const Handle* handle, const T* x, Index batch, T* out) {
  const Roto<T>& plan = checked<T>("scattering.roto", handle, batch, x, out);
  FASTDL_DISPATCH(roto(plan, x, batch, out));
}

template <class T, class Handle>
void compute_vjp(const Handle* handle, const T* x, const T* grad, Index batch, T* dx) {
  constexpr const char* name = "scattering.roto_vjp";
  const Roto<T>& plan = checked<T>(name, handle, batch, x, dx);
  expect(name, batch == 0 || grad, "a gradient", "NULL");
  FASTDL_DISPATCH(roto_vjp(plan, x, grad, batch, dx));
}

}  // namespace
}  // namespace fastdl::scattering

using namespace fastdl;

#define FASTDL_ENTRIES(suffix, T)                                                                                     \
  fastdl_status fastdl_roto_plan_make_##suffix(const fastdl_roto_bank* bank, fastdl_roto_plan_##suffix** plan) {      \
    return core::guarded([&] { scattering::make(bank, plan); });                                                      \
  }                                                                                                                   \
  void fastdl_roto_plan_free_##suffix(fastdl_roto_plan_##suffix* plan) { delete plan; }                               \
  fastdl_status fastdl_scattering_roto_##suffix(const fastdl_roto_plan_##suffix* plan, const T* x, int64_t batch,     \
                                                T* out) {                                                             \
    return core::guarded([&] { scattering::compute<T>(plan, x, batch, out); });                                       \
  }                                                                                                                   \
  fastdl_status fastdl_scattering_roto_vjp_##suffix(const fastdl_roto_plan_##suffix* plan, const T* x, const T* grad, \
                                                    int64_t batch, T* dx) {                                           \
    return core::guarded([&] { scattering::compute_vjp<T>(plan, x, grad, batch, dx); });                              \
  }
FASTDL_ENTRIES(f32, float)
FASTDL_ENTRIES(f64, double)
