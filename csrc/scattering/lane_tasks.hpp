// How few images are spread over lanes: a lane is an image with a wavelet of the first order.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "scattering/lanes.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {
namespace {

// Whether images alone fill the lanes. It decides how sums are ordered, so the number of threads has no say in it.
template <class T>
constexpr bool many_images(Index batch) {
  return batch >= 4 * lanes<T>;
}

template <class T>
int threads_for(const Plan<T>& plan, Index images) {
  return plan.flops * double(images) < 2e5 ? 1 : core::thread_count();  // below 30 us or so
}

// Of images without averages, the images themselves, padded: a part of level 0.
template <class T>
void images_themselves(const Plan<T>& plan, const fastdl_scattering_part& p, const T* x, Index batch, T* to) {
  for (Index image = 0; image < batch; ++image, x += plan.samples())
    for (Index y = p.top; y < p.bottom; ++y)
      for (Index i = p.left; i < p.right; ++i) *to++ = x[plan.place_y[y] * plan.width_of_image + plan.place_x[i]];
}

// Lanes `first` to `first + count - 1` of all pairs of an image of the block and a member of the group.
struct LaneTask {
  Index group, first;
  int count;
};

template <class T>
Index lane_fulls(const Plan<T>& plan, Index images, Index group) {
  return (images * plan.group[group].members + lanes<T> - 1) / lanes<T>;
}

template <class T>
Index lane_task_count(const Plan<T>& plan, Index images) {
  Index total = 0;
  for (Index g = 0; g < plan.groups; ++g) total += lane_fulls(plan, images, g);
  return total;
}

template <class T>
LaneTask lane_task(const Plan<T>& plan, Index images, Index number) {
  Index g = 0;
  for (; number >= lane_fulls(plan, images, g); ++g) number -= lane_fulls(plan, images, g);
  const Index first = number * lanes<T>, left = images * plan.group[g].members - first;
  return {g, first, int(left < lanes<T> ? left : lanes<T>)};
}

// What the lanes of a task are. Lanes beyond its count repeat the last one.
template <class T>
struct LanePaths {
  Index number[lanes<T>], member[lanes<T>], channel[lanes<T>], channel_2[lanes<T>];
  simd::IntVec<T> image;  // lane of the image in its block
  bool in_order = true;   // lane l has member l

  LanePaths(const Group<T>& group, const LaneTask& task, Index block) {
    for (int l = 0; l < lanes<T>; ++l) {
      const Index pair = task.first + (l < task.count ? l : task.count - 1);
      const Index which = pair / group.members;
      member[l] = pair % group.members;
      number[l] = block + which;
      channel[l] = group.channel[member[l]];
      channel_2[l] = group.channel_2[member[l]];
      image[l] = typename simd::Types<T>::Integer(which);
      in_order = in_order && member[l] == l;
    }
    in_order = in_order && group.members == lanes<T>;
  }

  // Coefficients of every term, a lane each.
  const T* coefficients(const Group<T>& group, core::Scratch& scratch) const {
    if (in_order) return group.together.coef;
    const Index terms = group.together.terms;
    T* coef = scratch.array<T>(terms, lanes<T>);
    for (Index t = 0; t < terms; ++t)
      for (int l = 0; l < lanes<T>; ++l) coef[t * lanes<T> + l] = group.together.coef[t * group.members + member[l]];
    return coef;
  }
};

}  // namespace
}  // namespace fastdl::scattering
