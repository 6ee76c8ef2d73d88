// A plan of scattering on rotations and translations with the memory that it points to.
#pragma once

#include "scattering/plan_tables.hpp"
#include "scattering/roto_plan.hpp"

namespace fastdl::scattering {

template <class T>
class RotoTables : PlanTables<T> {
 public:
  explicit RotoTables(const fastdl_roto_bank& bank);

  const Roto<T>& roto() const { return roto_; }

 private:
  using Base = PlanTables<T>;

  Level<T> level_of(const fastdl_scattering_axis& down, const fastdl_scattering_axis& across);
  Fold<T> fold_of_angles(const double* psi, const Level<T>& from, const Level<T>& to);
  AngularFilter<T> filter_of(const double* filter);

  Roto<T> roto_{};
  std::vector<Fold<T>> first_, second_;
  std::vector<AngularFilter<T>> angular_;
};

}  // namespace fastdl::scattering
