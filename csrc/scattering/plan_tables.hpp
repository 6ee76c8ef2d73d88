// A plan with the memory that it points to.
#pragma once

#include <deque>
#include <vector>

#include "scattering/plan.hpp"

namespace fastdl::scattering {

template <class T>
class PlanTables {
 public:
  explicit PlanTables(const fastdl_scattering_tree& tree);
  const Plan<T>& plan() const { return plan_; }

 private:
  Averages<T> averages_of(const fastdl_scattering_axis& axis);
  Fold<T> fold_of(const double* const* psi, Index filters, const Level<T>& from, const Level<T>& to);
  const fft::Plan<T>* transform_of(Index n);

  template <class U>
  const U* keep(std::deque<std::vector<U>>& where, std::vector<U>&& values) {
    where.push_back(std::move(values));
    return where.back().data();
  }

  Plan<T> plan_;
  std::deque<fft::SharedPlan<T>> transforms_;
  std::deque<std::vector<Index>> indices_;
  std::deque<std::vector<std::int32_t>> offsets_;
  std::deque<std::vector<Run>> runs_;
  std::deque<std::vector<T>> numbers_;
  std::deque<std::vector<Wavelet<T>>> wavelets_;
  std::vector<Level<T>> levels_;
  std::vector<Group<T>> groups_;
};

}  // namespace fastdl::scattering
