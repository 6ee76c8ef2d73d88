// How large images and long signals are shared out: a task is a wavelet of the first order with all that follow it.
#pragma once

#include "scattering/lane_tasks.hpp"
#include "scattering/raster.hpp"

namespace fastdl::scattering {
namespace {

template <class T>
Index members_of(const Plan<T>& plan) {
  Index members = 0;
  for (Index g = 0; g < plan.groups; ++g) members += plan.group[g].members;
  return members;
}

// Which member of which group.
template <class T>
struct RasterMember {
  const Group<T>& group;
  Index number;
};

template <class T>
RasterMember<T> raster_member(const Plan<T>& plan, Index number) {
  Index g = 0;
  for (; number >= plan.group[g].members; ++g) number -= plan.group[g].members;
  return {plan.group[g], number};
}

template <class T>
void raster_start(const Plan<T>& plan, const T* x, T* x_hat, T* averages, const RasterWork<T>& work) {
  (plan.image ? image_start<T> : signal_start<T>)(plan, x, x_hat, averages, work);
}

}  // namespace
}  // namespace fastdl::scattering
