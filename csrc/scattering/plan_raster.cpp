// Plans for rasters: which transforms have them, and filters by blocks of columns.
#include <algorithm>
#include <cmath>

#include "scattering/plan_tables.hpp"

namespace fastdl::scattering {
namespace {

constexpr Index round_up(Index n, Index multiple) { return (n + multiple - 1) / multiple * multiple; }

// Rows of a signal of n samples: a multiple of the blocks, as are its columns, and no more than those.
Index rows_of_signal(Index n) {
  Index rows = raster_block;
  for (Index more = rows; more * more <= n; more += raster_block)
    if (n % more == 0 && n / more % raster_block == 0) rows = more;
  return rows;
}

}  // namespace

// Where lanes of images leave the L2 cache. Places in a spectrum are numbered by 32 bits.
bool wants_rasters(const fastdl_scattering_tree& tree) {
  const Index rows = tree.level[0].down.size, columns = tree.level[0].across.size;
  if (columns > 1) return rows * columns >= 32768 && columns >= raster_block && rows * (columns + 32) < Index{1} << 30;
  bool in_rows = rows >= 16384;
  for (Index i = 0; i < tree.levels; ++i)
    in_rows = in_rows && tree.level[i].down.size % (raster_block * raster_block) == 0;
  return in_rows;
}

template <class T>
Raster<T> PlanTables<T>::raster_of(const fastdl_scattering_level& level) {
  const bool image = plan_.image;
  const Index n = level.down.size;
  Raster<T> raster{};
  raster.rows = image ? n : rows_of_signal(n);
  raster.columns = image ? level.across.size : n / raster.rows;
  raster.plane = round_up((image ? raster.columns / 2 + 1 : n) + raster_block, raster_block);
  if (raster.plane / raster_block % 2 == 0) raster.plane += raster_block;  // rows spread over the sets of a cache
  raster.pitch = 2 * raster.plane;
  const Index halved = image ? raster.columns : raster.rows;
  raster.down = transform_of(raster.rows);
  raster.across = transform_of(raster.columns);
  raster.real = transform_of(halved % 2 == 0 ? halved / 2 : halved);
  raster.low_down = windows_of(level.down, image ? 1 : level.across.kernel[0]);  // a signal has no other axis
  if (!image) {
    Numbers turns;
    for (Index first = 0; first < raster.rows; first += raster_block)
      for (Index e = 0; e < turns_of(raster.columns); ++e) {
        const Index j = e < turn_block ? e : (e - turn_block) * turn_block;
        for (const bool imaginary : {false, true})
          for (Index row = first; row < first + raster_block; ++row) {
            const double angle = -6.283185307179586476925286766559 * double(j * row % n) / double(n);
            turns.push_back(T(imaginary ? std::sin(angle) : std::cos(angle)));
          }
      }
    raster.turns = keep(numbers_, std::move(turns));
  }
  return raster;
}

template <class T>
RasterFold<T> PlanTables<T>::raster_fold_of(const Coefficients& filter, const Level<T>& from, const Level<T>& to) {
  const Raster<T>& r = to.raster;
  const bool image = plan_.image;
  const Index columns = image ? r.columns : to.ny;  // of a row of the output; those of the source follow
  const Index across = image ? from.nx : from.ny, down = image ? from.ny : 1, rows = image ? r.rows : 1;
  const Index kept = image ? across / 2 + 1 : across, pitch = image ? from.raster.pitch : 0;
  const Index step = image ? pitch : r.columns;
  std::vector<RasterRun> runs;
  std::vector<std::int32_t> first_run, offset, last, here[2];
  Numbers& coef = building_;  // one buffer that grows: what is kept is a copy of its very size
  coef.clear();
  std::vector<T> coefs[2];
  // The lanes of a term from `first` to `end`, if there is anything in them.
  const auto add = [&](int conjugate, Index place, const T* values, Index first, Index end) {
    if (std::all_of(values + std::min(first, end), values + end, [](T value) { return value == 0; })) return;
    here[conjugate].push_back(std::int32_t(place));
    for (Index i = 0; i < raster_block; ++i) coefs[conjugate].push_back(i >= first && i < end ? values[i] : T(0));
  };
  for (Index block = 0; block < (r.columns + raster_block - 1) / raster_block; ++block) {
    first_run.push_back(std::int32_t(runs.size()));
    for (Index y = 0; y < r.rows; ++y) {
      const Index x = (image ? 0 : y * r.columns) + block * raster_block;
      const Index count = std::min(raster_block, columns - x);
      for (int c : {0, 1}) here[c].clear(), coefs[c].clear();
      for (Index ky = image ? y : 0; ky < down; ky += rows)
        for (Index kx = x; kx < across; kx += columns) {
          const T* values = filter.data() + ky * across + kx;
          const Index middle = std::clamp(kept - kx, Index{0}, count), mirror = ky == 0 ? 0 : down - ky;
          add(0, ky * pitch + kx, values, 0, middle);
          add(1, mirror * pitch + across - kx - (raster_block - 1), values, middle, count);
        }
      const auto plain = std::int32_t(here[0].size()), conjugate = std::int32_t(here[1].size());
      here[0].insert(here[0].end(), here[1].begin(), here[1].end());
      bool goes_on = y > 0 && runs.back().plain == plain && runs.back().conjugate == conjugate;
      for (std::int32_t i = 0; goes_on && i < plain + conjugate; ++i)
        goes_on = here[0][std::size_t(i)] == last[std::size_t(i)] + (i < plain ? step : -step);
      if (goes_on) {
        ++runs.back().length;
      } else {
        runs.push_back({1, plain, conjugate, std::int32_t(offset.size()), std::int32_t(coef.size() / raster_block)});
        offset.insert(offset.end(), here[0].begin(), here[0].end());
      }
      last = here[0];
      for (int c : {0, 1}) coef.insert(coef.end(), coefs[c].begin(), coefs[c].end());
    }
  }
  first_run.push_back(std::int32_t(runs.size()));
  // A wavelet on the finest level is one of the first order, and follows others.
  for (const auto& [same_from, same_to, size, fold] : raster_folds_)
    if (same_from == from.ny && same_to == to.ny && size == coef.size() && fold.step == step &&
        std::equal(coef.begin(), coef.end(), fold.coef) &&
        std::equal(first_run.begin(), first_run.end(), fold.first_run) &&
        std::equal(runs.begin(), runs.end(), fold.run) && std::equal(offset.begin(), offset.end(), fold.offset))
      return fold;
  const std::size_t coefs_in_all = coef.size();
  const RasterRun* all_runs = keep(raster_runs_, std::move(runs));
  const std::int32_t* firsts = keep(offsets_, std::move(first_run));
  const std::int32_t* offsets = keep(offsets_, std::move(offset));
  raster_folds_.push_back(
      {from.ny, to.ny, coefs_in_all, {all_runs, firsts, offsets, keep(numbers_, Numbers(coef)), step}});
  return raster_folds_.back().fold;
}

#define FASTDL_MEMBERS(T)                                                      \
  template Raster<T> PlanTables<T>::raster_of(const fastdl_scattering_level&); \
  template RasterFold<T> PlanTables<T>::raster_fold_of(const Coefficients&, const Level<T>&, const Level<T>&);
FASTDL_MEMBERS(float)
FASTDL_MEMBERS(double)

}  // namespace fastdl::scattering
