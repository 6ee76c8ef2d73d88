// A plan with the memory that it points to.
#pragma once

#include <deque>
#include <vector>

#include "core/aligned.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {

// Which way images go: lanes of images and wavelets, or rasters. By itself the plan decides by their size.
enum class Layout { automatic, lanes, rasters };

bool wants_rasters(const fastdl_scattering_tree& tree);

// Where filters come from: the tree's own, or a caller who gives one at a time.
struct FilterSource {
  const fastdl_scattering_tree& tree;
  fastdl_scattering_filter give;  // or null
  void* context;

  // Of member or follower `number` of a group; it stays until the next one is asked for.
  const double* operator()(Index group, bool follower, Index number) const;
};

// What is left of a spectrum without what is negligible, with the factors of the inverse transform and of folding.
template <class T>
std::vector<T> coefficients_of(const double* psi, Index size);

template <class T>
class PlanTables {
 public:
  explicit PlanTables(const fastdl_scattering_tree& tree, Layout layout = Layout::automatic,
                      fastdl_scattering_filter give = nullptr, void* context = nullptr);

  const Plan<T>& plan() const { return plan_; }

 protected:
  using Coefficients = std::vector<T>;  // of a filter on all places of a grid
  using Numbers = core::AlignedVector<T>;

  PlanTables() = default;  // of a transform that is no tree, and fills them by itself

  Averages<T> averages_of(const fastdl_scattering_axis& axis);
  Averages<T> mirrored(const std::vector<double>& matrix, Index sum, Averages<T> averages);
  Fold<T> fold_of(const std::vector<Coefficients>& filters, const Level<T>& from, const Level<T>& to);
  const fft::Plan<T>* transform_of(Index n);
  void add_lanes(Level<T>& level);
  Group<T> with_lanes(const Group<T>& group, const std::vector<Coefficients>& members,
                      const std::vector<Coefficients>& followers);

  Windows<T> windows_of(const fastdl_scattering_axis& axis, double scale);
  Raster<T> raster_of(const fastdl_scattering_level& level);
  RasterFold<T> raster_fold_of(const Coefficients& filter, const Level<T>& from, const Level<T>& to);

  template <class V>
  const typename V::value_type* keep(std::deque<V>& where, V&& values) {
    where.push_back(std::move(values));
    return where.back().data();
  }

  Plan<T> plan_{};
  std::deque<fft::SharedPlan<T>> transforms_;
  std::deque<std::vector<Index>> indices_;
  std::deque<std::vector<std::int32_t>> offsets_;
  std::deque<std::vector<Run>> runs_;
  std::deque<std::vector<RasterRun>> raster_runs_;
  struct KnownFold {
    Index from, to;  // rows of the levels
    std::size_t coefficients;
    RasterFold<T> fold;
  };
  std::deque<KnownFold> raster_folds_;
  Numbers building_;
  std::deque<Numbers> numbers_;
  std::deque<std::vector<Wavelet<T>>> wavelets_;
  std::vector<Level<T>> levels_;
  std::vector<Group<T>> groups_;
};

}  // namespace fastdl::scattering
